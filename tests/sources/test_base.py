"""The protocol of log sources: a made-up source goes the same way as CloudTrail from bytes to codes."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from fingerprint.compute import hashing
from fingerprint.core.log_source import LOG_SOURCE_VARIABLE
from fingerprint.core.ports.message_stream import Message
from fingerprint.core.settings import Entities, Settings
from fingerprint.sources.archives import read_records
from fingerprint.sources.base import (
    EVENT_COLUMNS,
    CallImpact,
    RecordBatch,
    gravest_calls,
    merge_batches,
)
from fingerprint.sources.cloudtrail import source as cloudtrail
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.decode import decode_messages
from fingerprint.sources.entities import ENTITY_COLUMNS, add_entity_columns
from fingerprint.sources.flatten import dedup_key, flatten
from fingerprint.sources.joined_lines import join_lines, lines_array
from fingerprint.sources.limits import ReadLimits
from fingerprint.sources.protocol import LogSource
from tests.support.alerts import event
from tests.support.print_log import source as print_log
from tests.support.print_log.features import FEATURE_SET

LINES = [
    b"2026-02-02T08:15:00Z alice printer-3",
    b"2026-02-02T09:30:00Z b|ob printer-3",
    b"2026-02-07T23:00:00Z alice plotter",
]
MESSAGES = [
    Message("prints", 0, 0, value=LINES[0]),
    Message("prints", 0, 1, value=b"\n".join([b"# header", LINES[1]])),
    Message("prints", 0, 2, value=b"2026-02-30 nonsense"),
    Message("prints", 0, 3, value=LINES[2]),
]
MEMBERS = sorted(name for name in dir(LogSource) if not name.startswith("_"))


@pytest.mark.parametrize("source", [cloudtrail, print_log], ids=lambda source: source.NAME)
@pytest.mark.parametrize("member", MEMBERS)
def test_a_source_has_every_member_of_the_protocol_with_its_parameters(source, member):
    wanted, found = inspect.getattr_static(LogSource, member), getattr(source, member)
    if isinstance(wanted, property):
        assert isinstance(found, str | bytes | tuple)
        return
    names = [name for name in inspect.signature(wanted).parameters if name != "self"]
    assert list(inspect.signature(found).parameters)[: len(names)] == names


@pytest.mark.parametrize(
    ("source", "lines"), [(cloudtrail, []), (print_log, LINES)], ids=["CloudTrail", "print log"]
)
def test_events_have_the_columns_that_detection_and_alerts_read(source, lines):
    events = flatten(source.split_lines(lines), "pandas", source).events
    assert set(EVENT_COLUMNS) <= set(events.columns)
    assert set(source.IDENTITY_COLUMNS) <= set(events.columns)
    assert {"service"} <= set(source.IDENTITY_COLUMNS), "an entity's key has the service"


def test_messages_of_another_source_become_events_with_entities():
    [*pieces] = decode_messages(MESSAGES, Settings(), log_source=print_log)
    rows = [row for piece in pieces for row in zip(piece.source, piece.events["entity"], strict=True)]
    assert rows == [
        (0, "office:user/alice|print|direct"),
        (1, "office:user/b%7Cob|print|direct"),
        (3, "office:user/alice|print|direct"),
    ]
    assert [(each.position, each.reason) for piece in pieces for each in piece.rejects] == [
        ("1/0", "not a line of three fields"),
        ("2/0", "not a line of three fields"),
    ]
    assert [each for piece in pieces for each in piece.lines if each.endswith(b"printer-3")] == LINES[:2]


def test_events_of_another_source_are_encoded_by_its_own_features():
    events = flatten(print_log.split_lines(LINES), "pandas", print_log).events
    codes = FEATURE_SET.encode(events)
    assert codes.shape == (3, 2)
    assert codes.dtype == np.uint64
    assert codes[0, 0] == codes[1, 0] != codes[2, 0]  # the same printer
    texts = FEATURE_SET.texts(events, FEATURE_SET.names)
    assert texts["hour"].tolist() == ["weekday 08-10 UTC", "weekday 08-10 UTC", "weekend 22-24 UTC"]
    for place, name in enumerate(FEATURE_SET.names):
        np.testing.assert_array_equal(codes[:, place], hashing.hash_distinct(texts[name]))


def test_files_of_another_source_are_read_by_its_own_rules():
    records = merge_batches(
        list(read_records("prints.jsonl", iter([b"\n".join(LINES)]), ReadLimits(), print_log))
    )
    assert records.lines == LINES
    assert [position for _, position in records.origins] == ["1", "2", "3"]


def test_a_repeat_of_another_source_is_known_by_account_and_event_id():
    events = flatten(print_log.split_lines(LINES), "pandas", print_log).events
    assert len(set(dedup_key(events).tolist())) == 3
    np.testing.assert_array_equal(dedup_key(events), dedup_key(events.copy()))


@pytest.mark.parametrize(
    ("granularity", "entity"),
    [
        ("principal_service", "office:user/alice|print|direct"),
        ("principal", "office:user/alice|*|direct"),
        ("service", "*|print|direct"),
    ],
)
def test_the_granularity_says_what_of_an_entity_is_left_out(granularity, entity):
    events = flatten(print_log.split_lines(LINES[:1]), "pandas", print_log).events
    named = add_entity_columns(events, Entities(granularity=granularity), print_log)
    assert named["entity"].tolist() == [entity]
    assert list(named.columns) == [*events.columns, *ENTITY_COLUMNS]


def test_a_process_reads_the_source_that_its_environment_names():
    script = """
import json
from fingerprint.core.ports.message_stream import Message
from fingerprint.core.settings import Settings
from fingerprint.features import encoding
from fingerprint.sources.active import SOURCE
from fingerprint.sources.decode import decode_messages
[piece] = decode_messages([Message("prints", 0, 0, value=b"2026-02-02T08:15:00Z alice printer-3")], Settings())
codes = encoding.FEATURE_SET.encode(piece.events)
print(json.dumps([SOURCE.NAME, encoding.FEATURE_NAMES, list(codes.shape), piece.events["principal"].tolist()]))
"""
    environment = os.environ | {LOG_SOURCE_VARIABLE: "tests.support.print_log"}
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == ["print log", ["action", "hour"], [1, 2], ["office:user/alice"]]


def test_batches_are_merged_in_their_order():
    parts = [
        split_lines([b'{"eventName": "A"}']),
        RecordBatch([], [], [], 2),
        split_lines([b'{"eventName": "B"}']),
    ]
    whole = merge_batches(parts)
    assert whole.lines == [b'{"eventName": "A"}', b'{"eventName": "B"}']
    assert whole.skipped == 2
    assert merge_batches(parts[:1]) is parts[0]


def test_joined_lines_are_cut_by_their_offsets():
    text, borders = join_lines([b"one", b"", b"three"])
    assert [text[begin:end] for begin, end in pairwise(borders)] == [
        b"one",
        b"",
        b"three",
    ]
    assert join_lines([])[1].tolist() == [0]
    for lines in ([b"one", b"", b"three"], []):
        array = lines_array(lines)
        array.validate(full=True)
        assert array.to_pylist() == lines


def test_of_effects_of_one_length_the_same_one_is_told_whichever_call_came_first():
    names = ("cat", "bob", "eve", "ann", "dan", "fay")
    calls = [event(number, "x", "Run") for number in range(len(names))]
    judged = [CallImpact("grave", f"runs code as {name}", "", "") for name in names]
    for order in (judged, judged[::-1]):
        found, _ = gravest_calls(calls, order)
        assert found.effect == "runs code as ann"
