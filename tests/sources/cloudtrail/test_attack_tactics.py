"""One tactic for an action wherever it is shown: its impact's, then those of the public mappings."""

from __future__ import annotations

import pytest

from fingerprint.sources.base import TACTICS
from fingerprint.sources.cloudtrail.attack_mappings import mapped_tactics, technique_name
from fingerprint.sources.cloudtrail.attack_tactics import (
    serves_attackers,
    tactics_among,
    tactics_of,
    techniques_of,
)
from fingerprint.sources.cloudtrail.impact import impact_of, listed_actions


def test_the_phase_of_a_listed_action_is_the_one_its_impact_names():
    for service, action in listed_actions():
        impact = impact_of(service, action, "")
        if impact.gravity == "minor":
            assert tactics_of(service, action) == mapped_tactics(service, action)
            continue
        assert tactics_of(service, action)[0] == impact.tactic
        first = techniques_of(service, action)[0]
        assert (first.id, first.tactic) == (impact.technique, impact.tactic)


def test_every_technique_of_the_table_has_a_name_and_every_tactic_is_one_of_attacks():
    listed = [each for each in listed_actions().values() if each.technique or each.tactic]
    assert {each.technique for each in listed if not technique_name(each.technique)} == set()
    assert {each.tactic for each in listed} <= set(TACTICS)


@pytest.mark.parametrize(
    ("call", "tactics"),
    [
        ("ec2:RunInstances", ("Impact", "Execution")),
        ("cloudtrail:UpdateTrail", ("Defense Evasion",)),
        ("ec2:CreateImage", ("Collection",)),
        ("ec2:ModifyImageAttribute", ("Exfiltration",)),
        ("lambda:UpdateFunctionCode20150331v2", ("Persistence",)),
        ("sts:GetCallerIdentity", ("Discovery",)),
        ("sts:AssumeRole", ()),
        ("s3:GetObject", ()),
        ("evil:<script>", ()),
    ],
)
def test_what_mappings_add_comes_after_it(call, tactics):
    assert tactics_of(*call.split(":")) == tactics


def test_a_mapping_adds_no_second_technique_to_the_tactic_of_the_impact():
    assert [each.id for each in techniques_of("ssm", "SendCommand")] == ["T1651"]
    assert {each.tactic for each in techniques_of("ec2", "RunInstances")} == {"Impact", "Execution"}


def test_the_tactics_of_many_calls_come_once_and_in_the_order_of_the_matrix():
    calls = [("ec2", "ModifySnapshotAttribute"), ("cloudtrail", "StopLogging"), ("s3", "GetObject")] * 3
    assert tactics_among(calls) == ("Defense Evasion", "Exfiltration")
    assert tactics_among([]) == ()


def test_only_the_public_mappings_say_what_serves_attackers():
    assert serves_attackers("cloudtrail", "StopLogging")
    assert not serves_attackers("sts", "GetCallerIdentity")
    assert not serves_attackers("cloudtrail", "UpdateTrail")
