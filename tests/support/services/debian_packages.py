"""Debian's packages without root: fetched once with apt-get, which needs none for that, and unpacked into a folder.

Example:
    >>> fetch("postgresql", Path("build/services/postgres"))
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.support.services.atomic_install import into_place


class Unavailable(Exception):
    """This machine cannot run the program; the text says what to do."""


def fetch(package: str, folder: Path, *beside: str) -> None:
    """A package and what this machine lacks of what it needs, unpacked and moved into place when complete.

    Packages `beside` it have files that the program looks for in its own folder: they come although the machine has them.
    """
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise Unavailable(
            f"these tests need {package}, and this machine has no apt-get to fetch it: install it"
        )
    staged = folder.with_name(f"{folder.name}.{os.getpid()}").absolute()
    staged.mkdir(parents=True)
    try:
        plan = said("apt-get", "install", "--simulate", "--no-install-recommends", package)
        missing = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
        said("apt-get", "download", "-qq", *{*missing, *beside}, cwd=staged)
        for each in staged.glob("*.deb"):
            said("dpkg", "-x", str(each), str(staged))
            each.unlink()
        into_place(staged, folder)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def libraries(root: Path) -> dict[str, str]:
    """The environment in which unpacked programs find their libraries; PulseAudio keeps one in a folder of its own."""
    folders = [*(root / "usr/lib").glob("*-linux-gnu"), *(root / "usr/lib").glob("*-linux-gnu/pulseaudio")]
    return {"LD_LIBRARY_PATH": ":".join(map(str, folders))}


def said(*command: str, **options: Any) -> str:
    """What a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise Unavailable(f"{command[0]} {command[1]}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout
