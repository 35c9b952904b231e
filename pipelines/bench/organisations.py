"""Organisations for the bench: simulated ones, a bank that learned one, and copies of one in other accounts.

Example:
    >>> few = sample_events()                                # events of some hundred entities, oldest first
    >>> for events in replicate_events(few, copies=200):     # a hundred thousand entities, never all in memory
    ...     ...

A copy is an organisation of its own: its accounts have other numbers, so its principals, roles and entities have other names and
hash buckets. Their actions and times are the same. So a bank of copies knows no more words than a bank of the original, but has
counts, networks, baselines and series for as many entities as a real bank.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fingerprint.core.settings import Settings
from fingerprint.detection.batch import FRAME_COLUMNS
from fingerprint.registry.bank import Bank
from fingerprint.registry.bank_files import publish_version

PRINCIPALS, DAYS = 100, 14  # simulated
MIN_EVENTS, MAX_EVENTS = 20, 80  # events of an entity: with fewer it is left out, more are thinned evenly
SERVICES = 5  # services that a principal must use at least
ROWS_PER_CHUNK = 20_000  # events at a time
ACCOUNT_COLUMNS = ("principal", "entity", "role", "recipient_account")  # columns that begin with an account
STRIDE = 7_919  # from one copy's account number to the next one's
_ACCOUNT = re.compile(r"^\d{12}")
_NO_VALUE = pa.scalar("-", pa.large_string())


@contextmanager
def organisation_files(
    principals: int, days: int, scale: float = 1.0, attacks: int = 4
) -> Iterator[list[str]]:
    """Yield a simulated organisation's files, oldest day first."""
    from pipelines.simulate import simulate_organisation

    with tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as folder:
        simulate_organisation(principals, days, 0, Path(folder), attacks, scale=scale)
        yield sorted(str(file) for file in Path(folder).glob("*.jsonl.gz"))


@dataclass(frozen=True)
class TrainedOrganisation:
    """A bank, the core seconds of its training, and the events of the days after it."""

    settings: Settings
    bank: Bank
    core_seconds: float
    events: list[pd.DataFrame]


@cache
def trained_organisation() -> TrainedOrganisation:
    """Train on ten days of 50 principals; the next four days are left for scoring."""
    from fingerprint.training import pipeline

    settings = Settings()
    with organisation_files(50, 14) as days:
        history, following = read_events(days[:10], settings), read_events(days[10:], settings)
        pipeline.train(read_events(days[:3], settings), settings)  # numba compiles now, once on a machine
    start = time.process_time()
    bank = pipeline.train(history, settings)
    return TrainedOrganisation(settings, bank, time.process_time() - start, following)


def read_events(
    files: list[str], settings: Settings, columns: Sequence[str] | None = None
) -> list[pd.DataFrame]:
    """Return the events of files, oldest first; all their columns, or some."""
    from fingerprint.adapters.event_spool import EventSpool
    from fingerprint.adapters.files import read_sources

    with EventSpool(settings) as history:
        history.add_batches(read_sources(files, settings.reading))
        return [chunk if columns is None else chunk[list(columns)] for chunk in history.batches()]


def publish_bank(files: list[str], folder: Path) -> None:
    """Publish in `folder` a bank that has learned the events of files, with the usual settings."""
    from fingerprint.training import pipeline

    settings = Settings()
    publish_version(pipeline.train(read_events(files, settings), settings), folder)


# --- replicated in other accounts ------------------------------------------------------------------------------


def sample_events() -> pa.Table:
    """Return events of those principals of a simulated organisation that use at least SERVICES services."""
    with organisation_files(PRINCIPALS, DAYS, scale=1.5, attacks=0) as days:
        events = pd.concat(read_events(days, Settings(), FRAME_COLUMNS), ignore_index=True)
    events = thin_events(events, MIN_EVENTS, MAX_EVENTS)
    services = events.groupby("principal")["entity"].transform("nunique")
    return pa.Table.from_pandas(events[services >= SERVICES], preserve_index=False)


def thin_events(events: pd.DataFrame, least: int, most: int) -> pd.DataFrame:
    """Return at most `most` events of each entity, evenly spread, and no events of entities with fewer than `least`."""
    events = events.drop_duplicates("event_id")
    place = events.groupby("entity").cumcount()
    size = events.groupby("entity")["entity"].transform("size")
    kept = size.clip(upper=most)
    # the k-th of n is taken where k * kept / n passes a whole number
    taken = ((place + 1) * kept // size > place * kept // size) & (size >= least)
    return events[taken].reset_index(drop=True)


def replicate_events(some: pa.Table, copies: int, rows: int = ROWS_PER_CHUNK) -> Iterator[pd.DataFrame]:
    """Yield the events of `copies` organisations, oldest first, about `rows` at a time."""
    names = {name: _RenamedColumn(some[name], copies) for name in ACCOUNT_COLUMNS}
    step = max(1, rows // copies)
    for start in range(0, len(some), step):
        stretch = min(step, len(some) - start)
        row = np.repeat(np.arange(start, start + stretch), copies)
        yield _replicated_chunk(some, row, np.tile(np.arange(copies), stretch), names)


def _replicated_chunk(
    some: pa.Table, row: NDArray[np.intp], copy: NDArray[np.intp], names: dict[str, _RenamedColumn]
) -> pd.DataFrame:
    events = some.take(pa.array(row))
    number = pa.array(copy).cast(pa.large_string())
    ids = pc.binary_join_element_wise(events["event_id"].cast(pa.large_string()), number, _NO_VALUE)
    columns = {"event_id": ids} | {name: renamed.take(row, copy) for name, renamed in names.items()}
    for name, column in columns.items():
        events = events.set_column(events.column_names.index(name), name, column)
    frame: pd.DataFrame = events.to_pandas()
    return frame


class _RenamedColumn:
    """The texts of a column in every copy, made once."""

    def __init__(self, column: pa.ChunkedArray, copies: int) -> None:
        coded = column.combine_chunks().dictionary_encode()
        distinct = coded.dictionary.to_pylist()
        texts = [_with_copied_account(text, copy) for copy in range(copies) for text in distinct]
        self.texts, self.size = pa.array(texts, pa.large_string()), len(distinct)
        self.code = coded.indices

    def take(self, row: NDArray[np.intp], copy: NDArray[np.intp]) -> pa.Array:
        """Return the text (N,) of each row in its copy; a missing text stays missing."""
        code = self.code.take(pa.array(row)).cast(pa.int64())
        return self.texts.take(pc.add(code, pa.array(copy * self.size)))


def _with_copied_account(text: str, copy: int) -> str:
    """Return `111122223333:user/ann` with another account; the first copy is the original."""
    return _ACCOUNT.sub(lambda account: f"{(int(account[0]) + copy * STRIDE) % 10**12:012d}", text)
