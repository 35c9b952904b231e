"""Time from the start of an attack to its alert: `evaluation.time_to_alert` on a history."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from fingerprint.adapters.event_spool import EventSpool
from fingerprint.analysis.threshold_what_if import alert_session_pairs
from fingerprint.compute import hashing
from fingerprint.core.settings import Settings
from fingerprint.evaluation import time_to_alert
from fingerprint.evaluation.labels import HistoryOverview, find_label_rows, names_at
from fingerprint.registry.bank import Bank
from fingerprint.state import partitioning
from fingerprint.state.scorer_state import ScorerState
from pipelines.cli.console import Progress

UNREAD_COLUMN = "raw"  # a column of events that is not needed here


class ArrivalOrderSpool(EventSpool):
    """A spool that keeps the order in which records were read.

    Its events have another column, `arrival` (int64): the number of the record in that order.
    """

    records_seen = 0

    def __enter__(self) -> ArrivalOrderSpool:
        return self

    def _spill_with_networks(self, named: pd.DataFrame, lines: list[bytes]) -> None:
        super()._spill_with_networks(
            named.assign(arrival=self.records_seen + named["row"].astype("int64")), lines
        )
        self.records_seen += len(lines)


def victim_events(events: pd.DataFrame, overview: HistoryOverview) -> pd.DataFrame:
    """Return the events of a chunk whose principal was attacked, without their records."""
    theirs = np.isin(hashing.hash_strings(events["principal"]), overview.victims)
    return events[theirs].drop(columns=UNREAD_COLUMN)


def measure_time_to_alert(
    bank: Bank,
    victims: Iterable[pd.DataFrame],
    overview: HistoryOverview,
    served: pd.DataFrame,
    settings: Settings,
    progress: Progress,
) -> pd.DataFrame:
    """Return one row for each session with an alert: strength, seconds, events (`evaluation.time_to_alert`).

    `victims` are the scored events of attacked principals; `served` has all scored events, as for `metrics.compute_metrics`.
    """
    events = pd.concat(victims, ignore_index=True).sort_values("arrival", ignore_index=True)
    session = names_at(
        overview.labels["session"], find_label_rows(hashing.hash_strings(events["event_id"]), overview.labels)
    )
    found = alert_session_pairs(served[served["flagged"]])["session"].unique()
    codes = session.categories.get_indexer(pd.Index(list(found))).tolist()
    detection = time_to_alert.VerdictPipeline(bank, _victims_state(bank, events, settings), settings)
    numbers = np.asarray(session.codes, np.int64)
    found_at = time_to_alert.find_alerting_records(
        detection, events, numbers, codes, lambda done: progress("replaying attacks", done, len(events))
    )
    attacks = served[served["session"].notna()].groupby("session", observed=True)
    sessions = attacks.agg(strength=("strength", "first"), began=("event_time", "min"))
    return _session_delays(found_at, events, sessions.loc[session.categories[found_at.index]])


def _victims_state(bank: Bank, events: pd.DataFrame, settings: Settings) -> ScorerState:
    """Return the part of the bank's scorer state that the principals of these events need."""
    buckets = np.zeros(hashing.BUCKETS, bool)
    buckets[hashing.bucket_of(hashing.hash_with_bucket(events["principal"]))] = True
    return ScorerState.from_arrays(settings, partitioning.select_buckets(bank.scorer_state, buckets))


def _session_delays(found_at: pd.DataFrame, events: pd.DataFrame, sessions: pd.DataFrame) -> pd.DataFrame:
    alerted = events["event_time"].iloc[found_at["place"]].reset_index(drop=True)
    began = sessions["began"].reset_index(drop=True)
    return pd.DataFrame(
        {
            "strength": sessions["strength"].astype(object).to_numpy(),
            "seconds": (alerted - began).dt.total_seconds().clip(lower=0).to_numpy(),
            "events": found_at["events"].to_numpy(),
        }
    )
