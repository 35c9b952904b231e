"""Attackers: their sessions, tools, networks and times.

A thief uses a stolen instance credential, access key or single sign-on session, with a network and tools of their own; some of
these are the same as a colleague's. A mimic uses the victim's network and tools while the victim is at work.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

from fingerprint.simulation import user_agents
from fingerprint.simulation.api_calls import CallerSession
from fingerprint.simulation.job_tasks import Tool
from fingerprint.simulation.machines import Machine
from fingerprint.simulation.people import Habit, Person, pick_habit

Victim = Person | Machine
NOON = 46_800  # local seconds: from 13:00 on, a person is at the place of the afternoon


@dataclass(frozen=True, slots=True)
class Attacker:
    """A session in an attacker's hands, from second `start` of its day.

    `habits` are those of its owner, which a mimic repeats.
    """

    start: float
    session: CallerSession
    habits: tuple[Habit, ...] = ()


def steal_session(
    victim: Victim,
    colleague: Person,
    day: int,
    start: float,
    by_console: float,
    draw: random.Random,
    own: frozenset[str] = frozenset(),
) -> Attacker:
    """Return the victim's session of that day, begun before the attack, in the attacker's hands.

    A session of single sign-on is used at the console in a share `by_console` of cases. `own` names the victim's traits that the
    attacker has: "tool", "network", "resources"; with "colleague's network" the calls come from the colleague's network.
    """
    if isinstance(victim, Machine):
        stolen = victim.session(day, victim.session_at(day, start))
    else:
        by_hand = victim.kind != "user" and draw.random() < by_console
        tool: Tool = "console" if by_hand else "cli"
        if "tool" in own:
            tool = pick_habit(victim.habits_on(day), draw.random()).tool
        stolen = victim.session(tool, day, draw.randrange(2), start - draw.uniform(300, 3 * 3600))
    program = (
        user_agents.browser(draw, draw.randrange(2))
        if stolen.console
        else _attacker_user_agent(colleague, day, draw)
    )
    address = _attacker_address(victim, colleague, day, draw)
    theirs = replace(stolen, endpoint="", address=address, user_agent=program, salt=draw.randrange(200))
    if "tool" in own:
        theirs = replace(theirs, user_agent=stolen.user_agent)
    if "resources" in own:
        theirs = replace(theirs, salt=stolen.salt)
    if "network" in own:
        theirs = replace(theirs, endpoint=stolen.endpoint, address=stolen.address)
    if "colleague's network" in own:
        theirs = replace(theirs, address=colleague.address(day, draw.randrange(2)))
    return Attacker(start, theirs)


def mimic_session(victim: Victim, day: int, draw: random.Random) -> Attacker:
    """Return the victim's own session, begun at a time of that day at which the victim makes a call."""
    times = victim.simulate_day(day)[0].time
    start = draw.choice(times.tolist()) if len(times) else (13 - victim.utc_offset) % 24 * 3600
    if isinstance(victim, Machine):
        return Attacker(
            start, victim.session(day, victim.session_at(day, start)), _routine_habits(victim, day)
        )
    first, half = float(times.min()) if len(times) else start, start + victim.utc_offset * 3600 > NOON
    habits = victim.habits_on(day)
    tool = pick_habit(habits, draw.random()).tool
    session = victim.session(tool, day, int(half), max(first - 40, 0.0))
    return Attacker(start, session, tuple(habit for habit in habits if habit.tool == tool))


def _routine_habits(machine: Machine, day: int) -> tuple[Habit, ...]:
    """Return the machine's own routines as habits: the operations of a routine, each at most once."""
    own = [routine for _, routine in machine.routines(day) if not routine.call_path]
    forms = [np.unique(machine.templates(routine, day)) for routine in own]
    return tuple(Habit("sdk", 1, len(some), some) for some in forms)


def _attacker_address(victim: Victim, colleague: Person, day: int, draw: random.Random) -> str:
    """Draw an address: a rented server, a home in the victim's country, a machine inside AWS, or a colleague's network."""
    where = draw.choices(("cloud", "home", "aws", "colleague"), (45, 25, 15, 15))[0]
    if where == "colleague":
        return colleague.address(day, draw.randrange(2))
    if where == "home":
        return user_agents.household_address(draw, colleague.location.name)
    return user_agents.cloud_address(draw) if where == "cloud" else user_agents.aws_address(draw)


def _attacker_user_agent(colleague: Person, day: int, draw: random.Random) -> user_agents.UserAgent:
    """Draw a tool. One in four is exactly a colleague's, version included, because all install the same tools."""
    tools: tuple[Tool, ...] = ("cli", "cli", "sdk", "terraform")
    if draw.random() < 0.25:
        return colleague.user_agent(draw.choice(tools), day)
    level, system = draw.randrange(6), draw.choice((*user_agents.OPERATING_SYSTEMS, "linux#6.11.2-amd64"))
    return draw.choice(
        (
            user_agents.cli(system, level),
            user_agents.cli(system, level),
            user_agents.boto(system, level, draw.choice(("3.12.6", "3.10.12"))),
            user_agents.terraform(level),
            user_agents.go(level),
            user_agents.fixed_user_agent(f"Go-http-client/{1 + level % 2}.1"),
        )
    )
