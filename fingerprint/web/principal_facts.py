"""Facts about a principal for its page and the API: the events of its alerts, and its profile in the served bank.

Example:
    >>> found, activity = load_activity(store, "123456789012:user/ana")
    >>> found.total, activity.addresses[0].text
    (31, '185.220.101.34')
"""

from __future__ import annotations

from fingerprint.analysis.principal_activity import PrincipalActivity, summarise_activity
from fingerprint.analysis.principal_profile import PrincipalProfile, build_profile
from fingerprint.core.case import PrincipalEvents
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.store import Store
from fingerprint.web.dependencies import Dependencies

MAX_EVENTS = 2_000  # of a principal's alerts, the newest
MAX_ISSUES = 200  # calls that issued credentials, and keys whose issuing calls are searched


def load_activity(store: Store, principal: str) -> tuple[PrincipalEvents, PrincipalActivity]:
    """Return the newest events of a principal's alerts, and its activity from them and from calls that issued credentials."""
    if not principal:
        return PrincipalEvents((), 0), summarise_activity(())
    found = store.principals.events(principal, MAX_EVENTS)
    keys = sorted({each.event.access_key for each in found.events if each.event.access_key})
    issues = store.principals.credential_issues(principal, keys[:MAX_ISSUES], MAX_ISSUES)
    return found, summarise_activity(found.events, issues)


def load_profile(deps: Dependencies, principal: str, key: str | None) -> tuple[PrincipalProfile | None, str]:
    """Return the profile in the served bank (of the fingerprint `key` if given), or the reason why there is none."""
    if deps.banks is None:
        return None, "no bank folder is configured: `fingerprint serve --bank FOLDER` shows what is usual"
    try:
        return build_profile(deps.banks.open_served(), principal, deps.settings, key), ""
    except FingerprintError as error:
        return None, str(error)
