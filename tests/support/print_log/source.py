"""The print log as a log source: lines `2026-02-02T08:00:00Z alice printer-3`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pandas as pd

from fingerprint.core.alert import AlertEvent, CredentialIssue, NextStep, Reject
from fingerprint.core.time_range import TimeRange
from fingerprint.sources.base import (
    EVENT_COLUMNS,
    CallImpact,
    ConsoleLink,
    CredentialFacts,
    EventQuery,
    FileListing,
    FlattenedRecords,
    OpenedAccess,
    Principal,
    RecordBatch,
    Suspicion,
    Technique,
    escape_key,
)
from fingerprint.sources.inflate import ExpansionBudget
from fingerprint.sources.limits import ReadLimits

NAME = "print log"
ELSEWHERE_WORDS = ""
CLOUD_PROVIDER = "office"
NO_EVENT_FIELDS: tuple[tuple[str, str], ...] = ()
RECORD_PREFIX = b"20"
IDENTITY_COLUMNS = ("user", "service")


def split_lines(
    lines: Sequence[bytes], source: str = "", first: int = 1, limits: ReadLimits | None = None
) -> RecordBatch:
    origins = [(source, str(number)) for number in range(first, first + len(lines))]
    return RecordBatch(list(lines), origins, [])


def split_lines_in_parts(
    lines: Sequence[bytes],
    source: str = "",
    first: int = 1,
    limits: ReadLimits | None = None,
    budget: ExpansionBudget | None = None,
) -> Iterator[RecordBatch]:
    yield split_lines(lines, source, first, limits)


def split_message_in_parts(
    message: bytes,
    source: str = "",
    position: str = "",
    limits: ReadLimits | None = None,
    budget: ExpansionBudget | None = None,
) -> Iterator[RecordBatch]:
    lines = message.split(b"\n")
    yield RecordBatch(lines, [(source, f"{position}/{number}") for number in range(len(lines))], [])


def may_be_envelope(head: bytes) -> bool:
    return False


def flatten(records: RecordBatch, dataframe_library: str) -> FlattenedRecords:
    rows, rejects = [], list(records.rejects)
    for row, (line, origin) in enumerate(zip(records.lines, records.origins, strict=True)):
        fields = line.decode().split(" ")
        time = pd.to_datetime(fields[0], utc=True, errors="coerce")
        if len(fields) != 3 or pd.isna(time):
            rejects.append(Reject(*origin, "not a line of three fields"))
            continue
        rows.append({"event_time": time, "user": fields[1], "action": fields[2], "row": row})
    events = pd.DataFrame(rows).reindex(columns=[*EVENT_COLUMNS, "user"])
    events = events.assign(service="print", event_id=[f"line-{row['row']}" for row in rows])
    return FlattenedRecords(events, rejects, records.skipped)


def principal_of(identity: dict[str, str], person_roles: tuple[str, ...]) -> Principal:
    return Principal(f"office:user/{escape_key(identity['user'])}", "user", human=identity["user"])


def find_issued_credentials(events: pd.DataFrame) -> list[Any]:
    return []


def issued_key(record: str) -> str:
    return ""


def shared_call(record: str) -> str:
    return ""


def opened_access(service: str, action: str, record: str) -> OpenedAccess:
    return OpenedAccess()


def tactics_of(service: str, action: str) -> tuple[str, ...]:
    return ()


def serves_attackers(service: str, action: str) -> bool:
    return False


def tactics_among(calls: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return ()


def techniques_of(service: str, action: str) -> tuple[Technique, ...]:
    return ()


def technique_name(number: str) -> str:
    return ""


def changes_something(action: str) -> bool:
    return True


def plain_action(action: str) -> str:
    return action


def plain_principal(principal: str) -> str:
    return principal.split(":", 1)[-1]


def person_and_access(principal: str) -> tuple[str, str]:
    return "", ""


def record_searches(event: AlertEvent) -> tuple[tuple[str, str], ...]:
    return ()


def principal_queries(
    principal: str, access_keys: Sequence[str], since: datetime, until: datetime
) -> tuple[EventQuery, ...]:
    return ()


def event_links(event: AlertEvent) -> tuple[ConsoleLink, ...]:
    return ()


def principal_links(principal: str, access_keys: Sequence[str], region: str) -> tuple[ConsoleLink, ...]:
    return ()


def signed_in_without_mfa(record: str) -> bool:
    return False


def signed_in_as(principal: str, records: Iterable[str]) -> str:
    return ""


def signed_in_with_device_code(record: str) -> bool:
    return False


def typed_resource(service: str, action: str, resource: str) -> str:
    return resource


def may_lie_in(record: str, resource: str, account: str) -> bool:
    return True


def signed_in_by(record: str) -> str:
    return ""


def credential_facts(records: Iterable[str]) -> CredentialFacts:
    return CredentialFacts()


def impact_of(service: str, action: str, record: str) -> CallImpact:
    return CallImpact("none", "", "", "")


def bulk_read(service: str, action: str) -> CallImpact:
    return CallImpact("none", "", "", "")


def used_elsewhere(record: str, found: CallImpact) -> CallImpact:
    return found


def request_words(effect: str) -> str:
    return ""


def access_words(effect: str, accounts: str) -> str:
    return f"for {accounts}"


def next_steps(suspicion: Suspicion) -> tuple[NextStep, ...]:
    return (NextStep("verify", f"Ask {suspicion.principal}."),)


def name_opener(steps: Iterable[NextStep], opener: CredentialIssue) -> tuple[NextStep, ...]:
    return tuple(steps)


def record_account(record: str) -> str:
    return "office"


def known_attacks() -> list[tuple[str, bytes]]:
    return []


def check_batches() -> Iterator[list[bytes]]:
    yield [b"2026-02-02T08:15:00Z alice printer-3"]


def notified_objects(message: Mapping[str, Any] | str) -> list[tuple[str, str]] | None:
    return None


def holds_events(key: str) -> bool:
    return True


def ordered_prefix(key: str) -> str:
    return ""


def object_day(path: str) -> date | None:
    return None


def is_log_folder(path: str) -> bool:
    return False


def list_months(system: Any, path: str, span: TimeRange) -> tuple[FileListing, list[date]]:
    return {}, []
