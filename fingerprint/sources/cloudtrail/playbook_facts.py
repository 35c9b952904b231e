"""Facts of an alert that the steps of the playbook need: its credential, access keys, addresses, regions and records.

Example:
    >>> credential_kind("123456789012:user/alice", ["AKIAIOSFODNN7EXAMPLE"])
    'access key'

Names come from records, so an attacker may have written them: `playbook_undo.safe_argument` says what a command may hold.
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
MAX_RECORDS_READ = 50  # of one action, to undo its calls
BEFORE = timedelta(days=1)  # how long before its first event an alert's credential is looked up
# The beginning of a question if no person is known, and the channels of questions: none that the suspect session could answer.
ASKS_OWNER = "Ask the owner of "
IN_PERSON = ", by telephone or in person,"
BY_ANOTHER_CHANNEL = " by telephone or in person, not by mail or chat that the same login opens,"
SERVICE_DOMAIN = ".amazonaws.com"
BY_CERTIFICATE = "rolesanywhere:CreateSession"
_CENTER_SERVICES = frozenset(("sso", "sso-oauth"))  # services of sign-ins at the portal and by programs
_BY_SAML = "AssumeRoleWithSAML"
_CENTER_ROLE = "role:aws-reserved/sso.amazonaws.com/"  # only Identity Center makes roles there, and only its provider opens them
_SERVICE_ROLE = "AWSServiceRoleFor"
# The region where global services (IAM, the global STS) log, by the prefix of the partition's regions; else us-east-1.
_GLOBAL_REGIONS = {"cn-": "cn-north-1", "us-gov-": "us-gov-west-1", "eusc-": "eusc-de-east-1"}
_GLOBAL_REGION = "us-east-1"


class RecordParts(msgspec.Struct):
    """The members of a record that steps use. An attacker may have written them, so they can have any type."""

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
    """Return the type in the key of a principal, which is before the name: `user`, `role`, `federated` ..."""
    return principal.partition(":")[2].partition("/")[0]


def principal_name(principal: str) -> str:
    """Return the name of the user or role in a principal's key; empty if AWS did not give the name."""
    name = unquote(principal.partition(":")[2].partition("/")[2].partition("/")[0])
    return "" if name.startswith("?") else name


def center_user_id(suspicion: Suspicion) -> str:
    """Return the id of a user of Identity Center; empty for any other principal."""
    return (
        principal_name(suspicion.principal) if principal_type(suspicion.principal) == "identitycenter" else ""
    )


def center_roles(suspicion: Suspicion) -> list[str]:
    """Return the roles of Identity Center that a federated principal opened by SAML; empty for any other provider.

    Only calls that succeeded count. A role of Identity Center lets in only Identity Center's own provider, so a success proves
    the provider. A refused call can name any provider.
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
    """Return whether all calls are sign-ins at Identity Center's portal by a person without a type and an id.

    Older records of the portal name people in this way; newer ones have the type `IdentityCenterUser`.
    """
    services = {event.service for event in suspicion.events}
    return (
        principal_type(suspicion.principal) == "unknown" and bool(services) and services <= _CENTER_SERVICES
    )


def session_of_person(principal: str) -> str:
    """Return the session name in the key of a person at a role; empty for a role that is a principal itself."""
    return unquote(principal.partition(":")[2].partition("/")[2].partition("/")[2])


def account_number(text: str) -> str:
    """Return a text if it is an account's number, else an empty one."""
    return text if len(text) == 12 and text.isascii() and text.isdigit() else ""


def calling_service(suspicion: Suspicion) -> str:
    """Return the AWS service that made all calls with a role, as CloudFormation does; empty if there is none.

    Also empty if a person opened a session: there the service called for that person.
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
    """Return the access keys that commands name: the most used ones that are safe, MAX_KEYS at most."""
    return [each for each in map(safe_argument, access_keys(suspicion)) if each][:MAX_KEYS]


def own_addresses(suspicion: Suspicion) -> list[str]:
    """Return the distinct source addresses of an alert, without the domains of AWS services."""
    found = dict.fromkeys(event.source_address for event in suspicion.events)
    return [each for each in found if each and not each.endswith(SERVICE_DOMAIN)]


def safe_addresses(suspicion: Suspicion) -> list[str]:
    """Return the addresses of an alert that commands name: the first ones that are safe, MAX_KEYS at most."""
    return [each for each in map(safe_argument, own_addresses(suspicion)) if each][:MAX_KEYS]


def regions_of(suspicion: Suspicion) -> list[str]:
    """Return the regions of an alert, the most used first, and the region where IAM and the global STS log."""
    counts: dict[str, int] = {}
    for event in (*suspicion.events, *suspicion.supporting):
        name = safe_argument(event.region)
        if name:
            counts[name] = counts.get(name, 0) + 1
    found = sorted(counts, key=lambda name: (-counts[name], name))[:MAX_REGIONS]
    return list(dict.fromkeys((*found, global_region(found))))


def global_region(regions: Sequence[str]) -> str:
    """Return the region where global services log, in the partition of the first of some regions."""
    first = regions[0] if regions else ""
    return next(
        (name for begins, name in _GLOBAL_REGIONS.items() if first.startswith(begins)), _GLOBAL_REGION
    )


def look_up_from(suspicion: Suspicion) -> str:
    """Return the time from which a credential is looked up: a day before the alert's first event, in UTC."""
    return f"{suspicion.events[0].event_time.astimezone(UTC) - BEFORE:%Y-%m-%dT%H:%M:%SZ}"


def look_up_names(suspicion: Suspicion) -> list[str]:
    """Return the user names under which CloudTrail looks up an alert's calls.

    For a role that is the name of the session, never of the role. For a federated principal it is the subject in the records,
    which also has the run of a pipeline; the principal lacks that.
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
    """Return a value if it is safe in a command, else a word in capitals to be filled in."""
    return safe_argument(value) or word


def first_events(suspicion: Suspicion) -> Sequence[AlertEvent]:
    """Return the events of an alert whose records are read."""
    return suspicion.events[:MAX_RECORDS_READ]


def call_of(event: AlertEvent) -> Call:
    """Return request, response, region and account of a call; only the region if its record is not kept or cannot be read."""
    read = read_record(event)
    request = read.requestParameters if isinstance(read.requestParameters, dict) else {}
    response = read.responseElements if isinstance(read.responseElements, dict) else {}
    return Call(request, response, event.region, str(read.recipientAccountId or ""))


def session_context(event: AlertEvent) -> dict[str, Any]:
    """Return the `sessionContext` of a call's record; empty if it has none."""
    identity = read_record(event).userIdentity
    context = identity.get("sessionContext") if isinstance(identity, dict) else None
    return context if isinstance(context, dict) else {}


def recorded_user_name(event: AlertEvent) -> str:
    """Return the name of the user in a call's record; empty if it has none."""
    identity = read_record(event).userIdentity
    name = identity.get("userName") if isinstance(identity, dict) else ""
    return name if isinstance(name, str) else ""


def read_record(event: AlertEvent) -> RecordParts:
    """Return the members of an event's record; empty if the record is not kept, is too long, or cannot be read."""
    return decode_record(_DECODER, event.raw) or RecordParts()


def is_urgent(suspicion: Suspicion) -> bool:
    """Return whether containing comes before asking: a high urgency with a new place, a new tool or new grave harm."""
    harmed = any(row.new and row.succeeded and row.gravity in GRAVE_OR_SEVERE for row in suspicion.actions)
    return suspicion.urgency >= MINIMUM_URGENCY["high"] and (suspicion.from_new_origin or harmed)


def is_foreign(suspicion: Suspicion) -> bool:
    """Return whether the caller is of another account than the log's, and that account is not known as the organisation's."""
    return is_of_other_account(suspicion) and not suspicion.knows_account


def is_of_other_account(suspicion: Suspicion) -> bool:
    """Return whether the caller is of another account than the log's, whether the organisation's own or not."""
    return principal_type(suspicion.principal) == "account" and not is_anonymous(suspicion.principal)


def gravest_of(calls: Sequence[AlertEvent]) -> tuple[CallImpact, list[AlertEvent]]:
    """Return the gravest impact of an action's calls, and the calls of that gravity."""
    return gravest_calls(calls, judge_calls(impact_of, calls))


def names_resource(text: str, resource: str) -> bool:
    """Return whether a text names a resource, alone or with its accounts: `role:Operator in 2 accounts: ...`."""
    return text == resource or text.startswith(
        tuple(f"{resource} {word} ".lstrip() for word in ("in", "for"))
    )
