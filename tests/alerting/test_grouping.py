"""Which events an alert keeps: few, and no noise displaces what did harm."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pandas as pd
import pytest

from fingerprint.alerting import grouping
from fingerprint.alerting.explainer import Explainer
from fingerprint.alerting.grouping import AlertGroups
from fingerprint.compute import frames
from fingerprint.core.alert import z_column
from fingerprint.detection.batch import encode_batch
from fingerprint.registry.bank import Bank
from fingerprint.state.event_batch import Verdicts
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from tests.support.stepwise_pipeline import SETTINGS, Step


def test_no_noise_displaces_from_an_alert_what_did_harm(
    bank: Bank, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who deletes a bucket may make stranger calls by the hundred: its urgency must not fall by them."""
    events = pd.concat([step.events for step in steps], ignore_index=True)
    events = events.drop_duplicates("event_id", ignore_index=True).head(200)
    deleted = np.arange(200) < 45
    events["service"] = np.where(deleted, "s3", "iam")
    events["action"] = np.where(deleted, "DeleteObject", "ListNothingKnown")
    events["error_code"] = None
    batch, _ = encode_batch(events, ScorerState.from_arrays(SETTINGS, bank.scorer_state))
    batch = replace(batch, evidence={"autoencoder": np.zeros((200, 1), np.uint64)})
    frame = frames.to_pandas(batch.frame).assign(
        alert_id="one", **{z_column("autoencoder"): np.where(deleted, 2.0, 3.0)}
    )
    state = PipelineState(ScorerState(SETTINGS))
    state.open_alerts.verdicts = [Verdicts(batch, frame)]
    monkeypatch.setattr(grouping, "MAX_ALERT_EVENTS", 50)
    AlertGroups(cast(Explainer, None), state)._limit_events()
    [kept] = state.open_alerts.verdicts
    assert kept.frame["action"].value_counts().to_dict() == {"DeleteObject": 45, "ListNothingKnown": 5}
    assert state.counters.dropped_events == 150
    graver = np.arange(200) % 20 == 0
    frame.loc[graver & ~deleted, ["service", "action"]] = ["cloudtrail", "StopLogging"]
    frame.loc[graver, z_column("autoencoder")] = 1.0
    [kept] = grouping._select_events([Verdicts(batch, frame)], 10)
    assert kept.frame["action"].value_counts().to_dict() == {"StopLogging": 7, "DeleteObject": 3}
    denied = Verdicts(batch, frame.assign(error_code="AccessDenied"))
    [kept] = grouping._select_events([denied], 50)
    assert "DeleteObject" not in set(kept.frame["action"]), "what failed did no harm"
