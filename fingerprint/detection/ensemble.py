"""The ensemble: how the detectors' votes on an event become a verdict.

Example:
    >>> z = {"autoencoder": np.array([5.0, 5.0, 5.0, 1.0]), "spectral": np.array([6.0, 0.1, np.nan, np.nan])}
    >>> verdicts({name: each >= 4 for name, each in z.items()}, quorum=2, opinions=opinion_masks(z))
    array([ True, False,  True, False])

The vote, exactly:
- A detector votes when its z is at or above its threshold. A z of NaN is no opinion (a series still warming up): neither a vote
  for nor a vote against.
- The autoencoder votes on an event: its own surprise, and how rarely as much else of its principal is surprising in an
  interval (`state.interval_surprise`), which grows while the interval fills. The spectral detector votes on an interval of a
  series, and an event has that vote if one of the channels it was counted in has it: the principal's or entity's events,
  errors (if it failed), writes (if it wrote), new actions (if its action is new), or its own action. A surge is voted while
  the interval fills; counts only grow, so a verdict may turn true once and never back.
- The sequence detector votes on an event once its interval has closed: what comes late can only explain an action, never make
  it stranger, so a vote before that could be taken back (`Detector.final_when_closed`).
- An event's verdict is true when at least `quorum` of the listed detectors vote for it (default: two of three). Where fewer have
  an opinion, all of those must vote for it, and at least one must: a principal that is hours old has peers, but no history of
  counts and of sequences. A detector that has an opinion and votes against still decides.
- A principal that only the autoencoder knows something of, and that by its peer group, is a newcomer: a share of its threshold
  (`NEWCOMER_THRESHOLD_SHARE`) is enough for a vote (docs/explanation/detection.md says what that finds, and what it costs). The
  spectral detector's opinion on a newcomer is how others began. It can vote for an event and is never needed: a thief may begin
  as calmly as others do. But beside a calm beginning (`BUSY_BEGINNING_SHARE`) an alert takes the whole threshold of alerts.
- Beside a z that reaches the threshold of alerts (below), a second detector votes from `SECOND_VOTE_SHARE` on: one harmless
  event in five instead of one in twenty. How strange the event is, the first has said; the second confirms that it is. Beside
  one that is as much rarer than the threshold (`WEAK_VOTE_NATS`), a weak vote is enough: seven harmless events in ten
  (`WEAK_VOTE_SHARE`). So what both say together is never more usual than at the threshold. A role that is used from a foreign
  host makes its usual calls, as many and in the order as ever.
- Where the others have the votes of a verdict among themselves, as second votes, and one of them is strong (one harmless event in
  fifty, `STRONG_VOTE_SHARE`, ten times as rare as a second vote), the threshold of alerts is as much lower (`STRONG_VOTE_NATS`):
  all agree. It never falls below what one active hour in twenty reaches. One strong vote beside the autoencoder's is not enough:
  what is new to the one is as new to the other.
- A verdict opens an alert where a calibrated detector's z also reaches the threshold of alerts, which the alert budget sets on
  held-out days (`registry.quality.alert_threshold`): votes say what is odd, the budget how much of it is shown.
- The autoencoder always has an opinion, the sequence detector where the principal has a fingerprint of its own. Whether the
  spectral detector has one follows from how old the principal was when the event's day began. Nothing that comes later changes
  any of these. So an opinion never appears while an interval is open, and no verdict is taken back by one.
- A silent interval is a vote, kept for hunting, and never a verdict.

Detectors are a list in the settings (`voting.detectors`); the package `detectors` says how to write another one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from operator import add, or_
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Floats, Mask, namespace
from fingerprint.estimators.tail_calibration import z_of_log_survival, z_to_nats
from fingerprint.registry.bank import PEER_LEVEL
from fingerprint.registry.quality import LEAST_THRESHOLD

VoteMasks = Mapping[str, Mask]  # yes or no of each event (N,), by detector
# Of its threshold, enough where a detector alone judges a newcomer by its peer group.
NEWCOMER_THRESHOLD_SHARE = 0.9

# Of events of first days that lie in hours that are not calm. Users that an intruder made are found by one or two calls, a write
# among them; a smaller share would lose them.
BUSY_BEGINNING_SHARE = 0.8
BUSY_BEGINNING_Z = -NormalDist().inv_cdf(BUSY_BEGINNING_SHARE)  # as a z

LEAST_NATS = 1e-9  # of a share that is nearly one
SECOND_VOTE_SHARE = 0.2  # of harmless events that a detector may vote for beside a z that opens an alert ...
SECOND_VOTE_THRESHOLD = -NormalDist().inv_cdf(SECOND_VOTE_SHARE)  # ... as a z
WEAK_VOTE_SHARE = 0.7  # the same beside a z that is rarer than the threshold of alerts ...
WEAK_VOTE_THRESHOLD = -NormalDist().inv_cdf(WEAK_VOTE_SHARE)  # ... as a z
WEAK_VOTE_NATS = math.log(WEAK_VOTE_SHARE / SECOND_VOTE_SHARE)  # by how much rarer
STRONG_VOTE_SHARE = 0.02  # of harmless events that get a strong vote; where all others vote as well ...
STRONG_VOTE_THRESHOLD = -NormalDist().inv_cdf(STRONG_VOTE_SHARE)  # ... as a z
STRONG_VOTE_NATS = math.log(SECOND_VOTE_SHARE / STRONG_VOTE_SHARE)  # ... by how much a z may be more usual


def reaches_threshold(z: NDArray[Any], threshold: NDArray[np.float64]) -> Mask:
    """Return where a z (N,) is at or above its threshold (N,), as one float32 to the other; NaN is not.

    >>> reaches_threshold(np.array([2.7, 2.7], np.float32), np.array([0.9, 1.0]) * 3.0)
    array([ True, False])
    """
    reached: Mask = z >= threshold.astype(np.float32)
    return reached


def verdicts(votes: VoteMasks, quorum: int, opinions: VoteMasks | None = None) -> Mask:
    """Return which events (N,) have the votes they need. Without `opinions` every detector counts as having one."""
    verdict: Mask = _count_true(votes) >= (quorum if opinions is None else votes_needed(opinions, quorum))
    return verdict


def opening_verdicts(votes: VoteMasks, quorum: int, opinions: VoteMasks, opening: VoteMasks) -> Mask:
    """Return which events (N,) have the votes they need and open an alert.

    `opening` says for each calibrated detector which events reach the threshold of alerts; one is enough. Where no listed
    detector is calibrated, the votes alone decide.
    """
    verdict: Mask = verdicts(votes, quorum, opinions)
    return verdict & reduce(or_, opening.values()) if opening else verdict


def weak_vote_threshold(alert_threshold: float) -> float:
    """Return the z beside which a weak vote is enough for an alert.

    >>> round(weak_vote_threshold(3.2), 2)
    3.54
    """
    return float(_z_of_rarer(np.array([alert_threshold]), WEAK_VOTE_NATS)[0])


def strong_vote_threshold(alert_threshold: float) -> float:
    """Return the z that opens an alert where the other detectors agree, one of them strongly; LEAST_THRESHOLD at least.

    >>> round(strong_vote_threshold(3.2), 2), round(strong_vote_threshold(2.0), 2), strong_vote_threshold(1.0)
    (2.46, 1.64, 1.0)
    """
    lower = float(_z_of_rarer(np.array([alert_threshold]), -STRONG_VOTE_NATS)[0])
    return max(lower, min(alert_threshold, LEAST_THRESHOLD))


def z_beside_weak_vote(z: NDArray[Any]) -> Floats:
    """Return the threshold of alerts that each z (N,) reaches beside a weak vote: the inverse of `weak_vote_threshold`."""
    return _z_of_rarer(z, -WEAK_VOTE_NATS)


def z_beside_strong_vote(z: NDArray[Any]) -> Floats:
    """Return the highest threshold of alerts that each z (N,) reaches where the others agree, as `strong_vote_threshold` says."""
    return np.where(z < LEAST_THRESHOLD, z, _z_of_rarer(z, STRONG_VOTE_NATS))


def _z_of_rarer(z: NDArray[Any], nats: float) -> Floats:
    """Return the z (N,) of what is rarer by so many nats, or more usual by a negative number of them."""
    return z_of_log_survival(np.minimum(-nats - z_to_nats(z), -LEAST_NATS))


def alert_reach(z: NDArray[Any], second: Mask, weak: Mask, agreed: Mask) -> Floats:
    """Return the highest threshold of alerts that each z (N,) opens one at; minus infinity where the votes do not suffice.

    The others' votes are a `second` one, a `weak` one, or all that are needed, one of them strong (`agreed`): (N,) each.
    """
    cases = [(agreed, z_beside_strong_vote(z)), (second, z), (weak, z_beside_weak_vote(z))]
    reach: Floats = np.select([case for case, _ in cases], [reached for _, reached in cases], -np.inf)
    return reach


def agree_strongly(others: VoteMasks, strong: VoteMasks, opinions: VoteMasks, quorum: int) -> Mask:
    """Return on which events (N,) the detectors that are not calibrated have the votes of a verdict, one of them a strong one.

    `others` are their second votes, `strong` says where a vote is strong, by detector; without an opinion neither counts.

    >>> yes, no = np.array([True]), np.array([False])
    >>> opinions = {"autoencoder": yes, "spectral": yes, "sequence": yes}
    >>> agree_strongly({"spectral": yes, "sequence": yes}, {"spectral": no, "sequence": yes}, opinions, quorum=2)
    array([ True])
    """
    needed = votes_needed(opinions, quorum)
    votes = {name: each & opinions[name] for name, each in others.items()}
    if not votes or not strong:
        return np.zeros(len(needed), bool)
    agreed: Mask = (_count_true(votes) >= needed) & reduce(
        or_, (votes[name] & each for name, each in strong.items())
    )
    return agreed


def votes_needed(opinions: VoteMasks, quorum: int) -> NDArray[np.int32]:
    """Return how many votes make a verdict of each event (N,): the quorum, or all of fewer opinions, and at least one."""
    return _count_true(opinions).clip(1, quorum)


def opinion_masks(z: Mapping[str, NDArray[Any]]) -> dict[str, Mask]:
    """Return which events (N,) each detector has an opinion on, by its z (N,)."""
    return {name: ~namespace(each).isnan(each) for name, each in z.items()}


def without_newcomers(opinions: VoteMasks, by_newcomers: VoteMasks) -> dict[str, Mask]:
    """Return the opinions on events (N,) but for those that say how newcomers began (`by_newcomers`, of some detectors)."""
    return {
        name: each & ~by_newcomers[name] if name in by_newcomers else each for name, each in opinions.items()
    }


def newcomer_mask(opinions: VoteMasks, level: NDArray[np.int8]) -> Mask:
    """Return which events (N,) one detector judges alone, of a principal that it knows by its peers only (`level` (N,)).

    Opinions on how newcomers began are left out before (`without_newcomers`).
    """
    newcomer: Mask = sole_opinion_mask(opinions) & (level >= PEER_LEVEL)
    return newcomer


def threshold_share(
    opinions: VoteMasks, level: NDArray[np.int8], began_calmly: Mask | None = None
) -> NDArray[np.float64]:
    """Return the share of a threshold that is enough for each event (N,): less for a newcomer, unless it `began_calmly` (N,)."""
    granted = newcomer_mask(opinions, level)
    if began_calmly is not None:
        granted &= ~began_calmly
    share: NDArray[np.float64] = namespace(granted).where(granted, NEWCOMER_THRESHOLD_SHARE, 1.0)
    return share


def sole_opinion_mask(opinions: VoteMasks) -> Mask:
    """Return on which events (N,) one of several detectors has an opinion and the others have none."""
    one: Mask = (_count_true(opinions) == 1) & (len(opinions) > 1)
    return one


def _count_true(masks: VoteMasks) -> NDArray[np.int32]:
    """Return how many detectors say yes of each event (N,)."""
    return reduce(add, (each.astype(np.int32) for each in masks.values()))
