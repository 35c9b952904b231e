"""Programs of ours, forked from a process that has imported everything once: a new Python takes over a second of CPU for that.

Example:
    >>> ingest = fingerprint("ingest", "--json", environment=stream.environment())
    >>> ingest.send_signal(signal.SIGTERM)
    >>> out, err = ingest.communicate(timeout=60)

It is the `forkserver` of multiprocessing. A test of how a program starts wants a Python of its own instead.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess as Process
from pathlib import Path
from tempfile import TemporaryDirectory

from fingerprint.streaming import lag_monitor
from pipelines import cli

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        __name__,
        "alembic",
        "boto3",
        "fingerprint.sources.cloudtrail.duckdb_reader",
        "fingerprint.web.app",
        "pipelines.cli.app",
        "pipelines.deliver",
        "pipelines.ingest",
        "pipelines.serve",
        "pipelines.stream",
        "tests.support.checkpoint_folder",
        "tests.support.compiled_kernels",
        "tests.support.crash_on_poison",
        "tests.support.crashing_stream",
    ]
)


class Forked:
    """A function in a process of its own, used as `subprocess.Popen` of a program whose outputs are text is used."""

    def __init__(self, run: Callable[..., None], *arguments: str, environment: Mapping[str, str]) -> None:
        self._folder = TemporaryDirectory()
        self._out, self._err = (Path(self._folder.name) / name for name in ("out", "err"))
        self._process = PROCESSES.Process(
            target=_become, args=(run, arguments, dict(environment), self._out, self._err), daemon=True
        )
        self._process.start()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    @property
    def err(self) -> str:
        """What it has written to standard error until now."""
        return self._err.read_text() if self._err.exists() else ""

    @property
    def out(self) -> str:
        return self._out.read_text() if self._out.exists() else ""

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self._process), timeout or 0.0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.wait(timeout)
        return self.out, self.err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self._process.pid or 0, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start_with_pipe(run: Callable[..., None], *arguments: object) -> tuple[Process, Connection]:
    """A process that is given one more argument, the end of a pipe to write to; ours is returned."""
    ours, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=run, args=(*arguments, theirs))
    process.start()
    theirs.close()
    return process, ours


def fingerprint(*arguments: str, environment: Mapping[str, str]) -> Forked:
    """The command line with these arguments."""
    return Forked(run_command_line, *arguments, environment=environment)


def fingerprint_unhurried(*arguments: str, environment: Mapping[str, str]) -> Forked:
    """The same, and no interval is closed by the clock: of records as old as ours it closes all, wherever the topic pauses."""
    return Forked(_run_unhurried, *arguments, environment=environment)


def fingerprint_under_the_usual_umask(*arguments: str, environment: Mapping[str, str]) -> Forked:
    """The same, as a shell starts it: what it writes others may read, unless it says otherwise."""
    return Forked(_run_under_the_usual_umask, *arguments, environment=environment)


def fingerprint_without_torch(*arguments: str, environment: Mapping[str, str]) -> Forked:
    """The same where torch cannot be imported, and was not imported by the modules that are there already."""
    return Forked(_run_without_torch, *arguments, environment=environment)


class _NoTorch:
    """Says to `import` that there is no torch."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "torch":
            raise ModuleNotFoundError("hidden", name=name)


def _run_without_torch(*arguments: str) -> None:
    assert "torch" not in sys.modules
    sys.meta_path.insert(0, _NoTorch)  # type: ignore[arg-type]
    run_command_line(*arguments)


def _run_under_the_usual_umask(*arguments: str) -> None:
    os.umask(0o022)
    run_command_line(*arguments)


def _run_unhurried(*arguments: str) -> None:
    lag_monitor.LagMonitor.poll = lambda *_: None  # type: ignore[method-assign]
    run_command_line(*arguments)


def run_command_line(*arguments: str) -> None:
    sys.argv = ["fingerprint", *arguments]
    cli.main()


def _become(
    run: Callable[..., None], arguments: tuple[str, ...], environment: dict[str, str], out: Path, err: Path
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for number, file in ((1, out), (2, err)):
        with file.open("wb") as opened:
            os.dup2(opened.fileno(), number)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    try:
        run(*arguments)
    finally:
        atexit._run_exitfuncs()  # which multiprocessing leaves out
