"""A trail in S3: the layout of its keys, and CloudTrail's own notifications of new objects.

Example:
    >>> list_months(system, "trail/AWSLogs/", parse_time_range("2026-01-01", "2026-02-01"))[0]
    {'trail/AWSLogs/111122223333/CloudTrail/eu-west-1/2026/01/31/a.json.gz': {'size': 1234, ...}}

    AWSLogs/[organisation/]account/CloudTrail/region/2026/01/31/object

Two years of a large organisation are millions of keys. So folders of months outside a time range are not listed, and objects
of days outside it are not fetched. Folders down to the months are listed one by one; all files below a month, or beside a trail,
are listed at once. Other services write below AWSLogs, too (Config, GuardDuty, VPC flow logs): their folders are neither listed
nor read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

import msgspec

from fingerprint.core.time_range import TimeRange
from fingerprint.sources.base import FileListing, FileSystem

NON_EVENT_FOLDERS = (  # folders of a trail that hold no events
    "CloudTrail-Digest",
    "CloudTrail-Insight",
    "CloudTrail-Aggregated",  # sums over data events, which are delivered one by one as well
)
_VALIDATION = "CloudTrail validation message."
_ACCOUNT_REGION = re.compile(r"(?:.*/)?AWSLogs/(?:o-[a-z0-9]+/)?\d{12}/CloudTrail/[a-z0-9-]+(?=/)")
_OWNER = re.compile(r"o-[a-z0-9]+|\d{12}")  # name of the folder of an organisation or an account
_TRAIL = re.compile(r"(?:^|/)AWSLogs(?:/o-[a-z0-9]+)?(?:/[^/]+)?(?:/CloudTrail[^/]*(?:/[^/]+(?:/\d{4})?)?)?$")
# Objects of a day, and folders of a month, in the trail of an account or of an organisation
_DAY = re.compile(r"(?:^|/)AWSLogs/(?:[^/]+/){1,2}CloudTrail[^/]*/[^/]+/(\d{4})/(\d{2})/(\d{2})/[^/]+$")
_MONTH = re.compile(r"(?:^|/)AWSLogs/(?:[^/]+/){1,2}CloudTrail[^/]*/[^/]+/(\d{4})/(\d{2})$")


class _Notification(msgspec.Struct):
    s3Bucket: str
    s3ObjectKey: list[str]


def notified_objects(message: Mapping[str, Any] | str) -> list[tuple[str, str]] | None:
    """Return (bucket, key) of each object in a notification of CloudTrail; an empty list for its validation message.

    None for any other message. Raises msgspec.ValidationError if the fields have other types.
    """
    if isinstance(message, str):
        return [] if message.startswith(_VALIDATION) else None
    if "s3Bucket" not in message:
        return None
    notification = msgspec.convert(message, _Notification)
    return [(notification.s3Bucket, key) for key in notification.s3ObjectKey]


def holds_events(key: str) -> bool:
    """Return whether an object may hold events: it is in no folder of NON_EVENT_FOLDERS, nor in one of another service."""
    *folders, name = key.split("/")
    if set(NON_EVENT_FOLDERS) & {*folders, name}:
        return False
    below = folders[folders.index("AWSLogs") + 1 :] if "AWSLogs" in folders else []
    services = [each for each in below if not _OWNER.fullmatch(each)]
    of_trail = any(each == "CloudTrail" or each.startswith("CloudTrail-") for each in services)
    # the last case: a file with AWS's name, in a folder that the organisation made
    return of_trail or not services or "_CloudTrail_" in name


def ordered_prefix(key: str) -> str:
    """Return the prefix of a key up to account and region, whose objects come in order; empty if the key is not of a trail."""
    prefix = _ACCOUNT_REGION.match(key)
    return prefix[0] if prefix else ""


def object_day(path: str) -> date | None:
    """Return the day of delivery (UTC) in the key of an object of a trail; None for any other file."""
    found = _DAY.search(path)
    try:
        return date(*map(int, found.groups())) if found else None
    except ValueError:  # a key that looks like one: 2026/13/40
        return None


def is_log_folder(path: str) -> bool:
    """Return whether a folder is AWSLogs, or a folder between it and the months of a trail."""
    return bool(_TRAIL.search(path.rstrip("/"))) and not set(NON_EVENT_FOLDERS) & set(path.split("/"))


def list_months(system: FileSystem, path: str, span: TimeRange) -> tuple[FileListing, list[date]]:
    """Return all files below a log folder except those of months outside the span, and the first days of those months.

    The folder of another log is listed as one entry, with a slash at its end, without its files.
    """
    found, months = _walk(system, path.rstrip("/"))
    wide = span.anchored_at_day(max(months.values(), default=None))
    outside = [first for first in months.values() if not wide.may_contain_month(first)]
    for folder, first in months.items():
        if wide.may_contain_month(first):
            found |= system.find(folder, detail=True)
    return found, outside


def _walk(system: FileSystem, path: str) -> tuple[FileListing, dict[str, date]]:
    """Return the files that are in no month of a trail, and the first day of each folder of a month."""
    found: FileListing = {}
    months: dict[str, date] = {}
    for entry in system.ls(path, detail=True):
        name = entry["name"].rstrip("/")
        if entry["type"] != "directory":
            found[name] = entry
        elif name == path:  # some stores list the folder among its own entries
            continue
        elif first := _first_day(name):
            months[name] = first
        elif is_log_folder(name):
            below = _walk(system, name)
            found, months = found | below[0], months | below[1]
        elif not holds_events(f"{name}/"):
            found[f"{name}/"] = entry
        else:
            found |= system.find(name, detail=True)
    return found, months


def _first_day(path: str) -> date | None:
    found = _MONTH.search(path)
    try:
        return date(int(found[1]), int(found[2]), 1) if found else None
    except ValueError:  # 2026/13
        return None
