"""What is to be told elsewhere, and who takes it: ports of delivery.

Example:
    >>> outbox.plan("soc", receiver, now)                       # what happened since the last time becomes deliveries
    >>> for delivery in outbox.take("soc", now, held_until, most=20):
    ...     taker.take(delivery.key, body, principal, now)
    ...     outbox.sent(delivery, now)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from fingerprint.core.alert import Alert, Disposition
from fingerprint.core.ports import Unavailable
from fingerprint.core.settings import ReceiverSettings
from fingerprint.delivery.policy import Delivery, DeliveryState


class RateLimited(Unavailable):
    """The receiver answers, and asks to be left alone for so many seconds."""

    def __init__(self, reason: str, retry_after: float) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class DeliveryCounts(NamedTuple):
    """How a receiver's deliveries stand. `oldest`: of those that wait, when it was created."""

    waiting: int
    sent: int
    failed: int
    oldest_waiting: datetime | None


class Outbox(Protocol):
    """Deliveries beside the alerts that they tell of. What happened to an alert becomes a delivery once, however often it is
    planned and by however many; one that waits is in one sender's hands at a time, until the end of its lease."""

    def register_receiver(self, receiver: str, include_backlog: bool) -> None:
        """A receiver hears of what happens from now on; with `backlog` also of what lies there. A second time does nothing."""
        ...

    def schedule(self, receiver: str, options: ReceiverSettings, now: datetime) -> int:
        """Turn what has changed since the last time into deliveries; how many changes were looked at, 0 when there are no
        more."""
        ...

    def claim(
        self, receiver: str, now: datetime, lease_until: datetime, limit: int, worker: str
    ) -> list[Delivery]:
        """Deliveries that are due, the longest due first, in `by`'s hands until `held_until`."""
        ...

    def mark_sent(self, delivery: Delivery, now: datetime) -> None:
        """The receiver has it."""
        ...

    def reschedule(self, delivery: Delivery, due_at: datetime, reason: str, worker: str) -> None:
        """A try failed; nothing where it is in other hands by now."""
        ...

    def mark_failed(self, delivery: Delivery, now: datetime, reason: str) -> None:
        """It is not tried again, unless somebody asks for it."""
        ...

    def release(self, deliveries: Sequence[Delivery], worker: str) -> None:
        """They were not tried, and wait on."""
        ...

    def retry_failed(self, now: datetime, key: str = "", receiver: str = "") -> int:
        """Try what has failed anew: one by its key, those of one receiver, or all; how many."""
        ...

    def list_deliveries(
        self, receiver: str = "", state: DeliveryState | None = None, limit: int = 200
    ) -> list[Delivery]:
        """The newest first."""
        ...

    def counts_by_receiver(self) -> dict[str, DeliveryCounts]:
        """By receiver."""
        ...

    def current_alert(self, delivery: Delivery) -> tuple[Alert, Disposition | None] | None:
        """What it tells of as it is now, without the records of its events, and the decision by which it stands; None where the
        alert was removed."""
        ...

    def delete_sent(self, before: datetime) -> int:
        """Remove deliveries that were sent before then; how many."""
        ...


class Receiver(Protocol):
    """Where the bodies for one receiver go.

    Example:
        >>> taker.take("6f0c...", b"{}", "123456789012:role/ci", now)
    """

    def deliver(self, key: str, body: bytes, principal: str, now: datetime) -> None:
        """The receiver has it when this returns. Away (Busy): not now. Gone: never."""
        ...

    def close(self) -> None: ...
