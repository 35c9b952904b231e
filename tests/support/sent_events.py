"""The events that messages of the events topic hold, whether they come one by one or by columns."""

from __future__ import annotations

from collections.abc import Sequence

from fingerprint.core.ports.message_stream import Message
from fingerprint.core.settings import Settings
from fingerprint.sources.decode import decode_messages


def sent_events(messages: Sequence[Message]) -> list[tuple[Message, str, str]]:
    """Return the message, the principal and the id of each event, in their order; all can be read."""
    pieces = list(decode_messages(messages, Settings()))
    assert not any(piece.rejects for piece in pieces)
    return [
        (messages[place], principal, name)
        for piece in pieces
        for place, principal, name in zip(
            piece.source.tolist(), piece.events["principal"], piece.events["event_id"], strict=True
        )
    ]


def event_ids(messages: Sequence[Message]) -> list[str]:
    """Return the ids in their order."""
    return [name for _, _, name in sent_events(messages)]
