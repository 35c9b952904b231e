"""What anyone who measures losses does. A test class gives `losses`: against `bank`, that of the small organisation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.inference import Inference
from fingerprint.estimators import autoencoder
from fingerprint.registry.bank import Bank

CLOSE = 1e-4  # nats
UNKNOWN = np.uint64(12345)  # a code that no one has


def rows_of(bank: Bank, most: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """What was seen in training, a fifth of it at another fingerprint, and some values that no one knows."""
    random = np.random.default_rng(0)
    fingerprint = bank.scorer_state["sample.fingerprint"][:most].astype(np.int32)
    codes = np.array(bank.scorer_state["sample.codes"][:most])
    stray = random.random(len(fingerprint)) < 0.2
    fingerprint = np.where(stray, random.integers(0, len(bank.fingerprints), len(stray)), fingerprint)
    codes[random.random(codes.shape) < 0.05] = UNKNOWN
    return fingerprint.astype(np.int32), codes


class LossesContract:
    """Run by each of tests/system/test_triton.py."""

    def test_every_row_has_the_losses_that_it_has_by_itself(self, losses: Inference, bank: Bank) -> None:
        fingerprint, codes = rows_of(bank, 50)
        loss, known = losses.losses(fingerprint, codes)
        for row in range(len(fingerprint)):
            alone = slice(row, row + 1)
            wanted = autoencoder.feature_losses(
                bank.vocabulary, bank.weights, fingerprint[alone], codes[alone]
            )
            np.testing.assert_allclose(loss[alone], wanted[0], atol=CLOSE)
            np.testing.assert_array_equal(known[alone], wanted[1])

    def test_many_rows_are_answered_in_their_order(self, losses: Inference, bank: Bank) -> None:
        fingerprint, codes = rows_of(bank)
        loss, known = losses.losses(fingerprint, codes)
        wanted = autoencoder.feature_losses(bank.vocabulary, bank.weights, fingerprint, codes)
        assert (loss.dtype, known.dtype, loss.shape) == (np.float32, np.bool_, codes.shape)
        np.testing.assert_allclose(loss, wanted[0], atol=CLOSE)
        np.testing.assert_array_equal(known, wanted[1])
        assert 0 < known.mean() < 1

    def test_where_the_rows_are_cut_changes_nothing(self, losses: Inference, bank: Bank) -> None:
        fingerprint, codes = rows_of(bank)
        whole, _ = losses.losses(fingerprint, codes)
        cuts = [0, 1, 7, 1500, len(codes)]
        parts = [losses.losses(fingerprint[a:b], codes[a:b])[0] for a, b in pairwise(cuts)]
        np.testing.assert_allclose(np.concatenate(parts), whole, atol=CLOSE)

    def test_to_no_question_there_is_no_answer(self, losses: Inference, bank: Bank) -> None:
        loss, known = losses.losses(
            np.empty(0, np.int32), np.empty((0, rows_of(bank)[1].shape[1]), np.uint64)
        )
        assert loss.shape == known.shape == (0, rows_of(bank)[1].shape[1])

    def test_a_value_that_no_one_knows_is_strange_and_not_known(self, losses: Inference, bank: Bank) -> None:
        fingerprint, codes = np.zeros(1, np.int32), np.full((1, rows_of(bank)[1].shape[1]), UNKNOWN)
        loss, known = losses.losses(fingerprint, codes)
        assert not known.any()
        assert loss.max() > 8

    @pytest.mark.parametrize("row", [-1, 10_000])
    def test_a_fingerprint_that_the_bank_has_not_is_refused(
        self, losses: Inference, bank: Bank, row: int
    ) -> None:
        """A negative one would be someone else's."""
        fingerprint, codes = rows_of(bank, 5)
        fingerprint[3] = row
        with pytest.raises(FingerprintError, match=f"has the fingerprints 0 to {len(bank.fingerprints) - 1}"):
            losses.losses(fingerprint, codes)

    def test_codes_of_other_features_are_refused(self, losses: Inference, bank: Bank) -> None:
        fingerprint, codes = rows_of(bank, 5)
        with pytest.raises(FingerprintError, match="shape"):
            losses.losses(fingerprint, np.ascontiguousarray(codes[:, 1:]))

    def test_it_names_its_bank_and_is_not_degraded(self, losses: Inference, bank: Bank) -> None:
        losses.losses(*rows_of(bank, 5))
        assert (losses.version, losses.degraded) == (bank.version, False)
