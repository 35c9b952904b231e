"""A backfill in parts, here or as a program that can be killed: neither it nor its workers import what tests are made with.

python -m tests.support.divided_backfill BANK FOLDER SOURCE...
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fingerprint.core.settings import Settings, Workers
from fingerprint.core.time_range import ALL_TIME, TimeRange
from fingerprint.store import open_store
from pipelines.backfill import backfill
from pipelines.cli.console import no_progress
from tests.support import sample_organisation


def settings_with(base: Settings, folder: Path, where: str = "local", parts: int = 3) -> Settings:
    workers = Workers(scheduler=where, work_directory=str(folder / "work"), processes=2, backfill_parts=parts)
    return base.model_copy(update={"workers": workers})


def walked(
    organisation: sample_organisation.SampleOrganisation,
    folder: Path,
    where: str = "local",
    parts: int = 3,
    base: Settings = sample_organisation.SETTINGS,
    scorer_state: Path | None = None,
    sources: list[str] | None = None,
    span: TimeRange = ALL_TIME,
) -> sample_organisation.Run:
    folder.mkdir(parents=True, exist_ok=True)
    url, out = f"sqlite:///{folder}/alerts.sqlite", folder / "events.parquet"
    figures = backfill(
        sources or organisation.new,
        organisation.bank,
        settings_with(base, folder, where, parts),
        no_progress,
        database_url=url,
        out=out,
        state_folder=scorer_state,
        span=span,
    )
    return sample_organisation.Run(figures, out, open_store(url))


def begun(organisation: sample_organisation.SampleOrganisation, folder: Path) -> subprocess.Popen[bytes]:
    """A backfill in a process of its own, in eight parts, with two workers."""
    command = [sys.executable, "-m", __name__, organisation.bank, folder, *organisation.new]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, env=environment)  # noqa: S603 - this very interpreter


def main(bank: str, folder: str, *sources: str) -> None:
    organisation = sample_organisation.SampleOrganisation(Path(), list(sources), Path(bank), {})
    walked(organisation, Path(folder), "dask", parts=8, sources=list(sources))


if __name__ == "__main__":
    main(*sys.argv[1:])
