"""An incident as a whole: its phases, the resources that it touched, and one plan for each of its principals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fingerprint.alerting.impact import alert_impact, merge_impact
from fingerprint.core.alert import Alert, AlertEvent
from fingerprint.registry.bank_files import open_bank
from fingerprint.registry.catalog import BankListing
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import Suspicion
from fingerprint.store import SqlStore
from fingerprint.web.incident_story import IncidentStory, incident_story
from tests.support.alerts import ACCOUNT
from tests.support.grave_attack import GRACE, KEY, grave_attack
from tests.support.sample_organisation import SETTINGS, SampleOrganisation
from tests.support.web_app import Site, store_in
from tests.web.test_static_report import Page

WHOLE = grave_attack()
OTHER = f"{ACCOUNT}:user/eve"


def part(alert_id: str, events: tuple[AlertEvent, ...], urgency: int, principal: str = GRACE) -> Alert:
    """An alert of some events of the attack, explained as the product explains it."""
    new = {f"{event.service}:{event.action}" for event in events}
    actions = alert_impact(events, new, ())
    return replace(
        WHOLE,
        alert_id=alert_id,
        principal=principal,
        events=events,
        urgency=urgency,
        first_event_time=events[0].event_time,
        last_event_time=events[-1].event_time,
        window_start=events[0].event_time,
        impact_of=actions[:10],
        next_steps=SOURCE.next_steps(Suspicion(principal, "", events, actions, urgency)),
    )


def own_key(event: AlertEvent) -> AlertEvent:
    return replace(
        event, event_id=f"e{event.event_id}", access_key="AKIAEVE0000000000000", source_address="10.1.1.1"
    )


ALERTS = (
    part("aaaa", WHOLE.events[:140], 40),
    part("bbbb", WHOLE.events[140:], 90),
    part("cccc", tuple(own_key(event) for event in WHOLE.events[100:110]), 45, OTHER),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    made = store_in(tmp_path_factory.mktemp("incident"))
    made.alerts.save(ALERTS)
    made.incidents.join("aaaa", "cccc", "maria")
    yield made
    made.close()


@pytest.fixture(scope="module")
def story(store: SqlStore) -> IncidentStory:
    found = store.incidents.get("aaaa")
    assert len(found.alerts) == 3
    return incident_story(store, found)


def test_the_phases_count_the_events_of_all_alerts(story: IncidentStory) -> None:
    assert story.events == sum(len(alert.events) for alert in ALERTS)
    assert story.failed == sum(bool(event.error_code) for alert in ALERTS for event in alert.events)
    names = {each.call.name for phase in story.phases for each in phase.calls}
    assert {"guardduty:ListDetectors", "cloudtrail:StopLogging"} <= names
    assert any(each.new for phase in story.phases for each in phase.calls)


def test_what_was_changed_comes_before_what_was_read(story: IncidentStory) -> None:
    names = [each.name for each in story.resources]
    changed = [each.changed for each in story.resources]
    assert changed == sorted(changed, reverse=True)
    assert names.index("user:backup-service") < next(
        at for at, name in enumerate(names) if name.startswith("instance:")
    )
    user = story.resources[names.index("user:backup-service")]
    assert set(user.calls) == {
        f"iam:{name}" for name in ("CreateUser", "AttachUserPolicy", "CreateLoginProfile", "CreateAccessKey")
    }
    assert user.events == 5
    assert not story.resources[names.index("database:orders")].changed  # the call was refused


def test_each_principal_has_one_plan_over_all_of_its_alerts(story: IncidentStory) -> None:
    grace, eve = story.plans
    assert (grace.principal, eve.principal) == (GRACE, OTHER)
    assert [step.phase for step in grace.steps[:2]] == ["contain", "verify"]  # its gravest alert is critical
    assert [step.phase for step in eve.steps[:2]] == ["verify", "contain"]
    extent = [step for step in grace.steps if step.phase == "extent"]
    assert len({step.text for step in extent}) == len(extent)  # once, and not once an alert
    assert f"AttributeValue={KEY}" in extent[0].command
    assert "--start-time 2026-03-03T" in extent[0].command  # a day before the first alert
    undo = [step for step in grace.steps if step.phase == "undo"]
    assert {step.text for step in undo} == {
        step.text for alert in ALERTS[:2] for step in alert.next_steps if step.phase == "undo"
    }


@pytest.mark.parametrize("is_known", [True, False])
def test_a_plan_knows_which_accounts_are_the_organisations_own(
    tmp_path: Path, organisation: SampleOrganisation, is_known: bool
) -> None:
    """By the served bank; the record of the call names what to look for in the log of the caller's account."""
    bank = open_bank(organisation.bank)
    account = str(bank.people["principal"].iloc[0]).partition(":")[0] if is_known else "151912345678"
    called = replace(WHOLE.events[0], raw=json.dumps({"sharedEventID": "7c5e1a2b"}))
    alert = part("dddd", (called,), 60, f"{account}:account/AROAEXAMPLE")
    store = store_in(tmp_path)
    store.alerts.save([alert])
    [plan] = incident_story(store, store.incidents.get("dddd"), bank).plans
    [contain] = [step for step in plan.steps if step.phase == "contain"]
    assert ("the caller's account is one of the organisation's own" in contain.text) is is_known
    assert ("contains(CloudTrailEvent,'7c5e1a2b')" in contain.command) is is_known
    page = (
        Site.of(store, banks=BankListing(organisation.bank, SETTINGS))
        .browser("viewer")
        .get("/incidents/dddd")
        .text
    )
    assert ("one of the organisation&#39;s own: the record with sharedEventID 7c5e1a2b" in page) is is_known
    store.close()


def test_a_plan_counts_no_actions_that_an_alert_did_not_keep(
    monkeypatch: pytest.MonkeyPatch, store: SqlStore
) -> None:
    monkeypatch.setattr("fingerprint.web.alert_story.MAX_SHOWN_ACTIONS", 1)
    told = incident_story(store, store.incidents.get("aaaa"))
    [ask] = [step for step in told.plans[0].steps if step.phase == "verify"]
    assert " and other actions at " in ask.text


def test_actions_of_several_alerts_are_merged() -> None:
    [row] = merge_impact(
        [
            *alert_impact(WHOLE.events[-2:], (), ()),
            *alert_impact(WHOLE.events[-1:], {"lambda:TagResource"}, ()),
        ]
    )
    assert (row.action, row.calls, row.new) == ("lambda:TagResource", 3, True)


def test_the_page_has_phases_resources_and_the_plan(store: SqlStore) -> None:
    page = Site.of(store).browser("viewer").get("/incidents/aaaa").text
    said = " ".join(Page.lenient(page).text.split())
    happened = said[said.index("What happened") : said.index("Resources touched")]
    for part_of_it in (
        "Persistence TA0003",
        "iam:CreateUser \u00d7 1",
        "T1136.003",
        "succeeded",
        "cloudtrail:StopLogging \u00d7 3",
    ):
        assert part_of_it in happened
    touched = said[said.index("Resources touched") : said.index("What to do next")]
    assert "user:backup-service changed" in touched
    plan = said[said.index("What to do next") :]
    assert (
        f"aws iam update-access-key --user-name grace.moreau1@example.com --access-key-id {KEY} --status Inactive"
        in plan
    )
    assert OTHER in plan
