"""Schedule files of tests over processes: a file stays with one process, and so do all that want the Kafka broker.

Each process of a run has services of its own, and of all services a broker takes the longest to start and to warm up.

Example:
    >>> OneBrokerScheduling(config, log)._split_scope("tests/system/test_topic_admin.py::test_it")
    'broker'
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parents[2]
_BROKER_FIXTURE = re.compile(r"\bbroker: Broker\b|getfixturevalue\(\"broker\"\)")


class OneBrokerScheduling(LoadFileScheduling):
    """Keep the files that name the fixture `broker` together."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return "broker" if wants_broker(file) else file


@cache
def wants_broker(file: str) -> bool:
    """Return whether a file of tests, its path from the project's root, uses the broker."""
    return _BROKER_FIXTURE.search((ROOT / file).read_text()) is not None
