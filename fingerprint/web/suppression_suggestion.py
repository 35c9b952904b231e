"""What a suppression of alerts like this one would ask: what all of its events have in common.

Example:
    >>> like(alert, events)
    Match(principal='123456789012:role/ci-deploy', service='ecs', action='UpdateService', network='10.3.1.8')
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable

from fingerprint.alerting.suppression import LONGEST, SHORTEST
from fingerprint.core.alert import Alert, AlertEvent
from fingerprint.core.case import Match


def like(alert: Alert, events: Collection[AlertEvent]) -> Match:
    """As narrow as the evidence allows: whoever suppresses may leave out what is too much."""
    return Match(
        principal=_same([alert.principal]),
        service=_same(event.service for event in events),
        action=_same(event.action for event in events),
        network=_address(_same(event.source_address for event in events)),
        user_agent=_same((event.user_agent for event in events), SHORTEST),
        error_code=_same((event.error_code for event in events), SHORTEST),
    )


def _same(values: Iterable[str], least: int = 1) -> str:
    """The one value that all have, if a suppression can ask for it; else nothing."""
    found = set(values)
    only = next(iter(found), "")
    return only if len(found) == 1 and least <= len(only.strip()) and len(only) <= LONGEST else ""


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""
