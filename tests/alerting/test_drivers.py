"""Which surprising values of an alert are shown, and what they say about amounts."""

from __future__ import annotations

from dataclasses import replace

from fingerprint.alerting import drivers
from fingerprint.core.alert import (
    Rarity,
    SurpriseDriver,
)
from fingerprint.estimators.amounts import amount_text


def test_what_is_shown_is_bounded_by_rank_but_for_new_networks() -> None:
    def driver(feature: str, rarity: Rarity = "unseen") -> SurpriseDriver:
        return SurpriseDriver(feature, "203.0.113.0/24", "", rarity, 5.0)

    loud, most = [driver("action")] * 20, drivers.MAX_DRIVERS
    new = [driver("network"), driver("address range", "rare")]
    assert drivers.shown_drivers([*loud, *new]) == (*loud[:most], *new)
    assert drivers.shown_drivers([*loud, driver("network", "frequent")]) == tuple(loud[:most])
    assert drivers.shown_drivers([*new, *loud]) == (*new, *loud[: most - 2])


def test_orders_that_nothing_is_usual_for_take_one_row_and_leave_the_others_to_what_says_more() -> None:
    def after(context: str, expected: str, nats: float) -> SurpriseDriver:
        return SurpriseDriver("next action", f"s3:DeleteObjects after {context}", expected, "unseen", nats)

    compared = after("s3:GetBucketVersioning", "s3:GetObject", 21.9)
    orders = [
        after(f"s3:{name}", "nothing yet", 12.9) for name in ("CopyObject", "DeleteObjects", "PutObject")
    ]
    action = SurpriseDriver("action", "s3:DeleteObjects", "nothing yet", "unseen", 10.0)
    others = [replace(action, seen=f"s3:Put{place}") for place in range(drivers.MAX_DRIVERS - 3)]
    shown = drivers.shown_drivers([compared, *orders, action, *others])
    assert shown == (compared, orders[0], action, *others)


def test_the_number_of_calls_is_read_from_what_drives_an_alert() -> None:
    seen = amount_text(2006, "s3:DeleteObject", "an hour")
    amount = SurpriseDriver("amount", seen, "none in the history", "unseen", 8.2)
    found = [amount, replace(amount, feature="action", seen="s3:GetObject")]
    names = ["s3:DeleteObject", "s3:DeleteObject", "s3:GetObject"]
    assert drivers.counted_calls(found, names) == {"s3:DeleteObject": 2006}


def test_what_was_called_most_is_an_amount_that_was_never_as_large() -> None:
    amount = SurpriseDriver(
        "amount", amount_text(239, "s3:GetObject", "an hour"), "at most 46 in the history", "unseen", 9.2
    )
    names = ["s3:GetObject", "s3:ListObjects"]
    assert drivers.called_most([amount], names) == {"s3:GetObject": "239 calls in an hour, at most 46"}
    assert drivers.called_most([replace(amount, rarity="rare")], names) == {}
    day = replace(amount, seen=amount_text(400, "s3:GetObject", "a day"), surprise=9.9)
    found = drivers.called_most([amount, day], names)
    assert found == {"s3:GetObject": "400 calls in a day, at most 46"}


def test_a_call_is_unusual_by_its_amount_or_by_a_resource_that_is_new() -> None:
    names = ["s3:GetObject", "secretsmanager:GetSecretValue", "ssm:GetParameter"]
    amount = SurpriseDriver(
        "amount", "12 calls of s3:GetObject in an hour", "at most 1 in the history", "rare", 9.0
    )
    of = SurpriseDriver("resource", "ssm:GetParameter on parameter:/db", "nothing yet", "unseen", 9.0)
    assert drivers.unusual_calls([amount, of], names) == {"s3:GetObject", "ssm:GetParameter"}
    known, other = replace(of, rarity="frequent"), replace(of, feature="action")
    assert not drivers.unusual_calls([known, other], names)
