"""Leads: events that came near to an alert, for analysts who have time left when the queue is empty.

Example:
    >>> found = find_leads(store, settings, since=datetime(2026, 1, 26, tzinfo=UTC), limit=20)
    >>> found.leads[0].reach, found.leads[0].principal, found.leads[0].actions
    (3.31, '123456789012:role/deployer', ('iam:CreateAccessKey', 'sts:GetCallerIdentity'))
    >>> found.leads[0].gravity, found.leads[0].effect
    ('severe', 'creates a credential that lasts')

The alert budget limits the queue to a number of alerts a day. A lead is what a lower threshold of alerts would have shown next:
events of one principal that have the votes of a verdict and no z that opens an alert, grouped as alerts are
(`alerting.grouping`). Events in an alert of their principal, or so near to it that a lower threshold would only have made it
longer, are no lead.

Leads are ranked by *reach*, the highest threshold at which a lead would have been an alert, from MIN_REACH on. The reach of an
event is stored with its vote (`detection.event_judge`), because it also rests on second votes, which are not stored. A
lead also has the gravity of its calls. It does not change the rank, because z already counts what a new call can do.

Leads are found in the stored votes on request and are not stored: a lead disappears when its events become part of an alert. The
search reads the votes that reach furthest, and then all votes of the principals of the strongest leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.alerting import grouping
from fingerprint.alerting.suppression import AlertFacts, EventFacts, SuppressionMatcher
from fingerprint.analysis.threshold_what_if import are_of_newcomers
from fingerprint.compute import hashing
from fingerprint.core.alert import GRAVE_OR_SEVERE, GRAVITIES, AlertSpan, DetectorName, Gravity
from fingerprint.core.case import SuppressionMatch
from fingerprint.core.ports.clock import Clock
from fingerprint.core.ports.store import Store
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors import detector_names, interval_detectors
from fingerprint.detection.ensemble import MIN_REACH
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import NO_IMPACT, CallImpact

LEAD_DAYS = 7  # days before the newest vote, by default
MAX_LEADS = 100  # of one answer
MAX_SHOWN_ACTIONS = 5  # of a lead
FIRST_DEPTH = 2_000  # votes that are read first, those that reach furthest
MAX_DEPTH = 50_000  # the same for one list at most; it may lack leads that reach less far than these
GROWTH = 4  # times as many principals are read again if suppressions hide the leads of some
MAX_PRINCIPAL_VOTES = 20_000  # of the principals of one list, those that reach furthest
# Fields of a suppression that can be compared with a stored vote
STORED_MATCH_FIELDS = frozenset({"principal", "service", "action"})


@dataclass(frozen=True, slots=True)
class Lead:
    """Events of one principal that came near to an alert.

    - `reach`: the highest threshold of alerts (a z) at which they would have been an alert, by the quorum of their time
    - `actions`: some of `action_count` actions (`s3:GetObject`), grave and severe ones first, then the most surprising; empty for
      votes of an earlier release, which had no actions
    - `gravity`, `effect`: of the gravest action, by its name alone; no effect is an empty text
    - `detectors`: those that voted for some of the events or for their intervals; second votes are not stored
    - `newcomer`: the principal is known by its peer group alone
    """

    principal: str
    first_event_time: datetime
    last_event_time: datetime
    reach: float
    events: int
    actions: tuple[str, ...]
    action_count: int
    gravity: Gravity
    effect: str
    detectors: tuple[DetectorName, ...]
    newcomer: bool


@dataclass(frozen=True, slots=True)
class Leads:
    """The strongest leads, the highest reach first; `suppressed` is the number of leads that suppressions hide."""

    leads: tuple[Lead, ...]
    suppressed: int = 0


def find_leads(store: Store, settings: Settings, since: datetime, limit: int = 20) -> Leads:
    """Return the strongest leads among votes on events at `since` or later, at most `limit` of them."""
    search, most = _LeadSearch(store, settings, since), limit
    while True:
        principals, is_all = search.strongest_principals(most)
        found = search.leads_of(principals, limit)
        if is_all or len(found.leads) == limit:
            return found
        most *= GROWTH  # suppressions hide some


def recent_leads(
    store: Store, settings: Settings, since: datetime | None, clock: Clock, limit: int = 20
) -> tuple[datetime, Leads]:
    """Return the start of the search and its leads. By default it covers LEAD_DAYS before the newest vote."""
    since = since or (store.votes.newest_time() or clock.now()) - timedelta(days=LEAD_DAYS)
    return since, find_leads(store, settings, since, limit)


def lead_groups(events: pd.DataFrame, alerts: pd.DataFrame, settings: Settings) -> pd.Series:
    """Return the lead of each event, a hash of its principal and of the lead's start, with the index of `events`.

    `events` have principal (hashed), interval and reach; `alerts` have principal and their `first` and `last` interval. Events
    are left out if they are below MIN_REACH, in an alert, or no further from one than `alerts.group_gap_seconds`.
    """
    runs = grouping.runs_of(settings)
    some = events[events["reach"] >= MIN_REACH]
    some = some[~_is_near_alert(some, alerts, runs.gap)]
    principal, interval = some["principal"].to_numpy(np.uint64), some["interval"].to_numpy(np.int32)
    start = runs.preview(principal, interval)
    return pd.Series(hashing.hash_pair(principal, start.astype(np.uint64)), some.index)


def alert_intervals(spans: Sequence[AlertSpan], seconds: int) -> pd.DataFrame:
    """Return principal (hashed), first and last interval of alerts."""
    first, last = (
        np.array([int(time.timestamp()) // seconds for time in times], np.int64)
        for times in ([each.first_event_time for each in spans], [each.last_event_time for each in spans])
    )
    principal = hashing.hash_strings(pd.Series([each.principal for each in spans], dtype=object))
    return pd.DataFrame({"principal": principal, "first": first, "last": last})


def _is_near_alert(events: pd.DataFrame, alerts: pd.DataFrame, gap: int) -> NDArray[np.bool_]:
    """Return a mask (N,) of the events in an alert of their principal, or at most `gap` intervals before or after one.

    Among the alerts that begin before an event, only the latest end is compared: all pairs of events and alerts of a noisy
    principal would be too many.
    """
    begun = alerts.sort_values("first").assign(first=lambda table: table["first"] - gap)
    begun["last"] = begun.groupby("principal")["last"].cummax() + gap
    placed = events[["principal", "interval"]].astype({"interval": np.int64}).reset_index(drop=True)
    beside = pd.merge_asof(
        placed.reset_index(names="row").sort_values("interval"),
        begun,
        left_on="interval",
        right_on="first",
        by="principal",
    )
    near: NDArray[np.bool_] = np.zeros(len(events), bool)
    near[beside["row"]] = beside["interval"] <= beside["last"]
    return near


class _LeadSearch:
    """Reads votes from `since` on and groups them into leads."""

    def __init__(self, store: Store, settings: Settings, since: datetime) -> None:
        self.store, self.settings, self.since = store, settings, since
        self.seconds = settings.spectral.interval_seconds
        near = timedelta(seconds=(grouping.runs_of(settings).gap + 1) * self.seconds)
        earliest = since - min(near, since - datetime.min.replace(tzinfo=UTC))  # no time is before the year 1
        self.alerts = alert_intervals(store.alerts.spans_since(earliest), self.seconds)
        self.suppressions = _decidable_suppressions([each.match for each in store.suppressions.list_all()])

    def strongest_principals(self, most: int) -> tuple[list[str], bool]:
        """Return at most `most` principals, the one with the strongest lead first, and whether no other principal has a lead.

        Each returned principal has a lead, so a lead of another principal is not among the `most` strongest.
        """
        principals, is_all = list[str](), False
        for depth in (FIRST_DEPTH, MAX_DEPTH):
            votes = self._read_votes(depth)
            principals = self._lead_events(votes)["name"].unique().tolist()
            is_all = len(votes) < depth or depth == MAX_DEPTH
            if is_all or len(principals) >= most:
                break
        return principals[:most], is_all and len(principals) <= most

    def leads_of(self, principals: Sequence[str], limit: int) -> Leads:
        """Return at most `limit` of the strongest leads of some principals."""
        votes = self._read_votes(MAX_PRINCIPAL_VOTES, principals)
        events = self._lead_events(votes)
        voters = self._voters(events, votes)
        shown: list[Lead] = []
        suppressed = 0
        for lead, group in events.groupby("lead", sort=False):  # the strongest one first
            if len(shown) == limit:
                break
            actions = list(dict.fromkeys(group["action"]))
            if self._is_suppressed(group["name"].iloc[0], actions):
                suppressed += 1
            else:
                shown.append(_to_lead(group, actions, voters[lead]))
        return Leads(tuple(shown), suppressed)

    def _is_suppressed(self, principal: str, actions: Sequence[str]) -> bool:
        """Return whether a suppression would hide an alert of these events; an unknown action matches none by action."""
        calls = (action.partition(":") for action in actions)
        events = [EventFacts(service, action, "", "", "") for service, _, action in calls]
        facts = AlertFacts(principal, "", (), events)
        return any(hides(facts) for hides in self.suppressions)

    def _voters(self, events: pd.DataFrame, votes: pd.DataFrame) -> dict[Any, tuple[DetectorName, ...]]:
        """Return by lead the detectors that voted for its events or their intervals, in the order of the settings."""
        names = detector_names(self.settings)
        voted = votes.loc[votes["vote"].eq(True), ["event_id", "principal", "interval", "detector"]]
        surges = voted[voted["detector"].isin(interval_detectors(names))]
        surges = surges.assign(interval=surges["interval"] - 1)  # the vote carries the time at which it ended
        on_events = events[["lead", "event_id"]].merge(voted[["event_id", "detector"]])
        in_intervals = events[["lead", "name", "interval"]].merge(
            surges.rename(columns={"principal": "name"}), on=["name", "interval"]
        )
        pairs = pd.concat([on_events, in_intervals])[["lead", "detector"]].drop_duplicates()
        given = {*zip(pairs["lead"], pairs["detector"], strict=True)}
        return {
            lead: tuple(name for name in names if (lead, name) in given) for lead in events["lead"].unique()
        }

    def _read_votes(self, limit: int, principals: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the votes that reach furthest, from MIN_REACH on, with their interval; of given `principals` also related ones.

        Related votes only say which detectors voted.
        """
        votes = self.store.votes.nearest(self.since, MIN_REACH, limit, principals, principals is not None)
        return votes.assign(interval=votes["event_time"].astype("int64") // 1_000_000 // self.seconds)

    def _lead_events(self, votes: pd.DataFrame) -> pd.DataFrame:
        """Return the events of leads, the highest reach first.

        Their columns are those of `lead_groups`, event_id, event_time, action, `name`, `newcomer`, and `lead`, a hash.
        """
        events = votes[votes["reach"].notna()].sort_values(
            ["reach", "event_time", "event_id"], ascending=[False, True, True]
        )
        events = events.drop_duplicates("event_id")  # each calibrated detector's vote carries the reach
        columns = ["event_id", "event_time", "principal", "interval", "action", "reach"]
        events = events[columns].assign(
            name=events["principal"],
            principal=hashing.hash_strings(events["principal"]),
            newcomer=are_of_newcomers(events),
        )
        groups = lead_groups(events, self.alerts, self.settings)
        return events.loc[groups.index].assign(lead=groups)


def _to_lead(group: pd.DataFrame, actions: Sequence[str], voters: tuple[DetectorName, ...]) -> Lead:
    """Return the lead of some events, the highest reach first; `actions` are distinct, in the same order."""
    harmful = sorted(actions, key=lambda action: -_alarm(_impact_of(action)))
    named = list(dict.fromkeys(SOURCE.plain_action(action) for action in harmful if action))
    gravest = max(map(_impact_of, actions), key=lambda found: GRAVITIES.index(found.gravity))
    return Lead(
        principal=str(group["name"].iloc[0]),
        first_event_time=group["event_time"].min().to_pydatetime(),
        last_event_time=group["event_time"].max().to_pydatetime(),
        reach=round(float(group["reach"].iloc[0]), 2),
        events=len(group),
        actions=tuple(named[:MAX_SHOWN_ACTIONS]),
        action_count=len(named),
        gravity=gravest.gravity,
        effect=gravest.effect,
        detectors=voters,
        newcomer=bool(group["newcomer"].iloc[0]),
    )


def _impact_of(action: str) -> CallImpact:
    """Return what a `service:Action` can do, by its name alone."""
    service, _, name = action.partition(":")
    return SOURCE.impact_of(service, name, "") if name else NO_IMPACT


def _alarm(found: CallImpact) -> int:
    """Return the rank of a grave or severe impact, which comes before others."""
    return GRAVITIES.index(found.gravity) if found.gravity in GRAVE_OR_SEVERE else 0


def _decidable_suppressions(matches: Sequence[SuppressionMatch]) -> list[SuppressionMatcher]:
    """Return the suppressions that compare only fields of a stored vote: principal, service, action."""
    return [SuppressionMatcher(match) for match in matches if _match_fields(match) <= STORED_MATCH_FIELDS]


def _match_fields(match: SuppressionMatch) -> set[str]:
    return {name for name in SuppressionMatch.__dataclass_fields__ if getattr(match, name)}
