"""Titles: one short line, led by the gravest new call, with counts that are true, whatever the names are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fingerprint.alerting import impact
from fingerprint.alerting.titles import MAX_NAME_LENGTH, TitleFacts, build_title, strangest
from fingerprint.core.alert import AlertEvent, SurpriseDriver
from tests.support.alerts import NASTY, event

WHO = "123456789012:user/grace"
NETWORK = SurpriseDriver("network", "139.59.0.0/16", "84.17.0.0/16", "unseen", 9.9, 3)


def called(*names: str, failed: tuple[str, ...] = ()) -> list[AlertEvent]:
    made = []
    for number, name in enumerate(names):
        service, _, action = name.partition(":")
        one = event(number, service, action, error_code="AccessDenied" if name in failed else "")
        made.append(replace(one, event_id=str(number), raw="", source_address="84.17.50.9"))
    return made


def facts(
    events: list[AlertEvent], new: set[str], drivers: tuple[SurpriseDriver, ...] = (), **fields: object
) -> TitleFacts:
    names = tuple(dict.fromkeys(map(impact.action_name, events)))
    ids = {each.event_id for each in events} if NETWORK in drivers else set()
    made = TitleFacts(events, drivers, impact.alert_impact(events, new, ids), new, names)
    return replace(made, **fields)


def test_the_gravest_new_call_leads_and_the_others_are_counted() -> None:
    events = called("guardduty:ListDetectors", "cloudtrail:StopLogging", *(f"iam:List{n}" for n in range(52)))
    new = {impact.action_name(each) for each in events}
    title = build_title(WHO, "grace@example.com", facts(events, new, (NETWORK,)))
    assert title == (
        "grace@example.com called cloudtrail:StopLogging and 53 other new actions from 139.59.0.0/16 (new network)"
    )
    assert len(title) <= 120


def test_a_call_that_failed_each_time_was_tried() -> None:
    events = called("cloudtrail:StopLogging", "iam:ListUsers", failed=("cloudtrail:StopLogging",))
    title = build_title(WHO, "", facts(events, {"cloudtrail:StopLogging"}))
    assert title == "user/grace tried cloudtrail:StopLogging, new to them, from 84.17.50.9; 1 failed"


def test_a_usual_grave_call_leads_only_where_its_network_is_new() -> None:
    events = called("iam:ListUsers", "cloudtrail:StopLogging")
    assert "called iam:ListUsers and 1 other action" in build_title(WHO, "", facts(events, set()))
    assert "called cloudtrail:StopLogging and 1 other action from 139.59.0.0/16 (new" in build_title(
        WHO, "", facts(events, set(), (NETWORK,))
    )


def test_without_a_grave_call_the_most_surprising_new_one_leads() -> None:
    drivers = (SurpriseDriver("action", "ses:GetSendQuota", "s3:GetObject", "unseen", 9.0, 1),)
    events = called("iam:ListUsers", "ses:GetSendQuota")
    title = build_title(WHO, "", facts(events, {"iam:ListUsers", "ses:GetSendQuota"}, drivers))
    assert "called ses:GetSendQuota and 1 other new action from" in title


def test_a_newcomer_a_new_tool_and_a_late_delivery_are_named() -> None:
    tool = SurpriseDriver("program", "Terraform", "Boto3", "unseen", 5.0, 1)
    some = facts(called("iam:ListUsers"), set(), (tool,), first_seen="first seen 3 hours before", late_days=8)
    title = build_title(WHO, "", some)
    assert title.startswith(
        "user/grace (new: first seen 3 hours before) called iam:ListUsers from 84.17.50.9"
    )
    assert title.endswith(", new tool Terraform; delivered 8 days late")
    assert strangest(some) == "program Terraform"


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_a_name_of_any_length_and_kind_keeps_a_title_short(text: str) -> None:
    events = [replace(each, action=text, service=text, source_address=text) for each in called("a:b", "c:d")]
    network = replace(NETWORK, seen=text)
    title = build_title(f"123456789012:user/{text}", text, facts(events, {f"{text}:{text}"}, (network,)))
    assert len(title) <= 4 * MAX_NAME_LENGTH + 120
