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

from fingerprint.core.alert import (
    Alert,
    CredentialIssue,
    Decision,
    Disposition,
    FeedGap,
    FingerprintError,
    Vote,
)
from fingerprint.core.ports import Partition, VoteTable
from fingerprint.core.redaction import Redactor
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
from fingerprint.store import database as desk_engine
from fingerprint.store import dispositions as desk_triage
from fingerprint.store import schema as tables
from fingerprint.store.program_queries import SqlFeedbackStore
from fingerprint.store.queue import SqlCaseStore
from fingerprint.store.schema import Row
from fingerprint.store.suppression_store import SqlSuppressionStore

INSERT_CHUNK = 10_000  # rows of one executemany
MAX_IDS_PER_QUERY = 500  # ids of one IN (...)
LISTED_COLUMNS = (
    "event_count",
    "urgency",
    "title",
    "human",
    "level",
    "tactics",
    "last_event_time",
    "degraded",
)
NO_REDACTION = Redactor()
_VOTE_COLUMNS = tuple(column.name for column in tables.votes.columns if column.name != tables.STORED_AT)


def open_alert_store(
    url: str, create: bool = True, redact: Sequence[str] = (), now: session.NowFunction = session.utc_now
) -> SqlAlertStore:
    """The desk at an SQLAlchemy URL; its tables are made where there are none, unless `create` is false.

    `redact`: fields of raw records that are not kept (`redaction`). `now`: the clock by which people change things. Raises
    FingerprintError for a URL, folder, file, server or schema version that cannot be a desk.
    """
    place = desk_engine.parse_database_url(url)
    if not create and desk_engine.is_sqlite_file(place) and not Path(str(place.database)).is_file():
        raise FingerprintError(f"there is no desk at {place.database} yet: `fingerprint score` makes one")
    with desk_engine.translate_database_errors(place):
        engine = desk_engine.create_store_engine(place)
        desk_engine.prepare_schema(engine, create)
    return SqlAlertStore(engine, Redactor(redact), now)


def masked_url(url: str) -> str:
    """A desk's URL as it may be shown: without its password."""
    return str(desk_engine.parse_database_url(url))


def alert_store_exists(url: str) -> bool:
    """Whether there is a desk at an SQLAlchemy URL; False before anything was scored. FingerprintError for a file that is no
    database, and for a server that does not answer."""
    place = desk_engine.parse_database_url(url)
    if desk_engine.is_sqlite_file(place) and not Path(str(place.database)).is_file():
        return False
    with desk_engine.translate_database_errors(place):
        engine = desk_engine.create_store_engine(place)
        try:
            return not tables.REQUIRED_TABLES.isdisjoint(sql.inspect(engine).get_table_names())
        finally:
            engine.dispose()


class SqlAlertStore(SqlCaseStore, SqlSuppressionStore, SqlFeedbackStore):
    """A Desk (see `ports`) and what people work on (`ports_queue`) over SQLAlchemy.

    When an alert's evidence grows, what was derived from it is the newest save's; if that save has fewer events than the
    evidence, first and last time cover both saves and urgency never falls, and degraded stays.
    """

    def __init__(
        self,
        engine: sql.Engine,
        redaction: Redactor = NO_REDACTION,
        now: session.NowFunction = session.utc_now,
    ) -> None:
        super().__init__(engine, now)
        self._redaction = redaction

    def save(
        self,
        alerts: Sequence[Alert] = (),
        votes: VoteTable = (),
        credential_issues: Sequence[CredentialIssue] = (),
    ) -> None:
        """All of it or none. Votes without an opinion (z is NaN) are left out; a repeat overwrites
        itself."""
        rows = [tables.alert_row(alert) for alert in alerts]
        now = {tables.STORED_AT: self._now()}
        events = [row | now for alert in alerts for row in tables.event_rows(alert, self._redaction)]
        single = [row | now for row in _vote_rows(votes)]

        def put(connection: sql.Connection) -> None:
            known = _existing_alerts(connection, [row["alert_id"] for row in rows])
            _upsert(connection, tables.alert_events, events, keep_if_empty=("raw",))
            new = _merge_evidence(connection, rows, events, known)
            _upsert(connection, tables.alerts, new)
            filter_values.update_filter_values(connection, new, events)
            _upsert(connection, tables.votes, single)
            credential_chains.add_credential_issues(connection, credential_issues, now[tables.STORED_AT])
            ids = [row["alert_id"] for row in new]
            suppressions.update_suppression_hits(connection, ids, self._now())
            shared = prevalence.update_prevalence(connection, ids)
            news = [row["alert_id"] for row in new if _is_visible_change(row, known)]
            change_feed.mark_changed(connection, [*news, *shared])

        self._write(put)

    def alerts(self, limit: int | None = None, raw: bool = True) -> list[Alert]:
        """The most urgent first; then the oldest, then by id."""
        with self._transaction() as connection:
            return _read_alerts(
                connection, sql.select(tables.alerts).order_by(*tables.ALERT_ORDER).limit(limit), raw
            )

    def alert(self, id_or_prefix: str) -> Alert:
        """One alert, by its id or its first characters. FingerprintError if there is not exactly one."""
        with self._transaction() as connection:
            own = tables.alerts.c.alert_id == id_prefix.resolve_alert_id(connection, id_or_prefix)
            return _read_alerts(connection, sql.select(tables.alerts).where(own))[0]

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
        chosen = sql.select(*(votes.c[name] for name in _VOTE_COLUMNS))
        query = chosen.order_by(*(each.desc() if newest else each for each in order)).limit(limit)
        query = query if principal is None else query.where(votes.c.principal == storable(principal))
        query = query if since is None else query.where(votes.c.event_time >= since)
        with self._transaction() as connection:
            rows = connection.execute(query).all()
        frame = pd.DataFrame(rows[::-1] if newest else rows, columns=list(_VOTE_COLUMNS))
        return frame.assign(
            event_time=pd.to_datetime(frame["event_time"], utc=True).astype("datetime64[us, UTC]")
        )

    def add_disposition(self, disposition: Disposition) -> None:
        """An analyst's disposition of an alert, by its id or its first characters; the same again changes nothing.
        FingerprintError where there is no such alert, or what it is said to be a duplicate of is not there, or itself."""
        self._write(
            lambda connection: cases.apply_disposition(connection, _with_full_ids(connection, disposition)),
            desk_engine.ROW_VERSIONED,
        )

    def dispositions(self, alert_id: str | None = None) -> list[Disposition]:
        """All that were given, or those of one alert, the oldest first: of each alert the last one counts."""
        with self._transaction() as connection:
            return desk_triage.read_dispositions(connection, alert_id)

    def current_decisions(self) -> dict[str, Decision]:
        """What is decided of each alert now, by id; open ones are not in there (`triage.standing`)."""
        with self._transaction() as connection:
            return desk_triage.read_current_decisions(connection)

    def flagged_events(self, since: datetime, until: datetime) -> Iterator[pd.DataFrame]:
        """Tables of events in alerts and of events with a vote: event_id, event_time, entity and the word that
        `leaving.Flagged` knows. One transaction, as long as they are read."""
        with self._transaction() as connection:
            yield from training_labels.read_flagged_events(connection, since, until)

    def decided_entities(self, until: datetime) -> pd.DataFrame:
        """Whose events before `until` lie in alerts that are decided, for `shifting`: a row for each alert and entity."""
        with self._transaction() as connection:
            return desk_triage.read_decided_entities(connection, until)

    def oldest_vote_time(self) -> datetime | None:
        """From when on single votes are known."""
        with self._transaction() as connection:
            return training_labels.oldest_vote_time(connection)

    def save_feed_counts(self, partition: Partition, complete_until: int, counts: pd.DataFrame) -> None:
        """A count never falls, nor does `closed` go back: what was read again after a crash is less or the same."""
        self._write(lambda connection: feeds.save_feed_counts(connection, partition, complete_until, counts))

    def feeds_complete_until(self) -> dict[Partition, int]:
        """By partition that has said so: what lies before is complete, seconds since 1970."""
        with self._transaction() as connection:
            return feeds.read_feed_progress(connection)

    def feed_counts(self, since: int = 0) -> pd.DataFrame:
        """Columns kind, feed, at, events, over all partitions, from `since` (seconds since 1970) on."""
        with self._transaction() as connection:
            return feeds.read_feed_counts(connection, since)

    def feed_gaps(self, ended: bool = True) -> list[FeedGap]:
        """Open ones first, the most urgent on top; without `ended` only those."""
        with self._transaction() as connection:
            return feeds.read_feed_gaps(connection, ended)

    def feeds_checked_until(self) -> int:
        """Up to where feeds were looked at, seconds since 1970; 0 if they never were."""
        with self._transaction() as connection:
            return feeds.read_checked_until(connection)

    def save_feed_gaps(self, gaps: Sequence[FeedGap], checked_until: int, forget_before: int = 0) -> None:
        """Feeds were looked at up to `upto`; counts from before `forget` are no longer needed."""
        now = int(self._now().timestamp())
        self._write(
            lambda connection: feeds.save_feed_gaps(connection, gaps, checked_until, forget_before, now)
        )

    def dump_tables(self) -> dict[str, str]:
        """Every row of every table as text, in order, but for when it was stored: to see whether something changed."""
        with self._transaction() as connection:
            return {
                table.name: tables.dump_rows(
                    connection.execute(
                        sql.select(*(each for each in table.c if each.name != tables.STORED_AT)).order_by(
                            *table.primary_key
                        )
                    ).all()
                )
                for table in tables.metadata.sorted_tables
            }


def _with_full_ids(connection: sql.Connection, disposition: Disposition) -> Disposition:
    """With whole ids."""
    alert_id = id_prefix.resolve_alert_id(connection, disposition.alert_id)
    original = (
        id_prefix.resolve_alert_id(connection, disposition.duplicate_of)
        if disposition.decision == "duplicate"
        else ""
    )
    if original == alert_id:
        raise FingerprintError(f"alert {alert_id} cannot be a duplicate of itself")
    return replace(disposition, alert_id=alert_id, duplicate_of=original)


def _upsert(
    connection: sql.Connection, table: sql.Table, rows: Iterable[Row], keep_if_empty: Sequence[str] = ()
) -> None:
    """Insert, or overwrite the row of the same key; the columns `keep_if_empty` are not overwritten by empty
    text."""
    rows, statement = list(rows), upsert_statement(tables.insert_into(connection, table), keep_if_empty)
    for start in range(0, len(rows), INSERT_CHUNK):
        connection.execute(statement, rows[start : start + INSERT_CHUNK])


def upsert_statement(insert: Any, keep_if_empty: Sequence[str] = ()) -> sql.Insert:
    """The statement, of a dialect's own INSERT (`insert_of`)."""
    table: sql.Table = insert.table
    keys = [column.name for column in table.primary_key]
    new: Row = {
        column.name: insert.excluded[column.name] for column in table.columns if column.name not in keys
    }
    if tables.STORED_AT in new:
        new[tables.STORED_AT] = sql.func.coalesce(table.c[tables.STORED_AT], new[tables.STORED_AT])
    for name in keep_if_empty:
        new[name] = sql.func.coalesce(sql.func.nullif(new[name], ""), table.c[name])
    upsert: sql.Insert = (
        insert.on_conflict_do_update(index_elements=keys, set_=new)
        if new
        else insert.on_conflict_do_nothing()
    )
    return upsert


def _existing_alerts(connection: sql.Connection, ids: Sequence[str]) -> dict[str, Row]:
    """Alerts that are there already, by id."""
    alert_id = tables.alerts.c.alert_id
    queries = (
        sql.select(tables.alerts).where(alert_id.in_(part)).with_for_update() for part in _id_chunks(ids)
    )
    return {row["alert_id"]: dict(row) for query in queries for row in connection.execute(query).mappings()}


def _merge_evidence(
    connection: sql.Connection, rows: Sequence[Row], events: Sequence[Row], known: Mapping[str, Row]
) -> list[Row]:
    """The alerts' rows, given that more evidence may be known of them than there is now in `events`."""
    evidence = _evidence_sizes(connection, [row["alert_id"] for row in rows])
    sizes = Counter(row["alert_id"] for row in events)
    counted = [row | {"event_count": evidence.get(row["alert_id"], 0)} for row in rows]
    old = ((row, known.get(row["alert_id"])) for row in counted)
    partial = ((row, was if row["event_count"] > sizes[row["alert_id"]] else None) for row, was in old)
    covering = [_merge_rows(row, was) if was else row for row, was in partial]
    return [_keep_lowered_urgency(row, known.get(row["alert_id"])) for row in covering]


def _keep_lowered_urgency(row: Row, old: Row | None) -> Row:
    """Lowered as much as before, until it is asked anew who shares it."""
    by = old["urgency"] - old["urgency_shown"] if old else 0
    return row | {"urgency_shown": max(0, row["urgency"] - by), "sharing": old["sharing"] if old else 0}


def _is_visible_change(row: Row, known: Mapping[str, Row]) -> bool:
    """Whether a list of alerts looks different now."""
    old = known.get(row["alert_id"])
    return old is None or any(row[name] != old[name] for name in LISTED_COLUMNS)


def _evidence_sizes(connection: sql.Connection, ids: Sequence[str]) -> dict[str, int]:
    alert_id = tables.alert_events.c.alert_id
    count = sql.select(alert_id, sql.func.count()).group_by(alert_id)
    queries = (count.where(alert_id.in_(part)) for part in _id_chunks(ids))
    return {row[0]: row[1] for query in queries for row in connection.execute(query)}


def _id_chunks(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + MAX_IDS_PER_QUERY] for start in range(0, len(ids), MAX_IDS_PER_QUERY)]


def _merge_rows(new: Row, old: Row) -> Row:
    return new | {
        "first_event_time": min(new["first_event_time"], old["first_event_time"]),
        "last_event_time": max(new["last_event_time"], old["last_event_time"]),
        "urgency": max(new["urgency"], old["urgency"]),
        "degraded": new["degraded"] or old["degraded"],
    }


def _vote_rows(votes: VoteTable) -> list[Row]:
    frame = votes if isinstance(votes, pd.DataFrame) else _vote_frame(votes)
    frame = frame.loc[frame["z"].notna(), list(_VOTE_COLUMNS)].drop_duplicates(
        ["event_id", "detector"], keep="last"
    )
    columns = [_column_values(frame[name]) for name in _VOTE_COLUMNS]
    return [dict(zip(_VOTE_COLUMNS, values, strict=True)) for values in zip(*columns, strict=True)]


def _vote_frame(votes: Sequence[Vote]) -> pd.DataFrame:
    """Object columns: pandas' own strings take no lone surrogates."""
    columns = {name: [getattr(vote, name) for vote in votes] for name in _VOTE_COLUMNS}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def _column_values(values: pd.Series) -> list[Any]:
    """A column as Python values; texts cleaned once per distinct value, None where one is missing."""
    if values.name == "event_time":
        return list(pd.to_datetime(values, utc=True).dt.to_pydatetime())
    if values.name in ("z", "threshold", "vote", "alone"):
        return values.astype(bool if values.name in ("vote", "alone") else float).to_list()
    codes, distinct = pd.factorize(values)
    fit = tables.index_key if values.name == "event_id" else storable
    cleaned = [fit(str(value)) for value in distinct] + [None]
    return [cleaned[code] for code in codes]


def _read_alerts(connection: sql.Connection, query: sql.Select[Any], raw: bool = True) -> list[Alert]:
    rows = [dict(row) for row in connection.execute(query).mappings()]
    events: dict[str, list[Row]] = {row["alert_id"]: [] for row in rows}
    for part in _id_chunks(list(events)):
        for event in connection.execute(_select_events(part, raw)).mappings():
            events[event["alert_id"]].append(dict(event))
    return [tables.to_alert(row, events[row["alert_id"]]) for row in rows]


def _select_events(ids: Sequence[str], raw: bool) -> sql.Select[Any]:
    table = tables.alert_events
    columns = [
        column if raw or column.name != "raw" else sql.literal("").label("raw") for column in table.columns
    ]
    return (
        sql.select(*columns).where(table.c.alert_id.in_(ids)).order_by(table.c.event_time, table.c.event_id)
    )
