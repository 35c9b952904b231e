"""Helpers of all commands: the settings behind the options, time limits for a person who waits, and the printing of results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pipelines.cli.run import EXIT_REFUSED

if TYPE_CHECKING:
    from fingerprint.core.settings import Settings

INTERACTIVE_TIMEOUT_SECONDS = 5  # a command waits as long for an unreachable broker or database
NO_OVERRIDES: Mapping[str, dict[str, Any]] = {}


def load_settings(file: Path | None, overrides: Mapping[str, dict[str, Any]] = NO_OVERRIDES) -> Settings:
    """Return the settings of a file and the environment, with the options given on the command line on top."""
    from fingerprint.core import settings

    return settings.load_settings(file, options=overrides)


def load_interactive_settings(
    file: Path | None, overrides: Mapping[str, dict[str, Any]] = NO_OVERRIDES
) -> Settings:
    """Return the settings for a command that a person waits for.

    An unreachable broker or database is given up after 5 seconds.
    """
    loaded = with_database_timeout(load_settings(file, overrides))
    kafka = loaded.kafka
    timeout = min(kafka.request_timeout_ms, INTERACTIVE_TIMEOUT_SECONDS * 1000)
    return loaded.model_copy(update={"kafka": kafka.model_copy(update={"request_timeout_ms": timeout})})


def is_awaited(once: bool = False) -> bool:
    """Return whether a person waits for a program: it runs once, or it writes its messages to a terminal."""
    return once or sys.stderr.isatty()


def load_service_settings(file: Path | None, once: bool, database: str | None = None) -> Settings:
    """Return the settings of a service that uses the broker, with the database of the option if it names one.

    If a person waits for the service, it gives up an unreachable database after 5 seconds, and this function raises
    FingerprintError unless the broker answers in that time.
    """
    loaded = load_settings(file)
    if database:
        loaded = _with_database_url(loaded, database)
    return require_answering_broker(with_database_timeout(loaded)) if is_awaited(once) else loaded


def require_broker(settings: Settings) -> Settings:
    """Return the settings. Raise FingerprintError unless their broker accepts a connection within 5 seconds."""
    from pipelines.runtime import wiring

    wiring.require_broker(settings.kafka, INTERACTIVE_TIMEOUT_SECONDS)
    return settings


def require_answering_broker(settings: Settings) -> Settings:
    """Return the settings, with their own timeouts. Raise FingerprintError unless their broker answers within 5 seconds."""
    from pipelines.runtime import wiring

    wiring.require_answer(settings.kafka, INTERACTIVE_TIMEOUT_SECONDS)
    return settings


def database_url(given: str | None, file: Path | None) -> str:
    """Return the URL of the database of the option, else of the settings; an unreachable server is given up after 5 seconds."""
    return with_connect_timeout(given or load_settings(file).database.url)


def with_database_timeout(settings: Settings) -> Settings:
    """Return the settings with a database whose server is given up after 5 seconds."""
    return _with_database_url(settings, with_connect_timeout(settings.database.url))


def _with_database_url(settings: Settings, url: str) -> Settings:
    database = settings.database.model_copy(update={"url": url})
    return settings.model_copy(update={"database": database})


def with_connect_timeout(url: str) -> str:
    """Return a PostgreSQL URL with a connection timeout of 5 seconds, unless it names one; any other URL as it is."""
    if not url.startswith(("postgres://", "postgresql")) or "connect_timeout=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}connect_timeout={INTERACTIVE_TIMEOUT_SECONDS}"


def workers_override(where: str | None) -> dict[str, dict[str, Any]]:
    """Return the settings that the option `--workers` overrides."""
    return {"workers": {"scheduler": where}}


def exit_refused(reason: str | None) -> None:
    """Exit with status 3 if there is a reason, and print it: a bank is stored but not served, or a device reads differently."""
    if reason:
        print(f"fingerprint: {reason}", file=sys.stderr)
        raise typer.Exit(EXIT_REFUSED)


def print_result(
    figures: dict[str, Any] | list[dict[str, Any]], as_json: bool, human: Callable[[], None]
) -> None:
    """Print figures as one JSON document on standard output, or call `human` to print them for people."""
    if as_json:
        import json

        typer.echo(json.dumps(figures, indent=1, default=str))
    else:
        human()
