"""An alert named by its id, or by its first characters as people type them.

Example:
    >>> with engine.connect() as connection:
    ...     one_id(connection, "397e")
    '397edb7b6806'
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sql

from fingerprint.core.alert import FingerprintError, NotFound
from fingerprint.core.sanitize import storable
from fingerprint.store.schema import alerts


def resolve_alert_id(connection: sql.Connection, id_or_prefix: str) -> str:
    """The whole id. NotThere where no alert's begins so; FingerprintError where several do."""
    wanted, alert_id = storable(id_or_prefix), alerts.c.alert_id
    matches = (alert_id == wanted) | alert_id.startswith(wanted, autoescape=True)
    ids = connection.scalars(sql.select(alert_id).where(matches).order_by(alert_id).limit(4)).all()
    found = [wanted] if wanted in ids else [each for each in ids if each.startswith(wanted)]
    if not wanted or len(found) != 1:
        raise _resolution_error(id_or_prefix, found)
    return found[0]


def _resolution_error(prefix: str, found: Sequence[str]) -> FingerprintError:
    if not found:
        return NotFound(
            f"no alert has an id that starts with {prefix!r}; `fingerprint alerts list` shows them"
        )
    more = " or others" if len(found) > 3 else ""
    return FingerprintError(f"{prefix!r} could be {', '.join(found[:3])}{more}: give more of the id")
