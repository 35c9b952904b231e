"""Anyone who acted has one stable key, whatever the shape of the identity, and no one can take another's."""

import gzip
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fingerprint.core.settings import Entities
from fingerprint.features.peer_groups import peer_group
from fingerprint.sources.base import Principal, escape_key
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.cloudtrail.identity import (
    IDENTITY_COLUMNS,
    person_and_access,
    plain_principal,
    principal_of,
    record_account,
    saml_provider,
    signed_in_by,
)
from fingerprint.sources.entities import ENTITY_COLUMNS, add_entity_columns
from fingerprint.sources.flatten import flatten

REAL = Path(__file__).parents[3] / "data" / "real"
ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role"
SESSION = f"arn:aws:sts::{ACCOUNT}:assumed-role"


def who(identity_type: str = "", **fields: str) -> Principal:
    return principal_of(
        {"identity_type": identity_type, "recipient_account": ACCOUNT, "service": "ec2", **fields}
    )


KEYS: list[tuple[dict[str, str], str, str]] = [
    ({"identity_type": "Root", "arn": f"arn:aws:iam::{ACCOUNT}:root", "account": ACCOUNT}, "root", "root"),
    ({"identity_type": "IAMUser", "arn": f"arn:aws:iam::{ACCOUNT}:user/path/alice"}, "user/alice", "user"),
    ({"identity_type": "IAMUser", "user_name": "alice"}, "user/alice", "user"),
    (
        {"identity_type": "IAMUser", "user_name": "HIDDEN_DUE_TO_SECURITY_REASONS", "principal_id": "AIDA1"},
        "user/?AIDA1",
        "user",
    ),
    ({"identity_type": "IAMUser"}, "user/?", "user"),
    (
        {"identity_type": "AssumedRole", "issuer_arn": f"{ROLE}/path/deploy", "arn": f"{SESSION}/deploy/x"},
        "role/deploy",
        "role",
    ),
    ({"identity_type": "AssumedRole", "arn": f"{SESSION}/deploy/i-0123456789abcdef0"}, "role/deploy", "role"),
    ({"identity_type": "AssumedRole", "arn": f"{SESSION}/deploy"}, "role/deploy", "role"),
    ({"identity_type": "AssumedRole", "user_name": "TestRole"}, "role/TestRole", "role"),
    ({"identity_type": "AssumedRole", "principal_id": "AROA1:x"}, "role/?AROA1", "role"),
    ({"identity_type": "Role", "arn": f"{ROLE}/service/deploy"}, "role/deploy", "role"),
    (
        {
            "identity_type": "FederatedUser",
            "arn": f"arn:aws:sts::{ACCOUNT}:federated-user/root",
            "issuer_arn": f"arn:aws:iam::{ACCOUNT}:user/alice",
        },
        "user/alice",
        "user",
    ),
    (
        {"identity_type": "FederatedUser", "arn": f"arn:aws:sts::{ACCOUNT}:federated-user/x"},
        "federated/?",
        "federated",
    ),
    (
        {
            "identity_type": "WebIdentityUser",
            "identity_provider": "accounts.google.com",
            "user_name": "1184",
            "principal_id": "accounts.google.com:app:1184",
        },
        "federated/accounts.google.com/1184",
        "federated",
    ),
    (
        {"identity_type": "SAMLUser", "principal_id": "SAMLkey:alice@example.com"},
        "federated/SAMLkey/alice@example.com",
        "federated",
    ),
    ({"identity_type": "IdentityCenterUser", "behalf_user": "e364"}, "identitycenter/e364", "person"),
    (
        {"identity_type": "AWSAccount", "principal_id": "AROA1:session", "account": "999999999999"},
        "account/AROA1",
        "account",
    ),
    (
        {"identity_type": "AWSService", "invoked_by": "config.amazonaws.com"},
        "service/config.amazonaws.com",
        "service",
    ),
    ({"invoked_by": "ec2.amazonaws.com", "account": ACCOUNT}, "service/ec2.amazonaws.com", "service"),
    ({}, "service/ec2.amazonaws.com", "service"),
    ({"arn": f"arn:aws:iam::{ACCOUNT}:user/alice"}, "user/alice", "user"),
    ({"arn": f"{SESSION}/deploy/x"}, "role/deploy", "role"),
    ({"identity_type": "Directory", "principal_id": "d-1"}, "unknown/Directory/d-1", "unknown"),
    (
        {
            "identity_type": "Unknown",
            "principal_id": "123456789012",
            "account": "123456789012",
            "user_name": "ann",
        },
        "unknown/Unknown/ann",
        "unknown",
    ),  # a sign-in to Identity Center: the account stands where the principal should
    (
        {
            "identity_type": "Unknown",
            "principal_id": "123456789012",
            "account": "123456789012",
            "behalf_user": "f12bb510",
        },
        "identitycenter/f12bb510",
        "person",
    ),
    ({"identity_type": "Unknown", "user_name": "bob"}, "unknown/Unknown/bob", "unknown"),
]


@pytest.mark.parametrize(("identity", "key", "kind"), KEYS)
def test_every_shape_of_identity_has_its_key(identity: dict[str, str], key: str, kind: str) -> None:
    principal = who(**identity)
    account = identity.get("account") or ACCOUNT
    assert (principal.key, principal.kind) == (f"{account}:{key}", kind)


def test_a_session_name_counts_only_where_the_issuer_fixes_it() -> None:
    sso = who("AssumedRole", arn=f"{SESSION}/AWSReservedSSO_Admin_0123/alice@example.com")
    assert sso.key == f"{ACCOUNT}:role/AWSReservedSSO_Admin_0123/alice@example.com"
    assert (sso.kind, sso.role, sso.human) == (
        "person",
        f"{ACCOUNT}:role/AWSReservedSSO_Admin_0123",
        "alice@example.com",
    )
    by_path = who(
        "AssumedRole", issuer_arn=f"{ROLE}/aws-reserved/sso.amazonaws.com/Dev", arn=f"{SESSION}/Dev/bob"
    )
    saml = who(
        "AssumedRole",
        arn=f"{SESSION}/okta/bob",
        federated_provider=f"arn:aws:iam::{ACCOUNT}:saml-provider/okta",
    )
    assert [by_path.kind, saml.kind] == ["person", "person"]
    chosen = who("AssumedRole", arn=f"{SESSION}/deploy/alice@example.com")
    assert (chosen.key, chosen.human) == (f"{ACCOUNT}:role/deploy", "alice@example.com")


def test_which_roles_are_peoples_is_a_setting() -> None:
    identity = {"identity_type": "AssumedRole", "arn": f"{SESSION}/corp-admin/alice"}
    assert principal_of(identity).kind == "role"
    assert principal_of(identity, (r"^corp-",)).kind == "person"


GITHUB = f"arn:aws:iam::{ACCOUNT}:oidc-provider/token.actions.githubusercontent.com"
GITLAB = f"arn:aws:iam::{ACCOUNT}:oidc-provider/gitlab.com"


def uuid(number: int) -> str:
    return str(UUID(int=number))


def subject(name: str, provider: str = GITHUB, identity_type: str = "WebIdentityUser") -> Principal:
    return who(
        identity_type,
        identity_provider=provider,
        user_name=name,
        principal_id=f"{provider}:sts.amazonaws.com:{name}",
    )


@pytest.mark.parametrize(
    ("provider", "repository", "runs"),
    [
        (
            GITHUB,
            "repo:o/r",
            (
                "ref:refs/heads/main",
                "ref:refs/heads/master",
                "ref:refs/pull/7/merge",
                "pull_request",
            ),
        ),
        (
            GITLAB,
            "project_path:g/sub/p",
            ("ref_type:branch:ref:main", "ref_type:branch:ref:master"),
        ),
        (
            f"arn:aws:iam::{ACCOUNT}:oidc-provider/agent.buildkite.com",
            "organization:acme:pipeline:app",
            (
                f"ref:refs/heads/main:commit:{'9f' * 20}:step:build",
                f"ref:refs/heads/main:commit:{'a0' * 20}:step:",
            ),
        ),
        (
            f"arn:aws:iam::{ACCOUNT}:oidc-provider/api.bitbucket.org/2.0/workspaces/acme/pipelines-config",
            f"{{{uuid(1)}}}:{{{uuid(2)}}}",
            (f"{{{uuid(3)}}}", f"{{{uuid(4)}}}"),
        ),
        ("cognito-identity.amazonaws.com", "us-east-1", (uuid(1), uuid(2))),
    ],
)
def test_all_runs_of_a_repository_are_one_principal_with_one_peer_group(
    provider: str, repository: str, runs: tuple[str, ...]
) -> None:
    found = [subject(f"{repository}:{run}", provider) for run in runs]
    expected = f"{ACCOUNT}:federated/{escape_key(provider)}/{escape_key(repository)}"
    assert {each.key for each in found} == {expected}
    assert len({peer_group(each.key, each.kind, None) for each in found}) == 1
    assert [each.human for each in found] == [f"{repository}:{run}" for run in runs]


@pytest.mark.parametrize(
    ("repository", "main", "branches", "tags"),
    [
        ("repo:o/r", "ref:refs/heads/main", "ref:refs/heads/", "ref:refs/tags/"),
        ("project_path:g/sub/p", "ref_type:branch:ref:main", "ref_type:branch:ref:", "ref_type:tag:ref:"),
    ],
)
def test_other_branches_than_the_main_one_are_one_principal_and_tags_another_of_the_same_peers(
    repository: str, main: str, branches: str, tags: str
) -> None:
    lasting = subject(f"{repository}:{main}")
    other = [subject(f"{repository}:{branches}{name}") for name in ("fix-login", "feature/a", "mainly", "*")]
    tagged = [subject(f"{repository}:{tags}{name}") for name in ("v1.2", "main")]
    assert {each.key for each in other} == {lasting.key + escape_key(f":{branches}*")}
    assert {each.key for each in tagged} == {lasting.key + escape_key(f":{tags}*")}
    assert {group_of(each) for each in (*other, *tagged)} == {group_of(lasting)}
    assert other[0].human == f"{repository}:{branches}fix-login"


def group_of(found: Principal) -> str:
    return peer_group(found.key, found.kind, None)


@pytest.mark.parametrize(
    ("provider", "names"),
    [
        ("bdGOnTQ7sti4jO9jGHrHJpTtw4U=", ("ann@example.com", "KW105517", "CORP\\ben")),
        ("accounts.google.com", ("108204268033311374519", "116872234501222333444")),
        ("cognito-identity.amazonaws.com", ("us-east-1", "eu-west-1")),
        (f"arn:aws:iam::{ACCOUNT}:oidc-provider/cognito-idp.eu-west-1.amazonaws.com/p", (uuid(1), uuid(2))),
    ],
)
def test_people_that_a_provider_names_are_peers_and_those_of_another_are_none(
    provider: str, names: tuple[str, ...]
) -> None:
    groups = {group_of(subject(name, provider, "SAMLUser")) for name in names}
    assert len(groups) == 1
    assert group_of(subject(names[0], f"{provider}.other", "SAMLUser")) not in groups


@pytest.mark.parametrize(
    ("ours", "others"),
    [
        ("repo:o/r:ref:refs/heads/main", "repo:evil/r:ref:refs/heads/main"),
        ("repo:o/new:environment:prod", "repo:evil/new:environment:prod"),
        ("repo:o/new:pull_request", "ann@example.com"),
    ],
)
def test_repositories_of_an_owner_are_peers_and_those_of_a_stranger_are_none(ours: str, others: str) -> None:
    known = group_of(subject("repo:o/known:pull_request"))
    assert group_of(subject(ours)) == known == "machines token.actions.githubusercontent.com repo:o"
    assert group_of(subject(others)) != known


def test_a_service_account_has_the_peers_of_its_name_in_any_cluster() -> None:
    clusters = [
        f"arn:aws:iam::{account}:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/{number:032X}"
        for number, account in enumerate(("111122223333", "444455556666"))
    ]
    names = ("system:serviceaccount:shop:cart", "system:serviceaccount:shop:mail")
    groups = [{group_of(subject(name, each)) for each in clusters} for name in names]
    assert [len(each) for each in groups] == [1, 1]
    assert groups[0] != groups[1]


def test_who_starts_a_pipeline_of_circleci_is_not_told_apart_and_its_project_is() -> None:
    projects = [f"org/{uuid(1)}/project/{uuid(number)}" for number in (2, 3)]
    found = [[subject(f"{each}/user/{uuid(user)}").key for user in (4, 5)] for each in projects]
    assert [len(set(keys)) for keys in found] == [1, 1]
    assert found[0] != found[1]


def test_what_is_no_run_of_the_same_repository_is_another_principal() -> None:
    names = [
        f"{{{uuid(1)}}}",
        uuid(1),
        f"us-east-1:{uuid(1)}x",
        f"a:{uuid(1)}",
        f"a:{uuid(2)}",
        "repo:o/r:ref:refs/heads/main",
        "repo:o/r:ref:refs/heads/fix",
        "repo:o/r:ref:refs/tags/main",
        "repo:o/other:ref:refs/heads/main",
        "repo:p/r:pull_request",
        "repo:o/r:environment:prod",
        "repo:o/r:environment:dev",
        "repo:o/r:environment:pull_request",
        "repo:o/r:environment:ref:x",
        "x:repo:o/r:pull_request",
        "repo:o/r:pull_request:x",
        "repo:o/r:ref:",
        "repo:o/r/x:pull_request",
        "project_path:o/r:ref_type:branch:ref:main",
        "system:serviceaccount:a:b",
        "repo:o/r:ref:refs/heads/main\n",
        "user:ref:refs/heads/main",
    ]
    assert len({subject(name).key for name in names}) == len(names)


def test_only_the_same_provider_of_web_identities_can_name_a_repository() -> None:
    name = "repo:o/r:ref:refs/heads/main"
    ours = subject(name).key
    assert subject(name, GITLAB).key != ours
    assert subject(name, identity_type="SAMLUser").key != ours
    assert who("IAMUser", user_name="repo:o/r").key != ours
    assert who("AssumedRole", user_name=name).key != ours


def test_what_a_service_does_for_someone_is_a_call_path_of_its_own() -> None:
    for_alice = who("IAMUser", user_name="alice", invoked_by="cloudformation.amazonaws.com")
    linked = who(
        "AssumedRole", issuer_arn=f"{ROLE}/aws-service-role/config.amazonaws.com/AWSServiceRoleForConfig"
    )
    by_name = who("AssumedRole", arn=f"{SESSION}/AWSServiceRoleForRDS/x")
    assert (for_alice.key, for_alice.call_path, for_alice.via) == (
        f"{ACCOUNT}:user/alice",
        "service",
        "cloudformation.amazonaws.com",
    )
    assert (linked.call_path, linked.via) == ("service", "config.amazonaws.com")
    assert by_name.call_path == "service"
    assert who("IAMUser", user_name="alice").call_path == "direct"


def test_the_same_name_in_two_accounts_is_two_principals() -> None:
    assert who("IAMUser", user_name="a", account="1").key != who("IAMUser", user_name="a", account="2").key


def test_a_session_on_an_instance_shows_the_instance() -> None:
    assert who("AssumedRole", arn=f"{SESSION}/app/i-0dbc91f429e48eeed").human == "i-0dbc91f429e48eeed"


def test_no_name_can_be_made_into_another_principals_key() -> None:
    person = who("AssumedRole", arn=f"{SESSION}/AWSReservedSSO_A_1/bob").key
    role = who("AssumedRole", user_name="AWSReservedSSO_A_1/bob").key
    nameless, named = who("IAMUser", principal_id="AIDA1").key, who("IAMUser", user_name="?AIDA1").key
    assert len({person, role, nameless, named}) == 4
    assert "|" not in who("IAMUser", user_name="a|iam|direct").key


@pytest.mark.parametrize(
    ("provider", "subject", "plain"),
    [
        (
            f"arn:aws:iam::{ACCOUNT}:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/A1B2",
            "system:serviceaccount:chatbot:chatbot",
            "system:serviceaccount:chatbot:chatbot (oidc.eks.eu-west-1.amazonaws.com)",
        ),
        ("https://accounts.google.com/x", "1/2", "1/2 (accounts.google.com)"),
        (f"arn:aws:iam::{ACCOUNT}:saml-provider/Okta", "ann", "ann (Okta)"),
        ("e/8e8BF4+/6+d+0DEF7BBe7FD94=", "ann@example.com", "ann@example.com"),  # a digest of SAML: no path
        ("Cf4+32dEc80F6//d78eB5CaF9B0=", "ann@example.com", "ann@example.com"),
        ("cognito-identity.amazonaws.com", "eu-west-1", "Cognito's identity pools in eu-west-1"),
        ("oidc.example.com", "s" * 90, "s" * 90),
        ("p" * 90, "subject", "subject"),
        ("", "subject", "subject"),
        ("evil\u202e", "a\x1b[2J%2F\u202e", "a\\x1b[2J%2F\\u202e (evil\\u202e)"),
    ],
)
def test_a_federated_principal_is_called_by_its_subject_and_then_by_its_provider(
    provider: str, subject: str, plain: str
) -> None:
    assert plain_principal(f"{ACCOUNT}:federated/{escape_key(provider)}/{escape_key(subject)}") == plain


def test_a_caller_of_another_account_is_called_by_that_account() -> None:
    caller = principal_of(
        {
            "identity_type": "AWSAccount",
            "principal_id": "AROAPGA3KWCATOSOSJNFU:orca-41954599",
            "account": "976280145156",
        }
    )
    assert caller.key == "976280145156:account/AROAPGA3KWCATOSOSJNFU"
    assert (caller.kind, caller.session, caller.human) == ("account", "orca-41954599", "")
    assert plain_principal(caller.key) == "a caller of account 976280145156"
    assert plain_principal("account/eve") == "account/eve"


@pytest.mark.parametrize(
    "identity",
    [
        {"identity_type": "AWSAccount", "account": "ANONYMOUS_PRINCIPAL"},
        {"identity_type": "AWSAccount", "account": "anonymous"},
        {"identity_type": "Unknown", "principal_id": "ANONYMOUS_PRINCIPAL"},
    ],
)
def test_callers_without_credentials_are_one_principal_of_the_account_that_was_called(
    identity: dict[str, str],
) -> None:
    accounts = {ACCOUNT: ACCOUNT, "999999999999": "999999999999", "": "unknown"}
    for recipient, account in accounts.items():
        caller = who(**identity, recipient_account=recipient)
        assert (caller.key, caller.kind) == (f"{account}:account/anonymous", "account")
        assert plain_principal(caller.key) == "anonymous callers without credentials"


@pytest.mark.parametrize(
    ("session", "human"),
    [
        ("ann@example.com", "ann@example.com"),
        ("ann.bloggs", "ann.bloggs"),
        ("i-0123456789abcdef0", "i-0123456789abcdef0"),
        ("build:7", ""),
        ("", ""),
    ],
)
def test_a_caller_of_another_account_has_a_session_whose_name_is_no_part_of_its_key(
    session: str, human: str
) -> None:
    caller = who(identity_type="AWSAccount", principal_id=f"AROA1:{session}", account="999999999999")
    assert (caller.key, caller.session, caller.human) == ("999999999999:account/AROA1", session, human)
    alone = who(identity_type="AWSAccount", account="999999999999")
    assert (alone.key, alone.session) == ("999999999999:account/999999999999", "")


@pytest.mark.parametrize(
    ("source_identity", "session", "human"),
    [
        ("ann@example.com", "botocore-session-1700000000", "ann@example.com"),
        ("ann@example.com", "eve@example.com", "ann@example.com"),
        ("CN=gw-2489", "botocore-session-1700000000", ""),
        ("CN=gw-2489", "ann@example.com", "ann@example.com"),
        ("", "BLOGGS.ANN.M.1234567890@mil", "BLOGGS.ANN.M.1234567890@mil"),
        ("", "deploy@runner", ""),
    ],
)
def test_the_person_at_a_role_is_the_one_of_the_source_identity_and_no_part_of_the_key(
    source_identity: str, session: str, human: str
) -> None:
    caller = who("AssumedRole", arn=f"{SESSION}/Dev/{session}", source_identity=source_identity)
    assert (caller.key, caller.session, caller.human) == (f"{ACCOUNT}:role/Dev", session, human)


@pytest.mark.parametrize("name", ["user/a%7Cb", "role/web/ann", "root", "federated/?", "service/a.b", ""])
def test_other_principals_are_called_by_their_key_without_its_account(name: str) -> None:
    assert plain_principal(f"{ACCOUNT}:{name}") == name


@pytest.mark.parametrize(
    ("name", "person", "access"),
    [
        (
            "role/AWSReservedSSO_Data_Admin_0123456789abcdef/ann%40example.com",
            "ann@example.com",
            "Data_Admin",
        ),
        ("role/AWSReservedSSO_/ann", "ann", "AWSReservedSSO_"),
        ("role/okta-admin/ann", "ann", "okta-admin"),
        (f"federated/{escape_key('arn:aws:iam::1:saml-provider/Okta')}/a%40b.c", "a@b.c", "Okta"),
        ("federated/AWSSSO/a%40b.c\u202e", "a@b.c\\u202e", "AWSSSO"),
        ("federated/3d2a0f93c7c3625=/a%40b.c", "a@b.c", "a SAML provider"),
        *(
            (each, "", "")
            for each in ("federated/oidc/repo%3Ao", "role/web", "user/ann", "root", "federated/?", "")
        ),
    ],
)
def test_a_person_comes_by_a_role_or_a_provider(name: str, person: str, access: str) -> None:
    assert person_and_access(f"{ACCOUNT}:{name}") == (person, access)


@given(st.text(), st.text())
def test_escaping_keeps_different_names_different(a: str, b: str) -> None:
    assert (escape_key(a) == escape_key(b)) == (a == b)
    assert not set(escape_key(a)) & set("/|:?*\n\u202e")


@given(st.dictionaries(st.sampled_from(IDENTITY_COLUMNS), st.text(max_size=30)))
def test_no_identity_makes_it_raise(identity: dict[str, str]) -> None:
    assert principal_of(identity).key


@pytest.mark.parametrize(
    ("granularity", "entity"),
    [
        ("principal_service", f"{ACCOUNT}:user/alice|ec2|direct"),
        ("principal", f"{ACCOUNT}:user/alice|*|direct"),
        ("service", "*|ec2|direct"),
    ],
)
def test_what_has_a_fingerprint_is_a_setting(granularity: Any, entity: str) -> None:
    row = dict.fromkeys(IDENTITY_COLUMNS, None) | {
        "identity_type": "IAMUser",
        "user_name": "alice",
        "account": ACCOUNT,
        "service": "ec2",
    }
    events = pd.DataFrame([row], dtype="str")
    assert add_entity_columns(events, Entities(granularity=granularity)).entity.tolist() == [entity]


def test_naming_a_batch_is_naming_each_event() -> None:
    """The vectorised pipeline against the plain one, on every real record in the checkout."""
    lines = [
        line
        for folder in ("schema_variety", "panther_rule_tests")
        for line in gzip.decompress((REAL / folder / f"{folder}.jsonl.gz").read_bytes()).splitlines()
    ]
    events = flatten(split_lines(lines)).events
    named = add_entity_columns(events, Entities())
    rows = (
        events[list(IDENTITY_COLUMNS)]
        .astype(object)
        .where(events[list(IDENTITY_COLUMNS)].notna(), "")
        .to_dict("records")
    )
    assert named.principal.tolist() == [principal_of(row).key for row in rows]
    assert [human or "" for human in named.human.fillna("")] == [principal_of(row).human for row in rows]
    assert list(named.columns) == [*events.columns, *ENTITY_COLUMNS]
    assert named.index.equals(events.index)


def test_a_batch_without_events_has_the_columns_too() -> None:
    assert list(add_entity_columns(flatten(split_lines([])).events, Entities()).columns)[
        -len(ENTITY_COLUMNS) :
    ] == list(ENTITY_COLUMNS)


def test_the_provider_of_a_sign_in_by_saml_is_read_from_its_record_and_from_no_damaged_one() -> None:
    arn = "arn:aws:iam::111122223333:saml-provider/ADFS"
    record = {"eventName": "AssumeRoleWithSAML", "requestParameters": {"principalArn": arn}}
    assert saml_provider(json.dumps(record)) == arn
    assert signed_in_by(json.dumps(record)) == "saml-provider/ADFS"
    deep = json.dumps(record)[:-1] + ', "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
    for damaged in ("", "{", "[]", '{"requestParameters": 7}', json.dumps(record | {"eventName": 7}), deep):
        assert saml_provider(damaged) == ""
    assert saml_provider(json.dumps(record | {"eventName": "AssumeRole"})) == ""


def test_the_account_of_a_trail_is_read_from_any_record_and_none_from_what_is_no_record() -> None:
    assert (
        record_account('{"recipientAccountId": "111122223333", "requestParameters": {"account": "4"}}')
        == "111122223333"
    )
    nested = (
        '{"recipientAccountId": "111122223333", "requestParameters": '
        + '{"a": ' * 100_000
        + "1"
        + "}" * 100_001
    )
    for damaged in ("", "{", "[]", '{"recipientAccountId": 4}', '"\ud800"', nested):
        assert record_account(damaged) == ""
