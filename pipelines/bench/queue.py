"""Rows of the alert queue: its first page, and searches, on a store of 100,000 alerts with a million events.

python -m pipelines.bench.queue [URL]      # these rows alone, and each search, on an empty database of your own: postgresql://...
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

import sqlalchemy as sql

from fingerprint.core.case import AlertFilter, AlertRevision, ReopenCase, SetDisposition
from fingerprint.core.incident import IncidentFilter
from fingerprint.store import SqlStore, open_store
from fingerprint.store.schema import FiniteJson
from pipelines.bench.report import Skipped, benchmark, fastest_interleaved, run_benchmarks

ALERT_COUNT = 100_000  # half of them closed
TARGET_SECONDS = 0.2  # seconds for the first page and for the counts above it
TARGET_LIST_SECONDS, LIST_RUNS = 0.7, 5  # seconds of CPU that a list on a terminal may take
RESULTS_FILE = Path("build/bench-queue.json")
# 6 kB, like the figures of an alert
WIDE_SERIES = {"counts": list(range(500)), "expected": [each / 3 for each in range(250)]}
_stores: list[SqlStore] = []

# A row for each alert, with pseudo-random values: numbers multiplied by a prime are mixed well enough.
NUMBERS_SQL = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :many),
drawn AS (SELECT 'a' || (i * 2654435761 % 4294967296) AS id, i - (i - 1) % 3 AS oldest, i * 2654435761 % 1000003 AS h,
    i % 5000 AS who, i % 59 + 1 AS events, i % 2 AS closed FROM n)"""
FIRST_SQL = "'a' || (oldest * 2654435761 % 4294967296)"  # the id of an incident
TIMESTAMP_SQL = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%S.000000', 1767225600 + h * 7, 'unixepoch')",
    "postgresql": "to_timestamp(1767225600 + h * 7)",
}
INSERT_ALERTS_SQL = (
    """INSERT INTO alerts (alert_id, principal, human, window_start, first_event_time, last_event_time, urgency, title,
    level, bank_version, drivers, curve, tactics, next_steps, impact_of, supporting_events, degraded, event_count, urgency_shown,
    sharing)
    {numbers} SELECT id, '123456789012:user/' || who, 'user ' || who, {moment}, {moment}, {moment}, 8 + h % 91,
    'user ' || who || ' made ' || events || ' calls from 185.220.101.34, a network never seen for them', 'entity',
    '2026-03-01', :none, :wide, :none, :none, :none, :none, :no, events, 8 + h % 91, 0 FROM drawn""",
    "INSERT INTO alert_values {numbers} SELECT id, 'service', 's' || (h % 40) FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'service', 'iam' FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'account', '123456789012' FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'tactic', 'Discovery' FROM drawn",
    # Three alerts in a row are an incident.
    "INSERT INTO incident_alerts {numbers} SELECT id, {first}, 'principal', '', '' FROM drawn",
    """INSERT INTO incidents {numbers} SELECT {first}, count(*), sum(1 - closed), sum(closed), max(8 + h % 91), min({moment}),
    max({moment}), min({moment}) FROM drawn GROUP BY 1""",
    "INSERT INTO alert_values {numbers} SELECT id, 'principal', '123456789012:user/' || who FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'principal', 'user/' || who FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'principal', 'u' || who FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'person', 'user ' || who FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'action', 'Action' || (h % 997) FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'call', 'iam:Action' || (h % 997) FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'action', 'GetCallerIdentity' FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'call', 'sts:GetCallerIdentity' FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'address', '203.0.' || (h % 250) || '.' || (h % 199) FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'resource', 'bucket-' || (h % 7919) FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'agent', 'aws-cli/2.' || (h % 40) FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'error', 'AccessDenied' FROM drawn WHERE h % 5 = 0",
    "INSERT INTO alert_values {numbers} SELECT id, 'technique', 'T1562.00' || (h % 9) FROM drawn WHERE h % 4 = 0",
    "INSERT INTO alert_values {numbers} SELECT id, 'region', 'eu-west-' || (h % 3 + 1) FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'key', 'AKIA' || (h % 6007) FROM drawn",
    "INSERT INTO alert_values {numbers} SELECT id, 'network_owner', 'AS hosting ' || (h % 50) FROM drawn",
    """INSERT INTO alert_texts (alert_id, words) {numbers} SELECT id, 'user ' || who || ' made calls from 185 220 101 34 '
    || 'a network never seen for them iam action' || (h % 997) || ' getcalleridentity get caller identity 203 0 '
    || (h % 250) || ' bucket ' || (h % 7919) || ' aws cli 2 ' || (h % 40) || ' accessdenied s' || (h % 40) FROM drawn""",
    """INSERT INTO alert_events (alert_id, event_id, event_time, entity, service, action, region, source_address,
    user_agent, error_code, session, scores, flagged_by, thresholds, raw) {numbers},
    ten(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM ten WHERE k < 10)
    SELECT id, id || '-' || k, {moment}, 'e', 'iam', 'Action' || (h % 997), 'eu-west-1', '203.0.113.7', 'aws-cli', '', '',
    :object, :none, :object, '' FROM drawn, ten""",
    """INSERT INTO cases (alert_id, version, assignee, decision, decided_events, decided_at, duplicate_of, at, "by")
    {numbers} SELECT id, 1, '', 'benign', events, {moment}, '', {moment}, 'maria' FROM drawn WHERE closed = 1""",
    # One open alert in fifty is in progress.
    """INSERT INTO cases (alert_id, version, assignee, duplicate_of, in_progress, at, "by")
    {numbers} SELECT id, 1, 'maria', '', true, {moment}, 'maria' FROM drawn WHERE closed = 0 AND who % 100 = 0""",
)


@contextmanager
def full_store(url: str | None = None) -> Iterator[None]:
    """Keep a full alert store for the rows below while the block runs."""
    with tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as folder:
        store = open_store(url or f"sqlite:///{folder}/alerts.sqlite", now=lambda: datetime.now(UTC))
        insert_alerts(store.session.engine)
        _stores.append(store)
        try:
            yield
        finally:
            _stores.remove(store)
            store.close()


def insert_alerts(engine: sql.Engine, count: int = ALERT_COUNT) -> None:
    """Insert rows like those of saved alerts, generated in the database.

    PostgreSQL gets fresh statistics, as from its autovacuum. SQLite does not, because its statistics are never updated in use.
    """
    dialect = engine.dialect.name
    values = [
        sql.bindparam("none", [], type_=FiniteJson),
        sql.bindparam("object", {}, type_=FiniteJson),
        sql.bindparam("wide", WIDE_SERIES, type_=FiniteJson),
    ]
    values += [
        sql.bindparam("no", False, type_=sql.Boolean),
        sql.bindparam("many", count, type_=sql.BigInteger),
    ]
    with engine.begin() as connection:
        for text in INSERT_ALERTS_SQL:
            statement = sql.text(
                text.format(numbers=NUMBERS_SQL, moment=TIMESTAMP_SQL[dialect], first=FIRST_SQL)
            )
            used = [each for each in values if re.search(rf":{each.key}\b", statement.text)]
            connection.execute(statement.bindparams(*used))
    if dialect == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM ANALYZE")


@benchmark(
    "the queue of 100,000 alerts, first page and counts",
    "ms",
    f"{TARGET_SECONDS * 1000:.0f} ms",
    1,
    at_most=True,
)
def first_page_latency() -> tuple[float, float]:
    """Read fifty open alerts by urgency with the counts above them, as the queue's page does."""
    (seconds,) = fastest_interleaved(partial(_read_page, _store(), AlertFilter()))
    return 1000 * seconds, seconds / TARGET_SECONDS


@benchmark("the same of one service, the tenth page", "ms", f"{TARGET_SECONDS * 1000:.0f} ms", None)
def tenth_page_latency() -> tuple[float, float]:
    """Read on after nine pages of one service."""
    store, which = _store(), AlertFilter(service="s7")
    following = None
    for _ in range(9):
        following = store.queue.page(which, cursor=following).following
    (seconds,) = fastest_interleaved(partial(_read_page, store, which, following))
    return 1000 * seconds, seconds / TARGET_SECONDS


@benchmark(
    "incidents of 100,000 alerts, first page and counts", "ms", f"{TARGET_SECONDS * 1000:.0f} ms", None
)
def incident_page_latency() -> tuple[float, float]:
    """Read fifty open incidents by urgency with the counts above them, as their page does."""
    store = _store()

    def read() -> None:
        store.incidents.page(IncidentFilter(), "urgency", 50)
        store.incidents.counts(IncidentFilter())

    (seconds,) = fastest_interleaved(read)
    return 1000 * seconds, seconds / TARGET_SECONDS


SEARCHES = (  # queries that find little and that find much, by each kind of look-up: index, pattern, words, exclusion, state
    "action:Action77",
    "action:sts:GetCallerIdentity",
    "action:*Identity",
    "service:iam",
    "error:AccessDenied",
    "-error:AccessDenied",
    "address:203.0.113.0/24",
    "network:203.0.113.0/24",
    'network:"*hosting 7"',
    "key:AKIA77*",
    "agent:aws-cli*",
    "agent:*2.17",
    "resource:*-77*",
    "region:eu-west-1",
    "account:123456789012",
    "principal:*12",
    "technique:T1562*",
    "technique:*62.001",
    "-technique:T1562.00*",
    "status:new",
    "status:in-progress",
    "status:closed",
    "-status:new",
    "bucket",
    "-bucket",
    "stoplogging accessdenied",
    "action7 bucket accessdenied",
    "getcalleridentity -bucket",
    "getcalleridentity -action7",
    "action:iam:Action7* -error:AccessDenied severity>=high",
    "address:203.0.113.0/24 -principal:*12 resource:bucket-1*",
)


@benchmark(
    f"the slowest of {len(SEARCHES)} searches in them, first page and counts",
    "ms",
    f"{TARGET_SECONDS * 1000:.0f} ms",
    1,
    at_most=True,
)
def search_latency() -> tuple[float, float]:
    """Read the first page of the results of each query, with its counts."""
    seconds = max(_search_seconds())
    return 1000 * seconds, seconds / TARGET_SECONDS


def _search_seconds() -> Sequence[float]:
    return _search_seconds_of(_store())


@cache
def _search_seconds_of(store: SqlStore) -> Sequence[float]:
    return fastest_interleaved(*(partial(_read_page, store, AlertFilter(q=query)) for query in SEARCHES))


@benchmark("a decision on fifty of them at once", "ms", f"{TARGET_SECONDS * 1000:.0f} ms", None)
def decision_latency() -> tuple[float, float]:
    """Decide, and take it back."""
    store = _store()
    fifty = [row.alert_id for row in store.queue.page(AlertFilter(), "urgency", 50).rows]
    (seconds,) = fastest_interleaved(partial(_decide, store, fifty))
    return 1000 * seconds / 2, seconds / 2 / TARGET_SECONDS


@benchmark(
    "`alerts list --limit 50` of them, CPU, its start included",
    "s",
    f"{TARGET_LIST_SECONDS:g} s",
    1,
    at_most=True,
)
def list_cost() -> tuple[float, float]:
    """Run the program as a person does, and take the least of LIST_RUNS."""
    url = _store().session.engine.url.render_as_string(hide_password=False)
    program = [sys.executable, "-m", "pipelines.cli", "alerts", "list", "--limit", "50", "--database", url]
    cost = min(child_cpu_seconds(program) for _ in range(LIST_RUNS))
    return cost, cost / TARGET_LIST_SECONDS


def child_cpu_seconds(command: Sequence[str]) -> float:
    """Return the CPU seconds of a program that runs to its end. Raises CalledProcessError if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=_compiling_environment())  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _compiling_environment() -> dict[str, str]:
    """Return the environment without PYTHONDONTWRITEBYTECODE, so that modules are compiled once, as in an installation."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _store() -> SqlStore:
    if not _stores:
        raise Skipped("no store was filled")
    return _stores[-1]


def _read_page(store: SqlStore, which: AlertFilter, following: str | None = None) -> None:
    counts = store.queue.counts(which)
    store.queue.page(which, "urgency", 50, following, which.total_in(counts))


def _decide(store: SqlStore, alert_ids: Sequence[str]) -> None:
    for change in (SetDisposition("benign", "a bench"), ReopenCase()):
        chosen = [AlertRevision(each, store.queue.row(each).version) for each in alert_ids]
        assert all(each.done for each in store.cases.change(chosen, change, "bench"))  # noqa: S101


def main(url: str | None = None) -> None:
    """Run these rows on a database."""
    with full_store(url):
        run_benchmarks(RESULTS_FILE)
        for query, seconds in zip(SEARCHES, _search_seconds(), strict=True):
            print(f"{1000 * seconds:5.0f} ms  {query}")


if __name__ == "__main__":
    main(*sys.argv[1:])
