"""Who there is: accounts, and what all principals share.

Example:
    >>> organisation = Organisation.of(seed=1, start=date(2026, 1, 5), days=7, accounts=3)
    >>> [account.name for account in organisation.accounts]
    ['prod', 'dev', 'security']
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property

from fingerprint.simulation import user_agents
from fingerprint.simulation.api_catalogue import Library
from fingerprint.simulation.calendar import PLACES
from fingerprint.simulation.identifiers import Pools

_NAMES = ("prod", "dev", "security", "data", "staging", "sandbox", "shared", "network", "billing", "archive")


@dataclass(frozen=True)
class Account:
    number: str
    name: str
    region: str
    pools: Pools = field(repr=False)
    endpoint: str = "vpce-0"

    @property
    def oidc_provider(self) -> str:
        host = f"oidc.eks.{self.region}.amazonaws.com/id/{self.pools['hex:32'][0].upper()}"
        return f"arn:aws:iam::{self.number}:oidc-provider/{host}"


@dataclass(frozen=True)
class Organisation:
    """Accounts, the calendar and the library of forms. The first account is the busiest, the third the
    management's.
    """

    seed: int
    start: date
    days: int
    accounts: tuple[Account, ...]
    library: Library = field(repr=False)

    @classmethod
    def of(cls, seed: int, start: date, days: int, accounts: int = 3) -> Organisation:
        draw = random.Random(f"{seed}/accounts")  # noqa: S311 - makes samples, guards nothing
        regions = draw.sample(["us-east-1", "eu-west-1", "us-west-2", "eu-central-1"], k=2)
        made = tuple(_account(i, seed, regions[i % 2 if i else 0], draw) for i in range(accounts))
        return cls(seed, start, days, made, Library())

    def date(self, day: int) -> date:
        return self.start + timedelta(days=day)

    def draw(self, *what: object) -> random.Random:
        """A generator of its own for everything that has a name: nothing moves when something else is
        added.
        """
        return random.Random("/".join(map(str, (self.seed, *what))))  # noqa: S311 - makes samples, guards nothing

    @cached_property
    def offices(self) -> dict[str, tuple[str, ...]]:
        """Egress addresses of each place: two of one network."""
        draw = self.draw("offices")
        found: dict[str, tuple[str, ...]] = {}
        for name in PLACES:
            network = user_agents.office(draw)
            found[name] = (f"{network}{draw.randrange(2, 120)}", f"{network}{draw.randrange(120, 250)}")
        return found

    @cached_property
    def vpn(self) -> str:
        return user_agents.aws(self.draw("vpn"))


def _account(i: int, seed: int, region: str, draw: random.Random) -> Account:
    number = f"{draw.randrange(2, 9)}{draw.randrange(10**10, 10**11)}"
    pools = Pools(f"{seed}/{number}")
    name = _NAMES[i] if i < len(_NAMES) else f"team-{i}"
    return Account(number, name, region, pools, f"vpce-0{draw.randbytes(8).hex()}")
