"""The log source that this process reads, as `core.log_source` names it.

It is loaded once, and is the default argument of all functions that read records.

Example:
    >>> SOURCE.NAME
    'CloudTrail'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from fingerprint.core.log_source import LOG_SOURCE_PACKAGE
from fingerprint.sources.protocol import LogSource

if TYPE_CHECKING:  # mypy holds the module against the protocol
    from fingerprint.sources.cloudtrail import source as _cloudtrail

    _checked: LogSource = _cloudtrail

SOURCE: LogSource = cast(LogSource, import_module(f"{LOG_SOURCE_PACKAGE}.source"))
