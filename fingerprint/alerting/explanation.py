"""Explanation: verdicts of one principal -> an alert that says what was done, what of it is new, how urgent it is, what to do.

Example:
    >>> for alert in build_alerts(scored.batch, scored.frame, explainer):
    ...     print(alert.urgency, alert.rarity, alert.impact, alert.title)
    90 84 75 alice@example.com called iam:CreateAccessKey and 4 other new actions from 198.51.100.0/24 (new network)

- `rarity` says how rare the alert is as a whole, `impact` what its new calls (`novelty`) can do. Both are nats: their sum, mapped
  to 0 ... 100, is the urgency, which never falls while an alert grows.
- The detectors themselves explain what drove an alert (`Detector.drivers`, `Detector.curve`).
- The title of an alert about a newcomer says when it was first seen (`first_seen`): only its peers are a measure for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.alerting import impact, title_origin, title_words, titles
from fingerprint.alerting.alert_events import alert_after_alert, alert_principal, texts_of
from fingerprint.alerting.drivers import (
    called_most,
    counted_calls,
    find_drivers,
    lead_with_impact,
    shown_drivers,
    unusual_calls,
)
from fingerprint.alerting.explainer import Explainer
from fingerprint.alerting.first_seen import find_first_seen, knows_account
from fingerprint.alerting.novel_impact import find_impact
from fingerprint.alerting.novelty import VERSION, feature_texts, find_elsewhere, find_novelty
from fingerprint.alerting.rarity import URGENCY_CAP, alert_nats, highest_calibrated_z
from fingerprint.alerting.support import Support
from fingerprint.alerting.title_facts import PROGRAM_FEATURE, TitleFacts
from fingerprint.compute import frames
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import ActionImpact, ActivityCurve, Alert, AlertEvent, Level, SurpriseDriver
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.detection.detectors import load_known_detectors
from fingerprint.registry.bank import PEER_LEVEL
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import TACTICS, Suspicion
from fingerprint.state.event_batch import EventBatch, Verdicts

NOTHING_SUPPORTS: Mapping[str, Support] = {}


def build_alerts(
    batch: EventBatch,
    frame: Frame,
    explainer: Explainer,
    support: Mapping[str, Support] = NOTHING_SUPPORTS,
) -> Iterator[Alert]:
    """Build an alert for every `alert_id` among the verdicts of a scored batch, in the order in which the frame has them.

    `support` maps an `alert_id` to the events that support it. Title, tactics and next steps name them. Rarity does not count
    them, and impact counts only supporting actions that are grave or severe, new and succeeded.
    """
    for name, verdicts, events in alert_after_alert(batch, frame, frame["alert_id"].where(frame["verdict"])):
        yield _build_alert(name, verdicts, events, explainer, support.get(name, Support()))


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
    principal, lead = alert_principal(frame), facts.leading_row
    first, last = events[0].event_time, events[-1].event_time
    return Alert(
        alert_id=alert_id,
        principal=principal,
        human=facts.humans[lead],
        window_start=datetime.fromtimestamp(first.timestamp() // interval * interval, UTC),
        first_event_time=first,
        last_event_time=last,
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
    """Return the facts for title and next steps of an alert; `names` (N,) are the actions of its events, `z` (N,) how strange."""
    batch, frame = verdicts
    novelty = find_novelty(batch, frame, names, explainer)
    drivers = find_drivers(batch, frame, explainer)
    own = find_impact(verdicts, events, novelty, explainer, called_most(drivers, names), is_own=True)
    actions, supporting_actions = impact.count_together(
        own, support.actions_beside(events), counted_calls(drivers, names)
    )
    first_seen, in_history = find_first_seen(batch, frame, explainer)
    elsewhere = find_elsewhere(batch, frame, names, novelty.ranges, explainer)
    return TitleFacts(
        events,
        lead_with_impact(drivers, actions),
        actions,
        novelty.actions,
        ranked=tuple(dict.fromkeys(names[row] for row in np.argsort(-z, kind="stable"))),
        humans=_find_humans(frame, events, support),
        programs=feature_texts(batch, frame, PROGRAM_FEATURE),
        versions=feature_texts(batch, frame, VERSION),
        new_networks=novelty.networks,
        new_regions=novelty.regions,
        new_ranges=novelty.ranges,
        usual_for_others=novelty.usual_for_others,
        usual_places=novelty.usual_places,
        actions_elsewhere=elsewhere.actions,
        networks_elsewhere=elsewhere.networks,
        tools_elsewhere=elsewhere.tools,
        here=titles.new_at(alert_principal(frame)),
        supporting=support.events,
        supporting_actions=supporting_actions,
        supporting_new=support.new,
        first_seen=first_seen,
        in_history=in_history,
        is_learned=bool((batch.level < PEER_LEVEL).any()),
        late_days=_late_days(frame),
        knows_account=knows_account(batch, frame, explainer),
    )


def _find_humans(frame: Frame, events: Sequence[AlertEvent], support: Support) -> list[str]:
    """Return the person or machine behind each event (N,): by name where a record of the alert names the person of an id."""
    humans, principal = texts_of(frame, "human"), alert_principal(frame)
    name = SOURCE.signed_in_as(principal, (event.raw for event in (*events, *support.events)))
    return [name or human for human in humans]


def _rank_alert(
    nats: float, actions: Sequence[ActionImpact], cap: int, drivers: Sequence[SurpriseDriver]
) -> _Rank:
    """Return urgency, rarity and impact of an alert from the nats of its rarity and its actions; urgency is at most `cap`."""
    rarity = min(round(impact.urgency_from_nats(nats)), cap)
    return _Rank(impact.combined_urgency(nats, actions, cap, drivers), rarity, impact.impact_score(actions))


def _suspicion(
    principal: str, facts: TitleFacts, actions: Sequence[ActionImpact], lead: int, urgency: int
) -> Suspicion:
    """Return what the next steps are made from.

    `actions` are the alert's own and those of its supporting events; `lead` is the row of the leading event.
    """
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
            if (origin := title_origin.new_origin(facts, row))
        },
        unusual_calls=unusual_calls(facts.drivers, facts.ranked),
    )


def _find_tactics(events: Sequence[AlertEvent], facts: TitleFacts) -> tuple[str, ...]:
    """Return the tactics of an alert's calls, in the order of the ATT&CK matrix; a read has one only if it is in bulk."""
    found = {*SOURCE.tactics_among(_telling_calls(events, facts))}
    found |= {row.tactic for row in facts.actions if row.in_bulk}
    return tuple(tactic for tactic in TACTICS if tactic in found)


def _telling_calls(events: Sequence[AlertEvent], facts: TitleFacts) -> list[tuple[str, str]]:
    """Return the (service, action) of an alert's events, and of those supporting events that `is_named_beside` names."""
    beside = {row.action for row in facts.supporting_actions if impact.is_named_beside(row)}
    supporting = (event for event in facts.supporting if event.action_name in beside)
    return [(event.service, event.action) for event in (*events, *supporting)]


def _has_new_origin(facts: TitleFacts) -> bool:
    """Return whether calls came from a new network or with a new tool.

    A new address range of a known network is not a new network. A service that calls for a person is no network and no tool.
    """
    between = {
        event.event_id: service
        for row, event in enumerate(facts.events)
        if (service := title_words.service_between(facts, row))
    }
    programs = [each for each in facts.drivers if each.feature == PROGRAM_FEATURE]
    new_tool = any(each.rarity == "unseen" and each.seen not in between.values() for each in programs)
    return not facts.new_networks.keys() - between.keys() <= {*facts.new_ranges} or new_tool


def _find_curve(batch: EventBatch, frame: Frame, explainer: Explainer) -> ActivityCurve | None:
    """Return the activity curve of the first detector that has one."""
    detectors = load_known_detectors(batch.evidence)
    curves = (detector.curve(batch, frame, explainer) for detector in detectors)
    return next((curve for curve in curves if curve is not None), None)


def _most_common_level(frame: Frame) -> Level:
    """Return the level of most events; of equally frequent levels, the one that came first."""
    [(level, _)] = Counter(frames.column_of(frame, "level").tolist()).most_common(1)
    most_common: Level = level
    return most_common


def _late_days(frame: Frame) -> int:
    """Return the longest delivery delay of the events in whole days: back-dated records deserve a look."""
    return int(frames.column_of(frame, "delay").max()) // DAY_SECONDS if "delay" in frame else 0
