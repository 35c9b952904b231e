"""A webhook reaches the internet, and of inner networks only what the settings allow."""

from __future__ import annotations

import pytest

from fingerprint.core.egress import parse_networks, parse_target, refusal_reason
from fingerprint.core.errors import FingerprintError

INSIDE = [
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("::1", "loopback"),
    ("0.0.0.0", "unspecified"),  # noqa: S104 - what an attacker would write
    ("::", "unspecified"),
    ("10.1.2.3", "private"),
    ("172.16.0.1", "private"),
    ("192.168.1.1", "private"),
    ("fd00:ec2::254", "private"),  # AWS's metadata over IPv6
    ("fec0::1", "private"),
    ("169.254.169.254", "link-local"),  # AWS's, Google's and Azure's metadata
    ("169.254.170.2", "link-local"),  # credentials of ECS tasks
    ("fe80::1", "link-local"),
    ("fe80::1%eth0", "link-local"),
    ("168.63.129.16", "Azure's metadata"),
    ("192.0.0.192", "reserved"),  # Oracle's metadata
    ("100.100.100.200", "reserved"),  # Alibaba's metadata, carrier-grade NAT
    ("224.0.0.1", "multicast"),
    ("239.255.255.250", "multicast"),
    ("ff02::1", "multicast"),
    ("255.255.255.255", "private"),
    ("240.0.0.1", "private"),
    ("198.18.0.1", "private"),
    ("3fff::1", "reserved"),
    ("::ffff:127.0.0.1", "leads to 127.0.0.1, which is loopback"),
    ("::ffff:a9fe:a9fe", "leads to 169.254.169.254, which is link-local"),
    ("::127.0.0.1", "leads to 127.0.0.1, which is loopback"),
    ("64:ff9b::10.0.0.1", "leads to 10.0.0.1, which is private"),
    ("64:ff9b::a9fe:a9fe", "leads to 169.254.169.254, which is link-local"),
    ("64:ff9b:1::7f00:1", "private"),
    ("2002:7f00:1::", "leads to 127.0.0.1, which is loopback"),
    (
        "2001:0:808:808:0:0:80ff:fffe",
        "leads to 127.0.0.1, which is loopback",
    ),  # Teredo: the client's, turned over
]


@pytest.mark.parametrize(("address", "why"), INSIDE)
def test_what_lies_inside_is_not_reached(address, why):
    assert why in (refusal_reason(address) or "")


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::"]
)
def test_the_internet_is_reached(address):
    assert refusal_reason(address) is None


def test_an_inner_network_is_reached_where_it_is_allowed_and_its_neighbours_are_not():
    allowed = parse_networks(["10.20.0.0/16", "fd00::5"])
    assert refusal_reason("10.20.1.1", allowed) is None
    assert refusal_reason("::ffff:10.20.1.1", allowed) is None
    assert refusal_reason("fd00::5", allowed) is None
    for outside in ("10.21.0.1", "fd00::6", "127.0.0.1", "169.254.169.254", "::ffff:10.21.0.1"):
        assert refusal_reason(outside, allowed)


@pytest.mark.parametrize("text", ["10.20.0.0/33", "10.20.0.1/16", "inside", ""])
def test_a_network_that_is_none_is_one_sentence(text):
    with pytest.raises(FingerprintError, match="name a network"):
        parse_networks([text])


@pytest.mark.parametrize(
    "url",
    [
        "",
        "soc.example.com/alerts",
        "ftp://soc.example.com/hunter2",
        "file:///etc/hunter2",
        "https://",
        "https:///hunter2",
        "https://soc.example.com:99999/hunter2",
        "https://soc.example.com/hunter2\r\nHost: evil",
        "https://soc.example.com/hunter2 x",
        "https://\u017foc.example.com/hunter2",
        "https://[::1/hunter2",
        "https://maria:hunter2@soc.example.com/",
        "http://soc.example.com/hunter2",
    ],
)
def test_a_url_that_cannot_be_a_receivers_is_refused_and_not_repeated(url):
    with pytest.raises(FingerprintError) as caught:
        parse_target(url)
    assert "hunter2" not in str(caught.value)


def test_a_place_is_shown_without_its_path():
    assert (
        str(parse_target("https://hooks.slack.example/services/T0/B0/hunter2"))
        == "https://hooks.slack.example"
    )
    assert (
        str(parse_target("http://soc.example.com:8080/a?b=hunter2", plain_http=True))
        == "http://soc.example.com"
    )
