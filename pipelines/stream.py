"""Score the events topic: wait for a bank, connect, and run `StreamService` until asked to end."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from prometheus_client import REGISTRY, Gauge

from fingerprint.adapters import network_table
from fingerprint.adapters.checkpoints import FileCheckpointStore
from fingerprint.adapters.system import SystemClock
from fingerprint.core.log import get_logger
from fingerprint.core.settings import Settings
from fingerprint.registry import versions
from fingerprint.store import masked_url, store_exists
from fingerprint.streaming.metrics import StreamMetrics
from fingerprint.streaming.publisher import StreamAdapters
from fingerprint.streaming.stream_service import StreamService
from pipelines.runtime import backend as backends
from pipelines.runtime import host, wiring
from pipelines.runtime.dependency_probe import Probes, probing
from pipelines.runtime.service import announce_wait, running_service

BANK_POLL_SECONDS = 0.5  # between two checks, which read one small file; also the longest delay of SIGTERM
PROBE_SECONDS = 5.0  # time limit for the answer of a server while there is no bank

log = get_logger("fingerprint.stream")


def run_stream(
    settings: Settings,
    folder: Path,
    once: bool = False,
    wait_for_bank: bool = False,
) -> dict[str, Any]:
    """Run `fingerprint stream` with the adapters that the settings name, and return the figures of `stream --json`.

    Raises FingerprintError without a bank, unless `wait_for_bank`.
    """
    metrics = StreamMetrics(REGISTRY)
    if wait_for_bank and not wait_for_first_bank(folder, settings, metrics.waiting_for_bank):
        return metrics.figures() | {"seconds": 0.0} | host.resources()
    backend = backends.load_backend(settings.backend)
    with (
        closing(wiring.bank_watcher(folder, settings, backend)) as banks,
        wiring.open_consumer(settings.kafka, "stream") as consumer,
        wiring.open_producer(settings.kafka) as producer,
    ):
        with announce_wait(f"the database {masked_url(settings.database.url)}"):
            store = wiring.open_scoring_store(settings)
        checkpoints = FileCheckpointStore(settings.checkpoints)
        adapters = StreamAdapters(consumer, producer, store, checkpoints, SystemClock())
        networks_file = settings.reading.networks_file
        networks = network_table.load_networks(networks_file) if networks_file else None
        stream = StreamService(banks, adapters, settings, metrics, host.process_name(), networks)
        with running_service(settings, stream.not_ready, stream.not_alive, "stream") as stop_requested:
            backends.log_backend(backend)
            wiring.warn_of_missing_topics(settings.kafka, settings.kafka.events_topic)
            return stream.run(stop_requested, once) | host.resources()


def wait_for_first_bank(folder: Path, settings: Settings, waiting_gauge: Gauge) -> bool:
    """Wait until a bank is served; return False if the program was asked to end before that.

    While it waits, the program is ready if Kafka and the database answer, and `waiting_gauge` is 1.
    """
    if versions.served_version(folder) is not None:
        return True
    with (
        probing(_probes(settings)) as not_ready,
        running_service(settings, not_ready, _always_healthy, "stream") as stop_requested,
        waiting_gauge.track_inprogress(),
    ):
        log.info("waiting for the first bank", bank=str(folder))
        while (version := versions.served_version(folder)) is None and not stop_requested():
            SystemClock().sleep(BANK_POLL_SECONDS)
    if version is None:
        log.info("asked to end before there was a bank")
        return False
    log.info("the first bank is served", version=version)
    return True


def _probes(settings: Settings) -> Probes:
    """Return probes of the servers that are needed as soon as there is a bank."""
    return {
        "kafka": lambda: wiring.require_answer(settings.kafka, PROBE_SECONDS),
        "database": lambda: store_exists(settings.database.url),
    }


def _always_healthy() -> None:
    """Report no problem."""
