"""Fingerprints and their judgements as small tables, for notebooks and pages to plot.

Example:
    >>> usual_values(bank, "123456789012:user/alice|iam|direct").head(2)
        feature             value     share
    0    action      iam:GetUser  0.61
    1    action  iam:ListRoles  0.22

All functions read a bank, or events that were scored with it, and show only figures that scoring computes as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import Floats
from fingerprint.core.alert import LEVELS, ActivityCurve, z_column
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors import detector_names
from fingerprint.detection.detectors.autoencoder.evidence import feature_surprise
from fingerprint.detection.detectors.spectral import CHANNEL_LABELS, EVENT_CHANNEL
from fingerprint.detection.scorer import ScoredEvents, Scorer
from fingerprint.estimators import autoencoder, tail_calibration
from fingerprint.features.encoding import FEATURES, parameter_names
from fingerprint.features.feature_set import Feature
from fingerprint.registry.bank import Bank
from fingerprint.state.activity_series import ActivitySeries
from fingerprint.state.event_batch import concat_batches
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState

FEATURE_LABELS = [feature.label for feature in FEATURES]


# --- what is known ----------------------------------------------------------------------------------------------------


def fingerprint_table(bank: Bank) -> pd.DataFrame:
    """Return one row for each fingerprint of a bank, busiest first: key, level, events, days, first, last, ready, net.

    `first` and `last` are the starts of the intervals in which it was first and last seen. `net` is True if its history was long
    enough for a network.
    """
    table = bank.fingerprints
    seconds = int(bank.manifest["settings"]["spectral"]["interval_seconds"])
    out = table[["key", "events", "days", "ready"]].assign(
        level=np.array(LEVELS, dtype=object)[table["level"].to_numpy()],
        first=_to_datetime(table["first"] * seconds),
        last=_to_datetime(table["last"] * seconds),
        net=np.asarray(bank.weights.row) >= 0,
    )
    return out.sort_values(["events", "key"], ascending=[False, True], ignore_index=True)


def fingerprint_row(bank: Bank, key: str) -> int:
    """Return the row of an entity or principal in a bank. Raise FingerprintError if the bank has none."""
    found = np.flatnonzero((bank.fingerprints["key"] == key).to_numpy() & (bank.fingerprints["level"] <= 1))
    if not len(found):
        raise FingerprintError(
            f"the bank knows no entity or principal {key!r}: fingerprint_table(bank) lists their keys"
        )
    return int(found[0])


def usual_values(bank: Bank, key: str, limit: int = 4) -> pd.DataFrame:
    """Return the `limit` most frequent values of each feature of an entity or principal: feature, value, share.

    `share` is the share of the intervals with the feature that had this value. The rest up to 1 are other values.
    """
    place = fingerprint_row(bank, key)
    codes = bank.vocabulary.codes[place, :, 1 : limit + 1].T  # (most, F); slots go to the most present values
    shares = bank.vocabulary.observed_share(np.full(len(codes), place, np.int32), codes)
    rows = [
        (feature.label, _plain_text(feature, text), float(share))
        for at, feature in enumerate(FEATURES)
        for text, share in zip(bank.value_texts(codes[:, at]), shares[:, at], strict=True)
        if share > 0
    ]
    return pd.DataFrame(rows, columns=["feature", "value", "share"])


def _plain_text(feature: Feature, text: str) -> str:
    return f"({parameter_names(text)})" if feature.name == "parameters" else feature.shown(text) or "(none)"


def excess_to_z(bank: Bank, key: str, excess: Floats) -> Floats:
    """Return the z (N,) of events with an `excess` in nats (N,) at an entity or principal (`tail_calibration`).

    Shifts of the threshold by dispositions are included (`feedback`).
    """
    place = fingerprint_row(bank, key)
    at = np.full(len(excess), place, np.int32)
    return tail_calibration.excess_to_z(excess, bank.baseline, at) / (1 + bank.shift[place])


# --- its activity -----------------------------------------------------------------------------------------------------


def activity_table(series: ActivitySeries, entity: str, end: int, days: int = 7) -> pd.DataFrame:
    """Return the events of an entity in each interval of the last `days` before interval `end`, with `curve_table`'s columns.

    Expectations rest on whole weeks of the past and are zero before these. Raise FingerprintError if none of its events was
    counted.
    """
    principal = hashing.hash_with_bucket(pd.Series([entity.partition("|")[0]]))
    owner = (
        hashing.rebucket(principal, hashing.hash_strings(pd.Series([entity]))) if "|" in entity else principal
    )
    row = int(series.find_rows(hashing.combine(owner, EVENT_CHANNEL))[0])
    if row < 0:
        raise FingerprintError(f"nothing was counted of {entity!r}: its series is empty")
    start, counts, expected, flagged = series.curve(row, end - 1, days, end)
    seconds = series.options.interval_seconds
    begin = pd.Timestamp(start * seconds, unit="s", tz="UTC").to_pydatetime()
    every = (tuple(values.tolist()) for values in (counts, expected, flagged))
    return curve_table(ActivityCurve(entity, CHANNEL_LABELS[EVENT_CHANNEL], begin, seconds, *every))


def curve_table(curve: ActivityCurve) -> pd.DataFrame:
    """Return an alert's curve as a table: time (an interval's start), count, expected, flagged."""
    times = pd.date_range(curve.start, periods=len(curve.counts), freq=f"{curve.interval_seconds}s")
    flagged = np.isin(np.arange(len(times)), curve.flagged)
    return pd.DataFrame(
        {"time": times, "count": curve.counts, "expected": curve.expected, "flagged": flagged}
    )


# --- how it judges ----------------------------------------------------------------------------------------------------


def score_principal(chunks: Iterable[pd.DataFrame], bank: Bank, settings: Settings) -> ScoredEvents:
    """Return the scored events of one principal, oldest first.

    The z of a principal's events does not depend on other principals' events: it is the same as in a run over all of them.
    """
    state = PipelineState(ScorerState.from_arrays(settings, bank.scorer_state))
    scorer = Scorer(bank, state, settings, keep_all_events=True)
    parts = [score_step(scorer, events) for events in chunks]
    settled = [part for part in (*parts, scorer.judge_closed(include_open=True)) if part]
    if not settled:
        raise FingerprintError("there is no event to judge: give those of a principal that acted")
    frame = pd.concat([part.frame for part in settled], ignore_index=True)
    batch, reach = concat_batches([part.batch for part in settled]), [part.reach for part in settled]
    return ScoredEvents(batch, frame, np.concatenate(reach))


def score_one_by_one(
    history: pd.DataFrame, calls: pd.DataFrame, bank: Bank, settings: Settings
) -> pd.DataFrame:
    """Score a principal's `calls` (N) one by one in their order, after the `history` before them.

    Return event_id, `<detector>_z` at that moment, and `verdicts`, the number of calls with a verdict by then. An interval fills
    while it lasts, so later calls may have votes that the first ones lacked.
    """
    state = PipelineState(ScorerState.from_arrays(settings, bank.scorer_state))
    scorer = Scorer(bank, state, settings, keep_all_events=True)
    score_step(scorer, history)
    rows, once = [], calls.drop_duplicates("event_id", ignore_index=True)
    for at in range(len(once)):
        judged = scorer.judge_open(scorer.measure(once.iloc[[at]].reset_index(drop=True)).principals)
        if judged:  # one that was done before already is nothing new
            scored_calls = judged.frame[judged.frame["event_id"].isin(calls["event_id"])]
            rows.append(scored_calls.iloc[[-1]].assign(verdicts=int(scored_calls["verdict"].sum())))
    names = ["event_id", *map(z_column, detector_names(settings)), "verdicts"]
    return pd.concat(rows, ignore_index=True)[names]


def score_step(scorer: Scorer, events: pd.DataFrame) -> ScoredEvents | None:
    """Measure events, and return the pending events whose judgement is then final, if there are any."""
    if not len(events):
        return None
    scorer.measure(events.reset_index(drop=True))
    scorer.scorer_state.observe_time(
        frames.epoch_seconds(events["event_time"]), hashing.hash_with_bucket(events["principal"])
    )
    judged = scorer.judge_closed()
    scorer.scorer_state.expire()
    return judged


def surprise_table(judged: ScoredEvents) -> pd.DataFrame:
    """Return the surprise of each event (N rows) by feature (F columns), in nats above its usual loss."""
    return pd.DataFrame(feature_surprise(judged.batch), columns=FEATURE_LABELS)


def loss_table(bank: Bank, judged: ScoredEvents) -> pd.DataFrame:
    """Return the mean loss of each feature in nats, to compare networks with counts: feature, counted, corrected, usual.

    `counted` is the loss of the counts alone, `corrected` that with the network, `usual` the mean of the baselines.
    """
    batch = judged.batch
    none = replace(bank.weights, row=np.full(len(bank.fingerprints), -1, np.int32))
    counted, _ = autoencoder.feature_losses(bank.vocabulary, none, batch.fingerprint, batch.codes)
    corrected, _ = autoencoder.feature_losses(bank.vocabulary, bank.weights, batch.fingerprint, batch.codes)
    usual_ = np.asarray(bank.baseline.center)[batch.fingerprint]
    means: dict[str, Any] = {"counted": counted, "corrected": corrected, "usual": usual_}
    return pd.DataFrame(
        {"feature": FEATURE_LABELS, **{name: each.mean(axis=0) for name, each in means.items()}}
    )


def _to_datetime(seconds: pd.Series) -> pd.Series:
    return pd.to_datetime(seconds.astype("int64"), unit="s", utc=True)
