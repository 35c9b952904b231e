"""The profile of a principal: its usual values, its history, how strange each day was, and its adjusted thresholds.

Example:
    >>> profile = build_profile(bank, "123456789012:user/ana", settings)
    >>> profile.group, profile.fingerprints[0].key, profile.fingerprints[0].events
    ('people admin', '123456789012:user/ana', 1830)
    >>> profile.usual[0].feature, profile.usual[0].values[0]
    ('action', UsualValue(text='s3:GetObject', share=0.44))

    >>> daily_votes(store.votes.read(principal=profile.principal))[-1]
    DailyVotes(day=datetime.date(2026, 3, 4), detector='autoencoder', kept=31, votes=9, strongest=16.8, threshold=3.2)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.analysis import fingerprints as inspection
from fingerprint.core.alert import LEVELS, Alert, DetectorName, Level
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.detection.detectors import interval_detectors
from fingerprint.features.encoding import FEATURES
from fingerprint.features.value_texts import NO_COUNT
from fingerprint.registry import bank_files, quality, versions
from fingerprint.registry.bank import FEEDBACK_COLUMNS, Bank
from fingerprint.training.readiness import days_until_ready

MAX_FINGERPRINTS = 200  # busiest fingerprints of a profile
MAX_VALUES = 5  # of a feature
READINESS_HORIZONS_DAYS = (1.0, 7.0, 30.0)  # days

_BIN_LABELS = {each.label for each in FEATURES if each.kind == "bin" and each.name != "mode"}
_UNIT_SECONDS = {"min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": DAY_SECONDS, "day": DAY_SECONDS}

RowIndices = NDArray[np.intp]

MAX_CHARTED_VOTES = 20_000  # newest votes of one principal that a page or an answer counts by day


@dataclass(frozen=True, slots=True)
class UsualValue:
    """A usual value; `share` is the share of the intervals with the feature that had this value."""

    text: str
    share: float


@dataclass(frozen=True, slots=True)
class FeatureProfile:
    """The usual values of one feature, the most frequent first; the rest up to 1 are other values."""

    feature: str
    values: tuple[UsualValue, ...]


@dataclass(frozen=True, slots=True)
class FingerprintSummary:
    """One fingerprint: of the principal as a whole, or of one of its entities.

    | field | content |
    |---|---|
    | `first`, `last` | starts of the intervals in which it was first and last seen |
    | `ready`, `ready_in_days` | a fingerprint that is not ready falls back a level; days until it is ready, at its pace so far |
    | `net` | whether its history was long enough for a network |
    | `usual_loss` | surprise of an ordinary event, in nats over all features |
    | `alert_threshold` | z from which an event opens an alert |
    | `shift` | share by which decisions on `benign` and `malicious` alerts moved the threshold |
    """

    key: str
    level: Level
    events: int
    days: int
    first: datetime
    last: datetime
    ready: bool
    ready_in_days: float | None
    net: bool
    usual_loss: float
    alert_threshold: float
    shift: float
    benign: int
    malicious: int


@dataclass(frozen=True, slots=True)
class PrincipalProfile:
    """A principal in a bank that learned the history from `since` to `until`.

    `group` is the peer group to which it falls back. `fingerprints` has the principal's own first, then its entities, the busiest
    first; `total` is their number. `usual` are the usual values of `shown`, one of their keys.
    """

    principal: str
    bank_version: str
    since: str
    until: str
    kind: str
    group: str
    fingerprints: tuple[FingerprintSummary, ...]
    total: int
    shown: str
    usual: tuple[FeatureProfile, ...]


@dataclass(frozen=True, slots=True)
class DailyVotes:
    """The single votes of one detector on one day (UTC).

    `kept` is the number with a z above the floor of the alert store, `votes` the number that reached their threshold. `strongest`
    is the highest z, `threshold` the threshold with which it was compared.
    """

    day: date
    detector: DetectorName
    kept: int
    votes: int
    strongest: float
    threshold: float


@dataclass(frozen=True, slots=True)
class LevelReadiness:
    """The readiness of the fingerprints of one level.

    `ready` is the number that are ready now. The others will be ready, at their pace so far, within a `day`, `week` or `month`,
    or `later`.
    """

    level: Level
    fingerprints: int
    ready: int
    day: int
    week: int
    month: int
    later: int


def build_profile(
    bank: Bank, principal: str, settings: Settings, shown_key: str | None = None
) -> PrincipalProfile:
    """Return the profile of a principal with the usual values of `shown_key`, by default of the principal itself.

    Raise FingerprintError if the bank does not know the principal, or if `shown_key` is none of its fingerprints.
    """
    rows = _fingerprint_rows(bank, principal)
    key = principal if shown_key is None else shown_key
    if key not in set(bank.fingerprints["key"].iloc[rows]):
        raise FingerprintError(f"{principal!r} has no fingerprint {key!r}: its profile lists those it has")
    kind, group = _kind_and_group(bank, principal)
    since, until = bank.manifest["span"]
    learned = tuple(_fingerprint_summaries(bank, rows[:MAX_FINGERPRINTS], settings))
    usual = tuple(_feature_profiles(bank, key))
    return PrincipalProfile(
        principal, bank.version, since, until, kind, group, learned, len(rows), key, usual
    )


def daily_votes(votes: pd.DataFrame) -> list[DailyVotes]:
    """Return figures of single votes (V rows, fields of Vote) by day, the oldest first, and by detector."""
    if votes.empty:
        return []
    strongest_last = votes.assign(day=_day_of_votes(votes)).sort_values("z", kind="stable")
    table = strongest_last.groupby(["day", "detector"]).agg(
        kept=("z", "size"), votes=("vote", "sum"), strongest=("z", "last"), threshold=("threshold", "last")
    )
    return [
        DailyVotes(day, detector, int(kept), int(count), float(strongest), float(threshold))
        for (day, detector), (kept, count, strongest, threshold) in zip(
            table.index, table.itertuples(index=False), strict=True
        )
    ]


def _day_of_votes(votes: pd.DataFrame) -> pd.Series:
    """Return the day of each vote (V,). A vote on an interval has the time of its end, which may be midnight: the day before."""
    on_interval = votes["detector"].isin(interval_detectors(votes["detector"].unique()))
    within = votes["event_time"].where(~on_interval, votes["event_time"] - pd.Timedelta(seconds=1))
    return within.dt.date


def readiness_by_level(bank: Bank, settings: Settings) -> list[LevelReadiness]:
    """Return the numbers of ready fingerprints and of those that still warm up, by level, the finest first."""
    table, seconds = bank.fingerprints, interval_seconds(bank)
    return [
        _level_readiness(level, table[table["level"] == number], seconds, settings)
        for number, level in enumerate(LEVELS)
    ]


def _level_readiness(level: Level, table: pd.DataFrame, seconds: int, settings: Settings) -> LevelReadiness:
    ready = table["ready"].to_numpy(bool)
    # 0: within a day
    bins = np.searchsorted(READINESS_HORIZONS_DAYS, days_until_ready(table[~ready], seconds, settings))
    return LevelReadiness(
        level,
        len(table),
        int(ready.sum()),
        *np.bincount(bins, minlength=len(READINESS_HORIZONS_DAYS) + 1).tolist(),
    )


def interval_seconds(bank: Bank) -> int:
    """Return the seconds of an interval."""
    return int(bank.manifest["settings"]["spectral"]["interval_seconds"])


def _fingerprint_rows(bank: Bank, principal: str) -> RowIndices:
    """Return the rows of a principal's fingerprints: its own, then its entities', the busiest first."""
    own = inspection.fingerprint_row(bank, principal)
    entities = np.flatnonzero(bank.whole == own)
    busiest = np.argsort(-bank.fingerprints["events"].to_numpy()[entities], kind="stable")
    return np.concatenate([[own], entities[busiest]])


def _kind_and_group(bank: Bank, principal: str) -> tuple[str, str]:
    """Return kind and peer group."""
    known = bank.people[bank.people["principal"] == principal]
    return (str(known["kind"].iloc[0]), str(known["peer"].iloc[0])) if len(known) else ("", "")


def _fingerprint_summaries(bank: Bank, rows: RowIndices, settings: Settings) -> list[FingerprintSummary]:
    table, seconds = bank.fingerprints.iloc[rows], interval_seconds(bank)
    first, last = (
        pd.to_datetime(table[name].astype("int64") * seconds, unit="s", utc=True)
        for name in ("first", "last")
    )
    base = quality.alert_threshold(bank.manifest["quality"], settings.alerts)
    wait = days_until_ready(table, seconds, settings)
    usual = np.asarray(bank.baseline.center)[rows].sum(axis=1)
    net, shift = np.asarray(bank.weights.row)[rows] >= 0, bank.shift[rows].tolist()
    return [
        FingerprintSummary(
            key=str(row["key"]),
            level=LEVELS[row["level"]],
            events=int(row["events"]),
            days=int(row["days"]),
            first=first.iloc[at].to_pydatetime(),
            last=last.iloc[at].to_pydatetime(),
            ready=bool(row["ready"]),
            ready_in_days=None if row["ready"] else round(float(wait[at]), 1),
            net=bool(net[at]),
            usual_loss=round(float(usual[at]), 2),
            alert_threshold=round(base * (1 + shift[at]), 4),
            shift=round(shift[at], 4),
            benign=int(row.get(FEEDBACK_COLUMNS[1], 0)),
            malicious=int(row.get(FEEDBACK_COLUMNS[2], 0)),
        )
        for at, row in enumerate(table.to_dict("records"))
    ]


def _feature_profiles(bank: Bank, key: str) -> list[FeatureProfile]:
    """Return the usual values by feature, in the order of the features; equal texts are merged, and bins are sorted by size."""
    table = inspection.usual_values(bank, key, MAX_VALUES)
    summed = table.groupby(["feature", "value"], sort=False, as_index=False)["share"].sum()
    return [
        FeatureProfile(str(feature), tuple(_in_order(str(feature), rows["value"], rows["share"])))
        for feature, rows in summed.groupby("feature", sort=False)
    ]


def _in_order(feature: str, texts: pd.Series, shares: pd.Series) -> list[UsualValue]:
    """Return the values of a feature: amounts and times by size, others by share."""
    values = [
        UsualValue(str(text), min(round(float(share), 4), 1.0))
        for text, share in zip(texts, shares, strict=True)
    ]
    if feature in _BIN_LABELS:
        return sorted(values, key=lambda value: bin_size(value.text))
    return sorted(values, key=lambda value: -value.share)


def bin_size(text: str) -> tuple[int, float, str]:
    """Return a sort key of a bin's text (`4 to 7`, `up to 2 h ago`, `weekend 08-10 UTC`); texts without a number come last.

    Example:
        >>> sorted(["16 to 31", "4 to 7", "none", "never seen before"], key=bin_size)
        ['none', '4 to 7', '16 to 31', 'never seen before']
    """
    words = ["0"] if text == NO_COUNT else text.split()
    for at, word in enumerate(words):
        digits = word.partition("-")[0].replace(",", "")
        if digits.isascii() and digits.replace(".", "", 1).isdigit():
            unit = words[at + 1] if at + 1 < len(words) else ""
            return int(words[0] == "weekend"), float(digits) * _UNIT_SECONDS.get(unit.rstrip("s"), 1.0), text
    return 2, 0.0, text


def adjusted_thresholds(folder: Path, alert: Alert, settings: Settings) -> list[dict[str, Any]]:
    """Return the thresholds that were moved by dispositions and judged the events of an alert.

    There is one record for each `key` (an entity or the principal): the `threshold`, its `shift` as a share, and the numbers of
    `benign` and `malicious` alerts that moved it. Empty if the folder no longer has the bank that measured the events.
    """
    keys = sorted({alert.principal, *(event.entity for event in alert.events)})
    try:
        found = bank_files.find_fingerprints(folder, alert.bank_version, keys, settings.bank)
        figures = bank_files.read_manifest(
            versions.version_folder(folder, alert.bank_version), settings.bank
        )["quality"]
    except FingerprintError:
        return []
    deciding = _deciding_fingerprints(found, alert)
    usual = quality.alert_threshold(figures, settings.alerts)
    return [
        {
            "key": str(key),
            "threshold": round(usual, 4),
            "shift": round(float(shift), 4),
            "benign": int(benign),
            "malicious": int(malicious),
        }
        for key, shift, benign, malicious in deciding[["key", *FEEDBACK_COLUMNS]].itertuples(index=False)
    ]


def _deciding_fingerprints(found: pd.DataFrame, alert: Alert) -> pd.DataFrame:
    """Return the fingerprints that judged the alert's events and have a moved threshold.

    Events of a ready entity are judged by its own fingerprint, others by that of their principal.
    """
    if FEEDBACK_COLUMNS[0] not in found:
        return pd.DataFrame(columns=["key", *FEEDBACK_COLUMNS])
    ready = found[found["ready"]]
    own = ready[ready["level"] == LEVELS.index("entity")]
    if not {event.entity for event in alert.events} <= set(own["key"]):
        own = pd.concat([own, ready[ready["level"] == LEVELS.index("principal")]])
    return own[own["shift"] != 0]
