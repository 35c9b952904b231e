"""Loggers whose lines have a message and fields.

Example:
    >>> log = get_logger("fingerprint.ingest")
    >>> log.warning("paused", partitions=3)

They are structlog's, on top of the standard library's. A record has its fields in `record.fields`, so any handler can read them,
and so can pytest's `caplog`. `fingerprint.adapters.logs` writes the lines of a running program.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger

_STANDARD_OPTIONS = ("exc_info", "stack_info", "stacklevel")


def get_logger(name: str) -> BoundLogger:
    """Return the logger of a name. Pass a field `event` as `_event`, because structlog's name for the message is `event`."""
    return cast("BoundLogger", _LazyLogger(name))


class _LazyLogger:
    """A logger that is made at its first line: importing structlog takes 0.1 s of CPU, which a short command can save."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        return getattr(self._logger, method)

    @cached_property
    def _logger(self) -> BoundLogger:
        import structlog

        logger = structlog.wrap_logger(
            logging.getLogger(self._name), processors=[_to_record], wrapper_class=structlog.stdlib.BoundLogger
        )
        return cast("BoundLogger", logger.bind())


def _to_record(_: Any, __: str, entry: MutableMapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments for the standard library's logger.

    All fields are one attribute of the record. `structlog.stdlib.render_to_log_kwargs` would make each an attribute, and fail for
    a field called `name` or `message`.
    """
    message = (entry.pop("event"), *entry.pop("positional_args", ()))
    options = {option: entry.pop(option) for option in _STANDARD_OPTIONS if option in entry}
    fields = {"event" if name == "_event" else name: value for name, value in entry.items()}
    return message, {**options, "extra": {"fields": fields}}
