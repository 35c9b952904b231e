"""Undoing a call: for each AWS action a sentence, and commands with the names in the record of the call.

Example:
    >>> undo_step("iam:AttachUserPolicy", [Call({"userName": "eve", "policyArn": "arn:aws:iam::aws:policy/AdministratorAccess"})])
    NextStep(phase='undo', text='Take the policy from the user.', command='aws iam detach-user-policy --user-name eve ...')

In a command
- `<member>` is the value of a member of the request or the response, by its path
- `<a|b>` is the value of the first of several members that the record has
- `<member,>` is all values of a member, with commas between them
- `<region>` and `<account>` are those of the record

A value is text of an attacker. It is used only if all of its characters are plain for a shell and for the AWS CLI
(`safe_argument`). Otherwise the name of the member is there in capitals, to be filled in. Actions that the table,
playbook_undo.toml, does not have are set back by `playbook_inverse`. Source of the commands: the AWS CLI reference, and AWS's
incident response playbooks (github.com/aws-samples/aws-customer-playbook-framework).
"""

from __future__ import annotations

import json
import re
import string
import tomllib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from fingerprint.core.alert import NextStep
from fingerprint.sources.cloudtrail.attack_mappings import without_api_version
from fingerprint.sources.cloudtrail.impact_effects import listed_calls
from fingerprint.sources.cloudtrail.playbook_inverse import Undo, inverse_undo
from fingerprint.sources.cloudtrail.record_members import request_values
from fingerprint.sources.cloudtrail.resources import HIDDEN

_TABLE = Path(__file__).with_suffix(".toml")
MAX_ARGUMENT_LENGTH = 256  # characters of a value in a command
MAX_CALLS = 50  # distinct calls of one action that get commands
MAX_VALUES = 1_000  # values of one call in a command: RunInstances starts up to as many machines, and a shell accepts them
MAX_NAMED_OUTSIDE = 8  # accounts and buckets that a step names as places to which data were taken
MAX_STEP_LENGTH = 100_000  # characters of a step's commands; the first command is always kept
# Policies that responders put or attach. The name counts only if the document is missing: a thief may use it for other rights.
_CONTAINING_NAMES = frozenset({"incident-deny-all", "incident-deny-session", "AWSRevokeOlderSessions"})
_CONTAINING_POLICIES = re.compile(
    r"arn:aws[a-z-]*:iam::aws:policy/(?:AWSCompromisedKeyQuarantine(?:V\d+)?|AWSDenyAll)"
)
_AWAY = "T1537"  # technique: data taken to another account
_PARTITIONS = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "eusc-": "aws-eusc",
}  # partitions of ARNs, by the prefix of their regions
# Members of ModifyInstanceAttribute that are named after the attribute; a record may have the member `attribute` instead.
_MACHINE_ATTRIBUTES = (
    "disableApiTermination",
    "disableApiStop",
    "instanceType",
    "instanceInitiatedShutdownBehavior",
    "sourceDestCheck",
    "ebsOptimized",
    "userData",
    "kernel",
    "ramdisk",
)
_EARLIER_FILE = re.compile(r"(file://EARLIER_\w+)\.json")  # no value of a record has `://`
_SAFE_CHARACTERS = frozenset(string.ascii_letters + string.digits + "._/@+=,:-")


class Call(NamedTuple):
    """One call, from its record: the members of request and response, the region and the account."""

    request: Mapping[str, Any]
    response: Mapping[str, Any] = {}
    region: str = ""
    account: str = ""


class FilledCommand(NamedTuple):
    """A command with the names of a call, and the number of values that it leaves out: too many, or not safe."""

    text: str
    hidden: int


# Only the root user can delete its keys, or a session of sts:AssumeRoot that may do nothing else.
_ROOT_KEY = Undo(
    "Delete root's new access key: run the second command as root, or with the session that the first one gives where the "
    "organisation administers root access in one account.",
    "aws sts assume-root --target-principal <account> "
    "--task-policy-arn arn=arn:aws:iam::aws:policy/root-task/IAMDeleteRootUserCredentials\n"
    "aws iam delete-access-key --access-key-id <accessKey.accessKeyId>",
)


@cache
def undo_table() -> Mapping[str, Undo]:
    """Return how to undo each `service:Action` of playbook_undo.toml."""
    return {
        f"{service}:{action}": Undo(
            each["text"],
            each["commands"].rstrip("\n"),
            tuple(each.get("options", ())),
            each.get("one_needed", True),
        )
        for actions, each in tomllib.loads(_TABLE.read_text(encoding="utf-8")).items()
        for service, action in listed_calls(actions)
    }


def undo_step(
    action: str, calls: Sequence[Call], technique: str = "", by_root: bool = False
) -> NextStep | None:
    """Return how to undo calls of one `service:Action`, with a command for each distinct call; None if nothing sets it back.

    An action that the table does not have is set back by the inverse operation of its service. `technique` is the attack
    technique of the action. `by_root`: the root user made the calls; its own keys have no user's name.
    """
    own = (
        by_root and action == "iam:CreateAccessKey" and not any("userName" in each.request for each in calls)
    )
    found = (
        _ROOT_KEY if own else undo_table().get(without_api_version(action)) or inverse_undo(action, technique)
    )
    if found is None:
        return None
    filled = [fill_command(_template(found, call), call) for call in calls]
    commands = list(dict.fromkeys(each.text for each in filled))
    shown = _within_length(commands[:MAX_CALLS])
    more = not_shown(len(commands) - len(shown), "such call")
    hidden = sum(each.hidden for each in filled)
    return NextStep(
        "undo",
        f"{found.text}{more}{not_shown(hidden, 'name')}{_named_outside(calls) if technique == _AWAY else ''}",
        "\n".join(_with_own_files(shown)),
    )


def _named_outside(calls: Sequence[Call]) -> str:
    """Return the sentence that names the other accounts and the buckets in requests that take data away; empty if none.

    >>> _named_outside([Call({"s3Bucket": "mirror", "s3BucketOwner": "111122223333"}, account="123456789012")])
    ' It names account 111122223333, bucket mirror.'
    """
    named: dict[str, None] = {}
    for call in calls:
        for member, text in request_values(call.request):
            number = text.split(":")[4] if text.startswith("arn:") and text.count(":") >= 5 else text
            if len(number) == 12 and number.isascii() and number.isdigit() and number != call.account:
                named[f"account {number}"] = None
            bucket = safe_argument(text.rpartition(":")[2])
            if (
                "bucket" in member.lower()
                and member != "bucketName"
                and bucket.islower()
                and not bucket.isdigit()
            ):
                named[f"bucket {bucket}"] = None
    shown = list(named)[:MAX_NAMED_OUTSIDE]
    more = not_shown(len(named) - len(shown), "name")
    return f" It names {', '.join(shown)}.{more}" if shown else ""


def _within_length(commands: Sequence[str]) -> list[str]:
    """Return the first commands that stay within MAX_STEP_LENGTH together: an attacker writes the values in them."""
    lengths = list(accumulate(map(len, commands)))
    return list(commands[: max(1, bisect_right(lengths, MAX_STEP_LENGTH))])


def _with_own_files(commands: Sequence[str]) -> list[str]:
    """Return commands with numbered EARLIER_ files if there are several: each thing needs a file of its own values."""
    if len(commands) == 1:
        return list(commands)
    return [_EARLIER_FILE.sub(rf"\1_{at}.json", each) for at, each in enumerate(commands, 1)]


def only_denies(action: str, call: Call) -> bool:
    """Return whether a call put or attached an IAM policy that only denies, as responders do to contain."""
    if action.startswith("iam:Attach"):
        arn = call.request.get("policyArn")
        return isinstance(arn, str) and _CONTAINING_POLICIES.fullmatch(arn) is not None
    if not action.startswith("iam:Put"):
        return False
    if "policyDocument" not in call.request:
        return call.request.get("policyName") in _CONTAINING_NAMES
    return _is_deny_only(call.request["policyDocument"])


def _is_deny_only(document: object) -> bool:
    """Return whether each statement of a policy denies; False for a document that cannot be read or is ambiguous."""
    try:
        text = document if isinstance(document, str) else json.dumps(document)
        text = unquote(text) if text.startswith("%7B") else text
        policy = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        return False
    found = policy.get("Statement") if isinstance(policy, dict) else None
    statements = found if isinstance(found, list) else [found]
    return bool(statements) and all(
        isinstance(each, dict) and each.get("Effect") == "Deny" for each in statements
    )


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object. Raises ValueError if it names one twice, in any case, so it is not clear which counts."""
    if len({name.casefold() for name, _ in pairs}) < len(pairs):
        raise ValueError("a member is named twice")
    return dict(pairs)


def _template(undo: Undo, call: Call) -> str:
    """Return the commands of an undo with the options whose members the record all has: the first form of each option."""
    given: dict[str, str] = {}
    for option in undo.options:
        if all(_values(member, call)[0] for member in _members_of(option)):
            given.setdefault(option.partition(" ")[0], option)
    return " ".join((undo.command, *(given.values() or undo.options[: undo.one_needed])))


def _members_of(template: str) -> list[str]:
    return list(dict.fromkeys(part.partition(">")[0] for part in template.split("<")[1:]))


def not_shown(count: int, what: str) -> str:
    """Return the sentence that says how many things of a kind are in no command; empty for 0 or fewer."""
    plural = "" if count == 1 else "es" if what.endswith("s") else "s"
    return f" And {count:,} more {what}{plural}, not shown." if count > 0 else ""


def fill_command(template: str, call: Call) -> FilledCommand:
    """Return a template with each `<member>` filled in, or its name in capitals if the record has no safe value of it."""
    first, *rest = template.split("<")
    parts, hidden = [first], {}
    for part in rest:
        member, _, text = part.partition(">")
        shown, hidden[member] = _values(member, call)
        parts += [_argument(member, shown), text]
    return FilledCommand("".join(parts), sum(hidden.values()))


def safe_argument(value: object) -> str:
    """Return a value as an argument of a command, or an empty text if it is not plainly a name.

    A name
    - has only letters, digits and ._/@+=,:- of ASCII: nothing to quote, and nothing that a terminal acts on
    - does not begin with a hyphen (an option), `@` or `=`
    - does not contain `://`, which the AWS CLI reads as a file or an address to load
    - is not the word that AWS writes in place of a hidden name
    - has at most MAX_ARGUMENT_LENGTH characters
    """
    text = str(value) if isinstance(value, str | int) else ""
    plain = _SAFE_CHARACTERS.issuperset(text) and "://" not in text and not text.startswith(("-", "@", "="))
    return text if plain and text != HIDDEN and len(text) <= MAX_ARGUMENT_LENGTH else ""


def _argument(member: str, shown: Sequence[str]) -> str:
    if shown:
        return ("," if member.endswith(",") else " ").join(shown)
    last = member.rstrip(",").partition("|")[0].rpartition(".")[2]
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in last).strip("_").upper()


def _values(member: str, call: Call) -> tuple[list[str], int]:
    """Return the values of a member that a command may hold, and how many other values it has."""
    for each in member.rstrip(",").split("|"):
        for values in _places(each, call):
            found = [value for value in _members(values, each.split(".")) if isinstance(value, str | int)]
            distinct = dict.fromkeys(found)
            shown = [text for text in map(safe_argument, distinct) if text][:MAX_VALUES]
            if shown:
                return shown, len(distinct) - len(shown)
    return [], 0


def _places(member: str, call: Call) -> tuple[Mapping[str, Any], ...]:
    """Return the objects that may have a member; for `*.member` only the response."""
    if member.startswith("*"):
        return (call.response,)
    return call.request, call.response, {"region": call.region, "account": call.account}, _made_of(call)


def _made_of(call: Call) -> dict[str, str]:
    """Return members that a record only implies: the ARN of an identity provider, and the attribute of a machine that changed.

    >>> _made_of(Call({"url": "https://id.example.com/a"}, account="123456789012"))
    {'providerArn': 'arn:aws:iam::123456789012:oidc-provider/id.example.com/a'}
    """
    url, found = call.request.get("url"), {}
    if isinstance(url, str) and url.startswith("https://") and call.account.isdecimal():
        partition = next(
            (name for start, name in _PARTITIONS.items() if call.region.startswith(start)), "aws"
        )
        name = url.removeprefix("https://").rstrip("/")
        found["providerArn"] = f"arn:{partition}:iam::{call.account}:oidc-provider/{name}"
    changed = [each for each in _MACHINE_ATTRIBUTES if each in call.request]
    return found | ({"changedAttribute": changed[0]} if len(changed) == 1 else {})


def _members(node: Any, path: Sequence[str]) -> list[Any]:
    """Return the values at a path: of every element of a list on the way, and of every member for `*`."""
    if isinstance(node, list):
        return [each for part in node for each in _members(part, path)]
    if not path:
        return [node]
    if path[0] == "*":
        return _members(list(node.values()), path[1:]) if isinstance(node, Mapping) else []
    return _members(node[path[0]], path[1:]) if isinstance(node, Mapping) and path[0] in node else []
