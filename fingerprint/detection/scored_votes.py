"""Votes of scored events, read back from the columns of `fingerprint score --out`: z, vote and threshold of each detector.

Example:
    >>> names = ["autoencoder", "spectral", "sequence"]
    >>> others_agree(scored, names, opinions_by_history(scored, names), quorum=2)
    array([False, False,  True])
    >>> alert_reach(scored, names, quorum=2)              # the highest threshold that shows each
    array([3.4, -inf, 5.2])

`EventJudge` gives these votes; this module counts them again for an evaluation, or for another threshold or quorum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from fingerprint.compute import frames
from fingerprint.compute.arrays import Doubles, Mask
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import NEWCOMER_COLUMN, vote_column, z_column
from fingerprint.detection import ensemble
from fingerprint.detection.detectors import calibrated_detectors, load_known_detectors


def alert_reach(scored: pd.DataFrame, names: Sequence[str], quorum: int) -> Doubles:
    """Return the highest threshold of alerts at which each scored event (N,) opens an alert, minus infinity where none does.

    `names` are the detectors that count, and `quorum` how many of them must vote. The calibrated ones vote wherever their z
    opens an alert; the others vote as beside such a z (second votes). A newcomer's reach is higher in truth, because a
    share of the threshold is enough for it (`ensemble.threshold_share`). If no detector is calibrated, the votes alone open an
    alert, at any threshold.
    """
    opinions = opinions_by_history(scored, names)
    calibrated = calibrated_detectors(names)
    if not calibrated:
        verdict = ensemble.verdicts(votes_beside_opening(scored, names), quorum, opinions)
        return np.where(verdict, np.inf, -np.inf)
    strongest = np.fmax.reduce([scored[z_column(name)].to_numpy(float) for name in calibrated])
    second = ensemble.suffice_beside_calibrated(_other_votes(scored, names, strongest), opinions, quorum)
    agreed = others_agree(scored, names, opinions, quorum)
    reach = ensemble.alert_reach(strongest, second, agreed).astype(np.float64)
    return np.nan_to_num(reach, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def _other_votes(scored: pd.DataFrame, names: Sequence[str], strongest: Doubles) -> dict[str, Mask]:
    """Return by detector the second votes (N,) that count beside that of the `strongest` calibrated z (N,)."""
    votes = votes_beside_opening(scored, names)
    calibrated = calibrated_detectors(names)
    return votes | {name: votes[name] & (detector_z(scored, name) < strongest) for name in calibrated}


def detector_z(scored: pd.DataFrame, name: str) -> Doubles:
    """Return a detector's z of scored events (N,), minus infinity for no opinion."""
    return np.nan_to_num(scored[z_column(name)].to_numpy(float), nan=-np.inf)


def opinions_by_history(scored: pd.DataFrame, names: Iterable[str]) -> dict[str, Mask]:
    """Return by detector a mask (N,) of the scored events that it has an opinion on, other than on how newcomers begin."""
    opinions = ensemble.opinion_masks({name: scored[z_column(name)].to_numpy(float) for name in names})
    judging = {each.name for each in load_known_detectors(opinions) if each.calm_newcomer_z > -math.inf}
    return ensemble.without_newcomers(opinions, dict.fromkeys(judging, newcomer_rows(scored)))


def votes_beside_opening(scored: pd.DataFrame, names: Iterable[str]) -> dict[str, Mask]:
    """Return by detector a mask (N,) of the scored events that it votes for beside a z that opens an alert (second votes).

    >>> scored = pd.DataFrame({"spectral_z": [1.0, 2.0, 0.2], "spectral_vote": [False, True, False]})
    >>> votes_beside_opening(scored, ["spectral"])
    {'spectral': array([ True,  True, False])}
    """
    least = {each.name: each.second_vote_z for each in load_known_detectors(names)}
    return {
        name: scored[vote_column(name)].eq(True).to_numpy(bool)
        | (scored[z_column(name)].to_numpy(float) >= least.get(name, math.inf))
        for name in names
    }


def others_agree(
    scored: pd.DataFrame, names: Iterable[str], opinions: Mapping[str, Mask], quorum: int
) -> Mask:
    """Return a mask (N,) of the scored events on which the uncalibrated detectors agree, at least one of them strongly.

    `opinions` (N,) are masks by detector, for all `names` (`ensemble.agree_strongly`).
    """
    others = [name for name in names if name not in calibrated_detectors([name])]
    least = {each.name: each.strong_vote_z for each in load_known_detectors(others)}
    strong = {name: scored[z_column(name)].to_numpy(float) >= least.get(name, math.inf) for name in others}
    return ensemble.agree_strongly(votes_beside_opening(scored, others), strong, opinions, quorum)


def newcomer_rows(scored: Frame) -> Mask:
    """Return a mask (N,) of the scored events that a detector compared with how others began; all False without the column."""
    if NEWCOMER_COLUMN not in scored:
        return np.zeros(len(scored), bool)
    return frames.true_mask(frames.column_of(scored, NEWCOMER_COLUMN))


def calm_newcomer_rows(scored: pd.DataFrame, names: Iterable[str]) -> Mask:
    """Return a mask (N,) of the scored events of newcomers that began calmly by one of the named detectors."""
    newcomer, calm = newcomer_rows(scored), np.zeros(len(scored), bool)
    for each in load_known_detectors(names):
        calm |= newcomer & (scored[z_column(each.name)].to_numpy(float) < each.calm_newcomer_z)
    return calm
