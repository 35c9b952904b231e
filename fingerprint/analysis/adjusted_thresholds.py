"""Which thresholds that analysts' words had moved the events of an alert were held to.

Example:
    >>> moved(Path("bank"), alert, settings)
    [{'key': '123456789012:user/ana|s3|direct', 'threshold': 4.0, 'shift': 0.0646, 'benign': 3, 'malicious': 0}]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from fingerprint.core.alert import LEVELS, Alert, FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.registry import bank as banks
from fingerprint.registry import quality, versions
from fingerprint.registry.bank import FEEDBACK_COLUMNS


def adjusted_thresholds(folder: Path, alert: Alert, settings: Settings) -> list[dict[str, Any]]:
    """By whose fingerprint (`key`, an entity or the principal) the events of an alert were held to a threshold that was moved by
    `shift`, a share of it; and for how many alerts. Nothing where the bank that measured them is not kept in the folder."""
    keys = sorted({alert.principal, *(event.entity for event in alert.events)})
    try:
        found = banks.find_fingerprints(folder, alert.bank_version, keys, settings.bank)
        figures = banks.read_manifest(versions.version_folder(folder, alert.bank_version), settings.bank)[
            "quality"
        ]
    except FingerprintError:
        return []
    held = _deciding_fingerprints(found, alert)
    usual = quality.calibrated_threshold(figures, settings.autoencoder)
    return [
        {
            "key": str(key),
            "threshold": round(usual, 4),
            "shift": round(float(shift), 4),
            "benign": int(benign),
            "malicious": int(malicious),
        }
        for key, shift, benign, malicious in held[["key", *FEEDBACK_COLUMNS]].itertuples(index=False)
    ]


def _deciding_fingerprints(found: pd.DataFrame, alert: Alert) -> pd.DataFrame:
    """Of the fingerprints found, those that judged the alert's events, if their threshold was moved: an entity that is ready
    by its own, the others by their principal's."""
    if FEEDBACK_COLUMNS[0] not in found:
        return pd.DataFrame(columns=["key", *FEEDBACK_COLUMNS])
    ready = found[found["ready"]]
    own = ready[ready["level"] == LEVELS.index("entity")]
    if not {event.entity for event in alert.events} <= set(own["key"]):
        own = pd.concat([own, ready[ready["level"] == LEVELS.index("principal")]])
    return own[own["shift"] != 0]
