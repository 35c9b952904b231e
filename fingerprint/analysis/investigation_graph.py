"""Investigation graph: principals, sessions, access keys, addresses and resources, and the events that connect them.

Example:
    >>> graph = build_graph(store.principals.events_of_alerts(["3fa94c1be0d27a58"], 2_000).events, issues)
    >>> [(node.kind, node.label) for node in graph.nodes][:2]
    [('principal', '123456789012:user/ana'), ('access_key', 'AKIAIOSFODNN7EXAMPLE')]
    >>> graph.edges[0].label
    'used'

An edge reads as a sentence: a principal *used* a key, a key was *called from* an address, a principal *touched* a resource, a
principal *assumed* another with a key that a call issued. The graph is bounded: for each kind, the values with the most events
are nodes, and one more node stands for the others and says how many they are. Ids come from content, so the same events give the
same graph.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Literal, get_args

from fingerprint.core.alert import AlertEvent, CredentialIssue
from fingerprint.core.case import PrincipalEvent

NodeKind = Literal["principal", "access_key", "session", "address", "resource"]
EdgeKind = Literal["used", "named", "called from", "touched", "assumed"]

NODE_KINDS: tuple[NodeKind, ...] = get_args(NodeKind)
MOST_NODES: Mapping[NodeKind, int] = {  # that have a node of their own
    "principal": 12,
    "access_key": 10,
    "session": 8,
    "address": 12,
    "resource": 18,
}
KIND_LABELS: Mapping[NodeKind, tuple[str, str]] = {  # one, and several
    "principal": ("principal", "principals"),
    "access_key": ("access key", "access keys"),
    "session": ("session", "sessions"),
    "address": ("address", "addresses"),
    "resource": ("resource", "resources"),
}
MAX_LABEL_LENGTH = 200  # characters of a node's label

Key = tuple[NodeKind, str]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node. `folded` is the number of values behind a node that stands for the rest of its kind, else 0.

    `failed` is the number of its events that failed.
    """

    node_id: str
    kind: NodeKind
    label: str
    events: int
    failed: int
    first: datetime | None
    last: datetime | None
    folded: int = 0


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An edge from one node to another, with the events that show it and their most frequent actions."""

    edge_id: str
    source: str
    target: str
    label: EdgeKind
    events: int
    failed: int
    first: datetime
    last: datetime
    actions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InvestigationGraph:
    """Nodes by kind, those with the most events first, and edges in the order of time. It has `events` of `total` events."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    events: int
    total: int


@dataclass(frozen=True, slots=True)
class _Mark:
    """The contribution of one event to a node or an edge."""

    at: datetime
    action: str
    failed: bool


def build_graph(
    found: Sequence[PrincipalEvent],
    issues: Sequence[CredentialIssue] = (),
    total: int | None = None,
) -> InvestigationGraph:
    """Return the graph of events and of the calls that issued their credentials; `total` is the number of all events."""
    nodes: dict[Key, list[_Mark]] = defaultdict(list)
    edges: dict[tuple[Key, Key, EdgeKind], list[_Mark]] = defaultdict(list)
    for each in found:
        mark = _Mark(each.event.event_time, each.event.action_name, bool(each.event.error_code))
        for key in _values(each.principal, each.event):
            nodes[key].append(mark)
        for link in _links(each.principal, each.event):
            edges[link].append(mark)
    _add_issues(found, issues, nodes, edges)
    place = _choose_nodes(nodes)
    return InvestigationGraph(
        tuple(_make_nodes(nodes, place)),
        tuple(_make_edges(edges, place)),
        len(found),
        len(found) if total is None else total,
    )


def _values(principal: str, event: AlertEvent) -> Iterator[Key]:
    yield "principal", principal
    if event.access_key:
        yield "access_key", event.access_key
    if _is_named(principal, event):
        yield "session", event.session
    if event.source_address:
        yield "address", event.source_address
    if event.resource:
        yield "resource", event.resource


def _links(principal: str, event: AlertEvent) -> Iterator[tuple[Key, Key, EdgeKind]]:
    """Yield the edges of an event, each once: principal -> key or session -> address, and principal -> resource."""
    actor: Key = ("principal", principal)
    caller = actor
    if _is_named(principal, event):
        yield actor, ("session", event.session), "named"
    if event.access_key:
        caller = ("access_key", event.access_key)
        yield actor, caller, "used"
    if event.source_address:
        yield caller, ("address", event.source_address), "called from"
    if event.resource:
        yield actor, ("resource", event.resource), "touched"


def _is_named(principal: str, event: AlertEvent) -> bool:
    """Return whether a session's name says more than the principal's does."""
    return bool(event.session) and event.session not in principal


def _add_issues(
    found: Sequence[PrincipalEvent],
    issues: Iterable[CredentialIssue],
    nodes: dict[Key, list[_Mark]],
    edges: dict[tuple[Key, Key, EdgeKind], list[_Mark]],
) -> None:
    """Add the calls that issued credentials, as edges from the caller to the principal that uses the key, or else to the key."""
    holders = {each.event.access_key: each.principal for each in found if each.event.access_key}
    for issue in issues:
        mark = _Mark(issue.at, issue.action, failed=False)
        caller: Key = ("principal", issue.principal)
        holder = holders.get(issue.issued_key)
        issued: Key = ("access_key", issue.issued_key)
        target: Key = ("principal", holder) if holder and holder != issue.principal else issued
        nodes[caller].append(mark)
        nodes[issued].append(mark)
        edges[caller, target, "assumed"].append(mark)
        if issue.source_address:
            nodes["address", issue.source_address].append(mark)
            edges[caller, ("address", issue.source_address), "called from"].append(mark)


# --- folding ----------------------------------------------------------------------------------------------------------


def _choose_nodes(nodes: Mapping[Key, Sequence[_Mark]]) -> dict[Key, Key]:
    """Return the node of each value: its own, or the one that stands for the rest of its kind.

    If one value alone is left, it keeps its own node: "and 1 other" would take as much room.
    """
    place: dict[Key, Key] = {}
    for kind in NODE_KINDS:
        ranked = sorted((key for key in nodes if key[0] == kind), key=lambda key: (-len(nodes[key]), key[1]))
        most = MOST_NODES[kind]
        kept = len(ranked) if len(ranked) <= most + 1 else most
        place |= {key: key if at < kept else (kind, "") for at, key in enumerate(ranked)}
    return place


def _make_nodes(nodes: Mapping[Key, Sequence[_Mark]], place: Mapping[Key, Key]) -> Iterator[GraphNode]:
    members: dict[Key, list[Key]] = defaultdict(list)
    for key, drawn in place.items():
        members[drawn].append(key)
    for drawn, keys in members.items():
        marks = [mark for key in keys for mark in nodes[key]]
        folded = len(keys) if drawn not in keys or (drawn[1] == "" and len(keys) > 1) else 0
        label = f"{folded:,} other {KIND_LABELS[drawn[0]][1]}" if folded else drawn[1][:MAX_LABEL_LENGTH]
        times = [mark.at for mark in marks]
        failed = sum(mark.failed for mark in marks)
        yield GraphNode(_digest(*drawn), drawn[0], label, len(marks), failed, min(times), max(times), folded)


def _make_edges(
    edges: Mapping[tuple[Key, Key, EdgeKind], Sequence[_Mark]], place: Mapping[Key, Key]
) -> Iterator[GraphEdge]:
    joined: dict[tuple[Key, Key, EdgeKind], list[_Mark]] = defaultdict(list)
    for (source, target, label), marks in edges.items():
        joined[place[source], place[target], label] += marks
    first = {link: min(mark.at for mark in marks) for link, marks in joined.items()}
    for (source, target, label), marks in sorted(joined.items(), key=lambda item: (first[item[0]], item[0])):
        yield GraphEdge(
            edge_id=_digest(*source, *target, label),
            source=_digest(*source),
            target=_digest(*target),
            label=label,
            events=len(marks),
            failed=sum(mark.failed for mark in marks),
            first=first[source, target, label],
            last=max(mark.at for mark in marks),
            actions=tuple(name for name, _ in Counter(mark.action for mark in marks).most_common(5)),
        )


def _digest(*parts: str) -> str:
    """Return an id, a digest, so that no text of a record can choose it."""
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
