"""A bank on disk: all fingerprints of one version, stacked. Data, never code; the manifest with the hashes comes last.

Example:
    >>> version = publish(bank, Path("bank"))
    >>> open_bank(Path("bank")).version == version
    True

    bank/
      CURRENT                       the version that is served; replaced as the last step of publishing
      versions/<version>/
        manifest.json               span, counts, settings, seed, quality, SHA-256 of every other file
        fingerprints.parquet        one row a fingerprint: key, level, parent, events, days, ready
        people.parquet              principals: key, kind, peer group
        words.parquet               the text of every value a fingerprint knows
        stack.safetensors           vocabulary, weights, baselines (shapes: vocabulary.py, autoencoder.py)
        ledger.safetensors          series and counts as they stood at the end of training; no ids
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from fingerprint import features, hashing, peers
from fingerprint.autoencoder import Baseline, Weights
from fingerprint.domain import LEVELS, FingerprintError
from fingerprint.hashing import Hashes
from fingerprint.settings import Settings
from fingerprint.tables import find
from fingerprint.vocabulary import Vocabulary

FORMAT = 2
TABLES = ("fingerprints", "people", "words")
SHAPING = (  # settings that say what is counted under which name
    ("spectral", "interval_seconds"),
    ("spectral", "busiest_actions"),
    ("entities", "granularity"),
    ("entities", "person_roles"),
)
STACKED = {"vocabulary": Vocabulary, "weights": Weights, "baseline": Baseline}


@dataclass(frozen=True)
class Bank:
    """`fingerprints` (E rows): key, hash, level, parent, events, days, first, last, ready; row 0 is the generic one;
    a principal's hash says where its home is, as in `people` (`hashing`).
    `people`: hash, principal, kind, role, peer; `words`: code, text, sorted by code. `sample` (R, F) codes of training
    rows. `ledger`: arrays by name."""

    manifest: dict[str, Any]
    fingerprints: pd.DataFrame
    people: pd.DataFrame
    words: pd.DataFrame
    vocabulary: Vocabulary
    weights: Weights
    baseline: Baseline
    ledger: dict[str, NDArray[Any]]

    @property
    def version(self) -> str:
        return str(self.manifest["version"])

    @cached_property
    def _places(self) -> tuple[Hashes, NDArray[np.int32]]:
        """Sorted hashes of (level, key) of the ready fingerprints, and their rows."""
        ready = np.flatnonzero(self.fingerprints["ready"].to_numpy())
        levels = self.fingerprints["level"].to_numpy()[ready]
        keys = hashing.mix(self.fingerprints["hash"].to_numpy()[ready], levels)
        order = np.argsort(keys)
        return keys[order], ready[order].astype(np.int32)

    def resolve(
        self, entity: Hashes, principal: Hashes, frame: pd.DataFrame
    ) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
        """The finest ready fingerprint of each event and its level: entity, principal (N,) -> row (N,), level (N,).

        `frame` names principal, kind and role, from which an unknown principal's peer group follows.
        """
        row = np.zeros(len(entity), np.int32)
        level = np.full(len(entity), len(LEVELS) - 1, np.int8)
        for number, keys in ((2, self._peer(principal, frame)), (1, principal), (0, entity)):
            place, found = find(self._places[0], hashing.mix(keys, number))
            row[found], level[found] = self._places[1][place[found]], number
        return row, level

    def _peer(self, principal: Hashes, frame: pd.DataFrame) -> Hashes:
        known = self.people["hash"].to_numpy()
        distinct, first, inverse = np.unique(principal, return_index=True, return_inverse=True)
        place, found = find(known, distinct)
        groups = np.empty(len(distinct), object)
        groups[found] = self.people["peer"].to_numpy(dtype=object)[place[found]]
        groups[~found] = peers.peer_groups(frame[["principal", "kind", "role"]].iloc[first[~found]])
        return hashing.of(pd.Series(groups, dtype=object))[inverse]

    def text(self, codes: Hashes) -> list[str]:
        """What values are called (N,); a value that no fingerprint knows is ''."""
        place, found = find(self.words["code"].to_numpy(), codes)
        texts = self._texts
        return [str(texts[at]) if known else "" for at, known in zip(place, found, strict=True)]

    @cached_property
    def _texts(self) -> NDArray[Any]:
        return self.words["text"].to_numpy(dtype=object)


def publish(bank: Bank, folder: Path) -> str:
    """Write a version into `folder` and make it current. Returns the version's name. Publishing again changes nothing."""
    staged = folder / "versions" / f".{bank.version}.{os.getpid()}"
    shutil.rmtree(staged, ignore_errors=True)
    try:
        staged.mkdir(parents=True)
        _write(bank, staged)
        target, replaced = folder / "versions" / bank.version, staged.with_name(f"{staged.name}.replaced")
        if target.exists():
            target.rename(replaced)
        staged.rename(target)
        shutil.rmtree(replaced, ignore_errors=True)
        pointer = folder / f".CURRENT.{os.getpid()}"
        pointer.write_text(bank.version + "\n")
        pointer.replace(folder / "CURRENT")
    except OSError as error:
        raise FingerprintError(f"cannot write the bank {folder}: {error.strerror or error}") from None
    return bank.version


def _write(bank: Bank, folder: Path) -> None:
    for name in TABLES:
        getattr(bank, name).to_parquet(folder / f"{name}.parquet", index=False, compression="zstd")
    stacked = {
        f"{part}.{field.name}": np.ascontiguousarray(getattr(getattr(bank, part), field.name))
        for part, kind in STACKED.items()
        for field in fields(kind)
    }
    save_file(stacked, folder / "stack.safetensors")
    save_file(
        {name: np.ascontiguousarray(array) for name, array in bank.ledger.items()},
        folder / "ledger.safetensors",
    )
    hashes = {file.name: _sha256(file) for file in sorted(folder.iterdir())}
    manifest = {**bank.manifest, "format": FORMAT, "files": hashes}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True, default=str) + "\n")


def open_bank(folder: Path) -> Bank:
    """The current bank of a folder. A missing, damaged or newer one is a FingerprintError that names the file."""
    version = _current(folder)
    root = folder / "versions" / version
    manifest = _manifest(root)
    for name, wanted in manifest["files"].items():
        if Path(name).name != name or not (root / name).is_file():
            raise FingerprintError(
                f"bank {root} lacks {name}: publish it again or roll back to another version"
            )
        if _sha256(root / name) != wanted:
            raise FingerprintError(f"bank file {root / name} is damaged (its SHA-256 is not the manifest's)")
    try:
        tables = {name: pd.read_parquet(root / f"{name}.parquet") for name in TABLES}
        stack = load_file(root / "stack.safetensors")
        ledger = load_file(root / "ledger.safetensors")
    except (OSError, SafetensorError, ValueError) as error:
        raise FingerprintError(f"bank {root} cannot be read: {error}") from None
    parts: dict[str, Any] = {**tables, "manifest": manifest, "ledger": ledger}
    for part, kind in STACKED.items():
        parts[part] = kind(**{field.name: stack[f"{part}.{field.name}"] for field in fields(kind)})
    return Bank(**parts)


def check_settings(bank: Bank, settings: Settings) -> None:
    """FingerprintError if what the bank counted is not what these settings would count: its series would mean nothing."""
    learned = bank.manifest["settings"]
    for section, key in SHAPING:
        was, now = learned[section][key], settings.model_dump(mode="json")[section][key]
        if was != now:
            raise FingerprintError(
                f"setting {section}.{key} is {now!r}, the bank {bank.version} was trained with {was!r}: "
                "set it back or train anew"
            )


def _current(folder: Path) -> str:
    try:
        version = (folder / "CURRENT").read_text(errors="replace").strip()
    except OSError:
        raise FingerprintError(
            f"no bank in {folder}: make one with `fingerprint train SOURCE --bank {folder}`"
        ) from None
    if not version or Path(version).name != version:
        raise FingerprintError(f"{folder / 'CURRENT'} does not name a version")
    return version


def _manifest(root: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((root / "manifest.json").read_text())
        if manifest["format"] != FORMAT:
            raise FingerprintError(
                f"bank {root} has format {manifest['format']}, this program reads {FORMAT}: train it anew"
            )
        if manifest["features"] != list(features.NAMES):
            raise FingerprintError(f"bank {root} knows other features than this program: train it anew")
        return {**manifest, "files": dict(manifest["files"]), "version": str(manifest["version"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FingerprintError(f"the manifest of bank {root} cannot be read: {error}") from None


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
