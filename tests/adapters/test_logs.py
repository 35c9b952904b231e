"""A record is one line of JSON, whatever a field holds and whichever logger it comes from."""

from __future__ import annotations

import io
import json
import logging

import pytest
from structlog.stdlib import ProcessorFormatter

from fingerprint.adapters import logs
from fingerprint.core.log import get_logger


@pytest.fixture
def lines() -> io.StringIO:
    """What is logged."""
    logging.getLogger().handlers[:] = []
    stream = io.StringIO()
    logs.configure_logging(stream)
    return stream


@pytest.mark.parametrize("turn", ["one test", "the next test"])
def test_a_program_that_a_test_ran_writes_no_record_of_the_next_test(turn: str) -> None:
    root, ours = logging.getLogger(), logging.getLogger("fingerprint")
    assert not any(isinstance(handler.formatter, ProcessorFormatter) for handler in root.handlers)
    assert (root.level, ours.level) == (logging.WARNING, logging.NOTSET)
    logs.configure_logging(level=logging.DEBUG)


def test_what_an_attacker_wrote_cannot_end_a_line_or_steer_a_terminal(lines: io.StringIO) -> None:
    nasty = "a\nb\x1b[2J\x7f\u202e\ud800"
    get_logger("fingerprint.test").info("read %s", nasty, reason=nasty, count=3)
    (line,) = lines.getvalue().splitlines()
    assert line.isascii()
    assert line.isprintable()
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["count"]) == ("info", "fingerprint.test", 3)
    assert entry["message"] == "read " + entry["reason"] == "read a\\x0ab\\x1b[2J\\x7f\\u202e\\ud800"


def test_an_error_is_one_line_too(lines: io.StringIO) -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        get_logger("fingerprint.test").exception("went wrong")
    (line,) = lines.getvalue().splitlines()
    assert "first\\x0asecond" in json.loads(line)["error"]


def test_a_record_of_a_library_has_the_same_shape(lines: io.StringIO) -> None:
    logging.getLogger("library").warning("lost https://me:%s@example.com", "hunter2")
    logging.getLogger("library").info("of no interest")
    (line,) = lines.getvalue().splitlines()
    entry = json.loads(line)
    assert list(entry) == ["time", "level", "logger", "message"]
    assert entry["message"] == "lost https://***@example.com"


def test_fields_follow_the_message_in_their_order_whatever_they_are_called(lines: io.StringIO) -> None:
    log = get_logger("fingerprint.test")
    log.warning("refused", name="a name", _event="login", message_id=None, sources=["one", 2.5])
    (line,) = lines.getvalue().splitlines()
    assert list(json.loads(line).items())[1:] == [
        ("level", "warning"),
        ("logger", "fingerprint.test"),
        ("message", "refused"),
        ("name", "a name"),
        ("event", "login"),
        ("message_id", None),
        ("sources", ["one", 2.5]),
    ]


def test_the_handlers_of_others_get_a_plain_record(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("fingerprint.test").warning("read %d of %d", 1, 2, path="x")
    (record,) = caplog.records
    assert (record.getMessage(), record.fields) == ("read 1 of 2", {"path": "x"})


def test_a_library_that_says_the_same_is_heard_once_in_ten_seconds_and_we_always() -> None:
    clock = [0.0]
    repeat = logs.RepeatFilter(lambda: clock[0])

    def heard(logger: str, message: str, *arguments: object, error: bool = False) -> bool:
        record = logging.LogRecord(logger, logging.ERROR, "", 0, message, arguments, None)
        record.exc_info = (ValueError, ValueError(), None) if error else None
        return repeat.filter(record)

    assert heard("kafka.cluster", "Topic %s not found", "nope")
    assert not heard("kafka.cluster", "Topic %s not found", "nope")
    assert heard("kafka.cluster", "Topic %s not found", "other")
    assert heard("kafka.net", "Topic %s not found", "nope")
    assert all(heard("fingerprint.stream", "paused") for _ in range(2))
    assert all(heard("uvicorn.error", "Exception in ASGI application", error=True) for _ in range(2))
    clock[0] = logs.REPEAT_SECONDS
    assert heard("kafka.cluster", "Topic %s not found", "nope")
    assert heard("kafka.cluster", "%s and %s", "too few"), "nothing that a library says ends the program"


def test_what_was_said_is_remembered_in_bounded_memory() -> None:
    repeat = logs.RepeatFilter()
    for number in range(3 * logs.MAX_REMEMBERED):
        repeat.filter(logging.LogRecord("library", logging.ERROR, "", 0, f"line {number}", (), None))
    assert len(repeat._said) <= logs.MAX_REMEMBERED
