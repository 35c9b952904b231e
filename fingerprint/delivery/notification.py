"""Notification: an alert, what happened to it, and the decision on it; the input of every format.

Example:
    >>> Notification(alert)                                     # it is new, and open
    >>> Notification(alert, "decided", disposition)             # an analyst has decided
    >>> Notification(alert, "decided")                          # a decision was taken back: it is open again
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal

from fingerprint.core.address import NO_ADDRESS_TABLES, UNKNOWN_PLACE, AddressPlace, AddressTables
from fingerprint.core.alert import Alert, AlertEvent, Decision, Disposition
from fingerprint.core.incident import UNKNOWN_ORIGIN, SessionOrigin

ChangeKind = Literal["new", "updated", "decided"]
# The newest; `event_count` says how many there are, and the alert store has all.
MAX_NOTIFICATION_EVENTS = 200

_EMAIL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9-]+\.[A-Za-z0-9.-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Notification:
    """An alert and its change.

    `disposition` is the current decision, None while it is open; `link` is its page, if it has one; `tables` say more about its
    addresses; `key` is the delivery's, empty in an export; `origin` says who opened its session, where that is known. An alert
    whose events are without their records has `read_records`, which reads some of them by the events' ids.
    """

    alert: Alert
    change: ChangeKind = "new"
    disposition: Disposition | None = None
    link: str = ""
    tables: AddressTables = NO_ADDRESS_TABLES
    key: str = ""
    origin: SessionOrigin = UNKNOWN_ORIGIN
    read_records: Callable[[Sequence[str]], Mapping[str, str]] | None = None

    def places(self) -> list[AddressPlace]:
        """Return what the tables know of the addresses of its newest events, each once."""
        found = (self.tables.place(event.source_address) for event in self.newest_events)
        return list(dict.fromkeys(place for place in found if place != UNKNOWN_PLACE))

    @property
    def decision(self) -> Decision | None:
        """The decision on the alert, None while it is open."""
        return self.disposition.decision if self.disposition else None

    @property
    def newest_events(self) -> tuple[AlertEvent, ...]:
        """Return its newest events, oldest first; at most MAX_NOTIFICATION_EVENTS."""
        return self.alert.events[-MAX_NOTIFICATION_EVENTS:]


def alert_account(alert: Alert) -> str:
    """Return the account of an alert's principal; empty for an AWS service."""
    account = alert.principal.partition(":")[0]
    return account if re.fullmatch(r"[0-9]{12}", account) else ""


def display_name(alert: Alert) -> str:
    """Return the person behind the principal if one is known, else the principal without its account."""
    return alert.human or alert.principal.partition(":")[2] or alert.principal


def distinct_values(values: Iterable[str], limit: int = 100) -> list[str]:
    """Return the distinct values in their order, without empty ones; at most `limit`."""
    return list(dict.fromkeys(value for value in values if value))[:limit]


def parse_address(text: str) -> str | None:
    """Return an IP address in normal form; None for anything else (`AWS Internal`, a service's name)."""
    try:
        return (
            str(ip_address(text).exploded if "%" in text else ip_address(text)) if len(text) <= 45 else None
        )
    except ValueError:
        return None


def parse_email(text: str) -> str | None:
    """Return the text if it is an email address and nothing more."""
    return text if len(text) <= 254 and _EMAIL.fullmatch(text) else None
