"""The threshold and the quorum that people chose at the desk: rows that are only ever added, the newest holds.

Example:
    >>> with engine.begin() as connection:
    ...     tune(connection, now, "maria", "too many of CI", threshold=3.6)
    ...     tuned(connection).threshold
    3.6
"""

from __future__ import annotations

import math
from datetime import datetime

import sqlalchemy as sql

from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import Tuned
from fingerprint.core.sanitize import storable
from fingerprint.store import audit
from fingerprint.store import schema as tables
from fingerprint.store.queue_tables import NUMBER

LOWEST, HIGHEST = (
    1.0,
    37.0,
)  # of a threshold: below, everything is strange; above, no probability is left to tell
SHOWN = 100

tunings = sql.Table(
    "tunings",
    tables.metadata,
    sql.Column("number", NUMBER, primary_key=True),
    tables.when("at"),
    tables.text("by"),
    tables.text("why"),
    sql.Column("threshold", tables.Real),
    sql.Column("quorum", sql.Integer),
    sql.Column("cleared", sql.Boolean, nullable=False),
    sqlite_autoincrement=True,
)


def tune(
    connection: sql.Connection,
    at: datetime,
    by: str,
    why: str,
    threshold: float | None = None,
    quorum: int | None = None,
) -> Tuned:
    """Choose; without threshold and quorum what the settings say holds again. FingerprintError without a reason, and for a
    threshold that everything or nothing would pass."""
    if not why.strip():
        raise FingerprintError("say why: whoever looks at the thresholds next wants to know")
    if threshold is not None and not (math.isfinite(threshold) and LOWEST <= threshold <= HIGHEST):
        raise FingerprintError(
            f"a threshold of {threshold:g} cannot be meant: give {LOWEST:g} to {HIGHEST:g}"
        )
    if quorum is not None and quorum < 1:
        raise FingerprintError("a quorum is at least one vote")
    chosen = {"threshold": threshold, "quorum": quorum, "cleared": threshold is None and quorum is None}
    row = {"at": at, "by": storable(by), "why": storable(why), **chosen}
    connection.execute(sql.insert(tunings).values(**row))
    audit.say(connection, at, by, "threshold.change", "threshold", {**chosen, "why": storable(why)})
    return tunings_of(connection, 1)[0]


def tuned(connection: sql.Connection) -> Tuned | None:
    """What holds; None where nobody ever chose."""
    return next(iter(tunings_of(connection, 1)), None)


def tunings_of(connection: sql.Connection, limit: int = SHOWN) -> list[Tuned]:
    """What was chosen, the newest first."""
    query = sql.select(tunings).order_by(tunings.c.number.desc()).limit(limit)
    return [Tuned(**row) for row in connection.execute(query).mappings()]
