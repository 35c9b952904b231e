"""The alert store: alerts, cases and accounts in SQLite or PostgreSQL, one repository for each noun.

Example:
    >>> store = open_store("sqlite:///fingerprint.sqlite")
    >>> store.alerts.save([alert], votes)
    >>> store.queue.page(AlertFilter(status="open"), size=50).rows[0].title

`database.py` opens the database, `schema.py` has all tables, `migrations/` creates them. Accounts need a clock and settings of
their own: `accounts.open_account_store`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sql

from fingerprint.core.address import NO_ADDRESS_TABLES, AddressTables
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.store import Store
from fingerprint.core.redaction import Redactor
from fingerprint.store.alerts import SqlAlertRepository
from fingerprint.store.audit import SqlAuditRepository, SqlChangeRepository
from fingerprint.store.cases import SqlCaseRepository
from fingerprint.store.database import (
    NowFunction,
    Repository,
    Session,
    create_store_engine,
    is_sqlite_file,
    parse_database_url,
    translate_database_errors,
    utc_now,
)
from fingerprint.store.evidence import SqlEvidenceRepository
from fingerprint.store.feedback import SqlFeedbackRepository
from fingerprint.store.feeds import SqlFeedRepository
from fingerprint.store.heartbeats import SqlHeartbeatRepository
from fingerprint.store.incidents import SqlIncidentRepository
from fingerprint.store.migrate import prepare_schema
from fingerprint.store.outbox import SqlOutbox
from fingerprint.store.overview import SqlOverviewRepository
from fingerprint.store.prevalence import SqlPrevalenceRepository
from fingerprint.store.principals import SqlPrincipalRepository
from fingerprint.store.queue import SqlQueueRepository
from fingerprint.store.retention import SqlRetentionRepository
from fingerprint.store.schema import REQUIRED_TABLES
from fingerprint.store.suppressions import SqlSuppressionRepository
from fingerprint.store.thresholds import SqlThresholdRepository
from fingerprint.store.views import SqlViewRepository
from fingerprint.store.votes import SqlVoteRepository


@dataclass(frozen=True)
class SqlStore(Store):
    """The repositories of one database, which share its session."""

    session: Session
    outbox: SqlOutbox

    def close(self) -> None:
        """Close all connections."""
        self.session.close()

    def for_visitors(self, query_timeout: float) -> SqlStore:
        """Return the same store for the web app: slow queries are stopped, and errors do not name the server (`Session`)."""
        session = self.session.for_visitors(query_timeout)
        others: dict[str, Any] = {
            name: value.over(session) for name, value in vars(self).items() if isinstance(value, Repository)
        }
        return replace(self, session=session, **others)


def open_store(
    url: str,
    create: bool = True,
    redact: Sequence[str] = (),
    now: NowFunction = utc_now,
    addresses: AddressTables = NO_ADDRESS_TABLES,
) -> SqlStore:
    """Open the alert store at an SQLAlchemy URL; create its tables if there are none and `create` is true.

    - `redact`: fields of raw records that are not stored (`core.redaction`).
    - `now`: the clock for the times of changes.
    - `addresses`: tables with facts about addresses, which are looked up when an alert is saved, for filters.

    Raise FingerprintError for a URL, folder, file, server or schema version that cannot be used.
    """
    parsed = parse_database_url(url)
    if not create and _is_missing_file(parsed):
        raise FingerprintError(f"there is no database {parsed.database} yet: `fingerprint score` creates it")
    with translate_database_errors(parsed):
        engine = create_store_engine(parsed)
        prepare_schema(engine, create)
    session = Session(engine, now)
    weakref.finalize(
        session, engine.dispose
    )  # at the latest when the process ends, so that SQLite leaves one file
    return compose_store(session, Redactor(redact), addresses)


def compose_store(
    session: Session, redaction: Redactor, addresses: AddressTables = NO_ADDRESS_TABLES
) -> SqlStore:
    """Return the repositories over one session."""
    return SqlStore(
        session=session,
        alerts=SqlAlertRepository(session, redaction, addresses),
        votes=SqlVoteRepository(session),
        queue=SqlQueueRepository(session),
        evidence=SqlEvidenceRepository(session),
        principals=SqlPrincipalRepository(session),
        prevalence=SqlPrevalenceRepository(session),
        cases=SqlCaseRepository(session),
        incidents=SqlIncidentRepository(session),
        overview=SqlOverviewRepository(session),
        views=SqlViewRepository(session),
        suppressions=SqlSuppressionRepository(session),
        feedback=SqlFeedbackRepository(session),
        thresholds=SqlThresholdRepository(session),
        feeds=SqlFeedRepository(session),
        heartbeats=SqlHeartbeatRepository(session),
        audit=SqlAuditRepository(session),
        changes=SqlChangeRepository(session),
        retention=SqlRetentionRepository(session),
        outbox=SqlOutbox(session),
    )


def store_exists(url: str) -> bool:
    """Return whether there is an alert store at an SQLAlchemy URL; False before anything was scored.

    Raise FingerprintError for a file that is no database, and for a server that does not answer.
    """
    parsed = parse_database_url(url)
    if _is_missing_file(parsed):
        return False
    with translate_database_errors(parsed):
        engine = create_store_engine(parsed)
        try:
            return not REQUIRED_TABLES.isdisjoint(sql.inspect(engine).get_table_names())
        finally:
            engine.dispose()


def masked_url(url: str) -> str:
    """Return a database URL that may be shown, without its password."""
    return str(parse_database_url(url))


def _is_missing_file(url: sql.URL) -> bool:
    return is_sqlite_file(url) and not Path(str(url.database)).is_file()
