"""The program `serve`: open the dependencies of the web app, then serve pages and API over HTTP.

Example:
    $ fingerprint serve
    The alert queue is at http://127.0.0.1:8080
    No account exists yet. Open this once, within 24 hours: http://127.0.0.1:8080/setup/Q0b...
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Thread

from prometheus_client import REGISTRY

from fingerprint.adapters import health, logs
from fingerprint.adapters.address_tables import open_address_tables
from fingerprint.adapters.system import SystemClock
from fingerprint.analysis.threshold_service import ThresholdForecast
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.accounts import AccountStore, IdentityProvider
from fingerprint.core.ports.clock import Clock
from fingerprint.core.settings import Settings, Web
from fingerprint.registry.catalog import BankListing
from fingerprint.store import SqlStore, masked_url, open_store
from fingerprint.store.accounts import open_account_store
from fingerprint.web.dependencies import Dependencies
from pipelines import deliver
from pipelines.commands import retention
from pipelines.runtime.delivery_service import DeliverMetrics
from pipelines.runtime.service import announce_wait, shutdown_requested

FORECAST_SECONDS = 600.0  # time limit of the query that reads the votes of a threshold estimate


def run_web_app(
    settings: Settings,
    database_url: str | None,
    bank: Path,
    open_browser: Callable[[str], object] | None = None,
) -> None:
    """Serve until SIGTERM. Raises FingerprintError for a database or an address that is unavailable.

    `open_browser` is called with the first link to open, once the server listens on its address.
    """
    from fingerprint.web.app import create_app
    from fingerprint.web.security_events import SecurityEventLog
    from fingerprint.web.server import DeadlineServer, listening_socket, uvicorn_config

    logs.configure_logging()
    url = database_url or settings.database.url
    with announce_wait(f"the database {masked_url(url)}"):
        store = open_store(url, redact=settings.database.redacted_fields)
    with listening_socket(settings.web) as listening:
        dependencies = create_dependencies(store, settings, bank)
        link = _print_welcome(
            dependencies.account_store,
            settings.web.base_url(listening.getsockname()[1]),
            settings.web,
        )
        if paused := retention.describe_pause(store, settings.retention, url):
            print(paused, flush=True)
        if settings.deliver and not settings.web.run_delivery:
            print(f"this program delivers no alerts: {deliver.DELIVER_SOMEWHERE}", flush=True)
        if open_browser:
            Thread(target=open_browser, args=(link,), daemon=True).start()  # some wait until the browser ends
        server = DeadlineServer(uvicorn_config(create_app(dependencies, SecurityEventLog(REGISTRY))))
        # uvicorn shuts down in order, and then raises the signal again: without a handler it would end this process at once
        with (
            shutdown_requested(),
            retention.daily_retention(store, settings.retention, dependencies.account_store.delete_expired),
            _delivering_in_background(settings, url) as troubles,
            _serving_health(settings, {"database": lambda: _store_problem(store), "delivery": troubles}),
        ):
            server.run(sockets=[listening])
    store.close()


def create_dependencies(store: SqlStore, settings: Settings, bank: Path) -> Dependencies:
    """Return the dependencies of the application.

    Queries of pages and of the API have a time limit. The query for the votes of threshold estimates runs once for all visitors,
    and has a longer one.
    """
    clock = SystemClock()
    shared = store.for_visitors(settings.web.query_timeout_seconds)
    account_store = open_account_store(shared.session, clock, settings.web)
    provider = _create_identity_provider(settings.web, clock)
    thresholds = ThresholdForecast(store.for_visitors(FORECAST_SECONDS), bank, settings, clock)
    banks = BankListing(bank, settings)
    addresses = open_address_tables(settings.enrichment)
    return Dependencies(shared, account_store, clock, settings, provider, banks, thresholds, addresses)


def _delivering_in_background(settings: Settings, database_url: str) -> AbstractContextManager[health.Check]:
    """Deliver alerts to receivers in the background if the settings say so; yield a check that returns the current problem."""
    if not settings.web.run_delivery:
        return nullcontext(lambda: None)
    return deliver.deliver_in_background(settings, database_url, DeliverMetrics(REGISTRY))


def _serving_health(settings: Settings, ready: health.Checks) -> AbstractContextManager[object]:
    """Serve health and metrics on a port of their own if the settings say so; those of the web app require a token."""
    if not settings.web.serve_health:
        return nullcontext()
    return health.serve_health(settings.health.host, settings.health.port, ready)


def _store_problem(store: SqlStore) -> str | None:
    try:
        store.feeds.checked_until()
    except FingerprintError as error:
        return str(error)
    return None


def _create_identity_provider(web: Web, clock: Clock) -> IdentityProvider | None:
    """Return the identity provider of the settings; its client is imported only if there is one."""
    if web.oidc.issuer is None:
        return None
    from fingerprint.adapters.oidc import OpenIdProvider

    return OpenIdProvider(web.oidc, clock)


def _print_welcome(account_store: AccountStore, base: str, web: Web) -> str:
    """Print the address of the queue, and the link that creates the first account; return the link to open first."""
    print(f"The alert queue is at {base}", flush=True)
    if not web.https and web.host not in ("127.0.0.1", "localhost", "::1"):
        print(
            "Passwords travel in the clear: put a proxy with TLS in front and set web.public_url", flush=True
        )
    if secret := account_store.accounts.create_first_invitation():
        link = f"{base}/setup/{secret}"
        print(f"No account exists yet. Open this once, within 24 hours: {link}", flush=True)
        return link
    return base
