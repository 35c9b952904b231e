"""The ensemble: how the detectors' votes on an event become a verdict, and which verdicts open an alert.

Example:
    >>> z = {"autoencoder": np.array([5.0, 5.0, 5.0, 1.0]), "spectral": np.array([6.0, 0.1, np.nan, np.nan])}
    >>> verdicts({name: each >= 4 for name, each in z.items()}, quorum=2, opinions=opinion_masks(z))
    array([ True, False,  True, False])

Terms:
- A detector *votes* for an event when its z is at or above its threshold. A z of NaN is *no opinion* (a series that is still
  warming up): neither a vote for the event nor one against it.
- An event has a *verdict* when at least `quorum` of the listed detectors vote for it (default: two of three). Where fewer
  detectors have an opinion, all of those must vote for it, and at least one: a principal that is hours old has peers, but no
  history of counts and of sequences. A detector that has an opinion and does not vote still decides.
- A verdict opens an *alert* when the z of a calibrated detector also reaches the *threshold of alerts*, which the alert budget
  sets on held-out days (`registry.quality.alert_threshold`). Votes say what is odd, the budget how much of it is shown.

Votes of the three detectors:
- The autoencoder votes on an event, by the event's own surprise and by what else of its principal is surprising in the same
  interval (`state.interval_surprise`).
- The spectral detector votes on an interval of a channel, which is a series of counts. An event has this vote if one of the
  channels that counted it has: the events of its principal or entity, their errors (if it failed), their writes (if it wrote),
  their new actions (if its action is new), or the calls of its own action. A surge is voted while the interval still fills. A
  silent interval is a vote that is kept for hunting, and never a verdict.
- The sequence detector votes on an event once its interval has closed. Until then a late event may explain an action, but none
  can make it stranger: an earlier vote might have to be taken back (`Detector.final_when_closed`).

A verdict may turn true once, and is never taken back:
- While an interval fills, its sums and counts only grow.
- No opinion appears while an interval is open. The autoencoder always has one. The sequence detector has one where the principal
  has a fingerprint of its own. Whether the spectral detector has one depends on how old the principal was when the event's day
  began.

Newcomers: a *newcomer* is a principal that only the autoencoder has an opinion on, and knows by its peer group alone.
- A share of each threshold is enough (`NEWCOMER_THRESHOLD_SHARE`; docs/explanation/detection.md says what it finds and costs).
- The spectral detector compares how a newcomer begins with how others began. It can vote for an event by that, but its vote is
  never needed: a thief may begin as calmly as others do.
- In a calm beginning (`BUSY_BEGINNING_SHARE`) an event needs the whole threshold of alerts.

How strong the votes of the other detectors must be depends on the calibrated detector's z:
- At the threshold of alerts, a *second vote* is enough, which one harmless event in five has (`SECOND_VOTE_SHARE`) where one in
  twenty has an ordinary vote. The first detector has said how strange the event is; the second confirms that it is.
- Where the other detectors alone have enough second votes for a verdict, and one of these votes is *strong* (one harmless event
  in fifty has it, `STRONG_VOTE_SHARE`), the threshold of alerts is lower by `STRONG_VOTE_NATS`, because all agree. It never falls
  below what one active hour in twenty reaches. One strong vote beside the autoencoder's is not enough: what is new to the one is
  as new to the other.

The settings list the detectors (`voting.detectors`); the package `detectors` says how to write another one.
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

MIN_REACH = LEAST_THRESHOLD  # of a lead: what no threshold would show is none
LEAST_NATS = 1e-9  # of a share that is nearly one
SECOND_VOTE_SHARE = 0.2  # of harmless events that a detector may vote for beside a z that opens an alert ...
SECOND_VOTE_THRESHOLD = -NormalDist().inv_cdf(SECOND_VOTE_SHARE)  # ... as a z
STRONG_VOTE_SHARE = 0.02  # of harmless events that get a strong vote; where all others vote as well ...
STRONG_VOTE_THRESHOLD = -NormalDist().inv_cdf(STRONG_VOTE_SHARE)  # ... as a z
STRONG_VOTE_NATS = math.log(SECOND_VOTE_SHARE / STRONG_VOTE_SHARE)  # ... by how much a z may be more usual


def reaches_threshold(z: NDArray[Any], threshold: NDArray[np.float64]) -> Mask:
    """Return where a z (N,) is at or above its threshold (N,), both as float32; False for NaN.

    >>> reaches_threshold(np.array([2.7, 2.7], np.float32), np.array([0.9, 1.0]) * 3.0)
    array([ True, False])
    """
    reached: Mask = z >= threshold.astype(np.float32)
    return reached


def verdicts(votes: VoteMasks, quorum: int, opinions: VoteMasks | None = None) -> Mask:
    """Return which events (N,) have the votes they need. Without `opinions`, every detector has one on every event."""
    verdict: Mask = _count_true(votes) >= (quorum if opinions is None else votes_needed(opinions, quorum))
    return verdict


def opening_verdicts(votes: VoteMasks, quorum: int, opinions: VoteMasks, opening: VoteMasks) -> Mask:
    """Return which events (N,) have the votes they need and open an alert.

    `opening` says for each calibrated detector which events reach the threshold of alerts; one is enough. Where no listed
    detector is calibrated, the votes alone decide.
    """
    verdict: Mask = verdicts(votes, quorum, opinions)
    return verdict & reduce(or_, opening.values()) if opening else verdict


def strong_vote_threshold(alert_threshold: float) -> float:
    """Return the z that opens an alert where the other detectors agree, one of them strongly.

    It is not below LEAST_THRESHOLD, unless the threshold of alerts itself is.

    >>> round(strong_vote_threshold(3.2), 2), round(strong_vote_threshold(2.0), 2), strong_vote_threshold(1.0)
    (2.46, 1.64, 1.0)
    """
    lower = float(_z_of_rarer(np.array([alert_threshold]), -STRONG_VOTE_NATS)[0])
    return max(lower, min(alert_threshold, LEAST_THRESHOLD))


def z_beside_strong_vote(z: NDArray[Any]) -> Floats:
    """Return the highest threshold of alerts that each z (N,) reaches where the others agree, as `strong_vote_threshold` says."""
    return np.where(z < LEAST_THRESHOLD, z, _z_of_rarer(z, STRONG_VOTE_NATS))


def _z_of_rarer(z: NDArray[Any], nats: float) -> Floats:
    """Return the z (N,) of events that are rarer than those of this z (N,) by `nats`, or less rare where these are negative."""
    return z_of_log_survival(np.minimum(-nats - z_to_nats(z), -LEAST_NATS))


def alert_reach(z: NDArray[Any], second: Mask, agreed: Mask) -> Floats:
    """Return the highest threshold of alerts at which each event (N,) opens an alert; minus infinity where votes are missing.

    `z` (N,) is that of the calibrated detector. The other masks (N,) say what the other detectors add to its vote: enough votes
    for a verdict (`second`); or enough among themselves, and one of them strong (`agreed`).
    """
    reach: Floats = np.select([agreed, second], [z_beside_strong_vote(z), z], -np.inf)
    return reach


def suffice_beside_calibrated(others: VoteMasks, opinions: VoteMasks, quorum: int) -> Mask:
    """Return which events (N,) have the votes of a verdict once a calibrated detector votes, too; `others` are the other votes.

    >>> yes, no = np.array([True]), np.array([False])
    >>> opinions = {"autoencoder": yes, "spectral": yes, "sequence": yes}
    >>> suffice_beside_calibrated({"spectral": no, "sequence": yes}, opinions, quorum=2)
    array([ True])
    """
    needed = votes_needed(opinions, quorum)
    suffices: Mask = needed - sum(each.astype(np.int32) for each in others.values()) <= 1
    return suffices


def agree_strongly(others: VoteMasks, strong: VoteMasks, opinions: VoteMasks, quorum: int) -> Mask:
    """Return which events (N,) have a verdict by the detectors that are not calibrated alone, one of the votes a strong one.

    `others` are the second votes of these detectors, `strong` their strong ones. Where a detector has no opinion, neither counts.

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
    """Return how many votes each event (N,) needs: the quorum, or the number of opinions if that is smaller; at least one."""
    return _count_true(opinions).clip(1, quorum)


def opinion_masks(z: Mapping[str, NDArray[Any]]) -> dict[str, Mask]:
    """Return which events (N,) each detector has an opinion on, by its z (N,)."""
    return {name: ~namespace(each).isnan(each) for name, each in z.items()}


def without_newcomers(opinions: VoteMasks, by_newcomers: VoteMasks) -> dict[str, Mask]:
    """Return the opinions on events (N,) without those that only compare how newcomers begin (`by_newcomers`, by detector)."""
    return {
        name: each & ~by_newcomers[name] if name in by_newcomers else each for name, each in opinions.items()
    }


def newcomer_mask(opinions: VoteMasks, level: NDArray[np.int8]) -> Mask:
    """Return which events (N,) are of newcomers: one detector alone has an opinion, by the principal's peers (`level` (N,)).

    `opinions` are those that `without_newcomers` leaves.
    """
    newcomer: Mask = sole_opinion_mask(opinions) & (level >= PEER_LEVEL)
    return newcomer


def threshold_share(
    opinions: VoteMasks, level: NDArray[np.int8], began_calmly: Mask | None = None
) -> NDArray[np.float64]:
    """Return the share of a threshold that is enough for each event (N,): less for a newcomer unless it `began_calmly` (N,)."""
    granted = newcomer_mask(opinions, level)
    if began_calmly is not None:
        granted &= ~began_calmly
    share: NDArray[np.float64] = namespace(granted).where(granted, NEWCOMER_THRESHOLD_SHARE, 1.0)
    return share


def sole_opinion_mask(opinions: VoteMasks) -> Mask:
    """Return which events (N,) one of several detectors alone has an opinion on."""
    one: Mask = (_count_true(opinions) == 1) & (len(opinions) > 1)
    return one


def _count_true(masks: VoteMasks) -> NDArray[np.int32]:
    """Return how many detectors say yes of each event (N,)."""
    return reduce(add, (each.astype(np.int32) for each in masks.values()))
