"""A bank to its folder: through the gate, with a note of who and why; what is old is retired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from fingerprint.adapters.system import SystemClock
from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Bank as BankOptions
from fingerprint.core.settings import Settings
from fingerprint.registry import bank as banks
from fingerprint.registry import versions
from fingerprint.registry.bank import Bank
from fingerprint.registry.signatures import Signer
from fingerprint.registry.versions import Note
from fingerprint.training import promotion_gate
from fingerprint.training.promotion_gate import NO_CASES, Word
from pipelines.runtime import operator, wiring

Action = Literal["train", "publish", "rollback", "refused"]


def offer(
    learned: Bank, folder: Path, settings: Settings, confirmed: Mapping[str, Sequence[bytes]] = NO_CASES
) -> Word:
    """Keep a bank that was just trained, and serve it if the gate lets it pass. What is served already stays as it is."""
    champion = _champion(folder, settings)
    if champion and champion.version == learned.version == versions.served(folder):
        return Word((), {**champion.manifest.get("gate", {}), "passed": True, "reasons": []})
    frozen = _frozen(folder, learned.version, champion, settings)
    word = promotion_gate.judge(learned, champion, settings, frozen, confirmed)
    judged = replace(learned, manifest={**learned.manifest, "gate": word.figures})
    manifest = banks.write(judged, folder, settings.bank, signer(settings.bank))
    _decide(folder, learned.version, manifest, word, "train", settings)
    return word


def publish(
    folder: Path,
    version: str,
    settings: Settings,
    why: str = "",
    force: str | None = None,
    confirmed: Mapping[str, Sequence[bytes]] = NO_CASES,
) -> Word:
    """Serve a version that is kept, if the gate lets it pass or a reason is given to force it."""
    challenger = banks.open_bank(folder, settings.bank, version, served=False)
    champion = _champion(folder, settings)
    frozen = _frozen(folder, version, champion, settings)
    word = promotion_gate.judge(challenger, champion, settings, frozen, confirmed)
    manifest = banks.manifest_bytes(challenger)
    if force is None:
        _decide(folder, version, manifest, word, "publish", settings, why)
    else:
        approve(folder, version, manifest, settings)
        versions.serve(folder, version, note("publish", force, forced=True))
        versions.retire(folder, settings.bank.kept)
    return word


def signer(options: BankOptions) -> Signer | None:
    """Who signs what is published here. FingerprintError where signatures are wanted and nobody can make them."""
    found = wiring.signer(options)
    if options.verify_key_files and found is None:
        raise FingerprintError(
            "bank.verify_key_files wants signed banks, and nobody signs here: "
            "set bank.signing_key_file or bank.signer where banks are trained and published"
        )
    return found


def approve(folder: Path, version: str, manifest: bytes, settings: Settings) -> bool:
    """Sign a version as one that may be served, by the manifest that was checked, where there is who signs; whether it was
    signed. FingerprintError where its signature would be none to those who verify it, or another manifest lies there by now."""
    if (who := signer(settings.bank)) is None:
        return False
    banks.sign(folder, version, "served", who, manifest)
    banks.manifest_of(versions.place(folder, version), settings.bank)
    return True


def roll_back(folder: Path, settings: Settings, why: str = "") -> str:
    """Serve what was served before, if it is sound; its name."""
    if (version := versions.before(folder)) is not None:
        banks.open_bank(folder, settings.bank, version)
    return versions.roll_back(folder, note("rollback", why))


def note(action: Action, why: str, forced: bool = False) -> Note:
    """Who runs this program, and the time of day."""
    at = SystemClock().now().isoformat(timespec="seconds").replace("+00:00", "Z")
    return Note(action, at, operator.name(), why, forced)


def refusal(version: str, word: Word) -> str:
    """One sentence for whoever waited for a bank to be served."""
    return (
        f"bank {version} is kept, not served: {'; '.join(word.reasons)} "
        f'(`fingerprint bank publish {version} --force "the reason"` serves it all the same)'
    )


def _decide(
    folder: Path, version: str, manifest: bytes, word: Word, action: Action, settings: Settings, why: str = ""
) -> None:
    if word.passed:
        approve(folder, version, manifest, settings)
        versions.serve(folder, version, note(action, why or "the gate let it pass"))
    else:
        versions.remark(folder, version, note("refused", "; ".join(word.reasons)))
    versions.retire(folder, settings.bank.kept)


def _champion(folder: Path, settings: Settings) -> Bank | None:
    """Return what is served, or what was served before if that cannot be opened any more: a damaged bank must be replaceable,
    and whoever damages it must not weaken the gate. None where neither can."""
    with suppress(FingerprintError):
        for version in (versions.served(folder), versions.before(folder)):
            if version is not None:
                with suppress(FingerprintError):
                    return banks.open_bank(folder, settings.bank, version)
    return None


def _frozen(folder: Path, version: str, champion: Bank | None, settings: Settings) -> Bank | None:
    """The bank so many versions back from which slow drift is measured; None as long as that is the one served."""
    older = [each for each in versions.kept(folder) if each != version]
    back = older[: settings.gate.frozen][-1:]
    if not champion or not back or back == [champion.version]:
        return None
    try:
        return banks.open_bank(folder, settings.bank, back[0], served=False)
    except FingerprintError:
        return None
