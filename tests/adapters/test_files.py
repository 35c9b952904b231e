"""The files adapter: any source, constant memory, and damage that costs only what is damaged."""

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

from fingerprint.adapters import files
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Reading
from fingerprint.core.time_range import ALL_TIME, TimeRange, parse_time_range
from fingerprint.sources import archives
from fingerprint.sources.base import RecordBatch, merge_batches
from fingerprint.sources.flatten import flatten
from fingerprint.sources.limits import ReadLimits

REAL = Path(__file__).parents[2] / "data" / "real"


def record(index: int) -> bytes:
    return json.dumps(
        {"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:18Z", "eventID": str(index)}
    ).encode()


def lines(count: int) -> bytes:
    return b"".join(record(index) + b"\n" for index in range(count))


def read(*sources: object, **limits: int) -> RecordBatch:
    return merge_batches(
        list(files.read_sources([str(source) for source in sources], Reading(), limits=ReadLimits(**limits)))
    )


def ids(records: RecordBatch) -> list[int]:
    return [int(json.loads(line)["eventID"]) for line in records.lines]


CONTENTS = {
    "a.jsonl": lines(3),
    "a.ndjson": lines(3).replace(b"\n", b"\r\n\r\n"),
    "a.json": b'{"Records": [' + b",".join(map(record, range(3))) + b"]}",
    "pretty.json": json.dumps({"Records": [json.loads(record(i)) for i in range(3)]}, indent=4).encode(),
    "array.json": b"[\n" + b",\n".join(map(record, range(3))) + b"\n]",
    "lines.json": lines(3),
    "lines without an end.json": lines(3).rstrip(),
    "one after the other.json": b"".join(map(record, range(3))),
    "pretty, one after the other.json": b"\n".join(
        json.dumps(json.loads(record(i)), indent=1).encode() for i in range(3)
    ),
    "envelopes.jsonl": b'{"Records": [' + record(0) + b"," + record(1) + b"]}\n" + record(2),
    "without a suffix": lines(3),
    "of Windows.jsonl": lines(3).replace(b"\n", b"\r\n").decode().encode("utf-16"),
}


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue().to_pybytes())


PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstd}


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_three_records_are_read_however_they_are_written(tmp_path: Path, name: str, packed: str) -> None:
    file = tmp_path / f"{name}{packed}"
    file.write_bytes(PACK[packed](CONTENTS[name]))
    records = read(file)
    assert (ids(records), records.rejects) == ([0, 1, 2], [])
    assert {source for source, _ in records.origins} == {str(file)}


def test_utf_16_is_read_wherever_its_chunks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "READ_BYTES", 7)
    written = lines(3).decode().replace('"0"', '"\U0001d7d8"')
    (tmp_path / "a.jsonl").write_bytes(b"\xfe\xff" + written.encode("utf-16-be"))
    records = read(tmp_path / "a.jsonl")
    assert [json.loads(line)["eventID"] for line in records.lines] == ["\U0001d7d8", "1", "2"]


def test_a_folder_is_read_in_order_without_what_is_beside_the_records(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in (
        "a.jsonl",
        "labels.jsonl",
        "provenance.json",
        "README.md",
        "b/c.json",
        ".hidden.json",
        "LICENSE",
        "t.csv.gz",
    ):
        (tmp_path / name).write_bytes(record(ord(name[0])))
    for name in ("c-1-2026-11-01-10-00-00-0a", "d/000000.gz", ".git/0a1b", ".git/e.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(record(ord(name[0]))))
    assert ids(read(tmp_path)) == [ord("a"), ord("b"), ord("c"), ord("d")]
    assert ids(read(tmp_path / "*.jsonl")) == [ord("a")]
    assert ids(read(f"file://{tmp_path}/b")) == [ord("b")]
    assert sorted(ids(read(tmp_path / ".git"))) == [ord("."), ord(".")], (
        "a hidden folder that is named is read"
    )


def test_files_of_a_folder_that_are_passed_over_are_counted_by_suffix(tmp_path: Path) -> None:
    aside = ("labels.csv", "provenance.md", ".hidden.csv", ".git/HEAD", "bank/CURRENT", "bank/HISTORY.jsonl")
    others = ("a.CSV", "b/b.csv", "b/c.csv.gz", "d.gz", "t.tar.zst", "LICENSE")
    for name in ("a.jsonl", "b/000000.gz", *aside, *others):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(record(1))
    counts = {".csv": 2, ".csv.gz": 1, ".gz": 1, ".tar.zst": 1, "": 1}
    assert files.find_files_in_span([str(tmp_path)], ALL_TIME).passed_over == counts
    below = files.find_files_in_span(
        [f"{tmp_path}/[ab]", f"{tmp_path}/*.jsonl", f"{tmp_path}/a.CSV"], ALL_TIME
    )
    assert below.passed_over == {".csv": 1, ".csv.gz": 1}, "what is named itself is read"
    assert sorted(Path(file.path).name for file in below.found) == ["000000.gz", "a.CSV", "a.jsonl"]


@pytest.mark.parametrize("span", [ALL_TIME, parse_time_range("2026-01-01", "2026-02-01")])
def test_files_beside_the_objects_of_a_trail_are_passed_over(tmp_path: Path, span: TimeRange) -> None:
    trail = tmp_path / "AWSLogs" / "111122223333" / "CloudTrail"
    for name in (
        "eu-west-1/2026/01/05/a.json.gz",
        "eu-west-1/2026/01/05/notes.txt",
        "index.csv",
        "eu-west-1/.x",
    ):
        (trail / name).parent.mkdir(parents=True, exist_ok=True)
        (trail / name).write_bytes(gzip.compress(record(1)))
    found = files.find_files_in_span([str(tmp_path / "AWSLogs")], span)
    assert [Path(file.path).name for file in found.files] == ["a.json.gz"]
    assert (found.passed_over, found.other_logs) == ({".txt": 1, ".csv": 1}, 0)


def test_a_bank_beside_the_records_is_not_read(tmp_path: Path) -> None:
    """`score .` where `train .` left the bank; a folder that has but one of its files is no bank."""
    for name in ("bank/CURRENT", "bank/HISTORY.jsonl", "bank/versions/v1/manifest.json", "a.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(record(ord(name[0])))
    for name in ("bank2/b.json", "other/HISTORY.jsonl"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(record(ord(name[-1])))
    assert ids(read(tmp_path)) == ids(read(tmp_path / "*")) == [ord("a"), ord("n"), ord("l")]
    with pytest.raises(FingerprintError, match="bank"):
        read(tmp_path / "bank")


@pytest.mark.parametrize("span", [ALL_TIME, parse_time_range("2026-01-01", "2026-02-01")])
def test_other_logs_of_a_landing_zone_are_counted_and_not_read(tmp_path: Path, span: TimeRange) -> None:
    account = tmp_path / "AWSLogs" / "111122223333"
    for name in (
        "CloudTrail",
        "CloudTrail-Digest",
        "Config",
        "GuardDuty",
        "CloudTrail/backup/CloudTrail-Digest",
    ):
        file = account / name / "eu-west-1" / "2026" / "01" / "05" / "a.json.gz"
        file.parent.mkdir(parents=True)
        file.write_bytes(gzip.compress(record(1)))
    found = files.find_files_in_span([str(account.parent)], span)
    assert [Path(file.path).relative_to(account).parts[0] for file in found.files] == ["CloudTrail"]
    assert (found.other_logs, found.passed_over) == (4, {})
    with pytest.raises(FingerprintError, match="only other logs than CloudTrail"):
        files.find_files_in_span([str(account / "Config")], span)


class ProfileNotFound(Exception):
    """Named as botocore's."""


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (
            type("NoCredentialsError", (Exception,), {})("Unable to locate"),
            "no AWS credentials are found: set AWS_P",
        ),
        (
            ProfileNotFound("The config profile (x)"),
            "there is no such AWS profile: `aws configure list-profiles`",
        ),
        (PermissionError("Access Denied"), "permission denied: its reader has to be allowed"),
        (
            type("ClientConnectorError", (ConnectionRefusedError,), {})("Cannot connect"),
            "its server does not answer",
        ),
        (ModuleNotFoundError("Please install gcsfs"), "the package that reads s3:// is not installed; `pip"),
        (RuntimeError("odd\x1b[2J"), r"cannot be read (odd\x1b[2J)"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
def test_why_an_object_store_cannot_be_listed_is_told_in_our_words_with_what_to_do(
    raised: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: object) -> None:
        raise raised

    monkeypatch.setattr(files, "url_to_fs", unavailable)
    with pytest.raises(FingerprintError) as refused:
        files.find_files(["s3://trail/AWSLogs/"])
    assert str(refused.value).startswith(f"s3://trail/AWSLogs/: {told}")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("foo://x", r"^foo://x: there is no reader of foo://: a source is a file, .* s3://BUCKET/FOLDER/$"),
        (
            "http://127.0.0.1:1/a.json",
            r"a\.json: its server does not answer: check the address and the network$",
        ),
    ],
)
def test_a_source_that_cannot_be_reached_is_told_without_a_librarys_text(source: str, told: str) -> None:
    with pytest.raises(FingerprintError, match=told):
        files.find_files([source])


def test_an_object_store_is_read_like_a_folder() -> None:
    with fsspec.open("memory://trail/2023/a.jsonl.gz", "wb") as file:
        file.write(gzip.compress(lines(5)))
    assert ids(read("memory://trail")) == ids(read("memory://trail/*/*.gz")) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("source", ["nowhere.json", "nowhere/*.json", "nothing://x/y", "memory://nowhere"])
def test_a_missing_source_is_told_in_one_sentence_before_anything_is_read(source: str) -> None:
    with pytest.raises(FingerprintError, match=r"nowhere|nothing"):
        files.read_sources([source], Reading())


def test_an_empty_folder_is_a_missing_source_and_an_empty_file_is_not(tmp_path: Path) -> None:
    with pytest.raises(FingerprintError):
        files.read_sources([str(tmp_path)], Reading())
    (tmp_path / "empty.json").write_bytes(b"")
    assert read(tmp_path) == RecordBatch([], [], [])


def test_batches_are_full_however_small_the_files(tmp_path: Path) -> None:
    for name in "abcde":
        (tmp_path / f"{name}.jsonl").write_bytes(lines(7))
    sizes = [len(batch.lines) for batch in files.read_sources([str(tmp_path)], Reading(batch_records=10))]
    assert sum(sizes) == 35
    assert max(sizes) <= 10
    (tmp_path / "f.json").write_bytes(b'{"Records": [' + b",".join(map(record, range(95))) + b"]}")
    assert (
        max(len(batch.lines) for batch in files.read_sources([str(tmp_path)], Reading(batch_records=10)))
        == 10
    )


def test_lines_are_numbered_across_chunks(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(40_000))
    records = read(tmp_path)
    assert ids(records) == list(range(40_000))
    assert [position for _, position in records.origins] == [str(number) for number in range(1, 40_001)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
@pytest.mark.parametrize("packed", [".gz", ".zst"])
@pytest.mark.parametrize("document", [False, True])
def test_of_a_file_cut_short_what_was_readable_is_kept(
    tmp_path: Path, name: str, packed: str, document: bool
) -> None:
    whole = lines(2_000)
    whole = b'{"Records": [' + whole.strip().replace(b"\n", b",") + b"]}" if document else whole
    (tmp_path / f"{name}{packed}").write_bytes(PACK[packed](whole)[:-40])
    records = read(tmp_path)
    assert ids(records) == list(range(len(records.lines)))
    assert len(records.lines) > 1_000
    (reject,) = records.rejects
    assert f"{'gzip' if packed == '.gz' else 'zstd'} is" in reject.reason


def test_damaged_zstd_is_one_reject_and_frames_in_a_row_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "PUT-S3-1-2026").write_bytes(zstd(record(0)) + zstd(record(1)))
    (tmp_path / "a.jsonl.zst").write_bytes(zstd(b"")[:4] + b"\xff" * 40)
    (tmp_path / "b.jsonl").write_bytes(record(2))
    records = read(tmp_path)
    assert ids(records) == [0, 1, 2]
    assert ["zstd is damaged" in reject.reason for reject in records.rejects] == [True]


def test_damaged_gzip_is_one_reject_and_the_next_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(b"\x1f\x8b" + b"\x99" * 100)
    (tmp_path / "b.json").write_bytes(record(1))
    records = read(tmp_path)
    assert (ids(records), len(records.rejects)) == ([1], 1)


def test_gzip_members_in_a_row_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines(2)) + gzip.compress(lines(2)) + b"\x00" * 9)
    assert ids(read(tmp_path)) == [0, 1, 0, 1]


def test_an_endless_line_is_rejected_and_its_neighbours_are_read(tmp_path: Path) -> None:
    endless = b'{"eventVersion": "' + b"x" * 5_000_000 + b'"}\n'
    (tmp_path / "a.jsonl").write_bytes(record(0) + b"\n" + endless + record(2))
    records = read(tmp_path, max_record_bytes=100_000)
    assert ids(records) == [0, 2]
    assert [(reject.position, reject.reason) for reject in records.rejects] == [
        ("2", "a line larger than 100,000 bytes")
    ]
    assert records.origins[1][1] == "3"


def test_a_line_that_is_an_envelope_may_be_longer_than_a_record(tmp_path: Path) -> None:
    envelope = b'{"Records": [' + b",".join(map(record, range(30_000))) + b"]}\n"
    (tmp_path / "a.jsonl").write_bytes(record(0) + b"\n" + envelope)
    assert len(read(tmp_path, max_record_bytes=10_000).lines) == 30_001
    too_long = read(tmp_path, max_record_bytes=10_000, max_document_bytes=1_100_000)
    assert (len(too_long.lines), len(too_long.rejects)) == (1, 1)


@pytest.mark.parametrize("packed", [".gz", ".zst"])
@pytest.mark.parametrize("filling", [b"\n", b"x", b"[", b'{"Records":['])
def test_a_bomb_costs_little_memory(tmp_path: Path, filling: bytes, packed: str) -> None:
    (tmp_path / f"a.json{packed}").write_bytes(PACK[packed](filling * (12_000_000 // len(filling))))
    tracemalloc.start()
    records = read(tmp_path, max_document_bytes=2_000_000, max_expanded_bytes=10_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not records.lines
    assert records.rejects
    assert peak < 12_000_000


def test_progress_adds_up_to_the_size(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines(10_000)))
    (tmp_path / "b.json").write_bytes(lines(10))
    seen: list[int] = []
    list(files.read_sources([str(tmp_path)], Reading(), seen.append))
    assert sum(seen) == files.total_size(files.find_files([str(tmp_path)]))


def test_real_sets_are_read_from_their_folder() -> None:
    sources = [str(REAL / name) for name in ("schema_variety", "panther_rule_tests")]
    flat = [flatten(batch) for batch in files.read_sources(sources, Reading())]
    assert sum(len(each.events) for each in flat) == 63 + 461 - 15 - 5
