"""The long tail: calls that a principal, or the whole organisation, never made before; new parameters; refusals.

Without it every new operation would be an attack, and benchmark results would be too good.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fingerprint.simulation.api_calls import Calls
from fingerprint.simulation.api_catalogue import TemplateLibrary
from fingerprint.simulation.job_tasks import SERVICE_POPULARITY

_POPULAR, _WEIGHTS = list(SERVICE_POPULARITY), list(SERVICE_POPULARITY.values())
LOGIN_TECHNIQUE = "aws.initial-access.console-login-without-mfa"


@dataclass(frozen=True, slots=True)
class VariationRates:
    """Shares of calls with a new operation from the tail, with unusual parameters, denied, and throttled."""

    new_operation: float
    other_parameters: float
    denied: float
    throttled: float


PEOPLE_RATES = VariationRates(new_operation=0.028, other_parameters=0.05, denied=0.012, throttled=0.002)
MACHINE_RATES = VariationRates(new_operation=0.0010, other_parameters=0.002, denied=0.0008, throttled=0.0015)


def vary_calls(
    calls: Calls,
    rates: VariationRates,
    library: TemplateLibrary,
    services: Sequence[str],
    rng: np.random.Generator,
    draw: random.Random,
    avoided: frozenset[str] = frozenset(),
) -> Calls:
    """Replace some of the calls in place, and return the calls; `services` are those that the caller uses.

    No call is replaced by one of the `avoided` actions.
    """
    edges = np.cumsum([rates.new_operation, rates.other_parameters, rates.denied, rates.throttled])
    what = np.searchsorted(edges, rng.random(len(calls)), side="right")
    for i in np.flatnonzero(what < 4):
        number = int(calls.form[i])
        if what[i] == 0:
            calls.form[i] = pick_tail_template(library, services, draw, avoided)
        elif what[i] == 1:
            calls.form[i] = pick_other_template(library, number, draw)
        else:
            calls.form[i] = library.failed_template("denied" if what[i] == 2 else "throttled", number)
    return calls


def pick_tail_template(
    library: TemplateLibrary,
    services: Sequence[str],
    draw: random.Random,
    avoided: frozenset[str] = frozenset(),
) -> int:
    """Draw an operation from the tail: mostly of the caller's services, sometimes one that attackers call as well."""
    while library.action_of(form := _pick_tail_template(library, services, draw)) in avoided:
        pass
    return form


def _pick_tail_template(library: TemplateLibrary, services: Sequence[str], draw: random.Random) -> int:
    dice = draw.random()
    if dice < 0.14:
        technique = draw.choice([name for name in library.attack_calls if name != LOGIN_TECHNIQUE])
        return draw.choice(library.attack_calls[technique])[1]
    if dice < 0.70 and services:
        service = draw.choice(services)
    elif dice < 0.97:
        service = draw.choices(_POPULAR, _WEIGHTS)[0]
    else:
        service = draw.choice(list(library.by_service))
    return draw.choice(library.templates_of(draw.choice(library.by_service[service])))


def pick_other_template(library: TemplateLibrary, number: int, draw: random.Random) -> int:
    """Draw another template of the same operation."""
    form = library.templates[number]
    action = f"{form.service}:{form.name}"
    return draw.choice(library.templates_of(action)) if library.has_operation(action) else number
