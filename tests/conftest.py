"""What several test modules share: one small organisation, learned and scored once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import road
from services import kafka


@pytest.fixture(scope="session")
def organisation(tmp_path_factory: pytest.TempPathFactory) -> road.Road:
    """Twelve principals over twelve days with three attack sessions; a bank that learned the first nine days."""
    return road.build(tmp_path_factory.mktemp("organisation"))


@pytest.fixture(scope="session")
def scored(organisation: road.Road, tmp_path_factory: pytest.TempPathFactory) -> road.Run:
    """The last three days scored once, in the default way."""
    return road.run(organisation.new, organisation.bank, tmp_path_factory.mktemp("scored"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Broker]:
    """A real Kafka broker, started when the first test wants it."""
    try:
        with kafka.Broker.started(tmp_path_factory.mktemp("kafka")) as running:
            yield running
    except kafka.Unavailable as reason:
        if os.environ.get("REQUIRE_SERVICES") == "1":
            pytest.fail(str(reason))
        pytest.skip(str(reason))
