"""Egress guard: the addresses that a webhook may reach are those of the internet, and inner networks only as settings allow.

Example:
    >>> refusal_reason("169.254.169.254")
    '169.254.169.254 is link-local'
    >>> refusal_reason("64:ff9b::a00:1")                        # NAT64: it leads to 10.0.0.1
    '64:ff9b::a00:1 leads to 10.0.0.1, which is private'
    >>> refusal_reason("10.0.0.1", allowed=parse_networks(["10.0.0.0/24"])) is None
    True

Addresses are judged, never names: whatever a name or an odd spelling (2130706433, 0x7f.1) resolves to is judged when a
connection is opened, and that very address is connected to. A cloud's metadata service gives credentials to any caller inside,
which is what an attacker would use a chosen URL for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from fingerprint.core.credentials import MASK
from fingerprint.core.errors import FingerprintError

MIN_SECRET_LENGTH = 6  # letters of a part of a path that may be a secret
PLAIN_URL = re.compile(r"[!-~]+")  # ASCII that is seen

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

METADATA_NETWORKS: dict[
    Network, str
] = {  # beyond what every Python of today knows of IANA's registries of special addresses
    ip_network("168.63.129.16/32"): "Azure's metadata",  # public to look at
    ip_network("192.0.0.0/24"): "reserved",  # Oracle's metadata is 192.0.0.192
    ip_network("64:ff9b:1::/48"): "private",  # NAT64 of a network's own, RFC 8215
    ip_network("3fff::/20"): "reserved",  # documentation, RFC 9637
}
NAT64_NETWORK = ip_network("64:ff9b::/96")  # NAT64, RFC 6052
IPV4_COMPATIBLE_NETWORK = ip_network("::/96")  # RFC 4291, given up, and still understood by some


class WebhookTarget(NamedTuple):
    """A URL that may be posted to. It is shown without its path, which is a secret with Slack."""

    scheme: str
    host: str
    url: str

    @property
    def is_https(self) -> bool:
        """Return whether the connection is encrypted."""
        return self.scheme == "https"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}"

    def __repr__(self) -> str:
        return str(self)

    def redact_path(self, text: str) -> str:
        """Return what a receiver answered without the parts of the URL that it repeats: many name the path that they lack."""
        parts = urlsplit(self.url)
        secret = {
            each
            for each in re.split(r"[/?&=#]", f"{parts.path}?{parts.query}")
            if len(each) >= MIN_SECRET_LENGTH
        }
        for each in sorted({*secret, *map(unquote, secret)}, key=len, reverse=True):
            text = text.replace(each, MASK)
        return text


def parse_target(url: str, plain_http: bool = False) -> WebhookTarget:
    """Return a receiver's URL. Raises FingerprintError, which does not repeat the URL: it may hold a secret."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise FingerprintError("a receiver's URL is none: one is https://soc.example.com/alerts") from None
    if parts.scheme not in ("https", "http") or not host or not PLAIN_URL.fullmatch(url):
        raise FingerprintError("a receiver's URL is none: one is https://soc.example.com/alerts")
    if parts.username is not None or parts.password is not None:
        raise FingerprintError(
            f"the URL to {host} holds a name or password; sign with signing_secret_file instead"
        )
    if parts.scheme == "http" and not plain_http:
        raise FingerprintError(
            f"the URL to {host} is http://, which is not sent to without allow_http = true"
        )
    return WebhookTarget(parts.scheme, host, url.partition("#")[0])


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return networks as settings write them, CIDR or one address. Raises FingerprintError for what is none."""
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as error:
        raise FingerprintError(f"{error}: name a network like 10.20.0.0/16, or one address") from None


def refusal_reason(text: str, allowed: Collection[Network] = ()) -> str | None:
    """Return why an address is not connected to; None if it may be."""
    address = ip_address(text.partition("%")[0])
    if _within(address, allowed):
        return None
    if why := _kind(address):
        return f"{address} is {why}"
    for inner in _embedded_addresses(address):
        if not _within(inner, allowed) and (why := _kind(inner)):
            return f"{address} leads to {inner}, which is {why}"
    return None


def _within(address: Address, allowed: Collection[Network]) -> bool:
    return any(address in network for network in allowed if network.version == address.version)


def _kind(address: Address) -> str | None:
    """Return the kind of an address that is not one of the internet's; one that leads to another is judged by that one."""
    for network, kind in METADATA_NETWORKS.items():
        if _within(address, [network]):
            return kind
    if _embedded_addresses(address):
        return None
    kinds = {
        "unspecified": address.is_unspecified,
        "loopback": address.is_loopback,
        "link-local": address.is_link_local,
        "multicast": address.is_multicast,
        "private": address.is_private or getattr(address, "is_site_local", False),
        "reserved": address.is_reserved or not address.is_global,
    }
    return next((name for name, so in kinds.items() if so), None)


def _embedded_addresses(address: Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that an IPv6 address leads to: mapped, translated (NAT64), by 6to4 or by Teredo."""
    if isinstance(address, IPv4Address):
        return []
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    if address.sixtofour:
        return [address.sixtofour]
    if address.teredo:
        return list(address.teredo)
    leads = address in NAT64_NETWORK or (address in IPV4_COMPATIBLE_NETWORK and int(address) > 1)
    return [IPv4Address(int(address) & 0xFFFF_FFFF)] if leads else []
