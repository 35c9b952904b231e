"""The scorer: which events are pending, what they are judged by, what votes are kept, and what never turns back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.compute import frames
from fingerprint.core.alert import MAX_VOTE_ACTION_LENGTH, VOTE_COLUMNS, vote_column, z_column
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Database, Settings, Voting
from fingerprint.detection import event_judge
from fingerprint.detection.detectors.autoencoder import AutoencoderDetector
from fingerprint.detection.detectors.spectral import SpectralDetector
from fingerprint.detection.ensemble import (
    NEWCOMER_THRESHOLD_SHARE,
    SECOND_VOTE_THRESHOLD,
    STRONG_VOTE_THRESHOLD,
    strong_vote_threshold,
)
from fingerprint.detection.event_judge import EventJudge
from fingerprint.detection.scorer import Scorer
from fingerprint.detection.votes import _action_names
from fingerprint.registry import bank_files
from fingerprint.registry.bank import Bank
from fingerprint.state import pending_events, unknown_principals
from fingerprint.state.coded_events import code_events
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.pending_events import MAX_PARTS
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from pipelines.cli.console import no_progress
from pipelines.train import train_bank
from tests.support import sample_organisation
from tests.support.stepwise_pipeline import SETTINGS, Step


def voting(*detectors: str, quorum: int = 2) -> Settings:
    return sample_organisation.SETTINGS.model_copy(
        update={"voting": Voting(detectors=detectors, quorum=quorum)}
    )


def verdicts_of(events: pd.DataFrame, settings: Settings = SETTINGS) -> pd.Series:
    """Which of the events of a run have the votes they need and a z of the autoencoder that opens an alert."""
    names = settings.voting.detectors
    votes = events[[f"{name}_vote" for name in names]].sum(axis=1)
    opinions = events[[f"{name}_z" for name in names]].notna().sum(axis=1)
    known = opinions - events["newcomer"].astype(int)
    newcomer = (known == 1) & (len(names) > 1) & events["level"].isin(["peer", "generic"])
    calm = events["newcomer"] & (events.get("spectral_z", 0) < SpectralDetector.calm_newcomer_z)
    least = settings.alerts.threshold * np.where(newcomer & ~calm, NEWCOMER_THRESHOLD_SHARE, 1)
    least = np.where(others_agree(events, settings), strong_vote_threshold(settings.alerts.threshold), least)
    strong = events["autoencoder_z"] >= least.astype(np.float32) if "autoencoder" in names else True
    return (votes >= known.clip(1, settings.voting.quorum)) & strong


def others_agree(events: pd.DataFrame, settings: Settings = SETTINGS) -> pd.Series:
    """Return where the spectral and the sequence detector are a quorum of two, the second of them strongly."""
    if not {"spectral", "sequence"} <= set(settings.voting.detectors) or settings.voting.quorum != 2:
        return pd.Series(False, events.index)
    known = (events["spectral_z"] >= SECOND_VOTE_THRESHOLD) & ~events["newcomer"]
    return known & (events["sequence_z"] >= STRONG_VOTE_THRESHOLD)


def scorer_of(bank: Bank, settings: Settings = SETTINGS, keep_all_events: bool = False) -> Scorer:
    state = ScorerState.from_arrays(settings, bank.scorer_state)
    return Scorer(bank, PipelineState(state), settings, keep_all_events)


def pending_ids(scorer: Scorer) -> set[str]:
    return {str(name) for part in scorer.state.pending.parts for name in part.frame["event_id"]}


# --- measuring --------------------------------------------------------------------------------------------------------


def test_an_event_that_comes_again_is_dropped_and_counted(bank: Bank, steps: list[Step]) -> None:
    scorer = scorer_of(bank)
    first = scorer.measure(steps[0].events)
    again = scorer.measure(steps[0].events)
    assert first.events == steps[0].events["event_id"].nunique() > 0
    assert first.events + first.repeats == len(steps[0].events)
    assert (again.events, again.repeats) == (0, len(steps[0].events))
    assert again.votes.empty


def test_an_event_is_pending_only_while_it_may_get_a_verdict(bank: Bank, steps: list[Step]) -> None:
    """With two of two the autoencoder is sure of most events when they come."""
    few, every = scorer_of(bank), scorer_of(bank, keep_all_events=True)
    for step in steps[:5]:
        few.measure(step.events)
        every.measure(step.events)
    assert 0 < len(pending_ids(few)) < 0.5 * len(pending_ids(every))
    scored = every.judge_closed(include_open=True)
    assert scored is not None
    with_verdict = set(scored.frame.loc[scored.frame["verdict"], "event_id"])
    assert with_verdict <= pending_ids(few)


def test_votes_are_kept_from_the_floor_on_and_name_their_threshold(bank: Bank, steps: list[Step]) -> None:
    scorer = scorer_of(bank)
    at_once = frames.concat_frames([scorer.measure(step.events).votes for step in steps])
    assert not pending_ids(scorer) & set(at_once["event_id"]), (
        "votes on pending events come when they are judged"
    )
    scored = scorer.judge_closed(include_open=True)
    assert scored is not None
    votes = frames.concat_frames([at_once, scorer.event_votes(scored)])
    assert tuple(votes) == VOTE_COLUMNS
    assert set(votes["detector"]) == {"autoencoder", "sequence"}, "votes on intervals come when these close"
    assert votes["z"].min() >= SETTINGS.database.min_vote_score
    reached = votes["z"].to_numpy(np.float32) >= votes["threshold"].to_numpy(np.float32)
    np.testing.assert_array_equal(votes["vote"].to_numpy(bool), reached)
    intervals = scorer.close_intervals(include_open=True).votes
    assert set(intervals["detector"]) == {"spectral"}
    assert intervals["event_id"].str.match("interval:|silence:").all()


def test_a_vote_says_what_its_event_called(bank: Bank, steps: list[Step]) -> None:
    scorer = scorer_of(bank)
    at_once = frames.concat_frames([scorer.measure(step.events).votes for step in steps])
    scored = scorer.judge_closed(include_open=True)
    assert scored is not None
    events = pd.concat([step.events for step in steps]).drop_duplicates("event_id").set_index("event_id")
    called = events["service"].astype(str) + ":" + events["action"].astype(str)
    votes = frames.concat_frames([at_once, scorer.event_votes(scored)])
    assert len(votes)
    assert list(votes["action"]) == list(called[list(votes["event_id"])])
    assert set(scorer.close_intervals(include_open=True).votes["action"]) == {""}, "an interval calls nothing"


def test_the_action_of_a_vote_is_cut_and_may_be_missing() -> None:
    rows = pd.DataFrame(
        {"service": ["s3", None, "s3"], "action": ["x" * 5_000, "\ud800\x1b[2J", None]}, dtype=object
    )
    names = _action_names(frames.to_column_table(rows)).tolist()
    assert [len(name) for name in names] == [MAX_VOTE_ACTION_LENGTH, 6, 3]
    assert names[1:] == [":\ud800\x1b[2J", "s3:"]


def test_judging_gives_each_detector_a_column_and_lets_closed_events_go(
    bank: Bank, steps: list[Step]
) -> None:
    scorer = scorer_of(bank, keep_all_events=True)
    for step in steps[:8]:
        scorer.measure(step.events)
        scorer.scorer_state.watermark = step.watermark
    before = pending_ids(scorer)
    scored = scorer.judge_closed()
    assert scored is not None
    closed = set(scored.frame["event_id"])
    assert closed
    assert (scored.batch.interval < scorer.scorer_state.first_open_interval()).all()
    assert pending_ids(scorer) == before - closed
    for detector in scorer.detectors:
        z, vote = scored.frame[z_column(detector.name)], scored.frame[vote_column(detector.name)]
        assert not (vote & z.isna()).any()
    assert scorer.judge_closed() is None


def test_of_too_many_pending_events_each_principal_keeps_its_most_unusual(
    bank: Bank, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, limited, cut = (scorer_of(bank, keep_all_events=False) for _ in range(3))
    for scorer in (whole, limited, cut):
        monkeypatch.setattr(
            scorer.event_judge, "can_reach_quorum", lambda batch, z: np.ones(len(batch), bool)
        )
    events = pd.concat([step.events for step in steps[:4]], ignore_index=True)
    whole.measure(events)
    monkeypatch.setattr(pending_events, "MAX_EVENTS_PER_PRINCIPAL", 2)
    limited.measure(events)
    limited._limit_pending()
    for start in range(0, len(events), 50):
        cut.measure(events.iloc[start : start + 50].reset_index(drop=True))
    cut._limit_pending()
    batch = whole.state.pending.joined()
    unusual = pd.DataFrame(
        {
            "event": batch.frame["event_id"].astype(str),
            "key": list(zip(batch.principal.tolist(), batch.interval.tolist(), strict=True)),
            "priority": sum(each.priority(batch) for each in whole.detectors),
        }
    )
    kept = unusual[unusual["event"].isin(pending_ids(limited))]
    assert kept["key"].value_counts().max() == 2
    assert limited.state.counters.dropped_events == len(unusual) - len(kept) > 0
    for key, mine in kept.groupby("key"):
        others = unusual[(unusual["key"] == key) & ~unusual["event"].isin(kept["event"])]
        assert others.empty or others["priority"].max() <= mine["priority"].min()
    assert set(limited.state.pending.joined().principal) == set(batch.principal)
    assert len(pending_ids(cut)) == len(pending_ids(limited))


def test_events_of_too_many_unknown_principals_are_neither_pending_nor_voted_on(
    bank: Bank, steps: list[Step]
) -> None:
    limit = SETTINGS.voting.model_copy(update={"max_unknown_principals_per_day": 1})
    scorer = scorer_of(bank, SETTINGS.model_copy(update={"voting": limit}))
    events = pd.concat([step.events for step in steps], ignore_index=True)
    strange = events.assign(principal=[f"999999999999:user/{number}" for number in range(len(events))])
    votes = scorer.measure(strange.assign(entity=strange["principal"] + "|s3")).votes
    known = {str(name) for part in scorer.state.pending.parts for name in part.frame["principal"]} | set(
        votes["principal"]
    )
    days = len(pd.to_datetime(strange["event_time"]).dt.date.unique())
    assert days < len(known) <= unknown_principals.MAX_QUOTAS * days, (
        "who did harm comes beside the first of a day"
    )
    counters = scorer.state.counters
    assert counters.over_limit_events >= len(counters.over_limit_principals) > 0


def test_to_keep_all_events_refuses_no_others(
    bank: Bank, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_principals, "EVENTS_PER_QUOTA", 5)
    monkeypatch.setattr(EventJudge, "can_reach_quorum", lambda self, batch, z: np.arange(len(batch)) % 2 == 0)
    stranger, quiet = "999999999999:user/stranger", Database(min_vote_score=99.0)
    events = pd.concat([step.events for step in steps], ignore_index=True)
    events = events.assign(principal=stranger, entity=f"{stranger}|s3")
    scorers = [
        scorer_of(bank, SETTINGS.model_copy(update={"database": quiet}), keep_all_events=kept)
        for kept in (False, True)
    ]
    measured = [scorer.measure(events).events for scorer in scorers]
    some, everything = (scorer.state.counters for scorer in scorers)
    assert some.over_limit_events == everything.over_limit_events > 0
    assert len(some.over_limit_principals) == 1
    assert len(pending_ids(scorers[1])) == measured[1] - everything.over_limit_events
    assert pending_ids(scorers[0]) < pending_ids(scorers[1])


def test_reads_of_an_unknown_principal_buy_no_silence_for_what_it_does_next(
    bank: Bank, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What failed did nothing: it has the room of a read."""
    monkeypatch.setattr(unknown_principals, "EVENTS_PER_QUOTA", 5)
    stranger, everything = "999999999999:user/stranger", Database(min_vote_score=-99.0)
    scorer = scorer_of(bank, SETTINGS.model_copy(update={"database": everything}), keep_all_events=True)
    step = pd.concat([step.events for step in steps], ignore_index=True).iloc[:30]
    calls = [("ec2", "DescribeInstances", None)] * 10 + [("cloudtrail", "StopLogging", "AccessDenied")] * 10
    calls += [("cloudtrail", "StopLogging", None), ("ec2", "AuthorizeSecurityGroupIngress", None)] * 5
    service, action, error = zip(*calls, strict=True)
    events = step.assign(
        principal=stranger, entity=f"{stranger}|s3", service=service, action=action, error_code=error
    )
    events["event_time"] = step["event_time"].iloc[0]
    scorer.measure(events)
    kept = scorer.state.pending.joined().frame["action"].astype(str).value_counts()
    assert kept.to_dict() == {
        "DescribeInstances": 5,
        "StopLogging": 5,
        "AuthorizeSecurityGroupIngress": 2,
    }
    assert scorer.state.counters.over_limit_events == 18


# --- the quorum ------------------------------------------------------------------------------------------------------


def test_a_verdict_has_two_of_three_votes_and_a_z_that_opens_an_alert(
    scored: sample_organisation.Run,
) -> None:
    events = scored.events
    assert (events["verdict"] == verdicts_of(events)).all()
    assert events["verdict"].any()
    assert (events["autoencoder_vote"] ^ events["spectral_vote"]).any(), "or the quorum would decide nothing"


def test_a_vote_is_a_z_at_or_above_its_threshold_and_no_opinion_is_no_vote(
    scored: sample_organisation.Run,
) -> None:
    events = scored.events[~strong_events(scored.events)]
    for name in ("autoencoder", "spectral"):
        threshold = getattr(sample_organisation.SETTINGS, name).threshold
        assert (events[f"{name}_vote"] == (events[f"{name}_z"] >= threshold)).all()


def test_beside_a_z_that_opens_an_alert_one_harmless_event_in_five_is_enough_for_a_vote(
    scored: sample_organisation.Run,
) -> None:
    events = scored.events[strong_events(scored.events)]
    second = events["spectral_z"] >= SECOND_VOTE_THRESHOLD
    assert second.any()
    assert (events["spectral_vote"] == second).all()


def test_however_rare_a_z_is_a_second_vote_is_needed(bank: Bank, steps: list[Step]) -> None:
    scorer = scorer_of(bank)
    batch = five_events_with_all_opinions(scorer, steps)
    opening, second = scorer.alert_threshold, SECOND_VOTE_THRESHOLD
    z = {
        "autoencoder": np.array([opening, opening, opening - 0.01, 40.0, 40.0], np.float32),
        "spectral": np.array([second, second - 0.01, second, second, second - 0.01]),
        "sequence": np.full(5, -3.0),
    }
    decided = scorer.event_judge.decide(batch, z)
    assert decided.verdict.tolist() == [True, False, False, True, False]
    assert decided.votes["spectral"].tolist() == [True, False, False, True, False]


def test_where_the_others_agree_strongly_a_more_usual_z_opens_an_alert(bank: Bank, steps: list[Step]) -> None:
    scorer = scorer_of(bank)
    batch = five_events_with_all_opinions(scorer, steps)
    lower = np.float32(strong_vote_threshold(scorer.alert_threshold))
    strong, second = STRONG_VOTE_THRESHOLD + 0.01, SECOND_VOTE_THRESHOLD + 0.01
    decided = scorer.event_judge.decide(
        batch,
        {
            "autoencoder": np.array([lower, lower - 0.01, lower, lower, lower], np.float32),
            "spectral": np.array([second, second, 0.0, second, strong]),
            "sequence": np.array([strong, strong, strong, strong - 0.02, second]),
        },
    )
    assert decided.verdict.tolist() == [True, False, False, False, False]
    assert (decided.alert_threshold < scorer.alert_threshold).tolist() == [True, True, False, False, False]
    assert decided.votes["autoencoder"][0], "what opens an alert is a vote"
    assert decided.votes["spectral"].tolist()[:3] == [True, False, False]
    assert (decided.thresholds["autoencoder"] <= decided.alert_threshold)[:2].all()


def test_an_event_that_comes_is_scored_once_by_each_detector_of_events(
    bank: Bank, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says decides which votes are kept, and which events wait."""
    scorer, asked = scorer_of(bank), []
    detector = next(each for each in scorer.detectors if each.name == "autoencoder")
    score = detector.score
    monkeypatch.setattr(detector, "score", lambda batch: asked.append(len(batch)) or score(batch))
    measured = scorer.measure(steps[0].events)
    assert asked == [measured.events]


def test_an_event_waits_for_a_strong_vote_though_nothing_else_of_it_is_a_vote(
    bank: Bank, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where such a vote is known while the interval is open."""
    monkeypatch.setattr(event_judge, "LEAST_LEAD_Z", np.inf)
    scorer, events = scorer_of(bank), pd.concat([step.events for step in steps], ignore_index=True)
    early = next(each for each in scorer.detectors if each.name == "spectral")
    for each in scorer.detectors:
        monkeypatch.setattr(each, "can_still_vote", lambda batch, z: np.zeros(len(batch), bool))
    monkeypatch.setattr(early, "can_still_vote", lambda batch, z: np.ones(len(batch), bool))
    scorer.measure(events)
    assert not pending_ids(scorer)
    waiting = scorer_of(bank)
    for each in waiting.detectors:
        own = each.name == "spectral"
        monkeypatch.setattr(each, "can_still_vote", lambda batch, z, own=own: np.full(len(batch), own))
        monkeypatch.setattr(each, "strong_vote_z", 2.0 if own else np.inf)
    waiting.measure(events)
    assert pending_ids(waiting)
    assert waiting.event_judge.least_open_threshold() == pytest.approx(
        strong_vote_threshold(waiting.alert_threshold)
    )
    assert scorer.event_judge.least_open_threshold() == pytest.approx(
        NEWCOMER_THRESHOLD_SHARE * scorer.alert_threshold
    )


def five_events_with_all_opinions(scorer: Scorer, steps: list[Step]) -> EventBatch:
    """Return pending events on which each detector has an opinion."""
    scorer.measure(pd.concat([step.events for step in steps], ignore_index=True))
    pending = scorer.state.pending.joined()
    known = {each.name: each for each in scorer.detectors}
    old = (pending.level == 0) & ~known["spectral"].judges_newcomer(pending)
    return pending.take(np.flatnonzero(old & known["sequence"].has_opinion(pending))[:5])


def strong_events(events: pd.DataFrame) -> pd.Series:
    """Return which events the autoencoder finds as strange as an alert's must be."""
    usual = sample_organisation.SETTINGS.alerts.threshold
    least = np.where(others_agree(events), strong_vote_threshold(usual), usual)
    return events["autoencoder_z"] >= least


def test_while_every_series_warms_up_the_others_decide(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    events = sample_organisation.run(organisation.learned[:1], organisation.bank, tmp_path).events
    assert events["newcomer"].any()
    assert (events["spectral_z"].notna() == events["newcomer"]).all(), "but of who has no fingerprint"
    assert (events["verdict"] == verdicts_of(events)).all()


def test_one_of_two_is_either(organisation: sample_organisation.SampleOrganisation, tmp_path: Path) -> None:
    """With the votes' own threshold for alerts, so that the number of votes decides."""
    alerts = SETTINGS.alerts.model_copy(update={"threshold": SETTINGS.autoencoder.threshold})
    one, two = (
        voting("autoencoder", "spectral", quorum=quorum).model_copy(update={"alerts": alerts})
        for quorum in (1, 2)
    )
    either, both = (
        sample_organisation.run(organisation.new, organisation.bank, tmp_path / str(number), each).events
        for number, each in enumerate((one, two))
    )
    assert (either["verdict"] == verdicts_of(either, one)).all()
    assert (both["verdict"] == verdicts_of(both, two)).all()
    assert either["verdict"].sum() > both["verdict"].sum()


def test_a_third_detector_touches_none_of_the_others(
    organisation: sample_organisation.SampleOrganisation, scored: sample_organisation.Run, tmp_path: Path
) -> None:
    settings = voting("autoencoder", "spectral", "isolation_forest")
    three = sample_organisation.run(organisation.new, organisation.bank, tmp_path, settings)
    events, before = three.events, scored.events
    for name in ("autoencoder", "spectral"):
        pd.testing.assert_series_equal(events[f"{name}_z"], before[f"{name}_z"])
    assert (events["verdict"] == verdicts_of(events, settings)).all()
    assert events["isolation_forest_z"].notna().all()
    assert 0 < events["isolation_forest_vote"].mean() < 0.5
    assert set(three.store.votes.read()["detector"]) == {"autoencoder", "spectral", "isolation_forest"}
    assert three.figures["votes"]["isolation_forest"] == events["isolation_forest_vote"].sum()


@pytest.mark.parametrize("alone", ["autoencoder", "spectral", "isolation_forest"])
def test_any_detector_can_vote_alone(
    alone: str, organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    run = sample_organisation.run(organisation.new, organisation.bank, tmp_path, voting(alone, quorum=1))
    events = run.events
    assert [name for name in events if name.endswith("_z")] == [f"{alone}_z"]
    assert (events["verdict"] == verdicts_of(events, voting(alone, quorum=1))).all()
    assert {event for alert in run.alerts for event in alert.event_ids} == set(
        events.loc[events["verdict"], "event_id"]
    )
    assert all(alert.title for alert in run.alerts)


def test_an_unknown_detector_is_named(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    with pytest.raises(FingerprintError, match="no detector 'oracle'"):
        sample_organisation.run(
            organisation.new, organisation.bank, tmp_path, voting("autoencoder", "oracle")
        )


# --- while an interval fills ----------------------------------------------------------------------------------------


def test_a_verdict_turns_true_once_and_never_back_as_its_interval_fills(
    organisation: sample_organisation.SampleOrganisation,
) -> None:
    """Judge what waits after every few events, as a stream does: no verdict and no spectral vote is ever taken back."""
    bank = bank_files.open_bank(organisation.bank)
    state = ScorerState.from_arrays(sample_organisation.SETTINGS, bank.scorer_state)
    scorer = Scorer(bank, PipelineState(state), sample_organisation.SETTINGS, keep_all_events=True)
    seen = pd.DataFrame({"spectral_vote": [], "verdict": []}, dtype=bool)
    turned = pd.Series({"spectral_vote": 0, "verdict": 0})
    with EventSpool(sample_organisation.SETTINGS) as history:
        history.add_batches(files.read_sources(organisation.new, sample_organisation.SETTINGS.reading))
        events = pd.concat(list(history.batches()), ignore_index=True)
    labels = [json.loads(line) for line in (organisation.folder / "labels.jsonl").open()]
    loud = events[events["event_id"].isin([label["event_id"] for label in labels])]
    first = loud["event_time"].min().floor("h") - timedelta(hours=1)
    window = events[(events["event_time"] >= first) & (events["event_time"] < first + timedelta(hours=4))]
    for start in range(0, len(window), 10):
        scorer.measure(window.iloc[start : start + 10].reset_index(drop=True))
        judged = scorer.judge(scorer.state.pending.joined())
        now = judged.frame.set_index("event_id")[["spectral_vote", "verdict"]]
        before = now.loc[seen.index]
        assert not (seen & ~before).any(axis=None)
        turned += (before & ~seen).sum()
        seen = now
    assert seen["verdict"].any()
    assert turned["spectral_vote"] > 0, "some event came before its interval had filled enough"


def test_of_pending_events_those_that_can_open_an_alert_are_all_that_have_a_verdict(
    bank: Bank, steps: list[Step]
) -> None:
    scorer, fewer, verdicts = scorer_of(bank), 0, 0
    for step in steps:
        measured = scorer.measure(step.events)
        everything = scorer.judge_open(measured.principals)
        few = scorer.judge_alerting(measured.principals)
        wanted = everything.frame.loc[everything.frame["verdict"], "event_id"].tolist() if everything else []
        assert (few.frame.loc[few.frame["verdict"], "event_id"].tolist() if few else []) == wanted
        fewer += (len(everything.frame) if everything else 0) - (len(few.frame) if few else 0)
        verdicts += len(wanted)
        scorer.scorer_state.observe_time(*times_of(step))
        scorer.close_intervals()
        scorer.judge_closed()
    assert verdicts > 0
    assert fewer > 0


def test_a_detector_that_does_not_say_what_its_score_reads_is_given_every_column(
    bank: Bank, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    score, given = AutoencoderDetector.score, []

    def noted(self: AutoencoderDetector, batch: EventBatch) -> np.ndarray:
        given.append("action" in batch.frame)
        return score(self, batch)

    scorer = scorer_of(bank)
    principals = scorer.measure(steps[0].events).principals
    monkeypatch.setattr(AutoencoderDetector, "score", noted)
    for columns in ((), None, ("action",)):
        monkeypatch.setattr(AutoencoderDetector, "score_columns", columns)
        scorer.judge_alerting(principals)
        assert given.pop(0) is (columns != ())
        given.clear()


def times_of(step: Step) -> tuple[np.ndarray, np.ndarray]:
    coded = code_events(step.events)
    return coded.seconds, coded.principal


def test_pending_events_stay_in_few_parts_and_in_their_order(bank: Bank, steps: list[Step]) -> None:
    scorer, alone = scorer_of(bank), scorer_of(bank)
    events = steps[0].events
    for row in range(4 * MAX_PARTS):
        scorer.measure(events.iloc[[row]].reset_index(drop=True))
        assert len(scorer.state.pending.parts) <= MAX_PARTS
    alone.measure(events.iloc[: 4 * MAX_PARTS].reset_index(drop=True))
    ids = [
        [str(name) for part in each.state.pending.parts for name in part.frame["event_id"]]
        for each in (scorer, alone)
    ]
    assert ids[0] == ids[1]
    assert len(ids[0]) > MAX_PARTS


# --- silence --------------------------------------------------------------------------------------------------------


def machine(number: int, when: datetime) -> dict[str, Any]:
    role = "arn:aws:iam::123456789012:role/sync"
    return {
        "eventID": f"sync-{number}",
        "eventTime": f"{when:%Y-%m-%dT%H:%M:%SZ}",
        "eventSource": "s3.amazonaws.com",
        "eventName": "ListBuckets",
        "userIdentity": {
            "type": "AssumedRole",
            "arn": "arn:aws:sts::123456789012:assumed-role/sync/i-0a",
            "accountId": "123456789012",
            "sessionContext": {"sessionIssuer": {"type": "Role", "arn": role, "userName": "sync"}},
        },
        "sourceIPAddress": "10.0.0.1",
        "readOnly": True,
    }


def test_a_silence_is_a_vote_and_never_a_verdict(tmp_path: Path) -> None:
    """A role that called forty times an hour stops for a night while another goes on."""
    start = datetime(2026, 1, 5, tzinfo=UTC)
    beats = [start + timedelta(seconds=90) * step for step in range(40 * 24 * 5)]
    other = [{**machine(step, when), "eventID": f"other-{step}"} for step, when in enumerate(beats[::10])]
    for each in other:
        each["userIdentity"] = {"type": "IAMUser", "accountId": "123456789012", "userName": "ada"}
    silent_from = start + timedelta(days=4, hours=6)
    sync = [machine(step, when) for step, when in enumerate(beats) if when < silent_from]
    learned = start + timedelta(days=4)
    rows = sorted([*sync, *other], key=lambda row: row["eventTime"])
    border = f"{learned:%Y-%m-%dT%H:%M:%SZ}"
    past = sample_organisation.write(
        tmp_path / "past.jsonl", [row for row in rows if row["eventTime"] < border]
    )
    new = sample_organisation.write(
        tmp_path / "new.jsonl", [row for row in rows if row["eventTime"] >= border]
    )
    small = sample_organisation.SETTINGS.model_copy(
        update={"reading": sample_organisation.SETTINGS.reading.model_copy(update={"batch_records": 100})}
    )
    train_bank([str(past)], tmp_path / "bank", sample_organisation.SETTINGS, no_progress)
    run = sample_organisation.run([new], tmp_path / "bank", tmp_path, small)
    votes = run.store.votes.read()
    silences = votes[votes["event_id"].str.startswith("silence:")]
    assert run.figures["silent_intervals"] == len(silences) >= 6
    assert set(silences["principal"]) == {"123456789012:role/sync"}
    assert set(silences["detector"]) == {"spectral"}
    assert silences["event_time"].min() > pd.Timestamp(silent_from)
    assert (silences["z"] >= small.spectral.threshold).all()
    assert run.figures["verdicts"] == 0
    assert not run.alerts
