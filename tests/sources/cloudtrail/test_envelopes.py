"""Every wrapping is opened, a broken record never costs its neighbours, and no bytes make it raise."""

import base64
import gzip
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fingerprint.sources.base import merge_batches
from fingerprint.sources.cloudtrail.envelopes import split_lines, split_message
from fingerprint.sources.limits import ReadLimits

ONE = {"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:18Z", "eventName": "GetUser"}
TWO = {"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:19Z", "eventName": "ListUsers"}


def text(value: object) -> bytes:
    return json.dumps(value).encode()


def eventbridge(record: object, kind: str = "AWS API Call via CloudTrail") -> dict[str, object]:
    return {"version": "0", "detail-type": kind, "source": "aws.iam", "detail": record}


def cloudwatch(*messages: str, kind: str = "DATA_MESSAGE") -> dict[str, object]:
    events = [
        {"id": str(index), "timestamp": 0, "message": message} for index, message in enumerate(messages)
    ]
    return {"messageType": kind, "owner": "123456789012", "logEvents": events}


def awslogs(value: object) -> dict[str, object]:
    return {"awslogs": {"data": base64.b64encode(gzip.compress(text(value))).decode()}}


def looked_up(*records: object) -> dict[str, object]:
    return {
        "Events": [
            {"EventId": "1", "EventTime": 1.0, "CloudTrailEvent": json.dumps(each)} for each in records
        ]
    }


def notified(value: object, kind: str = "Notification") -> dict[str, object]:
    return {"Type": kind, "TopicArn": "arn", "Message": json.dumps(value)}


def as_kinesis(data: bytes) -> dict[str, object]:
    return {"kinesis": {"data": base64.b64encode(data).decode()}, "eventSource": "aws:kinesis"}


def lines_of(wrap: Callable[[dict[str, str]], object]) -> bytes:
    """Return both records, each wrapped by itself, one a line, in the order of members that the wrapping has."""
    return text(wrap(ONE)) + b"\n" + text(wrap(TWO))


BOTH = cloudwatch(json.dumps(ONE), json.dumps(TWO))
WRAPPINGS = {
    "a delivery file": text({"Records": [ONE, TWO]}),
    "a delivery file, printed prettily": json.dumps({"Records": [ONE, TWO]}, indent=2).encode(),
    "an array": text([ONE, TWO]),
    "EventBridge, in an array": text([eventbridge(ONE), eventbridge(TWO)]),
    "CloudWatch Logs": text(BOTH),
    "CloudWatch Logs to Lambda": text(awslogs(BOTH)),
    "CloudWatch Logs to Kinesis": gzip.compress(text(BOTH)),
    "CloudWatch Logs by the AWS CLI": text({"events": BOTH["logEvents"], "searchedLogStreams": []}),
    "lookup-events": json.dumps(looked_up(ONE, TWO), indent=4).encode(),
    "lookup-events of two regions": text(looked_up(ONE)) + b"\n" + text(looked_up(TWO)),
    "the texts of lookup-events": json.dumps([json.dumps(ONE), json.dumps(TWO)], indent=4).encode(),
    "lookup-events, an event a line": gzip.compress(b"\n".join(map(text, looked_up(ONE, TWO)["Events"]))),
    "a text a line": gzip.compress(text(json.dumps(ONE)) + b"\n" + text(json.dumps(TWO))),
    "EventBridge in SNS": text([notified(eventbridge(ONE)), notified(eventbridge(TWO))]),
    "base64 of gzip": base64.b64encode(gzip.compress(text(BOTH))),
    "EventBridge in CloudWatch Logs": text(
        cloudwatch(json.dumps(eventbridge(ONE)), json.dumps(eventbridge(TWO)))
    ),
    "gzip in gzip": gzip.compress(gzip.compress(text({"Records": [ONE, TWO]}))),
    "gzip members in a row": gzip.compress(text(ONE) + b"\n") + gzip.compress(text(TWO)),
    "gzip of lines": gzip.compress(text(ONE) + b"\r\n\r\n" + text(TWO) + b"\n"),
    "Splunk": lines_of(lambda each: {"_time": "1", "_raw": json.dumps(each), "sourcetype": "aws:cloudtrail"}),
    "a search of Splunk": lines_of(lambda each: {"preview": False, "result": {"_raw": json.dumps(each)}}),
    "a search of Splunk, with its fields": lines_of(
        lambda each: {
            "preview": False,
            "result": {"eventTime": "t", "_raw": json.dumps(each), "userIdentity.type": "x"},
        }
    ),
    "Elasticsearch": lines_of(lambda each: {"_index": "x", "_source": {"message": json.dumps(each)}}),
    "Elasticsearch, the record as it is": lines_of(lambda each: {"_index": "x", "_source": each}),
    "Elasticsearch's response": text(
        {
            "took": 1,
            "hits": {"total": {"value": 2}, "hits": [{"_id": "1", "_source": each} for each in (ONE, TWO)]},
        }
    ),
    "Splunk's HTTP event collector": text({"time": 1.5, "sourcetype": "aws:cloudtrail", "event": ONE})
    + text({"time": 1.5, "event": json.dumps(TWO)}),
    "EventBridge in Splunk's HTTP event collector": lines_of(lambda each: {"event": eventbridge(each)}),
    "Splunk's results": text(
        {"preview": False, "results": [{"_raw": json.dumps(each)} for each in (ONE, TWO)]}
    ),
    "CloudTrail Lake": json.dumps(
        {
            "QueryStatus": "FINISHED",
            "QueryResultRows": [[{"eventID": "1"}, {"eventJson": json.dumps(each)}] for each in (ONE, TWO)],
        },
        indent=4,
    ).encode(),
    "rows of CloudTrail Lake": lines_of(lambda each: {"eventJson": json.dumps(each)}),
    "rows of CloudTrail Lake that begin like a record": lines_of(
        lambda each: {
            "eventID": "1",
            "eventTime": "2023-07-10 11:42:18.000",
            "eventJson": json.dumps(each),
        }
    ),
    "CloudWatch Logs Insights": text(
        {
            "results": [
                [{"field": "@ptr", "value": "x"}, {"field": "@message", "value": json.dumps(each)}]
                for each in (ONE, TWO)
            ]
        }
    ),
    "SNS to Lambda": text(
        {"Records": [{"EventSource": "aws:sns", "Sns": notified(each)} for each in (ONE, TWO)]}
    ),
    "SQS by the AWS CLI": text(
        {"Messages": [{"MessageId": "1", "Body": json.dumps(eventbridge(each))} for each in (ONE, TWO)]}
    ),
    "Elastic Agent": lines_of(
        lambda each: {"@timestamp": "t", "message": "GetUser", "event": {"original": json.dumps(each)}}
    ),
    "Filebeat, a delivery file": text({"@timestamp": "t", "message": json.dumps({"Records": [ONE, TWO]})}),
    "Fluent Bit": lines_of(lambda each: {"date": 1.5, "log": json.dumps(each) + "\n"}),
    "Fluent Bit, beside a message of its own": lines_of(
        lambda each: {"message": "[INFO] started", "log": json.dumps([each], indent=1)}
    ),
    "Kafka Connect": lines_of(lambda each: {"schema": {"type": "string"}, "payload": json.dumps(each)}),
    "Kafka Connect, an object": lines_of(lambda each: {"schema": {"type": "struct"}, "payload": each}),
    "SQS to Lambda": text({"Records": [{"messageId": "1", "body": json.dumps(each)} for each in (ONE, TWO)]}),
    "Kinesis to Lambda": text({"Records": [as_kinesis(text(ONE)), as_kinesis(gzip.compress(text(TWO)))]}),
    "documents in a row": text(ONE) + text(TWO),
    "envelopes in a row": text({"Records": [ONE]}) + b"\n" + text({"Records": [TWO]}),
    "UTF-16": json.dumps({"Records": [ONE, TWO]}).encode("utf-16"),
    "a byte order mark and zeros": b"\xef\xbb\xbf" + text({"Records": [ONE, TWO]}) + b"\x00\x00",
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_every_wrapping_gives_its_two_records(wrapping: str) -> None:
    records = split_message(WRAPPINGS[wrapping])
    assert [json.loads(line) for line in records.lines] == [ONE, TWO]
    assert (records.rejects, records.skipped) == ([], 0)
    assert len(set(records.origins)) == 2


def test_a_record_is_named_by_source_line_and_index() -> None:
    lines = [text(ONE), b"", text({"Records": [ONE, TWO]})]
    assert split_lines(lines, "a.jsonl", first=7).origins == [
        ("a.jsonl", "7"),
        ("a.jsonl", "9/0"),
        ("a.jsonl", "9/1"),
    ]


def test_a_record_that_speaks_of_envelopes_is_still_a_record() -> None:
    record = {
        **ONE,
        "requestParameters": {"Records": [1, 2], "detail-type": "x", "logEvents": 3, "Events": []},
    }
    reordered = {"z": {"Records": [1]}, "Message": "{}", "CloudTrailEvent": 1, **record}
    assert split_lines([text(record), text(reordered)]).lines == [text(record), text(reordered)]


@pytest.mark.parametrize(
    "member",
    [
        "_raw",
        "message",
        "log",
        "body",
        "payload",
        "result",
        "_source",
        "event",
        "hits",
        "results",
        "Body",
        "Sns",
        "eventJson",
    ],
)
def test_a_record_with_a_member_of_a_log_shipper_is_still_a_record(member: str) -> None:
    """Else who makes a request with such a member could put another record in the place of its own."""
    own = {**ONE, "userIdentity": {"type": "Root"}}
    for line in map(
        text, ({"@timestamp": "t", member: json.dumps(TWO), **own}, {**own, member: json.dumps(TWO)})
    ):
        assert split_lines([line]).lines == [line]


@pytest.mark.parametrize(
    "line",
    [
        {"@timestamp": "t", "message": "GET / 200"},
        {"@timestamp": "t", "message": "[INFO] started"},
        {"@timestamp": "t", "event": "text", "message": 1},
        {"kinesis": {"data": "no base64"}, "event": {"kind": 1}},
        {"payload": [1], "schema": None},
        {"@timestamp": "t", "event": {"kind": "event", "module": "aws"}},
        {"hits": [], "Body": "text", "results": 1, "eventJson": "no JSON"},
    ],
)
def test_what_wraps_no_record_is_left_for_flatten_to_reject(line: dict[str, object]) -> None:
    assert split_lines([text(line)]).lines == [text(line)]


def test_a_row_of_a_query_without_its_record_is_rejected_with_what_to_select() -> None:
    rows = {
        "QueryResultRows": [
            [{"eventID": "1"}, {"userIdentity": "{type=Root}"}],
            [],
            [{"eventJson": json.dumps(ONE)}],
            [1],
        ]
    }
    records = split_message(text(rows))
    assert records.lines == [text(ONE)]
    said = [("select eventJson" in reject.reason, reject.position) for reject in records.rejects]
    assert said == [(True, "0"), (False, "1"), (False, "3")]


def test_control_messages_and_insights_are_skipped_and_other_eventbridge_events_rejected() -> None:
    control = text(cloudwatch("CWL CONTROL MESSAGE: Checking health", kind="CONTROL_MESSAGE"))
    insight = text(eventbridge(ONE, "AWS Insight via CloudTrail"))
    other = text(eventbridge({"state": "running"}, "EC2 Instance State-change Notification"))
    records = split_lines([control, insight, other])
    assert (records.lines, records.skipped, len(records.rejects)) == ([], 2, 1)


@pytest.mark.parametrize(
    "broken", ['{"eventVersion": "1.08, "x": 1}', '{"eventVersion": }', '{"eventVersion": {"a": 1}']
)
def test_a_broken_record_never_costs_its_neighbours(broken: str) -> None:
    document = f'{{"Records": [{json.dumps(ONE)}, {broken}, {json.dumps(TWO)}]}}'.encode()
    lines = split_message(document).lines
    assert text(ONE) in lines
    assert text(TWO) in lines


def test_of_a_document_cut_short_the_complete_records_are_kept() -> None:
    records = split_message(text({"Records": [ONE, TWO]})[:-20])
    assert records.lines == [text(ONE)]
    assert [reject.reason for reject in records.rejects] == ["malformed JSON: no complete object"]


def test_invalid_utf8_in_a_user_agent_does_not_hide_the_record() -> None:
    line = b'{"eventVersion": "1.08", "userAgent": "evil\xff\xfe"}'
    assert json.loads(split_lines([line, text(ONE)]).lines[0])["userAgent"] == "evil\ufffd\ufffd"


def test_a_record_past_a_bound_is_rejected_with_the_reason() -> None:
    limits = ReadLimits(max_record_bytes=500, max_json_depth=10)
    large = text({**ONE, "userAgent": "x" * 600})
    deep = b'{"eventVersion": ' + b"[" * 30 + b"]" * 30 + b"}"
    brackets_in_a_string = text({**ONE, "userAgent": "[" * 300})
    records = split_lines([large, deep, brackets_in_a_string], limits=limits)
    assert [reject.reason for reject in records.rejects] == ["larger than 500 bytes", "nested deeper than 10"]
    assert records.lines == [brackets_in_a_string]


def test_a_gzip_bomb_in_a_message_is_rejected() -> None:
    bomb = gzip.compress(b" " * 5_000_000)
    assert (
        "expands to more than"
        in split_message(bomb, limits=ReadLimits(max_document_bytes=1_000_000)).rejects[0].reason
    )


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: {"Records": [inner]},
        lambda inner: {"Records": [json.dumps(inner)]},
        looked_up,
        notified,
        lambda inner: {"message": json.dumps(inner)},
        lambda inner: {"result": inner, "_raw": 1},
    ],
)
def test_envelopes_without_end_are_rejected(wrap: Callable[[object], object]) -> None:
    value: object = ONE
    for _ in range(12):
        value = wrap(value)
    (reject,) = split_message(text(value)).rejects
    assert "envelopes around one another" in reject.reason


@pytest.mark.parametrize(
    "opening", [b"[", b'{"Records":[', b'{"detail-type":"via CloudTrail","detail":', b'{"a":']
)
def test_endless_nesting_neither_crashes_nor_takes_long(opening: bytes) -> None:
    records = split_message(opening * 20_000)
    assert not records.lines
    assert records.rejects


def test_parts_merge_in_order() -> None:
    whole = merge_batches([split_message(text(ONE), "a"), split_message(text([TWO, 1]), "b")])
    assert [source for source, _ in whole.origins] == ["a", "b", "b"]


@given(st.binary(max_size=300))
def test_no_bytes_make_it_raise(data: bytes) -> None:
    for message in (
        data,
        b'"{' + data,
        b'{"Events":[{"CloudTrailEvent":"{' + data + b'"}]}',
        gzip.compress(data),
        b'{"Records":[' + data + b"]}",
        b'{"logEvents":' + data + b"}",
        b'{"kinesis":{"data":"' + base64.b64encode(data) + b'"}}',
        b'{"_source":{"event":' + data + b',"message":"{' + data + b'"}}',
        b'{"results":[[' + data + b'],[{"eventJson":"{' + data + b'"}]]}',
    ):
        records = split_message(message)
        assert len(records.lines) == len(records.origins)
        assert all(line.decode() for line in records.lines)
