"""The protocol of a log source: a package that turns its own bytes into events, identities and features.

Example:
    >>> from fingerprint.sources.active import SOURCE
    >>> records = SOURCE.split_lines([b'{"eventTime": "2023-07-10T11:42:18Z", "eventSource": "ec2.amazonaws.com"}'])
    >>> SOURCE.flatten(records, "pandas").events[["service", "action"]].values.tolist()
    [['ec2', 'unknown']]

A log source is a package with two modules: `features`, which has FEATURE_SET, and `source`, a module that has the members of
`LogSource`, part by part. No other package spells a field of the source's records or imports the package: it works on events,
tables with the columns of `base.EVENT_COLUMNS` and those that the source's features read. These columns and the feature names
(`action`, `address` ...) are the product's own words. `core.log_source` says which package a process uses.
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
    """The reader of what the source writes: bytes -> records -> events."""

    @property
    def RECORD_PREFIX(self) -> bytes:
        """The first bytes of nearly every bare record: such messages are read together, without looking for envelopes."""

    @property
    def NO_EVENT_FIELDS(self) -> tuple[tuple[str, str], ...]:
        """Fields of what the source writes beside its events, and what it is called: `digest files`."""

    def may_be_envelope(self, head: bytes) -> bool:
        """Return whether a line that begins so may hold many records, and so may be longer than one record."""

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
        """Yield the same a part at a time, in bounded memory; one part at least."""

    def split_message_in_parts(
        self,
        message: bytes,
        source: str = "",
        position: str = "",
        limits: ReadLimits | None = None,
        budget: ExpansionBudget | None = None,
    ) -> Iterator[RecordBatch]:
        """Yield the records of one message or document, whatever wraps them, a part at a time; never raises."""

    def flatten(self, records: RecordBatch, dataframe_library: str) -> FlattenedRecords:
        """Return one row per readable record, in their order: EVENT_COLUMNS and what features read.

        `dataframe_library` is pandas or cudf. Text is `str` with NA for missing, times are UTC.
        """

    def check_batches(self) -> Iterator[list[bytes]]:
        """Yield batches of records that a device must read as the CPU does before it is used: hard ones, plain ones, no event."""


class ObjectLayout(Protocol):
    """The objects of a bucket or folder that may hold events, by their names."""

    def holds_events(self, key: str) -> bool:
        """Return whether an object may hold events, by its key."""

    def ordered_prefix(self, key: str) -> str:
        """Return the prefix of a key below which objects come in the order of time; empty where there is none."""

    def object_day(self, path: str) -> date | None:
        """Return the day of delivery that an object's name says; None for any other file."""

    def is_log_folder(self, path: str) -> bool:
        """Return whether a folder leads to months of objects that `list_months` may leave out."""

    def list_months(self, system: FileSystem, path: str, span: TimeRange) -> tuple[FileListing, list[date]]:
        """Return the files below a log folder that may hold events of the span, and the first days of the months left out.

        A folder without events (`holds_events`), with a slash at its end, may stand for what is in it.
        """

    def notified_objects(self, message: Mapping[str, Any] | str) -> list[tuple[str, str]] | None:
        """Return (bucket, key) of the objects that the source's own notification names; None for any other message.

        `message` is a JSON object or plain text; the text that a source sends as a test names no object.
        """


class IdentityReader(Protocol):
    """The principals of events, and what their keys say."""

    @property
    def IDENTITY_COLUMNS(self) -> tuple[str, ...]:
        """The columns of events that `principal_of` reads."""

    def principal_of(self, identity: dict[str, str], person_roles: tuple[str, ...]) -> Principal:
        """Return the principal of one identity: the texts of IDENTITY_COLUMNS, empty where missing."""

    def find_issued_credentials(self, events: Frame) -> list[CredentialIssue]:
        """Return the calls that handed out credentials, the oldest first and one a key."""

    def plain_principal(self, principal: str) -> str:
        """Return a principal, by its key, as people call it: without its account, and a name of others' making as it is.

        One from outside its accounts has another text than its key's.
        """

    def person_and_access(self, principal: str) -> tuple[str, str]:
        """Return the person in a principal's key, and the role or provider that they come by; both empty for none.

        One person is a principal at each role.
        """


class ActionKnowledge(Protocol):
    """Facts about an action by its name, whatever its record says."""

    def plain_action(self, action: str) -> str:
        """Return an action, or `service:Action`, as people call it: without what a log appends to the name."""

    def changes_something(self, action: str) -> bool:
        """Return whether an action writes, by its name; one of no known kind does."""

    def tactics_of(self, service: str, action: str) -> tuple[str, ...]:
        """Return the MITRE ATT&CK tactics that an action serves, the main one first."""

    def tactics_among(self, calls: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return the tactics that any of many (service, action) serves, in the order of the matrix."""

    def techniques_of(self, service: str, action: str) -> tuple[Technique, ...]:
        """Return the ATT&CK techniques that an action carries out, the main one first; none where none is known."""

    def technique_name(self, number: str) -> str:
        """Return the name of an ATT&CK technique by its id; empty for one that is not listed."""

    def serves_attackers(self, service: str, action: str) -> bool:
        """Return whether public mappings of attacks name an action, for more than looking around."""

    def bulk_read(self, service: str, action: str) -> CallImpact:
        """Return what calls of an action do that read data or secrets, where they are more than ever; no impact of others."""

    def typed_resource(self, service: str, action: str, resource: str) -> str:
        """Return a resource of a call with its type, where what names it does not say one."""

    def known_attacks(self) -> list[tuple[str, bytes]]:
        """Return (technique, record) of the labelled attack calls that travel with the project; empty where there are none."""


class RecordFacts(Protocol):
    """Facts that the record of one call states: its effect, and the credentials behind it."""

    def impact_of(self, service: str, action: str, record: str) -> CallImpact:
        """Return what a call can do, listed or not, by its action and by what its record (JSON text, or empty) says."""

    def used_elsewhere(self, record: str, found: CallImpact) -> CallImpact:
        """Return the impact of a call from a network new to its credential: as `found`, maybe `elsewhere`."""

    def may_lie_in(self, record: str, resource: str, account: str) -> bool:
        """Return whether a call's resource may lie in another account that its record (JSON text, or empty) names."""

    def record_account(self, record: str) -> str:
        """Return the account whose log has the record: never one that a caller wrote into it; empty where there is none."""

    def issued_key(self, record: str) -> str:
        """Return the access key that a call issued, by its record (JSON text, or empty), whose caller had none; else no text."""

    def opened_access(self, service: str, action: str, record: str) -> OpenedAccess:
        """Return what a call opened that others may act by, by its record (JSON text, or empty); nothing where it failed."""

    def shared_call(self, record: str) -> str:
        """Return the id that a record (JSON text, or empty) shares with another account's record of the call; else no text."""

    def credential_facts(self, records: Iterable[str]) -> CredentialFacts:
        """Return what records (JSON text) say of the credentials that they were made with."""

    def signed_in_as(self, principal: str, records: Iterable[str]) -> str:
        """Return the person who is a principal of which other records have an id, where one of the records (JSON) names them."""

    def signed_in_by(self, record: str) -> str:
        """Return the provider by which a record's (JSON text, or empty) caller signed in, where the identity does not name it."""

    def signed_in_without_mfa(self, record: str) -> bool:
        """Return whether a record (JSON text, or empty) is a sign-in that succeeded, and says that it needed no second factor."""

    def signed_in_with_device_code(self, record: str) -> bool:
        """Return whether a record (JSON text, or empty) is a sign-in by a code that was confirmed on another device."""


class AlertGuidance(Protocol):
    """Words, steps, queries and links for the analyst of an alert."""

    @property
    def ELSEWHERE_WORDS(self) -> str:
        """The words of a title for calls with a credential outside of its networks (`used_elsewhere`)."""

    def request_words(self, effect: str) -> str:
        """Return what a title says of a call that its request made another one than its action, by its effect; maybe nothing."""

    def access_words(self, effect: str, accounts: str) -> str:
        """Return what a title says of a call that names `accounts`, as `account 210987654321`: what it does for them."""

    def next_steps(self, suspicion: Suspicion) -> tuple[NextStep, ...]:
        """Return what to do about an alert: contain, verify, find the extent, undo, in this order, with commands to copy.

        Below a high severity, verify comes before contain.
        """

    def name_opener(self, steps: Iterable[NextStep], opener: CredentialIssue) -> tuple[NextStep, ...]:
        """Return the steps of an alert about one session, with the call that opened it in place of how to find that call."""

    def record_searches(self, event: AlertEvent) -> tuple[tuple[str, str], ...]:
        """Return (tool, text) of commands and queries that find the record of an event in the log.

        Empty where the record has no id of its own: no text that a caller chose stands in a command.
        """

    def principal_queries(
        self, principal: str, access_keys: Sequence[str], since: datetime, until: datetime
    ) -> tuple[EventQuery, ...]:
        """Return queries for all events of a principal and of access keys in a span; none where they name nothing to ask for."""

    def event_links(self, event: AlertEvent) -> tuple[ConsoleLink, ...]:
        """Return addresses of an event in the provider's console, made of checked ids alone; none without them."""

    def principal_links(
        self, principal: str, access_keys: Sequence[str], region: str
    ) -> tuple[ConsoleLink, ...]:
        """Return addresses of a principal and its access keys in the provider's console, as `event_links`."""


class LogSource(
    RecordReader, ObjectLayout, IdentityReader, ActionKnowledge, RecordFacts, AlertGuidance, Protocol
):
    """The members of a source's `source` module. All but those in capitals are functions."""

    @property
    def NAME(self) -> str:
        """The name that people read: `CloudTrail`."""

    @property
    def CLOUD_PROVIDER(self) -> str:
        """The provider whose accounts the log is about, as other systems name it: `AWS`."""
