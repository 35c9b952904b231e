"""The service provider's calls: accounts, actors and sessions, and what writes what they do as records."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from tests.support.organisations import records
from tests.support.organisations import service_provider_tables as tables
from tests.support.organisations.records import DAY, Record

END = datetime(
    2026, 5, 28, tzinfo=UTC
)  # Pentecost, Memorial Day and the Spring bank holiday are Monday, 25 May

# ------------------------------------------------------------------------------------------------------- scripts and ids


class Call(NamedTuple):
    """One part of a script: an action, how many times at most, in which share of the runs, and how it fails."""

    action: str
    most: int
    chance: float
    error: str


_CALL = re.compile(r"([a-z0-9-]+:\w+)(?:\*(\d+))?(?:%(\d+))?(!\S*)?")
_PLACEHOLDER = re.compile(r"\{([a-z0-9:]+)\}")


@cache
def read_script(script: str) -> tuple[Call, ...]:
    """Return the calls of a script, as `service_provider_tables` explains it. Raises ValueError where it is none."""
    calls = []
    for part in script.split():
        found = _CALL.fullmatch(part)
        if not found:
            raise ValueError(f"no call: {part}")
        action, most, chance, error = found.groups()
        code = (error[1:] or "AccessDenied") if error else ""
        if code == "AccessDenied" and action.startswith("ec2:"):
            code = "Client.UnauthorizedOperation"
        calls.append(Call(action, int(most or 1), int(chance or 100) / 100, code))
    return tuple(calls)


@lru_cache(maxsize=200_000)
def stable_id(prefix: str, *parts: object, length: int = 17) -> str:
    """Return an id as AWS writes it, the same for the same parts."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest().upper()
    return prefix + digest[:length]


def as_uuid(digits: str) -> str:
    """Return 32 hexadecimal digits as a UUID."""
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-b{digits[17:20]}-{digits[20:32]}"


@cache
def dashed(name: str) -> str:
    """Return an operation as the command line writes it: `ListBuckets` -> `list-buckets`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


# ---------------------------------------------------------------------------------------------------- accounts and actors


@dataclass(frozen=True)
class Account:
    """An account: whose it is, what runs there, its usual regions, and the days between which it is served."""

    name: str
    kind: str
    number: str
    regions: tuple[str, ...]
    joins: int = 0
    leaves: int = 999

    @property
    def customer(self) -> str:
        """Return the owner's name."""
        return self.name.split("-")[0]


@dataclass
class Actor:
    """Someone or something that calls AWS: by which identity, with which tool, from where, when, and what."""

    name: str
    account: Account
    kind: str  # user, sso, hub, role, linked, service, root
    agent: str
    place: str
    hours: str  # office:ZONE, shift:ZONE, busy, steady, cron:H,H, weekly:DAY@H
    rate: float  # visits a day
    scripts: tuple[str, ...]
    naming: str = "sdk"  # of sessions: instance, person, fixed:NAME, pod, device, sdk
    start: str = ""  # who opens the session: service:NAME, oidc:PROVIDER:SUBJECT, vendor:ACCOUNT, pod; of people: their role
    pace: float = 1.0  # seconds between two calls
    tags: frozenset[str] = frozenset()
    first: float = 0  # day
    last: float = 999
    upgrade: float = 999  # the day from which the newer version of the tool is used
    moves: tuple[tuple[float, float, str], ...] = ()  # from day, to day, place
    customers: tuple[Account, ...] = ()  # accounts that someone of the hub enters
    pool: dict[str, list[str]] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return what tells the actor from all others."""
        return f"{self.account.name}/{self.kind}/{self.name}"

    @property
    def role(self) -> str:
        """Return the name of the role it acts as."""
        if self.kind == "sso":
            suffix = stable_id("", self.account.number, self.start, length=16).lower()
            return f"AWSReservedSSO_{self.start}_{suffix}"
        return self.start if self.kind == "hub" else self.name

    @property
    def host(self) -> str:
        """Return the host of the AWS service that calls."""
        return f"{self.start.removeprefix('service:')}.amazonaws.com"


@dataclass
class Session:
    """Credentials in use: identity as records show it, tool, address and region."""

    account: Account
    actor: Actor
    identity: Record
    agent: str
    address: str
    region: str
    opened: float
    console: bool = False
    wide: bool = False  # takes names of the whole account, not only its own
    label: str = ""


class Names(dict[str, str]):
    """Names for the placeholders of one call, made when asked for."""

    def __init__(self, calls: Calls, session: Session) -> None:
        super().__init__(region=session.region)
        self.calls, self.session = calls, session

    def __missing__(self, key: str) -> str:
        made = self[key] = self.calls.make_name(key, self.session, self)
        return made


def fill(value: Any, names: Names) -> Any:
    """Return a value with its placeholders filled in."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: names[found[1]], value) if "{" in value else value
    if isinstance(value, dict):
        return {key: fill(each, names) for key, each in value.items()}
    return [fill(each, names) for each in value] if isinstance(value, list) else value


# ---------------------------------------------------------------------------------------------------------------- records


class Calls:
    """The accounts, and the records of what is called in them; times are seconds from the start."""

    def __init__(self, seed: int, learned: int, judged: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.seed, self.days, self.judged = seed, learned + judged, judged
        self.start = END - timedelta(days=self.days)
        self.split = learned  # the first judged day
        self.records: dict[int, list[tuple[float, str]]] = defaultdict(list)
        self.labels: list[Record] = []
        self.accounts = {
            name: Account(
                name, kind, self._account_number(name, number), tuple(regions.split()),
                joins=self.split + 1 if name == "juniper-prod" else 0,
                leaves=self.split + 4 if name == "maple-legacy" else 999,
            )
            for number, (name, kind, regions) in enumerate(tables.ACCOUNTS)
        }  # fmt: skip
        self.served = [each for each in self.accounts.values() if each.kind in tables.SERVED]

    def _account_number(self, name: str, number: int) -> str:
        digits = int(stable_id("", self.seed, name, length=12), 16)
        return str(digits % 10**11 + 10**11 * (1 + number % 9))

    def moment(self, when: float) -> datetime:
        """Return a time of the recorded days."""
        return self.start + timedelta(seconds=when)

    # -- names ---------------------------------------------------------------------------------------------------------

    def words(self, key: str, account: Account) -> list[str]:
        """Return all names of a kind in an account."""
        _, form, words = tables.NAME_FORMS[key]
        environment = account.name.split("-")[1]
        place = {"customer": account.customer, "env": environment, "tail": account.number[-4:]}
        return [form.format(w=word, **place) for word in words]

    def make_name(self, key: str, session: Session, names: Names) -> str:
        """Return a name for a placeholder: of the names that the actor uses, or of all where the session is wide."""
        rng, number, region = self.rng, session.account.number, session.region
        if key in tables.NAME_FORMS:
            return self._own_name(key, session)
        match key.partition(":")[0]:
            case "arn":
                return f"arn:aws:{key.partition(':')[2]}:{region}:{number}:"
            case "kms":
                digits = stable_id("", number, int(rng.integers(3)), length=32).lower()
                return f"arn:aws:kms:{region}:{number}:key/{as_uuid(digits)}"
            case "instance" | "volume" | "snapshot" | "ami" | "sg":
                prefix = {"instance": "i", "volume": "vol", "snapshot": "snap"}.get(key, key) + "-0"
                return prefix + stable_id("", number, key, int(rng.integers(14)), length=16).lower()
            case "object":
                folder = ("in", "out", "archive", "data")[rng.integers(4)]
                return f"{folder}/2026/05/{rng.integers(1, 28):02d}/{self.hex(12)}.parquet"
            case "prefix":
                return ("in/", "out/", "data/2026/")[rng.integers(3)]
            case "queueurl":
                return f"https://sqs.{region}.amazonaws.com/{number}/{names['queue']}"
            case "rolearn":
                return records.role_arn(number, names["role"])
            case "other":
                other = stable_id("", "outside", self.seed, session.label or session.account.name, length=12)
                return other.translate(str.maketrans("ABCDEF", "123456"))
            case "uuid":
                return self.uuid()
        return self.hex(int(key.removeprefix("hex") or 8))

    def _own_name(self, key: str, session: Session) -> str:
        rng, actor = self.rng, session.actor
        everything = self.words(key, session.account)
        if session.wide:
            return everything[rng.integers(len(everything))]
        pool_key = f"{session.account.name}/{key}"
        if pool_key not in actor.pool:
            own = np.random.default_rng(int(stable_id("", actor.key, pool_key, length=8), 16))
            actor.pool[pool_key] = list(own.permutation(everything)[:3])
        pool = actor.pool[pool_key]
        return pool[min(int(rng.exponential(0.7)), len(pool) - 1)]

    def hex(self, length: int) -> str:
        """Return random hexadecimal digits."""
        return self.rng.bytes((length + 1) // 2).hex()[:length]

    def uuid(self) -> str:
        """Return a random UUID."""
        return as_uuid(self.rng.bytes(16).hex())

    # -- addresses and tools -------------------------------------------------------------------------------------------

    def address(self, actor: Actor, place: str, day: float) -> str:
        """Return the address of an actor at a place: stable at home for days, drawn again where a provider has many."""
        rng = self.rng
        if place == "private":
            return f"10.{int(actor.account.number) % 200}.{rng.integers(0, 8)}.{rng.integers(4, 250)}"
        if place == "service":
            return actor.host
        if place == "aws-lambda":
            half = ("18.197", "3.121", "52.59")[rng.integers(3)]
            return f"{half}.{rng.integers(256)}.{rng.integers(256)}"
        if place in ("gitlab-saas", "circleci", "tor"):
            halves = tables.NETWORKS[place]
            return f"{halves[rng.integers(len(halves))]}.{rng.integers(256)}.{rng.integers(256)}"
        return self._lasting_address(actor, place, day)

    def _lasting_address(self, actor: Actor, place: str, day: float) -> str:
        shared = place.startswith(("vpn", "hub", "tfc", "datadog", "wiz", "vanta", "cloud", "databricks"))
        office = place == "customer-office"
        owner = "shared" if shared else actor.account.customer if office else actor.key
        lease = 0 if shared or office else int(day // 9)  # a household gets a new address at times
        if place == "fleet":
            owner, lease = f"{actor.key}{self.rng.integers(60)}", 0
        name = f"{place}/{owner}/{lease}"
        if name not in actor.homes:
            digits = stable_id("", self.seed, place, owner, length=8)
            halves = tables.NETWORKS[place]
            last = int(stable_id("", self.seed, name, length=2), 16)
            actor.homes[name] = f"{halves[int(digits[:2], 16) % len(halves)]}.{int(digits[2:4], 16)}.{last}"
        found = actor.homes[name]
        return found.rsplit(".", 1)[0] + f".{10 + self.rng.integers(3)}" if shared else found

    def agent_text(self, agent: str, actor: Actor, day: float) -> str:
        """Return the user agent that a record shows, `{command}` left open."""
        if agent == "service":
            return actor.host
        versions = tables.AGENTS[agent].versions or ["1.0"]
        return tables.AGENTS[agent].text.replace("{v}", versions[-1] if day >= actor.upgrade else versions[0])

    # -- one record ----------------------------------------------------------------------------------------------------

    def emit(
        self,
        session: Session,
        when: float,
        action: str,
        *,
        error: str = "",
        request: Record | None = None,
        account: Account | None = None,
        extra: Record | None = None,
    ) -> None:
        """Write one record of a session's call, delivered some minutes later."""
        service, name = action.split(":")
        names, data = Names(self, session), bool(tables.DATA.match(action))
        request = fill(tables.REQUESTS.get(action), names) if request is None else request
        command = f"{service}.{dashed(name[0].lower() + name[1:] if service == 'bedrock' else name)}"
        number, event_id = (account or session.account).number, self.uuid()
        record = records.make_record(
            identity=session.identity, time=records.iso(self.moment(when)), name=name, address=session.address,
            source="monitoring" if service == "cloudwatch" else service, data=data, number=number,
            region="us-east-1" if service in tables.GLOBAL_SERVICES else session.region,
            agent=session.agent.replace("{command}", command), request=request, response=None,
            request_id=self.uuid(), event_id=event_id, read_only=bool(tables.READ.match(name)),
        )  # fmt: skip
        if error:
            message = tables.ERRORS.get(error, "The request failed.")
            arn = session.identity.get("arn", "")
            record |= {"errorCode": error, "errorMessage": message.format(arn=arn, action=action)}
        for pattern, kind, form in tables.RESOURCES:
            if pattern.match(action):
                record["resources"] = [{"accountId": number, "type": kind, "ARN": fill(form, names)}]
                break
        record |= self._way_fields(session, service, number)
        self._deliver(record | (extra or {}), when)
        if session.label:
            kind = session.label.rpartition("-")[0]
            label = {"eventID": event_id, "session": session.label, "kind": kind}
            self.labels.append({**label, "victim": session.actor.key})

    def _way_fields(self, session: Session, service: str, number: str) -> Record:
        """Return the fields that say by which way a call came."""
        if service == "signin":
            return {
                "eventType": "AwsConsoleSignIn",
                "responseElements": {"ConsoleLogin": "Success"},
                "additionalEventData": {"MobileVersion": "No", "MFAUsed": "No"},
            }
        found: Record = {}
        if session.address[0].isdigit():
            found |= records.tls_fields(f"{service}.{session.region}.amazonaws.com")
        if session.console:
            found["sessionCredentialFromConsole"] = "true"
        if session.address.startswith("10."):
            if service in tables.ENDPOINT_SERVICES:
                endpoint = stable_id("", number, service, length=16).lower()
                found |= records.endpoint_fields(endpoint, number)
            else:  # no endpoint: the call leaves by the account's NAT gateway
                found["sourceIPAddress"] = f"52.57.{int(number) % 250}.{int(number) // 7 % 250}"
        return found

    def _deliver(self, record: Record, when: float) -> None:
        delay = float(self.rng.gamma(2.2, 95))
        if self.rng.random() < 0.004:
            delay += float(self.rng.exponential(7000))
        line = json.dumps(record, separators=(",", ":"))
        self.records[int((when + delay) // DAY)].append((when + delay, line))

    # -- sessions ------------------------------------------------------------------------------------------------------

    def identity(
        self, actor: Actor, account: Account, role: str, name: str, when: float, path: str = ""
    ) -> Record:
        """Return a role's identity with its session."""
        ids = (stable_id("AROA", account.number, role), stable_id("ASIA", role, name, when, length=16))
        created = records.iso(self.moment(when))
        found = records.role_identity(account.number, role, ids, name, created, path)
        federation = {}
        if actor.start.startswith("oidc:"):
            federation = {"federatedProvider": self.provider(actor)[0], "attributes": {}}
        found["sessionContext"]["webIdFederationData"] = federation
        return found

    def provider(self, actor: Actor) -> tuple[str, str]:
        """Return the provider and the subject of a web identity."""
        number, customer = actor.account.number, actor.account.customer
        base = f"arn:aws:iam::{number}:oidc-provider/"
        match actor.start.split(":", 2)[1:]:
            case ["eks", subject]:
                cluster = stable_id("", number, "eks", length=32)
                name = f"oidc.eks.{actor.account.regions[0]}.amazonaws.com/id/{cluster}"
                return base + name, f"system:serviceaccount:{subject}"
            case ["gitlab.com", *_]:
                branch = ("main", "main", f"feature-{self.hex(3)}")[self.rng.integers(3)]
                return (
                    f"{base}gitlab.com",
                    f"project_path:northgate/{customer}-platform:ref_type:branch:ref:{branch}",
                )
            case ["circleci", *_]:
                parts = ("org", "project", str(self.rng.integers(6)))
                made = [stable_id("", customer, part, length=32).lower() for part in parts]
                org, project, user = map(as_uuid, made)
                return f"{base}oidc.circleci.com/org/{org}", f"org/{org}/project/{project}/user/{user}"
            case _:
                phase = ("plan", "apply")[self.rng.integers(2)]
                workspace = f"project:{customer}:workspace:{actor.account.name}:run_phase:{phase}"
                return f"{base}app.terraform.io", f"organization:northgate:{workspace}"

    def session_name(self, actor: Actor, when: float) -> str:
        """Return a session's name in the manner of the actor."""
        kind, _, name = actor.naming.partition(":")
        match kind:
            case "fixed":
                return name
            case "instance":
                days = int(when // (3 * DAY))
                return "i-0" + stable_id("", actor.key, int(self.rng.integers(6)), days, length=16).lower()
            case "person":
                return actor.name
            case "device":
                return stable_id("", actor.key, int(self.rng.integers(60)), length=40).lower()
            case "pod":
                return f"eks-{actor.account.customer}-{actor.name}-{self.uuid()}"
        return f"{int(self.moment(when).timestamp() * 1e9)}"

    def open_session(
        self,
        actor: Actor,
        when: float,
        *,
        agent: str = "",
        place: str = "",
        label: str = "",
        quiet: bool = False,
    ) -> Session:
        """Return a session of an actor; unless quiet, with the records that its opening leaves."""
        day, account, agent = when / DAY, actor.account, agent or actor.agent
        place = place or next((to for first, last, to in actor.moves if first <= day < last), actor.place)
        address, text = self.address(actor, place, day), self.agent_text(agent, actor, day)
        region = account.regions[min(int(self.rng.exponential(0.3)), len(account.regions) - 1)]
        session = Session(
            account, actor, {}, text, address, region, when, agent in tables.BROWSERS, label=label
        )
        if actor.kind == "user":
            ids = stable_id("AIDA", actor.key), stable_id("AKIA", actor.key, length=16)
            session.identity = records.user_identity(account.number, actor.name, *ids)
            return session
        if actor.kind == "service":
            session.identity = records.service_identity(actor.host)
            return session
        paths = {
            "linked": f"aws-service-role/{actor.host}/",
            "sso": "aws-reserved/sso.amazonaws.com/eu-west-1/",
        }
        path, name = paths.get(actor.kind, ""), self.session_name(actor, when)
        session.identity = self.identity(actor, account, actor.role, name, when, path)
        if actor.kind == "linked":
            session.identity["invokedBy"] = actor.host
        elif not quiet:
            self._record_opening(session, name, when - 1, path + actor.role)
        return session

    def _record_opening(self, session: Session, name: str, when: float, role: str) -> None:
        """Write the call of STS that opened a role's session."""
        actor, number = session.actor, session.account.number
        request: Record = {"roleArn": records.role_arn(number, role), "roleSessionName": name}
        answer = self.credentials(session, when)
        opener, action = replace(session, console=False), "sts:AssumeRole"
        kind, _, start = actor.start.partition(":")
        extra: Record = {}
        if actor.kind in ("sso", "hub"):
            action = "sts:AssumeRoleWithSAML"
            request |= {"principalArn": self._by_saml(opener), "durationSeconds": 3600}
        elif kind == "oidc":
            action, (provider, subject) = "sts:AssumeRoleWithWebIdentity", self.provider(actor)
            opener.identity = records.web_identity(provider, subject)
            answer["subjectFromWebIdentityToken"] = subject
        elif kind == "vendor":
            opener.identity = records.account_identity(start, stable_id("AROA", start) + ":assume")
            request["externalId"] = stable_id("", number, start, length=12).lower()
        else:
            host = f"{'pods.eks' if kind == 'pod' else start}.amazonaws.com"
            opener.identity, opener.address, opener.agent = records.service_identity(host), host, host
        if kind in ("vendor", "service", "pod"):
            extra["sharedEventID"] = self.uuid()
        extra |= {"responseElements": answer, "resources": records.role_resource(number, role)}
        self.emit(opener, when, action, request=request, extra=extra)

    def _by_saml(self, opener: Session) -> str:
        """Make a session that of a person who signs in by SAML, and return the provider."""
        actor, number = opener.actor, opener.account.number
        source = "Okta"
        if actor.kind == "sso":
            source = f"AWSSSO_{stable_id('', number, length=16).lower()}_DO_NOT_DELETE"
            opener.agent = "aws-internal/3 aws-sdk-java/1.12.779 Linux/5.10.230"
        provider = stable_id("", source, length=27) + "="
        known = {"type": "SAMLUser", "principalId": f"{provider}:{actor.name}", "userName": actor.name}
        opener.identity = {**known, "identityProvider": provider}
        return f"arn:aws:iam::{number}:saml-provider/{source}"

    def credentials(self, session: Session, when: float) -> Record:
        """Return what STS answers."""
        key, principal = session.identity["accessKeyId"], session.identity["principalId"]
        until = f"{self.moment(when + 3600):%b %d, %Y, %I:%M:%S %p}"
        return {
            "credentials": {"accessKeyId": key, "expiration": until, "sessionToken": "HIDDEN"},
            "assumedRoleUser": {"assumedRoleId": principal, "arn": session.identity["arn"]},
        }

    def chain(self, session: Session, account: Account, role: str, when: float) -> Session:
        """Return a session of a customer's role, entered from one of the hub; both accounts record it."""
        actor = session.actor
        name = f"INC{self.rng.integers(10000, 99999)}" if self.rng.random() < 0.3 else actor.name
        entered = replace(session, account=account, region=account.regions[0], opened=when)
        entered.identity = self.identity(actor, account, role, name, when)
        shared = self.uuid()
        extra = {
            "responseElements": self.credentials(entered, when),
            "sharedEventID": shared,
            "requestID": as_uuid(stable_id("", shared, length=32).lower()),
            "resources": records.role_resource(account.number, role),
        }
        arn = records.role_arn(account.number, role)
        request: Record = {"roleArn": arn, "roleSessionName": name, "durationSeconds": 3600}
        self.emit(session, when, "sts:AssumeRole", request=request, extra=extra)
        caller = records.account_identity(session.account.number, session.identity["principalId"])
        outside = replace(session, identity=caller)
        self.emit(outside, when, "sts:AssumeRole", request=request, account=account, extra=extra)
        return entered

    def run(
        self,
        session: Session,
        when: float,
        script: str,
        pace: float,
        *,
        fully: bool = False,
        errors: float = 0.006,
    ) -> float:
        """Write the calls of a script, one after the other; return when it ended."""
        rng = self.rng
        for call in read_script(script):
            if rng.random() >= call.chance:
                continue
            least = max(1, call.most * 2 // 3) if fully else 1
            for _ in range(int(rng.integers(least, call.most + 1))):
                when += float(rng.exponential(pace)) * (0.3 if call.most > 1 else 1.0)
                error = call.error
                if not error and rng.random() < errors:
                    error = tables.EVERYDAY_ERRORS[rng.integers(4)]
                self.emit(session, when, call.action, error=error)
        return when
