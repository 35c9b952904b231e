"""Peers that people run today: the rule "an action never seen before", and a threshold on how much was done.

Example:
    >>> score = first_seen_action(past, now)                    # (len(now),), -inf for what the rule does not show
"""

from __future__ import annotations

import numpy as np

from fingerprint.compute import hashing
from fingerprint.compute.arrays import is_first_occurrence
from fingerprint.evaluation.alert_counting import ACTION_COLUMN, count_occurrences
from fingerprint.evaluation.event_table import HOUR_SECONDS, EventTable
from fingerprint.evaluation.ranking import Scores


def first_seen_action(past: EventTable, now: EventTable) -> Scores:
    """The rule: an action new to the principal, once. Alerts rank by how many of them they hold."""
    keys = hashing.hash_pair(now.principal, now.codes[:, ACTION_COLUMN])
    known = count_occurrences(hashing.hash_pair(past.principal, past.codes[:, ACTION_COLUMN]), keys) > 0
    new = is_first_occurrence(keys) & ~known
    return np.where(new, count_occurrences(now.group[new], now.group), -np.inf)


def volume_z(past: EventTable, now: EventTable) -> Scores:
    """z of the principal's events in the event's hour against all its hours in the past, idle ones included.

    The spread is at least that of a Poisson count, and at least one event. Who was never seen has mean zero.
    """
    hours = past.seconds[-1] // HOUR_SECONDS - past.seconds[0] // HOUR_SECONDS + 1
    _, first, events = np.unique(
        hashing.hash_pair(past.principal, past.hours.astype(np.uint64)), return_index=True, return_counts=True
    )
    who, inverse = np.unique(past.principal[first], return_inverse=True)
    mean = np.bincount(inverse, events, len(who)) / hours
    variance = np.bincount(inverse, events.astype(float) ** 2, len(who)) / hours - mean**2
    place = np.minimum(np.searchsorted(who, now.principal), len(who) - 1)
    known = who[place] == now.principal
    usual, spread = np.where(known, mean[place], 0), np.where(known, variance[place], 0)
    here = hashing.hash_pair(now.principal, now.hours.astype(np.uint64))
    volume: Scores = (count_occurrences(here, here) - usual) / np.sqrt(
        np.maximum(np.maximum(spread, usual), 1)
    )
    return volume
