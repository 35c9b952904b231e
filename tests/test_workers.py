"""One contract for who does pieces of work: this process, and a cluster of others."""

from __future__ import annotations

from functools import partial

import pytest

from fingerprint.domain import FingerprintError
from fingerprint.edges.workers import InProcess
from fingerprint.ports import Workers


def squared(number: int) -> int:
    return number * number


def refused(why: str, piece: int) -> int:
    if piece == 2:
        raise FingerprintError(why)
    return piece


@pytest.fixture
def workers() -> Workers:
    return InProcess()


def test_every_piece_is_done_once_and_named_by_its_place(workers: Workers) -> None:
    assert sorted(workers.each(squared, [5, 3, 5])) == [(0, 25), (1, 9), (2, 25)]


def test_an_error_of_the_work_ends_all_of_it_and_keeps_its_sentence(workers: Workers) -> None:
    with pytest.raises(FingerprintError, match=r"^the folder is full: make room$"):
        list(workers.each(partial(refused, "the folder is full: make room"), range(4)))
