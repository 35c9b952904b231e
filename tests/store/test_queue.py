"""The queue on SQLite and PostgreSQL keeps its contract; many who work at once lose nothing of each other."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from threading import Barrier

import pytest

from fingerprint.core.case import ActionOutcome, AlertFilter, AlertRevision, AssignCase, SetDisposition
from fingerprint.store import SqlStore, database, open_store
from fingerprint.store.queue import STRONGEST_SURPRISES
from tests.contracts.case_store import QueueContract
from tests.contracts.message_stream import wait_until
from tests.support.alerts import stolen_session
from tests.support.query_plans import queries

MORNING = datetime(2026, 3, 6, 9, tzinfo=UTC)


class StoppedClock:
    """A clock that stands at `at`."""

    at = MORNING

    def __call__(self) -> datetime:
        return self.at


def with_clock(url: str) -> SqlStore:
    """Open a store whose clock stands at `store.session.now.at`."""
    return open_store(url, now=StoppedClock())


class TestSqlite(QueueContract):
    @pytest.fixture(scope="class")
    @classmethod
    def make_shared(cls, tmp_path_factory):
        folder, numbers = tmp_path_factory.mktemp("queue"), itertools.count()
        return lambda: with_clock(f"sqlite:///{folder}/{next(numbers)}.sqlite")

    @pytest.fixture
    def make_store(self, make_shared):
        return make_shared


class TestPostgres(QueueContract):
    @pytest.fixture(scope="class")
    @classmethod
    def make_shared(cls, postgresql_stores):
        with postgresql_stores.lent() as make:
            yield lambda: make(StoppedClock())

    @pytest.fixture
    def make_store(self, postgresql_stores):
        with postgresql_stores.lent() as make:
            yield lambda: make(StoppedClock())


# --- at once ----------------------------------------------------------------------------------------------------------

ANALYSTS, ALERTS, TURNS = 16, 8, 2


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path) -> str:
    """Of a database that no one has used."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/alerts.sqlite"
    return request.getfixturevalue("postgresql").fresh()


def work(url: str, name: str, begin: Barrier) -> list[ActionOutcome]:
    """A morning of one analyst: with a connection of their own they take what lies there, all of it at once, a few times."""
    store = open_store(url)
    order = random.Random(name)
    done: list[ActionOutcome] = []
    for turn in range(TURNS):
        rows = list(store.queue.page(AlertFilter(status="all"), size=ALERTS).rows)
        order.shuffle(rows)
        chosen = [AlertRevision(row.alert_id, row.version, row.events) for row in rows]
        change = AssignCase(name) if turn else SetDisposition("benign", name)
        if not turn:
            begin.wait(60)
        done += [each for each in store.cases.change(chosen, change, name) if each.done]
    store.close()
    return done


def test_of_many_analysts_who_change_the_same_alerts_at_once_no_one_loses_an_update(url):
    store, begin = open_store(url), Barrier(ANALYSTS)
    store.alerts.save([stolen_session(alert_id=f"{number:02d}") for number in range(ALERTS)])
    with ThreadPoolExecutor(ANALYSTS) as pool:
        names = [f"analyst {number}" for number in range(ANALYSTS)]
        done = dict(zip(names, pool.map(partial(work, url, begin=begin), names), strict=True))
    versions = Counter((each.alert_id, each.version) for won in done.values() for each in won)
    assert max(versions.values()) == 1  # anyone who was told that it is done was alone
    rows = store.queue.page(AlertFilter(status="all"), size=ALERTS).rows
    assert versions == Counter((row.alert_id, number + 1) for row in rows for number in range(row.version))
    assert min(row.version for row in rows) >= 1
    lines = store.audit.entries(limit=10_000)
    assert Counter(line.target for line in lines) == {row.alert_id: row.version for row in rows}
    assert Counter(line.by for line in lines) == {name: len(won) for name, won in done.items() if won}
    judged = Counter(line.target for line in lines if line.action == "alert.decide")
    assert Counter(said.alert_id for said in store.cases.dispositions()) == judged
    store.close()


def test_an_analyst_does_not_wait_for_anyone_who_scores(postgresql):
    """A save takes its turn on PostgreSQL; a decision takes none."""
    url = postgresql.fresh()
    store = open_store(url)
    store.alerts.save([stolen_session()])
    with postgresql.talk(url) as beside:
        beside.execute(f"BEGIN; SELECT pg_advisory_xact_lock({database.Locking.SERIALIZED.value})")
        chosen = [AlertRevision(stolen_session().alert_id, 0)]
        assert store.cases.change(chosen, SetDisposition("benign"), "maria")[0].done
        store.cases.add_note(stolen_session().alert_id, "asked her", "maria")
    store.close()


def test_who_is_overtaken_between_looking_and_writing_is_told_by_whom(postgresql):
    """The database holds the second one back until the first is through."""
    url = postgresql.fresh()
    one, other = open_store(url), open_store(url)
    one.alerts.save([stolen_session()])
    chosen = [AlertRevision(stolen_session().alert_id, 0)]
    with postgresql.talk(url) as beside, ThreadPoolExecutor(1) as pool:
        beside.execute("BEGIN; LOCK TABLE change_counter")  # so that the first stops just before its commit
        first = pool.submit(one.cases.change, chosen, AssignCase("maria"), "maria")
        wait_until(lambda: _waiting(postgresql) == 1, "the first waits")
        with ThreadPoolExecutor(1) as second:
            late = second.submit(other.cases.change, chosen, AssignCase("kim"), "kim")
            wait_until(lambda: _waiting(postgresql) == 2, "the second waits for the first")
            beside.execute("COMMIT")
            assert first.result(30)[0].done
            assert late.result(30) == [ActionOutcome(chosen[0].alert_id, False, 1, "maria changed it since")]
    for store in (one, other):
        store.close()


def test_of_many_alerts_that_share_a_surprise_the_newest_alone_are_read(tmp_path):
    store = with_clock(f"sqlite:///{tmp_path}/alerts.sqlite")
    store.alerts.save([stolen_session(), stolen_session(alert_id="a1", principal="1:role/x")])
    found = queries(store, lambda: store.queue.similar(stolen_session().alert_id, limit=6))
    newest = [each for each in found if "ORDER BY alert_surprises.last_event_time DESC" in each[0]]
    assert len(newest) == STRONGEST_SURPRISES
    index = "SEARCH alert_surprises USING COVERING INDEX alerts_of_surprise (surprise_id=?)"
    with store.session.engine.connect() as connection:
        for statement, parameters in newest:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            assert [row[-1] for row in plan] == [index]  # read in its order, without a sort
            assert "LIMIT" in statement
    store.close()


def _waiting(postgresql) -> int:
    with postgresql.talk() as beside:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        return beside.execute(asked).fetchone()[0]
