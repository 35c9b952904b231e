"""Peers that count: how rare is this at its principal? Ten lines of counting are what a detector has to beat.

Example:
    >>> score = log_rarity(past, now)                           # (len(now),) nats, high is rare
"""

from __future__ import annotations

from fingerprint.evaluation.alert_counting import log_frequencies, transition_log_frequency
from fingerprint.evaluation.event_table import EventTable
from fingerprint.evaluation.ranking import Scores
from fingerprint.features.encoding import FEATURE_NAMES

RARITY_COLUMNS = [FEATURE_NAMES.index(name) for name in ("action", "program", "network", "error")]


def log_rarity(past: EventTable, now: EventTable) -> Scores:
    """Minus the sum of the log frequencies of action, program, network and error."""
    rarity: Scores = -log_frequencies(past, now, RARITY_COLUMNS).sum(1)
    return rarity


def log_rarity_online(past: EventTable, now: EventTable) -> Scores:
    """The same; what was done up to the hour before counts as seen."""
    rarity: Scores = -log_frequencies(past, now, RARITY_COLUMNS, online=True).sum(1)
    return rarity


def log_rarity_sequential(past: EventTable, now: EventTable) -> Scores:
    """The same again; plus the rarity of the action after the principal's previous one within the hour."""
    known = log_frequencies(past, now, RARITY_COLUMNS, online=True)
    rarity: Scores = -known.sum(1) - transition_log_frequency(past, now, known[:, 0])
    return rarity
