"""The question of an alert: whom to ask about which calls, by a channel that a thief could not answer.

Example:
    >>> verify_step(suspicion).text
    'Ask ann@example.com by telephone or in person, not by mail or chat that the same login opens, ...'
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from fingerprint.core.alert import GRAVE_OR_SEVERE, ActionImpact, AlertEvent, NextStep, on_resources
from fingerprint.core.people import SESSION_NAMES_CHOSEN, names_person, other_sessions, session_names
from fingerprint.core.related_events import find_cause, succeeded_beside
from fingerprint.sources.base import Suspicion
from fingerprint.sources.cloudtrail.action_verbs import changes_something
from fingerprint.sources.cloudtrail.attack_mappings import without_api_version
from fingerprint.sources.cloudtrail.credential_facts import signed_in_without_mfa
from fingerprint.sources.cloudtrail.identity import (
    is_anonymous,
    is_nameless,
    person_and_access,
    plain_principal,
)
from fingerprint.sources.cloudtrail.playbook_contain import find_person
from fingerprint.sources.cloudtrail.playbook_facts import (
    ASKS_OWNER,
    BY_ANOTHER_CHANNEL,
    IN_PERSON,
    account_number,
    calling_service,
    center_user_id,
    credential_kind,
    gravest_of,
    is_foreign,
    is_of_other_account,
    is_urgent,
    names_resource,
    principal_name,
    principal_type,
    read_record,
    safe_addresses,
    signed_in_at_center,
    value_or_word,
)
from fingerprint.sources.cloudtrail.playbook_undo import safe_argument


def verify_step(suspicion: Suspicion) -> NextStep:
    """Return the question to ask, by a channel that the suspect session could not answer."""
    own = _gravest_new(suspicion)
    gravest = [*_graver_done_there(suspicion, own), *own]
    event = _event_of(suspicion, gravest[0].action) if gravest else suspicion.lead or suspicion.events[0]
    human = _person(suspicion, event)
    who = _whom_to_ask(suspicion, event, human)
    when = f"at {event.event_time.astimezone(UTC):%H:%M} UTC on {event.event_time.astimezone(UTC):%d %B}"
    sessions = "" if human and not is_foreign(suspicion) else session_names(suspicion.events)
    chosen = f" Session names ({SESSION_NAMES_CHOSEN}): {sessions}." if sessions else ""
    if not sessions and (others := other_sessions(human, suspicion.events)):
        chosen = f" They answer for their own session alone; there are calls of others here: {others}."
    # Services and callers without credentials have no credential that could be stolen.
    may_be_stolen = not _acts_by_itself(suspicion) and not is_anonymous(suspicion.principal)
    until = " Until they confirm it, treat it as stolen." if is_urgent(suspicion) and may_be_stolen else ""
    return NextStep(
        "verify",
        f"{who} about {_as_own(suspicion, event, human, _what_to_ask(suspicion, event, gravest))} {when}.{chosen}"
        f"{_own_record(suspicion)}{until}{_why_new(suspicion)}{_own_doing(suspicion, who, human)}",
        "" if names_person(human) else _who_it_is_command(suspicion),
    )


def _as_own(suspicion: Suspicion, event: AlertEvent, human: str, what: str) -> str:
    """Return what to ask about. If a service made the call for a person, that is the person's own call to the service, if known.

    >>> _as_own(suspicion, decrypt, "ann@example.com", "kms:Decrypt on key:d7a6")
    'secretsmanager:GetSecretValue on secret:db, for which secretsmanager.amazonaws.com called kms:Decrypt on key:d7a6,'
    """
    service = event.by_service[:100]
    if not service or not names_person(human):
        return what
    cause = find_cause(event, (*suspicion.events, *suspicion.supporting), changes_something)
    if not cause:
        return f"what they did with {service}, which called {what} for them,"
    on = on_resources([cause.resource[:200]] if cause.resource else [])
    return f"{without_api_version(cause.action_name)[:200]}{on}, for which {service} called {what},"


def _acts_by_itself(suspicion: Suspicion) -> bool:
    """Return whether no person is behind the calls: the caller is a service, or has a role that only a service assumes."""
    return credential_kind(suspicion.principal, ()) == "service"


def _what_to_ask(suspicion: Suspicion, event: AlertEvent, gravest: Sequence[ActionImpact]) -> str:
    """Return the calls to ask about, with the new place of `event`.

    Actions that were not called from that place are counted after it, as made in other regions or from elsewhere.
    """
    if not gravest:
        return suspicion.questioned[:400] or "this"
    at = _own_call(suspicion, event)
    region = suspicion.new_regions.get(at.event_id, "")
    where = f" in {region[:40]} (new region)" if region else ""
    where += suspicion.new_origins.get(at.event_id, "")[:200]
    there = _called_there(suspicion, at) if where else {row.action for row in gravest}
    there |= {row.action for row in gravest if row.supporting}
    beside = [row for row in gravest[1:] if row.action in there]
    apart = {row.action for row in gravest[1:]} - there if not suspicion.cut else set()
    return _named([gravest[0], *beside], event, suspicion.cut) + where + _apart(suspicion, event, apart)


def _own_call(suspicion: Suspicion, event: AlertEvent) -> AlertEvent:
    """Return an event if it is the alert's own, else the alert's own call from the same address that is most like it.

    Only the alert's own calls have a known new place. Without one from that address, the event itself is returned.
    """
    if event in suspicion.events:
        return event
    from_there = [each for each in suspicion.events if each.source_address == event.source_address]
    same = (each for each in from_there if each.action_name == event.action_name)
    way = (event.user_agent, event.region)
    alike = (each for each in from_there if (each.user_agent, each.region) == way)
    return next(same, next(alike, event))


def _called_there(suspicion: Suspicion, event: AlertEvent) -> set[str]:
    """Return the actions that were called from the same new place as an event, and in the same region if the region is new."""
    region = suspicion.new_regions.get(event.event_id)
    return {
        each.action_name
        for each in _from_there(suspicion, event)
        if suspicion.new_regions.get(each.event_id) == region
    }


def _apart(suspicion: Suspicion, event: AlertEvent, apart: set[str]) -> str:
    """Return the words that count the actions `apart`: from the place of an event in other regions, and from elsewhere."""
    regions = len(apart & {each.action_name for each in _from_there(suspicion, event)})
    counts = ((regions, "in other regions"), (len(apart) - regions, "from elsewhere"))
    return "".join(f" and {_other_actions(count)} {where}" for count, where in counts if count)


def _other_actions(count: int) -> str:
    """Return a count of further actions; '1 other' without the noun would read as another resource or tool."""
    return f"{count:,} other action{'s' * (count > 1)}"


def _from_there(suspicion: Suspicion, event: AlertEvent) -> list[AlertEvent]:
    origin = suspicion.new_origins.get(event.event_id)
    return [each for each in suspicion.events if suspicion.new_origins.get(each.event_id) == origin]


def _whom_to_ask(suspicion: Suspicion, event: AlertEvent, human: str) -> str:
    """Return whom to ask, as the beginning of a sentence. A foreign caller may choose any session name, so it names no person."""
    name = principal_name(suspicion.principal)
    if names_person(human) and not is_foreign(suspicion):
        return f"Ask {human[:100]}{BY_ANOTHER_CHANNEL}"
    if center_user_id(suspicion):
        return f"Ask the person who is user {name[:100]} of IAM Identity Center, by telephone or in person,"
    if service := calling_service(suspicion):
        return f"{service[:100]} acted with role {name[:100]}: ask who told it to, by telephone or in person,"
    if is_anonymous(suspicion.principal):
        owner = f"the owner of {event.resource[:200] or 'what they reached'}"
        return f"The calls had no credentials. Ask {owner}, by telephone or in person, whether it is public on purpose, and"
    if is_nameless(suspicion.principal):
        return f"The log does not name the caller: ask {_owner_of_addresses(suspicion)}, by telephone or in person,"
    if _acts_by_itself(suspicion):
        return f"No person is behind {name[:100]}: ask who set it up or changed last what it acts for, by telephone or in person,"
    return f"{ASKS_OWNER}{_owned(suspicion.principal)[:200]}{IN_PERSON}"


def _who_it_is_command(suspicion: Suspicion) -> str:
    """Return the command that shows who owns the principal; empty if AWS has none."""
    name = principal_name(suspicion.principal)
    return {
        "user": f"aws iam list-user-tags --user-name {value_or_word(name, 'USER_NAME')}",
        "role": f"aws iam list-role-tags --role-name {value_or_word(name, 'ROLE_NAME')}",
        "identitycenter": find_person("", value_or_word(name, "USER_ID")),
    }.get("" if _acts_by_itself(suspicion) else principal_type(suspicion.principal), "")


def _own_doing(suspicion: Suspicion, who: str, human: str) -> str:
    """Return the advice to ask a manager first, if usual place and tool make a thief unlikely: the question warns an insider."""
    if (
        suspicion.from_new_origin
        or suspicion.new_origins
        or suspicion.first_seen
        or not who.startswith("Ask ")
        or is_foreign(suspicion)
    ):
        return ""
    if not (center_user_id(suspicion) or names_person(human)):
        return ""
    return " Network and tool are usual: where it may be their own doing, ask their manager first, for the question warns them."


def _owner_of_addresses(suspicion: Suspicion) -> str:
    """Return whom to ask about callers without a name: the owner of what calls from their addresses."""
    account, sources = account_number(suspicion.principal.partition(":")[0]), safe_addresses(suspicion)
    what = f"what calls from {', '.join(sources)}" if sources else "what makes such calls"
    return f"who owns {what}" + (f" in account {account}" if account else "")


def _own_record(suspicion: Suspicion) -> str:
    """Return where to read who the caller is, for a caller from another account of the organisation; else empty."""
    if not is_of_other_account(suspicion) or not suspicion.knows_account:
        return ""
    shared = safe_argument(read_record(suspicion.lead or suspicion.events[0]).sharedEventID)
    same = f"sharedEventID {shared}" if shared else "the same sharedEventID"
    return (
        f" That account is one of the organisation's own: the record with {same} in its log names the caller."
    )


def _why_new(suspicion: Suspicion) -> str:
    """Return what to ask about a newcomer: who made it or, for a person, who gave them the access.

    Empty for the root user, services and the public, which are no newcomers.
    """
    is_made = credential_kind(suspicion.principal, ()) not in ("root", "service")
    if not suspicion.first_seen or not is_made or is_anonymous(suspicion.principal):
        return ""
    judged = f"judged by what others do ({suspicion.first_seen})"
    of_center = center_user_id(suspicion) or signed_in_at_center(suspicion)
    if of_center or person_and_access(suspicion.principal)[0]:
        return f" They are {judged}: ask who gave them this access, and what for."
    return f" It is {judged}: ask who made it or uses it again, and what for."


def _owned(principal: str) -> str:
    """Return the words for a principal: its key; if it is federated, subject and account; if of another account, that account."""
    account = principal.partition(":")[0]
    match principal_type(principal):
        case "federated":
            return f"{plain_principal(principal)} in account {account}"
        case "account":
            return f"account {account} (its caller {principal_name(principal)})"
    return principal


def _gravest_new(suspicion: Suspicion) -> list[ActionImpact]:
    """Return the alert's own actions that were new and more than minor, the gravest first, those that only failed last.

    If there are none, or only notable ones without the leading action, return all new actions, the leading one first. Empty if
    the leading action is not among them: then it is a read, and the question is about it.
    """
    new = [row for row in suspicion.actions if row.is_unusual and not row.supporting]
    new.sort(key=lambda row: not row.succeeded)
    graver = [row for row in new if row.gravity != "minor"]
    if not suspicion.lead:
        return graver or new
    lead = suspicion.lead.action_name
    if any(row.action == lead or row.gravity != "notable" for row in graver):
        return graver
    leading = [row for row in new if row.action == lead]
    return [*leading, *(row for row in new if row.action != lead)] if leading else []


def _graver_done_there(suspicion: Suspicion, own: Sequence[ActionImpact]) -> list[ActionImpact]:
    """Return the supporting actions to ask about first: grave, new and done from an address of the alert's own calls.

    `own` are the alert's own actions to ask about. If one of them did such harm, the result is empty.
    """
    if any(row.succeeded and row.gravity_anywhere in GRAVE_OR_SEVERE for row in own):
        return []
    done = {event.action_name for event in _done_there(suspicion)}
    known = {row.action for row in own}
    return [
        row
        for row in suspicion.actions
        if row.supporting
        and row.new
        and row.gravity in GRAVE_OR_SEVERE
        and row.action in done
        and row.action not in known
    ]


def _done_there(suspicion: Suspicion) -> list[AlertEvent]:
    """Return the supporting events that succeeded and came from an address of the alert's own events."""
    addresses = {event.source_address for event in suspicion.events}
    return [each for each in suspicion.supporting if not each.error_code and each.source_address in addresses]


def _named(graver: Sequence[ActionImpact], event: AlertEvent, cut: bool) -> str:
    """Return the first of some actions, with its resource, as the subject of a question, and the count of the others.

    `event` is the call that is asked about. `cut`: the list of actions is cut, so they are not counted.
    """
    first = graver[0]
    own = (
        each for each in first.resources if names_resource(each, event.resource)
    )  # no resource may be known
    touched = next(own, event.resource) if event.action_name == first.action else "".join(first.resources[:1])
    on = on_resources([touched[:200]] if touched else [])
    others = len(graver) - 1
    counted = f" and {_other_actions(others)}" if others else ""
    more = " and other actions" if cut else counted
    mfa = " without MFA" if event.action_name == first.action and signed_in_without_mfa(event.raw) else ""
    return f"{without_api_version(first.action)[:200]}{on}{mfa}{more}"


def _event_of(suspicion: Suspicion, action: str) -> AlertEvent:
    """Return the call of an action to ask about: of the calls with the gravest harm the leading one, else the first.

    Calls that succeeded are preferred. If only supporting calls succeeded, they are used, the most unusual first.
    """
    own = [each for each in suspicion.events if each.action_name == action]
    done = [each for each in own if not each.error_code]
    there = [each for each in _done_there(suspicion) if each.action_name == action]
    beside = succeeded_beside(action, own, suspicion.supporting) if own else there
    _, called = gravest_of(done or beside or own)
    if suspicion.lead in called:
        return suspicion.lead
    return next(iter(called), suspicion.events[0])


def _person(suspicion: Suspicion, event: AlertEvent) -> str:
    """Return the person behind an event. At a role that several people share, that is the session of the event."""
    at_role = principal_type(suspicion.principal) == "role" and event is not suspicion.lead
    return event.session if at_role and "@" in suspicion.human and "@" in event.session else suspicion.human
