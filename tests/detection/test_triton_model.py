"""One bank behind a server, without the server: what is asked together, who stands in, and who is left alone."""

from __future__ import annotations

import re
from pathlib import Path

import fake_cupy
import numpy as np
import pytest

from fingerprint.core.circuit_breaker import CircuitBreaker
from fingerprint.core.errors import FingerprintError
from fingerprint.detection import triton_model
from fingerprint.detection.inference import FallbackInference, LocalInference
from fingerprint.detection.triton_model import TritonBankModel
from fingerprint.estimators import autoencoder, tail_calibration
from fingerprint.features import encoding
from fingerprint.registry.bank import Bank
from fingerprint.registry.bank_files import open_bank
from tests.contracts.inference import CLOSE, LossesContract, rows_of
from tests.support import sample_organisation

MODELS = Path(__file__).parents[2] / "models" / "fingerprint"


@pytest.fixture(scope="module")
def bank(organisation: sample_organisation.SampleOrganisation) -> Bank:
    return open_bank(organisation.bank)


class TestInProcess(LossesContract):
    @pytest.fixture
    def losses(self, bank: Bank) -> LocalInference:
        return LocalInference(bank)


def test_what_is_asked_together_is_answered_one_by_one(bank: Bank) -> None:
    fingerprint, codes = rows_of(bank, 90)
    asked = [(fingerprint[a : a + 30], codes[a : a + 30]) for a in (0, 30, 60)]
    for (rows, values), answer in zip(asked, TritonBankModel(bank).infer_batch(asked), strict=True):
        assert not isinstance(answer, FingerprintError)
        loss, known = LocalInference(bank).losses(rows, values)
        np.testing.assert_allclose(answer.loss, loss, atol=CLOSE)
        np.testing.assert_array_equal(answer.known, known)
        np.testing.assert_array_equal(answer.level, bank.fingerprints["level"].to_numpy()[rows])


TRITON_TYPES = {"TYPE_FP32": np.float32, "TYPE_BOOL": np.bool_, "TYPE_INT8": np.int8}


def test_what_is_answered_has_the_types_that_the_configuration_promises(bank: Bank) -> None:
    """A level came in eight bytes where one was promised."""
    outputs = (MODELS / "config.pbtxt").read_text().partition("output [")[2]
    promised = dict(re.findall(r'name: "(\w+)" data_type: (\w+)', outputs))
    [answer] = TritonBankModel(bank).infer_batch([rows_of(bank, 5)])
    assert not isinstance(answer, FingerprintError)
    assert {name: array.dtype for name, array in answer._asdict().items()} == {
        name: TRITON_TYPES[each] for name, each in promised.items()
    }


def test_a_wrong_question_spoils_no_other(bank: Bank) -> None:
    fingerprint, codes = rows_of(bank, 4)
    first, wrong, last = TritonBankModel(bank).infer_batch(
        [(fingerprint, codes), (fingerprint + 10_000, codes), (fingerprint, codes)]
    )
    assert isinstance(wrong, FingerprintError)
    assert not isinstance(first, FingerprintError)
    assert not isinstance(last, FingerprintError)
    np.testing.assert_array_equal(first.loss, last.loss)


def test_the_z_of_an_event_by_itself_is_the_scorers_without_interval_surprise(bank: Bank) -> None:
    fingerprint, codes = rows_of(bank, 200)
    [answer] = TritonBankModel(bank).infer_batch([(fingerprint, codes)])
    assert not isinstance(answer, FingerprintError)
    surprise = autoencoder.surprise_per_feature(answer.loss, bank.baseline.center, fingerprint)
    nothing = np.zeros(len(codes), np.float32), np.zeros(len(codes), bool)
    alone = autoencoder.event_nats(surprise, *nothing).excess(bank.baseline.interval_tail[fingerprint])
    np.testing.assert_allclose(
        answer.z, tail_calibration.excess_to_z(alone, bank.baseline, fingerprint), atol=CLOSE
    )
    assert (answer.z > 3).any()


def close_to_numpy(served: TritonBankModel, bank: Bank) -> None:
    """Another library answers as this process would: losses and z to CLOSE, what was known exactly."""
    fingerprint, codes = rows_of(bank)
    [answer], [wanted] = (
        each.infer_batch([(fingerprint, codes)]) for each in (served, TritonBankModel(bank))
    )
    assert not isinstance(answer, FingerprintError)
    assert not isinstance(wanted, FingerprintError)
    np.testing.assert_allclose(answer.loss, wanted.loss, atol=CLOSE)
    np.testing.assert_allclose(answer.z, wanted.z, atol=10 * CLOSE)  # far below zero a nat is worth many of z
    np.testing.assert_array_equal(answer.known, wanted.known)
    np.testing.assert_array_equal(answer.level, wanted.level)


def test_torch_measures_what_numpy_measures(bank: Bank) -> None:
    """Here on the CPU; the same program runs where torch's arrays lie on a GPU."""
    torch = pytest.importorskip("torch")
    close_to_numpy(
        TritonBankModel(triton_model.place_networks(bank, lambda array: torch.from_numpy(np.array(array)))),
        bank,
    )


def test_a_bank_elsewhere_measures_what_it_measures_here_and_only_answers_come_down(bank: Bank) -> None:
    """On the fake of CuPy: what is asked goes up, 140 bytes a row; what is answered comes down, 90."""
    served = TritonBankModel(bank.on(fake_cupy.asarray))
    assert served.device == "fake_cupy"
    close_to_numpy(served, bank)
    fingerprint, codes = rows_of(bank)
    fake_cupy.moved.reset()
    served.infer_batch([(fingerprint, codes)])
    asked = fingerprint.nbytes + codes.nbytes
    answered = codes.size * 5 + len(codes) * 4
    assert asked <= fake_cupy.moved.bytes_up < asked + 8192
    assert answered <= fake_cupy.moved.bytes_down < answered + 1024


def test_anyone_who_asks_a_bank_elsewhere_has_the_answer_where_the_question_lay(bank: Bank) -> None:
    fingerprint, codes = rows_of(bank, 50)
    losses = LocalInference(bank.on(fake_cupy.asarray))
    here, _ = losses.losses(fingerprint, codes)
    there, _ = losses.losses(fake_cupy.asarray(fingerprint), fake_cupy.asarray(codes))
    np.testing.assert_array_equal(there.get(), here)


def test_a_question_from_a_device_is_sent_from_the_host_and_its_answer_goes_up_again(bank: Bank) -> None:
    """A server takes NumPy's arrays, and gives them."""
    fingerprint, codes = rows_of(bank, 50)
    placed = FallbackInference(LocalInference(bank), LocalInference(bank.on(fake_cupy.asarray)))
    loss, known = placed.losses(fake_cupy.asarray(fingerprint), fake_cupy.asarray(codes))
    wanted = LocalInference(bank).losses(fingerprint, codes)
    np.testing.assert_array_equal(loss.get(), wanted[0])
    np.testing.assert_array_equal(known.get(), wanted[1])


@pytest.mark.gpu
@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_a_gpu_measures_what_numpy_measures(bank: Bank, library: str) -> None:
    there = pytest.importorskip(library)
    if not there.cuda.is_available():
        pytest.skip("needs a CUDA device")
    if library == "cupy":
        close_to_numpy(TritonBankModel(bank.on(there.asarray)), bank)
    else:
        move = lambda array: there.from_numpy(np.array(array)).to("cuda")  # noqa: E731
        close_to_numpy(TritonBankModel(triton_model.place_networks(bank, move)), bank)


def test_the_number_of_a_bank_says_which_it_is(
    bank: Bank, organisation: sample_organisation.SampleOrganisation
) -> None:
    number = triton_model.version_number(bank.version)
    assert 0 < number < 2**53
    assert triton_model.open_numbered_bank(organisation.bank, number).version == bank.version
    with pytest.raises(FingerprintError, match=f"and not {number + 1}"):
        triton_model.open_numbered_bank(organisation.bank, number + 1)


def test_only_the_same_bank_may_stand_in(bank: Bank) -> None:
    other = LocalInference(Bank(**{**vars_of(bank), "manifest": {**bank.manifest, "version": "another"}}))
    with pytest.raises(FingerprintError, match="cannot be the fallback of bank another"):
        FallbackInference(other, LocalInference(bank))


def vars_of(bank: Bank) -> dict[str, object]:
    return {name: getattr(bank, name) for name in Bank.__dataclass_fields__}


def test_who_failed_several_times_in_a_row_is_left_alone_then_tried_once() -> None:
    breaker = CircuitBreaker(max_failures=2, cooldown_seconds=10)
    breaker.record_failure(0)
    assert breaker.allow_request(1)
    breaker.record_failure(1)
    assert not breaker.allow_request(10.9)
    assert breaker.allow_request(11)
    breaker.record_failure(11)  # the one try
    assert not breaker.allow_request(20.9)
    breaker.record_success()
    assert breaker.allow_request(21)


def test_who_answers_now_and_then_is_not_left_alone() -> None:
    breaker = CircuitBreaker(max_failures=2, cooldown_seconds=10)
    for now in range(10):
        breaker.record_failure(now)
        breaker.record_success()
    assert breaker.allow_request(10)


def test_the_model_takes_the_features_that_there_are() -> None:
    config = (MODELS / "config.pbtxt").read_text()
    widths = [int(width) for width in re.findall(r"dims: \[ (\d+) \]", config)]
    assert sorted(set(widths)) == [1, len(encoding.FEATURE_NAMES)]
