"""Events -> judged events: every detector measures when an event comes; the quorum decides when its interval closes.

Example:
    >>> scorer = Scorer(bank, ledger, settings)
    >>> scorer.take(events)                  # measure and let wait
    >>> judged = scorer.settle()             # those whose interval is over, or provisional=True: all that wait, as it stands
    >>> judged.frame[["event_id", "autoencoder_z", "spectral_z", "verdict"]]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint import detectors, hashing, measured, voting
from fingerprint.bank import Bank
from fingerprint.domain import LEVELS
from fingerprint.ledger import Ledger
from fingerprint.measured import Measured
from fingerprint.settings import Settings


@dataclass(frozen=True)
class Judged:
    """Events with the columns `<detector>_z`, `<detector>_vote`, `verdict` and `alert_id`, and what explains them."""

    batch: Measured
    frame: pd.DataFrame


class Scorer:
    """Judges events against one bank. All its state is the ledger's and the events that wait for their interval."""

    def __init__(self, bank: Bank, ledger: Ledger, settings: Settings) -> None:
        self.bank, self.ledger, self.settings = bank, ledger, settings
        self.detectors = detectors.list_of(settings, bank, ledger)
        self.waiting: list[Measured] = []

    def take(self, events: pd.DataFrame) -> int:
        """Measure events (with entities). Returns how many were repeats and dropped."""
        batch, repeats = measured.prepare(events, self.ledger)
        self.ledger.late += int((batch.interval < self.ledger.closed()).sum())
        if len(batch):
            fingerprint, level = self.bank.resolve(batch.entity, batch.principal, batch.frame)
            batch = replace(batch, fingerprint=fingerprint, level=level)
            evidence = {detector.name: detector.measure(batch) for detector in self.detectors}
            self.waiting.append(replace(batch, evidence=evidence))
        return repeats

    def settle(self, everything: bool = False) -> Judged | None:
        """Judge the events whose interval can no longer change (or all), and let them go."""
        if not self.waiting:
            return None
        batch = measured.concat(self.waiting) if len(self.waiting) > 1 else self.waiting[0]
        over = np.ones(len(batch), bool) if everything else batch.interval < self.ledger.closed()
        self.waiting = [] if over.all() else [batch.take(~over)]
        return self.judge(batch.take(over)) if over.any() else None

    def judge(self, batch: Measured) -> Judged:
        """z's, votes, verdict and alert of measured events, as the series stand now."""
        columns: dict[str, NDArray[np.generic]] = {}
        votes = {}
        for detector in self.detectors:
            z = detector.z(batch)
            votes[detector.name] = np.nan_to_num(z, nan=-np.inf) >= detector.threshold
            columns |= {f"{detector.name}_z": z, f"{detector.name}_vote": votes[detector.name]}
        verdict = voting.verdicts(votes, self.settings.voting.quorum)
        frame = batch.frame.assign(
            **columns, verdict=verdict, level=np.array(LEVELS, dtype=object)[batch.level], alert_id=None
        )
        frame["alert_id"] = alert_ids(frame, verdict, self.settings.alerts.window_seconds)
        return Judged(batch, frame)

    def silences(self) -> pd.DataFrame:
        """Votes for intervals that closed since the last call with far fewer events than expected; never verdicts.

        Columns as `votes_of`; the event id is a digest of entity and interval.
        """
        end = self.ledger.closed()
        start = max(self.ledger.silent_upto or end, end - self.ledger.series.per_day)
        self.ledger.silent_upto = end
        row, interval, z = self.ledger.series.silences(detectors.COUNT, start, end)
        known = self.bank.fingerprints[self.bank.fingerprints["level"] == 0].set_index("hash")["key"]
        entity = pd.Series(self.ledger.series.owner[row]).map(known)
        seconds = self.settings.spectral.interval_seconds
        frame = pd.DataFrame(
            {
                "event_id": [
                    f"silence:{owner:016x}:{at}"
                    for owner, at in zip(self.ledger.series.owner[row], interval, strict=True)
                ],
                "event_time": pd.to_datetime((interval.astype(np.int64) + 1) * seconds, unit="s", utc=True),
                "principal": entity.map(lambda name: name.split("|")[0], na_action="ignore"),
                "entity": entity,
                "detector": "spectral",
                "z": z,
                "threshold": self.settings.spectral.threshold,
                "vote": True,
                "level": "entity",
            }
        )
        return frame[frame["entity"].notna()].reset_index(drop=True)


def alert_ids(frame: pd.DataFrame, verdict: NDArray[np.bool_], window_seconds: int) -> pd.Series:
    """The alert of each verdict: a hash of its principal and its fixed window of event time; missing for the others."""
    window = frame["event_time"].astype("int64").to_numpy()[verdict] // 1_000_000 // window_seconds
    principal = hashing.of(frame["principal"][verdict])
    names = [f"{name:016x}" for name in hashing.mix(principal, window.astype(np.uint64))]
    return pd.Series(names, index=frame.index[verdict], dtype=object).reindex(frame.index)


def votes_of(judged: Judged, scorer: Scorer) -> pd.DataFrame:
    """Single votes worth keeping (z at or above the desk's floor), one row an event and detector."""
    parts = []
    for detector in scorer.detectors:
        strong = judged.frame[f"{detector.name}_z"] >= scorer.settings.desk.vote_floor
        rows = judged.frame.loc[strong, ["event_id", "event_time", "principal", "entity", "level"]]
        z, vote = (judged.frame.loc[strong, f"{detector.name}_{what}"] for what in ("z", "vote"))
        parts.append(rows.assign(detector=detector.name, z=z, vote=vote, threshold=detector.threshold))
    return pd.concat(parts, ignore_index=True)
