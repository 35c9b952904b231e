"""The autoencoder detector: how unusual an action of a principal is.

It votes on events. An event's z says how rare its surprise is for its fingerprint, together with what else of its principal was
surprising in the interval, by how rarely as much is, or how rare the number of calls of its action is. The maths is in
`estimators.autoencoder`, `estimators.interval_tail`, `estimators.amounts` and `estimators.tail_calibration`.

Example:
    >>> detector = AutoencoderDetector(settings, bank, state, LocalInference(bank))
    >>> batch = replace(batch, evidence={detector.name: detector.measure(batch)})
    >>> detector.score(batch)                              # (N,) z
    >>> feature_surprise(batch)                            # (N, F) nats
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import identity_placement, namespace, to_device_of, unique_examples
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import Rarity, SurpriseDriver, rarity_of
from fingerprint.core.ports import Inference
from fingerprint.core.settings import Autoencoder, Settings
from fingerprint.detection import score_terms
from fingerprint.detection.batch import KEY_COLUMN
from fingerprint.detection.detectors import Detector, ExplanationContext, Floats, Mask, action_at
from fingerprint.detection.ensemble import NEWCOMER_THRESHOLD_SHARE, reaches_threshold
from fingerprint.detection.inference import LocalInference
from fingerprint.estimators import amounts, autoencoder, harm, tail_calibration
from fingerprint.estimators.amounts import LOADED_AMOUNTS, UsualAmounts
from fingerprint.estimators.call_paths import CALL_PATH_FEATURE, ONLY_BY, KnownPaths, novelty_code
from fingerprint.estimators.load import UsualLoad
from fingerprint.estimators.openers import OPENED, OPENER_FEATURE, RoleOpeners
from fingerprint.features import encoding
from fingerprint.features.encoding import (
    ACCOUNT_FEATURES,
    ACTION_COLUMN,
    EVIDENCE_GROUP_FEATURES,
    EVIDENCE_GROUPS,
    FEATURE_NAMES,
    IS_BIN,
    OTHER_ACCOUNT_FEATURE,
)
from fingerprint.registry import quality
from fingerprint.registry.bank import GENERIC_ROW, PEER_LEVEL, PERSON_KINDS, Bank, accounts_of
from fingerprint.sources.active import SOURCE
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.interval_amounts import IntervalAmounts, calls_before
from fingerprint.state.interval_surprise import IntervalSurprise
from fingerprint.state.scorer_state import ScorerState

# Columns of the evidence behind the features: what is usual of the event's amounts, then the tail's.
USUAL_COLUMNS = slice(len(FEATURE_NAMES), len(FEATURE_NAMES) + len(amounts.AMOUNTS))
SLOPE_COLUMNS = slice(USUAL_COLUMNS.stop, USUAL_COLUMNS.stop + len(amounts.AMOUNTS))
TAIL_COLUMNS = 8
MAX_DRIVERS = 10  # values of a feature that are looked at
MAX_ACTION_DRIVERS = 60  # of actions: what they can do decides which ones lead (`alerting.impact`)
MAX_ROLES = 3  # of a person, the busiest ones, that a new role of theirs is judged by
MAX_USUAL_VALUES = 3  # that an explanation names beside one that surprises
MIN_DRIVER_SURPRISE = 1.0  # nats; less is not worth an analyst's time
# Nats beyond "something new": the cost of one of about ten recent novelties.
RECENT_NOVELTY_NATS = float(-np.log(0.1))
PROGRAM_COLUMN = FEATURE_NAMES.index("program")
PLACE_FEATURES = frozenset(EVIDENCE_GROUP_FEATURES[autoencoder.PLACE_GROUP].tolist())
# (F,): features that show who calls, by a tool or a place, and not what is called.
IS_OF_CALLER = np.array([feature.evidence_group in ("tool", "place") for feature in encoding.FEATURES])
ACCOUNT_COLUMN = "recipient_account"  # whose log an event is in
RARE_NATS = 5.0  # of loss, from which on a learned value is rare
# Of an amount, that stay however often it came: one day in e has them, so they add nothing to a novelty (Fisher's method).
LEAST_AMOUNT_NATS = 1.0

INTERVAL, APART, RECENT, WHOLE = "interval surprise", "two places", "recent novelty", "principal's view"
PEERS, NETS, COUNTS, NEWCOMER = "peers", "nets", "counts", "newcomer"
AMOUNT, DAY_AMOUNT, UNUSUAL_AMOUNT, HARM = "amount", "day's amount", "unusual resources", "harm"
RECENT_AMOUNT, LOAD = "recent amount", "load"
GROUP_TERM = "evidence: "
TERMS = {
    INTERVAL: "what else of the principal surprised in the interval",
    APART: "the principal was active at its usual place in the same interval",
    RECENT: "a novelty that came before is less of one",
    WHOLE: "the principal as a whole knows the value, or the person at another role",
    PEERS: "what is new to the principal is judged by its peers, then by the organisation",
    NETS: "the networks' corrections; without them counts alone",
    COUNTS: "the counted likelihoods; without them the networks' corrections alone",
    NEWCOMER: "how rarely a principal is new",
    AMOUNT: "how often the action was called: in the interval, in the day that ends with it, and on unusual resources",
    DAY_AMOUNT: "how often the action was called in the day",
    UNUSUAL_AMOUNT: "how often the action was called on unusual resources in the interval",
    RECENT_AMOUNT: "an amount that came the day before is less of one",
    LOAD: "an amount is less of one where all that the principal usually does has risen",
    HARM: "what a new action or tool can do, a strange account, a stranger's opening, a direct call of what services did",
    **{f"{GROUP_TERM}{group}": f"all features of the group {group}" for group in EVIDENCE_GROUPS},
}


class AutoencoderDetector(Detector):
    """Votes on events by the surprise of their features.

    Evidence (N, F + 14): each feature's surprise in nats; what is usual of its amounts (`UsualAmounts.carried`: logs of the usual
    calls, slopes); the parameters of the fingerprint's tail (rate, edge, slope), the
    share by which its threshold was moved, the tail of its interval (3), and the nats of being a newcomer and of what its new
    action and its new tool can do. So an event that waits is judged by the bank that measured it, also after a swap.
    """

    name = "autoencoder"
    label = "Autoencoder"
    question = "Did it do what it usually does?"
    calibrated = True
    score_columns = ()
    terms: ClassVar[Mapping[str, str]] = TERMS
    own_sums: IntervalSurprise | None = None  # of a detector that leaves a term out

    def __init__(self, settings: Settings, bank: Bank, state: ScorerState, inference: Inference) -> None:
        super().__init__(settings, bank, state, inference)
        self.options = self.options_from(settings)
        self.newcomer_share = NEWCOMER_THRESHOLD_SHARE
        self.usual_amounts = UsualAmounts.from_arrays(bank.scorer_state, state.placement)
        self.usual_load = UsualLoad.from_bank(bank.scorer_state, state.placement)
        self.role_openers = RoleOpeners.from_bank(bank.scorer_state)
        self.known_paths = KnownPaths.from_bank(bank.scorer_state, state.placement)
        self.alert_nats = alert_nats(bank, settings)

    @classmethod
    def vote_share_from(cls, settings: Settings) -> float | None:
        """Return the share as set; None where a threshold is set instead."""
        options = cls.options_from(settings)
        return options.vote_share if options.threshold is None else None

    @classmethod
    def own_threshold(cls, settings: Settings, figures: Mapping[str, Any]) -> float:
        """Return the z as set, or that the vote share of held-out rows reached."""
        options = cls.options_from(settings)
        return (
            quality.vote_threshold(figures, options.vote_share)
            if options.threshold is None
            else options.threshold
        )

    def vote_threshold(self) -> float:
        """Return its own threshold, or that of alerts where it is lower: else a lower one would show no more of them."""
        alert = quality.alert_threshold(self.bank.manifest["quality"], self.settings.alerts)
        return min(super().vote_threshold(), alert)

    @classmethod
    def options_from(cls, settings: Settings) -> Autoencoder:
        """Return the detector's section of the settings."""
        return settings.autoencoder

    def without(self, term: str) -> Self:
        """Return this detector with one of its terms left out.

        Without nets or counts, the usual loss of each feature is moved by the median difference on the bank's sample of training
        rows; the tails stay those of the whole score.
        """
        variant = super().without(term)
        variant.own_sums = IntervalSurprise(self.state.placement)
        if term == PEERS:
            variant.bank = score_terms.without_peers(self.bank)
            variant.inference = LocalInference(variant.bank)
        elif term in (NETS, COUNTS):
            counts = LocalInference(score_terms.without_nets(self.bank))
            variant.inference = counts if term == NETS else score_terms.NetsAlone(self.inference, counts)
            variant.bank = score_terms.recentered(self.bank, self.inference, variant.inference)
        return variant

    @property
    def interval_surprise(self) -> IntervalSurprise:
        """The sums by interval that this detector reads and fills."""
        return self.state.interval_surprise if self.own_sums is None else self.own_sums

    def measure(self, batch: EventBatch) -> Floats:
        """Return the surprise of each feature (N, F), nats, and note in `degraded` whether the fallback computed it."""
        observed = ObservedValues.from_batch(batch)
        whole = self.bank.whole[batch.fingerprint]
        self.degraded = False
        if self.left_out == WHOLE:
            whole = namespace(whole).full_like(whole, -1)
        surprise = self._feature_surprise(batch.fingerprint, observed)
        for known in (whole, *self._other_roles(batch)):
            surprise = autoencoder.novel_to_principal(surprise, known, self._surprise_at(known, observed))
        if self.left_out.startswith(GROUP_TERM):
            group = EVIDENCE_GROUPS.index(self.left_out.removeprefix(GROUP_TERM))
            surprise[:, to_device_of(EVIDENCE_GROUP_FEATURES[group], surprise)] = 0
        self._expect_anything_of_joined_accounts(batch, surprise)
        self.interval_surprise.add(batch.principal, batch.interval, batch.codes, surprise)
        unusual = amounts.has_unusual_resource(surprise)
        if self.own_sums is None:  # a detector that leaves a term out counts nothing twice
            self._count_calls(batch, unusual)
        evidence: Floats = namespace(surprise).column_stack(
            [surprise, *self._carried_amounts(batch, unusual), *self._tail_parameters(batch, surprise)]
        )
        return evidence.astype(np.float32)

    def _other_roles(self, batch: EventBatch) -> Iterator[NDArray[np.int32]]:
        """Yield fingerprints of the same persons at other roles, (N,), -1 for none, for principals without one of their own.

        Who is given another permission set brings along tool, network and habits.
        """
        rows = (batch.level >= PEER_LEVEL).nonzero()[0]
        if not len(rows) or self.left_out == WHOLE:
            return
        of_event, some = unique_examples(batch.principal[rows])
        named = frames.select_columns(batch.frame, ["principal", "kind"])
        principals = frames.to_pandas(frames.select_rows(named, rows[some]))
        roles = [
            self.bank.roles_of_person(principal)[:MAX_ROLES] if kind in PERSON_KINDS else ()
            for principal, kind in zip(principals["principal"], principals["kind"], strict=True)
        ]
        for number in range(max(map(len, roles))):
            of_principal = np.array([each[number] if number < len(each) else -1 for each in roles], np.int32)
            at = namespace(rows).full(len(batch), -1, np.int32)
            at[rows] = to_device_of(of_principal, rows)[of_event]
            yield at

    def _surprise_at(
        self, fingerprint: NDArray[np.int32], observed: ObservedValues
    ) -> Callable[[NDArray[np.intp]], Floats]:
        """Return a function of rows (M,) that measures what they show at other fingerprints (N,): (M, F) nats."""
        return lambda rows: self._feature_surprise(fingerprint[rows], observed.take(rows))

    def _feature_surprise(self, fingerprint: NDArray[np.int32], observed: ObservedValues) -> Floats:
        """Return the surprise of events at these fingerprints (N,), recent novelties discounted: (N, F) nats."""
        loss, known = self.inference.losses(fingerprint, observed.codes)
        self.degraded |= self.inference.degraded
        if self.left_out != RECENT:
            loss = discount_recent_novelty(
                loss, known, self.bank.vocabulary.escape[fingerprint], observed, self.state
            )
        return autoencoder.surprise_per_feature(loss, self.bank.baseline.center, fingerprint)

    def _expect_anything_of_joined_accounts(self, batch: EventBatch, surprise: Floats) -> None:
        """Take away, in place, the surprise (N, F) of what is usual of an account where the account itself is new.

        An account that joins may work in a region of its own, and everyone in it does.
        """
        features = to_device_of(ACCOUNT_FEATURES, surprise)
        odd = (surprise[:, features] >= autoencoder.RECHECK_THRESHOLD).any(axis=1)
        rows = ((batch.level >= PEER_LEVEL) & odd).nonzero()[0]
        if len(rows):
            joined = rows[self._is_of_joined_account(batch, rows)]
            surprise[joined[:, None], features] = 0

    def _count_calls(self, batch: EventBatch, unusual: Mask) -> None:
        """Count the calls that make an amount by their action, and those on `unusual` resources (N,) once more."""
        xp, counted = namespace(batch.codes), ~encoding.FEATURE_SET.makes_no_amount(batch.codes)
        every, again = counted.nonzero()[0], (counted & unusual).nonzero()[0]
        rows, action = xp.concatenate([every, again]), batch.codes[:, ACTION_COLUMN]
        code = xp.concatenate(
            [amounts.every_resource_of(action[every]), amounts.unusual_resources_of(action[again])]
        )
        self.state.interval_amounts.add(batch.principal[rows], batch.interval[rows], code)

    def _carried_amounts(self, batch: EventBatch, unusual: Mask) -> tuple[Floats, Floats]:
        """Return the logs of the usual calls of each event's amounts, and the slopes of the tails (0: no amount), (N, 3).

        What is usual of a principal that was not learned is not known: its calls make no amount.
        """
        event = to_device_of(frames.values_of(frames.column_of(batch.frame, KEY_COLUMN)), batch.codes)
        usual = self.usual_amounts.usual(batch.principal, batch.codes[:, ACTION_COLUMN])
        log_usual, slope = self.usual_amounts.carried(usual, event)
        counted = [self.left_out not in (AMOUNT, term) for term in (AMOUNT, DAY_AMOUNT, UNUSUAL_AMOUNT)]
        slope = slope * namespace(slope).asarray(counted, dtype=np.float32)
        slope[:, -1] *= unusual
        slope = slope * (batch.level < PEER_LEVEL)[:, None]
        rows = (slope[:, LOADED_AMOUNTS] > 0).any(axis=1).nonzero()[0]
        log_usual[rows, LOADED_AMOUNTS] += self._load(batch.principal[rows], batch.interval[rows])[:, None]
        return log_usual, slope

    def _load(self, principal: Hashes, interval: NDArray[np.int32]) -> Floats:
        """Return how much busier than usual principals are in all they usually do, before intervals: (M,) log ratios."""
        if self.left_out == LOAD:
            return namespace(principal).zeros(len(principal), np.float32)
        series = self.state.series
        return self.usual_load.log_ratio(
            principal,
            interval,
            calls_before(self.state.interval_amounts, series.intervals_per_day, series.late_intervals),
        )

    def _tail_parameters(self, batch: EventBatch, surprise: Floats) -> list[Floats]:
        usual, at = self.bank.baseline, batch.fingerprint
        new = self._is_new(batch) & (self.left_out != NEWCOMER)
        tails = [each[at] for each in (usual.rate, usual.edge, usual.slope, self.bank.shift)]
        done = namespace(at).maximum(self._harm_of_new_actions(batch), self._harm_of_strangers(batch))
        done = namespace(at).maximum(done, self._nats_of_new_openers(batch))
        done = namespace(at).maximum(done, self._nats_of_direct_calls(batch))
        able = done + self._harm_of_new_tools(batch, surprise)
        able *= self.left_out != HARM
        return [*tails, usual.interval_tail[at], usual.newcomer[at] * new + able]

    def _is_new(self, batch: EventBatch) -> Mask:
        """Return which events (N,) are of a principal of which it is news that it is there.

        When an account joins, everyone in it is new, so of no one it is news. Who calls it from outside is a newcomer as ever.
        """
        new: Mask = (batch.level >= PEER_LEVEL) & autoencoder.has_just_come(
            batch.first_seen, batch.interval, self.state.series.intervals_per_day
        )
        rows = new.nonzero()[0]
        if len(rows):
            new[rows] = ~self._is_of_joined_account(batch, rows)
        return new

    def _is_of_joined_account(self, batch: EventBatch, rows: NDArray[np.intp]) -> Mask:
        """Return which events at rows (M,) are in the log of their principal's own account, of which no one was learned."""
        named = frames.select_rows(frames.select_columns(batch.frame, ["principal", ACCOUNT_COLUMN]), rows)
        of_event, some = unique_examples(batch.principal[rows])
        principals = frames.to_pandas(frames.select_rows(frames.select_columns(named, ["principal"]), some))
        own = to_device_of(hashing.hash_strings(accounts_of(principals["principal"])), batch.principal)
        log = to_device_of(hashing.hash_strings(frames.column_of(named, ACCOUNT_COLUMN)), batch.principal)
        joined: Mask = (own[of_event] == log) & ~self.bank.knows_account(own)[of_event]
        return joined

    def _harm_of_new_actions(self, batch: EventBatch) -> Floats:
        """Return the nats of what the action of each event can do, 0 where its principal called it before (N,).

        Only new actions are named, each once, on the host.
        """
        xp, action = namespace(batch.codes), batch.codes[:, ACTION_COLUMN]
        nats: Floats = xp.zeros(len(batch), np.float32)
        new = self.usual_amounts.is_new(batch.principal, action) & ~encoding.FEATURE_SET.had_no_effect(
            batch.codes
        )
        rows = new.nonzero()[0]
        if len(rows):
            named = frames.select_rows(frames.select_columns(batch.frame, ["service", "action"]), rows)
            nats[rows] = harm.harm_of_events(action[rows], named)
        return nats

    def _harm_of_strangers(self, batch: EventBatch) -> Floats:
        """Return the nats of writes that name an account which no one of the organisation named before (N,).

        Each account is asked for once, on the host.
        """
        xp = namespace(batch.codes)
        nats: Floats = xp.zeros(len(batch), np.float32)
        if OTHER_ACCOUNT_FEATURE is None:
            return nats
        target = batch.codes[:, OTHER_ACCOUNT_FEATURE]
        of_event, some = unique_examples(target)
        strange = to_device_of(self.bank.names_stranger(batch.codes[some]), target)
        if strange.any():
            effective = batch.is_write & ~encoding.FEATURE_SET.had_no_effect(batch.codes)
            nats[strange[of_event] & effective] = harm.STRANGER_NATS
        return nats

    def _nats_of_new_openers(self, batch: EventBatch) -> Floats:
        """Return the nats of openings of a role by who never opened it, until that has come again (N,).

        Only openings are read, on the host.
        """
        nats: Floats = namespace(batch.codes).zeros(len(batch), np.float32)
        opened = encoding.FEATURE_SET.opened_roles(batch.codes, batch.frame)
        if not len(opened.rows):
            return nats
        worth = self.role_openers.evidence(opened.role, opened.opener)
        new = worth.nonzero()[0]
        rows = to_device_of(opened.rows[new], batch.principal)
        role = to_device_of(opened.role[new], batch.principal)
        nats[rows] = self._until_come_again(batch, rows, role, to_device_of(worth[new], nats))
        return nats

    def _nats_of_direct_calls(self, batch: EventBatch) -> Floats:
        """Return the nats of writes that a ready principal had left to services, until a direct call has come again (N,)."""
        xp = namespace(batch.codes)
        nats: Floats = xp.zeros(len(batch), np.float32)
        if not len(self.known_paths.table):
            return nats
        rows = xp.flatnonzero(could_be_left_to_services(batch.codes, batch.is_write, batch.level))
        action = batch.codes[rows, ACTION_COLUMN]
        worth = self.known_paths.evidence(batch.principal[rows], action)
        new = xp.flatnonzero(worth)
        if not len(new):
            return nats
        rows = rows[new]
        nats[rows] = self._until_come_again(batch, rows, novelty_code(action[new]), worth[new])
        return nats

    def _until_come_again(
        self, batch: EventBatch, rows: NDArray[np.intp], code: Hashes, nats: Floats
    ) -> Floats:
        """Return the nats of events at some rows (M,), 0 where the principal had the same code (M,) in an earlier interval."""
        age = self.state.novelty_age(hashing.combine(batch.principal[rows], code), batch.interval[rows])
        left: Floats = nats * (age <= self.state.series.late_intervals)
        return left

    def _harm_of_new_tools(self, batch: EventBatch, surprise: Floats) -> Floats:
        """Return the nats of programs that are made for attacks (N,), where a program surprises (N, F).

        Each is named once, on the host.
        """
        xp, program = namespace(surprise), batch.codes[:, PROGRAM_COLUMN]
        nats: Floats = xp.zeros(len(batch), np.float32)
        rows = (surprise[:, PROGRAM_COLUMN] >= autoencoder.RECHECK_THRESHOLD).nonzero()[0]
        if len(rows):
            of_event, some = unique_examples(program[rows])
            named = frames.select_columns(batch.frame, encoding.FEATURES[PROGRAM_COLUMN].columns)
            of_some = frames.to_pandas(frames.select_rows(named, rows[some]))
            texts = encoding.FEATURE_SET.texts(of_some, ["program"])["program"]
            nats[rows] = to_device_of(harm.harm_of_tools(texts), nats)[of_event]
        return nats

    def score(self, batch: EventBatch) -> Floats:
        """Return the z of each event (N,), together with its principal's interval as it stands."""
        where = (batch.principal, batch.interval)
        together = self.interval_surprise.total(*where) * np.float32(self.left_out != INTERVAL)
        at_usual_place = self.interval_surprise.from_usual_place(*where) & (self.left_out != APART)
        nats = autoencoder.event_nats(feature_surprise(batch), together, at_usual_place)
        parameters = batch.evidence[self.name][:, -TAIL_COLUMNS:]
        rate, edge, slope, shift = parameters[:, :4].T
        novelty = nats.excess(parameters[:, 4:7]) + parameters[:, 7]
        log_share = tail_calibration.log_survival(novelty, rate, edge, slope)
        amount = -self.amount_surprise(batch).max(axis=1).astype(np.float64)
        rarest = tail_calibration.either_or_both(log_share, amount)
        return tail_calibration.z_of_log_survival(rarest) / (1 + shift)

    def amount_surprise(self, batch: EventBatch) -> Floats:
        """Return the nats of how often each event's action was called so far, by amount (N, 3)."""
        counted, day = self.state.interval_amounts, self.state.series.intervals_per_day
        nats = carried_amount_nats(batch, counted, day)[1]
        if self.left_out == RECENT_AMOUNT:
            return nats
        return discount_recent_amounts(nats, batch, counted, day, self.alert_nats)

    def can_still_vote(self, batch: EventBatch, z: Floats | None = None) -> Mask:
        """Return which events have a vote, or may get one from their interval: by what surprises in it, or by an amount."""
        share = namespace(batch.level).where(batch.level >= PEER_LEVEL, self.newcomer_share, 1.0)
        z = self.score(batch) if z is None else z
        carries = (batch.evidence[self.name][:, SLOPE_COLUMNS] > 0).any(axis=1)
        return (
            carries
            | autoencoder.needs_interval_context(feature_surprise(batch))
            | reaches_threshold(z, share * self.threshold)
        )

    def priority(self, batch: EventBatch) -> Floats:
        """Return the summed surprise (N,), by which pending events are kept when there are too many."""
        return autoencoder.total_surprise(feature_surprise(batch))

    @classmethod
    def drivers(cls, batch: EventBatch, frame: Frame, context: ExplanationContext) -> list[SurpriseDriver]:
        """Return the most surprising values of a group of events, each once."""
        drivers = _value_drivers(batch, frame, context)
        drivers += _amount_drivers(batch, frame, context)
        drivers += _opener_drivers(batch, context)
        drivers += _call_path_drivers(batch, frame, context)
        return sorted(drivers, key=lambda driver: -driver.surprise)


DETECTOR = AutoencoderDetector


def feature_surprise(batch: EventBatch) -> Floats:
    """Return the surprise of each feature of events that the autoencoder measured: (N, F) nats."""
    return batch.evidence[AutoencoderDetector.name][:, : len(FEATURE_NAMES)]


def carried_amount_nats(batch: EventBatch, counted: IntervalAmounts, day: int) -> tuple[Floats, Floats]:
    """Return how often each event's action was called so far, by amount, and the nats of it: (N, 3) each.

    A `day` is so many intervals. What an event does not carry is not counted for it.
    """
    evidence = batch.evidence[AutoencoderDetector.name]
    slope, xp = evidence[:, SLOPE_COLUMNS], namespace(evidence)
    calls = xp.zeros(slope.shape, np.int32)
    counts = (
        (amounts.every_resource_of, 1),
        (amounts.every_resource_of, day),
        (amounts.unusual_resources_of, 1),
    )
    for amount, (code_of, intervals) in enumerate(counts):
        rows = (slope[:, amount] > 0).nonzero()[0]
        code = code_of(batch.codes[rows, ACTION_COLUMN])
        calls[rows, amount] = counted.count(batch.principal[rows], batch.interval[rows], code, intervals)
    return calls, amounts.amount_nats(calls, evidence[:, USUAL_COLUMNS], slope)


def alert_nats(bank: Bank, settings: Settings) -> float:
    """Return the nats of an event that reaches the threshold of alerts."""
    threshold = quality.alert_threshold(bank.manifest["quality"], settings.alerts)
    return float(tail_calibration.z_to_nats(threshold))


def discount_recent_amounts(
    nats: Floats, batch: EventBatch, counted: IntervalAmounts, day: int, alerting: float
) -> Floats:
    """Return the nats of amounts (N, 3) without those of the day before, where these reached the `alerting` nats.

    What opened an alert then, or could have, is no news when it comes again: a job that is new, and runs every night. A smaller
    amount takes nothing away, so who takes a little more each day is as strange as who takes all at once. What is left never
    falls while an interval fills. A `day` is so many intervals.
    """
    xp = namespace(nats)
    rows = xp.any(nats > LEAST_AMOUNT_NATS, axis=1).nonzero()[0]
    if not len(rows):
        return nats
    before = _nats_of_day_before(batch, rows, counted, day)
    less = nats[rows] - xp.where(before >= alerting, before, np.float32(0))
    discounted = nats.copy()
    discounted[rows] = xp.maximum(less, xp.minimum(nats[rows], np.float32(LEAST_AMOUNT_NATS)))
    return discounted


def _nats_of_day_before(
    batch: EventBatch, rows: NDArray[np.intp], counted: IntervalAmounts, day: int
) -> Floats:
    """Return the nats of what the actions of some events were called the day before, by amount, (M, 3).

    A job may begin some hours sooner or later: the largest amount of an interval within a quarter of a day of the same time, and
    of a day of those that ended half a day before and earlier. State is kept for two days.
    """
    xp, evidence = namespace(batch.codes), batch.evidence[AutoencoderDetector.name][rows]
    ago = xp.arange(max(day // 2, 1), 2 * day - day // 8, dtype=np.int32)
    principal = xp.repeat(batch.principal[rows], len(ago))
    action = xp.repeat(batch.codes[rows, ACTION_COLUMN], len(ago))
    interval = (batch.interval[rows][:, None] - ago).ravel()
    every, unusual = (
        counted.count(principal, interval, code_of(action)).reshape(-1, len(ago))
        for code_of in (amounts.every_resource_of, amounts.unusual_resources_of)
    )
    same_time = slice(int(day - day // 4 - ago[0]), int(day + day // 4 - ago[0]) + 1)
    until = every.cumsum(axis=1)
    in_a_day = until[:, day - 1 :].copy()
    in_a_day[:, 1:] -= until[:, :-day]
    hours = (each[:, same_time].max(axis=1) for each in (every, unusual))
    calls = xp.stack([next(hours), in_a_day.max(axis=1), next(hours)], axis=1)
    return amounts.amount_nats(calls, evidence[:, USUAL_COLUMNS], evidence[:, SLOPE_COLUMNS])


class ObservedValues(NamedTuple):
    """The values that events show of a principal, by interval: `principal` (N,), `interval` (N,), `codes` (N, F)."""

    principal: Hashes
    interval: NDArray[np.int32]
    codes: Hashes

    @classmethod
    def from_batch(cls, batch: EventBatch) -> ObservedValues:
        """Return what a batch of N events shows."""
        return cls(batch.principal, batch.interval, batch.codes)

    def take(self, rows: NDArray[np.intp]) -> ObservedValues:
        """Return the values of some rows."""
        return ObservedValues(self.principal[rows], self.interval[rows], self.codes[rows])


def discount_recent_novelty(
    loss: Floats, known: Mask, escape: Floats, observed: ObservedValues, state: ScorerState
) -> Floats:
    """Cap the loss (N, F) of values that the principal first showed after the training: a recent novelty is less of one.

    What is left is the surprise of doing *something* new, by the fingerprint's `escape` (N, F), plus that of it being this one of
    about ten recent novelties; after a day the latter alone. `known` (N, F) marks the values that the fingerprint has learned; a
    rare one is capped as well: a peer group may know what one of its principals did once. A tool or a place is no recent novelty
    before it is familiar (`state.first_calls`).
    """
    xp = namespace(known)
    row, column = xp.nonzero((~known | (loss >= RARE_NATS)) & to_device_of(~IS_BIN, known))
    owner = hashing.combine(observed.principal[row], column.astype(np.uint64))
    value, interval = hashing.combine(owner, observed.codes[row, column]), observed.interval[row]
    is_caller = to_device_of(IS_OF_CALLER, known)[column]
    (what,), (who,) = (~is_caller).nonzero(), is_caller.nonzero()
    age = xp.empty(len(row), np.int32)
    age[what] = state.novelty_age(value[what], interval[what])
    action = observed.codes[row[who], ACTION_COLUMN]
    age[who] = state.first_calls.familiar_age(value[who], interval[who], action)
    again = age > state.series.late_intervals
    row, column, age = row[again], column[again], age[again]
    something_new = xp.where(age < state.series.intervals_per_day, -escape[row, column], 0)
    out = loss.copy()
    out[row, column] = xp.minimum(out[row, column], RECENT_NOVELTY_NATS + something_new)
    return out


# --- what drove the loss ----------------------------------------------------------------------------------------------


def _rank_values(codes: Hashes, surprise: Floats) -> list[tuple[int, float, int]]:
    """Return the distinct values of a feature by their surprise: (an example row, nats, events that share it)."""
    order = np.lexsort((-surprise, codes))
    _, first, counts = np.unique(codes[order], return_index=True, return_counts=True)
    rows = order[first]
    ranked = np.lexsort((codes[rows], -surprise[rows]))
    return [(int(rows[at]), float(surprise[rows[at]]), int(counts[at])) for at in ranked]


def _amount_drivers(batch: EventBatch, frame: Frame, context: ExplanationContext) -> list[SurpriseDriver]:
    """Return the actions of a group of events that were called more often than is usual, each once, by its rarest amount."""
    action = batch.codes[:, ACTION_COLUMN]
    counted, day = context.interval_amounts, context.series.intervals_per_day
    calls, nats = carried_amount_nats(batch, counted, day)
    alerting = alert_nats(context.bank_and_row(batch, 0)[0], context.settings)
    nats = discount_recent_amounts(nats, batch, counted, day, alerting)
    an_hour = amounts.span_text(context.settings.spectral.interval_seconds)
    spans, rarest = (an_hour, "a day", f"{an_hour} on unusual resources"), nats.argmax(axis=1)
    drivers = []
    for row, value, count in _rank_values(action, nats.max(axis=1))[:MAX_DRIVERS]:
        if value < MIN_DRIVER_SURPRISE:
            break
        bank, _ = context.bank_and_row(batch, row)
        known, amount = UsualAmounts.from_arrays(bank.scorer_state, identity_placement), int(rarest[row])
        most = int(known.most(batch.principal[[row]], action[[row]])[0, amount])
        called = int(calls[row, amount])
        expected = f"at most {most:,} before" if most else "none before"
        rarity: Rarity = "unseen" if called > most else "rare"
        seen = amounts.amount_text(called, action_at(frame, row), spans[amount])
        drivers.append(SurpriseDriver("amount", seen, expected, rarity, round(value, 2), count))
    return drivers


def _opener_drivers(batch: EventBatch, context: ExplanationContext) -> list[SurpriseDriver]:
    """Return the roles that a group of events opened for someone who never opened them, each once."""
    opened = encoding.FEATURE_SET.opened_roles(batch.codes, batch.frame)
    if not len(opened.rows):
        return []
    bank, _ = context.bank_and_row(batch, 0)
    known = RoleOpeners.from_bank(bank.scorer_state)
    nats = known.nats(opened.role, opened.opener)
    drivers = []
    for place, value, count in _rank_values(opened.role, nats)[:MAX_DRIVERS]:
        if value < MIN_DRIVER_SURPRISE:
            break
        usual = sorted(filter(None, bank.value_texts(known.openers(opened.role[place]))))
        named = ", ".join(map(SOURCE.plain_principal, usual[:MAX_USUAL_VALUES]))
        more = len(usual) - MAX_USUAL_VALUES
        expected = f"{named} and {more:,} other{'s' if more > 1 else ''}" if more > 0 else named
        role, opener = opened.texts[place]
        seen = f"{SOURCE.plain_principal(opener)}{OPENED}{role}"
        drivers.append(SurpriseDriver(OPENER_FEATURE, seen, expected, "unseen", round(value, 2), count))
    return drivers


def could_be_left_to_services(codes: Hashes, wrote: Mask, level: NDArray[np.integer[Any]]) -> Mask:
    """Return which events (N,) are writes with an effect that a principal with a fingerprint called without a service.

    `codes` (N, F), whether each `wrote` (N,), and the `level` (N,) that it is judged at. In training as in scoring.
    """
    direct: Mask = wrote & encoding.FEATURE_SET.is_from_address(codes)
    return direct & (level < PEER_LEVEL) & ~encoding.FEATURE_SET.had_no_effect(codes)


def _call_path_drivers(batch: EventBatch, frame: Frame, context: ExplanationContext) -> list[SurpriseDriver]:
    """Return the actions of a group of events that their principal had left to services, each once."""
    rows = np.flatnonzero(could_be_left_to_services(batch.codes, batch.is_write, batch.level))
    if not len(rows):
        return []
    bank, _ = context.bank_and_row(batch, 0)
    known = KnownPaths.from_bank(bank.scorer_state, identity_placement)
    principal, action = batch.principal[rows], batch.codes[rows, ACTION_COLUMN]
    drivers = []
    for place, value, count in _rank_values(action, known.nats(principal, action))[:MAX_DRIVERS]:
        if value < MIN_DRIVER_SURPRISE:
            break
        service, days = known.usual(principal[[place]], action[[place]])
        [named] = bank.value_texts(service)
        expected = f"{ONLY_BY}{named or 'a service'} on {days[0]:,.0f} day{'s' if days[0] > 1 else ''}"
        seen = action_at(frame, int(rows[place]))
        drivers.append(SurpriseDriver(CALL_PATH_FEATURE, seen, expected, "unseen", round(value, 2), count))
    return drivers


class _ShownValue(NamedTuple):
    """A value of a feature that drives an alert: an example row, its surprise in nats, and how many events share it."""

    feature: int
    row: int
    nats: float
    events: int


def _value_drivers(batch: EventBatch, frame: Frame, context: ExplanationContext) -> list[SurpriseDriver]:
    """Return the most surprising values of each feature, looked up together: an alert shows up to a hundred."""
    shown = list(_shown_values(batch))
    rows = np.unique([value.row for value in shown]).astype(np.intp)
    texts = encoding.FEATURE_SET.texts(frames.select_rows(frame, rows))
    known = _known_values(batch, rows, context)
    actions = texts[FEATURE_NAMES[ACTION_COLUMN]]
    return [
        replace(
            known[value.row].driver(
                value, texts[FEATURE_NAMES[value.feature]][at], frames.text_or_empty(actions[at])
            ),
            principals=_count_principals(batch.codes, value, known[value.row].bank),
        )
        for value, at in zip(shown, np.searchsorted(rows, [value.row for value in shown]), strict=True)
    ]


def _count_principals(codes: Hashes, value: _ShownValue, bank: Bank) -> int:
    """Return how many principals of the history showed a value of events with `codes` (N, F).

    A network is wide: of a provider's it says little that machines are at it. So the address ranges of all events from there are
    asked, and the least is returned.
    """
    code, feature = codes[value.row, value.feature], value.feature
    at = codes[[value.row]]
    if encoding.FEATURE_SET.ranges and FEATURE_NAMES[feature] == encoding.FEATURE_SET.ranges[0]:
        at, feature = codes[codes[:, feature] == code], FEATURE_NAMES.index(encoding.FEATURE_SET.ranges[1])
        at = at[np.unique(at[:, feature], return_index=True)[1]]
    return int(bank.principals_that_showed(at)[:, feature].min())


def _shown_values(batch: EventBatch) -> Iterator[_ShownValue]:
    surprise = feature_surprise(batch)
    for feature in range(len(encoding.FEATURES)):
        most = MAX_ACTION_DRIVERS if feature == ACTION_COLUMN else MAX_DRIVERS
        for row, nats, count in _rank_values(batch.codes[:, feature], surprise[:, feature])[:most]:
            if nats >= MIN_DRIVER_SURPRISE:
                yield _ShownValue(feature, row, nats, count)


class _KnownValues(NamedTuple):
    """A bank's counts of an event's values, by its `fingerprint` (a row, and its `key`).

    `share` (F,) of presences; `peer_share` (F,) among its peers, None without any; `often_new` (F,): new values are usual.
    """

    bank: Bank
    fingerprint: int
    key: str
    share: Floats
    peer_share: Floats | None
    often_new: Mask

    def driver(self, value: _ShownValue, text: object, action: str) -> SurpriseDriver:
        """Return the driver of a value of the event, whose text is `text` and whose action is `action`."""
        seen = frames.text_or_empty(text)
        return SurpriseDriver(
            encoding.FEATURES[value.feature].label,
            encoding.FEATURES[value.feature].shown(seen) or "(none)",
            self._expected(value.feature, action, seen),
            rarity_of(float(self.share[value.feature])),
            round(value.nats, 2),
            value.events,
            None if self.peer_share is None else rarity_of(float(self.peer_share[value.feature])),
            self.key,
        )

    @property
    def _calls_so_far(self) -> str:
        """Of how few calls the values are, where the fingerprint is not ready; else empty."""
        table = self.bank.fingerprints
        if table["ready"].iat[self.fingerprint]:
            return ""
        calls = int(table["events"].to_numpy()[self.fingerprint])
        return f" (in its {calls:,} {'calls' if calls > 1 else 'call'} so far)"

    def _expected(self, feature: int, action: str, seen: str) -> str:
        """Return the usual values of a feature, the commonest first; of one that is given the action, this action's.

        What was `seen` is not among them: where it is usual, it is strange beside the rest of the call. Those of the generic
        fingerprint are said to be the organisation's: they are not this principal's own. Of a principal that is not ready it is
        said how few calls they are of.
        """
        slots = self.bank.vocabulary.codes[self.fingerprint, feature, 1:]
        usual = [each for each in self.bank.value_texts(slots[slots != 0]) if each]
        if encoding.GIVEN_FEATURE[feature] == ACTION_COLUMN:
            usual = [each for each in usual if _is_of_action(each, action)]
            if not usual and self.share[ACTION_COLUMN] > 0 and slots.all():
                return "others, none often"  # what it had is not among the values that the fingerprint names
        if usual == [seen]:
            return "nothing else"
        usual = [each for each in usual if each != seen]
        whose = " (in the organisation)" if self.fingerprint == GENERIC_ROW else self._calls_so_far
        often = ", often a new one" if self.often_new[feature] and feature in PLACE_FEATURES else ""
        shown = map(encoding.FEATURES[feature].shown, usual[:MAX_USUAL_VALUES])
        return ", ".join(shown) + often + whose if usual else "nothing yet"


def _is_of_action(text: str, action: str) -> bool:
    """Return whether a value that is given an action, as `s3:GetObject on bucket:x`, is this action's."""
    return text.startswith(action) and not text[len(action) : len(action) + 1].isalnum()


def _known_values(
    batch: EventBatch, rows: NDArray[np.intp], context: ExplanationContext
) -> dict[int, _KnownValues]:
    """Return what is known of the values of events, by row: by the bank that measured each."""
    versions = np.asarray(frames.column_of(batch.frame, "bank_version"), object)[rows]
    found = {}
    for version in set(versions.tolist()):
        of_version = rows[versions == version]
        bank, at = context.bank_and_rows(batch, of_version)
        codes, peers = batch.codes[of_version], bank.peers[at]
        share = bank.vocabulary.observed_share(at, codes)
        peer_share = bank.vocabulary.observed_share(np.maximum(peers, 0), codes)
        often_new = bank.vocabulary.novelty_is_usual(at)
        keys = bank.fingerprints["key"].array.take(at).tolist()
        for place, row in enumerate(of_version.tolist()):
            among_peers = peer_share[place] if peers[place] >= 0 else None
            known = share[place], among_peers, often_new[place]
            found[row] = _KnownValues(bank, int(at[place]), str(keys[place]), *known)
    return found
