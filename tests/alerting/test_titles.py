"""Titles: one short line, led by the gravest new call, with counts that are true, whatever the names are."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fingerprint.alerting import explanation, impact
from fingerprint.alerting.prevalence import feature_labels
from fingerprint.alerting.title_facts import TitleFacts
from fingerprint.alerting.title_origin import new_origin
from fingerprint.alerting.title_tools import TOOL_FEATURES
from fingerprint.alerting.title_words import MAX_NAME_LENGTH
from fingerprint.alerting.titles import (
    ACCOUNT_FEATURE,
    access_text,
    build_title,
    known_at,
    new_at,
    questioned,
)
from fingerprint.core.alert import MOVE_FEATURE, AlertEvent, Rarity, SurpriseDriver
from fingerprint.estimators.amounts import amount_text
from fingerprint.estimators.call_paths import CALL_PATH_FEATURE, ONLY_BY
from fingerprint.estimators.openers import OPENER_FEATURE
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import escape_key
from fingerprint.sources.cloudtrail.resources import resource_of
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
    names = tuple(dict.fromkeys(event.action_name for event in events))
    networks = {
        each.event_id: driver.seen for driver in drivers if driver.feature == "network" for each in events
    }
    networks = fields.pop("new_networks", networks)
    made = TitleFacts(events, drivers, impact.alert_impact(events, new, networks), new, names)
    return replace(made, new_networks=networks, **fields)


def title_of(made: TitleFacts, principal: str = WHO, human: str = "") -> str:
    return build_title(principal, replace(made, humans=made.humans or [human] * len(made.events)))


def test_a_title_names_the_account_that_a_call_lets_in() -> None:
    [made] = called("iam:CreateRole")
    document = json.dumps({"Statement": [{"Principal": {"AWS": "arn:aws:iam::210987654321:root"}}]})
    raw = json.dumps({"requestParameters": {"assumeRolePolicyDocument": document}})
    made = replace(made, resource="role:backup", raw=raw)
    accounts = {made.event_id: "210987654321"}
    actions = impact.alert_impact([made], (), (), accounts, new_requests={made.event_id})
    driver = SurpriseDriver(ACCOUNT_FEATURE, "210987654321", "own account", "unseen", 9.3)
    title = title_of(replace(facts([made], set(), (driver,)), actions=actions))
    assert title == (
        "user/grace called iam:CreateRole on role:backup (to let account 210987654321 assume it) from 84.17.50.9"
    )


def test_a_title_names_the_account_that_a_call_without_a_resource_lets_in() -> None:
    [made] = called("events:PutPermission")
    made = replace(made, raw=json.dumps({"requestParameters": {"principal": "210987654321"}}))
    actions = impact.alert_impact([made], {"events:PutPermission"}, ())
    title = title_of(facts([made], {"events:PutPermission"}))
    assert actions[0].resources == ("for account 210987654321",)
    assert (
        title
        == "user/grace called events:PutPermission (to open it to account 210987654321), new to it, from 84.17.50.9"
    )


@pytest.mark.parametrize(
    ("action", "request_", "said"),
    [
        (
            "ds:ShareDirectory",
            {"directoryId": "d-9067012345", "shareTarget": {"id": "210987654321", "type": "ACCOUNT"}},
            " on directory:d-9067012345 (to share it with account 210987654321), new to it, from",
        ),
        (
            "kms:CreateGrant",
            {"keyId": "8f600cda", "granteePrincipal": "arn:aws:iam::210987654321:root"},
            " on key:8f600cda (to let account 210987654321 use it), new to it, from",
        ),
    ],
)
def test_a_title_says_on_what_and_how_an_account_is_let_in(
    action: str, request_: dict[str, Any], said: str
) -> None:
    [made] = called(action)
    member = next(iter(request_))
    named = resource_of(f"{member}={request_[member]}") or ""
    made = replace(made, resource=named, raw=json.dumps({"requestParameters": request_}))
    assert said in title_of(facts([made], {action}))


def test_the_gravest_new_call_leads_and_the_others_are_counted() -> None:
    events = called("guardduty:ListDetectors", "cloudtrail:StopLogging", *(f"iam:List{n}" for n in range(52)))
    new = {each.action_name for each in events}
    title = title_of(facts(events, new, (NETWORK,)), human="grace@example.com")
    assert title == (
        "grace@example.com called cloudtrail:StopLogging and 53 other new actions from 139.59.0.0/16 (new network)"
    )
    assert len(title) <= 120


def test_what_a_service_calls_for_a_person_is_said_to_be_that_services_call_for_their_own() -> None:
    """A person was said to have called kms:Decrypt, and was asked about it: they had read a secret."""
    read, decrypt = called("secretsmanager:GetSecretValue", "kms:Decrypt")
    service = "secretsmanager.amazonaws.com"
    decrypt = replace(
        decrypt, source_address=service, access_key="ASIA1", event_time=read.event_time + timedelta(seconds=1)
    )
    read = replace(read, access_key="ASIA1")
    program = SurpriseDriver("program", service, "aws-cli", "unseen", 8.0)
    network = SurpriseDriver("network", service, "84.17.0.0/16", "unseen", 7.0)
    alone = facts([decrypt], {"kms:Decrypt"}, (program, network), programs=[service])
    assert (
        title_of(alone, human="ann@example.com")
        == f"ann@example.com had {service} call kms:Decrypt, new to them"
    )
    caused = replace(alone, supporting=[read])
    assert title_of(caused, human="ann@example.com") == (
        f"ann@example.com had {service} call kms:Decrypt, new to them, for secretsmanager:GetSecretValue from 84.17.50.9"
    )
    for other in (
        replace(read, access_key="ASIA2"),
        replace(read, service="ssm", action="GetParameter"),
        replace(read, event_time=decrypt.event_time - timedelta(minutes=1)),
    ):
        assert "GetSecretValue" not in title_of(replace(alone, supporting=[other]), human="ann@example.com")
    harm = called("support:CreateCase")[0]
    beside = facts([harm, replace(decrypt, event_id="1")], {"support:CreateCase", "kms:Decrypt"}, (program,))
    beside = replace(beside, new_networks={"1": service}, usual_for_others={"1"})
    assert title_of(beside, human="ann@example.com").endswith(
        f"from 84.17.50.9; 1 other new action by {service} for them"
    )
    assert title_of(beside).endswith(f"1 other new action from {service} (new to it, usual for others)")
    for networks, said in (
        ({}, f"84.17.50.9; 1 other new action by {service} for them"),
        (
            {"0": "84.17.0.0/16"},
            f"84.17.0.0/16 (new network); 1 other new action by {service} for them",
        ),
    ):
        title = title_of(replace(beside, new_networks=networks), human="ann@example.com")
        assert title.endswith(f" from {said}"), "a service is no place elsewhere"
    listed = replace(called("iam:ListUsers")[0], event_id="2", source_address="139.59.1.1")
    three = facts([*beside.events, listed], {*beside.new_actions}, new_networks={"2": "139.59.0.0/16"})
    assert title_of(three, human="ann@example.com").endswith(
        f"; 1 other new action by {service} for them; others from 139.59.0.0/16 (new network)"
    )
    two = replace(
        decrypt, service="ec2", action="CreateTags", source_address="ssm.amazonaws.com", event_id="3"
    )
    both = facts([*beside.events, two], {*beside.new_actions, "ec2:CreateTags"})
    assert title_of(both, human="ann@example.com").endswith("; 2 other new actions by services for them")
    started, asked = (replace(read, action=name) for name in ("RotateSecret", "ListSecrets"))
    later = replace(asked, event_time=decrypt.event_time)
    for supporting in ([started, later], [later, started]):
        title = title_of(replace(alone, supporting=supporting), human="ann@example.com")
        assert title.endswith(" for secretsmanager:RotateSecret from 84.17.50.9")
    assert title_of(caused) == f"user/grace called kms:Decrypt, new to it, from {service} (new network)"
    person = replace(caused, humans=["ann@example.com"])
    assert not new_origin(person, 0)
    assert not explanation._has_new_origin(person), "neither its name nor its domain is where they were"
    assert explanation._has_new_origin(replace(caused, humans=["user/grace"]))


def test_a_call_that_failed_each_time_was_tried() -> None:
    events = called("cloudtrail:StopLogging", "iam:ListUsers", failed=("cloudtrail:StopLogging",))
    title = title_of(facts(events, {"cloudtrail:StopLogging"}))
    assert title == "user/grace tried cloudtrail:StopLogging, new to it, from 84.17.50.9; 1 failed"


def test_an_action_of_which_only_the_harmful_call_failed_was_called() -> None:
    raw = json.dumps({"requestParameters": {"x-amz-server-side-encryption-customer-algorithm": "AES256"}})
    denied, usual = called("s3:PutObject", "s3:PutObject")
    denied = replace(denied, raw=raw, error_code="AccessDenied")
    title = title_of(facts([denied, usual], {"s3:PutObject"}))
    assert title == "user/grace called s3:PutObject, new to it, from 84.17.50.9; 1 failed"


def test_a_title_says_that_an_instances_credentials_were_used_elsewhere() -> None:
    [listed] = called("iam:ListUsers")
    raw = json.dumps({"userIdentity": {"sessionContext": {"ec2RoleDelivery": "2.0"}}})
    judged = [SOURCE.used_elsewhere(raw, SOURCE.impact_of("iam", "ListUsers", raw))]
    made = facts([listed], {"iam:ListUsers"}, (NETWORK,))
    actions = impact.alert_impact([listed], {"iam:ListUsers"}, {listed.event_id}, judged=judged)
    assert title_of(replace(made, actions=actions)) == (
        "user/grace called iam:ListUsers, new to it, from 139.59.0.0/16 (new network), "
        "with an instance's credentials, used outside that instance"
    )
    moved = SurpriseDriver(MOVE_FEATURE, "139.59.0.0/16", "only private, in 21 days", "unseen", 7.8)
    title = title_of(replace(made, actions=actions, drivers=(NETWORK, moved)))
    assert title.endswith("used outside that instance; always only private, in 21 days"), "once"
    more = facts([listed, *called("kms:ListKeys")], {"iam:ListUsers", "kms:ListKeys"}, (NETWORK,))
    surprising = SurpriseDriver("action", "kms:ListKeys", "iam:ListUsers", "unseen", 9.9)
    more = replace(more, actions=actions, drivers=(surprising, NETWORK))
    assert more.lead == ("kms:ListKeys", False), "the list of users leads no title for it"


def test_a_title_says_that_a_request_encrypts_with_the_callers_own_key() -> None:
    """The action says nothing of it: who writes objects all day encrypts them for ransom with the same one."""
    raw = json.dumps({"requestParameters": {"x-amz-server-side-encryption-customer-algorithm": "AES256"}})
    written, deleted = called("s3:PutObject", "s3:DeleteObject")
    written = replace(written, raw=raw)
    made = facts([written, deleted], {"s3:DeleteObject"})
    assert title_of(made) == "user/grace called s3:DeleteObject, new to it, from 84.17.50.9"
    actions = impact.alert_impact(made.events, made.new_actions, (), new_requests={written.event_id})
    assert title_of(replace(made, actions=actions)) == (
        "user/grace called s3:PutObject (with a key that only the caller has) and s3:DeleteObject, new to it, from 84.17.50.9"
    )
    denied = replace(written, error_code="AccessDenied")
    actions = impact.alert_impact([denied], (), (), new_requests={written.event_id})
    assert title_of(replace(facts([denied], set()), actions=actions)) == (
        "user/grace tried s3:PutObject (with a key that only the caller has) from 84.17.50.9; failed"
    )


@pytest.mark.parametrize(
    ("usual", "strange", "leading"),
    [
        ("lambda:UpdateFunctionCode", 2, "iam:ListUsers and 1 other new action from 139.59.0.0/16"),
        (
            "lambda:UpdateFunctionCode",
            1,
            "lambda:UpdateFunctionCode from 84.17.50.9; 2 other new actions from",
        ),
        ("iam:CreateAccessKey", 2, "iam:CreateAccessKey from 84.17.50.9; 2 other new actions from"),
    ],
)
def test_one_notable_call_from_the_usual_place_leads_no_title_of_many_from_a_new_network(
    usual: str, strange: int, leading: str
) -> None:
    """A thief used TruffleHog 281 times; the title and the question were about what the owner changed an hour before."""
    events = called(usual, "iam:ListUsers", "ses:GetAccount", *[usual] * (2 - strange))
    new = {usual, "iam:ListUsers", "ses:GetAccount"}
    network = {"1": "139.59.0.0/16", "2": "139.59.0.0/16"}
    changed = SurpriseDriver("action", usual, "", "unseen", 4.0)
    some = facts(events, new, (changed, replace(changed, seen="iam:ListUsers")), new_networks=network)
    assert title_of(some).startswith(f"user/grace called {leading}")
    assert questioned(some).startswith(leading.partition(" ")[0])


def test_what_succeeded_leads_before_what_is_graver_and_failed_each_time() -> None:
    names = ("ec2:AuthorizeSecurityGroupIngress", "ec2:RunInstances", "ec2:DescribeRegions")
    some = facts(called(*names, failed=names[:1]), set(names))
    assert title_of(some) == (
        "user/grace called ec2:RunInstances and 2 other new actions from 84.17.50.9; "
        "1 failed (ec2:AuthorizeSecurityGroupIngress)"
    )
    both = facts(called(*names, failed=(names[0], names[2])), set(names))
    assert title_of(both).endswith("; 2 failed (ec2:AuthorizeSecurityGroupIngress and others)")


def test_a_subject_of_a_provider_is_named_first_and_a_long_role_leaves_room_for_who_is_behind_it() -> None:
    provider = escape_key("arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/A1B2")
    pod = f"123456789012:federated/{provider}/{escape_key('system:serviceaccount:chatbot:chatbot')}"
    some = facts(called("sts:AssumeRoleWithWebIdentity"), set())
    shown = "system:serviceaccount:chatbot:chatbot (oidc.eks.eu-west-1.amazonaws.com) called "
    assert title_of(some, pod, "system:serviceaccount:chatbot:chatbot").startswith(shown)
    assert title_of(some, pod, "chatbot:a-run").startswith(shown)
    role = f"123456789012:role/{'r' * 64}"
    assert f"{'r' * 30}… (i-0ab12cd34ef56ab78) called" in title_of(some, role, "i-0ab12cd34ef56ab78")
    people = ["ann@example.com", "bob@example.com"]
    two = facts(called("iam:ListUsers", "iam:ListUsers"), set(), humans=people)
    who = title_of(two, role).partition(" called")[0]
    assert who.endswith("… (ann@example.com and 1 other)")
    assert len(who) == MAX_NAME_LENGTH


def test_a_caller_from_outside_is_named_by_its_account_and_by_the_role_that_it_took() -> None:
    took = replace(called("sts:AssumeRole")[0], resource="role:orca-security-scan")
    some = facts([took], {"sts:AssumeRole"})
    assert title_of(some, "976280145156:account/AROAPGA3KWCATOSOSJNFU") == (
        "a caller of account 976280145156 called sts:AssumeRole on role:orca-security-scan, new to it, from 84.17.50.9"
    )
    for human in ("", "ann.bloggs", "i-0ab12cd34ef56ab78"):
        assert title_of(some, "976280145156:account/AROAPGA3KWCA", human).startswith("a caller of account 9")
    named = title_of(some, "976280145156:account/AROAPGA3KWCA", "ann@example.com")
    assert named.startswith("a caller of account 976280145156 (ann@example.com) called sts:AssumeRole on")
    assert title_of(some) == (
        "user/grace called sts:AssumeRole on role:orca-security-scan, new to it, from 84.17.50.9"
    )
    topic = facts([replace(took, resource="topic:orca")], {"sts:AssumeRole"})
    assert "orca" not in title_of(topic), (
        "of one's own principals the queue has the resources beside the title"
    )
    long = facts([replace(took, resource=f"role:{'x' * 300}")], set())
    assert f"on role:{'x' * 34}… from" in title_of(long, "976280145156:account/AROAPGA3KWCATOSOSJNFU")


def test_who_never_opened_a_role_is_said_to_be_new_to_it_beside_the_one_that_did() -> None:
    took = replace(called("sts:AssumeRole")[0], resource="role:scan")
    seen = "a caller of account 976280145156 opened role:scan in 123456789012"
    only = SurpriseDriver(OPENER_FEATURE, seen, "repo:acme/scan", "unseen", 7.8)
    start = "a caller of account 976280145156 called sts:AssumeRole on role:scan from 84.17.50.9"
    for driver, then in (
        (only, "; before, only repo:acme/scan opened this role"),
        (replace(only, expected="user/ann, user/ben"), "; never opened this role before"),
        (replace(only, expected="x" * 300), f"; before, only {'x' * 39}… opened this role"),
    ):
        title = title_of(facts([took], set(), (driver,)), "976280145156:account/AROAPGA3KWCATOSOSJNFU")
        assert title == start + then
    made = called("iam:CreateUser")[0]
    for driver, then in (
        (only, "; also opened role:scan in 123456789012, which only repo:acme/scan did before"),
        (
            replace(only, expected="user/ann, user/ben"),
            "; also opened role:scan in 123456789012, which is new to it",
        ),
    ):
        assert title_of(
            facts([made, took], {"iam:CreateUser"}, (driver,)), "976280145156:account/AROA"
        ).endswith(then)


def test_a_direct_call_of_what_a_service_called_before_names_the_service() -> None:
    """Who finds the pipeline's own calls in an alert must see why: the action is no new one of it."""
    action, role = "lambda:UpdateFunctionCode20150331v2", "123456789012:role/deploy"
    expected = f"{ONLY_BY}cloudformation.amazonaws.com on 14 days"
    path = SurpriseDriver(CALL_PATH_FEATURE, action, expected, "unseen", 5.7)
    own, other = called(action), called("iam:CreateUser", action)
    service = "before, only cloudformation.amazonaws.com called"
    title = title_of(facts(own, set(), (path,)), role)
    assert title == f"role/deploy called lambda:UpdateFunctionCode from 84.17.50.9; {service} it for it"
    beside = title_of(facts(other, {"iam:CreateUser"}, (path,)), role)
    assert f"; {service} lambda:UpdateFunctionCode for it" in beside
    long = replace(path, expected=f"{ONLY_BY}{'x' * 300} on 2 days")
    assert f"; before, only {'x' * 39}… called it for it" in title_of(facts(own, set(), (long,)), role)


def test_a_machine_that_never_moved_is_said_to_be_outside_its_usual_networks() -> None:
    own, role = called("s3:GetObject"), "123456789012:role/etl"
    moved = SurpriseDriver(MOVE_FEATURE, "45.141.0.0/16", "only private, in 21 days", "unseen", 7.8)
    title = title_of(facts(own, set(), (moved,)), role)
    assert title == (
        "role/etl called s3:GetObject from 84.17.50.9; outside its usual networks (only private, in 21 days)"
    )
    assert "usual networks" not in title_of(facts(own, set(), ()), role)


def test_a_sign_in_by_saml_names_the_provider_and_not_its_digest() -> None:
    record = {
        "eventName": "AssumeRoleWithSAML",
        "requestParameters": {"principalArn": "arn:aws:iam::123456789012:saml-provider/ADFS-Legacy"},
    }
    made = replace(called("sts:AssumeRoleWithSAML")[0], resource="role:ADFS-SAPBasis", raw=json.dumps(record))
    title = title_of(facts([made], set()), "123456789012:federated/4dae59680578ead67ebc=/KW105517")
    assert title == (
        "KW105517 called sts:AssumeRoleWithSAML on role:ADFS-SAPBasis by saml-provider/ADFS-Legacy from 84.17.50.9"
    )


def test_a_caller_of_which_the_log_has_nothing_is_said_to_have_no_name() -> None:
    made = replace(called("rolesanywhere:CreateSession")[0], resource="role:Gateway")
    title = title_of(facts([made], set()), "123456789012:unknown/Unknown/")
    assert (
        title == "a caller without a name called rolesanywhere:CreateSession on role:Gateway from 84.17.50.9"
    )
    named = title_of(facts([made], set()), "123456789012:unknown/Directory/d-90670")
    assert named.startswith("unknown/Directory/d-90670 called")


def test_a_bulk_names_what_it_was_called_on_and_that_several_people_called_it() -> None:
    seen = amount_text(4, "dynamodb:GetItem", "an hour on unusual resources")
    amount = SurpriseDriver("amount", seen, "none in the history", "unseen", 4.9, 4)
    events = [
        replace(each, resource=f"table:t{at % 2}")
        for at, each in enumerate(called(*["dynamodb:GetItem"] * 4))
    ]
    people = ["ann@example.com", "bob@example.com"] * 2
    some = facts(events, set(), (amount,), humans=people)
    assert title_of(some, "123456789012:role/Media") == (
        "role/Media (ann@example.com and 1 other) called dynamodb:GetItem on table:t0 and 1 other, together 4 times in 3 minutes "
        "on resources unusual for them (none in an hour in the history) from 84.17.50.9"
    )
    assert questioned(some).startswith(
        "dynamodb:GetItem together 4 times in 3 minutes on resources unusual for them"
    )
    machine = title_of(facts(events, set(), (amount,)))
    assert "4 times in 3 minutes on resources unusual for it (none in an hour in the history) from" in machine
    new = title_of(facts(events, {"dynamodb:GetItem"}, (amount,)))
    assert "4 times in 3 minutes, new to it, from" in new, "as are all its resources"
    alone = facts([*events[:1] * 4], set(), (amount,), humans=people[:1] * 4)
    assert "called dynamodb:GetItem on table:t0 4 times in an hour" in title_of(alone)


def test_what_failed_is_counted_plainly_where_the_alert_has_more_calls_than_were_unusual() -> None:
    """Five of six downloads were of unusual buckets: "1 of the 13 shown failed" read as if more had been made."""
    name = "s3:GetObject"
    amount = SurpriseDriver(
        "amount",
        amount_text(5, name, "an hour on unusual resources"),
        "none in the history",
        "unseen",
        4.9,
        5,
    )
    events = called(*[name] * 6, "iam:ListUsers", failed=("iam:ListUsers",))
    assert title_of(facts(events, set(), (amount,))).endswith("from 84.17.50.9; 1 failed")
    assert title_of(facts(events[2:], set(), (amount,))).endswith("; 1 of the 5 shown failed")


def test_a_session_of_another_name_is_counted_beside_the_person_at_a_shared_role() -> None:
    tom, other = called("s3:ListBuckets", "s3:ListBuckets")
    events = [replace(tom, session="tom@example.com"), replace(other, session="session-4821")]
    some = facts(events, {"s3:ListBuckets"}, humans=["tom@example.com", ""])
    assert title_of(some, "123456789012:role/Data").startswith(
        "role/Data (tom@example.com and 1 other) called"
    )


def test_a_count_says_whose_calls_it_counts() -> None:
    """Of 35 calls the alert has one, of one of its three people."""
    amount = SurpriseDriver(
        "amount", amount_text(35, "events:PutRule", "a day"), "at most 9 in the history", "unseen", 4.9
    )
    events = called("events:PutRule", "iam:ListUsers", "iam:ListRoles")
    some = facts(events, set(), (amount,), humans=[f"{each}@example.com" for each in ("ann", "bob", "cid")])
    role = "123456789012:role/Media"
    assert (
        "called events:PutRule 35 times in a day by all at the role (at most 9 in the history)"
        in title_of(some, role)
    )
    twice = replace(amount, seen=amount_text(2, "events:PutRule", "a day"))
    both = facts([events[0], *events], set(), (twice,), humans=["bob@example.com", *some.humans])
    assert "called events:PutRule 2 times in a day by 2 of them (at most 9 in the history)" in title_of(
        both, role
    )


@pytest.mark.parametrize("principal", [WHO, "976280145156:account/AROAPGA3KWCATOSOSJNFU"])
def test_nothing_is_named_beside_a_count_of_calls_that_the_alert_does_not_have(principal: str) -> None:
    """Of 42 calls one was on this secret: "on webhook-1 42 times" would be false."""
    name = "secretsmanager:GetSecretValue"
    amount = SurpriseDriver(
        "amount", amount_text(42, name, "an hour"), "at most 23 in the history", "unseen", 5.6
    )
    events = [replace(each, resource=f"secret:webhook-{at}") for at, each in enumerate(called(name, name))]
    title = title_of(facts(events, set(), (amount,)), principal)
    assert f"called {name} 42 times in an hour (at most 23 in the history) from 84.17.50.9" in title
    roles = [replace(each, resource="role:admin") for each in events]
    assert "role:admin" not in title_of(facts(roles, set(), (amount,)), principal)
    all_of_them = replace(amount, seen=amount_text(2, name, "an hour"))
    assert "on secret:webhook-0" in title_of(facts(events, set(), (all_of_them,)), principal)


def test_what_another_person_at_the_role_did_is_said_to_be_theirs() -> None:
    events = [replace(each, session="ann@example.com") for each in called("iam:ListUsers", "iam:ListUsers")]
    other = replace(called("cloudtrail:StopLogging")[0], session="bob@example.com")
    grave = impact.alert_impact([other], {"cloudtrail:StopLogging"}, ())
    people = ["ann@example.com", "cid@example.com"]
    some = facts(events, set(), humans=people, supporting=[other], supporting_actions=grave)
    assert title_of(some, "123456789012:role/Media").endswith(
        "; also cloudtrail:StopLogging by bob@example.com"
    )
    own = replace(some, supporting=[replace(other, session="ann@example.com")])
    assert " called cloudtrail:StopLogging and iam:ListUsers from " in title_of(
        own, "123456789012:role/Media"
    )
    hostile = replace(some, supporting=[replace(other, session="x" * 300)])
    assert title_of(hostile, "123456789012:role/Media").endswith("; also cloudtrail:StopLogging")


def test_a_question_about_a_read_names_the_network_and_the_tool_that_are_new() -> None:
    tool = SurpriseDriver("program", "TruffleHog", "aws-cli linux", "unseen", 7.0)
    some = facts(called("sts:GetCallerIdentity"), {"sts:GetCallerIdentity"}, (NETWORK, tool))
    asked = questioned(replace(some, programs=["TruffleHog"]))
    assert asked == "sts:GetCallerIdentity from 139.59.0.0/16 (new network), new tool TruffleHog"


def test_a_new_sign_in_without_mfa_leads_reads_and_stands_beside_what_is_graver() -> None:
    login = {
        "eventName": "ConsoleLogin",
        "userIdentity": {"type": "Root"},
        "responseElements": {"ConsoleLogin": "Success"},
        "additionalEventData": {"MFAUsed": "No"},
    }
    events = called("iam:GetAccountSummary", "signin:ConsoleLogin")
    events[1] = replace(events[1], raw=json.dumps(login))
    new = {"iam:GetAccountSummary", "signin:ConsoleLogin"}
    first = (SurpriseDriver("action", "iam:GetAccountSummary", "", "unseen", 9.0),)
    title = title_of(facts(events, new, first), "123456789012:root")
    assert "called signin:ConsoleLogin without MFA and 1 other new action from" in title
    graver = facts([*called("cloudtrail:StopLogging"), events[1]], {"cloudtrail:StopLogging"})
    assert title_of(graver).endswith("; signed in without MFA")


def test_a_device_code_is_said_to_be_one() -> None:
    token = {
        "eventName": "CreateToken",
        "requestParameters": {"grantType": "urn:ietf:params:oauth:x:device_code"},
    }
    events = called("sso:ListAccounts", "sso-oauth:CreateToken")
    events[1] = replace(events[1], raw=json.dumps(token))
    assert title_of(facts(events, {"sso:ListAccounts"})).endswith("; signed in with a device code")
    refused = replace(events[1], raw=json.dumps(token | {"errorCode": "AuthorizationPendingException"}))
    assert "device" not in title_of(facts([events[0], refused], {"sso:ListAccounts"}))


def test_a_network_that_many_others_use_is_new_to_them_alone_and_a_stranger_one_leads() -> None:
    events = called("iam:ListUsers", "iam:ListUsers")
    networks = {"0": "62.28.0.0/16", "1": "139.59.0.0/16"}
    proxy = facts(events[:1], {"iam:ListUsers"}, new_networks={"0": networks["0"]}, usual_for_others={"0"})
    assert title_of(proxy).endswith("from 62.28.0.0/16 (new to it, usual for others)")
    both = facts(events, {"iam:ListUsers"}, new_networks=networks, usual_for_others={"0"})
    assert both.leading_row == 1
    assert title_of(both).endswith("from 139.59.0.0/16 (new network)")


def test_a_sign_in_without_a_second_factor_is_said_to_be_one() -> None:
    login = called("signin:ConsoleLogin")[0]
    for used, said in (
        ("No", "called signin:ConsoleLogin without MFA, new to it, from"),
        ("Yes", "Login, new"),
    ):
        record = {
            "eventName": "ConsoleLogin",
            "userIdentity": {"type": "Root"},
            "responseElements": {"ConsoleLogin": "Success"},
            "additionalEventData": {"MFAUsed": used},
        }
        some = facts([replace(login, raw=json.dumps(record))], {"signin:ConsoleLogin"})
        assert said in title_of(some, "123456789012:root")
    bare = facts([login], {"signin:ConsoleLogin"})
    assert "MFA" not in title_of(bare, "123456789012:root")


def test_what_a_principal_without_a_fingerprint_does_is_not_said_to_be_new_to_it() -> None:
    """It may have done it yesterday, and an alert have said so: it stays new until the next training."""
    some = facts(called("sns:GetTopicAttributes"), {"sns:GetTopicAttributes"})
    assert title_of(some) == "user/grace called sns:GetTopicAttributes, new to it, from 84.17.50.9"
    unlearned = replace(some, is_learned=False)
    assert (
        title_of(unlearned) == "user/grace called sns:GetTopicAttributes, not in its history, from 84.17.50.9"
    )


def test_of_a_principal_that_no_history_has_it_is_said_once_that_nothing_was_learned() -> None:
    """What is in no history was not learned; with some hours of it, that an action is not among them is news."""
    some = replace(facts(called("sso:Federate"), {"sso:Federate"}), is_learned=False)
    absent = replace(some, first_seen="not in the history; first seen in the same hour", in_history=False)
    assert title_of(absent) == (
        "user/grace called sso:Federate from 84.17.50.9; newcomer: not in the history; first seen in the same hour"
    )
    begun = replace(some, first_seen="first seen 22 hours before; the history has its first 9 hours")
    assert title_of(begun).startswith("user/grace called sso:Federate, not in its history, from")
    assert title_of(begun).endswith("its first 9 hours")


def test_beside_a_number_of_calls_that_succeeded_those_that_failed_are_more() -> None:
    """Calls that fail make no amount: "called 5 times; all failed" said of five that succeeded what was true of eight others."""
    amount = SurpriseDriver(
        "amount", amount_text(5, "s3:GetObject", "an hour"), "at most 3 in the history", "unseen", 15.5
    )
    some = called(*["s3:GetObject"] * 8, failed=("s3:GetObject",))
    counted = "called s3:GetObject 5 times in an hour (at most 3 in the history) from 84.17.50.9; "
    assert title_of(facts(some, set(), (amount,))) == f"user/grace {counted}8 more failed"
    beside = facts(some, set(), (amount,), supporting=called("s3:ListBuckets", *["s3:GetObject"] * 5))
    assert title_of(beside) == f"user/grace {counted}8 more failed, but s3:ListBuckets succeeded"
    all_own = [*(replace(each, error_code="") for each in some[:5]), *some[5:]]
    assert title_of(facts(all_own, set(), (amount,))) == (
        "user/grace called s3:GetObject 5 times in 4 minutes (at most 3 in an hour in the history) from 84.17.50.9; "
        "3 more failed"
    )


def test_beside_a_number_of_all_calls_a_title_says_of_how_many_shown_ones_failed() -> None:
    """Of 177 calls 3 are events; "2 failed" would read as 175 that succeeded."""
    amount = amount_of_unusual(177, "s3:GetObject", "at most 3 in the history")
    some = called(*["s3:GetObject"] * 3, failed=("s3:GetObject",))
    partly = [replace(some[0], error_code=""), *some[1:]]
    counted = (
        f"called s3:GetObject 177 times in an hour{ON_UNUSUAL} (at most 3 in the history) from 84.17.50.9; "
    )
    assert title_of(facts(partly, set(), (amount,))) == f"user/grace {counted}2 of the 3 shown failed"
    assert title_of(facts(some, set(), (amount,))) == f"user/grace {counted}3 of the 3 shown failed"
    assert title_of(facts(partly, set())).endswith("; 2 failed")
    beside = facts(some, set(), (amount,), supporting=called("s3:ListBuckets"))
    assert title_of(beside).endswith("; 3 of the 4 shown failed, but s3:ListBuckets succeeded")


def test_counted_calls_were_only_tried_where_all_of_them_are_known_to_have_failed() -> None:
    amount = amount_of_unusual(3, "s3:GetObject", "at most 1 in the history")
    some = called(*["s3:GetObject"] * 3, failed=("s3:GetObject",))
    assert title_of(facts(some, set(), (amount,))) == (
        f"user/grace tried s3:GetObject 3 times in 2 minutes{ON_UNUSUAL} (at most 1 in an hour in the history) from "
        "84.17.50.9; all failed"
    )
    more = amount_of_unusual(4, "s3:GetObject", "at most 1 in the history")
    said = f"s3:GetObject 4 times in an hour{ON_UNUSUAL} (at most 1 in the history) from 84.17.50.9"
    assert title_of(facts(some, set(), (more,))) == f"user/grace called {said}; 3 of the 3 shown failed"
    beside = facts(some, set(), (more,), supporting=called("s3:GetObject", failed=("s3:GetObject",)))
    assert title_of(beside) == f"user/grace tried {said}; 4 of the 4 shown failed"
    assert "called s3:GetObject 4 times" in title_of(replace(beside, supporting=called("s3:GetObject")))


ON_UNUSUAL = " on resources unusual for it"


def amount_of_unusual(calls: int, action: str, usual: str) -> SurpriseDriver:
    """Return an amount of calls on unusual resources: alone of these those that failed are counted, too."""
    return SurpriseDriver(
        "amount", amount_text(calls, action, "an hour on unusual resources"), usual, "unseen", 15.5
    )


def test_of_the_shown_calls_that_failed_those_that_support_an_alert_are_counted_as_well() -> None:
    """A thief tries fourteen roles: what failed is strange enough to be the alert, what succeeded mostly supports it."""
    name = "sts:AssumeRole"
    amount = amount_of_unusual(14, name, "none in the history")
    own = called(*[name] * 8, failed=(name,))
    own[0] = replace(own[0], error_code="")
    some = facts(own, {name}, (amount,), supporting=called(*[name] * 6))
    assert title_of(some).endswith("; 7 of the 14 shown failed")
    denied = replace(some, supporting=called(*[name] * 6, failed=(name,)))
    assert title_of(denied).endswith("; 13 of the 14 shown failed")


def test_a_new_action_counts_the_calls_of_the_alert_on_whatever_they_were_made() -> None:
    """Two of eight secrets were those that no one of the organisation reads, and the title said two calls."""
    name = "secretsmanager:GetSecretValue"
    seen = amount_text(2, name, "an hour on unusual resources")
    amount = SurpriseDriver("amount", seen, "none in the history", "unseen", 3.9, 2)
    some = facts(called(*[name] * 8), {name}, (amount,))
    assert f"called {name} 8 times in 7 minutes, new to it, from" in title_of(some)
    start = some.events[0].event_time
    days = [replace(each, event_time=start + n * timedelta(hours=1)) for n, each in enumerate(some.events)]
    unusual = f"called {name} 2 times in an hour on resources unusual for it, new to it, from"
    assert unusual in title_of(replace(some, events=days)), "eight in an hour would be too many"
    assert unusual in title_of(facts(called(name), {name}, (amount,))), "not all calls are events"
    assert (
        "called s3:GetObject 2 times in an hour on resources unusual for it (none in the history) from"
        in title_of(
            facts(
                called(*["s3:GetObject"] * 8),
                set(),
                (replace(amount, seen=amount_text(2, "s3:GetObject", "an hour on unusual resources")),),
            )
        )
    )


def test_bulk_is_told_by_the_number_of_calls_where_that_drives_the_alert() -> None:
    """Few of the calls are events: those that came after the amount had become strange."""
    seen = amount_text(2006, "s3:GetObject", "an hour")
    amount = SurpriseDriver("amount", seen, "at most 11 in the history", "unseen", 15.5, 240)
    some = facts(called("s3:GetObject", "s3:HeadObject"), set(), (amount,))
    assert title_of(some) == (
        "user/grace called s3:GetObject 2,006 times in an hour (at most 11 in the history) and 1 other action from 84.17.50.9"
    )
    assert "called s3:GetObject 2,006 times in an hour, new to it, from" in title_of(
        facts(called("s3:GetObject"), {"s3:GetObject"}, (amount,))
    )
    for other in (
        replace(amount, rarity="rare"),
        replace(amount, seen=amount_text(9, "s3:GetObjectAcl", "an hour")),
    ):
        assert "times" not in title_of(facts(called("s3:GetObject"), set(), (other,)))


def test_a_bulk_of_a_usual_action_leads_where_no_call_can_do_harm_and_is_told_beside_one_that_can() -> None:
    """As of a thief who lists a bucket once and downloads all of it."""
    seen = amount_text(398, "s3:GetObject", "an hour")
    amount = SurpriseDriver("amount", seen, "at most 16 in the history", "unseen", 8.1, 397)
    listing = SurpriseDriver("action", "s3:ListObjects", "s3:GetObject", "unseen", 10.0, 4)
    bulk = "s3:GetObject 398 times in an hour (at most 16 in the history)"
    some = facts(called("s3:ListObjects", "s3:GetObject"), {"s3:ListObjects"}, (listing, amount))
    assert title_of(some) == f"user/grace called {bulk} and s3:ListObjects, new to it, from 84.17.50.9"
    assert questioned(some) == f"{bulk} and s3:ListObjects, new to it, from 84.17.50.9"
    several = facts(
        called("s3:ListObjects", "s3:GetObject", "s3:ListBuckets"),
        {"s3:ListObjects", "s3:ListBuckets"},
        (listing, amount),
    )
    assert title_of(several) == f"user/grace called {bulk} and 2 new actions from 84.17.50.9"
    harmful = facts(called("s3:PutBucketLogging", "s3:GetObject"), {"s3:PutBucketLogging"}, (amount,))
    assert title_of(harmful) == (
        f"user/grace called s3:PutBucketLogging, new to it, from 84.17.50.9; also {bulk}"
    )


def taking(*names: str, new: tuple[str, ...] = (), bulk: tuple[str, ...] = ("s3:GetObject",)) -> TitleFacts:
    """Return an alert in which 398 objects were downloaded, more than ever, beside some calls."""
    seen = amount_text(398, "s3:GetObject", "an hour")
    amount = SurpriseDriver("amount", seen, "at most 16 in the history", "unseen", 8.1, 1)
    events = called(*names, "s3:GetObject")
    actions = impact.alert_impact(events, new, (), in_bulk=dict.fromkeys(bulk, ""))
    return replace(facts(events, {*new}, (amount,)), actions=actions)


def test_data_that_were_taken_stand_beside_a_severe_call_and_lead_where_nothing_else_counts() -> None:
    """Who took data and then made a key was said to have made a key alone."""
    bulk = "s3:GetObject 398 times in an hour (at most 16 in the history)"
    made = taking("iam:CreateAccessKey", new=("iam:CreateAccessKey",))
    assert title_of(made) == f"user/grace called iam:CreateAccessKey, new to it, from 84.17.50.9; also {bulk}"
    read = taking("secretsmanager:GetSecretValue", new=("secretsmanager:GetSecretValue",))
    assert title_of(read).endswith(
        f"called secretsmanager:GetSecretValue, new to it, from 84.17.50.9; also {bulk}"
    )
    known = taking("secretsmanager:GetSecretValue", bulk=("s3:GetObject", "secretsmanager:GetSecretValue"))
    assert " called secretsmanager:GetSecretValue and 1 other" in title_of(known), "secrets lead before data"
    assert title_of(taking("sqs:TagQueue")) == f"user/grace called {bulk} and 1 other action from 84.17.50.9"


def test_what_a_bulk_hides_is_still_named() -> None:
    """A severe read leads no less than a usual one, and a grave supporting call stands beside it."""
    name = "s3:PutBucketReplication"
    support = called(name)
    some = replace(taking(), supporting=support, supporting_actions=impact.alert_impact(support, {name}, ()))
    assert title_of(some).endswith(f"from 84.17.50.9; also {name}")


def test_what_was_taken_leads_before_a_graver_call_that_failed() -> None:
    """A scanner's role took the code of four functions, and the title led with a secret that it was denied."""
    name = "secretsmanager:GetSecretValue"
    read = taking(name, new=(name,))
    events = [replace(read.events[0], error_code="AccessDenied"), *read.events[1:]]
    actions = impact.alert_impact(events, {name}, (), in_bulk={"s3:GetObject": ""})
    assert title_of(replace(read, events=events, actions=actions)) == (
        f"user/grace called s3:GetObject 398 times in an hour (at most 16 in the history) and {name}, new to it, "
        f"from 84.17.50.9; 1 more failed ({name})"
    )
    assert title_of(read).startswith(f"user/grace called {name}")


def test_what_a_newcomer_took_leads_with_its_number() -> None:
    """No amount is usual of a newcomer: 105 downloads stood behind one listing."""
    listing = SurpriseDriver("action", "s3:ListObjects", "", "unseen", 10.0, 1)
    events = called("s3:ListObjects", *["s3:GetObject"] * 20)
    events = [replace(each, resource="bucket:lake") for each in events]
    some = facts(events, {"s3:ListObjects", "s3:GetObject"}, (listing,), is_learned=False)
    assert title_of(some) == (
        "user/grace called s3:GetObject on bucket:lake 20 times, and 1 other action, not in its history, from 84.17.50.9"
    )
    assert "called s3:ListObjects" in title_of(replace(some, events=events[:-1])), "19 are no bulk"
    assert "called s3:ListObjects" in title_of(replace(some, is_learned=True))
    looked = [replace(each, action="HeadObject") if each.action == "GetObject" else each for each in events]
    assert "times" not in title_of(
        facts(looked, {"s3:ListObjects", "s3:HeadObject"}, (listing,), is_learned=False)
    )


def test_a_count_of_other_actions_stands_apart_from_a_count_of_calls_or_resources() -> None:
    """ "on bucket:b0 and 2 others, 33 times in an hour and 4 other new actions" was read twice."""
    amount = SurpriseDriver(
        "amount", amount_text(3, "s3:PutObject", "an hour"), "none in the history", "unseen", 4.9, 3
    )
    written = [
        replace(each, resource=f"bucket:b{at}") for at, each in enumerate(called(*["s3:PutObject"] * 3))
    ]
    others = [replace(each, event_id=each.action) for each in called("ec2:CreateTags", "iam:ListUsers")]
    new = {"s3:PutObject", "ec2:CreateTags", "iam:ListUsers"}
    some = facts([*written, *others], new, (amount,))
    assert some.lead[0] == "s3:PutObject"
    assert title_of(some).startswith(
        "user/grace called s3:PutObject on bucket:b0 and 2 others, 3 times in 2 minutes, and 2 other new actions from"
    )
    roles = [
        replace(each, resource=f"role:r{at}") for at, each in enumerate(called(*["iam:AttachRolePolicy"] * 2))
    ]
    both = facts([*roles, others[1]], {"iam:AttachRolePolicy", "iam:ListUsers"})
    assert " on role:r0 and 1 other, and 1 other new action from" in title_of(both)
    one = facts([roles[0], others[1]], {"iam:AttachRolePolicy", "iam:ListUsers"})
    assert " on role:r0 and 1 other new action from" in title_of(one)


def test_a_bulk_of_minutes_is_not_said_to_have_taken_a_day() -> None:
    amount = SurpriseDriver(
        "amount", amount_text(60, "s3:CopyObject", "a day"), "none in the history", "unseen", 4.9, 60
    )
    copies = called(*["s3:CopyObject"] * 60)
    start = copies[0].event_time
    quick = [replace(each, event_time=start + n * timedelta(seconds=1.25)) for n, each in enumerate(copies)]
    assert "called s3:CopyObject 60 times in 2 minutes, new to it, from" in title_of(
        facts(quick, {"s3:CopyObject"}, (amount,))
    )
    assert "60 times in 2 minutes (none in a day in the history) from" in title_of(
        facts(quick, set(), (amount,))
    )
    at_once = [replace(each, event_time=start) for each in copies]
    slow = [replace(each, event_time=start + n * timedelta(minutes=9)) for n, each in enumerate(copies)]
    for events in (slow, quick[:-1], at_once):
        assert "60 times in a day" in title_of(facts(events, {"s3:CopyObject"}, (amount,)))


def test_what_a_person_did_at_another_role_is_new_at_this_one() -> None:
    """In one organisation of people at several roles a third of what was called new to them was known of them."""
    program = SurpriseDriver("program", "Boto3 macos", "Chrome mac os", "unseen", 7.5, 3)
    events = called("kms:ListKeys", "kms:DescribeKey", "kms:DisableKey")
    names = [each.action_name for each in events]
    some = facts(events[:1], {*names[:1]}, (NETWORK, program), programs=["Boto3 macos"])
    some = replace(some, networks_elsewhere={"0"}, actions_elsewhere={*names[:1]})
    some = replace(some, tools_elsewhere={"Boto3 macos"})
    assert title_of(some, "1:role/Support/ann", "ann@example.com") == (
        "ann@example.com called kms:ListKeys, new at this role, from 139.59.0.0/16 (new at this role), "
        "tool Boto3 macos (new at this role)"
    )
    assert "(new at this role), tool Boto3 macos (new at this role)" in questioned(some)
    assert ", not in" not in title_of(replace(some, is_learned=False))
    two = replace(facts(events[:2], {*names[:2]}), actions_elsewhere={*names[:2]})
    assert "called kms:ListKeys and 1 other action new at this role from" in title_of(two)
    for known, said in (
        (names[1:2], "kms:DisableKey and 1 other new action from"),
        (names[:2], "kms:DisableKey, new to it, from"),
        (names[2:], "kms:DisableKey and 2 new actions from"),
        (names[1:], "kms:DisableKey and kms:ListKeys, new to it, from"),
    ):
        title = title_of(replace(facts(events, {*names}), actions_elsewhere={*known}))
        assert title == f"user/grace called {said} 84.17.50.9"
    reads = replace(facts(events[:2], {*names[:2]}), actions_elsewhere={*names[:1]})
    assert title_of(reads).startswith("user/grace called kms:DescribeKey, new to it,"), "which is new to them"
    signed_in = replace(some, here=new_at("1:federated/x=/ann@example.com"))
    assert "139.59.0.0/16 (new at this provider)" in title_of(signed_in)
    assert new_at("1:role/Support/ann") == some.here


def test_the_role_at_which_something_is_new_is_named_where_a_resource_stands_before() -> None:
    """ "iam:UpdateAssumeRolePolicy on role:app, new at this role" was read as new at that role."""
    trust = "iam:UpdateAssumeRolePolicy"
    made = [replace(each, resource="role:app") for each in called(trust, "iam:ListRoles")]
    sso = "1:role/AWSReservedSSO_PlatformAdmin_0123456789abcdef/ann@example.com"
    one = facts(made[:1], {trust}, (NETWORK,), actions_elsewhere={trust}, networks_elsewhere={"0"})
    assert title_of(one, sso, "ann@example.com") == (
        "ann@example.com called iam:UpdateAssumeRolePolicy on role:app, new to them at PlatformAdmin, "
        "from 139.59.0.0/16 (new at PlatformAdmin)"
    )
    two = facts(made, {trust, "iam:ListRoles"}, actions_elsewhere={trust, "iam:ListRoles"})
    assert " on role:app and 1 other action new at PlatformAdmin from" in title_of(
        two, sso, "ann@example.com"
    )
    put = facts(called("s3:PutObject"), {"s3:PutObject"}, actions_elsewhere={"s3:PutObject"})
    rows = [
        replace(each, effect="encrypts stored data with a key of another account") for each in put.actions
    ]
    assert "(with a key of another account), new to them at PlatformAdmin," in title_of(
        replace(put, actions=rows), sso, "ann@example.com"
    )
    at_provider = replace(one, here=new_at("1:federated/x=/ann@example.com"))
    assert " on role:app, new at this provider, " in title_of(at_provider, "1:federated/x=/ann@example.com")
    assert len(title_of(one, f"1:role/{'R' * 300}/ann@example.com", "ann@example.com")) < 240


def test_a_network_that_is_new_to_a_person_leads_before_one_that_is_new_at_this_role() -> None:
    networks = {"0": "139.59.0.0/16", "1": "86.40.0.0/16"}
    some = facts(called("iam:ListUsers", "iam:ListUsers"), set(), new_networks=networks)
    assert " from 139.59.0.0/16 (new network)" in title_of(some)
    assert " from 86.40.0.0/16 (new network)" in title_of(replace(some, networks_elsewhere={"0"}))


@pytest.mark.parametrize(
    ("human", "them", "their"),
    [
        ("ann@example.com", "them", "their"),
        ("ann.lee", "them", "their"),
        ("i-0ab12cd34ef56ab78", "it", "its"),
        ("", "it", "its"),
    ],
)
def test_what_is_new_to_a_role_or_a_machine_is_new_to_it(human: str, them: str, their: str) -> None:
    some = facts(called("iam:ListUsers"), {"iam:ListUsers"}, humans=[human])
    assert f"iam:ListUsers, new to {them}, from" in title_of(some, "123456789012:role/Media")
    unlearned = replace(some, is_learned=False)
    assert f", not in {their} history, from" in title_of(unlearned, "123456789012:role/Media")
    proxy = replace(some, new_networks={"0": "62.28.0.0/16"}, usual_for_others={"0"})
    assert title_of(proxy, "123456789012:role/Media").endswith(f"(new to {them}, usual for others)")


def test_of_a_newcomer_no_action_is_called_new() -> None:
    names = ("s3:GetBucketPolicy", "ec2:DescribeInstances", "ec2:DescribeVolumes")
    some = replace(facts(called(*names), set(names)), is_learned=False)
    assert "called s3:GetBucketPolicy and 2 other actions, not in its history, from" in title_of(some)


def test_all_failed_is_said_only_where_nothing_that_supports_the_alert_succeeded() -> None:
    names = ("sts:AssumeRole", "iam:ListRoles")
    some = facts(called(*names, failed=names), set(names))
    assert title_of(some).endswith("; all failed")
    denied = called("s3:ListBuckets", failed=("s3:ListBuckets",))
    assert title_of(replace(some, supporting=denied)).endswith("; all failed")
    done = called("s3:ListBuckets", "secretsmanager:GetSecretValue", "s3:ListBuckets")
    actions = impact.alert_impact(done, {"secretsmanager:GetSecretValue"}, ())
    title = title_of(replace(some, supporting=[*denied, *done], supporting_actions=actions))
    assert title.endswith("; failed, but secretsmanager:GetSecretValue and 1 other action succeeded")
    partly = facts(called(*names, failed=names[:1]), set(names), supporting=done)
    assert title_of(partly).endswith("; 1 failed"), "that others succeeded is no news"


def test_a_read_of_data_that_is_new_is_named_where_all_that_was_tried_failed() -> None:
    """A scanner was denied a secret, and read objects, which it never did."""
    name = "secretsmanager:GetSecretValue"
    tried = facts(called(name, failed=(name,)), {name})
    done = called("s3:ListObjects", "s3:GetObject", "s3:GetObject")
    some = replace(tried, supporting=done)
    assert title_of(some).endswith("; failed, but s3:ListObjects and 1 other action succeeded")
    some = replace(some, supporting_new={"s3:GetObject", "s3:ListObjects"})
    assert title_of(some).endswith("; failed, but s3:GetObject (new to it) and 1 other action succeeded")
    denied = [replace(each, error_code="AccessDenied") for each in done if each.action == "GetObject"]
    assert "GetObject" not in title_of(replace(some, supporting=[done[0], *denied])).partition("; failed")[2]


def test_a_new_read_of_data_that_supports_an_alert_is_named_beside_a_list() -> None:
    listed = facts(called("s3:ListObjects"), {"s3:ListObjects"})
    read = called(*["s3:GetObject"] * 7)
    some = replace(listed, supporting=read, supporting_new={"s3:GetObject"})
    before = "user/grace called s3:ListObjects, new to it, from 84.17.50.9"
    assert title_of(some) == f"{before}; also s3:GetObject 7 times, new to it"
    assert title_of(replace(some, supporting_new=set())) == before, "it reads them every day"
    logs = called("logs:GetLogEvents")
    assert title_of(replace(some, supporting=logs, supporting_new={"logs:GetLogEvents"})) == before
    severe = facts(called("iam:CreateUser"), {"iam:CreateUser"})
    assert "also" not in title_of(replace(severe, supporting=read, supporting_new={"s3:GetObject"}))


def test_of_a_call_that_failed_while_others_of_it_succeeded_both_are_said() -> None:
    failed = called("sts:AssumeRole", "sts:AssumeRole", failed=("sts:AssumeRole",))
    some = facts(failed, {"sts:AssumeRole"}, supporting=called("sts:AssumeRole"))
    tried = "user/grace tried sts:AssumeRole, new to it, from 84.17.50.9; failed, but"
    assert title_of(some) == f"{tried} other calls of it succeeded"
    beside = called("sts:AssumeRole", "s3:ListBuckets", "s3:GetObject")
    more = replace(some, supporting=beside)
    assert title_of(more) == f"{tried} other calls of it and 2 other actions succeeded"
    secret = called("sts:AssumeRole", "secretsmanager:GetSecretValue", "s3:GetObject")
    actions = impact.alert_impact(secret[1:], {"secretsmanager:GetSecretValue"}, ())
    read = replace(some, supporting=secret, supporting_actions=actions)
    assert title_of(read) == (
        f"{tried} other calls of it, secretsmanager:GetSecretValue and 1 other action succeeded"
    ), "not those of the secret"
    [elsewhere] = (replace(each, source_address="10.9.8.7") for each in called("sts:AssumeRole"))
    assert title_of(replace(some, supporting=[elsewhere])) == (
        "user/grace tried sts:AssumeRole, new to it, from 84.17.50.9; failed, but sts:AssumeRole from elsewhere succeeded"
    ), "another's success is none of the leading call's"


def test_the_title_names_what_a_call_succeeded_on_beside_those_of_it_that_failed() -> None:
    [failed] = called("sts:AssumeRole", failed=("sts:AssumeRole",))
    failed = replace(failed, resource="role:vendor")
    usual, strange = (
        replace(each, resource=name, scores={"autoencoder": z, "spectral": None})
        for each, name, z in zip(
            called(*["sts:AssumeRole"] * 2), ("role:tenant-a", "role:broker-admin"), (2.0, 4.0), strict=True
        )
    )
    some = facts([failed], {"sts:AssumeRole"}, supporting=[usual, strange])
    assert title_of(some).endswith(
        "; failed, but other calls of it on role:broker-admin and 1 other succeeded"
    )
    throttled = replace(some, events=[replace(failed, error_code="ThrottlingException")])
    assert title_of(throttled).endswith("; throttled, but other calls of it succeeded"), (
        "which was sent again"
    )
    same = replace(some, supporting=[replace(strange, resource="role:vendor")])
    assert title_of(same).endswith("; failed, but other calls of it succeeded")
    amount = amount_of_unusual(9, "sts:AssumeRole", "at most 1 in the history")
    assert title_of(replace(some, drivers=(amount,))).endswith(
        "; 1 of the 3 shown failed, but other calls of it on role:broker-admin and 1 other succeeded"
    )
    listed = called("iam:ListRoles", "iam:ListRoles")[1]
    mixed = facts([failed, listed], {"sts:AssumeRole"}, supporting=[strange])
    assert "; 1 failed" in title_of(mixed)
    assert title_of(mixed).endswith(", but sts:AssumeRole on role:broker-admin succeeded")


def test_a_title_hides_no_success_of_its_leading_action_beside_what_else_succeeded() -> None:
    """Who stopped the audit log was said to have tried to, and was refused before on the same trail."""
    stop, deletion = "cloudtrail:StopLogging", "s3:DeleteBucket"
    own = called(stop, deletion, failed=(stop,))
    tried = "user/grace tried cloudtrail:StopLogging and 1 other new action from 84.17.50.9; 1"
    done = facts(own, {stop, deletion}, supporting=called(stop))
    assert title_of(done) == f"{tried} failed, but other calls of cloudtrail:StopLogging succeeded"
    throttled = [replace(own[0], error_code="ThrottlingException"), own[1]]
    assert title_of(replace(done, events=throttled)) == (
        f"{tried} throttled, but other calls of cloudtrail:StopLogging succeeded"
    )
    refused = replace(done, supporting=called(stop, failed=(stop,)))
    assert title_of(refused) == (
        "user/grace called s3:DeleteBucket and 1 other new action from 84.17.50.9; 1 failed (cloudtrail:StopLogging)"
    )


def test_only_what_succeeded_at_the_place_in_the_title_is_an_other_call_of_its_action() -> None:
    """What a person does every day at home did not succeed from the network that is new for them."""
    stop, deletion = "cloudtrail:StopLogging", "s3:DeleteBucket"
    strange, other, home, deleted = called(stop, stop, stop, deletion, failed=(stop,))
    other = replace(other, source_address="84.17.50.10")
    home = replace(home, source_address="10.9.8.7")
    networks = {each.event_id: "84.17.0.0/16" for each in (strange, other, deleted)}
    own, [done] = [strange, other, home], called(stop)
    at_home, there = replace(done, source_address="10.9.8.7"), replace(done, source_address="84.17.50.10")
    tried = facts(own, {stop}, supporting=[at_home], new_networks=networks)
    assert title_of(tried).endswith("; failed, but cloudtrail:StopLogging from elsewhere succeeded")
    assert title_of(replace(tried, supporting=[there])).endswith("; failed, but other calls of it succeeded")
    some = facts([*own, deleted], {stop, deletion}, supporting=[at_home], new_networks=networks)
    assert some.lead == (deletion, False)
    assert replace(some, supporting=[there]).lead == (stop, True)


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        (("ThrottlingException", "", ""), "; 1 throttled"),
        (("ThrottlingException", "AccessDenied", ""), "; 1 failed, 1 throttled"),
        (("SlowDown", "ThrottlingException"), "; all throttled"),
        (("SlowDown",), "; throttled"),
        (("Client.DryRunOperation", ""), "; 1 allowed in a dry run"),
        (("AccessDenied", "DryRunOperation", "SlowDown"), "; 1 failed, 1 throttled, 1 allowed in a dry run"),
        (("SlowDown", "AccessDenied", "AccessDenied"), "; 2 failed, 1 throttled"),
    ],
)
def test_a_call_that_was_throttled_did_not_fail(errors: tuple[str, ...], said: str) -> None:
    """An SDK that is turned away for its rate sends the call again; that is no attempt at what is forbidden."""
    events = [
        replace(each, error_code=error)
        for each, error in zip(called(*["iam:ListUsers"] * len(errors)), errors, strict=True)
    ]
    assert title_of(facts(events, set())).endswith(f" from 84.17.50.9{said}")
    amount = amount_of_unusual(9, "iam:ListUsers", "at most 1 in the history")
    counted = said.removeprefix("; ").replace("all ", "")
    first = counted if counted[0].isdigit() else f"{len(errors)} {counted}"
    of_shown = first.replace(" ", f" of the {len(errors)} shown ", 1)
    assert title_of(facts(events, set(), (amount,))).endswith(f"; {of_shown}")


def test_of_one_call_that_failed_not_all_failed() -> None:
    assert title_of(facts(called("iam:ListRoles", failed=("iam:ListRoles",)), set())) == (
        "user/grace tried iam:ListRoles from 84.17.50.9; failed"
    )


def test_a_grave_supporting_call_is_named_where_the_leading_one_is_no_graver() -> None:
    """A lifecycle rule is the alert, and the objects that went in the same minutes only support it."""
    rule = facts(called("s3:PutBucketLifecycle"), {"s3:PutBucketLifecycle"})
    deleted = called(*["s3:DeleteObject"] * impact.MANY_DELETIONS)

    def beside(own: TitleFacts, supporting: list[AlertEvent]) -> str:
        new = {each.action_name for each in supporting}
        rows = impact.alert_impact(supporting, new, ())
        return title_of(replace(own, supporting=supporting, supporting_actions=rows))

    assert beside(rule, deleted) == (
        "user/grace called s3:PutBucketLifecycle, new to it, from 84.17.50.9; also s3:DeleteObject"
    )
    assert "also" not in beside(rule, deleted[:3]), "a few deletions are notable"
    assert "also" not in beside(rule, [replace(each, error_code="AccessDenied") for each in deleted])
    assert "also" not in beside(rule, called("s3:PutBucketLifecycle"))
    secrets = called(*["secretsmanager:GetSecretValue"] * 5)
    listed = facts(called("secretsmanager:ListSecrets"), {"secretsmanager:ListSecrets"})
    assert beside(listed, secrets) == (
        "user/grace called secretsmanager:ListSecrets, new to it, from 84.17.50.9; also secretsmanager:GetSecretValue"
    ), "the list of secrets is the alert, and that they were read only supports it"
    known = impact.alert_impact(secrets, set(), {each.event_id for each in secrets})
    assert "also" not in title_of(replace(listed, supporting=secrets, supporting_actions=known))
    assert "also" not in beside(facts(called("iam:CreateRole"), {"iam:CreateRole"}), secrets), "as grave"
    severe = facts(called("iam:CreateUser"), {"iam:CreateUser"})
    assert "also" not in beside(severe, called("iam:CreateAccessKey")), "it is urgent anyway"
    elsewhere = [replace(each, source_address="45.141.3.4") for each in called("iam:CreateUser")]
    assert beside(facts(called("iam:ListUsers"), set()), elsewhere).endswith("; also iam:CreateUser")


def test_a_graver_supporting_call_from_the_same_place_stands_before_the_leading_one() -> None:
    """Three training jobs on GPUs made the harm; that their list was called for the first time made the alert."""
    raw = json.dumps({"requestParameters": {"resourceConfig": {"instanceType": "ml.g5.48xlarge"}}})
    job = "sagemaker:CreateTrainingJob"
    jobs = [replace(each, raw=raw, region="us-west-2") for each in called(job, job, job)]
    [listed] = called("sagemaker:ListTrainingJobs")
    listed = replace(listed, region="us-west-2")
    own = facts([listed], {listed.action_name}, new_regions={listed.event_id: "us-west-2"})
    rows = impact.alert_impact(jobs, (), (), new_requests={each.event_id for each in jobs})
    some = replace(own, supporting=jobs, supporting_actions=rows)
    assert title_of(some) == (
        "user/grace called sagemaker:CreateTrainingJob (for machines that cost much) 3 times and "
        "sagemaker:ListTrainingJobs, new to it, from 84.17.50.9 in us-west-2 (new region)"
    )
    for strange in (
        {"region": "eu-central-1"},
        {"source_address": "45.141.3.4"},
        {"session": "another"},
        {"error_code": "AccessDenied"},
    ):
        others = [replace(each, **strange) for each in jobs]
        assert title_of(replace(some, supporting=others)).endswith("; also sagemaker:CreateTrainingJob")
    several = facts([listed, *called("iam:ListUsers")], {listed.action_name, "iam:ListUsers"})
    assert title_of(replace(several, supporting=jobs, supporting_actions=rows)).startswith(
        "user/grace called sagemaker:CreateTrainingJob (for machines that cost much) 3 times, "
        "sagemaker:ListTrainingJobs and 1 other new action from "
    )


def test_a_usual_grave_call_leads_only_where_its_network_is_new() -> None:
    events = called("iam:ListUsers", "cloudtrail:StopLogging")
    assert "called iam:ListUsers and 1 other action" in title_of(facts(events, set()))
    assert "called cloudtrail:StopLogging and 1 other action from 139.59.0.0/16 (new" in title_of(
        facts(events, set(), (NETWORK,))
    )


def test_without_a_grave_call_the_most_surprising_new_one_leads() -> None:
    drivers = (SurpriseDriver("action", "ses:GetSendQuota", "s3:GetObject", "unseen", 9.0, 1),)
    events = called("iam:ListUsers", "ses:GetSendQuota")
    title = title_of(facts(events, {"iam:ListUsers", "ses:GetSendQuota"}, drivers))
    assert "called ses:GetSendQuota and 1 other new action from" in title


def test_what_succeeded_leads_before_a_call_that_was_turned_away() -> None:
    drivers = (SurpriseDriver("action", "glue:SearchTables", "glue:GetTable", "unseen", 9.0, 1),)
    events = called("glue:SearchTables", "iam:ListUsers", "s3:GetObject")
    throttled = [replace(events[0], error_code="ThrottlingException"), *events[1:]]
    new = {"glue:SearchTables", "s3:GetObject"}
    assert "called s3:GetObject and 1 other new action from" in title_of(facts(throttled, new, drivers))
    assert "called iam:ListUsers and 2 other actions from" in title_of(facts(throttled, set()))
    denied = [replace(events[0], error_code="AccessDenied"), *events[1:]]
    assert "called glue:SearchTables and 1 other new action from" in title_of(facts(events, new, drivers))
    assert "called s3:GetObject and 1 other new action from" in title_of(facts(denied, new, drivers))
    failed = facts(denied, {"glue:SearchTables"}, drivers)
    assert "tried glue:SearchTables, new to it, from" in title_of(failed), "no new call succeeded"
    alone = facts(throttled[:2], {"glue:SearchTables"}, drivers)
    assert "tried glue:SearchTables, new to it, from" in title_of(alone), "the other is none that is new"


def test_a_newcomer_a_new_tool_and_a_late_delivery_are_named() -> None:
    tool = SurpriseDriver("program", "Terraform", "Boto3", "unseen", 5.0, 1)
    some = facts(
        called("iam:ListUsers"),
        set(),
        (tool,),
        first_seen="first seen 3 hours before; the history has its first 2 hours",
    )
    some = replace(some, late_days=8)
    stronger = replace(some, programs=["Boto3"], drivers=(tool, NETWORK))
    assert "new tool" not in title_of(stronger), "another call's"
    some = replace(some, programs=["Terraform"])
    title = title_of(some)
    assert title == (
        "user/grace called iam:ListUsers from 84.17.50.9, new tool Terraform; delivered 8 days late; newcomer: "
        "first seen 3 hours before; the history has its first 2 hours"
    ), "whatever is said about who called stands behind what was called"
    forwarded = [replace(each, source_address="ec2.amazonaws.com") for each in some.events]
    service = replace(tool, seen="ec2.amazonaws.com")
    some = replace(some, events=forwarded, drivers=(service,), programs=["ec2.amazonaws.com"])
    assert "new tool" not in title_of(some), "a service that calls for someone"


@pytest.mark.parametrize(
    ("feature", "seen", "expected", "rarity", "beside", "said"),
    [
        ("program", "Terraform", "Boto3", "unseen", 9.9, "; 1 with new tool Terraform"),
        ("program", "Terraform", "Boto3", "rare", 9.9, "; 1 with Terraform (rare here)"),
        ("program", "Terraform", "Terraform", "frequent", 9.9, "; 1 with Terraform (unusual in such calls)"),
        ("program", "Terraform", "Boto3", "unseen", 10.1, ""),  # the network says more
        ("program version", "Boto3 1.40", "Boto3 1.34, aws-cli 2.1", "unseen", 5.0, ""),  # an upgrade
        (
            "program version",
            "Boto3 1.40",
            "aws-cli 2.1, Boto3 1.34",
            "unseen",
            4.9,
            "; 1 with new version Boto3 1.40",
        ),
        (
            "program version",
            "Boto3 2.0",
            "Boto3 1.34",
            "unseen",
            9.9,
            "; 1 with new version Boto3 2.0",
        ),
        ("program version", "Chrome 137.0", "Chrome 136.0, Boto3 1.34", "unseen", 5.0, ""),  # a browser's
        (
            "program version",
            "Chrome 137.0",
            "Chrome 136.0",
            "unseen",
            4.9,
            "; 1 with new version Chrome 137.0",
        ),
        (
            "program version",
            "Chrome 135.0",
            "Chrome 136.0",
            "unseen",
            9.9,
            "; 1 with new version Chrome 135.0",
        ),
        (
            "program version",
            "Chrome 137.0",
            "Firefox 136.0",
            "unseen",
            9.9,
            "; 1 with new version Chrome 137.0",
        ),
        ("program version", "Boto3 2", "Boto3 2.1", "unseen", 9.9, ""),
        ("program version", "Chrome ²", "Chrome 1", "unseen", 9.9, "; 1 with new version Chrome ²"),
        (
            "program version",
            f"Chrome {'9' * 5000}",  # as a number, more digits than Python reads
            "Chrome 1",
            "unseen",
            9.9,
            f"; 1 with new version Chrome {'9' * 72}…",
        ),
        ("program version", "Boto3", "Boto3 1.34", "rare", 9.9, "; 1 with Boto3 (rare here)"),
    ],
)
def test_a_tool_that_surprises_most_is_named_unless_it_is_an_upgrade_beside_something_as_strange(
    feature: str, seen: str, expected: str, rarity: Rarity, beside: float, said: str
) -> None:
    """Whichever call it made."""
    tool = SurpriseDriver(feature, seen, expected, rarity, 9.9)
    network = replace(NETWORK, surprise=beside)
    some = facts(
        called("iam:ListUsers", "iam:ListUsers"), set(), (network, tool), programs=["Boto3", "Boto3"]
    )
    assert title_of(some).endswith(f"from 139.59.0.0/16 (new network){said}")
    after = SurpriseDriver("next action", "iam:ListUsers after iam:ListUsers", "", "unseen", 20.0)
    assert title_of(replace(some, drivers=(after, network, tool))) == title_of(some), "another detector's"
    every = replace(some, drivers=(network, replace(tool, events=2)))
    assert title_of(every).endswith(f"(new network){said.replace('; 1', ',')}")
    stranger = title_of(replace(some, is_learned=False, in_history=False))
    assert stranger.endswith(f"(new network){said}")
    at_role = title_of(replace(some, tools_elsewhere={seen}))
    assert at_role.endswith(re.sub(r" new (tool|version) (.*)", r" \1 \2 (new at this role)", said))


def test_an_upgrade_that_explains_the_new_calls_is_named() -> None:
    """Terraform 1.11 brings four new reads: without it the title reads as an alert about them."""
    names = ("s3:GetBucketObjectLockConfiguration", "iam:ListRoleTags", "s3:GetObject")
    new = {*names[:2]}
    upgrade = SurpriseDriver("program version", "Terraform 1.11", "Terraform 1.10", "unseen", 8.3, 2)
    action = SurpriseDriver("action", names[0], names[2], "unseen", 10.0, 1)
    versions = ["Terraform 1.11", "Terraform 1.11", "Terraform 1.10"]
    some = facts(called(*names), new, (action, upgrade), versions=versions)
    said = f"called {names[0]} and 1 other new action from 84.17.50.9, with new version Terraform 1.11"
    assert title_of(some) == f"user/grace {said}"
    others = (
        replace(some, versions=["Terraform 1.10", *versions[1:]]),  # not all that is new
        replace(some, new_actions=()),
        replace(some, new_networks={"2": "139.59.0.0/16"}),
        replace(some, drivers=(action, replace(upgrade, surprise=4.9))),
        replace(some, drivers=(action, replace(upgrade, expected="Boto3 1.34"))),
        replace(
            some,
            versions=["Chrome 137.0"] * 3,
            drivers=(action, replace(upgrade, seen="Chrome 137.0", expected="Chrome 136.0")),
        ),
        facts(
            called("iam:CreateUser", *names[1:]),
            {"iam:CreateUser", names[1]},
            some.drivers,
            versions=versions,
        ),
    )
    assert not ["version" for each in others if "version" in title_of(each)]


@pytest.mark.parametrize(
    ("rarity", "beside", "calls", "said"),
    [
        ("unseen", 3.0, 1, ", with another account that is new to it (179392219590)"),
        ("unseen", 3.0, 2, "; 1 with another account that is new to it (179392219590)"),
        ("unseen", 10.0, 1, ""),  # the error says more
        ("rare", 3.0, 1, ""),
    ],
)
def test_a_new_account_that_surprises_most_is_named(
    rarity: Rarity, beside: float, calls: int, said: str
) -> None:
    assert feature_labels(("target",)) == {ACCOUNT_FEATURE}
    account = SurpriseDriver(ACCOUNT_FEATURE, "179392219590", "own account", rarity, 9.3)
    error = SurpriseDriver("error", "SlowDown", "no error", "infrequent", beside)
    some = facts(called(*["s3:PutAccessPointPolicy"] * calls), set(), (account, error))
    assert title_of(some) == f"user/grace called s3:PutAccessPointPolicy from 84.17.50.9{said}"


def test_a_new_tool_of_the_leading_call_is_named_once_with_its_version() -> None:
    assert feature_labels(("program", "version")) == set(TOOL_FEATURES)
    new = [
        SurpriseDriver(*each, "Boto3", "unseen", 9.9)
        for each in (("program", "Terraform linux"), ("program version", "Terraform 1.9 linux"))
    ]
    for drivers in (new, new[::-1], new[:1]):
        some = facts(called("iam:ListUsers"), set(), tuple(drivers), programs=["Terraform linux"])
        assert title_of(some).endswith(" from 84.17.50.9, new tool Terraform linux")


def test_a_person_is_known_at_one_role_of_the_same_account_at_best() -> None:
    def at(role: str, account: str = "123456789012") -> str:
        return f"{account}:role/AWSReservedSSO_{role}_0123456789abcdef/ann%40example.com"

    here, elsewhere = at("Admin"), at("Support", "210987654321")
    provider = "123456789012:federated/AWSSSO/ann%40example.com"
    assert access_text(at("Support")) == "Support"
    assert known_at(at("Support"), []) == ""
    assert known_at(at("Support"), [elsewhere]) == elsewhere
    assert known_at(at("Support"), [elsewhere, provider, here]) == here


def test_roles_of_two_accounts_are_named_with_them() -> None:
    """ "New at Audit, known at Audit in 210987654321" left out where it is new."""
    here, elsewhere, admin = (
        f"{account}:role/AWSReservedSSO_{role}_0123456789abcdef/ann%40example.com"
        for account, role in (("123456789012", "Audit"), ("210987654321", "Audit"), ("123456789012", "Admin"))
    )
    assert access_text(here, elsewhere) == "Audit in 123456789012"
    assert access_text(elsewhere, here) == "Audit in 210987654321"
    assert access_text(here, admin) == "Audit"
    assert access_text(admin, here) == "Admin"
    assert access_text(here, "") == "Audit"
    assert access_text("", here) == ""
    long = f"{'1' * 300}:role/{'x' * 300}/ann%40example.com"
    assert access_text(long, here) == f"{'x' * 39}… in {'1' * 19}…"


def test_the_question_names_the_first_new_actions_or_where_a_usual_one_came_from() -> None:
    """A detector's own words for what was surprising are no question."""
    after = SurpriseDriver("next action", "iam:ListRoles after sts:GetCallerIdentity", "", "unseen", 18.0, 1)
    events = called("sts:GetCallerIdentity", "iam:ListRoles", "iam:ListUsers", "s3:ListBuckets")
    new = {each.action_name for each in events}
    assert questioned(facts(events[:2], new, (after,))) == "sts:GetCallerIdentity, iam:ListRoles"
    assert questioned(facts(events, new, (after,))) == (
        "sts:GetCallerIdentity, iam:ListRoles, iam:ListUsers and 1 other new action"
    )
    assert (
        questioned(facts(events[2:], set(), (NETWORK,))) == "iam:ListUsers from 139.59.0.0/16 (new network)"
    )
    named = facts(
        called(*(f"s3:{letter * 500}" for letter in "abcd")), {f"s3:{each * 500}" for each in "abcd"}
    )
    assert len(questioned(named)) < 300


def test_who_and_where_are_those_of_the_leading_call_and_others_are_said_to_be_others() -> None:
    """Two people at a role: the first in time comes from a new network, the other one did the grave thing."""
    events = called("iam:ListRoles", "iam:AttachRolePolicy")
    some = facts(events, {"iam:ListRoles", "iam:AttachRolePolicy"}, new_networks={"0": "217.88.140.0/24"})
    some = replace(some, humans=["olga@example.com", "nick@example.com"])
    assert some.leading_row == 1
    assert title_of(some, "123456789012:role/okta-poweruser") == (
        "role/okta-poweruser (nick@example.com and 1 other) called iam:AttachRolePolicy "
        "from 84.17.50.9; 1 other new action from 217.88.140.0/24 (new network)"
    )


def test_a_title_counts_as_from_a_place_what_came_from_there() -> None:
    """A thief's two calls, and a pipeline's nine at the same role."""
    names = ("iam:AttachRolePolicy", "iam:ListRoles", *(f"ec2:Create{each}" for each in "ABC"))
    events = called(*names)
    events[2:] = [replace(each, source_address="10.9.8.7") for each in events[2:]]
    pipeline = facts(events, {*names}, new_networks={"0": "20.109.0.0/16", "1": "20.109.0.0/16"})
    there = "user/grace called iam:AttachRolePolicy and 1 other new action from"
    assert title_of(pipeline) == f"{there} 20.109.0.0/16 (new network); 3 other new actions from elsewhere"
    assert questioned(pipeline) == (
        "iam:AttachRolePolicy, iam:ListRoles from 20.109.0.0/16 (new network); 3 other new actions from elsewhere"
    )
    usual = replace(pipeline, new_networks={})
    assert title_of(usual) == f"{there} 84.17.50.9; 3 other new actions from elsewhere"
    strange = replace(pipeline, new_networks={"2": "139.59.0.0/16"})
    assert title_of(strange) == (
        f"{there} 84.17.50.9; 3 other new actions from elsewhere, as from 139.59.0.0/16 (new network)"
    )
    one = facts(events, {"ec2:CreateA"}, new_networks={"0": "20.109.0.0/16"})
    assert title_of(one) == (
        "user/grace called iam:AttachRolePolicy from 20.109.0.0/16 (new network); 1 new action from elsewhere"
    )
    listed = replace(events[1], source_address="10.9.8.7")
    newcomer = replace(facts([events[0], listed], {*names[:2]}), is_learned=False)
    assert "from 84.17.50.9; 1 other action from elsewhere" in title_of(newcomer)


def test_a_new_region_is_named_and_asked_about() -> None:
    """A known call from a known address: without its region there is nothing to ask about."""
    events = called("ecr:GetAuthorizationToken", "ecr:GetAuthorizationToken", "s3:GetObject")
    some = facts(events, set(), new_regions={"1": "sa-east-1"})
    assert some.leading_row == 1
    assert title_of(some) == (
        "user/grace called ecr:GetAuthorizationToken and 1 other action from 84.17.50.9 in sa-east-1 (new region)"
    )
    assert questioned(some) == "ecr:GetAuthorizationToken from 84.17.50.9 in sa-east-1 (new region)"
    others = replace(some, new_regions={"2": "sa-east-1"})
    assert title_of(others).endswith(" from 84.17.50.9; others in sa-east-1 (new region)")
    both = replace(some, new_networks={"1": "139.59.0.0/16"})
    assert title_of(both).endswith(" from 139.59.0.0/16 (new network) in sa-east-1 (new region)")
    new = facts(events, {"ecr:GetAuthorizationToken"}, new_regions={"1": "r" * 300})
    assert questioned(new) == f"ecr:GetAuthorizationToken in {'r' * 39}… (new region)"


def test_of_the_leading_actions_calls_one_that_succeeded_is_named_from_a_new_network_if_any() -> None:
    events = called(*["iam:AttachRolePolicy"] * 3)
    events[1] = replace(events[1], error_code="AccessDenied")
    networks = {"1": "198.51.0.0/16", "2": "203.0.0.0/16"}
    title = title_of(facts(events, {"iam:AttachRolePolicy"}, new_networks=networks))
    assert title.endswith("from 203.0.0.0/16 (new network); 1 failed")


def test_a_new_address_range_of_a_known_network_is_no_new_network() -> None:
    """A provider that gives its customers another /24 each week made each of them a new network."""
    events = called("iam:ListUsers", "iam:ListUsers", "s3:ListBuckets")
    ranged = facts(events, set(), new_networks={"0": "86.140.13.0/24"}, new_ranges={"0"})
    assert title_of(ranged).endswith(" from 86.140.13.0/24 (new address range)")
    both = replace(ranged, new_networks={"0": "86.140.13.0/24", "1": "139.59.0.0/16"})
    assert title_of(both).endswith(" from 139.59.0.0/16 (new network)"), "which says more"
    elsewhere = facts([events[2], *events[:2]], set(), new_networks=both.new_networks, new_ranges={"0"})
    assert title_of(elsewhere).endswith("; others from 139.59.0.0/16 (new network)")
    hosted = replace(elsewhere, usual_places={"0"})
    assert title_of(hosted).endswith("; others from 139.59.0.0/16 (new network)")
    alone = replace(ranged, usual_places={"0"})
    assert title_of(alone).endswith(" from 84.17.50.9"), "it comes from a new one all the time"
    assert questioned(alone).endswith(" from 84.17.50.9")
    assert title_of(replace(both, usual_places={"1"})).endswith(" from 86.140.13.0/24 (new address range)")


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_a_name_of_any_length_and_kind_keeps_a_title_short(text: str) -> None:
    events = [replace(each, action=text, service=text, source_address=text) for each in called("a:b", "c:d")]
    network = replace(NETWORK, seen=text)
    title = title_of(facts(events, {f"{text}:{text}"}, (network,)), f"123456789012:user/{text}", text)
    assert len(title) <= 4 * MAX_NAME_LENGTH + 120
