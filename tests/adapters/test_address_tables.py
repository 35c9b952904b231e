"""Country, owner and known ranges of an address: from MMDB and CSV, overlapping, hostile, missing, broken and replaced."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from fingerprint.adapters import network_table
from fingerprint.adapters.address_tables import CHECK_SECONDS, FileAddressTables, open_address_tables
from fingerprint.core.address import UNKNOWN_PLACE, AddressPlace
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Enrichment
from fingerprint.sources.networks import NetworkTable
from tests.support.alerts import NASTY
from tests.support.mmdb_file import write_mmdb

pytest.importorskip("maxminddb", reason="the extra `enrichment` is not installed")

OWNERS = {
    "198.51.100.0/24": {
        "autonomous_system_number": 64500,
        "autonomous_system_organization": "Example Hosting",
    },
    "198.51.100.128/25": {"asn": "AS64501", "as_name": "Example VPN"},
    "2001:db8::/32": {"autonomous_system_number": 64502, "autonomous_system_organization": "Example Home"},
}
COUNTRIES = {
    "198.51.100.0/24": {"country": {"iso_code": "NL", "names": {"en": "Netherlands"}}},
    "203.0.113.0/24": {"country_code": "DE", "country": "Germany"},
    "2001:db8::/32": {"country": "FR"},
}


@pytest.fixture
def tables(tmp_path: Path) -> FileAddressTables:
    vpn, cloud = tmp_path / "vpn.csv", tmp_path / "cloud.csv"
    vpn.write_text("network,name\n198.51.100.128/25,VPN exits of Example\n")
    cloud.write_text("198.51.0.0/16,Example Cloud\n198.51.100.0/24,Example Cloud eu-west-1\n")
    return FileAddressTables(
        Enrichment(
            country_file=str(write_mmdb(tmp_path / "country.mmdb", COUNTRIES)),
            network_owner_file=str(write_mmdb(tmp_path / "asn.mmdb", OWNERS)),
            known_ranges_files=(str(vpn), str(cloud)),
        )
    )


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("198.51.100.7", "NL · AS64500 Example Hosting · Example Cloud eu-west-1"),
        ("198.51.100.200", "NL · AS64501 Example VPN · VPN exits of Example · Example Cloud eu-west-1"),
        ("198.51.7.1", "Example Cloud"),
        ("203.0.113.9", "DE"),
        ("2001:db8::5", "FR · AS64502 Example Home"),
        ("192.0.2.1", ""),
        ("2001:db9::1", ""),
        ("ec2.amazonaws.com", ""),
        ("AWS Internal", ""),
        ("", ""),
    ],
)
def test_an_address_is_told_by_country_owner_and_known_ranges(tables, address, text):
    assert tables.place(address).text == text
    assert tables.place(address) == tables.place(address)


def test_an_owner_has_a_number_and_a_name():
    place = AddressPlace(owner="AS64500 Example Hosting")
    assert (place.as_number, place.organisation) == (64500, "Example Hosting")
    plain = AddressPlace(owner="ASSOCIATED Networks")
    assert (plain.as_number, plain.organisation) == (None, "ASSOCIATED Networks")


@pytest.mark.parametrize("text", NASTY)
def test_what_an_attacker_writes_as_an_address_is_no_address(tables, text):
    assert tables.place(text) == UNKNOWN_PLACE


def test_one_table_of_ip2asn_serves_as_countries_and_as_owners(tmp_path):
    file = tmp_path / "ip2asn.tsv"
    file.write_text(
        "198.51.100.0\t198.51.100.255\t64500\tNL\tExample Cloud\n203.0.113.0\t203.0.113.255\t0\tNone\tNot routed\n"
    )
    found = open_address_tables(Enrichment(country_file=str(file), network_owner_file=str(file)))
    assert found.place("198.51.100.1").text == "NL · AS64500 Example Cloud"
    assert found.place("203.0.113.1") == UNKNOWN_PLACE


def test_without_tables_nothing_is_known():
    assert open_address_tables(Enrichment()).place("198.51.100.7") == UNKNOWN_PLACE


@pytest.mark.parametrize("name", ["country_file", "network_owner_file"])
@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot be read"), (b"not an MMDB", "is no MMDB"), (b"", "is no MMDB")]
)
def test_a_missing_or_broken_mmdb_is_one_sentence(tmp_path, name, content, said):
    file = tmp_path / "table.mmdb"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(FingerprintError, match=said) as error:
        open_address_tables(Enrichment(**{name: str(file)}))
    assert str(file) in str(error.value)


def test_a_bad_line_of_known_ranges_is_named(tmp_path):
    file = tmp_path / "vpn.csv"
    file.write_text("198.51.100.0/24,VPN\n198.51.100.0/99,VPN\n")
    with pytest.raises(FingerprintError, match="line 2"):
        open_address_tables(Enrichment(known_ranges_files=(str(file),)))


def test_a_file_that_is_replaced_is_read_again_and_a_broken_one_is_not_used(tmp_path, caplog):
    file, now = tmp_path / "vpn.csv", [0.0]
    file.write_text("198.51.100.0/24,old\n")
    found = FileAddressTables(Enrichment(known_ranges_files=(str(file),)), clock=lambda: now[0])

    def replaced(text: str, at: float) -> str:
        file.write_text(text)
        os.utime(file, (at, at))
        now[0] += CHECK_SECONDS
        return found.place("198.51.100.7").text

    assert found.place("198.51.100.7").text == "old"
    assert replaced("198.51.100.0/24,new\n", 10) == "new"
    assert replaced("198.51.100.0/24,ok\nnonsense/1,x\n", 20) == "new"
    assert "not used" in caplog.text
    assert replaced("198.51.100.0/24,newest\n", 30) == "newest"


def test_the_feature_of_networks_takes_its_owners_from_an_mmdb_too(tmp_path):
    table = network_table.load_networks(str(write_mmdb(tmp_path / "asn.mmdb", OWNERS)))
    found = table.lookup(pd.Series(["198.51.100.7", "198.51.100.200", "192.0.2.1", "2001:db8::5"]))
    assert found.astype(object).where(found.notna(), None).tolist() == [
        "AS64500 Example Hosting",
        "AS64501 Example VPN",
        None,
        "AS64502 Example Home",
    ]


def test_of_overlapping_ranges_the_one_that_begins_last_holds_an_address():
    ranges = [
        ("10.0.0.0", "10.0.0.255", "large"),
        ("10.0.0.64", "10.0.0.127", "middle"),
        ("10.0.0.64", "10.0.0.71", "small"),
        ("10.0.0.250", "10.0.1.5", "beyond"),
        ("10.0.2.0", "10.0.2.9", "apart"),
    ]
    table = NetworkTable.from_ranges(ranges)
    for at in range(768):
        address = f"10.0.{at // 256}.{at % 256}"
        holding = [
            (first, -last, name)
            for begin, end, name in ranges
            if (first := _number(begin)) <= at <= (last := _number(end))
        ]
        assert table.name_of(address) == (max(holding)[2] if holding else None)


def _number(address: str) -> int:
    return int(address.split(".")[2]) * 256 + int(address.split(".")[3])
