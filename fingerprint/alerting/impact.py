"""Impact: how much harm the new calls of an alert can do, and the urgency that rarity and impact make together.

Example:
    >>> rows = alert_impact(events, new_actions={"cloudtrail:StopLogging"}, new_places={"e1"})
    >>> [(row.action, row.gravity, row.calls, row.failed) for row in rows]
    [('cloudtrail:StopLogging', 'severe', 1, 0)]
    >>> combined_urgency(rarity_nats=4.0, actions=rows)
    55

Rarity says how unlikely an alert is by chance; it cannot tell a new list call from a new `StopLogging`. Impact is evidence of
another kind: how much more often such a call is new in an attack than in harmless work, as the logarithm of that ratio in nats
(GRAVITY_NATS). Both are nats, so they are added, and the sum becomes an urgency as rarity's nats did before. Of several actions
the gravest counts in full and each further one with a fading weight, so an alert that grows never becomes less urgent.

What a principal does every day from where it always is says nothing about an attack, whatever it can do: only an action that is
new for the principal counts in full, one that only comes from a network new for it by KNOWN_ACTION_SHARE. A right that is given
to an account which no one dealt with is new, too: who makes roles all day does not let a stranger in with them. So is harm that
a request does by parameters which the principal never gave, as its own key, and a grave call from a new network in a region that
is new as well: who writes objects all day encrypts none for ransom, and who trains models does so at home. A call that
failed counts less (FAILED_SHARE): it shows what is wanted, and has done nothing yet. A read of data or secrets counts in full
where it is more than the principal ever read: a thief came for it, and an insider needs no new action to take it.

A sum can still be low where the rarity is: so a grave call, or a tool of attackers, that was new has a floor (`urgency_floor`),
which neither prevalence nor a fallback to peers lowers. Docs: docs/explanation/detection.md, "Urgency".
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

# Nats of rarity and impact together at which urgency is 50: one active interval in 22,000.
HALF_URGENCY_NATS = 10.0
HALF_IMPACT_NATS = 1.5  # nats of impact at which impact is 50
# Measured on drawn worlds (docs/explanation/experiments.md): a severe call that was new is in most attacks' alerts and in few
# harmless ones; a notable or minor one is no more frequent in attacks than elsewhere.
GRAVITY_NATS: dict[Gravity, float] = {"none": 0.0, "minor": 0.0, "notable": 0.2, "grave": 1.5, "severe": 4.0}
FAILED_SHARE = 0.6  # of the nats of an action all of whose calls failed
KNOWN_ACTION_SHARE = 0.5  # of the nats of an action that is not new, from a network that is
NEXT_GRAVE_ACTION_WEIGHT = 0.5  # of an alert's next action, beside the graver one before
MAX_COUNTED_ACTIONS = 8  # actions; the weight of the next one is below a hundredth
MAX_SHOWN_ACTIONS = 10  # rows of `Alert.impact_of`
MAX_RESOURCES = 5  # of one row
MAX_NAMED_ACCOUNTS = 2  # in which a resource of one name was used
# Calls that succeeded of a new action that destroys data or machines, from which on it is grave: cleaning up is a few of them.
# Those that support an alert count beside its own, and those that were counted and are no events.
MANY_DELETIONS = 20
DESTROYING_TECHNIQUES = ("T1485", "T1490")  # of such an action: data destruction, inhibiting system recovery
IN_BULK = "in bulk"  # in place of the actions by which more is read than ever
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

    `new_actions` are the `service:Action` that are new for the principal, `new_places` the ids of events from a network that is.
    `other_accounts` maps the ids of events to the account that they were made on, where that is not the log's own, and
    `new_requests` are the ids of those that are new however often their action was called: they give everybody a right, or an
    account that no one dealt with before, or do harm as never before (`novel_impact`). `judged` is what each event can do, where
    that is known (`judge_calls`). `in_bulk` are the actions that were called more often than ever before, and how often, which
    tells of those that read data or secrets.
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
    """Return what each event can do, by its record."""
    # Judging needs the source; the store reads what was judged without it.
    from fingerprint.sources.active import SOURCE
    from fingerprint.sources.base import judge_calls as judge

    return judge(SOURCE.impact_of, events)


def count_together(
    rows: Sequence[ActionImpact],
    supporting: Sequence[ActionImpact],
    amounts: Mapping[str, int] = MappingProxyType({}),
) -> tuple[tuple[ActionImpact, ...], tuple[ActionImpact, ...]]:
    """Return the actions of an alert and those of its supporting events; deletions are as many as both have together.

    `amounts` are the calls of each `service:Action` in an interval, more than are events: as many of them succeeded as of these.
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
    """Return the actions of an alert and those of its supporting events, as such, those that count most first."""
    return tuple(sorted((*rows, *(replace(row, supporting=True) for row in supporting)), key=_order))


def merge_impact(rows: Iterable[ActionImpact]) -> tuple[ActionImpact, ...]:
    """Return the actions of several alerts together, each once, those that count most first; supporting ones by themselves."""
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
    """Return how much evidence of an attack an action of an alert is, in nats; 0 for what is not new.

    Of what supports an alert a grave or severe action counts that is new and succeeded, as if it were the alert's own: beside a
    verdict, a principal's first deletion of a whole bucket is no less of one.
    """
    if not row.is_unusual or (row.supporting and not _counts_beside(row)):
        return 0.0
    share = 1.0 if row.new or row.in_bulk else KNOWN_ACTION_SHARE
    return GRAVITY_NATS[row.gravity] * share * (1.0 if row.succeeded else FAILED_SHARE)


def impact_nats(rows: Sequence[ActionImpact]) -> float:
    """Return the nats of an alert's actions together: the strongest in full, each further one with a fading weight.

    An action that has calls of the alert and calls that support it counts once, and so do all reads in bulk: who downloads
    objects decrypts them, too.
    """
    by_action: dict[str, float] = {}
    for row in rows:
        name = IN_BULK if row.in_bulk else row.action
        by_action[name] = max(action_nats(row), by_action.get(name, 0.0))
    nats = sorted(by_action.values(), reverse=True)[:MAX_COUNTED_ACTIONS]
    return float(sum(each * NEXT_GRAVE_ACTION_WEIGHT**place for place, each in enumerate(nats)))


def impact_score(rows: Sequence[ActionImpact]) -> int:
    """Return an impact, 0 to 100, of an alert's actions."""
    return round(100 * (1 - 2 ** (-impact_nats(rows) / HALF_IMPACT_NATS)))


def urgency_from_nats(nats: Any) -> Any:
    """Return an urgency, 0 to below 100, from nats of evidence; HALF_URGENCY_NATS are 50."""
    return 100 * (1 - 2 ** (-nats / HALF_URGENCY_NATS))


def gravest_action(rows: Sequence[ActionImpact]) -> str:
    """Return the `service:Action` that counts most, empty where none counts; `rows` are in the order of `alert_impact`."""
    return rows[0].action if rows and action_nats(rows[0]) > 0 else ""


def urgency_floor(rows: Iterable[ActionImpact], drivers: Iterable[SurpriseDriver] = ()) -> int:
    """Return the urgency below which an alert with these actions and drivers never falls.

    A severe action that is new and succeeded is never below high, nor is a program made for attacks that is new. Never below
    medium are a severe action that failed, or that only the network makes new, and a grave one that is new and succeeded, nor is
    a machine that never moved and was used at another network: its credentials may be stolen. A read
    in bulk has no floor: a fleet that reads a new secret has one in each of its alerts, and prevalence must lower them; but with
    a credential outside of its networks it is a theft.
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
    """Return the urgency of rarity and impact together, at most `cap`."""
    together = round(urgency_from_nats(rarity_nats + impact_nats(rows)))
    return min(max(together, urgency_floor(rows, drivers)), cap)


def is_named_beside(row: ActionImpact) -> bool:
    """Return whether an action that only supports an alert says what it is about: new, succeeded and more than minor.

    A notable one is named and does not count: beside harmless reads it is as frequent as beside an attack's.
    """
    return row.gravity not in ("none", "minor") and row.new and row.succeeded


def _counts_beside(row: ActionImpact) -> bool:
    """Return whether an action counts that only supports an alert."""
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
    """Return what sorts actions: by nats, gravity, whether they only support or read, success, calls and name."""
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
    """Return what an action's calls can do: of those whose requests do the gravest harm, how many and on what.

    Of a read that was called more often than ever all calls do it together; `most_ever` says how often that was, None for others.
    What was done with a credential outside of its networks is grave at least.
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
    """Return what a `service:Action` does that was called more often than ever; no impact of what reads no data."""
    from fingerprint.sources.active import SOURCE  # as in `judge_calls`

    service, _, action = name.partition(":")
    return SOURCE.bulk_read(service, action)


def _as_many(row: ActionImpact, done: int) -> ActionImpact:
    """Return an action, of whose calls so many succeeded: many of one that destroys are grave where it is new."""
    if not (row.new and row.technique in DESTROYING_TECHNIQUES and done >= MANY_DELETIONS):
        return row
    return replace(row, gravity=max(row.gravity, "grave", key=GRAVITIES.index))


def _resource_texts(
    events: Sequence[AlertEvent], outsiders: Mapping[str, tuple[str, ...]], other_accounts: Mapping[str, str]
) -> tuple[str, ...]:
    """Return what calls were made on, each once; roles of one name in seven accounts are one name, and the accounts.

    Where the other accounts are only named for it, as in a role's new trust policy, they are those that it is `for`: the
    `outsiders` that an event lets in, by its id. What gives a right to accounts and names no resource has these alone.

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
    """Return the accounts that a call names, and whether what it was made on lies `in` them or they are let in: `for` them.

    `account` is the one that it was made on or names; of those that are let in that one comes first.
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
