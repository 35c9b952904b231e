"""First sight of a newcomer: when it was first seen, and how much of it the training history has.

Example:
    >>> first_seen_text(first=100, now=133, learned_until=124 * 3600, seconds=3600)
    'first seen 33 hours before; the history has its first 24 hours'
"""

from __future__ import annotations

from fingerprint.alerting import titles
from fingerprint.alerting.alert_events import alert_principal
from fingerprint.alerting.explainer import Explainer
from fingerprint.compute import frames, hashing
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import z_column
from fingerprint.detection.detectors import interval_detectors
from fingerprint.detection.scored_votes import newcomer_rows
from fingerprint.registry.bank import PEER_LEVEL
from fingerprint.state.event_batch import EventBatch


def find_first_seen(batch: EventBatch, frame: Frame, explainer: Explainer) -> tuple[str, bool]:
    """Return in words when a newcomer was first seen, and whether the history has any of it.

    A principal that is judged by its own history is no newcomer: its text is empty.
    """
    counted = [z_column(name) for name in interval_detectors(batch.evidence)]
    forecast = ~newcomer_rows(frame)
    if (batch.level < PEER_LEVEL).any() or not counted:
        return "", True
    if any((frames.present_mask(frames.column_of(frame, name)) & forecast).any() for name in counted):
        return "", True
    bank, _ = explainer.bank_and_row(batch, 0)
    principal = alert_principal(frame)
    known = titles.known_at(principal, bank.same_person(principal)[0])
    span = (
        int(batch.first_seen.min()),
        int(batch.interval.min()),
        int(bank.manifest["trained_until"]),
        explainer.settings.spectral.interval_seconds,
    )
    text = first_seen_text(
        *span,
        titles.access_text(principal, known),
        titles.access_text(known, principal),
        knows_account(batch, frame, explainer)
        or bool(bank.knows_account(hashing.hash_strings(frames.column_of(frame, "recipient_account"))).any()),
    )
    return text, history_hours(*span) > 0


def history_hours(first: int, now: int, learned_until: int, seconds: int) -> int:
    """Return how many hours of a newcomer, before `now`, the history has; the arguments are those of `first_seen_text`.

    >>> history_hours(first=100, now=133, learned_until=124 * 3600, seconds=3600)
    24
    """
    past = round((learned_until - first * seconds) / 3600) if (first + 1) * seconds <= learned_until else 0
    return max(min(past, (now - first) * seconds // 3600), 0)


def first_seen_text(
    first: int,
    now: int,
    learned_until: int,
    seconds: int,
    access: str = "",
    known: str = "",
    knows_account: bool = True,
) -> str:
    """Return when a newcomer was first seen, and how much of it the history has, up to `learned_until` (seconds since 1970).

    `first` and `now` are numbers of intervals of `seconds` each. An interval that is still open when the history ends is not in
    the history. `access` is the role that a person uses, `known` another role at which the history has the same person.
    `knows_account`: the history has the account of the log.

    >>> first_seen_text(first=100, now=133, learned_until=124 * 3600, seconds=3600)
    'first seen 33 hours before; the history has its first 24 hours'
    >>> first_seen_text(24, 24, 24 * 3600, 3600, "Support", known="Developer")
    'new at Support, known at Developer; first seen in the same hour'
    >>> first_seen_text(24, 24, 24 * 3600, 3600, knows_account=False)
    'not in the history, nor is its account; first seen in the same hour'
    """
    hours = (now - first) * seconds // 3600
    learned = history_hours(first, now, learned_until, seconds)
    before = f"{hours} hour{'s' * (hours > 1)} before" if hours else "in the same hour"
    if learned:
        where, also = (f" at {access}", f"; known at {known}") if known else ("", "")
        first_hours = f"{learned} hours" if learned > 1 else "hour"
        return f"first seen{where} {before}; the history has its first {first_hours}{also}"
    alone = "not in the history" if knows_account else "not in the history, nor is its account"
    absent = f"new at {access}, known at {known}" if known else alone
    return f"{absent}; first seen {'after that' if hours < 0 else before}"


def knows_account(batch: EventBatch, frame: Frame, explainer: Explainer) -> bool:
    """Return whether the bank knows the account of an alert's principal, which may differ from the account of the log."""
    bank, _ = explainer.bank_and_row(batch, 0)
    return bank.knows_account_of(alert_principal(frame))
