"""A stream may be started before there is anything to judge by."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from fingerprint.registry import versions
from tests.contracts.message_stream import wait_until
from tests.support import sample_organisation
from tests.support.forked import Forked
from tests.support.running_stream import serve
from tests.support.services.ports import free_port
from tests.support.stream_environment import Place, Records, Said


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Topics, and no bank."""
    made = Place(tmp_path, tmp_path / "bank")
    made.configure(health={"port": free_port()})
    return made.create()


@pytest.fixture
def waiting(place: Place) -> Iterator[Forked]:
    """A stream that waits."""
    process = place.start("--wait")
    wait_until(lambda: "fingerprint_stream_waiting_for_bank 1.0" in asked(place, "/metrics"), "it waits")
    yield process
    process.kill()
    process.wait(30)


def asked(place: Place, path: str) -> str:
    """What the program's health server answers, well or not; nothing before it listens."""
    try:
        with urlopen(f"http://127.0.0.1:{place.settings.health.port}{path}", timeout=5) as answer:
            return answer.read().decode()
    except HTTPError as error:
        return error.read().decode()
    except ConnectionError:
        return ""
    except OSError as error:
        if isinstance(getattr(error, "reason", None), ConnectionRefusedError):
            return ""
        raise


def test_it_waits_for_the_first_bank_and_then_says_what_it_would_have_said(
    place: Place,
    waiting: Forked,
    organisation: sample_organisation.SampleOrganisation,
    records: Records,
    oracle: Said,
) -> None:
    place.send(records)
    wait_until(lambda: asked(place, "/readyz") == "ok\n", "Kafka and the database answer")
    assert asked(place, "/livez") == "ok\n"
    shutil.copytree(organisation.bank / "versions", place.bank / "versions")
    serve(place, versions.require_served_version(organisation.bank))
    wait_until(lambda: place.committed() == len(records) or waiting.poll() is not None, "all is dealt with")
    assert "fingerprint_stream_waiting_for_bank 0.0" in asked(place, "/metrics")
    waiting.send_signal(signal.SIGTERM)
    _out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err[-2000:]
    assert err.count("waiting for the first bank") == err.count("the first bank is served") == 1
    assert not place.said().differences(oracle)


def has_asked_all(readiness: str) -> bool:
    return bool(readiness) and "not asked yet" not in readiness


def test_who_waits_says_what_else_is_missing(place: Place, tmp_path: Path) -> None:
    """Else the first bank would be the first to show that nothing was ever reached."""
    nowhere, broken = f"127.0.0.1:{free_port()}", tmp_path / "broken.sqlite"
    kafka = {"bootstrap_servers": (nowhere,)}
    health = {"port": place.settings.health.port}
    broken.write_text("no database " * 1_000)
    place.configure(kafka=kafka, health=health, database={"url": f"sqlite:///{broken}"})
    process = place.start("--wait")
    try:
        wait_until(lambda: has_asked_all(asked(place, "/readyz")), "both were asked")
        said = asked(place, "/readyz")
        assert f"stream: kafka: no broker answers at {nowhere} (Connection refused)" in said
        assert "the file is not a database of SQLite" in said
        assert asked(place, "/livez") == "ok\n"
        assert 'fingerprint_ready{check="stream"} 0.0' in asked(place, "/metrics")
    finally:
        process.send_signal(signal.SIGTERM)
        _out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err[-2000:]
    assert err.count("a server that is needed does not answer") == 2


def test_who_is_asked_to_end_while_waiting_ends_well(place: Place, waiting: Forked) -> None:
    waiting.send_signal(signal.SIGTERM)
    out, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 0, err[-2000:]
    assert '"events": 0' in out
    assert "asked to end before there was a bank" in err


def test_who_is_not_told_to_wait_says_how_a_bank_is_made(place: Place) -> None:
    process = place.start()
    _out, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert f"no bank in {place.bank}: make one with `fingerprint train SOURCE" in err
