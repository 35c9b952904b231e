"""The activity of a simulated world as `world_statistics` takes it, without the way over records: seconds instead of minutes."""

from __future__ import annotations

import json
from datetime import date
from functools import cache

import numpy as np
import pandas as pd

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.features.value_texts import network_range, program_and_version
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.user_identity import principal_key
from fingerprint.simulation.world import SimulatedDay, SimulatedWorld
from fingerprint.simulation.world_parameters import WorldParameters

START = date(2026, 1, 5)
MIDNIGHT = 1_767_571_200  # seconds from the epoch at which START begins
HASHED = ("event", "principal", "action", "network", "program")


def simulate_activity(
    principals: int, days: int, seed: int, attacks: int, parameters: WorldParameters
) -> pd.DataFrame:
    """Return the calls of a world in the columns of `world_statistics.activity_of`."""
    organisation = Organisation.create(seed, START, days, parameters=parameters)
    world = SimulatedWorld.create(organisation, principals, attacks)
    parts = [day_activity(world, world.simulate_day(number)) for number in range(days)]
    return pd.concat(parts, ignore_index=True)


def day_activity(world: SimulatedWorld, day: SimulatedDay) -> pd.DataFrame:
    calls, library = day.calls, world.organisation.library
    actions = [library.action_of(number) for number in range(len(library.templates))]
    callers = [(principal_key(each.identity), kind_of(each.identity)) for each in day.sessions]
    networks = [network_range(each.address, (16, 32)) for each in day.sessions]
    programs = [program_of(each.user_agent.render("ec2", "RunInstances")) for each in day.sessions]
    rows, labels = np.arange(len(calls), dtype=np.uint64), np.full((2, len(calls)), None, object)
    for row, attack in day.attacks:
        labels[:, row : row + len(attack.script.forms)] = [[attack.name], [attack.strength]]
    return pd.DataFrame(
        {
            "event": hashing.hash_pair(np.full_like(rows, day.number), rows),
            "principal": hashes([key for key, _ in callers])[calls.session],
            "kind": np.array([kind for _, kind in callers], object)[calls.session],
            "by_service": np.array(['"invokedBy"' in each.identity for each in day.sessions])[calls.session],
            "seconds": MIDNIGHT + day.number * 86_400 + calls.time.astype(np.int64),
            "action": hashes(actions)[calls.form],
            "network": hashes(networks)[calls.session],
            "program": hashes(programs)[calls.session],
            "session": labels[0],
            "strength": labels[1],
        }
    )


def hashes(texts: list[str]) -> Hashes:
    return hashing.hash_strings(pd.Series(texts, dtype=object))


@cache
def program_of(user_agent: str) -> str:
    return program_and_version(user_agent)[1]


@cache
def kind_of(identity: str) -> str:
    """Return the kind of principal as the product names it, of the identities that the simulator writes."""
    block = json.loads(identity)
    issuer = block.get("sessionContext", {}).get("sessionIssuer", {}).get("arn", "")
    if ":role/aws-reserved/sso.amazonaws.com/" in issuer:
        return "person"
    kinds = {"AssumedRole": "role", "IAMUser": "user", "Root": "root"}
    return kinds.get(block.get("type", ""), "other")
