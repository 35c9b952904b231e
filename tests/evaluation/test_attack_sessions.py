"""Labels of events become sessions, each with its calls and those of them that alerts hold."""

from __future__ import annotations

import json
from pathlib import Path

from fingerprint.evaluation.attack_sessions import AttackSession, attack_sessions


def label(event_id: str, session: str, strength: str, name: str) -> str:
    principal = f"arn:aws:iam::111122223333:{name}"
    return json.dumps(
        {"event_id": event_id, "session": session, "strength": strength, "principal": principal}
    )


def test_sessions_are_told_by_name_with_the_calls_that_alerts_hold(tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    lines = [
        label("e3", "b", "mimic", "assumed-role/build/i:1"),
        label("e1", "a", "session", "user/ana"),
        label("e2", "a", "session", "user/ana"),
    ]
    file.write_text("\n".join(lines) + "\n")
    assert attack_sessions(file, {"e1", "other"}) == [
        AttackSession("a", "session", "user/ana", calls=2, in_alerts=1),
        AttackSession("b", "mimic", "assumed-role/build/i:1", calls=1, in_alerts=0),
    ]


def test_without_an_attack_there_is_no_session(tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text("")
    assert attack_sessions(tmp_path / "labels.jsonl", {"e1"}) == []
