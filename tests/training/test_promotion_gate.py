"""What a new bank has to show before it replaces the one that is served."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.core.settings import Alerts, Autoencoder, Entities, Promotion, Settings
from fingerprint.features import encoding
from fingerprint.registry import bank as banks
from fingerprint.registry import bank_files, drift, quality
from fingerprint.registry.bank import Bank
from fingerprint.sources.active import SOURCE
from fingerprint.training import attack_injection, part_checks, promotion_gate
from pipelines.cli.console import no_progress
from pipelines.train import train_bank
from tests.support.sample_organisation import SETTINGS, SampleOrganisation, simulated


@pytest.fixture(scope="module")
def champion(organisation: SampleOrganisation) -> Bank:
    return bank_files.open_bank(organisation.bank)


def learn(sources: list[str], folder: Path, settings: Settings = SETTINGS) -> Bank:
    train_bank(sources, folder, settings, no_progress)
    return bank_files.open_bank(folder)


@pytest.fixture(scope="module")
def later(organisation: SampleOrganisation, tmp_path_factory: pytest.TempPathFactory) -> Bank:
    """Two quiet days fewer at either end: another history of the same people."""
    return learn(organisation.learned[1:8], tmp_path_factory.mktemp("later"))


@pytest.fixture(scope="module")
def poisoned(organisation: SampleOrganisation, tmp_path_factory: pytest.TempPathFactory) -> Bank:
    """Its history holds attacks on most of the organisation, as if they were habits."""
    folder = tmp_path_factory.mktemp("poisoned")
    records = simulated(folder / "records", attacks=9)
    return learn(records, folder / "bank")


def with_gate(**options: float) -> Settings:
    return SETTINGS.model_copy(update={"promotion": Promotion(**options)})


def with_quality(bank: Bank, **figures: object) -> Bank:
    return replace(bank, manifest={**bank.manifest, "quality": {**bank.manifest["quality"], **figures}})


# --- the gate -------------------------------------------------------------------------------------------------------


def test_another_history_of_the_same_people_passes(champion: Bank, later: Bank) -> None:
    word = promotion_gate.evaluate_promotion(later, champion, SETTINGS)
    assert word.passed, word.reasons
    assert word.figures["probe"]["now"]["found"] > 100
    assert word.figures["drift"]["against"] == champion.version


def test_a_bank_that_learned_the_attacks_finds_nothing_any_more_and_is_kept_back(
    champion: Bank, poisoned: Bank
) -> None:
    word = promotion_gate.evaluate_promotion(poisoned, champion, SETTINGS)
    assert not word.passed
    assert "clearly finds" in word.reasons[0]
    assert word.figures["probe"]["missed"] > 0.4 * word.figures["probe"]["clear"] > 10


def test_a_bank_is_as_good_as_itself(champion: Bank) -> None:
    word = promotion_gate.evaluate_promotion(champion, champion, SETTINGS)
    assert word.passed
    assert word.figures["probe"]["missed"] == 0
    assert set(word.figures["drift"]["quantiles"].values()) == {0.0}


def test_a_first_bank_is_held_to_the_budget_of_votes_alone(champion: Bank) -> None:
    assert promotion_gate.evaluate_promotion(champion, None, SETTINGS).passed
    loud = with_quality(champion, votes_per_day=301.0)
    assert "promotion.max_votes_per_day" in promotion_gate.evaluate_promotion(loud, None, SETTINGS).reasons[0]
    assert promotion_gate.evaluate_promotion(loud, None, with_gate(max_votes_per_day=302)).passed
    large = with_quality(champion, votes_per_day=990.0, principals=20_000)
    assert promotion_gate.evaluate_promotion(large, None, SETTINGS).passed, "a twentieth of its principals"


@pytest.mark.parametrize(("times", "passes"), [(1.4, True), (1.6, False), (0.6, True), (0.4, False)])
def test_losses_may_move_so_far_and_no_further(champion: Bank, times: float, passes: bool) -> None:
    moved = with_array(champion, "holdout.loss", lambda loss: times * loss)
    word = promotion_gate.evaluate_promotion(moved, champion, SETTINGS)
    assert word.passed is passes
    assert passes or len(word.reasons) == 3
    assert all("promotion.max_loss_shift" in reason for reason in word.reasons)


@pytest.mark.parametrize(("above", "quantiles"), [("0.5", ["90%", "99%"]), ("0.9", ["99%"])])
def test_a_part_of_the_losses_that_moved_keeps_a_bank_back(
    champion: Bank, above: str, quantiles: list[str]
) -> None:
    edge = 1.05 * champion.manifest["quality"]["loss"][above]
    moved = with_array(champion, "holdout.loss", lambda loss: np.where(loss > edge, 2 * loss, loss))
    word = promotion_gate.evaluate_promotion(moved, champion, SETTINGS)
    assert [reason.split()[1] for reason in word.reasons] == quantiles


def test_the_losses_that_a_bank_keeps_have_the_quantiles_of_all(champion: Bank) -> None:
    kept = {name: champion.scorer_state[f"holdout.{name}"] for name in ("principal", "loss", "weight")}
    figures = champion.manifest["quality"]
    assert np.unique(kept["principal"], return_counts=True)[1].max() <= quality.LOSSES_PER_PRINCIPAL
    assert kept["weight"].sum() == pytest.approx(figures["rows"], rel=1e-3)
    quantiles = quality.named_quantiles(kept["loss"], weight=kept["weight"].astype(float))
    assert quantiles == pytest.approx(figures["loss"], rel=0.05)


def test_a_bank_of_half_the_input_is_kept_back_for_those_it_lost(champion: Bank) -> None:
    stack = champion.fingerprints.copy()
    ready = stack.index[stack["ready"]]
    stack.loc[ready[np.arange(len(ready)) % 3 > 0], "ready"] = False
    word = promotion_gate.evaluate_promotion(replace(champion, fingerprints=stack), champion, SETTINGS)
    (reason,) = (each for each in word.reasons if "promotion.max_lost_fingerprints" in each)
    assert reason.endswith("is some of the history missing?")


def test_where_a_setting_made_other_fingerprints_the_reason_names_it(champion: Bank) -> None:
    """Else it would send people to look for records: the same training is refused again and again."""
    learned = champion.manifest["settings"]
    entities = {**learned["entities"], "granularity": "principal"}
    stack = champion.fingerprints.assign(ready=champion.fingerprints["level"] > 0)
    other = replace(
        champion,
        fingerprints=stack,
        manifest={**champion.manifest, "settings": {**learned, "entities": entities}},
    )
    word = promotion_gate.evaluate_promotion(other, champion, with_gate(max_lost_fingerprints=0.01))
    (reason,) = (each for each in word.reasons if "promotion.max_lost_fingerprints" in each)
    assert "entities.granularity was 'principal_service' and is 'principal'; serve it by force" in reason
    assert "missing" not in reason


@pytest.mark.parametrize(("days", "passes"), [(-9.0, True), (1.9, True), (2.1, False)])
def test_a_bank_whose_history_ends_days_before_that_of_the_served_one_is_kept_back(
    champion: Bank, days: float, passes: bool
) -> None:
    """A training that was broken off and resumed days later is sound, and would replace a newer bank."""
    end = champion.manifest["watermark"] - int(days * 86400)
    older = replace(champion, manifest={**champion.manifest, "watermark": end})
    word = promotion_gate.evaluate_promotion(older, champion, SETTINGS)
    assert word.passed is passes
    assert passes or word.reasons[0].startswith(
        f"its history ends 2.1 days before that of {champion.version}"
    )
    assert promotion_gate.evaluate_promotion(older, None, SETTINGS).passed


def with_rate(bank: Bank, detector: str, **rate: float) -> Bank:
    rates = bank.manifest["quality"]["vote_rates"]
    return with_quality(bank, vote_rates={**rates, detector: {**rates[detector], "person": rate}})


OFTEN = {"events": 5000, "days": 60.0, "share": 0.4}


@pytest.mark.parametrize("detector", ["spectral", "sequence"])
def test_a_kind_that_is_voted_for_much_more_than_before_keeps_a_bank_back(
    champion: Bank, detector: str
) -> None:
    loud, calm = (with_rate(champion, detector, **{**OFTEN, "share": share}) for share in (0.4, 0.04))
    word = promotion_gate.evaluate_promotion(loud, calm, SETTINGS)
    assert not word.passed
    assert (
        f"the {detector} detector votes for 40% of the 5,000 held-out events of principals of kind person"
        in (word.reasons[0])
    )
    more = getattr(SETTINGS, detector).model_copy(update={"vote_share": 0.2})
    generous = SETTINGS.model_copy(update={detector: more})
    assert promotion_gate.evaluate_promotion(loud, calm, generous).passed


@pytest.mark.parametrize("before", ["none", "as bad"])
def test_a_kind_that_was_voted_for_as_often_is_a_warning(champion: Bank, before: str) -> None:
    loud = with_rate(champion, "sequence", **OFTEN)
    word = promotion_gate.evaluate_promotion(loud, None if before == "none" else loud, SETTINGS)
    assert word.passed
    assert any("sequence detector votes for 40%" in sentence for sentence in word.figures["warnings"])


@pytest.mark.parametrize("rate", [{"events": 499}, {"days": 2.0}, {"share": 0.1}])
def test_few_events_or_days_or_a_small_excess_say_nothing(champion: Bank, rate: dict[str, float]) -> None:
    word = promotion_gate.evaluate_promotion(
        with_rate(champion, "sequence", **{**OFTEN, **rate}), champion, SETTINGS
    )
    assert word.passed
    assert not any("kind person" in sentence for sentence in word.figures["warnings"])


def test_a_detector_whose_threshold_is_set_has_no_share_to_keep(champion: Bank) -> None:
    """The autoencoder's is, in the settings of these tests."""
    assert promotion_gate.evaluate_promotion(
        with_rate(champion, "autoencoder", **OFTEN), champion, SETTINGS
    ).passed


def test_every_reason_is_given_not_only_the_first(champion: Bank, poisoned: Bank) -> None:
    strange = with_array(poisoned, "holdout.loss", lambda loss: 3 * loss)
    loud = with_quality(strange, votes_per_day=1e6)
    reasons = " ".join(promotion_gate.evaluate_promotion(loud, champion, SETTINGS).reasons)
    assert all(
        f"promotion.{name}" in reasons for name in ("max_missed_share", "max_loss_shift", "max_votes_per_day")
    )


def test_how_far_it_came_from_a_bank_of_long_ago_is_reported(
    champion: Bank, later: Bank, poisoned: Bank
) -> None:
    word = promotion_gate.evaluate_promotion(poisoned, poisoned, SETTINGS, reference=champion)
    assert word.figures["reference"]["against"] == champion.version
    assert word.figures["reference"]["quantiles"]["0.99"] > word.figures["drift"]["quantiles"]["0.99"]
    assert "reference" not in promotion_gate.evaluate_promotion(later, champion, SETTINGS).figures


def test_a_bank_whose_own_threshold_is_above_the_attacks_is_kept_back(champion: Bank) -> None:
    """Its held-out days had an outage, say: sixty loud alerts, and a budget that lets in few of them."""
    alerts = champion.manifest["quality"]["alerts"]
    blind = with_quality(champion, alerts=[z + 3 for z in alerts[:60]] + alerts[60:])
    by_budget = SETTINGS.model_copy(update={"alerts": Alerts()})
    assert quality.alert_threshold(blind.manifest["quality"], by_budget.alerts) > 4
    word = promotion_gate.evaluate_promotion(blind, champion, by_budget)
    assert "promotion.max_missed_share" in word.reasons[0]
    assert word.figures["probe"]["now"]["found"] < word.figures["probe"]["before"]["found"]


def test_a_history_of_changes_alone_is_a_warning(champion: Bank) -> None:
    codes, mode = champion.vocabulary.codes.copy(), attack_injection.MODE_COLUMN
    reads = np.array([text == "read" for text in champion.value_texts(codes[0, mode])])
    assert reads.sum() == 1
    codes[0, mode, reads] = 0
    of_changes = replace(champion, vocabulary=replace(champion.vocabulary, codes=codes))
    for bank, warned in ((champion, False), (of_changes, True)):
        word = promotion_gate.evaluate_promotion(bank, None, SETTINGS)
        assert word.passed
        assert any("not one read" in sentence for sentence in word.figures["warnings"]) == warned


# --- a served bank that knows few of the principals -------------------------------------------------------------------


def pilot_of(bank: Bank, principals: int, **figures: object) -> Bank:
    """Return what a bank would be that had learned some of its principals alone: those with most held-out rows."""
    ready = bank.fingerprints["ready"].to_numpy() & (bank.fingerprints["level"].to_numpy() == 1)
    held = pd.Series(bank.scorer_state["holdout.principal"])
    most = held[held.isin(bank.fingerprints["hash"][ready])].value_counts().index[:principals].to_numpy()
    at = np.isin(bank.scorer_state["holdout.principal"], most)
    arrays = {name: bank.scorer_state[f"holdout.{name}"][at] for name in ("principal", "loss", "weight")}
    table, level = bank.fingerprints, bank.fingerprints["level"]
    above = table["hash"].to_numpy()[table["parent"]]
    theirs = (level > 1) | table["hash"].isin(most) | ((level == 0) & np.isin(above, most))
    return replace(
        with_quality(bank, **figures),
        fingerprints=table.assign(ready=table["ready"] & theirs),
        people=bank.people[bank.people["hash"].isin(most)].reset_index(drop=True),
        scorer_state=bank.scorer_state | {f"holdout.{name}": array for name, array in arrays.items()},
    )


def test_a_bank_of_the_organisation_replaces_one_of_a_pilot_account_that_had_a_low_threshold(
    champion: Bank,
) -> None:
    """Three machines that do the same every hour have small losses, and alerts that are hardly unusual."""
    by_budget = SETTINGS.model_copy(update={"alerts": Alerts()})
    low = {name: loss / 4 for name, loss in champion.manifest["quality"]["loss"].items()}
    pilot = pilot_of(champion, 3, loss=low, alerts=[0.9] * 60)
    before, after = (
        quality.alert_threshold(bank.manifest["quality"], by_budget.alerts) for bank in (pilot, champion)
    )
    assert promotion_gate.CLEAR_DETECTION_FACTOR * before < after, "what one finds clearly the other does not"
    word = promotion_gate.evaluate_promotion(champion, pilot, by_budget)
    assert word.passed, word.reasons
    assert any(
        f"principals with a fingerprint are new to {pilot.version}" in warning
        for warning in word.figures["warnings"]
    )


def test_what_a_low_threshold_lets_in_is_not_clearly_found(champion: Bank) -> None:
    by_budget = SETTINGS.model_copy(update={"alerts": Alerts()})
    low = with_quality(champion, alerts=[0.9] * 60)
    z = attack_injection.attack_scores(low, attack_injection.inject_known_attacks(low, by_budget))
    rare = promotion_gate.CLEAR_DETECTION_FACTOR * promotion_gate.RARE_Z
    probe = promotion_gate.evaluate_promotion(champion, low, by_budget).figures["probe"]
    assert probe["clear"] == (z >= rare).sum() < probe["before"]["found"]


def test_a_pilot_account_still_measures_what_is_found_of_its_own_principals(champion: Bank) -> None:
    pilot = pilot_of(champion, 3)
    calm = replace(
        champion, baseline=replace(champion.baseline, slope=champion.baseline.slope * np.float32(100))
    )
    loud = with_array(champion, "holdout.loss", lambda loss: 3 * loss)
    for bank, limit in ((calm, "max_missed_share"), (loud, "max_loss_shift")):
        word = promotion_gate.evaluate_promotion(bank, pilot, SETTINGS)
        assert any(f"promotion.{limit}" in reason for reason in word.reasons), limit


@pytest.mark.parametrize("known", ["no one", "an earlier release"])
def test_where_no_principal_is_known_to_both_losses_are_not_compared_and_that_is_said(
    champion: Bank, known: str
) -> None:
    strange = with_array(champion, "holdout.loss", lambda loss: 9 * loss)
    if known == "no one":
        before = with_array(champion, "holdout.principal", lambda principal: principal + np.uint64(1))
    else:
        kept = {name: array for name, array in champion.scorer_state.items() if "holdout." not in name}
        before = replace(champion, scorer_state=kept)
    word = promotion_gate.evaluate_promotion(strange, before, SETTINGS)
    assert word.passed, word.reasons
    assert any("its losses are not compared" in warning for warning in word.figures["warnings"])


def test_only_what_was_found_clearly_counts_as_missed(
    champion: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bank that finds everything a little less: the edge falls off, the rest stays."""
    baseline = replace(champion.baseline, slope=champion.baseline.slope * np.float32(1.4))
    weaker = replace(champion, baseline=baseline)
    assert promotion_gate.evaluate_promotion(weaker, champion, SETTINGS).figures["probe"]["missed"] == 0
    monkeypatch.setattr(promotion_gate, "CLEAR_DETECTION_FACTOR", 1.0)
    strict = promotion_gate.evaluate_promotion(weaker, champion, with_gate(max_missed_share=0.0))
    assert strict.figures["probe"]["missed"] > 0
    assert "promotion.max_missed_share" in strict.reasons[0]


# --- parts that are broken ----------------------------------------------------------------------------------------------


def with_array(bank: Bank, name: str, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Bank:
    """Return a bank in which one array of its parts or of its scorer state is another."""
    part, _, field = name.partition(".")
    if part in banks.ARRAY_PARTS:
        whole = getattr(bank, part)
        return replace(bank, **{part: replace(whole, **{field: change(np.array(getattr(whole, field)))})})
    return replace(bank, scorer_state={**bank.scorer_state, name: change(np.array(bank.scorer_state[name]))})


def first_is(value: float) -> Callable[[NDArray[Any]], NDArray[Any]]:
    def change(array: NDArray[Any]) -> NDArray[Any]:
        array.flat[0] = value
        return array

    return change


def backwards(array: NDArray[Any]) -> NDArray[Any]:
    return array[..., ::-1].copy()


BROKEN = [
    ("vocabulary.logp", first_is(np.nan), "its vocabulary holds numbers that are not finite"),
    ("vocabulary.escape", first_is(np.nan), "its vocabulary holds numbers that are not finite"),
    ("vocabulary.base", first_is(-np.inf), "its vocabulary holds numbers that are not finite"),
    ("vocabulary.keys", backwards, "its vocabulary holds numbers that are not finite, or is not in order"),
    ("weights.inputs", first_is(np.nan), "its networks hold numbers that are not finite"),
    ("weights.bias", first_is(np.inf), "its networks hold numbers that are not finite"),
    ("weights.outputs", first_is(np.nan), "its networks hold numbers that are not finite"),
    ("baseline.center", first_is(np.nan), "its usual losses are not finite"),
    ("baseline.rate", first_is(np.nan), "its usual losses are not finite"),
    ("baseline.edge", first_is(np.nan), "its usual losses are not finite"),
    ("baseline.slope", first_is(0), "its usual losses are not finite, or their tail is no tail"),
    ("baseline.interval_tail", first_is(np.nan), "its usual losses are not finite"),
    ("baseline.newcomer", first_is(np.inf), "its usual losses are not finite"),
    ("surge.tail", first_is(np.nan), "surge tails hold numbers that are not finite"),
    ("surge.channel", first_is(np.inf), "surge tails hold numbers that are not finite"),
    ("surge.tail", backwards, "surge tails grow"),
    ("surge.channel", backwards, "surge tails grow"),
    ("surge.tail", lambda tail: 0 * tail, "surge tails are flat"),
    ("surge.channel", lambda tail: 0 * tail, "surge tails are flat"),
    ("surge.key", backwards, "surge tails are not in the order"),
    ("surge.kind_of", first_is(99), "surge tails are not in the order"),
    ("newcomer.tail", first_is(np.nan), "tails of newcomers hold numbers that are not finite"),
    ("newcomer.channel", backwards, "tails of newcomers grow"),
    ("newcomer.tail", lambda tail: 0 * tail, "tails of newcomers are flat"),
    ("burst.usual", first_is(np.nan), "usual bursts"),
    ("burst.key", backwards, "usual bursts"),
    ("burst.usual", lambda usual: 1e6 * usual, "the spectral detector sees 0 of"),
    ("amount.usual", first_is(0), "usual amounts"),
    ("amount.usual_a_day", first_is(0), "usual amounts"),
    ("amount.most", first_is(np.nan), "usual amounts"),
    ("amount.most_a_day", first_is(np.nan), "usual amounts"),
    ("amount.key", backwards, "usual amounts"),
    ("amount.tail", first_is(np.nan), "tail of its amounts is no tail"),
    ("amount.tail", lambda tail: 0 * tail, "tail of its amounts is no tail"),
    ("amount.tail", lambda tail: 100 * tail, "tail of its amounts is flat"),
    ("load.key", backwards, "usual actions of its principals"),
    ("load.log_usual", first_is(np.nan), "usual actions of its principals"),
    ("load.log_usual", first_is(np.inf), "usual actions of its principals"),
    ("opener.pair", backwards, "openers of its roles are not in order"),
    ("opener.role", backwards, "openers of its roles are not in order"),
    ("opener.nats", first_is(np.nan), "no finite number of nats"),
    ("opener.nats", lambda nats: nats - 100, "no finite number of nats"),
    ("transitions.keys", backwards, "transitions are not in order"),
    ("transitions.kinds", backwards, "transitions are not in order"),
    ("transitions.count", first_is(np.nan), "counts that are not above zero"),
    ("transitions.count", lambda count: 0 * count, "counts that are not above zero"),
    ("transitions.keys", lambda keys: np.arange(1, len(keys) + 1, dtype=np.uint64), "lack the counts"),
    ("transitions.tail", first_is(np.nan), "a tail that is not finite"),
    ("transitions.tail", backwards, "tails of its transitions grow"),
    ("transitions.tail", lambda tail: 0 * tail + 1, "tails of its transitions are flat"),
]


@pytest.mark.filterwarnings("ignore:invalid value")  # it has to cope with what is no number
@pytest.mark.parametrize(("array", "change", "sentence"), BROKEN)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_bank_with_a_broken_part_is_kept_back(
    champion: Bank,
    array: str,
    change: Callable[[NDArray[Any]], NDArray[Any]],
    sentence: str,
    is_first: bool,
) -> None:
    broken = with_array(champion, array, change)
    word = promotion_gate.evaluate_promotion(broken, None if is_first else champion, SETTINGS)
    assert not word.passed
    assert any(sentence in reason for reason in word.reasons), word.reasons


@pytest.mark.parametrize(
    ("keys", "nats", "sentence"),
    [
        ([1, 2], [3, 4], ""),
        ([2, 1], [3, 4], "actions that services called for its principals are not in order"),
        ([1, 2], [3, np.nan], "a direct call of what services called is worth no finite"),
        ([1, 2], [3, -1], "a direct call of what services called is worth no finite"),
    ],
)
def test_broken_call_paths_keep_a_bank_back(
    champion: Bank, keys: list[int], nats: list[float], sentence: str
) -> None:
    paths = {"path.key": np.array(keys, np.uint64), "path.nats": np.array(nats, np.float32)}
    paths |= {"path.days": np.ones(2, np.float32), "path.service": np.ones(2, np.uint64)}
    broken = replace(champion, scorer_state={**champion.scorer_state, **paths})
    word = promotion_gate.evaluate_promotion(broken, champion, SETTINGS)
    assert word.passed == (not sentence)
    assert any(sentence in reason for reason in word.reasons) == bool(sentence), word.reasons


@pytest.mark.parametrize(
    ("keys", "nats", "sentence"),
    [
        ([1, 2], [3, 4], ""),
        ([2, 1], [3, 4], "the networks of its settled machines are not in order"),
        ([1, 2], [3, np.nan], "another network of its settled machines is worth no finite"),
        ([1, 2], [3, -1], "another network of its settled machines is worth no finite"),
    ],
)
def test_broken_networks_of_settled_machines_keep_a_bank_back(
    champion: Bank, keys: list[int], nats: list[float], sentence: str
) -> None:
    hashes, worth = np.array(keys, np.uint64), np.array(nats, np.float32)
    moves = dict.fromkeys(("move.principal", "move.key", "move.network", "move.everyones"), hashes)
    moves |= dict.fromkeys(("move.new", "move.shared", "move.days", "move.behind"), worth)
    broken = replace(champion, scorer_state={**champion.scorer_state, **moves})
    word = promotion_gate.evaluate_promotion(broken, champion, SETTINGS)
    assert word.passed == (not sentence)
    assert any(sentence in reason for reason in word.reasons) == bool(sentence), word.reasons


@pytest.mark.parametrize(
    "figures", [{"votes_per_day": np.nan}, {"loss": {"0.5": np.inf}}, {"alerts": [np.nan]}]
)
def test_a_bank_with_a_figure_that_is_not_finite_is_kept_back(
    champion: Bank, figures: dict[str, object]
) -> None:
    """It is below any limit."""
    word = promotion_gate.evaluate_promotion(with_quality(champion, **figures), champion, SETTINGS)
    assert "the figures of its held-out days are not finite" in word.reasons


@pytest.mark.filterwarnings("ignore:invalid value")
def test_an_attack_whose_score_is_no_number_is_missed(
    champion: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_checks, "find_broken_parts", lambda bank: iter(()))
    silent = with_array(champion, "baseline.rate", lambda rate: np.nan * rate)
    word = promotion_gate.evaluate_promotion(silent, champion, SETTINGS)
    assert word.figures["probe"]["missed"] == word.figures["probe"]["clear"] > 0
    assert "promotion.max_missed_share" in word.reasons[0]


def test_the_heavy_tail_of_amounts_of_an_organisation_of_loops_is_none_that_is_broken(champion: Bank) -> None:
    """Its people run loops of thousands of calls on half of their days: measured in a simulator of another author."""
    heavy = np.array([[-0.85, 1.13], [-0.59, 0.92], [-0.09, 0.48]])
    bank = with_array(champion, "amount.tail", lambda tail: heavy)
    assert promotion_gate.evaluate_promotion(bank, None, SETTINGS).passed


def test_large_parts_are_looked_at_piece_by_piece(champion: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_checks, "CHUNK_NUMBERS", 1000)
    assert list(part_checks.find_broken_parts(champion)) == []

    def last_is_no_number(array: NDArray[Any]) -> NDArray[Any]:
        array.flat[-1] = np.nan
        return array

    for name in ("weights.outputs", "vocabulary.logp", "baseline.rate"):
        assert len(list(part_checks.find_broken_parts(with_array(champion, name, last_is_no_number)))) == 1


def test_a_bank_for_which_every_order_of_calls_is_usual_sees_no_chain(champion: Bank) -> None:
    """Its tails are whole, but so heavy that no surprise it finds is rare."""
    tail = np.maximum(champion.transitions.tail, np.linspace(1, 0.01, champion.transitions.tail.shape[1]))
    heavy = with_array(champion, "transitions.tail", lambda _: tail.astype(np.float32))
    word = promotion_gate.evaluate_promotion(heavy, None, SETTINGS)
    assert any("the sequence detector sees" in reason for reason in word.reasons), word.figures


def test_a_sound_bank_sees_most_chains_and_bursts(champion: Bank, later: Bank) -> None:
    for bank in (champion, later):
        seen = promotion_gate.evaluate_promotion(bank, None, SETTINGS).figures["seen"]
        assert list(seen) == ["sequence", "spectral"]
        assert all(each["seen"] > 0.8 * each["injected"] > 0 for each in seen.values())


def test_a_first_bank_of_an_organisation_of_loops_is_served_with_a_warning(champion: Bank) -> None:
    """Where one harmless event in five lies in a burst, the spectral detector sees few: an older bank that sees most is kept."""
    most_are_usual = np.resize([1, 1e6, 1e6], len(champion.scorer_state["burst.usual"]))
    loops = with_array(champion, "burst.usual", lambda usual: most_are_usual * usual)
    first = promotion_gate.evaluate_promotion(loops, None, SETTINGS)
    seen = first.figures["seen"]["spectral"]
    assert 0.1 * seen["injected"] <= seen["seen"] < 0.5 * seen["injected"]
    assert first.passed, first.reasons
    assert any("the spectral detector sees" in warning for warning in first.figures["warnings"])
    again = promotion_gate.evaluate_promotion(loops, loops, SETTINGS)
    assert again.passed, again.reasons
    after_one_that_saw_most = promotion_gate.evaluate_promotion(loops, champion, SETTINGS)
    assert any("the spectral detector sees" in reason for reason in after_one_that_saw_most.reasons)


def test_a_first_bank_that_sees_hardly_any_burst_is_kept_back(champion: Bank) -> None:
    blind = with_array(champion, "burst.usual", lambda usual: 1e6 * usual)
    word = promotion_gate.evaluate_promotion(blind, None, SETTINGS)
    assert any("the spectral detector sees 0 of" in reason for reason in word.reasons), word.figures


def test_few_principals_are_asked_for_neither(champion: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_injection, "ATTACKED_PRINCIPALS", promotion_gate.MIN_VICTIMS - 1)
    calm = with_array(champion, "burst.usual", lambda usual: 1e6 * usual)
    assert promotion_gate.evaluate_promotion(calm, None, SETTINGS).passed


def test_a_detector_that_is_not_listed_is_not_asked(champion: Bank) -> None:
    voting = SETTINGS.voting.model_copy(update={"detectors": ("autoencoder", "sequence")})
    calm = with_array(champion, "burst.usual", lambda usual: 1e6 * usual)
    word = promotion_gate.evaluate_promotion(calm, None, SETTINGS.model_copy(update={"voting": voting}))
    assert word.passed
    assert list(word.figures["seen"]) == ["sequence"]


# --- attacks that analysts confirmed ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def happened(organisation: SampleOrganisation) -> dict[str, list[bytes]]:
    """The organisation's attack sessions, as records."""
    session = {
        label["event_id"]: label["session"]
        for label in map(json.loads, (organisation.folder / "labels.jsonl").open())
    }
    cases: dict[str, list[bytes]] = {}
    for file in organisation.days:
        for line in gzip.decompress(Path(file).read_bytes()).splitlines():
            if name := session.get(json.loads(line)["eventID"]):
                cases.setdefault(name, []).append(line)
    return cases


def test_a_bank_that_finds_what_analysts_confirmed_may_pass(
    champion: Bank, happened: dict[str, list[bytes]]
) -> None:
    word = promotion_gate.evaluate_promotion(champion, champion, SETTINGS, confirmed=happened)
    assert word.passed
    confirmed = word.figures["confirmed"]
    assert (
        0
        < confirmed["clear"]
        <= confirmed["before"]["found"]
        <= confirmed["before"]["attacks"]
        == len(happened)
    )
    assert confirmed["missed"] == 0


def test_a_bank_that_misses_what_analysts_confirmed_is_kept_back(
    champion: Bank, happened: dict[str, list[bytes]]
) -> None:
    """It has learned the attacks, as if they were habits; or it finds nothing strange any more."""
    calm = replace(
        champion, baseline=replace(champion.baseline, slope=champion.baseline.slope * np.float32(100))
    )
    word = promotion_gate.evaluate_promotion(
        calm, champion, with_gate(max_missed_share=0.99), confirmed=happened
    )
    assert any("that analysts confirmed" in reason for reason in word.reasons)


def test_records_that_cannot_be_read_are_no_case(champion: Bank) -> None:
    word = promotion_gate.evaluate_promotion(
        champion, champion, SETTINGS, confirmed={"a": [b"{", b"[]"], "b": []}
    )
    assert word.passed
    assert "confirmed" not in word.figures


# --- the probe ------------------------------------------------------------------------------------------------------


def test_the_same_seed_asks_the_same_and_another_seed_asks_others(
    champion: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attack_injection, "ATTACKED_PRINCIPALS", 3)

    def injected(seed: int) -> attack_injection.InjectedAttacks:
        monkeypatch.setattr(attack_injection, "SEED", seed)
        return attack_injection.inject_known_attacks(champion, SETTINGS)

    one, same, other = (injected(seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.codes, same.codes)
    np.testing.assert_array_equal(one.entity, same.entity)
    assert set(one.principal.tolist()) != set(other.principal.tolist())
    assert len(set(one.principal.tolist())) == 3


def test_victims_are_principals_that_are_ready(champion: Bank) -> None:
    stack = champion.fingerprints
    ready = set(stack["hash"][(stack["level"] == 1) & stack["ready"]].tolist())
    assert set(attack_injection.inject_known_attacks(champion, SETTINGS).principal.tolist()) <= ready


@pytest.mark.parametrize("granularity", ["principal_service", "principal", "service"])
def test_an_injected_call_is_of_the_entity_that_a_scorer_would_name(
    champion: Bank, granularity: Literal["principal_service", "principal", "service"]
) -> None:
    """Else it would be judged at the principal, and the gate would compare other fingerprints than scoring uses."""
    options = SETTINGS.model_copy(update={"entities": Entities(granularity=granularity)})
    asked = attack_injection.inject_known_attacks(champion, options)
    principal, calls = asked.frame["principal"], len(attack_injection._known_attack_calls()[0])
    services = attack_injection._known_attack_calls()[0]["service"].tolist() * (len(principal) // calls)
    named = {
        "principal_service": [
            f"{who}|{service}|direct" for who, service in zip(principal, services, strict=True)
        ],
        "principal": [f"{who}|*|direct" for who in principal],
        "service": [f"*|{service}|direct" for service in services],
    }
    wanted = hashing.hash_strings(pd.Series(named[granularity], dtype=object))
    np.testing.assert_array_equal(asked.entity, wanted)


def test_anyone_who_is_robbed_keeps_clock_and_memory_and_anyone_who_is_mimicked_their_program_too(
    champion: Bank,
) -> None:
    asked = attack_injection.inject_known_attacks(champion, SETTINGS)
    attacks = attack_injection._known_attack_calls()[2]
    place = {name: number for number, name in enumerate(encoding.FEATURE_NAMES)}
    robbed, mimicked = asked.codes[~asked.mimic], asked.codes[asked.mimic]
    for name in ("program", "network"):
        assert set(robbed[:, place[name]]) <= set(attacks[:, place[name]])
        assert set(mimicked[:, place[name]]) <= set(champion.vocabulary.codes[:, place[name]].ravel())
        assert not set(mimicked[:, place[name]]) <= set(attacks[:, place[name]])
    for name in ("action", "parameters", "error", "mode"):
        assert set(asked.codes[:, place[name]]) == set(attacks[:, place[name]])
    assert set(asked.codes[:, place["idle"]]) <= set(champion.vocabulary.codes[:, place["idle"]].ravel())


def test_a_log_source_without_known_attacks_passes_the_gate_on_its_other_conditions(
    champion: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SOURCE, "known_attacks", list)
    attack_injection._known_attack_calls.cache_clear()
    try:
        assert len(attack_injection.inject_known_attacks(champion, SETTINGS).attack) == 0
        decision = promotion_gate.evaluate_promotion(champion, champion, SETTINGS)
    finally:
        attack_injection._known_attack_calls.cache_clear()
    assert decision.passed, decision.reasons


def _found(
    bank: Bank, asked: attack_injection.InjectedAttacks, options: Autoencoder = SETTINGS.autoencoder
) -> NDArray[np.bool_]:
    return attack_injection.attack_scores(bank, asked) >= options.threshold


def test_those_who_are_robbed_are_found_more_often_than_those_who_are_mimicked(champion: Bank) -> None:
    asked = attack_injection.inject_known_attacks(champion, SETTINGS)
    found = attack_injection.summarise_attacks(asked, _found(champion, asked))
    robbed, mimicked = (count / of for count, of in (found["robbed"], found["mimicked"]))
    # nine days of twelve principals: thresholds rest on what is usual elsewhere
    assert robbed > 0.75 > mimicked > 0


def test_a_threshold_no_one_reaches_finds_nothing(champion: Bank) -> None:
    asked = attack_injection.inject_known_attacks(champion, SETTINGS)
    assert not _found(champion, asked, Autoencoder(threshold=1e6)).any()


def test_a_bank_in_which_no_one_is_ready_is_asked_nothing(champion: Bank) -> None:
    no_one = replace(champion, fingerprints=champion.fingerprints.assign(ready=False))
    asked = attack_injection.inject_known_attacks(no_one, SETTINGS)
    assert len(asked.codes) == 0
    assert attack_injection.summarise_attacks(asked, _found(champion, asked))["attacks"] == 0


# --- drift ----------------------------------------------------------------------------------------------------------


def test_drift_is_the_share_of_behaviour_that_lies_elsewhere(champion: Bank, later: Bank) -> None:
    """Against the plain version: fingerprint by fingerprint, value by value."""
    found = drift.compare_banks(champion, later)
    then = {(key, level): at for at, (key, level) in enumerate(names(champion))}
    for at in range(0, len(found.row), 7):
        new = int(found.row[at])
        old = then[names(later)[new]]
        for place, feature in enumerate(drift.VALUE_FEATURES.tolist()):
            before, now = shares(champion, old, feature), shares(later, new, feature)
            same = sum(
                min(before.get(value, 0.0), now.get(value, 0.0)) for value in before.keys() | now.keys()
            )
            assert found.drift[at, place] == pytest.approx(1 - same, abs=1e-4)
    assert 0 < found.quantiles["0.5"] < found.quantiles["0.99"] <= 1


def names(bank: Bank) -> list[tuple[str, int]]:
    return list(zip(bank.fingerprints["key"], bank.fingerprints["level"].tolist(), strict=True))


def shares(bank: Bank, at: int, feature: int) -> dict[int, float]:
    """Value -> likelihood at one fingerprint; 0 is the rest."""
    codes, base = bank.vocabulary.codes[at, feature].tolist(), bank.vocabulary.base[at, feature].tolist()
    known = {code: float(np.exp(logp)) for code, logp in zip(codes[1:], base[1:], strict=True) if code}
    return {0: float(np.exp(base[0])), **known}


def test_who_came_and_went_is_counted_in_both_directions(champion: Bank, poisoned: Bank) -> None:
    there, back = drift.compare_banks(champion, poisoned), drift.compare_banks(poisoned, champion)
    assert (there.added, there.removed) == (back.removed, back.added)
    entities = [{key for key, level in names(bank) if level == 0} for bank in (champion, poisoned)]
    assert there.added == len(entities[1] - entities[0]) > 0
    assert there.became_ready == back.no_longer_ready > 0


def test_the_furthest_moved_come_first_with_the_feature_that_moved_most(champion: Bank, later: Bank) -> None:
    found = drift.compare_banks(champion, later)
    top = found.top(5)
    assert [each["drift"] for each in top] == sorted((each["drift"] for each in top), reverse=True)
    assert top[0]["drift"] == pytest.approx(found.mean_drift.max(), abs=1e-4)
    assert {each["most"] for each in top} <= {feature.label for feature in encoding.FEATURES}


def test_an_attack_that_was_learned_shows_in_the_values_and_losses_of_both(
    champion: Bank, poisoned: Bank
) -> None:
    words = drift.compare_values(champion, poisoned)
    assert words["added"] > 0
    assert all(words["some"])
    assert drift.loss_quantiles(champion, poisoned)["0.99"] > drift.loss_quantiles(poisoned, poisoned)["0.99"]
    assert drift.loss_quantiles(champion, champion)["0.5"] < drift.loss_quantiles(champion, poisoned)["0.99"]
