"""Simulated attack sessions, and how many of their calls are in alerts.

Example:
    >>> session = attack_sessions(Path("records/labels.jsonl"), found={"e1", "e2"})[0]
    >>> session.name, session.strength, session.calls, session.in_alerts
    ('attack-0', 'session', 12, 2)
"""

from __future__ import annotations

import json
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class AttackSession:
    """A simulated attack, and how many of its calls are in alerts."""

    name: str
    strength: str
    principal: str  # the end of its ARN
    calls: int
    in_alerts: int


def attack_sessions(labels: Path, found: Set[str]) -> list[AttackSession]:
    """Return the spliced attack sessions of labels.jsonl, by name; `found` are the ids of the events that are in alerts."""
    sessions: dict[str, list[dict[str, str]]] = {}
    for line in labels.read_text().splitlines():
        label = json.loads(line)
        sessions.setdefault(label["session"], []).append(label)
    return [
        AttackSession(
            name,
            events[0]["strength"],
            events[0]["principal"].split(":", 5)[-1],
            len(events),
            sum(event["event_id"] in found for event in events),
        )
        for name, events in sorted(sessions.items())
    ]
