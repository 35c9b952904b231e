"""Write CloudTrail of a hospital group with a health insurer and a medical-imaging platform, attacked in its last days.

FOLDER gets YYYY-MM-DD.jsonl.gz, one record a line by the day of delivery; labels.jsonl, one line an attack event;
causes.csv.gz, one line a harmless event of the judged days that something unusual made. The seed also draws the calendar, so
that weekends, holidays and ends of months lie elsewhere in each. The attacks are 54 sessions of 19 kinds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from tests.support.organisations import hospital_tables as tables
from tests.support.organisations import records
from tests.support.organisations.hospital_calls import (
    BERLIN,
    COLUMBUS,
    Actor,
    Change,
    Organisation,
    Place,
    Step,
    Visit,
    agent,
    browser,
    hexadecimal,
    iso,
    poisson,
    upgraded,
    weighted,
)
from tests.support.organisations.hospital_tables import MAIN_REGION, ORG, US_REGION, Attack, Team, Workload
from tests.support.organisations.records import DAY, HOUR, JUDGED, LEARNED, Record

OFFICE = Place("193.158.12.10")

# ------------------------------------------------------------------------------------------------------------- the actors


def hire(org: Organisation) -> None:
    """Add the people, each with a home, a computer and accounts of their own."""
    names = [
        f"{first}.{last}@{ORG}-health.example" for first in tables.FIRST_NAMES for last in tables.LAST_NAMES
    ]
    org.rng.shuffle(names)
    for team in tables.TEAMS:
        for _ in range(team.people):
            add_person(org, names.pop(), team)


def permission_set(org: Organisation, permission: str, account: str) -> str:
    """Return the name of a permission set's role in an account."""
    return f"AWSReservedSSO_{permission}_{hexadecimal(f'{org.seed}{permission}{account}', 16)}"


def add_person(org: Organisation, name: str, team: Team) -> None:
    """Add a person: an actor for the account it mostly works in, and at times one for another."""
    rng = random.Random(f"{org.seed}{name}")
    zone = COLUMBUS if rng.random() < team.abroad else BERLIN
    tools = _person_tools(team.tools, rng)
    places = _person_places(zone, rng)
    own = [(script, weight * math.exp(rng.gauss(0, 0.8))) for script, weight in weighted(team.scripts)]
    accounts = list(team.accounts)
    rng.shuffle(accounts)
    for number, account in enumerate(accounts[: 2 if rng.random() < 0.45 else 1]):
        in_us = zone is COLUMBUS and account in ("clinical-us", "imaging-prod", "ml-research")
        share = math.exp(rng.gauss(-0.15, 0.5)) * (0.25 if number else 1.0)
        org.actors.append(Actor(
            name, "sso", account, US_REGION if in_us else MAIN_REGION, tools, places, own, team.rate * share, zone,
            permission_set(org, team.permission, account), team.name, pace=(0.6, 45.0), failures=0.012,
        ))  # fmt: skip


def _person_tools(letters: str, rng: random.Random) -> list[str]:
    desktop = rng.choice(tables.DESKTOPS)
    system, arch, _ = desktop
    agents = {
        "c": browser(desktop, str(rng.randint(129, 131))),
        "l": agent(tables.CLI, v=f"{rng.randint(15, 22)}.{rng.randint(0, 30)}", os=system, arch=arch),
        "b": agent(tables.BOTO, v=str(rng.randint(33, 35)), p=str(rng.randint(1, 99)), os=system),
        "t": agent(
            tables.TERRAFORM, t=f"{rng.randint(7, 10)}.{rng.randint(0, 5)}", v=str(rng.randint(70, 82))
        ),
    }
    tools = [agents[letter] for letter in letters]
    rng.shuffle(tools)
    return tools


def _person_places(zone: ZoneInfo, rng: random.Random) -> list[Place]:
    pool = rng.choice(tables.US_HOMES if zone is COLUMBUS else tables.GERMAN_HOMES)
    home = Place(pool.format(rng.randint(1, 230)), "day")
    vpn = Place("199.83.12.40" if zone is COLUMBUS else f"193.158.12.{rng.choice((10, 11, 12))}")
    if rng.random() < 0.6:
        return [vpn, home]
    return [home, vpn] if rng.random() < 0.4 else [vpn]


def employ_machines(org: Organisation) -> None:
    """Add workloads, on-premises users, vendors, repositories and the roles of AWS services."""
    for workload in tables.WORKLOADS:
        for number in range(workload.how_many):
            org.actors.append(_workload(org, workload, number))
    org.actors += _key_users()
    org.actors += _vendors()
    org.actors += _pipelines()
    for account in tables.ACCOUNTS:
        org.actors.append(_linked(account, "AWSServiceRoleForConfig", "config", "config-scan", 14))
        if account.endswith(("prod", "us")):
            org.actors.append(_linked(account, "AWSServiceRoleForAutoScaling", "autoscaling", "scaling", 12))
    org.actors += _rare_administrators()


def _workload(org: Organisation, workload: Workload, number: int) -> Actor:
    kind, account = workload.kind, workload.account
    rng = random.Random(f"{org.seed}{workload.name}{account}{number}")
    base, _, hour = workload.name.partition("@")
    region = US_REGION if account == "clinical-us" or rng.random() < 0.15 else MAIN_REGION
    private = Place(f"10.{tables.ACCOUNTS.index(account) + 20}.{rng.randint(0, 30)}", "host", account)
    nat = Place(f"18.19{rng.randint(2, 7)}.{rng.randint(3, 240)}.{rng.randint(3, 240)}")
    if kind == "redshift":
        places = [Place("redshift", service="redshift.amazonaws.com")]
    elif kind == "lambda" and rng.random() < 0.5:
        places = [Place("3.12", "call")]
    else:
        places = [private, nat] if rng.random() < 0.6 else [nat]
    tools = list(tables.WORKLOAD_TOOLS[kind])
    rng.shuffle(tools)
    suffix = {"ecs": "TaskRole", "lambda": "LambdaRole", "instance": "InstanceRole"}.get(kind, "JobRole")
    return Actor(
        f"{base}-{account}-{number}", kind, account, region, tools[:1], places, weighted(workload.scripts),
        workload.rate * math.exp(rng.gauss(-0.6, 0.4)), COLUMBUS if region == US_REGION else BERLIN,
        f"{base}-{number}-{suffix}", base, float(hour or -1),
    )  # fmt: skip


def _key_users() -> Iterator[Actor]:
    for user in tables.KEY_USERS:
        in_us = "us" in user.name
        for number in range(user.how_many):
            place = Place(f"{'199.83.12' if in_us else '193.158.14'}.{20 + number * 7 % 60}")
            yield Actor(
                f"{user.name}-{number + 1:02d}", "user", user.account, US_REGION if in_us else MAIN_REGION, [user.tool],
                [place], [(user.script, 1.0)], user.rate, COLUMBUS if in_us else BERLIN, "", user.name,
            )  # fmt: skip


def _vendors() -> Iterator[Actor]:
    for vendor in tables.VENDORS:
        for account in vendor.accounts:
            yield Actor(
                f"{vendor.name}/{account}", "vendor", account, MAIN_REGION, [vendor.tool],
                [Place(vendor.network, "host")], [(vendor.script, 1.0)], vendor.rate, BERLIN,
                f"{vendor.name}-integration", vendor.name, owner=vendor.owner,
            )  # fmt: skip


def _pipelines() -> Iterator[Actor]:
    for number, (repository, account) in enumerate(tables.REPOSITORIES):
        tool = agent(tables.CLI, v="22.12", os="linux#6.5.0-1025-azure", arch="x86_64")
        scripts = "deploy:3 deploy-lambda:2 plan:1"
        if repository.startswith("infra"):
            tool, scripts = agent(tables.TERRAFORM, t="9.8", v="82"), "plan:5 apply:1"
        runner = Place(tables.RUNNERS[number % 6].format(40 + number), "call")
        yield Actor(
            f"github/{repository}", "github", account, MAIN_REGION, [tool], [runner], weighted(scripts), 3.5, BERLIN,
            f"github-{repository}", repository,
        )  # fmt: skip


def _linked(account: str, role: str, service: str, script: str, rate: float) -> Actor:
    """Return the role of an AWS service in an account."""
    host = f"{service}.amazonaws.com"
    region = US_REGION if account == "clinical-us" else MAIN_REGION
    place = Place("", service=host)
    return Actor(
        f"{role}/{account}",
        "linked",
        account,
        region,
        [host],
        [place],
        [(script, 1.0)],
        rate,
        BERLIN,
        role,
        host,
    )


def _rare_administrators() -> Iterator[Actor]:
    """Yield the root user of the management account, and the users for emergencies."""
    for name, kind, desktop, version, script, rate in (
        ("root", "root", tables.DESKTOPS[0], "131", "cost-look", 0.06),
        ("break-glass-1", "user", tables.DESKTOPS[1], "130", "admin-org", 0.05),
        ("break-glass-2", "user", tables.DESKTOPS[1], "130", "admin-org", 0.05),
    ):
        scripts = [("look-iam", 1.0), (script, 1.0)]
        tools = [browser(desktop, version)]
        yield Actor(name, kind, "management", MAIN_REGION, tools, [OFFICE], scripts, rate, pace=(2, 40))


# --------------------------------------------------------------------------------------------------- harmless and unusual


def disturb(org: Organisation) -> None:
    """Plan what is harmless and unusual: of all days at its natural rate, and a few things of the judged days alone."""
    people = [actor for actor in org.actors if actor.kind == "sso"]
    for actor in people:
        _live_on(org, actor)
    present = org.actors.copy()
    _move_people(org, people)
    for actor in present:
        _change_in_judged_days(org.split, actor)
    _begin_in_judged_days(org)
    _incidents(org)


def _live_on(org: Organisation, actor: Actor) -> None:
    """Let a person upgrade tools, travel, or be hired while it is recorded."""
    span = org.stop - org.start
    rng = random.Random(f"{org.seed}{actor.name}life")  # the same for all accounts of a person
    for _ in range(poisson(rng, span / DAY / 22)):
        tools = {"tools": [upgraded(tool) for tool in actor.tools]}
        actor.changes.append(Change(org.start + rng.random() * span, math.inf, "tool-upgrade", tools))
    if rng.random() < span / DAY / 160:
        begin = org.start + rng.random() * span
        away = Place(f"{rng.choice((31, 37, 62, 80, 109, 151, 185))}.{rng.randint(2, 240)}", "day")
        actor.changes.append(Change(begin, begin + rng.uniform(1, 4) * DAY, "travel", {"places": [away]}))
    if rng.random() < 0.07:
        actor.begin = org.start + rng.random() * span
        actor.changes.append(Change(actor.begin, actor.begin + 5 * DAY, "new-hire"))


def _move_people(org: Organisation, people: list[Actor]) -> None:
    """Let some people change teams: they get another permission set and other work."""
    for actor in org.rng.sample(people, 7):
        begin = org.start + org.rng.random() * (org.stop - org.start)
        team = org.rng.choice(tables.TEAMS)
        account = team.accounts[0]
        moved = [*actor.changes, Change(begin, begin + 6 * DAY, "team-change")]
        org.actors.append(replace(
            actor, account=account, role=permission_set(org, team.permission, account), scripts=weighted(team.scripts),
            rate=team.rate, begin=begin, changes=moved,
        ))  # fmt: skip
        actor.end = begin + 2 * DAY


def _change_in_judged_days(split: float, actor: Actor) -> None:
    """Plan what is rolled out, moved or tried after the training, by those who are there."""

    def plan(share: float, cause: str, begin: float, end: float = math.inf, **fields: Any) -> None:
        if random.Random(actor.name).random() < share:
            actor.changes.append(Change(split + begin * DAY, split + end * DAY, cause, fields))

    if actor.kind == "sso":
        if actor.zone is BERLIN and actor.places[0].varies == "no":
            plan(0.35, "vpn-egress", 1.3, places=[Place("194.25.186.7"), *actor.places[1:]])
        if actor.team == "science":
            plan(0.5, "new-service", 0.4, scripts=[*actor.scripts, ("bedrock-use", 3.0)])
        if actor.team in ("platform", "oncall"):
            plan(
                0.3, "dr-test", 2.3, 3.6, region=tables.DR_REGION, scripts=[*actor.scripts, ("dr-test", 5.0)]
            )
    if actor.kind == "ecs" and actor.team in ("viewer", "claims-api") and actor.name.endswith(("-0", "-1")):
        plan(1, "new-region", 3, region=tables.DR_REGION)
    if actor.kind == "lambda":
        plan(0.25, "runtime", 0.7, tools=[tool.replace("1.34.145", "1.36.3", 2) for tool in actor.tools])
    if actor.team == "backup-appl" and actor.name.endswith("01"):
        plan(1, "migration", 1, 5, scripts=[("migrate", 1.0)])


def _begin_in_judged_days(org: Organisation) -> None:
    """Add a scanner of auditors, a cost tool on trial, and people who are hired after the training."""
    split, rng = org.split, org.rng
    scanner = agent(tables.BOTO, v="35", p="71", os="linux#6.8.0-51-generic") + " prowler/5.1.0"
    for account in rng.sample(tables.ACCOUNTS, 9):
        org.actors.append(Actor(
            f"prowler/{account}", "audit", account, MAIN_REGION, [scanner], [Place("193.158.12.12")], [("scanner", 1.0)],
            4, BERLIN, "AuditScanner", "audit", 9.5, (0.05, 0.6), begin=split + 2 * DAY, end=split + 4 * DAY,
            changes=[Change(split, math.inf, "scanner")],
        ))  # fmt: skip
    trial = "aws-sdk-js/3.700.0 ua/2.1 os/linux#5.10 lang/js md/nodejs#18.20.4 api/{service}#3.700.0"
    for account in ("management", "claims-prod"):
        org.actors.append(Actor(
            f"savvy-cost/{account}", "vendor", account, MAIN_REGION, [trial], [Place("44.207.31", "host")],
            [("cost-scan", 1.0)], 5, BERLIN, "savvy-cost-trial", "savvy", owner="377412229085", begin=split + 1.4 * DAY,
            changes=[Change(split, math.inf, "cost-trial")],
        ))  # fmt: skip
    for name in rng.sample([f"{first}.neu@{ORG}-health.example" for first in tables.FIRST_NAMES], 5):
        before = len(org.actors)
        add_person(org, name, rng.choice(tables.TEAMS[:7]))
        for actor in org.actors[before:]:
            actor.begin = split + rng.random() * 4 * DAY
            actor.changes.append(Change(split, math.inf, "new-hire"))


def _incidents(org: Organisation) -> None:
    """Write outages: admins work at night, a service fails and is called again and again, a fleet grows."""
    admins = [actor for actor in org.actors if actor.team == "oncall" and actor.kind == "sso"]
    for number in range(round((org.days + org.judged) / 4)):
        rng = random.Random(f"{org.seed}incident{number}")
        when = org.start + (number * 4 + rng.uniform(0, 4)) * DAY
        if when > org.stop - HOUR:
            continue
        for actor in rng.sample(admins, 2):
            at, visit = when, Visit(actor.tools[0], actor.places[-1], rng, cause="incident")
            for _ in range(rng.randint(2, 5)):
                at = org.run(actor, at, "incident", visit) + 300
        _storm(org, when, rng)
        fleet = rng.choice([actor for actor in org.actors if actor.role == "AWSServiceRoleForAutoScaling"])
        visit = Visit(fleet.tools[0], fleet.places[0], rng, cause="burst")
        for place in range(rng.randint(5, 25)):
            org.run(fleet, when + place * 40, "scaling", visit)


def _storm(org: Organisation, when: float, rng: random.Random) -> None:
    storm = rng.choice([actor for actor in org.actors if actor.kind in ("ecs", "lambda")])
    visit = Visit(storm.tools[0], storm.places[0], rng, cause="retry-storm")
    for place in range(rng.randint(80, 500)):
        step = rng.choice((Step("dynamodb", "Query", "table"), Step("kms", "Decrypt", "key")))
        org.call(storm, when + place * 2.5, step, visit, "ThrottlingException")


# ---------------------------------------------------------------------------------------------------------------- attacks

Rule = Callable[[Actor], bool]


def _people_of(*teams: str) -> Rule:
    return lambda actor: actor.kind == "sso" and actor.team in teams


def _machines_of(*teams: str) -> Rule:
    return lambda actor: actor.team in teams


def _busy(rate: float, *kinds: str) -> Rule:
    return lambda actor: actor.kind in kinds and actor.rate > rate


VICTIMS: dict[str, Rule] = {
    "ci": _machines_of("jenkins", "ansible", "legacy-report"),
    "engineers": _people_of("data", "imaging", "science"),
    "instances": _busy(3, "instance"),
    "console-users": _people_of("clinical-it", "billing", "platform", "oncall"),
    "vendors": lambda actor: actor.kind == "vendor" and actor.begin == 0,
    "readers": _people_of("actuary", "data", "billing"),
    "leavers": _people_of("data", "science", "imaging", "platform"),
    "deployers": _machines_of("platform", "oncall", "jenkins"),
    "bucket-writers": _machines_of("backup-appl", "dr-copy", "pacs-gw", "data"),
    "admins": _people_of("platform", "oncall", "cloud-admin"),
    "secret-readers": lambda actor: _busy(8, "ecs", "lambda")(actor) or actor.team == "platform",
    "key-holders": _busy(3, "user", "instance", "ecs"),
    "builders": _people_of("imaging", "data", "science"),
    "model-callers": _busy(5, "user", "lambda"),
    "mailers": _machines_of("svc-smtp", "legacy-report", "fn"),
    "colleagues": lambda actor: actor.kind == "sso" and actor.rate > 1.5,
    "org-admins": _people_of("cloud-admin", "platform"),
}


def attack(org: Organisation) -> None:
    """Add the sessions of every kind of attack, each on a victim of its own."""
    taken = {actor.name for actor in org.actors if actor.begin > org.start or actor.end < org.stop}
    for kind in tables.ATTACKS:
        for number in range(kind.how_many):
            _attack_once(org, kind, number, _victim(org, kind.victims, taken))
    for number in range(3):
        _mimic(org, number, taken)
    _lateral(org, taken)


def _victim(org: Organisation, rule: str, taken: set[str]) -> Actor:
    wanted = [actor for actor in org.actors if VICTIMS[rule](actor)]
    found = [actor for actor in wanted if actor.name not in taken] or wanted
    victim = org.rng.choice([actor for actor in found if actor.rate >= 0.5] or found)
    taken.add(victim.name)
    return victim


def _attack_begin(org: Organisation, victim: Actor, night: bool, rng: random.Random, days: int = 1) -> float:
    day = rng.randrange(max(1, org.judged - days + 1))
    hour = rng.choice((rng.uniform(19, 26), rng.uniform(0, 6))) if night else rng.uniform(8, 17)
    begin = org.split + day * DAY + (hour - (5 if victim.zone is COLUMBUS else -1) * 0.5) * HOUR
    return min(begin, org.stop - days * DAY * 0.9 if days > 1 else org.stop - 2 * HOUR)


def _attack_once(org: Organisation, kind: Attack, number: int, victim: Actor) -> None:
    rng, label = random.Random(f"{org.seed}{kind.kind}{number}"), f"{kind.kind}-{number:02d}"
    days = min(kind.days, org.judged)
    when = max(_attack_begin(org, victim, kind.hours == "night", rng, days), org.split + 60)
    victim, _ = victim.on(when)
    actor = replace(victim, pace=(kind.fastest, kind.slowest), failures=0.0)
    tool, place = _way(kind.way, victim, rng)
    if (
        kind.kind == "ssrf-instance" and number == 2
    ):  # from a machine of the thief's, by an endpoint of its own
        place = Place("10.0.1", "host", "foreign")
    visit = Visit(tool, place, rng, session=label)
    if kind.way == "console":
        org.sign_in_person(actor, when - 30, visit)
    if victim.kind == "vendor":
        org.assume(actor, when - 3, visit)
    if kind.kind in ("cryptomining", "llm-jacking"):
        visit = replace(visit, region=rng.choice(("us-east-1", "ap-southeast-1", "eu-north-1", MAIN_REGION)))
    for day in range(days):
        begin = when + day * DAY * rng.uniform(0.9, 1.0) if kind.days > 1 else when
        org.run(actor, begin, kind.scripts[(day + number) % len(kind.scripts)], visit)


def _way(way: str, victim: Actor, rng: random.Random) -> tuple[str, Place]:
    """Return the tool and the network of an attack."""
    away = Place(rng.choice(tables.ATTACK_NETWORKS) + f".{rng.randint(2, 250)}")
    if way == "far":
        return rng.choice(tables.ATTACK_TOOLS), away
    if way == "own":
        return victim.tools[0], victim.places[0]
    if way == "laptop":
        parts = (rng.choice((77, 88, 95, 176, 188)), *(rng.randint(2, 250) for _ in range(3)))
        return victim.tools[0], Place(".".join(map(str, parts)))
    return browser(rng.choice(tables.DESKTOPS), str(rng.choice((119, 128, 131)))), away


def _mimic(org: Organisation, number: int, taken: set[str]) -> None:
    """Add a thief who does what its victim does: two with its tool from another network, the third with its network too."""
    victim = _victim(org, "colleagues", taken)
    rng = random.Random(f"{org.seed}mimic{number}")
    when = _attack_begin(org, victim, False, rng)
    victim, _ = victim.on(when)
    tool, place = _way("own" if number == 2 else "laptop", victim, rng)
    visit = Visit(tool, place, rng, session=f"mimic-{number:02d}")
    for name, _ in rng.choices(victim.scripts, [weight for _, weight in victim.scripts], k=2):
        when = org.run(replace(victim, failures=0.0), when, name, visit) + 60


def _lateral(org: Organisation, taken: set[str]) -> None:
    """Add a thief who goes from one account to others by a role that an administrator may assume everywhere."""
    victim = _victim(org, "org-admins", taken)
    rng = random.Random(f"{org.seed}lateral0")
    when = _attack_begin(org, victim, True, rng)
    tool, place = _way("far", victim, rng)
    visit = Visit(tool, place, rng, session="lateral-00")
    victim = replace(victim, pace=(1.0, 15.0), failures=0.0)
    when = org.run(victim, when, "sts:GetCallerIdentity organizations:ListAccounts", visit)
    for account in rng.sample([name for name in tables.ACCOUNTS if name != victim.account], 5):
        there = Actor(
            f"lateral/{account}", "attack", account, MAIN_REGION, [tool], [place], [], 0,
            role="AWSControlTowerExecution", team=victim.name.split("@")[0], pace=(1.0, 15.0), failures=0,
        )  # fmt: skip
        org.assume(there, when, visit, victim)
        script = (
            "sts:GetCallerIdentity s3:ListBuckets iam:ListUsers iam:ListRoles secretsmanager:ListSecrets "
            "ec2:DescribeInstances"
        )
        when = org.run(there, when + 5, script, visit)


def build(
    seed: int, folder: Path, days: int = LEARNED, judged: int = JUDGED, activity: float = 1.0
) -> Record:
    """Write the organisation's files into a folder, and return its figures."""
    org = Organisation(seed, days, judged)
    hire(org)
    employ_machines(org)
    disturb(org)
    org.live(activity)
    attack(org)
    org.write(folder)
    sessions = len({label["session"] for label in org.labels})
    found = {"records": len(org.records), "actors": len(org.actors), "first": str(org.first)}
    return found | {
        "judged_from": iso(org.split)[:10],
        "sessions": sessions,
        "attack_events": len(org.labels),
    }


if __name__ == "__main__":
    records.run_program(build, __doc__ or "")
