"""Harmless things that look odd: what a detector should leave in peace, in the last week of the days.

What befalls single principals befalls one in 150 of them in that week (a firm that renews half of its people in a
year hires that many); what befalls all of a kind (a holiday, an upgrade, an outage, a release, a feature) comes once.

Example:
    >>> sorted(SURPRISES)[:3]
    ['holiday', 'migration_burst', 'month_end']
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fingerprint.core.alert import FingerprintError
from fingerprint.simulation.api_calls import Calls
from fingerprint.simulation.api_catalogue import Library
from fingerprint.simulation.job_tasks import TASKS, Routine, actions
from fingerprint.simulation.machines import Machine
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.people import Habit, Person
from fingerprint.simulation.staff import Staff

WEEK = 7
OUTAGE_HOURS = 1.5
AGAIN = (
    1.0,
    3.0,
    8.0,
    20.0,
)  # seconds after which a call that failed is tried again: five attempts, as SDKs have it
ODD_JOBS = actions(
    "glue:StartJobRun GetJobRun athena:StartQueryExecution GetQueryExecution GetQueryResults ce:GetCostAndUsage "
    "rds:CreateDBSnapshot DescribeDBSnapshots StartExportTask"
)


@dataclass(frozen=True, slots=True)
class Surprise:
    """What happens to whom; `principal` (an ARN) and `key` (as the product names it) are "*" for everybody. Days are
    numbers, `until` included.
    """

    name: str
    principal: str
    key: str
    since: int
    until: int
    what: str
    service: str = ""  # of an outage
    hours: tuple[float, float] = (0.0, 24.0)  # of an outage, UTC

    @classmethod
    def of(cls, name: str, who: Person | Machine, since: int, until: int, what: str) -> Surprise:
        return cls(name, who.key, who.principal, since, until, what)

    def row(self, organisation: Organisation) -> dict[str, str]:
        first, last = organisation.date(self.since).isoformat(), organisation.date(self.until).isoformat()
        return {
            "surprise": self.name,
            "principal": self.principal,
            "key": self.key,
            "from": first,
            "to": last,
            "what": self.what,
        }


def plan(organisation: Organisation, staff: Staff, names: Iterable[str]) -> list[Surprise]:
    """Makes the surprises called `names` happen to `staff`, and says what they are. None in less than two
    weeks.

    Raises FingerprintError for a name that nobody knows.
    """
    wanted = list(names)
    if unknown := set(wanted) - set(SURPRISES):
        raise FingerprintError(f"unknown surprise {sorted(unknown)[0]!r}: known are {', '.join(SURPRISES)}")
    if organisation.days < 2 * WEEK:
        return []
    many = max(1, len(staff.everybody) // 150)
    found: list[Surprise] = []
    for name in (name for name in SURPRISES if name in wanted):
        draw = organisation.draw("surprises", name)
        for _ in range(1 if name in ORGANISATION_WIDE else many):
            day = organisation.days - WEEK + draw.randrange(WEEK - 2)
            found += SURPRISES[name](organisation, staff, _working(organisation, day), draw)
    return found


def suffer(calls: Calls, outages: Sequence[Surprise], library: Library) -> Calls:
    """The day's calls with those that an outage hits failing, and tried again in vain."""
    for outage in outages:
        hit = np.array([form.service == outage.service for form in library.forms], bool)[calls.form]
        hit &= (calls.time >= outage.hours[0] * 3600) & (calls.time < outage.hours[1] * 3600)
        rows = np.flatnonzero(hit)
        calls.form[rows] = [library.failing("unavailable", number) for number in calls.form[rows].tolist()]
        again = calls.take(np.concatenate([np.arange(len(calls)), *[rows] * len(AGAIN)]))
        again.time[len(calls) :] += np.repeat(AGAIN, len(rows))
        calls = again
    return calls


def _working(organisation: Organisation, day: int) -> int:
    while organisation.date(day).weekday() > 4:
        day -= 1
    return day


# --- each of them: to whom, what changes ----------------------------------------------------------


def _someone(people: Sequence[Person], draw: random.Random, day: int) -> Person | None:
    """Somebody who works that day and whom no other surprise has met."""
    free = [
        person
        for person in people
        if person.works(day) == 1.0 and not person.first_day and not person.change and not person.extra
    ]
    return draw.choice(free) if free else None


def _new_hire(organisation: Organisation, staff: Staff, day: int, draw: random.Random) -> list[Surprise]:
    """Who comes by SAML has no principal of their own, and is not new to anybody."""
    person = _someone([p for p in staff.people if p.kind in ("sso", "user")], draw, day)
    if not person:
        return []
    person.first_day = day
    person.extra[day] = [(draw.uniform(33_000, 37_000), person.habits[0])]  # whoever is new does something
    what = f"{person.name}'s first day as {person.job}"
    return [Surprise.of("new_hire", person, day, organisation.days - 1, what)]


def _role_change(organisation: Organisation, staff: Staff, day: int, draw: random.Random) -> list[Surprise]:
    person = _someone(staff.people, draw, day)
    if not person:
        return []
    job = draw.choice([job for job in TASKS if job != person.job])
    person.change = (day, job)
    what = f"{person.name}, {person.job} so far, works as {job}"
    return [Surprise.of("role_change", person, day, organisation.days - 1, what)]


def _return(organisation: Organisation, staff: Staff, day: int, draw: random.Random) -> list[Surprise]:
    person = _someone(staff.people, draw, day)
    if not person:
        return []
    first = max(3, day - 14)
    person.absent.update(range(first, day))
    what = f"{person.name} is back after {day - first} days"
    return [Surprise.of("return_from_vacation", person, day, day, what)]


def _holiday(organisation: Organisation, staff: Staff, day: int, draw: random.Random) -> list[Surprise]:
    place = draw.choice([person.place for person in staff.people])
    away = [person for person in staff.people if person.place == place]
    for person in away:
        person.absent.add(day)
    return [Surprise.of("holiday", person, day, day, f"a local holiday in {place.name}") for person in away]


def _migration(organisation: Organisation, staff: Staff, day: int, draw: random.Random) -> list[Surprise]:
    person = _someone([p for p in staff.people if p.job in ("sre", "developer", "data scientist")], draw, day)
    if not person:
        return []
    moves = actions(
        "s3:ListBuckets GetBucketLocation dynamodb:DescribeTable CreateBackup rds:CreateDBSnapshot"
    )
    _burst(person, day, draw.uniform(32_000, 50_000), 8, 120, moves)
    return [
        Surprise.of(
            "migration_burst", person, day, day, f"{person.name} moves tables and buckets, eight runs"
        )
    ]


def _month_end(organisation: Organisation, staff: Staff, day: int, draw: random.Random) -> list[Surprise]:
    """A person closes the month, late; a machine runs a job that it ran never before."""
    found = []
    if person := _someone(
        [p for p in staff.people if p.job in ("analyst", "manager", "data scientist")], draw, day
    ):
        _burst(person, day, 64_000, 4, 90, ODD_JOBS[2:6])
        found.append(Surprise.of("month_end", person, day, day, f"{person.name} closes the month, late"))
    if machines := [m for m in staff.machines if m.trade in ("etl", "nightly job", "backup") and not m.once]:
        machine = draw.choice(machines)
        machine.once[day] = [Routine("daily", 1, ODD_JOBS, size=draw.randrange(15, 40))]
        found.append(Surprise.of("month_end", machine, day, day, "a job that runs at the end of the month"))
    return found


def _burst(person: Person, day: int, start: float, runs: int, size: int, what: tuple[str, ...]) -> None:
    library = person.organisation.library
    habit = Habit("sdk", size // 2, size, np.array([library.of(action)[0] for action in what], np.int32))
    person.extra[day] = [(start + 700.0 * run, habit) for run in range(runs)]


def _upgrade(organisation: Organisation, staff: Staff, day: int, draw: random.Random) -> list[Surprise]:
    """Seven of ten people get versions that nobody had, on the day or the one after."""
    updated = [person for person in staff.people if draw.random() < 0.7]
    newest = 4 + max(len(person.upgrades) for person in staff.people)
    for person in updated:
        person.rollout = (day + draw.randrange(2), newest)
    what = "new versions of the command line tools"
    return [Surprise.of("tool_upgrade", person, day, day + 2, what) for person in updated]


def _outage(organisation: Organisation, staff: Staff, day: int, draw: random.Random) -> list[Surprise]:
    service, hour = draw.choice(("ec2", "kms", "ssm", "sts", "secretsmanager")), draw.uniform(8, 16)
    what = f"{service} is unavailable for {OUTAGE_HOURS:g} hours"
    return [Surprise("outage", "*", "*", day, day, what, service, (hour, hour + OUTAGE_HOURS))]


def _release(organisation: Organisation, staff: Staff, day: int, draw: random.Random) -> list[Surprise]:
    machines = [machine for machine in staff.machines if machine.trade in ("deployer", "terraform runner")]
    people = [person for person in staff.people if person.job in ("developer", "sre")]
    for machine in machines:
        machine.busy[day] = 4.0
    for person in people:
        person.busy[day] = 1.7
    busy: list[Machine | Person] = [*machines, *people]
    return [Surprise.of("release_day", who, day, day, "a great release") for who in busy]


def _feature(organisation: Organisation, staff: Staff, day: int, draw: random.Random) -> list[Surprise]:
    machines = [
        m
        for m in staff.machines
        if m.trade in ("function", "instance", "web instance", "pod") and not m.changes
    ]
    if not machines:
        return []
    chosen = draw.sample(machines, k=max(1, len(machines) // 4))
    calls = draw.choice(
        (
            "sqs:ListQueues GetQueueAttributes",
            "events:ListRules PutRule",
            "dynamodb:DescribeTable UpdateTable",
        )
    )
    for machine in chosen:
        machine.changes.append((day, Routine("random", 1800, actions(calls))))
    last = organisation.days - 1
    return [
        Surprise.of("new_feature", machine, day, last, f"a new feature calls {calls}") for machine in chosen
    ]


def _schedule(organisation: Organisation, staff: Staff, day: int, draw: random.Random) -> list[Surprise]:
    machines: list[Machine] = [
        m for m in staff.machines if m.trade in ("nightly job", "backup", "etl") and not m.moved
    ]
    if not machines:
        return []
    machine = draw.choice(machines)
    machine.moved = (day, draw.choice((-3, 2, 5)) * 3600.0)
    what = "the daily job runs at another hour"
    return [Surprise.of("new_schedule", machine, day, organisation.days - 1, what)]


Maker = Callable[[Organisation, Staff, int, random.Random], list[Surprise]]
SURPRISES: dict[str, Maker] = {  # in this order: who has a holiday is not hired on it
    "holiday": _holiday,
    "new_hire": _new_hire,
    "role_change": _role_change,
    "return_from_vacation": _return,
    "migration_burst": _migration,
    "tool_upgrade": _upgrade,
    "outage": _outage,
    "release_day": _release,
    "new_feature": _feature,
    "month_end": _month_end,
    "new_schedule": _schedule,
}
ORGANISATION_WIDE = {"holiday", "tool_upgrade", "outage", "release_day", "new_feature"}
