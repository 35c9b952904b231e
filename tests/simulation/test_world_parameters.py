"""The parameters of a world: the default world is the one that always was, and drawn worlds lie in the documented ranges."""

from __future__ import annotations

import ast
import gzip
import hashlib
import inspect
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

from fingerprint.simulation.attacks import INSIDER, INTRUDER_MADE, ROBBED, STRENGTHS
from fingerprint.simulation.aws_services import SERVICE_ROUTINES
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.staff import create_staff
from fingerprint.simulation.world import SimulatedWorld
from fingerprint.simulation.world_parameters import WorldParameters, parameter_ranges
from pipelines.simulate import DEFAULT_START, simulate_organisation

# Of the default world: 24 principals, 9 days, seed 7, 4 attacks.
DEFAULT_DIGEST = "352f21ddc0a02773ec7873a58fb5c7ca32ebcfd0151ab05aebd21c2d2e7691b0"


def digest(folder: Path) -> str:
    """Return a digest of names and contents: of what is packed, not of how the zlib at hand packs it."""
    found = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        found.update(path.name.encode() + b"\0" + content)
    return found.hexdigest()


def world(parameters: WorldParameters, attacks: int = 20) -> SimulatedWorld:
    organisation = Organisation.create(seed=3, start=DEFAULT_START, days=14, parameters=parameters)
    return SimulatedWorld.create(organisation, principals=60, attacks=attacks)


def test_the_default_world_is_written_as_before_there_were_others_to_the_byte(tmp_path: Path) -> None:
    simulate_organisation(24, 9, 7, tmp_path, 4, parameters=WorldParameters.default())
    assert digest(tmp_path) == DEFAULT_DIGEST


def test_worlds_are_drawn_from_the_ranges_and_differ() -> None:
    drawn = [asdict(WorldParameters.draw(seed)) for seed in range(40)]
    for name, (low, high) in parameter_ranges().items():
        values = [each[name] for each in drawn]
        assert low <= min(values) < low + 0.2 * (high - low), name
        assert high - 0.2 * (high - low) < max(values) <= high, name
    assert WorldParameters.draw(5) == WorldParameters.draw(5)


def test_the_documentation_describes_every_parameter() -> None:
    """The API reference shows each parameter with its default, its range and the text below it."""
    page = (Path(__file__).parents[2] / "docs/reference/api/simulation.md").read_text()
    assert f"::: {WorldParameters.__module__}" in page
    [shown] = ast.parse(inspect.getsource(WorldParameters)).body
    assert isinstance(shown, ast.ClassDef)
    described = {
        ast.unparse(parameter.target)
        for parameter, text in pairwise(shown.body)
        if isinstance(parameter, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and len(ast.unparse(text).split()) > 4
    }
    assert described == set(asdict(WorldParameters()))


def test_the_default_lies_in_every_range() -> None:
    values = asdict(WorldParameters.default())
    assert all(low <= values[name] <= high for name, (low, high) in parameter_ranges().items())


def test_a_drawn_world_is_written_the_same_way_twice(tmp_path: Path) -> None:
    for name in ("one", "two"):
        simulate_organisation(12, 8, 7, tmp_path / name, 4, parameters=WorldParameters.draw(2000))
    assert digest(tmp_path / "one") == digest(tmp_path / "two")


def test_insiders_and_intruder_made_users_come_in_addition_to_the_four_strengths() -> None:
    made = world(WorldParameters(insiders=0.25, intruder_made_users=0.1)).attacks
    assert {attack.strength for attack in made[:20]} == set(STRENGTHS)
    assert [attack.strength for attack in made[20:]] == [INSIDER] * 5 + [INTRUDER_MADE] * 2
    assert [attack.name for attack in made[:20]] == [
        attack.name for attack in world(WorldParameters()).attacks
    ]


def test_an_insider_repeats_one_usual_read_in_its_own_session() -> None:
    made = [attack for attack in world(WorldParameters(insiders=0.25)).attacks if attack.strength == INSIDER]
    for attack in made:
        assert len(set(attack.script.forms)) == 1
        assert 150 <= len(attack.script.forms) <= 400
        assert attack.script.offsets[-1] <= 5400
        assert attack.session.address in {
            attack.victim.session("cli", attack.day, half, 0.0).address for half in (0, 1)
        }


def test_a_user_that_an_intruder_made_does_nothing_but_the_attack() -> None:
    made = world(WorldParameters(intruder_made_users=0.25))
    users = [attack.victim for attack in made.attacks if attack.strength == INTRUDER_MADE]
    assert len({user.key for user in users}) == 5
    assert not {user.key for user in users} & {who.key for who in made.staff.people}


def test_a_mimic_that_repeats_calls_at_most_two_of_its_victims_actions() -> None:
    made = world(WorldParameters(repeating_mimics=1.0)).attacks
    mimics = [attack for attack in made if attack.strength == "mimic"]
    assert len(mimics) == 5
    assert all(len(set(attack.script.forms)) <= 2 for attack in mimics)


def test_a_long_tail_without_the_attackers_actions_still_holds_others() -> None:
    apart = world(WorldParameters(attack_only_actions=1.0)).organisation
    assert apart.attack_only_actions == apart.library.attack_actions
    half = len(world(WorldParameters(attack_only_actions=0.5)).organisation.attack_only_actions)
    assert 0.25 < half / len(apart.attack_only_actions) < 0.75
    assert not world(WorldParameters()).organisation.attack_only_actions


def test_a_robbed_newcomer_is_hired_on_the_day_of_the_attack_and_works_that_day() -> None:
    made = world(WorldParameters(robbed_newcomers=0.25))
    robbed = [attack for attack in made.attacks if attack.strength == ROBBED]
    assert len(robbed) == 5
    for attack in robbed:
        assert attack.victim in made.staff.people
        assert not len(attack.victim.simulate_day(attack.day - 1)[0]), "no one before"
        assert len(attack.victim.simulate_day(attack.day)[0]) > 0
        assert 20 <= len(attack.script.forms) <= 100
    assert [attack.name for attack in made.attacks[:20]] == [
        attack.name for attack in world(WorldParameters()).attacks
    ]


def test_however_many_services_no_two_of_them_are_one_principal() -> None:
    parameters = WorldParameters(services_share=0.2)
    organisation = Organisation.create(seed=3, start=DEFAULT_START, days=8, parameters=parameters)
    services = create_staff(organisation, principals=500).services
    assert len(services) == 100 > 3 * len(SERVICE_ROUTINES)
    keys = {(service.key, service.routine.kind, service.account.number) for service in services}
    assert len(keys) == len(services)
    assert all(
        len(service.simulate_day(0)[0]) for service in services if service.routine.period_seconds < 10_000
    )
