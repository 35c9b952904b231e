"""A bank in memory: all fingerprints of one version, stacked, with the lookups that scoring and explanations need.

Example:
    >>> bank = open_bank(Path("bank"))                     # `registry.bank_files`: the files of a version
    >>> row, level = bank.resolve(entity, principal, frame)        # (N,) the fingerprint that judges each event
    >>> bank.value_texts(codes)
    ['s3:GetObject', 'aws-cli 2.15 linux']
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import Placement, namespace, to_device_of, to_host, unique_places
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.core import settings
from fingerprint.core.alert import LEVELS
from fingerprint.core.errors import FingerprintError
from fingerprint.estimators.autoencoder import Baseline, Weights
from fingerprint.estimators.sequence import Transitions
from fingerprint.features import encoding, peer_groups
from fingerprint.features.vocabulary import Vocabulary
from fingerprint.registry.sealing import VerifiedFolder
from fingerprint.sources.active import SOURCE
from fingerprint.state.state_settings import (
    SERIES_SETTINGS,
    changed_settings,
    select_settings,
    state_settings,
)

# Keys of a manifest that do not enter the version, which is a hash of the others. So the same history gives the same version,
# whenever it is trained, and whatever else the history had that training left out.
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
# Sections of the settings that a manifest keeps
TRAINING_SECTIONS = ("entities", "autoencoder", "spectral", "training")
ARRAY_PARTS = {"vocabulary": Vocabulary, "weights": Weights, "baseline": Baseline, "transitions": Transitions}
GENERIC_ROW = 0  # row of the generic fingerprint
PRINCIPAL_LEVEL, PEER_LEVEL = LEVELS.index("principal"), LEVELS.index("peer")
PERSON_KINDS = ("person", "federated")  # kinds of principals whose names may name a person
# Columns of `fingerprints` in banks where dispositions moved thresholds (`feedback`)
FEEDBACK_COLUMNS = ("shift", "benign", "malicious")


def account_of(principal: str) -> str:
    """Return the account that a principal's name begins with."""
    return principal.partition(":")[0]


def accounts_of(principals: pd.Series) -> pd.Series:
    """Return the account that each principal's name begins with, (N,)."""
    return principals.astype(object).map(account_of)


def people_names(people: pd.DataFrame) -> NDArray[np.object_]:
    """Return the person behind each principal of a table `people`, (P,): the name in small letters, "" for no person."""
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

    | attribute | content | |---|---| | `fingerprints` | (E rows) key, hash, level, parent, events, days, first, last, ready; row
    0 is the generic fingerprint | | `people` | (a row a principal) hash, principal, kind, role, peer | | `words` | code and text
    of a value, sorted by code | | `scorer_state` | arrays by name; `sample.codes` (R, F): codes of training rows, `holdout.loss`
    (M,): losses of held-out ones | | `files` | the folder that the bank was opened from; None if it was just trained |

    The hash of a principal, in `fingerprints` and in `people`, contains its hash bucket (`hashing`). `fingerprints` also has
    FEEDBACK_COLUMNS if dispositions moved a threshold.
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
        """Sorted hashes of the principals whose fingerprints are not ready, and the rows of these fingerprints."""
        table = self.fingerprints
        rows = np.flatnonzero((table["level"].to_numpy() == PRINCIPAL_LEVEL) & ~table["ready"].to_numpy())
        hashes = table["hash"].to_numpy(np.uint64)[rows]
        order = np.argsort(hashes)
        return hashes[order], rows[order].astype(np.int32)

    @cached_property
    def owners(self) -> tuple[Hashes, NDArray[np.object_]]:
        """Entities and principals: the sorted parts of their hashes that are the same in every bucket, and their names."""
        known = self.fingerprints[self.fingerprints["level"] <= 1]
        hashes = hashing.without_bucket(known["hash"].to_numpy(np.uint64))
        order = np.argsort(hashes)
        return hashes[order], known["key"].to_numpy(object)[order]

    @cached_property
    def shift(self) -> NDArray[np.float32]:
        """The share by which feedback moved the autoencoder's threshold of each fingerprint, (E,); 0 without feedback."""
        if FEEDBACK_COLUMNS[0] not in self.fingerprints:
            return np.zeros(len(self.fingerprints), np.float32)
        return self.fingerprints[FEEDBACK_COLUMNS[0]].to_numpy(np.float32)

    @cached_property
    def whole(self) -> NDArray[np.int32]:
        """The fingerprint of the whole principal above each entity's fingerprint, (E,); -1 for other fingerprints.

        Entities that principals share have no principal above them, so there all are -1.
        """
        level, parent = self.fingerprints["level"].to_numpy(), self.vocabulary.parent
        above = (level == 0) & (level[parent] == 1)
        return np.where(above, parent, -1).astype(np.int32)

    @cached_property
    def peers(self) -> NDArray[np.int32]:
        """The fingerprint of the peer group above each one (E,), of a peer group itself; -1 if there is none that is ready."""
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
        """Return the bank with the arrays that scoring reads moved by `placement`; tables and texts stay on the host."""
        parts = {name: getattr(self.on_host, name).on(placement) for name in ARRAY_PARTS}
        there, here = replace(self.on_host, **parts), self.on_host
        hashes, texts = here.owners
        found = {name: placement(getattr(here, name)) for name in ("shift", "whole", "peers")}
        found |= {
            "owners": (placement(hashes), texts),
            **{name: tuple(map(placement, getattr(here, name))) for name in ("_ready_rows", "_beginners")},
        }
        vars(there).update(found, on_host=here)  # fill the cached properties
        return there

    def with_lookups_built(self) -> Bank:
        """Return the bank after building its lookup tables, which otherwise happens at the first event."""
        _ = self._ready_rows, self._beginners, self.owners, self.shift, self.whole, self.peers
        _ = self._texts, self._text_codes
        _ = self._known_people, self._known_peer_group_hashes, self._people_by_name, self._accounts
        return self

    def resolve(
        self, entity: Hashes, principal: Hashes, frame: frames.Frame
    ) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
        """Return the fingerprint that judges each event and its level: entity, principal (N,) -> row (N,), level (N,).

        The finest ready fingerprint judges an event. If that is not the principal's own, but the bank has learned a little of
        the principal, its own row judges, which is backed off to the fingerprints above it; the level is still that of the finest
        ready fingerprint.

        `frame` has the columns principal, kind and role, from which the peer group of an unknown principal follows. All arguments
        lie on the device of the bank.
        """
        xp = namespace(entity)
        row = xp.zeros(len(entity), np.int32)
        level = xp.full(len(entity), len(LEVELS) - 1, np.int8)
        rest = xp.arange(len(entity))  # events without a fingerprint so far
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
        """Return the hashes of the peer groups of events at rows (M,). Groups of unknown principals are found on the host."""
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
        """The hash of each row of `people`, in their order."""
        return self.people["hash"].to_numpy()

    def same_person(self, principal: str) -> tuple[list[str], NDArray[np.int32]]:
        """Return the other known principals of the person behind a principal, and the rows of their fingerprints, busiest first.

        A person is one principal for each role.
        """
        at = self._rows_of_person(principal)
        if not len(at):
            return [], np.empty(0, np.int32)
        principals = self.people["principal"].take(at).to_numpy(object)
        other = principals != principal
        return principals[other].tolist(), self._busiest_fingerprints(at[other])

    def roles_of_person(self, principal: str) -> NDArray[np.int32]:
        """Return the rows of the fingerprints of the person behind a principal, in all roles, the busiest first."""
        return self._busiest_fingerprints(self._rows_of_person(principal))

    def _rows_of_person(self, principal: str) -> NDArray[np.intp]:
        """Return the rows of `people` of the person behind a principal; none if the principal names no person."""
        person, _ = SOURCE.person_and_access(principal)
        if not person:
            return np.empty(0, np.intp)
        hashes, rows = self._people_by_name
        name = hashing.hash_string(person.casefold())
        return rows[np.searchsorted(hashes, name) : np.searchsorted(hashes, name, side="right")]

    def _busiest_fingerprints(self, at: NDArray[np.intp]) -> NDArray[np.int32]:
        """Return the rows of the ready fingerprints of `people` at rows `at`, the busiest first."""
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
        """Return whether the logs of each account, by the hash of its name (N,), were learned.

        Principals of kind `account` do not count: they call from another account, whose logs need not be read.
        """
        _, found = find_sorted(self.on_host._accounts, to_host(account))
        known: NDArray[np.bool_] = to_device_of(found, account)
        return known

    def knows_account_of(self, principal: str) -> bool:
        """Return whether the logs of a principal's account were learned."""
        account = hashing.hash_strings(np.array([account_of(principal)], object))
        return bool(self.knows_account(account).all())

    @cached_property
    def _accounts(self) -> Hashes:
        """The hashes of the accounts of principals whose logs are read, sorted."""
        principals = self.people["principal"][(self.people["kind"] != "account").to_numpy()]
        return np.sort(hashing.hash_strings(accounts_of(principals).drop_duplicates()))

    @cached_property
    def _people_by_name(self) -> tuple[Hashes, NDArray[np.intp]]:
        """The sorted hashes of the names of persons, and their rows of `people`, (P,) each: a row for each role."""
        names = people_names(self.people)
        hashes = hashing.hash_strings(pd.Series(names, dtype=object))
        order = np.argsort(hashes, kind="stable")
        order = order[names[order] != ""]
        return hashes[order], order

    @cached_property
    def _known_peer_group_hashes(self) -> Hashes:
        """The hash of the peer group of each row of `people`."""
        return hashing.hash_strings(self.people["peer"].astype(object))

    @cached_property
    def sorted_series_owners(self) -> tuple[Hashes, Hashes, NDArray[np.bool_]]:
        """Owners of series, sorted by key, on the host: key, principal, and whether the owner is an entity, (M,) each.

        Entities that principals share are left out. They are sorted once a bank, because the scorer of each partition needs them
        at its start and when settings change.
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

    def principals_that_showed(self, feature: int, codes: Hashes) -> NDArray[np.float32]:
        """Return how many principals of the history showed each value of a feature, (N,), by its codes (N,), on the host."""
        return self.vocabulary.count_of(np.int32(GENERIC_ROW), feature, codes)

    def knows_action(self, action: Hashes) -> NDArray[np.bool_]:
        """Return whether any principal of the history called each action, (N,), by its codes (N,) on the host."""
        known: NDArray[np.bool_] = self.principals_that_showed(encoding.ACTION_COLUMN, action) > 0
        return known

    def names_stranger(self, codes: Hashes, named_by: int = 0) -> NDArray[np.bool_]:
        """Return whether each event names an account that the history did not log: codes (N, F) -> (N,).

        Nor did more than `named_by` principals of the history name it.
        """
        feature = encoding.OTHER_ACCOUNT_FEATURE
        if feature is None:
            return np.zeros(len(codes), bool)
        account = to_host(codes[:, feature])
        named = self.principals_that_showed(feature, account) > named_by
        strange: NDArray[np.bool_] = ~named & ~self.knows_account(account)
        return strange

    def value_texts(self, codes: Hashes) -> list[str]:
        """Return the texts of values by their codes (N,); empty for a value that no fingerprint knows."""
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
    """Return the name of a bank: its last day, and a digest of its manifest, its fingerprints and their moved thresholds."""
    learned = {name: value for name, value in manifest.items() if name not in KEYS_OUTSIDE_VERSION}
    plain = json.loads(json.dumps(learned, default=str))  # the types that a file would give back
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for column in ("hash", FEEDBACK_COLUMNS[0]):
        if column in fingerprints:
            digest.update(fingerprints[column].to_numpy().tobytes())
    return f"{manifest['span'][1][:10]}-{digest.hexdigest()[:8]}"


def with_manifest_entries(bank: Bank, **entries: Any) -> Bank:
    """Return the bank with further entries in its manifest, and the version name that follows from them."""
    manifest = {**bank.manifest, **entries}
    return replace(bank, manifest={**manifest, "version": version_name(manifest, bank.fingerprints)})


def changed_series_settings(older: Bank, newer: Bank) -> list[str]:
    """Return a phrase for each of SERIES_SETTINGS that differs between two banks."""
    then, now = (select_settings(bank.manifest["settings"], SERIES_SETTINGS) for bank in (older, newer))
    return [f"{each.name} was {each.was!r} and is {each.now!r}" for each in changed_settings(then, now)]


def check_bank_settings(bank: Bank, current: settings.Settings) -> None:
    """Raise FingerprintError if the bank was trained with other intervals or entities than these settings.

    The counts of its series would mean something else.
    """
    learned = select_settings(bank.manifest["settings"], SERIES_SETTINGS)
    for changed in changed_settings(learned, state_settings(current))[:1]:
        raise FingerprintError(
            f"setting {changed.name} is {changed.now!r}, the bank {bank.version} was trained with {changed.was!r}: "
            "set it back or train again (if the gate keeps that back, `fingerprint bank publish VERSION --force`)"
        )
