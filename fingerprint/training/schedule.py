"""The training schedule: a first training once there is enough history, then one every `retraining.interval_hours`.

Example:
    >>> next_training(ScheduleInputs(retained_days=3.25), datetime(2026, 3, 2, tzinfo=UTC), Retraining())
    NextTraining(at=datetime.datetime(2026, 3, 12, 18, 0, tzinfo=datetime.timezone.utc), why='the topic holds 3.2 of 14 days')

No clock is read here: the caller gives the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import floor
from statistics import median_low
from typing import Any, NamedTuple

from fingerprint.core.settings import Retraining

# The actions that trainings write in a bank's history: the bank is served, or the gate refused it
TRAINING_OUTCOMES = ("train", "refused")

CLOCK_TOLERANCE = timedelta(hours=1)  # by which the clocks of two machines that train may differ


@dataclass(frozen=True, slots=True)
class ScheduleInputs:
    """The facts that a schedule follows.

    `retained_days` of events are in the topic, None for no events. `last_trained` is when the last training ended, whether its
    bank was served or refused. Since then `failures` trainings failed in a row, from `first_failed` to `last_failed`.
    """

    retained_days: float | None = None
    served: bool = False
    last_trained: datetime | None = None
    failures: int = 0
    last_failed: datetime | None = None
    first_failed: datetime | None = None


class NextTraining(NamedTuple):
    """The time of the next training, None if unknown, and the reason for it."""

    at: datetime | None
    why: str

    def is_due(self, now: datetime) -> bool:
        """Return whether the training is due."""
        return self.at is not None and self.at <= now


def next_training(inputs: ScheduleInputs, now: datetime, options: Retraining) -> NextTraining:
    """Return when the next training is due; a failed training is repeated only after a delay.

    A failure dated in the future delays nothing.
    """
    if inputs.retained_days is None:
        return NextTraining(None, "the topic holds no events")
    regular = _after_training(inputs, inputs.retained_days, now, options)
    failed = latest_believed([inputs.last_failed] if inputs.last_failed else [], now)
    again = failed + retry_delay(inputs.failures, options) if failed else None
    if again and again > now and regular.is_due(again):
        return NextTraining(again, f"the last training failed, and is tried again at {_format_time(again)}")
    return regular


def due_since(inputs: ScheduleInputs, now: datetime, options: Retraining) -> datetime | None:
    """Return since when a training is due, or when it will be, regardless of failures and their delays.

    A first training that failed is due at the latest since the first failure.
    """
    if inputs.retained_days is None:
        return None
    at = _after_training(inputs, inputs.retained_days, now, options).at
    if at and at <= now and inputs.first_failed and inputs.last_trained is None:
        return min(at, inputs.first_failed)
    return at


def _after_training(known: ScheduleInputs, held: float, now: datetime, options: Retraining) -> NextTraining:
    if known.last_trained:
        at = known.last_trained + timedelta(hours=options.interval_hours)
        return NextTraining(
            at,
            f"the last training was at {_format_time(known.last_trained)}, the next is due at {_format_time(at)}",
        )
    if known.served:
        return NextTraining(now, "a bank is served, and it is not known when it was trained")
    missing = timedelta(days=max(0.0, options.min_history_days - held))
    days = floor(held * 10) / 10  # rounded down: never "14.0 of 14 days" while the training still waits
    return NextTraining(now + missing, f"the topic holds {days:.1f} of {options.min_history_days:g} days")


def retry_delay(failures: int, options: Retraining) -> timedelta:
    """Return the delay after `failures` failures in a row: it doubles each time, up to the interval between trainings."""
    most = options.interval_hours * 3600
    return timedelta(seconds=min(options.poll_interval_seconds * 2.0 ** min(failures - 1, 32), most))


def topic_span_days(
    oldest: Iterable[Sequence[datetime]], newest: Iterable[Sequence[datetime]]
) -> float | None:
    """Return the days between the oldest and the newest event of a topic, None without any.

    Both have, for each partition, the times of a few events at that end. The median of the few counts, so that one event with a
    wrong date makes no history.
    """
    first = min((median_low(few) for few in oldest if few), default=None)
    last = max((median_low(few) for few in newest if few), default=None)
    return None if first is None or last is None else max(0.0, (last - first) / timedelta(days=1))


def training_times(history: Iterable[Mapping[str, Any]]) -> list[datetime]:
    """Return when trainings ended, from the lines of a bank's history (`versions.decision_history`)."""
    times = (_entry_time(line) for line in history if line.get("action") in TRAINING_OUTCOMES)
    return [at for at in times if at]


def latest_believed(times: Iterable[datetime], now: datetime) -> datetime | None:
    """Return the latest of some times that are not in the future; None for none.

    Otherwise a clock that was wrong once would stop all trainings until that time.
    """
    return max((at for at in times if at <= now + CLOCK_TOLERANCE), default=None)


def _entry_time(line: Mapping[str, Any]) -> datetime | None:
    """Return the time of a line, None if a person wrote one that cannot be parsed."""
    try:
        at = datetime.fromisoformat(str(line.get("at", "")))
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def _format_time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
