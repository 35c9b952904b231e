"""Events -> judged events: every detector measures when an event comes; the quorum decides while its interval fills.

Example:
    >>> scorer = Scorer(bank, ledger, settings)
    >>> taken = scorer.take(events)          # measured; what may still get a verdict waits
    >>> early = scorer.so_far(taken.principals)   # those that wait, as things stand: a verdict is true once and never back
    >>> judged = scorer.settle()             # those whose interval is over
    >>> judged.frame[["event_id", "autoencoder_z", "spectral_z", "verdict"]]
    >>> votes = scorer.close_intervals()     # what the spectral detector says of the intervals that are over

Most events can no longer get a verdict once they are measured (with two of two: the autoencoder is sure of them). Those do
not wait, unless every event's z's are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import counted, host, like, namespace
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import LEVELS, Vote
from fingerprint.core.ports import Losses
from fingerprint.core.settings import Settings
from fingerprint.detection import batch as measured
from fingerprint.detection import detectors, ensemble
from fingerprint.detection.batch import Measured
from fingerprint.detection.ensemble import Detector
from fingerprint.detection.inference import InProcess
from fingerprint.detection.owner_names import Names
from fingerprint.estimators import autoencoder
from fingerprint.registry.bank import Bank
from fingerprint.state.activity_series import Floats, Ints
from fingerprint.state.scorer_state import Ledger

VOTE = tuple(Vote.__dataclass_fields__)  # the columns of votes
_NAMED = ["event_id", "event_time", "principal", "entity"]  # those that an event has by itself


@dataclass(frozen=True)
class Judged:
    """Events with the columns `<detector>_z`, `<detector>_vote`, `verdict`, `alert_id`, `degraded` (their losses were
    measured by who stands in) and `bank_version` (of the bank that measured them), and what explains them."""

    batch: Measured
    frame: pd.DataFrame


class Taken(NamedTuple):
    """What became of a batch: fresh events, repeats that were dropped, whose they are (distinct), votes on events that
    wait for nothing, and how many events were measured by who stands in (`degraded`)."""

    events: int
    repeats: int
    principals: Hashes
    votes: pd.DataFrame
    degraded: int = 0


class Closed(NamedTuple):
    """What is said of intervals that are over: votes at or above the floor, how many of them are silences, how many cells
    there was no opinion on yet."""

    votes: pd.DataFrame
    silences: int
    no_opinion: int


class Scorer:
    """Judges events against one bank. All its state is the ledger's, `waiting`, and the strangers of `names`."""

    def __init__(
        self,
        bank: Bank,
        ledger: Ledger,
        settings: Settings,
        every_event: bool = False,
        losses: Losses | None = None,
    ) -> None:
        """`losses` measures against the same bank; by default this process does."""
        self.bank, self.ledger, self.settings, self.every_event = bank, ledger, settings, every_event
        self.losses = losses or InProcess(bank)
        self.detectors = detectors.list_of(settings, bank, ledger, self.losses)
        self.names = Names(bank)
        self.waiting: list[Measured] = []
        self.dropped = 0  # events that could not wait, because too many did
        self.refused = 0  # events of more strangers than a day may have
        ledger.silent_upto = ledger.silent_upto or ledger.closed()  # what a bank has learned is closed

    def under(self, bank: Bank, losses: Losses | None = None, settings: Settings | None = None) -> Scorer:
        """One that goes on from here, and measures against another bank, or holds events to other thresholds. What waits keeps
        what it was measured with."""
        after = Scorer(bank, self.ledger, settings or self.settings, self.every_event, losses)
        series, end = self.ledger.series, np.iinfo(np.int32).max
        row, interval = series.counted(self.ledger.silent_upto, end)  # what there may be a vote on yet
        after.names = self.names.under(bank, host(series.owner[row]), host(interval))
        after.waiting, after.dropped, after.refused = list(self.waiting), self.dropped, self.refused
        return after

    def take(self, events: Frame) -> Taken:
        """Measure events (with entities), where they lie. What waits is brought to the host."""
        batch, repeats = measured.prepare(events, self.ledger)
        self.ledger.late += int((batch.interval < self.ledger.closed()).sum())
        if not len(batch):
            return Taken(0, repeats, batch.principal, no_votes())
        fingerprint, level = self.bank.resolve(batch.entity, batch.principal, batch.frame)
        batch = replace(batch, fingerprint=fingerprint, level=level)
        evidence = {each.name: each.measure(batch) for each in self.detectors}
        degraded = any(each.degraded for each in self.detectors)
        batch, xp = replace(batch, evidence=evidence), namespace(batch.codes)
        self.names.meet(batch)
        z = {each.name: each.z(batch) for each in self._on_events()}
        waits = self._waits(batch)
        said = reduce(or_, (each >= self.settings.desk.vote_floor for each in z.values()), waits)
        refused = self._refused(batch, said)
        waits &= ~refused
        if waits.any():
            self.waiting.append(self._marked(batch.take(waits), degraded))
        votes = self._event_votes(batch, {name: xp.where(waits | refused, np.nan, z[name]) for name in z})
        return Taken(len(batch), repeats, xp.unique(batch.principal), votes, len(batch) * degraded)

    def _marked(self, batch: Measured, degraded: bool) -> Measured:
        """Events with who measured them, and how many seconds event time had gone past them when they came."""
        at = frames.seconds(batch.frame["event_time"])
        frame = batch.frame.assign(
            degraded=degraded, bank_version=self.bank.version, delay=(self.ledger.watermark - at).clip(0)
        )
        return replace(batch, frame=frame)

    def settle(self, everything: bool = False) -> Judged | None:
        """Judge the events whose interval can no longer change (or all), and let them go."""
        self._bound()
        closed = np.iinfo(np.int32).max if everything else self.ledger.closed()
        over = [part.interval < closed for part in self.waiting]
        done = [part.take(which) for part, which in zip(self.waiting, over, strict=True) if which.any()]
        self.waiting = [
            part.take(~which) if which.any() else part
            for part, which in zip(self.waiting, over, strict=True)
            if not which.all()
        ]
        return self.judge(measured.concat(done)) if done else None

    def so_far(self, principals: Hashes) -> Judged | None:
        """Judge what waits of these principals as things stand; it waits on."""
        principals = host(principals)
        theirs = [(part, np.isin(part.principal, principals)) for part in self.waiting]
        parts = [part.take(which) for part, which in theirs if which.any()]
        return self.judge(measured.concat(parts)) if parts else None

    def judge(self, batch: Measured) -> Judged:
        """z's, votes, verdict and alert of measured events, as the series stand now."""
        z = {each.name: each.z(batch) for each in self.detectors}
        opinions = ensemble.opinions(z)
        share = self._share(opinions, batch)
        votes = {each.name: _voted(z[each.name], each.threshold * share) for each in self.detectors}
        verdict = ensemble.verdicts(votes, self.settings.voting.quorum, opinions)
        columns: dict[str, NDArray[np.generic]] = {f"{name}_z": each for name, each in z.items()}
        columns |= {f"{name}_vote": each for name, each in votes.items()}
        frame = batch.frame.assign(
            **columns, verdict=verdict, level=np.array(LEVELS, dtype=object)[batch.level], alert_id=None
        )
        frame["alert_id"] = alert_ids(frame, verdict, self.settings)
        return Judged(batch, frame)

    def _share(self, opinions: ensemble.Ballots, batch: Measured) -> NDArray[np.float64]:
        """Return the share of its threshold at which a detector votes for each event (N,)."""
        newcomers = ensemble.newcomers(opinions, batch.level)
        share: NDArray[np.float64] = namespace(newcomers).where(
            newcomers, self.settings.voting.newcomers, 1.0
        )
        return share

    def votes_of(self, judged: Judged) -> pd.DataFrame:
        """Votes on judged events worth keeping."""
        z = {each.name: judged.frame[f"{each.name}_z"].to_numpy() for each in self._on_events()}
        return self._event_votes(judged.batch, z)

    def close_intervals(self, everything: bool = False) -> Closed:
        """What the spectral detector says of the intervals that closed since the last call (or of all that are open).

        A vote on an interval is of one channel of an entity or principal; its event id is a digest of the three. A silence
        is an interval in which far fewer events came than expected: a vote, never a verdict.
        """
        end = self.ledger.closed()
        start, self.ledger.silent_upto = self.ledger.silent_upto, max(self.ledger.silent_upto, end)
        self.names.forget(start)
        spectral = next((each for each in self.detectors if each.votes_on == "interval"), None)
        if spectral is None or (start >= end and not everything):
            return Closed(no_votes(), 0, 0)
        series = self.ledger.series
        row, interval, z = series.filled(start, np.iinfo(np.int32).max if everything else end)
        strong = z >= self.settings.desk.vote_floor
        surges = self._interval_votes(
            "interval", row[strong], interval[strong], z[strong], spectral.threshold
        )
        missed = series.silences(detectors.COUNT, max(start, end - series.per_day), end)
        silences = self._interval_votes("silence", *missed, spectral.threshold)
        no_opinion = int(namespace(z).isnan(z).sum())
        return Closed(pd.concat([surges, silences], ignore_index=True), len(silences), no_opinion)

    # --- who waits ----------------------------------------------------------------------------------------------------

    def _waits(self, batch: Measured) -> NDArray[np.bool_]:
        """Which events may still get a verdict, or all."""
        if self.every_event:
            everybody: NDArray[np.bool_] = namespace(batch.codes).ones(len(batch), bool)
            return everybody
        may = {detector.name: detector.may_vote(batch) for detector in self.detectors}
        return ensemble.verdicts(may, self.settings.voting.quorum)

    def _refused(self, batch: Measured, said: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which of the events that are said something of (N,) are of more strangers than a day may have. They neither wait
        nor have a vote."""
        refused = namespace(said).zeros(len(batch), bool)
        at = namespace(said).flatnonzero(said & ~self.names.known(batch.principal))
        if len(at):
            principal, interval = (host(each[at]) for each in (batch.principal, batch.interval))
            inside = self.ledger.admit(principal, interval, self.settings.voting.strangers_per_day)
            refused[at] = like(~inside, refused)
            self.refused += int((~inside).sum())
        return refused

    def _bound(self) -> None:
        """Let at most `waiting_events` of an interval wait, shared fairly by principals: first the strangest event of each, then
        the second ones, and so on, none beyond `waiting_events_each`. They are the same ones wherever batches are cut, as more
        events of others or of their own principal only worsen the place that an event has."""
        options = self.settings.voting
        if self.every_event or not self._crowded(options.waiting_events, options.waiting_events_each):
            return
        batch = measured.concat(self.waiting)
        own = np.zeros(len(batch), np.float32)
        if "autoencoder" in batch.evidence:
            own = autoencoder.combine(detectors.surprise_of(batch))
        order = np.lexsort((hashing.of(batch.frame["event_id"]), -own))
        place = np.empty(len(batch), np.intp)
        place[order] = counted(hashing.within(batch.principal, batch.interval.astype(np.uint64))[order])
        order = order[np.argsort(place[order], kind="stable")]
        kept = place < options.waiting_events_each
        kept[order] &= counted(batch.interval[order]) < options.waiting_events
        if not kept.all():
            self.dropped += len(batch) - int(kept.sum())
            self.waiting = [batch.take(kept)]

    def _crowded(self, most: int, each: int) -> bool:
        """Return whether more wait in an interval than may, of all principals or of one."""
        if sum(map(len, self.waiting)) <= min(most, each):
            return False
        interval = np.concatenate([part.interval for part in self.waiting])
        principal = np.concatenate([part.principal for part in self.waiting])
        names = hashing.within(principal, interval.astype(np.uint64))
        sizes = [np.bincount(pd.factorize(each)[0]).max() for each in (interval, names)]
        return bool(sizes[0] > most or sizes[1] > each)

    # --- votes --------------------------------------------------------------------------------------------------------

    def _on_events(self) -> list[Detector]:
        return [each for each in self.detectors if each.votes_on == "event"]

    def _event_votes(self, batch: Measured, z: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
        """What each detector that votes on events says of them by its z (N,), NaN for nothing: one row an event and detector,
        where z is at or above the desk's floor."""
        parts = [no_votes()]
        opinions = {each.name: each.opinion(batch) for each in self.detectors}
        share, alone = self._share(opinions, batch), ensemble.alone(opinions)
        for detector in self._on_events():
            own, at = z[detector.name], detector.threshold * share
            strong = namespace(own).flatnonzero(own >= self.settings.desk.vote_floor)
            rows, level = (
                self._named(batch, strong),
                np.array(LEVELS, dtype=object)[host(batch.level[strong])],
            )
            own, at, lone = (host(each[strong]) for each in (own, at, alone))
            parts.append(
                rows.assign(
                    detector=detector.name, z=own, vote=_voted(own, at), threshold=at, level=level, alone=lone
                )
            )
        return pd.concat([part[list(VOTE)] for part in parts if len(part)] or parts, ignore_index=True)

    def _named(self, batch: Measured, which: NDArray[np.intp]) -> pd.DataFrame:
        """What votes say of the events at some places, on the host. The bank that measures now did, unless they waited."""
        waited = [name for name in ("bank_version",) if name in batch.frame]
        rows = frames.host(frames.rows(batch.frame[_NAMED + waited], which))
        return rows if waited else rows.assign(bank_version=self.bank.version)

    def _interval_votes(
        self, kind: str, row: Ints, interval: Ints, z: Floats, threshold: float
    ) -> pd.DataFrame:
        if not len(row):
            return no_votes()
        series, seconds = self.ledger.series, self.settings.spectral.interval_seconds
        few = self._few_strangers(host(series.owner[row]), host(interval), host(z))
        interval, z = host(interval)[few], host(z)[few]
        owner, channel = (host(each[row])[few] for each in (series.owner, series.channel))
        name = pd.Series(self.names.of(owner), dtype=object)
        principal = name.map(lambda text: text.split("|")[0], na_action="ignore")
        frame = pd.DataFrame(
            {
                "event_id": [
                    f"{kind}:{who:016x}:{what:x}:{at}"
                    for who, what, at in zip(owner, channel, interval, strict=True)
                ],
                "event_time": pd.to_datetime((interval.astype(np.int64) + 1) * seconds, unit="s", utc=True),
                "principal": principal,
                "entity": name,
                "detector": "spectral",
                "z": z,
                "threshold": threshold,
                "vote": z >= threshold,
                "level": np.where(name == principal, "principal", "entity"),
                "bank_version": self.bank.version,
                "alone": False,
            }
        )
        return frame.loc[name.notna(), list(VOTE)].reset_index(drop=True)

    def _few_strangers(self, owner: Hashes, interval: Ints, z: Floats) -> NDArray[np.bool_]:
        """Return which votes on intervals (N,) are kept: all on whom the bank knows, and of the others the strongest of each
        interval. On the host."""
        kept = self.names.known(owner)
        order = np.flatnonzero(~kept)
        order = order[np.lexsort((owner[order], -z[order]))]
        kept[order] = counted(interval[order]) < self.settings.voting.strangers_per_day
        self.refused += len(kept) - int(kept.sum())
        return kept


def _voted(z: Floats, threshold: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where a z (N,) is at or above its threshold (N,), as one float32 to the other; NaN is not."""
    voted: NDArray[np.bool_] = z >= threshold.astype(np.float32)
    return voted


@cache
def no_votes() -> pd.DataFrame:
    """A table of votes with nothing in it."""
    return pd.DataFrame({name: pd.Series(dtype=object) for name in VOTE})


LATE_KIND = np.uint64(1 << 40)  # beyond the number of any window


def alert_ids(frame: pd.DataFrame, verdict: NDArray[np.bool_], settings: Settings) -> pd.Series:
    """The alert of each verdict: a hash of its principal and its window (`alert_windows`); missing for the others."""
    window, late = alert_windows(frame[verdict], settings)
    principal = hashing.of(frame["principal"][verdict])
    marked = window.astype(np.uint64) + np.where(late, LATE_KIND, np.uint64(0))
    names = [f"{name:016x}" for name in hashing.mix(principal, marked)]
    return pd.Series(names, index=frame.index[verdict], dtype=object).reindex(frame.index)


def alert_windows(frame: pd.DataFrame, settings: Settings) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The number of the window of each event (N,), and whether it was delivered late, (N,).

    A window is a fixed stretch of event time. What comes later than any history reaches back is put together by when it was
    delivered instead: an old archive that is read again becomes one alert a principal, not one for each of its old days.
    """
    at = frames.seconds(frame["event_time"])
    delay = frame["delay"].to_numpy(np.int64) if "delay" in frame else np.zeros(len(frame), np.int64)
    late = delay >= settings.spectral.history_days * 86400
    return (at + np.where(late, delay, 0)) // settings.alerts.window_seconds, late
