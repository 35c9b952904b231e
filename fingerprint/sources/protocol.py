"""Protocol of a log source: a package that turns its own bytes into events, identities and features.

Example:
    >>> from fingerprint.sources.active import SOURCE
    >>> records = SOURCE.split_lines([b'{"eventTime": "2023-07-10T11:42:18Z", "eventSource": "ec2.amazonaws.com"}'])
    >>> SOURCE.flatten(records, "pandas").events[["service", "action"]].values.tolist()
    [['ec2', 'unknown']]

A log source is a package with two modules: `features`, which has FEATURE_SET, and `source`, which has the members of `LogSource`.
No other package names a field of the source's records or imports the package. Others work on events: tables with the columns of
`base.EVENT_COLUMNS` and those that the source's features read. These columns and the feature names (`action`, `address` ...) are
the product's own words. `core.log_source` says which package a process uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Protocol

from fingerprint.core.alert import AlertEvent, CredentialIssue, NextStep
from fingerprint.core.time_range import TimeRange
from fingerprint.sources.base import (
    CallImpact,
    ConsoleLink,
    CredentialFacts,
    EventQuery,
    FileListing,
    FileSystem,
    FlattenedRecords,
    OpenedAccess,
    Principal,
    RecordBatch,
    Suspicion,
    Technique,
)
from fingerprint.sources.inflate import ExpansionBudget
from fingerprint.sources.limits import ReadLimits

if TYPE_CHECKING:
    from fingerprint.compute.frames import Frame


class RecordReader(Protocol):
    """The reader of the source's logs: bytes -> records -> events."""

    @property
    def RECORD_PREFIX(self) -> bytes:
        """The first bytes of nearly every bare record: messages with them are read together, without a search for envelopes."""

    @property
    def NO_EVENT_FIELDS(self) -> tuple[tuple[str, str], ...]:
        """Fields of files that the source writes beside its events, and the names of these files: `digest files`."""

    def may_be_envelope(self, head: bytes) -> bool:
        """Return whether a line that begins with `head` may have many records, and so may be longer than one record."""

    def split_lines(
        self, lines: Sequence[bytes], source: str = "", first: int = 1, limits: ReadLimits | None = None
    ) -> RecordBatch:
        """Return the records of many lines, each a message of its own; `first` is the number of the first line."""

    def split_lines_in_parts(
        self,
        lines: Sequence[bytes],
        source: str = "",
        first: int = 1,
        limits: ReadLimits | None = None,
        budget: ExpansionBudget | None = None,
    ) -> Iterator[RecordBatch]:
        """Yield the same records as `split_lines` a part at a time, in bounded memory; at least one part."""

    def split_message_in_parts(
        self,
        message: bytes,
        source: str = "",
        position: str = "",
        limits: ReadLimits | None = None,
        budget: ExpansionBudget | None = None,
    ) -> Iterator[RecordBatch]:
        """Yield the records of one message or document, in any envelope, a part at a time. No bytes make it raise an error."""

    def flatten(self, records: RecordBatch, dataframe_library: str) -> FlattenedRecords:
        """Return one row for each readable record, in order: EVENT_COLUMNS and the columns that features read.

        `dataframe_library` is pandas or cudf. Text is `str` with NA for missing, times are UTC.
        """

    def check_batches(self) -> Iterator[list[bytes]]:
        """Yield batches that a device must read as the CPU does before it is used: hard records, plain ones, no event at all."""


class ObjectLayout(Protocol):
    """The layout of a bucket or folder: the objects that may have events, by their names."""

    def holds_events(self, key: str) -> bool:
        """Return whether an object may have events, by its key."""

    def ordered_prefix(self, key: str) -> str:
        """Return the prefix of a key below which objects are sorted by time; empty if there is none."""

    def object_day(self, path: str) -> date | None:
        """Return the day of delivery in an object's name; None for any other file."""

    def is_log_folder(self, path: str) -> bool:
        """Return whether a folder leads to months of objects that `list_months` may leave out."""

    def list_months(self, system: FileSystem, path: str, span: TimeRange) -> tuple[FileListing, list[date]]:
        """Return the files below a log folder that may have events of the span, and the first days of the months left out.

        A folder without events (`holds_events`), with a slash at its end and the type `directory`, may stand for its files.
        """

    def notified_objects(self, message: Mapping[str, Any] | str) -> list[tuple[str, str]] | None:
        """Return (bucket, key) of the objects in the source's own notification; None for any other message.

        `message` is a JSON object or plain text. A test message of the source names no object.
        """


class IdentityReader(Protocol):
    """The principals of events, and the parts of their keys."""

    @property
    def IDENTITY_COLUMNS(self) -> tuple[str, ...]:
        """The columns of events that `principal_of` reads."""

    def principal_of(self, identity: dict[str, str], person_roles: tuple[str, ...]) -> Principal:
        """Return the principal of one identity: the texts of IDENTITY_COLUMNS, empty where missing."""

    def find_issued_credentials(self, events: Frame) -> list[CredentialIssue]:
        """Return the calls that issued credentials, the oldest first and one for each key."""

    def plain_principal(self, principal: str) -> str:
        """Return the name of a principal for people, from its key: without its account, and with chosen names unescaped.

        For a principal from outside the account, the text differs from that of its key.
        """

    def person_and_access(self, principal: str) -> tuple[str, str]:
        """Return the person in a principal's key, and the role or provider that they use; both are empty for no person.

        One person is a different principal at each role.
        """


class ActionKnowledge(Protocol):
    """Facts about an action by its name, whatever its record says."""

    def plain_action(self, action: str) -> str:
        """Return the name of an action (or `service:Action`) for people: without the suffixes that a log appends."""

    def changes_something(self, action: str) -> bool:
        """Return whether an action writes, by its name; an unknown kind of action counts as a write."""

    def tactics_of(self, service: str, action: str) -> tuple[str, ...]:
        """Return the MITRE ATT&CK tactics that an action serves, the main one first."""

    def tactics_among(self, calls: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return the tactics that any of many (service, action) serves, in the order of the matrix."""

    def techniques_of(self, service: str, action: str) -> tuple[Technique, ...]:
        """Return the ATT&CK techniques that an action carries out, the main one first; empty if none is known."""

    def technique_name(self, number: str) -> str:
        """Return the name of an ATT&CK technique by its id; empty for one that is not listed."""

    def serves_attackers(self, service: str, action: str) -> bool:
        """Return whether public mappings of attacks name an action for another tactic than discovery."""

    def bulk_read(self, service: str, action: str) -> CallImpact:
        """Return the impact of an action that was called more often than ever, if it reads data or secrets; else no impact."""

    def typed_resource(self, service: str, action: str, resource: str) -> str:
        """Return a resource of a call with its type, if its name does not have one."""

    def known_attacks(self) -> list[tuple[str, bytes]]:
        """Return (technique, record) of the labelled attack calls that are part of the project; empty if there are none."""


class RecordFacts(Protocol):
    """Facts that the record of one call states: its effect, and the credentials behind it."""

    def impact_of(self, service: str, action: str, record: str) -> CallImpact:
        """Return the impact of a call, by its action and its record (JSON text, or empty)."""

    def used_elsewhere(self, record: str, found: CallImpact) -> CallImpact:
        """Return `found`, the impact of a call from a network new to its credential, with `elsewhere` set if it applies."""

    def may_lie_in(self, record: str, resource: str, account: str) -> bool:
        """Return whether a call's resource may lie in another account that its record (JSON text, or empty) names."""

    def record_account(self, record: str) -> str:
        """Return the account whose log has the record, never one that a caller wrote into it; empty if there is none."""

    def issued_key(self, record: str) -> str:
        """Return the access key that a call issued to a caller without a key, by its record (JSON text, or empty); else empty."""

    def opened_access(self, service: str, action: str, record: str) -> OpenedAccess:
        """Return the access that a call opened for others, by its record (JSON text, or empty); none if it failed."""

    def shared_call(self, record: str) -> str:
        """Return the id that a record (JSON text, or empty) shares with another account's record of the same call; else empty."""

    def credential_facts(self, records: Iterable[str]) -> CredentialFacts:
        """Return the facts that records (JSON text) state about the credentials of their calls."""

    def signed_in_as(self, principal: str, records: Iterable[str]) -> str:
        """Return the name of the person behind a principal with an id as its name, if one of the records (JSON) has it."""

    def signed_in_by(self, record: str) -> str:
        """Return the provider with which the caller of a record (JSON text, or empty) signed in, if the identity lacks it."""

    def signed_in_without_mfa(self, record: str) -> bool:
        """Return whether a record (JSON text, or empty) is a successful sign-in that states that no second factor was used."""

    def signed_in_with_device_code(self, record: str) -> bool:
        """Return whether a record (JSON text, or empty) is a sign-in with a code that was confirmed on another device."""


class AlertGuidance(Protocol):
    """Words, steps, queries and links for the analyst of an alert."""

    @property
    def ELSEWHERE_WORDS(self) -> str:
        """The words of a title for calls with a credential outside its networks (`used_elsewhere`)."""

    def request_words(self, effect: str) -> str:
        """Return the words of a title for a call whose request changes its effect, from this effect; empty if it does not."""

    def access_words(self, effect: str, accounts: str) -> str:
        """Return the words of a title for the effect of a call on `accounts`, such as `account 210987654321`."""

    def next_steps(self, suspicion: Suspicion) -> tuple[NextStep, ...]:
        """Return the next steps for an alert, with commands to copy: contain, verify, find the extent, undo, in this order.

        Below high severity, verify comes before contain.
        """

    def name_opener(self, steps: Iterable[NextStep], opener: CredentialIssue) -> tuple[NextStep, ...]:
        """Return the steps of an alert about one session, with the call that opened it instead of a query that finds it."""

    def record_searches(self, event: AlertEvent) -> tuple[tuple[str, str], ...]:
        """Return (tool, text) of commands and queries that find the record of an event in the log.

        Empty if the record has no id of its own: no text that a caller chose may be in a command.
        """

    def principal_queries(
        self, principal: str, access_keys: Sequence[str], since: datetime, until: datetime
    ) -> tuple[EventQuery, ...]:
        """Return queries for all events of a principal and of access keys in a span; none if there is nothing to search for."""

    def event_links(self, event: AlertEvent) -> tuple[ConsoleLink, ...]:
        """Return links to an event in the provider's console, made only of checked ids; none without these."""

    def principal_links(
        self, principal: str, access_keys: Sequence[str], region: str
    ) -> tuple[ConsoleLink, ...]:
        """Return links to a principal and its access keys in the provider's console, as in `event_links`."""


class LogSource(
    RecordReader, ObjectLayout, IdentityReader, ActionKnowledge, RecordFacts, AlertGuidance, Protocol
):
    """The members of a source's `source` module. All but those in capitals are functions."""

    @property
    def NAME(self) -> str:
        """The name that people read: `CloudTrail`."""

    @property
    def CLOUD_PROVIDER(self) -> str:
        """The provider of the accounts in the log, by the name that other systems use: `AWS`."""
