"""An alert's urgency with a term of its rank left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fingerprint.alerting import rarity
from fingerprint.evaluation.rank_terms import FURTHER, IMPACT, RANK_TERMS, urgency_without
from tests.support.sample_organisation import Run


def test_without_impact_an_alert_has_the_urgency_of_its_rarity(scored: Run) -> None:
    for alert in scored.alerts:
        assert urgency_without(alert, IMPACT) == alert.rarity <= alert.urgency


def test_without_further_actions_no_alert_is_more_urgent_and_one_of_one_action_is_as_urgent(
    scored: Run,
) -> None:
    for alert in scored.alerts:
        alone = urgency_without(alert, FURTHER)
        assert alone <= alert.urgency + 1  # scores of events are rounded
        names = {event.action_name for event in alert.events}
        assert len(names) > 1 or alone == pytest.approx(alert.urgency, abs=1)


def test_further_actions_make_an_alert_more_urgent(scored: Run) -> None:
    changed = [urgency_without(alert, FURTHER) < alert.urgency for alert in scored.alerts]
    assert any(changed)


def test_the_cap_of_an_alert_holds_without_a_term(scored: Run) -> None:
    for alert in scored.alerts:
        capped = replace(alert, level="generic")
        assert urgency_without(capped, FURTHER) <= rarity.URGENCY_CAP["generic"]


def test_a_term_that_the_rank_does_not_have_is_refused(scored: Run) -> None:
    assert set(RANK_TERMS) == {IMPACT, FURTHER}
    with pytest.raises(KeyError):
        urgency_without(scored.alerts[0], "luck")
