"""Openings: who opened which role, by the columns of an event."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import hashing
from fingerprint.features.encoding import ACTION_COLUMN, FEATURE_SET
from fingerprint.sources.cloudtrail.openings import opening

OWN, OTHER = "111122223333", "905511842217"
GITHUB = f"{OWN}:federated/arn%3Aaws%3Aiam%3A%3A{OWN}%3Aoidc-provider%2Ftoken.actions.githubusercontent.com"
REPOSITORY = f"{GITHUB}/repo%3Aacme%2Fshop"


def who_opened(kind: str, principal: str, **columns: str | None) -> tuple[str, str] | None:
    of_call = {"resource": "role:deploy", "target_account": None, "error_code": None, **columns}
    return opening(
        of_call["error_code"], kind, principal, of_call["resource"], of_call["target_account"], OWN
    )


@pytest.mark.parametrize(
    ("kind", "principal", "opener"),
    [
        ("federated", REPOSITORY, REPOSITORY),
        ("federated", f"{REPOSITORY}%3Aenvironment%3Aprod", REPOSITORY),
        ("federated", f"{REPOSITORY}%3Aref%3Arefs%2Fheads%2F%2A", f"{REPOSITORY}%3Aref%3Arefs%2Fheads%2F%2A"),
        ("account", f"{OTHER}:account/AROAEXAMPLE", f"{OTHER}:account"),
        ("account", f"{OTHER}:account/AROAREMADE", f"{OTHER}:account"),
        ("user", f"{OWN}:user/ann", f"{OWN}:user/ann"),
        (
            "person",
            f"{OWN}:role/AWSReservedSSO_Admin_0a1b/ann%40example.com",
            f"{OWN}:role/AWSReservedSSO_Admin_0a1b/ann%40example.com",
        ),
    ],
)
def test_a_role_is_opened_by_a_repository_an_account_a_user_or_a_person(
    kind: str, principal: str, opener: str
) -> None:
    assert who_opened(kind, principal) == (f"role:deploy in {OWN}", opener)


def test_the_same_name_in_another_account_is_another_role() -> None:
    assert who_opened("user", f"{OWN}:user/ann", target_account=OTHER) == (
        f"role:deploy in {OTHER}",
        f"{OWN}:user/ann",
    )


def test_services_failures_and_calls_without_a_role_open_nothing() -> None:
    assert who_opened("service", f"{OWN}:service/lambda.amazonaws.com") is None
    assert who_opened("user", f"{OWN}:user/ann", error_code="AccessDenied") is None
    assert who_opened("user", f"{OWN}:user/ann", resource=None) is None
    assert who_opened("user", f"{OWN}:user/ann", resource="user:ann") is None


def test_of_events_the_openings_are_read_and_named_by_their_hashes() -> None:
    columns = {"service": "sts", "kind": "user", "principal": f"{OWN}:user/ann", "recipient_account": OWN}
    events = pd.DataFrame(
        {
            **{name: [text] * 4 for name, text in columns.items()},
            "action": ["AssumeRole", "GetCallerIdentity", "AssumeRoleWithSAML", "AssumeRole"],
            "resource": ["role:deploy", "role:deploy", "role:audit", "role:deploy"],
            "target_account": [None] * 4,
            "error_code": [None, None, None, "AccessDenied"],
        }
    )
    codes = np.zeros((len(events), len(FEATURE_SET.features)), np.uint64)
    codes[:, ACTION_COLUMN] = hashing.hash_strings("sts:" + events["action"])
    opened = FEATURE_SET.opened_roles(codes, events)
    assert opened.rows.tolist() == [0, 2]
    assert opened.texts == [(f"role:{name} in {OWN}", f"{OWN}:user/ann") for name in ("deploy", "audit")]
    assert opened.role.tolist() == [hashing.hash_string(role) for role, _ in opened.texts]
    assert opened.opener.tolist() == [hashing.hash_string(opener) for _, opener in opened.texts]
    nothing = FEATURE_SET.opened_roles(codes[1:2], events[1:2])
    assert (len(nothing.rows), nothing.texts) == (0, [])
    assert nothing.role.dtype == np.uint64
