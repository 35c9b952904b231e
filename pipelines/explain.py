"""The program `explain`: find the principals of some events, score these again, and say why each event is an alert or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.analysis.event_explanation import ExplainedEvent, explain_events, missing_verdict_reasons
from fingerprint.analysis.threshold_what_if import apply_override
from fingerprint.core.alert import ALERT_THRESHOLD_COLUMN, threshold_column, vote_column, z_column
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME, TimeRange, format_iso
from fingerprint.detection.detectors import detector_names
from fingerprint.registry.bank import Bank, check_bank_settings
from fingerprint.registry.bank_files import open_bank
from fingerprint.registry.initial_state import initial_state
from fingerprint.web import formatting
from pipelines.cli.console import Progress
from pipelines.commands.terminal import terminal_text
from pipelines.runtime import backend
from pipelines.runtime.input_check import find_input, require_events
from pipelines.runtime.training_data import open_feedback_store

SHOWN_NAMES = 3  # missing events that an error names


def explain_sources(
    sources: list[str],
    event_ids: Sequence[str],
    folder: Path,
    settings: Settings,
    progress: Progress,
    database: str | None = None,
    span: TimeRange = ALL_TIME,
) -> list[dict[str, Any]]:
    """Return how each of some events of `sources` is judged, as `explain --json` prints it.

    A threshold override of the database applies; by default that is the database of the settings, if it exists. Raises
    FingerprintError for an unknown event.
    """
    bank = open_bank(folder, settings.bank)
    check_bank_settings(bank, settings)
    with open_feedback_store(database, settings) as (store, _):
        settings = apply_override(settings, store.thresholds.current()) if store else settings
    with backend.open_history(settings, span) as history:
        found = find_input(sources, span)
        history.add_batches(files.read_files(found.files, settings.reading), progress)
        require_events(history, found.files)
        return [_as_json(each, settings) for each in _explain(history, set(event_ids), bank, settings)]


def _explain(
    history: EventSpool, event_ids: set[str], bank: Bank, settings: Settings
) -> list[ExplainedEvent]:
    owners = _owners(history, event_ids)
    arrays, _ = initial_state(bank, history.activity_start(), settings, None)
    explained: list[ExplainedEvent] = []
    for principal in owners["principal"].unique():
        own = (events[events["principal"] == principal] for events in history.batches())
        explained += explain_events((each for each in own if len(each)), event_ids, arrays, bank, settings)
    return explained


def _owners(history: EventSpool, event_ids: set[str]) -> pd.DataFrame:
    """Return event_id and principal of each event. Raise FingerprintError if one is not in the input."""
    parts = [
        events.loc[events["event_id"].isin(event_ids), ["event_id", "principal"]]
        for events in history.batches()
    ]
    owners = pd.concat(parts)
    if missing := sorted(event_ids - set(owners["event_id"])):
        names = ", ".join(map(printable, missing[:SHOWN_NAMES]))
        more = f" and {len(missing) - SHOWN_NAMES} more" if len(missing) > SHOWN_NAMES else ""
        raise FingerprintError(
            f"there is no event {names}{more} in the input: give the id that the record has, and a --since before it"
        )
    return owners


def _as_json(explained: ExplainedEvent, settings: Settings) -> dict[str, Any]:
    names = detector_names(settings)
    reason = missing_verdict_reasons(explained.scored, names)[0]
    event = explained.scored.iloc[0]
    return {
        "event_id": str(event["event_id"]),
        "event_time": format_iso(event["event_time"].to_pydatetime()),
        "principal": str(event["principal"]),
        "service": str(event["service"]),
        "action": str(event["action"]),
        "level": str(event["level"]),
        "verdict": bool(event["verdict"]),
        "reason": reason,
        "alert_threshold": round(float(event[ALERT_THRESHOLD_COLUMN]), 2),
        "detectors": {
            name: {
                "z": None if pd.isna(event[z_column(name)]) else round(float(event[z_column(name)]), 2),
                "threshold": round(float(event[threshold_column(name)]), 2),
                "vote": bool(event[vote_column(name)]),
            }
            for name in names
        },
        "drivers": [
            {
                "feature": driver.feature,
                "seen": driver.seen,
                "expected": driver.expected,
                "rarity": driver.rarity,
                "surprise": round(driver.surprise, 1),
            }
            for driver in explained.drivers
        ],
    }


def print_explanations(explained: Sequence[dict[str, Any]]) -> None:
    """Print each event, the votes on it, and its surprising features."""
    console = Console(highlight=False, soft_wrap=True)
    for event in explained:
        outcome = "a verdict: it is part of an alert" if event["verdict"] else f"no alert: {event['reason']}"
        call = f"{event['service']}:{event['action']}"
        console.print(
            terminal_text(f"{event['event_id']} {event['event_time']} {call} by {event['principal']}")
        )
        console.print(f"  {outcome}; an alert opens from z {event['alert_threshold']:.2f} on")
        for name, judged in event["detectors"].items():
            z = "no opinion" if judged["z"] is None else f"z {judged['z']:.2f}"
            vote = "a vote" if judged["vote"] else "no vote"
            console.print(f"  {name}: {z}, {vote} (by itself from {judged['threshold']:.2f} on)")
        for driver in event["drivers"]:
            seen, usual = (
                formatting.plain_value(driver["feature"], driver[name]) for name in ("seen", "expected")
            )
            rarity = formatting.RARITY_LABELS[driver["rarity"]]
            console.print(
                terminal_text(
                    f"  {driver['feature']}: {seen}, {rarity}, surprise {driver['surprise']}; usual here: {usual}"
                )
            )
        if not event["drivers"]:
            console.print("  nothing of it surprised by itself")
