"""A bank on disk: all fingerprints of one version, stacked. Data, never code; the manifest with the hashes is written last.

Example:
    >>> manifest = write_bank(bank, Path("bank"))
    >>> open_bank(Path("bank"), version=bank.version).version == bank.version
    True

    versions/<version>/             (the other files of the folder: `versions`)
      manifest.json                 span, counts, settings of training, quality, gate; size and SHA-256 of every other file
      signatures.json               signatures of the manifest, where a key is set (`signatures`)
      fingerprints.parquet          one row a fingerprint: key, level, parent, events, days, ready
      people.parquet                principals: key, kind, peer group
      words.parquet                 the text of every value a fingerprint knows
      stack[.*].safetensors         vocabulary, weights, baselines, transitions (shapes: vocabulary.py,
                                    autoencoder.py, sequence.py; `mapped_arrays`)
      scorer_state[.*].safetensors  scorer state (series and counts) at the end of training; no ids

Opening a version

1. checks who signed the manifest, where keys are set
2. checks the sizes and hashes of the files against the manifest, and refuses files that it does not list
3. maps the arrays, so that only what is looked up is read into memory
4. checks the name of the version, a digest of what it was trained on (`version_name`)

Every file is opened once (`sealing`). A version may be retired or written again while it is open: its files live as long as they
are mapped. Files are readable by their owner alone. No setting that could hold a secret is in the manifest.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fingerprint.compute import mapped_arrays
from fingerprint.core import private_files, settings
from fingerprint.core.errors import FingerprintError
from fingerprint.features import encoding
from fingerprint.registry import signatures, versions
from fingerprint.registry.bank import ARRAY_PARTS, Bank, version_name
from fingerprint.registry.sealing import VerifiedFolder
from fingerprint.registry.signatures import Purpose, Signer
from fingerprint.sources.arrival import check_watermark

SHARD_BYTES = 256 << 20  # approximate bytes of arrays in one file
BANK_FORMAT = 18
READ_FORMATS = (17, BANK_FORMAT)  # 17 has no call paths, so no direct call adds nats
MANIFEST_FILE = "manifest.json"
MAX_BYTES = 64 << 30  # of a bank, on disk and with its tables expanded
MAX_BANK_MANIFEST_BYTES = 64 << 20
CLOCK_KEYS = ("watermark", "trained_until", "arrived_until")  # seconds since 1970
ANY_PURPOSE: tuple[Purpose, ...] = ("learned", "served")
PUBLISH_DECISION = versions.VersionDecision("publish")
DEFAULT_OPTIONS = settings.Bank()
BANK_TABLES = ("fingerprints", "people", "words")


def publish_version(
    bank: Bank, folder: Path, note: versions.VersionDecision = PUBLISH_DECISION, signer: Signer | None = None
) -> str:
    """Write a version into `folder` and serve it. Returns its name. Publishing again changes nothing."""
    manifest = write_bank(bank, folder, signer=signer)
    if signer:
        sign_bank(folder, bank.version, signer, manifest)
    versions.serve_version(folder, bank.version, note)
    return bank.version


def write_bank(bank: Bank, folder: Path, signer: Signer | None = None) -> bytes:
    """Write a version beside the others and return its manifest. It is signed as learned, if at all, and not served yet.

    An older version of the same name is replaced as a whole.
    """
    staged = folder / "versions" / f"{private_files.STAGING_PREFIX}{secrets.token_hex(8)}"
    try:
        private_files.make_private_folder(staged)
        manifest = _write_files(bank, staged, SHARD_BYTES)
        if signer:
            _write_signature(staged, staged, "learned", signer, manifest)
        private_files.restrict_files(staged)
        for each in (*staged.iterdir(), staged):
            private_files.sync(each)
        target, replaced = folder / "versions" / bank.version, staged.with_name(f"{staged.name}.replaced")
        if target.exists():
            target.rename(replaced)
        staged.rename(target)
        private_files.sync(target.parent)
        shutil.rmtree(replaced, ignore_errors=True)
        return manifest
    except OSError as error:
        raise FingerprintError(f"cannot write the bank {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _write_files(bank: Bank, folder: Path, shard_bytes: int) -> bytes:
    for name in BANK_TABLES:
        getattr(bank, name).to_parquet(folder / f"{name}.parquet", index=False, compression="zstd")
    stacked = {
        f"{part}.{field.name}": getattr(getattr(bank, part), field.name)
        for part, kind in ARRAY_PARTS.items()
        for field in fields(kind)
    }
    mapped_arrays.write_arrays(stacked, folder, "stack", shard_bytes)
    mapped_arrays.write_arrays(bank.scorer_state, folder, "scorer_state", shard_bytes)
    files = {
        file.name: {"bytes": file.stat().st_size, "sha256": _sha256(file)}
        for file in sorted(folder.iterdir())
    }
    text = {**bank.manifest, "format": BANK_FORMAT, "files": files}
    manifest = json.dumps(text, indent=1, sort_keys=True, default=str).encode() + b"\n"
    (folder / MANIFEST_FILE).write_bytes(manifest)
    return manifest


def verified_manifest_bytes(bank: Bank) -> bytes:
    """Return the manifest of an open bank as it was when it was checked, even if the file has changed since.

    Raises ValueError for a bank that was not opened from disk.
    """
    if bank.files is None:
        raise ValueError("a bank that was not opened has no manifest on disk")
    return bank.files.read_content(MANIFEST_FILE, MAX_BANK_MANIFEST_BYTES)


def sign_bank(folder: Path, version: str, signer: Signer, manifest: bytes) -> None:
    """Sign a version for serving, replacing an earlier signature for this purpose.

    Signs the `manifest` that was checked, not the file. If the file was changed since, the signature is not valid for it.
    """
    root = versions.version_folder(folder, version)
    try:
        _write_signature(root, root.parent, "served", signer, manifest)
    except OSError as error:
        raise FingerprintError(f"cannot write the bank {folder}: {error.strerror or error}") from None


def _write_signature(root: Path, beside: Path, purpose: Purpose, signer: Signer, manifest: bytes) -> None:
    """Write the signature to a staged file and move it into place, so that no reader ever sees half a file."""
    signed = root / signatures.SIGNATURES_FILE
    known = signed.read_bytes() if signed.exists() else b"{}"
    text = signatures.add_signature(known, purpose, signatures.sign_manifest(manifest, purpose, signer))
    private_files.replace_file(signed, lambda staged: staged.write_bytes(text), staged_in=beside)


# --- opening --------------------------------------------------------------------------------------------------------


def open_bank(
    folder: Path, options: settings.Bank = DEFAULT_OPTIONS, version: str | None = None, served: bool = True
) -> Bank:
    """Return a version of a bank, by default the served one. If `served` is False it need not be signed for serving.

    Raises FingerprintError that names the file if one is missing, damaged, too large, unsigned or of another format.
    """
    root = (
        versions.version_folder(folder, version)
        if version
        else folder / "versions" / versions.require_served_version(folder)
    )
    files = VerifiedFolder(root)
    private_files.warn_if_exposed(root / MANIFEST_FILE, folder)
    manifest = _parse_manifest(files, options, ("served",) if served else ANY_PURPOSE)
    problem = next(_file_problems(files, manifest), None)
    if problem:
        raise FingerprintError(problem)
    return _read_bank(files, manifest)


def _read_bank(files: VerifiedFolder, manifest: dict[str, Any]) -> Bank:
    check_bank_clock(files.root, manifest)
    try:
        parts: dict[str, Any] = {
            name: _read_table(files, manifest, f"{name}.parquet") for name in BANK_TABLES
        }
        listed = {name: files.descriptor(name) for name in manifest["files"]}
        stack = mapped_arrays.map_arrays(listed, "stack")
        scorer_state = mapped_arrays.map_arrays(listed, "scorer_state")
        for part, kind in ARRAY_PARTS.items():
            parts[part] = kind(**{each.name: stack[f"{part}.{each.name}"] for each in fields(kind)})
        true = version_name(manifest, parts["fingerprints"])
    except (OSError, KeyError, ValueError, TypeError, pa.ArrowException) as error:
        raise FingerprintError(f"bank {files.root} cannot be read: {error}") from None
    if manifest["version"] != true:
        raise FingerprintError(
            f"the manifest of bank {files.root} was changed: by what it says this is version {true}. "
            "Roll back to another version, or train again"
        )
    return Bank(**parts, manifest=manifest, scorer_state=scorer_state, files=files)


def _read_table(files: VerifiedFolder, manifest: dict[str, Any], name: str, **options: Any) -> pd.DataFrame:
    """Read a table and check its hash on the bytes that were read."""
    with files.open_stream(name) as stream:
        content = stream.read()
    if hashlib.sha256(content).hexdigest() != manifest["files"][name]["sha256"]:
        raise FingerprintError(_damage_message(files, name))
    return pd.read_parquet(BytesIO(content), **options)


def find_fingerprints(
    folder: Path, version: str, keys: Sequence[str], options: settings.Bank = DEFAULT_OPTIONS
) -> pd.DataFrame:
    """Return the fingerprints with these keys, without opening the rest of a version.

    Raises FingerprintError if the version is not kept, or its table is damaged.
    """
    files = VerifiedFolder(versions.version_folder(folder, version))
    manifest = _parse_manifest(files, options, ANY_PURPOSE)
    try:
        return _read_table(files, manifest, "fingerprints.parquet", filters=[("key", "in", list(keys))])
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise FingerprintError(
            f"bank file {files.root / 'fingerprints.parquet'} cannot be read: {error}"
        ) from None


def find_problems(root: Path, options: settings.Bank = DEFAULT_OPTIONS, served: bool = False) -> list[str]:
    """Return a sentence for each problem of a version; none if it can be opened."""
    try:
        files = VerifiedFolder(root)
        manifest = _parse_manifest(files, options, ("served",) if served else ANY_PURPOSE)
        found = list(_file_problems(files, manifest))
        if not found:
            _read_bank(files, manifest)
    except FingerprintError as error:
        return [str(error)]
    return found


def _file_problems(files: VerifiedFolder, manifest: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each problem of the files, cheap checks first."""
    listed, root = manifest["files"], files.root
    bytes_ = sum(each["bytes"] for each in listed.values())
    if bytes_ > MAX_BYTES:
        yield f"bank {root} has {bytes_:,} bytes, more than the {MAX_BYTES:,} that are read"
        return
    for name in files.names:
        if name not in (*listed, MANIFEST_FILE, signatures.SIGNATURES_FILE):
            yield f"bank {root} holds {name!r}, which its manifest does not list: remove it, and ask who put it there"
    for name in listed:
        yield from _content_problems(files, name, listed[name])


def _content_problems(files: VerifiedFolder, name: str, recorded: dict[str, Any]) -> Iterator[str]:
    if name not in files.names:
        yield f"bank {files.root} lacks {name}: publish it again or roll back to another version"
        return
    try:
        if (size := files.size(name)) != recorded["bytes"]:
            yield (
                f"bank file {files.root / name} is damaged: it has {size:,} bytes, the manifest says {recorded['bytes']:,}"
            )
        elif files.sha256(name) != recorded["sha256"]:
            yield _damage_message(files, name)
        elif name.endswith(".parquet"):
            yield from _expansion_problems(files, name)
    except FingerprintError as error:
        yield str(error)


def _damage_message(files: VerifiedFolder, name: str) -> str:
    return (
        f"bank file {files.root / name} is damaged (its SHA-256 is not the manifest's): "
        "publish it again or roll back to another version"
    )


def _expansion_problems(files: VerifiedFolder, name: str) -> Iterator[str]:
    """Yield a problem if a table would expand to more bytes than a bank may have: a small file may hold repeated values."""
    file = files.root / name
    try:
        with files.open_stream(name) as stream:
            table = pq.ParquetFile(stream).metadata
        plain = sum(table.row_group(number).total_byte_size for number in range(table.num_row_groups))
    except (OSError, pa.ArrowException) as error:
        yield f"bank file {file} is no table: {error}"
        return
    expanded = max(plain, 8 * table.num_rows * table.num_columns)  # even a repeated value takes a reference
    if expanded > MAX_BYTES:
        yield f"bank file {file} expands to {expanded:,} bytes, more than the {MAX_BYTES:,} that are read"


def check_bank_clock(root: Path, manifest: dict[str, Any]) -> None:
    """Raise FingerprintError if a bank's watermark lies in the future, because a scorer would skip all events until then.

    The version name is a digest that includes the watermark; `trained_until` is outside it, and must not be later.
    """
    remedy = "Train it again, or `fingerprint bank rollback` to the one before"
    latest = max(int(manifest["watermark"]), int(manifest["arrived_until"]))
    check_watermark(f"the manifest of bank {root}", latest, remedy)
    if manifest["trained_until"] > manifest["watermark"]:
        raise FingerprintError(
            f"the manifest of bank {root} was changed: it has trained_until after its watermark. {remedy}"
        )


def read_manifest(root: Path, options: settings.Bank = DEFAULT_OPTIONS) -> dict[str, Any]:
    """Return the manifest in a version's folder. Raises FingerprintError if it is damaged, unsigned or of another format."""
    return _parse_manifest(VerifiedFolder(root), options, ANY_PURPOSE)


def _parse_manifest(
    files: VerifiedFolder, options: settings.Bank, purposes: Sequence[Purpose]
) -> dict[str, Any]:
    root = files.root
    try:
        content = files.read_content(MANIFEST_FILE, MAX_BANK_MANIFEST_BYTES)
        _check_signed(files, content, options, purposes)
        manifest = json.loads(content)
        if manifest["format"] not in READ_FORMATS:
            newer = "upgrade this program, or " if manifest["format"] > BANK_FORMAT else ""
            raise FingerprintError(
                f"bank {root} has format {manifest['format']}, this program reads {BANK_FORMAT}: {newer}train it again"
            )
        if manifest["features"] != list(encoding.FEATURE_NAMES):
            raise FingerprintError(f"bank {root} knows other features than this program: train it again")
        if manifest["version"] != root.name:
            raise FingerprintError(
                f"bank {root} holds another version by its manifest: put it back, or train again"
            )
        listed = {
            str(name): {"bytes": int(each["bytes"]), "sha256": str(each["sha256"])}
            for name, each in manifest["files"].items()
        }
        clocks = {name: int(manifest[name]) for name in CLOCK_KEYS}
        return {**manifest, **clocks, "files": listed}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FingerprintError(f"the manifest of bank {root} cannot be read: {error}") from None


def _check_signed(
    files: VerifiedFolder, manifest: bytes, options: settings.Bank, purposes: Sequence[Purpose]
) -> None:
    """Raise FingerprintError if keys are set, and none of them signed the manifest for one of `purposes`."""
    keys = signatures.read_public_keys(options.verify_key_files)
    if not keys:
        return
    signed = (
        files.read_content(signatures.SIGNATURES_FILE, signatures.MAX_FILE_BYTES)
        if signatures.SIGNATURES_FILE in files.names
        else b""
    )
    if problem := signatures.verification_problem(manifest, signed, purposes, keys):
        raise FingerprintError(
            f"bank {files.root} {problem} by any of the keys {', '.join(keys)} (bank.verify_key_files): "
            "roll back to another version, or if you know who made it, `fingerprint bank sign` it"
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
