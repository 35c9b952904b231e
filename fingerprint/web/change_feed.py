"""The change feed of the queue: one poll of the alert store a second, for all open pages.

Example:
    >>> broadcaster = ChangeBroadcaster(store.changes)
    >>> async for batch in broadcaster.subscribe(41, "maria"):  # the first listener starts the polling
    ...     batch.number, batch.alert_ids
    (42, ('397edb7b6806',))

- The feed polls the alert store, so it includes changes by other servers and by scorers.
- A listener has no queue, only the number that it has reached, so a slow listener does not delay others.
- If an account opens too many streams, its own oldest one ends (`StreamDisplaced`), so it cannot take the places of others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from fingerprint.core.case import AlertChange
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.store import ChangeRepository

STORE_POLL_SECONDS = 1.0  # between two polls of the alert store
HEARTBEAT_SECONDS = 15.0  # seconds after which a listener gets an empty batch
MAX_LISTENERS = 200  # listeners of one server
MAX_LISTENERS_PER_ACCOUNT = 5  # listeners of one person, whether by pages or by tokens
HISTORY_SIZE = 10_000  # changes; older ones are read from the alert store


class ChangeBatch(NamedTuple):
    """Alerts that changed; `number` is where to continue. An empty batch is a heartbeat."""

    number: int
    alert_ids: tuple[str, ...]


class StreamDisplaced(Exception):
    """The listener opened too many streams: this one, the oldest, ends."""


class ChangeBroadcaster:
    """The changes of one alert store, for one event loop."""

    def __init__(
        self,
        changes: ChangeRepository,
        poll_seconds: float = STORE_POLL_SECONDS,
        heartbeat: float = HEARTBEAT_SECONDS,
    ) -> None:
        self.changes, self.poll_seconds, self.heartbeat = changes, poll_seconds, heartbeat
        self._streams: dict[object, str | None] = {}  # stream -> account, the oldest first
        self._history: deque[AlertChange] = deque(maxlen=HISTORY_SIZE)
        self._history_start = self._newest = (
            0  # the history has the changes after the first number, up to the second
        )
        self._condition, self._start_lock = asyncio.Condition(), asyncio.Lock()
        self._poll_task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def listeners(self) -> int:
        """Return how many clients are connected."""
        return len(self._streams)

    @property
    def is_full(self) -> bool:
        """Return whether no further client may connect."""
        return self.listeners >= MAX_LISTENERS

    async def subscribe(
        self, number: int | None, account: str | None = None
    ) -> AsyncGenerator[ChangeBatch, None]:
        """Yield batches after a number, or from now on, until `close`. The first comes at once with the current number.

        Raise FingerprintError if the alert store is unavailable at the start; later it is polled again until it answers.
        Raise StreamDisplaced when `account` has opened more streams than an account may have.
        """
        stream = object()
        self._streams[stream] = account
        try:
            await self._displace_oldest(account)
            await self._start_polling()
            # the given number may come from another store, whose numbers are higher
            at = self._newest if number is None else min(number, self._newest)
            while not self._closed:
                batch = await self._batch_after(at)
                at = batch.number
                yield batch
                await self._wait(at, stream)
                if stream not in self._streams:
                    raise StreamDisplaced
        finally:
            self._streams.pop(stream, None)
            self._stop_polling_if_idle()

    async def close(self) -> None:
        """End the batches of all listeners now."""
        self._closed = True
        async with self._condition:
            self._condition.notify_all()

    async def _batch_after(self, number: int) -> ChangeBatch:
        """Return the changes after a number, from the history if it has them, else from the alert store."""
        known = self._history_start <= number
        found = list(self._history) if known else await asyncio.to_thread(self.changes.since, number)
        return _batch(number, found)

    async def _displace_oldest(self, account: str | None) -> None:
        """End the oldest streams of an account with too many."""
        theirs = [
            stream for stream, owner in self._streams.items() if account is not None and owner == account
        ]
        for stream in theirs[:-MAX_LISTENERS_PER_ACCOUNT]:
            del self._streams[stream]
        if len(theirs) > MAX_LISTENERS_PER_ACCOUNT:
            async with self._condition:
                self._condition.notify_all()

    async def _wait(self, number: int, stream: object) -> None:
        """Wait until there are changes, a heartbeat is due, or this stream must end."""
        try:
            async with asyncio.timeout(self.heartbeat), self._condition:
                await self._condition.wait_for(
                    lambda: self._closed or self._newest > number or stream not in self._streams
                )
        except TimeoutError:
            return

    async def _start_polling(self) -> None:
        """Start polling the alert store with the first listener."""
        async with self._start_lock:
            if self._poll_task is None:
                self._history.clear()
                self._history_start = self._newest = await asyncio.to_thread(self.changes.newest_number)
                self._poll_task = asyncio.create_task(self._poll())

    def _stop_polling_if_idle(self) -> None:
        if not self.listeners and self._poll_task:
            self._poll_task.cancel()
            self._poll_task = None

    async def _poll(self) -> None:
        """Poll until the last listener leaves; retry while the alert store is unavailable."""
        while True:
            await asyncio.sleep(self.poll_seconds)
            try:
                found = await asyncio.to_thread(self.changes.since, self._newest)
            except FingerprintError:  # the store has logged it
                continue
            if found:
                await self._publish(found)

    async def _publish(self, found: Sequence[AlertChange]) -> None:
        async with self._condition:
            dropped = len(self._history) + len(found) - HISTORY_SIZE
            self._history.extend(found)
            self._newest = found[-1].number
            if dropped > 0:
                self._history_start = self._history[0].number
            self._condition.notify_all()


def _batch(number: int, found: Sequence[AlertChange]) -> ChangeBatch:
    later = [each for each in found if each.number > number]
    return ChangeBatch(
        max((each.number for each in later), default=number), tuple(each.alert_id for each in later)
    )
