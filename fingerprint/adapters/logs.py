"""Logging of a running program: one line of JSON on standard error for each record, including those of libraries.

Example:
    >>> configure_logging(); get_logger("fingerprint.ingest").warning("paused", partitions=3)
    {"time": "2026-03-02T10:00:00.123Z", "level": "warning", "logger": "fingerprint.ingest", "message": "paused", "partitions": 3}

structlog formats all lines, including those of the standard library's loggers. An attacker's text in a field cannot end the
line or control a terminal, because control and bidirectional characters are escaped. Passwords and tokens in URLs are masked,
also in tracebacks of libraries. A record that a library repeats, as clients of an unavailable broker do, is written once in
REPEAT_SECONDS.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

from structlog.processors import JSONRenderer
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict

from fingerprint.core.credentials import mask_credentials
from fingerprint.core.sanitize import printable
from fingerprint.core.time_range import format_iso

REPEAT_SECONDS = 10.0  # between two equal records of a library
MAX_REMEMBERED = 1_000  # different records


def configure_logging(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Write every record as one line from now on: our records from `level` up, those of libraries from warnings up."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(json_formatter())
    handler.addFilter(RepeatFilter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("fingerprint").setLevel(level)


class RepeatFilter(logging.Filter):
    """Drop a library's record that repeats one of the last REPEAT_SECONDS. Our records, and those with a traceback, pass.

    Example:
        >>> handler.addFilter(RepeatFilter())
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now, self._said = now, dict[tuple[str, str], float]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        if record.name.partition(".")[0] == "fingerprint" or record.exc_info:
            return True
        what, now = (record.name, f"{record.msg} {record.args!r}"), self._now()
        if now - self._said.get(what, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return False
        if len(self._said) >= MAX_REMEMBERED:
            self._said.clear()
        self._said[what] = now
        return True


def json_formatter() -> ProcessorFormatter:
    """Return a formatter: `time`, `level`, `logger`, `message`, the fields, then the traceback as `error`."""
    return ProcessorFormatter(processors=[_describe_record, _sanitize, JSONRenderer()])


def _describe_record(_: Any, __: str, entry: EventDict) -> EventDict:
    record: logging.LogRecord = entry["_record"]
    line = {
        "time": format_iso(datetime.fromtimestamp(record.created, UTC), "milliseconds"),
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
