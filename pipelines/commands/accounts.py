"""Who may log in, from the command line: for the first admin, and for one who is locked out.

Example:
    $ fingerprint users invite maria
    Open this once, within 24 hours: http://127.0.0.1:8080/setup/Q0b...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fingerprint.adapters.system import SystemClock
from fingerprint.core.account import Person, Role
from fingerprint.core.settings import Settings
from fingerprint.store.accounts import SqlPeople, people_of
from fingerprint.store.alerts import open_desk
from pipelines.runtime import operator
from pipelines.serve import base_of


def run_list(settings: Settings, desk_url: str | None) -> list[dict[str, Any]]:
    """Accounts, by name."""
    with _people(settings, desk_url) as people:
        return [_figures(each) for each in people.persons()]


def run_invite(settings: Settings, desk_url: str | None, name: str, role: Role | None) -> dict[str, Any]:
    """A link: for a new account with a role, or for a new password."""
    with _people(settings, desk_url) as people:
        secret = people.invite(name, role, by=operator.at_console())
    return {
        "name": name.strip().lower(),
        "link": f"{base_of(settings.web, settings.web.port)}/setup/{secret}",
    }


def run_role(settings: Settings, desk_url: str | None, name: str, role: Role) -> dict[str, Any]:
    with _people(settings, desk_url) as people:
        people.set_role(name, role, by=operator.at_console())
        return _figures(people.person(name))


def run_disable(settings: Settings, desk_url: str | None, name: str, again: bool = False) -> dict[str, Any]:
    """Nobody's session, token or link any more; or `again` an account that may log in."""
    with _people(settings, desk_url) as people:
        (people.enable if again else people.disable)(name, by=operator.at_console())
        return _figures(people.person(name))


def run_end(settings: Settings, desk_url: str | None, name: str) -> dict[str, Any]:
    """End sessions and tokens of an account that may log in again."""
    with _people(settings, desk_url) as people:
        people.end_all(name, by=operator.at_console())
        return _figures(people.person(name))


def run_reset_second_factor(settings: Settings, desk_url: str | None, name: str) -> dict[str, Any]:
    """Remove second factors that were lost; sessions end."""
    with _people(settings, desk_url) as people:
        people.reset_factors(name, by=operator.at_console())
        return _figures(people.person(name))


def print_link(figures: dict[str, Any]) -> None:
    print(f"Open this once, within 24 hours: {figures['link']}")


def print_persons(found: list[dict[str, Any]]) -> None:
    """A table."""
    table = Table("name", "role", "state", "last login", box=None, header_style="bold")
    for each in found:
        table.add_row(*(escape(str(each[key] or "never")) for key in ("name", "role", "state", "last_login")))
    Console().print(table if found else "Nobody yet: `fingerprint serve` prints a link for the first admin.")


@contextmanager
def _people(settings: Settings, desk_url: str | None) -> Iterator[SqlPeople]:
    desk = open_desk(desk_url or settings.desk.url, create=False)
    try:
        yield people_of(desk, SystemClock(), settings.web)
    finally:
        desk.close()


def _figures(person: Person) -> dict[str, Any]:
    state = "disabled" if person.disabled_at else "invited" if person.invited else person.issuer or "local"
    return {
        "name": person.name,
        "role": person.role,
        "state": state,
        "last_login": person.last_login and f"{person.last_login:%Y-%m-%d %H:%M}",
    }
