"""Tools in a title: the new program of the leading call, and the program or version that is the alert's strongest driver.

Example:
    >>> strangest_tool(facts, facts.leading_row)
    ', with new version aws-cli 2.17 linux'
"""

from __future__ import annotations

from fingerprint.alerting.title_facts import (
    AMOUNT_FEATURE,
    PROGRAM_FEATURE,
    TitleFacts,
    harmful_actions,
    has_strange_network,
)
from fingerprint.alerting.title_words import cut
from fingerprint.core.alert import SurpriseDriver
from fingerprint.features.encoding import FEATURES
from fingerprint.features.value_texts import is_browser

MAX_MAJOR_DIGITS = 9  # digits of a version's first number, which the caller writes
VERSION_FEATURE = "program version"
TOOL_FEATURES = (PROGRAM_FEATURE, VERSION_FEATURE)
# Features whose drivers make the score. The nats of the order of calls and of activity come from other detectors.
SCORED_FEATURES = frozenset({AMOUNT_FEATURE, *(feature.label for feature in FEATURES)})
COMPARABLE_SURPRISE = 0.5  # a driver with this share of another one's nats is as good an explanation


def leading_tool(facts: TitleFacts, lead: int) -> str:
    """Return the tool of the leading call if it is new; a service that made the call for its caller is no tool."""
    program = facts.programs[lead] if facts.programs else ""
    if program == facts.events[lead].source_address:
        return ""
    new = (each.seen for each in facts.drivers if each.feature == PROGRAM_FEATURE and each.rarity == "unseen")
    return f", {_new_tool(facts, program)}" if program and program in new else ""


def _new_tool(facts: TitleFacts, name: str, noun: str = "tool") -> str:
    """Return a new tool or version in words, and whether it is new only at this role."""
    if name in facts.tools_elsewhere:
        return f"{noun} {cut(name)} (new {facts.here})"
    return f"new {noun} {cut(name)}"


def strangest_tool(facts: TitleFacts, lead: int) -> str:
    """Return the program or version that is the alert's strongest driver, unless `leading_tool` names it; empty for none.

    It is named whichever calls it made, because it is the largest share of the score. An upgrade (another version of the same
    program with the same first number, or a later one of the same browser) is left out beside a driver of a comparable surprise:
    fleets are upgraded on one day. A version that explains all new calls (`_explains`) is named even if it is not the strongest.
    """
    scored = [each for each in facts.drivers if each.feature in SCORED_FEATURES]
    # A service that made a call for its caller is no tool.
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
    named = facts.programs[lead] if leading_tool(facts, lead) else ""
    if named and _is_of_program(driver, named):
        return ""
    is_comparable = others >= COMPARABLE_SURPRISE * driver.surprise
    if driver.feature == VERSION_FEATURE and _is_upgrade(driver) and is_comparable:
        return ""
    some = f"; {driver.events:,}" if driver.events < len(facts.events) else ","
    return f"{some} with {_tool_text(facts, driver)}"


def _tool_text(facts: TitleFacts, driver: SurpriseDriver) -> str:
    """Return a program or version, and what is strange about it: it is new, rare, or unusual in such calls."""
    if driver.rarity == "unseen" and driver.feature == VERSION_FEATURE:
        return _new_tool(facts, driver.seen, "version")
    if driver.rarity == "unseen":
        return _new_tool(facts, driver.seen)
    return f"{cut(driver.seen)} ({'unusual in such calls' if driver.unusual_together else 'rare here'})"


def _is_of_program(driver: SurpriseDriver, program: str) -> bool:
    """Return whether a driver is a program, or a version of it."""
    if driver.feature == VERSION_FEATURE:
        return _name_and_major(driver.seen)[0] == _name_and_major(program)[0]
    return driver.seen == program


def _explains(facts: TitleFacts, driver: SurpriseDriver) -> bool:
    """Return whether an upgrade of a usual tool explains the new calls: all of them have it, from usual places, and do no harm.

    The upgrade of a browser explains no call: known calls have it as well.
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
    """Return whether a version is an upgrade: the name and first number of a usual version, or a later version of a browser.

    >>> _is_upgrade(SurpriseDriver("program version", "aws-cli 2.17 linux", "aws-cli 2.15 linux, Boto3 1.34", "unseen", 6.0))
    True
    """
    name, major = _name_and_major(driver.seen)
    usual = [major for each, major in map(_name_and_major, driver.expected.split(", ")) if each == name]
    is_later = bool(major and usual) and all(each and int(each) < int(major) for each in usual)
    return major in usual or (is_later and is_browser(driver.seen))


def _name_and_major(version: str) -> tuple[str, str]:
    """Return the name and the first number of a program or version: `aws-cli 2.17 linux` -> aws-cli, 2; no number is empty."""
    name, _, rest = version.partition(" ")
    major = rest.partition(" ")[0].partition(".")[0]
    return name, major if major.isdecimal() and len(major) <= MAX_MAJOR_DIGITS else ""
