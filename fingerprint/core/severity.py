"""Urgency in words: what an analyst reads first, and what other systems call severity.

Example:
    >>> band(91), band(12)
    ('critical', 'low')
"""

from __future__ import annotations

# From 50 on is what harmless surprises hardly ever reach (docs/explanation/detection.md).
SEVERITY_LEVELS = ((75, "critical"), (50, "high"), (35, "medium"), (0, "low"))
MINIMUM_URGENCY = {word: least for least, word in SEVERITY_LEVELS}  # the urgency from which a word holds


def severity_of(urgency: int) -> str:
    """The word for an urgency of 0 to 100."""
    return next(word for least, word in SEVERITY_LEVELS if urgency >= least or least == 0)
