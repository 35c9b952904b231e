"""Words of a title: names, numbers, callers, how often an action was called, and the count of new actions beside it.

Example:
    >>> often_text(facts, "s3:GetObject")
    ' 196 times in an hour (40 a day at most)'

An attacker may have chosen a name, so every name is cut.
"""

from __future__ import annotations

import math

from fingerprint.alerting.title_facts import (
    UNUSUAL_RESOURCES,
    TitleFacts,
    amounts_of,
    calls_of,
    counts_successes,
    lasted,
    newcomers_bulk,
)
from fingerprint.core.alert import AlertEvent
from fingerprint.core.sanitize import truncate
from fingerprint.estimators.amounts import most_text_with_span

MAX_NAME_LENGTH = 80  # characters of a name in a title


def named_text(name: str, behind: str) -> str:
    """Return `name (behind)`, with the name cut so that both fit MAX_NAME_LENGTH."""
    return f"{cut(name, MAX_NAME_LENGTH - len(behind) - 3)} ({behind})"


def let_in(facts: TitleFacts, event: AlertEvent) -> str:
    """Return the accounts that a new action lets in to the event's resource, as `account 210987654321`; empty for none."""
    start, action = f"{event.resource} for ".lstrip(), event.action_name
    named = (each for row in facts.actions if row.action == action and row.new for each in row.resources)
    return next((each.removeprefix(start) for each in named if each.startswith(start)), "")


def new_beside(facts: TitleFacts) -> tuple[set[str], str, str]:
    """Return the new actions beside the leading one, the noun for one of them, and the words for where they are new."""
    lead, _ = facts.lead
    new, other = {*facts.new_to_all} - {lead}, "other " if lead in facts.new_to_all else ""
    if not facts.is_learned:
        return new, f"{other or 'new '}action", ""
    return (
        (new, f"{other}action", f" new {facts.here}")
        if facts.is_new_here
        else (new, f"{other}new action", "")
    )


def them(facts: TitleFacts) -> str:
    """Return `them` for a person, `it` for a role or a machine."""
    return "them" if facts.is_person else "it"


def often_text(facts: TitleFacts, action: str) -> str:
    """Return how often an action was called, if its amount was never as large; else an empty text.

    The number is the amount of the interval, by all who act as the principal: only a few of these calls are events of the alert.
    """
    for driver, calls, span in amounts_of(facts, action):
        shorter = _shorter_span(facts, action, calls)
        span, unusual, _ = span.partition(UNUSUAL_RESOURCES)
        places = f" on resources unusual for {them(facts)}" if unusual else ""
        compared = most_text_with_span(driver.expected, span) if shorter else driver.expected
        before = f" ({compared})" if action not in facts.new_actions else ""
        together, by = _callers(facts, action)
        return f"{together} {calls} times in {shorter or span}{by}{places}{before}"
    return f" {len(calls_of(facts, action)):,} times" if action == newcomers_bulk(facts) else ""


def _callers(facts: TitleFacts, action: str) -> tuple[str, str]:
    """Return the words before and after a number of calls that say whose calls they are, each of them maybe empty.

    Where several people act as the principal, the number counts the calls of all, and the alert may have only those of some.
    """
    people = set(filter(None, facts.humans))
    if len(people) < 2:
        return "", ""
    if not has_all_calls(facts, action):
        return "", " by all at the role"
    rows = zip(facts.events, facts.humans, strict=True)
    callers = {human for event, human in rows if event.action_name == action} & people
    return (" together", "") if callers == people else ("", f" by {len(callers):,} of them")


def has_all_calls(facts: TitleFacts, action: str) -> bool:
    """Return whether the title's count of an action equals its events in the alert; True if the title gives no count."""
    return missing_calls(facts, action) == 0


def have_all_failed(facts: TitleFacts, action: str) -> bool:
    """Return whether all calls that the title counts failed, given that the alert's own did.

    This holds if every counted call that is no event of the alert is a supporting event that failed.
    """
    if counts_successes(facts, action):
        return False
    missing = missing_calls(facts, action)
    beside = [event for event in facts.supporting if event.action_name == action] if missing > 0 else []
    return missing == len(beside) and all(event.error_code for event in beside)


def missing_calls(facts: TitleFacts, action: str) -> int:
    """Return how many of the calls that the title counts are no events of the alert; negative if the alert has more events."""
    counted = (int(calls.replace(",", "")) for _, calls, _ in amounts_of(facts, action))
    events = len(_countable_calls(facts, action))
    return next(counted, events) - events


def _countable_calls(facts: TitleFacts, action: str) -> list[AlertEvent]:
    """Return the alert's own events of an action that the title counts: without failed ones where it counts successes only."""
    only_done = counts_successes(facts, action)
    return [event for event in calls_of(facts, action) if not (only_done and event.error_code)]


def _shorter_span(facts: TitleFacts, action: str, calls: str) -> str:
    """Return in words the minutes within which `calls` calls were made; empty for an hour or more, or if some are no events."""
    made = _countable_calls(facts, action)
    minutes = math.ceil(lasted(made).total_seconds() / 60)
    if f"{len(made):,}" != calls or not 0 < minutes < 60:
        return ""
    return count_text(minutes, "minute") if minutes > 1 else "a minute"


def service_between(facts: TitleFacts, row: int) -> str:
    """Return the service that made a call for a person; empty for the person's own call.

    It is also empty without a person: there the title names the service as the place of the call.
    """
    return facts.events[row].by_service if facts.is_person else ""


def times_text(calls: int) -> str:
    """Return ` N times`; empty for one call."""
    return f" {calls:,} times" if calls > 1 else ""


def count_text(number: int, noun: str, where: str = "") -> str:
    """Return a number with its noun: `1 other`, `4 other new actions`."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}{where}"


def cut(text: str, length: int = MAX_NAME_LENGTH) -> str:
    """Return a name that may be an attacker's, cut to a length."""
    return truncate(text, length)
