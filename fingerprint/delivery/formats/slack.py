"""An alert as a message for a Slack-compatible webhook: short, and nothing in it is a mention, a link or a command.

Example:
    >>> message(News(alert))["blocks"][0]["text"]["text"]
    'Critical alert (91)'
    >>> escaped("<!channel> @here")
    '&lt;!channel&gt; @\\u200bhere'

`blocks` is what Slack shows; `text` is for notifications, and for others (Mattermost, Rocket.Chat), which read it as Markdown. So
in all of it & < > are entities, an @ that could mention somebody and a ]( are parted by a zero-width space, and :// is [:]//.
Source: https://docs.slack.dev/messaging/formatting-message-text and the limits of https://docs.slack.dev/reference/block-kit/blocks
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from fingerprint.core.sanitize import visible
from fingerprint.core.severity import band
from fingerprint.delivery.formats.text import cut
from fingerprint.delivery.notification import News, distinct, name_of

HEADER, SECTION, FIELD = 150, 3_000, 2_000  # characters, of Slack's own limits
TEXT = 1_000  # characters of a text from a record, before it is escaped: five times as many at most after
SHORT = 300  # of a field
_MENTION = re.compile(r"(?<![\w.+-])@(?=\w)|(?<=\])(?=\()")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def message(news: News) -> dict[str, Any]:
    """What is posted, as JSON."""
    alert = news.alert
    head = _head(news)
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": cut(head, HEADER), "emoji": False}},
        {"type": "section", "text": _shown(escaped(alert.title or "(no title)", SECTION // 6), SECTION)},
        {"type": "section", "fields": [_field(*pair) for pair in _facts(news)]},
    ]
    blocks += [{"type": "context", "elements": [_shown(_steps(news), FIELD)]}] if alert.next_steps else []
    blocks += [_button(news.link)] if news.link else []
    return {
        "text": f"{head}: {escaped(alert.title, SHORT)}",
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": blocks,
    }


def escaped(text: str, most: int = TEXT) -> str:
    """Somebody else's text, cut and made harmless."""
    safe = cut(visible(text), most).translate(_ENTITIES).replace("://", "[:]//")
    return _MENTION.sub(lambda found: f"{found[0]}\u200b", safe)


def _head(news: News) -> str:
    what = {"new": "alert", "grown": "alert has grown", "decided": "alert decided"}[news.happened]
    return f"{band(news.alert.urgency).capitalize()} {what} ({news.alert.urgency})"


def _facts(news: News) -> Iterable[tuple[str, str]]:
    """At most ten: Slack's limit."""
    alert, said = news.alert, news.said
    yield "Who", name_of(alert)
    yield "Principal", alert.principal
    yield "When (UTC)", f"{alert.first_event_time:%Y-%m-%d %H:%M} to {alert.last_event_time:%Y-%m-%d %H:%M}"
    yield "Events", f"{len(alert.events):,}"
    yield "From", ", ".join(distinct((event.source_address for event in alert.events), 5))
    yield "Services", ", ".join(distinct((event.service for event in alert.events), 10))
    yield "Tactics", ", ".join(alert.tactics)
    yield "Alert", alert.alert_id
    if said:
        yield (
            "Decided",
            f"{said.decision.replace('_', ' ')}, says {said.by}{f': {said.why}' if said.why else ''}",
        )


def _field(label: str, value: str) -> dict[str, Any]:
    return _shown(f"*{label}*\n{escaped(value, SHORT) or '-'}", FIELD)


def _steps(news: News) -> str:
    return "\n".join(
        f"{number}. {escaped(step, SHORT)}" for number, step in enumerate(news.alert.next_steps, 1)
    )


def _shown(text: str, most: int) -> dict[str, Any]:
    """`verbatim`: Slack makes no links of what looks like one."""
    return {"type": "mrkdwn", "text": cut(text, most), "verbatim": True}


def _button(link: str) -> dict[str, Any]:
    text = {"type": "plain_text", "text": "Open the alert", "emoji": False}
    return {"type": "actions", "elements": [{"type": "button", "text": text, "url": cut(link, 3_000)}]}
