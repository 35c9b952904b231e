"""Time zones, working hours, holidays.

Example:
    >>> location = LOCATIONS["Seattle"]
    >>> is_working_day(date(2026, 1, 19), location), location.utc_offset
    (False, -8)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from fingerprint.core.time_range import DAY_SECONDS


@dataclass(frozen=True, slots=True)
class Location:
    """A place where people work. `utc_offset` in hours; `holidays` as (month, day) of every year."""

    name: str
    utc_offset: float
    region: str
    holidays: frozenset[tuple[int, int]]


LOCATIONS = {
    place.name: place
    for place in (
        Location("Dublin", 0, "eu-west-1", frozenset({(1, 1), (2, 2), (3, 17), (5, 4), (12, 25), (12, 28)})),
        Location("Berlin", 1, "eu-central-1", frozenset({(1, 1), (4, 3), (4, 6), (5, 1), (10, 3), (12, 25)})),
        Location(
            "Seattle",
            -8,
            "us-west-2",
            frozenset({(1, 1), (1, 19), (2, 16), (5, 25), (7, 3), (11, 26), (12, 25)}),
        ),
        Location(
            "New York",
            -5,
            "us-east-1",
            frozenset({(1, 1), (1, 19), (2, 16), (5, 25), (7, 3), (11, 26), (12, 25)}),
        ),
        Location(
            "Bengaluru", 5.5, "ap-south-1", frozenset({(1, 1), (1, 14), (1, 26), (3, 4), (8, 15), (10, 2)})
        ),
    )
}

# Activity of a working person in each half hour from 0:00 to 24:00 of local time: two peaks and a lunch break.
_HOUR_WEIGHTS = np.array(
    [0.0] * 15
    + [1, 4, 9, 14, 17, 17, 15, 13, 9, 5, 8, 13, 16, 16, 15, 13, 10, 6, 3, 2, 1.2, 1, 1, 0.8, 0.8, 0.6, 0.3]
    + [0.1] * 7
)
_CUMULATIVE = np.concatenate([[0.0], np.cumsum(_HOUR_WEIGHTS / _HOUR_WEIGHTS.sum())])
_HOUR_EDGES = np.linspace(0, DAY_SECONDS, len(_CUMULATIVE))


def is_working_day(day: date, location: Location) -> bool:
    """Return True on weekdays that are no holiday at the location."""
    return day.weekday() < 5 and (day.month, day.day) not in location.holidays


def working_times(share: NDArray[np.float64], shift: float) -> NDArray[np.float64]:
    """Return shares of a working day (0 to 1) as local seconds since midnight, for a person who starts `shift` seconds late."""
    return np.interp(share, _CUMULATIVE, _HOUR_EDGES) + shift


def to_utc(local: NDArray[np.float64], location: Location) -> NDArray[np.float64]:
    """Return local seconds as seconds since the same date's UTC midnight; earlier times are moved to midnight."""
    return np.maximum(local - location.utc_offset * 3600, 1.0)
