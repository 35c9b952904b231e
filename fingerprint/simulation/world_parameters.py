"""Parameters of a simulated world: the properties in which organisations differ, each with its range.

Example:
    >>> WorldParameters.default().novelty_bursts
    0.0
    >>> world = WorldParameters.draw(seed=2000)
    >>> 0.0 <= world.novelty_bursts <= 0.6, world == WorldParameters.draw(seed=2000)
    (True, True)

A detector that was tuned in one world knows its habits. So `fingerprint evaluate --worlds` draws worlds from these ranges and
reports the worst. `evaluation.world_statistics` measures what a parameter changes; docs/explanation/simulation.md says where the
ranges come from. The module imports no other, because all modules of the simulation depend on it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, fields
from typing import Any


def _parameter(default: float, low: float, high: float) -> Any:
    """Return the field of a parameter with its default and the range from which worlds are drawn."""
    return field(default=default, metadata={"range": (low, high)})


@dataclass(frozen=True)
class WorldParameters:
    """The parameters of a world. With the defaults the simulator writes the same bytes as before it had parameters.

    Each is given with its default, and with the lowest and the highest value from which worlds are drawn.
    """

    # --- what people do

    novelty_bursts: float = _parameter(0.0, 0.0, 0.6)
    """Projects, plans and tool trials per person and working day: each brings 5 to 40 new actions within an hour, and goes on
    every other day of the four after it."""
    action_tail: float = _parameter(1.0, 0.4, 4.0)
    """Weight of the long tail of actions: a factor of the share of people's calls (2.8 %) that it takes."""
    run_spread: float = _parameter(0.0, 0.0, 2.2)
    """Spread s of how many calls a run of a task makes: a log-normal factor with median exp(-s²/4), 25 at most."""
    reordered_calls: float = _parameter(0.0, 0.0, 0.6)
    """Share of people's calls that come in another order, within their hour, than their task lists them."""
    network_changes: float = _parameter(1.0, 0.1, 1.2)
    """Frequency of calls of people from a new network: a factor of travel (5 % of half days) and of changes of the home line."""
    new_resources: float = _parameter(0.1, 0.02, 0.3)
    """Share of people's runs of a task, and of half hours of CI, that work on other resources than usual; other machines do so a
    thirtieth as often."""

    # --- who there is, and for how long

    people_share: float = _parameter(0.55, 0.3, 0.7)
    """Share of principals that are people."""
    services_share: float = _parameter(0.1, 0.05, 0.2)
    """Share of principals that are AWS services; the rest are machine roles."""
    single_sign_on_share: float = _parameter(0.80, 0.4, 0.95)
    """Share of people who use Identity Center; of the others seven in ten use access keys, and three in ten SAML."""
    ci_weight: float = _parameter(1.0, 0.3, 4.0)
    """Weight of CI (deployers, Terraform runners) among the workloads of machine roles: a factor."""
    history: float = _parameter(1.0, 0.6, 1.5)
    """Length of the history: a factor of the days that are asked for."""
    eventful_history: float = _parameter(0.0, 0.0, 1.0)
    """Chance that a harmless anomaly of the judged week (a release, an outage, a new hire ...) comes in each week before it, too,
    except in the first five days."""

    # --- attacks

    own_tool_attacks: float = _parameter(0.0, 0.0, 0.8)
    """Share of thieves that use a tool of the victim, of the same version."""
    own_network_attacks: float = _parameter(0.0, 0.0, 0.4)
    """Share of thieves that call from the address from which the victim calls on that day."""
    own_hours_attacks: float = _parameter(0.0, 0.0, 1.0)
    """Share of loud attacks (smash, session) that begin in the victim's working hours, as quiet ones always do."""
    own_resource_attacks: float = _parameter(0.3, 0.0, 0.8)
    """Share of thieves that touch only resources that the victim touches."""
    attack_only_actions: float = _parameter(0.0, 0.0, 1.0)
    """Share of the attacks' actions that are in no principal's long tail, so that only tasks and routines may call them; at 1,
    thieves also make half as many calls of discovery."""
    rare_techniques: float = _parameter(0.0, 0.0, 1.0)
    """Share of thieves that use only techniques of whose calls at least half are in no task or routine."""
    repeating_mimics: float = _parameter(0.0, 0.0, 1.0)
    """Share of mimics that repeat two of their victim's usual actions, and do nothing else."""
    insiders: float = _parameter(0.0, 0.0, 0.25)
    """Insiders per attack session of the four strengths, in addition to those: 150 to 400 calls of a usual read in 90 minutes."""
    intruder_made_users: float = _parameter(0.0, 0.0, 0.25)
    """Users that an intruder created, first seen with the attack, per attack session, in addition to those."""
    robbed_newcomers: float = _parameter(0.0, 0.0, 0.25)
    """People robbed on their first day, hours after it began, per attack session, in addition to those."""

    @classmethod
    def default(cls) -> WorldParameters:
        """Return the parameters of the one world of `fingerprint simulate`."""
        return cls()

    @classmethod
    def draw(cls, seed: int) -> WorldParameters:
        """Draw each parameter uniformly from its range, with its own generator, so that a new parameter changes no other."""
        return cls(
            **{
                name: round(random.Random(f"{seed}/world/{name}").uniform(*span), 3)  # noqa: S311 - makes samples
                for name, span in parameter_ranges().items()
            }
        )


def parameter_ranges() -> dict[str, tuple[float, float]]:
    """Return the lowest and the highest value of each parameter."""
    return {each.name: each.metadata["range"] for each in fields(WorldParameters)}


DEFAULT_WORLD = WorldParameters.default()
