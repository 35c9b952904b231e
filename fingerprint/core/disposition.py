"""What a disposition means for an alert that may have grown since, or that is a duplicate of another.

Example:
    >>> one = Disposition("a1", "benign", "maria", "a new laptop", datetime(2026, 3, 4, tzinfo=UTC), events=3)
    >>> standing([one], {"a1": 3})
    {'a1': 'benign'}
    >>> standing([one], {"a1": 5})          # two events more than were judged: it is open again
    {}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fingerprint.core.alert import Decision, Disposition


def current_decisions(newest: Iterable[Disposition], evidence: Mapping[str, int]) -> dict[str, Decision]:
    """What is decided of each alert now, by its id, given the newest disposition of each and how many events it has.

    A duplicate stands as the alert it is a duplicate of. Alerts that are open are not in there: those that nobody judged, that
    have grown since, and duplicates of such.
    """
    return {alert_id: each.decision for alert_id, each in current_dispositions(newest, evidence).items()}


def current_dispositions(
    newest: Iterable[Disposition], evidence: Mapping[str, int]
) -> dict[str, Disposition]:
    """By which disposition each alert stands, by its id: its own, or that of the alert it is a duplicate of."""
    said = {each.alert_id: each for each in newest if evidence.get(each.alert_id, 0) <= each.events}
    found = {alert_id: _resolve_duplicate(alert_id, said) for alert_id in said}
    return {alert_id: each for alert_id, each in found.items() if each is not None}


def _resolve_duplicate(alert_id: str, newest: Mapping[str, Disposition]) -> Disposition | None:
    """The disposition at the end of a chain of duplicates; None where it ends at an open alert or goes round."""
    passed: set[str] = set()
    while (each := newest.get(alert_id)) and each.decision == "duplicate":
        if alert_id in passed:
            return None
        passed.add(alert_id)
        alert_id = each.duplicate_of
    return each
