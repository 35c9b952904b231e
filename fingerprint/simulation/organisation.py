"""An organisation: accounts, the calendar, and everything that all principals share.

Example:
    >>> organisation = Organisation.create(seed=1, start=date(2026, 1, 5), days=7, accounts=3)
    >>> [account.name for account in organisation.accounts]
    ['prod', 'dev', 'security']
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property

from fingerprint.simulation import user_agents
from fingerprint.simulation.api_catalogue import TemplateLibrary
from fingerprint.simulation.calendar import LOCATIONS
from fingerprint.simulation.identifiers import IdentifierPools
from fingerprint.simulation.world_parameters import DEFAULT_WORLD, WorldParameters

_ACCOUNT_NAMES = (
    "prod", "dev", "security", "data", "staging", "sandbox", "shared", "network", "billing",
    "archive",
)  # fmt: skip


@dataclass(frozen=True)
class Account:
    """An AWS account with names and ids of its own."""

    number: str
    name: str
    region: str
    pools: IdentifierPools = field(repr=False)
    endpoint: str = "vpce-0"

    @property
    def oidc_provider(self) -> str:
        """ARN of the cluster's OIDC provider."""
        host = f"oidc.eks.{self.region}.amazonaws.com/id/{self.pools['hex:32'][0].upper()}"
        return f"arn:aws:iam::{self.number}:oidc-provider/{host}"


@dataclass(frozen=True)
class Organisation:
    """Accounts, the calendar and the library of templates. The first account is the busiest, the third the management's."""

    seed: int
    start: date
    days: int
    accounts: tuple[Account, ...]
    library: TemplateLibrary = field(repr=False)
    parameters: WorldParameters = DEFAULT_WORLD

    @classmethod
    def create(
        cls,
        seed: int,
        start: date,
        days: int,
        accounts: int = 3,
        parameters: WorldParameters = DEFAULT_WORLD,
    ) -> Organisation:
        """Draw the accounts of a seed."""
        draw = random.Random(f"{seed}/accounts")  # noqa: S311 - makes samples, guards nothing
        regions = draw.sample(["us-east-1", "eu-west-1", "us-west-2", "eu-central-1"], k=2)
        made = tuple(_make_account(i, seed, regions[i % 2 if i else 0], draw) for i in range(accounts))
        return cls(seed, start, days, made, TemplateLibrary(), parameters)

    def date(self, day: int) -> date:
        """Return the date of day number `day`."""
        return self.start + timedelta(days=day)

    def random_for(self, *what: object) -> random.Random:
        """Return a generator for the thing of this name alone, so that adding other things does not change it."""
        return random.Random("/".join(map(str, (self.seed, *what))))  # noqa: S311 - makes samples, guards nothing

    @cached_property
    def attack_only_actions(self) -> frozenset[str]:
        """Actions of attacks that are in no principal's long tail (`WorldParameters.attack_only_actions`)."""
        share = self.parameters.attack_only_actions
        known = sorted(self.library.attack_actions) if share else []
        return frozenset(name for name in known if self.random_for("attack only", name).random() < share)

    @cached_property
    def offices(self) -> dict[str, tuple[str, ...]]:
        """Egress addresses of each place: two of one network."""
        draw = self.random_for("offices")
        found: dict[str, tuple[str, ...]] = {}
        for name in LOCATIONS:
            network = user_agents.office_network(draw)
            found[name] = (f"{network}{draw.randrange(2, 120)}", f"{network}{draw.randrange(120, 250)}")
        return found

    @cached_property
    def vpn(self) -> str:
        """Egress address of the VPN."""
        return user_agents.aws_address(self.random_for("vpn"))


def _make_account(i: int, seed: int, region: str, draw: random.Random) -> Account:
    number = f"{draw.randrange(2, 9)}{draw.randrange(10**10, 10**11)}"
    pools = IdentifierPools(f"{seed}/{number}")
    name = _ACCOUNT_NAMES[i] if i < len(_ACCOUNT_NAMES) else f"team-{i}"
    return Account(number, name, region, pools, f"vpce-0{draw.randbytes(8).hex()}")
