"""Second votes: how much evidence it is that other detectors voted for an alert's events too.

Example:
    >>> says = {"spectral": {"share": 0.21, "usual": 0.46}, "sequence": {"share": 0.33, "usual": 0.72}}
    >>> round(second_vote_nats(batch, frame, says), 2)             # of an alert that both voted for
    1.14
    >>> [(each.feature, each.seen) for each in second_vote_drivers(batch, frame, says)]
    [('second vote', 'Spectral agrees: more calls, or at other hours, than usual')]

Urgency is made of the z's of calibrated detectors, and an alert has the votes that a quorum asks for in any case. But how much
those votes say differs: of the odd events of harmless days, the bank's held-out rows, a share has another detector's vote too
(`registry.quality.second_votes`). A vote is worth ln(1 / share) nats. What a harmless alert has on average is taken off again, so
that an alert with the usual votes stays where it is, one with more rises and one with fewer falls.

A principal that no other detector has an opinion on, a newcomer, is neither better nor worse off: it counts as the average. An
event that joins can only add a vote, and a vote once given stays: no alert loses evidence while it grows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.core.alert import (
    LEVELS,
    SECOND_VOTE_FEATURE,
    Rarity,
    SurpriseDriver,
    vote_column,
    z_column,
)
from fingerprint.detection.detectors import Detector, load_known_detectors
from fingerprint.state.event_batch import EventBatch

# What a bank says of each detector's second vote: `share` and `usual` by the detector's name.
SecondVotes = Mapping[str, Mapping[str, float]]

OWN_LEVELS = LEVELS[: LEVELS.index("peer")]  # a principal that is judged by its own habits
MIN_SHOWN_NATS = 0.1  # of a vote that is named among the drivers
RARE_SHARE, INFREQUENT_SHARE = 0.01, 0.1


class SecondVote(NamedTuple):
    """A detector beside the calibrated ones, what its vote is worth (nats), and what a harmless alert has of it (nats).

    `voted` (N,) says which events of an alert have the vote, `judged` (N,) on which the detector has an opinion.
    """

    detector: type[Detector]
    nats: float
    usual_nats: float
    voted: NDArray[np.bool_]
    judged: NDArray[np.bool_]


def second_vote_nats(batch: EventBatch, frame: pd.DataFrame, says: SecondVotes) -> float:
    """Return the evidence of an alert's second votes, in nats above those of a usual harmless alert; it may be negative.

    0 at least where no second detector has an opinion on one of its events.
    """
    found = _second_votes(batch, frame, says)
    judged = np.any([each.judged for each in found], axis=0) if found else np.zeros(len(frame), bool)
    given = sum(each.nats for each in found if each.voted.any())
    known = given - sum(each.usual_nats for each in found)
    return float(max(known, 0.0) if not judged.all() else known)


def second_vote_drivers(batch: EventBatch, frame: pd.DataFrame, says: SecondVotes) -> list[SurpriseDriver]:
    """Return a driver for each second vote of an alert that counts, in words."""
    return [
        SurpriseDriver(
            SECOND_VOTE_FEATURE,
            f"{each.detector.label} agrees"
            + (f": {each.detector.vote_means}" if each.detector.vote_means else ""),
            f"agrees on {says[each.detector.name]['share']:.0%} of what is odd on usual days",
            _rarity(says[each.detector.name]["share"]),
            round(each.nats, 2),
            int(each.voted.sum()),
        )
        for each in _second_votes(batch, frame, says)
        if each.voted.any() and each.nats >= MIN_SHOWN_NATS
    ]


def _second_votes(batch: EventBatch, frame: pd.DataFrame, says: SecondVotes) -> list[SecondVote]:
    """Return the second votes of the detectors that measured the events and that the bank says something of."""
    known = [name for name in batch.evidence if name in says and vote_column(name) in frame]
    return [_second_vote(each, frame, says[each.name]) for each in load_known_detectors(known)]


def _second_vote(detector: type[Detector], frame: pd.DataFrame, says: Mapping[str, float]) -> SecondVote:
    nats = -math.log(says["share"])
    judged = frame[z_column(detector.name)].notna().to_numpy(bool)
    if detector.final_when_closed:  # has no z yet where the interval is open
        judged = judged | frame["level"].isin(OWN_LEVELS).to_numpy(bool)
    voted = frame[vote_column(detector.name)].eq(True).to_numpy(bool)
    return SecondVote(detector, nats, nats * says["usual"], voted, judged)


def _rarity(share: float) -> Rarity:
    return "rare" if share < RARE_SHARE else "infrequent" if share < INFREQUENT_SHARE else "frequent"
