"""The autoencoder detector: how unusual an action of a principal is.

It votes on events. The z of an event says how rare one of these is, or both together:
- its surprise for its fingerprint, with what else of its principal surprises in the same interval (`estimators.autoencoder`,
  `estimators.interval_tail`)
- the number of calls of its action (`estimators.amounts`)

`estimators.tail_calibration` turns nats into a z.

Example:
    >>> detector = AutoencoderDetector(settings, bank, state, LocalInference(bank))
    >>> batch = replace(batch, evidence={detector.name: detector.measure(batch)})
    >>> detector.score(batch)                              # (N,) z
    >>> feature_surprise(batch)                            # (N, F) nats
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import Floats, Mask, namespace, to_device_of, to_host, unique_examples
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import SurpriseDriver
from fingerprint.core.ports.inference import Inference
from fingerprint.core.settings import Autoencoder, Settings
from fingerprint.detection import score_terms
from fingerprint.detection.batch import KEY_COLUMN
from fingerprint.detection.detectors import Detector, ExplanationContext
from fingerprint.detection.detectors.autoencoder.drivers import surprise_drivers
from fingerprint.detection.detectors.autoencoder.evidence import (
    ADDED_NATS,
    DETECTOR_NAME,
    FINGERPRINT_TAIL,
    INTERVAL_TAIL,
    SLOPE_COLUMNS,
    ObservedValues,
    carried_amount_nats,
    could_be_left_to_services,
    could_have_moved,
    discount_recent_amounts,
    discount_recent_novelty,
    feature_surprise,
    nats_at_threshold,
    shows_more_than_a_place,
)
from fingerprint.detection.ensemble import NEWCOMER_THRESHOLD_SHARE, reaches_threshold
from fingerprint.detection.inference import LocalInference
from fingerprint.estimators import amounts, autoencoder, harm, tail_calibration
from fingerprint.estimators.amounts import AMOUNTS_OF_ALL_CALLS, UsualAmounts
from fingerprint.estimators.call_paths import KnownPaths, novelty_code
from fingerprint.estimators.load import UsualLoad
from fingerprint.estimators.moves import SettledMachines, move_code
from fingerprint.estimators.openers import RoleOpeners
from fingerprint.features import encoding
from fingerprint.features.encoding import (
    ACCOUNT_FEATURES,
    ACTION_COLUMN,
    EVIDENCE_GROUP_FEATURES,
    EVIDENCE_GROUPS,
    FEATURE_NAMES,
    IS_RESOURCE,
    OTHER_ACCOUNT_FEATURE,
)
from fingerprint.registry import quality
from fingerprint.registry.bank import PEER_LEVEL, PERSON_KINDS, Bank, accounts_of
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.interval_amounts import calls_before
from fingerprint.state.interval_surprise import IntervalSurprise
from fingerprint.state.scorer_state import ScorerState

MAX_ROLES = 3  # of a person, the busiest ones, that a new role of theirs is judged by
PROGRAM_COLUMN = FEATURE_NAMES.index("program")
MAX_NAMED_BY = 2  # principals that name an account before it joins: who invites it, and who lets it in
# Features that say which other account a call names, and which resource, which may be one of that account.
NAMED_FEATURES = np.flatnonzero(IS_RESOURCE | (np.arange(len(FEATURE_NAMES)) == OTHER_ACCOUNT_FEATURE))
ACCOUNT_COLUMN = "recipient_account"  # whose log an event is in

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
    HARM: "what a new action or tool can do, a strange account, a stranger's opening, a direct call, another network",
    **{f"{GROUP_TERM}{group}": f"all features of the group {group}" for group in EVIDENCE_GROUPS},
}


class AutoencoderDetector(Detector):
    """Votes on events by the surprise of their features.

    Evidence keeps with each event all that is needed of the bank, so an event that waits is judged by the bank that measured it,
    also after a swap. It is (N, F + 14); its columns are
    - F: the surprise of each feature, in nats
    - 6: for each of three amounts the log of the usual number of calls, then for each the slope of its tail
      (`UsualAmounts.carried`)
    - 4: rate, edge and slope of the fingerprint's tail, and the share by which dispositions moved its threshold
    - 3: the tail of the interval
    - 1: nats that are added for a newcomer, and for the harm that the call can do
    """

    name = DETECTOR_NAME
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
        self.settled_machines = SettledMachines.from_bank(bank.scorer_state, state.placement)
        self.alert_nats = nats_at_threshold(bank, settings)

    @classmethod
    def vote_share_from(cls, settings: Settings) -> float | None:
        """Return the vote share of the settings; None where they set a threshold instead."""
        options = cls.options_from(settings)
        return options.vote_share if options.threshold is None else None

    @classmethod
    def own_threshold(cls, settings: Settings, figures: Mapping[str, Any]) -> float:
        """Return the threshold of the settings, or the z that the vote share of held-out rows reached."""
        options = cls.options_from(settings)
        return (
            quality.vote_threshold(figures, options.vote_share)
            if options.threshold is None
            else options.threshold
        )

    def vote_threshold(self) -> float:
        """Return the detector's own threshold, or the threshold of alerts if that is lower.

        A z that opens an alert must be a vote, too; else a lower threshold of alerts would show no more alerts.
        """
        alert = quality.alert_threshold(self.bank.manifest["quality"], self.settings.alerts)
        return min(super().vote_threshold(), alert)

    @classmethod
    def options_from(cls, settings: Settings) -> Autoencoder:
        """Return the detector's section of the settings."""
        return settings.autoencoder

    def without(self, term: str) -> Self:
        """Return this detector with one of its terms left out.

        Losses without nets or without counts are higher or lower as a whole. So the usual loss of each feature is moved by the
        median difference on the bank's sample of training rows. The tails stay those of the whole score.
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
        """Return the sums by interval that this detector reads and adds to."""
        return self.state.interval_surprise if self.own_sums is None else self.own_sums

    def measure(self, batch: EventBatch) -> Floats:
        """Return the evidence of events (N, F + 14), and count them in the state; set `degraded` if the fallback computed it."""
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
        self._expect_any_given_role(batch, surprise)
        self.interval_surprise.add(batch.principal, batch.interval, batch.codes, surprise)
        unusual = amounts.has_unusual_resource(surprise)
        if self.own_sums is None:  # a detector that leaves a term out counts nothing twice
            self._count_calls(batch, unusual)
        evidence: Floats = namespace(surprise).column_stack(
            [surprise, *self._carried_amounts(batch, unusual), *self._tail_parameters(batch, surprise)]
        )
        return evidence.astype(np.float32)

    def _other_roles(self, batch: EventBatch) -> Iterator[NDArray[np.int32]]:
        """Yield fingerprints (N,) of the same person at other roles, for principals without one of their own; -1 for none.

        A person who is given another permission set keeps the tools, networks and habits.
        """
        rows = (batch.level >= PEER_LEVEL).nonzero()[0]
        if not len(rows) or self.left_out == WHOLE:
            return
        of_event, some = unique_examples(batch.principal[rows])
        named = frames.select_columns(batch.frame, ["principal", "kind"])
        principals = frames.to_host(frames.select_rows(named, rows[some]))
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
        """Return a function that takes rows (M,) and returns their surprise (M, F), in nats, at these fingerprints (N,)."""
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
        """Set surprise (N, F) to 0, in place, that only says that an account joined the organisation.

        It may work in a region of its own, and everyone in it does: of its own principals ACCOUNT_FEATURES say nothing. Of calls
        that name members of the organisation alone, neither the account says anything nor what is named in it.
        """
        features = to_device_of(ACCOUNT_FEATURES, surprise)
        odd = (surprise[:, features] >= autoencoder.RECHECK_THRESHOLD).any(axis=1)
        rows = ((batch.level >= PEER_LEVEL) & odd).nonzero()[0]
        if len(rows):
            joined = rows[self._is_of_joined_account(batch, rows)]
            surprise[joined[:, None], features] = 0
        if OTHER_ACCOUNT_FEATURE is None:
            return
        odd = surprise[:, OTHER_ACCOUNT_FEATURE] >= autoencoder.RECHECK_THRESHOLD
        rows = (odd & encoding.FEATURE_SET.is_to_members(batch.codes[:, ACTION_COLUMN])).nonzero()[0]
        if len(rows):
            joined = rows[to_device_of(self.bank.names_stranger(batch.codes[rows], MAX_NAMED_BY), rows)]
            surprise[joined[:, None], to_device_of(NAMED_FEATURES, surprise)] = 0

    def _expect_any_given_role(self, batch: EventBatch, surprise: Floats) -> None:
        """Set surprise (N, F) to 0, in place, of the role that a newcomer enters and of its account; not where that is refused.

        An administrator gave the role, by a call that is judged itself, and the role's own calls are judged as another principal.
        """
        entered = encoding.FEATURE_SET.is_entry(batch.codes[:, ACTION_COLUMN])
        entered &= ~encoding.FEATURE_SET.failed(batch.codes)
        rows = ((batch.level >= PEER_LEVEL) & entered).nonzero()[0]
        if len(rows):
            surprise[rows[:, None], to_device_of(NAMED_FEATURES, surprise)] = 0

    def _count_calls(self, batch: EventBatch, unusual: Mask) -> None:
        """Count calls that did not fail by their action, and calls on `unusual` resources (N,) by a code of their own.

        Clients repeat calls that fail, so the number of those says something on unusual resources alone.
        """
        xp, features = namespace(batch.codes), encoding.FEATURE_SET
        every = (~features.failed(batch.codes)).nonzero()[0]
        again = (unusual & ~features.makes_no_amount(batch.codes)).nonzero()[0]
        rows, action = xp.concatenate([every, again]), batch.codes[:, ACTION_COLUMN]
        code = xp.concatenate(
            [amounts.every_resource_of(action[every]), amounts.unusual_resources_of(action[again])]
        )
        self.state.interval_amounts.add(batch.principal[rows], batch.interval[rows], code)

    def _carried_amounts(self, batch: EventBatch, unusual: Mask) -> tuple[Floats, Floats]:
        """Return the log of the usual number of calls of each amount, and the slope of its tail (0: no such amount), (N, 3) each.

        It is not known what is usual of a principal that was not learned, so its calls make no amount.
        """
        event = to_device_of(frames.values_of(frames.column_of(batch.frame, KEY_COLUMN)), batch.codes)
        usual = self.usual_amounts.usual(batch.principal, batch.codes[:, ACTION_COLUMN])
        log_usual, slope = self.usual_amounts.carried(usual, event)
        counted = [self.left_out not in (AMOUNT, term) for term in (AMOUNT, DAY_AMOUNT, UNUSUAL_AMOUNT)]
        slope = slope * namespace(slope).asarray(counted, dtype=np.float32)
        slope[:, -1] *= unusual
        slope = slope * (batch.level < PEER_LEVEL)[:, None]
        rows = (slope[:, AMOUNTS_OF_ALL_CALLS] > 0).any(axis=1).nonzero()[0]
        log_usual[rows, AMOUNTS_OF_ALL_CALLS] += self._load(batch.principal[rows], batch.interval[rows])[
            :, None
        ]
        return log_usual, slope

    def _load(self, principal: Hashes, interval: NDArray[np.int32]) -> Floats:
        """Return how much busier than usual principals were before these intervals, in all they usually do: (M,) log ratios."""
        if self.left_out == LOAD:
            return namespace(principal).zeros(len(principal), np.float32)
        series = self.state.series
        return self.usual_load.log_ratio(
            principal,
            interval,
            calls_before(self.state.interval_amounts, series.intervals_per_day, series.late_intervals),
        )

    def _tail_parameters(self, batch: EventBatch, surprise: Floats) -> list[Floats]:
        """Return the columns of FINGERPRINT_TAIL, INTERVAL_TAIL and ADDED_NATS.

        Several reasons may make a call harmful: the strongest of them counts. What a new action can do and whom it lets in are
        two facts about one call, so they are added. A tool that is made for attacks is added as well.
        """
        usual, at = self.bank.baseline, batch.fingerprint
        new = self._is_new(batch) & (self.left_out != NEWCOMER)
        tails = [each[at] for each in (usual.rate, usual.edge, usual.slope, self.bank.shift)]
        of_call = (
            self._harm_of_new_actions(batch) + self._harm_of_strangers(batch),
            self._nats_of_new_openers(batch),
            self._nats_of_direct_calls(batch),
            self._nats_of_moves(batch, surprise),
        )
        nats = reduce(namespace(at).maximum, of_call) + self._harm_of_new_tools(batch, surprise)
        nats *= self.left_out != HARM
        return [*tails, usual.interval_tail[at], usual.newcomer[at] * new + nats]

    def _is_new(self, batch: EventBatch) -> Mask:
        """Return which events (N,) are of a principal that has just come, where that is unusual.

        In an account that joins everyone is new, so there it is not unusual. A newcomer that calls it from outside still counts.
        """
        new: Mask = (batch.level >= PEER_LEVEL) & autoencoder.has_just_come(
            batch.first_seen, batch.interval, self.state.series.intervals_per_day
        )
        rows = new.nonzero()[0]
        if len(rows):
            new[rows] = ~self._is_of_joined_account(batch, rows)
        return new

    def _is_of_joined_account(self, batch: EventBatch, rows: NDArray[np.intp]) -> Mask:
        """Return which events at rows (M,) are in the log of their principal's own account, if no one of it was learned."""
        named = frames.select_rows(frames.select_columns(batch.frame, ["principal", ACCOUNT_COLUMN]), rows)
        of_event, some = unique_examples(batch.principal[rows])
        principals = frames.to_host(frames.select_rows(frames.select_columns(named, ["principal"]), some))
        own = to_device_of(hashing.hash_strings(accounts_of(principals["principal"])), batch.principal)
        log = to_device_of(hashing.hash_strings(frames.texts_of(named, ACCOUNT_COLUMN)), batch.principal)
        joined: Mask = (own[of_event] == log) & ~self.bank.knows_account(own)[of_event]
        return joined

    def _harm_of_new_actions(self, batch: EventBatch) -> Floats:
        """Return the nats of the harm that each event's action can do (N,); 0 where its principal called it before.

        Only new actions are named and looked up, on the host.
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
            harm.add_where_never_called(nats, action, self._is_called)
        return nats

    def _is_called(self, action: Hashes) -> Mask:
        """Return which of the actions with these codes (N,) any principal of the history called."""
        called: Mask = to_device_of(self.bank.knows_action(to_host(action)), action)
        return called

    def _harm_of_strangers(self, batch: EventBatch) -> Floats:
        """Return the nats (N,) of writes that name an account which no one of the organisation named before.

        Each account is looked up once, on the host.
        """
        xp = namespace(batch.codes)
        nats: Floats = xp.zeros(len(batch), np.float32)
        if OTHER_ACCOUNT_FEATURE is None:
            return nats
        target = batch.codes[:, OTHER_ACCOUNT_FEATURE]
        of_event, some = unique_examples(target)
        strange = to_device_of(self.bank.names_stranger(batch.codes[some]), target)
        if strange.any():
            lets_in = batch.is_write & ~encoding.FEATURE_SET.had_no_effect(batch.codes)
            lets_in &= ~encoding.FEATURE_SET.is_to_members(batch.codes[:, ACTION_COLUMN])
            nats[strange[of_event] & lets_in] = harm.STRANGER_NATS
        return nats

    def _nats_of_new_openers(self, batch: EventBatch) -> Floats:
        """Return the nats (N,) of openings of a role by someone who never opened it before; 0 once that has come again.

        Only events that open a role are read, on the host.
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
        """Return the nats (N,) of a ready principal's writes that it had left to services; 0 once a direct call has come again.

        Few events call an action that only services called before: only these are tested for writes.
        """
        nats: Floats = namespace(batch.codes).zeros(len(batch), np.float32)
        if not len(self.known_paths.table):
            return nats
        action = batch.codes[:, ACTION_COLUMN]
        worth = self.known_paths.evidence(batch.principal, action)
        rows = worth.nonzero()[0]
        if not len(rows):
            return nats
        wrote = to_device_of(encoding.FEATURE_SET.is_write(frames.select_rows(batch.frame, rows)), worth)
        rows = rows[could_be_left_to_services(batch.codes[rows], wrote, batch.level[rows])]
        nats[rows] = self._until_come_again(batch, rows, novelty_code(action[rows]), worth[rows])
        return nats

    def _nats_of_moves(self, batch: EventBatch, surprise: Floats) -> Floats:
        """Return the nats (N,) of settled machines that are seen at another network; 0 once that network is familiar.

        `surprise` (N, F) says what else of the event is new. A thief's first try does not make a network familiar; several calls
        do (`state.first_calls`).
        """
        xp = namespace(batch.codes)
        nats: Floats = xp.zeros(len(batch), np.float32)
        if not len(self.settled_machines.machines):
            return nats
        rows = xp.flatnonzero(could_have_moved(batch.codes, batch.level))
        network = encoding.FEATURE_SET.networks(batch.codes)[rows]
        worth = self.settled_machines.evidence(
            batch.principal[rows], network, shows_more_than_a_place(surprise[rows])
        )
        new = xp.flatnonzero(worth)
        if not len(new):
            return nats
        rows = rows[new]
        value = hashing.combine(batch.principal[rows], move_code(network[new]))
        interval, action = batch.interval[rows], batch.codes[rows, ACTION_COLUMN]
        age = self.state.first_calls.familiar_age(value, interval, action)
        nats[rows] = worth[new] * (age <= self.state.series.late_intervals)
        return nats

    def _until_come_again(
        self, batch: EventBatch, rows: NDArray[np.intp], code: Hashes, nats: Floats
    ) -> Floats:
        """Return the nats of events at some rows (M,), 0 where the principal had the same code (M,) in an earlier interval."""
        age = self.state.novelty_age(hashing.combine(batch.principal[rows], code), batch.interval[rows])
        left: Floats = nats * (age <= self.state.series.late_intervals)
        return left

    def _harm_of_new_tools(self, batch: EventBatch, surprise: Floats) -> Floats:
        """Return the nats (N,) of programs that are made for attacks, where `surprise` (N, F) says that the program is unusual.

        Each program is looked up once, on the host.
        """
        xp, program = namespace(surprise), batch.codes[:, PROGRAM_COLUMN]
        nats: Floats = xp.zeros(len(batch), np.float32)
        rows = (surprise[:, PROGRAM_COLUMN] >= autoencoder.RECHECK_THRESHOLD).nonzero()[0]
        if len(rows):
            of_event, some = unique_examples(program[rows])
            named = frames.select_columns(batch.frame, encoding.FEATURES[PROGRAM_COLUMN].columns)
            of_some = frames.to_host(frames.select_rows(named, rows[some]))
            texts = encoding.FEATURE_SET.texts(of_some, ["program"])["program"]
            nats[rows] = to_device_of(harm.harm_of_tools(texts), nats)[of_event]
        return nats

    def score(self, batch: EventBatch) -> Floats:
        """Return the z of each event (N,), together with its principal's interval as it stands."""
        where = (batch.principal, batch.interval)
        together = self.interval_surprise.total(*where) * np.float32(self.left_out != INTERVAL)
        at_usual_place = self.interval_surprise.from_usual_place(*where) & (self.left_out != APART)
        nats = autoencoder.event_nats(feature_surprise(batch), together, at_usual_place)
        evidence = batch.evidence[DETECTOR_NAME]
        rate, edge, slope, shift = evidence[:, FINGERPRINT_TAIL].T
        novelty = nats.excess(evidence[:, INTERVAL_TAIL]) + evidence[:, ADDED_NATS]
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
        return discount_recent_amounts(nats, batch, counted, self.settings, self.alert_nats)

    def can_still_vote(self, batch: EventBatch, z: Floats | None = None) -> Mask:
        """Return which events (N,) have a vote, or may still get one by the rest of their interval or by an amount."""
        share = namespace(batch.level).where(batch.level >= PEER_LEVEL, self.newcomer_share, 1.0)
        z = self.score(batch) if z is None else z
        carries = (batch.evidence[DETECTOR_NAME][:, SLOPE_COLUMNS] > 0).any(axis=1)
        return (
            carries
            | autoencoder.needs_interval_context(feature_surprise(batch))
            | reaches_threshold(z, share * self.threshold)
        )

    def priority(self, batch: EventBatch) -> Floats:
        """Return the priority (N,) of pending events: the summed surprise, and the nats of newcomers and of harm.

        Without harm, thousands of calls that are hardly less strange would displace the one that does harm, and none of them
        opens an alert.
        """
        added: Floats = batch.evidence[DETECTOR_NAME][:, ADDED_NATS]
        return autoencoder.total_surprise(feature_surprise(batch)) + added

    @classmethod
    def drivers(cls, batch: EventBatch, frame: Frame, context: ExplanationContext) -> list[SurpriseDriver]:
        """Return the most surprising values of a group of events, each once."""
        return surprise_drivers(batch, frame, context)


DETECTOR = AutoencoderDetector
