"""An alert as a message for a Slack-compatible webhook: short, and nothing in it is a mention, a link or a command.

Example:
    >>> slack_message(Notification(alert))["blocks"][0]["text"]["text"]
    'Critical alert (91)'
    >>> escape_untrusted("<!channel> @here")
    '&lt;!channel&gt; @\\u200bhere'

`blocks` is what Slack shows; `text` is for notifications, and for others (Mattermost, Rocket.Chat), which read it as Markdown. So
in all of it & < > are entities, an @ that could be a mention and a ]( are parted by a zero-width space, and :// is [:]//.
Source: https://docs.slack.dev/messaging/formatting-message-text and the limits of https://docs.slack.dev/reference/block-kit/blocks
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from fingerprint.core.alert import severity_of
from fingerprint.core.sanitize import printable, truncate
from fingerprint.delivery.formats.text import impact_text
from fingerprint.delivery.notification import Notification, display_name, distinct_values

MAX_HEADER_LENGTH = 150  # characters; this and the next two are Slack's own limits
MAX_SECTION_LENGTH = 3_000
MAX_FIELD_LENGTH = 2_000
# Characters of a text from a record, before it is escaped: five times as many at most after.
MAX_RECORD_TEXT_LENGTH = 1_000
MAX_SHORT_LENGTH = 300  # of a field
_MENTION = re.compile(r"(?<![^\W_])@(?=\w)|(?<=\])(?=\()")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def slack_message(notification: Notification) -> dict[str, Any]:
    """Return the message as JSON."""
    alert = notification.alert
    head = _headline(notification)
    blocks = [
        {
            "type": "header",
            "text": {"type": "plain_text", "text": truncate(head, MAX_HEADER_LENGTH), "emoji": False},
        },
        {
            "type": "section",
            "text": _text_block(
                escape_untrusted(alert.title or "(no title)", MAX_SECTION_LENGTH // 6), MAX_SECTION_LENGTH
            ),
        },
        {"type": "section", "fields": [_field_block(*pair) for pair in _summary_fields(notification)]},
    ]
    blocks += (
        [{"type": "context", "elements": [_text_block(_next_steps_text(notification), MAX_FIELD_LENGTH)]}]
        if alert.next_steps
        else []
    )
    blocks += [_button_block(notification.link)] if notification.link else []
    return {
        "text": f"{head}: {escape_untrusted(alert.title, MAX_SHORT_LENGTH)}",
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": blocks,
    }


def escape_untrusted(text: str, max_length: int = MAX_RECORD_TEXT_LENGTH) -> str:
    """Return a text from a record, cut and escaped."""
    safe = truncate(printable(text), max_length).translate(_ENTITIES).replace("://", "[:]//")
    return _MENTION.sub(lambda found: f"{found[0]}\u200b", safe)


def _headline(notification: Notification) -> str:
    decided = "alert decided" if notification.disposition else "alert is open again"
    what = {"new": "alert", "updated": "alert has grown", "decided": decided}[notification.change]
    return f"{severity_of(notification.alert.urgency).capitalize()} {what} ({notification.alert.urgency})"


def _summary_fields(notification: Notification) -> Iterable[tuple[str, str]]:
    """Yield label and value of the fields, at most ten: Slack's limit."""
    alert, disposition = notification.alert, notification.disposition
    yield "Who", display_name(alert)
    yield "Principal", alert.principal
    yield "When (UTC)", f"{alert.first_event_time:%Y-%m-%d %H:%M} to {alert.last_event_time:%Y-%m-%d %H:%M}"
    yield "Events", f"{len(alert.events):,}, flagged by {', '.join(alert.flagged_by) or 'none'}"
    yield "From", ", ".join(distinct_values((event.source_address for event in alert.events), 5))
    yield "Services", ", ".join(distinct_values((event.service for event in alert.events), 10))
    yield "Tactics", ", ".join(alert.tactics)
    if alert.impact_of:
        yield "Impact", f"{alert.impact} of 100: {impact_text(alert.impact_of[0])}"
    yield "Alert", alert.alert_id
    if disposition:
        why = f": {disposition.why}" if disposition.why else ""
        yield "Decided", f"{disposition.decision.replace('_', ' ')}, says {disposition.by}{why}"


def _field_block(label: str, value: str) -> dict[str, Any]:
    return _text_block(f"*{label}*\n{escape_untrusted(value, MAX_SHORT_LENGTH) or '-'}", MAX_FIELD_LENGTH)


def _next_steps_text(notification: Notification) -> str:
    return "\n".join(
        f"{number}. {escape_untrusted(f'{step.phase.capitalize()}: {step.text}', MAX_SHORT_LENGTH)}"
        for number, step in enumerate(notification.alert.next_steps, 1)
    )


def _text_block(text: str, max_length: int) -> dict[str, Any]:
    """Return a text block; `verbatim` keeps Slack from making links."""
    return {"type": "mrkdwn", "text": truncate(text, max_length), "verbatim": True}


def _button_block(link: str) -> dict[str, Any]:
    text = {"type": "plain_text", "text": "Open the alert", "emoji": False}
    return {"type": "actions", "elements": [{"type": "button", "text": text, "url": truncate(link, 3_000)}]}
