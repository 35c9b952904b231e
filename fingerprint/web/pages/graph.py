"""The investigation picture: who used which key from where, and what was touched; as a drawing and as a list.

Example:
    GET /graph?alert=3fa94c1be0d27a58&of=principal
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from fingerprint.analysis.investigation_graph import KIND_LABELS
from fingerprint.web import urls
from fingerprint.web.auth import Viewer
from fingerprint.web.dependencies import Deps
from fingerprint.web.investigation import SCOPE_LABELS, InvestigationQuery, load_investigation
from fingerprint.web.language import gettext
from fingerprint.web.layout import render_page

router = APIRouter()


@router.get("/graph")
def show_graph(
    query: Annotated[InvestigationQuery, Query()], request: Request, caller: Viewer, deps: Deps
) -> Response:
    """Show the picture around an alert. The drawing reads the API; the list is in the page."""
    found = load_investigation(deps, query)
    by_id = {node.node_id: node for node in found.graph.nodes}
    return render_page(
        request,
        "queue/graph.html",
        title=gettext("Investigation picture · %(title)s", title=found.row.title[:80]),
        row=found.row,
        scope=query.of,
        scopes=[
            (name, label, urls.graph_url(query.alert, name))
            for name, label in SCOPE_LABELS.items()
            if name != "incident" or query.of == name or found.row.incident_size > 1
        ],
        data_url=f"/api/v1/graph?{urlencode({'alert': query.alert, 'of': query.of})}",
        graph=found.graph,
        by_id=by_id,
        kind_labels=KIND_LABELS,
        urls=urls,
    )
