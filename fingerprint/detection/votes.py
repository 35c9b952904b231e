"""Tables of votes: one row for each z of a detector at or above the floor, on an event or on an interval.

Example:
    >>> table = event_votes(batch, np.array([7]), detector, EventJudgement(z, threshold, alone, reach))
    >>> frames.to_pandas(table)[["event_id", "detector", "z", "vote"]]
          event_id     detector    z  vote
    0  4e8bd68e...  autoencoder  4.1  True

All tables are on the host and have VOTE_COLUMNS.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.compute.arrays import to_host
from fingerprint.compute.column_table import ColumnTable
from fingerprint.compute.dictionary import DictionaryEncoded
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import LEVELS, MAX_VOTE_ACTION_LENGTH, VOTE_COLUMNS
from fingerprint.core.sanitize import truncate
from fingerprint.detection import ensemble
from fingerprint.detection.detectors import Detector, IntervalScores
from fingerprint.state.event_batch import EventBatch

_IDENTITY_COLUMNS = ["event_id", "event_time", "principal", "entity"]  # of a vote, copied from its event
_CALL_COLUMNS = ["service", "action"]  # of an event; together they are the action of its vote


class EventJudgement(NamedTuple):
    """A detector's judgement of events, (N,) each: its `z`, the `threshold` of a vote, and `alone`: no other has an opinion.

    `reach` is the highest threshold of alerts at which its z opens an alert, NaN without one.
    """

    z: NDArray[Any]
    threshold: NDArray[np.float64]
    alone: NDArray[np.bool_]
    reach: NDArray[np.float64]


@cache
def empty_votes() -> pd.DataFrame:
    """Return a table of votes without rows."""
    return pd.DataFrame({name: pd.Series(dtype=object) for name in VOTE_COLUMNS})


def event_votes(
    batch: EventBatch, places: NDArray[np.intp], detector: Detector, judged: EventJudgement
) -> Frame:
    """Return a detector's votes on the events at some places (M,) of those that it judged."""
    score, threshold, alone, reach, level = (to_host(each[places]) for each in (*judged, batch.level))
    columns = {
        "detector": np.full(len(places), detector.name, object),
        "z": score,
        "vote": ensemble.reaches_threshold(score, threshold),
        "threshold": threshold,
        "level": np.array(LEVELS, dtype=object)[level],
        "alone": alone,
        "reach": reach,
    }
    votes = frames.with_columns(_identity(batch, places, detector.bank.version), columns)
    return frames.select_columns(votes, VOTE_COLUMNS)


def _identity(batch: EventBatch, places: NDArray[np.intp], version: str) -> Frame:
    """Return identity columns and action of the events at some places, with the version of the bank that measured them.

    Events that were pending carry this version; others were measured by the bank of `version`.
    """
    had_waited = "bank_version" in batch.frame
    names = [*_IDENTITY_COLUMNS, *_CALL_COLUMNS, *(["bank_version"] if had_waited else [])]
    rows = frames.to_host(frames.select_rows(frames.select_columns(batch.frame, names), places))
    versions = {} if had_waited else {"bank_version": np.full(len(places), version, object)}
    called = frames.select_columns(rows, [name for name in names if name not in _CALL_COLUMNS])
    return frames.with_columns(called, {"action": _action_names(rows), **versions})


def _action_names(rows: Frame) -> NDArray[np.object_]:
    """Return the actions of events (M,) as `service:Action`, cut to a length; each distinct text is built once."""
    code, calls = DictionaryEncoded(rows).combined_column(_CALL_COLUMNS)
    texts = [truncate(f"{service or ''}:{action or ''}", MAX_VOTE_ACTION_LENGTH) for service, action in calls]
    return np.array(texts, object)[code]


def interval_votes(kind: str, scores: IntervalScores, name: NDArray[np.object_], detector: Detector) -> Frame:
    """Return a detector's votes on R intervals of owners with a known `name` (R,).

    The event id of a vote is made of its `kind`, owner, channel and interval.
    """
    owner, channel, interval, z = scores[:4]
    principal = np.array([text.partition("|")[0] for text in name], object)
    seconds, threshold = detector.settings.spectral.interval_seconds, detector.threshold
    ids = [f"{kind}:{who:016x}:{what:x}:{at}" for who, what, at in zip(owner, channel, interval, strict=True)]
    columns = {
        "event_id": np.array(ids, object),
        "event_time": frames.to_times((interval.astype(np.int64) + 1) * seconds),
        "principal": principal,
        "entity": name,
        "detector": np.full(len(z), detector.name, object),
        "z": z,
        "threshold": np.full(len(z), threshold),
        "vote": z >= threshold,
        "level": np.where(name == principal, np.array("principal", object), np.array("entity", object)),
        "bank_version": np.full(len(z), detector.bank.version, object),
        "alone": np.zeros(len(z), bool),
        "action": np.full(len(z), "", object),
        "reach": np.full(len(z), np.nan),
    }
    return ColumnTable.of_arrays({each: columns[each] for each in VOTE_COLUMNS}, len(z))
