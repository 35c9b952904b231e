"""Files, folders, globs and object stores as batches of records, in constant memory.

Example:
    >>> for records in read_sources(["data/real"], Reading()):
    ...     flatten(records)

A source is anything that fsspec opens (`trail/`, `2023-07-*.json.gz`, `s3://bucket/AWSLogs/`, `memory://x.jsonl`). In a folder,
the files with a suffix of SUFFIXES and numbered files without a suffix are read in the order of their names, except `labels.*`
and `provenance.*`. Other files are passed over and counted by suffix. The bytes of a file determine its format
(`sources.archives`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import chain
from posixpath import splitext
from typing import Any, BinaryIO

import fsspec
from fsspec.core import url_to_fs

from fingerprint.core import time_range
from fingerprint.core.credentials import holds_credentials
from fingerprint.core.errors import FingerprintError
from fingerprint.core.extras import how_to_install
from fingerprint.core.sanitize import printable, truncate
from fingerprint.core.settings import Reading
from fingerprint.core.time_range import ALL_TIME, TimeRange
from fingerprint.sources import archives
from fingerprint.sources.active import SOURCE
from fingerprint.sources.archives import TruncatedInput
from fingerprint.sources.base import RecordBatch
from fingerprint.sources.limits import ReadLimits

SUFFIXES = tuple(
    f"{each}{packed}" for packed in ("", ".gz", ".zst") for each in (".json", ".jsonl", ".ndjson")
)
NOT_RECORDS = ("labels.", "provenance.")
COMPRESSED = (".gz", ".zst", ".bz2", ".xz")  # suffixes of compression, after the suffix of the format
MAX_NAME_LENGTH = 100  # characters of a name in an error: an attacker who may write to the folder chooses it
BANK_MARKS = {"CURRENT", "HISTORY.jsonl"}  # a folder with both is a bank (`registry.versions`)

NO_ANSWER = "its server does not answer: check the address and the network"
REASONS = {  # by the name of an error's class: object stores raise their client's own, which need not be installed
    "NoCredentialsError": "no AWS credentials are found: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or run `aws sso login`",
    "PartialCredentialsError": "the AWS credentials are incomplete: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "TokenRetrievalError": "the AWS login has expired: run `aws sso login`",
    "SSOError": "the AWS login has expired: run `aws sso login`",
    "ProfileNotFound": "there is no such AWS profile: `aws configure list-profiles` shows those that AWS_PROFILE may name",
    "PermissionError": "permission denied: its reader has to be allowed to list and to read it (S3: s3:ListBucket, s3:GetObject)",
    "FileNotFoundError": "there is no such bucket, folder or file",
    "HTTPClientError": NO_ANSWER,
    "ConnectionError": NO_ANSWER,
    "ClientConnectionError": NO_ANSWER,
    "TimeoutError": NO_ANSWER,
}

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file on its file system. Rejects name its `path`; `content_tag` changes with the file."""

    system: fsspec.AbstractFileSystem
    path: str
    size: int
    content_tag: str = ""


@dataclass(frozen=True, slots=True)
class FilesInSpan:
    """The files of a span of time: `files` to read, out of the number `found`.

    - `unlisted`: the first days of months that were not listed, one for each trail with such a month.
    - `other_logs`: the number of objects, or folders of objects, that have no events according to their key.
    - `passed_over`: the numbers of files, by suffix, whose names are not those of records (`.csv`, `.csv.gz`, an empty string for
      no suffix).
    """

    found: list[SourceFile]
    files: list[SourceFile]
    unlisted: list[date]
    other_logs: int
    passed_over: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Listing:
    """The files of one source, and the counts of other files as in `FilesInSpan`."""

    files: list[SourceFile]
    unlisted: list[date]
    other_logs: int
    passed_over: Counter[str]


def read_sources(
    sources: Sequence[str],
    options: Reading,
    progress: Progress | None = None,
    limits: ReadLimits | None = None,
) -> Iterator[RecordBatch]:
    """Yield batches of at most `options.batch_records` lines, with their rejects and skipped counts.

    `progress` is called with the bytes read from the store since its last call; they add up to `total_size(find_files(sources))`.
    Raise FingerprintError, before anything is read, if a source is missing or empty or needs a package that is not installed.
    """
    return read_files(find_files(sources), options, progress, limits)


def read_files(
    files: Sequence[SourceFile],
    options: Reading,
    progress: Progress | None = None,
    limits: ReadLimits | None = None,
) -> Iterator[RecordBatch]:
    """Yield the batches of files that were found already, as `read_sources` does."""
    limits = limits or ReadLimits()
    return archives.rebatch(
        chain.from_iterable(_read_file(file, limits, progress) for file in files), options.batch_records
    )


def find_files(sources: Sequence[str]) -> list[SourceFile]:
    """Return the files of the sources in the order of reading. Raise FingerprintError as `read_sources` does."""
    return [file for source in sources for file in _expand_source(str(source), ALL_TIME).files]


def find_files_in_span(sources: Sequence[str], span: TimeRange) -> FilesInSpan:
    """Return the files of a span, without objects of trails that cannot have its events.

    Raise FingerprintError as `read_sources` does.
    """
    expanded = [_expand_source(str(source), span) for source in sources]
    found = [file for each in expanded for file in each.files]
    days = [SOURCE.object_day(file.path) for file in found]
    wide = span.anchored_at_day(time_range.newest_day(days, datetime.now(UTC).date()))
    return FilesInSpan(
        found,
        [file for file, day in zip(found, days, strict=True) if wide.may_contain_day(day)],
        [month for each in expanded for month in each.unlisted],
        sum(each.other_logs for each in expanded),
        sum((each.passed_over for each in expanded), Counter()),
    )


def total_size(files: Sequence[SourceFile]) -> int:
    """Return the stored bytes of the files, for a progress bar."""
    return sum(file.size for file in files)


def _expand_source(source: str, span: TimeRange) -> _Listing:
    """Return the files of a source; for trails, only the months of the span are listed."""
    if holds_credentials(source):
        raise FingerprintError(
            f"{source}: a source holds no password or token, it stands in every reject; "
            "its client takes them from the environment"
        )
    try:
        system, path = url_to_fs(source)
        found, passed_over, months = _list_source(system, path, span)
        other_logs = {name for name in found if name != path and not SOURCE.holds_events(name)}
        files = [
            SourceFile(system, name, int(info.get("size") or 0), _content_tag(info))
            for name, info in sorted(found.items())
            if name not in other_logs
        ]
    except Exception as error:  # each object store raises its own kinds
        raise FingerprintError(f"{source}: {_why_unreadable(source, error)}") from None
    if not files and not months:
        other = f"only other logs than {SOURCE.NAME} lie there" if other_logs else _why_nothing(system, path)
        raise FingerprintError(f"{source}: {other}")
    return _Listing(files, months, len(other_logs), Counter(map(_suffix, passed_over)))


def content_tags(found: Sequence[SourceFile], beside: Iterable[str]) -> list[list[str]]:
    """Return path and content tag of the files `found` and of files at the paths `beside`; work restarts if they differ."""
    return [[file.path, file.content_tag] for file in [*found, *find_files([*beside])]]


def _why_unreadable(source: str, error: Exception) -> str:
    """Return in our words why a source cannot be listed, with what to do; a client's own words only where there are none."""
    scheme = source.partition("://")[0]
    if isinstance(error, ImportError):
        return f"the package that reads {scheme}:// is not installed; {how_to_install('s3')} reads S3"
    if isinstance(error, ValueError) and "Protocol not known" in str(error):
        return f"there is no reader of {scheme}://: a source is a file, a folder, a pattern, or s3://BUCKET/FOLDER/"
    known = [REASONS[each.__name__] for each in type(error).__mro__ if each.__name__ in REASONS]
    return known[0] if known else f"cannot be read ({printable(str(error))})"


def _why_nothing(system: fsspec.AbstractFileSystem, path: str) -> str:
    """Return why a source has no files of records: a missing file, a missing permission, or other files."""
    try:
        names = [] if "*" in path else system.ls(path, detail=False)
    except PermissionError:
        return "permission denied"
    except Exception:  # each object store raises its own kinds
        return "no such file, and no folder or pattern with files of records"
    if not names and system.isdir(path):
        return "the folder is empty"
    if not names:
        return "no such file, and no folder or pattern with files of records"
    other = truncate(printable(names[0].rstrip("/").rsplit("/", 1)[-1]), MAX_NAME_LENGTH)
    return f"the folder has no files of records ({', '.join(SUFFIXES)}), only others, such as {other}"


def _content_tag(info: dict[str, Any]) -> str:
    """Return a text that changes with a file's content, from the store's facts; each store has its own keys."""
    return " ".join(
        str(info[word]) for word in ("size", "ETag", "mtime", "LastModified", "created") if word in info
    )


def _list_source(
    system: fsspec.AbstractFileSystem, path: str, span: TimeRange
) -> tuple[dict[str, Any], list[str], list[date]]:
    """Return the files at a path with objects of other logs, the names passed over, and the months that were not listed."""
    if not (span and SOURCE.is_log_folder(path)):
        return *_list_paths(system, path), []
    found, months = SOURCE.list_months(system, path, span)
    return *_choose_by_name(path, found), months


def _list_paths(system: fsspec.AbstractFileSystem, path: str) -> tuple[dict[str, Any], list[str]]:
    """Return the files to read at a path, with the store's facts about each, and the names passed over in its folders."""
    if system.isfile(path):
        return {path: system.info(path)}, []
    if system.isdir(path):
        found = system.find(path, detail=True)
        banks = tuple(f"{folder}/" for folder in _banks_among(found))
        return _choose_by_name(
            path, {name: info for name, info in found.items() if not (banks and name.startswith(banks))}
        )
    found = system.glob(path, detail=True) if any(mark in path for mark in "*?[") else {}
    files = {name: info for name, info in found.items() if info["type"] == "file" and not _is_aside(name)}
    passed_over: list[str] = []
    for folder in (name for name, info in found.items() if info["type"] == "directory"):
        below, others = _list_paths(system, folder)
        files |= below
        passed_over += others
    return files, passed_over


def _choose_by_name(folder: str, found: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the files of a folder with names of records, and the names of the others, without hidden files.

    A folder among them is kept: it stands for the objects of another log (`LogSource.list_months`).
    """
    shown = [name for name in found if "/." not in name.removeprefix(folder) and not _is_aside(name)]
    kept = {name: found[name] for name in shown if _has_records(name) or found[name]["type"] == "directory"}
    return kept, [name for name in shown if name not in kept]


def _banks_among(paths: Iterable[str]) -> list[str]:
    """Return the folders of banks among the paths of files: their JSON files are this program's own and have no records."""
    marks = defaultdict(set)
    for path in paths:
        folder, _, name = path.rpartition("/")
        if name in BANK_MARKS:
            marks[folder].add(name)
    return [folder for folder, names in marks.items() if names == BANK_MARKS]


def _is_aside(path: str) -> bool:
    return path.rsplit("/", 1)[-1].startswith((".", *NOT_RECORDS))


def _has_records(path: str) -> bool:
    """Return whether the name of a file is one of records."""
    return path.lower().endswith(SUFFIXES) or _is_numbered(path)


def _is_numbered(path: str) -> bool:
    """Return whether a name has a digit and no suffix except .gz or .zst, as Firehose and CloudWatch Logs write names."""
    name = path.rsplit("/", 1)[-1].lower().removesuffix(".gz").removesuffix(".zst")
    return "." not in name and any(map(str.isdigit, name))


def _suffix(path: str) -> str:
    """Return the suffix of a file's format in lower case: `.csv`, `.csv.gz`; empty without one."""
    stem, suffix = splitext(path.lower())
    return (splitext(stem)[1] if suffix in COMPRESSED else "") + suffix


def _read_file(file: SourceFile, limits: ReadLimits, progress: Progress | None) -> Iterator[RecordBatch]:
    return archives.read_records(file.path, _stored_bytes(file, progress), limits)


def _stored_bytes(file: SourceFile, progress: Progress | None) -> Iterator[bytes]:
    try:
        with file.system.open(file.path, "rb") as stream:
            yield from _count_bytes(stream, progress)
    except OSError as error:
        raise TruncatedInput(f"cannot be read: {error.strerror or error}") from None


def _count_bytes(stream: BinaryIO, progress: Progress | None) -> Iterator[bytes]:
    while chunk := stream.read(archives.READ_BYTES):
        if progress:
            progress(len(chunk))
        yield chunk
