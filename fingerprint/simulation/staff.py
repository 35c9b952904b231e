"""The principals of an organisation: people, machine roles and AWS services, in the shares of its world's parameters."""

from __future__ import annotations

import random
from dataclasses import dataclass

from fingerprint.simulation.aws_services import SERVICE_ROUTINES, AwsService, service_routine
from fingerprint.simulation.calendar import LOCATIONS
from fingerprint.simulation.job_tasks import CI_WORKLOADS, JOB_SHARES, WORKLOAD_MIX
from fingerprint.simulation.machines import Machine
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.people import Person
from fingerprint.simulation.world_parameters import DEFAULT_WORLD, WorldParameters

MIN_PRINCIPALS_FOR_ROOT = 20  # principals; a smaller organisation does not use the root user

_FIRST = [
    "ana", "ben", "chloe", "david", "elif", "femi", "grace", "hugo", "ines", "jonas", "kavya",
    "liam", "mei", "noor", "omar", "priya", "quinn", "rosa", "sven", "tara", "uma", "viktor", "wei",
    "yusuf", "zoe",
]  # fmt: skip
_LAST = [
    "silva", "meyer", "rossi", "kumar", "jones", "novak", "okafor", "tanaka", "lopez", "smith",
    "kaya", "dubois", "haas", "patel", "chen", "berg", "costa", "moreau", "singh", "walsh",
]  # fmt: skip
_PERMISSIONS = {
    "developer": "DeveloperAccess",
    "sre": "PlatformEngineer",
    "data scientist": "DataScience",
    "analyst": "AnalystReadOnly",
    "security": "SecurityAudit",
    "admin": "AdministratorAccess",
    "manager": "ViewOnlyAccess",
}
_ACCOUNT = {
    "security": 2,
    "admin": 2,
    "manager": 0,
    "analyst": 0,
}  # position by job; other jobs: the first or the second


@dataclass(frozen=True)
class Staff:
    """All principals by kind."""

    people: list[Person]
    machines: list[Machine]
    services: list[AwsService]

    @property
    def all_principals(self) -> list[Person | Machine | AwsService]:
        """People, then machines, then services."""
        return [*self.people, *self.machines, *self.services]


def create_staff(organisation: Organisation, principals: int, scale: float = 1.0) -> Staff:
    """Return the staff, `principals` in all. `scale` multiplies the calls of people and machines, but not those of services."""
    world = organisation.parameters
    people = max(1, round(principals * world.people_share))
    machines_share = round(1 - world.people_share - world.services_share, 6)
    machines = min(principals - people, round(principals * machines_share))
    draw = organisation.random_for("staff")
    persons = [_make_person(organisation, number, draw, scale) for number in range(people)]
    if principals >= MIN_PRINCIPALS_FOR_ROOT:
        persons[-1].kind, persons[-1].job, persons[-1].rate = "root", "admin", 0.25
    return Staff(
        persons,
        [_make_machine(organisation, number, draw, scale) for number in range(machines)],
        [_make_service(organisation, number) for number in range(principals - people - machines)],
    )


def _make_person(organisation: Organisation, number: int, draw: random.Random, scale: float) -> Person:
    job = draw.choices(list(JOB_SHARES), list(JOB_SHARES.values()))[0]
    name = f"{_FIRST[number % len(_FIRST)]}.{draw.choice(_LAST)}" + (
        str(number // 25) if number >= 25 else ""
    )
    kind = draw.choices(("sso", "user", "saml"), _kind_weights(organisation.parameters))[0]
    accounts = organisation.accounts
    account = accounts[min(_ACCOUNT.get(job, draw.choices((0, 1), (0.55, 0.45))[0]), len(accounts) - 1)]
    if len(accounts) > 3 and draw.random() < 0.4:
        account = accounts[draw.randrange(3, len(accounts))]
    person = Person(
        organisation,
        number,
        name,
        job,
        LOCATIONS[draw.choice(list(LOCATIONS))],
        account,
        kind,
        _PERMISSIONS[job],
        rate=draw.lognormvariate(2.1, 0.35) * scale,
    )
    person.upgrades.extend(day for day in range(organisation.days) if draw.random() < 0.04)
    person.days_off.update(_days_off(organisation.days, draw))
    return person


def _kind_weights(world: WorldParameters) -> tuple[float, float, float]:
    """Return the shares of people who use single sign-on, access keys, and SAML."""
    others = 1 - world.single_sign_on_share
    return world.single_sign_on_share, 0.7 * others, 0.3 * others


def _days_off(days: int, draw: random.Random) -> set[int]:
    """Draw days off: in four weeks one person in four is away for 3 to 11 days, and one day in a hundred a person is ill."""
    away = {day for day in range(days) if draw.random() < 0.01}
    for first in range(0, days, 28):
        if draw.random() < 0.25:
            start = first + draw.randrange(28)
            away.update(range(start, start + draw.randrange(3, 12)))
    return away


def _make_machine(organisation: Organisation, number: int, draw: random.Random, scale: float) -> Machine:
    ci_weight = organisation.parameters.ci_weight
    weights = [mix * (ci_weight if trade in CI_WORKLOADS else 1.0) for trade, mix in WORKLOAD_MIX.items()]
    workload = (
        draw.choices(list(WORKLOAD_MIX), weights)[0]
        if number >= len(WORKLOAD_MIX) or ci_weight != 1.0  # else the first machines take each workload once
        else list(WORKLOAD_MIX)[number * 5 % len(WORKLOAD_MIX)]
    )
    account = organisation.accounts[
        draw.choices(
            range(len(organisation.accounts)),
            [3, 2, *[1] * (len(organisation.accounts) - 2)][: len(organisation.accounts)],
        )[0]
    ]
    name = f"{account.pools['name'][number & 255]}-{workload.replace(' ', '-')}-{number}"
    return Machine(organisation, number, name, workload, account, scale)


def _make_service(organisation: Organisation, number: int) -> AwsService:
    routine, account = service_routine(number, len(organisation.accounts))
    # The default world stays as it was, byte for byte, so some of its services are the same principal.
    if organisation.parameters == DEFAULT_WORLD:
        routine = SERVICE_ROUTINES[number % len(SERVICE_ROUTINES)]
    return AwsService(organisation, number, routine, organisation.accounts[account])
