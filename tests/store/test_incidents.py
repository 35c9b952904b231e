"""Incidents on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
from contextlib import ExitStack

import pytest

from fingerprint.store import open_store
from tests.contracts.incident_store import IncidentContract
from tests.contracts.suppression_store import Moving


class TestSqlite(IncidentContract):
    @pytest.fixture
    def make_store(self, tmp_path):
        numbers = itertools.count()
        return lambda: open_store(f"sqlite:///{tmp_path}/{next(numbers)}.sqlite", now=Moving())


class TestPostgres(IncidentContract):
    @pytest.fixture
    def make_store(self, postgresql):
        with ExitStack() as opened:

            def make():
                store = open_store(postgresql.fresh(), now=Moving())
                opened.callback(store.close)
                return store

            yield make
