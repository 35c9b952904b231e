"""What became of a change, carried in the address of the page that is shown after it (POST, redirect, GET).

Example:
    >>> path("/?status=all", "benign", [Outcome("3fa9", True, 4), Outcome("77b0", False, 2, "changed by maria")])
    '/?status=all&did=benign&done=4%3A3fa9&lost=77b0'

Ids alone travel, never sentences: whoever makes up such an address can make the page say nothing that is not so.
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
    "release": "given back: nobody has them now",
    "reopen": "open again",
    "note": "noted",
}
DECISIONS = ("true_positive", "benign", "false_positive", "duplicate")
_SELECTION = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?:(.+)", re.DOTALL)  # version, events, id
_FLASH_PARAMETERS = frozenset({"did", "done", "lost", "count"})


@dataclass(frozen=True, slots=True)
class UnchangedAlert:
    """An alert that was not changed, and what somebody else did to it last."""

    row: QueueRow
    last_change: AuditEntry | None


@dataclass(frozen=True, slots=True)
class FlashMessage:
    """`done` are alerts as they were left by the change, which may be undone; `count` says how many there were in all."""

    action: str
    count: int
    changed: tuple[AlertRevision, ...]
    conflicts: tuple[UnchangedAlert, ...]
    missing: int  # that are not on the desk any more

    @property
    def sentence(self) -> str:
        return ACTION_SENTENCES[self.action]

    @property
    def can_undo(self) -> bool:
        return self.action in DECISIONS and bool(self.changed)


def flash_url(back: str, action: str, outcomes: Sequence[ActionOutcome]) -> str:
    """Where to go on after a change: the page it came from, with what became of it."""
    parts = urlsplit(back)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name not in _FLASH_PARAMETERS]
    done = [f"{each.version}:{each.alert_id}" for each in outcomes if each.done]
    said = [("done", each) for each in done] if len(done) <= MAX_IDS else [("count", str(len(done)))]
    lost = [("lost", each.alert_id) for each in outcomes if not each.done][:MAX_IDS]
    return f"{parts.path}?{urlencode([*kept, ('did', action), *said, *lost])}"


def read_flash(pairs: Sequence[tuple[str, str]], store: Store) -> FlashMessage | None:
    """What a page says above everything else; None where nothing was changed."""
    did = dict(pairs).get("did", "")
    if did not in ACTION_SENTENCES:
        return None
    done = tuple(filter(None, (parse_selection(value) for name, value in pairs if name == "done")))[:MAX_IDS]
    asked = [value for name, value in pairs if name == "lost"][:MAX_IDS]
    lost = tuple(filter(None, (_unchanged_alert(store, alert_id) for alert_id in asked)))
    counted = dict(pairs).get("count", "")
    count = int(counted) if counted.isascii() and counted.isdecimal() and len(counted) < 7 else len(done)
    return FlashMessage(did, count, done, lost, len(asked) - len(lost))


def parse_selection(text: str) -> AlertRevision | None:
    """`4-9:3fa9`, as forms write an alert that somebody saw at a version, with so many events; `4:3fa9`, as addresses write one
    whose events do not matter; None for anything else."""
    seen = _SELECTION.fullmatch(text)
    return AlertRevision(seen[3], int(seen[1]), int(seen[2]) if seen[2] else None) if seen else None


def _unchanged_alert(store: Store, alert_id: str) -> UnchangedAlert | None:
    try:
        row = store.queue.row(alert_id)
    except FingerprintError:
        return None
    return UnchangedAlert(row, next(iter(store.audit.entries(row.alert_id, limit=1)), None))
