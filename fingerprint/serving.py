"""One bank behind a server: what several requests ask at the same time is measured at once.

Example:
    >>> served = Served(opened(folder, number(bank.version)))
    >>> served.answer([(np.array([5], np.int32), codes[:1])])[0].loss      # (1, F) nats

The server numbers versions, a bank names them: `number` of a name is the same everywhere, and says which bank an answer is of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from fingerprint import autoencoder, tails
from fingerprint.bank import Bank, open_bank
from fingerprint.domain import FingerprintError
from fingerprint.hashing import Hashes
from fingerprint.losses import InProcess
from fingerprint.vocabulary import Floats, Ints

Mover = Callable[[NDArray[Any]], Any]


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


def opened(folder: Path, expected: int) -> Bank:
    """The bank in a folder. FingerprintError where it is damaged, or not the one of that number."""
    bank = open_bank(folder)
    if number(bank.version) != expected:
        raise FingerprintError(
            f"{folder} holds bank {bank.version}, whose number is {number(bank.version)} and not {expected}: "
            "fill the repository with `fingerprint triton load`"
        )
    return bank


def stays(array: NDArray[Any]) -> NDArray[Any]:
    """The mover of who measures with NumPy."""
    return array


class Served:
    """A bank in the memory of who measures; `move` brings its nets to a device (any array library's)."""

    def __init__(self, bank: Bank, move: Mover = stays) -> None:
        weights = bank.weights
        nets = {name: move(getattr(weights, name)) for name in ("inputs", "bias", "outputs")}
        vocabulary = replace(bank.vocabulary, base=move(bank.vocabulary.base))
        self.bank = replace(bank, weights=replace(weights, **nets), vocabulary=vocabulary)
        self.losses = InProcess(self.bank)
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
        loss, known = self.losses.of(fingerprint, codes)
        surprise = autoencoder.surprises(loss, self.bank.baseline.center, fingerprint)
        z = tails.z_of(autoencoder.combine(surprise), self.bank.baseline, fingerprint)
        ends = np.cumsum([len(rows) for rows, _ in asked])[:-1]
        columns = (np.split(each, ends) for each in (loss, known, z, self.level[fingerprint]))
        return [Answer(*each) for each in zip(*columns, strict=True)]
