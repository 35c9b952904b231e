"""Fit of one partition: its principals and entities are counted, fitted, and measured on the held-out rows.

Example:
    >>> fit_partition(history, 3, settings)                # writes partitions/003/fitted: networks, and held-out losses
    >>> shared_priors.calibrate_shared(history)            # the shared baselines, once all partitions are fitted
    >>> partition_finish.finish_partition(history, 3, settings)      # writes partitions/003/learned: its part of the bank

Likelihoods and networks are fitted on the first part of the history and judged on the last (HOLDOUT_SHARE). Then all rows are
counted, and the weights of the networks are moved to the slots of the new vocabulary. So a baseline says how surprising a *new*
week is, not how well an old one was learned.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Arrays, Floats
from fingerprint.core.alert import LEVELS
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors.autoencoder.evidence import ObservedValues, discount_recent_novelty
from fingerprint.estimators import autoencoder
from fingerprint.estimators.autoencoder import Weights
from fingerprint.features.vocabulary import Vocabulary
from fingerprint.state.scorer_state import ScorerState
from fingerprint.training import distinct_rows, shared_priors
from fingerprint.training.dataset import PartitionedDataset, make_once, write_arrays
from fingerprint.training.distinct_rows import sample_per_owner
from fingerprint.training.nn import trainer
from fingerprint.training.partition_context import OWN_LEVELS, PartitionContext


def fit_partition(dataset: PartitionedDataset, partition: int, settings: Settings) -> int:
    """Fit the networks of a partition and measure its held-out rows; return the number of networks."""
    context = PartitionContext(dataset, partition, settings)
    make_once(dataset.partition_folder(partition) / "fitted", partial(_fit_partition, context))
    return len(context.ready)


def _fit_partition(context: PartitionContext, folder: Path) -> None:
    known = context.build_vocabulary(
        context.priors.training_counts, context.count_presences(context.early, context.ready_before)
    )
    early = distinct_rows.cap_per_day(context.rows, np.flatnonzero(context.early), context.intervals_per_day)
    late = np.flatnonzero(context.held_out)
    nets = trainer.fit_autoencoders(
        known,
        _slot_rows(context, known, early),
        _slot_rows(context, known, late),
        context.ready,
        context.settings.autoencoder,
        start=context.priors.initial_weights,
        keys=context.index.hash,
    )
    loss = _holdout_losses(context, known, _stack_weights(context.priors.weights, nets), late)
    arrays = {each.name: getattr(nets, each.name) for each in fields(Weights)}
    write_arrays({**arrays, "codes": known.codes[context.ready]}, folder, "nets")
    write_arrays({str(level): each for level, each in enumerate(loss)}, folder, "loss")
    write_arrays(_sample_losses(context, loss, late), folder, "drawn")


def _slot_rows(context: PartitionContext, known: Vocabulary, places: NDArray[np.intp]) -> trainer.SlotRows:
    """Return the slots of some rows at their principals and at their entities."""
    owner = [context.owners[places, level] for level in OWN_LEVELS]
    slots = [known.look_up(at, context.rows.codes[places])[1] for at in owner]
    return trainer.SlotRows.from_fingerprints(np.concatenate(owner), np.concatenate(slots), len(known.parent))


def _stack_weights(above: Weights, own: Weights) -> Weights:
    """Return the networks of the shared fingerprints, then the partition's own."""
    parts = {
        name: np.concatenate([getattr(above, name), getattr(own, name)])
        for name in ("inputs", "bias", "outputs")
    }
    row = np.where(own.row < 0, -1, own.row + len(above.bias)).astype(np.int32)
    row[: len(above.row)] = above.row
    return Weights(**parts, row=row)


def _holdout_losses(
    context: PartitionContext, known: Vocabulary, nets: Weights, late: NDArray[np.intp]
) -> list[Floats]:
    """Return the losses of held-out rows at every level (L, F), finest first, novelties discounted as in scoring."""
    rows, losses = context.rows.take(late), []
    for level in range(len(LEVELS)):
        at = rows.to_event_batch(context.owners[late, level])
        loss, seen = autoencoder.feature_losses(known, nets, at.fingerprint, at.codes)
        losses.append(
            discount_recent_novelty(
                loss,
                seen,
                known.escape[at.fingerprint],
                ObservedValues.from_batch(at),
                ScorerState(context.settings),
            )
        )
    return losses


def _sample_losses(context: PartitionContext, loss: list[Floats], late: NDArray[np.intp]) -> Arrays:
    """Return a sample of the losses of each shared fingerprint, from which its baseline is computed."""
    arrays: Arrays = {}
    capped = distinct_rows.cap_per_day(context.rows, late, context.intervals_per_day)
    mark, of_late = context.rows.mark[capped], np.searchsorted(late, capped)
    for level in shared_priors.SHARED_LEVELS:
        owner = context.owners[capped, level]
        places = sample_per_owner(owner, mark, shared_priors.MAX_SAMPLED_ROWS[level], distinct_rows.SEED)
        columns = {"owner": owner, "mark": mark, "loss": loss[level][of_late]}
        arrays |= {f"{level}.{name}": column[places] for name, column in columns.items()}
    return arrays
