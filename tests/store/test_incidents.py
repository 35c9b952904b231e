"""Incidents on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from fingerprint.core.case import AlertRevision, SetDisposition
from fingerprint.store import open_store
from tests.contracts.incident_store import IncidentContract, IncidentRules
from tests.contracts.message_stream import wait_until
from tests.contracts.suppression_store import Moving
from tests.support.alerts import new_pipeline, stolen_session


class TestSqlite(IncidentRules):
    @pytest.fixture
    def make_store(self, tmp_path):
        numbers = itertools.count()
        return lambda: open_store(f"sqlite:///{tmp_path}/{next(numbers)}.sqlite", now=Moving())


class TestPostgres(IncidentContract):
    @pytest.fixture
    def make_store(self, postgresql_stores):
        with postgresql_stores.lent() as make:
            yield lambda: make(Moving())


def test_a_decision_counts_in_the_incident_that_its_alert_moves_to_at_the_same_time(postgresql):
    """A save moves it, and has computed the figures, before the decision is committed."""
    url = postgresql.fresh()
    store, alert, other = open_store(url), stolen_session(), new_pipeline()
    store.alerts.save([alert, other])
    assert store.incidents.get(alert.alert_id).row.incident_id != other.alert_id
    with postgresql.talk(url) as beside, ThreadPoolExecutor(1) as pool:
        beside.execute("BEGIN")
        beside.execute("SELECT 1 FROM incidents FOR UPDATE")
        moved = "UPDATE incident_alerts SET incident_id = %s WHERE alert_id = %s"
        beside.execute(moved, [other.alert_id, alert.alert_id])
        beside.execute("DELETE FROM incidents WHERE incident_id = %s", [alert.alert_id])
        beside.execute("UPDATE incidents SET alerts = 2, open_alerts = 2")
        decided = pool.submit(
            store.cases.change, [AlertRevision(alert.alert_id, 0)], SetDisposition("benign", "hers"), "maria"
        )
        asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        with postgresql.talk() as watcher:
            wait_until(
                lambda: watcher.execute(asked).fetchone()[0] == 1, "the decision waits for the incident"
            )
        beside.execute("COMMIT")
        assert decided.result(30)[0].done
        row = beside.execute("SELECT incident_id, alerts, open_alerts FROM incidents").fetchall()
    assert row == [(other.alert_id, 2, 1)]
    store.close()
