"""A real Prometheus server for the tests, and promtool: Debian's package, installed, or fetched once without root.

Example:
    >>> promtool("check", "config", "deploy/observe/prometheus.yml")
    >>> with Prometheus.started(Path("/tmp/prometheus")) as server:
    ...     server.query("1 + 1")

The packages rest in `build/services/prometheus`, or in the folder that PROMETHEUS_TEST_PACKAGES names.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from tests.support.services.debian_packages import Unavailable, fetch, libraries
from tests.support.services.ports import free_port

HERE = Path(__file__).parent
INSTALLED = Path("/")
PATIENCE = 60.0  # seconds a start may take before it is an error
# That promtool may take: hours of rules are seconds of processor, on a busy machine many more.
TOOL_SECONDS = 300.0


def root() -> Path:
    """Under what `usr/bin/prometheus` lies, fetched if it is not there yet."""
    if (INSTALLED / "usr/bin/promtool").is_file():
        return INSTALLED
    folder = Path(os.environ.get("PROMETHEUS_TEST_PACKAGES") or HERE.parents[2] / "build/services/prometheus")
    if not folder.is_dir():
        fetch("prometheus", folder)
    if not (folder / "usr/bin/promtool").is_file():
        raise Unavailable(
            "no promtool is in this machine's package prometheus; install Prometheus 2.42 or newer"
        )
    return folder


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What promtool says; its return code is 0 where all is well."""
    where = root()
    command = [str(where / "usr/bin/promtool"), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env=_environment(where), timeout=TOOL_SECONDS
    )


def _environment(where: Path) -> dict[str, str]:
    return os.environ | (libraries(where) if where != INSTALLED else {})


@dataclass
class Prometheus:
    """A server with nothing to scrape, on a free port of this machine."""

    folder: Path
    port: int

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[Prometheus]:
        """A server that answers, until the block ends. Unavailable where it cannot be had."""
        where, server = root(), cls(folder, free_port())
        (folder / "prometheus.yml").write_text("{}\n")
        command = [
            str(where / "usr/bin/prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{server.port}",
        ]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=_environment(where))
        try:
            server.wait(process)
            yield server
        finally:
            process.kill()
            process.wait()

    def wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"Prometheus did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=1) as ready:
                return bool(ready.status == 200)
        except OSError:
            return False

    def query(self, expression: str) -> dict[str, Any]:
        """Its answer: `status` is success or error, and an error says what is wrong."""
        asked = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/api/v1/query?{asked}", timeout=10
            ) as answer:
                return dict(json.load(answer))
        except HTTPError as refusal:
            return dict(json.load(refusal))
