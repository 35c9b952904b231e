"""A batch of events at the fingerprints of the sample organisation's bank, for one detector at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

from fingerprint.detection.batch import encode_batch
from fingerprint.registry.bank import Bank
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.scorer_state import ScorerState
from tests.support.stepwise_pipeline import SETTINGS, Step

Encode = Callable[[pd.DataFrame, ScorerState], EventBatch]


@pytest.fixture
def state(bank: Bank) -> ScorerState:
    """The state in which training left the organisation."""
    return ScorerState.from_arrays(SETTINGS, bank.scorer_state)


@pytest.fixture
def encode(bank: Bank) -> Encode:
    """Events as a batch that no detector has measured yet."""

    def encoded(events: pd.DataFrame, state: ScorerState) -> EventBatch:
        batch, _ = encode_batch(events, state)
        fingerprint, level = bank.resolve(batch.entity, batch.principal, batch.frame)
        return replace(batch, fingerprint=fingerprint, level=level)

    return encoded


@pytest.fixture
def events(steps: list[Step]) -> pd.DataFrame:
    """The new events of the organisation, attacks among them."""
    return pd.concat([step.events for step in steps], ignore_index=True).drop_duplicates(
        "event_id", ignore_index=True
    )
