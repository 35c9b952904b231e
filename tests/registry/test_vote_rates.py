"""The share of harmless events with a vote, by kind of principal, and how sure it is."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.registry.vote_rates import least_share, rates_by_kind


def test_each_kind_has_its_share_of_events_and_the_days_that_they_are_worth() -> None:
    """Against the plain version: one event at a time."""
    random = np.random.default_rng(0)
    day = random.integers(0, 40, 1000).astype(np.uint64)
    kind = np.array(["person", "role"], object)[day.astype(int) % 2]
    events, voted = random.integers(1, 9, 1000).astype(float), random.random(1000) < 0.1
    found = rates_by_kind(voted, events, kind, day)
    assert list(found) == ["person", "role"]
    for name, rate in found.items():
        of_day: dict[int, float] = {}
        for each in np.flatnonzero(kind == name):
            of_day[int(day[each])] = of_day.get(int(day[each]), 0) + events[each]
        total = sum(of_day.values())
        assert rate["events"] == total
        assert rate["days"] == pytest.approx(total**2 / sum(n**2 for n in of_day.values()), abs=0.05)
        voted_for = sum(n for n, vote, of in zip(events, voted, kind, strict=True) if vote and of == name)
        assert rate["share"] == pytest.approx(voted_for / total, abs=1e-4)


def test_no_held_out_events_have_no_rates() -> None:
    nothing = np.empty(0)
    assert (
        rates_by_kind(nothing.astype(bool), nothing, nothing.astype(object), nothing.astype(np.uint64)) == {}
    )


@pytest.mark.parametrize(("days", "sure"), [(1.0, False), (3.0, False), (30.0, True), (300.0, True)])
def test_a_fifth_is_more_than_a_twentieth_only_over_many_days(days: float, sure: bool) -> None:
    assert (least_share({"events": 5000, "days": days, "share": 0.2}) > 0.05) is sure


def test_no_rate_is_less_than_nothing_and_more_days_are_surer() -> None:
    assert least_share({"events": 10, "days": 2.0, "share": 0.0}) == pytest.approx(0, abs=1e-12)
    least = [least_share({"events": 1, "days": days, "share": 0.3}) for days in (2, 20, 200, 1e6)]
    assert least == sorted(least)
    assert least[-1] == pytest.approx(0.3, abs=0.01)
