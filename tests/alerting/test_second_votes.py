"""Other detectors' votes count as much as the bank's held-out days say, and never less because an alert grew."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fingerprint.alerting import explanation
from fingerprint.alerting.second_votes import second_vote_drivers, second_vote_nats
from fingerprint.core.alert import SECOND_VOTE_FEATURE
from tests.support import sample_organisation

SAYS = {"spectral": {"share": 0.2, "usual": 0.5}, "sequence": {"share": 0.4, "usual": 0.75}}
SPECTRAL, SEQUENCE = -np.log(0.2), -np.log(0.4)
USUAL = 0.5 * SPECTRAL + 0.75 * SEQUENCE
BATCH: Any = SimpleNamespace(evidence={"autoencoder": None, "spectral": None, "sequence": None})


def events(*votes: str, level: str = "principal", settled: bool = True) -> pd.DataFrame:
    """Return events by who votes for them: "both", "spectral", "sequence", "neither"; "none" where neither has an opinion."""
    spectral, sequence = ([each in (name, "both") for each in votes] for name in ("spectral", "sequence"))
    some = np.array([each != "none" for each in votes])
    return pd.DataFrame(
        {
            "spectral_vote": spectral,
            "spectral_z": np.where(some, np.where(spectral, 3.0, 0.0), np.nan),
            "sequence_vote": sequence,
            "sequence_z": np.where(some & settled, np.where(sequence, 3.0, 0.0), np.nan),
            "level": np.where(some, level, "peer"),
        }
    )


@pytest.mark.parametrize(
    ("votes", "nats"),
    [
        (("both",), SPECTRAL + SEQUENCE - USUAL),
        (("spectral", "sequence"), SPECTRAL + SEQUENCE - USUAL),
        (("spectral",), SPECTRAL - USUAL),
        (("sequence", "neither"), SEQUENCE - USUAL),
        (("none",), 0.0),
        (("none", "sequence"), 0.0),
        (("none", "both"), SPECTRAL + SEQUENCE - USUAL),
    ],
)
def test_a_vote_is_worth_the_surprise_that_harmless_odd_events_have_it_less_what_is_usual(
    votes: tuple[str, ...], nats: float
) -> None:
    assert second_vote_nats(BATCH, events(*votes), SAYS) == pytest.approx(nats)


def test_a_vote_that_every_harmless_alert_has_says_nothing_and_a_detector_that_was_never_measured_neither() -> (
    None
):
    always = {name: {"share": 1.0, "usual": 1.0} for name in SAYS}
    assert second_vote_nats(BATCH, events("both"), always) == 0
    assert second_vote_drivers(BATCH, events("both"), always) == []
    assert second_vote_nats(BATCH, events("both"), {}) == 0


@pytest.mark.parametrize("seed", range(20))
def test_no_event_that_joins_takes_evidence_away(seed: int) -> None:
    rng = np.random.default_rng(seed)
    votes = rng.choice(["none", "neither", "spectral", "sequence", "both"], 12)
    nats = [second_vote_nats(BATCH, events(*votes[:size]), SAYS) for size in range(1, 13)]
    assert all(after >= before for before, after in itertools.pairwise(nats))


@pytest.mark.parametrize("final", ["spectral", "both"])
def test_an_alert_of_an_open_hour_never_has_more_evidence_than_when_the_hour_is_over(final: str) -> None:
    early = second_vote_nats(BATCH, events("spectral", settled=False), SAYS)
    assert early == pytest.approx(SPECTRAL - USUAL)
    assert second_vote_nats(BATCH, events(final), SAYS) >= early


def test_an_alert_names_the_second_votes_that_count_however_much_else_is_odd(
    scored: sample_organisation.Run,
) -> None:
    named = [
        [driver.seen.split(" agrees")[0] for driver in alert.drivers if driver.feature == SECOND_VOTE_FEATURE]
        for alert in scored.alerts
    ]
    assert {name for names in named for name in names} == {"Spectral", "Sequence"}
    for alert, names in zip(scored.alerts, named, strict=True):
        assert len(alert.drivers) <= explanation.MAX_DRIVERS
        assert len(names) == len(set(names))
        if names:
            assert any(alert.highest_scores.get(name.lower(), -np.inf) > 0 for name in names)
    assert any(names for alert, names in zip(scored.alerts, named, strict=True) if len(alert.drivers) > 8)
