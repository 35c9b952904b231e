"""The library of templates for calls of AWS operations.

Templates come from real records, including the attack records, if there are any of an operation; else from botocore's model of
the operation.

Example:
    >>> library = TemplateLibrary()
    >>> {library.templates[i].name for i in library.templates_of("iam:CreateAccessKey")}
    {'CreateAccessKey'}
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict
from functools import cache
from random import Random
from typing import Any

from fingerprint.core.errors import FingerprintError
from fingerprint.simulation.identifiers import POOL_MASK
from fingerprint.simulation.record_templates import (
    RecordTemplate,
    build_template,
    placeholder,
    template_from_record,
)
from fingerprint.sources.cloudtrail import samples
from fingerprint.sources.cloudtrail.operations import Operation, load_operations

REAL_DATASETS = (samples.ATTACK_DATASET, "real/prod_slice_anonymised")
MAX_TEMPLATES = 6  # most templates of one action; the most frequent ones are kept
MAX_TEMPLATE_CHARACTERS = 6_000  # characters


class TemplateLibrary:
    """All templates in use, numbered; the library grows as operations of the long tail are first called.

    `attack_calls` has the attack records by technique, in their order and with their times:
    `attack_calls[technique] = [(seconds since its first call, template, salt), ...]`. Calls that name the same resources have the
    same salt.
    """

    def __init__(self) -> None:
        self.templates: list[RecordTemplate] = []
        self.attack_calls: dict[str, list[tuple[float, int, int]]] = {}
        self._number: dict[tuple[str, str, str, str], int] = {}
        self._templates_of: dict[tuple[str, str], tuple[int, ...]] = {}
        self._failed_templates: dict[tuple[str, int], int] = {}
        self._read_real_records()
        self.by_service: dict[str, list[str]] = defaultdict(list)
        for action in load_operations():
            self.by_service[action.partition(":")[0]].append(action)

    @property
    def attack_actions(self) -> set[str]:
        """Every action of the attack records, as `service:Name`."""
        called = {number for calls in self.attack_calls.values() for _, number, _ in calls}
        return {self.action_of(number) for number in called}

    def action_of(self, number: int) -> str:
        """Return `service:Name` of a template."""
        form = self.templates[number]
        return f"{form.service}:{form.name}"

    def add(self, form: RecordTemplate) -> int:
        """Return the number of a template, a new one if it is not known yet."""
        key = (form.source, form.name, form.body, form.end)
        if key not in self._number:
            self._number[key] = len(self.templates)
            self.templates.append(form)
        return self._number[key]

    def templates_of(self, action: str, call_path: str = "direct") -> tuple[int, ...]:
        """Return the templates of `service:Name`, the usual one first.

        Raise FingerprintError for an operation that is not in the catalogue.
        """
        if (action, call_path) not in self._templates_of:
            if action not in load_operations():
                raise FingerprintError(f"the catalogue has no operation {action!r}")
            self._templates_of[action, call_path] = tuple(
                dict.fromkeys(self.add(form) for form in _derive_templates(load_operations()[action]))
            )
        return self._templates_of[action, call_path]

    def pick_template(self, action: str, draw: Random) -> int:
        """Draw a template: the usual one in six of ten cases, else any."""
        forms = self.templates_of(action)
        return forms[0] if draw.random() < 0.6 else draw.choice(forms)

    def has_operation(self, action: str) -> bool:
        """Return True if the catalogue or a real record has this operation."""
        return (action, "direct") in self._templates_of or action in load_operations()

    def failed_template(self, failure: str, number: int) -> int:
        """Return the template of the same call when it is `denied`, `throttled` or `unavailable`."""
        if (failure, number) not in self._failed_templates:
            form = self.templates[number]
            self._failed_templates[failure, number] = (
                number if form.failed else self.add(_make_failed_template(form, failure))
            )
        return self._failed_templates[failure, number]

    def _read_real_records(self) -> None:
        counts: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
        techniques: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
        for action, call_path, form, technique, when in _real_records():
            number = self.add(form)
            if technique:
                techniques[technique].append(
                    (when, number, sum(which for _, which in form.placeholders) & POOL_MASK)
                )
            counts[action, call_path][number] += 1
        self.attack_calls = {
            technique: _with_offsets(calls) for technique, calls in sorted(techniques.items())
        }
        guilty = {number for calls in self.attack_calls.values() for _, number, _ in calls}
        self._templates_of = {key: self._order_templates(count, guilty) for key, count in counts.items()}

    def _order_templates(self, count: Counter[int], guilty: set[int]) -> tuple[int, ...]:
        """Return templates of an action, most frequent first and successes before failures.

        If attack records have an action, all principals call it in their templates.
        """
        known = [number for number, _ in count.most_common()]
        known = [number for number in known if number in guilty] or known
        return tuple([n for n in known if not self.templates[n].failed][:MAX_TEMPLATES] or known[:1])


@cache
def _real_records() -> list[tuple[str, str, RecordTemplate, str, str]]:
    """Return (action, call path, template, attack technique or "", eventTime) of the real records that give templates."""
    labels, found = samples.sample_labels(samples.ATTACK_DATASET), []
    for record in (record for name in REAL_DATASETS for record in samples.sample_records(name)):
        if record["eventType"] == "AwsServiceEvent" or len(json.dumps(record)) > MAX_TEMPLATE_CHARACTERS:
            continue
        label = labels.get(record["eventID"], {})
        technique = label["technique"] if label.get("label") == "attack" else ""
        found.append(
            (
                _action_of(record),
                _call_path(record),
                template_from_record(record),
                technique,
                record["eventTime"],
            )
        )
    return found


def _with_offsets(calls: list[tuple[str, int, int]]) -> list[tuple[float, int, int]]:
    calls = sorted(calls)
    return [(_seconds(when) - _seconds(calls[0][0]), number, salt) for when, number, salt in calls]


def _seconds(when: str) -> float:
    return int(when[11:13]) * 3600.0 + int(when[14:16]) * 60 + int(when[17:19])


def _action_of(record: dict[str, Any]) -> str:
    return f"{record['eventSource'].removesuffix('.amazonaws.com')}:{record['eventName']}"


def _call_path(record: dict[str, Any]) -> str:
    return "service" if record["userIdentity"].get("invokedBy") else "direct"


# --- forms from the models ------------------------------------------------------------------------


def _derive_templates(operation: Operation) -> list[RecordTemplate]:
    """Return up to four templates: with the required parameters alone, and with some optional ones."""
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
    return [_make_template(operation, required + pick) for pick in picks]


def _make_template(operation: Operation, parameters: list[tuple[str, str, bool]]) -> RecordTemplate:
    service = operation.source.partition(".")[0]
    request = {name: _value(service, name, kind) for name, kind, _ in parameters} or None
    if service == "ec2" and request and zlib.crc32(operation.name.encode()) & 2:
        request = {
            f"{operation.name}Request": {
                name[:1].upper() + name[1:]: value for name, value in request.items()
            }
        }
    answer = {name: _value(service, name, kind) for name, kind, _ in operation.response} or None
    end: dict[str, Any] = {"readOnly": operation.read_only}
    if service == "s3" and request and "bucket" in request:
        request["bucketName"] = request.pop("bucket")
        request["Host"] = f"{request['bucketName']}.s3.{placeholder('region')}.amazonaws.com"
        end["resources"] = [_resource("AWS::S3::Bucket", f"arn:aws:s3:::{request['bucketName']}")]
    if service == "kms" and request and "keyId" in request:
        end["resources"] = [_resource("AWS::KMS::Key", _arn("kms", "key", placeholder("uuid")))]
    end["eventType"] = "AwsApiCall"
    if operation.api_version:
        end["apiVersion"] = operation.api_version
    body: dict[str, Any] = {"requestParameters": request, "responseElements": answer}
    if service == "s3":
        body["additionalEventData"] = _transfer()
    return build_template(operation.source, operation.name, body, end)


def _value(service: str, name: str, kind: str) -> Any:
    if kind == "s":
        return _string(service, name)
    if kind == "l":
        return [_string(service, name.removesuffix("s"))]
    return {
        "i": 100,
        "d": 0.5,
        "b": False,
        "t": placeholder("when"),
        "m": {"name": placeholder("name", name)},
    }[kind]


def _string(service: str, name: str) -> str:
    low = name.lower()
    if low.endswith("arn"):
        return _arn(service, low.removesuffix("arn") or "resource", placeholder("name", name))
    if low.endswith("token"):
        return placeholder("b64:128", name)
    if low == "instanceid":
        return placeholder("i-", name)
    if low.endswith(("id", "identifier")):
        return placeholder("uuid", name)
    return placeholder("name", name)


def _arn(service: str, noun: str, name: str) -> str:
    return f"arn:aws:{service}:{placeholder('region')}:{placeholder('account')}:{noun}/{name}"


def _resource(kind: str, arn: str) -> dict[str, str]:
    return {"accountId": placeholder("account"), "type": kind, "ARN": arn}


def _transfer() -> dict[str, Any]:
    return {
        "SignatureVersion": "SigV4",
        "CipherSuite": "TLS_AES_128_GCM_SHA256",
        "bytesTransferredIn": 0,
        "AuthenticationMethod": "AuthHeader",
        "x-amz-id-2": placeholder("b64:64"),
        "bytesTransferredOut": 0,
    }


# --- the same call, failing -----------------------------------------------------------------------


def _make_failed_template(form: RecordTemplate, how: str) -> RecordTemplate:
    code, message = _error(form, how)
    body: dict[str, Any] = {
        "errorCode": code,
        "errorMessage": message,
        "requestParameters": None,
        "responseElements": None,
    }
    if form.service == "s3":
        body["additionalEventData"] = _transfer()
    return build_template(
        form.source, form.name, body, {"readOnly": form.read_only, "eventType": form.event_type}
    )


def _error(form: RecordTemplate, how: str) -> tuple[str, str]:
    ec2 = form.service == "ec2"
    if how == "throttled":
        return ("Client.RequestLimitExceeded" if ec2 else "ThrottlingException"), "Rate exceeded"
    if how == "unavailable":
        return (
            "Server.Unavailable" if ec2 else "ServiceUnavailable"
        ), "The service is temporarily unavailable."
    if ec2:
        coded = f"Encoded authorization failure message: {placeholder('b64:512')}"
        return "Client.UnauthorizedOperation", f"You are not authorized to perform this operation. {coded}"
    message = f"User: {placeholder('caller')} is not authorized to perform: {form.service}:{form.name} on resource: *"
    return "AccessDenied", message
