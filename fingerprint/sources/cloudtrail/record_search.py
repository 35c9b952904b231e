"""Commands and queries to copy that find one record in CloudTrail.

Example:
    >>> for tool, text in record_searches(event):
    ...     print(tool, text)
    AWS CLI aws cloudtrail lookup-events --region eu-west-1 --lookup-attributes AttributeKey=EventId,AttributeValue=3038...
    Athena SELECT * FROM cloudtrail_logs WHERE eventid = '3038...' AND eventtime = '2026-03-04T14:02:00Z'

A command has the id and the region of a record only if they have the form that AWS gives them: a UUID, and letters, digits and
hyphens. `lookup-events` finds management events of the last 90 days; Athena reads all that the trail delivered, as long as it is
kept.
"""

from __future__ import annotations

from datetime import UTC
from uuid import UUID

from fingerprint.core.alert import AlertEvent

REGION_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
MAX_REGION_LENGTH = 30  # characters


def record_searches(event: AlertEvent) -> tuple[tuple[str, str], ...]:
    """Return (tool, text) of each command or query that finds an event's record; none if the id is no UUID."""
    if not is_uuid(event.event_id):
        return ()
    region = f" --region {event.region}" if is_region(event.region) else ""
    moment = f"{event.event_time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    lookup = f"aws cloudtrail lookup-events{region} --lookup-attributes AttributeKey=EventId,AttributeValue={event.event_id}"
    condition = f"eventid = '{event.event_id}' AND eventtime = '{moment}'"
    query = f"SELECT * FROM cloudtrail_logs WHERE {condition}"  # noqa: S608  text to copy, of checked parts
    return ("AWS CLI", lookup), ("Athena", query)


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID as AWS writes it."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def is_region(text: str) -> bool:
    """Return whether a text has the form of AWS's names of regions."""
    plain = 0 < len(text) <= MAX_REGION_LENGTH and REGION_CHARACTERS.issuperset(text)
    return plain and not text.startswith("-") and not text.endswith("-")
