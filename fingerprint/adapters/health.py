"""Health and metrics of a program over HTTP: /livez, /readyz and /metrics.

Example:
    >>> with serve_health("127.0.0.1", 0, {"kafka": lambda: None}) as health:
    ...     health.url("/readyz")
    'http://127.0.0.1:40123/readyz'

A *check* returns None if it passes, else a sentence. `/readyz` answers 200 if every check of `ready` passes, else 503 with the
sentences; `/livez` does the same for the checks of `alive` (a program that hangs is not alive; one without its broker is).
Metrics are in Prometheus' format, with a gauge for each check of `ready` (`fingerprint_ready`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from fingerprint.core.errors import FingerprintError

Check = Callable[[], str | None]
Checks = Mapping[str, Check]
_TEXT_PLAIN = "text/plain; charset=utf-8"


class HealthServer:
    """A server in a thread, which runs until `close`."""

    def __init__(
        self, host: str, port: int, ready: Checks, alive: Checks, registry: CollectorRegistry
    ) -> None:
        registries = (registry, _server_registry(ready))
        handler = type("Handler", (_Handler,), {"ready": ready, "alive": alive, "registries": registries})
        try:
            self.server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise FingerprintError(
                f"the health server cannot listen on {host}:{port} ({error.strerror or error}); "
                "set health.host and health.port"
            ) from None
        self.server.daemon_threads = True
        self.thread = Thread(target=self.server.serve_forever, args=(0.1,), name="health", daemon=True)
        self.thread.start()

    def url(self, path: str) -> str:
        """Return the URL of a path on this server."""
        host, port = self.server.server_address[:2]
        return f"http://{host!s}:{port}{path}"

    def close(self) -> None:
        """Stop the server and wait for its thread."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@contextmanager
def serve_health(
    host: str,
    port: int,
    ready: Checks,
    alive: Checks | None = None,
    registry: CollectorRegistry = REGISTRY,
) -> Iterator[HealthServer]:
    """Run a health server while the block runs; port 0 takes any free one. Raise FingerprintError if it cannot listen."""
    health = HealthServer(host, port, ready, alive or {}, registry)
    try:
        yield health
    finally:
        health.close()


class _Handler(BaseHTTPRequestHandler):
    ready: Checks
    alive: Checks
    registries: tuple[CollectorRegistry, ...]

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/livez":
            self._answer(*_run_checks(self.alive))
        elif path == "/readyz":
            self._answer(*_run_checks(self.ready))
        elif path == "/metrics":
            self._answer(200, b"".join(map(generate_latest, self.registries)), CONTENT_TYPE_LATEST)
        else:
            self._answer(404, b"/livez, /readyz or /metrics\n")

    def _answer(self, status: int, body: bytes, type_: str = _TEXT_PLAIN) -> None:
        self.send_response(status)
        self.send_header("Content-Type", type_)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing: probes come every few seconds."""


class Readiness(Collector):
    """The checks of /readyz as a gauge, run at each scrape."""

    def __init__(self, ready: Checks) -> None:
        self.ready = ready

    def collect(self) -> Iterator[Metric]:
        """Yield the gauge, one sample a check."""
        gauge = GaugeMetricFamily(
            "fingerprint_ready",
            "Whether a check of /readyz passes: 1 if it does, 0 if not.",
            labels=["check"],
        )
        for name, check in self.ready.items():
            gauge.add_metric([name], check() is None)
        yield gauge


def _server_registry(ready: Checks) -> CollectorRegistry:
    """Return a registry of this server's own metrics, so that several servers in one process do not collide."""
    registry = CollectorRegistry()
    registry.register(Readiness(ready))
    return registry


def _run_checks(checks: Checks) -> tuple[int, bytes]:
    troubles = [f"{name}: {trouble}" for name, check in checks.items() if (trouble := check())]
    return (503, "\n".join([*troubles, ""]).encode()) if troubles else (200, b"ok\n")
