"""Networks of addresses by an optional table of ranges, which is better than a prefix of the address.

Example:
    >>> table = NetworkTable.from_ranges([("198.51.100.0", "198.51.100.255", "AS64500 Example Cloud")])
    >>> table.lookup(pd.Series(["198.51.100.7", "192.0.2.1", "ec2.amazonaws.com"])).tolist()
    ['AS64500 Example Cloud', nan, nan]

A household that gets a new address every few days stays with its provider, and an attacker who used a cloud yesterday uses the
same cloud today. An autonomous system shows both, a prefix neither.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fingerprint.compute import frames
from fingerprint.compute.frames import FrameColumn

LAST_ADDRESS = 2**128 - 1

PackedRange = tuple[bytes, bytes, str]  # first and last address, and a name


@dataclass(frozen=True, slots=True)
class NetworkTable:
    """Sorted ranges: first and last address as 16 bytes (IPv4 mapped into IPv6), and names, (M,) each.

    They do not overlap: a range within another one is cut out of the larger one.
    """

    first: tuple[bytes, ...] = ()
    last: tuple[bytes, ...] = ()
    name: tuple[str, ...] = ()

    @classmethod
    def from_ranges(cls, ranges: Iterable[tuple[str, str, str]]) -> NetworkTable:
        """Return a table of (first address, last address, name), in any order. Raise ValueError for an invalid address."""
        rows = sorted((_pack_address(first), _pack_address(last), name) for first, last, name in ranges)
        if any(row[0] <= before[1] for before, row in pairwise(rows)):
            rows = list(_without_overlaps(rows))
        return cls(*(tuple(column) for column in zip(*rows, strict=True))) if rows else cls()

    def lookup(self, addresses: FrameColumn) -> FrameColumn:
        """Return the network of each address (N,), missing if the table has none; each distinct address is looked up once."""
        if not self.name:
            return frames.make_text_column(
                [None], frames.array_module_of(addresses).zeros(len(addresses), np.int64), addresses
            )
        codes, distinct = frames.factorize_values(addresses)
        found = [*(self.name_of(str(address)) for address in distinct), None]
        return frames.make_text_column(
            found, codes + (codes < 0) * len(found), addresses
        )  # what is missing has no network

    def name_of(self, address: str) -> str | None:
        """Return the network of one address; None if the table has none."""
        try:
            packed = _pack_address(address)
        except ValueError:
            return None
        place = bisect_right(self.first, packed) - 1
        return self.name[place] if place >= 0 and packed <= self.last[place] else None


def _without_overlaps(rows: list[PackedRange]) -> Iterator[PackedRange]:
    """Yield ranges without overlaps, in order: an address in several ranges goes to the one that begins last."""
    open_ranges: list[tuple[int, str]] = []  # end and name; the one that began last is last
    reached = 0  # the first address that is not yielded yet

    def until(end: int) -> Iterator[PackedRange]:
        nonlocal reached
        while open_ranges and reached <= end:
            last, name = open_ranges[-1]
            stop = min(last, end)
            if reached <= stop:
                yield reached.to_bytes(16), stop.to_bytes(16), name
                reached = stop + 1
            if last <= end:
                open_ranges.pop()

    for first, last, name in sorted(rows, key=lambda row: (row[0], -int.from_bytes(row[1]))):
        begin = int.from_bytes(first)
        yield from until(begin - 1)
        reached = max(reached, begin)
        open_ranges.append((int.from_bytes(last), name))
    yield from until(LAST_ADDRESS)


def _pack_address(address: str) -> bytes:
    ip = ipaddress.ip_address(address)
    return ip.packed if ip.version == 6 else b"\0" * 10 + b"\xff\xff" + ip.packed
