"""Amounts: how many calls of an action an hour and a day hold, against what their principal usually makes of it -> nats.

Example:
    >>> calls = interval_calls(principal, interval, action, events)         # by (principal, interval, action)
    >>> usual = usual_amounts(calls.of_action, calls.events)                # by (principal, action)
    >>> fit_amount_tail(largest)                # of each held-out day of a principal: its largest log ratio
    AmountTail(edge=1.6, slope=0.4)
    >>> tail_of_intervals(AmountTail(edge=1.6, slope=0.4), intervals=8000, days=1000)
    AmountTail(edge=0.77, slope=0.4)
    >>> amount_nats(np.array([[5.0, 12.0], [212.0, 240.0]]), log_usual=np.log([4.0, 8.0]) + 0.77, slope=0.4)
    array([[ 0. ,  0. ],
           [11. ,  9.6]])

Counts of calls are over-dispersed: the variance of an hour's calls is forty to four hundred times their mean, so neither a
Poisson distribution nor a standard deviation says how rare a burst is. What is steady is the ratio of a count to the root mean
square of the principal's own counts of that action, over the windows in which it called it at all. That of few windows is
shrunk towards `PRIOR_CALLS`, which stand for an action that the principal never called, too.

There are two windows: an interval (an hour), and the day that ends with it. A bulk read shows in its hour; a thief who repeats a
usual call now and then shows in the day, which is steadier. A third amount are the interval's calls on *unusual resources*: who
reads thousands of objects an hour, and now hundreds of a bucket that they never touched, does nothing that is much by itself. An
unusual resource is a rare one, so no one has a usual number of calls on them.

For each amount the largest log ratio of a principal's day has an exponential tail, the same for all principals of an
organisation: its `edge` is passed on one held-out day in twenty, and `slope` is the mean excess over it. Days, because an amount
that lasts for hours is one. What is rare is said of active intervals, as of novelties, or an amount would have to be as many
times rarer to open an alert as a day has active hours: the edge of one interval in twenty lies that much lower on the same tail
(`tail_of_intervals`). An amount's nats are minus the log of the share of intervals that hold as much. Calls on unusual resources
stay with days: most hours have none, so their tail does not reach down to one hour in twenty.

Which events can carry an amount is known before the amount is (`UsualAmounts.carried`). An hour of 400 calls needs no 400
events that wait for its end, and where a batch is cut must not say which of them do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import Arrays, Floats, Ints, Placement, namespace, to_device_of
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable
from fingerprint.estimators import tail_calibration
from fingerprint.estimators.tail_calibration import TAIL_SHARE
from fingerprint.features.encoding import IS_RESOURCE

PRIOR_CALLS, PRIOR_CALLS_A_DAY = 6.0, 12.0  # calls an interval and a day, before any was seen ...
PRIOR_WINDOWS = 1.0  # ... and how many windows that is worth
DEFAULT_EDGE, DEFAULT_SLOPE = 1.6, 0.4  # of log ratios, in a usual organisation ...
DEFAULT_INTERVALS = 8.0  # active ones of a principal's day: a working day of hours ...
EDGE_PRIOR_DAYS, SLOPE_PRIOR_DAYS = 200, 20  # ... and how many days, and peaks over the edge, they are worth
MAX_AMOUNT_NATS = 33.0
ALERTING_NATS = 5.5  # z of 2.6: less hardly opens an alert
CARRIERS = 4.0  # events, about, that carry an amount of ALERTING_NATS: one such amount in fifty has none
EDGE_NATS = -float(np.log(TAIL_SHARE))
AMOUNTS = ("interval", "day", "interval on unusual resources")
# Judged beside the principal's load (`estimators.load`), and by the tails of intervals.
AMOUNTS_OF_ALL_CALLS = slice(0, 2)
UNUSUAL_RESOURCE_NATS = 4.0  # of surprise: a resource is new to a principal that hardly ever touches new ones
PRIOR_UNUSUAL_CALLS = 3.0  # calls an interval on unusual resources, of everybody
_UNUSUAL = hashing.hash_string("on unusual resources")
AMOUNT_COLUMNS = ("usual", "most", "usual_a_day", "most_a_day")


class AmountTail(NamedTuple):
    """The exponential tail of log ratios: `edge` is passed on one day, or interval, in twenty, `slope` is how fast it falls."""

    edge: float = DEFAULT_EDGE
    slope: float = DEFAULT_SLOPE


IN_HISTORY = " in the history"  # ends the text of what was learned of an amount
NO_TAILS = (AmountTail(),) * len(AMOUNTS)  # before any was fitted


class IntervalCalls(NamedTuple):
    """Calls by (principal, interval, action), U of them; an interval may be a day.

    `of_action` (U,) is the key of principal and action, `events` (U,) how many calls.
    """

    of_action: Hashes
    events: NDArray[np.float64]


def interval_calls(principal: Hashes, interval: Ints, action: Hashes, events: Floats) -> IntervalCalls:
    """Return the calls of each principal, interval and action, from rows that stand for so many `events`: (N,) each."""
    keys = action_key(principal, action)
    _, first, place = np.unique(
        hashing.hash_pair(keys, interval.astype(np.uint64)), return_index=True, return_inverse=True
    )
    return IntervalCalls(keys[first], np.bincount(place, events, len(first)).astype(np.float64))


def action_key(principal: Hashes, action: Hashes) -> Hashes:
    """Return the key of a principal and an action, in the principal's hash bucket: (N,)."""
    return hashing.combine(principal, action)


def every_resource_of(action: Hashes) -> Hashes:
    """Return the code under which all calls of each action are counted, (N,): the action's own."""
    return action


def unusual_resources_of(action: Hashes) -> Hashes:
    """Return the code under which calls of each action on unusual resources are counted, (N,)."""
    return hashing.combine(action, namespace(action).full_like(action, _UNUSUAL))


def has_unusual_resource(surprise: Floats) -> NDArray[np.bool_]:
    """Return which events touch an unusual resource (N,), by the surprise of their features (N, F)."""
    of_resources = surprise[:, to_device_of(IS_RESOURCE, surprise)]
    unusual: NDArray[np.bool_] = namespace(surprise).any(of_resources >= UNUSUAL_RESOURCE_NATS, axis=1)
    return unusual


def calls_of_last_day(
    principal: Hashes, interval: Ints, action: Hashes, events: Floats, intervals_per_day: int
) -> NDArray[np.float64]:
    """Return the calls of each row's action in the day that ends with its interval, from rows (N,) that stand for `events`."""
    _, place = np.unique(action_key(principal, action), return_inverse=True)
    at = place.astype(np.int64) << 32 | interval
    order = np.argsort(at, kind="stable")
    summed = np.concatenate([[0.0], np.cumsum(events[order], dtype=np.float64)])
    end, start = (np.searchsorted(at[order], last, side="right") for last in (at, at - intervals_per_day))
    return summed[end] - summed[start]


def usual_amounts(of_action: Hashes, events: NDArray[np.float64], prior: float = PRIOR_CALLS) -> Arrays:
    """Return what is usual of each principal and action, from the calls of windows (U,) and the `prior` calls of one.

    Returns `key` (M,) sorted, `usual` (M,) the shrunk root mean square of calls a window, and `most` (M,) the largest.
    """
    key, place = np.unique(of_action, return_inverse=True)
    windows = np.bincount(place, minlength=len(key))
    squares = np.bincount(place, events**2, len(key))
    mean = (squares + PRIOR_WINDOWS * prior**2) / (windows + PRIOR_WINDOWS)
    most = np.zeros(len(key))
    np.maximum.at(most, place, events)
    return {"key": key, "usual": np.sqrt(mean).astype(np.float32), "most": most.astype(np.float32)}


def fit_amount_tail(largest: Floats) -> AmountTail:
    """Return the tail of log ratios, from the largest of each day of a principal (U,)."""
    if not len(largest):
        return AmountTail()
    own = float(np.quantile(largest, 1 - TAIL_SHARE))
    edge = (len(largest) * own + EDGE_PRIOR_DAYS * DEFAULT_EDGE) / (len(largest) + EDGE_PRIOR_DAYS)
    peaks = largest[largest > edge] - edge
    return AmountTail(edge, tail_calibration.censored_slope(peaks, DEFAULT_SLOPE, SLOPE_PRIOR_DAYS))


def tail_of_intervals(tail: AmountTail, intervals: int, days: int) -> AmountTail:
    """Return a tail of days as one of active intervals, of which principals had so many on so many active days.

    A day in twenty is one in 160 of its hours, if eight are active; an exponential tail is that much lower at one in twenty.

    >>> round(tail_of_intervals(AmountTail(1.6, 0.4), intervals=8000, days=1000).edge, 2)
    0.77
    """
    a_day = (intervals + EDGE_PRIOR_DAYS * DEFAULT_INTERVALS) / (days + EDGE_PRIOR_DAYS)
    return AmountTail(tail.edge - tail.slope * float(np.log(a_day)), tail.slope)


def log_ratio(calls: Any, usual: Floats) -> Floats:
    """Return the log ratio of calls to the usual ones, (N,)."""
    xp = namespace(usual)
    out: Floats = xp.log(xp.maximum(calls, 1) / usual)
    return out


def amount_nats(calls: Any, log_usual: Any, slope: Any) -> Floats:
    """Return the nats of calls (...,): minus the log of the share of intervals that hold as much, 0 for what one in twenty does.

    `log_usual` is the log of the usual calls plus the edge, (...,) or scalar. A slope of 0 marks an event that carries no amount.
    """
    xp = namespace(calls)
    return _nats_beyond(xp.log(xp.maximum(calls, 1).astype(np.float32)) - log_usual, slope)


def _nats_beyond(beyond: Any, slope: Any) -> Floats:
    """Return the nats of log ratios by how far they lie beyond the edge of a tail with some slope, (...,)."""
    xp = namespace(beyond)
    slopes = xp.where(slope > 0, beyond / xp.where(slope > 0, slope, 1), -1)
    out: Floats = xp.where(slopes > 0, xp.minimum(EDGE_NATS + slopes, MAX_AMOUNT_NATS), 0).astype(np.float32)
    return out


def nats_of_log_ratios(ratio: Floats, tails: Sequence[AmountTail]) -> Floats:
    """Return the nats of the rarest amount of log ratios (N, A), by the tail of each, A in the order of AMOUNTS."""
    edge, slope = (np.array(column, np.float32) for column in zip(*tails, strict=True))
    nats: Floats = _nats_beyond(ratio - edge, slope).max(axis=1)
    return nats


def carrying_share(ratio: Floats, calls: NDArray[Any], tails: Sequence[AmountTail]) -> Floats:
    """Return the share of calls (N,) with some log ratios (N, A) that carry an amount, as `UsualAmounts.carried` chooses them.

    `calls` (N,) are those of the interval. Those of a day or on unusual resources are others, so of them it is the most.
    """
    least = np.array([tail.edge + tail.slope * (ALERTING_NATS - EDGE_NATS) for tail in tails])
    share: Floats = (CARRIERS * np.exp((ratio - least).max(axis=1)) / np.maximum(calls, 1)).clip(max=1)
    return share


@dataclass(frozen=True)
class UsualAmounts:
    """The usual amounts of all principals of a bank, and the tails of log ratios, in the order of AMOUNTS."""

    table: SortedTable
    tails: tuple[AmountTail, ...] = NO_TAILS

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], placement: Placement) -> UsualAmounts:
        """Return those of a bank, from its arrays by name (`amount.*`), where `placement` puts them; nothing is usual without."""
        own = mapped_arrays.part_arrays("amount", arrays)
        tail = np.asarray(own.pop("tail", NO_TAILS), float).tolist()
        columns = own or usual_by_window(*[(np.empty(0, np.uint64), np.empty(0))] * 2)
        placed = {name: placement(np.asarray(each)) for name, each in columns.items()}
        return cls.from_columns(placed, tuple(AmountTail(*each) for each in tail))

    @classmethod
    def from_columns(cls, columns: Arrays, tails: tuple[AmountTail, ...] = NO_TAILS) -> UsualAmounts:
        """Return those of some columns (`usual_by_window`)."""
        return cls(SortedTable(columns["key"], {name: columns[name] for name in AMOUNT_COLUMNS}), tails)

    def usual(self, principal: Hashes, action: Hashes) -> Floats:
        """Return the usual calls of each principal and action by amount, (N, 3)."""
        by_window = self._columns(principal, action, usual=PRIOR_CALLS, usual_a_day=PRIOR_CALLS_A_DAY)
        return _with_unusual(by_window, PRIOR_UNUSUAL_CALLS)

    def most(self, principal: Hashes, action: Hashes) -> Floats:
        """Return the most calls of each principal and action by amount, (N, 3); 0 where there were none."""
        return _with_unusual(self._columns(principal, action, most=0, most_a_day=0), 0)

    def is_new(self, principal: Hashes, action: Hashes) -> NDArray[np.bool_]:
        """Return which principals never called the action with any effect, (N,)."""
        new: NDArray[np.bool_] = ~self.table.has(action_key(principal, action))
        return new

    def carried(self, usual: Floats, event: Hashes) -> tuple[Floats, Floats]:
        """Return `log_usual` and `slope` (N, 3) of events by their usual calls (N, 3) and the hashes of their ids (N,).

        They are for `amount_nats`. About CARRIERS of the calls that make an amount of ALERTING_NATS carry it; each does or does
        not by its id alone.
        """
        xp = namespace(usual)
        edge, slope = (xp.asarray(column, dtype=np.float32) for column in zip(*self.tails, strict=True))
        least = edge + slope * np.float32(ALERTING_NATS - EDGE_NATS)
        share = CARRIERS / (usual * xp.exp(least))
        carries = ((event >> np.uint64(11)).astype(np.float64) * 2.0**-53)[:, None] < share
        return (xp.log(usual) + edge).astype(np.float32), xp.where(carries, slope, np.float32(0))

    def _columns(self, principal: Hashes, action: Hashes, **missing: float) -> Floats:
        key = action_key(principal, action)
        columns = [self.table.get(key, name, missing=value) for name, value in missing.items()]
        out: Floats = namespace(key).stack(columns, axis=1)
        return out


def _with_unusual(by_window: Floats, calls: float) -> Floats:
    """Return calls by window (N, 2) and, the same for all, on unusual resources: (N, 3)."""
    xp = namespace(by_window)
    out: Floats = xp.concatenate([by_window, xp.full((len(by_window), 1), calls, by_window.dtype)], axis=1)
    return out


def usual_by_window(
    intervals: tuple[Hashes, NDArray[np.float64]], days: tuple[Hashes, NDArray[np.float64]]
) -> Arrays:
    """Return what is usual of each principal and action: `key` (M,) sorted, and AMOUNT_COLUMNS (M,).

    `intervals` and `days` are keys of actions and calls (U,) of the same rows, by interval and by day.
    """
    by_day = usual_amounts(*days, PRIOR_CALLS_A_DAY)
    return usual_amounts(*intervals) | {f"{name}_a_day": by_day[name] for name in ("usual", "most")}


def amount_text(calls: int, action: str, span: str) -> str:
    """Return an amount as a driver shows it: `2,006 calls of s3:GetObject in an hour`."""
    return f"{calls:,} calls of {action} in {span}"


def most_text(most: int) -> str:
    """Return the most calls that were learned, as a driver says what is usual: after that there may have been more.

    >>> most_text(46), most_text(0)
    ('at most 46 in the history', 'none in the history')
    """
    return (f"at most {most:,}" if most else "none") + IN_HISTORY


def most_text_with_span(text: str, span: str) -> str:
    """Return the text of the most calls with the span in which they were made.

    >>> most_text_with_span("at most 46 in the history", "an hour")
    'at most 46 in an hour in the history'
    """
    return f"{text.removesuffix(IN_HISTORY)} in {span}{IN_HISTORY}"


def span_text(seconds: int) -> str:
    """Return the length of an interval as texts of amounts have it: `an hour`, `5 minutes`."""
    return "an hour" if seconds == 3600 else f"{seconds / 60:g} minutes"


def read_amount_text(text: str, action: str) -> tuple[str, str] | None:
    """Return the calls and the span of an action's amount, as `amount_text` wrote them; None of another action's.

    >>> read_amount_text("2,006 calls of s3:GetObject in an hour", "s3:GetObject")
    ('2,006', 'an hour')
    """
    calls, found, span = text.partition(f" calls of {action} in ")
    number = calls.replace(",", "")
    # An action may be named as the text of another one. What stands before its own is a number.
    return (calls, span) if found and number.isascii() and number.isdecimal() else None
