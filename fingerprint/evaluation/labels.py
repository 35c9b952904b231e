"""Labels: files that say which events are an attack's, the sessions they form, and a history looked over before training.

Example:
    >>> lines = [{"event_id": "1", "session": "s", "strength": "quiet"}]
    >>> attack_labels([*lines, {"eventID": "2", "label": "attack_setup"}])
      event_id session strength
    0        1       s    quiet
    >>> read_labels(["data/real/invictus_stratus"])[0]["label"]
    'attack_setup'

Two forms are read: the simulator's (`event_id`, `session`, `strength`) and that of the real sets (`eventID`,
`label`, `technique`, `run`), where only the label `attack` counts and a run of a technique is a session.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.core.errors import FingerprintError
from fingerprint.core.time_range import DAY_SECONDS

LABEL_COLUMNS = ("event_id", "session", "strength")


def attack_labels(labels: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row an attack event: event_id, session, strength (`real` where no label says it)."""
    attacks = [label for label in labels if label.get("label", "attack") == "attack"]
    rows = [(_event_id(label), _session_name(label), str(label.get("strength", "real"))) for label in attacks]
    return pd.DataFrame(rows, columns=list(LABEL_COLUMNS), dtype=object).drop_duplicates(
        "event_id", ignore_index=True
    )


def join_labels(scored: pd.DataFrame, known_attacks: pd.DataFrame) -> pd.DataFrame:
    """Return scored events (`ScoredEventTable.to_frame`) as `metrics.compute_metrics` takes them, but for scores and flags."""
    place = find_label_rows(scored["event"].to_numpy(), known_attacks)
    columns = {name: names_at(known_attacks[name], place) for name in ("session", "strength")}
    return pd.DataFrame(
        {
            "event_time": pd.to_datetime(scored["time"], unit="us", utc=True),
            "principal": scored["principal"],
            "group": scored["group"],
            **columns,
        }
    )


def find_label_rows(events: Hashes, known_attacks: pd.DataFrame) -> NDArray[np.int64]:
    """Return the row of `known_attacks` of each event (N,), by the hash of its id; -1 for events without a label."""
    if not len(known_attacks):
        return np.full(len(events), -1, np.int64)
    names = hashing.hash_strings(known_attacks["event_id"])
    order = np.argsort(names)
    place = order[np.minimum(np.searchsorted(names[order], events), len(order) - 1)]
    return np.where(names[place] == events, place, -1)


def choose_split_time(first: int, last: int, attacks: NDArray[np.int64]) -> int:
    """Return when scoring begins, in seconds, of a span from `first` to `last` with attack events at `attacks` (A,).

    It begins after three quarters of the span, at midnight if the span is days. A first attack before that, but not in the
    first half, begins it: labels may decide where training ends, never what is learned.
    """
    cut = first + (last - first) * 3 // 4
    if last - first >= 4 * DAY_SECONDS:
        cut = round(cut / DAY_SECONDS) * DAY_SECONDS
    begins = int(attacks.min()) if len(attacks) else last
    return begins if (first + last) / 2 <= begins < cut else cut


def names_at(names: pd.Series, place: NDArray[np.int64]) -> pd.Categorical:
    """Return the names at some places, missing at -1, as categories: a byte or four each."""
    codes, categories = pd.factorize(names)
    return pd.Categorical.from_codes(
        np.append(codes, -1)[place], categories=pd.Index(categories, dtype=object)
    )


def _event_id(label: Mapping[str, Any]) -> str:
    return str(label.get("event_id") or label.get("eventID") or "")


def _session_name(label: Mapping[str, Any]) -> str:
    run = " ".join(str(label[part]) for part in ("technique", "run") if label.get(part))
    return str(label.get("session") or run or _event_id(label))


LABEL_FILES = ("labels.jsonl", "labels.jsonl.gz")
BENIGN_ANOMALY_FILES = ("labels.surprises.jsonl", "labels.surprises.jsonl.gz")


def read_labels(sources: list[str], file: Path | None = None) -> list[dict[str, Any]]:
    """Return the labels of `file`, or those beside the records of every source.

    Raises FingerprintError where there are none or a line is no object.
    """
    found = [file] if file else [path for source in sources for path in _files_beside(Path(source))]
    if not found:
        raise FingerprintError(
            f"no {LABEL_FILES[0]} in {', '.join(sources)}: evaluating needs to know the attacks"
        )
    return [label for path in dict.fromkeys(found) for label in _read_json_lines(path)]


def read_benign_anomalies(sources: list[str]) -> list[dict[str, Any]]:
    """Return the harmless anomalies and whom they affected, where a file beside the records says so."""
    found = [path for source in sources for path in _files_beside(Path(source), BENIGN_ANOMALY_FILES)]
    return [anomaly for path in dict.fromkeys(found) for anomaly in _read_json_lines(path)]


def _files_beside(source: Path, names: tuple[str, ...] = LABEL_FILES) -> list[Path]:
    folder = source if source.is_dir() else source.parent
    return [folder / name for name in names if (folder / name).is_file()]


def _read_json_lines(file: Path) -> list[dict[str, Any]]:
    try:
        text = file.read_bytes()
        text = gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text
        labels = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, EOFError, ValueError) as error:
        raise FingerprintError(f"labels {file} cannot be read: {error}") from None
    if not all(isinstance(label, dict) for label in labels):
        raise FingerprintError(f"labels {file}: every line must be a JSON object")
    return labels


Seconds = NDArray[np.int64]


class HistoryOverview:
    """Figures of a history, taken from its chunks, oldest first. Memory grows with attack events and principals alone."""

    def __init__(self, known: pd.DataFrame) -> None:
        self.labels = known
        self.first = self.last = 0  # seconds from the epoch
        self.principals: Hashes = np.empty(0, np.uint64)  # distinct
        # seconds of each labelled event that is there, by its hash
        self.attacks = pd.Series(dtype=np.int64, index=pd.Index([], dtype=np.uint64))
        self.victims: Hashes = np.empty(0, np.uint64)  # whose credentials they were done with, distinct

    def update(self, events: pd.DataFrame) -> None:
        """Take in the next chunk: events with entities."""
        seconds = np.asarray(events["event_time"].astype("int64"), np.int64) // 1_000_000
        principal = hashing.hash_strings(events["principal"])
        self.first = self.first or int(seconds[0])
        self.last = max(self.last, int(seconds[-1]))
        self.principals = np.union1d(self.principals, principal)
        self._update_attacks(hashing.hash_strings(events["event_id"]), seconds, principal)

    def sessions_without_events(self) -> list[str]:
        """Return the labelled sessions of which no event is there, by name: their records are missing, or their ids differ."""
        there = np.isin(hashing.hash_strings(self.labels["event_id"]), self.attacks.index.to_numpy())
        return sorted(set(self.labels["session"]) - set(self.labels["session"][there]))

    def _update_attacks(self, event: Hashes, seconds: Seconds, principal: Hashes) -> None:
        is_attack = find_label_rows(event, self.labels) >= 0
        if is_attack.any():
            more = pd.Series(seconds[is_attack], index=event[is_attack])
            self.attacks = pd.concat([self.attacks, more]).groupby(level=0).min()
            self.victims = np.union1d(self.victims, principal[is_attack])
