"""Which alerts are one incident: the rule, its bounds, and what a person says about it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from fingerprint.core.alert import MANY_PRINCIPALS
from fingerprint.core.incident import IncidentEdit
from fingerprint.core.incident_rule import (
    GAP_SECONDS,
    MAX_NEW_ACTIONS,
    MIN_PRINCIPALS,
    AlertLink,
    group_alerts,
    linking_addresses,
    new_addresses,
    shared_new_actions,
)

HOUR = 3600
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def alert(
    alert_id: str, principal: str, start: int, end: int | None = None, **values: str
) -> list[AlertLink]:
    """The links of an alert from `start` to `end`, in hours."""
    first, last = start * HOUR, (start + 1 if end is None else end) * HOUR
    links = [AlertLink(alert_id, "principal", principal, first, last)]
    return links + [AlertLink(alert_id, kind, value, first, last) for kind, value in values.items()]


def grouped(
    *alerts: list[AlertLink], edits: tuple[IncidentEdit, ...] = (), most: int = 200
) -> list[set[str]]:
    """The sets of alerts that are one incident, by their ids."""
    found: dict[str, set[str]] = {}
    for alert_id, each in group_alerts([link for links in alerts for link in links], edits, most).items():
        found.setdefault(each.incident_id, set()).add(alert_id)
    return [found[name] for name in sorted(found)]


def edit(kind: str, *alert_ids: str, to: str = "", at: int = 0, undone: bool = False) -> IncidentEdit:
    return IncidentEdit(f"e{at}", kind, alert_ids, to, NOON + timedelta(minutes=at), "maria", undone)


def test_an_attack_that_was_cut_at_six_is_one_incident():
    first, second = alert("a1", "maria", 17, 18), alert("a2", "maria", 18, 19)
    assert group_alerts(first + second)["a2"] == ("a1", "principal", "maria", "a1")
    assert grouped(first, second, alert("a3", "kim", 18)) == [{"a1", "a2"}, {"a3"}]


@pytest.mark.parametrize(("gap", "joined"), [(0, True), (GAP_SECONDS, True), (GAP_SECONDS + 1, False)])
def test_alerts_touch_up_to_the_gap(gap, joined):
    one = AlertLink("a1", "principal", "maria", 0, 100)
    other = AlertLink("a2", "principal", "maria", 100 + gap, 200 + gap)
    assert (len(grouped([one], [other])) == 1) == joined


def test_an_alert_within_a_long_one_does_not_hide_it_from_the_next():
    assert grouped(alert("a1", "m", 0, 20), alert("a2", "m", 1, 2), alert("a3", "m", 25)) == [
        {"a1", "a2", "a3"}
    ]


def test_keys_chains_and_addresses_join_principals_and_say_so():
    stolen = alert("a1", "maria", 0, access_key="AKIA1")
    role = alert("a2", "admin", 1, access_key="ASIA2")
    issued = AlertLink("a2", "access_key", "AKIA1", HOUR, 2 * HOUR, inherited=True)
    far = alert("a3", "kim", 2, address="203.0.113.7")
    near = alert("a4", "maria", 3, address="203.0.113.7")
    found = group_alerts([*stolen, *role, issued, *far, *near])
    assert {each.incident_id for each in found.values()} == {"a1"}
    assert found["a2"][1:] == ("credential_chain", "AKIA1", "a1")
    assert found["a4"][1:] == ("principal", "maria", "a1")  # surer than the address
    assert found["a3"][1:] == ("address", "203.0.113.7", "a4")


def test_an_incident_stays_small_and_the_surest_links_are_taken_first():
    alerts = [alert(f"a{at}", "loud" if at % 2 else f"p{at}", at, address="203.0.113.7") for at in range(8)]
    assert grouped(*alerts, most=4) == [{"a0"}, {"a1", "a3", "a5", "a7"}, {"a2"}, {"a4"}, {"a6"}]


def test_what_a_user_does_that_an_alert_made_is_of_its_incident_for_a_day():
    made = alert("a1", "maria", 0, opened="backup")
    used = [alert("a2", "backup", 8), alert("a3", "backup", 24)]
    other, second = alert("a4", "kim", 2), alert("a5", "kim", 3, opened="backup")
    earlier, late = alert("a0", "backup", -9), alert("a6", "backup", 60)
    found = group_alerts([link for each in (made, *used, other, earlier, late) for link in each])
    assert found["a2"] == ("a1", "opened", "", "a1")
    assert found["a3"] == ("a1", "opened", "", "a1")
    assert [found[name].reason for name in ("a0", "a4", "a6")] == ["first"] * 3
    assert grouped(made, second) == [{"a1"}, {"a5"}], "that both opened it alone joins no one"
    assert grouped(made, *used, edits=(edit("split", "a2"),)) == [{"a1", "a3"}, {"a2"}]


def fetching(alert_id: str, principal: str, start: int, **values: str) -> list[AlertLink]:
    """The links of an alert that shows a new action."""
    return alert(alert_id, principal, start, new_action="acm:GetCertificate 2026-03-04", **values)


def test_alerts_of_several_principals_that_call_the_same_new_action_on_one_day_are_one_incident():
    machines = [fetching(f"a{at}", f"machine-{at}", 3 * at) for at in range(MIN_PRINCIPALS)]
    everyone = {f"a{at}" for at in range(MIN_PRINCIPALS)}
    found = group_alerts([link for each in machines for link in each])
    assert found["a4"] == ("a0", "new_action", "acm:GetCertificate 2026-03-04", "a3")
    assert grouped(*machines, alert("b", "kim", 4)) == [everyone, {"b"}]
    few = [*machines[:-1], fetching("b", "machine-0", 13)]
    assert len(grouped(*few)) == MIN_PRINCIPALS, "one of them twice is no further principal"
    other_day = alert("b", "kim", 4, new_action="acm:GetCertificate 2026-03-05")
    assert grouped(*machines, other_day) == [everyone, {"b"}]


def test_an_alert_that_shows_a_new_action_stays_with_the_attack_that_it_is_linked_with():
    machines = [fetching(f"a{at}", f"machine-{at}", at) for at in range(MIN_PRINCIPALS)]
    attack = alert("b", "maria", 3, access_key="AKIA1")
    stolen = fetching("c", "machine-9", 3, access_key="AKIA1")
    everyone = {f"a{at}" for at in range(MIN_PRINCIPALS)}
    assert grouped(*machines, attack, stolen) == [everyone, {"b", "c"}]
    assert grouped(*machines, stolen) == [everyone | {"c"}]
    joined = (edit("join", "b", to="a0"),)
    assert grouped(*machines, fetching("a5", "machine-5", 6), attack, edits=joined) == [
        {"a0", "b"},
        {f"a{at}" for at in range(1, MIN_PRINCIPALS + 1)},
    ]


def driver(feature: str, seen: str, surprise: float, rarity: str = "unseen", principals: int = 0) -> dict:
    return {
        "feature": feature,
        "seen": seen,
        "rarity": rarity,
        "surprise": surprise,
        "principals": principals,
    }


@pytest.mark.parametrize(
    ("beside", "impact", "shared"),
    [
        ((), (), True),
        ((driver("network", "54.93.0.0/16", 6.7, principals=18),), (), True),
        ((driver("resource", f"{(FETCH := 'acm:GetCertificate')} on certificate:web", 10.0),), (), True),
        ((driver("next action", "kms:Decrypt after kms:Encrypt", 12.0),), (), True),
        ((driver("network", "167.99.0.0/16", 6.7),), (), False),
        ((driver("program", "Boto3 linux", 6.7, "rare", 2),), (), False),
        ((driver("error", "AccessDenied", 10.5, principals=40),), (), False),
        ((driver("action", "acm:GetCertificates", 4.0, "rare"),), (), False),
        ((), ({"action": FETCH, "gravity": "minor"},), True),
        ((), ({"action": FETCH, "gravity": "notable"},), False),
        ((), ({"action": "kms:Decrypt", "gravity": "notable"},), True),
        ((), ({"action": "kms:Decrypt", "gravity": "grave"},), False),
    ],
)
def test_a_new_action_is_shared_where_nothing_else_is_as_strange_grave_or_new_to_everyone(
    beside: tuple[dict, ...], impact: tuple[dict, ...], shared: bool
) -> None:
    drivers = (driver("action", FETCH, 10.0), *beside)
    assert shared_new_actions(drivers, impact) == ((FETCH,) if shared else ())
    assert shared_new_actions(beside[:1] and [beside[0] | {"rarity": "infrequent"}], impact) == ()


def test_a_few_new_actions_are_shared_together_whichever_surprises_most_and_none_may_have_an_impact() -> None:
    usual_of_others = driver("action", "s3:ListBuckets", 3.0, principals=MANY_PRINCIPALS + 1)
    few = [driver("action", f"bedrock:List{at}", 10.0 - at % 2) for at in range(MAX_NEW_ACTIONS)]
    names = tuple(sorted(each["seen"] for each in few))
    touched = driver("resource", f"{names[0]} on agent:web", 10.0)
    for drivers in (few, few[::-1], [*few, usual_of_others, touched]):
        assert shared_new_actions(drivers, [{"action": names[0], "gravity": "minor"}]) == names
    assert shared_new_actions(few, [{"action": names[0], "gravity": "notable"}]) == ()
    assert shared_new_actions([*few, driver("network", "167.99.0.0/16", 1.0)], []) == ()
    assert shared_new_actions([*few, driver("action", "bedrock:GetAgent", 4.0)], []) == ()


# --- what a person says -------------------------------------------------------------------------------------------------


def test_an_alert_that_was_split_off_stays_apart_whatever_comes_later():
    alerts = [alert(f"a{at}", "m", at) for at in range(5)]
    split = edit("split", "a1")
    assert grouped(*alerts, edits=(split,)) == [{"a0", "a2", "a3", "a4"}, {"a1"}]
    back = edit("join", "a1", to="a3", at=1)
    assert grouped(*alerts, edits=(split, back)) == [{"a0", "a1", "a2", "a3", "a4"}]
    undone = edit("split", "a1", undone=True)
    assert grouped(*alerts, edits=(undone,)) == [{"a0", "a1", "a2", "a3", "a4"}]


def test_several_that_are_split_off_together_stay_together():
    alerts = [alert(f"a{at}", "m", at) for at in range(4)]
    assert grouped(*alerts, edits=(edit("split", "a1", "a3"),)) == [{"a0", "a2"}, {"a1", "a3"}]
    again = (edit("split", "a1", "a3"), edit("split", "a3", at=1))
    assert grouped(*alerts, edits=again) == [{"a0", "a2"}, {"a1"}, {"a3"}]
    assert grouped(*alerts, edits=again[::-1]) == grouped(
        *alerts, edits=again
    )  # by their time, not their place


def test_alerts_joined_by_hand_bring_their_incidents_along_and_say_so():
    ours, theirs = (
        [alert(f"a{at}", "m", at) for at in range(2)],
        [alert(f"b{at}", "k", 90 + at) for at in range(2)],
    )
    joined = (edit("join", "b0", to="a1"),)
    assert grouped(*ours, *theirs, edits=joined) == [{"a0", "a1", "b0", "b1"}]
    found = group_alerts([link for links in (*ours, *theirs) for link in links], joined)
    assert found["b0"][1:] == ("hand", "", "a1")
    assert found["b1"][1:] == ("principal", "k", "b0")
    gone = (edit("join", "b0", to="deleted"),)
    assert grouped(*ours, *theirs, edits=gone) == [{"a0", "a1"}, {"b0", "b1"}]


# --- the order of saving does not matter --------------------------------------------------------------------------------

some_alerts = some.lists(
    some.tuples(
        some.integers(0, 60), some.integers(0, 8), some.sampled_from("mkj"), some.sampled_from("xyz"),
        some.sampled_from("123"),
    ),
    min_size=1,
    max_size=14,
)  # fmt: skip


@given(drawn=some_alerts, seed=some.integers(0, 9), most=some.sampled_from([3, 200]))
def test_the_order_of_alerts_changes_nothing_and_none_is_lost(drawn, seed, most):
    alerts = [
        alert(f"a{at:02d}", principal, start, start + length, access_key=key, address=address)
        for at, (start, length, principal, key, address) in enumerate(drawn)
    ]
    edits = (edit("split", "a00"), edit("join", "a03", to="a01", at=1))
    links = [link for each in alerts for link in each]
    mixed = random.Random(seed).sample(links, len(links))
    found = group_alerts(links, edits, most)
    assert group_alerts(mixed, edits[::-1], most) == found
    assert set(found) == {link.alert_id for link in links}
    starts = {link.alert_id: (link.first_at, link.alert_id) for link in links}
    for alert_id, each in found.items():
        assert starts[each.incident_id] <= starts[alert_id]
        assert (each.reason == "first") == (each.incident_id == alert_id)
        assert each.reason == "first" or found[each.with_alert].incident_id == each.incident_id


# --- addresses ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "seen", "rarity", "links"),
    [
        ("203.0.113.7", "203.0.113.0/24", "unseen", True),
        ("203.0.113.7", "203.0.0.0/16", "rare", True),
        ("203.0.113.7", "203.0.113.0/24", "frequent", False),  # the office
        ("203.0.113.7", "198.51.100.0/24", "unseen", False),
        ("203.0.113.7", "203.0.113.7", "unseen", False),
        ("10.3.1.8", "10.3.1.0/24", "unseen", False),  # of any network
        ("lambda.amazonaws.com", "lambda.amazonaws.com", "unseen", False),
        ("2001:db8::7", "2001:db8::/48", "unseen", True),
        ("203.0.113.7", "x/y", "unseen", False),
        ("203.0.113.7/24\x00", "203.0.113.0/24", "unseen", False),
    ],
)
def test_an_address_links_where_its_network_was_new(address, seen, rarity, links):
    found = linking_addresses([address], [{"seen": seen, "rarity": rarity}])
    assert found == ([address] if links else [])


def test_an_address_of_a_network_that_many_others_use_links_nothing_but_one_name():
    """A colleague's first day at the office's proxy is news of the colleague, and no link to others at it."""
    wide = {"seen": "203.0.0.0/16", "rarity": "unseen", "principals": 40}
    narrow = {"seen": "203.0.113.0/24", "rarity": "unseen", "principals": 0}
    assert linking_addresses(["203.0.113.7"], [wide]) == []
    assert new_addresses(["203.0.113.7"], [wide]) == ["203.0.113.7"]
    assert linking_addresses(["203.0.113.7"], [wide | {"principals": MANY_PRINCIPALS}]) == ["203.0.113.7"]
    assert linking_addresses(["203.0.113.7", "203.0.9.9"], [wide, narrow]) == ["203.0.113.7"]
