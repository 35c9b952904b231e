"""The beginning of a history is learned, its end judged."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Autoencoder, Settings
from pipelines.cli.console import no_progress, print_stages
from pipelines.evaluation.backtest import Backtest, open_backtest, read_history, run_backtest
from tests.support import sample_organisation

SETTINGS = Settings(autoencoder=Autoencoder(max_epochs=0))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trial")
    (folder / "notes.txt").write_text("someone's own")
    return folder


@pytest.fixture(scope="module")
def tried(organisation: sample_organisation.SampleOrganisation, place: Path) -> Backtest:
    """Twelve days of the small organisation, and half a file: nine are learned, three judged."""
    broken = place / "broken.jsonl.gz"
    broken.write_bytes(Path(organisation.days[0]).read_bytes()[:5000])
    return run_backtest([str(organisation.folder), str(broken)], place, SETTINGS, no_progress)


@pytest.fixture(scope="module")
def history(organisation: sample_organisation.SampleOrganisation) -> pd.DataFrame:
    with read_history([str(organisation.folder)], SETTINGS) as history:
        return pd.concat(history.batches(), ignore_index=True).drop_duplicates("event_id")


def test_every_event_after_the_cut_is_judged_once_and_none_before(
    tried: Backtest, history: pd.DataFrame, organisation: sample_organisation.SampleOrganisation
) -> None:
    assert tried.split_time == pd.Timestamp(
        Path(organisation.new[0]).name.removesuffix(".jsonl.gz"), tz="UTC"
    )
    later = history[history["event_time"] >= tried.split_time]
    assert sorted(tried.scored_events["event_id"]) == sorted(later["event_id"])
    assert tried.bank.manifest["events"] == (history["event_time"] < tried.split_time).sum()
    assert tried.scored_days == pytest.approx(3, abs=0.01)


def test_judging_goes_on_where_the_bank_left_off(tried: Backtest) -> None:
    assert tried.scored_events["spectral_z"].notna().mean() > 0.9, "no one who was learned warms up again"


def test_alerts_and_judged_events_tell_the_same(tried: Backtest) -> None:
    verdicts = tried.scored_events[tried.scored_events["verdict"]]
    assert len(verdicts)
    assert {alert.alert_id for alert in tried.alerts} == set(verdicts["alert_id"])


def test_what_could_not_be_read_is_kept_with_its_reason(tried: Backtest) -> None:
    assert tried.about["rejected"] == len(tried.rejects) == 1
    assert tried.rejects.loc[0, "source"].endswith("broken.jsonl.gz")
    assert "cut short" in tried.rejects.loc[0, "reason"]


def test_the_events_of_one_principal_come_as_they_were_read(tried: Backtest, history: pd.DataFrame) -> None:
    principal = tried.scored_events["principal"].mode()[0]
    mine = history[(history["principal"] == principal) & (history["event_time"] >= tried.split_time)]
    assert set(tried.events_of(principal)["event_id"]) == set(mine["event_id"])
    with pytest.raises(FingerprintError, match="'stranger' did nothing from"):
        tried.events_of("stranger")


def test_a_trial_is_opened_again_and_what_else_lies_in_its_folder_stays(tried: Backtest, place: Path) -> None:
    again = open_backtest(place, SETTINGS)
    assert again.bank.version == tried.bank.version
    assert (place / "notes.txt").read_text() == "someone's own"


def test_where_no_trial_was_finished_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(FingerprintError, match="there is no finished backtest in"):
        open_backtest(tmp_path, SETTINGS)


def test_without_events_or_with_a_single_instant_there_is_no_trial(tmp_path: Path) -> None:
    empty = sample_organisation.write(tmp_path / "empty.jsonl", [])
    with pytest.raises(FingerprintError, match="there is no event in the sources"):
        run_backtest([str(empty)], tmp_path / "out", SETTINGS, no_progress)
    record = {"eventVersion": "1.08", "eventTime": "2026-01-05T09:00:00Z", "eventID": "1"}
    record |= {"eventSource": "s3.amazonaws.com", "eventName": "GetObject", "awsRegion": "eu-west-1"}
    record |= {"userIdentity": {"type": "Root", "accountId": "111122223333"}}
    one = sample_organisation.write(tmp_path / "one.jsonl", [record])
    with pytest.raises(FingerprintError, match="too few for a backtest"):
        run_backtest([str(one)], tmp_path / "out", SETTINGS, no_progress)


def test_a_stage_is_told_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    tell = print_stages()
    for stage, done in (("reading records", 1), ("reading records", 2), ("scoring events", 1)):
        tell(stage, done)
    assert capsys.readouterr().out == "reading records\nscoring events\n"
