"""Containing the sessions of a role: cut what opens them, revoke them, and stop the machines, tasks and pods that hold them.

Example:
    >>> [step.command for step in contain_role(suspicion, "deploy")][-1]
    'aws iam put-role-policy --role-name deploy --policy-name AWSRevokeOlderSessions --policy-document ...'

The opener of the sessions comes first: as long as it can assume the role, it gets a new session after each revocation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote

from fingerprint.core.alert import AlertEvent, CredentialIssue, NextStep
from fingerprint.core.people import names_person
from fingerprint.sources.base import Suspicion
from fingerprint.sources.cloudtrail.identity import COGNITO, plain_principal
from fingerprint.sources.cloudtrail.playbook_extent import find_opened_sessions
from fingerprint.sources.cloudtrail.playbook_facts import (
    ASKS_OWNER,
    BY_ANOTHER_CHANNEL,
    IN_PERSON,
    MAX_KEYS,
    calling_service,
    first_events,
    look_up_from,
    principal_name,
    principal_type,
    read_record,
    regions_of,
    session_context,
    session_of_person,
    value_or_word,
)
from fingerprint.sources.cloudtrail.playbook_undo import not_shown, safe_argument

TASK_ID_LENGTH = 32  # hexadecimal digits, of a task of ECS
DEVICE_ID_LENGTH = 64  # hexadecimal digits, of a certificate of AWS IoT
MAX_SERIAL_LENGTH = 40  # hexadecimal digits, of a certificate's serial number
UUID_LENGTH = 36  # characters of a UUID
_FUNCTION = "AWS::Lambda::Function"
_HEX_DIGITS = frozenset("0123456789abcdef")
_NOW = "'\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\"'"  # for use inside single quotes of the shell
_REVOKE = (
    '\'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"*","Resource":"*","Condition":'
    f'{{"DateLessThan":{{"aws:TokenIssueTime":"{_NOW}"}}}}}}]}}\''
)
_DENY_SESSION = (
    '\'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"*","Resource":"*","Condition":'
    '{"StringLike":{"aws:userid":"*:SESSION_NAME"}}}]}\''
)
_FIND_OPENER = (
    "find who assumed it, by the session's access key. Where that was a provider of SAML or web identity, block the person or "
    "the workload there; where another account did, take it out of the role's trust policy. Where Lambda did, the session has "
    "the function's name: set the function's reserved concurrency to 0, and mend it."
)
_IF_NAMED_BY_SAML = "Where a provider of SAML opened them, it fixed their name: disable the person there."
_NAMED_BY_SAML = "The provider of SAML that opened them fixed their name: disable the person there."
_NAMED_BY_OPENER = "Who opened them chose their name: it is the person's where that one can be trusted."
_ANYONE_GETS_NEW_ONES = (
    "Who can still assume the role gets a new one. Machines and functions that use it keep credentials that are refused "
    "until these expire, for up to six hours: replace their instance profile, or stop and start them."
)
# What follows a revocation if the opener is no machine of the organisation, by the type of the opener's principal.
_OPENER_GETS_NEW_ONES = {
    "account": "That account gets new ones as long as the role's trust policy lets it in.",
    "federated": "The person or the workload gets new ones until blocked at the provider.",
}
# What to do about the organisation's own code, by the service that runs it and opens its sessions.
_STOP_CODE = {
    "lambda.amazonaws.com": "the session has the function's name: set the function's reserved concurrency to 0, find how its "
    "credentials were read, and mend it.",
    "ec2.amazonaws.com": "the session has the machine's id: isolate the machine.",
    "ecs-tasks.amazonaws.com": "the session has the task's id: stop the task, and close the way in.",
    "pods.eks.amazonaws.com": "the session names cluster and pod: stop the pod, and close the way in.",
}


def revoke_command(role: str) -> str:
    """Return the command that ends all sessions of a role that were opened before now."""
    return f"aws iam put-role-policy --role-name {role} --policy-name AWSRevokeOlderSessions --policy-document {_REVOKE}"


def contain_role(suspicion: Suspicion, role: str) -> Iterator[NextStep]:
    """Yield how to cut the one source of a role's sessions, or else how to find who opens them; then how to revoke them."""
    yield from _cut_source(suspicion, role) or _contain_sessions(suspicion, role)


def _cut_source(suspicion: Suspicion, role: str) -> list[NextStep]:
    """Return the steps if one person, service, function or workload, or identity pools, opened the sessions; else none."""
    if session := session_of_person(suspicion.principal):
        return [_deny_session(role, value_or_word(session, "SESSION_NAME"))]
    if service := calling_service(suspicion):
        effect = "That stops what the service still does with it, and fails what others have it do."
        return [_find_caller_of_service(suspicion, service), _revoke(role, effect)]
    if pools := _identity_pools(suspicion):
        return [_cut_pools(pools), _revoke(role, "Visitors get new ones as long as the pool gives them.")]
    if functions := _lambda_functions(suspicion):
        return [_stop_functions(functions), _revoke(role, "The function's next credentials are new ones.")]
    if provider := _identity_provider(suspicion):
        return [_stop_workload(suspicion, provider), _revoke(role, "The workload's next run gets a new one.")]
    return []


def _contain_sessions(suspicion: Suspicion, role: str) -> Iterator[NextStep]:
    """Yield how to find who opened the sessions of a shared role, revoke them, and stop machines, pods and tasks with them."""
    machines = dict.fromkeys(event.session for event in suspicion.events if event.session.startswith("i-"))
    named = _one_of_each_session(suspicion)
    certificates = [event for event in named if _is_certificate(event)]
    if any(event.session not in machines for event in suspicion.events):
        yield _who_assumed(suspicion, bool(certificates))
    if certificates:
        yield cut_certificates(role)
    if devices := [each.session for each in named if _is_device(each)]:
        yield _cut_devices(devices)
    if pods := [each.session for each in named if _is_pod(each.session)]:
        yield _stop_pods(pods)
    people = [safe_argument(each.session) for each in named]
    if all("@" in each for each in people):
        yield _deny_people(role, people)
        yield _revoke(
            role,
            "Only where the caller chose the session's name, or the sessions of all who share the role are to end.",
        )
        return
    yield _revoke(role, _ANYONE_GETS_NEW_ONES)
    yield from _isolate_machines(list(machines))
    if tasks := [event.session for event in named if _is_task(event)]:
        yield _stop_tasks(tasks)


def _isolate_machines(machines: Sequence[str]) -> Iterator[NextStep]:
    shown = [each for each in map(safe_argument, machines) if each][:MAX_KEYS]
    if shown:
        yield NextStep(
            "contain",
            "The role is a machine's: isolate it, else the thief takes its next credentials. Keep it running for its memory. "
            "INSTANCE_REGION is where it runs, which need not be where the calls went."
            + not_shown(len(machines) - len(shown), "machine"),
            "\n".join(
                f"aws ec2 modify-instance-attribute --region INSTANCE_REGION --instance-id {each} "
                "--groups SECURITY_GROUP_WITHOUT_RULES"
                for each in shown
            ),
        )


def _revoke(role: str, after: str) -> NextStep:
    return NextStep("contain", f"Revoke the role's sessions up to now. {after}", revoke_command(role))


class _Pool(NamedTuple):
    """An identity pool of Cognito that gave sessions, whether it gives them to anyone, and the identities that got them."""

    pool: str
    open_to_all: bool
    identities: Sequence[str]


def _find_caller_of_service(suspicion: Suspicion, service: str) -> NextStep:
    return NextStep(
        "contain",
        f"{service[:100]} made the calls with the role because someone told it to: find who did, and contain that principal. "
        "The call may be logged in another account or region.",
        f"for region in {' '.join(regions_of(suspicion))}; do\n"
        f'  aws cloudtrail lookup-events --region "$region" --start-time {look_up_from(suspicion)} --lookup-attributes '
        f"AttributeKey=EventSource,AttributeValue={value_or_word(service, 'SERVICE_NAME')}\n"
        "done",
    )


def _identity_pools(suspicion: Suspicion) -> list[_Pool]:
    """Return the identity pools of Cognito that gave all sessions of an alert; empty if any session came from elsewhere."""
    found: dict[tuple[str, bool], dict[str, None]] = {}
    for event in first_events(suspicion):
        federation = session_context(event).get("webIdFederationData")
        if not isinstance(federation, dict) or federation.get("federatedProvider") != COGNITO:
            return []
        attributes = federation.get("attributes")
        attributes = attributes if isinstance(attributes, dict) else {}
        pool, identity = (safe_argument(attributes.get(f"{COGNITO}:{name}")) for name in ("aud", "sub"))
        to_all = "unauthenticated" in str(attributes.get(f"{COGNITO}:amr"))
        found.setdefault((pool, to_all), {})[identity] = None
    return [_Pool(*of, [each for each in named if each]) for of, named in found.items()]


def _identity_provider(suspicion: Suspicion) -> str:
    """Return the one provider of OpenID Connect behind all sessions of an alert, without its account; empty if not one."""
    federations = [session_context(event).get("webIdFederationData") for event in first_events(suspicion)]
    named = {
        safe_argument(each.get("federatedProvider")) if isinstance(each, dict) else "" for each in federations
    }
    return named.pop().rpartition("oidc-provider/")[2] if len(named) == 1 else ""


def _stop_workload(suspicion: Suspicion, provider: str) -> NextStep:
    return NextStep(
        "contain",
        f"{provider} vouched for the workload that opened the sessions (a repository, a workspace, a pod's service account; as "
        "userName in the record of the call that opened them). First stop it there, and take it out of the role's trust policy, "
        "or it gets a new session.",
        find_opened_sessions(suspicion, ("AssumeRoleWithWebIdentity",)),
    )


def _cut_pools(pools: Sequence[_Pool]) -> NextStep:
    """Return how to keep identity pools from giving sessions to the identities that had them, or to anyone."""
    to_all = any(each.open_to_all for each in pools)
    commands = []
    for each in pools[:MAX_KEYS]:
        region = f"--region {each.pool.partition(':')[0] or 'POOL_REGION'}"
        pool = f"{region} --identity-pool-id {each.pool or 'POOL_ID'}"
        commands += [
            f"aws cognito-identity describe-identity-pool {pool}",
            f"aws cognito-identity delete-identities {region} "
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
    """Return whether a session is named like those that ECS opens for a task; other openers may choose such a name, too."""
    name = event.session
    return len(name) == TASK_ID_LENGTH and set(name) <= _HEX_DIGITS and not _has_source_identity(event)


def _is_certificate(event: AlertEvent) -> bool:
    """Return whether a session is named like those of Roles Anywhere: a serial number, with a source identity (the subject)."""
    name = event.session
    is_number = 0 < len(name) <= MAX_SERIAL_LENGTH and set(name.lower()) <= _HEX_DIGITS
    return is_number and _has_source_identity(event)


def _is_device(event: AlertEvent) -> bool:
    """Return whether a session is named like those of AWS IoT's credential provider: the id of a device's certificate."""
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


def _is_pod(session: str) -> bool:
    """Return whether a session is named like those that EKS Pod Identity opens for a pod: `eks-CLUSTER-POD-UUID`."""
    last = session[-UUID_LENGTH:]
    return session.startswith("eks-") and last.count("-") == 4 and set(last) <= {*_HEX_DIGITS, "-"}


def _stop_pods(sessions: Sequence[str]) -> NextStep:
    named = ", ".join(safe_argument(each) for each in sessions[:MAX_KEYS])
    where = "--region CLUSTER_REGION --cluster-name CLUSTER_NAME"
    return NextStep(
        "contain",
        f"The session is named as one that EKS Pod Identity opens ({named}: cluster, pod, a number). Keep what you need of it, "
        "delete the association that gives its service account the role, and stop the pod: else the thief takes its next "
        "credentials.",
        f"aws eks list-pod-identity-associations {where}\n"
        f"aws eks delete-pod-identity-association {where} --association-id ASSOCIATION_ID\n"
        "kubectl delete pod --namespace NAMESPACE POD_NAME",
    )


def _lambda_functions(suspicion: Suspicion) -> list[str]:
    """Return the ARNs of the functions whose sessions make the alert; empty if any session is not a function's."""
    found: dict[str, None] = {}
    for event in first_events(suspicion):
        identity = read_record(event).userIdentity
        scope = identity.get("inScopeOf") if isinstance(identity, dict) else None
        if not isinstance(scope, dict) or scope.get("issuerType") != _FUNCTION:
            return []
        found[safe_argument(scope.get("credentialsIssuedTo"))] = None
    return [each for each in found if each] or ["FUNCTION_ARN"] * bool(found)


def _stop_functions(functions: Sequence[str]) -> NextStep:
    return NextStep(
        "contain",
        "The credentials are those of a function: let it run no more, else the thief takes its next ones, then find how they "
        "were read (code, a layer, environment, a request that it fetched), mend that, and deploy it again. FUNCTION_REGION is "
        "where it runs." + not_shown(len(functions) - MAX_KEYS, "function"),
        "\n".join(
            f"aws lambda put-function-concurrency --region {_region_of(each)} --function-name {each} "
            "--reserved-concurrent-executions 0\n"
            f"aws lambda get-function --region {_region_of(each)} --function-name {each}"
            for each in functions[:MAX_KEYS]
        ),
    )


def _region_of(arn: str) -> str:
    """Return the region in an ARN, or a word to be filled in if it has none."""
    return arn.split(":")[3] if arn.count(":") > 3 and arn.split(":")[3] else "FUNCTION_REGION"


def _has_source_identity(event: AlertEvent) -> bool:
    return bool(session_context(event).get("sourceIdentity"))


def cut_certificates(
    role: str, region: str = "", profile: str = "", anchor: str = "", anchor_arn: str = ""
) -> NextStep:
    """Return how to keep a certificate of Roles Anywhere from opening sessions, with the ids that a record names.

    Without `region` (that of a record of Roles Anywhere itself), the only sign of Roles Anywhere is the name of the session.
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
        f"--trust-anchor-arn {anchor_arn or 'TRUST_ANCHOR_ARN'}\n"
        f"aws rolesanywhere disable-profile {where} --profile-id {profile or 'PROFILE_ID'}\n"
        f"aws rolesanywhere disable-trust-anchor {where} "
        f"--trust-anchor-id {anchor or 'TRUST_ANCHOR_ID'}",
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
    """Return how to deny one person's sessions at a shared role, by the name that the identity provider gives them."""
    policy = _DENY_SESSION.replace("SESSION_NAME", session)
    return NextStep(
        "contain",
        "Disable the person at the identity provider, else they can sign in again elsewhere, and deny the person's sessions at "
        "the role. Other sessions of the role go on.",
        f"aws iam put-role-policy --role-name {role} --policy-name incident-deny-session --policy-document {policy}",
    )


def _deny_people(role: str, people: Sequence[str]) -> NextStep:
    """Return how to deny sessions with names of people at a shared role."""
    names = '","'.join(f"*:{each}" for each in people[:MAX_KEYS])
    policy = _DENY_SESSION.replace('"*:SESSION_NAME"', f'["{names}"]')
    return NextStep(
        "contain",
        f"Deny the person's sessions alone: other sessions of the role go on. {_IF_NAMED_BY_SAML}"
        + not_shown(len(people) - MAX_KEYS, "session"),
        f"aws iam put-role-policy --role-name {role} --policy-name incident-deny-session --policy-document {policy}",
    )


def _who_assumed(suspicion: Suspicion, by_certificate: bool) -> NextStep:
    openers = ("AssumeRole", "AssumeRoleWithSAML", "AssumeRoleWithWebIdentity")
    return NextStep(
        "contain",
        f"First cut who opens the role's sessions, or the revoked role gives them a new one: {_FIND_OPENER}",
        find_opened_sessions(suspicion, (*openers, "CreateSession") if by_certificate else openers),
    )


def name_opener(steps: Iterable[NextStep], opener: CredentialIssue) -> tuple[NextStep, ...]:
    """Return the steps of an alert about one session, with the opener in place of the words on how to find it.

    The explanation of an alert does not know the opener: its call may have been read later, or by another scorer.
    """
    return tuple(_with_opener(step, opener) for step in steps)


def _with_opener(step: NextStep, opener: CredentialIssue) -> NextStep:
    if _FIND_OPENER in step.text:
        record = f"AttributeKey=EventId,AttributeValue={value_or_word(opener.event_id, 'EVENT_ID')}"
        region = value_or_word(opener.region, "REGION")
        return replace(
            step,
            text=step.text.replace(_FIND_OPENER, _cut_opener(opener)),
            command=f"aws cloudtrail lookup-events --region {region} --lookup-attributes {record}",
        )
    if step.phase == "verify":
        return replace(step, text=_asks_opener(step.text, opener))
    named = _NAMED_BY_SAML if opener.action == "AssumeRoleWithSAML" else _NAMED_BY_OPENER
    after = _OPENER_GETS_NEW_ONES.get(principal_type(opener.principal), _ANYONE_GETS_NEW_ONES)
    text = step.text.replace(_IF_NAMED_BY_SAML, named).replace(_ANYONE_GETS_NEW_ONES, after)
    return replace(step, text=text)


def _asks_opener(question: str, opener: CredentialIssue) -> str:
    """Return the question, addressed to the person who opened the session if the alert's own records name no person."""
    owner, found, rest = question.partition(IN_PERSON)
    # A caller of another account may choose any name.
    named = names_person(opener.human) and principal_type(opener.principal) != "account"
    if not found or not named or not owner.startswith(ASKS_OWNER):
        return question
    return f"Ask {opener.human[:100]}, who opened the session,{BY_ANOTHER_CHANNEL}{rest}"


def _cut_opener(opener: CredentialIssue) -> str:
    """Return the sentence that names the opener of a session and says how to keep it from opening the next one."""
    kind = principal_type(opener.principal)
    how = {
        "account": "take that account out of the role's trust policy, and tell its owner.",
        "service": _STOP_CODE.get(
            principal_name(opener.principal), "find what told it to, and contain that."
        ),
        "federated": "block the person or the workload at its provider.",
    }.get(
        kind,
        "contain it as well, and take it out of the role's trust policy if it should not assume the role.",
    )
    named = unquote(opener.principal)
    if kind == "federated":
        named = f"{plain_principal(opener.principal)} in account {opener.principal.partition(':')[0]}"
    human = f" ({opener.human[:100]})" if opener.human and opener.human not in named else ""
    where = f" from {opener.source_address[:100]}" if opener.source_address else ""
    return f"{named[:200]}{human} opened them by {opener.action[:100]}{where}: {how}"
