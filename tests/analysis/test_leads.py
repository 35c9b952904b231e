"""Leads: what a lower threshold of alerts would show next, from the votes in the alert store."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fingerprint.analysis import leads
from fingerprint.analysis.leads import Lead, find_leads
from fingerprint.core.alert import Alert, Vote
from fingerprint.core.case import SuppressionMatch
from fingerprint.core.sanitize import storable
from fingerprint.core.settings import Settings
from fingerprint.store import SqlStore, open_store
from tests.support.alerts import NASTY, stolen_session
from tests.support.query_plans import plans

START = datetime(2026, 3, 4, tzinfo=UTC)
ANA, BEN, CAT = "123456789012:user/ana", "123456789012:user/ben", "123456789012:user/cat"
SETTINGS = Settings()
GAP_HOURS = 3  # of the settings


@pytest.fixture
def store(tmp_path: Path) -> SqlStore:
    return open_store(f"sqlite:///{tmp_path}/alerts.sqlite")


def seen(name: str, hour: float, z: float, who: str = ANA, action: str = "s3:GetObject") -> list[Vote]:
    """Votes of the autoencoder and the sequence detector on one event."""
    when = START + timedelta(hours=hour)
    own = Vote(
        name, when, who, f"{who}|s3|direct", "autoencoder", z, 1.7, z >= 1.7, "entity", action=action, reach=z
    )
    return [own, replace(own, detector="sequence", z=1.7, threshold=1.6, vote=True, reach=None)]


def single(name: str, hour: float, z: float, who: str = ANA, action: str = "s3:GetObject") -> list[Vote]:
    """The autoencoder's vote alone, which no other one confirms."""
    return [replace(seen(name, hour, z, who, action)[0], reach=None)]


def surge(hour: int, who: str = ANA) -> list[Vote]:
    """The spectral detector's vote on the hour that begins then."""
    when = START + timedelta(hours=hour + 1)
    return [Vote(f"interval:{who}:{hour}", when, who, who, "spectral", 6.0, 5.0, True, "principal")]


def alert_at(hour: float, who: str = ANA, hours: float = 1.0) -> Alert:
    """A stored alert from an hour on."""
    first, last = (START + timedelta(hours=each) for each in (hour, hour + hours))
    events = tuple(
        replace(each, event_time=when)
        for each, when in zip(stolen_session().events[:2], (first, last), strict=True)
    )
    return replace(
        stolen_session(), principal=who, events=events, first_event_time=first, last_event_time=last
    )


def found(store: SqlStore, *votes: list[Vote], limit: int = 20, options: Settings = SETTINGS) -> list[Lead]:
    store.alerts.save(votes=[vote for some in votes for vote in some])
    return list(find_leads(store, options, START - timedelta(days=1), limit).leads)


def test_a_lead_says_who_did_what_when_and_how_near_it_came(store: SqlStore) -> None:
    [lead] = found(
        store,
        seen("a", 1.2, 2.4, action="iam:CreateUser"),
        seen("b", 2.5, 3.0, action="iam:CreateAccessKey"),
        seen("c", 2.6, 2.4, action="iam:CreateUser"),
        seen("d", 2.7, 2.3, action="lambda:ListFunctions20150331"),
        seen("e", 2.8, 2.3, action="lambda:ListFunctions"),
        surge(2),
    )
    assert lead == Lead(
        principal=ANA,
        first_event_time=START + timedelta(hours=1.2),
        last_event_time=START + timedelta(hours=2.8),
        reach=3.0,
        events=5,
        actions=("iam:CreateAccessKey", "iam:CreateUser", "lambda:ListFunctions"),
        action_count=3,
        gravity="severe",
        effect="creates a credential that lasts",
        detectors=("autoencoder", "spectral", "sequence"),
        newcomer=False,
    )


def test_leads_come_in_the_order_in_which_a_falling_threshold_would_show_them(store: SqlStore) -> None:
    votes = [
        seen(f"{who}{hour}", hour, z, who) for who, hour, z in [(BEN, 1, 2.5), (ANA, 2, 3.1), (ANA, 30, 2.1)]
    ]
    assert [(lead.principal, lead.reach) for lead in found(store, *votes)] == [
        (ANA, 3.1),
        (BEN, 2.5),
        (ANA, 2.1),
    ]
    assert [lead.reach for lead in found(store, limit=2)] == [3.1, 2.5]


def test_a_lead_names_its_grave_call_however_many_came_nearer(store: SqlStore) -> None:
    looks = [seen(f"e{at}", 1 + at / 100, 3.3, action=f"ec2:Describe{at}") for at in range(8)]
    [lead] = found(store, *looks, seen("key", 1.5, 2.05, action="iam:CreateAccessKey"))
    assert (lead.reach, lead.gravity, lead.actions[0]) == (3.3, "severe", "iam:CreateAccessKey")


def test_one_vote_is_no_lead_unless_it_was_enough_for_a_verdict(store: SqlStore) -> None:
    """No other detector had an opinion, or the others' votes were second votes, which are not stored."""
    new = replace(single("new", 1, 2.7, BEN)[0], alone=True, level="peer", reach=3.0)
    beside_second = replace(single("beside a second vote", 1, 3.1, CAT)[0], reach=2.8)
    first, second = found(store, single("one", 1, 6.0), [new], [beside_second])
    assert (first.principal, first.reach, first.newcomer, first.detectors) == (
        BEN,
        3.0,
        True,
        ("autoencoder",),
    )
    assert (second.principal, second.reach, second.newcomer) == (CAT, 2.8, False)


def test_the_second_lead_of_one_principal_does_not_come_before_the_first_of_another(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where only some of the strongest votes were read at first."""
    monkeypatch.setattr(leads, "FIRST_DEPTH", 2)
    votes = [seen("a", 1, 5.0), seen("b", 20, 2.1), seen("c", 1, 3.0, BEN), seen("d", 40, 2.2)]
    assert [lead.reach for lead in found(store, *votes, limit=2)] == [5.0, 3.0]


def test_an_event_with_the_votes_of_two_calibrated_detectors_is_one_event(store: SqlStore) -> None:
    """Both votes carry the reach of the event."""
    own, _ = seen("a", 1, 2.9)
    [lead] = found(store, [own, replace(own, detector="another", z=2.4)])
    assert (lead.events, lead.reach) == (1, 2.9)


def test_a_lead_names_the_detector_that_voted_for_its_interval(store: SqlStore) -> None:
    own = replace(single("in", 5.5, 2.6)[0], reach=2.6)
    [lead] = found(store, [own], surge(5), surge(15))
    assert lead.detectors == ("autoencoder", "spectral")


def test_what_hardly_reaches_anything_is_no_lead(store: SqlStore) -> None:
    assert found(store, seen("low", 1, leads.MIN_REACH - 0.05)) == []


@pytest.mark.parametrize("hour", [10.5, 10 - GAP_HOURS, 11 + GAP_HOURS])
def test_events_in_or_beside_an_alert_are_no_lead(store: SqlStore, hour: float) -> None:
    """A lower threshold would have made the alert longer."""
    store.alerts.save([alert_at(10)])
    assert found(store, seen("near", hour, 2.8)) == []
    assert [lead.reach for lead in found(store, seen("far", 11 + GAP_HOURS + 1, 2.9))] == [2.9]
    assert [lead.principal for lead in found(store, seen("other", hour, 2.3, BEN))] == [ANA, BEN]


def grouped(events: list[tuple[int, int]], alerts: list[tuple[int, int, int]]) -> set[int]:
    """Return the places of the events, (principal, interval), that belong to a lead beside (principal, first, last)."""
    table = pd.DataFrame(events, columns=["principal", "interval"]).assign(reach=3.0)
    spans = pd.DataFrame(alerts, columns=["principal", "first", "last"], dtype=np.int64)
    tables = (each.astype({"principal": np.uint64}) for each in (table, spans))
    return {*leads.lead_groups(*tables, SETTINGS).index}


def test_an_alert_that_ended_just_before_the_list_begins_is_still_near(store: SqlStore) -> None:
    store.alerts.save([alert_at(10)], seen("near", 11 + GAP_HOURS, 2.8))
    assert not find_leads(store, SETTINGS, START + timedelta(hours=11.5)).leads
    assert not find_leads(store, SETTINGS, datetime(1, 1, 1, tzinfo=UTC)).leads


PLACES = st.tuples(st.integers(0, 2), st.integers(0, 40))


@given(events=st.lists(PLACES, min_size=1), alerts=st.lists(st.tuples(PLACES, st.integers(0, 12))))
def test_what_lies_near_any_alert_of_its_principal_is_left_out(
    events: list[tuple[int, int]], alerts: list[tuple[tuple[int, int], int]]
) -> None:
    """Also where alerts overlap: one may go on long after a later one has ended."""
    spans = [(who, first, first + hours) for (who, first), hours in alerts]
    assert grouped(events, spans) == {
        place
        for place, (who, at) in enumerate(events)
        if not any(
            who == owner and first - GAP_HOURS <= at <= last + GAP_HOURS for owner, first, last in spans
        )
    }


def test_a_principal_of_many_alerts_costs_no_pair_of_each_with_each_event() -> None:
    tracemalloc.start()
    left = grouped([(1, at) for at in range(20_000)], [(1, 20 * at, 20 * at + 1) for at in range(1_000)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(left) == 12 * 1_000 + GAP_HOURS  # after the last one no other begins
    assert peak < 100 << 20  # pairs took a gigabyte


def test_the_votes_of_some_principals_are_found_by_their_names(store: SqlStore) -> None:
    """By the detector, SQLite reads all of its votes: that took a noisy store seconds."""
    asked = plans(store, lambda: store.votes.nearest(START, 2.0, 9, [ANA, BEN]))
    of_votes = [each for each in asked if "votes" in each]
    assert of_votes
    assert all("votes_of_principal (principal=? AND event_time>?)" in each for each in of_votes)


def test_an_alert_costs_no_comparison_with_each_vote(store: SqlStore) -> None:
    asked = plans(store, lambda: store.votes.nearest(START, 2.0, 9))
    assert not [each for each in asked if "CORRELATED" in each]
    assert "SEARCH votes USING INDEX votes_by_reach (reach>?)" in asked


def test_a_lead_that_becomes_an_alert_is_gone(store: SqlStore) -> None:
    assert found(store, seen("a", 10.2, 2.8))
    store.alerts.save([alert_at(10)])
    assert found(store) == []


def suppress(store: SqlStore, **fields: str) -> None:
    end = datetime.now(UTC) + timedelta(days=7)
    store.suppressions.create(SuppressionMatch(**fields), "a migration", end, by="maria")


@pytest.mark.parametrize(
    ("fields", "hidden"),
    [
        ({"principal": ANA}, 1),
        ({"principal": BEN}, 0),
        ({"principal": ANA, "service": "s3"}, 0),  # not every event is of s3
        ({"principal": ANA, "network": "10.0.0.0/8"}, 0),  # a vote does not say from where
        ({"account": "123456789012"}, 0),  # nor into which accounts
    ],
)
def test_a_suppression_hides_a_lead_where_votes_can_say_so(
    store: SqlStore, fields: dict[str, str], hidden: int
) -> None:
    store.alerts.save(votes=[*seen("a", 1, 2.8), *seen("b", 1.5, 2.6, action="iam:CreateUser")])
    suppress(store, **fields)
    answer = find_leads(store, SETTINGS, START)
    assert (answer.suppressed, len(answer.leads)) == (hidden, 1 - hidden)


def test_votes_of_before_actions_were_stored_are_hidden_by_no_action(store: SqlStore) -> None:
    suppress(store, principal=ANA, action="s3:GetObject")
    [lead] = found(store, seen("old", 1, 2.8, action=""))
    assert (lead.actions, lead.action_count) == ((), 0)


def test_as_many_leads_come_however_many_are_suppressed(store: SqlStore) -> None:
    noisy = [seen(f"n{each}", 1, 3.0, f"{ANA}{each}", "glue:StartJobRun") for each in range(20)]
    quiet = [seen(f"q{each}", 1, 2.2, f"{BEN}{each}") for each in range(3)]
    suppress(store, service="glue")
    assert [lead.reach for lead in found(store, *noisy, *quiet, limit=3)] == [2.2] * 3


@pytest.mark.parametrize("text", NASTY)
def test_nothing_an_attacker_writes_breaks_a_lead(store: SqlStore, text: str) -> None:
    who = f"123456789012:role/{text}"
    [lead] = found(store, seen("a", 1, 2.8, who, f"{text}:{text}"))
    assert (lead.principal, lead.actions) == (storable(who), (storable(f"{text}:{text}"),))


VOTES = st.lists(
    st.tuples(
        st.sampled_from([ANA, BEN, CAT]),
        st.integers(0, 60),
        st.floats(1.6, 6.0),
        st.booleans(),
        st.sampled_from(["s3:GetObject", "iam:PutRolePolicy", "iam:CreateAccessKey"]),
    ),
    max_size=40,
)
ALERTS = st.lists(st.tuples(st.sampled_from([ANA, BEN]), st.integers(0, 60), st.floats(0, 20)), max_size=5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(votes=VOTES, alerts=ALERTS, limit=st.integers(1, 5))
def test_a_lead_is_never_an_event_of_an_alert_and_few_are_the_first_of_all(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    votes: list[tuple[str, int, float, bool, str]],
    alerts: list[tuple[str, int, float]],
    limit: int,
) -> None:
    kinds: dict[bool, Callable[..., list[Vote]]] = {True: seen, False: single}
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('leads')}/alerts.sqlite")
    spans = [alert_at(hour, who, hours) for who, hour, hours in alerts]
    store.alerts.save([replace(each, alert_id=f"alert-{place}") for place, each in enumerate(spans)])
    everything = found(
        store,
        *(
            kinds[both](f"e{at}", hour, z, who, action)
            for at, (who, hour, z, both, action) in enumerate(votes)
        ),
        limit=100,
    )
    for lead in everything:
        for alert in spans:
            apart = (
                lead.last_event_time < alert.first_event_time or lead.first_event_time > alert.last_event_time
            )
            assert apart or lead.principal != alert.principal
    monkeypatch.setattr(leads, "FIRST_DEPTH", 3)
    assert found(store, limit=limit) == everything[:limit]
    store.close()
