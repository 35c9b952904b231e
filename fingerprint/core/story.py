"""Summaries of an alert's events: calls with outcomes and resources, tallies of fields, and runs of repeated calls.

Example:
    >>> for call in summarise_calls(alert.events):
    ...     print(call.name, call.events, call.failed, call.resources.values)
    cloudtrail:StopLogging 3 3 (('trail:organisation', 3),)

A store computes the same in the database, without loading the events (`EvidenceRepository.calls`, `.tallies`, `.runs`). The
functions here are the plain version, for reports of whole alerts; tests compare the store's queries with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fingerprint.core.alert import AlertEvent

# The fields of events that are tallied; the alert store has columns of the same names.
TALLIED = (
    "source_address",
    "user_agent",
    "region",
    "service",
    "access_key",
    "session",
    "entity",
    "error_code",
)
MAX_RESOURCES = 5  # of one call, the most frequent
MAX_TALLIED = 500  # values of one field, the most frequent
MAX_RUN_EVENTS = 10  # events of a run that a page includes


@dataclass(frozen=True, slots=True)
class Tally:
    """The most frequent values with their counts, the most frequent first; `distinct` is the number of all distinct values."""

    values: tuple[tuple[str, int], ...] = ()
    distinct: int = 0

    @property
    def left_out(self) -> int:
        """Return the number of distinct values that are not in `values`."""
        return self.distinct - len(self.values)


@dataclass(frozen=True, slots=True)
class CallSummary:
    """A summary of all events of one service and action: number, times, outcomes and resources.

    `outcomes` are error codes with their counts; an empty code is success.
    """

    service: str
    action: str
    events: int
    first: datetime
    last: datetime
    outcomes: tuple[tuple[str, int], ...]
    resources: Tally = Tally()

    @property
    def name(self) -> str:
        """Return `service:Action`."""
        return f"{self.service}:{self.action}"

    @property
    def failed(self) -> int:
        """Return how many of its events failed."""
        return sum(count for code, count in self.outcomes if code)

    @property
    def errors(self) -> tuple[tuple[str, int], ...]:
        """Return the error codes with their counts, without success."""
        return tuple((code, count) for code, count in self.outcomes if code)


@dataclass(frozen=True, slots=True)
class EventRun:
    """A run of events with the same call and outcome, one after the other: count, times, numbers of resources and addresses.

    A store's run has only its first events, at most MAX_RUN_EVENTS; `following` is the cursor with which
    `EvidenceRepository.events` returns the next ones.
    """

    events: tuple[AlertEvent, ...]
    count: int
    last: datetime
    resources: int
    addresses: int
    following: str = ""

    @property
    def first(self) -> AlertEvent:
        """Return the first event."""
        return self.events[0]


@dataclass(frozen=True, slots=True)
class EventSelection:
    """A selection of an alert's events: `calls` (service, action), None for all of them; with `failed` only failed events."""

    calls: frozenset[tuple[str, str]] | None = None
    failed: bool = False

    def has(self, event: AlertEvent) -> bool:
        """Return whether an event is selected."""
        selected = self.calls is None or (event.service, event.action) in self.calls
        return selected and (bool(event.error_code) or not self.failed)


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of an alert's runs, the oldest first; `following` is the cursor of the next page, None at the end.

    `total` is the number of runs, `total_events` the number of events in the selection.
    """

    runs: tuple[EventRun, ...]
    total: int
    total_events: int
    following: str | None = None


def summarise_calls(events: Iterable[AlertEvent]) -> list[CallSummary]:
    """Return a summary for each service and action, in the order of their first calls."""
    groups: dict[tuple[str, str], list[AlertEvent]] = {}
    for event in in_order(events):
        groups.setdefault((event.service, event.action), []).append(event)
    return [
        CallSummary(
            *call,
            len(made),
            made[0].event_time,
            made[-1].event_time,
            ranked(Counter(event.error_code for event in made)),
            tally((event.resource for event in made), MAX_RESOURCES),
        )
        for call, made in groups.items()
    ]


def tally_events(events: Sequence[AlertEvent]) -> dict[str, Tally]:
    """Return a tally of each of the fields TALLIED."""
    return {name: tally(getattr(event, name) for event in events) for name in TALLIED}


def tally(values: Iterable[str], most: int = MAX_TALLIED) -> Tally:
    """Return the tally of values, with at most `most` of them; empty values are ignored."""
    counts = Counter(value for value in values if value)
    return Tally(ranked(counts)[:most], len(counts))


def ranked(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return values with their counts, the most frequent first; equal counts are in alphabetical order."""
    return tuple(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def fold_runs(events: Iterable[AlertEvent], selection: EventSelection | None = None) -> list[EventRun]:
    """Return the runs of the selected events, the oldest first, each with all of its events."""
    runs: list[list[AlertEvent]] = []
    for event in in_order(events):
        if selection is not None and not selection.has(event):
            continue
        if not runs or _repeated(runs[-1][-1]) != _repeated(event):
            runs.append([])
        runs[-1].append(event)
    return [
        EventRun(
            tuple(run),
            len(run),
            run[-1].event_time,
            len({event.resource for event in run} - {""}),
            len({event.source_address for event in run} - {""}),
        )
        for run in runs
    ]


def in_order(events: Iterable[AlertEvent]) -> list[AlertEvent]:
    """Return events by time, then by id."""
    return sorted(events, key=lambda event: (event.event_time, event.event_id))


def _repeated(event: AlertEvent) -> tuple[str, str, str]:
    return event.service, event.action, event.error_code
