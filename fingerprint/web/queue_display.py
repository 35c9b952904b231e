"""Display of the queue: density and columns that a person chose, stored in a cookie.

Example:
    >>> parse_display("cards:severity.principal.<script>")
    QueueDisplay(density='cards', columns=('severity', 'title', 'principal'))
    >>> QueueDisplay("table", ("severity", "age")).text
    'table:severity.age'

A cookie, because the server renders the page and must know the display: with the browser's own storage, the page would show one
table and then another. The cookie has no secret and no free text: names that are not in the whitelist are ignored, so a forged
cookie can only show other columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, cast, get_args

from fastapi import Request, Response

from fingerprint.core.alert import severity_of
from fingerprint.core.case import QueueOrder, QueueRow
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.web.cookies import read_cookie, set_cookie
from fingerprint.web.language import N_

Density = Literal["table", "cards"]
MAX_COOKIE_LENGTH = 300  # characters
KEPT_SECONDS = 400 * DAY_SECONDS  # the longest that browsers keep a cookie
# Time in which an open alert should be decided, by severity: a critical one within an hour, a low one within a week. They
# only mark
# rows; the overview has configurable targets.
DECISION_TARGETS = {
    "critical": timedelta(hours=1),
    "high": timedelta(hours=4),
    "medium": timedelta(days=1),
    "low": timedelta(days=7),
}


class QueueColumn(NamedTuple):
    """A column of the table. `orders` are the first and second order of its heading; empty if it does not sort."""

    name: str
    label: str
    orders: tuple[QueueOrder, QueueOrder] | None = None


# In the order of the table. The alert's title is always shown, after the severity.
COLUMNS = (
    QueueColumn("severity", N_("Severity"), ("urgency", "lowest")),
    QueueColumn("title", N_("What")),
    QueueColumn("principal", N_("Who")),
    QueueColumn("tactic", N_("Tactic")),
    QueueColumn("address", N_("From")),
    QueueColumn("account", N_("Account")),
    QueueColumn("region", N_("Region")),
    QueueColumn("service", N_("Service")),
    QueueColumn("age", N_("Last seen"), ("newest", "oldest")),
    QueueColumn("waiting", N_("In queue for")),
    QueueColumn("events", N_("Events"), ("events", "fewest")),
    QueueColumn("owner", N_("Assignee")),
)
COLUMN_NAMES = tuple(each.name for each in COLUMNS)
REQUIRED_COLUMNS = frozenset({"title"})
DEFAULT_COLUMNS = tuple(name for name in COLUMN_NAMES if name not in ("region", "service", "waiting"))
ASCENDING_ORDERS = frozenset({"lowest", "oldest", "fewest"})


@dataclass(frozen=True, slots=True)
class QueueDisplay:
    """Density and columns, in the order of `COLUMNS`."""

    density: Density = "table"
    columns: tuple[str, ...] = DEFAULT_COLUMNS

    @property
    def text(self) -> str:
        """Return the cookie's value."""
        return f"{self.density}:{'.'.join(self.columns)}"

    @property
    def shown(self) -> list[QueueColumn]:
        """Return the columns of the table."""
        return [each for each in COLUMNS if each.name in self.columns]


def build_display(density: str, columns: Iterable[str]) -> QueueDisplay:
    """Return a display with known names only: unknown columns are left out, required ones are added."""
    shown = {*columns} | REQUIRED_COLUMNS
    known = cast(Density, density) if density in get_args(Density) else "table"
    return QueueDisplay(known, tuple(name for name in COLUMN_NAMES if name in shown))


def parse_display(text: str) -> QueueDisplay:
    """Return the display of a cookie; the default for any other text."""
    density, separator, names = text.partition(":")
    if not separator or len(text) > MAX_COOKIE_LENGTH or density not in get_args(Density):
        return QueueDisplay()
    return build_display(density, names.split("."))


def read_display(request: Request, settings: Settings) -> QueueDisplay:
    """Return how this browser shows the queue."""
    return parse_display(read_cookie(request, "display", settings))


def set_display_cookie(response: Response, display: QueueDisplay, settings: Settings) -> Response:
    """Keep a display in the browser, and return the response."""
    set_cookie(response, "display", display.text, settings, KEPT_SECONDS)
    return response


def is_overdue(row: QueueRow, now: datetime) -> bool:
    """Return whether an open alert has waited longer than the target of its severity."""
    return row.open and now - row.stored_at > DECISION_TARGETS[severity_of(row.urgency)]


def sort_states(order: QueueOrder) -> Mapping[str, tuple[str, QueueOrder]]:
    """Return, for each column that sorts, its `aria-sort` and the order that its heading asks for next."""
    return {each.name: _sort_state(each.orders, order) for each in COLUMNS if each.orders}


def _sort_state(orders: tuple[QueueOrder, QueueOrder], order: QueueOrder) -> tuple[str, QueueOrder]:
    first, second = orders
    if order not in orders:
        return "none", first
    return ("ascending" if order in ASCENDING_ORDERS else "descending"), second if order == first else first
