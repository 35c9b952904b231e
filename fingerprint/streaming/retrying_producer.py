"""Sending with patience: room is waited for, a broker that stays away ends the program with a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable

from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Full, Producer
from fingerprint.streaming.rekeying import Outgoing


class Sender:
    """Sends to a producer that may be full. `while_full` is called before each new try."""

    def __init__(
        self, producer: Producer, patience: float, while_full: Callable[[], None] = lambda: None
    ) -> None:
        self.producer, self.patience, self.while_full = producer, patience, while_full

    def send(self, topic: str, outgoing: Outgoing) -> None:
        """FingerprintError after `patience` seconds without room; Undelivered as the producer raises it."""
        full = self._refused(topic, outgoing)
        if full is None:
            return
        deadline = time.monotonic() + self.patience
        while full is not None:
            if time.monotonic() > deadline:
                raise FingerprintError(
                    f"nothing could be sent to {topic} for {self.patience:.0f} s ({full}); "
                    "start again when the broker is back"
                )
            self.while_full()
            full = self._refused(topic, outgoing)

    def _refused(self, topic: str, outgoing: Outgoing) -> Full | None:
        try:
            self.producer.send(topic, outgoing.value, outgoing.key, outgoing.headers)
        except Full as full:
            return full
        return None
