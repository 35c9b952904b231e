"""The hospital group's calls: scripts, places and actors, and the organisation that writes what actors do as records."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tests.support.organisations import hospital_tables as tables
from tests.support.organisations import records
from tests.support.organisations.hospital_tables import MAIN_REGION, ORG
from tests.support.organisations.records import DAY, HOUR, Record

BERLIN, COLUMBUS = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
HOLIDAYS = {BERLIN: tables.GERMAN_HOLIDAYS, COLUMBUS: tables.US_HOLIDAYS}
GITHUB = "token.actions.githubusercontent.com"
SESSION_HOURS = {"sso": 8, "lambda": 10, "ecs": 6, "instance": 6}  # how long credentials last; others: 1

# --------------------------------------------------------------------------------------------------- texts, ids and draws


def agent(form: str, **words: str) -> str:
    """Return a user agent of a form; `{command}` and `{service}` stay for the call to fill in."""
    words = {"command": "{command}", "service": "{service}", **words}
    return re.sub(r"\{(\w+)\}", lambda found: words.get(found[1], ""), form)


def browser(desktop: tuple[str, str, str], version: str) -> str:
    """Return the user agent of a browser."""
    return agent(tables.BROWSER, os=desktop[2], v=version)


def upgraded(tool: str) -> str:
    """Return a user agent of the next version of a tool."""
    form = r"(aws-cli/2\.|Boto3/1\.|provider-aws/5\.|Chrome/)(\d+)"
    return re.sub(form, lambda found: f"{found[1]}{int(found[2]) + 1}", tool)


def digest(text: str, length: int, letters: str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") -> str:
    """Return an id that is always the same of a text."""
    hashed = hashlib.sha512(text.encode()).digest()
    return "".join(letters[byte % len(letters)] for byte in hashed[:length])


def hexadecimal(text: str, length: int) -> str:
    """Return hexadecimal digits that are always the same of a text."""
    return digest(text, length, "0123456789abcdef")


def uuid(text: str) -> str:
    """Return a UUID that is always the same of a text."""
    digits = hexadecimal(text, 32)
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def iso(when: float) -> str:
    """Return a time, in seconds since 1970, as CloudTrail writes it."""
    return records.iso(datetime.fromtimestamp(when, UTC))


def poisson(rng: random.Random, mean: float) -> int:
    """Return a draw of a Poisson distribution; of a normal one where the mean is large."""
    if mean > 30:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    limit, count, product = math.exp(-mean), 0, rng.random()
    while product > limit:
        count, product = count + 1, product * rng.random()
    return count


# --------------------------------------------------------------------------------------------- scripts, places and actors


class Step(NamedTuple):
    """One call of a script and how often it is made."""

    service: str
    action: str
    pool: str = ""
    low: int = 1
    high: int = 1
    chance: float = 1
    failures: float = 0


_STEP = re.compile(
    r"([\w-]+):(\w+)(?:@([^*~!\s]+))?(?:\*(\d+)-(\d+))?(?:~([\d.]+))?(?:!([\d.]+))?(?:\*(\d+)-(\d+))?"
)


@cache
def parse_script(text: str) -> tuple[Step, ...]:
    """Return the steps of a line of calls. Raises ValueError where a part is no call."""
    steps = []
    for part in text.split():
        found = _STEP.fullmatch(part)
        if not found:
            raise ValueError(f"no call: {part}")
        low, high = int(found[4] or found[8] or 1), int(found[5] or found[9] or 1)
        chance, failures = float(found[6] or 1), float(found[7] or 0)
        steps.append(Step(found[1], found[2], found[3] or "", low, high, chance, failures))
    return tuple(steps)


def weighted(text: str) -> list[tuple[str, float]]:
    """Return names and weights of `a:3 b:1`."""
    return [(name, float(weight)) for name, weight in (part.rsplit(":", 1) for part in text.split())]


class Place(NamedTuple):
    """Where calls come from: the start of an address, how much of it varies with the call or the day, a VPC endpoint."""

    prefix: str
    varies: str = "no"  # no, host, day, call
    endpoint: str = ""
    service: str = ""

    def address(self, rng: random.Random, day: int) -> str:
        """Return the address of a call on a day, numbered from the first."""
        if self.service:
            return self.service
        draw = random.Random(f"{self.prefix}{day}") if self.varies == "day" else rng
        missing = 4 - len(self.prefix.split("."))
        if self.varies == "no":
            draw = random.Random(self.prefix)
        return ".".join([self.prefix, *(str(draw.randint(2, 250)) for _ in range(missing))])


@dataclass(frozen=True)
class Visit:
    """How some calls are made: with which tool, from where, by which draws; why, or in which attack session."""

    tool: str
    place: Place
    rng: random.Random
    region: str = ""
    cause: str = ""
    session: str = ""

    @property
    def console(self) -> bool:
        """Return whether a browser calls."""
        return self.tool.startswith("Mozilla")


@dataclass
class Change:
    """Something harmless and unusual of an actor from one time to another: its name, and the fields that differ."""

    begin: float
    end: float
    cause: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Actor:
    """One principal: who it is, from where and with what it calls, what it does and when."""

    name: str
    kind: str  # sso, user, vendor, github, service, root, linked (a service's role), or a workload's kind
    account: str
    region: str
    tools: list[str]
    places: list[Place]
    scripts: list[tuple[str, float]]
    rate: float  # sessions a working day
    zone: ZoneInfo = BERLIN
    role: str = ""  # its name; a user has none
    team: str = ""
    hour: float = -1.0  # of a job that runs once a day; -1: people by working hours, machines all day
    pace: tuple[float, float] = (0.05, 2.0)  # seconds between two calls: the fastest, the slowest
    failures: float = 0.004
    owner: str = ""  # the vendor's account
    changes: list[Change] = field(default_factory=list)
    begin: float = 0.0
    end: float = math.inf

    def on(self, when: float) -> tuple[Actor, str]:
        """Return the actor as it is at a time, and what is unusual of it then."""
        state, cause = self, ""
        for change in self.changes:
            if change.begin <= when < change.end:
                state = replace(state, **change.fields)
                cause = change.cause if when < change.begin + 6 * DAY else cause
        return state, cause


@cache
def _tail(name: str, team: str) -> tuple[str, ...]:
    rng = random.Random(f"tail{team}")
    shared = rng.sample(tables.TAIL, 26)
    return tuple(random.Random(name).sample(shared, 9) * 3 + rng.sample(tables.TAIL, 12) + shared)


def tail_of(actor: Actor) -> tuple[str, ...]:
    """Return what an actor calls now and then: mostly its own, some of its team's, seldom anything else."""
    return _tail(actor.name, actor.team)


# ------------------------------------------------------------------------------------------------------- the organisation


class Organisation:
    """The hospital group: accounts, resources, actors; writes what they call as records."""

    def __init__(self, seed: int, days: int, judged: int) -> None:
        self.seed, self.days, self.judged = seed, days, judged
        self.rng = random.Random(f"hospital-{seed}")
        self.first = date(2026, 1, 5) + timedelta(days=self.rng.randrange(60))
        self.start = datetime(self.first.year, self.first.month, self.first.day, tzinfo=UTC).timestamp()
        self.split, self.stop = self.start + days * DAY, self.start + (days + judged) * DAY
        self.numbers = {
            name: str(self.rng.randrange(10**11, 10**12)) for name in (*tables.ACCOUNTS, "foreign")
        }
        self.records: list[tuple[float, str]] = []  # when delivered, JSON
        self.labels: list[Record] = []
        self.causes: list[tuple[str, str]] = []  # event, cause
        self.actors: list[Actor] = []
        self._count = 0
        self._favourites: dict[tuple[str, str], list[str]] = {}

    # -- resources -----------------------------------------------------------------------------------------------------

    def resource(self, actor: Actor, pool: str, rng: random.Random) -> tuple[str, str, str]:
        """Return account, kind and name of a resource that the actor takes: mostly one of a few of its own."""
        account, _, kind = pool.rpartition("/")
        account = account or actor.account
        if kind.startswith("="):
            return account, "literal", kind[1:]
        key = (f"{actor.name}/{account}", kind)
        if key not in self._favourites:
            words = list(tables.POOLS[kind].words)
            random.Random(f"{key}{self.seed}").shuffle(words)
            self._favourites[key] = [self._resource_name(account, kind, word) for word in words]
        names = self._favourites[key]
        return account, kind, names[min(int(rng.expovariate(1.1)), len(names) - 1)]

    def _resource_name(self, account: str, kind: str, word: str) -> str:
        if kind in tables.EC2_IDS:
            return tables.EC2_IDS[kind] + "0" + hexadecimal(f"{self.seed}{account}{kind}{word}", 16)
        if kind == "key":
            return uuid(f"{self.seed}{account}{word}")
        if kind == "bucket":
            return f"{ORG}-{account}-{word}" + (f"-{self.numbers[account]}" if word == "logs" else "")
        return word

    def arn(self, service: str, region: str, account: str, rest: str) -> str:
        """Return the ARN of a resource in an account of ours."""
        return f"arn:aws:{service}:{region}:{self.numbers[account]}:{rest}"

    # -- identities ----------------------------------------------------------------------------------------------------

    def session(self, actor: Actor, when: float) -> tuple[str, str, float]:
        """Return a role session's name, its access key and when it began."""
        length = SESSION_HOURS.get(actor.kind, 1) * HOUR
        number = int(when // length)
        seed = f"{self.seed}{actor.name}{actor.account}{number}"
        began = max(number * length + random.Random(seed).random() * 900, when - length)
        return self._session_name(actor, when, number), "ASIA" + digest(seed, 16), began

    def _session_name(self, actor: Actor, when: float, number: int) -> str:
        match actor.kind:
            case "ecs":
                return hexadecimal(f"{actor.name}{int(when // (3 * DAY))}", 32)
            case "instance":
                return "i-0" + hexadecimal(f"{actor.name}{int(when // (9 * DAY))}{number % 3}", 16)
            case "emr":
                return "i-0" + hexadecimal(f"{actor.name}{int(when // DAY)}", 16)
            case "github":
                return f"GitHubActions-{9_000_000_000 + int(when // HOUR)}"
            case "vendor":
                return f"{actor.name.split('/')[0]}-{number % 1000}"
            case "linked":
                return actor.name.split("/")[0]
            case "attack":
                return actor.team
        fixed = {
            "glue": "GlueJobRunnerSession",
            "sagemaker": "SageMaker",
            "redshift": "RedshiftIamRoleSession",
        }
        return fixed.get(actor.kind, actor.name)

    def identity(self, actor: Actor, when: float, console: bool) -> Record:
        """Return userIdentity of an actor's call."""
        number = self.numbers[actor.account]
        if actor.kind == "service":
            return records.service_identity(actor.name)
        if actor.kind not in ("root", "user"):
            return self._role_identity(actor, when, console)
        if actor.kind == "root":
            found, ago = records.root_identity(number, "ASIA" + digest(f"root{when // DAY}", 16)), 300
        else:
            key = ("ASIA" if console else "AKIA") + digest(f"{self.seed}{actor.name}key", 16)
            user_id = "AIDA" + digest(f"{self.seed}{actor.name}", 17)
            found, ago = records.user_identity(number, actor.name, user_id, key), 900
        if console or actor.kind == "root":
            attributes = {"creationDate": iso(when - ago), "mfaAuthenticated": "true"}
            found["sessionContext"] = {"attributes": attributes}
        return found

    def _role_identity(self, actor: Actor, when: float, console: bool) -> Record:
        number, (name, key, began) = self.numbers[actor.account], self.session(actor, when)
        role_id = "AROA" + digest(f"{self.seed}{actor.role}{number}", 17)
        paths = {
            "sso": "aws-reserved/sso.amazonaws.com/eu-central-1/",
            "linked": f"aws-service-role/{actor.team}/",
        }
        path = paths.get(actor.kind, "")
        found = records.role_identity(number, actor.role, (role_id, key), name, iso(began), path)
        context = found["sessionContext"]
        match actor.kind:
            case "instance":
                context["ec2RoleDelivery"] = "2.0"
            case "github":
                context["webIdFederationData"] = {"federatedProvider": self._github(actor), "attributes": {}}
            case "linked":
                del found["accessKeyId"]
                found["invokedBy"] = actor.team
            case "sso":
                found["onBehalfOf"] = self._person(actor)
            case "ecs" | "lambda":
                issuer = {"ecs": "AWS::ECS::Task", "lambda": "AWS::Lambda::Function"}[actor.kind]
                source = self.arn(actor.kind, actor.region, actor.account, f"{actor.kind}/{name}")
                found["inScopeOf"] = {"issuerType": issuer, "credentialsIssuedTo": source}
        return found

    def _github(self, actor: Actor) -> str:
        return f"arn:aws:iam::{self.numbers[actor.account]}:oidc-provider/{GITHUB}"

    def _person(self, actor: Actor) -> Record:
        store = f"arn:aws:identitystore::{self.numbers['management']}:identitystore/d-99671{self.seed:05d}"
        return {"userId": uuid(actor.name), "identityStoreArn": store}

    # -- records -------------------------------------------------------------------------------------------------------

    def _ids(self) -> Record:
        """Return request and event id of a new record."""
        self._count += 1
        count = f"{self.seed}{self._count}"
        return {"request_id": uuid(f"r{count}"), "event_id": uuid(f"e{count}")}

    def _shared_id(self) -> str:
        return uuid(f"s{self.seed}{self._count}")

    def _address(self, visit: Visit, when: float) -> str:
        return visit.place.address(visit.rng, int((when - self.start) // DAY))

    def call(
        self,
        actor: Actor,
        when: float,
        step: Step,
        visit: Visit,
        error: str = "",
        extra: Record | None = None,
    ) -> None:
        """Write the record of one call, and the second one of a call into another account."""
        rng, service = visit.rng, tables.HOSTS.get(step.service, step.service)
        region = "us-east-1" if step.service in tables.GLOBAL_SERVICES else visit.region or actor.region
        target = self.resource(actor, step.pool, rng) if step.pool else (actor.account, "", "")
        identity = self.identity(actor, when, visit.console)
        error = error or _natural_error(actor, step, rng)
        version = "1.11" if rng.random() < 0.8 else "1.09"
        address = self._address(visit, when)
        request = self._request(step, target, region, rng, extra)
        record = records.make_record(
            **self._ids(), version=version, identity=identity, time=iso(when), source=service, name=step.action,
            region=region, address=address, agent=_agent_text(step, visit), request=request,
            response=_response(step, target[2], when, rng, error), number=self.numbers[actor.account],
            read_only=step.action.startswith(tables.READS) or step.action in tables.READ_ANYWAY,
            data=step.action in tables.DATA_EVENTS.get(step.service, ()),
        )  # fmt: skip
        if error:
            record["errorCode"], record["errorMessage"] = _error_fields(error, step, identity)
        if resources := self._resources(step, target, region, request):
            record["resources"] = resources
        record |= self._way_fields(step, visit, record)
        if target[0] != actor.account:
            record["sharedEventID"] = self._shared_id()
            self._write_second(record, target[0], when, visit)
        self._write(record, when, visit)

    def _way_fields(self, step: Step, visit: Visit, record: Record) -> Record:
        """Return the fields that say by which way a call came."""
        place, region = visit.place, record["awsRegion"]
        if place.endpoint:
            endpoint = hexadecimal(f"{place.endpoint}{step.service}{region}", 16)
            return records.endpoint_fields(endpoint, self.numbers[place.endpoint])
        if visit.console and record["managementEvent"]:
            return {"sessionCredentialFromConsole": "true"}
        if place.service:
            return {}
        return records.tls_fields(record["eventSource"].replace(".", f".{region}.", 1))

    def _request(
        self, step: Step, target: tuple[str, str, str], region: str, rng: random.Random, extra: Record | None
    ) -> Record | None:
        owner, kind, name = target
        found: Record = dict(extra or {})
        if kind == "literal":
            fields = {"s3": "bucketName", "iam": "userName", "lambda": "functionName"}
            found.setdefault(fields.get(step.service, "name"), name)
        elif kind == "bucket":
            found |= {"bucketName": name, "Host": f"{name}.s3.{region}.amazonaws.com"}
            if step.action in tables.DATA_EVENTS["s3"] and step.action != "ListObjects":
                folder, number = rng.choice(("in", "out", "daily", "studies")), rng.randrange(16**8)
                found["key"] = f"{folder}/{number:08x}.{rng.choice(('parquet', 'dcm', 'json'))}"
        elif kind == "instance" and step.service == "ec2":
            found["instancesSet"] = {"items": [{"instanceId": name}]}
        elif kind == "queue":
            found["queueUrl"] = f"https://sqs.{region}.amazonaws.com/{self.numbers[owner]}/{name}"
        elif kind in tables.ARN_POOLS:
            service, begin = tables.ARN_POOLS[kind]
            found[tables.POOLS[kind].field] = self.arn(service, region, owner, begin + name)
        elif kind:
            found[tables.POOLS[kind].field] = name
        if step.action == "StartQueryExecution":
            query = f"SELECT * FROM claims WHERE month = {rng.randrange(12)}"  # noqa: S608 - is never run
            found |= {"queryString": query, "clientRequestToken": uuid(str(rng.random()))}
        return found or None

    def _resources(
        self, step: Step, target: tuple[str, str, str], region: str, request: Record | None
    ) -> list[Record]:
        owner, kind, name = target
        number = self.numbers[owner]
        if kind == "bucket":
            bucket = {"accountId": number, "type": "AWS::S3::Bucket", "ARN": f"arn:aws:s3:::{name}"}
            key = (request or {}).get("key")
            return (
                [{"type": "AWS::S3::Object", "ARN": f"arn:aws:s3:::{name}/{key}"}, bucket]
                if key
                else [bucket]
            )
        if kind == "key":
            arn = self.arn("kms", region, owner, f"key/{name}")
            return [{"accountId": number, "type": "AWS::KMS::Key", "ARN": arn}]
        if kind == "table" and step.service == "dynamodb":
            arn = self.arn("dynamodb", region, owner, f"table/{name}")
            return [{"accountId": number, "type": "AWS::DynamoDB::Table", "ARN": arn}]
        return []

    def _write(self, record: Record, when: float, visit: Visit) -> None:
        rng = visit.rng
        late = (
            min(rng.lognormvariate(5.2, 0.6), 1500) if rng.random() > 0.002 else rng.uniform(1800, 4 * HOUR)
        )
        text = json.dumps(record, separators=(",", ":"))
        self.records.append((when + late, text))
        if rng.random() < 0.0004:
            self.records.append((when + late + 60, text))  # delivered twice
        if visit.session:
            kind = visit.session.rsplit("-", 1)[0]
            label = {"eventID": record["eventID"], "session": visit.session}
            self.labels.append({**label, "kind": kind, "strength": kind})
        elif visit.cause and when >= self.split:
            self.causes.append((record["eventID"], visit.cause))

    def _write_second(self, record: Record, owner: str, when: float, visit: Visit) -> None:
        """Write the same call as the resource's account records it: another id, the caller an account."""
        caller, number = record["userIdentity"], self.numbers[owner]
        other = records.account_identity(caller.get("accountId", ""), caller.get("principalId", ""))
        ids = {"eventID": uuid(f"o{record['eventID']}"), "recipientAccountId": number}
        self._write({**record, "userIdentity": other, **ids}, when, visit)

    # -- how actors come by credentials --------------------------------------------------------------------------------

    def sign_in_person(self, actor: Actor, when: float, visit: Visit) -> None:
        """Write the sign-in of a person at Identity Center, in the management account."""
        seen = visit.tool if visit.console else browser(tables.DESKTOPS[len(actor.name) % 3], "131")
        number = self.numbers["management"]
        who = {"type": "IdentityCenterUser", "accountId": number, "onBehalfOf": self._person(actor)}
        who["credentialId"] = uuid(f"{actor.name}{when // DAY}")
        end = "Federate" if visit.console else "GetRoleCredentials"
        for name, source in (
            ("CredentialVerification", "signin"),
            ("UserAuthentication", "signin"),
            (end, "sso"),
        ):
            kind = "TOTP" if name == "CredentialVerification" else "PASSWORD,TOTP"
            flow = {
                "AuthWorkflowID": uuid(f"w{when}{actor.name}"),
                "CredentialType": kind,
                "UserName": actor.name,
            }
            record = records.make_record(
                **self._ids(), version="1.08", identity=who, time=iso(when), source=source, name=name,
                region=MAIN_REGION, address=self._address(visit, when), request=None, response=None, read_only=False,
                agent=seen if source == "signin" else visit.tool.replace("{command}", "sso.login"), number=number,
                kind="AwsServiceEvent", additionalEventData=flow, serviceEventDetails={name: "Success"},
            )  # fmt: skip
            self._write(record, when, visit)
            when += 2

    def _sts_record(self, actor: Actor, when: float, visit: Visit, **fields: Any) -> Record:
        """Return the record of a call of STS that opens a session of an actor's role; the request may name more."""
        number, (name, key, _) = self.numbers[actor.account], self.session(actor, when)
        request = {
            "roleArn": records.role_arn(number, actor.role),
            "roleSessionName": name,
            **fields.pop("request"),
        }
        response = {
            "credentials": {"accessKeyId": key, "expiration": iso(when + HOUR)},
            **fields.pop("response", {}),
        }
        return records.make_record(
            **{"number": number, **fields}, **self._ids(), version="1.08", time=iso(when), source="sts", region=actor.region,
            request=request, response=response, read_only=True, resources=records.role_resource(number, actor.role),
        )  # fmt: skip

    def federate(self, actor: Actor, when: float, visit: Visit) -> None:
        """Write that a pipeline trades its token for a role's session."""
        subject = f"repo:{ORG}-health/{actor.team}:ref:refs/heads/main"
        record = self._sts_record(
            actor, when, visit, name="AssumeRoleWithWebIdentity", address=visit.place.address(visit.rng, 0),
            identity=records.web_identity(self._github(actor), subject),
            agent="aws-sdk-js/3.654.0 ua/2.1 os/linux#6.5.0-1025-azure lang/js md/nodejs#20.13.1 api/sts#3.654.0 "
            "configure-aws-credentials-for-github-actions",
            request={"roleSessionName": "GitHubActions", "durationSeconds": 3600},
            response={"subjectFromWebIdentityToken": subject},
        )  # fmt: skip
        self._write(record, when, visit)

    def assume(self, actor: Actor, when: float, visit: Visit, caller: Actor | None = None) -> None:
        """Write that a role is assumed: by an account of someone else, or by a caller of ours, in both accounts."""
        number = self.numbers[actor.account]
        principal = "AROA" + digest(actor.owner + actor.name, 17) + ":" + actor.name
        outside = records.account_identity(actor.owner or number, principal)
        record = self._sts_record(
            actor, when, visit, name="AssumeRole", address=self._address(visit, when),
            identity=self.identity(caller, when, False) if caller else outside,
            agent=visit.tool.replace("{command}", "sts.assume-role").replace("{service}", "sts"),
            request={"externalId": f"ext-{actor.owner[:6]}"},
            number=self.numbers[caller.account] if caller else number,
        )  # fmt: skip
        record["sharedEventID"] = self._shared_id()
        if caller and caller.account != actor.account:
            self._write_second(record, actor.account, when, visit)
        self._write(record, when, visit)

    # -- what actors do ------------------------------------------------------------------------------------------------

    def run(self, actor: Actor, when: float, script: str, visit: Visit) -> float:
        """Make the calls of a script (a name, or a line of calls), one after the other; return when they end."""
        rng, (low, high) = visit.rng, actor.pace
        for step in parse_script(tables.SCRIPTS.get(script, script)):
            if step.chance < 1 and rng.random() >= step.chance:
                continue
            made = step._replace(failures=0) if visit.session else step
            for _ in range(rng.randint(step.low, step.high)):
                failed = visit.session and rng.random() < step.failures
                self.call(actor, when, made, visit, "AccessDenied" if failed else "")
                when += low * math.exp(rng.random() * math.log(high / low))
        return when

    def live(self, activity: float = 1.0) -> None:
        """Let every actor live every day; `activity` is the share of sessions that are opened."""
        for actor in self.actors:
            lived = replace(actor, rate=actor.rate * activity)
            for day in range(self.days + self.judged):
                rng = random.Random(f"{self.seed}{actor.name}{actor.account}{day}")
                for when in sorted(self._begins(lived, day, rng)):
                    if actor.begin <= when < min(actor.end, self.stop):
                        self._live_session(actor, when, rng)

    def _begins(self, actor: Actor, day: int, rng: random.Random) -> Iterator[float]:
        """Yield when sessions of an actor begin on a day."""
        midnight = self.start + day * DAY
        local = datetime.fromtimestamp(midnight + DAY / 2, actor.zone)
        month_end = (local + timedelta(days=2)).month != local.month or local.day == 1
        free = local.weekday() >= 5 or local.strftime("%m-%d") in HOLIDAYS[actor.zone]
        offset = actor.zone.utcoffset(local.replace(tzinfo=None))
        midnight -= offset.total_seconds() if offset else 0.0
        if actor.hour >= 0:
            rate = actor.rate * (2.4 if month_end and "claims" in actor.account else 1.0)
            for _ in range(poisson(rng, rate) if actor.rate < 1 else round(rate)):
                yield midnight + actor.hour * HOUR + rng.expovariate(1 / 1500)
        elif actor.kind == "sso":
            yield from _person_begins(actor, midnight, free, month_end, day, rng)
        else:
            yield from _machine_begins(actor, midnight, free, rng)

    def _live_session(self, actor: Actor, when: float, rng: random.Random) -> None:
        state, cause = actor.on(when)
        place = rng.choices(state.places, [0.8, 0.2, 0.1][: len(state.places)])[0]
        tool = rng.choices(state.tools, [0.62, 0.28, 0.1, 0.05][: len(state.tools)])[0]
        visit = Visit(tool, place, rng, state.region, cause)
        self._sign_in(state, when, visit)
        scripts, weights = [name for name, _ in state.scripts], [weight for _, weight in state.scripts]
        for _ in range(rng.choice((1, 1, 2, 3)) if actor.kind == "sso" else 1):
            when = self.run(state, when, rng.choices(scripts, weights)[0], visit)
            if actor.kind == "sso" and rng.random() < 0.3:
                when = self.run(state, when, rng.choice(tail_of(actor)), visit)
            when += rng.expovariate(1 / 300) if actor.kind == "sso" else 1

    def _sign_in(self, actor: Actor, when: float, visit: Visit) -> None:
        """Write how a session came by its credentials, in some of the sessions."""
        rng = visit.rng
        if actor.kind == "sso" and rng.random() < 0.5:
            self.sign_in_person(actor, when - 20, visit)
        elif actor.kind in ("ecs", "lambda", "instance") and rng.random() < 0.12:
            host = {"ecs": "ecs-tasks", "lambda": "lambda", "instance": "ec2"}[actor.kind] + ".amazonaws.com"
            arn = records.role_arn(self.numbers[actor.account], actor.role)
            request = {"roleArn": arn, "roleSessionName": self.session(actor, when)[0]}
            by_service = Visit(host, Place("", service=host), rng)
            service = replace(actor, name=host, kind="service")
            self.call(service, when - 1, Step("sts", "AssumeRole"), by_service, extra=request)
        elif actor.kind == "github":
            self.federate(actor, when - 2, visit)
        elif actor.kind == "vendor" and rng.random() < 0.6:
            self.assume(actor, when - 2, visit)

    def write(self, folder: Path) -> None:
        """Write the records by day of delivery, the labels and the causes."""
        self.records.sort(key=lambda pair: pair[0])
        days: dict[str, list[str]] = {}
        for when, text in self.records:
            if self.start <= when < self.stop + DAY / 4:
                days.setdefault(iso(min(when, self.stop - 1))[:10], []).append(text)
        records.write_files(folder, days, self.labels)
        with gzip.open(folder / "causes.csv.gz", "wt") as file:
            file.writelines(f"{event},{cause}\n" for event, cause in self.causes)


def _agent_text(step: Step, visit: Visit) -> str:
    command = f"{step.service}.{re.sub('(?<!^)(?=[A-Z])', '-', step.action).lower()}"
    text = visit.tool.replace("{command}", command).replace("{service}", step.service)
    return visit.place.service or text


def _natural_error(actor: Actor, step: Step, rng: random.Random) -> str:
    """Return how a call fails that was not meant to, "" where it does not."""
    if rng.random() >= step.failures + actor.failures:
        return ""
    kinds = (
        ("AccessDenied", "NotFound")
        if step.failures
        else ("ThrottlingException", "AccessDenied", "NotFound", "Validation")
    )
    return rng.choice(kinds)


def _error_fields(error: str, step: Step, identity: Record) -> tuple[str, str]:
    who = identity.get("arn", identity.get("invokedBy", ""))
    action = f"{step.service}:{step.action}"
    refused = f"User: {who} is not authorized to perform: {action}"
    match error:
        case "AccessDenied" if step.service == "ec2":
            return (
                "Client.UnauthorizedOperation",
                f"You are not authorized to perform this operation. {refused}",
            )
        case "AccessDenied":
            return error, f"{refused} because no identity-based policy allows the {action} action"
        case "ThrottlingException":
            return error, "Rate exceeded"
        case "NotFound" if step.service == "s3":
            return "NoSuchKey", "The specified key does not exist."
        case "NotFound":
            return "ResourceNotFoundException", "Requested resource not found"
        case _:
            return "ValidationException", "1 validation error detected"


def _response(step: Step, name: str, when: float, rng: random.Random, error: str) -> Record | None:
    if error:
        return None
    match step.action:
        case "AssumeRole":
            key = "ASIA" + digest(str(rng.random()), 16)
            given = {
                "accessKeyId": key,
                "sessionToken": "<sensitiveDataRemoved>",
                "expiration": iso(when + HOUR),
            }
            return {"credentials": given}
        case "RunInstances":
            instance = "i-0" + hexadecimal(str(rng.random()), 16)
            return {"instancesSet": {"items": [{"instanceId": instance, "instanceType": "c5.xlarge"}]}}
        case "CreateAccessKey":
            key = "AKIA" + digest(str(rng.random()), 16)
            return {"accessKey": {"accessKeyId": key, "status": "Active", "userName": name}}
    return None


def _machine_begins(actor: Actor, midnight: float, free: bool, rng: random.Random) -> Iterator[float]:
    """Yield when a machine runs: around noon where people start it, else half of its runs at any time."""
    by_people = actor.kind in ("github", "root") or "dev" in actor.account
    for _ in range(poisson(rng, actor.rate * ((0.1 if by_people else 0.6) if free else 1.0))):
        anytime = rng.random() < (0.1 if by_people else 0.5)
        hour = rng.random() * 24 if anytime else min(max(rng.gauss(12.5, 3.5), 0), 23.9)
        yield midnight + hour * HOUR


def _person_begins(
    actor: Actor, midnight: float, free: bool, month_end: bool, day: int, rng: random.Random
) -> Iterator[float]:
    """Yield when a person begins to work: by day, on call at night, in a week of nights."""
    week, on_shift = day // 7, actor.team == "oncall"
    on_call = on_shift and random.Random(f"{actor.name}{week}").random() < 0.2
    away = random.Random(f"{actor.name}{day // 5}away").random() < 0.07
    busy = 1.7 if month_end and actor.team in ("actuary", "billing", "data") else 1.0
    rate = actor.rate * busy * (0.0 if away else 0.06 if free and not on_call else 1.0)
    for _ in range(poisson(rng, rate)):
        hour = rng.triangular(7.6, 18.4, 10) if rng.random() < 0.95 else rng.triangular(18, 23.5, 19)
        yield midnight + hour * HOUR
    if on_call and rng.random() < 0.45:  # called out of bed
        begin = midnight + rng.uniform(0, 6) * HOUR
        yield from (begin + number * 1200 for number in range(rng.randint(1, 3)))
    if on_shift and random.Random(f"{actor.name}{week}night").random() < 0.12:
        yield from (midnight + rng.uniform(22, 29.5) * HOUR for _ in range(rng.randint(1, 5)))
