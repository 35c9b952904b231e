"""A z says how rare something is, and says the same of everybody."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from fingerprint.core.settings import Alerts, Settings, Voting
from fingerprint.estimators import tail_calibration
from fingerprint.estimators.tail_calibration import IntervalMaxima
from fingerprint.registry import quality
from fingerprint.training.holdout_rows import agreed_rows, decisive_rows, threshold_shares

PARENT = np.array([-1, 0, 1, 1], np.int32)  # everybody, a group, two of its members


def hours_of(*members: np.ndarray) -> IntervalMaxima:
    owner = np.repeat(np.arange(2, 2 + len(members)), [len(each) for each in members])
    return IntervalMaxima(np.concatenate(members).astype(np.float32), owner.astype(np.int32))


def z_of(excess: np.ndarray, hours: IntervalMaxima, at: int) -> np.ndarray:
    edge, slope = tail_calibration.fit_tail(hours.excess)
    log_rate = tail_calibration.exceedance_log_rates(hours, edge, PARENT)[at]
    return tail_calibration.z_of_log_survival(tail_calibration.log_survival(excess, log_rate, edge, slope))


def test_a_z_is_passed_as_often_as_that_of_a_normal_distribution() -> None:
    """By intervals that were not used to say so."""
    random = np.random.default_rng(0)
    past, now = (random.exponential(4.0, 100_000) for _ in range(2))
    z = z_of(now, hours_of(past), 2)
    for threshold in (2.0, 2.5, 3.0, 3.5):
        assert (z >= threshold).mean() == pytest.approx(norm.sf(threshold), rel=0.35)


def test_a_threshold_is_passed_equally_often_by_a_calm_and_by_a_restless_one() -> None:
    random = np.random.default_rng(1)
    calm, restless = random.exponential(1.0, 20_000) * 4, random.exponential(1.0, 20_000) * 4 + 8
    hours = hours_of(calm, restless)
    shares = [(z_of(each, hours, at) >= 2.5).mean() for at, each in ((2, calm), (3, restless))]
    assert max(shares) < 2 * min(shares)
    same = [
        tail_calibration.z_of_log_survival(tail_calibration.log_survival(each, np.log(0.05), 16.0, 4.0))
        for each in (calm, restless)
    ]
    assert (same[1] >= 2.5).mean() > 4 * (same[0] >= 2.5).mean()  # what one rate for all would say


def test_more_excess_is_never_less_rare() -> None:
    z = z_of(np.linspace(0, 300, 1000), hours_of(np.random.default_rng(2).exponential(4, 1000)), 2)
    assert (np.diff(z) > 0).all()
    assert np.isfinite(z).all()


def test_who_is_hardly_known_is_judged_as_its_peers() -> None:
    hours = hours_of(np.random.default_rng(3).exponential(4, 5000), np.zeros(1))
    edge, _ = tail_calibration.fit_tail(hours.excess)
    rate = np.exp(tail_calibration.exceedance_log_rates(hours, edge, PARENT))
    assert rate[3] == pytest.approx(rate[1], rel=0.05)


def test_a_history_of_a_few_hours_says_what_a_usual_organisation_would() -> None:
    edge, slope = tail_calibration.fit_tail(np.zeros(3, np.float32))
    assert edge == pytest.approx(tail_calibration.DEFAULT_EDGE, rel=0.05)
    assert slope == tail_calibration.DEFAULT_SLOPE
    assert tail_calibration.fit_tail(np.empty(0, np.float32)) == (
        tail_calibration.DEFAULT_EDGE,
        tail_calibration.DEFAULT_SLOPE,
    )


def test_the_order_of_the_hours_changes_nothing() -> None:
    hours = hours_of(np.random.default_rng(4).exponential(4, 999))
    shuffled = np.random.default_rng(5).permutation(999)
    assert tail_calibration.fit_tail(hours.excess) == tail_calibration.fit_tail(hours.excess[shuffled])


def test_what_is_rare_in_two_ways_is_as_rare_as_both_are_together() -> None:
    """Of pairs of independent shares, as many lie at or below a combined share as it says, and neither alone is taken away."""
    random = np.random.default_rng(1)
    one, other = np.log(random.uniform(size=(2, 400_000)))
    together = one + other + np.log1p(-one - other)
    for share in (0.05, 0.01, 0.001):
        assert (together <= np.log(share)).mean() == pytest.approx(share, rel=0.15)
    either = tail_calibration.either_or_both(one, other)
    np.testing.assert_array_equal(either, np.minimum(np.minimum(one, other), together))
    np.testing.assert_array_equal(tail_calibration.either_or_both(one, np.zeros_like(one)), one)


def test_of_an_interval_its_strangest_event_counts() -> None:
    excess, hour = np.array([1.0, 9.0, 3.0, 2.0], np.float32), np.array([5, 5, 4, 4], np.uint64)
    hours = tail_calibration.interval_maxima(excess, hour, np.array([2, 2, 3, 3], np.int32))
    assert sorted(zip(hours.excess.tolist(), hours.owner.tolist(), strict=True)) == [(3.0, 3), (9.0, 2)]


def test_z_and_nats_are_two_names_of_one_probability() -> None:
    assert tail_calibration.z_to_nats(4.0) == pytest.approx(-np.log(norm.sf(4.0)))
    assert tail_calibration.z_of_log_survival(-np.array([tail_calibration.z_to_nats(4.0)]))[
        0
    ] == pytest.approx(4.0, abs=1e-4)


# --- thresholds as alerts a day -------------------------------------------------------------------------------------


def strongest(days: int = 10, principals: int = 200) -> dict[str, Any]:
    """Of ten days held out: alerts whose nats fall off as an exponential of slope 2."""
    nats = 6 + np.sort(np.random.default_rng(6).exponential(2.0, 300))[::-1]
    alerts = tail_calibration.z_of_log_survival(-nats).tolist()
    return {"days": days, "alerts": alerts, "principals": principals}


def test_a_threshold_that_is_set_goes_before_the_budget() -> None:
    assert quality.alert_threshold(strongest(), Alerts(threshold=3.3)) == 3.3


@pytest.mark.parametrize("wanted", [0.4, 1.5, 5.0, 15.0])
def test_the_days_held_out_show_less_than_the_budget_for_each_100_principals(wanted: float) -> None:
    held = strongest()
    threshold = quality.alert_threshold(held, Alerts(budget_per_100_principals=wanted))
    shown = sum(z >= threshold for z in held["alerts"])
    assert shown / 10 == pytest.approx(2 * wanted / quality.FUTURE_ALERTS, rel=0.6)


@pytest.mark.parametrize(("days", "wanted"), [(3, 1.0), (7, 1.0), (7, 0.4), (30, 5.0)])
def test_the_budget_is_kept_on_days_to_come_in_nine_of_ten_histories(days: int, wanted: float) -> None:
    rng, alerts_a_day, slope, kept = np.random.default_rng(8), 30, 2.0, []
    for _ in range(300):
        nats = 6 + np.sort(rng.exponential(slope, rng.poisson(alerts_a_day * days)))[::-1]
        held = {"days": days, "alerts": tail_calibration.z_of_log_survival(-nats), "principals": 400}
        threshold = quality.alert_threshold(held, Alerts(budget_per_100_principals=wanted))
        as_held_out = alerts_a_day * np.exp((6 - tail_calibration.z_to_nats(threshold)) / slope)
        to_come = quality.FUTURE_ALERTS * as_held_out
        kept.append(to_come <= 4 * wanted)
    assert np.mean(kept) == pytest.approx(quality.BUDGET_CONFIDENCE, abs=0.08)


def test_a_small_organisation_has_the_budget_of_one_hundred_principals() -> None:
    small, hundred = (quality.alert_threshold(strongest(principals=each), Alerts()) for each in (12, 100))
    assert small == hundred > quality.alert_threshold(strongest(principals=500), Alerts())


def test_the_margin_takes_no_more_than_the_budget_of_one_hundred_principals_leaves() -> None:
    few, hundred = (quality.alert_threshold(strongest(1, principals), Alerts()) for principals in (15, 100))
    assert few == hundred == quality.alert_threshold(strongest(1, 120), Alerts())


def test_fewer_alerts_than_there_ever_were_need_a_higher_threshold_than_any_reached() -> None:
    held = strongest()
    rare, rarer = (
        quality.alert_threshold(held, Alerts(budget_per_100_principals=each)) for each in (0.01, 0.001)
    )
    assert max(held["alerts"]) < rare < rarer


@pytest.mark.parametrize("alerts", [[5.0], [5.0, 2.5]])
def test_less_than_one_alert_allowed_is_a_threshold_above_the_only_one(alerts: list[float]) -> None:
    held = {"days": 1.0, "principals": 100, "alerts": alerts}
    assert quality.alert_threshold(held, Alerts(budget_per_100_principals=0.1)) > 5


def test_a_history_without_alerts_has_a_threshold_of_its_own() -> None:
    calm = {"days": 1, "alerts": [], "principals": 300}
    assert quality.alert_threshold(calm, Alerts()) == quality.DEFAULT_THRESHOLD


def test_a_history_of_less_than_a_day_has_the_threshold_that_a_z_means() -> None:
    """One alert a day of 100 principals, each active in eight hours, is what one active hour in 800 has."""
    some_hours = {"days": 0.0, "alerts": [5.0, 4.0, 3.9], "principals": 30}
    assert quality.alert_threshold(some_hours, Alerts()) == pytest.approx(-norm.ppf(1 / 800))
    more, most = (
        quality.alert_threshold(some_hours, Alerts(budget_per_100_principals=each)) for each in (20, 10_000)
    )
    assert more == pytest.approx(-norm.ppf(1 / 40))
    assert most == quality.LEAST_THRESHOLD
    assert quality.alert_threshold(some_hours, Alerts(threshold=3.3)) == 3.3


def test_no_day_is_held_out_of_a_history_of_less_than_a_day() -> None:
    z, none = np.ones(2, np.float32), np.zeros(2, np.int32)
    held = quality.HoldoutScores(z, z, none.astype(np.uint64), none, none, z, usual_days=0.0)
    figures = quality.holdout_metrics(held, Settings())
    assert (figures["days"], figures["votes_per_day"]) == (0.0, 0.0)


@pytest.mark.parametrize("alerts", [[-5.998], [0.9, 0.8, -2.0]])
def test_alerts_that_are_hardly_unusual_set_no_threshold_that_anything_reaches(alerts: list[float]) -> None:
    """A single held-out alert of a low reach made every event of the next day a verdict."""
    held = {"days": 1.4, "alerts": alerts, "principals": 1}
    assert quality.alert_threshold(held, Alerts()) == quality.LEAST_THRESHOLD > 1.6
    assert quality.alert_threshold(held, Alerts(threshold=1.0)) == 1.0


def test_of_each_principal_evenly_spaced_losses_stay_that_count_as_all_of_its_rows() -> None:
    rows = np.repeat(np.array([3, 9, 12], np.uint64), [1000, 2, 1])
    loss = np.concatenate([np.random.default_rng(3).permutation(np.arange(1000.0)), [5, 4], [7]])
    day = np.zeros(len(rows), np.int32)
    held = quality.HoldoutScores(loss, loss, rows, day, day, loss)
    kept = quality.losses_by_principal(held)
    assert np.unique(kept["principal"], return_counts=True)[1].tolist() == [50, 2, 1]
    assert kept["loss"][:50].tolist() == [20 * i + 10 for i in range(50)]
    assert kept["loss"][50:].tolist() == [4, 5, 7]
    assert kept["weight"].tolist() == [20] * 50 + [1] * 3
    nothing = quality.HoldoutScores(*(each[:0] for each in (loss, loss, rows, day, day, loss)))
    assert len(quality.losses_by_principal(nothing)["loss"]) == 0


def test_the_detector_votes_on_the_share_of_rows_that_is_set() -> None:
    z = np.random.default_rng(7).normal(size=100_000).astype(np.float32)
    ones = np.zeros(len(z), np.int32)
    held = quality.HoldoutScores(z, z, ones.astype(np.uint64), ones, ones, np.full(len(z), -np.inf))
    figures = quality.holdout_metrics(held, Settings())
    for share in (0.05, 0.03, 0.004):
        assert (z >= quality.vote_threshold(figures, share)).mean() == pytest.approx(share, rel=0.05)


def test_the_budget_does_not_grow_with_principals_that_come_new_every_day() -> None:
    stay, days = np.tile(np.arange(200, dtype=np.uint64), 7), np.repeat(np.arange(7, dtype=np.int32), 200)
    passing = np.arange(1_000, 1_000 + 7 * 300, dtype=np.uint64)
    both = (
        np.concatenate([stay, passing]),
        np.concatenate([days, np.repeat(np.arange(7, dtype=np.int32), 300)]),
    )
    assert quality.count_principals(stay, days) == 200
    assert quality.count_principals(*both) == 500
    assert quality.count_principals(stay[:200], days[:200]) == 200, "of a single day all count"
    assert quality.count_principals(stay[:0], days[:0]) == 0


@pytest.mark.parametrize(("hours", "days"), [(1, 1.0), (24, 1.0), (60, 2.5), (85, 3.542)])
def test_a_part_of_a_day_held_out_counts_as_a_part(hours: int, days: float) -> None:
    interval = 490_000 + np.array([0, hours - 1], np.int32)
    z, none = np.ones(2, np.float32), np.zeros(2, np.int32)
    held = quality.HoldoutScores(z, z, none.astype(np.uint64), none, interval, z)
    assert quality.holdout_metrics(held, Settings())["days"] == days


@pytest.mark.parametrize(
    ("level", "spectral", "sequence", "share"),
    [(2, False, False, 0.9), (2, True, False, 1.0), (0, False, False, 1.0), (1, True, True, 1.0)],
)
def test_a_newcomer_held_out_needs_what_it_needs_later(
    level: int, spectral: bool, sequence: bool, share: float
) -> None:
    opinions = {"spectral": np.array([spectral]), "sequence": np.array([sequence])}
    found = threshold_shares(opinions, np.array([level], np.int8), Settings().voting)
    assert found.tolist() == pytest.approx([share])


@pytest.mark.parametrize(
    ("spectral", "sequence", "opinion", "shown"),
    [(True, False, True, True), (False, True, True, True), (False, False, True, False), (False, False, False, False),
     (False, True, False, True)],
)  # fmt: skip
def test_the_budget_counts_the_alerts_that_the_ensemble_would_open(
    spectral: bool, sequence: bool, opinion: bool, shown: bool
) -> None:
    one = np.zeros(1, np.int32)
    votes = {"spectral": np.array([spectral]), "sequence": np.array([sequence])}
    decisive = decisive_rows(votes, {"spectral": np.array([opinion])}, Settings().voting)
    z = np.full(1, 4, np.float32)
    held = quality.HoldoutScores(
        np.ones(1), z, one.astype(np.uint64), one, one, np.where(decisive, z, -np.inf)
    )
    assert len(quality.strongest_alerts(held, Settings())) == shown


@pytest.mark.parametrize(
    ("spectral", "sequence", "strong", "opinion", "agreed"),
    [(True, True, True, True, True), (True, True, False, True, False), (False, True, True, True, False),
     (True, True, True, False, False)],
)  # fmt: skip
def test_the_budget_counts_where_the_others_agree_strongly(
    spectral: bool, sequence: bool, strong: bool, opinion: bool, agreed: bool
) -> None:
    votes = {"spectral": np.array([spectral]), "sequence": np.array([sequence])}
    given = {"spectral": np.array([False]), "sequence": np.array([strong])}
    opinions = {"spectral": np.array([opinion]), "sequence": np.array([True])}
    assert agreed_rows(votes, given, opinions, Settings().voting).tolist() == [agreed]


def test_a_detector_that_is_listed_by_its_import_path_counts_as_one_that_is_not_measured() -> None:
    path = "fingerprint.detection.detectors.isolation_forest:IsolationForestDetector"
    by_path, by_name = (
        Voting(detectors=("autoencoder", "spectral", "sequence", each)) for each in (path, "isolation_forest")
    )
    yes, no = np.array([True]), np.array([False])
    votes, opinions = {"spectral": yes, "sequence": no}, {"spectral": yes, "sequence": yes}
    for strong in (yes, no):
        given = {"spectral": strong, "sequence": no}
        assert agreed_rows(votes, given, opinions, by_path) == agreed_rows(votes, given, opinions, by_name)
    assert decisive_rows(votes, opinions, by_path) == decisive_rows(votes, opinions, by_name)


def test_one_alert_moves_the_threshold_by_as_much_however_strange_it_is() -> None:
    z = np.sort(np.random.default_rng(4).exponential(0.4, 60) + 2)[::-1].tolist()
    figures = {"days": 4.0, "principals": 50}
    calm, strange, stranger = (
        quality.alert_threshold({**figures, "alerts": [*more, *z]}, Alerts()) for more in ([], [5.0], [9.0])
    )
    assert strange == stranger
    assert calm < strange < calm + 0.2
