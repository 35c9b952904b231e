"""Every AWS operation by name, and the library of forms in which they are called.

Forms come from real records where there are any (the very forms of the attack records included), else from
botocore's models of the operation.

Example:
    >>> library = Library()
    >>> {library.forms[i].name for i in library.of("iam:CreateAccessKey")}
    {'CreateAccessKey'}
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter, defaultdict
from functools import cache, lru_cache
from random import Random
from typing import Any, NamedTuple

from fingerprint.core.alert import FingerprintError
from fingerprint.simulation.identifiers import MASK
from fingerprint.simulation.record_templates import Form, build, from_record, place
from fingerprint.sources.cloudtrail import samples

ATTACKS = "real/invictus_stratus"
REAL = (ATTACKS, "real/prod_slice_anonymised")
MOST_FORMS = 6  # of one action that are kept, the most frequent first
LONGEST_FORM = 6_000  # characters


class Operation(NamedTuple):
    """A line of data/catalogue/operations.tsv.gz; its README explains the columns."""

    source: str
    name: str
    reads: bool
    api_version: str
    parameters: tuple[tuple[str, str, bool], ...]  # name, type, required
    answer: tuple[tuple[str, str, bool], ...]


@cache
def operations() -> dict[str, Operation]:
    """`service:Name` -> operation, all of them."""
    found = {}
    with gzip.open(samples.folder("catalogue") / "operations.tsv.gz", "rt") as lines:
        for line in lines:
            source, name, mode, dated, parameters, answer = line.rstrip("\n").split("\t")
            operation = Operation(source, name, mode == "r", dated, _members(parameters), _members(answer))
            found[f"{source.removesuffix('.amazonaws.com')}:{name}"] = operation
    return found


@lru_cache(maxsize=100_000)
def _members(text: str) -> tuple[tuple[str, str, bool], ...]:
    members = (member.partition(":") for member in text.split(",") if member)
    return tuple((name, kind[0], kind.endswith("!")) for name, _, kind in members)


class Library:
    """All forms in use, numbered; grows as operations of the long tail are first called.

    `attack` holds the forms of the attack records by technique, in the order and at the seconds they came:
    `attack[technique] = [(seconds since its first call, form, salt), ...]`; calls that name the same things
    have the same salt.
    """

    def __init__(self) -> None:
        self.forms: list[Form] = []
        self.attack: dict[str, list[tuple[float, int, int]]] = {}
        self._number: dict[tuple[str, str, str, str], int] = {}
        self._of: dict[tuple[str, str], tuple[int, ...]] = {}
        self._failing: dict[tuple[str, int], int] = {}
        self._read_real()
        self.by_service: dict[str, list[str]] = defaultdict(list)
        for action in operations():
            self.by_service[action.partition(":")[0]].append(action)

    def add(self, form: Form) -> int:
        key = (form.source, form.name, form.body, form.end)
        if key not in self._number:
            self._number[key] = len(self.forms)
            self.forms.append(form)
        return self._number[key]

    def of(self, action: str, lane: str = "direct") -> tuple[int, ...]:
        """The forms of `service:Name`, the usual one first. Raises FingerprintError for an operation nobody
        knows.
        """
        if (action, lane) not in self._of:
            if action not in operations():
                raise FingerprintError(f"the catalogue has no operation {action!r}")
            self._of[action, lane] = tuple(
                dict.fromkeys(self.add(form) for form in _derived(operations()[action]))
            )
        return self._of[action, lane]

    def usual(self, action: str, draw: Random) -> int:
        """A form as people come by it: the usual one, or one of the others."""
        forms = self.of(action)
        return forms[0] if draw.random() < 0.6 else draw.choice(forms)

    def knows(self, action: str) -> bool:
        return (action, "direct") in self._of or action in operations()

    def failing(self, how: str, number: int) -> int:
        """The form of the same call when it is `denied`, `throttled` or `unavailable`."""
        if (how, number) not in self._failing:
            form = self.forms[number]
            self._failing[how, number] = number if form.failed else self.add(_failed(form, how))
        return self._failing[how, number]

    def _read_real(self) -> None:
        counts: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
        techniques: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
        for action, lane, form, technique, when in _real():
            number = self.add(form)
            if technique:
                techniques[technique].append((when, number, sum(which for _, which in form.places) & MASK))
            counts[action, lane][number] += 1
        self.attack = {technique: _timed(calls) for technique, calls in sorted(techniques.items())}
        guilty = {number for calls in self.attack.values() for _, number, _ in calls}
        self._of = {key: self._usual(count, guilty) for key, count in counts.items()}

    def _usual(self, count: Counter[int], guilty: set[int]) -> tuple[int, ...]:
        """Where attack records show an action, everybody calls it in their forms; successes before
        failures.
        """
        known = [number for number, _ in count.most_common()]
        known = [number for number in known if number in guilty] or known
        return tuple([n for n in known if not self.forms[n].failed][:MOST_FORMS] or known[:1])


@cache
def _real() -> list[tuple[str, str, Form, str, str]]:
    """(action, lane, form, attack technique or nothing, eventTime) of the real records that give forms."""
    labels, found = samples.labels(ATTACKS), []
    for record in (record for name in REAL for record in samples.records(name)):
        if record["eventType"] == "AwsServiceEvent" or len(json.dumps(record)) > LONGEST_FORM:
            continue
        label = labels.get(record["eventID"], {})
        technique = label["technique"] if label.get("label") == "attack" else ""
        found.append((_action(record), _lane(record), from_record(record), technique, record["eventTime"]))
    return found


def _timed(calls: list[tuple[str, int, int]]) -> list[tuple[float, int, int]]:
    calls = sorted(calls)
    return [(_seconds(when) - _seconds(calls[0][0]), number, salt) for when, number, salt in calls]


def _seconds(when: str) -> float:
    return int(when[11:13]) * 3600.0 + int(when[14:16]) * 60 + int(when[17:19])


def _action(record: dict[str, Any]) -> str:
    return f"{record['eventSource'].removesuffix('.amazonaws.com')}:{record['eventName']}"


def _lane(record: dict[str, Any]) -> str:
    return "service" if record["userIdentity"].get("invokedBy") else "direct"


# --- forms from the models ------------------------------------------------------------------------


def _derived(operation: Operation) -> list[Form]:
    """Up to four forms: what is required, and with this or that which may be left out."""
    required = [member for member in operation.parameters if member[2]]
    optional = [member for member in operation.parameters if not member[2]]
    turn = zlib.crc32(operation.name.encode())
    picks: list[list[tuple[str, str, bool]]] = [
        [],
        optional[:1],
        optional[turn % 2 : 2 + turn % 3],
        optional[1:4:2],
    ]
    picks = picks[turn & 1 :] + picks[: turn & 1]
    return [_form(operation, required + pick) for pick in picks]


def _form(operation: Operation, parameters: list[tuple[str, str, bool]]) -> Form:
    service = operation.source.partition(".")[0]
    asked = {name: _value(service, name, kind) for name, kind, _ in parameters} or None
    if service == "ec2" and asked and zlib.crc32(operation.name.encode()) & 2:
        asked = {
            f"{operation.name}Request": {name[:1].upper() + name[1:]: value for name, value in asked.items()}
        }
    answer = {name: _value(service, name, kind) for name, kind, _ in operation.answer} or None
    end: dict[str, Any] = {"readOnly": operation.reads}
    if service == "s3" and asked and "bucket" in asked:
        asked["bucketName"] = asked.pop("bucket")
        asked["Host"] = f"{asked['bucketName']}.s3.{place('region')}.amazonaws.com"
        end["resources"] = [_resource("AWS::S3::Bucket", f"arn:aws:s3:::{asked['bucketName']}")]
    if service == "kms" and asked and "keyId" in asked:
        end["resources"] = [_resource("AWS::KMS::Key", _arn("kms", "key", place("uuid")))]
    end["eventType"] = "AwsApiCall"
    if operation.api_version:
        end["apiVersion"] = operation.api_version
    body: dict[str, Any] = {"requestParameters": asked, "responseElements": answer}
    if service == "s3":
        body["additionalEventData"] = _transfer()
    return build(operation.source, operation.name, body, end)


def _value(service: str, name: str, kind: str) -> Any:
    if kind == "s":
        return _string(service, name)
    if kind == "l":
        return [_string(service, name.removesuffix("s"))]
    return {"i": 100, "d": 0.5, "b": False, "t": place("when"), "m": {"name": place("name", name)}}[kind]


def _string(service: str, name: str) -> str:
    low = name.lower()
    if low.endswith("arn"):
        return _arn(service, low.removesuffix("arn") or "resource", place("name", name))
    if low.endswith("token"):
        return place("b64:128", name)
    if low == "instanceid":
        return place("i-", name)
    if low.endswith(("id", "identifier")):
        return place("uuid", name)
    return place("name", name)


def _arn(service: str, noun: str, name: str) -> str:
    return f"arn:aws:{service}:{place('region')}:{place('account')}:{noun}/{name}"


def _resource(kind: str, arn: str) -> dict[str, str]:
    return {"accountId": place("account"), "type": kind, "ARN": arn}


def _transfer() -> dict[str, Any]:
    return {
        "SignatureVersion": "SigV4",
        "CipherSuite": "TLS_AES_128_GCM_SHA256",
        "bytesTransferredIn": 0,
        "AuthenticationMethod": "AuthHeader",
        "x-amz-id-2": place("b64:64"),
        "bytesTransferredOut": 0,
    }


# --- the same call, failing -----------------------------------------------------------------------


def _failed(form: Form, how: str) -> Form:
    code, message = _error(form, how)
    body: dict[str, Any] = {
        "errorCode": code,
        "errorMessage": message,
        "requestParameters": None,
        "responseElements": None,
    }
    if form.service == "s3":
        body["additionalEventData"] = _transfer()
    return build(form.source, form.name, body, {"readOnly": form.read_only, "eventType": form.event_type})


def _error(form: Form, how: str) -> tuple[str, str]:
    ec2 = form.service == "ec2"
    if how == "throttled":
        return ("Client.RequestLimitExceeded" if ec2 else "ThrottlingException"), "Rate exceeded"
    if how == "unavailable":
        return (
            "Server.Unavailable" if ec2 else "ServiceUnavailable"
        ), "The service is temporarily unavailable."
    if ec2:
        coded = f"Encoded authorization failure message: {place('b64:512')}"
        return "Client.UnauthorizedOperation", f"You are not authorized to perform this operation. {coded}"
    message = (
        f"User: {place('caller')} is not authorized to perform: {form.service}:{form.name} on resource: *"
    )
    return "AccessDenied", message
