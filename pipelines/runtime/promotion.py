"""Promotion of a bank: decide by the promotion gate, record the decision, serve the bank, remove old versions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fingerprint.adapters.system import SystemClock
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Bank as BankOptions
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import format_iso
from fingerprint.registry import bank_files, versions
from fingerprint.registry.bank import Bank
from fingerprint.registry.signatures import Signer
from fingerprint.registry.versions import DecisionAction, VersionDecision
from fingerprint.training import promotion_gate
from fingerprint.training.promotion_gate import NO_CONFIRMED_ATTACKS, GateDecision
from pipelines.runtime import host, wiring


def offer_bank(
    learned: Bank,
    folder: Path,
    settings: Settings,
    confirmed: Mapping[str, Sequence[bytes]] = NO_CONFIRMED_ATTACKS,
    allow_immature: bool = False,
) -> GateDecision:
    """Store a bank that was just trained, and serve it if the promotion gate passes it; else the served bank stays.

    With `allow_immature` a first bank is served even if no entity in it is ready.
    """
    champion, warnings = _served_bank(folder, settings)
    if champion and champion.version == learned.version == versions.served_version(folder):
        return GateDecision((), {**champion.manifest.get("gate", {}), "passed": True, "reasons": []})
    reference = _drift_reference(folder, learned.version, champion, settings)
    decision = promotion_gate.evaluate_promotion(
        learned, champion, settings, reference, confirmed, allow_immature=allow_immature
    ).with_warnings(warnings)
    judged = replace(learned, manifest={**learned.manifest, "gate": decision.figures})
    manifest = bank_files.write_bank(judged, folder, require_signer(settings.bank))
    _record_decision(folder, learned.version, manifest, decision, "train", settings)
    return decision


def publish_bank(
    folder: Path,
    version: str,
    settings: Settings,
    why: str = "",
    force: str | None = None,
    confirmed: Mapping[str, Sequence[bytes]] = NO_CONFIRMED_ATTACKS,
) -> GateDecision:
    """Serve a stored version if the promotion gate passes it, or if `force` gives a reason to serve it anyway."""
    challenger = bank_files.open_bank(folder, settings.bank, version, served=False)
    champion, warnings = _served_bank(folder, settings)
    reference = _drift_reference(folder, version, champion, settings)
    decision = promotion_gate.evaluate_promotion(
        challenger, champion, settings, reference, confirmed
    ).with_warnings(warnings)
    manifest = bank_files.verified_manifest_bytes(challenger)
    if force is None:
        _record_decision(folder, version, manifest, decision, "publish", settings, why)
    else:
        sign_if_configured(folder, version, manifest, settings)
        versions.serve_version(folder, version, history_note("publish", force, forced=True))
        versions.remove_old_versions(folder, settings.bank.retained_versions)
    return decision


def require_signer(options: BankOptions) -> Signer | None:
    """Return the signer of banks that are published here. Raises FingerprintError if signatures are required without a signer."""
    found = wiring.create_signer(options)
    if options.verify_key_files and found is None:
        raise FingerprintError(
            "bank.verify_key_files requires signed banks, and there is no signer: "
            "set bank.signing_key_file or bank.signer where banks are trained and published"
        )
    return found


def sign_if_configured(folder: Path, version: str, manifest: bytes, settings: Settings) -> bool:
    """Sign a verified version if a signer is set; return whether it was signed.

    Raises FingerprintError if verification would refuse the signature, or if the manifest has changed since it was verified.
    """
    if (who := require_signer(settings.bank)) is None:
        return False
    bank_files.sign_bank(folder, version, who, manifest)
    bank_files.read_manifest(versions.version_folder(folder, version), settings.bank)
    return True


def roll_back_bank_version(folder: Path, settings: Settings, why: str = "") -> str:
    """Serve the version that was served before, and return its name.

    Raises FingerprintError if that version is damaged, or if another version was served during the check.
    """
    if (version := versions.previous_version(folder)) is not None:
        bank_files.open_bank(folder, settings.bank, version)
    return versions.roll_back(folder, history_note("rollback", why), expected=version)


def history_note(action: DecisionAction, why: str, forced: bool = False) -> VersionDecision:
    """Return a decision for the history of versions, with the user of this program and the time."""
    at = format_iso(SystemClock().now(), "seconds")
    return VersionDecision(action, at, host.login_name(), why, forced)


def refusal_message(folder: Path, version: str, decision: GateDecision) -> str:
    """Return the sentence about a bank that is stored but not served, with the bank that still is."""
    served = None
    with suppress(FingerprintError):  # a damaged pointer to the served version: the gate has warned of it
        served = versions.served_version(folder)
    still = f"; bank {served} is still served" if served else ""
    publish = shlex.join(("fingerprint", "bank", "publish", version, "--bank", str(folder)))
    return (
        f"bank {version} is kept, not served: {'; '.join(decision.reasons)}{still} "
        f'(`{publish} --force "the reason"` serves it all the same)'
    )


def _record_decision(
    folder: Path,
    version: str,
    manifest: bytes,
    decision: GateDecision,
    action: DecisionAction,
    settings: Settings,
    why: str = "",
) -> None:
    if decision.passed:
        sign_if_configured(folder, version, manifest, settings)
        versions.serve_version(folder, version, history_note(action, why or "the gate let it pass"))
    else:
        versions.append_decision(folder, version, history_note("refused", "; ".join(decision.reasons)))
    versions.remove_old_versions(folder, settings.bank.retained_versions)


def _served_bank(folder: Path, settings: Settings) -> tuple[Bank | None, list[str]]:
    """Return the served bank, or the one before if it cannot be opened, and a warning about each that cannot be opened.

    A damaged bank must be replaceable. So if neither can be opened, the next bank is judged like a first one, with the warnings.
    """
    try:
        served = versions.served_version(folder)
        before = versions.previous_version(folder) if served else None
    except FingerprintError as error:
        return None, [f"not compared with the served bank: {error}"]
    warnings: list[str] = []
    for version in filter(None, (served, before)):
        try:
            return bank_files.open_bank(folder, settings.bank, version), warnings
        except FingerprintError as error:
            warnings.append(f"not compared with bank {version}, which cannot be opened: {error}")
    return None, warnings


def _drift_reference(folder: Path, version: str, champion: Bank | None, settings: Settings) -> Bank | None:
    """Return the bank from which slow drift is measured, some served versions back; None if that is the served bank itself."""
    older = [each for each in versions.list_served_versions(folder) if each != version]
    back = older[: settings.promotion.reference_versions_back][-1:]
    if not champion or not back or back == [champion.version]:
        return None
    try:
        return bank_files.open_bank(folder, settings.bank, back[0], served=False)
    except FingerprintError:
        return None
