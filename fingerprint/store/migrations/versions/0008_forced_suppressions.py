"""Suppressions that may hide attacks say why; those that rest on what attackers write alone are ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sql
from alembic import op

from fingerprint.store.schema import FiniteJson, UtcDateTime, required_text

revision, down_revision = "0008", "0007"

SUPPRESSIONS = sql.table(
    "suppressions",
    required_text("suppression_id"),
    sql.column("match", FiniteJson),
    sql.column("ended_at", UtcDateTime),
)


def upgrade() -> None:
    op.add_column("suppressions", required_text("forced", server_default=""))
    connection, table = op.get_bind(), SUPPRESSIONS.c
    found = connection.execute(sql.select(table.suppression_id, table.match).where(table.ended_at.is_(None)))
    careless = [name for name, match in found if _is_careless(match)]
    ended = sql.update(SUPPRESSIONS).where(table.suppression_id.in_(careless))
    connection.execute(ended.values(ended_at=datetime.now(UTC)))


def _is_careless(match: dict[str, Any]) -> bool:
    written = [match[name] for name in ("human", "user_agent", "error_code") if match.get(name)]
    beside = match.get("principal") or (match.get("network") and match.get("account"))
    return any(len(text.strip()) < 8 for text in written) or bool(written and not beside)
