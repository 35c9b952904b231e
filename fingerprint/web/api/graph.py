"""The investigation graph around an alert.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$FINGERPRINT_URL/api/v1/graph?alert=3fa94c1be0d27a58&of=principal"
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from fingerprint.analysis.investigation_graph import GraphEdge, GraphNode
from fingerprint.web.api.responses import ResponseModel
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Deps
from fingerprint.web.investigation import InvestigationQuery, Scope, load_investigation

router = APIRouter(tags=["alerts"])


class GraphResponse(ResponseModel):
    """Nodes and edges around an alert, made from `events` of the `total` events there are.

    The number of nodes is bounded: of each kind the values with the most events have one, and a node with `folded` above 0 stands
    for that many others.
    """

    alert: str
    of: Scope
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    events: int
    total: int


@router.get("/graph")
def get_graph(query: Annotated[InvestigationQuery, Query()], caller: Viewer, deps: Deps) -> GraphResponse:
    """Return principals, access keys, sessions, addresses and resources around an alert, and what connects them."""
    found = load_investigation(deps, query)
    return GraphResponse(
        alert=found.row.alert_id,
        of=found.of,
        nodes=found.graph.nodes,
        edges=found.graph.edges,
        events=found.graph.events,
        total=found.graph.total,
    )
