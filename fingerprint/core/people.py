"""People behind an alert: which names are persons', and whose sessions of a shared role its events were made in.

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

MAX_SESSIONS_NAMED, MAX_SESSION_NAME_LENGTH = 5, 64  # in one text; characters, the most that AWS allows
# Words for what runs. None is a first or last name, as Dev, Job and Jenkins are.
_WORKLOADS = (
    "api backend backup build client cluster controller daemon database default deploy etl frontend function gateway lambda "
    "monitoring node operator pipeline prod production proxy queue runner scheduler server service staging svc sync system "
    "task terraform test user web worker"
)
WORKLOAD_WORDS = frozenset(_WORKLOADS.split())
SESSION_NAMES_CHOSEN = "chosen by the caller or the service that opened the session"


def session_names(events: Sequence[AlertEvent]) -> str:
    """Return the names of sessions that events were made in, the most used first, a handful; empty for none.

    The caller chooses the name and says who it wants to be, or the service does that opened the session, as of a function: which
    of them it was, records of the session do not tell.
    """
    counts = Counter(event.session for event in events if event.session)
    names = sorted(counts, key=lambda name: (-counts[name], name))
    named = ", ".join(name[:MAX_SESSION_NAME_LENGTH] for name in names[:MAX_SESSIONS_NAMED])
    more = len(names) - MAX_SESSIONS_NAMED
    return f"{named} and {more:,} more" if more > 0 else named


def names_person(human: str) -> bool:
    """Return whether a name is a person's: an e-mail address, or a first and a last name, as `ann.lee`."""
    first, _, last = human.lower().partition(".")
    named = first.isalpha() and last.isalpha() and WORKLOAD_WORDS.isdisjoint((first, last))
    return "@" in human or named


def people_behind(human: str, events: Sequence[AlertEvent]) -> str:
    """Return the person behind the leading call, then the others whose sessions of a shared role are among the events."""
    others = other_sessions(human, events)
    return f"{human}, {others}" if others else human


def other_sessions(human: str, events: Sequence[AlertEvent]) -> str:
    """Return the names of the sessions of a shared role that are not the person's; empty where no session has the person's name.

    A name that was chosen freely counts too: it may be a thief's, and the person can answer for their own session alone.
    """
    shared = names_person(human) and any(event.session == human for event in events)
    return session_names([event for event in events if event.session != human]) if shared else ""
