"""Whose network an address lies in: where a table is given it names it, and a bad table is one sentence."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest

from fingerprint.adapters import network_table
from fingerprint.core.alert import FingerprintError
from fingerprint.features import encoding
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


def test_the_network_feature_takes_the_name_where_there_is_one() -> None:
    network = next(feature for feature in encoding.FEATURES if feature.name == "network")
    events = pd.DataFrame({"source_address": ["198.51.100.7", "203.0.113.9"], "network": ["AS64500", None]})
    assert network.texts(events).tolist() == ["AS64500", "203.0.0.0/16"]


@pytest.mark.parametrize(
    ("agent", "program", "version"),
    [
        ("aws-cli/2.15.1 Python/3.11.6 Linux/6.1 exe/x86_64", "aws-cli", "aws-cli 2.15 linux"),
        ("Boto3/1.35.50 md/Botocore#1.35.50 ua/2.0 os/linux#5.10", "Boto3", "Boto3 1.35 linux"),
        ("APN/1.0 HashiCorp/1.0 Terraform/1.5.7 (+https://www.terraform.io)", "Terraform", "Terraform 1.5"),
        ("[S3Console/0.4, aws-internal/3 aws-sdk-java/1.12]", "S3Console", "S3Console 0.4"),
        (
            "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/131.0.0.0 Safari/537.36",
            "Chrome",
            "Chrome 131.0 windows",
        ),
        ("ec2.amazonaws.com", "ec2.amazonaws.com", "ec2.amazonaws.com"),
        ("", "none", "none"),
    ],
)
def test_a_user_agent_is_a_program_and_a_version(agent: str, program: str, version: str) -> None:
    assert encoding.program_and_version(agent) == (program, version)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "private"),
        ("127.0.0.1", "private"),
        ("8.8.4.4", "8.8.4.0/24"),
        ("2a00:1450::1", "2a00:1450::/48"),
        ("06.237.252.245", "06.237.252.*/24"),
        ("cloudtrail.amazonaws.com", "cloudtrail.amazonaws.com"),
        ("AWS Internal", "aws internal"),
    ],
)
def test_a_source_is_a_network(address: str, network: str) -> None:
    assert encoding.network_range(address, (24, 48)) == network
