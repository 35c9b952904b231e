"""How rare the events of an alert are together: distinct actions count, and one that joins lowers nothing."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fingerprint.alerting import rarity


def strange_calls(z: list[float], actions: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"autoencoder_z": z, "spectral_z": 9.0, "service": "iam", "action": actions})


def nats(measured: SimpleNamespace, frame: pd.DataFrame) -> float:
    z = rarity.highest_calibrated_z(measured, frame)
    return rarity.alert_nats(z, frame["action"].tolist())


def test_an_alert_is_as_urgent_as_its_distinct_actions_are_rare_together() -> None:
    measured, counted = (SimpleNamespace(evidence={name: None}) for name in ("autoencoder", "spectral"))
    past_five, past_one = -np.log(2.866515719e-7), -np.log(0.15865525393)  # of a normal distribution
    frame = strange_calls([1.0, 5.0, 4.0, np.nan], ["list", "create", "create", "get"])
    together = rarity.CALIBRATION * (past_five + rarity.NEXT_RARE_ACTION_WEIGHT * past_one)
    assert nats(measured, frame) == pytest.approx(together, rel=1e-6)
    assert nats(counted, frame) == 0, "a z of counts is no tail probability"


@pytest.mark.parametrize("seed", range(20))
def test_no_event_that_joins_an_alert_makes_it_less_urgent(seed: int) -> None:
    rng = np.random.default_rng(seed)
    measured = SimpleNamespace(evidence={"autoencoder": None})
    z, actions = rng.normal(3, 2, 30).tolist(), [f"a{each}" for each in rng.integers(0, 15, 30)]
    grown = [nats(measured, strange_calls(z[:size], actions[:size])) for size in range(1, 31)]
    assert all(after >= before - 1e-9 for before, after in itertools.pairwise(grown))
