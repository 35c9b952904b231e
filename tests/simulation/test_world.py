"""A simulated world: the rows of a day that its labels point at, and what attacks leave unchanged."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.world import SimulatedDay, SimulatedWorld

DAYS = 14


def world(attacks: int, **options: object) -> SimulatedWorld:
    organisation = Organisation.create(seed=3, start=date(2026, 1, 5), days=DAYS)
    return SimulatedWorld.create(organisation, principals=20, attacks=attacks, **options)  # type: ignore[arg-type]


def attacked_day(attacked: SimulatedWorld) -> SimulatedDay:
    return attacked.simulate_day(attacked.attacks[0].day)


def templates(made: SimulatedWorld, day: SimulatedDay) -> list[str]:
    """Templates of a day's calls; their numbers of templates depend on which came first."""
    return [made.organisation.library.templates[number].template for number in day.calls.form.tolist()]


def test_the_rows_of_an_attack_are_its_calls() -> None:
    day = attacked_day(world(attacks=4))
    assert day.attacks
    for row, attack in day.attacks:
        rows = slice(row, row + len(attack.script.forms))
        assert day.calls.form[rows].tolist() == list(attack.script.forms)
        assert day.calls.time[rows].tolist() == attack.calls().time.tolist()
        assert {id(day.sessions[number]) for number in day.calls.session[rows]} == {id(attack.session)}


def test_everything_else_is_the_same_without_attacks() -> None:
    attacked, unharmed = world(attacks=4), world(attacks=0)
    day, quiet = attacked_day(attacked), unharmed.simulate_day(attacked.attacks[0].day)
    np.testing.assert_array_equal(day.calls.time[: len(quiet.calls)], quiet.calls.time)
    assert templates(attacked, day)[: len(quiet.calls)] == templates(unharmed, quiet)
    assert len(day.calls) == len(quiet.calls) + sum(len(attack.script.forms) for _, attack in day.attacks)


def test_labels_end_where_activity_ends() -> None:
    day = attacked_day(world(attacks=4))
    row, attack = day.attacks[0]
    ids = [str(number) for number in range(len(day.calls))]
    every = [label for label in day.labels(ids) if label["session"] == attack.name]
    assert [label["event_id"] for label in every] == ids[row : row + len(attack.script.forms)]
    late = float(day.calls.time[row : row + len(every)].max())
    before = [label for label in day.labels(ids, cutoff=late) if label["session"] == attack.name]
    assert len(before) < len(every)


def test_a_day_can_be_simulated_again() -> None:
    again = world(attacks=4)
    first, second = (attacked_day(again) for _ in range(2))
    np.testing.assert_array_equal(first.calls.time, second.calls.time)
    np.testing.assert_array_equal(first.calls.salt, second.calls.salt)


def test_unknown_anomalies_and_strengths_are_refused() -> None:
    with pytest.raises(FingerprintError, match="unknown surprise 'flood'"):
        world(attacks=0, anomalies=("flood",))
    with pytest.raises(FingerprintError, match="loud is not one of them"):
        world(attacks=1, strengths=("loud",))
