"""Records to events: one row a record, fixed columns, whatever types a record's fields have.

Example:
    >>> from fingerprint.cloudtrail import split
    >>> record = b'{"eventTime": "2023-07-10T11:42:18Z", "eventSource": "ec2.amazonaws.com"}'
    >>> flatten(split(record)).events[["event_time", "service", "action"]].values.tolist()
    [[Timestamp('2023-07-10 11:42:18+0000', tz='UTC'), 'ec2', 'unknown']]

`COLUMNS` is the one table that says which column comes from which path as which type. Here it becomes a
structure for
DuckDB's `json_transform`, which reads each line once, gives NULL where a type conflicts, and runs over a
whole batch in
C++. What it refuses goes through `mend`, one by one. docs/reading.md has the figures and what else was tried.
"""

from __future__ import annotations

import atexit
import json
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from threading import Lock
from typing import Any, Literal, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fingerprint.cloudtrail import Records
from fingerprint.domain import Reject
from fingerprint.mend import EARLIEST, LATEST, Unreadable, instant, mend, why_no_event

KEY_LENGTH = 1024  # characters kept of a column that others group by; what is only shown is kept whole
_SHOWN = {"user_agent", "error_message", "parameter_names"}

Type = Literal["text", "flag", "time", "service", "name", "error", "keys", "target", "role"]


class Column(NamedTuple):
    """A column of the events, the path in the record that it comes from, and how it is read (see `_READ`)."""

    name: str
    path: str
    type: Type


_ISSUER = "userIdentity.sessionContext.sessionIssuer"
_ATTRIBUTES = "userIdentity.sessionContext.attributes"

COLUMNS: tuple[Column, ...] = (
    Column("event_id", "eventID", "text"),
    Column("event_time", "eventTime", "time"),
    Column("event_version", "eventVersion", "text"),
    Column("service", "eventSource", "service"),
    Column("action", "eventName", "name"),
    Column("region", "awsRegion", "text"),
    Column("source_address", "sourceIPAddress", "text"),
    Column("user_agent", "userAgent", "text"),
    Column("error_code", "errorCode", "error"),
    Column("error_message", "errorMessage", "text"),
    Column("read_only", "readOnly", "flag"),
    Column("event_type", "eventType", "text"),
    Column("event_category", "eventCategory", "text"),
    Column("management_event", "managementEvent", "flag"),
    Column("recipient_account", "recipientAccountId", "text"),
    Column("shared_event_id", "sharedEventID", "text"),
    Column("vpc_endpoint_id", "vpcEndpointId", "text"),
    Column("from_console", "sessionCredentialFromConsole", "flag"),
    Column("parameter_names", "requestParameters", "keys"),
    Column("target_account", "requestParameters", "target"),
    Column("role_arn", "requestParameters", "role"),
    Column("issued_key", "responseElements.credentials.accessKeyId", "text"),
    Column("identity_type", "userIdentity.type", "text"),
    Column("principal_id", "userIdentity.principalId", "text"),
    Column("arn", "userIdentity.arn", "text"),
    Column("account", "userIdentity.accountId", "text"),
    Column("access_key", "userIdentity.accessKeyId", "text"),
    Column("user_name", "userIdentity.userName", "text"),
    Column("invoked_by", "userIdentity.invokedBy", "text"),
    Column("identity_provider", "userIdentity.identityProvider", "text"),
    Column("issuer_type", f"{_ISSUER}.type", "text"),
    Column("issuer_arn", f"{_ISSUER}.arn", "text"),
    Column("issuer_id", f"{_ISSUER}.principalId", "text"),
    Column("issuer_account", f"{_ISSUER}.accountId", "text"),
    Column("issuer_name", f"{_ISSUER}.userName", "text"),
    Column("federated_provider", "userIdentity.sessionContext.webIdFederationData.federatedProvider", "text"),
    Column("session_created", f"{_ATTRIBUTES}.creationDate", "time"),
    Column("mfa", f"{_ATTRIBUTES}.mfaAuthenticated", "flag"),
    Column("behalf_user", "userIdentity.onBehalfOf.userId", "text"),
    Column("behalf_store", "userIdentity.onBehalfOf.identityStoreArn", "text"),
)

# How each type is read from its field {f} of the record r. Paths that two types share are read as JSON text.
_HELPERS = ("responseElements.ConsoleLogin", "userIdentity.accountId", "recipientAccountId", "errorMessage")
_ARN_ACCOUNT = '\'arn:aws[a-z-]*:[^:"]*:[^:"]*:([0-9]{12})[:"]\''
_OWN_ACCOUNT = "coalesce(r.recipientAccountId, r.userIdentity.accountId, '')"
_RESOURCES = (  # their accounts, written as ARNs
    "concat('arn:aws:::', array_to_string(list_transform(r.resources, lambda x: x.accountId), ':arn:aws:::'), ':')"
)


def _other_account(text: str) -> str:
    """SQL: the first account in the ARNs of `text` that is not the record's own."""
    return f"nullif(regexp_extract(replace({text}, {_OWN_ACCOUNT}, ''), {_ARN_ACCOUNT}, 1), '')"


_READ: dict[Type, str] = {
    "text": "{f}",
    "name": "coalesce(nullif({f}, ''), 'unknown')",
    "service": "coalesce(nullif(replace(lower({f}), '.amazonaws.com', ''), ''), 'unknown')",
    "flag": "TRY_CAST({f} AS BOOLEAN)",
    "time": "TRY_STRPTIME({f}, '%Y-%m-%dT%H:%M:%SZ')",
    "error": "coalesce(nullif({f}, ''), CASE WHEN nullif(r.errorMessage, '') IS NOT NULL"
    " OR r.responseElements.ConsoleLogin = 'Failure' THEN 'Failure' END)",
    "keys": "coalesce(array_to_string(json_keys({f}), ','), '')",
    "role": "CASE WHEN contains({f}::VARCHAR, '\"roleArn\"') THEN json_extract_string({f}, '$.roleArn') END",
    "target": "coalesce(CASE WHEN r.resources[2] IS NOT NULL"
    " OR r.resources[1].accountId <> coalesce(r.recipientAccountId, '')"
    f" THEN {_other_account(_RESOURCES)} END,"
    f" CASE WHEN contains({{f}}::VARCHAR, 'arn:aws') THEN {_other_account('{f}::VARCHAR')} END)",
}


class Flat(NamedTuple):
    """What became of records: `len(events) + len(rejects) + skipped` is every record that came in, split's
    rest included."""

    events: pd.DataFrame
    rejects: list[Reject]
    skipped: int


def flatten(records: Records) -> Flat:
    """One row per readable record, in their order: the columns of COLUMNS, then `row`, the index into
    `records.lines`.

    Text is `str` with NA for missing, flags are nullable booleans, times `datetime64[us, UTC]`. A record is
    an event if its
    eventTime can be used; no other field can cost it. Columns that others group by are cut at KEY_LENGTH
    characters; a
    missing event id becomes `digest:` and a hash of the record's bytes. Repeats are kept (see `repeat_key`).
    """
    table, rejects = _extract(records)
    frame, no_time = _to_frame(table, records.lines)
    no_event, skipped = _sort_out(frame, no_time, records)
    events = frame.drop(index=frame.index[no_event]) if no_event.any() else frame
    return Flat(
        events.reset_index(drop=True), records.rejects + rejects + skipped[0], records.skipped + skipped[1]
    )


def repeat_key(events: pd.DataFrame) -> np.ndarray:
    """A 64-bit hash of (recipient_account, event_id) per event, shape (n,), uint64: equal for a repeat,
    stable over runs."""
    account = pd.util.hash_array(events["recipient_account"].fillna("").to_numpy(object), categorize=True)
    event = pd.util.hash_array(events["event_id"].to_numpy(object), categorize=False)
    return event ^ (account * np.uint64(0x9E3779B97F4A7C15))


def _structure() -> dict[str, Any]:
    """The nested structure for json_transform that the paths of COLUMNS describe."""
    root: dict[str, Any] = {"resources": [{"accountId": "VARCHAR"}]}
    for path in (*(column.path for column in COLUMNS), *_HELPERS):
        *parents, leaf = path.split(".")
        node = root
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = "JSON" if path == "requestParameters" else "VARCHAR"
    return root


@cache
def _query() -> str:
    fields = [f"{_READ[c.type].replace('{f}', 'r.' + c.path)} AS {c.name}" for c in COLUMNS]
    odd = [
        f"CASE WHEN {c.name} IS NULL THEN r.{c.path} END AS odd_{c.name}" for c in COLUMNS if c.type == "time"
    ]
    return (
        f"SELECT {', '.join(fields + odd)}, row FROM "  # noqa: S608 - made of the table above alone
        f"(SELECT row, json_transform(line, '{json.dumps(_structure())}') AS r FROM lines)"
    )


class _Lines:
    """What a query reads from: whatever table is in it when the query runs."""

    table = pa.table({"line": pa.array([], pa.large_string()), "row": np.arange(0)})

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.table.__arrow_c_stream__(schema)


class _Reader:
    """A query over `lines(line, row)`, planned once: planning it costs as much as reading 3,000 records."""

    def __init__(self, query: str) -> None:
        self.lock, self.lines = Lock(), _Lines()
        self.engine = duckdb.connect(
            config={
                "threads": "1",  # one batch is one vector of work: more threads were measured to gain nothing
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            }
        )
        self.engine.register("lines", self.lines)
        self.engine.execute(f"PREPARE reading AS {query}")
        atexit.register(self.engine.close)  # it holds `lines`: left open, the interpreter complains of leaks

    def read(self, table: pa.Table) -> pa.Table:
        with self.lock:
            self.lines.table = table
            try:
                return self.engine.sql("EXECUTE reading").to_arrow_table()
            finally:
                del self.lines.table


_reader = cache(_Reader)


def _run(query: str, lines: Sequence[bytes], rows: np.ndarray) -> pa.Table:
    """The query over a table `lines(line, row)`. Raises duckdb.Error if one line is no strict JSON."""
    ends = np.zeros(len(lines) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)), out=ends[1:])
    text = pa.LargeStringArray.from_buffers(len(lines), pa.py_buffer(ends), pa.py_buffer(b"".join(lines)))
    return _reader(query).read(pa.table({"line": text, "row": rows}))


def _extract(records: Records) -> tuple[pa.Table, list[Reject]]:
    """All columns of all lines that are or can be made strict JSON, in the order of the lines; rejects for
    the rest."""
    rows = np.arange(len(records.lines))
    try:
        return _run(_query(), records.lines, rows), []
    except (duckdb.InvalidInputException, UnicodeDecodeError):  # the message quotes the line, cut anywhere
        valid = _valid(records.lines)
    mended, mended_rows, rejects = _mend(records, rows[~valid])
    parts = [
        _run(_query(), [records.lines[row] for row in rows[valid]], rows[valid]),
        _run(_query(), mended, mended_rows),
    ]
    return pa.concat_tables(parts).sort_by("row"), rejects


def _valid(lines: Sequence[bytes]) -> np.ndarray:
    table = _run("SELECT row, json_valid(line) AS ok FROM lines", lines, np.arange(len(lines)))
    return np.asarray(table.sort_by("row")["ok"].to_numpy(), bool)


def _mend(
    records: Records,
    rows: np.ndarray,
) -> tuple[list[bytes], np.ndarray, list[Reject]]:
    mended: dict[int, bytes] = {}
    rejects = []
    for row in rows.tolist():
        try:
            mended[row] = mend(records.lines[row])
        except Unreadable as error:
            rejects.append(_reject(records, row, str(error)))
    good = _valid(list(mended.values()))
    for row in np.array(list(mended), np.int64)[~good].tolist():
        rejects.append(_reject(records, row, "malformed JSON"))
        del mended[row]
    return list(mended.values()), np.array(list(mended), np.int64), rejects


def _to_frame(table: pa.Table, lines: list[bytes]) -> tuple[pd.DataFrame, np.ndarray]:
    """Arrow to pandas with times mended, keys cut and ids filled; and which rows have no usable time."""
    columns: dict[str, Any] = {}
    for column in COLUMNS:
        values = table[column.name]
        if column.type == "time":
            values = _times(values, table[f"odd_{column.name}"])
        elif column.type == "keys":
            values = _sorted(values)
        elif column.type != "flag" and column.name not in _SHOWN:
            values = _cut(values)
        columns[column.name] = values
    columns["event_id"] = _ids(columns["event_id"], table["row"], lines)
    columns["row"] = table["row"]
    frame = pa.table(columns).to_pandas(types_mapper={pa.bool_(): pd.BooleanDtype()}.get)
    return frame, pc.is_null(columns["event_time"]).to_numpy()


def _times(parsed: pa.ChunkedArray, odd: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as UTC; those not written the usual way are read one by one."""
    known = parsed.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    possible = pc.and_(pc.greater_equal(known, EARLIEST), pc.less(known, LATEST))
    known = pc.if_else(possible, known, pa.scalar(None, known.type))
    if odd.null_count == len(odd):
        return known
    careful = pa.array([instant(text) if text else None for text in odd.to_pylist()], known.type)
    return pc.coalesce(known, careful)


def _sorted(names: pa.ChunkedArray) -> pa.Array:
    """Parameter names in the order of the alphabet; done once per distinct set, of which there are few."""
    encoded = names.combine_chunks().dictionary_encode()
    ordered = [",".join(sorted(each.split(","))) for each in encoded.dictionary.to_pylist()]
    return pa.array(ordered, names.type).take(encoded.indices)


def _cut(values: pa.ChunkedArray) -> pa.ChunkedArray:
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    return pc.utf8_slice_codeunits(values, 0, KEY_LENGTH) if longest > KEY_LENGTH else values


def _ids(ids: pa.ChunkedArray, rows: pa.ChunkedArray, lines: list[bytes]) -> pa.ChunkedArray:
    missing = pc.equal(pc.fill_null(ids, ""), "")
    if not pc.any(missing).as_py():
        return ids
    digests = [
        f"digest:{blake2b(lines[row], digest_size=16).hexdigest()}"
        for row in rows.filter(missing).to_pylist()
    ]
    return pc.replace_with_mask(ids.combine_chunks(), missing.combine_chunks(), pa.array(digests, ids.type))


def _sort_out(
    frame: pd.DataFrame, no_time: np.ndarray, records: Records
) -> tuple[np.ndarray, tuple[list[Reject], int]]:
    """Which rows are no events; their rejects; how many are none by design (insights, digests, test
    notices)."""
    insight = (
        (frame["event_category"] == "Insight") | (frame["event_type"] == "AwsCloudTrailInsight")
    ).to_numpy(bool)
    notice = (frame["service"] == "aws:s3").to_numpy(bool)
    rejects, skipped = [], int(insight.sum())
    for row in frame["row"][no_time & ~insight & ~notice].tolist():
        reason = why_no_event(records.lines[row])
        skipped += reason is None
        rejects += [_reject(records, row, reason)] if reason else []
    for row in frame["row"][notice & ~insight].tolist():
        rejects.append(_reject(records, row, "an S3 notice: it names objects and holds no record"))
    return no_time | insight | notice, (rejects, skipped)


def _reject(records: Records, row: int, reason: str) -> Reject:
    source, position = records.origins[row]
    return Reject(source, position, reason)
