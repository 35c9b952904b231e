"""A person is not kept waiting by a server that never answers, and a service says what it waits for."""

from __future__ import annotations

import logging
import socket
import time

import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Database, Kafka, Settings
from pipelines.cli.common import with_database_timeout
from pipelines.runtime import wiring
from pipelines.runtime.service import announce_wait


def test_a_broker_that_accepts_a_connection_and_never_answers_is_given_up_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kafka = Kafka(bootstrap_servers=(f"127.0.0.1:{silent.getsockname()[1]}",))
        begun = time.monotonic()
        with pytest.raises(
            FingerprintError, match=r"no broker answers at 127\.0\.0\.1:\d+ \(it took too long\): start Kafka"
        ):
            wiring.require_answer(kafka, 1.0)
    assert time.monotonic() - begun < 20  # the client's own limit is 30 s


def test_a_database_server_is_given_up_after_five_seconds_and_a_file_stays_as_it_is():
    url = "postgresql://u@db.example/alerts"
    assert (
        with_database_timeout(Settings(database=Database(url=url))).database.url == f"{url}?connect_timeout=5"
    )
    assert with_database_timeout(Settings()).database.url == Settings().database.url


def test_a_long_wait_is_in_the_log_and_a_short_one_is_not(caplog):
    with caplog.at_level(logging.WARNING), announce_wait("the broker", after_seconds=0.05):
        until = time.monotonic() + 10
        while not caplog.records and time.monotonic() < until:
            time.sleep(0.01)
    assert [record.getMessage() for record in caplog.records] == ["waiting for the broker"]
    caplog.clear()
    with announce_wait("the database", after_seconds=0.2):
        pass
    time.sleep(0.4)
    assert not caplog.records
