"""One line of JSON on standard error for everything a running program has to say.

Example:
    >>> start(); logging.getLogger("fingerprint.ingest").warning("paused", extra={"fields": {"partitions": 3}})
    {"time": "2026-03-02T10:00:00.123Z", "level": "warning", "logger": "fingerprint.ingest", "message": "paused", "partitions": 3}

What a record's author could have written into a field cannot end the line or steer a terminal: control and
bidirectional characters are escapes. Passwords and tokens in URLs are masked, also in tracebacks of libraries.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from fingerprint.core.credentials import mask_credentials
from fingerprint.core.sanitize import printable


class JsonFormatter(logging.Formatter):
    """`time`, `level`, `logger`, `message`, then the fields given as `extra={"fields": {...}}`, then the error."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps({key: _to_json_value(value) for key, value in line.items()}, default=str)


def configure_logging(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """From now on everything that is logged is one such line; libraries from warnings on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("fingerprint").setLevel(level)
    logging.getLogger("kafka.net.selector").setLevel(
        logging.ERROR
    )  # warns of every 0.1 s that a machine is busy


def _to_json_value(value: Any) -> Any:
    if isinstance(value, str):
        return mask_credentials(printable(value))
    if isinstance(value, list | tuple):
        return [_to_json_value(part) for part in value]
    return value if isinstance(value, int | float | bool | None) else mask_credentials(printable(str(value)))
