"""The result of a change, shown once on the page that follows (POST, redirect, GET).

Example:
    >>> response = redirect("/?service=iam")
    >>> set_flash(response, FlashNote("benign", changed=("4:3fa9",), conflicts=("77b0",), why="a new laptop"), settings)

The result is in a cookie that the next page reads and deletes, not in the URL: a reload does not repeat it, and a link sent to
another person does not show them a change that they did not make. The cookie is not signed. It has only ids and the caller's own
input, never sentences, so a forged cookie cannot make a page show false text. Its ids lead only to alerts that the caller may
read anyway.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from fastapi import Request, Response
from markupsafe import Markup

from fingerprint.core.case import ActionOutcome, AlertRevision, QueueRow
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.store import Store
from fingerprint.core.sanitize import storable
from fingerprint.core.settings import Settings
from fingerprint.web import audit_text
from fingerprint.web.audit_text import ActivityLine
from fingerprint.web.cookies import delete_cookie, read_cookie, set_cookie
from fingerprint.web.language import N_, NN_, gettext, template_ngettext

MAX_IDS = 50  # ids in a note; further ones are only counted
MAX_KEPT_TEXT = 800  # characters of a reason that a note carries
MAX_COOKIE_LENGTH = 3800  # characters; browsers keep 4,096 with the name and the attributes
SHOWN_SECONDS = 60  # within which the next page must come
ACTION_SENTENCES = {  # one alert, and several
    "true_positive": NN_(
        "<strong>%(num)s alert</strong> closed as true positive.",
        "<strong>%(num)s alerts</strong> closed as true positive.",
    ),
    "benign": NN_(
        "<strong>%(num)s alert</strong> closed as benign.",
        "<strong>%(num)s alerts</strong> closed as benign.",
    ),
    "false_positive": NN_(
        "<strong>%(num)s alert</strong> closed as false positive.",
        "<strong>%(num)s alerts</strong> closed as false positive.",
    ),
    "duplicate": NN_(
        "<strong>%(num)s alert</strong> closed as a duplicate.",
        "<strong>%(num)s alerts</strong> closed as duplicates.",
    ),
    "take": NN_(
        "<strong>%(num)s alert</strong> assigned to you.", "<strong>%(num)s alerts</strong> assigned to you."
    ),
    "assign": NN_("<strong>%(num)s alert</strong> assigned.", "<strong>%(num)s alerts</strong> assigned."),
    "release": NN_(
        "<strong>%(num)s alert</strong> unassigned.", "<strong>%(num)s alerts</strong> unassigned."
    ),
    "reopen": NN_("<strong>%(num)s alert</strong> reopened.", "<strong>%(num)s alerts</strong> reopened."),
    "take_back": NN_(
        "The decision on <strong>%(num)s alert</strong> was taken back.",
        "The decisions on <strong>%(num)s alerts</strong> were taken back.",
    ),
    "note": NN_("<strong>%(num)s alert</strong> noted.", "<strong>%(num)s alerts</strong> noted."),
}
REFUSALS = {  # the field that a change was refused for, and why
    "why": N_("A reason is required for benign and false positive: the detector learns from it."),
    "duplicate_of": N_("A duplicate needs the id of one other alert."),
    "to": N_("There is no active account of this name: choose one of the list."),
}
DECISIONS = ("true_positive", "benign", "false_positive", "duplicate")
_SELECTION = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?:(.+)", re.DOTALL)  # version, events, id


@dataclass(frozen=True, slots=True)
class FlashNote:
    """The content of the cookie. `changed` are alerts at their new version, `selected` those of a refused form as sent."""

    action: str
    count: int = 0
    changed: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    refused: str = ""  # a field of REFUSALS
    selected: tuple[str, ...] = ()
    why: str = ""
    to: str = ""
    duplicate_of: str = ""


@dataclass(frozen=True, slots=True)
class UnchangedAlert:
    """An alert that was not changed, and the last change that another person made to it."""

    row: QueueRow
    last_change: ActivityLine | None


@dataclass(frozen=True, slots=True)
class FlashMessage:
    """The result of a change. `changed` are alerts at their new version, which can be undone; `count` is their number.

    `refusal` says why the whole form was refused; then `selected` and the texts are those of the form. `why` is also kept after
    conflicts.
    """

    action: str
    count: int
    changed: tuple[AlertRevision, ...]
    conflicts: tuple[UnchangedAlert, ...]
    missing: int
    refused: str = ""
    selected: frozenset[str] = frozenset()
    why: str = ""
    to: str = ""
    duplicate_of: str = ""

    @property
    def sentence(self) -> Markup:
        """Return the sentence that the page shows."""
        return template_ngettext(*ACTION_SENTENCES[self.action], self.count)

    @property
    def refusal(self) -> str:
        """Return the sentence beside the field that was refused; empty where none was."""
        return gettext(REFUSALS[self.refused]) if self.refused in REFUSALS else ""

    @property
    def can_undo(self) -> bool:
        """Return whether the action can be undone."""
        return self.action in DECISIONS and bool(self.changed)


def note_outcomes(action: str, outcomes: Sequence[ActionOutcome], why: str = "") -> FlashNote:
    """Return the note of a change: the changed alerts, and the others with the given reason, to try again."""
    done = tuple(f"{each.version}:{each.alert_id}" for each in outcomes if each.done)
    conflicts = tuple(each.alert_id for each in outcomes if not each.done)
    return FlashNote(
        action, len(done), done if len(done) <= MAX_IDS else (), conflicts, why=why if conflicts else ""
    )


def set_flash(response: Response, note: FlashNote, settings: Settings) -> Response:
    """Set the cookie that the next page shows and deletes, and return the response."""
    set_cookie(response, "flash", encode_flash(note), settings, SHOWN_SECONDS)
    return response


def clear_flash(response: Response, settings: Settings) -> Response:
    """Delete the cookie, and return the response."""
    delete_cookie(response, "flash", settings)
    return response


def encode_flash(note: FlashNote) -> str:
    """Return a note as a cookie's value. If it is too long, ids are left out first, then text."""
    given = asdict(note) | {"why": note.why[:MAX_KEPT_TEXT], "to": note.to[:100]}
    given["duplicate_of"] = note.duplicate_of[:100]
    for name in ("", "selected", "changed", "conflicts", "why", "to", "duplicate_of"):
        given |= {name: type(given[name])()} if name else {}
        kept = {key: value[:MAX_IDS] if isinstance(value, tuple) else value for key, value in given.items()}
        text = json.dumps({key: value for key, value in kept.items() if value}, separators=(",", ":"))
        encoded = base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode().rstrip("=")
        if len(encoded) <= MAX_COOKIE_LENGTH:
            return encoded
    return ""


def parse_flash(text: str) -> FlashNote | None:
    """Return the note of a cookie; None for any other text."""
    if not text or len(text) > MAX_COOKIE_LENGTH:
        return None
    try:
        found = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("action") not in (*ACTION_SENTENCES, ""):
        return None
    kept = {each.name: _clean(found.get(each.name), each.default) for each in fields(FlashNote)}
    return FlashNote(**kept | {"action": found["action"]})


def read_flash(request: Request, store: Store, settings: Settings) -> FlashMessage | None:
    """Return the message for the top of a page; None if nothing was changed."""
    note = parse_flash(read_cookie(request, "flash", settings))
    if note is None or (note.action not in ACTION_SENTENCES and not note.refused):
        return None
    changed = tuple(filter(None, map(parse_selection, note.changed)))
    conflicts = tuple(filter(None, (_unchanged_alert(store, alert_id) for alert_id in note.conflicts)))
    missing = len(note.conflicts) - len(conflicts)
    return FlashMessage(
        note.action,
        note.count,
        changed,
        conflicts,
        missing,
        note.refused if note.refused in REFUSALS else "",
        frozenset(note.selected),
        note.why,
        note.to,
        note.duplicate_of,
    )


def parse_selection(text: str) -> AlertRevision | None:
    """Parse `4-9:3fa9`, an alert that was read at version 4 with 9 events; None for other text.

    `4:3fa9` is used if the number of events does not matter.
    """
    seen = _SELECTION.fullmatch(text)
    return AlertRevision(seen[3], int(seen[1]), int(seen[2]) if seen[2] else None) if seen else None


def _clean(value: Any, plain: Any) -> Any:
    """Return a value of a note if its type and length are valid, else the default."""
    if isinstance(plain, tuple):
        return tuple(str(each) for each in value[:MAX_IDS]) if isinstance(value, list) else ()
    if isinstance(plain, int):
        return value if isinstance(value, int) and 0 <= value < 10**6 else 0
    return storable(value)[:MAX_KEPT_TEXT] if isinstance(value, str) else ""


def _unchanged_alert(store: Store, alert_id: str) -> UnchangedAlert | None:
    try:
        row = store.queue.row(alert_id)
    except FingerprintError:
        return None
    newest = next(iter(store.audit.entries(row.alert_id, limit=1)), None)
    return UnchangedAlert(row, audit_text.describe_entry(newest) if newest else None)
