"""Schedule files of tests over processes: a file stays with one process, and so do all that want the Kafka broker.

Each process of a run has services of its own, and of all services a broker takes the longest to start and to warm up. The first
process begins with the tests that mostly wait for services, the others with those that compute: so no core waits with them.

Example:
    >>> SuiteScheduling(config, log)._split_scope("tests/system/test_topic_admin.py::test_it")
    'broker'
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parents[2]
BROKER = "broker"
_BROKER_FIXTURE = re.compile(r"\bbroker: Broker\b|getfixturevalue\(\"broker\"\)")


class SuiteScheduling(LoadFileScheduling):
    """Keep the files that name the fixture `broker` together, and what waits for services with one process while it lasts."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return BROKER if _wants_broker(file) else file

    def _assign_work_unit(self, node: Any) -> None:
        if node is not self.nodes[0]:
            computes = next((scope for scope in self.workqueue if not _waits(scope)), None)
            if computes is not None:
                self.workqueue.move_to_end(computes, last=False)
        super()._assign_work_unit(node)


@cache
def _wants_broker(file: str) -> bool:
    return _BROKER_FIXTURE.search((ROOT / file).read_text()) is not None


def _waits(scope: str) -> bool:
    return scope == BROKER or scope.startswith("tests/system/")
