"""Containing: the steps that cut off a thief, by the kind of credential and by how its session was opened.

Example:
    >>> [step.command for step in contain_steps(suspicion)][0]
    'aws iam update-access-key --user-name alice --access-key-id AKIAIOSFODNN7EXAMPLE --status Inactive'

Source of the steps: AWS, "Responding to a compromised access key" and "Revoking IAM role temporary security credentials" (IAM
user guide).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote

from fingerprint.core.alert import AlertEvent, NextStep
from fingerprint.sources.base import Suspicion
from fingerprint.sources.cloudtrail.identity import SSO_ROLE, is_anonymous, permission_set, saml_provider
from fingerprint.sources.cloudtrail.playbook_contain_role import (
    contain_role,
    cut_certificates,
    revoke_command,
)
from fingerprint.sources.cloudtrail.playbook_extent import find_opened_sessions
from fingerprint.sources.cloudtrail.playbook_facts import (
    BY_CERTIFICATE,
    MAX_KEYS,
    access_keys,
    call_of,
    center_roles,
    center_user_id,
    credential_kind,
    first_events,
    look_up_from,
    look_up_names,
    principal_name,
    principal_type,
    read_record,
    regions_of,
    session_context,
    signed_in_at_center,
    value_or_word,
)
from fingerprint.sources.cloudtrail.playbook_undo import not_shown, safe_argument

_DENY_ALL = '\'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"*","Resource":"*"}]}\''
_BLOCK_PUBLIC = "BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true"
# Prefix of the name of Identity Center's provider: AWSSSO_0a1b2c3d4e5f6071_DO_NOT_DELETE
_CENTER_PROVIDER = "AWSSSO_"
_DENY_ROOT = (
    '\'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"*","Resource":"*","Condition":'
    '{"ArnLike":{"aws:PrincipalArn":"arn:*:iam::*:root"}}}]}\''
)
_DENY_PERSON = (  # AWS's own condition for one person of Identity Center
    '\'{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"StringEquals":{"identitystore:userId":"USER_ID"}}}\''
)
_LIST_TRUST = "aws iam list-roles --query 'Roles[].[RoleName,AssumeRolePolicyDocument]' --output json"


def contain_steps(suspicion: Suspicion) -> Iterator[NextStep]:
    """Yield the steps that cut off a thief: the credential first, by its kind."""
    keys, name = access_keys(suspicion), principal_name(suspicion.principal)
    match credential_kind(suspicion.principal, keys):
        case "access key":
            yield _contain_access_key(keys, value_or_word(name, "USER_NAME"))
        case "user session":
            yield _contain_user_session(value_or_word(name, "USER_NAME"))
        case "role session":
            yield from contain_role(suspicion, value_or_word(name, "ROLE_NAME"))
        case "single sign-on":
            yield from _contain_single_sign_on(suspicion, name)
        case "root":
            yield from _contain_root(suspicion)
        case "service":
            yield _contain_service(suspicion)
        case "unknown" if is_anonymous(suspicion.principal):
            yield _contain_public(suspicion)
        case "unknown" if principal_type(suspicion.principal) == "account":
            yield _contain_other_account(suspicion)
        case "unknown" if by_certificate := _by_certificate(suspicion):
            yield by_certificate
        case "unknown" if (pod := _service_account(suspicion.principal)) is not None:
            yield from _contain_service_account(suspicion, *pod)
        case "unknown" if roles := center_roles(suspicion):
            yield from _contain_single_sign_on(suspicion, roles[0] if len(roles) == 1 else "")
        case "unknown" if signed_in_at_center(suspicion):
            yield from _contain_single_sign_on(suspicion, "")
        case "unknown":
            yield _contain_at_provider(suspicion)


def _contain_at_provider(suspicion: Suspicion) -> NextStep:
    """Return how to keep out an identity of another provider. A thief may own a SAML provider, or may have stolen its key.

    If a provider has a name like Identity Center's, no command deletes it: everyone signs in by that one, and even a refused
    call can name it.
    """
    named = dict.fromkeys(safe_argument(saml_provider(each.raw)) for each in first_events(suspicion))
    providers = [each for each in named if each][:MAX_KEYS]
    text = "Block the identity at its provider, and deny it in the trust policy of every role that it may assume."
    may_be_center = any(each.rpartition("/")[2].startswith(_CENTER_PROVIDER) for each in providers)
    if may_be_center:
        text += (
            " Look at the provider: that of IAM Identity Center, by which everyone signs in, has such a name. Where that is it, "
            "delete nothing: disable the person in Identity Center. Where its metadata name another issuer, it is a thief's."
        )
    elif providers:
        text += (
            " Look at the provider: where it is not the organisation's own, or the key that it signs with may be stolen, "
            "delete it. No one signs in by it then."
        )
    look = [f"aws iam get-saml-provider --saml-provider-arn {each}" for each in providers]
    delete = ["aws iam delete-saml-provider --saml-provider-arn PROVIDER_ARN"]
    return NextStep(
        "contain", text, "\n".join([_LIST_TRUST, *look, *(delete if look and not may_be_center else [])])
    )


def _service_account(principal: str) -> tuple[str, str] | None:
    """Return namespace and name of a federated principal that is a Kubernetes service account; None for any other principal.

    >>> _service_account("123456789012:federated/oidc.example.com/system%3Aserviceaccount%3Aexports%3Aworker")
    ('exports', 'worker')
    """
    subject = unquote(principal.rpartition("/")[2]) if principal_type(principal) == "federated" else ""
    parts = subject.split(":")
    return (parts[2], parts[3]) if parts[:2] == ["system", "serviceaccount"] and len(parts) == 4 else None


def _contain_service_account(suspicion: Suspicion, namespace: str, name: str) -> Iterator[NextStep]:
    """Yield how to shut out a pod's token, which STS accepts until it expires, and then how to find who read it."""
    roles, more = _assumed_roles(suspicion)
    yield NextStep(
        "contain",
        "The caller has the token of a Kubernetes service account. STS takes it until it expires, a day by default, also where "
        "pod and account are gone: take the account's subject out of the trust policy of the role, and revoke the role's "
        f"sessions.{more}",
        "\n".join(
            f"aws iam get-role --role-name {each} --query Role.AssumeRolePolicyDocument\n{revoke_command(each)}"
            for each in roles or ["ROLE_NAME"]
        ),
    )
    yield NextStep(
        "contain",
        "Find the pods that run as the service account, keep what you need of them, and stop them. The cluster's audit log has "
        "who else read a token of it: creations of serviceaccounts/token and of pods/exec.",
        f"kubectl get pods --namespace {value_or_word(namespace, 'NAMESPACE')} --output wide "
        f"--field-selector spec.serviceAccountName={value_or_word(name, 'SERVICE_ACCOUNT')}",
    )


def _contain_other_account(suspicion: Suspicion) -> NextStep:
    """Return how to find the caller in its own account, whose record names role, session and key, or else to shut it out."""
    account = value_or_word(suspicion.principal.partition(":")[0], "ACCOUNT_ID")
    find = "find the caller's own record in its log, by the same sharedEventID, and contain the principal that it names"
    if suspicion.knows_account:
        return NextStep(
            "contain",
            f"The caller's account is one of the organisation's own: {find}.",
            _find_shared(suspicion),
        )
    roles, more = _assumed_roles(suspicion)
    revoke = " Revoke the sessions of the roles that it assumed: they go on." if roles else ""
    return NextStep(
        "contain",
        f"Deny account {account} in the trust policy of every role that it may assume, and tell its owner.{revoke}{more} Where "
        f"the account is one of the organisation's own, {find}.",
        "\n".join([_LIST_TRUST, *map(revoke_command, roles)]),
    )


def _contain_public(suspicion: Suspicion) -> NextStep:
    """Return how to close what callers without credentials reached: buckets by name, other resources by their policies."""
    buckets, more = _names_of("bucket", (event.resource for event in suspicion.events))
    return NextStep(
        "contain",
        "Close to the public what was reached, unless it is public on purpose: a bucket by blocking public access, anything else "
        f"by the policy that lets everyone in.{more}",
        "\n".join(
            f"aws s3api put-public-access-block --bucket {each} --public-access-block-configuration {_BLOCK_PUBLIC}"
            for each in buckets
        ),
    )


def _assumed_roles(suspicion: Suspicion) -> tuple[list[str], str]:
    """Return the roles that an alert's calls assumed, and the sentence that counts the roles that are not shown."""
    assumed = (event.resource for event in suspicion.events if event.action.startswith("AssumeRole"))
    return _names_of("role", assumed)


def _names_of(kind: str, resources: Iterable[str]) -> tuple[list[str], str]:
    """Return the names of the resources of a kind, and the sentence that counts the names that are not shown."""
    found = dict.fromkeys(
        safe_argument(each.removeprefix(f"{kind}:")) for each in resources if each.startswith(f"{kind}:")
    )
    named = [each for each in found if each][:MAX_KEYS]
    return named, not_shown(len(found) - len(named), kind)


def _find_shared(suspicion: Suspicion) -> str:
    """Return the command that, run in the caller's account, lists that account's own records of the alert's calls."""
    event = suspicion.lead or suspicion.events[0]
    events = (event, *first_events(suspicion))
    shared = dict.fromkeys(safe_argument(read_record(each).sharedEventID) for each in events)
    ids = [each for each in shared if each][:MAX_KEYS]
    has = " || ".join(f"contains(CloudTrailEvent,'{each}')" for each in ids or ["SHARED_EVENT_ID"])
    return (
        f"for region in {' '.join(regions_of(suspicion))}; do\n"
        f'  aws cloudtrail lookup-events --region "$region" --start-time {look_up_from(suspicion)} --lookup-attributes '
        f"AttributeKey=EventName,AttributeValue={value_or_word(event.action, 'EVENT_NAME')} "
        f'--query "Events[?{has}].CloudTrailEvent"\n'
        "done"
    )


def _contain_access_key(keys: Sequence[str], user: str) -> NextStep:
    lasting = [key for key in keys if key.startswith("AKIA")]
    deactivate = [
        f"aws iam update-access-key --user-name {user} --access-key-id {value_or_word(key, 'ACCESS_KEY_ID')} --status Inactive"
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
    """Yield how to contain the caller of sts:AssumeRoot, the root user itself, or both if the records do not say which."""
    assumed = {_is_assumed_root(event) for event in first_events(suspicion)}
    if assumed != {False}:
        find = "Find" if True in assumed else "Where the records say sessionContext.assumedRoot, find"
        yield NextStep(
            "contain",
            f"{find} who called sts:AssumeRoot in the organisation's management account or in the one that administers IAM for "
            "it, by the session's access key, and contain that principal: there is no password or key of root's to change. The "
            "call is logged where it was made: add its region. The session ends by itself, after 15 minutes at most.",
            find_opened_sessions(suspicion, ("AssumeRoot",)),
        )
    if assumed != {True}:
        yield NextStep(
            "contain",
            "Change the root user's password and second factor, delete its access keys, and deny it everything from the "
            "organisation's management account. The policy does not bind the management account's own root user.",
            "aws organizations create-policy --type SERVICE_CONTROL_POLICY --name incident-deny-root --description incident "
            f"--content {_DENY_ROOT}\n"
            "aws organizations attach-policy --policy-id POLICY_ID --target-id "
            f"{value_or_word(suspicion.principal.partition(':')[0], 'ACCOUNT_ID')}",
        )


def _is_assumed_root(event: AlertEvent) -> bool | None:
    """Return whether the record says that sts:AssumeRoot opened root's session; None without a record."""
    if not isinstance(read_record(event).userIdentity, dict):
        return None
    return session_context(event).get("assumedRoot") in ("true", True)


def _contain_service(suspicion: Suspicion) -> NextStep:
    names = look_up_names(suspicion)
    found = [f"AttributeKey=Username,AttributeValue={each}" for each in names[:MAX_KEYS]]
    found.append("AttributeKey=ResourceName,AttributeValue=RESOURCE_NAME")
    return NextStep(
        "contain",
        "A service acted by itself or by its own role: there is no key to cut. Find the resource that told it to, and contain "
        "the principal that changed that resource last." + not_shown(len(names) - MAX_KEYS, "session"),
        "\n".join(
            f"aws cloudtrail lookup-events --region {regions_of(suspicion)[0]} --lookup-attributes {each}"
            for each in found
        ),
    )


def _deny_user(user: str) -> str:
    return f"aws iam put-user-policy --user-name {user} --policy-name incident-deny-all --policy-document {_DENY_ALL}"


def _by_certificate(suspicion: Suspicion) -> NextStep | None:
    """Return how to shut out a certificate that opens sessions by Roles Anywhere; None if the caller used none."""
    event = suspicion.lead or suspicion.events[0]
    if event.action_name != BY_CERTIFICATE:
        return None
    request = call_of(event).request
    role, profile, anchor = (
        _last_part(request.get(name)) for name in ("roleArn", "profileArn", "trustAnchorArn")
    )
    arn = safe_argument(request.get("trustAnchorArn")) if anchor else ""
    return cut_certificates(role or "ROLE_NAME", safe_argument(event.region), profile, anchor, arn)


def _last_part(arn: object) -> str:
    """Return the part of an ARN after its last slash; empty if it is not safe in a command."""
    return safe_argument(arn.rpartition("/")[2]) if isinstance(arn, str) else ""


def _contain_single_sign_on(suspicion: Suspicion, name: str) -> Iterator[NextStep]:
    """Yield how to end a person's sessions in Identity Center, because only it can change the policies of its roles.

    `name` is the name of the role, or the id of the person. A put overwrites the policy, so the command reads a file that the
    analyst merges first. Without that file it fails, where another command would remove a policy in every account.
    """
    granted = permission_set(name) if name.startswith(SSO_ROLE) else ""
    of_set = f"of {granted}" if safe_argument(granted) else "of each permission set that was used"
    instance = "--instance-arn INSTANCE_ARN --permission-set-arn PERMISSION_SET_ARN"
    person = safe_argument(center_user_id(suspicion))
    deny = _DENY_PERSON.replace("USER_ID", person or "USER_ID")
    yield NextStep(
        "contain",
        "Disable the person in the identity provider and end their sessions in IAM Identity Center (Users, Active sessions). "
        "Sessions of roles live on for up to twelve hours: add a statement that denies this person to the inline policy "
        f"{of_set}. There is one policy, and putting keeps no earlier one: merge DENY.json into the statements of BEFORE.json "
        "(empty: there is none) as MERGED.json. Run it in Identity Center's home region and in the account that administers it.",
        f"{find_person(suspicion.human, person)}\n"
        f"aws sso-admin get-inline-policy-for-permission-set {instance} --query InlinePolicy --output text > BEFORE.json\n"
        f"echo {deny} > DENY.json\n"
        f"aws sso-admin put-inline-policy-to-permission-set {instance} --inline-policy file://MERGED.json\n"
        f"aws sso-admin provision-permission-set {instance} --target-type ALL_PROVISIONED_ACCOUNTS",
    )


def find_person(human: str, user_id: str) -> str:
    """Return the command that shows a person of Identity Center, by id if it is known, else by name."""
    if user_id:
        return f"aws identitystore describe-user --identity-store-id IDENTITY_STORE_ID --user-id {user_id}"
    named = f"AttributePath=UserName,AttributeValue={value_or_word(human, 'USER_NAME')}"
    return f"aws identitystore list-users --identity-store-id IDENTITY_STORE_ID --filters {named}"
