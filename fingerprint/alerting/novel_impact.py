"""The impact of an alert's events, weighed by what is new to its principal and who is strange to the organisation.

Example:
    >>> [(row.action, row.gravity, row.new) for row in find_impact(verdicts, events, novelty, explainer)]
    [('cloudtrail:StopLogging', 'severe', True)]

`impact` says what calls can do and how much that counts. The bank says which calls are new and which accounts are outsiders.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fingerprint.alerting import impact
from fingerprint.alerting.explainer import Explainer
from fingerprint.alerting.novelty import Novelty
from fingerprint.compute import frames, hashing
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import GRAVE_OR_SEVERE, GRAVITIES, ActionImpact, AlertEvent
from fingerprint.registry.bank import Bank
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import EVERYBODY, CallImpact
from fingerprint.state.event_batch import Verdicts


def find_impact(
    part: Verdicts,
    events: Sequence[AlertEvent],
    novelty: Novelty,
    explainer: Explainer,
    in_bulk: Mapping[str, str] = MappingProxyType({}),
    is_own: bool = False,
) -> tuple[ActionImpact, ...]:
    """Return the actions of events that can do harm (`impact.alert_impact`); `part` are the rows of the events.

    `in_bulk` says how often each action was called that was called more often than ever. `is_own`: the events are an alert's own,
    not supporting ones. Only own events are marked where a credential was used elsewhere, once for each alert.
    """
    judged = impact.judge_calls(events)
    grants = _outsider_grants(part, judged, explainer)
    own = _own_accounts(judged, explainer.bank)
    judged = [each.within(own) for each in judged]
    strange = _new_harm(events, judged, novelty)
    if is_own:
        judged, elsewhere = _used_elsewhere(events, judged, novelty, in_bulk)
        strange |= elsewhere
    return impact.alert_impact(
        events,
        novelty.actions,
        novelty.networks,
        _other_accounts(part.frame),
        frozenset(event.event_id for event in compress(events, grants)) | strange,
        judged,
        in_bulk,
    )


def _new_harm(events: Sequence[AlertEvent], judged: Sequence[CallImpact], novelty: Novelty) -> frozenset[str]:
    """Return the ids of grave or severe calls that are new though their action may be known.

    These are calls from a new network in a new region, and calls that are graver than their action is in itself because of
    parameters that the principal never gave.
    """
    strange = (novelty.networks.keys() & novelty.regions.keys()) - novelty.usual_places
    grave = (
        (event, found)
        for event, found in zip(events, judged, strict=True)
        if found.gravity in GRAVE_OR_SEVERE
    )
    return frozenset(
        event.event_id
        for event, found in grave
        if event.event_id in strange or (event.event_id in novelty.requests and _is_graver(event, found))
    )


def _used_elsewhere(
    events: Sequence[AlertEvent],
    judged: Sequence[CallImpact],
    novelty: Novelty,
    in_bulk: Collection[str] = (),
) -> tuple[list[CallImpact], frozenset[str]]:
    """Return the impact of events, with one action marked as done with a credential outside its networks, and that action's ids.

    Only one action is marked: many calls with one stolen credential are one theft. It is the gravest from the new place, and of
    equally grave ones the strangest. An action that was called `in_bulk` is taken last, because that is an effect of its own. No
    new place are: a service that calls for a machine, a new range of a known network, and a network that many others use.
    """
    usual = novelty.usual_places | novelty.usual_for_others | novelty.ranges
    away = {name for name, network in novelty.networks.items() if "/" in network} - usual
    found = {
        row: graver
        for row, (event, each) in enumerate(zip(events, judged, strict=True))
        if event.event_id in away and (graver := SOURCE.used_elsewhere(event.raw, each)) != each
    }
    if not found:
        return list(judged), frozenset()

    def order(row: int) -> tuple[bool, int, bool, bool, float]:
        event, gravity = events[row], GRAVITIES.index(judged[row].gravity)
        z = max(filter(None, event.scores.values()), default=0.0)
        name = event.action_name
        return name in in_bulk, -gravity, bool(event.error_code), name not in novelty.actions, -z

    action = events[min(found, key=order)].action_name
    found = {row: graver for row, graver in found.items() if events[row].action_name == action}
    return [found.get(row, each) for row, each in enumerate(judged)], frozenset(
        events[row].event_id for row in found
    )


def _is_graver(event: AlertEvent, found: CallImpact) -> bool:
    """Return whether its request makes a call graver than its action is in itself."""
    of_action = SOURCE.impact_of(event.service, event.action, "").gravity
    return GRAVITIES.index(found.gravity) > GRAVITIES.index(of_action)


def _own_accounts(judged: Sequence[CallImpact], bank: Bank) -> frozenset[str]:
    """Return the accounts that get a right from these events and whose logs the bank learned: they are no outsiders."""
    accounts = sorted({outsider for each in judged for outsider in each.outsiders})
    return frozenset(compress(accounts, bank.knows_account(hashing.hash_strings(np.array(accounts, object)))))


def _outsider_grants(part: Verdicts, judged: Sequence[CallImpact], explainer: Explainer) -> NDArray[np.bool_]:
    """Return a mask (N,) of the events that give a right to everybody or to an account that the history does not know."""
    out = np.array([EVERYBODY in each.outsiders for each in judged], bool)
    with_outsiders = np.flatnonzero([bool(each.outsiders) for each in judged])
    versions = np.asarray(frames.column_of(part.frame, "bank_version"), object)[with_outsiders]
    for version in set(versions.tolist()):
        rows = with_outsiders[versions == version]
        bank, _ = explainer.bank_and_rows(part.batch, rows)
        out[rows] |= bank.names_stranger(part.batch.codes[rows])
    return out


def _other_accounts(frame: Frame) -> dict[str, str]:
    """Return by event id the account that a call was made on, where it is not the account of the log."""
    ids, accounts = (frames.column_of(frame, name).tolist() for name in ("event_id", "target_account"))
    named = ((str(name), frames.text_or_empty(account)) for name, account in zip(ids, accounts, strict=True))
    return {name: account for name, account in named if account}
