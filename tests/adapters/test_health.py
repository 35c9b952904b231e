"""A program answers how it is."""

from __future__ import annotations

import urllib.request
from urllib.error import HTTPError

import pytest
from prometheus_client import CollectorRegistry, Counter

from fingerprint.adapters.health import HealthServer, serve_health
from fingerprint.core.errors import FingerprintError


def ask(health: HealthServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(health.url(path), timeout=5) as answer:  # noqa: S310 - our own server
            return answer.status, answer.read().decode()
    except HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def test_a_program_is_ready_when_every_check_is_content() -> None:
    trouble: list[str] = ["has not joined the group"]
    checks = {"kafka": lambda: trouble[0] if trouble else None, "database": lambda: None}
    with serve_health("127.0.0.1", 0, checks) as health:
        assert ask(health, "/readyz") == (503, "kafka: has not joined the group\n")
        trouble.clear()
        assert ask(health, "/readyz") == (200, "ok\n")


def test_a_program_that_is_not_ready_is_alive_all_the_same() -> None:
    with serve_health("127.0.0.1", 0, {"kafka": lambda: "away"}, {"loop": lambda: None}) as health:
        assert ask(health, "/livez") == (200, "ok\n")


def test_a_program_that_stands_still_is_not_alive() -> None:
    with serve_health("127.0.0.1", 0, {}, {"loop": lambda: "stands still for 301 s"}) as health:
        assert ask(health, "/livez") == (503, "loop: stands still for 301 s\n")


def test_metrics_are_those_of_prometheus() -> None:
    registry = CollectorRegistry()
    Counter("fingerprint_things", "Things.", registry=registry).inc(3)
    with serve_health("127.0.0.1", 0, {}, registry=registry) as health:
        assert "fingerprint_things_total 3.0" in ask(health, "/metrics")[1]
        assert ask(health, "/secrets")[0] == 404


def test_whether_a_program_is_ready_is_a_metric_too() -> None:
    checks = {"kafka": lambda: "away", "database": lambda: None}
    with serve_health("127.0.0.1", 0, checks, registry=CollectorRegistry()) as health:
        told = ask(health, "/metrics")[1]
    assert 'fingerprint_ready{check="kafka"} 0.0' in told
    assert 'fingerprint_ready{check="database"} 1.0' in told


def test_a_port_that_is_taken_is_one_sentence() -> None:
    with serve_health("127.0.0.1", 0, {}) as health:
        port = health.server.server_address[1]
        with pytest.raises(FingerprintError, match=f"cannot listen on 127.0.0.1:{port} .*health.port"):
            HealthServer("127.0.0.1", int(port), {}, {}, CollectorRegistry())
