"""Ports of delivery: the outbox of deliveries, and the receivers of their bodies.

Example:
    >>> outbox.schedule("soc", options, now)                    # changes since the last call become deliveries
    >>> for delivery in outbox.claim("soc", now, lease_until, limit=20, worker="a"):
    ...     receiver.deliver(delivery.key, body, principal, now)
    ...     outbox.mark_sent(delivery, now)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from fingerprint.core.alert import Alert, Disposition
from fingerprint.core.errors import Unavailable
from fingerprint.core.settings import ReceiverSettings
from fingerprint.delivery.policy import Delivery, DeliveryState


class RateLimited(Unavailable):
    """The receiver answers, but asks for a pause of so many seconds."""

    def __init__(self, reason: str, retry_after: float) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class DeliveryCounts(NamedTuple):
    """Counts of a receiver's deliveries by state; `oldest_waiting` is when the oldest waiting one was created."""

    waiting: int
    sent: int
    failed: int
    oldest_waiting: datetime | None


class Backlog(NamedTuple):
    """Deliveries that a receiver has not got, waiting and failed; `oldest_waiting` as in DeliveryCounts."""

    waiting: int
    failed: int
    oldest_waiting: datetime | None


class Outbox(Protocol):
    """Deliveries stored beside the alerts.

    A change of an alert becomes one delivery, however often and by however many workers it is scheduled; a waiting delivery is
    claimed by one worker at a time, until the end of its lease.
    """

    def register_receiver(self, receiver: str, options: ReceiverSettings) -> None:
        """Register a receiver for changes from now on.

        With `include_existing` also for stored alerts; without, it counts as knowing those that it would have been sent. A second
        call does nothing.
        """
        ...

    def schedule(self, receiver: str, options: ReceiverSettings, now: datetime) -> int:
        """Turn changes since the last call into deliveries; return how many changes were examined, 0 when there are no more."""
        ...

    def claim(
        self, receiver: str, now: datetime, lease_until: datetime, limit: int, worker: str
    ) -> list[Delivery]:
        """Return deliveries that are due, the longest due first, claimed by `worker` until `lease_until`."""
        ...

    def mark_sent(self, delivery: Delivery, now: datetime) -> None:
        """Record that the receiver has it."""
        ...

    def reschedule(self, delivery: Delivery, due_at: datetime, reason: str, worker: str) -> None:
        """Record a failed attempt; do nothing if another worker has claimed the delivery since."""
        ...

    def mark_failed(self, delivery: Delivery, now: datetime, reason: str) -> None:
        """Give up: it is tried again on request only."""
        ...

    def release(self, deliveries: Sequence[Delivery], worker: str) -> None:
        """Give back deliveries that were not tried; they stay waiting."""
        ...

    def retry_failed(self, now: datetime, key: str = "", receiver: str = "") -> int:
        """Make failed deliveries wait again (one by its key, those of a receiver, or all); return how many."""
        ...

    def list_deliveries(
        self, receiver: str = "", state: DeliveryState | None = None, limit: int = 200
    ) -> list[Delivery]:
        """Return deliveries, the newest first."""
        ...

    def counts_by_receiver(self) -> dict[str, DeliveryCounts]:
        """Return the counts by receiver."""
        ...

    def backlog(self, receiver: str) -> Backlog:
        """Return a receiver's waiting and failed deliveries. Those that were sent are not read: they are many."""
        ...

    def current_alert(self, delivery: Delivery) -> tuple[Alert, Disposition | None] | None:
        """Return a delivery's alert as it is now, without records, and its current decision; None if the alert was removed."""
        ...

    def delete_sent(self, before: datetime) -> int:
        """Delete deliveries that were sent before then; return how many."""
        ...


class Receiver(Protocol):
    """The transport of one receiver.

    Example:
        >>> receiver.deliver("6f0c...", b"{}", "123456789012:role/ci", now)
    """

    def deliver(self, key: str, body: bytes, principal: str, now: datetime) -> None:
        """Deliver a body; the receiver has it when this returns.

        Raise Unavailable (RateLimited) to try later, ObjectNotFound to give up.
        """
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...
