"""The days of a machine role: strict periods with little jitter, bursts of deployments, nightly jobs.

It has few actions; a release changes them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.simulation import user_agents, user_identity
from fingerprint.simulation.api_calls import (
    CallerSession,
    Calls,
    concatenate_calls,
    unusual_salts,
)
from fingerprint.simulation.calendar import working_times
from fingerprint.simulation.identifiers import IdentifierPools, key_id
from fingerprint.simulation.job_tasks import CI_WORKLOADS, WORKLOADS, Routine
from fingerprint.simulation.long_tail import MACHINE_RATES, vary_calls
from fingerprint.simulation.organisation import Account, Organisation
from fingerprint.simulation.user_agents import UserAgent

INSTANCE_WORKLOADS = ("instance", "web instance")
POD_WORKLOADS = ("pod", "controller")
SSM_AGENT = user_agents.fixed_user_agent(
    "aws-sdk-go/1.55.5 (go1.22.9; linux; amd64) amazon-ssm-agent/3.3.987.0"
)
FUNCTION_WORKLOADS = ("function", "timer function", "denied function", "etl")
# Factor, for machines other than CI, on the share of half hours with unusual resources
OTHER_MACHINES_NEW_RESOURCES = 1 / 30


@dataclass
class Machine:
    """A role that machines take.

    `added_routines` are extra routines by first day, `one_off_routines` those of single days; `schedule_shift` moves its daily
    jobs by seconds from a day on.
    """

    organisation: Organisation
    number: int
    name: str
    workload: str
    account: Account
    scale: float = 1.0
    added_routines: list[tuple[int, Routine]] = field(default_factory=list)
    one_off_routines: dict[int, list[Routine]] = field(default_factory=dict)
    schedule_shift: tuple[int, float] | None = None
    upgrades: list[int] = field(default_factory=list)
    busy: dict[int, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """ARN of the role."""
        return self.role.arn

    @property
    def principal_key(self) -> str:
        """Key by which the product knows this role."""
        return user_identity.principal_key(self.session(0, 0).identity)

    @property
    def utc_offset(self) -> float:
        """Hours east of UTC of the team that runs it."""
        return self.organisation_offset

    @cached_property
    def role(self) -> user_identity.Role:
        """The IAM role."""
        return user_identity.Role(self.account.number, self.name, key_id("AROA", self._random_for("role")))

    def _random_for(self, *what: object) -> random.Random:
        return self.organisation.random_for("machine", self.number, *what)

    @cached_property
    def identifiers(self) -> IdentifierPools:
        """Names and ids of its own."""
        return IdentifierPools(f"{self.organisation.seed}/machine/{self.number}")

    @cached_property
    def services(self) -> list[str]:
        """Services that it calls, of those in the catalogue."""
        found = {
            action.partition(":")[0] for routine in WORKLOADS[self.workload] for action in routine.actions
        }
        return sorted(found & set(self.organisation.library.by_service))

    @cached_property
    def pace(self) -> float:
        """The factor on the periods of its workload's routines: 0.6 to 1.6, divided by the scale."""
        return self._random_for("pace").uniform(0.6, 1.6) / self.scale

    # --- days

    def simulate_day(self, day: int) -> tuple[Calls, list[CallerSession]]:
        """Return the calls of a day and their sessions."""
        rng = np.random.default_rng((self.organisation.seed, 2, self.number, day))
        return concatenate_calls([self._routine(i, routine, day, rng) for i, routine in self.routines(day)])

    def routines(self, day: int) -> list[tuple[int, Routine]]:
        """Return the routines of that day, each with a constant number."""
        return [
            *enumerate(WORKLOADS[self.workload]),
            *((90 + i, r) for i, (first, r) in enumerate(self.added_routines) if day >= first),
            *enumerate(self.one_off_routines.get(day, []), 190),
        ]

    def _unusual_resources(self, i: int, time: NDArray[np.float64], day: int) -> NDArray[np.int64]:
        """Return the numbers to add to the salts of a routine's calls: in a share of half hours they select other resources."""
        share = self.organisation.parameters.new_resources
        share *= 1.0 if self.workload in CI_WORKLOADS else OTHER_MACHINES_NEW_RESOURCES
        rng = np.random.default_rng((self.organisation.seed, 15, self.number, day, i))
        half_hour = (time // 1800).astype(np.int64)
        return unusual_salts(rng, int(half_hour.max(initial=0)) + 1, share)[half_hour]

    def _routine(
        self, i: int, routine: Routine, day: int, rng: np.random.Generator
    ) -> tuple[Calls, list[CallerSession]]:
        sessions = [self.session(day, s, routine.call_path) for s in range(self.sessions)]
        time, form = self._times(i, routine, day, rng)
        salt = rng.integers(0, 4, len(time)) + self._unusual_resources(i, time, day)
        calls = Calls.from_columns(
            time, form, _assign_sessions(time, len(sessions), rng, self.workload), salt
        )
        return vary_calls(
            calls,
            MACHINE_RATES,
            self.organisation.library,
            self.services,
            rng,
            self._random_for("tail", i, day),
            self.organisation.attack_only_actions,
        ), sessions

    def _times(
        self, i: int, routine: Routine, day: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        forms = self.templates(routine, day)
        draw = self._random_for("phase", i)
        phase = draw.random()
        every = routine.period_seconds * (self.pace if routine.shape != "daily" else 1.0)
        if routine.shape in ("poll", "sweep"):
            every = max(60.0, round(every / 60) * 60.0)  # people write round numbers into schedules
        moved = self.schedule_shift[1] if self.schedule_shift and day >= self.schedule_shift[0] else 0.0
        if routine.shape == "poll":
            return _poll(forms, every, phase, rng, self.sessions)
        if routine.shape == "sweep":
            return _sweep(forms, np.arange(phase * every, DAY_SECONDS, every), 0.4, rng)
        if routine.shape == "random":
            return _random(forms, every, self._quiet(day), rng)
        if routine.shape == "daily":
            at = (draw.randrange(0, 8 * 3600, 900) + moved + rng.normal(3, 1)) % DAY_SECONDS
            return _sweep(np.repeat(forms, routine.size), np.array([at]), 1.2, rng)
        return self._bursts(forms, routine, day, rng)

    def _bursts(
        self, forms: NDArray[np.int32], routine: Routine, day: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        count = int(
            rng.poisson(routine.period_seconds / self.pace * self._quiet(day) * self.busy.get(day, 1.0))
        )
        starts = working_times(rng.random(count), -self.organisation_offset * 3600)
        sizes = rng.integers(max(1, routine.size // 2), routine.size * 3 // 2 + 1, count)
        gaps = [np.cumsum(rng.exponential(0.8, size)) for size in sizes]
        times = np.concatenate(
            [start + gap for start, gap in zip(starts, gaps, strict=True)] or [np.empty(0)]
        )
        rank = np.minimum((len(forms) + 1) ** rng.random(len(times)) - 1, len(forms) - 1).astype(np.intp)
        return np.maximum(times, 1.0), forms[rank]

    @cached_property
    def organisation_offset(self) -> float:
        """Hours east of UTC of the team that runs it."""
        return self._random_for("team").choice((-8, -5, 0, 1))

    def _quiet(self, day: int) -> float:
        return (
            1.0
            if self.organisation.date(day).weekday() < 5
            else 0.25
            if self.workload in ("deployer", "terraform runner")
            else 0.7
        )

    def templates(self, routine: Routine, day: int) -> NDArray[np.int32]:
        """Return the templates of a routine's actions; a release sometimes changes the parameters of one."""
        library, release = self.organisation.library, self.release(day)
        found = []
        for i, action in enumerate(routine.actions):
            options = library.templates_of(
                action, "service" if routine.call_path and action.startswith(("kms", "sts")) else "direct"
            )
            turn = release // 2 if i == self.number % len(routine.actions) else 0
            number = options[(self.number * (i + 1) % 3 + turn) % len(options)]
            denied = self.workload == "denied function" and routine.shape == "poll"
            found.append(library.failed_template("denied", number) if denied else number)
        return np.array(found, np.int32)

    @cached_property
    def _releases(self) -> list[int]:
        draw = self._random_for("releases")
        return [day for day in range(self.organisation.days) if draw.random() < 0.03]

    def release(self, day: int) -> int:
        """Return the number of releases up to a day."""
        return sum(1 for first in [*self._releases, *self.upgrades] if first <= day)

    # --- who

    @cached_property
    def sessions(self) -> int:
        """Return the number of its sessions a day."""
        if self.workload in INSTANCE_WORKLOADS:
            return self._random_for("instances").randrange(1, 5)
        return 4 if self.workload in POD_WORKLOADS else 1

    def session(self, day: int, which: int, call_path: str = "") -> CallerSession:
        """Return session `which` of a day: an instance, a function, or a pod's hours.

        `call_path` is the service that calls with the role, `agent` for the instance's agent, or `web` if the pod assumes the
        role.
        """
        name, service = self._name(day, which), call_path if "." in call_path else ""
        inside = not service and self.workload in INSTANCE_WORKLOADS and self.number % 3 == 0
        address = service or (
            f"10.{self.number % 200}.{which}.{self.number % 241 + 4}" if inside else self.address(which)
        )
        account = self.account
        values = {"account": account.number, "region": account.region, "caller": self.role.session_arn(name)}
        return CallerSession(
            self._web_identity() if call_path == "web" else self._identity(day, which, name, service),
            SSM_AGENT
            if call_path == "agent"
            else user_agents.fixed_user_agent(service)
            if service
            else self.user_agent(day),
            address,
            account.region,
            values,
            account.pools,
            endpoint=account.endpoint if inside else "",
            salt=self.number * 11,
        )

    def session_at(self, day: int, second: float) -> int:
        """Return the session in use at a second of a day; if there are several at once, any of them."""
        if self.workload in POD_WORKLOADS:
            return min(int(second) * self.sessions // DAY_SECONDS, self.sessions - 1)
        return int(second) % self.sessions

    def _identity(self, day: int, which: int, name: str, service: str) -> str:
        # a pod takes the role again; others did the evening before
        since = which * DAY_SECONDS // self.sessions
        if self.workload not in POD_WORKLOADS:
            day, since = day - 1, 68_400 + self._random_for("session", which, day).randrange(18_000)
        created = f"{self.organisation.date(day)}T{user_identity.time_of_day(since)}Z"
        return user_identity.assumed_role(
            self.role,
            name,
            self.identifiers["key:ASIA"][(day * 5 + which) & 255],
            created,
            invoked_by=service,
            instance=self.workload in INSTANCE_WORKLOADS,
            federated=self.account.oidc_provider if self.workload in POD_WORKLOADS else "",
        )

    def _web_identity(self) -> str:
        return user_identity.web_identity(
            self.account.oidc_provider, f"system:serviceaccount:apps:{self.name}"
        )

    def _name(self, day: int, which: int) -> str:
        if self.workload in INSTANCE_WORKLOADS:
            return self.account.pools["i-"][
                (self.number * 5 + which + 3 * self._random_for("replaced", day // 9).randrange(2)) & 255
            ]
        if self.workload in POD_WORKLOADS:
            return f"aws-go-sdk-{self.identifiers['digits:19'][(day * 4 + which) & 255]}"
        return (
            f"{self.name}-{self.number % 97:02}"
            if self.workload in FUNCTION_WORKLOADS
            else {"deployer": "GitHubActions"}.get(self.workload, "session")
        )

    def address(self, which: int) -> str:
        """Return the public address.

        Instances have constant addresses, functions those of AWS's hosts, pods that of one gateway.
        """
        return user_agents.aws_address(
            self._random_for("address", which if self.workload in INSTANCE_WORKLOADS else 0)
        )

    def user_agent(self, day: int) -> UserAgent:
        """Return the SDK or tool of a day."""
        level = 1 + self.release(day) + self.number % 4
        kind = self.number % 3
        if self.workload in INSTANCE_WORKLOADS:
            return (
                user_agents.java(level),
                user_agents.go(level),
                user_agents.boto("linux#5.10.228", level),
            )[kind]
        if self.workload in FUNCTION_WORKLOADS:
            return (
                user_agents.node(level),
                user_agents.boto("linux#5.10.234", level, "3.12.7", "exec-env/AWS_Lambda_python3.12 "),
                user_agents.java(level),
            )[kind]
        if self.workload in ("deployer", "nightly job"):
            return (
                user_agents.cli("linux#6.5.0-1025-azure", level),
                user_agents.boto("linux#6.5.0", level),
                user_agents.node(level, ""),
            )[kind]
        return user_agents.terraform(level) if self.workload == "terraform runner" else user_agents.go(level)


def _assign_sessions(
    time: NDArray[np.float64], sessions: int, rng: np.random.Generator, workload: str
) -> NDArray[np.int32]:
    if workload in POD_WORKLOADS:  # a pod's session lasts some hours, then the next
        return np.minimum(time * sessions // DAY_SECONDS, sessions - 1).astype(np.int32)
    return rng.integers(0, sessions, len(time)).astype(np.int32)


def _poll(
    forms: NDArray[np.int32], every: float, phase: float, rng: np.random.Generator, sessions: int
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    every /= sessions
    ticks = np.arange(phase * every, DAY_SECONDS, every)
    times = (
        ticks[:, None] + np.arange(len(forms)) * 1.5 + rng.exponential(1.0, (len(ticks), len(forms)))
    ).ravel()
    return times, np.tile(forms, len(ticks))


def _sweep(
    forms: NDArray[np.int32], starts: NDArray[np.float64], gap: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    times = starts[:, None] + np.cumsum(rng.exponential(gap, (len(starts), len(forms))), axis=1)
    return times.ravel(), np.tile(forms, len(starts))


_BUSY = 1 + 0.6 * np.sin((np.arange(25) - 8) / 24 * 2 * np.pi)
_SHARE = np.concatenate([[0.0], np.cumsum(_BUSY[:-1] / _BUSY[:-1].sum())])


def _random(
    forms: NDArray[np.int32], every: float, quiet: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    count = int(rng.poisson(DAY_SECONDS / every * quiet))
    times = np.interp(rng.random(count), _SHARE, np.linspace(0, DAY_SECONDS, 25))
    rank = np.minimum((len(forms) + 1) ** rng.random(count) - 1, len(forms) - 1).astype(np.intp)
    return times, forms[rank]
