"""What a suppression of alerts like this one would ask: what all of its events have in common.

Example:
    >>> like(alert, events)
    Match(principal='123456789012:role/ci-deploy', service='ecs', action='UpdateService', network='10.3.1.8')
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable

from fingerprint.alerting.suppression import MAX_VALUE_LENGTH, MIN_ATTACKER_CONTROLLED_LENGTH
from fingerprint.core.alert import Alert, AlertEvent
from fingerprint.core.case import SuppressionMatch


def suggest_match(alert: Alert, events: Collection[AlertEvent]) -> SuppressionMatch:
    """As narrow as the evidence allows: whoever suppresses may leave out what is too much."""
    return SuppressionMatch(
        principal=_common_value([alert.principal]),
        service=_common_value(event.service for event in events),
        action=_common_value(event.action for event in events),
        network=_parse_address(_common_value(event.source_address for event in events)),
        user_agent=_common_value((event.user_agent for event in events), MIN_ATTACKER_CONTROLLED_LENGTH),
        error_code=_common_value((event.error_code for event in events), MIN_ATTACKER_CONTROLLED_LENGTH),
    )


def _common_value(values: Iterable[str], min_length: int = 1) -> str:
    """The one value that all have, if a suppression can ask for it; else nothing."""
    found = set(values)
    only = next(iter(found), "")
    return (
        only if len(found) == 1 and min_length <= len(only.strip()) and len(only) <= MAX_VALUE_LENGTH else ""
    )


def _parse_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""
