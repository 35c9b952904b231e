"""What a bank learns of sequences: counts against a loop over events, and votes on a twentieth of harmless events at most."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fingerprint.adapters.event_spool import EventSpool
from fingerprint.adapters.files import read_sources
from fingerprint.compute import hashing
from fingerprint.core.settings import SequenceSettings
from fingerprint.estimators import sequence
from fingerprint.estimators.sequence import (
    ANY,
    CONTEXT_SECONDS,
    ORGANISATION,
    START,
    TOTAL,
    Transitions,
    count_of,
)
from fingerprint.registry.bank import Bank
from fingerprint.training import action_transitions, fingerprint_index, pipeline
from fingerprint.training.action_rows import ActionRows
from fingerprint.training.action_transitions import HoldoutSurprises
from fingerprint.training.dataset import PartitionedDataset
from tests.support.sample_organisation import SETTINGS, SampleOrganisation

PARTITIONS = 2


@pytest.fixture(scope="module")
def events(organisation: SampleOrganisation) -> pd.DataFrame:
    with EventSpool(SETTINGS) as history:
        history.add_batches(read_sources(organisation.learned, SETTINGS.reading))
        return pd.concat(list(history.batches()), ignore_index=True)


@pytest.fixture(scope="module")
def history(events: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> PartitionedDataset:
    """The history in two partitions, as a training left it."""
    folder = tmp_path_factory.mktemp("history")
    half = SETTINGS.training.model_copy(update={"partition_events": -(-len(events) // PARTITIONS)})
    settings = SETTINGS.model_copy(update={"training": half})
    pipeline.partition_history([events], settings, folder, len(events))
    pipeline.train_partitions(folder, settings)
    return PartitionedDataset(folder, PARTITIONS)


def plain_counts(events: pd.DataFrame) -> Counter[tuple[object, object, object]]:
    """(principal or None, context or None, action) -> intervals, one event at a time."""
    once = events.drop_duplicates("event_id")
    seconds = once["event_time"].astype("int64") // 1_000_000
    rows = sorted(set(zip(once["principal"], seconds, once["service"] + ":" + once["action"], strict=True)))
    found = set()
    for who, when, what in rows:
        here = (who, when, what)
        first = bisect_left(rows, (who, when - CONTEXT_SECONDS, ""))
        near = [
            did
            for other, at, did in rows[first : bisect_left(rows, (who, when + 1, ""))]
            if (other, at, did) != here
        ]
        found |= {(who, context, what, when // 3600) for context in near or [None]}
    return Counter((who, context, what) for who, context, what, _ in found)


def test_a_transition_is_counted_once_in_each_interval_of_a_principal(
    events: pd.DataFrame, bank: Bank
) -> None:
    some = events[events["principal"].isin(events["principal"].value_counts().index[2:4])]
    counted = plain_counts(some)
    assert len(counted) > 50
    codes = {name: hashing.hash_string(str(name)) for _, _, name in counted}
    for (who, context, what), times in list(counted.items())[:400]:
        principal = hashing.hash_with_bucket(pd.Series([who], dtype=object))[0]
        before = START if context is None else codes[context]
        assert count_of(bank.transitions, principal, before, codes[what])[0] == times


def test_a_held_out_day_is_judged_by_the_other_days() -> None:
    """Days to come are no part of the tails: a strange action of one held-out day is as rare as it would be then."""
    days, calls = 4, 200
    day = np.repeat(np.arange(days), calls)
    place = np.where(np.arange(days * calls) >= days * calls - 3, 60, np.tile(np.arange(calls) // 10, days))
    held = HoldoutSurprises(
        principal=np.arange(days * calls, dtype=np.uint64) % 20,
        action=np.arange(days * calls, dtype=np.uint64),
        interval=(day * 24 + np.tile(np.arange(calls) % 24, days)).astype(np.int32),
        kind=np.ones(days * calls, np.uint64),
        place=place.astype(np.int64),
        events=np.ones(days * calls),
    )
    z = action_transitions.z_by_other_days(held, 3600)
    kinds, tail = sequence.fit_tails(held.kind, held.place, held.balanced)
    of_all = sequence.z_of_places(Transitions(*(np.empty(0),) * 4, kinds, tail), held.place, held.kind)
    assert (z[-3:] > of_all[-3:] + 0.1).all()
    rows = {name: getattr(held, name) for name in ("principal", "interval", "action")}
    least = float(z[-1]) - 0.01
    assert np.flatnonzero(action_transitions.row_votes(held, z, rows, least, least)).tolist() == [
        797,
        798,
        799,
    ]
    assert not action_transitions.row_votes(held, of_all, rows, least, least).any()


def test_the_organisation_counts_what_all_principals_did(bank: Bank) -> None:
    known = bank.transitions
    actions = known.contexts[known.contexts != START]
    principals = bank.people["hash"].to_numpy()
    for context in actions[:5]:
        for action in actions[:20]:
            mine = sum(count_of(known, who, context, action)[0] for who in principals)
            assert count_of(known, ORGANISATION, context, action)[0] == mine
    _, total = count_of(known, ORGANISATION, ANY, actions[0])
    assert total >= sum(count_of(known, ORGANISATION, ANY, action)[0] for action in actions) > 0
    assert count_of(known, ORGANISATION, TOTAL, TOTAL)[0] >= len(actions)


def test_what_usually_follows_an_action_is_named_most_often_first(bank: Bank) -> None:
    known = bank.transitions
    assert (np.diff(known.contexts.astype(float)) > 0).all()
    for context, usual in list(zip(known.contexts, known.usual, strict=True))[:20]:
        times = [count_of(known, ORGANISATION, context, action)[0] for action in usual if action]
        assert times == sorted(times, reverse=True)
        assert min(times) > 0


def test_of_the_events_held_out_a_twentieth_has_the_vote_at_most_of_every_kind(
    history: PartitionedDataset,
) -> None:
    found = action_transitions.holdout_surprises(history)
    kind, place, events = found.kind, found.place, found.events
    held = sum(
        ActionRows.load(history.partition_folder(number) / "rows")
        .events[
            fingerprint_index.load_split(history).is_held_out(
                ActionRows.load(history.partition_folder(number) / "rows")
            )
        ]
        .sum()
        for number in history.non_empty()
    )
    assert events.sum() == held > 500
    kinds, tail = sequence.fit_tails(kind, place, events)
    z = sequence.z_of_surprise(
        sequence.Transitions(*[np.empty(0, np.uint64)] * 4, kinds, tail),
        ((place + 0.5) * sequence.GRID_STEP).astype(np.float32),
        kind,
    )
    voted = z >= SequenceSettings().threshold
    assert 0 < events[voted].sum() / events.sum() <= SequenceSettings().vote_share
    for each in np.unique(kind):
        mine = kind == each
        share = events[mine & voted].sum() / (events[mine].sum() + sequence.KIND_PRIOR_EVENTS)
        assert share <= SequenceSettings().vote_share


def test_an_action_repeated_within_a_second_is_one_row_with_all_its_events(
    history: PartitionedDataset, events: pd.DataFrame
) -> None:
    rows = [ActionRows.load(history.partition_folder(number) / "rows") for number in history.non_empty()]
    assert sum(each.events.sum() for each in rows) == events["event_id"].nunique()
    for each in rows:
        assert len(np.unique(each.mark)) == len(each)
        assert (np.diff(each.second) >= 0).all()


def test_a_history_of_one_interval_holds_out_a_share_of_its_rows(
    events: pd.DataFrame, tmp_path: Path
) -> None:
    hour = events["event_time"].dt.floor("h")
    busiest = events[hour == hour.value_counts().index[0]].reset_index(drop=True)
    bank = pipeline.train([busiest], SETTINGS)
    assert bank.transitions.tail.shape[1] == sequence.GRID_SIZE
    assert (bank.transitions.tail > 0).all()
