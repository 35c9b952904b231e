"""The promotion gate: a new bank replaces the served one if it finds the same attacks and differs little otherwise.

Example:
    >>> decision = evaluate_promotion(trained, served, settings)
    >>> decision.passed, decision.reasons
    (False, ('it misses 69 of the 96 attacks that 2026-01-25-77aa01f2 clearly finds, more than the 10% of ...',))

The new bank is the *challenger*, the served one the *champion*. Eleven conditions:
 1. The challenger finds the known attacks, in the name of the champion's principals (`attack_injection`), that the champion
    clearly finds. Attacks near the threshold do not count: they fall to one side or the other with every training.
 2. The same holds for the attacks that analysts confirmed.
 3. For principals that both banks know, the quantiles of the losses, each bank on its own held-out days, are near each other.
 4. Most fingerprints that were ready still are: a bank from half the input is half a bank.
 5. The number of principals with a vote on a held-out day is limited. Alerts, which need a quorum, are fewer.
 6. It has learned nothing that has not happened yet.
 7. The held-out days are not nearly empty, because the other conditions rest on them.
 8. No kind of principal is voted for much more often than the settings allow, unless that is so in the champion.
 9. No learned part is broken (`part_checks`).
10. In the name of its own principals, the sequence detector sees most known attacks by the order of their calls, and the spectral
    detector most bursts of usual calls.
11. Its history does not end days before that of the champion.

A first bank has no champion: 5 to 7, 9 and 10 hold for it, and at least MIN_READY_ENTITIES of its entities must be ready.

If most principals are new to the champion (a pilot account was learned, then the organisation), its threshold was set for other
work. In 1 and 2 an attack then counts as clearly found only if it is clear by both thresholds.

In 8, a rate that was too high in the champion, or that a first bank has, is a warning and no reason against the bank. The alert
budget is kept in any case, because its threshold is set on the same held-out days with those votes, and without the new bank an
older one, or none, would be served. In 10, the same holds of a spectral detector that sees some bursts: where a fifth of all
harmless events lie in loops of hundreds of calls, a burst as large says little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Promotion, Settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.detection import detectors, ensemble
from fingerprint.detection.detectors.sequence import SequenceDetector
from fingerprint.detection.detectors.spectral import SpectralDetector
from fingerprint.registry import drift, quality, vote_rates
from fingerprint.registry.bank import GENERIC_ROW, Bank, changed_series_settings
from fingerprint.registry.drift import BankDrift
from fingerprint.sources.arrival import check_watermark
from fingerprint.training import attack_injection, part_checks
from fingerprint.training.attack_injection import MODE_COLUMN, InjectedAttacks

CLEAR_DETECTION_FACTOR = 1.25  # an attack is clearly found from so many times the threshold on
# One harmless event in a hundred has this z. It replaces a lower threshold in the judgement of what is clearly found.
RARE_Z = -NormalDist().inv_cdf(0.01)
MOSTLY_NEW_SHARE = 0.5  # of the principals with a fingerprint: if more are new, the champion is no measure
MAX_DAYS_BEHIND = 2.0  # days that a history may end before that of the champion
MIN_HOLDOUT_ROWS, MIN_HOLDOUT_SHARE = 20, 0.001  # rows, and share of events; fewer than both is nearly empty

MIN_READY_ENTITIES = 1  # of a first bank: without any, no principal is compared with its own behaviour

# Of injected chains and bursts: a detector of a sound bank sees most. Banks of 12 and 60 simulated principals see .87.
MIN_SEEN_SHARE = 0.5
# One that sees fewer than this is broken. A sound bank of an enterprise whose people run loops of hundreds of calls saw .38 of
# the bursts.
LEAST_SEEN_SHARE = {SequenceDetector.name: MIN_SEEN_SHARE, SpectralDetector.name: 0.1}
MIN_VICTIMS = 5  # principals in whose name they are injected; fewer say nothing
INJECTED_FOR_OTHERS = {
    SequenceDetector.name: "attacks by the order of their calls",
    SpectralDetector.name: "bursts of usual calls",
}
# Share of the principals that may have a vote on a day, if that is more than promotion.max_votes_per_day
MAX_VOTING_SHARE = 0.05
MIN_KIND_EVENTS = 500  # held-out events; the rate of votes on a kind of principal with fewer is not judged
# A detector may vote for so many times its vote_share of the held-out events of a kind
MAX_VOTE_SHARE_FACTOR = 2.0

SeenAttacks = Mapping[str, Mapping[str, int]]  # by detector: `victims`, `injected` and `seen` attacks
NO_CONFIRMED_ATTACKS: Mapping[str, Sequence[bytes]] = {}


@dataclass(frozen=True)
class GateDecision:
    """The gate's decision: `reasons` against the bank, none if it may be served; `figures` for the manifest.

    `figures["warnings"]` are sentences about findings that are no reason against a bank.
    """

    reasons: tuple[str, ...]
    figures: dict[str, Any]

    @property
    def passed(self) -> bool:
        """True if the bank may be served."""
        return not self.reasons

    def with_warnings(self, sentences: Sequence[str]) -> GateDecision:
        """Return the same decision with these warnings before its own."""
        return replace(self, figures={**self.figures, "warnings": [*sentences, *self.figures["warnings"]]})


def evaluate_promotion(
    challenger: Bank,
    champion: Bank | None,
    settings: Settings,
    reference: Bank | None = None,
    confirmed: Mapping[str, Sequence[bytes]] = NO_CONFIRMED_ATTACKS,
    *,
    allow_immature: bool = False,
) -> GateDecision:
    """Compare a new bank with the served one, and measure its distance from a much older `reference`.

    `confirmed` are the attacks that analysts confirmed: by alert, the records of its events.
    """
    figures: dict[str, Any] = {"against": champion.version if champion else None}
    reasons, seen = _judge_alone(challenger, settings)
    excess, warnings = _judge_vote_rates(challenger, champion, settings)
    blind, dim = _judge_seen(seen, champion, settings)
    reasons, figures = [*reasons, *excess, *blind], figures | ({"seen": seen} if seen else {})
    warnings += [*dim, *_without_reads(challenger)]
    if champion:
        found, compared = _judge_against(challenger, champion, settings, confirmed)
        reasons, figures = [*reasons, *found], figures | compared
        warnings += [*_unmeasured(challenger, champion)]
    elif not allow_immature:
        reasons += _immature(challenger)
    if reference:
        figures["reference"] = drift.compare_banks(reference, challenger).summary() | {
            "probe": _compare_on_attacks(challenger, reference, settings)
        }
    figures |= {"passed": not reasons, "reasons": reasons, "warnings": warnings}
    return GateDecision(tuple(reasons), figures)


def _judge_alone(challenger: Bank, settings: Settings) -> tuple[list[str], SeenAttacks]:
    """Return reasons of the conditions that need no other bank, (5) to (7) and (9), and what an unbroken bank sees (10)."""
    broken = list(part_checks.find_broken_parts(challenger))
    reasons = [
        *_future_dated(challenger),
        *_empty_holdout(challenger),
        *_excess_votes(challenger, settings.promotion),
        *broken,
    ]
    return reasons, {} if broken else _injected_for_others(challenger, settings)


def _judge_vote_rates(
    challenger: Bank, champion: Bank | None, settings: Settings
) -> tuple[list[str], list[str]]:
    """Return reasons and warnings of condition 8: a rate is a warning if the champion has it as well, or without a champion."""
    excess = _excess_vote_rates(challenger, settings)
    known = _excess_vote_rates(champion, settings, sure=False) if champion else excess
    return (
        [sentence for which, sentence in excess.items() if which not in known],
        [sentence for which, sentence in excess.items() if which in known],
    )


def _judge_seen(seen: SeenAttacks, champion: Bank | None, settings: Settings) -> tuple[list[str], list[str]]:
    """Return reasons and warnings of condition 10: few are a reason if the champion sees most, hardly any in any case."""
    few = {name: each for name, each in seen.items() if _seen_share(each) < MIN_SEEN_SHARE}
    before = _injected_for_others(champion, settings) if champion and few else {}
    reasons, warnings = [], []
    for name, each in few.items():
        sentence = (
            f"the {name} detector sees {each['seen']:,} of {each['injected']:,} injected {INJECTED_FOR_OTHERS[name]}, "
            f"fewer than {MIN_SEEN_SHARE:.0%}: "
        )
        champion_sees_most = name in before and _seen_share(before[name]) >= MIN_SEEN_SHARE
        if champion_sees_most or _seen_share(each) < LEAST_SEEN_SHARE[name]:
            reasons.append(f"{sentence}what it learned is broken, or far from usual")
        else:
            warnings.append(f"{sentence}as much is usual here, so its votes say less")
    return reasons, warnings


def _judge_against(
    challenger: Bank, champion: Bank, settings: Settings, confirmed: Mapping[str, Sequence[bytes]]
) -> tuple[list[str], dict[str, Any]]:
    """Return reasons and figures of the conditions that compare with the served bank: (1) to (4), and (11)."""
    moved = drift.compare_banks(champion, challenger)
    figures = {"probe": _compare_on_attacks(challenger, champion, settings), "drift": moved.summary()}
    reasons = [*_missed_attacks(figures["probe"], champion, settings.promotion)]
    if happened := attack_injection.inject_confirmed_attacks(champion, confirmed, settings):
        figures["confirmed"] = _compare_on_attacks(challenger, champion, settings, happened)
        which = "attacks that analysts confirmed and"
        reasons += _missed_attacks(figures["confirmed"], champion, settings.promotion, which)
    reasons += _shifted_losses(challenger, champion, settings.promotion)
    changed = changed_series_settings(champion, challenger)
    reasons += _lost_fingerprints(moved, settings.promotion, changed)
    reasons += _older_history(challenger, champion)
    return reasons, figures


def _compare_on_attacks(
    challenger: Bank, champion: Bank, settings: Settings, attacks: InjectedAttacks | None = None
) -> dict[str, Any]:
    """Return how many of the same attacks each bank finds, and how many the challenger misses that the champion clearly finds.

    Each bank is measured by its own threshold of alerts: a threshold that is too high makes a bank blind. Without `attacks`,
    known attacks are injected.
    """
    attacks = attacks or attack_injection.inject_known_attacks(champion, settings)
    banks = champion, challenger
    then, now = (attack_injection.attack_scores(bank, attacks) for bank in banks)
    before, after = (quality.alert_threshold(bank.manifest["quality"], settings.alerts) for bank in banks)
    least = max(before, after) if _is_mostly_new(challenger, champion) else before
    clear = then >= CLEAR_DETECTION_FACTOR * max(least, RARE_Z)
    return {
        "before": attack_injection.summarise_attacks(attacks, then >= before),
        "now": attack_injection.summarise_attacks(attacks, now >= after),
        "clear": int(clear.sum()),
        "missed": int((clear & ~(now >= after)).sum()),
    }


def _missed_attacks(
    comparison: dict[str, Any], champion: Bank, options: Promotion, which: str = "attacks that"
) -> Iterator[str]:
    if comparison["missed"] > options.max_missed_share * comparison["clear"]:
        yield (
            f"it misses {comparison['missed']:,} of the {comparison['clear']:,} {which} {champion.version} clearly finds, "
            f"more than the {options.max_missed_share:.0%} of the setting promotion.max_missed_share"
        )


def _injected_for_others(challenger: Bank, settings: Settings) -> SeenAttacks:
    """Return `victims`, `injected` and `seen` attacks of the sequence and the spectral detector, if they are listed.

    An attack is seen if its z would be a second vote (`ensemble.SECOND_VOTE_THRESHOLD`), whatever share of votes is set.
    """
    known = attack_injection.inject_known_attacks(challenger, settings)
    burst = attack_injection.burst_scores(challenger, settings)
    burst = burst[~np.isnan(burst)]
    found = {
        SequenceDetector.name: (
            len(np.unique(known.principal)),
            attack_injection.chain_scores(challenger, known),
        ),
        SpectralDetector.name: (len(burst), burst),
    }
    return {
        name: {
            "victims": victims,
            "injected": len(z),
            "seen": int((z >= ensemble.SECOND_VOTE_THRESHOLD).sum()),
        }
        for name, (victims, z) in found.items()
        if name in detectors.detector_names(settings)
    }


def _seen_share(seen: Mapping[str, int]) -> float:
    """Return the share of injected attacks that a detector sees; NaN for fewer than MIN_VICTIMS principals, who say nothing."""
    return seen["seen"] / seen["injected"] if seen["victims"] >= MIN_VICTIMS else math.nan


def _shifted_losses(challenger: Bank, champion: Bank, options: Promotion) -> Iterator[str]:
    """Yield a reason for each quantile of the losses that moved too far, for principals that both banks know."""
    if (losses := _losses_of_known(challenger, champion)) is None:
        return
    now, then = losses
    for name in now:
        moved = abs(now[name] / max(then[name], 1.0) - 1)
        if not moved <= options.max_loss_shift:
            yield (
                f"the {float(name):.0%} quantile of its losses went from {then[name]:.1f} to {now[name]:.1f} nats, "
                f"of principals that {champion.version} knows, "
                f"by more than the {options.max_loss_shift:.0%} of the setting promotion.max_loss_shift"
            )


def _losses_of_known(challenger: Bank, champion: Bank) -> tuple[dict[str, float], dict[str, float]] | None:
    """Return the quantiles of held-out losses in either bank, for principals that both hold out; None for too few rows."""
    both = [bank.scorer_state for bank in (challenger, champion)]
    if not all("holdout.loss" in arrays for arrays in both):  # a bank of an earlier release
        return None
    known = np.intersect1d(both[0]["holdout.principal"], both[1]["holdout.principal"])
    quantiles = []
    for arrays in both:
        at = np.isin(arrays["holdout.principal"], known)
        loss, weight = arrays["holdout.loss"][at], arrays["holdout.weight"][at].astype(np.float64)
        if weight.sum() < MIN_HOLDOUT_ROWS:
            return None
        quantiles.append(quality.named_quantiles(loss, weight=weight))
    return quantiles[0], quantiles[1]


def _without_reads(challenger: Bank) -> Iterator[str]:
    """Yield a warning if the history has no read: its trail records only changes, and most attacks begin with reads."""
    learned = challenger.value_texts(challenger.vocabulary.codes[GENERIC_ROW, MODE_COLUMN])
    if "write" in learned and "read" not in learned:
        yield (
            "the history has changes and not one read: enumeration, and reading what is stolen, is not in such a log "
            "(a trail's setting WriteOnly); record reads, too"
        )


def _unmeasured(challenger: Bank, champion: Bank) -> Iterator[str]:
    """Yield a warning for each comparison that the champion is no measure for."""
    if _is_mostly_new(challenger, champion):
        known = _known_before(challenger, champion)
        yield (
            f"{(~known).sum():,} of its {len(known):,} principals with a fingerprint are new to {champion.version}, "
            "which is no measure of them: look at the first alerts of the new bank"
        )
    if _losses_of_known(challenger, champion) is None:
        yield f"its losses are not compared with those of {champion.version}, which has hardly any of principals that both know"


def _is_mostly_new(challenger: Bank, champion: Bank) -> bool:
    known = _known_before(challenger, champion)
    return bool(known.sum() < (1 - MOSTLY_NEW_SHARE) * len(known))


def _known_before(challenger: Bank, champion: Bank) -> NDArray[np.bool_]:
    """Return for the principals with a fingerprint of their own (P,) whether the champion's history has them."""
    table = challenger.fingerprints
    own = table.loc[(table["level"] == 1) & table["ready"], "hash"]
    known: NDArray[np.bool_] = own.isin(champion.people["hash"]).to_numpy()
    return known


def _lost_fingerprints(moved: BankDrift, options: Promotion, changed: Sequence[str]) -> Iterator[str]:
    """Yield a reason if too many fingerprints are lost; `changed` are settings that change the fingerprints themselves."""
    if moved.lost_share > options.max_lost_fingerprints:
        cause = f"{', '.join(changed)}; serve it by force if you changed that" if changed else ""
        yield (
            f"{moved.lost_share:.0%} of the fingerprints that were ready in {moved.older} are not any more, "
            f"more than the {options.max_lost_fingerprints:.0%} of the setting promotion.max_lost_fingerprints: "
            f"{cause or 'is some of the history missing?'}"
        )


def _older_history(challenger: Bank, champion: Bank) -> Iterator[str]:
    """Yield a reason if the history ends days before that of the champion: its input stopped, or is an old copy."""
    behind = (champion.manifest["watermark"] - challenger.manifest["watermark"]) / DAY_SECONDS
    if behind > MAX_DAYS_BEHIND:
        yield (
            f"its history ends {behind:.1f} days before that of {champion.version}, "
            f"more than the {MAX_DAYS_BEHIND:g} that are allowed: are its newest records missing?"
        )


def _immature(challenger: Bank) -> Iterator[str]:
    """Yield a reason if a first bank, without a champion, has too few entities with enough history of their own."""
    ready = challenger.manifest["ready"]["entity"]
    if ready < MIN_READY_ENTITIES:
        begin, end = challenger.manifest["span"]
        yield (
            f"no entity is ready after {challenger.manifest['events']:,} events from {begin[:16]} to {end[:16]} UTC: "
            "train on more days, some weeks are best, or pass --allow-immature"
        )


def _future_dated(challenger: Bank) -> Iterator[str]:
    """Yield a reason if the history ends in the future: all events until then would be ignored."""
    try:
        remedy = "find the records that are dated in the future, or set the clock"
        check_watermark("its history", int(challenger.manifest["watermark"]), remedy)
    except FingerprintError as error:
        yield str(error)


def _empty_holdout(challenger: Bank) -> Iterator[str]:
    """Yield a reason if the held-out days are nearly empty, and so say nothing about the bank.

    A few records with a date after all others make such days.
    """
    rows, events = challenger.manifest["quality"]["rows"], challenger.manifest["events"]
    if rows < min(MIN_HOLDOUT_ROWS, int(MIN_HOLDOUT_SHARE * events)):
        yield (
            f"its held-out days have {rows:,} rows of {events:,} events: its history does not end where its activity does, "
            f"look at its span (`fingerprint bank show`)"
        )


def _excess_votes(challenger: Bank, options: Promotion) -> Iterator[str]:
    quality = challenger.manifest["quality"]
    votes, most = quality["votes_per_day"], options.max_votes_per_day
    if votes > max(most, MAX_VOTING_SHARE * quality["principals"]):
        yield (
            f"{votes:,.1f} principals a day have a vote in its held-out history, more than {MAX_VOTING_SHARE:.0%} of them, "
            f"and more than the {most:,.0f} of the setting promotion.max_votes_per_day"
        )


def _excess_vote_rates(bank: Bank, settings: Settings, *, sure: bool = True) -> dict[tuple[str, str], str]:
    """Return a sentence for each detector and kind of principal with votes on more held-out events than the settings allow.

    With `sure`, only if there are enough events and chance does not explain the rate.
    """
    out = {}
    for detector in detectors.listed_detectors(settings):
        share = detector.vote_share_from(settings)
        for kind, rate in bank.manifest["quality"]["vote_rates"].get(detector.name, {}).items():
            least = vote_rates.least_share(rate) if sure else rate["share"]
            enough = rate["events"] >= MIN_KIND_EVENTS or not sure
            if share is not None and enough and least > MAX_VOTE_SHARE_FACTOR * share:
                out[detector.name, kind] = (
                    f"the {detector.name} detector votes for {rate['share']:.0%} of the {rate['events']:,} held-out events of "
                    f"principals of kind {kind}, more than {MAX_VOTE_SHARE_FACTOR:g} times the {share:.0%} of its vote_share"
                )
    return out
