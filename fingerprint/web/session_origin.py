"""The origin of an alert's session: the calls that led to it, and the principals in other accounts' records of its calls.

Example:
    >>> origin = read_origin(store, alert.alert_id)
    >>> origin.chain[0].principal, with_opener(alert, origin).next_steps[0].text
    ('999900001111:user/ann', 'Ask ann, who opened the session by sts:AssumeRole, ...')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from fingerprint.core.address import AddressTables
from fingerprint.core.alert import Alert, CredentialIssue, Disposition
from fingerprint.core.incident import SessionOrigin
from fingerprint.core.ports.store import Store
from fingerprint.core.story import Tally, tally
from fingerprint.delivery.notification import Notification
from fingerprint.sources.active import SOURCE

MAX_SESSIONS_TRACED = 10  # of one alert; with more sessions, their opener counts as unknown


def read_origin(store: Store, alert_id: str, keys: Tally | None = None) -> SessionOrigin:
    """Return the origin of a stored alert's session; `keys` is the tally of its access keys, if it is known already."""
    keys = keys or store.evidence.tallies([alert_id])["access_key"]
    first, *others = [key for key, _ in keys.values[:MAX_SESSIONS_TRACED]] or [""]
    chain = store.alerts.credential_chain(first) if first else ()
    same = (
        bool(chain)
        and keys.distinct == 1 + len(others)
        and all(_opener(store.alerts.credential_chain(key)) == _opener(chain) for key in others)
    )
    return SessionOrigin(tuple(chain), keys.distinct, tuple(store.incidents.other_records(alert_id)), same)


def _opener(chain: Sequence[CredentialIssue]) -> list[tuple[str, str]]:
    """Return the principal and person of the nearest call of a chain, as a list that is empty without a call."""
    return [(issue.principal, issue.human) for issue in chain[:1]]


def with_origin(store: Store, alert: Alert) -> tuple[Alert, SessionOrigin]:
    """Return an alert with the opener of its session in its next steps, and its origin. It must have all its events."""
    keys = tally(event.access_key for event in alert.events)
    origin = read_origin(store, alert.alert_id, keys)
    return with_opener(alert, origin), origin


def export_notifications(
    store: Store,
    found: Iterable[tuple[Alert, Disposition | None]],
    tables: AddressTables,
    link: Callable[[str], str] = lambda alert_id: "",
) -> Iterator[Notification]:
    """Yield a notification for each alert of an export, one in memory at a time; `link` maps an id to the alert's page."""
    for alert, disposition in found:
        whole, origin = with_origin(store, alert)
        records = partial(store.evidence.records, alert.alert_id)
        yield Notification(
            whole, "new", disposition, link(alert.alert_id), tables, origin=origin, read_records=records
        )


def with_opener(alert: Alert, origin: SessionOrigin) -> Alert:
    """Return an alert whose next steps name the one who opened all of its sessions, if one did."""
    if not origin.has_one_opener:
        return alert
    return replace(alert, next_steps=SOURCE.name_opener(alert.next_steps, origin.chain[0]))
