"""Suppressions, shared surprises, retention, redaction and purge, on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
from contextlib import ExitStack

import pytest
from contracts.guard import GuardContract, Moving

from fingerprint.edges import desk_tables
from fingerprint.edges.desk import open_desk


class TestSqlite(GuardContract):
    @pytest.fixture
    def make_guarded(self, tmp_path):
        numbers = itertools.count()

        def make(now=None, redact=()):
            return open_desk(
                f"sqlite:///{tmp_path}/{next(numbers)}.sqlite", redact=redact, now=now or Moving()
            )

        return make


class TestPostgres(GuardContract):
    @pytest.fixture
    def make_guarded(self, postgresql):
        with ExitStack() as opened:

            def make(now=None, redact=()):
                desk = open_desk(postgresql.fresh(), redact=redact, now=now or Moving())
                opened.callback(desk.close)
                return desk

            yield make


OF_NOBODY = {  # tables that hold nothing of a principal, by neither an alert nor a name: a purge leaves them alone
    *("meta", "audit", "views", "change_counter", "suppressions", "tunings"),
    *("feed_counts", "feed_progress", "notices", "delivery_receivers", "programs"),
    *("persons", "sessions", "tokens", "invitations", "attempts"),
}


@pytest.mark.parametrize("table", desk_tables.metadata.sorted_tables, ids=str)
def test_of_every_table_it_was_thought_about_whether_a_purge_reaches_it(table):
    reached = {"alert_id", "principal"} & set(table.c.keys())
    assert reached or table.name in OF_NOBODY
