"""Rows held out from training, as the figures of a bank count them."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.estimators import amounts
from fingerprint.training.holdout_rows import HoldoutRows


def test_of_an_hour_that_is_unusual_by_its_amount_alone_the_calls_that_carry_it_have_the_vote() -> None:
    """As in scoring: else a bank says that the autoencoder votes for all of an insider's kind, and the gate keeps it back."""
    tails = amounts.NO_TAILS
    alerting = tails[0].edge + tails[0].slope * (amounts.ALERTING_NATS - amounts.EDGE_NATS)
    columns = {
        "principal": np.array([1, 1, 2], np.uint64),
        "interval": np.array([5, 5, 5], np.int32),
        "action": np.array([9, 9, 9], np.uint64),
        "day": np.zeros(3, np.int32),
        "events": np.array([300, 100, 40], np.float32),
        "amount": np.array([[alerting - 1, -3, -3], [alerting - 1, -3, -3], [-3, -3, -3]], np.float32),
        "load": np.array([1, 1, 0], np.float32),
    }
    rows = HoldoutRows(columns, np.array(["person"] * 3, object), np.zeros(3, bool))
    share = rows.voted_share(np.array([True, True, True]), np.array([True, True, False]), tails)
    assert share[:2].tolist() == pytest.approx([amounts.CARRIERS / 400] * 2)
    assert share[2] == 1, "what else is unusual is voted for whole"
    assert rows.vote_rates(share)["person"]["share"] == pytest.approx((amounts.CARRIERS + 40) / 440, abs=1e-4)
