"""Explanation of single events: how each was judged, why it opened no alert, and which of its values surprised.

Example:
    >>> [found] = explain_events(chunks, {"83de59c2-58f4-4a98-9a1a-f2e735da68d1"}, arrays, bank, settings)
    >>> found.scored["autoencoder_z"], found.scored["alert_threshold"]
    (2.3, 3.49)
    >>> [(driver.feature, driver.seen, driver.expected) for driver in found.drivers]
    [('network', '193.138.0.0/16', '81.145.0.0/16, 86.142.0.0/16')]

All events of the principal are scored again, an hour at a time. Events of other principals do not change the result, and each
hour is explained while its counts are still in the state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.alerting.explainer import Explainer
from fingerprint.analysis.fingerprints import score_step
from fingerprint.compute import frames
from fingerprint.core.alert import ALERT_THRESHOLD_COLUMN, SurpriseDriver, vote_column, z_column
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors import calibrated_detectors
from fingerprint.detection.detectors.autoencoder.drivers import surprise_drivers
from fingerprint.detection.scorer import ScoredEvents, Scorer
from fingerprint.registry.bank import Bank
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState

NO_VOTE, NO_SECOND_VOTE = "no vote", "no second vote"  # reasons for no verdict
BELOW_THRESHOLD = "below the alert threshold"


class ExplainedEvent(NamedTuple):
    """An event as it was judged: one row with the columns of `fingerprint score --out`, and the drivers of its surprise."""

    scored: pd.DataFrame
    drivers: list[SurpriseDriver]


def explain_events(
    chunks: Iterable[pd.DataFrame],
    event_ids: Collection[str],
    scorer_state: Mapping[str, NDArray[np.generic]],
    bank: Bank,
    settings: Settings,
) -> Iterator[ExplainedEvent]:
    """Yield the events of `event_ids` as they were judged; `chunks` are all events of their one principal, oldest first."""
    state = PipelineState(ScorerState.from_arrays(settings, dict(scorer_state)))
    scorer = Scorer(bank, state, settings, keep_all_events=True)
    explainer = Explainer(bank.on_host, state.scorer, settings)
    for events in _by_interval(chunks, settings.spectral.interval_seconds):
        yield from _explain(score_step(scorer, events), event_ids, explainer)
    yield from _explain(scorer.judge_closed(include_open=True), event_ids, explainer)


def _by_interval(chunks: Iterable[pd.DataFrame], seconds: int) -> Iterator[pd.DataFrame]:
    for events in chunks:
        interval = frames.epoch_seconds(events["event_time"]) // seconds
        yield from (part for _, part in events.groupby(np.asarray(interval)))


def _explain(
    judged: ScoredEvents | None, event_ids: Collection[str], explainer: Explainer
) -> Iterator[ExplainedEvent]:
    if judged is None:
        return
    for row in np.flatnonzero(judged.frame["event_id"].isin(event_ids).to_numpy(bool)):
        scored = judged.frame.iloc[row : row + 1].reset_index(drop=True)
        yield ExplainedEvent(scored, surprise_drivers(judged.batch.take(np.array([row])), scored, explainer))


def missing_verdict_reasons(frame: pd.DataFrame, detectors: Sequence[str]) -> NDArray[np.object_]:
    """Return the reason why each scored event (N,) has no verdict; None if it has one.

    Of several reasons it is the first that keeps the event from an alert: no vote, a z below the alert threshold, no second vote.

    >>> missing_verdict_reasons(scored.frame, detector_names(settings))
    array(['no vote', None], dtype=object)
    """
    verdict = frame["verdict"].to_numpy(bool)
    voted = frame[[vote_column(name) for name in detectors]].to_numpy(bool).any(axis=1)
    least = frame[ALERT_THRESHOLD_COLUMN].to_numpy(np.float32)
    calibrated = [z_column(name) for name in calibrated_detectors(detectors)]
    strange = (frame[calibrated].to_numpy(np.float32) >= least[:, None]).any(axis=1) | (not calibrated)
    reasons = np.full(len(frame), NO_SECOND_VOTE, object)
    reasons[~strange] = BELOW_THRESHOLD
    reasons[~voted] = NO_VOTE
    reasons[verdict] = None
    return reasons
