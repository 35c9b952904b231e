"""All calls of a day: everybody's and the intruders'."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fingerprint.simulation.api_calls import CallerSession, Calls, concatenate_calls
from fingerprint.simulation.attacks import Attack
from fingerprint.simulation.benign_anomalies import BenignAnomaly, apply_outages
from fingerprint.simulation.staff import Staff


@dataclass(frozen=True, slots=True)
class SimulatedDay:
    """`attacks` holds (row, attack) for each attack of the day: its calls are the rows from there on, in
    order.
    """

    number: int
    calls: Calls
    sessions: list[CallerSession]
    attacks: list[tuple[int, Attack]]

    def labels(self, event_ids: Sequence[str], cutoff: float = math.inf) -> Iterator[dict[str, str]]:
        """One label an attack event, of those before `over`, seconds since the day's midnight."""
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


def simulate_day(
    staff: Staff, attacks: Sequence[Attack], anomalies: Sequence[BenignAnomaly], day: int
) -> SimulatedDay:
    """Day number `day`: what everybody does, what fails in an outage, and the attacks after it."""
    calls, sessions = concatenate_calls([who.simulate_day(day) for who in staff.all_principals])
    outages = [surprise for surprise in anomalies if surprise.service and surprise.since == day]
    calls = apply_outages(calls, outages, staff.people[0].organisation.library)
    now, found, row = [attack for attack in attacks if attack.day == day], [], len(calls)
    for attack in now:
        found.append((row, attack))
        row += len(attack.script.forms)
    calls, sessions = concatenate_calls(
        [(calls, sessions), *((attack.calls(), [attack.session]) for attack in now)]
    )
    return SimulatedDay(day, calls, sessions, found)
