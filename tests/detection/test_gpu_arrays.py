"""The pipeline on arrays that lie elsewhere says what it says on the host's, and brings down what waits and little else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import fake_cupy
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fingerprint.compute import arrays, frames, hashing
from fingerprint.compute.sorted_table import SortedTable
from fingerprint.core.alert import Alert
from fingerprint.core.settings import Voting
from fingerprint.detection import batch as measured
from fingerprint.detection.detectors.isolation_forest import IsolationForestDetector
from fingerprint.detection.inference import LocalInference
from fingerprint.estimators import tail_calibration
from fingerprint.pipeline import DetectionPipeline, StepResult
from fingerprint.registry.bank import Bank
from fingerprint.registry.bank_files import open_bank
from fingerprint.state.event_batch import ARRAY_FIELDS, EventBatch
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from tests.support import stepwise_pipeline

SETTINGS = stepwise_pipeline.SETTINGS.model_copy(
    update={"voting": Voting(detectors=("autoencoder", "spectral", "sequence"))}
)
there = fake_cupy.asarray
NUMBERS = np.arange(5)

NEWCOMER = "999999999999:user/eve"

ROUNDING = 1e-4  # of a z or a count: a host's transforms are SciPy's, the fake device has NumPy's, and each rounds in its own way


# --- the fake ---------------------------------------------------------------------------------------------------------

REFUSED: dict[str, Callable[[Any], Any]] = {
    "an array of the host added": lambda x: x + NUMBERS,
    "being added to one": lambda x: NUMBERS + x,
    "being compared with one": lambda x: x == NUMBERS,
    "one among its own": lambda x: fake_cupy.concatenate([x, NUMBERS]),
    "one as places": lambda x: x[NUMBERS],
    "one as values": lambda x: x.__setitem__(slice(None), NUMBERS),
    "NumPy's functions": lambda x: np.add(x, 1),
    "NumPy's lists of arrays": lambda x: np.concatenate([x, x]),
    "being turned into one": lambda x: np.asarray(x),
    "being gone through": lambda x: list(x),
    "being a number of places": lambda x: range(x[1]),
    "objects": lambda _: there(np.array(["a"], object)),
    "texts": lambda _: there(np.array(["a"])),
    "times": lambda _: there(np.array(["2026-01-01"], "datetime64[us]")),
    "names that it lacks": lambda _: fake_cupy.errstate(),
    "keywords that it lacks": lambda x: x.max(initial=0),
    "stacks of keys that are none": lambda x: fake_cupy.lexsort((x, x)),
    "unlike types in a search": lambda x: fake_cupy.searchsorted(x, x.astype(np.uint64)),
    "a count for each": lambda x: fake_cupy.repeat(x, x),
    "whole numbers of 64 bits added in places": lambda x: fake_cupy.add.at(x, x, 1),
    "places written twice": lambda x: x.__setitem__(there([1, 1]), there([2, 3])),
    "places out of bounds": lambda x: x[there([5])],
    "sums of runs": lambda x: fake_cupy.add.reduceat,
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_fake_refuses(what: str) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError, IndexError, NotImplementedError)):
        REFUSED[what](there(NUMBERS))


def test_the_fake_counts_what_comes_down_however_it_comes() -> None:
    x = there(NUMBERS)
    fake_cupy.moved.reset()
    assert (x.get().sum(), x.tolist()[1], int(x[1]), bool((x > 3).any()), x[2].item()) == (10, 1, 1, True, 2)
    assert (fake_cupy.moved.down, fake_cupy.moved.bytes_down) == (5, 5 * 8 + 5 * 8 + 8 + 1 + 8)


# --- what the libraries do differently ----------------------------------------------------------------------------------

columns = st.lists(st.tuples(st.integers(0, 9), st.integers(-5, 5)), min_size=1, max_size=40)


@given(columns)
def test_what_is_said_once_gives_the_same_here_and_there(pairs: list[tuple[int, int]]) -> None:
    major, minor = np.array(pairs, np.int64).T.copy()
    major = major.astype(np.uint64)
    assert arrays.lexsort(there(minor), there(major)).tolist() == arrays.lexsort(minor, major).tolist()
    code, distinct = arrays.unique_inverse(there(major))
    assert distinct[code].tolist() == major.tolist()
    assert sorted(distinct.tolist()) == sorted(arrays.unique_inverse(major)[1].tolist())
    lengths = major.astype(np.int64)
    assert arrays.segment_ids(there(lengths)).tolist() == arrays.segment_ids(lengths).tolist()
    starts = np.flatnonzero(np.arange(len(minor)) % 3 == 0)
    for column in (minor, minor.astype(np.float32), minor.astype(np.int32)):
        here, far = arrays.segment_sums(column, starts), arrays.segment_sums(there(column), there(starts))
        assert (far.dtype, far.tolist()) == (here.dtype, here.tolist())


def test_arrays_go_where_others_lie_and_tensors_share_their_memory() -> None:
    up = arrays.to_device_of(NUMBERS, there(NUMBERS))
    assert arrays.namespace(up) is fake_cupy
    assert arrays.to_device_of(up, NUMBERS).tolist() == NUMBERS.tolist()
    assert arrays.to_host(NUMBERS) is NUMBERS
    tensor = arrays.to_torch(up)
    tensor += 1
    assert up.tolist() == (NUMBERS + 1).tolist()
    sealed = NUMBERS.copy()
    sealed.flags.writeable = False
    assert arrays.to_torch(sealed).tolist() == [0, 1, 2, 3, 4]


pieces = st.lists(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=30), max_size=6)


@given(pieces, st.booleans())
def test_tables_keep_the_same_there_and_answer_where_they_are_asked(
    parts: list[list[tuple[int, int]]], keep_first: bool
) -> None:
    here, far = (SortedTable.empty(keep_first, place=place, count=np.float32) for place in (_here, there))
    wanted = np.arange(45, dtype=np.uint64)
    for part in parts:
        keys, counts = np.array(part, np.int64).reshape(-1, 2).T
        for table in (here, far):
            table.add(keys.astype(np.uint64), count=counts)
            table.overwrite(wanted[:3], "count", np.full(3, 7, np.float32))
        far.retain(far.compact()[0] != 4)
        here.retain(here.compact()[0] != 4)
    assert far.get(wanted, "count", -1).tolist() == here.get(wanted, "count", -1).tolist()
    assert arrays.namespace(far.get(there(wanted), "count")) is fake_cupy
    assert far.has(there(wanted)).tolist() == here.has(wanted).tolist()


def test_names_are_made_the_same_there() -> None:
    names = hashing.hash_with_bucket(pd.Series(["alice", "bob", "alice"]))
    for value in (names[::-1].copy(), np.uint64(7), 7):
        far = value if isinstance(value, (int, np.uint64)) else there(value)
        assert hashing.combine(there(names), far).tolist() == hashing.combine(names, value).tolist()


def test_rare_is_as_rare_there_however_rare_it_is() -> None:
    exact = -np.concatenate([[0.0], np.logspace(-9, 4, 500)])
    for log_share in (exact, exact.astype(np.float32)):
        np.testing.assert_allclose(
            tail_calibration.z_of_log_survival(there(log_share)).get(),
            tail_calibration.z_of_log_survival(log_share),
            atol=1e-5,
        )


# --- the pipeline -----------------------------------------------------------------------------------------------------------


def _here(value: Any) -> Any:
    return value


@pytest.fixture(scope="module")
def bank(organisation: Any) -> Bank:
    return open_bank(organisation.bank)


@pytest.fixture(scope="module")
def batches(organisation: Any) -> list[pd.DataFrame]:
    """The new events, 900 at a time, some hours late; the first of them also as those of a user that was never seen."""
    events = pd.concat([step.events for step in stepwise_pipeline.steps_of(organisation)], ignore_index=True)
    fresh = events.iloc[:60].assign(principal=NEWCOMER, entity=f"{NEWCOMER}|s3", kind="user")
    fresh["event_id"] = "fresh-" + fresh["event_id"].astype(str)
    events = pd.concat([fresh, events], ignore_index=True)
    return [events.iloc[at : at + 900].reset_index(drop=True) for at in range(0, len(events), 900)]


def walks(
    bank: Bank, batches: list[pd.DataFrame], place: arrays.Placement, tables: str, every_event: bool = True
) -> Iterator[tuple[DetectionPipeline, StepResult]]:
    """Run the pipeline, batch by batch. A third of the way the scorer state is put away and taken back; after two thirds
    another bank judges."""
    placed = bank.on(place)
    pipeline = DetectionPipeline(
        placed,
        PipelineState(ScorerState.from_arrays(SETTINGS, bank.scorer_state, place)),
        SETTINGS,
        every_event,
        emit_early=True,
    )
    for number, events in enumerate(batches):
        if number == len(batches) // 3:
            pipeline.state.scorer.replace_with(
                ScorerState.from_arrays(SETTINGS, pipeline.state.scorer.as_arrays(), place)
            )
        if number == 2 * len(batches) // 3:
            other = replace(bank, manifest={**bank.manifest, "version": "another"})
            pipeline.swap_bank(other.on(place))
        yield pipeline, pipeline.process(frames.to_device(events, tables))
    yield pipeline, pipeline.flush()


class Walked(NamedTuple):
    """A pipeline that was walked to its end, and all that it results."""

    pipeline: DetectionPipeline
    results: list[StepResult]

    @property
    def alerts(self) -> list[Alert]:
        return [alert for each in self.results for alert in each.alerts]


def walked(*arguments: Any) -> Walked:
    pipelines, results = zip(*walks(*arguments), strict=True)
    return Walked(pipelines[-1], list(results))


@pytest.fixture(scope="module")
def here(bank: Bank, batches: list[pd.DataFrame]) -> Walked:
    return walked(bank, batches, _here, "pandas")


@pytest.fixture(scope="module", params=["pandas", "fake_cudf"])
def far(bank: Bank, batches: list[pd.DataFrame], request: pytest.FixtureRequest) -> Walked:
    """With arrays elsewhere; tables of events here, or there too."""
    return walked(bank, batches, there, request.param)


def test_the_pipeline_says_there_what_it_says_here(here: Walked, far: Walked) -> None:
    assert here.pipeline.counters.verdicts > 0
    assert here.pipeline.counters.silent_intervals > 0
    assert here.pipeline.counters == far.pipeline.counters
    assert here.alerts == far.alerts


def test_events_have_the_same_memory_z_and_verdict_there(here: Walked, far: Walked) -> None:
    mine, theirs = stepwise_pipeline.outcome(here.results), stepwise_pipeline.outcome(far.results)
    for name in (*stepwise_pipeline.MEMORY, "verdict", "alert_id", "bank_version", "degraded"):
        assert mine.events[name].astype(str).equals(theirs.events[name].astype(str)), name
    for name in ("autoencoder_z", "spectral_z", "sequence_z"):
        np.testing.assert_allclose(mine.events[name], theirs.events[name], atol=ROUNDING, err_msg=name)
    newcomer = mine.events["principal"].eq(NEWCOMER) & mine.events["action"].ne("AssumeRoleWithWebIdentity")
    assert mine.events.loc[newcomer, "spectral_z"].notna().all(), "judged by how others began"
    pd.testing.assert_frame_equal(mine.votes, theirs.votes, atol=ROUNDING, rtol=0, check_dtype=False)


def test_a_scorer_state_comes_back_from_there_as_it_is_here(here: Walked, far: Walked) -> None:
    mine, theirs = here.pipeline.state.scorer.as_arrays(), far.pipeline.state.scorer.as_arrays()
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        assert type(theirs[name]) is np.ndarray, name
        assert theirs[name].dtype == array.dtype, name
        np.testing.assert_allclose(theirs[name], array, atol=ROUNDING, err_msg=name)


BYTES = 64  # that an event may bring down which does not wait: what is distinct and must be named, and votes
WAITS = 300  # times that a batch may wait for the device, however many events it has


def test_of_a_batch_only_what_waits_comes_down(bank: Bank, batches: list[pd.DataFrame]) -> None:
    events = pd.concat(batches, ignore_index=True)
    lifted = frames.to_device(events, "fake_cudf")
    pipeline = DetectionPipeline(
        bank.on(there), PipelineState(ScorerState.from_arrays(SETTINGS, bank.scorer_state, there)), SETTINGS
    )
    fake_cupy.moved.reset()
    pipeline.scorer.measure(lifted)
    moved = replace(fake_cupy.moved)
    [waiting] = pipeline.state.pending.parts
    assert 0 < len(waiting) < len(events) * 3 // 5
    assert moved.bytes_down - bytes_of(waiting, lifted, events) < BYTES * len(events)
    assert moved.down < WAITS


def bytes_of(waiting: EventBatch, lifted: Any, events: pd.DataFrame) -> int:
    """What these events alone bring down: their columns, codes and evidence."""
    fake_cupy.moved.reset()
    frames.to_pandas(
        frames.select_rows(lifted, events["event_id"].isin(waiting.frame["event_id"]).to_numpy())
    )
    numbers = [*waiting.evidence.values(), *(getattr(waiting, name) for name in ARRAY_FIELDS)]
    return fake_cupy.moved.bytes_down + sum(each.nbytes for each in numbers)


def test_the_forest_is_asked_on_the_host(bank: Bank, batches: list[pd.DataFrame]) -> None:
    found = []
    for place in (_here, there):
        placed, scorer_state = bank.on(place), ScorerState.from_arrays(SETTINGS, bank.scorer_state, place)
        batch, _ = measured.encode_batch(batches[0], scorer_state)
        row, level = placed.resolve(batch.entity, batch.principal, batch.frame)
        forest = IsolationForestDetector(SETTINGS, placed, scorer_state, LocalInference(placed))
        found.append(forest.measure(replace(batch, fingerprint=row, level=level)))
    assert arrays.namespace(found[1]) is fake_cupy
    np.testing.assert_allclose(found[1].get(), found[0], atol=1e-6)
