"""What a fingerprint knows: the stacked likelihoods against a plain reading of the formula, and what they must be."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from fingerprint.features import vocabulary
from fingerprint.features.encoding import FEATURE_NAMES, FEATURES, GIVEN_FEATURE, IS_BIN
from fingerprint.features.vocabulary import (
    PARENT_WEIGHT,
    POSSIBLE_VALUES,
    Vocabulary,
    build_vocabulary,
    count_events,
    count_presences,
    usual_losses,
)

F = len(FEATURES)
PARENT = np.array([-1, 0, 1, 1], np.int32)  # generic, a group, two principals in it


def random_rows(count: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    owner = random.integers(2, 4, count).astype(np.int32)
    unit = random.integers(0, 30, count).astype(np.uint64)
    codes = (
        random.zipf(1.6, (count, F)) % 40 + 100 * owner[:, None] * (random.random((count, F)) < 0.3)
    ).astype(np.uint64)
    return owner, unit, codes


def stacked(owner: np.ndarray, unit: np.ndarray, codes: np.ndarray, slots: int = 6) -> Vocabulary:
    group = np.ones(len(owner), np.int32)
    levels = [count_presences(at, unit, codes) for at in (group * 0, group, owner)]
    return build_vocabulary(levels, PARENT, slots)


def plain_probability(rows: list[tuple[int, int, int]], owner: int, value: int, feature: int) -> float:
    """The formula of the module's docstring, one value at a time, counting by hand."""
    if owner < 0:
        return 1 / POSSIBLE_VALUES[feature]
    counts, curiosity = plain_counts(rows, owner)
    if value in counts:
        return (1 - curiosity) * counts[value] / sum(counts.values())
    names = owner == 0 and not IS_BIN[feature]  # do not run out
    excluded = sum(
        plain_probability(rows, int(PARENT[owner]), known, feature) for known in counts if not names
    )
    return curiosity * plain_probability(rows, int(PARENT[owner]), value, feature) / (1 - excluded)


def plain_counts(rows: list[tuple[int, int, int]], owner: int) -> tuple[Counter[int], float]:
    below = {0: (0, 1, 2, 3), 1: (1, 2, 3)}.get(owner, (owner,))
    units = defaultdict(set)
    for at, unit, code in rows:
        if at in below:
            units[code].add(unit)
    counts = Counter({code: len(seen) for code, seen in units.items()})
    n, distinct = sum(counts.values()), len(counts)
    above = plain_counts(rows, int(PARENT[owner]))[1] if owner else 1.0
    return counts, (distinct + PARENT_WEIGHT * above) / (n + distinct + PARENT_WEIGHT)


def test_likelihoods_agree_with_the_formula_counted_by_hand() -> None:
    owner, unit, codes = random_rows()
    known = stacked(owner, unit, codes)
    asked = np.array([0, 1, 2, 3, 5, 39, 201, 305, 7777], np.uint64)
    for at in range(4):
        logp, _, _ = known.look_up(np.full(len(asked), at, np.int32), np.repeat(asked[:, None], F, axis=1))
        for feature in (0, 3, 5):
            rows = list(zip(owner.tolist(), unit.tolist(), codes[:, feature].tolist(), strict=True))
            wanted = [plain_probability(rows, at, int(value), feature) for value in asked]
            np.testing.assert_allclose(np.exp(logp[:, feature]), wanted, rtol=2e-3)


def test_a_value_never_seen_costs_more_the_less_novelty_is_usual() -> None:
    steady = np.ones((50, F), np.uint64)
    restless = np.arange(50 * F, dtype=np.uint64).reshape(50, F) + 10
    owner = np.repeat(np.array([2, 3], np.int32), 50)
    known = stacked(owner, np.tile(np.arange(50, dtype=np.uint64), 2), np.concatenate([steady, restless]))
    logp, _, seen = known.look_up(np.array([2, 3], np.int32), np.full((2, F), 9999, np.uint64))
    assert not seen.any()
    assert (logp[0] < logp[1] - 2).all()


def test_what_colleagues_do_is_less_surprising_than_what_no_one_does() -> None:
    owner, unit, codes = random_rows()
    codes[owner == 3, 0] = 555
    known = stacked(owner, unit, codes)
    logp, _, seen = known.look_up(
        np.array([2, 2], np.int32), np.repeat(np.array([[555], [556]], np.uint64), F, axis=1)
    )
    assert not seen[:, 0].any()
    assert logp[0, 0] > logp[1, 0] + 3


def test_a_loop_of_a_million_calls_counts_as_one_presence_an_interval() -> None:
    codes = np.full((1000, F), 7, np.uint64)
    counted = count_presences(np.full(1000, 2, np.int32), np.repeat([1, 2], 500).astype(np.uint64), codes)
    assert counted.count.tolist() == [2.0] * F


def test_of_who_is_not_ready_every_event_counts() -> None:
    owner, events = np.array([2, 2, 3], np.int32), np.array([3, 4, 5], np.float32)
    counted = count_events(owner, events, np.full((3, F), 7, np.uint64))
    assert dict(zip(counted.fingerprint[:2].tolist(), counted.count[:2].tolist(), strict=True)) == {
        2: 7,
        3: 5,
    }


def test_the_usual_loss_is_that_of_a_usual_value_and_of_a_new_one_where_new_ones_are_usual() -> None:
    steady, restless = np.ones((50, F), np.uint64), np.arange(50, dtype=np.uint64)[:, None] + np.full(F, 10)
    owner, unit = np.repeat(np.array([2, 3], np.int32), 50), np.tile(np.arange(50, dtype=np.uint64), 2)
    codes = np.concatenate([steady, restless])
    known, rows, above = stacked(owner, unit, codes), np.array([2, 3]), np.full((2, F), 4.0, np.float32)
    steady_loss, restless_loss = usual_losses(known, count_presences(owner, unit, codes), above, rows)
    free = GIVEN_FEATURE < 0
    logp, _, _ = known.look_up(np.array([2], np.int32), steady[:1])
    np.testing.assert_allclose(steady_loss[free], -logp[0, free], rtol=1e-5)
    np.testing.assert_allclose(restless_loss[free], (4.0 - known.escape[3])[free], rtol=1e-5)
    assert not steady_loss[~free].any(), "it adds nothing to the feature that it is given"


def test_the_most_present_values_get_the_slots_and_the_rest_share_one() -> None:
    owner, unit, codes = random_rows()
    known = stacked(owner, unit, codes, slots=4)
    assert known.base.shape == (4, F, 4)
    np.testing.assert_allclose(np.exp(known.base).sum(-1), 1, atol=1e-3)
    slot = known.look_up(owner, codes)[1]
    assert slot.max() == 3
    common = Counter(codes[owner == 2, 0].tolist()).most_common(1)[0][0]
    assert common in known.codes[2, 0, 1:].tolist()


def test_how_often_is_a_share_of_the_fingerprints_own_presences() -> None:
    owner, unit, codes = random_rows()
    known = stacked(owner, unit, codes)
    share = known.observed_share(np.array([2], np.int32), np.full((1, F), 424242, np.uint64))
    assert (share == 0).all()
    everything = known.observed_share(owner, codes)
    assert ((everything > 0) & (everything <= 1)).all()


def test_a_new_name_is_new_however_many_an_organisation_has_shown() -> None:
    """Two organisations that repeat what they know, alike but for the number of names: 200, and more than are possible."""
    name = FEATURE_NAMES.index("resource")
    losses = []
    for names in (200, 30_000):
        codes = np.repeat(np.arange(names, dtype=np.uint64)[:, None], F, axis=1) + 1
        generic = count_presences(
            np.zeros(4 * names, np.int32), np.arange(4 * names, dtype=np.uint64), np.tile(codes, (4, 1))
        )
        known = build_vocabulary([generic], np.array([-1], np.int32), 6)
        logp, _, _ = known.look_up(np.zeros(1, np.int32), np.full((1, F), 9_999_999, np.uint64))
        losses.append((float(-logp[0, name]), float(known.novelty_loss(np.zeros(1, np.int32), name)[0])))
    np.testing.assert_allclose(losses[0], losses[1], atol=0.05)
    assert losses[1][1] > 1  # something new at all


def test_bins_never_run_out_of_values() -> None:
    assert vocabulary.POSSIBLE_VALUES.min() == pytest.approx(32)


def test_something_new_is_no_surprise_where_new_things_come_all_the_time() -> None:
    """Two principals of one peer group: one touched the same three for weeks, the other a new one each hour."""
    place = FEATURE_NAMES.index("resource")
    hours = np.arange(400, dtype=np.uint64)
    codes = np.zeros((800, len(FEATURE_NAMES)), np.uint64)
    codes[:400, place], codes[400:, place] = hours % 3, hours + 1000
    owner = np.repeat(np.array([1, 2], np.int32), 400)
    everyone = count_presences(np.zeros(800, np.int32), owner, codes)
    known = build_vocabulary(
        [everyone, count_presences(owner, np.tile(hours, 2), codes)], np.array([-1, 0, 0], np.int32), 8
    )
    steady, restless = known.novelty_loss(np.array([1, 2], np.int32), place)
    assert restless < 1.0
    assert steady > restless + 3.0


@pytest.mark.parametrize(
    ("presences", "values", "usual"),
    [
        (20, 20, True),
        (200, 120, True),
        (200, 60, False),
        (40, 8, False),
        (5, 5, True),
        (4, 4, False),
        (60, 1, False),
    ],
)
def test_novelty_is_usual_where_every_other_presence_brings_a_new_value(
    presences: int, values: int, usual: bool
) -> None:
    """Also of far more values than have slots; three or four first times are no habit."""
    unit = np.arange(presences + 100, dtype=np.uint64)
    codes = np.full((len(unit), F), 7, np.uint64)
    codes[:presences, 0] = 10 + np.arange(presences) % values
    owner = np.where(unit < presences, 2, 3).astype(np.int32)
    found = stacked(owner, unit, codes).novelty_is_usual(np.array([3, 2], np.int32))
    assert found[:, 0].tolist() == [False, usual]
    assert not found[:, 1:].any()


def test_one_feature_by_itself_is_found_as_among_all() -> None:
    """What the fingerprint itself knows, and in which slot; its parents are not asked."""
    owner, unit, codes = random_rows()
    known = stacked(owner, unit, codes)
    strange = np.where(np.arange(len(codes))[:, None] % 3 == 0, codes + np.uint64(7_000), codes)
    _, slots, there = known.look_up(owner, strange)
    assert 0 < there.sum() < there.size
    for feature in range(F):
        slot, found = known.find_own(owner, feature, strange[:, feature])
        np.testing.assert_array_equal(found, there[:, feature])
        np.testing.assert_array_equal(slot, slots[:, feature])
