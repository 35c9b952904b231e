"""When a newcomer was first seen, and whether its account is one of the organisation's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from fingerprint.alerting import first_seen
from fingerprint.registry.bank_files import open_bank
from tests.support import sample_organisation


@pytest.mark.parametrize(
    ("first", "now", "text"),
    [
        (0, 33, "first seen 33 hours before; the history has its first 24 hours"),
        (0, 4, "first seen 4 hours before; the history has its first 4 hours"),
        (22, 25, "first seen 3 hours before; the history has its first 2 hours"),
        (23, 24, "not in the history; first seen 1 hour before"),
        (24, 26, "not in the history; first seen 2 hours before"),
        (24, 24, "not in the history; first seen in the same hour"),
        (25, 24, "not in the history; first seen after that"),
    ],
)
def test_a_newcomer_that_was_seen_before_the_training_ended_is_not_said_to_be_in_no_history(
    first: int, now: int, text: str
) -> None:
    """The history ends ten minutes before the day does, as far as records may be late."""
    until = 24 * 3600 - 600
    assert first_seen.first_seen_text(first, now, until, seconds=3600) == text
    assert bool(first_seen.history_hours(first, now, until, 3600)) is text.startswith("first seen")


@pytest.mark.parametrize(
    ("first", "now", "text"),
    [
        (0, 33, "first seen at Support 33 hours before; the history has its first 24 hours; known at Admin"),
        (23, 24, "new at Support, known at Admin; first seen 1 hour before"),
        (25, 24, "new at Support, known at Admin; first seen after that"),
    ],
)
def test_a_person_known_at_another_role_is_new_at_the_role_alone(first: int, now: int, text: str) -> None:
    until = 24 * 3600 - 600
    assert first_seen.first_seen_text(first, now, until, 3600, "Support", known="Admin") == text


def test_an_alert_says_whether_its_principals_account_is_one_of_the_organisations_own(
    scored: sample_organisation.Run, organisation: sample_organisation.SampleOrganisation
) -> None:
    """What matters is the account of the principal, which need not be that of the log."""
    bank = open_bank(organisation.bank)
    explainer: Any = SimpleNamespace(bank_and_row=lambda batch, row: (bank, None))
    own = scored.alerts[0].principal.partition(":")[0]
    for account, is_known in ((own, True), ("151912345678", False)):
        frame = pd.DataFrame({"principal": [f"{account}:account/AROA1"], "recipient_account": [own]})
        assert first_seen.knows_account(SimpleNamespace(), frame, explainer) is is_known
