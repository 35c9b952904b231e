"""The title of an alert: one line that says who did what, from where, led by the gravest thing that was new.

Example:
    >>> build_title("123456789012:user/alice", facts)
    'alice@example.com called iam:CreateAccessKey and 4 other new actions from 198.51.100.0/24 (new network); 2 failed'

A title stands in a dense table beside the account, the times and the number of events, so it repeats none of them. It aims at 120
characters, and every name in it, which an attacker may have chosen, is cut.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from fingerprint.alerting import impact
from fingerprint.alerting.title_facts import (
    AMOUNT_FEATURE,
    AT_PROVIDER,
    AT_ROLE,
    PROGRAM_FEATURE,
    UNUSUAL_RESOURCES,
    TitleFacts,
    amounts_of,
    called_from,
    calls_of,
    from_there,
    harmful_actions,
    has_strange_network,
    has_succeeded_beside,
    how_usual,
    largest_amount,
    lasted,
    new_reads_beside,
    newcomers_bulk,
)
from fingerprint.core.alert import (
    GRAVITIES,
    MOVE_FEATURE,
    ActionImpact,
    AlertEvent,
    SurpriseDriver,
    find_cause,
    names_person,
    succeeded_beside,
)
from fingerprint.core.sanitize import truncate
from fingerprint.estimators.amounts import most_text_with_span
from fingerprint.estimators.call_paths import CALL_PATH_FEATURE, ONLY_BY
from fingerprint.estimators.openers import OPENED, OPENER_FEATURE
from fingerprint.features.encoding import FEATURE_SET, FEATURES
from fingerprint.features.value_texts import is_browser
from fingerprint.sources.active import SOURCE

MAX_NAME_LENGTH = 80  # characters of a name in a title
MAX_ACCOUNT_LENGTH, MAX_REGION_LENGTH = 20, 40
MAX_NAMED_ACTIONS = 3  # in a question
MAX_MAJOR_DIGITS = 9  # of a version's first number: the caller writes it
OTHERS = (" other", " others")
VERSION_FEATURE = "program version"
ACCOUNT_FEATURE = "target account"
TOOL_FEATURES = (PROGRAM_FEATURE, VERSION_FEATURE)
# Of the drivers, those that the score is made of: the nats of an order of calls, or of activity, are another detector's.
SCORED_FEATURES = frozenset({AMOUNT_FEATURE, *(feature.label for feature in FEATURES)})
COMPARABLE_SURPRISE = 0.5  # share of an upgrade's nats, from which on another driver says enough without it


def build_title(principal: str, facts: TitleFacts) -> str:
    """Return one line: who called what, from where, how much of it failed; of a newcomer last, when it was first seen.

    Who and where are those of the leading call. Others at a role are counted; a new network of other calls is named as theirs.
    """
    lead = facts.leading_row
    human = facts.humans[lead] if facts.humans else ""
    who = actor_name(principal, human, _actors(facts, human))
    late = f"; delivered {_count(facts.late_days, 'day')} late" if facts.late_days else ""
    late += f"; newcomer: {facts.first_seen}" if facts.first_seen else ""
    signed_in = _how_signed_in(facts.events[lead])
    reached = _reached(principal, facts, lead)
    if reached or _how_requested(facts, facts.lead[0]):
        facts = replace(facts, here=_role_by_name(principal, facts.here))
    what = _called(facts, reached + (f" {signed_in}" if signed_in else ""))
    others = "" if signed_in else _signed_in_beside(facts)
    if service_between(facts, lead):
        where = _cause(facts, lead)
        what = what if where.startswith(" ") else what.rstrip(",")
    else:
        where = f" from {_origin(facts, lead)}"
    strangest = f"{_strangest_tool(facts, lead)}{_strangest_account(facts, lead)}{_credential(facts)}"
    habits = f"{_moved(facts)}{_new_opener(facts)}{_own_call(facts)}"
    return f"{who} {what}{where}{strangest}{habits}{_failures(facts)}{_also(facts)}{others}{late}"


def _actors(facts: TitleFacts, human: str) -> set[str]:
    """Return all that acted as the principal: persons and machines, and beside a person's session others of any name."""
    acted = set(facts.humans)
    sessions = {event.session for event in facts.events}
    if not human or human not in sessions:
        return acted
    rows = zip(facts.humans, facts.events, strict=True)
    return acted | {event.session for named, event in rows if not named}


def actor_name(principal: str, human: str, humans: Collection[str] = ()) -> str:
    """Return the person if there is one, else the principal without its account, and what ran behind it.

    `humans` are all that acted as the principal: where there are several, its name stands beside the person.
    """
    name, plain = principal.split(":", 1)[-1], SOURCE.plain_principal(principal)
    if plain != name and "@" in human and not SOURCE.person_and_access(principal)[0]:
        # A caller from outside may call itself anything: its account stands first.
        return _named(plain, _cut(human, MAX_NAME_LENGTH // 2))
    if not human or human in name or plain != name:
        return _cut(human if "@" in human else plain)
    others = {each for each in humans if each and each not in name} - {human}
    if others:
        return _named(name, f"{_cut(human, MAX_NAME_LENGTH // 2)} and {_count(len(others), 'other')}")
    return _cut(human) if "@" in human else _named(name, _cut(human, MAX_NAME_LENGTH // 2))


def access_text(principal: str, beside: str = "") -> str:
    """Return the role or provider by which a person comes, empty for no person; its account beside one of another account."""
    account = principal.partition(":")[0]
    elsewhere = bool(principal and beside) and account != beside.partition(":")[0]
    of = f" in {_cut(account, MAX_ACCOUNT_LENGTH)}" if elsewhere else ""
    return _cut(SOURCE.person_and_access(principal)[1], MAX_NAME_LENGTH // 2) + of


def new_at(principal: str) -> str:
    """Return where a person has what is new to this principal of theirs: `at this role`, or the provider they sign in by."""
    return AT_ROLE if principal.partition(":")[2].startswith("role/") else AT_PROVIDER


def _role_by_name(principal: str, here: str) -> str:
    """Return where something is new with the name of the role: `at this role` behind another one would be read as that one."""
    name = access_text(principal)
    return f"at {name}" if here == AT_ROLE and name else here


def known_at(principal: str, others: Sequence[str]) -> str:
    """Return where else a person is known: at one role, best of the same account; `others` are the principals there."""
    account = principal.partition(":")[0]

    def order(other: str) -> tuple[bool, bool, str]:
        of, _, name = other.partition(":")
        return of != account, not name.startswith("role/"), name

    return min(others, key=order, default="")


def _named(name: str, behind: str) -> str:
    """Return a name and what is behind it, of which a long name leaves room."""
    return f"{_cut(name, MAX_NAME_LENGTH - len(behind) - 3)} ({behind})"


def questioned(facts: TitleFacts) -> str:
    """Return what to ask about where no call can do harm: the first new actions, else the leading one, and where it came from."""
    lead, _ = facts.lead
    if lead not in facts.new_to_all:
        often = _often(facts, lead)
        what = f"{_cut(SOURCE.plain_action(lead))}{often}{_after_count(often, _beside_usual(facts))}"
        by_service = service_between(facts, facts.leading_row)
        return what if by_service else f"{what} from {_origin(facts, facts.leading_row)}"
    row = facts.leading_row
    origin = new_origin(facts, row)
    new = list(dict.fromkeys((lead, *(each for each in facts.ranked if each in facts.new_to_all))))
    leading = [each for each in new if each in from_there(facts, new)] if origin else new
    named = ", ".join(_cut(SOURCE.plain_action(each)) for each in leading[:MAX_NAMED_ACTIONS])
    more = len(leading) - MAX_NAMED_ACTIONS
    counted = f" and {_count(more, *_new_beside(facts)[1:])}" if more > 0 else ""
    return f"{named}{counted}{_region(facts, row)}{origin}{_elsewhere(facts) if origin else ''}"


def new_origin(facts: TitleFacts, row: int) -> str:
    """Return the network and the tool of an event where they are new; empty for none: a service is no place to be.

    >>> new_origin(facts, 0)
    ' from 159.65.0.0/16 (new network), new tool TruffleHog'
    """
    if service_between(facts, row):
        return ""
    name = facts.events[row].event_id
    place = f" from {_new_network(facts, name)}" if has_strange_network(facts, name) else ""
    return f"{place}{_tool(facts, row)}"


def _reached(principal: str, facts: TitleFacts, lead: int) -> str:
    """Return what the leading call of someone from outside was made on: a name from elsewhere says less than the role it took.

    And by which provider, where the name does not say it. Of one's own principals a role is named, what is called in bulk, and
    what another account is let into, with that. Nothing is named beside a count of more calls than the alert has: all of them
    would seem to be on what is named.
    """
    event, length = facts.events[lead], MAX_NAME_LENGTH // 2
    action = event.action_name
    on = f" on {_cut(event.resource, length)}" if event.resource and _has_all_calls(facts, action) else ""
    if SOURCE.plain_principal(principal) != principal.split(":", 1)[-1]:
        provider = SOURCE.signed_in_by(event.raw)
        return f"{on} by {_cut(provider, length)}" if provider else on
    if accounts := _let_in(facts, event):
        return f"{on} ({SOURCE.access_words(_effect_of(facts, action), _cut(accounts))})"
    if not on or not (event.resource.startswith("role:") or _often(facts, action)):
        return ""
    others = {each.resource for each in calls_of(facts, action)} - {"", event.resource}
    return on + (f" and {_count(len(others), 'other')}" if others else "")


def _let_in(facts: TitleFacts, event: AlertEvent) -> str:
    """Return the accounts that a call names `for` what it was made on, as `account 210987654321`; empty for none."""
    start, action = f"{event.resource} for ".lstrip(), event.action_name
    named = (each for row in facts.actions if row.action == action and row.new for each in row.resources)
    return next((each.removeprefix(start) for each in named if each.startswith(start)), "")


def _effect_of(facts: TitleFacts, action: str) -> str:
    """Return what the alert's own calls of a new action do; empty for nothing."""
    return next((row.effect for row in facts.actions if row.action == action and row.new), "")


def _how_requested(facts: TitleFacts, action: str) -> str:
    """Return what the request of a new action made of it, ` (with a key that only the caller has)`; empty for nothing more.

    Also of an action of which other calls succeeded, and that one alone failed.
    """
    row = next((row for row in facts.actions if row.action == action and row.new), None)
    done = {event.error_code for event in calls_of(facts, action)}
    if row is None or (not row.succeeded and "" in done):
        return ""
    words = SOURCE.request_words(row.effect)
    return f" ({words})" if words else ""


def _credential(facts: TitleFacts) -> str:
    """Return what is strange about the credential of the alert's calls; empty for nothing."""
    return f", {SOURCE.ELSEWHERE_WORDS}" if any(row.is_elsewhere for row in facts.actions) else ""


def _how_signed_in(event: AlertEvent) -> str:
    """Return how a sign-in was less safe than others; empty for other calls."""
    if SOURCE.signed_in_without_mfa(event.raw):
        return "without MFA"
    return "with a device code" if SOURCE.signed_in_with_device_code(event.raw) else ""


def _signed_in_beside(facts: TitleFacts) -> str:
    """Return how a sign-in beside the leading call was less safe than others; empty for none."""
    found = next(filter(None, map(_how_signed_in, (*facts.events, *facts.supporting))), "")
    return f"; signed in {found}" if found else ""


def _called(facts: TitleFacts, on: str) -> str:
    """Return the leading call, of bulk how often, and how many other actions there were: if it was new, the new ones.

    `on` is what is said about its resource or its second factor.
    """
    lead, tried = facts.lead
    verb = "tried" if tried and _has_all_calls(facts, lead) else "called"
    often = _often(facts, lead)
    # "and 1 other 2 times" would be read as two of the other
    on += "," if often and on.endswith(OTHERS) else ""
    if service := service_between(facts, facts.leading_row):
        verb = f"had {_cut(service, MAX_NAME_LENGTH // 2)} {'try' if verb == 'tried' else 'call'}"
    call = f"{_cut(SOURCE.plain_action(lead))}{_how_requested(facts, lead)}{on}{often}"
    if lead not in facts.new_to_all:
        others = _beside_usual(facts) or _and_others(facts, {*facts.ranked} - {lead}, "other action")
    else:
        # Of a newcomer all is new, also what its peers do every day.
        is_counted = len(facts.new_to_all) > 1 and facts.is_learned
        others = _and_others(facts, *_new_beside(facts)) + ("" if is_counted else _how_new(facts))
    graver = _graver_beside(facts)
    between = ", " if others.startswith(" and ") else " and "
    others = _after_count(often or on * on.endswith(OTHERS), others)
    first = f"{_supporting_call(graver)}{between}" if graver else ""
    return f"{verb} {first}{call}{others}"


def _graver_beside(facts: TitleFacts) -> ActionImpact | None:
    """Return the supporting action that stands before the leading one: new, grave or severe, and graver; None for none.

    None is graver than data that are taken in bulk. What the title says of where calls came from must be true of it, too.
    """
    lead, tried = facts.lead
    if any(row.in_bulk for row in facts.actions if row.action == lead):
        return None
    row = next(filter(impact.is_named_beside, facts.supporting_actions), None)
    least = max(GRAVITIES.index("grave"), _own_gravity(facts, lead) + 1)
    if row is None or tried or row.action == lead or GRAVITIES.index(row.gravity) < least:
        return None
    event = facts.events[facts.leading_row]
    is_new_region = event.event_id in facts.new_regions
    there = (
        (each.source_address, each.session) == (event.source_address, event.session)
        and (each.region == event.region or not is_new_region)
        for each in facts.supporting
        if each.action_name == row.action and not each.error_code
    )
    return row if any(there) else None


def _supporting_call(row: ActionImpact) -> str:
    """Return a supporting action, what its request made of it, and how often it was called."""
    words = SOURCE.request_words(row.effect)
    how, done = f" ({words})" if words else "", row.calls - row.failed
    return f"{_cut(SOURCE.plain_action(row.action))}{how}{_times(done)}"


def _own_gravity(facts: TitleFacts, action: str) -> int:
    """Return the place among GRAVITIES of what the alert's own calls of an action do, but for their number and place."""
    own = (row for row in facts.actions if row.action == action and not row.in_bulk)
    return max((GRAVITIES.index(row.gravity_anywhere) for row in own), default=0)


def _beside_usual(facts: TitleFacts) -> str:
    """Return the new actions beside a leading one that is usual: by name where it is one, else how many; empty for none."""
    new = sorted(facts.new_to_all)
    if len(new) == 1 and from_there(facts, new):
        return f" and {_cut(SOURCE.plain_action(new[0]))}{_how_new(facts)}"
    return _and_others(facts, *_new_beside(facts))


def _new_beside(facts: TitleFacts) -> tuple[set[str], str, str]:
    """Return the new actions beside the leading one, what one of them is called, and where it is new."""
    lead, _ = facts.lead
    new, other = {*facts.new_to_all} - {lead}, "other " if lead in facts.new_to_all else ""
    if not facts.is_learned:
        return new, f"{other or 'new '}action", ""
    return (
        (new, f"{other}action", f" new {facts.here}")
        if facts.is_new_here
        else (new, f"{other}new action", "")
    )


def _and_others(facts: TitleFacts, actions: Collection[str], noun: str, where: str = "") -> str:
    """Return how many of other actions came from where the leading call did; `_elsewhere` says how many new ones did not."""
    there = len(from_there(facts, actions))
    return f" and {_count(there, noun, where)}" if there else ""


def _after_count(before: str, others: str) -> str:
    """Return a count of other actions, apart from the count of calls or of resources `before` it, if there is one.

    >>> _after_count(" on bucket:lake and 6 others, 33 times in a minute", " and 4 other new actions")
    ', and 4 other new actions'
    """
    stands_apart = not before or before.endswith(")")
    return f",{others}" if not stands_apart and others[len(" and ") :][:1].isdigit() else others


def _how_new(facts: TitleFacts) -> str:
    """Return how new the leading action is; empty where the title says that no history has the principal."""
    if facts.is_new_here:
        whom = "" if facts.here in (AT_ROLE, AT_PROVIDER) else f"to {_them(facts)} "
        return f", new {whom}{facts.here},"
    if facts.is_learned:
        return f", new to {_them(facts)},"
    return f", not in {_history(facts)}," if facts.in_history else ""


def _history(facts: TitleFacts) -> str:
    """Return whose history the leading call is compared with: of a principal that was not learned, that of all."""
    if not facts.in_history:
        return "the history"
    return f"{'their' if _is_person(facts) else 'its'} history"


def _is_person(facts: TitleFacts) -> bool:
    """Return whether a person is behind the leading call, as its record says; a role or a machine is an `it`."""
    return bool(facts.humans) and names_person(facts.humans[facts.leading_row])


def _them(facts: TitleFacts) -> str:
    return "them" if _is_person(facts) else "it"


def _often(facts: TitleFacts, action: str) -> str:
    """Return how often an action was called, where its amount drives the alert and was never as large; else an empty text.

    Few of many calls are events of the alert, so their number says less. It is that of all who act as the principal.
    """
    for driver, calls, span in amounts_of(facts, action):
        shorter = _shorter_span(facts, action, calls)
        span, unusual, _ = span.partition(UNUSUAL_RESOURCES)
        places = f" on resources unusual for {_them(facts)}" if unusual else ""
        compared = most_text_with_span(driver.expected, span) if shorter else driver.expected
        before = f" ({compared})" if action not in facts.new_actions else ""
        together, by = _callers(facts, action)
        return f"{together} {calls} times in {shorter or span}{by}{places}{before}"
    return f" {len(calls_of(facts, action)):,} times" if action == newcomers_bulk(facts) else ""


def _callers(facts: TitleFacts, action: str) -> tuple[str, str]:
    """Return whose calls of an action were counted: the word before the number of times and those behind it, each maybe empty.

    Where several people act as the principal, the alert may have the calls of some, and the number is that of all.
    """
    people = set(filter(None, facts.humans))
    if len(people) < 2:
        return "", ""
    if not _has_all_calls(facts, action):
        return "", " by all at the role"
    rows = zip(facts.events, facts.humans, strict=True)
    callers = {human for event, human in rows if event.action_name == action} & people
    return (" together", "") if callers == people else ("", f" by {len(callers):,} of them")


def _has_all_calls(facts: TitleFacts, action: str) -> bool:
    """Return whether the title counts an action's events of the alert, no more nor fewer; True where it gives no count."""
    return _missing_calls(facts, action) == 0


def _missing_calls(facts: TitleFacts, action: str) -> int:
    """Return how many calls of those that the title counts are no events of the alert; less than 0 where it has more of them."""
    counted = (int(calls.replace(",", "")) for _, calls, _ in amounts_of(facts, action))
    events = len(calls_of(facts, action))
    return next(counted, events) - events


def _shorter_span(facts: TitleFacts, action: str, calls: str) -> str:
    """Return the minutes within which all of so many calls were made, if they are all events and that is less than an hour."""
    made = calls_of(facts, action)
    minutes = math.ceil(lasted(made).total_seconds() / 60)
    if f"{len(made):,}" != calls or not 0 < minutes < 60:
        return ""
    return _count(minutes, "minute") if minutes > 1 else "a minute"


def _origin(facts: TitleFacts, lead: int) -> str:
    """Return where the leading call came from, in what new region and with what new tool, and what came from elsewhere.

    Where it is in no new network or region, the first one of other calls is named.
    """
    event, how = facts.events[lead], f"{_region(facts, lead)}{_tool(facts, lead)}"
    if has_strange_network(facts, event.event_id):
        return f"{_new_network(facts, event.event_id)}{how}{_elsewhere(facts)}"
    ids = [each.event_id for each in facts.events]
    networks = [name for name in ids if has_strange_network(facts, name)]
    regions = [name for name in ids if name in facts.new_regions]
    networks.sort(key=lambda name: how_usual(facts, name))
    elsewhere = _elsewhere(facts, *networks[:1])
    if regions and not networks and event.event_id not in facts.new_regions:
        elsewhere += f"; others in {_cut(facts.new_regions[regions[0]], MAX_REGION_LENGTH)} (new region)"
    return f"{_cut(event.source_address) or 'nowhere named'}{how}{elsewhere}"


def _elsewhere(facts: TitleFacts, event_id: str = "") -> str:
    """Return how many new actions did not come from where the leading call did, and the new network of an event, if there is one.

    Empty where all came from there, and no event is given.
    """
    actions, noun, where = _new_beside(facts)
    left = actions - from_there(facts, actions)
    counted = _count(len(left), noun, where) if left else "others"
    by = _by_services(facts, left)
    if not event_id:
        return f"; {counted} {by or 'from elsewhere'}" if left else ""
    there = left <= called_from(facts, facts.new_networks[event_id])
    row = next(row for row, event in enumerate(facts.events) if event.event_id == event_id)
    if service := service_between(facts, row):
        strange = f"by {_cut(service, MAX_NAME_LENGTH // 2)} for {_them(facts)}"
        return f"; {counted} {by or strange}" if by or there else f"; {counted} from elsewhere, as {strange}"
    if by and not there:
        return f"; {counted} {by}; others from {_new_network(facts, event_id)}"
    return f"; {counted} from {'' if there else 'elsewhere, as from '}{_new_network(facts, event_id)}"


def _by_services(facts: TitleFacts, actions: Collection[str]) -> str:
    """Return which service called all of some actions for a person; empty where others did, and where there are none."""
    services = {
        service_between(facts, row) for row, event in enumerate(facts.events) if event.action_name in actions
    }
    if not services or "" in services:
        return ""
    by = _cut(services.pop(), MAX_NAME_LENGTH // 2) if len(services) == 1 else "services"
    return f"by {by} for {_them(facts)}"


def service_between(facts: TitleFacts, row: int) -> str:
    """Return the service that made a call for a person, who never made it themselves; empty for a call of their own.

    What a service does with a role that no person holds is said to come from that service.
    """
    return facts.events[row].by_service if _is_person(facts) else ""


def _cause(facts: TitleFacts, lead: int) -> str:
    """Return the person's own call for which a service made the leading one, where it is known, and what came from elsewhere."""
    own = [each for each in facts.events if not each.by_service]
    cause = find_cause(facts.events[lead], (*own, *facts.supporting), SOURCE.changes_something)
    called = (
        f" for {_cut(SOURCE.plain_action(cause.action_name))} from {_cut(cause.source_address)}"
        if cause
        else ""
    )
    networks = [each.event_id for each in own if has_strange_network(facts, each.event_id)]
    networks.sort(key=lambda name: how_usual(facts, name))
    return f"{called}{_elsewhere(facts, *networks[:1])}"


def _new_network(facts: TitleFacts, event_id: str) -> str:
    """Return the new network of an event, or the new address range of one that is known: a provider gives out many.

    One that the person uses at other roles is new at this one.
    """
    kind = "new address range" if event_id in facts.new_ranges else "new network"
    how = f"new to {_them(facts)}, usual for others" if event_id in facts.usual_for_others else kind
    how = f"new {facts.here}" if event_id in facts.networks_elsewhere else how
    return f"{_cut(facts.new_networks[event_id])} ({how})"


def _region(facts: TitleFacts, lead: int) -> str:
    """Return the region of the leading call if that was new."""
    region = facts.new_regions.get(facts.events[lead].event_id, "")
    return f" in {_cut(region, MAX_REGION_LENGTH)} (new region)" if region else ""


def _tool(facts: TitleFacts, lead: int) -> str:
    """Return the tool of the leading call if that was new; a service that made the call for its caller is no tool."""
    program = facts.programs[lead] if facts.programs else ""
    if program == facts.events[lead].source_address:
        return ""
    new = (each.seen for each in facts.drivers if each.feature == PROGRAM_FEATURE and each.rarity == "unseen")
    return f", {_new_tool(facts, program)}" if program and program in new else ""


def _new_tool(facts: TitleFacts, name: str, noun: str = "tool") -> str:
    """Return a tool or version that is new, maybe only at this role."""
    if name in facts.tools_elsewhere:
        return f"{noun} {_cut(name)} (new {facts.here})"
    return f"new {noun} {_cut(name)}"


def _strangest_tool(facts: TitleFacts, lead: int) -> str:
    """Return the program or version of which no driver surprises more, where `_tool` does not name it; empty for none.

    It is named whichever calls it made, as the largest share of the score. An upgrade, another version of the same program with
    the same first number or of the same browser, is left out beside a driver of a comparable surprise: fleets are upgraded on one
    day. It is named, however, where it explains the new calls.
    """
    scored = [each for each in facts.drivers if each.feature in SCORED_FEATURES]
    # one that made a call for its caller is no tool
    services = {event.source_address for event in facts.events}
    tools = [each for each in scored if each.feature in TOOL_FEATURES and each.seen not in services]
    driver = max(tools, key=lambda each: each.surprise, default=None)
    others = max((each.surprise for each in scored if each.feature not in TOOL_FEATURES), default=0.0)
    if driver is None:
        return ""
    if _explains(facts, driver) and driver.surprise >= COMPARABLE_SURPRISE * others:
        return f", with {_tool_text(facts, driver)}"
    if driver.surprise < others:
        return ""
    named = facts.programs[lead] if _tool(facts, lead) else ""
    if named and _is_of_program(driver, named):
        return ""
    is_comparable = others >= COMPARABLE_SURPRISE * driver.surprise
    if driver.feature == VERSION_FEATURE and _is_upgrade(driver) and is_comparable:
        return ""
    some = f"; {driver.events:,}" if driver.events < len(facts.events) else ","
    return f"{some} with {_tool_text(facts, driver)}"


def _strangest_account(facts: TitleFacts, lead: int) -> str:
    """Return the new account of which no driver surprises more, where the title does not name it already; empty for none."""
    scored = [each for each in facts.drivers if each.feature in SCORED_FEATURES]
    driver = max(scored, key=lambda each: each.surprise, default=None)
    if driver is None or (driver.feature, driver.rarity) != (ACCOUNT_FEATURE, "unseen"):
        return ""
    if driver.seen in _let_in(facts, facts.events[lead]):
        return ""
    some = f"; {driver.events:,}" if driver.events < len(facts.events) else ","
    return f"{some} with another account that is new to {_them(facts)} ({_cut(driver.seen)})"


def _moved(facts: TitleFacts) -> str:
    """Return that a machine which never moved was used at another network, and where it always was; empty for none."""
    driver = next((each for each in facts.drivers if each.feature == MOVE_FEATURE), None)
    if driver is None:
        return ""
    known = _cut(driver.expected)
    return f"; always {known}" if _credential(facts) else f"; outside its usual networks ({known})"


def _new_opener(facts: TitleFacts) -> str:
    """Return that someone opened a role who never did, and who did before if that was one; empty for none.

    The role is named where another action leads.
    """
    driver = next((each for each in facts.drivers if each.feature == OPENER_FEATURE), None)
    if driver is None:
        return ""
    only = "" if ", " in driver.expected else _cut(driver.expected, MAX_NAME_LENGTH // 2)
    openings = FEATURE_SET.openings
    if openings and facts.lead[0] in openings.actions:
        return f"; before, only {only} opened this role" if only else "; never opened this role before"
    before = f"only {only} did before" if only else f"is new to {_them(facts)}"
    role = driver.seen.rpartition(OPENED)[2]  # the last: its name has no blanks, an opener's may
    return f"; also opened {_cut(role, MAX_NAME_LENGTH // 2)}, which {before}"


def _own_call(facts: TitleFacts) -> str:
    """Return which service called an action for them before, of the leading action or else the strangest such; empty for none."""
    drivers = [each for each in facts.drivers if each.feature == CALL_PATH_FEATURE]
    if not drivers:
        return ""
    driver = next((each for each in drivers if each.seen == facts.lead[0]), drivers[0])
    what = "it" if driver.seen == facts.lead[0] else _cut(SOURCE.plain_action(driver.seen))
    service = driver.expected.removeprefix(ONLY_BY).rpartition(" on ")[0]
    return f"; before, only {_cut(service, MAX_NAME_LENGTH // 2)} called {what} for {_them(facts)}"


def _tool_text(facts: TitleFacts, driver: SurpriseDriver) -> str:
    """Return a program or version, and what is strange about it: its share here, or that the rest of the call came with it."""
    if driver.rarity == "unseen" and driver.feature == VERSION_FEATURE:
        return _new_tool(facts, driver.seen, "version")
    if driver.rarity == "unseen":
        return _new_tool(facts, driver.seen)
    return f"{_cut(driver.seen)} ({'unusual in such calls' if driver.unusual_together else 'rare here'})"


def _is_of_program(driver: SurpriseDriver, program: str) -> bool:
    """Return whether a driver is a program, or a version of it."""
    if driver.feature == VERSION_FEATURE:
        return _name_and_major(driver.seen)[0] == _name_and_major(program)[0]
    return driver.seen == program


def _explains(facts: TitleFacts, driver: SurpriseDriver) -> bool:
    """Return whether all that is new comes with an upgrade of a usual tool, from the usual place, and can do no harm.

    That of a browser explains no call: it is as new in calls that are not.
    """
    lead, _ = facts.lead
    if lead not in facts.new_actions or lead in {row.action for row in harmful_actions(facts)}:
        return False
    if driver.feature != VERSION_FEATURE or not _is_upgrade(driver) or is_browser(driver.seen):
        return False
    rows = zip(facts.events, facts.versions, strict=False)
    versions = {version for event, version in rows if event.action_name in facts.new_actions}
    return versions == {driver.seen} and not any(
        has_strange_network(facts, each.event_id) for each in facts.events
    )


def _is_upgrade(driver: SurpriseDriver) -> bool:
    """Return whether a version has the name and the first number of a usual one, or is a later one of a browser.

    >>> _is_upgrade(SurpriseDriver("program version", "aws-cli 2.17 linux", "aws-cli 2.15 linux, Boto3 1.34", "unseen", 6.0))
    True
    """
    name, major = _name_and_major(driver.seen)
    usual = [major for each, major in map(_name_and_major, driver.expected.split(", ")) if each == name]
    is_later = bool(major and usual) and all(each and int(each) < int(major) for each in usual)
    return major in usual or (is_later and is_browser(driver.seen))


def _name_and_major(version: str) -> tuple[str, str]:
    """Return the name of a program or version and its first number, empty without one: `aws-cli 2.17 linux` -> aws-cli, 2."""
    name, _, rest = version.partition(" ")
    major = rest.partition(" ")[0].partition(".")[0]
    return name, major if major.isdecimal() and len(major) <= MAX_MAJOR_DIGITS else ""


def _failures(facts: TitleFacts) -> str:
    """Return how many of the events failed or were throttled; if none succeeded, also what did of the supporting ones.

    If none of the leading action's did, also what supporting calls of it were made on that did.
    Beside a count of more calls than the alert has, it says of how many of those that are shown: the alert's own and the
    supporting ones.
    """
    failed = sum(bool(event.error_code) for event in facts.events)
    if not failed:
        return ""
    lead, tried = facts.lead
    every = (*facts.events, *facts.supporting)
    shown = "" if _missing_calls(facts, lead) <= 0 else f" of the {len(every):,} shown"
    counts = _failed_and_throttled(every if shown else facts.events)
    counted = ", ".join(
        f"{count:,}{'' if place else shown} {word}" for place, (word, count) in enumerate(counts.items())
    )
    if failed < len(facts.events):
        on = _done_beside(facts, lead) if tried else ""
        but = f", but {_cut(SOURCE.plain_action(lead))}{on} succeeded" if on else ""
        return f"; {counted}{_tried(facts, failed)}{but}"
    done = _succeeded(facts, lead, is_counted=bool(shown))
    if not shown and len(counts) == 1:
        counted = f"{'all ' if len(facts.events) > 1 and not done else ''}{next(iter(counts))}"
    return f"; {counted}{f', but {done} succeeded' if done else ''}"


def _failed_and_throttled(events: Sequence[AlertEvent]) -> Counter[str]:
    """Return how many of the events failed, were throttled, which their caller sends again by itself, or asked whether they may.

    >>> _failed_and_throttled(events)
    Counter({'failed': 2, 'throttled': 1})
    """
    codes = [event.error_code for event in events if event.error_code]
    is_throttled, is_allowed = FEATURE_SET.throttled.__contains__, FEATURE_SET.dry_runs.__contains__
    ordered = sorted(codes, key=lambda code: (is_allowed(code), is_throttled(code)))
    return Counter(
        "allowed in a dry run" if is_allowed(code) else "throttled" if is_throttled(code) else "failed"
        for code in ordered
    )


def _succeeded(facts: TitleFacts, lead: str, is_counted: bool) -> str:
    """Return which supporting actions succeeded where all events failed, the gravest or a new read of data by name.

    Calls of the leading action from the same place are other calls of it, and come first; beside a count of those that failed
    that is said, but for what they were made on, which says nothing of one that was throttled.
    """
    gravest = [row.action for row in facts.supporting_actions if row.succeeded]
    reads = new_reads_beside(facts)
    others = [event.action_name for event in facts.supporting if not event.error_code]
    done = list(dict.fromkeys((*gravest, *reads, *others)))
    named = []
    if has_succeeded_beside(facts, lead):
        done.remove(lead)
        throttled = {event.error_code for event in calls_of(facts, lead)} <= FEATURE_SET.throttled
        on = "" if throttled else _done_beside(facts, lead)
        named += [f"other calls of it{on}"] if on or not is_counted else []
    if done and (gravest or reads or not named):
        elsewhere = " from elsewhere" if done[0] == lead else ""
        how = f" (new to {_them(facts)})" if done[0] in reads and facts.is_learned else ""
        named.append(f"{_cut(SOURCE.plain_action(done.pop(0)))}{elsewhere}{how}")
    if done:
        return f"{', '.join(named)} and {_count(len(done), 'other action')}"
    return " and ".join(named)


def _tried(facts: TitleFacts, failed: int) -> str:
    """Return the action that counts more than the leading one and failed each time; empty for none. `failed` events did."""
    lead, _ = facts.lead
    gravest = next(iter(harmful_actions(facts)), None)
    if gravest is None or gravest.action == lead or gravest.succeeded:
        return ""
    others = " and others" if gravest.failed < failed else ""
    return f" ({_cut(SOURCE.plain_action(gravest.action))}{others})"


def _also(facts: TitleFacts) -> str:
    """Return the gravest supporting action that succeeded, where the leading one is no graver, nor severe.

    A notable one, such as reading secrets, is named where it is new and the leading one minor or a read. Without any, data that
    were taken in bulk, a supporting read of data that is new, or the action that was called as often as never before. What
    succeeded while all events failed, `_failures` says; beside a severe call that leads, only what was taken is named.
    """
    lead, _ = facts.lead
    leading, named = _own_gravity(facts, lead), _graver_beside(facts)
    grave, notable = GRAVITIES.index("grave"), GRAVITIES.index("notable")
    if all(event.error_code for event in facts.events):
        return ""
    taken = (row.action for row in facts.actions if row.in_bulk and row.succeeded and row.action != lead)
    bulk = next(taken, "")
    if GRAVITIES[leading] == "severe":
        return f"; also {_cut(SOURCE.plain_action(bulk))}{_often(facts, bulk)}" if bulk else ""
    for row in facts.supporting_actions if named is None else ():
        least = notable if impact.is_named_beside(row) and leading < notable else max(leading, grave)
        if row.succeeded and row.action != lead and GRAVITIES.index(row.gravity) >= least:
            return f"; also {_cut(SOURCE.plain_action(row.action))}{_by_another(facts, row.action)}"
    reads = new_reads_beside(facts) if not bulk and facts.is_learned else Counter()
    for name, calls in reads.items():
        if name not in {event.action_name for event in facts.events}:
            return f"; also {_cut(SOURCE.plain_action(name))}{_times(calls)}, new to {_them(facts)}"
    bulk = bulk or largest_amount(facts)
    return f"; also {_cut(SOURCE.plain_action(bulk))}{_often(facts, bulk)}" if bulk not in ("", lead) else ""


def _by_another(facts: TitleFacts, action: str) -> str:
    """Return by whose session the supporting calls of an action were made, where it is one person's, not the leading call's."""
    sessions = {each.session for each in facts.supporting if each.action_name == action}
    name = sessions.pop() if len(sessions) == 1 else ""
    known = {facts.events[facts.leading_row].session, *facts.humans[:1]}
    several = len(set(filter(None, facts.humans))) > 1
    return f" by {_cut(name, MAX_NAME_LENGTH // 2)}" if several and "@" in name and name not in known else ""


def _done_beside(facts: TitleFacts, action: str) -> str:
    """Return what such calls were made on, ` on role:admin and 1 other`, where the alert's own were not; else an empty text."""
    failed = {event.resource for event in calls_of(facts, action)}
    beside = succeeded_beside(action, facts.events, facts.supporting)
    done = list(dict.fromkeys(each.resource for each in beside if each.resource not in {"", *failed}))
    others = f" and {_count(len(done) - 1, 'other')}" if len(done) > 1 else ""
    return f" on {_cut(done[0], MAX_NAME_LENGTH // 2)}{others}" if done else ""


def _times(calls: int) -> str:
    return f" {calls:,} times" if calls > 1 else ""


def _count(number: int, noun: str, where: str = "") -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}{where}"


def _cut(text: str, length: int = MAX_NAME_LENGTH) -> str:
    return truncate(text, length)
