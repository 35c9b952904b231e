"""What a training reads, and what it leaves out: files, objects and topics within a span, and the desk's word on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.core import time_range
from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME, TimeRange
from fingerprint.sources.active import SOURCE
from fingerprint.store import SqlStore, masked_url, open_store, store_exists
from fingerprint.training import feedback
from fingerprint.training.exclusions import TrainingExclusions
from pipelines import topic_reread
from pipelines.cli.console import Progress

NO_DATABASE = "none"  # the desk that is not asked


@dataclass(frozen=True)
class TrainingDataRequest:
    """What is to be learned: `sources` as `files` takes them, the name of a topic, a span of event time; and which desk is
    asked what to leave out: a URL, NOBODY, or None for that of the settings, if there is one yet."""

    sources: Sequence[str] = ()
    topic: str | None = None
    span: TimeRange = ALL_TIME
    database: str | None = NO_DATABASE


def load_history(
    request: TrainingDataRequest, history: EventSpool, settings: Settings, progress: Progress
) -> dict[str, int]:
    """Fill the history, whose span is `wanted.span`; how many objects were not even fetched.

    Raises FingerprintError where a source or topic is missing, and where nothing lies within the span.
    """
    if not request.sources and not request.topic:
        raise FingerprintError("there is nothing to learn from: name files, folders or URLs, or a --topic")
    near = files.find_files_in_span(request.sources, request.span)
    if request.sources and not near.files and not request.topic:
        raise FingerprintError(_no_events_message(request.span, _key_date_range(near)))
    for records in files.read_files(near.files, settings.reading):
        history.add_records(records)
        progress("reading records", history.records)
    if request.topic:
        topic_reread.read_topic(request.topic, history, settings, progress)
    history.trim()
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
            return TrainingExclusions.empty(), {"asked": None, "votes_since": None}
        known = desk.feedback.flagged_events(*_history_span(history, newest))
        oldest = desk.votes.oldest_time()
        return TrainingExclusions.from_labels(known, settings.training, newest), {
            "asked": masked_url(url),
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
        return desk.feedback.decided_entities(newest + timedelta(seconds=1))


def load_confirmed_attacks(database: str | None, settings: Settings) -> dict[str, list[bytes]]:
    """Attacks that analysts confirmed: by alert, the records of its events. The gate asks whether a new bank finds them."""
    with open_feedback_store(database, settings) as (desk, _):
        return desk.feedback.confirmed_attacks() if desk else {}


@contextmanager
def open_feedback_store(database: str | None, settings: Settings) -> Iterator[tuple[SqlStore | None, str]]:
    """The desk that is asked (`Wanted.desk`) and its URL; None where nobody is."""
    url = settings.database.url if database is None else database
    if url == NO_DATABASE or (database is None and not store_exists(url)):
        yield None, url
        return
    desk = open_store(url, create=False)
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
    days = [day for day in (SOURCE.object_day(file.path) for file in near.found) if day]
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
