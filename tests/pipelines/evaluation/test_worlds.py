"""The evaluation in several worlds: which there are, that the worst is the worst, and one small run from end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Autoencoder, Settings
from fingerprint.detection.detectors import detector_names
from fingerprint.simulation.world_parameters import WorldParameters
from pipelines.cli.app import app
from pipelines.cli.console import no_progress
from pipelines.evaluation import worlds as worlds_module
from pipelines.evaluation.evaluate import EvaluationOptions
from pipelines.evaluation.organisations import (
    DEVELOPMENT_SEEDS,
    FINAL_SEEDS,
    MAX_WORLDS,
    Organisation,
    world_seeds,
)
from pipelines.evaluation.worlds import (
    evaluate_worlds,
    print_worlds,
    refuse_beside,
    summarise_worlds,
)

SETTINGS = Settings(autoencoder=Autoencoder(max_epochs=1))


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    """Of our own methods: peers and terms are evaluated with one organisation (test_evaluate.py)."""
    small = Organisation(principals=4, days=8, attacks=3)
    options = EvaluationOptions(peers=False, third=False, terms=False)
    return evaluate_worlds(SETTINGS, no_progress, 2, organisation=small, options=options, workers=1)


def test_the_final_worlds_are_none_of_development() -> None:
    development, final = world_seeds(MAX_WORLDS, final=False), world_seeds(MAX_WORLDS, final=True)
    assert not {*development, *DEVELOPMENT_SEEDS} & {*final, *FINAL_SEEDS}
    assert world_seeds(3, final=True) == final[:3], "more worlds are the same ones and others"
    with pytest.raises(FingerprintError, match="1 to 100"):
        world_seeds(MAX_WORLDS + 1, final=False)


def test_a_world_with_a_longer_history_has_more_days() -> None:
    worlds = [WorldParameters(history=history) for history in (0.6, 1.0, 1.5)]
    assert [Organisation(days=20).in_world(world).days for world in worlds] == [12, 20, 30]
    assert Organisation(days=8).in_world(worlds[0]).days == 8


def test_each_world_is_kept_in_a_folder_of_its_own(tmp_path: Path) -> None:
    for parameters in (WorldParameters(), WorldParameters(novelty_bursts=0.5), WorldParameters()):
        with Organisation(2, 8, 1, tmp_path).simulated(1, parameters):
            pass
    assert len(list(tmp_path.iterdir())) == 2


def test_nothing_that_has_an_organisation_of_its_own_goes_with_worlds() -> None:
    refuse_beside("--worlds", {"SOURCE": None, "--seed": [], "--real": False})
    with pytest.raises(FingerprintError, match="leave SOURCE, --real out"):
        refuse_beside("--worlds", {"SOURCE": ["records"], "--seed": None, "--real": True})


EXTRA_SESSIONS = ("insiders", "intruder_made_users", "robbed_newcomers")


def sessions_of(world: dict[str, Any]) -> int:
    """Three that are asked for, and those that a world has in addition."""
    return 3 + sum(round(3 * world["parameters"][name]) for name in EXTRA_SESSIONS)


def test_each_world_has_its_statistics_and_every_method_on_the_same_rows(figures: dict[str, Any]) -> None:
    first, second = figures["worlds"]
    assert (first["seed"], second["seed"]) == world_seeds(2, final=False)
    for world in (first, second):
        assert world["parameters"]["novelty_bursts"] == WorldParameters.draw(world["seed"]).novelty_bursts
        asked = Organisation(days=8).in_world(WorldParameters(**world["parameters"])).days
        assert world["statistics"]["history_days"] == pytest.approx(asked, abs=0.6)
        assert world["statistics"]["events"] > 0
        assert {method["sessions"] for method in world["methods"].values()} == {sessions_of(world)}
    assert list(first["methods"]) == list(second["methods"]) == list(figures["summary"])
    assert {"fingerprint (2 of 3)", "without spectral (2 of 2)", "spectral alone"} <= set(figures["summary"])


def test_the_pooled_figures_are_of_all_worlds(figures: dict[str, Any]) -> None:
    served = figures["methods"][0]
    assert served["sessions"] == sum(map(sessions_of, figures["worlds"])) > 6
    assert served["found"] == sum(
        next(iter(world["methods"].values()))["found"] for world in figures["worlds"]
    )


def world(seed: int, **found: tuple[float, float]) -> dict[str, Any]:
    """A world in which methods find a share of sessions at any budget, with a rate of false alerts."""
    return {
        "seed": seed,
        "methods": {
            name: {
                "recall_at": dict.fromkeys(("5", "20", "50"), share),
                "false_alerts_per_day_per_100_principals": rate,
            }
            for name, (share, rate) in found.items()
        },
    }


def test_the_worst_world_of_a_method_is_where_it_finds_least() -> None:
    worlds = [
        world(1, ours=(0.9, 0.5), peer=(0.5, 2.0)),
        world(2, ours=(0.6, 1.5), peer=(0.7, 1.0)),
        world(3, ours=(0.9, 1.0), peer=(0.9, 1.0)),
    ]
    told = summarise_worlds(worlds)
    assert told["ours"]["mean"]["20"] == 0.8
    assert (told["ours"]["worst"]["20"], told["ours"]["worst_world"]["20"]) == (0.6, 2)
    assert (told["peer"]["worst"]["20"], told["peer"]["worst_world"]["20"]) == (0.5, 1)
    assert told["peer"]["ahead"] == {"5": 2, "20": 2, "50": 2}, "ours is behind in world 2"
    assert (told["ours"]["mean_false_alerts"], told["ours"]["most_false_alerts"]) == (1.0, 1.5)


def test_the_figures_are_json_and_tables(figures: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures
    print_worlds(figures)
    printed = capsys.readouterr().out
    assert "Found, 20 alerts a day" in printed
    assert printed.count("worst") == 4, "in each table of methods"
    assert sum(line.strip().startswith("at most") for line in printed.splitlines()) == 3, (
        "what fewer alerts can show"
    )
    assert max(map(len, printed.splitlines())) <= 110
    assert figures["time_to_alert"]["all"]["sessions"] > 0
    for words in ("held after", "From first event to alert"):
        assert printed.count(words) == 1, words


def test_each_world_says_how_long_it_took_what_it_held_and_what_votes_change(figures: dict[str, Any]) -> None:
    for world in figures["worlds"]:
        assert world["seconds"] > 0
        assert world["peak_memory_bytes"] > 100 << 20
        assert set(world["vote_effects"]) == set(detector_names(SETTINGS))
        assert world["vote_rates"]["machine"]["events"] > 0
    pooled = figures["vote_effects"]
    for name, effect in pooled.items():
        assert effect["alerts"] == sum(world["vote_effects"][name]["alerts"] for world in figures["worlds"])


def test_a_vote_that_changes_no_row_in_any_world_fails_the_evaluation_by_name(
    figures: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for idle, status in (([], 0), (["spectral"], 3)):
        told = {**figures, "idle_votes": idle}
        monkeypatch.setattr(worlds_module, "evaluate_worlds", lambda *_, told=told: told)
        ran = CliRunner().invoke(app, ["evaluate", "--worlds", "2"])
        assert ran.exit_code == status, ran.output
        assert ("the vote of spectral changes no row" in ran.stderr) == bool(idle)
