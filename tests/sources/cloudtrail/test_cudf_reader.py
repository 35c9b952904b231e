"""A device reads what the host reads: the filter says what is plain, and whatever is not goes to the host."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import fake_cupy
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint.compute import frames
from fingerprint.compute.kernels import SIPHASH, kernel_source, launch_kernel
from fingerprint.sources.cloudtrail import cudf_reader
from fingerprint.sources.cloudtrail.cudf_reader import (
    FilteredRecords,
    filter_records,
    forwarded_members,
    member_tree,
)
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.cloudtrail.lenient import parse_time
from fingerprint.sources.cloudtrail.resources import NESTED_NAMES, RESOURCE_PARAMETERS
from fingerprint.sources.cloudtrail.schema import COLUMNS
from fingerprint.sources.flatten import flatten
from tests.contracts.record_reader import ReadingContract, alike
from tests.support import record_corpus, sample_organisation

FAKE = "fake_cudf"
BASE = {"eventTime": "2023-07-10T11:42:18Z", "eventID": "id-1"}


class TestTheFake(ReadingContract):
    tables = FAKE


@pytest.mark.gpu
class TestTheDevice(ReadingContract):
    tables = "cudf"


# --- the filter --------------------------------------------------------------------------------------------------------


def filtered(*lines: bytes) -> FilteredRecords:
    return filter_records(list(lines), fake_cupy)


def written(**members: Any) -> bytes:
    return json.dumps({**BASE, **members}, separators=(",", ":"), ensure_ascii=False).encode()


def passed(line: bytes) -> dict[str, Any]:
    """What the filter passes on of one plain record."""
    found = filtered(line)
    assert found.plain.tolist() == [True]
    first, own, end = found.lines.get().tobytes().split(b"\n")
    assert (json.loads(first), end) == (forwarded_members(), b"")
    return json.loads(own)


def test_a_member_with_a_column_is_passed_on_as_it_was_written() -> None:
    line = written(
        userAgent='a "quoted" tool, 東京', userIdentity={"type": "Root", "x": [1]}, more={"deep": [{}]}
    )
    made = {"requestParameters": {"names": ""}}
    assert passed(line) == {
        **BASE,
        "userAgent": 'a "quoted" tool, 東京',
        "userIdentity": {"type": "Root"},
        **made,
    }


def test_no_member_that_a_caller_named_reaches_the_reader_of_a_device() -> None:
    """Its columns are as many as the names it meets, and the names of parameters are the caller's."""
    chosen = {f"k{number}": {"arn": "x"} for number in range(50)}
    line = written(requestParameters=chosen, responseElements=chosen, additionalEventData=chosen)
    assert set(passed(line)) == {*BASE, "requestParameters", "responseElements", "additionalEventData"}
    assert (passed(line)["responseElements"], passed(line)["additionalEventData"]) == ({}, {})


def test_the_parameters_are_named_in_their_order() -> None:
    made = passed(
        written(requestParameters={"b": 1, "a": {"c": 2}, "roleArn": "arn:aws:iam::222222222222:role/x"})
    )
    assert made["requestParameters"] == {
        "names": "b,a,roleArn",
        "target": "222222222222",
        "resource": "roleArn=arn:aws:iam::222222222222:role/x",
    }


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"instancesSet": {"items": [{"instanceId": "i-1"}, {"instanceId": "i-2"}]}}, "instancesSet=i-1"),
        (
            {"instancesSet": {"items": [{"imageId": "ami-1", "instanceId": "i-1", "a": {"instanceId": 1}}]}},
            "instancesSet=i-1",
        ),
        ({"instancesSet": {"items": [{"imageId": "ami-1", "maxCount": 1}]}}, None),
        ({"instancesSet": {"items": []}}, None),
        ({"instancesSet": {}}, None),
        ({"names": ["/prod/é", "/b"]}, "names=/prod/é"),
        ({"names": []}, None),
        (
            {"requestItems": {"orders": [{"putRequest": {"item": {"names": ["x"]}}}], "b": []}},
            "requestItems=orders",
        ),
    ],
)
def test_the_first_of_several_names_is_passed_on(parameters: dict[str, Any], name: str | None) -> None:
    for separators in ((",", ":"), (" , ", " : ")):
        line = json.dumps(
            {**BASE, "requestParameters": parameters}, separators=separators, ensure_ascii=False
        )
        assert passed(line.encode())["requestParameters"].get("resource") == name


def test_the_role_that_identity_center_gave_is_passed_on_in_place_of_parameters() -> None:
    given = {"account_id": "222222222222", "role_name": "Admin"}
    line = written(recipientAccountId="111111111111", requestParameters=None, serviceEventDetails=given)
    assert passed(line)["requestParameters"] == {
        "names": "",
        "target": "222222222222",
        "resource": "role_name=222222222222/Admin",
    }


AT = b'"eventTime":"2023-07-10T11:42:18Z"'
ID = b'"eventID":"id-1"'
NOT_PLAIN = {
    "no time": b"{" + ID + b"}",
    "no id, which would be made of the record's bytes": b"{" + AT + b"}",
    "an empty id": b"{" + AT + b',"eventID":""}',
    "a time with a fraction": b'{"eventTime":"2023-07-10T11:42:18.5Z",' + ID + b"}",
    "a day that no month has": b'{"eventTime":"2023-02-29T11:42:18Z",' + ID + b"}",
    "a member twice": b"{" + AT + b"," + ID + b',"awsRegion":"a","awsRegion":"b"}',
    "a group twice": b"{" + AT + b"," + ID + b',"userIdentity":{},"userIdentity":{}}',
    "a number for a text": b"{" + AT + b"," + ID + b',"awsRegion":7}',
    "a text for a group": b"{" + AT + b"," + ID + b',"userIdentity":"x"}',
    "a list for a group": b"{" + AT + b"," + ID + b',"requestParameters":[]}',
    "a truth in words": b"{" + AT + b"," + ID + b',"readOnly":"yes"}',
    "a code point spelled out": b"{" + AT + b"," + ID + rb',"userAgent":"\u00e9"}',
    "half of a pair in what is left out": b"{" + AT + b"," + ID + rb',"more":"\ud800"}',
    "a key that is spelled with an escape": b"{" + AT + b"," + ID + rb',"aws\u0052egion":"x"}',
    "a raw control character": b"{" + AT + b"," + ID + b',"more":"\x01"}',
    "a text past what grouping keeps": b"{" + AT + b"," + ID + b',"eventName":"' + b"x" * 1025 + b'"}',
    "a source beyond ASCII": b"{" + AT + b"," + ID + ',"eventSource":"İ"}'.encode(),
    "a notice of S3": b"{" + AT + b"," + ID + b',"eventSource":"aws:s3"}',
    "network activity": b"{" + AT + b"," + ID + b',"eventCategory":"NetworkActivity"}',
    "a call through an endpoint": b"{" + AT + b"," + ID + b',"eventType":"AwsVpceEvent"}',
    "parameters that were omitted": b"{" + AT + b"," + ID + b',"requestParameters":{"omitted":true}}',
    "an insight": b"{" + AT + b"," + ID + b',"eventCategory":"Insight"}',
    "a number that begins with 0": b"{" + AT + b"," + ID + b',"more":01}',
    "NaN": b"{" + AT + b"," + ID + b',"more":NaN}',
    "a number that may be infinite": b"{" + AT + b"," + ID + b',"more":1e999}',
    "a comma too many": b"{" + AT + b"," + ID + b",}",
    "more after its end": b"{" + AT + b"," + ID + b"} {}",
    "an end too early": b"{" + AT + b"," + ID,
    "brackets that do not match": b"{" + AT + b"," + ID + b',"more":[}]}',
    "too deep": b"{" + AT + b"," + ID + b',"more":' + b"[" * 61 + b"]" * 61 + b"}",
    "a resource that is no object": b"{" + AT + b"," + ID + b',"resources":[null]}',
    "an own account that is no number, where resources name some": b"{"
    + AT
    + b","
    + ID
    + b',"recipientAccountId":"x","resources":[{"accountId":"222222222222"}]}',
    "two lists of items": b"{"
    + AT
    + b","
    + ID
    + b',"requestParameters":{"instancesSet":{"items":[{"instanceId":"a"}],"items":[{"instanceId":"b"}]}}}',
    "an item with two ids": b"{"
    + AT
    + b","
    + ID
    + b',"requestParameters":{"instancesSet":{"items":[{"instanceId":"a","instanceId":"b"}]}}}',
    "more beside the items": b"{"
    + AT
    + b","
    + ID
    + b',"requestParameters":{"instancesSet":{"items":[],"more":1}}}',
    "a first name that is no text": b"{" + AT + b"," + ID + b',"requestParameters":{"names":[1,"a"]}}',
    "a text where several names belong": b"{" + AT + b"," + ID + b',"requestParameters":{"names":"a"}}',
    "a key with an escape where names are keys": b"{"
    + AT
    + b","
    + ID
    + b',"requestParameters":{"requestItems":{"a\\n":1}}}',
    "a role of an account that is no word": b"{"
    + AT
    + b","
    + ID
    + b',"serviceEventDetails":{"account_id":"222222222222/x","role_name":"a"}}',
    "an account that something is shared with": b"{"
    + AT
    + b","
    + ID
    + b',"requestParameters":{"valuesToAdd":["222222222222"]}}',
    "no object": b"[1]",
}


def test_what_two_readers_might_take_differently_is_not_plain() -> None:
    """And neither hurts its neighbours nor is read otherwise."""
    lines = {"before all": written()}
    for why, line in NOT_PLAIN.items():
        lines |= {why: line, f"after {why}": written(eventName=why)}
    plain = dict(zip(lines, filtered(*lines.values()).plain.tolist(), strict=True))
    assert plain == {name: name not in NOT_PLAIN for name in lines}
    alike(list(lines.values()), FAKE)


@pytest.mark.parametrize(
    ("parameters", "plain"),
    [
        ({"a": "arn:aws:iam::222222222222:role/x", "b": "arn:aws:iam::333333333333:root"}, True),
        ({"policy": '{"AWS": "arn:aws:iam::222222222222"}', "b": "arn:aws:iam::111111111111:root"}, True),
        ({"principal": "111111111111"}, True),
        ({"principal": "222222222222", "b": "arn:aws:iam::333333333333:root"}, False),
        ({"orderId": "222222222222", "principal": "222222222222:root"}, False),
        ({"policy": '{"Principal": {"AWS": ["111111111111", "222222222222"]}}'}, False),
        ({"a": "arn:a111111111111ws:iam::222222222222:x", "principal": "111111111111"}, True),
        ({"a": "arn:a111111111111ws:iam::222222222222:x", "principal": "x"}, True),
        ({"a": "arn:aws", "principal": "222222111111111111222222"}, False),
    ],
    ids=repr,
)
def test_the_account_that_a_request_names_is_the_same_by_filter_and_host(
    parameters: dict[str, Any], plain: bool
) -> None:
    line = written(recipientAccountId="111111111111", requestParameters=parameters)
    assert filtered(line).plain.tolist() == [plain]
    alike([line], FAKE)


def test_each_member_that_names_a_resource_is_noted_by_itself() -> None:
    """There are more of them than a word has bits."""
    names = list(RESOURCE_PARAMETERS)
    pairs = [pair for pair in zip(names, names[64:], strict=False) if NESTED_NAMES.keys().isdisjoint(pair)]
    assert pairs
    for one, other in pairs:
        both = written(requestParameters={one: "a", other: "b"})
        twice = both.replace(f'"{one}"'.encode(), f'"{other}"'.encode())
        assert filtered(both, twice).plain.tolist() == [True, False]
        alike([both, twice], FAKE)


def test_nearly_all_records_are_plain(organisation: sample_organisation.SampleOrganisation) -> None:
    """`panther_rule_tests` is written by hand: of its 461 records 120 write the time otherwise, and 51 have no id."""
    sets = {**record_corpus.real(), "simulated": sample_organisation.lines_of(organisation.new)}
    plain = {name: filter_records(split_lines(lines).lines, fake_cupy).plain for name, lines in sets.items()}
    assert {name: round(float(each.mean()), 2) for name, each in plain.items()} == {
        **dict.fromkeys(sets, 1.0),
        "panther_rule_tests": 0.62,
        "schema_variety": 0.97,
    }
    assert np.concatenate(list(plain.values())).mean() > 0.95


def test_a_long_record_is_read_on_the_host() -> None:
    """A thread reads a record, and a long one keeps those beside it waiting."""
    line = written(more="x" * cudf_reader.MAX_RECORD_BYTES)
    assert filtered(line, written()).plain.tolist() == [False, True]
    alike([line, written()], FAKE)


@given(st.datetimes(datetime(1990, 1, 1), datetime(2210, 1, 1)))
@settings(max_examples=100, deadline=None)
def test_a_time_is_the_same_by_filter_and_host(time: datetime) -> None:
    text = time.strftime("%Y-%m-%dT%H:%M:%SZ")
    found, said = filtered(written(eventTime=text)), parse_time(text)
    assert found.plain.tolist() == [said is not None]
    if said:
        assert found.time.tolist() == [(said - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), min_size=1, max_size=8))
def test_a_text_has_the_same_hash_on_a_device(texts: list[str]) -> None:
    written = [text.encode() for text in texts]
    borders = np.cumsum([0, *map(len, written)], dtype=np.int64)
    out = fake_cupy.zeros(len(texts), np.uint64)
    characters = fake_cupy.asarray(np.frombuffer(b"".join(written), np.uint8))
    launch_kernel(SIPHASH, len(texts), characters, fake_cupy.asarray(borders), out)
    assert out.tolist() == pd.util.hash_array(np.array(texts, object), categorize=False).tolist()


def test_the_nodes_are_the_columns() -> None:
    tree = member_tree()
    keys = tree.keys.tobytes()
    names = [keys[at : at + size].decode() for at, size in zip(tree.begin, tree.size, strict=True)]
    named = names[-len(RESOURCE_PARAMETERS) :]
    assert named == list(RESOURCE_PARAMETERS)
    assert len(named) <= 128, "the filter notes in two words of 64 bits which it has met"
    assert len(names) - len(named) <= 64, "and of these in one"
    assert {path for column in COLUMNS for path in column.path.split(".")} <= set(names)
    listed = (
        kernel_source(cudf_reader.FILTER)
        .partition("enum Kind {")[2]
        .partition("}")[0]
        .replace("\n", " ")
        .split(",")
    )
    assert [kind.strip().lower() for kind in listed] == list(cudf_reader.MEMBER_KINDS)


# --- what is not read there -------------------------------------------------------------------------------------------


def test_what_cudf_cannot_read_is_read_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery makes a row of nothing of it, and a record may not become one of those."""

    def spoiled(lines: list[bytes], xp: Any) -> FilteredRecords:
        found = filter_records(lines, xp)
        text = found.lines.get()
        text[text.tobytes().rindex(b"{")] = ord("x")
        return found._replace(lines=xp.asarray(text))

    monkeypatch.setattr(cudf_reader, "filter_records", spoiled)
    assert len(alike([written(), written(eventName="x")], FAKE).events) == 2


def test_where_a_batch_is_cut_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudf_reader, "BATCH_BYTES", 40_000)
    alike([*record_corpus.real()["schema_variety"], *NOT_PLAIN.values()], FAKE)


def test_events_come_in_the_order_of_the_records() -> None:
    lines = [written(eventID=f"id-{number}", more=(number % 3 and 1) or "\x01") for number in range(30)]
    events = flatten(split_lines(lines), FAKE).events
    assert frames.to_pandas(events)["row"].tolist() == list(range(30))


def test_only_what_is_distinct_comes_down(organisation: sample_organisation.SampleOrganisation) -> None:
    """Whether each record is plain is a byte; all else are distinct values, and records for the host."""
    lines = sample_organisation.lines_of(organisation.new) * 2
    records = split_lines(lines)
    fake_cupy.moved.reset()
    events = flatten(records, FAKE).events
    assert len(events) == len(lines)
    assert fake_cupy.moved.bytes_down < 2 * len(lines) + 100_000
