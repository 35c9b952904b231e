"""The stream loses nothing and says nothing twice, whatever happens to it: held against an undisturbed run."""

from __future__ import annotations

from pathlib import Path

import pytest
import road as roads
from streaming import Place, Said, keyed


@pytest.fixture(scope="session")
def records(organisation: roads.Road) -> list[tuple[bytes, bytes]]:
    """The new records of the organisation, keyed, in the order of delivery."""
    return keyed(roads.lines_of(organisation.new))


@pytest.fixture(scope="session")
def oracle(
    organisation: roads.Road, records: list[tuple[bytes, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> Said:
    """What an undisturbed run says."""
    place = Place(tmp_path_factory.mktemp("oracle"), organisation.bank).create()
    place.send(records)
    place.run()
    return place.said()


@pytest.fixture
def place(organisation: roads.Road, tmp_path: Path) -> Place:
    return Place(tmp_path, organisation.bank).create()


def test_an_undisturbed_run_finds_what_score_finds(oracle: Said, scored: roads.Run) -> None:
    found = {alert.alert_id: alert for alert in scored.alerts}
    assert {name: alert.event_ids for name, alert in oracle.alerts.items()} == {
        name: alert.event_ids for name, alert in found.items()
    }
