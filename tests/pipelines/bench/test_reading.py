"""What our reader is compared with reads the same records."""

from __future__ import annotations

import gzip

import msgspec
import pandas as pd

from fingerprint.sources.cloudtrail import schema
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.flatten import flatten
from pipelines.bench import reading


def test_typed_decoding_finds_the_texts_that_our_reader_finds() -> None:
    file = reading.REAL_DATA / "invictus_stratus" / "invictus_stratus.jsonl.gz"
    lines = [line for line in gzip.decompress(file.read_bytes()).split(b"\n") if line][:300]
    decoder = msgspec.json.Decoder(reading.typed_record(schema.record_structure()))
    typed, ours = reading.typed_events(decoder, lines), flatten(split_lines(lines)).events
    assert len(typed) == len(ours) == 300
    paths = {column.name: column.path for column in schema.COLUMNS if column.type in ("text", "time")}
    for name in ("event_id", "event_time", "region", "source_address", "arn", "access_key", "issuer_arn"):
        pd.testing.assert_series_equal(
            ours[name].astype(object).where(ours[name].notna(), None),
            typed[paths[name]].astype(object).where(typed[paths[name]].notna(), None),
            check_names=False,
        )


def test_polars_reads_what_typed_decoding_reads() -> None:
    file = reading.REAL_DATA / "invictus_stratus" / "invictus_stratus.jsonl.gz"
    lines = [line for line in gzip.decompress(file.read_bytes()).split(b"\n") if line][:300]
    decoder = msgspec.json.Decoder(reading.typed_record(schema.record_structure()))
    typed, columns = reading.typed_events(decoder, lines), reading.polars_events(lines)
    assert columns.columns == list(typed)
    for column in schema.COLUMNS:
        if column.type in ("text", "time"):
            found, wanted = columns[column.path].to_list(), typed[column.path]
            assert found == wanted.astype(object).where(wanted.notna(), None).tolist(), column.path


def test_a_member_that_is_missing_or_null_is_none_and_others_are_not_decoded() -> None:
    record = reading.typed_record({"userIdentity": {"type": "userIdentity.type"}, "eventName": "eventName"})
    found = msgspec.json.decode(b'{"userIdentity": null, "more": {"x": [1]}}', type=record)
    assert (found.userIdentity, found.eventName) == (None, None)
