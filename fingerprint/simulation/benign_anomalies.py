"""Benign anomalies: harmless events that look odd, on which a detector should not alert, in the last week of the days.

- Anomalies of single principals affect one in 150 of them in that week (as many as a firm hires that renews half of its people
  in a year).
- Anomalies of all principals or of one kind (a holiday, an upgrade, an outage, a release, a feature) occur once.
- In the weeks before, except the first days, each occurs with the probability `WorldParameters.eventful_history`.

Example:
    >>> sorted(ANOMALY_PLANNERS)[:3]
    ['holiday', 'migration_burst', 'month_end']
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fingerprint.core.errors import FingerprintError
from fingerprint.simulation.api_calls import Calls
from fingerprint.simulation.api_catalogue import TemplateLibrary
from fingerprint.simulation.job_tasks import TASKS, Routine, parse_actions
from fingerprint.simulation.machines import Machine
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.people import Habit, Person
from fingerprint.simulation.staff import Staff

WEEK_DAYS = 7
FIRST_DAYS = 5  # without anomalies, because principals have no habits yet
OUTAGE_HOURS = 1.5
# Seconds after which a failed call is tried again: five attempts, as in the SDKs
RETRY_SECONDS = (1.0, 3.0, 8.0, 20.0)
UNUSUAL_ACTIONS = parse_actions(
    "glue:StartJobRun GetJobRun athena:StartQueryExecution GetQueryExecution GetQueryResults ce:GetCostAndUsage "
    "rds:CreateDBSnapshot DescribeDBSnapshots StartExportTask"
)


@dataclass(frozen=True, slots=True)
class BenignAnomaly:
    """A harmless event, and the principals that it affects.

    `principal` (an ARN) and `key` (as the product names it) are "*" for all. Days are numbers, `until` included.
    """

    name: str
    principal: str
    key: str
    since: int
    until: int
    description: str
    service: str = ""  # of an outage
    hours: tuple[float, float] = (0.0, 24.0)  # of an outage, UTC

    @classmethod
    def for_principal(
        cls, name: str, who: Person | Machine, since: int, until: int, what: str
    ) -> BenignAnomaly:
        """Return an anomaly of one principal."""
        return cls(name, who.key, who.principal_key, since, until, what)

    def to_label(self, organisation: Organisation) -> dict[str, str]:
        """Return its line of labels.surprises.jsonl."""
        first, last = organisation.date(self.since).isoformat(), organisation.date(self.until).isoformat()
        return {
            "surprise": self.name,
            "principal": self.principal,
            "key": self.key,
            "from": first,
            "to": last,
            "what": self.description,
        }


def plan_anomalies(organisation: Organisation, staff: Staff, names: Iterable[str]) -> list[BenignAnomaly]:
    """Make the anomalies called `names` happen to `staff`, and return them. There are none in less than two weeks.

    Raise FingerprintError for an unknown name.
    """
    selected = list(names)
    if unknown := set(selected) - set(ANOMALY_PLANNERS):
        raise FingerprintError(
            f"unknown surprise {sorted(unknown)[0]!r}: known are {', '.join(ANOMALY_PLANNERS)}"
        )
    if organisation.days < 2 * WEEK_DAYS:
        return []
    last_week = organisation.days - WEEK_DAYS
    found: list[BenignAnomaly] = []
    for week in range(last_week % WEEK_DAYS, organisation.days, WEEK_DAYS):
        if week < FIRST_DAYS:
            continue
        for name in (name for name in ANOMALY_PLANNERS if name in selected):
            draw = organisation.random_for("surprises", name, *([week] if week < last_week else []))
            if week == last_week or draw.random() < organisation.parameters.eventful_history:
                found += _plan_week(organisation, staff, name, week, draw)
    return found


def _plan_week(
    organisation: Organisation, staff: Staff, name: str, week: int, draw: random.Random
) -> list[BenignAnomaly]:
    """Plan one kind in the week that begins on day number `week`."""
    count = 1 if name in ORGANISATION_WIDE_ANOMALIES else max(1, len(staff.all_principals) // 150)
    found = []
    for _ in range(count):
        day = _working_day(organisation, week + draw.randrange(WEEK_DAYS - 2))
        found += ANOMALY_PLANNERS[name](organisation, staff, day, draw)
    return found


def apply_outages(calls: Calls, outages: Sequence[BenignAnomaly], library: TemplateLibrary) -> Calls:
    """Return the day's calls; calls during an outage of their service fail and are tried again in vain."""
    for outage in outages:
        hit = np.array([form.service == outage.service for form in library.templates], bool)[calls.form]
        hit &= (calls.time >= outage.hours[0] * 3600) & (calls.time < outage.hours[1] * 3600)
        rows = np.flatnonzero(hit)
        calls.form[rows] = [
            library.failed_template("unavailable", number) for number in calls.form[rows].tolist()
        ]
        again = calls.take(np.concatenate([np.arange(len(calls)), *[rows] * len(RETRY_SECONDS)]))
        again.time[len(calls) :] += np.repeat(RETRY_SECONDS, len(rows))
        calls = again
    return calls


def _working_day(organisation: Organisation, day: int) -> int:
    while organisation.date(day).weekday() > 4:
        day -= 1
    return day


def _last_new_day(organisation: Organisation, day: int) -> int:
    """Return the last day on which a lasting change of `day` counts as new: two weeks later it is usual."""
    return min(organisation.days, day + 2 * WEEK_DAYS) - 1


# --- each of them: to whom, what changes ----------------------------------------------------------


def _pick_person(people: Sequence[Person], draw: random.Random, day: int) -> Person | None:
    """Draw a person who works that day and has no other anomaly."""
    free = [
        person
        for person in people
        if person.activity_share(day) == 1.0
        and not person.first_day
        and not person.job_change
        and not person.extra_runs
    ]
    return draw.choice(free) if free else None


def _plan_new_hire(
    organisation: Organisation, staff: Staff, day: int, draw: random.Random
) -> list[BenignAnomaly]:
    """Hire a person with single sign-on or an IAM user; with SAML they would have no principal of their own."""
    person = _pick_person([p for p in staff.people if p.kind in ("sso", "user")], draw, day)
    if not person:
        return []
    person.first_day = day
    # a new hire does something on the first day
    person.extra_runs[day] = [(draw.uniform(33_000, 37_000), person.habits[0])]
    what = f"{person.name}'s first day as {person.job}"
    return [BenignAnomaly.for_principal("new_hire", person, day, _last_new_day(organisation, day), what)]


def _plan_role_change(
    organisation: Organisation, staff: Staff, day: int, draw: random.Random
) -> list[BenignAnomaly]:
    person = _pick_person(staff.people, draw, day)
    if not person:
        return []
    job = draw.choice([job for job in TASKS if job != person.job])
    person.job_change = (day, job)
    what = f"{person.name}, {person.job} so far, works as {job}"
    return [BenignAnomaly.for_principal("role_change", person, day, _last_new_day(organisation, day), what)]


def _plan_return(
    organisation: Organisation, staff: Staff, day: int, draw: random.Random
) -> list[BenignAnomaly]:
    person = _pick_person(staff.people, draw, day)
    if not person:
        return []
    first = max(3, day - 14)
    person.days_off.update(range(first, day))
    what = f"{person.name} is back after {day - first} days"
    return [BenignAnomaly.for_principal("return_from_vacation", person, day, day, what)]


def _plan_holiday(
    organisation: Organisation, staff: Staff, day: int, draw: random.Random
) -> list[BenignAnomaly]:
    place = draw.choice([person.location for person in staff.people])
    away = [person for person in staff.people if person.location == place]
    for person in away:
        person.days_off.add(day)
    return [
        BenignAnomaly.for_principal("holiday", person, day, day, f"a local holiday in {place.name}")
        for person in away
    ]


def _plan_migration(
    organisation: Organisation, staff: Staff, day: int, draw: random.Random
) -> list[BenignAnomaly]:
    person = _pick_person(
        [p for p in staff.people if p.job in ("sre", "developer", "data scientist")], draw, day
    )
    if not person:
        return []
    moves = parse_actions(
        "s3:ListBuckets GetBucketLocation dynamodb:DescribeTable CreateBackup rds:CreateDBSnapshot"
    )
    _add_burst(person, day, draw.uniform(32_000, 50_000), 8, 120, moves)
    return [
        BenignAnomaly.for_principal(
            "migration_burst", person, day, day, f"{person.name} moves tables and buckets, eight runs"
        )
    ]


def _plan_month_end(
    organisation: Organisation, staff: Staff, day: int, draw: random.Random
) -> list[BenignAnomaly]:
    """Let a person close the month late in the day, and a machine run a job that it never ran before."""
    found = []
    if person := _pick_person(
        [p for p in staff.people if p.job in ("analyst", "manager", "data scientist")], draw, day
    ):
        _add_burst(person, day, 64_000, 4, 90, UNUSUAL_ACTIONS[2:6])
        found.append(
            BenignAnomaly.for_principal(
                "month_end", person, day, day, f"{person.name} closes the month, late"
            )
        )
    if machines := [
        m for m in staff.machines if m.workload in ("etl", "nightly job", "backup") and not m.one_off_routines
    ]:
        machine = draw.choice(machines)
        machine.one_off_routines[day] = [Routine("daily", 1, UNUSUAL_ACTIONS, size=draw.randrange(15, 40))]
        found.append(
            BenignAnomaly.for_principal(
                "month_end", machine, day, day, "a job that runs at the end of the month"
            )
        )
    return found


def _add_burst(person: Person, day: int, start: float, runs: int, size: int, what: tuple[str, ...]) -> None:
    library = person.organisation.library
    habit = Habit(
        "sdk", size // 2, size, np.array([library.templates_of(action)[0] for action in what], np.int32)
    )
    person.extra_runs[day] = [(start + 700.0 * run, habit) for run in range(runs)]


def _plan_tool_upgrade(
    organisation: Organisation, staff: Staff, day: int, draw: random.Random
) -> list[BenignAnomaly]:
    """Give seven of ten people tool versions that are new to the organisation, on that day or the next."""
    updated = [person for person in staff.people if draw.random() < 0.7]
    used = (level for person in staff.people for _, level in person.tool_rollouts)
    newest = 1 + max([3 + len(person.upgrades) for person in staff.people] + list(used))
    for person in updated:
        person.tool_rollouts.append((day + draw.randrange(2), newest))
    what = "new versions of the command line tools"
    return [BenignAnomaly.for_principal("tool_upgrade", person, day, day + 2, what) for person in updated]


def _plan_outage(
    organisation: Organisation, staff: Staff, day: int, draw: random.Random
) -> list[BenignAnomaly]:
    service, hour = draw.choice(("ec2", "kms", "ssm", "sts", "secretsmanager")), draw.uniform(8, 16)
    what = f"{service} is unavailable for {OUTAGE_HOURS:g} hours"
    return [BenignAnomaly("outage", "*", "*", day, day, what, service, (hour, hour + OUTAGE_HOURS))]


def _plan_release_day(
    organisation: Organisation, staff: Staff, day: int, draw: random.Random
) -> list[BenignAnomaly]:
    machines = [machine for machine in staff.machines if machine.workload in ("deployer", "terraform runner")]
    people = [person for person in staff.people if person.job in ("developer", "sre")]
    for machine in machines:
        machine.busy[day] = 4.0
    for person in people:
        person.busy[day] = 1.7
    busy: list[Machine | Person] = [*machines, *people]
    return [BenignAnomaly.for_principal("release_day", who, day, day, "a great release") for who in busy]


def _plan_new_feature(
    organisation: Organisation, staff: Staff, day: int, draw: random.Random
) -> list[BenignAnomaly]:
    machines = [
        m
        for m in staff.machines
        if m.workload in ("function", "instance", "web instance", "pod") and not m.added_routines
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
        machine.added_routines.append((day, Routine("random", 1800, parse_actions(calls))))
    last = _last_new_day(organisation, day)
    return [
        BenignAnomaly.for_principal("new_feature", machine, day, last, f"a new feature calls {calls}")
        for machine in chosen
    ]


def _plan_schedule_change(
    organisation: Organisation, staff: Staff, day: int, draw: random.Random
) -> list[BenignAnomaly]:
    machines: list[Machine] = [
        m for m in staff.machines if m.workload in ("nightly job", "backup", "etl") and not m.schedule_shift
    ]
    if not machines:
        return []
    machine = draw.choice(machines)
    machine.schedule_shift = (day, draw.choice((-3, 2, 5)) * 3600.0)
    what = "the daily job runs at another hour"
    return [BenignAnomaly.for_principal("new_schedule", machine, day, _last_new_day(organisation, day), what)]


AnomalyPlanner = Callable[[Organisation, Staff, int, random.Random], list[BenignAnomaly]]
ANOMALY_PLANNERS: dict[
    str, AnomalyPlanner
] = {  # in this order, so that a person is not hired on their holiday
    "holiday": _plan_holiday,
    "new_hire": _plan_new_hire,
    "role_change": _plan_role_change,
    "return_from_vacation": _plan_return,
    "migration_burst": _plan_migration,
    "tool_upgrade": _plan_tool_upgrade,
    "outage": _plan_outage,
    "release_day": _plan_release_day,
    "new_feature": _plan_new_feature,
    "month_end": _plan_month_end,
    "new_schedule": _plan_schedule_change,
}
ORGANISATION_WIDE_ANOMALIES = {"holiday", "tool_upgrade", "outage", "release_day", "new_feature"}
