"""The identity of a CloudTrail record, as a principal with a stable key.

Example:
    >>> principal_of({"identity_type": "AssumedRole", "issuer_arn": "arn:aws:iam::123456789012:role/deploy",
    ...               "arn": "arn:aws:sts::123456789012:assumed-role/deploy/build-7"}).key
    '123456789012:role/deploy'

A key begins with the account, because the same name exists in many accounts. All sessions of a role have the key of the role,
because the caller chooses the session's name. Only if the issuer fixes that name (Identity Center, SAML) is the principal the
person at the role.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from urllib.parse import unquote

import msgspec

from fingerprint.core.alert import CallPath
from fingerprint.core.sanitize import printable
from fingerprint.sources.base import Principal, escape_key
from fingerprint.sources.cloudtrail.record_members import decode_record

Identity = Mapping[str, str]  # the columns of IDENTITY; "" for missing

IDENTITY_COLUMNS = (
    "identity_type",
    "principal_id",
    "arn",
    "account",
    "user_name",
    "invoked_by",
    "identity_provider",
    "issuer_type",
    "issuer_arn",
    "issuer_id",
    "issuer_account",
    "issuer_name",
    "federated_provider",
    "source_identity",
    "behalf_user",
    "recipient_account",
    "service",
)

MAX_PLAIN_LENGTH = 80  # characters of a subject with its provider
SSO_ROLE = "AWSReservedSSO_"  # prefix of the names of Identity Center's roles
_PERSON_ROLES = (rf"^{SSO_ROLE}",)
COGNITO = "cognito-identity.amazonaws.com"
ANONYMOUS = "anonymous"  # in the key of callers without credentials
_ANONYMOUS_NAMES = {ANONYMOUS, "ANONYMOUS_PRINCIPAL"}  # what stands for an account, or a caller's id
_HIDDEN_NAMES = {"", "HIDDEN_DUE_TO_SECURITY_REASONS", "UNKNOWN", "-"}
_SERVICE_ROLE_PATH = ":role/aws-service-role/"
_SSO_ROLE_PATH = ":role/aws-reserved/sso.amazonaws.com/"  # only Identity Center can make roles there
_INSTANCE = re.compile(r"^i-[0-9a-f]{8,17}$")
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Subjects with a name that lasts, in the group, and one of a run (branch, commit, step) or of a visitor, which does not. GitHub
# and GitLab keep `:` out of names; a run in an environment is none of these: which one is the rule by which a role is given.
_RUN = re.compile(
    "|".join(
        (
            r"(repo:[^:/\s]+/[^:/\s]+):(?:ref:[^:\s]+|pull_request)",  # GitHub
            r"(project_path:[^:\s]+):ref_type:[^:\s]+:ref:[^:\s]+",  # GitLab
            r"(organization:[^:\s]+:pipeline:[^:\s]+):ref:[^:\s]+:commit:[^:\s]+:step:[^:\s]*",  # Buildkite
            rf"(org/{_UUID}/project/{_UUID})/user/{_UUID}",  # CircleCI
            rf"(\{{{_UUID}\}}(?::\{{{_UUID}\}})?):\{{{_UUID}\}}",  # Bitbucket: repository, environment; step
            rf"([a-z]{{2,4}}(?:-[a-z]++)++-\d++):{_UUID}",  # Cognito: who visits an application
        )
    )
)
# Of a run, the kind of what it was of, and its name. Who may push a branch is often not who may push to the main one, or may run
# in an environment; a name of each would make a principal of every branch.
_REF = re.compile(
    r"(?P<branch>:ref:refs/heads/|:ref_type:branch:ref:)(?P<name>[^:\s]+)|(?P<tag>:ref:refs/tags/|:ref_type:tag:ref:)"
)
_MAIN_BRANCHES = {"main", "master"}
# An e-mail; the name on an identity card of the US military (1234567890@mil), which has no second label; first.last.
_PERSONAL = re.compile(r"^[^@\s]++@(?:mil|[^@\s][^@\s.]*+\.[^@\s]++)$|^[A-Za-z]{2,}+[._][A-Za-z]{2,}+$")


def principal_of(identity: Identity, person_roles: tuple[str, ...] = _PERSON_ROLES) -> Principal:
    """Return the principal of one identity: the texts of IDENTITY_COLUMNS, missing ones absent or empty.

    Follows the userIdentity reference of the CloudTrail user guide; tests/sources/cloudtrail/test_identity.py has the shapes
    seen in practice.
    """
    identity = {column: identity.get(column) or "" for column in IDENTITY_COLUMNS}
    account = _account(identity)
    principal = _of_type(identity, account, person_roles)
    call_path, via = _call_path(identity, principal)
    return replace(
        principal, call_path=call_path, via=via, human=principal.human or _human(identity, principal)
    )


def _account(identity: Identity) -> str:
    found = (
        identity["account"],
        identity["issuer_account"],
        _arn(identity["issuer_arn"])[0],
        _arn(identity["arn"])[0],
    )
    return escape_key(next((each for each in found if each), identity["recipient_account"] or "unknown"))


def _arn(arn: str) -> tuple[str, str]:
    """Return account and resource of an ARN: `arn:aws:iam::123456789012:role/x` -> `123456789012`, `role/x`."""
    parts = arn.split(":", 5)
    return (parts[4], parts[5]) if len(parts) == 6 and parts[0] == "arn" else ("", "")


def _of_type(identity: Identity, account: str, person_roles: tuple[str, ...]) -> Principal:
    if not _ANONYMOUS_NAMES.isdisjoint((identity["account"], identity["principal_id"])):
        return _anonymous(identity)
    match identity["identity_type"]:
        case "Root":
            return Principal(f"{account}:root", "root")
        case "IAMUser":
            return _user(identity, account)
        case "AssumedRole" | "Role":
            return _role(identity, account, person_roles)
        case "FederatedUser":
            return _federated_user(identity, account, person_roles)
        case "SAMLUser" | "WebIdentityUser":
            return _federated(identity, account)
        case "IdentityCenterUser":
            return _identity_center(identity, account)
        case "AWSAccount":
            return _other_account(identity, account)
        case "AWSService":
            return _service(identity, account)
        case "":
            return _without_type(identity, account, person_roles)
        case other:  # Directory, Unknown, and what AWS will think of next
            return _other(identity, account, other)


def _anonymous(identity: Identity) -> Principal:
    """Return one principal for all callers without credentials of the called account: nothing distinguishes them."""
    account = escape_key(identity["recipient_account"]) or "unknown"
    return Principal(f"{account}:account/{ANONYMOUS}", "account")


def _other_account(identity: Identity, account: str) -> Principal:
    """Return a caller of another account by its unique id; the id of a role stands before the session's name: `AROA…:session`."""
    identifier, _, session = identity["principal_id"].partition(":")
    return Principal(f"{account}:account/{escape_key(identifier or account)}", "account", session=session)


def _user(identity: Identity, account: str) -> Principal:
    """Return an IAM user by the name in the ARN without its path, which is unique in the account, as in `userName`."""
    resource = _arn(identity["arn"])[1]
    from_arn = resource.rsplit("/", 1)[-1] if resource.startswith("user/") else ""
    named = _visible_name(from_arn) or _visible_name(identity["user_name"])
    if named:
        return Principal(f"{account}:user/{escape_key(named)}", "user")
    identifier = identity["principal_id"] or resource
    return Principal(f"{account}:user/?{escape_key(identifier)}", "user")


def _role(identity: Identity, account: str, person_roles: tuple[str, ...]) -> Principal:
    role, session = _role_and_session(identity)
    key = f"{account}:role/{escape_key(role)}" if role else f"{account}:role/?{escape_key(_id(identity))}"
    if session and role and _session_is_fixed(role, identity, person_roles):
        return Principal(f"{key}/{escape_key(session)}", "person", role=key, session=session, human=session)
    return Principal(key, "role", role=key, session=session)


def _role_and_session(identity: Identity) -> tuple[str, str]:
    """Return role name (without path) and session name: from the session issuer, else from the ARN, else from the user name."""
    resource = _arn(identity["arn"])[1]
    kind, _, rest = resource.partition("/")
    of_arn, _, session = rest.partition("/") if kind == "assumed-role" else (rest.rsplit("/", 1)[-1], "", "")
    issuer = _arn(identity["issuer_arn"])[1]
    of_issuer = (
        issuer.rsplit("/", 1)[-1] if issuer.startswith("role/") else _visible_name(identity["issuer_name"])
    )
    role = of_issuer or _visible_name(of_arn) or _visible_name(identity["user_name"])
    return role, session or identity["principal_id"].partition(":")[2]


def _id(identity: Identity) -> str:
    return identity["issuer_id"] or identity["principal_id"].split(":")[0]


def _session_is_fixed(role: str, identity: Identity, person_roles: tuple[str, ...]) -> bool:
    """Return whether the issuer of the session, and not the caller, wrote its name."""
    if ":saml-provider/" in identity["federated_provider"] or _SSO_ROLE_PATH in identity["issuer_arn"]:
        return True
    return any(pattern.search(role) for pattern in _patterns(person_roles))


@lru_cache(maxsize=8)
def _patterns(person_roles: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern) for pattern in person_roles)


def _federated_user(identity: Identity, account: str, person_roles: tuple[str, ...]) -> Principal:
    """Return the caller of GetFederationToken (an IAM user or root), because this caller chose the name of the federated user."""
    shown = _arn(identity["arn"])[1].partition("/")[2] or identity["principal_id"].partition(":")[2]
    issuer = _arn(identity["issuer_arn"])[1]
    if issuer == "root" or identity["issuer_type"] == "Root":
        return Principal(f"{account}:root", "root", session=shown)
    if issuer.startswith("role/") or identity["issuer_type"] == "Role":
        return replace(_role(identity, account, person_roles), session=shown)
    named = (
        issuer.rsplit("/", 1)[-1] if issuer.startswith("user/") else _visible_name(identity["issuer_name"])
    )
    if named:
        return Principal(f"{account}:user/{escape_key(named)}", "user", session=shown)
    return Principal(f"{account}:federated/?", "federated", session=shown)


def _federated(identity: Identity, account: str) -> Principal:
    """Return the subject that a provider names (AssumeRoleWithSAML, AssumeRoleWithWebIdentity), before there is a session."""
    identifier = identity["principal_id"]
    provider = (
        identity["identity_provider"] or identity["federated_provider"] or identifier.rpartition(":")[0]
    )
    subject = _visible_name(identity["user_name"]) or identifier.rpartition(":")[2]
    if identity["identity_type"] == "WebIdentityUser":
        subject = _without_run(subject)
    return Principal(f"{account}:federated/{escape_key(provider)}/{escape_key(subject)}", "federated")


def plain_principal(principal: str) -> str:
    """Return the name of a principal for people: its key without the account.

    - A federated principal: its subject, unescaped, and its provider if there is room.
    - A caller of another account, for which records have only an id: that account.
    - A caller for which records have nothing, such as the holder of a certificate in IAM Roles Anywhere: `without a name`. All
      such callers of an account are one principal. So are callers without credentials, and all visitors of Cognito's identity
      pools in a region.

    `305577164829:federated/arn%3Aaws%3A...%2Foidc.example.com%2Fid%2FA1/repo%3Ao%2Fr` -> `repo:o/r (oidc.example.com)`.
    """
    account, _, name = principal.rpartition(":")
    kind, _, rest = name.partition("/")
    if is_anonymous(principal):
        return "anonymous callers without credentials"
    if kind == "account" and account:
        return f"a caller of account {account}"
    if is_nameless(principal):
        return "a caller without a name"
    provider, _, subject = (printable(unquote(part)) for part in rest.partition("/"))
    if kind != "federated" or not subject:
        return name
    if provider == COGNITO:
        return f"Cognito's identity pools in {subject}"
    if _is_digest(provider):
        return subject
    host = provider.rpartition("-provider/")[2].removeprefix("https://").partition("/")[0]
    whole = f"{subject} ({host})"
    return whole if host and len(whole) <= MAX_PLAIN_LENGTH else subject


def _is_digest(provider: str) -> bool:
    """Return whether the name of a provider is only a digest, as for SAML, which says nothing to people.

    It is base64 and no path, although it may have slashes.
    """
    return provider.endswith("=")


def is_anonymous(principal: str) -> bool:
    """Return whether a principal, by its key, stands for all callers of an account without credentials."""
    return principal.endswith(f":account/{ANONYMOUS}")


def is_nameless(principal: str) -> bool:
    """Return whether a principal, by its key, stands for all callers of an account for which records have no name."""
    kind, _, rest = principal.rpartition(":")[2].partition("/")
    return is_anonymous(principal) or (kind == "unknown" and not rest.partition("/")[2])


def person_and_access(principal: str) -> tuple[str, str]:
    """Return the person in a principal's key, and the role or provider that they use; both are empty for no person.

    `169329065363:role/AWSReservedSSO_Support_a3b4290dfeaa7eba/ann%40example.com` -> `ann@example.com`, `Support`.
    """
    kind, _, rest = principal.rpartition(":")[2].partition("/")
    access, _, person = (printable(unquote(part)) for part in rest.partition("/"))
    if not person or kind not in ("role", "federated") or (kind == "federated" and "@" not in person):
        return "", ""
    if access.startswith(SSO_ROLE):
        return person, permission_set(access) or access
    if _is_digest(access):
        return person, "a SAML provider"
    return person, access.rpartition("-provider/")[2]


def permission_set(role: str) -> str:
    """Return the permission set of a role of Identity Center: `AWSReservedSSO_Admin_0a1b` -> `Admin`."""
    return role.removeprefix(SSO_ROLE).rpartition("_")[0]


def _without_run(subject: str) -> str:
    """Return a subject without the part that changes with each run or visitor; other subjects are unchanged.

    All branches except the main one become one, and so do all tags: `repo:o/r:ref:refs/heads/main` and `repo:o/r:pull_request` ->
    `repo:o/r`, `repo:o/r:ref:refs/heads/fix-1` -> `repo:o/r:ref:refs/heads/*`.
    """
    run = _RUN.fullmatch(subject)
    if not run:
        return subject
    lasting = run[run.lastindex or 0]
    ref = _REF.match(subject, len(lasting))
    if not ref or ref["name"] in _MAIN_BRANCHES:
        return lasting
    return f"{lasting}{ref['branch'] or ref['tag']}*"


def _identity_center(identity: Identity, account: str) -> Principal:
    subject = identity["behalf_user"] or identity["principal_id"] or _visible_name(identity["user_name"])
    return Principal(f"{account}:identitycenter/{escape_key(subject)}", "person")


def _service(identity: Identity, account: str) -> Principal:
    """Return an AWS service, keyed by the account in which it acted, not by its own. `AWS Internal` only says that it was AWS."""
    account = escape_key(identity["recipient_account"]) or account
    source = identity["service"] or "unknown"
    service = identity["invoked_by"] or (
        source if "." in source or source == "unknown" else f"{source}.amazonaws.com"
    )
    return Principal(f"{account}:service/{escape_key(service)}", "service", call_path="service", via=service)


def _without_type(identity: Identity, account: str, person_roles: tuple[str, ...]) -> Principal:
    """Return the principal of older records and service events without a type: by the ARN, `invokedBy`, or the event source."""
    resource = _arn(identity["arn"])[1]
    for prefix, kind in (
        ("user/", "IAMUser"),
        ("assumed-role/", "AssumedRole"),
        ("role/", "Role"),
        ("root", "Root"),
    ):
        if resource.startswith(prefix):
            return _of_type({**identity, "identity_type": kind}, account, person_roles)
    if not identity["invoked_by"] and _visible_name(identity["user_name"]):
        return _user(identity, account)
    return _service(identity, account)


def _other(identity: Identity, account: str, type_: str) -> Principal:
    """Return the principal of another type. Sign-ins to Identity Center have the type Unknown and the account as principal."""
    if identity["behalf_user"]:
        return _identity_center(identity, account)
    identifier = "" if identity["principal_id"] == identity["account"] else identity["principal_id"]
    subject = (
        identifier or _visible_name(identity["user_name"]) or identity["arn"] or identity["principal_id"]
    )
    return Principal(f"{account}:unknown/{escape_key(type_)}/{escape_key(subject)}", "unknown")


def _call_path(identity: Identity, principal: Principal) -> tuple[CallPath, str]:
    """Return the call path, and the service that it goes through, if any.

    The service is AWS itself, a service that calls for a caller, or that of a service-linked role.
    """
    if principal.kind == "service":
        return "service", principal.via
    if identity["invoked_by"]:
        return "service", identity["invoked_by"]
    _, found, rest = identity["issuer_arn"].partition(_SERVICE_ROLE_PATH)
    role = principal.role.rsplit("/", 1)[-1]
    if found:
        return "service", rest.split("/")[0]
    return ("service", "") if role.startswith("AWSServiceRoleFor") else ("direct", "")


def _human(identity: Identity, principal: Principal) -> str:
    """Return the person or machine behind a principal, for the screen: an e-mail, a person's name, an instance, or a user's name.

    The source identity comes first: roles that are assumed later keep it, while each session has a name of its own. A caller who
    assumes the first role may choose either, so neither is in a key. A source identity that names no person is ignored.
    """
    named = _visible_name(identity["user_name"])
    for text in (identity["source_identity"], principal.session, identity["behalf_user"], named):
        if _PERSONAL.match(text) or _INSTANCE.match(text):
            return text
    if principal.kind in ("user", "federated"):
        return named or _arn(identity["arn"])[1].rsplit("/", 1)[-1]
    return identity["behalf_user"]


def _visible_name(text: str) -> str:
    """Return a name, or an empty text if AWS hid it or had none."""
    return "" if text in _HIDDEN_NAMES else text


class _Record(msgspec.Struct):
    recipientAccountId: str = ""


class _SamlRequest(msgspec.Struct):
    principalArn: str = ""


class _SamlSignIn(msgspec.Struct):
    eventName: str = ""
    requestParameters: _SamlRequest | None = None


_RECORD_DECODER = msgspec.json.Decoder(_Record)
_SAML_DECODER = msgspec.json.Decoder(_SamlSignIn)


def record_account(record: str) -> str:
    """Return the account whose trail recorded a call: the record's own field, never one from the caller's parameters."""
    read = decode_record(_RECORD_DECODER, record)
    return read.recipientAccountId if read else ""


def saml_provider(record: str) -> str:
    """Return the ARN of the provider of a SAML sign-in, whose identity has only a digest of it; empty for any other record.

    >>> record = '{"eventName": "AssumeRoleWithSAML", "requestParameters": {"principalArn": "arn:aws:iam::1:saml-provider/A"}}'
    >>> saml_provider(record)
    'arn:aws:iam::1:saml-provider/A'
    """
    read = decode_record(_SAML_DECODER, record)
    request = read.requestParameters if read and read.eventName == "AssumeRoleWithSAML" else None
    return request.principalArn if request else ""


def signed_in_by(record: str) -> str:
    """Return the provider with which a record's caller signed in, by its name for people; empty if the record names none.

    `arn:aws:iam::111122223333:saml-provider/ADFS` -> `saml-provider/ADFS`.
    """
    return printable(saml_provider(record).rpartition(":")[2])
