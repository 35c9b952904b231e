"""Gravity of a call by its request: a policy for everybody, a snapshot for another account, versioning suspended.

Example:
    >>> record = '{"requestParameters": {"VersioningConfiguration": {"Status": "Enabled"}}}'
    >>> adjust_gravity("s3", "PutBucketVersioning", "severe", CallRecord(record))
    'minor'

The same action protects or harms, depending on its parameters. Only plain cases are judged: a request that is missing, cut or of
an unknown form leaves the gravity as it is, so no call looks harmless because a parameter is left out. A request is text of an
attacker: this module compares it, and never shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fingerprint.core.alert import Gravity
from fingerprint.sources.cloudtrail.impact_effects import PROTECTED_MACHINE, QUOTA, TUNNEL, by_call
from fingerprint.sources.cloudtrail.impact_grants import (
    DELIVERED,
    HANDED_OVER,
    LAYERED,
    LENT,
    SENT,
    SHARED,
    Reader,
    Request,
    admitted_by_acl,
    admitted_by_arn,
    admitted_by_member,
    admitted_by_names,
    admitted_by_policies,
    admitted_by_sharing,
    admitted_to_invoke,
    denies_only,
    gives_full_rights,
    named_by_layers,
    outside_gravity,
)
from fingerprint.sources.cloudtrail.record_members import CallRecord, flat_members, request_values
from fingerprint.sources.cloudtrail.request_checks import (
    ADMINISTRATORS,
    GIVES_INLINE_POLICY,
    GIVES_POLICY,
    LIFECYCLES,
    POLICIES,
    REQUEST_CHECKS,
    where,
)

# Request and the account that was called -> gravity; None: the gravity of the action alone.
GrantCheck = Callable[[Request, str], Gravity | None]
RequestEffect = tuple[str, str, str]  # effect, tactic, technique

_CUSTOMER_KEY = "x-amz-server-side-encryption-customer-algorithm"
_OF_SERVICE = ":assumed-role/aws:"  # a role of AWS itself: the name of a customer's role cannot have a colon
_KMS_KEY = "x-amz-server-side-encryption-aws-kms-key-id"
_QUOTAS = {  # service code of Service Quotas -> things that a thief wants more of
    **dict.fromkeys(("ses", "sns", "mobiletargeting"), "mail or messages"),
    **dict.fromkeys(("bedrock", "sagemaker"), "models or machines for them"),
    **dict.fromkeys(
        ("ec2", "ecs", "fargate", "lightsail", "batch", "elasticmapreduce", "gamelift"), "machines"
    ),
}
_PROTECTIONS = ("disableApiTermination", "disableApiStop")  # attributes of a machine
_SWITCHED_ON = ({"value": True}, {"value": "true"}, True, "true")  # forms of an attribute that is switched on
_REMOVED = ("remove", "valuesToRemove", "accountIdsToRemove")
MAX_DAYS_DIGITS = 6  # a number of days with more digits is not read


def adjust_gravity(service: str, action: str, gravity: Gravity, record: CallRecord) -> Gravity:
    """Return the gravity of a call by its request, or `gravity`, that of the action alone, if the request does not decide it."""
    call, request = (service, action), record.request
    if request is None:
        return gravity
    if grants := GRANT_CHECKS.get(call):
        return grants(request, record.account) or gravity
    check = REQUEST_CHECKS.get(call)
    return (check(request) if check else None) or gravity


def effect_by_request(service: str, action: str, record: CallRecord) -> RequestEffect | None:
    """Return the effect of a call if its request says more than the action, at the same gravity; else None."""
    reader = _EFFECT_READERS.get((service, action))
    return reader(record.request) if reader and record.request is not None else None


def detail_of_request(service: str, action: str, record: CallRecord) -> str:
    """Return the detail that a record adds to the effect of its call; empty for none.

    That is the rights it gives, the number of days it keeps data, or that it was a dry run.

    >>> record = '{"requestParameters": {"logGroupName": "audit", "retentionInDays": 1}}'
    >>> detail_of_request("logs", "PutRetentionPolicy", CallRecord(record))
    '1 day'
    """
    if record.is_dry_run:
        return "a dry run, which is allowed"
    reader = _DETAIL_READERS.get((service, action))
    return reader(record.request) if reader and record.request is not None else ""


def _administrators_policy(request: Request) -> str:
    """Return the name of the first policy of AWS that gives full or nearly full rights; empty if there is none."""
    named = (text.rpartition("/")[2] for name, text in request_values(request) if name in POLICIES)
    return next((name for name in named if name in ADMINISTRATORS), "")


def _all_rights(request: Request) -> str:
    return "all rights" if gives_full_rights(request) else ""


def _shortest_kept(*members: str) -> Callable[[Request], str]:
    """Return the reader of the fewest days for which a request keeps something, by some members."""

    def read(request: Request) -> str:
        named = (text for name, text in request_values(request) if name in members)
        days = [
            int(text)
            for text in named
            if text.isascii() and text.isdecimal() and len(text) <= MAX_DAYS_DIGITS
        ]
        return f"{min(days):,} day{'s' * (min(days) != 1)}" if days else ""

    return read


def _expires_after(request: Request) -> str:
    """Return the fewest days after which objects expire by a lifecycle rule."""
    rules = [
        value
        for name, value in flat_members(request)
        if name in ("Expiration", "NoncurrentVersionExpiration")
    ]
    return _shortest_kept("Days", "NoncurrentDays")({"rules": rules})


def _quota(request: Request) -> RequestEffect | None:
    """Return the effect of a request for a higher quota, by its service; None for services that thieves do not care for."""
    code = request.get("serviceCode")
    more = _QUOTAS.get(code, "") if isinstance(code, str) else ""
    return (f"{QUOTA} of {more}", "Impact", "T1496") if more else None


def _tunnel(request: Request) -> RequestEffect | None:
    """Return the effect of a tunnel if a session has the parameter `host`. Any document may have it, also a customer's own."""
    parameters = request.get("parameters")
    return TUNNEL if isinstance(parameters, dict) and parameters.get("host") else None


def _protection(request: Request) -> RequestEffect | None:
    """Return the effect of protecting a machine from being stopped; a thief who mines on it keeps it running longer."""
    named = any(request.get(name) in _SWITCHED_ON for name in _PROTECTIONS)
    valued = request.get("attribute") in _PROTECTIONS and request.get("value") in ("true", True)
    return PROTECTED_MACHINE if named or valued else None


def _grants_outside(request: Request, account: str) -> Gravity | None:
    """Return the gravity of a policy by whom it lets in; notable if it is deleted, because what it denied is allowed then."""
    admitted = admitted_by_policies(request, account)
    if any(admitted):
        return outside_gravity(admitted)
    if any(name == "Policy" and not text for name, text in request_values(request)):
        return "notable"
    statements = [value for name, value in flat_members(request) if name == "Statement"]
    if statements and not any(statements):
        return "notable"
    return denies_only(request) or ("minor" if _sets_no_policy(request) else None)


def _sets_no_policy(request: Request) -> bool:
    """Return whether a request sets attributes of a queue, a topic or a domain, but no policy."""
    if "attributes" in request or "attributeName" in request:
        return True
    return "domainName" in request and not {"accessPolicies", "advancedSecurityOptions"} & request.keys()


def _domain_outside(request: Request, account: str) -> Gravity | None:
    """Return the gravity of a domain's policy: at most grave for a domain in a VPC, which no one reaches from outside."""
    found = _grants_outside(request, account)
    return "grave" if found == "severe" and request.get("vPCOptions") else found


def _hands_over(reader: Reader) -> GrantCheck:
    """Return the check of calls that give away data, code or keys: severe for outsiders."""
    return lambda request, account: outside_gravity(reader(request, account))


def _gives_use(reader: Reader) -> GrantCheck:
    """Return the check of calls that let others reach or use something: grave for outsiders."""

    def check(request: Request, account: str) -> Gravity | None:
        found = outside_gravity(reader(request, account))
        return "grave" if found == "severe" else found

    return check


def _resource_share(request: Request, account: str) -> Gravity | None:
    """Return the gravity of a resource share; notable if no one outside the organisation can accept it."""
    if request.get("allowExternalPrincipals") is False:
        return "notable"
    return _gives_use(admitted_by_member("principals"))(request, account)


def _image_copies(request: Request, account: str) -> Gravity | None:
    """Return the gravity of a permission to copy an image, by the account that gets it; minor if it is taken back."""
    if request.get("allowCopyImage") is False:
        return "minor"
    return outside_gravity(admitted_by_member("sharedaccountid")(request, account))


def _grants_key(request: Request, account: str) -> Gravity | None:
    """Return severe for a grant of a key to another account, minor to a service.

    Each start of a machine with encrypted volumes makes a grant to a service.
    """
    grantee = str(request.get("granteePrincipal") or "")
    if grantee.endswith(".amazonaws.com") or _OF_SERVICE in grantee:
        return "minor"
    return "severe" if admitted_by_names([grantee], account).outsiders else None


def _shares_with_others(request: Request, account: str) -> Gravity | None:
    """Return the gravity of a sharing by who is added; minor if accounts are only removed, or only a description changes."""
    admitted = admitted_by_sharing(request, account)
    if any(admitted):
        return outside_gravity(admitted)
    removed = [value for name, value in flat_members(request) if name in _REMOVED]
    closes = any(text for each in removed for _, text in request_values(each))
    return "minor" if closes or "description" in request else None


def _public_acl(request: Request, account: str) -> Gravity | None:
    """Return severe for an ACL that names everybody or someone beside the owner, None if headers grant, else notable.

    Accounts in headers are not read, so a grant by headers leaves the gravity as it is, unless it is to everybody.
    """
    if admitted_by_acl(request, account).outsiders:
        return "severe"
    return None if any(name.startswith("x-amz-grant-") for name, _ in flat_members(request)) else "notable"


def _bucket_encryption(request: Request, account: str) -> Gravity | None:
    """Return minor for encryption by keys of AWS or of the account; None for a key of another account."""
    values = list(request_values(request))
    own = not _names_foreign_key(values, "KMSMasterKeyID", account)
    return "minor" if own and any(name == "SSEAlgorithm" for name, _ in values) else None


def _names_foreign_key(values: Iterable[tuple[str, str]], member: str, account: str) -> bool:
    """Return whether a member names a KMS key by an ARN of another account. An id or an alias is of the account itself."""
    keys = [text.split(":") for name, text in values if name == member]
    return any(len(parts) > 5 and parts[4] != account for parts in keys)


def _by_own_key(request: Request, account: str) -> Gravity | None:
    """Return severe for an object encrypted with a key that only the caller has, as for ransom; grave for a foreign account's."""
    if any(name == _CUSTOMER_KEY for name, _ in flat_members(request)):
        return "severe"
    return "grave" if _names_foreign_key(request_values(request), _KMS_KEY, account) else None


def _outside(reader: Reader, gravity: Gravity) -> GrantCheck:
    """Return the check that gives `gravity` to calls that send something to another account.

    It gives None to other calls: a request that names no account does not prove where its data go.
    """
    return lambda request, account: gravity if reader(request, account).outsiders else None


def _shares_objects(request: Request, account: str) -> Gravity | None:
    """Return severe if another account may read a bucket of Lightsail, grave if everybody may, minor if it is not public."""
    to_outsiders = _outside(admitted_by_member(DELIVERED["lightsail:UpdateBucket"]), "severe")
    return to_outsiders(request, account) or where("getobject", "public", "grave", "minor")(request)


def _logs_key(request: Request, account: str) -> Gravity | None:
    """Return grave if logs are encrypted with a key of another account."""
    return "grave" if _names_foreign_key(request_values(request), "kmsKeyId", account) else None


_OUTSIDE = (
    "s3:PutBucketPolicy s3:PutAccessPointPolicy s3:PutMultiRegionAccessPointPolicy iam:UpdateAssumeRolePolicy iam:CreateRole "
    "kms:PutKeyPolicy secretsmanager:PutResourcePolicy ecr:SetRepositoryPolicy ecr:PutRegistryPolicy sqs:SetQueueAttributes "
    "sns:SetTopicAttributes dynamodb:PutResourcePolicy backup:PutBackupVaultAccessPolicy elasticfilesystem:PutFileSystemPolicy "
    "glacier:SetVaultAccessPolicy cloudtrail:PutResourcePolicy logs:PutResourcePolicy"
)
_DOMAINS = (
    "es:CreateDomain es:CreateElasticsearchDomain es:UpdateDomainConfig es:UpdateElasticsearchDomainConfig"
)


_EFFECT_READERS: dict[tuple[str, str], Callable[[Request], RequestEffect | None]] = by_call(
    {
        "servicequotas:RequestServiceQuotaIncrease": _quota,
        "ssm:StartSession": _tunnel,
        "ec2:ModifyInstanceAttribute": _protection,
    }
)
_DETAIL_READERS: dict[tuple[str, str], Callable[[Request], str]] = by_call(
    {
        GIVES_POLICY: _administrators_policy,
        f"{GIVES_INLINE_POLICY} iam:CreatePolicyVersion": _all_rights,
        LIFECYCLES: _expires_after,
        "logs:PutRetentionPolicy": _shortest_kept("retentionInDays"),
    }
)
GRANT_CHECKS: dict[tuple[str, str], GrantCheck] = by_call(
    {
        **{call: _hands_over(admitted_by_member(member)) for call, member in HANDED_OVER.items()},
        **{call: _gives_use(admitted_by_member(member)) for call, member in LENT.items()},
        **{call: _outside(admitted_by_member(member), "severe") for call, member in DELIVERED.items()},
        **{call: _outside(admitted_by_arn(member), "grave") for call, member in SENT.items()},
        _OUTSIDE: _grants_outside,
        _DOMAINS: _domain_outside,
        LAYERED: _outside(named_by_layers, "grave"),
        " ".join(SHARED): _shares_with_others,
        "ram:CreateResourceShare ram:AssociateResourceShare": _resource_share,
        "workspaces:UpdateWorkspaceImagePermission": _image_copies,
        "lambda:AddPermission": _hands_over(admitted_to_invoke),
        "kms:CreateGrant": _grants_key,
        "s3:PutBucketAcl s3:PutObjectAcl": _public_acl,
        "logs:AssociateKmsKey": _logs_key,
        "s3:PutBucketReplication": _outside(admitted_by_member("account"), "severe"),
        "s3:PutBucketEncryption": _bucket_encryption,
        "s3:PutObject s3:CopyObject s3:CreateMultipartUpload": _by_own_key,
        "lightsail:UpdateBucket": _shares_objects,
    }
)
