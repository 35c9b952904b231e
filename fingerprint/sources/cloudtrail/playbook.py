"""The next steps of an alert: contain, verify, find the extent, undo; by kind of credential and by what the calls did.

Example:
    >>> [(step.phase, step.command) for step in next_steps(suspicion)][0]
    ('contain', 'aws iam update-access-key --user-name alice --access-key-id AKIAIOSFODNN7EXAMPLE --status Inactive')

The order is that of an incident: what still works for a thief is cut off first, because asking may take hours. An alert below a
high severity is more often a person at work, whom a cut would stop, and so is one with nothing but an amount or reads from the
usual place: there the question comes first, and the cut is for where no one confirms it. The question goes by another channel
than the credential's: the holder of a session may read the mail and chat behind it too. Then comes what else the credential did,
and last what has to be set back, the gravest first.

Commands are for a POSIX shell with the AWS CLI (v2) of a responder's own credential. Words in capitals are to be filled in. Names
come from records, so from attackers: see `playbook_undo.safe_argument`. Source of the steps: AWS, "Responding to a compromised
access key" and "Revoking IAM role temporary security credentials" (IAM user guide); NIST SP 800-61 for the phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC

from fingerprint.core.alert import (
    GRAVE_OR_SEVERE,
    MINIMUM_URGENCY,
    ActionImpact,
    AlertEvent,
    NextStep,
    on_resources,
)
from fingerprint.core.people import SESSION_NAMES_CHOSEN, names_person, other_sessions, session_names
from fingerprint.core.related_events import find_cause, made_beside, succeeded_beside
from fingerprint.sources.base import CallImpact, Suspicion, gravest_calls, judge_calls
from fingerprint.sources.cloudtrail.action_verbs import changes_something
from fingerprint.sources.cloudtrail.attack_mappings import without_api_version
from fingerprint.sources.cloudtrail.credential_facts import signed_in_without_mfa
from fingerprint.sources.cloudtrail.identity import (
    is_anonymous,
    is_nameless,
    person_and_access,
    plain_principal,
)
from fingerprint.sources.cloudtrail.impact import impact_of
from fingerprint.sources.cloudtrail.playbook_contain import contain_steps, find_person
from fingerprint.sources.cloudtrail.playbook_extent import extent_steps
from fingerprint.sources.cloudtrail.playbook_facts import (
    ASKS_OWNER,
    BY_ANOTHER_CHANNEL,
    IN_PERSON,
    MAX_RECORDS_READ,
    access_keys,
    account_number,
    call_of,
    calling_service,
    center_roles,
    center_user_id,
    credential_kind,
    principal_name,
    principal_type,
    read_record,
    safe_addresses,
    signed_in_at_center,
    value_or_word,
)
from fingerprint.sources.cloudtrail.playbook_inverse import leaves_nothing, stays_on
from fingerprint.sources.cloudtrail.playbook_undo import (
    Call,
    not_shown,
    only_denies,
    safe_argument,
    undo_step,
)
from fingerprint.sources.cloudtrail.record_members import CallRecord

MAX_UNDO_STEPS = 15  # with commands
MAX_NAMED_ACTIONS = 8  # of those without
_READS_SECRETS = "Credential Access"  # the tactic


def next_steps(suspicion: Suspicion) -> tuple[NextStep, ...]:
    """Return what to do about an alert, in the order of work."""
    lead, verify = _lead(suspicion), _verify(suspicion)
    contain = tuple(_led_by(lead, step) for step in contain_steps(suspicion))
    first = (*contain, verify) if _is_urgent(suspicion) else (verify, *contain)
    return (*first, *extent_steps(suspicion), *_undo(suspicion))


def _is_urgent(suspicion: Suspicion) -> bool:
    """Return whether containing comes before asking: what is urgent, and new by its place or tool or by grave harm done."""
    harmed = any(row.new and row.succeeded and row.gravity in GRAVE_OR_SEVERE for row in suspicion.actions)
    return suspicion.urgency >= MINIMUM_URGENCY["high"] and (suspicion.from_new_origin or harmed)


def _lead(suspicion: Suspicion) -> str:
    """Return where containing is done, and on which condition: names of roles and users repeat across accounts."""
    account = account_number(suspicion.principal.partition(":")[0])
    kind = credential_kind(suspicion.principal, access_keys(suspicion))
    elsewhere = kind in ("root", "single sign-on") or bool(center_roles(suspicion))
    foreign = _is_foreign(suspicion)  # where no one here can do anything
    place = f"in account {account}" if account and not elsewhere and not foreign else ""
    condition = "" if _is_urgent(suspicion) else "if no one confirms it"
    return ", ".join(each for each in (place, condition) if each)


def _is_foreign(suspicion: Suspicion) -> bool:
    """Return whether the caller is of another account than the log's, and of none that is known to be one's own."""
    return _is_of_other_account(suspicion) and not suspicion.knows_account


def _is_of_other_account(suspicion: Suspicion) -> bool:
    return principal_type(suspicion.principal) == "account" and not is_anonymous(suspicion.principal)


def _led_by(lead: str, step: NextStep) -> NextStep:
    text = f"{lead[:1].upper()}{lead[1:]}: {step.text[:1].lower()}{step.text[1:]}" if lead else step.text
    return replace(step, text=text)


# --- verify -----------------------------------------------------------------------------------------------------------


def _verify(suspicion: Suspicion) -> NextStep:
    """Return the question to ask, and by which channel: never by one that the suspect session could answer."""
    own = _gravest_new(suspicion)
    gravest = [*_graver_done_there(suspicion, own), *own]
    event = _event_of(suspicion, gravest[0].action) if gravest else suspicion.lead or suspicion.events[0]
    human = _person(suspicion, event)
    who = _whom_to_ask(suspicion, event, human)
    when = f"at {event.event_time.astimezone(UTC):%H:%M} UTC on {event.event_time.astimezone(UTC):%d %B}"
    sessions = "" if human and not _is_foreign(suspicion) else session_names(suspicion.events)
    chosen = f" Session names ({SESSION_NAMES_CHOSEN}): {sessions}." if sessions else ""
    if not sessions and (others := other_sessions(human, suspicion.events)):
        chosen = f" They answer for their own session alone; there are calls of others here: {others}."
    # Nothing is stolen of a service, nor of callers without credentials.
    may_be_stolen = not _acts_by_itself(suspicion) and not is_anonymous(suspicion.principal)
    until = " Until they confirm it, treat it as stolen." if _is_urgent(suspicion) and may_be_stolen else ""
    return NextStep(
        "verify",
        f"{who} about {_as_own(suspicion, event, human, _what_to_ask(suspicion, event, gravest))} {when}.{chosen}"
        f"{_own_record(suspicion)}{until}{_why_new(suspicion)}{_own_doing(suspicion, who, human)}",
        "" if names_person(human) else _who_it_is_command(suspicion),
    )


def _as_own(suspicion: Suspicion, event: AlertEvent, human: str, what: str) -> str:
    """Return what to ask a person about what a service called for them: their own call to it, where that is known.

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
    """Return whether no person is behind the calls: a service, or a role that only a service takes."""
    return credential_kind(suspicion.principal, ()) == "service"


def _what_to_ask(suspicion: Suspicion, event: AlertEvent, gravest: Sequence[ActionImpact]) -> str:
    """Return the calls to ask about, with the new place of `event`. What else is asked about names its own region.

    Others that were not called from that place too are counted after it.
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
    """Return the alert's own call that an event is, or that a supporting one was made beside: where they came from is known."""
    if event in suspicion.events:
        return event
    from_there = [each for each in suspicion.events if each.source_address == event.source_address]
    same = (each for each in from_there if each.action_name == event.action_name)
    way = (event.user_agent, event.region)
    alike = (each for each in from_there if (each.user_agent, each.region) == way)
    return next(same, next(alike, event))


def _called_there(suspicion: Suspicion, event: AlertEvent) -> set[str]:
    """Return the actions that were called from the same new place as an event, in the same region if that is new."""
    region = suspicion.new_regions.get(event.event_id)
    return {
        each.action_name
        for each in _from_there(suspicion, event)
        if suspicion.new_regions.get(each.event_id) == region
    }


def _apart(suspicion: Suspicion, event: AlertEvent, apart: set[str]) -> str:
    """Return how many of the actions apart were called in other regions from the place of an event, how many from elsewhere."""
    regions = len(apart & {each.action_name for each in _from_there(suspicion, event)})
    counts = ((regions, "in other regions"), (len(apart) - regions, "from elsewhere"))
    return "".join(f" and {_other_actions(count)} {where}" for count, where in counts if count)


def _other_actions(count: int) -> str:
    """Return a count of actions beside those that are named; '1 other' behind a resource or a tool is read as one of these."""
    return f"{count:,} other action{'s' * (count > 1)}"


def _from_there(suspicion: Suspicion, event: AlertEvent) -> list[AlertEvent]:
    origin = suspicion.new_origins.get(event.event_id)
    return [each for each in suspicion.events if suspicion.new_origins.get(each.event_id) == origin]


def _whom_to_ask(suspicion: Suspicion, event: AlertEvent, human: str) -> str:
    """Return who is asked, as the beginning of a sentence. A caller of another account may call the session anything."""
    name = principal_name(suspicion.principal)
    if names_person(human) and not _is_foreign(suspicion):
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
    """Return the command that tells whose the principal is; empty where AWS has none."""
    name = principal_name(suspicion.principal)
    return {
        "user": f"aws iam list-user-tags --user-name {value_or_word(name, 'USER_NAME')}",
        "role": f"aws iam list-role-tags --role-name {value_or_word(name, 'ROLE_NAME')}",
        "identitycenter": find_person("", value_or_word(name, "USER_ID")),
    }.get("" if _acts_by_itself(suspicion) else principal_type(suspicion.principal), "")


def _own_doing(suspicion: Suspicion, who: str, human: str) -> str:
    """Return whom else to ask where a person's own place and tool make a thief unlikely: asking an insider warns them."""
    if (
        suspicion.from_new_origin
        or suspicion.new_origins
        or suspicion.first_seen
        or not who.startswith("Ask ")
        or _is_foreign(suspicion)
    ):
        return ""
    if not (center_user_id(suspicion) or names_person(human)):
        return ""
    return " Network and tool are usual: where it may be their own doing, ask their manager first, for the question warns them."


def _owner_of_addresses(suspicion: Suspicion) -> str:
    """Return who can be asked about callers without a name: the owner of what calls from there."""
    account, sources = account_number(suspicion.principal.partition(":")[0]), safe_addresses(suspicion)
    what = f"what calls from {', '.join(sources)}" if sources else "what makes such calls"
    return f"who owns {what}" + (f" in account {account}" if account else "")


def _own_record(suspicion: Suspicion) -> str:
    """Return where to read who it was, of a caller from another account of one's own."""
    if not _is_of_other_account(suspicion) or not suspicion.knows_account:
        return ""
    shared = safe_argument(read_record(suspicion.lead or suspicion.events[0]).sharedEventID)
    same = f"sharedEventID {shared}" if shared else "the same sharedEventID"
    return (
        f" That account is one of the organisation's own: the record with {same} in its log names the caller."
    )


def _why_new(suspicion: Suspicion) -> str:
    """Return what to ask about a newcomer: who made it, of a person who gave them the access. Root, AWS, the public are none."""
    is_made = credential_kind(suspicion.principal, ()) not in ("root", "service")
    if not suspicion.first_seen or not is_made or is_anonymous(suspicion.principal):
        return ""
    judged = f"judged by what others do ({suspicion.first_seen})"
    of_center = center_user_id(suspicion) or signed_in_at_center(suspicion)
    if of_center or person_and_access(suspicion.principal)[0]:
        return f" They are {judged}: ask who gave them this access, and what for."
    return f" It is {judged}: ask who made it or uses it again, and what for."


def _owned(principal: str) -> str:
    """Return a principal by its key, of a federated one by its subject and account, of one of another account by that account."""
    account = principal.partition(":")[0]
    match principal_type(principal):
        case "federated":
            return f"{plain_principal(principal)} in account {account}"
        case "account":
            return f"account {account} (its caller {principal_name(principal)})"
    return principal


def _gravest_new(suspicion: Suspicion) -> list[ActionImpact]:
    """Return the alert's own actions that were new and are more than minor, the gravest first, but what only failed last.

    Without one, or with notable ones that do not lead the title, the minor ones, led by the action that does; none where that is
    a read: the question is about it.
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

    None where its own calls did such harm: the question is about these. `own` are the actions that it would ask about.
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
    """Return the supporting events that succeeded, from addresses of the alert's own."""
    addresses = {event.source_address for event in suspicion.events}
    return [each for each in suspicion.supporting if not each.error_code and each.source_address in addresses]


def _named(graver: Sequence[ActionImpact], event: AlertEvent, cut: bool) -> str:
    """Return the first of some actions as the subject of a question, and how many others there are.

    `event` is the call of it that is asked about. `cut`: there are other actions that are not among them.
    """
    first = graver[0]
    own = (each for each in first.resources if _is_of(each, event.resource))  # no resource may be known
    touched = next(own, event.resource) if event.action_name == first.action else "".join(first.resources[:1])
    on = on_resources([touched[:200]] if touched else [])
    others = len(graver) - 1
    counted = f" and {_other_actions(others)}" if others else ""
    more = " and other actions" if cut else counted
    mfa = " without MFA" if event.action_name == first.action and signed_in_without_mfa(event.raw) else ""
    return f"{without_api_version(first.action)[:200]}{on}{mfa}{more}"


def _event_of(suspicion: Suspicion, action: str) -> AlertEvent:
    """Return the call of an action to ask about: the one that leads, else the first, of those that do the gravest harm.

    Of those that succeeded, if any did; where only a supporting one did, the most unusual of these.
    """
    own = [each for each in suspicion.events if each.action_name == action]
    done = [each for each in own if not each.error_code]
    there = [each for each in _done_there(suspicion) if each.action_name == action]
    beside = succeeded_beside(action, own, suspicion.supporting) if own else there
    _, called = _gravest(done or beside or own)
    if suspicion.lead in called:
        return suspicion.lead
    return next(iter(called), suspicion.events[0])


def _gravest(calls: Sequence[AlertEvent]) -> tuple[CallImpact, list[AlertEvent]]:
    """Return the gravest impact of an action's calls, and the calls that have its gravity."""
    return gravest_calls(calls, judge_calls(impact_of, calls))


def _person(suspicion: Suspicion, event: AlertEvent) -> str:
    """Return the person behind an event: one of several at a role by the session."""
    at_role = principal_type(suspicion.principal) == "role" and event is not suspicion.lead
    return event.session if at_role and "@" in suspicion.human and "@" in event.session else suspicion.human


# --- undo -------------------------------------------------------------------------------------------------------------


NOT_SET_BACK = {  # what to do about actions that no step of their own sets back, by why there is none
    "denies": "Ask who did it, and leave it where that was a responder, for it only denies: {}.",
    "watches": "Leave on what only watches or protects, and look whether it sends its findings elsewhere or watches less than "
    "before: {}.",
    "changes": "Compare with your infrastructure code or AWS Config, and set back what was changed by {}.",
    "leaves nothing": "There is nothing to set back; find out what came of it, and what it costs: {}.",
    "reads": "Treat as known, and change where it is used, what was read by {}.",
    "takes": "{}. What was taken cannot be called back: list what it was and whose data it holds, for those who must be told.",
}


def _undo(suspicion: Suspicion) -> Iterator[NextStep]:
    """Yield how to undo the actions that succeeded and were new, the gravest first; what was only read cannot be set back.

    Also what the same session changed in the same minutes, usual or not: who adds a function adds the rule that starts it.

    Of each those whose requests did the gravest harm: of writes to a bucket those with a thief's key, not the owner's own. Calls
    that only support the alert are undone, too: a secret that they read is as known as any other.
    """
    calls = _successful_calls(suspicion)
    by_root = principal_type(suspicion.principal) == "root"
    steps: list[NextStep] = []
    left: dict[str, list[str]] = {why: [] for why in NOT_SET_BACK}
    rows = [row for row in suspicion.actions if _belongs(row, suspicion) and row.gravity != "minor"]
    elsewhere = {row.action: _elsewhere(row, calls, suspicion) for row in rows if row.supporting}
    for row in sorted(rows, key=lambda row: row.supporting and bool(elsewhere[row.action])):
        harm, events = _gravest(calls.get((row.action, row.supporting), []))
        if not row.succeeded and harm.gravity in ("none", "minor"):
            continue  # the gravest calls failed, and no milder ones did harm
        subject = _subject(_on_done(row, events), elsewhere.get(row.action, "") if row.supporting else "")
        called, unread = events[:MAX_RECORDS_READ], max(0, len(events) - MAX_RECORDS_READ)
        made = [call_of(event) for event in called]
        to_undo = [each for each in made if not only_denies(without_api_version(row.action), each)]
        if made and not to_undo and not unread:
            left["denies"].append(subject)
            continue
        if stays_on(row.action, row.technique):
            left["watches"].append(subject)
            continue
        may = len(steps) < MAX_UNDO_STEPS
        undone = list(_undo_action(row, subject, to_undo, unread, by_root)) if may else []
        steps += undone
        why = "" if undone else _why_not_set_back(row, called)
        if why:
            left[why].append(subject)
    yield from steps
    for why, subjects in left.items():
        if subjects:
            yield NextStep("undo", NOT_SET_BACK[why].format(_listed(subjects)))


def _elsewhere(
    row: ActionImpact, calls: Mapping[tuple[str, bool], Sequence[AlertEvent]], suspicion: Suspicion
) -> str:
    """Return from where supporting calls came, if the alert's own came from a new place and these from others; empty for none.

    Who was robbed works on, and what they changed in that hour is not the thief's.
    """
    own = {event.source_address for event in suspicion.events}
    origins = {event.source_address for event in calls.get((row.action, True), [])}
    if not origins or origins & own or row.new_place or not suspicion.from_new_origin:
        return ""
    return f"from {sorted(origins)[0][:60]}{' and others' if len(origins) > 1 else ''}"


def _on_done(row: ActionImpact, done: Sequence[AlertEvent]) -> ActionImpact:
    """Return an action with those of its resources alone on which calls succeeded: `done` are these."""
    if not row.failed:
        return row
    touched = list(dict.fromkeys(event.resource for event in done))
    named = [text for text in row.resources if any(_is_of(text, each) for each in touched)]
    rest = [each for each in touched if each and not any(_is_of(text, each) for text in named)]
    return replace(row, resources=(*named, *rest))


def _is_of(text: str, resource: str) -> bool:
    """Return whether a text is of a resource, with the accounts behind it or without: `role:Operator in 2 accounts: ...`."""
    return text == resource or text.startswith(
        tuple(f"{resource} {word} ".lstrip() for word in ("in", "for"))
    )


def _belongs(row: ActionImpact, suspicion: Suspicion) -> bool:
    """Return whether an action is to be undone: what is new, all that is listed of what supports the alert, and secrets.

    Who reads secrets in usual work gives others away by reading more of them, or from elsewhere.
    """
    if row.is_unusual or row.supporting:
        return True
    if row.tactic != _READS_SECRETS or not row.effect.startswith("reads"):
        return False
    here = (event for event in suspicion.events if event.action_name == row.action)
    return row.action in suspicion.unusual_calls or any(
        each.event_id in suspicion.new_origins for each in here
    )


def _successful_calls(suspicion: Suspicion) -> dict[tuple[str, bool], list[AlertEvent]]:
    """Return the events that succeeded, by action and whether they only support the alert.

    Of an action that the alert has itself, and that is no row of what supports it, those beside it are the alert's, too.
    """
    calls: dict[tuple[str, bool], list[AlertEvent]] = {}
    own = {row.action for row in suspicion.actions if not row.supporting}
    own -= {row.action for row in suspicion.actions if row.supporting}
    beside = {event.event_id for event in made_beside(suspicion.events, suspicion.supporting)}
    for supporting, events in ((False, suspicion.events), (True, suspicion.supporting)):
        for event in events:
            apart = supporting and not (event.action_name in own and event.event_id in beside)
            if not event.error_code:
                calls.setdefault((event.action_name, apart), []).append(event)
    return calls


def _why_not_set_back(row: ActionImpact, called: Sequence[AlertEvent]) -> str:
    """Return the key of `NOT_SET_BACK` for an action without a step of its own; nothing if it calls for no advice."""
    if leaves_nothing(row.action):
        return "leaves nothing"
    if not _only_reads(row.action, called):
        return "changes"
    return next((why for why in ("reads", "takes") if row.effect.startswith(why)), "")


def _undo_action(
    row: ActionImpact, subject: str, made: Sequence[Call], unread: int, by_root: bool
) -> Iterator[NextStep]:
    """Yield how to undo the calls of an action, by the account in which they were made; nothing where no call sets it back.

    `subject` names the action and what it touched. `unread` is how many more calls there are, whose records are not read.
    """
    by_account: dict[str, list[Call]] = {}
    for each in made:
        by_account.setdefault(account_number(each.account), []).append(each)
    for account, calls in (by_account or {"": []}).items():
        step = undo_step(row.action, calls, row.technique, by_root)
        if step:
            place = f"In account {account}: " if account else ""
            text = f"{place}{subject}. {step.text}{not_shown(unread, 'event')}"
            yield NextStep(step.phase, text, step.command)


def _only_reads(action: str, calls: Sequence[AlertEvent]) -> bool:
    """Return whether an action changes nothing, by its verb or by the records of its calls."""
    name = without_api_version(action).partition(":")[2]
    return not changes_something(name) or (
        bool(calls) and all(CallRecord(each.raw).reads_only for each in calls)
    )


def _listed(subjects: Sequence[str]) -> str:
    more = len(subjects) - MAX_NAMED_ACTIONS
    return ", ".join(subjects[:MAX_NAMED_ACTIONS]) + (f" and {more:,} more" if more > 0 else "")


def _subject(row: ActionImpact, elsewhere: str) -> str:
    """Return the action and what it touched: `iam:CreateUser on user:eve`; of supporting events with a word on it.

    `elsewhere`: they came from there, not from the new place of the alert's own, and may be the owner's.
    """
    more = f" and {len(row.resources) - 3} more" if len(row.resources) > 3 else ""
    name = without_api_version(row.action)[:120]
    touched = f"{name}{on_resources([each[:100] for each in row.resources[:3]])}{more}"
    if elsewhere:
        return f"{touched} (unusual in the same hour, but {elsewhere}: ask first whether it was the owner's own work)"
    return f"{touched} (unusual in the same hour)" if row.supporting else touched
