"""Grants of a request: whom it lets in (everybody, other accounts, an organisation), by a policy or by a member with names.

Example:
    >>> policy = {"Statement": [{"Effect": "Allow", "Principal": {"AWS": "210987654321"}, "Action": "s3:*"}]}
    >>> admitted_by_policies({"bucketPolicy": policy}, "123456789012").outsiders
    ('210987654321',)

A statement for everybody may have a condition. If it limits the statement to the account's own callers, as in the policies that
AWS makes for topics and keys, no outsider gets in. If it limits it to an organisation or a network, the policy does not say whose
these are. No outsiders are: statements that deny, services of AWS, and accounts from which AWS itself writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from string import hexdigits
from typing import Any, NamedTuple

from fingerprint.core.alert import GRAVE_OR_SEVERE, Gravity
from fingerprint.sources.base import EVERYBODY
from fingerprint.sources.cloudtrail.impact_effects import by_call
from fingerprint.sources.cloudtrail.record_members import (
    CallRecord,
    flat_members,
    request_objects,
    request_values,
)

Request = dict[str, Any]

_EVERYBODY = (EVERYBODY, "all")
# Operators of conditions that hold only if the key is present; with IfExists or ForAllValues it may be missing
_OPERATORS = ("stringequals", "stringequalsignorecase", "stringlike", "arnequals", "arnlike")
_CALLER_KEYS = (  # of conditions, in small letters: the account or the ARN of whom the call is made by or for
    "aws:principalaccount",
    "aws:principalarn",
    "aws:sourceaccount",
    "aws:sourcearn",
    "aws:sourceowner",
    "kms:calleraccount",
    "s3:dataaccesspointaccount",
)
_BOUNDING_KEYS = (
    "aws:principalorgid",
    "aws:principalorgpaths",
    "aws:sourceorgid",
    "aws:sourceorgpaths",
    "aws:sourcevpc",
    "aws:sourcevpce",
)
# Accounts of AWS that load balancers and the billing service write from (Elastic Load Balancing's and Billing's user guides).
_LOG_WRITERS = (
    "127311923021 033677994240 027434742980 797873946194 098369216593 754344448648 589379963580 718504428378 "
    "383597477331 600734575887 114774131450 783225319266 582318560864 985666609251 054676820928 156460612806 "
    "652711504416 635631232127 009996457667 897822967062 076674570225 507241528517 048591011584 190560391635 "
    "638102146993 037604701340 386209384616"
)
_OF_AWS = frozenset(_LOG_WRITERS.split())
# Of AWS as well: the accounts of layers that it publishes in most regions, of Lambda Insights (CloudWatch's user guide) and of
# Powertools for Python and TypeScript (their documentation).
_LAYERS_OF_AWS = frozenset(("580247275435", "017000801446", "094274105915"))
# Of AWS as well: the canonical user that writes CloudFront's logs (its developer guide).
_LOG_DELIVERY = "c4c1ede66af53448b93c283ce9448c4ba468c9432aa01d700d3878632f77d2d0"
_PUBLIC_GROUPS = ("AllUsers", "AuthenticatedUsers", "public-read", "public-read-write", "authenticated-read")
_ADDED = ("add", "valuesToAdd", "accountIdsToAdd")
_FULL_ACTIONS = ("*", "*:*", "iam:*")
# Services whose policies say who may call an endpoint, send to it or change a stack, and share nothing that is stored.
_NO_GRANTS = frozenset(("apigateway", "cloudformation", "ec2", "oam", "organizations", "vpc-lattice"))


# Actions that hand data, code or keys over -> the member, in small letters, that names to whom.
HANDED_OVER = {
    "kms:CreateGrant": "granteeprincipal",
    "sns:AddPermission": "awsaccountid",
    "sqs:AddPermission": "awsaccountids",
    "lambda:AddLayerVersionPermission": "principal",
    "lakeformation:GrantPermissions": "datalakeprincipalidentifier",
    "lakeformation:BatchGrantPermissions": "datalakeprincipalidentifier",
    "redshift:AuthorizeSnapshotAccess": "accountwithrestoreaccess",
    "redshift:AuthorizeDataShare": "consumeridentifier",
    "s3:CreateAccessGrant": "granteeidentifier",
    "ec2:ModifyFpgaImageAttribute": "userids",
    "appstream:UpdateImagePermissions": "sharedaccountid",
    "workspaces:UpdateWorkspaceImagePermission": "sharedaccountid",
    "securitylake:CreateSubscriber": "principal",
    "dataexchange:CreateDataGrant": "receiverprincipal",
    "serverlessrepo:PutApplicationPolicy": "principals",
    "backup:StartCopyJob": "destinationbackupvaultarn",
}
# Actions that let others reach or use something -> as above.
LENT = {
    "ram:CreateResourceShare": "principals",
    "ram:AssociateResourceShare": "principals",
    "events:PutPermission": "principal",
    "redshift:AuthorizeEndpointAccess": "account",
    "es:AuthorizeVpcEndpointAccess": "account",
    "ec2:ModifyVpcEndpointServicePermissions": "addallowedprincipals",
    "ec2:CreateNetworkInterfacePermission": "awsaccountid",
    "servicecatalog:CreatePortfolioShare": "accountid",
    "servicecatalog:UpdatePortfolioShare": "accountid",
    "ds:ShareDirectory": "sharetarget",
    "workspaces:UpdateConnectionAliasPermission": "sharedaccountid",
    "lakeformation:PutDataLakeSettings": "datalakeprincipalidentifier",
    "imagebuilder:CreateDistributionConfiguration": "userids",
    "imagebuilder:UpdateDistributionConfiguration": "userids",
    "dlm:CreateLifecyclePolicy": "targetaccounts",
    "signer:AddProfilePermission": "principal",
    "iot:TransferCertificate": "targetawsaccount",
    "config:PutAggregationAuthorization": "authorizedaccountid",
    "ec2:EnableAddressTransfer": "transferaccountid",
    "guardduty:AcceptInvitation": "masterid",
    "guardduty:AcceptAdministratorInvitation": "administratorid",
    "securityhub:AcceptInvitation": "masterid",
    "securityhub:AcceptAdministratorInvitation": "administratorid",
    "macie2:AcceptInvitation": "administratoraccountid",
}
# Actions that send data on, maybe to another account -> the member, in small letters, that has the ARN of where to.
SENT = {
    "logs:PutSubscriptionFilter": "destinationarn",
    "logs:PutAccountPolicy": "destinationarn",
    "events:PutTargets": "arn",
    "oam:CreateLink": "sinkidentifier",
}
# Actions whose function runs the layers of the request, maybe another account's.
LAYERED = "lambda:UpdateFunctionConfiguration CreateFunction"
# Actions that put data into a bucket, or open one -> the member, in small letters, that names whose it is, or for whom it is
# opened. That this is one's own account, or no one, proves nothing.
DELIVERED = {
    "dynamodb:ExportTableToPointInTime": "s3bucketowner",
    "athena:StartQueryExecution": "expectedbucketowner",
    "athena:UpdateWorkGroup": "expectedbucketowner",
    "lightsail:UpdateBucket": "readonlyaccessaccounts",
}
SHARED = (
    "ec2:ModifySnapshotAttribute",
    "ec2:ModifyImageAttribute",
    "rds:ModifyDBSnapshotAttribute",
    "rds:ModifyDBClusterSnapshotAttribute",
    "ssm:ModifyDocumentPermission",
)


class Admitted(NamedTuple):
    """The callers that a request lets in.

    - `outsiders`: other accounts by their numbers, canonical users by their ids, `*` for everybody
    - `bounded`: all callers of an organisation, of a network, or of an address
    - `vouched`: callers that a provider of identities or certificates vouches for
    - `insiders`: the account's own callers, or a service
    """

    outsiders: tuple[str, ...] = ()
    bounded: bool = False
    vouched: bool = False
    insiders: bool = False


Reader = Callable[[Request, str], Admitted]  # request and the account that was called -> whom it lets in


def outsiders_let_in(service: str, action: str, record: CallRecord) -> tuple[str, ...]:
    """Return the outsiders that get a right or a copy of data from a call: accounts, canonical users, `*` for everybody."""
    reader = _READERS.get((service, action))
    return _read(reader, record).outsiders if reader else _by_unlisted_policy(service, record).outsiders


def policy_gravity(service: str, record: CallRecord) -> Gravity | None:
    """Return severe or grave for a call of an unlisted action with a policy for outsiders; None for any other call."""
    gravity = outside_gravity(_by_unlisted_policy(service, record))
    return gravity if gravity in GRAVE_OR_SEVERE else None


def _by_unlisted_policy(service: str, record: CallRecord) -> Admitted:
    if service in _NO_GRANTS or "Principal" not in record.text:
        return Admitted()
    return _read(admitted_by_policies, record)


def _read(reader: Reader, record: CallRecord) -> Admitted:
    return Admitted() if record.request is None else reader(record.request, record.account)


def admitted_by_policies(request: Request, account: str) -> Admitted:
    """Return the callers that the policies in a request let in; `account` is the account that the call was made on."""
    return _together(_admitted_by_statement(each, account) for each in _statements(request) if _allows(each))


def admitted_by_names(texts: Iterable[str], account: str) -> Admitted:
    """Return the callers that the texts of a member let in: accounts, ARNs or services."""
    return _together(_admitted(text, account) for text in texts)


def admitted_by_member(member: str) -> Reader:
    """Return a reader of the callers that a request lets in by a member (in lower case) with accounts or ARNs."""

    def read(request: Request, account: str) -> Admitted:
        members = (value for name, value in flat_members(request) if name.lower() == member)
        return admitted_by_names((text for value in members for _, text in request_values(value)), account)

    return read


def admitted_by_arn(member: str) -> Reader:
    """Return a reader of the accounts that a request sends data to, by the ARNs of a member (in lower case), also in a policy."""

    def read(request: Request, account: str) -> Admitted:
        named = (text for name, text in request_values(request) if name.lower() == member)
        return admitted_by_names((text for text in named if text.startswith("arn:")), account)

    return read


def named_by_layers(request: Request, account: str) -> Admitted:
    """Return the accounts of the layers that a function will run, without its own account and those of AWS."""
    named = admitted_by_arn("layers")(request, account)
    return Admitted(tuple(each for each in named.outsiders if each not in _LAYERS_OF_AWS))


def admitted_to_invoke(request: Request, account: str) -> Admitted:
    """Return the callers that a function's permission lets in; everybody at its address can only call it, as can a bucket."""
    admitted = admitted_by_member("principal")(request, account)
    source = admitted_by_member("sourceaccount")(request, account)
    by_address = request.get("functionUrlAuthType") == "NONE" or "principalOrgID" in request
    if source.outsiders or (EVERYBODY in admitted.outsiders and by_address):
        return Admitted(bounded=True)
    return admitted


def admitted_by_sharing(request: Request, account: str) -> Admitted:
    """Return the accounts that are added to a snapshot, an image or a document; an unknown name counts as another account."""
    added = (value for name, value in flat_members(request) if name in _ADDED)
    texts = [text for each in added for _, text in request_values(each) if text]
    found = admitted_by_names(texts, account)
    unknown = tuple(text for text in texts if _admitted(text, account).insiders and text != account)
    return found._replace(outsiders=found.outsiders + unknown)


def admitted_by_acl(request: Request, account: str) -> Admitted:
    """Return the callers that an ACL names, without the owner."""
    if any(word in text for _, text in request_values(request) for word in _PUBLIC_GROUPS):
        return Admitted((EVERYBODY,))
    members = list(flat_members(request))
    own = {text for name, value in members if name == "Owner" for _, text in request_values(value)} | {
        _LOG_DELIVERY
    }
    granted = (
        text
        for name, value in members
        if name == "Grantee"
        for at, text in request_values(value)
        if at == "ID" and text not in own
    )
    return Admitted(tuple(dict.fromkeys(granted)))


def outside_gravity(admitted: Admitted) -> Gravity | None:
    """Return severe for everybody or another account, grave for an organisation or a network, notable for the own account.

    None for a provider of identities, because a policy does not say whom it lets in.
    """
    if admitted.outsiders:
        return "severe"
    if admitted.bounded:
        return "grave"
    return "notable" if admitted.insiders and not admitted.vouched else None


def denies_only(request: Request) -> Gravity | None:
    """Return notable for policies that only deny, grave if they deny everybody without a condition; None for others."""
    statements = list(_statements(request))
    if not statements or any(map(_allows, statements)):
        return None
    locks = (
        not each.get("Condition") and EVERYBODY in (text for _, text in request_values(each.get("Principal")))
        for each in statements
    )
    return "grave" if any(locks) else "notable"


def gives_full_rights(request: Request, full: Collection[str] = _FULL_ACTIONS) -> bool:
    """Return whether a policy in a request allows all actions, or all of IAM, on every resource.

    `full` has the texts of such actions, in lower case.
    """
    return any(_allows(each) and _is_full(each, full) for each in _statements(request))


def _is_full(statement: Request, full: Collection[str]) -> bool:
    resources = {text for _, text in request_values(statement.get("Resource"))}
    actions = {text.lower() for _, text in request_values(statement.get("Action"))}
    return EVERYBODY in resources and ("NotAction" in statement or not actions.isdisjoint(full))


def _together(each: Iterable[Admitted]) -> Admitted:
    found = list(each)
    outsiders = dict.fromkeys(outsider for one in found for outsider in one.outsiders)
    return Admitted(
        tuple(outsiders), *(any(one[at] for one in found) for at in range(1, len(Admitted._fields)))
    )


def _statements(node: Any) -> Iterator[Request]:
    """Yield the statements of all policies in a request, as JSON or as text of it."""
    for each in request_objects(node, with_texts=True):
        if not {"Effect", "Principal", "NotPrincipal"}.isdisjoint(each):
            yield each


def _allows(statement: Request) -> bool:
    return str(statement.get("Effect", "Allow")) == "Allow"


def _admitted_by_statement(statement: Request, account: str) -> Admitted:
    if "NotPrincipal" in statement:  # all but some are everybody
        return Admitted((EVERYBODY,))
    named = list(request_values(statement["Principal"])) if "Principal" in statement else []
    found = _together(_admitted(text, account, kind) for kind, text in named)
    if EVERYBODY not in found.outsiders:
        return found
    held = _admitted_by_condition(statement.get("Condition"), account)
    others = tuple(each for each in found.outsiders if each != EVERYBODY)
    return _together((held, found._replace(outsiders=others)))


def _admitted_by_condition(condition: Any, account: str) -> Admitted:
    """Return the callers that a statement for everybody lets in by its condition, of which all keys must hold."""
    found = Admitted((EVERYBODY,))
    for operator, tests in condition.items() if isinstance(condition, dict) else ():
        if operator.lower() not in _OPERATORS or not isinstance(tests, dict):
            continue
        for key, value in tests.items():
            if key.lower() in _CALLER_KEYS:
                held = _together(_admitted_by_key(text, account) for _, text in request_values(value))
            else:
                held = Admitted(bounded=key.lower() in _BOUNDING_KEYS)
            if any(held) and EVERYBODY not in held.outsiders:
                return held
    return found


def _admitted_by_key(text: str, account: str) -> Admitted:
    """Return the callers that a value of a condition lets in; the ARN of a bucket has no account."""
    named = _account_of(text)
    if not _is_account(named):
        return Admitted(bounded=True) if text.startswith("arn:aws:s3:") else Admitted((EVERYBODY,))
    return Admitted(insiders=True) if named == account else Admitted((named,))


def _admitted(text: str, account: str, kind: str = "") -> Admitted:
    """Return the callers that a principal of a policy or of a member lets in; `kind` is the kind of the principal.

    A canonical user id counts as another account: policies name the own account by its number.
    """
    if kind == "Federated" or text.startswith("rolesanywhere."):
        return Admitted(vouched=True)
    if text in _EVERYBODY:
        return Admitted((EVERYBODY,))
    if len(text) == 64 and set(text) <= set(hexdigits):
        return Admitted((text,))
    named = _account_of(text)
    if not _is_account(named) or named == account or named in _OF_AWS:
        return Admitted(insiders=True)
    if text.split(":")[2:3] == ["organizations"]:  # the number is the management account's
        return Admitted(bounded=True)
    return Admitted((named,))


def _account_of(text: str) -> str:
    return text.split(":")[4] if text.startswith("arn:") and text.count(":") >= 5 else text


def _is_account(text: str) -> bool:
    return len(text) == 12 and text.isascii() and text.isdigit()


_READERS: dict[tuple[str, str], Reader] = by_call(
    {
        **{call: admitted_by_member(member) for call, member in (HANDED_OVER | LENT | DELIVERED).items()},
        **{call: admitted_by_arn(member) for call, member in SENT.items()},
        LAYERED: named_by_layers,
        " ".join(SHARED): admitted_by_sharing,
        "lambda:AddPermission": admitted_to_invoke,
        "s3:PutBucketReplication": admitted_by_member("account"),
        "s3:PutBucketAcl PutObjectAcl": admitted_by_acl,
    }
)
