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

POLL_SECONDS = 0.2  # between two looks at the process, and whether it is wanted still
TERMINATION_SECONDS = 20.0  # that it has to end when it is asked to


class CompletedCommand(NamedTuple):
    """Its exit status (below 0: the signal that killed it), and what it printed, where that was JSON."""

    exit_status: int
    figures: dict[str, Any]


def run_command(
    arguments: Sequence[str], scratch: Path, should_stop: Callable[[], bool]
) -> CompletedCommand | None:
    """`fingerprint ARGUMENTS` under the same environment, with `scratch` for its temporary files; its standard error is ours.
    None where it became `unwanted` meanwhile: then it is over, too."""
    command = [sys.executable, "-m", "pipelines.cli", *arguments]
    environment = os.environ | {"TMPDIR": str(scratch)}
    with TemporaryFile() as output:
        child = subprocess.Popen(command, stdout=output, env=environment)  # noqa: S603 - our own program
        try:
            while not _has_exited(child, POLL_SECONDS):
                if should_stop():
                    return None
        finally:
            _terminate(child)
        return CompletedCommand(child.returncode, _parse_figures(output))


def _terminate(child: subprocess.Popen[bytes]) -> None:
    """As by Ctrl-C, which lets it put its temporary files away; then by force. Nothing where it is over already."""
    child.send_signal(signal.SIGINT)
    if not _has_exited(child, TERMINATION_SECONDS):
        child.kill()
        child.wait()


def _has_exited(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _parse_figures(output: IO[bytes]) -> dict[str, Any]:
    output.seek(0)
    try:
        figures = json.loads(output.read())
    except ValueError:  # it came to no figures
        return {}
    return figures if isinstance(figures, dict) else {}
