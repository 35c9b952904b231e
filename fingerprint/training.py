"""History -> bank: split it into pieces, collect what was done in each, count, fit, set the baselines, fill the series.

Example:
    >>> bank = train(chunks, settings, progress)        # chunks: events with entities, oldest first
    >>> int(bank.fingerprints["ready"].sum())
    412

    split ─▶ collect ─▶ survey ─▶ count ─▶ learn commons ─▶ fit ─▶ settle ─▶ finish ─▶ assemble
             a piece              a piece                   a piece           a piece

The stages on the lower line work on each piece by itself, here or on other machines (`ports.Workers`); those between put
together what the pieces found, which is little. Memory follows the size of a piece, not that of the history. Every stage
leaves files, whole or not at all: begun again in the same folder, a training goes on where it was.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from fingerprint import assembling, collecting, commons, learning, pieces, stacking
from fingerprint.bank import Bank
from fingerprint.domain import FingerprintError
from fingerprint.fitting import Start
from fingerprint.ledger import Ledger
from fingerprint.pieces import Pieces
from fingerprint.ports import Workers
from fingerprint.settings import Settings

Progress = Callable[[str, int, int], None]  # stage, done, of
Stage = Callable[[int], int | Path]  # a piece's number -> how much was done


def train(
    chunks: Iterable[pd.DataFrame],
    settings: Settings,
    progress: Progress = lambda *_: None,
    *,
    events: int = 0,
    folder: Path | None = None,
    workers: Workers | None = None,
    start: Start | None = None,
) -> Bank:
    """Learn all fingerprints of a history given as chunks of events with entities, oldest first.

    `events` says about how many there are, from which the number of pieces follows; without, there is one. `folder` keeps
    what the stages leave (and the arrays that the bank maps: it may go when the bank is written); without, it is a
    temporary one. `start` is the net that the generic one starts from. Raises FingerprintError if the history is empty.
    Fitting needs torch (the extra `train`).
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="fingerprint-training-") as temporary:
            return train(
                chunks,
                settings,
                progress,
                events=events,
                folder=Path(temporary),
                workers=workers,
                start=start,
            )
    history = _split(chunks, settings, progress, events, folder)
    each = partial(_each, history, workers, progress)
    each("collecting", partial(collecting.collect, history, settings=settings))
    stack = stacking.survey(history, settings)
    stacking.leave(stack, history)
    each("counting", partial(commons.count, history, settings=settings))
    commons.learn(history, settings, start)
    each("fitting", partial(learning.fit, history, settings=settings), int(stack.table["ready"].sum()))
    commons.settle(history, settings)
    each("finishing", partial(learning.finish, history, settings=settings), len(stack.table))
    return assembling.assemble(history, stack, settings)


def _split(
    chunks: Iterable[pd.DataFrame], settings: Settings, progress: Progress, events: int, folder: Path
) -> Pieces:
    """The history in its pieces, now or as they were left before. FingerprintError if there is nothing in it."""
    done = folder / "split.json"
    if not done.exists():
        clock, count, total = Ledger(settings), pieces.pieces_for(events, settings.training.piece_events), 0

        def saw(chunk: pd.DataFrame) -> None:
            nonlocal total
            clock.see(chunk["event_time"].astype("int64").to_numpy(np.int64) // 1_000_000)
            total += len(chunk)
            progress("reading history", total, events)

        pieces.split((chunk for chunk in chunks if len(chunk)), folder, count, saw)
        if not total:
            raise FingerprintError(
                "there is no event to learn from: name a file or folder with CloudTrail records"
            )
        pieces.note(done, count=count, watermark=clock.watermark)
    return Pieces(folder, **json.loads(done.read_text()))


def _each(
    history: Pieces,
    workers: Workers | None,
    progress: Progress,
    name: str,
    stage: Stage,
    of: int | None = None,
) -> None:
    """One stage on all pieces; `of` is what the pieces' figures add up to, without it they are counted."""
    numbers, done = history.filled(), 0
    for _, figure in workers.each(stage, numbers) if workers else enumerate(map(stage, numbers)):
        done += figure if isinstance(figure, int) else 1
        progress(name, done, of or len(numbers))
