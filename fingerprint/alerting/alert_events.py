"""The rows of each alert in a scored batch, and the same rows as the events that an analyst reads.

Example:
    >>> for alert_id, rows, events in alert_after_alert(batch, frame, frame["alert_id"]):
    ...     print(alert_id, len(rows.frame), events[0].action_name)
    51bbfecd0af4 330 iam:CreateAccessKey
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import AlertEvent, threshold_column, vote_column, z_column
from fingerprint.sources.active import SOURCE
from fingerprint.state.event_batch import EventBatch, Verdicts

EVENT_TEXTS = ("region", "source_address", "user_agent", "error_code", "session", "access_key", "resource")


def alert_after_alert(
    batch: EventBatch, frame: Frame, alert_id: pd.Series
) -> Iterator[tuple[str, Verdicts, tuple[AlertEvent, ...]]]:
    """Yield the id of each alert, its rows (oldest first) and the same rows as events.

    `alert_id` (N,) is missing for rows that belong to no alert.
    """
    alert, names = pd.factorize(alert_id)
    order = _sort_by_time(frame, np.flatnonzero(alert >= 0))
    order = order[np.argsort(alert[order], kind="stable")]
    together = Verdicts(batch, frame).take(order)
    events = tuple(_alert_events(*together))
    end = 0
    for name, size in zip(
        map(str, names), np.bincount(alert[order], minlength=len(names)).tolist(), strict=True
    ):
        rows = slice(end, end := end + size)
        yield name, together.between(rows), events[rows]


def _sort_by_time(frame: Frame, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return rows sorted by time, ties by event id, so that the order of arrival does not change an alert."""
    ids, times = (frame[name].take(rows) for name in ("event_id", "event_time"))
    return rows[np.lexsort((ids.to_numpy(object), times.to_numpy()))]


def _alert_events(batch: EventBatch, frame: Frame) -> Iterator[AlertEvent]:
    """Yield each row of the frame as an event that the analyst reads; `batch` says which detectors judged them."""
    ids, entities, services, actions, versions = (
        [*map(str, frames.column_of(frame, name).tolist())]
        for name in ("event_id", "entity", "service", "action", "bank_version")
    )
    texts = {name: texts_of(frame, name) for name in EVENT_TEXTS}
    texts["resource"] = [*map(SOURCE.typed_resource, services, actions, texts["resource"])]
    times = frame["event_time"].dt.to_pydatetime().tolist()
    records = (
        map(_record_text, frames.column_of(frame, "raw").tolist()) if "raw" in frame else [""] * len(frame)
    )
    names = sorted(batch.evidence)  # an order that no checkpoint changes
    scores = _figures(frame, {name: z_column(name) for name in names})
    thresholds = _figures(frame, {name: threshold_column(name) for name in names})
    flagged_by = _flagged_by(frame, names)
    for row, record in enumerate(records):
        yield AlertEvent(
            event_id=ids[row],
            event_time=times[row],
            entity=entities[row],
            service=services[row],
            action=actions[row],
            scores=scores[row],
            flagged_by=flagged_by[row],
            thresholds={name: least for name, least in thresholds[row].items() if least is not None},
            raw=record,
            bank_version=versions[row],
            **{name: column[row] for name, column in texts.items()},
        )


def _figures(frame: Frame, columns: Mapping[str, str]) -> list[dict[str, float | None]]:
    """Return for each event (N,) one figure per detector, None where it is NaN or the column is missing.

    `columns` maps each detector to its column in the frame.
    """
    figures = np.full((len(frame), len(columns)), np.nan)
    for place, name in enumerate(columns.values()):
        if name in frame:
            figures[:, place] = frames.column_of(frame, name)
    figures = figures.round(3)
    return [
        {name: None if math.isnan(figure) else figure for name, figure in zip(columns, row, strict=True)}
        for row in figures.tolist()
    ]


def _flagged_by(frame: Frame, detectors: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the detectors that voted for each event (N,); a detector without a vote column has voted for none."""
    votes = np.zeros((len(frame), len(detectors)), bool)
    for place, name in enumerate(map(vote_column, detectors)):
        if name in frame:
            votes[:, place] = frames.true_mask(frames.column_of(frame, name))
    return [tuple(compress(detectors, row)) for row in votes.tolist()]


def _record_text(raw: object) -> str:
    """Return a record as text: the CPU path carries it as bytes, the GPU path as text."""
    if isinstance(raw, bytes):
        return raw.decode(errors="replace")
    return raw if isinstance(raw, str) else ""


def texts_of(frame: Frame, name: str) -> list[str]:
    """Return the texts of a column (N,), empty where a value is missing."""
    return [frames.text_or_empty(value) for value in frames.column_of(frame, name).tolist()]


def alert_principal(frame: Frame) -> str:
    """Return the principal of an alert's events."""
    return str(frames.column_of(frame, "principal")[0])
