"""What a training reads, and what it leaves out: files, objects and topics within a span, and the desk's word on them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.core import time_range
from fingerprint.core.alert import FingerprintError, Reject
from fingerprint.core.ports import Message, Partition
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME, KEY_DAY_MARGIN, TimeRange
from fingerprint.sources import arrival
from fingerprint.sources import decode as messages_
from fingerprint.store.alerts import SqlAlertStore, alert_store_exists, masked_url, open_alert_store
from fingerprint.streaming import routing
from fingerprint.streaming.bounded_read import poll_until_end
from fingerprint.training import feedback
from fingerprint.training.exclusions import TrainingExclusions
from pipelines.cli.console import Progress
from pipelines.runtime import wiring
from pipelines.runtime.input_check import require_events

NO_DATABASE = "none"  # the desk that is not asked


@dataclass(frozen=True)
class TrainingDataRequest:
    """What is to be learned: `sources` as `files` takes them, the name of a topic, a span of event time; and which desk is
    asked what to leave out: a URL, NOBODY, or None for that of the settings, if there is one yet."""

    sources: Sequence[str] = ()
    topic: str | None = None
    span: TimeRange = ALL_TIME
    database: str | None = NO_DATABASE


def require_sources(request: TrainingDataRequest) -> None:
    """Raise FingerprintError if a request names neither sources nor a topic."""
    if not request.sources and not request.topic:
        raise FingerprintError("there is nothing to learn from: name files, folders or URLs, or a --topic")


def load_history(
    request: TrainingDataRequest, history: EventSpool, settings: Settings, progress: Progress
) -> dict[str, int]:
    """Fill the history, whose span is `wanted.span`; how many objects were not even fetched.

    Raises FingerprintError where a source or topic is missing, and where nothing lies within the span.
    """
    require_sources(request)
    near = files.find_files_in_span(request.sources, request.span)
    if request.sources and not near.files and not request.topic:
        raise FingerprintError(_no_events_message(request.span, _key_date_range(near)))
    for records in files.read_files(near.files, settings.reading):
        history.add_records(records)
        progress("reading records", history.records)
    if request.topic:
        read_topic(request.topic, history, settings, progress)
    history.trim()
    require_events(history, request.sources)
    if history.outside_span and not history.events:
        raise FingerprintError(_no_events_message(request.span, history.observed_range))
    return {
        "objects": len(near.found),
        "not_fetched": len(near.found) - len(near.files),
        "months_not_listed": len(near.unlisted),
    }


def load_exclusions(
    request: TrainingDataRequest, history: EventSpool, settings: Settings
) -> tuple[TrainingExclusions, dict[str, Any]]:
    """What the desk says of the history's events, and for people: which desk was asked, and from when on it knows votes."""
    newest = history.activity_end()
    with open_feedback_store(request.database, settings) as (desk, url):
        if newest is None or desk is None:
            return TrainingExclusions.empty(), {"url": None, "votes_since": None}
        known = desk.flagged_events(*_history_span(history, newest))
        oldest = desk.oldest_vote_time()
        return TrainingExclusions.from_labels(known, settings.training, newest), {
            "url": masked_url(url),
            "votes_since": oldest.isoformat() if oldest else None,
        }


def load_dispositions(request: TrainingDataRequest, history: EventSpool, settings: Settings) -> pd.DataFrame:
    """What analysts said of alerts up to the end of the history, however old: what moves thresholds (`shifting`)."""
    newest = history.activity_end()
    with open_feedback_store(request.database, settings) as (desk, _):
        if newest is None or desk is None:
            return pd.DataFrame(columns=list(feedback.DISPOSITION_COLUMNS)).astype(
                {"event_time": "datetime64[us, UTC]"}
            )
        return desk.decided_entities(newest + timedelta(seconds=1))


def load_confirmed_attacks(database: str | None, settings: Settings) -> dict[str, list[bytes]]:
    """Attacks that analysts confirmed: by alert, the records of its events. The gate asks whether a new bank finds them."""
    with open_feedback_store(database, settings) as (desk, _):
        return desk.confirmed_attacks() if desk else {}


@contextmanager
def open_feedback_store(
    database: str | None, settings: Settings
) -> Iterator[tuple[SqlAlertStore | None, str]]:
    """The desk that is asked (`Wanted.desk`) and its URL; None where nobody is."""
    url = settings.desk.url if database is None else database
    if url == NO_DATABASE or (database is None and not alert_store_exists(url)):
        yield None, url
        return
    desk = open_alert_store(url, create=False)
    try:
        yield desk, url
    finally:
        desk.close()


def _history_span(history: EventSpool, newest: datetime) -> tuple[datetime, datetime]:
    """From the first event to past the last, believed or not."""
    first, last = history.observed_range or (newest, newest)
    return history.span.since or first, max(last, newest) + timedelta(seconds=1)


def _key_date_range(near: files.FilesInSpan) -> tuple[datetime, datetime]:
    """The first and the last day that keys name, or the month of the last; some do, or nothing would be outside."""
    days = [day for day in (time_range.key_day(file.path) for file in near.found) if day]
    days = sorted([*days, *near.unlisted, *map(time_range.last_day_of_month, near.unlisted)])
    first, last = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (days[0], days[-1]))
    return first, last


def _no_events_message(span: TimeRange, seen: tuple[datetime, datetime] | None) -> str:
    there = (
        f": the history has {time_range.format_instant(seen[0])} to {time_range.format_instant(seen[1])} UTC"
        if seen
        else ""
    )
    return f"there is no event {span}{there}"


def read_topic(topic: str, history: EventSpool, settings: Settings, progress: Progress) -> int:
    """All events of `topic` to `history`; how many messages there were. FingerprintError where there is no such topic.

    Events dated past the arrival of their message are counted and left out. With a span that begins somewhere, messages are
    passed over that were sent a day before it or earlier: an event is sent after it happened.
    """
    count = 0
    polls, bounds = reread_messages(topic, settings, history.span.since), history.backend.batch_bytes
    for messages in _coalesce_polls(polls, settings.reading.batch_records, bounds):
        count += len(messages)
        for piece in messages_.decode_messages(messages, settings, history.backend):
            came = routing.arrival_times(
                messages, piece, settings.stream.future_seconds, arrival.wall_clock_ms()
            )
            history.add_events(
                piece,
                [_at_topic_position(reject, messages) for reject in piece.rejects],
                came.is_future_dated,
            )
        progress(f"reading {topic}", count)
    return count


def reread_messages(topic: str, settings: Settings, since: datetime | None = None) -> Iterator[list[Message]]:
    """The messages of a topic up to where it ended at the start, in order within each partition; none that were sent more than
    a day before `since`. What retention deletes meanwhile is passed over."""
    alone = settings.kafka.model_copy(update={"member": None, "lost": "skip"})
    with wiring.open_consumer(alone, f"train-{uuid.uuid4().hex[:12]}") as consumer:
        homes = [Partition(topic, number) for number in range(consumer.partition_count(topic))]
        ends = consumer.end_offsets(homes)
        begin = int((since - KEY_DAY_MARGIN).timestamp() * 1000) if since else None
        consumer.subscribe(
            [topic], lambda ours: None if begin is None else consumer.offsets_for_time(ours, begin)
        )
        yield from poll_until_end(consumer, end_offsets=ends)
        if (had := len(consumer.assignment())) < len(homes):
            raise FingerprintError(
                f"of the {len(homes)} partitions of {topic} only {had} were read: start again when the broker is well"
            )


def _coalesce_polls(polls: Iterator[list[Message]], most: int, most_bytes: int) -> Iterator[list[Message]]:
    """The same messages, at least so many at a time (and `most_bytes` of them, about): a history has a file for each
    batch and span of hours, and a poll may bring few."""
    held: list[Message] = []
    size = 0
    for messages in polls:
        held += messages
        size += sum(len(message.value or b"") for message in messages)
        if len(held) >= most or size >= most_bytes:
            yield held
            held, size = [], 0
    if held:
        yield held


def _at_topic_position(reject: Reject, messages: list[Message]) -> Reject:
    """The same, by its place in the topic: `events/3`, `17/2` for the second record in message 17."""
    number, _, rest = reject.position.partition("/")
    message = messages[int(number)]
    return Reject(
        message.source_partition.label,
        f"{message.offset}/{rest}" if rest else str(message.offset),
        reject.reason,
    )
