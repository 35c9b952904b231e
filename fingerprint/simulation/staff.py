"""Everybody of an organisation: people, machine roles and services, in the shares of a usual one."""

from __future__ import annotations

import random
from dataclasses import dataclass

from fingerprint.simulation.aws_services import DUTIES, Service
from fingerprint.simulation.calendar import PLACES
from fingerprint.simulation.job_tasks import JOBS, MIX
from fingerprint.simulation.machines import Machine
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.people import Person

PEOPLE, MACHINES = 0.55, 0.35  # shares; the rest are services
ROOT_FROM = 20  # principals: in a smaller organisation nobody uses the root user

_FIRST = [
    "ana",
    "ben",
    "chloe",
    "david",
    "elif",
    "femi",
    "grace",
    "hugo",
    "ines",
    "jonas",
    "kavya",
    "liam",
    "mei",
    "noor",
    "omar",
    "priya",
    "quinn",
    "rosa",
    "sven",
    "tara",
    "uma",
    "viktor",
    "wei",
    "yusuf",
    "zoe",
]
_LAST = [
    "silva",
    "meyer",
    "rossi",
    "kumar",
    "jones",
    "novak",
    "okafor",
    "tanaka",
    "lopez",
    "smith",
    "kaya",
    "dubois",
    "haas",
    "patel",
    "chen",
    "berg",
    "costa",
    "moreau",
    "singh",
    "walsh",
]
_PERMISSIONS = {
    "developer": "DeveloperAccess",
    "sre": "PlatformEngineer",
    "data scientist": "DataScience",
    "analyst": "AnalystReadOnly",
    "security": "SecurityAudit",
    "admin": "AdministratorAccess",
    "manager": "ViewOnlyAccess",
}
_ACCOUNT = {"security": 2, "admin": 2, "manager": 0, "analyst": 0}  # the others: mostly prod or dev


@dataclass(frozen=True)
class Staff:
    people: list[Person]
    machines: list[Machine]
    services: list[Service]

    @property
    def everybody(self) -> list[Person | Machine | Service]:
        return [*self.people, *self.machines, *self.services]


def hire(organisation: Organisation, principals: int, scale: float = 1.0) -> Staff:
    """`principals` in all; `scale` multiplies how much each does in a day."""
    people = max(1, round(principals * PEOPLE))
    machines = min(principals - people, round(principals * MACHINES))
    draw = organisation.draw("staff")
    persons = [_person(organisation, number, draw, scale) for number in range(people)]
    if principals >= ROOT_FROM:
        persons[-1].kind, persons[-1].job, persons[-1].rate = "root", "admin", 0.25
    return Staff(
        persons,
        [_machine(organisation, number, draw, scale) for number in range(machines)],
        [_service(organisation, number) for number in range(principals - people - machines)],
    )


def _person(organisation: Organisation, number: int, draw: random.Random, scale: float) -> Person:
    job = draw.choices(list(JOBS), list(JOBS.values()))[0]
    name = f"{_FIRST[number % len(_FIRST)]}.{draw.choice(_LAST)}" + (
        str(number // 25) if number >= 25 else ""
    )
    kind = draw.choices(("sso", "user", "saml"), (0.80, 0.14, 0.06))[0]
    accounts = organisation.accounts
    account = accounts[min(_ACCOUNT.get(job, draw.choices((0, 1), (0.55, 0.45))[0]), len(accounts) - 1)]
    if len(accounts) > 3 and draw.random() < 0.4:
        account = accounts[draw.randrange(3, len(accounts))]
    person = Person(
        organisation,
        number,
        name,
        job,
        PLACES[draw.choice(list(PLACES))],
        account,
        kind,
        _PERMISSIONS[job],
        rate=draw.lognormvariate(2.1, 0.35) * scale,
    )
    person.upgrades.extend(day for day in range(organisation.days) if draw.random() < 0.04)
    person.absent.update(_vacation(organisation.days, draw))
    return person


def _vacation(days: int, draw: random.Random) -> set[int]:
    """One in four is away for some days of a month; anybody is ill now and then."""
    away = {day for day in range(days) if draw.random() < 0.01}
    for first in range(0, days, 28):
        if draw.random() < 0.25:
            start = first + draw.randrange(28)
            away.update(range(start, start + draw.randrange(3, 12)))
    return away


def _machine(organisation: Organisation, number: int, draw: random.Random, scale: float) -> Machine:
    trade = (
        draw.choices(list(MIX), list(MIX.values()))[0]
        if number >= len(MIX)
        else list(MIX)[number * 5 % len(MIX)]
    )
    account = organisation.accounts[
        draw.choices(
            range(len(organisation.accounts)),
            [3, 2, *[1] * (len(organisation.accounts) - 2)][: len(organisation.accounts)],
        )[0]
    ]
    name = f"{account.pools['name'][number & 255]}-{trade.replace(' ', '-')}-{number}"
    return Machine(organisation, number, name, trade, account, scale)


def _service(organisation: Organisation, number: int) -> Service:
    duty = DUTIES[number % len(DUTIES)]
    return Service(
        organisation, number, duty, organisation.accounts[number // len(DUTIES) % len(organisation.accounts)]
    )
