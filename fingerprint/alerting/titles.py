"""The title of an alert: one line that says who called what, from where, led by the gravest new call.

Example:
    >>> build_title("123456789012:user/alice", facts)
    'alice@example.com called iam:CreateAccessKey and 4 other new actions from 198.51.100.0/24 (new network); 2 failed'

A title stands in a dense table beside the account, the times and the number of events, so it repeats none of them. It aims at 120
characters. An attacker may have chosen a name in it, so every name is cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from fingerprint.alerting import impact
from fingerprint.alerting.title_facts import (
    AT_PROVIDER,
    AT_ROLE,
    TitleFacts,
    calls_of,
    from_there,
    largest_amount,
    new_reads_beside,
)
from fingerprint.alerting.title_origin import cause_text, elsewhere_text, new_origin, origin_text, region_text
from fingerprint.alerting.title_outcome import failures_text
from fingerprint.alerting.title_tools import SCORED_FEATURES, strangest_tool
from fingerprint.alerting.title_words import (
    MAX_NAME_LENGTH,
    count_text,
    cut,
    has_all_calls,
    have_all_failed,
    let_in,
    named_text,
    new_beside,
    often_text,
    service_between,
    them,
    times_text,
)
from fingerprint.core.alert import GRAVITIES, MOVE_FEATURE, ActionImpact, AlertEvent
from fingerprint.estimators.call_paths import CALL_PATH_FEATURE, ONLY_BY
from fingerprint.estimators.openers import OPENED, OPENER_FEATURE
from fingerprint.features.encoding import FEATURE_SET
from fingerprint.sources.active import SOURCE

MAX_ACCOUNT_LENGTH = 20
MAX_NAMED_ACTIONS = 3  # in a question
OTHERS = (" other", " others")
ACCOUNT_FEATURE = "target account"


def build_title(principal: str, facts: TitleFacts) -> str:
    """Return one line: who called what, from where, and how many calls failed; for a newcomer also when it was first seen.

    Person and place are those of the leading call. Other people at a role are counted, and a new network of other calls is named.
    """
    lead = facts.leading_row
    human = facts.humans[lead] if facts.humans else ""
    who = actor_name(principal, human, _actors(facts, human))
    late = f"; delivered {count_text(facts.late_days, 'day')} late" if facts.late_days else ""
    late += f"; newcomer: {facts.first_seen}" if facts.first_seen else ""
    signed_in = _how_signed_in(facts.events[lead])
    reached = _reached(principal, facts, lead)
    if reached or _how_requested(facts, facts.lead[0]):
        facts = replace(facts, here=_role_by_name(principal, facts.here))
    what = _called(facts, reached + (f" {signed_in}" if signed_in else ""))
    others = "" if signed_in else _signed_in_beside(facts)
    if service_between(facts, lead):
        where = cause_text(facts, lead)
        what = what if where.startswith(" ") else what.rstrip(",")
    else:
        where = f" from {origin_text(facts, lead)}"
    strangest = f"{strangest_tool(facts, lead)}{_strangest_account(facts, lead)}{_credential(facts)}"
    habits = f"{_moved(facts)}{_new_opener(facts)}{_own_call(facts)}"
    return f"{who} {what}{where}{strangest}{habits}{failures_text(facts)}{_also(facts)}{others}{late}"


def _actors(facts: TitleFacts, human: str) -> set[str]:
    """Return the persons and machines that acted as the principal, and, if `human` is a session's name, the other sessions."""
    acted = set(facts.humans)
    sessions = {event.session for event in facts.events}
    if not human or human not in sessions:
        return acted
    rows = zip(facts.humans, facts.events, strict=True)
    return acted | {event.session for named, event in rows if not named}


def actor_name(principal: str, human: str, humans: Collection[str] = ()) -> str:
    """Return the person if there is one, else the principal without its account, followed by the machine behind it.

    `humans` are all that acted as the principal. If there are several, the principal's name stands beside the person.
    """
    name, plain = principal.split(":", 1)[-1], SOURCE.plain_principal(principal)
    if plain != name and "@" in human and not SOURCE.person_and_access(principal)[0]:
        # A caller from outside may choose any name, so its account stands first.
        return named_text(plain, cut(human, MAX_NAME_LENGTH // 2))
    if not human or human in name or plain != name:
        return cut(human if "@" in human else plain)
    others = {each for each in humans if each and each not in name} - {human}
    if others:
        return named_text(name, f"{cut(human, MAX_NAME_LENGTH // 2)} and {count_text(len(others), 'other')}")
    return cut(human) if "@" in human else named_text(name, cut(human, MAX_NAME_LENGTH // 2))


def access_text(principal: str, beside: str = "") -> str:
    """Return the role or provider that a person uses, empty for no person; with its account if `beside` has another one."""
    account = principal.partition(":")[0]
    elsewhere = bool(principal and beside) and account != beside.partition(":")[0]
    of = f" in {cut(account, MAX_ACCOUNT_LENGTH)}" if elsewhere else ""
    return cut(SOURCE.person_and_access(principal)[1], MAX_NAME_LENGTH // 2) + of


def new_at(principal: str) -> str:
    """Return where something is new for a person: `at this role`, or `at this provider` if the principal is no role."""
    return AT_ROLE if principal.partition(":")[2].startswith("role/") else AT_PROVIDER


def _role_by_name(principal: str, here: str) -> str:
    """Return `here` with the name of the role: after the name of another role, `at this role` would mean the other one."""
    name = access_text(principal)
    return f"at {name}" if here == AT_ROLE and name else here


def known_at(principal: str, others: Sequence[str]) -> str:
    """Return one of a person's other principals (`others`), best a role and of the same account; empty for none."""
    account = principal.partition(":")[0]

    def order(other: str) -> tuple[bool, bool, str]:
        of, _, name = other.partition(":")
        return of != account, not name.startswith("role/"), name

    return min(others, key=order, default="")


def questioned(facts: TitleFacts) -> str:
    """Return what to ask a person about: the first new actions, else the leading one, and where they came from."""
    lead, _ = facts.lead
    if lead not in facts.new_to_all:
        often = often_text(facts, lead)
        what = f"{cut(SOURCE.plain_action(lead))}{often}{_after_count(often, _beside_usual(facts))}"
        by_service = service_between(facts, facts.leading_row)
        return what if by_service else f"{what} from {origin_text(facts, facts.leading_row)}"
    row = facts.leading_row
    origin = new_origin(facts, row)
    new = list(dict.fromkeys((lead, *(each for each in facts.ranked if each in facts.new_to_all))))
    there = from_there(facts, new) if origin else new
    leading = [each for each in new if each in there]
    named = ", ".join(cut(SOURCE.plain_action(each)) for each in leading[:MAX_NAMED_ACTIONS])
    more = len(leading) - MAX_NAMED_ACTIONS
    counted = f" and {count_text(more, *new_beside(facts)[1:])}" if more > 0 else ""
    return f"{named}{counted}{region_text(facts, row)}{origin}{elsewhere_text(facts) if origin else ''}"


def _reached(principal: str, facts: TitleFacts, lead: int) -> str:
    """Return the resource of the leading call in words, where the title names it; else an empty text.

    - A caller from outside: always, with the provider it signed in by. Its name says less than the role that it took.
    - A principal of the organisation: if the resource is a role, is called in bulk, or lets other accounts in, which are named.

    No resource is named if the title counts more calls than the alert has: all of them would seem to be on that resource.
    """
    event, length = facts.events[lead], MAX_NAME_LENGTH // 2
    action = event.action_name
    on = f" on {cut(event.resource, length)}" if event.resource and has_all_calls(facts, action) else ""
    if SOURCE.plain_principal(principal) != principal.split(":", 1)[-1]:
        provider = SOURCE.signed_in_by(event.raw)
        return f"{on} by {cut(provider, length)}" if provider else on
    if accounts := let_in(facts, event):
        return f"{on} ({SOURCE.access_words(_effect_of(facts, action), cut(accounts))})"
    if not on or not (event.resource.startswith("role:") or often_text(facts, action)):
        return ""
    others = {each.resource for each in calls_of(facts, action)} - {"", event.resource}
    return on + (f" and {count_text(len(others), 'other')}" if others else "")


def _effect_of(facts: TitleFacts, action: str) -> str:
    """Return the effect of the alert's own calls of a new action; empty for none."""
    return next((row.effect for row in facts.actions if row.action == action and row.new), "")


def _how_requested(facts: TitleFacts, action: str) -> str:
    """Return how its request makes a new action graver, as in ` (with a key that only the caller has)`; empty if it does not.

    It is also empty if only those graver calls failed, while others of the action succeeded.
    """
    row = next((row for row in facts.actions if row.action == action and row.new), None)
    done = {event.error_code for event in calls_of(facts, action)}
    if row is None or (not row.succeeded and "" in done):
        return ""
    words = SOURCE.request_words(row.effect)
    return f" ({words})" if words else ""


def _credential(facts: TitleFacts) -> str:
    """Return the words for a credential that was used outside its networks; empty if none was."""
    return f", {SOURCE.ELSEWHERE_WORDS}" if any(row.is_elsewhere for row in facts.actions) else ""


def _how_signed_in(event: AlertEvent) -> str:
    """Return how a sign-in was less safe: without MFA or with a device code; empty for all other calls."""
    if SOURCE.signed_in_without_mfa(event.raw):
        return "without MFA"
    return "with a device code" if SOURCE.signed_in_with_device_code(event.raw) else ""


def _signed_in_beside(facts: TitleFacts) -> str:
    """Return how the first less safe sign-in, among own and supporting events, was made; empty for none."""
    found = next(filter(None, map(_how_signed_in, (*facts.events, *facts.supporting))), "")
    return f"; signed in {found}" if found else ""


def _called(facts: TitleFacts, on: str) -> str:
    """Return the leading call, how often it was made if in bulk, and the count of other actions: the new ones if it is new.

    `on` is the text about its resource or its sign-in.
    """
    lead, tried = facts.lead
    verb = "tried" if tried and have_all_failed(facts, lead) else "called"
    often = often_text(facts, lead)
    # Without the comma, "and 1 other 2 times" would mean two calls on the other resource.
    on += "," if often and on.endswith(OTHERS) else ""
    if service := service_between(facts, facts.leading_row):
        verb = f"had {cut(service, MAX_NAME_LENGTH // 2)} {'try' if verb == 'tried' else 'call'}"
    call = f"{cut(SOURCE.plain_action(lead))}{_how_requested(facts, lead)}{on}{often}"
    if lead not in facts.new_to_all:
        others = _beside_usual(facts) or _and_others(facts, {*facts.ranked} - {lead}, "other action")
    else:
        # Everything is new for a newcomer, also what its peers do every day.
        is_counted = len(facts.new_to_all) > 1 and facts.is_learned
        others = _and_others(facts, *new_beside(facts)) + ("" if is_counted else _how_new(facts))
    graver = _graver_beside(facts)
    between = ", " if others.startswith(" and ") else " and "
    others = _after_count(often or on * on.endswith(OTHERS), others)
    first = f"{_supporting_call(graver)}{between}" if graver else ""
    return f"{verb} {first}{call}{others}"


def _graver_beside(facts: TitleFacts) -> ActionImpact | None:
    """Return the supporting action that the title names before the leading one; None for none.

    It is new, succeeded, is grave or severe, and is graver than the leading one, which is no read in bulk and did not fail. It
    came from the same address and session, so that the place in the title is true of it, too.
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
    """Return a supporting action, how its request makes it graver, and how often it succeeded."""
    words = SOURCE.request_words(row.effect)
    how, done = f" ({words})" if words else "", row.calls - row.failed
    return f"{cut(SOURCE.plain_action(row.action))}{how}{times_text(done)}"


def _own_gravity(facts: TitleFacts, action: str) -> int:
    """Return the place in GRAVITIES of the alert's own calls of an action, regardless of their number and origin."""
    own = (row for row in facts.actions if row.action == action and not row.in_bulk)
    return max((GRAVITIES.index(row.gravity_anywhere) for row in own), default=0)


def _beside_usual(facts: TitleFacts) -> str:
    """Return the new actions beside a usual leading one: a single one by name, several as a count; empty for none."""
    new = sorted(facts.new_to_all)
    if len(new) == 1 and from_there(facts, new):
        return f" and {cut(SOURCE.plain_action(new[0]))}{_how_new(facts)}"
    return _and_others(facts, *new_beside(facts))


def _and_others(facts: TitleFacts, actions: Collection[str], noun: str, where: str = "") -> str:
    """Return the number of `actions` from the place of the leading call; `elsewhere_text` counts those from elsewhere."""
    there = len(from_there(facts, actions))
    return f" and {count_text(there, noun, where)}" if there else ""


def _after_count(before: str, others: str) -> str:
    """Return `others`, a count of actions, with a comma that sets it apart from a count of calls or resources in `before`.

    >>> _after_count(" on bucket:lake and 6 others, 33 times in a minute", " and 4 other new actions")
    ', and 4 other new actions'
    """
    stands_apart = not before or before.endswith(")")
    return f",{others}" if not stands_apart and others[len(" and ") :][:1].isdigit() else others


def _how_new(facts: TitleFacts) -> str:
    """Return how new the leading action is; empty if the history has nothing of the principal, which the title says."""
    if facts.is_new_here:
        whom = "" if facts.here in (AT_ROLE, AT_PROVIDER) else f"to {them(facts)} "
        return f", new {whom}{facts.here},"
    if facts.is_learned:
        return f", new to {them(facts)},"
    return f", not in {_history(facts)}," if facts.in_history else ""


def _history(facts: TitleFacts) -> str:
    """Return the words for the principal's own history, or for that of all if it has nothing of the principal."""
    if not facts.in_history:
        return "the history"
    return f"{'their' if facts.is_person else 'its'} history"


def _strangest_account(facts: TitleFacts, lead: int) -> str:
    """Return the new account that is the alert's strongest driver, unless the title names it already; empty for none."""
    scored = [each for each in facts.drivers if each.feature in SCORED_FEATURES]
    driver = max(scored, key=lambda each: each.surprise, default=None)
    if driver is None or (driver.feature, driver.rarity) != (ACCOUNT_FEATURE, "unseen"):
        return ""
    if driver.seen in let_in(facts, facts.events[lead]):
        return ""
    some = f"; {driver.events:,}" if driver.events < len(facts.events) else ","
    return f"{some} with another account that is new to {them(facts)} ({cut(driver.seen)})"


def _moved(facts: TitleFacts) -> str:
    """Return the words for a machine that never moved and was used at another network, with its usual one; empty for none."""
    driver = next((each for each in facts.drivers if each.feature == MOVE_FEATURE), None)
    if driver is None:
        return ""
    known = cut(driver.expected)
    return f"; always {known}" if _credential(facts) else f"; outside its usual networks ({known})"


def _new_opener(facts: TitleFacts) -> str:
    """Return the words for a caller who opened a role for the first time, and for the only one who did before; empty for none.

    The role is named if the leading action is not the opening itself.
    """
    driver = next((each for each in facts.drivers if each.feature == OPENER_FEATURE), None)
    if driver is None:
        return ""
    only = "" if ", " in driver.expected else cut(driver.expected, MAX_NAME_LENGTH // 2)
    openings = FEATURE_SET.openings
    if openings and facts.lead[0] in openings.actions:
        return f"; before, only {only} opened this role" if only else "; never opened this role before"
    before = f"only {only} did before" if only else f"is new to {them(facts)}"
    role = driver.seen.rpartition(OPENED)[2]  # the last: a role's name has no blanks, an opener's may
    return f"; also opened {cut(role, MAX_NAME_LENGTH // 2)}, which {before}"


def _own_call(facts: TitleFacts) -> str:
    """Return the service that alone called an action for them before: of the leading action if any, else of the strangest one."""
    drivers = [each for each in facts.drivers if each.feature == CALL_PATH_FEATURE]
    if not drivers:
        return ""
    driver = next((each for each in drivers if each.seen == facts.lead[0]), drivers[0])
    what = "it" if driver.seen == facts.lead[0] else cut(SOURCE.plain_action(driver.seen))
    service = driver.expected.removeprefix(ONLY_BY).rpartition(" on ")[0]
    return f"; before, only {cut(service, MAX_NAME_LENGTH // 2)} called {what} for {them(facts)}"


def _also(facts: TitleFacts) -> str:
    """Return one more action that deserves a place in the title, as `; also ...`; empty for none.

    It is the first that exists of:
    1. the gravest supporting action that succeeded: grave or severe and no less grave than the leading one, or notable and new
       beside a leading action that is less than notable
    2. data taken in bulk
    3. a new supporting read of data
    4. the action of the largest amount that was never as large

    Beside a severe leading action only data taken in bulk are named. If all events failed, nothing is: `failures_text` says what
    succeeded.
    """
    lead, _ = facts.lead
    leading, named = _own_gravity(facts, lead), _graver_beside(facts)
    grave, notable = GRAVITIES.index("grave"), GRAVITIES.index("notable")
    if all(event.error_code for event in facts.events):
        return ""
    taken = (row.action for row in facts.actions if row.in_bulk and row.succeeded and row.action != lead)
    bulk = next(taken, "")
    if GRAVITIES[leading] == "severe":
        return f"; also {cut(SOURCE.plain_action(bulk))}{often_text(facts, bulk)}" if bulk else ""
    for row in facts.supporting_actions if named is None else ():
        least = notable if impact.is_named_beside(row) and leading < notable else max(leading, grave)
        if row.succeeded and row.action != lead and GRAVITIES.index(row.gravity) >= least:
            return f"; also {cut(SOURCE.plain_action(row.action))}{_by_another(facts, row.action)}"
    reads = new_reads_beside(facts) if not bulk and facts.is_learned else Counter()
    for name, calls in reads.items():
        if name not in {event.action_name for event in facts.events}:
            return f"; also {cut(SOURCE.plain_action(name))}{times_text(calls)}, new to {them(facts)}"
    bulk = bulk or largest_amount(facts)
    return (
        f"; also {cut(SOURCE.plain_action(bulk))}{often_text(facts, bulk)}" if bulk not in ("", lead) else ""
    )


def _by_another(facts: TitleFacts, action: str) -> str:
    """Return ` by <session>` if another person than the leading caller made all supporting calls of an action; else empty."""
    sessions = {each.session for each in facts.supporting if each.action_name == action}
    name = sessions.pop() if len(sessions) == 1 else ""
    known = {facts.events[facts.leading_row].session, *facts.humans[:1]}
    several = len(set(filter(None, facts.humans))) > 1
    return f" by {cut(name, MAX_NAME_LENGTH // 2)}" if several and "@" in name and name not in known else ""
