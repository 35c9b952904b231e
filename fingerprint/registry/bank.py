"""A bank on disk: all fingerprints of one version, stacked. Data, never code; the manifest with the hashes comes last.

Example:
    >>> manifest = write_bank(bank, Path("bank"))
    >>> open_bank(Path("bank"), version=bank.version).version == bank.version
    True

    versions/<version>/             (what else lies in the folder: `versions`)
      manifest.json                 span, counts, settings it was trained by, quality, gate; size and SHA-256 of every other file
      signatures.json               of the manifest, where a key is set (`signatures`)
      fingerprints.parquet          one row a fingerprint: key, level, parent, events, days, ready
      people.parquet                principals: key, kind, peer group
      words.parquet                 the text of every value a fingerprint knows
      stack[.*].safetensors         vocabulary, weights, baselines, transitions (shapes: vocabulary.py,
                                    autoencoder.py, sequence.py; `mapped_arrays`)
      scorer_state[.*].safetensors  scorer state (series and counts) at the end of training; no ids

Opening asks first who signed the manifest, then checks sizes against it and the settings before anything is read, then hashes,
then maps the arrays: what is never looked up is never in memory. Files that the manifest does not list may not lie there. The
name of a version is a digest of what it was trained on (`version_name`). Every file is opened once (`sealing`). A version that
is open may be retired or written again: its files live as long as they are mapped. Files are readable by their owner alone; no
setting that could hold a secret is in the manifest.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing, mapped_arrays
from fingerprint.compute.arrays import Placement, namespace, to_device_of, to_host, unique_places
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.core import private_files, settings
from fingerprint.core.alert import LEVELS
from fingerprint.core.errors import FingerprintError
from fingerprint.estimators.autoencoder import Baseline, Weights
from fingerprint.estimators.sequence import Transitions
from fingerprint.features import encoding, peer_groups
from fingerprint.features.vocabulary import Vocabulary
from fingerprint.registry import signatures, versions
from fingerprint.registry.sealing import VerifiedFolder
from fingerprint.registry.signatures import Purpose, Signer
from fingerprint.sources.active import SOURCE
from fingerprint.sources.arrival import check_watermark
from fingerprint.state.state_settings import (
    SERIES_SETTINGS,
    changed_settings,
    select_settings,
    state_settings,
)

SHARD_BYTES = 256 << 20  # of an array in one file, about
BANK_FORMAT = 18
READ_FORMATS = (17, BANK_FORMAT)  # 17 has no call paths: no direct call is news then
MANIFEST_FILE = "manifest.json"
MAX_BYTES = 64 << 30  # of a bank, on disk and with its tables expanded
MAX_BANK_MANIFEST_BYTES = 64 << 20
CLOCK_KEYS = ("watermark", "trained_until", "arrived_until")  # seconds since 1970
# Keys of a manifest that the version, a hash of the others, leaves out: the same history gives the same version, whenever it is
# trained, and whatever was left out of it.
KEYS_OUTSIDE_VERSION = {
    "version",
    "format",
    "files",
    "gate",
    "trained_until",
    "arrived_until",
    "future_dated",
    "ahead",
}
ANY_PURPOSE: tuple[Purpose, ...] = ("learned", "served")
PUBLISH_DECISION = versions.VersionDecision("publish")
DEFAULT_OPTIONS = settings.Bank()
BANK_TABLES = ("fingerprints", "people", "words")
# Of the settings: a manifest keeps them
TRAINING_SECTIONS = ("entities", "autoencoder", "spectral", "training")
ARRAY_PARTS = {"vocabulary": Vocabulary, "weights": Weights, "baseline": Baseline, "transitions": Transitions}
GENERIC_ROW = 0  # of the generic fingerprint
PRINCIPAL_LEVEL, PEER_LEVEL = LEVELS.index("principal"), LEVELS.index("peer")
PERSON_KINDS = ("person", "federated")  # of principals that may name one
# Of `fingerprints`, where decisions moved thresholds (`feedback`)
FEEDBACK_COLUMNS = ("shift", "benign", "malicious")


def account_of(principal: str) -> str:
    """Return the account that a principal's name begins with."""
    return principal.partition(":")[0]


def accounts_of(principals: pd.Series) -> pd.Series:
    """Return the account that each principal's name begins with, (N,)."""
    return principals.astype(object).map(account_of)


def people_names(people: pd.DataFrame) -> NDArray[np.object_]:
    """Return the name of the person that each principal of a table `people` (P rows) is, in small letters; "" for no person."""
    names = np.full(len(people), "", object)
    rows = np.flatnonzero(people["kind"].isin(PERSON_KINDS).to_numpy())
    for row, principal in zip(
        rows.tolist(), people["principal"].to_numpy(object)[rows].tolist(), strict=True
    ):
        names[row] = SOURCE.person_and_access(principal)[0].casefold()
    return names


@dataclass(frozen=True)
class Bank:
    """One version of a bank, with its arrays mapped or in memory.

    | attribute | content |
    |---|---|
    | `fingerprints` | (E rows) key, hash, level, parent, events, days, first, last, ready; row 0 is the generic fingerprint |
    | `people` | (a row a principal) hash, principal, kind, role, peer |
    | `words` | code and text of a value, sorted by code |
    | `scorer_state` | arrays by name; `sample.codes` (R, F) are codes of training rows, `holdout.loss` (M,) losses of others |
    | `files` | what the bank was opened from; None if it was just trained |

    The hash of a principal, in `fingerprints` and in `people`, contains its hash bucket (`hashing`). `fingerprints` has
    FEEDBACK_COLUMNS too where decisions moved a threshold.
    """

    manifest: dict[str, Any]
    fingerprints: pd.DataFrame
    people: pd.DataFrame
    words: pd.DataFrame
    vocabulary: Vocabulary
    weights: Weights
    baseline: Baseline
    transitions: Transitions
    scorer_state: dict[str, NDArray[Any]]
    files: VerifiedFolder | None = field(default=None, repr=False, compare=False)

    @property
    def version(self) -> str:
        """The name of the version."""
        return str(self.manifest["version"])

    @cached_property
    def _ready_rows(self) -> tuple[Hashes, NDArray[np.int32]]:
        """Sorted hashes of (level, key) of the ready fingerprints, and their rows."""
        ready = np.flatnonzero(self.fingerprints["ready"].to_numpy())
        levels = self.fingerprints["level"].to_numpy()[ready]
        keys = hashing.hash_pair(self.fingerprints["hash"].to_numpy()[ready], levels)
        order = np.argsort(keys)
        return keys[order], ready[order].astype(np.int32)

    @cached_property
    def _beginners(self) -> tuple[Hashes, NDArray[np.int32]]:
        """Sorted hashes of the principals whose fingerprints are not ready, and the rows of these."""
        table = self.fingerprints
        rows = np.flatnonzero((table["level"].to_numpy() == PRINCIPAL_LEVEL) & ~table["ready"].to_numpy())
        hashes = table["hash"].to_numpy(np.uint64)[rows]
        order = np.argsort(hashes)
        return hashes[order], rows[order].astype(np.int32)

    @cached_property
    def owners(self) -> tuple[Hashes, NDArray[np.object_]]:
        """Entities and principals: the part of a hash that is the same in every bucket, sorted, and the name of each."""
        known = self.fingerprints[self.fingerprints["level"] <= 1]
        hashes = hashing.without_bucket(known["hash"].to_numpy(np.uint64))
        order = np.argsort(hashes)
        return hashes[order], known["key"].to_numpy(object)[order]

    @cached_property
    def shift(self) -> NDArray[np.float32]:
        """The share by which feedback moved the autoencoder's threshold of each fingerprint (E,): 0 without feedback."""
        if FEEDBACK_COLUMNS[0] not in self.fingerprints:
            return np.zeros(len(self.fingerprints), np.float32)
        return self.fingerprints[FEEDBACK_COLUMNS[0]].to_numpy(np.float32)

    @cached_property
    def whole(self) -> NDArray[np.int32]:
        """The fingerprint of the whole principal above each of its entities' (E,); -1 for others.

        It is -1 for all where principals share entities.
        """
        level, parent = self.fingerprints["level"].to_numpy(), self.vocabulary.parent
        above = (level == 0) & (level[parent] == 1)
        return np.where(above, parent, -1).astype(np.int32)

    @cached_property
    def peers(self) -> NDArray[np.int32]:
        """The fingerprint of the peer group above each one (E,), or it itself; -1 where there is none that is ready."""
        level, parent = self.fingerprints["level"].to_numpy(), self.vocabulary.parent
        at = np.arange(len(level))
        for _ in range(PEER_LEVEL):
            at = np.where(level[at] < PEER_LEVEL, parent[at], at)
        known = (level[at] == PEER_LEVEL) & self.fingerprints["ready"].to_numpy()[at]
        return np.where(known, at, -1).astype(np.int32)

    @cached_property
    def on_host(self) -> Bank:
        """Return the bank on the host, where alerts are explained."""
        return self

    def on(self, placement: Placement) -> Bank:
        """Return the same bank with the arrays that scoring reads moved by `placement`; tables and texts stay on the host."""
        parts = {name: getattr(self.on_host, name).on(placement) for name in ARRAY_PARTS}
        there, here = replace(self.on_host, **parts), self.on_host
        hashes, texts = here.owners
        found = {name: placement(getattr(here, name)) for name in ("shift", "whole", "peers")}
        found |= {
            "owners": (placement(hashes), texts),
            **{name: tuple(map(placement, getattr(here, name))) for name in ("_ready_rows", "_beginners")},
        }
        vars(there).update(found, on_host=here)  # what a cached property would make of itself
        return there

    def with_lookups_built(self) -> Bank:
        """Return the bank with its lookup tables built now rather than at the first event."""
        _ = self._ready_rows, self._beginners, self.owners, self._texts, self.shift, self.whole
        _ = self._people_by_name, self._accounts
        return self

    def resolve(
        self, entity: Hashes, principal: Hashes, frame: frames.Frame
    ) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
        """Return the fingerprint that judges each event and its level: entity, principal (N,) -> row (N,), level (N,).

        It is the finest that is ready. A principal without one is judged by the little that was learned of it, if anything was,
        beside what is usual of those above: by its own row, at the level of the finest that is ready.

        `frame` names principal, kind and role, from which an unknown principal's peer group follows. All of it lies where the
        bank does.
        """
        xp = namespace(entity)
        row = xp.zeros(len(entity), np.int32)
        level = xp.full(len(entity), len(LEVELS) - 1, np.int8)
        rest = xp.arange(len(entity))  # the events that have none so far
        for number, keys in enumerate((entity, principal, None)):
            level_keys = self._peer_group_hashes(principal, frame, rest) if keys is None else keys[rest]
            place, found = find_sorted(self._ready_rows[0], hashing.hash_pair(level_keys, number))
            row[rest[found]], level[rest[found]] = self._ready_rows[1][place[found]], number
            rest = rest[~found]
            if not len(rest):
                break
        shared = xp.flatnonzero(level >= PEER_LEVEL)
        if len(shared):
            place, found = find_sorted(self._beginners[0], principal[shared])
            row[shared[found]] = self._beginners[1][place[found]]
        return row, level

    def _peer_group_hashes(self, principal: Hashes, frame: pd.DataFrame, rows: NDArray[np.intp]) -> Hashes:
        """Return the hash of the peer group of events at rows (M,). Distinct principals are named on the host."""
        known = self._known_people
        distinct, first, inverse = unique_places(principal[rows])
        place, found = find_sorted(known, to_host(distinct))
        hashes = np.empty(len(found), np.uint64)
        hashes[found] = self._known_peer_group_hashes[place[found]]
        if not found.all():
            named = frames.select_columns(frame, ["principal", "kind", "role"])
            strangers = frames.to_host(frames.select_rows(named, to_host(rows[first])[~found]))
            hashes[~found] = hashing.hash_distinct(peer_groups.assign_peer_groups(strangers))
        return to_device_of(hashes, principal)[inverse]

    @cached_property
    def _known_people(self) -> Hashes:
        """The hash of each of `people`, in their order."""
        return self.people["hash"].to_numpy()

    def same_person(self, principal: str) -> tuple[list[str], NDArray[np.int32]]:
        """Return a person's other principals that were learned, and the rows of their fingerprints, the busiest first.

        One person is a principal at each role.
        """
        at = self._rows_of_person(principal)
        if not len(at):
            return [], np.empty(0, np.int32)
        principals = self.people["principal"].take(at).to_numpy(object)
        other = principals != principal
        return principals[other].tolist(), self._busiest_fingerprints(at[other])

    def roles_of_person(self, principal: str) -> NDArray[np.int32]:
        """Return the rows of the fingerprints that a principal's person has, at whichever role, the busiest first."""
        return self._busiest_fingerprints(self._rows_of_person(principal))

    def _rows_of_person(self, principal: str) -> NDArray[np.intp]:
        """Return the rows of `people` that are a principal's person, none for a principal that is no person's."""
        person, _ = SOURCE.person_and_access(principal)
        if not person:
            return np.empty(0, np.intp)
        hashes, rows = self._people_by_name
        name = hashing.hash_string(person.casefold())
        return rows[np.searchsorted(hashes, name) : np.searchsorted(hashes, name, side="right")]

    def _busiest_fingerprints(self, at: NDArray[np.intp]) -> NDArray[np.int32]:
        """Return the rows of the fingerprints of `people` at some rows, of those that have one, the busiest first."""
        if not len(at):
            return np.empty(0, np.int32)
        ready, fingerprints = self.on_host._ready_rows
        place, found = find_sorted(ready, hashing.hash_pair(self._known_people[at], PRINCIPAL_LEVEL))
        known = fingerprints[place[found]]
        busiest: NDArray[np.int32] = known[
            np.argsort(-self.fingerprints["events"].to_numpy()[known], kind="stable")
        ]
        return busiest

    def knows_account(self, account: Hashes) -> NDArray[np.bool_]:
        """Return of which accounts principals were learned, (N,), by the hashes of their names.

        Who calls from another account does not count: that may be a stranger's, whose log is not read.
        """
        _, found = find_sorted(self.on_host._accounts, to_host(account))
        known: NDArray[np.bool_] = to_device_of(found, account)
        return known

    def knows_account_of(self, principal: str) -> bool:
        """Return whether others of a principal's account were learned."""
        account = hashing.hash_strings(np.array([account_of(principal)], object))
        return bool(self.knows_account(account).all())

    @cached_property
    def _accounts(self) -> Hashes:
        """The hashes of the accounts of principals whose logs are read, sorted."""
        principals = self.people["principal"][(self.people["kind"] != "account").to_numpy()]
        return np.sort(hashing.hash_strings(accounts_of(principals).drop_duplicates()))

    @cached_property
    def _people_by_name(self) -> tuple[Hashes, NDArray[np.intp]]:
        """The hash of the name of each person, sorted, and their rows of `people`, (P,): a row for each role."""
        names = people_names(self.people)
        hashes = hashing.hash_strings(pd.Series(names, dtype=object))
        order = np.argsort(hashes, kind="stable")
        order = order[names[order] != ""]
        return hashes[order], order

    @cached_property
    def _known_peer_group_hashes(self) -> Hashes:
        """The hash of the peer group of each of `people`."""
        return hashing.hash_strings(self.people["peer"].astype(object))

    @cached_property
    def sorted_series_owners(self) -> tuple[Hashes, Hashes, NDArray[np.bool_]]:
        """Owners of series, on the host and sorted once a bank: key, principal, is it an entity, (M,) each.

        Entities that principals share are left out. Each partition's scorer asks, at the start and when settings change.
        """
        table = self.fingerprints
        level, hashes = table["level"].to_numpy(), table["hash"].to_numpy(np.uint64)
        parent = np.clip(table["parent"].to_numpy(), 0, len(table) - 1)
        principals, entities = np.flatnonzero(level == 1), np.flatnonzero((level == 0) & (level[parent] == 1))
        above = hashes[parent[entities]]
        key = np.concatenate([hashes[principals], hashing.rebucket(above, hashes[entities])])
        order = np.argsort(key)
        principal = np.concatenate([hashes[principals], above])
        return key[order], principal[order], order >= len(principals)

    def principals_that_showed(self, codes: Hashes) -> NDArray[np.float32]:
        """Return how many principals of the history showed each value of events with `codes` (N, F): (N, F)."""
        return self.vocabulary.observed_count(np.full(len(codes), GENERIC_ROW, np.int32), codes)

    def names_stranger(self, codes: Hashes) -> NDArray[np.bool_]:
        """Return which events name an account that no one of the history named, nor is of, (N,); codes (N, F)."""
        feature = encoding.OTHER_ACCOUNT_FEATURE
        if feature is None:
            return np.zeros(len(codes), bool)
        account = to_host(codes[:, feature])
        named = self.vocabulary.count_of(np.int32(GENERIC_ROW), feature, account) > 0
        strange: NDArray[np.bool_] = ~named & ~self.knows_account(account)
        return strange

    def value_texts(self, codes: Hashes) -> list[str]:
        """Return the texts of values (N,); empty for a value that no fingerprint knows."""
        place, found = find_sorted(self._text_codes, codes)
        texts = self._texts
        return [str(texts[at]) if known else "" for at, known in zip(place, found, strict=True)]

    @cached_property
    def _texts(self) -> NDArray[Any]:
        return self.words["text"].to_numpy(dtype=object)

    @cached_property
    def _text_codes(self) -> Hashes:
        return self.words["code"].to_numpy()


def version_name(manifest: dict[str, Any], fingerprints: pd.DataFrame) -> str:
    """Return the name of a bank: its last day, and a digest of training data, settings and thresholds in its manifest."""
    learned = {name: value for name, value in manifest.items() if name not in KEYS_OUTSIDE_VERSION}
    plain = json.loads(json.dumps(learned, default=str))  # as it comes back from a file
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for column in ("hash", FEEDBACK_COLUMNS[0]):
        if column in fingerprints:
            digest.update(fingerprints[column].to_numpy().tobytes())
    return f"{manifest['span'][1][:10]}-{digest.hexdigest()[:8]}"


def with_manifest_entries(bank: Bank, **entries: Any) -> Bank:
    """Return the same bank with more in its manifest, under the name that follows from it."""
    manifest = {**bank.manifest, **entries}
    return replace(bank, manifest={**manifest, "version": version_name(manifest, bank.fingerprints)})


def publish_version(
    bank: Bank, folder: Path, note: versions.VersionDecision = PUBLISH_DECISION, signer: Signer | None = None
) -> str:
    """Write a version into `folder` and serve it. Returns its name. Publishing again changes nothing."""
    manifest = write_bank(bank, folder, signer=signer)
    if signer:
        sign_bank(folder, bank.version, "served", signer, manifest)
    versions.serve_version(folder, bank.version, note)
    return bank.version


def write_bank(bank: Bank, folder: Path, signer: Signer | None = None) -> bytes:
    """Write a version beside the others, signed as learned and not served yet, and return its manifest.

    An older one of its name is replaced as a whole.
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

    Raises ValueError for a bank that was never on disk.
    """
    if bank.files is None:
        raise ValueError("a bank that was not opened has no manifest on disk")
    return bank.files.read_content(MANIFEST_FILE, MAX_BANK_MANIFEST_BYTES)


def sign_bank(folder: Path, version: str, purpose: Purpose, signer: Signer, manifest: bytes) -> None:
    """Sign a version by the manifest that was checked; a signature for the same purpose is replaced.

    The manifest on disk is not read again: if it was changed since, it has no true signature.
    """
    root = versions.version_folder(folder, version)
    try:
        _write_signature(root, root.parent, purpose, signer, manifest)
    except OSError as error:
        raise FingerprintError(f"cannot write the bank {folder}: {error.strerror or error}") from None


def _write_signature(root: Path, beside: Path, purpose: Purpose, signer: Signer, manifest: bytes) -> None:
    """Write beside the file and move it into place, so that a folder that is open elsewhere never holds half a file."""
    signed = root / signatures.SIGNATURES_FILE
    known = signed.read_bytes() if signed.exists() else b"{}"
    text = signatures.add_signature(known, purpose, signatures.sign_manifest(manifest, purpose, signer))
    private_files.replace_file(signed, lambda staged: staged.write_bytes(text), staged_in=beside)


# --- opening --------------------------------------------------------------------------------------------------------


def open_bank(
    folder: Path, options: settings.Bank = DEFAULT_OPTIONS, version: str | None = None, served: bool = True
) -> Bank:
    """Return a version of a bank, by default the served one. With `served` False it need not be signed for serving.

    Raises FingerprintError that names the file for a missing, damaged, newer, too large or unsigned one.
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
    """Read and hash a table at once: what was checked is what is read."""
    with files.open_stream(name) as stream:
        content = stream.read()
    if hashlib.sha256(content).hexdigest() != manifest["files"][name]["sha256"]:
        raise FingerprintError(_damage_message(files, name))
    return pd.read_parquet(BytesIO(content), **options)


def find_fingerprints(
    folder: Path, version: str, keys: Sequence[str], options: settings.Bank = DEFAULT_OPTIONS
) -> pd.DataFrame:
    """Return the fingerprints with one of some keys, without opening the rest of a version.

    Raises FingerprintError where the version is not kept, or its table is damaged.
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
    """Return what is wrong with a version, a sentence each."""
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
    """Yield what is wrong with the files, the cheap questions first."""
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
    """Yield tables that would expand to more than a bank may have: compressed or repeated, their values may look small."""
    file = files.root / name
    try:
        with files.open_stream(name) as stream:
            table = pq.ParquetFile(stream).metadata
        plain = sum(table.row_group(number).total_byte_size for number in range(table.num_row_groups))
    except (OSError, pa.ArrowException) as error:
        yield f"bank file {file} is no table: {error}"
        return
    expanded = max(plain, 8 * table.num_rows * table.num_columns)  # a reference each, where values repeat
    if expanded > MAX_BYTES:
        yield f"bank file {file} expands to {expanded:,} bytes, more than the {MAX_BYTES:,} that are read"


def check_bank_clock(root: Path, manifest: dict[str, Any]) -> None:
    """Raise FingerprintError if a bank's watermark lies in the future: a scorer would skip all events until then.

    The version's name vouches for the watermark.
    """
    remedy = "Train it again, or `fingerprint bank rollback` to the one before"
    latest = max(int(manifest["watermark"]), int(manifest["arrived_until"]))
    check_watermark(f"the manifest of bank {root}", latest, remedy)
    if manifest["trained_until"] > manifest["watermark"]:
        raise FingerprintError(
            f"the manifest of bank {root} was changed: it has trained_until after its watermark. {remedy}"
        )


def changed_series_settings(older: Bank, newer: Bank) -> list[str]:
    """Return the settings that say what a series counts, and differ between two banks: a phrase each."""
    then, now = (select_settings(bank.manifest["settings"], SERIES_SETTINGS) for bank in (older, newer))
    return [f"{each.name} was {each.was!r} and is {each.now!r}" for each in changed_settings(then, now)]


def check_bank_settings(bank: Bank, current: settings.Settings) -> None:
    """Raise FingerprintError if the bank was trained with other intervals or entities than these settings.

    Its series would mean nothing.
    """
    learned = select_settings(bank.manifest["settings"], SERIES_SETTINGS)
    for changed in changed_settings(learned, state_settings(current))[:1]:
        raise FingerprintError(
            f"setting {changed.name} is {changed.now!r}, the bank {bank.version} was trained with {changed.was!r}: "
            "set it back or train again (if the gate keeps that back, `fingerprint bank publish VERSION --force`)"
        )


def read_manifest(root: Path, options: settings.Bank = DEFAULT_OPTIONS) -> dict[str, Any]:
    """Return the manifest in a version's folder. Raises FingerprintError where it is none, of another format, or unsigned."""
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
            raise FingerprintError(
                f"bank {root} has format {manifest['format']}, this program reads {BANK_FORMAT}: train it again"
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
    """Raise FingerprintError where keys are set, and none of them vouches for a manifest."""
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
