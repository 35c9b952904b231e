"""What the person at the keyboard meets: help that names the options, and one sentence where something is wrong."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from fingerprint.core.settings import Settings
from pipelines import cli
from pipelines.cli.app import app, app_for
from pipelines.demo import DemoFolder
from pipelines.runtime.backend import get_backend
from tests.support import sample_organisation
from tests.support.forked import fingerprint_without_torch

PROGRAMS = {
    "simulate": ("--principals", "--days", "--seed", "--attacks", "--until", "--out", "--json"),
    "train": (
        "SOURCE",
        "--topic",
        "--since",
        "--until",
        "--days",
        "--database",
        "--bank",
        "--settings",
        "--json",
    ),
    "score": ("SOURCE", "--bank", "--database", "--out", "--state", "--settings", "--json"),
    "evaluate": ("SOURCE", "--json"),
    "alerts list": (
        "--status",
        "--severity",
        "--principal",
        "--since",
        "--limit",
        "--output",
        "--database",
        "--json",
    ),
    "alerts assign": ("ALERT_ID", "ACCOUNT", "--by", "--database", "--json"),
    "alerts note": ("ALERT_ID", "TEXT", "--by", "--database", "--json"),
    "alerts reopen": ("ALERT_ID", "--why", "--by", "--database", "--json"),
    "config init": ("FILE",),
    "config show": ("--changed", "--settings", "--json"),
    "config check": ("--settings", "--json"),
    "doctor": ("--bank", "--database", "--settings", "--json"),
    "dead-letters list": ("--topic", "--settings", "--json"),
    "checkpoints list": ("--settings", "--json"),
    "accounts add": ("NAME", "--role", "--database", "--json"),
    "feed-gaps list": ("--open", "--database", "--json"),
    "thresholds estimate": ("--bank", "--database", "--days", "--json"),
    "database prune": ("--database", "--settings", "--json"),
    "alerts triage": ("alert_id", "--why", "--of", "--by", "--database", "--json"),
    "alerts show": ("alert_id", "--database", "--json", "--page"),
    "bank list": ("--bank", "--json"),
    "bank show": ("VERSION", "--bank", "--json"),
    "bank diff": ("OLDER", "NEWER", "--top", "--json"),
    "bank publish": ("VERSION", "--force", "--why", "--json"),
    "bank rollback": ("--why", "--json"),
    "bank verify": ("VERSION", "--json"),
    "bank keys": ("FILE", "--json"),
    "bank sign": ("VERSION", "--bank", "--settings", "--json"),
    "triton load": ("--bank", "--settings", "--json"),
    "triton status": ("--settings", "--json"),
    "topics create": (
        "--partitions",
        "--replicas",
        "--retention-days",
        "--grow",
        "--wait",
        "--settings",
        "--json",
    ),
    "topics list": ("--settings", "--json"),
    "secrets make": ("FOLDER", "NAME", "--rotate", "--json"),
    "simulate-live": ("--days", "--speed", "--folder", "--bank", "--keep", "--settings", "--json"),
    "demo": ("--out",),
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative defaults (bank, alert store) lie in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="module", autouse=True)
def _backend_is_announced() -> None:
    """A process announces its backend once, with the first command that needs it."""
    get_backend(Settings())


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Exit status of the program, run in this process."""
    monkeypatch.setattr(sys, "argv", ["fingerprint", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line on standard error of a program that ends with status 2 and says nothing else."""
    assert call(monkeypatch, *arguments) == 2
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert (said.out, len(lines)) == ("", 1), said
    assert lines[0].startswith("fingerprint: ")
    return lines[0]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return sample_organisation.write(
        tmp_path / "in.jsonl", [{"eventTime": "2026-01-14T10:00:00Z", "eventName": "GetUser"}]
    )


# --- help -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_names_its_options(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, *program.split(), "--help") == 0
    shown = capsys.readouterr().out
    assert [option for option in PROGRAMS[program] if option.lower() not in shown.lower()] == []


def test_the_programs_are_those_of_the_contract(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "--help") == 0
    shown = capsys.readouterr().out
    named = {name.split()[0] for name in PROGRAMS}
    assert {name for name in named if re.search(rf"\b{name}\b", shown)} == named
    assert named <= set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


# --- one sentence ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("paint",), "there is no command paint"),
        (("scor",), "did you mean score"),
        (("alerts", "lst"), "did you mean list? (see `fingerprint alerts --help`)"),
        (("score",), "SOURCE is missing"),
        (("score", "x.json", "--colour", "red"), "there is no option --colour"),
        (("score", "x.json", "--bnk", "b"), "did you mean --bank?"),
        (("score", "x.json", "--bank"), "--bank needs a value"),
        (("simulate", "--out", "o", "--days", "many"), "--days has to be a whole number"),
        (("simulate", "--out", "o", "--days", "0"), "--days has to be at least 1"),
        (("simulate", "--days", "3"), "--out is missing"),
        (("replay", "x.json", "--rate", "fast"), "--rate has to be a number"),
        (("serve", "--port", "99999"), "--port has to be at most 65535"),
        (("alerts", "list", "--severity", "hig"), "one of low, medium, high, critical; did you mean high?"),
        (("alerts", "list", "--since", "yesterday"), "neither an age nor a date: write 24h, 7d, 2026-01-31"),
        (("alerts", "list", "--sinc", "7d"), "there is no option --sinc; did you mean --since? (see"),
        (("alerts", "show"), "ALERT_ID is missing"),
        (("alerts", "show", "a", "b"), "b is one argument too many"),
        (("train", "nothing/here", "--bank", "b"), "nothing/here"),
        (("train", "*.nothing", "--bank", "b"), "*.nothing"),
        (("train", "nosuch://bucket/x"), "nosuch"),
        (("train",), "--topic"),
        (("train", "x.json", "--since", "yesterday"), "2026-01-31"),
        (("train", "x.json", "--since", "2026-02-01", "--until", "2026-01-01"), "not before"),
        (("train", "x.json", "--since", "2026-02-01", "--days", "3"), "give one of them"),
        (("train", "x.json", "--days", "0"), "above 0"),
        (("alerts", "triage", "397edb7b", "benign"), "benign needs a reason"),
        (("alerts", "triage", "397edb7b", "true_positive"), "fingerprint score"),
        (("thresholds", "set", "--alerts-per-day", "0", "--why", "x"), "--alerts-per-day has to be at least"),
        (("thresholds", "estimate", "--days", "-5"), "--days has to be at least 1"),
        (("train", "x.json", "--days", "nan"), "above 0"),
        (("thresholds", "estimate", "--days", "1e9"), "36500 at most"),
        (("deliveries", "list", "--limit", "9" * 20), "--limit has to be at most 1000000"),
        (("alerts", "list", "--limit", "9" * 20), "--limit has to be at most 1000000"),
        (("alerts", "list"), "fingerprint score"),
        (("alerts", "list", "--database", "postgres"), "URL"),
        (("alerts", "list", "--database", "mysql://u:secret@h/d"), "mysql"),
        (("evaluate", "nothing/here"), "labels"),
        (("evaluate", "nothing/here", "--worlds", "2"), "leave SOURCE out"),
        (
            ("evaluate", "nothing/here", "--retrain", "2"),
            "--retrain simulates its own organisations: leave SOURCE out",
        ),
        (("evaluate", "--worlds", "101"), "1 to 100"),
        (("bank", "diff"), "OLDER is missing: A version, such as the one that is served"),
    ],
)
def test_a_wrong_argument_is_one_sentence_that_names_it(
    arguments: tuple[str, ...],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sentence = refused(monkeypatch, capsys, *arguments)
    assert named in sentence
    assert "secret" not in sentence


def test_a_folder_without_records_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_organisation.write(tmp_path / "logs" / "labels.jsonl", [{"event_id": "x"}])
    assert "logs" in refused(monkeypatch, capsys, "train", "logs")


def test_a_bank_that_is_not_there_is_one_sentence_that_says_how_to_make_it(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "fingerprint train" in refused(monkeypatch, capsys, "score", records, "--bank", "nobank")


def test_an_empty_history_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.jsonl.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "nothing.json").write_bytes(b"")
    for source in ("empty.jsonl.gz", "nothing.json"):
        assert "no event" in refused(monkeypatch, capsys, "train", source, "--json")


@pytest.mark.parametrize(
    "option",
    [("--out", "file/x.parquet"), ("--out", "file/x.jsonl"), ("--out", "x.csv"), ("--out", "folder.jsonl")],
)
def test_results_that_cannot_be_written_are_one_sentence(
    option: tuple[str, str],
    records: Path,
    organisation: sample_organisation.SampleOrganisation,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("file").write_text("a file where a folder should be")
    Path("folder.jsonl").mkdir()
    assert option[1] in refused(monkeypatch, capsys, "score", records, "--bank", organisation.bank, *option)


def test_a_store_that_cannot_be_written_is_one_sentence(
    records: Path,
    organisation: sample_organisation.SampleOrganisation,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("file").write_text("this is no database, and it is long enough to be looked at")
    for url in ("sqlite:///no/folder/alerts.sqlite", "sqlite:///file"):
        assert f"database {url}" in refused(
            monkeypatch, capsys, "score", records, "--bank", organisation.bank, "--database", url
        )


def test_that_alerts_need_a_database_is_said_where_none_is_asked_for(
    records: Path,
    organisation: sample_organisation.SampleOrganisation,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`train --database none` works, so `score` has to say why it does not."""
    asked = ("score", records, "--bank", organisation.bank, "--database", "none")
    sentence = refused(monkeypatch, capsys, *asked)
    assert "`--database none` is for `train`" in sentence
    assert "sqlite:///fingerprint.sqlite" in sentence


def test_a_bank_that_cannot_be_written_is_one_sentence(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("a file where a folder should be")
    assert "file" in refused(monkeypatch, capsys, "train", records, "--bank", "file", "--json")


@pytest.mark.parametrize("program", ["simulate", "demo"])
def test_a_folder_that_cannot_be_made_is_one_sentence(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("a file where a folder should be")
    assert "file" in refused(monkeypatch, capsys, program, "--out", "file/x")


@pytest.mark.parametrize(
    "holds", ["thesis.txt", "records/2026-01-01.json", "bank/CURRENT", "alerts.sqlite.bak"]
)
def test_a_demo_removes_no_files_of_others(
    holds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "mine" / holds
    own.parent.mkdir(parents=True)
    own.write_text("years of work")
    if own.parent == tmp_path / "mine":  # also beside what a demo made
        (own.parent / ".demo").touch()
    said = refused(monkeypatch, capsys, "demo", "--out", tmp_path / "mine")
    assert f"'{holds.partition('/')[0]}', which is not of a demo: name a new folder" in said
    assert own.read_text() == "years of work"


def test_a_simulation_is_not_mixed_with_records_of_other_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ("simulate", "--out", tmp_path, "--principals", "2", "--attacks", "0", "--days")
    for days in (1, 1, 2):  # again, and longer
        assert call(monkeypatch, *small, days) == 0
    capsys.readouterr()
    said = refused(monkeypatch, capsys, *small, "1")
    assert "2026-01-06.jsonl.gz" in said
    assert "name a new folder" in said
    (tmp_path / "111122223333_CloudTrail.json.gz").touch()
    assert "111122223333_CloudTrail.json.gz" in refused(monkeypatch, capsys, *small, "2")


@pytest.mark.parametrize("left", [".demo", "records/labels.jsonl"])
def test_a_demo_takes_the_place_of_an_earlier_one(left: str, tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path / "demo")
    for name in (left, "alerts.sqlite", "alerts.sqlite-wal", "bank/CURRENT", "pages/index.html"):
        (folder.out / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.out / name).touch()
    (tmp_path / "link").symlink_to(folder.out)
    DemoFolder(tmp_path / "link").clear()
    assert [each.name for each in folder.out.iterdir()] == [".demo"]
    folder.clear()


def test_a_page_that_cannot_be_written_is_one_sentence(
    scored: sample_organisation.Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("a file where a folder should be")
    where = ("--database", f"sqlite:///{scored.out.parent}/alerts.sqlite", "--page", "file/x.html")
    assert "file/x.html" in refused(monkeypatch, capsys, "alerts", "show", scored.alerts[0].alert_id, *where)


def test_a_query_for_me_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(
        monkeypatch, capsys, "alerts", "list", "--where", "assignee:me", "--database", "sqlite:///no.sqlite"
    )
    assert "write the name: assignee:maria" in said


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[spectral]\nvote_shar = 0.1", "spectral.vote_shar"),
        ("[spectre]\nthreshold = 4", "spectre"),
        ("[spectral", "settings.toml"),
        ("spectral = 4", "spectral"),
        ("[spectral]\nvote_share = 'high'", "spectral.vote_share"),
        ("[spectral]\nvote_share = 0", "spectral.vote_share"),
        ("[spectral]\nwarm_up_days = 60", "warm_up_days"),
        ("[spectral]\nvote_share = nan", "spectral.vote_share"),
        ("[spectral]\ninterval_seconds = 7000", "interval_seconds"),
        ("[autoencoder]\nthreshold = inf", "autoencoder.threshold"),
        ("[voting]\nquorum = 4", "never be reached"),
        ("[bank]\nretained_versions = 3", "settings: promotion.reference_versions_back 5"),
        ("[voting]\ndetectors = ['spectral', 'spectral']", "twice"),
        ("[entities]\nperson_role_patterns = ['(']", "regular expression"),
        ("[entities]\ngranularity = 'planet'", "entities.granularity"),
    ],
)
def test_a_setting_that_is_unknown_or_can_never_fire_is_one_sentence_that_names_it(
    text: str, named: str, records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("settings.toml").write_text(text)
    assert named in refused(monkeypatch, capsys, "train", records, "--settings", "settings.toml")


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("FINGERPRINT_SPECTRAL__THRESHHOLD", "4", "spectral.threshhold"),
        ("FINGERPRINT_SPECTRE__THRESHOLD", "4", "spectre"),
        ("FINGERPRINT_SPECTRAL_THRESHOLD", "4", "FINGERPRINT_SPECTRAL_THRESHOLD"),
        ("FINGERPRINT_SPECTRAL__VOTE_SHARE", "high", "spectral.vote_share"),
        ("FINGERPRINT_VOTING__QUORUM", "5", "never be reached"),
    ],
)
def test_the_environment_is_held_to_the_same(
    name: str,
    value: str,
    named: str,
    records: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, value)
    assert named in refused(monkeypatch, capsys, "train", records)


def test_a_detector_that_no_one_wrote_is_one_sentence_that_names_those_there_are(
    records: Path,
    organisation: sample_organisation.SampleOrganisation,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FINGERPRINT_VOTING__DETECTORS", "autoencoder, oracle")
    sentence = refused(monkeypatch, capsys, "score", records, "--bank", organisation.bank, "--json")
    assert "'oracle'" in sentence
    assert "forest" in sentence


def test_settings_files_that_cannot_be_read_are_one_sentence(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("binary.toml").write_bytes(b"\xff\xfe\x00")
    for file in ("missing.toml", "binary.toml", "."):
        assert file in refused(monkeypatch, capsys, "train", records, "--settings", file)


def test_the_environment_wins_over_the_file(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("settings.toml").write_text("[voting]\nquorum = 9")
    monkeypatch.setenv("FINGERPRINT_VOTING__QUORUM", "7")
    assert "quorum 7" in refused(monkeypatch, capsys, "train", records, "--settings", "settings.toml")


# --- as a user runs it ----------------------------------------------------------------------------------------------

PROGRAM = Path(sys.executable).with_name("fingerprint")


def test_a_program_of_its_own_process_ends_with_status_2_and_one_line() -> None:
    command = [str(PROGRAM), "score", "nothing/here", "--bank", "nobank"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)


def test_anyone_who_stops_reading_the_queue_sees_no_traceback(scored: sample_organisation.Run) -> None:
    store = f"sqlite:///{scored.out.parent}/alerts.sqlite"
    command = f"'{PROGRAM}' alerts list --json --database '{store}' | head -c 1"
    ended = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)  # noqa: S603
    assert (ended.stdout, ended.stderr) == ("[", "")


def test_neither_scoring_nor_training_needs_torch(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    scored = without_torch("score", organisation.new[0], "--bank", organisation.bank)
    assert '"alerts"' in scored
    without_torch("train", organisation.new[0], "--bank", tmp_path / "b", "--allow-immature")


def without_torch(*arguments: object) -> str:
    """Return what the command line prints in a process from which torch is hidden, and which has not imported it."""
    program = fingerprint_without_torch(*map(str, arguments), "--json", environment=os.environ)
    out, err = program.communicate(timeout=60)
    assert program.returncode == 0, err
    return out


def test_only_the_command_that_is_asked_for_is_built() -> None:
    for named in ("alerts", "score", "simulate-live", "doctor"):
        chosen = app_for([named, "--help"])
        assert len(chosen.registered_groups) + len(chosen.registered_commands) == 1
        helps = {CliRunner().invoke(each, [named, "--help"]).output for each in (chosen, app)}
        assert len(helps) == 1
    for arguments in ([], ["--help"], ["alrets", "list"], ["None"]):
        assert app_for(arguments) is app
    assert len(app.registered_groups) > 10
    assert len(app.registered_commands) > 10
