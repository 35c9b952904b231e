"""What records say of the credential: its kind, MFA, the console; and nothing where they do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fingerprint.sources.base import CredentialFacts
from fingerprint.sources.cloudtrail.credential_facts import (
    credential_facts,
    issued_key,
    shared_call,
    signed_in_without_mfa,
)
from tests.support.alerts import NASTY


def record(kind: str, key: str = "", mfa: Any = None, **members: Any) -> str:
    identity: dict[str, Any] = {"type": kind, "accessKeyId": key}
    if mfa is not None:
        identity["sessionContext"] = {"attributes": {"mfaAuthenticated": mfa}}
    return json.dumps({"userIdentity": identity, **members})


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (record("IAMUser", "AKIAX"), CredentialFacts((("access key", 1),), 0, 0, 0, 1)),
        (record("IAMUser", "ASIAX", "true"), CredentialFacts((("user session", 1),), 1, 0, 0, 1)),
        (record("AssumedRole", "ASIAX", "false"), CredentialFacts((("role session", 1),), 0, 1, 0, 1)),
        (
            record("AssumedRole", "ASIAX", True, sessionCredentialFromConsole="true"),
            CredentialFacts((("role session", 1),), 1, 0, 1, 1),
        ),
        (
            record("IAMUser", eventName="ConsoleLogin", additionalEventData={"MFAUsed": "No"}),
            CredentialFacts((("console sign-in", 1),), 0, 1, 1, 1),
        ),
        (
            record("Root", eventName="ConsoleLogin", additionalEventData={"MFAUsed": "Yes"}),
            CredentialFacts((("root", 1),), 1, 0, 1, 1),
        ),
        (record("IAMUser"), CredentialFacts((), 0, 0, 0, 1)),
        (record("SomethingNew"), CredentialFacts((), 0, 0, 0, 1)),
        (
            record("Root", mfa={"true": [1]}, sessionCredentialFromConsole=[True]),
            CredentialFacts((("root", 1),), 0, 0, 0, 1),
        ),
        ("{", CredentialFacts()),
        ("", CredentialFacts()),
        ("[" * 100_000, CredentialFacts()),
        (json.dumps({"userIdentity": ["x"], "additionalEventData": "Yes"}), CredentialFacts((), 0, 0, 0, 1)),
    ],
)
def test_what_a_record_says(text: str, facts: CredentialFacts) -> None:
    assert credential_facts([text]) == facts


def test_many_records_are_counted_the_most_frequent_kind_first() -> None:
    found = credential_facts([record("IAMUser", "AKIAX"), *[record("AssumedRole", "ASIAX", "false")] * 2])
    assert found.kinds == (("role session", 2), ("access key", 1))
    assert (found.no_mfa, found.records) == (2, 3)


GIVEN = {"responseElements": {"credentials": {"accessKeyId": "ASIAGIVEN"}}}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        *((record(kind, **GIVEN), "ASIAGIVEN") for kind in ("SAMLUser", "WebIdentityUser", "AWSAccount")),
        (record("IAMUser", "AKIAX", **GIVEN), ""),
        (record("AWSService", **GIVEN), ""),
        (record("SAMLUser", responseElements={"credentials": ["ASIAGIVEN"]}), ""),
        (record("SAMLUser", responseElements={"credentials": {"accessKeyId": {"x": 1}}}), ""),
        (record("SAMLUser"), ""),
        ("{", ""),
        ("", ""),
    ],
)
def test_the_key_that_was_issued_to_a_caller_without_one(text: str, key: str) -> None:
    assert issued_key(text) == key


SHARED = "7c5e1a2b-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("shared", "name"),
    [
        (SHARED, SHARED),
        (SHARED.upper(), SHARED.upper()),
        *(
            (other, "")
            for other in ("", SHARED[1:], SHARED + "0", f"{SHARED[:-1]}\u202e", "'" * 36, "x" * 10**6)
        ),
        *((other, "") for other in (None, 7, [SHARED], {"id": SHARED}, "\ud800" * 36)),
    ],
)
def test_a_shared_call_has_the_form_of_the_ids_that_aws_writes(shared: Any, name: str) -> None:
    assert shared_call(record("AWSAccount", sharedEventID=shared)) == name
    assert (
        shared_call(record("AWSAccount"))
        == shared_call("")
        == shared_call(f'{{"sharedEventID": "{SHARED}"')
        == ""
    )


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_no_text_of_an_attacker_is_a_fact(text: str) -> None:
    made = record(text, text, text, sessionCredentialFromConsole=text, eventName=text)
    assert credential_facts([made]) in (CredentialFacts((), 0, 0, 0, 1), CredentialFacts())


@pytest.mark.parametrize(
    ("kind", "said", "answer", "without"),
    [
        ("Root", "No", "Success", True),
        ("IAMUser", "No", "Success", True),
        ("Root", "Yes", "Success", False),
        ("Root", None, "Success", False),
        ("Root", ["No"], "Success", False),
        ("Root", "No", "Failure", False),
        ("Root", "No", None, False),
        ("AssumedRole", "No", "Success", False),  # an identity provider's factor is not recorded
    ],
)
def test_a_sign_in_without_mfa_is_one_that_succeeded_and_says_so(
    kind: str, said: Any, answer: Any, without: bool
) -> None:
    members = {"additionalEventData": {"MFAUsed": said}, "responseElements": {"ConsoleLogin": answer}}
    assert signed_in_without_mfa(record(kind, eventName="ConsoleLogin", **members)) is without
    assert not signed_in_without_mfa(record(kind, eventName="CreateUser", **members))


@pytest.mark.parametrize("text", ["", "{", "[1]", "[" * 100_000, '{"eventName": "ConsoleLogin"}', *NASTY])
def test_what_cannot_be_read_is_no_sign_in_without_mfa(text: str) -> None:
    assert not signed_in_without_mfa(text)
