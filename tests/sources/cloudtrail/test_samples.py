"""Records that travel with the project, and what an evaluation makes of them."""

from __future__ import annotations

import json
from datetime import date

from fingerprint.sources.cloudtrail.samples import moved_to_day


def test_records_keep_their_distances_and_times_of_day_when_they_are_moved() -> None:
    times = ["2023-07-10T23:50:00Z", "2023-07-11T00:10:00Z"]
    records = [json.dumps({"eventTime": time, "eventID": time}) for time in times]
    calls = [json.loads(each) for each in moved_to_day(records, date(2026, 2, 1))]
    assert [each["eventTime"] for each in calls] == ["2026-02-01T23:50:00Z", "2026-02-02T00:10:00Z"]
    assert [each["eventID"] for each in calls] == times
