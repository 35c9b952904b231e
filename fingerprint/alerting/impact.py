"""Impact: how much harm the new calls of an alert can do, and the urgency that follows from rarity and impact.

Example:
    >>> rows = alert_impact(events, new_actions={"cloudtrail:StopLogging"}, new_places={"e1"})
    >>> [(row.action, row.gravity, row.calls, row.failed) for row in rows]
    [('cloudtrail:StopLogging', 'severe', 1, 0)]
    >>> combined_urgency(7.5, rows)                      # nats of rarity, to which 4 of impact are added
    55

Rarity says how unlikely an alert is by chance; it cannot tell a new list call from a new `StopLogging`. Impact is other evidence:
the logarithm of how much more often such a call is new in an attack than in harmless work (GRAVITY_NATS). Both are nats, so they
are added, and the sum is mapped to an urgency. The gravest action of an alert counts in full and each further one with a fading
weight, so an alert that grows never becomes less urgent.

How much an action counts:
- In full if it is new for the principal. What a principal does every day from its usual place says nothing about an attack.
- By KNOWN_ACTION_SHARE if only its network is new for the principal.
- In full if its request is new, though the action is not:
  - it gives a right to an account that no one dealt with before. A principal that makes roles all day lets no stranger in.
  - it does harm by parameters that the principal never gave, such as its own key. A principal that writes objects all day
    encrypts none for ransom.
  - it is a grave call from a new network in a region that is new as well. A principal that trains models does so at home.
- In full if it reads more data or secrets than the principal ever read. A thief comes for data, and an insider needs no new
  action to take them.
- By a further FAILED_SHARE if all its calls failed: they show an intention and have done nothing yet.

The sum can be low where rarity is low. So a new grave call and a new tool of attackers have a floor (`urgency_floor`), which
neither prevalence nor a fallback to peers lowers. See docs/explanation/detection.md, "Urgency".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fingerprint.core.alert import (
    GRAVE_OR_SEVERE,
    GRAVITIES,
    MINIMUM_URGENCY,
    MOVE_FEATURE,
    ActionImpact,
    AlertEvent,
    Gravity,
    SurpriseDriver,
)
from fingerprint.core.attack_tools import is_made_for_attacks

if TYPE_CHECKING:
    from fingerprint.sources.base import CallImpact

# Nats of rarity plus impact at which urgency is 50: one active interval in 22,000.
HALF_URGENCY_NATS = 10.0
HALF_IMPACT_NATS = 1.5  # nats of impact at which impact is 50
# Measured on drawn worlds (docs/explanation/experiments.md): most alerts about attacks have a new severe call, few harmless
# alerts have one. New notable and minor calls are as frequent in harmless alerts as in attacks.
GRAVITY_NATS: dict[Gravity, float] = {"none": 0.0, "minor": 0.0, "notable": 0.2, "grave": 1.5, "severe": 4.0}
FAILED_SHARE = 0.6  # of the nats of an action all of whose calls failed
KNOWN_ACTION_SHARE = 0.5  # of the nats of a known action from a new network
NEXT_GRAVE_ACTION_WEIGHT = 0.5  # weight of each further action, relative to the graver one before it
MAX_COUNTED_ACTIONS = 8  # actions; the weight of the next one is below a hundredth
MAX_SHOWN_ACTIONS = 10  # rows of `Alert.impact_of`
MAX_RESOURCES = 5  # of one row
MAX_NAMED_ACCOUNTS = 2  # accounts named for one resource
# A new action that destroys data or machines is grave from this many successful calls on: cleaning up needs only a few. Counted
# are the alert's own calls, those of supporting events, and those that only the interval's count has.
MANY_DELETIONS = 20
DESTROYING_TECHNIQUES = ("T1485", "T1490")  # data destruction, inhibiting system recovery
IN_BULK = "in bulk"  # one key for all actions that read more than ever
PROGRAM_FEATURE = "program"


def alert_impact(
    events: Sequence[AlertEvent],
    new_actions: Collection[str],
    new_places: Collection[str],
    other_accounts: Mapping[str, str] = MappingProxyType({}),
    new_requests: Collection[str] = (),
    judged: Sequence[CallImpact] = (),
    in_bulk: Mapping[str, str] = MappingProxyType({}),
) -> tuple[ActionImpact, ...]:
    """Return the actions of an alert that can do harm, those that count most first.

    - `new_actions`: `service:Action` that are new for the principal.
    - `new_places`: ids of events from a network that is new for the principal.
    - `other_accounts`: by event id, the account that a call was made on, where it is not the account of the log.
    - `new_requests`: ids of events that are new however often their action was called. They give a right to everybody or to an
      account that no one dealt with before, or do harm in a way that is new (`novel_impact`).
    - `judged`: the impact of each event, if the caller has it (`judge_calls`).
    - `in_bulk`: by action, how often it was called, for actions that were called more often than ever. It matters for those that
      read data or secrets.
    """
    by_action: dict[str, tuple[list[AlertEvent], list[CallImpact]]] = {}
    for event, found in zip(events, judged or judge_calls(events), strict=True):
        called, impacts = by_action.setdefault(event.action_name, ([], []))
        called.append(event)
        impacts.append(found)
    rows = [
        _of_action(
            name,
            called,
            impacts,
            name in new_actions or any(event.event_id in new_requests for event in called),
            new_places,
            other_accounts,
            in_bulk.get(name),
        )
        for name, (called, impacts) in by_action.items()
    ]
    return tuple(sorted((row for row in rows if row.gravity != "none"), key=_order))


def judge_calls(events: Sequence[AlertEvent]) -> list[CallImpact]:
    """Return the impact of each event, by its record."""
    # Imported late: judging needs the source, and the store reads judged impacts without it.
    from fingerprint.sources.active import SOURCE
    from fingerprint.sources.base import judge_calls as judge

    return judge(SOURCE.impact_of, events)


def count_together(
    rows: Sequence[ActionImpact],
    supporting: Sequence[ActionImpact],
    amounts: Mapping[str, int] = MappingProxyType({}),
) -> tuple[tuple[ActionImpact, ...], tuple[ActionImpact, ...]]:
    """Return the actions of an alert, and those of its supporting events, with deletions counted over both (MANY_DELETIONS).

    `amounts` are all calls of each `service:Action` in an interval, of which only some are events: the share that succeeded is
    taken from the events.
    """
    calls: Counter[str] = Counter()
    done: Counter[str] = Counter()
    for row in (*rows, *supporting):
        calls[row.action] += row.calls
        done[row.action] += row.calls - row.failed
    for action in done.keys() & amounts.keys():
        done[action] = max(done[action], amounts[action] * done[action] // calls[action])
    own, beside = (
        tuple(sorted((_as_many(row, done[row.action]) for row in each), key=_order))
        for each in (rows, supporting)
    )
    return own, beside


def with_support(
    rows: Iterable[ActionImpact], supporting: Iterable[ActionImpact]
) -> tuple[ActionImpact, ...]:
    """Return the actions of an alert and of its supporting events, these marked `supporting`, those that count most first."""
    return tuple(sorted((*rows, *(replace(row, supporting=True) for row in supporting)), key=_order))


def merge_impact(rows: Iterable[ActionImpact]) -> tuple[ActionImpact, ...]:
    """Return the actions of several alerts, those that count most first, each once; a supporting action stays apart."""
    merged: dict[tuple[str, bool], ActionImpact] = {}
    for row in rows:
        key = row.action, row.supporting
        merged[key] = _together(merged[key], row) if key in merged else row
    return tuple(sorted(merged.values(), key=_order))


def _together(one: ActionImpact, other: ActionImpact) -> ActionImpact:
    graver = max(one, other, key=lambda row: GRAVITIES.index(row.gravity))
    return replace(
        graver,
        calls=one.calls + other.calls,
        failed=one.failed + other.failed,
        new=one.new or other.new,
        new_place=one.new_place or other.new_place,
        resources=tuple(dict.fromkeys(one.resources + other.resources))[:MAX_RESOURCES],
        dry_run=one.dry_run and other.dry_run,
    )


def action_nats(row: ActionImpact) -> float:
    """Return how much evidence of an attack an action of an alert is, in nats; 0 if it is not unusual.

    A supporting action counts as the alert's own if it is grave or severe, new and succeeded, and else not at all: beside a
    verdict, a principal's first deletion of a whole bucket is no less of one.
    """
    if not row.is_unusual or (row.supporting and not _counts_beside(row)):
        return 0.0
    share = 1.0 if row.new or row.in_bulk else KNOWN_ACTION_SHARE
    return GRAVITY_NATS[row.gravity] * share * (1.0 if row.succeeded else FAILED_SHARE)


def impact_nats(rows: Sequence[ActionImpact]) -> float:
    """Return the nats of an alert's actions together: the strongest in full, each further one with a fading weight.

    An action counts once, even if the alert has both own and supporting calls of it. All reads in bulk count as one: a thief who
    downloads objects also decrypts them.
    """
    by_action: dict[str, float] = {}
    for row in rows:
        name = IN_BULK if row.in_bulk else row.action
        by_action[name] = max(action_nats(row), by_action.get(name, 0.0))
    nats = sorted(by_action.values(), reverse=True)[:MAX_COUNTED_ACTIONS]
    return float(sum(each * NEXT_GRAVE_ACTION_WEIGHT**place for place, each in enumerate(nats)))


def impact_score(rows: Sequence[ActionImpact]) -> int:
    """Return the impact of an alert's actions, 0 to 100."""
    return round(100 * (1 - 2 ** (-impact_nats(rows) / HALF_IMPACT_NATS)))


def urgency_from_nats(nats: Any) -> Any:
    """Return an urgency, 0 to below 100, from nats of evidence; HALF_URGENCY_NATS give 50."""
    return 100 * (1 - 2 ** (-nats / HALF_URGENCY_NATS))


def gravest_action(rows: Sequence[ActionImpact]) -> str:
    """Return the `service:Action` that counts most, empty where none counts; `rows` are in the order of `alert_impact`."""
    return rows[0].action if rows and action_nats(rows[0]) > 0 else ""


def urgency_floor(rows: Iterable[ActionImpact], drivers: Iterable[SurpriseDriver] = ()) -> int:
    """Return the urgency below which an alert with these actions and drivers never falls.

    - High: a severe action that is new and succeeded; a new program that is made for attacks.
    - Medium: a severe action that is new and failed, or that is known and comes from a new network; a grave action that is new
      and succeeded; a machine that never moved and was used at another network, because its credentials may be stolen.
    - None: a read in bulk, unless its credential was used outside its networks, which is a theft. A fleet that reads a new secret
      has such a read in each of its alerts, and prevalence must lower them.
    """
    shared = (row for row in rows if row.is_elsewhere or not row.in_bulk)
    counted = (row for row in shared if not row.supporting or _counts_beside(row))
    actions = map(_floor, counted)
    shown = [(each.feature, each.rarity, each.seen) for each in drivers]
    new = (seen for feature, rarity, seen in shown if (feature, rarity) == (PROGRAM_FEATURE, "unseen"))
    moved = any(feature == MOVE_FEATURE for feature, _, _ in shown)
    tool = MINIMUM_URGENCY["high"] * any(map(is_made_for_attacks, new))
    return max((*actions, MINIMUM_URGENCY["medium"] * moved, tool))


def combined_urgency(
    rarity_nats: float,
    rows: Sequence[ActionImpact],
    cap: int = 100,
    drivers: Iterable[SurpriseDriver] = (),
) -> int:
    """Return the urgency of rarity and impact together, not below the floor and at most `cap`."""
    together = round(urgency_from_nats(rarity_nats + impact_nats(rows)))
    return min(max(together, urgency_floor(rows, drivers)), cap)


def is_named_beside(row: ActionImpact) -> bool:
    """Return whether texts name a supporting action: it is new, succeeded and is more than minor.

    A notable one is named but does not count: it is as frequent beside harmless reads as beside those of an attack.
    """
    return row.gravity not in ("none", "minor") and row.new and row.succeeded


def _counts_beside(row: ActionImpact) -> bool:
    """Return whether a supporting action counts towards impact and floor."""
    return row.gravity in GRAVE_OR_SEVERE and row.new and row.succeeded


def _floor(row: ActionImpact) -> int:
    if row.gravity == "severe" and row.new and row.succeeded:
        return MINIMUM_URGENCY["high"]
    if row.gravity == "severe" and (row.new or row.new_place):
        return MINIMUM_URGENCY["medium"]
    if row.gravity == "grave" and row.new and row.succeeded:
        return MINIMUM_URGENCY["medium"]
    return 0


def _order(row: ActionImpact) -> tuple[float, int, bool, bool, bool, int, str]:
    """Return a sort key of actions: nats, gravity, own before supporting, not in bulk before in bulk, success, calls, name."""
    gravity = -GRAVITIES.index(row.gravity)
    return -action_nats(row), gravity, row.supporting, row.in_bulk, not row.succeeded, -row.calls, row.action


def _of_action(
    name: str,
    events: Sequence[AlertEvent],
    judged: Sequence[CallImpact],
    new: bool,
    new_places: Collection[str],
    other_accounts: Mapping[str, str],
    most_ever: str | None,
) -> ActionImpact:
    """Return the impact of an action: the gravest of its calls, how many calls do this harm, and on which resources.

    `most_ever` says how often the action was called if that was more often than ever, else it is None; all calls of such a read
    do the harm together. An action is at least grave if its credential was used outside its networks.
    """
    from fingerprint.sources.base import NO_IMPACT, gravest_calls  # as in `judge_calls`

    gravest, harmful = gravest_calls(events, judged)
    taken = NO_IMPACT if most_ever is None else _bulk_read(name)._replace(detail=most_ever)
    if in_bulk := GRAVITIES.index(taken.gravity) > GRAVITIES.index(gravest.gravity):
        gravest, harmful = taken, list(events)
    elsewhere = next(filter(None, (found.elsewhere for found in judged)), "")
    gravest = gravest._replace(elsewhere=elsewhere)
    outsiders = {event.event_id: found.outsiders for event, found in zip(events, judged, strict=True)}
    done = sum(not event.error_code for event in harmful)
    row = ActionImpact(
        action=name,
        gravity=max(gravest.gravity, "grave", key=GRAVITIES.index) if elsewhere else gravest.gravity,
        effect=gravest.effect_in_full,
        tactic=gravest.tactic,
        technique=gravest.technique,
        calls=len(harmful),
        failed=len(harmful) - done,
        new=new,
        new_place=any(event.event_id in new_places for event in events),
        resources=_resource_texts(harmful, outsiders, other_accounts),
        in_bulk=in_bulk,
        dry_run=gravest.dry_run,
        gravity_at_home=gravest.gravity if elsewhere else None,
    )
    return _as_many(row, done)


def _bulk_read(name: str) -> CallImpact:
    """Return the impact of a `service:Action` that was called more often than ever: none if it reads no data."""
    from fingerprint.sources.active import SOURCE  # as in `judge_calls`

    service, _, action = name.partition(":")
    return SOURCE.bulk_read(service, action)


def _as_many(row: ActionImpact, done: int) -> ActionImpact:
    """Return an action with its gravity raised to grave if it is new, destroys, and `done` calls are MANY_DELETIONS or more."""
    if not (row.new and row.technique in DESTROYING_TECHNIQUES and done >= MANY_DELETIONS):
        return row
    return replace(row, gravity=max(row.gravity, "grave", key=GRAVITIES.index))


def _resource_texts(
    events: Sequence[AlertEvent], outsiders: Mapping[str, tuple[str, ...]], other_accounts: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the resources of calls in words, each once; roles of one name in seven accounts are one name with its accounts.

    `outsiders` are the accounts that an event lets in, by event id, as in a role's new trust policy: a resource is `for` these. A
    call that gives a right to accounts and names no resource has these accounts alone.

    >>> _resource_texts(seven_assumed_roles, {}, account_of)
    ('role:Operator in 7 accounts: 111111111111, 222222222222 and 5 more',)
    """
    distinct = {
        (event.resource, other_accounts.get(event.event_id, ""), outsiders[event.event_id]): event
        for event in events
    }
    accounts: dict[tuple[str, str], dict[str, None]] = {}
    for (_, account, let_in), event in distinct.items():
        relation, named = _accounts_beside(event, let_in, account)
        if event.resource or relation == "for":
            accounts.setdefault((event.resource, relation), {}).update(dict.fromkeys(named))
    return tuple(
        f"{resource} {_accounts_text(relation, list(found))}".strip()
        for (resource, relation), found in list(accounts.items())[:MAX_RESOURCES]
    )


def _accounts_beside(event: AlertEvent, outsiders: Sequence[str], account: str) -> tuple[str, list[str]]:
    """Return the accounts that a call names, and their relation to its resource: it lies `in` them, or they are let in (`for`).

    `account` is the account that the call was made on or names; it comes first among those that are let in.
    """
    from fingerprint.sources.active import SOURCE  # as in `judge_calls`

    let_in = sorted((each for each in outsiders if each.isdecimal()), key=lambda each: each != account)
    if let_in:
        return "for", let_in
    lies_there = not account or SOURCE.may_lie_in(event.raw, event.resource, account)
    return "in" if lies_there else "for", [account] if account else []


def _accounts_text(relation: str, accounts: Sequence[str]) -> str:
    if not accounts:
        return ""
    if len(accounts) == 1:
        return f"{relation} account {accounts[0]}"
    more = len(accounts) - MAX_NAMED_ACCOUNTS
    named = ", ".join(accounts[:MAX_NAMED_ACCOUNTS])
    return f"{relation} {len(accounts):,} accounts: {named}{f' and {more:,} more' if more > 0 else ''}"
