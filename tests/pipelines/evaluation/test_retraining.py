"""Retraining, week by week: what is learned from the weeks before, and what the alert store changes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fingerprint.core.settings import Autoencoder, Retraining, Settings
from fingerprint.training.exclusions import MALICIOUS, OPEN
from pipelines.cli.console import no_progress
from pipelines.evaluation import retraining
from pipelines.evaluation.organisations import Organisation
from pipelines.evaluation.retraining import STORE_USES, evaluate_retraining, print_retraining
from pipelines.evaluation.worlds import FALSE_ALERTS

SETTINGS = Settings(autoencoder=Autoencoder(max_epochs=1), retraining=Retraining(history_days=7))


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    """Of an organisation whose attacks come in the last ten of its 40 days: in both weeks."""
    small = Organisation(principals=6, days=26, attacks=4)
    return evaluate_retraining(SETTINGS, no_progress, 2, seeds=(2,), organisation=small)


@pytest.fixture(scope="module")
def weeks(figures: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return figures["served"][0]["weeks"]


def test_the_first_week_is_the_same_whatever_the_store_is_for(weeks: dict[str, list[dict[str, Any]]]) -> None:
    assert list(weeks) == [use.name for use in STORE_USES]
    assert len({json.dumps(each[0]) for each in weeks.values()}) == 1
    assert {len(each) for each in weeks.values()} == {2}


def test_what_the_store_holds_is_left_out_only_where_it_is_asked(
    weeks: dict[str, list[dict[str, Any]]],
) -> None:
    alone, open_alerts, decided = (weeks[use.name] for use in STORE_USES)
    assert alone[0]["alerts"], "there is nothing to leave out"
    assert not any(any(week["left_out"].values()) for week in alone)
    assert open_alerts[1]["left_out"][OPEN]
    assert not decided[1]["left_out"][OPEN], "what is decided is not open"


def test_sessions_are_those_of_the_week_and_alerts_are_judged_by_them(
    weeks: dict[str, list[dict[str, Any]]],
) -> None:
    for each in weeks.values():
        assert sum(week["sessions"] for week in each) == 4
        for week in each:
            assert 0 < week["found"] <= week["sessions"]
            false = week[FALSE_ALERTS] * week["principals"] / 100 * 7
            assert false == pytest.approx(round(false), abs=1e-2)
            assert 0 <= round(false) < week["alerts"], "one at least is of an attack"


def test_a_confirmed_attack_is_not_learned(weeks: dict[str, list[dict[str, Any]]]) -> None:
    first, second = weeks[STORE_USES[-1].name]
    assert first["found"] > 0, "there is nothing to confirm"
    assert first["left_out"][MALICIOUS] == 0
    assert second["left_out"][MALICIOUS] > 0


def test_every_organisation_counts_in_the_summary_and_on_the_screen(
    figures: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    last = figures["summary"][-1]
    assert (last["store"], last["week"], last["organisations"]) == (STORE_USES[-1].name, 2, 1)
    assert len(figures["summary"]) == 2 * len(STORE_USES)
    print_retraining(json.loads(json.dumps(figures)))
    printed = capsys.readouterr().out
    assert f"{last['found']} of {last['sessions']}" in printed
    assert f"{last['mean_false_alerts']:.2f}" in printed


def test_the_worst_organisation_stands_beside_the_mean() -> None:
    def served(*rates: float) -> dict[str, list[dict[str, Any]]]:
        week = {"sessions": 2, "found": 1, "promoted": True}
        return {use.name: [week | {FALSE_ALERTS: rate} for rate in rates] for use in STORE_USES}

    first, second, *_ = retraining._summarise([served(0.5, 1.0), served(1.5, 0.0)])
    assert (first["mean_false_alerts"], first["most_false_alerts"], first["found"]) == (1.0, 1.5, 2)
    assert (second["mean_false_alerts"], second["most_false_alerts"], second["sessions"]) == (0.5, 1.0, 4)
