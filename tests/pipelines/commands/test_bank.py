"""`fingerprint bank` and the gate in `fingerprint train`, as the person at the keyboard meets them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from prometheus_client import Gauge

from fingerprint.core import settings
from fingerprint.registry import bank as banks
from fingerprint.registry import bank_files, versions
from fingerprint.store import open_store
from pipelines import cli
from pipelines.cli.console import no_progress
from pipelines.commands import bank_table
from pipelines.runtime import host
from pipelines.train import train_bank
from tests.support import sample_organisation
from tests.support.stream_environment import Place


@pytest.fixture
def bank(organisation: sample_organisation.SampleOrganisation, tmp_path: Path) -> Path:
    return Path(shutil.copytree(organisation.bank, tmp_path / "bank"))


@pytest.fixture
def two(bank: Path) -> Path:
    """A bank with another version beside the one that is served, which knows no one as ready but everybody together."""
    good = bank_files.open_bank(bank)
    stack = good.fingerprints.assign(ready=good.fingerprints["level"] == 3)
    no_one = {name: int(name == "generic") for name in good.manifest["ready"]}
    bank_files.write_bank(banks.with_manifest_entries(replace(good, fingerprints=stack), ready=no_one), bank)
    return bank


def other(two: Path) -> str:
    """The version in which no one is ready."""
    manifests = {
        name: bank_files.read_manifest(two / "versions" / name) for name in versions.list_bank_versions(two)
    }
    return next(name for name, manifest in manifests.items() if not manifest["ready"]["entity"])


class Said:
    """How a program ended, and what it printed."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)  # where `bank` is the default folder
    monkeypatch.setenv("COLUMNS", "400")

    def run(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["fingerprint", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return run


# --- looking --------------------------------------------------------------------------------------------------------


def test_the_list_says_which_version_is_served_and_why(
    organisation: sample_organisation.SampleOrganisation, two: Path, call: Any
) -> None:
    rows = {row["version"]: row for row in call("bank", "list", "--json").json}
    assert {name: row["served"] for name, row in rows.items()} == {
        organisation.trained["version"]: True,
        other(two): False,
    }
    served = rows[organisation.trained["version"]]
    assert served["ready"]["entity"] == organisation.trained["ready"]["entity"]
    assert served["last_decision"]["action"] == "train"
    assert served["last_decision"]["by"] == host.login_name()
    assert served["gate"]["passed"] is True
    shown = call("bank", "list").out
    assert "the gate let it pass" in shown
    assert other(two) in shown


def test_the_list_shows_whole_days_and_versions_on_a_narrow_terminal(
    two: Path, call: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    large = {"events": 123_456, "ready": {"entity": 812}, "fingerprints": 1_234, "bytes": 12_345_678}
    rows = [row | large for row in call("bank", "list", "--json").json]
    monkeypatch.setenv("COLUMNS", "80")
    bank_table.print_versions(rows)
    shown = set(capsys.readouterr().out.split())
    for row in rows:
        assert {row["version"], *(moment[:10] for moment in row["span"])} <= shown
    assert {"served", "123,456", "1,234", "11.8", "MiB", "promotion", "gate"} <= shown


def test_a_version_that_cannot_be_read_is_listed_with_the_reason(two: Path, call: Any) -> None:
    broken = other(two)
    (two / "versions" / broken / "manifest.json").write_text('{"format": 2}')
    rows = {row["version"]: row for row in call("bank", "list", "--json").json}
    assert "train it again" in rows[broken]["problem"]
    assert "train it again" in call("bank", "list").out


def test_show_says_who_is_large_who_is_quiet_and_what_a_fingerprint_weighs(two: Path, call: Any) -> None:
    figures = call("bank", "show", "--json").json
    opened = bank_files.open_bank(two)
    entities = opened.fingerprints[opened.fingerprints["level"] == 0]
    assert figures["served"]
    assert figures["largest"][0]["events"] == entities["events"].max()
    quiet = entities["events"][entities["ready"]].min()
    assert figures["quietest_ready"][0]["events"] == quiet
    assert figures["bytes"] == sum(each["bytes"] for each in opened.manifest["files"].values())
    assert sum(figures["bytes_by_part"].values()) == figures["bytes"]
    learned = figures["bytes"] - figures["bytes_by_part"]["scorer_state"]
    assert figures["bytes_an_entity"] * figures["entities"] == pytest.approx(learned, rel=0.01)
    assert figures["bytes_an_entity"] < figures["bytes_with_net"] <= 20_000
    shown = call("bank", "show").out
    assert figures["largest"][0]["key"] in shown
    assert "bytes an entity" in shown
    assert call("bank", "show", other(two), "--json").json["ready"]["entity"] == 0


def test_show_says_how_often_each_detector_votes_for_each_kind_of_principal(two: Path, call: Any) -> None:
    rates = call("bank", "show", "--json").json["quality"]["vote_rates"]
    assert list(rates) == ["autoencoder", "sequence", "spectral"]
    assert all(
        0 <= rate["share"] <= 1 and rate["events"] > 0 for each in rates.values() for rate in each.values()
    )
    shown = call("bank", "show").out.splitlines()
    head = next(line for line in shown if line.startswith("votes on held-out events"))
    assert head.split("  ")[-1].strip() == "events"
    for kind, rate in rates["autoencoder"].items():
        row = next(line for line in shown if line.startswith(f"{kind} "))
        assert f"{rate['share']:.1%}" in row
        assert f"{rate['events']:,}" in row


def test_diff_puts_two_versions_side_by_side(
    organisation: sample_organisation.SampleOrganisation, two: Path, call: Any
) -> None:
    served = organisation.trained["version"]
    figures = call("bank", "diff", served, other(two), "--json").json
    assert figures["entities"]["no_longer_ready"] == organisation.trained["ready"]["entity"]
    assert figures["ready"]["principal"] == [organisation.trained["ready"]["principal"], 0]
    assert figures["loss_on_sample"]["older"]["0.5"] < figures["loss_on_sample"]["newer"]["0.5"]
    back = call("bank", "diff", other(two), served, "--json").json
    assert back["entities"]["became_ready"] == organisation.trained["ready"]["entity"]
    shown = call("bank", "diff", served, other(two)).out
    assert f"{organisation.trained['ready']['entity']} are ready no longer" in shown


def test_what_an_attacker_wrote_steers_no_terminal(bank: Path, call: Any) -> None:
    good = bank_files.open_bank(bank)
    keys = good.fingerprints["key"].astype(object) + "\x1b[2J\u202e"
    evil = banks.with_manifest_entries(
        replace(good, fingerprints=good.fingerprints.assign(key=keys)), note="evil"
    )
    bank_files.write_bank(evil, bank)
    for shown in (call("bank", "show", evil.version), call("bank", "diff", good.version, evil.version)):
        assert shown.status == 0
        assert "\\x1b[2J" in shown.out
        assert "\x1b" not in shown.out + shown.err
        assert "\u202e" not in shown.out


def test_verify_names_everything_that_is_wrong_and_says_so_by_its_status(two: Path, call: Any) -> None:
    assert call("bank", "verify").status == 0
    name = other(two)
    (two / "versions" / name / "words.parquet").unlink()
    file = two / "versions" / name / "stack.safetensors"
    file.write_bytes(file.read_bytes()[:-8] + b"8 bytes!")
    said = call("bank", "verify")
    assert said.status == 1
    assert "lacks words.parquet" in said.out
    assert "stack.safetensors is damaged" in said.out
    assert len(call("bank", "verify", name, "--json").json["problems"]) == 2
    assert call("bank", "verify", bank_files.open_bank(two).version).status == 0


def test_keys_are_made_a_bank_is_signed_and_verify_says_by_whom(two: Path, call: Any) -> None:
    made = call("bank", "keys", "key", "--json").json
    keys = two.parent / "settings.toml"
    keys.write_text(
        f'[bank]\nverify_key_files = ["{made["public"]}"]\nsigning_key_file = "{made["private"]}"\n'
    )
    assert "no signature was asked for" in call("bank", "verify").out
    unsigned = call("bank", "verify", "--settings", keys)
    assert (unsigned.status, unsigned.out.count("is not signed")) == (1, 2)
    assert {row["problem"] is None for row in call("bank", "list", "--settings", keys, "--json").json} == {
        False
    }
    for version in versions.list_bank_versions(two):
        assert version in call("bank", "sign", version, "--settings", keys).out
    signed = call("bank", "verify", "--settings", keys)
    assert signed.status == 0
    assert f"signed by a key of {made['key']}" in signed.out
    assert "there is no signer" in call("bank", "sign").err


# --- deciding -------------------------------------------------------------------------------------------------------


def test_publish_asks_the_gate_and_says_in_one_sentence_why_not(two: Path, call: Any) -> None:
    served = versions.require_served_version(two)
    said = call("bank", "publish", other(two))
    assert (said.status, said.out, said.err.count("\n")) == (3, "", 1)
    assert "is kept, not served" in said.err
    assert f"; bank {served} is still served (`fingerprint bank publish {other(two)} " in said.err
    assert "promotion.max_lost_fingerprints" in said.err
    assert versions.require_served_version(two) == served
    assert versions.decision_history(two)[-1]["action"] == "refused"
    assert call("bank", "publish", other(two), "--json").json["served"] is False


def test_a_refused_publish_names_the_command_that_serves_this_bank_all_the_same(
    two: Path, call: Any, tmp_path: Path
) -> None:
    version = other(two)
    elsewhere = two.rename(tmp_path / "our banks")
    said = call("bank", "publish", version, "--bank", elsewhere)
    (command,) = re.findall(r"`(fingerprint bank publish [^`]*)`", said.err)
    assert call(*shlex.split(command)[1:]).status == 0
    assert versions.require_served_version(elsewhere) == version


def test_publish_by_force_wants_a_reason_and_records_it(two: Path, call: Any) -> None:
    served = versions.require_served_version(two)
    assert call("bank", "publish", other(two), "--force", " ").status == 2
    assert versions.require_served_version(two) == served
    assert call("bank", "publish", other(two), "--force", "half the accounts were sold").status == 0
    assert versions.require_served_version(two) == other(two)
    line = versions.decision_history(two)[-1]
    assert (line["forced"], line["why"], line["before"]) == (True, "half the accounts were sold", served)
    assert "served by force: half the accounts were sold" in call("bank", "list").out


def test_rollback_serves_what_was_served_before(two: Path, call: Any) -> None:
    served = versions.require_served_version(two)
    call("bank", "publish", other(two), "--force", "a try")
    assert call("bank", "rollback", "--why", "too loud", "--json").json == {
        "version": served,
        "before": other(two),
    }
    assert versions.require_served_version(two) == served
    assert versions.decision_history(two)[-1]["why"] == "too loud"
    assert "no version before" in call("bank", "rollback").err


def test_rollback_to_a_damaged_version_is_refused_and_moves_nothing(two: Path, call: Any) -> None:
    served = versions.require_served_version(two)
    call("bank", "publish", other(two), "--force", "a try")
    (two / "versions" / served / "people.parquet").write_bytes(b"damaged")
    said = call("bank", "rollback")
    assert said.status == 2
    assert "people.parquet" in said.err
    assert versions.require_served_version(two) == other(two)


def test_a_rollback_while_a_training_ends_serves_no_version_that_was_not_checked(
    two: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the bad bank lies a good one, and before what the training serves the bad one."""
    good, bad = versions.require_served_version(two), other(two)
    call("bank", "publish", bad, "--force", "a try")
    newest = shutil.copytree(two / "versions" / bad, two / "versions" / "newest").name

    def ends(*_: object, **__: object) -> None:
        versions.serve_version(two, newest, versions.VersionDecision("train"))

    monkeypatch.setattr(bank_files, "open_bank", ends)
    said = call("bank", "rollback")
    assert said.status == 2
    assert f"newest was served while {good} was checked" in said.err
    assert versions.require_served_version(two) == newest


@pytest.mark.parametrize("program", ["list", "show", "verify", "rollback"])
def test_a_bank_that_is_not_there_is_one_sentence(program: str, call: Any) -> None:
    said = call("bank", program, "--bank", "nowhere")
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert "fingerprint train" in said.err


def test_a_version_that_is_not_there_is_one_sentence_that_names_those_that_are(two: Path, call: Any) -> None:
    for arguments in (("show", "x"), ("publish", "x"), ("verify", "x"), ("diff", other(two), "x")):
        said = call("bank", *arguments)
        assert said.status == 2
        assert other(two) in said.err


# --- train ----------------------------------------------------------------------------------------------------------


def test_a_bank_trained_on_the_attack_is_kept_and_not_served_with_status_3(
    organisation: sample_organisation.SampleOrganisation,
    bank: Path,
    call: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it learned hides four of the 83 attacks that the served bank clearly finds: severe actions stay strange to others."""
    monkeypatch.setenv("FINGERPRINT_AUTOENCODER__MAX_EPOCHS", "1")
    monkeypatch.setenv("FINGERPRINT_ALERTS__THRESHOLD", str(sample_organisation.SETTINGS.alerts.threshold))
    monkeypatch.setenv("FINGERPRINT_PROMOTION__MAX_MISSED_SHARE", "0.03")
    served = versions.require_served_version(bank)
    said = call("train", *organisation.days, "--json")
    assert said.status == 3
    assert said.json["served"] is False
    assert "kept, not served" in said.err
    assert versions.require_served_version(bank) == served
    assert said.json["version"] in versions.list_bank_versions(bank)
    kept = bank_files.open_bank(bank, version=said.json["version"])
    assert kept.manifest["gate"]["reasons"]
    assert kept.manifest["gate"]["probe"]["missed"] > 0
    shown = call("bank", "list").out
    assert "rejected: " in shown


def test_a_served_bank_that_is_damaged_is_replaced_by_the_next_one(
    organisation: sample_organisation.SampleOrganisation, bank: Path
) -> None:
    damaged = versions.require_served_version(bank)
    (bank / "versions" / damaged / "words.parquet").write_bytes(b"damaged")
    figures = train_bank(organisation.learned, bank, sample_organisation.SETTINGS, no_progress)
    assert figures["served"]
    assert figures["gate"]["against"] is None
    (warning,) = figures["gate"]["warnings"]
    assert warning.startswith(f"not compared with bank {damaged}, which cannot be opened: ")
    assert "words.parquet" in warning
    assert bank_files.open_bank(bank).version == figures["version"]


def test_training_the_same_again_leaves_what_is_served_alone(
    organisation: sample_organisation.SampleOrganisation, bank: Path
) -> None:
    before = {file: file.read_bytes() for file in sorted(bank.rglob("*")) if file.is_file()}
    assert train_bank(organisation.learned, bank, sample_organisation.SETTINGS, no_progress)["served"]
    assert {file: file.read_bytes() for file in sorted(bank.rglob("*")) if file.is_file()} == before


class Overridden(NamedTuple):
    """A bank that was trained where people had set a threshold: its folder, that alert store, and what training said."""

    folder: Path
    database: str
    figures: dict[str, Any]


@pytest.fixture(scope="module")
def overridden(
    organisation: sample_organisation.SampleOrganisation, tmp_path_factory: pytest.TempPathFactory
) -> Overridden:
    place = tmp_path_factory.mktemp("overridden")
    url, folder = f"sqlite:///{place}/alerts.sqlite", place / "bank"
    store = open_store(url)
    store.thresholds.override(datetime(2026, 3, 1, tzinfo=UTC), "maria", "a try", threshold=37.0)
    store.close()
    shutil.copytree(organisation.bank, folder)
    options = sample_organisation.SETTINGS
    return Overridden(
        folder, url, train_bank(organisation.learned[1:], folder, options, no_progress, store=url)
    )


def test_the_gate_of_a_training_judges_by_the_threshold_that_people_set(overridden: Overridden) -> None:
    figures = overridden.figures
    assert figures["gate"]["probe"]["before"]["attacks"] > 100
    assert figures["gate"]["probe"]["before"]["found"] == figures["gate"]["probe"]["now"]["found"] == 0
    assert (figures["alert_threshold"], figures["held_out_days"]) == (37.0, None)


@pytest.mark.parametrize("force", [False, True])
def test_the_gate_of_a_publication_judges_by_that_threshold_unless_it_is_forced(
    organisation: sample_organisation.SampleOrganisation,
    overridden: Overridden,
    call: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    force: bool,
) -> None:
    shutil.copytree(overridden.folder, tmp_path / "bank")
    monkeypatch.setenv("FINGERPRINT_DATABASE__URL", overridden.database)
    reason = ("--force", "asks no database") if force else ()
    said = call("bank", "publish", organisation.trained["version"], "--json", *reason)
    found = said.json["gate"]["probe"]["before"]["found"]
    assert found > 100 if force else found == 0


def test_versions_retire_as_others_come_and_drift_is_measured_from_an_old_one(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    few = sample_organisation.SETTINGS.model_copy(
        update={
            "bank": sample_organisation.SETTINGS.bank.model_copy(update={"retained_versions": 3}),
            "promotion": settings.Promotion(reference_versions_back=2, max_loss_shift=9, max_missed_share=1),
        }
    )
    figures = [
        train_bank(organisation.days[at : at + 2], tmp_path, few, no_progress, allow_immature=True)
        for at in range(4)
    ]
    names = [each["version"] for each in figures]
    assert [each["served"] for each in figures] == [True] * 4
    assert versions.list_bank_versions(tmp_path) == names[:0:-1]
    assert figures[2]["gate"]["reference"]["against"] == names[0]
    assert figures[3]["gate"]["reference"]["against"] == names[1]
    assert [line["before"] for line in versions.decision_history(tmp_path)] == [None, *names[:-1]]


# --- the stream says by which bank it judges ------------------------------------------------------------------------


def test_a_stream_says_by_metrics_which_bank_judges_how_old_it_is_and_how_far_it_came(
    organisation: sample_organisation.SampleOrganisation, two: Path, tmp_path: Path
) -> None:
    good = bank_files.open_bank(two)
    drift = {"drift": {"quantiles": {"0.5": 0.02}}, "reference": {"quantiles": {"0.99": 0.4}}}
    moved = banks.with_manifest_entries(good, note="moved", gate=drift)
    bank_files.publish_version(moved, two)
    place = Place(tmp_path / "place", two).create()
    with place.consumer() as consumer, place.producer() as producer:
        metrics = place.program(consumer, producer).metrics
    assert samples(metrics.bank) == {(moved.version,): 1}
    assert samples(metrics.bank_trained_until) == {(): pd.Timestamp(good.manifest["span"][1]).timestamp()}
    assert samples(metrics.bank_drift) == {("previous", "0.5"): 0.02, ("reference", "0.99"): 0.4}


def samples(gauge: Gauge) -> dict[tuple[str, ...], float]:
    """Label values -> value."""
    return {tuple(each.labels.values()): each.value for found in gauge.collect() for each in found.samples}
