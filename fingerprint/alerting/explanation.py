"""Verdicts -> alerts: grouped, explained, with an urgency.

Example:
    >>> for alert in build_alerts(scored.batch, scored.frame, explainer):
    ...     print(alert.urgency, alert.rarity, alert.impact, alert.title)
    90 84 75 alice@example.com called iam:CreateAccessKey and 4 other new actions from 198.51.100.0/24 (new network)

Rarity is how rare the alert is as a whole: of each of its distinct actions the highest z of the calibrated detectors, as nats
of a tail probability (`tail_calibration`), the most unusual action first and each further one with a fading weight, the sum
scaled by `CALIBRATION`. So it means the same for every principal. To its nats those of the impact are added (`impact`): what
the calls can do that were new. The sum, mapped to 0 ... 100, is the urgency, and no urgency falls while its alert grows. A
fingerprint that had to fall back knows less, so its urgency is capped. The title of an alert about a principal without a
history of counts says when it was first seen, and that only its peers are a measure for it.

What drove an alert is explained by the detectors themselves (`Detector.drivers`, `Detector.curve`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.alerting import impact, titles
from fingerprint.alerting.prevalence import feature_labels
from fingerprint.alerting.title_facts import ACTION_FEATURE, AMOUNT_FEATURE, PROGRAM_FEATURE, TitleFacts
from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import identity_placement
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import (
    MANY_PRINCIPALS,
    ActionImpact,
    ActivityCurve,
    Alert,
    AlertEvent,
    Level,
    SurpriseDriver,
    made_beside,
    threshold_column,
    vote_column,
    z_column,
)
from fingerprint.core.attack_tools import is_made_for_attacks
from fingerprint.core.incident import NEW_RARITIES
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors import (
    calibrated_detectors,
    interval_detectors,
    load_known_detectors,
    newcomer_rows,
)
from fingerprint.estimators import sequence, tail_calibration
from fingerprint.estimators.amounts import UsualAmounts, read_amount_text, span_text
from fingerprint.features import encoding
from fingerprint.features.encoding import ACTION_COLUMN, FEATURE_NAMES
from fingerprint.registry.bank import PEER_LEVEL, Bank
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import EVERYBODY, TACTICS, CallImpact, Suspicion
from fingerprint.state.activity_series import ActivitySeries
from fingerprint.state.event_batch import EventBatch, Verdicts
from fingerprint.state.interval_amounts import IntervalAmounts
from fingerprint.state.scorer_state import ScorerState

URGENCY_CAP: dict[Level, int] = {"entity": 100, "principal": 100, "peer": 85, "generic": 70}
NEXT_ACTION_WEIGHT = 0.3  # of an alert's next unusual action, beside the one before
MAX_ACTIONS = 10  # that count
# With it the strongest harmless alerts have as many nats as their most unusual events; measured on three worlds, 0.70 to 0.78.
CALIBRATION = 0.72
MAX_DRIVERS = 10  # values shown, before new networks
# Of them, the actions that can do the gravest harm, before the most surprising values.
MAX_LEADING_DRIVERS = 3
EVENT_TEXTS = ("region", "source_address", "user_agent", "error_code", "session", "access_key", "resource")
NETWORKS = ("network", "address")  # the wider one first
PLACES = (*NETWORKS, "region")
RESOURCE_FEATURE = "resource"
MAX_ROLES = 50  # of one person, whose places are looked at
PROGRAM, VERSION = "program", "version"
PROGRAM_COLUMN, VERSION_COLUMN = (FEATURE_NAMES.index(name) for name in (PROGRAM, VERSION))
NETWORK_COLUMN, RANGE_COLUMN = (FEATURE_NAMES.index(name) for name in NETWORKS)
PLACE_COLUMNS = [FEATURE_NAMES.index(name) for name in PLACES]


class Support(NamedTuple):
    """The events that support an alert, oldest first, with records, and what of it was new and can do harm, the gravest first.

    `usual` are the other actions that changed something, which belong to an alert where they were made beside its own events.
    """

    events: tuple[AlertEvent, ...] = ()
    actions: tuple[ActionImpact, ...] = ()
    usual: tuple[ActionImpact, ...] = ()

    def actions_beside(self, events: Sequence[AlertEvent]) -> tuple[ActionImpact, ...]:
        """Return what was new, and what else the session of an alert's events changed in the same minutes."""
        beside = {event.action_name for event in made_beside(events, self.events)}
        return (*self.actions, *(row for row in self.usual if row.action in beside))


NOTHING_SUPPORTS: Mapping[str, Support] = {}


@dataclass(frozen=True)
class Explainer:
    """The context that alerts are explained from: the bank, the earlier banks (by version) of pending events, and the state."""

    bank: Bank
    state: ScorerState
    settings: Settings
    previous_banks: Mapping[str, Bank] = field(default_factory=dict)

    @property
    def series(self) -> ActivitySeries:
        """The activity series."""
        return self.state.series

    @property
    def interval_amounts(self) -> IntervalAmounts:
        """The calls of each action in the last days' intervals."""
        return self.state.interval_amounts

    def bank_and_rows(self, batch: EventBatch, rows: NDArray[np.intp]) -> tuple[Bank, NDArray[np.int32]]:
        """Return the bank that measured events of one version, and the rows of their fingerprints, (R,).

        The current bank stands in for one that is no longer loaded.
        """
        version = frames.column_of(batch.frame, "bank_version")[rows[0]]
        if version == self.bank.version or version in self.previous_banks:
            return self.previous_banks.get(version, self.bank), batch.fingerprint[rows]
        return self.bank, self.bank.resolve(
            batch.entity[rows], batch.principal[rows], frames.select_rows(batch.frame, rows)
        )[0]

    def bank_and_row(self, batch: EventBatch, row: int) -> tuple[Bank, NDArray[np.int32]]:
        """Return the bank that measured the event at a row, and the row of its fingerprint, (1,)."""
        return self.bank_and_rows(batch, np.array([row]))


def build_alerts(
    batch: EventBatch,
    frame: Frame,
    explainer: Explainer,
    support: Mapping[str, Support] = NOTHING_SUPPORTS,
) -> Iterator[Alert]:
    """Build an alert for every `alert_id` of the verdicts in a scored batch, in order of first event.

    `support` are other events by `alert_id`: title, impact, tactics and next steps name them. Rarity does not count them; of the
    impact they make what was grave, new and succeeded.
    """
    for name, verdicts, events in _alert_after_alert(batch, frame, frame["alert_id"].where(frame["verdict"])):
        yield _build_alert(name, verdicts, events, explainer, support.get(name, Support()))


def find_support(supporting: Verdicts, explainer: Explainer) -> dict[str, Support]:
    """Return what supports alerts, by `alert_id`."""
    batch, frame = supporting
    return {
        name: Support(events, *_find_new_actions(part, events, explainer))
        for name, part, events in _alert_after_alert(batch, frame, frame["alert_id"])
    }


def _find_new_actions(
    part: Verdicts, events: Sequence[AlertEvent], explainer: Explainer
) -> tuple[tuple[ActionImpact, ...], tuple[ActionImpact, ...]]:
    """Return what was new of supporting events and can do harm, and what else changed something that is more than minor."""
    novelty = find_novelty(*part, [event.action_name for event in events], explainer)
    found = _find_impact(part, events, novelty, explainer)
    actions = _count_deletions(found, part, [event.action_name for event in events], explainer)
    new = tuple(row for row in actions if row.is_unusual)
    others = (row for row in actions if row not in new and row.gravity != "minor" and row.succeeded)
    return new, tuple(row for row in others if SOURCE.changes_something(row.action.partition(":")[2]))


def _count_deletions(
    actions: Sequence[ActionImpact], part: Verdicts, names: Sequence[str], explainer: Explainer
) -> list[ActionImpact]:
    """Return the actions; one that destroys says how often it was called in an interval whose activity a detector flagged.

    Of such a burst one event may support an alert, and the others have no vote of their own. `names` (N,) are those of `part`.
    """
    batch, frame = part
    votes = [vote_column(name) for name in interval_detectors(batch.evidence)]
    flagged = [frames.true_mask(frames.column_of(frame, name)) for name in votes if name in frame]
    rows = np.flatnonzero(np.any(flagged, axis=0)) if flagged else np.empty(0, np.intp)
    calls = explainer.interval_amounts.count(
        batch.principal[rows], batch.interval[rows], batch.codes[rows, ACTION_COLUMN]
    )
    most: dict[str, int] = {}
    for row, count in zip(rows.tolist(), calls.tolist(), strict=True):
        most[names[row]] = max(count, most.get(names[row], 0))
    span = span_text(explainer.settings.spectral.interval_seconds)
    return [
        replace(row, effect=f"{row.effect}, {most[row.action]:,} times in {span}")
        if row.technique in impact.DESTROYING_TECHNIQUES and most.get(row.action, 0) > row.calls
        else row
        for row in actions
    ]


def _find_impact(
    part: Verdicts,
    events: Sequence[AlertEvent],
    novelty: Novelty,
    explainer: Explainer,
    in_bulk: Collection[str] = (),
) -> tuple[ActionImpact, ...]:
    """Return what events can do by what of them is new, and what was called `in_bulk`; `part` are their rows."""
    judged = impact.judge_calls(events)
    grants = _outsider_grants(part, judged, explainer)
    own = _own_accounts(judged, explainer.bank)
    return impact.alert_impact(
        events,
        novelty.actions,
        novelty.networks,
        _other_accounts(part.frame),
        frozenset(event.event_id for event in compress(events, grants)),
        [each.within(own) for each in judged],
        in_bulk,
    )


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


def _alert_after_alert(
    batch: EventBatch, frame: Frame, alert_id: pd.Series
) -> Iterator[tuple[str, Verdicts, tuple[AlertEvent, ...]]]:
    """Yield the id of each alert, its rows, oldest first, and these as events; `alert_id` (N,) is missing for those of none."""
    alert, names = pd.factorize(alert_id)
    order = _sort_by_time(frame, np.flatnonzero(alert >= 0))
    order = order[np.argsort(alert[order], kind="stable")]
    together = Verdicts(batch, frame).take(order)
    events = tuple(_alert_events(*together))
    end = 0
    for name, size in zip(
        map(str, names), np.bincount(alert[order], minlength=len(names)).tolist(), strict=True
    ):
        rows = slice(end, end := end + size)
        yield name, together.between(rows), events[rows]


def _sort_by_time(frame: Frame, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return rows in the order of time, ties by id: the order of arrival must not change an alert."""
    ids, times = (frame[name].take(rows) for name in ("event_id", "event_time"))
    return rows[np.lexsort((ids.to_numpy(object), times.to_numpy()))]


class _Rank(NamedTuple):
    """The urgency of an alert, and what it is made of: 0 to 100 each."""

    urgency: int
    rarity: int
    impact: int


def _build_alert(
    alert_id: str, verdicts: Verdicts, events: tuple[AlertEvent, ...], explainer: Explainer, support: Support
) -> Alert:
    batch, frame = verdicts
    z, names = highest_calibrated_z(batch, frame), [event.action_name for event in events]
    facts = _gather_facts(verdicts, events, names, z, explainer, support)
    level, interval = _most_common_level(frame), explainer.settings.spectral.interval_seconds
    actions = impact.with_support(facts.actions, facts.supporting_actions)
    rank = _rank_alert(alert_nats(z, names), actions, URGENCY_CAP[level], facts.drivers)
    principal, lead = _principal(frame), facts.leading_row
    times = frame["event_time"].iloc[[0, -1]]
    return Alert(
        alert_id=alert_id,
        principal=principal,
        human=facts.humans[lead],
        window_start=times.iloc[0].floor(f"{interval}s").to_pydatetime(),
        first_event_time=times.iloc[0].to_pydatetime(),
        last_event_time=times.iloc[1].to_pydatetime(),
        urgency=rank.urgency,
        rarity=rank.rarity,
        impact=rank.impact,
        impact_of=actions[: impact.MAX_SHOWN_ACTIONS],
        title=titles.build_title(principal, facts),
        level=level,
        bank_version=events[-1].bank_version,
        drivers=shown_drivers(facts.drivers),
        curve=_find_curve(batch, frame, explainer),
        tactics=_find_tactics(events, facts),
        next_steps=SOURCE.next_steps(_suspicion(principal, facts, actions, lead, rank.urgency)),
        events=events,
        degraded="degraded" in frame and bool(frames.true_mask(frames.column_of(frame, "degraded")).any()),
        supporting_events=tuple(replace(event, raw="") for event in facts.supporting),
    )


def _gather_facts(
    verdicts: Verdicts,
    events: tuple[AlertEvent, ...],
    names: Sequence[str],
    z: NDArray[np.float64],
    explainer: Explainer,
    support: Support,
) -> TitleFacts:
    """Return what title and next steps say of an alert's events (N,); `names` (N,) are their actions, `z` (N,) how strange."""
    batch, frame = verdicts
    novelty = find_novelty(batch, frame, names, explainer)
    drivers = _find_drivers(batch, frame, explainer)
    own = _find_impact(verdicts, events, novelty, explainer, called_most(drivers, names))
    actions, supporting_actions = impact.count_together(
        own, support.actions_beside(events), counted_calls(drivers, names)
    )
    first_seen, in_history = _first_seen(batch, frame, explainer)
    elsewhere = find_elsewhere(batch, frame, names, novelty.ranges, explainer)
    return TitleFacts(
        events,
        _lead_with_impact(drivers, actions),
        actions,
        novelty.actions,
        ranked=tuple(dict.fromkeys(names[row] for row in np.argsort(-z, kind="stable"))),
        humans=_find_humans(frame, events, support),
        programs=_feature_texts(batch, frame, PROGRAM),
        versions=_feature_texts(batch, frame, VERSION),
        new_networks=novelty.networks,
        new_regions=novelty.regions,
        new_ranges=novelty.ranges,
        usual_for_others=novelty.usual_for_others,
        usual_places=novelty.usual_places,
        actions_elsewhere=elsewhere.actions,
        networks_elsewhere=elsewhere.networks,
        tools_elsewhere=elsewhere.tools,
        here=titles.new_at(_principal(frame)),
        supporting=support.events,
        supporting_actions=supporting_actions,
        first_seen=first_seen,
        in_history=in_history,
        is_learned=bool((batch.level < PEER_LEVEL).any()),
        late_days=_late_days(frame),
        knows_account=_knows_account(batch, frame, explainer),
    )


def _find_humans(frame: Frame, events: Sequence[AlertEvent], support: Support) -> list[str]:
    """Return the person or machine behind each event (N,): the one of an id by name, where a record of the alert says it."""
    humans, principal = _texts(frame, "human"), _principal(frame)
    name = SOURCE.signed_in_as(principal, (event.raw for event in (*events, *support.events)))
    return [name or human for human in humans]


def counted_calls(drivers: Sequence[SurpriseDriver], names: Sequence[str]) -> dict[str, int]:
    """Return how often actions were called in an interval, where that drives an alert; `names` are `service:Action`.

    >>> counted_calls([SurpriseDriver("amount", "2,006 calls of s3:GetObject in an hour", ...)], ["s3:GetObject"])
    {'s3:GetObject': 2006}
    """
    seen = [driver.seen for driver in drivers if driver.feature == AMOUNT_FEATURE]
    read = ((name, read_amount_text(text, name)) for name in set(names) for text in seen)
    return {name: int(amount[0].replace(",", "")) for name, amount in read if amount}


def called_most(drivers: Sequence[SurpriseDriver], names: Sequence[str]) -> frozenset[str]:
    """Return the actions that were called more often than ever, where that drives an alert; `names` are `service:Action`.

    >>> amount = SurpriseDriver("amount", "239 calls of s3:GetObject in an hour", "at most 46 before", "unseen", 9.2)
    >>> called_most([amount], ["s3:GetObject", "s3:ListObjects"])
    frozenset({'s3:GetObject'})
    """
    return frozenset(counted_calls([each for each in drivers if each.rarity == "unseen"], names))


def unusual_calls(drivers: Sequence[SurpriseDriver], names: Sequence[str]) -> frozenset[str]:
    """Return which actions were called more often than is usual, or on unusual resources; `names` are `service:Action`.

    >>> named = SurpriseDriver("resource", "secretsmanager:GetSecretValue on secret:db", "secret:own", "unseen", 4.0)
    >>> unusual_calls([named], ["secretsmanager:GetSecretValue", "s3:GetObject"])
    frozenset({'secretsmanager:GetSecretValue'})
    """
    on = [each.seen for each in drivers if each.feature == RESOURCE_FEATURE and each.rarity in NEW_RARITIES]
    touched = (name for name in names if any(text.startswith(f"{name} on ") for text in on))
    return frozenset((*counted_calls(drivers, names), *touched))


def _rank_alert(
    nats: float, actions: Sequence[ActionImpact], cap: int, drivers: Sequence[SurpriseDriver]
) -> _Rank:
    """Return the urgency of an alert that is so rare and whose calls can do that, at most `cap`."""
    rarity = min(round(impact.urgency_from_nats(nats)), cap)
    return _Rank(impact.combined_urgency(nats, actions, cap, drivers), rarity, impact.impact_score(actions))


def _suspicion(
    principal: str, facts: TitleFacts, actions: Sequence[ActionImpact], lead: int, urgency: int
) -> Suspicion:
    """Return what the next steps are made from; `actions` are also those of the supporting events, `lead` is a row."""
    return Suspicion(
        principal,
        facts.humans[lead],
        facts.events,
        actions,
        urgency,
        titles.questioned(facts),
        facts.first_seen,
        lead=facts.events[lead],
        supporting=facts.supporting,
        new_regions=facts.new_regions,
        knows_account=facts.knows_account,
        from_new_origin=_has_new_origin(facts),
        new_origins={
            event.event_id: origin
            for row, event in enumerate(facts.events)
            if (origin := titles.new_origin(facts, row))
        },
        unusual_calls=unusual_calls(facts.drivers, facts.ranked),
    )


def _find_tactics(events: Sequence[AlertEvent], facts: TitleFacts) -> tuple[str, ...]:
    """Return the tactics of what an alert's calls do, in the order of the matrix; a read has one where it is in bulk."""
    found = {*SOURCE.tactics_among(_telling_calls(events, facts))}
    found |= {row.tactic for row in facts.actions if row.in_bulk}
    return tuple(tactic for tactic in TACTICS if tactic in found)


def _telling_calls(events: Sequence[AlertEvent], facts: TitleFacts) -> list[tuple[str, str]]:
    """Return the (service, action) of an alert's events, and of the supporting ones that say what it is about."""
    beside = {row.action for row in facts.supporting_actions if impact.is_named_beside(row)}
    supporting = (event for event in facts.supporting if event.action_name in beside)
    return [(event.service, event.action) for event in (*events, *supporting)]


def _has_new_origin(facts: TitleFacts) -> bool:
    """Return whether calls came from a new network, other than another range of a known one, or with a new tool."""
    tools = (each.rarity for each in facts.drivers if each.feature == PROGRAM_FEATURE)
    return not facts.new_networks.keys() <= set(facts.new_ranges) or "unseen" in tools


def alert_nats(z: NDArray[np.float64], actions: Sequence[str]) -> float:
    """Return how rare the events of an alert are together, in nats of a tail probability.

    `z` (N,) are the events' highest of calibrated detectors, -inf for no opinion, and `actions` (N,) their actions.
    """
    strongest: dict[str, float] = {}
    for action, nats in zip(actions, tail_calibration.z_to_nats(z).tolist(), strict=True):
        strongest[action] = max(nats, strongest.get(action, 0.0))
    return combined_nats(np.array(sorted(strongest.values(), reverse=True)[:MAX_ACTIONS]))


def combined_nats(nats: NDArray[np.float64]) -> float:
    """Return the nats of actions (K,), the most unusual first, as those of one alert."""
    return float(CALIBRATION * (np.nan_to_num(nats) * NEXT_ACTION_WEIGHT ** np.arange(len(nats))).sum())


def highest_calibrated_z(batch: EventBatch, frame: Frame) -> NDArray[np.float64]:
    """Return each event's highest z of the calibrated detectors (N,), -inf where none of them has an opinion."""
    columns = [z_column(name) for name in calibrated_detectors(batch.evidence)]
    z = [np.asarray(frames.column_of(frame, name), float) for name in columns] or [
        np.full(len(frame), np.nan)
    ]
    return np.nan_to_num(np.column_stack(z), nan=-np.inf, posinf=np.inf).max(axis=1)


def _find_drivers(batch: EventBatch, frame: Frame, explainer: Explainer) -> list[SurpriseDriver]:
    """Return the values that the detectors found most surprising, strongest first.

    That an action which is new comes as the first of its session says only once more that it is new.
    """
    found = [
        driver
        for detector in load_known_detectors(batch.evidence)
        for driver in detector.drivers(batch, frame, explainer)
    ]
    new = (each.seen for each in found if (each.feature, each.rarity) == (ACTION_FEATURE, "unseen"))
    repeated = {f"{action} {sequence.FIRST_TEXT}" for action in new}
    return sorted((each for each in found if each.seen not in repeated), key=lambda driver: -driver.surprise)


class Novelty(NamedTuple):
    """The actions (`service:Action`) of an alert that its principal never called, its events' new networks and regions, by id.

    `ranges` are the ids of those of the networks that are new address ranges of a network that the principal used before;
    `usual_for_others` of those whose address range many principals used in the history; `usual_places` of those whose principal
    comes from new ones all the time, so that another is nothing strange. Such a region is not among `regions`.
    Never is: not in what the bank learned. What began after the training stays new until the next one, so that a thief who comes
    again the next day is still one.
    """

    actions: frozenset[str]
    networks: Mapping[str, str]
    regions: Mapping[str, str]
    ranges: frozenset[str]
    usual_for_others: frozenset[str]
    usual_places: frozenset[str]


def find_novelty(batch: EventBatch, frame: Frame, names: Sequence[str], explainer: Explainer) -> Novelty:
    """Return what of an alert's events is new to their principal; `names` (N,) are their actions."""
    key = np.column_stack(
        [
            batch.fingerprint.astype(np.uint64),
            batch.principal,
            batch.codes[:, [ACTION_COLUMN, *PLACE_COLUMNS]],
        ]
    )
    versions = np.asarray(frames.column_of(frame, "bank_version"), object)
    unseen = np.zeros((len(frame), 1 + len(PLACE_COLUMNS)), bool)
    usual, often = np.zeros(len(frame), bool), np.zeros((len(frame), len(PLACE_COLUMNS)), bool)
    principal = _principal(frame)
    for version in set(versions.tolist()):
        of_version = np.flatnonzero(versions == version)
        _, first, inverse = np.unique(key[of_version], axis=0, return_index=True, return_inverse=True)
        new = _new_to_principal(batch, of_version[first], explainer, principal)
        unseen[of_version] = new[inverse.reshape(-1)]
        usual[of_version] = _is_usual_range(batch, of_version[first], explainer)[inverse.reshape(-1)]
        often[of_version] = _often_new(batch, of_version[first], explainer)[inverse.reshape(-1)]
    new_networks = unseen[:, 1 : 1 + len(NETWORKS)]
    named = new_networks.argmax(axis=1)  # the wider one that is new
    ids = list(map(str, frames.column_of(frame, "event_id").tolist()))
    return Novelty(
        frozenset(compress(names, unseen[:, 0])),
        _new_networks(batch, frame, new_networks),
        _new_regions(frame, unseen[:, -1] & ~often[:, -1]),
        frozenset(compress(ids, new_networks[:, -1] & ~new_networks[:, 0])),
        frozenset(compress(ids, new_networks.any(axis=1) & usual)),
        frozenset(compress(ids, new_networks.any(axis=1) & often[np.arange(len(often)), named])),
    )


def _is_usual_range(batch: EventBatch, rows: NDArray[np.intp], explainer: Explainer) -> NDArray[np.bool_]:
    """Return whether many principals of the history used the address range of one version's events, (R,)."""
    bank, _ = explainer.bank_and_rows(batch, rows)
    used: NDArray[np.float32] = bank.principals_that_showed(batch.codes[rows])[:, RANGE_COLUMN]
    return used > MANY_PRINCIPALS


def _often_new(batch: EventBatch, rows: NDArray[np.intp], explainer: Explainer) -> NDArray[np.bool_]:
    """Return of which places (PLACE_COLUMNS) the principal of one version's events comes to new ones all the time, (R, places).

    None of a principal without a fingerprint of its own: what is usual of its peers need not be of it.
    """
    bank, at = explainer.bank_and_rows(batch, rows)
    whole = np.where(bank.whole[at] >= 0, bank.whole[at], at)
    known = batch.level[rows] < PEER_LEVEL
    often: NDArray[np.bool_] = bank.vocabulary.novelty_is_usual(whole)[:, PLACE_COLUMNS] & known[:, None]
    return often


def _new_regions(frame: Frame, unseen: NDArray[np.bool_]) -> dict[str, str]:
    """Return the region of each event in a new one, by id; `unseen` (N,) are those."""
    ids, regions = (
        np.asarray(frames.column_of(frame, name), object)[unseen].tolist() for name in ("event_id", "region")
    )
    return {str(name): frames.text_or_empty(region) for name, region in zip(ids, regions, strict=True)}


def _new_networks(batch: EventBatch, frame: Frame, unseen: NDArray[np.bool_]) -> dict[str, str]:
    """Return the network of each event from a new one, by id: the wider of its NETWORKS (N, networks) that is `unseen`."""
    rows = np.flatnonzero(unseen.any(axis=1))
    if not len(rows):
        return {}
    place = unseen[rows].argmax(axis=1)
    codes = batch.codes[rows, np.array(PLACE_COLUMNS)[place]]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    texts = encoding.FEATURE_SET.texts(frames.select_rows(frame, rows[first]), NETWORKS)
    named = [frames.text_or_empty(texts[NETWORKS[of]][at]) for at, of in enumerate(place[first].tolist())]
    ids = np.asarray(frames.column_of(frame, "event_id"), object)[rows]
    return {str(name): named[at] for name, at in zip(ids, inverse.reshape(-1).tolist(), strict=True)}


def _feature_texts(batch: EventBatch, frame: Frame, name: str) -> list[str]:
    """Return the value of a feature that each event has, (N,), empty for none, as of the program that it names."""
    codes = batch.codes[:, FEATURE_NAMES.index(name)]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    texts = encoding.FEATURE_SET.texts(frames.select_rows(frame, first), (name,))[name]
    return [frames.text_or_empty(texts[at]) for at in inverse.reshape(-1).tolist()]


def _new_to_principal(
    batch: EventBatch, rows: NDArray[np.intp], explainer: Explainer, principal: str
) -> NDArray[np.bool_]:
    """Return whether action and places (PLACE_COLUMNS) of one version's events are new to their principal, (R, 1 + places).

    A place is one of the principal, whichever service it was used with. A principal that was not learned is known for no places:
    those are compared with what its peers use, and of a person also with what the same one used at other roles.
    """
    bank, at = explainer.bank_and_rows(batch, rows)
    codes, stranger = batch.codes[rows], batch.level[rows] >= PEER_LEVEL
    whole = np.where(bank.whole[at] >= 0, bank.whole[at], at)
    unseen, unseen_anywhere = (bank.vocabulary.observed_share(each, codes) == 0 for each in (at, whole))
    action, places = unseen[:, ACTION_COLUMN], (unseen & unseen_anywhere)[:, PLACE_COLUMNS]
    if stranger.any():
        places[stranger] &= _new_to_person(codes[stranger], bank.same_person(principal)[1], bank)
        known = UsualAmounts.from_arrays(bank.scorer_state, identity_placement)
        action[stranger] = known.is_new(batch.principal[rows], codes[:, ACTION_COLUMN])[stranger]
    columns = [ACTION_COLUMN, *PLACE_COLUMNS]
    silent = np.array([encoding.CODES_WITHOUT_EVIDENCE.get(at, hashing.MISSING) for at in columns], np.uint64)
    says = (codes[:, columns] != hashing.MISSING) & (codes[:, columns] != silent)
    return np.column_stack([action, places]) & says


def _new_to_person(codes: Hashes, others: NDArray[np.int32], bank: Bank) -> NDArray[np.bool_]:
    """Return whether places of events (R, F) were used at none of a person's `others` (K,), fingerprints at other roles."""
    if not len(others):
        return np.ones((len(codes), len(PLACE_COLUMNS)), bool)
    at, each = np.tile(others[:MAX_ROLES], len(codes)), np.repeat(codes, len(others[:MAX_ROLES]), axis=0)
    shares = bank.vocabulary.observed_share(at, each)[:, PLACE_COLUMNS]
    new: NDArray[np.bool_] = (shares.reshape(len(codes), -1, len(PLACE_COLUMNS)) == 0).all(axis=1)
    return new


class Elsewhere(NamedTuple):
    """The part of an alert that is new at this role only: its person called, came from and used it at another one."""

    actions: frozenset[str] = frozenset()  # `service:Action`
    networks: frozenset[str] = frozenset()  # of events, by id
    tools: frozenset[str] = frozenset()  # programs and versions


def find_elsewhere(
    batch: EventBatch, frame: Frame, names: Sequence[str], ranges: Collection[str], explainer: Explainer
) -> Elsewhere:
    """Return what of an alert's events its person is known for at other roles; `names` (N,) are their actions.

    `ranges` are the ids of events whose address range is new, and not their network.
    """
    ids = [*map(str, frames.column_of(frame, "event_id").tolist())]
    versions = np.asarray(frames.column_of(frame, "bank_version"), object)
    columns = [ACTION_COLUMN, NETWORK_COLUMN, RANGE_COLUMN, PROGRAM_COLUMN, VERSION_COLUMN]
    known = np.zeros((len(frame), len(columns)), bool)
    for version in set(versions.tolist()):
        rows = np.flatnonzero(versions == version)
        bank, _ = explainer.bank_and_rows(batch, rows)
        others = bank.same_person(_principal(frame))[1][:MAX_ROLES]
        for place, column in enumerate(columns if len(others) else []):
            known[rows, place] = _used_at(bank, others, column, batch.codes[rows, column])
    tools = {
        text
        for place, name in ((3, PROGRAM), (4, VERSION))
        if known[:, place].any()
        for text in compress(_feature_texts(batch, frame, name), known[:, place])
    }
    in_range = np.array([name in ranges for name in ids], bool)
    return Elsewhere(
        frozenset(compress(names, known[:, 0])),
        frozenset(compress(ids, np.where(in_range, known[:, 2], known[:, 1]))),
        frozenset(tools),
    )


def _used_at(bank: Bank, fingerprints: NDArray[np.int32], column: int, codes: Hashes) -> NDArray[np.bool_]:
    """Return which values of a feature (R,) any of the fingerprints (K,) was seen with."""
    distinct, inverse = np.unique(codes, return_inverse=True)
    each, of = np.repeat(fingerprints, len(distinct)), np.tile(distinct, len(fingerprints))
    counts = bank.vocabulary.count_of(each, column, of).reshape(len(fingerprints), -1)
    used: NDArray[np.bool_] = np.any(counts > 0, axis=0)
    return used[inverse.reshape(-1)]


def _lead_with_impact(
    drivers: Sequence[SurpriseDriver], actions: Sequence[ActionImpact]
) -> list[SurpriseDriver]:
    """Return the drivers with the few new actions that can do the gravest harm first, then the most surprising new action.

    The others follow by surprise, MAX_DRIVERS of a feature.
    """
    graver = {row.action: place for place, row in enumerate(actions) if impact.action_nats(row) > 0}
    new = [each for each in drivers if (each.feature, each.rarity) == (ACTION_FEATURE, "unseen")]
    leading = sorted((each for each in new if each.seen in graver), key=lambda driver: graver[driver.seen])[
        :MAX_LEADING_DRIVERS
    ]
    if leading and new[0] not in leading:
        leading.append(new[0])
    others: dict[str, list[SurpriseDriver]] = {}
    for driver in drivers:
        if driver not in leading:
            others.setdefault(driver.feature, []).append(driver)
    few = [driver for same in others.values() for driver in same[:MAX_DRIVERS]]
    return [*leading, *sorted(few, key=lambda driver: -driver.surprise)]


def shown_drivers(drivers: Sequence[SurpriseDriver]) -> tuple[SurpriseDriver, ...]:
    """Return the first MAX_DRIVERS of an alert, and all networks and address ranges that are new, and tools made for attacks.

    However many values are stranger than where it came from, a reader sees that, and alerts from there are linked by it.

    Example:
        >>> action, network = (SurpriseDriver(name, "x", "", "unseen", 9.0) for name in ("action", "network"))
        >>> [each.feature for each in shown_drivers([*[action] * 20, network])][-2:]
        ['action', 'network']
    """
    networks = feature_labels(NETWORKS)
    return tuple(
        each
        for place, each in enumerate(drivers)
        if place < MAX_DRIVERS
        or (each.feature in networks and each.rarity in NEW_RARITIES)
        or (each.feature == PROGRAM_FEATURE and is_made_for_attacks(each.seen))
    )


def _find_curve(batch: EventBatch, frame: Frame, explainer: Explainer) -> ActivityCurve | None:
    """Return the activity curve of the first detector that has one."""
    detectors = load_known_detectors(batch.evidence)
    curves = (detector.curve(batch, frame, explainer) for detector in detectors)
    return next((curve for curve in curves if curve is not None), None)


def _most_common_level(frame: Frame) -> Level:
    """Return the level of most events, of two the one that came first."""
    [(level, _)] = Counter(frames.column_of(frame, "level").tolist()).most_common(1)
    most_common: Level = level
    return most_common


def _principal(frame: Frame) -> str:
    """Return the principal of an alert's events."""
    return str(frames.column_of(frame, "principal")[0])


def _texts(frame: Frame, name: str) -> list[str]:
    """Return the texts of a column, (N,), empty for a missing one."""
    return [frames.text_or_empty(value) for value in frames.column_of(frame, name).tolist()]


# --- texts --------------------------------------------------------------------------------------------------------------


def _first_seen(batch: EventBatch, frame: Frame, explainer: Explainer) -> tuple[str, bool]:
    """Return how long before an alert a newcomer was first seen, and whether the history has any of it.

    The text is empty for a principal that is judged by its own history.
    """
    counted = [z_column(name) for name in interval_detectors(batch.evidence)]
    forecast = ~newcomer_rows(frame)
    if (batch.level < PEER_LEVEL).any() or not counted:
        return "", True
    if any((frames.present_mask(frames.column_of(frame, name)) & forecast).any() for name in counted):
        return "", True
    bank, _ = explainer.bank_and_row(batch, 0)
    principal = _principal(frame)
    known = titles.known_at(principal, bank.same_person(principal)[0])
    span = (
        int(batch.first_seen.min()),
        int(batch.interval.min()),
        int(bank.manifest["trained_until"]),
        explainer.settings.spectral.interval_seconds,
    )
    text = first_seen_text(
        *span,
        titles.access_text(principal, known),
        titles.access_text(known, principal),
        _knows_account(batch, frame, explainer)
        or bool(bank.knows_account(hashing.hash_strings(frames.column_of(frame, "recipient_account"))).any()),
    )
    return text, history_hours(*span) > 0


def history_hours(first: int, now: int, learned_until: int, seconds: int) -> int:
    """Return how many hours before `now` the history has of a newcomer; the arguments are those of `first_seen_text`.

    >>> history_hours(first=100, now=133, learned_until=124 * 3600, seconds=3600)
    24
    """
    past = round((learned_until - first * seconds) / 3600) if (first + 1) * seconds <= learned_until else 0
    return max(min(past, (now - first) * seconds // 3600), 0)


def first_seen_text(
    first: int,
    now: int,
    learned_until: int,
    seconds: int,
    access: str = "",
    known: str = "",
    knows_account: bool = True,
) -> str:
    """Return when a newcomer was first seen, and how much of it the history has, up to `learned_until` (seconds since 1970).

    `first` and `now` number intervals of so many `seconds`. What has just begun when the history ends is not in it. Of a person
    at a role, `access`, the history may have the same person at others, `known`. `knows_account`: it has the account of the log.

    >>> first_seen_text(first=100, now=133, learned_until=124 * 3600, seconds=3600)
    'first seen 33 hours before; the history has its first 24 hours'
    >>> first_seen_text(24, 24, 24 * 3600, 3600, "Support", known="Developer")
    'new at Support, known at Developer; first seen in the same hour'
    >>> first_seen_text(24, 24, 24 * 3600, 3600, knows_account=False)
    'not in the history, nor is its account; first seen in the same hour'
    """
    hours = (now - first) * seconds // 3600
    learned = history_hours(first, now, learned_until, seconds)
    before = f"{hours} hour{'s' * (hours > 1)} before" if hours else "in the same hour"
    if learned:
        where, also = (f" at {access}", f"; known at {known}") if known else ("", "")
        first_hours = f"{learned} hours" if learned > 1 else "hour"
        return f"first seen{where} {before}; the history has its first {first_hours}{also}"
    alone = "not in the history" if knows_account else "not in the history, nor is its account"
    absent = f"new at {access}, known at {known}" if known else alone
    return f"{absent}; first seen {'after that' if hours < 0 else before}"


def _knows_account(batch: EventBatch, frame: Frame, explainer: Explainer) -> bool:
    """Return whether the bank knows the account that an alert's principal is of, which need not be that of the log."""
    bank, _ = explainer.bank_and_row(batch, 0)
    return bank.knows_account_of(_principal(frame))


def _late_days(frame: Frame) -> int:
    """Return how many days after they happened the events came: back-dated records deserve a look."""
    return int(frames.column_of(frame, "delay").max()) // 86400 if "delay" in frame else 0


def _alert_events(batch: EventBatch, frame: Frame) -> Iterator[AlertEvent]:
    """Yield events as the analyst reads them, in the order of the frame: oldest first; `batch` is of their detectors."""
    ids, entities, services, actions, versions = (
        [*map(str, frames.column_of(frame, name).tolist())]
        for name in ("event_id", "entity", "service", "action", "bank_version")
    )
    texts = {name: _texts(frame, name) for name in EVENT_TEXTS}
    texts["resource"] = [*map(SOURCE.typed_resource, services, actions, texts["resource"])]
    times = [time.to_pydatetime() for time in frame["event_time"]]
    records = (
        map(_record_text, frames.column_of(frame, "raw").tolist()) if "raw" in frame else [""] * len(frame)
    )
    names = sorted(batch.evidence)  # an order that no checkpoint changes
    scores = _figures(frame, {name: z_column(name) for name in names})
    thresholds = _figures(frame, {name: threshold_column(name) for name in names})
    flagged_by = _flagged_by(frame, names)
    for row, record in enumerate(records):
        yield AlertEvent(
            event_id=ids[row],
            event_time=times[row],
            entity=entities[row],
            service=services[row],
            action=actions[row],
            scores=scores[row],
            flagged_by=flagged_by[row],
            thresholds={name: least for name, least in thresholds[row].items() if least is not None},
            raw=record,
            bank_version=versions[row],
            **{name: column[row] for name, column in texts.items()},
        )


def _figures(frame: Frame, columns: Mapping[str, str]) -> list[dict[str, float | None]]:
    """Return a figure of each detector for each event (N,), None for none; `columns` are theirs, which may be missing."""
    figures = np.full((len(frame), len(columns)), np.nan)
    for place, name in enumerate(columns.values()):
        if name in frame:
            figures[:, place] = frames.column_of(frame, name)
    figures = figures.round(3)
    return [
        {name: None if math.isnan(figure) else figure for name, figure in zip(columns, row, strict=True)}
        for row in figures.tolist()
    ]


def _flagged_by(frame: Frame, detectors: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the detectors that voted for each event (N,); one that was listed later has voted for none."""
    votes = np.zeros((len(frame), len(detectors)), bool)
    for place, name in enumerate(map(vote_column, detectors)):
        if name in frame:
            votes[:, place] = frames.true_mask(frames.column_of(frame, name))
    return [tuple(compress(detectors, row)) for row in votes.tolist()]


def _record_text(raw: object) -> str:
    """Return the record as text: it comes as bytes, or from a device as text."""
    if isinstance(raw, bytes):
        return raw.decode(errors="replace")
    return raw if isinstance(raw, str) else ""
