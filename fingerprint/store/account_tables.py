"""The desk's tables of who may work at it. Secrets and passwords are kept as digests alone.

A person's row is never removed: the audit says names, and a name must not come to mean somebody else.
"""

from __future__ import annotations

import sqlalchemy as sql

from fingerprint.store.schema import FiniteJson, UtcDateTime, metadata, required_text, required_time

persons = sql.Table(
    "persons",
    metadata,
    required_text("person_id", primary_key=True),
    required_text("name"),
    required_text("role"),
    sql.Column("password", sql.Text),  # argon2's string, with its salt and costs
    required_text("issuer", server_default=""),
    required_text("subject", server_default=""),
    required_time("created_at"),
    sql.Column("disabled_at", UtcDateTime),
    sql.Column("last_login", UtcDateTime),
)
sql.Index("persons_of_name", persons.c.name, unique=True)
_has_subject = persons.c.subject != ""
sql.Index(
    "persons_of_provider",
    persons.c.issuer,
    persons.c.subject,
    unique=True,
    sqlite_where=_has_subject,
    postgresql_where=_has_subject,
)

sessions = sql.Table(
    "sessions",
    metadata,
    required_text("digest", primary_key=True),
    required_text("session_id"),  # what a page may name it by
    required_text("person_id"),
    required_time("created_at"),
    required_time("seen_at"),  # about: not every request is written down
    required_time("expires_at"),
    required_text("address"),
    required_text("agent"),
    required_text("proof"),
    sql.Column("proven_at", UtcDateTime),
    required_text("challenge", server_default=""),  # that a passkey is to sign, once
)
sql.Index("sessions_of_person", sessions.c.person_id)
sql.Index("sessions_of_id", sessions.c.session_id, unique=True)

logins = sql.Table(  # whose password was right, and whose second factor is awaited
    "logins",
    metadata,
    required_text("digest", primary_key=True),
    required_text("person_id"),
    required_time("expires_at"),
    required_text("challenge", server_default=""),
)
sql.Index("logins_of_person", logins.c.person_id)

factors = sql.Table(  # second factors; `secret` is an app's key, a passkey's public key, or a recovery code's digest
    "factors",
    metadata,
    required_text("factor_id", primary_key=True),
    required_text("person_id"),
    required_text("kind"),
    required_text("label"),
    required_text("secret"),
    required_text("credential", server_default=""),  # a passkey's own id
    sql.Column("counter", sql.BigInteger, nullable=False),  # the last code's time step, or a passkey's count
    required_time("created_at"),
    sql.Column("last_used", UtcDateTime),
)
sql.Index("factors_of_person", factors.c.person_id)

known_browsers = sql.Table(  # browsers in which a person logged in before
    "devices",
    metadata,
    required_text("digest", primary_key=True),
    required_text("person_id"),
    required_time("seen_at"),
)
sql.Index("devices_of_person", known_browsers.c.person_id)

tokens = sql.Table(
    "tokens",
    metadata,
    required_text("token_id", primary_key=True),
    required_text("digest"),
    required_text("person_id"),
    required_text("label"),
    sql.Column("scopes", FiniteJson, nullable=False),
    required_time("created_at"),
    required_time("expires_at"),
    sql.Column("last_used", UtcDateTime),
    sql.Column("revoked_at", UtcDateTime),
)

sql.Index("tokens_of_person", tokens.c.person_id)
sql.Index("tokens_of_digest", tokens.c.digest, unique=True)

invitations = sql.Table(  # a used one is gone; without a name it is the first admin's
    "invitations",
    metadata,
    required_text("digest", primary_key=True),
    required_text("name"),
    required_time("expires_at"),
)
sql.Index("invitations_of_name", invitations.c.name)

login_attempts = (
    sql.Table(  # to prove who one is, that did not succeed; `of` is a digest of whom and from where
        "attempts",
        metadata,
        required_text("of", primary_key=True),
        sql.Column("failures", sql.Integer, nullable=False),
        required_time("begun_at"),
        required_time("at"),
    )
)
sql.Index("attempts_begun", login_attempts.c.begun_at)
