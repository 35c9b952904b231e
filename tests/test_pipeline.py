"""The pipeline of one scorer state, step by step: what waits, what is told early, and that neither changes an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.alerting import grouping
from fingerprint.core.alert import Alert, AlertEvent
from fingerprint.core.settings import Settings, Voting
from fingerprint.pipeline import DetectionPipeline, StepResult
from fingerprint.registry import bank_files
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import Suspicion
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from fingerprint.streaming.partition_processor import PartitionProcessor
from tests.support import sample_organisation


@pytest.fixture(scope="module")
def events(organisation: sample_organisation.SampleOrganisation) -> pd.DataFrame:
    """The new events of the organisation, oldest first."""
    with EventSpool(sample_organisation.SETTINGS) as history:
        history.add_batches(files.read_sources(organisation.new, sample_organisation.SETTINGS.reading))
        return pd.concat(list(history.batches()), ignore_index=True)


def walked(
    organisation: sample_organisation.SampleOrganisation,
    events: pd.DataFrame,
    step: int,
    settings: Settings = sample_organisation.SETTINGS,
    early: bool = False,
) -> tuple[DetectionPipeline, list[StepResult]]:
    bank = bank_files.open_bank(organisation.bank)
    pipeline = DetectionPipeline(
        bank, PipelineState(ScorerState.from_arrays(settings, bank.scorer_state)), settings, emit_early=early
    )
    said = [pipeline.process(part) for part in _steps(events, step)]
    return pipeline, [*said, pipeline.flush()]


def _steps(events: pd.DataFrame, step: int) -> Iterator[pd.DataFrame]:
    for start in range(0, len(events), step):
        yield events.iloc[start : start + step].reset_index(drop=True)


def told_alerts(said: list[StepResult]) -> list[Alert]:
    return [alert for step in said for alert in step.alerts]


def last_of_each(said: list[StepResult]) -> dict[str, Alert]:
    return {alert.alert_id: alert for alert in told_alerts(said)}


def votes_of(said: list[StepResult]) -> pd.DataFrame:
    votes = pd.concat([step.votes for step in said if len(step.votes)])
    return votes.drop_duplicates(["event_id", "detector"], keep="last").set_index(["event_id", "detector"])


def test_only_what_may_still_get_a_verdict_waits_and_no_alert_differs(
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    events: pd.DataFrame,
) -> None:
    pipeline, said = walked(organisation, events, 2000)
    assert last_of_each(said) == {alert.alert_id: alert for alert in scored.alerts}
    assert pipeline.counters.verdicts == scored.figures["verdicts"]


def test_an_alert_told_early_and_often_ends_as_one_told_late(
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    events: pd.DataFrame,
) -> None:
    _, said = walked(organisation, events, 100, early=True)
    told = [alert.alert_id for alert in told_alerts(said)]
    assert len(told) > len(set(told)), "some alert grew"
    assert last_of_each(said) == {alert.alert_id: alert for alert in scored.alerts}


def test_an_early_alert_gets_support_when_its_hour_closes(
    organisation: sample_organisation.SampleOrganisation, events: pd.DataFrame
) -> None:
    """The alert itself closes hours later."""
    _, said = walked(organisation, events, 100, early=True)
    told: dict[str, list[int]] = {}
    for alert in told_alerts(said):
        told.setdefault(alert.alert_id, []).append(len(alert.supporting_events))
    assert any(sizes[0] == 0 < sizes[-2] for sizes in told.values() if len(sizes) > 2)


def test_an_open_alert_says_what_all_detectors_said_once_its_hours_are_over(
    organisation: sample_organisation.SampleOrganisation, events: pd.DataFrame
) -> None:
    """Before an hour is over the sequence detector has no z; the alert itself closes hours later."""
    pipeline, _ = walked(organisation, events.iloc[:0], 1, early=True)
    told: dict[str, Alert] = {}
    compared = 0
    for part in _steps(events, 100):
        told |= last_of_each([pipeline.process(part)])
        final = {
            event: z
            for verdicts in pipeline.state.open_alerts.verdicts
            for event, z in zip(verdicts.frame["event_id"], verdicts.frame["sequence_z"], strict=True)
        }
        for alert in told.values():
            if set(alert.event_ids) <= final.keys():
                z = [event.scores["sequence"] for event in alert.events]
                wanted = [final[event] for event in alert.event_ids]
                np.testing.assert_allclose(np.array(z, float), np.array(wanted, float), atol=1e-3)
                compared += 1
    assert compared


def harm_and_z(event: AlertEvent) -> tuple[int, float]:
    """What an event is kept by: noise, however strange, displaces no harm that was done, and a milder one no graver one."""
    rank = {"notable": 1, "grave": 2, "severe": 3}
    gravity = SOURCE.impact_of(event.service, event.action, "").gravity
    return 0 if event.error_code else rank.get(gravity, 0), event.scores["autoencoder"] or 0.0


@pytest.mark.parametrize("step", [100, 2000])
def test_the_strangest_few_support_an_alert_wherever_the_events_are_cut(
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    events: pd.DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
) -> None:
    monkeypatch.setattr(grouping, "MAX_SUPPORTING_EVENTS", 3)
    pipeline, said = walked(organisation, events, step)
    last = last_of_each(said)
    whole = {alert.alert_id: alert.supporting_events for alert in scored.alerts}
    assert max(map(len, whole.values())) > 3
    for name, supporting in whole.items():
        strongest = sorted(map(harm_and_z, supporting), reverse=True)[:3]
        kept = map(harm_and_z, last[name].supporting_events)
        assert sorted(kept, reverse=True) == strongest
    assert not pipeline.state.open_alerts.supporting


def test_next_steps_are_made_from_supporting_events_with_their_records(
    organisation: sample_organisation.SampleOrganisation,
    events: pd.DataFrame,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Suspicion] = []
    monkeypatch.setattr(SOURCE, "next_steps", lambda suspicion: made.append(suspicion) or ())
    walked(organisation, events, 5000)
    supporting = [event for suspicion in made for event in suspicion.supporting]
    assert supporting
    assert all(json.loads(event.raw)["eventID"] == event.event_id for event in supporting)


def test_an_early_alert_holds_no_event_that_the_last_one_lacks(
    organisation: sample_organisation.SampleOrganisation, events: pd.DataFrame
) -> None:
    _, said = walked(organisation, events, 100, early=True)
    seen: dict[str, set[str]] = {}
    for alert in told_alerts(said):
        assert seen.get(alert.alert_id, set()) <= set(alert.event_ids)
        seen[alert.alert_id] = set(alert.event_ids)


def test_votes_are_the_same_wherever_the_events_are_cut(
    organisation: sample_organisation.SampleOrganisation, events: pd.DataFrame
) -> None:
    one, other = (votes_of(walked(organisation, events, step, early=step < 500)[1]) for step in (150, 5000))
    assert set(one.index.get_level_values("detector")) == {"autoencoder", "spectral", "sequence"}
    assert set(one.index) == set(other.index)
    for column in ("z", "reach"):
        found, expected = (votes[column].astype(float) for votes in (one, other))
        pd.testing.assert_series_equal(found, expected.loc[found.index], atol=1e-4)


def test_votes_reach_as_far_whether_or_not_every_event_is_kept(
    organisation: sample_organisation.SampleOrganisation, events: pd.DataFrame
) -> None:
    """An evaluation keeps every event, a stream those that may get a verdict: both have the same leads."""
    sure = sample_organisation.SETTINGS.autoencoder.model_copy(update={"threshold": 2.4})
    settings = sample_organisation.SETTINGS.model_copy(update={"autoencoder": sure})
    bank = bank_files.open_bank(organisation.bank)
    state = PipelineState(ScorerState.from_arrays(settings, bank.scorer_state))
    every = DetectionPipeline(bank, state, settings, keep_all_events=True)
    said = [*(every.process(part) for part in _steps(events, 5_000)), every.flush()]
    few, all_kept = (
        votes_of(each)["reach"].astype(float).dropna().sort_index()
        for each in (walked(organisation, events, 150, settings)[1], said)
    )
    assert set(few.index.get_level_values("detector")) == {"autoencoder"}
    pd.testing.assert_series_equal(few, all_kept, atol=1e-4)


def test_a_vote_on_an_interval_names_who_it_is_about_even_if_the_bank_never_met_them(
    organisation: sample_organisation.SampleOrganisation, events: pd.DataFrame
) -> None:
    stranger = events.assign(
        principal="999999999999:user/new",
        entity="999999999999:user/new|iam|own",
        event_id=events["event_id"] + "x",
    )
    _, said = walked(organisation, pd.concat([events, stranger.iloc[-50:]]), 1000)
    owners = set(votes_of(said).query("level != 'entity'")["principal"])
    assert owners <= set(events["principal"]) | {"999999999999:user/new"}
    assert votes_of(said)["principal"].notna().all()


def test_of_too_many_that_wait_the_strangest_stay_and_the_others_are_counted(
    organisation: sample_organisation.SampleOrganisation, events: pd.DataFrame
) -> None:
    few = sample_organisation.SETTINGS.model_copy(update={"voting": Voting(max_pending_events=3)})
    one, said = walked(organisation, events, 100, few)
    other, again = walked(organisation, events, 1000, few)
    assert one.counters.dropped_events > 0
    assert max(len(pipeline.state.pending) for pipeline in (one, other)) <= 3
    assert last_of_each(said), "an attack stands out among them"
    assert again


def test_a_record_that_is_delivered_again_days_later_begins_no_step_of_its_own(
    organisation: sample_organisation.SampleOrganisation, events: pd.DataFrame
) -> None:
    """A late one that is new does."""
    late = np.repeat(events.index[-400:].to_numpy(), 2)
    late[1::20] = np.arange(40)
    mixed = pd.concat([events.iloc[:-400], events.loc[late]], ignore_index=True)
    unknown = mixed.assign(event_id=mixed["event_id"].where(~mixed.index.isin(mixed.index[-799::20]), "new"))
    steps = [
        len(_processor(organisation).process(each, _latest(each), _latest(each))) for each in (mixed, unknown)
    ]
    assert steps[0] == 1
    assert steps[1] > 1


def _processor(organisation: sample_organisation.SampleOrganisation) -> PartitionProcessor:
    bank = bank_files.open_bank(organisation.bank)
    return PartitionProcessor(
        bank,
        PipelineState(ScorerState.from_arrays(sample_organisation.SETTINGS, bank.scorer_state)),
        sample_organisation.SETTINGS,
    )


def _latest(events: pd.DataFrame) -> np.ndarray:
    """The latest event time at each event, seconds."""
    return np.maximum.accumulate(events["event_time"].astype("int64").to_numpy() // 1_000_000)
