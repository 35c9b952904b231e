"""Logging of a running program: one line of JSON on standard error for each record, a library's too.

Example:
    >>> configure_logging(); get_logger("fingerprint.ingest").warning("paused", partitions=3)
    {"time": "2026-03-02T10:00:00.123Z", "level": "warning", "logger": "fingerprint.ingest", "message": "paused", "partitions": 3}

structlog formats the lines, those of the standard library's loggers in the same way. Text of an attacker in a field cannot end
the line or steer a terminal: control and bidirectional characters are escapes. Passwords and tokens in URLs are masked, also in
tracebacks of libraries.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from structlog.processors import JSONRenderer
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict

from fingerprint.core.credentials import mask_credentials
from fingerprint.core.sanitize import printable


def configure_logging(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Write every record as one line from now on: ours from `level` on, those of libraries from warnings on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(json_formatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("fingerprint").setLevel(level)


def json_formatter() -> ProcessorFormatter:
    """Return a formatter: `time`, `level`, `logger`, `message`, the fields, then the traceback as `error`."""
    return ProcessorFormatter(processors=[_describe_record, _sanitize, JSONRenderer()])


def _describe_record(_: Any, __: str, entry: EventDict) -> EventDict:
    record: logging.LogRecord = entry["_record"]
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    line = {
        "time": moment.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": entry["event"],
        **getattr(record, "fields", {}),
    }
    if entry.get("exc_info"):
        line["error"] = logging.Formatter().formatException(entry["exc_info"])
    return line


def _sanitize(_: Any, __: str, entry: EventDict) -> EventDict:
    return {key: _to_json_value(value) for key, value in entry.items()}


def _to_json_value(value: Any) -> Any:
    if isinstance(value, str):
        return mask_credentials(printable(value))
    if isinstance(value, list | tuple):
        return [_to_json_value(part) for part in value]
    return value if isinstance(value, int | float | bool | None) else mask_credentials(printable(str(value)))
