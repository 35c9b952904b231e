"""The parts that the partitions learned -> one bank.

Example:
    >>> bank = assemble_bank(history, index, settings)

What grows with the fingerprints (vocabulary, networks, baselines) is concatenated in a file and mapped from there, so that a
bank larger than memory can be built; what is sorted by key (values, series) is merged in memory.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import LEVELS
from fingerprint.core.settings import Settings, Voting
from fingerprint.detection import ensemble
from fingerprint.detection.detectors.autoencoder import AutoencoderDetector
from fingerprint.detection.detectors.sequence import SequenceDetector
from fingerprint.detection.detectors.spectral import SpectralDetector
from fingerprint.detection.ensemble import Mask, VoteMasks
from fingerprint.estimators import amounts, newcomer_tails, surge_tails, tail_calibration
from fingerprint.estimators.amounts import AmountTail
from fingerprint.estimators.autoencoder import Baseline, EventNats, Weights, is_newcomer
from fingerprint.estimators.newcomer_tails import NewcomerTails
from fingerprint.estimators.sequence import Transitions
from fingerprint.estimators.surge_tails import SurgeTails
from fingerprint.features import encoding, vocabulary
from fingerprint.features.vocabulary import Ints, Vocabulary
from fingerprint.registry import quality, vote_rates
from fingerprint.registry.bank import PEER_LEVEL, TRAINING_SECTIONS, Bank, version_name
from fingerprint.state.scorer_state import ScorerState
from fingerprint.training import action_transitions, baseline, distinct_rows, fingerprint_index
from fingerprint.training.action_transitions import HoldoutSurprises, assemble_transitions, holdout_surprises
from fingerprint.training.dataset import PartitionedDataset
from fingerprint.training.distinct_rows import sample_per_owner
from fingerprint.training.fingerprint_index import FingerprintIndex
from fingerprint.training.nn import trainer
from fingerprint.training.partition_fit import SAMPLE_ROWS, WEEK_SECONDS, Arrays, value_counts
from fingerprint.training.shared_priors import SharedPriors, shared_centers

Texts = NDArray[np.object_]

AMOUNT_ROWS = ("amount", "principal", "day", "owner")  # of held-out rows, for the tails of amounts
CONCATENATED_ARRAYS = (  # one row a fingerprint, or a net
    *("vocabulary.escape", "vocabulary.base", "vocabulary.codes", "vocabulary.total"),
    *("weights.inputs", "weights.bias", "weights.outputs", "baseline.center"),
)


def assemble_bank(history: PartitionedDataset, index: FingerprintIndex, settings: Settings) -> Bank:
    """Build the bank from what `partition_fit.finish_partition` left of every partition."""
    parts = [_shared_prior_arrays(history, settings), *_partition_arrays(history, "stack")]
    arrays = _concatenate_parts(parts, history.folder / "arrays") | _merge_values(parts)
    table = index.table
    surprises = holdout_surprises(history)
    transitions = assemble_transitions(history, surprises)
    center = arrays.pop("baseline.center")
    newcomers = _newcomer_tails(history, index, settings)
    usual, figures, tails = _baselines_and_quality(
        history, center, index, surprises, transitions, newcomers, settings
    )
    ready = table["ready"].to_numpy(bool)
    arrays |= {
        "vocabulary.parent": table["parent"].to_numpy(np.int32),
        "weights.row": np.where(ready, np.cumsum(ready) - 1, -1).astype(np.int32),
    }
    stacked: dict[str, Any] = {
        "vocabulary": Vocabulary(**mapped_arrays.part_arrays("vocabulary", arrays)),
        "weights": Weights(**mapped_arrays.part_arrays("weights", arrays)),
        "baseline": usual,
        "transitions": transitions,
    }
    return Bank(
        _manifest(history, index, figures, settings),
        table,
        index.people,
        index.words,
        **stacked,
        scorer_state={
            **_merge_scorer_state(history, settings),
            **_merge_samples(history, settings),
            **_merge_amounts(history, figures),
            **_merge_by_key(history, "bursts", "burst"),
            **tails.as_arrays(),
            **newcomers.as_arrays(),
        },
    )


def _partition_arrays(history: PartitionedDataset, stem: str) -> list[Arrays]:
    return [
        mapped_arrays.open_arrays(history.partition_folder(number) / "learned", stem)
        for number in history.non_empty()
    ]


def _shared_prior_arrays(history: PartitionedDataset, settings: Settings) -> Arrays:
    """Return the part of the shared priors, in the form that `partition_fit` leaves of a partition."""
    priors, here = SharedPriors.load(history.folder), fingerprint_index.load_slice(history, 0)
    shared = slice(0, here.shared_count)
    known = vocabulary.build_vocabulary(priors.all_counts, here.parent[shared], vocabulary.VOCABULARY_SIZE)
    ready = np.flatnonzero(here.ready[shared])
    nets = trainer.remap_weights(priors.weights, priors.codes, known.codes[ready], np.arange(len(ready)))
    return {
        **{f"vocabulary.{name}": getattr(known, name) for name in ("escape", "base", "codes", "total")},
        **{f"weights.{name}": getattr(nets, name) for name in ("inputs", "bias", "outputs")},
        "baseline.center": shared_centers(history),
        **value_counts(known, priors.all_counts, lambda owner: owner),
    }


def _concatenate_parts(parts: list[Arrays], folder: Path) -> Arrays:
    """Return the long arrays of all parts, concatenated in files and mapped."""
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


def _merge_scorer_state(history: PartitionedDataset, settings: Settings) -> Arrays:
    """Return the series and history of all partitions; a principal is in one partition only."""
    first, *others = _partition_arrays(history, "scorer_state")
    state = ScorerState.from_arrays(settings, first)
    for part in others:
        state.merge(part)
    state.watermark = history.watermark
    return state.as_arrays(("principals", "activity", "firsts", "sequence.actions", "series"))


def _merge_samples(history: PartitionedDataset, settings: Settings) -> Arrays:
    parts = _partition_arrays(history, "sample")
    mark, codes, fingerprint = (
        np.concatenate([part[name] for part in parts]) for name in ("mark", "codes", "fingerprint")
    )
    drawn = sample_per_owner(np.zeros(len(mark), np.int8), mark, SAMPLE_ROWS, distinct_rows.SEED)
    return {"sample.codes": codes[drawn], "sample.fingerprint": fingerprint[drawn]}


def _merge_amounts(history: PartitionedDataset, figures: dict[str, Any]) -> Arrays:
    """Return what is usual of each principal and action, and the tails of amounts (2, 2): edge and slope of each window."""
    tails = np.array([list(each.values()) for each in figures["amount"].values()])
    return {"amount.tail": tails} | _merge_by_key(history, "amounts", "amount")


def _merge_by_key(history: PartitionedDataset, stem: str, part: str) -> Arrays:
    """Return the columns that all partitions left under a stem, in the order of `key`, as a part of the bank."""
    parts = _partition_arrays(history, stem)
    merged = {name: np.concatenate([each[name] for each in parts]) for name in parts[0]}
    order = np.argsort(merged["key"])
    return {f"{part}.{name}": column[order] for name, column in merged.items()}


# --- figures ----------------------------------------------------------------------------------------------------------


def _baselines_and_quality(
    history: PartitionedDataset,
    center: NDArray[Any],
    index: FingerprintIndex,
    surprises: HoldoutSurprises,
    transitions: Transitions,
    newcomers: NewcomerTails,
    settings: Settings,
) -> tuple[Baseline, dict[str, Any], SurgeTails]:
    """Return the baselines, the bank's quality by the held-out rows, and the tails of their surges."""
    parts, table = _partition_arrays(history, "reach"), index.table
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    nats = EventNats(*(rows[name] for name in EventNats._fields))
    stranger = rows["level"] >= PEER_LEVEL
    newcomer = _newcomers(rows["since"], rows["interval"], stranger, settings.spectral.intervals_per_day)
    kind = _kinds_of(rows["principal"], index)
    tails, count_z = _surge_tails(rows, kind)
    counted = ~np.isnan(count_z)
    fresh_z = np.where(counted, np.nan, _newcomer_z(rows, kind, stranger, newcomers))
    parent = table["parent"].to_numpy(np.int32)
    usual, excess = baseline.fit_tails(center, nats, newcomer, rows["hour"], rows["owner"], parent)
    z = tail_calibration.excess_to_z(excess, usual, rows["owner"])
    amount_tails = _amount_tails({name: rows[name][~stranger] for name in AMOUNT_ROWS})
    z[~stranger] = np.maximum(z[~stranger], amounts.z_of_log_ratios(rows["amount"][~stranger], amount_tails))
    votes = _second_votes(count_z, rows, surprises, transitions, settings)
    opinions = {SpectralDetector.name: counted, SequenceDetector.name: ~stranger}
    calm = fresh_z < SpectralDetector.calm_newcomer_z  # NaN is not
    share = threshold_shares(opinions, rows["level"], settings.voting, calm)
    columns = {name: rows[name] for name in quality.HOLDOUT_COLUMNS}
    held = quality.HoldoutScores(
        **columns,
        z=z / share,
        decisive=decisive_rows(votes, opinions, settings.voting),
        usual_days=_usual_days(history, rows, usual.rate, index, settings),
    )
    shape = {
        "edge": float(usual.edge[0]),
        "slope": float(usual.slope[0]),
        "rate": float(np.exp(usual.rate[0])),
        "amount": {name: tail._asdict() for name, tail in zip(amounts.WINDOWS, amount_tails, strict=True)},
    }
    figures = {**shape, **quality.holdout_metrics(held, settings)}
    autoencoder, spectral = (
        each.own_threshold(settings, figures) for each in (AutoencoderDetector, SpectralDetector)
    )
    figures["vote_rates"] = {
        AutoencoderDetector.name: _rates(held.z >= autoencoder, rows, kind),
        SpectralDetector.name: _spectral_rates(np.where(counted, count_z, fresh_z), spectral, rows, kind),
        SequenceDetector.name: _sequence_rates(surprises, rows, stranger, index, settings),
    }
    return usual, figures, tails


def _amount_tails(rows: Arrays) -> list[AmountTail]:
    """Return the tail of each window's log ratios, by the days of principals that held-out rows (L,) are of."""
    day = hashing.hash_pair(rows["principal"], rows["day"].astype(np.uint64))
    largest = (tail_calibration.interval_maxima(ratio, day, rows["owner"]) for ratio in rows["amount"].T)
    return [amounts.fit_amount_tail(each.excess) for each in largest]


def _second_votes(
    count_z: NDArray[np.float32],
    rows: Arrays,
    surprises: HoldoutSurprises,
    transitions: Transitions,
    settings: Settings,
) -> VoteMasks:
    """Return for which held-out rows (L,) each other detector votes beside a z that opens an alert; a NaN is no vote."""
    spectral, sequence = settings.spectral.threshold, settings.sequence.threshold
    return {
        SpectralDetector.name: count_z >= min(spectral, SpectralDetector.second_vote_z),
        SequenceDetector.name: action_transitions.holdout_votes(
            surprises, transitions, rows, sequence, min(sequence, SequenceDetector.second_vote_z)
        ),
    }


def _spectral_rates(
    z: NDArray[np.float32], threshold: float, rows: Arrays, kind: Texts
) -> vote_rates.RatesByKind:
    """Return how often the spectral detector votes among held-out rows (L,) that it has an opinion on, by kind."""
    judged = ~np.isnan(z)
    return _rates(z[judged] >= threshold, {name: each[judged] for name, each in rows.items()}, kind[judged])


def decisive_rows(votes: VoteMasks, opinions: VoteMasks, options: Voting) -> Mask:
    """Return which held-out rows (L,) are verdicts once the autoencoder votes for them, as the ensemble counts.

    `votes` and `opinions` are of the detectors that are measured on held-out rows. Of the others, the autoencoder among them, a
    vote is taken for granted: rather a threshold too high.
    """
    granted = np.ones(len(next(iter(votes.values()))), bool)
    voted, judged = (
        {name: each.get(name, granted) for name in options.detectors} for each in (votes, opinions)
    )
    return ensemble.verdicts(voted, options.quorum, judged)


def _usual_days(
    history: PartitionedDataset, rows: Arrays, rate: NDArray[Any], index: FingerprintIndex, settings: Settings
) -> float | None:
    """Return how many usual days of the organisation the held-out rows are worth; None for a history of less than a week.

    Held-out days may be a weekend, or begin at noon. So they count by the unusual intervals that are expected of them, by the
    `rate` (E,) of who was active, against those of a day of the last week.
    """
    span = (history.watermark - int(index.table["first"].iloc[0]) * settings.spectral.interval_seconds) + 1
    if span < WEEK_SECONDS:
        return None
    parts = _partition_arrays(history, "week")
    owner, intervals = (np.concatenate([part[name] for part in parts]) for name in ("owner", "intervals"))
    week = float(np.sum(np.sort(np.exp(rate[owner]) * intervals)))
    active = np.unique(rows["hour"], return_index=True)[1]
    return 7 * float(np.sum(np.sort(np.exp(rate[rows["owner"][active]])))) / week if week else None


def threshold_shares(
    opinions: VoteMasks, level: NDArray[np.int8], options: Voting, began_calmly: Mask | None = None
) -> NDArray[np.float32]:
    """Return the share of a threshold that is enough for each held-out row (L,), as in scoring: less for a newcomer.

    `opinions` are of the detectors that are measured on held-out rows, `level` (L,) says by which fingerprint a row is judged.
    """
    granted = np.ones(len(level), bool)
    judged = {name: opinions.get(name, granted) for name in options.detectors}
    return ensemble.threshold_share(judged, level, began_calmly).astype(np.float32)


def _surge_tails(rows: Arrays, kind: Texts) -> tuple[SurgeTails, NDArray[np.float32]]:
    """Return the tails of held-out surges, and the z of each row (L,) by those of the other days, as of a day to come."""
    hashes = hashing.hash_strings(pd.Series(kind, dtype=object))
    order = np.lexsort((*np.nan_to_num(rows["surge"]).T, rows["events"], rows["interval"], rows["principal"]))
    surge, events, interval = (rows[name][order] for name in ("surge", "events", "interval"))
    columns = (surge, events, rows["principal"][order], hashes[order], interval)
    tails, z = surge_tails.fit_surge_tails(*columns), np.empty(len(order), np.float32)
    z[order] = surge_tails.z_by_other_days(*columns, rows["day"][order])
    return tails, z


def _newcomer_tails(
    history: PartitionedDataset, index: FingerprintIndex, settings: Settings
) -> NewcomerTails:
    """Return the tails of first days; none of a history that ended before they were over, which cannot tell who is new."""
    begun = int(index.table["first"].iloc[0]) * settings.spectral.interval_seconds // 86400
    if history.watermark // 86400 - begun <= settings.spectral.warm_up_days:
        return newcomer_tails.no_newcomer_tails()
    parts = _partition_arrays(history, "beginnings")
    principal, count = (np.concatenate([part[name] for part in parts]) for name in ("principal", "count"))
    kind = hashing.hash_strings(pd.Series(_kinds_of(principal, index), dtype=object))
    return newcomer_tails.fit_newcomer_tails(count, principal, kind)


def _newcomer_z(rows: Arrays, kind: Texts, stranger: Mask, tails: NewcomerTails) -> NDArray[np.float32]:
    """Return the z of held-out rows (L,) by how others began, NaN where the principal had a history or a fingerprint."""
    fresh = np.flatnonzero(stranger & ~np.isnan(rows["beginning"][:, 0]))
    z = np.full(len(kind), np.nan, np.float32)
    hashes = hashing.hash_strings(pd.Series(kind[fresh], dtype=object))
    z[fresh] = tails.z(tails.rows(hashes), rows["beginning"][fresh])
    return z


def _kinds_of(principal: Hashes, index: FingerprintIndex) -> Texts:
    """Return the kind of each principal (N,)."""
    place = np.searchsorted(index.people["hash"].to_numpy(np.uint64), principal)
    kinds: Texts = index.people["kind"].astype(object).to_numpy()[place]
    return kinds


def _rates(voted: Mask, rows: Arrays, kind: Texts) -> vote_rates.RatesByKind:
    """Return how often each kind of principal has a vote (N,), of held-out rows (N,)."""
    principal_day = hashing.hash_pair(rows["principal"], rows["day"].astype(np.uint64))
    return vote_rates.rates_by_kind(voted, rows["events"], kind, principal_day)


def _sequence_rates(
    held: HoldoutSurprises, rows: Arrays, stranger: Mask, index: FingerprintIndex, settings: Settings
) -> vote_rates.RatesByKind:
    """Return how often each kind has the sequence detector's vote, where it has an opinion: not on a `stranger` (L,)."""
    seconds = settings.spectral.interval_seconds
    threshold = SequenceDetector.own_threshold(settings, {})
    voted = action_transitions.votes_by_other_days(held, seconds, threshold)
    judged = np.isin(held.principal, rows["principal"][~stranger])
    held, voted = held.take(judged), voted[judged]
    day = held.interval.astype(np.int64) * seconds // 86400
    columns = {"principal": held.principal, "day": day, "events": held.events}
    return _rates(voted, columns, _kinds_of(held.principal, index))


def _newcomers(since: Ints, interval: Ints, stranger: Mask, intervals_per_day: int) -> Mask | None:
    """Return which held-out rows (N,) are a newcomer's, of those without a fingerprint of their own (`stranger`, (N,)).

    When the history began, all principals were new to it. None for a history that ended before that was over.
    """
    if not len(since) or is_newcomer(since.min(), interval.max(), intervals_per_day):
        return None
    new = is_newcomer(since, interval, intervals_per_day)
    return stranger & new & ~is_newcomer(since.min(), since, intervals_per_day)


def _manifest(
    history: PartitionedDataset, index: FingerprintIndex, figures: dict[str, Any], settings: Settings
) -> dict[str, Any]:
    table, seconds = index.table, settings.spectral.interval_seconds
    first, last = (int(table[name].iloc[0]) for name in ("first", "last"))
    span = [pd.Timestamp(at * seconds, unit="s", tz="UTC").isoformat() for at in (first, last + 1)]
    counts = [
        json.loads((history.partition_folder(number) / "rows" / "counts.json").read_text())
        for number in history.non_empty()
    ]
    manifest = {
        "span": span,
        "events": sum(each["events"] for each in counts),
        "repeats": sum(each["repeats"] for each in counts),
        "fingerprints": len(table),
        "ready": _ready_counts(table),
        "watermark": history.watermark,
        "settings": settings.model_dump(mode="json", include=set(TRAINING_SECTIONS)),
        "features": list(encoding.FEATURE_NAMES),
        "quality": figures,
    }
    return {
        **manifest,
        "version": version_name(manifest, table),
        "trained_until": min(
            history.watermark - settings.spectral.allowed_lateness_seconds, history.arrived_until
        ),
        "arrived_until": history.arrived_until,
    }


def _ready_counts(table: pd.DataFrame) -> dict[str, int]:
    return {
        name: int((table["ready"] & (table["level"] == number)).sum()) for number, name in enumerate(LEVELS)
    }
