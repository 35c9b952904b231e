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

from fingerprint.compute.backend import HOST_BACKEND, Backend
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Inference
from fingerprint.core.settings import Settings
from fingerprint.detection.inference import ServerTrust
from fingerprint.registry import versions
from fingerprint.registry.bank import Bank, check_bank_settings, open_bank
from fingerprint.registry.sealing import VerifiedFolder

Pointer = tuple[int, int] | None  # which CURRENT it is: when written, and its inode; None where there is none
InferenceFactory = Callable[[Bank], AbstractContextManager[Inference]]
MustWait = Callable[[str, str], bool]


def never(judging: str, version: str) -> bool:
    """Say that no version has to be waited for: whoever measures has every one at once."""
    return False


log = logging.getLogger("fingerprint.banks")


class LoadedBank(NamedTuple):
    """A bank, and who measures against it."""

    bank: Bank
    inference: Inference


class BankLoader(Thread):
    """A version being opened, aside: a large bank takes seconds, and messages are polled meanwhile."""

    def __init__(self, version: str, pointer: Pointer, open_version: Callable[[str], Bank | None]) -> None:
        super().__init__(name=f"bank-{version}", daemon=True)
        self.version, self.pointer, self.open_version = version, pointer, open_version
        self.bank: Bank | None = None  # stays so where it has to wait
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.bank = self.open_version(self.version)
        except Exception as error:  # whatever it is: the bank before it judges on
            self.error = error


class BankIntegrityCheck(Thread):
    """The files of open banks that were touched, hashed again, aside."""

    def __init__(self, files: Sequence[VerifiedFolder]) -> None:
        super().__init__(name="bank-watch", daemon=True)
        self.files = files
        self.changed: list[str] = []

    def run(self) -> None:
        self.changed = [str(each.root / name) for each in self.files for name in each.changed_files()]


class BankWatcher:
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
        open_inference: InferenceFactory,
        must_wait: MustWait = never,
        trust: ServerTrust | None = None,
        backend: Backend = HOST_BACKEND,
    ) -> None:
        """`must_wait(judging, version)` says whether the server has the bank that judges and not that version yet.
        FingerprintError where the version that is served cannot be opened or does not fit."""
        self.folder, self.settings, self.backend = folder, settings, backend
        self.open_inference, self.must_wait, self.trust = open_inference, must_wait, trust or ServerTrust()
        self.loaded_banks: dict[str, LoadedBank] = {}
        self.exit_stacks: dict[str, ExitStack] = {}  # of each judge
        self.open_banks: WeakValueDictionary[str, Bank] = WeakValueDictionary()  # whatever is open anywhere
        self.loader: BankLoader | None = None
        self.integrity_check: BankIntegrityCheck | None = None
        self.refusal = ""  # why what is served is not taken
        self.version_awaited = ""  # the version that the server does not have yet
        self.followed_pointer = _read_pointer(folder)  # of the decision that was followed, or refused
        self.next_poll = time.monotonic() + settings.bank.poll_interval_seconds
        self.served = self._load(self._open(versions.require_served_version(folder)))

    # --- what is served -----------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Now and then, whether another version is served, and the open ones are what they were; returns at once.

        FingerprintError where the file of a bank that judges was written into.
        """
        if self.loader:
            if not self.loader.is_alive():
                self._finish_loading(self.loader)
                self.loader = None
        elif time.monotonic() >= self.next_poll:
            self.next_poll = time.monotonic() + self.settings.bank.poll_interval_seconds
            self._poll_pointer()
            self._check_integrity()

    def _check_integrity(self) -> None:
        if self.integrity_check and self.integrity_check.is_alive():
            return
        if self.integrity_check and self.integrity_check.changed:
            raise FingerprintError(
                f"bank file {self.integrity_check.changed[0]} was written into while the bank judged by it: "
                "publish the bank again or roll back to another version, and look who writes there"
            )
        open_ = [judge.bank.files for judge in self.loaded_banks.values() if judge.bank.files]
        touched = [files for files in open_ if files.may_have_changed()]
        self.integrity_check = BankIntegrityCheck(touched) if touched else None
        if self.integrity_check:
            self.integrity_check.start()

    def _poll_pointer(self) -> None:
        pointer = _read_pointer(self.folder)
        if pointer == self.followed_pointer:
            return
        try:
            version = versions.require_served_version(self.folder)
        except FingerprintError as error:
            self._refuse(pointer, "none", error)
            return
        if version == self.served.bank.version:
            self._serve(pointer, self.served)
            return
        self.loader = BankLoader(version, pointer, self._open_if_server_has_it)
        self.loader.start()

    def _finish_loading(self, opening: BankLoader) -> None:
        if opening.pointer != _read_pointer(self.folder):
            return  # it was decided anew meanwhile
        if opening.error:
            self._refuse(opening.pointer, opening.version, opening.error)
        elif opening.bank:
            self._serve(opening.pointer, self._load(opening.bank))
        elif self.version_awaited != opening.version:
            self.version_awaited = opening.version
            log.info(
                "another bank waits until the server has it", extra={"fields": {"version": opening.version}}
            )

    def _serve(self, pointer: Pointer, loaded: LoadedBank) -> None:
        self.followed_pointer, self.served, self.refusal, self.version_awaited = pointer, loaded, "", ""

    def _refuse(self, pointer: Pointer, version: str, reason: Exception) -> None:
        self.followed_pointer, self.refusal = pointer, str(reason)
        fields = {"version": version, "reason": str(reason), "judges": self.served.bank.version}
        log.warning("another bank is served and refused; the one before judges on", extra={"fields": fields})

    def _open_if_server_has_it(self, version: str) -> Bank | None:
        """None while the server has the bank that judges and not this one."""
        if self.must_wait(self.served.bank.version, version):
            return None
        return self._open(version)

    # --- what partitions are judged by --------------------------------------------------------------------------------

    def for_version(self, version: str) -> LoadedBank:
        """Who judged by a version, to go on; the one that is served where that version is gone or does not fit."""
        try:
            judge = self.loaded_banks.get(version) or self._load(self._open(version))
        except FingerprintError as error:
            fields = {"reason": str(error), "judges": self.served.bank.version}
            log.warning("the bank of a snapshot cannot judge on", extra={"fields": fields})
            return self.served
        if judge is not self.served and self._is_served(version):  # another member has seen it earlier
            self._serve(_read_pointer(self.folder), judge)
        return judge

    def find(self, version: str) -> Bank | None:
        """A version to explain by what was measured against it, None where it is gone."""
        try:
            return self.open_banks.get(version) or self._open(version)
        except FingerprintError:
            return None

    def release(self, needed: Collection[str]) -> None:
        """Nobody judges by other versions any more than those, and the one that is served."""
        for version in self.loaded_banks.keys() - {*needed, self.served.bank.version}:
            del self.loaded_banks[version]
            self.exit_stacks.pop(version).close()

    def close(self) -> None:
        for door in self.exit_stacks.values():
            door.close()

    def _open(self, version: str) -> Bank:
        bank = self.open_banks.get(version)
        if bank is None:  # placed once, however many partitions are judged by it
            bank = (
                open_bank(self.folder, self.settings.bank, version)
                .on(self.backend.to_device)
                .with_lookups_built()
            )
        check_bank_settings(bank, self.settings)
        self.open_banks[version] = bank
        return bank

    def _is_served(self, version: str) -> bool:
        try:
            return versions.require_served_version(self.folder) == version
        except FingerprintError:
            return False

    def _load(self, bank: Bank) -> LoadedBank:
        if bank.version not in self.loaded_banks:
            self.exit_stacks[bank.version] = ExitStack()
            self.loaded_banks[bank.version] = LoadedBank(
                bank, self.exit_stacks[bank.version].enter_context(self.open_inference(bank))
            )
        return self.loaded_banks[bank.version]


def _read_pointer(folder: Path) -> Pointer:
    try:
        status = (folder / "CURRENT").stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
