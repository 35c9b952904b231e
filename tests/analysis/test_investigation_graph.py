"""The graph of an investigation."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fingerprint.analysis.investigation_graph import MOST_NODES, NODE_KINDS, build_graph
from fingerprint.core.alert import AlertEvent, CredentialIssue
from fingerprint.core.case import PrincipalEvent
from tests.support.alerts import NASTY, PERSON, START, stolen_session

EVENT = replace(
    stolen_session().events[0],
    access_key="ASIAONE",
    session="",
    resource="bucket:a",
    source_address="192.0.2.1",
)


def seen(*events: AlertEvent, principal: str = PERSON) -> list[PrincipalEvent]:
    return [PrincipalEvent("a1", principal, event) for event in events]


def sentences(graph) -> set[tuple[str, str, str]]:
    names = {node.node_id: node.label for node in graph.nodes}
    return {(names[edge.source], edge.label, names[edge.target]) for edge in graph.edges}


def issue(key: str, caller: str, address: str = "192.0.2.9") -> CredentialIssue:
    return CredentialIssue(key, START, "e", "AssumeRole", caller, "", "AKIACALLER", address, "eu-west-1")


def test_an_event_reads_as_sentences() -> None:
    assert sentences(build_graph(seen(EVENT))) == {
        (PERSON, "used", "ASIAONE"),
        ("ASIAONE", "called from", "192.0.2.1"),
        (PERSON, "touched", "bucket:a"),
    }


def test_without_a_key_the_principal_called() -> None:
    keyless = replace(EVENT, access_key="", resource="")
    assert sentences(build_graph(seen(keyless))) == {(PERSON, "called from", "192.0.2.1")}


def test_a_sessions_name_is_a_node_where_it_says_more_than_the_principal() -> None:
    named = build_graph(seen(replace(EVENT, session="i-0abc")))
    assert (PERSON, "named", "i-0abc") in sentences(named)
    same = build_graph(seen(replace(EVENT, session=PERSON.rpartition("/")[2])))
    assert not [node for node in same.nodes if node.kind == "session"]


def test_who_assumed_whom_is_an_edge_between_principals_and_to_the_key_where_no_one_used_it() -> None:
    graph = build_graph(seen(EVENT), [issue("ASIAONE", "1:user/eve"), issue("ASIAUNUSED", PERSON)])
    assert {
        ("1:user/eve", "assumed", PERSON),
        (PERSON, "assumed", "ASIAUNUSED"),
        ("1:user/eve", "called from", "192.0.2.9"),
    } <= sentences(graph)


def test_edges_count_events_failures_and_the_most_frequent_actions() -> None:
    failed = replace(EVENT, event_id="2", action="DeleteTrail", error_code="AccessDenied")
    again = replace(failed, event_id="3")
    graph = build_graph(seen(EVENT, failed, again))
    used = next(edge for edge in graph.edges if edge.label == "used")
    assert (used.events, used.failed) == (3, 2)
    assert used.actions[0] == f"{EVENT.service}:DeleteTrail"


@pytest.mark.parametrize("many", [5, 500])
def test_however_many_there_are_the_picture_stays_small_and_says_what_it_folds(many: int) -> None:
    events = [
        replace(
            EVENT, event_id=str(at), source_address=f"10.0.{at // 250}.{at % 250}", resource=f"bucket:{at}"
        )
        for at in range(many)
    ]
    graph = build_graph(seen(*events), total=many + 7)
    for kind in NODE_KINDS:
        of_kind = [node for node in graph.nodes if node.kind == kind]
        assert len(of_kind) <= MOST_NODES[kind] + 1
        assert sum(node.folded or 1 for node in of_kind) == (
            many if kind in ("address", "resource") else kind != "session"
        )
    assert (graph.events, graph.total) == (many, many + 7)
    assert sum(edge.events for edge in graph.edges if edge.label == "touched") == many
    assert [node.label for node in graph.nodes if node.folded] == (
        ["488 other addresses", "482 other resources"] if many == 500 else []
    )


def test_nothing_is_folded_into_a_node_that_would_take_as_much_room() -> None:
    events = [replace(EVENT, event_id=str(at), source_address=f"10.0.0.{at}") for at in range(13)]
    graph = build_graph(seen(*events))
    assert not any(node.folded for node in graph.nodes)


def test_edges_lead_from_and_to_nodes_of_the_picture() -> None:
    events = [
        replace(EVENT, event_id=str(at), access_key=f"ASIA{at}", resource=f"r:{at}") for at in range(60)
    ]
    graph = build_graph(seen(*events), [issue(f"ASIA{at}", f"1:user/{at}") for at in range(60)])
    ids = {node.node_id for node in graph.nodes}
    assert len(ids) == len(graph.nodes)
    assert len({edge.edge_id for edge in graph.edges}) == len(graph.edges)
    assert {each for edge in graph.edges for each in (edge.source, edge.target)} <= ids


def test_the_order_of_events_changes_nothing() -> None:
    events = seen(*(replace(EVENT, event_id=str(at), source_address=f"10.0.0.{at % 30}") for at in range(90)))
    shuffled = random.Random(7).sample(events, len(events))
    assert sentences(build_graph(shuffled)) == sentences(build_graph(events))
    assert set(build_graph(shuffled).nodes) == set(build_graph(events).nodes)


@pytest.mark.parametrize("text", NASTY)
def test_ids_are_ours_whatever_a_record_says(text: str) -> None:
    graph = build_graph(seen(replace(EVENT, resource=text, session=text, access_key=text), principal=text))
    assert all(len(node.node_id) == 16 and node.node_id.isalnum() for node in graph.nodes)


def test_without_events_there_is_no_picture() -> None:
    assert build_graph(()).nodes == ()
