"""How often was this seen before: counts of keys, and the log frequencies that smoothed counts give.

Example:
    >>> keys = np.array([7, 7, 9], np.uint64)
    >>> count(keys, np.array([7, 8], np.uint64)).tolist()
    [2, 0]

The peers that count (`rarity`, `outliers`, `rules`) are made of this. What is counted are codes and hashes of pairs;
no loop runs over events.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.evaluation.event_table import HOUR_SECONDS, EventTable, Seconds
from fingerprint.features.encoding import FEATURE_NAMES, FEATURES

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

BACKOFF_WEIGHT = 5.0  # events that what stands behind a frequency is worth
RECORDED_COLUMNS = [place for place, feature in enumerate(FEATURES) if not feature.is_stateful]
ACTION_COLUMN = FEATURE_NAMES.index("action")
NO_ACTION = np.uint64(0)  # the action before the first


def count_occurrences(past: Hashes, now: Hashes) -> Counts:
    """How often each key of `now` is in `past`: (N,)."""
    code, distinct = pd.factorize(np.concatenate([past, now]))
    times = np.bincount(code[: len(past)], minlength=len(distinct))
    return times[code[len(past) :]].astype(np.int64)


def count_in_earlier_hours(keys: Hashes, hour: Seconds) -> Counts:
    """How often each key is in these rows themselves, in hours before the row's own: (N,). Hours never fall.

    That is how often it came before, less how often it came before in the same hour.
    """
    here = hashing.hash_pair(keys, hour.astype(np.uint64))
    return _count_in_rows_above(keys) - _count_in_rows_above(here)


def _count_in_rows_above(keys: Hashes) -> Counts:
    """How often each row's key is in the rows above it: (N,)."""
    code = pd.Series(pd.factorize(keys)[0])
    return code.groupby(code, sort=False).cumcount().to_numpy().astype(np.int64)


def count_seen(past: Hashes, now: Hashes, hour: Seconds | None) -> Counts:
    """`count`; with the hours of `now`, also what happened since the past, up to the hour before the event's own."""
    return count_occurrences(past, now) + (0 if hour is None else count_in_earlier_hours(now, hour))


def log_frequencies(
    past: EventTable, now: EventTable, columns: Sequence[int], online: bool = False
) -> Floats:
    """Log frequency of features' values at the principal, backed off: (len(now), len(places)).

    With P the frequency in the organisation, where one value more is possible than was seen:

        p(x) = (count(principal, x) + 5 P(x)) / (count(principal) + 5)
        P(x) = (count(x) + 1/2) / (count() + (values + 1) / 2)

    `lately` also counts what happened since the past, up to the hour before the event's own.
    """
    hour = now.hours if online else None
    out = np.empty((len(now), len(columns)))
    mine = count_seen(past.principal, now.principal, hour)
    everything = count_seen(np.zeros(len(past), np.uint64), np.zeros(len(now), np.uint64), hour)
    for column, place in enumerate(columns):
        before, here = past.codes[:, place], now.codes[:, place]
        own = count_seen(
            hashing.hash_pair(past.principal, before), hashing.hash_pair(now.principal, here), hour
        )
        values = len(pd.unique(before))
        organisation = (count_seen(before, here, hour) + 0.5) / (everything + (values + 1) / 2)
        out[:, column] = np.log((own + BACKOFF_WEIGHT * organisation) / (mine + BACKOFF_WEIGHT))
    return out


def transition_log_frequency(past: EventTable, now: EventTable, fallback: Floats) -> Floats:
    """Log frequency of the action after the principal's previous one, as far as `behind` is known to say it: (N,).

        p(action | previous) = (count(principal, previous, action) + 5 p(action)) / (count(principal, previous) + 5)

    `behind` (N,) is log p(action) at the principal. What was done up to the hour before counts as seen.
    """
    then, now_after = (hashing.hash_pair(rows.principal, previous_action(rows)) for rows in (past, now))
    context = count_seen(then, now_after, now.hours)
    pairs = count_seen(
        hashing.hash_pair(then, past.codes[:, ACTION_COLUMN]),
        hashing.hash_pair(now_after, now.codes[:, ACTION_COLUMN]),
        now.hours,
    )
    return np.log((pairs + BACKOFF_WEIGHT * np.exp(fallback)) / (context + BACKOFF_WEIGHT))


def previous_action(rows: EventTable) -> Hashes:
    """Code of what the principal did before, within the hour; NOTHING if it was idle for longer: (N,)."""
    order = np.lexsort((rows.seconds, rows.principal))
    who, when, action = rows.principal[order], rows.seconds[order], rows.codes[order, ACTION_COLUMN]
    out = np.full(len(rows), NO_ACTION)
    goes_on = (who[1:] == who[:-1]) & (when[1:] - when[:-1] < HOUR_SECONDS)
    out[order[1:]] = np.where(goes_on, action[:-1], NO_ACTION)
    return out
