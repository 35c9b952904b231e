"""Versions of a bank: functions behind `fingerprint bank`, with the figures of `--json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from fingerprint.core.alert import LEVELS
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.registry import bank_files, drift, quality, signatures, versions
from fingerprint.registry.bank import Bank
from fingerprint.registry.catalog import size_in_bytes
from fingerprint.training import feedback
from pipelines.runtime import promotion, training_data

MAX_FINGERPRINTS_SHOWN = 5  # of the largest, and of the quietest fingerprints
MAX_DRIFTED_SHOWN = 10  # of the fingerprints that moved furthest


def describe_version(folder: Path, settings: Settings, version: str | None = None) -> dict[str, Any]:
    """Return the figures of one version: history, readiness, largest and quietest fingerprints, size."""
    bank = bank_files.open_bank(folder, settings.bank, version, served=False)
    manifest, entities = bank.manifest, _entity_table(bank)
    names = ("version", "span", "events", "fingerprints", "ready", "quality", "settings")
    ready, parts = entities[entities["ready"]], _bytes_by_file(manifest)
    return {
        **{name: manifest[name] for name in names},
        "duplicates": manifest["repeats"],
        "served": bank.version == versions.served_version(folder),
        "entities": len(entities),
        "principals": len(bank.people),
        "values": len(bank.words),
        "gate": manifest.get("gate"),
        "outside": manifest.get("outside", 0),
        "left_out": manifest.get("left_out", {}),
        "came_back": manifest.get("came_back", {}),
        "shifted": {
            **manifest.get("shifted", {}),
            "threshold": quality.alert_threshold(manifest["quality"], settings.alerts),
            "furthest": feedback.largest_shifts(bank, MAX_FINGERPRINTS_SHOWN),
        },
        "largest": _fingerprint_rows(entities.nlargest(MAX_FINGERPRINTS_SHOWN, "events")),
        "quietest_ready": _fingerprint_rows(ready.nsmallest(MAX_FINGERPRINTS_SHOWN, "events")),
        "bytes": size_in_bytes(manifest),
        "bytes_by_part": parts,
        "bytes_an_entity": round(
            (size_in_bytes(manifest) - parts["scorer_state"]) / max(len(entities), 1)
        ),  # series apart
        "bytes_with_net": _bytes_per_net(bank, size_in_bytes(manifest) - parts["scorer_state"]),
    }


def diff_versions(
    folder: Path, settings: Settings, older: str, newer: str, most: int = MAX_DRIFTED_SHOWN
) -> dict[str, Any]:
    """Return the differences between two versions."""
    old, new = (
        bank_files.open_bank(folder, settings.bank, version, served=False) for version in (older, newer)
    )
    drifted = drift.compare_banks(old, new)
    return {
        "older": older,
        "newer": newer,
        "entities": {
            name: getattr(drifted, name) for name in ("added", "removed", "became_ready", "no_longer_ready")
        },
        "ready": {name: [bank.manifest["ready"][name] for bank in (old, new)] for name in LEVELS},
        "loss_on_sample": {"older": drift.loss_quantiles(old, new), "newer": drift.loss_quantiles(new, new)},
        "loss_held_out": {name: bank.manifest["quality"]["loss"] for name, bank in _open_pair(old, new)},
        "votes_per_day": {
            name: bank.manifest["quality"]["votes_per_day"] for name, bank in _open_pair(old, new)
        },
        "values": drift.compare_values(old, new),
        "drift": drifted.summary(most),
        "shifted": {
            "threshold": quality.alert_threshold(new.manifest["quality"], settings.alerts),
            "entities": feedback.changed_shifts(old, new),
        },
    }


def publish_version(
    folder: Path, settings: Settings, version: str, why: str = "", force: str | None = None
) -> dict[str, Any]:
    """Serve a stored version if the promotion gate passes it, or in any case if `force` gives a reason."""
    if force is not None and not force.strip():
        raise FingerprintError("--force needs a reason, which is recorded")
    before = versions.served_version(folder)
    happened: dict[str, list[bytes]] = {}
    if force is None:  # a forced version must be served even if the database is unavailable
        happened = training_data.load_confirmed_attacks(None, settings)
        settings = training_data.settings_in_force(None, settings)
    decision = promotion.publish_bank(folder, version, settings, why, force, happened)
    return {
        "version": version,
        "before": before,
        "served": decision.passed or force is not None,
        "forced": force is not None,
        "refusal": None if decision.passed else promotion.refusal_message(folder, version, decision),
        "gate": decision.figures,
    }


def roll_back_bank(folder: Path, settings: Settings, why: str = "") -> dict[str, Any]:
    """Serve the version that was served before the current one."""
    before = versions.require_served_version(folder)
    return {"version": promotion.roll_back_bank_version(folder, settings, why), "before": before}


def generate_key_pair(file: Path) -> dict[str, Any]:
    """Write a new key pair to `file` (private) and `file`.pub; return the id of the key and both names."""
    return {"key": signatures.generate_keys(file), "private": str(file), "public": f"{file}.pub"}


def sign_version(folder: Path, settings: Settings, version: str | None = None) -> dict[str, Any]:
    """Sign a version, by default the served one, if it is sound.

    An earlier signature is not required: the person who runs the command vouches for the version.
    """
    wanted = version or versions.require_served_version(folder)
    anyhow = settings.bank.model_copy(update={"verify_key_files": ()})
    manifest = bank_files.verified_manifest_bytes(bank_files.open_bank(folder, anyhow, wanted, served=False))
    if not promotion.sign_if_configured(folder, wanted, manifest, settings):
        raise FingerprintError("there is no signer: set bank.signing_key_file or bank.signer")
    return {"version": wanted}


def verify_versions(folder: Path, settings: Settings, version: str | None = None) -> dict[str, Any]:
    """Verify one version, or all stored versions and the pointer to the served one; return `problems`, a sentence each.

    `keys` are the public keys that signatures were checked with; empty if no key is set.
    """
    names, served = [version] if version else versions.list_bank_versions(folder), _served_version(folder)
    if not names:
        versions.require_served_version(folder)
    found = [
        each
        for one in names
        for each in bank_files.find_problems(
            versions.version_folder(folder, one), settings.bank, served=one == served
        )
    ]
    if not version and served not in names:
        found += _pointer_problems(folder)
    keys = list(signatures.read_public_keys(settings.bank.verify_key_files))
    return {"versions": names, "keys": keys, "problems": found}


def _served_version(folder: Path) -> str | None:
    try:
        return versions.served_version(folder)
    except FingerprintError:
        return None


def _pointer_problems(folder: Path) -> list[str]:
    """Return why no version is served: one problem, or none."""
    try:
        versions.version_folder(folder, versions.require_served_version(folder))
    except FingerprintError as error:
        return [str(error)]
    return []


def _entity_table(bank: Bank) -> pd.DataFrame:
    return bank.fingerprints[bank.fingerprints["level"] == LEVELS.index("entity")]


def _fingerprint_rows(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {"key": str(key), "events": int(events), "days": int(days)}
        for key, events, days in zip(rows["key"], rows["events"], rows["days"], strict=True)
    ]


def _open_pair(old: Bank, new: Bank) -> tuple[tuple[str, Bank], tuple[str, Bank]]:
    return ("older", old), ("newer", new)


def _bytes_per_net(bank: Bank, learned: int) -> int:
    """Return the bytes of an entity with a net of its own: the net, and its share of all other `learned` bytes."""
    nets = bank.weights
    each = int(sum(part[:1].nbytes for part in (nets.inputs, nets.bias, nets.outputs)))
    return each + round((learned - each * len(nets.bias)) / len(bank.fingerprints))


def _bytes_by_file(manifest: dict[str, Any]) -> dict[str, int]:
    parts = pd.Series({name: each["bytes"] for name, each in manifest["files"].items()})
    return {
        str(name): int(size) for name, size in parts.groupby(parts.index.str.split(".").str[0]).sum().items()
    }
