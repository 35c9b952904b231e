"""A table of networks from a file: CIDR and name, or first address, last address and name.

Example:
    >>> networks = load_networks("ip2asn-combined.tsv.gz")    # start <tab> end <tab> AS number <tab> country <tab> name

Columns are separated by tabs, commas or semicolons; the cells after the addresses are joined to the name. A first line without an
address is taken for a header.
"""

from __future__ import annotations

import csv
import ipaddress
from collections.abc import Iterator
from itertools import chain

import fsspec

from fingerprint.core.alert import FingerprintError
from fingerprint.sources.networks import NetworkTable


def load_networks(path: str | None) -> NetworkTable:
    """Return the table of a file or URL (.gz allowed), an empty one without a path. Raise FingerprintError for a bad line."""
    if not path:
        return NetworkTable()
    try:
        with fsspec.open(path, "rt", compression="infer", newline="", encoding="utf-8") as stream:
            return NetworkTable.from_ranges(_read_ranges(stream, path))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise FingerprintError(f"the table of networks {path} cannot be read: {error}") from None


def _read_ranges(stream: Iterator[str], path: str) -> Iterator[tuple[str, str, str]]:
    first = next(iter(stream), "")
    separator = next((sign for sign in "\t;" if sign in first), ",")
    for number, row in enumerate(csv.reader(chain([first], stream), delimiter=separator), 1):
        try:
            if row:
                yield _parse_range(row)
        except ValueError as error:
            if number > 1:
                raise FingerprintError(f"line {number} of the table of networks {path}: {error}") from None


def _parse_range(row: list[str]) -> tuple[str, str, str]:
    if "/" in row[0]:
        network = ipaddress.ip_network(row[0].strip(), strict=False)
        return str(network[0]), str(network[-1]), _network_name(row[1:])
    first, last = (str(ipaddress.ip_address(cell.strip())) for cell in row[:2])
    return first, last, _network_name(row[2:])


def _network_name(cells: list[str]) -> str:
    return " ".join(cell.strip() for cell in cells if cell.strip()) or "unnamed network"
