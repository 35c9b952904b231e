"""Next steps: the right cut for each kind of credential, another channel, true time ranges, and names that are only names."""

from __future__ import annotations

import json
import shlex
import subprocess
import tomllib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import pytest

from fingerprint.alerting.impact import alert_impact, with_support
from fingerprint.core.alert import AlertEvent, CredentialIssue, NextStep, StepPhase
from fingerprint.sources.base import Suspicion, escape_key
from fingerprint.sources.cloudtrail import playbook_undo, playbook_undo_steps
from fingerprint.sources.cloudtrail.impact import listed_actions
from fingerprint.sources.cloudtrail.impact_effects import listed_calls
from fingerprint.sources.cloudtrail.playbook import next_steps
from fingerprint.sources.cloudtrail.playbook_contain_role import name_opener
from fingerprint.sources.cloudtrail.playbook_facts import MAX_KEYS, MAX_RECORDS_READ, credential_kind
from fingerprint.sources.cloudtrail.playbook_undo import (
    MAX_CALLS,
    MAX_STEP_LENGTH,
    MAX_VALUES,
    Call,
    fill_command,
    only_denies,
    safe_argument,
    undo_step,
    undo_table,
)
from fingerprint.sources.cloudtrail.playbook_undo_steps import MAX_UNDO_STEPS
from tests.support.alerts import NASTY, event

ACCOUNT = "123456789012"
AKIA, ASIA = "AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE"
OPENED = datetime(2026, 3, 4, 13, 0, tzinfo=UTC)


def call(name: str, request: Any = None, response: Any = None, key: str = AKIA, **fields: Any) -> AlertEvent:
    service, _, action = name.partition(":")
    record = {"recipientAccountId": ACCOUNT, "requestParameters": request, "responseElements": response}
    made = event(0, service, action)
    return replace(made, event_id=name, raw=json.dumps(record), access_key=key, **fields)


def suspicion(
    *events: AlertEvent, principal: str = f"{ACCOUNT}:user/grace", human: str = "", urgency: int = 90
) -> Suspicion:
    actions = alert_impact(events, {each.action_name for each in events}, ())
    return Suspicion(principal, human, events, actions, urgency, "iam:ListUsers", from_new_origin=True)


def commands(steps: tuple[NextStep, ...], phase: str) -> str:
    return "\n".join(step.command for step in steps if step.phase == phase)


@pytest.mark.parametrize(
    ("principal", "key", "kind", "cut"),
    [
        (
            "user/grace",
            AKIA,
            "access key",
            f"update-access-key --user-name grace --access-key-id {AKIA} --status Inactive",
        ),
        ("user/grace", ASIA, "user session", "delete-login-profile --user-name grace"),
        (
            "role/ci-deploy",
            ASIA,
            "role session",
            "put-role-policy --role-name ci-deploy --policy-name AWSRevokeOlderSessions",
        ),
        (
            "role/AWSReservedSSO_Admin_0a1b/ann@example.com",
            ASIA,
            "single sign-on",
            "sso-admin put-inline-policy",
        ),
        ("root", AKIA, "root", f"attach-policy --policy-id POLICY_ID --target-id {ACCOUNT}"),
        ("role/AWSServiceRoleForEC2Spot", "", "service", "Username,AttributeValue=maria.lopez@example.com"),
        ("service/ec2.amazonaws.com", "", "service", "lookup-events"),
        ("federated/accounts.example.com/x", "", "unknown", "list-roles"),
    ],
)
def test_each_kind_of_credential_has_its_cut(principal: str, key: str, kind: str, cut: str) -> None:
    assert credential_kind(f"{ACCOUNT}:{principal}", [key] if key else []) == kind
    steps = next_steps(suspicion(call("iam:ListUsers", key=key), principal=f"{ACCOUNT}:{principal}"))
    assert cut in commands(steps, "contain")
    assert steps[0].phase == "contain"


def test_a_machine_whose_role_was_used_is_isolated_too() -> None:
    steps = next_steps(
        suspicion(
            call("s3:GetObject", key=ASIA, session="i-0ab12cd34ef56ab78"), principal=f"{ACCOUNT}:role/web"
        )
    )
    shown = commands(steps, "contain")
    assert (
        "--region INSTANCE_REGION --instance-id i-0ab12cd34ef56ab78" in shown
    )  # the calls went to another perhaps
    assert "AssumeRole" not in shown  # the machine's service gave the session


def test_the_task_of_a_container_whose_role_was_used_is_stopped_too() -> None:
    task = "0123456789abcdef0123456789abcdef"
    steps = next_steps(
        suspicion(call("s3:GetObject", key=ASIA, session=task), principal=f"{ACCOUNT}:role/fn-auth")
    )
    shown = commands(steps, "contain")
    assert f"aws ecs stop-task --region TASK_REGION --cluster CLUSTER_NAME --task {task}" in shown
    assert "AssumeRole" in shown, "a thief may have chosen the name"
    other = suspicion(call("s3:GetObject", key=ASIA, session="build-7"), principal=f"{ACCOUNT}:role/ci")
    assert "stop-task" not in commands(next_steps(other), "contain")


def test_a_provider_of_saml_that_may_be_a_thiefs_is_looked_at_and_its_sessions_are_followed_by_address() -> (
    None
):
    provider = f"arn:aws:iam::{ACCOUNT}:saml-provider/ADFS-Legacy"
    made = call("sts:AssumeRoleWithSAML", {"principalArn": provider}, key="", source_address="91.219.236.17")
    made = replace(made, raw=json.dumps(json.loads(made.raw) | {"eventName": "AssumeRoleWithSAML"}))
    steps = next_steps(suspicion(made, principal=f"{ACCOUNT}:federated/4dae59680578ead67ebc=/KW105517"))
    shown = commands(steps, "contain")
    assert f"aws iam get-saml-provider --saml-provider-arn {provider}" in shown
    assert "aws iam delete-saml-provider --saml-provider-arn PROVIDER_ARN" in shown, "it locks everybody out"
    assert "contains(CloudTrailEvent,'91.219.236.17')" in commands(steps, "extent")
    web = call("sts:AssumeRoleWithWebIdentity", key="")
    other = next_steps(suspicion(web, principal=f"{ACCOUNT}:federated/accounts.google.com/7"))
    assert "saml" not in commands(other, "contain")


def test_a_person_who_came_by_identity_center_is_cut_there_and_its_provider_is_left_alone() -> None:
    """Everyone signs in by it, and it is called AWSSSO_..._DO_NOT_DELETE for that."""
    provider = f"arn:aws:iam::{ACCOUNT}:saml-provider/AWSSSO_0a1b2c3d4e5f6071_DO_NOT_DELETE"
    role = "role:aws-reserved/sso.amazonaws.com/eu-central-1/AWSReservedSSO_Quant_f7230099b9ea687c"
    made = call("sts:AssumeRoleWithSAML", {"principalArn": provider}, key="", resource=role)
    made = replace(made, raw=json.dumps(json.loads(made.raw) | {"eventName": "AssumeRoleWithSAML"}))
    person = f"{ACCOUNT}:federated/e%2F8e8BF4+%2F6+d+0DEF7BBe7FD94=/ann@example.com"
    steps = next_steps(suspicion(made, principal=person, human="ann@example.com"))
    [contain] = [step for step in steps if step.phase == "contain"]
    assert "AttributePath=UserName,AttributeValue=ann@example.com" in contain.command
    assert "put-inline-policy-to-permission-set" in contain.command
    assert "inline policy of Quant." in contain.text
    assert ACCOUNT not in contain.text, "it is done where Identity Center is administered"
    assert "saml-provider" not in contain.command
    for other in (replace(made, error_code="AccessDenied"), replace(made, resource="role:admin")):
        shown = commands(next_steps(suspicion(other, principal=person)), "contain")
        assert f"get-saml-provider --saml-provider-arn {provider}" in shown, "the name alone may be a thief's"
        assert "delete-saml-provider" not in shown


def with_session(made: AlertEvent, **context: Any) -> AlertEvent:
    """Return a call by a role, whose record says so much of its session."""
    record = json.loads(made.raw)
    record["userIdentity"] = {"type": "AssumedRole", "sessionContext": context}
    return replace(made, raw=json.dumps(record))


def test_a_session_of_roles_anywhere_is_cut_at_its_certificate_and_no_task_is_looked_for() -> None:
    """Its session is named by the certificate's serial number: 32 hexadecimal digits, as the id of a task of ECS."""
    serial = "2489f294dcae56a61045246a52707cad"
    by_gateway = with_session(
        call("s3:GetObject", key=ASIA, session=serial), sourceIdentity="CN=gw-2489", attributes={}
    )
    shown = commands(next_steps(suspicion(by_gateway, principal=f"{ACCOUNT}:role/Gateway")), "contain")
    assert "stop-task" not in shown
    assert "AssumeRoleWithWebIdentity CreateSession; do" in shown, "by which the certificate got the session"
    assert "disable-profile --region ANCHOR_REGION --profile-id PROFILE_ID" in shown
    assert "disable-trust-anchor" in shown
    assert "contains(to_string(roleArns),'Gateway')" in shown
    person = with_session(call("s3:GetObject", key=ASIA, session="ann"), sourceIdentity="ann")
    other = commands(next_steps(suspicion(person, principal=f"{ACCOUNT}:role/ops")), "contain")
    assert "rolesanywhere" not in other
    assert "CreateSession" not in other


def test_a_caller_without_a_name_that_shows_a_certificate_is_cut_there_and_followed_by_address() -> None:
    """As records of rolesanywhere:CreateSession have it: type Unknown, no principal, no key."""
    arn = f"arn:aws:rolesanywhere:eu-west-1:{ACCOUNT}"
    request = {"profileArn": f"{arn}:profile/p-1", "trustAnchorArn": f"{arn}:trust-anchor/t-2"}
    request |= {"roleArn": f"arn:aws:iam::{ACCOUNT}:role/Gateway", "cert": "MIIC"}
    made = call(
        "rolesanywhere:CreateSession", request, key="", region="eu-west-1", source_address="109.96.41.7"
    )
    steps = next_steps(suspicion(made, principal=f"{ACCOUNT}:unknown/Unknown/"))
    shown = commands(steps, "contain")
    assert "disable-profile --region eu-west-1 --profile-id p-1" in shown
    assert "disable-trust-anchor --region eu-west-1 --trust-anchor-id t-2" in shown
    [verify] = (step.text for step in steps if step.phase == "verify")
    assert f"ask who owns what calls from 109.96.41.7 in account {ACCOUNT}, by telephone" in verify
    extent = commands(steps, "extent")
    assert "USER_NAME" not in extent
    assert "for name in CreateSession; do" in extent
    assert "contains(CloudTrailEvent,'109.96.41.7')" in extent
    assert not commands(steps, "undo"), "a session is no change to set back"
    assert "set back" not in " ".join(step.text for step in steps)


@pytest.mark.parametrize("name", ["--debug", "$(id)", "a b", 7])
def test_what_a_record_calls_a_profile_or_an_anchor_is_an_id_or_is_left_out(name: object) -> None:
    arn = f"arn:aws:rolesanywhere:eu-west-1:{ACCOUNT}:x/{name}" if isinstance(name, str) else name
    request = dict.fromkeys(("profileArn", "trustAnchorArn", "roleArn"), arn)
    made = call("rolesanywhere:CreateSession", request, key="", region="eu-west-1")
    shown = commands(next_steps(suspicion(made, principal=f"{ACCOUNT}:unknown/Unknown/")), "contain")
    assert f" {name}" not in shown
    assert "--profile-id PROFILE_ID" in shown
    assert "--trust-anchor-arn TRUST_ANCHOR_ARN" in shown
    assert "--trust-anchor-id TRUST_ANCHOR_ID" in shown


@pytest.mark.parametrize("amr", ["unauthenticated", "authenticated"])
def test_a_session_of_cognito_is_cut_at_its_identity_pool(amr: str) -> None:
    pool, visitor = "eu-central-1:b10a8c0b-1111-2222-3333-444455556666", "eu-central-1:a326411c-da80-77fe"
    said = {"amr": f'["{amr}"]', "aud": pool, "sub": visitor}
    federation = {
        "federatedProvider": "cognito-identity.amazonaws.com",
        "attributes": {f"cognito-identity.amazonaws.com:{name}": value for name, value in said.items()},
    }
    made = call("s3:ListBuckets", key=ASIA, session="CognitoIdentityCredentials")
    made = with_session(made, webIdFederationData=federation)
    steps = next_steps(suspicion(made, principal=f"{ACCOUNT}:role/Visitors"))
    shown = commands(steps, "contain")
    assert f"delete-identities --region eu-central-1 --identity-ids-to-delete {visitor}" in shown
    assert ("--no-allow-unauthenticated-identities" in shown) == (amr == "unauthenticated")
    assert "AWSRevokeOlderSessions" in shown
    said_of_it = " ".join(each.text for each in steps)
    assert "instance profile" not in said_of_it
    assert ("person" in steps[0].text) == (amr == "authenticated")


def test_a_session_that_a_provider_of_web_identity_vouched_for_is_cut_at_its_workload() -> None:
    provider = f"arn:aws:iam::{ACCOUNT}:oidc-provider/app.terraform.io"
    made = call("s3:ListBuckets", key=ASIA, session="terraform-run-1")
    made = with_session(made, webIdFederationData={"federatedProvider": provider, "attributes": {}})
    steps = next_steps(suspicion(made, principal=f"{ACCOUNT}:role/Deploy"))
    cut, revoke = (each for each in steps if each.phase == "contain")
    assert ": app.terraform.io vouched for the workload" in cut.text
    assert "in AssumeRoleWithWebIdentity; do" in cut.command
    assert ASIA in cut.command
    assert "instance profile" not in revoke.text


def test_a_session_of_a_device_is_cut_at_its_certificate() -> None:
    certificate = "0a1b" * 16
    made = call("s3:PutObject", key=ASIA, session=certificate)
    shown = commands(next_steps(suspicion(made, principal=f"{ACCOUNT}:role/devices")), "contain")
    assert f"iot update-certificate --region DEVICE_REGION --certificate-id {certificate} --new" in shown
    other = replace(made, session="0a1b" * 15)
    assert "iot" not in commands(next_steps(suspicion(other, principal=f"{ACCOUNT}:role/devices")), "contain")


def test_who_told_a_service_to_call_with_a_role_is_found_and_no_machine_is_looked_for() -> None:
    made = call(
        "iam:CreateRole", key=ASIA, session="AWSCloudFormation", source_address="cloudformation.amazonaws.com"
    )
    steps = next_steps(suspicion(made, principal=f"{ACCOUNT}:role/stacksets-exec-5e3b"))
    assert "EventSource,AttributeValue=cloudformation.amazonaws.com" in steps[0].command
    said = " ".join(step.text for step in steps)
    assert "instance profile" not in said
    assert "cloudformation.amazonaws.com acted with role stacksets-exec-5e3b: ask who told it to" in said
    beside = replace(made, event_id="other", source_address="203.0.113.7")
    stolen = next_steps(suspicion(made, beside, principal=f"{ACCOUNT}:role/stacksets-exec-5e3b"))
    assert "the owner of" in " ".join(step.text for step in stolen)


def test_a_service_that_calls_in_a_persons_session_is_contained_at_the_person() -> None:
    made = call("s3:ListBuckets", key=ASIA, session="bo@example.com", source_address="aws-mcp.amazonaws.com")
    steps = next_steps(suspicion(made, principal=f"{ACCOUNT}:role/SRE", human="bo@example.com"))
    assert "aws-mcp.amazonaws.com made the calls" not in " ".join(step.text for step in steps)
    assert "*:bo@example.com" in commands(steps, "contain")


def test_a_person_is_asked_about_their_own_call_and_not_about_what_a_service_did_for_it() -> None:
    person = f"{ACCOUNT}:role/AWSReservedSSO_Ops_0a1b2c3d4e5f6071/bo%40example.com"
    service = "secretsmanager.amazonaws.com"
    decrypt = call("kms:Decrypt", key=ASIA, source_address=service, resource="key:d7a6")
    some = suspicion(decrypt, principal=person, human="bo@example.com")
    [asked] = [step.text for step in next_steps(some) if step.phase == "verify"]
    assert f"about what they did with {service}, which called kms:Decrypt on key:d7a6 for them, at" in asked
    read = call("secretsmanager:GetSecretValue", key=ASIA, resource="secret:db")
    [asked] = [step.text for step in next_steps(some._replace(supporting=(read,))) if step.phase == "verify"]
    asked_about = "secretsmanager:GetSecretValue on secret:db"
    assert f"about {asked_about}, for which {service} called kms:Decrypt on key:d7a6, at" in asked


def test_a_person_answers_for_no_session_of_another_name() -> None:
    own = call("s3:ListBuckets", key=ASIA, session="tom@example.com")
    other = replace(own, event_id="other", session="session-4821", access_key="ASIAOTHER")
    shared = suspicion(own, other, principal=f"{ACCOUNT}:role/Data", human="tom@example.com")
    [verify] = (step for step in next_steps(shared) if step.phase == "verify")
    assert (
        "They answer for their own session alone; there are calls of others here: session-4821."
        in verify.text
    )
    alone = suspicion(own, principal=f"{ACCOUNT}:role/Data", human="tom@example.com")
    assert "for their own session" not in " ".join(step.text for step in next_steps(alone))


@pytest.mark.parametrize(
    ("opener", "human", "asked"),
    [
        (
            f"{ACCOUNT}:role/Admin",
            "tara@example.com",
            "Ask tara@example.com, who opened the session, by telephone",
        ),
        (f"{ACCOUNT}:role/Admin", "i-0ab12cd34ef56ab78", "Ask the owner of "),
        ("210987654321:account/AROA", "tara@example.com", "Ask the owner of "),
    ],
)
def test_the_person_who_opened_a_session_is_asked_and_not_a_stranger(
    opener: str, human: str, asked: str
) -> None:
    found = next_steps(
        suspicion(call("s3:GetObject", key=ASIA, session="ops"), principal=f"{ACCOUNT}:role/ci")
    )
    opened = CredentialIssue(ASIA, OPENED, "e-1", "AssumeRole", opener, human, "", "192.0.2.7", "eu-west-1")
    [before] = (step for step in found if step.phase == "verify")
    [verify] = (step for step in name_opener(found, opened) if step.phase == "verify")
    assert verify.text.startswith(asked)
    assert verify.text.endswith(before.text.partition(", by telephone or in person,")[2])


def test_a_denied_call_is_not_asked_about_where_the_same_succeeded() -> None:
    """Neither beside an own call that succeeded, however little harm that one did, nor beside a supporting one."""
    role = f"{ACCOUNT}:role/broker"

    def asked(*own: AlertEvent, supporting: tuple[AlertEvent, ...] = ()) -> str:
        some = suspicion(*own, principal=role)._replace(lead=own[0], supporting=supporting)
        places = {each.event_id: " from 52.51.188.0/24 (new to it)" for each in own}
        steps = next_steps(some._replace(new_origins=places))
        return next(step.text for step in steps if step.phase == "verify")

    denied = call("sts:AssumeRole", key=ASIA, resource="role:vendor", error_code="AccessDenied")
    usual, admin, elsewhere = (
        replace(denied, event_id=name, resource=f"role:{name}", error_code="", scores={"autoencoder": z})
        for name, z in (("tenant", 2.0), ("admin", 4.0), ("elsewhere", 5.0))
    )
    assert "about sts:AssumeRole on role:vendor from" in asked(denied)
    elsewhere = replace(elsewhere, source_address="10.9.8.7")
    later = replace(admin, event_time=denied.event_time + timedelta(minutes=3))
    text = asked(denied, supporting=(usual, later, elsewhere))
    assert (
        f"about sts:AssumeRole on role:admin from 52.51.188.0/24 (new to it) at {later.event_time:%H:%M}"
        in text
    )
    open_to_all = {"bucketPolicy": {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:*"}]}}
    tried = call("s3:PutBucketPolicy", open_to_all, resource="bucket:a", error_code="AccessDenied")
    own = {"bucketPolicy": {"Statement": [{"Effect": "Allow", "Principal": {"AWS": ACCOUNT}}]}}
    done = replace(call("s3:PutBucketPolicy", own, resource="bucket:b"), event_id="done")
    assert "on bucket:b" in asked(tried, done)


def test_nothing_of_a_service_linked_role_is_stolen() -> None:
    role = f"{ACCOUNT}:role/AWSServiceRoleForConfig"
    some = suspicion(call("s3:GetBucketPolicy", key=ASIA), principal=role)._replace(first_seen="new")
    [verify] = (step for step in next_steps(some) if step.phase == "verify")
    assert verify.text.startswith("No person is behind AWSServiceRoleForConfig: ask who set it up")
    assert "stolen" not in verify.text
    assert "who made it" not in verify.text
    assert not verify.command


def test_the_question_about_a_role_of_other_accounts_names_these() -> None:
    events = [call("sts:AssumeRole", key=ASIA, resource="role:Operator") for _ in range(2)]
    events = [replace(each, event_id=name) for each, name in zip(events, "ab", strict=True)]
    accounts = {"a": "2" * 12, "b": "3" * 12}
    rows = alert_impact(events, {"sts:AssumeRole"}, (), accounts)
    some = suspicion(*events, principal=f"{ACCOUNT}:role/ci")._replace(actions=rows, lead=events[0])
    [verify] = (step.text for step in next_steps(some) if step.phase == "verify")
    assert "about sts:AssumeRole on role:Operator in 2 accounts: 222222222222, 333333333333 at" in verify


def test_the_question_is_about_a_severe_call_that_succeeded_beside_what_was_only_tried() -> None:
    """A title of a read that was refused leads nowhere: the owner is asked about the trust that was changed from there."""
    tried = call("iam:GetLoginProfile", error_code="AccessDenied", source_address="194.158.3.4")
    trust = call("iam:UpdateAssumeRolePolicy", {}, resource="role:ops", source_address="194.158.3.4")
    key = call("iam:CreateAccessKey", {}, source_address="194.158.3.4")
    place = {tried.event_id: " from 194.158.0.0/16 (new network)"}
    some = suspicion(tried)._replace(lead=tried, new_origins=place)

    def asked(*support: AlertEvent, own: Suspicion = some) -> str:
        rows = alert_impact(support, {each.action_name for each in support}, ())
        beside = own._replace(actions=with_support(own.actions, rows), supporting=support)
        return next(step.text for step in next_steps(beside) if step.phase == "verify")

    assert "about iam:UpdateAssumeRolePolicy on role:ops from 194.158.0.0/16 (new network) at" in asked(trust)
    two = asked(trust, key)
    assert "elsewhere" not in two
    assert " and 1 other action from 194.158.0.0/16 (new network) at" in two
    elsewhere = replace(trust, source_address="198.54.7.191")
    refused = replace(trust, error_code="AccessDenied")
    for none in (elsewhere, refused):
        assert "UpdateAssumeRolePolicy" not in asked(none)
    harm = suspicion(tried, call("cloudtrail:StopLogging", source_address="194.158.3.4"))
    assert "about cloudtrail:StopLogging" in asked(trust, own=harm), "its own harm comes first"


def test_the_question_is_about_what_was_done_before_what_was_only_tried() -> None:
    tried = call("ec2:AuthorizeSecurityGroupIngress", error_code="Client.UnauthorizedOperation")
    [verify] = (
        step.text for step in next_steps(suspicion(tried, call("ec2:RunInstances"))) if step.phase == "verify"
    )
    assert "about ec2:RunInstances and 1 other action at" in verify


def test_the_account_that_is_let_in_is_asked_about_where_no_resource_is_known() -> None:
    targets = [{"id": "1", "arn": "arn:aws:events:eu-west-1:834120977315:event-bus/default"}]
    put = call("events:PutTargets", {"rule": "r", "targets": targets}, resource="")
    [verify] = (step.text for step in next_steps(suspicion(put)) if step.phase == "verify")
    assert "about events:PutTargets for account 834120977315 at" in verify


def test_a_service_has_no_owner_to_ask_and_no_credential_to_follow() -> None:
    first = call("ec2:CreateNetworkInterface", key="", session="", region="eu-west-1")
    some = suspicion(first, principal=f"{ACCOUNT}:service/ec2.amazonaws.com")._replace(first_seen="new")
    steps = next_steps(some)
    [verify] = (step.text for step in steps if step.phase == "verify")
    assert verify.startswith(
        "No person is behind ec2.amazonaws.com: ask who set it up or changed last what it acts"
    )
    assert "the owner of" not in verify
    assert "who made it" not in verify
    [extent] = (step for step in steps if step.phase == "extent")
    assert "the credential did" not in extent.text
    assert "for name in CreateNetworkInterface; do" in extent.command
    assert "ec2.amazonaws.com" in extent.command
    assert "ACCESS_KEY_ID" not in extent.command
    assert "USER_NAME" not in extent.command


def test_who_opened_a_roles_sessions_is_cut_before_these_are_revoked() -> None:
    steps = next_steps(
        suspicion(call("iam:ListUsers", key=ASIA, session="build-7"), principal=f"{ACCOUNT}:role/ci-deploy")
    )
    opened, revoke = (step for step in steps if step.phase == "contain")
    assert "for name in AssumeRole AssumeRoleWithSAML AssumeRoleWithWebIdentity; do" in opened.command
    assert f"--query \"Events[?contains(CloudTrailEvent,'{ASIA}')].CloudTrailEvent\"" in opened.command
    assert "AWSRevokeOlderSessions" in revoke.command
    assert "Who can still assume the role gets a new one" in revoke.text
    assert "refused until these expire, for up to six hours" in revoke.text


def test_of_a_role_that_many_people_use_one_persons_session_is_denied() -> None:
    steps = next_steps(
        suspicion(call("iam:ListUsers", key=ASIA), principal=f"{ACCOUNT}:role/okta-admin/ann@example.com")
    )
    [contain] = (step for step in steps if step.phase == "contain")
    words = shlex.split(contain.command)
    [statement] = json.loads(words[-1])["Statement"]
    assert words[:5] == ["aws", "iam", "put-role-policy", "--role-name", "okta-admin"]
    assert statement["Condition"] == {"StringLike": {"aws:userid": "*:ann@example.com"}}
    assert "isable the person at the identity provider" in contain.text


def test_of_a_role_that_saml_may_open_the_people_are_denied_before_all_are_revoked() -> None:
    events = [
        call(f"iam:{name}", key=ASIA, session=f"{name}@example.com") for name in ("ListUsers", "ListRoles")
    ]
    steps = next_steps(suspicion(*events, principal=f"{ACCOUNT}:role/okta-admin"))
    opened, people, everybody = (step for step in steps if step.phase == "contain")
    assert "AssumeRoleWithSAML" in opened.command
    [statement] = json.loads(shlex.split(people.command)[-1])["Statement"]
    assert statement["Condition"] == {
        "StringLike": {"aws:userid": ["*:ListUsers@example.com", "*:ListRoles@example.com"]}
    }
    assert "AWSRevokeOlderSessions" in everybody.command
    assert "Only where the caller chose the session's name" in everybody.text


def test_the_function_whose_credentials_were_taken_runs_no_more() -> None:
    arn = f"arn:aws:lambda:eu-west-1:{ACCOUNT}:function:resize"
    made = call("s3:GetObject", key=ASIA, session="resize")
    record = json.loads(made.raw)
    record["userIdentity"] = {
        "inScopeOf": {"issuerType": "AWS::Lambda::Function", "credentialsIssuedTo": arn}
    }
    steps = next_steps(
        suspicion(replace(made, raw=json.dumps(record)), principal=f"{ACCOUNT}:role/resize-role")
    )
    stop, revoke = (step for step in steps if step.phase == "contain")
    assert (
        f"aws lambda put-function-concurrency --region eu-west-1 --function-name {arn} --reserved-concurrent-executions 0"
        in stop.command
    )
    assert "AWSRevokeOlderSessions" in revoke.command
    record["userIdentity"]["inScopeOf"]["credentialsIssuedTo"] = "--debug"
    odd = next_steps(
        suspicion(replace(made, raw=json.dumps(record)), principal=f"{ACCOUNT}:role/resize-role")
    )
    assert "--region FUNCTION_REGION --function-name FUNCTION_ARN" in commands(odd, "contain")


def test_the_pod_whose_credentials_were_taken_is_stopped() -> None:
    pod = "eks-prod-worker-7f9c-0f2f5b3a-1c1d-4a57-9b52-1f6d3e7a9c10"
    steps = next_steps(
        suspicion(call("s3:GetObject", key=ASIA, session=pod), principal=f"{ACCOUNT}:role/worker")
    )
    [stop] = [step for step in steps if "kubectl delete pod" in step.command]
    assert "delete-pod-identity-association" in stop.command
    assert pod in stop.text
    steps = next_steps(
        suspicion(call("s3:GetObject", key=ASIA, session="eks-deploy"), principal=f"{ACCOUNT}:role/worker")
    )
    assert "kubectl" not in commands(steps, "contain")


@pytest.mark.parametrize("urgency", [90, 10])
@pytest.mark.parametrize("principal", ["user/grace", "role/web", "role/okta-admin/ann", "service/ec2"])
def test_containing_and_undoing_say_in_which_account(principal: str, urgency: int) -> None:
    """Names of roles repeat across accounts; a call may be made in another one than its principal's."""
    there = call("iam:CreateRole", {"roleName": "x"})
    record = json.loads(there.raw) | {"recipientAccountId": "999999999999"}
    elsewhere = replace(there, raw=json.dumps(record))
    events = (call("iam:CreateUser", {"userName": "eve"}), elsewhere)
    steps = next_steps(suspicion(*events, principal=f"{ACCOUNT}:{principal}", urgency=urgency))
    contain = [step.text for step in steps if step.phase == "contain"]
    lead = f"In account {ACCOUNT}: " if urgency == 90 else f"In account {ACCOUNT}, if no one confirms it: "
    assert contain
    assert all(text.startswith(lead) for text in contain)
    undone = [step.text for step in steps if step.phase == "undo"]
    assert [text.split(":")[0] for text in undone] == [f"In account {ACCOUNT}", "In account 999999999999"]


def test_no_account_is_named_where_the_work_is_elsewhere_or_none_is_known() -> None:
    """The root user is cut from the management account, Identity Center from the one that administers it."""
    for principal in (
        f"{ACCOUNT}:root",
        f"{ACCOUNT}:identitycenter/x",
        "unknown:user/eve",
        f"{ACCOUNT}:account/x",
    ):
        steps = next_steps(suspicion(call("iam:ListUsers", key=""), principal=principal))
        assert not any("n account " in step.text for step in steps if step.phase == "contain"), principal


def test_a_person_of_single_sign_on_is_denied_beside_what_the_permission_set_has() -> None:
    """Putting an inline policy overwrites the one that there is: it is kept first, and the command reads a merged file."""
    person = f"{ACCOUNT}:role/AWSReservedSSO_Admin_0a1b/ann@example.com"
    [step] = [
        each
        for each in next_steps(
            suspicion(call("iam:ListUsers", key=ASIA), principal=person, human="ann@example.com")
        )
        if each.phase == "contain"
    ]
    find, keep, deny, put, _ = step.command.splitlines()
    assert find.endswith("--filters AttributePath=UserName,AttributeValue=ann@example.com")
    assert "get-inline-policy-for-permission-set" in keep
    assert keep.endswith("> BEFORE.json")
    statement = json.loads(shlex.split(deny)[1])
    assert statement["Condition"] == {"StringEquals": {"identitystore:userId": "USER_ID"}}
    assert put.endswith("--inline-policy file://MERGED.json")
    assert "inline policy of Admin" in step.text
    assert "putting keeps no earlier one: merge" in step.text
    assert "home region and in the account that administers it" in step.text
    assert len(step.text) <= 600  # more is folded on the page


def test_a_person_whose_id_is_known_is_shown_and_denied_by_it() -> None:
    uuid = "a1b2c3d4-1111-2222-3333-444455556666"
    steps = next_steps(
        suspicion(call("sso:ListAccounts", key=""), principal=f"{ACCOUNT}:identitycenter/{uuid}", human=uuid)
    )
    shown = commands(steps, "contain")
    assert f"aws identitystore describe-user --identity-store-id IDENTITY_STORE_ID --user-id {uuid}" in shown
    assert f'"identitystore:userId":"{uuid}"' in shown
    assert "list-users" not in shown


@pytest.mark.parametrize(
    ("principal", "asked"),
    [
        ("identitycenter/a1b2", "They are judged by what others do (not in the history): ask who gave them"),
        ("unknown/Unknown/ann", "They are judged by what others do (not in the history): ask who gave them"),
        ("user/ann", "It is judged by what others do (not in the history): ask who made it"),
    ],
)
def test_of_a_new_person_at_identity_center_no_one_is_asked_who_made_it(principal: str, asked: str) -> None:
    signed_in = suspicion(call("sso:Federate", key=""), principal=f"{ACCOUNT}:{principal}", human="ann")
    steps = next_steps(signed_in._replace(first_seen="not in the history"))
    assert asked in " ".join(each.text for each in steps if each.phase == "verify")


@pytest.mark.parametrize(
    ("action", "of_center"),
    [("sso:Federate", True), ("sso-oauth:CreateToken", True), ("s3:GetObject", False)],
)
def test_who_signed_in_at_identity_center_and_has_no_type_is_shut_out_there(
    action: str, of_center: bool
) -> None:
    """Older records of its portal name the person by the type Unknown: no trust policy names them."""
    signed_in = suspicion(
        call(action, key=""),
        principal=f"{ACCOUNT}:unknown/Unknown/ann%40example.com",
        human="ann@example.com",
    )
    [step] = [each for each in next_steps(signed_in) if each.phase == "contain"]
    assert ("end their sessions in IAM Identity Center" in step.text) is of_center
    assert ("AttributePath=UserName,AttributeValue=ann@example.com" in step.command) is of_center
    assert ("trust policy of every role" in step.text) is not of_center


def test_a_user_of_identity_center_is_asked_and_followed_by_the_id_that_records_have() -> None:
    """No record of such a sign-in has a user name to look up; ordinary sessions at roles may have it alone, and no id."""
    uuid = "a1b2c3d4-1111-2222-3333-444455556666"
    principal = f"{ACCOUNT}:identitycenter/{uuid}"
    listed = call("sso:ListAccounts", key="")
    steps = next_steps(suspicion(listed, principal=principal, human=uuid))
    [ask] = [step for step in steps if step.phase == "verify"]
    assert f"Ask the person who is user {uuid} of IAM Identity Center, by telephone" in ask.text
    assert f"describe-user --identity-store-id IDENTITY_STORE_ID --user-id {uuid}" in ask.command
    search = commands(steps, "extent")
    assert search.count("userIdentity.arn LIKE '%:assumed-role/AWSReservedSSO_%/USER_NAME' OR user") == 2
    assert "describe-user shows" in " ".join(step.text for step in steps if step.phase == "extent")
    assert "for source in signin.amazonaws.com sso.amazonaws.com; do" in search
    assert f"contains(CloudTrailEvent,'{uuid}')" in search
    assert f"userIdentity.onBehalfOf.userId IN ('{uuid}')" in search
    assert f"useridentity.onbehalfof.userid IN ('{uuid}')" in search
    steps = next_steps(suspicion(listed, principal=principal, human="ann@example.com"))
    assert any("Ask ann@example.com by telephone or in person" in step.text for step in steps)
    assert commands(steps, "extent").count("/AWSReservedSSO_%/ann@example.com' OR ") == 2
    assert "describe-user shows" not in " ".join(step.text for step in steps)


def test_a_token_of_a_pod_is_shut_out_at_the_role_and_looked_for_in_the_cluster() -> None:
    """Kubernetes is the provider, and has no identity to block: STS takes the token without asking the cluster."""
    provider = f"arn:aws:iam::{ACCOUNT}:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/A1"
    assumed = call("sts:AssumeRoleWithWebIdentity", key="", resource="role:irsa-exports")

    def contained(subject: str) -> str:
        principal = f"{ACCOUNT}:federated/{escape_key(provider)}/{escape_key(subject)}"
        return commands(next_steps(suspicion(assumed, principal=principal)), "contain")

    shown = contained("system:serviceaccount:exports:worker")
    assert "aws iam get-role --role-name irsa-exports --query Role.AssumeRolePolicyDocument" in shown
    assert "put-role-policy --role-name irsa-exports --policy-name AWSRevokeOlderSessions" in shown
    assert "kubectl get pods --namespace exports" in shown
    assert "spec.serviceAccountName=worker" in shown
    assert "list-roles" not in shown
    assert "--namespace NAMESPACE " in contained("system:serviceaccount:$(reboot):worker")
    for other in ("repo:o/r", "system:serviceaccount:exports", "system:serviceaccount:a:b:c"):
        assert "list-roles" in contained(other)


def test_the_question_names_the_gravest_new_call_and_goes_by_another_channel() -> None:
    events = (call("iam:ListUsers"), call("cloudtrail:StopLogging", {"name": "main"}, resource="trail:main"))
    [ask] = [
        step for step in next_steps(suspicion(*events, human="grace@example.com")) if step.phase == "verify"
    ]
    assert "grace@example.com by telephone or in person, not by mail" in ask.text
    assert "cloudtrail:StopLogging on trail:main" in ask.text


def test_where_no_call_is_more_than_minor_the_question_is_about_the_one_that_leads_the_title() -> None:
    """A title about a read, and a question about a write beside it, were two stories."""
    read, created = call("xray:GetTraceSummaries"), call("ecr:CreateRepository", resource="repository:a")
    tagged = call("ecr:TagResource")
    made = suspicion(read, created, tagged)._replace(
        questioned="xray:GetTraceSummaries, ecr:CreateRepository"
    )

    def question(lead: AlertEvent | None) -> str:
        [ask] = [step for step in next_steps(made._replace(lead=lead)) if step.phase == "verify"]
        return ask.text

    assert "about xray:GetTraceSummaries, ecr:CreateRepository at" in question(read)
    assert "about ecr:CreateRepository on repository:a and 1 other action at" in question(created)
    assert "about ecr:TagResource and 1 other action at" in question(tagged)
    assert "about ecr:CreateRepository on repository:a and 1 other action at" in question(None)


def test_the_question_goes_to_who_made_the_call_it_is_about_and_names_its_time_and_resource() -> None:
    """Two people at a role: the first event is another's, and so is a call of the same action that failed."""
    olga = call("iam:ListRoles", session="olga@example.com", resource="role:a")
    failed = call(
        "iam:AttachRolePolicy", session="olga@example.com", resource="role:b", error_code="AccessDenied"
    )
    made = replace(olga, session="nick@example.com", action="AttachRolePolicy", resource="role:c")
    made = replace(made, event_time=olga.event_time + timedelta(minutes=7))
    some = suspicion(olga, failed, made, principal=f"{ACCOUNT}:role/okta-poweruser", human="olga@example.com")
    for each in (some, some._replace(lead=made, human="nick@example.com")):
        [ask] = (step.text for step in next_steps(each) if step.phase == "verify")
        assert ask.startswith("Ask nick@example.com by telephone or in person")
        assert "about iam:AttachRolePolicy on role:c at 14:07 UTC" in ask


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ("s3:GetObject", "ec2:DeleteFlowLogs", "iam:ListUsers", "kms:DisableKey", "iam:CreateUser"),
            "about ec2:DeleteFlowLogs and 2 other actions at 14:00 UTC",
        ),
        (
            ("lambda:TagResource", "iam:CreateUser", "kms:DisableKey"),
            "about iam:CreateUser and 1 other action at",
        ),
        (("iam:ListUsers", "lambda:TagResource"), "about lambda:TagResource at"),
        (("iam:ListUsers",), "about iam:ListUsers at"),
    ],
)
def test_the_question_counts_the_other_new_calls_that_matter(names: tuple[str, ...], said: str) -> None:
    [ask] = [step for step in next_steps(suspicion(*map(call, names))) if step.phase == "verify"]
    assert said in ask.text


@pytest.mark.parametrize(("principal", "asked"), [("user/grace", True), ("role/web", True), ("root", False)])
def test_who_is_not_in_the_history_was_made_or_slept_and_root_was_not_made(
    principal: str, asked: bool
) -> None:
    some = suspicion(call("iam:CreateUser"), principal=f"{ACCOUNT}:{principal}")
    for each in (some, some._replace(first_seen="not in the history; first seen in the same hour")):
        [ask] = (step.text for step in next_steps(each) if step.phase == "verify")
        assert ("not in the history" in ask and "ask who made it or uses it again" in ask) is (
            asked and bool(each.first_seen)
        )
        assert "new" not in ask


def test_the_question_names_the_new_region_of_the_call_that_it_is_about() -> None:
    lead = call("ec2:RunInstances")
    some = suspicion(call("iam:ListUsers"), lead)
    for regions, said in (
        ({lead.event_id: "sa-east-1"}, " in sa-east-1 (new region) at 14:00"),
        ({}, " at 14:00"),
    ):
        [ask] = (
            step.text for step in next_steps(some._replace(new_regions=regions)) if step.phase == "verify"
        )
        assert "about ec2:RunInstances" in ask
        assert said in ask
        assert ("new region" in ask) == bool(regions)


def test_the_question_counts_as_from_a_new_network_what_came_from_there() -> None:
    """A thief's two calls at a pipeline's role, which made two others that were new as well."""
    made = [call(f"iam:{each}") for each in ("CreateAccessKey", "CreateUser", "CreateRole", "PutRolePolicy")]
    made = [replace(each, event_id=str(at)) for at, each in enumerate(made)]
    origins = {each.event_id: " from 159.65.0.0/16 (new network)" for each in made[:2]}
    some = suspicion(*made)._replace(new_origins=origins, lead=made[0])
    [ask] = (step.text for step in next_steps(some) if step.phase == "verify")
    assert (
        "about iam:CreateAccessKey and 1 other action from 159.65.0.0/16 (new network) "
        "and 2 other actions from elsewhere" in ask
    )
    elsewhere = some._replace(new_regions={"1": "sa-east-1"})  # the thief's second call
    [apart] = (step.text for step in next_steps(elsewhere) if step.phase == "verify")
    assert (
        "about iam:CreateAccessKey from 159.65.0.0/16 (new network) and 1 other action in other regions "
        "and 2 other actions from elsewhere at" in apart
    )
    [usual] = (step.text for step in next_steps(some._replace(new_origins={})) if step.phase == "verify")
    assert "about iam:CreateAccessKey and 3 other actions at" in usual


def test_the_question_names_a_new_network_and_a_new_tool_of_the_call_that_it_is_about() -> None:
    lead = call("ec2:RunInstances")
    origin = " from 159.65.0.0/16 (new network), new tool TruffleHog"
    some = suspicion(call("iam:ListUsers"), lead)._replace(new_origins={lead.event_id: origin})
    [ask] = (step.text for step in next_steps(some) if step.phase == "verify")
    assert f"about ec2:RunInstances{origin} at 14:00" in ask


def test_where_no_call_can_do_harm_the_question_gives_the_time_of_the_call_that_leads() -> None:
    first = call("sts:GetCallerIdentity")
    lead = replace(call("iam:ListUsers"), event_time=first.event_time + timedelta(minutes=7))
    [ask] = [
        step for step in next_steps(suspicion(first, lead)._replace(lead=lead)) if step.phase == "verify"
    ]
    assert "about iam:ListUsers at 14:07 UTC" in ask.text


def test_a_notable_call_that_does_not_lead_the_title_leads_no_question() -> None:
    read, change, severe = (
        call(name) for name in ("ses:GetAccount", "lambda:UpdateFunctionCode", "cloudtrail:StopLogging")
    )

    def question(*events: AlertEvent, lead: AlertEvent) -> str:
        made = suspicion(*events)._replace(questioned="ses:GetAccount from a new network", lead=lead)
        return next(step.text for step in next_steps(made) if step.phase == "verify")

    assert "about ses:GetAccount from a new network at" in question(read, change, lead=read)
    assert "about lambda:UpdateFunctionCode at" in question(read, change, lead=change)
    assert "about cloudtrail:StopLogging and 1 other action at" in question(read, change, severe, lead=read)


def test_where_no_person_is_recorded_the_question_gives_the_names_of_sessions() -> None:
    """A role that many people share: a session says who it was, whom a thief wants to be, or which function."""
    made = [call("iam:CreateUser", key=ASIA, session=f"op-{each}") for each in "abbcdefg"]
    some = suspicion(*made, principal=f"{ACCOUNT}:role/msp")
    [ask] = [step for step in next_steps(some) if step.phase == "verify"]
    chosen = "chosen by the caller or the service that opened the session"
    assert f" Session names ({chosen}): op-b, op-a, op-c, op-d, op-e and 2 more. Until" in ask.text
    long = suspicion(replace(made[0], session="x" * 300), principal=f"{ACCOUNT}:role/msp")
    [ask] = [step for step in next_steps(long) if step.phase == "verify"]
    assert f"{'x' * 64}." in ask.text
    assert "x" * 65 not in ask.text
    for each in (suspicion(call("iam:CreateUser", session="")), some._replace(human="ann@example.com")):
        assert not any("Session names" in step.text for step in next_steps(each))


def test_the_owner_of_a_caller_from_another_account_is_that_account() -> None:
    some = suspicion(
        call("sts:AssumeRole", resource="role:scan"), principal="976280145156:account/AROAPGA3KWCA"
    )
    [ask] = [step for step in next_steps(some) if step.phase == "verify"]
    assert ask.text.startswith(
        "Ask the owner of account 976280145156 (its caller AROAPGA3KWCA), by telephone or in person, "
        "about sts:AssumeRole on role:scan at"
    )


@pytest.mark.parametrize("knows_account", [True, False])
def test_what_callers_without_credentials_reached_is_closed_and_its_owner_asked(knows_account: bool) -> None:
    called = (call("s3:GetObject", key="", resource=each) for each in ("bucket:site", "bucket:$(id)", ""))
    some = suspicion(*called, principal=f"{ACCOUNT}:account/anonymous")
    steps = next_steps(some._replace(knows_account=knows_account, first_seen="new"))
    [contain] = [step for step in steps if step.phase == "contain"]
    assert contain.text.startswith(f"In account {ACCOUNT}: close to the public what was reached")
    assert contain.command.startswith("aws s3api put-public-access-block --bucket site --public")
    assert contain.command.count("\n") == 0
    [ask] = [step for step in steps if step.phase == "verify"]
    assert ask.text.startswith("The calls had no credentials. Ask the owner of bucket:site, by telephone")
    assert "stolen" not in ask.text
    assert "sharedEventID" not in ask.text
    assert "There is no credential to follow." in next(step.text for step in steps if step.phase == "extent")


def test_the_question_about_a_sign_in_says_that_it_was_without_mfa() -> None:
    record = {
        "eventName": "ConsoleLogin",
        "userIdentity": {"type": "Root"},
        "responseElements": {"ConsoleLogin": "Success"},
        "additionalEventData": {"MFAUsed": "No"},
    }
    login = call("signin:ConsoleLogin", key="")
    for each, said in ((replace(login, raw=json.dumps(record)), True), (login, False)):
        steps = next_steps(suspicion(each, principal=f"{ACCOUNT}:root"))
        [ask] = [step for step in steps if step.phase == "verify"]
        assert ("about signin:ConsoleLogin without MFA at" in ask.text) is said


def other_account(**fields: Any) -> Suspicion:
    made = call("sts:AssumeRole", key="", resource="role:deploy", session="ann@example.com")
    raw = json.dumps({"recipientAccountId": ACCOUNT, "sharedEventID": "7c5e1a2b-0000-4000-8000-000000000001"})
    some = suspicion(replace(made, raw=raw), principal="151912345678:account/AROAEXAMPLE", **fields)
    return some._replace(human="ann@example.com")


def test_a_caller_from_an_account_of_ones_own_is_looked_up_in_its_log() -> None:
    shared = "7c5e1a2b-0000-4000-8000-000000000001"
    steps = next_steps(other_account()._replace(knows_account=True))
    [contain] = [step for step in steps if step.phase == "contain"]
    assert contain.text == (
        "In account 151912345678: the caller's account is one of the organisation's own: find the caller's own record in its "
        "log, by the same sharedEventID, and contain the principal that it names."
    )
    assert "AttributeKey=EventName,AttributeValue=AssumeRole" in contain.command
    assert f"contains(CloudTrailEvent,'{shared}')" in contain.command
    [ask] = [step for step in steps if step.phase == "verify"]
    assert ask.text.startswith("Ask ann@example.com by telephone")
    assert (
        f"one of the organisation's own: the record with sharedEventID {shared} in its log names" in ask.text
    )


def test_a_caller_from_an_unknown_account_is_shut_out_and_its_session_is_no_ones_name() -> None:
    steps = next_steps(other_account())
    [contain] = [step for step in steps if step.phase == "contain"]
    assert contain.text.startswith("Deny account 151912345678 in the trust policy of every role")
    assert "Where the account is one of the organisation's own, find the caller's own record" in contain.text
    [ask] = [step for step in steps if step.phase == "verify"]
    assert ask.text.startswith("Ask the owner of account 151912345678 (its caller AROAEXAMPLE),")
    assert "Session names (chosen" in ask.text
    assert ": ann@example.com." in ask.text
    assert "the organisation's own" not in ask.text


def test_the_sessions_that_another_account_opened_are_revoked() -> None:
    made = replace(call("sts:AssumeRole", key=""), resource="role:snowflake")
    [contain] = [
        step
        for step in next_steps(suspicion(made, principal="151912345678:account/AROAEXAMPLE"))
        if step.phase == "contain"
    ]
    assert "put-role-policy --role-name snowflake --policy-name AWSRevokeOlderSessions" in contain.command
    looked = replace(made, action="GetRole")
    steps = next_steps(suspicion(looked, principal="151912345678:account/AROAEXAMPLE"))
    assert "AWSRevokeOlderSessions" not in commands(steps, "contain"), "it assumed none"


@pytest.mark.parametrize("raw", ["", "{", '{"sharedEventID": [1]}', '{"sharedEventID": "$(id)"}'])
def test_an_odd_shared_event_id_is_no_part_of_a_command(raw: str) -> None:
    some = other_account()._replace(knows_account=True)
    odd = replace(some.events[0], raw=raw)
    steps = next_steps(some._replace(events=(odd,), lead=odd))
    [contain] = [step for step in steps if step.phase == "contain"]
    assert "contains(CloudTrailEvent,'SHARED_EVENT_ID')" in contain.command
    [ask] = [step for step in steps if step.phase == "verify"]
    assert "the record with the same sharedEventID in its log" in ask.text


def test_the_question_gives_no_count_where_the_actions_are_cut() -> None:
    some = suspicion(call("iam:CreateUser"), call("kms:DisableKey"))._replace(cut=True)
    [ask] = [step for step in next_steps(some) if step.phase == "verify"]
    assert "about iam:CreateUser and other actions at" in ask.text


@pytest.mark.parametrize(
    ("urgency", "phases"),
    [(50, ("contain", "verify")), (49, ("verify", "contain")), (5, ("verify", "contain"))],
)
def test_containing_comes_first_from_a_high_severity_on_and_asking_below(
    urgency: int, phases: tuple[str, str]
) -> None:
    steps = next_steps(suspicion(call("iam:CreateUser"), urgency=urgency))
    assert tuple(step.phase for step in steps[:2]) == phases
    contain = next(step for step in steps if step.phase == "contain")
    assert f"--access-key-id {AKIA} --status Inactive" in contain.command
    assert contain.text.startswith(f"In account {ACCOUNT}, if no one confirms it: deactivate") is (
        phases[0] == "verify"
    )
    assert any("treat it as stolen" in step.text for step in steps) is (phases[0] == "contain")


@pytest.mark.parametrize(
    ("name", "fields", "new_origin", "first"),
    [
        ("s3:GetObject", {}, False, "verify"),
        ("s3:GetObject", {}, True, "contain"),
        ("secretsmanager:GetSecretValue", {}, False, "verify"),
        ("iam:AttachRolePolicy", {}, False, "contain"),
        ("iam:AttachRolePolicy", {"error_code": "AccessDenied"}, False, "verify"),
    ],
)
def test_an_amount_or_reads_from_the_usual_place_are_asked_about_first(
    name: str, fields: dict[str, Any], new_origin: bool, first: str
) -> None:
    some = suspicion(call(name, **fields), urgency=90)._replace(from_new_origin=new_origin)
    assert next_steps(some)[0].phase == first


@pytest.mark.parametrize("human", ["ann.lee", "ann@example.com"])
def test_a_person_known_behind_a_role_is_asked_and_no_owner_of_the_role(human: str) -> None:
    some = suspicion(call("s3:GetObject", session=""), principal=f"{ACCOUNT}:role/support", human=human)
    [ask] = [each for each in next_steps(some) if each.phase == "verify"]
    assert ask.text.startswith(f"Ask {human} by telephone or in person")


@pytest.mark.parametrize("human", ["i-0123456789abcdef0", "backup_job", "worker.7", ""])
def test_a_machine_behind_a_role_is_not_asked(human: str) -> None:
    some = suspicion(call("s3:GetObject"), principal=f"{ACCOUNT}:role/worker", human=human)
    [ask] = [each for each in next_steps(some) if each.phase == "verify"]
    assert ask.text.startswith(f"Ask the owner of {ACCOUNT}:role/worker")


@pytest.mark.parametrize("new_origin", [True, False])
def test_who_may_have_done_it_themselves_is_not_warned_before_their_manager_is_asked(
    new_origin: bool,
) -> None:
    some = suspicion(call("s3:GetObject"), principal=f"{ACCOUNT}:role/okta/ann", human="ann@example.com")
    [ask] = [
        each.text for each in next_steps(some._replace(from_new_origin=new_origin)) if each.phase == "verify"
    ]
    assert ("ask their manager first" in ask) is not new_origin


def test_a_new_address_range_of_a_known_network_is_not_called_usual() -> None:
    made = call("s3:GetObject")
    some = suspicion(made, principal=f"{ACCOUNT}:role/okta/ann", human="ann@example.com")
    some = some._replace(
        from_new_origin=False, new_origins={made.event_id: " from 192.0.2.0/24 (new address range)"}
    )
    [ask] = [each.text for each in next_steps(some) if each.phase == "verify"]
    assert "Network and tool are usual" not in ask


def test_the_extent_is_searched_by_key_from_a_day_before_in_its_regions_and_where_global_services_log() -> (
    None
):
    first = call("iam:ListUsers", region="eu-west-1")
    steps = next_steps(suspicion(first))
    shown = commands(steps, "extent")
    [listed, *_] = (step.text for step in steps if step.phase == "extent")
    assert "in the alert's regions and where" in listed
    assert "Add the other regions that are in use" in listed, "the command has those of the alert alone"
    assert "for region in eu-west-1 us-east-1; do" in shown
    assert f"AttributeKey=AccessKeyId,AttributeValue={AKIA}" in shown
    assert "--start-time 2026-03-03T14:00:00Z" in shown
    assert f"useridentity.accesskeyid IN ('{AKIA}')" in shown
    assert "start-query-execution" in shown
    assert "EVENT_DATA_STORE_ID" in shown


@pytest.mark.parametrize(
    ("region", "regions"),
    [
        ("cn-northwest-1", "cn-northwest-1 cn-north-1"),
        ("cn-north-1", "cn-north-1"),
        ("us-gov-east-1", "us-gov-east-1 us-gov-west-1"),
        ("us-east-1", "us-east-1"),
        ("", "us-east-1"),
    ],
)
def test_global_services_are_searched_where_they_log_in_the_alerts_partition(
    region: str, regions: str
) -> None:
    steps = next_steps(suspicion(call("iam:ListUsers", region=region)))
    [search, *_] = (step for step in steps if step.phase == "extent")
    assert f"for region in {regions}; do" in search.command
    assert f"where global services log ({regions.split()[-1]})" in search.text


def by_root(name: str, context: dict[str, Any] | None = None) -> AlertEvent:
    made = call(name, key=ASIA)
    record = json.loads(made.raw) | {"userIdentity": {"type": "Root", "sessionContext": context}}
    return replace(made, raw=json.dumps(record))


def contain_root(*events: AlertEvent) -> list[NextStep]:
    return [
        step
        for step in next_steps(suspicion(*events, principal=f"{ACCOUNT}:root"))
        if step.phase == "contain"
    ]


def test_the_root_user_is_denied_in_every_partition_and_it_is_said_whose_is_not() -> None:
    [contain] = contain_root(by_root("iam:ListUsers"))
    words = shlex.split(contain.command.splitlines()[0])
    [statement] = json.loads(words[words.index("--content") + 1])["Statement"]
    assert statement["Condition"] == {"ArnLike": {"aws:PrincipalArn": "arn:*:iam::*:root"}}
    assert "does not bind the management account's own root user" in contain.text


def test_of_a_root_session_by_assume_root_who_opened_it_is_contained() -> None:
    """A member account's root user often has no password and no keys."""
    assumed = by_root("s3:DeleteBucketPolicy", {"assumedRoot": "true"})
    [contain] = contain_root(assumed)
    assert contain.text.startswith("Find who called sts:AssumeRoot in the organisation's management account")
    assert "for name in AssumeRoot; do" in contain.command
    assert f"contains(CloudTrailEvent,'{ASIA}')" in contain.command
    assert "Change the root user's password" not in contain.text
    both = contain_root(assumed, by_root("iam:CreateAccessKey", {"attributes": {}}))
    assert ["AssumeRoot" in step.text for step in both] == [True, False]
    without_record = contain_root(replace(assumed, raw=""))
    assert without_record[0].text.startswith("Where the records say sessionContext.assumedRoot, find who")
    assert "password" in without_record[1].text


@pytest.mark.parametrize(
    "action", ["AssumeRole", "AssumeRoleWithSAML", "GetFederationToken", "GetSessionToken"]
)
def test_sessions_that_it_opened_are_followed_by_what_it_called_and_by_its_key(action: str) -> None:
    steps = next_steps(suspicion(call(f"sts:{action}")))
    [follow] = (step for step in steps if "Follow the sessions" in step.text)
    assert f"  for name in {action}; do" in follow.command
    assert 'AttributeKey=EventName,AttributeValue="$name"' in follow.command
    assert f"--query \"Events[?contains(CloudTrailEvent,'{AKIA}')].CloudTrailEvent\"" in follow.command


@pytest.mark.parametrize(
    ("principal", "names"),
    [
        ("user/grace", ["grace"]),
        ("root", ["root"]),
        ("role/web", ["build-7", "build-8"]),
        ("role/AWSServiceRoleForAutoScaling", ["build-7", "build-8"]),
        ("role/Admin/build-7", ["build-7", "build-8"]),
    ],
)
def test_without_a_key_the_extent_is_searched_by_what_cloudtrail_calls_the_user(
    principal: str, names: list[str]
) -> None:
    """Of a role that is the session's name: a search for the role's would find nothing."""
    events = (
        call("iam:ListUsers", key="", session="build-7"),
        call("iam:ListRoles", key="", session="build-8"),
    )
    steps = next_steps(suspicion(*events, principal=f"{ACCOUNT}:{principal}"))
    [search, *_] = (step for step in steps if step.phase == "extent")
    assert [
        line.rpartition("AttributeKey=Username,AttributeValue=")[2]
        for line in search.command.splitlines()[1:-1]
    ] == names


def test_a_federated_principal_is_named_as_the_log_and_its_owner_name_it() -> None:
    """Its key has the subject without the run, and escaped; its calls have no access key."""
    provider = f"arn:aws:iam::{ACCOUNT}:oidc-provider/token.actions.githubusercontent.com"
    principal = f"{ACCOUNT}:federated/{escape_key(provider)}/{escape_key('repo:evil-fork/web')}"
    runs = ("repo:evil-fork/web:ref:refs/heads/main", "repo:evil-fork/web:pull_request", "repo:x $(reboot)")
    events = []
    for run in runs:
        made = call("sts:AssumeRoleWithWebIdentity", key="", session="")
        record = json.loads(made.raw) | {"userIdentity": {"type": "WebIdentityUser", "userName": run}}
        events.append(replace(made, raw=json.dumps(record)))
    steps = next_steps(suspicion(*events, principal=principal, human=runs[0]))
    search = next(step.command for step in steps if step.phase == "extent")
    assert all(f"AttributeKey=Username,AttributeValue={run}\n" in search for run in runs[:2])
    assert "reboot" not in search
    assert "USER_NAME" not in search
    [ask] = (step.text for step in steps if step.phase == "verify")
    assert ask.startswith(
        f"Ask the owner of repo:evil-fork/web (token.actions.githubusercontent.com) in account {ACCOUNT}, by telephone"
    )


def test_what_was_done_is_undone_by_name_the_gravest_first_and_what_failed_is_not() -> None:
    events = (
        call("secretsmanager:GetSecretValue", {"secretId": "prod/db"}, region="eu-west-1"),
        call("iam:CreateUser", {"userName": "backdoor"}),
        replace(call("kms:DisableKey", {"keyId": "abc"}), error_code="AccessDenied"),
    )
    undone = [step for step in next_steps(suspicion(*events)) if step.phase == "undo"]
    assert ["backdoor" in undone[0].command, "prod/db" in undone[1].command] == [True, True]
    assert not any("abc" in step.command for step in undone)


PLAIN = {"withDecryption": True}


@pytest.mark.parametrize(
    ("action", "request_", "command"),
    [
        (
            "GetParameter",
            {"name": "/prod/db"},
            "put-parameter --region eu-west-1 --name /prod/db --overwrite",
        ),
        (
            "GetParameterHistory",
            {"name": "/prod/db"},
            "put-parameter --region eu-west-1 --name /prod/db --overwrite",
        ),
        ("GetParameters", {"names": ["/prod/db", "/prod/key"]}, "--names /prod/db /prod/key "),
        ("GetParametersByPath", {"path": "/prod"}, "--path /prod --recursive "),
    ],
)
def test_a_parameter_that_was_read_in_plain_text_is_changed_as_a_secret_is(
    action: str, request_: dict[str, Any], command: str
) -> None:
    steps = next_steps(suspicion(call(f"ssm:{action}", request_ | PLAIN, region="eu-west-1")))
    (step,) = (step for step in steps if step.phase == "undo")
    assert "Treat the parameter" in step.text
    assert command in step.command


def test_what_only_read_is_not_to_be_set_back() -> None:
    """By its verb, or as its record says; what it read is treated as known."""
    read = call("rds:DownloadDBLogFilePortion")
    steps = next_steps(
        suspicion(
            call("sts:GetSessionToken"),
            replace(read, raw=json.dumps(json.loads(read.raw) | {"readOnly": True})),
            call("secretsmanager:BatchGetSecretValue"),
            call("macie:UpdateMacieSession"),
        )
    )
    assert [step.text for step in steps if step.phase == "undo"] == [
        "Compare with your infrastructure code or AWS Config, and set back what was changed by "
        "macie:UpdateMacieSession.",
        "Treat as known, and change where it is used, what was read by rds:DownloadDBLogFilePortion, "
        "secretsmanager:BatchGetSecretValue.",
    ]


def test_what_was_taken_in_bulk_is_listed_for_those_who_must_be_told() -> None:
    download = replace(call("s3:GetObject"), resource="bucket:lake")
    actions = alert_impact([download], (), (), in_bulk={"s3:GetObject": ""})
    steps = next_steps(suspicion(download)._replace(actions=actions))
    assert [step.text for step in steps if step.phase == "undo"] == [
        "s3:GetObject on bucket:lake. What was taken cannot be called back: list what it was and whose data it holds, "
        "for those who must be told."
    ]


@pytest.mark.parametrize(
    ("name", "request_", "command"),
    [
        (
            "securityhub:DisassociateMembers",
            {"accountIds": ["210987654321"]},
            "aws securityhub invite-members --region eu-west-1 --account-ids 210987654321",
        ),
        (
            "macie2:DisassociateMember",
            {"id": "210987654321"},
            "aws macie2 create-invitations --region eu-west-1 --account-ids 210987654321",
        ),
        (
            "kms:DisconnectCustomKeyStore",
            {"customKeyStoreId": "cks-1a2b"},
            "aws kms connect-custom-key-store --region eu-west-1 --custom-key-store-id cks-1a2b",
        ),
        (
            "lightsail:OpenInstancePublicPorts",
            {"instanceName": "web", "portInfo": {"fromPort": 22, "toPort": 22, "protocol": "tcp"}},
            "aws lightsail close-instance-public-ports --region eu-west-1 --instance-name web "
            "--port-info fromPort=22,toPort=22,protocol=tcp",
        ),
        (
            "datasync:CreateLocationAzureBlob",
            {"containerUrl": "https://x.example"},
            "aws datasync delete-location --region eu-west-1 --location-arn LOCATION_ARN",
        ),
        (
            "backup:DeleteBackupSelection",
            {"backupPlanId": "p-1", "selectionId": "s-1"},
            "aws backup create-backup-selection --region eu-west-1 --backup-plan-id p-1 "
            "--backup-selection EARLIER_BACKUP_SELECTION",
        ),
        (
            "cur:PutReportDefinition",
            {"reportDefinition": {"reportName": "bills", "s3Bucket": "elsewhere"}},
            "aws cur delete-report-definition --region us-east-1 --report-name bills",
        ),
        (
            "lambda:UpdateFunctionConfiguration20150331v2",
            {"functionName": "quotes", "layers": ["arn:aws:lambda:eu-west-1:210987654321:layer:metrics:3"]},
            "aws lambda update-function-configuration --region eu-west-1 --function-name quotes --layers EARLIER_LAYERS",
        ),
    ],
)
def test_what_was_opened_or_taken_out_is_set_back_by_the_operation_that_does_the_opposite(
    name: str, request_: dict[str, Any], command: str
) -> None:
    assert command in commands(next_steps(suspicion(call(name, request_, region="eu-west-1"))), "undo")


@pytest.mark.parametrize(
    ("action", "request_", "response", "last"),
    [
        (
            "cloudformation:CreateStackInstances",
            {
                "stackSetName": "base",
                "deploymentTargets": {"organizationalUnitIds": ["ou-1", "ou-2"]},
                "regions": ["us-east-1", "eu-west-1"],
                "operationId": "a23e",
            },
            {"operationId": "a23e"},
            "delete-stack-instances --region r --stack-set-name base --regions us-east-1 eu-west-1 --no-retain-stacks "
            "--deployment-targets OrganizationalUnitIds=ou-1,ou-2",
        ),
        (
            "cloudformation:CreateStackInstances",
            {
                "stackSetName": "base",
                "deploymentTargets": {
                    "organizationalUnitIds": ["ou-1"],
                    "accounts": ["1", "2"],
                    "accountFilterType": "INTERSECTION",
                },
                "regions": ["us-east-1"],
                "callAs": "DELEGATED_ADMIN",
            },
            {},
            "delete-stack-instances --region r --stack-set-name base --regions us-east-1 --no-retain-stacks "
            "--deployment-targets OrganizationalUnitIds=ou-1,Accounts=1,2,AccountFilterType=INTERSECTION "
            "--call-as DELEGATED_ADMIN",
        ),
        (
            "cloudformation:CreateStackInstances",
            {"stackSetName": "base", "accounts": ["1", "2"], "regions": ["us-east-1"]},
            {},
            "delete-stack-instances --region r --stack-set-name base --regions us-east-1 --no-retain-stacks --accounts 1 2",
        ),
        (
            "secretsmanager:UpdateSecretVersionStage",
            {
                "secretId": "s",
                "versionStage": "AWSCURRENT",
                "moveToVersionId": "new",
                "removeFromVersionId": "old",
            },
            {},
            "update-secret-version-stage --region r --secret-id s --version-stage AWSCURRENT "
            "--move-to-version-id old --remove-from-version-id new",
        ),
        (
            "secretsmanager:UpdateSecretVersionStage",
            {"secretId": "s", "versionStage": "AWSPREVIOUS", "moveToVersionId": "new"},
            {},
            "update-secret-version-stage --region r --secret-id s --version-stage AWSPREVIOUS --remove-from-version-id new",
        ),
        (
            "secretsmanager:PutSecretValue",
            {"secretId": "s", "clientRequestToken": "new"},
            {},
            "update-secret-version-stage --region r --secret-id s --version-stage AWSCURRENT "
            "--move-to-version-id EARLIER_VERSION_ID --remove-from-version-id new",
        ),
        (
            "ssm:ResumeSession",
            {"sessionId": "ann-0a1b"},
            {},
            "ssm terminate-session --region r --session-id ann-0a1b",
        ),
        (
            "ses:PutAccountDetails",
            {"mailType": "MARKETING", "websiteURL": "https://x.example"},
            {},
            "put-account-details --region r --mail-type EARLIER_MAIL_TYPE --website-url EARLIER_WEBSITE_URL",
        ),
    ],
)
def test_the_earlier_state_is_given_back_and_nothing_of_the_thiefs_is_kept(
    action: str, request_: dict[str, Any], response: dict[str, Any], last: str
) -> None:
    step = undo_step(action, [Call(request_, response, "r", ACCOUNT)])
    assert step is not None
    assert step.command.splitlines()[-1].endswith(last)


def test_what_aws_writes_in_place_of_a_name_stands_in_no_command() -> None:
    step = undo_step("iam:CreateUser", [Call({"userName": "HIDDEN_DUE_TO_SECURITY_REASONS"})])
    assert step is not None
    assert "--user-name USER_NAME --policy-name" in step.command


@pytest.mark.parametrize(
    ("url", "region", "arn"),
    [
        ("https://token.example.com", "us-east-1", f"arn:aws:iam::{ACCOUNT}:oidc-provider/token.example.com"),
        (
            "https://id.example.com/a/",
            "cn-north-1",
            f"arn:aws-cn:iam::{ACCOUNT}:oidc-provider/id.example.com/a",
        ),
        ("https://id.example.com/$(id)", "us-east-1", "OPEN_I_D_CONNECT_PROVIDER_ARN"),
        ("http://id.example.com", "us-east-1", "OPEN_I_D_CONNECT_PROVIDER_ARN"),
        (["https://id.example.com"], "us-east-1", "OPEN_I_D_CONNECT_PROVIDER_ARN"),
    ],
)
def test_an_identity_provider_has_the_arn_of_its_address(url: Any, region: str, arn: str) -> None:
    step = undo_step("iam:CreateOpenIDConnectProvider", [Call({"url": url}, {}, region, ACCOUNT)])
    assert step is not None
    assert step.command.endswith(f"delete-open-id-connect-provider --open-id-connect-provider-arn {arn}")


@pytest.mark.parametrize(
    ("request_", "attribute"),
    [
        ({"disableApiTermination": {"value": True}}, "disableApiTermination"),
        ({"userData": "<sensitiveDataRemoved>"}, "userData"),
        ({"attribute": "instanceType", "value": "m5.large"}, "instanceType"),
        ({"groupSet": {"items": [{"groupId": "sg-1"}]}}, "ATTRIBUTE"),
        ({"attribute": "$(id)"}, "ATTRIBUTE"),
    ],
)
def test_a_machine_is_looked_at_by_the_attribute_that_was_changed(
    request_: dict[str, Any], attribute: str
) -> None:
    step = undo_step("ec2:ModifyInstanceAttribute", [Call({"instanceId": "i-1"} | request_, {}, "r")])
    assert step is not None
    assert step.command.splitlines() == [
        f"aws ec2 describe-instance-attribute --region r --instance-id i-1 --attribute {attribute}",
        f"aws ec2 modify-instance-attribute --region r --instance-id i-1 --attribute {attribute} --value EARLIER_VALUE",
    ]


def test_an_activation_is_deleted_with_the_machines_that_joined_by_it() -> None:
    step = undo_step("ssm:CreateActivation", [Call({"iamRole": "ssm"}, {"activationId": "a-1"}, "r")])
    assert step is not None
    assert step.command.splitlines() == [
        "aws ssm delete-activation --region r --activation-id a-1",
        "aws ssm describe-instance-information --region r --filters Key=ActivationIds,Values=a-1",
        "aws ssm deregister-managed-instance --region r --instance-id MANAGED_NODE_ID",
    ]


def test_a_report_of_bills_is_deleted_and_its_bucket_named() -> None:
    request_ = {"reportDefinition": {"reportName": "bills", "s3Bucket": "elsewhere"}}
    [step] = [
        step
        for step in next_steps(suspicion(call("cur:PutReportDefinition", request_)))
        if step.phase == "undo"
    ]
    assert "It names bucket elsewhere." in step.text


def test_an_image_that_was_made_is_deregistered_and_its_snapshots_deleted() -> None:
    step = undo_step("ec2:CreateImage", [Call({"instanceId": "i-1"}, {"imageId": "ami-1"}, "r")])
    assert step is not None
    assert step.command.splitlines()[1:] == [
        "aws ec2 deregister-image --region r --image-id ami-1",
        "aws ec2 delete-snapshot --region r --snapshot-id SNAPSHOT_ID",
    ]


def test_of_more_secrets_than_there_are_steps_for_none_is_to_be_set_back() -> None:
    graver = [name for name in undo_table() if name.startswith("iam:")]
    events = [call(name) for name in (*graver, "secretsmanager:GetSecretValue")]
    *_, last = next_steps(suspicion(*events))
    assert len(graver) >= MAX_UNDO_STEPS
    assert (
        last.text
        == "Treat as known, and change where it is used, what was read by secretsmanager:GetSecretValue."
    )


def test_what_supporting_events_did_is_undone_and_followed_and_asked_about_where_an_own_call_failed() -> None:
    own = call("iam:ListUsers")
    refused = call(
        "secretsmanager:GetSecretValue", {"secretId": "a"}, error_code="AccessDenied", resource="secret:a"
    )
    support = (
        call(
            "secretsmanager:GetSecretValue",
            {"secretId": "prod/db"},
            resource="secret:prod/db",
            region="eu-north-1",
        ),
        call("sts:AssumeRole", {"roleArn": "x"}, key=ASIA),
    )
    some = suspicion(own, refused)
    rows = alert_impact(support, {each.action_name for each in support}, ())
    some = some._replace(actions=with_support(some.actions, rows), supporting=support)
    steps = next_steps(some)
    [undo] = (step for step in steps if step.phase == "undo")
    assert undo.text.startswith(
        f"In account {ACCOUNT}: secretsmanager:GetSecretValue on secret:prod/db (unusual in the same hour). Treat"
    )
    assert undo.command == "aws secretsmanager rotate-secret --region eu-north-1 --secret-id prod/db"
    [ask] = (step.text for step in steps if step.phase == "verify")
    assert "about secretsmanager:GetSecretValue on secret:prod/db at" in ask, "the own call of it was refused"
    assert "AssumeRole" not in ask
    extent = commands(steps, "extent")
    assert "eu-north-1" in extent
    assert "for name in AssumeRole; do" in extent
    assert ASIA in extent, "the key that opened the session"
    assert ASIA not in commands(steps, "contain")


def test_what_was_only_tried_is_no_part_of_what_is_undone() -> None:
    """Of a user whose making was refused there is nothing to delete, and no responder should look for it."""
    made, other, refused = (
        replace(call("iam:CreateUser", {"userName": name}, resource=f"user:{name}"), event_id=name)
        for name in ("eve", "mal", "bob")
    )
    refused = replace(refused, error_code="AccessDenied")
    [undo] = (step for step in next_steps(suspicion(made, refused, other)) if step.phase == "undo")
    assert undo.text.startswith(f"In account {ACCOUNT}: iam:CreateUser on user:eve, user:mal. ")
    assert "bob" not in undo.text + undo.command
    opened = call("sts:AssumeRole", {"roleArn": "x"}, resource="role:Operator")
    row = replace(alert_impact([opened], {"sts:AssumeRole"}, ())[0], calls=2, failed=1)
    row = replace(row, resources=("role:Operator in account 210987654321", "role:Admin for account 1"))
    assert playbook_undo_steps._on_done(row, [opened]).resources == ("role:Operator in account 210987654321",)


def test_what_the_robbed_owner_changed_themselves_is_not_undone_unasked() -> None:
    """A thief comes from a new network; what the owner did in that hour from their own is listed last, with that word."""
    own = call("iam:CreateUser", {"userName": "eve"}, resource="user:eve", source_address="194.158.3.4")
    theirs = call(
        "ec2:AuthorizeSecurityGroupIngress",
        {"groupId": "sg-1"},
        resource="security group:sg-1",
        source_address="198.54.7.191",
    )
    rule = call("events:PutRule", {"name": "r"}, resource="rule:r", source_address="194.158.3.4")
    some = suspicion(own)

    def undone(*support: AlertEvent, new_places: tuple[str, ...] = ()) -> list[str]:
        rows = alert_impact(support, (), new_places)
        beside = some._replace(actions=with_support(some.actions, rows), supporting=support)
        return [step.text for step in next_steps(beside) if step.phase == "undo"]

    word = "(unusual in the same hour, but from 198.54.7.191: ask first whether it was the owner's own work)"
    first, second, last = undone(theirs, rule)
    assert first.startswith(f"In account {ACCOUNT}: iam:CreateUser on user:eve. ")
    assert "events:PutRule on rule:r (unusual in the same hour)." in second
    assert f"ec2:AuthorizeSecurityGroupIngress on security group:sg-1 {word}." in last
    moved = " ".join(undone(theirs, new_places=(theirs.event_id,)))
    assert "sg-1 (unusual in the same hour)." in moved, "from another new network it may be the thief"


def test_secrets_are_to_be_rotated_also_by_who_reads_others_in_usual_work() -> None:
    read = "secretsmanager:GetSecretValue"
    own = call(read, {"secretId": "prod/db"})
    beside = replace(call(read, {"secretId": "prod/mail"}), event_id="beside")
    later = replace(
        call(read, {"secretId": "own"}), event_id="later", event_time=own.event_time + timedelta(hours=1)
    )
    some = suspicion(own)._replace(actions=alert_impact([own], (), ()), supporting=(beside, later))
    rotate = [
        f"aws secretsmanager rotate-secret --region eu-west-1 --secret-id {name}"
        for name in ("prod/db", "prod/mail")
    ]
    assert commands(next_steps(some), "undo") == ""
    for unusual in (
        some._replace(unusual_calls=[read]),
        some._replace(new_origins={own.event_id: ", new tool Boto3 macos"}),
    ):
        assert commands(next_steps(unusual), "undo").splitlines() == rotate
    other = some._replace(unusual_calls=["ssm:GetParameter"], new_origins={"x": ", new tool Boto3"})
    assert commands(next_steps(other), "undo") == ""


def test_what_was_changed_beside_an_alert_is_undone_though_it_is_usual() -> None:
    own, beside = (
        call("lambda:CreateFunction", {"functionName": "f"}),
        call("events:PutRule", {"name": "r"}, region="x"),
    )
    some = suspicion(own)
    some = some._replace(
        actions=with_support(some.actions, alert_impact([beside], (), ())), supporting=(beside,)
    )
    assert "aws events disable-rule --region x --name r" in commands(next_steps(some), "undo")
    usual = some._replace(actions=alert_impact([own, beside], (), ()), supporting=())
    assert commands(next_steps(usual), "undo") == "", "of its own calls only what is new"


def test_a_new_key_is_named_by_the_response() -> None:
    made = {"accessKey": {"userName": "backdoor", "accessKeyId": "AKIANEW0000000000000"}}
    step = undo_step("iam:CreateAccessKey", [Call({"userName": "backdoor"}, made)])
    assert step
    assert "--user-name backdoor --access-key-id AKIANEW0000000000000 --status Inactive" in step.command


def test_a_bucket_that_was_opened_gets_its_earlier_policy_back() -> None:
    """Blocking public access leaves an account in that the policy names."""
    step = undo_step("s3:PutBucketPolicy", [Call({"bucketName": "data"})])
    assert step
    keep, put_back, block = step.command.splitlines()
    assert keep.startswith("aws s3api get-bucket-policy --bucket data ")
    assert keep.endswith(">> POLICY.json")  # of more than one bucket each is kept
    assert put_back == "aws s3api put-bucket-policy --bucket data --policy file://EARLIER_POLICY.json"
    assert block.startswith("aws s3api put-public-access-block --bucket data ")
    assert "this stops the public only, not named accounts" in step.text


@pytest.mark.parametrize("kind", ["user", "group", "role"])
def test_an_inline_policy_that_was_put_over_an_earlier_one_is_put_back(kind: str) -> None:
    step = undo_step(f"iam:Put{kind.title()}Policy", [Call({f"{kind}Name": "app", "policyName": "access"})])
    assert step
    named = f"--{kind}-name app --policy-name access"
    assert step.command.splitlines() == [
        f"aws iam get-{kind}-policy {named} >> POLICY.json",
        f"aws iam delete-{kind}-policy {named}",
        f"aws iam put-{kind}-policy {named} --policy-document file://EARLIER_{kind.upper()}_POLICY.json",
    ]
    assert "If it is new, delete it, else put the earlier one back" in step.text


def test_each_of_several_policies_is_put_back_from_a_file_of_its_own() -> None:
    """One file for all would give a role the policy that another one had."""
    calls = [Call({"roleName": f"r{n}", "policyName": "x"}) for n in (1, 2)]
    step = undo_step("iam:PutRolePolicy", calls)
    assert step
    assert [line for line in step.command.splitlines() if "put-role-policy" in line] == [
        f"aws iam put-role-policy --role-name r{n} --policy-name x --policy-document file://EARLIER_ROLE_POLICY_{n}.json"
        for n in (1, 2)
    ]


@pytest.mark.parametrize(
    ("action", "request_", "command"),
    [
        (
            "ModifySnapshotAttribute",
            {
                "snapshotId": "snap-1",
                "createVolumePermission": {"add": {"items": [{"userId": "1"}, {"userId": "2"}]}},
            },
            "modify-snapshot-attribute --region eu-west-1 --snapshot-id snap-1 --attribute createVolumePermission "
            "--operation-type remove --user-ids 1 2",
        ),
        (
            "ModifySnapshotAttribute",
            {"snapshotId": "snap-1", "createVolumePermission": {"add": {"items": [{"group": "all"}]}}},
            "modify-snapshot-attribute --region eu-west-1 --snapshot-id snap-1 --attribute createVolumePermission "
            "--operation-type remove --group-names all",
        ),
        (
            "ModifyImageAttribute",
            {
                "imageId": "ami-1",
                "launchPermission": {"add": {"items": [{"userId": "1"}, {"group": "all"}]}},
            },
            "modify-image-attribute --region eu-west-1 --image-id ami-1 --attribute launchPermission "
            "--operation-type remove --user-ids 1 --user-groups all",
        ),
        (
            "ModifyImageAttribute",
            {"imageId": "ami-1"},
            "modify-image-attribute --region eu-west-1 --image-id ami-1 --attribute launchPermission "
            "--operation-type remove --user-ids USER_ID",
        ),
    ],
)
def test_sharing_ends_with_those_that_were_added_alone(
    action: str, request_: dict[str, Any], command: str
) -> None:
    """To reset the attribute would take the share from everybody who had it before."""
    step = undo_step(f"ec2:{action}", [Call(request_, {}, "eu-west-1")])
    assert step
    assert step.command == f"aws ec2 {command}"


def policy(*effects: str) -> str:
    statements = [{"Effect": effect, "Action": "*", "Resource": "*"} for effect in effects]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


QUARANTINE = "arn:aws:iam::aws:policy/AWSCompromisedKeyQuarantineV3"


@pytest.mark.parametrize(
    ("action", "request_"),
    [
        ("PutUserPolicy", {"policyName": "x", "policyDocument": policy("Deny", "Deny")}),
        ("PutRolePolicy", {"policyName": "x", "policyDocument": quote(policy("Deny"))}),
        ("PutGroupPolicy", {"policyName": "incident-deny-all"}),
        ("AttachUserPolicy", {"policyArn": QUARANTINE}),
        ("AttachRolePolicy", {"policyArn": "arn:aws-cn:iam::aws:policy/AWSDenyAll"}),
    ],
)
def test_what_contains_is_not_undone(action: str, request_: dict[str, Any]) -> None:
    """A responder's own work is in the records too."""
    steps = next_steps(suspicion(call(f"iam:{action}", request_)))
    assert [(step.text, step.command) for step in steps if step.phase == "undo"] == [
        (f"Ask who did it, and leave it where that was a responder, for it only denies: iam:{action}.", "")
    ]


@pytest.mark.parametrize(
    ("action", "request_"),
    [
        (
            "PutRolePolicy",
            {"policyName": "AWSRevokeOlderSessions", "policyDocument": policy("Deny", "Allow")},
        ),
        ("PutUserPolicy", {"policyName": "incident-deny-all", "policyDocument": policy()}),
        ("PutUserPolicy", {"policyName": "incident-deny-all", "policyDocument": "{"}),
        ("PutUserPolicy", {"policyName": "incident-deny-all", "policyDocument": "[" * 9_999}),
        (
            "PutUserPolicy",
            {
                "policyName": "x",
                "policyDocument": policy("Deny").replace('"Action"', '"effect":"Allow","Action"'),
            },
        ),
        ("AttachUserPolicy", {"policyArn": f"arn:aws:iam::{ACCOUNT}:policy/AWSCompromisedKeyQuarantineV3"}),
    ],
)
def test_the_name_of_what_contains_hides_no_policy_that_allows(action: str, request_: dict[str, Any]) -> None:
    steps = next_steps(suspicion(call(f"iam:{action}", request_)))
    [undo] = (step for step in steps if step.phase == "undo")
    assert undo.command.startswith("aws iam ")


def test_a_policy_that_is_nested_without_end_is_not_taken_for_one_that_denies() -> None:
    nested: Any = "Deny"
    for _ in range(100_000):
        nested = [nested]
    for document in (nested, "[" * 100_000):
        assert only_denies("iam:PutUserPolicy", Call({"policyDocument": document})) is False


def test_of_several_policies_those_that_only_deny_are_left() -> None:
    events = [
        replace(
            call("iam:PutUserPolicy", {"userName": name, "policyDocument": policy(effect)}), event_id=name
        )
        for name, effect in (("eve", "Allow"), ("grace", "Deny"))
    ]
    [undo] = (step for step in next_steps(suspicion(*events)) if step.phase == "undo")
    assert "--user-name eve" in undo.command
    assert "grace" not in undo.command


def test_several_things_of_one_kind_have_a_command_each_up_to_a_number() -> None:
    step = undo_step("iam:CreateUser", [Call({"userName": f"u{n}"}) for n in range(MAX_CALLS)])
    assert step
    assert step.command.count("--user-name") == MAX_CALLS
    assert "not shown" not in step.text
    more = undo_step("iam:CreateUser", [Call({"userName": f"u{n}"}) for n in range(MAX_CALLS + 2)])
    assert more
    assert more.command == step.command
    assert more.text.endswith(". And 2 more such calls, not shown.")


def machines(*names: str) -> Call:
    return Call({}, {"instancesSet": {"items": [{"instanceId": name} for name in names]}}, "eu-west-1")


def test_all_things_of_one_call_are_in_its_command() -> None:
    """One call starts as many machines as it likes; a command that stops five of them would leave the others to the thief."""
    ids = [f"i-{n:017x}" for n in range(MAX_VALUES)]
    step = undo_step("ec2:RunInstances", [machines(*ids)])
    assert step
    assert shlex.split(step.command)[-MAX_VALUES:] == ids
    assert "not shown" not in step.text


def test_what_of_one_call_a_command_does_not_have_is_counted() -> None:
    many = undo_step("ec2:RunInstances", [machines(*(f"i-{n:017x}" for n in range(MAX_VALUES + 1)))])
    hostile = undo_step("ec2:RunInstances", [machines("i-0ab", "$(id)", "i-0ac")])
    assert many
    assert hostile
    assert many.text.endswith(" And 1 more name, not shown.")
    assert hostile.command.endswith("--instance-ids i-0ab i-0ac")
    assert hostile.text.endswith(" And 1 more name, not shown.")


def test_commands_that_are_too_long_together_are_counted() -> None:
    calls = [machines(*(f"i-{at:02d}{n:015x}" for n in range(MAX_VALUES))) for at in range(8)]
    step = undo_step("ec2:RunInstances", calls)
    assert step
    shown = len(step.command.splitlines())
    assert MAX_STEP_LENGTH / 2 < len(step.command) <= MAX_STEP_LENGTH
    assert step.text.endswith(f" And {8 - shown} more such calls, not shown.")


def test_sessions_that_no_command_has_are_counted() -> None:
    events = [call("iam:ListUsers", key="", session=f"build-{n}") for n in range(MAX_KEYS + 2)]
    for principal in ("role/web", "role/AWSServiceRoleForAutoScaling"):
        steps = next_steps(suspicion(*events, principal=f"{ACCOUNT}:{principal}"))
        search = [step for step in steps if "AttributeKey=Username" in step.command]
        assert search
        for step in search:
            assert step.command.count("AttributeKey=Username") == MAX_KEYS
            assert step.text.endswith(" And 2 more sessions, not shown.")


def test_calls_whose_records_are_not_read_are_counted() -> None:
    events = [
        replace(call("iam:CreateUser", {"userName": "eve"}), event_id=str(n))
        for n in range(MAX_RECORDS_READ + 3)
    ]
    [step] = (each for each in next_steps(suspicion(*events)) if each.phase == "undo")
    assert step.text.endswith(" And 3 more events, not shown.")


def test_keys_addresses_and_machines_that_no_command_has_are_counted() -> None:
    events = [
        call(
            "s3:ListBuckets",
            key=f"ASIA{n:016d}",
            session=f"i-0ab12cd34ef56ab{n:02d}",
            source_address=f"203.0.113.{n}",
        )
        for n in range(MAX_KEYS + 2)
    ]
    steps = next_steps(suspicion(*events, principal=f"{ACCOUNT}:role/web"))
    *_, isolate = (step for step in steps if step.phase == "contain")
    search, query = (step for step in steps if step.phase == "extent")
    assert isolate.command.count("--instance-id") == MAX_KEYS
    assert isolate.text.endswith(" And 2 more machines, not shown.")
    assert search.command.count("AccessKeyId") == MAX_KEYS
    assert search.text.endswith(" And 2 more access keys, not shown.")
    assert query.text.endswith(" And 2 more access keys, not shown. And 2 more addresses, not shown.")


def test_phases_come_in_the_order_of_work_and_no_step_is_empty() -> None:
    steps = next_steps(suspicion(*(call(name) for name in undo_table())))
    phases = [step.phase for step in steps]
    assert phases == sorted(phases, key=get_args(StepPhase).index)
    assert all(step.text.strip() for step in steps)


def test_each_undo_is_of_an_action_whose_impact_is_known() -> None:
    assert {tuple(name.split(":")) for name in undo_table()} <= set(listed_actions())


def test_each_undo_of_the_table_is_of_its_own_actions_and_has_no_unknown_member() -> None:
    with Path(playbook_undo.__file__).with_suffix(".toml").open("rb") as file:
        table = tomllib.load(file)
    listed = [f"{service}:{action}" for actions in table for service, action in listed_calls(actions)]
    assert sorted(listed) == sorted(undo_table()), "else one undo would hide another"
    assert set().union(*table.values()) <= {"text", "commands", "options", "one_needed"}


def test_every_command_is_read_by_a_shell_as_commands() -> None:
    """`bash -n` parses them all, with names filled in and without."""
    principals = (
        "user/grace",
        "role/web",
        "role/AWSReservedSSO_A_1/a@example.com",
        "root",
        "federated/x/y",
        "service/x",
    )
    texts = [step.command for name in principals for step in next_steps(suspicion(
        *(call(each, {"userName": "eve", "name": "x"}, session="i-0ab12cd34ef56ab78") for each in undo_table()),
        principal=f"{ACCOUNT}:{name}",
    ))]  # fmt: skip
    done = subprocess.run(["bash", "-n"], input="\n".join(texts), text=True, capture_output=True, check=False)  # noqa: S607
    assert (done.returncode, done.stderr) == (0, "")


HOSTILE = (
    *NASTY,
    "--debug",
    "file:///etc/passwd",
    "fileb://x",
    "https://evil.example/x",
    "$(id)",
    "`id`",
    "a;id",
    "a b",
    "a'b",
    'a"b',
    "a|b",
    "a&b",
    "a\\b",
    "a>b",
    "{a,b}",
    "~root",
    "a*",
    "a?",
    "!!",
    "#x",
    "@file",
    "=x",
    "x" * 257,
    "\u0430dmin",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_name_that_is_no_plain_name_is_never_in_a_command(text: str) -> None:
    assert safe_argument(text) == ""
    for name, undo in undo_table().items():
        template = " ".join((undo.command, *undo.options))
        members = {part.partition(">")[0] for part in template.split("<")[1:]}
        request: dict[str, Any] = {}
        for member in members:
            *path, last = member.split(".")
            node = request
            for each in path:
                node = node.setdefault(each, {})
            node[last] = text
        filled, unfilled = (
            fill_command(template, each) for each in (Call(request, {}, text, text), Call({}))
        )
        assert filled.text == unfilled.text, name
    harmless = replace(
        call("iam:CreateUser"),
        raw="",
        **dict.fromkeys(("region", "source_address", "access_key", "session"), ""),
    )
    fields = dict.fromkeys(("region", "source_address", "access_key", "session", "resource", "raw"), text)
    steps = next_steps(
        suspicion(replace(harmless, **fields), principal=f"{ACCOUNT}:user/{escape_key(text)}", human=text)
    )
    plain = next_steps(suspicion(harmless, principal=f"{ACCOUNT}:user/?x"))
    assert [step.command for step in steps if step.phase != "verify"] == [
        step.command for step in plain if step.phase != "verify"
    ]


@pytest.mark.parametrize(
    "text", ["grace", "prod/db-a1", "arn:aws:iam::1:role/x", "a.b+c=d,e@f", "i-0ab", "2026-01-01"]
)
def test_a_plain_name_is_one_argument_as_it_is(text: str) -> None:
    assert safe_argument(text) == text
    assert shlex.split(f"x {text}") == ["x", text]


def test_mail_that_a_thief_sends_is_paused_and_its_identity_deleted() -> None:
    verified = call("ses:VerifyEmailIdentity", {"emailAddress": "info@example.com"}, region="eu-west-1")
    sent = call("ses:SendRawEmail", {"source": "info@example.com"}, region="eu-west-1")
    shown = commands(next_steps(suspicion(verified, sent)), "undo")
    assert "put-account-sending-attributes --region eu-west-1 --no-sending-enabled" in shown
    assert "delete-identity --region eu-west-1 --identity info@example.com" in shown


def test_objects_that_were_encrypted_with_a_key_of_the_thiefs_own_are_taken_from_earlier_versions() -> None:
    request = {"bucketName": "reports", "x-amz-server-side-encryption-customer-algorithm": "AES256"}
    steps = next_steps(suspicion(call("s3:CopyObject", request)))
    assert "list-object-versions --bucket reports" in commands(steps, "undo")
    assert "infrastructure code" not in " ".join(step.text for step in steps)


def test_only_calls_whose_requests_did_the_harm_are_asked_about_and_set_back() -> None:
    """The owner's own writes in the same hour are none; nor does a policy that was denied hide another one that was not."""
    own = call("s3:PutObject", {"bucketName": "invoices"}, resource="bucket:invoices")
    request = {"bucketName": "reports", "x-amz-server-side-encryption-customer-algorithm": "AES256"}
    encrypted = call("s3:PutObject", request, resource="bucket:reports")
    steps = next_steps(suspicion(*[own] * MAX_RECORDS_READ, encrypted))
    assert "list-object-versions --bucket reports" in commands(steps, "undo")
    assert "invoices" not in "".join(f"{step.text}{step.command}" for step in steps if step.phase == "undo")
    assert any("about s3:PutObject on bucket:reports" in step.text for step in steps)

    def policy(bucket: str, principal: str, **fields: Any) -> AlertEvent:
        members = {"Statement": [{"Effect": "Allow", "Principal": {"AWS": principal}}]}
        named = {"bucketName": bucket, "bucketPolicy": members}
        return call("s3:PutBucketPolicy", named, resource=f"bucket:{bucket}", **fields)

    denied = policy("orders", "*", error_code="AccessDenied")
    done = policy("reports", f"arn:aws:iam::{ACCOUNT}:root")
    [step] = (each for each in next_steps(suspicion(denied, done)) if each.phase == "undo")
    assert "s3:PutBucketPolicy on bucket:reports" in step.text
    assert "orders" not in step.text + step.command
    assert not commands(next_steps(suspicion(denied)), "undo")


@pytest.mark.parametrize(
    ("opener", "action", "then"),
    [
        ("210987654321:account/AROAVENDOR", "AssumeRole", "take that account out of the role's trust policy"),
        (f"{ACCOUNT}:role/broker", "AssumeRole", "contain it as well"),
        (f"{ACCOUNT}:service/lambda.amazonaws.com", "AssumeRole", "the session has the function's name: set"),
        (f"{ACCOUNT}:service/glue.amazonaws.com", "AssumeRole", "find what told it to"),
        (f"{ACCOUNT}:federated/okta/ann", "AssumeRoleWithSAML", "block the person or the workload"),
    ],
)
def test_who_is_known_to_have_opened_a_session_is_named_and_no_other_way_is_told(
    opener: str, action: str, then: str
) -> None:
    called = call("s3:GetObject", key=ASIA, session="ann@example.com")
    found = next_steps(suspicion(called, principal=f"{ACCOUNT}:role/support"))
    opened = CredentialIssue(ASIA, OPENED, "e-1", action, opener, "", "", "192.0.2.7", "eu-west-1")
    steps = [step for step in name_opener(found, opened) if step.phase == "contain"]
    named = f"ann (okta) in account {ACCOUNT}" if "federated" in opener else opener
    assert f"{named} opened them by {action} from 192.0.2.7: {then}" in steps[0].text
    assert steps[0].command == (
        "aws cloudtrail lookup-events --region eu-west-1 --lookup-attributes AttributeKey=EventId,AttributeValue=e-1"
    )
    text = " ".join(step.text for step in steps)
    assert "find who assumed it" not in text
    assert "Lambda" not in text
    assert "external id" not in text
    assert ("provider of SAML" in text) is (action == "AssumeRoleWithSAML")


@pytest.mark.parametrize(
    ("opener", "after"),
    [
        ("210987654321:account/AROAVENDOR", "That account gets new ones as long as the role's trust policy"),
        (f"{ACCOUNT}:federated/gitlab.com/x", "The person or the workload gets new ones until blocked"),
        (f"{ACCOUNT}:user/eve", "Machines and functions that use it keep credentials that are refused"),
        (f"{ACCOUNT}:service/ec2.amazonaws.com", "replace their instance profile, or stop and start them."),
    ],
)
def test_machines_are_no_matter_of_a_session_that_one_from_outside_opened(opener: str, after: str) -> None:
    """A stolen key may open a session at the role of machines; a vendor or a provider has none of one's own."""
    called = call("ec2:DescribeInstances", key=ASIA, session="vendor-4821")
    found = next_steps(suspicion(called, principal=f"{ACCOUNT}:role/vendor"))
    assert "replace their instance profile" in " ".join(step.text for step in found)
    opened = CredentialIssue(ASIA, OPENED, "e-1", "AssumeRole", opener, "", "", "192.0.2.7", "eu-west-1")
    text = " ".join(step.text for step in name_opener(found, opened))
    assert after in text
    assert ("their instance profile" in text) is ("account/" not in opener and "federated" not in opener)


@pytest.mark.parametrize("nasty", NASTY)
def test_an_opener_of_a_session_can_put_nothing_into_a_command(nasty: str) -> None:
    found = next_steps(suspicion(call("s3:GetObject", key=ASIA), principal=f"{ACCOUNT}:role/support"))
    opened = CredentialIssue(ASIA, OPENED, *[nasty] * 7)
    [shown] = {step.command for step in name_opener(found, opened)} - {step.command for step in found}
    assert shown.endswith("--region REGION --lookup-attributes AttributeKey=EventId,AttributeValue=EVENT_ID")
