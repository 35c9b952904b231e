"""A simulated world: an organisation, its staff, planned anomalies and attacks, and all calls of each day.

Example:
    >>> from datetime import date
    >>> organisation = Organisation.create(seed=1, start=date(2026, 1, 5), days=14)
    >>> world = SimulatedWorld.create(organisation, principals=20, attacks=4)
    >>> len(world.attacks), len(world.staff.all_principals)
    (4, 20)
    >>> day = world.simulate_day(0)                      # its calls and sessions, and which calls are attacks

The module `organisation` is below those of people and machines, which import it. A world imports all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fingerprint.simulation.api_calls import CallerSession, Calls, concatenate_calls
from fingerprint.simulation.attacks import STRENGTHS, Attack, plan_attacks
from fingerprint.simulation.benign_anomalies import (
    ANOMALY_PLANNERS,
    BenignAnomaly,
    apply_outages,
    plan_anomalies,
)
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.staff import Staff, create_staff


@dataclass(frozen=True, slots=True)
class SimulatedDay:
    """The calls of day `number`; `attacks` are (first row, attack): the attack's calls are the rows from there on, in order."""

    number: int
    calls: Calls
    sessions: list[CallerSession]
    attacks: list[tuple[int, Attack]]

    def labels(self, event_ids: Sequence[str], cutoff: float = math.inf) -> Iterator[dict[str, str]]:
        """Yield a label for each call of an attack before `cutoff` (seconds since midnight); `event_ids` are by row."""
        for first, attack in self.attacks:
            for i, technique in enumerate(attack.script.techniques):
                if self.calls.time[first + i] >= cutoff:
                    continue
                yield {
                    "event_id": event_ids[first + i],
                    "session": attack.name,
                    "technique": technique,
                    "strength": attack.strength,
                    "principal": attack.victim.key,
                    "key": attack.victim.principal_key,
                }


@dataclass(frozen=True)
class SimulatedWorld:
    """A world as it is planned before its first day is simulated."""

    organisation: Organisation
    staff: Staff
    anomalies: list[BenignAnomaly]
    attacks: list[Attack]

    @classmethod
    def create(
        cls,
        organisation: Organisation,
        principals: int,
        attacks: int = 0,
        scale: float = 1.0,
        strengths: Sequence[str] = STRENGTHS,
        anomalies: Sequence[str] = tuple(ANOMALY_PLANNERS),
    ) -> SimulatedWorld:
        """Return a world with a number of `principals`, with planned `anomalies` (by name) and a number of `attacks`.

        `scale` multiplies the calls of people and machines. Raises FingerprintError for unknown names of anomalies or strengths,
        or if there are more attacks than possible victims.
        """
        staff = create_staff(organisation, principals, scale)
        # before the attacks, because a new hire is no victim
        harmless = plan_anomalies(organisation, staff, anomalies)
        return cls(
            organisation, staff, harmless, plan_attacks(organisation, staff, attacks, tuple(strengths))
        )

    def simulate_day(self, day: int) -> SimulatedDay:
        """Return all calls of day number `day`: those of all principals, some of which fail in outages, then those of attacks."""
        calls, sessions = concatenate_calls([who.simulate_day(day) for who in self.staff.all_principals])
        outages = [anomaly for anomaly in self.anomalies if anomaly.service and anomaly.since == day]
        calls = apply_outages(calls, outages, self.organisation.library)
        planned = [attack for attack in self.attacks if attack.day == day]
        first_rows, row = [], len(calls)
        for attack in planned:
            first_rows.append((row, attack))
            row += len(attack.script.forms)
        calls, sessions = concatenate_calls(
            [(calls, sessions), *((attack.calls(), [attack.session]) for attack in planned)]
        )
        return SimulatedDay(day, calls, sessions, first_rows)
