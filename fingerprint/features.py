"""What identifies behaviour and is hard to mimic: events -> one 64-bit code per event and feature.

Example:
    >>> codes = encode(events)                                 # events from entity.add_entities
    >>> codes.shape == (len(events), len(FEATURES))
    True

Every feature is a category; numbers (ages, counts) are binned by powers, clocks by part of the day, so that one kind of
likelihood serves all and a loss means the same for all. Ids that are new in every record (request ids, session keys) are
no features. A feature `given` another is judged by what it adds: p(parameters | action) = p(action, parameters) / p(action).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint import hashing

Kind = Literal["value", "bin"]


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of codes. `values` maps events to the text of the feature (missing values are missing)."""

    name: str
    label: str  # as the analyst reads it
    kind: Kind  # "bin": a small closed set, in which nothing is ever quite new
    values: Callable[[pd.DataFrame], pd.Series]
    given: str | None = None
    remembered: bool = False  # from the ledger's memory, not from the record
    weight: float = 1.0  # of its surprise beside the others' (docs/detection.md says how it was found)


def encode(events: pd.DataFrame) -> hashing.Hashes:
    """Codes (N, F) uint64 of events, F in the order of FEATURES; a missing value is `hashing.MISSING`.

    What the ledger remembers is not there yet: `encode_memory` fills those columns.
    """
    codes = np.zeros((len(events), len(FEATURES)), dtype=np.uint64)
    if not len(events):  # a batch of nothing but repeats
        return codes
    for place, feature in enumerate(FEATURES):
        if not feature.remembered:
            codes[:, place] = hashing.of(feature.values(events))
    return codes


def encode_memory(codes: hashing.Hashes, events: pd.DataFrame) -> None:
    """Fill the columns of remembered features in place, from events with the ledger's memory columns."""
    for place, feature in enumerate(FEATURES):
        if feature.remembered:
            codes[:, place] = hashing.of(feature.values(events))


def texts(events: pd.DataFrame) -> pd.DataFrame:
    """The text behind the codes, one column a feature: for the few events that are explained."""
    return pd.DataFrame({feature.name: feature.values(events) for feature in FEATURES}, index=events.index)


def parameters_of(text: str) -> str:
    """`ec2:RunInstances(imageId,maxCount)` -> `imageId, maxCount`: what is shown of the parameters feature."""
    return text.partition("(")[2].removesuffix(")").replace(",", ", ") or "none"


# --- values ---------------------------------------------------------------------------------------------------------


def _action(events: pd.DataFrame) -> pd.Series:
    return events["service"].astype(object) + ":" + events["action"].astype(object)


def _parameters(events: pd.DataFrame) -> pd.Series:
    return _action(events) + "(" + events["parameter_names"].astype(object) + ")"


def _together(name: Callable[..., str], *columns: pd.Series) -> pd.Series:
    """A value of several columns, computed once per distinct combination; a missing value comes as None."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        of_column, distinct = pd.factorize(column)
        codes = pd.factorize(codes * (len(distinct) + 1) + of_column + 1)[0]
    first = np.unique(codes, return_index=True)[1]
    parts = [column.iloc[first].astype(object) for column in columns]
    rows = zip(*(part.where(part.notna(), None) for part in parts), strict=True)
    named = np.array([*(name(*row) for row in rows), None], dtype=object)
    return pd.Series(named[codes], index=columns[0].index)


def _credentials(events: pd.DataFrame) -> pd.Series:
    columns = (events["identity_type"], events["access_key"].str[:4], events["mfa"], events["from_console"])
    return _together(_credential, *columns)


def _credential(identity: str | None, key: str | None, mfa: bool | None, console: bool | None) -> str:
    kind = f"{'no type' if identity is None else identity} {KEY_KINDS.get(key or '', 'other key')}"
    return kind + (" with MFA" if mfa else "") + (" from the console" if console else "")


KEY_KINDS = {"AKIA": "long-lived key", "ASIA": "temporary key", "": "no key"}


def _target(events: pd.DataFrame) -> pd.Series:
    return events["target_account"].astype(object).fillna("own account")


def _per_distinct(column: str, name: Callable[[str], str]) -> Callable[[pd.DataFrame], pd.Series]:
    """A value computed once per distinct string of a column."""

    def values(events: pd.DataFrame) -> pd.Series:
        codes, distinct = pd.factorize(events[column])
        named = np.array([*(name(str(text)) for text in distinct), None], dtype=object)
        return pd.Series(named[codes], index=events.index)

    return values


KEPT = 1 << 14  # user agents and addresses whose names are remembered: most come again in the next batch
_PRODUCT = re.compile(r"([A-Za-z][\w.+-]*)/v?(\d+(?:\.\d+)?)?")
_BEFORE_THE_TOOL = {
    "apn",
    "hashicorp",
    "mozilla",
    "exec-env",
    "aws-internal",
}  # the real name comes after these
_BROWSERS = ("edg", "firefox", "chrome", "safari")
_SYSTEM = re.compile(r"(windows|darwin|macos|mac os|linux|android|iphone)", re.IGNORECASE)


@lru_cache(KEPT)
def program_and_version(agent: str) -> tuple[str, str]:
    """Family and version of a user agent: `aws-cli/2.15.1 Python/3.11 Linux/6` -> ("aws-cli", "aws-cli 2.15 linux")."""
    agent = agent[:512].strip("[]")
    products = [(name, version) for name, version in _PRODUCT.findall(agent)]
    if not products:
        return (agent[:64] or "none",) * 2
    names = {name.lower(): (name, version) for name, version in reversed(products)}
    browser = next((names[key] for key in _BROWSERS if key in names), None) if "mozilla" in names else None
    named = (product for product in products if product[0].lower() not in _BEFORE_THE_TOOL)
    name, version = browser or next(named, products[0])
    system = _SYSTEM.search(agent)
    return name, f"{name} {version} {system[0].lower() if system else ''}".strip()


@lru_cache(KEPT)
def network_of(address: str, bits: tuple[int, int]) -> str:
    """The network of a source: `198.51.100.7` -> `198.51.100.0/24`; AWS services and private ranges by name.

    `bits` are the prefix lengths for IPv4 and IPv6. An address that cannot exist (anonymised records) is cut as text.
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        octets = address.split(".")
        cut = len(octets) == 4 and all(octet.isdigit() for octet in octets)
        return ".".join(octets[: bits[0] // 8]) + f".*/{bits[0]}" if cut else address[:128].lower()
    if ip.is_private and not ip.is_global and not _is_documentation(ip):
        return "private"
    return str(ipaddress.ip_network((ip, bits[ip.version == 6]), strict=False))


def _is_documentation(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return any(ip in network for network in _DOCUMENTATION if ip.version == network.version)


# Anonymised and simulated records use these as if they were public addresses (RFC 5737, RFC 3849).
_DOCUMENTATION = [
    ipaddress.ip_network(text)
    for text in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
]


def _network(events: pd.DataFrame) -> pd.Series:
    """The network's name where a table has one (`networks.Networks`), else a wide prefix."""
    prefix = _per_distinct("source_address", lambda ip: network_of(ip, (16, 32)))(events)
    return events["network"].astype(object).fillna(prefix) if "network" in events else prefix


READS = (
    "Get",
    "List",
    "Describe",
    "Head",
    "Lookup",
    "Batch",
    "Search",
    "Query",
    "Scan",
    "View",
    "Check",
    "Test",
)


def writes(events: pd.DataFrame) -> pd.Series:
    """Which events changed something: readOnly where the record has it, else by the action's verb."""
    reads = events["action"].str.startswith(READS).fillna(False)
    return ~events["read_only"].fillna(reads).astype(bool)


def _hour(events: pd.DataFrame) -> pd.Series:
    time = events["event_time"].dt
    days = np.where(time.dayofweek >= 5, "weekend", "weekday")
    parts = (time.hour // 2 * 2).to_numpy()
    codes = parts + 100 * (days == "weekend")
    return _named(
        codes,
        events,
        lambda code: f"{'weekend' if code >= 100 else 'weekday'} {code % 100:02d}-{code % 100 + 2:02d} UTC",
    )


def _session_age(events: pd.DataFrame) -> pd.Series:
    seconds = (events["event_time"] - events["session_created"]).dt.total_seconds().to_numpy(dtype=np.float64)
    hours = np.where(np.isnan(seconds), -2, np.floor(np.log2(np.maximum(seconds, 900) / 900)))
    return _named(
        hours.astype(int),
        events,
        lambda code: "no session" if code < 0 else f"up to {_span(900 * 2 ** (code + 1))}",
    )


def _memory(column: str, text: Callable[[int], str]) -> Callable[[pd.DataFrame], pd.Series]:
    """A number that the ledger remembers (int column of bins), named."""
    return lambda events: _named(events[column].to_numpy(dtype=np.int64), events, text)


def _named(codes: NDArray[np.int64], events: pd.DataFrame, text: Callable[[int], str]) -> pd.Series:
    distinct, inverse = np.unique(codes, return_inverse=True)
    named = np.array([text(int(code)) for code in distinct], dtype=object)
    return pd.Series(named[inverse], index=events.index)


def _span(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _idle_text(code: int) -> str:
    return "never seen before" if code < 0 else f"up to {_span(3600 * 2**code)} ago"


BIN = 0.4  # weight of a bin: how busy or early a day is says less than who calls what from where

FEATURES: tuple[Feature, ...] = (
    Feature("action", "action", "value", _action),
    Feature("parameters", "parameters", "value", _parameters, given="action", weight=0.5),
    Feature("error", "error", "value", lambda events: events["error_code"].astype(object).fillna("no error")),
    Feature(
        "program",
        "program",
        "value",
        _per_distinct("user_agent", lambda agent: program_and_version(agent)[0]),
    ),
    Feature(
        "version",
        "program version",
        "value",
        _per_distinct("user_agent", lambda agent: program_and_version(agent)[1]),
        given="program",
    ),
    Feature("network", "network", "value", _network),
    Feature(
        "address",
        "address range",
        "value",
        _per_distinct("source_address", lambda ip: network_of(ip, (24, 48))),
        given="network",
    ),
    Feature(
        "mode", "read or write", "bin", lambda events: writes(events).map({True: "write", False: "read"})
    ),
    Feature("region", "region", "value", lambda events: events["region"].astype(object)),
    Feature("credentials", "credentials", "value", _credentials),
    Feature("target", "target account", "value", _target),
    Feature("hour", "time of day", "bin", _hour, weight=BIN),
    Feature("age", "age of the session", "bin", _session_age, weight=BIN),
    Feature("idle", "last active", "bin", _memory("idle", _idle_text), remembered=True, weight=BIN),
    Feature(
        "today",
        "events so far today",
        "bin",
        _memory("today", lambda code: f"under {2**code}"),
        remembered=True,
    ),
    Feature("sources", "new sources today", "bin", _memory("sources", str), remembered=True, weight=BIN),
    Feature(
        "actions",
        "new actions today",
        "bin",
        _memory("actions", lambda code: f"under {2**code}"),
        remembered=True,
    ),
)

NAMES = tuple(feature.name for feature in FEATURES)
GIVEN = np.array([NAMES.index(feature.given) if feature.given else -1 for feature in FEATURES])  # (F,)
WEIGHT = np.array([feature.weight for feature in FEATURES], np.float32)  # (F,)
IS_BIN = np.array([feature.kind == "bin" for feature in FEATURES])  # (F,)
