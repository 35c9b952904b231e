"""The spectral detector: how unusual the amount and the time of a principal's activity are.

It votes on intervals. An event is counted in up to nine series (channels) of its entity and principal. Its z says how rare such a
surge is: how few harmless events of its principal lie in an interval that surges as much. A *newcomer*, a principal that is too
young for a forecast and is known by its peers only, is compared with others: how few hours of their first days had as much. The
maths is in `estimators.spectral` (forecasts), `estimators.surge_tails` and `estimators.newcomer_tails` (tails); the series are in
`state.activity_series`.

Example:
    >>> detector = SpectralDetector(settings, bank, state, LocalInference(bank))
    >>> batch = replace(batch, evidence={detector.name: detector.measure(batch)})
    >>> detector.score(batch)                              # (N,) z; NaN while a series warms up, except for newcomers
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import (
    Floats,
    Ints,
    Mask,
    Placement,
    identity_placement,
    is_on_host,
    namespace,
    to_device_of,
    to_host,
)
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable, find_sorted
from fingerprint.core.alert import ActivityCurve, z_column
from fingerprint.core.ports.inference import Inference
from fingerprint.core.settings import Settings, Spectral
from fingerprint.detection.detectors import Detector, ExplanationContext, IntervalScores
from fingerprint.detection.ensemble import BUSY_BEGINNING_Z, SECOND_VOTE_THRESHOLD
from fingerprint.detection.scored_votes import newcomer_rows
from fingerprint.estimators import amounts, surge_tails
from fingerprint.estimators.newcomer_tails import NewcomerTails
from fingerprint.estimators.surge_tails import SurgeTails
from fingerprint.features.encoding import ACTION_COLUMN, FEATURE_SET
from fingerprint.registry.bank import PEER_LEVEL, Bank
from fingerprint.state.activity_series import ACTION_CHANNELS, ActivitySeries
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.scorer_state import ScorerState

# Channels beside those of single actions.
EVENT_CHANNEL, ERROR_CHANNEL, WRITE_CHANNEL, NEW_ACTION_CHANNEL, OTHER_ACTION_CHANNEL = (
    np.uint64(number) for number in range(1, 6)
)
CHANNEL_LABELS = {
    EVENT_CHANNEL: "events",
    ERROR_CHANNEL: "errors",
    WRITE_CHANNEL: "writes",
    NEW_ACTION_CHANNEL: "new actions",
    OTHER_ACTION_CHANNEL: "less common actions",
}
# Channels of a principal by which a newcomer is judged, in the order of `newcomer_tails`, and their places in the evidence. The
# channel of new actions is left out: nearly all actions of a newcomer are new, and it did not help to tell attacks from
# beginnings.
NEWCOMER_CHANNELS = (EVENT_CHANNEL, ERROR_CHANNEL, WRITE_CHANNEL)
NEWCOMER_PLACES = slice(5, 8)
# (9,): channel of each place in the evidence. 0 stands for the action's own channel; the last four are the principal's.
CHANNEL_OF_PLACE = np.array(
    [0, *2 * [EVENT_CHANNEL, ERROR_CHANNEL, WRITE_CHANNEL, NEW_ACTION_CHANNEL]], np.uint64
)
PRINCIPAL_PLACE = 5
ENTITY_SERIES, PRINCIPAL_SERIES, BURSTS = "series of the entity", "series of the principal", "usual bursts"
NEWCOMERS = "newcomers"
# Term -> places in the evidence that it leaves out. Place 0 is the action's channel, 1 to 4 the entity's, 5 to 8 the principal's.
CHANNEL_TERMS: dict[str, tuple[int, ...]] = {
    "action": (0,),
    "events": (1, 5),
    "errors": (2, 6),
    "writes": (3, 7),
    "new actions": (4, 8),
    ENTITY_SERIES: (0, 1, 2, 3, 4),
    PRINCIPAL_SERIES: (5, 6, 7, 8),
}
TERMS = {
    "action": "how often the action itself was called in the interval",
    "events": "all events of the entity and of the principal",
    "errors": "calls that failed",
    "writes": "calls that change something",
    "new actions": "actions that the fingerprint does not know",
    ENTITY_SERIES: "all series of the entity, those of its actions among them",
    PRINCIPAL_SERIES: "all series of the principal",
    BURSTS: "how much each series usually exceeds its forecast; without it as much for all",
    NEWCOMERS: "how others began; without it no opinion on a principal without a forecast",
}
CURVE_DAYS = 7  # of activity that an alert shows


class SpectralDetector(Detector):
    """Votes on intervals by counts that exceed their forecast.

    Evidence (N, 9): the keys of the series that an event was counted in, 0 for none. Keys and not rows, because rows may be
    renumbered while an event waits.
    """

    name = "spectral"
    label = "Spectral"
    question = "Did it do it as much, and when, as it usually does?"
    second_vote_z = SECOND_VOTE_THRESHOLD  # its z is a share of events
    calm_newcomer_z = BUSY_BEGINNING_Z
    granularity = "interval"
    terms: ClassVar[Mapping[str, str]] = TERMS

    def __init__(self, settings: Settings, bank: Bank, state: ScorerState, inference: Inference) -> None:
        super().__init__(settings, bank, state, inference)
        self.options = self.options_from(settings)
        self.tails = SurgeTails.from_arrays(bank.scorer_state, state.placement)
        # For pending events, which are on the host
        self.tails_on_host = SurgeTails.from_arrays(bank.scorer_state, identity_placement)
        self.bursts = Bursts.from_arrays(bank.scorer_state, state.placement)
        self.newcomers = NewcomerTails.from_arrays(bank.scorer_state, state.placement)
        self.newcomers_on_host = NewcomerTails.from_arrays(bank.scorer_state, identity_placement)
        self.owners = SeriesOwners.of_bank(bank, self.tails, self.newcomers_on_host, state.placement)

    @classmethod
    def options_from(cls, settings: Settings) -> Spectral:
        """Return the detector's section of the settings."""
        return settings.spectral

    def without(self, term: str) -> Self:
        """Return a variant without some channels or without newcomers, or with the same usual burst for every series.

        Silence is no term: a silent interval is a vote on no event, so it changes no score.
        """
        variant = super().without(term)
        if term == BURSTS:
            variant.bursts = Bursts.from_arrays({}, self.state.placement)
        if term == NEWCOMERS:
            variant.newcomers = NewcomerTails.from_arrays({}, self.state.placement)
            variant.newcomers_on_host = NewcomerTails.from_arrays({}, identity_placement)
        return variant

    def measure(self, batch: EventBatch) -> Hashes:
        """Count the events, and return the evidence (N, 9): the keys of the series that each was counted in.

        A variant without a term counts nothing a second time.
        """
        if self.left_out:
            keys = batch.evidence[self.name].copy()
            keys[:, list(CHANNEL_TERMS.get(self.left_out, ()))] = 0
            return keys
        slot, known = self.bank.vocabulary.find_own(
            batch.fingerprint, ACTION_COLUMN, batch.codes[:, ACTION_COLUMN]
        )
        own_channel = self._has_own_channel(batch, slot)
        weight = namespace(own_channel).ones(len(batch), np.float32)
        return count_events(batch, self.state, known, own_channel, weight)

    def _has_own_channel(self, batch: EventBatch, slot: NDArray[np.integer[Any]]) -> Mask:
        """Return a mask (N,) of the events whose action has a channel of its own.

        These are the actions that the bank has seen most, and those that an earlier bank gave a channel: counted among the less
        common actions again, such an action would look like a surge of these.
        """
        busy = (slot > 0) & (slot <= ACTION_CHANNELS) & (batch.level == 0)
        if self.state.channels_since:
            busy |= (
                self.state.series.find_rows(hashing.combine(batch.owner, batch.codes[:, ACTION_COLUMN])) >= 0
            )
        return busy

    def score(self, batch: EventBatch) -> Floats:
        """Return the z of each event (N,): of its strongest series, NaN while series warm up; for a newcomer of its interval."""
        surge = event_surges(batch.evidence[self.name], batch.interval, self.state.series, self.bursts)
        tails = self.tails_on_host if is_on_host(batch.codes) else self.tails
        strongest = tails.z(tails.rows(batch.principal, batch.kind), surge)
        # Also if a series is older than the state's first sight of its principal.
        warm = self._is_warm(batch)
        strongest[~warm] = np.nan
        fresh = self._is_newcomer(batch, warm).nonzero()[0]
        if len(fresh):
            strongest[fresh] = self._newcomer_z(
                batch.principal[fresh], batch.interval[fresh], batch.kind[fresh]
            )
        return strongest

    def _newcomer_z(self, principal: Hashes, interval: Ints, kind: Hashes) -> Floats:
        """Return the z of newcomers' intervals (N,) by their counts in NEWCOMER_CHANNELS; principal, interval, kind are (N,)."""
        series, xp = self.state.series, namespace(principal)
        keys = [hashing.combine(principal, channel) for channel in NEWCOMER_CHANNELS]
        rows = series.find_rows(xp.concatenate(keys))
        count = series.counts(rows, xp.concatenate([interval] * len(keys))).reshape(len(keys), -1).T
        tails = self.newcomers_on_host if is_on_host(principal) else self.newcomers
        return tails.z(tails.rows(kind), count)

    def has_opinion(self, batch: EventBatch) -> Mask:
        """Return a mask (N,) of the events whose principal has warm series or is a newcomer that can be judged."""
        warm = self._is_warm(batch)
        return warm | self._is_newcomer(batch, warm)

    def judges_newcomer(self, batch: EventBatch) -> Mask:
        """Return a mask (N,) of the events compared with how others began: their principal has no forecast and no fingerprint."""
        return self._is_newcomer(batch, self._is_warm(batch))

    def _is_warm(self, batch: EventBatch) -> Mask:
        return self.state.series.is_warm(batch.first_seen, batch.interval)

    def _is_newcomer(self, batch: EventBatch, warm: Mask) -> Mask:
        """Return a mask (N,) of the events of newcomers, without sign-ins of workloads, which are single calls."""
        fresh: Mask = ~warm & (batch.level >= PEER_LEVEL) & self.newcomers_on_host.learned
        return fresh & ~FEATURE_SET.is_workload_sign_in(batch.codes[:, ACTION_COLUMN])

    def interval_scores(self, start: int, end: int, min_z: float) -> IntervalScores:
        """Return the intervals start ... end - 1 with a z of at least `min_z`, and the number without an opinion."""
        series = self.state.series
        row, interval = series.open_cells(start, end)
        xp, z = namespace(row), self._interval_z(row, interval)
        strong, no_opinion = z >= min_z, int(xp.isnan(z).sum())
        row = row[strong]
        return IntervalScores(series.owner[row], series.channel[row], interval[strong], z[strong], no_opinion)

    def _interval_z(self, row: Ints, interval: Ints) -> Floats:
        """Return the z of intervals of series (N,), NaN for no opinion: that of an event counted in this series alone."""
        series = self.state.series
        owner, channel = series.owner[row], series.channel[row]
        burst = self.bursts.usual(hashing.combine(owner, channel))
        surge = surge_tails.log_surge(*series.residuals(row, interval), burst)
        xp, place = namespace(surge), self.owners.find(owner)
        tail, is_entity = self.owners.tail[place], self.owners.is_entity[place]
        nats = self.tails.nats(tail, channel_place(channel, is_entity), surge)
        z: Floats = xp.where(xp.isnan(surge), np.nan, self.tails.z_of_nats(tail, nats)).astype(np.float32)
        fresh = xp.flatnonzero(xp.isnan(surge) & ~self.owners.is_ready[place] & self.newcomers.learned)
        if len(fresh):
            count = series.counts(row[fresh], interval[fresh])
            z[fresh] = self._newcomer_cell_z(channel[fresh], count, self.owners.newcomer[place[fresh]])
        return z

    def _newcomer_cell_z(self, channel: Hashes, count: Floats, tail: Ints) -> Floats:
        """Return the z of counts (N,), each of one channel of a newcomer's interval; NaN outside NEWCOMER_CHANNELS.

        An entity of an unknown principal is judged as a principal: its counts are at most those of the principal.
        """
        xp = namespace(count)
        alone = xp.stack([xp.where(channel == each, count, 0) for each in NEWCOMER_CHANNELS]).T
        known = reduce(or_, (channel == each for each in NEWCOMER_CHANNELS))
        z: Floats = xp.where(known, self.newcomers.z(tail, alone), np.nan).astype(np.float32)
        return z

    def silent_intervals(self, start: int, end: int) -> IntervalScores:
        """Return the intervals in which events were expected and none came."""
        series = self.state.series
        row, interval, z = series.silent_intervals(
            EVENT_CHANNEL, max(start, end - series.intervals_per_day), end
        )
        return IntervalScores(series.owner[row], series.channel[row], interval, z)

    @classmethod
    def curve(cls, batch: EventBatch, frame: Frame, context: ExplanationContext) -> ActivityCurve | None:
        """Return the activity of the strongest series, with its forecast, over the last CURVE_DAYS days.

        None if no event has a z by a forecast, as for newcomers.
        """
        z_scores = np.where(newcomer_rows(frame), np.nan, frames.column_of(frame, z_column(cls.name)))
        if np.isnan(z_scores).all():
            return None
        at = int(np.nan_to_num(z_scores, nan=-np.inf).argmax())
        keys = batch.evidence[cls.name][at]
        series = context.series.on_host(keys)
        rows = series.find_rows(keys)
        z = series.z_scores(rows, np.repeat(batch.interval[at], len(rows)))
        row = int(rows[np.nan_to_num(z, nan=-np.inf).argmax()])
        seconds, end = context.settings.spectral.interval_seconds, int(batch.interval.max()) + 1
        start, counts, expected, flagged = series.curve(row, int(batch.interval[at]), CURVE_DAYS, end)
        owner, channel = series.owner_and_channel(row)
        return ActivityCurve(
            entity=str(frames.column_of(frame, "entity" if owner == batch.owner[at] else "principal")[at]),
            channel=CHANNEL_LABELS.get(channel) or str(frames.column_of(frame, "action")[at]),
            start=pd.Timestamp(start * seconds, unit="s", tz="UTC").to_pydatetime(),
            interval_seconds=seconds,
            counts=tuple(counts.round(2).tolist()),
            expected=tuple(expected.round(2).tolist()),
            flagged=tuple(flagged.tolist()),
        )


DETECTOR = SpectralDetector


def count_events(
    batch: EventBatch, state: ScorerState, known: Mask, has_own_channel: Mask, weight: Floats
) -> Hashes:
    """Count events in their channels, and return the keys of their series: (N, 9), 0 where not counted.

    `known` (N,) marks actions that the fingerprint knows, `has_own_channel` (N,) actions with a channel of their own. An event
    counts `weight` (N,) times.
    """
    xp, entity = namespace(batch.codes), batch.owner
    keys: Hashes = xp.zeros((len(batch), surge_tails.CHANNELS), np.uint64)
    own_action = xp.where(has_own_channel, batch.codes[:, ACTION_COLUMN], OTHER_ACTION_CHANNEL)
    begun = xp.where(
        has_own_channel, xp.maximum(batch.first_seen, state.channels_since), batch.first_seen
    ).astype(np.int32)
    fresh = (~known).nonzero()[0]
    owner = hashing.combine(entity[fresh], batch.codes[fresh, ACTION_COLUMN])
    new = xp.zeros(len(batch), bool)
    new[fresh] = ~state.is_known_novelty(hashing.combine(owner, NEW_ACTION_CHANNEL), batch.interval[fresh])
    everything = xp.ones(len(batch), bool)
    of_channels = (everything, batch.is_error, batch.is_write, new)
    counted = xp.concatenate([everything, *of_channels, *of_channels])  # (9 N,)
    # All channels at once: an addition to the tables costs as much for one event as for hundreds.
    at = counted.nonzero()[0]
    place = at // len(batch)
    row = at - place * len(batch)
    of_action = place == 0
    owners = xp.where(place < PRINCIPAL_PLACE, entity[row], batch.principal[row])
    channel = xp.where(of_action, own_action[row], to_device_of(CHANNEL_OF_PLACE, keys)[place])
    since = xp.where(of_action, begun[row], batch.first_seen[row])
    keys[row, place] = state.series.add_counts(owners, channel, batch.interval[row], since, weight[row])
    return keys


class Bursts(NamedTuple):
    """The usual excess of a series over its forecast, by the key of the series; of intervals with an excess."""

    table: SortedTable

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], placement: Placement) -> Bursts:
        """Return the bursts of a bank from its arrays `burst.*`, moved by `placement`; empty if it has none."""
        none = {"burst.key": np.empty(0, np.uint64), "burst.usual": np.empty(0, np.float32)}
        key, usual = (placement(np.asarray(arrays.get(name, each))) for name, each in none.items())
        return cls(SortedTable(key, {"usual": usual}))

    def usual(self, keys: Hashes) -> Floats:
        """Return the usual burst of each series (N,), by their keys (N,); PRIOR_CALLS for an unknown series."""
        return self.table.get(keys, "usual", missing=amounts.PRIOR_CALLS)


def event_surges(keys: Hashes, interval: Ints, series: ActivitySeries, bursts: Bursts) -> Floats:
    """Return the log surge of events (N,) in each channel: (N, 9), NaN for no opinion and where an event was not counted.

    `keys` (N, 9) are the keys of series, 0 for none; `interval` (N,) are the intervals of the events.
    """
    xp = namespace(keys)
    event, place = keys.nonzero()
    counted = keys[event, place]
    residuals = series.residuals(series.find_rows(counted), interval[event])
    surge: Floats = xp.full(keys.shape, np.nan, np.float32)
    surge[event, place] = surge_tails.log_surge(*residuals, bursts.usual(counted))
    return surge


class SeriesOwners(NamedTuple):
    """Owners of series: `key` (M,) are the sorted owners of a bank.

    The other fields (M + 1,) have one more place, the last, for owners that the bank does not know: the row of the owner's
    `tail`, the row of the `newcomer` tail of its kind, whether it is an entity, and whether its principal is ready.
    """

    key: Hashes
    tail: Ints
    newcomer: Ints
    is_entity: Mask
    is_ready: Mask

    @classmethod
    def of_bank(
        cls, bank: Bank, tails: SurgeTails, newcomers: NewcomerTails, placement: Placement
    ) -> SeriesOwners:
        """Return the principals and entities of a bank, without shared entities; the tails of `newcomers` are on the host."""
        key, principal, is_entity = bank.sorted_series_owners
        place, found = find_sorted(to_host(tails.key), principal)
        tail = np.where(found, place, len(tails.tail) - 1)
        people = bank.people.set_index("hash")["kind"].astype(object).reindex(principal)
        newcomer = newcomers.rows(hashing.hash_strings(people))
        table = bank.fingerprints
        ready = table["hash"].to_numpy(np.uint64)[
            table["ready"].to_numpy(bool) & table["level"].eq(1).to_numpy()
        ]
        return cls(
            placement(key),
            placement(np.append(tail, len(tails.tail) - 1).astype(np.int32)),
            placement(np.append(newcomer, len(newcomers.kind)).astype(np.int32)),
            placement(np.append(is_entity, False)),
            placement(np.append(np.isin(principal, ready), False)),
        )

    def find(self, owner: Hashes) -> Ints:
        """Return the place of each owner (N,); the last place for an owner that the bank does not know."""
        xp = namespace(owner)
        place, found = find_sorted(self.key, owner)
        where: Ints = xp.where(found, place, len(self.key)).astype(np.int32)
        return where


def channel_place(channel: Hashes, is_entity: Mask) -> Ints:
    """Return the place of channels in the evidence (N,): 0 for actions, 1 to 4 for an entity, 5 to 8 for a principal."""
    xp = namespace(channel)
    named = (channel >= EVENT_CHANNEL) & (channel < OTHER_ACTION_CHANNEL)
    number = xp.where(named, channel, 0).astype(np.int32)
    place: Ints = xp.where(named, number + xp.where(is_entity, 0, len(CHANNEL_LABELS) - 1), 0)
    return place
