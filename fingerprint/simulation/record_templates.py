"""Record templates: records with placeholders for caller, time and place.

The same code writes attack records and daily calls from templates, so that the shape of a record does not reveal an attack: an
attacker's call has the keys, versions and parameter names that any call of that action has.

Example:
    >>> template = template_from_record({"eventSource": "ec2.amazonaws.com", "eventName": "GetPasswordData",
    ...                                  "requestParameters": {"instanceId": "i-0dbc91f429e48eeed"}})
    >>> template.body
    ',"requestParameters":{"instanceId":"%s"},"responseElements":null'
    >>> [kind for kind, _ in template.placeholders]
    ['i-']
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

Placeholder = tuple[str, int]  # (kind of value, which one of them)

EVENT_VERSIONS = {  # eventVersion by service; other services get one by a hash, so that it is constant
    "ec2": "1.10",
    "s3": "1.11",
    "iam": "1.11",
    "sts": "1.11",
    "kms": "1.11",
    "cloudtrail": "1.11",
    "logs": "1.11",
    "signin": "1.08",
    "sso": "1.08",
    "ssm": "1.11",
    "lambda": "1.10",
    "secretsmanager": "1.10",
}
GLOBAL_SERVICES = {
    "iam",
    "route53",
    "cloudfront",
    "organizations",
    "ce",
    "health",
    "signin",
    "support",
    "account",
}
TLS13_SERVICES = {"secretsmanager", "signin", "sts", "ce", "organizations", "kms", "sso", "dynamodb", "s3"}
SERVICES_WITHOUT_REQUEST_ID = {"signin", "sso"}


@dataclass(slots=True)
class RecordTemplate:
    """One way to call one operation.

    `body` and `end` are %-templates, and `placeholders` are their values' kinds, those of `body` first. `source` is the
    eventSource; `end` has the members from readOnly to eventType. `dated` templates contain the date of the call itself.
    """

    source: str
    name: str
    body: str
    end: str
    placeholders: tuple[Placeholder, ...]
    split: int  # how many of the placeholders are in `body`
    read_only: bool
    failed: bool = False
    event_type: str = "AwsApiCall"
    template: str = field(init=False, default="")
    service: str = field(init=False, default="")
    dated: bool = field(init=False, default=False)
    region: str = field(init=False, default="")  # region in which a global service records its calls
    tls: dict[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.service = self.source.partition(".")[0]
        self.dated = any(kind in ("when", "iso") for kind, _ in self.placeholders)
        self.region = "us-east-1" if self.service in GLOBAL_SERVICES else ""
        self.template = self._template()

    @property
    def action(self) -> str:
        """`source:name`."""
        return f"{self.source}:{self.name}"

    @property
    def has_request_id(self) -> bool:
        """True if records of the service have a request id."""
        return self.service not in SERVICES_WITHOUT_REQUEST_ID

    def tls_details(self, region: str) -> str:
        """Return the tlsDetails of a direct call to this service in `region`, as a JSON member."""
        if region not in self.tls:
            self.tls[region] = _tls(self.service, region)
        return self.tls[region]

    def _template(self) -> str:
        return (
            f'{{"eventVersion":"{event_version(self.service)}","userIdentity":%s,"eventTime":"%s","eventSource":"{self.source}",'
            f'"eventName":"{self.name}","awsRegion":"%s","sourceIPAddress":"%s","userAgent":"%s"{self.body}'
            + (',"requestID":"%s"' if self.has_request_id else "%s")
            + f',"eventID":"%s"{self.end},"managementEvent":true,"recipientAccountId":"%s"%s'
            + ',"eventCategory":"Management"%s}\n'
        )


@cache
def event_version(service: str) -> str:
    """Return the eventVersion of a service."""
    return EVENT_VERSIONS.get(service) or ("1.08", "1.09", "1.10", "1.11")[zlib.crc32(service.encode()) & 3]


@cache
def _tls(service: str, region: str) -> str:
    newer = service in TLS13_SERVICES
    tls, suite = (
        ("TLSv1.3", "TLS_AES_128_GCM_SHA256") if newer else ("TLSv1.2", "ECDHE-RSA-AES128-GCM-SHA256")
    )
    host = (
        f"{service}.amazonaws.com"
        if service in GLOBAL_SERVICES - {"signin"}
        else f"{service}.{region}.amazonaws.com"
    )
    host = f"{region}.signin.aws.amazon.com" if service == "signin" else host
    details = f'"tlsVersion":"{tls}","cipherSuite":"{suite}","clientProvidedHostHeader":"{host}"'
    return f',"tlsDetails":{{{details}}}'


# --- from real records ----------------------------------------------------------------------------

_PLACEHOLDERS = re.compile(
    r"(?P<name>[\w-]*(?:stratus|malicious|nuke|invictus|cyberlab|bert-jan|benjamin|(?:test|demo|sample|mock|dev)user)[\w-]*)"
    r"|(?P<key>\b(?:AKIA|ASIA|AROA|AIDA|AROC|AROX)[A-Z0-9]{12,17}\b)"
    r"|(?P<uuid>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)"
    r"|(?P<id>\b(?:i|vpc|subnet|sg|sgr|ami|snap|vol|eni|rtb|rtbassoc|acl|igw|fl|nat|eipalloc|lt|dopt|pcx|r)-[0-9a-z]{8,17}\b)"
    r"|(?P<when>[A-Z][a-z]{2} \d{1,2}, \d{4},? \d{1,2}:\d{2}:\d{2}\W[AP]M)"
    r"|(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?=[.Z]))"
    r"|(?P<region>\b(?:us|eu|ap|ca|sa)-(?:north|south|east|west|central|northeast|southeast)-\d)"
    r"|(?P<account>(?:\b|(?<=%22))\d{12}(?:\b|(?=%)))"
    r"|(?P<b64>(?!assumed-role/)[A-Za-z0-9+/=_-]{60,})"
    r"|(?P<digits>\b1[0-9]{9,18}\b)"
)
_CALLER = re.compile(r"(?<=User: )arn:aws:\w+::\d+:[\w+=,.@/-]+")
_TAG = "StratusRedTeam"  # a tag of the laboratory
_MARK = re.compile(r"\x00([^\x00]*)\x00(\d+)\x00")


def template_from_record(record: Mapping[str, Any]) -> RecordTemplate:
    """Return the template of one real record.

    Parameters, answer and error are unchanged, except that placeholders replace ids and names.
    """
    error = {key: record[key] for key in ("errorCode", "errorMessage") if record.get(key)}
    body = error | {key: record.get(key) for key in ("requestParameters", "responseElements")}
    if record.get("additionalEventData"):
        body["additionalEventData"] = record["additionalEventData"]
    end: dict[str, Any] = {"readOnly": bool(record.get("readOnly"))}
    if record.get("resources"):
        end["resources"] = record["resources"]
    end["eventType"] = record.get("eventType", "AwsApiCall")
    if record.get("apiVersion"):
        end["apiVersion"] = record["apiVersion"]
    return build_template(str(record["eventSource"]), str(record["eventName"]), _marked(body), _marked(end))


def build_template(source: str, name: str, body: dict[str, Any], end: dict[str, Any]) -> RecordTemplate:
    """Return a template of members whose strings may hold placeholders, written by `placeholder`."""
    body_text, body_places = _template(body)
    end_text, end_places = _template(end)
    return RecordTemplate(
        source,
        name,
        body_text,
        end_text,
        (*body_places, *end_places),
        len(body_places),
        read_only=end["readOnly"],
        failed="errorCode" in body,
        event_type=end["eventType"],
    )


def placeholder(kind: str, which: int | str = 0) -> str:
    """Return a placeholder to put into a string: `placeholder("i-")` will be an instance id.

    Equal `which` within a record means equal values.
    """
    number = which if isinstance(which, int) else zlib.crc32(which.encode())
    return f"\x00{kind}\x00{number}\x00"


def _marked(value: Any) -> Any:
    if isinstance(value, str):
        return _PLACEHOLDERS.sub(_mark, _CALLER.sub(placeholder("caller"), value.replace(_TAG, "Project")))
    if isinstance(value, dict):
        return {key.replace(_TAG, "Project"): _marked(item) for key, item in value.items()}
    return [_marked(item) for item in value] if isinstance(value, list) else value


def _mark(match: re.Match[str]) -> str:
    kind, text = match.lastgroup or "", match.group()
    if kind == "id":
        kind = text.partition("-")[0] + "-"
    elif kind == "key":
        kind = f"key:{text[:4].replace('AROC', 'AROA').replace('AROX', 'AROA')}"
    elif kind == "uuid":
        kind = "uuid" if text == text.lower() else "UUID"
    elif kind == "b64":
        kind = f"b64:{next((size for size in (64, 128, 256, 512) if len(text) <= size), 768)}"
    elif kind == "digits":
        kind = f"digits:{len(text)}"
    return placeholder(kind, text)


def _template(members: dict[str, Any]) -> tuple[str, list[Placeholder]]:
    text = "," + json.dumps(members, separators=(",", ":"), ensure_ascii=True)[1:-1]
    text = text.replace("\\u0000", "\x00").replace("%", "%%")
    places = [(kind, int(number)) for kind, number in _MARK.findall(text)]
    return _MARK.sub("%s", text), places


# --- the shape of a finished record ---------------------------------------------------------------


def record_shape(record: Mapping[str, Any]) -> frozenset[str]:
    """Return what a record shows without its values: keys present, versions, names of parameters (two levels), what is null.

    A classifier that sees only this must not know an attack from any other call of the same action.
    """
    found = {f"key:{key}" for key in record}
    found.update(
        f"{key}={record.get(key)}" for key in ("eventVersion", "apiVersion", "eventType", "readOnly")
    )
    for part in ("requestParameters", "responseElements", "additionalEventData", "tlsDetails"):
        found.update(_key_names(part, record.get(part)))
    return frozenset(found)


def _key_names(part: str, value: object) -> set[str]:
    if not isinstance(value, dict):
        return {f"{part} is {type(value).__name__}"}
    return {f"{part}.{key}:{type(item).__name__}" for key, item in value.items()}
