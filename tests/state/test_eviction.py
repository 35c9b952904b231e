"""A scorer state with far too little room says exactly what one with enough says."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fingerprint.adapters.checkpoints import FileCheckpointStore
from fingerprint.compute import hashing
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Partition
from fingerprint.core.settings import Checkpoints, Settings
from fingerprint.detection.detectors.spectral import EVENT_CHANNEL
from fingerprint.pipeline import DetectionPipeline
from fingerprint.registry import bank as banks
from fingerprint.state import checkpoint_codec
from fingerprint.state.eviction import StateEvictor, bucket_mask
from fingerprint.state.scorer_state import ScorerState
from tests.support.stepwise_pipeline import Outcome, Step, pipeline_of, same, silences, walked

PARTITION = Partition("events", 0)
ROWS = 100


def narrow(scorer_state: ScorerState, folder: Path, rows: int = ROWS) -> StateEvictor:
    store = FileCheckpointStore(Checkpoints(url=str(folder)))
    put = partial(store.put_blob, PARTITION)
    return StateEvictor(scorer_state, rows, put, store.get_blob, EVENT_CHANNEL)


def waiting(pipeline: DetectionPipeline) -> np.ndarray:
    """The homes of events and verdicts that wait."""
    parts = [*pipeline.state.pending.parts, *(each.batch for each in pipeline.state.open_alerts.verdicts)]
    return bucket_mask(part.principal for part in parts)


class Narrow:
    """A pipeline that puts away and fetches, and keeps count."""

    def __init__(self, spill: StateEvictor) -> None:
        self.spill, self.rows, self.away = spill, [], 0

    def before(self, pipeline: DetectionPipeline, step: Step) -> DetectionPipeline:
        self.spill.reload(bucket_mask([hashing.hash_with_bucket(step.events["principal"])]))
        return pipeline

    def after(self, pipeline: DetectionPipeline, step: Step) -> DetectionPipeline:
        self.away += self.spill.evict(waiting(pipeline))
        self.rows.append(len(pipeline.state.scorer.series.owner))
        return pipeline


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
    pipeline = pipeline_of(bank, bank.scorer_state)
    run = Narrow(narrow(pipeline.state.scorer, tmp_path))
    outcome = walked(pipeline, steps, run.before, run.after)
    assert silences(undisturbed)
    assert run.away >= run.spill.reloaded_buckets > 50
    same(outcome, undisturbed)
    in_memory = len(pipeline.state.scorer.series.owner)
    run.spill.reload(np.ones(hashing.BUCKETS, bool))
    everything = len(pipeline.state.scorer.series.owner)
    assert max(run.rows) < everything * 0.75
    assert in_memory < everything * 0.6
    assert not run.spill.blob_names()


def test_a_restart_knows_what_was_away(
    bank: banks.Bank, steps: list[Step], undisturbed: Outcome, tmp_path: Path
) -> None:
    pipeline = pipeline_of(bank, bank.scorer_state)
    state = Narrow(narrow(pipeline.state.scorer, tmp_path))

    def restarted(pipeline: DetectionPipeline, step: Step) -> DetectionPipeline:
        state.after(pipeline, step)
        packed = checkpoint_codec.pack_arrays(state.spill.as_arrays())
        again = pipeline_of(bank, pipeline.state.scorer.as_arrays())
        again.state.pending.parts = pipeline.state.pending.parts
        again.scorer.owner_names = pipeline.scorer.owner_names
        again.state.open_alerts = replace(pipeline.state.open_alerts, published_sizes={}, provisional=set())
        names, fetched = state.spill.blob_names(), state.spill.reloaded_buckets
        state.spill = narrow(again.state.scorer, tmp_path)
        state.spill.restore(checkpoint_codec.unpack_arrays(packed))
        state.spill.reloaded_buckets = fetched
        assert state.spill.blob_names() == names
        return again

    outcome = walked(pipeline, steps, state.before, restarted)
    assert state.spill.reloaded_buckets > 50
    same(outcome, undisturbed)


def test_who_waits_or_was_just_active_is_not_put_away(
    bank: banks.Bank, steps: list[Step], tmp_path: Path
) -> None:
    pipeline = pipeline_of(bank, bank.scorer_state)
    spill = narrow(pipeline.state.scorer, tmp_path, rows=1)
    for step in steps[:5]:
        spill.reload(bucket_mask([hashing.hash_with_bucket(step.events["principal"])]))
        pipeline.process(*step)
    spill.evict(waiting(pipeline))
    assert spill.evicted.any()
    assert not (spill.evicted & waiting(pipeline)).any()
    running = steps[4].events["event_time"].dt.floor("h") >= steps[4].events["event_time"].max().floor("h")
    active = bucket_mask([hashing.hash_with_bucket(steps[4].events["principal"][running])])
    assert active.any()
    assert not (spill.evicted & active).any()


def test_a_store_that_cannot_take_or_give_leaves_all_as_it_was(
    bank: banks.Bank, steps: list[Step], tmp_path: Path
) -> None:
    pipeline = pipeline_of(bank, bank.scorer_state)
    spill = narrow(pipeline.state.scorer, tmp_path / "store", rows=1)
    pipeline.process(*steps[0])
    (tmp_path / "store").write_text("a file where the folder should be")
    before = pipeline.state.scorer.as_arrays()
    with pytest.raises(FingerprintError):
        spill.evict(waiting(pipeline))
    unchanged(pipeline.state.scorer, before)
    (tmp_path / "store").unlink()
    spill = narrow(pipeline.state.scorer, tmp_path / "store", rows=1)
    assert spill.evict(waiting(pipeline))
    for part in (tmp_path / "store").rglob("parts/*"):
        part.unlink()
    before, away = pipeline.state.scorer.as_arrays(), spill.evicted.copy()
    with pytest.raises(FingerprintError, match="missing"):
        spill.reload(away)
    unchanged(pipeline.state.scorer, before)
    assert (spill.evicted == away).all()


def test_strangers_that_are_put_away_make_no_room_for_others(tmp_path: Path) -> None:
    """The limit on unknown principals is that of a day, also where some of them are not in memory."""
    scorer_state, limit, hour = ScorerState(Settings()), 300, 480_000 // 24 * 24
    spill, random, admitted = narrow(scorer_state, tmp_path), np.random.default_rng(0), 0
    for interval in range(hour, hour + 4):
        who = random.integers(1, 2**63, 500, dtype=np.uint64)
        spill.reload(bucket_mask([who]))
        at, codes = (
            np.full(len(who), interval, np.int32),
            random.integers(1, 2**60, (500, 64), dtype=np.uint64),
        )
        scorer_state.update_history(who, at, codes)
        channel = np.full(len(who), EVENT_CHANNEL)
        scorer_state.series.add_counts(who, channel, at, at, np.ones(len(who), np.float32))
        admitted += int(scorer_state.admit_unknown(who, at, np.ones(len(who), np.int32), limit).sum())
        scorer_state.watermark, scorer_state.voted_until = (interval + 2) * 3600, interval + 1
        spill.evict(np.zeros(hashing.BUCKETS, bool))
    assert spill.evicted.any()
    assert admitted == limit
    spill.reload(np.ones(hashing.BUCKETS, bool))
    assert len(scorer_state.unknown_principals) == limit


def unchanged(scorer_state: ScorerState, before: dict[str, np.ndarray]) -> None:
    now = scorer_state.as_arrays()
    assert now.keys() == before.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(now[name], array, err_msg=name)
