"""The watermark of a queue waits for the slowest trail that still speaks, and for no other."""

from __future__ import annotations

import numpy as np

from fingerprint.streaming.s3_objects import FeedWatermarks


def come(trails: FeedWatermarks, trail: str, *marks: int, arrived: int = 1_000) -> list[int]:
    return trails.advance(trail, np.array(marks, np.int64), arrived).tolist()


def test_one_trail_is_its_own_watermark() -> None:
    assert come(FeedWatermarks(900), "eu", 100, 200) == [100, 200]


def test_the_slowest_trail_holds_the_others_and_lets_them_go() -> None:
    trails = FeedWatermarks(900)
    come(trails, "eu", 100)
    come(trails, "us", 500)
    assert come(trails, "us", 900) == [100]
    assert come(trails, "eu", 600, 1_000) == [600, 900]


def test_it_never_goes_back() -> None:
    trails = FeedWatermarks(900)
    come(trails, "eu", 500)
    assert come(trails, "new, and late", 50, 80) == [500, 500]


def test_a_silent_trail_is_not_waited_for() -> None:
    trails = FeedWatermarks(idle_seconds=10)
    come(trails, "eu", 100, arrived=1_000)
    assert come(trails, "us", 500, arrived=11_000) == [100]
    assert come(trails, "us", 600, arrived=11_001) == [600]
    assert set(trails.watermarks) == {"us"}


def test_a_trail_that_no_one_believes_holds_no_one() -> None:
    trails = FeedWatermarks(900)
    assert come(trails, "dated ahead", 0, 0) == [0, 0]
    assert come(trails, "eu", 100) == [100]
    assert come(trails, "dated ahead", 0) == [100]


def test_arrivals_in_any_order_forget_no_one_too_early() -> None:
    trails = FeedWatermarks(idle_seconds=10)
    come(trails, "eu", 100, arrived=20_000)
    come(trails, "us", 200, arrived=1_000)
    assert set(trails.watermarks) == {"eu", "us"}
