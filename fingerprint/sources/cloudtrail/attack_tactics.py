"""The ATT&CK tactics and techniques of an AWS action: those of its impact first, then those of public mappings.

Example:
    >>> tactics_of("ec2", "RunInstances")                    # starts machines that someone pays for
    ('Impact', 'Execution')
    >>> techniques_of("ssm", "SendCommand")
    (Technique(id='T1651', name='Cloud Administration Command', tactic='Execution'),)
    >>> tactics_of("sts", "AssumeRole")
    ()

The impact of an action (`impact`) has the tactic of what the action does. Public mappings (`attack_mappings`) tag rules, and a
rule for one use of an action tags the whole action. So the tactic of the impact comes first wherever an action is shown, and
others follow. Actions of minor impact are everyday steps of every attack: they have only the tactics of the mappings, if any.
"""

from __future__ import annotations

from collections.abc import Iterable

from fingerprint.sources.base import NO_IMPACT, TACTICS, CallImpact, Technique
from fingerprint.sources.cloudtrail.attack_mappings import (
    mapped_tactics,
    mapped_techniques,
    technique_name,
    without_api_version,
)
from fingerprint.sources.cloudtrail.impact import listed_actions

EVERYDAY_TACTIC = "Discovery"  # as frequent in harmless work as in attacks


def tactics_of(service: str, action: str) -> tuple[str, ...]:
    """Return the tactics that an action serves: the impact's first, others in the order of the matrix.

    `service` is an event's (`ec2`), `action` its eventName.
    """
    own, mapped = _listed_impact(service, action).tactic, mapped_tactics(service, action)
    return (own, *(tactic for tactic in mapped if tactic != own)) if own else mapped


def tactics_among(calls: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the tactics that any of many (service, action) serves, in the order of the matrix; each pair is looked up once."""
    found = {tactic for service, action in set(calls) for tactic in tactics_of(service, action)}
    return tuple(tactic for tactic in TACTICS if tactic in found)


def techniques_of(service: str, action: str) -> tuple[Technique, ...]:
    """Return the techniques that an action carries out: the impact's first, then those that mappings name for other tactics.

    If a technique and one of its sub-techniques apply, only the sub-technique is returned.
    """
    impact, mapped = _listed_impact(service, action), mapped_techniques(service, action)
    name = technique_name(impact.technique)
    if not name:
        return mapped
    own = Technique(impact.technique, name, impact.tactic)
    return (own, *(each for each in mapped if each.tactic != own.tactic))


def serves_attackers(service: str, action: str) -> bool:
    """Return whether public mappings of attacks name an action for another tactic than discovery."""
    return bool(set(mapped_tactics(service, action)) - {EVERYDAY_TACTIC})


def _listed_impact(service: str, action: str) -> CallImpact:
    found = listed_actions().get((service, without_api_version(action)), NO_IMPACT)
    return NO_IMPACT if found.gravity == "minor" else found
