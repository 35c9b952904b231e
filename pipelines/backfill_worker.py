"""A part of a backfill, wherever it is walked: the events of some principals, by the whole's clock, what is said in files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from fingerprint.adapters.result_spool import SaidFiles
from fingerprint.compute import hashing
from fingerprint.compute.backend import Backend
from fingerprint.core import settings
from fingerprint.core.settings import Settings
from fingerprint.partitioned_replay import walk
from fingerprint.pipeline import Road
from fingerprint.registry import bank as banks
from fingerprint.registry import state_files
from fingerprint.registry.bank import Bank
from fingerprint.state import partitioning
from fingerprint.state.partitioning import Arrays, Mask
from fingerprint.state.scorer_state import Ledger
from fingerprint.training.dataset import Pieces, once, seen
from pipelines.runtime import backend as backends
from pipelines.runtime import wiring
from pipelines.score import BANK, LEDGER, figures


@dataclass(frozen=True)
class Plan:
    """What a worker has to know: where things lie (by the same names for all), and what is asked for.

    place/
      read.json          what was read, and the whole's clock
      history/           events by part (`pieces`)
      start/003/         the ledger that a part starts from, where a run before left one
      said/003/          what was said of a part, its ledger at the end and its figures: whole, or not there
    """

    place: Path
    bank: Path
    version: str
    settings: Settings
    every_event: bool
    keeps_ledger: bool
    parts: int = 1
    started_from: str = BANK

    @property
    def read(self) -> Path:
        return self.place / "read.json"

    @property
    def history(self) -> Pieces:
        return Pieces(self.place / "history", self.parts)

    def said(self, part: int) -> Path:
        return self.place / "said" / f"{part:03}"

    def start(self, part: int) -> Path:
        return self.place / "start" / f"{part:03}"

    def homes(self, part: int) -> Mask:
        """Which homes (65536,) are a part's."""
        virtual = np.arange(hashing.VIRTUAL_PARTITIONS, dtype=np.uint64)
        return hashing.of_partitions(self.history.of(virtual << np.uint64(56)) == part)


def walk_part(plan: Plan, part: int) -> dict[str, Any]:
    """Walk a part, unless that was done before; its figures. Two who do it at once do not disturb each other."""
    seen(plan.place)
    said = once(plan.said(part), partial(_walk, plan, part))
    known: dict[str, Any] = json.loads((said / "figures.json").read_text())
    return known


def _walk(plan: Plan, part: int, folder: Path) -> None:
    backend = backends.chosen(plan.settings)  # of this worker, which may have a device of its own
    bank = _bank(plan.bank, plan.settings.bank, plan.version).on(backend.place)
    ledger, most = _ledger(plan, bank, part, backend), plan.settings.reading.batch_records
    late, watermarks = ledger.late, json.loads(plan.read.read_text())["watermarks"]
    with (
        wiring.losses(plan.settings.triton, bank) as losses,
        SaidFiles(folder, plan.settings, plan.every_event) as files,
    ):
        road = Road(bank, ledger, plan.settings, plan.every_event, losses=losses)
        for said in walk(road, plan.history.chunks(part, most), watermarks, most, backend.tables):
            files.write(said)
    if plan.keeps_ledger:
        state_files.save(ledger, folder)
    own = figures(road) | {"late": ledger.late - late, "ahead": 0}  # the rest is the whole's
    (folder / "figures.json").write_text(json.dumps(own))


@cache
def _bank(folder: Path, options: settings.Bank, version: str) -> Bank:
    """Verified once in a process, and mapped."""
    return banks.open_bank(folder, options, version)


def _ledger(plan: Plan, bank: Bank, part: int, backend: Backend) -> Ledger:
    if plan.started_from == BANK:
        own = partitioning.pick(bank.ledger, plan.homes(part))
        return Ledger.from_arrays(plan.settings, own, backend.place)
    if plan.started_from == LEDGER and (kept := state_files.restore(plan.start(part), plan.settings)):
        return Ledger.from_arrays(plan.settings, kept.as_arrays(), backend.place)
    return Ledger(plan.settings, place=backend.place)


def leave_starts(plan: Plan, whole: Arrays) -> None:
    """Cut the ledger that a run before left."""
    for part in range(plan.parts):
        own = partitioning.pick(whole, plan.homes(part))
        state_files.save(Ledger.from_arrays(plan.settings, own), plan.start(part))


def ledger_of_all(plan: Plan, late: int, clock: Sequence[int]) -> Ledger:
    """The parts' ledgers at the end, put together; `clock` is that of the whole (`Steps`)."""
    whole = Ledger(plan.settings)
    for part in range(plan.parts):
        arrays = state_files.arrays(plan.said(part))
        if part == 0:
            whole = Ledger.from_arrays(plan.settings, arrays)
        else:
            whole.merge(arrays)
    whole.late = late
    whole.clock.restore(np.array(clock, np.int64))
    return whole
