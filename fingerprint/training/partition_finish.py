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
    piece = PartitionContext(dataset, partition, settings)
    make_once(dataset.partition_folder(partition) / "learned", partial(_finish_partition, piece))
    return len(piece.index.hash) - piece.index.shared_count


def _finish_partition(piece: PartitionContext, folder: Path) -> None:
    own = piece.count_presences(piece.rows.learned, piece.index.ready)
    known = piece.build_vocabulary(piece.priors.all_counts, own)
    center = _baseline_centers(piece, known, own)
    stack = (
        _bank_arrays(piece, known)
        | value_counts(known, own, piece.index.to_global)
        | {"baseline.center": center[piece.index.own]}
    )
    write_arrays(stack, folder, "stack")
    series, counted = activity_series(piece, known)
    beginnings = Beginnings.of_rows(piece, counted)
    write_arrays(series, folder, "scorer_state")
    learned, day = piece.rows.take(piece.rows.learned), piece.intervals_per_day
    write_arrays(usual_amounts(learned, day), folder, "amounts")
    write_arrays(usual_load(learned, day), folder, "load")
    write_arrays(counted.bursts(np.ones(len(piece.rows), bool)), folder, "bursts")
    write_arrays(beginnings.hours(), folder, "beginnings")
    held_out = holdout_evidence(piece, center, counted) | beginnings.rows_at(np.flatnonzero(piece.held_out))
    write_arrays(held_out, folder, "reach")
    write_arrays(_weekly_activity(piece), folder, "week")
    write_arrays(_sample_rows(piece), folder, "sample")


def _bank_arrays(piece: PartitionContext, known: Vocabulary) -> Arrays:
    """Return vocabulary and networks of the partition's own fingerprints (E' - U, ...)."""
    own = piece.index.own
    out = {f"vocabulary.{name}": getattr(known, name)[own] for name in ("escape", "base", "codes", "total")}
    fitted = mapped_arrays.open_arrays(piece.dataset.partition_folder(piece.number) / "fitted", "nets")
    codes = fitted.pop("codes")
    nets = trainer.remap_weights(Weights(**fitted), codes, known.codes[piece.ready], np.arange(len(codes)))
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


def _baseline_centers(piece: PartitionContext, known: Vocabulary, own: list[PresenceCounts]) -> Floats:
    """Return the usual losses of the shared fingerprints and the partition's own (E', F).

    Those of a principal that was not ready follow from its own counts: too few of its rows were held out, and the usual losses of
    others are far above those of a principal that has shown one tool.
    """
    late = np.flatnonzero(piece.held_out)
    losses = mapped_arrays.open_arrays(piece.dataset.partition_folder(piece.number) / "fitted", "loss")
    owner = np.concatenate([piece.owners[late, level] for level in OWN_LEVELS])
    loss = np.concatenate([losses[str(level)] for level in OWN_LEVELS])
    center = baseline.baseline_centers(
        loss, owner, piece.index.parent, shared_priors.shared_centers(piece.dataset)
    )
    begun = np.flatnonzero((piece.index.level == PRINCIPAL) & ~piece.ready_before)
    above = center[piece.index.parent[begun]]
    center[begun] = vocabulary.usual_losses(known, own[OWN_LEVELS.index(PRINCIPAL)], above, begun)
    return center


def _weekly_activity(piece: PartitionContext) -> Arrays:
    """Return the number of active intervals of each principal in the last week: `owner` (P,) and `intervals` (P,)."""
    rows, seconds = piece.rows, piece.settings.spectral.interval_seconds
    end = piece.dataset.watermark // seconds + 1
    recent = (rows.interval >= end - WEEK_SECONDS // seconds) & (rows.interval < end)
    owner = piece.index.to_global(piece.owners[recent, PRINCIPAL]).astype(np.int64)
    cells = np.unique(owner << 32 | rows.interval[recent])
    found, intervals = np.unique(cells >> 32, return_counts=True)
    return {"owner": found.astype(np.int32), "intervals": intervals}


def _sample_rows(piece: PartitionContext) -> Arrays:
    rows = piece.rows
    drawn = sample_per_owner(np.zeros(len(rows), np.int8), rows.mark, SAMPLE_ROWS, distinct_rows.SEED)
    return {
        "codes": rows.codes[drawn],
        "fingerprint": piece.index.to_global(piece.owners[drawn, ENTITY]),
        "mark": rows.mark[drawn],
    }
