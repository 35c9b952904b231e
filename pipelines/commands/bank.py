"""The versions of a bank: what `fingerprint bank` does, and the figures of its `--json`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from fingerprint.core import settings as settings_
from fingerprint.core.alert import LEVELS, FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.registry import bank as banks
from fingerprint.registry import drift, quality, signatures, versions
from fingerprint.registry.bank import Bank
from fingerprint.training import feedback
from pipelines import training_data
from pipelines.runtime import promotion

SHOWN = 5  # fingerprints, largest and quietest
MOVED = 10  # fingerprints that moved furthest


def run_list(folder: Path, options: settings_.Bank = banks.DEFAULT) -> list[dict[str, Any]]:
    """Every version that is kept, newest first. FingerprintError where there is no bank."""
    kept = versions.kept(folder)
    if not kept:
        versions.current(folder)
    served, lines = versions.served(folder), versions.history(folder)
    return [_row(folder, version, served, lines, options) for version in kept]


def _row(
    folder: Path, version: str, served: str | None, lines: list[dict[str, Any]], options: settings_.Bank
) -> dict[str, Any]:
    root = folder / "versions" / version
    own = [line for line in lines if line["version"] == version]
    row = {
        "version": version,
        "served": version == served,
        "written": _moment((root / "manifest.json").stat().st_mtime),
        "last_decision": own[-1] if own else None,
    }
    try:
        manifest = banks.manifest_of(root, options)
    except FingerprintError as error:
        return {**row, "problem": str(error)}
    counts = {name: manifest[name] for name in ("span", "events", "fingerprints", "ready")}
    return {**row, **counts, "bytes": _bytes(manifest), "gate": manifest.get("gate"), "problem": None}


def run_show(folder: Path, settings: Settings, version: str | None = None) -> dict[str, Any]:
    """One version in figures: what it learned, who is ready, who is large and who is quiet, what it weighs."""
    bank = banks.open_bank(folder, settings.bank, version, served=False)
    manifest, entities = bank.manifest, _entities(bank)
    names = ("version", "span", "events", "repeats", "fingerprints", "ready", "quality", "settings")
    ready, parts = entities[entities["ready"]], _by_part(manifest)
    return {
        **{name: manifest[name] for name in names},
        "served": bank.version == versions.served(folder),
        "entities": len(entities),
        "principals": len(bank.people),
        "values": len(bank.words),
        "gate": manifest.get("gate"),
        "outside": manifest.get("outside", 0),
        "left_out": manifest.get("left_out", {}),
        "came_back": manifest.get("came_back", {}),
        "shifted": {
            **manifest.get("shifted", {}),
            "threshold": quality.threshold_of(manifest["quality"], settings.autoencoder),
            "furthest": feedback.furthest(bank, SHOWN),
        },
        "largest": _fingerprints(entities.nlargest(SHOWN, "events")),
        "quietest_ready": _fingerprints(ready.nsmallest(SHOWN, "events")),
        "bytes": _bytes(manifest),
        "bytes_by_part": parts,
        "bytes_an_entity": round(
            (_bytes(manifest) - parts["ledger"]) / max(len(entities), 1)
        ),  # series apart
        "bytes_with_net": _bytes_with_net(bank, _bytes(manifest) - parts["ledger"]),
    }


def run_diff(folder: Path, settings: Settings, older: str, newer: str, most: int = MOVED) -> dict[str, Any]:
    """Champion and challenger side by side."""
    old, new = (banks.open_bank(folder, settings.bank, version, served=False) for version in (older, newer))
    moved = drift.between(old, new)
    return {
        "older": older,
        "newer": newer,
        "entities": {
            name: getattr(moved, name) for name in ("came", "gone", "became_ready", "no_longer_ready")
        },
        "ready": {name: [bank.manifest["ready"][name] for bank in (old, new)] for name in LEVELS},
        "loss_on_sample": {"older": drift.losses(old, new), "newer": drift.losses(new, new)},
        "loss_held_out": {name: bank.manifest["quality"]["loss"] for name, bank in _pair(old, new)},
        "votes_per_day": {name: bank.manifest["quality"]["votes_per_day"] for name, bank in _pair(old, new)},
        "values": drift.words(old, new),
        "drift": moved.figures(most),
        "shifted": {
            "threshold": quality.threshold_of(new.manifest["quality"], settings.autoencoder),
            "entities": feedback.differing(old, new),
        },
    }


def run_publish(
    folder: Path, settings: Settings, version: str, why: str = "", force: str | None = None
) -> dict[str, Any]:
    """Serve a kept version through the gate, or past it with a reason."""
    if force is not None and not force.strip():
        raise FingerprintError("--force wants the reason why the gate is passed by: it is recorded")
    was = versions.served(folder)
    happened = training_data.confirmed(None, settings) if force is None else {}
    word = promotion.publish(folder, version, settings, why, force, happened)
    return {
        "version": version,
        "before": was,
        "served": word.passed or force is not None,
        "forced": force is not None,
        "refusal": None if word.passed else promotion.refusal(version, word),
        "gate": word.figures,
    }


def run_rollback(folder: Path, settings: Settings, why: str = "") -> dict[str, Any]:
    """Serve what was served before."""
    was = versions.current(folder)
    return {"version": promotion.roll_back(folder, settings, why), "before": was}


def run_keys(file: Path) -> dict[str, Any]:
    """Make a pair of keys."""
    return {"key": signatures.make_keys(file), "private": str(file), "public": f"{file}.pub"}


def run_sign(folder: Path, settings: Settings, version: str | None = None) -> dict[str, Any]:
    """Sign a version, by default the one that is served, if it is sound. Its signature is not asked for: a person vouches."""
    wanted = version or versions.current(folder)
    anyhow = settings.bank.model_copy(update={"verify_key_files": ()})
    manifest = banks.manifest_bytes(banks.open_bank(folder, anyhow, wanted, served=False))
    if not promotion.approve(folder, wanted, manifest, settings):
        raise FingerprintError("nobody signs here: set bank.signing_key_file or bank.signer")
    return {"version": wanted}


def run_verify(folder: Path, settings: Settings, version: str | None = None) -> dict[str, Any]:
    """Check one version, or all that are kept and what is served; what is wrong, a sentence each. `keys`: whose signature was
    asked for, none where no key is set."""
    wanted, served = [version] if version else versions.kept(folder), _served(folder)
    if not wanted:
        versions.current(folder)
    found = [
        each
        for one in wanted
        for each in banks.problems(versions.place(folder, one), settings.bank, served=one == served)
    ]
    if not version and served not in wanted:
        found += _of_pointer(folder)
    keys = list(signatures.trusted(settings.bank.verify_key_files))
    return {"versions": wanted, "keys": keys, "problems": found}


def _served(folder: Path) -> str | None:
    try:
        return versions.served(folder)
    except FingerprintError:
        return None


def _of_pointer(folder: Path) -> list[str]:
    """Why no version is served."""
    try:
        versions.place(folder, versions.current(folder))
    except FingerprintError as error:
        return [str(error)]
    return []


def _entities(bank: Bank) -> pd.DataFrame:
    return bank.fingerprints[bank.fingerprints["level"] == LEVELS.index("entity")]


def _fingerprints(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {"key": str(key), "events": int(events), "days": int(days)}
        for key, events, days in zip(rows["key"], rows["events"], rows["days"], strict=True)
    ]


def _pair(old: Bank, new: Bank) -> tuple[tuple[str, Bank], tuple[str, Bank]]:
    return ("older", old), ("newer", new)


def _bytes(manifest: dict[str, Any]) -> int:
    return sum(each["bytes"] for each in manifest["files"].values())


def _bytes_with_net(bank: Bank, learned: int) -> int:
    """What an entity takes that has a net of its own: the net, and its share of everything else that was `learned`."""
    nets = bank.weights
    each = int(sum(part[:1].nbytes for part in (nets.inputs, nets.bias, nets.outputs)))
    return each + round((learned - each * len(nets.bias)) / len(bank.fingerprints))


def _by_part(manifest: dict[str, Any]) -> dict[str, int]:
    parts = pd.Series({name: each["bytes"] for name, each in manifest["files"].items()})
    return {
        str(name): int(size) for name, size in parts.groupby(parts.index.str.split(".").str[0]).sum().items()
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
