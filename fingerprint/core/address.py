"""Facts about an address: country, network owner, and known ranges of clouds and VPNs.

Example:
    >>> place = tables.place("198.51.100.7")
    >>> place.country, place.owner, place.ranges
    ('NL', 'AS64500 Example Hosting', ('VPN exits of Example',))
    >>> place.text
    'NL · AS64500 Example Hosting · VPN exits of Example'

The facts are looked up when an alert is shown and are not stored with it: the tables are updated after the alert was saved, and
an alert store works without any. Only the filters of the queue search the facts that were known when the alert was saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

AS_PREFIX = "AS"  # before the number of an autonomous system


@dataclass(frozen=True, slots=True)
class AddressPlace:
    """Country (ISO 3166, two letters), network owner (`AS64500 Example`) and known ranges; empty if no table knows them."""

    country: str = ""
    owner: str = ""
    ranges: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All facts in one line; empty if none is known."""
        return " · ".join(each for each in (self.country, self.owner, *self.ranges) if each)

    @property
    def as_number(self) -> int | None:
        """The number of the autonomous system, None if the table gives none."""
        first = self.owner.partition(" ")[0].removeprefix(AS_PREFIX)
        return int(first) if self.owner.startswith(AS_PREFIX) and first.isdecimal() else None

    @property
    def organisation(self) -> str:
        """The owner's name without its number."""
        return self.owner if self.as_number is None else self.owner.partition(" ")[2]


UNKNOWN_PLACE = AddressPlace()


class AddressTables(Protocol):
    """Tables that an operator names in the settings (`enrichment`)."""

    def place(self, address: str) -> AddressPlace:
        """Return the facts about an address; UNKNOWN_PLACE for a name, or for an address in no table. Never raises."""
        ...


class NoAddressTables:
    """No tables: nothing is known about any address."""

    def place(self, address: str) -> AddressPlace:
        """Return UNKNOWN_PLACE."""
        return UNKNOWN_PLACE


NO_ADDRESS_TABLES = NoAddressTables()
