"""Attack injection: known attacks in the name of a bank's own principals, to measure any bank by the same attacks.

Example:
    >>> attacks = inject_known_attacks(served, settings)        # victims are drawn by seed, so every bank gets the same attacks
    >>> [(attack_scores(bank, attacks) >= 3.2).mean() for bank in (served, trained)]
    [0.97, 0.96]

No labelled data set has a customer's entities. So the attack calls of the log source (`LogSource.known_attacks`) are injected as
calls of ready principals of the bank. Half of the victims are *robbed*: the calls have the attacker's own program, network and
credentials. Half are *mimicked*: the calls have the values that the victim uses most. Times and history are always the victim's
own. An attack counts as found if the autoencoder votes on any of its calls.

The other two detectors measure no single call, so they get attacks of their own in the names of the same victims:

    >>> chain_scores(bank, attacks)             # the same calls, one a second after the other: the sequence detector's z
    >>> burst_scores(bank, settings)            # one hour of far more calls than ever: the spectral detector's z
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Floats, identity_placement, occurrence_index
from fingerprint.compute.hashing import Hashes
from fingerprint.core import settings
from fingerprint.detection.detectors.spectral import EVENT_CHANNEL, Bursts, channel_place
from fingerprint.estimators import autoencoder, sequence, surge_tails, tail_calibration
from fingerprint.estimators.sequence import SeenActions
from fingerprint.estimators.surge_tails import SurgeTails
from fingerprint.features import encoding
from fingerprint.features.encoding import ACTION_COLUMN
from fingerprint.registry.bank import Bank
from fingerprint.sources.active import SOURCE
from fingerprint.sources.entities import add_entity_columns, entity_key
from fingerprint.sources.flatten import flatten
from fingerprint.state import partitioning
from fingerprint.state.interval_surprise import IntervalSurprise
from fingerprint.state.scorer_state import ScorerState

ATTACKED_PRINCIPALS = 40  # victims
SEED = 0  # draws the victims
CALLS_PER_TECHNIQUE = 8  # at most; some techniques repeat theirs twenty times
SECONDS_BETWEEN_ATTACKS = 1000  # longer than a context, so that no attack explains another
BURST_FACTOR, MIN_BURST_CALLS = 20.0, 200.0  # times the calls of the principal's busiest interval, at least
PRINCIPAL_EVENTS = int(channel_place(np.array([EVENT_CHANNEL]), np.array([False]))[0])  # place of the channel
MODE_COLUMN = encoding.FEATURE_NAMES.index("mode")
# (F,): features that always have the victim's own values
TIME_FEATURES = encoding.IS_BIN & (np.arange(len(encoding.FEATURE_NAMES)) != MODE_COLUMN)
HISTORY_FEATURES = np.array([feature.is_stateful for feature in encoding.FEATURES])  # (F,)
MIMICKED_FEATURES = TIME_FEATURES | np.isin(
    encoding.FEATURE_NAMES,
    ("resource", "program", "version", "network", "address", "region", "credentials", "target"),
)


@dataclass(frozen=True)
class InjectedAttacks:
    """N injected calls.

    `codes` (N, F); `entity` and `principal` (N,) are hashes; `attack` (N,) is the number of the attack that a call belongs to;
    `mimic` (N,) is True for mimicked victims; `frame` has the columns principal, kind and role.
    """

    codes: Hashes
    entity: Hashes
    principal: Hashes
    attack: NDArray[np.int32]
    mimic: NDArray[np.bool_]
    frame: pd.DataFrame


def inject_known_attacks(bank: Bank, options: settings.Settings) -> InjectedAttacks:
    """Return known attacks in the name of a sample of the ready principals; none if no principal is ready."""
    calls, technique, codes = _known_attack_calls()
    at = _sample_victims(bank)
    who = bank.people.set_index("hash").loc[bank.fingerprints["hash"].to_numpy()[at]].reset_index()
    victim, call = (index.ravel() for index in np.indices((len(at), len(calls))))
    mimic = victim % 2 == 1
    services = calls["service"].astype(object).to_numpy()[call]
    people = who["principal"].to_numpy(dtype=object)[victim]
    texts = [entity_key(*pair, "direct", options.entities) for pair in zip(people, services, strict=True)]
    return InjectedAttacks(
        _with_victim_values(codes[call], bank.vocabulary.codes[at][:, :, 1][victim], mimic),
        hashing.hash_strings(pd.Series(texts, dtype=object)),
        who["hash"].to_numpy(np.uint64)[victim],
        (victim * (technique.max(initial=-1) + 1) + technique[call]).astype(np.int32),
        mimic,
        who[["principal", "kind", "role"]].iloc[victim].reset_index(drop=True),
    )


def inject_confirmed_attacks(
    bank: Bank, cases: Mapping[str, Sequence[bytes]], options: settings.Settings
) -> InjectedAttacks | None:
    """Return the attacks that analysts confirmed; `cases` has the records of their events by alert.

    Features that depend on history get the usual values of `bank`. Records that cannot be read are left out; None if none is
    left.
    """
    lines = [record for records in cases.values() for record in records]
    case = np.repeat(np.arange(len(cases)), [len(records) for records in cases.values()])
    events = add_entity_columns(flatten(SOURCE.split_lines(lines)).events, options.entities)
    if not len(events):
        return None
    principal, entity = hashing.hash_with_bucket(events["principal"]), hashing.hash_strings(events["entity"])
    at, _ = bank.resolve(entity, principal, events)
    return InjectedAttacks(
        _with_usual_history(encoding.FEATURE_SET.encode(events), bank.vocabulary.codes[at][:, :, 1]),
        entity,
        principal,
        case[events["row"].to_numpy()].astype(np.int32),
        np.zeros(len(events), bool),
        events[["principal", "kind", "role"]],
    )


def attack_scores(bank: Bank, attacks: InjectedAttacks) -> Floats:
    """Return the z of each attack's strangest call (A,), by attack number, as scoring computes it."""
    fingerprint, _ = bank.resolve(attacks.entity, attacks.principal, attacks.frame)
    whole = bank.whole[fingerprint]
    surprise = autoencoder.novel_to_principal(
        _feature_surprise(bank, fingerprint, attacks.codes),
        whole,
        lambda odd: _feature_surprise(bank, whole[odd], attacks.codes[odd]),
    )
    together = IntervalSurprise()
    together.add(attacks.principal, attacks.attack, attacks.codes, surprise)
    where = (attacks.principal, attacks.attack)
    # The nats of harm (`estimators.harm`) are left out: they would hide that a bank has learned an attack.
    nats = autoencoder.event_nats(surprise, together.total(*where), together.from_usual_place(*where))
    excess = nats.excess(bank.baseline.interval_tail[fingerprint])
    z = tail_calibration.excess_to_z(excess, bank.baseline, fingerprint) / (1 + bank.shift[fingerprint])
    return _strongest_per_attack(attacks, z)


def chain_scores(bank: Bank, attacks: InjectedAttacks) -> Floats:
    """Return the sequence detector's z of each attack's strangest call (A,), by attack number; calls are a second apart."""
    second = attacks.attack.astype(np.int64) * SECONDS_BETWEEN_ATTACKS + occurrence_index(attacks.attack)
    done = SeenActions(attacks.principal, second, attacks.codes[:, ACTION_COLUMN])
    nats, _ = sequence.surprise_of_actions(bank.transitions, done, done)
    kind = hashing.hash_strings(attacks.frame["kind"].astype(object))
    return _strongest_per_attack(attacks, sequence.z_of_surprise(bank.transitions, nats, kind))


def burst_scores(bank: Bank, options: settings.Settings) -> Floats:
    """Return the spectral detector's z of an interval with far more calls than ever, for each victim (V,).

    The calls are added to the victim's own in the interval that is open at the end of the history. NaN while a series warms up.
    """
    victims = bank.fingerprints["hash"].to_numpy(np.uint64)[_sample_victims(bank)]
    series = ScorerState.from_arrays(options, _state_of(bank, victims)).series
    keys = hashing.combine(victims, EVENT_CHANNEL)
    row, end = series.find_rows(keys), bank.manifest["watermark"] // options.spectral.interval_seconds
    interval = np.full(len(row), end, np.int32)
    count, expected, spread = series.residuals(row, interval)
    start = end - options.spectral.history_days * series.intervals_per_day
    busiest = series.dense_counts(row, start, end + 1).max(axis=1, initial=0)
    more = np.maximum(BURST_FACTOR * busiest, MIN_BURST_CALLS).astype(np.float32)
    usual = Bursts.from_arrays(bank.scorer_state, identity_placement).usual(keys)
    surge = np.full((len(row), surge_tails.CHANNELS), np.nan, np.float32)
    surge[:, PRINCIPAL_EVENTS] = surge_tails.log_surge(count + more, expected, spread, usual)
    kind = hashing.hash_strings(bank.people.set_index("hash").loc[victims, "kind"].astype(object))
    tails = SurgeTails.from_arrays(bank.scorer_state, identity_placement)
    return tails.z(tails.rows(victims, kind), surge)


def _state_of(bank: Bank, principals: Hashes) -> dict[str, NDArray[Any]]:
    """Return the part of a bank's scorer state that has these principals, by their hash buckets."""
    buckets = np.zeros(hashing.BUCKETS, bool)
    buckets[hashing.bucket_of(principals)] = True
    return partitioning.select_buckets(bank.scorer_state, buckets)


def _strongest_per_attack(attacks: InjectedAttacks, z: Floats) -> Floats:
    """Return the largest z of each attack (A,), by attack number, from the z of its calls (N,)."""
    number, of = np.unique(attacks.attack, return_inverse=True)
    out = np.full(len(number), -np.inf, np.float32)
    np.maximum.at(out, of, z)
    return out


def _feature_surprise(bank: Bank, fingerprint: NDArray[np.int32], codes: Hashes) -> Floats:
    loss, _ = autoencoder.feature_losses(bank.vocabulary, bank.weights, fingerprint, codes)
    return autoencoder.surprise_per_feature(loss, bank.baseline.center, fingerprint)


def _sample_victims(bank: Bank) -> NDArray[np.intp]:
    """Return the rows of at most ATTACKED_PRINCIPALS ready principals, drawn by seed."""
    fingerprints = bank.fingerprints
    ready = np.flatnonzero((fingerprints["level"] == 1) & fingerprints["ready"])
    random = np.random.default_rng(SEED)
    return np.sort(random.permutation(ready)[:ATTACKED_PRINCIPALS])


def _with_victim_values(codes: Hashes, usual: Hashes, mimic: NDArray[np.bool_]) -> Hashes:
    """Return calls (N, F) with the victims' `usual` values (N, F) in the features that stay theirs; 0 in `usual` is no value."""
    theirs = np.where(mimic[:, None], MIMICKED_FEATURES, TIME_FEATURES) & (usual > 0)
    return np.where(theirs, usual, codes)


def _with_usual_history(codes: Hashes, usual: Hashes) -> Hashes:
    """Return calls (N, F) with the `usual` values (N, F) in the features that depend on history; 0 in `usual` is no value."""
    return np.where(HISTORY_FEATURES & (usual > 0), usual, codes)


@lru_cache(1)
def _known_attack_calls() -> tuple[pd.DataFrame, NDArray[np.intp], Hashes]:
    """Return the known attack calls, at most CALLS_PER_TECHNIQUE of each: events (C rows), technique (C,), codes (C, F)."""
    attacks = SOURCE.known_attacks()
    records = SOURCE.split_lines([record for _, record in attacks])
    events = add_entity_columns(flatten(records).events, settings.Entities())
    technique = pd.Series([attacks[row][0] for row in events["row"]], events.index, dtype=object)
    kept = technique.groupby(technique).cumcount() < CALLS_PER_TECHNIQUE
    events = events[kept].reset_index(drop=True)
    return events, pd.factorize(technique[kept], sort=True)[0], encoding.FEATURE_SET.encode(events)


def summarise_attacks(attacks: InjectedAttacks, found: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the number of attacks and of those found, and [found, all] of the robbed and of the mimicked ones."""
    number, first = np.unique(attacks.attack, return_index=True)
    mimic = attacks.mimic[first]
    return {
        "attacks": len(number),
        "found": int(found.sum()),
        "robbed": [int(found[~mimic].sum()), int((~mimic).sum())],
        "mimicked": [int(found[mimic].sum()), int(mimic.sum())],
    }
