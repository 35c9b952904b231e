# ruff: noqa: E501 - user agents are as long as they are
"""User agents and networks of people, machines and attackers.

Example:
    >>> UserAgent("aws-cli/2.22.1 md/command#{command}").render("ec2", "DescribeInstances")
    'aws-cli/2.22.1 md/command#ec2.describe-instances'
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from functools import cache

OPERATING_SYSTEMS = (
    "macos#23.6.0",
    "macos#24.3.0",
    "linux#6.8.0-52-generic",
    "linux#5.15.167.4-microsoft-standard-WSL2",
    "windows#10",
)
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(slots=True)
class UserAgent:
    """A user agent: `{command}` in its text stands for service and operation of a call, `{api}` for the service.

    `kind` is `sdk` (S3 logs it in brackets), `console` (some services log their own in its place) or `plain` (logged as it is).
    """

    text: str
    kind: str = "sdk"
    _cache: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)

    def render(self, service: str, name: str) -> str:
        """Return the user agent as recorded for one call."""
        key = (service, name)
        if key not in self._cache:
            self._cache[key] = self._render(service, name)
        return self._cache[key]

    def _render(self, service: str, name: str) -> str:
        if self.kind == "console":
            return _console(self.text, service)
        command = f"{service}.{_WORD.sub('-', re.sub(r'20[0-9_]+.*$', '', name)).lower()}"
        text = self.text.replace("{command}", command).replace("{api}", service)
        return f"[{text}]" if service == "s3" and self.kind == "sdk" else text


def _console(browser: str, service: str) -> str:
    java = "aws-internal/3 aws-sdk-java/1.12.780 Linux/5.10.230 OpenJDK_64-Bit_Server_VM/25.432-b06 java/1.8.0_432"
    if service == "s3":
        return f"[S3Console/0.4, {java} vendor/Oracle_Corporation cfg/retry-mode/standard]"
    if service in ("ec2", "health", "ce", "autoscaling", "elasticloadbalancing", "config", "support"):
        return "AWS Internal"
    return browser


# --- tools; `level` is the number of upgrades ------------------------------------------------------


def browser(draw: random.Random, newer: int = 0) -> UserAgent:
    """Draw a browser; `newer` is added to its version."""
    return _browser(draw.randrange(4), draw.randrange(128, 131) + newer)


@cache
def _browser(which: int, version: int) -> UserAgent:
    system = (
        "Macintosh; Intel Mac OS X 10_15_7",
        "Windows NT 10.0; Win64; x64",
        "X11; Linux x86_64",
        "Windows NT 10.0; Win64; x64",
    )[which]
    if which == 3:
        return UserAgent(
            f"Mozilla/5.0 ({system}; rv:{version}.0) Gecko/20100101 Firefox/{version}.0", "console"
        )
    return UserAgent(
        f"Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.0.0 Safari/537.36",
        "console",
    )


@cache
def cli(system: str, level: int) -> UserAgent:
    """Return the AWS command line at a level of upgrades."""
    return UserAgent(
        f"aws-cli/2.{22 + level}.{level * 7 % 20} md/awscrt#0.23.{level % 9} ua/2.0 os/{system} md/arch#x86_64 lang/python#3.12.6 "
        "md/pyimpl#CPython cfg/retry-mode#standard md/installer#exe md/prompt#off md/command#{command}"
    )


@cache
def boto(system: str, level: int, python: str = "3.11.9", extra: str = "") -> UserAgent:
    """Return the Python SDK at a level of upgrades."""
    return UserAgent(
        f"Boto3/1.35.{40 + 5 * level} md/Botocore#1.35.{40 + 5 * level} ua/2.0 os/{system} md/arch#x86_64 lang/python#{python} "
        f"md/pyimpl#CPython {extra}cfg/retry-mode#legacy Botocore/1.35.{40 + 5 * level}"
    )


@cache
def terraform(level: int) -> UserAgent:
    """Return Terraform at a level of upgrades."""
    return UserAgent(
        f"APN/1.0 HashiCorp/1.0 Terraform/1.9.{level % 9} (+https://www.terraform.io) terraform-provider-aws/5.{70 + level}.0 "
        "(+https://registry.terraform.io/providers/hashicorp/aws) aws-sdk-go-v2/1.32.2 ua/2.1 os/linux lang/go#1.23.1 "
        "md/GOOS#linux md/GOARCH#amd64 api/{api}#1.6.1"
    )


@cache
def go(level: int) -> UserAgent:
    """Return the Go SDK at a level of upgrades."""
    return UserAgent(
        f"aws-sdk-go-v2/1.3{level % 6}.0 ua/2.1 os/linux lang/go#1.22.{level % 9} md/GOOS#linux md/GOARCH#amd64 api/{{api}}#1.4.2"
    )


@cache
def java(level: int) -> UserAgent:
    """Return the Java SDK at a level of upgrades."""
    return UserAgent(
        f"aws-sdk-java/2.29.{level} md/io#sync md/http#Apache ua/2.1 os/Linux#5.10.228-219.884.amzn2.x86_64 "
        "lang/java#17.0.13 md/OpenJDK_64-Bit_Server_VM#17.0.13+11-LTS md/vendor#Amazon.com_Inc."
    )


@cache
def node(level: int, environment: str = "exec-env/AWS_Lambda_nodejs20.x") -> UserAgent:
    """Return the JavaScript SDK at a level of upgrades."""
    return UserAgent(
        f"aws-sdk-js/3.69{level}.0 ua/2.1 os/linux#5.10.226 lang/js md/nodejs#20.18.0 api/{{api}}#3.69{level}.0 {environment}"
    )


@cache
def fixed_user_agent(text: str) -> UserAgent:
    """Return a user agent that is the same for every call."""
    return UserAgent(text, "plain")


# --- networks -------------------------------------------------------------------------------------

_OFFICE_NETWORKS = ("198.51.{}.", "62.96.{}.", "81.2.{}.", "185.46.{}.", "12.38.{}.")
_HOUSEHOLD_NETWORKS = {  # of the providers at a place: the first byte, and the range of the second
    "Dublin": ((86, range(32, 64)), (109, range(64, 96)), (37, range(192, 256))),
    "Berlin": ((91, range(64)), (77, range(160, 192)), (79, range(192, 256))),
    "Seattle": ((73, range(64)), (24, range(16, 48)), (67, range(160, 192))),
    "New York": ((73, range(160, 224)), (24, range(184, 192)), (68, range(160, 200))),
    "Bengaluru": ((103, range(48, 128)), (49, range(200, 208)), (106, range(192, 224))),
}
_CLOUD_NETWORKS = (
    "167.99.{}.{}",
    "45.77.{}.{}",
    "95.216.{}.{}",
    "139.59.{}.{}",
    "51.15.{}.{}",
    "185.220.{}.{}",
    "104.248.{}.{}",
)
_AWS_NETWORKS = ("3.{}.{}.{}", "18.{}.{}.{}", "34.{}.{}.{}", "52.{}.{}.{}", "54.{}.{}.{}")


def office_network(draw: random.Random) -> str:
    """Draw the first three bytes of the egress addresses of an office."""
    return draw.choice(_OFFICE_NETWORKS).format(draw.randrange(1, 255))


def household_address(draw: random.Random, location: str = "") -> str:
    """Draw the address of a household at a place, or at any place."""
    first, second = draw.choice(_HOUSEHOLD_NETWORKS[location or draw.choice(list(_HOUSEHOLD_NETWORKS))])
    return _address(f"{first}.{draw.choice(second)}.{{}}.{{}}", draw)


def cloud_address(draw: random.Random) -> str:
    """Draw the address of a rented server, as attackers use them; the private VPN of an employee may end at one, too."""
    return _address(draw.choice(_CLOUD_NETWORKS), draw)


def travel_address(draw: random.Random, location: str) -> str:
    """Draw the address of a traveller: of a household at the place or at any place, or of a private VPN."""
    return draw.choice((household_address(draw, location), household_address(draw), cloud_address(draw)))


def aws_address(draw: random.Random) -> str:
    """Draw a public address of AWS."""
    return _address(draw.choice(_AWS_NETWORKS), draw)


def _address(pattern: str, draw: random.Random) -> str:
    return pattern.format(*(draw.randrange(1, 254) for _ in range(pattern.count("{}"))))
