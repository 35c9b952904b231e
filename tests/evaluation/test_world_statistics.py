"""Statistics of worlds: on rows made by hand, and that each parameter of a world moves the statistic that it is there for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fingerprint.adapters import files
from fingerprint.compute import hashing
from fingerprint.core.settings import Entities, Reading
from fingerprint.evaluation.labels import attack_labels, read_labels
from fingerprint.evaluation.world_statistics import activity_of, measure_world
from fingerprint.simulation.world_parameters import DEFAULT_WORLD, WorldParameters, parameter_ranges
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from pipelines.simulate import simulate_organisation
from tests.support.simulated_activity import HASHED, MIDNIGHT, simulate_activity

Figures = dict[str, Any]

CUT = 10 * 86_400
PRINCIPALS, DAYS, SEED, ATTACKS = 40, 14, 7, 24


# --- rows made by hand --------------------------------------------------------------------------------------


def rows(*events: tuple[str, str, int, str], **columns: object) -> pd.DataFrame:
    """Rows of (principal, kind, seconds, action); everything else is the same, unless a column says otherwise."""
    table = pd.DataFrame(events, columns=["principal", "kind", "seconds", "action"])
    table = table.assign(
        by_service=False, network="198.51.0.0/16", program="aws-cli 2.1", session=None, strength=None
    )
    table = table.assign(event=[str(number) for number in range(len(table))], **columns)
    return table.assign(**{name: hashing.hash_strings(table[name].astype(object)) for name in HASHED})


def ana(seconds: int, action: str) -> tuple[str, str, int, str]:
    return "ana", "person", seconds, action


def test_an_action_is_new_to_a_person_that_never_called_it_and_counts_once() -> None:
    usual = [ana(hour * 3600, "read") for hour in range(10)]
    judged = [ana(CUT, "read"), ana(CUT + 60, "write"), ana(CUT + 7200, "write"), ana(CUT + 14_400, "read")]
    figures = measure_world(rows(*usual, *judged), CUT)
    assert figures["person_hours_with_new_action"] == 0.6667, "writing was unknown before these days, twice"
    assert figures["new_actions_in_an_hour"] == 1.0
    assert figures["first_calls"] == 0.25


def test_a_network_is_new_until_the_judged_days_begin() -> None:
    table = rows(
        *(ana(second, "read") for second in (0, CUT, CUT + 3600)),
        network=["198.51.0.0/16", "198.51.0.0/16", "203.0.0.0/16"],
    )
    assert measure_world(table, CUT)["person_hours_from_new_network"] == 0.5


def test_novelties_of_one_hour_come_in_a_bunch_from_five_on() -> None:
    judged = [ana(CUT + number, f"trial {number}") for number in range(6)]
    judged += [ana(CUT + 7200 + number, f"look {number}") for number in range(2)]
    figures = measure_world(rows(ana(0, "read"), *judged), CUT)
    assert figures["bunched_novelties"] == 0.75
    assert figures["new_actions_in_an_hour"] == 4.0


def test_a_machine_that_does_the_same_each_hour_has_no_dispersion() -> None:
    steady = [("m", "role", CUT + hour * 3600, "poll") for hour in range(5)]
    uneven = [
        ana(CUT + hour * 3600 + second, "read") for hour in range(5) for second in range(1 + 49 * (hour == 4))
    ]
    figures = measure_world(rows(*steady, *uneven), CUT)
    assert figures["machine_hour_dispersion"] == 0.0
    assert figures["person_hour_dispersion"] == 35.5704
    assert (figures["people_share"], figures["machines_share"]) == (0.5, 0.5)


def test_a_role_that_only_a_service_takes_is_a_service() -> None:
    events = [
        ("linked", "role", 0, "poll"),
        ("linked", "role", 9, "poll"),
        ("m", "role", 0, "a"),
        ("m", "role", 9, "b"),
    ]
    figures = measure_world(rows(*events, by_service=[True, True, True, False]), CUT)
    assert (figures["services_share"], figures["machines_share"]) == (0.5, 0.5)


def test_an_attack_is_compared_with_what_its_victim_and_the_others_do() -> None:
    usual = [ana(hour * 3600, "read") for hour in range(24)] + [("m", "role", 0, "write")]
    thief = [ana(CUT, "read"), ana(CUT + 1, "write"), ana(CUT + 2, "stop"), ana(CUT + 3, "stop")]
    table = rows(*usual, *thief)
    table.loc[25:, "session"], table.loc[25:, "strength"] = "a", "smash"
    figures = measure_world(table, CUT)
    assert figures["attack_calls_no_one_else_makes"] == {"smash": 0.5}
    assert figures["thieves_with_the_victims_tool"] == figures["thieves_from_the_victims_network"] == 1.0
    assert figures["attack_sessions"] == {"smash": 1}
    assert figures["victims_hours_old"] == 0.0
    assert figures["mimics_without_new_action"] is None
    assert figures["person_hours_with_new_action"] is None, "an attack is no novelty of the person"


def test_a_victim_that_is_first_seen_with_the_attack_is_hours_old() -> None:
    table = rows(
        ana(0, "read"), ("new", "user", CUT, "read"), session=[None, "a"], strength=[None, "newcomer"]
    )
    assert measure_world(table, CUT)["victims_hours_old"] == 1.0


def test_an_insider_is_measured_in_its_victims_busiest_days_of_that_action() -> None:
    usual = [ana(day * 86_400 + call, "read") for day, calls in enumerate((1, 4, 2)) for call in range(calls)]
    bulk = [ana(CUT + second, "read") for second in range(40)] + [ana(CUT + 60, "list")]
    table = rows(*usual, *bulk)
    table.loc[len(usual) :, ["session", "strength"]] = ["a", "insider"]
    assert measure_world(table, CUT)["insider_busy_days"] == 10.0
    assert measure_world(rows(*usual), CUT)["insider_busy_days"] is None


def test_a_mimic_that_repeats_two_actions_is_told_from_one_that_does_many() -> None:
    repeated = [ana(CUT + call, ("read", "list")[call % 4 == 0]) for call in range(16)]
    table = rows(ana(0, "read"), *repeated)
    table.loc[1:, ["session", "strength"]] = ["a", "mimic"]
    figures = measure_world(table, CUT)
    assert (figures["mimic_distinct_actions"], figures["mimic_calls_of_the_commonest"]) == (2.0, 12.0)


def test_an_event_that_is_there_twice_is_counted_once() -> None:
    table = rows(ana(0, "read"), *(ana(CUT + number, f"new {number}") for number in range(5)))
    assert measure_world(pd.concat([table, table], ignore_index=True), CUT) == measure_world(table, CUT)


# --- the simulator's parameters ----------------------------------------------------------------------------------


@cache
def measured(parameters: WorldParameters) -> Figures:
    activity = simulate_activity(PRINCIPALS, DAYS, SEED, ATTACKS, parameters)
    return measure_world(activity, MIDNIGHT + CUT)


def statistic(name: str, part: str = "") -> Callable[[Figures], float]:
    return lambda figures: figures[name].get(part, 0) if part else figures[name]


EFFECTS: dict[
    str, tuple[Callable[[Figures], float], float]
] = {  # statistic, and by how much a parameter moves it at least
    "novelty_bursts": (statistic("bunched_novelties"), 0.2),
    "action_tail": (statistic("first_calls"), 0.03),
    "run_spread": (statistic("person_hour_dispersion"), 50),
    "reordered_calls": (statistic("new_transitions"), 0.005),
    "network_changes": (statistic("person_hours_from_new_network"), 0.1),
    "people_share": (statistic("people_share"), 0.3),
    "services_share": (statistic("services_share"), 0.05),
    "single_sign_on_share": (statistic("single_sign_on_share"), 0.3),
    "ci_weight": (statistic("machine_hour_dispersion"), 10),
    "own_tool_attacks": (statistic("thieves_with_the_victims_tool"), 0.3),
    "own_network_attacks": (statistic("thieves_from_the_victims_network"), 0.2),
    "own_hours_attacks": (statistic("loud_attacks_in_usual_hours"), 0.1),
    "attack_only_actions": (statistic("attack_calls_no_one_else_makes", "smash"), 0.25),
    "rare_techniques": (statistic("attack_calls_no_one_else_makes", "smash"), 0.05),
    "repeating_mimics": (statistic("mimics_without_new_action"), 0.8),
    "insiders": (statistic("attacks_in_bulk"), 0.15),
    "intruder_made_users": (statistic("victims_hours_old"), 0.15),
    "robbed_newcomers": (statistic("victims_hours_old"), 0.15),
}


# A world for each group, not for each parameter: a simulation takes a second. What of a group moves the statistic of another is
# in another group, so with one parameter left out of its group that parameter's statistic stays.
TOGETHER = (
    {"novelty_bursts", "people_share", "own_tool_attacks", "insiders"},
    {"action_tail", "ci_weight", "own_network_attacks", "intruder_made_users"},
    {"run_spread", "own_hours_attacks", "robbed_newcomers"},
    {"network_changes", "single_sign_on_share", "attack_only_actions", "repeating_mimics"},
    {"reordered_calls"},
    {"services_share", "rare_techniques"},
)
# In a world in which rare techniques have something to move: else people's long tails hold every technique's actions.
BASES = {"rare_techniques": replace(DEFAULT_WORLD, attack_only_actions=1.0)}


def world_of(group: set[str], end: int) -> WorldParameters:
    """Return the world in which the parameters of a group are down (0) or up (1)."""
    (base,) = [BASES[parameter] for parameter in group if parameter in BASES] or [DEFAULT_WORLD]
    return replace(base, **{parameter: parameter_ranges()[parameter][end] for parameter in group})


@pytest.mark.parametrize("parameter", EFFECTS)
def test_turning_a_parameter_up_moves_its_statistic(parameter: str) -> None:
    value, least = EFFECTS[parameter]
    (group,) = (group for group in TOGETHER if parameter in group)
    low, high = (value(measured(world_of(group, end))) for end in (0, 1))
    assert high - low >= least, f"{parameter} moves it from {low} to {high}"


def test_smash_attacks_call_mostly_what_no_one_else_calls_where_both_parameters_say_so() -> None:
    world = world_of(TOGETHER[-1], 1)
    assert world.attack_only_actions == world.rare_techniques == 1.0
    assert measured(world)["attack_calls_no_one_else_makes"]["smash"] > 0.6


def test_no_parameter_is_without_an_effect_that_is_tested() -> None:
    elsewhere = {
        "eventful_history",  # tests.simulation.test_benign_anomalies
        "history",  # tests of pipelines.evaluation
        "new_resources",  # tests.simulation.test_resources: only records show resources
        "own_resource_attacks",
    }
    assert set(parameter_ranges()) - set(EFFECTS) == elsewhere


def test_records_say_of_a_world_what_its_calls_are(tmp_path: Path) -> None:
    drawn = replace(WorldParameters.draw(1), insiders=0.25, intruder_made_users=0.25)
    simulate_organisation(14, DAYS, SEED, tmp_path, attacks=8, parameters=drawn)
    labels = attack_labels(read_labels([str(tmp_path)]))
    chunks = [
        activity_of(add_entity_columns(flatten(records).events, Entities()), labels)
        for records in files.read_sources([str(tmp_path)], Reading())
    ]
    told = measure_world(pd.concat(chunks, ignore_index=True), MIDNIGHT + CUT)
    called = measure_world(simulate_activity(14, DAYS, SEED, 8, drawn), MIDNIGHT + CUT)
    for name in ("history_days", "new_transitions"):  # calls of one second are in the order of their arrival
        assert told.pop(name) == pytest.approx(called.pop(name), abs=0.01)
    for figures in (told, called):  # a console's program depends on the service
        for name in ("thieves_with_the_victims_tool", "quiet_thieves_with_the_victims_tool"):
            assert 0 <= figures.pop(name) <= 1
    assert told == called
