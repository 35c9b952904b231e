"""Commands of next steps are commands of the AWS CLI: service, operation and options are those of botocore's service models."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import botocore.session
import pytest
from botocore import xform_name
from botocore.model import ListShape, Shape, StructureShape

from fingerprint.sources.cloudtrail.attack_mappings import without_api_version
from fingerprint.sources.cloudtrail.event_queries import principal_queries
from fingerprint.sources.cloudtrail.impact import listed_actions
from fingerprint.sources.cloudtrail.operations import cli_word, load_operations
from fingerprint.sources.cloudtrail.playbook import next_steps
from fingerprint.sources.cloudtrail.playbook_inverse import inverse_undo
from fingerprint.sources.cloudtrail.playbook_undo import Call, fill_command, undo_table
from tests.sources.cloudtrail.test_playbook import ACCOUNT, AKIA, ASIA, call, suspicion, with_session

CLI_NAMES = {
    "s3api": "s3",
    "configservice": "config",
    "deploy": "codedeploy",
}  # where the CLI's name of a service is not botocore's
EVERY_COMMAND = {"--region", "--query", "--output"}
# Sensitive members that are a secret itself; passwords of databases are masked in an answer.
SECRET = re.compile(r"secret(?!arn)|^basicAuthCredentials$|privatekey|plaintext", re.IGNORECASE)
ANSWERS_WITH_A_VALUE = {"ssm get-parameter", "ssm get-parameters", "route53globalresolver get-access-token"}
SESSION = botocore.session.get_session()


@cache
def _options(service: str, command: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the options of a command of the CLI and those that it needs; a flag has its negation too."""
    model = SESSION.get_service_model(CLI_NAMES.get(service, service))
    [operation] = [name for name in model.operation_names if xform_name(name, "-") == command]
    shape = model.operation_model(operation).input_shape
    if shape is None:
        return frozenset(), frozenset()
    names = {member: f"--{xform_name(member, '-')}" for member in shape.members}
    flags = {f"--no-{names[member][2:]}" for member, of in shape.members.items() if of.type_name == "boolean"}
    return frozenset({*names.values(), *flags}), frozenset(names[each] for each in shape.required_members)


def _calls_of_the_cli(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        words = shlex.split(line)
        if words[:1] == ["aws"]:
            yield words[: -2 if words[-2] in (">", ">>") else None]


def _check(text: str) -> int:
    count = 0
    for _, service, command, *rest in _calls_of_the_cli(text):
        given = {word for word in rest if word.startswith("--")}
        known, needed = _options(service, command)
        assert given <= known | EVERY_COMMAND, (service, command)
        # A flag that a command needs may be given as its opposite, or as what it was before.
        either = {f"--{each[5:]}" for each in given if each.startswith("--no-")}
        before = {f"--{each[8:].lower().replace('_', '-')}" for each in rest if each.startswith("EARLIER_")}
        assert needed <= given | either | before, (service, command)
        count += 1
    return count


@pytest.mark.parametrize(
    "principal",
    [
        "user/grace",
        "root",
        "role/web",
        "role/okta/ann@example.com",
        "role/AWSServiceRoleForEC2Spot",
        "role/AWSReservedSSO_Admin_0a1b/ann@example.com",
        "identitycenter/0a1b",
        "federated/x/y",
        "federated/x/system%3Aserviceaccount%3Aexports%3Aworker",
        "service/ec2.amazonaws.com",
        "account/1",
        "account/anonymous",
    ],
)
@pytest.mark.parametrize("key", [AKIA, ASIA, ""])
def test_commands_to_contain_verify_and_search_are_the_clis(principal: str, key: str) -> None:
    events = (
        call("sts:AssumeRole", key=key, session="i-0ab12cd34ef56ab78"),
        call("sts:GetSessionToken", key=key),
    )
    steps = next_steps(suspicion(*events, principal=f"{ACCOUNT}:{principal}"))
    assert sum(_check(step.command) for step in steps) > 2


@pytest.mark.parametrize(
    ("principal", "session"),
    [
        ("role/gateway", {"sourceIdentity": "CN=gw-2489"}),
        ("role/visitors", {"webIdFederationData": {"federatedProvider": "cognito-identity.amazonaws.com"}}),
        ("unknown/Unknown/", {}),
    ],
)
def test_commands_to_cut_what_opened_a_session_are_the_clis(principal: str, session: dict[str, str]) -> None:
    made = call("rolesanywhere:CreateSession", key="", session="2489f294dcae56a6")
    steps = next_steps(suspicion(with_session(made, **session), principal=f"{ACCOUNT}:{principal}"))
    assert sum(_check(step.command) for step in steps if step.phase == "contain") > 2


def test_commands_to_cut_a_device_are_the_clis() -> None:
    made = call("s3:PutObject", key=ASIA, session="0a1b" * 16)
    steps = next_steps(suspicion(made, principal=f"{ACCOUNT}:role/devices"))
    assert sum(_check(step.command) for step in steps if "iot" in step.command) == 1


def test_commands_to_stop_a_function_and_a_pod_are_the_clis() -> None:
    pod = "eks-prod-worker-7f9c-0f2f5b3a-1c1d-4a57-9b52-1f6d3e7a9c10"
    made = call("s3:PutObject", key=ASIA, session=pod)
    steps = next_steps(suspicion(made, principal=f"{ACCOUNT}:role/worker"))
    assert sum(_check(step.command) for step in steps if "pod" in step.command) == 2
    scope = {
        "issuerType": "AWS::Lambda::Function",
        "credentialsIssuedTo": "arn:aws:lambda:eu-west-1:1:function:f",
    }
    record = json.dumps({"userIdentity": {"inScopeOf": scope}})
    steps = next_steps(suspicion(replace(made, raw=record), principal=f"{ACCOUNT}:role/worker"))
    assert sum(_check(step.command) for step in steps if "lambda" in step.command) == 2


@pytest.mark.parametrize("action", undo_table())
def test_commands_to_undo_are_the_clis(action: str) -> None:
    undo = undo_table()[action]
    assert _check(fill_command(" ".join((undo.command, *undo.options)), Call({})).text)


@pytest.mark.parametrize("gravity", ["severe", "grave"])
def test_commands_that_do_the_opposite_are_the_clis(gravity: str) -> None:
    actions = [
        (f"{service}:{action}", impact.technique)
        for (service, action), impact in listed_actions().items()
        if impact.gravity == gravity and f"{service}:{action}" not in undo_table()
    ]
    found = [undo for undo in (inverse_undo(*each) for each in actions) if undo]
    for undo in found:
        _check(fill_command(" ".join((undo.command, *undo.options)), Call({})).text)
    assert len(found) > len(actions) * 0.75


def _secrets_of(shape: Shape | None, name: str = "", within: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the names of an answer's sensitive members that hold a secret, in whatever structure."""
    if shape is None or shape.name in within:
        return
    within |= {shape.name}
    if isinstance(shape, StructureShape):
        for member, of in shape.members.items():
            yield from _secrets_of(of, member, within)
    elif isinstance(shape, ListShape):
        yield from _secrets_of(shape.member, name, within)
    elif shape.metadata.get("sensitive") and SECRET.search(name):
        yield name


def _shown(text: str) -> Iterator[str]:
    """Yield the commands of an undo that put a secret on the screen of who runs them."""
    for _, service, command, *rest in _calls_of_the_cli(text):
        model = SESSION.get_service_model(CLI_NAMES.get(service, service))
        [operation] = [name for name in model.operation_names if xform_name(name, "-") == command]
        secret = f"{service} {command}" in ANSWERS_WITH_A_VALUE or any(
            _secrets_of(model.operation_model(operation).output_shape)
        )
        if command.startswith(("get-", "describe-", "list-")) and "--query" not in rest and secret:
            yield f"{service} {command}"


def test_no_command_to_undo_shows_a_secret() -> None:
    undone = dict(undo_table()) | {
        action: undo
        for action in map(without_api_version, load_operations())
        if action not in undo_table() and (undo := inverse_undo(action))
    }
    found = {
        action: list(_shown(fill_command(undo.command, Call({})).text)) for action, undo in undone.items()
    }
    assert {action: shown for action, shown in found.items() if shown} == {}


def test_members_are_spelled_as_the_clis_options() -> None:
    names = {name for each in load_operations().values() for name, _, _ in each.parameters}
    assert [each for each in names if cli_word(each) != xform_name(each[:1].upper() + each[1:], "-")] == []


def test_queries_for_a_principal_are_the_clis() -> None:
    day = datetime(2026, 3, 4, tzinfo=UTC)
    assert _check(principal_queries(f"{ACCOUNT}:user/ana", (AKIA,), day, day)[0].text) == 2
