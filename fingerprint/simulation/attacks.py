"""Attack sessions: real attack records, moved in time and onto a simulated principal.

The records are those of Stratus Red Team's detonations (data/real/invictus_stratus, MIT). Each attack strings
some of its techniques together, in their own order and pace, after a look around as intruders have it:
composed here, of reads everybody makes too. A stolen instance credential, an access key or a single sign-on
session is used from the attacker's own network with the attacker's tools; a mimic uses the victim's.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fingerprint.domain import FingerprintError
from fingerprint.simulation import programs
from fingerprint.simulation.calls import Calls, Session
from fingerprint.simulation.catalogue import Library
from fingerprint.simulation.machines import Machine
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.people import Person
from fingerprint.simulation.practice import Tool, actions
from fingerprint.simulation.staff import Staff
from fingerprint.simulation.tail import LOGIN

STRENGTHS = ("session", "quiet", "smash", "mimic")
SIZES = {"session": (20, 100), "quiet": (1, 10), "smash": (200, 600), "mimic": (3, 40)}  # calls
SPANS = {"session": 3000.0, "quiet": 1500.0, "smash": 5400.0, "mimic": 3600.0}  # seconds, at most
DISCOVERY = "discovery (composed)"
Step = tuple[float, int, int, str]  # seconds after the one before, form, salt, technique

_LOOK = actions(
    "sts:GetCallerIdentity iam:ListUsers ListRoles GetUser ListAttachedUserPolicies ListAccessKeys "
    "GetAccountAuthorizationDetails GetAccountSummary s3:ListBuckets GetBucketAcl GetBucketPolicy "
    "ec2:DescribeInstances DescribeRegions DescribeVpcs DescribeSecurityGroups DescribeSnapshots "
    "ec2:DescribeImages secretsmanager:ListSecrets ssm:DescribeParameters DescribeInstanceInformation "
    "kms:ListKeys lambda:ListFunctions20150331 rds:DescribeDBInstances DescribeDBSnapshots "
    "cloudtrail:DescribeTrails GetTrailStatus organizations:DescribeOrganization guardduty:ListDetectors "
    "ses:GetSendQuota ce:GetCostAndUsage"
)


@dataclass(frozen=True, slots=True)
class Attack:
    """One intruder, one victim, one session. `start`: seconds since midnight UTC of `day`."""

    name: str
    strength: str
    victim: Person | Machine
    day: int
    start: float
    session: Session
    offsets: tuple[float, ...]
    forms: tuple[int, ...]
    salts: tuple[int, ...]  # equal where the real records name the same thing
    techniques: tuple[str, ...]

    def calls(self) -> Calls:
        salt = (
            sum(map(ord, self.name)) % 200
        )  # one salt: what was one instance in the real records is one here
        return Calls.of([self.start + offset for offset in self.offsets], self.forms, 0, salt)


def plan(
    organisation: Organisation, staff: Staff, count: int, strengths: tuple[str, ...] = STRENGTHS
) -> list[Attack]:
    """`count` attacks in the last quarter of the days, at most one a victim; strengths take turns.

    Raises FingerprintError for an unknown strength, or more attacks than there are people and machine roles.
    """
    unknown = set(strengths) - set(STRENGTHS)
    if unknown or not strengths:
        raise FingerprintError(
            f"strengths are {', '.join(STRENGTHS)}: {', '.join(sorted(unknown)) or 'none'} is not one of them"
        )
    draw = organisation.draw("attacks")
    victims = _victims(staff, draw)
    if count > len(victims):
        raise FingerprintError(
            f"{count} attacks need as many victims, there are {len(victims)}: give more principals"
        )
    return [_attack(organisation, i, victims[i], strengths[i % len(strengths)], draw) for i in range(count)]


def _victims(staff: Staff, draw: random.Random) -> list[Person | Machine]:
    """Single sign-on people, users with keys and machine roles, so mixed that each strength meets each
    kind.
    """
    kinds: list[list[Person | Machine]] = [
        [person for person in staff.people if person.kind in ("sso", "saml") and person.first_day == 0],
        list(staff.machines),
        [person for person in staff.people if person.kind == "user" and person.first_day == 0],
    ]
    for kind in kinds:
        draw.shuffle(kind)
    found: list[Person | Machine] = []
    while any(kinds):
        some = draw.choices(kinds, [0.5 * bool(kinds[0]), 0.3 * bool(kinds[1]), 0.2 * bool(kinds[2])])[0]
        found.append(some.pop())
    return found


def _attack(
    organisation: Organisation, i: int, victim: Person | Machine, strength: str, draw: random.Random
) -> Attack:
    day, start = _day(organisation, victim, draw), _start(victim, strength, draw)
    offsets, forms, salts, techniques = script(organisation.library, strength, draw)
    session = _session(victim, day, start, strength, draw)
    name = f"attack-{i:04}-{strength}"
    return Attack(name, strength, victim, day, start, session, offsets, forms, salts, techniques)


def _day(organisation: Organisation, victim: Person | Machine, draw: random.Random) -> int:
    first = organisation.days - max(1, organisation.days // 4)
    days = list(range(first, organisation.days))
    working = [day for day in days if not isinstance(victim, Person) or victim.works(day) == 1.0]
    return draw.choice(working or days)


def _start(victim: Person | Machine, strength: str, draw: random.Random) -> float:
    """Quiet ones and mimics hide in the victim's working hours; the others come when they like."""
    if strength in ("quiet", "mimic"):
        offset = victim.place.utc_offset if isinstance(victim, Person) else victim.organisation_offset
        return max(60.0, (draw.uniform(10, 16) - offset) * 3600)
    return draw.uniform(0.5, 22) * 3600


def _session(victim: Person | Machine, day: int, start: float, strength: str, draw: random.Random) -> Session:
    """The victim's session of that day, begun before the attack, in the attacker's hands."""
    if isinstance(victim, Machine):
        stolen = victim.session(day, victim.session_at(day, start))
    else:
        tool: Tool = draw.choices(("cli", "console"), (0.6, 0.4))[0] if victim.kind != "user" else "cli"
        tool = draw.choice(victim.habits).tool if strength == "mimic" else tool
        stolen = victim.session(tool, day, draw.randrange(2), start - draw.uniform(300, 3 * 3600))
    if strength == "mimic":
        return stolen
    program = programs.browser(draw) if stolen.console else _tool(draw)
    return replace(stolen, endpoint="", address=_network(draw), program=program, salt=draw.randrange(200))


def _network(draw: random.Random) -> str:
    return programs.cloud(draw) if draw.random() < 0.7 else programs.home(draw)


def _tool(draw: random.Random) -> programs.Program:
    return draw.choice(
        (
            programs.cli("linux#6.11.2-amd64", draw.randrange(6)),
            programs.boto("linux#6.8.11-amd64", draw.randrange(6), "3.12.6"),
            programs.boto("linux#5.15.0-91-generic", draw.randrange(6), "3.10.12"),
            programs.go(draw.randrange(6)),
        )
    )


# --- what is called -------------------------------------------------------------------------------


def script(
    library: Library, strength: str, draw: random.Random
) -> tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
    """Seconds, forms, salts, techniques of one attack: a look around, then techniques until long enough."""
    size = draw.randint(*SIZES[strength])
    steps = _look(library, size, strength, draw)
    names = [name for name in library.attack if name != LOGIN]
    draw.shuffle(names)
    for name in names * 4:
        if len(steps) >= size:
            break
        steps += _technique(library, name, size - len(steps), strength, draw)
    gaps, forms, salts, techniques = zip(*steps, strict=True)
    times = np.cumsum(gaps)
    times *= min(1.0, SPANS[strength] / max(times[-1], 1.0))
    return tuple(times.tolist()), forms, salts, techniques


def _look(library: Library, size: int, strength: str, draw: random.Random) -> list[Step]:
    share = {"quiet": 0.3, "mimic": 0.2}.get(strength, draw.uniform(0.25, 0.5))
    known = [action for action in _LOOK if library.knows(action)]
    count = min(round(size * share), len(known) * 2)
    wanted = [known[0], *draw.choices(known, k=count - 1)] if count else []
    return [
        (draw.expovariate(1 / 8), draw.choice(library.of(action)), draw.randrange(8), DISCOVERY)
        for action in wanted
    ]


def _technique(library: Library, name: str, room: int, strength: str, draw: random.Random) -> list[Step]:
    """The technique's real calls at their real pace; where there is no room for all, the last ones, which
    do the harm.
    """
    calls = library.attack[name]
    few = 4 if strength in ("quiet", "mimic") else 40
    calls = calls[-min(room, few, len(calls)) :]
    gaps = [
        30 + draw.expovariate(1 / 60),
        *(after - before for (before, *_), (after, *_) in pairwise(calls)),
    ]
    return [(gap + draw.random(), form, salt, name) for gap, (_, form, salt) in zip(gaps, calls, strict=True)]
