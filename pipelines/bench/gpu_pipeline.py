"""Rows of the GPU's bench: the whole road, bytes in memory to votes and alerts, and where its time goes.

The records are those of a simulated organisation's last days, done again by others whose accounts have other numbers (as in
`bench_many`), in the order in which they came. The bank has learned the days before, of all of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from functools import cache

import pandas as pd
import pyarrow as pa

from fingerprint.adapters.files import read
from fingerprint.compute.backend import Backend
from fingerprint.core.settings import Settings
from fingerprint.detection.batch import READ
from fingerprint.pipeline import Road, Tally
from fingerprint.registry.bank import Bank
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.cloudtrail.identity import add_entities
from fingerprint.sources.flatten import flatten
from fingerprint.state.scorer_state import Ledger
from fingerprint.training import pipeline
from pipelines.bench.gpu_reading import pieces
from pipelines.bench.gpu_report import Both, Figure, Row, Side, held, wait
from pipelines.bench.organisation import events_of, organisation
from pipelines.bench.organisations import STRIDE, copied

PRINCIPALS, DAYS, LEARNED = 50, 14, 10
COPIES = 26  # organisations: about a million records
FEWER = 3  # where only the CPU is measured
AIM = 1e6  # events/s
PARTS = ("split", "flatten", "entities", "walk")
TOGETHER = 500  # lines that are done again by all before the next ones


def road(cpu: Side, device: Side, asked: argparse.Namespace) -> Iterator[Row]:
    """Events a second; beside them the seconds of each part."""
    copies = max(1, int(COPIES * asked.share)) if device.by else FEWER
    figures = Both(*(side.figure(lambda by: walked(copies, by)) for side in (cpu, device)))
    yield Row(f"bytes to votes, {copies} organisations", "events/s", figures, aim=AIM)


def walked(copies: int, by: Backend) -> Figure:
    """Once over all records, after a first look at some of them that is not counted."""
    lines, bank = _material(copies)
    _walk(lines[: len(lines) // 20], bank, by)
    with held(by) as notes:
        core = time.process_time()
        seconds, tally = _walk(lines, bank, by)
        notes["core_s"] = round(time.process_time() - core, 2)
    notes |= {f"{name}_s": round(value, 2) for name, value in seconds.items()}
    notes |= {"votes": sum(tally.votes.values()), "alerts": tally.alerts}
    return Figure(tally.events / sum(seconds.values()), notes=notes)


def _walk(lines: Sequence[bytes], bank: Bank, by: Backend) -> tuple[dict[str, float], Tally]:
    settings = Settings()
    placed = bank.on(by.place)
    going = Road(placed, Ledger.from_arrays(settings, bank.ledger, by.place), settings)
    clock = Clock(by)
    for part in pieces(lines, by.piece_bytes):
        records = split_lines(part)
        clock.tick("split")
        flat = flatten(records, by.tables)
        clock.tick("flatten")
        events = add_entities(flat.events, settings.entities)
        clock.tick("entities")
        going.walk(events)
        clock.tick("walk")
    going.finish()
    clock.tick("walk")
    return clock.seconds, going.tally


class Clock:
    """Seconds by part; a device is waited for at the end of each."""

    def __init__(self, by: Backend) -> None:
        self.by, self.seconds = by, dict.fromkeys(PARTS, 0.0)
        wait(by)
        self.at = time.perf_counter()

    def tick(self, part: str) -> None:
        wait(self.by)
        now = time.perf_counter()
        self.seconds[part] += now - self.at
        self.at = now


# --- what is walked -----------------------------------------------------------------------------------------------------


@cache
def _material(copies: int) -> tuple[list[bytes], Bank]:
    settings = Settings()
    with organisation(PRINCIPALS, DAYS) as days:
        learned = pd.concat(events_of(days[:LEARNED], settings, READ), ignore_index=True)
        lines = [line for records in read(days[LEARNED:], settings.reading) for line in records.lines]
    accounts = {str(each)[:12] for each in learned["recipient_account"].dropna().unique()}
    some = pa.Table.from_pandas(learned, preserve_index=False)
    return multiplied(lines, accounts, copies), pipeline.train(copied(some, copies), settings)


def multiplied(lines: Sequence[bytes], accounts: set[str], copies: int) -> list[bytes]:
    """The lines of so many organisations. Only the numbers of accounts differ, and with them who acted and what is a repeat."""
    out: list[bytes] = []
    for start in range(0, len(lines), TOGETHER):
        part = b"\n".join(lines[start : start + TOGETHER])
        for copy in range(copies):
            out += _in_copy(part, accounts, copy).split(b"\n")
    return out


def _in_copy(text: bytes, accounts: set[str], copy: int) -> bytes:
    for account in sorted(accounts) if copy else ():
        text = text.replace(account.encode(), b"%012d" % ((int(account) + copy * STRIDE) % 10**12))
    return text
