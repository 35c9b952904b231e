"""The inputs of both stages of a partition: its rows, its fingerprints, and the habits learned before the held-out days.

Example:
    >>> context = PartitionContext(history, 3, settings)
    >>> context.rows.take(context.held_out)                    # rows are mapped: the files are first read here
    >>> context.usual_before.usual(principal, action)        # (N, 3) usual amounts in the days before the held-out ones
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Arrays, Floats, Ints, identity_placement
from fingerprint.compute.hashing import Hashes
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.estimators import amounts, call_paths, load, moves, openers
from fingerprint.estimators.load import UsualLoad
from fingerprint.estimators.rates import distinct_days
from fingerprint.features import vocabulary
from fingerprint.features.encoding import ACTION_COLUMN, FEATURE_SET, OTHER_ACCOUNT_FEATURE
from fingerprint.features.vocabulary import PresenceCounts, Vocabulary
from fingerprint.state.interval_amounts import IntervalAmounts, calls_before
from fingerprint.training import fingerprint_index, shared_priors, whole_history
from fingerprint.training.dataset import PartitionedDataset
from fingerprint.training.distinct_rows import DistinctRows
from fingerprint.training.fingerprint_index import ENTITY, GENERIC, PEER, PRINCIPAL, IndexSlice
from fingerprint.training.shared_priors import SharedPriors

OWN_LEVELS = (PRINCIPAL, ENTITY)


@dataclass(frozen=True)
class PartitionContext:
    """The inputs of both stages of a partition (`partition_fit`, `partition_finish`), each read when it is first used."""

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
        """A mask (R,) of the rows that are held out."""
        return fingerprint_index.load_split(self.dataset).is_held_out(self.rows)

    @cached_property
    def early(self) -> NDArray[np.bool_]:
        """A mask (R,) of the rows to which fingerprints are fitted before they judge the held-out ones."""
        return self.rows.learned & ~self.held_out

    @cached_property
    def priors(self) -> SharedPriors:
        """The shared priors."""
        return SharedPriors.load(self.dataset.folder)

    @cached_property
    def ready(self) -> NDArray[np.intp]:
        """The ready fingerprints of the partition, which get a network."""
        return np.flatnonzero(self.index.ready[self.index.own]) + self.index.shared_count

    @cached_property
    def ready_before(self) -> NDArray[np.bool_]:
        """A mask (E',) of the fingerprints that were ready before the held-out days; the generic one stays as it is.

        So a principal that began in the held-out days is judged as the newcomer that it was, not by its own later behaviour or by
        a peer group that began with it.
        """
        if fingerprint_index.load_split(self.dataset).share:
            return self.index.ready
        early, options = self.early, self.settings.entities
        seconds = self.rows.interval[early].astype(np.int64) * self.settings.spectral.interval_seconds
        day = seconds // DAY_SECONDS
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
        """True if principals share entities."""
        return self.settings.entities.granularity == "service"

    @property
    def intervals_per_day(self) -> int:
        """The number of intervals in a day."""
        return self.settings.spectral.intervals_per_day

    @cached_property
    def usual_before(self) -> amounts.UsualAmounts:
        """The usual amounts of each principal and action before the held-out days."""
        before = self.rows.take(self.early)
        return amounts.UsualAmounts.from_columns(usual_amounts(before, self.intervals_per_day))

    @cached_property
    def accounts_named_before(self) -> Hashes:
        """The codes of the accounts that any principal of the organisation named before the held-out days."""
        return self._values_shown_before(OTHER_ACCOUNT_FEATURE)

    @cached_property
    def actions_called_before(self) -> Hashes:
        """The codes of the actions that any principal of the organisation called before the held-out days."""
        return self._values_shown_before(ACTION_COLUMN)

    def _values_shown_before(self, feature: int | None) -> Hashes:
        counted = self.priors.training_counts[shared_priors.SHARED_LEVELS.index(GENERIC)]
        return counted.code[counted.feature == feature]

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
        """Return the load of the principals of held-out rows (L,), as scoring measures it, by the usual load before."""
        rows, day, counted = self.rows, self.intervals_per_day, IntervalAmounts()
        before = UsualLoad.from_arrays(usual_load(rows.take(self.early), day))
        calls = succeeded_calls(rows).astype(np.int32)
        first = rows.interval[late].min(initial=np.iinfo(np.int32).max)
        some = np.flatnonzero((calls > 0) & (rows.interval >= first - 2 * day))
        counted.add(rows.principal[some], rows.interval[some], rows.codes[some, ACTION_COLUMN], calls[some])
        of_day = calls_before(counted, day, self.settings.spectral.late_intervals)
        return before.log_ratio(rows.principal[late], rows.interval[late], of_day)

    def count_presences(self, which: NDArray[np.bool_], ready: NDArray[np.bool_]) -> list[PresenceCounts]:
        """Return the presences of the rows in `which` at the partition's own fingerprints, principals before entities.

        A fingerprint that is not `ready` (E',) counts every event instead.
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


def tried_calls(rows: DistinctRows) -> Floats:
    """Return the calls of each row that count towards an amount on unusual resources (R,): those that were not rejected."""
    calls: Floats = rows.events * ~FEATURE_SET.makes_no_amount(rows.codes)
    return calls


def succeeded_calls(rows: DistinctRows) -> Floats:
    """Return the calls of each row that count towards an amount on any resource (R,): those that did not fail."""
    calls: Floats = rows.events * ~FEATURE_SET.failed(rows.codes)
    return calls


def usual_amounts(rows: DistinctRows, intervals_per_day: int) -> Arrays:
    """Return the usual amounts of each principal and action in some rows (`amounts.usual_by_window`)."""
    return amounts.usual_by_window(
        _calls_by_window(rows, rows.interval), _calls_by_window(rows, rows.interval // intervals_per_day)
    )


def usual_load(rows: DistinctRows, intervals_per_day: int) -> Arrays:
    """Return the usual actions of each principal in some rows (`load.usual_load`)."""
    day = rows.interval // intervals_per_day
    return load.usual_load(rows.principal, day, rows.codes[:, ACTION_COLUMN], succeeded_calls(rows))


def _calls_by_window(rows: DistinctRows, window: Ints) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Return the calls (U,) of each distinct principal, window and action, and the keys of principal and action (U,)."""
    calls = amounts.interval_calls(rows.principal, window, rows.codes[:, ACTION_COLUMN], tried_calls(rows))
    some = calls.events > 0
    return calls.of_action[some], calls.events[some]
