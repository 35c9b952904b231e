"""Names and ids for the placeholders of a record; seeded, so that an account always has the same buckets and roles.

Example:
    >>> pools = IdentifierPools("7/111122223333")
    >>> pools["i-"][0].startswith("i-0"), len(pools["name"])
    (True, 256)
"""

from __future__ import annotations

import base64
import random

POOL_SIZE = 256  # values of one kind; a power of two, so that any integer picks one with a mask
POOL_MASK = POOL_SIZE - 1

_TEAMS = [
    "orders", "billing", "search", "login", "media", "fraud", "ledger", "catalog", "shipping",
    "reports", "mobile", "ingest", "geo", "ads", "pricing", "risk",
]  # fmt: skip
_COMPONENTS = [
    "api", "worker", "events", "assets", "cache", "web", "jobs", "etl", "data", "queue", "logs",
    "models", "stream", "gateway", "backup", "config",
]  # fmt: skip
_ENVIRONMENTS = ["prod", "dev", "staging", "eu", "us", "main", "blue", "green"]
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


class IdentifierPools(dict[str, list[str]]):
    """A map from a kind to 256 values of that kind, made at first use.

    Kinds: `name`; `i-`, `vpc-` and other id prefixes; `key:AROA` and other kinds of key id; `uuid`, `UUID`;
    `b64:256` (that many characters); `digits:19`; `hex:32`.
    """

    def __init__(self, seed: str) -> None:
        super().__init__()
        self.seed = seed

    def __missing__(self, kind: str) -> list[str]:
        draw = random.Random(f"{self.seed}/{kind}")  # noqa: S311 - makes samples, guards nothing
        self[kind] = values = [_make_identifier(kind, draw) for _ in range(POOL_SIZE)]
        return values


def _make_identifier(kind: str, draw: random.Random) -> str:
    what, _, detail = kind.partition(":")
    if what == "name":
        return f"{draw.choice(_TEAMS)}-{draw.choice(_COMPONENTS)}-{draw.choice(_ENVIRONMENTS)}"
    if what == "key":
        return key_id(detail, draw)
    if what in ("uuid", "UUID"):
        return random_uuid(draw) if what == "uuid" else random_uuid(draw).upper()
    if what == "b64":
        return base64.b64encode(draw.randbytes(int(detail) * 3 // 4)).decode()[: int(detail)]
    if what == "digits":
        return "1" + "".join(draw.choices("0123456789", k=int(detail) - 1))
    if what == "hex":
        return draw.randbytes(int(detail) // 2).hex()
    return f"{kind}0{draw.randbytes(8).hex()}"  # vpc-0 and 16 hex digits


def random_uuid(draw: random.Random) -> str:
    """Return a random UUID in lower case."""
    h = draw.randbytes(16).hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def key_id(prefix: str, draw: random.Random) -> str:
    """Return a key or principal id in AWS's form: four letters for the kind (AKIA, ASIA, AROA, AIDA) and sixteen more."""
    return prefix + "".join(draw.choices(_ALPHABET, k=16))
