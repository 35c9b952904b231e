"""Write CloudTrail of a managed service provider with its customers' accounts, attacked in its last days.

FOLDER gets YYYY-MM-DD.jsonl.gz, one record a line in the order of delivery, and labels.jsonl, one line an attack event. Five
accounts are the provider's own, nineteen its customers'. The judged days end on 27 May 2026; they hold a long weekend in three
countries, a customer who joins and one who leaves. Harmless and hostile calls are written by the same code, from scripts. The
attacks are 54 sessions of 20 kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.organisations import records
from tests.support.organisations import service_provider_tables as tables
from tests.support.organisations.records import DAY, HOUR, JUDGED, LEARNED, Record
from tests.support.organisations.service_provider_calls import Account, Actor, Calls, Session
from tests.support.organisations.service_provider_tables import ZONES, Attack

WORKING_HOURS = (
    0.3,
    0.8,
    1.5,
    2.3,
    3,
    4.6,
    5.2,
    6,
    7,
    7.8,
    9.5,
)  # after the morning's begin: when people sit down again
CONTRACTORS = ("in", "ph", "pl", "br", "in", "ph", "pl", "br")  # with keys, without MFA
FINANCE = (("Billing", "us"), ("Billing", "gb"), ("ViewOnlyAccess", "us"), ("ViewOnlyAccess", "de"))
FAR_REGIONS = ("us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1", "sa-east-1", "eu-north-1")


def at(day: float, hour: float) -> float:
    """Return the seconds from the start at which an hour of a day begins."""
    return (day + hour / 24) * DAY


class ServiceProvider(Calls):
    """The provider by a seed: its accounts and actors, and the records of its days."""

    def __init__(self, seed: int, learned: int, judged: int) -> None:
        super().__init__(seed, learned, judged)
        self.actors = [*self._machines(), *self._people()]
        self._assign_novelty()

    # -- who there is --------------------------------------------------------------------------------------------------

    def _machines(self) -> Iterator[Actor]:
        for account in self.accounts.values():
            everywhere = tables.AT_CUSTOMERS if account in self.served else []
            small = account.name.endswith(("staging", "dev", "bi", "research"))
            for row in (*tables.MACHINES.get(account.kind, ()), *everywhere, *tables.AWS_ROLES):
                rate = row.rate * (2 * (0.35 if small else 1.0) if row.rate > 5 else 1)
                yield Actor(
                    row.name, account, row.kind, row.agent, row.place, row.hours, rate, row.scripts, row.naming, row.start,
                    row.pace, frozenset(row.tags), account.joins, account.leaves,
                )  # fmt: skip

    def _people(self) -> Iterator[Actor]:
        names = self._person_names()
        yield from self._staff(names)
        for account in self.served:
            if account.name not in ("hazel-bi", "birch-staging"):
                yield from self._customer_people(account, names)
        yield from self._contractors(names)
        for index, (role, zone) in enumerate(FINANCE):
            yield Actor(
                next(names) + "@northgate.example", self.accounts["msp-management"], "sso", tables.BROWSERS[index], zone,
                f"office:{zone}", 2, tables.FINANCE, "person", role, 9, frozenset({"ssoperson"}),
            )  # fmt: skip

    def _person_names(self) -> Iterator[str]:
        first, last = tables.FIRST_NAMES, tables.LAST_NAMES
        for place in self.rng.permutation(len(first) * len(last)):
            yield f"{first[place % len(first)]}.{last[place // len(first)]}"

    def _staff(self, names: Iterator[str]) -> Iterator[Actor]:
        """Yield the provider's people: each in the hub, some with an account of Identity Center as well."""
        for team in tables.TEAMS:
            for index in range(team.people):
                zone, person = team.zones[index % len(team.zones)], next(names) + "@northgate.example"
                customers = tuple(self.served[place] for place in self.rng.permutation(len(self.served)))
                is_support = team.name == "support"
                newcomer = index == team.people - 1 and team.name in ("support", "platform")
                yield Actor(
                    person, self.accounts["msp-hub"], "hub", tables.COMMAND_LINES[index % 3], "vpn" if index % 3 else zone,
                    f"{'shift' if is_support else 'office'}:{zone}", team.rate, team.scripts, "person", team.role, 6,
                    frozenset({"hub"} if zone == "ph" else {"hub", "laptop"}), self.split + 1.3 if newcomer else 0,
                    customers=customers,
                )  # fmt: skip
                if index % 2 == 0 and not is_support:
                    account = self.accounts["msp-security" if team.name == "security" else "msp-tooling"]
                    yield Actor(
                        person, account, "sso", tables.BROWSERS[index % 4], zone, f"office:{zone}", 2, team.scripts,
                        "person", "AdministratorAccess", 8, frozenset({"ssoperson", "admin", "insider"}),
                    )  # fmt: skip

    def _customer_people(self, account: Account, names: Iterator[str]) -> Iterator[Actor]:
        zone = {"e": "de", "u": "us", "a": "in", "s": "br"}[account.regions[0][0]]
        scripts = tables.ANALYST if account.kind in ("lake", "ml") else tables.DEVELOPER
        for index in range(5):
            console, role = index % 2 == 0, "PowerUserAccess" if index else "AdministratorAccess"
            tags = {"ssoperson", "insider" if index else "admin"} | (set() if console else {"laptop"})
            yield Actor(
                f"{next(names)}@{account.customer}.example", account, "sso",
                tables.BROWSERS[index % 4] if console else tables.COMMAND_LINES[index % 3],
                "customer-office" if index % 3 else zone, f"office:{zone}", 3, scripts, "person", role, 7, frozenset(tags),
                account.joins + 0.4 * bool(account.joins), account.leaves,
            )  # fmt: skip

    def _contractors(self, names: Iterator[str]) -> Iterator[Actor]:
        for index, zone in enumerate(CONTRACTORS):
            account = self.served[(index * 5 + 3) % len(self.served)]
            yield Actor(
                next(names), account, "user", tables.COMMAND_LINES[index % 3], zone, f"office:{zone}", 3,
                tables.DEVELOPER[:5], "", "", 7, frozenset({"userkey", "laptop", "insider"}), account.joins, account.leaves,
            )  # fmt: skip

    def _assign_novelty(self) -> None:
        """Give upgrades, travels, new networks, a change of team, and tools that are upgraded as fleets."""
        versioned = [agent.name for agent in tables.AGENTS.values() if agent.versions]
        fleets = {name: self.rng.uniform(2, self.days + 6) for name in versioned}
        people = [actor for actor in self.actors if actor.naming == "person"]
        for actor in self.actors:
            if actor.naming == "person":
                actor.upgrade = self.rng.uniform(2, self.days * 1.6)
            else:
                actor.upgrade = fleets.get(actor.agent, 999) + self.rng.uniform(0, 1)
        early, late = sorted((3.0, self.split - 3.0))
        for number, place in enumerate(self.rng.choice(len(people), 5, replace=False)):
            day = self.split + self.rng.uniform(0.5, 4) if number < 2 else self.rng.uniform(early, late)
            people[place].moves += ((day, day + 4, "travel-jp" if number % 2 else "travel-es"),)
        for actor in people:
            if actor.place == "vpn" and self.rng.random() < 0.5:  # a new egress is rolled out on Tuesday
                actor.moves += ((self.split + 4.2, 999, "vpn-new"),)
        mover = next(actor for actor in people if actor.start == "msp-support")
        moved = replace(
            mover, start="msp-platform", scripts=tables.PLATFORM, first=self.split + 4.3, rate=3.0
        )
        self.actors.append(moved)
        mover.last = self.split + 4.2

    # -- ordinary days -------------------------------------------------------------------------------------------------

    def visits(self, actor: Actor, day: int, activity: float) -> list[float]:
        """Return the seconds of a day at which an actor begins to work."""
        kind, _, rest = actor.hours.partition(":")
        when, rng, rate = self.moment(day * DAY), self.rng, actor.rate * activity
        if kind in ("cron", "weekly") and activity < rng.random():
            return []
        if kind == "cron":
            return [int(hour) * HOUR + rng.uniform(0, 90) for hour in rest.split(",")]
        if kind == "weekly":
            weekday, _, hour = rest.partition("@")
            return [int(hour) * HOUR + rng.uniform(0, 300)] if when.weekday() == int(weekday) else []
        if kind in ("steady", "busy"):
            times = rng.uniform(0, DAY, rng.poisson(rate))
            keep = 1.0 if kind == "steady" else 0.55 + 0.45 * np.sin((times / 3600 - 9) / 24 * 2 * np.pi)
            return list(times[rng.random(len(times)) < keep])
        off = when.weekday() >= 5 or when.date() in tables.HOLIDAYS.get(rest, ())
        share = (0.35 if kind == "shift" else 0.04) if off else 1.0
        begin = 9 - ZONES[rest] + (rng.integers(3) * 8 if kind == "shift" and off else 0)
        hours = rng.choice(WORKING_HOURS, rng.poisson(rate * share))
        return [(begin + hour + rng.normal(0, 0.25)) * HOUR % DAY for hour in hours]

    def live(self, actor: Actor, day: int, activity: float) -> None:
        """Write an actor's day."""
        hub_session: Session | None = None
        for seconds in sorted(self.visits(actor, day, activity)):
            when = day * DAY + seconds
            if not actor.first <= when / DAY < actor.last:
                continue
            if actor.kind == "hub":
                if hub_session is None or when - hub_session.opened > 4 * HOUR:
                    hub_session = self.open_session(actor, when)
                self.work_on_ticket(actor, hub_session, when + 5)
                continue
            session = self.open_session(actor, when, quiet=self.rng.random() < 0.5 and actor.kind == "role")
            if session.console:
                when = self.run(session, when, tables.CONSOLE, 2)
            self.run(session, when, self.pick_script(actor), actor.pace)

    def pick_script(self, actor: Actor) -> str:
        """Return one of an actor's scripts, the first ones more often."""
        place = int(self.rng.exponential(len(actor.scripts) / 2.5))
        return actor.scripts[min(place, len(actor.scripts) - 1)]

    def work_on_ticket(self, actor: Actor, session: Session, when: float) -> None:
        """Enter a customer's account and work there: mostly one of a few that a person knows, at times another."""
        present = [each for each in actor.customers if each.joins <= when / DAY < each.leaves]
        account = present[min(int(self.rng.exponential(2.5)), len(present) - 1)]
        reads = actor.start in ("msp-security", "msp-data")
        entered = self.chain(session, account, "MSPAccess-ReadOnly" if reads else "MSPAccess-Operator", when)
        for _ in range(self.rng.integers(1, 4)):
            when = self.run(entered, when, self.pick_script(actor), actor.pace) + self.rng.exponential(120)

    # -- what is unusual, and harmless ---------------------------------------------------------------------------------

    def find(self, tag: str, account: str = "") -> list[Actor]:
        """Return the actors with a tag or name, in an account if one is named."""
        tags = {"workload", "userkey", "insider"} if tag == "quiet" else {tag}
        return [
            actor
            for actor in self.actors
            if tags & {*actor.tags, actor.name, actor.start} and account in actor.account.name
        ]

    def visit_customer(
        self, role: str, customer: str, when: float, script: str, pace: float = 5, agent: str = ""
    ) -> None:
        """Write what someone of the hub, no newcomer, does in a customer's account outside what they usually do."""
        person = next(actor for actor in self.find(role) if actor.kind == "hub" and actor.first == 0)
        session = self.open_session(person, when, agent=agent)
        entered = self.chain(session, self.accounts[customer], "MSPAccess-Operator", when + 4)
        entered.wide = True
        self.run(entered, when + 6, script, pace)

    def disturb(self) -> None:
        """Write what is unusual, as far as its days are recorded, and add who begins in the judged days."""
        for when, write in self._unusual():
            if 0 <= when < self.days * DAY:
                write(when)
        self._begin_trial()
        self._roll_out()
        for when, write in self._rare():
            if 0 <= when < self.days * DAY:
                write(when)

    def _unusual(self) -> Iterator[tuple[float, Callable[[float], None]]]:
        """Yield when incidents, tickets, an audit, a migration and storms begin, and what writes each."""

        def at_customer(role: str, customer: str, script: str, *how: Any) -> Callable[[float], None]:
            return lambda when: self.visit_customer(role, customer, when, script, *how)

        first, split = self.split, self.split
        ticket = " ".join(tables.SUPPORT[place] for place in (0, 2, 5, 8))
        secrets = " secretsmanager:ListSecrets secretsmanager:RotateSecret*3"
        for day, customer in ((first - 8, "elm-prod"), (split + 2, "birch-prod")):
            yield at(day, 2.5), at_customer("msp-security", customer, tables.INCIDENT)
            yield at(day, 3.1), at_customer("msp-platform", customer, ticket + secrets)
        for day, customer in (
            (first - 10, "fern-prod"),
            (split, "larch-legacy"),
            (split + 3, "hazel-bi"),
            (split + 5, "dune-dev"),
        ):
            yield at(day, 13.2), at_customer("msp-support", customer, ticket)
        for place, account in enumerate(self.served[:8]):
            audit = at_customer("msp-security", account.name, tables.AUDIT, 0.3, "prowler")
            yield at(split + 4, 8 + place * 0.4), audit
        for day in (split, split + 1):
            yield at(day, 6), self._migrate
        for day, name in ((first - 9, "birch-prod"), (split + 1, "cedar-prod"), (split + 5, "alder-prod")):
            yield at(day, 17.5), self._storm(self.find("karpenter", name)[0])

    def _rare(self) -> Iterator[tuple[float, Callable[[float], None]]]:
        """Yield when an account is built, when one is emptied, and when root users sign in."""
        yield at(self.split + 1, 9), self._build_account
        yield at(self.split + 3.9, 8), self._empty_account
        yield at(self.split - 12, 15), self._root("msp-management")
        yield at(self.split + 4, 15), self._root("larch-legacy")

    def _begin_trial(self) -> None:
        """Add a cost tool that some customers try."""
        script = next(row.scripts for row in tables.AT_CUSTOMERS if row.name == "CloudHealth")
        for account in self.served[3:7]:
            self.actors.append(Actor(
                "CloudZeroTrial", account, "role", "cloudzero", "cloudzero", "cron:4,16", 2, script, "fixed:cloudzero",
                "vendor:061190967865", 0.4, first=self.split + 0.5,
            ))  # fmt: skip

    def _roll_out(self) -> None:
        """Add a region to one customer's machines, and a service to another's."""
        for actor in self.find("orders-app", "alder-prod") + self.find("eks-node", "alder-prod"):
            account = replace(actor.account, regions=("eu-south-2",))
            self.actors.append(replace(actor, account=account, first=self.split + 0.4, rate=20))
        actor = self.find("catalog-app", "birch-prod")[0]
        self.actors.append(
            replace(actor, scripts=("bedrock:InvokeModel*4",), first=self.split + 4.4, rate=15)
        )

    def _migrate(self, when: float) -> None:
        """Write a migration to a new bucket, by the pipeline that usually copies little."""
        session = self.open_session(self.find("airflow", "gorse-lake")[0], when)
        session.wide = True
        self.run(session, when, "s3:ListObjects*6 s3:GetObject*300 s3:PutObject*300", 0.5)

    def _storm(self, actor: Actor) -> Callable[[float], None]:
        def write(when: float) -> None:
            self.run(self.open_session(actor, when), when, tables.STORM, 0.8, fully=True)

        return write

    def _build_account(self, when: float) -> None:
        session = self.open_session(self.find("tfc-agent", "juniper-prod")[0], when)
        self.run(session, when, tables.BUILD, 2, fully=True)
        self.visit_customer("msp-platform", "juniper-prod", when + 4000, " ".join(tables.PLATFORM[:5]))

    def _empty_account(self, when: float) -> None:
        self.visit_customer("msp-platform", "maple-legacy", when - 9000, tables.HAND_OVER)
        session = self.open_session(self.find("tfc-agent", "maple-legacy")[0], when - 4000)
        self.run(session, when - 4000, tables.EMPTY, 2, fully=True)

    def _root(self, name: str) -> Callable[[float], None]:
        def write(when: float) -> None:
            account = self.accounts[name]
            actor = Actor("root", account, "root", "chrome-mac", "gb", "", 0, ())
            text, address = self.agent_text("chrome-mac", actor, 0), self.address(actor, "gb", 0)
            identity = records.root_identity(account.number)
            session = Session(account, actor, identity, text, address, "us-east-1", when)
            self.run(session, when, tables.ROOT, 15)

        return write

    # -- attacks -------------------------------------------------------------------------------------------------------

    def attack(self) -> None:
        """Write all attack sessions, each on a victim of its own."""
        used: set[str] = set()
        for attack in tables.ATTACKS:
            for number in range(attack.how_many):
                victims = [
                    actor
                    for actor in self.find(attack.victims)
                    if actor.key not in used
                    and actor.first == 0
                    and actor.last > self.days
                    and (actor.naming == "person" or actor.rate >= 0.5)
                ]
                victim = victims[self.rng.integers(len(victims))]
                used.add(victim.key)
                self._attack_one(attack, victim, number)

    def _attack_one(self, attack: Attack, victim: Actor, number: int) -> None:
        rng = self.rng
        agent = attack.agents[rng.integers(len(attack.agents))]
        place = attack.places[rng.integers(len(attack.places))]
        agent, place = "" if agent == "own" else agent, "" if place == "own" else place
        when = self._attack_time(attack, victim)
        opened = victim.kind in ("hub", "sso") or "vendor" in victim.tags
        quiet = not opened or not (place or agent)
        label = f"{attack.kind}-{number:02d}"
        session = self.open_session(victim, when, agent=agent, place=place, label=label, quiet=quiet)
        session.wide = attack.spread != "usual"
        script = attack.scripts[number % len(attack.scripts)] if attack.scripts else ""
        match attack.spread:
            case "regions":
                self._attack_regions(session, when, script, attack.pace)
            case "accounts":
                self._attack_accounts(session, when, script, attack.pace)
            case "usual":
                self._repeat_usual(session, when, attack.pace)
            case _:
                self._attack_account(session, when, script, attack.pace * self._haste(attack))

    def _haste(self, attack: Attack) -> float:
        """Return by how much an attack that takes days is shortened where fewer are recorded."""
        return min(1.0, self.judged / JUDGED) if attack.spread == "days" else 1.0

    def _attack_regions(self, session: Session, when: float, script: str, pace: float) -> None:
        for region in self.rng.permutation(FAR_REGIONS)[:4]:
            session.region = str(region)
            when = self.run(session, when, script, pace, fully=True)

    def _attack_accounts(self, session: Session, when: float, script: str, pace: float) -> None:
        for account in self.rng.permutation(np.array(session.actor.customers, object))[:7]:
            if account.joins <= when / DAY < account.leaves:
                entered = self.chain(session, account, "MSPAccess-Operator", when + 10)
                when = self.run(entered, when + 15, script, pace, fully=True)

    def _repeat_usual(self, session: Session, when: float, pace: float) -> None:
        victim, target = session.actor, session
        if victim.kind == "hub":
            target = self.chain(session, victim.customers[0], "MSPAccess-Operator", when)
        for _ in range(self.rng.integers(2, 5)):
            when = self.run(target, when, self.pick_script(victim), pace)

    def _attack_account(self, session: Session, when: float, script: str, pace: float) -> None:
        victim, target = session.actor, session
        if victim.kind == "hub":
            self.run(session, when, "sts:GetCallerIdentity", 5)
            customer = victim.customers[self.rng.integers(6)]
            target = self.chain(session, customer, "MSPAccess-Operator", when + 20)
        self.run(target, when + 25, script, pace, fully=True, errors=0.01)

    def _attack_time(self, attack: Attack, victim: Actor) -> float:
        """Return when an attack begins: insiders and mimics in their working hours, thieves at any hour, slow ones early."""
        if attack.spread == "days":
            return (self.split + self.rng.uniform(0.2, 1)) * DAY
        if attack.places[0] == "own" and victim.hours.startswith(("office", "shift")):
            day = self.split + self.rng.choice([day for day in (0, 4, 5) if day < self.judged])
            hour = 10 + self.rng.uniform(0, 6) - ZONES[victim.hours.split(":")[1]]
            return float(day * DAY + hour * HOUR % DAY)
        return float((self.split + self.rng.uniform(0.1, self.judged - 0.35)) * DAY)

    # -- files ---------------------------------------------------------------------------------------------------------

    def write(self, folder: Path, activity: float) -> int:
        """Write the records of all days and the labels; return how many records there are."""
        self.disturb()
        self.attack()
        days: dict[str, list[str]] = {}
        for day in range(self.days):
            for actor in self.actors:
                if actor.first < day + 1 and actor.last > day:
                    self.live(actor, day, activity)
            lines = [line for _, line in sorted(self.records.pop(day, []))]
            if day == self.days - 1:
                lines += [line for rest in self.records.values() for _, line in sorted(rest)]
            days[f"{self.moment(day * DAY):%Y-%m-%d}"] = lines
        records.write_files(folder, days, self.labels)
        return sum(map(len, days.values()))


def build(
    seed: int, folder: Path, days: int = LEARNED, judged: int = JUDGED, activity: float = 1.0
) -> Record:
    """Write the organisation's files into a folder, and return its figures."""
    org = ServiceProvider(seed, days, judged)
    number = org.write(folder, activity)
    sessions = len({label["session"] for label in org.labels})
    found = {"records": number, "actors": len(org.actors), "first": f"{org.start:%Y-%m-%d}"}
    return found | {
        "judged_from": f"{org.moment(org.split * DAY):%Y-%m-%d}",
        "sessions": sessions,
        "attack_events": len(org.labels),
    }


if __name__ == "__main__":
    records.run_program(build, __doc__ or "")
