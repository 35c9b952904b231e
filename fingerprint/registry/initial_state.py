"""The state that a scoring run starts from: the last run's, the bank's own, or an empty one if the bank has learned the input.

Example:
    >>> arrays, started_from = initial_state(bank, history.activity_start(), settings, Path("state"))
    >>> started_from
    'bank'
    >>> state = ScorerState.from_arrays(settings, arrays)
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from fingerprint.compute.arrays import Arrays
from fingerprint.core import time_range
from fingerprint.core.settings import Settings
from fingerprint.registry import state_files
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import ScorerState

FROM_STATE, FROM_BANK = "state", "bank"  # where a run may start
FROM_NOTHING = "empty: the input begins before the bank's training ends"


def initial_state(
    bank: Bank, activity_start: int | None, settings: Settings, folder: Path | None
) -> tuple[Arrays, str]:
    """Return the state that a run starts from, as arrays, and its origin: FROM_STATE, FROM_BANK or FROM_NOTHING.

    `activity_start` is the beginning of the input in seconds since 1970, None without events. `folder` holds the state of the
    previous run, if there was one.
    """
    kept = state_files.restore_state(folder, settings) if folder else None
    if kept:
        return kept.as_arrays(), FROM_STATE
    if activity_start is not None and activity_start < _training_end(bank, settings):
        return ScorerState(settings).as_arrays(), FROM_NOTHING
    return bank.scorer_state, FROM_BANK


def _training_end(bank: Bank, settings: Settings) -> int:
    """Return the end of training in seconds since 1970, but at least one interval after the history began."""
    begin = int(pd.Timestamp(bank.manifest["span"][0]).timestamp())
    return max(int(bank.manifest["trained_until"]), begin + settings.spectral.interval_seconds)


def trained_until(bank: Bank, settings: Settings) -> str:
    """Return the end of a bank's training in the form of `--since`: events from then on can be scored with its history."""
    return time_range.format_instant(datetime.fromtimestamp(_training_end(bank, settings), UTC))


def missing_history_warning(started_from: str, bank_version: str, since: str) -> str | None:
    """Return a warning if a run began without history, so that counts could not be judged; else None.

    `since` is the end of the bank's training (`trained_until`).
    """
    if started_from != FROM_NOTHING:
        return None
    return (
        f"scoring began without history, because the input begins before the training of bank {bank_version} ends: counts are "
        "not judged before they have warmed up, and whatever the bank has learned, an attack too, is usual to it. Score what "
        f"follows (--since {since}), train on less (`fingerprint train --until DATE`), or give the --state of an earlier run"
    )
