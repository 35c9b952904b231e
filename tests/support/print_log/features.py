"""The features of the print log: which printer, and at what time of day."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.features.feature_set import Feature, FeatureSet
from fingerprint.features.value_texts import of_text, time_of_day, time_of_day_text


def is_write(events: pd.DataFrame) -> NDArray[np.bool_]:
    return np.ones(len(events), bool)


FEATURE_SET = FeatureSet(
    (
        Feature("action", "printer", "value", "what", ("action",), of_text(str)),
        Feature("hour", "time of day", "bin", "time", ("hour",), time_of_day_text, weight=0.4),
    ),
    is_write,
    {"hour": time_of_day},
)
