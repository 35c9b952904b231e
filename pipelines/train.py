"""Records -> bank: read a history, learn everybody's habits, publish what passes the gate."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fingerprint.adapters import files, work_directory
from fingerprint.core import private_files
from fingerprint.core.alert import LEVELS
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import EVER, Span
from fingerprint.registry.bank import open_bank, renamed
from fingerprint.sources import arrival
from fingerprint.training import feedback, pipeline
from fingerprint.training.nn.trainer import Start
from pipelines import training_data
from pipelines.cli.console import Progress, reasons
from pipelines.runtime import backend, promotion, wiring
from pipelines.training_data import NOBODY, Wanted

FORMAT = 3  # of what lies in the work folder
HISTORY, JUDGED = "history", "judged.parquet"


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
    wanted, start = Wanted(sources, topic, span, desk), _start(settings)
    private_files.make_folder(folder)  # before the long part, not after it
    promotion.signer(settings.bank)
    backend.chosen(settings)
    place = work_directory.of(settings.workers, folder)
    with (
        work_directory.entered(place, "train", _about(wanted, settings)) as work,
        wiring.workers(settings.workers) as workers,
    ):
        read = _read(wanted, settings, work, progress)
        learned = pipeline.learn(work / HISTORY, settings.for_workers(), progress, workers, start=start)
        learned = feedback.applied(learned, pd.read_parquet(work / JUDGED), settings.training)
        left = {name: read[name] for name in ("outside", "future_dated", "ahead", "left_out", "came_back")}
        learned = renamed(learned, **left)
        word = promotion.offer(learned, folder, settings, training_data.confirmed(wanted.desk, settings))
    return {
        "bank": str(folder),
        "version": learned.version,
        "served": word.passed,
        "refusal": None if word.passed else promotion.refusal(learned.version, word),
        "gate": word.figures,
        **read,
        "events": learned.manifest["events"],
        "duplicates": learned.manifest["repeats"],
        "span": learned.manifest["span"],
        "ready": learned.manifest["ready"],
        "shifted": learned.manifest.get("shifted", {}),
        "waiting": dict(waiting(learned.fingerprints, settings)),
    }


def _start(settings: Settings) -> Start | None:
    """The generic net of the bank that the setting names."""
    pretrained = settings.autoencoder.start
    return Start.of_bank(open_bank(Path(pretrained), settings.bank)) if pretrained else None


def _about(wanted: Wanted, settings: Settings) -> dict[str, Any]:
    """All that shapes a training: begun again with the same, it goes on where it was broken off."""
    found = files.within(wanted.sources, wanted.span).files
    return {
        "format": FORMAT,
        "files": [(file.path, file.size) for file in found],
        "topic": wanted.topic,
        "span": str(wanted.span),
        "desk": wanted.desk,
        "settings": settings.model_dump(mode="json"),
    }


def _read(wanted: Wanted, settings: Settings, work: Path, progress: Progress) -> dict[str, Any]:
    """Read what is wanted and lay it out in pieces, unless that was done before; its figures."""
    done = work / "read.json"
    if not done.exists():
        began = arrival.wall_clock() // 1000  # what arrives from now on may not be read any more
        with backend.history(settings, wanted.span) as history:
            fetched = training_data.gather(wanted, history, settings, progress)
            flagged, asked = training_data.flagged(wanted, history, settings)
            training_data.judged(wanted, history, settings).to_parquet(work / JUDGED)
            chunks = flagged.through(history.chunks())
            newest = history.last_time()
            end = int(newest.timestamp()) if newest else None
            pipeline.split(chunks, settings, work / HISTORY, history.events, progress, began, end)
        figures = {
            "records": history.records,
            "rejects": history.rejected,
            "skipped": history.skipped,
            "outside": history.outside,
            "future_dated": history.future,
            "ahead": history.ahead,
            **fetched,
            "desk": asked,
            "left_out": flagged.left_out(),
            "came_back": flagged.came_back(),
            "reasons": reasons(history),
        }
        done.write_text(json.dumps(figures))
    known: dict[str, Any] = json.loads(done.read_text())
    return known


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
