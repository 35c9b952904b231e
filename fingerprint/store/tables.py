"""Conversion between rows of the store and tables of pandas: votes, counts of feeds, labels for training.

Example:
    >>> vote_table(connection.execute(query).all())[["event_time", "detector", "z", "vote"]]
    >>> connection.execute(sql.insert(votes), vote_rows(step.votes))

Repositories import this module only in methods with tables. The other methods work without pandas, whose import takes longer than
listing the queue; the queue, its pages and `fingerprint alerts` need only those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from fingerprint.core.alert import Disposition, Vote
from fingerprint.core.ports.store import VoteTable
from fingerprint.core.sanitize import index_key, storable
from fingerprint.store.schema import VOTE_COLUMNS, Row

_BOOLEAN_COLUMNS, _NUMBER_COLUMNS = ("vote", "alone"), ("z", "threshold", "reach")
_FLAGGED_COLUMNS = ["event_id", "event_time", "entity", "label"]


def vote_table(rows: Sequence[Any]) -> pd.DataFrame:
    """Return votes, rows of VOTE_COLUMNS, as a table; `event_time` is UTC."""
    frame = pd.DataFrame(rows, columns=list(VOTE_COLUMNS))
    return frame.assign(event_time=_to_utc(frame["event_time"]), reach=frame["reach"].astype(float))


def feed_count_table(rows: Sequence[Any]) -> pd.DataFrame:
    """Return counts of feeds with the columns kind, feed, at and events."""
    return pd.DataFrame(rows, columns=["kind", "feed", "at", "events"]).astype({"at": int, "events": int})


def flagged_event_table(rows: Sequence[Any]) -> pd.DataFrame:
    """Return flagged events with the columns event_id, event_time, entity and label."""
    return pd.DataFrame(rows, columns=_FLAGGED_COLUMNS)


def decided_entity_table(rows: Sequence[Any], decided: Mapping[str, Disposition]) -> pd.DataFrame:
    """Return the entities of decided alerts, rows of (alert, principal, entity, event_time), with their decisions."""
    table = pd.DataFrame(rows, columns=["alert", "principal", "entity", "event_time"], dtype=object)
    of_rows = [decided[alert_id] for alert_id in table["alert"]]
    originals, decisions = [each.alert_id for each in of_rows], [each.decision for each in of_rows]
    return table.assign(alert=originals, event_time=_to_utc(table["event_time"]), decision=decisions)


def _to_utc(times: pd.Series) -> pd.Series:
    return pd.to_datetime(times, utc=True).astype("datetime64[us, UTC]")


def vote_rows(table: VoteTable) -> list[Row]:
    """Return a row for each vote with an opinion; if event and detector repeat, the last vote counts."""
    frame = table if isinstance(table, pd.DataFrame) else _to_frame(table)
    frame = frame.loc[frame["z"].notna(), list(VOTE_COLUMNS)]
    frame = frame.drop_duplicates(["event_id", "detector"], keep="last")
    columns = [_column_values(frame[name]) for name in VOTE_COLUMNS]
    return [dict(zip(VOTE_COLUMNS, values, strict=True)) for values in zip(*columns, strict=True)]


def _to_frame(table: Sequence[Vote]) -> pd.DataFrame:
    """Return votes as a table of object columns, because pandas' own strings cannot have lone surrogates."""
    columns = {name: [getattr(vote, name) for vote in table] for name in VOTE_COLUMNS}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def _column_values(values: pd.Series) -> list[Any]:
    """Return a column as Python values: each distinct text is cleaned once, a missing value is None."""
    if values.name == "event_time":
        return list(pd.to_datetime(values, utc=True).array.to_pydatetime())
    if values.name in _BOOLEAN_COLUMNS:
        return values.astype(bool).to_list()
    if values.name in _NUMBER_COLUMNS:
        return values.astype(float).to_list()
    codes, distinct = pd.factorize(values)
    clean = index_key if values.name == "event_id" else storable
    cleaned = [clean(str(value)) for value in distinct] + [None]
    return [cleaned[code] for code in codes]
