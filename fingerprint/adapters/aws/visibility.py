"""Keeps what a worker holds hidden from the others: a heartbeat of its own, however long an object takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from threading import Event, Lock, Thread

from fingerprint.core.alert import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports import Unavailable

Extend = Callable[[list[str]], Collection[str]]  # receipts -> those that are no longer ours

log = get_logger("fingerprint.sqs")


class VisibilityExtender:
    """Extends receipts every `seconds`, until they are let go. One that could not be extended in time is another's then:
    both do the work, and repeats reduce by id."""

    def __init__(self, extend: Extend, interval_seconds: float) -> None:
        self.extend, self.interval_seconds = extend, interval_seconds
        self.receipts: dict[str, None] = {}  # in the order in which they were taken
        self.failure: FingerprintError | None = None
        self.lock = Lock()  # held while extending, so that nothing is extended after it was let go
        self.stopped = Event()
        self.thread = Thread(target=self._run, name="hold", daemon=True)

    def add(self, receipts: Iterable[str]) -> None:
        """Raises what the heartbeat ran into."""
        if self.failure:
            raise self.failure
        with self.lock:
            self.receipts.update(dict.fromkeys(receipts))
        if self.receipts and not self.thread.ident:
            self.thread.start()

    def discard(self, receipts: Iterable[str]) -> None:
        with self.lock:
            for receipt in receipts:
                self.receipts.pop(receipt, None)

    def close(self) -> None:
        self.stopped.set()
        if self.thread.ident:
            self.thread.join()

    def _run(self) -> None:
        while not self.stopped.wait(self.interval_seconds):
            with self.lock:
                self._extend_all()

    def _extend_all(self) -> None:
        try:
            for receipt in self.extend(list(self.receipts)):
                del self.receipts[receipt]
                log.warning("a notice could not be held any longer: another worker may read it too")
        except Unavailable as error:
            log.warning("notices could not be held", reason=str(error))
        except FingerprintError as error:
            self.failure = error
