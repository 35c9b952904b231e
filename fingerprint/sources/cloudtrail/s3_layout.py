"""The files of a trail within a span of time: what lies months away is not even listed, what lies days away not fetched.

Example:
    >>> months_of(system, "trail/AWSLogs/", spans.of("2026-01-01", "2026-02-01"))[0]
    {'trail/AWSLogs/111122223333/CloudTrail/eu-west-1/2026/01/31/a.json.gz': {'size': 1234, ...}}

    AWSLogs/[organisation/]account/CloudTrail/region/2026/01/31/object

Two years of a large organisation are millions of keys. Folders are listed one by one as far as the months, and everything
below a month, or beside a trail, at once.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from fingerprint.core.time_range import TimeRange

_TRAIL = re.compile(r"(?:^|/)AWSLogs(?:/[^/]+){0,2}(?:/CloudTrail[^/]*(?:/[^/]+(?:/\d{4})?)?)?$")
_MONTH = re.compile(r"(?:^|/)AWSLogs/(?:[^/]+/){1,2}CloudTrail[^/]*/[^/]+/(\d{4})/(\d{2})$")

FileListing = dict[str, dict[str, Any]]  # path: what fsspec says of it


def is_trail_folder(path: str) -> bool:
    """Whether a folder is AWSLogs, or one below it that leads to the months of a trail."""
    return bool(_TRAIL.search(path.rstrip("/")))


def list_trail_months(system: Any, path: str, span: TimeRange) -> tuple[FileListing, list[date]]:
    """All files below a folder that `is_trail`, without those of months that lie outside; and the first days of such months."""
    found, months = _walk(system, path.rstrip("/"))
    wide = span.anchored_at_day(max(months.values(), default=None))
    outside = [first for first in months.values() if not wide.may_contain_month(first)]
    for folder, first in months.items():
        if wide.may_contain_month(first):
            found |= system.find(folder, detail=True)
    return found, outside


def _walk(system: Any, path: str) -> tuple[FileListing, dict[str, date]]:
    """Files that are in no month of a trail, and the months by their first day."""
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
        elif is_trail_folder(name):
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
