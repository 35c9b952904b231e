"""What a change of alerts may be, as bodies of requests: one alert's, or that of many at once.

Example:
    >>> OneDeciding.model_validate({"decision": "benign", "why": "a new laptop", "version": 0}).change()
    Decide(decision='benign', why='a new laptop', duplicate_of='')
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from fingerprint.core.alert import Decision
from fingerprint.core.case import LARGEST_PAGE, Assign, Change, Chosen, Decide, Reopen
from fingerprint.core.sanitize import storable
from fingerprint.web.api.queue_params import WRITTEN, Asked, Wanted

LONGEST_NOTE = 10_000  # characters

Why = Annotated[str, Field(max_length=2_000), AfterValidator(storable)]
Events = Annotated[int, Field(ge=0, le=2**31 - 1, description="so many were seen")]
Version = Annotated[int, Field(ge=0, le=2**31 - 1, description="the one that was seen")]


class Deciding(Asked):
    """What an analyst says of an alert."""

    decision: Decision
    why: Why = ""
    duplicate_of: Annotated[Wanted, Field(description="an alert's id, where the decision is `duplicate`")] = (
        ""
    )

    def change(self) -> Change:
        return Decide(self.decision, self.why, self.duplicate_of)


class Assigning(Asked):
    """Who has the alert from now on; empty: nobody."""

    to: Annotated[str, Field(max_length=64)]

    def change(self) -> Change:
        return Assign(self.to)


class Reopening(Asked):
    """The last decision is taken back."""

    why: Why = ""

    def change(self) -> Change:
        return Reopen(self.why)


class Seen(Asked):
    """How the alert was when it was looked at. A decision is over so many `events`: one that has grown since stays open."""

    version: Version | None = None
    events: Events | None = None


class OneDeciding(Deciding, Seen): ...


class OneAssigning(Assigning, Seen): ...


class OneReopening(Reopening, Seen): ...


class ManyDeciding(Deciding):
    kind: Literal["decide"]


class ManyAssigning(Assigning):
    kind: Literal["assign"]


class ManyReopening(Reopening):
    kind: Literal["reopen"]


class OneChosen(Asked):
    """An alert as it was seen."""

    alert_id: Wanted
    version: Version
    events: Events | None = None

    def chosen(self) -> Chosen:
        return Chosen(self.alert_id, self.version, self.events)


class Bulk(Asked):
    """One change of many alerts."""

    chosen: Annotated[list[OneChosen], Field(min_length=1, max_length=LARGEST_PAGE)]
    change: Annotated[ManyDeciding | ManyAssigning | ManyReopening, Field(discriminator="kind")]


class Noting(Asked):
    text: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, pattern=WRITTEN, max_length=LONGEST_NOTE),
        AfterValidator(storable),
    ]
