"""How much less urgent an alert is because others show the same: bounded, and never because of a place."""

from __future__ import annotations

import pytest

from fingerprint.alerting.prevalence import (
    MAX_COUNTED_OTHERS,
    MAX_REDUCTION,
    MIN_OTHERS,
    PLACE_FEATURES,
    SHARED_FEATURES,
    SurprisingValue,
    adjust_urgency,
    counts_towards_prevalence,
    feature_labels,
    reduce_urgency,
)
from fingerprint.features.encoding import FEATURES
from fingerprint.web.formatting import severity_of

LABELS = {feature.label for feature in FEATURES}
SHARED, PLACES = feature_labels(SHARED_FEATURES), feature_labels(PLACE_FEATURES)


def test_what_is_counted_are_features_and_the_places_are_no_part_of_a_roll_out():
    assert len(SHARED | PLACES) == len(SHARED_FEATURES) + len(PLACE_FEATURES)
    assert SHARED | PLACES < LABELS
    assert [label for label in sorted(LABELS) if counts_towards_prevalence(label)] == sorted(SHARED | PLACES)


@pytest.mark.parametrize("others", [*range(MIN_OTHERS), MIN_OTHERS, 7, MAX_COUNTED_OTHERS, 10_000])
@pytest.mark.parametrize("urgency", range(0, 101, 5))
def test_urgency_falls_only_where_a_few_share_it_and_by_a_bounded_amount(urgency, others):
    shown = reduce_urgency(urgency, others)
    assert (
        shown == urgency
        if others < MIN_OTHERS
        else urgency >= shown >= max(urgency - MAX_REDUCTION, urgency / 2)
    )


@pytest.mark.parametrize("urgency", range(75, 101))
def test_a_critical_alert_stays_high_however_many_share_it(urgency):
    assert severity_of(urgency) == "critical"
    assert severity_of(reduce_urgency(urgency, 1_000_000)) in ("high", "critical")


def test_the_more_share_it_the_lower_it_is():
    shown = [reduce_urgency(60, others) for others in range(MAX_COUNTED_OTHERS + 1)]
    assert shown == sorted(shown, reverse=True)
    assert (shown[0], shown[3], shown[7], shown[15]) == (60, 50, 45, 40)


@pytest.mark.parametrize(
    ("surprises", "sharing"),
    [
        ([], 0),
        ([SurprisingValue("action", 10.0, 7)], 7),
        ([SurprisingValue("next action", 20.0), SurprisingValue("action", 10.0, 7)], 7),
        ([SurprisingValue("next action", 20.0, 9)], 0),
        ([SurprisingValue("program version", 6.0, 9), SurprisingValue("network", 5.0)], 9),
        ([SurprisingValue("program version", 5.0, 9), SurprisingValue("network", 6.0)], 0),
        (
            [
                SurprisingValue("error", 4.0, 9),
                SurprisingValue("action", 4.0, 5),
                SurprisingValue("time of day", 7.0),
            ],
            5,
        ),
        (
            [
                SurprisingValue("error", 4.0, 9),
                SurprisingValue("parameters", 1.0, 3),
                SurprisingValue("time of day", 4.0),
            ],
            3,
        ),
    ],
)
def test_so_many_others_share_at_least_half_of_the_surprise(surprises, sharing):
    assert adjust_urgency(40, surprises)[1] == sharing
    assert adjust_urgency(40, surprises[::-1])[1] == sharing


@pytest.mark.parametrize("place", sorted(PLACES))
def test_a_place_that_many_share_excuses_no_one(place):
    """A thief with many keys brings the same place to all of them."""
    assert adjust_urgency(40, [SurprisingValue(place, 10.0, MAX_COUNTED_OTHERS)]) == (40, 0)


@pytest.mark.parametrize("place", sorted(PLACES))
def test_anyone_who_comes_from_a_strange_place_as_others_do_is_not_excused_by_what_they_share(place):
    tool = SurprisingValue("program version", 10.0, MAX_COUNTED_OTHERS)
    assert adjust_urgency(40, [tool, SurprisingValue(place, 1.0)]) == (20, MAX_COUNTED_OTHERS)
    assert adjust_urgency(40, [tool, SurprisingValue(place, 1.0, other_principals=1)]) == (
        40,
        MAX_COUNTED_OTHERS,
    )


@pytest.mark.parametrize(
    ("feature", "seen", "excused"),
    [
        ("action", "iam:CreateAccessKey", False),
        ("parameters", "iam:CreateAccessKey(userName)", False),
        ("action", "ec2:DescribeInstances", True),
        ("action", "events:ListRules", True),
        ("error", "AccessDenied", True),
        ("program version", "iam:CreateAccessKey", True),
    ],
)
def test_what_serves_an_attacker_is_not_excused_where_others_have_it_too(feature, seen, excused):
    """Many do it when many keys are stolen; mere looking is what everybody does."""
    urgency, sharing = adjust_urgency(40, [SurprisingValue(feature, 10.0, MAX_COUNTED_OTHERS, seen)])
    assert (urgency < 40, sharing > 0) == (excused, excused)


def test_what_is_shared_with_an_attack_excuses_no_one():
    tool = SurprisingValue("program version", 10.0, MAX_COUNTED_OTHERS)
    assert adjust_urgency(40, [tool]) == (20, MAX_COUNTED_OTHERS)
    assert adjust_urgency(40, [tool._replace(is_attack=True)]) == (40, 0)
    assert adjust_urgency(40, [tool, SurprisingValue("error", 9.0, MAX_COUNTED_OTHERS, is_attack=True)]) == (
        20,
        MAX_COUNTED_OTHERS,
    )


def test_noise_cannot_be_made_to_count_for_more_than_it_is():
    """Anyone who shows a hundred small things that others show is judged by the one that no one does."""
    noise = [SurprisingValue("error", 0.01, MAX_COUNTED_OTHERS) for _ in range(100)]
    assert adjust_urgency(90, [*noise, SurprisingValue("action", 10.0)]) == (90, 0)


@pytest.mark.parametrize("urgency", [40, 52, 60, 90])
def test_no_roll_out_lowers_an_alert_below_the_floor_of_its_gravest_call(urgency):
    shared = [SurprisingValue("action", 10.0, 1000)]
    assert adjust_urgency(urgency, shared, floor=50)[0] == max(
        reduce_urgency(urgency, 1000), min(50, urgency)
    )
    assert adjust_urgency(urgency, shared)[0] == reduce_urgency(urgency, 1000)
