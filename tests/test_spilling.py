"""A ledger with far too little room says exactly what one with enough says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from walking import Outcome, Step, road_of, same, silences, walked

from fingerprint.adapters.checkpoints import StoredSnapshots
from fingerprint.compute import hashing
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Partition
from fingerprint.core.settings import State
from fingerprint.pipeline import Road
from fingerprint.registry import bank as banks
from fingerprint.state.scorer_state import Ledger
from fingerprint.streaming import checkpoint_codec
from fingerprint.streaming.state_eviction import Spill, homes_of

PARTITION = Partition("events", 0)
ROWS = 100


def narrow(ledger: Ledger, folder: Path, rows: int = ROWS) -> Spill:
    store = StoredSnapshots(State(snapshots=str(folder)))
    return Spill(ledger, rows, lambda part: store.put(PARTITION, part), store.get)


def waiting(road: Road) -> np.ndarray:
    """The homes of events and verdicts that wait."""
    parts = [*road.scorer.waiting, *(each.batch for each in road.groups.open)]
    return homes_of(part.principal for part in parts)


class Narrow:
    """A road that puts away and fetches, and keeps count."""

    def __init__(self, spill: Spill) -> None:
        self.spill, self.rows, self.away = spill, [], 0

    def before(self, road: Road, step: Step) -> Road:
        self.spill.fetch(homes_of([hashing.homed(step.events["principal"])]))
        return road

    def after(self, road: Road, step: Step) -> Road:
        self.away += self.spill.spill(waiting(road))
        self.rows.append(len(road.ledger.series.owner))
        return road


@pytest.mark.parametrize("file_rows", [16, 4096])
def test_put_away_and_fetched_many_times_it_gives_the_same_verdicts_z_and_votes(
    bank: banks.Bank,
    steps: list[Step],
    undisturbed: Outcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file_rows: int,
) -> None:
    monkeypatch.setattr("fingerprint.streaming.state_eviction.FILE_ROWS", file_rows)
    road = road_of(bank, bank.ledger)
    run = Narrow(narrow(road.ledger, tmp_path))
    outcome = walked(road, steps, run.before, run.after)
    assert silences(undisturbed)
    assert run.away >= run.spill.fetched > 50
    same(outcome, undisturbed)
    in_memory = len(road.ledger.series.owner)
    run.spill.fetch(np.ones(hashing.HOMES, bool))
    everything = len(road.ledger.series.owner)
    assert max(run.rows) < everything * 0.75
    assert in_memory < everything * 0.6
    assert not run.spill.names()


def test_a_restart_knows_what_was_away(
    bank: banks.Bank, steps: list[Step], undisturbed: Outcome, tmp_path: Path
) -> None:
    road = road_of(bank, bank.ledger)
    state = Narrow(narrow(road.ledger, tmp_path))

    def restarted(road: Road, step: Step) -> Road:
        state.after(road, step)
        packed = checkpoint_codec.pack_arrays(state.spill.as_arrays())
        again = road_of(bank, road.ledger.as_arrays())
        again.scorer.waiting, again.scorer.names = road.scorer.waiting, road.scorer.names
        again.groups.open = road.groups.open
        names, fetched = state.spill.names(), state.spill.fetched
        state.spill = narrow(again.ledger, tmp_path)
        state.spill.restore(checkpoint_codec.arrays(packed))
        state.spill.fetched = fetched
        assert state.spill.names() == names
        return again

    outcome = walked(road, steps, state.before, restarted)
    assert state.spill.fetched > 50
    same(outcome, undisturbed)


def test_who_waits_or_was_just_active_is_not_put_away(
    bank: banks.Bank, steps: list[Step], tmp_path: Path
) -> None:
    road = road_of(bank, bank.ledger)
    spill = narrow(road.ledger, tmp_path, rows=1)
    for step in steps[:5]:
        spill.fetch(homes_of([hashing.homed(step.events["principal"])]))
        road.walk(*step)
    spill.spill(waiting(road))
    assert spill.away.any()
    assert not (spill.away & waiting(road)).any()
    running = steps[4].events["event_time"].dt.floor("h") >= steps[4].events["event_time"].max().floor("h")
    active = homes_of([hashing.homed(steps[4].events["principal"][running])])
    assert active.any()
    assert not (spill.away & active).any()


def test_a_store_that_cannot_take_or_give_leaves_all_as_it_was(
    bank: banks.Bank, steps: list[Step], tmp_path: Path
) -> None:
    road = road_of(bank, bank.ledger)
    spill = narrow(road.ledger, tmp_path / "store", rows=1)
    road.walk(*steps[0])
    (tmp_path / "store").write_text("a file where the folder should be")
    before = road.ledger.as_arrays()
    with pytest.raises(FingerprintError):
        spill.spill(waiting(road))
    unchanged(road.ledger, before)
    (tmp_path / "store").unlink()
    spill = narrow(road.ledger, tmp_path / "store", rows=1)
    assert spill.spill(waiting(road))
    for part in (tmp_path / "store").rglob("parts/*"):
        part.unlink()
    before, away = road.ledger.as_arrays(), spill.away.copy()
    with pytest.raises(FingerprintError, match="missing"):
        spill.fetch(away)
    unchanged(road.ledger, before)
    assert (spill.away == away).all()


def unchanged(ledger: Ledger, before: dict[str, np.ndarray]) -> None:
    now = ledger.as_arrays()
    assert now.keys() == before.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(now[name], array, err_msg=name)
