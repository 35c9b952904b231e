"""CloudTrail of a simulated organisation, a file a day: who works, what is stolen, how records arrive.

Example:
    >>> from tempfile import mkdtemp
    >>> simulate_organisation(principals=5, days=2, seed=1, out=Path(mkdtemp())).principals
    5
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import islice
from pathlib import Path

from fingerprint.core.alert import FingerprintError
from fingerprint.simulation import attacks as intruders
from fingerprint.simulation import benign_anomalies as oddities
from fingerprint.simulation.attacks import STRENGTHS
from fingerprint.simulation.benign_anomalies import ANOMALY_PLANNERS
from fingerprint.simulation.days import simulate_day
from fingerprint.simulation.log_delivery import LogDelivery
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.staff import create_staff

DEFAULT_START = date(2026, 1, 5)  # a Monday
LINES_PER_CHUNK = 10_000  # lines compressed at a time
PRINCIPALS, DAYS, ATTACKS, SEED = 40, 20, 4, 7  # of the organisation of `demo` and `simulate-live`


@dataclass
class SimulationSummary:
    """What was written. `records` counts lines with duplicates; `attacks` counts sessions by strength."""

    folder: Path
    principals: int
    records: int = 0
    repeats: int = 0
    bytes: int = 0  # of JSON, before compression
    attack_events: int = 0
    attacks: dict[str, int] = field(default_factory=dict)


def simulate_organisation(
    principals: int,
    days: int,
    seed: int,
    out: Path,
    attacks: int = 0,
    *,
    start: date = DEFAULT_START,
    sharp: bool = False,
    scale: float = 1.0,
    accounts: int = 3,
    strengths: Sequence[str] = STRENGTHS,
    surprises: Sequence[str] = tuple(ANOMALY_PLANNERS),
    progress: Callable[[int, int], None] | None = None,
) -> SimulationSummary:
    """Write YYYY-MM-DD.jsonl.gz a day, in the order of delivery, labels.jsonl and labels.surprises.jsonl.

    labels.jsonl has a line an attack's event: event_id, session, technique, strength, principal.
    labels.surprises.jsonl says which harmless oddities (`surprises`, by name) befell whom and when; they come
    in the last week of two or more.

    The same arguments give the same bytes; the same seed gives the same organisation with and without
    attacks. Work past the last midnight is recorded past it, unless the end is `sharp`.
    `scale` multiplies what everybody does; `progress` is called with (days done, records so far).
    Raise FingerprintError for impossible arguments.
    """
    _check_arguments(principals, days, accounts, scale, attacks)
    organisation = Organisation.create(seed, start, days, accounts)
    staff = create_staff(organisation, principals, scale)
    harmless = oddities.plan_anomalies(organisation, staff, surprises)
    plans = intruders.plan_attacks(organisation, staff, attacks, tuple(strengths))
    done = SimulationSummary(out, principals, attacks=dict(Counter(attack.strength for attack in plans)))
    delivery = LogDelivery(organisation, sharp)
    out.mkdir(parents=True, exist_ok=True)
    odd = (json.dumps(surprise.to_label(organisation)) + "\n" for surprise in harmless)
    (out / "labels.surprises.jsonl").write_text("".join(odd))
    with (out / "labels.jsonl").open("w") as labels:
        for number in range(days):
            day = simulate_day(staff, plans, harmless, number)
            event_ids, lines = delivery.deliver_day(number, day.calls, day.sessions)
            _write_lines(out / f"{organisation.date(number)}.jsonl.gz", lines, done)
            for label in day.labels(event_ids, delivery.end_of_activity(number)):
                labels.write(json.dumps(label) + "\n")
                done.attack_events += 1
            if progress:
                progress(number + 1, done.records)
    done.repeats = delivery.duplicates
    return done


def training_days(days: int) -> int:
    """Return how many of `days` are history: attacks come in the last quarter."""
    return days * 3 // 4


def first_day(until: str, days: int, today: date) -> date:
    """Return the first of `days` days that end at the midnight (UTC) with which a date, or `today`, begins.

    Example:
        >>> beginning("2026-03-02", 28, today=date(2026, 5, 1))
        datetime.date(2026, 2, 2)
    """
    try:
        end = today if until == "today" else date.fromisoformat(until)
        return end - timedelta(days=days)
    except (ValueError, OverflowError):
        raise FingerprintError(f"--until {until} is no day: give one like 2026-01-31, or today") from None


def _write_lines(path: Path, lines: Iterable[str], done: SimulationSummary) -> None:
    lines = iter(lines)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", compresslevel=3, fileobj=raw, mtime=0) as packed:
        while some := list(islice(lines, LINES_PER_CHUNK)):
            text = "".join(some).encode()
            packed.write(text)
            done.records += len(some)
            done.bytes += len(text)


def _check_arguments(principals: int, days: int, accounts: int, scale: float, attacks: int) -> None:
    for name, value, least in (
        ("principals", principals, 1),
        ("days", days, 1),
        ("accounts", accounts, 1),
        ("attacks", attacks, 0),
    ):
        if value < least:
            raise FingerprintError(f"--{name} is {value}: give {least} or more")
    if not 0 < scale <= 100:
        raise FingerprintError(f"--scale is {scale:g}: give a number above 0, at most 100")
