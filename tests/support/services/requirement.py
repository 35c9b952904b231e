"""A service that a test needs: where it cannot be had the test is skipped, or fails where CI counts on it.

Example:
    >>> with needed(), Broker.started(folder) as running:
    ...     yield running
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.services.debian_packages import Unavailable


@contextmanager
def needed() -> Iterator[None]:
    """With REQUIRE_SERVICES=1 what is Unavailable is a failure."""
    try:
        yield
    except Unavailable as reason:
        if os.environ.get("REQUIRE_SERVICES") == "1":
            pytest.fail(str(reason))
        pytest.skip(str(reason))
