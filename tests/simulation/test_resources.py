"""Resources of a simulated world: principals have usual ones and a tail, and attacks are not given away by theirs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from fingerprint.adapters import files
from fingerprint.core.settings import Entities, Reading
from fingerprint.evaluation.labels import attack_labels, read_labels
from fingerprint.simulation.world_parameters import DEFAULT_WORLD, WorldParameters
from fingerprint.sources.cloudtrail.resources import fold
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from pipelines.simulate import simulate_organisation

DAYS, LEARNED = 12, 8


@cache
def calls(parameters: WorldParameters) -> pd.DataFrame:
    """Return the calls of a world that name a resource: who, kind, hour, resource, whether an attack's and whether judged."""
    with TemporaryDirectory() as folder:
        simulate_organisation(16, DAYS, 5, Path(folder), 12, scale=0.5, parameters=parameters)
        labels = attack_labels(read_labels([folder]))
        events = pd.concat(
            [
                add_entity_columns(flatten(records).events, Entities())
                for records in files.read_sources([folder], Reading())
            ]
        )
    named = events[events["resource"].notna()]
    judged = named["event_time"] >= named["event_time"].min().normalize() + pd.Timedelta(days=LEARNED)
    return pd.DataFrame(
        {
            "who": named["principal"].astype(object),
            "kind": named["kind"].astype(object),
            "hour": named["event_time"].dt.floor("h"),
            "resource": named["resource"].map(fold).astype(object),
            "attack": named["event_id"].isin(labels["event_id"]),
            "judged": judged,
        }
    )


def new_to_principal(table: pd.DataFrame) -> pd.DataFrame:
    """Return the judged calls with `new`: whether the principal never touched the resource on the days before."""
    learned = table[~table["judged"] & ~table["attack"]]
    known = pd.MultiIndex.from_frame(learned[["who", "resource"]])
    judged = table[table["judged"]]
    new = ~pd.MultiIndex.from_frame(judged[["who", "resource"]]).isin(known)
    return judged.assign(new=new)


def share_of_person_hours_with_a_new_resource(parameters: WorldParameters) -> float:
    judged = new_to_principal(calls(parameters))
    people = judged[~judged["attack"] & judged["kind"].isin(["person", "user"])]
    return float(people.groupby(["who", "hour"])["new"].max().mean())


def share_of_attack_calls_to_new_resources(parameters: WorldParameters) -> float:
    judged = new_to_principal(calls(parameters))
    return float(judged[judged["attack"]]["new"].mean())


def test_more_unusual_work_brings_more_new_resources() -> None:
    many = share_of_person_hours_with_a_new_resource(replace(DEFAULT_WORLD, new_resources=0.3))
    assert many > share_of_person_hours_with_a_new_resource(DEFAULT_WORLD) + 0.1


def test_a_new_resource_is_no_sign_of_an_attack_by_itself() -> None:
    """In the default world people meet new ones in a good part of their hours too."""
    assert share_of_person_hours_with_a_new_resource(DEFAULT_WORLD) > 0.3


def test_thieves_may_touch_what_the_victim_touches() -> None:
    most = replace(DEFAULT_WORLD, own_resource_attacks=0.8)
    default = share_of_attack_calls_to_new_resources(DEFAULT_WORLD)
    assert share_of_attack_calls_to_new_resources(most) < default - 0.03
