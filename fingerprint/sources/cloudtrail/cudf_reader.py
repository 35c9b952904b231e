"""Reader on a device: a JSON filter keeps the members that have columns, cuDF parses them, and the host reads the rest.

Example:
    >>> flat = read_on_device(records, "cudf")           # the same events and rejects as by `duckdb_reader`
    >>> flat.events["service"].str.upper()               # a cuDF table: it lies on the device

The records are copied to the device once, unchanged. The filter (`json_filter.cu`) reads them strictly, and passes on the members
that have columns, of those records that are *plain*. So cuDF gets nothing that two readers could read differently, and no member
whose name a caller chose can become a column. All other records are read on the host, and their events and rejects are put in
their places. docs/explanation/reading.md has the rules and their reasons.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import arrays, frames
from fingerprint.compute.arrays import Array
from fingerprint.compute.frames import Frame
from fingerprint.compute.kernels import launch_kernel
from fingerprint.sources.base import FlattenedRecords, RecordBatch
from fingerprint.sources.cloudtrail import duckdb_reader
from fingerprint.sources.cloudtrail.resources import NESTED_NAMES, RESOURCE_PARAMETERS, resource_of
from fingerprint.sources.cloudtrail.schema import (
    COLUMNS,
    GIVEN_ACCOUNT,
    GIVEN_ROLE,
    LOGINS,
    MFA_ANSWERS,
    MFA_USED,
    PARAMETERS,
    RESOURCES,
    UNTRUNCATED_COLUMNS,
    ColumnSpec,
    record_structure,
    sort_parameter_names,
)
from fingerprint.sources.joined_lines import join_lines

FILTER = Path(__file__).with_name("json_filter.cu")
MAX_RECORD_BYTES = 1 << 16  # one thread reads a record, and a long one makes its neighbours wait
BATCH_BYTES = 1 << 30  # bytes of records at a time: a column of text ends at 2^31
# Of the parameters, in their place
DERIVED_KINDS = {"parameter_names": "names", "target_account": "target", "resource": "resource"}
MEMBER_KINDS = (  # of nodes, as `json_filter.cu` numbers them
    "group",
    "text",
    "shown",
    "flag",
    "time",
    "begun",
    "name",
    "source",
    "sort",
    "recipient",
    "account",
    "message",
    "login",
    "given_account",
    "given_role",
    "parameters",
    "resources",
    "list",
    "keys",
    "items",
)
_SPECIAL = {
    "eventID": "name",
    "eventTime": "time",
    "eventSource": "source",
    "eventType": "sort",
    "eventCategory": "sort",
    "errorMessage": "message",
    "recipientAccountId": "recipient",
    "userIdentity.accountId": "account",
    "userIdentity.sessionContext.attributes.creationDate": "begun",
    **dict.fromkeys(LOGINS, "login"),  # they say whether there was an error, and are not passed on
    GIVEN_ACCOUNT: "given_account",
    GIVEN_ROLE: "given_role",
    PARAMETERS: "parameters",
    RESOURCES: "resources",
}
RecordRange = tuple[int, int]  # the first of some records, and the one after the last


class MemberTree(NamedTuple):
    """The tree of the members that are read: for each node its kind, first child, number of children, and place of its key."""

    kind: NDArray[np.int32]
    first: NDArray[np.int32]
    children: NDArray[np.int32]
    begin: NDArray[np.int32]
    size: NDArray[np.int32]
    keys: NDArray[np.uint8]


class FilteredRecords(NamedTuple):
    """The filter's result for N records, of which P are plain.

    - `plain` (N,), on the host: the mask of plain records
    - `lines` (B,), UTF-8: a line with every member, then those of the plain records
    - `time`, `begun` (P,): times of event and session in microseconds, NOT_A_TIME for none; `failed` (P,): the call failed

    All but `plain` are on the device.
    """

    plain: NDArray[np.bool_]
    lines: Array
    time: Array
    begun: Array
    failed: Array


def read_on_device(records: RecordBatch, dataframe_library: str) -> FlattenedRecords:
    """Return one row for each readable record, in order; see `source.flatten`."""
    parts = [_read_plain(records.lines, piece, dataframe_library) for piece in _record_ranges(records.lines)]
    careful = np.concatenate([rows for _, rows in parts])
    return _merge_results([events for events, _ in parts], _read_on_host(records, careful), dataframe_library)


def _record_ranges(lines: list[bytes]) -> list[RecordRange]:
    """Return ranges of records of about BATCH_BYTES each; at least one range."""
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)))
    cuts = np.searchsorted(ends, np.arange(BATCH_BYTES, int(ends[-1]), BATCH_BYTES)) if len(ends) else ends
    return list(pairwise([0, *np.unique(cuts[cuts > 0]).tolist(), len(lines)]))


def _read_plain(lines: list[bytes], piece: RecordRange, tables: str) -> tuple[Frame, NDArray[np.int64]]:
    """Return the events of the plain records of a range, and the places of the others."""
    begin, end = piece
    filtered = filter_records(lines[begin:end], frames.import_array_library(tables))
    rows = np.flatnonzero(filtered.plain) + begin
    members = _members(filtered.lines, tables)
    there = members["eventTime"].notna().values  # a record that cuDF could not read is an empty row
    if len(members) != len(rows) + 1 or not bool(there.all()):
        return _empty_frame(tables), np.arange(begin, end)
    rest = np.flatnonzero(~filtered.plain) + begin
    return _events(members, filtered, rows), rest


def _read_on_host(records: RecordBatch, careful: NDArray[np.int64]) -> FlattenedRecords:
    """Return the events and rejects of the records at some places, read on the host."""
    lines, origins = ([each[row] for row in careful.tolist()] for each in (records.lines, records.origins))
    rest = duckdb_reader.read_on_host(RecordBatch(lines, origins, records.rejects, records.skipped))
    return rest._replace(events=rest.events.assign(row=careful[rest.events["row"].to_numpy(np.int64)]))


def _merge_results(parts: list[Frame], rest: FlattenedRecords, tables: str) -> FlattenedRecords:
    """Return the events of device and host in the order of the records."""
    filled = [part for part in parts if len(part)]
    if len(rest.events) or not filled:
        filled.append(frames.to_device(rest.events, tables))
    if len(filled) == 1:
        return rest._replace(events=filled[0])
    events = frames.import_library(tables).concat(filled, ignore_index=True)
    return rest._replace(events=events.sort_values("row", ignore_index=True))


def _empty_frame(tables: str) -> Frame:
    return frames.to_device(duckdb_reader.read_on_host(RecordBatch([], [], [])).events, tables)


# --- the filter -------------------------------------------------------------------------------------------------------


def filter_records(lines: list[bytes], xp: Any) -> FilteredRecords:
    """Copy records to the device and filter them; `xp` is the module of the arrays there."""
    count, first = len(lines), _every_member()
    text, borders = _copy_to_device(lines, xp)
    plain, failed = xp.zeros(count, np.uint8), xp.zeros(count, np.uint8)
    sizes, time, begun = (xp.zeros(count, np.int64) for _ in range(3))
    given = (
        text,
        borders,
        MAX_RECORD_BYTES,
        *map(xp.asarray, member_tree()),
        plain,
        sizes,
        time,
        begun,
        failed,
    )
    launch_kernel(FILTER, count, *given, 0, text, sizes)  # measures
    places = xp.cumsum(sizes) - sizes + len(first)
    out = xp.empty(len(first) + int(sizes.sum()), np.uint8)
    out[: len(first)] = xp.asarray(first)
    launch_kernel(FILTER, count, *given, 1, out, places)  # writes
    kept = plain.astype(bool)
    return FilteredRecords(arrays.to_host(kept), out, time[kept], begun[kept], failed[kept])


def _copy_to_device(lines: list[bytes], xp: Any) -> tuple[Array, Array]:
    """Return all bytes in one copy, and the offsets (N + 1,) at which each record begins and the last one ends."""
    text, borders = join_lines(lines)
    return xp.asarray(np.frombuffer(text, np.uint8)), xp.asarray(borders)


@cache
def member_tree() -> MemberTree:
    """Return the tree for the filter: nodes in the order of their depth, so that the children of one lie side by side.

    The last nodes are the parameters that may name a resource, the most telling first.
    """
    groups: list[tuple[str, Any]] = [("", record_structure() | {RESOURCES: RESOURCES})]
    kind, first, count = [], [], []
    for _, each in groups:  # grows while it is gone through
        inside = list(each.items()) if isinstance(each, dict) else []
        kind.append(MEMBER_KINDS.index(_kind(each)))
        first.append(len(groups))
        count.append(len(inside))
        groups += inside
    parameters = [key for key, _ in groups].index(PARAMETERS)
    first[parameters], count[parameters] = len(groups), len(RESOURCE_PARAMETERS)
    for name in RESOURCE_PARAMETERS:
        groups.append((name, name))
        kind.append(MEMBER_KINDS.index(NESTED_NAMES.get(name, "text")))
        first.append(0)
        count.append(0)
    keys = [key.encode() for key, _ in groups]
    ends = np.cumsum([len(key) for key in keys])
    sizes = np.array([len(key) for key in keys])
    kinds, firsts, counts, begins, lengths = (
        np.array(each, np.int32) for each in (kind, first, count, ends - sizes, sizes)
    )
    return MemberTree(kinds, firsts, counts, begins, lengths, np.frombuffer(b"".join(keys), np.uint8))


def _kind(member: dict[str, Any] | str) -> str:
    if isinstance(member, dict):
        return "group"
    column = next((column for column in COLUMNS if column.path == member), None)
    otherwise = (
        "flag"
        if column and column.type in ("flag", "mfa")
        else "shown"
        if column and column.name in UNTRUNCATED_COLUMNS
        else "text"
    )
    return _SPECIAL.get(member, otherwise)


@cache
def _every_member() -> NDArray[np.uint8]:
    """Return a line with every member that the filter passes on, so that the columns of cuDF do not depend on the records."""
    return np.frombuffer(json.dumps(forwarded_members(), separators=(",", ":")).encode() + b"\n", np.uint8)


@cache
def forwarded_members() -> dict[str, Any]:
    """Return the nested members of a line that the filter writes, each with an empty text."""
    return _empty(record_structure()) | {PARAMETERS: dict.fromkeys(DERIVED_KINDS.values(), "")}


def _empty(members: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _empty(each) if isinstance(each, dict) else ""
        for name, each in members.items()
        if each not in LOGINS
    }


# --- columns ----------------------------------------------------------------------------------------------------------


def _members(lines: Array, tables: str) -> Frame:
    """Return the lines as a cuDF table: a row for each line, a column for each member, groups as structs.

    `cudf.read_json` takes bytes on the host. These are on the device, so its low-level reader is called directly. With recovery,
    a line that it cannot read is an empty row.
    """
    low = frames.import_low_level_library(tables)
    options = (
        low.io.json.JsonReaderOptions.builder(low.io.SourceInfo([low.gpumemoryview(lines)]))
        .compression(low.io.types.CompressionType.NONE)
        .lines(True)
        .dtypes(_schema(low, forwarded_members()))
        .recovery_mode(low.io.types.JSONRecoveryMode.RECOVER_WITH_NULL)
        .mixed_types_as_string(True)
        .prune_columns(True)
        .build()
    )
    return frames.import_library(tables).DataFrame.from_pylibcudf(low.io.json.read_json(options))


def _schema(low: Any, members: dict[str, Any]) -> list[tuple[str, Any, list[Any]]]:
    """Return a schema of text columns, nested in groups: name, type, members."""
    text, group = low.DataType(low.TypeId.STRING), low.DataType(low.TypeId.STRUCT)
    return [
        (name, group, _schema(low, each)) if isinstance(each, dict) else (name, text, [])
        for name, each in members.items()
    ]


def _events(members: Frame, filtered: FilteredRecords, rows: NDArray[np.int64]) -> Frame:
    """Return the columns of COLUMNS and `row`."""
    library, xp = frames.library_of(members), frames.array_module_of(members)
    made = {column.name: _column(column, members, filtered) for column in COLUMNS}
    return library.DataFrame({**made, "row": xp.asarray(rows)})


def _column(column: ColumnSpec, members: Frame, filtered: FilteredRecords) -> Any:
    if column.type == "time":
        return _times(filtered.time if column.name == "event_time" else filtered.begun, members)
    values = _at(
        members, f"{PARAMETERS}.{DERIVED_KINDS[column.name]}" if column.name in DERIVED_KINDS else column.path
    )
    match column.type:
        case "flag":
            return _flags(values)
        case "mfa":
            return _flags(values.fillna(frames.map_texts(_at(members, MFA_USED), _mfa_answer)))
        case "service":
            return frames.map_texts(values, service_name)
        case "name":
            return frames.map_texts(values, lambda text: text or "unknown")
        case "keys":
            return frames.map_texts(values, sort_parameter_names)
        case "resource":
            return frames.map_texts(values, resource_of)
        case "error":
            return _errors(values, filtered.failed)
    return values


def _at(members: Frame, path: str) -> Any:
    """Return a member of each record, without the first line, which has every member."""
    first, *inside = path.split(".")
    values = members[first]
    for name in inside:
        values = values.struct.field(name)
    return values.iloc[1:].reset_index(drop=True)


def _times(microseconds: Array, members: Frame) -> Any:
    there = frames.library_of(members).Series(microseconds)
    return there.mask(there == frames.NOT_A_TIME).astype("datetime64[us]")


def _flags(values: Any) -> Any:
    return (values == "true").mask(values.isna())


def _mfa_answer(text: str | None) -> str | None:
    return MFA_ANSWERS.get(text or "")


def _errors(values: Any, failed: Array) -> Any:
    """Return the error code of each call, `Failure` for a failed call without one."""
    codes, distinct = frames.factorize_values(values)
    xp, there = frames.array_module_of(values), np.array([bool(text) for text in [*distinct, None]])
    named = arrays.to_device_of(there, codes)[codes]
    return frames.make_text_column(
        [*distinct, None, "Failure"], xp.where(named, codes, len(distinct) + failed.astype(np.int64)), values
    )


def service_name(source: str | None) -> str:
    """Return the service of an event source: `EC2.amazonaws.com` -> `ec2`."""
    return (source or "").lower().replace(".amazonaws.com", "") or "unknown"
