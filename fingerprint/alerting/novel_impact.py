"""The impact of the events of an alert, by what of them is new to its principal and strange to the organisation.

Example:
    >>> [(row.action, row.gravity, row.new) for row in find_impact(verdicts, events, novelty, explainer)]
    [('cloudtrail:StopLogging', 'severe', True)]

`impact` says what calls can do and how much that counts; the bank says which of it is new, and who is an outsider.
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
    """Return what events can do by what of them is new, and how often what was called `in_bulk`; `part` are their rows.

    `is_own`: they are an alert's own, which say once that a credential was used elsewhere.
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
    """Return the ids of grave or severe calls that are new, whatever their action is.

    Those are calls that their request makes graver than their action by parameters that the principal never gave it, and calls
    from a network in a region that are both new.
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
    """Return what events can do, one action of them by its credential's new place, and the ids of these events.

    That one action is the gravest that came from there, of several the strangest, best none that was called `in_bulk`, which is
    an effect of its own: many calls with one stolen credential are one theft. A service that calls for a machine, a range of a
    known network, and one that many others use are no such place.
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
    """Return whether a call is graver by its request than its action is."""
    of_action = SOURCE.impact_of(event.service, event.action, "").gravity
    return GRAVITIES.index(found.gravity) > GRAVITIES.index(of_action)


def _own_accounts(judged: Sequence[CallImpact], bank: Bank) -> frozenset[str]:
    """Return the accounts that events give a right and whose own logs were learned: the organisation's, no outsiders."""
    accounts = sorted({outsider for each in judged for outsider in each.outsiders})
    return frozenset(compress(accounts, bank.knows_account(hashing.hash_strings(np.array(accounts, object)))))


def _outsider_grants(part: Verdicts, judged: Sequence[CallImpact], explainer: Explainer) -> NDArray[np.bool_]:
    """Return which events (N,) give a right to everybody, or to an account that no one of the history dealt with, nor is of."""
    out = np.array([EVERYBODY in each.outsiders for each in judged], bool)
    with_outsiders = np.flatnonzero([bool(each.outsiders) for each in judged])
    versions = np.asarray(frames.column_of(part.frame, "bank_version"), object)[with_outsiders]
    for version in set(versions.tolist()):
        rows = with_outsiders[versions == version]
        bank, _ = explainer.bank_and_rows(part.batch, rows)
        out[rows] |= bank.names_stranger(part.batch.codes[rows])
    return out


def _other_accounts(frame: Frame) -> dict[str, str]:
    """Return the account that each event was made on, by id, where that is not the one of its log."""
    ids, accounts = (frames.column_of(frame, name).tolist() for name in ("event_id", "target_account"))
    named = ((str(name), frames.text_or_empty(account)) for name, account in zip(ids, accounts, strict=True))
    return {name: account for name, account in named if account}
