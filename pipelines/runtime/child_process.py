"""A program in a process of its own: its memory is given back when it ends, and what kills it kills nothing else.

Example:
    >>> ended = run(["train", "--json", ...], scratch, asked_to_end)
    >>> ended.status, ended.figures["version"]
    (0, '2026-03-02-5b3c0a1e')
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

LOOK_SECONDS = 0.2  # between two looks at the process, and whether it is wanted still
END_SECONDS = 20.0  # that it has to end when it is asked to


class Ended(NamedTuple):
    """Its exit status (below 0: the signal that killed it), and what it printed, where that was JSON."""

    status: int
    figures: dict[str, Any]


def run(arguments: Sequence[str], scratch: Path, unwanted: Callable[[], bool]) -> Ended | None:
    """`fingerprint ARGUMENTS` under the same environment, with `scratch` for its temporary files; its standard error is ours.
    None where it became `unwanted` meanwhile: then it is over, too."""
    command = [sys.executable, "-m", "pipelines.cli", *arguments]
    environment = os.environ | {"TMPDIR": str(scratch)}
    with TemporaryFile() as output:
        child = subprocess.Popen(command, stdout=output, env=environment)  # noqa: S603 - our own program
        try:
            while not _over(child, LOOK_SECONDS):
                if unwanted():
                    return None
        finally:
            _end(child)
        return Ended(child.returncode, _figures(output))


def _end(child: subprocess.Popen[bytes]) -> None:
    """As by Ctrl-C, which lets it put its temporary files away; then by force. Nothing where it is over already."""
    child.send_signal(signal.SIGINT)
    if not _over(child, END_SECONDS):
        child.kill()
        child.wait()


def _over(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _figures(output: IO[bytes]) -> dict[str, Any]:
    output.seek(0)
    try:
        figures = json.loads(output.read())
    except ValueError:  # it came to no figures
        return {}
    return figures if isinstance(figures, dict) else {}
