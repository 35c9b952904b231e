"""What explains an alert, read in parts from both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection

from fingerprint.core.alert import Alert, AlertEvent
from fingerprint.core.case import AlertRevision, EvidencePage, SetDisposition
from fingerprint.core.errors import FingerprintError, NotFound
from fingerprint.core.sanitize import storable
from fingerprint.core.story import (
    MAX_RESOURCES,
    MAX_RUN_EVENTS,
    EventRun,
    EventSelection,
    Tally,
    fold_runs,
    summarise_calls,
    tally_events,
)
from fingerprint.store import SqlStore, evidence, open_store
from fingerprint.store.rows import to_action_impact
from tests.support.alerts import IMPACT_OF, NASTY, nasty, new_pipeline, stolen_session
from tests.support.query_plans import queries


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


def test_an_id_or_its_beginning_names_alerts(store: SqlStore) -> None:
    whole = stolen_session().alert_id
    store.alerts.save([new_pipeline(alert_id=f"{whole}0")])
    assert store.evidence.find_ids(whole) == [whole]
    assert store.evidence.find_ids(whole[:5]) == [whole, f"{whole}0"]
    for nothing in ("", "%", whole.upper(), "\x00"):
        assert store.evidence.find_ids(nothing) == []


def test_the_beginning_of_an_id_is_found_by_an_index(store: SqlStore) -> None:
    """Also by PostgreSQL, whose collation here is not that of bytes."""
    found = queries(store, lambda: store.evidence.find_ids("3_%"))
    with store.session.engine.connect() as connection:
        postgresql = connection.dialect.name == "postgresql"
        if postgresql:
            connection.exec_driver_sql("SET enable_seqscan = off")  # of a few alerts it would read all
        explain = "EXPLAIN" if postgresql else "EXPLAIN QUERY PLAN"
        plan = [
            row[-1] for each in found for row in connection.exec_driver_sql(f"{explain} {each[0]}", each[1])
        ]
    wanted = "alert_id ~>=~" if postgresql else "(alert_id>? AND alert_id<?)"
    assert any(wanted in step for step in plan), plan
    assert not any("SCAN" in step for step in plan), plan


def test_alerts_come_whole_in_the_order_they_were_asked_for_with_the_decision_they_stand_by(
    store: SqlStore,
) -> None:
    one, other = stolen_session(), new_pipeline()
    store.cases.change([AlertRevision(other.alert_id, 0)], SetDisposition("benign", "a migration"), "maria")
    (first, said), (second, nothing) = store.evidence.full_alerts([other.alert_id, "feedfeed", one.alert_id])
    without = [
        replace(alert, events=tuple(replace(event, raw="") for event in alert.events))
        for alert in (other, one)
    ]
    assert (first, second, nothing) == (*without, None)
    asked = [*(event.event_id for event in one.events), "none"]
    assert store.evidence.records(one.alert_id, asked) == {each.event_id: each.raw for each in one.events}
    assert said is not None
    assert (said.decision, said.by) == ("benign", "maria")


def test_alerts_of_many_events_are_read_one_by_one(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = stolen_session(), new_pipeline()
    small = [new_pipeline(alert_id=f"5{number:015}", events=other.events[:1]) for number in range(3)]
    store.alerts.save(small)
    batches, read = [], evidence.read_full_alerts

    def noted(connection: Connection, ids: list[str]) -> Any:
        batches.append(len(ids))
        return read(connection, ids)

    monkeypatch.setattr(evidence, "read_full_alerts", noted)
    monkeypatch.setattr(evidence, "EXPORT_EVENTS", len(one.events) - 1)
    ids = [small[0].alert_id, one.alert_id, other.alert_id, small[1].alert_id, small[2].alert_id]
    assert [alert.alert_id for alert, _ in store.evidence.full_alerts(ids)] == ids
    assert batches[:2] == [1, 1]  # the large one is read alone
    assert sum(batches) == len(ids)
    batches.clear()
    found = list(store.evidence.iterate_full_alerts())
    assert max(batches) < len(found) == sum(batches)


def test_a_page_of_long_records_ends_early_and_the_next_goes_on(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attacker chooses how long records are: 500 of 1 MiB would not fit into the web app's memory."""
    one = stolen_session().events[0]
    events = tuple(replace(one, event_id=f"{at:03}", raw=f"{at:03}" * 100) for at in range(70))
    store.alerts.save([stolen_session(alert_id="b16b16b16b16b16b", events=events)])
    monkeypatch.setattr(evidence, "PAGE_RECORD_LENGTH", 30 * 300)
    pages = [store.evidence.events("b16b16b16b16b16b", 65)]
    while pages[-1].following:
        pages.append(store.evidence.events("b16b16b16b16b16b", 65, pages[-1].following))
    assert [len(page.events) for page in pages] == [40, 30]  # read by 20
    assert [(event.event_id, event.raw) for page in pages for event in page.events] == [
        (event.event_id, event.raw) for event in events
    ]
    assert len(store.evidence.events("b16b16b16b16b16b", 65, raw=False).events) == 65


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


class TestStory:
    """What the queries count is what the plain functions of `core.story` count."""

    @pytest.mark.parametrize("made", [stolen_session, new_pipeline, same_second])
    def test_calls_tallies_and_runs_are_those_of_the_plain_version(self, store: SqlStore, made: Any) -> None:
        alert = made()
        assert store.evidence.calls([alert.alert_id]) == sorted(
            summarise_calls(alert.events), key=lambda call: (call.first, call.name)
        )
        assert store.evidence.tallies([alert.alert_id]) == tally_events(alert.events)
        assert runs(store, alert.alert_id) == fold_runs(alert.events)

    def test_several_alerts_are_counted_together(self, store: SqlStore) -> None:
        one, other = stolen_session(), new_pipeline()
        ids = [one.alert_id, other.alert_id]
        assert sum(call.events for call in store.evidence.calls(ids)) == 12
        assert store.evidence.tallies(ids)["region"] == Tally((("eu-west-1", 12),), 1)

    def test_repeats_are_one_run_with_its_first_events_and_true_counts(self, store: SqlStore) -> None:
        alert = loud_alert()
        store.alerts.save([alert])
        page = store.evidence.runs(alert.alert_id)
        assert [(run.first.action, run.count) for run in page.runs] == [
            ("ListUsers", 1),
            ("GetSecretValue", 40),
            ("ListUsers", 3),
        ]
        assert len(page.runs[1].events) == MAX_RUN_EVENTS
        assert page.runs[1].resources == 40
        assert page.runs[1].last == alert.events[40].event_time
        (secrets,) = (
            call for call in store.evidence.calls([alert.alert_id]) if call.action == "GetSecretValue"
        )
        assert len(secrets.resources.values) == MAX_RESOURCES
        assert secrets.resources.distinct == 40
        assert secrets.outcomes == (("", 40),)

    @pytest.mark.parametrize("size", [1, 2, 7])
    @pytest.mark.parametrize(
        "selection",
        [
            EventSelection(),
            EventSelection(failed=True),
            EventSelection(frozenset({("secretsmanager", "GetSecretValue"), ("sts", "GetCallerIdentity")})),
            EventSelection(frozenset({("iam", "ListUsers")}), failed=True),
            EventSelection(frozenset()),
        ],
    )
    def test_pages_of_a_selection_hold_every_run_once(
        self, store: SqlStore, size: int, selection: EventSelection
    ) -> None:
        alert = stolen_session()
        assert runs(store, alert.alert_id, selection, size) == fold_runs(alert.events, selection)
        assert runs(store, alert.alert_id, selection, size, True) == fold_runs(alert.events, selection)[::-1]
        chosen = [event for event in alert.events if selection.has(event)]
        page = store.evidence.events(alert.alert_id, selection=selection)
        assert (list(page.events), page.total) == (chosen, len(chosen))
        page = store.evidence.events(alert.alert_id, selection=selection, newest_first=True)
        assert list(page.events) == chosen[::-1]

    def test_an_attackers_texts_are_values_like_others(self, store: SqlStore) -> None:
        for at, text in enumerate(NASTY):
            alert = replace(nasty(text), alert_id=f"bad5e1f0{at:08d}")
            store.alerts.save([alert])
            (call,) = store.evidence.calls([alert.alert_id])
            assert (call.service, call.action) == (storable(text), storable(text))
            assert store.evidence.tallies([alert.alert_id])["user_agent"].distinct == bool(text)
            selection = EventSelection(frozenset({(storable(text), storable(text))}))
            (run,) = store.evidence.runs(alert.alert_id, selection).runs
            assert run.count == call.events

    def test_what_is_not_there_is_said_to_be_not_there(self, store: SqlStore) -> None:
        with pytest.raises(NotFound):
            store.evidence.runs("feedfeedfeedfeed")
        with pytest.raises(FingerprintError, match="1 to 500"):
            store.evidence.runs(stolen_session().alert_id, size=0)
        with pytest.raises(FingerprintError, match="no page begins there"):
            store.evidence.runs(stolen_session().alert_id, cursor="nonsense")
        assert store.evidence.calls(["feedfeedfeedfeed"]) == []


def loud_alert() -> Alert:
    """Forty secrets read in a row, and four other calls."""
    one = stolen_session().events[0]
    secrets = [
        replace(
            one,
            event_id=f"{at:04}",
            event_time=one.event_time + timedelta(seconds=at),
            service="secretsmanager",
            action="GetSecretValue",
            resource=f"secret:{at:02}",
        )
        for at in range(1, 41)
    ]
    lists = [
        replace(one, event_id=f"l{at}", event_time=one.event_time + timedelta(seconds=at), action="ListUsers")
        for at in (0, 50, 51, 52)
    ]
    events = tuple(sorted([*secrets, *lists], key=lambda each: each.event_time))
    return stolen_session(alert_id="10ad10ad10ad10ad", principal="loud", events=events)


def runs(
    store: SqlStore,
    alert_id: str,
    selection: EventSelection | None = None,
    size: int = 100,
    newest: bool = False,
) -> list[EventRun]:
    """All runs, a page at a time, with the records that the queries leave where they are."""
    found: list[EventRun] = []
    page = store.evidence.runs(alert_id, selection, size, newest_first=newest)
    found += page.runs
    while page.following:
        page = store.evidence.runs(alert_id, selection, size, page.following, newest)
        found += page.runs
    assert page.total == len(found)
    assert page.total_events == sum(run.count for run in found)
    whole = {event.event_id: event for event in store.alerts.get(alert_id).events}
    return [replace(run, events=tuple(whole[event.event_id] for event in run.events)) for run in found]


def test_an_action_that_was_stored_before_dry_runs_were_told_is_read_as_none() -> None:
    row = {name: value for name, value in asdict(IMPACT_OF[0]).items() if name != "dry_run"}
    assert to_action_impact(row) == IMPACT_OF[0]
    assert not to_action_impact(row).dry_run
