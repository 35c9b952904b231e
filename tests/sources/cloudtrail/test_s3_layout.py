"""Where a trail lies in a bucket: the day of delivery in a key, and the months that need not be listed."""

from __future__ import annotations

from datetime import date

import fsspec
import pytest

from fingerprint.core.time_range import parse_time_range
from fingerprint.sources.cloudtrail.s3_layout import holds_events, is_log_folder, list_months, object_day

ACCOUNT = "trail/AWSLogs/111122223333/CloudTrail/eu-west-1"
ORGANISATION = "s3://trail/some/prefix/AWSLogs/o-abc123/111122223333/CloudTrail/us-east-1"


@pytest.mark.parametrize("folder", [ACCOUNT, ORGANISATION])
def test_a_key_names_the_day_of_delivery(folder: str) -> None:
    assert object_day(f"{folder}/2026/01/31/111122223333_x.json.gz") == date(2026, 1, 31)


@pytest.mark.parametrize(
    "path",
    [
        "records/2026/01/01/a.json.gz",  # a layout of one's own: its days may be any days
        "AWSLogs/111122223333/CloudTrail/eu-west-1/2026/13/40/a.json.gz",
        "AWSLogs/111122223333/vpcflowlogs/eu-west-1/2026/01/01/a.json.gz",
        "AWSLogs/111122223333/CloudTrail/eu-west-1/a.json.gz",
    ],
)
def test_any_other_name_says_no_day(path: str) -> None:
    assert object_day(path) is None


@pytest.mark.parametrize(
    ("path", "leads"),
    [
        ("trail/AWSLogs", True),
        ("trail/AWSLogs/o-abc123/111122223333/CloudTrail/", True),
        (f"{ACCOUNT}/2026", True),
        (f"{ACCOUNT}/2026/01", False),
        ("trail/AWSLogs/111122223333/vpcflowlogs/eu-west-1", False),
        ("trail", False),
        ("trail/AWSLogs/111122223333/Config", False),
        ("trail/AWSLogs/111122223333/CloudTrail-Digest/eu-west-1", False),
    ],
)
def test_a_folder_leads_to_months_or_does_not(path: str, leads: bool) -> None:
    assert is_log_folder(path) is leads


@pytest.mark.parametrize(
    ("key", "holds"),
    [
        (f"{ACCOUNT}/2026/01/31/a.json.gz", True),
        ("AWSLogs/111122223333/CloudTrail-NetworkActivity/eu-west-1/2026/01/31/a.json.gz", True),
        ("AWSLogs/111122223333_CloudTrail_eu-west-1_20260131T1000Z_a.json.gz", True),
        ("AWSLogs/111122223333/CloudTrail-Digest/eu-west-1/2026/01/31/a.json.gz", False),
        ("AWSLogs/111122223333/Config/eu-west-1/2026/1/31/ConfigHistory/a.json.gz", False),
        ("AWSLogs/o-abc123/111122223333/vpcflowlogs/eu-west-1/2026/01/31/a.json.gz", False),
        ("records/Config/a.json.gz", True),  # a layout of one's own
        ("AWSLogs/111122223333/a.json.gz", True),
    ],
)
def test_below_awslogs_only_the_folder_of_a_trail_holds_events(key: str, holds: bool) -> None:
    assert holds_events(key) is holds


def test_months_outside_the_span_are_not_listed_nor_are_other_logs() -> None:
    system = fsspec.filesystem("memory")
    keys = [
        *(f"/layout/AWSLogs/1/CloudTrail/eu-west-1/2026/{month:02}/05/a.json.gz" for month in (1, 2, 3)),
        "/layout/AWSLogs/1/vpcflowlogs/eu-west-1/2026/01/05/b.log.gz",
        "/layout/AWSLogs/1/CloudTrail/eu-west-1/2026/13/05/c.json.gz",
    ]
    for key in keys:
        system.pipe(key, b"{}")
    found, outside = list_months(system, "/layout/AWSLogs", parse_time_range("2026-02-10", "2026-02-20"))
    assert sorted(found) == sorted([keys[1], "/layout/AWSLogs/1/vpcflowlogs/", keys[4]])
    assert outside == [date(2026, 1, 1), date(2026, 3, 1)]
    system.rm("/layout", recursive=True)
