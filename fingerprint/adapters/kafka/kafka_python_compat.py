"""Workarounds for kafka-python 3.0.12: header names, its network thread, a join that it forgets, a close that gives up.

Example:
    >>> tolerate_invalid_header_names()
    >>> consumer.poll(1.0)[0].headers        # sent as b"caf\\xe9" = b"1"
    (('caf\\\\xe9', b'1'),)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import kafka
from kafka import AsyncConsumerRebalanceListener, TopicPartition, errors
from kafka.future import Future
from kafka.record.default_records import DefaultRecordBatch

Call = Callable[[], Any]
OnPartitions = Callable[[Collection[TopicPartition]], None]

UNLIMITED = 1 << 31
"""Number of messages that a poll of the library returns: all that a fetch brought, because a partition that is paused while part
of a fetch is left never returns a message again (`Fetcher.fetch_records` restores it only into a slot that is None).
"""

_strict_read = DefaultRecordBatch._read_msg


def tolerate_invalid_header_names() -> None:
    """Escape header names that are not UTF-8, from now on, for every consumer of this process.

    A broker accepts any bytes as a name, and each producer chooses them. kafka-python raises an error for such a name, so one
    message would stop its partition for ever.
    """
    DefaultRecordBatch._read_msg = _read_record


class _LenientBytes(bytearray):
    """Bytes of a batch that can always be decoded."""

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        return _LenientBytes(part) if isinstance(key, slice) else part

    def decode(self, *_: Any) -> str:
        return super().decode("utf-8", "backslashreplace")


def _read_record(batch: Any) -> Any:
    """Return the next record. After its first invalid name, the rest of a batch is read slowly; other batches are not."""
    try:
        return _strict_read(batch)
    except UnicodeDecodeError:
        batch._buffer = _LenientBytes(batch._buffer)
        return _strict_read(batch)


def is_joining(client: kafka.KafkaConsumer) -> bool:
    """Return whether a join is under way; until it ends, nothing can be committed, and leaving the group must wait."""
    return client._coordinator._join_task is not None


def keep_joining(client: kafka.KafkaConsumer) -> None:
    """Request a join that is under way again, so that the library goes on with it.

    The library forgets a join caused by new metadata if a poll ends before the join, and the member then waits for ever:
    `BaseCoordinator.join_group_async` checks need_rejoin, which the join itself has just set to False.
    """
    if is_joining(client):
        client._coordinator.request_rejoin()


def close_producer(client: kafka.KafkaProducer) -> None:
    """Close a producer within about a second: `close` gives up before it stops its thread."""
    try:
        client.close(timeout=1)
    except errors.KafkaTimeoutError:
        client._sender.force_close()


class CallbackExecutor:
    """Runs kafka-python's callbacks on the caller's thread.

    kafka-python runs its network, and its callbacks, on a thread of its own, where nothing may block: neither a commit nor a
    restored checkpoint. So a call with callbacks (poll, close) runs on another thread, one at a time, and the caller's thread
    runs the callbacks until the call is done. The call raises the errors of its callbacks.

    Example:
        >>> executor = CallbackExecutor()
        >>> executor.run(lambda: client.poll(1000))        # calls back through `call_back`
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="kafka-call")
        self._queue: SimpleQueue[Call | None] = SimpleQueue()  # None: the call is done
        self._running: ThreadFuture[Any] | None = None
        self._error: BaseException | None = None

    def run(self, call: Call) -> Any:
        """Return the call's value. If an interrupt left a call running, wait for that one and return its value instead."""
        if self._running is None:
            self._running = self._pool.submit(call)
            self._running.add_done_callback(lambda _: self._queue.put(None))
        while work := self._queue.get():
            work()
        done, self._running = self._running, None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return done.result()

    def call_back(self, call: Callable[[Any], None], argument: Any, on_done: Call) -> None:
        """Make the caller's thread run `call`, then `on_done`, even if `call` raised. May be used from any thread."""

        def work() -> None:
            try:
                call(argument)
            except BaseException as error:
                self._error = self._error or error
            finally:
                on_done()

        self._queue.put(work)

    def wait_for_running(self) -> None:
        """Wait for a call that an interrupt left running; its value is dropped."""
        if self._running is not None:
            self.run(lambda: None)

    def close(self) -> None:
        """Let the thread end when it is idle."""
        self._pool.shutdown(wait=False)


class RebalanceListener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Runs rebalance callbacks on the caller's thread; the network's thread awaits them without blocking."""

    def __init__(
        self,
        callback_executor: CallbackExecutor,
        client: kafka.KafkaConsumer,
        on_assigned: OnPartitions,
        on_revoked: OnPartitions,
    ):
        self._callback_executor = callback_executor
        self._network_loop = client._net.call_soon_threadsafe
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Wait for the callback of an assignment."""
        await self._run_callback(self._on_assigned, assigned)

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Wait for the callback of a revocation."""
        await self._run_callback(self._on_revoked, revoked)

    async def _run_callback(self, call: OnPartitions, partitions: Collection[TopicPartition]) -> None:
        answer = Future()
        self._callback_executor.call_back(
            call, partitions, lambda: self._network_loop(lambda: answer.success(None))
        )
        await answer
