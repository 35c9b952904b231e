"""Votes on harmless events, by kind of principal: a gate that passes everything of one kind filters nothing there.

Example:
    >>> kinds = PrincipalKinds()
    >>> for events in history.batches():
    ...     kinds.update(events)
    >>> counts = count_votes(judged, kinds.of(judged["principal"]), harmless, ("autoencoder", "spectral"), verdict)
    >>> vote_shares(counts)["single sign-on person"]["spectral"]
    0.31

Kinds are what the log says of a principal: a person with a user of its own, one that comes by single sign-on, a service, and
roles, which are machines. A role is called CI by its name (CI_NAMES), because nothing else in a log says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import vote_column

VoteCounts = dict[str, dict[str, int]]  # kind -> "events" and each detector's votes

PERSON = "person"
SINGLE_SIGN_ON = "single sign-on person"
MACHINE = "machine"
CI = "CI"
SERVICE = "service"
OTHER = "other"
KINDS = (PERSON, SINGLE_SIGN_ON, MACHINE, CI, SERVICE, OTHER)
KIND_NAMES = {
    "user": PERSON,
    "root": PERSON,
    "person": SINGLE_SIGN_ON,
    "role": MACHINE,
    "federated": MACHINE,
    "service": SERVICE,
}
SERVICE_PATH = "service"  # call path of what a service does with its role
CI_NAMES = re.compile(
    r"(?i)(?<![a-z])(ci|cd|cicd|deploy(er|ment)?|terraform|pulumi|github|gitlab|jenkins|buildkite|circleci|codebuild|pipeline)(?![a-z])"
)
EVENTS, VERDICTS = "events", "verdicts"


class PrincipalKinds:
    """The kind of each principal of a history."""

    def __init__(self) -> None:
        self.kinds = pd.Series(dtype=object)  # by the principal's hash
        self.by_themselves: Hashes = np.empty(0, np.uint64)  # principals that made a call not as a service

    def update(self, events: pd.DataFrame) -> None:
        """Take in a chunk of events with entities."""
        by_itself = (events["call_path"] != SERVICE_PATH).to_numpy(bool)
        first = events[["principal", "kind"]].drop_duplicates("principal")
        hashes = hashing.hash_strings(first["principal"])
        names = [
            _kind_of(str(name), str(kind)) for name, kind in first.astype(object).itertuples(index=False)
        ]
        fresh = ~np.isin(hashes, self.kinds.index.to_numpy(np.uint64))
        more = pd.Series(names, index=hashes, dtype=object)[fresh]
        self.kinds = pd.concat([self.kinds, more]) if len(self.kinds) else more
        themselves = hashing.hash_strings(events.loc[by_itself, "principal"].drop_duplicates())
        self.by_themselves = np.union1d(self.by_themselves, themselves)

    def of(self, principal: Hashes) -> NDArray[np.object_]:
        """Return the kind of each principal (N,); a role that only services called with is a service."""
        distinct, inverse = np.unique(np.asarray(principal, np.uint64), return_inverse=True)
        kinds = self.kinds.reindex(distinct).fillna(OTHER).to_numpy(object, copy=True)
        kinds[~np.isin(distinct, self.by_themselves)] = SERVICE
        return kinds[inverse]


def _kind_of(name: str, kind: str) -> str:
    found = KIND_NAMES.get(kind, OTHER)
    return CI if found == MACHINE and CI_NAMES.search(name) else found


def count_votes(
    judged: pd.DataFrame,
    kinds: NDArray[np.object_],
    harmless: NDArray[np.bool_],
    detectors: Sequence[str],
    verdict: NDArray[np.bool_],
) -> VoteCounts:
    """Return how many harmless events each kind of principal has, and how many of them each detector and the quorum flag.

    `judged` has N scored events (`ScoredEventTable.to_frame`), `kinds`, `harmless` and `verdict` (N,) go with them.
    """
    columns = {
        EVENTS: np.ones(len(judged), int),
        **{name: judged[vote_column(name)].to_numpy(int) for name in detectors},
        VERDICTS: verdict.astype(int),
    }
    out = {}
    for kind in KINDS:
        of_kind = harmless & (kinds == kind)
        if of_kind.any():
            out[kind] = {name: int(column[of_kind].sum()) for name, column in columns.items()}
    return out


def vote_shares(counts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, Any]]:
    """Return the share of harmless events that is voted for, by kind and detector, and the number of events."""
    return {
        kind: {
            EVENTS: of_kind[EVENTS],
            **{name: round(count / of_kind[EVENTS], 4) for name, count in of_kind.items() if name != EVENTS},
        }
        for kind, of_kind in counts.items()
    }
