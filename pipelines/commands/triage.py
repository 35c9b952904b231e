"""What people decide of alerts, at the keyboard: `fingerprint alerts triage`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fingerprint.adapters.system import SystemClock
from fingerprint.core.alert import Decision, Disposition, FingerprintError
from fingerprint.core.sanitize import printable
from fingerprint.store import open_store
from fingerprint.web import formatting
from pipelines.runtime import operator


def triage_alert(
    database_url: str,
    alert_id: str,
    decision: Decision,
    why: str = "",
    of: str | None = None,
    by: str | None = None,
) -> dict[str, Any]:
    """Put a disposition of an alert on the desk. Raises FingerprintError if an id names no one alert, or a duplicate says not
    of what."""
    if (decision == "duplicate") != (of is not None):
        raise FingerprintError("a duplicate is a duplicate of another alert: `... duplicate --of ALERT_ID`")
    desk = open_store(database_url, create=False)
    alert = desk.alerts.get(alert_id)
    now, who = SystemClock().now(), by or operator.login_name()
    desk.cases.add_disposition(
        Disposition(alert.alert_id, decision, who, why, now, len(alert.events), of or "")
    )
    return disposition_as_json(desk.cases.dispositions(alert.alert_id)[-1]) | {"title": alert.title}


def print_disposition(figures: dict[str, Any]) -> None:
    print(printable(f"{figures['alert_id']} is {disposition_sentence(figures)}: {figures['title']}"))


def disposition_as_json(disposition: Disposition) -> dict[str, Any]:
    """A disposition for JSON."""
    return {**asdict(disposition), "at": formatting.format_iso(disposition.at)}


def disposition_sentence(disposition: dict[str, Any]) -> str:
    """`benign, says maria`, or `duplicate of 397edb7b6806, says maria`."""
    of = f" of {disposition['duplicate_of']}" if disposition["duplicate_of"] else ""
    return f"{disposition['decision'].replace('_', ' ')}{of}, says {disposition['by']}"
