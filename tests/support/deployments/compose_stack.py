"""The services of docker-compose.yml under a name of their own, on a real Docker engine.

Example:
    >>> with Stack.up_with("demo") as stack:
    ...     stack.wait_until_well()
    ...     stack.metric("stream", "fingerprint_stream_messages_total")
    97740.0

Where no engine answers and the container lab lies beside the project, its `prepare.sh` (as root) brings one, with stand-ins for
images that cannot be pulled there. What they replace, and how they differ: the docstring of compose.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

ROOT = Path(__file__).parents[3]
LAB = ROOT.parent / "shared/containerlab/prepare.sh"
PROJECT = "fingerprint-test"
WEB_PORT, PROMETHEUS_PORT = 18080, 19090
STAND_INS = {  # what the container lab has; an environment that names others (a newer tag, a digest) is heard
    "PYTHON_IMAGE": "python:3.11-slim-bookworm",
    "POSTGRES_IMAGE": "postgres:15-bookworm",
    "KAFKA_IMAGE": "apache/kafka:4.1.0",
    "PROMETHEUS_IMAGE": "prom/prometheus:v2.42.0",
}
ENGINE_PIDS = (  # a daemon that finds its own file with the number of a process, whichever, refuses to start
    ("dockerd", Path("/var/run/docker.pid")),
    ("containerd", Path("/var/run/docker/containerd/containerd.pid")),
)
COUNT_RECORDS = Path(__file__).with_name("count_records.py").read_text()  # run in a container
PAUSE = 0.5  # seconds between two looks at what is waited for

T = TypeVar("T")


def engine() -> None:
    """A Docker engine with `docker compose`, or a sentence that says what is missing."""
    if not _answers() and LAB.exists() and os.geteuid() == 0:
        for name, pid_file in ENGINE_PIDS:
            clear_pid_file(name, pid_file)
        subprocess.run([str(LAB)], check=True)
    if not _answers():
        raise RuntimeError(
            "needs a Docker engine with the compose plugin: `docker compose version` and `docker info` must answer"
        )


def clear_pid_file(name: str, pid_file: Path) -> None:
    """Remove what a daemon that answers no more left behind: its pid file, and itself if it still runs.

    Example:
        >>> clear_pid_file("dockerd", Path("/var/run/docker.pid"))

    The number may be another process's by now: that one is left alone.
    """
    try:
        process = psutil.Process(int(pid_file.read_text()))
        if process.name() == name:
            process.send_signal(signal.SIGKILL)
            process.wait(10)
    except (FileNotFoundError, ValueError, psutil.Error):
        pass  # no file, no number, no process of that number, or one whose parent never waits for it
    pid_file.unlink(missing_ok=True)


def _answers() -> bool:
    commands = (["docker", "info"], ["docker", "compose", "version"])
    try:
        return all(subprocess.run(each, capture_output=True).returncode == 0 for each in commands)
    except FileNotFoundError:
        return False


def until(what: str, seconds: float, look: Callable[[], T | None]) -> T:
    """What `look` gives as soon as it is something, asked again and again for so many seconds at most."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain until {what}")
        time.sleep(PAUSE)
    return found


@dataclass
class Stack:
    """One `docker compose` project. `began` is when it was brought up, in seconds since 1970."""

    profiles: tuple[str, ...]
    began: float = field(default_factory=time.time)

    @classmethod
    @contextmanager
    def up_with(cls, *profiles: str) -> Iterator[Stack]:
        """Built, brought up from nothing, and taken down with all it kept."""
        engine()
        stack = cls(profiles)
        stack.down()
        stack.compose("build", "--quiet", seconds=2400)
        stack.began = time.time()
        try:
            stack.compose("up", "--detach", "--no-build", seconds=600)
            yield stack
        except BaseException:
            print(stack.compose("ps", "--all"), stack.compose("logs", "--no-color", "--tail", "40"), sep="\n")
            raise
        finally:
            stack.down()

    def down(self) -> None:
        self.compose("--profile", "observe", "down", "--volumes", "--remove-orphans", "--timeout", "20")

    def compose(self, *arguments: str, seconds: float = 300) -> str:
        """What `docker compose` printed. AssertionError with what it said where it failed."""
        profiles = [part for name in self.profiles for part in ("--profile", name)]
        command = ["docker", "compose", "--project-name", PROJECT, *profiles, *arguments]
        environment = (
            STAND_INS | os.environ | {"WEB_PORT": str(WEB_PORT), "PROMETHEUS_PORT": str(PROMETHEUS_PORT)}
        )
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds
        )
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    # --- how its services are -----------------------------------------------------------------------------------------

    def services(self) -> list[dict[str, Any]]:
        """A row a container: Service, State, Health, ExitCode ..."""
        return [json.loads(line) for line in self.compose("ps", "--all", "--format", "json").splitlines()]

    def troubles(self) -> list[str]:
        """Containers that are neither well nor ended as they should."""
        return [f"{each['Name']}: {each['Status']}" for each in self.services() if not _is_well(each)]

    def wait_until_well(self, seconds: float = 240) -> None:
        until("every service is well", seconds, lambda: not self.troubles())

    def containers(self, service: str) -> list[str]:
        """Names of a service's containers that run."""
        return sorted(
            each["Name"]
            for each in self.services()
            if each["Service"] == service and each["State"] == "running"
        )

    def exit_status(self, service: str) -> int | None:
        """Of a service that runs once; None while it runs."""
        ended = [
            each["ExitCode"]
            for each in self.services()
            if each["Service"] == service and each["State"] == "exited"
        ]
        return ended[0] if ended else None

    # --- what they say ------------------------------------------------------------------------------------------------

    def execute(self, service: str, *command: str, index: int = 1) -> str:
        """What a command in a running container prints."""
        return self.compose("exec", "--no-TTY", "--index", str(index), service, *command)

    def metric(self, container: str, name: str) -> list[float]:
        """Its values of a metric, one for each combination of labels."""
        fetch = "import urllib.request as web; print(web.urlopen('http://127.0.0.1:9464/metrics').read().decode())"
        done = subprocess.run(
            ["docker", "exec", container, "python", "-c", fetch], capture_output=True, text=True
        )
        lines = [line for line in done.stdout.splitlines() if line.split("{")[0].split(" ")[0] == name]
        return [float(line.rsplit(" ", 1)[1]) for line in lines]

    def since_up(self) -> float:
        """Seconds."""
        return time.time() - self.began

    def first_message(self, topic: str) -> float:
        """When it was sent, in seconds after `up`."""
        asked = (
            "--bootstrap-server",
            "localhost:9092",
            "--topic",
            topic,
            "--from-beginning",
            "--max-messages",
            "1",
        )
        shown = ("--property", "print.timestamp=true", "--property", "print.value=false")
        said = self.execute("kafka", "/opt/kafka/bin/kafka-console-consumer.sh", *asked, *shown)
        return int(said.split(":")[1].split()[0]) / 1000 - self.began

    def ends(self, topic: str) -> int:
        """How many messages a topic ever had, over its partitions."""
        asked = ("--bootstrap-server", "localhost:9092", "--describe", "--all-groups")
        lines = [
            line.split()
            for line in self.execute("kafka", "/opt/kafka/bin/kafka-consumer-groups.sh", *asked).splitlines()
        ]
        ends = {(row[1], row[2]): int(row[4]) for row in lines if len(row) > 4 and row[4].isdecimal()}
        return sum(end for (name, _), end in ends.items() if name == topic)

    def records(self, topic: str) -> int:
        """How many records lie in a topic, be they messages of their own or rows of columnar ones."""
        return int(self.execute("ingest", "python", "-c", COUNT_RECORDS, topic).split()[-1])

    def lag(self) -> int:
        """Messages that some group has not committed yet."""
        asked = ("--bootstrap-server", "localhost:9092", "--describe", "--all-groups")
        lines = [
            line.split()
            for line in self.execute("kafka", "/opt/kafka/bin/kafka-consumer-groups.sh", *asked).splitlines()
        ]
        return sum(int(row[5]) for row in lines if len(row) > 5 and row[5].isdecimal())


def _is_well(service: dict[str, Any]) -> bool:
    if service["State"] == "exited":
        return bool(service["ExitCode"] == 0)
    return service["State"] == "running" and service["Health"] in ("healthy", "")
