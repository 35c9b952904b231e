"""What principals share: the generic fingerprint and the peer groups', counted piece by piece and fitted together.

Example:
    >>> for number in history.filled():
    ...     count(history, number, settings)                  # leaves pieces/<n>/commons
    >>> learn(history, settings)                              # leaves commons/
    >>> commons = Commons.opened(history.folder)

Counts add up because no two pieces share a unit: those of a group are principal-days, those of the organisation principals
(`vocabulary`), and a principal has one piece. Nets and baselines rest on rows that are drawn by their marks, at most DRAWN of
a group, so it does not matter which piece they lay in.
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
from fingerprint.core.settings import Settings
from fingerprint.estimators.autoencoder import Weights
from fingerprint.features import vocabulary
from fingerprint.features.vocabulary import Floats, Ints, Presences, Vocabulary
from fingerprint.training import baseline, dataset, fingerprint_index
from fingerprint.training.dataset import Pieces
from fingerprint.training.distinct_rows import SHARD, Rows, lowest
from fingerprint.training.fingerprint_index import GENERIC, PEER, Part
from fingerprint.training.nn import trainer
from fingerprint.training.nn.trainer import Start

LEVELS = (GENERIC, PEER)
DRAWN = {
    GENERIC: 20_000,
    PEER: 4096,
}  # rows of one fingerprint that its net sees at most, and that its baseline rests on
PARTS = ("early", "late", "all")  # what is fitted, what is held out, both

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Commons:
    """The first U fingerprints: `early` and `all` are their counts, by level; `nets` theirs, over the slots `codes` (P, F, K) of
    the early counts."""

    early: list[Presences]
    all: list[Presences]
    nets: Weights
    codes: hashing.Hashes

    @classmethod
    def opened(cls, folder: Path) -> Commons:
        arrays = mapped_arrays.opened(folder / "commons", "commons")
        counts = {name: [_presences(arrays, name, level) for level in LEVELS] for name in ("early", "all")}
        nets = Weights(**{each.name: arrays[f"nets.{each.name}"] for each in fields(Weights)})
        return cls(counts["early"], counts["all"], nets, arrays["codes"])

    @property
    def start(self) -> Start:
        """The generic net, from which all others start."""
        one = Weights(self.nets.inputs[:1], self.nets.bias[:1], self.nets.outputs[:1], np.zeros(1, np.int32))
        return Start(one, self.codes[:1])


# --- in each piece ----------------------------------------------------------------------------------------------------


def count(history: Pieces, number: int, settings: Settings) -> Path:
    """Count a piece's rows for its groups and for everybody, and draw some of them."""
    return dataset.once(history.piece(number) / "commons", partial(_count, history, number, settings))


def _count(history: Pieces, number: int, settings: Settings, folder: Path) -> None:
    rows, here = Rows.opened(history.piece(number) / "rows"), fingerprint_index.part(history, number)
    late = fingerprint_index.cut(history).late(rows)
    owners = here.owners(rows)
    arrays: Arrays = {}
    for name, which in zip(PARTS, (~late, late, np.ones(len(rows), bool)), strict=True):
        for level in LEVELS:
            owner, some = owners[which, level], rows.take(which)
            if name != "late":
                arrays |= _named(presences(owner, some, level, settings), name, level)
            if name != "all":
                drawn = lowest(owner, some.mark, DRAWN[level], settings.autoencoder.seed)
                arrays |= {
                    f"{name}.{level}.rows": some.codes[drawn],
                    f"{name}.{level}.mark": some.mark[drawn],
                }
                arrays |= {f"{name}.{level}.owner": owner[drawn]}
    mapped_arrays.write(arrays, folder, "commons", SHARD)


def presences(owner: Ints, rows: Rows, level: int, settings: Settings) -> Presences:
    """Count the values of rows at their owners (R,): units are intervals, in a group principal-days, for everybody principals."""
    day = (rows.interval * np.int64(settings.spectral.interval_seconds) // 86400).astype(np.uint64)
    unit = {GENERIC: rows.principal, PEER: hashing.mix(rows.principal, day)}
    return vocabulary.presences(owner, unit.get(level, rows.interval.astype(np.uint64)), rows.codes)


def _named(counted: Presences, name: str, level: int) -> Arrays:
    return {f"{name}.{level}.{each.name}": getattr(counted, each.name) for each in fields(Presences)}


def _presences(arrays: Arrays, name: str, level: int) -> Presences:
    return Presences(**{each.name: arrays[f"{name}.{level}.{each.name}"] for each in fields(Presences)})


# --- for all of them --------------------------------------------------------------------------------------------------


def learn(history: Pieces, settings: Settings, start: Start | None = None) -> Path:
    """Add up what the pieces counted, and fit the nets that all others start from."""
    return dataset.once(history.folder / "commons", partial(_learn, history, settings, start))


def _learn(history: Pieces, settings: Settings, start: Start | None, folder: Path) -> None:
    parts = [
        mapped_arrays.opened(history.piece(number) / "commons", "commons") for number in history.filled()
    ]
    counts = {
        name: [vocabulary.added([_presences(each, name, level) for each in parts]) for level in LEVELS]
        for name in ("early", "all")
    }
    here = _part(history)
    known = vocabulary.build(counts["early"], here.parent, settings.autoencoder.vocabulary)
    early, late = (_drawn(parts, name, known, settings) for name in ("early", "late"))
    ready = np.flatnonzero(here.ready)
    nets = trainer.fit(known, early, late, ready, settings.autoencoder, start=start, keys=here.hash)
    arrays = {f"nets.{each.name}": getattr(nets, each.name) for each in fields(Weights)}
    for name, counted in counts.items():
        for level, each in zip(LEVELS, counted, strict=True):
            arrays |= _named(each, name, level)
    mapped_arrays.write({**arrays, "codes": known.codes[ready]}, folder, "commons", SHARD)


def _part(history: Pieces) -> Part:
    """The commons alone."""
    whole = fingerprint_index.part(history, 0)
    mine = slice(0, whole.commons)
    return replace(
        whole,
        hash=whole.hash[mine],
        level=whole.level[mine],
        parent=whole.parent[mine],
        ready=whole.ready[mine],
    )


def _drawn(parts: Sequence[Arrays], name: str, known: Vocabulary, settings: Settings) -> trainer.Rows:
    """The rows that fit the commons, or hold them to account: drawn again from those that each piece drew."""
    owners, slots = [], []
    for level in LEVELS:
        owner, mark, codes = (
            np.concatenate([each[f"{name}.{level}.{column}"] for each in parts])
            for column in ("owner", "mark", "rows")
        )
        drawn = lowest(owner, mark, DRAWN[level], settings.autoencoder.seed)
        drawn = drawn[np.argsort(mark[drawn])]  # whichever piece they lay in
        owners.append(owner[drawn])
        slots.append(known.look_up(owner[drawn], codes[drawn])[1])
    return trainer.Rows.of(np.concatenate(owners), np.concatenate(slots), len(known.parent))


# --- baselines --------------------------------------------------------------------------------------------------------


def settle(history: Pieces, settings: Settings) -> Path:
    """The baselines of the commons, from losses that each piece drew once all nets were there (`learning.fit`)."""
    return dataset.once(history.folder / "baseline", partial(_settle, history, settings))


def _settle(history: Pieces, settings: Settings, folder: Path) -> None:
    parts = [mapped_arrays.opened(history.piece(number) / "fitted", "drawn") for number in history.filled()]
    losses, owners = [], []
    for level in LEVELS:
        owner, mark, loss = (
            np.concatenate([each[f"{level}.{column}"] for each in parts])
            for column in ("owner", "mark", "loss")
        )
        drawn = lowest(owner, mark, DRAWN[level], settings.autoencoder.seed)
        losses.append(loss[drawn])
        owners.append(owner[drawn])
    loss, owner, parent = np.concatenate(losses), np.concatenate(owners), _part(history).parent
    center = baseline.center_of(loss, owner, parent)
    mapped_arrays.write({"center": center}, folder, "baseline", SHARD)


def centers(history: Pieces) -> Floats:
    """The usual losses of the commons (U, F)."""
    return mapped_arrays.opened(history.folder / "baseline", "baseline")["center"]
