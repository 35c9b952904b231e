"""Queries of the outbox read few of its deliveries; its contract is run by tests/pipelines/test_deliver.py."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support.query_plans import plans
from tests.support.web_app import store_in

READS = {
    "the backlog, every two seconds": lambda outbox: outbox.backlog("soc"),
    "failed deliveries of one receiver": lambda outbox: outbox.list_deliveries("soc", "failed"),
    "failed deliveries of all": lambda outbox: outbox.list_deliveries(state="failed"),
    "trying failed ones again": lambda outbox: outbox.retry_failed(datetime.now(UTC)),
    "deleting what was sent": lambda outbox: outbox.delete_sent(datetime.now(UTC)),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_the_deliveries_that_are_wanted_are_found_by_an_index(tmp_path, read):
    """A receiver has a sent delivery for each alert, and few that wait or failed."""
    store = store_in(tmp_path)
    plan = [step for step in plans(store, lambda: read(store.outbox)) if " deliveries " in step]
    wanted = ("(receiver=? AND state=?", "deliveries_newest (created_at<?)")
    assert [any(each in step for each in wanted) for step in plan] == [True], plan
