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
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_network
from string import hexdigits
from typing import Any

import msgspec

from fingerprint.core.alert import Gravity
from fingerprint.sources.cloudtrail.record_members import decode_record

Request = dict[str, Any]
Check = Callable[
    [Request, str], Gravity | None
]  # request and the caller's account -> gravity; None: as the action's

MAX_VALUES = 5_000  # of a request that are examined
EVERYBODY = ("*", "0.0.0.0/0", "::/0", "all")
WIDEST_PREFIX = 8  # bits of a range that is as good as the internet: two halves of it are opened as easily
LONG_RETENTION_DAYS = 365  # from which on keeping logs harms no one
_RANGES = ("cidrip", "cidripv4", "cidripv6", "cidrblock", "ipv6cidrblock")  # members, in small letters
_CUSTOMER_KEY = "x-amz-server-side-encryption-customer-algorithm"
_OF_SERVICE = ":assumed-role/aws:"  # a role of AWS's own: no name of a customer's role has a colon
_KMS_KEY = "x-amz-server-side-encryption-aws-kms-key-id"
_QUOTAS = {  # service codes of Service Quotas -> what a thief wants more of
    **dict.fromkeys(("ses", "sns", "mobiletargeting"), "mail or messages"),
    **dict.fromkeys(("bedrock", "sagemaker"), "models or machines for them"),
    **dict.fromkeys(
        ("ec2", "ecs", "fargate", "lightsail", "batch", "elasticmapreduce", "gamelift"), "machines"
    ),
}
_PUBLIC_GROUPS = ("AllUsers", "AuthenticatedUsers", "public-read", "public-read-write", "authenticated-read")


class _Record(msgspec.Struct):
    requestParameters: Any = None
    recipientAccountId: Any = ""
    readOnly: Any = None


_DECODER = msgspec.json.Decoder(_Record)


def adjust_gravity(service: str, action: str, gravity: Gravity, record: str) -> Gravity:
    """Return the gravity of a call whose action alone has `gravity`, by what its record says of the request."""
    check = _CHECKS.get((service, action))
    read = decode_record(_DECODER, record) if check else None
    if check is None or read is None or not isinstance(read.requestParameters, dict):
        return gravity
    return check(read.requestParameters, str(read.recipientAccountId or "")) or gravity


def lets_outsiders_in(service: str, action: str, record: str) -> bool:
    """Return whether a call gives everybody, or another account, a right or a copy of stored data, as its record says."""
    check = _CHECKS.get((service, action))
    return check in _GIVES_RIGHTS and adjust_gravity(service, action, "none", record) == "severe"


def quota_of(record: str) -> str:
    """Return what a request for a higher quota asks more of, by its service: `mail or messages`; empty for any other."""
    read = decode_record(_DECODER, record)
    request = read.requestParameters if read is not None else None
    code = request.get("serviceCode") if isinstance(request, dict) else None
    return _QUOTAS.get(code, "") if isinstance(code, str) else ""


def reads_only(record: str) -> bool:
    """Return whether a record says that its call only read; False where there is none."""
    read = decode_record(_DECODER, record)
    return read is not None and read.readOnly is True


def request_values(node: Any) -> Iterator[tuple[str, str]]:
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
    """Return severe for a policy that allows everybody or another account something, notable for its own account or no one.

    Whom a provider of identities lets in, a policy does not say: it leaves the gravity as it is.
    """
    principals = list(request_values(_principals(request)))
    if not principals and any(name == "Policy" and not text for name, text in request_values(request)):
        return "notable"  # it is deleted, with what it denied
    statements = [value for name, value in _flat_members(request) if name == "Statement"]
    if statements and not any(statements):
        return "notable"  # as above
    if not principals:
        return "minor" if "attributes" in request or "attributeName" in request else None
    if any(_is_outside(text, account) for name, text in principals if name != "Federated"):
        return "severe"
    return None if any(map(_is_provider, principals)) else "notable"


def _is_provider(principal: tuple[str, str]) -> bool:
    """Return whether a policy's principal lets in whom another one vouches for: by a token, or by a certificate."""
    return principal[0] == "Federated" or principal[1].startswith("rolesanywhere.")


def _principals(node: Any) -> list[Any]:
    """Return what stands under `Principal` in the statements of a request that allow something; all but some are everybody."""
    found: list[Any] = []
    waiting: list[Any] = [node]
    for _ in range(MAX_VALUES):
        if not waiting:
            break
        value = waiting.pop()
        if isinstance(value, dict):
            if str(value.get("Effect", "Allow")) == "Allow":
                found += [value["Principal"]] if "Principal" in value else []
                found += ["*"] if "NotPrincipal" in value else []
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
    """Return whether a policy's principal is everybody, or of an account that is not the caller's; services are not.

    A canonical user id is one of another account: policies name their own by its number.
    """
    if text == "*" or (len(text) == 64 and set(text) <= set(hexdigits)):
        return True
    digits = text.split(":")[4] if text.startswith("arn:") and text.count(":") >= 5 else text
    return digits.isdigit() and len(digits) == 12 and digits != account


def _shares_with_others(request: Request, account: str) -> Gravity | None:
    """Return severe where an account or everybody is added to a snapshot or image, minor where one is only removed."""
    added = [value for name, value in _flat_members(request) if name in ("add", "valuesToAdd")]
    removed = [value for name, value in _flat_members(request) if name in ("remove", "valuesToRemove")]
    if any(text for each in added for _, text in request_values(each)):
        return "severe"
    return "minor" if any(text for each in removed for _, text in request_values(each)) else None


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
    """Return grave for a rule that opens to the internet or much of it, minor for some addresses: that is everyday work.

    A rule that denies protects.
    """
    named = [(name.lower(), text) for name, text in request_values(request)]
    ranges = [text for name, text in named if name in _RANGES]
    if not ranges:
        return None
    if ("ruleaction", "deny") in named:
        return "minor"
    return "grave" if any(map(_is_wide, ranges)) else "minor"


def _is_wide(text: str) -> bool:
    """Return whether a range of addresses is everybody's, or much of the internet."""
    if text in EVERYBODY:
        return True
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return False
    return network.prefixlen <= WIDEST_PREFIX and not network.is_private


def _public_acl(request: Request, account: str) -> Gravity | None:
    """Return severe for an ACL that names everybody, or someone beside the owner; as the action's where headers name someone."""
    if any(word in text for _, text in request_values(request) for word in _PUBLIC_GROUPS):
        return "severe"
    members = list(_flat_members(request))
    owners = {text for name, value in members if name == "Owner" for _, text in request_values(value)}
    granted = {
        text
        for name, value in members
        if name == "Grantee"
        for at, text in request_values(value)
        if at == "ID"
    }
    if granted - owners:
        return "severe"
    return None if any(name.startswith("x-amz-grant-") for name, _ in members) else "notable"


def _public_access_block(request: Request, account: str) -> Gravity | None:
    """Return severe where a part of the block is switched off, minor where it is switched on: that protects."""
    flags = {
        text.lower()
        for name, text in request_values(request)
        if name.lower().startswith(("block", "ignore", "restrict"))
    }
    return None if not flags else "severe" if "false" in flags else "minor"


def _when_suspended(request: Request, account: str) -> Gravity | None:
    """Return severe where versioning or its protection is suspended, minor where it is switched on."""
    states = {text for name, text in request_values(request) if name in ("Status", "MfaDelete")}
    return None if not states else "severe" if states & {"Suspended", "Disabled"} else "minor"


def _when_disabled(request: Request, account: str) -> Gravity | None:
    """Return severe for an update that switches a detector off, notable for another one."""
    flags = {text.lower() for name, text in request_values(request) if name in ("enable", "status")}
    return None if not flags else "severe" if flags & {"false", "paused", "disabled"} else "notable"


def _archiving_filter(request: Request, account: str) -> Gravity | None:
    """Return severe for a new filter that archives findings, notable for one that lists them: GuardDuty's default."""
    if not any(name == "findingCriteria" for name, _ in _flat_members(request)):
        return None
    return "severe" if ("action", "ARCHIVE") in request_values(request) else "notable"


def _listing_filter(request: Request, account: str) -> Gravity | None:
    """Return notable for a filter that is set to list findings. What a change leaves out stays as it was: maybe archiving."""
    actions = {text for name, text in request_values(request) if name == "action"}
    return "notable" if actions == {"NOOP"} else None


def _names_administrator(request: Request, account: str) -> Gravity | None:
    """Return severe for full rights, notable for rights to read by policies of AWS: the names of others are anybody's choice."""
    policies = [text for name, text in request_values(request) if name == "policyArn"]
    if any(
        text.endswith(("/AdministratorAccess", "/PowerUserAccess", "/IAMFullAccess")) for text in policies
    ):
        return "severe"
    return "notable" if policies and all(map(_reads_only_by_aws, policies)) else None


def _reads_only_by_aws(policy: str) -> bool:
    """Return whether an ARN is of a policy that AWS wrote, for reading."""
    parts = policy.split(":", 5)
    return len(parts) == 6 and parts[4] == "aws" and parts[5].endswith(("ReadOnlyAccess", "ReadOnly"))


def _key_status(request: Request, account: str) -> Gravity | None:
    """Return grave where a key comes back to life, minor where it is taken out of use: that is what responders do."""
    states = {text for name, text in request_values(request) if name == "status"}
    return "grave" if "Active" in states else "minor" if "Inactive" in states else None


def _with_decryption(request: Request, account: str) -> Gravity | None:
    """Return notable where a parameter is asked for in plain text: then it is a secret."""
    return (
        "notable"
        if any(name == "withDecryption" and text == "True" for name, text in request_values(request))
        else None
    )


def _text_message(request: Request, account: str) -> Gravity | None:
    """Return notable for a message to a telephone, which costs money and reaches strangers."""
    return "notable" if "phoneNumber" in request else None


def _user_data(request: Request, account: str) -> Gravity | None:
    """Return notable where a machine's start script is read, which often holds secrets, none for its other attributes."""
    return "notable" if any(text == "userData" for _, text in request_values(request)) else "none"


def _point_in_time_recovery(request: Request, account: str) -> Gravity | None:
    """Return minor where point-in-time recovery is switched on."""
    flags = {text for name, text in request_values(request) if name == "pointInTimeRecoveryEnabled"}
    return "minor" if flags == {"True"} else None


def _cluster_logs(request: Request, account: str) -> Gravity | None:
    """Return severe where logs of a cluster are switched off, grave where its endpoint is opened, notable for other changes."""
    logging = [value for name, value in _flat_members(request) if name == "logging"]
    if any(name == "enabled" and text == "False" for each in logging for name, text in request_values(each)):
        return "severe"
    opened = any(name == "endpointPublicAccess" and text == "True" for name, text in request_values(request))
    return "grave" if opened else "notable"


def _event_selectors(request: Request, account: str) -> Gravity | None:
    """Return notable for event selectors that record all management events, and data events too."""
    values = list(request_values(request))
    management = {text for name, text in values if name == "includeManagementEvents"}
    kinds = {text for name, text in values if name == "readWriteType"}
    left_out = any(name == "excludeManagementEventSources" for name, _ in values)
    has_data = any(name == "dataResources" and value for name, value in _flat_members(request))
    return "notable" if (management, kinds, left_out, has_data) == ({"True"}, {"All"}, False, True) else None


def _log_destinations(request: Request, account: str) -> Gravity | None:
    """Return notable where logs still have a destination."""
    return "notable" if any(name == "logDestinationType" for name, _ in request_values(request)) else None


def _retention_days(request: Request, account: str) -> Gravity | None:
    """Return minor where logs are kept for a year or longer."""
    days = [text for name, text in request_values(request) if name == "retentionInDays"]
    return (
        "minor"
        if days and all(each.isdigit() and int(each[:9]) >= LONG_RETENTION_DAYS for each in days)
        else None
    )


def _logging_enabled(request: Request, account: str) -> Gravity | None:
    """Return minor where a bucket's access log is switched on."""
    return (
        "minor" if any(name == "LoggingEnabled" and value for name, value in _flat_members(request)) else None
    )


def _bucket_encryption(request: Request, account: str) -> Gravity | None:
    """Return minor for encryption by AWS's keys or the account's own, the action's by a key of another account."""
    values = list(request_values(request))
    own = not _names_foreign_key(values, "KMSMasterKeyID", account)
    return "minor" if own and any(name == "SSEAlgorithm" for name, _ in values) else None


def _grant_to_service(request: Request, account: str) -> Gravity | None:
    """Return minor for a grant to an AWS service, as each start of a machine with encrypted volumes makes one."""
    grantee = str(request.get("granteePrincipal") or "")
    return "minor" if grantee.endswith(".amazonaws.com") or _OF_SERVICE in grantee else None


def _names_foreign_key(values: Iterable[tuple[str, str]], member: str, account: str) -> bool:
    """Return whether a member names a key of KMS by an ARN of another account; an id or an alias is the account's own."""
    keys = [text.split(":") for name, text in values if name == member]
    return any(len(parts) > 5 and parts[4] != account for parts in keys)


def _by_own_key(request: Request, account: str) -> Gravity | None:
    """Return severe for an object encrypted with a key that only the caller has, as for ransom; grave for another account's."""
    if any(name == _CUSTOMER_KEY for name, _ in _flat_members(request)):
        return "severe"
    return "grave" if _names_foreign_key(request_values(request), _KMS_KEY, account) else None


def _database_opened(request: Request, account: str) -> Gravity | None:
    """Return grave where a database gets another password, the internet, or no backups."""
    values = dict(request_values(request))
    harms = ("masterUserPassword" in values, values.get("publiclyAccessible") == "True")
    return "grave" if any(harms) or values.get("backupRetentionPeriod") == "0" else None


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
    "ec2:AuthorizeSecurityGroupIngress ec2:ModifySecurityGroupRules ec2:CreateNetworkAclEntry "
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
    | _table("guardduty:CreateFilter", _archiving_filter)
    | _table("guardduty:UpdateFilter", _listing_filter)
    | _table("iam:UpdateAccessKey", _key_status)
    | _table("dynamodb:UpdateContinuousBackups", _point_in_time_recovery)
    | _table("eks:UpdateClusterConfig", _cluster_logs)
    | _table("cloudtrail:PutEventSelectors", _event_selectors)
    | _table("network-firewall:UpdateLoggingConfiguration", _log_destinations)
    | _table("logs:PutRetentionPolicy", _retention_days)
    | _table("s3:PutBucketLogging", _logging_enabled)
    | _table("s3:PutBucketEncryption", _bucket_encryption)
    | _table("kms:CreateGrant", _grant_to_service)
    | _table("s3:PutObject s3:CopyObject s3:CreateMultipartUpload", _by_own_key)
    | _table("rds:ModifyDBInstance rds:ModifyDBCluster", _database_opened)
    | _table(_PARAMETERS, _with_decryption)
    | _table("ec2:DescribeInstanceAttribute", _user_data)
    | _table("sns:Publish", _text_message)
)
_GIVES_RIGHTS = (_grants_outside, _shares_with_others, _public_acl)
