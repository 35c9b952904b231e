"""Assembly of one bank from the parts that the partitions learned.

Example:
    >>> bank = assemble_bank(dataset, index, settings)

Arrays that grow with the number of fingerprints (vocabulary, networks, baselines) are concatenated in files and mapped, so that a
bank larger than memory can be built. Arrays that are sorted by key (values, series) are merged in memory.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import Arrays
from fingerprint.core.alert import LEVELS
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.estimators import newcomer_tails
from fingerprint.estimators.autoencoder import Weights
from fingerprint.estimators.newcomer_tails import NewcomerTails
from fingerprint.features import encoding, vocabulary
from fingerprint.features.vocabulary import Vocabulary
from fingerprint.registry.bank import TRAINING_SECTIONS, Bank, version_name
from fingerprint.state.partitioning import LEARNED_TABLES
from fingerprint.state.scorer_state import ScorerState
from fingerprint.training import distinct_rows, fingerprint_index, whole_history
from fingerprint.training.action_transitions import assemble_transitions, holdout_surprises, z_by_other_days
from fingerprint.training.dataset import PartitionedDataset, take_rows
from fingerprint.training.distinct_rows import sample_per_owner
from fingerprint.training.fingerprint_index import FingerprintIndex
from fingerprint.training.holdout_rows import HoldoutFindings, HoldoutSequences, judge_holdout, kinds_of
from fingerprint.training.nn import trainer
from fingerprint.training.partition_finish import (
    SAMPLE_ROWS,
    value_counts,
)
from fingerprint.training.shared_priors import SharedPriors, shared_centers
from fingerprint.training.whole_history import learn_whole

CONCATENATED_ARRAYS = (  # with one row for each fingerprint or network
    "vocabulary.escape",
    "vocabulary.base",
    "vocabulary.codes",
    "vocabulary.total",
    "weights.inputs",
    "weights.bias",
    "weights.outputs",
    "baseline.center",
)


def assemble_bank(dataset: PartitionedDataset, index: FingerprintIndex, settings: Settings) -> Bank:
    """Build the bank from the arrays that `partition_finish.finish_partition` wrote for every partition."""
    parts = [_shared_prior_arrays(dataset), *dataset.arrays_of("learned", "stack")]
    arrays = _concatenate_parts(parts, dataset.folder / "arrays") | _merge_values(parts)
    table = index.table
    surprises = holdout_surprises(dataset)
    transitions = assemble_transitions(dataset, surprises)
    newcomers = _newcomer_tails(dataset, index, settings)
    findings = judge_holdout(
        dataset,
        index,
        arrays.pop("baseline.center"),
        HoldoutSequences(surprises, z_by_other_days(surprises, settings.spectral.interval_seconds)),
        newcomers,
        settings,
    )
    ready = table["ready"].to_numpy(bool)
    arrays |= {
        "vocabulary.parent": table["parent"].to_numpy(np.int32),
        "weights.row": np.where(ready, np.cumsum(ready) - 1, -1).astype(np.int32),
    }
    stacked: dict[str, Any] = {
        "vocabulary": Vocabulary(**mapped_arrays.part_arrays("vocabulary", arrays)),
        "weights": Weights(**mapped_arrays.part_arrays("weights", arrays)),
        "baseline": findings.baseline,
        "transitions": transitions,
    }
    return Bank(
        _manifest(dataset, index, findings.figures, settings),
        table,
        index.people,
        index.words,
        **stacked,
        scorer_state=_scorer_state(dataset, findings, newcomers, settings),
    )


def _scorer_state(
    dataset: PartitionedDataset, findings: HoldoutFindings, newcomers: NewcomerTails, settings: Settings
) -> Arrays:
    """Return the initial state of a scorer, and the losses of held-out rows, which the promotion gate compares."""
    return {
        **_merge_scorer_state(dataset, settings),
        **_merge_samples(dataset),
        **_merge_amounts(dataset, findings.figures),
        **_merge_by_key(dataset, "bursts", "burst"),
        **_merge_by_key(dataset, "load", "load"),
        **_learned_whole(dataset, settings),
        **findings.surges.as_arrays(),
        **newcomers.as_arrays(),
        **{f"holdout.{name}": array for name, array in findings.losses.items()},
    }


def _shared_prior_arrays(dataset: PartitionedDataset) -> Arrays:
    """Return the arrays of the shared priors, in the form in which `partition_finish` writes those of a partition."""
    priors, here = SharedPriors.load(dataset.folder), fingerprint_index.load_slice(dataset, 0)
    shared = slice(0, here.shared_count)
    known = vocabulary.build_vocabulary(priors.all_counts, here.parent[shared], vocabulary.VOCABULARY_SIZE)
    ready = np.flatnonzero(here.ready[shared])
    nets = trainer.remap_weights(priors.weights, priors.codes, known.codes[ready], np.arange(len(ready)))
    return {
        **{f"vocabulary.{name}": getattr(known, name) for name in ("escape", "base", "codes", "total")},
        **{f"weights.{name}": getattr(nets, name) for name in ("inputs", "bias", "outputs")},
        "baseline.center": shared_centers(dataset),
        **value_counts(known, priors.all_counts, lambda owner: owner),
    }


def _concatenate_parts(parts: list[Arrays], folder: Path) -> Arrays:
    """Return the CONCATENATED_ARRAYS of all parts, concatenated in files and mapped."""
    folder.mkdir(exist_ok=True)
    return {
        name: _concatenate_to_file([part[name] for part in parts], folder / name)
        for name in CONCATENATED_ARRAYS
    }


def _concatenate_to_file(parts: list[NDArray[Any]], file: Path) -> NDArray[Any]:
    shape, dtype = (sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype
    with file.open("wb") as stream:
        for each in parts:
            stream.write(np.ascontiguousarray(each).data)
    return np.memmap(file, dtype, "c", shape=shape) if all(shape) else np.empty(shape, dtype)


def _merge_values(parts: list[Arrays]) -> Arrays:
    """Return the values of all fingerprints, in the order of their keys."""
    order = np.argsort(np.concatenate([part["values.keys"] for part in parts]))
    return {
        f"vocabulary.{name}": np.concatenate([part[f"values.{name}"] for part in parts])[order]
        for name in ("keys", "logp", "count", "slot")
    }


def _merge_scorer_state(dataset: PartitionedDataset, settings: Settings) -> Arrays:
    """Return the series and history of all partitions; a principal is in one partition only."""
    first, *others = dataset.arrays_of("learned", "scorer_state")
    state = ScorerState.from_arrays(settings, first)
    for part in others:
        state.merge(part)
    state.watermark = dataset.watermark
    return state.as_arrays((*LEARNED_TABLES, "series"))


def _merge_samples(dataset: PartitionedDataset) -> Arrays:
    """Return a sample of the samples of all partitions: those are too large to be read together."""
    parts = dataset.arrays_of("learned", "sample")
    mark = np.concatenate([part["mark"] for part in parts])
    drawn = sample_per_owner(np.zeros(len(mark), np.int8), mark, SAMPLE_ROWS, distinct_rows.SEED)
    return {
        f"sample.{name}": take_rows([part[name] for part in parts], drawn)
        for name in ("codes", "fingerprint")
    }


def _merge_amounts(dataset: PartitionedDataset, figures: dict[str, Any]) -> Arrays:
    """Return the usual amounts of each principal and action, and the tails of the amounts (3, 2): edge and slope of each."""
    tails = np.array([list(each.values()) for each in figures["amount"].values()])
    return {"amount.tail": tails} | _merge_by_key(dataset, "amounts", "amount")


def _merge_by_key(dataset: PartitionedDataset, stem: str, part: str) -> Arrays:
    """Return the columns of all partitions under a stem, sorted by `key`, as the arrays `part.*` of the bank."""
    merged = dataset.columns_of("learned", stem)
    order = np.argsort(merged["key"])
    return {f"{part}.{name}": column[order] for name, column in merged.items()}


def _learned_whole(dataset: PartitionedDataset, settings: Settings) -> Arrays:
    """Return the openers of roles, the actions that only services called, and the machines that keep to their networks."""
    return {
        f"{learner.part}.{name}": array
        for learner in (whole_history.OPENERS, whole_history.CALL_PATHS, whole_history.MOVES)
        for name, array in learn_whole(learner, dataset, settings.spectral.intervals_per_day).items()
    }


def _newcomer_tails(
    dataset: PartitionedDataset, index: FingerprintIndex, settings: Settings
) -> NewcomerTails:
    """Return the tails of first days; none if the history is no longer than those, and so cannot tell who is new."""
    begun = int(index.table["first"].iloc[0]) * settings.spectral.interval_seconds // DAY_SECONDS
    if dataset.watermark // DAY_SECONDS - begun <= settings.spectral.warm_up_days:
        return newcomer_tails.no_newcomer_tails()
    hours = dataset.columns_of("learned", "beginnings")
    kind = hashing.hash_strings(pd.Series(kinds_of(hours["principal"], index), dtype=object))
    return newcomer_tails.fit_newcomer_tails(hours["count"], hours["principal"], kind)


# --- manifest ---------------------------------------------------------------------------------------------------------


def _manifest(
    dataset: PartitionedDataset, index: FingerprintIndex, figures: dict[str, Any], settings: Settings
) -> dict[str, Any]:
    table, seconds = index.table, settings.spectral.interval_seconds
    first, last = (int(table[name].iloc[0]) for name in ("first", "last"))
    span = [pd.Timestamp(at * seconds, unit="s", tz="UTC").isoformat() for at in (first, last + 1)]
    counts = [
        json.loads((dataset.partition_folder(number) / "rows" / "counts.json").read_text())
        for number in dataset.non_empty()
    ]
    manifest = {
        "span": span,
        "events": sum(each["events"] for each in counts),
        "repeats": sum(each["repeats"] for each in counts),
        "fingerprints": len(table),
        "ready": _ready_counts(table),
        "watermark": dataset.watermark,
        "settings": settings.model_dump(mode="json", include=set(TRAINING_SECTIONS)),
        "features": list(encoding.FEATURE_NAMES),
        "quality": figures,
    }
    return {
        **manifest,
        "version": version_name(manifest, table),
        "trained_until": min(
            dataset.watermark - settings.spectral.allowed_lateness_seconds, dataset.arrived_until
        ),
        "arrived_until": dataset.arrived_until,
    }


def _ready_counts(table: pd.DataFrame) -> dict[str, int]:
    return {
        name: int((table["ready"] & (table["level"] == number)).sum()) for number, name in enumerate(LEVELS)
    }
