"""Related events: the call behind a service's call, a session's calls near an alert, and the issuers of its access key.

Example:
    >>> find_cause(decrypt, [read_secret], SOURCE.changes_something).action_name  # of kms:Decrypt by secretsmanager.amazonaws.com
    'secretsmanager:GetSecretValue'
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from fingerprint.core.alert import AlertEvent, CredentialIssue

MAX_CHAIN_LENGTH = 20  # calls; AWS sets no limit
CAUSED_WITHIN = timedelta(seconds=10)  # from a principal's call to the service's call that it caused
MINUTES_BESIDE = timedelta(minutes=5)  # between an alert's event and another call of the same access key


def succeeded_beside(
    action: str, events: Sequence[AlertEvent], supporting: Sequence[AlertEvent]
) -> list[AlertEvent]:
    """Return the supporting events of an action that succeeded, the most unusual first.

    Only those from an address count from which the alert's own `events` of that action came.
    """
    addresses = {event.source_address for event in events if event.action_name == action}
    done = (
        event
        for event in supporting
        if event.action_name == action and not event.error_code and event.source_address in addresses
    )
    return sorted(done, key=lambda event: -max(filter(None, event.scores.values()), default=0.0))


def find_cause(
    event: AlertEvent, events: Sequence[AlertEvent], changes: Callable[[str], bool]
) -> AlertEvent | None:
    """Return the caller's own call that caused a service's call `event`; None if there is none.

    It is the last call to that service with the same access key, at most CAUSED_WITHIN before. Calls whose action `changes`
    something are preferred: the call that starts a query causes it, not a later one that asks whether it is done.

    >>> find_cause(decrypt, [read_secret], SOURCE.changes_something).action_name  # of kms:Decrypt by secretsmanager.amazonaws.com
    'secretsmanager:GetSecretValue'
    """
    service = event.by_service.partition(".")[0]
    before = (
        each
        for each in events
        if event.access_key
        and (each.access_key, each.service, each.by_service) == (event.access_key, service, "")
        and timedelta() <= event.event_time - each.event_time <= CAUSED_WITHIN
    )
    return max(before, key=lambda each: (changes(each.action), each.event_time, each.event_id), default=None)


def made_beside(events: Sequence[AlertEvent], supporting: Sequence[AlertEvent]) -> list[AlertEvent]:
    """Return the supporting events that succeeded with an alert's access key, near one of the alert's events of that key.

    >>> sorted(event.action for event in made_beside(events, supporting))
    ['PutRule', 'PutTargets']
    """
    times: dict[str, list[datetime]] = {}
    for event in events:
        times.setdefault(event.access_key, []).append(event.event_time)
    for each in times.values():
        each.sort()
    return [
        event
        for event in supporting
        if event.access_key
        and not event.error_code
        and _is_near(event.event_time, times.get(event.access_key, ()))
    ]


def _is_near(time: datetime, times: Sequence[datetime]) -> bool:
    """Return whether one of the sorted `times` is at most MINUTES_BESIDE from `time`."""
    place = bisect_left(times, time)
    return any(abs(time - each) <= MINUTES_BESIDE for each in times[max(0, place - 1) : place + 1])


def trace_credentials(
    access_key: str, find_issue: Callable[[str], CredentialIssue | None]
) -> Iterator[CredentialIssue]:
    """Yield the call that issued an access key, then the call that issued that caller's key, and so on."""
    passed: set[str] = set()
    while access_key and access_key not in passed and len(passed) < MAX_CHAIN_LENGTH:
        passed.add(access_key)
        found = find_issue(access_key)
        if found is None:
            return
        yield found
        access_key = found.access_key
