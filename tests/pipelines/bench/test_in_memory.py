"""CPU is counted where it is taken."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines.bench.in_memory import CpuShare


def _spin() -> int:
    return sum(range(300_000))


def test_a_function_within_another_counts_once_and_both_are_put_back() -> None:
    inner, outer = _spin, lambda: places.inner()
    places = SimpleNamespace(inner=inner, outer=outer)
    with CpuShare((places, "outer"), (places, "inner")) as cpu:
        for _ in range(20):
            places.outer()
    assert 0 < cpu.inside <= cpu.total
    assert (places.inner, places.outer) == (inner, outer)


def test_an_error_within_is_not_swallowed_and_the_functions_are_put_back() -> None:
    def fail() -> None:
        raise ValueError("a poll failed")

    places = SimpleNamespace(fail=fail)
    with pytest.raises(ValueError, match="a poll failed"), CpuShare((places, "fail")):
        places.fail()
    assert places.fail is fail
