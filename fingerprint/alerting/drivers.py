"""The drivers of an alert: the values that the detectors found most surprising, and which of them are shown.

Example:
    >>> drivers = lead_with_impact(find_drivers(batch, frame, explainer), actions)
    >>> [(driver.feature, driver.seen, driver.usual) for driver in shown_drivers(drivers)]
    [('action', 'iam:CreateAccessKey', 's3:GetObject'), ('network', '198.51.100.0/24', '10.0.0.0/16')]
"""

from __future__ import annotations

from collections.abc import Sequence

from fingerprint.alerting import impact
from fingerprint.alerting.explainer import Explainer
from fingerprint.alerting.prevalence import NETWORK_FEATURES, feature_labels
from fingerprint.alerting.title_facts import ACTION_FEATURE, AMOUNT_FEATURE, PROGRAM_FEATURE
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import MOVE_FEATURE, NOTHING_USUAL, ORDER_FEATURE, ActionImpact, SurpriseDriver
from fingerprint.core.attack_tools import is_made_for_attacks
from fingerprint.core.incident_rule import NEW_RARITIES
from fingerprint.detection.detectors import load_known_detectors
from fingerprint.estimators import sequence
from fingerprint.estimators.amounts import IN_HISTORY, read_amount_text
from fingerprint.state.event_batch import EventBatch

MAX_DRIVERS = 10  # values shown; new networks, moves and attack tools are shown beyond it
# Of these, the new actions that can do the gravest harm: they stand before the most surprising values.
MAX_LEADING_DRIVERS = 3
RESOURCE_FEATURE = "resource"


def find_drivers(batch: EventBatch, frame: Frame, explainer: Explainer) -> list[SurpriseDriver]:
    """Return the values that the detectors found most surprising, strongest first.

    A new action that is also the first of its session is listed once, as new: the sequence detector's driver would repeat it.
    """
    found = [
        driver
        for detector in load_known_detectors(batch.evidence)
        for driver in detector.drivers(batch, frame, explainer)
    ]
    new = (each.seen for each in found if (each.feature, each.rarity) == (ACTION_FEATURE, "unseen"))
    repeated = {f"{action} {sequence.FIRST_TEXT}" for action in new}
    return sorted((each for each in found if each.seen not in repeated), key=lambda driver: -driver.surprise)


def lead_with_impact(
    drivers: Sequence[SurpriseDriver], actions: Sequence[ActionImpact]
) -> list[SurpriseDriver]:
    """Return the drivers in the order in which they are shown.

    First come at most MAX_LEADING_DRIVERS new actions that can do harm, the gravest first, then the most surprising new action.
    The others follow by surprise, at most MAX_DRIVERS of one feature. Without a harmful new action all are sorted by surprise.
    """
    graver = {row.action: place for place, row in enumerate(actions) if impact.action_nats(row) > 0}
    new = [each for each in drivers if (each.feature, each.rarity) == (ACTION_FEATURE, "unseen")]
    leading = sorted((each for each in new if each.seen in graver), key=lambda driver: graver[driver.seen])[
        :MAX_LEADING_DRIVERS
    ]
    if leading and new[0] not in leading:
        leading.append(new[0])
    others: dict[str, list[SurpriseDriver]] = {}
    for driver in drivers:
        if driver not in leading:
            others.setdefault(driver.feature, []).append(driver)
    few = [driver for same in others.values() for driver in same[:MAX_DRIVERS]]
    return [*leading, *sorted(few, key=lambda driver: -driver.surprise)]


def shown_drivers(drivers: Sequence[SurpriseDriver]) -> tuple[SurpriseDriver, ...]:
    """Return the first MAX_DRIVERS of an alert, and all moves, new networks, new address ranges and tools made for attacks.

    A reader always sees where the calls came from, however many values are stranger, and alerts are linked by it. Of the order
    drivers that expected nothing (NOTHING_USUAL) only the first is shown: each says little more than that its action is new.

    Example:
        >>> action, network = (SurpriseDriver(name, "x", "", "unseen", 9.0) for name in ("action", "network"))
        >>> [each.feature for each in shown_drivers([*[action] * 20, network])][-2:]
        ['action', 'network']
    """
    networks = feature_labels(NETWORK_FEATURES)
    repeated = [each for each in drivers if (each.feature, each.expected) == (ORDER_FEATURE, NOTHING_USUAL)]
    shown = [each for each in drivers if each not in repeated[1:]]
    return tuple(
        each
        for place, each in enumerate(shown)
        if place < MAX_DRIVERS
        or (each.feature in networks and each.rarity in NEW_RARITIES)
        or (each.feature == PROGRAM_FEATURE and is_made_for_attacks(each.seen))
        or each.feature == MOVE_FEATURE
    )


def counted_calls(drivers: Sequence[SurpriseDriver], names: Sequence[str]) -> dict[str, int]:
    """Return the calls of each action in an interval, for the actions whose amount drives an alert.

    `names` are the `service:Action` to look for.

    >>> seen = "2,006 calls of s3:GetObject in an hour"
    >>> counted_calls([SurpriseDriver("amount", seen, "none in the history", "unseen", 9.0)], ["s3:GetObject"])
    {'s3:GetObject': 2006}
    """
    seen = [driver.seen for driver in drivers if driver.feature == AMOUNT_FEATURE]
    read = ((name, read_amount_text(text, name)) for name in set(names) for text in seen)
    return {name: int(amount[0].replace(",", "")) for name, amount in read if amount}


def called_most(drivers: Sequence[SurpriseDriver], names: Sequence[str]) -> dict[str, str]:
    """Return the calls, in words, of each action that was called more often than ever; `names` are `service:Action`.

    Where an action has several amounts, the one that drives the alert most is returned: four objects are no theft of a thousand.

    >>> amount = SurpriseDriver("amount", "239 calls of s3:GetObject in an hour", "at most 46 in the history", "unseen", 9.2)
    >>> called_most([amount], ["s3:GetObject", "s3:ListObjects"])
    {'s3:GetObject': '239 calls in an hour, at most 46'}
    """
    unseen = (each for each in drivers if (each.feature, each.rarity) == (AMOUNT_FEATURE, "unseen"))
    found: dict[str, str] = {}
    for driver in sorted(unseen, key=lambda each: -each.surprise):
        for name in {*names} - found.keys():
            if amount := read_amount_text(driver.seen, name):
                found[name] = f"{amount[0]} calls in {amount[1]}, {driver.expected.removesuffix(IN_HISTORY)}"
    return found


def unusual_calls(drivers: Sequence[SurpriseDriver], names: Sequence[str]) -> frozenset[str]:
    """Return the actions that were called unusually often or on unusual resources; `names` are `service:Action`.

    >>> named = SurpriseDriver("resource", "secretsmanager:GetSecretValue on secret:db", "secret:own", "unseen", 4.0)
    >>> unusual_calls([named], ["secretsmanager:GetSecretValue", "s3:GetObject"])
    frozenset({'secretsmanager:GetSecretValue'})
    """
    on = [each.seen for each in drivers if each.feature == RESOURCE_FEATURE and each.rarity in NEW_RARITIES]
    touched = (name for name in names if any(text.startswith(f"{name} on ") for text in on))
    return frozenset((*counted_calls(drivers, names), *touched))
