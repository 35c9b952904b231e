"""Known attacks as if done by a bank's own principals: the same question put to two banks.

Example:
    >>> probe = of_bank(served, settings)            # who acts, and what they do: by seed, the same for every bank asked
    >>> [(strangest(bank, probe, settings.autoencoder) >= 3.2).mean() for bank in (served, trained)]
    [0.97, 0.96]

No labelled set knows a customer's entities. So real attack calls (Stratus Red Team, data/real/invictus_stratus) are put
into the hands of principals that the bank says are ready. Half of them are robbed: the attacker's own program, network and
credentials. Half are mimicked: all of that is what the victim uses most. Clock and memory are always the victim's own, and
an attack counts as found if the autoencoder votes on any of its calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.core import settings
from fingerprint.estimators import autoencoder, tail_calibration
from fingerprint.features import encoding
from fingerprint.features.vocabulary import Floats
from fingerprint.registry.bank import Bank
from fingerprint.sources.cloudtrail import envelopes, samples
from fingerprint.sources.cloudtrail.identity import add_entities, escape
from fingerprint.sources.flatten import flatten
from fingerprint.state.interval_surprise import Company

SET = "real/invictus_stratus"
CALLS = 8  # of one technique at most: some repeat theirs twenty times
MODE = encoding.NAMES.index("mode")
OWN_CLOCK = encoding.IS_BIN & (np.arange(len(encoding.NAMES)) != MODE)  # (F,) the victim's own, whoever acts
REMEMBERED = np.array([feature.remembered for feature in encoding.FEATURES])  # (F,)
MIMICKED = OWN_CLOCK | np.isin(
    encoding.NAMES, ("program", "version", "network", "address", "region", "credentials", "target")
)


@dataclass(frozen=True)
class Probe:
    """N calls: `codes` (N, F), `entity`, `principal` (N,) as hashes, `attack` (N,) which of them belong together, `mimic` (N,);
    `frame` says who the principals are (principal, kind, role)."""

    codes: Hashes
    entity: Hashes
    principal: Hashes
    attack: NDArray[np.int32]
    mimic: NDArray[np.bool_]
    frame: pd.DataFrame


def of_bank(bank: Bank, options: settings.Settings) -> Probe:
    """Attacks by a sample of the principals that are ready; nobody's where none is."""
    calls, technique, codes = _attacks()
    at = _victims(bank, options.gate)
    who = bank.people.set_index("hash").loc[bank.fingerprints["hash"].to_numpy()[at]].reset_index()
    victim, call = (index.ravel() for index in np.indices((len(at), len(calls))))
    mimic = victim % 2 == 1
    services = calls["service"].astype(object).to_numpy()[call]
    people = who["principal"].to_numpy(dtype=object)[victim]
    texts = [_entity(*pair, options.entities) for pair in zip(people, services, strict=True)]
    return Probe(
        _in_their_hands(codes[call], bank.vocabulary.codes[at][:, :, 1][victim], mimic),
        hashing.of(pd.Series(texts, dtype=object)),
        who["hash"].to_numpy(np.uint64)[victim],
        (victim * (technique.max() + 1) + technique[call]).astype(np.int32),
        mimic,
        who[["principal", "kind", "role"]].iloc[victim].reset_index(drop=True),
    )


def of_cases(bank: Bank, cases: Mapping[str, Sequence[bytes]], options: settings.Settings) -> Probe | None:
    """Attacks that analysts confirmed, as they were: by alert, the records of its events. What only a ledger remembers is as
    usual for who acted, by `bank`. Records that cannot be read are left out; None where nothing is left."""
    lines = [record for records in cases.values() for record in records]
    case = np.repeat(np.arange(len(cases)), [len(records) for records in cases.values()])
    events = add_entities(flatten(envelopes.split_lines(lines)).events, options.entities)
    if not len(events):
        return None
    principal, entity = hashing.homed(events["principal"]), hashing.of(events["entity"])
    at, _ = bank.resolve(entity, principal, events)
    return Probe(
        _as_usual(encoding.encode(events), bank.vocabulary.codes[at][:, :, 1]),
        entity,
        principal,
        case[events["row"].to_numpy()].astype(np.int32),
        np.zeros(len(events), bool),
        events[["principal", "kind", "role"]],
    )


def strangest(bank: Bank, probe: Probe, options: settings.Autoencoder) -> Floats:
    """The z of each attack's strangest call (A,), in the order of their numbers, as scoring would tell it."""
    fingerprint, _ = bank.resolve(probe.entity, probe.principal, probe.frame)
    whole = bank.whole[fingerprint]
    surprise = autoencoder.news(
        _surprise(bank, fingerprint, probe.codes),
        whole,
        lambda odd: _surprise(bank, whole[odd], probe.codes[odd]),
    )
    company = Company()
    company.add(probe.principal, probe.attack, probe.codes, surprise)
    where = (probe.principal, probe.attack)
    excess = autoencoder.excess(surprise, company.of(*where), company.at_home(*where), options)
    z = tail_calibration.z_of(excess, bank.baseline, fingerprint) / (1 + bank.shift[fingerprint])
    number, of = np.unique(probe.attack, return_inverse=True)
    out = np.full(len(number), -np.inf, np.float32)
    np.maximum.at(out, of, z)
    return out


def _surprise(bank: Bank, fingerprint: NDArray[np.int32], codes: Hashes) -> Floats:
    loss, _ = autoencoder.losses(bank.vocabulary, bank.weights, fingerprint, codes)
    return autoencoder.surprises(loss, bank.baseline.center, fingerprint)


def _victims(bank: Bank, options: settings.Gate) -> NDArray[np.intp]:
    """Rows of ready principals, drawn by seed."""
    stack = bank.fingerprints
    ready = np.flatnonzero((stack["level"] == 1) & stack["ready"])
    random = np.random.default_rng(options.seed)
    return np.sort(random.permutation(ready)[: options.victims])


def _entity(principal: str, service: str, options: settings.Entities) -> str:
    principal = "*" if options.granularity == "service" else principal
    service = "*" if options.granularity == "principal" else escape(service)
    return f"{principal}|{service}|direct"


def _in_their_hands(codes: Hashes, usual: Hashes, mimic: NDArray[np.bool_]) -> Hashes:
    """Calls (N, F) with the values of their victims (N, F) where the victim's are kept; 0 in `usual` is none."""
    theirs = np.where(mimic[:, None], MIMICKED, OWN_CLOCK) & (usual > 0)
    return np.where(theirs, usual, codes)


def _as_usual(codes: Hashes, usual: Hashes) -> Hashes:
    """Calls (N, F) with what their ledger would have remembered replaced by what is usual (N, F); 0 in `usual` is none."""
    return np.where(REMEMBERED & (usual > 0), usual, codes)


@lru_cache(1)
def _attacks() -> tuple[pd.DataFrame, NDArray[np.intp], Hashes]:
    """The labelled calls, at most CALLS of a technique: events (C rows), number of the technique (C,), codes (C, F)."""
    labels = samples.labels(SET)
    technique = {name: each["technique"] for name, each in labels.items() if each["label"] == "attack"}
    lines = [json.dumps(record).encode() for record in samples.records(SET) if record["eventID"] in technique]
    events = add_entities(flatten(envelopes.split_lines(lines)).events, settings.Entities())
    of_each = events["event_id"].astype(object).map(technique)
    events = events[of_each.groupby(of_each).cumcount() < CALLS].reset_index(drop=True)
    codes = encoding.encode(events)
    number = pd.factorize(events["event_id"].astype(object).map(technique), sort=True)[0]
    return events, number, codes


def summary(probe: Probe, found_: NDArray[np.bool_]) -> dict[str, Any]:
    """How many attacks there are and how many were found, robbed and mimicked."""
    number, first = np.unique(probe.attack, return_index=True)
    mimic = probe.mimic[first]
    return {
        "attacks": len(number),
        "found": int(found_.sum()),
        "robbed": [int(found_[~mimic].sum()), int((~mimic).sum())],
        "mimicked": [int(found_[mimic].sum()), int(mimic.sum())],
    }
