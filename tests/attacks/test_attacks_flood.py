"""The power "floods": the noise of one, or of thousands who were made for it, hides no one else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.compute.arrays import occurrence_index
from fingerprint.core.alert import Alert
from fingerprint.core.settings import Voting
from fingerprint.pipeline import DetectionPipeline, StepResult
from fingerprint.registry import bank_files
from fingerprint.state import pending_events, unknown_principals
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import (
    INACTIVE_DAYS,
    SINGLE_DAY_SERIES_DAYS,
    ScorerState,
)
from fingerprint.state.unknown_principals import EVENTS_PER_QUOTA, MAX_QUOTAS
from tests.support import sample_organisation

DAY = 24  # intervals


@pytest.fixture(scope="module")
def events(organisation: sample_organisation.SampleOrganisation) -> pd.DataFrame:
    """The organisation's new events, oldest first."""
    with EventSpool(sample_organisation.SETTINGS) as history:
        history.add_batches(files.read_sources(organisation.new, sample_organisation.SETTINGS.reading))
        return pd.concat(list(history.batches()), ignore_index=True)


def walked(
    organisation: sample_organisation.SampleOrganisation, events: pd.DataFrame, step: int = 200, **voting: int
) -> tuple[DetectionPipeline, list[StepResult]]:
    settings = sample_organisation.SETTINGS.model_copy(update={"voting": Voting(**voting)})
    bank = bank_files.open_bank(organisation.bank)
    pipeline = DetectionPipeline(
        bank, PipelineState(ScorerState.from_arrays(settings, bank.scorer_state)), settings
    )
    return pipeline, [*(pipeline.process(part) for part in steps_of(events, step)), pipeline.flush()]


def steps_of(events: pd.DataFrame, step: int) -> Iterator[pd.DataFrame]:
    for start in range(0, len(events), step):
        yield events.iloc[start : start + step].reset_index(drop=True)


def last_of_each(said: list[StepResult]) -> dict[str, Alert]:
    return {alert.alert_id: alert for step in said for alert in step.alerts}


@pytest.fixture(scope="module")
def flooded(
    organisation: sample_organisation.SampleOrganisation,
    events: pd.DataFrame,
    scored: sample_organisation.Run,
) -> tuple[pd.DataFrame, Alert]:
    """The largest alert, and 2,000 strange calls of a colleague of the victim within its hours."""
    alert = max(scored.alerts, key=lambda each: len(each.events))
    theirs = events[events["event_id"].isin(alert.event_ids)]
    noisy = next(name for name in events["principal"].unique() if name != alert.principal)
    hour = theirs["event_time"].dt.floor("h").mode()[0]
    whose = events[events["principal"].eq(noisy)].iloc[0]
    calls = theirs.iloc[np.arange(2000) % len(theirs)].assign(
        event_id=[f"noise-{number}" for number in range(2000)],
        event_time=(hour + pd.to_timedelta(np.linspace(1, 3500, 2000), unit="s")).astype(
            events["event_time"].dtype
        ),
        principal=noisy,
        entity=f"{noisy}|iam|direct",
        **{name: whose[name] for name in ("kind", "role", "human")},
        action=[f"Odd{number}" for number in range(2000)],
    )
    return pd.concat([events, calls]).sort_values(["event_time", "event_id"], ignore_index=True), alert


@pytest.fixture(scope="module")
def bounded(
    organisation: sample_organisation.SampleOrganisation, flooded: tuple[pd.DataFrame, Alert]
) -> tuple[DetectionPipeline, list[StepResult]]:
    """That flood, where 500 events may wait."""
    return walked(organisation, flooded[0], max_pending_events=500)


def test_the_noise_of_one_principal_does_not_evict_another_s_attack(
    flooded: tuple[pd.DataFrame, Alert], bounded: tuple[DetectionPipeline, list[StepResult]]
) -> None:
    (pipeline, said), alert = bounded, flooded[1]
    assert pipeline.counters.dropped_events > 1000, "the alarm counts them"
    assert last_of_each(said)[alert.alert_id] == alert


def test_which_events_wait_does_not_depend_on_where_batches_are_cut(
    organisation: sample_organisation.SampleOrganisation,
    flooded: tuple[pd.DataFrame, Alert],
    bounded: tuple[DetectionPipeline, list[StepResult]],
) -> None:
    one, other = bounded, walked(organisation, flooded[0], 5000, max_pending_events=500)
    assert one[0].counters.dropped_events == other[0].counters.dropped_events > 0
    assert last_of_each(one[1]) == last_of_each(other[1])


def test_one_principal_keeps_its_strangest_events_of_an_hour(
    organisation: sample_organisation.SampleOrganisation,
    flooded: tuple[pd.DataFrame, Alert],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending_events, "MAX_EVENTS_PER_PRINCIPAL", 100)
    records, alert = flooded
    pipeline, said = walked(organisation, records)
    assert pipeline.counters.dropped_events >= 1900
    sizes = [len(each.events) for each in last_of_each(said).values() if each.principal != alert.principal]
    assert 0 < max(sizes) <= 600, "a hundred an hour of a window of six"


def test_calls_as_strange_displace_none_that_does_harm(
    organisation: sample_organisation.SampleOrganisation, events: pd.DataFrame
) -> None:
    """Of one principal in an hour there is room for the strangest: what can do harm counts as stranger."""
    call = events[events["error_code"].isna()].iloc[[0]].assign(service="cloudtrail", action="ListNothing")
    many = call.loc[call.index.repeat(41)].assign(event_id=[f"call-{number}" for number in range(41)])
    many.iloc[-1, many.columns.get_loc("action")] = "StopLogging"
    pipeline, _ = walked(organisation, many.iloc[:0])
    measured = pipeline.scorer.measure(many.reset_index(drop=True))
    assert measured.events == 41
    [part] = pipeline.state.pending.parts
    nats = sum(each.priority(part) for each in pipeline.scorer.detectors)
    harmful = part.frame["action"].astype(str).eq("StopLogging").to_numpy()
    assert nats[harmful].min() > nats[~harmful].max() + 5


@pytest.fixture(scope="module")
def minted(events: pd.DataFrame, scored: sample_organisation.Run) -> pd.DataFrame:
    """The strangest call of the days before the last, by a thousand principals of foreign accounts, an event each."""
    strangest = scored.events.loc[scored.events["autoencoder_z"].idxmax(), "event_id"]
    call = events[events["event_id"].eq(strangest)].iloc[[0]]
    names = [f"{number:012d}:account/AIDA{number}" for number in range(1000)]
    many = call.loc[call.index.repeat(len(names))].assign(
        event_id=[f"minted-{number}" for number in range(len(names))],
        principal=names,
        entity=[f"{name}|iam|direct" for name in names],
        kind="account",
        role=pd.NA,
        error_code="AccessDenied",
    )
    return pd.concat([events, many]).sort_values(["event_time", "event_id"], ignore_index=True)


def test_strangers_have_so_many_votes_a_day_and_hide_no_one(
    organisation: sample_organisation.SampleOrganisation,
    minted: pd.DataFrame,
    scored: sample_organisation.Run,
) -> None:
    pipeline, said = walked(organisation, minted, max_unknown_principals_per_day=100)
    votes = pd.concat([step.votes for step in said if len(step.votes)])
    strangers = votes[votes["principal"].str.contains(":account/")]
    assert 0 < strangers["principal"].nunique() <= 100
    assert pipeline.counters.over_limit_events >= 900, "the alarm counts them"
    alerts = last_of_each(said)
    assert {alert.alert_id for alert in scored.alerts} <= set(alerts)
    assert len(alerts) <= len(scored.alerts) + 100


def admitted_by(
    scorer_state: ScorerState, principals: list[int], quotas: list[int], limit: int = 10
) -> np.ndarray:
    """Return which events of one hour are admitted, in their order."""
    when = np.full(len(principals), 480_000, np.int32)
    return scorer_state.admit_unknown(
        np.array(principals, np.uint64), when, np.array(quotas, np.int32), limit
    )


def admitted_one_by_one(principals: list[int], days: list[int], quotas: list[int], limit: int) -> list[bool]:
    """Return the same by the rule as it is said, an event at a time."""
    entered: dict[int, set[int]] = {}
    events: dict[tuple[int, int], int] = {}
    admitted = []
    for who, day, quota in zip(principals, days, quotas, strict=True):
        of_day = entered.setdefault(day, set())
        if who not in of_day and len(of_day) >= quota * limit:
            admitted.append(False)
            continue
        of_day.add(who)
        admitted.append(events.get((who, day), 0) < quota * unknown_principals.EVENTS_PER_QUOTA)
        events[who, day] = events.get((who, day), 0) + admitted[-1]
    return admitted


@pytest.mark.parametrize("step", [1, 70, 3000])
def test_strangers_are_let_in_as_they_come_wherever_batches_are_cut(
    monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(unknown_principals, "EVENTS_PER_QUOTA", 4)
    draw = np.random.default_rng(0)
    principal = draw.integers(0, 120, 3000).astype(np.uint64) << np.uint64(40) | np.uint64(7)
    interval = (np.sort(draw.integers(0, 3 * DAY, 3000)) + 480_000).astype(np.int32)
    quotas = draw.choice([1, 2, 3], 3000, p=[0.9, 0.07, 0.03]).astype(np.int32)
    scorer_state = ScorerState(sample_organisation.SETTINGS)
    cut = [slice(start, start + step) for start in range(0, 3000, step)]
    admitted = np.concatenate(
        [scorer_state.admit_unknown(principal[at], interval[at], quotas[at], 30) for at in cut]
    ).tolist()
    days = (interval // DAY).tolist()
    assert admitted == admitted_one_by_one(principal.tolist(), days, quotas.tolist(), 30)
    assert sum(admitted) < 3000
    assert sorted(scorer_state.unknown_principals.compact()[1]["day"].tolist()) == sorted(
        day
        for who, day in {(who, day) for who, day, let in zip(principal, days, admitted, strict=True) if let}
    )


def test_one_stranger_has_so_many_events_a_day() -> None:
    scorer_state, many = ScorerState(sample_organisation.SETTINGS), 3 * EVENTS_PER_QUOTA
    assert admitted_by(scorer_state, [7] * many, [1] * many).sum() == EVENTS_PER_QUOTA
    assert not admitted_by(scorer_state, [7] * 3, [1] * 3).any()


def test_everyday_calls_of_a_stranger_buy_no_silence_for_what_can_do_harm() -> None:
    """Reads fill the first quota only, and grave calls leave a third to severe ones, which end as well."""
    scorer_state, flood = ScorerState(sample_organisation.SETTINGS), 2 * EVENTS_PER_QUOTA
    for quota in range(1, MAX_QUOTAS + 1):
        assert admitted_by(scorer_state, [7] * flood, [quota] * flood).sum() == EVENTS_PER_QUOTA
    assert not admitted_by(scorer_state, [7], [MAX_QUOTAS]).any()


def test_made_up_names_buy_no_silence_for_a_stranger_that_does_harm() -> None:
    scorer_state, limit = ScorerState(sample_organisation.SETTINGS), 10
    assert admitted_by(scorer_state, [*range(20)], [1] * 20, limit).sum() == limit
    assert admitted_by(scorer_state, [50, 50, 50], [1, 3, 1], limit).tolist() == [False, True, True]
    assert admitted_by(scorer_state, [*range(100, 200)], [3] * 100, limit).sum() == 2 * limit - 1


def test_days_of_long_ago_are_no_room_for_more_strangers() -> None:
    scorer_state = ScorerState(sample_organisation.SETTINGS)
    scorer_state.watermark = 480_000 * 3600
    late = np.arange(480_000 - 100 * DAY, 480_000 - 2 * DAY, DAY, dtype=np.int32)
    who, quotas = np.arange(len(late)).astype(np.uint64), np.ones(len(late), np.int32)
    assert scorer_state.admit_unknown(who, late, quotas, 10).sum() == 10


def remembered(scorer_state: ScorerState, principals: int, interval: int, first: int = 0) -> None:
    """Have principals come, one event each."""
    names = (np.arange(principals) + first + 1).astype(np.uint64) << np.uint64(20)
    when = np.full(principals, interval, np.int32)
    scorer_state.update_history(names, when, np.ones((principals, 64), np.uint64))
    scorer_state.series.add_counts(
        names, np.full(principals, 1, np.uint64), when, when, np.ones(principals, np.float32)
    )
    scorer_state.watermark = interval * 3600
    scorer_state.expire()


def test_principals_that_never_come_again_are_forgotten_and_the_others_are_not() -> None:
    scorer_state, start = ScorerState(sample_organisation.SETTINGS), 480_000
    remembered(scorer_state, 500, start)
    for day in range(INACTIVE_DAYS + 3):
        remembered(scorer_state, 5, start + day * DAY, first=10_000)
        if day == SINGLE_DAY_SERIES_DAYS + 2:
            assert (len(scorer_state.principals), len(scorer_state.series.owner)) == (505, 5)
    assert len(scorer_state.principals) == 5
    assert len(scorer_state.series.owner) == 5
    assert sorted(scorer_state.principals.compact()[1]["slot"].tolist()) == list(range(5))
    remembered(scorer_state, 1, start + (INACTIVE_DAYS + 2 + INACTIVE_DAYS) * DAY, first=20_000)
    assert len(scorer_state.principals) == 6
    remembered(scorer_state, 1, start + (INACTIVE_DAYS + 5 + INACTIVE_DAYS) * DAY, first=20_000)
    assert len(scorer_state.principals) == 1


def test_who_comes_once_a_month_is_not_new_each_time() -> None:
    """Its series are gone in the meantime: they begin again, without a count since it was first seen."""
    scorer_state, start = ScorerState(sample_organisation.SETTINGS), 480_000
    remembered(scorer_state, 1, start)
    for day in range(1, 30):
        remembered(scorer_state, 5, start + day * DAY, first=10_000)
    assert len(scorer_state.series.owner) == 5
    remembered(scorer_state, 1, start + 30 * DAY)
    assert scorer_state.first_seen(np.array([1], np.uint64) << np.uint64(20)).tolist() == [start]


def test_of_too_many_principals_those_go_first_that_were_there_on_one_day_long_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fingerprint.state.scorer_state.MAX_PRINCIPALS", 100)
    scorer_state, start = ScorerState(sample_organisation.SETTINGS), 480_000
    for day in range(5):
        remembered(scorer_state, 60, start + day * DAY, first=100 * day)
    assert len(scorer_state.principals) <= 60 + 60 + 60, "those of the last two days may be in use"
    kept = scorer_state.principals.compact()[0]
    assert (kept >= (np.uint64(201) << np.uint64(20))).all()


def test_how_many_of_the_same_came_before() -> None:
    assert occurrence_index(np.array([7, 3, 7, 7, 3])).tolist() == [0, 0, 1, 2, 1]
    assert occurrence_index(np.array([], int)).tolist() == []
