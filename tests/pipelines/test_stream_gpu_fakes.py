"""Whole programs on the fakes of cuDF and CuPy, which refuse what those refuse: they say what they say on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fingerprint.compute.backend import HOST_BACKEND, Backend
from pipelines.backfill import backfill
from pipelines.cli.console import no_progress
from pipelines.runtime import backend as backends
from pipelines.score import score_sources
from tests.support import sample_organisation
from tests.support.stream_environment import Place, Records, Said

THERE = Backend("fake_cudf", "fake_cupy", "cpu", "fakes of a device's libraries")


@pytest.fixture
def place(organisation: sample_organisation.SampleOrganisation, tmp_path: Path) -> Place:
    return Place(tmp_path, organisation.bank).create()


@pytest.mark.parametrize("there", ["fakes", pytest.param("device", marks=pytest.mark.gpu)])
def test_a_stream_on_a_device_says_what_one_on_the_cpu_says(
    place: Place, records: Records, oracle: Said, there: str
) -> None:
    place.send(records)
    figures = place.run(backend=THERE if there == "fakes" else backends.load_backend("cuda"))
    assert figures["events"] > 1000
    assert place.said().differences(oracle) == []
    shown = {event.event_id: event.raw for alert in oracle.alerts.values() for event in alert.events}
    told = {event.event_id: event.raw for alert in place.said().alerts.values() for event in alert.events}
    assert told == shown, "the records, as AWS wrote them"


def test_columns_come_to_a_device_as_records_do(place: Place, records: Records, oracle: Said) -> None:
    place.send_by_columns(value for _, value in records)
    assert place.run(backend=THERE)["events"] > 1000
    assert place.said().differences(oracle) == []


def test_what_a_device_remembered_goes_on_in_more_partitions_and_on_a_cpu_and_back(
    organisation: sample_organisation.SampleOrganisation, records: Records, oracle: Said, tmp_path: Path
) -> None:
    place, cuts = Place(tmp_path, organisation.bank), [0, len(records) // 4, len(records) // 2, -500, None]
    turns = ((2, THERE), (4, THERE), (4, HOST_BACKEND), (4, THERE))
    for (partitions, backend), begin, end in zip(turns, cuts[:-1], cuts[1:], strict=True):
        place.create(partitions)
        place.send(records[begin:end])
        place.run(backend=backend)
    assert place.said().differences(oracle) == []


def test_a_device_with_too_little_room_puts_away_and_says_the_same(
    place: Place, records: Records, oracle: Said
) -> None:
    place.configure(kafka={"max_poll_records": 1000}, stream={"max_series": 5})
    place.send(records)
    assert place.run(backend=THERE)["reloaded_buckets"] > 0
    assert place.said().differences(oracle) == []


@pytest.mark.parametrize("program", [score_sources, backfill])
def test_history_on_a_device_is_scored_as_on_the_cpu(
    program: Callable[..., dict[str, Any]],
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for choice in ("get_backend", "load_backend"):
        monkeypatch.setattr(
            backends, choice, lambda _: THERE
        )  # its device is a fake, which no one would choose
    store = f"sqlite:///{tmp_path}/alerts.sqlite"
    settings = sample_organisation.SETTINGS.model_copy(
        update={"workers": sample_organisation.SETTINGS.workers.model_copy(update={"backfill_parts": 2})}
    )
    figures = program(organisation.new, organisation.bank, settings, no_progress, database_url=store)
    for name in ("records", "events", "votes", "verdicts", "alerts", "silent_intervals"):
        assert figures[name] == scored.figures[name], name
