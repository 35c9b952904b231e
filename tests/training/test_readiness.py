"""The forecast of a new bank counts every entity that is not ready once, and follows its parents and its pace."""

from __future__ import annotations

import pandas as pd

from fingerprint.core.settings import Settings
from fingerprint.training.readiness import readiness_forecast

SETTINGS = Settings.model_validate({"entities": {"min_ready_events": 100, "min_ready_days": 4}})
DAY = 24  # intervals of an hour


def fingerprints(*rows: tuple[int, int, bool, int, int, int]) -> pd.DataFrame:
    """Rows of level, parent, ready, events, days on which they came, last interval; the first is 0."""
    table = pd.DataFrame(rows, columns=["level", "parent", "ready", "events", "days", "last"])
    return table.assign(first=0)


GENERIC = (3, -1, True, 9000, 20, 20 * DAY - 1)
PEER = (2, 0, True, 5000, 20, 20 * DAY - 1)
READY = (1, 1, True, 1000, 20, 20 * DAY - 1)
RARE = (1, 1, False, 30, 3, 3 * DAY - 1)


def test_entities_fall_back_to_the_first_of_their_line_that_is_ready() -> None:
    lone_peer = (2, 0, False, 10, 1, DAY - 1)
    stranger = (1, 4, False, 10, 1, DAY - 1)
    entity = (0, 2, False, 50, 5, 10 * DAY - 1)
    rows = (GENERIC, PEER, READY, RARE, lone_peer, stranger)
    own = (entity, (0, 3, *entity[2:]), (0, 5, *entity[2:]), (0, 2, True, *entity[3:]))
    forecast = readiness_forecast(fingerprints(*rows, *own), SETTINGS)
    assert forecast["entities"] == 3, "one is ready"
    assert forecast["fall_back_to"] == {"principal": 1, "peer": 1, "generic": 1}


def test_the_slower_of_events_and_days_says_when() -> None:
    tomorrow = (0, 2, False, 95, 10, 10 * DAY - 1)  # 9.5 events a day, five to go
    in_a_week = (0, 2, False, 2000, 2, 4 * DAY - 1)  # came on every second day, two days to go
    in_a_month = (0, 2, False, 50, 10, 20 * DAY - 1)  # 2.5 events a day, fifty to go
    later = (0, 2, False, 5, 5, 10 * DAY - 1)
    forecast = readiness_forecast(
        fingerprints(GENERIC, PEER, READY, tomorrow, in_a_week, in_a_month, later), SETTINGS
    )
    assert forecast["ready_in_days"] == {"a day": 1, "a week": 1, "a month": 1, "later": 1}


def test_a_bank_whose_entities_are_all_ready_waits_for_none() -> None:
    forecast = readiness_forecast(
        fingerprints(GENERIC, PEER, READY, (0, 2, True, 500, 10, 10 * DAY)), SETTINGS
    )
    assert forecast["entities"] == 0
    assert set(forecast["fall_back_to"].values()) == set(forecast["ready_in_days"].values()) == {0}
