"""Addresses of the desk's pages. Ids and principals in them are an attacker's: quoted whole, and never too long to be asked for.

Example:
    >>> alert("3fa9", "service=iam"), entity("123456789012:user/ana", "3fa9")
    ('/alerts/3fa9?from=service%3Diam', '/entities/123456789012%3Auser/ana')
"""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

MAX_PRINCIPAL_LENGTH = 1000  # characters of a principal in an address; servers and proxies take some 8,000
_PLAIN_PATH = re.compile(r"[^/]+(/[^/]+)*")  # no empty part: `//` at its beginning would name another host


def alert_url(alert_id: str, queue: str = "") -> str:
    """An alert's page; `queue` is the query of the queue it was opened from."""
    came = f"?{urlencode({'from': queue})}" if queue else ""
    return f"/alerts/{quote(alert_id, safe='')}{came}"


def record_url(alert_id: str, event_id: str) -> str:
    """The raw record of one event. Its id is no part of the path: it may hold anything."""
    return f"{alert_url(alert_id)}/record?{urlencode({'event': event_id})}"


def principal_url(principal: str, alert_id: str) -> str:
    """A principal's page; where its name makes no path, the page of whoever an alert is about."""
    plain = (
        principal.isprintable()
        and len(principal) <= MAX_PRINCIPAL_LENGTH
        and _PLAIN_PATH.fullmatch(principal)
    )
    dots = {".", ".."} & {*principal.split("/")}
    return f"/entities/{quote(principal)}" if plain and not dots else f"{alert_url(alert_id)}/entity"


def new_suppression_url(alert_id: str) -> str:
    """A new suppression of alerts like this."""
    return f"/suppressions/new?{urlencode({'alert': alert_id})}"
