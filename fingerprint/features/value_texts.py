"""Texts and bins that features of any log source are made of: programs, networks, times of day, ages, counts.

Example:
    >>> program_and_version("aws-cli/2.15.1 Python/3.11 Linux/6")
    ('aws-cli linux', 'aws-cli 2.15 linux')
    >>> network_range("198.51.100.7", (24, 48))
    '198.51.100.0/24'
    >>> duration_text(900 * 2 ** 3)
    '2 h'

Text functions are called once for each distinct value. User agents and addresses come again in the next batch, so their texts are
cached. Binned columns (`time_of_day`, `session_age`) stay on the device of the events.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np

from fingerprint.compute import arrays, frames
from fingerprint.compute.arrays import Array
from fingerprint.compute.frames import Frame
from fingerprint.core.attack_tools import ATTACK_SYSTEMS
from fingerprint.core.time_range import DAY_MICROSECONDS, DAY_SECONDS

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

TEXT_CACHE_SIZE = 1 << 14  # user agents and addresses whose texts are cached
NO_COUNT = "none"
PRIVATE = "private"  # the network of all private addresses
QUARTER_HOUR_MICROSECONDS = 900_000_000
TWO_HOURS_MICROSECONDS = DAY_MICROSECONDS // 12
EPOCH_WEEKDAY = 3  # 1 January 1970 was a Thursday
# Ages of 2, 4, 8 ... quarters of an hour, as many as 64 bits hold.
_AGE_BORDERS = QUARTER_HOUR_MICROSECONDS << np.arange(1, 34)
# (84,) the bin of every two hours of a week, from Monday on
_BINS_OF_WEEK = np.array([2 * hours + 100 * (day >= 5) for day in range(7) for hours in range(12)])

# Also matches words without a slash, as a whole; otherwise the search would try again from each of their letters.
_PRODUCT = re.compile(r"([A-Za-z][\w.+-]*+)(?:(/)v?(\d++(?:\.\d++)?)?)?+")
# Parts of a program's name that are new in every run: a UUID, hexadecimal digits that are not all letters, and a number that is
# not part of a word or version (`s3cmd`, `log4j2` and `python3.11` are names).
_ID_IN_NAME = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(?<![0-9a-z.])(?:(?=[a-f]*[0-9])[0-9a-f]{6,}|[0-9]+)(?![0-9a-z]|\.[0-9])",
    re.IGNORECASE,
)
_SPACED_PRODUCTS = {"S3 Browser": "S3-Browser"}  # names with a blank
# Products in user agents that are not the program itself, which comes later
_GENERIC_PRODUCTS = {"apn", "hashicorp", "mozilla", "exec-env", "aws-internal"}
_BROWSERS = ("edg", "firefox", "chrome", "safari")
_SYSTEM = re.compile(r"(windows|darwin|macos|mac os|linux|android|iphone)", re.IGNORECASE)
# Distributions of Linux that are made for attacks, named by the kernel or beside it: `6.5.0-kali3-amd64`, `distrib#kali.2024`,
# `6.5.0-13parrot1-amd64`.
_ATTACK_SYSTEM = re.compile(rf"(?<![a-z])({'|'.join(ATTACK_SYSTEMS)})(?![a-z])", re.IGNORECASE)
# Anonymised and simulated records use these as if they were public addresses (RFC 5737, RFC 3849).
_DOCUMENTATION = [
    ipaddress.ip_network(text)
    for text in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
]
# Addresses behind the address translation of a carrier or cluster (RFC 6598).
_SHARED = [ipaddress.ip_network("100.64.0.0/10")]
# First numbers of IPv4 addresses that are all private, and of those that may be private; all others are public.
_OCTETS = frozenset(map(str, range(256)))
_PRIVATE_OCTETS = frozenset(map(str, (0, 10, 127, *range(240, 256))))
_MIXED_OCTETS = frozenset(map(str, (100, 169, 172, 192, 198, 203)))


def or_default(default: str) -> Callable[[str | None], str]:
    """Return a text function that returns `default` for a missing value."""
    return lambda value: default if value is None else value


def of_text(convert: Callable[[str], str]) -> Callable[[str | None], str | None]:
    """Return a text function that leaves missing values missing and converts the others."""
    return lambda value: None if value is None else convert(str(value))


def is_browser(program: str) -> bool:
    """Return whether a program (or program and version) is a browser; browsers upgrade themselves, by major versions.

    >>> is_browser("Chrome 137.0 windows")
    True
    """
    return program.partition(" ")[0].lower() in _BROWSERS


@lru_cache(TEXT_CACHE_SIZE)
def program_and_version(agent: str) -> tuple[str, str]:
    """Return the program of a user agent, and the program with its version, each with the operating system if it is there.

    Ids in the name become `*`. The operating system is part of the program, so a new one is a new program. A new version is not,
    because whole fleets are upgraded on one day.
    """
    agent = agent[:512].strip("[]")
    for spaced, name in _SPACED_PRODUCTS.items():
        agent = agent.replace(f"{spaced} ", f"{name}/").replace(f"{spaced}/", f"{name}/")
    products = [(name, version) for name, slash, version in _PRODUCT.findall(agent) if slash]
    if not products:
        return (_ID_IN_NAME.sub("*", agent)[:64] or "none",) * 2
    if agent.startswith("APN/") and len(products) > 2:
        products = products[2:]  # APN/1.0, a partner of AWS, the product
    names = {name.lower(): (name, version) for name, version in reversed(products)}
    browser = next((names[key] for key in _BROWSERS if key in names), None) if "mozilla" in names else None
    named = (product for product in products if product[0].lower() not in _GENERIC_PRODUCTS)
    name, version = browser or next(named, products[0])
    name = _ID_IN_NAME.sub("*", name)
    found = _ATTACK_SYSTEM.search(agent) or _SYSTEM.search(agent)
    system = f" {found[0].lower()}" if found else ""
    return name + system, f"{name} {version}".strip() + system


@lru_cache(TEXT_CACHE_SIZE)
def network_range(address: str, bits: tuple[int, int]) -> str:
    """Return the network of a source: the prefix of an address, PRIVATE for a private one, or the host name of a service.

    `bits` are the prefix lengths for IPv4 and IPv6. An address that cannot exist (anonymised records) is cut as text.
    """
    octets, length = address.split(".", 4), bits[0] // 8
    if len(octets) == 4 and _OCTETS.issuperset(octets) and octets[0] not in _MIXED_OCTETS:
        # `ipaddress` takes ten times as long
        public = ".".join([*octets[:length], *["0"] * (4 - length)])
        return PRIVATE if octets[0] in _PRIVATE_OCTETS else f"{public}/{bits[0]}"
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        cut = len(octets) == 4 and all(octet.isdigit() for octet in octets)
        return ".".join(octets[:length]) + f".*/{bits[0]}" if cut else address[:128].lower()
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if (ip.is_private and not ip.is_global and not _is_in(ip, _DOCUMENTATION)) or _is_in(ip, _SHARED):
        return PRIVATE
    return str(ipaddress.ip_network((ip, bits[ip.version == 6]), strict=False))


def _is_in(ip: Address, networks: Iterable[Network]) -> bool:
    return any(ip in network for network in networks if ip.version == network.version)


def network_text(name: str | None, address: str | None) -> str | None:
    """Return the name of the network if it has one (`sources.networks`), else a wide prefix of the address."""
    return name if name is not None else None if address is None else network_range(address, (16, 32))


def time_of_day(events: Frame) -> Array:
    """Bin `event_time` (N,) by two hours of the day (UTC), numbered by the first hour, plus 100 at the weekend."""
    time = frames.epoch_microseconds(frames.column_of(events, "event_time"))
    place = (time // TWO_HOURS_MICROSECONDS + 12 * EPOCH_WEEKDAY) % len(_BINS_OF_WEEK)
    return arrays.to_device_of(_BINS_OF_WEEK, place)[place]


def time_of_day_text(code: int) -> str:
    """Return the text of a bin of `time_of_day`: `weekday 08-10 UTC`."""
    return f"{'weekend' if code >= 100 else 'weekday'} {code % 100:02d}-{code % 100 + 2:02d} UTC"


def session_age(events: Frame) -> Array:
    """Bin the time (N,) since `session_created` by log2 of quarters of an hour; -2 without a session."""
    time, begun = (
        frames.epoch_microseconds(frames.column_of(events, name))
        for name in ("event_time", "session_created")
    )
    xp = arrays.namespace(time)
    doublings = xp.searchsorted(arrays.to_device_of(_AGE_BORDERS, time), time - begun, side="right")
    return xp.where(begun == frames.NOT_A_TIME, -2, doublings)


def session_age_text(code: int) -> str:
    """Return the text of a bin of `session_age`: `up to 30 min`."""
    return "no session" if code < 0 else f"up to {duration_text(900 * 2 ** (code + 1))}"


def idle_text(code: int) -> str:
    """Return the text of a bin of the scorer state's `idle`, which is log2 of the hours since the principal was last active."""
    return "never seen before" if code < 0 else f"up to {duration_text(3600 * 2**code)} ago"


def under_text(code: int) -> str:
    """Return the text of a bin of a count, which is log2 of one plus the count, rounded up."""
    return f"under {2**code}"


def count_text(text: str) -> str:
    """Return the text that is shown for a bin of a count, from the text of `under_text`, which is the one that is hashed.

    >>> list(map(count_text, ("under 1", "under 2", "under 8")))
    ['none', '1', '4 to 7']
    """
    under, _, number = text.partition(" ")
    if under != "under" or not number.isdecimal():
        return text
    least, most = int(number) // 2, int(number) - 1
    return NO_COUNT if not most else f"{least} to {most}" if most > least else f"{least}"


def duration_text(seconds: float) -> str:
    """Return a duration in the largest unit that it fills, for analysts."""
    for unit, length in (("d", DAY_SECONDS), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
