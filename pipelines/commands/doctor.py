"""Checks of a deployment: `fingerprint doctor`. Each check returns a finding and a remedy."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import sqlalchemy as sql
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fingerprint.adapters.address_tables import open_address_tables
from fingerprint.adapters.system import SystemClock
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Enrichment, Settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.registry import bank_files, versions
from fingerprint.store import database as store_database
from fingerprint.store import masked_url, open_store, store_exists
from pipelines.commands.topics import TopicOptions, required_topics
from pipelines.commands.triton import server_status
from pipelines.deliver import DELIVER_SOMEWHERE
from pipelines.runtime import backend, wiring

Status = Literal["ok", "warn", "fail"]

BROKER_TIMEOUT_SECONDS = 5.0
MAX_CLOCK_DIFFERENCE_SECONDS = 5.0  # between this machine and the database server
OLDEST_POSSIBLE_YEAR = 2026  # a clock with an earlier year was never set
MAX_BANK_AGE_DAYS = 7.0  # a bank is usually retrained every day
MAX_TABLE_AGE_DAYS = 60.0  # of a table of addresses
MIN_FREE_BYTES = 2 << 30  # free space for each folder that programs write to
COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


class Finding(NamedTuple):
    """The outcome of one check."""

    status: Status
    finding: str
    remedy: str = ""


def run_checks(
    settings: Settings, bank: Path, database_url: str, file: Path | None = None
) -> list[dict[str, Any]]:
    """Return the findings of all checks; a check that raises an error is a failure with that reason."""
    checks: dict[str, Callable[[], Finding]] = {
        "settings": lambda: check_settings_file(file),
        "clock": lambda: check_clock(database_url),
        "database": lambda: check_database(database_url),
        "broker": lambda: check_broker(settings),
        "bank": lambda: check_bank(settings, bank),
        "triton": lambda: check_triton(settings),
        "backend": lambda: check_backend(settings),
        "enrichment": lambda: check_enrichment(settings.enrichment),
        "delivery": lambda: check_delivery(settings, database_url),
        "permissions": lambda: check_permissions(settings, bank),
        "disk": lambda: check_disk(settings, bank),
    }
    return [{"check": name, **_run(check)._asdict()} for name, check in checks.items()]


def has_failures(checks: list[dict[str, Any]]) -> bool:
    """Return whether a check failed."""
    return any(each["status"] == "fail" for each in checks)


def print_checks(checks: list[dict[str, Any]]) -> None:
    """Print a table: status, check, finding, remedy."""
    table = Table("", "check", "finding", "what to do", box=None, pad_edge=False)
    for each in checks:
        status = Text(each["status"], style=COLOURS[each["status"]])
        cells = (Text(printable(each[name]), overflow="fold") for name in ("finding", "remedy"))
        table.add_row(status, each["check"], *cells)
    Console().print(table)


def _run(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except FingerprintError as error:
        return Finding("fail", str(error), "see the reason")
    except Exception as error:  # a check must not hide the others
        return Finding("fail", f"{type(error).__name__}: {error}", "report this as a defect")


def check_settings_file(file: Path | None) -> Finding:
    """Check that other users cannot read the settings file, because URLs of receivers are secrets. It is loaded already."""
    if file is None:
        return Finding("ok", "defaults and environment")
    if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return Finding("warn", f"{file} is readable by other users", f"chmod 600 {file}")
    return Finding("ok", str(file))


def check_clock(database_url: str) -> Finding:
    """Check the clock, with which times of events are compared, against the clock of a PostgreSQL server if there is one."""
    now = SystemClock().now()
    if now.year < OLDEST_POSSIBLE_YEAR:
        return Finding("fail", f"the clock says {now:%Y-%m-%d}", "set the clock, for example with NTP")
    place = store_database.parse_database_url(database_url)
    if place.get_backend_name() == "sqlite":
        return Finding("ok", f"{now:%Y-%m-%d %H:%M:%S} UTC; there is no server to compare it with")
    with store_database.translate_database_errors(place):
        engine = store_database.create_store_engine(place)
        try:
            with engine.connect() as connection:
                there = connection.execute(sql.text("SELECT clock_timestamp()")).scalar_one()
        finally:
            engine.dispose()
    difference = abs((SystemClock().now() - there.astimezone(UTC)).total_seconds())
    if difference > MAX_CLOCK_DIFFERENCE_SECONDS:
        return Finding(
            "fail",
            f"the clocks of this machine and the database differ by {difference:.0f} s",
            "set both with NTP",
        )
    return Finding("ok", f"within {max(difference, 0.1):.1f} s of the database server")


def check_database(database_url: str) -> Finding:
    """Check that the database answers and has the schema, and that no feed gap is open."""
    shown = masked_url(database_url)
    if not store_exists(database_url):
        return Finding(
            "warn", f"{shown} has no alerts yet", "`fingerprint score` or `fingerprint stream` creates it"
        )
    with closing(open_store(database_url, create=False)) as store:
        gaps = len(store.feeds.gaps(ended=False))
    if gaps:
        return Finding("warn", f"{shown}; {gaps} feed gaps are open", "`fingerprint feed-gaps list --open`")
    return Finding("ok", shown)


def check_broker(settings: Settings) -> Finding:
    """Check that the broker answers and has the topics; it may be missing if the settings name none, for scoring of files."""
    names = [topic.name for topic in required_topics(settings.kafka, TopicOptions())]
    try:
        wiring.require_broker(settings.kafka, BROKER_TIMEOUT_SECONDS)
        with wiring.open_topic_admin(settings.kafka) as topics:
            found = topics.describe(names)
    except FingerprintError as error:
        optional = "bootstrap_servers" not in settings.kafka.model_fields_set
        remedy = (
            "needed for the stream only: start Kafka, or set kafka.bootstrap_servers"
            if optional
            else "start it, or mend kafka.bootstrap_servers"
        )
        return Finding("warn" if optional else "fail", str(error), remedy)
    if missing := [name for name in names if name not in found]:
        return Finding("warn", f"topics are missing: {', '.join(missing)}", "`fingerprint topics create`")
    return Finding("ok", f"{len(found)} topics at {', '.join(settings.kafka.bootstrap_servers)}")


def check_bank(settings: Settings, folder: Path) -> Finding:
    """Check that a bank is served and sound, has ready entities, and is not old."""
    version = versions.served_version(folder)
    if version is None:
        return Finding(
            "warn",
            f"the folder {folder} serves no bank",
            "`fingerprint train SOURCE`, or `fingerprint retrain`",
        )
    bank = bank_files.open_bank(folder, settings.bank)
    ready = bank.manifest["ready"]["entity"]
    end = datetime.fromisoformat(bank.manifest["span"][1])
    age = (SystemClock().now() - end).total_seconds() / DAY_SECONDS
    finding = f"{version}: {ready:,} entities ready, learned until {end:%Y-%m-%d}"
    if not ready:
        return Finding("warn", f"{finding}; every principal falls back to its peers", "train on more days")
    if age > MAX_BANK_AGE_DAYS:
        return Finding(
            "warn",
            f"{finding}, {age:.0f} days ago",
            "`fingerprint train` on newer days, or `fingerprint retrain`",
        )
    return Finding("ok", finding)


def check_triton(settings: Settings) -> Finding:
    """Check that Triton, if it is used, serves a version that the repository names."""
    if settings.triton.url is None:
        return Finding("ok", "not used: losses are computed in process")
    status = server_status(settings.triton)
    ready = [each for each in status["versions"] if each["served"] and each["state"] == "READY"]
    if not ready:
        return Finding("fail", f"{settings.triton.url} serves no bank", "`fingerprint triton load`")
    return Finding("ok", f"{settings.triton.url} serves {ready[-1]['bank_version'] or ready[-1]['number']}")


def check_backend(settings: Settings) -> Finding:
    """Check which backend is used, and whether it is the one of the settings."""
    report = backend.backend_report(settings.backend, prove=False)
    finding = f"{report['tables']} and {report['arrays']} on {report['device']}"
    if report["trouble"]:
        return Finding("warn", f"{finding}: {report['reason']}", "`fingerprint backend --prove` says more")
    return Finding("ok", finding)


def check_enrichment(options: Enrichment) -> Finding:
    """Check that the tables of addresses can be read and are not old, because addresses change owners."""
    files = [
        *filter(None, (options.country_file, options.network_owner_file)),
        *options.known_ranges_files,
    ]
    if not files:
        return Finding("ok", "no tables of addresses: countries and network owners are not shown")
    open_address_tables(options)
    now = SystemClock().now().timestamp()
    old = [file for file in files if now - os.stat(file).st_mtime > MAX_TABLE_AGE_DAYS * DAY_SECONDS]
    if old:
        return Finding(
            "warn", f"older than {MAX_TABLE_AGE_DAYS:.0f} days: {', '.join(old)}", "fetch newer tables"
        )
    return Finding("ok", f"{len(files)} tables of addresses: {', '.join(files)}")


def check_delivery(settings: Settings, database_url: str) -> Finding:
    """Check that receivers of alerts can be opened, and that a program has begun to deliver to each of them."""
    if not settings.deliver:
        return Finding("ok", "no receiver is set: alerts are in the queue alone")
    for name in settings.deliver:
        wiring.create_receiver(name, settings)
    served: frozenset[str] = frozenset()
    if store_exists(database_url):
        with closing(open_store(database_url, create=False)) as store:
            served = store.outbox.registered_receivers()
    if idle := [name for name in settings.deliver if name not in served]:
        return Finding("warn", f"no program has delivered to {', '.join(idle)} yet", DELIVER_SOMEWHERE)
    return Finding("ok", f"receivers: {', '.join(settings.deliver)}")


def check_disk(settings: Settings, bank: Path) -> Finding:
    """Check that the folders of the bank, of checkpoints and of temporary files have room."""
    folders = [*_local_folders(settings, bank), Path(tempfile.gettempdir())]
    free = {folder: shutil.disk_usage(folder).free for folder in folders}
    least = min(free, key=lambda folder: free[folder])
    finding = f"{free[least] / 2**30:,.1f} GiB are free at {least}"
    if free[least] < MIN_FREE_BYTES:
        return Finding("warn", finding, "make room, or name another folder (TMPDIR for temporary files)")
    return Finding("ok", finding)


def check_permissions(settings: Settings, bank: Path) -> Finding:
    """Check that local folders are writable, and that other users cannot read the bank."""
    folders = _local_folders(settings, bank)
    if locked := [str(folder) for folder in folders if not os.access(folder, os.R_OK | os.W_OK | os.X_OK)]:
        return Finding(
            "fail", f"this user cannot write to {', '.join(locked)}", "chown the folder to this user"
        )
    if exposed := [str(folder) for folder in folders if folder.stat().st_mode & stat.S_IRWXO]:
        return Finding("warn", f"other users can read {', '.join(exposed)}", f"chmod 700 {' '.join(exposed)}")
    return Finding(
        "ok", f"{len(folders)} local folders are writable" if folders else "no local folder exists yet"
    )


def _local_folders(settings: Settings, bank: Path) -> list[Path]:
    """Return the folders of the bank and of checkpoints that exist on this machine."""
    checkpoints = settings.checkpoints.url
    named = [bank] if "://" in checkpoints else [bank, Path(checkpoints)]
    return [folder for folder in named if folder.exists()]
