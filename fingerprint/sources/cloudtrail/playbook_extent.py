"""The extent of an alert: steps that list what else its credential did, and the sessions that it opened.

Example:
    >>> [step.phase for step in extent_steps(suspicion)]
    ['extent', 'extent']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fingerprint.core.alert import NextStep
from fingerprint.core.people import names_person
from fingerprint.sources.base import Suspicion
from fingerprint.sources.cloudtrail.identity import SSO_ROLE, is_nameless
from fingerprint.sources.cloudtrail.playbook_facts import (
    BY_CERTIFICATE,
    MAX_KEYS,
    SERVICE_DOMAIN,
    access_keys,
    center_user_id,
    global_region,
    look_up_from,
    look_up_names,
    own_addresses,
    principal_name,
    principal_type,
    regions_of,
    safe_access_keys,
    safe_addresses,
    value_or_word,
)
from fingerprint.sources.cloudtrail.playbook_undo import not_shown, safe_argument

# Prefixes of the actions that open a session.
_OPENS_SESSIONS = ("AssumeRole", "AssumeRoot", "GetSessionToken", "GetFederationToken")
_CENTER_SERVICES = ("signin", "sso")  # where a sign-in to Identity Center is logged
_LAKE = (
    "SELECT eventTime, recipientAccountId, eventSource, eventName, errorCode, sourceIPAddress, userIdentity.arn "
    "FROM EVENT_DATA_STORE_ID"
)
_ATHENA = (
    "SELECT eventtime, recipientaccountid, eventsource, eventname, errorcode, sourceipaddress, useridentity.arn "
    "FROM cloudtrail_logs"
)


def extent_steps(suspicion: Suspicion) -> Iterator[NextStep]:
    """Yield how to list what else the credential did: in its regions, in other accounts, and in sessions that it opened."""
    if _is_service(suspicion):
        who = "the service's calls of these actions since a day before, and look who changed what it acts for"
        yield _extent_by_calls(
            suspicion, who, [value_or_word(principal_name(suspicion.principal), "SERVICE_NAME")]
        )
        return
    if center_user_id(suspicion):
        yield from _extent_of_center_user(suspicion)
        return
    keys = safe_access_keys(suspicion)
    more = not_shown(len(access_keys(suspicion)) - len(keys), "access key")
    if is_nameless(suspicion.principal) and not keys:
        who = "who made these calls from the alert's addresses since a day before"
        yield _extent_by_calls(suspicion, who, safe_addresses(suspicion))
    else:
        yield _extent_of_credential(suspicion, keys, more)
    what = "Search data events and other accounts too, in CloudTrail Lake or by Athena, for the credential and for its addresses."
    yield _search_logs(suspicion, f"{what}{more}", "userIdentity.accessKeyId", keys)
    yield from _follow_sessions(suspicion, more)


def _follow_sessions(suspicion: Suspicion, more: str) -> Iterator[NextStep]:
    """Yield how to follow the sessions that an alert's calls opened, if any did."""
    opened = [
        row.action.partition(":")[2]
        for row in suspicion.actions
        if row.succeeded and _opens_sessions(row.action) and safe_argument(row.action)
    ]
    if opened:
        openers = [event for event in suspicion.supporting if _opens_sessions(event.action_name)]
        yield NextStep(
            "extent",
            "Follow the sessions that it opened: each has a key of its own (responseElements.credentials), and did things under "
            "another name." + more,
            find_opened_sessions(
                suspicion._replace(events=(*suspicion.events, *openers)), opened, safe_addresses(suspicion)
            ),
        )


def _search_logs(
    suspicion: Suspicion, what: str, column: str, values: Sequence[str], or_where: str = ""
) -> NextStep:
    """Return how to search all logs, in CloudTrail Lake or by Athena, for values of a column and for the alert's addresses.

    Columns of Lake are spelled as in records, those of Athena in small letters. `or_where` is another condition, joined by OR.
    """
    since = look_up_from(suspicion)
    more = f"{or_where} OR " if or_where else ""
    lake, athena = (more + _where(name, values, suspicion) for name in (column, column.lower()))
    return NextStep(
        "extent",
        what + not_shown(len(own_addresses(suspicion)) - len(safe_addresses(suspicion)), "address"),
        "aws cloudtrail start-query --query-statement "
        f"\"{_LAKE} WHERE eventTime > '{since[:10]} {since[11:19]}' AND ({lake}) ORDER BY eventTime\"\n"
        "aws athena start-query-execution --work-group primary --query-string "
        f"\"{_ATHENA} WHERE eventtime > '{since}' AND ({athena}) ORDER BY eventtime\"",
    )


def _extent_of_credential(suspicion: Suspicion, keys: Sequence[str], more: str) -> NextStep:
    """Return how to list what a credential did, by its access keys or, without keys, by CloudTrail's name of its user."""
    names = [] if keys else look_up_names(suspicion)
    regions = regions_of(suspicion)
    attribute = (
        [f"AttributeKey=AccessKeyId,AttributeValue={key}" for key in keys]
        or [f"AttributeKey=Username,AttributeValue={each}" for each in names[:MAX_KEYS] or ["USER_NAME"]]
    )  # fmt: skip
    return NextStep(
        "extent",
        "List everything that the credential did since a day before, in the alert's regions and where global services log "
        f"({global_region(regions)}). Add the other regions that are in use: each has a history of its own."
        f"{more}{not_shown(len(names) - MAX_KEYS, 'session')}",
        f"for region in {' '.join(regions)}; do\n"
        + "".join(
            f'  aws cloudtrail lookup-events --region "$region" --start-time {look_up_from(suspicion)} '
            f"--lookup-attributes {each}\n"
            for each in attribute
        )
        + "done",
    )


def _extent_by_calls(suspicion: Suspicion, who: str, having: Sequence[str]) -> NextStep:
    """Return how to list what a caller without a credential did: calls of the same actions with a text of `having` in them.

    `who` says in the text of the step what is listed.
    """
    calls = dict.fromkeys(safe_argument(each.action) for each in suspicion.events)
    names = [each for each in calls if each][:MAX_KEYS]
    return NextStep(
        "extent",
        f"There is no credential to follow. List {who}. Add the other regions that are in use."
        + not_shown(len(calls) - len(names), "call"),
        _look_up_each(suspicion, "EventName", names or ["EVENT_NAME"], having),
    )


def _extent_of_center_user(suspicion: Suspicion) -> Iterator[NextStep]:
    """Yield how to find what a user of Identity Center did, by the user's id, and what the user's sessions at roles did.

    These sessions have the user's name. AWS promises the user's id (`onBehalfOf`) only in calls to Identity Center and in
    identity-enhanced sessions; ordinary sessions are not such (IAM Identity Center user guide).
    """
    user = value_or_word(center_user_id(suspicion), "USER_ID")
    services = dict.fromkeys(
        (*_CENTER_SERVICES, *(safe_argument(event.service) for event in suspicion.events))
    )
    sources = [f"{each}{SERVICE_DOMAIN}" for each in services if each]
    yield NextStep(
        "extent",
        "List how the person signed in, and which roles they took, since a day before. The history of events knows no user's id, "
        "so each event of these services is looked through. Add the other regions that are in use.",
        _look_up_each(suspicion, "EventSource", sources, [user]),
    )
    named = safe_argument(suspicion.human) if names_person(suspicion.human) else ""
    fill_in = "" if named else " USER_NAME is the one that describe-user shows: without it nothing is found."
    what = (
        "Search all accounts, in CloudTrail Lake or by Athena, for what the person's sessions at roles did. Their records have "
        f"the user's name as that of the session, and not always the user's id.{fill_in}"
    )
    sessions = f"userIdentity.arn LIKE '%:assumed-role/{SSO_ROLE}%/{named or 'USER_NAME'}'"
    yield _search_logs(suspicion, what, "userIdentity.onBehalfOf.userId", [user], sessions)


def _is_service(suspicion: Suspicion) -> bool:
    """Return whether AWS itself acted, without a credential that could be stolen."""
    return principal_type(suspicion.principal) == "service"


def find_opened_sessions(suspicion: Suspicion, actions: Sequence[str], by: Sequence[str] = ()) -> str:
    """Return the command that lists calls that opened a session and whose record has an access key of the alert.

    If the alert has no key, the record must have one of the texts `by`.
    """
    return _look_up_each(
        suspicion, "EventName", list(dict.fromkeys(actions)), safe_access_keys(suspicion) or by
    )


def _look_up_each(suspicion: Suspicion, key: str, values: Sequence[str], having: Sequence[str]) -> str:
    """Return the command that looks up events by each value of a lookup key, and keeps those with a text of `having`."""
    each = key.removeprefix("Event").lower()
    return (
        f"for region in {' '.join(regions_of(suspicion))}; do\n"
        f"  for {each} in {' '.join(values)}; do\n"
        f'    aws cloudtrail lookup-events --region "$region" --start-time {look_up_from(suspicion)} --lookup-attributes '
        f'AttributeKey={key},AttributeValue="${each}" {_having(having)}\n'
        "  done\n"
        "done"
    )


def _opens_sessions(action: str) -> bool:
    return action == BY_CERTIFICATE or action.partition(":")[2].startswith(_OPENS_SESSIONS)


def _having(values: Sequence[str]) -> str:
    """Return the option that keeps those looked-up events whose record has one of some texts."""
    has = " || ".join(f"contains(CloudTrailEvent,'{each}')" for each in values or ["ACCESS_KEY_ID"])
    return f'--query "Events[?{has}].CloudTrailEvent"'


def _where(key_column: str, keys: Sequence[str], suspicion: Suspicion) -> str:
    """Return the condition of a query: one of some keys, or one of the alert's addresses. SQL ignores the case of columns."""
    addresses = safe_addresses(suspicion)
    parts = [f"{key_column} IN ({_sql_list(keys)})"] if keys else []
    parts += [f"sourceIPAddress IN ({_sql_list(addresses)})"] if addresses else []
    return " OR ".join(parts) or f"{key_column} = 'ACCESS_KEY_ID'"


def _sql_list(values: Sequence[str]) -> str:
    return ", ".join(f"'{each}'" for each in values)
