"""Compiled losses against those by functions of arrays: drawn banks and events, known and unknown, with nets and without."""

from __future__ import annotations

import threading
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from fingerprint.compute import mapped_arrays
from fingerprint.compute.arrays import Ints
from fingerprint.compute.hashing import Hashes
from fingerprint.estimators import autoencoder, compiled_losses
from fingerprint.estimators.autoencoder import FREE_FEATURES, Weights
from fingerprint.features.encoding import CODES_WITHOUT_EVIDENCE, FEATURES
from fingerprint.features.vocabulary import Vocabulary, build_vocabulary, count_presences

F, K, H = len(FEATURES), 6, 4
PARENT = np.array([-1, 0, 1, 1, 0], np.int32)  # generic, a peer group, two principals of it, and one without
CLOSE = 1e-5  # nats


def drawn_bank(random: np.random.Generator) -> tuple[Vocabulary, Weights]:
    """Five fingerprints that have seen what they share and what they do not; the last one has no net."""
    rows = 400
    owner, unit = random.integers(0, 5, rows).astype(np.int32), np.arange(rows, dtype=np.uint64)
    codes = (random.zipf(1.6, (rows, F)) + 50 * (owner[:, None] % 2)).astype(np.uint64)
    levels = [count_presences(np.zeros(rows, np.int32), unit, codes)]
    for members in ([1], [2, 3, 4]):
        own = np.isin(owner, members)
        levels.append(count_presences(owner[own], unit[own], codes[own]))
    known = build_vocabulary(levels, PARENT, K)
    parts = [
        random.normal(0, 1, shape).astype(np.float16)
        for shape in ((4, F, K, H), (4, H), (4, len(FREE_FEATURES), K, H))
    ]
    return known, Weights(*parts, row=np.array([0, 1, 2, 3, -1], np.int32))


def drawn_events(random: np.random.Generator, count: int) -> tuple[Ints, Hashes]:
    """Usual values, values that no one has shown, codes that are no evidence, and each row several times."""
    codes = random.zipf(1.6, (count, F)).astype(np.uint64)
    codes[random.random(codes.shape) < 0.1] = 2**64 - 3
    for feature, silent in CODES_WITHOUT_EVIDENCE.items():
        codes[random.random(count) < 0.3, feature] = silent
    again = random.integers(0, count, count)
    return random.integers(0, 5, count).astype(np.int32)[again], codes[again]


@pytest.mark.parametrize("seed", range(5))
def test_compiled_losses_are_those_of_the_array_functions(seed: int) -> None:
    random = np.random.default_rng(seed)
    known, weights = drawn_bank(random)
    fingerprint, codes = drawn_events(random, 300)
    found, wanted = (
        measure(known, weights, fingerprint, codes)
        for measure in (autoencoder.feature_losses, autoencoder.array_losses)
    )
    np.testing.assert_allclose(found[0], wanted[0], atol=CLOSE)
    np.testing.assert_array_equal(found[1], wanted[1])
    assert 0 < found[1].mean() < 1


def test_without_nets_what_is_looked_up_is_the_same_number() -> None:
    random = np.random.default_rng(0)
    known, weights = drawn_bank(random)
    counted = replace(weights, row=np.full(5, -1, np.int32))
    fingerprint, codes = drawn_events(random, 200)
    found, wanted = (
        measure(known, counted, fingerprint, codes)[0]
        for measure in (autoencoder.feature_losses, autoencoder.array_losses)
    )
    bins = autoencoder.BIN_FEATURES
    np.testing.assert_array_equal(np.delete(found, bins, 1), np.delete(wanted, bins, 1))
    np.testing.assert_allclose(found[:, bins], wanted[:, bins], atol=CLOSE)


def test_where_a_batch_is_cut_changes_no_bit_and_of_nothing_there_is_nothing() -> None:
    random = np.random.default_rng(1)
    known, weights = drawn_bank(random)
    fingerprint, codes = drawn_events(random, 60)
    whole = autoencoder.feature_losses(known, weights, fingerprint, codes)[0]
    for row in range(60):
        one = slice(row, row + 1)
        alone = autoencoder.feature_losses(known, weights, fingerprint[one], codes[one])[0]
        np.testing.assert_array_equal(alone, whole[one])
    assert autoencoder.feature_losses(known, weights, fingerprint[:0], codes[:0])[0].shape == (0, F)


def test_a_thread_that_measures_one_half_of_many_rows_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    known, weights = drawn_bank(random)
    fingerprint, codes = drawn_events(random, 301)
    alone = autoencoder.feature_losses(known, weights, fingerprint, codes)
    monkeypatch.setattr(compiled_losses, "MIN_THREAD_ROWS", 1)
    began: list[str] = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: (began.append(self.name), start(self))[1])
    beside = autoencoder.feature_losses(known, weights, fingerprint, codes)
    assert len(began) == 1
    for one, other in zip(alone, beside, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_bank_that_is_mapped_and_codes_in_columns_are_measured_alike(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    known, weights = drawn_bank(random)
    fingerprint, codes = drawn_events(random, 50)
    arrays = {each.name: getattr(known, each.name) for each in fields(Vocabulary)}
    mapped_arrays.write_arrays(arrays, tmp_path, "bank", 1 << 20)
    mapped = Vocabulary(**mapped_arrays.open_arrays(tmp_path, "bank"))
    found = autoencoder.feature_losses(mapped, weights, fingerprint, np.asfortranarray(codes))[0]
    np.testing.assert_array_equal(found, autoencoder.feature_losses(known, weights, fingerprint, codes)[0])
