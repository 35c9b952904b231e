"""A writer of small MMDB files, by MaxMind's specification 2.0: enough for the tests, which need no one's data.

Example:
    >>> write_mmdb(tmp_path / "asn.mmdb", {"198.51.100.0/24": {"autonomous_system_number": 64500}})

Source: https://maxmind.github.io/MaxMind-DB/
"""

from __future__ import annotations

from ipaddress import IPv4Network, ip_network
from pathlib import Path
from typing import Any

RECORD_BITS = 32
SEPARATOR = b"\0" * 16
MARKER = b"\xab\xcd\xefMaxMind.com"


def write_mmdb(file: Path, networks: dict[str, dict[str, Any]]) -> Path:
    """Write a table of IPv4 and IPv6 networks; IPv4 lies at ::/96, as readers expect it."""
    tree: list[list[int | str | None]] = [[None, None]]
    for name in sorted(networks, key=lambda name: ip_network(name).prefixlen):
        _insert(tree, *_bits(name), name)
    data, where = b"", {}
    for name, record in networks.items():
        where[name] = len(data)
        data += _encode(record)
    size = len(tree)
    nodes = b"".join(_pointer(side, size, where).to_bytes(RECORD_BITS // 8) for node in tree for side in node)
    metadata = {
        "node_count": size,
        "record_size": RECORD_BITS,
        "ip_version": 6,
        "database_type": "Test",
        "languages": ["en"],
        "binary_format_major_version": 2,
        "binary_format_minor_version": 0,
        "build_epoch": 1_780_000_000,
        "description": {"en": "for tests"},
    }
    file.write_bytes(nodes + SEPARATOR + data + MARKER + _encode(metadata))
    return file


def _bits(name: str) -> tuple[int, int]:
    """The first address as 128 bits, and how many of them are the network's."""
    network = ip_network(name)
    extra = 96 if isinstance(network, IPv4Network) else 0
    return int(network.network_address), network.prefixlen + extra


def _insert(tree: list[list[int | str | None]], address: int, length: int, name: str) -> None:
    node = 0
    for depth in range(length):
        side = address >> (127 - depth) & 1
        if depth == length - 1:
            tree[node][side] = name
            return
        below = tree[node][side]
        if not isinstance(below, int):  # empty, or a larger network, which goes on beside this one
            tree.append([below, below])
            tree[node][side] = below = len(tree) - 1
        node = below


def _pointer(side: int | str | None, size: int, where: dict[str, int]) -> int:
    if side is None:
        return size
    return side if isinstance(side, int) else size + len(SEPARATOR) + where[side]


def _encode(value: Any) -> bytes:
    if isinstance(value, str):
        return _head(2, len(value.encode())) + value.encode()
    if isinstance(value, int):
        number = value.to_bytes(8).lstrip(b"\0")
        kind = 6 if len(number) <= 4 else 9  # uint32, uint64
        return _head(kind, len(number)) + number
    if isinstance(value, list):
        return _head(11, len(value)) + b"".join(map(_encode, value))
    parts = (_encode(key) + _encode(each) for key, each in value.items())
    return _head(7, len(value)) + b"".join(parts)


def _head(kind: int, size: int) -> bytes:
    """The control byte; kinds above 7 are extended, sizes above 28 take one more byte."""
    extended = bytes([kind - 7]) if kind > 7 else b""
    first = (0 if extended else kind << 5) | min(size, 29)
    return bytes([first]) + extended + (bytes([size - 29]) if size >= 29 else b"")
