"""Data of a training: records of files, objects and topics within a time range, and labels and dispositions of the database."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pandas as pd

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.analysis import threshold_what_if
from fingerprint.core.alert import Reject
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Message, Partition
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME, KEY_DAY_MARGIN, TimeRange
from fingerprint.sources import arrival
from fingerprint.sources import decode as messages_
from fingerprint.store import SqlStore, masked_url, open_store, store_exists
from fingerprint.streaming import routing
from fingerprint.streaming.bounded_read import poll_until_end
from fingerprint.training import feedback
from fingerprint.training.exclusions import TrainingExclusions
from pipelines.cli.console import Progress
from pipelines.runtime import wiring
from pipelines.runtime.input_check import find_input, require_events, unread_objects

NO_DATABASE = "none"  # value of the option --database: no database is used


@dataclass(frozen=True)
class TrainingDataRequest:
    """The history to train on: sources, a topic, or both, within a range of event time.

    The database has the events to leave out: a URL, NO_DATABASE, or None for the database of the settings if it exists.
    """

    sources: Sequence[str] = ()
    topic: str | None = None
    span: TimeRange = ALL_TIME
    database: str | None = NO_DATABASE


def require_sources(request: TrainingDataRequest) -> None:
    """Raise FingerprintError if a request names neither sources nor a topic."""
    if not request.sources and not request.topic:
        raise FingerprintError("there is nothing to learn from: name files, folders or URLs, or a --topic")


def require_feedback_store(request: TrainingDataRequest, settings: Settings) -> None:
    """Raise FingerprintError, before the history is read, if the database of a request cannot be opened."""
    with open_feedback_store(request.database, settings):
        pass


def load_history(
    request: TrainingDataRequest, history: EventSpool, settings: Settings, progress: Progress
) -> dict[str, int]:
    """Fill the history, whose span is that of the request; return the numbers of objects that were not read.

    Raises FingerprintError if a source or the topic is missing, or no event is within the span.
    """
    require_sources(request)
    from_topic = not request.sources or bool(request.topic)
    near = find_input(request.sources, request.span, may_be_empty=from_topic)
    history.add_batches(files.read_files(near.files, settings.reading), progress)
    if request.topic:
        read_topic(request.topic, history, settings, progress)
    history.trim()
    require_events(history, near.files)
    return unread_objects(near)


def load_exclusions(
    request: TrainingDataRequest, history: EventSpool, settings: Settings
) -> tuple[TrainingExclusions, dict[str, Any]]:
    """Return the events of the history to leave out, and figures to print: the database, and the time of its oldest vote."""
    newest = history.activity_end()
    with open_feedback_store(request.database, settings) as (store, url):
        if newest is None or store is None:
            return TrainingExclusions.empty(), {"url": None, "votes_since": None}
        known = store.feedback.flagged_events(*_history_span(history, newest))
        oldest = store.votes.oldest_time()
        return TrainingExclusions.from_labels(known, settings.training, newest), {
            "url": masked_url(url),
            "votes_since": oldest.isoformat() if oldest else None,
        }


def load_dispositions(request: TrainingDataRequest, history: EventSpool, settings: Settings) -> pd.DataFrame:
    """Return all dispositions up to the end of the history, which adjust thresholds; old ones, too."""
    newest = history.activity_end()
    with open_feedback_store(request.database, settings) as (store, _):
        if newest is None or store is None:
            return pd.DataFrame(columns=list(feedback.DISPOSITION_COLUMNS)).astype(
                {"event_time": "datetime64[us, UTC]"}
            )
        return store.feedback.decided_entities(newest + timedelta(seconds=1))


def decisions_digest(request: TrainingDataRequest, settings: Settings) -> str:
    """Return a digest of the current decisions on alerts; it changes with each decision, and if one is taken back."""
    with open_feedback_store(request.database, settings) as (store, _):
        known = store.cases.current_decisions() if store else None
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def load_confirmed_attacks(database: str | None, settings: Settings) -> dict[str, list[bytes]]:
    """Return the records of each true positive, by alert; the promotion gate tests a new bank with these attacks."""
    with open_feedback_store(database, settings) as (store, _):
        return store.feedback.confirmed_attacks() if store else {}


def settings_in_force(database: str | None, settings: Settings) -> Settings:
    """Return the settings with the current override of threshold and quorum, by which scorers judge."""
    with open_feedback_store(database, settings) as (store, _):
        return threshold_what_if.apply_override(settings, store.thresholds.current()) if store else settings


@contextmanager
def open_feedback_store(database: str | None, settings: Settings) -> Iterator[tuple[SqlStore | None, str]]:
    """Open the database of a request (see TrainingDataRequest); yield it with its URL, or None if there is no database.

    Raises FingerprintError if `database` names one that does not exist.
    """
    url = settings.database.url if database is None else database
    if url == NO_DATABASE or not store_exists(url):
        if database not in (None, NO_DATABASE):
            raise FingerprintError(
                f"there is no database of alerts at {masked_url(url)} yet: a first training needs none, so leave "
                f"--database out, or give `--database {NO_DATABASE}`; `fingerprint score` creates it"
            )
        yield None, url
        return
    store = open_store(url, create=False)
    try:
        yield store, url
    finally:
        store.close()


def _history_span(history: EventSpool, newest: datetime) -> tuple[datetime, datetime]:
    """Return the beginning of the span, or the time of the first event without one, and a time after the last event."""
    first, last = history.observed_range or (newest, newest)
    return history.span.since or first, max(last, newest) + timedelta(seconds=1)


def read_topic(topic: str, history: EventSpool, settings: Settings, progress: Progress) -> int:
    """Add all events of `topic` to `history`; return the number of messages.

    Events dated after the arrival of their message are counted and left out. If the time range has a beginning, messages sent a
    day or more before it are skipped, because an event is sent after it happened. Raises FingerprintError for a missing topic.
    """
    count = 0
    polls, bounds = reread_messages(topic, settings, history.span.since), history.backend.batch_bytes
    for messages in _coalesce_polls(polls, settings.reading.batch_records, bounds):
        count += len(messages)
        for decoded in messages_.decode_messages(messages, settings, history.backend):
            came = routing.arrival_times(messages, decoded, arrival.wall_clock_ms())
            history.add_events(
                decoded,
                [_at_topic_position(reject, messages) for reject in decoded.rejects],
                came.is_future_dated,
            )
        progress(f"reading {topic}", count)
    return count


def reread_messages(topic: str, settings: Settings, since: datetime | None = None) -> Iterator[list[Message]]:
    """Yield the messages of a topic up to its present end, in order within each partition.

    Messages sent more than a day before `since` are skipped, and so are messages that retention deletes during the reading. The
    reader is the only member of its consumer group and commits nothing, so it disturbs no other reader.
    """
    alone = settings.kafka.model_copy(update={"group_instance_id": None, "auto_offset_reset": "earliest"})
    with wiring.open_consumer(alone, f"train-{uuid.uuid4().hex[:12]}") as consumer:
        partitions = [Partition(topic, number) for number in range(consumer.partition_count(topic))]
        ends = consumer.end_offsets(partitions)
        begin = int((since - KEY_DAY_MARGIN).timestamp() * 1000) if since else None
        consumer.subscribe(
            [topic], lambda assigned: None if begin is None else consumer.offsets_for_time(assigned, begin)
        )
        yield from poll_until_end(consumer, end_offsets=ends)
        if (had := len(consumer.assignment())) < len(partitions):
            raise FingerprintError(
                f"of the {len(partitions)} partitions of {topic} only {had} were read: start again when the broker works"
            )


def _coalesce_polls(polls: Iterator[list[Message]], most: int, most_bytes: int) -> Iterator[list[Message]]:
    """Yield batches of at least `most` messages or `most_bytes`, because a history has a file for each batch and some hours."""
    pending: list[Message] = []
    size = 0
    for messages in polls:
        pending += messages
        size += sum(len(message.value or b"") for message in messages)
        if len(pending) >= most or size >= most_bytes:
            yield pending
            pending, size = [], 0
    if pending:
        yield pending


def _at_topic_position(reject: Reject, messages: list[Message]) -> Reject:
    """Return a reject with its position in the topic: `events/3`, `17/2` for the second record in message 17."""
    number, _, rest = reject.position.partition("/")
    message = messages[int(number)]
    return Reject(
        message.source_partition.label,
        f"{message.offset}/{rest}" if rest else str(message.offset),
        reject.reason,
    )
