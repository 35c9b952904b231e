"""The road of one ledger: events in, oldest first or nearly so; alerts and votes out. No I/O.

Example:
    >>> road = Road(bank, ledger, settings)
    >>> for events in chunks:
    ...     said = road.walk(events)
    ...     desk.save(said.alerts, said.votes)
    >>> said = road.finish()

One step is: take, see how far time has come, close the intervals that are over, settle what waited for them, close the
windows of alerts, let time pass. Where the events are cut into steps changes no final answer. With `early`, alerts are told
of while their intervals are open, and told again when they have grown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from fingerprint.alerting.explanation import Explainer, Groups
from fingerprint.compute import frames, hashing
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import Alert
from fingerprint.core.ports import Losses
from fingerprint.core.settings import Settings
from fingerprint.detection.scorer import Judged, Scorer, Taken, no_votes
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import Ledger

NOTHING = Taken(0, 0, np.empty(0, np.uint64), no_votes())


class Said(NamedTuple):
    """What one step says: alerts (again, if they have grown), votes, and every judged event if that was asked for."""

    alerts: list[Alert]
    votes: pd.DataFrame
    judged: list[pd.DataFrame]


@dataclass
class Tally:
    """What has gone by."""

    events: int = 0
    repeats: int = 0
    verdicts: int = 0
    alerts: int = 0
    silences: int = 0
    degraded: int = 0  # events whose losses were measured by who stands in
    no_opinion: int = 0  # cells of series that were still warming up
    votes: dict[str, int] = field(default_factory=dict)


class Road:
    """Walks batches of events from measuring to alerts, and counts."""

    def __init__(
        self,
        bank: Bank,
        ledger: Ledger,
        settings: Settings,
        every_event: bool = False,
        early: bool = False,
        losses: Losses | None = None,
    ) -> None:
        self.scorer = Scorer(bank, ledger, settings, every_event, losses)
        self.groups = Groups(Explainer(bank.here, ledger.series, settings))
        self.ledger, self.every_event, self.early = ledger, every_event, early
        self.tally = Tally(votes={each.name: 0 for each in self.scorer.detectors})

    def judge_by(self, bank: Bank, losses: Losses | None = None) -> Callable[[], None]:
        """Measure against another bank from now on; returns what takes that back. The ledger goes on. What waits, and verdicts
        whose window is open, stay with the bank that measured them."""
        before = self.scorer, self.groups.by, self.ledger.channels_since
        self.scorer = self.scorer.under(bank, losses)
        earlier = {**self.groups.by.earlier, self.groups.by.bank.version: self.groups.by.bank}
        self.groups.by = replace(self.groups.by, bank=bank.here, earlier=earlier)
        self.ledger.channels_since = (
            self.ledger.watermark // self.groups.by.settings.spectral.interval_seconds
        )

        def back() -> None:
            self.scorer, self.groups.by, self.ledger.channels_since = before

        return back

    def hold_to(self, settings: Settings) -> None:
        """Hold events to other thresholds, or another quorum, from now on. What waits is judged by them too; what could not get a
        verdict when it came does not come back."""
        self.scorer = self.scorer.under(self.scorer.bank, self.scorer.losses, settings)
        self.groups.by = replace(self.groups.by, settings=settings)

    def waits_of(self) -> set[str]:
        """The versions of the banks that measured what waits, and what has a verdict whose window is open."""
        waiting = [part.frame for part in self.scorer.waiting]
        frames = waiting + [part.frame for part in self.groups.open]
        return {str(version) for frame in frames for version in frame["bank_version"].unique()}

    def let_go(self) -> None:
        """Forget the banks of which nothing waits any more."""
        by = self.groups.by
        if by.earlier:
            needed = self.waits_of()
            earlier = {version: bank for version, bank in by.earlier.items() if version in needed}
            self.groups.by = replace(by, earlier=earlier)

    def walk(self, events: Frame, watermark: int | None = None) -> Said:
        """One step, with or without events. `watermark` (seconds from the epoch) says how far time has come, where the
        events do not."""
        taken = self.scorer.take(events) if len(events) else NOTHING
        self.tally.events += taken.events
        self.tally.repeats += taken.repeats
        self.tally.degraded += taken.degraded
        self._see(events, watermark)
        intervals = self._closed()  # before anything is judged: forecasts are made day by day
        judged = self._kept(self.scorer.settle())
        alerts = self._grown(taken.principals) + self._over(self.ledger.closed())
        self.ledger.advance()
        return self._said(alerts, [taken.votes, intervals, judged.votes], judged)

    def finish(self) -> Said:
        """The input has ended: judge what still waits."""
        intervals = self._closed(everything=True)
        judged = self._kept(self.scorer.settle(everything=True))
        return self._said(self._over(None), [intervals, judged.votes], judged)

    def _see(self, events: Frame, watermark: int | None) -> None:
        if watermark is not None:
            self.ledger.watermark = max(self.ledger.watermark, watermark)
        elif len(events):
            self.ledger.see(frames.seconds(events["event_time"]), hashing.homed(events["principal"]))

    def _kept(self, judged: Judged | None) -> Said:
        """Verdicts go to their alerts; the votes, and the events if every one was asked for, are passed on."""
        if judged is None:
            return Said([], no_votes(), [])
        self.tally.verdicts += int(judged.frame["verdict"].sum())
        self.groups.add(judged.batch, judged.frame)
        return Said([], self.scorer.votes_of(judged), [judged.frame] if self.every_event else [])

    def _grown(self, principals: Hashes) -> list[Alert]:
        if not self.early:
            return []
        judged = self.scorer.so_far(principals)
        grown = self.groups.grown(judged.batch, judged.frame) if judged else []
        return grown + self.groups.delivered_late()

    def _over(self, before: int | None) -> list[Alert]:
        alerts = self.groups.close(before)
        self.tally.alerts += len(alerts)
        return alerts

    def _closed(self, everything: bool = False) -> pd.DataFrame:
        closed = self.scorer.close_intervals(everything)
        self.tally.silences += closed.silences
        self.tally.no_opinion += closed.no_opinion
        return closed.votes

    def _said(self, alerts: list[Alert], votes: list[pd.DataFrame], judged: Said) -> Said:
        table = pd.concat([part for part in votes if len(part)] or votes, ignore_index=True)
        for name, count in table.loc[table["vote"].eq(True), "detector"].value_counts().items():
            self.tally.votes[str(name)] += int(count)
        return Said(alerts, table, judged.judged)
