"""The protocol of a log source: a package that turns its own bytes into events, identities and features.

Example:
    >>> from fingerprint.sources.active import SOURCE
    >>> records = SOURCE.split_lines([b'{"eventTime": "2023-07-10T11:42:18Z", "eventSource": "ec2.amazonaws.com"}'])
    >>> SOURCE.flatten(records, "pandas").events[["service", "action"]].values.tolist()
    [['ec2', 'unknown']]

A log source is a package with two modules: `features`, which has FEATURE_SET, and `source`, a module that has the members of
`LogSource`. No other package spells a field of the source's records or imports the package: it works on events, tables with the
columns of EVENT_COLUMNS and those that the source's features read. These columns and the feature names (`action`, `address` ...)
are the product's own words. `core.log_source` says which package a process uses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import compress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from fingerprint.core.alert import (
    GRAVE_OR_SEVERE,
    GRAVITIES,
    ActionImpact,
    AlertEvent,
    CallPath,
    CredentialIssue,
    Gravity,
    NextStep,
    Reject,
)
from fingerprint.core.time_range import TimeRange
from fingerprint.sources.inflate import ExpansionBudget
from fingerprint.sources.limits import ReadLimits

if TYPE_CHECKING:
    from fingerprint.compute.frames import Frame

# Of one action; a request is read in 2 to 40 microseconds. Further calls are judged by the action.
MAX_JUDGED_RECORDS = 1_000
EVERYBODY = "*"  # of `CallImpact.outsiders`
Origin = tuple[str, str]  # source, position
FileListing = dict[str, dict[str, Any]]  # path: the details that fsspec gives
PrincipalKind = Literal["person", "user", "role", "root", "federated", "account", "service", "unknown"]

CredentialType = Literal[
    "access key",
    "user session",
    "console sign-in",
    "role session",
    "federated session",
    "single sign-on",
    "root",
    "service",
    "other account",
]

_RESERVED = re.compile(r"[%/|:?*\x00-\x1f\x7f-\xa0\u2000-\u200f\u2028-\u202f\u205f-\u206f\ufeff]")

# The columns of events that detection, alerts and their explanation read by name, whatever the source.
EVENT_COLUMNS = (
    "event_id",
    "event_time",
    "service",
    "action",
    "region",
    "source_address",
    "user_agent",
    "error_code",
    "recipient_account",
    "access_key",
    "issued_key",
    "resource",
    "row",
)

# The tactics of MITRE ATT&CK with their ids, in the order of its matrix.
TACTICS = {
    "Initial Access": "TA0001",
    "Execution": "TA0002",
    "Persistence": "TA0003",
    "Privilege Escalation": "TA0004",
    "Defense Evasion": "TA0005",
    "Credential Access": "TA0006",
    "Discovery": "TA0007",
    "Lateral Movement": "TA0008",
    "Collection": "TA0009",
    "Command and Control": "TA0011",
    "Exfiltration": "TA0010",
    "Impact": "TA0040",
}


class Technique(NamedTuple):
    """A technique of MITRE ATT&CK: its id (`T1562.008`), its name, and the tactic that an action serves with it."""

    id: str
    name: str
    tactic: str


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Bare records, valid UTF-8 and within the limits; rejects for what could not be read.

    `origins` are the (source, position) of each of `lines`. `skipped` counts what is no event by design (control messages here;
    digests, insights and test notices in `flatten`).
    """

    lines: list[bytes]
    origins: list[Origin]
    rejects: list[Reject]
    skipped: int = 0


class FlattenedRecords(NamedTuple):
    """Events and rejects: `len(events) + len(rejects) + skipped` is every record that came in, split's rest included."""

    events: Frame
    rejects: list[Reject]
    skipped: int


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity that acted, by a stable key.

    `human` is shown and never trusted; a missing `role`, `via`, `session` or `human` is empty.
    """

    key: str
    kind: PrincipalKind
    role: str = ""
    call_path: CallPath = "direct"
    via: str = ""
    human: str = ""
    session: str = ""


class EventQuery(NamedTuple):
    """A query to copy, and where it runs. Words in capitals are to be filled in."""

    where: str
    text: str


class ConsoleLink(NamedTuple):
    """An address in the provider's console: an `identity`, or the `history` of a name or key, or an `event` there."""

    kind: Literal["identity", "history", "event"]
    name: str
    url: str


class CredentialFacts(NamedTuple):
    """Counts of what records say of credentials: kinds with their records, the most frequent first, and other facts.

    `mfa` of the `records` say that MFA was used, `no_mfa` that it was not; the others do not say. `console` say that the
    credential came from the console.
    """

    kinds: tuple[tuple[str, int], ...] = ()
    mfa: int = 0
    no_mfa: int = 0
    console: int = 0
    records: int = 0


class OpenedAccess(NamedTuple):
    """Users and roles that a call made or let someone into, as `principals`, and the long-term key that it issued, or no text."""

    principals: tuple[str, ...] = ()
    access_key: str = ""


class CallImpact(NamedTuple):
    """Impact of a call: its gravity, the effect as a verb phrase, and MITRE ATT&CK's tactic and technique, empty for none.

    `outsiders` are whom it gives a right or a copy of data: accounts, users, `*` for everybody; `milder_effect` is the effect
    where none of these is one. `detail` is what its request adds to the effect. `dry_run`: it only asked whether it may, and may.
    `elsewhere` says whose credential it was used with outside of its networks, empty where it was at home.
    """

    gravity: Gravity
    effect: str
    tactic: str
    technique: str
    outsiders: tuple[str, ...] = ()
    milder_effect: str = ""
    detail: str = ""
    dry_run: bool = False
    elsewhere: str = ""

    @property
    def effect_in_full(self) -> str:
        """The effect, and what request and credential add to it: `sets how long logs are kept: 3 days`."""
        added = ", ".join(filter(None, (self.detail, self.elsewhere)))
        return f"{self.effect}: {added}" if added else self.effect

    def within(self, own_accounts: Collection[str]) -> CallImpact:
        """Return the impact in an organisation with these accounts: a right for one of its own lets no outsider in."""
        if self.gravity not in GRAVE_OR_SEVERE or not self.outsiders:
            return self
        if not set(self.outsiders).issubset(own_accounts):
            return self
        return self._replace(gravity="notable", effect=self.milder_effect)


NO_IMPACT = CallImpact("none", "", "", "")


def judge_calls(
    impact_of: Callable[[str, str, str], CallImpact], calls: Sequence[AlertEvent]
) -> list[CallImpact]:
    """Return the impact of each call; of an action the first MAX_JUDGED_RECORDS records are read.

    `impact_of` is that of `LogSource`.
    """
    counted: Counter[tuple[str, str]] = Counter()
    judged = []
    for call in calls:
        counted[call.service, call.action] += 1
        record = call.raw if counted[call.service, call.action] <= MAX_JUDGED_RECORDS else ""
        judged.append(impact_of(call.service, call.action, record))
    return judged


def gravest_calls(
    calls: Sequence[AlertEvent], judged: Sequence[CallImpact]
) -> tuple[CallImpact, list[AlertEvent]]:
    """Return the gravest impact of an action's calls, and the calls that have its gravity: others ask for less harm, or none."""
    gravest = max(judged, key=lambda each: GRAVITIES.index(each.gravity), default=NO_IMPACT)
    same = [each.gravity == gravest.gravity for each in judged]
    found = _in_common(gravest, list(compress(judged, same)) or [gravest])
    return found, [call for call, of in zip(calls, same, strict=True) if of]


def _in_common(gravest: CallImpact, judged: Sequence[CallImpact]) -> CallImpact:
    """Return the gravest impact with the longest effect of calls of its gravity; where their details differ, without that.

    >>> kept = [CallImpact("grave", "sets how long logs are kept", "", "", detail=f"{days} days") for days in (3, 5)]
    >>> _in_common(kept[0], kept).effect_in_full
    'sets how long logs are kept'
    """

    def by_length(each: CallImpact) -> tuple[int, str]:
        text = each._replace(elsewhere="").effect_in_full
        return -len(text), text

    longest = min(judged, key=by_length)
    details = {each.detail for each in judged if each.effect == longest.effect}
    return gravest._replace(
        effect=longest.effect,
        detail=longest.detail if len(details) == 1 else "",
        dry_run=all(each.dry_run for each in judged),
        elsewhere="",
    )


class Suspicion(NamedTuple):
    """The facts that the next steps of an alert are made from.

    `events` are the alert's, the oldest first; `actions` what they can do, the gravest first; `urgency` is that of the alert;
    `questioned` is what to ask about where no action can do harm (`iam:ListUsers, sts:GetCallerIdentity`), and `first_seen`
    when a newcomer was first seen and whether that is in the history, both empty where there is none. `cut`: `actions` are the
    gravest ones alone, so that the others cannot be counted.
    `lead` is the event that the alert's title is about, and `human` the person behind it. `supporting` are the events that
    support the alert, whose actions are marked so. `new_regions` maps the ids of events to their region where it is new,
    `new_origins` to what else is new of where they came from (` from 159.65.0.0/16 (new network), new tool TruffleHog`).
    `knows_account`: the account of the principal is one of the organisation's own, of which others were learned.
    `from_new_origin`: calls came from a network or with a tool that is new for the principal.
    `unusual_calls` are the `service:Action` that were called more often than is usual, or on resources that are unusual for it.
    """

    principal: str
    human: str
    events: Sequence[AlertEvent]
    actions: Sequence[ActionImpact]
    urgency: int
    questioned: str = ""
    first_seen: str = ""
    cut: bool = False
    lead: AlertEvent | None = None
    supporting: Sequence[AlertEvent] = ()
    new_regions: Mapping[str, str] = MappingProxyType({})
    knows_account: bool = False
    from_new_origin: bool = False
    new_origins: Mapping[str, str] = MappingProxyType({})
    unusual_calls: Collection[str] = ()


class FileSystem(Protocol):
    """The listing that `LogSource.list_months` needs of an fsspec file system."""

    def ls(self, path: str, detail: bool) -> list[dict[str, Any]]:
        """Return the entries of a folder, each with its `name` and `type`."""

    def find(self, path: str, detail: bool) -> FileListing:
        """Return all files below a folder."""


class LogSource(Protocol):
    """The members of a source's `source` module. All but `name` and the tuples are functions."""

    @property
    def NAME(self) -> str:
        """The name that people read: `CloudTrail`."""

    @property
    def NO_EVENT_FIELDS(self) -> tuple[tuple[str, str], ...]:
        """Fields of what the source writes beside its events, and what it is called: `digest files`."""

    @property
    def CLOUD_PROVIDER(self) -> str:
        """The provider whose accounts the log is about, as other systems name it: `AWS`."""

    @property
    def ELSEWHERE_WORDS(self) -> str:
        """The words of a title for calls with a credential outside of its networks (`used_elsewhere`)."""

    @property
    def RECORD_PREFIX(self) -> bytes:
        """The first bytes of nearly every bare record: such messages are read together, without looking for envelopes."""

    @property
    def IDENTITY_COLUMNS(self) -> tuple[str, ...]:
        """The columns of events that `principal_of` reads."""

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

    def may_be_envelope(self, head: bytes) -> bool:
        """Return whether a line that begins so may hold many records, and so may be longer than one record."""

    def flatten(self, records: RecordBatch, dataframe_library: str) -> FlattenedRecords:
        """Return one row per readable record, in their order: EVENT_COLUMNS and what features read.

        `dataframe_library` is pandas or cudf. Text is `str` with NA for missing, times are UTC.
        """

    def principal_of(self, identity: dict[str, str], person_roles: tuple[str, ...]) -> Principal:
        """Return the principal of one identity: the texts of IDENTITY_COLUMNS, empty where missing."""

    def find_issued_credentials(self, events: Frame) -> list[CredentialIssue]:
        """Return the calls that handed out credentials, the oldest first and one a key."""

    def tactics_of(self, service: str, action: str) -> tuple[str, ...]:
        """Return the MITRE ATT&CK tactics that an action serves, the main one first."""

    def serves_attackers(self, service: str, action: str) -> bool:
        """Return whether public mappings of attacks name an action, for more than looking around."""

    def tactics_among(self, calls: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return the tactics that any of many (service, action) serves, in the order of the matrix."""

    def techniques_of(self, service: str, action: str) -> tuple[Technique, ...]:
        """Return the ATT&CK techniques that an action carries out, the main one first; none where none is known."""

    def technique_name(self, number: str) -> str:
        """Return the name of an ATT&CK technique by its id; empty for one that is not listed."""

    def changes_something(self, action: str) -> bool:
        """Return whether an action writes, by its name; one of no known kind does."""

    def plain_action(self, action: str) -> str:
        """Return an action, or `service:Action`, as people call it: without what a log appends to the name."""

    def plain_principal(self, principal: str) -> str:
        """Return a principal, by its key, as people call it: without its account, and a name of others' making as it is.

        One from outside its accounts has another text than its key's.
        """

    def person_and_access(self, principal: str) -> tuple[str, str]:
        """Return the person in a principal's key, and the role or provider that they come by; both empty for none.

        One person is a principal at each role.
        """

    def record_searches(self, event: AlertEvent) -> tuple[tuple[str, str], ...]:
        """Return (tool, text) of commands and queries that find the record of an event in the log.

        Empty where the record has no id of its own: no text that a caller chose stands in a command.
        """

    def event_links(self, event: AlertEvent) -> tuple[ConsoleLink, ...]:
        """Return addresses of an event in the provider's console, made of checked ids alone; none without them."""

    def principal_links(
        self, principal: str, access_keys: Sequence[str], region: str
    ) -> tuple[ConsoleLink, ...]:
        """Return addresses of a principal and its access keys in the provider's console, as `event_links`."""

    def credential_facts(self, records: Iterable[str]) -> CredentialFacts:
        """Return what records (JSON text) say of the credentials that they were made with."""

    def issued_key(self, record: str) -> str:
        """Return the access key that a call issued, by its record (JSON text, or empty), whose caller had none; else no text."""

    def shared_call(self, record: str) -> str:
        """Return the id that a record (JSON text, or empty) shares with another account's record of the call; else no text."""

    def opened_access(self, service: str, action: str, record: str) -> OpenedAccess:
        """Return what a call opened that others may act by, by its record (JSON text, or empty); nothing where it failed."""

    def signed_in_without_mfa(self, record: str) -> bool:
        """Return whether a record (JSON text, or empty) is a sign-in that succeeded, and says that it needed no second factor."""

    def signed_in_as(self, principal: str, records: Iterable[str]) -> str:
        """Return the person who is a principal of which other records have an id, where one of the records (JSON) names them."""

    def signed_in_with_device_code(self, record: str) -> bool:
        """Return whether a record (JSON text, or empty) is a sign-in by a code that was confirmed on another device."""

    def signed_in_by(self, record: str) -> str:
        """Return the provider by which a record's (JSON text, or empty) caller signed in, where the identity does not name it."""

    def impact_of(self, service: str, action: str, record: str) -> CallImpact:
        """Return what a call can do, listed or not, by its action and by what its record (JSON text, or empty) says."""

    def used_elsewhere(self, record: str, found: CallImpact) -> CallImpact:
        """Return the impact of a call from a network new to its credential: as `found`, maybe `elsewhere`."""

    def bulk_read(self, service: str, action: str) -> CallImpact:
        """Return what calls of an action do that read data or secrets, where they are more than ever; no impact of others."""

    def request_words(self, effect: str) -> str:
        """Return what a title says of a call that its request made another one than its action, by its effect; maybe nothing."""

    def access_words(self, effect: str, accounts: str) -> str:
        """Return what a title says of a call that names `accounts`, as `account 210987654321`: what it does for them."""

    def typed_resource(self, service: str, action: str, resource: str) -> str:
        """Return a resource of a call with its type, where what names it does not say one."""

    def may_lie_in(self, record: str, resource: str, account: str) -> bool:
        """Return whether a call's resource may lie in another account that its record (JSON text, or empty) names."""

    def next_steps(self, suspicion: Suspicion) -> tuple[NextStep, ...]:
        """Return what to do about an alert: contain, verify, find the extent, undo, in this order, with commands to copy.

        Below a high severity, verify comes before contain.
        """

    def name_opener(self, steps: Iterable[NextStep], opener: CredentialIssue) -> tuple[NextStep, ...]:
        """Return the steps of an alert about one session, with the call that opened it in place of how to find that call."""

    def known_attacks(self) -> list[tuple[str, bytes]]:
        """Return (technique, record) of the labelled attack calls that travel with the project; empty where there are none."""

    def check_batches(self) -> Iterator[list[bytes]]:
        """Yield batches of records that a device must read as the CPU does before it is used: hard ones, plain ones, no event."""

    def principal_queries(
        self, principal: str, access_keys: Sequence[str], since: datetime, until: datetime
    ) -> tuple[EventQuery, ...]:
        """Return queries for all events of a principal and of access keys in a span; none where they name nothing to ask for."""

    def record_account(self, record: str) -> str:
        """Return the account whose log has the record: never one that a caller wrote into it; empty where there is none."""

    def notified_objects(self, message: Mapping[str, Any] | str) -> list[tuple[str, str]] | None:
        """Return (bucket, key) of the objects that the source's own notification names; None for any other message.

        `message` is a JSON object or plain text; the text that a source sends as a test names no object.
        """

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


def escape_key(text: str) -> str:
    """Return the text with what keys are made of (`/ | : ? * %`) and control and bidirectional characters percent-escaped."""
    if not _RESERVED.search(text):
        return text
    return _RESERVED.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)


def merge_batches(parts: Sequence[RecordBatch]) -> RecordBatch:
    """Return several batches as one, in their order."""
    if len(parts) == 1:
        return parts[0]
    return RecordBatch(
        [line for part in parts for line in part.lines],
        [origin for part in parts for origin in part.origins],
        [reject for part in parts for reject in part.rejects],
        sum(part.skipped for part in parts),
    )
