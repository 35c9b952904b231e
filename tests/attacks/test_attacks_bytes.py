"""An attacker who sends any bytes to a raw topic or bucket: ingestion goes on, and his attacks raise the same alerts."""

from __future__ import annotations

import ast
import base64
import gzip
import importlib
import json
import re
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from fingerprint.adapters import files
from fingerprint.core import sanitize
from fingerprint.core.alert import Reject
from fingerprint.core.ports.message_stream import Message
from fingerprint.core.settings import Reading, Settings
from fingerprint.sources import decode, json_pieces
from fingerprint.sources import limits as read_limits
from fingerprint.sources.base import RecordBatch, merge_batches
from fingerprint.sources.cloudtrail import envelopes
from fingerprint.sources.limits import ReadLimits
from fingerprint.streaming.poison import POISON_REASON
from fingerprint.streaming.rekeying import Rekeyer
from tests.streaming.test_rekeying import record, wrapped
from tests.support import sample_organisation
from tests.support.cpu_time import runs_within
from tests.support.crash_on_poison import POISON, run_deadly
from tests.support.forked import Forked
from tests.support.stream_environment import Place, Records, Said
from tests.system.test_ingest import InMemory, expected
from tests.system.test_ingest import records as some

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
CPU_SECONDS = 1.0  # for a MiB of anything


def bomb(mebibytes: int, copies: int, text: bytes = record(0) + b"\n") -> bytes:
    """Gzip of gzip of an array of `awslogs`, each base64 of gzip of so many MiB of lines."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    chunk = text * (MIB // len(text))
    inner = b"".join(packer.compress(chunk) for _ in range(mebibytes)) + packer.flush()
    logs = b'{"awslogs":{"data":"%s"}}' % base64.b64encode(inner)
    return gzip.compress(gzip.compress(wrapped(*[logs] * copies)))


# --- one budget -------------------------------------------------------------------------------------------------------


def test_what_is_wrapped_in_a_message_shares_one_budget_however_it_is_nested() -> None:
    limits = ReadLimits(max_document_bytes=8 * MIB)
    found = envelopes.split_message(bomb(3, 40), limits=limits)
    assert sum(map(len, found.lines)) < 8 * MIB
    assert {each.reason.partition(" with")[0] for each in found.rejects} == {
        "expands to more than 8,388,608 bytes"
    }
    assert sum(each.count for each in found.rejects) == 38


def test_a_bomb_ends_in_bounded_memory_as_one_dead_letter_and_its_neighbours_are_read(tmp_path: Path) -> None:
    """2.5 GB in a few kilobytes, in a process of its own; before, it needed 6 GB, whatever the bound."""
    code = (
        "import sys, resource; from pathlib import Path\n"
        "from fingerprint.streaming.rekeying import Rekeyer; from fingerprint.core.ports.message_stream import Message\n"
        "from fingerprint.core.settings import Settings; from fingerprint.sources import limits\n"
        "limits.MAX_DOCUMENT_BYTES = 32 << 20\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "values = [Path(each).read_bytes() for each in sys.argv[1:]]\n"
        "polled = [Message('raw', 0, n, value=value) for n, value in enumerate(values)]\n"
        "records = dead = 0\n"
        "for batch in Rekeyer(Settings()).rekey(polled):\n"
        "    records += int((batch.record_sources != 1).sum()); dead += len(batch.dead_letters)\n"
        "print(records, dead, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)\n"
    )
    values = [record(1), bomb(25, 100), record(2)]
    paths = [tmp_path / str(number) for number in range(3)]
    for path, value in zip(paths, values, strict=True):
        path.write_bytes(value)
    assert len(values[1]) < 25_000
    command = [sys.executable, "-c", code, *map(str, paths)]
    said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)  # noqa: S603
    good, dead, mebibytes = map(int, said.stdout.split())
    assert (good, dead) == (2, 1)
    assert mebibytes < 600, "one message's budget is 32 MiB"


@pytest.mark.parametrize("name", ["a.json.gz", "a.jsonl"])
def test_a_file_or_object_has_one_budget_too(tmp_path: Path, name: str) -> None:
    logs = json.dumps({"awslogs": {"data": base64.b64encode(gzip.compress(b" " * MIB)).decode()}}).encode()
    lines = b"\n".join([record(0), *[logs] * 30, record(1)]) + b"\n"
    (tmp_path / name).write_bytes(gzip.compress(lines) if name.endswith("gz") else lines)
    found = merge_batches(
        list(files.read_sources([str(tmp_path)], Reading(), limits=ReadLimits(max_expanded_bytes=10 * MIB)))
    )
    assert len(found.lines) == 2
    assert 19 <= sum(each.count for each in found.rejects) <= 21


def test_thousands_of_lines_of_garbage_are_few_rejects_and_one_letter() -> None:
    value = gzip.compress(b"[[1]]\n" * 17_000)
    found = list(envelopes.split_message_in_parts(value))
    rejects = [each for part in found for each in part.rejects]
    assert len(rejects) == envelopes.MAX_REJECTS_PER_MESSAGE + 1
    assert sum(each.count for each in rejects) == 17_000
    letters = [
        letter
        for batch in Rekeyer(Settings()).rekey([Message("raw", 0, 0, value=value)])
        for letter in batch.dead_letters
    ]
    assert len(letters) == 1
    assert b"and 16,999 more in this message" in (dict(letters[0].headers)["reason"] or b"")


def test_a_message_has_so_many_records_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelopes, "MAX_RECORDS", 1000)
    found = envelopes.split_message(gzip.compress(wrapped(*[b'{"a":1}'] * 5000)))
    assert len(found.lines) == 1000
    assert [each.reason for each in found.rejects] == [
        "more than 1,000 records in one message: the rest is not read"
    ]


def test_a_message_that_holds_much_comes_in_pieces_and_is_done_with_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(envelopes, "PART_RECORDS", 50)
    monkeypatch.setattr("fingerprint.compute.backend.HOST_BATCH_BYTES", 60_000)
    monkeypatch.setattr(json_pieces, "SCAN_BYTES", 4_000)
    lines = [record(number) for number in range(1000)]
    polled = [
        Message("raw", 0, number, value=value)
        for number, value in enumerate(
            [record(2000), gzip.compress(b"\n".join([*lines, b"{}"])), record(2001)]
        )
    ]
    pieces = list(decode.decode_messages(polled, Settings()))
    assert [piece.complete_until for piece in pieces] == [1, *[1] * (len(pieces) - 3), 2, 3]
    assert len(pieces) > 4
    ids = [each for piece in pieces for each in piece.events["event_id"]]
    assert ids == ["event-2000", *[f"event-{number}" for number in range(1000)], "event-2001"]
    batches = list(Rekeyer(Settings()).rekey(polled))
    assert [int(n) for batch in batches for n in batch.dead_letter_sources] == [1]


def test_an_array_in_windows_gives_what_it_gives_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tricky = [
        rb'{"eventVersion":"\\\"},{\"eventVersion\":"}',
        b'{"eventVersion":[{"eventVersion":1},{"eventVersion":2}]}',
        b'{"a":{}}',
        b"3",
        b"[1,2]",
    ]
    text = b"[" + b" , ".join((tricky + [record(n) for n in range(9)]) * 30) + b"]"
    whole = envelopes.split_message(text)
    for chunk in (7, 64, 1000):
        monkeypatch.setattr(json_pieces, "COMMA_SCAN_THRESHOLD", 1)
        monkeypatch.setattr(json_pieces, "SCAN_BYTES", chunk)
        cut = envelopes.split_message(text)
        assert (cut.lines, cut.origins, cut.rejects) == (whole.lines, whole.origins, whole.rejects)


def test_what_does_not_fit_into_memory_is_that_messages_reject(monkeypatch: pytest.MonkeyPatch) -> None:
    flatten, large = decode.flatten, b'{"eventVersion": "1.08", "large": 1}'

    def full(found: RecordBatch, *rest: Any) -> Any:
        if large in found.lines:
            raise MemoryError
        return flatten(found, *rest)

    monkeypatch.setattr(decode, "flatten", full)
    polled = [
        Message("raw", 0, number, value=value) for number, value in enumerate([record(0), large, record(1)])
    ]
    pieces = list(decode.decode_messages(polled, Settings()))
    assert [each for piece in pieces for each in piece.events["event_id"]] == ["event-0", "event-1"]
    assert [each for piece in pieces for each in piece.rejects] == [
        Reject("", "1", "does not fit into memory")
    ]


# --- linear -----------------------------------------------------------------------------------------------------------

ESCAPED = '{"eventVersion":"' + '\\"' * (MIB // 2) + "\\"
WHOLE: dict[str, bytes] = {
    "an open string that ends in a backslash": ESCAPED.encode(),
    "the same under an envelope": b'{"Records":[' + ESCAPED.encode(),
    "blanks after a record": record(0) + b" " * MIB + b"x",
    "blanks after many braces": (b"}" + b" " * 1000) * 1000 + b'{"a":1}',
    "opened for ever": b'{"a":' * (MIB // 5),
    "arrays opened for ever": b"[" * MIB,
    "braces and nothing else": b"{" * MIB,
    "empty objects": b"{}" * (MIB // 2),
    "empty strings": b'{"":' * (MIB // 4),
    "gzip members without anything in them": gzip.compress(b"") * (MIB // 20),
    "Records for ever": b'{"Records":[' * (MIB // 12),
    "texts opened for ever": b'["{' * (MIB // 3),
    "a text of escapes": b'"{' + b'\\"' * (MIB // 2) + b'"',
    "lookup-events opened for ever": b'{"Events":[{"CloudTrailEvent":"{' * (MIB // 32),
    "log shippers for ever": b'{"_source":{"message":"{' * (MIB // 24),
    "a log shipper around anything": b'{"message":' + json.dumps("{" * MIB).encode() + b"}",
    "base64": b"H4sI" * (MIB // 4),
    "UTF-16": b"\xff\xfe" + b"\x00\xd8" * (MIB // 2),
    "NULs": b"{" + b"\x00" * MIB + b"}",
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_mebibyte_of_anything_is_read_in_less_than_a_second(name: str) -> None:
    assert runs_within(CPU_SECONDS, lambda: envelopes.split_message(WHOLE[name]))
    assert runs_within(CPU_SECONDS, lambda: json_pieces.json_depth(WHOLE[name]))


@pytest.mark.parametrize(
    ("item", "count"),
    [(b"[]", 200_000), (b'"{}"', 100_000), (b'{"CloudTrailEvent":"{}"}', 100_000)],
)
def test_a_document_of_many_small_items_costs_time_in_proportion_to_it(item: bytes, count: int) -> None:
    assert runs_within(
        5 * CPU_SECONDS, lambda: envelopes.split_message(b"[" + b",".join([item] * count) + b"]")
    )


Use = Callable[[re.Pattern[Any], Any], Any]


def search(pattern: re.Pattern[Any], text: Any) -> Any:
    return pattern.search(text)


def all_of(pattern: re.Pattern[Any], text: Any) -> Any:
    return sum(1 for _ in pattern.finditer(text))


def match(pattern: re.Pattern[Any], text: Any) -> Any:
    return pattern.match(text)


def match_each(pattern: re.Pattern[Any], texts: Any) -> Any:
    return [pattern.match(text) for text in texts]


# Every pattern that meets input, how it is used, and what would cost it most. Those that are inline are named by their text.
WORST: dict[str, tuple[Use, Any]] = {
    "sources.cloudtrail.envelopes._NO_BLANK": (search, b" " * MIB),
    "sources.cloudtrail.envelopes._BARE": (match, b"{" + b" " * MIB),
    "sources.cloudtrail.envelopes._HINT": (search, b'"message' * (MIB // 8)),
    "sources.cloudtrail.envelopes._RECORDS": (
        search,
        b'"Records"' * (MIB // 18) + b'"Records"' + b" " * (MIB // 2),
    ),
    "sources.json_pieces._FIRST_KEY": (
        search,
        (b"{" + b" " * 100 + b'"' + b"a" * 64 + b'"' + b" " * 50) * (MIB // 217),
    ),
    "sources.json_pieces._STRING": (all_of, ESCAPED.encode()),
    "sources.json_pieces._BRACES": (all_of, ESCAPED.encode()),
    "sources.json_pieces._record_boundary": (all_of, b"}" + b" " * MIB + b"x"),
    "core.sanitize._UNPRINTABLE": (all_of, "\x1b" * MIB),
    "core.sanitize._PIECE": (all_of, '"' + '\\"' * (MIB // 2) + "\\"),
    "core.alert_query._WORD": (all_of, "a_" * (MIB // 2)),
    "core.alert_query._CAMEL_PART": (all_of, "Aa" * (MIB // 2)),
    "core.alert_query._PLAIN": (match, "a" * MIB),
    "features.value_texts._PRODUCT": (all_of, "a" * MIB),
    "features.value_texts._SYSTEM": (all_of, "mac o" * (MIB // 5)),
    "features.value_texts._ATTACK_SYSTEM": (all_of, "-blackarc" * (MIB // 9)),
    "features.value_texts._ID_IN_NAME": (all_of, "-" + "0a" * (MIB // 2) + "g"),
    "sources.base._RESERVED": (all_of, "/" * MIB),
    "sources.cloudtrail.identity._RUN": (
        match_each,
        ("repo:a/" + "a" * MIB, "aa" + "-a" * (MIB // 2), "organization:a:pipeline:a:ref:" + "a" * MIB),
    ),
    "sources.cloudtrail.identity._INSTANCE": (match, "i-" + "0" * MIB),
    "sources.cloudtrail.identity._PERSONAL": (match, "a@" + "." * MIB + " "),
    "features.peer_groups._GENERATED": (all_of, "-A" + "0" * MIB + "-A00000000000" * (MIB // 13)),
    "features.peer_groups._NUMBERS": (all_of, "abcdefag" * (MIB // 8)),
    "sources.cloudtrail.attack_mappings._API_VERSION": (all_of, "20150331v" + "2015_03_31v1" * (MIB // 12)),
    "sources.cloudtrail.playbook_undo._CONTAINING_POLICIES": (match, "arn:aws" + "a-" * (MIB // 2)),
    "sources.cloudtrail.playbook_undo._EARLIER_FILE": (all_of, "file://EARLIER_" + "a" * MIB),
    "sources.cloudtrail.named_accounts._BARE_ACCOUNT": (
        all_of,
        '"aws":["aws","' * (MIB // 28) + '"portfolioId":"","target":{' * (MIB // 54),
    ),
    "sources.cloudtrail.resources._ARN": (match, "arn:aws:" + ":" * MIB),
    "sources.cloudtrail.resources._TYPE": (match, "a" * MIB),
    "sources.cloudtrail.resources._SECRET_SUFFIX": (search, "-AAAAAA" * (MIB // 7)),
    "sources.cloudtrail.resources._VARIABLE": (all_of, "-a1a1A" * (MIB // 6)),
    "sources.cloudtrail.resources._GENERATED_ID": (search, ":aaaaa-00000000" * (MIB // 15)),
    "sources.cloudtrail.s3_layout._ACCOUNT_REGION": (match, "/AWSLogs/o-a" * (MIB // 12)),
    "sources.cloudtrail.s3_layout._OWNER": (match_each, ("o-" + "a" * MIB + "-", "1" * MIB)),
    "sources.cloudtrail.s3_layout._DAY": (search, "/AWSLogs/a/CloudTrail/a/2026/01/01/" * (MIB // 35)),
    "sources.cloudtrail.s3_layout._TRAIL": (search, "/AWSLogs/a/CloudTrail" * (MIB // 21) + "x"),
    "sources.cloudtrail.s3_layout._MONTH": (search, "/AWSLogs/a/CloudTrail/a/2026/" * (MIB // 29)),
    "state.feed_activity._ACCOUNT": (match, "1" * MIB),
    "state.feed_activity._REGION": (match, "aa-" + "aaaaaaaaaaaa-" * (MIB // 13)),
    "store.filter_values._ACCOUNT": (match, "1" * MIB),
    "delivery.formats.csv._WORKED_OUT": (all_of, ";" * MIB),
    "delivery.notification._EMAIL": (search, "a" * 4096),
    "delivery.formats.slack._MENTION": (all_of, "]@" * (MIB // 2)),
    "web.formatting._BREAKS": (all_of, " " * MIB),
    "web.flash._SELECTION": (match, "1" * MIB),
    "web.middleware.NETLOC_PATTERN": (match, "a." * (MIB // 2)),
    "web.urls._PLAIN_PATH": (match, "a/" * (MIB // 2)),
    "core.egress.PLAIN_URL": (match, "a" * MIB),
    "core.account.ACCOUNT_NAME_PATTERN": (match, "a" * MIB),
    "core.credentials._USERINFO": (all_of, "http://" + "a:" * (MIB // 2)),
    "core.credentials._PARAMETER": (all_of, "?" + "a-" * (MIB // 2)),
    "core.credentials._SECRET": (all_of, "passwor" * (MIB // 7)),
    "registry.versions.VERSION_PATTERN": (match, "a" * MIB),
    "core.passwords.WORD_PATTERN": (all_of, "ab " * (MIB // 3)),
    "store.factor_rows.TOTP_SECRET_PATTERN": (match, "A" * MIB),
}
WORST["delivery.notification._EMAIL"] = (match, "a@" + "a" * MIB)

# Those that only meet what our own side wrote: settings, our own files, a broker's or a server's words, results of our tests.
OURS = {
    "evaluation.vote_rates.CI_NAMES": "names of principals in an evaluation",
    "evaluation.leakage_check._ID": "records that we simulate",
    "evaluation.leakage_check._ACTION_FIELDS": "records that we simulate",
    "web.static_report": "the id of an alert, made of content by us",
    "core.alert_query._TOKEN": "a query: 1,000 characters at most (test_no_text_takes_long_to_read)",
    "core.alert_query._LISTED": "a list in a query: 1,000 characters at most",
    "core.alert_query._quote": "a value of a query: one class of characters",
    "web.api.incidents": "an ETag, as of cases",
    "web.api.cases": "an ETag: ten digits at most are read, and a header is at most 64 KiB",
    "adapters.kafka.confluent_connection._NOISE": "words of the broker's client",
    "adapters.kafka.kafka_python_connection._NOISE": "words of the broker's client",
    "adapters.aws.session._REGION": "the queue's URL, a setting",
    "adapters.triton.repository._SERVED_VERSIONS_LINE": "a file that we write",
    "adapters.triton.repository._INSTANCE_COUNT": "a file that we write",
    "adapters.triton.client._error_reason": "what the server says of our own model",
    "adapters.checkpoints.manifest._TOPIC": "names of our own files",
    "adapters.checkpoints.manifest._MANIFEST": "names of our own files",
    "adapters.checkpoints.manifest._PART": "names of our own files",
    "adapters.checkpoints.manifest._STORED": "names of our own files",
    "adapters.aws.sqs._URL": "the queue's URL, a setting",
    "core.settings.__init__.": "settings",
    "core.settings.clusters.": "settings",
    "core.settings.detection.": "settings",
    "core.settings.web.": "settings",
    "delivery.notification": "twelve digits of an account, in a text of a bounded length",
    "sources.cloudtrail.identity": "patterns of roles that the settings name",
    "core.account": "a name of a person whom a provider vouches for: one class of characters",
    "compute.cuda": "names of packages",
    "core.egress": "the URL of a receiver, a setting",
    "compute.mapped_arrays": "names of files: 255 bytes at most",
    "store.factor_rows": "a code of a second factor: one class of characters",
    "simulation.user_agents": "records that we simulate",
    "simulation.record_templates": "records that we simulate",
}


def patterns() -> Iterator[str]:
    """Where regular expressions are made or used: a name of a module with its constant, or else its function or itself."""
    for file in sorted((ROOT / "fingerprint").rglob("*.py")):
        module = ".".join(file.relative_to(ROOT / "fingerprint").with_suffix("").parts)
        tree = ast.parse(file.read_text())
        named = {
            id(node.value): node.targets[0].id
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        functions = {
            id(call): each.name
            for each in tree.body
            if isinstance(each, ast.FunctionDef)
            for call in ast.walk(each)
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr != "escape"
            ):
                place = named.get(id(node)) or functions.get(id(node), "")
                yield next(
                    (name for name in (f"{module}.{place}", module) if name in WORST or name in OURS),
                    f"{module}.{place}",
                )


def test_every_regular_expression_has_a_worst_case_or_a_reason_why_no_stranger_writes_what_it_reads() -> None:
    found = set(patterns())
    assert found - WORST.keys() - OURS.keys() == set()
    assert (WORST.keys() | OURS.keys()) - found == set(), "no longer there"


@pytest.mark.parametrize("name", WORST)
def test_a_regular_expression_takes_less_than_a_second_for_a_mebibyte_of_the_worst(name: str) -> None:
    use, text = WORST[name]
    module, _, constant = name.rpartition(".")
    pattern = getattr(importlib.import_module(f"fingerprint.{module}"), constant)
    pattern = pattern(b'"a"') if callable(pattern) else pattern
    assert runs_within(CPU_SECONDS, lambda: use(pattern, text))


def test_json_of_a_mebibyte_is_indented_in_less_than_a_few_seconds() -> None:
    assert runs_within(CPU_SECONDS, lambda: sanitize.indent_json(ESCAPED))
    assert sanitize.indent_json('{"a":"x\\') == '{\n  "a": "x\\'


# --- poison -----------------------------------------------------------------------------------------------------------


def one_life(program: str, environment: dict[str, str], *options: str) -> int:
    """One life of a program; how it ended."""
    life = Forked(run_deadly, program, "--once", "--json", *options, environment=environment)
    status = life.wait(300)
    assert status in (0, -signal.SIGKILL), life.err[-3000:]
    return status


def lives(program: str, environment: dict[str, str], *options: str, most: int = 6) -> int:
    """How often the program has to be started until it comes to the end."""
    for life in range(1, most + 1):
        if one_life(program, environment, *options) == 0:
            return life
    raise AssertionError(f"killed {most} times")


def test_a_message_that_kills_ingest_becomes_a_dead_letter_and_everything_else_arrives() -> None:
    stream = InMemory()
    stream.configure()
    stream.create()
    all_ = some(20)
    stream.send(*all_[:10], POISON, *all_[10:])
    assert lives("ingest", stream.environment()) == 4
    assert sorted(set(stream.ids())) == expected(20)
    (letter,) = stream.read(stream.dlq)
    assert letter.value == POISON
    assert (dict(letter.headers)["reason"] or b"").decode() == POISON_REASON
    assert stream.committed() == 21
    stream.send(*some(22)[20:])
    assert lives("ingest", stream.environment()) == 1
    stream.end()


def test_a_message_that_kills_the_scorer_becomes_a_dead_letter_and_what_follows_is_scored(
    organisation: sample_organisation.SampleOrganisation, records: Records, tmp_path: Path
) -> None:
    place = Place(tmp_path, organisation.bank).create()
    place.send([*records[:30], (b"k", POISON), *records[30:60]])
    assert lives("stream", place.environment(), "--bank", str(place.bank)) <= 5
    assert place.committed() == 61
    (letter,) = place.read(f"{place.settings.kafka.events_topic}.dlq")
    assert letter.value == POISON
    assert (dict(letter.headers)["reason"] or b"").decode() == POISON_REASON


def test_the_same_alerts_are_raised_whatever_lies_between_the_records(
    organisation: sample_organisation.SampleOrganisation,
    records: Records,
    oracle: Said,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every hostile message of this file, a bomb too, between deliveries of five hundred records."""
    lines = sample_organisation.lines_of(organisation.new)
    deliveries = [gzip.compress(wrapped(*lines[start : start + 500])) for start in range(0, len(lines), 500)]
    hostile_ones = [*WHOLE.values(), bomb(1, 40, b"[[1]]" * 1000 + b"\n"), b"\xff" * 100]
    values = [value for pair in zip_longest(deliveries, hostile_ones) for value in pair if value]
    monkeypatch.setattr(read_limits, "MAX_DOCUMENT_BYTES", 8 * MIB)
    polled = [Message("raw", 0, number, value=value) for number, value in enumerate(values)]
    batches = list(Rekeyer(Settings()).rekey(polled))
    hostile_places = {number for number, value in enumerate(values) if value in hostile_ones}
    assert {int(place) for batch in batches for place in batch.dead_letter_sources} <= hostile_places
    own = record(0)  # a whole record before the blanks of one of them
    found = [(each.key, each.value) for batch in batches for each in batch.records if each.value != own]
    assert sorted(found) == sorted(records)
    place = Place(tmp_path, organisation.bank).create()
    place.send([(key, value) for key, value in found if key and value])
    place.run()
    assert not place.said().differences(oracle)
