"""Address tables from files, MMDB or CSV: country, network owner and known ranges of an address.

Example:
    >>> tables = open_address_tables(Enrichment(country_file="GeoLite2-Country.mmdb", known_ranges_files=("vpn.csv",)))
    >>> tables.place("198.51.100.7").text
    'NL · VPN exits of Example'

A file is read at the start, when an error ends the program with one sentence. Publishers replace these files every few days, so a
changed file is read again while programs run. If the new file is broken, that is logged and the old table stays in use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any

from fingerprint.adapters.mmdb import (
    MMDB_SUFFIX,
    country_of_cells,
    country_of_record,
    open_mmdb,
    owner_of_cells,
    owner_of_record,
)
from fingerprint.adapters.network_table import read_rows
from fingerprint.core.address import UNKNOWN_PLACE, AddressPlace, AddressTables, NoAddressTables
from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.settings import Enrichment
from fingerprint.sources.networks import NetworkTable

CHECK_SECONDS = 60.0  # between two checks for changed files
MAX_CACHED = 65_536  # addresses whose place is cached
MAX_TEXT = 120  # characters of an owner's or a range's name

Lookup = Callable[[str], str]  # an address -> a text, empty if the table has none

log = get_logger("fingerprint.enrichment")


def open_address_tables(options: Enrichment) -> AddressTables:
    """Return the tables that the settings name. Raise FingerprintError for a file that is missing or broken."""
    given = options.country_file or options.network_owner_file or options.known_ranges_files
    return FileAddressTables(options) if given else NoAddressTables()


class FileAddressTables:
    """Tables read from files, and read again when a file changes."""

    _read_at: list[tuple[int, int] | None]  # the files' stamps when they were read

    def __init__(self, options: Enrichment, clock: Callable[[], float] = time.monotonic) -> None:
        self.options, self._clock = options, clock
        self._read()

    def place(self, address: str) -> AddressPlace:
        """Return the facts about an address; UNKNOWN_PLACE for a name, or for an address in no table."""
        if self._clock() >= self._next_check:
            self._read_changed()
        known = self._places.get(address)
        if known is None:
            if len(self._places) >= MAX_CACHED:
                self._places.clear()
            known = self._places[address] = self._look_up(address)
        return known

    def _look_up(self, address: str) -> AddressPlace:
        if not _is_address(address):
            return UNKNOWN_PLACE
        ranges = tuple(dict.fromkeys(name for table in self._ranges if (name := table(address))))
        return AddressPlace(self._country(address), self._owner(address), ranges)

    def _read_changed(self) -> None:
        self._next_check = self._clock() + CHECK_SECONDS
        if self._stamps() == self._read_at:
            return
        try:
            self._read()
        except FingerprintError as error:
            self._read_at = self._stamps()  # a broken file is not read again until it changes
            log.warning("a changed table of addresses is not used", reason=str(error))

    def _read(self) -> None:
        options, self._read_at = self.options, self._stamps()
        self._country = _open_table(options.country_file, country_of_record, country_of_cells)
        self._owner = _open_table(options.network_owner_file, owner_of_record, owner_of_cells)
        self._ranges = [
            _open_table(file, _no_name, lambda cells: " ".join(filter(None, cells)))
            for file in options.known_ranges_files
        ]
        self._places: dict[str, AddressPlace] = {}
        self._next_check = self._clock() + CHECK_SECONDS

    def _stamps(self) -> list[tuple[int, int] | None]:
        options = self.options
        return [
            _stamp(file)
            for file in (options.country_file, options.network_owner_file, *options.known_ranges_files)
        ]


def _is_address(text: str) -> bool:
    try:
        return len(text) <= 45 and ip_address(text) is not None
    except ValueError:
        return False


def _stamp(file: str | None) -> tuple[int, int] | None:
    """Return a stamp that changes when the file does; None if the file cannot be examined."""
    try:
        state = os.stat(file) if file else None
    except OSError:
        return None
    return (state.st_mtime_ns, state.st_size) if state else None


def _open_table(
    file: str | None,
    read_record: Callable[[Mapping[str, Any]], str],
    read_cells: Callable[[list[str]], str],
) -> Lookup:
    """Return the lookup of a table. `read_record` reads an MMDB's record, `read_cells` the cells after a row's addresses."""
    if not file:
        return lambda address: ""
    if file.endswith(MMDB_SUFFIX):
        return _mmdb_lookup(file, read_record)
    rows = ((first, last, _clipped(read_cells(cells))) for first, last, cells in read_rows(file))
    table = NetworkTable.from_ranges(row for row in rows if row[2])
    return lambda address: table.name_of(address) or ""


def _mmdb_lookup(file: str, read_record: Callable[[Mapping[str, Any]], str]) -> Lookup:
    reader = open_mmdb(file)

    def look_up(address: str) -> str:
        try:
            record = reader.get(address)
        except ValueError:  # a broken record, or an IPv6 address in a table of IPv4
            return ""
        return _clipped(read_record(record)) if isinstance(record, dict) else ""

    return look_up


def _no_name(record: Mapping[str, Any]) -> str:
    return str(record.get("name") or "")


def _clipped(text: str) -> str:
    return " ".join(text.split())[:MAX_TEXT]
