"""Novelty: the actions, networks, address ranges and regions of an alert that the bank does not know of its principal.

Example:
    >>> found = find_novelty(batch, frame, ["iam:CreateAccessKey"], explainer)
    >>> found.actions, found.networks
    (frozenset({'iam:CreateAccessKey'}), {'e1': '198.51.100.0/24'})

For a person who uses several roles, `find_elsewhere` says which of these are new at this role only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.alerting.alert_events import alert_principal
from fingerprint.alerting.explainer import Explainer
from fingerprint.alerting.impact import PROGRAM_FEATURE
from fingerprint.alerting.prevalence import NETWORK_FEATURES
from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import identity_placement
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import MANY_PRINCIPALS
from fingerprint.estimators.amounts import UsualAmounts
from fingerprint.features import encoding
from fingerprint.features.encoding import ACTION_COLUMN, FEATURE_NAMES
from fingerprint.registry.bank import PEER_LEVEL, Bank
from fingerprint.state.event_batch import EventBatch

PLACES = (*NETWORK_FEATURES, "region")
MAX_ROLES = 50  # roles of one person whose places are compared
VERSION = "version"  # of a program
PROGRAM_COLUMN, VERSION_COLUMN = (FEATURE_NAMES.index(name) for name in (PROGRAM_FEATURE, VERSION))
NETWORK_COLUMN, RANGE_COLUMN = (FEATURE_NAMES.index(name) for name in NETWORK_FEATURES)
PLACE_COLUMNS = [FEATURE_NAMES.index(name) for name in PLACES]
PARAMETERS_COLUMN = FEATURE_NAMES.index("parameters")


class Novelty(NamedTuple):
    """The parts of an alert that are new to its principal.

    - `actions`: `service:Action` that the principal never called.
    - `networks`, `regions`: by event id, the new network or region that a call came from or was made in. A region is left out if
      the principal uses new ones all the time.
    - `ranges`: ids of events from a new address range of a known network.
    - `usual_for_others`: ids of events from a new network whose address range many principals used in the history.
    - `usual_places`: ids of events from a new network whose principal uses new ones all the time: another is nothing strange.
    - `requests`: ids of events whose request has parameters that the principal never gave.

    *New* means: not in what the bank learned. A value that appeared after the training stays new until the next training, so a
    thief who comes back the next day still stands out.
    """

    actions: frozenset[str]
    networks: Mapping[str, str]
    regions: Mapping[str, str]
    ranges: frozenset[str]
    usual_for_others: frozenset[str]
    usual_places: frozenset[str]
    requests: frozenset[str]


def find_novelty(batch: EventBatch, frame: Frame, names: Sequence[str], explainer: Explainer) -> Novelty:
    """Return what is new to the principal in an alert's events; `names` (N,) are their actions."""
    key = np.column_stack(
        [
            batch.fingerprint.astype(np.uint64),
            batch.principal,
            batch.codes[:, [ACTION_COLUMN, *PLACE_COLUMNS, PARAMETERS_COLUMN]],
        ]
    )
    versions = np.asarray(frames.column_of(frame, "bank_version"), object)
    unseen = np.zeros((len(frame), 2 + len(PLACE_COLUMNS)), bool)
    usual, often = np.zeros(len(frame), bool), np.zeros((len(frame), len(PLACE_COLUMNS)), bool)
    principal = alert_principal(frame)
    for version in set(versions.tolist()):
        of_version = np.flatnonzero(versions == version)
        _, first, inverse = np.unique(key[of_version], axis=0, return_index=True, return_inverse=True)
        new = _new_to_principal(batch, of_version[first], explainer, principal)
        unseen[of_version] = new[inverse.reshape(-1)]
        usual[of_version] = _is_usual_range(batch, of_version[first], explainer)[inverse.reshape(-1)]
        often[of_version] = _often_new(batch, of_version[first], explainer)[inverse.reshape(-1)]
    new_networks = unseen[:, 1 : 1 + len(NETWORK_FEATURES)]
    named = new_networks.argmax(axis=1)  # the wider one that is new
    ids = list(map(str, frames.column_of(frame, "event_id").tolist()))
    return Novelty(
        frozenset(compress(names, unseen[:, 0])),
        _new_networks(batch, frame, new_networks),
        _new_regions(frame, unseen[:, len(PLACE_COLUMNS)] & ~often[:, -1]),
        frozenset(compress(ids, new_networks[:, -1] & ~new_networks[:, 0])),
        frozenset(compress(ids, new_networks.any(axis=1) & usual)),
        frozenset(compress(ids, new_networks.any(axis=1) & often[np.arange(len(often)), named])),
        frozenset(compress(ids, unseen[:, -1])),
    )


def _is_usual_range(batch: EventBatch, rows: NDArray[np.intp], explainer: Explainer) -> NDArray[np.bool_]:
    """Return a mask (R,) of the events from an address range that many principals of the history used.

    All events at `rows` (R,) have one bank version.
    """
    bank, _ = explainer.bank_and_rows(batch, rows)
    used = bank.principals_that_showed(RANGE_COLUMN, batch.codes[rows, RANGE_COLUMN])
    return used > MANY_PRINCIPALS


def _often_new(batch: EventBatch, rows: NDArray[np.intp], explainer: Explainer) -> NDArray[np.bool_]:
    """Return for each event and kind of place (R, PLACE_COLUMNS) whether its principal uses new ones all the time.

    All events at `rows` (R,) have one bank version. False without an own fingerprint: a habit of the peers need not be one's own.
    """
    bank, at = explainer.bank_and_rows(batch, rows)
    whole = np.where(bank.whole[at] >= 0, bank.whole[at], at)
    known = batch.level[rows] < PEER_LEVEL
    often: NDArray[np.bool_] = bank.vocabulary.novelty_is_usual(whole)[:, PLACE_COLUMNS] & known[:, None]
    return often


def _new_regions(frame: Frame, unseen: NDArray[np.bool_]) -> dict[str, str]:
    """Return by event id the region of the events in a new region; `unseen` (N,) is the mask of these."""
    ids, regions = (
        np.asarray(frames.column_of(frame, name), object)[unseen].tolist() for name in ("event_id", "region")
    )
    return {str(name): frames.text_or_empty(region) for name, region in zip(ids, regions, strict=True)}


def _new_networks(batch: EventBatch, frame: Frame, unseen: NDArray[np.bool_]) -> dict[str, str]:
    """Return by event id the new network of an event: the widest of NETWORK_FEATURES that is new, by `unseen` (N, networks)."""
    rows = np.flatnonzero(unseen.any(axis=1))
    if not len(rows):
        return {}
    place = unseen[rows].argmax(axis=1)
    codes = batch.codes[rows, np.array(PLACE_COLUMNS)[place]]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    texts = encoding.FEATURE_SET.texts(frames.select_rows(frame, rows[first]), NETWORK_FEATURES)
    named = [
        frames.text_or_empty(texts[NETWORK_FEATURES[of]][at]) for at, of in enumerate(place[first].tolist())
    ]
    ids = np.asarray(frames.column_of(frame, "event_id"), object)[rows]
    return {str(name): named[at] for name, at in zip(ids, inverse.reshape(-1).tolist(), strict=True)}


def feature_texts(batch: EventBatch, frame: Frame, name: str) -> list[str]:
    """Return the text of each event's value of a feature (N,), such as the name of its program; empty without a value."""
    codes = batch.codes[:, FEATURE_NAMES.index(name)]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    texts = encoding.FEATURE_SET.texts(frames.select_rows(frame, first), (name,))[name]
    return [frames.text_or_empty(texts[at]) for at in inverse.reshape(-1).tolist()]


def _new_to_principal(
    batch: EventBatch, rows: NDArray[np.intp], explainer: Explainer, principal: str
) -> NDArray[np.bool_]:
    """Return whether action, places and parameters of events are new to their principal, (R, 1 + places + 1).

    All events at `rows` (R,) have one bank version. A place belongs to the principal, whichever service it was used with. Places
    of a principal without a fingerprint of its own are compared with those of its peers, and those of a person also with the
    places of the same person at other roles.
    """
    bank, at = explainer.bank_and_rows(batch, rows)
    codes, stranger = batch.codes[rows], batch.level[rows] >= PEER_LEVEL
    whole = np.where(bank.whole[at] >= 0, bank.whole[at], at)
    unseen, unseen_anywhere = (bank.vocabulary.observed_share(each, codes) == 0 for each in (at, whole))
    action, places = unseen[:, ACTION_COLUMN], (unseen & unseen_anywhere)[:, PLACE_COLUMNS]
    parameters = (unseen & unseen_anywhere)[:, PARAMETERS_COLUMN]
    if stranger.any():
        places[stranger] &= _new_to_person(codes[stranger], bank.same_person(principal)[1], bank)
        known = UsualAmounts.from_arrays(bank.scorer_state, identity_placement)
        action[stranger] = known.is_new(batch.principal[rows], codes[:, ACTION_COLUMN])[stranger]
    columns = [ACTION_COLUMN, *PLACE_COLUMNS, PARAMETERS_COLUMN]
    silent = np.array([encoding.CODES_WITHOUT_EVIDENCE.get(at, hashing.MISSING) for at in columns], np.uint64)
    says = (codes[:, columns] != hashing.MISSING) & (codes[:, columns] != silent)
    return np.column_stack([action, places, parameters]) & says


def _new_to_person(codes: Hashes, others: NDArray[np.int32], bank: Bank) -> NDArray[np.bool_]:
    """Return a mask (R, places) of the places of events that a person used at no other role.

    `codes` (R, F) are of the events, `others` (K,) are the person's fingerprints at other roles.
    """
    if not len(others):
        return np.ones((len(codes), len(PLACE_COLUMNS)), bool)
    at, each = np.tile(others[:MAX_ROLES], len(codes)), np.repeat(codes, len(others[:MAX_ROLES]), axis=0)
    shares = bank.vocabulary.observed_share(at, each)[:, PLACE_COLUMNS]
    new: NDArray[np.bool_] = (shares.reshape(len(codes), -1, len(PLACE_COLUMNS)) == 0).all(axis=1)
    return new


class Elsewhere(NamedTuple):
    """The part of an alert that is new at this role only: its person did the same at another role."""

    actions: frozenset[str] = frozenset()  # `service:Action`
    networks: frozenset[str] = frozenset()  # of events, by id
    tools: frozenset[str] = frozenset()  # programs and versions


def find_elsewhere(
    batch: EventBatch, frame: Frame, names: Sequence[str], ranges: Collection[str], explainer: Explainer
) -> Elsewhere:
    """Return the actions, networks and tools of an alert that its person used at other roles; `names` (N,) are its actions.

    `ranges` are the ids of events from a new address range of a known network: they are compared by range, others by network.
    """
    ids = [*map(str, frames.column_of(frame, "event_id").tolist())]
    versions = np.asarray(frames.column_of(frame, "bank_version"), object)
    columns = [ACTION_COLUMN, NETWORK_COLUMN, RANGE_COLUMN, PROGRAM_COLUMN, VERSION_COLUMN]
    known = np.zeros((len(frame), len(columns)), bool)
    for version in set(versions.tolist()):
        rows = np.flatnonzero(versions == version)
        bank, _ = explainer.bank_and_rows(batch, rows)
        others = bank.same_person(alert_principal(frame))[1][:MAX_ROLES]
        for place, column in enumerate(columns if len(others) else []):
            known[rows, place] = _used_at(bank, others, column, batch.codes[rows, column])
    tools = {
        text
        for place, name in ((3, PROGRAM_FEATURE), (4, VERSION))
        if known[:, place].any()
        for text in compress(feature_texts(batch, frame, name), known[:, place])
    }
    in_range = np.array([name in ranges for name in ids], bool)
    return Elsewhere(
        frozenset(compress(names, known[:, 0])),
        frozenset(compress(ids, np.where(in_range, known[:, 2], known[:, 1]))),
        frozenset(tools),
    )


def _used_at(bank: Bank, fingerprints: NDArray[np.int32], column: int, codes: Hashes) -> NDArray[np.bool_]:
    """Return a mask (R,) of the values of a feature that any of the fingerprints (K,) was seen with."""
    distinct, inverse = np.unique(codes, return_inverse=True)
    each, of = np.repeat(fingerprints, len(distinct)), np.tile(distinct, len(fingerprints))
    counts = bank.vocabulary.count_of(each, column, of).reshape(len(fingerprints), -1)
    used: NDArray[np.bool_] = np.any(counts > 0, axis=0)
    return used[inverse.reshape(-1)]
