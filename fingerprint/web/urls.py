"""URLs of pages. Ids and principals in them are attacker-controlled, so they are quoted and limited in length.

Example:
    >>> alert_url("3fa9", "service=iam"), principal_url("123456789012:user/ana", "3fa9")
    ('/alerts/3fa9?from=service%3Diam', '/entities/123456789012%3Auser/ana')
"""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from fingerprint.core.case import AlertFilter, QueueOrder

if TYPE_CHECKING:
    from fingerprint.analysis.leads import Lead

MAX_PRINCIPAL_LENGTH = 1000  # characters of a principal in a URL; servers and proxies take URLs of some 8,000
_PLAIN_PATH = re.compile(r"[^/]+(/[^/]+)*")  # no empty part: `//` at the beginning would name another host


def alert_url(alert_id: str, queue: str = "") -> str:
    """Return an alert's page; `queue` is the query of the queue it was opened from."""
    came = f"?{urlencode({'from': queue})}" if queue else ""
    return f"/alerts/{quote(alert_id, safe='')}{came}"


def preview_url(alert_id: str, queue: str = "") -> str:
    """Return the page of an alert's preview, which the queue shows beside its list."""
    came = f"?{urlencode({'from': queue})}" if queue else ""
    return f"/alerts/{quote(alert_id, safe='')}/preview{came}"


def record_url(alert_id: str, event_id: str) -> str:
    """Return the page of one event's raw record. The id is a parameter instead of a part of the path: it may be any text."""
    return f"{alert_url(alert_id)}/record?{urlencode({'event': event_id})}"


def principal_url(principal: str, alert_id: str) -> str:
    """Return a principal's page; for names that cannot be part of a path, the page of the alert's principal."""
    return plain_principal_url(principal) or f"{alert_url(alert_id)}/entity"


def plain_principal_url(principal: str) -> str:
    """Return a principal's page, empty for names that cannot be part of a path."""
    plain = (
        principal.isprintable()
        and len(principal) <= MAX_PRINCIPAL_LENGTH
        and _PLAIN_PATH.fullmatch(principal)
    )
    dots = {".", ".."} & {*principal.split("/")}
    return f"/entities/{quote(principal)}" if plain and not dots else ""


def graph_url(alert_id: str, scope: str = "alert") -> str:
    """Return the investigation picture of an alert, or of its `principal` or `incident`."""
    return f"/graph?{urlencode({'alert': alert_id, 'of': scope})}"


def new_suppression_url(alert_id: str) -> str:
    """Return the form of a new suppression of alerts like this."""
    return f"/suppressions/new?{urlencode({'alert': alert_id})}"


def lead_suppression_url(lead: Lead) -> str:
    """Return the form of a new suppression of a lead, by its principal and the call or the service that all its events share.

    It is empty if they share none, or if not all actions are known: a suppression of all calls of a principal would hide an
    attack by it.
    """
    services = {action.partition(":")[0] for action in lead.actions}
    if not plain_principal_url(lead.principal) or lead.action_count > len(lead.actions) or len(services) != 1:
        return ""
    service, _, action = lead.actions[0].partition(":")
    shared = {"principal": lead.principal, "service": service}
    shared |= {"action": action} if lead.action_count == 1 else {}
    return f"/suppressions/new?{urlencode(shared)}"


def technique_url(technique_id: str) -> str:
    """Return the page of a technique, by its id in our own table: `T1562.008`."""
    return f"https://attack.mitre.org/techniques/{quote(technique_id.replace('.', '/'))}/"


def export_url(alert_filter: AlertFilter, order: QueueOrder, export_format: str) -> str:
    """Return the API's address of a file with all alerts of a filter."""
    plain = AlertFilter()
    changed = [
        each.name for each in fields(plain) if getattr(alert_filter, each.name) != getattr(plain, each.name)
    ]
    pairs = [(name, _parameter(getattr(alert_filter, name))) for name in changed]
    parameters = [*pairs, ("order", order), ("format", export_format)]
    return f"/api/v1/alerts/export?{urlencode(parameters, doseq=True)}"


def _parameter(value: Any) -> Any:
    """Return a field of a filter as a parameter of the API."""
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else value
