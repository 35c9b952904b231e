"""The timeline of an alert, from the URL's parameters: filters, order, folding and the page.

Example:
    >>> timeline = parse_timeline({"writes": "1", "tactic": "Persistence"})
    >>> timeline.toggled(failed=True).parameters()
    {'writes': '1', 'failed': '1', 'tactic': 'Persistence'}
    >>> store.evidence.runs(alert_id, timeline.selection(story.phases), cursor=timeline.cursor)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from fingerprint.analysis.attack_phases import Phase, PhaseCall
from fingerprint.core.story import EventSelection

MAX_CALL_LENGTH = 400  # characters of a call in a URL; servers and proxies take URLs of some 8,000
PARAMETERS = {"cursor": "events"}  # fields whose parameter has another name


@dataclass(frozen=True, slots=True)
class TimelineQuery:
    """Filters, which an event must all match. `tactic` names a phase, `call` is `service:Action`, `cursor` begins a page."""

    writes: bool = False
    failed: bool = False
    new: bool = False
    tactic: str = ""
    call: str = ""
    newest: bool = False
    unfolded: bool = False
    cursor: str = ""

    @property
    def filters(self) -> bool:
        """Return whether only some of the events are asked for."""
        return self.writes or self.failed or self.new or bool(self.tactic or self.call)

    def parameters(self) -> dict[str, str]:
        """Return the parameters of a URL, without unset ones."""
        values = ((PARAMETERS.get(each.name, each.name), getattr(self, each.name)) for each in fields(self))
        return {name: "1" if value is True else value for name, value in values if value}

    def toggled(self, **changes: Any) -> TimelineQuery:
        """Return the query with some changes, at its first page."""
        return replace(self, **{"cursor": ""} | changes)

    def selection(self, phases: Iterable[Phase]) -> EventSelection:
        """Return the selection of events, by the calls of an alert's phases."""
        if not (self.writes or self.new or self.tactic or self.call):
            return EventSelection(failed=self.failed)
        calls = ((phase, each) for phase in phases for each in phase.calls)
        calls_shown = (each.call for phase, each in calls if self._has(phase, each))
        return EventSelection(frozenset((call.service, call.action) for call in calls_shown), self.failed)

    def _has(self, phase: Phase, each: PhaseCall) -> bool:
        return (
            (each.writes or not self.writes)
            and (each.new or not self.new)
            and self.tactic in ("", phase.name)
            and self.call in ("", each.call.name)
        )


def parse_timeline(parameters: Mapping[str, str]) -> TimelineQuery:
    """Return the query of a URL's parameters; missing ones are unset."""
    names = [each.name for each in fields(TimelineQuery)]
    given: dict[str, Any] = {name: parameters.get(PARAMETERS.get(name, name), "") for name in names}
    texts = {"tactic", "call", "cursor"}
    return TimelineQuery(**{name: value if name in texts else value == "1" for name, value in given.items()})
