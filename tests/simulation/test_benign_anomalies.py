"""Harmless surprises: when they come, and that a world decides how eventful its history is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date

from fingerprint.simulation.benign_anomalies import (
    ANOMALY_PLANNERS,
    FIRST_DAYS,
    ORGANISATION_WIDE_ANOMALIES,
    WEEK_DAYS,
    BenignAnomaly,
)
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.world import SimulatedWorld
from fingerprint.simulation.world_parameters import DEFAULT_WORLD

DAYS = 28
QUIET, EVENTFUL = DEFAULT_WORLD, replace(DEFAULT_WORLD, eventful_history=1.0)


def world(parameters=DEFAULT_WORLD, days: int = DAYS) -> SimulatedWorld:
    organisation = Organisation.create(77, date(2026, 1, 5), days, parameters=parameters)
    return SimulatedWorld.create(organisation, 60, attacks=4)


def weeks(anomalies: list[BenignAnomaly], name: str) -> set[int]:
    """The weeks before the judged one, counted back from it (0), on which one begins; weekends move it back by two days."""
    return {-((DAYS - 1 - each.since) // WEEK_DAYS) for each in anomalies if each.name == name}


def test_by_default_only_the_judged_week_is_eventful() -> None:
    assert min(each.since for each in world().anomalies) >= DAYS - WEEK_DAYS - 2


def test_an_eventful_history_has_every_surprise_in_every_week_but_the_first_days() -> None:
    anomalies = world(EVENTFUL).anomalies
    for name in ORGANISATION_WIDE_ANOMALIES - {"new_feature"}:  # of which machines have one each
        assert weeks(anomalies, name) >= {0, -1, -2}, name
    assert min(each.since for each in anomalies) >= FIRST_DAYS - 2
    assert {each.name for each in anomalies} == set(ANOMALY_PLANNERS)


def test_half_an_eventful_history_has_about_half_of_them() -> None:
    half = world(replace(DEFAULT_WORLD, eventful_history=0.5)).anomalies
    before = Counter(each.since < DAYS - WEEK_DAYS - 2 for each in half)
    most = Counter(each.since < DAYS - WEEK_DAYS - 2 for each in world(EVENTFUL).anomalies)
    assert 0 < before[True] < most[True]


def test_what_changed_for_good_is_news_for_two_weeks() -> None:
    for each in world(EVENTFUL).anomalies:
        assert each.since <= each.until < min(DAYS, each.since + 2 * WEEK_DAYS)


def test_tools_are_upgraded_again_to_newer_versions() -> None:
    people = world(EVENTFUL).staff.people
    twice = [person.tool_rollouts for person in people if len(person.tool_rollouts) > 1]
    assert twice
    for rollouts in twice:
        levels = [level for _, level in sorted(rollouts)]
        assert levels == sorted(set(levels))


def test_a_history_of_twenty_days_has_room_for_one_eventful_week() -> None:
    days = 20
    anomalies = world(EVENTFUL, days).anomalies
    assert any(each.since < days - WEEK_DAYS - 2 for each in anomalies)
