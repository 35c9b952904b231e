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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

from fingerprint.core.alert import MINIMUM_URGENCY, ActionImpact, AlertEvent, NextStep
from fingerprint.sources.base import Suspicion
from fingerprint.sources.cloudtrail.action_verbs import changes_something
from fingerprint.sources.cloudtrail.attack_mappings import without_api_version
from fingerprint.sources.cloudtrail.impact_requests import reads_only
from fingerprint.sources.cloudtrail.playbook_undo import DENY_ALL, Call, safe_argument, undo_step

CredentialKind = Literal[
    "access key", "user session", "role session", "single sign-on", "root", "service", "unknown"
]

MAX_KEYS = 3  # access keys named in a command
MAX_REGIONS = 8
MAX_UNDO_STEPS = 15  # with commands
MAX_NAMED_ACTIONS = 8  # of those without
MAX_RECORDS_READ = 50  # of one action, for what to undo
MAX_RECORD_CHARACTERS = 262_144  # a longer record is not read
BEFORE = timedelta(days=1)  # before the first event, from which everything of a credential is looked up
_SSO_ROLE = "AWSReservedSSO_"
_SERVICE_ROLE = "AWSServiceRoleFor"
_NOW = "'\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\"'"  # within a text in single quotes
_REVOKE = (
    '\'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"*","Resource":"*","Condition":'
    f'{{"DateLessThan":{{"aws:TokenIssueTime":"{_NOW}"}}}}}}]}}\''
)
_DENY_ROOT = (
    '\'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"*","Resource":"*","Condition":'
    '{"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::*:root"}}}]}\''
)
_DENY_PERSON = (  # AWS's own condition for one person of Identity Center
    '\'{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"StringEquals":{"identitystore:userId":"USER_ID"}}}\''
)
_OPENS_SESSIONS = ("AssumeRole", "GetSessionToken", "GetFederationToken")  # what actions begin with
_LAKE = (
    "SELECT eventTime, recipientAccountId, eventSource, eventName, errorCode, sourceIPAddress, userIdentity.arn "
    "FROM EVENT_DATA_STORE_ID"
)
_ATHENA = (
    "SELECT eventtime, recipientaccountid, eventsource, eventname, errorcode, sourceipaddress, useridentity.arn "
    "FROM cloudtrail_logs"
)


class _Record(msgspec.Struct):
    requestParameters: Any = None
    responseElements: Any = None
    awsRegion: Any = ""
    recipientAccountId: Any = ""


_DECODER = msgspec.json.Decoder(_Record)


def next_steps(suspicion: Suspicion) -> tuple[NextStep, ...]:
    """Return what to do about an alert, in the order of work."""
    contain, verify = tuple(_contain(suspicion)), _verify(suspicion)
    first = (*contain, verify) if _is_urgent(suspicion) else (verify, *map(_unless_confirmed, contain))
    return (*first, *_extent(suspicion), *_undo(suspicion))


def _is_urgent(suspicion: Suspicion) -> bool:
    """Return whether containing comes before asking."""
    return suspicion.urgency >= MINIMUM_URGENCY["high"]


def _unless_confirmed(step: NextStep) -> NextStep:
    return replace(step, text=f"If no one confirms it: {step.text[:1].lower()}{step.text[1:]}")


# --- who ----------------------------------------------------------------------------------------------------------------


def credential_kind(principal: str, keys: Sequence[str]) -> CredentialKind:
    """Return the kind of credential behind an alert, by its principal's key and its access keys."""
    name = _name(principal)
    match _type(principal):
        case "root":
            return "root"
        case "user":
            return "access key" if any(key.startswith("AKIA") for key in keys) else "user session"
        case "role" if name.startswith(_SSO_ROLE):
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


def _keys(suspicion: Suspicion) -> list[str]:
    """Return the access keys of an alert, the most used first."""
    counts: dict[str, int] = {}
    for event in suspicion.events:
        if event.access_key:
            counts[event.access_key] = counts.get(event.access_key, 0) + 1
    return sorted(counts, key=lambda key: (-counts[key], key))


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
            yield _contain_root(_or_word(suspicion.principal.partition(":")[0], "ACCOUNT_ID"))
        case "service":
            yield _contain_service(_regions(suspicion)[0], _or_word(name, "ROLE_NAME"))
        case "unknown":
            yield NextStep(
                "contain",
                "Block the identity at its provider, and deny it in the trust policy of every role that it may assume.",
                "aws iam list-roles --query 'Roles[].[RoleName,AssumeRolePolicyDocument]' --output json",
            )


def _contain_access_key(keys: Sequence[str], user: str) -> NextStep:
    lasting = [key for key in keys if key.startswith("AKIA")][:MAX_KEYS]
    deactivate = [
        f"aws iam update-access-key --user-name {user} --access-key-id {_or_word(key, 'ACCESS_KEY_ID')} --status Inactive"
        for key in lasting
    ]
    return NextStep(
        "contain",
        "Deactivate the access key, and deny the user everything: sessions that the key has made live on.",
        "\n".join([*deactivate, _deny_user(user)]),
    )


def _contain_user_session(user: str) -> NextStep:
    return NextStep(
        "contain",
        "Deny the user everything, which ends its sessions, and take its console password away.",
        f"{_deny_user(user)}\naws iam delete-login-profile --user-name {user}",
    )


def _contain_root(account: str) -> NextStep:
    return NextStep(
        "contain",
        "Change the root user's password and second factor, delete its access keys, and deny it everything from the "
        "organisation's management account.",
        "aws organizations create-policy --type SERVICE_CONTROL_POLICY --name incident-deny-root --description incident "
        f"--content {_DENY_ROOT}\n"
        f"aws organizations attach-policy --policy-id POLICY_ID --target-id {account}",
    )


def _contain_service(region: str, role: str) -> NextStep:
    return NextStep(
        "contain",
        "A service acted by its own role: there is no key to cut. Find the resource that told it to, and contain the "
        "principal that changed that resource last.",
        f"aws cloudtrail lookup-events --region {region} --lookup-attributes AttributeKey=Username,AttributeValue={role}",
    )


def _deny_user(user: str) -> str:
    return f"aws iam put-user-policy --user-name {user} --policy-name incident-deny-all --policy-document {DENY_ALL}"


def _contain_role(suspicion: Suspicion, role: str) -> Iterator[NextStep]:
    """Revoke the role's sessions; of a machine's role also isolate the machine, which gets new ones every hour."""
    yield NextStep(
        "contain",
        "Revoke the role's sessions up to now. Whatever else uses the role gets new ones by itself.",
        f"aws iam put-role-policy --role-name {role} --policy-name AWSRevokeOlderSessions --policy-document {_REVOKE}",
    )
    machines = dict.fromkeys(event.session for event in suspicion.events if event.session.startswith("i-"))
    safe = [each for each in map(safe_argument, machines) if each][:MAX_KEYS]
    if safe:
        yield NextStep(
            "contain",
            "The role is a machine's: isolate it, else the thief takes its next credentials. Keep it running for its memory.",
            "\n".join(
                f"aws ec2 modify-instance-attribute --region {_regions(suspicion)[0]} --instance-id {each} "
                "--groups SECURITY_GROUP_WITHOUT_RULES"
                for each in safe
            ),
        )


def _contain_single_sign_on(suspicion: Suspicion, name: str) -> Iterator[NextStep]:
    """End the person's sessions where they begin; the role's own policies cannot be changed but by Identity Center.

    `name` is that of the role or the person's id. Putting overwrites, so the command reads a file that the analyst merges: pasted
    as it is, it fails instead of taking a policy away in every account.
    """
    granted = name.removeprefix(_SSO_ROLE).rpartition("_")[0] if name.startswith(_SSO_ROLE) else ""
    of_set = f"of {granted}" if safe_argument(granted) else "of each permission set that was used"
    instance = "--instance-arn INSTANCE_ARN --permission-set-arn PERMISSION_SET_ARN"
    person = safe_argument(name) if _type(suspicion.principal) == "identitycenter" else ""
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
    first = suspicion.events[0].event_time.astimezone(UTC)
    when = f"at {first:%H:%M} UTC on {first:%d %B}"
    what = _named(suspicion) or suspicion.strange[:300] or "this"
    name, kind = _name(suspicion.principal), _type(suspicion.principal)
    if "@" in suspicion.human:
        who = f"Ask {suspicion.human[:100]} by telephone or in person, not by mail or chat that the same login opens,"
    else:
        who = f"Ask the owner of {suspicion.principal[:200]}, by telephone or in person,"
    new = (
        " It is new and judged by its peers alone: ask who made it, and what for."
        if suspicion.first_seen
        else ""
    )
    command = {
        "user": f"aws iam list-user-tags --user-name {_or_word(name, 'USER_NAME')}",
        "role": f"aws iam list-role-tags --role-name {_or_word(name, 'ROLE_NAME')}",
    }.get(kind, "")
    until = " Until they confirm it, treat it as stolen." if _is_urgent(suspicion) else ""
    return NextStep(
        "verify", f"{who} about {what} {when}.{until}{new}",
        "" if "@" in suspicion.human else command,
    )  # fmt: skip


def _named(suspicion: Suspicion) -> str:
    """Return the gravest action that was new as the subject of a question, and how many others there are; empty without one."""
    new = [row for row in suspicion.actions if row.new or row.new_place]
    graver = [row for row in new if row.gravity != "minor"] or new
    if not graver:
        return ""
    first = graver[0]
    on = f" on {first.resources[0][:200]}" if first.resources else ""
    others = len(graver) - 1
    counted = f" and {others:,} other{'s' * (others > 1)}" if others else ""
    more = " and others" if suspicion.cut else counted
    return f"{without_api_version(first.action)[:200]}{on}{more}"


# --- extent -------------------------------------------------------------------------------------------------------------


def _extent(suspicion: Suspicion) -> Iterator[NextStep]:
    since = f"{suspicion.events[0].event_time.astimezone(UTC) - BEFORE:%Y-%m-%dT%H:%M:%SZ}"
    keys = [each for each in map(safe_argument, _keys(suspicion)) if each][:MAX_KEYS]
    regions = " ".join(_regions(suspicion))
    attribute = (
        [f"AttributeKey=AccessKeyId,AttributeValue={key}" for key in keys]
        or [f"AttributeKey=Username,AttributeValue={_or_word(_name(suspicion.principal), 'USER_NAME')}"]
    )  # fmt: skip
    yield NextStep(
        "extent",
        "List everything that the credential did since a day before, in each region and in us-east-1, where global services log.",
        f"for region in {regions}; do\n"
        + "".join(
            f'  aws cloudtrail lookup-events --region "$region" --start-time {since} --lookup-attributes {each}\n'
            for each in attribute
        )
        + "done",
    )
    lake = f"{_LAKE} WHERE eventTime > '{since[:10]} {since[11:19]}' AND ({_where('userIdentity.accessKeyId', keys, suspicion)})"
    athena = (
        f"{_ATHENA} WHERE eventtime > '{since}' AND ({_where('useridentity.accesskeyid', keys, suspicion)})"
    )
    yield NextStep(
        "extent",
        "Search data events and other accounts too, in CloudTrail Lake or by Athena, for the credential and for its addresses.",
        f'aws cloudtrail start-query --query-statement "{lake} ORDER BY eventTime"\n'
        f'aws athena start-query-execution --work-group primary --query-string "{athena} ORDER BY eventtime"',
    )
    issued = [row for row in suspicion.actions if row.action.partition(":")[2].startswith(_OPENS_SESSIONS)]
    if any(row.succeeded for row in issued):
        yield NextStep(
            "extent",
            "Follow the sessions that it opened: each has a key of its own, and did things under another name.",
            f"for region in {regions}; do\n"
            f'  aws cloudtrail lookup-events --region "$region" --start-time {since} --lookup-attributes '
            f"AttributeKey=EventName,AttributeValue=AssumeRole --query 'Events[].CloudTrailEvent'\n"
            "done",
        )


def _where(key_column: str, keys: Sequence[str], suspicion: Suspicion) -> str:
    """Return the condition of a query for the alert's access keys and addresses; column names are of any case."""
    sources = map(safe_argument, dict.fromkeys(event.source_address for event in suspicion.events))
    addresses = [each for each in sources if each and not each.endswith(".amazonaws.com")][:MAX_KEYS]
    parts = [f"{key_column} IN ({_sql_list(keys)})"] if keys else []
    parts += [f"sourceIPAddress IN ({_sql_list(addresses)})"] if addresses else []
    return " OR ".join(parts) or f"{key_column} = 'ACCESS_KEY_ID'"


def _sql_list(values: Sequence[str]) -> str:
    return ", ".join(f"'{each}'" for each in values)


def _regions(suspicion: Suspicion) -> list[str]:
    """Return the regions of an alert and us-east-1, where IAM and STS log; the most used first."""
    counts: dict[str, int] = {}
    for event in suspicion.events:
        name = safe_argument(event.region)
        if name:
            counts[name] = counts.get(name, 0) + 1
    found = sorted(counts, key=lambda name: (-counts[name], name))[:MAX_REGIONS]
    return [*found, *({"us-east-1"} - set(found))]


# --- undo ---------------------------------------------------------------------------------------------------------------


def _undo(suspicion: Suspicion) -> Iterator[NextStep]:
    """Yield how to undo the actions that succeeded and were new, the gravest first; what was only read cannot be set back."""
    calls: dict[str, list[AlertEvent]] = {}
    for event in suspicion.events:
        if not event.error_code:
            calls.setdefault(f"{event.service}:{event.action}", []).append(event)
    done = [
        row
        for row in suspicion.actions
        if row.succeeded and (row.new or row.new_place) and row.gravity != "minor"
    ]
    steps: list[NextStep] = []
    changes: list[ActionImpact] = []
    reads: list[ActionImpact] = []
    for row in done:
        called = calls.get(row.action, [])[:MAX_RECORDS_READ]
        step = undo_step(row.action, [_call_of(event) for event in called])
        if step and len(steps) < MAX_UNDO_STEPS:
            steps.append(NextStep(step.phase, f"{_subject(row)}. {step.text}", step.command))
        elif not _only_reads(row.action, called):
            changes.append(row)
        elif row.effect.startswith("reads"):
            reads.append(row)
    yield from steps
    if changes:
        how = "Compare with your infrastructure code or AWS Config, and set back what was changed by"
        yield NextStep("undo", f"{how} {_subjects(changes)}.")
    if reads:
        yield NextStep(
            "undo", f"Treat as known, and change where it is used, what was read by {_subjects(reads)}."
        )


def _only_reads(action: str, calls: Sequence[AlertEvent]) -> bool:
    """Return whether an action changes nothing, by its verb or by the records of its calls."""
    name = without_api_version(action).partition(":")[2].removeprefix("Batch")
    return not changes_something(name) or (bool(calls) and all(reads_only(each.raw) for each in calls))


def _subjects(rows: Sequence[ActionImpact]) -> str:
    named = ", ".join(_subject(row) for row in rows[:MAX_NAMED_ACTIONS])
    return named + (f" and {len(rows) - MAX_NAMED_ACTIONS:,} more" if len(rows) > MAX_NAMED_ACTIONS else "")


def _subject(row: ActionImpact) -> str:
    """Return the action and what it touched: `iam:CreateUser on user:eve`."""
    some = ", ".join(each[:100] for each in row.resources[:3])
    more = f" and {len(row.resources) - 3} more" if len(row.resources) > 3 else ""
    name = without_api_version(row.action)[:120]
    return f"{name} on {some}{more}" if some else name


def _call_of(event: AlertEvent) -> Call:
    """Return what a call's record names; nothing where the record is not kept or cannot be read."""
    try:
        read = _DECODER.decode(event.raw) if 0 < len(event.raw) <= MAX_RECORD_CHARACTERS else _Record()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        read = _Record()
    request = read.requestParameters if isinstance(read.requestParameters, dict) else {}
    response = read.responseElements if isinstance(read.responseElements, dict) else {}
    return Call(request, response, event.region, str(read.recipientAccountId or ""))
