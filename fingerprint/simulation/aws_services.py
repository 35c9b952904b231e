# ruff: noqa: E501 - a table: a row a line
"""Calls that AWS services and vendors make in an account.

Their callers are service principals, service-linked roles, accounts of vendors, or identities without a type.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.simulation import user_agents, user_identity
from fingerprint.simulation.api_calls import CallerSession, Calls
from fingerprint.simulation.identifiers import IdentifierPools, key_id
from fingerprint.simulation.job_tasks import SERVICE_POPULARITY, parse_actions
from fingerprint.simulation.organisation import Account, Organisation
from fingerprint.simulation.record_templates import RecordTemplate, build_template, placeholder


@dataclass(frozen=True, slots=True)
class ServiceRoutine:
    """Actions that a service repeats: all of them every `period_seconds` (`strict`), or one at a time, that far apart on average."""

    service_principal: str  # name of the service or of its linked role; `vendor` for any vendor
    kind: str  # service, linked, vendor, untyped
    period_seconds: float
    actions: tuple[str, ...]
    strict: bool = True


SERVICE_ROUTINES = (
    ServiceRoutine("cloudtrail.amazonaws.com", "service", 300, parse_actions("kms:GenerateDataKey")),
    ServiceRoutine("AWSServiceRoleForConfig", "linked", 21_600, parse_actions(
        "s3:ListBuckets GetBucketAcl GetBucketPolicy GetBucketVersioning GetBucketLogging GetBucketEncryption GetBucketReplication "
        "ec2:DescribeInstances DescribeVolumes DescribeSecurityGroups DescribeVpcs DescribeSubnets iam:ListRoles GetRole ListUsers "
        "lambda:ListFunctions20150331 rds:DescribeDBInstances kms:ListKeys")),
    ServiceRoutine("vendor", "vendor", 600, parse_actions("sts:AssumeRole")),
    ServiceRoutine("secretsmanager.amazonaws.com", "untyped", 7200, ("secretsmanager:RotationStarted",), strict=False),
    ServiceRoutine("lambda.amazonaws.com", "service", 400, parse_actions("sts:AssumeRole"), strict=False),
    ServiceRoutine("ec2.amazonaws.com", "service", 900, parse_actions("sts:AssumeRole"), strict=False),
    ServiceRoutine("delivery.logs.amazonaws.com", "service", 300, parse_actions("logs:CreateLogStream")),
    ServiceRoutine("AWSServiceRoleForAutoScaling", "linked", 300, parse_actions("ec2:DescribeInstanceStatus elasticloadbalancing:DescribeTargetHealth")),
    ServiceRoutine("AWSServiceRoleForSecurityHub", "linked", 43_200, parse_actions(
        "iam:ListUsers ListAccessKeys GetAccountSummary GetAccountPasswordPolicy s3:GetBucketPublicAccessBlock ec2:DescribeFlowLogs "
        "cloudtrail:DescribeTrails GetTrailStatus config:DescribeConfigurationRecorders")),
    ServiceRoutine("AWSServiceRoleForRDS", "linked", 1800, parse_actions("ec2:DescribeVpcs DescribeSubnets DescribeSecurityGroups"), strict=False),
    ServiceRoutine("secretsmanager.amazonaws.com", "service", 1200, parse_actions("kms:Decrypt"), strict=False),
    ServiceRoutine("AWSServiceRoleForTrustedAdvisor", "linked", DAY_SECONDS, parse_actions(
        "ec2:DescribeInstances DescribeVolumes DescribeAddresses rds:DescribeDBInstances iam:GetAccountSummary elasticloadbalancing:DescribeLoadBalancers")),
)  # fmt: skip


# Names of further services, for organisations in which every account has all services above
MORE_SERVICES = tuple(
    name
    for name in SERVICE_POPULARITY
    if name not in ("ec2", "lambda", "secretsmanager", "cloudtrail", "config", "logs")
)


def service_routine(number: int, accounts: int) -> tuple[ServiceRoutine, int]:
    """Return the routine of service `number`, and the position of its account among a number of `accounts`.

    If every account has all routines, further services repeat them under other names, so no two services are one principal.
    """
    account, which = divmod(number, len(SERVICE_ROUTINES))
    routine, again = SERVICE_ROUTINES[which], account // accounts
    if again and routine.kind != "vendor":  # a vendor's account is drawn for each
        turn, place = divmod((again - 1) * len(SERVICE_ROUTINES) + which, len(MORE_SERVICES))
        name = MORE_SERVICES[place] + (f"-{turn}" if turn else "")
        linked = f"AWSServiceRoleFor{name.title().replace('-', '')}"
        routine = replace(
            routine, service_principal=linked if routine.kind == "linked" else f"{name}.amazonaws.com"
        )
    return routine, account % accounts


@dataclass
class AwsService:
    """A service (or vendor) that makes calls in one account."""

    organisation: Organisation
    number: int
    routine: ServiceRoutine
    account: Account

    @property
    def key(self) -> str:
        """The ARN of its role, the account of a vendor, or the name of a service."""
        if self.routine.kind == "linked":
            return self.role.arn
        return self.vendor if self.routine.kind == "vendor" else self.routine.service_principal

    @cached_property
    def role(self) -> user_identity.Role:
        """The service-linked role."""
        service = self.routine.service_principal.removeprefix("AWSServiceRoleFor").lower()
        path = f"/aws-service-role/{service}.amazonaws.com/"
        return user_identity.Role(
            self.account.number,
            self.routine.service_principal,
            key_id("AROA", self._random_for("role")),
            path,
        )

    @cached_property
    def vendor(self) -> str:
        """The vendor's account number."""
        return str(self._random_for("vendor").randrange(10**11, 10**12))

    def _random_for(self, *what: object) -> random.Random:
        return self.organisation.random_for("service", self.number, *what)

    @cached_property
    def templates(self) -> list[int]:
        """The numbers of the templates of its calls."""
        library = self.organisation.library
        if self.routine.kind == "untyped":
            return [library.add(_rotation_template())]
        if self.routine.actions == SERVICE_ROUTINES[0].actions:
            return [library.add(_data_key_template())]
        call_path = "service" if self.routine.kind == "service" else "direct"
        return [library.templates_of(action, call_path)[0] for action in self.routine.actions]

    def simulate_day(self, day: int) -> tuple[Calls, list[CallerSession]]:
        """Return the calls of a day and their single session."""
        rng = np.random.default_rng((self.organisation.seed, 3, self.number, day))
        forms, every = np.array(self.templates, np.int32), self.routine.period_seconds
        if self.routine.strict:
            ticks = np.arange(self._random_for("phase").random() * every, DAY_SECONDS, every)
            time = (
                ticks[:, None] + np.cumsum(rng.exponential(0.3, (len(ticks), len(forms))), axis=1)
            ).ravel()
            form = np.tile(forms, len(ticks))
        else:
            time = rng.random(int(rng.poisson(DAY_SECONDS / every))) * DAY_SECONDS
            form = forms[rng.integers(0, len(forms), len(time))]
        return Calls.from_columns(time, form, 0, rng.integers(0, 12, len(time))), [self.session(day)]

    def session(self, day: int) -> CallerSession:
        """Return its session of a day."""
        number, who = self.account.number, self.routine.service_principal
        values = {"account": number, "region": self.account.region, "caller": self.role.arn}
        program, address = user_agents.fixed_user_agent(who), who
        if self.routine.kind == "service":
            identity = user_identity.aws_service(who)
        elif self.routine.kind == "untyped":
            identity = user_identity.untyped(number, who)
        elif self.routine.kind == "vendor":
            identity = user_identity.other_account(
                self.vendor, key_id("AROA", self._random_for("vendor role")) + ":collector"
            )
            program, address = user_agents.go(3), user_agents.aws_address(self._random_for("address"))
        else:
            host = f"{who.removeprefix('AWSServiceRoleFor').lower()}.amazonaws.com"
            key = IdentifierPools(f"{self.organisation.seed}/service/{self.number}")["key:ASIA"][day & 255]
            created = f"{self.organisation.date(day)}T00:00:01Z"
            identity = user_identity.assumed_role(
                self.role, f"{who.removeprefix('AWSServiceRoleFor')}-Describe", key, created, invoked_by=host
            )
            program, address = user_agents.fixed_user_agent(host), host
        shared = self.routine.kind in ("service", "vendor")
        return CallerSession(
            identity,
            program,
            address,
            self.account.region,
            values,
            self.account.pools,
            shared=shared,
            salt=self.number,
        )


def _rotation_template() -> RecordTemplate:
    body = {
        "requestParameters": None,
        "responseElements": None,
        "additionalEventData": {"SecretId": placeholder("name", "secret")},
    }
    return build_template(
        "secretsmanager.amazonaws.com",
        "RotationStarted",
        body,
        {"readOnly": False, "eventType": "AwsServiceEvent"},
    )


def _data_key_template() -> RecordTemplate:
    """Return the template of kms:GenerateDataKey by CloudTrail, which encrypts what it delivers, in the form of real records."""
    account, region = placeholder("account"), placeholder("region")
    context = {
        "aws:cloudtrail:arn": f"arn:aws:cloudtrail:{region}:{account}:trail/main",
        "aws:s3:arn": f"arn:aws:s3:::trail-{account}/AWSLogs/{account}/CloudTrail/{region}/{placeholder('hex:16')}.json.gz",
    }
    key = f"arn:aws:kms:{region}:{account}:key/{placeholder('uuid')}"
    request = {"keyId": key, "encryptionContext": context, "keySpec": "AES_256"}
    body = {"requestParameters": request, "responseElements": None}
    resource = {"accountId": account, "type": "AWS::KMS::Key", "ARN": key}
    end = {"readOnly": True, "resources": [resource], "eventType": "AwsApiCall"}
    return build_template("kms.amazonaws.com", "GenerateDataKey", body, end)
