"""The features of the log source that this process reads: events -> one 64-bit code per event and feature.

Example:
    >>> codes = encode_events(events)                      # events from sources.entities.add_entity_columns
    >>> codes.shape == (len(events), len(FEATURES))
    True

Which features there are is the log source's: `features.FEATURE_SET` of the package that `core.log_source` names. It is loaded
once, when this module is imported, and never changes; the arrays below are those of all estimators, the scorer state and the
bank. Codes lie where the events do; the distinct values of a column get their texts on the host.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute.arrays import Array
from fingerprint.compute.frames import Frame
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
CODES_WITHOUT_EVIDENCE = FEATURE_SET.codes_without_evidence  # by position


def encode_events(events: Frame) -> Array:
    """Return codes (N, F) uint64 of N events, F in the order of FEATURES; a missing value is `hashing.MISSING`.

    Columns of stateful features are zero: `encode_stateful_features` fills them.
    """
    return FEATURE_SET.encode(events)


def encode_stateful_features(codes: Array, events: Frame) -> None:
    """Fill the columns of stateful features in place, from events that have the scorer state's columns."""
    FEATURE_SET.encode_stateful(codes, events)


def feature_texts(
    events: pd.DataFrame, names: Collection[str] = FEATURE_NAMES
) -> dict[str, NDArray[np.object_]]:
    """Return the text behind each code, (N,) by the name of the feature: for the few events that are explained."""
    return FEATURE_SET.texts(events, names)


def had_no_effect(codes: Array) -> Array:
    """Return which events (N,) came to nothing through no doing of their caller, as in an outage; codes (N, F)."""
    return FEATURE_SET.had_no_effect(codes)


def makes_no_amount(codes: Array) -> Array:
    """Return which events (N,) do not count as calls of their action; codes (N, F)."""
    return FEATURE_SET.makes_no_amount(codes)


def is_from_address(codes: Array) -> Array:
    """Return which events (N,) came from an address, and not through a service; codes (N, F)."""
    return FEATURE_SET.is_from_address(codes)


def is_write(events: Frame) -> Array:
    """Return which events (N,) changed something, where they lie."""
    return FEATURE_SET.is_write(events)


def parameter_names(text: str) -> str:
    """Return what is shown of the parameters feature: `ec2:RunInstances(imageId,maxCount)` -> `imageId, maxCount`."""
    return text.partition("(")[2].removesuffix(")").replace(",", ", ") or "none"
