"""Votes on harmless events by kind of principal: which kinds there are, and that shares are of the kind's own events."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import hashing
from fingerprint.evaluation.vote_rates import PrincipalKinds, count_votes, vote_shares

EVENTS = pd.DataFrame(
    [
        ("1:user/ann", "user", "direct"),
        ("1:role/AWSReservedSSO_Dev/bob@x.y", "person", "direct"),
        ("1:role/app-deployer-3", "role", "direct"),
        ("1:role/etl-ci", "role", "direct"),
        ("1:role/citizen-portal", "role", "direct"),
        ("1:role/config-recorder", "role", "service"),
        ("1:service/s3.amazonaws.com", "service", "service"),
        ("1:role/etl-ci", "role", "service"),
    ],
    columns=["principal", "kind", "call_path"],
)


@pytest.fixture
def kinds() -> PrincipalKinds:
    found = PrincipalKinds()
    found.update(EVENTS.iloc[:3])
    found.update(EVENTS.iloc[3:])
    return found


def test_each_principal_has_the_kind_that_the_log_says(kinds: PrincipalKinds) -> None:
    names = ["1:user/ann", "1:role/AWSReservedSSO_Dev/bob@x.y", "1:role/app-deployer-3", "1:role/etl-ci",
             "1:role/citizen-portal", "1:role/config-recorder", "1:service/s3.amazonaws.com"]  # fmt: skip
    said = kinds.of(hashing.hash_strings(pd.Series(names))).tolist()
    assert said == ["person", "single sign-on person", "CI", "CI", "machine", "service", "service"]


def test_only_harmless_events_are_counted_and_shares_are_of_the_kinds_own() -> None:
    judged = pd.DataFrame({"a_vote": [True, False, True, True], "b_vote": [True, True, True, False]})
    kind = np.array(["person", "person", "CI", "person"], object)
    harmless = np.array([True, True, True, False])
    counts = count_votes(judged, kind, harmless, ("a", "b"), (judged["a_vote"] & judged["b_vote"]).to_numpy())
    assert counts["person"] == {"events": 2, "a": 1, "b": 2, "verdicts": 1}
    assert vote_shares(counts)["person"] == {"events": 2, "a": 0.5, "b": 1.0, "verdicts": 0.5}
    assert list(counts) == ["person", "CI"]
