"""The origin of an alert's session: the calls that led to its session, and whom other accounts' records of its calls name.

Example:
    >>> origin = read_origin(store, alert.alert_id)
    >>> origin.chain[0].principal, with_opener(alert, origin).next_steps[0].text
    ('999900001111:user/ann', 'Ask ann, who opened the session by sts:AssumeRole, ...')
"""

from __future__ import annotations

from dataclasses import replace

from fingerprint.core.alert import Alert
from fingerprint.core.incident import SessionOrigin
from fingerprint.core.ports.store import Store
from fingerprint.core.story import Tally, tally
from fingerprint.sources.active import SOURCE


def read_origin(store: Store, alert_id: str, keys: Tally | None = None) -> SessionOrigin:
    """Return who was behind a stored alert; `keys` are its access keys, where they have been counted already."""
    keys = keys or store.evidence.tallies([alert_id])["access_key"]
    chain = store.alerts.credential_chain(keys.values[0][0]) if keys.values else ()
    return SessionOrigin(tuple(chain), keys.distinct, tuple(store.incidents.other_records(alert_id)))


def with_origin(store: Store, alert: Alert) -> tuple[Alert, SessionOrigin]:
    """Return an alert, which has all its events, with the opener of its session in its next steps; and who was behind it."""
    keys = tally(event.access_key for event in alert.events)
    origin = read_origin(store, alert.alert_id, keys)
    return with_opener(alert, origin), origin


def with_opener(alert: Alert, origin: SessionOrigin) -> Alert:
    """Return an alert whose next steps name who opened its session; of several sessions each may have had another opener."""
    if not origin.chain or origin.distinct_keys != 1:
        return alert
    return replace(alert, next_steps=SOURCE.name_opener(alert.next_steps, origin.chain[0]))
