"""Whose network an address lies in: where a table is given it names it, and a bad table is one sentence."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest

from fingerprint.adapters import network_table
from fingerprint.core.errors import FingerprintError
from fingerprint.sources.networks import NetworkTable

TABLE = "198.51.100.0\t198.51.100.127\t64500\tNL\tExample Cloud\n2001:db8::\t2001:db8::ffff\t64501\tDE\tExample Home\n"


def names(table: NetworkTable, *addresses: str | None) -> list[str | None]:
    found = table.lookup(pd.Series(addresses, dtype=object)).astype(object)
    return found.where(found.notna(), None).tolist()


def test_addresses_inside_a_range_have_its_name_and_others_none(tmp_path: Path) -> None:
    file = tmp_path / "asn.tsv.gz"
    file.write_bytes(gzip.compress(TABLE.encode()))
    table = network_table.load_networks(str(file))
    assert names(table, "198.51.100.0", "198.51.100.127", "198.51.100.128", "2001:db8::5") == [
        "64500 NL Example Cloud",
        "64500 NL Example Cloud",
        None,
        "64501 DE Example Home",
    ]
    assert names(table, "AWS Internal", None, "06.237.252.245", "") == [None] * 4


def test_a_table_of_prefixes_may_have_a_header(tmp_path: Path) -> None:
    file = tmp_path / "prefixes.csv"
    file.write_text("prefix,owner\n192.0.2.0/24,Office\n")
    assert names(network_table.load_networks(str(file)), "192.0.2.9", "192.0.3.1") == ["Office", None]


@pytest.mark.parametrize("text", ["192.0.2.0/24,ok\nnonsense,x\n", "192.0.2.0/24,ok\n192.0.2.0/99,x\n"])
def test_a_bad_line_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(FingerprintError, match="line 2"):
        network_table.load_networks(str(file))


def test_a_missing_table_is_one_sentence() -> None:
    with pytest.raises(FingerprintError, match="cannot be read"):
        network_table.load_networks("/nowhere/asn.tsv")
