"""When an alert about an attack is there: with which record, and that small steps find what one large step finds."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from fingerprint.adapters import files
from fingerprint.compute import hashing
from fingerprint.evaluation import time_to_alert
from fingerprint.evaluation.labels import attack_labels, find_label_rows, names_at
from fingerprint.evaluation.time_to_alert import STEP_DIVISOR, VerdictPipeline, find_alerting_records
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import ScorerState
from pipelines.evaluation.time_to_alert import ArrivalOrderSpool
from tests.support import sample_organisation


@pytest.fixture(scope="module")
def known(organisation: sample_organisation.SampleOrganisation) -> pd.DataFrame:
    return attack_labels(json.loads(line) for line in (organisation.folder / "labels.jsonl").open())


@pytest.fixture(scope="module")
def arrived(organisation: sample_organisation.SampleOrganisation, known: pd.DataFrame) -> pd.DataFrame:
    """The last days' events of everybody who was attacked, as they arrived."""
    with ArrivalOrderSpool(sample_organisation.SETTINGS) as history:
        history.add_batches(files.read_sources(organisation.new, sample_organisation.SETTINGS.reading))
        events = pd.concat(history.batches(), ignore_index=True).sort_values("arrival", ignore_index=True)
    victims = events.loc[events["event_id"].isin(known["event_id"]), "principal"]
    return events[events["principal"].isin(victims)].reset_index(drop=True)


@pytest.fixture(scope="module")
def session(arrived: pd.DataFrame, known: pd.DataFrame) -> NDArray[np.int64]:
    """The number of the session that each event belongs to, -1 for none."""
    place = find_label_rows(hashing.hash_strings(arrived["event_id"]), known)
    return np.asarray(names_at(known["session"], place).codes, np.int64)


@pytest.fixture(scope="module")
def verdicts(arrived: pd.DataFrame, scored: sample_organisation.Run) -> NDArray[np.bool_]:
    """Which of them have a verdict in the end."""
    told = scored.events
    return arrived["event_id"].isin(told.loc[told["verdict"], "event_id"]).to_numpy()


def listening(bank: Bank) -> VerdictPipeline:
    return VerdictPipeline(
        bank,
        ScorerState.from_arrays(sample_organisation.SETTINGS, bank.scorer_state),
        sample_organisation.SETTINGS,
    )


def verdicts_until(bank: Bank, arrived: pd.DataFrame, place: int) -> NDArray[np.uint64]:
    """Who has a verdict once so many records have arrived, walked in one step."""
    walked = listening(bank)
    walked.process(arrived.iloc[:place])
    return walked.take_verdicts(np.unique(hashing.hash_with_bucket(arrived["principal"])))


def test_events_come_in_the_order_in_which_they_were_delivered(
    organisation: sample_organisation.SampleOrganisation, arrived: pd.DataFrame
) -> None:
    order = [json.loads(line)["eventID"] for line in sample_organisation.lines_of(organisation.new)]
    mine = set(arrived["event_id"])
    assert arrived["event_id"].tolist() == [name for name in order if name in mine]
    assert not arrived["event_time"].is_monotonic_increasing, "some of it was delivered late"


def test_a_session_is_in_an_alert_from_the_record_on_that_tips_it_and_not_before(
    bank: Bank, arrived: pd.DataFrame, session: NDArray[np.int64], verdicts: NDArray[np.bool_]
) -> None:
    found = sorted(set(session[verdicts].tolist()) - {-1})
    assert found, "nothing was found, so nothing can be tipped"
    table = find_alerting_records(listening(bank), arrived, session, found)
    assert table.index.tolist() == found
    event = hashing.hash_strings(arrived["event_id"])
    for number, place in table["place"].items():
        first = int(np.flatnonzero(session == number)[0])
        step = max((place - first) // STEP_DIVISOR, 1)
        mine = event[session == number]
        assert np.isin(verdicts_until(bank, arrived, place + 1), mine).any()
        assert not np.isin(verdicts_until(bank, arrived, place + 1 - step), mine).any()


def test_small_steps_end_with_the_verdicts_of_an_undivided_run(
    bank: Bank, arrived: pd.DataFrame, verdicts: NDArray[np.bool_]
) -> None:
    walked, heard = listening(bank), []
    everybody = np.unique(hashing.hash_with_bucket(arrived["principal"]))
    for start in range(0, len(arrived), 97):
        walked.process(arrived.iloc[start : start + 97].reset_index(drop=True))
        heard.append(walked.take_verdicts(everybody))
    walked.flush()
    heard.append(walked.take_verdicts(everybody))
    assert set(np.concatenate(heard)) == set(hashing.hash_strings(arrived.loc[verdicts, "event_id"]))


def test_times_are_told_in_all_and_by_strength() -> None:
    found = pd.DataFrame(
        {"strength": ["smash", "smash", "quiet"], "seconds": [0.0, 10.0, 50.0], "events": [1, 3, 2]}
    )
    times = time_to_alert.time_to_alert(found)
    assert times["all"] == {
        "sessions": 3, "median_seconds": 10.0, "p90_seconds": 42.0, "median_events": 2.0, "p90_events": 2.8
    }  # fmt: skip
    assert times["smash"]["median_seconds"] == 5.0
    assert time_to_alert.time_to_alert(found.iloc[:0]) == {}
