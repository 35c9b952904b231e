"""Saved views: filters of the queue that people save under a name.

Example:
    >>> store.views.save(SavedView("maria", "mine", "status=open&assignee=maria"))
    >>> [view.name for view in store.views.of_owner("maria")]
    ['mine']
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.core.case import SavedView
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import storable
from fingerprint.store.audit import add_audit_entry, audit_digest
from fingerprint.store.database import Locking, Repository, reads, writes
from fingerprint.store.schema import replace_into, views

MAX_NAME_LENGTH, MAX_QUERY_LENGTH = 100, 4_000  # characters
MAX_VIEWS = 100  # of one person


class SqlViewRepository(Repository):
    """Saved views, by owner and name."""

    @reads
    def of_owner(self, connection: sql.Connection, owner: str) -> list[SavedView]:
        """Return a person's views, by name."""
        return _read_views(connection, owner)

    @writes(Locking.ROW_VERSIONS)
    def save(self, connection: sql.Connection, view: SavedView) -> None:
        """Save a view over the one of the same name.

        Raise FingerprintError for a name or query that is empty or too long, and for more than MAX_VIEWS.
        """
        row = {name: storable(getattr(view, name)) for name in SavedView.__slots__}
        for name, longest in (("name", MAX_NAME_LENGTH), ("query", MAX_QUERY_LENGTH)):
            if not 0 < len(row[name].strip()) <= longest:
                raise FingerprintError(f"the {name} of a view has 1 to {longest:,} characters")
        names = [each.name for each in _read_views(connection, view.owner)]
        if len(names) >= MAX_VIEWS and row["name"] not in names:
            raise FingerprintError(f"there are {MAX_VIEWS} saved views already: delete one first")
        connection.execute(replace_into(connection, views).values(**row))
        now = self._session.now()
        detail = {"query_digest": audit_digest(row["query"])}  # the query may name a principal
        add_audit_entry(connection, now, view.owner, "view.save", view.name, detail)

    @writes(Locking.ROW_VERSIONS)
    def delete(self, connection: sql.Connection, owner: str, name: str) -> None:
        """Delete a view; one that does not exist is no error."""
        same = (views.c.owner == storable(owner)) & (views.c.name == storable(name))
        if connection.execute(sql.delete(views).where(same)).rowcount:
            add_audit_entry(connection, self._session.now(), owner, "view.delete", name)


def _read_views(connection: sql.Connection, owner: str) -> list[SavedView]:
    query = sql.select(views).where(views.c.owner == storable(owner)).order_by(views.c.name)
    return [SavedView(**row) for row in connection.execute(query).mappings()]
