"""Records -> bank: read a history, learn everybody's habits, publish what passes the gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fingerprint import training
from fingerprint.domain import LEVELS
from fingerprint.edges import network_table
from fingerprint.edges.history import History
from fingerprint.settings import Settings
from fingerprint.spans import EVER, Span
from pipelines import gathering, publishing
from pipelines.gathering import NOBODY, Wanted
from pipelines.show import Progress, reasons


def train(
    sources: Sequence[str],
    folder: Path,
    settings: Settings,
    progress: Progress,
    *,
    topic: str | None = None,
    span: Span = EVER,
    desk: str | None = NOBODY,
) -> dict[str, Any]:
    """Train on `sources` and `topic` within `span`, without what `desk` says to leave out (see `gathering.Wanted`); offer the
    bank to the gate of `folder`, and say what became ready: the figures of `train --json`."""
    wanted = Wanted(sources, topic, span, desk)
    with History(settings, network_table.load(settings.reading.networks), span) as history:
        fetched = gathering.gather(wanted, history, settings, progress)
        folder.mkdir(parents=True, exist_ok=True)  # before the long part, not after it
        flagged, asked = gathering.flagged(wanted, history, settings)
        learned = training.train(flagged.through(history.chunks()), settings, progress)
        without = {"left_out": flagged.left_out(), "came_back": flagged.came_back()}
        learned = replace(learned, manifest={**learned.manifest, "outside": history.outside, **without})
        word = publishing.offer(learned, folder, settings)
    return {
        "bank": str(folder),
        "version": learned.version,
        "served": word.passed,
        "refusal": None if word.passed else publishing.refusal(learned.version, word),
        "gate": word.figures,
        "records": history.records,
        "events": learned.manifest["events"],
        "rejects": history.rejected,
        "duplicates": learned.manifest["repeats"],
        "skipped": history.skipped,
        "outside": history.outside,
        **fetched,
        "desk": asked,
        **without,
        "reasons": reasons(history),
        "span": learned.manifest["span"],
        "ready": learned.manifest["ready"],
        "waiting": dict(waiting(learned.fingerprints, settings)),
    }


def waiting(fingerprints: pd.DataFrame, settings: Settings) -> Iterator[tuple[str, Any]]:
    """How many entities are not ready, what they fall back to, and when they will be, at the pace they had."""
    entities = fingerprints[(fingerprints["level"] == 0) & ~fingerprints["ready"]]
    yield "entities", len(entities)
    at = entities["parent"].to_numpy()
    ready, parents = fingerprints["ready"].to_numpy(), fingerprints["parent"].to_numpy()
    for _ in LEVELS:
        at = np.where(ready[at], at, parents[at])
    level = fingerprints["level"].to_numpy()[at]
    yield "fall_back_to", {LEVELS[number]: int((level == number).sum()) for number in (1, 2, 3)}
    yield "ready_in_days", _pace(entities, settings)


def _pace(entities: pd.DataFrame, settings: Settings) -> dict[str, int]:
    options = settings.entities
    seen = (entities["last"] - entities["first"] + 1) * settings.spectral.interval_seconds / 86400
    span = seen.clip(lower=1)
    days = pd.concat(
        [
            (options.ready_events - entities["events"]) / (entities["events"] / span),
            (options.ready_days - entities["days"]) / (entities["days"] / span),
        ],
        axis=1,
    ).max(axis=1)
    bins = pd.cut(
        days, [float("-inf"), 1, 7, 30, float("inf")], labels=["a day", "a week", "a month", "later"]
    )
    return {str(name): int(count) for name, count in bins.value_counts(sort=False).items()}
