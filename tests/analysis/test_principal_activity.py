"""What a principal did as its alerts show it, and its hours of the week."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from fingerprint.analysis.principal_activity import (
    fold_repeats,
    hours_of,
    seen_values,
    summarise_activity,
    usual_hours,
)
from fingerprint.core.alert import AlertEvent, CredentialIssue
from fingerprint.core.case import PrincipalEvent
from fingerprint.registry.bank import Bank
from tests.support.alerts import PERSON, START, stolen_session

STOLEN = stolen_session()


def seen(events: tuple[AlertEvent, ...]) -> list[PrincipalEvent]:
    return [PrincipalEvent(STOLEN.alert_id, PERSON, event) for event in events]


def test_values_are_counted_with_their_failures_and_when_they_were_first_and_last_seen() -> None:
    first, second, *_ = STOLEN.events
    elsewhere = replace(second, source_address="198.51.100.7")
    later = replace(first, event_time=first.event_time + timedelta(hours=1), error_code="AccessDenied")
    values = seen_values([later, elsewhere, first], lambda event: event.source_address)
    assert [(each.text, each.events, each.failed) for each in values] == [
        (first.source_address, 2, 1),
        ("198.51.100.7", 1, 1),
    ]
    assert (values[0].first, values[0].last) == (first.event_time, later.event_time)


def test_what_no_event_says_is_no_value() -> None:
    assert seen_values([replace(STOLEN.events[0], resource="")], lambda event: event.resource) == []


def test_many_values_are_cut_and_counted() -> None:
    many = tuple(replace(STOLEN.events[0], source_address=f"10.0.0.{at}") for at in range(9))
    found = summarise_activity(seen(many), limit=4)
    assert (len(found.addresses), found.distinct["addresses"]) == (4, 9)


def test_user_agents_are_folded_to_program_and_version() -> None:
    agents = [f"aws-cli/2.24.1 md/command#s3.{name}" for name in ("ls", "cp", "ls")] + ["Boto3/1.34.2", ""]
    made = tuple(
        replace(STOLEN.events[0], event_id=f"{at}", user_agent=each) for at, each in enumerate(agents)
    )
    found = summarise_activity(seen(made))
    assert {each.text: each.events for each in found.programs} == {"aws-cli 2.24": 3, "Boto3 1.34": 1}
    assert found.distinct["programs"] == 2
    assert found.agents["aws-cli 2.24"] == (
        ("aws-cli/2.24.1 md/command#s3.ls", 2),
        ("aws-cli/2.24.1 md/command#s3.cp", 1),
    )


def test_roles_say_who_asked_for_which_and_which_keys_they_led_to() -> None:
    assumed = replace(STOLEN.events[0], event_id="assume", access_key="ASIAMINE", resource="role:admin")
    caller = {"principal": "1:user/eve", "human": "", "source_address": "198.51.100.7", "region": "eu-west-1"}
    own = CredentialIssue("ASIAMINE", START, "entry", "AssumeRole", access_key="AKIAEVE", **caller)
    given = CredentialIssue(
        "ASIANEXT", START, "assume", "AssumeRole", access_key="ASIAMINE", **(caller | {"principal": PERSON})
    )
    found = summarise_activity(seen((assumed,)), [own, given])
    assert [(each.caller, each.issued_key, each.role) for each in found.obtained] == [
        ("1:user/eve", "ASIAMINE", "")
    ]
    assert [(each.issued_key, each.role) for each in found.issued] == [("ASIANEXT", "role:admin")]


def test_a_principal_without_events_shows_nothing() -> None:
    found = summarise_activity(())
    assert (found.events, found.first, found.addresses, found.issued) == (0, None, (), ())


def test_repeats_in_a_row_are_one_line_and_nothing_is_lost() -> None:
    first, *others = STOLEN.events
    repeated = [
        replace(first, event_id=f"r{at}", event_time=first.event_time + timedelta(seconds=at))
        for at in range(5)
    ]
    lines = fold_repeats(seen((*repeated, *others)))
    assert [line.last for line in lines] == sorted((line.last for line in lines), reverse=True)
    assert lines[-1].count == 5
    assert (lines[-1].first, lines[-1].last) == (repeated[0].event_time, repeated[-1].event_time)
    assert sum(line.count for line in lines) == len(repeated) + len(others)


def test_a_call_that_failed_is_no_repeat_of_one_that_did_not() -> None:
    first = STOLEN.events[0]
    failed = replace(first, event_id="x", error_code="AccessDenied")
    assert [line.count for line in fold_repeats(seen((first, failed)))] == [1, 1]


@pytest.mark.parametrize("change", [{"user_agent": "aws-cli/2.17 kali"}, {"region": "ap-east-1"}])
def test_a_call_by_another_tool_or_in_another_region_is_no_repeat(change: dict[str, str]) -> None:
    first = STOLEN.events[0]
    assert [line.count for line in fold_repeats(seen((first, replace(first, event_id="x", **change))))] == [
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("moment", "day", "hour"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 3, 0),  # a Thursday
        (datetime(2026, 3, 2, 0, 0, tzinfo=UTC), 0, 0),
        (datetime(2026, 3, 8, 23, 59, 59, tzinfo=UTC), 6, 23),
    ],
)
def test_an_hour_of_the_week_is_that_of_utc(moment: datetime, day: int, hour: int) -> None:
    counts = np.array(hours_of([moment]).counts)
    assert (counts.sum(), counts[day, hour]) == (1, 1)


def test_usual_hours_are_all_that_was_counted_of_the_principal(bank: Bank) -> None:
    """People work at some hours of the week, and the mean of a week is less than what was counted in all."""
    people = bank.people.loc[bank.people["kind"] == "person", "principal"]
    found = {person: week for person in people if (week := usual_hours(bank, person))}
    assert found
    events = dict(zip(bank.fingerprints["key"], bank.fingerprints["events"], strict=True))
    for person, week in found.items():
        assert week.weeks is not None
        assert 0 < np.sum(week.counts) * week.weeks <= 1.3 * events[person] + 24
    total = sum(np.array(week.counts) for week in found.values())
    assert total[:5].sum() > total[5:].sum()  # the week is longer than the weekend


def test_a_stranger_has_no_usual_hours(bank: Bank) -> None:
    assert usual_hours(bank, "123456789012:user/stranger") is None
