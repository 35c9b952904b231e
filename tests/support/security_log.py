"""Security events as the program's log writes them: caught records through the real formatter, parsed again.

Example:
    >>> [line["reason"] for line in lines_of(caplog)]
    ['host']
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from fingerprint.adapters.logs import json_formatter

_formatter = json_formatter()


def written(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines as they go to standard error."""
    return [_formatter.format(each) for each in caplog.records if each.name == "fingerprint.security"]


def lines_of(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written(caplog)]
