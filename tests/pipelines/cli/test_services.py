"""A person who waits for a service is told within seconds that its broker is not there, and what to do."""

from __future__ import annotations

import os
import pty
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fingerprint.core.settings import Settings
from pipelines import cli
from pipelines.cli import common
from tests.support.services.ports import free_port


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a broker that is not there, which the settings name."""
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("FINGERPRINT_KAFKA__BOOTSTRAP_SERVERS", address)
    monkeypatch.setenv("FINGERPRINT_HEALTH__PORT", "0")
    monkeypatch.chdir(tmp_path)
    return address


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Make standard error a terminal for the block; yield what reads one line of what was written to it.

    No fixture: pytest sets standard error once more before it calls a test.
    """
    ours, theirs = pty.openpty()
    with (
        os.fdopen(theirs, "w", buffering=1) as screen,
        os.fdopen(ours) as reader,
        monkeypatch.context() as patch,
    ):
        patch.setattr(sys, "stderr", screen)
        yield reader.readline


def end_status(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["fingerprint", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def refusal(broker: str) -> str:
    """Return the sentence of the check: the reason tells it from a client that tried until its own timeouts ended."""
    return f"fingerprint: no broker answers at {broker} (Connection refused): start Kafka, or set kafka.bootstrap_servers"


@pytest.mark.parametrize(
    "arguments",
    [
        ("ingest", "--once"),
        ("ingest", "--sqs", "https://sqs.eu-west-1.amazonaws.com/111122223333/trail", "--once"),
        ("stream", "--once"),
        ("retrain", "--once"),
        ("simulate-live", "--days", "4"),
    ],
    ids=" ".join,
)
def test_a_program_that_runs_once_says_soon_that_there_is_no_broker(
    arguments: tuple[str, ...],
    broker: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert end_status(monkeypatch, *arguments) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", refusal(broker) + "\n")


@pytest.mark.parametrize("arguments", [("ingest",), ("stream", "--wait"), ("retrain",)], ids=" ".join)
def test_a_service_in_a_terminal_says_soon_that_there_is_no_broker(
    arguments: tuple[str, ...],
    broker: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with terminal(monkeypatch) as read_line:
        assert end_status(monkeypatch, *arguments) == 2
        assert read_line() == refusal(broker) + "\n"


def test_a_service_without_a_terminal_keeps_its_own_timeouts(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "postgresql://u@db.example/alerts"
    monkeypatch.setattr(common, "require_answering_broker", lambda loaded: loaded)
    assert common.load_service_settings(None, once=False, database=url).database.url == url
    limited = common.load_service_settings(None, once=True, database=url)
    assert limited.database.url == f"{url}?connect_timeout=5"
    assert limited.kafka.request_timeout_ms == Settings().kafka.request_timeout_ms
