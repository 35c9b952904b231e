"""What explains an alert, read in parts from both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fingerprint.core.alert import Alert, AlertEvent, FingerprintError, NotFound
from fingerprint.core.case import AlertRevision, EvidencePage, SetDisposition
from fingerprint.core.sanitize import storable
from fingerprint.store import SqlStore, open_store
from tests.support.alerts import NASTY, nasty, new_pipeline, stolen_session


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    folder = tmp_path_factory.mktemp("evidence")
    sqlite = request.param == "sqlite"
    made = open_store(
        f"sqlite:///{folder}/alerts.sqlite" if sqlite else request.getfixturevalue("postgresql").fresh()
    )
    made.alerts.save([stolen_session(), new_pipeline(), same_second()])
    yield made
    made.close()


def same_second() -> Alert:
    """Nine events, seven of them at one moment, as calls in a loop are."""
    first, *others = stolen_session().events
    events = [replace(each, event_time=first.event_time) for each in others[:6]]
    return stolen_session(alert_id="5a3e5ec0d0000000", principal="x", events=(first, *events, *others[6:]))


def paged(store: SqlStore, alert_id: str, size: int, **options: Any) -> list[AlertEvent]:
    found, following, first = [], None, True
    while first or following:
        page = store.evidence.events(alert_id, size, following, **options)
        found += page.events
        following, first = page.following, False
        assert page.total == 9
        assert len(page.events) == size or following is None
    return found


@pytest.mark.parametrize("size", [1, 4, 9, 500])
def test_pages_hold_every_event_once_in_order_also_those_of_one_moment(store: SqlStore, size: int) -> None:
    for alert in (stolen_session(), same_second()):
        assert paged(store, alert.alert_id, size) == list(store.alerts.get(alert.alert_id).events)


def test_records_stay_where_they_are_unless_they_are_asked_for(store: SqlStore) -> None:
    alert = stolen_session()
    assert {each.raw for each in paged(store, alert.alert_id, 4, raw=False)} == {""}
    assert store.evidence.event(alert.alert_id, alert.events[3].event_id) == alert.events[3]


def test_an_alert_is_explained_without_its_events(store: SqlStore) -> None:
    assert store.evidence.summary(stolen_session().alert_id) == replace(stolen_session(), events=())


def test_alerts_come_whole_in_the_order_they_were_asked_for_with_the_decision_they_stand_by(
    store: SqlStore,
) -> None:
    one, other = stolen_session(), new_pipeline()
    store.cases.change([AlertRevision(other.alert_id, 0)], SetDisposition("benign", "a migration"), "maria")
    (first, said), (second, nothing) = store.evidence.full_alerts([other.alert_id, "feedfeed", one.alert_id])
    assert (first, second, nothing) == (other, one, None)
    assert said is not None
    assert (said.decision, said.by) == ("benign", "maria")


def test_an_alert_may_have_no_events(store: SqlStore) -> None:
    store.alerts.save([stolen_session(alert_id="e3b7e3b7e3b7e3b7", events=())])
    assert store.evidence.events("e3b7e3b7e3b7e3b7") == EvidencePage((), 0)


def test_what_is_not_there_is_said_to_be_not_there(store: SqlStore) -> None:
    whole = stolen_session().alert_id
    for alert_id in ("feedfeedfeedfeed", whole[:4], "", "\x00", "\ud800"):
        for ask in (
            store.evidence.summary,
            store.evidence.events,
            lambda alert_id: store.evidence.event(alert_id, "x"),
        ):
            with pytest.raises(NotFound):
                ask(alert_id)
    with pytest.raises(NotFound):
        store.evidence.event(whole, "feedfeed")


@pytest.mark.parametrize(
    "following",
    ["nonsense", "é", "W10", "WyJ4Il0", "W251bGwsMV0", "WyIwMDAxLTAxLTAxVDAwOjAwOjAwKzIzOjAwIiwgIngiXQ"],
)
def test_a_page_that_no_one_was_given_is_refused(store: SqlStore, following: str) -> None:
    with pytest.raises(FingerprintError, match="no page begins there"):
        store.evidence.events(stolen_session().alert_id, 4, following)


def test_a_page_has_a_size(store: SqlStore) -> None:
    for size in (0, -1, 501):
        with pytest.raises(FingerprintError, match="1 to 500"):
            store.evidence.events(stolen_session().alert_id, size)


def test_an_attackers_event_ids_are_no_trouble(store: SqlStore) -> None:
    for text in NASTY:
        store.alerts.save([replace(nasty(text), alert_id="bad5ec0de0000000")])
        pages = store.evidence.events("bad5ec0de0000000", 1)
        while pages.following:
            pages = store.evidence.events("bad5ec0de0000000", 1, pages.following)
        assert store.evidence.event("bad5ec0de0000000", text).user_agent == storable(text)
