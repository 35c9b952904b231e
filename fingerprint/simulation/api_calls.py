"""Calls as columns, passed from simulated principals to the writer of records.

Example:
    >>> few = Calls.from_columns([3.0, 9.5], [7, 7], session=0)
    >>> len(few), few.time.dtype.name
    (2, 'float64')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fingerprint.simulation.identifiers import POOL_SIZE, IdentifierPools
from fingerprint.simulation.user_agents import UserAgent

USUAL_SALTS = 6  # names and ids of a kind that a person usually works with


@dataclass(slots=True)
class CallerSession:
    """Caller, credential, program and address: all that a record needs in addition to its template, except times and ids.

    `identity` is the userIdentity as JSON. `values` fills the placeholders that the session fixes (account, region, caller).
    """

    identity: str
    user_agent: UserAgent
    address: str
    region: str
    values: dict[str, str]
    pools: IdentifierPools
    console: bool = False
    endpoint: str = ""  # of the VPC, or nothing
    shared: bool = False  # recorded by a second account as well
    salt: int = 0  # selects the account's names and ids that this session works with


@dataclass(slots=True)
class Calls:
    """Calls of one day, not in order.

    `time` is in seconds since the day's midnight, UTC, up to two days later. `form` is an index of the library's templates,
    `session` one of the list of sessions passed with the calls, `salt` selects the values of placeholders.
    """

    time: NDArray[np.float64]
    form: NDArray[np.int32]
    session: NDArray[np.int32]
    salt: NDArray[np.int32]

    @classmethod
    def from_columns(cls, time: ArrayLike, form: ArrayLike, session: ArrayLike, salt: ArrayLike = 0) -> Calls:
        """Return calls from columns; a scalar holds for all."""
        times = np.asarray(time, np.float64)
        columns = (
            np.broadcast_to(np.asarray(c, np.int32), times.shape).copy() for c in (form, session, salt)
        )
        return cls(times, *columns)

    def __len__(self) -> int:
        return len(self.time)

    def take(self, keep: NDArray[np.bool_] | NDArray[np.intp]) -> Calls:
        """Return the calls of a mask, or at these positions."""
        return Calls(self.time[keep], self.form[keep], self.session[keep], self.salt[keep])


def unusual_salts(rng: np.random.Generator, count: int, share: float) -> NDArray[np.int64]:
    """Return numbers to add to the salts of `count` runs: 0, or for a `share` of them one that selects other resources."""
    elsewhere = rng.random(count) < share
    return elsewhere * rng.integers(USUAL_SALTS, POOL_SIZE, count)


def concatenate_calls(
    parts: Sequence[tuple[Calls, Sequence[CallerSession]]],
) -> tuple[Calls, list[CallerSession]]:
    """Return one table of all parts; sessions are renumbered."""
    parts = [part for part in parts if len(part[0])]
    sessions: list[CallerSession] = []
    shifts = []
    for _, some in parts:
        shifts.append(len(sessions))
        sessions.extend(some)
    if not parts:
        return Calls.from_columns([], 0, 0), sessions
    numbers = [calls.session + shift for (calls, _), shift in zip(parts, shifts, strict=True)]
    columns = ([getattr(calls, name) for calls, _ in parts] for name in ("time", "form"))
    time, form = (np.concatenate(column) for column in columns)
    salt = np.concatenate([calls.salt for calls, _ in parts])
    return Calls(time, form, np.concatenate(numbers), salt), sessions
