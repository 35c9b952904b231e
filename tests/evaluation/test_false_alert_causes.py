"""False alerts are told apart by the harmless surprise they come from."""

from __future__ import annotations

import pandas as pd
import pytest

from fingerprint.compute import hashing
from fingerprint.evaluation.false_alert_causes import FalseAlertCauses
from fingerprint.evaluation.statistics import pool_figures

DAY = 20_000  # the first judged day, from the epoch: 2024-10-04
WHO = hashing.hash_strings(pd.Series(["ada", "ben", "eva"], dtype=object))
ADA, BEN, EVA = WHO


def line(surprise: str, key: str, begins: str, ends: str) -> dict[str, str]:
    return {"surprise": surprise, "principal": "arn", "key": key, "from": begins, "to": ends, "what": ""}


def false(*rows: tuple[str, object, str, float]) -> pd.DataFrame:
    """Events of false alerts from (group, principal, time, score)."""
    frame = pd.DataFrame(list(rows), columns=["group", "principal", "event_time", "score"])
    return frame.assign(
        event_time=pd.to_datetime(frame["event_time"], utc=True),
        principal=frame["principal"].astype("uint64"),
    )


@pytest.fixture
def causes() -> FalseAlertCauses:
    """Three people, four days; the outage is everybody's, the hire starts on the second day and stays."""
    lines = [
        line("outage", "*", "2024-10-04", "2024-10-04"),
        line("new_hire", "ada", "2024-10-05", "2024-10-09"),
        line("tool_upgrade", "ben", "2024-10-01", "2024-10-05"),
        line("holiday", "no one ever saw them", "2024-10-05", "2024-10-05"),
    ]
    return FalseAlertCauses.from_anomalies(lines, WHO, DAY, DAY + 3)


def test_days_are_counted_within_what_is_judged_and_of_those_who_were_seen(causes: FalseAlertCauses) -> None:
    days = {name: part["principal_days"] for name, part in causes.summarise(false()).items()}
    assert days == {
        "outage": 3, "new_hire": 1, "new_hire_later": 2, "tool_upgrade": 2,
        "ordinary day": 12 - 3 - 3 - 1,  # ben's first day is an outage and an upgrade
    }  # fmt: skip


def test_an_alert_belongs_to_every_surprise_of_its_day(causes: FalseAlertCauses) -> None:
    told = causes.summarise(
        false(
            ("A", BEN, "2024-10-04T10:00:00Z", 30.0),
            ("A", BEN, "2024-10-04T11:00:00Z", 62.0),
            ("B", EVA, "2024-10-05T10:00:00Z", 20.0),
            ("C", ADA, "2024-10-05T23:59:59Z", 40.0),
            ("D", ADA, "2024-10-06T00:00:00Z", 10.0),
        )
    )
    assert {name: part["false_alerts"] for name, part in told.items()} == {
        "outage": 1, "tool_upgrade": 1, "new_hire": 1, "new_hire_later": 1, "ordinary day": 1
    }  # fmt: skip
    assert told["outage"]["highest_score"] == told["tool_upgrade"]["highest_score"] == 62.0
    assert told["new_hire"]["highest_score"] == 40.0


def test_without_surprises_every_day_is_ordinary() -> None:
    told = FalseAlertCauses.from_anomalies([], WHO, DAY, DAY).summarise(
        false(("A", ADA, "2024-10-04T10:00:00Z", 5.0))
    )
    assert told == {"ordinary day": {"principal_days": 3, "false_alerts": 1, "highest_score": 5.0}}


def test_over_several_organisations_the_highest_is_kept() -> None:
    parts = [
        {"principal_days": 3, "false_alerts": 1, "highest_score": 5.0},
        {"principal_days": 2, "false_alerts": 0, "highest_score": None},
        {"principal_days": 2, "false_alerts": 1, "highest_score": 9.0},
    ]
    assert pool_figures(parts) == {"principal_days": 7, "false_alerts": 2, "highest_score": 9.0}
