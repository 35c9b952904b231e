"""The alerts that the bench of the queue inserts are rows as a save leaves them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from fingerprint.core.case import AlertFilter
from fingerprint.store import open_store
from pipelines.bench.queue import insert_alerts


def test_inserted_alerts_are_counted_and_their_events_read(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/alerts.sqlite", now=lambda: datetime.now(UTC))
    insert_alerts(store.session.engine, 30)
    assert store.queue.counts(AlertFilter())["open"] == 15
    name = f"a{2654435761 % 2**32}"  # of the first one
    event = store.evidence.event(name, f"{name}-1")
    assert (event.service, dict(event.scores), event.flagged_by) == ("iam", {}, ())
    store.close()
