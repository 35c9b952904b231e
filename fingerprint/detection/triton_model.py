"""The model that Triton serves: one bank, which computes concurrent requests together.

Example:
    >>> model = TritonBankModel(open_numbered_bank(folder, version_number(bank.version)))
    >>> model.infer_batch([(np.array([5], np.int32), codes[:1])])[0].loss      # (1, F) nats

Triton has version numbers, a bank has a version name. `version_number` maps a name to the same number everywhere, so the number
identifies the bank of a response.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from fingerprint.compute.arrays import Floats, Ints, Placement, to_device_of, to_host
from fingerprint.compute.hashing import Hashes
from fingerprint.core import settings
from fingerprint.core.errors import FingerprintError
from fingerprint.detection.inference import LocalInference
from fingerprint.estimators import autoencoder, tail_calibration
from fingerprint.registry.bank import Bank
from fingerprint.registry.bank_files import DEFAULT_OPTIONS, open_bank


class InferenceResult(NamedTuple):
    """Results of N events: `loss` (N, F) nats, `known` (N, F), `z` (N,) and `level` (N,).

    The z ignores the rest of the interval and the history of the principal.
    """

    loss: Floats
    known: NDArray[np.bool_]
    z: Floats
    level: NDArray[np.int8]


def version_number(version: str) -> int:
    """Return the number of a bank version, 1 ... 2^53 - 1: exact in JSON, and a hash, so that two banks do not share one."""
    digest = hashlib.blake2b(version.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % (2**53 - 1) + 1


def open_numbered_bank(folder: Path, expected_number: int, options: settings.Bank = DEFAULT_OPTIONS) -> Bank:
    """Open the bank in a folder. Raise FingerprintError if it is damaged, not signed, or has another number than expected."""
    bank = open_bank(folder, options)
    if version_number(bank.version) != expected_number:
        raise FingerprintError(
            f"{folder} holds bank {bank.version}, whose number is {version_number(bank.version)} and not {expected_number}: "
            "fill the repository with `fingerprint triton load`"
        )
    return bank


def place_networks(bank: Bank, placement: Placement) -> Bank:
    """Return a bank with its networks moved by `placement`, to any array library; `Bank.on` moves all arrays."""
    nets = {name: placement(getattr(bank.weights, name)) for name in ("inputs", "bias", "outputs")}
    vocabulary = replace(bank.vocabulary, base=placement(bank.vocabulary.base))
    return replace(bank, weights=replace(bank.weights, **nets), vocabulary=vocabulary)


class TritonBankModel:
    """A bank in host or device memory (`Bank.on`, `place_networks`) that computes batches of requests.

    The constructor measures one row, so that kernels are compiled before requests wait.
    """

    def __init__(self, bank: Bank) -> None:
        self.bank, self.inference = bank, LocalInference(bank)
        self.level = bank.fingerprints["level"].to_numpy(np.int8)
        self._compute(np.zeros(1, np.int32), np.zeros((1, bank.vocabulary.total.shape[1]), np.uint64))

    @property
    def device(self) -> str:
        """The device of the networks."""
        return str(device(self.bank.weights.inputs))

    def infer_batch(
        self, requests: Sequence[tuple[Ints, Hashes]]
    ) -> list[InferenceResult | FingerprintError]:
        """Return a result or an error for each request (fingerprint (N,), codes (N, F)); all are computed together."""
        problems = [self.inference.validation_error(*each) for each in requests]
        good = [each for each, problem in zip(requests, problems, strict=True) if problem is None]
        answers = iter(self._infer_valid(good))
        return [next(answers) if problem is None else problem for problem in problems]

    def _infer_valid(self, requests: Sequence[tuple[Ints, Hashes]]) -> list[InferenceResult]:
        if not requests:
            return []
        fingerprint, codes = (np.concatenate(column) for column in zip(*requests, strict=True))
        measured = (*self._compute(fingerprint, codes), self.level[fingerprint])
        ends = np.cumsum([len(rows) for rows, _ in requests])[:-1]
        return [
            InferenceResult(*each) for each in zip(*(np.split(each, ends) for each in measured), strict=True)
        ]

    def _compute(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_], Floats]:
        """Return loss and known (N, F) and z (N,); the input is copied to the device once, and the results back to the host."""
        usual, there = self.bank.baseline, self.bank.vocabulary.keys
        fingerprint, codes = to_device_of(fingerprint, there), to_device_of(codes, there)
        loss, known = self.inference.losses(fingerprint, codes)
        surprise = autoencoder.surprise_per_feature(loss, usual.center, fingerprint)
        z = tail_calibration.excess_to_z(autoencoder.total_surprise(surprise), usual, fingerprint)
        return to_host(loss), to_host(known), to_host(z)
