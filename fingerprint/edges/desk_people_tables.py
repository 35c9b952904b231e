"""The desk's tables of who may work at it. Secrets and passwords are kept as digests alone.

A person's row is never removed: the audit says names, and a name must not come to mean somebody else.
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.edges.desk_tables import Json, Utc, metadata, text, when

persons = sql.Table(
    "persons",
    metadata,
    text("person_id", primary_key=True),
    text("name"),
    text("role"),
    sql.Column("password", sql.Text),  # argon2's string, with its salt and costs
    text("issuer", server_default=""),
    text("subject", server_default=""),
    when("created_at"),
    sql.Column("disabled_at", Utc),
    sql.Column("last_login", Utc),
)
sql.Index("persons_of_name", persons.c.name, unique=True)
_vouched = persons.c.subject != ""
sql.Index(
    "persons_of_provider",
    persons.c.issuer,
    persons.c.subject,
    unique=True,
    sqlite_where=_vouched,
    postgresql_where=_vouched,
)

sessions = sql.Table(
    "sessions",
    metadata,
    text("digest", primary_key=True),
    text("person_id"),
    when("created_at"),
    when("seen_at"),  # about: not every request is written down
    when("expires_at"),
)
sql.Index("sessions_of_person", sessions.c.person_id)

tokens = sql.Table(
    "tokens",
    metadata,
    text("token_id", primary_key=True),
    text("digest"),
    text("person_id"),
    text("label"),
    sql.Column("scopes", Json, nullable=False),
    when("created_at"),
    when("expires_at"),
    sql.Column("last_used", Utc),
    sql.Column("revoked_at", Utc),
)

sql.Index("tokens_of_person", tokens.c.person_id)
sql.Index("tokens_of_digest", tokens.c.digest, unique=True)

invitations = sql.Table(  # a used one is gone; without a name it is the first admin's
    "invitations",
    metadata,
    text("digest", primary_key=True),
    text("name"),
    when("expires_at"),
)
sql.Index("invitations_of_name", invitations.c.name)

attempts = sql.Table(  # to log in, that did not succeed; `of` is a digest of a name or an address
    "attempts",
    metadata,
    text("attempt_id", primary_key=True),
    text("of"),
    when("at"),
)
sql.Index("attempts_of", attempts.c.of, attempts.c.at)
