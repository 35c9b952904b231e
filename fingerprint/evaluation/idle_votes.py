"""A vote that changes nothing: leaving a detector out of the quorum changes neither the alerts nor what is found.

Example:
    >>> votes = vote_effects(judged, events, ("autoencoder", "spectral"), quorum=2)
    >>> votes["spectral"]
    {'events': 210, 'alerts': 35, 'sessions': 2}
    >>> idle_detectors({"autoencoder": votes["autoencoder"], "decoration": {"events": 0, "alerts": 0, "sessions": 0}})
    ('decoration',)

A detector whose vote changes no row in any world costs time and means nothing: an evaluation that finds one fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.analysis.threshold_what_if import alert_session_pairs
from fingerprint.evaluation.quorums import quorum_verdicts

VoteEffects = dict[str, dict[str, int]]  # by detector


def vote_effects(
    judged: pd.DataFrame, events: pd.DataFrame, detectors: Sequence[str], quorum: int
) -> VoteEffects:
    """Return by detector how many verdicts, alerts and sessions found differ when it is left out.

    `judged` has N scored events (`ScoredEventTable.to_frame`), `events` the same with their labels (`labels.join_labels`). The
    quorum of the rest is as high, or all of them. A single detector cannot be left out: nothing is returned.
    """
    if len(detectors) < 2:
        return {}
    served = quorum_verdicts(judged, detectors, quorum)
    return {
        name: _difference(events, served, rest_verdicts(judged, detectors, quorum, name))
        for name in detectors
    }


def rest_verdicts(
    judged: pd.DataFrame, detectors: Sequence[str], quorum: int, left_out: str
) -> NDArray[np.bool_]:
    """Return the verdicts (N,) of all detectors but one."""
    rest = [name for name in detectors if name != left_out]
    return quorum_verdicts(judged, rest, min(quorum, len(rest)))


def _difference(
    events: pd.DataFrame, served: NDArray[np.bool_], without: NDArray[np.bool_]
) -> dict[str, int]:
    alerts, sessions = zip(*(_shown(events[verdict]) for verdict in (served, without)), strict=True)
    return {
        "events": int((served != without).sum()),
        "alerts": len(alerts[0] ^ alerts[1]),
        "sessions": len(sessions[0] ^ sessions[1]),
    }


def _shown(shown: pd.DataFrame) -> tuple[set[int], set[str]]:
    return set(shown["group"]), set(alert_session_pairs(shown)["session"])


def idle_detectors(effects: Mapping[str, Mapping[str, int]]) -> tuple[str, ...]:
    """Return the detectors that change neither an alert nor what is found, from effects summed over worlds."""
    return tuple(name for name, effect in effects.items() if not effect["alerts"] and not effect["sessions"])


def describe_idle(idle: Sequence[str]) -> str | None:
    """Return the sentence with which an evaluation fails, None where every vote counts."""
    if not idle:
        return None
    return (
        f"the vote of {' and of '.join(idle)} changes no row: without it the alerts and what is found are the same in every "
        "world that was evaluated"
    )
