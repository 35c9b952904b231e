"""MMDB files (MaxMind's format, also used by others) through `maxminddb`; countries and owners in their records and in rows.

Example:
    >>> open_mmdb("GeoLite2-ASN.mmdb").get("198.51.100.7")
    {'autonomous_system_number': 64500, 'autonomous_system_organization': 'Example Hosting'}
    >>> owner_of_record(_)
    'AS64500 Example Hosting'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fingerprint.core.address import AS_PREFIX
from fingerprint.core.errors import FingerprintError
from fingerprint.core.extras import how_to_install

MMDB_SUFFIX = ".mmdb"


def open_mmdb(file: str) -> Any:
    """Return the reader of an MMDB file, which is read into memory. Raise FingerprintError if it cannot be read."""
    try:
        import maxminddb
    except ModuleNotFoundError:
        raise FingerprintError(
            f"the table {file} needs maxminddb: {how_to_install('enrichment')} has it"
        ) from None
    try:
        return maxminddb.open_database(file, maxminddb.MODE_MEMORY)
    except OSError as error:
        raise FingerprintError(
            f"the table of addresses {file} cannot be read: {error.strerror or error}"
        ) from None
    except (maxminddb.InvalidDatabaseError, ValueError) as error:
        raise FingerprintError(f"the table of addresses {file} is no MMDB: {error}") from None


def mmdb_networks(file: str) -> Iterator[tuple[str, str, str]]:
    """Yield the first address, the last address and the owner of each network of an MMDB."""
    for network, record in open_mmdb(file):
        if isinstance(record, dict) and (owner := owner_of_record(record)):
            yield str(network[0]), str(network[-1]), owner


def country_of_record(record: Mapping[str, Any]) -> str:
    """Return the country of a record of GeoLite2, DB-IP (`country.iso_code`) or IPinfo (`country_code`, `country`)."""
    country = record.get("country")
    code = country.get("iso_code") if isinstance(country, dict) else record.get("country_code") or country
    return _country_code(str(code or ""))


def owner_of_record(record: Mapping[str, Any]) -> str:
    """Return the owner of a record of GeoLite2 ASN or DB-IP (`autonomous_system_number`), or IPinfo (`asn`, `as_name`)."""
    number = record.get("autonomous_system_number") or record.get("asn") or ""
    name = record.get("autonomous_system_organization") or record.get("as_name") or record.get("name") or ""
    return owner_of_cells([str(number), str(name)])


def country_of_cells(cells: list[str]) -> str:
    """Return the first cell that is a country's code; empty if there is none."""
    return next((code for cell in cells if (code := _country_code(cell))), "")


def owner_of_cells(cells: list[str]) -> str:
    """Return the owner of cells in any order of AS number, country and name: `AS64500 Example`."""
    if "0" in cells:  # not routed, as ip2asn says it
        return ""
    numbers = [cell.upper().removeprefix(AS_PREFIX) for cell in cells]
    number = next((each for each in numbers if each.isdecimal()), "")
    names = [
        cell
        for cell, digits in zip(cells, numbers, strict=True)
        if not digits.isdecimal() and not _country_code(cell)
    ]
    return " ".join(filter(None, [f"{AS_PREFIX}{number}" if number else "", *names]))


def _country_code(text: str) -> str:
    return text if len(text) == 2 and text.isascii() and text.isalpha() and text.isupper() else ""
