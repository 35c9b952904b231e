"""Codes of events: the hashes of their texts, the same one by one as in a batch, wherever features come from."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import dictionary, hashing
from fingerprint.compute.column_table import ColumnTable
from fingerprint.compute.dictionary import MappedColumn
from fingerprint.core.settings import Entities
from fingerprint.detection.batch import FRAME_COLUMNS
from fingerprint.features import encoding
from fingerprint.features.feature_set import EVIDENCE_GROUPS, Feature, FeatureSet
from fingerprint.sources.active import SOURCE
from fingerprint.sources.cloudtrail.samples import sample_lines
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from fingerprint.state.coded_events import code_events

STATEFUL = {"idle", "today", "sources", "actions"}


@pytest.fixture(scope="module")
def events() -> pd.DataFrame:
    lines = list(islice(sample_lines("real/schema_variety"), 400))
    return add_entity_columns(flatten(SOURCE.split_lines(lines)).events, Entities())


def with_state(events: pd.DataFrame) -> pd.DataFrame:
    return events.assign(idle=-1, today=2, sources=0, actions=3)


def test_codes_are_a_column_a_feature_and_stateful_ones_are_filled_later(events: pd.DataFrame) -> None:
    codes = encoding.FEATURE_SET.encode(events)
    assert codes.shape == (len(events), len(encoding.FEATURES))
    assert codes.dtype == np.uint64
    stateful = np.array([name in STATEFUL for name in encoding.FEATURE_NAMES])
    assert not codes[:, stateful].any()
    assert codes[:, ~stateful].all()
    before = codes.copy()
    encoding.FEATURE_SET.encode_stateful(codes, with_state(events))
    np.testing.assert_array_equal(codes[:, ~stateful], before[:, ~stateful])
    assert codes[:, stateful].all()


def test_the_codes_of_a_batch_are_those_of_its_events_one_by_one(events: pd.DataFrame) -> None:
    some = events.iloc[np.random.default_rng(0).choice(len(events), 40, replace=False)]
    alone = np.concatenate([encoding.FEATURE_SET.encode(some.iloc[[row]]) for row in range(len(some))])
    np.testing.assert_array_equal(encoding.FEATURE_SET.encode(some), alone)


def test_the_codes_of_a_few_events_are_those_that_arrays_give_many(events: pd.DataFrame) -> None:
    whole = code_events(pd.concat([events] * 6, ignore_index=True))
    assert len(whole) > dictionary.FEW_EVENTS
    for start in range(0, len(events), 7):
        few = code_events(ColumnTable.from_pandas(events.iloc[start : start + 7]))
        for name in ("codes", "principal", "entity", "key", "seconds"):
            np.testing.assert_array_equal(
                getattr(few, name), getattr(whole, name)[start : start + 7], err_msg=name
            )


def test_the_codes_are_the_hashes_of_the_texts(events: pd.DataFrame) -> None:
    codes = encoding.FEATURE_SET.encode(with_state(events))
    encoding.FEATURE_SET.encode_stateful(codes, with_state(events))
    texts = encoding.FEATURE_SET.texts(with_state(events))
    assert list(texts) == list(encoding.FEATURE_NAMES)
    for place, name in enumerate(encoding.FEATURE_NAMES):
        np.testing.assert_array_equal(codes[:, place], hashing.hash_distinct(texts[name]))


def test_only_failures_of_the_service_come_to_nothing(events: pd.DataFrame) -> None:
    failed = events.assign(error_code="ServiceUnavailable")
    assert encoding.FEATURE_SET.had_no_effect(encoding.FEATURE_SET.encode(failed)).all()
    assert not encoding.FEATURE_SET.had_no_effect(
        encoding.FEATURE_SET.encode(events.assign(error_code="AccessDenied"))
    ).any()
    assert not encoding.FEATURE_SET.had_no_effect(
        encoding.FEATURE_SET.encode(events.assign(error_code=None))
    ).any()


def test_a_call_comes_from_an_address_or_through_a_service(events: pd.DataFrame) -> None:
    one = events.head(1).assign(network=None, vpc_endpoint_account=None)
    for source, expected in (
        ("203.0.113.9", True),
        ("10.1.2.3", True),
        ("2001:db8::1", True),
        ("AWS Internal", False),
        ("cloudformation.amazonaws.com", False),
        (None, False),
    ):
        codes = encoding.FEATURE_SET.encode(one.assign(source_address=source))
        assert encoding.FEATURE_SET.is_from_address(codes).tolist() == [expected], source


def test_the_region_of_a_global_service_is_no_evidence(events: pd.DataFrame) -> None:
    place = encoding.FEATURE_NAMES.index("region")
    silent = encoding.CODES_WITHOUT_EVIDENCE[place]
    iam, ec2 = (
        encoding.FEATURE_SET.encode(events.assign(service=service, region="us-east-1"))[:, place]
        for service in ("iam", "ec2")
    )
    assert (iam == silent).all()
    assert not (ec2 == silent).any()


def test_a_stream_carries_every_column_that_a_feature_reads() -> None:
    read = {column for feature in encoding.FEATURES if not feature.is_stateful for column in feature.columns}
    added = {"network", *encoding.FEATURE_SET.derived_columns}  # on the way
    assert read - added <= set(FRAME_COLUMNS)


def test_no_events_have_no_codes(events: pd.DataFrame) -> None:
    assert encoding.FEATURE_SET.encode(events.iloc[:0]).shape == (0, len(encoding.FEATURES))
    assert encoding.FEATURE_SET.is_write(events.iloc[:0]).tolist() == []


def test_the_arrays_of_features_say_what_each_feature_says() -> None:
    for place, feature in enumerate(encoding.FEATURES):
        assert encoding.FEATURE_NAMES[place] == feature.name
        assert encoding.FEATURE_WEIGHTS[place] == np.float32(feature.weight)
        assert encoding.IS_BIN[place] == (feature.kind == "bin")
        given = encoding.GIVEN_FEATURE[place]
        assert (encoding.FEATURE_NAMES[given] if given >= 0 else None) == feature.given
    groups = dict(zip(EVIDENCE_GROUPS, encoding.EVIDENCE_GROUP_FEATURES, strict=True))
    assert sorted(np.concatenate(list(groups.values()))) == list(range(len(encoding.FEATURES)))
    assert all(
        encoding.FEATURES[place].evidence_group == group
        for group, places in groups.items()
        for place in places
    )


def test_a_feature_reads_derived_columns_and_a_missing_column_is_missing_everywhere() -> None:
    first = Feature(
        "first", "first", "value", "what", ("initial", "nowhere"), lambda one, none: f"{one} {none}"
    )
    features = FeatureSet(
        (first,),
        is_write=lambda events: np.zeros(len(events), bool),
        derived_columns={"initial": MappedColumn("action", lambda action: "ab"[action == "y"])},
    )
    events = pd.DataFrame({"action": ["x", "y", "z"]})
    assert features.texts_of(first, events).tolist() == ["a None", "b None", "a None"]
    codes = features.encode(events)
    assert codes[0] == codes[2] != codes[1]


def test_a_set_that_knows_errors_names_the_text_of_a_call_without_one() -> None:
    """Without it every call would have failed, and none would make an amount."""
    error = Feature("error", "error", "value", "outcome", ("error_code",), lambda code: code or "none")
    parts = {"texts_without_evidence": {"error": "unavailable"}, "outcome": "error"}
    with pytest.raises(ValueError, match="success must be the text of error"):
        FeatureSet((error,), lambda events: np.ones(len(events), bool), **parts)
    features = FeatureSet((error,), lambda events: np.ones(len(events), bool), **parts, success="none")
    codes = features.encode(pd.DataFrame({"error_code": [None, "AccessDenied", "unavailable"]}))
    assert features.failed(codes).tolist() == [False, True, True]


def test_the_parameters_are_shown_by_their_names() -> None:
    assert encoding.parameter_names("ec2:RunInstances(imageId,maxCount)") == "imageId, maxCount"
    assert encoding.parameter_names("sts:GetCallerIdentity()") == "none"
