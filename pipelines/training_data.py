"""What a training reads, and what it leaves out: files, objects and topics within a span, and the desk's word on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import History
from fingerprint.core import time_range
from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import EVER, Span
from fingerprint.store.alerts import SqlDesk, is_there, name_of, open_desk
from fingerprint.training import feedback
from fingerprint.training.exclusions import Flagged
from pipelines import topic_reread
from pipelines.cli.console import Progress

NOBODY = "none"  # the desk that is not asked


@dataclass(frozen=True)
class Wanted:
    """What is to be learned: `sources` as `files` takes them, the name of a topic, a span of event time; and which desk is
    asked what to leave out: a URL, NOBODY, or None for that of the settings, if there is one yet."""

    sources: Sequence[str] = ()
    topic: str | None = None
    span: Span = EVER
    desk: str | None = NOBODY


def gather(wanted: Wanted, history: History, settings: Settings, progress: Progress) -> dict[str, int]:
    """Fill the history, whose span is `wanted.span`; how many objects were not even fetched.

    Raises FingerprintError where a source or topic is missing, and where nothing lies within the span.
    """
    if not wanted.sources and not wanted.topic:
        raise FingerprintError("there is nothing to learn from: name files, folders or URLs, or a --topic")
    near = files.within(wanted.sources, wanted.span)
    if wanted.sources and not near.files and not wanted.topic:
        raise FingerprintError(_nothing(wanted.span, _days(near)))
    for records in files.read_found(near.files, settings.reading):
        history.add(records)
        progress("reading records", history.records)
    if wanted.topic:
        topic_reread.read(wanted.topic, history, settings, progress)
    history.cut()
    if history.outside and not history.events:
        raise FingerprintError(_nothing(wanted.span, history.seen))
    return {
        "objects": len(near.found),
        "not_fetched": len(near.found) - len(near.files),
        "months_not_listed": len(near.unlisted),
    }


def flagged(wanted: Wanted, history: History, settings: Settings) -> tuple[Flagged, dict[str, Any]]:
    """What the desk says of the history's events, and for people: which desk was asked, and from when on it knows votes."""
    newest = history.last_time()
    with asked(wanted.desk, settings) as (desk, url):
        if newest is None or desk is None:
            return Flagged.nothing(), {"asked": None, "votes_since": None}
        known = desk.flagged(*_whole(history, newest))
        oldest = desk.oldest_vote()
        return Flagged.of(known, settings.training, newest), {
            "asked": name_of(url),
            "votes_since": oldest.isoformat() if oldest else None,
        }


def judged(wanted: Wanted, history: History, settings: Settings) -> pd.DataFrame:
    """What analysts said of alerts up to the end of the history, however old: what moves thresholds (`shifting`)."""
    newest = history.last_time()
    with asked(wanted.desk, settings) as (desk, _):
        if newest is None or desk is None:
            return pd.DataFrame(columns=list(feedback.COLUMNS)).astype({"event_time": "datetime64[us, UTC]"})
        return desk.judged(newest + timedelta(seconds=1))


def confirmed(named: str | None, settings: Settings) -> dict[str, list[bytes]]:
    """Attacks that analysts confirmed: by alert, the records of its events. The gate asks whether a new bank finds them."""
    with asked(named, settings) as (desk, _):
        return desk.confirmed() if desk else {}


@contextmanager
def asked(named: str | None, settings: Settings) -> Iterator[tuple[SqlDesk | None, str]]:
    """The desk that is asked (`Wanted.desk`) and its URL; None where nobody is."""
    url = settings.desk.url if named is None else named
    if url == NOBODY or (named is None and not is_there(url)):
        yield None, url
        return
    desk = open_desk(url, create=False)
    try:
        yield desk, url
    finally:
        desk.close()


def _whole(history: History, newest: datetime) -> tuple[datetime, datetime]:
    """From the first event to past the last, believed or not."""
    first, last = history.seen or (newest, newest)
    return history.span.since or first, max(last, newest) + timedelta(seconds=1)


def _days(near: files.Within) -> tuple[datetime, datetime]:
    """The first and the last day that keys name, or the month of the last; some do, or nothing would be outside."""
    days = [day for day in (time_range.day_of(file.path) for file in near.found) if day]
    days = sorted([*days, *near.unlisted, *map(time_range.last_day, near.unlisted)])
    first, last = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (days[0], days[-1]))
    return first, last


def _nothing(span: Span, seen: tuple[datetime, datetime] | None) -> str:
    there = (
        f": the history has {time_range.moment(seen[0])} to {time_range.moment(seen[1])} UTC" if seen else ""
    )
    return f"there is no event {span}{there}"
