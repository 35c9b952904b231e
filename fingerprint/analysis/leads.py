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

Leads are ranked by *reach*, the highest threshold at which a lead would have been an alert (`threshold_what_if`), from MIN_REACH
on. A lead also has the gravity of its calls. It does not change the rank, because z already counts what a new call can do.

Leads are found in the stored votes on request and are not stored: a lead disappears when its events become part of an alert. The
search reads the strongest votes of the autoencoder, then all votes that may reach as far as the weakest lead of the list, and
then all votes of the principals of the strongest leads.
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
from fingerprint.analysis.threshold_what_if import VoteHistory, apply_override, are_of_newcomers
from fingerprint.compute import hashing
from fingerprint.core.alert import GRAVE_OR_SEVERE, GRAVITIES, AlertSpan, DetectorName, Gravity
from fingerprint.core.case import SuppressionMatch
from fingerprint.core.ports.clock import Clock
from fingerprint.core.ports.store import Store
from fingerprint.core.settings import Settings
from fingerprint.detection import ensemble
from fingerprint.detection.detectors import detector_names, interval_detectors
from fingerprint.detection.detectors.autoencoder import AutoencoderDetector
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import NO_IMPACT, CallImpact

MIN_REACH = 2.0  # one harmless active hour in forty reaches it: below, most principals would have a lead
LEAD_DAYS = 7  # days before the newest vote, by default
MAX_LEADS = 100  # of one answer
MAX_SHOWN_ACTIONS = 5  # of a lead
FIRST_DEPTH = 2_000  # strongest votes that are read first
MAX_DEPTH = 50_000  # strongest votes that are read for one list; it may lack leads that are weaker than these
GROWTH = 4  # times as many principals are read again if suppressions hide the leads of some
MAX_PRINCIPAL_VOTES = 20_000  # strongest votes of the principals of one list
# Fields of a suppression that can be compared with a stored vote
STORED_MATCH_FIELDS = frozenset({"principal", "service", "action"})


@dataclass(frozen=True, slots=True)
class Lead:
    """Events of one principal that came near to an alert.

    - `reach`: the highest threshold of alerts (a z) at which they would have been an alert
    - `actions`: some of `action_count` actions (`s3:GetObject`), grave and severe ones first, then the most surprising; empty for
      votes of an earlier release, which had no actions
    - `gravity`, `effect`: of the gravest action, by its name alone; no effect is an empty text
    - `detectors`: those that voted for some of the events or for their intervals
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


def find_leads(
    store: Store, settings: Settings, since: datetime, limit: int = 20, threshold: float | None = None
) -> Leads:
    """Return the strongest leads among votes on events at `since` or later, at most `limit` of them.

    `settings` are those in force, with the override of the store (`apply_override`); `threshold` is the z that opens an alert, if
    it is known.
    """
    if AutoencoderDetector.name not in detector_names(settings):
        return Leads(())  # its z is what the threshold of alerts is compared with
    search, most = _LeadSearch(store, settings, since, threshold), limit
    while True:
        principals, is_all = search.strongest_principals(most)
        found = search.leads_of(principals, limit)
        if is_all or len(found.leads) == limit:
            return found
        most *= GROWTH  # suppressions hide some


def leads_in_force(
    store: Store,
    settings: Settings,
    since: datetime | None,
    clock: Clock,
    limit: int = 20,
    threshold: float | None = None,
) -> tuple[datetime, Leads]:
    """Return the start of the search and its leads, with the threshold override of the store.

    By default the search covers LEAD_DAYS before the newest vote.
    """
    since = since or (store.votes.newest_time() or clock.now()) - timedelta(days=LEAD_DAYS)
    in_force = apply_override(settings, store.thresholds.current())
    return since, find_leads(store, in_force, since, limit, threshold)


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

    def __init__(self, store: Store, settings: Settings, since: datetime, threshold: float | None) -> None:
        self.store, self.settings, self.since, self.threshold = store, settings, since, threshold
        self.seconds = settings.spectral.interval_seconds
        near = timedelta(seconds=(grouping.runs_of(settings).gap + 1) * self.seconds)
        earliest = since - min(near, since - datetime.min.replace(tzinfo=UTC))  # no time is before the year 1
        self.alerts = alert_intervals(store.alerts.spans_since(earliest), self.seconds)
        self.suppressions = _decidable_suppressions([each.match for each in store.suppressions.list_all()])

    def strongest_principals(self, most: int) -> tuple[list[str], bool]:
        """Return at most `most` principals, the one with the strongest lead first, and whether no other principal has a lead.

        The strongest votes show how far a lead must reach to be among `most` leads. Then all votes are read that may reach as
        far. Each returned principal has a lead, so a lead of another principal is not among the `most` strongest.
        """
        least, votes = MIN_REACH, self._read_votes(FIRST_DEPTH)
        events, is_all = self._lead_events(votes), _count_own(votes) < FIRST_DEPTH
        if not is_all:
            peaks = events.drop_duplicates("name")["reach"].tolist()
            least = peaks[most - 1] if len(peaks) >= most else MIN_REACH
            events = self._lead_events(self._read_votes(MAX_DEPTH, least=least))
        principals = events["name"].unique().tolist()
        return principals[:most], len(principals) <= most and least == MIN_REACH

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

    def _read_votes(
        self, limit: int, principals: Sequence[str] | None = None, least: float = MIN_REACH
    ) -> pd.DataFrame:
        """Return the autoencoder's strongest votes that may reach `least`, and other votes on the same, with their interval."""
        name = AutoencoderDetector.name
        votes = self.store.votes.strongest(name, self.since, _least_z(least), limit, principals)
        return votes.assign(interval=votes["event_time"].astype("int64") // 1_000_000 // self.seconds)

    def _lead_events(self, votes: pd.DataFrame) -> pd.DataFrame:
        """Return the events of leads, the highest reach first.

        Their columns are those of a `ThresholdWhatIf`, `name`, `action`, `newcomer`, and `lead`, a hash.
        """
        what_if = VoteHistory.from_votes(votes, {}, self.settings).what_if(self.settings.voting.quorum)
        own = votes[votes["detector"] == AutoencoderDetector.name]
        facts = own[["event_id", "action"]].assign(name=own["principal"], newcomer=are_of_newcomers(own))
        events = what_if.events.merge(facts, on="event_id")
        events["reach"] = self._reach_of_calm_newcomers(events)
        groups = lead_groups(events, self.alerts, self.settings)
        return (
            events.loc[groups.index]
            .assign(lead=groups)
            .sort_values(["reach", "event_time", "event_id"], ascending=[False, True, True])
        )

    def _reach_of_calm_newcomers(self, events: pd.DataFrame) -> pd.Series:
        """Return the reach of events; for newcomers that began calmly, by the whole threshold.

        Whether a newcomer began calmly is not stored. But otherwise a share of the threshold would have been enough for an alert,
        and there is no alert.
        """
        calm = events["newcomer"] & (events["reach"] >= (self.threshold or np.inf))
        return events["reach"].where(~calm, events["reach"] * ensemble.NEWCOMER_THRESHOLD_SHARE)


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


def _least_z(reach: float) -> float:
    """Return the lowest z of the autoencoder with which an event may reach a threshold."""
    return min(ensemble.strong_vote_threshold(reach), reach * ensemble.NEWCOMER_THRESHOLD_SHARE)


def _count_own(votes: pd.DataFrame) -> int:
    """Return the number of votes of the autoencoder."""
    return int((votes["detector"] == AutoencoderDetector.name).sum())


def _decidable_suppressions(matches: Sequence[SuppressionMatch]) -> list[SuppressionMatcher]:
    """Return the suppressions that compare only fields of a stored vote: principal, service, action."""
    return [SuppressionMatcher(match) for match in matches if _match_fields(match) <= STORED_MATCH_FIELDS]


def _match_fields(match: SuppressionMatch) -> set[str]:
    return {name for name in SuppressionMatch.__dataclass_fields__ if getattr(match, name)}
