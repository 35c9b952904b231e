"""A detector of another package is counted, stored, shown on the alert page and exported without a change to this package."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings, load_settings
from fingerprint.detection import detectors
from fingerprint.detection.detectors import detector_label, detector_names, listed_detectors, load_detector
from fingerprint.registry import quality
from fingerprint.registry.bank import Bank
from tests.support import sample_organisation
from tests.support.external_detector import WatchedActionDetector
from tests.support.web_app import Site

NAME, PATH = "watched_actions", "tests.support.external_detector:WatchedActionDetector"


def settings_file(folder: Path, section: str = "", detector: str = PATH, quorum: int = 3) -> Path:
    file = folder / "settings.toml"
    file.write_text(
        f"""
[autoencoder]
max_epochs = 1
[voting]
detectors = ["autoencoder", "spectral", "{detector}"]
quorum = {quorum}
{section}
"""
    )
    return file


def watching(folder: Path, action: str) -> Settings:
    section = f'[detectors.{NAME}]\nthreshold = 3.0\nactions = ["{action}"]'
    return load_settings(settings_file(folder, section), {})


@dataclass(frozen=True)
class Watched:
    """A run with the detector of another package, and the action that it watches."""

    run: sample_organisation.Run
    settings: Settings
    action: str


@pytest.fixture(scope="module")
def watched(
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    tmp_path_factory: pytest.TempPathFactory,
) -> Watched:
    folder = tmp_path_factory.mktemp("watched")
    seen = Counter(event.action for alert in scored.alerts for event in alert.events)
    action = seen.most_common(1)[0][0]
    settings = watching(folder, action)
    return Watched(
        sample_organisation.run(organisation.new, organisation.bank, folder, settings), settings, action
    )


def test_its_vote_counts_in_the_quorum(watched: Watched, scored: sample_organisation.Run, bank: Bank) -> None:
    """Three of three; an alert also takes a z of the autoencoder that reaches the threshold of alerts."""
    events = watched.run.events
    names = ("autoencoder", "spectral", NAME)
    votes = events[[f"{name}_vote" for name in names]].sum(axis=1)
    opinions = events[[f"{name}_z" for name in names]].notna().sum(axis=1)
    threshold = quality.alert_threshold(bank.manifest["quality"], watched.settings.alerts)
    opens = events["autoencoder_z"] >= threshold
    assert (events["verdict"] == (votes >= opinions.clip(upper=3)) & opens).all()
    assert (events[f"{NAME}_z"].isin([0.0, 9.0])).all()
    assert 0 < events["verdict"].sum() < scored.events["verdict"].sum()
    assert {event.action for alert in watched.run.alerts for event in alert.events} == {watched.action}


def test_its_vote_is_stored(watched: Watched) -> None:
    votes = watched.run.store.votes.read()
    mine = votes[votes["detector"] == NAME]
    assert len(mine) == watched.run.events[f"{NAME}_vote"].sum() == watched.run.figures["votes"][NAME] > 0
    assert (mine["z"] == 9.0).all()
    assert (mine["threshold"] == 3.0).all()
    for alert in watched.run.alerts:
        assert all(event.scores[NAME] == 9.0 for event in alert.events)


def test_it_is_shown_on_the_pages_and_in_the_api(watched: Watched) -> None:
    alert = watched.run.alerts[0]
    site = Site.of(watched.run.store, watched.settings)
    page = site.browser("viewer").get(f"/alerts/{alert.alert_id}").text
    assert re.search(
        r"Watched actions</dt><dd><b>flagged</b>[^<]+<span class=\"note\">score 9\.0, threshold 3\.0", page
    )
    assert "Is it on the list?" in page
    answer = site.client("viewer").get(f"/api/v1/alerts/{alert.alert_id}").json()
    assert {event["scores"][NAME] for event in answer["evidence"]["events"]} == {9.0}
    principal = site.browser("viewer").get(f"/alerts/{alert.alert_id}/entity").text
    assert "<td>Watched actions</td>" in principal


def test_it_is_exported(watched: Watched) -> None:
    client = Site.of(watched.run.store, watched.settings).client("viewer")
    rows = list(csv.DictReader(io.StringIO(client.get("/api/v1/alerts/export?format=csv").text)))
    assert len(rows) == len(watched.run.alerts)
    assert all(f"{NAME} 9.0" in row["scores"] for row in rows)
    lines = client.get("/api/v1/alerts/export?format=jsonl").text.splitlines()
    assert {event["scores"][NAME] for line in lines for event in json.loads(line)["events"]} == {9.0}


def test_an_entry_point_makes_a_detector_known_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detectors, "_loaded", {})
    monkeypatch.setattr(detectors, "available_detectors", detectors.available_detectors.__wrapped__)
    settings = load_settings(settings_file(tmp_path, detector=NAME), {})
    with pytest.raises(FingerprintError, match=f"no detector '{NAME}'"):
        detector_names(settings)
    point = EntryPoint(NAME, PATH, detectors.ENTRY_POINT_GROUP)
    monkeypatch.setattr(detectors, "entry_points", lambda group: [point] if group == point.group else [])
    assert detector_names(settings) == ("autoencoder", "spectral", NAME)
    assert listed_detectors(settings)[2] is WatchedActionDetector


def test_its_section_is_validated_by_itself(tmp_path: Path) -> None:
    settings = load_settings(settings_file(tmp_path, f"[detectors.{NAME}]\nactoins = []"), {})
    with pytest.raises(FingerprintError, match=rf"setting detectors\.{NAME}\.actoins"):
        WatchedActionDetector.options_from(settings)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere.at_all:Detector", "cannot be imported"),
        ("tests.support.external_detector:Nothing", "cannot be imported"),
        ("tests.support.external_detector:WatchedActionOptions", "no subclass"),
        ("oracle", "no detector 'oracle'"),
    ],
)
def test_a_detector_that_cannot_be_loaded_is_named(name: str, reason: str) -> None:
    with pytest.raises(FingerprintError, match=reason):
        load_detector(name)


def test_two_detectors_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WatchedActionDetector, "name", "spectral")
    monkeypatch.setattr(detectors, "_loaded", {})
    with pytest.raises(FingerprintError, match="two detectors are called 'spectral'"):
        detector_names(load_settings(settings_file(tmp_path), {}))


def test_a_detector_that_is_not_installed_is_shown_by_its_name() -> None:
    assert detector_label("gone_since") == "gone_since"
    assert detector_label("isolation_forest") == "Isolation forest"
