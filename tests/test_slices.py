"""A ledger that was cut and put together again goes on as if it had not been; a part says of its own what the whole does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import road as roads
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint import bank as banks
from fingerprint import hashing, slices
from fingerprint.edges import files
from fingerprint.edges.history import History
from fingerprint.features import FEATURES
from fingerprint.ledger import Ledger
from fingerprint.road import Road
from fingerprint.settings import Settings, Spectral

STEP = 150
# a threshold so low that a principal of this small organisation can be missed
SETTINGS = roads.SETTINGS.model_copy(update={"spectral": Spectral(threshold=2.0)})
MEMORY = ["idle", "today", "sources", "actions"]
START = 480_000 // 24 * 24


@pytest.fixture(scope="module")
def bank(organisation: roads.Road) -> banks.Bank:
    return banks.open_bank(organisation.bank)


@pytest.fixture(scope="module")
def steps(organisation: roads.Road) -> list[tuple[pd.DataFrame, int]]:
    """The new events, a step at a time, and how far time has come after each."""
    with History(roads.SETTINGS) as history:
        for records in files.read(organisation.new, roads.SETTINGS.reading):
            history.add(records)
        events = pd.concat(list(history.chunks()), ignore_index=True)
    busiest = events["principal"].value_counts().index[0]
    silent = (events["principal"] == busiest) & (events.index > len(events) // 3)
    events = events[~silent].reset_index(drop=True)
    parts = [events.iloc[at : at + STEP].reset_index(drop=True) for at in range(0, len(events), STEP)]
    return [(part, int(part["event_time"].max().timestamp())) for part in parts]


@pytest.fixture(scope="module")
def undivided(bank: banks.Bank, steps: list[tuple[pd.DataFrame, int]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    return walked(road_of(bank, bank.ledger), steps)


def road_of(bank: banks.Bank, arrays: slices.Arrays) -> Road:
    return Road(bank, Ledger.from_arrays(SETTINGS, arrays), SETTINGS, every_event=True)


def walked(
    road: Road, steps: list[tuple[pd.DataFrame, int]], seed: int | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Judged events and votes; with a seed the ledger is cut and put together between steps, never twice the same way."""
    said, random = [], np.random.default_rng(seed)
    for events, watermark in steps:
        said.append(road.walk(events, watermark))
        if seed is not None:
            road = cut_and_mended(road, random.random(hashing.HOMES) < random.random())
    said.append(road.finish())
    events, votes = (
        pd.concat([part for step in said for part in parts(step)], ignore_index=True)
        for parts in (lambda step: step.judged, lambda step: [step.votes] if len(step.votes) else [])
    )
    return events.set_index("event_id").sort_index(), votes.set_index(["event_id", "detector"]).sort_index()


def cut_and_mended(road: Road, homes: np.ndarray) -> Road:
    whole = road.ledger.as_arrays()
    after = road_of(road.scorer.bank, slices.pick(whole, homes))
    after.ledger.merge(slices.pick(whole, ~homes))
    after.scorer.waiting, after.scorer.names, after.groups.open = (
        road.scorer.waiting,
        road.scorer.names,
        road.groups.open,
    )
    return after


def same(
    one: tuple[pd.DataFrame, pd.DataFrame], other: tuple[pd.DataFrame, pd.DataFrame], atol: float = 0
) -> None:
    """Memory, z's, verdicts; votes on intervals and silences."""
    for mine, theirs, columns in zip(
        one, other, (["autoencoder_z", "spectral_z"], ["z", "threshold"]), strict=True
    ):
        assert mine.index.equals(theirs.index)
        for column in columns:
            np.testing.assert_allclose(
                mine[column].astype(float), theirs[column].astype(float), atol=atol, rtol=0
            )
    pd.testing.assert_frame_equal(
        one[0][[*MEMORY, "verdict", "alert_id"]], other[0][[*MEMORY, "verdict", "alert_id"]]
    )


# --- on the road ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_a_ledger_cut_and_mended_after_every_step_judges_as_if_it_had_stayed_whole(
    bank: banks.Bank,
    steps: list[tuple[pd.DataFrame, int]],
    undivided: tuple[pd.DataFrame, pd.DataFrame],
    seed: int,
) -> None:
    assert undivided[1].index.get_level_values(0).str.startswith("silence:").any(), (
        "silences are among the votes"
    )
    same(walked(road_of(bank, bank.ledger), steps, seed), undivided)


def test_each_quarter_of_the_virtual_partitions_says_of_its_principals_what_the_whole_says(
    bank: banks.Bank, steps: list[tuple[pd.DataFrame, int]], undivided: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    parts = []
    for quarter in range(4):
        homes = hashing.of_partitions(np.arange(256) % 4 == quarter)
        theirs = [
            (
                events[homes[hashing.homes(hashing.homed(events["principal"]))]].reset_index(drop=True),
                watermark,
            )
            for events, watermark in steps
        ]
        parts.append(walked(road_of(bank, slices.pick(bank.ledger, homes)), theirs))
    together = pd.concat([part[0] for part in parts]), pd.concat([part[1] for part in parts])
    same((together[0].sort_index(), together[1].sort_index()), undivided)


# --- by itself --------------------------------------------------------------------------------------------------------


def small_ledger(seed: int) -> Ledger:
    """Forty principals over some days: ids, activity, novelties, company, series with forecasts."""
    random, count = np.random.default_rng(seed), 400
    ledger = Ledger(Settings())
    people = hashing.homed(pd.Series([f"1:user/{number}" for number in range(40)]))
    for day in range(4):
        who = people[random.integers(0, len(people), count)]
        interval = (START + day * 24 + random.integers(0, 24, count)).astype(np.int32)
        codes = random.integers(1, 9, (count, len(FEATURES))).astype(np.uint64)
        ledger.fresh(who, random.integers(0, 2**63, count).astype(np.uint64), interval // 24)
        ledger.remember(who, interval, codes)
        ledger.seen_before(hashing.within(who, codes[:, 0]), interval)
        ledger.company.add(who, interval, codes, random.random(codes.shape).astype(np.float32) * 9)
        since, weight = ledger.since(who), np.ones(count, np.float32)
        keys = ledger.series.count(who, codes[:, 1], interval, since, weight)
        ledger.series.z(ledger.series.find(keys), interval)
        ledger.see(interval.astype(np.int64) * 3600)
        ledger.advance()
    return ledger


@given(seed=st.integers(0, 99), share=st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_two_parts_hold_all_of_a_ledger_and_nothing_twice(seed: int, share: float) -> None:
    whole = small_ledger(seed).as_arrays()
    homes = np.random.default_rng(seed).random(hashing.HOMES) < share
    parts = [slices.pick(whole, homes), slices.pick(whole, ~homes)]
    for name, array in whole.items():
        if name != "clock":
            assert sum(len(part[name]) for part in parts) == len(array), name
            assert all(part[name].dtype == array.dtype for part in parts), name
    for part in parts:
        for name in ("principals.key", "activity.key", "series.past.key", "series.open.key", "repeats.key"):
            assert (np.diff(part[name].astype(object)) > 0).all(), f"{name} is sorted"


@given(seed=st.integers(0, 99), share=st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_what_was_cut_out_and_put_back_is_all_there_and_belongs_to_the_same(seed: int, share: float) -> None:
    ledger = small_ledger(seed)
    whole = ledger.as_arrays()
    homes = np.random.default_rng(seed).random(hashing.HOMES) < share
    mended = Ledger.from_arrays(Settings(), slices.pick(whole, homes))
    mended.merge(slices.pick(whole, ~homes))
    for table in ("repeats", "firsts", "seen", "company.values", "company.sums"):
        for name in (each for each in whole if each.rpartition(".")[0] == table):
            np.testing.assert_array_equal(mended.as_arrays()[name], whole[name], err_msg=name)
    keys = hashing.within(ledger.series.owner, ledger.series.channel)
    rows = [one.series.find(keys) for one in (ledger, mended)]
    for start, end in ((START, START + 96), (START + 48, START + 200)):
        dense = [one.series.dense(row, start, end) for one, row in zip((ledger, mended), rows, strict=True)]
        np.testing.assert_array_equal(*dense)
    now = np.full(len(keys), START + 96, np.int32)
    expected = [one.series.expected(row, now) for one, row in zip((ledger, mended), rows, strict=True)]
    np.testing.assert_array_equal(expected[0], expected[1])
