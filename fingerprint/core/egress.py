"""Egress guard: a webhook may reach addresses of the internet, and addresses of inner networks only if settings allow them.

Example:
    >>> refusal_reason("169.254.169.254")
    '169.254.169.254 is link-local'
    >>> refusal_reason("64:ff9b::a00:1")                        # NAT64: it leads to 10.0.0.1
    '64:ff9b::a00:1 leads to 10.0.0.1, which is private'
    >>> refusal_reason("10.0.0.1", allowed=parse_networks(["10.0.0.0/24"])) is None
    True

Addresses are judged, never names: when a connection is opened, the address that a name or an odd spelling (2130706433, 0x7f.1)
resolves to is judged, and exactly that address is connected to. The reason: a cloud's metadata service gives credentials to any
caller inside, so an attacker who chooses a URL would choose that one.
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

MIN_SECRET_LENGTH = 6  # characters from which a part of a path may be a secret
PLAIN_URL = re.compile(r"[!-~]+")  # visible ASCII

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

METADATA_NETWORKS: dict[
    Network, str
] = {  # special addresses that the `ipaddress` of some current Python version does not know
    ip_network("168.63.129.16/32"): "Azure's metadata",  # looks like a public address
    ip_network("192.0.0.0/24"): "reserved",  # Oracle's metadata is 192.0.0.192
    ip_network("64:ff9b:1::/48"): "private",  # local NAT64, RFC 8215
    ip_network("3fff::/20"): "reserved",  # documentation, RFC 9637
}
NAT64_NETWORK = ip_network("64:ff9b::/96")  # NAT64, RFC 6052
IPV4_COMPATIBLE_NETWORK = ip_network("::/96")  # RFC 4291: deprecated, but some systems still understand it


class WebhookTarget(NamedTuple):
    """A URL that may be posted to. Its text omits the path, which for Slack is a secret."""

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
        """Return a receiver's answer with the URL's parts masked: many receivers repeat the path that they did not find."""
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
    """Return a receiver's URL, parsed. Raise FingerprintError, which does not repeat the URL: it may hold a secret."""
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
    """Return the networks of the settings, each a CIDR or one address. Raise FingerprintError for any other text."""
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as error:
        raise FingerprintError(f"{error}: name a network like 10.20.0.0/16, or one address") from None


def refusal_reason(text: str, allowed: Collection[Network] = ()) -> str | None:
    """Return why a connection to an address is refused; None if it is not."""
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
    """Return the kind of an address that is not of the internet, else None.

    It is None as well for an address with an embedded one: `refusal_reason` judges the embedded address.
    """
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
    """Return the IPv4 addresses embedded in an IPv6 address: mapped, compatible, NAT64, 6to4 or Teredo."""
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
