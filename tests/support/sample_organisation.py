"""A small organisation walked down the whole pipeline, for tests: records, a bank that learned them, a run of the scorer."""

from __future__ import annotations

import fcntl
import gzip
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fingerprint.core.alert import Alert
from fingerprint.core.settings import Alerts, Autoencoder, Settings
from fingerprint.core.time_range import ALL_TIME, TimeRange
from fingerprint.store import SqlStore, open_store
from pipelines.cli.console import no_progress
from pipelines.score import score_sources
from pipelines.simulate import simulate_organisation
from pipelines.train import train_bank

LEARNED, DAYS = 9, 12  # days; the attacks come in the last quarter
SETTINGS = Settings(autoencoder=Autoencoder(max_epochs=1, threshold=1.4), alerts=Alerts(threshold=2.6))


@dataclass(frozen=True)
class SampleOrganisation:
    """Files of records by day, oldest first, and the bank that learned the first LEARNED of them."""

    folder: Path
    days: list[str]
    bank: Path
    trained: dict[str, Any]

    @property
    def learned(self) -> list[str]:
        return self.days[:LEARNED]

    @property
    def new(self) -> list[str]:
        return self.days[LEARNED:]


@dataclass(frozen=True)
class Run:
    """What one run of `fingerprint score` left behind: its figures, its --out and its alert store."""

    figures: dict[str, Any]
    out: Path
    store: SqlStore

    @property
    def events(self) -> pd.DataFrame:
        if self.out.suffix == ".parquet":
            return pd.read_parquet(self.out)
        return pd.DataFrame([json.loads(line) for line in self.out.open()])

    @property
    def alerts(self) -> list[Alert]:
        return self.store.alerts.by_urgency()


def build(folder: Path, principals: int = 12, scale: float = 0.4, seed: int = 3) -> SampleOrganisation:
    """Simulate, train: a few seconds."""
    days = simulated(folder / "records", 3, principals, scale, seed)
    trained = train_bank(days[:LEARNED], folder / "bank", SETTINGS, no_progress)
    return SampleOrganisation(folder / "records", days, folder / "bank", trained)


def build_once(shared: Path, own: Path) -> SampleOrganisation:
    """Build in a folder that several processes share, where only the first of them builds; return a copy in `own`."""
    shared.mkdir(exist_ok=True)
    trained = shared / "trained.json"  # written last
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not trained.exists():
            shutil.rmtree(shared / "organisation", ignore_errors=True)
            trained.write_text(json.dumps(build(shared / "organisation").trained))
    shutil.copytree(shared / "organisation", own)
    figures = json.loads(trained.read_text()) | {"bank": str(own / "bank")}
    return SampleOrganisation(own / "records", _days(own / "records"), own / "bank", figures)


def simulated(
    folder: Path, attacks: int, principals: int = 12, scale: float = 0.4, seed: int = 3
) -> list[str]:
    """An organisation's files by day, oldest first; with more attacks it does the same besides."""
    simulate_organisation(principals, DAYS, seed, folder, attacks, scale=scale)
    return _days(folder)


def _days(folder: Path) -> list[str]:
    return [str(file) for file in sorted(folder.glob("*.jsonl.gz"))]


def run(
    sources: Iterable[str | Path],
    bank: Path,
    folder: Path,
    settings: Settings = SETTINGS,
    scorer_state: Path | None = None,
    name: str = "events.parquet",
    span: TimeRange = ALL_TIME,
) -> Run:
    """Score into `folder`: --out `name`, --database alerts.sqlite."""
    folder.mkdir(parents=True, exist_ok=True)
    url = f"sqlite:///{folder}/alerts.sqlite"
    figures = score_sources(
        [str(source) for source in sources],
        bank,
        settings,
        no_progress,
        database_url=url,
        out=folder / name,
        state_folder=scorer_state,
        span=span,
    )
    return Run(figures, folder / name, open_store(url))


def lines_of(files: Iterable[str | Path]) -> list[bytes]:
    """The records of files, one a line, in the order of delivery."""
    return [line for file in files for line in gzip.decompress(Path(file).read_bytes()).splitlines()]


def write(file: Path, records: Iterable[bytes | dict[str, Any]]) -> Path:
    """Records as JSON lines."""
    lines = (record if isinstance(record, bytes) else json.dumps(record).encode() for record in records)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"\n".join(lines) + b"\n")
    return file
