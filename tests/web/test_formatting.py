"""Short texts of the pages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fingerprint.alerting.impact import MAX_RESOURCES
from fingerprint.core.alert import ActionImpact
from fingerprint.delivery.formats.text import impact_text
from fingerprint.detection.detectors.spectral import CHANNEL_LABELS
from fingerprint.web.formatting import channel_label, impact_facts, more_resources, split_title
from fingerprint.web.language import using_language


@pytest.mark.parametrize(
    ("title", "who", "what"),
    [
        ("ana called iam:CreateUser from 10.0.0.0/8", "ana called ", "iam:CreateUser from 10.0.0.0/8"),
        ("role/ci tried kms:Decrypt; all failed", "role/ci ", "tried kms:Decrypt; all failed"),
        ("x tried to be called y called s3:Get", "x ", "tried to be called y called s3:Get"),
        ("another title", "", "another title"),
        ("", "", ""),
    ],
)
def test_a_title_is_who_and_what(title, who, what):
    assert split_title(title) == (who, what)
    assert (who + what).replace("  ", " ") == title


@pytest.mark.parametrize(
    ("kept", "more", "ends"),
    [(3, "", "r2"), (4, "and 1 more", "r3"), (MAX_RESOURCES, "and at least 2 more", "r4, and maybe others")],
)
def test_where_no_more_resources_are_kept_there_may_be_others(kept, more, ends):
    names = tuple(f"secret:r{number}" for number in range(kept))
    row = ActionImpact("a:B", "grave", "reads", "", "", 9, 0, True, False, names)
    assert more_resources(row, 3) == more
    assert impact_text(row).endswith(ends)


def test_a_read_in_bulk_is_said_to_be_more_than_ever_in_both_languages():
    row = ActionImpact("s3:GetObject", "severe", "takes stored data", "", "", 8, 0, False, True, in_bulk=True)
    assert impact_facts(row) == "8 events, more than ever in the history"
    with using_language("de"):
        assert impact_facts(row).endswith(", mehr als je zuvor")
    assert impact_facts(replace(row, in_bulk=False)) == "8 events, from a new network"


def test_what_a_call_can_do_is_said_of_the_action_as_people_call_it():
    row = ActionImpact("lambda:Invoke20150331", "minor", "runs a function or job", "", "", 1, 0, True, False)
    assert impact_text(row) == "lambda:Invoke runs a function or job (1 event)"


def test_what_a_curve_counts_is_said_in_the_language_of_the_page() -> None:
    with using_language("de"):
        labels = [channel_label(each) for each in (*CHANNEL_LABELS.values(), "GetObject")]
    assert labels == [
        "Ereignisse",
        "Fehler",
        "Änderungen",
        "Neue Aktionen",
        "Seltenere Aktionen",
        "GetObject",
    ]
