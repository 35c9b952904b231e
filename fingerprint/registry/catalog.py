"""Catalogue of the versions of a bank, for the command line and the web app, with access to the served version.

Example:
    >>> banks = BankListing(Path("bank"), settings)
    >>> banks.versions()[0].version, banks.served_version()
    ('2026-02-01-5b3c0a1e', '2026-02-01-5b3c0a1e')
    >>> banks.open_served().people["principal"]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from fingerprint.core.errors import FingerprintError, NotFound
from fingerprint.core.settings import Bank as BankOptions
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import format_iso
from fingerprint.registry import versions
from fingerprint.registry.bank import Bank
from fingerprint.registry.bank_files import DEFAULT_OPTIONS, open_bank, read_manifest


@dataclass(frozen=True, slots=True)
class BankVersion:
    """A version that is kept.

    - `since`, `until`, `events`: the time range and the number of events that it was trained on
    - `ready`: the number of its ready fingerprints by level
    - `passed`, `reasons`: the promotion gate's decision, None if it was not asked, and its reasons for a refusal
    - `decided`, `by`, `at`, `why`, `forced`: the newest decision about the version (trained and served, published, rolled back
      to, or refused), and whether it overruled the gate
    - `drift`: how far the behaviour of ready fingerprints moved since the version before, by quantile (0 the same, 1 nothing in
      common)
    - `problem`: why the version cannot be read; then the other fields are empty
    """

    version: str
    served: bool
    written: datetime
    since: str = ""
    until: str = ""
    events: int = 0
    fingerprints: int = 0
    ready: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    passed: bool | None = None
    reasons: tuple[str, ...] = ()
    decided: str = ""
    by: str = ""
    at: str = ""
    why: str = ""
    forced: bool = False
    drift: dict[str, float] = field(default_factory=dict)
    problem: str = ""


class BankCatalog(Protocol):
    """Read-only access to the banks of a folder."""

    def versions(self) -> list[BankVersion]:
        """Return the versions that are kept, the newest first; none where there is no bank yet."""
        ...

    def served_version(self) -> str:
        """Return the version that is served now, without opening it. Raises NotFound if there is none."""
        ...

    def open_served(self) -> Bank:
        """Return the bank that is served now, verified.

        Raises NotFound if none is served, FingerprintError if it cannot be read.
        """
        ...


class BankListing:
    """A folder of banks as a `BankCatalog`.

    The served version is opened at the first call that needs it, and again after another version is served. While one thread
    opens the new version, the others get the one before.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        self._open: Bank | None = None
        self._opening = Lock()

    def versions(self) -> list[BankVersion]:
        """Return the versions that are kept, the newest first; none where there is no bank yet."""
        return (
            [_bank_version(row) for row in list_versions(self.folder, self.settings.bank)]
            if versions.list_bank_versions(self.folder)
            else []
        )

    def served_version(self) -> str:
        """Return the version that is served. Raises NotFound if there is none."""
        try:
            return versions.require_served_version(self.folder)
        except FingerprintError as error:
            raise NotFound(str(error)) from None

    def open_served(self) -> Bank:
        """Return the served bank, verified.

        Raises NotFound if none is served, FingerprintError if it cannot be read.
        """
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
    """Return a row of `bank list --json` as a BankVersion."""
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


def list_versions(folder: Path, options: BankOptions = DEFAULT_OPTIONS) -> list[dict[str, Any]]:
    """Return the figures of every version that is kept, newest first, in the form of `bank list --json`.

    Raises FingerprintError if there is no bank.
    """
    kept = versions.list_bank_versions(folder)
    if not kept:
        versions.require_served_version(folder)
    served, lines = versions.served_version(folder), versions.decision_history(folder)
    rows = (_version_row(folder, version, served, lines, options) for version in kept)
    return [row for row in rows if row]


def _version_row(
    folder: Path, version: str, served: str | None, lines: list[dict[str, Any]], options: BankOptions
) -> dict[str, Any] | None:
    """Return the figures of a version; None if it was retired while the others were read."""
    root = folder / "versions" / version
    figures = _manifest_figures(root, options)
    if (written := versions.written_at(root)) is None:
        return None
    own = [line for line in lines if line["version"] == version]
    return {
        "version": version,
        "served": version == served,
        "written": _iso_time(written),
        "last_decision": own[-1] if own else None,
        **figures,
    }


def _manifest_figures(root: Path, options: BankOptions) -> dict[str, Any]:
    """Return the figures of a version that its manifest has; only its problem, if it cannot be read."""
    try:
        manifest = read_manifest(root, options)
    except FingerprintError as error:
        return {"problem": str(error)}
    names = ("span", "events", "fingerprints", "ready")
    if lacking := [name for name in names if name not in manifest]:
        return {"problem": f"the manifest of bank {root} was changed: it lacks {', '.join(lacking)}"}
    counts = {name: manifest[name] for name in names}
    return {**counts, "bytes": size_in_bytes(manifest), "gate": manifest.get("gate"), "problem": None}


def size_in_bytes(manifest: dict[str, Any]) -> int:
    """Return the size of all files of a version in bytes, according to its manifest."""
    return sum(each["bytes"] for each in manifest["files"].values())


def _iso_time(seconds: float) -> str:
    return format_iso(datetime.fromtimestamp(seconds, UTC), "seconds")
