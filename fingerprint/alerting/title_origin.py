"""Origin of calls in a title: network, region and tool of the leading call, and calls that came from elsewhere.

Example:
    >>> origin_text(facts, facts.leading_row)
    '159.65.0.0/16 (new network), new tool TruffleHog; 3 other new actions from elsewhere'
"""

from __future__ import annotations

from collections.abc import Collection

from fingerprint.alerting.title_facts import (
    TitleFacts,
    called_from,
    from_there,
    has_strange_network,
    how_usual,
)
from fingerprint.alerting.title_tools import leading_tool
from fingerprint.alerting.title_words import (
    MAX_NAME_LENGTH,
    count_text,
    cut,
    new_beside,
    service_between,
    them,
)
from fingerprint.core.related_events import find_cause
from fingerprint.sources.active import SOURCE

MAX_REGION_LENGTH = 40


def new_origin(facts: TitleFacts, row: int) -> str:
    """Return the new network and the new tool of an event; empty for none, and for a call by a service, which is no place.

    >>> new_origin(facts, 0)
    ' from 159.65.0.0/16 (new network), new tool TruffleHog'
    """
    if service_between(facts, row):
        return ""
    name = facts.events[row].event_id
    place = f" from {_new_network(facts, name)}" if has_strange_network(facts, name) else ""
    return f"{place}{leading_tool(facts, row)}"


def origin_text(facts: TitleFacts, lead: int) -> str:
    """Return the place, new region and new tool of the leading call, and what came from elsewhere.

    If the leading call came from no new network, the strangest new network of the other calls is named, or else a new region.
    """
    event, how = facts.events[lead], f"{region_text(facts, lead)}{leading_tool(facts, lead)}"
    if has_strange_network(facts, event.event_id):
        return f"{_new_network(facts, event.event_id)}{how}{elsewhere_text(facts)}"
    ids = [each.event_id for each in facts.events]
    networks = [name for name in ids if has_strange_network(facts, name)]
    regions = [name for name in ids if name in facts.new_regions]
    networks.sort(key=lambda name: how_usual(facts, name))
    elsewhere = elsewhere_text(facts, *networks[:1])
    if regions and not networks and event.event_id not in facts.new_regions:
        elsewhere += f"; others in {cut(facts.new_regions[regions[0]], MAX_REGION_LENGTH)} (new region)"
    return f"{cut(event.source_address) or 'nowhere named'}{how}{elsewhere}"


def elsewhere_text(facts: TitleFacts, event_id: str = "") -> str:
    """Return the number of new actions from another place than the leading call's, and the new network of an event if given.

    Empty if no event is given and all new actions came from the place of the leading call.
    """
    actions, noun, where = new_beside(facts)
    left = actions - from_there(facts, actions)
    counted = count_text(len(left), noun, where) if left else "others"
    by = _by_services(facts, left)
    if not event_id:
        return f"; {counted} {by or 'from elsewhere'}" if left else ""
    there = left <= called_from(facts, facts.new_networks[event_id])
    row = next(row for row, event in enumerate(facts.events) if event.event_id == event_id)
    if service := service_between(facts, row):
        strange = f"by {cut(service, MAX_NAME_LENGTH // 2)} for {them(facts)}"
        return f"; {counted} {by or strange}" if by or there else f"; {counted} from elsewhere, as {strange}"
    if by and not there:
        return f"; {counted} {by}; others from {_new_network(facts, event_id)}"
    return f"; {counted} from {'' if there else 'elsewhere, as from '}{_new_network(facts, event_id)}"


def _by_services(facts: TitleFacts, actions: Collection[str]) -> str:
    """Return the service, or services, that made all calls of some actions for a person; empty if a call had no service."""
    services = {
        service_between(facts, row) for row, event in enumerate(facts.events) if event.action_name in actions
    }
    if not services or "" in services:
        return ""
    by = cut(services.pop(), MAX_NAME_LENGTH // 2) if len(services) == 1 else "services"
    return f"by {by} for {them(facts)}"


def cause_text(facts: TitleFacts, lead: int) -> str:
    """Return the person's own call that made a service call the leading action, if known, and what came from elsewhere."""
    own = [each for each in facts.events if not each.by_service]
    cause = find_cause(facts.events[lead], (*own, *facts.supporting), SOURCE.changes_something)
    called = (
        f" for {cut(SOURCE.plain_action(cause.action_name))} from {cut(cause.source_address)}"
        if cause
        else ""
    )
    networks = [each.event_id for each in own if has_strange_network(facts, each.event_id)]
    networks.sort(key=lambda name: how_usual(facts, name))
    return f"{called}{elsewhere_text(facts, *networks[:1])}"


def _new_network(facts: TitleFacts, event_id: str) -> str:
    """Return the new network of an event, and how it is new.

    It may be only a new address range of a known network (a provider gives out many), or new only at this role.
    """
    kind = "new address range" if event_id in facts.new_ranges else "new network"
    how = f"new to {them(facts)}, usual for others" if event_id in facts.usual_for_others else kind
    how = f"new {facts.here}" if event_id in facts.networks_elsewhere else how
    return f"{cut(facts.new_networks[event_id])} ({how})"


def region_text(facts: TitleFacts, lead: int) -> str:
    """Return the region of the leading call if it is new; else an empty text."""
    region = facts.new_regions.get(facts.events[lead].event_id, "")
    return f" in {cut(region, MAX_REGION_LENGTH)} (new region)" if region else ""
