"""`fingerprint config` and `fingerprint doctor`."""

from __future__ import annotations

import json
import socket
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fingerprint.core.settings import Settings
from pipelines import cli
from pipelines.commands import config as config_commands
from pipelines.commands import doctor
from tests.support import sample_organisation


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Return the exit status of the command line, run in this process."""
    monkeypatch.setattr(sys, "argv", ["fingerprint", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def test_init_writes_a_file_whose_lines_all_are_valid_when_they_are_uncommented(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "config", "init", "fp.toml") == 0
    text = Path("fp.toml").read_text()
    assert tomllib.loads(text) is not None
    lines = [line[1:] if line[:1] == "#" and line[:2] != "# " else line for line in text.splitlines()]
    given = tomllib.loads("\n".join(line for line in lines if not line.endswith("=")))
    assert Settings.model_validate(given) == Settings()
    assert call(monkeypatch, "config", "init", "fp.toml") == 2
    assert "fp.toml exists" in capsys.readouterr().err


def test_show_says_where_each_value_comes_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("fp.toml").write_text("[spectral]\nvote_share = 0.1\n[voting]\nquorum = 1\n")
    monkeypatch.setenv("FINGERPRINT_VOTING__QUORUM", "2")
    assert call(monkeypatch, "config", "show", "--changed", "--json", "--settings", "fp.toml") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["spectral.vote_share"]["value"], rows["spectral.vote_share"]["source"]) == (0.1, "file")
    assert (rows["voting.quorum"]["value"], rows["voting.quorum"]["source"]) == (2, "environment")
    assert set(rows) == {"spectral.vote_share", "voting.quorum"}
    assert call(monkeypatch, "config", "show") == 0
    assert "spectral.interval_seconds" in capsys.readouterr().out


def test_show_says_that_tables_come_from_the_environment_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FINGERPRINT_DELIVER__SOC__URL_FILE", "/run/secrets/soc")
    monkeypatch.setenv("FINGERPRINT_WEB__OIDC__ROLES__SOC", "analyst")
    assert call(monkeypatch, "config", "show", "--changed", "--json") == 0
    shown = {row["name"]: row["source"] for row in json.loads(capsys.readouterr().out)}
    assert shown == {"deliver.soc": "environment", "web.oidc.roles": "environment"}


def test_the_environment_names_the_settings_file_and_the_bank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[kafka]\ngroup_id = 'own'\n")
    monkeypatch.setenv("FINGERPRINT_SETTINGS_FILE", str(file))
    monkeypatch.setenv("FINGERPRINT_BANK_FOLDER", "models/bank")
    assert call(monkeypatch, "config", "check") == 0
    assert "kafka.group_id" in capsys.readouterr().out
    assert call(monkeypatch, "bank", "list") == 2
    assert "no bank in models/bank" in capsys.readouterr().err


def test_show_masks_secrets() -> None:
    receiver = {"url": "https://hooks.example.com/T0/canary"}
    settings = Settings.model_validate({"deliver": {"soc": receiver}})
    rows = config_commands.list_settings(None, settings)
    assert "canary" not in json.dumps(rows, default=str)
    assert [row["value"] for row in rows if row["name"] == "deliver.soc"] == [config_commands.MASK]


@pytest.mark.parametrize(
    ("text", "status", "named"),
    [("[spectral]\nvote_share = 0.1", 0, "spectral.vote_share"), ("[spectral]\nx = 1", 2, "x")],
)
def test_check_names_what_is_set_and_what_is_wrong(
    text: str, status: int, named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("fp.toml").write_text(text)
    assert call(monkeypatch, "config", "check", "--settings", "fp.toml") == status
    printed = capsys.readouterr()
    assert named in (printed.out if status == 0 else printed.err)


# --- doctor ---------------------------------------------------------------------------------------------------------


def findings(printed: str) -> dict[str, dict[str, Any]]:
    return {each["check"]: each for each in json.loads(printed)}


def test_doctor_warns_on_an_empty_machine_and_succeeds(
    free_port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "doctor", "--json") == 0
    found = findings(capsys.readouterr().out)
    assert set(found) == {
        "settings",
        "clock",
        "database",
        "broker",
        "bank",
        "triton",
        "backend",
        "enrichment",
        "delivery",
        "permissions",
        "disk",
    }
    assert {found[name]["status"] for name in ("database", "bank")} == {"warn"}
    assert "fingerprint train" in found["bank"]["remedy"]
    assert found["triton"]["status"] == "ok"


def test_doctor_fails_if_a_configured_broker_does_not_answer(
    free_port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("fp.toml").write_text(f'[kafka]\nbootstrap_servers = ["127.0.0.1:{free_port}"]\n')
    assert call(monkeypatch, "doctor", "--json", "--settings", "fp.toml") == 1
    broker = findings(capsys.readouterr().out)["broker"]
    assert broker["status"] == "fail"
    assert f"no broker answers at 127.0.0.1:{free_port}" in broker["finding"]


def test_doctor_shows_a_table_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "doctor") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "what to do" in shown
    assert "warn database" in shown


def test_doctor_looks_into_a_real_bank_and_database(
    scored: sample_organisation.Run, organisation: sample_organisation.SampleOrganisation
) -> None:
    url = f"sqlite:///{scored.out.parent}/alerts.sqlite"
    found = {
        each["check"]: each
        for each in doctor.run_checks(sample_organisation.SETTINGS, organisation.bank, url)
    }
    assert found["database"]["status"] == "ok"
    assert "entities ready" in found["bank"]["finding"]
    assert found["permissions"]["status"] == "ok"


def test_doctor_finds_a_damaged_bank(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    import shutil

    bank = tmp_path / "bank"
    shutil.copytree(organisation.bank, bank)
    (manifest,) = bank.glob("versions/*/manifest.json")
    manifest.write_text(manifest.read_text()[:-20])
    (found,) = [
        each
        for each in doctor.run_checks(sample_organisation.SETTINGS, bank, f"sqlite:///{tmp_path}/x.sqlite")
        if each["check"] == "bank"
    ]
    assert found["status"] == "fail"


def test_a_file_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "fp.toml"
    file.write_text("")
    file.chmod(0o644)
    assert doctor.check_settings_file(file).status == "warn"
    file.chmod(0o600)
    assert doctor.check_settings_file(file).status == "ok"
