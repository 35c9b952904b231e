"""Story of an incident, over all its alerts: phases, resources of its calls, and the next steps.

Example:
    >>> story = incident_story(store, incident)
    >>> [phase.name for phase in story.phases], story.resources[0].name, story.plans[0].steps[0].phase
    (['Persistence', 'Defense Evasion'], 'trail:organisation', 'contain')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fingerprint.alerting.impact import merge_impact
from fingerprint.analysis.attack_phases import Phase, attack_phases, new_calls
from fingerprint.core.alert import Alert, AlertEvent, NextStep
from fingerprint.core.case import QueueRow
from fingerprint.core.incident import Incident
from fingerprint.core.ports.store import Store
from fingerprint.registry.bank import Bank
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import Suspicion
from fingerprint.web.alert_story import may_have_more_new

MAX_EXPLAINED = 50  # gravest alerts whose explanations are read
MAX_EVENTS = 5_000  # newest events from which keys, addresses and regions are taken
RECORDS_READ = 50  # records of a principal's first events, as many as next steps read
MAX_PLANS = 5  # principals with steps of their own, the gravest first


@dataclass(frozen=True, slots=True)
class TouchedResource:
    """A resource with its calls. `changed`: one of the calls is a writing one, and succeeded on some resource."""

    name: str
    events: int
    calls: tuple[str, ...]
    changed: bool


@dataclass(frozen=True, slots=True)
class ResponsePlan:
    """The next steps about one principal of an incident."""

    principal: str
    steps: tuple[NextStep, ...]


@dataclass(frozen=True, slots=True)
class IncidentStory:
    """A summary of an incident's alerts. `more_new`: there may be more new actions than the phases mark."""

    phases: tuple[Phase, ...]
    events: int
    failed: int
    more_new: bool
    resources: tuple[TouchedResource, ...]
    plans: tuple[ResponsePlan, ...]


def incident_story(store: Store, incident: Incident, bank: Bank | None = None) -> IncidentStory:
    """Return the story of an incident from summaries of all events of its alerts.

    The served `bank` knows the accounts of the organisation; without it, no account is known to be its own.
    """
    rows = [each.row for each in incident.alerts]
    graver = sorted(rows, key=lambda row: -row.urgency)[:MAX_EXPLAINED]
    explained = [store.evidence.summary(row.alert_id) for row in graver]
    calls = store.evidence.calls([row.alert_id for row in rows])
    new = frozenset(name for alert in explained for name in new_calls(alert.drivers, alert.impact_of))
    phases = attack_phases(calls, new)
    return IncidentStory(
        phases,
        sum(call.events for call in calls),
        sum(call.failed for call in calls),
        any(map(may_have_more_new, explained)),
        touched_resources(phases),
        _plans(store, rows, explained, bank),
    )


def touched_resources(phases: Iterable[Phase]) -> tuple[TouchedResource, ...]:
    """Return the few most frequent resources of each call: changed ones first, then by the number of events."""
    found: dict[str, TouchedResource] = {}
    for each in (made for phase in phases for made in phase.calls):
        changed = each.writes and each.call.events > each.call.failed
        for name, count in each.call.resources.values:
            known = found.get(name, TouchedResource(name, 0, (), False))
            calls = (*known.calls, each.call.name)
            found[name] = TouchedResource(name, known.events + count, calls, known.changed or changed)
    return tuple(sorted(found.values(), key=lambda each: (not each.changed, -each.events, each.name)))


def _plans(
    store: Store, rows: Sequence[QueueRow], explained: Sequence[Alert], bank: Bank | None
) -> tuple[ResponsePlan, ...]:
    """Return the steps about each principal, the one with the gravest alert first."""
    principals = list(dict.fromkeys(alert.principal for alert in explained))[:MAX_PLANS]
    owner = {row.alert_id: row.principal for row in rows}
    alert_ids = [row.alert_id for row in rows if row.principal in principals]
    events: dict[str, list[AlertEvent]] = {name: [] for name in principals}
    for each in store.principals.events_of_alerts(alert_ids, MAX_EVENTS).events:
        events[owner[each.alert_id]].append(each.event)
    plans = []
    for name in principals:
        own = [alert for alert in explained if alert.principal == name]
        knows_account = bank is not None and bank.knows_account_of(name)
        steps = _steps(own, _with_records(store, own, events[name]), knows_account)
        if steps:
            plans.append(ResponsePlan(name, steps))
    return tuple(plans)


def _with_records(store: Store, alerts: Sequence[Alert], events: Sequence[AlertEvent]) -> list[AlertEvent]:
    """Return the events of a principal's alerts, the first ones with their records, which name the opener of a session."""
    first = min(alerts, key=lambda alert: alert.first_event_time)
    records = {each.event_id: each.raw for each in store.evidence.events(first.alert_id, RECORDS_READ).events}
    return [replace(each, raw=records.get(each.event_id, "")) for each in events]


def _steps(
    alerts: Sequence[Alert], events: Sequence[AlertEvent], knows_account: bool
) -> tuple[NextStep, ...]:
    """Return the steps about one principal: contain, verify and extent over all of its alerts, then the undo steps of each.

    The undo steps are those of the alerts: they need the records of the calls, which were read when the alert was made.
    """
    undo = {
        (step.text, step.command): step
        for alert in alerts
        for step in alert.next_steps
        if step.phase == "undo"
    }
    if not events:
        return tuple(undo.values())
    begun = min(events[0].event_time, *(alert.first_event_time for alert in alerts))
    suspicion = Suspicion(
        alerts[0].principal,
        next((alert.human for alert in alerts if alert.human), ""),
        [replace(events[0], event_time=begun), *events[1:]],
        merge_impact(row for alert in alerts for row in alert.impact_of),
        max(alert.urgency for alert in alerts),
        cut=any(map(may_have_more_new, alerts)),
        supporting=[event for alert in alerts for event in alert.supporting_events],
        knows_account=knows_account,
        from_new_origin=any(step.phase == "contain" for alert in alerts for step in alert.next_steps[:1]),
    )
    others = (step for step in SOURCE.next_steps(suspicion) if step.phase != "undo")
    return (*others, *undo.values())
