"""All calls of a day: everybody's and the intruders'."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fingerprint.simulation.api_calls import Calls, Session, join
from fingerprint.simulation.attacks import Attack
from fingerprint.simulation.benign_anomalies import Surprise, suffer
from fingerprint.simulation.staff import Staff


@dataclass(frozen=True, slots=True)
class Day:
    """`attacks` holds (row, attack) for each attack of the day: its calls are the rows from there on, in
    order.
    """

    number: int
    calls: Calls
    sessions: list[Session]
    attacks: list[tuple[int, Attack]]

    def labels(self, event_ids: Sequence[str], over: float = math.inf) -> Iterator[dict[str, str]]:
        """One label an attack event, of those before `over`, seconds since the day's midnight."""
        for first, attack in self.attacks:
            for i, technique in enumerate(attack.script.techniques):
                if self.calls.time[first + i] >= over:
                    continue
                yield {
                    "event_id": event_ids[first + i],
                    "session": attack.name,
                    "technique": technique,
                    "strength": attack.strength,
                    "principal": attack.victim.key,
                    "key": attack.victim.principal,
                }


def day_of(staff: Staff, attacks: Sequence[Attack], surprises: Sequence[Surprise], day: int) -> Day:
    """Day number `day`: what everybody does, what fails in an outage, and the attacks after it."""
    calls, sessions = join([who.day(day) for who in staff.everybody])
    outages = [surprise for surprise in surprises if surprise.service and surprise.since == day]
    calls = suffer(calls, outages, staff.people[0].organisation.library)
    now, found, row = [attack for attack in attacks if attack.day == day], [], len(calls)
    for attack in now:
        found.append((row, attack))
        row += len(attack.script.forms)
    calls, sessions = join([(calls, sessions), *((attack.calls(), [attack.session]) for attack in now)])
    return Day(day, calls, sessions, found)
