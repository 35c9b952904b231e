"""Lets the caller's thread answer when kafka-python calls back.

kafka-python runs its network on a thread of its own and calls back there, where nothing may block: neither a commit nor
a restored snapshot. So the call that may call back (poll, close) runs aside, and the thread that made it serves what
is asked for meanwhile.

Example:
    >>> caller = Caller()
    >>> caller.run(lambda: consumer.poll(1000))        # in it, caller.ask(revoked, partitions) runs on this thread
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

Call = Callable[[], Any]


class CallbackExecutor:
    """One thread's calls, one after the other. An error of what was asked comes out of the call that is running."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="kafka-call")
        self._queue: SimpleQueue[Call | None] = SimpleQueue()  # None: the call is done
        self._running: Future[Any] | None = None
        self._error: BaseException | None = None

    def run(self, call: Call) -> Any:
        """The call's value. A call that an interrupt left running is waited for first, its value returned."""
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
        """From any thread: have the caller's thread call this, then `answered`, whether it raised or not."""

        def work() -> None:
            try:
                call(argument)
            except BaseException as error:
                self._error = self._error or error
            finally:
                on_done()

        self._queue.put(work)

    def wait_for_running(self) -> None:
        """Wait for a call that an interrupt left running; nobody wants its value any more."""
        if self._running is not None:
            self.run(lambda: None)

    def close(self) -> None:
        self._pool.shutdown(wait=False)
