"""What identifies behaviour and is hard to mimic: events -> one 64-bit code per event and feature.

Example:
    >>> codes = encode(events)                                 # events from entity.add_entities
    >>> codes.shape == (len(events), len(FEATURES))
    True

Every feature is a category; numbers (ages, counts) are binned by powers, clocks by part of the day, so that one kind of
likelihood serves all and a loss means the same for all. Ids that are new in every record (request ids, session keys) are
no features. A feature `given` another is judged by what it adds: p(parameters | action) = p(action, parameters) / p(action).
Codes lie where the events do; what is distinct in a column is named on the host.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import arrays, frames, hashing
from fingerprint.compute.arrays import Array
from fingerprint.compute.dictionary import DictionaryEncoded, EncodedColumn, encode_numbers, map_values
from fingerprint.compute.frames import Frame

FeatureKind = Literal["value", "bin"]
EvidenceGroup = Literal["what", "outcome", "tool", "place", "time"]  # features of one facet tell of one fact


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of codes. `text` names the values that an event has in `columns`, of the frame or of DERIVED; a value that
    is missing comes as None, and so does its text."""

    name: str
    label: str  # as the analyst reads it
    kind: FeatureKind  # "bin": a small closed set, in which nothing is ever quite new
    evidence_group: EvidenceGroup
    columns: tuple[str, ...]
    text: Callable[..., str | None]
    given: str | None = None
    is_stateful: bool = False  # from the ledger's memory, not from the record
    weight: float = (
        1.0  # of its surprise beside the others' (docs/explanation/detection.md says how it was found)
    )

    def encoded_texts(self, coded: DictionaryEncoded) -> tuple[Array, NDArray[np.object_]]:
        """The code of each event's text (N,), where the events lie, and the texts."""
        code, distinct = coded.combined_column(self.columns)
        return code, np.array([*(self.text(*values) for values in distinct), None], object)

    def texts(self, events: pd.DataFrame) -> NDArray[np.object_]:
        """The text of each event, (N,), of events on the host; None where there is none."""
        code, texts = self.encoded_texts(DictionaryEncoded(events, DERIVED_COLUMNS))
        return texts[code]


def encode_events(events: Frame) -> Array:
    """Codes (N, F) uint64 of events, F in the order of FEATURES; a missing value is `hashing.MISSING`.

    What the ledger remembers is not there yet: `encode_memory` fills those columns.
    """
    codes = frames.array_module_of(events).zeros((len(events), len(FEATURES)), dtype=np.uint64)
    _fill(codes, events, stateful=False)
    return codes


def encode_stateful_features(codes: Array, events: Frame) -> None:
    """Fill the columns of remembered features in place, from events with the ledger's memory columns."""
    _fill(codes, events, stateful=True)


def _fill(codes: Array, events: Frame, stateful: bool) -> None:
    if not len(events):  # a batch of nothing but repeats
        return
    coded, start = DictionaryEncoded(events, DERIVED_COLUMNS), 0
    places = [place for place, feature in enumerate(FEATURES) if feature.is_stateful == stateful]
    named = [FEATURES[place].encoded_texts(coded) for place in places]
    hashes = arrays.to_device_of(hashing.hash_distinct(np.concatenate([texts for _, texts in named])), codes)
    for place, (code, texts) in zip(places, named, strict=True):
        codes[:, place] = hashes[start + code]
        start += len(texts)


def feature_texts(events: pd.DataFrame) -> pd.DataFrame:
    """The text behind the codes, one column a feature: for the few events that are explained."""
    return pd.DataFrame({feature.name: feature.texts(events) for feature in FEATURES}, index=events.index)


def parameter_names(text: str) -> str:
    """`ec2:RunInstances(imageId,maxCount)` -> `imageId, maxCount`: what is shown of the parameters feature."""
    return text.partition("(")[2].removesuffix(")").replace(",", ", ") or "none"


# --- values ---------------------------------------------------------------------------------------------------------


def _action(service: str | None, action: str | None) -> str | None:
    return None if service is None or action is None else f"{service}:{action}"


def _parameters(service: str | None, action: str | None, names: str | None) -> str | None:
    called = _action(service, action)
    return None if called is None or names is None else f"{called}({names})"


def _credential(identity: str | None, key: str, mfa: bool | None, console: bool | None) -> str:
    kind = f"{'no type' if identity is None else identity} {KEY_KINDS.get(key, 'other key')}"
    return kind + (" with MFA" if mfa else "") + (" from the console" if console else "")


KEY_KINDS = {"AKIA": "long-lived key", "ASIA": "temporary key", "": "no key"}


def _key_kind(coded: DictionaryEncoded) -> EncodedColumn:
    """What access keys begin with: there are many keys, and few kinds."""
    return map_values(coded.column("access_key"), lambda key: (key or "")[:4])


def _identity(value: str | None) -> str | None:
    return value


def _or_default(otherwise: str) -> Callable[[str | None], str]:
    return lambda value: otherwise if value is None else value


def _of_text(name: Callable[[str], str]) -> Callable[[str | None], str | None]:
    return lambda value: None if value is None else name(str(value))


TEXT_CACHE_SIZE = (
    1 << 14
)  # user agents and addresses whose names are remembered: most come again in the next batch
# A word without a slash is taken whole, too: it would be tried again from each of its letters.
_PRODUCT = re.compile(r"([A-Za-z][\w.+-]*+)(?:(/)v?(\d++(?:\.\d++)?)?)?+")
_BEFORE_THE_TOOL = {
    "apn",
    "hashicorp",
    "mozilla",
    "exec-env",
    "aws-internal",
}  # the real name comes after these
_BROWSERS = ("edg", "firefox", "chrome", "safari")
_SYSTEM = re.compile(r"(windows|darwin|macos|mac os|linux|android|iphone)", re.IGNORECASE)


@lru_cache(TEXT_CACHE_SIZE)
def program_and_version(agent: str) -> tuple[str, str]:
    """Family and version of a user agent: `aws-cli/2.15.1 Python/3.11 Linux/6` -> ("aws-cli", "aws-cli 2.15 linux")."""
    agent = agent[:512].strip("[]")
    products = [(name, version) for name, slash, version in _PRODUCT.findall(agent) if slash]
    if not products:
        return (agent[:64] or "none",) * 2
    names = {name.lower(): (name, version) for name, version in reversed(products)}
    browser = next((names[key] for key in _BROWSERS if key in names), None) if "mozilla" in names else None
    named = (product for product in products if product[0].lower() not in _BEFORE_THE_TOOL)
    name, version = browser or next(named, products[0])
    system = _SYSTEM.search(agent)
    return name, f"{name} {version} {system[0].lower() if system else ''}".strip()


@lru_cache(TEXT_CACHE_SIZE)
def network_range(address: str, bits: tuple[int, int]) -> str:
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


def _network(name: str | None, address: str | None) -> str | None:
    """The network's name where a table has one (`networks.Networks`), else a wide prefix."""
    return name if name is not None else None if address is None else network_range(address, (16, 32))


READ_PREFIXES = (
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


def is_write(events: Frame) -> Array:
    """Which events (N,) changed something: readOnly where the record has it, else by the action's verb."""
    code, distinct = DictionaryEncoded(events).combined_column(("action", "read_only"))
    return arrays.to_device_of(np.array([*(_writes(*values) for values in distinct), False]), code)[code]


def _writes(action: str | None, read_only: bool | None) -> bool:
    return not ((action or "").startswith(READ_PREFIXES) if read_only is None else read_only)


def _mode(action: str | None, read_only: bool | None) -> str:
    return "write" if _writes(action, read_only) else "read"


DAY_MICROSECONDS = 86_400_000_000  # microseconds
QUARTER_HOUR_MICROSECONDS = 900_000_000
EPOCH_WEEKDAY = 3  # 1 January 1970


def _hour(coded: DictionaryEncoded) -> EncodedColumn:
    """Two hours of the day, by their first; 100 more at the weekend."""
    time = frames.epoch_microseconds(coded.events["event_time"])
    weekend = (time // DAY_MICROSECONDS + EPOCH_WEEKDAY) % 7 >= 5
    return encode_numbers(time % DAY_MICROSECONDS // (DAY_MICROSECONDS // 12) * 2 + 100 * weekend)


def _hour_text(code: int) -> str:
    return f"{'weekend' if code >= 100 else 'weekday'} {code % 100:02d}-{code % 100 + 2:02d} UTC"


def _age(coded: DictionaryEncoded) -> EncodedColumn:
    """Log2 of the quarters of an hour since the session began; -2 where there is none."""
    time, begun = (
        frames.epoch_microseconds(coded.events[name]) for name in ("event_time", "session_created")
    )
    xp = arrays.namespace(time)
    quarters = xp.maximum((time - begun) // QUARTER_HOUR_MICROSECONDS, 1)
    exponent = xp.frexp(quarters.astype(np.float64))[1] - 1  # floor(log2), the same by every library
    return encode_numbers(xp.where(begun == frames.NOT_A_TIME, -2, exponent).astype(np.int64))


def _age_text(code: int) -> str:
    return "no session" if code < 0 else f"up to {_format_duration(900 * 2 ** (code + 1))}"


DERIVED_COLUMNS: dict[str, Callable[[DictionaryEncoded], EncodedColumn]] = {
    "key_kind": _key_kind,
    "hour": _hour,
    "age": _age,
}


def _format_duration(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _idle_text(code: int) -> str:
    return "never seen before" if code < 0 else f"up to {_format_duration(3600 * 2**code)} ago"


def _under(code: int) -> str:
    return f"under {2**code}"


BIN_WEIGHT = 0.4  # weight of a bin: how busy or early a day is says less than who calls what from where

FEATURES: tuple[Feature, ...] = (
    Feature("action", "action", "value", "what", ("service", "action"), _action),
    Feature(
        *("parameters", "parameters", "value", "what", ("service", "action", "parameter_names"), _parameters),
        given="action",
        weight=0.5,
    ),
    Feature("error", "error", "value", "outcome", ("error_code",), _or_default("no error")),
    Feature(
        *("program", "program", "value", "tool", ("user_agent",)),
        _of_text(lambda agent: program_and_version(agent)[0]),
    ),
    Feature(
        *("version", "program version", "value", "tool", ("user_agent",)),
        _of_text(lambda agent: program_and_version(agent)[1]),
        given="program",
    ),
    Feature("network", "network", "value", "place", ("network", "source_address"), _network),
    Feature(
        *("address", "address range", "value", "place", ("source_address",)),
        _of_text(lambda address: network_range(address, (24, 48))),
        given="network",
    ),
    Feature("mode", "read or write", "bin", "what", ("action", "read_only"), _mode),
    Feature("region", "region", "value", "place", ("region",), _identity),
    Feature(
        *("credentials", "credentials", "value", "tool"),
        ("identity_type", "key_kind", "mfa", "from_console"),
        _credential,
    ),
    Feature("target", "target account", "value", "place", ("target_account",), _or_default("own account")),
    Feature("hour", "time of day", "bin", "time", ("hour",), _hour_text, weight=BIN_WEIGHT),
    Feature("age", "age of the session", "bin", "time", ("age",), _age_text, weight=BIN_WEIGHT),
    Feature("idle", "last active", "bin", "time", ("idle",), _idle_text, is_stateful=True, weight=BIN_WEIGHT),
    Feature("today", "events so far today", "bin", "time", ("today",), _under, is_stateful=True),
    Feature(
        "sources", "new sources today", "bin", "time", ("sources",), str, is_stateful=True, weight=BIN_WEIGHT
    ),
    Feature("actions", "new actions today", "bin", "time", ("actions",), _under, is_stateful=True),
)

FEATURE_NAMES = tuple(feature.name for feature in FEATURES)
GIVEN_FEATURE = np.array(
    [FEATURE_NAMES.index(feature.given) if feature.given else -1 for feature in FEATURES]
)  # (F,)
FEATURE_WEIGHTS = np.array([feature.weight for feature in FEATURES], np.float32)  # (F,)
IS_BIN = np.array([feature.kind == "bin" for feature in FEATURES])  # (F,)
EVIDENCE_GROUPS: tuple[EvidenceGroup, ...] = get_args(EvidenceGroup)
EVIDENCE_GROUP_FEATURES = tuple(  # where the features of each facet are
    np.flatnonzero([feature.evidence_group == facet for feature in FEATURES]) for facet in EVIDENCE_GROUPS
)
