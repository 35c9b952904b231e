"""The features of the log source that this process reads: events -> one 64-bit code per event and feature.

Example:
    >>> codes = FEATURE_SET.encode(events)                     # events from sources.entities.add_entity_columns
    >>> codes.shape == (len(events), len(FEATURES))
    True

The log source defines the features: `features.FEATURE_SET` of the package that `core.log_source` names. It is loaded once, when
this module is imported, and never changes. Estimators, scorer state and bank all use the arrays below. Codes lie on the device of
the events; the texts of distinct values are made on the host.
"""

from __future__ import annotations

from importlib import import_module

from fingerprint.core.log_source import LOG_SOURCE_PACKAGE
from fingerprint.features.feature_set import EVIDENCE_GROUPS as EVIDENCE_GROUPS
from fingerprint.features.feature_set import Feature, FeatureSet

FEATURE_SET: FeatureSet = import_module(f"{LOG_SOURCE_PACKAGE}.features").FEATURE_SET

FEATURES: tuple[Feature, ...] = FEATURE_SET.features
FEATURE_NAMES = FEATURE_SET.names
ACTION_COLUMN = FEATURE_NAMES.index("action")
GIVEN_FEATURE = FEATURE_SET.given  # (F,)
FEATURE_WEIGHTS = FEATURE_SET.weights  # (F,)
IS_BIN = FEATURE_SET.is_bin  # (F,)
IS_OPEN = FEATURE_SET.is_open  # (F,)
IS_RESOURCE = FEATURE_SET.is_resource  # (F,)
ACCOUNT_FEATURES = FEATURE_SET.account_features  # positions
OTHER_ACCOUNT_FEATURE = FEATURE_SET.other_account_feature  # position; None without one
EVIDENCE_GROUP_FEATURES = FEATURE_SET.evidence_group_features
# Position of a counting feature, and positions of the features that it counts
DAY_COUNTS = FEATURE_SET.day_counts
CODES_WITHOUT_EVIDENCE = FEATURE_SET.codes_without_evidence  # by position


def parameter_names(text: str) -> str:
    """Return the text that is shown for the parameters feature: `ec2:RunInstances(imageId,maxCount)` -> `imageId, maxCount`."""
    return text.partition("(")[2].removesuffix(")").replace(",", ", ") or "none"
