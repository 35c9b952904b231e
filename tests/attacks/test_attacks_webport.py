"""An attacker at the web port, without an account or with a viewer's: half requests, streams, spraying, a provider that hangs.

Analysts keep their pages in the meantime, and what was tried is seen: a line, a counter, a rule that fires.
"""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest
import yaml
from argon2 import PasswordHasher
from prometheus_client import CollectorRegistry

from fingerprint.adapters import oidc as oidc_adapter
from fingerprint.adapters.oidc import OpenIdProvider
from fingerprint.adapters.system import SystemClock
from fingerprint.core.settings import load_settings
from fingerprint.store import secret_hashes
from fingerprint.web import connection_limits, server
from fingerprint.web.app import create_app
from fingerprint.web.change_feed import MAX_LISTENERS_PER_ACCOUNT
from fingerprint.web.security_events import LINES_PER_SOURCE, SecurityEventLog
from tests.support.monitoring import OBSERVE
from tests.support.security_log import lines_of
from tests.support.services.prometheus import promtool
from tests.support.services.requirement import needed
from tests.support.web_app import Site, store_in
from tests.support.web_server import served

FLOOD = 300  # half requests
THREADS = 40  # that answer pages
HALF = {
    "of a head": b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: ",
    "of a body": b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n\r\nname=",
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    store = store_in(tmp_path)
    yield Site.of(store)
    store.close()


def connected(url: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=60)


def answer(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


def is_closed(connection: socket.socket) -> bool:
    """Waits until the other side closes, whether it says something first or has not even listened."""
    try:
        return answer(connection).split(b" ")[1:2] in ([b"408"], [])
    except ConnectionError:
        return True


def page(url: str) -> int:
    """The status of a page that needs a thread and the alert store."""
    return httpx.get(f"{url}/readyz", timeout=60).status_code


def counted(events: SecurityEventLog, why: str) -> float:
    return events._refused.labels(why)._value.get()


# --- half requests ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", HALF.values(), ids=HALF)
def test_half_requests_are_closed_at_their_deadline_and_others_are_served_in_the_meantime(
    site: Site, monkeypatch: pytest.MonkeyPatch, half: bytes
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 2.0)
    monkeypatch.setattr(server, "BODY_SECONDS", 2.0)
    with served(site.app) as url:
        flood = [connected(url) for _ in range(FLOOD)]
        for connection in flood:
            connection.sendall(half)
        assert page(url) == 200
        assert {answer(connection).split(b" ")[1] for connection in flood} == {b"408"}
        assert page(url) == 200
    assert counted(site.app.state.security, "slow") == FLOOD


def test_a_request_that_trickles_has_no_more_time_than_one_that_stands_still(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 1.0)
    with served(site.app) as url, connected(url) as connection:
        connection.sendall(HALF["of a head"])
        while not select.select([connection], [], [], 0.05)[0]:
            connection.sendall(b"a")
        assert connection.recv(100).startswith(b"HTTP/1.1 408")


def test_half_requests_push_out_each_other_and_no_one_who_is_served(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have an hour, and there are six times as many as connections may be."""
    monkeypatch.setattr(server, "HEAD_SECONDS", 3600.0)
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 50)
    with served(site.app) as url, ExitStack() as opened:
        analyst = opened.enter_context(
            httpx.stream("GET", f"{url}/api/v1/live", headers=shown(site, "analyst"))
        )
        flood = []
        for _ in range(FLOOD):
            flood.append(opened.enter_context(connected(url)))
            flood[-1].sendall(HALF["of a head"])
        assert page(url) == 200
        assert all(map(is_closed, flood[:200]))
        assert next(analyst.iter_lines()).startswith("retry")


def test_anyone_who_takes_no_answers_is_dropped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "WRITE_SECONDS", 0.5)
    with served(site.app) as url, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        connection.setblocking(False)
        asks = b"GET /static/style.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        dropped = select.poll()
        dropped.register(connection, select.POLLHUP | select.POLLERR)
        while not dropped.poll(20):
            try:
                connection.send(asks * 20)
            except BlockingIOError:
                continue
            except ConnectionError:
                break
        assert page(url) == 200
    assert counted(site.app.state.security, "slow") == 1


# --- streams ----------------------------------------------------------------------------------------------------------


def shown(site: Site, role: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {site.tokens[role]}"}


def test_one_account_never_takes_the_places_of_others(site: Site) -> None:
    """A viewer's token opens stream after stream: the oldest of theirs end, and are told to come back much later."""
    with served(site.app) as url, ExitStack() as opened:

        def listening(role: str) -> httpx.Response:
            stream = opened.enter_context(
                httpx.stream("GET", f"{url}/api/v1/live", headers=shown(site, role), timeout=60)
            )
            assert stream.status_code == 200
            return stream

        analyst = listening("analyst").iter_lines()
        assert next(analyst) == "retry: 2000"
        streams = [listening("viewer").iter_lines() for _ in range(MAX_LISTENERS_PER_ACCOUNT + 7)]
        for ended in streams[:7]:
            assert [line for line in ended if line.startswith("retry")] == ["retry: 2000", "retry: 60000"]
        assert site.app.state.broadcaster.listeners == MAX_LISTENERS_PER_ACCOUNT + 1
        assert all(next(alive) == "retry: 2000" for alive in streams[7:])
        assert "data" in "".join(next(analyst) for _ in range(4))


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """argon2 at the least cost it knows."""
    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(secret_hashes, "_hasher", hasher)


@pytest.mark.usefixtures("cheap_hashes")
def test_forty_logins_at_once_stop_no_page(tmp_path: Path) -> None:
    """Every place of argon2 is taken for as long as the page takes."""
    site = Site.of(store_in(tmp_path), load_settings(environment={}, options={"web": {"trusted_proxies": 1}}))
    room = secret_hashes._hash_slots
    with served(site.app) as url, ExitStack() as free:
        for _ in range(secret_hashes.MAX_PARALLEL_HASHES):
            room.acquire()
            free.callback(room.release)
        logins = [login(url, f"192.0.2.{number}", f"stranger{number}") for number in range(THREADS + 5)]
        assert page(url) == 200
        free.close()
        assert {answer(connection).split(b" ")[1] for connection in logins} == {b"401"}


def test_who_floods_the_login_fills_no_queue_in_which_others_wait(tmp_path: Path) -> None:
    site = Site.of(store_in(tmp_path), load_settings(environment={}, options={"web": {"trusted_proxies": 1}}))
    room = secret_hashes._hash_slots
    with served(site.app) as url, ExitStack() as free:
        for _ in range(secret_hashes.MAX_PARALLEL_HASHES):
            room.acquire()
            free.callback(room.release)
        flood = [
            login(url, "192.0.2.1", f"stranger{number}")
            for number in range(connection_limits.MAX_PER_NETWORK + 20)
        ]
        told: list[socket.socket] = []
        while len(told) < 20:  # at once, while the others wait
            told, _, _ = select.select(flood, [], [], 20)
        assert {answer(each).split(b" ")[1] for each in told} == {b"503"}
        colleague = login(url, "198.51.100.7")
        free.close()
        assert answer(colleague).split(b" ")[1] == b"401"
        assert [answer(each).split(b" ")[1] for each in flood if each not in told] == [
            b"401"
        ] * connection_limits.MAX_PER_NETWORK


def login(url: str, address: str, name: str = "stranger") -> socket.socket:
    """A login of someone unknown, sent; its answer is still to be read."""
    connection, form = connected(url), f"name={name}&password=four+plain+english+words".encode()
    head = (
        f"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: {address}\r\nConnection: close\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(form)}\r\n\r\n"
    )
    connection.sendall(head.encode() + form)
    return connection


def test_more_logins_than_can_wait_are_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "MAX_WAITING", 0)
    site = Site.of(store_in(tmp_path))
    refused = site.no_one().post("/login", data={"name": "maria", "password": "four plain english words"})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert counted(site.app.state.security, "busy") == 1


class Hanging(BaseHTTPRequestHandler):
    """An OpenID provider that says nothing until it is let go."""

    go: Event
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.go.wait(60)
        issuer = f"http://127.0.0.1:{self.server.server_address[1]}"
        body = json.dumps({"issuer": issuer, "authorization_endpoint": f"{issuer}/authorize"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""


@contextmanager
def hanging() -> Iterator[tuple[str, Any]]:
    """Its issuer, and its handler."""
    handler: Any = type("Handler", (Hanging,), {"go": Event(), "asked": []})
    provider = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=provider.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{provider.server_address[1]}", handler
    finally:
        handler.go.set()
        provider.shutdown()
        provider.server_close()
        thread.join()


def test_a_provider_that_hangs_stops_no_page_and_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc_adapter, "PROVIDER_TIMEOUT_SECONDS", 50.0)
    with hanging() as (issuer, handler):
        oidc = {"issuer": issuer, "client_id": "store", "default_role": "viewer"}
        settings = load_settings(environment={}, options={"web": {"oidc": oidc}})
        site = Site.of(
            store_in(tmp_path), settings, provider=OpenIdProvider(settings.web.oidc, SystemClock())
        )
        with served(site.app) as url:
            asking = [connected(url) for _ in range(THREADS + 5)]
            for connection in asking:
                connection.sendall(
                    b"GET /login/provider HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
                )
            assert page(url) == 200
            handler.go.set()
            assert {answer(connection).split(b" ")[1] for connection in asking} == {b"303"}
        assert handler.asked == ["/.well-known/openid-configuration"]


# --- spraying ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cheap_hashes")
def test_spraying_logins_is_seen_as_lines_a_counter_and_a_rule_that_fires(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One password for a hundred names, most of which no one has."""
    registry = CollectorRegistry()
    events = SecurityEventLog(registry)
    sprayed = replace(site, app=create_app(site.deps, events))
    names = [*site.sessions, *(f"name{number}" for number in range(96))]
    with ThreadPoolExecutor(4) as pool:
        client = sprayed.no_one()
        statuses = list(
            pool.map(
                lambda name: (
                    client.post("/login", data={"name": name, "password": "Winter2026!!"}).status_code
                ),
                names,
            )
        )
    assert set(statuses) <= {401, 429}
    events.rotate_window(final=True)
    lines = lines_of(caplog)
    told = [line for line in lines if line["event"] == "login" and "left_out" not in line]
    left_out = sum(line["left_out"] for line in lines if "left_out" in line)
    assert len(told) + left_out == len(names)
    assert len(told) <= 2 * LINES_PER_SOURCE  # refused, and throttled
    assert {line["outcome"] for line in told} == {"refused"}
    assert len({line["name_digest"] for line in told}) == len(told)
    assert not any(name in json.dumps(told) for name in names)
    refused = counted(events, "login") + counted(events, "throttled")
    assert refused == len(names)
    assert_rule_fires(
        "FingerprintLoginSpraying",
        "fingerprint_web_rejected_requests_total",
        {"reason": "login"},
        refused,
        tmp_path,
    )


def assert_rule_fires(rule: str, metric: str, labels: dict[str, str], count: float, folder: Path) -> None:
    """A counter that goes from nothing to this within five minutes makes Prometheus fire the rule."""
    said = ", ".join(f'{name}="{value}"' for name, value in {"job": "web", "instance": "w", **labels}.items())
    fired = f'{{alertname="{rule}", alertstate="firing", severity="warning"}}'
    test = {
        "rule_files": [str(OBSERVE / "rules.yml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": f"{metric}{{{said}}}", "values": f"0 0+{count / 5}x5 {count}x15"}],
                "promql_expr_test": [
                    {
                        "expr": f'max_over_time(ALERTS{{alertstate="firing", alertname="{rule}"}}[20m]) * 0 + 1',
                        "eval_time": "20m",
                        "exp_samples": [{"labels": fired, "value": 1}],
                    }
                ],
            }
        ],
    }  # fmt: skip
    file = folder / "spraying_test.yml"
    file.write_text(yaml.safe_dump(test))
    with needed():
        done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr
