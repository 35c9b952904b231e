"""The queue's first page on a desk of 100,000 alerts, as `make bench` measures it.

python -m pipelines.bench.queue [URL]      # these rows alone, on an empty database of your own: postgresql://...
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import sqlalchemy as sql

from fingerprint.core.case import Chosen, Decide, Filter, Reopen
from fingerprint.store.alerts import SqlDesk, open_desk
from fingerprint.store.schema import Json
from pipelines.bench.report import Skipped, measure, row, side_by_side

ALERTS = 100_000  # half of them closed
AIM = 0.2  # seconds for the first page and for the counts above it
OUT = Path("build/bench-queue.json")
WIDE = {
    "counts": list(range(500)),
    "expected": [each / 3 for each in range(250)],
}  # 6 kB, as an alert's figures are
_desks: list[SqlDesk] = []

# A row for each alert, and what is drawn for it: multiplied by a prime, numbers are mixed well enough.
NUMBERS = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :many),
drawn AS (SELECT 'a' || (i * 2654435761 % 4294967296) AS id, i * 2654435761 % 1000003 AS h, i % 5000 AS who,
    i % 59 + 1 AS events, i % 2 AS closed FROM n)"""
MOMENT = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%S.000000', 1767225600 + h * 7, 'unixepoch')",
    "postgresql": "to_timestamp(1767225600 + h * 7)",
}
FILL = (
    """INSERT INTO alerts (alert_id, principal, human, window_start, first_event_time, last_event_time, urgency, title,
    level, bank_version, drivers, curve, tactics, next_steps, degraded, event_count, urgency_shown, sharing)
    {numbers} SELECT id, '123456789012:user/' || who, 'user ' || who, {moment}, {moment}, {moment}, 8 + h % 91,
    'user ' || who || ' made ' || events || ' calls from 185.220.101.34, a network never seen for them', 'entity',
    '2026-03-01', :none, :wide, :none, :none, :no, events, 8 + h % 91, 0 FROM drawn""",
    "INSERT INTO alert_values {numbers} SELECT id, 'service', 's' || (h % 40) FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'service', 'iam' FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'account', '123456789012' FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'tactic', 'Discovery' FROM drawn",
    """INSERT INTO cases (alert_id, version, assignee, decision, decided_events, decided_at, duplicate_of, at, "by")
    {numbers} SELECT id, 1, '', 'benign', events, {moment}, '', {moment}, 'maria' FROM drawn WHERE closed = 1""",
)


@contextmanager
def place(url: str | None = None) -> Iterator[None]:
    """A full desk for the rows below, for as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as folder:
        desk = open_desk(url or f"sqlite:///{folder}/desk.sqlite", now=lambda: datetime.now(UTC))
        fill(desk.engine)
        _desks.append(desk)
        try:
            yield
        finally:
            _desks.remove(desk)
            desk.close()


def fill(engine: sql.Engine, many: int = ALERTS) -> None:
    """Rows as a save leaves them, made in the database. PostgreSQL is told what lies there, as its autovacuum would; SQLite,
    whose statistics nobody keeps, is not."""
    dialect = engine.dialect.name
    values = [sql.bindparam("none", [], type_=Json), sql.bindparam("wide", WIDE, type_=Json)]
    values += [
        sql.bindparam("no", False, type_=sql.Boolean),
        sql.bindparam("many", many, type_=sql.BigInteger),
    ]
    with engine.begin() as connection:
        for text in FILL:
            statement = sql.text(text.format(numbers=NUMBERS, moment=MOMENT[dialect]))
            used = [each for each in values if f":{each.key}" in statement.text]
            connection.execute(statement.bindparams(*used))
    if dialect == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM ANALYZE")


@row("the queue of 100,000 alerts, first page and counts", "ms", f"{AIM * 1000:.0f} ms", 1, at_most=True)
def first_page() -> tuple[float, float]:
    """Fifty open alerts by urgency with what stands above them, as whoever opens the queue asks."""
    (seconds,) = side_by_side(partial(_look, _desk(), Filter()))
    return 1000 * seconds, seconds / AIM


@row("the same of one service, the tenth page", "ms", f"{AIM * 1000:.0f} ms", None)
def tenth_page() -> tuple[float, float]:
    desk, which = _desk(), Filter(service="s7")
    following = None
    for _ in range(9):
        following = desk.page(which, following=following).following
    (seconds,) = side_by_side(partial(_look, desk, which, following))
    return 1000 * seconds, seconds / AIM


@row("a decision on fifty of them at once", "ms", f"{AIM * 1000:.0f} ms", None)
def decision() -> tuple[float, float]:
    """And taken back."""
    desk = _desk()
    fifty = [row.alert_id for row in desk.page(Filter(), "urgency", 50).rows]
    (seconds,) = side_by_side(partial(_decide, desk, fifty))
    return 1000 * seconds / 2, seconds / 2 / AIM


def _desk() -> SqlDesk:
    if not _desks:
        raise Skipped("no desk was filled")
    return _desks[-1]


def _look(desk: SqlDesk, which: Filter, following: str | None = None) -> None:
    desk.page(which, "urgency", 50, following)
    desk.counts(which)


def _decide(desk: SqlDesk, alert_ids: Sequence[str]) -> None:
    for change in (Decide("benign", "a bench"), Reopen()):
        chosen = [Chosen(each, desk.row(each).version) for each in alert_ids]
        assert all(each.done for each in desk.change(chosen, change, "bench"))  # noqa: S101


def main(url: str | None = None) -> None:
    with place(url):
        measure(OUT)


if __name__ == "__main__":
    main(*sys.argv[1:])
