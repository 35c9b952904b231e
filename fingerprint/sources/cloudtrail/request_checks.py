"""Gravity of a call by what its request sets in its own account: an opened rule, suspended versioning, costly machines.

Example:
    >>> check = REQUEST_CHECKS["s3", "PutBucketVersioning"]
    >>> check({"VersioningConfiguration": {"Status": "Suspended"}})
    'severe'

Requests that give something to other accounts are judged by `impact_requests`, which reads the records and uses both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_network
from typing import Any

from fingerprint.core.alert import Gravity
from fingerprint.sources.cloudtrail.impact_effects import (
    COSTLY_MACHINES,
    EFFECTS,
    GRAVER_EFFECTS,
    by_call,
)
from fingerprint.sources.cloudtrail.impact_grants import Request, denies_only, gives_full_rights
from fingerprint.sources.cloudtrail.record_members import flat_members, request_objects, request_values

# Request -> gravity; None: the gravity of the action alone.
RequestCheck = Callable[[Request], Gravity | None]

_EVERY_ADDRESS = ("0.0.0.0/0", "::/0")
WEB_PORTS = (80, 443)  # ports that everybody is meant to reach
WIDEST_PREFIX = 8  # bits; so wide a range counts as the internet, which two halves would open as well
LONG_RETENTION_DAYS = 365  # a retention of logs from which on a change does no harm
_RANGES = ("cidrip", "cidripv4", "cidripv6", "cidrblock", "ipv6cidrblock")  # members, in small letters
_LIMIT_CASE = "limit-increase"  # in the service or category of a case with AWS Support
# Members of requests, in small letters, that name types of machines or their number.
_TYPES = "instancetype instancetypes ec2instancetype allowedinstancetypes computetype computetypename"
_MACHINE_TYPES = frozenset(_TYPES.split())
# Members that may name a type with a GPU, or something that is no machine.
_OTHER_TYPES = frozenset(("bundleid", "environmenttype", "type"))
_COUNTS = (
    "basecapacity count desiredcapacity desiredcount desiredinstances initialinstancecount instancecount maxcount mincount "
    "minsize quantity scale targetcapacity totaltargetcapacity"
)
_MACHINE_COUNTS = frozenset(_COUNTS.split())
MANY_MACHINES = 20  # started at once; so many cost much
LARGE_MACHINE = 16  # the 16 of `16xlarge`, 64 processors: one machine of this size costs much
# Families of machines with GPUs or other accelerators, without the number of their generation.
_ACCELERATED = ("p", "g", "inf", "trn", "dl", "vt")
_GRAPHICS = ("gpu", "graphics", "graphicspro")
_ANY_TYPE = "optimal"  # AWS chooses it
# Members that make a build run other code, in another environment or with another role.
_BUILD_OVERRIDES = frozenset(
    (
        "buildspecOverride",
        "imageOverride",
        "privilegedModeOverride",
        "serviceRoleOverride",
        "sourceLocationOverride",
        "sourceTypeOverride",
    )
)
_PROJECT_CODE = frozenset(("source", "secondarySources", "environment", "serviceRole"))
POLICIES = ("policyArn", "managedPolicyArn")  # members that name a policy, the second in Identity Center
ADMINISTRATORS = ("AdministratorAccess", "PowerUserAccess", "IAMFullAccess")  # AWS's, of (nearly) full rights
# Policies of AWS that deny, by the prefix of the last part of their ARN.
_DENYING = ("policy/AWSCompromisedKeyQuarantine", "policy/AWSDenyAll")


def _asks_for_limit(request: Request) -> Gravity | None:
    """Return notable for a case with AWS Support about a higher limit. Thieves open such cases for mail and machines."""
    codes = (text for name, text in request_values(request) if name in ("serviceCode", "categoryCode"))
    return "notable" if any(_LIMIT_CASE in code for code in codes) else None


def where(members: str, values: str, then: Gravity, otherwise: Gravity | None = None) -> RequestCheck:
    """Return the check that gives `then` if one of some members has one of some values, and `otherwise` for other values.

    It gives None for a request without these members. `members` and `values` are in small letters, separated by spaces.
    """

    def check(request: Request) -> Gravity | None:
        found = {text.lower() for name, text in request_values(request) if name.lower() in members.split()}
        if not found.isdisjoint(values.split()):
            return then
        return otherwise if found else None

    return check


def _opens_to_everybody(request: Request) -> Gravity | None:
    """Return the gravity of a rule of a network, by the addresses that it lets in.

    - grave: the internet, or much of it
    - notable: the same, but only to a port of the web
    - minor: some addresses, which is everyday work, or a rule that denies, which protects
    """
    named = [(name.lower(), text) for name, text in request_values(request)]
    ranges = [text for name, text in named if name in _RANGES]
    if not ranges:
        return None
    wide = sum(map(_is_wide, ranges))
    if ("ruleaction", "deny") in named or not wide:
        return "minor"
    return "notable" if wide == sum(map(_wide_ranges, _web_rules(request))) else "grave"


def _web_rules(request: Request) -> Iterator[Request]:
    """Yield the rules of a request that are for one port of the web."""
    for each in request_objects(request):
        ports = {name.lower(): value for name, value in each.items()}
        if ports.get("fromport") in WEB_PORTS and ports["fromport"] == ports.get("toport"):
            yield each


def _wide_ranges(rule: Request) -> int:
    return sum(name.lower() in _RANGES and _is_wide(text) for name, text in request_values(rule))


def _is_wide(text: str) -> bool:
    """Return whether a range of addresses is all or much of the internet."""
    if text in _EVERY_ADDRESS:
        return True
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return False
    return network.prefixlen <= WIDEST_PREFIX and not network.is_private


def _public_access_block(request: Request) -> Gravity | None:
    """Return severe if a part of the block is switched off, minor if it is switched on, which protects."""
    flags = {
        text.lower()
        for name, text in request_values(request)
        if name.lower().startswith(("block", "ignore", "restrict"))
    }
    return None if not flags else "severe" if "false" in flags else "minor"


def _costs_much(request: Request) -> Gravity | None:
    """Return grave for machines with GPUs, very large machines or many, notable for a few machines of a named plain type."""
    values = [(name.lower(), text.lower()) for name, text in request_values(request)]
    types = [text for name, text in values if name in _MACHINE_TYPES]
    others = [text for name, text in values if name in _OTHER_TYPES]
    counts = (text for name, text in values if name in _MACHINE_COUNTS and text.isdecimal())
    if any(map(_is_costly, (*types, *others))) or any(int(each[:9]) >= MANY_MACHINES for each in counts):
        return "grave"
    return "notable" if types and _ANY_TYPE not in types else None


def _is_costly(machine: str) -> bool:
    """Return whether a type of machine has accelerators or many processors.

    >>> [_is_costly(each) for each in ("ml.g5.xlarge", "c7i.24xlarge", "linux_gpu_container", "m5.2xlarge", "t4g.micro")]
    [True, True, True, False, False]
    """
    parts = machine.replace("_", ".").replace("-", ".").split(".")
    sizes = (part.removesuffix("xlarge") for part in parts if part.endswith("xlarge"))
    return (
        "metal" in parts
        or any(size.isdecimal() and int(size[:9]) >= LARGE_MACHINE for size in sizes)
        or any(part in _GRAPHICS or _is_accelerated(part) for part in parts)
    )


def _is_accelerated(family: str) -> bool:
    return any(family.startswith(name) and family[len(name) :][:1].isdecimal() for name in _ACCELERATED)


def _runs_other_code(request: Request) -> Gravity | None:
    """Return grave for a build that replaces its project's code, environment or role."""
    return None if _BUILD_OVERRIDES.isdisjoint(request) else "grave"


def _other_role(request: Request) -> Gravity | None:
    """Return grave for a task that names a role other than that of its definition."""
    roles = {"taskRoleArn", "executionRoleArn"}
    return "grave" if any(name in roles and text for name, text in request_values(request)) else None


def _changes_code(request: Request) -> Gravity | None:
    """Return notable for an update of a project that leaves its code, environment and role as they are."""
    return "notable" if _PROJECT_CODE.isdisjoint(request) else None


def _start_script(request: Request) -> Gravity | None:
    """Return grave if a machine gets another start script, which runs with the machine's role."""
    return "grave" if "userData" in request or request.get("attribute") == "userData" else None


def _when_suspended(request: Request) -> Gravity | None:
    """Return severe if versioning or its protection by MFA is switched off, minor if it is switched on."""
    states = {text for name, text in request_values(request) if name in ("Status", "MfaDelete")}
    return None if not states else "severe" if states & {"Suspended", "Disabled"} else "minor"


def _when_disabled(request: Request) -> Gravity | None:
    """Return severe for an update that switches a detector off, notable for any other update."""
    flags = {text.lower() for name, text in request_values(request) if name in ("enable", "status")}
    if not flags:
        return "notable" if "findingPublishingFrequency" in request else None
    return "severe" if flags & {"false", "paused", "disabled"} else "notable"


def _archiving_filter(request: Request) -> Gravity | None:
    """Return severe for a new filter that archives findings, notable for one that only lists them, which is the default."""
    if not any(name == "findingCriteria" for name, _ in flat_members(request)):
        return None
    return "severe" if ("action", "ARCHIVE") in request_values(request) else "notable"


def _listing_filter(request: Request) -> Gravity | None:
    """Return notable for a filter that is set to list findings. Without that, the filter may archive as it did before."""
    actions = {text for name, text in request_values(request) if name == "action"}
    return "notable" if actions == {"NOOP"} else None


def _names_administrator(request: Request) -> Gravity | None:
    """Return severe for policies of full rights, notable for policies of AWS that only allow reading, or deny.

    The name of a policy that AWS did not write proves nothing.
    """
    policies = [text for name, text in request_values(request) if name in POLICIES]
    if any(map(_is_administrators, policies)):
        return "severe"
    return "notable" if policies and all(map(_gives_little, policies)) else None


def _is_administrators(policy: str) -> bool:
    return policy.endswith(tuple(f"/{name}" for name in ADMINISTRATORS))


def _gives_little(policy: str) -> bool:
    """Return whether an ARN is of a policy that AWS wrote, either for reading or to deny rights to a stolen key."""
    parts = policy.split(":", 5)
    if len(parts) < 6 or parts[4] != "aws":
        return False
    return parts[5].endswith(("ReadOnlyAccess", "ReadOnly")) or parts[5].startswith(_DENYING)


def _inline_policy(request: Request) -> Gravity | None:
    """Return severe for all rights, notable for a policy that only denies, as responders put to contain."""
    return "severe" if gives_full_rights(request) else denies_only(request)


def _policy_version(request: Request) -> Gravity | None:
    """Return severe for a version of a policy with all rights, notable if it only denies, grave if it gives some rights.

    A version with some rights is not severe, because infrastructure code makes one with each change.
    """
    found = _inline_policy(request)
    readable = any(name == "Effect" for name, _ in request_values(request))
    return found or ("grave" if readable else None)


def _new_policy(request: Request) -> Gravity | None:
    """Return grave for a new policy of all rights, which has no effect until it is attached."""
    return "grave" if gives_full_rights(request) else None


def _device_policy(request: Request) -> Gravity | None:
    """Return grave for a policy of all rights for a device: it could read and send the messages of every other device."""
    return "grave" if gives_full_rights(request, ("*", "*:*", "iot:*")) else None


def _session_policy(request: Request) -> Gravity | None:
    """Return grave for a session with full rights, which outlives the user's key."""
    arns = (text for name, text in request_values(request) if name == "arn")
    return "grave" if gives_full_rights(request) or any(map(_is_administrators, arns)) else None


def _key_status(request: Request) -> Gravity | None:
    """Return grave if a key is activated again, minor if it is deactivated, as responders do."""
    states = {text for name, text in request_values(request) if name == "status"}
    return "grave" if "Active" in states else "minor" if "Inactive" in states else None


def _with_decryption(request: Request) -> Gravity | None:
    """Return notable if a parameter is requested decrypted: then it may be a secret."""
    return (
        "notable"
        if any(name == "withDecryption" and text == "True" for name, text in request_values(request))
        else None
    )


def _all_parameters(request: Request) -> Gravity | None:
    """Return grave if all parameters are requested decrypted, notable if some are."""
    found = _with_decryption(request)
    whole = request.get("path") == "/" and request.get("recursive") is True
    return "grave" if found and whole else found


def _text_message(request: Request) -> Gravity | None:
    """Return notable for a message to a telephone number, which costs money and can reach strangers."""
    return "notable" if "phoneNumber" in request else None


def _user_data(request: Request) -> Gravity | None:
    """Return notable if a machine's start script is read, which often holds secrets, `none` for its other attributes."""
    return "notable" if any(text == "userData" for _, text in request_values(request)) else "none"


def _point_in_time_recovery(request: Request) -> Gravity | None:
    """Return minor if point-in-time recovery is switched on."""
    flags = {text for name, text in request_values(request) if name == "pointInTimeRecoveryEnabled"}
    return "minor" if flags == {"True"} else None


def _cluster_logs(request: Request) -> Gravity | None:
    """Return severe if logs of a cluster are switched off, grave if its endpoint is made public, notable for other changes."""
    logging = [value for name, value in flat_members(request) if name == "logging"]
    if any(name == "enabled" and text == "False" for each in logging for name, text in request_values(each)):
        return "severe"
    opened = any(name == "endpointPublicAccess" and text == "True" for name, text in request_values(request))
    return "grave" if opened else "notable"


def _event_selectors(request: Request) -> Gravity | None:
    """Return notable for event selectors that record all management events and some data events."""
    if isinstance(request.get("advancedEventSelectors"), list):
        return _advanced_selectors(request["advancedEventSelectors"])
    values = list(request_values(request))
    management = {text for name, text in values if name == "includeManagementEvents"}
    kinds = {text for name, text in values if name == "readWriteType"}
    left_out = any(name == "excludeManagementEventSources" for name, _ in values)
    has_data = any(name == "dataResources" and value for name, value in flat_members(request))
    return "notable" if (management, kinds, left_out, has_data) == ({"True"}, {"All"}, False, True) else None


def _advanced_selectors(selectors: list[Any]) -> Gravity | None:
    """Return notable if one selector takes all management events, and another one takes data events."""
    fields = [
        sorted(text for name, text in request_values(each) if name in ("field", "equals"))
        for each in selectors
    ]
    whole = ["Management", "eventCategory"] in fields
    return "notable" if whole and any("Data" in each for each in fields) else None


def _trail_settings(request: Request) -> Gravity | None:
    """Return notable for settings of a trail that neither move its log nor switch off a part of it."""
    kept = {"isMultiRegionTrail", "includeGlobalServiceEvents", "enableLogFileValidation"} & request.keys()
    moved = not {"s3BucketName", "isOrganizationTrail"}.isdisjoint(request)
    return None if moved or not kept or any(request[each] is not True for each in kept) else "notable"


def _insight_selectors(request: Request) -> Gravity | None:
    """Return grave if a trail gets an empty list of insights, so it reports nothing unusual."""
    return "grave" if "insightSelectors" in request and not request["insightSelectors"] else None


def _balancer_logs(request: Request) -> Gravity | None:
    """Return grave if a load balancer's access log is switched off."""
    off = any(
        each.get("key") == "access_logs.s3.enabled" and str(each.get("value")).lower() == "false"
        for each in request_objects(request)
    )
    return "grave" if off else None


def _log_destinations(request: Request) -> Gravity | None:
    """Return notable if logs still have a destination."""
    return "notable" if any(name == "logDestinationType" for name, _ in request_values(request)) else None


def _retention_days(request: Request) -> Gravity | None:
    """Return minor if logs are kept for LONG_RETENTION_DAYS or longer."""
    days = [text for name, text in request_values(request) if name == "retentionInDays"]
    return (
        "minor"
        if days and all(each.isdecimal() and int(each[:9]) >= LONG_RETENTION_DAYS for each in days)
        else None
    )


def _logging_enabled(request: Request) -> Gravity | None:
    """Return minor if a bucket's access log is switched on."""
    return (
        "minor" if any(name == "LoggingEnabled" and value for name, value in flat_members(request)) else None
    )


def _database_opened(request: Request) -> Gravity | None:
    """Return grave if a database gets another password, becomes public, or loses its backups or its protection from deletion."""
    values = {name.lower(): text.lower() for name, text in request_values(request)}
    harms = (
        not {"masteruserpassword", "adminuserpassword"}.isdisjoint(values),
        values.get("publiclyaccessible") == "true",
        values.get("backupretentionperiod") == "0",
        values.get("deletionprotection") == "false",
    )
    return "grave" if any(harms) else None


def _expiry(request: Request) -> Gravity | None:
    """Return minor for lifecycle rules without an expiry: they move objects to another class, or remove unfinished uploads."""
    names = {name for name, _ in flat_members(request)}
    rules = {"Transition", "NoncurrentVersionTransition", "AbortIncompleteMultipartUpload"}
    expires = {"Expiration", "NoncurrentVersionExpiration"}
    return "minor" if names & rules and not names & expires else None


_OPENED = (
    "ec2:AuthorizeSecurityGroupIngress ec2:ModifySecurityGroupRules ec2:CreateNetworkAclEntry "
    "ec2:ReplaceNetworkAclEntry"
)
_BLOCKED = "s3:PutBucketPublicAccessBlock s3:PutPublicAccessBlock s3:PutAccountPublicAccessBlock"
_PARAMETERS = "ssm:GetParameter ssm:GetParameters ssm:GetParameterHistory"
GIVES_POLICY = (
    "iam:AttachUserPolicy iam:AttachRolePolicy iam:AttachGroupPolicy sso:AttachManagedPolicyToPermissionSet"
)
GIVES_INLINE_POLICY = (
    "iam:PutUserPolicy iam:PutRolePolicy iam:PutGroupPolicy sso:PutInlinePolicyToPermissionSet"
)
_DETECTORS = "guardduty:UpdateDetector guardduty:UpdateMemberDetectors macie2:UpdateMacieSession macie2:UpdateMemberSession"
_ENROLMENT = "guardduty:UpdateOrganizationConfiguration securityhub:UpdateOrganizationConfiguration"
LIFECYCLES = "s3:PutBucketLifecycle s3:PutBucketLifecycleConfiguration"
_DATABASES = (
    "rds:ModifyDBInstance rds:ModifyDBCluster redshift:ModifyCluster redshift-serverless:UpdateWorkgroup "
    "redshift-serverless:UpdateNamespace"
)
# Calls whose request says whether the machines cost much.
_COSTLY = [
    call
    for effect in (*EFFECTS, *GRAVER_EFFECTS)
    if effect.effect == COSTLY_MACHINES
    for call in effect.calls()
]
_IOT_LOGGING = "iot:SetLoggingOptions iot:SetV2LoggingOptions iot:SetV2LoggingLevel"
_IDENTITY_POOLS = "cognito-identity:CreateIdentityPool cognito-identity:UpdateIdentityPool"


REQUEST_CHECKS: dict[tuple[str, str], RequestCheck] = by_call(
    {
        _OPENED: _opens_to_everybody,
        _BLOCKED: _public_access_block,
        GIVES_POLICY: _names_administrator,
        GIVES_INLINE_POLICY: _inline_policy,
        "iam:CreatePolicyVersion": _policy_version,
        "iam:CreatePolicy": _new_policy,
        "sts:GetFederationToken": _session_policy,
        "codebuild:StartBuild codebuild:StartBuildBatch": _runs_other_code,
        "codebuild:UpdateProject": _changes_code,
        "ec2:ModifyInstanceAttribute": _start_script,
        "s3:PutBucketVersioning": _when_suspended,
        _DETECTORS: _when_disabled,
        "guardduty:CreateFilter macie2:CreateFindingsFilter": _archiving_filter,
        "guardduty:UpdateFilter macie2:UpdateFindingsFilter": _listing_filter,
        "iam:UpdateAccessKey": _key_status,
        "dynamodb:UpdateContinuousBackups": _point_in_time_recovery,
        "eks:UpdateClusterConfig": _cluster_logs,
        "cloudtrail:PutEventSelectors": _event_selectors,
        "cloudtrail:UpdateTrail": _trail_settings,
        "cloudtrail:PutInsightSelectors": _insight_selectors,
        "network-firewall:UpdateLoggingConfiguration": _log_destinations,
        "elasticloadbalancing:ModifyLoadBalancerAttributes": _balancer_logs,
        "logs:PutRetentionPolicy": _retention_days,
        "s3:PutBucketLogging": _logging_enabled,
        LIFECYCLES: _expiry,
        _DATABASES: _database_opened,
        "support:CreateCase": _asks_for_limit,
        _PARAMETERS: _with_decryption,
        "ssm:GetParametersByPath": _all_parameters,
        "ecs:RunTask ecs:StartTask": _other_role,
        "ec2:DescribeInstanceAttribute": _user_data,
        "sns:Publish": _text_message,
        _ENROLMENT: where(
            "autoenable autoenableorganizationmembers autoenablestandards", "false none", "grave"
        ),
        "securityhub:BatchUpdateStandardsControlAssociations": where(
            "associationstatus", "disabled", "grave"
        ),
        "macie2:UpdateAutomatedDiscoveryConfiguration": where("status", "disabled", "grave"),
        "inspector2:CreateFilter inspector2:UpdateFilter": where("action", "suppress", "grave"),
        "config:PutConfigurationRecorder": where("allsupported", "false", "grave"),
        "events:PutRule": where("state", "disabled", "grave"),
        "bedrock:PutModelInvocationLoggingConfiguration": where(
            "textdatadeliveryenabled imagedatadeliveryenabled embeddingdatadeliveryenabled",
            "false",
            "grave",
            "minor",
        ),
        _IOT_LOGGING: where("disablealllogs defaultloglevel loglevel", "true disabled", "grave", "minor"),
        "iot:UpdateCertificate": where("newstatus", "active", "notable", "minor"),
        "glue:GetConnection glue:GetConnections": where("hidepassword", "true", "minor"),
        "iot:CreatePolicy iot:CreatePolicyVersion": _device_policy,
        "ecr:PutImageTagMutability": where("imagetagmutability", "immutable", "minor"),
        "dynamodb:UpdateTable": where("deletionprotectionenabled", "false", "notable", "minor"),
        "dlm:UpdateLifecyclePolicy": where("state", "disabled", "grave", "minor"),
        "acm-pca:UpdateCertificateAuthority": where("status", "disabled", "grave", "minor"),
        _IDENTITY_POOLS: where("allowunauthenticatedidentities", "true", "grave", "minor"),
        "lambda:CreateFunctionUrlConfig lambda:UpdateFunctionUrlConfig": where(
            "authtype", "none", "grave", "notable"
        ),
        "quicksight:UpdatePublicSharingSettings": where("publicsharingenabled", "true", "grave", "minor"),
        "elasticmapreduce:PutBlockPublicAccessConfiguration": where(
            "blockpublicsecuritygrouprules", "false", "grave", "minor"
        ),
        "s3:PutObjectRetention": where(
            "x-amz-bypass-governance-retention bypassgovernanceretention", "true", "grave"
        ),
    }
) | dict.fromkeys(_COSTLY, _costs_much)
