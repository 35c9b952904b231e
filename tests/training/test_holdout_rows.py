"""Rows held out from training, as the figures of a bank count them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import hashing
from fingerprint.core.settings import Settings
from fingerprint.estimators import amounts
from fingerprint.estimators.newcomer_tails import fit_newcomer_tails
from fingerprint.registry import quality
from fingerprint.training.holdout_rows import HoldoutRows, fit_amount_tails, newcomer_z, persons_of


def test_of_an_hour_that_is_unusual_by_its_amount_alone_the_calls_that_carry_it_have_the_vote() -> None:
    """As in scoring: else a bank says that the autoencoder votes for all of an insider's kind, and the gate keeps it back."""
    tails = amounts.NO_TAILS
    alerting = tails[0].edge + tails[0].slope * (amounts.ALERTING_NATS - amounts.EDGE_NATS)
    columns = {
        "principal": np.array([1, 1, 2], np.uint64),
        "interval": np.array([5, 5, 5], np.int32),
        "action": np.array([9, 9, 9], np.uint64),
        "day": np.zeros(3, np.int32),
        "events": np.array([300, 100, 40], np.float32),
        "amount": np.array([[alerting - 1, -3, -3], [alerting - 1, -3, -3], [-3, -3, -3]], np.float32),
        "load": np.array([1, 1, 0], np.float32),
    }
    rows = HoldoutRows(columns, np.array(["person"] * 3, object), np.zeros(3, bool))
    share = rows.voted_share(np.array([True, True, True]), np.array([True, True, False]), tails)
    assert share[:2].tolist() == pytest.approx([amounts.CARRIERS / 400] * 2)
    assert share[2] == 1, "what else is unusual is voted for whole"
    assert rows.vote_rates(share)["person"]["share"] == pytest.approx((amounts.CARRIERS + 40) / 440, abs=1e-4)


def test_amounts_are_as_rare_as_their_hours_and_those_on_unusual_resources_as_their_days() -> None:
    """An amount of days would have to be as many times rarer than a novelty to open an alert as a day has active hours."""
    people, days, hours = 60, 5, 10
    principal, day, _ = (each.ravel() for each in np.indices((people, days, hours)))
    columns = {
        "principal": (principal + 1).astype(np.uint64),
        "day": day.astype(np.int32),
        "owner": principal.astype(np.int32),
        "hour": np.arange(len(principal), dtype=np.uint64),
        "amount": np.random.default_rng(0).exponential(0.3, (len(principal), 3)).astype(np.float32),
    }
    kind = np.array(["person"] * len(principal), object)
    rows = HoldoutRows(columns, kind, np.zeros(len(principal), bool))
    largest = columns["amount"].reshape(people * days, hours, 3).max(axis=1)
    for amount, tail in enumerate(fit_amount_tails(rows)):
        of_days = amounts.fit_amount_tail(largest[:, amount])
        of_hours = amounts.tail_of_intervals(of_days, people * days * hours, people * days)
        assert tail == pytest.approx(of_days if amount == 2 else of_hours)
        assert tail.edge < of_days.edge - 0.525 or amount == 2


def test_all_amounts_are_worth_less_in_an_organisation_of_loops() -> None:
    """Not only those of an hour, by which it is told."""
    days = np.arange(2000)
    columns = {
        "principal": np.ones(len(days), np.uint64),
        "day": days.astype(np.int32),
        "owner": np.zeros(len(days), np.int32),
        "hour": days.astype(np.uint64),
        "amount": np.random.default_rng(0).exponential((1.0, 0.3, 0.3), (len(days), 3)).astype(np.float32),
    }
    rows = HoldoutRows(columns, np.array(["person"] * len(days), object), np.zeros(len(days), bool))
    on_unusual = fit_amount_tails(rows)[2]
    assert on_unusual.edge - amounts.MAX_DISCOUNT * on_unusual.slope == pytest.approx(
        0.3 * np.log(20), abs=0.15
    )


def test_the_alert_budget_counts_a_person_once_at_however_many_roles() -> None:
    ann, bob = "ann%40example.com", "bob%40example.com"
    names = {
        f"111122223333:role/AWSReservedSSO_Admin_1234567890abcdef/{ann}": "person",
        f"444455556666:role/AWSReservedSSO_Audit_1234567890abcdef/{ann.upper()}": "person",
        f"111122223333:federated/arn%3Aaws%3Aiam%3A%3A111122223333%3Asaml-provider%2FOkta/{ann}": "federated",
        f"111122223333:role/AWSReservedSSO_Admin_1234567890abcdef/{bob}": "person",
        "111122223333:role/deploy": "role",
        "444455556666:role/deploy": "role",
    }
    table = pd.DataFrame({"principal": [*names], "kind": [*names.values()]})
    table = table.assign(hash=hashing.hash_strings(table["principal"])).sort_values("hash", ignore_index=True)
    principal = hashing.hash_strings(pd.Series([*names], dtype=object))
    person = persons_of(principal, SimpleNamespace(people=table))
    assert person[0] == person[1] == person[2]
    assert len(set(person.tolist())) == 4, "machines of two accounts are two"

    rows, days = np.tile(principal, 2), np.repeat([0, 1], len(names)).astype(np.int32)
    z = np.ones(len(rows), np.float32)
    held = quality.HoldoutScores(z, z, rows, days, days, z, person=np.tile(person, 2))
    assert quality.holdout_metrics(held, Settings())["principals"] == 4


def test_how_others_began_says_nothing_of_a_workload_that_signs_in() -> None:
    """As in scoring: else a bank counts those sign-ins as calm, and its threshold is too low."""
    beginnings, kind = np.tile([[1, 0, 0]], (20, 1)).astype(np.float32), hashing.hash_string("federated")
    tails = fit_newcomer_tails(beginnings, np.arange(20, dtype=np.uint64), np.full(20, kind))
    names = ("sts:AssumeRoleWithWebIdentity", "sts:AssumeRoleWithSAML", "sts:AssumeRoleWithSAML")
    action = np.array([hashing.hash_string(name) for name in names])
    columns = {"action": action, "beginning": beginnings[:3]}
    rows = HoldoutRows(columns, np.array(["federated"] * 3, object), np.array([True, True, False]))
    assert np.isnan(newcomer_z(rows, tails)).tolist() == [True, False, True]
