"""The network of an address by a table of ranges: better than a prefix, where a table is given.

Example:
    >>> table = NetworkTable.from_ranges([("198.51.100.0", "198.51.100.255", "AS64500 Example Cloud")])
    >>> table.lookup(pd.Series(["198.51.100.7", "192.0.2.1", "ec2.amazonaws.com"])).tolist()
    ['AS64500 Example Cloud', nan, nan]

A household that gets a new address every few days stays with its provider, and an attacker in the cloud that was used yesterday
is in the same cloud: an autonomous system shows both, a prefix neither.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from fingerprint.compute import frames
from fingerprint.compute.frames import FrameColumn


@dataclass(frozen=True, slots=True)
class NetworkTable:
    """Ranges that do not overlap, sorted: first and last address as 16 bytes (IPv4 mapped into IPv6), and names, each (M,)."""

    first: tuple[bytes, ...] = ()
    last: tuple[bytes, ...] = ()
    name: tuple[str, ...] = ()

    @classmethod
    def from_ranges(cls, ranges: Iterable[tuple[str, str, str]]) -> NetworkTable:
        """Return a table of (first address, last address, name) in any order. Raises ValueError for what is no address."""
        rows = sorted((_pack_address(first), _pack_address(last), name) for first, last, name in ranges)
        return cls(*(tuple(column) for column in zip(*rows, strict=True))) if rows else cls()

    def lookup(self, addresses: FrameColumn) -> FrameColumn:
        """Return the network of each address (N,), missing where the table has none; each distinct address is looked up once."""
        codes, distinct = frames.factorize_values(addresses)
        found = [*(self._lookup_address(str(address)) for address in distinct), None]
        return frames.make_text_column(
            found, codes + (codes < 0) * len(found), addresses
        )  # what is missing has no network

    def _lookup_address(self, address: str) -> str | None:
        try:
            packed = _pack_address(address)
        except ValueError:
            return None
        place = bisect_right(self.first, packed) - 1
        return self.name[place] if place >= 0 and packed <= self.last[place] else None


def _pack_address(address: str) -> bytes:
    ip = ipaddress.ip_address(address)
    return ip.packed if ip.version == 6 else b"\0" * 10 + b"\xff\xff" + ip.packed
