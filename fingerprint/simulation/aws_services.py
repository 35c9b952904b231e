# ruff: noqa: E501 - a table: a row a line
"""What AWS services do by themselves, for the account: service principals, service-linked roles, vendors'
accounts, events without a type.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fingerprint.simulation import user_agents, user_identity
from fingerprint.simulation.api_calls import DAY, Calls, Session
from fingerprint.simulation.identifiers import Pools, key_id
from fingerprint.simulation.job_tasks import actions
from fingerprint.simulation.organisation import Account, Organisation
from fingerprint.simulation.record_templates import Form, build, place


@dataclass(frozen=True, slots=True)
class Duty:
    """What a service does: every `every` seconds all actions (`strict`), or one of them at random times."""

    who: str  # service, linked role's name, or vendor
    kind: str  # service, linked, vendor, untyped
    every: float
    actions: tuple[str, ...]
    strict: bool = True


DUTIES = (
    Duty("cloudtrail.amazonaws.com", "service", 300, actions("kms:GenerateDataKey")),
    Duty("AWSServiceRoleForConfig", "linked", 21_600, actions(
        "s3:ListBuckets GetBucketAcl GetBucketPolicy GetBucketVersioning GetBucketLogging GetBucketEncryption GetBucketReplication "
        "ec2:DescribeInstances DescribeVolumes DescribeSecurityGroups DescribeVpcs DescribeSubnets iam:ListRoles GetRole ListUsers "
        "lambda:ListFunctions20150331 rds:DescribeDBInstances kms:ListKeys")),
    Duty("vendor", "vendor", 600, actions("sts:AssumeRole")),
    Duty("secretsmanager.amazonaws.com", "untyped", 7200, ("secretsmanager:RotationStarted",), strict=False),
    Duty("lambda.amazonaws.com", "service", 400, actions("sts:AssumeRole"), strict=False),
    Duty("ec2.amazonaws.com", "service", 900, actions("sts:AssumeRole"), strict=False),
    Duty("delivery.logs.amazonaws.com", "service", 300, actions("logs:CreateLogStream")),
    Duty("AWSServiceRoleForAutoScaling", "linked", 300, actions("ec2:DescribeInstanceStatus elasticloadbalancing:DescribeTargetHealth")),
    Duty("AWSServiceRoleForSecurityHub", "linked", 43_200, actions(
        "iam:ListUsers ListAccessKeys GetAccountSummary GetAccountPasswordPolicy s3:GetBucketPublicAccessBlock ec2:DescribeFlowLogs "
        "cloudtrail:DescribeTrails GetTrailStatus config:DescribeConfigurationRecorders")),
    Duty("AWSServiceRoleForRDS", "linked", 1800, actions("ec2:DescribeVpcs DescribeSubnets DescribeSecurityGroups"), strict=False),
    Duty("secretsmanager.amazonaws.com", "service", 1200, actions("kms:Decrypt"), strict=False),
    Duty("AWSServiceRoleForTrustedAdvisor", "linked", 86_400, actions(
        "ec2:DescribeInstances DescribeVolumes DescribeAddresses rds:DescribeDBInstances iam:GetAccountSummary elasticloadbalancing:DescribeLoadBalancers")),
)  # fmt: skip


@dataclass
class Service:
    """One service at work in one account."""

    organisation: Organisation
    number: int
    duty: Duty
    account: Account

    @property
    def key(self) -> str:
        if self.duty.kind == "linked":
            return self.role.arn
        return self.vendor if self.duty.kind == "vendor" else self.duty.who

    @cached_property
    def role(self) -> user_identity.Role:
        service = self.duty.who.removeprefix("AWSServiceRoleFor").lower()
        path = f"/aws-service-role/{service}.amazonaws.com/"
        return user_identity.Role(
            self.account.number, self.duty.who, key_id("AROA", self._draw("role")), path
        )

    @cached_property
    def vendor(self) -> str:
        return str(self._draw("vendor").randrange(10**11, 10**12))

    def _draw(self, *what: object) -> random.Random:
        return self.organisation.draw("service", self.number, *what)

    @cached_property
    def forms(self) -> list[int]:
        library = self.organisation.library
        if self.duty.kind == "untyped":
            return [library.add(_rotation())]
        if self.duty.who == "cloudtrail.amazonaws.com":
            return [library.add(_data_key())]
        lane = "service" if self.duty.kind == "service" else "direct"
        return [library.of(action, lane)[0] for action in self.duty.actions]

    def day(self, day: int) -> tuple[Calls, list[Session]]:
        rng = np.random.default_rng((self.organisation.seed, 3, self.number, day))
        forms, every = np.array(self.forms, np.int32), self.duty.every
        if self.duty.strict:
            ticks = np.arange(self._draw("phase").random() * every, DAY, every)
            time = (
                ticks[:, None] + np.cumsum(rng.exponential(0.3, (len(ticks), len(forms))), axis=1)
            ).ravel()
            form = np.tile(forms, len(ticks))
        else:
            time = rng.random(int(rng.poisson(DAY / every))) * DAY
            form = forms[rng.integers(0, len(forms), len(time))]
        return Calls.of(time, form, 0, rng.integers(0, 12, len(time))), [self.session(day)]

    def session(self, day: int) -> Session:
        number, who = self.account.number, self.duty.who
        values = {"account": number, "region": self.account.region, "caller": self.role.arn}
        program, address = user_agents.fixed(who), who
        if self.duty.kind == "service":
            identity = user_identity.service(who)
        elif self.duty.kind == "untyped":
            identity = user_identity.untyped(number, who)
        elif self.duty.kind == "vendor":
            identity = user_identity.other_account(
                self.vendor, key_id("AROA", self._draw("vendor role")) + ":collector"
            )
            program, address = user_agents.go(3), user_agents.aws(self._draw("address"))
        else:
            host = f"{who.removeprefix('AWSServiceRoleFor').lower()}.amazonaws.com"
            key = Pools(f"{self.organisation.seed}/service/{self.number}")["key:ASIA"][day & 255]
            created = f"{self.organisation.date(day)}T00:00:01Z"
            identity = user_identity.assumed_role(
                self.role, f"{who.removeprefix('AWSServiceRoleFor')}-Describe", key, created, invoked_by=host
            )
            program, address = user_agents.fixed(host), host
        shared = self.duty.kind in ("service", "vendor")
        return Session(
            identity,
            program,
            address,
            self.account.region,
            values,
            self.account.pools,
            shared=shared,
            salt=self.number,
        )


def _rotation() -> Form:
    body = {
        "requestParameters": None,
        "responseElements": None,
        "additionalEventData": {"SecretId": place("name", "secret")},
    }
    return build(
        "secretsmanager.amazonaws.com",
        "RotationStarted",
        body,
        {"readOnly": False, "eventType": "AwsServiceEvent"},
    )


def _data_key() -> Form:
    """How a trail encrypts what it delivers; the shape is that of real records (kms GenerateDataKey by
    cloudtrail).
    """
    account, region = place("account"), place("region")
    context = {
        "aws:cloudtrail:arn": f"arn:aws:cloudtrail:{region}:{account}:trail/main",
        "aws:s3:arn": f"arn:aws:s3:::trail-{account}/AWSLogs/{account}/CloudTrail/{region}/{place('hex:16')}.json.gz",
    }
    key = f"arn:aws:kms:{region}:{account}:key/{place('uuid')}"
    asked = {"keyId": key, "encryptionContext": context, "keySpec": "AES_256"}
    body = {"requestParameters": asked, "responseElements": None}
    resource = {"accountId": account, "type": "AWS::KMS::Key", "ARN": key}
    end = {"readOnly": True, "resources": [resource], "eventType": "AwsApiCall"}
    return build("kms.amazonaws.com", "GenerateDataKey", body, end)
