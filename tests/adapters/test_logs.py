"""A record is one line of JSON, whatever a field holds and whichever logger it comes from."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from fingerprint.adapters import logs
from fingerprint.core.log import get_logger


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged; the root logger is as before afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("fingerprint")
    before = root.handlers[:], root.level, ours.level
    root.handlers[:] = []
    stream = io.StringIO()
    logs.configure_logging(stream)
    yield stream
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


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
