"""People behind an alert: names that are persons', and the persons whose sessions of a shared role made its calls.

Example:
    >>> names_person("ann.lee"), names_person("etl.runner"), names_person("ann@example.org")
    (True, False, True)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fingerprint.core.alert import AlertEvent

MAX_SESSIONS_NAMED, MAX_SESSION_NAME_LENGTH = 5, 64  # in one text; characters, as many as AWS allows
# Words for programs. None is a first or last name: Dev, Job and Jenkins are names, so they are missing.
_WORKLOADS = (
    "api backend backup build client cluster controller daemon database default deploy etl frontend function gateway lambda "
    "monitoring node operator pipeline prod production proxy queue runner scheduler server service staging svc sync system "
    "task terraform test user web worker"
)
WORKLOAD_WORDS = frozenset(_WORKLOADS.split())
SESSION_NAMES_CHOSEN = "chosen by the caller or the service that opened the session"


def session_names(events: Sequence[AlertEvent]) -> str:
    """Return the session names of events in one text, the most used first, at most MAX_SESSIONS_NAMED; empty for none.

    A session's name is chosen by its caller, who may take any name, or by the service that opened it, such as Lambda. Records of
    the session do not say which.
    """
    counts = Counter(event.session for event in events if event.session)
    names = sorted(counts, key=lambda name: (-counts[name], name))
    named = ", ".join(name[:MAX_SESSION_NAME_LENGTH] for name in names[:MAX_SESSIONS_NAMED])
    more = len(names) - MAX_SESSIONS_NAMED
    return f"{named} and {more:,} more" if more > 0 else named


def names_person(human: str) -> bool:
    """Return whether a name is a person's: an e-mail address, or first and last name, such as `ann.lee`."""
    first, _, last = human.lower().partition(".")
    named = first.isalpha() and last.isalpha() and WORKLOAD_WORDS.isdisjoint((first, last))
    return "@" in human or named


def people_behind(human: str, events: Sequence[AlertEvent]) -> str:
    """Return the person behind the leading call, then the other sessions of a shared role among the events."""
    others = other_sessions(human, events)
    return f"{human}, {others}" if others else human


def other_sessions(human: str, events: Sequence[AlertEvent]) -> str:
    """Return the names of the sessions of a shared role that are not the person's; empty if no session has the person's name.

    A freely chosen name counts too: it may be a thief's, and the person can answer only for their own session.
    """
    shared = names_person(human) and any(event.session == human for event in events)
    return session_names([event for event in events if event.session != human]) if shared else ""
