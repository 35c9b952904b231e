"""Facts about addresses, for templates: the tables of the server that renders the page.

Example:
    >>> with using_address_tables(deps.addresses):
    ...     place_of("198.51.100.7").text
    'NL · AS64500 Example Hosting'

The tables are a context variable instead of a template value, because macros are imported without the context of a page. Reports
that are written without a server have no tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fingerprint.core.address import NO_ADDRESS_TABLES, AddressPlace, AddressTables

_tables: ContextVar[AddressTables] = ContextVar("address_tables", default=NO_ADDRESS_TABLES)


@contextmanager
def using_address_tables(tables: AddressTables) -> Iterator[None]:
    """Use these tables while the block runs."""
    token = _tables.set(tables)
    try:
        yield
    finally:
        _tables.reset(token)


def place_of(address: str) -> AddressPlace:
    """Return the facts about an address."""
    return _tables.get().place(address)
