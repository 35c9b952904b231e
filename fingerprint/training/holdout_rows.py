"""Measurement of a bank on held-out rows: the tails of its scores, and figures of how good it is.

Example:
    >>> findings = judge_holdout(dataset, index, center, sequences, newcomers, settings)
    >>> findings.figures["vote_rates"]["spectral"]
    {'person': {...}, 'role': {...}}

`partition_finish` leaves the held-out rows of each partition. A row is an interval (an hour, say) of an entity, with losses and
counts. A detector that is not measured on these rows is taken to vote for all of them. No network is fitted on them, but they
choose how long each network is fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Arrays, Floats, Mask
from fingerprint.compute.hashing import Hashes
from fingerprint.core.settings import Settings, Voting
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.detection import ensemble
from fingerprint.detection.detectors import load_detector
from fingerprint.detection.detectors.autoencoder import AutoencoderDetector
from fingerprint.detection.detectors.sequence import SequenceDetector
from fingerprint.detection.detectors.spectral import SpectralDetector
from fingerprint.detection.ensemble import VoteMasks
from fingerprint.estimators import amounts, surge_tails, tail_calibration
from fingerprint.estimators.amounts import AMOUNTS_OF_ALL_CALLS, AmountTail
from fingerprint.estimators.autoencoder import Baseline, EventNats, has_just_come, is_newcomer
from fingerprint.estimators.newcomer_tails import NewcomerTails
from fingerprint.estimators.surge_tails import SurgeTails
from fingerprint.features.encoding import FEATURE_SET
from fingerprint.registry import quality, vote_rates
from fingerprint.registry.bank import PEER_LEVEL, PRINCIPAL_LEVEL, accounts_of, people_names
from fingerprint.training import action_transitions, baseline
from fingerprint.training.action_transitions import HoldoutSurprises
from fingerprint.training.dataset import PartitionedDataset
from fingerprint.training.fingerprint_index import FingerprintIndex
from fingerprint.training.partition_finish import WEEK_SECONDS

Texts = NDArray[np.object_]

MIN_JOINING_PRINCIPALS = 3  # of an account that joins the organisation
MOST_USUAL_DAYS = 7 / 5  # that a day can be worth: a workday, where nothing happens on two days of seven


@dataclass(frozen=True)
class HoldoutRows:
    """Held-out rows (L,) of all partitions.

    `columns`, (L,) or (L, W) each, are those that `partition_finish` left. `kind` (L,) is the kind of each row's principal.
    `stranger` (L,) marks rows that a shared fingerprint judges, because their principal has none.
    """

    columns: Arrays
    kind: Texts
    stranger: Mask

    @classmethod
    def read(cls, dataset: PartitionedDataset, index: FingerprintIndex) -> HoldoutRows:
        """Read the rows of a history that `partition_finish.finish_partition` finished."""
        columns = dataset.columns_of("learned", "reach")
        return cls(columns, kinds_of(columns["principal"], index), columns["level"] >= PEER_LEVEL)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def voted_share(self, voted: Mask, by_amount: Mask, tails: Sequence[AmountTail]) -> Floats:
        """Return the share of each row's events that the autoencoder votes for (L,).

        `voted` (L,) are the rows that it votes for. Where it does so for an amount alone (`by_amount`, (L,)), only the few events
        that carry the amount have the vote, else all of them.
        """
        principal, interval, action, events = (
            self[name] for name in ("principal", "interval", "action", "events")
        )
        calls = amounts.calls_of_last_day(principal, interval, action, events, 1)
        share = voted.astype(np.float32)
        ratio = self["amount"][by_amount]
        # Which events carry an amount is known without the load.
        ratio[:, AMOUNTS_OF_ALL_CALLS] += self["load"][by_amount, None]
        share[by_amount] = amounts.carrying_share(ratio, calls[by_amount], tails)
        return share

    def vote_rates(self, voted: Mask | Floats, judged: Mask | None = None) -> vote_rates.RatesByKind:
        """Return how often each kind of principal has a vote.

        `voted` (L,) says which rows have a vote, or which share of their events has one. `judged` (L,) are the rows on which the
        detector has an opinion, by default all; the others are left out.
        """
        some = slice(None) if judged is None else judged
        columns = {name: self[name][some] for name in ("principal", "day", "events")}
        return _rates(voted[some], columns, self.kind[some])


class HoldoutSequences(NamedTuple):
    """Held-out surprises of transitions between actions, and the z of each (G,) by tails fitted on the other days."""

    surprises: HoldoutSurprises
    z: Floats


class HoldoutFindings(NamedTuple):
    """The baselines of all fingerprints, the bank's figures of quality, the tails of surges, and losses by principal."""

    baseline: Baseline
    figures: dict[str, Any]
    surges: SurgeTails
    losses: Arrays


class _CountEvidence(NamedTuple):
    """Scores of held-out rows by their counts, NaN for no opinion: the z (L,) of a surge, and of how a newcomer begins."""

    surge: Floats
    beginning: Floats


def judge_holdout(
    dataset: PartitionedDataset,
    index: FingerprintIndex,
    center: NDArray[Any],
    sequences: HoldoutSequences,
    newcomers: NewcomerTails,
    settings: Settings,
) -> HoldoutFindings:
    """Fit the tails of held-out rows, and measure with them how good the bank is. `center` (E, F) are the usual losses."""
    rows = HoldoutRows.read(dataset, index)
    surges, surge = _surge_tails(rows)
    counts = _CountEvidence(surge, np.where(np.isnan(surge), newcomer_z(rows, newcomers), np.nan))
    usual, z = _fit_baseline(rows, index, center, settings)
    amount_tails = fit_amount_tails(rows)
    own = ~rows.stranger
    of_loss = z.copy()
    z[own] = _with_amounts(z[own], amounts.nats_of_log_ratios(rows["amount"][own], amount_tails))
    usual_days = _usual_days(dataset, rows, usual.rate, index, settings)
    person = persons_of(rows["principal"], index)
    scores = _holdout_scores(rows, z, counts, sequences, usual_days, person, settings)
    figures = {
        "edge": float(usual.edge[0]),
        "slope": float(usual.slope[0]),
        "rate": float(np.exp(usual.rate[0])),
        "amount": {name: tail._asdict() for name, tail in zip(amounts.AMOUNTS, amount_tails, strict=True)},
        **quality.holdout_metrics(scores, settings),
    }
    autoencoder, spectral = (
        each.own_threshold(settings, figures) for each in (AutoencoderDetector, SpectralDetector)
    )
    voted = scores.z >= autoencoder
    by_amount = voted & own & (of_loss < autoencoder)
    counted = np.where(np.isnan(counts.surge), counts.beginning, counts.surge)
    figures["vote_rates"] = {
        AutoencoderDetector.name: rows.vote_rates(rows.voted_share(voted, by_amount, amount_tails)),
        SpectralDetector.name: rows.vote_rates(counted >= spectral, ~np.isnan(counted)),
        SequenceDetector.name: _sequence_rates(rows, sequences, index, settings),
    }
    return HoldoutFindings(usual, figures, surges, quality.losses_by_principal(scores))


# --- what each detector says ------------------------------------------------------------------------------------------


def _fit_baseline(
    rows: HoldoutRows, index: FingerprintIndex, center: NDArray[Any], settings: Settings
) -> tuple[Baseline, Floats]:
    """Return the baselines of all fingerprints, and with them the z of each row's surprises (L,)."""
    nats = EventNats(*(rows[name] for name in EventNats._fields))
    newcomer = _newcomers(rows, index, settings.spectral.intervals_per_day)
    is_news = has_just_come(rows["since"], rows["interval"], settings.spectral.intervals_per_day)
    parent = index.table["parent"].to_numpy(np.int32)
    usual, excess = baseline.fit_tails(center, nats, newcomer, is_news, rows["hour"], rows["owner"], parent)
    return usual, tail_calibration.excess_to_z(excess, usual, rows["owner"])


def _with_amounts(z: Floats, nats: Floats) -> Floats:
    """Return the z of rows (M,) by their surprises (`z`) and the nats of their amounts together, combined as in scoring."""
    log_share = tail_calibration.either_or_both(-tail_calibration.z_to_nats(z), -nats.astype(np.float64))
    return tail_calibration.z_of_log_survival(log_share)


def _newcomers(rows: HoldoutRows, index: FingerprintIndex, intervals_per_day: int) -> Mask | None:
    """Return which rows (L,) are of newcomers: principals without a fingerprint of their own that had just come.

    Principals that were new because the history began, or because their account joined, are left out. Return None for a history
    that is too short to have others.
    """
    since, interval = rows["since"], rows["interval"]
    if not len(since) or is_newcomer(since.min(), interval.max(), intervals_per_day):
        return None
    new = is_newcomer(since, interval, intervals_per_day)
    new &= ~is_newcomer(since.min(), since, intervals_per_day)
    return rows.stranger & new & ~np.isin(rows["principal"], _of_joining_accounts(index))


def _of_joining_accounts(index: FingerprintIndex) -> Hashes:
    """Return the principals (P,) of accounts that joined in the held-out days: several principals began then, and none before.

    Where one or two principals began, it is the account of another organisation.
    """
    own = index.table["level"] == PRINCIPAL_LEVEL
    principals = index.table.loc[own, ["hash", "key", "first"]]
    account = accounts_of(principals["key"])
    by_account = principals.groupby(account)["first"].agg(["min", "size"])
    joining = (by_account["min"] >= index.holdout.interval) & (by_account["size"] >= MIN_JOINING_PRINCIPALS)
    hashes: Hashes = principals["hash"].to_numpy(np.uint64)[account.map(joining).to_numpy(bool)]
    return hashes


def fit_amount_tails(rows: HoldoutRows) -> list[AmountTail]:
    """Return the tail of each amount's log ratios: of the largest of each day of principals with a fingerprint of their own.

    The tails of the amounts of all calls are converted from days to active intervals, which the tails of surprises are in. Where
    large amounts are usual, all are worth less (`amounts.discount_common_amounts`).
    """
    principal, day, owner, amount, hour = (
        rows[name][~rows.stranger] for name in ("principal", "day", "owner", "amount", "hour")
    )
    principal_day = hashing.hash_pair(principal, day.astype(np.uint64))
    largest = (tail_calibration.interval_maxima(ratio, principal_day, owner) for ratio in amount.T)
    tails = [amounts.fit_amount_tail(each.excess) for each in largest]
    active = len(np.unique(hour)), len(np.unique(principal_day))
    tails[AMOUNTS_OF_ALL_CALLS] = [
        amounts.tail_of_intervals(each, *active) for each in tails[AMOUNTS_OF_ALL_CALLS]
    ]
    return amounts.discount_common_amounts(tails)


def _surge_tails(rows: HoldoutRows) -> tuple[SurgeTails, Floats]:
    """Return the tails of held-out surges, and the z of each row (L,) by tails fitted on the other days, as of a new day."""
    hashes = hashing.hash_strings(pd.Series(rows.kind, dtype=object))
    order = np.lexsort((*np.nan_to_num(rows["surge"]).T, rows["events"], rows["interval"], rows["principal"]))
    surge, events, interval = (rows[name][order] for name in ("surge", "events", "interval"))
    columns = (surge, events, rows["principal"][order], hashes[order], interval)
    tails, z = surge_tails.fit_surge_tails(*columns), np.empty(len(order), np.float32)
    z[order] = surge_tails.z_by_other_days(*columns, rows["day"][order])
    return tails, z


def newcomer_z(rows: HoldoutRows, tails: NewcomerTails) -> Floats:
    """Return the z of rows (L,) by how others began: NaN for sign-ins, and where the principal has a history or a fingerprint."""
    judged = rows.stranger & ~FEATURE_SET.is_workload_sign_in(rows["action"])
    fresh = np.flatnonzero(judged & ~np.isnan(rows["beginning"][:, 0]))
    z = np.full(len(rows.kind), np.nan, np.float32)
    hashes = hashing.hash_strings(pd.Series(rows.kind[fresh], dtype=object))
    z[fresh] = tails.z(tails.rows(hashes), rows["beginning"][fresh])
    return z


def _second_votes(
    rows: HoldoutRows, counts: _CountEvidence, sequences: HoldoutSequences, settings: Settings
) -> VoteMasks:
    """Return which rows (L,) each other detector has a second vote for, as in `detection.ensemble`; a z of NaN is no vote."""
    least_surge = min(settings.spectral.threshold, SpectralDetector.second_vote_z)
    least_novelty = min(settings.sequence.threshold, SequenceDetector.second_vote_z)
    return {
        SpectralDetector.name: counts.surge >= least_surge,
        SequenceDetector.name: _sequence_votes(rows, sequences, settings, least_novelty),
    }


def _strong_votes(
    rows: HoldoutRows, counts: _CountEvidence, sequences: HoldoutSequences, settings: Settings
) -> VoteMasks:
    """Return which rows (L,) each other detector has a strong vote for."""
    return {
        SpectralDetector.name: counts.surge >= SpectralDetector.strong_vote_z,
        SequenceDetector.name: _sequence_votes(rows, sequences, settings, SequenceDetector.strong_vote_z),
    }


def _sequence_votes(rows: HoldoutRows, sequences: HoldoutSequences, settings: Settings, least: float) -> Mask:
    """Return which rows (L,) reach the z `least` by the sequence detector; a novelty counts once."""
    return action_transitions.row_votes(*sequences, rows.columns, settings.sequence.threshold, least)


# --- verdicts ---------------------------------------------------------------------------------------------------------


def _holdout_scores(
    rows: HoldoutRows,
    z: Floats,
    counts: _CountEvidence,
    sequences: HoldoutSequences,
    usual_days: float | None,
    person: Hashes,
    settings: Settings,
) -> quality.HoldoutScores:
    """Return what the bank's quality is measured by: rows, their z, and the highest threshold of alerts at which each opens one.

    `z` (L,) is divided by the share of a threshold that is enough for the row, so that one threshold applies to all rows.
    """
    opinions = {SpectralDetector.name: ~np.isnan(counts.surge), SequenceDetector.name: ~rows.stranger}
    calm = counts.beginning < SpectralDetector.calm_newcomer_z  # NaN is not
    z = z / threshold_shares(opinions, rows["level"], settings.voting, calm)
    votes = _second_votes(rows, counts, sequences, settings)
    second = decisive_rows(votes, opinions, settings.voting)
    agreed = agreed_rows(votes, _strong_votes(rows, counts, sequences, settings), opinions, settings.voting)
    return quality.HoldoutScores(
        **{name: rows[name] for name in quality.HOLDOUT_COLUMNS},
        z=z,
        alert_z=ensemble.alert_reach(z, second, agreed),
        usual_days=usual_days,
        person=person,
    )


def decisive_rows(votes: VoteMasks, opinions: VoteMasks, options: Voting) -> Mask:
    """Return which held-out rows (L,) have a verdict if the autoencoder votes for them, as the ensemble counts votes.

    `votes` and `opinions` are those of the detectors that are measured on held-out rows. The others, the autoencoder among them,
    are taken to vote for every row: thresholds then rather become too high than too low.
    """
    count = len(next(iter(votes.values())))
    voted, judged = (_of_all_detectors(each, options, count) for each in (votes, opinions))
    return ensemble.verdicts(voted, options.quorum, judged)


def agreed_rows(votes: VoteMasks, strong: VoteMasks, opinions: VoteMasks, options: Voting) -> Mask:
    """Return which held-out rows (L,) the other detectors agree on, one of them strongly, as the ensemble counts votes.

    Detectors that are not measured on held-out rows are taken to vote for every row, strongly if they can.
    """
    granted = np.ones(len(next(iter(votes.values()))), bool)
    others = [each for each in map(load_detector, options.detectors) if not each.calibrated]
    voted = {each.name: votes.get(each.name, granted) for each in others}
    are_strong = {
        each.name: strong.get(each.name, granted & (each.strong_vote_z < np.inf)) for each in others
    }
    judged = _of_all_detectors(opinions, options, len(granted))
    return ensemble.agree_strongly(voted, are_strong, judged, options.quorum)


def threshold_shares(
    opinions: VoteMasks, level: NDArray[np.int8], options: Voting, began_calmly: Mask | None = None
) -> NDArray[np.float32]:
    """Return the share of a threshold that is enough for each held-out row (L,), as in scoring: less for a newcomer.

    `opinions` are those of the detectors that are measured on held-out rows. `level` (L,) says which fingerprint judges a row.
    """
    judged = _of_all_detectors(opinions, options, len(level))
    return ensemble.threshold_share(judged, level, began_calmly).astype(np.float32)


def _of_all_detectors(masks: VoteMasks, options: Voting, count: int) -> VoteMasks:
    """Return the mask (L,) of each listed detector by its name, True where it is not measured on the `count` held-out rows.

    The settings may list a detector by its import path.
    """
    names = (load_detector(each).name for each in options.detectors)
    return {name: masks.get(name, np.ones(count, bool)) for name in names}


# --- figures ----------------------------------------------------------------------------------------------------------


def _usual_days(
    dataset: PartitionedDataset,
    rows: HoldoutRows,
    log_rate: NDArray[Any],
    index: FingerprintIndex,
    settings: Settings,
) -> float | None:
    """Return how many usual days of the organisation the held-out rows are worth; 0 for a history of less than a day.

    Held-out days may be a weekend, or begin at noon, so they are not simply counted. The rates of those who were active
    (`log_rate`, (E,)) say how many unusual intervals are expected of the held-out days, and how many of a day of the last week
    (of the history, if that is shorter); the answer is the ratio. It is at most MOST_USUAL_DAYS a day, as if the last week had
    workdays alone: where that week is a holiday, or part of it is missing, any other day would look like several.
    """
    span = (dataset.watermark - int(index.table["first"].iloc[0]) * settings.spectral.interval_seconds) + 1
    if span < DAY_SECONDS:
        return 0.0
    days = min(span, WEEK_SECONDS) / DAY_SECONDS
    recent = dataset.columns_of("learned", "week")
    week = float(np.sum(np.sort(np.exp(log_rate[recent["owner"]]) * recent["intervals"])))
    active = np.unique(rows["hour"], return_index=True)[1]
    held = float(np.sum(np.sort(np.exp(log_rate[rows["owner"][active]]))))
    most = MOST_USUAL_DAYS * len(np.unique(rows["day"]))
    return min(days * held / week, most) if week and held else None


def _sequence_rates(
    rows: HoldoutRows, sequences: HoldoutSequences, index: FingerprintIndex, settings: Settings
) -> vote_rates.RatesByKind:
    """Return how often each kind of principal has the sequence detector's vote; it has no opinion on strangers."""
    voted = action_transitions.action_votes(*sequences, SequenceDetector.own_threshold(settings, {}))
    judged = np.isin(sequences.surprises.principal, rows["principal"][~rows.stranger])
    held, voted = sequences.surprises.take(judged), voted[judged]
    day = held.interval.astype(np.int64) * settings.spectral.interval_seconds // DAY_SECONDS
    columns = {"principal": held.principal, "day": day, "events": held.events}
    return _rates(voted, columns, kinds_of(held.principal, index))


def _rates(voted: Mask | Floats, rows: Arrays, kind: Texts) -> vote_rates.RatesByKind:
    """Return how often each kind of principal has a vote, by held-out rows and their votes (N,)."""
    principal_day = hashing.hash_pair(rows["principal"], rows["day"].astype(np.uint64))
    return vote_rates.rates_by_kind(voted, rows["events"], kind, principal_day)


def persons_of(principal: Hashes, index: FingerprintIndex) -> Hashes:
    """Return a hash of the person behind each principal (N,); a principal that names no person has a hash of its own.

    A person with five permission sets in three accounts is fifteen principals, and the alert budget counts that person once.
    """
    names, own = people_names(index.people), index.people["hash"].to_numpy(np.uint64)
    person = np.where(names != "", hashing.hash_strings(pd.Series(names, dtype=object)), own)
    return person[np.searchsorted(own, principal)]


def kinds_of(principal: Hashes, index: FingerprintIndex) -> Texts:
    """Return the kind of each principal (N,)."""
    place = np.searchsorted(index.people["hash"].to_numpy(np.uint64), principal)
    kinds: Texts = index.people["kind"].astype(object).to_numpy()[place]
    return kinds
