"""A real broker for the bench, with the topics of a stream; scorers, producers and readers are other processes.

The broker is that of the tests (`tests/support/services/kafka.py`), so the bench runs from a checkout.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fingerprint.adapters.system import SystemClock
from fingerprint.core.settings import Settings
from fingerprint.streaming.bounded_read import poll_until_end
from pipelines.bench.report import Skipped
from pipelines.runtime import wiring

CHECKOUT = Path(__file__).parents[2]
PARTITIONS = 4
START_TIMEOUT_SECONDS = 300.0  # seconds that a program may take


def import_test_support(name: str) -> Any:
    """Return a module of `tests.support`, such as `services.kafka`. Raises Skipped outside a checkout, which has no tests."""
    sys.path.insert(0, str(CHECKOUT))
    try:
        return importlib.import_module(f"tests.support.{name}")
    except ImportError:
        raise Skipped("the broker of the tests is not here; run it from a checkout") from None
    finally:
        sys.path.remove(str(CHECKOUT))


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """Yield the address of a broker. Raises Skipped if none can be started: without a checkout or without Java."""
    kafka = import_test_support("services.kafka")
    try:
        with kafka.Broker.started(folder) as broker:
            yield broker.address
    except kafka.Unavailable as reason:
        raise Skipped(str(reason)) from None


@dataclass(frozen=True)
class BenchmarkStream:
    """The topics of one stream on a broker, and the bank that its scorers use."""

    address: str
    name: str
    bank: Path
    folder: Path
    partitions: int = PARTITIONS
    raw_partitions: int = PARTITIONS

    def create(self) -> BenchmarkStream:
        """Create the topics."""
        from kafka import KafkaAdminClient
        from kafka.admin import NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self.address)
        counts = {"raw": self.raw_partitions, "events": self.partitions}
        counts |= dict.fromkeys(("alerts", "votes", "events.dlq", "raw.dlq"), 1)
        new = [NewTopic(f"{self.name}.{topic}", count, 1) for topic, count in counts.items()]
        admin.create_topics(new, wait_for_metadata=True)
        admin.close()
        return self

    def settings(self, client: str, group: str = "bench", port: int = 0) -> dict[str, dict[str, Any]]:
        """Return the sections of the settings that differ from the defaults."""
        topics = {f"{topic}_topic": f"{self.name}.{topic}" for topic in ("raw", "events", "alerts", "votes")}
        return {
            "kafka": {"bootstrap_servers": [self.address], "client": client, "group_id": group, **topics},
            "health": {"port": port},
            "checkpoints": {"url": str(self.folder / group / "checkpoints")},
            "database": {"url": f"sqlite:///{self.folder / group}/alerts.sqlite"},
        }

    def start(
        self, program: str, *arguments: str, client: str = "kafka-python", group: str = "bench", port: int = 0
    ) -> subprocess.Popen[str]:
        """Start `fingerprint <program>` as a process of its own."""
        (self.folder / group).mkdir(exist_ok=True)
        own = {
            f"FINGERPRINT_{section}__{key}".upper(): value[0] if isinstance(value, list) else str(value)
            for section, table in self.settings(client, group, port).items()
            for key, value in table.items()
        }
        command = [sys.executable, "-m", "pipelines.cli", program, *arguments, "--json"]
        with (self.folder / group / f"{program}.log").open("w") as log:
            return subprocess.Popen(  # noqa: S603
                command, env=os.environ | own, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def send(self, files: list[str], rate: float | None = None) -> subprocess.Popen[str]:
        """Start `fingerprint replay`: the records of files, keyed by principal."""
        return self._replay(files, "events", rate, "--keyed")

    def send_raw(self, files: list[str], rate: float | None = None) -> subprocess.Popen[str]:
        """Start `fingerprint replay`: the records of files as the raw topic has them."""
        return self._replay(files, "raw", rate)

    def _replay(
        self, files: list[str], topic: str, rate: float | None, *options: str
    ) -> subprocess.Popen[str]:
        pace = [] if rate is None else ["--rate", str(rate)]
        return self.start(
            "replay", *files, "--topic", f"{self.name}.{topic}", *options, *pace, client="confluent"
        )

    def ingest(self, client: str, group: str) -> subprocess.Popen[str]:
        """Start `fingerprint ingest` in a group, to the end of the raw topic."""
        return self.start("ingest", "--once", client=client, group=group)

    def send_ingested(self, files: list[str]) -> dict[str, Any]:
        """Send the records of files through `fingerprint ingest`, in columns, and return its figures."""
        process_figures(self.send_raw(files))
        return process_figures(self.ingest("confluent", "ingested"))

    def score(
        self, *options: str, client: str = "kafka-python", group: str, port: int = 0
    ) -> subprocess.Popen[str]:
        """Start `fingerprint stream` in a group, with an alert store and checkpoints of that group."""
        return self.start("stream", "--bank", str(self.bank), *options, client=client, group=group, port=port)

    def read(self, topic: str, client: str, group: str) -> Iterator[list[Any]]:
        """Yield the messages of a topic up to its end, with the consumer of a scorer and in polls of its size."""
        kafka = Settings.model_validate(self.settings(client, group)).kafka
        with wiring.open_consumer(kafka, "bench") as consumer:
            consumer.subscribe([f"{self.name}.{topic}"])
            yield from poll_until_end(consumer)


def process_figures(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the figures that a program prints at its end."""
    out, _ = process.communicate(timeout=START_TIMEOUT_SECONDS)
    if process.returncode:
        raise RuntimeError(f"{' '.join(map(str, process.args))} ended with {process.returncode}")  # type: ignore[arg-type]
    found: dict[str, Any] = json.loads(out)
    return found


def scored_events(figures: dict[str, Any]) -> int:
    """Return how many events a scorer read, repeats included."""
    scored: int = figures["events"] + figures["duplicates"]
    return scored


def free_port() -> int:
    """Return a port of this machine that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_ready(port: int, process: subprocess.Popen[str]) -> None:
    """Wait until a program has joined its group."""
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not _is_ready(f"http://127.0.0.1:{port}/readyz"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the scorer did not become ready")
        SystemClock().sleep(0.05)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False
