"""The desk door: alerts, their evidence and single votes in SQLite, or in PostgreSQL by its URL.

Example:
    >>> desk = open_desk("sqlite:///fingerprint.sqlite")
    >>> desk.save([alert], votes)                               # saved again, nothing changes
    >>> [(alert.urgency, alert.title) for alert in desk.alerts(limit=3)]

One save is one transaction. All values are bound as parameters; NULs and lone surrogates in them become
U+FFFD.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import sqlalchemy as sql

from fingerprint.core.alert import Alert, Decision, Disposition, FingerprintError, Hop, Notice, Vote
from fingerprint.core.ports import Partition, Votes
from fingerprint.core.redaction import Redaction
from fingerprint.core.sanitize import storable
from fingerprint.store import (
    cases,
    change_feed,
    credential_chains,
    feeds,
    filter_values,
    id_prefix,
    prevalence,
    session,
    suppressions,
    training_labels,
)
from fingerprint.store import dispositions as desk_triage
from fingerprint.store import database as desk_engine
from fingerprint.store import schema as tables
from fingerprint.store.program_queries import Consulted
from fingerprint.store.queue import Queued
from fingerprint.store.schema import Row
from fingerprint.store.suppression_store import Guarded

CHUNK = 10_000  # rows of one executemany
IDS = 500  # ids of one IN (...)
SHOWN = ("event_count", "urgency", "title", "human", "level", "tactics", "last_event_time", "degraded")
NO_REDACTION = Redaction()
_VOTE = tuple(column.name for column in tables.votes.columns if column.name != tables.STORED)


def open_desk(
    url: str, create: bool = True, redact: Sequence[str] = (), now: session.Now = session.utc_now
) -> SqlDesk:
    """The desk at an SQLAlchemy URL; its tables are made where there are none, unless `create` is false.

    `redact`: fields of raw records that are not kept (`redaction`). `now`: the clock by which people change things. Raises
    FingerprintError for a URL, folder, file, server or schema version that cannot be a desk.
    """
    place = desk_engine.place_of(url)
    if not create and desk_engine.is_file(place) and not Path(str(place.database)).is_file():
        raise FingerprintError(f"there is no desk at {place.database} yet: `fingerprint score` makes one")
    with desk_engine.plainly(place):
        engine = desk_engine.engine_of(place)
        desk_engine.prepare(engine, create)
    return SqlDesk(engine, Redaction(redact), now)


def name_of(url: str) -> str:
    """A desk's URL as it may be shown: without its password."""
    return str(desk_engine.place_of(url))


def is_there(url: str) -> bool:
    """Whether there is a desk at an SQLAlchemy URL; False before anything was scored. FingerprintError for a file that is no
    database, and for a server that does not answer."""
    place = desk_engine.place_of(url)
    if desk_engine.is_file(place) and not Path(str(place.database)).is_file():
        return False
    with desk_engine.plainly(place):
        engine = desk_engine.engine_of(place)
        try:
            return not tables.FIRST.isdisjoint(sql.inspect(engine).get_table_names())
        finally:
            engine.dispose()


class SqlDesk(Queued, Guarded, Consulted):
    """A Desk (see `ports`) and what people work on (`ports_queue`) over SQLAlchemy.

    When an alert's evidence grows, what was derived from it is the newest save's; if that save has fewer events than the
    evidence, first and last time cover both saves and urgency never falls, and degraded stays.
    """

    def __init__(
        self, engine: sql.Engine, redaction: Redaction = NO_REDACTION, now: session.Now = session.utc_now
    ) -> None:
        super().__init__(engine, now)
        self._redaction = redaction

    def save(self, alerts: Sequence[Alert] = (), votes: Votes = (), hops: Sequence[Hop] = ()) -> None:
        """All of it or none. Votes without an opinion (z is NaN) are left out; a repeat overwrites
        itself."""
        rows = [tables.row_of(alert) for alert in alerts]
        now = {tables.STORED: self._now()}
        events = [row | now for alert in alerts for row in tables.rows_of_events(alert, self._redaction)]
        single = [row | now for row in _vote_rows(votes)]

        def put(connection: sql.Connection) -> None:
            known = _known(connection, [row["alert_id"] for row in rows])
            _upsert(connection, tables.alert_events, events, keep_if_empty=("raw",))
            new = _with_evidence(connection, rows, events, known)
            _upsert(connection, tables.alerts, new)
            filter_values.put(connection, new, events)
            _upsert(connection, tables.votes, single)
            credential_chains.remember(connection, hops, now[tables.STORED])
            ids = [row["alert_id"] for row in new]
            suppressions.look(connection, ids, self._now())
            shared = prevalence.put(connection, ids)
            news = [row["alert_id"] for row in new if _is_news(row, known)]
            change_feed.mark(connection, [*news, *shared])

        self._write(put)

    def alerts(self, limit: int | None = None, raw: bool = True) -> list[Alert]:
        """The most urgent first; then the oldest, then by id."""
        with self._transaction() as connection:
            return _read(connection, sql.select(tables.alerts).order_by(*tables.ORDER).limit(limit), raw)

    def alert(self, id_or_prefix: str) -> Alert:
        """One alert, by its id or its first characters. FingerprintError if there is not exactly one."""
        with self._transaction() as connection:
            own = tables.alerts.c.alert_id == id_prefix.one_id(connection, id_or_prefix)
            return _read(connection, sql.select(tables.alerts).where(own))[0]

    def votes(
        self,
        principal: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> pd.DataFrame:
        """Single votes (V rows), the oldest first, with the fields of Vote as columns. `limit` keeps the oldest, or the
        `newest`."""
        votes = tables.votes
        order = (votes.c.event_time, votes.c.event_id, votes.c.detector)
        chosen = sql.select(*(votes.c[name] for name in _VOTE))
        query = chosen.order_by(*(each.desc() if newest else each for each in order)).limit(limit)
        query = query if principal is None else query.where(votes.c.principal == storable(principal))
        query = query if since is None else query.where(votes.c.event_time >= since)
        with self._transaction() as connection:
            rows = connection.execute(query).all()
        frame = pd.DataFrame(rows[::-1] if newest else rows, columns=list(_VOTE))
        return frame.assign(
            event_time=pd.to_datetime(frame["event_time"], utc=True).astype("datetime64[us, UTC]")
        )

    def triage(self, said: Disposition) -> None:
        """An analyst's disposition of an alert, by its id or its first characters; the same again changes nothing.
        FingerprintError where there is no such alert, or what it is said to be a duplicate of is not there, or itself."""
        self._write(lambda connection: cases.judge(connection, _whole(connection, said)), desk_engine.ROWS)

    def dispositions(self, alert_id: str | None = None) -> list[Disposition]:
        """All that were given, or those of one alert, the oldest first: of each alert the last one counts."""
        with self._transaction() as connection:
            return desk_triage.dispositions(connection, alert_id)

    def standing(self) -> dict[str, Decision]:
        """What is decided of each alert now, by id; open ones are not in there (`triage.standing`)."""
        with self._transaction() as connection:
            return desk_triage.standing(connection)

    def flagged(self, since: datetime, until: datetime) -> Iterator[pd.DataFrame]:
        """Tables of events in alerts and of events with a vote: event_id, event_time, entity and the word that
        `leaving.Flagged` knows. One transaction, as long as they are read."""
        with self._transaction() as connection:
            yield from training_labels.flagged(connection, since, until)

    def judged(self, until: datetime) -> pd.DataFrame:
        """Whose events before `until` lie in alerts that are decided, for `shifting`: a row for each alert and entity."""
        with self._transaction() as connection:
            return desk_triage.judged(connection, until)

    def oldest_vote(self) -> datetime | None:
        """From when on single votes are known."""
        with self._transaction() as connection:
            return training_labels.oldest_vote(connection)

    def count_feeds(self, partition: Partition, closed: int, counts: pd.DataFrame) -> None:
        """A count never falls, nor does `closed` go back: what was read again after a crash is less or the same."""
        self._write(lambda connection: feeds.count(connection, partition, closed, counts))

    def feeds_closed(self) -> dict[Partition, int]:
        """By partition that has said so: what lies before is complete, seconds since 1970."""
        with self._transaction() as connection:
            return feeds.closed(connection)

    def feed_counts(self, since: int = 0) -> pd.DataFrame:
        """Columns kind, feed, at, events, over all partitions, from `since` (seconds since 1970) on."""
        with self._transaction() as connection:
            return feeds.counts(connection, since)

    def notices(self, ended: bool = True) -> list[Notice]:
        """Open ones first, the most urgent on top; without `ended` only those."""
        with self._transaction() as connection:
            return feeds.notices(connection, ended)

    def notices_upto(self) -> int:
        """Up to where feeds were looked at, seconds since 1970; 0 if they never were."""
        with self._transaction() as connection:
            return feeds.upto(connection)

    def save_notices(self, notices: Sequence[Notice], upto: int, forget: int = 0) -> None:
        """Feeds were looked at up to `upto`; counts from before `forget` are no longer needed."""
        now = int(self._now().timestamp())
        self._write(lambda connection: feeds.save(connection, notices, upto, forget, now))

    def dump(self) -> dict[str, str]:
        """Every row of every table as text, in order, but for when it was stored: to see whether something changed."""
        with self._transaction() as connection:
            return {
                table.name: tables.dumped(
                    connection.execute(
                        sql.select(*(each for each in table.c if each.name != tables.STORED)).order_by(
                            *table.primary_key
                        )
                    ).all()
                )
                for table in tables.metadata.sorted_tables
            }


def _whole(connection: sql.Connection, said: Disposition) -> Disposition:
    """With whole ids."""
    alert_id = id_prefix.one_id(connection, said.alert_id)
    original = id_prefix.one_id(connection, said.duplicate_of) if said.decision == "duplicate" else ""
    if original == alert_id:
        raise FingerprintError(f"alert {alert_id} cannot be a duplicate of itself")
    return replace(said, alert_id=alert_id, duplicate_of=original)


def _upsert(
    connection: sql.Connection, table: sql.Table, rows: Iterable[Row], keep_if_empty: Sequence[str] = ()
) -> None:
    """Insert, or overwrite the row of the same key; the columns `keep_if_empty` are not overwritten by empty
    text."""
    rows, statement = list(rows), upsert_of(tables.insert_of(connection, table), keep_if_empty)
    for start in range(0, len(rows), CHUNK):
        connection.execute(statement, rows[start : start + CHUNK])


def upsert_of(insert: Any, keep_if_empty: Sequence[str] = ()) -> sql.Insert:
    """The statement, of a dialect's own INSERT (`insert_of`)."""
    table: sql.Table = insert.table
    keys = [column.name for column in table.primary_key]
    new: Row = {
        column.name: insert.excluded[column.name] for column in table.columns if column.name not in keys
    }
    if tables.STORED in new:
        new[tables.STORED] = sql.func.coalesce(table.c[tables.STORED], new[tables.STORED])
    for name in keep_if_empty:
        new[name] = sql.func.coalesce(sql.func.nullif(new[name], ""), table.c[name])
    upsert: sql.Insert = (
        insert.on_conflict_do_update(index_elements=keys, set_=new)
        if new
        else insert.on_conflict_do_nothing()
    )
    return upsert


def _known(connection: sql.Connection, ids: Sequence[str]) -> dict[str, Row]:
    """Alerts that are there already, by id."""
    alert_id = tables.alerts.c.alert_id
    queries = (sql.select(tables.alerts).where(alert_id.in_(part)).with_for_update() for part in _parts(ids))
    return {row["alert_id"]: dict(row) for query in queries for row in connection.execute(query).mappings()}


def _with_evidence(
    connection: sql.Connection, rows: Sequence[Row], events: Sequence[Row], known: Mapping[str, Row]
) -> list[Row]:
    """The alerts' rows, given that more evidence may be known of them than there is now in `events`."""
    evidence = _evidence_sizes(connection, [row["alert_id"] for row in rows])
    sizes = Counter(row["alert_id"] for row in events)
    counted = [row | {"event_count": evidence.get(row["alert_id"], 0)} for row in rows]
    old = ((row, known.get(row["alert_id"])) for row in counted)
    partial = ((row, was if row["event_count"] > sizes[row["alert_id"]] else None) for row, was in old)
    covering = [_covering(row, was) if was else row for row, was in partial]
    return [_lowered(row, known.get(row["alert_id"])) for row in covering]


def _lowered(row: Row, old: Row | None) -> Row:
    """Lowered as much as before, until it is asked anew who shares it."""
    by = old["urgency"] - old["urgency_shown"] if old else 0
    return row | {"urgency_shown": max(0, row["urgency"] - by), "sharing": old["sharing"] if old else 0}


def _is_news(row: Row, known: Mapping[str, Row]) -> bool:
    """Whether a list of alerts looks different now."""
    old = known.get(row["alert_id"])
    return old is None or any(row[name] != old[name] for name in SHOWN)


def _evidence_sizes(connection: sql.Connection, ids: Sequence[str]) -> dict[str, int]:
    alert_id = tables.alert_events.c.alert_id
    count = sql.select(alert_id, sql.func.count()).group_by(alert_id)
    queries = (count.where(alert_id.in_(part)) for part in _parts(ids))
    return {row[0]: row[1] for query in queries for row in connection.execute(query)}


def _parts(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + IDS] for start in range(0, len(ids), IDS)]


def _covering(new: Row, old: Row) -> Row:
    return new | {
        "first_event_time": min(new["first_event_time"], old["first_event_time"]),
        "last_event_time": max(new["last_event_time"], old["last_event_time"]),
        "urgency": max(new["urgency"], old["urgency"]),
        "degraded": new["degraded"] or old["degraded"],
    }


def _vote_rows(votes: Votes) -> list[Row]:
    frame = votes if isinstance(votes, pd.DataFrame) else _vote_frame(votes)
    frame = frame.loc[frame["z"].notna(), list(_VOTE)].drop_duplicates(["event_id", "detector"], keep="last")
    columns = [_column(frame[name]) for name in _VOTE]
    return [dict(zip(_VOTE, values, strict=True)) for values in zip(*columns, strict=True)]


def _vote_frame(votes: Sequence[Vote]) -> pd.DataFrame:
    """Object columns: pandas' own strings take no lone surrogates."""
    columns = {name: [getattr(vote, name) for vote in votes] for name in _VOTE}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def _column(values: pd.Series) -> list[Any]:
    """A column as Python values; texts cleaned once per distinct value, None where one is missing."""
    if values.name == "event_time":
        return list(pd.to_datetime(values, utc=True).dt.to_pydatetime())
    if values.name in ("z", "threshold", "vote", "alone"):
        return values.astype(bool if values.name in ("vote", "alone") else float).to_list()
    codes, distinct = pd.factorize(values)
    fit = tables.key_of if values.name == "event_id" else storable
    cleaned = [fit(str(value)) for value in distinct] + [None]
    return [cleaned[code] for code in codes]


def _read(connection: sql.Connection, query: sql.Select[Any], raw: bool = True) -> list[Alert]:
    rows = [dict(row) for row in connection.execute(query).mappings()]
    events: dict[str, list[Row]] = {row["alert_id"]: [] for row in rows}
    for part in _parts(list(events)):
        for event in connection.execute(_events_of(part, raw)).mappings():
            events[event["alert_id"]].append(dict(event))
    return [tables.alert_of(row, events[row["alert_id"]]) for row in rows]


def _events_of(ids: Sequence[str], raw: bool) -> sql.Select[Any]:
    table = tables.alert_events
    columns = [
        column if raw or column.name != "raw" else sql.literal("").label("raw") for column in table.columns
    ]
    return (
        sql.select(*columns).where(table.c.alert_id.in_(ids)).order_by(table.c.event_time, table.c.event_id)
    )
