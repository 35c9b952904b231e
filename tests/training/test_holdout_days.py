"""Which days are held out, and how many usual days they are worth: a weekend says little of how people work."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fingerprint.core.settings import Settings
from fingerprint.registry.bank import PEER_LEVEL, PRINCIPAL_LEVEL
from fingerprint.training import holdout_rows
from fingerprint.training.fingerprint_index import HOLDOUT_SHARE, HoldoutSplit, _holdout_split

HOURS = 24


def split(active: list[int], rows_an_hour: int = 50, begin: int = 0) -> HoldoutSplit:
    """Return the split of days on which so many principals are active, with as many rows every hour: machines do not rest.

    The history begins at the hour `begin` of the first day.
    """
    days = np.arange(100, 100 + len(active))
    hours = np.arange(days[0] * HOURS + begin, (days[-1] + 1) * HOURS)
    return _holdout_split(
        pd.DataFrame({"interval": hours, "rows": rows_an_hour}), pd.Series(active, index=days), HOURS
    )


def test_a_weekend_alone_is_not_held_out() -> None:
    """From Tuesday to Sunday: the last quarter of the rows begins on Saturday, that of the principals on Friday."""
    assert split([300, 310, 300, 290, 90, 80]).interval == 103 * HOURS
    assert split([300, 310, 300, 290, 300, 290]).interval == 104 * HOURS


def test_where_all_days_are_alike_about_a_quarter_is_held_out() -> None:
    assert split([300] * 8).interval == 106 * HOURS


def test_of_few_days_the_rows_alone_say_which_are_held_out() -> None:
    assert split([300, 90, 80]).interval == 100 * HOURS + 54
    assert split([300]).interval == 100 * HOURS + 18


@pytest.mark.parametrize("begin", [0, 9])
@pytest.mark.parametrize("active", [[100, 3, 3, 5], [5, 100, 3, 3], [5, 4, 100, 3, 3]])
def test_where_one_day_has_most_principals_rows_are_drawn(active: list[int], begin: int) -> None:
    """From Friday, or Thursday evening, to a Monday morning. Else the days held out were all, or all but a few rows."""
    assert split(active, begin=begin).share == HOLDOUT_SHARE
    assert split([100, 30, 30, 50], begin=begin) == HoldoutSplit(102 * HOURS, 0.0)
    assert split([30, 100, 30, 30], begin=begin) == HoldoutSplit(102 * HOURS, 0.0)


@pytest.mark.parametrize(("learned_days", "usual"), [(0.5, 0.0), (3, 0.3), (6, 0.6), (7, 0.7), (21, 0.7)])
def test_what_is_held_out_counts_by_the_days_that_were_learned(learned_days: float, usual: float) -> None:
    """Of ten unusual intervals in the history, or in its last week, one is held out; all of one principal, at one rate."""
    recent = {"owner": np.array([0]), "intervals": np.array([10])}
    end = 1_000_000 * 3600 + int(learned_days * 86400) - 1
    history = SimpleNamespace(watermark=end, columns_of=lambda *_: recent)
    index = SimpleNamespace(table=pd.DataFrame({"first": [1_000_000]}))
    rows = {"hour": np.array([7]), "owner": np.array([0]), "day": np.array([3])}
    days = holdout_rows._usual_days(history, rows, np.array([-2.0]), index, Settings())  # type: ignore[arg-type]
    assert days == pytest.approx(usual, rel=1e-3)


def test_when_an_account_joins_in_the_held_out_days_its_principals_are_no_newcomers() -> None:
    """Else the nights after it are the measure of how rare a newcomer is. Of a vendor's account one or two roles call."""
    first = {"100000000001": (0, 150, 160), "100000000002": (150, 151, 170), "100000000003": (150, 151)}
    rows = [(f"{owner}:role/{at}", at) for owner, times in first.items() for at in times]
    table = pd.DataFrame(rows, columns=["key", "first"]).assign(hash=range(len(rows)), level=PRINCIPAL_LEVEL)
    peers = pd.DataFrame({"key": ["100000000001:x"], "first": [0], "hash": [99], "level": [PEER_LEVEL]})
    index = SimpleNamespace(table=pd.concat([table, peers]), holdout=HoldoutSplit(100, 0.0))
    assert holdout_rows._of_joining_accounts(index).tolist() == [3, 4, 5]  # type: ignore[arg-type]
    since = np.array([0, 150, 150, 150, 0, 150])
    columns = {
        "since": since,
        "interval": np.full(6, 160),
        "principal": np.array([0, 1, 3, 4, 5, 6], np.uint64),
    }
    held = holdout_rows.HoldoutRows(columns, np.full(6, "role", object), np.array([True] * 6))
    found = holdout_rows._newcomers(held, index, HOURS)  # type: ignore[arg-type]
    assert found is not None
    assert found.tolist() == [False, True, False, False, False, True]
