"""Harm: a new action that can do much adds to its event; one that is usual adds nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import hashing
from fingerprint.estimators import harm


@pytest.mark.parametrize(
    ("name", "gravity"),
    [
        ("cloudtrail:StopLogging", "severe"),
        ("logs:DeleteLogGroup", "grave"),
        ("iam:CreateRole", "notable"),
        ("s3:ListBuckets", "none"),
        ("unlisted:KnowsThis", "none"),
        (":", "none"),
    ],
)
def test_the_nats_follow_what_the_action_can_do(name: str, gravity: harm.Gravity) -> None:
    service, _, action = name.partition(":")
    assert harm.harm_nats([service], [action]) == np.float32(harm.HARM_NATS[gravity])


def test_codes_are_named_by_the_words_of_a_history_and_unknown_ones_can_do_nothing() -> None:
    texts = np.array(["s3:ListBuckets", "cloudtrail:StopLogging"], object)
    known = hashing.hash_strings(pd.Series(texts))
    codes = np.array([known[1], known[0], 7, known[1]], np.uint64)
    found, severe = harm.harm_by_code(codes, known, texts), harm.HARM_NATS["severe"]
    assert found.tolist() == pytest.approx([severe, 0, 0, severe])
    assert found.dtype == np.float32


def test_each_action_of_events_is_named_once() -> None:
    names = pd.DataFrame(
        {"service": ["iam", "s3", "iam"], "action": ["CreateUser", "GetObject", "CreateUser"]}
    )
    codes = hashing.hash_strings(names["service"] + ":" + names["action"])
    severe = harm.HARM_NATS["severe"]
    assert harm.harm_of_events(codes, names).tolist() == pytest.approx([severe, 0, severe])
