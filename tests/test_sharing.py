"""How much less urgent an alert is because others show the same: bounded, and never because of a place."""

from __future__ import annotations

import pytest

from fingerprint.alerting.prevalence import (
    FEW,
    MANY,
    MOST,
    PLACES,
    TOGETHER,
    Shown,
    is_counted,
    lowered,
    weighed,
)
from fingerprint.features.encoding import FEATURES
from fingerprint.web.formatting import band

LABELS = {feature.label for feature in FEATURES}


def test_what_is_counted_are_features_and_the_places_are_no_part_of_a_roll_out():
    assert TOGETHER | PLACES < LABELS
    assert not TOGETHER & PLACES
    assert [label for label in sorted(LABELS) if is_counted(label)] == sorted(TOGETHER | PLACES)


@pytest.mark.parametrize("others", [*range(FEW), FEW, 7, MANY, 10_000])
@pytest.mark.parametrize("urgency", range(0, 101, 5))
def test_urgency_falls_only_where_a_few_share_it_and_by_a_bounded_amount(urgency, others):
    shown = lowered(urgency, others)
    assert shown == urgency if others < FEW else urgency >= shown >= max(urgency - MOST, urgency / 2)


@pytest.mark.parametrize("urgency", range(75, 101))
def test_a_critical_alert_stays_high_however_many_share_it(urgency):
    assert band(urgency) == "critical"
    assert band(lowered(urgency, 1_000_000)) in ("high", "critical")


def test_the_more_share_it_the_lower_it_is():
    shown = [lowered(60, others) for others in range(MANY + 1)]
    assert shown == sorted(shown, reverse=True)
    assert (shown[0], shown[3], shown[7], shown[15]) == (60, 50, 45, 40)


@pytest.mark.parametrize(
    ("surprises", "sharing"),
    [
        ([], 0),
        ([Shown("action", 10.0, 7)], 7),
        ([Shown("program version", 6.0, 9), Shown("network", 5.0)], 9),
        ([Shown("program version", 5.0, 9), Shown("network", 6.0)], 0),
        ([Shown("error", 4.0, 9), Shown("action", 4.0, 5), Shown("time of day", 7.0)], 5),
        ([Shown("error", 4.0, 9), Shown("parameters", 1.0, 3), Shown("time of day", 4.0)], 3),
    ],
)
def test_so_many_others_share_at_least_half_of_the_surprise(surprises, sharing):
    assert weighed(40, surprises)[1] == sharing
    assert weighed(40, surprises[::-1])[1] == sharing


@pytest.mark.parametrize("place", sorted(PLACES))
def test_a_place_that_many_share_excuses_nobody(place):
    """A thief with many keys brings the same place to all of them."""
    assert weighed(40, [Shown(place, 10.0, MANY)]) == (40, 0)


@pytest.mark.parametrize("place", sorted(PLACES))
def test_whoever_comes_from_a_strange_place_as_others_do_is_not_excused_by_what_they_share(place):
    tool = Shown("program version", 10.0, MANY)
    assert weighed(40, [tool, Shown(place, 1.0)]) == (20, MANY)
    assert weighed(40, [tool, Shown(place, 1.0, others=1)]) == (40, MANY)


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
def test_what_serves_an_attacker_is_not_excused_by_company(feature, seen, excused):
    """Many do it when many keys are stolen; mere looking is what everybody does."""
    urgency, sharing = weighed(40, [Shown(feature, 10.0, MANY, seen)])
    assert (urgency < 40, sharing > 0) == (excused, excused)


def test_what_is_shared_with_an_attack_excuses_nobody():
    tool = Shown("program version", 10.0, MANY)
    assert weighed(40, [tool]) == (20, MANY)
    assert weighed(40, [tool._replace(attack=True)]) == (40, 0)
    assert weighed(40, [tool, Shown("error", 9.0, MANY, attack=True)]) == (20, MANY)


def test_noise_cannot_be_made_to_count_for_more_than_it_is():
    """Whoever shows a hundred small things that others show is judged by the one that nobody does."""
    noise = [Shown("error", 0.01, MANY) for _ in range(100)]
    assert weighed(90, [*noise, Shown("action", 10.0)]) == (90, 0)
