"""The banks of a folder as they are looked at from the desk: a `ports_banks.Banks`.

Example:
    >>> banks = SeenBanks(Path("bank"), settings)
    >>> banks.versions()[0].version, banks.served().version
    ('2026-02-01-5b3c0a1e', '2026-02-01-5b3c0a1e')
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

from fingerprint.core.alert import FingerprintError, NotFound
from fingerprint.core.settings import Settings
from fingerprint.registry import versions
from fingerprint.registry.bank import Bank, open_bank
from fingerprint.registry.catalog import BankVersion
from pipelines.commands import bank


class BankListing:
    """Opens what is served when somebody first looks, and again when another version is served. While one thread opens it, the
    others look at the one before."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        self._open: Bank | None = None
        self._opening = Lock()

    def versions(self) -> list[BankVersion]:
        """Those that are kept, the one written last first."""
        return (
            [_bank_version(row) for row in bank.list_versions(self.folder, self.settings.bank)]
            if versions.list_bank_versions(self.folder)
            else []
        )

    def served_version(self) -> str:
        """The version that is served; NotThere where there is none."""
        try:
            return versions.require_served_version(self.folder)
        except FingerprintError as error:
            raise NotFound(str(error)) from None

    def open_served(self) -> Bank:
        """The version that is served. NotThere where there is none, FingerprintError where it cannot be read."""
        version, known = self.served_version(), self._open
        if known and known.version == version:
            return known
        if not self._opening.acquire(blocking=known is None) and known:
            return known
        try:
            if self._open is None or self._open.version != version:
                self._open = open_bank(self.folder, self.settings.bank, version).with_lookups_built()
            return self._open
        finally:
            self._opening.release()


def _bank_version(row: dict[str, Any]) -> BankVersion:
    """A row of `bank list --json`."""
    last, written = row["last_decision"] or {}, datetime.fromisoformat(row["written"])
    if row["problem"]:
        return BankVersion(row["version"], row["served"], written, problem=row["problem"])
    gate = row["gate"] or {}
    return BankVersion(
        version=row["version"],
        served=row["served"],
        written=written,
        since=row["span"][0],
        until=row["span"][1],
        events=row["events"],
        fingerprints=row["fingerprints"],
        ready=row["ready"],
        bytes=row["bytes"],
        passed=gate.get("passed"),
        reasons=tuple(gate.get("reasons", ())),
        decided=last.get("action", ""),
        by=last.get("by", ""),
        at=last.get("at", ""),
        why=last.get("why", ""),
        forced=last.get("forced", False),
        drift=gate.get("drift", {}).get("quantiles", {}),
    )
