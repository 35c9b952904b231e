"""What changes in the queue, for everybody who has a page open: the desk is asked once a second for all of them together.

Example:
    >>> following = Following(desk)
    >>> async for batch in following.since(41, "maria"):  # a listener; the first of them starts the asking
    ...     batch.number, batch.alert_ids
    (42, ('397edb7b6806',))

The desk is asked, not this process, so it does not matter through which of several servers, or by which scorer, an alert was
changed. A listener holds nothing but the number it has come to: one that is slow holds up nobody. Somebody who listens more than
EACH times loses the oldest of their own streams (`Displaced`), so one account cannot take everybody's places.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import AlertChange
from fingerprint.core.ports.store import ChangeRepository

STORE_POLL_SECONDS = 1.0  # seconds between two questions to the desk
HEARTBEAT_SECONDS = 15.0  # seconds after which a listener is told that nothing changed
MAX_LISTENERS = 200  # listeners of one server
MAX_LISTENERS_PER_ACCOUNT = 5  # listeners of one person, whether by pages or by tokens
HISTORY_SIZE = 10_000  # changes; who comes from further back asks the desk

log = logging.getLogger("fingerprint.web")


class ChangeBatch(NamedTuple):
    """Alerts that changed; `number` is where to go on. None changed: the listener is still heard."""

    number: int
    alert_ids: tuple[str, ...]


class StreamDisplaced(Exception):
    """The same person listens too often: this stream, their oldest, ends."""


class ChangeBroadcaster:
    """The changes of one desk. To be used from one event loop."""

    def __init__(
        self,
        changes: ChangeRepository,
        poll_seconds: float = STORE_POLL_SECONDS,
        heartbeat: float = HEARTBEAT_SECONDS,
    ) -> None:
        self.changes, self.poll_seconds, self.heartbeat = changes, poll_seconds, heartbeat
        self._streams: dict[object, str | None] = {}  # who listens, by stream, the oldest first
        self._history: deque[AlertChange] = deque(maxlen=HISTORY_SIZE)
        self._history_start = self._newest = (
            0  # what is remembered lies after the one and reaches to the other
        )
        self._condition, self._start_lock = asyncio.Condition(), asyncio.Lock()
        self._poll_task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def listeners(self) -> int:
        return len(self._streams)

    @property
    def is_full(self) -> bool:
        return self.listeners >= MAX_LISTENERS

    async def subscribe(
        self, number: int | None, account: str | None = None
    ) -> AsyncGenerator[ChangeBatch, None]:
        """Batches after a number, or from now on: the first comes at once, and says where it begins; none after `close`.
        FingerprintError where the desk does not answer at the beginning; later it is asked again until it does. Displaced when
        `who` has begun EACH more."""
        mine = object()
        self._streams[mine] = account
        try:
            await self._displace_oldest(account)
            await self._start_polling()
            at = (
                self._newest if number is None else min(number, self._newest)
            )  # another desk's numbers may be higher
            while not self._closed:
                batch = await self._batch_after(at)
                at = batch.number
                yield batch
                await self._wait(at, mine)
                if mine not in self._streams:
                    raise StreamDisplaced
        finally:
            self._streams.pop(mine, None)
            self._stop_polling_if_idle()

    async def close(self) -> None:
        """End every listener's batches now."""
        self._closed = True
        async with self._condition:
            self._condition.notify_all()

    async def _batch_after(self, number: int) -> ChangeBatch:
        """What changed after a number: remembered, or else asked."""
        known = self._history_start <= number
        found = list(self._history) if known else await asyncio.to_thread(self.changes.since, number)
        return _batch(number, found)

    async def _displace_oldest(self, account: str | None) -> None:
        """The oldest streams of somebody who has too many end."""
        theirs = [
            stream for stream, owner in self._streams.items() if account is not None and owner == account
        ]
        for stream in theirs[:-MAX_LISTENERS_PER_ACCOUNT]:
            del self._streams[stream]
        if len(theirs) > MAX_LISTENERS_PER_ACCOUNT:
            async with self._condition:
                self._condition.notify_all()

    async def _wait(self, number: int, stream: object) -> None:
        """Until there is more, or it is time for a sign of life, or this stream is to end."""
        try:
            async with asyncio.timeout(self.heartbeat), self._condition:
                await self._condition.wait_for(
                    lambda: self._closed or self._newest > number or stream not in self._streams
                )
        except TimeoutError:
            return

    async def _start_polling(self) -> None:
        """The first listener has the desk asked from now on."""
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
        """Again and again; a desk that does not answer is asked again."""
        while True:
            await asyncio.sleep(self.poll_seconds)
            try:
                found = await asyncio.to_thread(self.changes.since, self._newest)
            except FingerprintError as error:
                log.warning("the desk does not say what changed", extra={"fields": {"reason": str(error)}})
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
