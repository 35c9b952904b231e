"""How long an attack was under way when the alert about it was there: `evaluation.tipping` on a history."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from fingerprint.analysis.threshold_what_if import hits
from fingerprint.compute import hashing
from fingerprint.core.settings import Settings
from fingerprint.evaluation import time_to_alert
from fingerprint.evaluation.labels import find, named
from fingerprint.evaluation.overview import Overview
from fingerprint.registry.bank import Bank
from fingerprint.state import partitioning
from fingerprint.state.scorer_state import Ledger
from pipelines.cli.console import Progress

UNREAD = "raw"  # a column of events that only alerts on a screen need


def victims_of(events: pd.DataFrame, overview: Overview) -> pd.DataFrame:
    """The events of a chunk that were done as somebody who was attacked."""
    theirs = np.isin(hashing.of(events["principal"]), overview.victims)
    return events[theirs].drop(columns=UNREAD)


def alerted(
    bank: Bank,
    victims: Iterable[pd.DataFrame],
    overview: Overview,
    served: pd.DataFrame,
    settings: Settings,
    progress: Progress,
) -> pd.DataFrame:
    """One row a session that an alert is about: strength, seconds, events (`tipping`).

    `victims` are their events of the judged days; `served` all judged events as `metrics.measure` takes them.
    """
    events = pd.concat(victims, ignore_index=True).sort_values("arrival", ignore_index=True)
    session = named(overview.known["session"], find(hashing.of(events["event_id"]), overview.known))
    found = hits(served[served["flagged"]])["session"].unique()
    wanted = session.categories.get_indexer(pd.Index(list(found))).tolist()
    road = time_to_alert.Listening(bank, _ledger(bank, events, settings), settings)
    numbers = np.asarray(session.codes, np.int64)
    tips = time_to_alert.tips(
        road, events, numbers, wanted, lambda done: progress("walking again", done, len(events))
    )
    attacks = served[served["session"].notna()].groupby("session", observed=True)
    sessions = attacks.agg(strength=("strength", "first"), began=("event_time", "min"))
    return _delays(tips, events, sessions.loc[session.categories[tips.index]])


def _ledger(bank: Bank, events: pd.DataFrame, settings: Settings) -> Ledger:
    """The part of the bank's that the principals of these events need."""
    homes = np.zeros(hashing.HOMES, bool)
    homes[hashing.homes(hashing.homed(events["principal"]))] = True
    return Ledger.from_arrays(settings, partitioning.pick(bank.ledger, homes))


def _delays(tips: pd.DataFrame, events: pd.DataFrame, sessions: pd.DataFrame) -> pd.DataFrame:
    tipped = events["event_time"].iloc[tips["place"]].reset_index(drop=True)
    began = sessions["began"].reset_index(drop=True)
    return pd.DataFrame(
        {
            "strength": sessions["strength"].astype(object).to_numpy(),
            "seconds": (tipped - began).dt.total_seconds().clip(lower=0).to_numpy(),
            "events": tips["events"].to_numpy(),
        }
    )
