"""What training reads of confirmed attacks, from both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sql

from fingerprint.core.alert import Alert, Disposition
from fingerprint.store import SqlStore, feedback, open_store
from tests.support.alerts import stolen_session

START = stolen_session().first_event_time


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[SqlStore]:
    sqlite = f"sqlite:///{tmp_path}/alerts.sqlite"
    made = open_store(sqlite if request.param == "sqlite" else request.getfixturevalue("postgresql").fresh())
    yield made
    made.close()


def attack(alert_id: str, records: list[str], day: int = 0) -> Alert:
    """An alert of these records, one a second."""
    first = stolen_session().events[0]
    events = tuple(
        replace(
            first,
            event_id=f"{alert_id}-{second:03}",
            event_time=START + timedelta(days=day, seconds=second),
            raw=raw,
        )
        for second, raw in enumerate(records)
    )
    last = events[-1].event_time
    return stolen_session(
        alert_id=alert_id, events=events, first_event_time=events[0].event_time, last_event_time=last
    )


def confirm(store: SqlStore, *alerts: Alert) -> None:
    store.alerts.save(alerts)
    for alert in alerts:
        at, events = alert.last_event_time, len(alert.events)
        store.cases.add_disposition(
            Disposition(alert.alert_id, "true_positive", "maria", "a stolen key", at, events)
        )


def test_the_first_records_of_confirmed_attacks_are_read_the_newest_attack_first(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedback, "MAX_EVENTS_PER_ALERT", 2)
    confirm(store, attack("old", ["1", "2", "3"]), attack("new", ["", "4"], day=1), attack("gone", ["", ""]))
    store.alerts.save([attack("open", ["5"])])
    assert list(store.feedback.confirmed_attacks().items()) == [("new", [b"4"]), ("old", [b"1", b"2"])]


def test_the_records_that_are_left_out_stay_in_the_database(
    postgresql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver holds every row of an answer in memory, and a thief's alert may have ten thousand long records."""
    monkeypatch.setattr(feedback, "MAX_EVENTS_PER_ALERT", 2)
    store = open_store(postgresql.fresh())
    confirm(store, attack("a", ["x" * 1_000] * 50), attack("b", ["x" * 1_000] * 50))
    answers: list[int] = []

    def count(connection: Any, cursor: Any, statement: str, *_: object) -> None:
        if "alert_events.raw" in statement.partition("FROM")[0]:
            answers.append(cursor.rowcount)

    sql.event.listen(store.alerts._session.engine, "after_cursor_execute", count)
    store.feedback.confirmed_attacks()
    assert sum(answers) == 4
    store.close()
