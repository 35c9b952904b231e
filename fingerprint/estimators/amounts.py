"""Amounts: how many calls of an action a principal makes in an hour and in a day, compared with its usual number -> nats.

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
Poisson distribution nor a standard deviation says how rare a burst is. The ratio of a count to the *usual calls* is steadier.
Usual is the root mean square of the principal's own counts of that action, over the windows in which it called the action at
all. Where the windows are few it is shrunk towards `PRIOR_CALLS`, which also stand for an action that the principal never called.

There are three amounts. Two count all calls, in an interval (an hour) and in the day that ends with it: a bulk read shows in its
hour; a thief who repeats a usual call now and then shows in the day, which is steadier. The third counts the interval's calls on
*unusual resources*. A principal that reads thousands of objects an hour, and now hundreds from a bucket that it never touched,
does not read more than usual. No one has a usual number of calls on unusual resources, so that number is the same for all.

For each amount the largest log ratio of a principal's day has an exponential tail, the same for all principals of an
organisation: its `edge` is passed on one held-out day in twenty, and `slope` is the mean excess over it. It is fitted on days,
because an amount that lasts for hours is one amount. `tail_of_intervals` converts it to active intervals, in which surprises are
measured too; otherwise an amount would have to be rarer to open an alert, by as many times as a day has active hours. Calls on
unusual resources stay with days: most hours have none, so their tail does not reach down to one hour in twenty. The nats of an
amount are minus the log of the share of intervals (or days) with as large an amount.

Where even a bulk read is usual, all amounts are worth less (`discount_common_amounts`).

Only some events of a burst *carry* its amount (`UsualAmounts.carried`): not all 400 events of an hour of 400 calls need to wait
for its end. They are known before the amount is, so that the way batches are cut does not change which they are.
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

PRIOR_CALLS, PRIOR_CALLS_A_DAY = 6.0, 12.0  # usual calls an interval and a day, before any was seen ...
PRIOR_WINDOWS = 1.0  # ... and how many windows this prior is worth
DEFAULT_EDGE, DEFAULT_SLOPE = 1.6, 0.4  # of log ratios, in a usual organisation ...
DEFAULT_INTERVALS = 8.0  # active ones of a principal's day: a working day of hours ...
EDGE_PRIOR_DAYS, SLOPE_PRIOR_DAYS = 200, 20  # ... how many days the edge is worth, how many peaks the slope
MAX_AMOUNT_NATS = 33.0
ALERTING_NATS = 5.5  # z of 2.6: a smaller amount hardly ever opens an alert
# Expected number of events that carry an amount of ALERTING_NATS: one such amount in fifty has none
CARRIERS = 4.0
EDGE_NATS = -float(np.log(TAIL_SHARE))
# What amounts are for: some ten times a busy day's worth of calls within an hour, as a multiple of an hour's usual calls ...
BULK_AMOUNT = 25.0
TELLING_NATS = (
    8.0  # ... and the nats that it has where amounts tell something (z 3.4). For each nat that it lacks ...
)
DISCOUNT_A_NAT, MAX_DISCOUNT = 3.0, 4.0  # ... all amounts are worth so many nats less, and so many at most
AMOUNTS = ("interval", "day", "interval on unusual resources")
# The amounts that the principal's load is taken from (`estimators.load`), and that have tails of intervals.
AMOUNTS_OF_ALL_CALLS = slice(0, 2)
# Surprise of a resource that is new to a principal which hardly ever touches new ones
UNUSUAL_RESOURCE_NATS = 4.0
PRIOR_UNUSUAL_CALLS = 3.0  # usual calls an interval on unusual resources, the same for all principals
_UNUSUAL = hashing.hash_string("on unusual resources")
AMOUNT_COLUMNS = ("usual", "most", "usual_a_day", "most_a_day")


class AmountTail(NamedTuple):
    """The exponential tail of log ratios: one day (or interval) in twenty passes `edge`, by `slope` on average."""

    edge: float = DEFAULT_EDGE
    slope: float = DEFAULT_SLOPE


IN_HISTORY = " in the history"  # the end of a text that gives the largest amount of the history
NO_TAILS = (AmountTail(),) * len(AMOUNTS)  # before any was fitted


class IntervalCalls(NamedTuple):
    """Counts of calls, one for each (principal, interval, action), U of them; an interval may be a day.

    `of_action` (U,) is the key of principal and action, `events` (U,) the number of calls.
    """

    of_action: Hashes
    events: NDArray[np.float64]


def interval_calls(principal: Hashes, interval: Ints, action: Hashes, events: Floats) -> IntervalCalls:
    """Return the calls of each principal, interval and action, from rows (N,) that stand for `events` (N,) calls each."""
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
    """Return whether each event (N,) touches an unusual resource, by the surprise of its features (N, F)."""
    of_resources = surprise[:, to_device_of(IS_RESOURCE, surprise)]
    unusual: NDArray[np.bool_] = namespace(surprise).any(of_resources >= UNUSUAL_RESOURCE_NATS, axis=1)
    return unusual


def calls_of_last_day(
    principal: Hashes, interval: Ints, action: Hashes, events: Floats, intervals_per_day: int
) -> NDArray[np.float64]:
    """Return how often each row's action was called in the day that ends with its interval; a row stands for `events` calls."""
    _, place = np.unique(action_key(principal, action), return_inverse=True)
    at = place.astype(np.int64) << 32 | interval
    order = np.argsort(at, kind="stable")
    summed = np.concatenate([[0.0], np.cumsum(events[order], dtype=np.float64)])
    end, start = (np.searchsorted(at[order], last, side="right") for last in (at, at - intervals_per_day))
    return summed[end] - summed[start]


def usual_amounts(of_action: Hashes, events: NDArray[np.float64], prior: float = PRIOR_CALLS) -> Arrays:
    """Return the usual calls of each principal and action, from the calls of each window (U,), shrunk towards `prior` calls.

    Returns `key` (M,) sorted, `usual` (M,) the shrunk root mean square of the calls of a window, and `most` (M,) their maximum.
    """
    key, place = np.unique(of_action, return_inverse=True)
    windows = np.bincount(place, minlength=len(key))
    squares = np.bincount(place, events**2, len(key))
    mean = (squares + PRIOR_WINDOWS * prior**2) / (windows + PRIOR_WINDOWS)
    most = np.zeros(len(key))
    np.maximum.at(most, place, events)
    return {"key": key, "usual": np.sqrt(mean).astype(np.float32), "most": most.astype(np.float32)}


def fit_amount_tail(largest: Floats) -> AmountTail:
    """Return the tail of log ratios, from the largest ratio of each day of a principal (U,)."""
    if not len(largest):
        return AmountTail()
    own = float(np.quantile(largest, 1 - TAIL_SHARE))
    edge = (len(largest) * own + EDGE_PRIOR_DAYS * DEFAULT_EDGE) / (len(largest) + EDGE_PRIOR_DAYS)
    peaks = largest[largest > edge] - edge
    return AmountTail(edge, tail_calibration.censored_slope(peaks, DEFAULT_SLOPE, SLOPE_PRIOR_DAYS))


def tail_of_intervals(tail: AmountTail, intervals: int, days: int) -> AmountTail:
    """Convert a tail of days to one of active intervals: principals had `intervals` of them on `days` active days.

    One day in twenty is one active hour in 160 if a day has eight of them. So the edge, which one hour in twenty passes, lies
    log(8) slopes lower on the same exponential tail.

    >>> round(tail_of_intervals(AmountTail(1.6, 0.4), intervals=8000, days=1000).edge, 2)
    0.77
    """
    a_day = (intervals + EDGE_PRIOR_DAYS * DEFAULT_INTERVALS) / (days + EDGE_PRIOR_DAYS)
    return AmountTail(tail.edge - tail.slope * float(np.log(a_day)), tail.slope)


def discount_common_amounts(tails: Sequence[AmountTail]) -> list[AmountTail]:
    """Return the tails, in the order of AMOUNTS, with amounts worth less where even a BULK_AMOUNT in an hour is usual.

    Where people run loops of thousands of calls, an insider's bulk read is no rarer than they are. Amounts would then find none,
    and spend the alert budget on loops. A tail whose edge lies d slopes higher has d nats less everywhere.

    >>> calm, loops = AmountTail(0.44, 0.29), AmountTail(0.72, 0.9)
    >>> discount_common_amounts([calm, calm, calm])[0]
    AmountTail(edge=0.44, slope=0.29)
    >>> round(discount_common_amounts([loops, calm, calm])[0].edge, 2)            # 4 slopes higher
    4.32
    """
    hour = tails[0]
    lacking = TELLING_NATS - EDGE_NATS - (np.log(BULK_AMOUNT) - hour.edge) / hour.slope
    discount = float(np.clip(DISCOUNT_A_NAT * lacking, 0, MAX_DISCOUNT))
    return [AmountTail(edge + discount * slope, slope) for edge, slope in tails]


def log_ratio(calls: Any, usual: Floats) -> Floats:
    """Return the log ratio of calls to the usual ones, (N,)."""
    xp = namespace(usual)
    out: Floats = xp.log(xp.maximum(calls, 1) / usual)
    return out


def amount_nats(calls: Any, log_usual: Any, slope: Any) -> Floats:
    """Return the nats of calls (...,): minus the log of the share of intervals with as many; 0 up to the edge of the tail.

    `log_usual` is the log of the usual calls plus the edge, (...,) or scalar. A slope of 0 marks an event that carries no amount.
    """
    xp = namespace(calls)
    return _nats_beyond(xp.log(xp.maximum(calls, 1).astype(np.float32)) - log_usual, slope)


def _nats_beyond(beyond: Any, slope: Any) -> Floats:
    """Return the nats of log ratios that lie `beyond` (...,) the edge of a tail with a `slope`."""
    xp = namespace(beyond)
    slopes = xp.where(slope > 0, beyond / xp.where(slope > 0, slope, 1), -1)
    out: Floats = xp.where(slopes > 0, xp.minimum(EDGE_NATS + slopes, MAX_AMOUNT_NATS), 0).astype(np.float32)
    return out


def nats_of_log_ratios(ratio: Floats, tails: Sequence[AmountTail]) -> Floats:
    """Return the nats of the rarest of each row's amounts, from log ratios (N, A) and A tails in the order of AMOUNTS."""
    edge, slope = (np.array(column, np.float32) for column in zip(*tails, strict=True))
    nats: Floats = _nats_beyond(ratio - edge, slope).max(axis=1)
    return nats


def carrying_share(ratio: Floats, calls: NDArray[Any], tails: Sequence[AmountTail]) -> Floats:
    """Return which share of the calls (N,) of an interval `UsualAmounts.carried` would choose to carry an amount.

    `ratio` (N, A) are log ratios. For amounts that other calls make (of a day, on unusual resources) it is an upper bound.
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
        """Return the usual amounts of a bank from its arrays by name (`amount.*`), on the device of `placement`.

        Without such arrays no principal has usual amounts of its own.
        """
        own = mapped_arrays.part_arrays("amount", arrays)
        tail = np.asarray(own.pop("tail", NO_TAILS), float).tolist()
        columns = own or usual_by_window(*[(np.empty(0, np.uint64), np.empty(0))] * 2)
        placed = {name: placement(np.asarray(each)) for name, each in columns.items()}
        return cls.from_columns(placed, tuple(AmountTail(*each) for each in tail))

    @classmethod
    def from_columns(cls, columns: Arrays, tails: tuple[AmountTail, ...] = NO_TAILS) -> UsualAmounts:
        """Return the usual amounts that have the columns of `usual_by_window`."""
        return cls(SortedTable(columns["key"], {name: columns[name] for name in AMOUNT_COLUMNS}), tails)

    def usual(self, principal: Hashes, action: Hashes) -> Floats:
        """Return the usual calls of each principal and action by amount, (N, 3)."""
        by_window = self._columns(principal, action, usual=PRIOR_CALLS, usual_a_day=PRIOR_CALLS_A_DAY)
        return _with_unusual(by_window, PRIOR_UNUSUAL_CALLS)

    def most(self, principal: Hashes, action: Hashes) -> Floats:
        """Return the most calls of each principal and action by amount, (N, 3); 0 where there were none."""
        return _with_unusual(self._columns(principal, action, most=0, most_a_day=0), 0)

    def is_new(self, principal: Hashes, action: Hashes) -> NDArray[np.bool_]:
        """Return whether the action of each row (N,) is new to its principal: never called before with any effect."""
        new: NDArray[np.bool_] = ~self.table.has(action_key(principal, action))
        return new

    def carried(self, usual: Floats, event: Hashes) -> tuple[Floats, Floats]:
        """Return `log_usual` and `slope` (N, 3) for `amount_nats`, from usual calls (N, 3) and hashes of event ids (N,).

        The slope is 0 for events that do not carry the amount. Of the calls that make an amount of ALERTING_NATS about CARRIERS
        carry it; the id of an event alone decides whether it does.
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
    """Return calls by window (N, 2) with a third column: the `calls` on unusual resources, the same in all rows."""
    xp = namespace(by_window)
    out: Floats = xp.concatenate([by_window, xp.full((len(by_window), 1), calls, by_window.dtype)], axis=1)
    return out


def usual_by_window(
    intervals: tuple[Hashes, NDArray[np.float64]], days: tuple[Hashes, NDArray[np.float64]]
) -> Arrays:
    """Return the usual and the most calls of each principal and action: `key` (M,) sorted, and AMOUNT_COLUMNS (M,).

    `intervals` and `days` count the same rows by interval and by day: keys of principal and action, and calls, (U,) each.
    """
    by_day = usual_amounts(*days, PRIOR_CALLS_A_DAY)
    return usual_amounts(*intervals) | {f"{name}_a_day": by_day[name] for name in ("usual", "most")}


def amount_text(calls: int, action: str, span: str) -> str:
    """Return the text of an amount in a driver: `2,006 calls of s3:GetObject in an hour`."""
    return f"{calls:,} calls of {action} in {span}"


def most_text(most: int) -> str:
    """Return the text of the most calls in the history, which a driver gives as usual; after the history there may be more.

    >>> most_text(46), most_text(0)
    ('at most 46 in the history', 'none in the history')
    """
    return (f"at most {most:,}" if most else "none") + IN_HISTORY


def most_text_with_span(text: str, span: str) -> str:
    """Return a text of `most_text` with the span in which the calls were made.

    >>> most_text_with_span("at most 46 in the history", "an hour")
    'at most 46 in an hour in the history'
    """
    return f"{text.removesuffix(IN_HISTORY)} in {span}{IN_HISTORY}"


def span_text(seconds: int) -> str:
    """Return the length of an interval in words: `an hour`, `5 minutes`."""
    return "an hour" if seconds == 3600 else f"{seconds / 60:g} minutes"


def read_amount_text(text: str, action: str) -> tuple[str, str] | None:
    """Return calls and span from a text of `amount_text`; None if it is the text of another action.

    >>> read_amount_text("2,006 calls of s3:GetObject in an hour", "s3:GetObject")
    ('2,006', 'an hour')
    """
    calls, found, span = text.partition(f" calls of {action} in ")
    number = calls.replace(",", "")
    # The name of an action may itself look like such a text. So the part before it has to be a number.
    return (calls, span) if found and number.isascii() and number.isdecimal() else None
