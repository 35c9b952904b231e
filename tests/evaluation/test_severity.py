"""Severity of attacks and of harmless alerts, by rarity alone and with impact: counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fingerprint.core.alert import Alert
from fingerprint.evaluation.severity import severity_figures
from fingerprint.evaluation.statistics import pool_figures
from tests.support.alerts import DRIVERS, IMPACT_OF, new_pipeline, stolen_session


def alert(name: str, rarity: int, urgency: int, **fields: object) -> Alert:
    made = stolen_session(alert_id=name, rarity=rarity, urgency=urgency)
    events = tuple(replace(event, event_id=f"{name}{place}") for place, event in enumerate(made.events))
    return replace(made, events=events, **fields)


LISTING = replace(DRIVERS[1], seen="guardduty:ListDetectors", surprise=9.0)
HIDDEN = alert("a", rarity=27, urgency=55, drivers=(LISTING,))
NAMED = alert("b", rarity=60, urgency=80, drivers=(replace(LISTING, seen=IMPACT_OF[0].action),))
HARMLESS = replace(new_pipeline(), rarity=52, urgency=52)


def test_attacks_and_harmless_alerts_are_counted_at_each_severity_by_both_measures() -> None:
    figures = severity_figures([HIDDEN, NAMED, HARMLESS], {"a3", "b0"})
    assert (figures["attack_alerts"], figures["harmless_alerts"]) == (2, 1)
    assert figures["rarity"]["high"] == {"attack_alerts": 1, "harmless_alerts": 1}
    assert figures["urgency"]["high"] == {"attack_alerts": 2, "harmless_alerts": 1}
    assert figures["urgency"]["critical"] == {"attack_alerts": 1, "harmless_alerts": 0}


def test_an_action_is_hidden_where_the_most_surprising_new_one_is_another() -> None:
    figures = severity_figures([HIDDEN, NAMED], {"a3", "b0"})
    assert (figures["alerts_with_grave_action"], figures["hidden_actions"]) == (2, 1)


@pytest.mark.parametrize("gravity", ["notable", "minor"])
def test_an_action_that_is_not_grave_hides_nothing(gravity: str) -> None:
    rows = (replace(IMPACT_OF[0], gravity=gravity),)
    figures = severity_figures([replace(HIDDEN, impact_of=rows)], {"a3"})
    assert (figures["alerts_with_grave_action"], figures["hidden_actions"]) == (0, 0)


def test_counts_of_organisations_add_up() -> None:
    one = severity_figures([HIDDEN, HARMLESS], {"a3"})
    both = pool_figures([one, one])
    assert both["urgency"]["high"]["attack_alerts"] == 2
    assert both["harmless_alerts"] == 2
