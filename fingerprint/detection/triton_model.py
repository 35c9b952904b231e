"""One bank behind a server: what several requests ask at the same time is measured at once.

Example:
    >>> served = Served(opened(folder, number(bank.version)))
    >>> served.answer([(np.array([5], np.int32), codes[:1])])[0].loss      # (1, F) nats

The server numbers versions, a bank names them: `number` of a name is the same everywhere, and says which bank an answer is of.
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

from fingerprint.compute.arrays import Place, host, like
from fingerprint.compute.hashing import Hashes
from fingerprint.core import settings
from fingerprint.core.alert import FingerprintError
from fingerprint.detection.inference import InProcess
from fingerprint.estimators import autoencoder, tail_calibration
from fingerprint.features.vocabulary import Floats, Ints
from fingerprint.registry.bank import DEFAULT, Bank, open_bank


class Answer(NamedTuple):
    """Of N events: `loss` (N, F) nats, `known` (N, F), `z` (N,) by itself (without company, nor what a ledger remembers of the
    principal), `level` (N,) of the fingerprint."""

    loss: Floats
    known: NDArray[np.bool_]
    z: Floats
    level: NDArray[np.int8]


def number(version: str) -> int:
    """A bank version's number, 1 ... 2^53 - 1: what JSON can say exactly, and no two banks share."""
    digest = hashlib.blake2b(version.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % (2**53 - 1) + 1


def opened(folder: Path, expected: int, options: settings.Bank = DEFAULT) -> Bank:
    """The bank in a folder. FingerprintError where it is damaged, not signed, or not the one of that number."""
    bank = open_bank(folder, options)
    if number(bank.version) != expected:
        raise FingerprintError(
            f"{folder} holds bank {bank.version}, whose number is {number(bank.version)} and not {expected}: "
            "fill the repository with `fingerprint triton load`"
        )
    return bank


def nets_only(bank: Bank, place: Place) -> Bank:
    """A bank whose nets alone lie where `place` puts arrays, those of any library. `Bank.on` puts all there that measures."""
    nets = {name: place(getattr(bank.weights, name)) for name in ("inputs", "bias", "outputs")}
    vocabulary = replace(bank.vocabulary, base=place(bank.vocabulary.base))
    return replace(bank, weights=replace(bank.weights, **nets), vocabulary=vocabulary)


class Served:
    """A bank in the memory of who measures, or of its device (`Bank.on`, `nets_only`)."""

    def __init__(self, bank: Bank) -> None:
        self.bank, self.losses = bank, InProcess(bank)
        self.level = bank.fingerprints["level"].to_numpy()

    @property
    def device(self) -> str:
        return str(device(self.bank.weights.inputs))

    def answer(self, asked: Sequence[tuple[Ints, Hashes]]) -> list[Answer | FingerprintError]:
        """To each request (fingerprint (N,), codes (N, F)) its answer, or why there is none; all are measured together."""
        problems = [self.losses.problem(*each) for each in asked]
        good = [each for each, problem in zip(asked, problems, strict=True) if problem is None]
        answers = iter(self._measure(good))
        return [next(answers) if problem is None else problem for problem in problems]

    def _measure(self, asked: Sequence[tuple[Ints, Hashes]]) -> list[Answer]:
        if not asked:
            return []
        fingerprint, codes = (np.concatenate(column) for column in zip(*asked, strict=True))
        measured = (*self._measured(fingerprint, codes), self.level[fingerprint])
        ends = np.cumsum([len(rows) for rows, _ in asked])[:-1]
        return [Answer(*each) for each in zip(*(np.split(each, ends) for each in measured), strict=True)]

    def _measured(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_], Floats]:
        """Loss and known (N, F), z (N,). What is asked goes up once, and the answers come down."""
        usual, there = self.bank.baseline, self.bank.vocabulary.keys
        fingerprint, codes = like(fingerprint, there), like(codes, there)
        loss, known = self.losses.of(fingerprint, codes)
        surprise = autoencoder.surprises(loss, usual.center, fingerprint)
        z = tail_calibration.z_of(autoencoder.combine(surprise), usual, fingerprint)
        return host(loss), host(known), host(z)
