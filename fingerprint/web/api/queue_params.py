"""What may be asked of the queue: its filter, order and pages, as parameters of an address.

Example:
    >>> Listing(service="iam", least_urgency=50).filter()
    Filter(status='open', least_urgency=50, most_urgency=100, principal='', service='iam', ...)
"""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from fingerprint.core.alert import Decision, Level
from fingerprint.core.case import LARGEST_PAGE, Filter, Order, Status
from fingerprint.core.sanitize import storable

LONGEST = 2_000  # characters of a text that is asked for
LARGEST = 2**63 - 1  # that a database's number can be
WRITTEN = r"[^\s\x85\ufeff]"  # more than blanks, whichever these are: Python's, Rust's and JavaScript's differ in two
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)


def _in_utc(moment: datetime) -> datetime:
    """In UTC, and no farther than all databases go."""
    return min(max(moment, EARLIEST), LATEST).astimezone(UTC)


# A NUL or half a surrogate pair is looked for as it is kept: as U+FFFD.
Wanted = Annotated[str, Field(max_length=LONGEST), AfterValidator(storable)]
Reason = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, pattern=WRITTEN, max_length=LONGEST),
    AfterValidator(storable),
]
Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
Urgency = Annotated[int, Field(ge=0, le=100)]
Size = Annotated[int, Field(ge=1, le=LARGEST_PAGE)]
Before = Annotated[int | None, Field(ge=1, le=LARGEST, description="the number of the last line seen")]
Following = Annotated[str | None, Field(max_length=LONGEST, description="what the page before gave")]


class Asked(BaseModel):
    """Parameters or a body; a field that nobody knows is an error that names it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Which(Asked):
    """Which alerts. What is left out asks nothing."""

    status: Status = "open"
    least_urgency: Urgency = 0
    most_urgency: Urgency = 100
    principal: Wanted = ""
    service: Wanted = ""
    account: Wanted = ""
    tactic: Wanted = ""
    assignee: Annotated[Wanted | None, Field(description="who has it; empty asks for those nobody has")] = (
        None
    )
    decision: Decision | None = None
    level: Level | None = None
    text: Annotated[Wanted, Field(description="in title, principal, human, or the alert's id")] = ""
    since: Annotated[Moment | None, Field(description="of the alert's last event")] = None
    until: Annotated[Moment | None, Field(description="of the alert's first event")] = None
    suppressed: Annotated[
        bool, Field(description="those that a suppression hides, instead of those that none does")
    ] = False

    def filter(self) -> Filter:
        """The same as the desk is asked for it."""
        return Filter(**{field.name: getattr(self, field.name) for field in fields(Filter)})


class Listing(Which):
    """Which alerts, in which order, how many at a time."""

    order: Order = "urgency"
    size: Size = 50
    following: Following = None
