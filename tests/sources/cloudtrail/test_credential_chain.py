"""Who began a session: from a role's access key back to the person."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from fingerprint.core.alert import CredentialIssue
from fingerprint.core.related_events import trace_credentials
from fingerprint.sources.cloudtrail import credential_chain, envelopes
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from tests.support.sample_organisation import SETTINGS

ACCOUNT = "123456789012"
ALICE = {
    "type": "IAMUser",
    "accountId": ACCOUNT,
    "userName": "alice",
    "arn": f"arn:aws:iam::{ACCOUNT}:user/alice",
}


def role(name: str, key: str) -> dict[str, object]:
    issuer = {
        "type": "Role",
        "arn": f"arn:aws:iam::{ACCOUNT}:role/{name}",
        "accountId": ACCOUNT,
        "userName": name,
    }
    return {
        "type": "AssumedRole",
        "accountId": ACCOUNT,
        "accessKeyId": key,
        "arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{name}/cli",
        "sessionContext": {"sessionIssuer": issuer},
    }


def call(
    who: dict[str, object], minute: int, issues: str | None = None, **fields: object
) -> dict[str, object]:
    made = {
        "eventVersion": "1.10",
        "userIdentity": who,
        "eventTime": f"2026-03-04T14:{minute:02d}:00Z",
        "eventSource": "sts.amazonaws.com",
        "eventName": "AssumeRole",
        "awsRegion": "eu-west-1",
        "sourceIPAddress": "198.51.100.7",
        "userAgent": "aws-cli/2.15.30",
        "eventID": f"event-{minute}",
        "recipientAccountId": ACCOUNT,
    }
    answer = {"responseElements": {"credentials": {"accessKeyId": issues}}} if issues else {}
    return {**made, **answer, **fields}


def events(*records: dict[str, object]) -> pd.DataFrame:
    lines = [json.dumps(record).encode() for record in records]
    return add_entity_columns(flatten(envelopes.split_lines(lines)).events, SETTINGS.entities)


def looked_up(hops: list[CredentialIssue], key: str) -> list[str]:
    by_key = {hop.issued_key: hop for hop in hops}
    return [hop.principal.split(":", 1)[1] for hop in trace_credentials(key, by_key.get)]


def test_a_role_of_a_role_of_a_user_leads_back_to_the_user() -> None:
    hops = credential_chain.find_issued_credentials(
        events(
            call({**ALICE, "accessKeyId": "AKIAALICE"}, 1, issues="ASIAONE"),
            call(role("build", "ASIAONE"), 2, issues="ASIATWO"),
            call(role("deploy", "ASIATWO"), 3),
        )
    )
    assert looked_up(hops, "ASIATWO") == ["role/build", "user/alice"]
    assert hops[0].human == "alice"
    assert hops[0].source_address == "198.51.100.7"
    assert looked_up(hops, "AKIAALICE") == []


def test_a_federated_sign_in_names_who_signed_in() -> None:
    saml = {"type": "SAMLUser", "principalId": "okta:alice@example.com", "userName": "alice@example.com"}
    [hop] = credential_chain.find_issued_credentials(
        events(call({**saml, "identityProvider": "okta"}, 1, "ASIASAML", eventName="AssumeRoleWithSAML"))
    )
    assert hop.human == "alice@example.com"
    assert hop.access_key == ""


def test_what_a_service_assumes_for_itself_is_no_ones_session() -> None:
    service = {"type": "AWSService", "invokedBy": "cloudformation.amazonaws.com"}
    assert credential_chain.find_issued_credentials(events(call(service, 1, issues="ASIASTACK"))) == []


@pytest.mark.parametrize("service", credential_chain.RUNS_CODE)
def test_a_service_that_runs_ones_own_code_opened_the_session_that_was_stolen_of_it(service: str) -> None:
    caller = {"type": "AWSService", "invokedBy": service}
    records = events(call(caller, 1, issues="ASIACODE"), call(role("job", "ASIACODE"), 2, issues="ASIATWO"))
    hops = credential_chain.find_issued_credentials(records)
    assert looked_up(hops, "ASIATWO") == ["role/job", f"service/{service}"]


def test_a_chain_that_bites_its_tail_ends() -> None:
    one = call(role("a", "ASIATWO"), 1, issues="ASIAONE")
    two = call(role("b", "ASIAONE"), 2, issues="ASIATWO")
    hops = credential_chain.find_issued_credentials(events(one, two))
    assert len(looked_up(hops, "ASIAONE")) == 2


@pytest.mark.parametrize("minute", [1, 5])
def test_a_key_that_is_named_twice_belongs_to_the_first_who_was_handed_it(minute: int) -> None:
    first = call({**ALICE, "accessKeyId": "AKIAALICE"}, minute, issues="ASIAONE")
    again = call(role("evil", "ASIAX"), minute + 1, issues="ASIAONE")
    assert [hop.principal for hop in credential_chain.find_issued_credentials(events(again, first))] == [
        f"{ACCOUNT}:user/alice"
    ]


@pytest.mark.parametrize("ids", [("a", "b"), ("b", "a")])
def test_a_call_from_another_account_is_recorded_twice_and_the_record_with_the_callers_key_counts(
    ids: tuple[str, str],
) -> None:
    """Role and session are of one's own; the copy in the role's account knows its caller by an id alone."""
    caller = {"type": "AWSAccount", "principalId": "AROAEXAMPLE:cli", "accountId": ACCOUNT}
    shared = {"sharedEventID": "7c5e1a2b-0000-4000-8000-000000000001"}
    own = call(role("build", "ASIABUILD"), 2, issues="ASIADEPLOY", eventID=ids[0], **shared)
    copy = call(caller, 2, issues="ASIADEPLOY", eventID=ids[1], recipientAccountId="999999999999", **shared)
    begun = call({**ALICE, "accessKeyId": "AKIAALICE"}, 1, issues="ASIABUILD")
    for records in ((begun, own, copy), (copy, own, begun)):
        hops = credential_chain.find_issued_credentials(events(*records))
        assert looked_up(hops, "ASIADEPLOY") == ["role/build", "user/alice"]
        assert [hop.event_id for hop in hops if hop.issued_key == "ASIADEPLOY"] == [ids[0]]
    [hop] = credential_chain.find_issued_credentials(events(copy))
    assert (hop.principal, hop.access_key) == (f"{ACCOUNT}:account/AROAEXAMPLE", "")
