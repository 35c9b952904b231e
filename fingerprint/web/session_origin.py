"""Who was behind an alert: the calls that led to its session, and whom other accounts' records of its calls name.

Example:
    >>> origin = read_origin(store, alert.alert_id)
    >>> origin.chain[0].principal, with_opener(alert, origin).next_steps[0].text
    ('999900001111:user/ann', 'Ask ann, who opened the session by sts:AssumeRole, ...')
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from fingerprint.core.alert import Alert, CredentialIssue
from fingerprint.core.incident import OtherRecord
from fingerprint.core.ports.store import Store
from fingerprint.core.story import Tally
from fingerprint.sources.active import SOURCE


class SessionOrigin(NamedTuple):
    """What the store knows of who was behind an alert.

    `chain` are the calls that led to the access key that most events used, the nearest first; `distinct_keys` counts the keys of
    the alert.
    """

    chain: tuple[CredentialIssue, ...]
    distinct_keys: int
    other_records: tuple[OtherRecord, ...]


def read_origin(store: Store, alert_id: str, keys: Tally | None = None) -> SessionOrigin:
    """Return who was behind a stored alert; `keys` are its access keys, where they have been counted already."""
    keys = keys or store.evidence.tallies([alert_id])["access_key"]
    chain = store.alerts.credential_chain(keys.values[0][0]) if keys.values else ()
    return SessionOrigin(tuple(chain), keys.distinct, tuple(store.incidents.other_records(alert_id)))


def with_opener(alert: Alert, origin: SessionOrigin) -> Alert:
    """Return an alert whose next steps name who opened its session; of several sessions each may have had another opener."""
    if not origin.chain or origin.distinct_keys != 1:
        return alert
    return replace(alert, next_steps=SOURCE.name_opener(alert.next_steps, origin.chain[0]))
