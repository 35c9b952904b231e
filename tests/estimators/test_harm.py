"""Harm: a new action that can do much surprises more; one that is usual stays at nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import hashing
from fingerprint.estimators import harm
from fingerprint.features.encoding import FEATURE_NAMES

F = len(FEATURE_NAMES)


@pytest.mark.parametrize(
    ("name", "gravity"),
    [
        ("cloudtrail:StopLogging", "severe"),
        ("logs:DeleteLogGroup", "grave"),
        ("s3:ListBuckets", "none"),
        ("unlisted:KnowsThis", "none"),
        (":", "none"),
    ],
)
def test_the_share_follows_what_the_action_can_do(name: str, gravity: harm.Gravity) -> None:
    service, _, action = name.partition(":")
    assert harm.harm_shares([service], [action]) == np.float32(harm.HARM_SHARES[gravity])


def test_only_the_surprise_of_the_action_grows_and_nothing_stays_nothing() -> None:
    surprise = np.full((2, F), 5, np.float32)
    surprise[1, harm.ACTION_COLUMN] = 0
    weighed = harm.weigh_by_harm(surprise, np.array([0.8, 0.8], np.float32))
    assert weighed[:, harm.ACTION_COLUMN].tolist() == pytest.approx([9, 0])
    others = np.arange(F) != harm.ACTION_COLUMN
    assert (weighed[:, others] == 5).all()
    assert surprise[0, harm.ACTION_COLUMN] == 5, "the surprise that was given is left as it is"


def test_codes_are_named_by_the_words_of_a_history_and_unknown_ones_can_do_nothing() -> None:
    texts = np.array(["s3:ListBuckets", "cloudtrail:StopLogging"], object)
    known = hashing.hash_strings(pd.Series(texts))
    codes = np.array([known[1], known[0], 7, known[1]], np.uint64)
    found = harm.harm_by_code(codes, known, texts)
    assert found.tolist() == pytest.approx([0.8, 0, 0, 0.8])
    assert found.dtype == np.float32


def test_what_is_shown_of_a_surprise_is_without_what_its_action_can_do() -> None:
    surprise = np.linspace(0, 10, 200, dtype=np.float32)[:, None].repeat(F, axis=1)
    share = np.tile(harm.harm_shares(["cloudtrail", "s3"], ["StopLogging", "ListBuckets"]), 100)
    weighed = harm.weigh_by_harm(surprise, share)
    assert (weighed[0::2, harm.ACTION_COLUMN] > surprise[0::2, harm.ACTION_COLUMN]).mean() > 0.7
    np.testing.assert_allclose(harm.without_harm(weighed, share), surprise, rtol=1e-6)


def test_each_action_of_events_is_named_once() -> None:
    names = pd.DataFrame(
        {"service": ["iam", "s3", "iam"], "action": ["CreateUser", "GetObject", "CreateUser"]}
    )
    codes = hashing.hash_strings(names["service"] + ":" + names["action"])
    severe = harm.HARM_SHARES["severe"]
    assert harm.harm_of_events(codes, names).tolist() == pytest.approx([severe, 0, severe])
