"""Score, then learn; learn slowly from what was flagged: the whole pipeline, from an alert store with alerts to the next bank."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.core.alert import Alert, Decision
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import IsolationForestSettings, Settings, Training, Voting
from fingerprint.registry import bank_files
from fingerprint.store import SqlStore, open_store
from fingerprint.training import exclusions
from pipelines import cli
from pipelines.cli import console
from pipelines.cli.console import no_progress
from pipelines.commands.triage import triage_alert
from pipelines.runtime import training_data
from pipelines.runtime.training_data import TrainingDataRequest
from pipelines.train import train_bank
from tests.support import sample_organisation
from tests.support.sample_organisation import SETTINGS, Run, SampleOrganisation

LATER = 3  # days after the history, everything in it is done again


class Learned(NamedTuple):
    """A bank that learned all twelve days, and what it says when the last three are done again."""

    figures: dict[str, Any]
    bank: Path
    run: Run

    def finds(self, alert: Alert) -> float:
        """Share of an alert's events that get a verdict when they are done again."""
        again = {f"again {event}" for event in alert.event_ids}
        events = self.run.events
        return float(events.loc[events["event_id"].isin(again), "verdict"].mean())


def again(lines: Iterable[bytes]) -> Iterable[bytes]:
    """The same done LATER days later."""
    for line in lines:
        record = json.loads(line)
        at = datetime.fromisoformat(record["eventTime"]) + timedelta(days=LATER)
        record |= {"eventTime": f"{at:%Y-%m-%dT%H:%M:%SZ}", "eventID": f"again {record['eventID']}"}
        yield json.dumps(record).encode()


def learn(organisation: SampleOrganisation, folder: Path, store: str) -> Learned:
    figures = train_bank(organisation.days, folder / "bank", SETTINGS, no_progress, store=store)
    later = sample_organisation.write(
        folder / "later.jsonl", again(sample_organisation.lines_of(organisation.new))
    )
    return Learned(
        figures, folder / "bank", sample_organisation.run([later], folder / "bank", folder / "run")
    )


@pytest.fixture(scope="module")
def store(organisation: SampleOrganisation, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The last three days scored by a bank that had not seen them: attacks lie on an alert store, and no one has judged them."""
    return sample_organisation.run(organisation.new, organisation.bank, tmp_path_factory.mktemp("store"))


def url(store: Run) -> str:
    return f"sqlite:///{store.out.parent}/alerts.sqlite"


def copy(store: Run, folder: Path) -> str:
    """The same alert store, for someone to judge."""
    place = open_store(f"sqlite:///{folder}/copy.sqlite")
    place.alerts.save(store.alerts, store.store.votes.read())
    return f"sqlite:///{folder}/copy.sqlite"


def attacks(store: Run) -> list[Alert]:
    """The two most urgent alerts of people, the more urgent first: large sessions, of which a single event says little."""
    return sorted((alert for alert in store.alerts if alert.human), key=lambda alert: -alert.urgency)[:2]


@pytest.fixture(scope="module")
def history(organisation: SampleOrganisation) -> Iterator[EventSpool]:
    """All days, read once; no test changes it."""
    with EventSpool(SETTINGS) as spool:
        spool.add_batches(files.read_sources(organisation.days, SETTINGS.reading))
        yield spool


@pytest.fixture(scope="module")
def asked(organisation: SampleOrganisation, store: Run, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """Trained when the less urgent attack had been called benign, and no one had judged the rest."""
    folder = tmp_path_factory.mktemp("asked")
    place = copy(store, folder)
    triage_alert(place, attacks(store)[1].alert_id, "benign", "the yearly audit")
    return learn(organisation, folder, place)


@pytest.fixture(scope="module")
def unasked(organisation: SampleOrganisation, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """Trained without an alert store."""
    return learn(organisation, tmp_path_factory.mktemp("unasked"), "none")


# --- alerts -------------------------------------------------------------------------------------------------------------


def test_an_attack_that_was_alerted_does_not_become_a_habit(asked: Learned, store: Run) -> None:
    # Its network is the victim's third new one by then, so fewer of its events reach the alerts' threshold than at first.
    assert asked.finds(attacks(store)[0]) > 0.2
    cleared = set(attacks(store)[1].event_ids)
    alerted = {event for alert in store.alerts for event in alert.event_ids}
    single = set(on_events(store.store)["event_id"]) - alerted
    counted = {"malicious": 0, "open": len(alerted - cleared), "recent vote": len(single), "past the cap": 0}
    assert asked.figures["left_out"] == counted


def test_what_was_called_benign_is_quiet_after_the_next_training(asked: Learned, store: Run) -> None:
    benign = attacks(store)[1]
    assert asked.finds(benign) < 0.1
    assert asked.figures["came_back"] == {"called benign": len(benign.events), "returned vote": 0}


def test_an_attack_is_learned_where_no_one_is_asked(unasked: Learned, store: Run) -> None:
    """So that it is the alert store's word that keeps it out, and nothing else."""
    assert all(unasked.finds(alert) < 0.1 for alert in attacks(store))
    assert not any(unasked.figures["left_out"].values())


def test_what_is_called_rare_is_measured_with_the_events_that_are_not_learned(
    unasked: Learned, asked: Learned
) -> None:
    """Without them each training would set lower thresholds than the one before it."""
    of_all, of_the_rest = (bank_files.open_bank(each.bank).manifest["quality"] for each in (unasked, asked))
    assert asked.figures["left_out"]["recent vote"] > 50
    strongest, all_strongest = (sorted(each["alerts"])[-12:] for each in (of_the_rest, of_all))
    assert sum(strongest) > 0.95 * sum(all_strongest)  # 0.8 without the events that are not learned


def test_what_was_called_malicious_is_never_learned(history: EventSpool, store: Run, tmp_path: Path) -> None:
    place, known = copy(store, tmp_path), attacks(store)[0]
    triage_alert(place, known.alert_id, "true_positive", "keys were stolen")
    counted, learned = left(history, place, single_vote_exclusion_days=0)
    assert counted["malicious"] == len(known.events)
    assert not learned["event_id"].isin(known.event_ids).any()


def test_only_the_alerts_own_events_of_its_principal_are_left_out(asked: Learned, store: Run) -> None:
    """What someone did all those days beside what was flagged is still their habit."""
    bank = bank_files.open_bank(asked.bank)
    stack = bank.fingerprints.set_index("key")
    for alert in attacks(store):
        assert stack.loc[alert.principal, "ready"].any()


def test_the_bank_says_what_it_did_not_learn(asked: Learned, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = bank_files.open_bank(asked.bank).manifest
    assert manifest["left_out"] == asked.figures["left_out"]
    cli_says(capsys, "bank", "show", "--bank", str(asked.bank))
    assert f"left out of training: {manifest['left_out']['open']:,} in open alerts" in shown(capsys)


# --- single votes -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def votes(organisation: SampleOrganisation, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An alert store with single votes and no alert: the other detector says no to everything."""
    folder = tmp_path_factory.mktemp("votes")
    calm = SETTINGS.model_copy(
        update={
            "voting": Voting(detectors=("autoencoder", "isolation_forest")),
            "isolation_forest": IsolationForestSettings(threshold=1e9),
        }
    )
    run = sample_organisation.run(organisation.new, organisation.bank, folder, calm)
    assert (run.figures["verdicts"], run.alerts) == (0, [])
    return url(run)


def left(history: EventSpool, store: str, **training: float) -> tuple[dict[str, int], pd.DataFrame]:
    """What a training of all days leaves out by the alert store, and what it learns."""
    settings = SETTINGS.model_copy(update={"training": Training(**training)})
    flagged, _ = training_data.load_exclusions(TrainingDataRequest(database=store), history, settings)
    marked = pd.concat(list(flagged.mark(history.batches())))
    learned = marked[exclusions.is_learned(marked)]
    return flagged.excluded_counts() | flagged.readmitted_counts(), learned.drop_duplicates("event_id")


def on_events(store: SqlStore) -> pd.DataFrame:
    voted = store.votes.read()
    on_event = voted["vote"].astype(bool) & voted["detector"].isin(["autoencoder", "sequence"])
    return voted[on_event].drop_duplicates("event_id")


def test_a_single_vote_stays_out_while_it_is_young_and_comes_back_after_its_days(
    history: EventSpool, votes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusions, "MAX_RETURNED_VOTES", 10**6)
    voted = on_events(open_store(votes))
    counted, learned = left(history, votes)
    assert counted["recent vote"] == len(voted) > 200
    assert not learned["event_id"].isin(voted["event_id"]).any()
    days = (learned["event_time"].max() - voted["event_time"].median()) / pd.Timedelta(days=1)
    counted, learned = left(history, votes, single_vote_exclusion_days=days)
    young = voted["event_time"] > voted["event_time"].median()
    assert counted["recent vote"] == young.sum() > 0
    assert counted["returned vote"] == (~young).sum() > 0
    assert set(voted["event_id"][~young]) <= set(learned["event_id"])
    assert not set(voted["event_id"][young]) & set(learned["event_id"])


def test_no_more_than_the_cap_comes_back_of_one_entity_and_day(history: EventSpool, votes: str) -> None:
    voted = on_events(open_store(votes))
    counted, learned = left(history, votes, single_vote_exclusion_days=0)
    back = voted[voted["event_id"].isin(learned["event_id"])]
    of_each, wanted = (
        Counter(zip(part["entity"], part["event_time"].dt.date, strict=True)) for part in (back, voted)
    )
    assert of_each == {key: min(count, 20) for key, count in wanted.items()}
    assert counted["past the cap"] == len(voted) - len(back) > 100
    assert counted["returned vote"] == len(back)


def test_an_expired_vote_and_a_purged_alert_are_not_known_any_more(
    history: EventSpool, store: Run, tmp_path: Path
) -> None:
    """An alert that is gone leaves its single votes; where these are gone too, the events are learned."""
    place = open_store(f"sqlite:///{tmp_path}/alerts.sqlite")
    place.alerts.save(votes=store.store.votes.read())
    counted, _ = left(history, f"sqlite:///{tmp_path}/alerts.sqlite")
    assert (counted["open"], counted["recent vote"]) == (0, len(on_events(store.store)))
    open_store(f"sqlite:///{tmp_path}/empty.sqlite")
    counted, _ = left(history, f"sqlite:///{tmp_path}/empty.sqlite")
    assert sum(counted.values()) == 0


# --- which alert store ------------------------------------------------------------------------------------------


def with_store(url: str) -> Settings:
    return SETTINGS.model_copy(update={"database": SETTINGS.database.model_copy(update={"url": url})})


def asks(settings: Settings, store: str | None, history: EventSpool) -> dict[str, Any]:
    return training_data.load_exclusions(TrainingDataRequest(database=store), history, settings)[1]


def test_the_store_of_the_settings_is_asked_where_there_is_one(
    organisation: SampleOrganisation, store: Run, tmp_path: Path
) -> None:
    nothing = f"sqlite:///{tmp_path}/nothing.sqlite"
    with EventSpool(SETTINGS) as history:
        history.add_batches(files.read_sources(organisation.new[:1], SETTINGS.reading))
        said = asks(with_store(url(store)), None, history)
        assert said["url"] == url(store)
        assert said["votes_since"] == store.store.votes.read()["event_time"].min().isoformat()
        assert asks(with_store(nothing), None, history)["url"] is None
        assert asks(with_store(url(store)), "none", history)["url"] is None
        with pytest.raises(FingerprintError, match="a first training needs none, so leave --database out"):
            asks(SETTINGS, nothing, history)
        with pytest.raises(
            FingerprintError, match="database postgresql"
        ):  # it may know attacks: not passed over
            asks(with_store("postgresql://user@127.0.0.1:1/db"), None, history)


# --- at the keyboard ------------------------------------------------------------------------------------------------------


def cli_says(capsys: pytest.CaptureFixture[str], *arguments: str) -> int:
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fingerprint", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return int(ended.value.code or 0)


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_an_alert_is_judged_at_the_keyboard(
    store: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = copy(store, tmp_path)
    alert, other = attacks(store)
    triage = ("alerts", "triage", "--database", place, "--by", "maria")
    assert cli_says(capsys, *triage, alert.alert_id[:8], "benign", "--why", "the yearly audit") == 0
    assert f"{alert.alert_id} is benign, says maria" in shown(capsys)
    assert cli_says(capsys, *triage, other.alert_id, "duplicate", "--of", alert.alert_id[:8], "--json") == 0
    assert json.loads(capsys.readouterr().out)["duplicate_of"] == alert.alert_id
    said: dict[str, Decision] = open_store(place).cases.current_decisions()
    assert said == {alert.alert_id: "benign", other.alert_id: "benign"}
    assert open_store(place).cases.dispositions(alert.alert_id)[0].why == "the yearly audit"


def test_a_span_of_days_is_learned_without_what_the_store_of_the_settings_says(
    organisation: SampleOrganisation,
    store: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, last = (Path(file).name[:10] for file in (organisation.days[-4], organisation.days[-1]))
    monkeypatch.setenv("FINGERPRINT_DATABASE__URL", url(store))
    monkeypatch.setenv("FINGERPRINT_AUTOENCODER__MAX_EPOCHS", "0")
    span = ("--since", first, "--until", last)
    train = ("train", str(organisation.folder), *span, "--bank", str(tmp_path / "bank"))
    assert cli_says(capsys, *train, "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert [at[:10] for at in figures["span"]] == [first, last]
    assert figures["records"] - figures["outside"] > figures["events"] > 0
    inside = [
        event for alert in store.alerts for event in alert.events if f"{event.event_time:%Y-%m-%d}" < last
    ]
    assert figures["left_out"]["open"] == len(inside) > 0
    assert figures["database"]["url"] == url(store)
    console.print_training(figures)
    said = shown(capsys)
    assert f"left out, because they are not of the days asked for: {figures['outside']:,} events" in said
    assert f"left out, according to {url(store)}: {len(inside):,} in open alerts" in said


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("duplicate",), "--of"),
        (("benign", "--of", "x"), "--of"),
        (("harmless",), "harmless"),
    ],
)
def test_what_makes_no_disposition_is_one_sentence(
    store: Run, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], named: str
) -> None:
    first = attacks(store)[0].alert_id
    assert cli_says(capsys, "alerts", "triage", "--database", url(store), first, *arguments) == 2
    said = capsys.readouterr().err
    assert named in said
    assert len(said.splitlines()) == 1
