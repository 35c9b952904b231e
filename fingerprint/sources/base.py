"""The types that a log source (`sources.protocol`) returns, and functions that any source needs to make them.

Example:
    >>> escape_key("aws/role:x")
    'aws%2Frole%3Ax'
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from fingerprint.core.alert import (
    GRAVE_OR_SEVERE,
    GRAVITIES,
    ActionImpact,
    AlertEvent,
    CallPath,
    Gravity,
    Reject,
)

if TYPE_CHECKING:
    from fingerprint.compute.frames import Frame

# Records of one action that are read: a request takes 2 to 40 microseconds. Further calls are judged by the action.
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

# The columns of events that detection, alerts and their explanation read by name, for every source.
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
    """Bare records, valid UTF-8 and within the limits, and rejects for those that could not be read.

    `origins` are the (source, position) of each of `lines`. `skipped` counts records that are no events by design (here control
    messages; in `flatten` digests, insights and test notices).
    """

    lines: list[bytes]
    origins: list[Origin]
    rejects: list[Reject]
    skipped: int = 0


class FlattenedRecords(NamedTuple):
    """Events and rejects. `len(events) + len(rejects) + skipped` is the number of all input records, also those of splitting."""

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
    """A query to copy, and the tool that runs it. The reader fills in words in capitals."""

    where: str
    text: str


class ConsoleLink(NamedTuple):
    """An address in the provider's console: an `identity`, or the `history` of a name or key, or an `event` there."""

    kind: Literal["identity", "history", "event"]
    name: str
    url: str


class CredentialFacts(NamedTuple):
    """Counts of the facts that records state about credentials.

    `kinds` are the kinds of credentials with their numbers of records, the most frequent first. Of all `records`, `mfa` state
    that MFA was used, `no_mfa` that it was not, and `console` that the credential came from the console.
    """

    kinds: tuple[tuple[str, int], ...] = ()
    mfa: int = 0
    no_mfa: int = 0
    console: int = 0
    records: int = 0


class OpenedAccess(NamedTuple):
    """The access that a call opened: users and roles that it made or let someone into (`principals`), and a long-term key."""

    principals: tuple[str, ...] = ()
    access_key: str = ""


class CallImpact(NamedTuple):
    """Impact of a call: its gravity, the effect as a verb phrase, and the tactic and technique of MITRE ATT&CK, empty for none.

    - `outsiders`: accounts and users that get a right or a copy of data from it, `*` for everybody; `milder_effect`: the effect
      if none of these is outside the organisation
    - `detail`: what the request adds to the effect
    - `dry_run`: the call only asked whether it was allowed, and it was
    - `elsewhere`: whose credential it was that was used outside its networks; empty if it was not
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
        """The effect with the details of request and credential: `sets how long logs are kept: 3 days`."""
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
    """Return the impact of each call; for each action, only the first MAX_JUDGED_RECORDS records are read.

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
    """Return the gravest impact of an action's calls, and the calls with this gravity; the others do less harm, or none."""
    gravest = max(judged, key=lambda each: GRAVITIES.index(each.gravity), default=NO_IMPACT)
    same = [each.gravity == gravest.gravity for each in judged]
    found = _in_common(gravest, list(compress(judged, same)) or [gravest])
    return found, [call for call, of in zip(calls, same, strict=True) if of]


def _in_common(gravest: CallImpact, judged: Sequence[CallImpact]) -> CallImpact:
    """Return the gravest impact with the longest effect of calls of its gravity, and without its detail if details differ.

    >>> kept = [CallImpact("grave", "sets how long logs are kept", "", "", detail=f"{days} days") for days in (3, 5)]
    >>> _in_common(kept[0], kept).effect_in_full
    'sets how long logs are kept'
    """

    def by_length(each: CallImpact) -> tuple[int, str]:
        text = each._replace(elsewhere="").effect_in_full
        return -len(text), text

    longest = min(dict.fromkeys(judged), key=by_length)
    details = {each.detail for each in judged if each.effect == longest.effect}
    return gravest._replace(
        effect=longest.effect,
        detail=longest.detail if len(details) == 1 else "",
        dry_run=all(each.dry_run for each in judged),
        elsewhere="",
    )


class Suspicion(NamedTuple):
    """The facts from which the next steps of an alert are made.

    - `events`: those of the alert, the oldest first; `supporting`: the events that support it
    - `actions`: their impact, the gravest first, with supporting ones marked; `cut`: only the gravest are there, so that the
      others cannot be counted
    - `urgency`: that of the alert
    - `lead`: the event that the title is about; `human`: the person behind it
    - `questioned`: what to ask about if no action can do harm (`iam:ListUsers, sts:GetCallerIdentity`), else empty
    - `first_seen`: when a newcomer was first seen and whether the history has it, else empty
    - `new_regions`, `new_origins`: by event id, the new region, and the new network and tool of a call (` from 159.65.0.0/16
      (new network), new tool TruffleHog`)
    - `from_new_origin`: calls came from a network or with a tool that is new for the principal
    - `knows_account`: the account of the principal belongs to the organisation, and other principals of it were learned
    - `unusual_calls`: `service:Action` that were called unusually often or on unusual resources
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
    """The methods of an fsspec file system that `LogSource.list_months` needs."""

    def ls(self, path: str, detail: bool) -> list[dict[str, Any]]:
        """Return the entries of a folder, each with its `name` and `type`."""

    def find(self, path: str, detail: bool) -> FileListing:
        """Return all files below a folder."""


def escape_key(text: str) -> str:
    """Return the text with percent-escapes for the separators of keys (`/ | : ? * %`), control and bidirectional characters."""
    if not _RESERVED.search(text):
        return text
    return _RESERVED.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)


def merge_batches(parts: Sequence[RecordBatch]) -> RecordBatch:
    """Return several batches as one, in order."""
    if len(parts) == 1:
        return parts[0]
    return RecordBatch(
        [line for part in parts for line in part.lines],
        [origin for part in parts for origin in part.origins],
        [reject for part in parts for reject in part.rejects],
        sum(part.skipped for part in parts),
    )
