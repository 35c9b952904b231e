"""Keeps what a worker holds hidden from the others: a heartbeat of its own, however long an object takes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from threading import Event, Lock, Thread

from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Away

Extend = Callable[[list[str]], Collection[str]]  # receipts -> those that are no longer ours

log = logging.getLogger("fingerprint.sqs")


class Hold:
    """Extends receipts every `seconds`, until they are let go. One that could not be extended in time is another's then:
    both do the work, and repeats reduce by id."""

    def __init__(self, extend: Extend, seconds: float) -> None:
        self.extend, self.seconds = extend, seconds
        self.held: dict[str, None] = {}  # in the order in which they were taken
        self.trouble: FingerprintError | None = None
        self.lock = Lock()  # held while extending, so that nothing is extended after it was let go
        self.ended = Event()
        self.thread = Thread(target=self._beat, name="hold", daemon=True)

    def take(self, receipts: Iterable[str]) -> None:
        """Raises what the heartbeat ran into."""
        if self.trouble:
            raise self.trouble
        with self.lock:
            self.held.update(dict.fromkeys(receipts))
        if self.held and not self.thread.ident:
            self.thread.start()

    def let_go(self, receipts: Iterable[str]) -> None:
        with self.lock:
            for receipt in receipts:
                self.held.pop(receipt, None)

    def close(self) -> None:
        self.ended.set()
        if self.thread.ident:
            self.thread.join()

    def _beat(self) -> None:
        while not self.ended.wait(self.seconds):
            with self.lock:
                self._extend_all()

    def _extend_all(self) -> None:
        try:
            for receipt in self.extend(list(self.held)):
                del self.held[receipt]
                log.warning("a notice could not be held any longer: another worker may read it too")
        except Away as error:
            log.warning("notices could not be held", extra={"fields": {"reason": str(error)}})
        except FingerprintError as error:
            self.trouble = error
