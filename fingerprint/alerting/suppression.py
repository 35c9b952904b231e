"""Suppression matching: a suppression hides an alert if every one of its events matches, literally.

Example:
    >>> hides = SuppressionMatcher(SuppressionMatch(service="glue", network="10.0.0.0/8"))
    >>> event = EventFacts("glue", "StartJobRun", "10.3.1.8", "Boto3/1.34", "")
    >>> hides(AlertFacts("111122223333:role/etl", "", ["111122223333"], [event]))
    True

A match is literal, without wildcards, because an attacker writes half of the values that it is compared with. An alert is shown
if one of its events differs, so the first different call reveals a thief of suppressed credentials. A field that an attacker
writes at will (ATTACKER_CONTROLLED_FIELDS) can only narrow a match: it needs a principal, or a network and an account, beside it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from fingerprint.core.case import MAX_REASON_LENGTH, SuppressionMatch, UnknownValue
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import printable, storable

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_VALUE_LENGTH = 4_000  # characters of one value: more than a principal or a user agent has
MAX_DURATION = timedelta(days=366)  # after a year a suppression must be decided again
# Shortest prefix of a network that may stand alone, by IP version: a shorter one hides a share of the internet
MIN_PREFIX_LENGTH = {4: 8, 6: 16}
MATCH_FIELDS = tuple(each.name for each in fields(SuppressionMatch))
# An attacker chooses them: the name of a session, the name of a program, a call that fails
ATTACKER_CONTROLLED_FIELDS = ("human", "user_agent", "error_code")
# Fewest characters of their values: "B" begins the user agents of Boto3, browsers and Burp.
MIN_ATTACKER_CONTROLLED_LENGTH = 8


class EventFacts(NamedTuple):
    """The fields of an event that a match compares."""

    service: str
    action: str
    source_address: str
    user_agent: str
    error_code: str


class AlertFacts(NamedTuple):
    """The fields of an alert that a match compares.

    `accounts` are those of the alert queue: the principal's own and those that it called into. `events` may be the distinct ones.
    """

    principal: str
    human: str
    accounts: Collection[str]
    events: Collection[EventFacts]


class SuppressionMatcher:
    """A parsed match. Raise FingerprintError if it is empty, too wide or malformed (`validate_match`)."""

    def __init__(self, match: SuppressionMatch) -> None:
        self.match = validate_match(match)
        self.service, self.action = _service_and_action(self.match)
        self.network = _parse_network(self.match.network) if self.match.network else None

    def __call__(self, facts: AlertFacts) -> bool:
        """Return whether the alert is hidden: it has events, and every one of them matches."""
        return self.matches_alert(facts) and bool(facts.events) and all(map(self.matches_event, facts.events))

    def matches_alert(self, facts: AlertFacts) -> bool:
        """Return whether principal, human and account of the alert match."""
        match = self.match
        return (
            match.principal in ("", facts.principal)
            and match.human in ("", facts.human)
            and (not match.account or set(facts.accounts) == {match.account})
        )

    def matches_event(self, event: EventFacts) -> bool:
        """Return whether one event matches."""
        match = self.match
        return (
            self.service in ("", event.service)
            and self.matches_action(event.action)
            and match.error_code in ("", event.error_code)
            and event.user_agent.startswith(match.user_agent)
            and self.matches_address(event.source_address)
        )

    def matches_action(self, action: str) -> bool:
        """Return whether the match has this action, by its name in the log or in titles, which leave out API versions."""
        from fingerprint.sources.active import SOURCE  # imported late: lists start without the record reader

        return self.action in ("", action) or self.action == SOURCE.plain_action(action)

    def matches_address(self, address: str) -> bool:
        """Return whether an address lies in the network of the match, if it has one."""
        return self.network is None or _is_in_network(address, self.network)


def validate_match(match: SuppressionMatch) -> SuppressionMatch:
    """Return the match as it is stored. Raise FingerprintError, in one sentence, if it is not allowed."""
    kept = SuppressionMatch(**{name: storable(getattr(match, name)) for name in MATCH_FIELDS})
    for name in MATCH_FIELDS:
        _check_value(name.replace("_", " "), getattr(kept, name))
    _service_and_action(kept)
    network = _parse_network(kept.network) if kept.network else None
    fields = [name for name in MATCH_FIELDS if getattr(kept, name)]
    if not fields:
        raise FingerprintError("a suppression that asks nothing would hide every alert: say whose or what")
    written = [name for name in ATTACKER_CONTROLLED_FIELDS if getattr(kept, name)]
    wide = network is not None and network.prefixlen < MIN_PREFIX_LENGTH[network.version]
    if network is not None and wide and (fields == ["network"] or (written and not kept.principal)):
        raise FingerprintError(
            f"network {network} alone is too much of the internet to hide (at least /{MIN_PREFIX_LENGTH[network.version]}): "
            "say also whose or what"
        )
    for name in written:
        _check_attacker_controlled(kept, name)
    return kept


def validate_reason(
    reason: str, missing_message: str = "a suppression needs a reason, for its later readers"
) -> str:
    """Return the reason as it is stored. Raise FingerprintError without one."""
    kept: str = storable(reason).strip()
    if not kept:
        raise FingerprintError(missing_message)
    if len(kept) > MAX_REASON_LENGTH:
        raise FingerprintError(
            f"a reason has at most {MAX_REASON_LENGTH:,} characters, this one {len(kept):,}"
        )
    return kept


def validate_expiry(expires_at: datetime, now: datetime) -> datetime:
    """Return the end in UTC. Raise FingerprintError if it has no time zone, is past, or is more than MAX_DURATION ahead."""
    if expires_at.tzinfo is None:
        raise FingerprintError("the end of a suppression needs a time zone: 2026-06-01T00:00Z")
    if expires_at <= now:
        raise FingerprintError(f"the end of a suppression lies ahead, {expires_at:%Y-%m-%d %H:%M} does not")
    if expires_at > now + MAX_DURATION:
        raise FingerprintError(
            f"a suppression ends within a year ({now + MAX_DURATION:%Y-%m-%d}): end it and make another then"
        )
    return expires_at.astimezone(UTC)


def describe_match(match: SuppressionMatch) -> str:
    """Return a match in words, on one line: `service glue, network 10.0.0.0/8`."""
    parts = ((name.replace("_", " "), getattr(match, name)) for name in MATCH_FIELDS)
    return ", ".join(f"{name} {printable(value)}" for name, value in parts if value)


def describe_unknown(unknown: UnknownValue) -> str:
    """Return in words that no stored alert has a value, and which similar values were probably meant."""
    known = ", or ".join(map(printable, unknown.similar))
    meant = f": did you mean {known}?" if known else ""
    return f"no stored alert has the {unknown.field.replace('_', ' ')} {printable(unknown.value)}{meant}"


def _check_attacker_controlled(match: SuppressionMatch, name: str) -> None:
    """Raise FingerprintError if an attacker-controlled value is too short or stands alone."""
    label = name.replace("_", " ")
    if len(getattr(match, name).strip()) < MIN_ATTACKER_CONTROLLED_LENGTH:
        raise FingerprintError(
            f"the {label} of a suppression has {MIN_ATTACKER_CONTROLLED_LENGTH} characters or more: attackers choose theirs, "
            "and a shorter one fits too much"
        )
    if not match.principal and not (match.network and match.account):
        raise FingerprintError(
            f"an attacker chooses the {label}: say also whose alerts (principal), or from where (network and account)"
        )


def _check_value(name: str, value: str) -> None:
    if value and not value.strip():
        raise FingerprintError(f"the {name} of a suppression is blank: leave it out, or say which")
    if len(value) > MAX_VALUE_LENGTH:
        raise FingerprintError(
            f"the {name} of a suppression has at most {MAX_VALUE_LENGTH:,} characters, this one {len(value):,}"
        )


def _service_and_action(match: SuppressionMatch) -> tuple[str, str]:
    """Return service and action; `iam:ListUsers` names both."""
    service, colon, action = match.action.partition(":")
    if not colon:
        return match.service, match.action
    if not service or not action:
        raise FingerprintError(
            f"{printable(match.action)!r} is no action: one is iam:ListUsers, or ListUsers"
        )
    if match.service not in ("", service):
        raise FingerprintError(
            f"no event is of service {printable(match.service)} and calls {printable(match.action)}: leave one out"
        )
    return service, action


def _parse_network(text: str) -> Network:
    """Parse a CIDR or an address. Raise FingerprintError for anything else, also if bits behind the prefix are set."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        pass
    try:
        meant = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise FingerprintError(
            f"{printable(text[:100])!r} is no network: one is 198.51.100.0/24, 2001:db8::/32 or 198.51.100.7"
        ) from None
    raise FingerprintError(f"{printable(text)} lies in the network {meant}: say which of the two is meant")


def _is_in_network(address: str, network: Network) -> bool:
    found = _parse_address(address)
    return found is not None and found.version == network.version and found in network


@lru_cache(1 << 14)
def _parse_address(text: str) -> Address | None:
    """Return an address, or None for a name: AWS's own services call from names."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
