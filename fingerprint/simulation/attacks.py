"""Attack sessions: real attack records, moved in time and onto a simulated principal.

This module chooses victims, times and sizes; `attackers` chooses tools and networks, `attack_scripts` the calls. The attacks of a
strength take turns over kinds of victims (people with single sign-on, machine roles, users with keys), and their sizes are spread
evenly, so that four quiet attacks do not all have nine calls.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fingerprint.core.errors import FingerprintError
from fingerprint.simulation.api_calls import USUAL_SALTS, CallerSession, Calls
from fingerprint.simulation.attack_scripts import (
    AttackScript,
    DisguisedScript,
    bulk_script,
    disguised_script,
    plain_script,
    repeated_script,
)
from fingerprint.simulation.attackers import Attacker, Victim, mimic_session, steal_session
from fingerprint.simulation.job_tasks import USUAL_ACTIONS
from fingerprint.simulation.machines import Machine
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.people import Person
from fingerprint.simulation.staff import Staff

STRENGTHS = ("session", "quiet", "smash", "mimic")
# Additional strengths of some worlds
INSIDER, INTRUDER_MADE, ROBBED = "insider", "newcomer", "robbed"
SIZES = {  # calls
    "session": (20, 100),
    "quiet": (1, 10),
    "smash": (200, 600),
    "mimic": (3, 40),
    INSIDER: (150, 400),
    INTRUDER_MADE: (2, 320),
    ROBBED: (20, 100),
}
SPANS = {  # seconds, at most
    "session": 3000.0,
    "quiet": 1500.0,
    "smash": 5400.0,
    "mimic": 3600.0,
    INSIDER: 5400.0,
    INTRUDER_MADE: 5400.0,
    ROBBED: 3000.0,
}
# Kinds of a strength's victims, in turn: people, machine roles, users with keys
VICTIM_KIND_ORDER = (
    0, 1, 2, 0, 1, 0, 0, 1, 2, 0,
)  # fmt: skip
CONSOLE_SHARE = 0.4  # of thieves of a person's session who use the console; a program makes hundreds of calls
# Share of discovery that thieves leave out in a world in which only they use their actions.
LESS_DISCOVERY = 0.5
COLLEAGUES_NETWORK_SHARE = 0.5  # of users made by an intruder who call from a colleague's network
ROBBED_NUMBERS = 100_000  # first number of people hired to be robbed, above all other numbers
GOLDEN_RATIO_CONJUGATE = (
    0.6180339887  # steps of this length spread any number of sizes evenly (Weyl's sequence)
)


@dataclass(frozen=True, slots=True)
class Attack:
    """One attacker, one victim, one session. `start`: seconds since midnight UTC of `day`."""

    name: str
    strength: str
    victim: Victim
    day: int
    start: float
    session: CallerSession
    script: AttackScript

    def calls(self) -> Calls:
        """Return the calls of the attack; they have one session, number 0."""
        times = [self.start + offset for offset in self.script.offsets]
        return Calls.from_columns(times, self.script.forms, 0, self.script.salts)


def plan_attacks(
    organisation: Organisation, staff: Staff, count: int, strengths: tuple[str, ...] = STRENGTHS
) -> list[Attack]:
    """Return `count` attacks in the last quarter of the days, at most one a victim; strengths take turns.

    Worlds with insiders, users made by an intruder or robbed newcomers have these in addition, as a share of `count`.
    Raise FingerprintError for an unknown strength, or more attacks than there are people and machine roles.
    """
    unknown = set(strengths) - set(STRENGTHS)
    if unknown or not strengths:
        raise FingerprintError(
            f"strengths are {', '.join(STRENGTHS)}: {', '.join(sorted(unknown)) or 'none'} is not one of them"
        )
    kinds = _victims_by_kind(staff, organisation.random_for("attacks"))
    insiders = round(count * organisation.parameters.insiders)
    if count + insiders > (there := sum(map(len, kinds))):
        raise FingerprintError(
            f"{count + insiders} attacks need as many victims, there are {there}: give more principals"
        )
    found = []
    for i in range(count):
        turn, which = divmod(i, len(strengths))
        victim = _next_victim(kinds, VICTIM_KIND_ORDER[(turn + which % 3) % len(VICTIM_KIND_ORDER)])
        found.append(_make_attack(organisation, staff, i, turn, strengths[which], victim))
    for turn in range(insiders):
        victim = _next_victim(kinds, 0)
        found.append(_make_attack(organisation, staff, count + turn, turn, INSIDER, victim))
    first = count + insiders
    for turn in range(round(count * organisation.parameters.intruder_made_users)):
        user = _intruder_made_user(organisation, staff, first + turn)
        found.append(_make_attack(organisation, staff, first + turn, turn, INTRUDER_MADE, user))
    first = count + insiders + round(count * organisation.parameters.intruder_made_users)
    for turn in range(round(count * organisation.parameters.robbed_newcomers)):
        newcomer = _hire(organisation, staff, first + turn)
        found.append(_make_attack(organisation, staff, first + turn, turn, ROBBED, newcomer))
    return found


def _hire(organisation: Organisation, staff: Staff, i: int) -> Person:
    """Return a person, similar to a colleague, who joins on a working day of the last quarter and is robbed that day."""
    draw = organisation.random_for("robbed newcomer", i)
    near = draw.choice([person for person in staff.people if person.kind in ("sso", "saml", "user")])
    name = f"{draw.choice(('alex', 'kim', 'robin', 'sam'))}.new{i}"
    number = len(staff.people) + ROBBED_NUMBERS
    hired = Person(
        organisation,
        number,
        name,
        near.job,
        near.location,
        near.account,
        near.kind,
        near.permission,
        near.rate,
    )
    hired.first_day = _attack_day(organisation, hired, draw)
    hired.days_off.clear()
    staff.people.append(hired)
    return hired


def _intruder_made_user(organisation: Organisation, staff: Staff, i: int) -> Person:
    """Return a user with keys in a colleague's account that does not belong to the staff: all of its calls are the attack."""
    draw = organisation.random_for("intruder-made user", i)
    near = draw.choice(staff.people)
    name = f"svc-{near.account.pools['name'][draw.randrange(256)]}-{i}"
    return Person(organisation, len(staff.people) + i, name, near.job, near.location, near.account, "user")


def _victims_by_kind(staff: Staff, draw: random.Random) -> list[list[Victim]]:
    """Return the possible victims by kind, in the order of drawing from the end."""
    there = [person for person in staff.people if person.first_day == 0]
    kinds: list[list[Victim]] = [
        [person for person in there if person.kind in ("sso", "saml")],
        list(staff.machines),
        [person for person in there if person.kind == "user"],
    ]
    for kind in kinds:
        draw.shuffle(kind)
    return kinds


def _next_victim(kinds: list[list[Victim]], kind: int) -> Victim:
    """One of the wanted kind; once there are no more, of the kind with the most left."""
    return (kinds[kind] or max(kinds, key=len)).pop()


def _make_attack(
    organisation: Organisation, staff: Staff, i: int, turn: int, strength: str, victim: Victim
) -> Attack:
    draw = organisation.random_for("attack", i, strength)
    day, size = _attack_day(organisation, victim, draw), _script_size(organisation, strength, turn)
    if strength == ROBBED and isinstance(victim, Person):
        day = victim.first_day
    if strength in ("mimic", INSIDER):
        attacker = mimic_session(victim, day, draw)
        write = _disguise(organisation, i, strength)
        script = write(organisation.library, attacker, size, SPANS[strength], draw)
    else:
        own = _own_traits(organisation, i, strength)
        attacker = _make_attacker(staff, victim, day, strength, draw, own)
        discovery = 1.0 - LESS_DISCOVERY * organisation.parameters.attack_only_actions
        usual = _usual_actions(organisation, i)
        script = plain_script(organisation.library, strength, size, SPANS[strength], draw, discovery, usual)
        if "resources" in own:
            script = replace(script, salts=tuple(salt % USUAL_SALTS for salt in script.salts))
    return Attack(
        f"attack-{i:04}-{strength}", strength, victim, day, attacker.start, attacker.session, script
    )


def _disguise(organisation: Organisation, i: int, strength: str) -> DisguisedScript:
    """Return the function that writes the script of attack number `i`, which uses its victim's own session."""
    if strength == INSIDER:
        return bulk_script
    repeats = organisation.random_for("mimic", i).random() < organisation.parameters.repeating_mimics
    return repeated_script if repeats else disguised_script


def _usual_actions(organisation: Organisation, i: int) -> frozenset[str]:
    """Return the actions of usual work if the thief of attack number `i` avoids them; most thieves do not."""
    share = organisation.parameters.rare_techniques
    if not share or organisation.random_for("rare techniques", i).random() >= share:
        return frozenset()
    return USUAL_ACTIONS


def _own_traits(organisation: Organisation, i: int, strength: str) -> frozenset[str]:
    """Draw the victim's traits in attack number `i`: "tool", "network", "hours", "resources"; or "colleague's network"."""
    world, draw = organisation.parameters, organisation.random_for("own traits", i)
    if strength == INTRUDER_MADE:  # a new user has no traits of its own; it can only resemble colleagues
        return frozenset({"colleague's network"} if draw.random() < COLLEAGUES_NETWORK_SHARE else ())
    shares = {
        "tool": world.own_tool_attacks,
        "network": world.own_network_attacks,
        "hours": world.own_hours_attacks,
        "resources": world.own_resource_attacks,
    }
    return frozenset(trait for trait, share in shares.items() if draw.random() < share)


def _make_attacker(
    staff: Staff, victim: Victim, day: int, strength: str, draw: random.Random, own: frozenset[str]
) -> Attacker:
    """Return an attacker. Quiet ones hide in the victim's working hours; others come at any time unless `own` has "hours"."""
    start = draw.uniform(0.5, 22) * 3600
    if strength in ("quiet", ROBBED) or "hours" in own:
        start = max(60.0, (draw.uniform(10, 16) - victim.utc_offset) * 3600)
    by_console = 0.0 if strength == "smash" else CONSOLE_SHARE
    return steal_session(victim, _colleague(staff, victim, draw), day, start, by_console, draw, own)


def _colleague(staff: Staff, victim: Victim, draw: random.Random) -> Person:
    """Draw another person, of the victim's place if there is one."""
    others = [person for person in staff.people if person is not victim]
    near: Sequence[Person] = [person for person in others if person.utc_offset == victim.utc_offset]
    return draw.choice(near or others or staff.people)


def _attack_day(organisation: Organisation, victim: Victim, draw: random.Random) -> int:
    first = organisation.days - max(1, organisation.days // 4)
    days = list(range(first, organisation.days))
    working = [day for day in days if isinstance(victim, Machine) or victim.activity_share(day) == 1.0]
    return draw.choice(working or days)


def _script_size(organisation: Organisation, strength: str, turn: int) -> int:
    """Return the number of calls of attack number `turn` of a strength."""
    least, most = SIZES[strength]
    share = (organisation.random_for("sizes", strength).random() + turn * GOLDEN_RATIO_CONJUGATE) % 1.0
    if strength == INTRUDER_MADE:
        return round(least * (most / least) ** share)
    return least + int(share * (most + 1 - least))
