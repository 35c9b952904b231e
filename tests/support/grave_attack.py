"""A stolen key at work, as one alert: reconnaissance, persistence, attempts to blind the logs, secrets, sharing, deletion.

Example:
    >>> alert = grave_attack()
    >>> len(alert.events), len({event.user_agent for event in alert.events})
    (253, 253)
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from hashlib import blake2b
from uuid import UUID

from fingerprint.alerting.impact import alert_impact, impact_score
from fingerprint.core.alert import Alert, AlertEvent, SurpriseDriver
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import Suspicion
from tests.support.alerts import ACCOUNT, START, curve, event, stolen_session

GRACE = f"{ACCOUNT}:user/grace.moreau1@example.com"
KEY = "AKIAIOSFODNN7EXAMPLE"
# service, action, how often in a row, error, resource (with a place for a number)
CALLS = (
    ("sts", "GetCallerIdentity", 2, "", ""),
    ("guardduty", "ListDetectors", 2, "", ""),
    ("iam", "ListUsers", 3, "", ""),
    ("iam", "ListAttachedUserPolicies", 4, "AccessDenied", "user:grace.moreau1@example.com"),
    ("ssm", "DescribeInstanceInformation", 28, "", ""),
    ("ec2", "DescribeInstances", 12, "", ""),
    ("ec2", "DescribeSecurityGroups", 6, "", ""),
    ("s3", "ListBuckets", 3, "", ""),
    ("s3", "GetBucketPolicy", 11, "", "bucket:warehouse-{n}"),
    ("kms", "ListKeys", 4, "", ""),
    ("rds", "DescribeDBInstances", 3, "", ""),
    ("lambda", "ListFunctions", 5, "", ""),
    ("ec2", "GetPasswordData", 29, "Client.UnauthorizedOperation", "instance:i-0{n:015x}"),
    ("secretsmanager", "ListSecrets", 2, "", ""),
    ("secretsmanager", "GetSecretValue", 21, "", "secret:prod/service-{n}/password"),
    ("ssm", "GetParameters", 9, "", ""),
    ("iam", "CreateUser", 1, "", "user:backup-service"),
    ("iam", "AttachUserPolicy", 1, "", "user:backup-service"),
    ("iam", "CreateLoginProfile", 1, "", "user:backup-service"),
    ("iam", "CreateAccessKey", 2, "", "user:backup-service"),
    ("iam", "UpdateAssumeRolePolicy", 1, "", "role:OrganizationAccountAccessRole"),
    ("cloudtrail", "StopLogging", 3, "AccessDenied", "trail:organisation"),
    ("cloudtrail", "DeleteTrail", 1, "AccessDenied", "trail:organisation"),
    ("cloudtrail", "PutEventSelectors", 1, "", "trail:organisation"),
    ("ec2", "DeleteFlowLogs", 1, "", "flow log:fl-0a1b2c3d"),
    ("ec2", "CreateSnapshot", 6, "", "volume:vol-0{n:015x}"),
    ("ec2", "ModifySnapshotAttribute", 6, "", "snapshot:snap-0{n:015x}"),
    ("s3", "PutBucketPolicy", 1, "", "bucket:warehouse-exports"),
    ("s3", "GetObject", 80, "", "bucket:warehouse-exports"),
    ("rds", "DeleteDBInstance", 1, "AccessDenied", "database:orders"),
    ("organizations", "LeaveOrganization", 1, "AccessDenied", ""),
    ("lambda", "TagResource", 2, "", "function:nightly"),
)
DRIVERS = (
    SurpriseDriver("action", "guardduty:ListDetectors", "s3:GetObject (61 %)", "unseen", 9.9, 2, "unseen"),
    SurpriseDriver("action", "iam:CreateUser", "s3:GetObject (61 %)", "unseen", 9.8, 1, "unseen"),
    SurpriseDriver("action", "cloudtrail:StopLogging", "s3:GetObject (61 %)", "unseen", 9.8, 3, "unseen"),
    SurpriseDriver(
        "error", "AccessDenied", "no error (98 %)", "unseen", 6.2, 10, fingerprint=f"{GRACE}|iam|direct"
    ),
    SurpriseDriver("network", "139.59.0.0/16", "10.20.0.0/16 (81 %)", "unseen", 9.4, 253, fingerprint=GRACE),
)


def grave_attack(**fields: object) -> Alert:
    """An alert of 253 events in 47 minutes, each with a user agent of its own."""
    events = tuple(_events())
    new = {f"{service}:{action}" for service, action, *_ in CALLS if service != "s3"}
    actions = tuple(alert_impact(events, new, ()))
    made = replace(
        stolen_session(),
        alert_id="ccd00070ccd00070",
        principal=GRACE,
        human="",
        title="user/grace.moreau1@example.com tried cloudtrail:StopLogging, called iam:CreateAccessKey and 29 other "
        f"actions, new to them, from 139.59.0.0/16, a network never seen before (account {ACCOUNT}, 253 events)",
        urgency=97,
        window_start=START,
        first_event_time=events[0].event_time,
        last_event_time=events[-1].event_time,
        tactics=(
            "Persistence",
            "Defense Evasion",
            "Credential Access",
            "Discovery",
            "Exfiltration",
            "Impact",
        ),
        drivers=DRIVERS,
        curve=replace(curve(peak=210.0), entity=f"{GRACE}|iam|direct"),
        impact=impact_score(actions),
        impact_of=actions,
        next_steps=SOURCE.next_steps(Suspicion(GRACE, "", events, actions, 97, "network 139.59.0.0/16")),
        events=events,
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def _events() -> list[AlertEvent]:
    made: list[AlertEvent] = []
    for service, action, times, error, resource in CALLS:
        for at in range(times):
            number = len(made)
            one = event(0, service, action, error_code=error, resource=resource.format(n=at), access_key=KEY)
            digest = blake2b(f"{number}".encode(), digest_size=16).hexdigest()
            made.append(
                replace(
                    one,
                    event_id=str(UUID(digest)),
                    event_time=START + timedelta(hours=5, seconds=11 * number),
                    entity=f"{GRACE}|{service}|direct",
                    source_address=f"139.59.3{number % 3}.117",
                    session="",
                    user_agent=f"[aws-cli/2.24.{number % 60} md/awscrt#0.23.8 ua/2.1 os/linux#6.8.0-1021-aws "
                    f"md/arch#x86_64 lang/python#3.12.{number % 7} md/pyimpl#CPython cfg/retry-mode#standard "
                    f"md/installer#exe md/prompt#off md/command#{service}.{action.lower()}]",
                    scores={"autoencoder": 7.4 + number % 5, "spectral": 383.8 if number % 9 == 0 else 2.1},
                )
            )
    return made
