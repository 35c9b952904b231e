"""Links to the AWS console: a principal in IAM, and the event history of a principal, an access key or an event.

Example:
    >>> [link.url for link in event_links(event)]
    ['https://eu-west-1.console.aws.amazon.com/cloudtrailv2/home?region=eu-west-1#/events?EventId=3038ebd2-c98a-...']

The host has only a region's letters, digits and hyphens, so it is always a host of AWS. An id is part of a link only if it has
the form of AWS's ids; names are quoted. The event history has the management events of 90 days, of one region.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, unquote

from fingerprint.core.alert import AlertEvent
from fingerprint.sources.base import ConsoleLink
from fingerprint.sources.cloudtrail.record_search import is_region, is_uuid

KEY_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
KEY_LENGTHS = range(16, 129)  # as IAM documents them
MAX_NAME_LENGTH = 128  # of users and roles
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+=,.@_-")
# Hosts of the console in other partitions, by the prefix of their regions
CONSOLES = {"cn-": "console.amazonaws.cn", "us-gov-": "console.amazonaws-us-gov.com"}
CONSOLE = "console.aws.amazon.com"


def principal_links(principal: str, access_keys: Sequence[str], region: str) -> tuple[ConsoleLink, ...]:
    """Return links to a principal's page in IAM and to the event history of it and of its access keys; none without a region."""
    if not is_region(region):
        return ()
    kind, name, session = _identity(principal)
    links = []
    if kind and name:
        page = f"https://{_host(region)}/iam/home#/{kind}s/details/{quote(name, safe='')}"
        links.append(ConsoleLink("identity", name, page))
    user = name if kind == "user" else session
    if user:
        links.append(ConsoleLink("history", user, _history(region, "Username", user)))
    keys = filter(_is_key, access_keys)
    return (*links, *(ConsoleLink("history", key, _history(region, "AccessKeyId", key)) for key in keys))


def event_links(event: AlertEvent) -> tuple[ConsoleLink, ...]:
    """Return a link to one event in the event history; none without a region, or if its id is no UUID."""
    if not (is_uuid(event.event_id) and is_region(event.region)):
        return ()
    return (ConsoleLink("event", event.event_id, _history(event.region, "EventId", event.event_id)),)


def _history(region: str, attribute: str, value: str) -> str:
    return f"https://{_host(region)}/cloudtrailv2/home?region={region}#/events?{attribute}={quote(value, safe='')}"


def _host(region: str) -> str:
    console = next((host for begins, host in CONSOLES.items() if region.startswith(begins)), CONSOLE)
    return f"{region}.{console}"


def _identity(principal: str) -> tuple[str, str, str]:
    """Return `user` or `role`, its name, and the session of a person's role; empty if the key has no name that IAM allows."""
    kind, *parts = principal.partition(":")[2].split("/")
    name, session = [unquote(part) for part in (*parts, "", "")][:2]
    if kind not in ("user", "role") or not _is_name(name):
        return "", "", ""
    return kind, name, session if kind == "role" and _is_name(session) else ""


def _is_name(text: str) -> bool:
    return 0 < len(text) <= MAX_NAME_LENGTH and NAME_CHARACTERS.issuperset(text)


def _is_key(text: str) -> bool:
    return len(text) in KEY_LENGTHS and KEY_CHARACTERS.issuperset(text)
