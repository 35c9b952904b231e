"""One bank behind a server, without the server: what is asked together, who stands in, and who is left alone."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import road
from contracts.losses import CLOSE, LossesContract, rows_of

from fingerprint import autoencoder, features, serving, tails
from fingerprint.bank import Bank, open_bank
from fingerprint.breaker import Breaker
from fingerprint.domain import FingerprintError
from fingerprint.losses import InProcess, StandIn
from fingerprint.serving import Served

MODELS = Path(__file__).parent.parent / "models" / "fingerprint"


@pytest.fixture(scope="module")
def bank(organisation: road.Road) -> Bank:
    return open_bank(organisation.bank)


class TestInProcess(LossesContract):
    @pytest.fixture
    def losses(self, bank: Bank) -> InProcess:
        return InProcess(bank)


def test_what_is_asked_together_is_answered_one_by_one(bank: Bank) -> None:
    fingerprint, codes = rows_of(bank, 90)
    asked = [(fingerprint[a : a + 30], codes[a : a + 30]) for a in (0, 30, 60)]
    for (rows, values), answer in zip(asked, Served(bank).answer(asked), strict=True):
        assert not isinstance(answer, FingerprintError)
        loss, known = InProcess(bank).of(rows, values)
        np.testing.assert_allclose(answer.loss, loss, atol=CLOSE)
        np.testing.assert_array_equal(answer.known, known)
        np.testing.assert_array_equal(answer.level, bank.fingerprints["level"].to_numpy()[rows])


def test_a_wrong_question_spoils_no_other(bank: Bank) -> None:
    fingerprint, codes = rows_of(bank, 4)
    first, wrong, last = Served(bank).answer(
        [(fingerprint, codes), (fingerprint + 10_000, codes), (fingerprint, codes)]
    )
    assert isinstance(wrong, FingerprintError)
    assert not isinstance(first, FingerprintError)
    assert not isinstance(last, FingerprintError)
    np.testing.assert_array_equal(first.loss, last.loss)


def test_the_z_of_an_event_by_itself_is_the_scorers_without_company(bank: Bank) -> None:
    fingerprint, codes = rows_of(bank, 200)
    [answer] = Served(bank).answer([(fingerprint, codes)])
    assert not isinstance(answer, FingerprintError)
    surprise = autoencoder.surprises(answer.loss, bank.baseline.center, fingerprint)
    nothing = np.zeros(len(codes), np.float32), np.zeros(len(codes), bool)
    alone = autoencoder.excess(surprise, *nothing, road.SETTINGS.autoencoder)
    np.testing.assert_allclose(answer.z, tails.z_of(alone, bank.baseline, fingerprint), atol=CLOSE)
    assert (answer.z > 3).any()


def test_torch_measures_what_numpy_measures(bank: Bank) -> None:
    """Here on the CPU; the same program runs where torch's arrays lie on a GPU."""
    torch = pytest.importorskip("torch")
    fingerprint, codes = rows_of(bank)
    served = Served(bank, lambda array: torch.from_numpy(np.array(array)))
    [answer] = served.answer([(fingerprint, codes)])
    assert not isinstance(answer, FingerprintError)
    np.testing.assert_allclose(answer.loss, InProcess(bank).of(fingerprint, codes)[0], atol=CLOSE)


@pytest.mark.gpu
def test_a_gpu_measures_what_numpy_measures(bank: Bank) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    fingerprint, codes = rows_of(bank)
    served = Served(bank, lambda array: torch.from_numpy(np.array(array)).to("cuda"))
    [answer] = served.answer([(fingerprint, codes)])
    assert not isinstance(answer, FingerprintError)
    np.testing.assert_allclose(answer.loss, InProcess(bank).of(fingerprint, codes)[0], atol=CLOSE)


def test_the_number_of_a_bank_says_which_it_is(bank: Bank, organisation: road.Road) -> None:
    number = serving.number(bank.version)
    assert 0 < number < 2**53
    assert serving.opened(organisation.bank, number).version == bank.version
    with pytest.raises(FingerprintError, match=f"and not {number + 1}"):
        serving.opened(organisation.bank, number + 1)


def test_only_the_same_bank_may_stand_in(bank: Bank) -> None:
    other = InProcess(Bank(**{**vars_of(bank), "manifest": {**bank.manifest, "version": "another"}}))
    with pytest.raises(FingerprintError, match="cannot stand in for bank another"):
        StandIn(other, InProcess(bank))


def vars_of(bank: Bank) -> dict[str, object]:
    return {name: getattr(bank, name) for name in Bank.__dataclass_fields__}


def test_who_failed_several_times_in_a_row_is_left_alone_then_tried_once() -> None:
    breaker = Breaker(failures=2, rest_seconds=10)
    breaker.failed(0)
    assert breaker.allows(1)
    breaker.failed(1)
    assert not breaker.allows(10.9)
    assert breaker.allows(11)
    breaker.failed(11)  # the one try
    assert not breaker.allows(20.9)
    breaker.succeeded()
    assert breaker.allows(21)


def test_who_answers_now_and_then_is_not_left_alone() -> None:
    breaker = Breaker(failures=2, rest_seconds=10)
    for now in range(10):
        breaker.failed(now)
        breaker.succeeded()
    assert breaker.allows(10)


def test_the_model_takes_the_features_that_there_are() -> None:
    config = (MODELS / "config.pbtxt").read_text()
    widths = [int(width) for width in re.findall(r"dims: \[ (\d+) \]", config)]
    assert sorted(set(widths)) == [1, len(features.NAMES)]
