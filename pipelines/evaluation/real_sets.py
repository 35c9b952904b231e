"""Real sets: folders of real records, of the project or of the user, read and evaluated like any folder.

Example:
    >>> [folder.name for folder in real_sets([samples.data_folder("real")]) if has_attacks(folder)]
    ['invictus_stratus']
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fingerprint.compute import frames
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.evaluation.labels import attack_labels, read_labels
from fingerprint.evaluation.metrics import Figures
from fingerprint.evaluation.statistics import pool_figures
from pipelines.cli.console import Progress
from pipelines.evaluation.backtest import read_history
from pipelines.evaluation.evaluate import EvaluationOptions, OrganisationEvaluation, OrganisationResult

OPTIONS = EvaluationOptions(peers=True, third=False, terms=False)


def real_sets(folders: Sequence[Path]) -> list[Path]:
    """Return the real sets in some folders: folders with a file of records of their own name; the first of a name counts."""
    found = [
        each
        for folder in folders
        for each in sorted(folder.iterdir())
        if (each / f"{each.name}.jsonl.gz").is_file()
    ]
    return list({each.name: each for each in reversed(found)}.values())[::-1]


def has_attacks(folder: Path) -> bool:
    """Return whether labels beside the records name events of attacks."""
    try:
        return len(attack_labels(read_labels([str(folder)]))) > 0
    except FingerprintError:
        return False


def read_events(folder: Path, settings: Settings) -> pd.DataFrame:
    """Return the events of a set in the order of time, with columns event_id, principal, kind, seconds and raw (the record)."""
    with read_history([str(folder)], settings) as history:
        parts = [
            events[["event_id", "principal", "kind", "raw"]].assign(
                seconds=frames.epoch_seconds(events["event_time"])
            )
            for events in history.batches()
        ]
    if not parts:
        raise FingerprintError(f"no event in {folder}: there is nothing to evaluate")
    events = pd.concat(parts, ignore_index=True).drop_duplicates(["event_id", "principal"])
    return events.sort_values("seconds", kind="stable", ignore_index=True)


def evaluate_records(
    records: Iterable[str | bytes],
    labels: Sequence[Mapping[str, Any]],
    settings: Settings,
    progress: Progress,
) -> OrganisationResult:
    """Evaluate records and labels like a labelled folder."""
    with tempfile.TemporaryDirectory(prefix="fingerprint-") as temporary:
        folder = Path(temporary)
        lines = b"\n".join(each if isinstance(each, bytes) else each.encode() for each in records)
        (folder / "records.jsonl.gz").write_bytes(gzip.compress(lines + b"\n", 1))
        (folder / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels))
        return evaluate_folder(folder, settings, progress)


def evaluate_folder(folder: Path, settings: Settings, progress: Progress) -> OrganisationResult:
    """Evaluate our detectors and their peers on a folder of records and labels."""
    return OrganisationEvaluation([str(folder)], settings, progress, OPTIONS).run()


def pool_methods(results: Sequence[OrganisationResult]) -> dict[str, Figures]:
    """Return by method how many sessions it finds in all draws, at its threshold and at alert budgets per 100 principals."""
    out = {}
    for same in zip(*(result.methods for result in results), strict=True):
        names = ("sessions", "found", "found_per_100")
        counts = [
            {**{name: method[name] for name in names}, "alerts": method["per_session"]["reported"]}
            for method in same
        ]
        pooled = pool_figures(counts)
        there = max(pooled["sessions"], 1)
        shares = {budget: round(found / there, 4) for budget, found in pooled["found_per_100"].items()}
        out[same[0]["name"]] = {"role": same[0]["role"], **pooled, "recall_per_100": shares}
    return out
