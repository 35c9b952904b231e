"""One row a record, whatever its types; what cannot be read says why; the counts always add up."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint.sources.base import FlattenedRecords
from fingerprint.sources.cloudtrail.duckdb_reader import FEW_LINES
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.cloudtrail.lenient import parse_time
from fingerprint.sources.cloudtrail.schema import COLUMNS
from fingerprint.sources.flatten import dedup_key, flatten
from tests.support.random_records import drawn
from tests.support.record_corpus import SHARED, sets

REAL = Path(__file__).parents[2] / "data" / "real"
BASE = {"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:18Z", "eventID": "id-1"}


def real(name: str, root: Path = REAL) -> list[bytes]:
    return gzip.decompress((root / name / f"{name}.jsonl.gz").read_bytes()).splitlines()


def flat(*records: Any) -> FlattenedRecords:
    return flatten(
        split_lines([each if isinstance(each, bytes) else json.dumps(each).encode() for each in records])
    )


def event(**fields: Any) -> Any:
    result = flat({**BASE, **fields})
    assert not result.rejects
    return result.events.iloc[0]


def test_the_columns_are_those_of_the_table_and_keep_their_types_when_empty() -> None:
    for events in (flat(BASE).events, flat(b"7").events):
        assert list(events.columns) == [*(column.name for column in COLUMNS), "row"]
        assert {str(events[c.name].dtype) for c in COLUMNS if c.type == "time"} == {"datetime64[us, UTC]"}
        assert {str(events[c.name].dtype) for c in COLUMNS if c.type in ("flag", "mfa")} == {"boolean"}
        assert str(events["event_id"].dtype) == "str"


def test_the_fast_reader_sees_what_a_plain_one_sees() -> None:
    """Every column that is plain text, against json.loads and a walk along the path."""
    lines = real("schema_variety")
    events = flatten(split_lines(lines)).events
    for column in (column for column in COLUMNS if column.type == "text"):
        for row, seen in zip(events["row"], events[column.name], strict=True):
            node = json.loads(lines[row])
            for part in column.path.split("."):
                node = node.get(part) if isinstance(node, dict) else None
            if isinstance(node, str) and not (column.name == "event_id" and not node):
                assert seen == node
            elif node is None and column.name != "event_id":
                assert pd.isna(seen)


@pytest.mark.parametrize(
    "value", ["x", 7, 1.5, True, None, [], [1, None], {}, {"a": {"b": []}}, [{"accountId": {}}]]
)
@pytest.mark.parametrize(
    "field",
    [
        "userIdentity",
        "requestParameters",
        "responseElements",
        "resources",
        "readOnly",
        "eventSource",
        "eventID",
    ],
)
def test_a_type_conflict_never_loses_the_record(field: str, value: object) -> None:
    assert len(flat({**BASE, field: value}, BASE).events) == 2


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2023-07-10T11:42:18Z", "2023-07-10 11:42:18"),
        ("2023-07-10T11:42:18.123Z", "2023-07-10 11:42:18.123"),
        ("2023-07-10T11:42:18+02:00", "2023-07-10 09:42:18"),
        ("2025-01-21 17:49:47.000000000", "2025-01-21 17:49:47"),
        ("2019-01-01 00:20:04.000Z", "2019-01-01 00:20:04"),
    ],
)
def test_times_are_utc_however_they_are_written(written: str, read: str) -> None:
    assert event(eventTime=written).event_time == pd.Timestamp(read, tz="UTC")


@pytest.mark.parametrize(
    "time",
    [
        None,
        "",
        "...",
        1688989338,
        "infinity",
        "9999-12-31T23:59:59Z",
        "2023-07-10",
        {},
        "2023-13-01T00:00:00Z",
    ],
)
def test_without_a_usable_time_a_record_is_rejected(time: object) -> None:
    result = flat(BASE, {**BASE, "eventTime": time})
    assert [reject.reason for reject in result.rejects] == ["no usable eventTime"]
    assert len(result.events) == 1


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"class_uid": 6003, "time": 1}, "an OCSF event"),
        ({"eventtime": "2023-07-10T11:42:18Z", "eventname": "GetUser"}, "columns are lower-case"),
        ({"preview": False, "result": {"eventName": "GetUser"}}, "result._raw"),
        ({"@timestamp": "2023-07-10T11:42:18Z", "aws": {"cloudtrail": {}}}, "event.original"),
        ({"eventSource": "aws:kinesis", "kinesis": {"data": ""}}, "kinesis.data"),
        ({"eventTime": "never", "records": []}, "no usable eventTime"),
    ],
)
def test_a_record_in_another_form_is_rejected_with_what_to_do(fields: dict[str, object], reason: str) -> None:
    (reject,) = flat(fields).rejects
    assert reason in reject.reason


def test_a_time_without_offset_is_utc_and_nonsense_is_none() -> None:
    assert parse_time("2023-07-10T11:42:18") == parse_time("2023-07-10T13:42:18+02:00")
    assert parse_time("0001-01-01T00:00:00+14:00") is None


@pytest.mark.parametrize("agent", [rb"\ud800", rb"\udfff\ud800x", b"a\x01b", rb"\ud83d\ude00"])
def test_no_user_agent_hides_its_record(agent: bytes) -> None:
    line = b'{"eventTime": "2023-07-10T11:42:18Z", "userAgent": "' + agent + b'", "n": 1e999, "m": NaN}'
    result = flat(BASE, line)
    assert len(result.events) == 2
    assert result.events.user_agent[1].encode()


def test_values_of_absurd_length_are_kept_where_shown_and_cut_where_grouped() -> None:
    seen = event(userAgent="x" * 100_000, eventName="y" * 100_000, number=int("9" * 4000))
    assert (len(seen.user_agent), len(seen.action)) == (100_000, 1024)


def test_digests_insights_aggregated_events_and_test_notices_are_counted_not_rejected() -> None:
    digest = {"awsAccountId": "1", "digestStartTime": "2023-07-10T11:42:18Z", "logFiles": []}
    insight = {**BASE, "eventType": "AwsCloudTrailInsight", "eventCategory": "Insight", "insightDetails": {}}
    aggregated = {
        "eventId": "e",
        "eventCategory": "Aggregated",
        "eventType": "AwsAggregatedEvent",
        "timeWindow": {"windowStart": "2026-01-05T10:00:00Z", "windowEnd": "2026-01-05T10:05:00Z"},
    }
    notice = {"Service": "Amazon S3", "Event": "s3:TestEvent"}
    result = flat(digest, insight, aggregated, notice, BASE)
    assert (len(result.events), result.rejects, result.skipped) == (1, [], 4)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"eventSource": "aws:s3"}, "S3 notice"), ({"eventCategory": "ActivityAuditLog"}, "from outside AWS")],
)
def test_what_only_resembles_a_record_is_rejected_as_such(fields: dict[str, str], reason: str) -> None:
    result = flat({**BASE, **fields})
    assert len(result.events) == 0
    assert [reason in each.reason for each in result.rejects] == [True]


OWN = "111122223333"


@pytest.mark.parametrize(
    ("fields", "is_event"),
    [
        ({}, False),
        ({"eventType": "AwsApiCall"}, False),
        ({"errorCode": "VpceAccessDenied"}, True),
        ({"vpcEndpointAccountId": "444455556666"}, True),
        ({"userIdentity": {"accountId": "444455556666"}}, True),
        ({"userIdentity": {}, "vpcEndpointAccountId": None, "recipientAccountId": None}, True),
        ({"eventType": "AwsApiCall", "eventCategory": "Data"}, True),
    ],
)
def test_network_activity_within_an_account_repeats_the_record_of_its_call(
    fields: dict[str, Any], is_event: bool
) -> None:
    network = {"eventType": "AwsVpceEvent", "eventCategory": "NetworkActivity", "vpcEndpointAccountId": OWN}
    whose = {"recipientAccountId": OWN, "userIdentity": {"type": "IAMUser", "accountId": OWN}}
    result = flat({**BASE, **network, **whose, **fields})
    assert (len(result.events), result.rejects, result.skipped) == (is_event, [], not is_event)


@pytest.mark.parametrize(
    ("line", "kind"), [(b"1", "a number"), (b'"x"', "a string"), (b"null", "null"), (b"[[]]", "an array")]
)
def test_what_is_no_object_is_rejected_by_its_kind(line: bytes, kind: str) -> None:
    assert [reject.reason for reject in flat(line, BASE).rejects] == [
        f"a record must be a JSON object, not {kind}"
    ]


def test_malformed_json_is_rejected_with_the_place() -> None:
    result = flat(b'{"eventVersion": "1.08", "eventTime": }', BASE)
    assert result.rejects[0].reason.startswith("malformed JSON at character 38")
    assert (result.rejects[0].position, len(result.events)) == ("1", 1)


def test_a_failure_without_an_error_code_is_a_failure() -> None:
    assert event(errorMessage="Failed authentication").error_code == "Failure"
    for action in ("ConsoleLogin", "CheckMfa", "SwitchRole"):
        assert event(responseElements={action: "Failure"}).error_code == "Failure"
        assert pd.isna(event(responseElements={action: "Success"}).error_code)
    assert event(serviceEventDetails={"CredentialVerification": "Failure"}).error_code == "Failure"
    assert pd.isna(event(serviceEventDetails={"CredentialVerification": "Success"}).error_code)


@pytest.mark.parametrize(
    ("session", "sign_in", "mfa"),
    [
        (None, "Yes", True),
        (None, "No", False),
        (None, "yes", None),
        ("false", "Yes", False),
        ("", "Yes", True),
    ],
)
def test_mfa_is_what_the_session_says_or_else_the_sign_in(
    session: str | None, sign_in: str, mfa: bool | None
) -> None:
    attributes = {"sessionContext": {"attributes": {"mfaAuthenticated": session}}}
    seen = event(userIdentity=attributes, additionalEventData={"MFAUsed": sign_in}).mfa
    assert (None if pd.isna(seen) else bool(seen)) == mfa


def test_parameter_names_are_sorted_and_do_not_depend_on_values() -> None:
    assert event(requestParameters={"b": {"c": 1}, "a": None}).parameter_names == "a,b"
    assert event(requestParameters=None).parameter_names == ""
    assert event(requestParameters={"omitted": False, "a": 1}).parameter_names == "a,omitted"


def test_parameters_that_were_too_large_to_record_are_missing() -> None:
    omitted = {"omitted": True, "originalSize": 110_000, "reason": "requestParameters too large"}
    records = [{**BASE, "requestParameters": omitted}, {**BASE, "requestParameters": {"a": 1}}]
    for many in (1, FEW_LINES):
        names = flat(*records * many).events.parameter_names
        assert (names[0::2].isna().all(), names[1::2].unique().tolist()) == (True, ["a"])


def test_the_target_account_is_the_first_foreign_one() -> None:
    here, there = "111111111111", "222222222222"
    arn = f"arn:aws:iam::{there}:role/x"
    assert (
        event(recipientAccountId=here, resources=[{"accountId": here}, {"accountId": there}]).target_account
        == there
    )
    assert event(recipientAccountId=here, requestParameters={"roleArn": arn}).target_account == there
    assert pd.isna(event(recipientAccountId=there, requestParameters={"roleArn": arn}).target_account)
    assert pd.isna(event(recipientAccountId=here, resources=[{"accountId": "123"}]).target_account)


def _policy(*principals: str) -> dict[str, Any]:
    """Return a policy that lets principals in."""
    return {"Statement": [{"Effect": "Allow", "Principal": {"AWS": list(principals)}, "Action": "*"}]}


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        ({"createVolumePermission": {"add": {"items": [{"userId": "222222222222"}]}}}, "222222222222"),
        ({"launchPermission": {"remove": {"items": [{"userId": "222222222222"}]}}}, None),
        ({"launchPermission": {"add": {"items": [{"userId": "111111111111"}]}}}, None),
        ({"attributeName": "restore", "valuesToAdd": ["222222222222"]}, "222222222222"),
        ({"name": "patch", "accountIdsToAdd": ["222222222222"]}, "222222222222"),
        ({"valuesToAdd": ["all"], "valuesToRemove": ["222222222222"]}, None),
        ({"key": {"orderId": "222222222222"}}, None),
        ({"key": {"accountId": "222222222222"}}, None),
        (
            {"launchPermission": {"add": {"items": [{"userId": "1"}, {"userId": "222222222222"}]}}},
            "222222222222",
        ),
        ({"principal": "222222222222"}, "222222222222"),
        ({"principal": {"dataLakePrincipalIdentifier": "222222222222"}}, "222222222222"),
        ({"accountWithRestoreAccess": "222222222222"}, "222222222222"),
        ({"account": "222222222222"}, "222222222222"),
        ({"account": "111111111111"}, None),
        ({"aWSAccountIds": ["333333333333", "222222222222", "111111111111"]}, "222222222222"),
        ({"principals": ["arn:aws:iam::333333333333:root", "222222222222"]}, "222222222222"),
        ({"principals": ["333333333333", "arn:aws:iam::222222222222:root"]}, "222222222222"),
        ({"portfolioId": "port-1", "accountId": "222222222222"}, "222222222222"),
        ({"portfolioId": "p", "acceptLanguage": "en", "accountId": "222222222222"}, "222222222222"),
        ({"directoryId": "d-1", "shareTarget": {"id": "222222222222", "type": "ACCOUNT"}}, "222222222222"),
        ({"target": {"type": "ACCOUNT", "id": "222222222222"}}, "222222222222"),
        ({"target": {"id": "222222222222-1", "name": "x"}}, None),
        ({"vpcId": "vpc-1", "peerOwnerId": "222222222222"}, "222222222222"),
        ({"transferAccountId": "222222222222"}, "222222222222"),
        ({"s3Bucket": "mirror", "s3BucketOwner": "222222222222"}, "222222222222"),
        (
            {"resultConfiguration": {"outputLocation": "s3://b/", "expectedBucketOwner": "222222222222"}},
            "222222222222",
        ),
        ({"s3BucketOwner": "111111111111"}, None),
        ({"bucketPolicy": _policy("222222222222")}, "222222222222"),
        ({"policy": json.dumps(_policy("222222222222"))}, "222222222222"),
        (
            {"policy": json.dumps(_policy("333333333333", "111111111111", "222222222222"), indent=2)},
            "222222222222",
        ),
        ({"policy": json.dumps(_policy("arn:aws:iam::222222222222:root"))}, "222222222222"),
    ],
)
def test_the_last_other_account_that_a_request_names_is_the_target(request_: Any, found: str | None) -> None:
    shared = event(recipientAccountId="111111111111", requestParameters=request_).target_account
    assert (None if pd.isna(shared) else shared) == found


def test_the_account_that_identity_center_gives_a_role_of_is_the_target() -> None:
    given = {"account_id": "222222222222", "role_name": "AdministratorAccess"}
    assert (
        event(recipientAccountId="111111111111", serviceEventDetails=given).target_account == "222222222222"
    )
    assert pd.isna(event(recipientAccountId="222222222222", serviceEventDetails=given).target_account)
    assert pd.isna(event(serviceEventDetails={**given, "account_id": "managed"}).target_account)


def test_a_record_without_an_id_is_known_by_a_digest_of_itself() -> None:
    ids = flat(
        {**BASE, "eventID": ""}, {**BASE, "eventID": None, "x": 1}, {**BASE, "eventID": ""}
    ).events.event_id
    assert ids[0] == ids[2] != ids[1]
    assert ids.str.fullmatch(r"digest:[0-9a-f]{32}").all()


def test_a_repeat_is_the_same_id_in_the_same_account() -> None:
    a, b = {**BASE, "recipientAccountId": "1"}, {**BASE, "recipientAccountId": "2"}
    keys = dedup_key(flat(a, b, {**a, "userAgent": "x"}, BASE, {**b, "eventID": "id-2"}).events)
    assert keys.dtype == "uint64"
    assert keys[0] == keys[2]
    assert len(set(keys.tolist())) == 4


def test_where_a_batch_is_cut_changes_nothing() -> None:
    lines = real("schema_variety")
    whole = flatten(split_lines(lines)).events.drop(columns="row")
    parts = [
        flatten(split_lines(lines[i : i + 7])).events.drop(columns="row") for i in range(0, len(lines), 7)
    ]
    pd.testing.assert_frame_equal(whole, pd.concat(parts, ignore_index=True))


def test_many_records_are_read_as_few_are() -> None:
    """Of many, distinct parameters are read once."""
    random = Random(0)
    lines = [drawn(random) for _ in range(FEW_LINES + 500)]
    lines += lines[: FEW_LINES // 2]
    many = flatten(split_lines(lines))
    few = [flatten(split_lines(lines[i : i + 500], first=i + 1)) for i in range(0, len(lines), 500)]
    columns = [column.name for column in COLUMNS]
    assert len(many.events) > FEW_LINES
    pd.testing.assert_frame_equal(
        many.events[columns], pd.concat([each.events[columns] for each in few], ignore_index=True)
    )
    assert sorted(map(str, many.rejects)) == sorted(str(reject) for each in few for reject in each.rejects)


@pytest.mark.parametrize(
    ("name", "records", "rejected", "skipped"),
    [("schema_variety", 63, 0, 0), ("panther_rule_tests", 461, 15, 5)],
)
def test_real_records_are_read(name: str, records: int, rejected: int, skipped: int) -> None:
    """The 15 have no eventTime, an empty one, or `...`; the 5 are network activity within an account."""
    result = flatten(split_lines(real(name)))
    assert (len(result.events), len(result.rejects)) == (records - rejected - skipped, rejected)
    assert result.skipped == skipped
    assert {reject.reason for reject in result.rejects} <= {"no usable eventTime"}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the larger real sets are not beside this checkout")
def test_all_real_records_are_read() -> None:
    results = [flatten(split_lines(real(folder.name, SHARED))) for folder in sets(SHARED)]
    assert sum(len(result.events) for result in results) == 5923
    assert sum(len(result.rejects) for result in results) == 15


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_mutated_real_records_never_raise_and_counts_add_up(data: st.DataObject) -> None:
    lines = []
    for line in data.draw(st.lists(st.sampled_from(real("schema_variety")), min_size=1, max_size=4)):
        at = data.draw(st.integers(0, len(line)))
        lines.append(
            line[:at]
            + data.draw(st.binary(max_size=8)).replace(b"\n", b"")
            + line[at + data.draw(st.integers(0, 9)) :]
        )
    records = split_lines(lines)
    came_in = len(records.lines) + len(records.rejects) + records.skipped
    result = flatten(records)
    assert len(result.events) + len(result.rejects) + result.skipped == came_in
    # Each whole object of a list that was cut is a record.
    is_list = any(line.lstrip().startswith(b"[") for line in lines)
    assert came_in > len(lines) if is_list and came_in != len(lines) else came_in == len(lines)


def test_reading_prints_nothing_even_where_the_library_takes_a_process_for_a_person() -> None:
    """Standard output is for figures. DuckDB shows its progress where no script runs: in a spawned worker, in `python -c`."""
    program = (
        "import duckdb, pyarrow as pa\n"
        "from fingerprint.sources.cloudtrail.duckdb_reader import _PlannedQuery\n"
        "asked = \"SELECT current_setting('enable_progress_bar')\"\n"
        "query = _PlannedQuery('SELECT * FROM lines', pa.table({'line': ['{}']}))\n"
        "print(*duckdb.connect().sql(asked).fetchall(), *query.engine.sql(asked).fetchall())"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout == "(True,) (False,)\n"
