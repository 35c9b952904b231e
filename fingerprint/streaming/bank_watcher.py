"""The bank that is served, taken while the program runs; and those from before, for as long as a partition needs them.

Example:
    >>> with closing(Banks(folder, settings)) as banks:
    ...     banks.look()                          # each turn; another version is opened meanwhile, in a thread
    ...     banks.served.bank.version             # verified, mapped, fit for these settings
    ...     banks.of("2026-02-01-5b3c0a1e")       # what a snapshot says a partition was judged by
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from weakref import WeakValueDictionary

from fingerprint.compute.backend import HOST, Backend
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Losses
from fingerprint.core.settings import Settings
from fingerprint.detection.inference import Trust
from fingerprint.registry import versions
from fingerprint.registry.bank import Bank, check_settings, open_bank
from fingerprint.registry.sealing import Sealed

Pointer = tuple[int, int] | None  # which CURRENT it is: when written, and its inode; None where there is none
Measuring = Callable[[Bank], AbstractContextManager[Losses]]
MustWait = Callable[[str, str], bool]


def never(judging: str, version: str) -> bool:
    """Say that no version has to be waited for: whoever measures has every one at once."""
    return False


log = logging.getLogger("fingerprint.banks")


class Judge(NamedTuple):
    """A bank, and who measures against it."""

    bank: Bank
    losses: Losses


class Opening(Thread):
    """A version being opened, aside: a large bank takes seconds, and messages are polled meanwhile."""

    def __init__(self, version: str, pointer: Pointer, opened: Callable[[str], Bank | None]) -> None:
        super().__init__(name=f"bank-{version}", daemon=True)
        self.version, self.pointer, self.opened = version, pointer, opened
        self.bank: Bank | None = None  # stays so where it has to wait
        self.trouble: Exception | None = None

    def run(self) -> None:
        try:
            self.bank = self.opened(self.version)
        except Exception as error:  # whatever it is: the bank before it judges on
            self.trouble = error


class Watching(Thread):
    """The files of open banks that were touched, hashed again, aside."""

    def __init__(self, files: Sequence[Sealed]) -> None:
        super().__init__(name="bank-watch", daemon=True)
        self.files = files
        self.changed: list[str] = []

    def run(self) -> None:
        self.changed = [str(each.root / name) for each in self.files for name in each.changed()]


class Banks:
    """The versions in one folder that a program judges by. Used by one thread.

    `served` follows the folder's CURRENT. A version that is damaged, or does not fit the settings, is refused: the one before
    judges on, and the next decision about what is served is waited for. One that the Triton server does not have yet, while it
    has the one before, is waited for. Whoever writes into the files of a bank that is open changes what it says: then nothing
    may be judged by it any more.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        measuring: Measuring,
        must_wait: MustWait = never,
        trust: Trust | None = None,
        backend: Backend = HOST,
    ) -> None:
        """`must_wait(judging, version)` says whether the server has the bank that judges and not that version yet.
        FingerprintError where the version that is served cannot be opened or does not fit."""
        self.folder, self.settings, self.backend = folder, settings, backend
        self.measuring, self.must_wait, self.trust = measuring, must_wait, trust or Trust()
        self.judges: dict[str, Judge] = {}
        self.doors: dict[str, ExitStack] = {}  # of each judge
        self.known: WeakValueDictionary[str, Bank] = WeakValueDictionary()  # whatever is open anywhere
        self.opening: Opening | None = None
        self.watching: Watching | None = None
        self.refused = ""  # why what is served is not taken
        self.waits = ""  # the version that the server does not have yet
        self.decided = _pointer(folder)  # of the decision that was followed, or refused
        self.next_look = time.monotonic() + settings.bank.look_seconds
        self.served = self._judge(self._opened(versions.current(folder)))

    # --- what is served -----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Now and then, whether another version is served, and the open ones are what they were; returns at once.

        FingerprintError where the file of a bank that judges was written into.
        """
        if self.opening:
            if not self.opening.is_alive():
                self._came(self.opening)
                self.opening = None
        elif time.monotonic() >= self.next_look:
            self.next_look = time.monotonic() + self.settings.bank.look_seconds
            self._look()
            self._watch()

    def _watch(self) -> None:
        if self.watching and self.watching.is_alive():
            return
        if self.watching and self.watching.changed:
            raise FingerprintError(
                f"bank file {self.watching.changed[0]} was written into while the bank judged by it: "
                "publish the bank again or roll back to another version, and look who writes there"
            )
        open_ = [judge.bank.files for judge in self.judges.values() if judge.bank.files]
        touched = [files for files in open_ if files.touched()]
        self.watching = Watching(touched) if touched else None
        if self.watching:
            self.watching.start()

    def _look(self) -> None:
        pointer = _pointer(self.folder)
        if pointer == self.decided:
            return
        try:
            version = versions.current(self.folder)
        except FingerprintError as error:
            self._refuse(pointer, "none", error)
            return
        if version == self.served.bank.version:
            self._take(pointer, self.served)
            return
        self.opening = Opening(version, pointer, self._opened_where_measured)
        self.opening.start()

    def _came(self, opening: Opening) -> None:
        if opening.pointer != _pointer(self.folder):
            return  # it was decided anew meanwhile
        if opening.trouble:
            self._refuse(opening.pointer, opening.version, opening.trouble)
        elif opening.bank:
            self._take(opening.pointer, self._judge(opening.bank))
        elif self.waits != opening.version:
            self.waits = opening.version
            log.info(
                "another bank waits until the server has it", extra={"fields": {"version": opening.version}}
            )

    def _take(self, pointer: Pointer, judge: Judge) -> None:
        self.decided, self.served, self.refused, self.waits = pointer, judge, "", ""

    def _refuse(self, pointer: Pointer, version: str, reason: Exception) -> None:
        self.decided, self.refused = pointer, str(reason)
        fields = {"version": version, "reason": str(reason), "judges": self.served.bank.version}
        log.warning("another bank is served and refused; the one before judges on", extra={"fields": fields})

    def _opened_where_measured(self, version: str) -> Bank | None:
        """None while the server has the bank that judges and not this one."""
        if self.must_wait(self.served.bank.version, version):
            return None
        return self._opened(version)

    # --- what partitions are judged by --------------------------------------------------------------------------------

    def of(self, version: str) -> Judge:
        """Who judged by a version, to go on; the one that is served where that version is gone or does not fit."""
        try:
            judge = self.judges.get(version) or self._judge(self._opened(version))
        except FingerprintError as error:
            fields = {"reason": str(error), "judges": self.served.bank.version}
            log.warning("the bank of a snapshot cannot judge on", extra={"fields": fields})
            return self.served
        if judge is not self.served and self._is_served(version):  # another member has seen it earlier
            self._take(_pointer(self.folder), judge)
        return judge

    def found(self, version: str) -> Bank | None:
        """A version to explain by what was measured against it, None where it is gone."""
        try:
            return self.known.get(version) or self._opened(version)
        except FingerprintError:
            return None

    def let_go(self, needed: Collection[str]) -> None:
        """Nobody judges by other versions any more than those, and the one that is served."""
        for version in self.judges.keys() - {*needed, self.served.bank.version}:
            del self.judges[version]
            self.doors.pop(version).close()

    def close(self) -> None:
        for door in self.doors.values():
            door.close()

    def _opened(self, version: str) -> Bank:
        bank = self.known.get(version)
        if bank is None:  # placed once, however many partitions are judged by it
            bank = open_bank(self.folder, self.settings.bank, version).on(self.backend.place).made_ready()
        check_settings(bank, self.settings)
        self.known[version] = bank
        return bank

    def _is_served(self, version: str) -> bool:
        try:
            return versions.current(self.folder) == version
        except FingerprintError:
            return False

    def _judge(self, bank: Bank) -> Judge:
        if bank.version not in self.judges:
            self.doors[bank.version] = ExitStack()
            self.judges[bank.version] = Judge(
                bank, self.doors[bank.version].enter_context(self.measuring(bank))
            )
        return self.judges[bank.version]


def _pointer(folder: Path) -> Pointer:
    try:
        status = (folder / "CURRENT").stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
