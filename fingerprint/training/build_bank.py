"""The parts that the pieces learned -> one bank.

Example:
    >>> bank = assemble(history, stack, settings)

What grows with the fingerprints (vocabulary, nets, baselines) is laid end to end in a file and mapped from there, so that a bank
larger than memory can be put together; what is sorted by key (values, series) is merged in memory.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import mapped_arrays
from fingerprint.core.alert import LEVELS
from fingerprint.core.settings import Settings
from fingerprint.estimators import tail_calibration
from fingerprint.estimators.autoencoder import Baseline, Weights
from fingerprint.features import encoding, vocabulary
from fingerprint.features.vocabulary import Vocabulary
from fingerprint.registry import quality
from fingerprint.registry.bank import LEARNED_BY, Bank, version_of
from fingerprint.state.scorer_state import Ledger
from fingerprint.training import baseline, fingerprint_index
from fingerprint.training.dataset import Pieces
from fingerprint.training.distinct_rows import lowest
from fingerprint.training.fingerprint_index import Stack
from fingerprint.training.nn import trainer
from fingerprint.training.partition_fit import SAMPLE_ROWS, Arrays, values
from fingerprint.training.shared_priors import Commons, centers

LONG = (  # one row a fingerprint, or a net
    *("vocabulary.escape", "vocabulary.base", "vocabulary.codes", "vocabulary.total"),
    *("weights.inputs", "weights.bias", "weights.outputs", "baseline.center"),
)


def assemble(history: Pieces, stack: Stack, settings: Settings) -> Bank:
    """Put the bank together from what `learning.finish` left of every piece."""
    parts = [_above(history, settings), *_parts(history, "stack")]
    arrays = _laid(parts, history.folder / "laid") | _values(parts)
    table = stack.table
    usual, figures = _usual(history, arrays.pop("baseline.center"), table, settings)
    ready = table["ready"].to_numpy(bool)
    arrays |= {
        "vocabulary.parent": table["parent"].to_numpy(np.int32),
        "weights.row": np.where(ready, np.cumsum(ready) - 1, -1).astype(np.int32),
    }
    stacked: dict[str, Any] = {
        "vocabulary": Vocabulary(**_of("vocabulary", arrays)),
        "weights": Weights(**_of("weights", arrays)),
        "baseline": usual,
    }
    return Bank(
        _manifest(history, stack, figures, settings),
        table,
        stack.people,
        stack.words,
        **stacked,
        ledger={**_ledger(history, settings), **_sample(history, settings)},
    )


def _of(part: str, arrays: Arrays) -> Arrays:
    """The arrays of one part of a bank, by their names in it."""
    return {
        name.removeprefix(f"{part}."): array for name, array in arrays.items() if name.startswith(f"{part}.")
    }


def _parts(history: Pieces, stem: str) -> list[Arrays]:
    return [mapped_arrays.opened(history.piece(number) / "learned", stem) for number in history.filled()]


def _above(history: Pieces, settings: Settings) -> Arrays:
    """The part of the commons, as `learning` leaves that of a piece."""
    commons, here = Commons.opened(history.folder), fingerprint_index.part(history, 0)
    upto = slice(0, here.commons)
    known = vocabulary.build(commons.all, here.parent[upto], settings.autoencoder.vocabulary)
    ready = np.flatnonzero(here.ready[upto])
    nets = trainer.move(commons.nets, commons.codes, known.codes[ready], np.arange(len(ready)))
    return {
        **{f"vocabulary.{name}": getattr(known, name) for name in ("escape", "base", "codes", "total")},
        **{f"weights.{name}": getattr(nets, name) for name in ("inputs", "bias", "outputs")},
        "baseline.center": centers(history),
        **values(known, commons.all, lambda owner: owner),
    }


def _laid(parts: list[Arrays], folder: Path) -> Arrays:
    """All parts of what is long, end to end, mapped."""
    folder.mkdir(exist_ok=True)
    return {name: _end_to_end([part[name] for part in parts], folder / name) for name in LONG}


def _end_to_end(parts: list[NDArray[Any]], file: Path) -> NDArray[Any]:
    shape, dtype = (sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype
    with file.open("wb") as stream:
        for each in parts:
            stream.write(np.ascontiguousarray(each).data)
    return np.memmap(file, dtype, "c", shape=shape) if all(shape) else np.empty(shape, dtype)


def _values(parts: list[Arrays]) -> Arrays:
    """The values of all fingerprints, in the order of their keys."""
    order = np.argsort(np.concatenate([part["values.keys"] for part in parts]))
    return {
        f"vocabulary.{name}": np.concatenate([part[f"values.{name}"] for part in parts])[order]
        for name in ("keys", "logp", "count", "slot")
    }


def _ledger(history: Pieces, settings: Settings) -> Arrays:
    """The series and memories of all pieces: none has a principal of another's."""
    first, *others = _parts(history, "ledger")
    ledger = Ledger.from_arrays(settings, first)
    for part in others:
        ledger.merge(part)
    ledger.watermark = history.watermark
    return ledger.as_arrays(("principals", "activity", "firsts", "series"))


def _sample(history: Pieces, settings: Settings) -> Arrays:
    parts = _parts(history, "sample")
    mark, codes, fingerprint = (
        np.concatenate([part[name] for part in parts]) for name in ("mark", "codes", "fingerprint")
    )
    drawn = lowest(np.zeros(len(mark), np.int8), mark, SAMPLE_ROWS, settings.autoencoder.seed)
    return {"sample.codes": codes[drawn], "sample.fingerprint": fingerprint[drawn]}


# --- figures ----------------------------------------------------------------------------------------------------------


def _usual(
    history: Pieces, center: NDArray[Any], table: pd.DataFrame, settings: Settings
) -> tuple[Baseline, dict[str, Any]]:
    """The baselines, and how good the bank is by the rows that were held out."""
    parts = _parts(history, "reach")
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    hours = tail_calibration.strangest(rows["excess"], rows["hour"], rows["owner"])
    usual = baseline.with_tails(center, hours, table["parent"].to_numpy(np.int32))
    z = tail_calibration.z_of(rows["excess"], usual, rows["owner"])
    held = quality.Held(**{name: rows[name] for name in quality.READ}, z=z)
    shape = {
        "edge": float(usual.edge[0]),
        "slope": float(usual.slope[0]),
        "rate": float(np.exp(usual.rate[0])),
    }
    return usual, {**shape, **quality.figures(held, settings)}


def _manifest(history: Pieces, stack: Stack, figures: dict[str, Any], settings: Settings) -> dict[str, Any]:
    table, seconds = stack.table, settings.spectral.interval_seconds
    first, last = (int(table[name].iloc[0]) for name in ("first", "last"))
    span = [pd.Timestamp(at * seconds, unit="s", tz="UTC").isoformat() for at in (first, last + 1)]
    counts = [
        json.loads((history.piece(number) / "rows" / "counts.json").read_text())
        for number in history.filled()
    ]
    manifest = {
        "span": span,
        "events": sum(each["events"] for each in counts),
        "repeats": sum(each["repeats"] for each in counts),
        "fingerprints": len(table),
        "ready": _ready(table),
        "watermark": history.watermark,
        "settings": settings.model_dump(mode="json", include=set(LEARNED_BY)),
        "features": list(encoding.NAMES),
        "quality": figures,
    }
    return {
        **manifest,
        "version": version_of(manifest, table),
        "learned_upto": min(history.watermark - settings.spectral.lateness_seconds, history.arrived_upto),
        "arrived_upto": history.arrived_upto,
    }


def _ready(table: pd.DataFrame) -> dict[str, int]:
    return {
        name: int((table["ready"] & (table["level"] == number)).sum()) for number, name in enumerate(LEVELS)
    }
