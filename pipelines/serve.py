"""The desk's pages and its API over HTTP: what stands behind them is opened here, and handed on.

Example:
    $ fingerprint serve
    The desk is at http://127.0.0.1:8080
    Nobody can log in yet. Open this once, within 24 hours: http://127.0.0.1:8080/setup/Q0b...
"""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import cast

from prometheus_client import REGISTRY

from fingerprint.adapters import health, logs
from fingerprint.adapters.system import SystemClock
from fingerprint.analysis.threshold_forecast import Foreseeing
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Clock
from fingerprint.core.ports.accounts import People, Provider
from fingerprint.core.settings import Settings, Web
from fingerprint.registry.bank_listing import SeenBanks
from fingerprint.store.accounts import people_of
from fingerprint.store.alerts import SqlDesk, open_desk
from fingerprint.web.dependencies import Doors, WholeDesk
from pipelines import deliver
from pipelines.commands import retention
from pipelines.deliver_metrics import DeliverMetrics
from pipelines.runtime.service import asked


def run(settings: Settings, desk_url: str | None, bank: Path) -> None:
    """Until SIGTERM. FingerprintError for a desk or an address that cannot be had."""
    from fingerprint.web.app import create_app
    from fingerprint.web.security_events import SecurityEvents
    from fingerprint.web.server import Server, configured

    logs.start()
    desk = open_desk(desk_url or settings.desk.url, redact=settings.desk.redact)
    with _listening(settings.web) as listening:
        doors = doors_of(desk, settings, bank)
        _greet(doors.people, base_of(settings.web, listening.getsockname()[1]), settings.web)
        server = Server(configured(create_app(doors, SecurityEvents(REGISTRY))))
        # uvicorn ends in good order and then raises the signal again, which would be our end before it is ours to end
        with (
            asked(),
            retention.daily(desk, settings.retention, doors.people.forget),
            _delivering(settings, desk_url or settings.desk.url) as troubles,
            _watched(settings, {"desk": lambda: _desk_trouble(desk), "deliver": troubles}),
        ):
            server.run(sockets=[listening])
    desk.close()


def doors_of(desk: SqlDesk, settings: Settings, bank: Path) -> Doors:
    """What the application stands on."""
    clock = SystemClock()
    people = people_of(desk, clock, settings.web)
    provider = _provider(settings.web, clock)
    thresholds = Foreseeing(desk, bank, settings, clock)
    banks = SeenBanks(bank, settings)
    return Doors(cast(WholeDesk, desk), people, clock, settings, provider, banks, thresholds)


def _delivering(settings: Settings, desk_url: str) -> AbstractContextManager[health.Check]:
    """Receivers of alerts are told meanwhile, if the settings say so; gives what is in trouble."""
    if not settings.web.deliver:
        return nullcontext(lambda: None)
    return deliver.alongside(settings, desk_url, DeliverMetrics(REGISTRY))


def _watched(settings: Settings, ready: health.Checks) -> AbstractContextManager[object]:
    """Health and metrics where every other program has them, if the settings say so: those of the pages want a token."""
    if not settings.web.metrics:
        return nullcontext()
    return health.serve(settings.health.host, settings.health.port, ready)


def _desk_trouble(desk: SqlDesk) -> str | None:
    try:
        desk.notices_upto()
    except FingerprintError as error:
        return str(error)
    return None


def _provider(web: Web, clock: Clock) -> Provider | None:
    """Who vouches for people; what asks it is loaded only then."""
    if web.oidc.issuer is None:
        return None
    from fingerprint.adapters.oidc import OpenId

    return OpenId(web.oidc, clock)


def base_of(web: Web, port: int) -> str:
    """Where a browser finds it."""
    host = f"[{web.host}]" if ":" in web.host else web.host
    return web.public_url or f"http://{host}:{port}"


def _listening(web: Web) -> socket.socket:
    family = socket.AF_INET6 if ":" in web.host else socket.AF_INET
    try:
        return socket.create_server((web.host, web.port), family=family, backlog=128)
    except OSError as error:
        raise FingerprintError(
            f"the desk cannot listen on {web.host}:{web.port} ({error.strerror or error}); set --host and --port"
        ) from None


def _greet(people: People, base: str, web: Web) -> None:
    print(f"The desk is at {base}", flush=True)
    if not web.https and web.host not in ("127.0.0.1", "localhost", "::1"):
        print(
            "Passwords travel in the clear: put a proxy with TLS in front and set web.public_url", flush=True
        )
    if secret := people.begin():
        link = f"{base}/setup/{secret}"
        print(f"Nobody can log in yet. Open this once, within 24 hours: {link}", flush=True)
