"""Output of JSON and of text from records, neither of which may control the terminal.

Example:
    >>> Console().print(Text.assemble(urgency_text(75), "  ", terminal_text(alert.title, "bold")))
     75 critical  ana called iam:CreateAccessKey

Text is sanitised (`sanitize.printable`) and passed to rich as text, never as markup.
"""

from __future__ import annotations

import json as json_text
from typing import Any

from rich.text import Text

from fingerprint.core.alert import severity_of
from fingerprint.core.sanitize import printable

MAX_FIELD_CHARACTERS = 400  # characters of a text on the terminal; the page and --json have the whole text
MAX_STEP_CHARACTERS = 4_000  # characters of a next step, which a reader needs to the end
COLOURS = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan"}


def print_json(value: Any) -> None:
    """Print JSON in ASCII, so that nothing in it can control a terminal."""
    print(json_text.dumps(value, indent=1, ensure_ascii=True, allow_nan=False).replace("\x7f", "\\u007f"))


def terminal_text(text: str, style: str = "", most: int = MAX_FIELD_CHARACTERS) -> Text:
    """Return untrusted text for rich: sanitised, without markup, cut to `most` characters."""
    shown = printable(text[:most])
    if len(text) > most:
        shown = f"{shown}… ({len(text):,} characters)"
    return Text(shown, style=style, overflow="fold")


def urgency_text(urgency: int) -> Text:
    """Return the urgency and its severity, in the colour of the severity."""
    severity = severity_of(urgency)
    return Text(f"{urgency:>3} {severity}", style=COLOURS[severity])
