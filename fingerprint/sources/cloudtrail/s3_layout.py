"""The layout of a trail in S3: folders months away are not listed, objects days away are not fetched.

Example:
    >>> list_months(system, "trail/AWSLogs/", parse_time_range("2026-01-01", "2026-02-01"))[0]
    {'trail/AWSLogs/111122223333/CloudTrail/eu-west-1/2026/01/31/a.json.gz': {'size': 1234, ...}}

    AWSLogs/[organisation/]account/CloudTrail/region/2026/01/31/object

Two years of a large organisation are millions of keys. Folders are listed one by one as far as the months, and everything below
a month, or beside a trail, at once.
"""

from __future__ import annotations

import re
from datetime import date

from fingerprint.core.time_range import TimeRange
from fingerprint.sources.base import FileListing, FileSystem

_TRAIL = re.compile(r"(?:^|/)AWSLogs(?:/[^/]+){0,2}(?:/CloudTrail[^/]*(?:/[^/]+(?:/\d{4})?)?)?$")
_DAY = re.compile(
    r"(?:^|/)AWSLogs/(?:[^/]+/){1,2}CloudTrail[^/]*/[^/]+/(\d{4})/(\d{2})/(\d{2})/[^/]+$"
)  # of an account's trail, or of an organisation's
_MONTH = re.compile(r"(?:^|/)AWSLogs/(?:[^/]+/){1,2}CloudTrail[^/]*/[^/]+/(\d{4})/(\d{2})$")


def object_day(path: str) -> date | None:
    """Return the day of delivery (UTC) in the key of a trail's object; None for any other file."""
    found = _DAY.search(path)
    try:
        return date(*map(int, found.groups())) if found else None
    except ValueError:  # a key that looks like one: 2026/13/40
        return None


def is_log_folder(path: str) -> bool:
    """Return whether a folder is AWSLogs, or one below it that leads to the months of a trail."""
    return bool(_TRAIL.search(path.rstrip("/")))


def list_months(system: FileSystem, path: str, span: TimeRange) -> tuple[FileListing, list[date]]:
    """Return all files below a log folder except those of months outside the span, and the first days of such months."""
    found, months = _walk(system, path.rstrip("/"))
    wide = span.anchored_at_day(max(months.values(), default=None))
    outside = [first for first in months.values() if not wide.may_contain_month(first)]
    for folder, first in months.items():
        if wide.may_contain_month(first):
            found |= system.find(folder, detail=True)
    return found, outside


def _walk(system: FileSystem, path: str) -> tuple[FileListing, dict[str, date]]:
    """Return files that are in no month of a trail, and the months by their first day."""
    found: FileListing = {}
    months: dict[str, date] = {}
    for entry in system.ls(path, detail=True):
        name = entry["name"].rstrip("/")
        if entry["type"] != "directory":
            found[name] = entry
        elif name == path:  # some stores name the folder among what is in it
            continue
        elif first := _first_day(name):
            months[name] = first
        elif is_log_folder(name):
            below = _walk(system, name)
            found, months = found | below[0], months | below[1]
        else:
            found |= system.find(name, detail=True)
    return found, months


def _first_day(path: str) -> date | None:
    found = _MONTH.search(path)
    try:
        return date(int(found[1]), int(found[2]), 1) if found else None
    except ValueError:  # 2026/13
        return None
