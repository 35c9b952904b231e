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
from fingerprint.core.case import Changed
from fingerprint.core.ports.case_store import Changes

EVERY = 1.0  # seconds between two questions to the desk
HEARTBEAT = 15.0  # seconds after which a listener is told that nothing changed
MOST = 200  # listeners of one server
EACH = 5  # listeners of one person, whether by pages or by tokens
REMEMBERED = 10_000  # changes; who comes from further back asks the desk

log = logging.getLogger("fingerprint.web")


class Batch(NamedTuple):
    """Alerts that changed; `number` is where to go on. None changed: the listener is still heard."""

    number: int
    alert_ids: tuple[str, ...]


class Displaced(Exception):
    """The same person listens too often: this stream, their oldest, ends."""


class Following:
    """The changes of one desk. To be used from one event loop."""

    def __init__(self, desk: Changes, every: float = EVERY, heartbeat: float = HEARTBEAT) -> None:
        self.desk, self.every, self.heartbeat = desk, every, heartbeat
        self._open: dict[object, str | None] = {}  # who listens, by stream, the oldest first
        self._recent: deque[Changed] = deque(maxlen=REMEMBERED)
        self._from = self._upto = 0  # what is remembered lies after the one and reaches to the other
        self._news, self._turn = asyncio.Condition(), asyncio.Lock()
        self._asking: asyncio.Task[None] | None = None
        self._over = False

    @property
    def listeners(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        return self.listeners >= MOST

    async def since(self, number: int | None, who: str | None = None) -> AsyncGenerator[Batch, None]:
        """Batches after a number, or from now on: the first comes at once, and says where it begins; none after `close`.
        FingerprintError where the desk does not answer at the beginning; later it is asked again until it does. Displaced when
        `who` has begun EACH more."""
        mine = object()
        self._open[mine] = who
        try:
            await self._displace(who)
            await self._begin()
            at = (
                self._upto if number is None else min(number, self._upto)
            )  # another desk's numbers may be higher
            while not self._over:
                batch = await self._after(at)
                at = batch.number
                yield batch
                await self._wait(at, mine)
                if mine not in self._open:
                    raise Displaced
        finally:
            self._open.pop(mine, None)
            self._end()

    async def close(self) -> None:
        """End every listener's batches now."""
        self._over = True
        async with self._news:
            self._news.notify_all()

    async def _after(self, number: int) -> Batch:
        """What changed after a number: remembered, or else asked."""
        known = self._from <= number
        found = list(self._recent) if known else await asyncio.to_thread(self.desk.changes, number)
        return _batch(number, found)

    async def _displace(self, who: str | None) -> None:
        """The oldest streams of somebody who has too many end."""
        theirs = [stream for stream, owner in self._open.items() if who is not None and owner == who]
        for stream in theirs[:-EACH]:
            del self._open[stream]
        if len(theirs) > EACH:
            async with self._news:
                self._news.notify_all()

    async def _wait(self, number: int, mine: object) -> None:
        """Until there is more, or it is time for a sign of life, or this stream is to end."""
        try:
            async with asyncio.timeout(self.heartbeat), self._news:
                await self._news.wait_for(lambda: self._over or self._upto > number or mine not in self._open)
        except TimeoutError:
            return

    async def _begin(self) -> None:
        """The first listener has the desk asked from now on."""
        async with self._turn:
            if self._asking is None:
                self._recent.clear()
                self._from = self._upto = await asyncio.to_thread(self.desk.newest_change)
                self._asking = asyncio.create_task(self._ask())

    def _end(self) -> None:
        if not self.listeners and self._asking:
            self._asking.cancel()
            self._asking = None

    async def _ask(self) -> None:
        """Again and again; a desk that does not answer is asked again."""
        while True:
            await asyncio.sleep(self.every)
            try:
                found = await asyncio.to_thread(self.desk.changes, self._upto)
            except FingerprintError as error:
                log.warning("the desk does not say what changed", extra={"fields": {"reason": str(error)}})
                continue
            if found:
                await self._tell(found)

    async def _tell(self, found: Sequence[Changed]) -> None:
        async with self._news:
            dropped = len(self._recent) + len(found) - REMEMBERED
            self._recent.extend(found)
            self._upto = found[-1].number
            if dropped > 0:
                self._from = self._recent[0].number
            self._news.notify_all()


def _batch(number: int, found: Sequence[Changed]) -> Batch:
    later = [each for each in found if each.number > number]
    return Batch(max((each.number for each in later), default=number), tuple(each.alert_id for each in later))
