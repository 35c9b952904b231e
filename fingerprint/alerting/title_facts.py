"""The facts behind the title of an alert, and the call that leads the title.

Example:
    >>> facts = TitleFacts(events, drivers, actions, new_actions, ranked)
    >>> facts.lead                                       # the action, and whether all its calls failed
    ('iam:CreateAccessKey', False)

The leading call is the gravest new one that succeeded, else a read in bulk, else the most surprising call (`_find_lead`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

from fingerprint.alerting import impact
from fingerprint.core.alert import ActionImpact, AlertEvent, SurpriseDriver
from fingerprint.core.people import names_person
from fingerprint.core.related_events import succeeded_beside
from fingerprint.estimators.amounts import read_amount_text
from fingerprint.features.encoding import FEATURE_SET
from fingerprint.sources.active import SOURCE

AT_ROLE, AT_PROVIDER = "at this role", "at this provider"
MANY_READS = 20  # calls that read data; from so many on, a newcomer, who has no usual amount, reads in bulk
ACTION_FEATURE, AMOUNT_FEATURE, PROGRAM_FEATURE = "action", "amount", impact.PROGRAM_FEATURE
CREDENTIALS = "Credential Access"  # the tactic of an action that reads secrets
HOUR = timedelta(hours=1)
UNUSUAL_RESOURCES = " on unusual"  # marks an amount of calls on unusual resources, in the text of its span


@dataclass(frozen=True)
class TitleFacts:
    """The facts that a title is made of.

    Actions, as `service:Action`:
    - `actions`: the impact of the alert's own actions, those that count most first; `ranked`: all distinct actions, the most
      unusual first
    - `new_actions`: those that are new for the principal

    Events (N,):
    - `humans`: the person or machine behind each event, empty for none; `programs`: its tool; `versions`: its tool with a version
    - `new_networks`, `new_regions`: by event id, the network or region that is new for the principal
    - `new_ranges`: ids of events from a new address range of a known network
    - `usual_for_others`: ids of events from a new network whose address range many other principals use
    - `usual_places`: ids of events from a new network whose principal uses new ones all the time; no title leads with them or
      calls them new

    A person at several roles:
    - `actions_elsewhere`, `tools_elsewhere`, `networks_elsewhere` (event ids): what the same person used at other roles. It is
      new `here` (at this role) and not new to the person.

    Support:
    - `supporting`: the events that support the alert; `supporting_actions`: their actions, those that count most first;
      `supporting_new`: all of their actions that are new

    The principal:
    - `first_seen`: when a newcomer was first seen and whether the history has it, else empty; `in_history`: the history has some
      of the principal
    - `is_learned`: the principal has a fingerprint of its own, so a new action is new to it. Without one, the principal may have
      done the same before, since it came.
    - `late_days`: the longest delivery delay of its events; `knows_account`: the bank knows the account of the principal
    """

    events: Sequence[AlertEvent]
    drivers: Sequence[SurpriseDriver]
    actions: Sequence[ActionImpact]
    new_actions: Collection[str]
    ranked: Sequence[str]
    humans: Sequence[str] = ()
    programs: Sequence[str] = ()
    versions: Sequence[str] = ()
    new_networks: Mapping[str, str] = field(default_factory=dict)
    new_regions: Mapping[str, str] = field(default_factory=dict)
    new_ranges: Collection[str] = ()
    usual_for_others: Collection[str] = ()
    usual_places: Collection[str] = ()
    actions_elsewhere: Collection[str] = ()
    networks_elsewhere: Collection[str] = ()
    tools_elsewhere: Collection[str] = ()
    here: str = AT_ROLE
    supporting: Sequence[AlertEvent] = ()
    supporting_actions: Sequence[ActionImpact] = ()
    supporting_new: Collection[str] = ()
    first_seen: str = ""
    in_history: bool = True
    is_learned: bool = True
    late_days: int = 0
    knows_account: bool = False

    @cached_property
    def lead(self) -> tuple[str, bool]:
        """The leading action, and whether all its calls failed. Cached: a title reads it a dozen times."""
        return _find_lead(self)

    @cached_property
    def new_to_all(self) -> Collection[str]:
        """The new actions that a title counts: those that the person called at no other role, or all if there are none."""
        left = {*self.new_actions}.difference(self.actions_elsewhere) if self.is_learned else set()
        return left or self.new_actions

    @cached_property
    def is_new_here(self) -> bool:
        """True if the person called all new actions before, at other roles."""
        return bool(self.new_actions) and {*self.new_actions} <= {*self.actions_elsewhere}

    @cached_property
    def leading_row(self) -> int:
        """The row of the event that the title is about: a call of the leading action, one that succeeded if any did."""
        return _least_usual_row(self, self.lead[0])

    @cached_property
    def is_person(self) -> bool:
        """True if the record of the leading call names a person; False for a role or a machine, which a title calls `it`."""
        return bool(self.humans) and names_person(self.humans[self.leading_row])

    @cached_property
    def calls_by_action(self) -> Mapping[str, list[AlertEvent]]:
        """The alert's own events by their action."""
        calls: dict[str, list[AlertEvent]] = {}
        for event in self.events:
            calls.setdefault(event.action_name, []).append(event)
        return calls


def _find_lead(facts: TitleFacts) -> tuple[str, bool]:
    """Return the leading action of a title, and whether all its calls failed.

    If an action counts by its impact (`harmful_actions`), the leading one is the first that exists of:
    1. the harmful action that counts most and succeeded, by an own call or a supporting one from the same place
    2. an action that took data in bulk and succeeded
    3. the harmful action that counts most

    Else it is the first that exists of:
    1. a new sign-in without MFA
    2. the action of the largest amount that was never as large, such as downloads, or the bulk read of a newcomer
    3. the most surprising new action, one that succeeded if any did
    4. the most unusual action

    A throttled call says little: if all calls of the leading action were throttled, an action that succeeded leads instead. Where
    most calls came from a new network, a notable action from the usual place leads no title: the alert is not about it.
    """
    elsewhere = _minor_part(facts)
    if counted := [row for row in harmful_actions(facts) if row.action not in elsewhere]:
        done = (row for row in counted if row.succeeded or succeeded_there(facts, row.action))
        taken = (row for row in facts.actions if _takes_data(row) and row.succeeded)
        row = next(done, next(taken, counted[0]))
        return row.action, all(event.error_code for event in calls_of(facts, row.action))
    succeeded = {event.action_name for event in facts.events if not event.error_code}
    surprising = [each.seen for each in facts.drivers if each.feature == ACTION_FEATURE]
    named = (*surprising, *facts.ranked)
    new = [each for each in named if each in facts.new_to_all and each not in elsewhere]
    sign_ins = (event.action_name for event in facts.events if SOURCE.signed_in_without_mfa(event.raw))
    candidates = (
        *(each for each in sign_ins if each in facts.new_actions),
        largest_amount(facts),
        newcomers_bulk(facts),
        *(each for each in new if each in succeeded),
        *new,
        *facts.ranked,
    )
    lead = next(filter(None, candidates), "something")
    if {event.error_code for event in calls_of(facts, lead)} <= FEATURE_SET.throttled:
        alike = succeeded & {*(facts.new_actions if lead in facts.new_actions else facts.ranked)}
        lead = next((each for each in named if each in alike), lead)
    return lead, all(event.error_code for event in calls_of(facts, lead))


def _least_usual_row(facts: TitleFacts, action: str) -> int:
    """Return the row of the call of an action that a title names: one that succeeded if any did, from the least usual place."""
    rows = [row for row, event in enumerate(facts.events) if event.action_name == action]

    def order(row: int) -> tuple[bool, ...]:
        event, name = facts.events[row], facts.events[row].event_id
        return bool(event.error_code), *how_usual(facts, name), name not in facts.new_regions

    return min(rows, key=order, default=0)


def _minor_part(facts: TitleFacts) -> Collection[str]:
    """Return the notable actions that came only from the usual place, if most calls of the alert came from a new network."""
    strange = [event for event in facts.events if has_strange_network(facts, event.event_id)]
    if 2 * len(strange) <= len(facts.events):
        return ()
    notable = {row.action for row in facts.actions if row.gravity == "notable"}
    return notable - {event.action_name for event in strange}


def harmful_actions(facts: TitleFacts) -> list[ActionImpact]:
    """Return the actions that count by their impact, those that count most first.

    Left out are data taken in bulk, which a title names after changes and secrets, and calls that are grave only because of where
    their credential was used, which a title says of all calls.
    """
    counted = (row for row in facts.actions if impact.action_nats(row) > 0 and not _takes_data(row))
    return [row for row in counted if row.gravity_anywhere != "none"]


def _takes_data(row: ActionImpact) -> bool:
    """Return whether an action takes data in bulk; secrets are not data here."""
    return row.in_bulk and row.tactic != CREDENTIALS


def largest_amount(facts: TitleFacts) -> str:
    """Return the action whose amount was never as large and drives the alert most; empty for none."""
    for driver in _unseen_amounts(facts):
        for action in facts.ranked:
            if read_amount_text(driver.seen, action):
                return action
    return ""


def newcomers_bulk(facts: TitleFacts) -> str:
    """Return the most frequent action of a newcomer if it reads data and succeeded many times; empty for none."""
    if facts.is_learned:
        return ""
    [(name, _)] = Counter(event.action_name for event in facts.events).most_common(1)
    done = sum(not event.error_code for event in calls_of(facts, name))
    service, _, action = name.partition(":")
    reads = SOURCE.bulk_read(service, action).gravity != "none"
    return name if reads and done >= max(MANY_READS, len(facts.events) // 2) else ""


def _unseen_amounts(facts: TitleFacts) -> Iterator[SurpriseDriver]:
    return (each for each in facts.drivers if (each.feature, each.rarity) == (AMOUNT_FEATURE, "unseen"))


def amounts_of(facts: TitleFacts, action: str) -> Iterator[tuple[SurpriseDriver, str, str]]:
    """Yield the amounts of an action that were never as large: driver, number of calls and span, as texts.

    For a new action, an amount on unusual resources may be small, because others use some of them. If all its calls lie within an
    hour, the calls on any resource are counted instead.
    """
    made = calls_of(facts, action) if action in facts.new_actions else []
    for driver in _unseen_amounts(facts):
        if amount := read_amount_text(driver.seen, action):
            calls, span = amount
            any_resource, unusual, _ = span.partition(UNUSUAL_RESOURCES)
            if unusual and len(made) >= int(calls.replace(",", "")) and lasted(made) < HOUR:
                calls, span = f"{len(made):,}", any_resource
            yield driver, calls, span


def counts_successes(facts: TitleFacts, action: str) -> bool:
    """Return whether a title counts only calls that succeeded: amounts do, except those on unusual resources."""
    counted = (read_amount_text(driver.seen, action) for driver, _, _ in amounts_of(facts, action))
    amount = next(counted, None)
    return amount is not None and UNUSUAL_RESOURCES not in amount[1]


def calls_of(facts: TitleFacts, action: str) -> list[AlertEvent]:
    """Return the alert's own events of an action."""
    return facts.calls_by_action.get(action, [])


def lasted(events: Sequence[AlertEvent]) -> timedelta:
    """Return the time between the first and the last of some events."""
    times = [event.event_time for event in events]
    return max(times) - min(times) if times else timedelta()


def succeeded_there(facts: TitleFacts, action: str) -> list[AlertEvent]:
    """Return the supporting calls of an action that succeeded, the most unusual first.

    Only those count that came from an address of the alert's own calls of it, at the place that a title with this action names.
    """
    calls = calls_of(facts, action)
    if not calls:
        return []
    place = _place(facts, facts.events[_least_usual_row(facts, action)])
    return succeeded_beside(
        action, [each for each in calls if _place(facts, each) == place], facts.supporting
    )


def new_reads_beside(facts: TitleFacts) -> Counter[str]:
    """Return the number of supporting calls by action, for new actions that read data, without calls that failed.

    >>> new_reads_beside(facts)
    Counter({'s3:GetObject': 11})
    """
    return Counter(
        event.action_name
        for event in facts.supporting
        if not event.error_code
        and event.action_name in facts.supporting_new
        and SOURCE.bulk_read(event.service, event.action).gravity == "severe"
    )


def from_there(facts: TitleFacts, actions: Collection[str]) -> set[str]:
    """Return those of `actions` that were also called from the place of the leading call."""
    return called_from(facts, _place(facts, facts.events[facts.leading_row])) & {*actions}


def called_from(facts: TitleFacts, place: str) -> set[str]:
    """Return the actions of an alert that came from a place: a new network or an address."""
    return {event.action_name for event in facts.events if _place(facts, event) == place}


def _place(facts: TitleFacts, event: AlertEvent) -> str:
    """Return the place of an event in a title: its network if that is new, else its address."""
    if has_strange_network(facts, event.event_id):
        return facts.new_networks[event.event_id]
    return event.source_address


def how_usual(facts: TitleFacts, event_id: str) -> tuple[bool, bool, bool, bool]:
    """Return a sort key of events that puts those from the strangest network first."""
    return (
        not has_strange_network(facts, event_id),
        event_id in facts.networks_elsewhere,
        event_id in facts.usual_for_others,
        event_id in facts.new_ranges,
    )


def has_strange_network(facts: TitleFacts, event_id: str) -> bool:
    """Return whether an event came from a new network or address range, and its principal does not use new ones all the time."""
    return event_id in facts.new_networks and event_id not in facts.usual_places
