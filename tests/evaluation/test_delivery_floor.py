"""The delivery floor: what alerts at or above each urgency show, by hand and by what must always hold."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint.evaluation.delivery_floor import FLOORS, floor_figures
from fingerprint.evaluation.statistics import pool_figures

START = pd.Timestamp("2026-01-05T00:00:00Z")
Row = tuple[str, str | None, float, bool]  # group, session, urgency of the alert, flagged


def table(*rows: Row) -> pd.DataFrame:
    frame = pd.DataFrame(list(rows), columns=["group", "session", "score", "flagged"])
    frame["session"] = frame["session"].astype(object).where(frame["session"].notna(), None)
    strength = ["loud" if name == "s" else "quiet" if name else None for name in frame["session"]]
    times = START + pd.to_timedelta(range(len(frame)), unit="min")
    return frame.assign(event_time=times, strength=strength)


ALERTS = table(
    ("A", "s", 72.0, True),
    ("A", None, 72.0, True),
    ("B", None, 55.0, True),
    ("C", "t", 55.0, True),
    ("D", "u", 99.0, False),  # never shown: its score is what a lower threshold would show
)


def test_a_floor_shows_the_alerts_at_or_above_it_and_counts_the_attacks_in_them() -> None:
    figures = floor_figures(ALERTS, days=2)
    assert figures["55"] == {
        "sessions": 3,
        "found": 2,
        "alerts": 3,
        "false_alerts": 1,
        "alerts_per_day": 1.5,
        "false_alerts_per_day": 0.5,
        "found_by_strength": {"loud": 1, "quiet": 1},
    }
    assert (figures["60"]["found"], figures["60"]["false_alerts"]) == (1, 0)
    assert figures["60"]["found_by_strength"] == {"loud": 1, "quiet": 0}
    assert (figures["75"]["found"], figures["75"]["alerts"]) == (0, 0)


def test_figures_of_organisations_add_up_and_rates_are_averaged() -> None:
    pooled = pool_figures([floor_figures(ALERTS, days=2), floor_figures(ALERTS, days=1)])["55"]
    assert (pooled["found"], pooled["false_alerts"]) == (4, 2)
    assert pooled["false_alerts_per_day"] == pytest.approx(0.75)
    assert pooled["found_by_strength"] == {"loud": 2, "quiet": 2}


groups = st.lists(
    st.tuples(st.sampled_from("ABCDEF"), st.sampled_from([None, "s", "t"]), st.booleans()), min_size=1
)


@settings(deadline=None, max_examples=30)
@given(groups)
def test_a_higher_floor_never_shows_more(rows: list[tuple[str, str | None, bool]]) -> None:
    urgency = {name: 15.0 * place for place, name in enumerate("ABCDEF")}
    figures = floor_figures(table(*((g, s, urgency[g], f) for g, s, f in rows)), days=1)
    for lower, higher in itertools.pairwise(FLOORS):
        for name in ("found", "alerts", "false_alerts"):
            assert figures[str(higher)][name] <= figures[str(lower)][name]
