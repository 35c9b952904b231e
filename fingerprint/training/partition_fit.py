"""One piece's principals and entities: counted, fitted, measured; then everything of theirs that a bank holds.

Example:
    >>> fit(history, 3, settings)          # leaves pieces/003/fitted: nets, and the losses of the rows held out
    >>> commons.settle(history, settings)  # what is usual of the groups is known when all pieces are there
    >>> finish(history, 3, settings)       # leaves pieces/003/learned: this piece's part of the bank

Counts, nets and baselines come from different rows: likelihoods and nets are fitted on the first part of the history and
judged on the last (`autoencoder.held_out`); then the counts are taken of all of it, and the nets are moved along. So a
baseline says how surprising a *new* week is, not how well an old one was learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.core.alert import LEVELS
from fingerprint.core.settings import Settings
from fingerprint.detection import detectors
from fingerprint.estimators import autoencoder
from fingerprint.estimators.autoencoder import Weights
from fingerprint.features import vocabulary
from fingerprint.features.vocabulary import Floats, Ints, Presences, Vocabulary, key_of
from fingerprint.state.scorer_state import Ledger
from fingerprint.training import baseline, dataset, fingerprint_index, shared_priors
from fingerprint.training.dataset import Pieces
from fingerprint.training.distinct_rows import SHARD, Rows, lowest
from fingerprint.training.fingerprint_index import ENTITY, PRINCIPAL, Part
from fingerprint.training.nn import trainer
from fingerprint.training.shared_priors import Commons

OWN = (PRINCIPAL, ENTITY)
SAMPLE_ROWS = 20_000  # rows kept for detectors that are fitted when they start

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Piece:
    """What both stages begin with."""

    history: Pieces
    number: int
    settings: Settings

    @cached_property
    def rows(self) -> Rows:
        return Rows.opened(self.history.piece(self.number) / "rows")

    @cached_property
    def here(self) -> Part:
        return fingerprint_index.part(self.history, self.number)

    @cached_property
    def owners(self) -> Ints:
        return self.here.owners(self.rows)

    @cached_property
    def late(self) -> NDArray[np.bool_]:
        return fingerprint_index.cut(self.history).late(self.rows)

    @cached_property
    def commons(self) -> Commons:
        return Commons.opened(self.history.folder)

    @cached_property
    def ready(self) -> NDArray[np.intp]:
        """The fingerprints of this piece's own that get a net."""
        return np.flatnonzero(self.here.ready[self.here.own]) + self.here.commons

    @property
    def shared(self) -> bool:
        """Whether principals share entities."""
        return self.settings.entities.granularity == "service"

    def counts(self, which: NDArray[np.bool_]) -> list[Presences]:
        """Presences of some rows at this piece's own fingerprints, principals before entities."""
        some = self.rows.take(which)
        return [
            shared_priors.presences(self.owners[which, level], some, level, self.settings) for level in OWN
        ]

    def vocabulary(self, above: list[Presences], own: list[Presences]) -> Vocabulary:
        return vocabulary.build([*above, *own], self.here.parent, self.settings.autoencoder.vocabulary)


# --- nets and losses --------------------------------------------------------------------------------------------------


def fit(history: Pieces, number: int, settings: Settings) -> int:
    """Fit the nets of a piece and measure its rows that were held out; how many nets."""
    piece = Piece(history, number, settings)
    dataset.once(history.piece(number) / "fitted", partial(_fit, piece))
    return len(piece.ready)


def _fit(piece: Piece, folder: Path) -> None:
    known = piece.vocabulary(piece.commons.early, piece.counts(~piece.late))
    early, late = _capped(piece, np.flatnonzero(~piece.late)), np.flatnonzero(piece.late)
    nets = trainer.fit(
        known,
        _slots(piece, known, early),
        _slots(piece, known, late),
        piece.ready,
        piece.settings.autoencoder,
        start=piece.commons.start,
        keys=piece.here.hash,
    )
    loss = _losses(piece, known, _joined(piece.commons.nets, nets), late)
    arrays = {each.name: getattr(nets, each.name) for each in fields(Weights)}
    mapped_arrays.write({**arrays, "codes": known.codes[piece.ready]}, folder, "nets", SHARD)
    mapped_arrays.write({str(level): each for level, each in enumerate(loss)}, folder, "loss", SHARD)
    mapped_arrays.write(_drawn(piece, loss, late), folder, "drawn", SHARD)


def _capped(piece: Piece, places: NDArray[np.intp]) -> NDArray[np.intp]:
    """At most `day_cap` rows of one entity and day: who did a year's work on one day is not that day alone."""
    rows, options = piece.rows, piece.settings.autoencoder
    per_day = 86400 // piece.settings.spectral.interval_seconds
    day = hashing.mix(rows.entity[places], (rows.interval[places] // per_day).astype(np.uint64))
    return places[lowest(day, rows.mark[places], options.day_cap, options.seed)]


def _slots(piece: Piece, known: Vocabulary, places: NDArray[np.intp]) -> trainer.Rows:
    """Slots of some rows at each level of the piece's own."""
    owner = [piece.owners[places, level] for level in OWN]
    slots = [known.look_up(at, piece.rows.codes[places])[1] for at in owner]
    return trainer.Rows.of(np.concatenate(owner), np.concatenate(slots), len(known.parent))


def _joined(above: Weights, own: Weights) -> Weights:
    """The nets of the commons, then the piece's own."""
    parts = {
        name: np.concatenate([getattr(above, name), getattr(own, name)])
        for name in ("inputs", "bias", "outputs")
    }
    row = np.where(own.row < 0, -1, own.row + len(above.bias)).astype(np.int32)
    row[: len(above.row)] = above.row
    return Weights(**parts, row=row)


def _losses(piece: Piece, known: Vocabulary, nets: Weights, late: NDArray[np.intp]) -> list[Floats]:
    """Losses of the rows held out at every level (L, F), finest first, novelties discounted as they are when scoring."""
    rows, losses = piece.rows.take(late), []
    for level in range(len(LEVELS)):
        at = rows.batch(piece.owners[late, level])
        loss, seen = autoencoder.losses(known, nets, at.fingerprint, at.codes)
        losses.append(
            detectors.familiar(
                loss, seen, known.escape[at.fingerprint], detectors.Shown.of(at), Ledger(piece.settings)
            )
        )
    return losses


def _drawn(piece: Piece, loss: list[Floats], late: NDArray[np.intp]) -> Arrays:
    """Some losses of each common fingerprint, for what is usual of it."""
    arrays: Arrays = {}
    mark = piece.rows.mark[late]
    for level in shared_priors.LEVELS:
        owner = piece.owners[late, level]
        places = lowest(owner, mark, shared_priors.DRAWN[level], piece.settings.autoencoder.seed)
        columns = {"owner": owner, "mark": mark, "loss": loss[level]}
        arrays |= {f"{level}.{name}": column[places] for name, column in columns.items()}
    return arrays


# --- the piece's part of the bank -------------------------------------------------------------------------------------


def finish(history: Pieces, number: int, settings: Settings) -> int:
    """Set the baselines of a piece, count all of its rows, fill its series; how many fingerprints it has."""
    piece = Piece(history, number, settings)
    dataset.once(history.piece(number) / "learned", partial(_finish, piece))
    return len(piece.here.hash) - piece.here.commons


def _finish(piece: Piece, folder: Path) -> None:
    own = piece.counts(np.ones(len(piece.rows), bool))
    known = piece.vocabulary(piece.commons.all, own)
    center = _centers(piece)
    stack = _stacked(piece, known) | _values(piece, known, own) | {"baseline.center": center[piece.here.own]}
    mapped_arrays.write(stack, folder, "stack", SHARD)
    series, count_z = _series(piece, known)
    mapped_arrays.write(series, folder, "ledger", SHARD)
    mapped_arrays.write(_reach(piece, center, count_z), folder, "reach", SHARD)
    mapped_arrays.write(_sample(piece), folder, "sample", SHARD)


def _stacked(piece: Piece, known: Vocabulary) -> Arrays:
    """Vocabulary and nets of the piece's own fingerprints (E' - U, ...)."""
    own = piece.here.own
    out = {f"vocabulary.{name}": getattr(known, name)[own] for name in ("escape", "base", "codes", "total")}
    fitted = mapped_arrays.opened(piece.history.piece(piece.number) / "fitted", "nets")
    codes = fitted.pop("codes")
    nets = trainer.move(Weights(**fitted), codes, known.codes[piece.ready], np.arange(len(codes)))
    return out | {f"weights.{name}": getattr(nets, name) for name in ("inputs", "bias", "outputs")}


def _values(piece: Piece, known: Vocabulary, own: list[Presences]) -> Arrays:
    return values(known, own, piece.here.everywhere)


def values(known: Vocabulary, counted: list[Presences], everywhere: Any) -> Arrays:
    """What was counted of each value (M,), under the key that it has in the whole stack."""
    owner, feature, code = (
        np.concatenate([getattr(each, name) for each in counted])
        for name in ("fingerprint", "feature", "code")
    )
    place = np.searchsorted(known.keys, key_of(owner, feature, code))
    out = {f"values.{name}": getattr(known, name)[place] for name in ("logp", "count", "slot")}
    return out | {"values.keys": key_of(everywhere(owner), feature, code)}


def _centers(piece: Piece) -> Floats:
    """The usual losses of the commons' fingerprints and the piece's own (E', F)."""
    late, here = np.flatnonzero(piece.late), piece.here
    losses = mapped_arrays.opened(piece.history.piece(piece.number) / "fitted", "loss")
    owner = np.concatenate([piece.owners[late, level] for level in OWN])
    loss = np.concatenate([losses[str(level)] for level in OWN])
    return baseline.center_of(loss, owner, here.parent, shared_priors.centers(piece.history))


def _reach(piece: Piece, center: Floats, count_z: Floats) -> Arrays:
    """How far each row held out lies above what is usual, and the z of its counts: what thresholds are set by."""
    late, options = np.flatnonzero(piece.late), piece.settings
    held = _held_out(piece, late)
    time = held.interval.astype(np.int64) * options.spectral.interval_seconds
    return {
        "loss": held.loss.sum(1),
        "excess": baseline.excess_of(held, center, options.autoencoder),
        "count_z": count_z[late],
        "hour": held.hour,
        "owner": piece.here.everywhere(piece.owners[late, PRINCIPAL]),
        "principal": held.principal,
        "day": (time // 86400).astype(np.int32),
        "window": (time // options.alerts.window_seconds).astype(np.int32),
    }


def _held_out(piece: Piece, late: NDArray[np.intp]) -> baseline.HeldOut:
    """The rows held out, each measured at the finest fingerprint that is ready, and at its principal as a whole, as scoring
    would."""
    losses = mapped_arrays.opened(piece.history.piece(piece.number) / "fitted", "loss")
    rows, owners, at = piece.rows.take(late), piece.owners[late], np.arange(len(late))
    finest = np.argmax(piece.here.ready[owners], axis=1)  # the generic one always is
    coarser = np.where((finest == ENTITY) & ~piece.shared, PRINCIPAL, finest)
    measured = [(_at(losses, level), owners[at, level]) for level in (finest, coarser)]
    return baseline.HeldOut(*measured[0], *measured[1], rows.principal, rows.interval, rows.codes)


def _at(losses: Mapping[str, Floats], level: NDArray[np.intp]) -> Floats:
    """Of each row the loss at its level (N,): (N, F)."""
    out = np.zeros_like(losses["0"])
    for number in range(len(LEVELS)):
        out[level == number] = losses[str(number)][level == number]
    return out


def _series(piece: Piece, known: Vocabulary) -> tuple[Arrays, Floats]:
    """The series and counts as they stand at the end of the history, flagged intervals clipped, day by day; and the z of each
    row's counts (R,), NaN where there was no opinion yet."""
    ledger, rows, options = _memory(piece), piece.rows, piece.settings.spectral
    slot = known.look_up(piece.owners[:, ENTITY], rows.codes)[1][:, detectors.ACTION]
    # who is not ready has no channels of single actions when it is scored, either
    ready = piece.here.ready[piece.owners[:, ENTITY]]
    busy = (slot > 0) & (slot <= options.busiest_actions) & ready
    days, z = rows.interval // ledger.series.per_day, np.full(len(rows), np.nan, np.float32)
    for day in np.unique(days[days < _end(piece)]):  # who dates a record far ahead ends no series
        part = np.flatnonzero(days == day)
        batch = rows.take(part).batch()
        cells = detectors.count(batch, ledger, np.zeros(len(part), bool), busy[part], rows.events[part])
        z[part] = detectors.strongest_of(cells, batch.interval, ledger.series)  # by these the day is clipped
        ledger.series.roll((int(day) + 1) * ledger.series.per_day)
    ledger.series.roll(_end(piece) * ledger.series.per_day)
    return ledger.as_arrays(("principals", "activity", "firsts", "series")), z


def _memory(piece: Piece) -> Ledger:
    """What reading left in the ledger, at the time at which the whole history ended."""
    kept = mapped_arrays.opened(piece.history.piece(piece.number) / "rows", "ledger")
    ledger = Ledger.from_arrays(piece.settings, kept)
    ledger.watermark = piece.history.watermark
    ledger.advance()
    return ledger


def _end(piece: Piece) -> int:
    """The day after the last of the whole history."""
    return piece.history.watermark // 86400 + 1


def _sample(piece: Piece) -> Arrays:
    rows = piece.rows
    drawn = lowest(np.zeros(len(rows), np.int8), rows.mark, SAMPLE_ROWS, piece.settings.autoencoder.seed)
    return {
        "codes": rows.codes[drawn],
        "fingerprint": piece.here.everywhere(piece.owners[drawn, ENTITY]),
        "mark": rows.mark[drawn],
    }
