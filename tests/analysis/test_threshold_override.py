"""The threshold override of the alert store is what `score` and a running stream apply; a stream reports its status."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.registry import quality
from fingerprint.registry.bank_files import open_bank
from fingerprint.store import open_store
from pipelines.commands import thresholds
from pipelines.runtime import host
from tests.streaming.test_bank_watcher import BRISK
from tests.support import sample_organisation
from tests.support.running_stream import ids_of, live
from tests.support.stream_environment import Place, Records

NOW = datetime(2026, 3, 4, tzinfo=UTC)
HIGH = 20.0  # of which no one's z falls short by chance


@pytest.fixture
def place(organisation: sample_organisation.SampleOrganisation, tmp_path: Path) -> Place:
    made = Place(tmp_path / "place", organisation.bank)
    made.configure(**BRISK)
    return made.create()


def test_a_stream_holds_events_to_what_is_chosen_while_it_runs(place: Place, records: Records) -> None:
    half = len(records) // 2
    with live(place) as stream:
        stream.read(records[:half])
        place.store().thresholds.override(NOW, "maria", "quiet, please", threshold=HIGH)
        stream.until(lambda: stream.program.settings.alerts.threshold == HIGH)
        stream.read(records[half:])
    votes = {event: vote for (event, by), vote in place.said().votes.items() if by == "autoencoder"}
    after = ids_of(records[half:], records[:half])
    late = [vote for event, vote in votes.items() if event in after]
    assert len(late) > 10
    assert any(vote["vote"] for vote in late), "votes are as before, and no alert comes of them"
    assert not {event for alert in place.said().alerts.values() for event in alert.event_ids} & after
    place.run()  # one that starts again knows of it, too


def test_what_does_not_fit_the_settings_is_refused_and_the_stream_goes_on(
    place: Place, records: Records
) -> None:
    with live(place) as stream:
        stream.read(records[:200])
        place.store().thresholds.override(NOW, "maria", "strict", quorum=4)
        stream.until(lambda: stream.program.threshold_override is not None)
        stream.read(records[200:400])
        assert stream.program.settings.voting.quorum == 2
        place.store().thresholds.override(NOW, "maria", "as before")
        stream.until(lambda: stream.program.threshold_override.cleared)


def test_score_holds_events_to_what_was_chosen(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/alerts.sqlite"
    open_store(url).thresholds.override(NOW, "maria", "quiet, please", threshold=HIGH)
    found = sample_organisation.run(organisation.new, organisation.bank, tmp_path)
    assert found.alerts == []
    assert found.events["autoencoder_z"].max() < HIGH
    assert found.events["autoencoder_z"].max() > sample_organisation.SETTINGS.alerts.threshold


@pytest.mark.parametrize(
    ("chosen", "because"),
    [
        ({"threshold": 3.0, "reason": " "}, "give a reason"),
        ({"threshold": float("nan"), "reason": "x"}, "cannot be meant"),
        ({"threshold": 0.2, "reason": "x"}, "cannot be meant"),
        ({"quorum": 0, "reason": "x"}, "at least one vote"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_changes_nothing(
    chosen: dict[str, object], because: str, tmp_path: Path
) -> None:
    store = open_store(f"sqlite:///{tmp_path}/alerts.sqlite")
    with pytest.raises(FingerprintError, match=because):
        store.thresholds.override(NOW, "maria", **chosen)
    assert store.thresholds.current() is None


def test_who_chose_what_and_why_is_remembered(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/alerts.sqlite")
    store.thresholds.override(NOW, "maria", "too many", threshold=3.9)
    store.thresholds.override(NOW, "ben", "as it was")
    newest, before = store.thresholds.history()
    assert (newest.by, newest.cleared, newest.threshold) == ("ben", True, None)
    assert (before.by, before.why, before.threshold) == ("maria", "too many", 3.9)
    assert store.thresholds.current() == newest


def test_who_chose_at_the_console_is_told_from_the_store_s_people(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/alerts.sqlite"
    store = open_store(url)
    thresholds.set_threshold(url, Settings(), "too many", threshold=3.9)
    assert [each.by for each in store.thresholds.history()] == [host.operator_name()]
    assert store.audit.entries("threshold")[0].by.startswith("console:")


def test_a_threshold_that_hides_every_stored_alert_needs_force(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scored = sample_organisation.run(organisation.new, organisation.bank, tmp_path)
    url, settings = f"sqlite:///{tmp_path}/alerts.sqlite", sample_organisation.SETTINGS
    count = len(scored.alerts)
    with pytest.raises(
        FingerprintError, match=f"no alert of the last 14 days, and there were {count}: .*--force"
    ):
        thresholds.set_threshold(url, settings, "a typing error", threshold=36)
    with pytest.raises(FingerprintError, match="expected at most 37"):
        thresholds.set_threshold(url, settings, "a typing error", threshold=360)
    assert open_store(url).thresholds.current() is None
    thresholds.set_threshold(url, settings, "a quiet night", threshold=36, force=True)
    figures = thresholds.set_threshold(url, settings, "as before", threshold=settings.alerts.threshold)
    assert figures["estimate"]["alerts_per_day"] >= figures["estimate"]["stored_alerts_per_day"] > 0
    thresholds.print_threshold(figures)
    counted = figures["estimate"]["days_with_votes"]
    assert counted < 4
    printed = capsys.readouterr().out
    assert f"in the last 14 days, {counted:g} of them with votes, it would have shown " in printed
    assert "are not kept" not in printed
    lower = settings.database.min_vote_score - 0.5
    thresholds.print_threshold(thresholds.set_threshold(url, settings, "all of it", threshold=lower))
    assert "votes below a z of 1.6 are not kept" in capsys.readouterr().out


def test_a_quorum_alone_that_hides_every_stored_alert_needs_force(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    """No third detector voted, so three votes show nothing, whatever threshold a bank gives the alert budget."""
    scored = sample_organisation.run(organisation.new, organisation.bank, tmp_path)
    url, settings = f"sqlite:///{tmp_path}/two-voted.sqlite", Settings()
    store, votes = open_store(url), scored.store.votes.read()
    store.alerts.save(scored.alerts, votes[votes["detector"] != "sequence"])
    with pytest.raises(
        FingerprintError, match=rf"^3 votes would .* there were {len(scored.alerts)}: .*--force"
    ):
        thresholds.set_threshold(url, settings, "fewer, please", quorum=3)
    assert store.thresholds.current() is None
    thresholds.set_threshold(url, settings, "two are enough", quorum=2)
    thresholds.set_threshold(url, settings, "a quiet night", quorum=3, force=True)
    thresholds.set_threshold(url, settings, "as configured")


def test_an_estimate_by_a_bank_that_is_not_there_is_refused(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/alerts.sqlite"
    open_store(url)
    with pytest.raises(FingerprintError, match=f"no bank in {tmp_path}/nobank: make one"):
        thresholds.estimate_thresholds(url, tmp_path / "nobank", sample_organisation.SETTINGS)
    with pytest.raises(FingerprintError, match="36500 at most"):
        thresholds.estimate_thresholds(url, None, sample_organisation.SETTINGS, days=1e9)
    for folder in (organisation.bank, None):
        assert thresholds.estimate_thresholds(url, folder, sample_organisation.SETTINGS)


def test_a_budget_is_shown_as_the_z_that_the_bank_gives_it(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, settings = f"sqlite:///{tmp_path}/alerts.sqlite", Settings()
    open_store(url)
    z = quality.alert_threshold(open_bank(organisation.bank).manifest["quality"], settings.alerts)
    thresholds.print_threshold(thresholds.show_threshold(url, settings, organisation.bank))
    assert f"threshold {z:.2f} for an alert budget of 1 a day" in capsys.readouterr().out
    with pytest.raises(FingerprintError, match=f"no bank in {tmp_path}/nobank: make one"):
        thresholds.show_threshold(url, settings, tmp_path / "nobank")
    thresholds.print_threshold(thresholds.set_threshold(url, settings, "three", quorum=3))
    assert "fingerprint thresholds show --bank FOLDER" in capsys.readouterr().out  # `set` reads no bank
    figures = thresholds.set_threshold(url, settings, "too many", threshold=3.9)
    assert figures["current"]["z"] == 3.9
    thresholds.print_threshold(figures)
    assert capsys.readouterr().out.startswith("threshold 3.90, quorum 2, set by ")


def test_a_stream_says_how_it_is(place: Place, records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fingerprint.streaming.stream_service.HEARTBEAT_SECONDS", 0.0)
    with live(place) as stream:
        stream.read(records[:500])
        place.send([(b"x", b"{")])
        stream.until(lambda: any(each.figures["dead"] for each in place.store().heartbeats.recent()))
    [said] = place.store().heartbeats.recent()
    assert (said.kind, said.trouble) == ("stream", "")
    assert said.figures["messages"] == 501
    assert said.figures["partitions"] == 4
