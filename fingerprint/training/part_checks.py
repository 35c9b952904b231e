"""Checks of the learned parts of a bank: figures, networks, tails, amounts and the others.

Example:
    >>> list(find_broken_parts(bank))
    ['its surge tails hold numbers that are not finite']

A part is broken if a number is not finite, if keys are not sorted, if a tail grows (more would be more usual), or if the tail of
all kinds together is so flat that nothing is ever rare (the tail of a small kind may be). Scoring would not fail on a broken
part: the detector would be silent, or vote for everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import mapped_arrays
from fingerprint.compute.arrays import Floats, identity_placement
from fingerprint.estimators import amounts, sequence
from fingerprint.estimators.call_paths import KnownPaths
from fingerprint.estimators.load import BUSY_ACTIONS, UsualLoad
from fingerprint.estimators.moves import RATES, SettledMachines
from fingerprint.estimators.newcomer_tails import NewcomerTails
from fingerprint.estimators.openers import RoleOpeners
from fingerprint.estimators.sequence import ANY, ORGANISATION
from fingerprint.estimators.surge_tails import SurgeTails
from fingerprint.registry.bank import Bank

RARE_SHARE = 0.05  # of harmless events: for a tail that never falls below, nothing is rare
MIN_HOLDOUT_ROWS = 20  # a bank with fewer is not checked for flat tails
# So many times the usual calls must have at least so many nats. Where people run loops of thousands of calls they may have
# fewer than 10; 5 nats are one active hour in 150, too many for an amount to say anything.
LARGE_AMOUNT, MIN_AMOUNT_NATS = 1000.0, 5.0
CHUNK_NUMBERS = 1 << 24  # numbers checked at a time: networks are mapped, and may be larger than memory
TOLERANCE = 1e-5  # rounding of float32, by which neighbours may differ in the wrong direction


def find_broken_parts(bank: Bank) -> Iterator[str]:
    """Yield a sentence for each broken part: its first fault."""
    enough = bank.manifest["quality"]["rows"] >= MIN_HOLDOUT_ROWS
    yield from _first(_figure_faults(bank))
    yield from _first(_autoencoder_faults(bank))
    yield from _first(_surge_tail_faults(bank, enough))
    yield from _first(_newcomer_tail_faults(bank))
    yield from _first(_burst_faults(bank))
    yield from _first(_amount_faults(bank))
    yield from _first(_load_faults(bank))
    yield from _first(_opener_faults(bank))
    yield from _first(_path_faults(bank))
    yield from _first(_move_faults(bank))
    yield from _first(_transition_faults(bank, enough))


def _first(faults: Iterator[str]) -> Iterator[str]:
    yield from (fault for fault, _ in zip(faults, range(1), strict=False))


def _figure_faults(bank: Bank) -> Iterator[str]:
    """Yield a fault if a figure of the held-out days is not finite: it would never exceed a limit."""
    if not all(map(math.isfinite, _numbers(bank.manifest["quality"]))):
        yield "the figures of its held-out days are not finite"


def _numbers(figures: Any) -> Iterator[float]:
    """Yield all numbers in figures that JSON can hold."""
    if isinstance(figures, int | float):
        yield figures
    elif isinstance(figures, Mapping | list | tuple):
        for each in figures.values() if isinstance(figures, Mapping) else figures:
            yield from _numbers(each)


def _autoencoder_faults(bank: Bank) -> Iterator[str]:
    known, nets, usual = bank.vocabulary, bank.weights, bank.baseline
    if not (
        _ascends(known.keys) and _all_finite(known.logp, known.count, known.escape, known.base, known.total)
    ):
        yield "its vocabulary holds numbers that are not finite, or is not in order"
    if not _all_finite(nets.inputs, nets.bias, nets.outputs):
        yield "its networks hold numbers that are not finite"
    finite = _all_finite(usual.center, usual.rate, usual.interval_tail, usual.newcomer)
    if not (finite and _all_positive(usual.edge, usual.slope)):
        yield "its usual losses are not finite, or their tail is no tail: its edge or slope is not above zero"


def _surge_tail_faults(bank: Bank, enough: bool) -> Iterator[str]:
    tails = SurgeTails.from_arrays(bank.scorer_state, identity_placement)
    if not _all_finite(tails.tail, tails.channel):
        yield "its surge tails hold numbers that are not finite"
    if not (_ascends(tails.key) and _ascends(tails.kind) and _lies_in(tails.kind_of, len(tails.kind) + 1)):
        yield "its surge tails are not in the order of their principals and kinds"
    if (
        not (_falls(tails.tail) and _falls(tails.channel))
        or max(tails.tail.max(), tails.channel.max()) > TOLERANCE
    ):
        yield "its surge tails grow: a larger surge would be more usual than a smaller one"
    if enough and max(tails.tail[-1, -1], tails.channel[-1, :, -1].max()) > np.log(RARE_SHARE):  # everybody's
        yield f"its surge tails are flat: {RARE_SHARE:.0%} of all events or more would surge as much as any"


def _newcomer_tail_faults(bank: Bank) -> Iterator[str]:
    tails = NewcomerTails.from_arrays(bank.scorer_state, identity_placement)
    if not tails.learned:
        return
    if not _all_finite(tails.tail, tails.channel) or not _ascends(tails.kind):
        yield "its tails of newcomers hold numbers that are not finite, or are not in the order of their kinds"
    if not (_falls(tails.tail) and _falls(tails.channel)) or tails.tail.max() > TOLERANCE:
        yield "its tails of newcomers grow: a principal that begins with more would be more usual"
    if max(tails.tail[-1, -1], tails.channel[-1, :, -1].max()) > np.log(RARE_SHARE):
        yield f"its tails of newcomers are flat: {RARE_SHARE:.0%} or more would begin with as much as any"


def _burst_faults(bank: Bank) -> Iterator[str]:
    bursts = mapped_arrays.part_arrays("burst", bank.scorer_state)
    if bursts and not (_ascends(bursts["key"]) and _all_positive(bursts["usual"])):
        yield "the usual bursts of its series are not finite, not above zero, or not in order"


def _amount_faults(bank: Bank) -> Iterator[str]:
    own = mapped_arrays.part_arrays("amount", bank.scorer_state)
    if not own:
        return
    edge, slope = np.asarray(own["tail"], float).T
    usual = _all_positive(own["usual"], own["usual_a_day"]) and _all_finite(own["most"], own["most_a_day"])
    if not (_ascends(own["key"]) and usual):
        yield "the usual amounts of its actions are not finite, not above zero, or not in order"
    if not np.isfinite([edge, slope]).all() or slope.min() <= 0:
        yield "the tail of its amounts is no tail: its edge is not finite, or its slope not above zero"
    elif (
        amounts.amount_nats(np.full(len(edge), LARGE_AMOUNT, np.float32), edge, slope).min() < MIN_AMOUNT_NATS
    ):
        yield f"the tail of its amounts is flat: {LARGE_AMOUNT:,.0f} times the usual calls would hardly be strange"


def _load_faults(bank: Bank) -> Iterator[str]:
    usual = UsualLoad.from_bank(bank.scorer_state, identity_placement)
    busy = usual.log_usual[:, :BUSY_ACTIONS]
    if not (_ascends(usual.key) and _all_finite(busy) and not np.isnan(usual.log_usual).any()):
        yield "the usual actions of its principals are not in order, or their usual calls are not finite"


def _opener_faults(bank: Bank) -> Iterator[str]:
    known = RoleOpeners.from_bank(bank.scorer_state)
    if not (_ascends(known.pair) and _ascends(known.role)):
        yield "the openers of its roles are not in order"
    if not (_all_finite(known.of_role) and (known.of_role >= 0).all()):
        yield "a new opener of its roles is worth no finite number of nats"


def _path_faults(bank: Bank) -> Iterator[str]:
    keys, columns = KnownPaths.from_bank(bank.scorer_state, identity_placement).table.old
    if not _ascends(keys):
        yield "the actions that services called for its principals are not in order"
    if not (_all_finite(columns["nats"]) and (columns["nats"] >= 0).all()):
        yield "a direct call of what services called is worth no finite number of nats"


def _move_faults(bank: Bank) -> Iterator[str]:
    known = SettledMachines.from_bank(bank.scorer_state, identity_placement)
    if not all(_ascends(table.old[0]) for table in (known.machines, known.own, known.everyones)):
        yield "the networks of its settled machines are not in order"
    nats = [known.machines.old[1][name] for name in RATES]
    if not all(_all_finite(each) and (each >= 0).all() for each in nats):
        yield "another network of its settled machines is worth no finite number of nats"


def _transition_faults(bank: Bank, enough: bool) -> Iterator[str]:
    known = bank.transitions
    if not (_ascends(known.keys) and _ascends(known.contexts) and _ascends(known.kinds)):
        yield "its transitions are not in order"
    if not (_all_positive(known.count) and _all_finite(known.tail)):
        yield "its transitions have counts that are not above zero, or a tail that is not finite"
    if sequence.count_of(known, ORGANISATION, ANY, ANY)[1] <= 0 or sequence.ALL_KINDS not in known.kinds:
        yield "its transitions lack the counts or the tail of the whole organisation"
    if not (_falls(known.tail) and (known.tail > 0).all() and (known.tail <= 1 + TOLERANCE).all()):
        yield "the tails of its transitions grow, or are no shares: a stranger order of calls would be more usual"
    if enough and known.tail[known.kinds == sequence.ALL_KINDS, -1].max(initial=0) > RARE_SHARE:
        yield f"the tails of its transitions are flat: {RARE_SHARE:.0%} of all events or more would be as strange as any"


def _all_finite(*columns: Floats) -> bool:
    return all(bool(np.isfinite(piece).all()) for each in columns for piece in _pieces(each))


def _pieces(column: Floats) -> Iterator[Floats]:
    """Yield slices of an array along its rows, about CHUNK_NUMBERS numbers each."""
    rows = max(1, CHUNK_NUMBERS // max(1, math.prod(column.shape[1:])))
    yield from (column[start : start + rows] for start in range(0, len(column), rows))


def _all_positive(*columns: Floats) -> bool:
    return all(bool((np.isfinite(each) & (each > 0)).all()) for each in columns)


def _ascends(keys: NDArray[np.uint64]) -> bool:
    return bool((keys[1:] > keys[:-1]).all())


def _falls(tail: Floats) -> bool:
    """Return whether no tail (..., points) grows from one point to the next."""
    return bool((np.diff(tail, axis=-1) <= TOLERANCE).all())


def _lies_in(numbers: NDArray[np.integer], count: int) -> bool:
    return bool(((numbers >= 0) & (numbers < count)).all())
