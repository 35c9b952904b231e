"""Did they do what they usually do? The stacked program against one net at a time, and what fitting must learn."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.core.settings import Autoencoder
from fingerprint.estimators import autoencoder, interval_tail, tail_calibration
from fingerprint.estimators.autoencoder import FREE_FEATURES, VISIBLE_MASK, Baseline, Weights
from fingerprint.features.encoding import FEATURE_NAMES, FEATURES
from fingerprint.features.vocabulary import build_vocabulary, count_presences
from fingerprint.training import baseline as baselines
from fingerprint.training.baseline import HoldoutLosses
from fingerprint.training.nn import trainer

F, K, H = len(FEATURES), 5, 3


def random_weights(nets: int, seed: int = 0) -> Weights:
    random = np.random.default_rng(seed)
    return Weights(
        random.normal(0, 1, (nets, F, K, H)).astype(np.float32),
        random.normal(0, 1, (nets, H)).astype(np.float32),
        random.normal(0, 1, (nets, len(FREE_FEATURES), K, H)).astype(np.float32),
        np.arange(nets, dtype=np.int32),
    )


def plain_gain(weights: Weights, base: np.ndarray, net: int, slots: np.ndarray, place: int) -> float:
    """One event, one feature, written as the docstring says it."""
    seen = sum(
        (
            weights.inputs[net, feature, slots[feature]]
            for feature in range(F)
            if VISIBLE_MASK[place, feature]
        ),
        np.zeros(H),
    )
    logits = weights.outputs[net, place] @ np.tanh(seen + weights.bias[net])
    counted, corrected = np.exp(base), np.exp(base + logits)
    slot = slots[FREE_FEATURES[place]]
    return float(np.log(corrected[slot] / corrected.sum()) - np.log(counted[slot] / counted.sum()))


def test_many_nets_at_once_agree_with_one_at_a_time() -> None:
    random = np.random.default_rng(3)
    weights, base = random_weights(4), random.normal(-2, 1, (4, F, K)).astype(np.float32)
    fingerprint = random.integers(0, 4, 60).astype(np.int32)
    slots = random.integers(0, K, (60, F)).astype(np.int16)
    stacked = autoencoder.correction(weights, base, fingerprint, slots)
    for row in range(60):
        net = int(fingerprint[row])
        wanted = [
            plain_gain(weights, base[net, FREE_FEATURES[place]], net, slots[row], place)
            for place in range(len(FREE_FEATURES))
        ]
        np.testing.assert_allclose(
            stacked[row], np.clip(wanted, -autoencoder.MAX_CORRECTION, autoencoder.MAX_CORRECTION), atol=1e-4
        )


def test_a_feature_is_never_reconstructed_from_itself_nor_from_what_contains_it() -> None:
    action = list(FREE_FEATURES).index(FEATURE_NAMES.index("action"))
    assert VISIBLE_MASK[action, FEATURE_NAMES.index("action")] == 0
    assert VISIBLE_MASK[action, FEATURE_NAMES.index("parameters")] == 0
    assert VISIBLE_MASK[action, FEATURE_NAMES.index("program")] == 1


def test_where_a_batch_is_cut_changes_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, base = random_weights(2), np.zeros((2, F, K), np.float32)
    slots = np.random.default_rng(1).integers(0, K, (50, F)).astype(np.int16)
    fingerprint = np.arange(50, dtype=np.int32) % 2
    whole = autoencoder.correction(weights, base, fingerprint, slots)
    monkeypatch.setattr(autoencoder, "CPU_CHUNK_BYTES", 7 * 4 * len(FREE_FEATURES) * K * H)
    np.testing.assert_allclose(autoencoder.correction(weights, base, fingerprint, slots), whole, atol=1e-6)


def test_half_precision_is_widened_exactly_whatever_the_number() -> None:
    finite = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = finite[np.isfinite(finite)]  # zeros of both signs, numbers below the normal ones, the largest
    np.testing.assert_array_equal(autoencoder.widen_half(finite), finite.astype(np.float32))


def test_weights_in_half_precision_correct_as_the_same_weights_in_single() -> None:
    random = np.random.default_rng(4)
    whole, base = random_weights(3), random.normal(-2, 1, (3, F, K)).astype(np.float32)
    half = Weights(
        *(part.astype(np.float16) for part in (whole.inputs, whole.bias, whole.outputs)), whole.row
    )
    again = Weights(*(part.astype(np.float32) for part in (half.inputs, half.bias, half.outputs)), whole.row)
    fingerprint, slots = (
        random.integers(0, 3, 40).astype(np.int32),
        random.integers(0, K, (40, F)).astype(np.int16),
    )
    one, other = (autoencoder.correction(each, base, fingerprint, slots) for each in (half, again))
    np.testing.assert_array_equal(one, other)
    assert np.abs(one - autoencoder.correction(whole, base, fingerprint, slots)).max() < 0.02


def habits(rows: int, random: np.random.Generator) -> np.ndarray:
    """Two programs, each with actions of its own: the program says which action to expect."""
    codes = random.integers(1, 3, (rows, F)).astype(np.uint64)
    program = random.integers(0, 2, rows).astype(np.uint64)
    codes[:, FEATURE_NAMES.index("program")] = 10 + program
    codes[:, FEATURE_NAMES.index("action")] = 20 + 2 * program + random.integers(0, 2, rows).astype(np.uint64)
    return codes


def test_a_known_action_with_the_wrong_program_surprises_the_net_and_not_the_counts() -> None:
    random = np.random.default_rng(0)
    codes, unit = habits(3000, random), np.arange(3000, dtype=np.uint64)
    owner = np.zeros(3000, np.int32)
    known = build_vocabulary([count_presences(owner, unit, codes)], np.array([-1], np.int32), 6)
    slots = known.look_up(owner, codes)[1]
    rows = [
        trainer.SlotRows.from_fingerprints(owner[part], slots[part], 1)
        for part in (slice(0, 2000), slice(2000, None))
    ]
    weights = trainer.fit_autoencoders(known, *rows, np.array([0]), Autoencoder(max_epochs=20))
    usual, wrong = habits(200, random), habits(200, random)
    wrong[:, FEATURE_NAMES.index("program")] = 21 - wrong[:, FEATURE_NAMES.index("program")]
    action = FEATURE_NAMES.index("action")
    fingerprint = np.zeros(200, np.int32)
    loss_usual, loss_wrong = (
        autoencoder.feature_losses(known, weights, fingerprint, each)[0][:, action] for each in (usual, wrong)
    )
    untrained = Weights(weights.inputs, weights.bias, weights.outputs, np.array([-1], np.int32))
    counts_wrong = autoencoder.feature_losses(known, untrained, fingerprint, wrong)[0][:, action]
    assert loss_usual.mean() < counts_wrong.mean() - 0.3  # it knows which of the four to expect ...
    assert loss_wrong.mean() > counts_wrong.mean() + 1.0  # ... and is surprised by one of the others


def test_fitting_twice_with_one_seed_gives_the_same_weights() -> None:
    codes = habits(500, np.random.default_rng(0))
    owner = np.zeros(500, np.int32)
    known = build_vocabulary(
        [count_presences(owner, np.arange(500, dtype=np.uint64), codes)], np.array([-1], np.int32), 6
    )
    rows = trainer.SlotRows.from_fingerprints(owner, known.look_up(owner, codes)[1], 1)
    first, second = (
        trainer.fit_autoencoders(known, rows, rows, np.array([0]), Autoencoder(max_epochs=2))
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.outputs, second.outputs)


def test_nets_follow_their_values_to_new_slots() -> None:
    weights = random_weights(1)
    old = np.arange(1, F * K + 1, dtype=np.uint64).reshape(1, F, K)
    new = old[:, :, [0, 3, 1, 2, 4]].copy()
    new[0, :, 4] = 999_999
    moved = trainer.remap_weights(weights, old, new, np.array([0]))
    np.testing.assert_array_equal(moved.inputs[0, :, 1], weights.inputs[0, :, 3])
    np.testing.assert_array_equal(moved.outputs[0, :, 2], weights.outputs[0, :, 1])
    assert (moved.inputs[0, :, 4] == 0).all()


TAIL = np.array(interval_tail.DEFAULT_TAIL, np.float32)
ALONE = np.zeros(1, np.float32), np.zeros(1, bool)  # nothing else, and no one at home


def excess_of(together: float = 0.0, at_home: bool = False, **nats: float) -> float:
    """The excess of one event by the features that surprise in it."""
    surprise = np.zeros((1, F), np.float32)
    for name, value in nats.items():
        surprise[0, FEATURE_NAMES.index(name)] = value
    others = np.array([together], np.float32), np.array([at_home])
    return float(autoencoder.event_nats(surprise, *others).excess(TAIL)[0])


def test_one_strange_feature_among_many_is_enough() -> None:
    assert excess_of(network=9.0) == pytest.approx(9.0)


def test_one_fact_is_news_once_and_two_facts_are_more() -> None:
    """A new tool is a new program and a new version; a new place is something else."""
    assert excess_of(program=8.0, version=7.0, credentials=6.0) == pytest.approx(8.0)
    assert excess_of(program=8.0, network=7.0) == pytest.approx(15.0)


def test_other_surprises_of_the_interval_make_a_strange_event_stranger_and_an_ordinary_one_not() -> None:
    beside = float(interval_tail.interval_nats(np.array([50.0], np.float32), TAIL)[0])
    assert beside > 1
    assert excess_of(action=9.0, together=59.0) == pytest.approx(9.0 + beside)
    assert excess_of(action=1.0, together=59.0) == pytest.approx(1.0)


def test_no_one_is_in_two_places_at_once() -> None:
    """From a new network while the principal works from its own: stranger than from a new network alone."""
    assert excess_of(network=9.0, at_home=True) == pytest.approx(9.0 + autoencoder.SIMULTANEOUS_PLACES_NATS)
    assert excess_of(action=9.0, at_home=True) == pytest.approx(9.0)


@pytest.mark.parametrize(("count", "brought"), [("actions", "resource"), ("sources", "network")])
def test_a_day_of_many_new_things_surprises_by_an_event_that_brings_one_and_not_by_the_usual_ones(
    count: str, brought: str
) -> None:
    """An intruder's morning does not make the owner's afternoon strange."""
    loss = np.zeros((3, F), np.float32)
    loss[:, FEATURE_NAMES.index(count)] = 9.0
    loss[:, FEATURE_NAMES.index(brought)] = [0.0, 0.5, 8.0]
    surprise = autoencoder.surprise_per_feature(loss, np.zeros((1, F), np.float32), np.zeros(3, np.int32))
    weight = FEATURES[FEATURE_NAMES.index(count)].weight
    np.testing.assert_allclose(surprise[:, FEATURE_NAMES.index(count)], [0.0, 0.5, min(9.0 * weight, 8.0)])


def test_what_the_principal_does_elsewhere_every_day_is_no_news_at_a_service() -> None:
    entity, principal = np.array([[9.0, 3.0]], np.float32), np.array([[1.0, 8.0]], np.float32)
    found = autoencoder.novel_to_principal(entity, np.array([0], np.int32), lambda rows: principal[rows])
    np.testing.assert_array_equal(found, [[1.0, 3.0]])


def test_of_what_is_no_surprise_or_has_no_one_above_it_no_one_is_asked_again() -> None:
    surprise = np.array([[1.5, 0.0], [9.0, 3.0], [9.0, 3.0]], np.float32)
    asked = []
    found = autoencoder.novel_to_principal(
        surprise,
        np.array([0, -1, 0], np.int32),
        lambda rows: asked.append(rows.tolist()) or np.zeros((len(rows), 2), np.float32),
    )
    assert asked == [[2]]
    np.testing.assert_array_equal(found, [[1.5, 0.0], [9.0, 3.0], [0.0, 0.0]])


# --- baselines ------------------------------------------------------------------------------------------------------


def held_out(loss: np.ndarray, owner: np.ndarray, principal: np.ndarray | None = None) -> HoldoutLosses:
    names = np.arange(1, len(loss) + 1) if principal is None else principal
    nothing, owner = np.zeros(len(loss), np.int32), owner.astype(np.int32)
    loss, codes = loss.astype(np.float32), np.arange(loss.size, dtype=np.uint64).reshape(loss.shape)
    harmless = np.zeros(len(loss), np.float32)
    return HoldoutLosses(loss, owner, loss, owner, names.astype(np.uint64), nothing, codes, harmless)


def fitted(rows: HoldoutLosses, parent: np.ndarray) -> Baseline:
    """The baseline of rows that are each measured at one fingerprint, of no newcomer."""
    center = baselines.baseline_centers(rows.loss, rows.fingerprint, parent)
    nats = baselines.holdout_nats(rows, baselines.holdout_surprise(rows, center))
    none_new, owner = np.zeros(len(rows.loss), bool), rows.fingerprint
    return baselines.fit_tails(center, nats, none_new, none_new, rows.principal_interval, owner, parent)[0]


def z_of(loss: np.ndarray, baseline: Baseline, at: int) -> float:
    fingerprint = np.array([at], np.int32)
    surprise = autoencoder.surprise_per_feature(loss[None].astype(np.float32), baseline.center, fingerprint)
    return float(
        tail_calibration.excess_to_z(
            autoencoder.event_nats(surprise, *ALONE).excess(baseline.interval_tail[fingerprint]),
            baseline,
            fingerprint,
        )[0]
    )


def test_a_fingerprint_whose_losses_never_varied_does_not_win_every_time() -> None:
    loss = np.concatenate([np.full((50, F), 0.2), np.random.default_rng(0).exponential(1, (50, F))])
    parent = np.array([-1, 0, 0], np.int32)
    baseline = fitted(held_out(loss, np.repeat([1, 2], 50)), parent)
    assert z_of(np.full(F, 0.5), baseline, 1) < 3


def test_a_thin_fingerprint_leans_on_its_parent() -> None:
    loss = np.concatenate([np.full((200, F), 3.0), np.full((2, F), 0.0)])
    rows = held_out(loss, np.repeat([0, 1], [200, 2]))
    baseline = fitted(rows, np.array([-1, 0], np.int32))
    assert (baseline.center[1] > 2.5).all()


def test_held_out_hours_of_two_days_say_how_rare_a_newcomer_is_and_those_of_the_first_are_news() -> None:
    rows = 1000
    calm = np.zeros(rows, np.float32)
    newcomer, is_news = np.zeros((2, rows), bool)
    newcomer[:20], is_news[:10] = True, True
    owner, hour = np.zeros(rows, np.int32), np.arange(rows).astype(np.uint64)
    nats = autoencoder.EventNats(calm, calm, calm)
    usual, excess = baselines.fit_tails(
        np.zeros((1, F), np.float32), nats, newcomer, is_news, hour, owner, np.array([-1], np.int32)
    )
    assert usual.newcomer.tolist() == pytest.approx([baselines.newcomer_nats(newcomer, hour)])
    assert excess.tolist() == pytest.approx(np.where(is_news, usual.newcomer[0], 0).tolist())
