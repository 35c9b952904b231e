"""A program that saves its part of the same alerts as another program at the same time."""

from __future__ import annotations

from multiprocessing.synchronize import Barrier

from fingerprint.store import open_store
from tests.support.alerts import stolen_session, votes

ALERTS, TURNS = 8, 25  # saved at once; how often, other alerts each time


def save_part_of_alerts(url: str, which: str, ready: Barrier) -> None:
    """Save the early or the late events, neither of which is all of an alert, in opposite orders, once both are ready."""
    store, events = open_store(url), stolen_session().events
    part = events[:5] if which == "early" else events[4:]
    span = {"first_event_time": part[0].event_time, "last_event_time": part[-1].event_time}
    order = range(ALERTS)[:: 1 if which == "early" else -1]
    ready.wait(60)
    for turn in range(TURNS):
        alerts = [stolen_session(alert_id=f"{turn}-{number}", events=part, **span) for number in order]
        store.alerts.save(alerts, votes(stolen_session()))
