"""Which organisations are evaluated, and that they are kept whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.simulation.attacks import STRENGTHS
from pipelines.evaluation.organisations import (
    DEVELOPMENT_SEEDS,
    FINAL_SEEDS,
    Organisation,
    attacks_for,
    seeds_for,
)


def small(keep: Path | None) -> Organisation:
    return Organisation(principals=2, days=8, attacks=1, keep=keep)


def test_nothing_is_tuned_on_the_seeds_of_the_final_table() -> None:
    assert not set(DEVELOPMENT_SEEDS) & set(FINAL_SEEDS)
    assert seeds_for(None, final=True) == FINAL_SEEDS
    assert seeds_for(None, final=False) == (0,)
    assert seeds_for([7, 8], final=False) == (7, 8)
    with pytest.raises(FingerprintError, match="leave --seed out"):
        seeds_for([0], final=True)


def test_there_are_as_many_attacks_of_each_strength() -> None:
    counts = [attacks_for(principals) for principals in (2, 50, 100, 500, 5000)]
    assert all(count % len(STRENGTHS) == 0 for count in counts)
    assert counts == sorted(counts)
    assert (counts[1], counts[3]) == (12, 48)


def test_an_organisation_that_is_kept_is_simulated_once(tmp_path: Path) -> None:
    told = []
    for _ in range(2):
        with small(tmp_path).simulated(1, progress=lambda *days: told.append(days)) as folder:
            assert (folder / "labels.jsonl").exists()
    assert told == [("simulating days", done, 8) for done in range(1, 9)]


def test_one_that_was_cut_short_is_simulated_again(tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), small(tmp_path).simulated(1, progress=stop):
        pass
    with small(tmp_path).simulated(1) as folder:
        assert len(list(folder.glob("*.jsonl.gz"))) == 8
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_without_a_place_to_keep_it_an_organisation_is_gone_afterwards() -> None:
    with small(None).simulated(1) as folder:
        assert folder.is_dir()
    assert not folder.exists()
