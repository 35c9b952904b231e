"""The context that alerts are explained from: the banks that measured their events, and the state of the scorer.

Example:
    >>> explainer = Explainer(bank, state, settings)
    >>> bank, row = explainer.bank_and_row(batch, 0)          # what measured the first event, and its fingerprint there
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.core.settings import Settings
from fingerprint.registry.bank import Bank
from fingerprint.state.activity_series import ActivitySeries
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.interval_amounts import IntervalAmounts
from fingerprint.state.scorer_state import ScorerState


@dataclass(frozen=True)
class Explainer:
    """The context that alerts are explained from: the current bank, the banks of pending events by version, and the state."""

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
        """Return the bank that measured some events, and the rows of their fingerprints in it, (R,).

        All events at `rows` have the same bank version. If that bank is no longer loaded, the current one stands in for it.
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
