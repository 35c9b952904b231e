"""Feedback: thresholds that follow analysts' dispositions, in small steps, bounded both ways, fading with age.

Example:
    >>> dispositions = store.feedback.decided_entities(until)     # alert, principal, entity, event_time, decision
    >>> bank = apply_feedback(bank, dispositions, settings.training)
    >>> bank.fingerprints.loc[bank.shift != 0, ["key", "shift", "benign", "malicious"]]
                                     key   shift  benign  malicious
    41   123456789012:user/ana|s3|direct  0.0293       1          0

The *shift* of a fingerprint is a share of the autoencoder's threshold: with a shift of 0.03, a threshold of 4 becomes 4.12. In
scoring, z is divided by 1 + shift and compared with one threshold for all (`detectors`). Let s be the sum, over the decided
alerts, of +1 (benign, false positive) or -2 (true positive), each halved for every DISPOSITION_HALF_LIFE_DAYS between the alert's
newest event and the end of the history. Then:

    shift = max_threshold_increase * (1 - 2^(-s/2)) if s >= 0, else -max_threshold_decrease * (1 - 2^(s/2))

The first false alarm moves a threshold by 29 % of the maximum, ten by 97 %: an intruder who makes an analyst call everything
benign gains at most `max_threshold_increase`. An alert moves the fingerprint that judges its events now: that of their entity, or
of their principal if the former is not ready. Shared fingerprints (peer groups, the generic one) never move. A decision on an
alert also counts for the entities of its duplicates, but only once for each fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute.arrays import Doubles
from fingerprint.core.alert import LEVELS
from fingerprint.core.settings import Training
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.registry.bank import FEEDBACK_COLUMNS, Bank, with_manifest_entries

DISPOSITION_HALF_LIFE_DAYS = 90.0  # days of event time in which the influence of a disposition halves
DISPOSITION_COLUMNS = ("alert", "principal", "entity", "event_time", "decision")  # of the judged entities
DECISION_WEIGHTS: Mapping[str, float] = {"benign": 1.0, "false_positive": 1.0, "true_positive": -2.0}
SHIFT_DECIMALS = 4  # a shift is rounded to so many; one that has faded below is 0


def apply_feedback(bank: Bank, dispositions: pd.DataFrame, options: Training) -> Bank:
    """Return a bank, with a version of its own, whose thresholds follow the dispositions; the same bank if none moves.

    `dispositions` has DISPOSITION_COLUMNS: `alert` is the id of the decided alert (a duplicate's original), `event_time` is UTC.
    """
    table = shift_thresholds(bank.fingerprints, dispositions, int(bank.manifest["watermark"]), options)
    if not table["shift"].any():
        return bank
    return with_manifest_entries(replace(bank, fingerprints=table), shifted=count_shifts(table))


def shift_thresholds(
    table: pd.DataFrame, dispositions: pd.DataFrame, end: int, options: Training
) -> pd.DataFrame:
    """Return the fingerprints (E rows) with FEEDBACK_COLUMNS: the shift, and the number of alerts of each kind behind it.

    `end` is the end of the history, in seconds since 1970.
    """
    judged = dispositions.assign(row=_judging_rows(table, dispositions))
    judged = judged[(judged["row"] >= 0) & judged["decision"].isin(list(DECISION_WEIGHTS))]
    # A decision on an alert counts once for a fingerprint.
    judged = judged.groupby(["row", "alert", "decision"])["event_time"].max().reset_index()
    row = judged["row"].to_numpy(np.intp)
    weight = judged["decision"].map(DECISION_WEIGHTS).to_numpy(np.float64)
    score = np.zeros(len(table))
    np.add.at(score, row, weight * _decayed_weights(judged["event_time"], end))
    benign, malicious = (np.bincount(row[which], minlength=len(table)) for which in (weight > 0, weight < 0))
    values = (score_to_shift(score, options), benign.astype(np.int32), malicious.astype(np.int32))
    return table.assign(**dict(zip(FEEDBACK_COLUMNS, values, strict=True)))


def score_to_shift(score: Doubles, options: Training) -> NDArray[np.float32]:
    """Return the shifts (E,) for scores (E,), from -`max_threshold_decrease` to `max_threshold_increase`."""
    most = np.where(score >= 0, options.max_threshold_increase, -options.max_threshold_decrease)
    return np.round(most * (1 - np.exp2(-np.abs(score) / 2)), SHIFT_DECIMALS).astype(np.float32)


def count_shifts(table: pd.DataFrame) -> dict[str, int]:
    """Return the numbers of raised and of lowered thresholds, for a manifest."""
    shift = table["shift"]
    return {"raised": int((shift > 0).sum()), "lowered": int((shift < 0).sum())}


def changed_shifts(older: Bank, newer: Bank) -> list[dict[str, Any]]:
    """Return the fingerprints whose shift differs between two banks, largest change first; a missing one has shift 0."""
    both = _shifted_fingerprints(older).merge(
        _shifted_fingerprints(newer), "outer", on=["level", "key"], suffixes=("_before", "")
    )
    both = both.fillna({name: 0 for name in both.columns if name not in ("level", "key")})
    both["far"] = (both["shift"] - both["shift_before"]).abs()
    both = both[both["far"] > 0].sort_values(["far", "key"], ascending=[False, True])
    return _to_records(both)


def largest_shifts(bank: Bank, limit: int) -> list[dict[str, Any]]:
    """Return the `limit` fingerprints with the largest shifts, up or down."""
    table = _shifted_fingerprints(bank)
    order = np.lexsort((table["key"], -table["shift"].abs()))[:limit]
    return _to_records(table.iloc[order])


def _judging_rows(table: pd.DataFrame, judged: pd.DataFrame) -> NDArray[np.intp]:
    """Return the row of the fingerprint that judges each event (N,): its entity's if ready, else its principal's, else -1."""
    entity, principal = (
        judged[name].map(_ready_rows(table, level, judged[name]))
        for name, level in (("entity", "entity"), ("principal", "principal"))
    )
    rows = entity.fillna(principal).fillna(-1)
    return np.asarray(rows, np.intp)


def _ready_rows(table: pd.DataFrame, level: str, keys: pd.Series) -> dict[str, int]:
    """Return the rows of the ready fingerprints of a level, by key."""
    ready = table["ready"] & (table["level"] == LEVELS.index(level)) & table["key"].isin(keys)
    rows = np.flatnonzero(ready.to_numpy())
    return dict(zip(table["key"].iloc[rows], rows.tolist(), strict=True))


def _decayed_weights(times: pd.Series, end: int) -> Doubles:
    """Return the weights (N,) of dispositions by the age of their events at `end`; 1 for an event after it."""
    micros = times.astype("datetime64[us, UTC]").astype("int64").to_numpy(np.float64)
    days = np.maximum(end - micros / 1_000_000, 0) / DAY_SECONDS
    faded: Doubles = np.exp2(-days / DISPOSITION_HALF_LIFE_DAYS)
    return faded


def _shifted_fingerprints(bank: Bank) -> pd.DataFrame:
    table = bank.fingerprints.reindex(columns=["level", "key", *FEEDBACK_COLUMNS], fill_value=0)
    return table[table["shift"] != 0]


def _to_records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as records for JSON."""
    names = [name for name in ("key", "level", "shift_before", *FEEDBACK_COLUMNS) if name in table]
    of_each = [dict(zip(names, row, strict=True)) for row in table[names].itertuples(index=False)]
    return [
        {
            "key": str(each["key"]),
            "level": LEVELS[int(each["level"])],
            "before": round(float(each.get("shift_before", 0)), SHIFT_DECIMALS),
            "shift": round(float(each["shift"]), SHIFT_DECIMALS),
            "benign": int(each["benign"]),
            "malicious": int(each["malicious"]),
        }
        for each in of_each
    ]
