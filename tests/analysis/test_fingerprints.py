"""What a fingerprint knows and how it judges, as tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fingerprint.analysis import fingerprints
from fingerprint.compute import hashing
from fingerprint.core.alert import ActivityCurve
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Alerts, Autoencoder, Settings, Voting
from fingerprint.detection.detectors.spectral import EVENT_CHANNEL
from fingerprint.features.encoding import FEATURE_NAMES, FEATURES
from fingerprint.features.vocabulary import vocabulary_key
from fingerprint.pipeline import DetectionPipeline
from fingerprint.registry.bank import Bank
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from pipelines.evaluation.backtest import read_history
from tests.support import sample_organisation


@pytest.fixture(scope="module")
def new(organisation: sample_organisation.SampleOrganisation) -> pd.DataFrame:
    """All new events of the small organisation, oldest first."""
    with read_history(organisation.new, sample_organisation.SETTINGS) as history:
        return pd.concat(history.batches(), ignore_index=True)


@pytest.fixture(scope="module")
def busiest(bank: Bank) -> str:
    """The busiest role at a service: the network of an AWS service, which makes one call, corrects nothing."""
    known = fingerprints.fingerprint_table(bank)
    is_role = known["key"].str.contains(":role/", regex=False)
    return str(known.loc[(known["level"] == "entity") & known["net"] & is_role, "key"].iloc[0])


def test_all_that_a_bank_holds_is_listed_the_busiest_first(bank: Bank) -> None:
    known = fingerprints.fingerprint_table(bank)
    assert sorted(known["key"]) == sorted(bank.fingerprints["key"])
    assert known["events"].is_monotonic_decreasing
    assert known.loc[0, "level"] == "generic"
    assert known["net"].sum() == len(bank.weights.bias)


def test_what_is_usual_are_the_most_counted_values_with_their_shares(bank: Bank, busiest: str) -> None:
    """The plain way: ask the vocabulary for the count of every word there is."""
    place, action = fingerprints.fingerprint_row(bank, busiest), FEATURE_NAMES.index("action")
    counts = {}
    for code, text in zip(bank.words["code"], bank.words["text"], strict=True):
        at = np.flatnonzero(bank.vocabulary.keys == vocabulary_key(place, action, np.uint64(code)))
        if len(at):
            counts[text] = float(bank.vocabulary.count[at[0]])
    usual = fingerprints.usual_values(bank, busiest, limit=3)
    actions = usual[usual["feature"] == "action"]
    wanted = sorted(counts.values(), reverse=True)[:3]
    assert actions["share"].tolist() == pytest.approx([count / sum(counts.values()) for count in wanted])
    assert [counts[text] for text in actions["value"]] == wanted


def test_whom_the_bank_does_not_know_it_says_so(bank: Bank) -> None:
    with pytest.raises(FingerprintError, match="the bank knows no entity or principal 'stranger'"):
        fingerprints.usual_values(bank, "stranger")


def test_a_principal_alone_is_judged_as_among_all_others(bank: Bank, new: pd.DataFrame) -> None:
    """Down the pipeline in one go; and the victim of an attack alone, in batches of another size."""
    every = DetectionPipeline(
        bank,
        PipelineState(ScorerState.from_arrays(sample_organisation.SETTINGS, bank.scorer_state)),
        sample_organisation.SETTINGS,
        keep_all_events=True,
    )
    together = pd.concat([*every.process(new).scored_events, *every.flush().scored_events]).set_index(
        "event_id"
    )
    principal = together.loc[together["verdict"], "principal"].iloc[0]
    mine = new[new["principal"] == principal].reset_index(drop=True)
    alone = fingerprints.score_principal(
        (mine[at : at + 50] for at in range(0, len(mine), 50)), bank, sample_organisation.SETTINGS
    )
    wanted = together.loc[alone.frame["event_id"]]
    assert len(alone.frame) == (together["principal"] == principal).sum()
    for z in ("autoencoder_z", "spectral_z"):
        np.testing.assert_allclose(alone.frame[z], wanted[z], atol=1e-4)
    assert alone.frame["verdict"].tolist() == wanted["verdict"].tolist()


def test_the_first_call_of_a_surge_does_not_know_what_the_twelfth_does(
    bank: Bank, new: pd.DataFrame, scored: sample_organisation.Run
) -> None:
    """Twelve calls of an attack one by one; the last stands as if they had come at once. The sequence would wait for the hour."""
    alert = max(scored.alerts, key=lambda alert: len(alert.events))
    mine = new[new["principal"] == alert.principal].drop_duplicates("event_id", ignore_index=True)
    first = mine.index[mine["event_id"].isin(alert.event_ids)][0]
    before, calls = mine[:first], mine[first : first + 12]
    eager = Settings(
        autoencoder=Autoencoder(max_epochs=1),
        alerts=Alerts(threshold=1.0),
        voting=Voting(detectors=("autoencoder", "spectral")),
    )
    came = fingerprints.score_one_by_one(before, calls, bank, eager)
    whole = fingerprints.score_principal([mine[: first + 12]], bank, eager).frame[first:]
    assert came["event_id"].tolist() == calls["event_id"].tolist()
    assert came["verdicts"].is_monotonic_increasing
    assert came["verdicts"].iloc[-1] == whole["verdict"].sum() > 0
    assert came["spectral_z"].iloc[0] < came["spectral_z"].iloc[-1]
    assert came["spectral_z"].iloc[-1] == pytest.approx(whole["spectral_z"].iloc[-1], abs=1e-4)


def test_nothing_to_judge_is_a_sentence(bank: Bank) -> None:
    with pytest.raises(FingerprintError, match="no event to judge"):
        fingerprints.score_principal([], bank, sample_organisation.SETTINGS)


def test_surprises_and_losses_have_a_place_for_every_feature(
    bank: Bank, new: pd.DataFrame, busiest: str
) -> None:
    judged = fingerprints.score_principal([new[new["entity"] == busiest]], bank, sample_organisation.SETTINGS)
    labels = [feature.label for feature in FEATURES]
    assert list(fingerprints.surprise_table(judged)) == labels
    assert len(fingerprints.surprise_table(judged)) == len(judged.frame)
    losses = fingerprints.loss_table(bank, judged).set_index("feature")
    assert list(losses.index) == labels
    assert (losses["counted"] != losses["corrected"]).any(), "the busiest entity has a net"


def test_without_nets_there_is_nothing_but_counts(bank: Bank, new: pd.DataFrame, busiest: str) -> None:
    judged = fingerprints.score_principal([new[new["entity"] == busiest]], bank, sample_organisation.SETTINGS)
    without = replace(bank, weights=replace(bank.weights, row=np.full(len(bank.fingerprints), -1, np.int32)))
    losses = fingerprints.loss_table(without, judged)
    assert losses["counted"].tolist() == losses["corrected"].tolist()


def test_more_surprise_is_rarer_and_a_raised_threshold_takes_more_of_it(bank: Bank, busiest: str) -> None:
    nats = np.linspace(0, 60, 61)
    z = fingerprints.excess_to_z(bank, busiest, nats)
    assert (np.diff(z) > 0).all()
    raised = replace(bank, fingerprints=bank.fingerprints.assign(shift=np.float32(0.25)))
    np.testing.assert_allclose(fingerprints.excess_to_z(raised, busiest, nats) * 1.25, z, rtol=1e-5)


def test_activity_is_what_the_series_counted_beside_what_was_expected(bank: Bank, busiest: str) -> None:
    series = ScorerState.from_arrays(sample_organisation.SETTINGS, bank.scorer_state).series
    end = int(bank.manifest["watermark"]) // series.options.interval_seconds + 1
    principal = busiest.partition("|")[0]
    for key, owner in (
        (principal, hashing.hash_with_bucket(pd.Series([principal]))),
        (
            busiest,
            hashing.rebucket(
                hashing.hash_with_bucket(pd.Series([principal])), hashing.hash_strings(pd.Series([busiest]))
            ),
        ),
    ):
        curve = fingerprints.activity_table(series, key, end, days=5)
        row = series.find_rows(hashing.combine(owner, EVENT_CHANNEL))
        begin = int(curve["time"].iloc[0].timestamp()) // series.options.interval_seconds
        assert begin + len(curve) == end
        np.testing.assert_allclose(curve["count"].iloc[:-24], series.dense_counts(row, begin, end - 24)[0])
        assert curve["count"].sum() > 0
        assert curve["expected"].ge(0).all()


def test_whose_activity_was_never_counted_it_says_so(bank: Bank) -> None:
    series = ScorerState.from_arrays(sample_organisation.SETTINGS, bank.scorer_state).series
    with pytest.raises(FingerprintError, match="nothing was counted of 'stranger'"):
        fingerprints.activity_table(series, "stranger", 500_000)


def test_the_curve_of_an_alert_becomes_a_table_by_time(scored: sample_organisation.Run) -> None:
    curve = next(alert.curve for alert in scored.alerts if alert.curve)
    assert isinstance(curve, ActivityCurve)
    table = fingerprints.curve_table(curve)
    assert table["time"].iloc[0] == curve.start
    assert table["time"].diff().dropna().dt.total_seconds().unique().tolist() == [curve.interval_seconds]
    assert np.flatnonzero(table["flagged"]).tolist() == list(curve.flagged)
    assert tuple(table["count"]) == curve.counts
