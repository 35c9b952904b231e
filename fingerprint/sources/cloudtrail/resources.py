"""The resource that a call touches: bucket, role, secret, key, function, table ..., by a type and a name.

Example:
    >>> resource_of("secretId=arn:aws:secretsmanager:eu-west-1:111122223333:secret:prod/db-a1B2c3")
    'secret:prod/db'
    >>> fold("bucket:logs-2026-01-08-111122223333")
    'bucket:logs-*-*'

A record names its resource in one of these places:
- a member of the request parameters, whose name depends on the service. RESOURCE_PARAMETERS are the members that are read, the
  most specific first: a call that attaches a policy to a role touches the role. NESTED_NAMES are members with several names, of
  which the first is read.
- the ARN of the first of its `resources`
- the details of an event of Identity Center: the account and the permission set that it gave

The readers pass `member=value`, and each distinct text is converted once. An attacker may have written every character of a
value, so it is cut before it is examined, and the expressions take time in proportion to its length.
"""

from __future__ import annotations

import re
from typing import Literal

from fingerprint.sources.cloudtrail.named_accounts import named_bare
from fingerprint.sources.cloudtrail.operations import cli_word

MAX_RESOURCE_LENGTH = 256  # characters of a value that are examined and kept
ACCOUNT_DIGITS = 12  # of an account's number
MAX_TYPE_LENGTH = 40  # characters of the type of what a call makes, which is in the name of its action
MAX_RECORD_CHARACTERS = 262_144  # the rest of a longer record is not read
ARN_MEMBER = "ARN"  # of the first of a record's resources; read if no parameter names a resource
GIVEN_MEMBER = "role_name"  # `account/name` that Identity Center gave; read if no parameter names a resource

RESOURCE_PARAMETERS = {  # member of the request parameters -> type, the most specific first
    "bucketName": "bucket",
    "secretId": "secret",
    "secretIdList": "secret",
    "functionName": "function",
    "roleArn": "role",
    "roleName": "role",
    "userName": "user",
    "groupName": "group",
    "policyArn": "policy",
    "tableName": "table",
    "requestItems": "table",
    "tableArn": "table",
    "keyId": "key",
    "dBInstanceIdentifier": "database",
    "dBClusterIdentifier": "database",
    "dBSnapshotIdentifier": "snapshot",
    "dBClusterSnapshotIdentifier": "snapshot",
    "sourceDBSnapshotIdentifier": "snapshot",
    "sourceDBClusterSnapshotIdentifier": "snapshot",
    "snapshotId": "snapshot",
    "sourceSnapshotId": "snapshot",
    "volumeId": "volume",
    "imageId": "image",
    "instanceId": "instance",
    "instancesSet": "instance",
    "groupId": "group",
    "vpcId": "vpc",
    "topicArn": "topic",
    "queueUrl": "queue",
    "repositoryName": "repository",
    "stackName": "stack",
    "logGroupName": "log group",
    "trailName": "trail",
    "clusterName": "cluster",
    "cluster": "cluster",
    "clusterIdentifier": "cluster",  # Redshift
    "snapshotIdentifier": "snapshot",
    "stateMachineArn": "state machine",
    "databaseName": "database",
    "streamName": "stream",
    "hostedZoneId": "zone",
    "detectorId": "detector",
    "instanceProfileName": "instance profile",
    "targetGroupArn": "target group",
    "loadBalancerArn": "load balancer",
    "domainName": "domain",
    "documentName": "document",
    "modelId": "model",  # Bedrock
    "agentId": "agent",
    "knowledgeBaseId": "knowledge base",
    "endpointName": "endpoint",  # SageMaker
    "notebookInstanceName": "notebook",
    "userPoolId": "user pool",
    "identityPoolId": "identity pool",
    "layerName": "layer",
    "emailIdentity": "identity",  # SES
    "identity": "identity",
    "fromEmailAddress": "identity",
    "instanceName": "instance",  # Lightsail
    "backupVaultName": "vault",
    "projectName": "project",
    "jobName": "job",
    "workGroup": "workgroup",  # Athena
    "serviceArn": "service",  # App Runner
    "directoryId": "directory",
    "targetId": "target",  # an account, a unit of the organisation
    "permissionSetArn": "permission set",
    "recoveryPointArn": "",  # the type is the ARN's
    "resourceArn": "",
    "sourceArn": "",
    "name": "",
    "names": "",
    "rule": "rule",  # EventBridge; elsewhere a structure
    "policyName": "policy",
    "path": "",
    "accountId": "account",
}

# Members whose value has names in a structure: a list of texts, the keys of an object, or AWS's `{"items": [{ID: ...}]}`.
NESTED_NAMES: dict[str, Literal["list", "keys", "items"]] = {
    "names": "list",
    "secretIdList": "list",
    "requestItems": "keys",
    "instancesSet": "items",
}
ITEM_ID = "instanceId"  # the member of an item that is its name

_ARN = re.compile(r"arn:[a-z-]{3,12}:([^:]*):[^:]*:[^:]*:(.+)", re.DOTALL)
_TYPE = re.compile(r"([A-Za-z][A-Za-z-]{0,39})[/:]")  # the type before the name, in an ARN's last part
# The suffix that Secrets Manager adds to the name in an ARN: six random letters and digits. A suffix of small letters alone, one
# in 185, is not recognised and stays.
_SECRET_SUFFIX = re.compile(r"-(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{6}\Z")
_TYPES_OF_ARN = {
    "secretsmanager": "secret",
    "s3": "bucket",
    "sns": "topic",
    "sqs": "queue",
    "dynamodb": "table",
}
HIDDEN = "HIDDEN_DUE_TO_SECURITY_REASONS"  # AWS writes this in place of a name that may be a password or of a person
_NAMELESS = "resource"  # the type if neither the member nor an ARN gives one
# The type of the member `name`, by call: the same trail is a `trailName` to PutEventSelectors, and a `name` to StopLogging.
_NAMED = {
    "secret": "secretsmanager:CreateSecret",
    "federated user": "sts:GetFederationToken",
    "trail": "cloudtrail:CreateTrail UpdateTrail DeleteTrail GetTrail GetTrailStatus StartLogging StopLogging",
    "topic": "sns:CreateTopic",
    "state machine": "states:CreateStateMachine",
    "parameter": "ssm:GetParameter GetParameters GetParametersByPath GetParameterHistory PutParameter DeleteParameter "
    "DeleteParameters LabelParameterVersion",
    "cluster": "eks:CreateCluster DescribeCluster DeleteCluster UpdateClusterConfig UpdateClusterVersion ListAccessEntries "
    "CreateAccessEntry DescribeAccessEntry UpdateAccessEntry DeleteAccessEntry AssociateAccessPolicy "
    "DisassociateAccessPolicy AssociateEncryptionConfig AssociateIdentityProviderConfig",
    "project": "codebuild:CreateProject UpdateProject DeleteProject",
    "rule": "events:PutRule DescribeRule EnableRule DisableRule DeleteRule",
    "profile": "rolesanywhere:CreateProfile",
    "trust anchor": "rolesanywhere:CreateTrustAnchor",
}
_NAMED_BY_CALL = {
    (service, action): kind
    for kind, (service, actions) in ((kind, calls.split(":")) for kind, calls in _NAMED.items())
    for action in actions.split()
}

# Words with one or two single digits between them, as in `prod2db1backup`, are a name. A word has at least two letters, and never
# four consonants in a row. Of random ids of 13 characters with digits apart (CloudFormation's), one in 25 is taken for words.
_WORDS = (
    r"(?![0-9a-z]*[b-df-hj-np-tv-xz]{4})[a-z]{2,}(?:[0-9][a-z]{2,}){1,2}[0-9]?(?![0-9a-z])",
    r"(?![0-9A-Z]*[B-DF-HJ-NP-TV-XZ]{4})[A-Z]{2,}(?:[0-9][A-Z]{2,}){1,2}[0-9]?(?![0-9A-Z])",
)

# The parts of a name that change with every run. They are folded, so that the rest of the name is recognised.
_VARIABLE = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"  # a UUID
    r"|(?<![0-9])(?:19|20)[0-9]{2}[-_/.]?[01][0-9](?:[-_/.]?[0-3][0-9])?(?:T?[0-9]{2}[:-]?[0-9]{2}(?:[:-]?[0-9]{2})?Z?)?(?![0-9])"
    r"|(?<![0-9a-zA-Z])(?=[a-f]*[0-9])[0-9a-f]{8,}(?![0-9a-zA-Z])"  # account ids, other long numbers, hashes
    # letters and digits that alternate
    rf"|(?<![0-9a-zA-Z])(?!{_WORDS[0]})(?=[a-z]*[0-9]+[a-z]+[0-9])[0-9a-z]{{10,20}}(?![0-9a-zA-Z])"
    rf"|(?<![0-9a-zA-Z])(?!{_WORDS[1]})(?=[A-Z]*[0-9]+[A-Z])[0-9A-Z]{{8,20}}(?![0-9a-zA-Z])"
)
_GENERATED_ID = re.compile(r":[a-z]{1,5}-[0-9a-z]{8,17}\Z")
# Types whose ids are kept: there are few things of such a type, and the id is their only name. The account of a permission set is
# kept, because it says as much as the name.
_KEPT_WHOLE = (
    "key:",
    "vpc:",
    "group:",
    "zone:",
    "detector:",
    "permission set:",
    "account:",
    "target:",
    "agent:",
    "knowledge base:",
    "user pool:",
    "identity pool:",
    "directory:",
)


def resource_of(named: str | None) -> str | None:
    """Return `type:name` for the `member=value` that a reader found; None if it found nothing, or the value is no name."""
    if not named:
        return None
    member, _, value = named.partition("=")
    value = value[:MAX_RESOURCE_LENGTH].strip()
    if not value.strip("/") or value[0] in "{[":  # the root of all paths, or a structure: no name
        return None
    kind, name = "permission set" if member == GIVEN_MEMBER else RESOURCE_PARAMETERS.get(member, ""), value
    found = _ARN.match(value)
    if found:
        kind, name = _of_arn(found[1], found[2], kind)
    elif kind == "queue":
        name = value.rstrip("/").rpartition("/")[2]
    return f"{kind or _NAMELESS}:{name}" if name else None


def typed_resource(service: str, action: str, resource: str) -> str:
    """Return a resource of a call, with a type by the call if its member gave none; empty if AWS hid the name.

    A `Create` call gives a name to what it makes, so the name of its action says the type.

    >>> typed_resource("cloudtrail", "StopLogging", "resource:org-trail")
    'trail:org-trail'
    >>> typed_resource("sso", "CreatePermissionSet", "resource:BreakGlass")
    'permission set:BreakGlass'
    >>> typed_resource("identitystore", "CreateUser", "user:HIDDEN_DUE_TO_SECURITY_REASONS")
    ''
    """
    kind, separator, name = resource.partition(":")
    if name.startswith(HIDDEN):
        return ""
    # Accounts are the only targets in an organisation whose id is such a number.
    if kind == "target" and len(name) == ACCOUNT_DIGITS and name.isascii() and name.isdigit():
        return f"account:{name}"
    if not separator or kind != _NAMELESS:
        return resource
    return f"{_NAMED_BY_CALL.get((service, action)) or _made_by(action) or kind}:{name}"


def _made_by(action: str) -> str:
    """Return the type of what a `Create` call makes, in words, by the name of its action; empty for other calls."""
    thing = action.removeprefix("Create")
    if thing in (action, "") or len(thing) > MAX_TYPE_LENGTH or not (thing.isascii() and thing.isalnum()):
        return ""
    return cli_word(thing).replace("-", " ")


def may_lie_in(record: str, resource: str, account: str) -> bool:
    """Return whether a call's resource may be in another account that its record (JSON text) names.

    It is not in that account if
    - every ARN of the account is of another thing: a policy names whom it lets in
    - the account is a bare number: the resource is shared with it

    >>> may_lie_in('{"roleName": "sync", "policyDocument": "... arn:aws:iam::210987654321:root"}', "role:sync", "210987654321")
    False
    """
    name, read = resource.partition(":")[2], record[:MAX_RECORD_CHARACTERS]
    if account in named_bare(read):
        return False
    _, *rest = read.split(f":{account}:")
    named = [each.partition('"')[0].partition("\\")[0] for each in rest]
    return not named or any(name in each for each in named)


def _of_arn(service: str, last: str, kind: str) -> tuple[str, str]:
    """Return type and name from the service and the last part of an ARN; `kind` is the type of the member, or empty."""
    typed = service not in ("s3", "sns", "sqs") and _TYPE.match(last)
    name = last[typed.end() :] if typed else last
    kind = kind or _TYPES_OF_ARN.get(service) or (typed[1] if typed else service)
    if kind == "bucket":
        name = name.partition("/")[0]
    if kind == "function":
        name = name.partition(":")[0]
    if kind == "secret":
        name = _SECRET_SUFFIX.sub("", name)
    return kind, name


def fold(resource: str) -> str:
    """Return a resource with `*` for account ids, dates, UUIDs and generated parts; ids of lasting things are kept."""
    if resource.startswith(_KEPT_WHOLE):
        return resource
    if resource.startswith(("instance:", "volume:", "snapshot:", "image:")) and "-" in resource:
        generated = _GENERATED_ID.search(resource)
        return f"{resource.partition('-')[0]}-*" if generated else _VARIABLE.sub("*", resource)
    return _VARIABLE.sub("*", resource)
