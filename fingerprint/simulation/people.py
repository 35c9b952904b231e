"""The days of a person: habits of the job and personal ones, hours, holidays, networks, tools and their upgrades.

People log in through Identity Center (a role `AWSReservedSSO_...` with the e-mail address as session name) or SAML, or are IAM
users with long-term keys. One is the root user, who is seldom seen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fingerprint.simulation import user_agents, user_identity
from fingerprint.simulation.api_calls import (
    USUAL_SALTS,
    CallerSession,
    Calls,
    concatenate_calls,
    unusual_salts,
)
from fingerprint.simulation.calendar import Location, is_working_day, to_utc, working_times
from fingerprint.simulation.identifiers import IdentifierPools, key_id
from fingerprint.simulation.job_tasks import SERVICE_POPULARITY, TASKS, Task, Tool
from fingerprint.simulation.long_tail import LOGIN_TECHNIQUE, PEOPLE_RATES, VariationRates, vary_calls
from fingerprint.simulation.organisation import Account, Organisation
from fingerprint.simulation.user_agents import UserAgent

# Mean seconds between calls
SECONDS_BETWEEN_CALLS: dict[Tool, float] = {"console": 0.4, "cli": 20.0, "terraform": 0.35, "sdk": 3.0}
TOOL_NUMBERS = {tool: number for number, tool in enumerate(SECONDS_BETWEEN_CALLS)}
READS = ("List", "Describe", "Get")  # prefixes of reading operations
BROWSER_UPDATE_DAYS = 28  # days between two updates of a browser, each browser on a day of its own
NOVELTY_SPREAD = 0.7  # standard deviation, over people, of the logarithm of the rate of new operations
BURST_ACTIONS = (5, 40)  # actions of a burst of novelty, evenly by their logarithm
FOLLOW_UP_DAYS, FOLLOW_UP_SHARE = 4, 0.5  # days on which a burst may go on, and the probability on each
MOST_TRIES = 3  # most calls of one action in a burst
LONGEST_STRETCH = 25.0  # largest ratio of a run's length to the usual one


@dataclass(frozen=True, slots=True)
class Habit:
    """A person's way of doing a task: always the same templates, the first most often."""

    tool: Tool
    min_calls: int
    max_calls: int
    templates: NDArray[np.int32]

    def simulate(
        self, rng: np.random.Generator, stretch: float = 1.0
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Return one run, `stretch` times as long as usual: seconds from its start, templates."""
        size = max(1, round(int(rng.integers(self.min_calls, self.max_calls + 1)) * stretch))
        if self.tool == "console":  # a page asks for the same things in the same order, some of it cached
            forms = np.resize(self.templates, size)
            forms = forms[rng.random(size) < 0.85]
        else:
            # Zipf
            rank = np.minimum((len(self.templates) + 1) ** rng.random(size) - 1, len(self.templates) - 1)
            forms = self.templates[rank.astype(np.intp)]
        return np.cumsum(rng.exponential(SECONDS_BETWEEN_CALLS[self.tool], len(forms))), forms


@dataclass(frozen=True, slots=True)
class NoveltyBurst(Habit):
    """The start of a project, a plan or a trial of a tool: a single run that calls each template a few times in sequence."""

    def simulate(
        self, rng: np.random.Generator, stretch: float = 1.0
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Return the run: seconds from its start, templates. `stretch` is ignored: the actions stay the same."""
        forms = np.repeat(self.templates, rng.integers(1, MOST_TRIES + 1, len(self.templates)))
        return np.cumsum(rng.exponential(SECONDS_BETWEEN_CALLS[self.tool], len(forms))), forms

    def reordered(self, draw: random.Random) -> NoveltyBurst:
        """Return the same burst in another order, for a later day."""
        forms = draw.sample(self.templates.tolist(), k=len(self.templates))
        return replace(self, templates=np.array(forms, np.int32))


def pick_habit(habits: Sequence[Habit], share: float) -> Habit:
    """Return the habit at a quantile (0 to 1) of a person's runs, by Zipf's law: the first habit is the most frequent."""
    return habits[min(int((len(habits) + 1) ** share - 1), len(habits) - 1)]


@dataclass
class Person:
    """A person with a job, an account, habits and days off.

    - `days_off`: numbers of days.
    - `job_change`: (day, new job).
    - `tool_rollouts`: (day, level); on that day all tools are updated to one new level.
    - `extra_runs`: (local second, habit) by day.
    - `busy`: a factor on the activity, by day.
    """

    organisation: Organisation
    number: int
    name: str
    job: str
    location: Location
    account: Account
    kind: str  # sso, user, saml, root
    permission: str = ""
    rate: float = 8.0  # tasks of a working day
    first_day: int = 0
    days_off: set[int] = field(default_factory=set)
    job_change: tuple[int, str] | None = None
    upgrades: list[int] = field(default_factory=list)
    tool_rollouts: list[tuple[int, int]] = field(default_factory=list)
    # Day -> (local second, what)
    extra_runs: dict[int, list[tuple[float, Habit]]] = field(default_factory=dict)
    busy: dict[int, float] = field(default_factory=dict)  # day -> factor

    # --- who

    @property
    def key(self) -> str:
        """ARN of the caller."""
        if self.kind == "root":
            return f"arn:aws:iam::{self.account.number}:root"
        return self.user.arn if self.kind == "user" else self.role.session_arn(self.email)

    @property
    def principal_key(self) -> str:
        """Key by which the product knows this person."""
        return user_identity.principal_key(self.session("cli", 0, 0, 0.0).identity)

    @property
    def utc_offset(self) -> float:
        """Hours east of UTC."""
        return self.location.utc_offset

    @property
    def email(self) -> str:
        """Session name of single sign-on."""
        return f"{self.name}@example.com"

    @cached_property
    def user(self) -> user_identity.User:
        """The IAM user."""
        return user_identity.User(self.account.number, self.name, key_id("AIDA", self._random_for("user")))

    @cached_property
    def role(self) -> user_identity.Role:
        """The role of single sign-on or SAML."""
        if self.kind == "saml":
            draw = self.organisation.random_for("saml", self.permission)
            return user_identity.Role(self.account.number, f"corp-{self.permission}", key_id("AROA", draw))
        draw = self.organisation.random_for("role", self.account.number, self.permission)
        name = f"AWSReservedSSO_{self.permission}_{draw.randbytes(8).hex()}"
        path = f"/aws-reserved/sso.amazonaws.com/{self.organisation.accounts[0].region}/"
        return user_identity.Role(self.account.number, name, key_id("AROA", draw), path)

    def _random_for(self, *what: object) -> random.Random:
        return self.organisation.random_for("person", self.number, *what)

    @cached_property
    def identifiers(self) -> IdentifierPools:
        """Names and ids of their own."""
        return IdentifierPools(f"{self.organisation.seed}/person/{self.number}")

    # --- habits

    @cached_property
    def habits(self) -> list[Habit]:
        """Habits of the first job."""
        return self._habits(self.job)

    @cached_property
    def later_habits(self) -> list[Habit]:
        """Habits after a change of job."""
        return self._habits(self.job_change[1]) if self.job_change else self.habits

    def habits_on(self, day: int) -> list[Habit]:
        """Return the habits of a day."""
        return self.later_habits if self.job_change and day >= self.job_change[0] else self.habits

    def _habits(self, job: str) -> list[Habit]:
        draw = self._random_for("habits", job)
        tasks = list(TASKS[job])
        draw.shuffle(tasks)
        tasks = tasks[: max(3, round(len(tasks) * draw.uniform(0.5, 0.9)))]
        return [self.make_habit(task, draw) for task in tasks] + [
            self._personal_habit(tasks, draw) for _ in range(draw.randrange(1, 4))
        ]

    def make_habit(self, task: Task, draw: random.Random) -> Habit:
        """Return this person's habit of a task: some of its operations, in chosen templates."""
        actions = [action for i, action in enumerate(task.actions) if i < 2 or draw.random() < 0.8]
        library = self.organisation.library
        forms = [library.pick_template(action, draw) for action in actions]
        stretch = draw.uniform(0.7, 1.2)
        return Habit(
            task.tool,
            max(1, round(task.min_calls * stretch)),
            max(2, round(task.max_calls * stretch)),
            np.array(forms, np.int32),
        )

    def _personal_habit(self, tasks: Sequence[Task], draw: random.Random) -> Habit:
        """Return a habit that only this person has: reads of a service or two."""
        library = self.organisation.library
        service = draw.choice([action.partition(":")[0] for task in tasks for action in task.actions])
        known = [
            action
            for action in library.by_service[service]
            if action.partition(":")[2].startswith(READS)
            and action not in self.organisation.attack_only_actions
        ]
        actions = tuple(
            draw.sample(known or library.by_service[service], k=min(len(known) or 1, draw.randrange(2, 7)))
        )
        tool: Tool = draw.choice(("cli", "console", "sdk"))
        return self.make_habit(Task("own", tool, 1, 8, actions), draw)

    @cached_property
    def services(self) -> list[str]:
        """Services that they call, of those in the catalogue."""
        forms = self.organisation.library.templates
        return sorted(
            {forms[number].service for habit in self.habits for number in habit.templates}
            & set(self.organisation.library.by_service)
        )

    @cached_property
    def projects(self) -> dict[int, Habit]:
        """Habits of projects by day, besides the usual work: two to twelve days of new tasks."""
        draw, found = self._random_for("projects"), {}
        for first in range(self.organisation.days):
            if draw.random() < 0.012:
                task = draw.choice(TASKS[draw.choice(list(TASKS))])
                habit = (
                    self.make_habit(task, draw) if draw.random() < 0.6 else self._personal_habit([task], draw)
                )
                found.update(dict.fromkeys(range(first, first + draw.randrange(2, 13)), habit))
        return found

    @cached_property
    def variation_rates(self) -> VariationRates:
        """Rates of the long tail, times a factor of the person with mean 1: a few people try new operations much more often."""
        restless = self._random_for("restless").lognormvariate(-0.5 * NOVELTY_SPREAD**2, NOVELTY_SPREAD)
        share = PEOPLE_RATES.new_operation * restless * self.organisation.parameters.action_tail
        return replace(PEOPLE_RATES, new_operation=min(share, 0.15))

    # --- days

    def activity_share(self, day: int) -> float:
        """Return the activity of a day as a share (0 to 1) of a usual day."""
        if day < self.first_day or day in self.days_off:
            return 0.0
        if is_working_day(self.organisation.date(day), self.location):
            return 1.0
        return (
            0.35 if self._random_for("weekend", day).random() < (0.25 if self.job == "sre" else 0.05) else 0.0
        )

    def simulate_day(self, day: int) -> tuple[Calls, list[CallerSession]]:
        """Return the calls of a day and their sessions."""
        share = self.activity_share(day)
        rng = np.random.default_rng((self.organisation.seed, 1, self.number, day))
        runs = self._runs(day, share, rng)
        if not runs:
            return Calls.from_columns([], 0, 0), []
        draw = self._random_for("day", day)
        parts = [
            self._calls_with_tool(tool, [run for run in runs if run[1].tool == tool], day, rng, draw)
            for tool in dict.fromkeys(h.tool for _, h in runs)
        ]
        return concatenate_calls(parts)

    def _runs(self, day: int, share: float, rng: np.random.Generator) -> list[tuple[float, Habit]]:
        extra = self.extra_runs.get(day, [])
        count = int(rng.poisson(self.rate * share * self.busy.get(day, 1.0))) if share else 0
        if not count:
            return extra
        habits = self.habits_on(day)
        shares = rng.random(count).tolist()
        starts = working_times(rng.random(count), self.shift)
        project = self.projects.get(day)
        chosen = [
            project if project and rng.random() < 0.3 else pick_habit(habits, share) for share in shares
        ]
        return list(zip(starts.tolist(), chosen, strict=True)) + extra + self._novelty_bursts(day)

    def _novelty_bursts(self, day: int) -> list[tuple[float, Habit]]:
        """Return the bursts that begin on that day or go on from earlier days: (local second, run)."""
        if not self.organisation.parameters.novelty_bursts:
            return []
        draw = self._random_for("novelty", day)
        bursts = self._bursts_begun(day)
        for before in range(max(0, day - FOLLOW_UP_DAYS), day):
            bursts += [
                burst.reordered(draw)
                for burst in self._bursts_begun(before)
                if draw.random() < FOLLOW_UP_SHARE
            ]
        starts = working_times(np.array([draw.random() for _ in bursts]), self.shift)
        return list(zip(starts.tolist(), bursts, strict=True))

    def _bursts_begun(self, day: int) -> list[NoveltyBurst]:
        """Return the bursts that begin on a day."""
        rng = np.random.default_rng((self.organisation.seed, 11, self.number, day))
        count = int(rng.poisson(self.organisation.parameters.novelty_bursts * self.activity_share(day)))
        draw = self._random_for("bursts", day)
        return [self._novelty_burst(draw) for _ in range(count)]

    def _novelty_burst(self, draw: random.Random) -> NoveltyBurst:
        """Return a console project or a tool trial in one service, or a plan that reads several."""
        library, avoided = self.organisation.library, self.organisation.attack_only_actions
        tool: Tool = draw.choice(("console", "cli", "sdk", "terraform"))
        weights = list(SERVICE_POPULARITY.values())
        services = draw.choices(list(SERVICE_POPULARITY), weights, k=5 if tool == "terraform" else 1)
        known = [
            action
            for service in dict.fromkeys(services)
            for action in library.by_service[service]
            if action not in avoided and (tool != "terraform" or action.partition(":")[2].startswith(READS))
        ]
        least, most = BURST_ACTIONS
        count = min(len(known), round(least * (most / least) ** draw.random()))
        forms = np.array(
            [library.templates_of(action)[0] for action in draw.sample(known, k=count)], np.int32
        )
        return NoveltyBurst(tool, count, count * MOST_TRIES, forms)

    @cached_property
    def shift(self) -> float:
        """Seconds by which they start later than usual."""
        return self._random_for("shift").gauss(0, 2400)

    def _calls_with_tool(
        self,
        tool: Tool,
        runs: list[tuple[float, Habit]],
        day: int,
        rng: np.random.Generator,
        draw: random.Random,
    ) -> tuple[Calls, list[CallerSession]]:
        stretches = self._stretches(day, tool, len(runs))
        done = [habit.simulate(rng, stretch) for (_, habit), stretch in zip(runs, stretches, strict=True)]
        local = np.concatenate([start + offsets for (start, _), (offsets, _) in zip(runs, done, strict=True)])
        times = to_utc(local, self.location)
        salt = rng.integers(0, USUAL_SALTS, len(times))
        salt += self._unusual_resources([len(forms) for _, forms in done], day, tool)
        calls = Calls.from_columns(
            times, np.concatenate([forms for _, forms in done]), (local > 46_800).astype(np.int32), salt
        )
        self._reorder(calls, day, tool)
        calls = vary_calls(
            calls,
            self.variation_rates,
            self.organisation.library,
            self.services,
            rng,
            draw,
            self.organisation.attack_only_actions,
        )
        first = float(times.min()) if len(times) else 0.0
        sessions = [self.session(tool, day, half, max(first - 40, 0.0)) for half in (0, 1)]
        if tool == "console" and self.kind == "user" and len(times):
            return self._with_sign_in(calls, sessions, first)
        return calls, sessions

    def _stretches(self, day: int, tool: Tool, count: int) -> list[float]:
        """Return each run's ratio to the usual length: log-normal, most are a little shorter and a few much longer."""
        spread = self.organisation.parameters.run_spread
        if not spread:
            return [1.0] * count
        rng = np.random.default_rng((self.organisation.seed, 12, self.number, day, TOOL_NUMBERS[tool]))
        drawn: list[float] = (
            rng.lognormal(-0.25 * spread**2, spread, count).clip(max=LONGEST_STRETCH).tolist()
        )
        return drawn

    def _unusual_resources(self, sizes: list[int], day: int, tool: Tool) -> NDArray[np.int64]:
        """Return the numbers to add to the salts of runs of these sizes: for a share of the runs they select other resources."""
        rng = np.random.default_rng((self.organisation.seed, 14, self.number, day, TOOL_NUMBERS[tool]))
        return np.repeat(unusual_salts(rng, len(sizes), self.organisation.parameters.new_resources), sizes)

    def _reorder(self, calls: Calls, day: int, tool: Tool) -> None:
        """Exchange the templates of a share of the calls with those of the same hour, in place."""
        share = self.organisation.parameters.reordered_calls
        if not share:
            return
        rng = np.random.default_rng((self.organisation.seed, 13, self.number, day, TOOL_NUMBERS[tool]))
        rows = np.flatnonzero(rng.random(len(calls)) < share)
        hour = calls.time[rows] // 3600
        mixed = rows[np.lexsort((rng.random(len(rows)), hour))]
        calls.form[rows[np.argsort(hour, kind="stable")]] = calls.form[mixed]

    def _with_sign_in(
        self, calls: Calls, sessions: list[CallerSession], first: float
    ) -> tuple[Calls, list[CallerSession]]:
        form = self.organisation.library.attack_calls[LOGIN_TECHNIQUE][0][1]
        login = Calls.from_columns([max(first - 40, 0.0)], form, 0)
        blank = _copy_session(sessions[0], identity=user_identity.iam_user(self.user, ""), console=False)
        return concatenate_calls([(calls, sessions), (login, [blank])])

    def session(self, tool: Tool, day: int, half: int, created: float) -> CallerSession:
        """Return the session of this day with a tool, created at a second of the day.

        `half` is 0 in the morning, 1 in the afternoon.
        """
        date = self.organisation.date(day).isoformat()
        key = self.identifiers["key:ASIA"][(day * 4 + list(SECONDS_BETWEEN_CALLS).index(tool)) & 255]
        when = f"{date}T{user_identity.time_of_day(created)}Z"
        if self.kind == "root":
            identity = user_identity.root_user(self.account.number, key, when)
        elif self.kind != "user":
            identity = user_identity.assumed_role(self.role, self.email, key, when)
        else:
            console = tool == "console"
            key = key if console else self.identifiers["key:AKIA"][0]
            identity = user_identity.iam_user(self.user, key, when if console else "", mfa=console)
        values = {"account": self.account.number, "region": self.region, "caller": self.key}
        address, salt = self.address(day, half), self.number * 7
        return CallerSession(
            identity,
            self.user_agent(tool, day),
            address,
            self.region,
            values,
            self.account.pools,
            tool == "console",
            salt=salt,
        )

    @cached_property
    def region(self) -> str:
        """Region of their calls."""
        return self.account.region if self._random_for("region").random() < 0.8 else self.location.region

    def user_agent(self, tool: Tool, day: int) -> UserAgent:
        """Return the tool's user agent on a day."""
        draw = self._random_for("tools")
        system, level = draw.choice(user_agents.OPERATING_SYSTEMS), draw.randrange(4)
        newer = (day + self._random_for("browser").randrange(BROWSER_UPDATE_DAYS)) // BROWSER_UPDATE_DAYS
        browser = user_agents.browser(draw, newer)
        level += sum(1 for upgrade in self.upgrades if upgrade <= day)
        level = max([level, *(newest for since, newest in self.tool_rollouts if since <= day)])
        made = {
            "console": browser,
            "cli": user_agents.cli(system, level),
            "terraform": user_agents.terraform(level),
        }
        return made.get(tool) or user_agents.boto(system, level)

    def address(self, day: int, half: int) -> str:
        """Return the address: home on some weekdays, the office on the others; sometimes the VPN or a network on a journey."""
        habit, today = self._random_for("network"), self._random_for("network", day, half)
        at_home, remote = habit.sample(range(7), k=2), habit.random() < 0.3
        dice, changes = today.random(), self.organisation.parameters.network_changes
        if dice < 0.05 * changes:
            return user_agents.travel_address(today, self.location.name)
        if dice < 0.14:
            return self.organisation.vpn
        if remote or self.organisation.date(day).weekday() in at_home:
            line = self._random_for("isp", int((day + self.number) * changes // (5 + self.number % 9)))
            return user_agents.household_address(line, self.location.name)
        return self.organisation.offices[self.location.name][self.number & 1]


def _copy_session(session: CallerSession, *, identity: str, console: bool) -> CallerSession:
    return CallerSession(
        identity,
        session.user_agent,
        session.address,
        session.region,
        session.values,
        session.pools,
        console,
        salt=session.salt,
    )
