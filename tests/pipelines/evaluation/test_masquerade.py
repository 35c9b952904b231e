"""Sessions moved on real logs: who may be a victim, what stays of a call, and both kinds of real attack from end to end."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fingerprint.core.settings import Autoencoder, Settings
from fingerprint.sources.cloudtrail import samples
from pipelines.cli.console import no_progress
from pipelines.evaluation import masquerade
from pipelines.evaluation.masquerade import (
    MAX_SESSION_EVENTS,
    draw_sessions,
    evaluate_labelled,
    evaluate_masquerade,
    has_attacks,
    moved_records,
    real_sets,
    without_history,
)
from pipelines.evaluation.standing_table import real_attack_tables

SETTINGS = Settings(autoencoder=Autoencoder(max_epochs=1))


def record(name: str, number: int, kind: str = "user") -> dict[str, Any]:
    """A row of a set's events: call `number`, a minute after the one before."""
    raw = {
        "eventID": f"{name}-{number}",
        "eventName": f"Call{number}",
        "userIdentity": {"userName": name},
        "recipientAccountId": name,
        "sourceIPAddress": f"of {name}",
    }
    return {
        "event_id": f"{name}-{number}",
        "principal": name,
        "kind": kind,
        "seconds": 60 * number,
        "raw": json.dumps(raw),
    }


@pytest.fixture
def events() -> pd.DataFrame:
    """Ann and a robot all the time, Bob first, Cy later, and a service, which cannot be stolen."""
    spans = {"ann": range(100), "robot": range(100), "bob": range(50), "cy": range(70, 100), "s3": range(100)}
    rows = [
        record(name, number, {"robot": "role", "s3": "service"}.get(name, "user"))
        for name, span in spans.items()
        for number in span
    ]
    return pd.DataFrame(rows).sort_values("seconds", kind="stable", ignore_index=True)


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


def test_only_the_attacked_lose_their_history_and_only_what_came_before(events: pd.DataFrame) -> None:
    attacks = pd.DataFrame(
        {"event_id": ["ann-80", "ann-81"], "session": ["x", "x"], "strength": ["real"] * 2}
    )
    kept = events[without_history(events, attacks)]
    assert kept.loc[kept["principal"] == "ann", "seconds"].min() > 70 * 60
    for name in ("robot", "bob", "cy", "s3"):
        assert (kept["principal"] == name).sum() == (events["principal"] == name).sum()


def test_a_real_set_is_a_folder_with_records_of_its_own_name_and_counts_once(tmp_path: Path) -> None:
    for place, name in (("a", "one"), ("a", "two"), ("b", "one")):
        folder = tmp_path / place / name
        folder.mkdir(parents=True)
        if (place, name) != ("a", "two"):
            (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(b""))
    assert real_sets([tmp_path / "a", tmp_path / "b"]) == [tmp_path / "a" / "one"]


def test_what_matches_a_rule_is_no_labelled_attack() -> None:
    names = {path.name for path in real_sets([samples.data_folder("real")]) if has_attacks(path)}
    assert names == {"invictus_stratus"}


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


def test_a_labelled_set_is_evaluated_without_the_history_of_its_attacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quick = masquerade.EvaluationOptions(peers=False, third=False, terms=False)
    monkeypatch.setattr(masquerade, "OPTIONS", quick)
    figures = evaluate_labelled(
        samples.data_folder("real/invictus_stratus"), SETTINGS, no_progress, young=True
    )
    assert figures["cut_away"] > 1000, "one principal did nearly everything"
    assert figures["sessions"] == 7
    assert 0 < figures["attack_events_flagged"] <= figures["attack_events"]


def test_a_set_of_strangers_has_no_one_to_pretend_to_be() -> None:
    folder = samples.data_folder("real/schema_variety")
    assert evaluate_masquerade(folder, SETTINGS, no_progress) is None
