"""`fingerprint stream` on the twins of cuDF and CuPy, which refuse what those refuse: it says what it says on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import road as roads
from streaming import Place, Records, Said

from fingerprint.backend import Backend

THERE = Backend("frames_elsewhere", "elsewhere", "cpu", "twins of a device's libraries")


@pytest.fixture
def place(organisation: roads.Road, tmp_path: Path) -> Place:
    return Place(tmp_path, organisation.bank).create()


def test_a_stream_on_a_device_says_what_one_on_the_cpu_says(
    place: Place, records: Records, oracle: Said
) -> None:
    place.send(records)
    figures = place.run(backend=THERE)
    assert figures["events"] > 1000
    assert place.said().differences(oracle) == []
    shown = {event.event_id: event.raw for alert in oracle.alerts.values() for event in alert.events}
    told = {event.event_id: event.raw for alert in place.said().alerts.values() for event in alert.events}
    assert told == shown, "the records, as AWS wrote them"


def test_what_a_device_remembered_a_cpu_goes_on_with_and_back(
    place: Place, records: Records, oracle: Said
) -> None:
    thirds = [records[: len(records) // 3], records[len(records) // 3 : -500], records[-500:]]
    for some, backend in zip(thirds, (THERE, None, THERE), strict=True):
        place.send(some)
        place.run(**({"backend": backend} if backend else {}))
    assert place.said().differences(oracle) == []
