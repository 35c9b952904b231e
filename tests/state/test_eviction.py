"""A ledger with far too little room says exactly what one with enough says."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fingerprint.adapters.checkpoints import FileCheckpointStore
from fingerprint.compute import hashing
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Partition
from fingerprint.core.settings import Checkpoints
from fingerprint.detection.detectors.spectral import EVENT_CHANNEL
from fingerprint.pipeline import DetectionPipeline
from fingerprint.registry import bank as banks
from fingerprint.state import checkpoint_codec
from fingerprint.state.eviction import StateEvictor, bucket_mask
from fingerprint.state.scorer_state import ScorerState
from tests.support.stepwise_pipeline import Outcome, Step, road_of, same, silences, walked

PARTITION = Partition("events", 0)
ROWS = 100


def narrow(ledger: ScorerState, folder: Path, rows: int = ROWS) -> StateEvictor:
    store = FileCheckpointStore(Checkpoints(url=str(folder)))
    put = partial(store.put_blob, PARTITION)
    return StateEvictor(ledger, rows, put, store.get_blob, EVENT_CHANNEL)


def waiting(road: DetectionPipeline) -> np.ndarray:
    """The homes of events and verdicts that wait."""
    parts = [*road.state.pending, *(each.batch for each in road.state.open_alerts.verdicts)]
    return bucket_mask(part.principal for part in parts)


class Narrow:
    """A road that puts away and fetches, and keeps count."""

    def __init__(self, spill: StateEvictor) -> None:
        self.spill, self.rows, self.away = spill, [], 0

    def before(self, road: DetectionPipeline, step: Step) -> DetectionPipeline:
        self.spill.reload(bucket_mask([hashing.hash_with_bucket(step.events["principal"])]))
        return road

    def after(self, road: DetectionPipeline, step: Step) -> DetectionPipeline:
        self.away += self.spill.evict(waiting(road))
        self.rows.append(len(road.state.scorer.series.owner))
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
    monkeypatch.setattr("fingerprint.state.eviction.ROWS_PER_FILE", file_rows)
    road = road_of(bank, bank.scorer_state)
    run = Narrow(narrow(road.state.scorer, tmp_path))
    outcome = walked(road, steps, run.before, run.after)
    assert silences(undisturbed)
    assert run.away >= run.spill.reloaded_buckets > 50
    same(outcome, undisturbed)
    in_memory = len(road.state.scorer.series.owner)
    run.spill.reload(np.ones(hashing.BUCKETS, bool))
    everything = len(road.state.scorer.series.owner)
    assert max(run.rows) < everything * 0.75
    assert in_memory < everything * 0.6
    assert not run.spill.blob_names()


def test_a_restart_knows_what_was_away(
    bank: banks.Bank, steps: list[Step], undisturbed: Outcome, tmp_path: Path
) -> None:
    road = road_of(bank, bank.scorer_state)
    state = Narrow(narrow(road.state.scorer, tmp_path))

    def restarted(road: DetectionPipeline, step: Step) -> DetectionPipeline:
        state.after(road, step)
        packed = checkpoint_codec.pack_arrays(state.spill.as_arrays())
        again = road_of(bank, road.state.scorer.as_arrays())
        again.state.pending, again.scorer.owner_names = road.state.pending, road.scorer.owner_names
        again.state.open_alerts.verdicts = road.state.open_alerts.verdicts
        names, fetched = state.spill.blob_names(), state.spill.reloaded_buckets
        state.spill = narrow(again.state.scorer, tmp_path)
        state.spill.restore(checkpoint_codec.unpack_arrays(packed))
        state.spill.reloaded_buckets = fetched
        assert state.spill.blob_names() == names
        return again

    outcome = walked(road, steps, state.before, restarted)
    assert state.spill.reloaded_buckets > 50
    same(outcome, undisturbed)


def test_who_waits_or_was_just_active_is_not_put_away(
    bank: banks.Bank, steps: list[Step], tmp_path: Path
) -> None:
    road = road_of(bank, bank.scorer_state)
    spill = narrow(road.state.scorer, tmp_path, rows=1)
    for step in steps[:5]:
        spill.reload(bucket_mask([hashing.hash_with_bucket(step.events["principal"])]))
        road.process(*step)
    spill.evict(waiting(road))
    assert spill.evicted.any()
    assert not (spill.evicted & waiting(road)).any()
    running = steps[4].events["event_time"].dt.floor("h") >= steps[4].events["event_time"].max().floor("h")
    active = bucket_mask([hashing.hash_with_bucket(steps[4].events["principal"][running])])
    assert active.any()
    assert not (spill.evicted & active).any()


def test_a_store_that_cannot_take_or_give_leaves_all_as_it_was(
    bank: banks.Bank, steps: list[Step], tmp_path: Path
) -> None:
    road = road_of(bank, bank.scorer_state)
    spill = narrow(road.state.scorer, tmp_path / "store", rows=1)
    road.process(*steps[0])
    (tmp_path / "store").write_text("a file where the folder should be")
    before = road.state.scorer.as_arrays()
    with pytest.raises(FingerprintError):
        spill.evict(waiting(road))
    unchanged(road.state.scorer, before)
    (tmp_path / "store").unlink()
    spill = narrow(road.state.scorer, tmp_path / "store", rows=1)
    assert spill.evict(waiting(road))
    for part in (tmp_path / "store").rglob("parts/*"):
        part.unlink()
    before, away = road.state.scorer.as_arrays(), spill.evicted.copy()
    with pytest.raises(FingerprintError, match="missing"):
        spill.reload(away)
    unchanged(road.state.scorer, before)
    assert (spill.evicted == away).all()


def unchanged(ledger: ScorerState, before: dict[str, np.ndarray]) -> None:
    now = ledger.as_arrays()
    assert now.keys() == before.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(now[name], array, err_msg=name)
