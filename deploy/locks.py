"""Check that an environment is what its lock says, and write a CycloneDX SBOM of every lock: `make sbom`, without a network.

Example:
    $ python deploy/locks.py dev
    259 packages are those of locks/dev.txt
    build/sbom/serve.cdx.json: 90 components
    ...
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

from packaging.markers import Marker
from packaging.utils import canonicalize_name
from pip_requirements_parser import InstallRequirement, RequirementsFile

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "locks"
SBOM = ROOT / "build" / "sbom"
UNLOCKED = {"cloudtrail-fingerprint", "pip", "setuptools"}  # the project; what a new environment brings


@cache
def requirements(lock: Path) -> list[InstallRequirement]:
    """Return what a lock names, for every platform. SystemExit with its lines that cannot be read."""
    read = RequirementsFile.from_file(str(lock))
    if read.invalid_lines:
        sys.exit(f"{lock.name}: {read.invalid_lines[0]}")
    return read.requirements


def pinned(lock: Path) -> dict[str, str]:
    """Return the version of each package that a lock has for this Python and platform."""
    here = [each for each in requirements(lock) if each.marker is None or Marker(str(each.marker)).evaluate()]
    return {canonicalize_name(each.name): each.get_pinned_version for each in here}


def differences(lock: Path) -> list[str]:
    """Return a sentence for each package that is missing here, has another version, or stands in no lock."""
    wanted = pinned(lock)
    there = {canonicalize_name(each.name): each.version for each in distributions()}
    strange = sorted(there.keys() - wanted.keys() - UNLOCKED)
    return [
        f"{name} {there.get(name, 'is not installed')}, locked is {version}"
        for name, version in sorted(wanted.items())
        if there.get(name) != version
    ] + [f"{name} {there[name]} is in no lock" for name in strange]


def write_sbom(lock: Path) -> Path:
    """Write the components of a lock with versions and hashes, the same bytes for the same lock."""
    SBOM.mkdir(parents=True, exist_ok=True)
    file = SBOM / f"{lock.stem}.cdx.json"
    quietly = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "cyclonedx_py",
    ]  # it misses a graph that a lock does not have
    of = ["requirements", str(lock), "--pyproject", str(ROOT / "pyproject.toml")]
    to = ["--output-reproducible", "--no-validate", "--output-format", "JSON", "--output-file", str(file)]
    subprocess.run([*quietly, *of, *to], check=True, capture_output=True)  # noqa: S603 - this Python's own module
    return file


def main(installed: str) -> None:
    """Exit with what differs, if anything does; `installed` is the lock of this environment."""
    if wrong := differences(LOCKS / f"{installed}.txt"):
        sys.exit("\n".join([f"not what locks/{installed}.txt says; `make clean` starts again:", *wrong]))
    print(f"{len(pinned(LOCKS / f'{installed}.txt'))} packages are those of locks/{installed}.txt")
    for lock in sorted(LOCKS.glob("*.txt")):
        file = write_sbom(lock)
        print(f"{file.relative_to(ROOT)}: {len(json.loads(file.read_text())['components'])} components")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "dev")
