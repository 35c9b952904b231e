"""One partition's part of the bank: its fingerprints, networks and series, and the evidence of its held-out rows.

Example:
    >>> finish_partition(history, 3, settings)             # writes partitions/003/learned; needs the shared baselines
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from fingerprint.compute import mapped_arrays
from fingerprint.compute.arrays import Arrays, Floats, Ints
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.estimators.autoencoder import Weights
from fingerprint.features import vocabulary
from fingerprint.features.vocabulary import PresenceCounts, Vocabulary, vocabulary_key
from fingerprint.training import baseline, distinct_rows, shared_priors
from fingerprint.training.activity_counts import Beginnings, activity_series
from fingerprint.training.dataset import PartitionedDataset, make_once, write_arrays
from fingerprint.training.distinct_rows import sample_per_owner
from fingerprint.training.fingerprint_index import ENTITY, PRINCIPAL
from fingerprint.training.holdout_evidence import holdout_evidence
from fingerprint.training.nn import trainer
from fingerprint.training.partition_context import OWN_LEVELS, PartitionContext, usual_amounts, usual_load

WEEK_SECONDS = 7 * DAY_SECONDS
SAMPLE_ROWS = 20_000  # rows kept for detectors that are fitted when they start


def finish_partition(dataset: PartitionedDataset, partition: int, settings: Settings) -> int:
    """Set the baselines of a partition, count all of its rows and fill its series; return the number of its fingerprints."""
    context = PartitionContext(dataset, partition, settings)
    make_once(dataset.partition_folder(partition) / "learned", partial(_finish_partition, context))
    return len(context.index.hash) - context.index.shared_count


def _finish_partition(context: PartitionContext, folder: Path) -> None:
    own = context.count_presences(context.rows.learned, context.index.ready)
    known = context.build_vocabulary(context.priors.all_counts, own)
    center = _baseline_centers(context, known, own)
    stack = (
        _bank_arrays(context, known)
        | value_counts(known, own, context.index.to_global)
        | {"baseline.center": center[context.index.own]}
    )
    write_arrays(stack, folder, "stack")
    series, counted = activity_series(context, known)
    beginnings = Beginnings.of_rows(context, counted)
    write_arrays(series, folder, "scorer_state")
    learned, day = context.rows.take(context.rows.learned), context.intervals_per_day
    write_arrays(usual_amounts(learned, day), folder, "amounts")
    write_arrays(usual_load(learned, day), folder, "load")
    write_arrays(counted.bursts(np.ones(len(context.rows), bool)), folder, "bursts")
    write_arrays(beginnings.hours(), folder, "beginnings")
    held_out = holdout_evidence(context, center, counted) | beginnings.rows_at(
        np.flatnonzero(context.held_out)
    )
    write_arrays(held_out, folder, "reach")
    write_arrays(_weekly_activity(context), folder, "week")
    write_arrays(_sample_rows(context), folder, "sample")


def _bank_arrays(context: PartitionContext, known: Vocabulary) -> Arrays:
    """Return vocabulary and networks of the partition's own fingerprints (E' - U, ...)."""
    own = context.index.own
    out = {f"vocabulary.{name}": getattr(known, name)[own] for name in ("escape", "base", "codes", "total")}
    fitted = mapped_arrays.open_arrays(context.dataset.partition_folder(context.number) / "fitted", "nets")
    codes = fitted.pop("codes")
    nets = trainer.remap_weights(Weights(**fitted), codes, known.codes[context.ready], np.arange(len(codes)))
    return out | {f"weights.{name}": getattr(nets, name) for name in ("inputs", "bias", "outputs")}


def value_counts(
    known: Vocabulary, counted: list[PresenceCounts], to_global: Callable[[Ints], Ints]
) -> Arrays:
    """Return the counts of each value (M,), under its key in the whole index."""
    owner, feature, code = (
        np.concatenate([getattr(each, name) for each in counted])
        for name in ("fingerprint", "feature", "code")
    )
    place = np.searchsorted(known.keys, vocabulary_key(owner, feature, code))
    out = {f"values.{name}": getattr(known, name)[place] for name in ("logp", "count", "slot")}
    return out | {"values.keys": vocabulary_key(to_global(owner), feature, code)}


def _baseline_centers(context: PartitionContext, known: Vocabulary, own: list[PresenceCounts]) -> Floats:
    """Return the usual losses of the shared fingerprints and the partition's own (E', F).

    Those of a principal that was not ready follow from its own counts: too few of its rows were held out, and the usual losses of
    others are far above those of a principal that has shown one tool.
    """
    late = np.flatnonzero(context.held_out)
    losses = mapped_arrays.open_arrays(context.dataset.partition_folder(context.number) / "fitted", "loss")
    owner = np.concatenate([context.owners[late, level] for level in OWN_LEVELS])
    loss = np.concatenate([losses[str(level)] for level in OWN_LEVELS])
    center = baseline.baseline_centers(
        loss, owner, context.index.parent, shared_priors.shared_centers(context.dataset)
    )
    begun = np.flatnonzero((context.index.level == PRINCIPAL) & ~context.ready_before)
    above = center[context.index.parent[begun]]
    center[begun] = vocabulary.usual_losses(known, own[OWN_LEVELS.index(PRINCIPAL)], above, begun)
    return center


def _weekly_activity(context: PartitionContext) -> Arrays:
    """Return the number of active intervals of each principal in the last week: `owner` (P,) and `intervals` (P,)."""
    rows, seconds = context.rows, context.settings.spectral.interval_seconds
    end = context.dataset.watermark // seconds + 1
    recent = (rows.interval >= end - WEEK_SECONDS // seconds) & (rows.interval < end)
    owner = context.index.to_global(context.owners[recent, PRINCIPAL]).astype(np.int64)
    cells = np.unique(owner << 32 | rows.interval[recent])
    found, intervals = np.unique(cells >> 32, return_counts=True)
    return {"owner": found.astype(np.int32), "intervals": intervals}


def _sample_rows(context: PartitionContext) -> Arrays:
    rows = context.rows
    drawn = sample_per_owner(np.zeros(len(rows), np.int8), rows.mark, SAMPLE_ROWS, distinct_rows.SEED)
    return {
        "codes": rows.codes[drawn],
        "fingerprint": context.index.to_global(context.owners[drawn, ENTITY]),
        "mark": rows.mark[drawn],
    }
