"""The program `deliver`: send news of alerts to webhooks, Slack and topics, and mark what was sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry

from fingerprint.adapters.address_tables import open_address_tables
from fingerprint.adapters.system import SystemClock
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.store import SqlStore, masked_url, open_store
from fingerprint.web.session_origin import with_origin
from pipelines.runtime.delivery_service import DeliverMetrics, DeliverySender, DeliveryService
from pipelines.runtime.service import announce_wait, running_service
from pipelines.runtime.wiring import create_receiver

NO_RECEIVERS = (
    "no receiver of alerts is set: the settings name them as [deliver.NAME] (docs/how-to/deliver.md)"
)

DELIVER_SOMEWHERE = "run `fingerprint deliver`, or set web.run_delivery = true"


def run_deliver(
    settings: Settings,
    database_url: str | None = None,
    once: bool = False,
    registry: CollectorRegistry = REGISTRY,
) -> dict[str, Any]:
    """Run `fingerprint deliver` and return its figures.

    Raises FingerprintError without any receiver, or for a receiver that cannot be opened.
    """
    if not settings.deliver:
        raise FingerprintError(NO_RECEIVERS)
    metrics, started = DeliverMetrics(registry), time.monotonic()
    url = database_url or settings.database.url
    with announce_wait(f"the database {masked_url(url)}"):
        opened = open_store(url, create=not once)
    with closing(opened) as store:
        state = DeliveryService(create_senders(settings, store, metrics))
        with running_service(settings, state.not_ready, state.not_alive, "delivery") as stop_requested:
            state.run(stop_requested, once)
        stand = store.outbox.counts_by_receiver().values()
    left = {"waiting": sum(each.waiting for each in stand), "given_up": sum(each.failed for each in stand)}
    return metrics.figures() | left | {"seconds": round(time.monotonic() - started, 3)}


@contextmanager
def deliver_in_background(
    settings: Settings, database_url: str, metrics: DeliverMetrics
) -> Iterator[Callable[[], str | None]]:
    """Deliver on threads while the block runs; yield a function that returns the current problem, or None.

    Without receivers it delivers nothing.
    """
    with closing(open_store(database_url)) as store:
        state = DeliveryService(create_senders(settings, store, metrics))
        with state.running_in_background():
            yield state.not_ready


def create_senders(settings: Settings, store: SqlStore, metrics: DeliverMetrics) -> list[DeliverySender]:
    """Return a sender for each receiver of the settings; alerts link to the web app unless the receiver sets another prefix."""
    clock, base = SystemClock(), settings.web.public_url
    pages = {"alert_url_prefix": f"{base}/alerts/"} if base else {}
    addresses = open_address_tables(settings.enrichment)
    return [
        DeliverySender(
            name,
            wants if wants.alert_url_prefix else wants.model_copy(update=pages),
            store.outbox,
            create_receiver(name, settings),
            clock,
            metrics,
            addresses=addresses,
            find_origin=partial(with_origin, store),
        )
        for name, wants in settings.deliver.items()
    ]
