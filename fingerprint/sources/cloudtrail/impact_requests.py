"""Gravity of a call by its request: a policy for everybody, a snapshot for another account, versioning suspended.

Example:
    >>> record = '{"requestParameters": {"VersioningConfiguration": {"Status": "Enabled"}}}'
    >>> adjust_gravity("s3", "PutBucketVersioning", "severe", CallRecord(record))
    'minor'

The same action protects or harms by its parameters. Only what is plain is read; a request that is missing, cut or in an unknown
form leaves the gravity as it is, so leaving out a parameter makes no call look harmless. All of it is an attacker's text: it is
compared, and never shown from here.
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

# Request and the account that was called -> gravity; None: as the action's.
GrantCheck = Callable[[Request, str], Gravity | None]
RequestEffect = tuple[str, str, str]  # effect, tactic, technique

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
_PROTECTIONS = ("disableApiTermination", "disableApiStop")  # attributes of a machine
_SWITCHED_ON = ({"value": True}, {"value": "true"}, True, "true")  # an attribute
_REMOVED = ("remove", "valuesToRemove", "accountIdsToRemove")
MAX_DAYS_DIGITS = 6  # of a number that is read


def adjust_gravity(service: str, action: str, gravity: Gravity, record: CallRecord) -> Gravity:
    """Return the gravity of a call whose action alone has `gravity`, by what its record says of the request."""
    call, request = (service, action), record.request
    if request is None:
        return gravity
    if grants := GRANT_CHECKS.get(call):
        return grants(request, record.account) or gravity
    check = REQUEST_CHECKS.get(call)
    return (check(request) if check else None) or gravity


def effect_by_request(service: str, action: str, record: CallRecord) -> RequestEffect | None:
    """Return what a call does where its request tells more of it than the action, at the same gravity; None where it does not."""
    reader = _EFFECT_READERS.get((service, action))
    return reader(record.request) if reader and record.request is not None else None


def detail_of_request(service: str, action: str, record: CallRecord) -> str:
    """Return what a record adds to the effect of its call: which rights it gives, how many days it keeps, that it only asked.

    Nothing where it has none of these.

    >>> record = '{"requestParameters": {"logGroupName": "audit", "retentionInDays": 1}}'
    >>> detail_of_request("logs", "PutRetentionPolicy", CallRecord(record))
    '1 day'
    """
    if record.is_dry_run:
        return "a dry run, which is allowed"
    reader = _DETAIL_READERS.get((service, action))
    return reader(record.request) if reader and record.request is not None else ""


def _administrators_policy(request: Request) -> str:
    """Return the name of the policy of AWS that gives full rights, or nearly all of them; empty for another policy."""
    named = (text.rpartition("/")[2] for name, text in request_values(request) if name in POLICIES)
    return next((name for name in named if name in ADMINISTRATORS), "")


def _all_rights(request: Request) -> str:
    return "all rights" if gives_full_rights(request) else ""


def _shortest_kept(*members: str) -> Callable[[Request], str]:
    """Return what reads the fewest days that a request keeps something, by any of some members."""

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
    """Return what a request for a higher quota asks more of, by its service."""
    code = request.get("serviceCode")
    more = _QUOTAS.get(code, "") if isinstance(code, str) else ""
    return (f"{QUOTA} of {more}", "Impact", "T1496") if more else None


def _tunnel(request: Request) -> RequestEffect | None:
    """Return a tunnel for a session that leads to a host behind the machine: documents of one's own have that parameter too."""
    parameters = request.get("parameters")
    return TUNNEL if isinstance(parameters, dict) and parameters.get("host") else None


def _protection(request: Request) -> RequestEffect | None:
    """Return what keeps a machine running: who mines on it has it cost its victim longer."""
    named = any(request.get(name) in _SWITCHED_ON for name in _PROTECTIONS)
    valued = request.get("attribute") in _PROTECTIONS and request.get("value") in ("true", True)
    return PROTECTED_MACHINE if named or valued else None


def _grants_outside(request: Request, account: str) -> Gravity | None:
    """Return how grave it is whom a policy lets in; notable where it is deleted, with what it denied."""
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
    """Return whether a request sets other attributes of a queue, a topic or a domain."""
    if "attributes" in request or "attributeName" in request:
        return True
    return "domainName" in request and not {"accessPolicies", "advancedSecurityOptions"} & request.keys()


def _domain_outside(request: Request, account: str) -> Gravity | None:
    """Return how grave a domain's policy is: grave at most inside a network, from where alone it is reached."""
    found = _grants_outside(request, account)
    return "grave" if found == "severe" and request.get("vPCOptions") else found


def _hands_over(reader: Reader) -> GrantCheck:
    """Return the check of what gives away data, code or keys: severe for outsiders."""
    return lambda request, account: outside_gravity(reader(request, account))


def _gives_use(reader: Reader) -> GrantCheck:
    """Return the check of what lets others reach or use something: grave for outsiders."""

    def check(request: Request, account: str) -> Gravity | None:
        found = outside_gravity(reader(request, account))
        return "grave" if found == "severe" else found

    return check


def _resource_share(request: Request, account: str) -> Gravity | None:
    """Return notable for a share that none outside the organisation can accept."""
    if request.get("allowExternalPrincipals") is False:
        return "notable"
    return _gives_use(admitted_by_member("principals"))(request, account)


def _image_copies(request: Request, account: str) -> Gravity | None:
    """Return minor where the right to copy an image is taken back."""
    if request.get("allowCopyImage") is False:
        return "minor"
    return outside_gravity(admitted_by_member("sharedaccountid")(request, account))


def _grants_key(request: Request, account: str) -> Gravity | None:
    """Return severe for a key's grant to another account, minor to a service: each start of a machine with encrypted volumes."""
    grantee = str(request.get("granteePrincipal") or "")
    if grantee.endswith(".amazonaws.com") or _OF_SERVICE in grantee:
        return "minor"
    return "severe" if admitted_by_names([grantee], account).outsiders else None


def _shares_with_others(request: Request, account: str) -> Gravity | None:
    """Return how grave it is who is added; minor where someone is only removed, or nothing is shared but described."""
    admitted = admitted_by_sharing(request, account)
    if any(admitted):
        return outside_gravity(admitted)
    removed = [value for name, value in flat_members(request) if name in _REMOVED]
    closes = any(text for each in removed for _, text in request_values(each))
    return "minor" if closes or "description" in request else None


def _public_acl(request: Request, account: str) -> Gravity | None:
    """Return severe for an ACL that names everybody, or someone beside the owner; as the action's where headers name someone."""
    if admitted_by_acl(request, account).outsiders:
        return "severe"
    return None if any(name.startswith("x-amz-grant-") for name, _ in flat_members(request)) else "notable"


def _bucket_encryption(request: Request, account: str) -> Gravity | None:
    """Return minor for encryption by AWS's keys or the account's own, the action's by a key of another account."""
    values = list(request_values(request))
    own = not _names_foreign_key(values, "KMSMasterKeyID", account)
    return "minor" if own and any(name == "SSEAlgorithm" for name, _ in values) else None


def _names_foreign_key(values: Iterable[tuple[str, str]], member: str, account: str) -> bool:
    """Return whether a member names a key of KMS by an ARN of another account; an id or an alias is the account's own."""
    keys = [text.split(":") for name, text in values if name == member]
    return any(len(parts) > 5 and parts[4] != account for parts in keys)


def _by_own_key(request: Request, account: str) -> Gravity | None:
    """Return severe for an object encrypted with a key that only the caller has, as for ransom; grave for another account's."""
    if any(name == _CUSTOMER_KEY for name, _ in flat_members(request)):
        return "severe"
    return "grave" if _names_foreign_key(request_values(request), _KMS_KEY, account) else None


def _outside(reader: Reader, gravity: Gravity) -> GrantCheck:
    """Return the check of what goes to another account; that a request names none proves nothing of where its data goes."""
    return lambda request, account: gravity if reader(request, account).outsiders else None


def _shares_objects(request: Request, account: str) -> Gravity | None:
    """Return severe for another account that may read a bucket of Lightsail, grave for everybody."""
    to_outsiders = _outside(admitted_by_member(DELIVERED["lightsail:UpdateBucket"]), "severe")
    return to_outsiders(request, account) or where("getobject", "public", "grave", "minor")(request)


def _logs_key(request: Request, account: str) -> Gravity | None:
    """Return grave for logs that are encrypted with a key of another account."""
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
