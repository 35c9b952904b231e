"""The next steps of an alert: contain, verify, find the extent, undo; by kind of credential and by what the calls did.

Example:
    >>> [(step.phase, step.command) for step in next_steps(suspicion)][0]
    ('contain', 'aws iam update-access-key --user-name alice --access-key-id AKIAIOSFODNN7EXAMPLE --status Inactive')

The order is that of an incident: what still works for a thief is cut off first, because asking may take hours. An alert below a
high severity is more often a person at work, whom a cut would stop: there the question comes first, and the cut is for where
no one confirms it. The question goes by another channel than the credential's: the holder of a session may read the mail and chat
behind it too. Then comes what else the credential did, and last what has to be set back, the gravest first.

Commands are for a POSIX shell with the AWS CLI (v2) of a responder's own credential. Words in capitals are to be filled in. Names
come from records, so from attackers: see `playbook_undo.safe_argument`. Source of the steps: AWS, "Responding to a compromised
access key" and "Revoking IAM role temporary security credentials" (IAM user guide); NIST SP 800-61 for the phases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

import msgspec

from fingerprint.core.alert import (
    MINIMUM_URGENCY,
    SESSION_NAMES_CHOSEN,
    ActionImpact,
    AlertEvent,
    NextStep,
    session_names,
)
from fingerprint.sources.base import Suspicion
from fingerprint.sources.cloudtrail.action_verbs import changes_something
from fingerprint.sources.cloudtrail.attack_mappings import without_api_version
from fingerprint.sources.cloudtrail.credential_facts import signed_in_without_mfa
from fingerprint.sources.cloudtrail.identity import (
    SSO_ROLE,
    is_nameless,
    permission_set,
    person_and_access,
    plain_principal,
    saml_provider,
)
from fingerprint.sources.cloudtrail.impact_requests import reads_only
from fingerprint.sources.cloudtrail.playbook_undo import (
    DENY_ALL,
    Call,
    not_shown,
    only_denies,
    safe_argument,
    undo_step,
)

CredentialKind = Literal[
    "access key", "user session", "role session", "single sign-on", "root", "service", "unknown"
]

MAX_KEYS = 10  # access keys, machines and addresses named in commands
MAX_REGIONS = 50  # AWS has fewer
TASK_ID_LENGTH = 32  # hexadecimal digits, of a task of ECS
DEVICE_ID_LENGTH = 64  # hexadecimal digits, of a certificate of AWS IoT
MAX_SERIAL_LENGTH = 40  # hexadecimal digits, of a certificate's serial number
MAX_UNDO_STEPS = 15  # with commands
MAX_NAMED_ACTIONS = 8  # of those without
MAX_RECORDS_READ = 50  # of one action, for what to undo
MAX_RECORD_CHARACTERS = 262_144  # a longer record is not read
BEFORE = timedelta(days=1)  # before the first event, from which everything of a credential is looked up
_COGNITO = "cognito-identity.amazonaws.com"
_SERVICE_DOMAIN = ".amazonaws.com"
_SERVICE_ROLE = "AWSServiceRoleFor"
_HEX_DIGITS = frozenset("0123456789abcdef")
_NOW = "'\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\"'"  # within a text in single quotes
_REVOKE = (
    '\'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"*","Resource":"*","Condition":'
    f'{{"DateLessThan":{{"aws:TokenIssueTime":"{_NOW}"}}}}}}]}}\''
)
_DENY_ROOT = (
    '\'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"*","Resource":"*","Condition":'
    '{"ArnLike":{"aws:PrincipalArn":"arn:*:iam::*:root"}}}]}\''
)
# Where global services (IAM, the global STS) log, by what the regions of a partition begin with; us-east-1 in the others.
_GLOBAL_REGIONS = {"cn-": "cn-north-1", "us-gov-": "us-gov-west-1", "eusc-": "eusc-de-east-1"}
_GLOBAL_REGION = "us-east-1"
_DENY_SESSION = (
    '\'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"*","Resource":"*","Condition":'
    '{"StringLike":{"aws:userid":"*:SESSION_NAME"}}}]}\''
)
_DENY_PERSON = (  # AWS's own condition for one person of Identity Center
    '\'{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"StringEquals":{"identitystore:userId":"USER_ID"}}}\''
)
_OPENS_SESSIONS = (
    "AssumeRole",
    "AssumeRoot",
    "GetSessionToken",
    "GetFederationToken",
)  # what actions begin with
_BY_CERTIFICATE = "rolesanywhere:CreateSession"
_LIST_TRUST = "aws iam list-roles --query 'Roles[].[RoleName,AssumeRolePolicyDocument]' --output json"
_CENTER_SERVICES = ("signin", "sso")  # where a sign-in to Identity Center is logged
_LAKE = (
    "SELECT eventTime, recipientAccountId, eventSource, eventName, errorCode, sourceIPAddress, userIdentity.arn "
    "FROM EVENT_DATA_STORE_ID"
)
_ATHENA = (
    "SELECT eventtime, recipientaccountid, eventsource, eventname, errorcode, sourceipaddress, useridentity.arn "
    "FROM cloudtrail_logs"
)


class _Record(msgspec.Struct):
    userIdentity: Any = None
    additionalEventData: Any = None
    requestParameters: Any = None
    responseElements: Any = None
    awsRegion: Any = ""
    recipientAccountId: Any = ""
    sharedEventID: Any = ""


_DECODER = msgspec.json.Decoder(_Record)


def next_steps(suspicion: Suspicion) -> tuple[NextStep, ...]:
    """Return what to do about an alert, in the order of work."""
    lead, verify = _lead(suspicion), _verify(suspicion)
    contain = tuple(_led_by(lead, step) for step in _contain(suspicion))
    first = (*contain, verify) if _is_urgent(suspicion) else (verify, *contain)
    return (*first, *_extent(suspicion), *_undo(suspicion))


def _is_urgent(suspicion: Suspicion) -> bool:
    """Return whether containing comes before asking."""
    return suspicion.urgency >= MINIMUM_URGENCY["high"]


def _lead(suspicion: Suspicion) -> str:
    """Return where containing is done, and on which condition: names of roles and users repeat across accounts."""
    account = _account(suspicion.principal.partition(":")[0])
    elsewhere = credential_kind(suspicion.principal, _keys(suspicion)) in ("root", "single sign-on")
    foreign = _is_foreign(suspicion)  # where no one here can do anything
    place = f"in account {account}" if account and not elsewhere and not foreign else ""
    condition = "" if _is_urgent(suspicion) else "if no one confirms it"
    return ", ".join(each for each in (place, condition) if each)


def _is_foreign(suspicion: Suspicion) -> bool:
    """Return whether the caller is of another account than the log's, and of none that is known to be one's own."""
    return _type(suspicion.principal) == "account" and not suspicion.knows_account


def _led_by(lead: str, step: NextStep) -> NextStep:
    text = f"{lead[:1].upper()}{lead[1:]}: {step.text[:1].lower()}{step.text[1:]}" if lead else step.text
    return replace(step, text=text)


def _account(text: str) -> str:
    """Return an account's number, empty for a text that is none."""
    return text if len(text) == 12 and text.isascii() and text.isdigit() else ""


def _action(event: AlertEvent) -> str:
    """Return `service:Action` of an event."""
    return f"{event.service}:{event.action}"


# --- who ----------------------------------------------------------------------------------------------------------------


def credential_kind(principal: str, keys: Sequence[str]) -> CredentialKind:
    """Return the kind of credential behind an alert, by its principal's key and its access keys."""
    name = _name(principal)
    match _type(principal):
        case "root":
            return "root"
        case "user":
            return "access key" if any(key.startswith("AKIA") for key in keys) else "user session"
        case "role" if name.startswith(SSO_ROLE):
            return "single sign-on"
        case "role" if name.startswith(_SERVICE_ROLE):
            return "service"
        case "role":
            return "role session"
        case "identitycenter":
            return "single sign-on"
        case "service":
            return "service"
    return "unknown"


def _type(principal: str) -> str:
    return principal.partition(":")[2].partition("/")[0]


def _name(principal: str) -> str:
    """Return the name of the user or role in a principal's key, empty where AWS did not say it."""
    name = unquote(principal.partition(":")[2].partition("/")[2].partition("/")[0])
    return "" if name.startswith("?") else name


def _center_user(suspicion: Suspicion) -> str:
    """Return the id of a user of Identity Center, by which records name them; empty for any other principal."""
    return _name(suspicion.principal) if _type(suspicion.principal) == "identitycenter" else ""


def _signed_in_as(suspicion: Suspicion) -> str:
    """Return the name that a user of Identity Center signed in with, where a record of the alert has it: others have the id."""
    read = (_read_record(event).additionalEventData for event in suspicion.events[:MAX_RECORDS_READ])
    names = (each.get("UserName") for each in read if isinstance(each, dict))
    return next((each for each in names if isinstance(each, str) and "@" in each), "")


def _session_of_person(principal: str) -> str:
    """Return the session in the key of a person at a role, empty for a role alone."""
    return unquote(principal.partition(":")[2].partition("/")[2].partition("/")[2])


def _keys(suspicion: Suspicion) -> list[str]:
    """Return the access keys of an alert, the most used first."""
    counts: dict[str, int] = {}
    for event in suspicion.events:
        if event.access_key:
            counts[event.access_key] = counts.get(event.access_key, 0) + 1
    return sorted(counts, key=lambda key: (-counts[key], key))


def _safe_keys(suspicion: Suspicion) -> list[str]:
    """Return the access keys that commands have."""
    return [each for each in map(safe_argument, _keys(suspicion)) if each][:MAX_KEYS]


def _or_word(value: str, word: str) -> str:
    return safe_argument(value) or word


# --- contain ------------------------------------------------------------------------------------------------------------


def _contain(suspicion: Suspicion) -> Iterator[NextStep]:
    keys, name = _keys(suspicion), _name(suspicion.principal)
    match credential_kind(suspicion.principal, keys):
        case "access key":
            yield _contain_access_key(keys, _or_word(name, "USER_NAME"))
        case "user session":
            yield _contain_user_session(_or_word(name, "USER_NAME"))
        case "role session":
            yield from _contain_role(suspicion, _or_word(name, "ROLE_NAME"))
        case "single sign-on":
            yield from _contain_single_sign_on(suspicion, name)
        case "root":
            yield from _contain_root(suspicion)
        case "service":
            yield _contain_service(suspicion)
        case "unknown" if _type(suspicion.principal) == "account":
            yield _contain_other_account(suspicion)
        case "unknown" if by_certificate := _by_certificate(suspicion):
            yield by_certificate
        case "unknown" if (pod := _service_account(suspicion.principal)) is not None:
            yield from _contain_service_account(suspicion, *pod)
        case "unknown":
            yield _contain_at_provider(suspicion)


def _contain_at_provider(suspicion: Suspicion) -> NextStep:
    """Return how to keep out an identity from elsewhere; a provider of SAML may itself be a thief's, or its key be stolen."""
    named = dict.fromkeys(safe_argument(saml_provider(each.raw)) for each in _first_records(suspicion))
    providers = [each for each in named if each][:MAX_KEYS]
    text = "Block the identity at its provider, and deny it in the trust policy of every role that it may assume."
    if providers:
        text += (
            " Look at the provider: where it is not the organisation's own, or the key that it signs with may be stolen, "
            "delete it. No one signs in by it then."
        )
    look = [f"aws iam get-saml-provider --saml-provider-arn {each}" for each in providers]
    delete = ["aws iam delete-saml-provider --saml-provider-arn PROVIDER_ARN"] if providers else []
    return NextStep("contain", text, "\n".join([_LIST_TRUST, *look, *delete]))


def _first_records(suspicion: Suspicion) -> Sequence[AlertEvent]:
    return suspicion.events[:MAX_RECORDS_READ]


def _service_account(principal: str) -> tuple[str, str] | None:
    """Return namespace and name of the Kubernetes service account that a federated principal is, None for any other one.

    >>> _service_account("123456789012:federated/oidc.example.com/system%3Aserviceaccount%3Aexports%3Aworker")
    ('exports', 'worker')
    """
    subject = unquote(principal.rpartition("/")[2]) if _type(principal) == "federated" else ""
    parts = subject.split(":")
    return (parts[2], parts[3]) if parts[:2] == ["system", "serviceaccount"] and len(parts) == 4 else None


def _contain_service_account(suspicion: Suspicion, namespace: str, name: str) -> Iterator[NextStep]:
    """Shut out a token of a pod, which STS takes until it expires whatever the cluster does, then find who took it there."""
    roles = dict.fromkeys(
        safe_argument(event.resource.removeprefix("role:"))
        for event in suspicion.events
        if event.resource.startswith("role:")
    )
    named = [each for each in roles if each][:MAX_KEYS] or ["ROLE_NAME"]
    yield NextStep(
        "contain",
        "The caller has the token of a Kubernetes service account. STS takes it until it expires, a day by default, also where "
        "pod and account are gone: take the account's subject out of the trust policy of the role, and revoke the role's "
        "sessions." + not_shown(len(roles) - len(named), "role"),
        "\n".join(
            f"aws iam get-role --role-name {each} --query Role.AssumeRolePolicyDocument\n"
            f"aws iam put-role-policy --role-name {each} --policy-name AWSRevokeOlderSessions --policy-document {_REVOKE}"
            for each in named
        ),
    )
    yield NextStep(
        "contain",
        "Find the pods that run as the service account, keep what you need of them, and stop them. The cluster's audit log has "
        "who else read a token of it: creations of serviceaccounts/token and of pods/exec.",
        f"kubectl get pods --namespace {_or_word(namespace, 'NAMESPACE')} --output wide "
        f"--field-selector spec.serviceAccountName={_or_word(name, 'SERVICE_ACCOUNT')}",
    )


def _contain_other_account(suspicion: Suspicion) -> NextStep:
    """Find the caller's own record, which names role, session and access key, in an account of one's own; else shut it out."""
    account = _or_word(suspicion.principal.partition(":")[0], "ACCOUNT_ID")
    find = "find the caller's own record in its log, by the same sharedEventID, and contain the principal that it names"
    if suspicion.knows_account:
        return NextStep(
            "contain",
            f"The caller's account is one of the organisation's own: {find}.",
            _find_shared(suspicion),
        )
    return NextStep(
        "contain",
        f"Deny account {account} in the trust policy of every role that it may assume, and tell its owner. Where the account is "
        f"one of the organisation's own, {find}.",
        _LIST_TRUST,
    )


def _find_shared(suspicion: Suspicion) -> str:
    """Return the command that lists, with a credential of the caller's account, its own records of the alert's calls."""
    asked = suspicion.lead or suspicion.events[0]
    events = (asked, *suspicion.events[:MAX_RECORDS_READ])
    shared = dict.fromkeys(safe_argument(_read_record(each).sharedEventID) for each in events)
    ids = [each for each in shared if each][:MAX_KEYS]
    has = " || ".join(f"contains(CloudTrailEvent,'{each}')" for each in ids or ["SHARED_EVENT_ID"])
    return (
        f"for region in {' '.join(_regions(suspicion))}; do\n"
        f'  aws cloudtrail lookup-events --region "$region" --start-time {_since(suspicion)} --lookup-attributes '
        f"AttributeKey=EventName,AttributeValue={_or_word(asked.action, 'EVENT_NAME')} "
        f'--query "Events[?{has}].CloudTrailEvent"\n'
        "done"
    )


def _contain_access_key(keys: Sequence[str], user: str) -> NextStep:
    lasting = [key for key in keys if key.startswith("AKIA")]
    deactivate = [
        f"aws iam update-access-key --user-name {user} --access-key-id {_or_word(key, 'ACCESS_KEY_ID')} --status Inactive"
        for key in lasting[:MAX_KEYS]
    ]
    return NextStep(
        "contain",
        "Deactivate the access key, and deny the user everything: sessions that the key has made live on."
        + not_shown(len(lasting) - MAX_KEYS, "access key"),
        "\n".join([*deactivate, _deny_user(user)]),
    )


def _contain_user_session(user: str) -> NextStep:
    return NextStep(
        "contain",
        "Deny the user everything, which ends its sessions, and take its console password away.",
        f"{_deny_user(user)}\naws iam delete-login-profile --user-name {user}",
    )


def _contain_root(suspicion: Suspicion) -> Iterator[NextStep]:
    """Contain who opened root sessions by sts:AssumeRoot, or the root user itself, or both where the records do not say."""
    assumed = {_is_assumed_root(event) for event in suspicion.events[:MAX_RECORDS_READ]}
    if assumed != {False}:
        find = "Find" if True in assumed else "Where the records say sessionContext.assumedRoot, find"
        yield NextStep(
            "contain",
            f"{find} who called sts:AssumeRoot in the organisation's management account or in the one that administers IAM for "
            "it, by the session's access key, and contain that principal: there is no password or key of root's to change. The "
            "call is logged where it was made: add its region. The session ends by itself, after 15 minutes at most.",
            _find_opened(suspicion, ("AssumeRoot",)),
        )
    if assumed != {True}:
        yield NextStep(
            "contain",
            "Change the root user's password and second factor, delete its access keys, and deny it everything from the "
            "organisation's management account. The policy does not bind the management account's own root user.",
            "aws organizations create-policy --type SERVICE_CONTROL_POLICY --name incident-deny-root --description incident "
            f"--content {_DENY_ROOT}\n"
            "aws organizations attach-policy --policy-id POLICY_ID --target-id "
            f"{_or_word(suspicion.principal.partition(':')[0], 'ACCOUNT_ID')}",
        )


def _is_assumed_root(event: AlertEvent) -> bool | None:
    """Return whether root's session was opened by sts:AssumeRoot, as the record says; None without a record."""
    if not isinstance(_read_record(event).userIdentity, dict):
        return None
    return _session_context(event).get("assumedRoot") in ("true", True)


def _contain_service(suspicion: Suspicion) -> NextStep:
    names = _usernames(suspicion)
    found = [f"AttributeKey=Username,AttributeValue={each}" for each in names[:MAX_KEYS]]
    found.append("AttributeKey=ResourceName,AttributeValue=RESOURCE_NAME")
    return NextStep(
        "contain",
        "A service acted by itself or by its own role: there is no key to cut. Find the resource that told it to, and contain "
        "the principal that changed that resource last." + not_shown(len(names) - MAX_KEYS, "session"),
        "\n".join(
            f"aws cloudtrail lookup-events --region {_regions(suspicion)[0]} --lookup-attributes {each}"
            for each in found
        ),
    )


def _deny_user(user: str) -> str:
    return f"aws iam put-user-policy --user-name {user} --policy-name incident-deny-all --policy-document {DENY_ALL}"


def _contain_role(suspicion: Suspicion, role: str) -> Iterator[NextStep]:
    """Find who opens the role's sessions, then revoke these; of a machine's or task's role also isolate or stop that."""
    session = _session_of_person(suspicion.principal)
    if session:
        yield _deny_session(role, _or_word(session, "SESSION_NAME"))
        return
    machines = dict.fromkeys(event.session for event in suspicion.events if event.session.startswith("i-"))
    service = _calling_service(suspicion)
    if service:
        yield _who_told(suspicion, service)
        yield _revoke(
            role, "That stops what the service still does with it, and fails what others have it do."
        )
        return
    pools = _identity_pools(suspicion)
    if pools:
        yield _cut_pools(pools)
        yield _revoke(role, "Visitors get new ones as long as the pool gives them.")
        return
    named = _one_of_each_session(suspicion)
    tasks = [event.session for event in named if _is_task(event)]
    certificates = [event for event in named if _is_certificate(event)]
    if any(event.session not in machines for event in suspicion.events):
        yield _who_assumed(suspicion, bool(certificates))
    if certificates:
        yield _cut_certificates(role)
    devices = [each.session for each in named if _is_device(each)]
    if devices:
        yield _cut_devices(devices)
    yield _revoke(
        role,
        "Who can still assume the role gets a new one. Machines and functions that use it keep credentials that are refused "
        "until these expire, for up to six hours: replace their instance profile, or stop and start them.",
    )
    safe = [each for each in map(safe_argument, machines) if each][:MAX_KEYS]
    if safe:
        yield NextStep(
            "contain",
            "The role is a machine's: isolate it, else the thief takes its next credentials. Keep it running for its memory. "
            "INSTANCE_REGION is where it runs, which need not be where the calls went."
            + not_shown(len(machines) - len(safe), "machine"),
            "\n".join(
                f"aws ec2 modify-instance-attribute --region INSTANCE_REGION --instance-id {each} "
                "--groups SECURITY_GROUP_WITHOUT_RULES"
                for each in safe
            ),
        )

    if tasks:
        yield _stop_tasks(tasks)


def _revoke(role: str, after: str) -> NextStep:
    return NextStep(
        "contain",
        f"Revoke the role's sessions up to now. {after}",
        f"aws iam put-role-policy --role-name {role} --policy-name AWSRevokeOlderSessions --policy-document {_REVOKE}",
    )


class _Pool(NamedTuple):
    """An identity pool of Cognito that gave sessions, whether to anyone who asked, and to which identities."""

    pool: str
    open_to_all: bool
    identities: Sequence[str]


def _calling_service(suspicion: Suspicion) -> str:
    """Return the AWS service that made all calls of a role that no person holds, as CloudFormation does; empty for none."""
    sources = {event.source_address for event in suspicion.events}
    service = min(sources, default="")
    alone = len(sources) == 1 and service.endswith(_SERVICE_DOMAIN)
    role = credential_kind(suspicion.principal, ()) == "role session"
    return service if alone and role and not _session_of_person(suspicion.principal) else ""


def _who_told(suspicion: Suspicion, service: str) -> NextStep:
    return NextStep(
        "contain",
        f"{service[:100]} made the calls with the role because someone told it to: find who did, and contain that principal. "
        "The call may be logged in another account or region, as that of a stack set.",
        f"for region in {' '.join(_regions(suspicion))}; do\n"
        f'  aws cloudtrail lookup-events --region "$region" --start-time {_since(suspicion)} --lookup-attributes '
        f"AttributeKey=EventSource,AttributeValue={_or_word(service, 'SERVICE_NAME')}\n"
        "done",
    )


def _identity_pools(suspicion: Suspicion) -> list[_Pool]:
    """Return the identity pools of Cognito by which the sessions of an alert came; empty where any came by another way."""
    found: dict[tuple[str, bool], dict[str, None]] = {}
    for event in _first_records(suspicion):
        federation = _session_context(event).get("webIdFederationData")
        if not isinstance(federation, dict) or federation.get("federatedProvider") != _COGNITO:
            return []
        said = federation.get("attributes")
        said = said if isinstance(said, dict) else {}
        pool, identity = (safe_argument(said.get(f"{_COGNITO}:{name}")) for name in ("aud", "sub"))
        to_all = "unauthenticated" in str(said.get(f"{_COGNITO}:amr"))
        found.setdefault((pool, to_all), {})[identity] = None
    return [_Pool(*of, [each for each in named if each]) for of, named in found.items()]


def _cut_pools(pools: Sequence[_Pool]) -> NextStep:
    """Return how to keep an identity pool from giving sessions: to the identities that had them, or to anyone."""
    to_all = any(each.open_to_all for each in pools)
    commands = []
    for each in pools[:MAX_KEYS]:
        pool = f"--region {each.pool.partition(':')[0] or 'POOL_REGION'} --identity-pool-id {each.pool or 'POOL_ID'}"
        commands += [
            f"aws cognito-identity describe-identity-pool {pool}",
            f"aws cognito-identity delete-identities {pool.partition(' --identity-pool-id')[0]} "
            f"--identity-ids-to-delete {' '.join(each.identities[:MAX_KEYS]) or 'IDENTITY_ID'}",
        ]
        if each.open_to_all:
            commands.append(
                f"aws cognito-identity update-identity-pool {pool} --identity-pool-name POOL_NAME "
                "--no-allow-unauthenticated-identities"
            )
    anyone = (
        " It gives them to anyone who asks: where that is not meant, let it give none without a sign-in. The update sets all "
        "settings of the pool: give it those that are shown first."
    )
    return NextStep(
        "contain",
        "An identity pool of Cognito opened the sessions: delete the identities that it gave them to, and take from its role "
        f"what visitors do not need.{anyone if to_all else ' Block the person at the pool of users or provider behind it.'}",
        "\n".join(commands),
    )


def _one_of_each_session(suspicion: Suspicion) -> list[AlertEvent]:
    """Return the first event of each session name."""
    return list({event.session: event for event in reversed(suspicion.events)}.values())[::-1]


def _is_task(event: AlertEvent) -> bool:
    """Return whether a session has the name that ECS gives those of a task, which anyone else may choose as well."""
    name = event.session
    return len(name) == TASK_ID_LENGTH and set(name) <= _HEX_DIGITS and not _has_source_identity(event)


def _is_certificate(event: AlertEvent) -> bool:
    """Return whether a session is named as Roles Anywhere does: the serial number; its source identity is the subject."""
    name = event.session
    is_number = 0 < len(name) <= MAX_SERIAL_LENGTH and set(name.lower()) <= _HEX_DIGITS
    return is_number and _has_source_identity(event)


def _is_device(event: AlertEvent) -> bool:
    """Return whether a session is named as the credential provider of AWS IoT does: the id of a device's certificate."""
    return len(event.session) == DEVICE_ID_LENGTH and set(event.session) <= _HEX_DIGITS


def _cut_devices(certificates: Sequence[str]) -> NextStep:
    return NextStep(
        "contain",
        "The session is named as one that AWS IoT opens for a device's certificate: if so, switch that off, else the thief "
        "takes its next credentials. The device has none then. DEVICE_REGION is where it is registered."
        + not_shown(len(certificates) - MAX_KEYS, "certificate"),
        "\n".join(
            f"aws iot update-certificate --region DEVICE_REGION --certificate-id {each} --new-status INACTIVE"
            for each in certificates[:MAX_KEYS]
        ),
    )


def _has_source_identity(event: AlertEvent) -> bool:
    return bool(_session_context(event).get("sourceIdentity"))


def _by_certificate(suspicion: Suspicion) -> NextStep | None:
    """Return how to shut out the holder of a certificate that opens sessions by Roles Anywhere; None for another caller."""
    asked = suspicion.lead or suspicion.events[0]
    if _action(asked) != _BY_CERTIFICATE:
        return None
    request = _call_of(asked).request
    role, profile, anchor = (
        safe_argument(request.get(name)) for name in ("roleArn", "profileArn", "trustAnchorArn")
    )
    ids = profile.rpartition("/")[2], anchor
    return _cut_certificates(role.rpartition("/")[2] or "ROLE_NAME", safe_argument(asked.region), *ids)


def _cut_certificates(role: str, region: str = "", profile: str = "", anchor: str = "") -> NextStep:
    """Return how to keep a certificate of Roles Anywhere from opening sessions; ids where a record has them.

    `region` is that of the profile where a record of its own service says so: of a session's calls only the name is known.
    """
    where = f"--region {region or 'ANCHOR_REGION'}"
    how = (
        "The caller opens sessions by IAM Roles Anywhere"
        if region
        else "The session is named as one that IAM Roles Anywhere opens"
    )
    return NextStep(
        "contain",
        f"{how} for a certificate: revoke that at its authority, and import the list of revoked ones. Where it is not known "
        "which key was stolen, disable the profile that gives the role, or the trust anchor: that shuts out all certificates of "
        "the authority.",
        f"aws rolesanywhere list-profiles {where} --query \"profiles[?contains(to_string(roleArns),'{role}')]\"\n"
        f"aws rolesanywhere import-crl {where} --name incident --enabled --crl-data fileb://REVOKED.pem "
        f"--trust-anchor-arn {anchor or 'TRUST_ANCHOR_ARN'}\n"
        f"aws rolesanywhere disable-profile {where} --profile-id {profile or 'PROFILE_ID'}\n"
        f"aws rolesanywhere disable-trust-anchor {where} "
        f"--trust-anchor-id {anchor.rpartition('/')[2] or 'TRUST_ANCHOR_ID'}",
    )


def _stop_tasks(tasks: Collection[str]) -> NextStep:
    shown = [each for each in map(safe_argument, tasks) if each][:MAX_KEYS]
    return NextStep(
        "contain",
        "The session is named as a container's task of ECS: if there is one, stop it, else the thief takes its next credentials. "
        "Save what you need of it first, for it is lost. A service starts another one: close the way in, or let it want none. "
        "TASK_REGION is where it runs, which need not be where the calls went."
        + not_shown(len(tasks) - len(shown), "task"),
        "\n".join(
            f"aws ecs stop-task --region TASK_REGION --cluster CLUSTER_NAME --task {each} --reason incident"
            for each in shown
        ),
    )


def _deny_session(role: str, session: str) -> NextStep:
    """Return how to deny one person's sessions at a role that others use too; the identity provider fixes their name."""
    policy = _DENY_SESSION.replace("SESSION_NAME", session)
    return NextStep(
        "contain",
        "Disable the person at the identity provider, else they can sign in again elsewhere, and deny the person's sessions at "
        "the role. Other sessions of the role go on.",
        f"aws iam put-role-policy --role-name {role} --policy-name incident-deny-session --policy-document {policy}",
    )


def _who_assumed(suspicion: Suspicion, by_certificate: bool) -> NextStep:
    openers = ("AssumeRole", "AssumeRoleWithSAML", "AssumeRoleWithWebIdentity")
    return NextStep(
        "contain",
        "First cut who opens the role's sessions, or the revoked role gives them a new one: find who assumed it, by the "
        "session's access key. Where that was a provider of SAML or web identity, block the person or the workload there.",
        _find_opened(suspicion, (*openers, "CreateSession") if by_certificate else openers),
    )


def _contain_single_sign_on(suspicion: Suspicion, name: str) -> Iterator[NextStep]:
    """End the person's sessions where they begin; the role's own policies cannot be changed but by Identity Center.

    `name` is that of the role or the person's id. Putting overwrites, so the command reads a file that the analyst merges: pasted
    as it is, it fails instead of taking a policy away in every account.
    """
    granted = permission_set(name) if name.startswith(SSO_ROLE) else ""
    of_set = f"of {granted}" if safe_argument(granted) else "of each permission set that was used"
    instance = "--instance-arn INSTANCE_ARN --permission-set-arn PERMISSION_SET_ARN"
    person = safe_argument(_center_user(suspicion))
    deny = _DENY_PERSON.replace("USER_ID", person or "USER_ID")
    yield NextStep(
        "contain",
        "Disable the person in the identity provider and end their sessions in IAM Identity Center (Users, Active sessions). "
        "Sessions of roles live on for up to twelve hours: add a statement that denies this person to the inline policy "
        f"{of_set}. There is one policy, and putting keeps no earlier one: merge DENY.json into the statements of BEFORE.json "
        "(empty: there is none) as MERGED.json. Run it in Identity Center's home region and in the account that administers it.",
        f"{_find_person(suspicion.human, person)}\n"
        f"aws sso-admin get-inline-policy-for-permission-set {instance} --query InlinePolicy --output text > BEFORE.json\n"
        f"echo {deny} > DENY.json\n"
        f"aws sso-admin put-inline-policy-to-permission-set {instance} --inline-policy file://MERGED.json\n"
        f"aws sso-admin provision-permission-set {instance} --target-type ALL_PROVISIONED_ACCOUNTS",
    )


def _find_person(human: str, user_id: str) -> str:
    """Return the command that shows a person of Identity Center: by the id where it is known, else by the name."""
    if user_id:
        return f"aws identitystore describe-user --identity-store-id IDENTITY_STORE_ID --user-id {user_id}"
    named = f"AttributePath=UserName,AttributeValue={_or_word(human, 'USER_NAME')}"
    return f"aws identitystore list-users --identity-store-id IDENTITY_STORE_ID --filters {named}"


# --- verify -------------------------------------------------------------------------------------------------------------


def _verify(suspicion: Suspicion) -> NextStep:
    """Return the question to ask, and by which channel: never by one that the suspect session could answer."""
    asked = _gravest_new(suspicion)
    event = _event_of(suspicion, asked[0].action) if asked else suspicion.lead or suspicion.events[0]
    when = f"at {event.event_time.astimezone(UTC):%H:%M} UTC on {event.event_time.astimezone(UTC):%d %B}"
    # What else is asked about names its own region.
    region = suspicion.new_regions.get(event.event_id, "") if asked else ""
    where = f" in {region[:40]} (new region)" if region else ""
    what = _named(asked, event, suspicion.cut) + where or suspicion.questioned[:400] or "this"
    name, kind, human = _name(suspicion.principal), _type(suspicion.principal), _person(suspicion, event)
    foreign = _is_foreign(suspicion)  # a caller from there may call the session anything
    by_itself = credential_kind(suspicion.principal, ()) == "service"
    if "@" in human and not foreign:
        who = f"Ask {human[:100]} by telephone or in person, not by mail or chat that the same login opens,"
    elif _center_user(suspicion):
        who = f"Ask the person who is user {name[:100]} of IAM Identity Center, by telephone or in person,"
    elif service := _calling_service(suspicion):
        who = f"{service[:100]} acted with role {name[:100]}: ask who told it to, by telephone or in person,"
    elif is_nameless(suspicion.principal):
        who = f"The log does not name the caller: ask {_owner_of_addresses(suspicion)}, by telephone or in person,"
    elif by_itself:
        who = f"No person is behind {name[:100]}: ask who set it up or changed last what it acts for, by telephone or in person,"
    else:
        who = f"Ask the owner of {_owned(suspicion.principal)[:200]}, by telephone or in person,"
    command = {
        "user": f"aws iam list-user-tags --user-name {_or_word(name, 'USER_NAME')}",
        "role": f"aws iam list-role-tags --role-name {_or_word(name, 'ROLE_NAME')}",
        "identitycenter": _find_person("", _or_word(name, "USER_ID")),
    }.get("" if by_itself else kind, "")
    stolen = _is_urgent(suspicion) and not by_itself  # a service has nothing to steal
    until = " Until they confirm it, treat it as stolen." if stolen else ""
    sessions = "" if human and not foreign else session_names(suspicion.events)
    chosen = f" Session names ({SESSION_NAMES_CHOSEN}): {sessions}." if sessions else ""
    return NextStep(
        "verify", f"{who} about {what} {when}.{chosen}{_own_record(suspicion)}{until}{_why_new(suspicion)}",
        "" if "@" in human else command,
    )  # fmt: skip


def _owner_of_addresses(suspicion: Suspicion) -> str:
    """Return who can be asked about callers without a name: the owner of what calls from there."""
    account, sources = _account(suspicion.principal.partition(":")[0]), _safe_sources(suspicion)
    what = f"what calls from {', '.join(sources)}" if sources else "what makes such calls"
    return f"who owns {what}" + (f" in account {account}" if account else "")


def _own_record(suspicion: Suspicion) -> str:
    """Return where to read who it was, of a caller from another account of one's own."""
    if _type(suspicion.principal) != "account" or not suspicion.knows_account:
        return ""
    shared = safe_argument(_read_record(suspicion.lead or suspicion.events[0]).sharedEventID)
    same = f"sharedEventID {shared}" if shared else "the same sharedEventID"
    return (
        f" That account is one of the organisation's own: the record with {same} in its log names the caller."
    )


def _why_new(suspicion: Suspicion) -> str:
    """Return what to ask about a newcomer: who made it, of a person who gave them the access. Root and AWS are not made."""
    if not suspicion.first_seen or credential_kind(suspicion.principal, ()) in ("root", "service"):
        return ""
    judged = f"judged by what others do ({suspicion.first_seen})"
    if person_and_access(suspicion.principal)[0]:
        return f" They are {judged}: ask who gave them this access, and what for."
    return f" It is {judged}: ask who made it or uses it again, and what for."


def _owned(principal: str) -> str:
    """Return a principal by its key, of a federated one by its subject and account, of one of another account by that account."""
    account = principal.partition(":")[0]
    match _type(principal):
        case "federated":
            return f"{plain_principal(principal)} in account {account}"
        case "account":
            return f"account {account} (its caller {_name(principal)})"
    return principal


def _gravest_new(suspicion: Suspicion) -> list[ActionImpact]:
    """Return the alert's own actions that were new and are more than minor, the gravest first, but what only failed last.

    Without one the minor ones, led by the action that leads the title; none where that is a read: the question is about it.
    """
    new = [row for row in suspicion.actions if (row.new or row.new_place) and not row.supporting]
    new.sort(key=lambda row: not row.succeeded)
    graver = [row for row in new if row.gravity != "minor"]
    if graver or not suspicion.lead:
        return graver or new
    lead = _action(suspicion.lead)
    leading = [row for row in new if row.action == lead]
    return [*leading, *(row for row in new if row.action != lead)] if leading else []


def _named(graver: Sequence[ActionImpact], event: AlertEvent, cut: bool) -> str:
    """Return the first of some actions as the subject of a question, and how many others there are; empty for none.

    `event` is the call of it that is asked about. `cut`: there are other actions that are not among them.
    """
    if not graver:
        return ""
    first = graver[0]
    same = (f"{event.resource} in ", f"{event.resource} for ")
    own = (each for each in first.resources if each == event.resource or each.startswith(same))
    touched = next(own, event.resource) if _action(event) == first.action else "".join(first.resources[:1])
    on = f" on {touched[:200]}" if touched else ""
    others = len(graver) - 1
    counted = f" and {others:,} other{'s' * (others > 1)}" if others else ""
    more = " and others" if cut else counted
    mfa = " without MFA" if _action(event) == first.action and signed_in_without_mfa(event.raw) else ""
    return f"{without_api_version(first.action)[:200]}{on}{mfa}{more}"


def _event_of(suspicion: Suspicion, action: str) -> AlertEvent:
    """Return the call of an action to ask about: the one that leads, else the first that succeeded, else the first at all."""
    called = [each for each in suspicion.events if _action(each) == action]
    if suspicion.lead in called:
        return suspicion.lead
    return min(called, key=lambda each: bool(each.error_code), default=suspicion.events[0])


def _person(suspicion: Suspicion, event: AlertEvent) -> str:
    """Return the person behind an event: one of several at a role by the session, a user of Identity Center by a sign-in."""
    if _center_user(suspicion):
        return _signed_in_as(suspicion) or suspicion.human
    at_role = _type(suspicion.principal) == "role" and event is not suspicion.lead
    return event.session if at_role and "@" in suspicion.human and "@" in event.session else suspicion.human


# --- extent -------------------------------------------------------------------------------------------------------------


def _is_service(suspicion: Suspicion) -> bool:
    """Return whether AWS itself acted, without a credential that could be stolen."""
    return _type(suspicion.principal) == "service"


def _extent_by_calls(suspicion: Suspicion, who: str, having: Sequence[str]) -> NextStep:
    """Return how to list what a caller without a credential did: its calls' records, `having` any of some texts."""
    calls = dict.fromkeys(safe_argument(each.action) for each in suspicion.events)
    names = [each for each in calls if each][:MAX_KEYS]
    return NextStep(
        "extent",
        f"There is no credential to follow. List {who}. Add the other regions that are in use."
        + not_shown(len(calls) - len(names), "call"),
        f"for region in {' '.join(_regions(suspicion))}; do\n"
        f"  for name in {' '.join(names) or 'EVENT_NAME'}; do\n"
        f'    aws cloudtrail lookup-events --region "$region" --start-time {_since(suspicion)} --lookup-attributes '
        f'AttributeKey=EventName,AttributeValue="$name" {_having(having)}\n'
        "  done\n"
        "done",
    )


def _extent_of_credential(suspicion: Suspicion, keys: Sequence[str], more: str) -> NextStep:
    """Return how to list what a credential did, by its access keys or, without any, by what CloudTrail calls its user."""
    names = [] if keys else _usernames(suspicion)
    regions = _regions(suspicion)
    attribute = (
        [f"AttributeKey=AccessKeyId,AttributeValue={key}" for key in keys]
        or [f"AttributeKey=Username,AttributeValue={each}" for each in names[:MAX_KEYS] or ["USER_NAME"]]
    )  # fmt: skip
    return NextStep(
        "extent",
        "List everything that the credential did since a day before, in the alert's regions and where global services log "
        f"({_global_region(regions)}). Add the other regions that are in use: each has a history of its own."
        f"{more}{not_shown(len(names) - MAX_KEYS, 'session')}",
        f"for region in {' '.join(regions)}; do\n"
        + "".join(
            f'  aws cloudtrail lookup-events --region "$region" --start-time {_since(suspicion)} --lookup-attributes {each}\n'
            for each in attribute
        )
        + "done",
    )


def _extent(suspicion: Suspicion) -> Iterator[NextStep]:
    if _is_service(suspicion):
        who = "the service's calls of these actions since a day before, and look who changed what it acts for"
        yield _extent_by_calls(suspicion, who, [_or_word(_name(suspicion.principal), "SERVICE_NAME")])
        return
    if _center_user(suspicion):
        yield from _extent_of_center_user(suspicion)
        return
    since = _since(suspicion)
    keys = _safe_keys(suspicion)
    more = not_shown(len(_keys(suspicion)) - len(keys), "access key")
    if is_nameless(suspicion.principal) and not keys:
        who = "who made these calls from the alert's addresses since a day before"
        yield _extent_by_calls(suspicion, who, _safe_sources(suspicion))
    else:
        yield _extent_of_credential(suspicion, keys, more)
    lake = f"{_LAKE} WHERE eventTime > '{since[:10]} {since[11:19]}' AND ({_where('userIdentity.accessKeyId', keys, suspicion)})"
    athena = (
        f"{_ATHENA} WHERE eventtime > '{since}' AND ({_where('useridentity.accesskeyid', keys, suspicion)})"
    )
    yield NextStep(
        "extent",
        "Search data events and other accounts too, in CloudTrail Lake or by Athena, for the credential and for its addresses."
        + more
        + not_shown(len(_sources(suspicion)) - len(_safe_sources(suspicion)), "address"),
        f'aws cloudtrail start-query --query-statement "{lake} ORDER BY eventTime"\n'
        f'aws athena start-query-execution --work-group primary --query-string "{athena} ORDER BY eventtime"',
    )
    opened = [
        row.action.partition(":")[2]
        for row in suspicion.actions
        if row.succeeded and _opens_sessions(row.action) and safe_argument(row.action)
    ]
    if opened:
        openers = [event for event in suspicion.supporting if _opens_sessions(_action(event))]
        yield NextStep(
            "extent",
            "Follow the sessions that it opened: each has a key of its own (responseElements.credentials), and did things under "
            "another name." + more,
            _find_opened(
                suspicion._replace(events=(*suspicion.events, *openers)), opened, _safe_sources(suspicion)
            ),
        )


def _extent_of_center_user(suspicion: Suspicion) -> Iterator[NextStep]:
    """Yield how to find what a user of Identity Center did, and what their sessions at roles did: both have the user's id."""
    since, user = _since(suspicion), _or_word(_center_user(suspicion), "USER_ID")
    services = dict.fromkeys(
        (*_CENTER_SERVICES, *(safe_argument(event.service) for event in suspicion.events))
    )
    sources = " ".join(f"{each}.amazonaws.com" for each in services if each)
    yield NextStep(
        "extent",
        "List how the person signed in, and which roles they took, since a day before. The history of events knows no user's id, "
        "so each event of these services is looked through. Add the other regions that are in use.",
        f"for region in {' '.join(_regions(suspicion))}; do\n"
        f"  for source in {sources}; do\n"
        f'    aws cloudtrail lookup-events --region "$region" --start-time {since} --lookup-attributes '
        f'AttributeKey=EventSource,AttributeValue="$source" --query "Events[?contains(CloudTrailEvent,\'{user}\')]'
        '.CloudTrailEvent"\n'
        "  done\n"
        "done",
    )
    where = _where("userIdentity.onBehalfOf.userId", [user], suspicion)
    athena = _where("useridentity.onbehalfof.userid", [user], suspicion)
    yield NextStep(
        "extent",
        "Search all accounts, in CloudTrail Lake or by Athena, for what the person's sessions at roles did: their records have "
        "the user's id, too."
        + not_shown(len(_sources(suspicion)) - len(_safe_sources(suspicion)), "address"),
        "aws cloudtrail start-query --query-statement "
        f"\"{_LAKE} WHERE eventTime > '{since[:10]} {since[11:19]}' AND ({where}) ORDER BY eventTime\"\n"
        "aws athena start-query-execution --work-group primary --query-string "
        f"\"{_ATHENA} WHERE eventtime > '{since}' AND ({athena}) ORDER BY eventtime\"",
    )


def _opens_sessions(action: str) -> bool:
    return action == _BY_CERTIFICATE or action.partition(":")[2].startswith(_OPENS_SESSIONS)


def _usernames(suspicion: Suspicion) -> list[str]:
    """Return what CloudTrail calls the user behind an alert: a role's is the name of the session, never the role's.

    That of a federated one is its subject, as the records have it: with the run of a pipeline, which the principal lacks.
    """
    sessions = dict.fromkeys(event.session for event in suspicion.events)
    named: dict[str, Iterable[str]] = {"root": ["root"], "user": [_name(suspicion.principal)]}
    if _type(suspicion.principal) == "federated":
        read = (_user_name(event) for event in suspicion.events[:MAX_RECORDS_READ])
        named["federated"] = dict.fromkeys([suspicion.human, *read])
    return [each for each in map(safe_argument, named.get(_type(suspicion.principal), sessions)) if each]


def _find_opened(suspicion: Suspicion, actions: Sequence[str], by: Sequence[str] = ()) -> str:
    """Return the command that lists the calls which opened a session and have an access key of the alert in their record.

    `by` is what they have in it where the alert has no key.
    """
    return (
        f"for region in {' '.join(_regions(suspicion))}; do\n"
        f"  for name in {' '.join(dict.fromkeys(actions))}; do\n"
        f'    aws cloudtrail lookup-events --region "$region" --start-time {_since(suspicion)} --lookup-attributes '
        f'AttributeKey=EventName,AttributeValue="$name" {_having(_safe_keys(suspicion) or by)}\n'
        "  done\n"
        "done"
    )


def _since(suspicion: Suspicion) -> str:
    return f"{suspicion.events[0].event_time.astimezone(UTC) - BEFORE:%Y-%m-%dT%H:%M:%SZ}"


def _having(values: Sequence[str]) -> str:
    """Return the option that leaves of looked-up events those whose record has one of some texts."""
    has = " || ".join(f"contains(CloudTrailEvent,'{each}')" for each in values or ["ACCESS_KEY_ID"])
    return f'--query "Events[?{has}].CloudTrailEvent"'


def _where(key_column: str, keys: Sequence[str], suspicion: Suspicion) -> str:
    """Return the condition of a query for the alert's access keys and addresses; column names are of any case."""
    addresses = _safe_sources(suspicion)
    parts = [f"{key_column} IN ({_sql_list(keys)})"] if keys else []
    parts += [f"sourceIPAddress IN ({_sql_list(addresses)})"] if addresses else []
    return " OR ".join(parts) or f"{key_column} = 'ACCESS_KEY_ID'"


def _sources(suspicion: Suspicion) -> list[str]:
    """Return the distinct addresses of an alert that are no service's."""
    found = dict.fromkeys(event.source_address for event in suspicion.events)
    return [each for each in found if each and not each.endswith(_SERVICE_DOMAIN)]


def _safe_sources(suspicion: Suspicion) -> list[str]:
    return [each for each in map(safe_argument, _sources(suspicion)) if each][:MAX_KEYS]


def _sql_list(values: Sequence[str]) -> str:
    return ", ".join(f"'{each}'" for each in values)


def _regions(suspicion: Suspicion) -> list[str]:
    """Return the regions of an alert, the most used first, and where IAM and STS log."""
    counts: dict[str, int] = {}
    for event in (*suspicion.events, *suspicion.supporting):
        name = safe_argument(event.region)
        if name:
            counts[name] = counts.get(name, 0) + 1
    found = sorted(counts, key=lambda name: (-counts[name], name))[:MAX_REGIONS]
    return list(dict.fromkeys((*found, _global_region(found))))


def _global_region(regions: Sequence[str]) -> str:
    """Return where the global services of the partition log in which most calls were made."""
    first = regions[0] if regions else ""
    return next(
        (name for begins, name in _GLOBAL_REGIONS.items() if first.startswith(begins)), _GLOBAL_REGION
    )


# --- undo ---------------------------------------------------------------------------------------------------------------


def _undo(suspicion: Suspicion) -> Iterator[NextStep]:
    """Yield how to undo the actions that succeeded and were new, the gravest first; what was only read cannot be set back.

    Calls that only support the alert are undone, too: a secret that they read is as known as any other.
    """
    calls: dict[tuple[str, bool], list[AlertEvent]] = {}
    for supporting, events in ((False, suspicion.events), (True, suspicion.supporting)):
        for event in events:
            if not event.error_code:
                calls.setdefault((_action(event), supporting), []).append(event)
    done = [
        row
        for row in suspicion.actions
        if row.succeeded and (row.new or row.new_place) and row.gravity != "minor"
    ]
    steps: list[NextStep] = []
    changes: list[ActionImpact] = []
    reads: list[ActionImpact] = []
    denials: list[ActionImpact] = []
    for row in done:
        made_of_row = calls.get((row.action, row.supporting), [])
        called = made_of_row[:MAX_RECORDS_READ]
        unread = len(made_of_row) - len(called)
        made = [_call_of(event) for event in called]
        to_undo = [each for each in made if not only_denies(without_api_version(row.action), each)]
        if made and not to_undo and not unread:
            denials.append(row)
            continue
        undone = list(_undo_action(row, to_undo, unread)) if len(steps) < MAX_UNDO_STEPS else []
        steps += undone
        if undone:
            continue
        if not _only_reads(row.action, called):
            changes.append(row)
        elif row.effect.startswith("reads"):
            reads.append(row)
    yield from steps
    if denials:
        how = "Ask who did it, and leave it where that was a responder, for it only denies:"
        yield NextStep("undo", f"{how} {_subjects(denials)}.")
    if changes:
        how = "Compare with your infrastructure code or AWS Config, and set back what was changed by"
        yield NextStep("undo", f"{how} {_subjects(changes)}.")
    if reads:
        yield NextStep(
            "undo", f"Treat as known, and change where it is used, what was read by {_subjects(reads)}."
        )


def _undo_action(row: ActionImpact, made: Sequence[Call], unread: int) -> Iterator[NextStep]:
    """Yield how to undo the calls of an action, by the account in which they were made; nothing for an unlisted one.

    `unread` is how many more calls there are, whose records are not read.
    """
    by_account: dict[str, list[Call]] = {}
    for each in made:
        by_account.setdefault(_account(each.account), []).append(each)
    for account, calls in (by_account or {"": []}).items():
        step = undo_step(row.action, calls)
        if step:
            place = f"In account {account}: " if account else ""
            text = f"{place}{_subject(row)}. {step.text}{not_shown(unread, 'event')}"
            yield NextStep(step.phase, text, step.command)


def _only_reads(action: str, calls: Sequence[AlertEvent]) -> bool:
    """Return whether an action changes nothing, by its verb or by the records of its calls."""
    name = without_api_version(action).partition(":")[2]
    return not changes_something(name) or (bool(calls) and all(reads_only(each.raw) for each in calls))


def _subjects(rows: Sequence[ActionImpact]) -> str:
    named = ", ".join(_subject(row) for row in rows[:MAX_NAMED_ACTIONS])
    return named + (f" and {len(rows) - MAX_NAMED_ACTIONS:,} more" if len(rows) > MAX_NAMED_ACTIONS else "")


def _subject(row: ActionImpact) -> str:
    """Return the action and what it touched: `iam:CreateUser on user:eve`; of supporting events with a word on it."""
    some = ", ".join(each[:100] for each in row.resources[:3])
    more = f" and {len(row.resources) - 3} more" if len(row.resources) > 3 else ""
    name = without_api_version(row.action)[:120]
    touched = f"{name} on {some}{more}" if some else name
    return f"{touched} (unusual in the same hour)" if row.supporting else touched


def _call_of(event: AlertEvent) -> Call:
    """Return what a call's record names; nothing where the record is not kept or cannot be read."""
    read = _read_record(event)
    request = read.requestParameters if isinstance(read.requestParameters, dict) else {}
    response = read.responseElements if isinstance(read.responseElements, dict) else {}
    return Call(request, response, event.region, str(read.recipientAccountId or ""))


def _session_context(event: AlertEvent) -> dict[str, Any]:
    """Return what a call's record says of its session, empty for nothing."""
    identity = _read_record(event).userIdentity
    context = identity.get("sessionContext") if isinstance(identity, dict) else None
    return context if isinstance(context, dict) else {}


def _user_name(event: AlertEvent) -> str:
    """Return the name of the user in a call's record, empty for none."""
    identity = _read_record(event).userIdentity
    name = identity.get("userName") if isinstance(identity, dict) else ""
    return name if isinstance(name, str) else ""


def _read_record(event: AlertEvent) -> _Record:
    try:
        return _DECODER.decode(event.raw) if 0 < len(event.raw) <= MAX_RECORD_CHARACTERS else _Record()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _Record()
