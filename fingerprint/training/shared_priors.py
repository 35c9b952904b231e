"""The shared priors: the fingerprints of the organisation and of peer groups, counted by partition and fitted together.

Example:
    >>> for number in dataset.non_empty():
    ...     count_shared(dataset, number, settings)           # writes partitions/<n>/shared_priors
    >>> fit_shared(dataset, settings, start)                  # writes shared_priors/
    >>> priors = SharedPriors.load(dataset.folder)

Counts of partitions can be added because no two partitions share a unit of counting (`vocabulary`): a unit is a principal-day in
a group and a principal in the organisation, and a principal is in one partition. Networks and baselines rest on at most
MAX_SAMPLED_ROWS rows of a fingerprint. These are drawn by their marks, so it does not matter in which partition they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import Arrays, Floats, Ints
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.estimators.autoencoder import Weights
from fingerprint.features import vocabulary
from fingerprint.features.vocabulary import PresenceCounts, Vocabulary
from fingerprint.training import baseline, distinct_rows, fingerprint_index
from fingerprint.training.dataset import PartitionedDataset, make_once, take_rows, write_arrays
from fingerprint.training.distinct_rows import DistinctRows, cap_per_day, sample_per_owner
from fingerprint.training.fingerprint_index import GENERIC, PEER, IndexSlice
from fingerprint.training.nn import trainer
from fingerprint.training.nn.trainer import InitialWeights

SHARED_LEVELS = (GENERIC, PEER)
# Most rows of one fingerprint for its network, and for its baseline
MAX_SAMPLED_ROWS = {GENERIC: 20_000, PEER: 4096}
SPLITS = ("early", "late", "all")  # rows that are fitted, rows that are held out, both


@dataclass(frozen=True)
class SharedPriors:
    """The counts and networks of the U shared fingerprints.

    `training_counts` (of the rows before the held-out ones) and `all_counts` are by level. `weights` are the networks, over the
    slots `codes` (P, F, K) of the training counts.
    """

    training_counts: list[PresenceCounts]
    all_counts: list[PresenceCounts]
    weights: Weights
    codes: hashing.Hashes

    @classmethod
    def load(cls, folder: Path) -> SharedPriors:
        """Load the priors that `fit_shared` wrote into the folder of a training."""
        arrays = mapped_arrays.open_arrays(folder / "shared_priors", "shared_priors")
        counts = {
            name: [_presences_from_arrays(arrays, name, level) for level in SHARED_LEVELS]
            for name in ("early", "all")
        }
        nets = Weights(**{each.name: arrays[f"nets.{each.name}"] for each in fields(Weights)})
        return cls(counts["early"], counts["all"], nets, arrays["codes"])

    @property
    def initial_weights(self) -> InitialWeights:
        """The generic network, from which all others start."""
        return InitialWeights.from_weights(self.weights, self.codes)


# --- in each partition ----------------------------------------------------------------------------------------------------


def count_shared(dataset: PartitionedDataset, partition: int, settings: Settings) -> Path:
    """Count a partition's rows for the generic fingerprint and the peer groups, and draw a sample of them."""
    return make_once(
        dataset.partition_folder(partition) / "shared_priors",
        partial(_count_shared, dataset, partition, settings),
    )


def _count_shared(dataset: PartitionedDataset, number: int, settings: Settings, folder: Path) -> None:
    rows = DistinctRows.load(dataset.partition_folder(number) / "rows")
    here = fingerprint_index.load_slice(dataset, number)
    late = fingerprint_index.load_split(dataset).is_held_out(rows)
    owners = here.row_owners(rows)
    arrays: Arrays = {}
    for name, which in zip(SPLITS, (rows.learned & ~late, late, rows.learned), strict=True):
        for level in SHARED_LEVELS:
            owner, some = owners[which, level], rows.take(which)
            if name != "late":
                arrays |= _presences_to_arrays(count_presences(owner, some, level, settings), name, level)
            if name != "all":
                capped = cap_per_day(some, np.arange(len(some)), settings.spectral.intervals_per_day)
                places = sample_per_owner(
                    owner[capped], some.mark[capped], MAX_SAMPLED_ROWS[level], distinct_rows.SEED
                )
                drawn = capped[places]
                arrays |= {
                    f"{name}.{level}.rows": some.codes[drawn],
                    f"{name}.{level}.mark": some.mark[drawn],
                }
                arrays |= {f"{name}.{level}.owner": owner[drawn]}
    write_arrays(arrays, folder, "shared_priors")


def count_presences(owner: Ints, rows: DistinctRows, level: int, settings: Settings) -> PresenceCounts:
    """Return the presences of the values of rows at their owners (R,).

    The unit of counting is a principal at the generic fingerprint, a principal-day in a group, and else an interval.
    """
    day = (rows.interval * np.int64(settings.spectral.interval_seconds) // DAY_SECONDS).astype(np.uint64)
    unit = {GENERIC: rows.principal, PEER: hashing.hash_pair(rows.principal, day)}
    return vocabulary.count_presences(owner, unit.get(level, rows.interval.astype(np.uint64)), rows.codes)


def _presences_to_arrays(counted: PresenceCounts, name: str, level: int) -> Arrays:
    return {f"{name}.{level}.{each.name}": getattr(counted, each.name) for each in fields(PresenceCounts)}


def _presences_from_arrays(arrays: Arrays, name: str, level: int) -> PresenceCounts:
    return PresenceCounts(
        **{each.name: arrays[f"{name}.{level}.{each.name}"] for each in fields(PresenceCounts)}
    )


# --- for all of them --------------------------------------------------------------------------------------------------


def fit_shared(dataset: PartitionedDataset, settings: Settings, start: InitialWeights | None = None) -> Path:
    """Add up the counts of all partitions, and fit the networks of the shared fingerprints."""
    return make_once(dataset.folder / "shared_priors", partial(_fit_shared, dataset, settings, start))


def _fit_shared(
    dataset: PartitionedDataset, settings: Settings, start: InitialWeights | None, folder: Path
) -> None:
    parts = dataset.arrays_of("shared_priors", "shared_priors")
    counts = {
        name: [
            vocabulary.merge_presences([_presences_from_arrays(each, name, level) for each in parts])
            for level in SHARED_LEVELS
        ]
        for name in ("early", "all")
    }
    here = _shared_slice(dataset)
    known = vocabulary.build_vocabulary(counts["early"], here.parent, vocabulary.VOCABULARY_SIZE)
    early, late = (_sampled_rows(parts, name, known) for name in ("early", "late"))
    ready = np.flatnonzero(here.ready)
    nets = trainer.fit_autoencoders(
        known, early, late, ready, settings.autoencoder, start=start, keys=here.hash
    )
    arrays = {f"nets.{each.name}": getattr(nets, each.name) for each in fields(Weights)}
    for name, counted in counts.items():
        for level, each in zip(SHARED_LEVELS, counted, strict=True):
            arrays |= _presences_to_arrays(each, name, level)
    write_arrays({**arrays, "codes": known.codes[ready]}, folder, "shared_priors")


def _shared_slice(dataset: PartitionedDataset) -> IndexSlice:
    """Return the part of the index that has the shared fingerprints alone."""
    whole = fingerprint_index.load_slice(dataset, 0)
    shared = slice(0, whole.shared_count)
    return replace(
        whole,
        hash=whole.hash[shared],
        level=whole.level[shared],
        parent=whole.parent[shared],
        ready=whole.ready[shared],
    )


def _sampled_rows(parts: Sequence[Arrays], name: str, known: Vocabulary) -> trainer.SlotRows:
    """Return the rows that fit or validate the shared fingerprints, sampled from the samples of all partitions."""
    owners, slots = [], []
    for level in SHARED_LEVELS:
        owner, mark, codes = _draw_sampled(parts, f"{name}.{level}", "rows", MAX_SAMPLED_ROWS[level])
        order = np.argsort(mark)  # an order that does not depend on the partitions
        owners.append(owner[order])
        slots.append(known.look_up(owner[order], codes[order])[1])
    return trainer.SlotRows.from_fingerprints(
        np.concatenate(owners), np.concatenate(slots), len(known.parent)
    )


def _draw_sampled(
    parts: Sequence[Arrays], prefix: str, column: str, most: int
) -> tuple[Ints, hashing.Hashes, NDArray[Any]]:
    """Return owner, mark and a column of at most `most` rows of each owner, drawn from the samples of all partitions.

    The samples are under the names `prefix.owner`, `prefix.mark` and `prefix.column`.
    """
    owner, mark = (np.concatenate([part[f"{prefix}.{name}"] for part in parts]) for name in ("owner", "mark"))
    drawn = sample_per_owner(owner, mark, most, distinct_rows.SEED)
    return owner[drawn], mark[drawn], take_rows([part[f"{prefix}.{column}"] for part in parts], drawn)


# --- baselines --------------------------------------------------------------------------------------------------------


def calibrate_shared(dataset: PartitionedDataset) -> Path:
    """Compute the baselines of the shared fingerprints from the losses that each partition sampled (`partition_fit`)."""
    return make_once(dataset.folder / "baseline", partial(_calibrate_shared, dataset))


def _calibrate_shared(dataset: PartitionedDataset, folder: Path) -> None:
    parts, losses, owners = dataset.arrays_of("fitted", "drawn"), [], []
    for level in SHARED_LEVELS:
        owner, _, loss = _draw_sampled(parts, str(level), "loss", MAX_SAMPLED_ROWS[level])
        losses.append(loss)
        owners.append(owner)
    loss, owner, parent = np.concatenate(losses), np.concatenate(owners), _shared_slice(dataset).parent
    center = baseline.baseline_centers(loss, owner, parent)
    write_arrays({"center": center}, folder, "baseline")


def shared_centers(dataset: PartitionedDataset) -> Floats:
    """Return the usual losses of the shared fingerprints (U, F)."""
    return mapped_arrays.open_arrays(dataset.folder / "baseline", "baseline")["center"]
