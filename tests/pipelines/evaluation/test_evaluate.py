"""The whole evaluation on a small organisation."""

from __future__ import annotations

import gzip
import io
import json
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from fingerprint.core import time_range
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Autoencoder, Settings
from fingerprint.evaluation.event_table import WINDOW_SECONDS
from fingerprint.sources.cloudtrail import samples
from pipelines.cli.console import no_progress
from pipelines.evaluation.evaluate import ALERT_BY_ALERT, EvaluationOptions, print_evaluation, run_evaluation
from pipelines.evaluation.real_datasets import evaluate_real_datasets
from pipelines.evaluation.report import CONFIDENCE, divide_columns
from pipelines.simulate import simulate_organisation
from pipelines.train import train_bank
from tests.support import sample_organisation

SETTINGS = Settings(autoencoder=Autoencoder(max_epochs=1))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    simulate_organisation(4, 8, 3, folder, attacks=2, scale=0.3)
    return folder


@pytest.fixture(scope="module")
def figures(small: Path) -> dict[str, Any]:
    return run_evaluation([str(small)], SETTINGS, no_progress, options=EvaluationOptions(third=True))


@pytest.fixture(scope="module")
def without(small: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same where the organisation is too large for more than the quorum, with a label of a session that has no records;
    `stderr`: what was said at the same time."""
    labels = tmp_path_factory.mktemp("labels") / "labels.jsonl"
    more = '{"event_id": "elsewhere", "session": "lost [red]one"}\n'
    labels.write_text((small / "labels.jsonl").read_text() + more)
    options, stderr = EvaluationOptions(third=False), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(stderr):
        patch.setattr("pipelines.evaluation.evaluate.MAX_PRINCIPALS_FOR_PEERS", 3)
        found = run_evaluation([str(small)], SETTINGS, no_progress, labels=labels, options=options)
    return found | {"stderr": stderr.getvalue()}


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(folder.glob("*.gz")) for line in gzip.open(file)]


def test_every_event_is_counted_once_however_often_it_was_delivered(
    small: Path, figures: dict[str, Any]
) -> None:
    about = figures["organisations"][0]
    records = lines_of(small)
    assert about["records"] == len(records)
    assert about["events"] == len({record["eventID"] for record in records})


def test_the_last_quarter_of_the_days_is_judged_and_the_attacks_lie_there(
    small: Path, figures: dict[str, Any]
) -> None:
    about = figures["organisations"][0]
    labels = [json.loads(line) for line in (small / "labels.jsonl").open()]
    assert about["judged_from"].startswith("2026-01-11T00:00:00")
    assert about["attack_events"] + about["attack_events_learned"] == len(labels)
    assert about["attack_sessions"] == 2


def test_what_is_left_out_of_a_large_organisation_is_said(
    without: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = without["organisations"][0]["skipped"]
    assert "more than 3: comparison methods (--peers evaluates them), detectors without a term" in sentence
    assert without["stderr"] == f"{sentence}\n"
    print_evaluation(without)
    assert "comparison methods" in " ".join(capsys.readouterr().out.split())


def test_all_methods_are_held_to_the_same_attacks(figures: dict[str, Any]) -> None:
    names = [method["name"] for method in figures["methods"]]
    assert names[0] == "fingerprint (2 of 3)"
    assert {"log-rarity", "IsolationForest", "first-seen action", "hourly volume z"} <= set(names)
    assert {method["role"] for method in figures["methods"]} == {
        "queue",
        "left out",
        "detector",
        "term",
        "peer",
    }
    assert {method["per_session"]["total"] for method in figures["methods"]} == {2}
    assert {method["per_event"]["total"] for method in figures["methods"]} == {
        figures["organisations"][0]["attack_events"]
    }


def test_a_quorum_flags_no_more_than_any_of_its_detectors(figures: dict[str, Any]) -> None:
    said = {method["name"]: method["per_event"]["reported"] for method in figures["methods"]}
    verdict, one = said["fingerprint (2 of 3)"], said["any vote (1 of 3)"]
    alone = [said[f"{name} alone"] for name in SETTINGS.voting.detectors]
    assert max(alone) <= one <= sum(alone)
    assert verdict <= sorted(alone)[1], "what two flag is no more than the second most of them flags"


def test_a_third_detector_only_adds_to_what_two_of_two_say(figures: dict[str, Any]) -> None:
    said = {method["name"]: method["per_event"]["reported"] for method in figures["methods"]}
    assert said["fingerprint (2 of 3)"] <= said["with isolation forest (2 of 4)"]
    assert (
        said["with isolation forest (2 of 4)"]
        <= said["fingerprint (2 of 3)"] + said["isolation_forest alone"]
    )


def test_asking_a_third_changes_nothing_of_what_is_served(
    figures: dict[str, Any], without: dict[str, Any]
) -> None:
    names = [method["name"] for method in without["methods"]]
    assert names == [method["name"] for method in figures["methods"]][: len(names)]
    assert without["methods"] == figures["methods"][: len(names)]
    assert without["time_to_alert"] == figures["time_to_alert"]


def test_what_is_judged_is_what_score_would_have_said(
    small: Path, figures: dict[str, Any], tmp_path: Path
) -> None:
    files = sorted(small.glob("*.gz"))
    train_bank(
        [str(file) for file in files],
        tmp_path / "bank",
        SETTINGS,
        no_progress,
        span=time_range.parse_time_range(until="2026-01-11"),
    )
    run = sample_organisation.run(files[6:], tmp_path / "bank", tmp_path, SETTINGS)
    served = figures["methods"][0]
    judged = run.events[run.events["event_time"] >= "2026-01-11"]
    assert served["per_event"]["reported"] == judged["verdict"].sum() > 0
    shown = judged[judged["verdict"]]
    windows = shown.groupby(["principal", shown["event_time"].dt.floor(f"{WINDOW_SECONDS}s")]).ngroups
    assert served["per_session"]["reported"] == windows >= shown["alert_id"].nunique()
    whole = figures["methods"][1]
    assert whole["name"] == f"{served['name']}, {ALERT_BY_ALERT}"
    assert whole["per_session"]["reported"] == shown["alert_id"].nunique()
    assert whole["per_event"]["reported"] == len(shown)


def test_every_false_alert_has_a_cause_only_where_surprises_are_known(figures: dict[str, Any]) -> None:
    assert "by_surprise" not in figures["methods"][0], "eight days are too few for surprises"


def test_the_real_sets_are_read_without_a_reject_and_say_what_they_are_worth() -> None:
    told = {each["set"]: each for each in evaluate_real_datasets(SETTINGS, no_progress, principals=2, days=2)}
    assert set(told) == {path.name for path in samples.data_folder("real").iterdir() if path.is_dir()}
    assert [
        told[name]["rejects"] for name in ("invictus_stratus", "prod_slice_anonymised", "schema_variety")
    ] == [0] * 3
    assert all(each["judged"] > 0 and each["note"] for each in told.values())
    assert 0 < told["panther_rule_tests"]["auc"] < 1


def test_the_figures_are_json_and_a_table(
    figures: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures
    print_evaluation(figures)
    printed = capsys.readouterr().out
    assert "2 attack sessions" in printed
    assert "log-rarity that learns" in printed
    for term in ("spectral without usual bursts", "sequence without contexts", "urgency without impact"):
        assert printed.count(term) == 1, term


@pytest.mark.parametrize("width", [80, 110])
def test_no_table_is_cut_where_the_terminal_is_narrow(
    figures: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """An ellipsis stood for the kinds of attacks and their figures; columns are below each other now."""
    monkeypatch.setattr("pipelines.evaluation.report._console", lambda: Console(width=width))
    print_evaluation(figures)
    printed = capsys.readouterr().out
    assert "…" not in printed
    strengths = figures["methods"][0]["by_strength"]
    assert all(f"{name} ({part['sessions']})" in printed for name, part in strengths.items())


def test_columns_that_do_not_fit_are_below_each_other_with_their_rows_and_intervals() -> None:
    table = Table("method", "smash", CONFIDENCE, "quiet", CONFIDENCE)
    table.add_row("ours", "48%", "20-60", "50%", "30-70")
    parts = divide_columns(table, 34)
    assert [[column.header for column in part.columns] for part in parts] == [
        ["method", "smash", CONFIDENCE],
        ["method", "quiet", CONFIDENCE],
    ]
    assert [[*column.cells] for column in parts[1].columns] == [["ours"], ["50%"], ["30-70"]]
    assert divide_columns(table, 100) == [table]


def test_labels_that_name_nothing_judged_are_refused(small: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text('{"event_id": "elsewhere", "session": "s"}\n')
    with pytest.raises(FingerprintError, match="nothing to find"):
        run_evaluation([str(small)], SETTINGS, no_progress, labels=tmp_path / "labels.jsonl")


def test_a_labelled_session_without_records_is_named(
    without: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert without["organisations"][0]["sessions_without_events"] == ["lost [red]one"]
    print_evaluation(without)
    printed = " ".join(capsys.readouterr().out.split())
    assert "1 labelled sessions have no event among the records and count nowhere: lost [red]one." in printed
