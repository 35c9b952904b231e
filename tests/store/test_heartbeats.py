"""Programs that run are shown, whatever clock another program has; programs that are gone are removed once a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sql

from fingerprint.core.case import ProgramStatus
from fingerprint.core.settings import Retention
from fingerprint.store import SqlStore
from fingerprint.store.schema import heartbeats
from tests.support.web_app import store_in

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def heard(store: SqlStore, name: str, at: datetime) -> None:
    store.heartbeats.save(ProgramStatus("stream", name, at, lag=0, figures={}))


def shown(store: SqlStore) -> list[str]:
    return [each.name for each in store.heartbeats.recent()]


def test_a_program_whose_clock_is_a_month_ahead_removes_no_other(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.session.now = lambda: NOW
    heard(store, "right", NOW)
    heard(store, "ahead", NOW + timedelta(days=30))
    assert shown(store) == ["ahead", "right"]


def test_a_program_that_is_gone_is_not_shown_after_a_week_and_removed_by_the_next_daily_run(
    tmp_path: Path,
) -> None:
    store, now = store_in(tmp_path), [NOW]
    store.session.now = lambda: now[0]
    heard(store, "gone", NOW)
    now[0] += timedelta(days=7, seconds=1)
    heard(store, "here", now[0])
    assert shown(store) == ["here"]
    count = sql.select(sql.func.count()).select_from(heartbeats)
    assert store.session.read(lambda connection: connection.scalar(count)) == 2
    assert store.retention.apply(Retention(record_days=30), by="maria") == {}
    assert store.session.read(lambda connection: connection.scalar(count)) == 1
