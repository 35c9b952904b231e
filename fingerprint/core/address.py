"""Facts about an address: country, network owner, and known ranges of clouds and VPNs.

Example:
    >>> place = tables.place("198.51.100.7")
    >>> place.country, place.owner, place.ranges
    ('NL', 'AS64500 Example Hosting', ('VPN exits of Example',))
    >>> place.text
    'NL · AS64500 Example Hosting · VPN exits of Example'

It is looked up where it is shown and not stored with an alert: tables are newer than alerts, and an alert store without tables
needs nothing. The filters of the queue are the exception: they search what was known when the alert was saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

AS_PREFIX = "AS"  # of the number of an autonomous system, as it is written


@dataclass(frozen=True, slots=True)
class AddressPlace:
    """Country (ISO 3166, two letters), network owner (`AS64500 Example`) and known ranges; empty where no table knows it."""

    country: str = ""
    owner: str = ""
    ranges: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it in one line; empty where nothing is known."""
        return " · ".join(each for each in (self.country, self.owner, *self.ranges) if each)

    @property
    def as_number(self) -> int | None:
        """The number of the autonomous system, None where the table gives none."""
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
        """Return what is known about an address; UNKNOWN_PLACE for a name, or what no table has. Never raises."""
        ...


class NoAddressTables:
    """No tables: nothing is known about any address."""

    def place(self, address: str) -> AddressPlace:
        """Return UNKNOWN_PLACE."""
        return UNKNOWN_PLACE


NO_ADDRESS_TABLES = NoAddressTables()
