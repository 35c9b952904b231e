"""Real records that no one here wrote, and histories too thin to learn from, walk the whole pipeline."""

from __future__ import annotations

import gzip
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.core.settings import Reading
from fingerprint.sources.cloudtrail import samples
from pipelines.cli import console
from pipelines.cli.console import no_progress
from pipelines.train import train_bank
from tests.support import record_corpus, sample_organisation
from tests.support.record_corpus import SHARED

COMMITTED = sorted(folder.name for folder in samples.data_folder("real").iterdir() if folder.is_dir())
IN_ALL = 5943  # records of the five sets


def sets() -> list[Path]:
    return record_corpus.sets(SHARED) or [samples.data_folder(f"real/{name}") for name in COMMITTED]


def number_of(folder: Path) -> int:
    return sum(1 for _ in gzip.open(folder / f"{folder.name}.jsonl.gz"))


@pytest.mark.parametrize("folder", sets(), ids=lambda folder: folder.name)
def test_a_real_set_is_learned_and_scored_and_every_record_is_accounted_for(
    folder: Path, tmp_path: Path
) -> None:
    trained = train_bank(
        [str(folder)], tmp_path / "bank", sample_organisation.SETTINGS, no_progress, allow_immature=True
    )
    scored = sample_organisation.run([folder], tmp_path / "bank", tmp_path).figures
    for figures in (trained, scored):
        parts = [figures[name] for name in ("events", "rejects", "duplicates", "skipped", "future_dated")]
        assert figures["records"] == sum(parts) == number_of(folder)
        assert len(figures["reasons"]) == figures["rejects"]
        assert all(folder.name in reason and ": " in reason for reason in figures["reasons"])
    assert scored["events"] == trained["events"] > 0
    assert scored["started_from"].startswith("empty"), "what was learned is inside the training span"


def test_the_committed_sets_are_found_by_name() -> None:
    assert {"invictus_stratus", "schema_variety", "panther_rule_tests"} <= set(COMMITTED)
    assert all((samples.data_folder(f"real/{name}") / "README.md").is_file() for name in COMMITTED)


@pytest.mark.skipif(not SHARED.is_dir(), reason="all five sets are only there where they were collected")
def test_all_real_records_are_read() -> None:
    with EventSpool(sample_organisation.SETTINGS) as history:
        history.add_batches(files.read_sources([str(folder) for folder in sets()], Reading()))
    assert history.records == IN_ALL
    assert [reject.reason for reject in history.rejects if not reject.reason] == []


# --- thin histories -------------------------------------------------------------------------------------------------

START = datetime(2026, 1, 14, 10)


def call(number: int, when: datetime, **fields: Any) -> dict[str, Any]:
    """One call of the only user there is."""
    identity = {
        "type": "IAMUser",
        "arn": "arn:aws:iam::123456789012:user/ada",
        "accountId": "123456789012",
        "userName": "ada",
    }
    return {
        "eventID": f"id-{number}",
        "eventTime": f"{when:%Y-%m-%dT%H:%M:%SZ}",
        "eventSource": "iam.amazonaws.com",
        "eventName": "GetUser",
        "userIdentity": identity,
        "sourceIPAddress": "198.51.100.7",
        **fields,
    }


def every(step: timedelta, times: int, start: datetime = START) -> list[dict[str, Any]]:
    return [call(number, start + step * number) for number in range(times)]


HISTORIES = {
    "one record": [call(0, START)],
    "one record of which nothing is known": [{"eventTime": "2026-01-14T10:00:00Z"}],
    "one interval": every(timedelta(seconds=50), 60),
    "all at one instant": [call(number, START, eventName=f"Get{number % 7}") for number in range(90)],
    "two records a year apart": every(timedelta(days=400), 2, START - timedelta(days=400)),
    "one principal": every(timedelta(hours=1), 200),
    "spread over four years": every(timedelta(days=37), 40, START - timedelta(days=1_480)),
    "one record from the future": [*every(timedelta(hours=1), 90), call(999, datetime(2199, 12, 31))],
}


@pytest.mark.parametrize("history", HISTORIES)
def test_a_thin_history_is_learned_and_what_is_not_ready_is_said(
    history: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = HISTORIES[history]
    learned = sample_organisation.write(tmp_path / "learned.jsonl", rows)
    figures = train_bank(
        [str(learned)], tmp_path / "bank", sample_organisation.SETTINGS, no_progress, allow_immature=True
    )
    assert figures["events"] == len(rows) - figures["future_dated"]
    assert figures["future_dated"] == history.endswith("from the future")
    assert figures["ready"]["entity"] + figures["waiting"]["entities"] == 1
    console.print_training(figures)
    said = capsys.readouterr().out
    assert f"not ready: {figures['waiting']['entities']} entities" in said
    rare = history.startswith(("one record", "two records")) and not figures["future_dated"]
    assert ("ready at the present pace: 1 later" in said) == rare
    assert f"alerts from z {sample_organisation.SETTINGS.alerts.threshold:.2f} on, as set" in said
    later = sample_organisation.write(
        tmp_path / "later.jsonl", every(timedelta(minutes=5), 40, START + timedelta(days=20))
    )
    for source, events in ((learned, figures["events"]), (later, 40)):
        run = sample_organisation.run([source], tmp_path / "bank", tmp_path / source.stem)
        assert run.figures["events"] == events
        assert run.events["autoencoder_z"].notna().all(), "everyone falls back to a peer"


def test_a_principal_no_one_has_learned_is_never_news_by_volume_alone(tmp_path: Path) -> None:
    """Half a day of history: the series warm up, and the spectral detector has no opinion."""
    learned = sample_organisation.write(tmp_path / "learned.jsonl", every(timedelta(minutes=10), 72))
    train_bank(
        [str(learned)], tmp_path / "bank", sample_organisation.SETTINGS, no_progress, allow_immature=True
    )
    soon = sample_organisation.write(
        tmp_path / "soon.jsonl", every(timedelta(seconds=1), 50, START + timedelta(hours=13))
    )
    run = sample_organisation.run([soon], tmp_path / "bank", tmp_path)
    assert run.figures["started_from"] == "bank"
    assert run.events["spectral_z"].isna().all()
    assert run.figures["verdicts"] == 0


def test_a_file_without_records_is_scored_to_nothing(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    empty = sample_organisation.write(tmp_path / "empty.jsonl", [])
    run = sample_organisation.run([empty], organisation.bank, tmp_path, scorer_state=tmp_path / "state")
    assert (run.figures["records"], run.figures["alerts"], len(run.events)) == (0, 0, 0)
    assert list(run.events.columns)[:2] == ["event_id", "event_time"]
