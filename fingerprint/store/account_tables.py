"""The desk's tables of who may work at it. Secrets and passwords are kept as digests alone.

A person's row is never removed: the audit says names, and a name must not come to mean somebody else.
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.store.schema import Json, Utc, metadata, text, when

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
    text("session_id"),  # what a page may name it by
    text("person_id"),
    when("created_at"),
    when("seen_at"),  # about: not every request is written down
    when("expires_at"),
    text("address"),
    text("agent"),
    text("proof"),
    sql.Column("proven_at", Utc),
    text("challenge", server_default=""),  # that a passkey is to sign, once
)
sql.Index("sessions_of_person", sessions.c.person_id)
sql.Index("sessions_of_id", sessions.c.session_id, unique=True)

logins = sql.Table(  # whose password was right, and whose second factor is awaited
    "logins",
    metadata,
    text("digest", primary_key=True),
    text("person_id"),
    when("expires_at"),
    text("challenge", server_default=""),
)
sql.Index("logins_of_person", logins.c.person_id)

factors = sql.Table(  # second factors; `secret` is an app's key, a passkey's public key, or a recovery code's digest
    "factors",
    metadata,
    text("factor_id", primary_key=True),
    text("person_id"),
    text("kind"),
    text("label"),
    text("secret"),
    text("credential", server_default=""),  # a passkey's own id
    sql.Column("counter", sql.BigInteger, nullable=False),  # the last code's time step, or a passkey's count
    when("created_at"),
    sql.Column("last_used", Utc),
)
sql.Index("factors_of_person", factors.c.person_id)

devices = sql.Table(  # browsers in which a person logged in before
    "devices",
    metadata,
    text("digest", primary_key=True),
    text("person_id"),
    when("seen_at"),
)
sql.Index("devices_of_person", devices.c.person_id)

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

attempts = sql.Table(  # to prove who one is, that did not succeed; `of` is a digest of whom and from where
    "attempts",
    metadata,
    text("of", primary_key=True),
    sql.Column("failures", sql.Integer, nullable=False),
    when("begun_at"),
    when("at"),
)
sql.Index("attempts_begun", attempts.c.begun_at)
