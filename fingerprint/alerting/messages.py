"""Alerts, votes and feed gaps as messages: JSON with a schema version, keyed by principal or feed.

Example:
    >>> [(key, value)] = encode_votes(frame.head(1))
    >>> value
    b'{"schema":1,"event_id":"...","event_time":"2026-01-23T03:28:11.000Z","principal":"...", ... "z":5.2,"vote":true}'

An alert is published again when it has grown: the newest message of its id replaces the others. A message carries the newest
events, at most MAX_ALERT_EVENTS and no more than fit, without their records. `event_count` says how many the alert has; the alert
store has them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec
import pandas as pd

from fingerprint.compute import frames
from fingerprint.core.alert import VOTE_COLUMNS, Alert, FeedGap

MESSAGE_SCHEMA_VERSION = 1
MAX_ALERT_EVENTS = 200


def encode_alerts(alerts: Sequence[Alert], max_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key (principal) and value of each alert; a message of more than `max_bytes` is made to fit with fewer events."""
    for alert in alerts:
        key = alert.principal.encode(errors="replace")
        yield key, _encode_within(alert, max_bytes - len(key))


def _encode_within(alert: Alert, max_bytes: int) -> bytes:
    """Return an alert as a message of at most `max_bytes`: the text of one record may be a mebibyte.

    While it is too large, the older half of its events is dropped. If it is too large without any event, drivers and next steps
    are dropped, too.
    """
    shown = replace(alert, events=alert.events[-MAX_ALERT_EVENTS:])
    while len(value := _encode_alert(shown, len(alert.events))) > max_bytes and shown.events:
        events, supporting = shown.events, shown.supporting_events
        shown = replace(
            shown,
            events=events[(len(events) + 1) // 2 :],
            supporting_events=supporting[: len(supporting) // 2],
        )
    if len(value) <= max_bytes:
        return value
    return _encode_alert(replace(shown, drivers=(), next_steps=(), supporting_events=()), len(alert.events))


def _encode_alert(alert: Alert, event_count: int) -> bytes:
    fields = msgspec.to_builtins(alert)
    for event in (*fields["events"], *fields["supporting_events"]):
        event.pop("raw", None)
    return msgspec.json.encode({"schema": MESSAGE_SCHEMA_VERSION, **fields, "event_count": event_count})


def encode_votes(frame: pd.DataFrame) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key (principal) and value of each row; the columns are those of `Vote`."""
    if not len(frame):
        return
    table = frames.select_columns(frame, VOTE_COLUMNS)
    table.insert(0, "schema", MESSAGE_SCHEMA_VERSION)
    text = table.to_json(orient="records", lines=True, date_format="iso", date_unit="ms", double_precision=6)
    lines = text.encode(errors="replace").splitlines()
    keys = [str(name).encode(errors="replace") for name in frame["principal"]]
    yield from zip(keys, lines, strict=True)


def encode_feed_gaps(gaps: Sequence[FeedGap]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key (feed) and value of each gap; a gap is published again when it has grown or ended."""
    for gap in gaps:
        message = {"schema": MESSAGE_SCHEMA_VERSION, **msgspec.to_builtins(gap)}
        yield gap.feed.encode(errors="replace"), msgspec.json.encode(message)
