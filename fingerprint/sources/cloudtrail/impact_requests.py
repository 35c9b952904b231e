"""What a request says about how grave its call is: a policy for everybody, a snapshot for another account, versioning suspended.

Example:
    >>> record = '{"requestParameters": {"VersioningConfiguration": {"Status": "Enabled"}}}'
    >>> adjust_gravity("s3", "PutBucketVersioning", "severe", record)
    'minor'

The same action protects or harms by its parameters. Only what is plain is read; a request that is missing, cut or in an unknown
form leaves the gravity as it is, so leaving out a parameter makes no call look harmless. All of it is an attacker's text: it is
compared, and never shown from here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from fingerprint.core.alert import Gravity

Request = dict[str, Any]
Check = Callable[
    [Request, str], Gravity | None
]  # request and the caller's account -> gravity; None: as the action's

MAX_RECORD_CHARACTERS = 262_144  # a longer record is not read
MAX_VALUES = 5_000  # of a request that are examined
EVERYBODY = ("*", "0.0.0.0/0", "::/0", "all")
_PUBLIC_GROUPS = ("AllUsers", "AuthenticatedUsers", "public-read", "public-read-write", "authenticated-read")


class _Record(msgspec.Struct):
    requestParameters: Any = None
    recipientAccountId: Any = ""
    readOnly: Any = None


_DECODER = msgspec.json.Decoder(_Record)


def adjust_gravity(service: str, action: str, gravity: Gravity, record: str) -> Gravity:
    """Return the gravity of a call whose action alone has `gravity`, by what its record says of the request."""
    check = _CHECKS.get((service, action))
    read = _read_record(record) if check else None
    if check is None or read is None or not isinstance(read.requestParameters, dict):
        return gravity
    return check(read.requestParameters, str(read.recipientAccountId or "")) or gravity


def reads_only(record: str) -> bool:
    """Return whether a record says that its call only read; False where there is none."""
    read = _read_record(record)
    return read is not None and read.readOnly is True


def _read_record(record: str) -> _Record | None:
    """Return what is read of a record; None for one that is missing, too long or no record."""
    if not 0 < len(record) <= MAX_RECORD_CHARACTERS:
        return None
    try:
        return _DECODER.decode(record)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _values(node: Any) -> Iterator[tuple[str, str]]:
    """Yield (member, text) of every plain value of a request, members of lists by the list's; policies in text are opened."""
    waiting: list[tuple[str, Any]] = [("", node)]
    for _ in range(MAX_VALUES):
        if not waiting:
            return
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(str(member), each) for member, each in value.items()]
        elif isinstance(value, list):
            waiting += [(name, each) for each in value]
        elif isinstance(value, str) and value.lstrip()[:1] == "{":
            try:
                waiting.append((name, json.loads(value)))
            except (ValueError, RecursionError):
                yield name, value
        else:
            yield name, str(value)


def _grants_outside(request: Request, account: str) -> Gravity | None:
    """Return severe for a policy that allows everybody or another account something, notable for its own account alone."""
    principals = [text for name, text in _values(_principals(request))]
    if not principals:
        return "minor" if "attributes" in request or "attributeName" in request else None
    if any(_is_outside(text, account) for text in principals):
        return "severe"
    return "notable"


def _principals(node: Any) -> list[Any]:
    """Return what stands under `Principal` in the statements of a request that allow something."""
    found: list[Any] = []
    waiting: list[Any] = [node]
    for _ in range(MAX_VALUES):
        if not waiting:
            break
        value = waiting.pop()
        if isinstance(value, dict):
            if str(value.get("Effect", "Allow")) == "Allow" and "Principal" in value:
                found.append(value["Principal"])
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and value.lstrip()[:1] == "{":
            try:
                waiting.append(json.loads(value))
            except (ValueError, RecursionError):
                continue
    return found


def _is_outside(text: str, account: str) -> bool:
    """Return whether a policy's principal is everybody, or of an account that is not the caller's; services are not."""
    if text == "*":
        return True
    digits = text.split(":")[4] if text.startswith("arn:") and text.count(":") >= 5 else text
    return digits.isdigit() and len(digits) == 12 and digits != account


def _shares_with_others(request: Request, account: str) -> Gravity | None:
    """Return severe where an account or everybody is added to a snapshot or image, minor where one is only removed."""
    added = [value for name, value in _flat_members(request) if name in ("add", "valuesToAdd")]
    removed = [value for name, value in _flat_members(request) if name in ("remove", "valuesToRemove")]
    if any(text for each in added for _, text in _values(each)):
        return "severe"
    return "minor" if any(text for each in removed for _, text in _values(each)) else None


def _flat_members(node: Any) -> Iterator[tuple[str, Any]]:
    waiting = [node]
    for _ in range(MAX_VALUES):
        if not waiting:
            return
        value = waiting.pop()
        if isinstance(value, dict):
            yield from value.items()
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _opens_to_everybody(request: Request, account: str) -> Gravity | None:
    """Return grave for a rule that opens to the whole internet, minor for some addresses: that is everyday work."""
    ranges = [
        text
        for name, text in _values(request)
        if name.lower() in ("cidrip", "cidripv6", "cidrblock", "ipv6cidrblock")
    ]
    if not ranges:
        return None
    return "grave" if any(text in EVERYBODY for text in ranges) else "minor"


def _public_acl(request: Request, account: str) -> Gravity | None:
    """Return severe for an ACL that names everybody."""
    return (
        "severe"
        if any(word in text for _, text in _values(request) for word in _PUBLIC_GROUPS)
        else "notable"
    )


def _public_access_block(request: Request, account: str) -> Gravity | None:
    """Return severe where a part of the block is switched off, minor where it is switched on: that protects."""
    flags = {
        text.lower()
        for name, text in _values(request)
        if name.lower().startswith(("block", "ignore", "restrict"))
    }
    return None if not flags else "severe" if "false" in flags else "minor"


def _when_suspended(request: Request, account: str) -> Gravity | None:
    """Return severe where versioning or its protection is suspended, minor where it is switched on."""
    states = {text for name, text in _values(request) if name in ("Status", "MfaDelete")}
    return None if not states else "severe" if states & {"Suspended", "Disabled"} else "minor"


def _when_disabled(request: Request, account: str) -> Gravity | None:
    """Return severe for an update that switches a detector off, notable for another one."""
    flags = {text.lower() for name, text in _values(request) if name in ("enable", "status")}
    return None if not flags else "severe" if flags & {"false", "paused", "disabled"} else "notable"


def _names_administrator(request: Request, account: str) -> Gravity | None:
    """Return severe for full rights, notable for rights to read."""
    policies = [text for name, text in _values(request) if name == "policyArn"]
    if any(
        text.endswith(("/AdministratorAccess", "/PowerUserAccess", "/IAMFullAccess")) for text in policies
    ):
        return "severe"
    return (
        "notable"
        if policies and all(text.endswith(("ReadOnlyAccess", "ReadOnly")) for text in policies)
        else None
    )


def _key_status(request: Request, account: str) -> Gravity | None:
    """Return grave where a key comes back to life, minor where it is taken out of use: that is what responders do."""
    states = {text for name, text in _values(request) if name == "status"}
    return "grave" if "Active" in states else "minor" if "Inactive" in states else None


def _with_decryption(request: Request, account: str) -> Gravity | None:
    """Return notable where a parameter is asked for in plain text: then it is a secret."""
    return (
        "notable"
        if any(name == "withDecryption" and text == "True" for name, text in _values(request))
        else None
    )


def _user_data(request: Request, account: str) -> Gravity | None:
    """Return notable where a machine's start script is read, which often holds secrets, none for its other attributes."""
    return "notable" if any(text == "userData" for _, text in _values(request)) else "none"


_OUTSIDE = (
    "s3:PutBucketPolicy s3:PutAccessPointPolicy iam:UpdateAssumeRolePolicy iam:CreateRole kms:PutKeyPolicy "
    "secretsmanager:PutResourcePolicy ecr:SetRepositoryPolicy sqs:SetQueueAttributes sns:SetTopicAttributes "
    "dynamodb:PutResourcePolicy"
)
_SHARED = (
    "ec2:ModifySnapshotAttribute ec2:ModifyImageAttribute rds:ModifyDBSnapshotAttribute "
    "rds:ModifyDBClusterSnapshotAttribute"
)
_OPENED = (
    "ec2:AuthorizeSecurityGroupIngress ec2:AuthorizeSecurityGroupEgress ec2:CreateNetworkAclEntry "
    "ec2:ReplaceNetworkAclEntry"
)
_BLOCKED = "s3:PutBucketPublicAccessBlock s3:PutPublicAccessBlock s3:PutAccountPublicAccessBlock"
_PARAMETERS = "ssm:GetParameter ssm:GetParameters ssm:GetParametersByPath ssm:GetParameterHistory"
_ADMINISTRATOR = (
    "iam:AttachUserPolicy iam:AttachRolePolicy iam:AttachGroupPolicy sso:AttachManagedPolicyToPermissionSet"
)


def _table(actions: str, check: Check) -> dict[tuple[str, str], Check]:
    return {
        (service, action): check for service, _, action in (word.partition(":") for word in actions.split())
    }


_CHECKS: dict[tuple[str, str], Check] = (
    _table(_OUTSIDE, _grants_outside)
    | _table(_SHARED, _shares_with_others)
    | _table(_OPENED, _opens_to_everybody)
    | _table(_BLOCKED, _public_access_block)
    | _table(_ADMINISTRATOR, _names_administrator)
    | _table("s3:PutBucketAcl s3:PutObjectAcl", _public_acl)
    | _table("s3:PutBucketVersioning", _when_suspended)
    | _table("guardduty:UpdateDetector macie2:UpdateMacieSession", _when_disabled)
    | _table("iam:UpdateAccessKey", _key_status)
    | _table(_PARAMETERS, _with_decryption)
    | _table("ec2:DescribeInstanceAttribute", _user_data)
)
