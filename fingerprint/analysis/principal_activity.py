"""Activity of a principal in its alerts: sessions, access keys, addresses, resources, roles; and its hours of the week.

Example:
    >>> seen = summarise_activity(store.principals.events("123456789012:user/ana", limit=2_000).events, issues)
    >>> seen.addresses[0]
    SeenValue(text='185.220.101.34', events=9, failed=2, first=datetime(...), last=datetime(...))
    >>> usual_hours(bank, "123456789012:user/ana").counts[0][9]          # Mondays, 09:00 to 10:00 UTC, a week
    14.5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pandas as pd

from fingerprint.analysis.principal_profile import interval_seconds
from fingerprint.compute import hashing
from fingerprint.core.alert import AlertEvent, CredentialIssue
from fingerprint.core.case import PrincipalEvent
from fingerprint.core.story import ranked
from fingerprint.detection.detectors.spectral import EVENT_CHANNEL
from fingerprint.features.value_texts import EPOCH_WEEKDAY, program_and_version
from fingerprint.registry.bank import Bank

MAX_VALUES = 200  # of a kind, the latest seen first
HOURS_OF_WEEK = 168
HOUR = 3600  # seconds


@dataclass(frozen=True, slots=True)
class SeenValue:
    """A value of events: the number of events with it, of those that failed, and when it was first and last seen."""

    text: str
    events: int
    failed: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class IssuedCredentials:
    """A call that issued credentials. `role` is the requested role, empty if unknown."""

    at: datetime
    action: str
    caller: str
    caller_key: str
    source_address: str
    issued_key: str
    role: str


@dataclass(frozen=True, slots=True)
class PrincipalActivity:
    """The values of events by kind, the latest seen first; `distinct` is the number of values of each kind.

    `programs` are the user agents reduced to program and version; `agents` are the user agents of each program, the most frequent
    first. `issued` are the credentials that the principal was given for other roles, `obtained` the calls that issued its own
    keys.
    """

    events: int
    first: datetime | None
    last: datetime | None
    sessions: tuple[SeenValue, ...]
    access_keys: tuple[SeenValue, ...]
    addresses: tuple[SeenValue, ...]
    user_agents: tuple[SeenValue, ...]
    programs: tuple[SeenValue, ...]
    regions: tuple[SeenValue, ...]
    actions: tuple[SeenValue, ...]
    resources: tuple[SeenValue, ...]
    issued: tuple[IssuedCredentials, ...]
    obtained: tuple[IssuedCredentials, ...]
    distinct: dict[str, int]
    agents: dict[str, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class HourOfWeek:
    """Events by weekday (Monday first) and hour (UTC): 7 x 24; means over `weeks`, or counts if `weeks` is None."""

    counts: tuple[tuple[float, ...], ...]
    weeks: float | None = None

    @property
    def highest(self) -> float:
        """Return the largest count."""
        return max(max(day) for day in self.counts)


def summarise_activity(
    found: Sequence[PrincipalEvent],
    issues: Sequence[CredentialIssue] = (),
    limit: int = MAX_VALUES,
) -> PrincipalActivity:
    """Return the values of one principal's events, and the credentials that it was given or gave out."""
    events = [each.event for each in found]
    kinds: dict[str, Callable[[AlertEvent], str]] = {
        "sessions": lambda event: event.session,
        "access_keys": lambda event: event.access_key,
        "addresses": lambda event: event.source_address,
        "user_agents": lambda event: event.user_agent,
        "programs": program_of,
        "regions": lambda event: event.region,
        "actions": lambda event: event.action_name,
        "resources": lambda event: event.resource,
    }
    values = {name: seen_values(events, read) for name, read in kinds.items()}
    keys, roles = {event.access_key for event in events} - {""}, {e.event_id: e.resource for e in events}
    own = [_issued(issue, roles) for issue in issues if issue.issued_key in keys]
    others = [_issued(issue, roles) for issue in issues if issue.issued_key not in keys]
    times = [event.event_time for event in events]
    return PrincipalActivity(
        events=len(events),
        first=min(times, default=None),
        last=max(times, default=None),
        **{name: tuple(each[:limit]) for name, each in values.items()},
        issued=tuple(others[-limit:][::-1]),
        obtained=tuple(own[-limit:][::-1]),
        distinct={name: len(each) for name, each in values.items()},
        agents=_agents_by_program(events),
    )


def program_of(event: AlertEvent) -> str:
    """Return program and version of an event's user agent; empty without one."""
    return program_and_version(event.user_agent)[1] if event.user_agent else ""


def _agents_by_program(events: Iterable[AlertEvent]) -> dict[str, tuple[tuple[str, int], ...]]:
    counts: dict[str, Counter[str]] = {}
    for event in events:
        if program := program_of(event):
            counts.setdefault(program, Counter())[event.user_agent] += 1
    return {program: ranked(count) for program, count in counts.items()}


def seen_values(events: Iterable[AlertEvent], read: Callable[[AlertEvent], str]) -> list[SeenValue]:
    """Return the distinct values of events that have one, the latest seen first, then by name."""
    kept: dict[str, list[AlertEvent]] = {}
    for event in events:
        if text := read(event):
            kept.setdefault(text, []).append(event)
    found = [
        SeenValue(
            text,
            len(those),
            sum(bool(event.error_code) for event in those),
            min(event.event_time for event in those),
            max(event.event_time for event in those),
        )
        for text, those in kept.items()
    ]
    return sorted(sorted(found, key=lambda value: value.text), key=lambda value: value.last, reverse=True)


def _issued(issue: CredentialIssue, resources: dict[str, str]) -> IssuedCredentials:
    """Return a call that issued credentials, with its requested role if the call itself is an event of an alert."""
    role = resources.get(issue.event_id, "")
    return IssuedCredentials(
        issue.at,
        issue.action,
        issue.principal,
        issue.access_key,
        issue.source_address,
        issue.issued_key,
        role,
    )


# --- hours of the week ------------------------------------------------------------------------------------------------


def usual_hours(bank: Bank, principal: str) -> HourOfWeek | None:
    """Return the mean number of a principal's events by hour of the week, in the history that the bank learned.

    None if none of its events was counted, or if intervals are longer than an hour. The mean is over the weeks from the first to
    the last interval of the principal, at least one.
    """
    seconds = interval_seconds(bank)
    state = bank.scorer_state
    if seconds > HOUR or "series.owner" not in state:
        return None
    own = hashing.hash_with_bucket(pd.Series([principal]))[0]
    rows = np.flatnonzero((state["series.owner"] == own) & (state["series.channel"] == EVENT_CHANNEL))
    if not len(rows):
        return None
    intervals, counts = _cells_of_row(state, int(rows[0]))
    if not len(intervals):
        return None
    hours = intervals * seconds // HOUR
    weeks = max((int(hours.max()) - int(hours.min()) + 1) / HOURS_OF_WEEK, 1.0)
    return HourOfWeek(_grid(hours, counts / weeks), round(weeks, 1))


def _cells_of_row(state: dict[str, np.ndarray], row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the intervals and the counts of a series, of closed and of open intervals."""
    intervals, counts = [], []
    for part in ("past", "open"):
        keys = state[f"series.{part}.key"]
        start, end = np.searchsorted(keys, [row << 32, (row + 1) << 32])
        intervals.append(keys[start:end] & 0xFFFFFFFF)
        counts.append(np.asarray(state[f"series.{part}.count"][start:end], np.float64))
    return np.concatenate(intervals), np.concatenate(counts)


def hours_of(times: Iterable[datetime]) -> HourOfWeek:
    """Return the number of `times` in each hour of the week."""
    hours = np.array([int(time.astimezone(UTC).timestamp()) // HOUR for time in times], np.int64)
    return HourOfWeek(_grid(hours, np.ones(len(hours))))


def _grid(hours: np.ndarray, counts: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """Return counts (N,) of hours since 1970 (N,) as 7 x 24."""
    of_week = (hours + 24 * EPOCH_WEEKDAY) % HOURS_OF_WEEK
    grid = np.bincount(of_week, weights=counts, minlength=HOURS_OF_WEEK).reshape(7, 24)
    return tuple(tuple(float(round(value, 2)) for value in day) for day in grid)


# --- the list of events -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RepeatedEvent:
    """A run of calls that differ only in time; `event` is the newest of them, in the alert `alert_id`."""

    alert_id: str
    event: AlertEvent
    count: int
    first: datetime
    last: datetime


def fold_repeats(found: Sequence[PrincipalEvent]) -> list[RepeatedEvent]:
    """Return events, the newest first, with each run of repeats as one."""
    folded: list[RepeatedEvent] = []
    for each in sorted(found, key=lambda one: (one.event.event_time, one.event.event_id), reverse=True):
        event, at = each.event, each.event.event_time
        if folded and _call(folded[-1].event) == _call(event) and folded[-1].alert_id == each.alert_id:
            before = folded.pop()
            folded.append(RepeatedEvent(before.alert_id, before.event, before.count + 1, at, before.last))
        else:
            folded.append(RepeatedEvent(each.alert_id, event, 1, at, at))
    return folded


def _call(event: AlertEvent) -> tuple[str, ...]:
    return (
        event.service,
        event.action,
        event.error_code,
        event.resource,
        event.source_address,
        event.user_agent,
        event.region,
        event.access_key,
        event.session,
    )
