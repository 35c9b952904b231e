"""Facts of an alert that the steps of a playbook need: its credential, access keys, addresses, regions and records.

Example:
    >>> credential_kind("123456789012:user/alice", ["AKIAIOSFODNN7EXAMPLE"])
    'access key'

Names come from records, so from attackers: what a command may hold is `playbook_undo.safe_argument`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, timedelta
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

from fingerprint.core.alert import GRAVE_OR_SEVERE, MINIMUM_URGENCY, AlertEvent
from fingerprint.core.people import names_person
from fingerprint.sources.base import CallImpact, Suspicion, gravest_calls, judge_calls
from fingerprint.sources.cloudtrail.identity import SSO_ROLE, is_anonymous
from fingerprint.sources.cloudtrail.impact import impact_of
from fingerprint.sources.cloudtrail.playbook_undo import Call, safe_argument
from fingerprint.sources.cloudtrail.record_members import decode_record

CredentialKind = Literal[
    "access key", "user session", "role session", "single sign-on", "root", "service", "unknown"
]
MAX_KEYS = 10  # access keys, machines and addresses named in commands
MAX_REGIONS = 50  # AWS has fewer
MAX_RECORDS_READ = 50  # of one action, for what to undo
BEFORE = timedelta(days=1)  # before the first event, from which everything of a credential is looked up
# How a question begins that no person is known for, and the channels: never one that the suspect session could answer.
ASKS_OWNER = "Ask the owner of "
IN_PERSON = ", by telephone or in person,"
BY_ANOTHER_CHANNEL = " by telephone or in person, not by mail or chat that the same login opens,"
SERVICE_DOMAIN = ".amazonaws.com"
BY_CERTIFICATE = "rolesanywhere:CreateSession"
_CENTER_SERVICES = frozenset(("sso", "sso-oauth"))  # of sign-ins at the portal, and of programs
_BY_SAML = "AssumeRoleWithSAML"
_CENTER_ROLE = "role:aws-reserved/sso.amazonaws.com/"  # only Identity Center makes roles there, for its own provider alone
_SERVICE_ROLE = "AWSServiceRoleFor"
# Where global services (IAM, the global STS) log, by what the regions of a partition begin with; us-east-1 in the others.
_GLOBAL_REGIONS = {"cn-": "cn-north-1", "us-gov-": "us-gov-west-1", "eusc-": "eusc-de-east-1"}
_GLOBAL_REGION = "us-east-1"


class RecordParts(msgspec.Struct):
    """The members of a record that steps are made of, of any type: an attacker may have written them."""

    userIdentity: Any = None
    additionalEventData: Any = None
    requestParameters: Any = None
    responseElements: Any = None
    awsRegion: Any = ""
    recipientAccountId: Any = ""
    sharedEventID: Any = ""


_DECODER = msgspec.json.Decoder(RecordParts)


def credential_kind(principal: str, keys: Sequence[str]) -> CredentialKind:
    """Return the kind of credential behind an alert, by its principal's key and its access keys."""
    name = principal_name(principal)
    match principal_type(principal):
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


def principal_type(principal: str) -> str:
    """Return what stands before the name in the key of a principal: `user`, `role`, `federated` ..."""
    return principal.partition(":")[2].partition("/")[0]


def principal_name(principal: str) -> str:
    """Return the name of the user or role in a principal's key, empty where AWS did not say it."""
    name = unquote(principal.partition(":")[2].partition("/")[2].partition("/")[0])
    return "" if name.startswith("?") else name


def center_user_id(suspicion: Suspicion) -> str:
    """Return the id of a user of Identity Center, by which records name them; empty for any other principal."""
    return (
        principal_name(suspicion.principal) if principal_type(suspicion.principal) == "identitycenter" else ""
    )


def center_roles(suspicion: Suspicion) -> list[str]:
    """Return the roles that someone opened by SAML from Identity Center, empty for any other provider.

    A role of Identity Center lets in no provider but Identity Center's own, whatever one of a thief's may be called. So a call
    that succeeded says it; the provider that a refused one names is the caller's word.
    """
    if principal_type(suspicion.principal) != "federated":
        return []
    opened = (
        event.resource.rpartition("/")[2]
        for event in suspicion.events
        if event.action == _BY_SAML and event.resource.startswith(_CENTER_ROLE) and not event.error_code
    )
    return list(dict.fromkeys(opened))


def signed_in_at_center(suspicion: Suspicion) -> bool:
    """Return whether all calls are sign-ins at Identity Center's portal by someone whom their records give no type and no id.

    Older records of the portal name a person so; newer ones have the type `IdentityCenterUser`.
    """
    services = {event.service for event in suspicion.events}
    return (
        principal_type(suspicion.principal) == "unknown" and bool(services) and services <= _CENTER_SERVICES
    )


def session_of_person(principal: str) -> str:
    """Return the session in the key of a person at a role, empty for a role alone."""
    return unquote(principal.partition(":")[2].partition("/")[2].partition("/")[2])


def account_number(text: str) -> str:
    """Return an account's number, empty for a text that is none."""
    return text if len(text) == 12 and text.isascii() and text.isdigit() else ""


def calling_service(suspicion: Suspicion) -> str:
    """Return the AWS service that made all calls of a role that no person holds, as CloudFormation does; empty for none.

    In a session that a person opened it called for that person.
    """
    sources = {event.source_address for event in suspicion.events}
    service = min(sources, default="")
    if len(sources) != 1 or not service.endswith(SERVICE_DOMAIN):
        return ""
    role = credential_kind(suspicion.principal, ()) == "role session"
    held = session_of_person(suspicion.principal) or any(
        names_person(each.session) for each in suspicion.events
    )
    return service if role and not held else ""


def access_keys(suspicion: Suspicion) -> list[str]:
    """Return the access keys of an alert, the most used first."""
    counts: dict[str, int] = {}
    for event in suspicion.events:
        if event.access_key:
            counts[event.access_key] = counts.get(event.access_key, 0) + 1
    return sorted(counts, key=lambda key: (-counts[key], key))


def safe_access_keys(suspicion: Suspicion) -> list[str]:
    """Return the access keys that commands have."""
    return [each for each in map(safe_argument, access_keys(suspicion)) if each][:MAX_KEYS]


def own_addresses(suspicion: Suspicion) -> list[str]:
    """Return the distinct addresses of an alert that are no service's."""
    found = dict.fromkeys(event.source_address for event in suspicion.events)
    return [each for each in found if each and not each.endswith(SERVICE_DOMAIN)]


def safe_addresses(suspicion: Suspicion) -> list[str]:
    """Return the first of them that a command may hold."""
    return [each for each in map(safe_argument, own_addresses(suspicion)) if each][:MAX_KEYS]


def regions_of(suspicion: Suspicion) -> list[str]:
    """Return the regions of an alert, the most used first, and where IAM and STS log."""
    counts: dict[str, int] = {}
    for event in (*suspicion.events, *suspicion.supporting):
        name = safe_argument(event.region)
        if name:
            counts[name] = counts.get(name, 0) + 1
    found = sorted(counts, key=lambda name: (-counts[name], name))[:MAX_REGIONS]
    return list(dict.fromkeys((*found, global_region(found))))


def global_region(regions: Sequence[str]) -> str:
    """Return where the global services of the partition log in which most calls were made."""
    first = regions[0] if regions else ""
    return next(
        (name for begins, name in _GLOBAL_REGIONS.items() if first.startswith(begins)), _GLOBAL_REGION
    )


def look_up_from(suspicion: Suspicion) -> str:
    """Return the time from which a credential is looked up, a day before the alert, in UTC."""
    return f"{suspicion.events[0].event_time.astimezone(UTC) - BEFORE:%Y-%m-%dT%H:%M:%SZ}"


def look_up_names(suspicion: Suspicion) -> list[str]:
    """Return what CloudTrail calls the user behind an alert: a role's is the name of the session, never the role's.

    That of a federated one is its subject, as the records have it: with the run of a pipeline, which the principal lacks.
    """
    sessions = dict.fromkeys(event.session for event in suspicion.events)
    named: dict[str, Iterable[str]] = {"root": ["root"], "user": [principal_name(suspicion.principal)]}
    if principal_type(suspicion.principal) == "federated":
        read = (recorded_user_name(event) for event in first_events(suspicion))
        named["federated"] = dict.fromkeys([suspicion.human, *read])
    return [
        each for each in map(safe_argument, named.get(principal_type(suspicion.principal), sessions)) if each
    ]


def value_or_word(value: str, word: str) -> str:
    """Return a value if a command may hold it, else a word in capitals to be filled in."""
    return safe_argument(value) or word


def first_events(suspicion: Suspicion) -> Sequence[AlertEvent]:
    """Return the events of an alert whose records are read."""
    return suspicion.events[:MAX_RECORDS_READ]


def call_of(event: AlertEvent) -> Call:
    """Return what a call's record names; nothing where the record is not kept or cannot be read."""
    read = read_record(event)
    request = read.requestParameters if isinstance(read.requestParameters, dict) else {}
    response = read.responseElements if isinstance(read.responseElements, dict) else {}
    return Call(request, response, event.region, str(read.recipientAccountId or ""))


def session_context(event: AlertEvent) -> dict[str, Any]:
    """Return what a call's record says of its session, empty for nothing."""
    identity = read_record(event).userIdentity
    context = identity.get("sessionContext") if isinstance(identity, dict) else None
    return context if isinstance(context, dict) else {}


def recorded_user_name(event: AlertEvent) -> str:
    """Return the name of the user in a call's record, empty for none."""
    identity = read_record(event).userIdentity
    name = identity.get("userName") if isinstance(identity, dict) else ""
    return name if isinstance(name, str) else ""


def read_record(event: AlertEvent) -> RecordParts:
    """Return the members of an event's record; nothing where it is not kept, is too long, or cannot be read."""
    return decode_record(_DECODER, event.raw) or RecordParts()


def is_urgent(suspicion: Suspicion) -> bool:
    """Return whether containing comes before asking: what is urgent, and new by its place or tool or by grave harm done."""
    harmed = any(row.new and row.succeeded and row.gravity in GRAVE_OR_SEVERE for row in suspicion.actions)
    return suspicion.urgency >= MINIMUM_URGENCY["high"] and (suspicion.from_new_origin or harmed)


def is_foreign(suspicion: Suspicion) -> bool:
    """Return whether the caller is of another account than the log's, and of none that is known to be one's own."""
    return is_of_other_account(suspicion) and not suspicion.knows_account


def is_of_other_account(suspicion: Suspicion) -> bool:
    """Return whether the caller is of another account than the log's, one's own or not."""
    return principal_type(suspicion.principal) == "account" and not is_anonymous(suspicion.principal)


def gravest_of(calls: Sequence[AlertEvent]) -> tuple[CallImpact, list[AlertEvent]]:
    """Return the gravest impact of an action's calls, and the calls that have its gravity."""
    return gravest_calls(calls, judge_calls(impact_of, calls))


def names_resource(text: str, resource: str) -> bool:
    """Return whether a text is of a resource, with the accounts behind it or without: `role:Operator in 2 accounts: ...`."""
    return text == resource or text.startswith(
        tuple(f"{resource} {word} ".lstrip() for word in ("in", "for"))
    )
