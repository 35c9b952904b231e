"""Peers that count: how rare is this at its principal? Ten lines of counting are what a detector has to beat.

Example:
    >>> score = log_rarity(past, now)                           # (len(now),) nats, high is rare
"""

from __future__ import annotations

from fingerprint.evaluation.alert_counting import log_frequencies, log_frequency_after
from fingerprint.evaluation.event_table import Rows
from fingerprint.evaluation.ranking import Scores
from fingerprint.features.encoding import NAMES

HABITS = [NAMES.index(name) for name in ("action", "program", "network", "error")]


def log_rarity(past: Rows, now: Rows) -> Scores:
    """Minus the sum of the log frequencies of action, program, network and error."""
    rarity: Scores = -log_frequencies(past, now, HABITS).sum(1)
    return rarity


def log_rarity_lately(past: Rows, now: Rows) -> Scores:
    """The same; what was done up to the hour before counts as seen."""
    rarity: Scores = -log_frequencies(past, now, HABITS, lately=True).sum(1)
    return rarity


def log_rarity_in_order(past: Rows, now: Rows) -> Scores:
    """The same again; plus the rarity of the action after the principal's previous one within the hour."""
    known = log_frequencies(past, now, HABITS, lately=True)
    rarity: Scores = -known.sum(1) - log_frequency_after(past, now, known[:, 0])
    return rarity
