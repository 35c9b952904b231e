"""What people write about alerts, and the filters that they keep under a name.

Example:
    >>> with engine.begin() as connection:
    ...     add(connection, "397edb7b6806", "called her: it was her", "maria", now).note_id
    '5f0c9d6a1b2e3f40'
"""

from __future__ import annotations

import secrets
from datetime import datetime

import sqlalchemy as sql

from fingerprint.core.alert import FingerprintError, NotFound
from fingerprint.core.case import CaseNote, SavedView
from fingerprint.core.sanitize import storable
from fingerprint.store import audit, change_feed
from fingerprint.store.queue_tables import notes, views
from fingerprint.store.schema import alerts, insert_into

MAX_NOTE_LENGTH, MAX_VIEW_NAME_LENGTH, MAX_VIEW_QUERY_LENGTH, MAX_VIEWS = (
    20_000,
    100,
    4_000,
    100,
)  # characters; views of one person


def insert_note(connection: sql.Connection, alert_id: str, text: str, by: str, now: datetime) -> CaseNote:
    """FingerprintError where there is no such alert, no text, or more than LONGEST_NOTE characters."""
    note = CaseNote(secrets.token_hex(8), storable(alert_id), now, storable(by), storable(text).strip())
    if not 0 < len(note.text) <= MAX_NOTE_LENGTH:
        raise FingerprintError(f"a note has 1 to {MAX_NOTE_LENGTH:,} characters, not {len(note.text):,}")
    if not connection.scalar(sql.select(alerts.c.alert_id).where(alerts.c.alert_id == note.alert_id)):
        raise NotFound(f"there is no alert {alert_id!r} to write a note on")
    connection.execute(sql.insert(notes).values({name: getattr(note, name) for name in CaseNote.__slots__}))
    audit.add_audit_entry(connection, now, by, "alert.note", note.alert_id, {"note_id": note.note_id})
    change_feed.mark_changed(connection, [note.alert_id])
    return note


def read_notes(connection: sql.Connection, alert_id: str) -> list[CaseNote]:
    """The oldest first."""
    query = (
        sql.select(notes).where(notes.c.alert_id == storable(alert_id)).order_by(notes.c.at, notes.c.note_id)
    )
    return [CaseNote(**row) for row in connection.execute(query).mappings()]


def read_views(connection: sql.Connection, owner: str) -> list[SavedView]:
    """By name."""
    query = sql.select(views).where(views.c.owner == storable(owner)).order_by(views.c.name)
    return [SavedView(**row) for row in connection.execute(query).mappings()]


def upsert_view(connection: sql.Connection, view: SavedView, now: datetime) -> None:
    """FingerprintError for a name or a query that is empty or too long, and for one view too many."""
    row = {name: storable(getattr(view, name)) for name in SavedView.__slots__}
    for name, longest in (("name", MAX_VIEW_NAME_LENGTH), ("query", MAX_VIEW_QUERY_LENGTH)):
        if not 0 < len(row[name].strip()) <= longest:
            raise FingerprintError(f"the {name} of a view has 1 to {longest:,} characters")
    kept = [each.name for each in read_views(connection, view.owner)]
    if len(kept) >= MAX_VIEWS and row["name"] not in kept:
        raise FingerprintError(f"{MAX_VIEWS} views are kept already: forget one first")
    statement = insert_into(connection, views).values(**row)
    same = ["owner", "name"]
    connection.execute(
        statement.on_conflict_do_update(index_elements=same, set_={"query": statement.excluded.query})
    )
    audit.add_audit_entry(connection, now, view.owner, "view.save", view.name, {"query": row["query"]})


def delete_view_row(connection: sql.Connection, owner: str, name: str, now: datetime) -> None:
    """What is not there is forgotten already."""
    same = (views.c.owner == storable(owner)) & (views.c.name == storable(name))
    if connection.execute(sql.delete(views).where(same)).rowcount:
        audit.add_audit_entry(connection, now, owner, "view.forget", name)
