"""Dispositions of alerts move a threshold: the whole pipeline, from triaged alerts to the votes of the next bank."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fingerprint.core.alert import Alert, Decision, Disposition
from fingerprint.core.settings import Autoencoder, Settings, Training
from fingerprint.registry import bank_files
from fingerprint.registry.bank import FEEDBACK_COLUMNS, Bank, with_manifest_entries
from fingerprint.store import SqlStore, open_store
from fingerprint.training import attack_injection, feedback
from pipelines import cli
from pipelines.cli.console import no_progress
from pipelines.runtime import training_data
from pipelines.train import train_bank
from tests.support import sample_organisation
from tests.support.sample_organisation import Run, SampleOrganisation
from tests.support.stepwise_pipeline import SETTINGS, Step, pipeline_of, walked

# Not the default: a training goes by its settings. What nets add is not the question here.
OPTIONS = Training(max_threshold_increase=0.16, max_threshold_decrease=0.16)
QUICK = Settings(autoencoder=Autoencoder(max_epochs=0), training=OPTIONS)
THRESHOLD, RAISED = 2.6, 1 + SETTINGS.training.max_threshold_increase
HIGHER = SETTINGS.model_copy(  # above the floor of stored votes, so that there are some on both sides
    update={"autoencoder": SETTINGS.autoencoder.model_copy(update={"threshold": THRESHOLD})}
)
WIDE = Training(
    max_threshold_increase=0.5, max_threshold_decrease=0.5
)  # moves enough to be seen on a few days
FROGS = 60  # alerts by which someone has the analyst call everything benign
OWN = ("entity", "principal")


@pytest.fixture(scope="module")
def scored(organisation: SampleOrganisation, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The new days by the bank of the others."""
    return sample_organisation.run(
        organisation.new, organisation.bank, tmp_path_factory.mktemp("scored"), HIGHER
    )


def own_opinions(run: Run) -> pd.DataFrame:
    """What the autoencoder says of events by a fingerprint of their entity or principal, if it is worth keeping."""
    votes = run.store.votes.read()
    return votes[(votes["detector"] == "autoencoder") & votes["level"].isin(OWN)].set_index("event_id")


def said_of(one: pd.Series, decision: Decision, times: int, bank: Bank) -> pd.DataFrame:
    """So many alerts of the entity of one event, all judged alike, just before the bank's history ended."""
    end = pd.Timestamp(bank.manifest["watermark"], unit="s", tz="UTC")
    rows = [(f"alert{n}", one["principal"], one["entity"], end, decision) for n in range(times)]
    return pd.DataFrame(rows, columns=list(feedback.DISPOSITION_COLUMNS))


def scored_by(bank: Bank, organisation: SampleOrganisation, folder: Path) -> Run:
    """The new days, by another bank."""
    bank_files.publish_version(bank, folder / "bank")
    return sample_organisation.run(organisation.new, folder / "bank", folder, HIGHER)


def key_of(votes: pd.DataFrame) -> pd.Series:
    return votes["entity"].where(votes["level"] == "entity", votes["principal"])


def shift_of(bank: Bank, key: str) -> float:
    stack = bank.fingerprints
    return float(bank.shift[stack["ready"] & (stack["level"] <= 1) & (stack["key"] == key)][0])


def everybody_raised(bank: Bank, share: float = SETTINGS.training.max_threshold_increase) -> Bank:
    """As if an analyst had called everything benign, of everyone, for ever."""
    columns = dict(zip(FEEDBACK_COLUMNS, (np.float32(share), FROGS, 0), strict=True))
    return with_manifest_entries(
        replace(bank, fingerprints=bank.fingerprints.assign(**columns)), note="all raised"
    )


# --- from a bank to its votes ---------------------------------------------------------------------------------------------


def moves_only(bank: Bank, before: pd.DataFrame, after: pd.DataFrame, key: str) -> float:
    """Nothing differs but what the threshold of one fingerprint is held against; that threshold."""
    moved = 1 + shift_of(bank, key)
    theirs = key_of(before) == key
    expected = before["z"].where(~theirs, before["z"] / moved)
    kept = expected[expected >= SETTINGS.database.min_vote_score]
    found = after["z"].reindex(kept.index)
    np.testing.assert_allclose(found, kept, rtol=1e-5)
    assert set(after.index) - set(before.index) <= set(after.index[key_of(after) == key])
    assert (after["vote"].astype(bool) == (after["z"] >= THRESHOLD)).all()
    return THRESHOLD * moved


def test_whose_alerts_were_called_benign_needs_more_next_time_and_no_one_else_does(
    organisation: SampleOrganisation, bank: Bank, scored: Run, tmp_path: Path
) -> None:
    before = own_opinions(scored)
    weak = before[before["vote"].astype(bool)].sort_values("z").iloc[0]
    raised = feedback.apply_feedback(bank, said_of(weak, "benign", FROGS, bank), WIDE)
    after = own_opinions(scored_by(raised, organisation, tmp_path))
    assert moves_only(raised, before, after, key_of(weak.to_frame().T).iloc[0]) > weak["z"] >= THRESHOLD
    assert not after.loc[weak.name, "vote"]


def test_who_was_robbed_before_needs_less_next_time_and_no_one_else_does(
    organisation: SampleOrganisation, bank: Bank, scored: Run, tmp_path: Path
) -> None:
    before = own_opinions(scored)
    strong = before[~before["vote"].astype(bool)].sort_values("z").iloc[-1]
    lowered = feedback.apply_feedback(bank, said_of(strong, "true_positive", FROGS, bank), WIDE)
    after = own_opinions(scored_by(lowered, organisation, tmp_path))
    assert moves_only(lowered, before, after, key_of(strong.to_frame().T).iloc[0]) <= strong["z"] < THRESHOLD
    assert after.loc[strong.name, "vote"]


def test_an_attack_well_above_the_threshold_is_found_although_everything_was_called_benign(
    organisation: SampleOrganisation, bank: Bank, scored: Run, tmp_path: Path
) -> None:
    frogged = scored_by(everybody_raised(bank), organisation, tmp_path)
    before, after = (run.events.set_index("event_id") for run in (scored, frogged))
    clear = before["verdict"] & (before["autoencoder_z"] >= RAISED * THRESHOLD)
    assert clear.sum() > 10
    assert after.loc[clear, "verdict"].all()
    assert not (after["verdict"] & ~before["verdict"]).any()
    largest = max(scored.alerts, key=lambda alert: len(alert.events))
    assert largest.alert_id in {alert.alert_id for alert in frogged.alerts}


def test_an_event_is_held_to_the_threshold_of_the_bank_that_measured_it(
    bank: Bank, steps: list[Step]
) -> None:
    """Also where another bank judges when its interval closes."""
    raised = everybody_raised(bank)

    def swap(pipeline: Any, step: Step) -> Any:
        if step is steps[len(steps) // 2]:
            pipeline.swap_bank(bank)
        return pipeline

    one, other = (
        walked(pipeline_of(first, bank.scorer_state), steps, swap).events for first in (bank, raised)
    )
    assert one.index.equals(other.index)
    measured = other["bank_version"] == raised.version
    assert min(measured.sum(), (~measured).sum()) > 100
    held = np.where(measured, RAISED, 1.0)
    np.testing.assert_allclose(other["autoencoder_z"] * held, one["autoencoder_z"], rtol=1e-4, atol=1e-4)


def test_the_gate_sees_a_bank_that_words_have_made_blind(bank: Bank) -> None:
    attacks = attack_injection.inject_known_attacks(bank, SETTINGS)
    then, bound, blind = (
        attack_injection.attack_scores(each, attacks)
        for each in (bank, everybody_raised(bank), everybody_raised(bank, share=9.0))
    )
    clear = then >= RAISED * THRESHOLD
    assert clear.sum() > 5
    assert (bound[clear] >= THRESHOLD * (1 - 1e-6)).all()
    assert not (blind >= THRESHOLD).any()


# --- from an alert store to a bank ----------------------------------------------------------------------------------


def alert_of(alert: Alert, name: str, entity: str) -> Alert:
    """An alert of an entity at the same time, whose one event no history holds."""
    event = replace(alert.events[0], event_id=f"{name} event", entity=entity)
    principal, moment = entity.split("|")[0], event.event_time
    times = {"first_event_time": moment, "last_event_time": moment}
    return replace(alert, alert_id=name, principal=principal, events=(event,), **times)


def say(store: SqlStore, alert: Alert, decision: Decision, of: str = "") -> None:
    store.alerts.save([alert])
    at = alert.last_event_time + timedelta(hours=1)
    store.cases.add_disposition(Disposition(alert.alert_id, decision, "maria", "", at, len(alert.events), of))


@pytest.fixture(scope="module")
def entities(bank: Bank) -> list[str]:
    """Three that are ready."""
    stack = bank.fingerprints
    return stack.loc[stack["ready"] & (stack["level"] == 0), "key"].astype(str).tolist()[:3]


@pytest.fixture(scope="module")
def store(scored: Run, entities: list[str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of one entity two alerts were called benign and one has a duplicate, of another one malicious, of a third one is open."""
    return triaged(tmp_path_factory.mktemp("store"), scored.alerts[0], entities)


def triaged(folder: Path, alert: Alert, entities: list[str]) -> str:
    url = f"sqlite:///{folder}/alerts.sqlite"
    store = open_store(url)
    benign, malicious, unjudged = entities
    say(store, alert_of(alert, "one", benign), "benign")
    say(store, alert_of(alert, "other", benign), "false_positive")
    say(store, alert_of(alert, "again", benign), "duplicate", of="one")
    say(store, alert_of(alert, "theft", malicious), "true_positive")
    store.alerts.save([alert_of(alert, "stranger", unjudged)])
    return url


def learn(organisation: SampleOrganisation, folder: Path, store: str, settings: Settings = QUICK) -> Bank:
    train_bank(organisation.days, folder, settings, no_progress, store=store)
    return bank_files.open_bank(folder)


@pytest.fixture(scope="module")
def told(organisation: SampleOrganisation, store: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a bank lies that was learned by that alert store, and before it one by no one's word."""
    folder = tmp_path_factory.mktemp("told") / "bank"
    learn(organisation, folder, "none")
    learn(organisation, folder, store)
    return folder


def moved(bank: Bank) -> pd.DataFrame:
    stack = bank.fingerprints
    return stack.loc[bank.shift != 0, ["key", *FEEDBACK_COLUMNS]].set_index("key").sort_index()


def test_the_next_bank_carries_what_was_said_and_nothing_else_of_it_differs(
    told: Path, entities: list[str]
) -> None:
    bank = bank_files.open_bank(told)
    found = moved(bank)
    assert found.loc[entities[0], ["benign", "malicious"]].tolist() == [2, 0]
    assert found.loc[entities[1], ["benign", "malicious"]].tolist() == [0, 1]
    half = (
        OPTIONS.max_threshold_increase / 2,
        -OPTIONS.max_threshold_decrease / 2,
    )  # of which a few days have faded
    np.testing.assert_allclose(found.loc[entities[:2], "shift"], half, rtol=0.05)
    assert len(found) == 2
    assert bank.manifest["shifted"] == {"raised": 1, "lowered": 1}
    (older,) = (each for each in versions_in(told) if each != bank.version)
    before = bank_files.open_bank(told, version=older)
    pd.testing.assert_frame_equal(bank.fingerprints.drop(columns=list(FEEDBACK_COLUMNS)), before.fingerprints)
    for name in ("center", "rate"):
        np.testing.assert_array_equal(getattr(bank.baseline, name), getattr(before.baseline, name))


def test_an_attack_that_was_confirmed_joins_what_the_gate_asks_the_next_bank(told: Path) -> None:
    tried = bank_files.open_bank(told).manifest["gate"]["confirmed"]
    assert (tried["before"]["attacks"], tried["now"]["attacks"]) == (1, 1)


def versions_in(folder: Path) -> list[str]:
    return [each.name for each in (folder / "versions").iterdir()]


def test_without_room_to_move_words_change_nothing(bank: Bank, scored: Run) -> None:
    options = Training(max_threshold_increase=0, max_threshold_decrease=0)
    said = said_of(own_opinions(scored).iloc[0], "benign", FROGS, bank)
    assert feedback.apply_feedback(bank, said, OPTIONS).shift.any()
    unmoved = feedback.apply_feedback(bank, said, options)
    assert not unmoved.shift.any()
    assert "shifted" not in unmoved.manifest


class Killed(Exception):
    pass


@pytest.mark.parametrize("decided", [False, True])
def test_a_training_that_was_broken_off_goes_on_unless_something_was_decided_since(
    organisation: SampleOrganisation,
    told: Path,
    entities: list[str],
    scored: Run,
    tmp_path: Path,
    decided: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else an attack that was confirmed in the meantime would be learned, and the bank that learned it served.

    Other words make another version, or they would never be served. How the history is cut into pieces moves no threshold.
    """
    url, bank = triaged(tmp_path, scored.alerts[0], entities), tmp_path / "bank"
    pieces = QUICK.model_copy(update={"training": OPTIONS.model_copy(update={"partition_events": 5000})})
    settings = QUICK if decided else pieces

    def dying(stage: str, done: int, of: int = 0) -> None:
        if stage == "fitting":
            raise Killed

    with pytest.raises(Killed):
        train_bank(organisation.days, bank, settings, dying, store=url)
    (bank / "work" / "train-of-an-earlier-release").mkdir()
    if decided:
        say(open_store(url), alert_of(scored.alerts[0], "later", entities[2]), "true_positive")
    else:
        monkeypatch.setattr(training_data, "load_history", None)  # it is not read again
    learned = learn(organisation, bank, url, settings)
    found, before = moved(learned), moved(bank_files.open_bank(told))
    pd.testing.assert_frame_equal(found.loc[before.index], before)
    assert len(versions_in(told)) == 2
    assert learned.version not in versions_in(told) or not decided
    assert found.index.difference(before.index).tolist() == ([entities[2]] if decided else [])
    assert not (bank / "work").exists(), "nothing that was left takes up the disk"


# --- what people read -------------------------------------------------------------------------------------------------------


def said(capsys: pytest.CaptureFixture[str], arguments: Iterable[object]) -> str:
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fingerprint", *map(str, arguments)])
        patch.setenv("COLUMNS", "300")
        patch.setenv("FINGERPRINT_ALERTS__THRESHOLD", str(THRESHOLD))
        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert not ended.value.code
    return capsys.readouterr().out


def test_a_person_reads_whose_threshold_was_moved_and_why(
    told: Path, entities: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    half, usual = THRESHOLD * OPTIONS.max_threshold_increase / 2, f"{THRESHOLD:.1f}"
    raised = f"{usual} + {half:.1f} (2 alerts closed as benign)  {entities[0]}"
    lowered = f"{usual} - {half:.1f} (1 alert closed as malicious)  {entities[1]}"
    shown = said(capsys, ["bank", "show", "--bank", told])
    assert "thresholds adjusted by dispositions" in shown
    assert raised in shown
    assert lowered in shown
    now = bank_files.open_bank(told).version
    (before,) = [each for each in versions_in(told) if each != now]
    differs = said(capsys, ["bank", "diff", before, now, "--bank", told])
    assert "thresholds that dispositions adjusted since: 2" in differs
    assert raised in differs
    assert lowered in differs
    assert f"{usual}, was {THRESHOLD + half:.1f}  {entities[0]}" in said(
        capsys, ["bank", "diff", now, before, "--bank", told]
    )
    figures = json.loads(said(capsys, ["bank", "diff", before, now, "--bank", told, "--json"]))
    assert {each["key"] for each in figures["shifted"]["entities"]} == set(entities[:2])


def test_an_alert_says_which_moved_threshold_it_passed_all_the_same(
    organisation: SampleOrganisation,
    bank: Bank,
    scored: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    largest = max(scored.alerts, key=lambda alert: len(alert.events))
    one = own_opinions(scored).loc[list(largest.event_ids)].iloc[0]
    raised = feedback.apply_feedback(bank, said_of(one, "benign", 2, bank), OPTIONS)
    run = scored_by(raised, organisation, tmp_path)
    show = [
        "alerts",
        "show",
        largest.alert_id,
        "--database",
        f"sqlite:///{run.out.parent}/alerts.sqlite",
        "--bank",
    ]
    key = key_of(one.to_frame().T).iloc[0]
    shown = " ".join(said(capsys, [*show, tmp_path / "bank"]).split())
    half = THRESHOLD * OPTIONS.max_threshold_increase / 2
    assert f"threshold {THRESHOLD:.1f} + {half:.1f} (2 alerts closed as benign), {key}" in shown
    figures = json.loads(said(capsys, [*show, tmp_path / "bank", "--json"]))
    wanted = {"key": key, "threshold": THRESHOLD, "shift": 0.08, "benign": 2, "malicious": 0}
    assert figures["thresholds"] == [wanted]
    assert "alerts closed as" not in said(capsys, [*show, tmp_path / "no bank"])
    assert "alerts closed as" not in said(capsys, [*show, organisation.bank])  # has not that version
