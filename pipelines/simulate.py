"""Write the CloudTrail of a simulated organisation: a file a day, and labels of its attacks and harmless anomalies.

Example:
    >>> from tempfile import mkdtemp
    >>> simulate_organisation(principals=5, days=2, seed=1, out=Path(mkdtemp())).principals
    5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from fingerprint.adapters.files import NOT_RECORDS, SUFFIXES
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import printable
from fingerprint.simulation.attacks import STRENGTHS
from fingerprint.simulation.benign_anomalies import ANOMALY_PLANNERS
from fingerprint.simulation.log_delivery import LogDelivery
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.record_files import SimulationSummary, write_world
from fingerprint.simulation.world import SimulatedWorld
from fingerprint.simulation.world_parameters import DEFAULT_WORLD, WorldParameters

DEFAULT_START = date(2026, 1, 5)  # a Monday
ACCOUNTS = 3


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
    surprises: Sequence[str] = tuple(ANOMALY_PLANNERS),
    parameters: WorldParameters = DEFAULT_WORLD,
    progress: Callable[[int, int], None] | None = None,
) -> SimulationSummary:
    """Simulate an organisation and write its records and labels to the folder `out`.

    - YYYY-MM-DD.jsonl.gz: the records of each day, in the order of delivery
    - labels.jsonl: a line for each attack event, with event_id, session, technique, strength and principal
    - labels.surprises.jsonl: the harmless anomalies, with the principals and the time that each affected. They happen in the
      last week, if there are two weeks or more.

    The same arguments give the same bytes. The same seed gives the same organisation with and without attacks.

    - `sharp`: end at the last midnight; otherwise work that goes on after it is recorded, too
    - `scale`: factor of the activity of all principals
    - `surprises`: names of the harmless anomalies
    - `parameters`: the world; the caller applies its `history` to `days`
    - `progress`: called with (days done, records so far)

    Raises FingerprintError for impossible arguments.
    """
    _check_arguments(principals, days, scale, attacks)
    organisation = Organisation.create(seed, start, days, ACCOUNTS, parameters)
    world = SimulatedWorld.create(organisation, principals, attacks, scale, STRENGTHS, surprises)
    summary = SimulationSummary(
        out, principals, attacks=dict(Counter(attack.strength for attack in world.attacks))
    )
    write_world(world, LogDelivery(organisation, sharp), summary, progress)
    return summary


def check_folder(out: Path, start: date, days: int) -> None:
    """Raise FingerprintError if a folder has other records, because they would be read as part of the same organisation."""
    written = {f"{start + timedelta(days=at)}.jsonl.gz" for at in range(days)}
    found = {each.name for each in out.glob("*") if each.name.endswith(SUFFIXES)} - written
    others = sorted(name for name in found if not name.startswith(NOT_RECORDS))
    if others:
        raise FingerprintError(
            f"--out {out} holds records of another simulation or of your own ({printable(others[0][:80])}), "
            "which would be read together with these: name a new folder"
        )


@dataclass(frozen=True, slots=True)
class SimulatedOrganisation:
    """The organisation of `demo` and `simulate-live`: a history, and some new days with attacks in them."""

    principals: int = 40
    days: int = 20
    attacks: int = 4
    seed: int = 7

    def write_records(
        self, out: Path, until: str, today: date, progress: Callable[[int, int], None]
    ) -> SimulationSummary:
        """Write the records of the organisation, which end at midnight (UTC), at the start of `until`: a date, or `today`."""
        start = first_day(until, self.days, today)
        return simulate_organisation(
            self.principals,
            self.days,
            self.seed,
            out,
            self.attacks,
            start=start,
            sharp=True,
            progress=progress,
        )


def training_days(days: int) -> int:
    """Return how many of `days` are history to train on; attacks are in the last quarter."""
    return days * 3 // 4


def first_day(until: str, days: int, today: date) -> date:
    """Return the first of `days` days before `until`: a date, or `today`.

    Raises FingerprintError if `until` is no date.

    Example:
        >>> first_day("2026-03-02", 28, today=date(2026, 5, 1))
        datetime.date(2026, 2, 2)
    """
    try:
        end = today if until == "today" else date.fromisoformat(until)
        return end - timedelta(days=days)
    except (ValueError, OverflowError):
        raise FingerprintError(f"--until {until} is no day: give one like 2026-01-31, or today") from None


def _check_arguments(principals: int, days: int, scale: float, attacks: int) -> None:
    for name, value, least in (
        ("principals", principals, 1),
        ("days", days, 1),
        ("attacks", attacks, 0),
    ):
        if value < least:
            raise FingerprintError(f"--{name} is {value}: give {least} or more")
    if not 0 < scale <= 100:
        raise FingerprintError(f"--scale is {scale:g}: give a number above 0, at most 100")
