"""ATT&CK tactics: what an action is known to be good for, and nothing that would mislead."""

from __future__ import annotations

import csv
import runpy

import pytest

from fingerprint.sources.base import TACTICS
from fingerprint.sources.cloudtrail import samples
from fingerprint.sources.cloudtrail.attack_mappings import mapped_tactics

FOLDER = samples.data_folder("attack_tactics")


@pytest.mark.parametrize(
    ("call", "tactic"),
    [
        ("cloudtrail:StopLogging", "Defense Evasion"),
        ("secretsmanager:GetSecretValue", "Credential Access"),
        ("iam:CreateAccessKey", "Persistence"),
        ("ec2:ModifySnapshotAttribute", "Exfiltration"),
        ("rds:DeleteDBInstance", "Impact"),
        ("lambda:UpdateFunctionCode20150331v2", "Persistence"),
        ("lambda:UpdateFunctionCode", "Persistence"),
        ("sts:GetCallerIdentity", "Discovery"),
        ("signin:ConsoleLogin", "Initial Access"),
    ],
)
def test_an_action_that_attackers_are_known_for_has_its_tactic(call, tactic):
    assert mapped_tactics(*call.split(":")) == (tactic,)


@pytest.mark.parametrize("call", [("s3", "GetObject"), ("sts", "AssumeRole"), ("evil", "<script>"), ("", "")])
def test_an_everyday_or_unknown_call_has_none(call):
    assert mapped_tactics(*call) == ()


def test_looking_around_is_discovery_and_never_more():
    rows = _rows()
    looks = {
        row["tactic"] for row in rows if row["action"].startswith(("Describe", "List", "GetCallerIdentity"))
    }
    assert looks == {"Discovery"}
    discovers = {row["action"] for row in rows if row["tactic"] == "Discovery"}
    assert all(action.startswith(("Describe", "List", "Get")) for action in discovers)


def test_every_tactic_named_is_one_of_attacks():
    assert {row["tactic"] for row in _rows()} <= set(TACTICS)


def test_the_table_is_what_its_script_makes_of_the_sources():
    made = runpy.run_path(str(FOLDER / "make.py"))
    rows = sorted(made["sensible"]({*made["panther"](), *made["stratus"]()}))
    assert [list(row) for row in rows] == [list(row.values()) for row in _rows()]


def _rows() -> list[dict[str, str]]:
    with (FOLDER / "tactics.tsv").open(newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))
