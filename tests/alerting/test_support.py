"""What supports an alert: what its session changed in the same minutes, and how much a burst deleted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fingerprint.alerting import impact, support
from fingerprint.core.settings import Settings
from fingerprint.features.encoding import FEATURE_NAMES
from fingerprint.state.event_batch import Verdicts
from tests.support.alerts import event as made_event


def test_what_the_same_session_changed_in_the_same_minutes_belongs_to_an_alert_though_it_is_usual() -> None:
    """Who makes a function that a rule starts, and made rules before, leaves the rule behind."""
    own = (made_event(0, "lambda", "CreateFunction", access_key="ASIA1"),)
    made = made_event(3, "events", "PutRule", access_key="ASIA1")
    rows = impact.alert_impact([made], (), ())
    for event, told in (
        (made, True),
        (replace(made, event_time=made.event_time + timedelta(minutes=3)), False),
        (replace(made, access_key="ASIA2"), False),
        (replace(made, error_code="AccessDenied"), False),
    ):
        found = support.Support((event,), (), rows).actions_beside(own)
        assert found == (rows if told else ())
    assert (
        support.Support((replace(made, access_key=""),), (), rows).actions_beside(
            [replace(own[0], access_key="")]
        )
        == ()
    )


@pytest.mark.parametrize(("voted", "calls", "told"), [(True, 12, True), (False, 12, False), (True, 1, False)])
def test_of_a_burst_of_deletions_that_supports_an_alert_its_number_is_told(
    voted: bool, calls: int, told: bool
) -> None:
    deleted = made_event(0, "ec2", "DeleteVolume")
    counted = SimpleNamespace(count=lambda principal, interval, action: np.full(len(principal), calls))
    explainer: Any = SimpleNamespace(interval_amounts=counted, settings=Settings())
    batch: Any = SimpleNamespace(
        evidence={"spectral": None},
        principal=np.zeros(2, np.uint64),
        interval=np.zeros(2, np.int32),
        codes=np.zeros((2, len(FEATURE_NAMES)), np.uint64),
    )
    part = Verdicts(batch, pd.DataFrame({"spectral_vote": [voted] * 2}))
    others = made_event(0, "ec2", "RunInstances")
    rows = impact.alert_impact([deleted, others], (), ())
    names = [deleted.action_name, others.action_name]
    counted_rows = support._count_deletions(
        [replace(each, dry_run=True) for each in rows], part, names, explainer
    )
    assert all(row.dry_run for row in counted_rows)
    found = {row.action: row.effect for row in counted_rows}
    assert found == {
        "ec2:DeleteVolume": "deletes data or machines" + ", 12 times in an hour" * told,
        "ec2:RunInstances": "starts machines or models",
    }
