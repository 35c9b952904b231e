"""Real attacks end to end, after each of the histories that the product may have learned."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from fingerprint.core.settings import Autoencoder, Settings
from fingerprint.sources.cloudtrail import samples
from pipelines.cli.console import no_progress
from pipelines.evaluation import real_sets
from pipelines.evaluation.evaluate import EvaluationOptions
from pipelines.evaluation.labelled_sets import History, evaluate_labelled, without_history
from pipelines.evaluation.standing_table import real_attack_tables

SETTINGS = Settings(autoencoder=Autoencoder(max_epochs=1))
STRATUS = samples.data_folder("real/invictus_stratus")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no other method be asked."""
    monkeypatch.setattr(real_sets, "OPTIONS", EvaluationOptions(peers=False, third=False, terms=False))


def test_only_the_attacked_lose_their_history_and_only_what_came_before(events: pd.DataFrame) -> None:
    attacks = pd.DataFrame(
        {"event_id": ["ann-80", "ann-81"], "session": ["x", "x"], "strength": ["real"] * 2}
    )
    kept = events[without_history(events, attacks)]
    assert kept.loc[kept["principal"] == "ann", "seconds"].min() > 70 * 60
    for name in ("robot", "bob", "cy", "s3"):
        assert (kept["principal"] == name).sum() == (events["principal"] == name).sum()


@pytest.mark.usefixtures("quick")
def test_a_labelled_set_is_evaluated_without_the_history_of_its_attacked() -> None:
    figures = evaluate_labelled(STRATUS, History.CUT_AWAY, SETTINGS, no_progress)
    assert figures["cut_away"] > 1000, "one principal did nearly everything"
    assert figures["sessions"] == 7
    assert 0 < figures["attack_events_flagged"] <= figures["attack_events"]


@pytest.mark.usefixtures("quick")
def test_real_attacks_are_found_once_weeks_of_other_habits_are_learned() -> None:
    figures = evaluate_labelled(STRATUS, History.SIMULATED, SETTINGS, no_progress, principals=3, days=12)
    assert figures["cut_away"] == 0
    assert figures["sessions"] == 22, "none of them lies in what was learned"
    assert figures["attack_events_flagged"] > 0.9 * figures["attack_events"]
    served = figures["methods"]["fingerprint (2 of 3)"]
    assert served["found"] > 4
    assert json.loads(json.dumps(figures)) == figures
    caption = str(real_attack_tables({"masquerade": [], "labelled": [figures]})[0].caption)
    assert "weeks of a simulated organisation" in caption
