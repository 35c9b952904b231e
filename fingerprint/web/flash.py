"""The result of a change, carried in the address of the page that follows (POST, redirect, GET).

Example:
    >>> flash_url("/?status=all", "benign", [Outcome("3fa9", True, 4), Outcome("77b0", False, 2, "changed by maria")])
    '/?status=all&action=benign&changed=4%3A3fa9&conflicts=77b0'

Only ids travel, never sentences, so a forged address cannot make the page show false text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import ActionOutcome, AlertRevision, AuditEntry, QueueRow
from fingerprint.core.ports.store import Store

MAX_IDS = 50  # ids that an address carries; of more it only counts
ACTION_SENTENCES = {
    "true_positive": "closed as true positive",
    "benign": "closed as benign",
    "false_positive": "closed as false positive",
    "duplicate": "closed as a duplicate",
    "take": "assigned to you",
    "assign": "assigned",
    "release": "unassigned",
    "reopen": "reopened",
    "note": "noted",
}
DECISIONS = ("true_positive", "benign", "false_positive", "duplicate")
_SELECTION = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?:(.+)", re.DOTALL)  # version, events, id
_FLASH_PARAMETERS = frozenset({"action", "changed", "conflicts", "count"})


@dataclass(frozen=True, slots=True)
class UnchangedAlert:
    """An alert that was not changed, and the last change that another person made to it."""

    row: QueueRow
    last_change: AuditEntry | None


@dataclass(frozen=True, slots=True)
class FlashMessage:
    """The result of a change. `changed` are alerts at their new version, which can be undone; `count` is how many there were."""

    action: str
    count: int
    changed: tuple[AlertRevision, ...]
    conflicts: tuple[UnchangedAlert, ...]
    missing: int  # that are no longer in the alert store

    @property
    def sentence(self) -> str:
        """Return the sentence that the page shows."""
        return ACTION_SENTENCES[self.action]

    @property
    def can_undo(self) -> bool:
        """Return whether the action can be undone."""
        return self.action in DECISIONS and bool(self.changed)


def flash_url(back: str, action: str, outcomes: Sequence[ActionOutcome]) -> str:
    """Return the address after a change: the page it came from, with the result."""
    parts = urlsplit(back)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name not in _FLASH_PARAMETERS]
    done = [f"{each.version}:{each.alert_id}" for each in outcomes if each.done]
    changed = [("changed", each) for each in done] if len(done) <= MAX_IDS else [("count", str(len(done)))]
    conflicts = [("conflicts", each.alert_id) for each in outcomes if not each.done][:MAX_IDS]
    return f"{parts.path}?{urlencode([*kept, ('action', action), *changed, *conflicts])}"


def read_flash(pairs: Sequence[tuple[str, str]], store: Store) -> FlashMessage | None:
    """Return the message that a page shows on top; None where nothing was changed."""
    action = dict(pairs).get("action", "")
    if action not in ACTION_SENTENCES:
        return None
    changed = tuple(filter(None, (parse_selection(value) for name, value in pairs if name == "changed")))[
        :MAX_IDS
    ]
    conflict_ids = [value for name, value in pairs if name == "conflicts"][:MAX_IDS]
    conflicts = tuple(filter(None, (_unchanged_alert(store, alert_id) for alert_id in conflict_ids)))
    counted = dict(pairs).get("count", "")
    count = int(counted) if counted.isascii() and counted.isdecimal() and len(counted) < 7 else len(changed)
    return FlashMessage(action, count, changed, conflicts, len(conflict_ids) - len(conflicts))


def parse_selection(text: str) -> AlertRevision | None:
    """Parse `4-9:3fa9`, an alert that was read at version 4 with 9 events; None for other text.

    `4:3fa9` stands where events do not matter.
    """
    seen = _SELECTION.fullmatch(text)
    return AlertRevision(seen[3], int(seen[1]), int(seen[2]) if seen[2] else None) if seen else None


def _unchanged_alert(store: Store, alert_id: str) -> UnchangedAlert | None:
    try:
        row = store.queue.row(alert_id)
    except FingerprintError:
        return None
    return UnchangedAlert(row, next(iter(store.audit.entries(row.alert_id, limit=1)), None))
