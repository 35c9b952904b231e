"""Evidence of the held-out rows of a partition: the terms of each row's score, measured as scoring measures an event.

Example:
    >>> holdout_evidence(context, center, counted)["amount"]           # (L, 3) log ratios to the usual amounts before
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import Arrays, Floats
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import LEVELS
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.detection.detectors.autoencoder.evidence import could_be_left_to_services, could_have_moved
from fingerprint.estimators import amounts, harm
from fingerprint.estimators.amounts import AMOUNTS_OF_ALL_CALLS
from fingerprint.estimators.rates import first_times
from fingerprint.features.encoding import ACTION_COLUMN, FEATURE_SET, OTHER_ACCOUNT_FEATURE
from fingerprint.state.first_calls import FirstCalls
from fingerprint.training import baseline
from fingerprint.training.activity_counts import CountedRows
from fingerprint.training.distinct_rows import DistinctRows
from fingerprint.training.fingerprint_index import ENTITY, PRINCIPAL
from fingerprint.training.partition_context import PartitionContext, succeeded_calls, tried_calls


def holdout_evidence(context: PartitionContext, center: Floats, counted: CountedRows) -> Arrays:
    """Return the terms of each held-out row's score and the surges of its counts, from which tails and thresholds are fitted."""
    late, options = np.flatnonzero(context.held_out), context.settings
    level, measured = _holdout_levels(context, late), _measured_levels(context, late)
    held = _holdout_rows(context, late, measured)
    whole = context.owners[late][np.arange(len(late)), np.maximum(measured, PRINCIPAL)]
    surprise = baseline.holdout_surprise(held, center)
    nats = baseline.holdout_nats(held, surprise)
    seconds = held.interval.astype(np.int64) * options.spectral.interval_seconds
    busy = context.load_of(late)
    return {
        "loss": held.loss.sum(1),
        **nats._asdict(),
        "since": context.rows.since[late],
        "interval": held.interval,
        "amount": _holdout_amounts(context, late, surprise, busy),
        "load": busy,
        "surge": counted.surges(~context.held_out)[late],
        "events": context.rows.events[late],
        "hour": held.principal_interval,
        "owner": context.index.to_global(whole),
        "level": level.astype(np.int8),
        "principal": held.principal,
        "action": held.codes[:, ACTION_COLUMN],
        "day": (seconds // DAY_SECONDS).astype(np.int32),
    }


def _holdout_amounts(
    context: PartitionContext, late: NDArray[np.intp], surprise: Floats, busy: Floats
) -> Floats:
    """Return the log ratios of each held-out row's calls to the usual amounts before the held-out days: (L, 3).

    `surprise` (L, F) shows which rows touch unusual resources, `busy` (L,) is the load of their principals.
    """
    rows, day = context.rows, context.intervals_per_day
    principal, interval, action = rows.principal, rows.interval, rows.codes[:, ACTION_COLUMN]
    events, unusual = succeeded_calls(rows), amounts.has_unusual_resource(surprise)
    calls = [
        amounts.calls_of_last_day(principal, interval, action, events, intervals)[late]
        for intervals in (1, day)
    ]
    on_unusual = amounts.calls_of_last_day(
        principal[late], interval[late], action[late], tried_calls(rows)[late] * unusual, 1
    )
    usual = context.usual_before.usual(principal[late], action[late])
    ratio = amounts.log_ratio(np.stack([*calls, on_unusual * unusual], axis=1), usual).astype(np.float32)
    ratio[:, AMOUNTS_OF_ALL_CALLS] -= busy[:, None]
    return ratio


def _holdout_rows(
    context: PartitionContext, late: NDArray[np.intp], finest: NDArray[np.intp]
) -> baseline.HoldoutLosses:
    """Return the held-out rows, measured at their `finest` levels (L,) and at the principal, as in scoring."""
    losses = mapped_arrays.open_arrays(context.dataset.partition_folder(context.number) / "fitted", "loss")
    rows, owners, at = context.rows.take(late), context.owners[late], np.arange(len(late))
    able = reduce(
        np.maximum,
        (
            _harm_nats(context, rows),
            _opener_nats(context, rows),
            _path_nats(context, rows, finest),
            _move_nats(context, rows, finest),
        ),
    )
    coarser = np.where((finest == ENTITY) & (not context.entities_are_shared), PRINCIPAL, finest)
    measured = [(_losses_at_level(losses, level), owners[at, level]) for level in (finest, coarser)]
    return baseline.HoldoutLosses(*measured[0], *measured[1], rows.principal, rows.interval, rows.codes, able)


def _holdout_levels(context: PartitionContext, late: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return for each held-out row (L,) the level of the finest of its fingerprints that was ready before."""
    return np.argmax(context.ready_before[context.owners[late]], axis=1)  # the generic one is always ready


def _measured_levels(context: PartitionContext, late: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the level at which each held-out row is measured (L,), as in scoring (`Bank.resolve`).

    It is that of the finest fingerprint that was ready before. If that is a shared one, and the principal had begun before, it is
    the principal's.
    """
    finest, principal = _holdout_levels(context, late), context.owners[:, PRINCIPAL]
    had_begun = np.isin(principal[late], principal[context.early])
    return np.where((finest > PRINCIPAL) & had_begun, PRINCIPAL, finest)


def _harm_nats(context: PartitionContext, rows: DistinctRows) -> Floats:
    """Return the nats of what each held-out row (R,) can do: those of a new action, and of an account that no one named."""
    words = pd.read_parquet(context.dataset.partition_folder(context.number) / "rows" / "words.parquet")
    known, texts = words["code"].to_numpy(np.uint64), words["text"].to_numpy(object)
    action = rows.codes[:, ACTION_COLUMN]
    effective = ~FEATURE_SET.had_no_effect(rows.codes)
    new = context.usual_before.is_new(rows.principal, action) & effective
    nats = harm.harm_by_code(action, known, texts) * new
    harm.add_where_never_called(nats, action, lambda codes: np.isin(codes, context.actions_called_before))
    if OTHER_ACCOUNT_FEATURE is None:
        return nats
    strange = ~np.isin(rows.codes[:, OTHER_ACCOUNT_FEATURE], context.accounts_named_before)
    strange &= ~FEATURE_SET.is_to_members(action)
    return nats + harm.STRANGER_NATS * (strange & rows.wrote & effective)


def _path_nats(context: PartitionContext, rows: DistinctRows, level: NDArray[np.intp]) -> Floats:
    """Return the nats of held-out rows (R,) for the first direct call of an action that only services called before.

    `level` (R,) is the level at which each row is judged.
    """
    action = rows.codes[:, ACTION_COLUMN]
    counts = could_be_left_to_services(rows.codes, rows.wrote, level)
    nats = context.paths_before.evidence(rows.principal, action) * counts
    return _until_come_again(context, rows, action, nats)


def _move_nats(context: PartitionContext, rows: DistinctRows, level: NDArray[np.intp]) -> Floats:
    """Return the nats of held-out rows (R,) of settled machines that were seen at another network.

    `level` (R,) is the level at which each row is judged. Unlike in scoring, only a new action counts as something else that is
    new.
    """
    network, action = FEATURE_SET.networks(rows.codes), rows.codes[:, ACTION_COLUMN]
    new = context.usual_before.is_new(rows.principal, action)
    nats = context.moves_before.evidence(rows.principal, network, new) * could_have_moved(rows.codes, level)
    some = np.flatnonzero(nats)
    value = hashing.combine(rows.principal[some], network[some])
    age = FirstCalls().familiar_age(value, rows.interval[some], action[some])
    nats[some[age > context.settings.spectral.late_intervals]] = 0
    return nats


def _opener_nats(context: PartitionContext, rows: DistinctRows) -> Floats:
    """Return the nats of held-out rows (R,) in which a principal opened a role for the first time, as scoring counts them."""
    nats = context.openers_before.evidence(rows.role, rows.opener)
    return _until_come_again(context, rows, rows.role, nats)


def _until_come_again(context: PartitionContext, rows: DistinctRows, value: Hashes, nats: Floats) -> Floats:
    """Return the nats of rows (R,), changed in place: 0 if the same principal and value had some in an earlier interval."""
    new = np.flatnonzero(nats)
    _, of_pair = np.unique(hashing.combine(rows.principal[new], value[new]), return_inverse=True)
    first = first_times(of_pair, rows.interval[new], len(new))
    again = rows.interval[new] - first[of_pair] > context.settings.spectral.late_intervals
    nats[new[again]] = 0
    return nats


def _losses_at_level(losses: Mapping[str, Floats], level: NDArray[np.intp]) -> Floats:
    """Return each row's loss at its level (N,): (N, F)."""
    out = np.zeros_like(losses["0"])
    for number in range(len(LEVELS)):
        out[level == number] = losses[str(number)][level == number]
    return out
