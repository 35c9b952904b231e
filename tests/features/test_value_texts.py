"""Texts and bins of features: programs, networks, times of day, ages and counts as analysts read them."""

from __future__ import annotations

import pandas as pd
import pytest

from fingerprint.features.value_texts import (
    count_text,
    duration_text,
    idle_text,
    network_range,
    network_text,
    of_text,
    or_default,
    program_and_version,
    session_age,
    session_age_text,
    time_of_day,
    time_of_day_text,
    under_text,
)


def times(*texts: str | None) -> pd.Series:
    return pd.Series(pd.to_datetime(list(texts), utc=True)).astype("datetime64[us, UTC]")


@pytest.mark.parametrize(
    ("agent", "program", "version"),
    [
        ("aws-cli/2.15.1 Python/3.11.6 Linux/6.1 exe/x86_64", "aws-cli linux", "aws-cli 2.15 linux"),
        ("Boto3/1.35.50 md/Botocore#1.35.50 ua/2.0 os/linux#5.10", "Boto3 linux", "Boto3 1.35 linux"),
        ("APN/1.0 HashiCorp/1.0 Terraform/1.5.7 (+https://www.terraform.io)", "Terraform", "Terraform 1.5"),
        ("APN/1.0 CloudBerry Lab, Inc/1.0 MSP360Backup/7.9.6", "MSP360Backup", "MSP360Backup 7.9"),
        ("APN/1.0 SomePartner/1.0", "SomePartner", "SomePartner 1.0"),
        ("S3 Browser/12.4.9 (Windows)", "S3-Browser windows", "S3-Browser 12.4 windows"),
        ("S3 Browser 9.5.5 <https://s3browser.com/>", "S3-Browser", "S3-Browser 9.5"),
        ("[S3Console/0.4, aws-internal/3 aws-sdk-java/1.12]", "S3Console", "S3Console 0.4"),
        (
            "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/131.0.0.0 Safari/537.36",
            "Chrome windows",
            "Chrome 131.0 windows",
        ),
        ("ec2.amazonaws.com", "ec2.amazonaws.com", "ec2.amazonaws.com"),
        ("", "none", "none"),
    ],
)
def test_a_user_agent_is_a_program_and_a_version(agent: str, program: str, version: str) -> None:
    assert program_and_version(agent) == (program, version)


@pytest.mark.parametrize(
    ("agent", "version"),
    [
        ("aws-cli/2.15.1 Python/3.11.6 Linux/6.5.0-kali3-amd64 exe/x86_64", "aws-cli 2.15 kali"),
        (
            "aws-cli/2.15.1 md/awscrt#0.19 ua/2.0 os/linux#6.5.0 md/distrib#kali.2024 md/prompt#off",
            "aws-cli 2.15 kali",
        ),
        ("Boto3/1.35.50 md/Botocore#1.35.50 ua/2.0 os/linux#6.5.0-13parrot1-amd64", "Boto3 1.35 parrot"),
        ("aws-cli/2.15.1 Python/3.11.6 Linux/6.6.13-Pentoo exe/x86_64", "aws-cli 2.15 pentoo"),
        ("aws-cli/2.15.1 ua/2.0 os/linux#6.7.2-arch1-1 md/distrib#blackarch", "aws-cli 2.15 blackarch"),
        ("aws-cli/2.15.1 ua/2.0 os/linux#6.5.0 md/distrib#kalinga.3", "aws-cli 2.15 linux"),
        ("alkali/2.0 Linux/6.1", "alkali 2.0 linux"),
    ],
)
def test_a_distribution_made_for_attacks_is_a_system_of_its_own(agent: str, version: str) -> None:
    assert program_and_version(agent)[1] == version


@pytest.mark.parametrize(
    ("agent", "program"),
    [
        ("databricks-run-8f3a91", "databricks-run-*"),
        ("databricks-run-8f3a91/2.0 Linux/6.1", "databricks-run-* linux"),
        ("nightly_job_20260108_1734", "nightly_job_*_*"),
        ("stratus-red-team_39f95f43-cd2f-4beb-b69e-be60b6fe1f57", "stratus-red-team_*"),
        ("68319f60-9dec-43b2-9702-de3a08c9d8a3", "*"),
        ("a" * 50 + "-8F3A91C2D4E5F60718293A4B", "a" * 50 + "-*"),
        ("kubernetes run 17", "kubernetes run *"),
    ],
)
def test_an_id_in_the_name_of_a_program_makes_no_new_program(agent: str, program: str) -> None:
    assert program_and_version(agent)[0] == program


@pytest.mark.parametrize(
    "name",
    [
        "s3cmd",
        "boto3",
        "log4j2",
        "python3.11",
        "ec2-api-tools 1.6.12.2",
        "facade",
        "aws-sdk-go-v2",
        "k9s",
        "ec2.amazonaws.com",
        "S3Console",
        "terraform-provider-aws-5.31",
    ],
)
def test_names_and_versions_of_programs_are_no_ids(name: str) -> None:
    assert program_and_version(name)[0] == name
    if " " not in name:
        assert program_and_version(f"{name}/2.1") == (name, f"{name} 2.1")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "private"),
        ("127.0.0.1", "private"),
        ("100.64.12.9", "private"),
        ("::ffff:10.1.2.3", "private"),
        ("::ffff:8.8.4.4", "8.8.4.0/24"),
        ("8.8.4.4", "8.8.4.0/24"),
        ("2a00:1450::1", "2a00:1450::/48"),
        ("06.237.252.245", "06.237.252.*/24"),
        ("cloudtrail.amazonaws.com", "cloudtrail.amazonaws.com"),
        ("AWS Internal", "aws internal"),
    ],
)
def test_a_source_is_a_network(address: str, network: str) -> None:
    assert network_range(address, (24, 48)) == network


def test_an_address_is_read_as_the_module_of_addresses_reads_it() -> None:
    for first in range(256):
        for rest in ("0.0.9", "16.2.255", "31.255.1", "51.100.7", "64.0.1", "168.0.1", "254.0.1"):
            # so written it is never read by its octets
            read = network_range(f"::ffff:{first}.{rest}", (16, 32))
            assert network_range(f"{first}.{rest}", (16, 32)) == read


def test_a_network_has_the_name_of_its_table_or_else_a_wide_prefix() -> None:
    assert network_text("AS64500", "198.51.100.7") == "AS64500"
    assert network_text(None, "203.0.113.9") == "203.0.0.0/16"
    assert network_text(None, None) is None


def test_a_missing_value_stays_missing_or_has_a_default() -> None:
    assert [of_text(str.upper)(value) for value in ("a", None)] == ["A", None]
    assert [or_default("none")(value) for value in ("a", None)] == ["a", "none"]


def test_a_time_is_two_hours_of_a_weekday_or_of_the_weekend() -> None:
    events = pd.DataFrame(
        {"event_time": times("2026-02-06T23:59:59", "2026-02-07T00:00:00", "2026-02-08T13:30:00")}
    )
    assert [time_of_day_text(each) for each in time_of_day(events).tolist()] == [
        "weekday 22-24 UTC",
        "weekend 00-02 UTC",
        "weekend 12-14 UTC",
    ]


@pytest.mark.parametrize(
    ("begun", "text"),
    [
        (None, "no session"),
        ("2026-02-02T12:00:00", "up to 30 min"),  # no time at all: the first bin
        ("2026-02-02T11:30:01", "up to 30 min"),
        ("2026-02-02T11:30:00", "up to 1 h"),
        ("2026-02-02T08:00:01", "up to 4 h"),
        ("2026-02-02T08:00:00", "up to 8 h"),
        ("1700-01-01T00:00:00", "up to 174763 d"),
        ("2026-02-02T13:00:00", "up to 30 min"),  # a clock that ran ahead
    ],
)
def test_the_age_of_a_session_is_a_power_of_quarters_of_an_hour(begun: str | None, text: str) -> None:
    events = pd.DataFrame({"event_time": times("2026-02-02T12:00:00"), "session_created": times(begun)})
    assert [session_age_text(each) for each in session_age(events).tolist()] == [text]


def test_counts_and_idle_times_say_what_they_are_under() -> None:
    counts = [under_text(code) for code in (0, 3, 1, 8)]
    assert counts[:2] == ["under 1", "under 8"]
    assert [*map(count_text, counts), count_text("x")] == ["none", "4 to 7", "1", "128 to 255", "x"]
    assert [idle_text(code) for code in (-1, 0, 5)] == ["never seen before", "up to 1 h ago", "up to 1 d ago"]
    assert [duration_text(seconds) for seconds in (59, 60, 7200, 86400)] == ["59 s", "1 min", "2 h", "1 d"]
