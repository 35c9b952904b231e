"""Bank watcher: follow the served bank while the program runs, and keep earlier banks as long as a partition needs them.

Example:
    >>> with closing(BankWatcher(folder, settings, open_inference)) as banks:
    ...     banks.poll()                                   # in each iteration; another version is opened in a thread
    ...     banks.served.bank.version                      # verified, mapped, compatible with the settings
    ...     banks.for_version("2026-02-01-5b3c0a1e")       # the bank that a checkpoint names
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from weakref import WeakValueDictionary

from fingerprint.compute.backend import HOST_BACKEND, Backend
from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports.inference import Inference
from fingerprint.core.settings import Settings
from fingerprint.detection.inference import ServerTrust
from fingerprint.registry import versions
from fingerprint.registry.bank import Bank, check_bank_settings
from fingerprint.registry.bank_files import open_bank
from fingerprint.registry.sealing import VerifiedFolder

Pointer = tuple[int, int] | None  # identity of the file CURRENT: time of writing and inode; None without one
InferenceFactory = Callable[[Bank], AbstractContextManager[Inference]]
MustWait = Callable[[str, str], bool]


def never(judging: str, version: str) -> bool:
    """Return False, no version must wait: a process that measures by itself has every version at once."""
    return False


log = get_logger("fingerprint.banks")
REFUSED_RETRY_SECONDS = 300.0  # until a refused version is tried again: its files may be back by then


class LoadedBank(NamedTuple):
    """A bank, and the inference that computes losses against it."""

    bank: Bank
    inference: Inference


class BankLoader(Thread):
    """Thread that opens a version: a large bank takes seconds, in which the main thread must keep polling messages."""

    def __init__(self, version: str, pointer: Pointer, open_version: Callable[[str], Bank | None]) -> None:
        super().__init__(name=f"bank-{version}", daemon=True)
        self.version, self.pointer, self.open_version = version, pointer, open_version
        self.bank: Bank | None = None  # None too where the version must wait
        self.error: Exception | None = None

    def run(self) -> None:
        """Open the version, and keep the error if there is one."""
        try:
            self.bank = self.open_version(self.version)
        except Exception as error:  # of any kind: the bank before it stays in service
            self.error = error


class BankIntegrityCheck(Thread):
    """Thread that hashes those files of open banks again that were touched."""

    def __init__(self, files: Sequence[VerifiedFolder]) -> None:
        super().__init__(name="bank-watch", daemon=True)
        self.files = files
        self.changed: list[str] = []

    def run(self) -> None:
        """Hash the files, and keep the names of changed ones."""
        self.changed = [str(each.root / name) for each in self.files for name in each.changed_files()]


class BankWatcher:
    """The banks of one folder that a program scores with. Used by one thread.

    - `served` follows the folder's file CURRENT.
    - A version that cannot be opened or does not fit the settings is *refused*: the bank before stays in service. The version is
      tried again every REFUSED_RETRY_SECONDS, and when CURRENT changes.
    - A version that the inference server does not have yet is waited for, as long as the server has the bank before.
    - If a file of an open bank is written to, `poll` raises: results of that bank may have changed, so nothing may be scored.
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
        """Open the served version. Raise FingerprintError if it cannot be opened or does not fit the settings.

        `must_wait(active, version)` says whether the inference server has the active version and does not have the other one yet.
        """
        self.folder, self.settings, self.backend = folder, settings, backend
        self.open_inference, self.must_wait, self.trust = open_inference, must_wait, trust or ServerTrust()
        self.loaded_banks: dict[str, LoadedBank] = {}
        self.exit_stacks: dict[str, ExitStack] = {}  # of each loaded bank
        # all that are referenced anywhere
        self.open_banks: WeakValueDictionary[str, Bank] = WeakValueDictionary()
        self.loader: BankLoader | None = None
        self.integrity_check: BankIntegrityCheck | None = None
        self.refusal = ""  # why the served version is not used
        self.version_awaited = ""  # that the server does not have yet
        self.followed_pointer = _read_pointer(folder)  # that was followed, or refused
        self.next_try = 0.0  # of a version that was refused
        self.next_poll = time.monotonic() + settings.bank.poll_interval_seconds
        self.served = self._load(self._open(versions.require_served_version(folder)))

    # --- the served bank ----------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Every `bank.poll_interval_seconds`, look for another served version and check the files of open banks, in threads.

        Raise FingerprintError if a file of an open bank was written to.
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
                f"bank file {self.integrity_check.changed[0]} was written to while the bank was in use: "
                "publish the bank again or roll back to another version, and find out what writes there"
            )
        open_ = [loaded.bank.files for loaded in self.loaded_banks.values() if loaded.bank.files]
        touched = [files for files in open_ if files.may_have_changed()]
        self.integrity_check = BankIntegrityCheck(touched) if touched else None
        if self.integrity_check:
            self.integrity_check.start()

    def _poll_pointer(self) -> None:
        pointer = _read_pointer(self.folder)
        is_retry_due = bool(self.refusal) and time.monotonic() >= self.next_try
        if pointer == self.followed_pointer and not is_retry_due:
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

    def _finish_loading(self, loader: BankLoader) -> None:
        if loader.pointer != _read_pointer(self.folder):
            return  # CURRENT has changed since
        if loader.error:
            self._refuse(loader.pointer, loader.version, loader.error)
        elif loader.bank:
            self._serve(loader.pointer, self._load(loader.bank))
        elif self.version_awaited != loader.version:
            self.version_awaited = loader.version
            log.info("waiting until the inference server has the new bank", version=loader.version)

    def _serve(self, pointer: Pointer, loaded: LoadedBank) -> None:
        self.followed_pointer, self.served, self.refusal, self.version_awaited = pointer, loaded, "", ""

    def _refuse(self, pointer: Pointer, version: str, reason: Exception) -> None:
        is_known = (pointer, str(reason)) == (self.followed_pointer, self.refusal)
        self.followed_pointer, self.refusal = pointer, str(reason)
        self.next_try = time.monotonic() + REFUSED_RETRY_SECONDS
        if is_known:
            return
        log.warning(
            "served bank refused; the one before stays in service",
            version=version,
            reason=str(reason),
            active=self.served.bank.version,
        )

    def _open_if_server_has_it(self, version: str) -> Bank | None:
        """Open and return a version; return None while the server has the active version and not this one."""
        if self.must_wait(self.served.bank.version, version):
            return None
        return self._open(version)

    # --- banks of partitions ------------------------------------------------------------------------------------------

    def for_version(self, version: str) -> LoadedBank:
        """Return the loaded bank of a version, or the served one if that version is missing or does not fit."""
        try:
            loaded = self.loaded_banks.get(version) or self._load(self._open(version))
        except FingerprintError as error:
            log.warning(
                "the bank of a checkpoint is not available; the served one takes over",
                reason=str(error),
                active=self.served.bank.version,
            )
            return self.served
        if loaded is not self.served and self._is_served(version):  # another member has seen it earlier
            self._serve(_read_pointer(self.folder), loaded)
        return loaded

    def find(self, version: str) -> Bank | None:
        """Return the bank of a version, to explain events that it measured; None if it is missing."""
        try:
            return self.open_banks.get(version) or self._open(version)
        except FingerprintError:
            return None

    def release(self, needed: Collection[str]) -> None:
        """Close all banks but the needed ones and the served one."""
        for version in self.loaded_banks.keys() - {*needed, self.served.bank.version}:
            del self.loaded_banks[version]
            self.exit_stacks.pop(version).close()

    def close(self) -> None:
        """Close all banks."""
        for stack in self.exit_stacks.values():
            stack.close()

    def _open(self, version: str) -> Bank:
        bank = self.open_banks.get(version)
        if bank is None:  # placed once, however many partitions use it
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
