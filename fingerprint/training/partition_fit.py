"""One partition's principals and entities: counted, fitted, measured; then all that a bank holds of them.

Example:
    >>> fit_partition(history, 3, settings)                # leaves partitions/003/fitted: networks, and held-out losses
    >>> shared_priors.calibrate_shared(history)            # the baselines of the groups, once all partitions are fitted
    >>> finish_partition(history, 3, settings)             # leaves partitions/003/learned: this partition's part of the bank

Counts, networks and baselines come from different rows: likelihoods and networks are fitted on the first part of the history and
judged on the last (HOLDOUT_SHARE); then the counts are taken of all of it, and the networks are moved along. So a
baseline says how surprising a *new* week is, not how well an old one was learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import identity_placement
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import LEVELS
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors.autoencoder.evidence import (
    ObservedValues,
    could_be_left_to_services,
    could_have_moved,
    discount_recent_novelty,
)
from fingerprint.detection.detectors.spectral import (
    NEWCOMER_PLACES,
    Bursts,
    count_events,
)
from fingerprint.estimators import (
    amounts,
    autoencoder,
    call_paths,
    harm,
    load,
    moves,
    newcomer_tails,
    openers,
    surge_tails,
)
from fingerprint.estimators.amounts import LOADED_AMOUNTS
from fingerprint.estimators.autoencoder import Weights
from fingerprint.estimators.load import UsualLoad
from fingerprint.estimators.rates import distinct_days
from fingerprint.features import vocabulary
from fingerprint.features.encoding import ACTION_COLUMN, FEATURE_SET, OTHER_ACCOUNT_FEATURE
from fingerprint.features.vocabulary import Floats, Ints, PresenceCounts, Vocabulary, vocabulary_key
from fingerprint.state.activity_series import ACTION_CHANNELS
from fingerprint.state.first_calls import FirstCalls
from fingerprint.state.interval_amounts import IntervalAmounts, calls_before
from fingerprint.state.partitioning import LEARNED_TABLES
from fingerprint.state.scorer_state import ScorerState
from fingerprint.training import baseline, distinct_rows, fingerprint_index, shared_priors, whole_history
from fingerprint.training.dataset import Arrays, PartitionedDataset, make_once, write_arrays
from fingerprint.training.distinct_rows import DistinctRows, sample_per_owner
from fingerprint.training.fingerprint_index import (
    ENTITY,
    GENERIC,
    PEER,
    PRINCIPAL,
    IndexSlice,
)
from fingerprint.training.nn import trainer
from fingerprint.training.shared_priors import SharedPriors

OWN_LEVELS = (PRINCIPAL, ENTITY)
WEEK_SECONDS = 7 * 86400
SAMPLE_ROWS = 20_000  # rows kept for detectors that are fitted when they start


@dataclass(frozen=True)
class PartitionContext:
    """The inputs of both stages of a partition."""

    dataset: PartitionedDataset
    number: int
    settings: Settings

    @cached_property
    def rows(self) -> DistinctRows:
        """The distinct rows of the partition."""
        return DistinctRows.load(self.dataset.partition_folder(self.number) / "rows")

    @cached_property
    def index(self) -> IndexSlice:
        """The partition's part of the fingerprint index."""
        return fingerprint_index.load_slice(self.dataset, self.number)

    @cached_property
    def owners(self) -> Ints:
        """The fingerprint of each row at each level (R, 4)."""
        return self.index.row_owners(self.rows)

    @cached_property
    def held_out(self) -> NDArray[np.bool_]:
        """The rows that are held out: a mask (R,)."""
        return fingerprint_index.load_split(self.dataset).is_held_out(self.rows)

    @cached_property
    def early(self) -> NDArray[np.bool_]:
        """The rows that fingerprints are fitted to before they judge the held-out ones: a mask (R,)."""
        return self.rows.learned & ~self.held_out

    @cached_property
    def priors(self) -> SharedPriors:
        """The shared priors."""
        return SharedPriors.load(self.dataset.folder)

    @cached_property
    def ready(self) -> NDArray[np.intp]:
        """The fingerprints of this piece's own that get a net."""
        return np.flatnonzero(self.index.ready[self.index.own]) + self.index.shared_count

    @cached_property
    def ready_before(self) -> NDArray[np.bool_]:
        """The fingerprints (E',) that would be ready had the history ended before what is held out; the generic one as it is.

        So who or what began later is held out as the newcomer that it was, and not judged by what it did since, nor by a peer
        group that began with it.
        """
        if fingerprint_index.load_split(self.dataset).share:
            return self.index.ready
        early, options = self.early, self.settings.entities
        day = self.rows.interval[early].astype(np.int64) * self.settings.spectral.interval_seconds // 86400
        ready = self.index.ready.copy()
        for level in OWN_LEVELS:
            owner = self.owners[early, level]
            events = np.bincount(owner, self.rows.events[early], len(ready))
            days = distinct_days(owner, day, len(ready))
            enough = (events >= options.min_ready_events) & (days >= options.min_ready_days)
            of_level = self.index.level == level
            ready[of_level] &= enough[of_level]
        began = np.ones(len(ready), bool)
        began[self.priors.training_counts[shared_priors.SHARED_LEVELS.index(PEER)].fingerprint] = False
        ready[began & (self.index.level == PEER)] = False
        return ready

    @property
    def entities_are_shared(self) -> bool:
        """True where principals share entities."""
        return self.settings.entities.granularity == "service"

    @property
    def intervals_per_day(self) -> int:
        """The number of intervals in a day."""
        return self.settings.spectral.intervals_per_day

    @cached_property
    def usual_before(self) -> amounts.UsualAmounts:
        """The usual amounts of each principal and action before the held-out days."""
        before = self.rows.take(self.early)
        return amounts.UsualAmounts.from_columns(_usual_amounts(before, self.intervals_per_day))

    @cached_property
    def accounts_named_before(self) -> Hashes:
        """The codes of the accounts that anybody of the organisation named before the held-out days."""
        counted = self.priors.training_counts[shared_priors.SHARED_LEVELS.index(GENERIC)]
        return counted.code[counted.feature == OTHER_ACCOUNT_FEATURE]

    @cached_property
    def openers_before(self) -> openers.RoleOpeners:
        """The openers of each role before the held-out days, in the whole organisation."""
        return openers.RoleOpeners.from_arrays(self._learned_before(whole_history.OPENERS))

    @cached_property
    def paths_before(self) -> call_paths.KnownPaths:
        """The writes that only services called for each principal before the held-out days."""
        before = self._learned_before(whole_history.CALL_PATHS)
        return call_paths.KnownPaths.from_arrays(before, identity_placement)

    @cached_property
    def moves_before(self) -> moves.SettledMachines:
        """The machines that were settled before the held-out days, of all partitions."""
        before = self._learned_before(whole_history.MOVES)
        return moves.SettledMachines.from_arrays(before, identity_placement)

    def _learned_before(self, learner: whole_history.Learner) -> Arrays:
        return whole_history.learn_before(learner, self.dataset, self.intervals_per_day)

    def load_of(self, late: NDArray[np.intp]) -> Floats:
        """Return the load of the principals of held-out rows (L,), as scoring measures it, by what was usual before."""
        rows, day, counted = self.rows, self.intervals_per_day, IntervalAmounts()
        before = UsualLoad.from_arrays(_usual_load(rows.take(self.early), day))
        calls = _counted_calls(rows).astype(np.int32)
        first = rows.interval[late].min(initial=np.iinfo(np.int32).max)
        some = np.flatnonzero((calls > 0) & (rows.interval >= first - 2 * day))
        counted.add(rows.principal[some], rows.interval[some], rows.codes[some, ACTION_COLUMN], calls[some])
        of_day = calls_before(counted, day, self.settings.spectral.late_intervals)
        return before.log_ratio(rows.principal[late], rows.interval[late], of_day)

    def count_presences(self, which: NDArray[np.bool_], ready: NDArray[np.bool_]) -> list[PresenceCounts]:
        """Return the presences of some rows at this partition's own fingerprints, principals before entities.

        Of fingerprints that are not `ready` (E',) every event counts.
        """
        some, counted = self.rows.take(which), []
        for level in OWN_LEVELS:
            owner = self.owners[which, level]
            known, begun = np.flatnonzero(ready[owner]), np.flatnonzero(~ready[owner])
            presences = shared_priors.count_presences(owner[known], some.take(known), level, self.settings)
            events = vocabulary.count_events(owner[begun], some.events[begun], some.codes[begun])
            counted.append(vocabulary.concatenate_presences([presences, events]))
        return counted

    def build_vocabulary(self, above: list[PresenceCounts], own: list[PresenceCounts]) -> Vocabulary:
        """Return the vocabulary of the shared fingerprints and the partition's own."""
        return vocabulary.build_vocabulary([*above, *own], self.index.parent, vocabulary.VOCABULARY_SIZE)


# --- nets and losses --------------------------------------------------------------------------------------------------


def fit_partition(dataset: PartitionedDataset, partition: int, settings: Settings) -> int:
    """Fit the nets of a piece and measure its rows that were held out; how many nets."""
    piece = PartitionContext(dataset, partition, settings)
    make_once(dataset.partition_folder(partition) / "fitted", partial(_fit_partition, piece))
    return len(piece.ready)


def _fit_partition(piece: PartitionContext, folder: Path) -> None:
    known = piece.build_vocabulary(
        piece.priors.training_counts, piece.count_presences(piece.early, piece.ready_before)
    )
    early = distinct_rows.cap_per_day(piece.rows, np.flatnonzero(piece.early), piece.intervals_per_day)
    late = np.flatnonzero(piece.held_out)
    nets = trainer.fit_autoencoders(
        known,
        _slot_rows(piece, known, early),
        _slot_rows(piece, known, late),
        piece.ready,
        piece.settings.autoencoder,
        start=piece.priors.initial_weights,
        keys=piece.index.hash,
    )
    loss = _holdout_losses(piece, known, _stack_weights(piece.priors.weights, nets), late)
    arrays = {each.name: getattr(nets, each.name) for each in fields(Weights)}
    write_arrays({**arrays, "codes": known.codes[piece.ready]}, folder, "nets")
    write_arrays({str(level): each for level, each in enumerate(loss)}, folder, "loss")
    write_arrays(_sample_losses(piece, loss, late), folder, "drawn")


def _slot_rows(piece: PartitionContext, known: Vocabulary, places: NDArray[np.intp]) -> trainer.SlotRows:
    """Return the slots of some rows at each level of the partition's own."""
    owner = [piece.owners[places, level] for level in OWN_LEVELS]
    slots = [known.look_up(at, piece.rows.codes[places])[1] for at in owner]
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
    piece: PartitionContext, known: Vocabulary, nets: Weights, late: NDArray[np.intp]
) -> list[Floats]:
    """Return the losses of held-out rows at every level (L, F), finest first, novelties discounted as in scoring."""
    rows, losses = piece.rows.take(late), []
    for level in range(len(LEVELS)):
        at = rows.to_event_batch(piece.owners[late, level])
        loss, seen = autoencoder.feature_losses(known, nets, at.fingerprint, at.codes)
        losses.append(
            discount_recent_novelty(
                loss,
                seen,
                known.escape[at.fingerprint],
                ObservedValues.from_batch(at),
                ScorerState(piece.settings),
            )
        )
    return losses


def _sample_losses(piece: PartitionContext, loss: list[Floats], late: NDArray[np.intp]) -> Arrays:
    """Return some losses of each shared fingerprint, for its baseline."""
    arrays: Arrays = {}
    capped = distinct_rows.cap_per_day(piece.rows, late, piece.intervals_per_day)
    mark, of_late = piece.rows.mark[capped], np.searchsorted(late, capped)
    for level in shared_priors.SHARED_LEVELS:
        owner = piece.owners[capped, level]
        places = sample_per_owner(owner, mark, shared_priors.MAX_SAMPLED_ROWS[level], distinct_rows.SEED)
        columns = {"owner": owner, "mark": mark, "loss": loss[level][of_late]}
        arrays |= {f"{level}.{name}": column[places] for name, column in columns.items()}
    return arrays


# --- the piece's part of the bank -------------------------------------------------------------------------------------


def finish_partition(dataset: PartitionedDataset, partition: int, settings: Settings) -> int:
    """Set the baselines of a piece, count all of its rows, fill its series; how many fingerprints it has."""
    piece = PartitionContext(dataset, partition, settings)
    make_once(dataset.partition_folder(partition) / "learned", partial(_finish_partition, piece))
    return len(piece.index.hash) - piece.index.shared_count


def _finish_partition(piece: PartitionContext, folder: Path) -> None:
    own = piece.count_presences(piece.rows.learned, piece.index.ready)
    known = piece.build_vocabulary(piece.priors.all_counts, own)
    center = _baseline_centers(piece, known, own)
    stack = (
        _bank_arrays(piece, known)
        | _value_arrays(piece, known, own)
        | {"baseline.center": center[piece.index.own]}
    )
    write_arrays(stack, folder, "stack")
    series, counted = _activity_series(piece, known)
    beginnings = Beginnings.of_rows(piece, counted)
    write_arrays(series, folder, "scorer_state")
    learned, day = piece.rows.take(piece.rows.learned), piece.intervals_per_day
    write_arrays(_usual_amounts(learned, day), folder, "amounts")
    write_arrays(_usual_load(learned, day), folder, "load")
    write_arrays(counted.bursts(np.ones(len(piece.rows), bool)), folder, "bursts")
    write_arrays(beginnings.hours(), folder, "beginnings")
    held_out = _holdout_nats(piece, center, counted) | beginnings.rows_at(np.flatnonzero(piece.held_out))
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


def _value_arrays(piece: PartitionContext, known: Vocabulary, own: list[PresenceCounts]) -> Arrays:
    return value_counts(known, own, piece.index.to_global)


def value_counts(known: Vocabulary, counted: list[PresenceCounts], to_global: Any) -> Arrays:
    """Return what was counted of each value (M,), under the key that it has in the whole index."""
    owner, feature, code = (
        np.concatenate([getattr(each, name) for each in counted])
        for name in ("fingerprint", "feature", "code")
    )
    place = np.searchsorted(known.keys, vocabulary_key(owner, feature, code))
    out = {f"values.{name}": getattr(known, name)[place] for name in ("logp", "count", "slot")}
    return out | {"values.keys": vocabulary_key(to_global(owner), feature, code)}


def _baseline_centers(piece: PartitionContext, known: Vocabulary, own: list[PresenceCounts]) -> Floats:
    """Return the usual losses of the shared fingerprints and the partition's own (E', F).

    Those of a principal that is not ready are what its own counts expect: too little of it was held out, and what is usual of
    others is far above what is usual of someone who has shown one tool.
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


def _holdout_nats(piece: PartitionContext, center: Floats, counted: CountedRows) -> Arrays:
    """Return how unusual each held-out row is, part by part, and the surges of its counts, for the tails and thresholds."""
    late, options = np.flatnonzero(piece.held_out), piece.settings
    level, measured = _holdout_levels(piece, late), _measured_levels(piece, late)
    held = _holdout_rows(piece, late, measured)
    whole = piece.owners[late][np.arange(len(late)), np.maximum(measured, PRINCIPAL)]
    surprise = baseline.holdout_surprise(held, center)
    nats = baseline.holdout_nats(held, surprise)
    seconds = held.interval.astype(np.int64) * options.spectral.interval_seconds
    busy = piece.load_of(late)
    return {
        "loss": held.loss.sum(1),
        **nats._asdict(),
        "since": piece.rows.since[late],
        "interval": held.interval,
        "amount": _holdout_amounts(piece, late, surprise, busy),
        "load": busy,
        "surge": counted.surges(~piece.held_out)[late],
        "events": piece.rows.events[late],
        "hour": held.principal_interval,
        "owner": piece.index.to_global(whole),
        "level": level.astype(np.int8),
        "principal": held.principal,
        "action": held.codes[:, ACTION_COLUMN],
        "day": (seconds // 86400).astype(np.int32),
    }


def _weekly_activity(piece: PartitionContext) -> Arrays:
    """Return in how many intervals of the last week each principal was active: `owner` (P,) and `intervals` (P,)."""
    rows, seconds = piece.rows, piece.settings.spectral.interval_seconds
    end = piece.dataset.watermark // seconds + 1
    recent = (rows.interval >= end - WEEK_SECONDS // seconds) & (rows.interval < end)
    owner = piece.index.to_global(piece.owners[recent, PRINCIPAL]).astype(np.int64)
    cells = np.unique(owner << 32 | rows.interval[recent])
    found, intervals = np.unique(cells >> 32, return_counts=True)
    return {"owner": found.astype(np.int32), "intervals": intervals}


def _counted_calls(rows: DistinctRows) -> Floats:
    """Return how many calls each row stands for that make an amount, (R,)."""
    calls: Floats = rows.events * ~FEATURE_SET.makes_no_amount(rows.codes)
    return calls


def _usual_amounts(rows: DistinctRows, intervals_per_day: int) -> Arrays:
    """Return what is usual of each principal and action, by some rows (`amounts.usual_by_window`)."""
    return amounts.usual_by_window(
        _calls_by_window(rows, rows.interval), _calls_by_window(rows, rows.interval // intervals_per_day)
    )


def _usual_load(rows: DistinctRows, intervals_per_day: int) -> Arrays:
    """Return the usual actions of each principal, by some rows (`load.usual_load`)."""
    day = rows.interval // intervals_per_day
    return load.usual_load(rows.principal, day, rows.codes[:, ACTION_COLUMN], _counted_calls(rows))


def _calls_by_window(rows: DistinctRows, window: Ints) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Return the keys of actions and their calls, by principal, window (R,) and action: (U,) each."""
    calls = amounts.interval_calls(rows.principal, window, rows.codes[:, ACTION_COLUMN], _counted_calls(rows))
    some = calls.events > 0
    return calls.of_action[some], calls.events[some]


def _holdout_amounts(
    piece: PartitionContext, late: NDArray[np.intp], surprise: Floats, busy: Floats
) -> Floats:
    """Return the log ratios of each held-out row's calls to what was usual before, by amount: (L, 3).

    `surprise` (L, F) says which of them touch unusual resources, `busy` (L,) is the load of their principals.
    """
    rows, day = piece.rows, piece.intervals_per_day
    principal, interval, action = rows.principal, rows.interval, rows.codes[:, ACTION_COLUMN]
    events, unusual = _counted_calls(rows), amounts.has_unusual_resource(surprise)
    calls = [
        amounts.calls_of_last_day(principal, interval, action, events, intervals)[late]
        for intervals in (1, day)
    ]
    on_unusual = amounts.calls_of_last_day(
        principal[late], interval[late], action[late], events[late] * unusual, 1
    )
    usual = piece.usual_before.usual(principal[late], action[late])
    ratio = amounts.log_ratio(np.stack([*calls, on_unusual * unusual], axis=1), usual).astype(np.float32)
    ratio[:, LOADED_AMOUNTS] -= busy[:, None]
    return ratio


def _holdout_rows(
    piece: PartitionContext, late: NDArray[np.intp], finest: NDArray[np.intp]
) -> baseline.HoldoutLosses:
    """Return the held-out rows, measured at their `finest` levels (L,) and at the principal, as in scoring."""
    losses = mapped_arrays.open_arrays(piece.dataset.partition_folder(piece.number) / "fitted", "loss")
    rows, owners, at = piece.rows.take(late), piece.owners[late], np.arange(len(late))
    able = np.maximum(_harm_nats(piece, rows), _path_nats(piece, rows, finest))
    able = np.maximum(able, _move_nats(piece, rows, finest))
    coarser = np.where((finest == ENTITY) & (not piece.entities_are_shared), PRINCIPAL, finest)
    measured = [(_losses_at_level(losses, level), owners[at, level]) for level in (finest, coarser)]
    return baseline.HoldoutLosses(*measured[0], *measured[1], rows.principal, rows.interval, rows.codes, able)


def _holdout_levels(piece: PartitionContext, late: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the level of the finest fingerprint of each held-out row that was ready before (L,)."""
    return np.argmax(piece.ready_before[piece.owners[late]], axis=1)  # the generic one always is


def _measured_levels(piece: PartitionContext, late: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the level at which each held-out row is measured (L,): that of its finest fingerprint that was ready before.

    Where that is a shared one, it is the principal's own if it had begun, as in scoring (`Bank.resolve`).
    """
    finest, principal = _holdout_levels(piece, late), piece.owners[:, PRINCIPAL]
    had_begun = np.isin(principal[late], principal[piece.early])
    return np.where((finest > PRINCIPAL) & had_begun, PRINCIPAL, finest)


def _harm_nats(piece: PartitionContext, rows: DistinctRows) -> Floats:
    """Return the nats of each held-out row's action that its principal never called, or account that no one named before (R,)."""
    words = pd.read_parquet(piece.dataset.partition_folder(piece.number) / "rows" / "words.parquet")
    known, texts = words["code"].to_numpy(np.uint64), words["text"].to_numpy(object)
    action = rows.codes[:, ACTION_COLUMN]
    effective = ~FEATURE_SET.had_no_effect(rows.codes)
    new = piece.usual_before.is_new(rows.principal, action) & effective
    nats = harm.harm_by_code(action, known, texts) * new
    if OTHER_ACCOUNT_FEATURE is None:
        return nats
    strange = ~np.isin(rows.codes[:, OTHER_ACCOUNT_FEATURE], piece.accounts_named_before)
    nats = np.maximum(nats, harm.STRANGER_NATS * (strange & rows.wrote & effective))
    return np.maximum(nats, _opener_nats(piece, rows))


def _path_nats(piece: PartitionContext, rows: DistinctRows, level: NDArray[np.intp]) -> Floats:
    """Return the nats of held-out rows (R,), judged at levels (R,), that first called directly what only services had called."""
    action = rows.codes[:, ACTION_COLUMN]
    counts = could_be_left_to_services(rows.codes, rows.wrote, level)
    nats = piece.paths_before.evidence(rows.principal, action) * counts
    return _until_come_again(piece, rows, action, nats)


def _move_nats(piece: PartitionContext, rows: DistinctRows, level: NDArray[np.intp]) -> Floats:
    """Return the nats of held-out rows (R,), judged at levels (R,), of settled machines that were seen at another network.

    What else is new of a row is here its action alone.
    """
    network, action = FEATURE_SET.networks(rows.codes), rows.codes[:, ACTION_COLUMN]
    new = piece.usual_before.is_new(rows.principal, action)
    nats = piece.moves_before.evidence(rows.principal, network, new) * could_have_moved(rows.codes, level)
    some = np.flatnonzero(nats)
    value = hashing.combine(rows.principal[some], network[some])
    age = FirstCalls().familiar_age(value, rows.interval[some], action[some])
    nats[some[age > piece.settings.spectral.late_intervals]] = 0
    return nats


def _opener_nats(piece: PartitionContext, rows: DistinctRows) -> Floats:
    """Return the nats of held-out rows (R,) in which someone opened a role for the first time, as scoring counts them."""
    nats = piece.openers_before.evidence(rows.role, rows.opener)
    return _until_come_again(piece, rows, rows.role, nats)


def _until_come_again(piece: PartitionContext, rows: DistinctRows, value: Hashes, nats: Floats) -> Floats:
    """Return the nats of rows (R,), 0 where the same principal and value had some in an earlier interval; in place."""
    new = np.flatnonzero(nats)
    _, of_pair = np.unique(hashing.combine(rows.principal[new], value[new]), return_inverse=True)
    first = np.full(len(new), np.iinfo(np.int32).max, np.int32)
    np.minimum.at(first, of_pair, rows.interval[new])
    again = rows.interval[new] - first[of_pair] > piece.settings.spectral.late_intervals
    nats[new[again]] = 0
    return nats


def _losses_at_level(losses: Mapping[str, Floats], level: NDArray[np.intp]) -> Floats:
    """Return each row's loss at its level (N,): (N, F)."""
    out = np.zeros_like(losses["0"])
    for number in range(len(LEVELS)):
        out[level == number] = losses[str(number)][level == number]
    return out


@dataclass(frozen=True)
class CountedRows:
    """The counts of R rows in each channel, in the interval of each row: (R, 9) each, `interval` (R,).

    `key` names the series, 0 where a row was not counted; `expected` and `spread` are NaN where it had no opinion yet.
    """

    interval: Ints
    key: NDArray[np.uint64]
    count: Floats
    expected: Floats
    spread: Floats

    @classmethod
    def empty(cls, interval: Ints) -> CountedRows:
        """Return rows that were counted nowhere."""
        shape = (len(interval), surge_tails.CHANNELS)
        none = (np.full(shape, fill, np.float32) for fill in (0, np.nan, np.nan))
        return cls(interval, np.zeros(shape, np.uint64), *none)

    def bursts(self, which: NDArray[np.bool_]) -> Arrays:
        """Return the burst of each series, by the intervals of some rows (R,): `key` (M,) sorted, `usual` (M,)."""
        counted = (self.key != 0) & which[:, None] & ~np.isnan(self.expected)
        interval = np.broadcast_to(self.interval[:, None], self.key.shape)[counted]
        key, above = self.key[counted], (self.count - self.expected)[counted]
        cell = hashing.hash_pair(key, interval.astype(np.uint64))
        first = np.unique(cell, return_index=True)[1]
        found = amounts.usual_amounts(key[first], np.maximum(above[first], 0).astype(np.float64))
        return {name: found[name] for name in ("key", "usual")}

    def surges(self, usual: NDArray[np.bool_]) -> Floats:
        """Return the log surge of each row and channel (R, 9), against the bursts of some rows, NaN for no opinion."""
        known = Bursts.from_arrays(
            {f"burst.{name}": column for name, column in self.bursts(usual).items()}, identity_placement
        )
        burst = known.usual(self.key.ravel()).reshape(self.key.shape)
        return surge_tails.log_surge(self.count, self.expected, self.spread, burst)


@dataclass(frozen=True)
class Beginnings:
    """Activity of principals in the active intervals of their first days, before there is a forecast of them.

    `principal` (H,), `count` (H, 3) of each such interval, as `newcomer_tails` counts; `of_row` (R,) names that of each row, -1
    for none.
    """

    principal: Hashes
    count: Floats
    of_row: NDArray[np.intp]

    @classmethod
    def of_rows(cls, piece: PartitionContext, counted: CountedRows) -> Beginnings:
        """Return those of a piece, by the counts of its rows: an interval's errors stand at the rows that failed."""
        rows, series = piece.rows, ScorerState(piece.settings).series
        fresh = np.flatnonzero(
            ~series.is_warm(rows.since, rows.interval) & (counted.key[:, NEWCOMER_PLACES.start] != 0)
        )
        cell = hashing.hash_pair(rows.principal[fresh], rows.interval[fresh].astype(np.uint64))
        _, first, of_cell = np.unique(cell, return_index=True, return_inverse=True)
        count = np.zeros((len(first), newcomer_tails.CHANNELS), np.float32)
        np.maximum.at(count, of_cell, counted.count[fresh][:, NEWCOMER_PLACES])
        of_row = np.full(len(rows), -1, np.intp)
        of_row[fresh] = of_cell
        return cls(rows.principal[fresh[first]], count, of_row)

    def hours(self) -> Arrays:
        """Return principal and counts of each interval, for the tails."""
        return {"principal": self.principal, "count": self.count}

    def rows_at(self, places: NDArray[np.intp]) -> Arrays:
        """Return the counts of the interval of some rows (L,): `beginning` (L, 3), NaN behind the first days."""
        none = np.full((1, newcomer_tails.CHANNELS), np.nan, np.float32)
        return {"beginning": np.concatenate([self.count, none])[self.of_row[places]]}


def _activity_series(piece: PartitionContext, known: Vocabulary) -> tuple[Arrays, CountedRows]:
    """Return the series and counts at the end of the history, and what was expected of each row's counts."""
    state, rows = _scorer_state(piece), piece.rows
    slot = known.look_up(piece.owners[:, ENTITY], rows.codes)[1][:, ACTION_COLUMN]
    # who is not ready has no channels of single actions when it is scored, either
    ready = piece.index.ready[piece.owners[:, ENTITY]]
    busy = (slot > 0) & (slot <= ACTION_CHANNELS) & ready
    days, counted = rows.interval // state.series.intervals_per_day, CountedRows.empty(rows.interval)
    for day in np.unique(days[days < _history_end(piece)]):  # who dates a record far ahead ends no series
        part = np.flatnonzero(days == day)
        batch = rows.take(part).to_event_batch()
        cells = count_events(batch, state, np.zeros(len(part), bool), busy[part], rows.events[part])
        flat = state.series.residuals(
            state.series.find_rows(cells.ravel()), np.repeat(batch.interval, cells.shape[1])
        )
        counted.key[part] = cells
        for name, column in zip(("count", "expected", "spread"), flat, strict=True):
            getattr(counted, name)[part] = column.reshape(cells.shape)
        state.series.close_days((int(day) + 1) * state.series.intervals_per_day)
    state.series.close_days(_history_end(piece) * state.series.intervals_per_day)
    return state.as_arrays((*LEARNED_TABLES, "series")), counted


def _scorer_state(piece: PartitionContext) -> ScorerState:
    """Return the scorer state that `distinct_rows` left, advanced to the end of the whole history."""
    kept = mapped_arrays.open_arrays(piece.dataset.partition_folder(piece.number) / "rows", "scorer_state")
    state = ScorerState.from_arrays(piece.settings, kept)
    state.watermark = piece.dataset.watermark
    state.expire()
    return state


def _history_end(piece: PartitionContext) -> int:
    """Return the day after the last of the whole history."""
    return piece.dataset.watermark // 86400 + 1


def _sample_rows(piece: PartitionContext) -> Arrays:
    rows = piece.rows
    drawn = sample_per_owner(np.zeros(len(rows), np.int8), rows.mark, SAMPLE_ROWS, distinct_rows.SEED)
    return {
        "codes": rows.codes[drawn],
        "fingerprint": piece.index.to_global(piece.owners[drawn, ENTITY]),
        "mark": rows.mark[drawn],
    }
