"""Self-check of a backend: it reads the same records as pandas does and must find exactly the same in them.

Example:
    >>> first_difference("cudf") is None
    True
    >>> first_difference("pandas", "cudf")
    "record 12: user_agent is 'aws-cli/2.0' by pandas, None by cudf"

Libraries change, and a driver may be untested. So before a device reads anything that matters, it reads what travels with the
project: real records of many kinds, and lines that were made to be misread (MALFORMED_RECORDS). Rejects, events, entities,
codes and dedup keys must be the same, each one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import arrays, frames
from fingerprint.core.alert import Reject
from fingerprint.core.settings import Entities
from fingerprint.features import encoding
from fingerprint.sources.cloudtrail import envelopes, samples
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import dedup_key, flatten

SAMPLE_SET, SAMPLE_RECORDS = (
    "real/schema_variety",
    60,
)  # one record of each kind of CloudTrail's, and how many of them are read
PLAIN_RANGE = (1, 60)  # from which of them to which all are plain: no host helps to read these

_AT = b'"eventVersion":"1.08","eventTime":"2023-07-10T11:42:18Z"'
_WHO = b'"userIdentity":{"type":"IAMUser","accountId":"111122223333","userName":"alice"}'

MALFORMED_RECORDS: tuple[bytes, ...] = (
    b"{" + _AT + b"," + _WHO + b',"eventID":"","eventName":"","eventSource":"EC2.amazonaws.com"}',
    b"{"
    + _AT
    + b',"userAgent":"tab\\there \\"quoted\\" \\\\ and a \\u00e9 and a \\ud83d\\ude00","readOnly":"true"}',
    b"{" + _AT + ',"userAgent":"Zoë, 東京, 😀","eventName":"GetObject"}'.encode(),
    b"{" + _AT + b',"userAgent":"one","userAgent":"two","eventName":"TwoKeys"}',
    b"{" + _AT + b',"userIdentity":"nobody","eventName":["a","list"],"awsRegion":17,"readOnly":1}',
    b"{" + _AT + b',"userIdentity":{"sessionContext":[],"accountId":111122223333,"userName":null}}',
    b"{"
    + _AT
    + b',"requestParameters":{"z":1,"a":{"roleArn":"arn:aws:iam::444455556666:role/x"},"roleArn":"r"}}',
    b"{"
    + _AT
    + b',"requestParameters":"text","resources":[{"accountId":"444455556666"},{"accountId":null}]}',
    b"{"
    + _AT
    + b',"requestParameters":{"a,b":"arn:aws:s3:::bucket","":[]},"responseElements":{"ConsoleLogin":"Failure"}}',
    b"{"
    + _AT
    + b',"errorMessage":"denied","errorCode":"","mfaAuthenticated":"false","managementEvent":"yes"}',
    b'{ "eventVersion" : "1.08" , "eventTime" : "2023-07-10T11:42:18.123+02:00" , "eventName" : "Spaced" }',
    b'{"eventVersion":"1.08","eventTime":"2023-13-45T99:00:00Z","eventName":"NoSuchDay"}',
    b'{"eventVersion":"1.08","eventTime":1688989338,"eventName":"ANumber"}',
    b'{"eventVersion":"1.08","eventName":"NoTime"}',
    b'{"eventVersion":"1.08","eventTime":"2023-07-10T11:42:18Z","eventName":"CutOff"',
    b"{" + _AT + b",'eventName':'SingleQuotes'}",
    b"{" + _AT + b',"eventName":"Raw\tTab","n":NaN,"m":01,}',
    b"{" + _AT + b',"eventName":"After"} and more',
    b"{" + _AT + b',"eventCategory":"Insight","eventType":"AwsCloudTrailInsight"}',
    b"{" + _AT + b',"eventSource":"aws:s3","eventName":"ObjectCreated:Put"}',
    b"{"
    + _AT
    + b',"sourceIPAddress":"2001:db8::1","errorCode":"\\ud83d alone","n":1e999,"big":123456789012345678901234567890}',
    b"{" + _AT + b',"userAgent":"' + b"a" * 3000 + b'","eventName":"' + b"L" * 2000 + b'"}',
    b"[]",
    b"",
)


class BackendOutput(NamedTuple):
    """The result of reading lines: events with their entities on the host, `codes` (N, F), `keys` (N,), and rejects."""

    rejects: list[Reject]
    skipped: int
    events: pd.DataFrame
    codes: NDArray[np.uint64]
    keys: NDArray[np.uint64]


def check_records() -> list[bytes]:
    """Return real records with malformed lines between them, which must not affect their neighbours."""
    real = islice(samples.sample_lines(SAMPLE_SET), SAMPLE_RECORDS)
    return [line for pair in zip_longest(real, MALFORMED_RECORDS) for line in pair if line is not None]


def check_batches() -> Iterator[list[bytes]]:
    """Yield the batches to read: the corpus; a batch that a device reads alone; a batch without any event."""
    yield check_records()
    yield list(islice(samples.sample_lines(SAMPLE_SET), *PLAIN_RANGE))
    yield [b"[]"]


def first_difference(
    dataframe_library: str, by: str = "pandas", lines: Sequence[bytes] | None = None
) -> str | None:
    """Return the first difference between two backends in one sentence; None where there is none."""
    return next(
        _batch_differences(dataframe_library, by, check_batches() if lines is None else [lines]), None
    )


def _batch_differences(tables: str, by: str, many: Iterable[Sequence[bytes]]) -> Iterator[str]:
    for lines in many:
        ours, theirs = (read_with_backend(lines, name) for name in (by, tables))
        yield from _output_differences(ours, theirs, by, tables)


def read_with_backend(lines: Sequence[bytes], dataframe_library: str) -> BackendOutput:
    """Return what a backend makes of the lines, from records to codes."""
    flat = flatten(envelopes.split_lines(lines), dataframe_library)
    events = add_entity_columns(flat.events, Entities())
    codes, keys = arrays.to_host(encoding.encode_events(events)), arrays.to_host(dedup_key(events))
    return BackendOutput(flat.rejects, flat.skipped, frames.to_pandas(events), codes, keys)


def _output_differences(ours: BackendOutput, theirs: BackendOutput, by: str, tables: str) -> Iterator[str]:
    for one, other in zip_longest(ours.rejects, theirs.rejects):
        if one != other:
            yield f"a reject is {_format_value(one)} by {by}, {_format_value(other)} by {tables}"
    if ours.skipped != theirs.skipped:
        yield f"{ours.skipped} records are no events by {by}, {theirs.skipped} by {tables}"
    if len(ours.events) != len(theirs.events):
        yield f"{len(ours.events)} records are events by {by}, {len(theirs.events)} by {tables}"
        return
    yield from _column_differences(ours.events, theirs.events, by, tables)
    for name, one, other in (("code", ours.codes, theirs.codes), ("key", ours.keys, theirs.keys)):
        if not np.array_equal(one, other):
            places = np.argwhere(one != other)[0] if one.shape == other.shape else [0]
            what = f"the {name} of {encoding.FEATURE_NAMES[places[1]]}" if len(places) > 1 else f"the {name}"
            yield f"record {ours.events['row'].iloc[int(places[0])]}: {what} is not the same by {by} and {tables}"


def _column_differences(ours: pd.DataFrame, theirs: pd.DataFrame, by: str, tables: str) -> Iterator[str]:
    for name in ours.columns:
        if name not in theirs.columns:
            yield f"column {name} is missing by {tables}"
            continue
        pairs = zip(
            _comparable_values(ours[name]),
            _comparable_values(theirs[name]),
            ours["row"].tolist(),
            strict=True,
        )
        for one, other, row in pairs:
            if one != other:
                yield f"record {row}: {name} is {_format_value(one)} by {by}, {_format_value(other)} by {tables}"


def _comparable_values(column: pd.Series) -> list[Any]:
    """Return values that compare: every kind of missing is None."""
    return [None if missing else value for value, missing in zip(column, column.isna(), strict=True)]


def _format_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]} ..."
