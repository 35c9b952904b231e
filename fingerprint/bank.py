"""A bank on disk: all fingerprints of one version, stacked. Data, never code; the manifest with the hashes comes last.

Example:
    >>> version = publish(bank, Path("bank"))
    >>> open_bank(Path("bank")).version == version
    True

    versions/<version>/             (what else lies in the folder: `versions`)
      manifest.json                 span, counts, settings, seed, quality, gate; size and SHA-256 of every other file
      fingerprints.parquet          one row a fingerprint: key, level, parent, events, days, ready
      people.parquet                principals: key, kind, peer group
      words.parquet                 the text of every value a fingerprint knows
      stack[.*].safetensors         vocabulary, weights, baselines (shapes: vocabulary.py, autoencoder.py; `shards`)
      ledger[.*].safetensors        series and counts as they stood at the end of training; no ids

Opening checks sizes against the manifest and the settings before anything is read, then hashes, then maps the arrays: what
is never looked up is never in memory. A version that is open may be retired or published again: its files live as long as
they are mapped.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fingerprint import features, frames, hashing, peers, settings, shards, versions
from fingerprint.arrays import Place, host, like, namespace
from fingerprint.arrival import check_watermark
from fingerprint.autoencoder import Baseline, Weights
from fingerprint.domain import LEVELS, FingerprintError
from fingerprint.hashing import Hashes
from fingerprint.tables import find
from fingerprint.vocabulary import Vocabulary

FORMAT = 6
LONGEST_MANIFEST = 64 << 20  # bytes
PUBLISHED = versions.Note("publish")
DEFAULT = settings.Bank()
TABLES = ("fingerprints", "people", "words")
SHAPING = (  # settings that say what is counted under which name
    ("spectral", "interval_seconds"),
    ("spectral", "busiest_actions"),
    ("entities", "granularity"),
    ("entities", "person_roles"),
)
STACKED = {"vocabulary": Vocabulary, "weights": Weights, "baseline": Baseline}
PEER = LEVELS.index("peer")
MOVED = ("shift", "benign", "malicious")  # columns of `fingerprints` where thresholds moved (`shifting`)


@dataclass(frozen=True)
class Bank:
    """`fingerprints` (E rows): key, hash, level, parent, events, days, first, last, ready, and MOVED where a threshold moved;
    row 0 is the generic one; a principal's hash says where its home is, as in `people` (`hashing`).
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

    @cached_property
    def owners(self) -> tuple[Hashes, NDArray[np.object_]]:
        """Entities and principals: the part of a hash that is the same at every home, sorted, and what each is called."""
        known = self.fingerprints[self.fingerprints["level"] <= 1]
        hashes = hashing.homeless(known["hash"].to_numpy(np.uint64))
        order = np.argsort(hashes)
        return hashes[order], known["key"].to_numpy(object)[order]

    @cached_property
    def shift(self) -> NDArray[np.float32]:
        """By which share of it the autoencoder's threshold is moved for each fingerprint (E,): 0 where nobody said anything."""
        if MOVED[0] not in self.fingerprints:
            return np.zeros(len(self.fingerprints), np.float32)
        return self.fingerprints[MOVED[0]].to_numpy(np.float32)

    @cached_property
    def whole(self) -> NDArray[np.int32]:
        """The fingerprint of the principal as a whole, above each of its entities' (E,); -1 for those that are no entity's, and
        where principals share entities."""
        level, parent = self.fingerprints["level"].to_numpy(), self.vocabulary.parent
        above = (level == 0) & (level[parent] == 1)
        return np.where(above, parent, -1).astype(np.int32)

    @cached_property
    def peers(self) -> NDArray[np.int32]:
        """The fingerprint of the peer group above each one (E,), or it itself; -1 where there is none that is ready."""
        level, parent = self.fingerprints["level"].to_numpy(), self.vocabulary.parent
        at = np.arange(len(level))
        for _ in range(PEER):
            at = np.where(level[at] < PEER, parent[at], at)
        known = (level[at] == PEER) & self.fingerprints["ready"].to_numpy()[at]
        return np.where(known, at, -1).astype(np.int32)

    @cached_property
    def here(self) -> Bank:
        """Itself, on the host: what alerts are explained from."""
        return self

    def on(self, place: Place) -> Bank:
        """The same bank with the arrays that scoring reads where `place` puts them; tables and texts stay on the host."""
        parts = {name: getattr(self.here, name).on(place) for name in STACKED}
        there, here = replace(self.here, **parts), self.here
        hashes, texts = here.owners
        found = {name: place(getattr(here, name)) for name in ("shift", "whole", "peers")}
        found |= {"owners": (place(hashes), texts), "_places": tuple(place(each) for each in here._places)}
        vars(there).update(found, here=here)  # what a cached property would make of itself
        return there

    def made_ready(self) -> Bank:
        """Itself, with what is looked up for every event made now rather than at the first one."""
        _ = self._places, self.owners, self._texts, self.shift, self.whole
        return self

    def resolve(
        self, entity: Hashes, principal: Hashes, frame: frames.Frame
    ) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
        """The finest ready fingerprint of each event and its level: entity, principal (N,) -> row (N,), level (N,).

        `frame` names principal, kind and role, from which an unknown principal's peer group follows. All of it lies where the
        bank does.
        """
        xp = namespace(entity)
        row = xp.zeros(len(entity), np.int32)
        level = xp.full(len(entity), len(LEVELS) - 1, np.int8)
        for number, keys in ((2, self._peer(principal, frame)), (1, principal), (0, entity)):
            place, found = find(self._places[0], hashing.mix(keys, number))
            row[found], level[found] = self._places[1][place[found]], number
        return row, level

    def _peer(self, principal: Hashes, frame: pd.DataFrame) -> Hashes:
        """The hash of each event's peer group (N,). Distinct principals are named here, wherever the events lie."""
        xp, known = namespace(principal), self.people["hash"].to_numpy()
        distinct, first, inverse = xp.unique(principal, return_index=True, return_inverse=True)
        place, found = find(known, host(distinct))
        strangers = frames.rows(frame[["principal", "kind", "role"]], host(first)[~found])
        groups = np.empty(len(found), object)
        groups[found] = self.people["peer"].to_numpy(dtype=object)[place[found]]
        groups[~found] = peers.peer_groups(frames.host(strangers))
        return like(hashing.of(pd.Series(groups, dtype=object)), principal)[inverse]

    def text(self, codes: Hashes) -> list[str]:
        """What values are called (N,); a value that no fingerprint knows is ''."""
        place, found = find(self.words["code"].to_numpy(), codes)
        texts = self._texts
        return [str(texts[at]) if known else "" for at, known in zip(place, found, strict=True)]

    @cached_property
    def _texts(self) -> NDArray[Any]:
        return self.words["text"].to_numpy(dtype=object)


def publish(bank: Bank, folder: Path, note: versions.Note = PUBLISHED) -> str:
    """Write a version into `folder` and serve it. Returns its name. Publishing again changes nothing."""
    write(bank, folder)
    versions.serve(folder, bank.version, note)
    return bank.version


def write(bank: Bank, folder: Path, options: settings.Bank = DEFAULT) -> None:
    """Put a version beside the others, not served yet; what was there under its name is replaced as a whole."""
    staged = folder / "versions" / f".{bank.version}.{os.getpid()}"
    shutil.rmtree(staged, ignore_errors=True)
    try:
        staged.mkdir(parents=True)
        _write(bank, staged, options.shard_bytes)
        target, replaced = folder / "versions" / bank.version, staged.with_name(f"{staged.name}.replaced")
        if target.exists():
            target.rename(replaced)
        staged.rename(target)
        shutil.rmtree(replaced, ignore_errors=True)
    except OSError as error:
        raise FingerprintError(f"cannot write the bank {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _write(bank: Bank, folder: Path, shard_bytes: int) -> None:
    for name in TABLES:
        getattr(bank, name).to_parquet(folder / f"{name}.parquet", index=False, compression="zstd")
    stacked = {
        f"{part}.{field.name}": getattr(getattr(bank, part), field.name)
        for part, kind in STACKED.items()
        for field in fields(kind)
    }
    shards.write(stacked, folder, "stack", shard_bytes)
    shards.write(bank.ledger, folder, "ledger", shard_bytes)
    files = {
        file.name: {"bytes": file.stat().st_size, "sha256": _sha256(file)}
        for file in sorted(folder.iterdir())
    }
    manifest = {**bank.manifest, "format": FORMAT, "files": files}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True, default=str) + "\n")


def open_bank(folder: Path, options: settings.Bank = DEFAULT, version: str | None = None) -> Bank:
    """A version of a bank, without one the version that is served.

    A missing, damaged, newer or too large one is a FingerprintError that names the file.
    """
    root = versions.place(folder, version) if version else folder / "versions" / versions.current(folder)
    manifest = manifest_of(root)
    problem = next(problems(root, manifest, options), None)
    if problem:
        raise FingerprintError(problem)
    check_clock(root, manifest)
    try:
        tables = {name: pd.read_parquet(root / f"{name}.parquet") for name in TABLES}
        stack = shards.opened(root, "stack")
        parts: dict[str, Any] = {**tables, "manifest": manifest, "ledger": shards.opened(root, "ledger")}
        for part, kind in STACKED.items():
            parts[part] = kind(**{field.name: stack[f"{part}.{field.name}"] for field in fields(kind)})
    except (OSError, KeyError, ValueError) as error:
        raise FingerprintError(f"bank {root} cannot be read: {error}") from None
    return Bank(**parts)


def named(folder: Path, version: str, keys: Sequence[str]) -> pd.DataFrame:
    """The fingerprints that bear one of some keys, without opening the rest of a version. FingerprintError where it is not
    kept, or its table is damaged."""
    root = versions.place(folder, version)
    file, wanted = root / "fingerprints.parquet", manifest_of(root)["files"]["fingerprints.parquet"]
    try:
        if _sha256(file) != wanted["sha256"]:
            raise FingerprintError(f"bank file {file} is damaged (its SHA-256 is not the manifest's)")
        return pd.read_parquet(file, filters=[("key", "in", list(keys))])
    except (OSError, pa.ArrowException) as error:
        raise FingerprintError(f"bank file {file} cannot be read: {error}") from None


def problems(root: Path, manifest: dict[str, Any], options: settings.Bank = DEFAULT) -> Iterator[str]:
    """What is wrong with the files of a version, a sentence each, the cheap questions first."""
    files, bytes_ = manifest["files"], sum(each["bytes"] for each in manifest["files"].values())
    if bytes_ > options.max_bytes:
        yield f"bank {root} has {bytes_:,} bytes, more than the {options.max_bytes:,} of the setting bank.max_bytes"
        return
    sound = []
    for name, wanted in files.items():
        if Path(name).name != name or not (root / name).is_file():
            yield f"bank {root} lacks {name}: publish it again or roll back to another version"
        elif (size := (root / name).stat().st_size) != wanted["bytes"]:
            yield f"bank file {root / name} is damaged: it has {size:,} bytes, the manifest says {wanted['bytes']:,}"
        else:
            sound.append(name)
    for name in sound:
        if _sha256(root / name) != files[name]["sha256"]:
            yield f"bank file {root / name} is damaged (its SHA-256 is not the manifest's)"
        elif name.endswith(".parquet"):
            yield from _expansion(root / name, options.max_bytes)


def _expansion(file: Path, most: int) -> Iterator[str]:
    """A table that would expand to more than a bank may have: compressed or repeated, its values may look small."""
    try:
        table = pq.ParquetFile(file).metadata
        plain = sum(table.row_group(number).total_byte_size for number in range(table.num_row_groups))
    except (OSError, pa.ArrowException) as error:
        yield f"bank file {file} is no table: {error}"
        return
    expanded = max(plain, 8 * table.num_rows * table.num_columns)  # a reference each, where values repeat
    if expanded > most:
        yield f"bank file {file} expands to {expanded:,} bytes, more than the setting bank.max_bytes allows"


def check_clock(root: Path, manifest: dict[str, Any]) -> None:
    """FingerprintError if a bank claims to have learned what has not happened yet: all until then would be passed over."""
    remedy = "Train it anew, or `fingerprint bank rollback` to the one before"
    check_watermark(f"the manifest of bank {root}", int(manifest["watermark"]), remedy)


def check_settings(bank: Bank, wanted: settings.Settings) -> None:
    """FingerprintError if what the bank counted is not what these settings would count: its series would mean nothing."""
    learned = bank.manifest["settings"]
    for section, key in SHAPING:
        was, now = learned[section][key], wanted.model_dump(mode="json")[section][key]
        if was != now:
            raise FingerprintError(
                f"setting {section}.{key} is {now!r}, the bank {bank.version} was trained with {was!r}: "
                "set it back or train anew"
            )


def manifest_of(root: Path) -> dict[str, Any]:
    """The manifest in a version's folder. FingerprintError where it is none, or of another format."""
    try:
        if (root / "manifest.json").stat().st_size > LONGEST_MANIFEST:
            raise ValueError(f"it is longer than {LONGEST_MANIFEST:,} bytes")
        manifest = json.loads((root / "manifest.json").read_text())
        if manifest["format"] != FORMAT:
            raise FingerprintError(
                f"bank {root} has format {manifest['format']}, this program reads {FORMAT}: train it anew"
            )
        if manifest["features"] != list(features.NAMES):
            raise FingerprintError(f"bank {root} knows other features than this program: train it anew")
        files = {
            str(name): {"bytes": int(each["bytes"]), "sha256": str(each["sha256"])}
            for name, each in manifest["files"].items()
        }
        clocks = {name: int(manifest[name]) for name in ("watermark", "learned_upto", "arrived_upto")}
        return {**manifest, **clocks, "files": files, "version": str(manifest["version"])}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FingerprintError(f"the manifest of bank {root} cannot be read: {error}") from None


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
