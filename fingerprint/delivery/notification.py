"""What is told of an alert, whatever the format: the alert, what happened to it, and how it stands.

Example:
    >>> News(alert)                                             # it is new, and open
    >>> News(alert, "decided", said)                            # somebody has judged it
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal, get_args

from fingerprint.core.alert import Alert, AlertEvent, Decision, Disposition

ChangeKind = Literal["new", "updated", "decided"]
CHANGE_KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)
MAX_NOTIFICATION_EVENTS = (
    200  # told of an alert, the newest; `event_count` says how many there are, and the desk has all
)

_EMAIL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9-]+\.[A-Za-z0-9.-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Notification:
    """`said`: the disposition by which the alert stands now; None while it is open. `link`: its page, where it has one."""

    alert: Alert
    change: ChangeKind = "new"
    disposition: Disposition | None = None
    link: str = ""

    @property
    def decision(self) -> Decision | None:
        return self.disposition.decision if self.disposition else None

    @property
    def newest_events(self) -> tuple[AlertEvent, ...]:
        """Its events, the oldest first, without the oldest where there are too many."""
        return self.alert.events[-MAX_NOTIFICATION_EVENTS:]


def account_of(alert: Alert) -> str:
    """The account of its principal; empty where the principal is of none (an AWS service)."""
    account = alert.principal.partition(":")[0]
    return account if re.fullmatch(r"[0-9]{12}", account) else ""


def display_name(alert: Alert) -> str:
    """The person behind the principal where one is known, else the principal without its account."""
    return alert.human or alert.principal.partition(":")[2] or alert.principal


def distinct_values(values: Iterable[str], limit: int = 100) -> list[str]:
    """In their order, each once, without empty ones; so many at most."""
    return list(dict.fromkeys(value for value in values if value))[:limit]


def parse_address(text: str) -> str | None:
    """An IP address as receivers want it; None for what AWS writes instead (`AWS Internal`, a service's name), or worse."""
    try:
        return (
            str(ip_address(text).exploded if "%" in text else ip_address(text)) if len(text) <= 45 else None
        )
    except ValueError:
        return None


def parse_email(text: str) -> str | None:
    """The text, if it is an address of e-mail and nothing more."""
    return text if len(text) <= 254 and _EMAIL.fullmatch(text) else None
