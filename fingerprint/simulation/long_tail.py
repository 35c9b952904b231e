"""The long tail: calls that somebody, or everybody, never made before; other parameters than last time;
refusals.

Without it every new operation would be an attack, and a benchmark would flatter.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fingerprint.simulation.api_calls import Calls
from fingerprint.simulation.api_catalogue import Library
from fingerprint.simulation.job_tasks import POPULAR

_POPULAR, _WEIGHTS = list(POPULAR), list(POPULAR.values())
LOGIN = "aws.initial-access.console-login-without-mfa"


@dataclass(frozen=True, slots=True)
class Odds:
    """Shares of calls: `new` of an operation out of the tail, `other` parameters than usual, `denied`,
    `throttled`.
    """

    new: float
    other: float
    denied: float
    throttled: float


PEOPLE = Odds(new=0.028, other=0.05, denied=0.012, throttled=0.002)
MACHINES = Odds(new=0.0010, other=0.002, denied=0.0008, throttled=0.0015)


def vary(
    calls: Calls,
    odds: Odds,
    library: Library,
    services: Sequence[str],
    rng: np.random.Generator,
    draw: random.Random,
) -> Calls:
    """The same calls with some of them replaced; `services` are those the caller knows."""
    edges = np.cumsum([odds.new, odds.other, odds.denied, odds.throttled])
    what = np.searchsorted(edges, rng.random(len(calls)), side="right")
    for i in np.flatnonzero(what < 4):
        number = int(calls.form[i])
        if what[i] == 0:
            calls.form[i] = wander(library, services, draw)
        elif what[i] == 1:
            calls.form[i] = other_form(library, number, draw)
        else:
            calls.form[i] = library.failing("denied" if what[i] == 2 else "throttled", number)
    return calls


def wander(library: Library, services: Sequence[str], draw: random.Random) -> int:
    """An operation out of the tail: mostly of a service one knows, now and then one that attackers call
    too.
    """
    dice = draw.random()
    if dice < 0.14:
        technique = draw.choice([name for name in library.attack if name != LOGIN])
        return draw.choice(library.attack[technique])[1]
    if dice < 0.70 and services:
        service = draw.choice(services)
    elif dice < 0.97:
        service = draw.choices(_POPULAR, _WEIGHTS)[0]
    else:
        service = draw.choice(list(library.by_service))
    return draw.choice(library.of(draw.choice(library.by_service[service])))


def other_form(library: Library, number: int, draw: random.Random) -> int:
    form = library.forms[number]
    action = f"{form.service}:{form.name}"
    return draw.choice(library.of(action)) if library.knows(action) else number
