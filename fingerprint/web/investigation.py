"""Events of an investigation picture: those of an alert, of its principal or of its incident.

Example:
    >>> load_investigation(deps, InvestigationQuery(alert="3fa94c1be0d27a58", of="principal")).graph.nodes[0].label
    '123456789012:user/ana'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from fingerprint.analysis.investigation_graph import InvestigationGraph, build_graph
from fingerprint.core.case import PrincipalEvents, QueueRow
from fingerprint.core.ports.store import Store
from fingerprint.web.api.queue_params import RequestModel, StorableText
from fingerprint.web.dependencies import Dependencies
from fingerprint.web.language import N_

MAX_EVENTS = 5_000  # newest events from which a picture is made
MAX_ISSUES = 500  # calls that issued credentials
MAX_KEYS = 200  # access keys whose issuing calls are searched

Scope = Literal["alert", "incident", "principal"]
SCOPE_LABELS: dict[Scope, str] = {
    "alert": N_("This alert"),
    "incident": N_("Its incident"),
    "principal": N_("All alerts of this principal"),
}


class InvestigationQuery(RequestModel):
    """The alert that a picture is about, and of what it is: the alert alone, or all alerts of its incident or its principal."""

    alert: Annotated[StorableText, Field(max_length=500)]
    of: Scope = "alert"


@dataclass(frozen=True, slots=True)
class Investigation:
    """The picture around an alert; `issues` is the number of its calls that issued credentials."""

    row: QueueRow
    of: Scope
    graph: InvestigationGraph


def load_investigation(deps: Dependencies, query: InvestigationQuery) -> Investigation:
    """Return the picture around an alert. Raise NotFound without the alert."""
    row = deps.store.queue.row(query.alert)
    found = _events(deps.store, row, query.of)
    keys = sorted({each.event.access_key for each in found.events if each.event.access_key})[:MAX_KEYS]
    principal = row.principal if query.of == "principal" else ""
    issues = deps.store.principals.credential_issues(principal, keys, MAX_ISSUES)
    return Investigation(row, query.of, build_graph(found.events, issues, found.total))


def _events(store: Store, row: QueueRow, scope: Scope) -> PrincipalEvents:
    if scope == "principal":
        return store.principals.events(row.principal, MAX_EVENTS)
    ids = [row.alert_id]
    if scope == "incident":
        ids = [each.row.alert_id for each in store.incidents.get(row.incident_id).alerts]
    return store.principals.events_of_alerts(ids, MAX_EVENTS)
