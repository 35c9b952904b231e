"""Reader on a host: two queries of DuckDB over a batch of lines, and the lenient parser for lines that they refuse.

Example:
    >>> read_on_host(split_message(b'{"eventTime": "2023-07-10T11:42:18Z"}')).events["action"].tolist()
    ['unknown']

COLUMNS becomes a structure for DuckDB's `json_transform`, which reads each line once, gives NULL for a conflicting type, and runs
over a whole batch in C++. The three columns that are made of a request's parameters cost half as much as all others, and calls
repeat their parameters. So a second query reads each distinct text of parameters once. Lines that a query refuses go through
`lenient`, one by one. docs/explanation/performance.md has the figures, docs/explanation/experiments.md the other attempts.
"""

from __future__ import annotations

import atexit
import json
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from threading import Lock
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fingerprint.core.alert import Reject
from fingerprint.sources.base import FlattenedRecords, RecordBatch
from fingerprint.sources.cloudtrail.lenient import (
    EARLIEST_TIME,
    LATEST_TIME,
    ParseError,
    non_event_reason,
    parse_time,
    repair_record,
)
from fingerprint.sources.cloudtrail.named_accounts import (
    ARN_ACCOUNT,
    NAMED_ACCOUNT,
    NAMED_IN_ARN,
    NUMBER_IN_QUOTES,
)
from fingerprint.sources.cloudtrail.resources import (
    ARN_MEMBER,
    GIVEN_MEMBER,
    ITEM_ID,
    NESTED_NAMES,
    RESOURCE_PARAMETERS,
    resource_of,
)
from fingerprint.sources.cloudtrail.schema import (
    COLUMNS,
    GIVEN_ACCOUNT,
    GIVEN_ROLE,
    LOGINS,
    MAX_COLUMN_LENGTH,
    MFA_ANSWERS,
    MFA_USED,
    OMITTED,
    PARAMETERS,
    RESOURCE_ACCOUNT,
    RESOURCES,
    UNTRUNCATED_COLUMNS,
    ColumnType,
    record_structure,
    sort_parameter_names,
)
from fingerprint.sources.joined_lines import join_lines

# How each type is read: from its field {f} of the record r; those of _PARAMETER_TYPES from the JSON text of the parameters, which
# is their `line`, and the structure p of those that columns hold. q are the `resources` that the record lists, `recipient` and
# `account` say whose it is, `given` is the account and the role that Identity Center gave.
_RESOURCE_ACCOUNTS = (  # written as ARNs
    "concat('arn:aws:::', array_to_string(list_transform(q, lambda x: x.accountId), ':arn:aws:::'), ':')"
)


_OWN_ACCOUNT = "coalesce(recipient, account, '')"


def _without_own(text: str) -> str:
    """Return SQL for `text` without the record's own account."""
    return f"replace({text}, {_OWN_ACCOUNT}, '')"


# How the parameters that may name a resource are read: the structure of each, and its (first) name in that.
_NAMING: dict[str, tuple[Any, str]] = {
    "text": ("VARCHAR", "p.{name}"),
    "list": (["VARCHAR"], "p.{name}[1]"),
    "keys": ("JSON", "json_keys(p.{name})[1]"),
    "items": ({"items": [{ITEM_ID: "VARCHAR"}]}, f"p.{{name}}.items[1].{ITEM_ID}"),
}
_NAMES = {name: _NAMING[NESTED_NAMES.get(name, "text")] for name in RESOURCE_PARAMETERS}

_READ: dict[ColumnType, str] = {
    "text": "{f}",
    "name": "coalesce(nullif({f}, ''), 'unknown')",
    "service": "coalesce(nullif(replace(lower({f}), '.amazonaws.com', ''), ''), 'unknown')",
    "flag": "TRY_CAST({f} AS BOOLEAN)",
    "mfa": f"coalesce(TRY_CAST({{f}} AS BOOLEAN), CASE r.{MFA_USED}"
    + "".join(f" WHEN '{answer}' THEN {flag}" for answer, flag in MFA_ANSWERS.items())
    + " END)",
    "time": "{f}",
    "error": "nullif({f}, '')",
    "keys": f"CASE WHEN p.{OMITTED} = 'true' THEN NULL ELSE coalesce(array_to_string(json_keys(line), ','), '') END",
    "resource": "coalesce("
    + ", ".join(f"'{name}=' || {read.format(name=name)}" for name, (_, read) in _NAMES.items())
    + f", '{GIVEN_MEMBER}=' || given, '{ARN_MEMBER}=' || q[1].{ARN_MEMBER})",
    "target": "coalesce(CASE WHEN q[2] IS NOT NULL OR q[1].accountId <> coalesce(recipient, '')"
    f" THEN nullif(regexp_extract({_without_own(_RESOURCE_ACCOUNTS)}, '{ARN_ACCOUNT}', 1), '') END,"
    f" CASE WHEN contains(line, 'arn:aws') OR regexp_matches(line, '{NUMBER_IN_QUOTES}')"
    f" THEN CASE WHEN regexp_matches({_without_own('line')}, '{NUMBER_IN_QUOTES}')"
    f" THEN regexp_extract_all({_without_own('line')}, '{NAMED_ACCOUNT}', 1)"
    f" ELSE regexp_extract_all({_without_own('line')}, '{NAMED_IN_ARN}', 1) END[-1] END,"
    f" nullif(nullif(regexp_extract(given, '^([0-9]{{12}})/', 1), ''), {_OWN_ACCOUNT}))",
}
_PARAMETER_TYPES = ("keys", "resource", "target")
_INPUTS = {  # what these are made of, by the names in their SQL: members of the record, and the columns that hold them
    "line": (f"r.{PARAMETERS}", "parameters"),
    "resources": (f"r.{RESOURCES}", "resources"),
    "recipient": ("r.recipientAccountId", "recipient_account"),
    "account": ("r.userIdentity.accountId", "account"),
    "given": (f"r.{GIVEN_ACCOUNT} || '/' || r.{GIVEN_ROLE}", "given"),
}
FEW_LINES = 2_000  # for fewer, one query for all columns takes less time than two
_TIMES = "SELECT TRY_STRPTIME(line, '%Y-%m-%dT%H:%M:%SZ') AS time FROM lines"
_TIME_FORM = np.frombuffer(b"0000-00-00T00:00:00Z", np.uint8)
_MARKS = [4, 7, 10, 13, 16, 19]  # places of what is no number in it


def read_on_host(records: RecordBatch) -> FlattenedRecords:
    """Return one row for each readable record, in order; see `source.flatten`."""
    table, rejects = _extract(records)
    frame, no_time = _to_frame(table, records.lines)
    no_event, skipped = _classify_rows(frame, no_time, records)
    events = frame.drop(index=frame.index[no_event]) if no_event.any() else frame
    return FlattenedRecords(
        events.reset_index(drop=True), records.rejects + rejects + skipped[0], records.skipped + skipped[1]
    )


def _texts(members: dict[str, Any]) -> dict[str, Any]:
    """Return the members with type VARCHAR: everything is read as text first, because fields have any type in practice."""
    return {name: _texts(each) if isinstance(each, dict) else "VARCHAR" for name, each in members.items()}


def _structure() -> str:
    """Return the structure for json_transform; parameters and resources stay JSON, to be read once for each distinct text."""
    return json.dumps(_texts(record_structure()) | {PARAMETERS: "JSON", RESOURCES: "JSON"})


@cache
def _query(of_parameters: bool) -> str:
    """Return the query for all columns, or, without `of_parameters`, for the other columns and the _INPUTS of the rest."""
    fields = {
        c.name: _READ[c.type].replace("{f}", "r." + c.path)
        for c in COLUMNS
        if of_parameters or c.type not in _PARAMETER_TYPES
    }
    helpers = {"login_failed": f"'Failure' IN ({', '.join(f'r.{path}' for path in LOGINS)})"}
    if not of_parameters:
        helpers |= {name: read for read, name in _INPUTS.values() if name not in fields}
    selected = ", ".join(f"{read} AS {name}" for name, read in (fields | helpers).items())
    records = f"SELECT row, json_transform(line, '{_structure()}') AS r FROM lines"  # noqa: S608 - made of the tables above alone
    inputs = ", ".join(f"{read} AS {name}" for name, (read, _) in _INPUTS.items())
    source = _with_structures(f"SELECT row, r, {inputs} FROM ({records})") if of_parameters else records  # noqa: S608
    return f"SELECT {selected}, row FROM ({source})"  # noqa: S608


@cache
def _parameters_query() -> str:
    """Return the query for the columns that are made of the parameters, over a table of _INPUTS."""
    fields = ", ".join(f"{_READ[c.type]} AS {c.name}" for c in COLUMNS if c.type in _PARAMETER_TYPES)
    return f"SELECT {fields} FROM ({_with_structures('SELECT * FROM lines')})"  # noqa: S608 - made of the tables above alone


def _with_structures(inputs: str) -> str:
    """Return a query of the inputs with the structures p and q."""
    named = json.dumps({OMITTED: "VARCHAR"} | {name: structure for name, (structure, _) in _NAMES.items()})
    listed = json.dumps([{RESOURCE_ACCOUNT: "VARCHAR", ARN_MEMBER: "VARCHAR"}])
    return (
        f"SELECT *, json_transform(line, '{named}') AS p, json_transform(resources, '{listed}') AS q "  # noqa: S608 - made above
        f"FROM ({inputs})"
    )


class _LineTable:
    """The table that a planned query reads from, replaced before each run."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.table.__arrow_c_stream__(schema)


class _PlannedQuery:
    """A query over `lines`, a table like `example`, planned once: planning it costs as much as reading 3,000 records."""

    def __init__(self, query: str, example: pa.Table) -> None:
        self.lock, self.lines = Lock(), _LineTable(example)
        self.engine = duckdb.connect(
            config={
                "threads": "1",  # one batch is one vector of work: more threads were measured to gain nothing
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            }
        )
        _print_no_progress(self.engine)
        self.engine.register("lines", self.lines)
        self.engine.execute(f"PREPARE reading AS {query}")
        atexit.register(self.engine.close)  # it holds `lines`: left open, the interpreter complains of leaks

    def read(self, table: pa.Table) -> pa.Table:
        with self.lock:
            self.lines.table = table
            try:
                return self.engine.sql("EXECUTE reading").to_arrow_table()
            except duckdb.OutOfMemoryException as error:
                raise MemoryError(str(error)) from None
            finally:
                del self.lines.table


def _print_no_progress(engine: duckdb.DuckDBPyConnection) -> None:
    """Turn off progress bars: DuckDB takes a worker process for an interactive one, and would print them among our figures.

    If they are off, the setting is not touched: in a notebook without ipywidgets it must not be.
    """
    if engine.sql("SELECT current_setting('enable_progress_bar')").fetchall() == [(True,)]:
        engine.execute("SET enable_progress_bar = false")


@cache
def _reader(query: str, *columns: tuple[str, pa.DataType]) -> _PlannedQuery:
    return _PlannedQuery(query, pa.schema(columns).empty_table())


def _run(query: str, lines: Sequence[bytes], rows: np.ndarray) -> pa.Table:
    """Run a query over a table `lines(line, row)`. Raise duckdb.Error if one line is no strict JSON."""
    text, borders = join_lines(lines)
    column = pa.LargeStringArray.from_buffers(len(lines), pa.py_buffer(borders), pa.py_buffer(text))
    return _read(query, pa.table({"line": column, "row": rows}))


def _read(query: str, table: pa.Table) -> pa.Table:
    return _reader(query, *zip(table.column_names, table.schema.types, strict=True)).read(table)


def _read_columns(lines: Sequence[bytes], rows: np.ndarray) -> pa.Table:
    """Return all columns of lines of strict JSON, with times as texts. Raise duckdb.Error if one line is no strict JSON."""
    few = len(lines) < FEW_LINES
    table = _run(_query(of_parameters=few), lines, rows)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    if not few:
        inputs, codes = _distinct_rows(
            pa.table({name: table[column] for name, (_, column) in _INPUTS.items()})
        )
        made = _read(_parameters_query(), inputs).take(codes)
        columns |= dict(zip(made.column_names, made.columns, strict=True))
    columns["error_code"] = _errors(table)
    return pa.table({name: columns[name] for name in (*(column.name for column in COLUMNS), "row")})


def _distinct_rows(table: pa.Table) -> tuple[pa.Table, pa.Array]:
    """Return the distinct rows of text columns, in the order of first occurrence, and the place of each row (N,) among them."""
    codes = np.zeros(len(table), np.int64)
    for column in table.columns:
        texts = column.combine_chunks().dictionary_encode(null_encoding="encode")
        mixed = codes * len(texts.dictionary) + texts.indices.to_numpy()
        codes = pa.array(mixed).dictionary_encode().indices.to_numpy().astype(np.int64)
    first = np.zeros(codes.max(initial=-1) + 1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of equal places the last one written stays
    return table.take(pa.array(first)), pa.array(codes)


def _errors(table: pa.Table) -> pa.ChunkedArray:
    """Return the error code of each call, `Failure` for a failed call without one."""
    explained = pc.greater(pc.binary_length(table["error_message"]), 0)
    failed = pc.or_(pc.fill_null(explained, False), pc.fill_null(table["login_failed"], False))
    code = table["error_code"]
    return pc.coalesce(code, pc.if_else(failed, pa.scalar("Failure", code.type), pa.scalar(None, code.type)))


def _extract(records: RecordBatch) -> tuple[pa.Table, list[Reject]]:
    """Return all columns of the lines that are strict JSON or can be repaired, in order, and rejects for the others."""
    rows = np.arange(len(records.lines))
    try:
        return _read_columns(records.lines, rows), []
    except (duckdb.InvalidInputException, UnicodeDecodeError):  # the message quotes the line, cut anywhere
        valid = _valid(records.lines)
    repaired, repaired_rows, rejects = _repair_records(records, rows[~valid])
    parts = [
        _read_columns([records.lines[row] for row in rows[valid]], rows[valid]),
        _read_columns(repaired, repaired_rows),
    ]
    return pa.concat_tables(parts).sort_by("row"), rejects


def _valid(lines: Sequence[bytes]) -> np.ndarray:
    table = _run("SELECT row, json_valid(line) AS ok FROM lines", lines, np.arange(len(lines)))
    return np.asarray(table.sort_by("row")["ok"].to_numpy(), bool)


def _repair_records(
    records: RecordBatch,
    rows: np.ndarray,
) -> tuple[list[bytes], np.ndarray, list[Reject]]:
    repaired: dict[int, bytes] = {}
    rejects = []
    for row in rows.tolist():
        try:
            repaired[row] = repair_record(records.lines[row])
        except ParseError as error:
            rejects.append(_reject(records, row, str(error)))
    good = _valid(list(repaired.values()))
    for row in np.array(list(repaired), np.int64)[~good].tolist():
        rejects.append(_reject(records, row, "malformed JSON"))
        del repaired[row]
    return list(repaired.values()), np.array(list(repaired), np.int64), rejects


def _to_frame(table: pa.Table, lines: list[bytes]) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a pandas frame with times repaired, keys cut and ids filled, and a mask of the rows without a usable time."""
    columns: dict[str, Any] = {}
    for column in COLUMNS:
        values = table[column.name]
        if column.type == "time":
            values = _times(values)
        elif column.type == "keys":
            values = _map_distinct(values, sort_parameter_names)
        elif column.type == "resource":
            values = _map_distinct(values, resource_of)
        elif column.type not in ("flag", "mfa") and column.name not in UNTRUNCATED_COLUMNS:
            values = _cut(values)
        columns[column.name] = values
    columns["event_id"] = _ids(columns["event_id"], table["row"], lines)
    columns["row"] = table["row"]
    frame = pa.table(columns).to_pandas(types_mapper={pa.bool_(): pd.BooleanDtype()}.get)
    return frame, pc.is_null(columns["event_time"]).to_numpy(zero_copy_only=False)


def _times(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as UTC; unusual formats are parsed one by one."""
    parsed = _usual_times(texts.combine_chunks())
    if parsed is None:
        parsed = _read(_TIMES, pa.table({"line": texts}))["time"].cast(pa.timestamp("us"))
    known = parsed.cast(pa.timestamp("us", "UTC"))
    possible = pc.and_(pc.greater_equal(known, EARLIEST_TIME), pc.less(known, LATEST_TIME))
    known = pc.if_else(possible, known, pa.scalar(None, known.type))
    if parsed.null_count == texts.null_count:
        return known
    odd = pc.if_else(pc.is_null(parsed), texts, pa.scalar(None, texts.type))
    careful = pa.array([parse_time(text) if text else None for text in odd.to_pylist()], known.type)
    return pc.coalesce(known, careful)


def _usual_times(texts: pa.StringArray) -> pa.Array | None:
    """Return times if all have the format `2023-07-10T11:42:18Z`, else None."""
    _, offsets, data = texts.buffers()
    borders = (
        np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1]
        if len(texts)
        else np.zeros(1, np.int32)
    )
    sizes = np.diff(borders)
    if not np.isin(sizes, (0, len(_TIME_FORM))).all():
        return None
    written = np.frombuffer(data or b"", np.uint8)[borders[0] : borders[-1]].reshape(-1, len(_TIME_FORM))
    if (written[:, _MARKS] != _TIME_FORM[_MARKS]).any():
        return None
    try:
        return texts.cast(pa.timestamp("s", "UTC"))
    except pa.ArrowInvalid:
        return None


def _map_distinct(texts: pa.ChunkedArray, convert: Callable[[str | None], str | None]) -> pa.Array:
    """Return converted texts; each distinct text is converted once, and missing ones stay missing."""
    encoded = texts.combine_chunks().dictionary_encode()
    converted = [convert(each) for each in encoded.dictionary.to_pylist()]
    return pa.array(converted, texts.type).take(encoded.indices)


def _cut(values: pa.ChunkedArray) -> pa.ChunkedArray:
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    return pc.utf8_slice_codeunits(values, 0, MAX_COLUMN_LENGTH) if longest > MAX_COLUMN_LENGTH else values


def _ids(ids: pa.ChunkedArray, rows: pa.ChunkedArray, lines: list[bytes]) -> pa.ChunkedArray:
    missing = pc.equal(pc.fill_null(ids, ""), "")
    if not pc.any(missing).as_py():
        return ids
    digests = [
        f"digest:{blake2b(lines[row], digest_size=16).hexdigest()}"
        for row in rows.filter(missing).to_pylist()
    ]
    return pc.replace_with_mask(ids.combine_chunks(), missing.combine_chunks(), pa.array(digests, ids.type))


def _classify_rows(
    frame: pd.DataFrame, no_time: np.ndarray, records: RecordBatch
) -> tuple[np.ndarray, tuple[list[Reject], int]]:
    """Return a mask of the rows that are no events, their rejects, and the number of those that are no events by design."""
    by_design = _is_no_event(frame)
    notice = (frame["service"] == "aws:s3").to_numpy(bool)
    foreign = (frame["event_category"] == "ActivityAuditLog").to_numpy(bool)
    rejects, skipped = [], int(by_design.sum())
    for row in frame["row"][no_time & ~by_design & ~notice & ~foreign].tolist():
        reason = non_event_reason(records.lines[row])
        skipped += reason is None
        rejects += [_reject(records, row, reason)] if reason else []
    for rows, reason in (
        (notice, "an S3 notice: it names objects and holds no record"),
        (foreign & ~notice, "an activity from outside AWS, which CloudTrail Lake took in"),
    ):
        rejects += [_reject(records, row, reason) for row in frame["row"][rows & ~by_design].tolist()]
    return no_time | by_design | notice | foreign, (rejects, skipped)


def _is_no_event(frame: pd.DataFrame) -> np.ndarray:
    """Return a mask of the rows that are insights, or network activity of an account's callers through its own VPC endpoints.

    Such a call also has a record of its own. A call that the policy of an endpoint denied, or that crosses accounts, has none in
    this account, so its network activity is an event.
    """
    insight = (frame["event_category"] == "Insight") | (frame["event_type"] == "AwsCloudTrailInsight")
    network = (frame["event_category"] == "NetworkActivity") | (frame["event_type"] == "AwsVpceEvent")
    own, inside = frame["recipient_account"], frame["error_code"].isna()
    for account in ("account", "vpc_endpoint_account"):
        inside &= (frame[account] == own) & (own != "")
    return (insight | (network & inside)).to_numpy(bool)


def _reject(records: RecordBatch, row: int, reason: str) -> Reject:
    source, position = records.origins[row]
    return Reject(source, position, reason)
