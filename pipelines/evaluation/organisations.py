"""The organisations that `evaluate` simulates: which seeds are for what, how many attacks, where they are kept.

Example:
    >>> with simulated_organisation(50, 28, 0, attacks_for(50), Path("build/organisations")) as folder:
    ...     labels = read_labels([str(folder)])
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fingerprint import simulation
from fingerprint.core.errors import FingerprintError
from fingerprint.simulation.attacks import STRENGTHS
from fingerprint.simulation.world_parameters import DEFAULT_WORLD, WorldParameters
from pipelines.simulate import simulate_organisation

DEVELOPMENT_SEEDS = (0, 1, 2)  # looked at with every change
FINAL_SEEDS = (101, 102, 103)  # for the final table alone: once tuned by, they are final no more
FIRST_DEVELOPMENT_WORLD = 2000  # seeds of worlds, counted up from there; the same rule holds
# 3000 to 3011 and 4000 to 4005, 5000 to 5005 and so on to 9000 to 9005 were looked at.
FIRST_FINAL_WORLD = 10_000
MAX_WORLDS = 100
MIN_DAYS = 8  # of a history: fewer cannot be split
MIN_ATTACKS, MAX_ATTACKS = 3, 24  # attack sessions of each strength


def attacks_for(principals: int) -> int:
    """Return how many attack sessions an organisation gets.

    As many of each strength, one for every ten principals, at least 12 and at most 96.

    >>> attacks_for(50), attacks_for(500), attacks_for(5000)
    (12, 48, 96)
    """
    each = principals // (10 * len(STRENGTHS))
    return len(STRENGTHS) * min(max(each, MIN_ATTACKS), MAX_ATTACKS)


def seeds_for(given: list[int] | None, final: bool) -> tuple[int, ...]:
    """Return the seeds that are asked for; the first of development by default.

    Raises FingerprintError if both the final seeds and others are asked for.
    """
    if final and given:
        raise FingerprintError("--final has its own seeds: leave --seed out")
    if final:
        return FINAL_SEEDS
    return tuple(given or DEVELOPMENT_SEEDS[:1])


def world_seeds(count: int, final: bool) -> tuple[int, ...]:
    """Return the seeds of so many worlds: those of development, or the final ones.

    >>> world_seeds(3, final=False), world_seeds(2, final=True)
    ((2000, 2001, 2002), (10000, 10001))

    Raises FingerprintError for fewer than one world, or more than there are seeds.
    """
    if not 1 <= count <= MAX_WORLDS:
        raise FingerprintError(f"--worlds is {count}: give 1 to {MAX_WORLDS}")
    first = FIRST_FINAL_WORLD if final else FIRST_DEVELOPMENT_WORLD
    return tuple(range(first, first + count))


def world_days(days: int, parameters: WorldParameters) -> int:
    """Return how many days a world has, where so many are asked for."""
    return max(MIN_DAYS, round(days * parameters.history))


@contextmanager
def simulated_organisation(
    principals: int,
    days: int,
    seed: int,
    attacks: int,
    keep: Path | None,
    progress: Callable[[int, int], None] | None = None,
    parameters: WorldParameters = DEFAULT_WORLD,
) -> Iterator[Path]:
    """Yield a folder with the organisation's records and labels; under `keep` it stays, and is found again.

    A folder is whole or not there. Its name holds a digest of the simulator and the world, so that another one makes its own.
    """
    name = (
        f"{principals}-principals-{days}-days-{attacks}-attacks-seed-{seed}-{_simulator_digest(parameters)}"
    )
    with tempfile.TemporaryDirectory(prefix="fingerprint-") as temporary:
        folder = (keep or Path(temporary)) / name
        if not folder.exists():
            unfinished = folder.with_name(f".{name}")
            shutil.rmtree(unfinished, ignore_errors=True)  # of a run that was stopped
            simulate_organisation(
                principals, days, seed, unfinished, attacks, parameters=parameters, progress=progress
            )
            unfinished.rename(folder)
        yield folder


def _simulator_digest(parameters: WorldParameters) -> str:
    """Return a digest of the simulator's source and the world: 8 hexadecimal digits."""
    sources = sorted(Path(str(simulation.__file__)).parent.glob("*.py"))
    content = b"".join(source.read_bytes() for source in sources)
    return hashlib.sha256(content + repr(parameters).encode()).hexdigest()[:8]
