"""Thresholds chosen in the browser and over the API, on the own history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fingerprint.adapters.system import SystemClock
from fingerprint.analysis.threshold_service import ThresholdForecast
from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import ThresholdEstimate
from fingerprint.store import SqlStore, open_store
from fingerprint.web.threshold_chart import draw_threshold_chart
from tests.support import sample_organisation


@pytest.fixture(scope="module")
def store(
    organisation: sample_organisation.SampleOrganisation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SqlStore]:
    """One that a run of score has filled; its loudest alert is a confirmed attack."""
    scored = sample_organisation.run(organisation.new, organisation.bank, tmp_path_factory.mktemp("tuning"))
    yield scored.store
    scored.store.close()


@pytest.fixture
def thresholds(store: SqlStore, organisation: sample_organisation.SampleOrganisation) -> ThresholdForecast:
    return ThresholdForecast(store, organisation.bank, sample_organisation.SETTINGS, SystemClock())


def test_a_wish_for_alerts_a_day_gives_a_threshold_that_keeps_it(thresholds: ThresholdForecast) -> None:
    told = []
    for wish in (0.5, 2.0, 5.0):
        found = thresholds.estimate(thresholds.threshold_for_rate(wish, quorum=2), quorum=2)
        assert found.alerts_per_day <= wish
        told.append(found.threshold)
    assert told == sorted(told, reverse=True)
    assert told[0] > told[-1]


def test_known_attacks_fall_away_as_the_threshold_rises(thresholds: ThresholdForecast) -> None:
    known = [each.known for each in thresholds.estimate_curve(quorum=2)]
    assert known == sorted(known, reverse=True)
    assert known[0] > 0.5 > known[-1]


def test_what_would_not_have_been_shown_are_alerts_that_are_there(
    thresholds: ThresholdForecast, store: SqlStore
) -> None:
    there = {alert.alert_id for alert in store.alerts.by_urgency()}
    now = thresholds.current().threshold
    assert thresholds.hidden_alerts(now, quorum=2) == []
    high = set(thresholds.hidden_alerts(30.0, quorum=2))
    assert high
    assert high <= there


def test_a_quorum_that_cannot_be_estimated_is_refused(thresholds: ThresholdForecast) -> None:
    with pytest.raises(FingerprintError, match="not of 4"):
        thresholds.estimate(3.0, quorum=4)


def test_without_a_bank_known_attacks_are_not_tried(store: SqlStore, tmp_path: Path) -> None:
    found = ThresholdForecast(store, tmp_path / "none", sample_organisation.SETTINGS, SystemClock()).current()
    assert found.known is None
    assert found.alerts_per_day > 0


def test_a_store_without_votes_foresees_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    empty = ThresholdForecast(
        open_store(f"sqlite:///{tmp_path}/d.sqlite"), None, sample_organisation.SETTINGS, SystemClock()
    )
    assert empty.current().alerts_per_day == 0
    assert draw_threshold_chart(empty.estimate_curve(2), {"now": 3.2}, 900, 200) is not None


def test_a_drawing_stays_within_its_frame_whatever_was_foreseen() -> None:
    curve = [
        ThresholdEstimate(2.0 + at, 2, alerts, 0, 0, known)
        for at, (alerts, known) in enumerate([(1e9, 1.0), (0.0, None), (0.3, 0.2)])
    ]
    drawing = draw_threshold_chart(curve, {"now": 2.5, "far": 99.0}, 900, 200)
    assert drawing is not None
    assert [mark.label for mark in drawing.marks] == ["now"]
    for bar in drawing.bars:
        assert 0 <= bar.y <= bar.y + bar.height <= drawing.baseline
