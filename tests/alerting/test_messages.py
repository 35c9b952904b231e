"""An alert's message fits the broker, however long the texts of its records are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from fingerprint.alerting.messages import MAX_ALERT_EVENTS, encode_alerts, encode_votes
from fingerprint.core.alert import Alert
from tests.support import alerts

ROOM = 100_000  # bytes


def _encoded(alert: Alert, room: int = ROOM) -> dict[str, Any]:
    """The one message of an alert, which is no larger than it may be."""
    [(key, value)] = encode_alerts([alert], room)
    assert key == alert.principal.encode()
    assert len(key) + len(value) <= room
    message: dict[str, Any] = json.loads(value)
    return message


def _with_events(count: int, user_agent: str) -> Alert:
    alert = alerts.stolen_session()
    events = tuple(
        replace(alert.events[0], event_id=f"event-{number}", user_agent=user_agent) for number in range(count)
    )
    return replace(alert, events=events)


def test_a_message_has_the_newest_events_without_their_records() -> None:
    message = _encoded(_with_events(MAX_ALERT_EVENTS + 3, "aws-cli/2.15"), 10 * ROOM)
    assert message["event_count"] == MAX_ALERT_EVENTS + 3
    assert [event["event_id"] for event in message["events"]] == [
        f"event-{number}" for number in range(3, MAX_ALERT_EVENTS + 3)
    ]
    assert "raw" not in message["events"][0]


@pytest.mark.parametrize(("length", "shown"), [(1_000, 50), (20_000, 3), (60_000, 1), (1_000_000, 0)])
def test_the_longer_its_texts_the_fewer_events_a_message_has(length: int, shown: int) -> None:
    message = _encoded(_with_events(100, "x" * length))
    assert message["event_count"] == 100
    assert [event["event_id"] for event in message["events"]] == [
        f"event-{number}" for number in range(100 - shown, 100)
    ]
    assert message["drivers"]


def test_what_explains_an_alert_goes_where_it_alone_is_too_large() -> None:
    alert = _with_events(2, "curl")
    driver = replace(alert.drivers[0], seen="x" * 1_000_000)
    message = _encoded(replace(alert, drivers=(driver,)))
    assert (message["drivers"], message["events"]) == ([], [])
    assert (message["title"], message["urgency"]) == (alert.title, alert.urgency)


def test_a_vote_on_its_topic_says_what_its_event_called() -> None:
    seen = [replace(vote, action="s3:\u202e\x1b[2J") for vote in alerts.votes(alerts.stolen_session())[:1]]
    [(key, value)] = encode_votes(pd.DataFrame(seen))
    assert key == seen[0].principal.encode()
    assert b"\n" not in value
    assert json.loads(value)["action"] == "s3:\u202e\x1b[2J"
