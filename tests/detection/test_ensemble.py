"""The vote, exactly: who votes when, how many votes make a verdict, and what never turns back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Settings, Voting
from fingerprint.detection.batch import concat_batches
from fingerprint.detection.ensemble import verdicts
from fingerprint.detection.scorer import Scorer
from fingerprint.registry import bank as banks
from fingerprint.state.scorer_state import ScorerState
from pipelines.cli.console import no_progress
from pipelines.train import train_bank
from tests.support import sample_organisation


def voting(*detectors: str, quorum: int = 2) -> Settings:
    return sample_organisation.SETTINGS.model_copy(
        update={"voting": Voting(detectors=detectors, quorum=quorum)}
    )


@given(st.lists(st.tuples(*[st.booleans()] * 3), min_size=1), st.integers(1, 3))
def test_a_verdict_is_a_quorum_of_votes_event_by_event(rows: list[tuple[bool, ...]], quorum: int) -> None:
    votes = {str(number): np.array(column) for number, column in enumerate(zip(*rows, strict=True))}
    assert verdicts(votes, quorum).tolist() == [sum(row) >= quorum for row in rows]


BALLOTS = {"yes": (True, True), "no": (False, True), "silent": (False, False)}  # a vote, an opinion


@given(st.lists(st.tuples(*[st.sampled_from(list(BALLOTS))] * 3), min_size=1), st.integers(1, 3))
def test_who_has_no_opinion_is_not_counted_and_all_of_fewer_must_agree(
    rows: list[tuple[str, ...]], quorum: int
) -> None:
    cast = {
        str(number): [BALLOTS[each] for each in column]
        for number, column in enumerate(zip(*rows, strict=True))
    }
    votes, opinions = ({name: np.array(each)[:, at] for name, each in cast.items()} for at in (0, 1))
    expected = [row.count("yes") >= max(min(quorum, 3 - row.count("silent")), 1) for row in rows]
    assert verdicts(votes, quorum, opinions).tolist() == expected


# --- on the road ----------------------------------------------------------------------------------------------------


def test_two_of_two_is_both(scored: sample_organisation.Run) -> None:
    events = scored.events[scored.events["spectral_z"].notna()]
    assert (events["verdict"] == events["autoencoder_vote"] & events["spectral_vote"]).all()
    assert (events["autoencoder_vote"] ^ events["spectral_vote"]).any(), "or the quorum would decide nothing"


def test_a_vote_is_a_z_at_or_above_its_threshold_and_no_opinion_is_no_vote(
    scored: sample_organisation.Run,
) -> None:
    events = scored.events
    for name in ("autoencoder", "spectral"):
        threshold = getattr(sample_organisation.SETTINGS, name).threshold
        assert (events[f"{name}_vote"] == (events[f"{name}_z"] >= threshold)).all()


def test_while_every_series_warms_up_the_autoencoder_decides(
    organisation: sample_organisation.Road, tmp_path: Path
) -> None:
    events = sample_organisation.run(organisation.learned[:1], organisation.bank, tmp_path).events
    assert events["spectral_z"].isna().all()
    assert not events["spectral_vote"].any()
    assert (events["verdict"] == events["autoencoder_vote"]).all()


def test_one_of_two_is_either(
    organisation: sample_organisation.Road, scored: sample_organisation.Run, tmp_path: Path
) -> None:
    either = sample_organisation.run(
        organisation.new, organisation.bank, tmp_path, voting("autoencoder", "spectral", quorum=1)
    ).events
    assert (either["verdict"] == either["autoencoder_vote"] | either["spectral_vote"]).all()
    assert either["verdict"].sum() > scored.events["verdict"].sum()


def test_a_third_detector_touches_none_of_the_others(
    organisation: sample_organisation.Road, scored: sample_organisation.Run, tmp_path: Path
) -> None:
    three = sample_organisation.run(
        organisation.new, organisation.bank, tmp_path, voting("autoencoder", "spectral", "forest")
    )
    events, before = three.events, scored.events
    for name in ("autoencoder", "spectral"):
        pd.testing.assert_series_equal(events[f"{name}_z"], before[f"{name}_z"])
    ballots = events[["autoencoder_vote", "spectral_vote", "forest_vote"]].sum(axis=1)
    assert (events["verdict"] == (ballots >= 2)).all(), "two always have an opinion"
    assert events["forest_z"].notna().all()
    assert 0 < events["forest_vote"].mean() < 0.5
    assert set(three.desk.votes()["detector"]) == {"autoencoder", "spectral", "forest"}
    assert three.figures["votes"]["forest"] == events["forest_vote"].sum()


@pytest.mark.parametrize("alone", ["autoencoder", "spectral", "forest"])
def test_any_detector_can_vote_alone(
    alone: str, organisation: sample_organisation.Road, tmp_path: Path
) -> None:
    run = sample_organisation.run(organisation.new, organisation.bank, tmp_path, voting(alone, quorum=1))
    events = run.events
    assert [name for name in events if name.endswith("_z")] == [f"{alone}_z"]
    assert (events["verdict"] == events[f"{alone}_vote"]).all()
    assert {event for alert in run.alerts for event in alert.event_ids} == set(
        events.loc[events["verdict"], "event_id"]
    )
    assert all(alert.title for alert in run.alerts)


def test_a_detector_nobody_wrote_is_named(organisation: sample_organisation.Road, tmp_path: Path) -> None:
    with pytest.raises(FingerprintError, match="no detector 'oracle'"):
        sample_organisation.run(
            organisation.new, organisation.bank, tmp_path, voting("autoencoder", "oracle")
        )


def test_a_quorum_that_cannot_be_reached_is_refused() -> None:
    with pytest.raises(ValueError, match="never be reached"):
        Voting(detectors=("autoencoder", "spectral"), quorum=3)


# --- while an interval fills ----------------------------------------------------------------------------------------


def test_a_verdict_turns_true_once_and_never_back_as_its_interval_fills(
    organisation: sample_organisation.Road,
) -> None:
    """Judge what waits after every few events, as a stream does: no verdict and no spectral vote is ever taken back."""
    bank = banks.open_bank(organisation.bank)
    ledger = ScorerState.from_arrays(sample_organisation.SETTINGS, bank.scorer_state)
    scorer = Scorer(bank, ledger, sample_organisation.SETTINGS, keep_all_events=True)
    said = pd.DataFrame({"spectral_vote": [], "verdict": []}, dtype=bool)
    turned = pd.Series({"spectral_vote": 0, "verdict": 0})
    with EventSpool(sample_organisation.SETTINGS) as history:
        for records in files.read_sources(organisation.new, sample_organisation.SETTINGS.reading):
            history.add_records(records)
        events = pd.concat(list(history.batches()), ignore_index=True)
    labels = [json.loads(line) for line in (organisation.folder / "labels.jsonl").open()]
    loud = events[events["event_id"].isin([label["event_id"] for label in labels])]
    first = loud["event_time"].min().floor("h") - timedelta(hours=1)
    window = events[(events["event_time"] >= first) & (events["event_time"] < first + timedelta(hours=4))]
    for start in range(0, len(window), 10):
        scorer.measure(window.iloc[start : start + 10].reset_index(drop=True))
        judged = scorer.judge(concat_batches(scorer.pending))
        now = judged.frame.set_index("event_id")[["spectral_vote", "verdict"]]
        before = now.loc[said.index]
        assert not (said & ~before).any(axis=None)
        turned += (before & ~said).sum()
        said = now
    assert said["verdict"].any()
    assert turned["spectral_vote"] > 0, "some event came before its interval had filled enough"


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
    train_bank([str(past)], tmp_path / "bank", small, no_progress)
    run = sample_organisation.run([new], tmp_path / "bank", tmp_path, small)
    votes = run.desk.votes()
    silences = votes[votes["event_id"].str.startswith("silence:")]
    assert run.figures["silent_intervals"] == len(silences) >= 6
    assert set(silences["principal"]) == {"123456789012:role/sync"}
    assert set(silences["detector"]) == {"spectral"}
    assert silences["event_time"].min() > pd.Timestamp(silent_from)
    assert (silences["z"] >= small.spectral.threshold).all()
    assert run.figures["verdicts"] == 0
    assert not run.alerts
