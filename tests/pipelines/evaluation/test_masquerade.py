"""Sessions moved on real logs: who may be a victim, what stays of a call, and every method asked for the same sessions."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from fingerprint.core.settings import Autoencoder, Settings
from fingerprint.sources.cloudtrail import samples
from pipelines.cli.console import no_progress
from pipelines.evaluation.masquerade import (
    MAX_SESSION_EVENTS,
    draw_sessions,
    evaluate_masquerade,
    moved_records,
)
from pipelines.evaluation.standing_table import real_attack_tables

SETTINGS = Settings(autoencoder=Autoencoder(max_epochs=1))


def test_a_victim_is_known_and_a_donor_is_another_who_acts_in_what_is_judged(events: pd.DataFrame) -> None:
    moved = [session for seed in range(40) for session in draw_sessions(events, seed)]
    assert {session.victim for session in moved} == {"ann", "robot", "bob"}, "Cy is not known yet"
    assert {session.donor for session in moved} == {"ann", "robot", "cy"}, "Bob has gone home"
    for session in moved:
        assert session.victim != session.donor
        assert len(session.rows) == MAX_SESSION_EVENTS
        assert (events["seconds"].iloc[session.rows] >= 0.6 * 99 * 60).all()
        assert set(events["principal"].iloc[session.rows]) == {session.donor}


def test_a_moved_call_keeps_all_but_who_made_it(events: pd.DataFrame) -> None:
    moved = draw_sessions(events, 0)
    records, labels = moved_records(events, moved)
    made = [json.loads(each) for each in records]
    assert {each["userIdentity"]["userName"] for each in made} == {moved[0].victim}
    assert {each["recipientAccountId"] for each in made} == {moved[0].victim}
    assert {each["sourceIPAddress"] for each in made} == {f"of {moved[0].donor}"}
    assert [each["eventID"] for each in made] == [label["event_id"] for label in labels]
    assert not {each["eventID"] for each in made} & set(events["event_id"])


def test_every_method_is_asked_for_the_same_moved_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    figures = evaluate_masquerade(
        samples.data_folder("real/prod_slice_anonymised"), SETTINGS, no_progress, draws=1
    )
    assert figures is not None
    assert figures["sessions"] > 1
    assert {method["sessions"] for method in figures["methods"].values()} == {figures["sessions"]}
    assert {"log-rarity", "first-seen action", "autoencoder alone"} <= set(figures["methods"])
    for method in figures["methods"].values():
        assert 0 <= method["found_per_100"]["1"] <= method["found_per_100"]["20"] <= figures["sessions"]
    assert max(method["recall_per_100"]["20"] for method in figures["methods"].values()) > 0
    tables = real_attack_tables({"masquerade": [figures], "labelled": []})
    assert "Real records" in str(tables[0].caption)
    assert json.loads(json.dumps(figures)) == figures


def test_a_set_of_strangers_has_no_one_to_pretend_to_be() -> None:
    folder = samples.data_folder("real/schema_variety")
    assert evaluate_masquerade(folder, SETTINGS, no_progress) is None
