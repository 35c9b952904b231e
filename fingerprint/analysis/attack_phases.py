"""Phases of an alert: ATT&CK tactic, technique, calls, resources, and what failed.

Example:
    >>> for phase in attack_phases(store.evidence.calls([alert_id]), new_calls(alert.drivers, alert.impact_of)):
    ...     print(phase.name, [(each.call.name, each.call.events) for each in phase.calls])
    Defense Evasion [('cloudtrail:StopLogging', 3), ('ec2:DeleteFlowLogs', 1)]
    Other changes [('lambda:TagResource', 1)]

Phases are in the order of the ATT&CK matrix. Every call is in exactly one phase, that of its first tactic; its other tactics are
named beside it. Calls without a tactic form the last two phases, changes and reads, so that nothing is hidden. Within a phase,
calls that changed something come first, then changes that failed, then reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fingerprint.core.alert import ActionImpact, SurpriseDriver
from fingerprint.core.story import CallSummary
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import TACTICS, Technique

OTHER_CHANGES, OTHER_READS = "Other changes", "Other reads"
PHASES = (*TACTICS, OTHER_CHANGES, OTHER_READS)


@dataclass(frozen=True, slots=True)
class PhaseCall:
    """A call in a phase, with the techniques that it carries out there and the further tactics that it may serve.

    `new` is True if the alert's explanation says that the principal never called it before.
    """

    call: CallSummary
    techniques: tuple[Technique, ...]
    other_tactics: tuple[str, ...]
    writes: bool
    new: bool


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase: the name and id of a tactic, or one of the general classes without an id."""

    name: str
    tactic_id: str
    calls: tuple[PhaseCall, ...]

    @property
    def events(self) -> int:
        """Return the number of its events."""
        return sum(each.call.events for each in self.calls)

    @property
    def failed(self) -> int:
        """Return the number of its events that failed."""
        return sum(each.call.failed for each in self.calls)

    @property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Return its calls as (service, action)."""
        return frozenset((each.call.service, each.call.action) for each in self.calls)


def attack_phases(calls: Iterable[CallSummary], new: Collection[str] = ()) -> tuple[Phase, ...]:
    """Return the phases with a call, in the order of the matrix; `new` are calls as `service:Action`."""
    phases: dict[str, list[PhaseCall]] = {name: [] for name in PHASES}
    for call in calls:
        phase, made = _place(call, call.name in new)
        phases[phase].append(made)
    return tuple(
        Phase(name, TACTICS.get(name, ""), tuple(sorted(made, key=_order)))
        for name, made in phases.items()
        if made
    )


def new_calls(drivers: Iterable[SurpriseDriver], impact_of: Iterable[ActionImpact] = ()) -> frozenset[str]:
    """Return the calls, as `service:Action`, that are new for the principal by an alert's explanation or impact."""
    unseen = {driver.seen for driver in drivers if driver.feature == "action" and driver.rarity == "unseen"}
    return frozenset(unseen | {each.action for each in impact_of if each.new})


def _place(call: CallSummary, new: bool) -> tuple[str, PhaseCall]:
    tactics = SOURCE.tactics_of(call.service, call.action)
    writes = SOURCE.changes_something(call.action)
    phase = tactics[0] if tactics else OTHER_CHANGES if writes else OTHER_READS
    techniques = SOURCE.techniques_of(call.service, call.action)
    own = tuple(each for each in techniques if each.tactic == phase)
    return phase, PhaseCall(call, own, tactics[1:], writes, new)


def _order(each: PhaseCall) -> tuple[int, bool, int, str]:
    done = each.call.events > each.call.failed
    rank = 0 if each.writes and done else 1 if each.writes else 2
    return rank, not each.new, -each.call.events, each.call.name
