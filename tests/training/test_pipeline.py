"""A history is learned in pieces, and how many there are changes nothing; what was done is not done again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import identity_placement
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Autoencoder, Entities, Settings, Training, Workers
from fingerprint.detection.batch import encode_batch
from fingerprint.detection.detectors.autoencoder import AutoencoderDetector
from fingerprint.detection.inference import LocalInference
from fingerprint.estimators import harm
from fingerprint.estimators.call_paths import KnownPaths
from fingerprint.estimators.moves import SettledMachines
from fingerprint.estimators.newcomer_tails import NewcomerTails
from fingerprint.estimators.openers import RoleOpeners
from fingerprint.features import encoding
from fingerprint.registry.bank import PEER_LEVEL, Bank
from fingerprint.state.scorer_state import ScorerState
from fingerprint.training import (
    build_bank,
    dataset,
    distinct_rows,
    fingerprint_index,
    holdout_evidence,
    partition_finish,
    pipeline,
    shared_priors,
)
from fingerprint.training.distinct_rows import DistinctRows, sample_per_owner
from fingerprint.training.partition_context import PartitionContext
from pipelines.runtime import wiring
from tests.support.sample_organisation import SampleOrganisation

SETTINGS = Settings(autoencoder=Autoencoder(max_epochs=1))
STAGES = dict.fromkeys(
    ("rows", "shared_priors", "transitions", "surprises", "fitted", "learned"), 8
)  # folders of a piece


@pytest.fixture(scope="module")
def events(organisation: SampleOrganisation) -> list[pd.DataFrame]:
    """Nine days, oldest first."""
    with EventSpool(SETTINGS) as history:
        history.add_batches(files.read_sources(organisation.learned, SETTINGS.reading))
        return list(history.batches())


@pytest.fixture(scope="module")
def whole(events: list[pd.DataFrame]) -> Bank:
    """Learned in one piece."""
    return pipeline.train(events, SETTINGS)


def learn(
    events: Sequence[pd.DataFrame], folder: Path, count: int, settings: Settings = SETTINGS, **how: Any
) -> Bank:
    """Learned in `count` pieces, in a folder that stays."""
    divide(events, folder, count, settings)
    return pipeline.train_partitions(folder, settings, **how)


def divide(events: Sequence[pd.DataFrame], folder: Path, count: int, settings: Settings = SETTINGS) -> None:
    """The history of a folder, in `count` pieces."""
    total = sum(map(len, events))
    cut = settings.model_copy(update={"training": Training(partition_events=-(-total // count))})
    pipeline.partition_history(events, cut, folder, total)
    assert len(list((folder / "partitions").iterdir())) == count


def assert_same(one: Bank, other: Bank) -> None:
    """Every array and table, series and memories by their owners."""
    for table in ("fingerprints", "people", "words"):
        pd.testing.assert_frame_equal(getattr(one, table), getattr(other, table))
    for part in ("vocabulary", "weights", "baseline", "transitions"):
        for each in fields(getattr(one, part)):
            ours, theirs = (getattr(getattr(bank, part), each.name) for bank in (one, other))
            if np.issubdtype(ours.dtype, np.floating):
                np.testing.assert_allclose(
                    ours.astype(float), theirs.astype(float), atol=2e-3 if part == "weights" else 1e-4
                )
            else:
                np.testing.assert_array_equal(ours, theirs)
    for name, ours in scorer_state_by_owner(one).items():
        np.testing.assert_allclose(ours, scorer_state_by_owner(other)[name], atol=1e-5)


def scorer_state_by_owner(bank: Bank) -> dict[str, np.ndarray]:
    """A bank's scorer state without the numbers that its rows and slots happen to have."""
    scorer_state = bank.scorer_state
    owner = hashing.combine(scorer_state["series.owner"], scorer_state["series.channel"])
    principal = np.empty(len(scorer_state["principals.key"]), np.uint64)
    principal[scorer_state["principals.slot"]] = scorer_state["principals.key"]
    out = {
        "clock": scorer_state["clock"],
        "principals": scorer_state["principals.key"],
        "since": scorer_state["principals.since"],
    }
    for table, names in (("series.past", owner), ("series.open", owner), ("activity", principal)):
        keys = scorer_state[f"{table}.key"]
        cell = hashing.hash_pair(names[keys >> 32], (keys & 0xFFFFFFFF).astype(np.uint64))
        order = np.argsort(cell)
        for name in (name for name in scorer_state if name.startswith(f"{table}.")):
            out[name] = cell[order] if name.endswith(".key") else scorer_state[name][order]
    row = np.argsort(
        hashing.hash_pair(
            owner[scorer_state["series.days.row"]], scorer_state["series.days.number"].astype(np.uint64)
        )
    )
    return out | {name: scorer_state[f"series.days.{name}"][row] for name in ("expected", "spread")}


def test_how_many_pieces_there_are_changes_nothing(
    events: list[pd.DataFrame], whole: Bank, tmp_path: Path
) -> None:
    bank = learn(events, tmp_path, 8)
    assert_same(bank, whole)
    when = {"arrived_until": 0}  # the time of the training
    assert bank.manifest | when == whole.manifest | when


def test_what_is_drawn_of_all_pieces_does_not_depend_on_their_number(
    events: list[pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer rows are drawn than there are, for the sample of the bank, and for what all share."""
    for module in (build_bank, partition_finish):
        monkeypatch.setattr(module, "SAMPLE_ROWS", 50)
    monkeypatch.setattr(shared_priors, "MAX_SAMPLED_ROWS", dict.fromkeys(shared_priors.SHARED_LEVELS, 40))
    one, eight = pipeline.train(events, SETTINGS), learn(events, tmp_path, 8)
    assert_same(eight, one)
    ours, theirs = (
        sorted(
            zip(
                *(each.scorer_state[f"sample.{name}"].tolist() for name in ("fingerprint", "codes")),
                strict=True,
            )
        )
        for each in (one, eight)
    )
    assert ours == theirs
    assert len(ours) == 50


def test_where_a_chunk_is_cut_changes_nothing(events: list[pd.DataFrame], whole: Bank) -> None:
    together = pd.concat(events, ignore_index=True)
    assert_same(pipeline.train([together[:777], together[777:5000], together[5000:]], SETTINGS), whole)


def test_fingerprints_lie_home_by_home_and_parents_before_their_children(whole: Bank) -> None:
    table = whole.fingerprints
    own = table[table["level"] < 2]
    principal = np.where(own["level"] == 1, own.index, own["parent"])
    home = hashing.bucket_of(table["hash"].to_numpy(np.uint64)[principal])
    assert (np.diff(home.astype(int)) >= 0).all()
    assert (table["parent"] < table.index).all()


# --- broken off -------------------------------------------------------------------------------------------------------


class Killed(Exception):
    pass


class Mortal:
    """Dies before it does its piece number `last`, counted over all stages; counts what it did."""

    parallelism = 1

    def __init__(self, last: int) -> None:
        self.last, self.done = last, 0

    def map_unordered(self, work: Callable[[int], Any], numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        for place, number in enumerate(numbers):
            if self.done == self.last:
                raise Killed
            self.done += 1
            yield place, work(number)


def times(folder: Path) -> dict[Path, int]:
    """When each stage of each piece was done."""
    return {each: each.stat().st_mtime_ns for each in (folder / "partitions").glob("*/*") if each.is_dir()}


def test_a_training_that_is_broken_off_again_and_again_goes_on_where_it_was(
    events: list[pd.DataFrame], whole: Bank, tmp_path: Path
) -> None:
    divide(events, tmp_path, 8)
    before = dict[Path, int]()
    for last in (0, 5, 11, 17, 22):
        with pytest.raises(Killed):
            pipeline.train_partitions(tmp_path, SETTINGS, workers=Mortal(last))
        after = times(tmp_path)
        assert len(after) == last
        assert before.items() <= after.items(), "what is done is not done again"
        before = after
    assert_same(pipeline.train_partitions(tmp_path, SETTINGS), whole)
    assert before.items() <= times(tmp_path).items()


def test_what_was_half_done_is_not_taken_for_done(tmp_path: Path) -> None:
    def broken(folder: Path) -> None:
        (folder / "half").touch()
        raise Killed

    with pytest.raises(Killed):
        dataset.make_once(tmp_path / "stage", broken)
    assert list(tmp_path.iterdir()) == []
    dataset.make_once(tmp_path / "stage", lambda folder: (folder / "whole").touch())
    assert [each.name for each in (tmp_path / "stage").iterdir()] == ["whole"]


def test_two_who_do_the_same_piece_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    def slower(folder: Path) -> None:
        (folder / "result").write_text("same")
        dataset.make_once(tmp_path / "stage", lambda other: (other / "result").write_text("same"))

    dataset.make_once(tmp_path / "stage", slower)
    assert [each.name for each in tmp_path.iterdir()] == ["stage"]
    assert (tmp_path / "stage" / "result").read_text() == "same"


def test_worker_processes_learn_what_one_process_does(
    events: list[pd.DataFrame], whole: Bank, tmp_path: Path
) -> None:
    """One at a time: that several share a folder, those of a backfill show."""
    with wiring.open_worker_pool(Workers(scheduler="dask", processes=1)) as workers:
        assert_same(learn(events, tmp_path, 2, workers=workers), whole)


# --- rows -------------------------------------------------------------------------------------------------------------


def rows_of(events: Sequence[pd.DataFrame], folder: Path, settings: Settings = SETTINGS) -> DistinctRows:
    pipeline.partition_history(events, settings, folder)
    history = dataset.PartitionedDataset(folder, 1)
    return DistinctRows.load(distinct_rows.collect_rows(history, 0, settings))


def test_a_row_stands_for_all_events_that_are_alike_within_an_interval(
    events: list[pd.DataFrame], tmp_path: Path
) -> None:
    rows = rows_of(events, tmp_path)
    everything = pd.concat(events)
    assert rows.events.sum() == everything["event_id"].nunique() > len(rows)
    assert len(np.unique(rows.mark)) == len(rows)
    assert (np.diff(rows.interval) >= 0).all()


def test_rows_are_taken_of_parts_as_of_all_of_them_together() -> None:
    random = np.random.default_rng(0)
    for sizes in ([5, 0, 7, 1, 0], [0, 3], [4], [0, 0]):
        parts = [random.integers(0, 99, (size, 2)) for size in sizes]
        for taken in (random.random(sum(sizes)) < 0.5, np.ones(sum(sizes), bool), np.zeros(sum(sizes), bool)):
            found = dataset.take_rows(parts, np.flatnonzero(taken))
            np.testing.assert_array_equal(found, np.concatenate(parts)[taken])


def test_the_same_rows_are_drawn_whatever_else_is_there() -> None:
    random = np.random.default_rng(0)
    mark, owner = random.integers(0, 1 << 63, 1000).astype(np.uint64), random.integers(0, 5, 1000)
    drawn = sample_per_owner(owner, mark, 20)
    assert (np.bincount(owner[drawn]) == 20).all()
    some = np.flatnonzero(owner >= 3)
    np.testing.assert_array_equal(
        mark[drawn][owner[drawn] >= 3], mark[some][sample_per_owner(owner[some], mark[some], 20)]
    )
    assert len(np.intersect1d(sample_per_owner(owner, mark, 20, seed=1), drawn)) < 20


def test_a_record_dated_centuries_ahead_ends_no_series(events: list[pd.DataFrame], whole: Bank) -> None:
    stray = (
        events[0]
        .iloc[[5]]
        .assign(event_id="from-2199", event_time=lambda it: it["event_time"] + pd.Timedelta("63000D"))
    )
    bank = pipeline.train([*events, stray], SETTINGS)
    assert bank.manifest["watermark"] == whole.manifest["watermark"]
    ours, theirs = (len(each.scorer_state["series.past.key"]) for each in (bank, whole))
    assert ours == theirs


def test_one_day_weighs_no_more_than_the_cap_in_fitting(
    events: list[pd.DataFrame], whole: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distinct_rows, "MAX_ROWS_PER_DAY", 1)
    bank = pipeline.train(events, SETTINGS)
    np.testing.assert_array_equal(bank.vocabulary.count, whole.vocabulary.count)
    commons = 1 + (bank.fingerprints["level"] == 2).sum()
    own = bank.weights.row[commons:]
    own = own[own >= 0]
    assert (bank.weights.outputs[own] != whole.weights.outputs[own]).any()
    shared = bank.weights.row[:commons]
    shared = shared[shared >= 0]
    assert (bank.weights.outputs[shared] != whole.weights.outputs[shared]).any(), "nor in what all share"


def test_fingerprints_that_principals_share_are_learned_in_one_piece(
    events: list[pd.DataFrame], tmp_path: Path
) -> None:
    shared = SETTINGS.model_copy(
        update={"entities": Entities(granularity="service"), "training": Training(partition_events=100)}
    )
    by_service = [chunk.assign(entity=chunk["service"]) for chunk in events]
    pipeline.partition_history(by_service, shared, tmp_path, events=10_000)
    bank = pipeline.train_partitions(tmp_path, shared)
    entities = bank.fingerprints[bank.fingerprints["level"] == 0]
    assert len(list((tmp_path / "partitions").iterdir())) == 1
    assert len(entities) == entities["key"].nunique() == pd.concat(events)["service"].nunique()
    assert (entities["parent"] == 0).all()


def test_who_began_while_days_were_held_out_is_held_out_as_the_newcomer_that_it_was(
    events: list[pd.DataFrame], tmp_path: Path
) -> None:
    learn(events, tmp_path, 1)
    context = PartitionContext(dataset.PartitionedDataset(tmp_path, 1, 0, 0), 0, SETTINGS)
    ready, before, level = context.index.ready, context.ready_before, context.index.level
    assert not (before & ~ready).any()
    assert (before == ready)[level > fingerprint_index.PRINCIPAL].all(), "the shared ones are as they are"
    owner, options = context.owners[:, fingerprint_index.ENTITY], SETTINGS.entities
    events_before = np.bincount(owner[~context.held_out], context.rows.events[~context.held_out], len(ready))
    young = ready & ~before & (level == fingerprint_index.ENTITY)
    assert young.any()
    assert (events_before[before & (level == fingerprint_index.ENTITY)] >= options.min_ready_events).all()
    late = np.flatnonzero(context.held_out)
    judged = holdout_evidence._holdout_levels(context, late)
    assert (judged[young[owner[late]]] > fingerprint_index.ENTITY).all()
    assert (judged[before[owner[late]]] == fingerprint_index.ENTITY).all()


def test_a_held_out_write_that_names_an_account_of_which_no_one_knew_counts_as_severe(
    events: list[pd.DataFrame], tmp_path: Path
) -> None:
    """As in scoring: else the alert budget would not hold where such writes are ordinary work."""
    strange = copies(events, 2, target_account="999988887777", read_only=[False, True])
    named_too = partial(copies, events, 1, target_account="999988887777", read_only=False)
    member = named_too(service="sso", action="CreateAccountAssignment").assign(event_id="member")
    severe = named_too(service="ec2", action="ModifyImageAttribute").assign(event_id="severe")
    learn([*events, strange, member, severe], tmp_path, 1)
    context = PartitionContext(dataset.PartitionedDataset(tmp_path, 1, 0, 0), 0, SETTINGS)
    rows = context.rows.take(np.flatnonzero(context.held_out))
    code = hashing.hash_strings(np.array(["999988887777"], object))
    named, nats = (
        rows.codes[:, encoding.OTHER_ACCOUNT_FEATURE] == code,
        holdout_evidence._harm_nats(context, rows),
    )
    assigned, shared, severe_too = sorted(nats[named & rows.wrote].tolist())
    assert shared == pytest.approx(harm.STRANGER_NATS)
    severe_alone = harm.HARM_NATS["severe"] + harm.NEVER_CALLED_NATS
    assert severe_too == pytest.approx(severe_alone + harm.STRANGER_NATS), "two facts about one call"
    assert assigned < harm.STRANGER_NATS, "Identity Center assigns to members alone"
    assert nats[named & ~rows.wrote].max() < harm.STRANGER_NATS


def test_a_held_out_severe_action_counts_more_where_no_one_called_it_before(
    events: list[pd.DataFrame], tmp_path: Path
) -> None:
    """As in scoring: else the alert budget would not hold where such actions are ordinary work."""
    calls = [("cloudtrail", "StopLogging"), ("kms", "ScheduleKeyDeletion")]
    known = events[0].head(1).assign(event_id="long ago", service=calls[0][0], action=calls[0][1])
    late = copies(events, 2, service=[each for each, _ in calls], action=[each for _, each in calls])
    learn([known, *events, late.assign(error_code=None, error_message=None)], tmp_path, 1)
    context = PartitionContext(dataset.PartitionedDataset(tmp_path, 1, 0, 0), 0, SETTINGS)
    rows = context.rows.take(np.flatnonzero(context.held_out))
    nats = holdout_evidence._harm_nats(context, rows)
    codes = hashing.hash_strings(np.array([":".join(each) for each in calls], object))
    found = [nats[rows.codes[:, encoding.ACTION_COLUMN] == code].tolist() for code in codes]
    assert found == [pytest.approx([9.6]), pytest.approx([16])]


def test_a_held_out_opening_by_a_stranger_to_the_role_counts_once_and_the_bank_knows_who_opened_it(
    events: list[pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = str(events[-1]["recipient_account"].iloc[-1])
    call = {"service": "sts", "action": "AssumeRole", "resource": "role:deploy", "target_account": None}
    opened = copies(events, 10, **call, error_code=None, recipient_account=account, kind="role")
    usual, stranger = f"{account}:role/pipeline", f"{account}:role/stranger"
    pipeline_calls = opened.head(8).assign(principal=usual, entity=f"{usual}|sts")
    pipeline_calls["event_time"] -= pd.to_timedelta(np.arange(8)[::-1], "D")
    late = opened.tail(2).assign(principal=stranger, entity=f"{stranger}|sts")
    late["event_time"] -= pd.to_timedelta([9, 0], "h")
    every = pd.concat([*events, pipeline_calls, late], ignore_index=True)
    bank = learn([every.sort_values("event_time", kind="stable", ignore_index=True)], tmp_path, 2)

    def opener_nats(
        context: PartitionContext, rows: DistinctRows, _: NDArray[np.intp]
    ) -> NDArray[np.float32]:
        worth = holdout_evidence._opener_nats(context, rows)
        assert not worth[rows.role == 0].any()
        return worth

    nats = holdout_nats(tmp_path, opener_nats)
    assert len(nats) == 1, "the second call of the stranger comes again, the pipeline's are usual"
    monkeypatch.setattr(holdout_evidence, "OTHER_ACCOUNT_FEATURE", None)
    assert holdout_nats(tmp_path, opener_nats) == nats, "also of a log that names no other accounts"
    known = RoleOpeners.from_bank(bank.scorer_state)
    role = hashing.hash_string(f"role:deploy in {account}")
    assert sorted(bank.value_texts(known.openers(role))) == [usual, stranger]


def test_a_held_out_direct_call_counts_once_and_the_bank_knows_what_only_services_called(
    events: list[pd.DataFrame], tmp_path: Path
) -> None:
    who = f"{events[-1]['recipient_account'].iloc[-1]}:role/pipeline"

    def call(hours_ago: NDArray[np.int64], action: str, source: str, name: str) -> pd.DataFrame:
        made = copies(events, len(hours_ago), principal=who, entity=f"{who}|lambda", kind="role")
        made = made.assign(service="lambda", action=action, source_address=source, read_only=False)
        made["event_time"] -= pd.to_timedelta(hours_ago, "h")
        return made.assign(error_code=None, event_id=[f"{name}-{number}" for number in range(len(made))])

    days, stacks = np.repeat(np.arange(8) * 24, 8), "cloudformation.amazonaws.com"
    parts = [
        call(days, "InvokeAsync", "81.2.69.160", "own"),
        call(days, "UpdateFunctionCode", stacks, "update"),
        call(days, "TagResource", stacks, "tag"),
        call(np.array([9, 0]), "UpdateFunctionCode", "81.2.69.160", "repair"),
    ]
    every = pd.concat([*events, *parts], ignore_index=True)
    bank = learn([every.sort_values("event_time", kind="stable", ignore_index=True)], tmp_path, 2)
    nats = holdout_nats(tmp_path, holdout_evidence._path_nats)
    assert len(nats) == 1, "the second repair comes again"
    known = KnownPaths.from_bank(bank.scorer_state, identity_placement)
    action = hashing.hash_strings(np.array(["lambda:TagResource", "lambda:UpdateFunctionCode"], object))
    service, days_of = known.usual(np.repeat(hashing.hash_with_bucket(pd.Series([who])), 2), action)
    assert (bank.value_texts(service[:1]), days_of.tolist()) == ([stacks], [8, 0]), "it updated one itself"


def test_a_held_out_move_counts_until_it_is_familiar_and_the_bank_knows_which_machines_are_settled(
    events: list[pd.DataFrame], tmp_path: Path
) -> None:
    account = events[-1]["recipient_account"].iloc[-1]
    machine, person, moved = (f"{account}:role/{name}" for name in ("server", "ann", "mover"))

    def calls(who: str, hours_ago: NDArray[np.int64], source: str, human: str = "") -> pd.DataFrame:
        made = copies(events, len(hours_ago), principal=who, entity=f"{who}|s3", kind="role", human=human)
        made = made.assign(source_address=source, error_code=None, mfa=False, from_console=False)
        made["event_time"] -= pd.to_timedelta(hours_ago, "h")
        return made.assign(event_id=[f"{who} {source} {number}" for number in range(len(made))])

    days, home, hoster = np.repeat(np.arange(14) * 24, 8), "81.2.69.160", "45.141.84.7"
    parts = [
        calls(machine, days, home),
        calls(person, days, home, "ann.lee@example.com"),
        calls(moved, days, home),
        calls(moved, np.array([22, 19, 16, 13, 0]), hoster),
        calls(moved, np.array([30, 0]), "cloudformation.amazonaws.com"),
    ]
    every = pd.concat([*events, *parts], ignore_index=True)
    bank = learn([every.sort_values("event_time", kind="stable", ignore_index=True)], tmp_path, 2)
    nats = holdout_nats(tmp_path, holdout_evidence._move_nats)
    assert len(nats) == 4, "the network is familiar with the fourth call from there"
    known = SettledMachines.from_bank(bank.scorer_state, identity_placement)
    who = hashing.hash_with_bucket(pd.Series([machine, person, moved]))
    assert known.machines.has(who).tolist() == [True, False, False]
    networks, seen_days = known.usual(who[0])
    assert (bank.value_texts(networks), seen_days) == (["81.2.0.0/16"], 14)


def holdout_nats(folder: Path, measure: Callable[..., NDArray[np.float32]]) -> list[float]:
    """Return the nats above zero that a measure gives held-out rows of two partitions; each has that much harm at least."""
    nats: list[float] = []
    for number in range(2):
        context = PartitionContext(dataset.PartitionedDataset(folder, 2, 0, 0), number, SETTINGS)
        late = np.flatnonzero(context.held_out)
        level = holdout_evidence._measured_levels(context, late)
        worth = measure(context, context.rows.take(late), level)
        nats += worth[worth > 0].tolist()
        assert (holdout_evidence._holdout_rows(context, late, level).harm >= worth).all()
    return nats


def copies(events: list[pd.DataFrame], count: int, **columns: Any) -> pd.DataFrame:
    """The last event, so many times, as others' events in the last hour."""
    last = events[-1].iloc[[-1] * count].reset_index(drop=True)
    return last.assign(event_id=[f"copy-{number}" for number in range(count)], **columns)


def test_who_is_not_ready_is_judged_by_the_few_calls_that_were_learned_of_it(
    events: list[pd.DataFrame], tmp_path: Path
) -> None:
    """Another one's tool surprises although the organisation uses it, and what the principal uses does not."""
    begun, unknown = "111122223333:role/begun-this-hour", "111122223333:role/never-seen"
    learned = copies(events, 30, principal=begun, entity=f"{begun}|s3", kind="role", role="begun-this-hour")
    bank = learn([*events, learned], tmp_path, 1)
    usual = pd.concat(events)["user_agent"].value_counts().index
    other = next(agent for agent in usual if agent.split("/")[0] != learned["user_agent"][0].split("/")[0])
    calls = pd.concat([learned.head(2)] * 2, ignore_index=True).assign(event_id=[*"abcd"])
    calls["principal"] = [begun, begun, unknown, unknown]
    calls["entity"] = calls["principal"] + "|s3"
    calls["user_agent"] = [calls["user_agent"][0], other] * 2
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    batch, _ = encode_batch(calls, state)
    fingerprint, level = bank.resolve(batch.entity, batch.principal, batch.frame)
    assert (level >= PEER_LEVEL).all(), "it counts as one without a fingerprint"
    assert bank.fingerprints["key"].iloc[fingerprint].tolist()[:2] == [begun, begun]
    detector = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))
    surprise = detector.measure(replace(batch, fingerprint=fingerprint, level=level))
    own, foreign, _, foreign_to_all = surprise[:, encoding.FEATURE_NAMES.index("program")]
    assert own < 0.5
    assert foreign > foreign_to_all + 2


def test_who_is_not_ready_is_held_out_as_it_is_scored(events: list[pd.DataFrame], tmp_path: Path) -> None:
    slow = SETTINGS.model_copy(update={"entities": Entities(min_ready_events=200)})
    learn(events, tmp_path, 1, slow)
    context = PartitionContext(dataset.PartitionedDataset(tmp_path, 1, 0, 0), 0, slow)
    late, principal = np.flatnonzero(context.held_out), context.owners[:, fingerprint_index.PRINCIPAL]
    ready, measured = (
        holdout_evidence._holdout_levels(context, late),
        holdout_evidence._measured_levels(context, late),
    )
    had_begun = np.isin(principal[late], principal[context.early])
    shared = ready > fingerprint_index.PRINCIPAL
    assert (shared & had_begun).any()
    assert (measured[shared & had_begun] == fingerprint_index.PRINCIPAL).all()
    assert (measured == ready)[~(shared & had_begun)].all()


def test_one_crawler_does_not_say_which_days_are_held_out(events: list[pd.DataFrame], tmp_path: Path) -> None:
    crawled = copies(
        events,
        9_000,
        principal="111122223333:role/crawler",
        entity="111122223333:role/crawler|logs",
        resource=[f"group-{number}" for number in range(9_000)],
    )
    learn(events, tmp_path / "without", 1)
    learn([*events, crawled], tmp_path / "with", 1)
    without, with_it = (
        fingerprint_index.load_split(dataset.PartitionedDataset(tmp_path / name, 1, 0, 0)).interval
        for name in ("without", "with")
    )
    assert (
        abs(without - with_it) < 24
    )  # hours, of nine days; with all of its rows the last hour alone was held out


def test_a_peer_group_that_began_while_days_were_held_out_judges_none_of_them(
    events: list[pd.DataFrame], tmp_path: Path
) -> None:
    name = "111122223333:role/deployed-this-hour"
    new = copies(events, 50, principal=name, entity=f"{name}|s3", kind="role", role="deployed-this-hour")
    soon = SETTINGS.model_copy(update={"entities": Entities(min_ready_days=1, min_ready_events=20)})
    learn([*events, new], tmp_path, 1, soon)
    context = PartitionContext(dataset.PartitionedDataset(tmp_path, 1, 0, 0), 0, soon)
    mine = context.rows.principal == hashing.hash_with_bucket(pd.Series([name]))[0]
    (group,) = set(context.owners[mine, fingerprint_index.PEER].tolist())
    assert context.index.ready[group]
    assert not context.ready_before[group]
    judged = holdout_evidence._holdout_levels(context, np.flatnonzero(mine))
    assert (judged == fingerprint_index.GENERIC).all()


def test_after_a_gap_the_held_out_days_are_worth_no_more_than_workdays(
    events: list[pd.DataFrame], whole: Bank
) -> None:
    history = pd.concat(events)
    day = (history["event_time"] - history["event_time"].min()) // pd.Timedelta(days=1)
    with_gap = history[(day < 4) | (day >= 8)].reset_index(drop=True)
    bank = pipeline.train([with_gap], SETTINGS)
    span = (pd.Timestamp(bank.manifest["span"][1]) - history["event_time"].min()) / pd.Timedelta(days=1)
    assert bank.manifest["quality"]["days"] <= 7 / 5 * 3 < span


def test_first_days_are_learned_from_once_they_are_over(events: list[pd.DataFrame], whole: Bank) -> None:
    tails = NewcomerTails.from_arrays(whole.scorer_state, identity_placement)
    assert tails.learned
    assert set(tails.kind) == set(hashing.hash_strings(whole.people["kind"].astype(object)))
    begun = pd.concat(events)
    begun = begun[begun["event_time"] < begun["event_time"].min().floor("D") + pd.Timedelta(days=2)]
    short = pipeline.train([begun.reset_index(drop=True)], SETTINGS)
    assert not NewcomerTails.from_arrays(short.scorer_state, identity_placement).learned


def test_the_hours_of_first_days_hold_all_that_a_principal_did_in_them(
    events: list[pd.DataFrame], tmp_path: Path
) -> None:
    learn(events, tmp_path, 1)
    table = pd.concat(events, ignore_index=True).drop_duplicates(["principal", "event_id"])
    hour = table["event_time"].astype("datetime64[s, UTC]").astype("int64") // 3600
    begun = hour.groupby(table["principal"]).transform("min")
    counted = pd.DataFrame(
        {"events": 1, "errors": table["error_code"].notna(), "writes": encoding.FEATURE_SET.is_write(table)},
        index=table.index,
    )
    first_days = hour // 24 * 24 - 1 - begun < 48  # an hour late, and two days
    by_hour = counted[first_days].groupby([table["principal"][first_days], hour[first_days]]).sum()
    part = dataset.PartitionedDataset(tmp_path, 1, 0, 0).partition_folder(0)
    hours = mapped_arrays.open_arrays(part / "learned", "beginnings")
    assert sorted(map(tuple, hours["count"].tolist())) == sorted(by_hour.itertuples(index=False, name=None))
    assert set(hours["principal"]) == set(hashing.hash_with_bucket(table["principal"]))


def test_a_history_without_events_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FingerprintError, match="no event to learn from"):
        pipeline.train([], SETTINGS)
    with pytest.raises(FingerprintError, match="no event to learn from"):
        pipeline.train([pd.DataFrame({"event_time": []})], SETTINGS)


def test_pieces_follow_the_number_of_events() -> None:
    assert [dataset.partition_count(events, 100) for events in (0, 100, 101, 250, 10**9)] == [1, 1, 2, 4, 256]


def test_the_scorer_state_that_is_learned_goes_on_scoring(whole: Bank) -> None:
    scorer_state = ScorerState.from_arrays(SETTINGS, whole.scorer_state)
    assert len(scorer_state.last_active()[0]) == (whole.fingerprints["level"] == 1).sum()


def test_a_worker_that_does_not_see_the_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(FingerprintError, match=r"does not see .*workers\.work_directory"):
        distinct_rows.collect_rows(dataset.PartitionedDataset(tmp_path / "elsewhere", 4), 2, SETTINGS)
