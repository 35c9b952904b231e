"""What is known of the events: which attack session each belongs to.

Example:
    >>> lines = [{"event_id": "1", "session": "s", "strength": "quiet"}]
    >>> truth([*lines, {"eventID": "2", "label": "attack_setup"}])
      event_id session strength
    0        1       s    quiet

Two forms are read: the simulator's (`event_id`, `session`, `strength`) and that of the real sets (`eventID`,
`label`, `technique`, `run`), where only the label `attack` counts and a run of a technique is a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from fingerprint.evaluation.rows import Rows

COLUMNS = ("event_id", "session", "strength")


def truth(labels: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row an attack event: event_id, session, strength (`real` where no label says it)."""
    attacks = [label for label in labels if label.get("label", "attack") == "attack"]
    rows = [(_id(label), _session(label), str(label.get("strength", "real"))) for label in attacks]
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object).drop_duplicates(
        "event_id", ignore_index=True
    )


def labelled(rows: Rows, known: pd.DataFrame) -> pd.DataFrame:
    """The events of `rows` as `metrics.measure` wants them, but for a method's score and flags."""
    frame = rows.frame[["event_id", "event_time"]].merge(known, on="event_id", how="left", validate="m:1")
    return frame.assign(group=rows.group)


def where_to_split(rows: Rows, known: pd.DataFrame) -> int:
    """When judging begins, in seconds: after three quarters of the span, at midnight if it is days.

    A first attack before that, but not in the first half, begins it: labels may decide where the past ends,
    never what is learned of it.
    """
    first, last = int(rows.seconds[0]), int(rows.seconds[-1])
    cut = first + (last - first) * 3 // 4
    if last - first >= 4 * 86400:
        cut = round(cut / 86400) * 86400
    attacks = rows.seconds[rows.frame["event_id"].isin(known["event_id"]).to_numpy(dtype=bool)]
    begins = int(attacks.min()) if len(attacks) else last
    return begins if (first + last) / 2 <= begins < cut else cut


def _id(label: Mapping[str, Any]) -> str:
    return str(label.get("event_id") or label.get("eventID") or "")


def _session(label: Mapping[str, Any]) -> str:
    run = " ".join(str(label[part]) for part in ("technique", "run") if label.get(part))
    return str(label.get("session") or run or _id(label))
