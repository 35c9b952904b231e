"""A table of networks from a file: CIDR and name, or first address, last address and name; or the owners of an MMDB.

Example:
    >>> networks = load_networks("ip2asn-combined.tsv.gz")    # start <tab> end <tab> AS number <tab> country <tab> name

Columns are separated by tabs, commas or semicolons; the cells after the addresses are joined to form the name. A first line
without an address is a header.
"""

from __future__ import annotations

import csv
import ipaddress
from collections.abc import Iterator
from itertools import chain

import fsspec

from fingerprint.adapters.mmdb import MMDB_SUFFIX, mmdb_networks
from fingerprint.core.errors import FingerprintError
from fingerprint.sources.networks import NetworkTable


def load_networks(path: str | None) -> NetworkTable:
    """Return the table of a file or URL (.gz allowed), an empty one without a path. Raise FingerprintError for a bad line."""
    if not path:
        return NetworkTable()
    if path.endswith(MMDB_SUFFIX):
        return NetworkTable.from_ranges(mmdb_networks(path))
    return NetworkTable.from_ranges(
        (first, last, _network_name(cells)) for first, last, cells in read_rows(path)
    )


def read_rows(path: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the first address, the last address and the other cells of each row of a file or URL (.gz allowed).

    Raise FingerprintError for a file that cannot be read and for a bad line.
    """
    try:
        with fsspec.open(path, "rt", compression="infer", newline="", encoding="utf-8") as stream:
            yield from _parse_rows(stream, path)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise FingerprintError(f"the table of networks {path} cannot be read: {error}") from None


def _parse_rows(stream: Iterator[str], path: str) -> Iterator[tuple[str, str, list[str]]]:
    first = next(iter(stream), "")
    separator = next((sign for sign in "\t;" if sign in first), ",")
    for number, row in enumerate(csv.reader(chain([first], stream), delimiter=separator), 1):
        try:
            if row:
                yield _parse_range(row)
        except ValueError as error:
            if number > 1:
                raise FingerprintError(f"line {number} of the table of networks {path}: {error}") from None


def _parse_range(row: list[str]) -> tuple[str, str, list[str]]:
    if "/" in row[0]:
        network = ipaddress.ip_network(row[0].strip(), strict=False)
        return str(network[0]), str(network[-1]), [cell.strip() for cell in row[1:]]
    first, last = (str(ipaddress.ip_address(cell.strip())) for cell in row[:2])
    return first, last, [cell.strip() for cell in row[2:]]


def _network_name(cells: list[str]) -> str:
    return " ".join(cell for cell in cells if cell) or "unnamed network"
