"""Settings of enrichment: tables that say more about an address than its digits."""

from __future__ import annotations

from pydantic import Field

from fingerprint.core.settings.base import Section


class Enrichment(Section):
    """Tables of addresses for alerts, filters and exports.

    Each is an MMDB file, or a CSV of CIDR blocks (or first and last address) and a text; a file that changes is read again within
    a minute.
    """

    country_file: str | None = Field(
        None,
        description="Table of countries: an MMDB such as GeoLite2 Country, or a CSV whose rows hold a code of two letters.",
    )
    network_owner_file: str | None = Field(
        None,
        description="Table of network owners: an MMDB such as GeoLite2 ASN, or a CSV with AS number and name. For the detectors' "
        "feature of networks see reading.networks_file.",
    )
    known_ranges_files: tuple[str, ...] = Field(
        (),
        description="CSV files of known ranges, such as clouds and VPN exits: a CIDR block and a name in each row.",
    )
