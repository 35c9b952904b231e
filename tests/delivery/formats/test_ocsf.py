"""A finding is what the published schemas of OCSF say it is, whatever an attacker wrote into the records."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, get_args

import pytest
from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema

from fingerprint.core.alert import SEVERITY_LEVELS, ActionImpact, CredentialIssue, Disposition
from fingerprint.core.incident import OtherRecord, SessionOrigin
from fingerprint.delivery.formats.ocsf import OCSF_VERSION, PROFILES, ocsf_finding
from fingerprint.delivery.formats.text import MAX_TEXT_LENGTH, to_json_line
from fingerprint.delivery.notification import MAX_NOTIFICATION_EVENTS, ChangeKind, Notification
from tests.support.alerts import KNOWN_ADDRESSES, NASTY, nasty, new_pipeline, stolen_session

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

VERSIONS = ("1.5.0", "1.6.0", "1.7.0", "1.8.0")
AT = datetime(2026, 3, 6, 9, tzinfo=UTC)


@cache
def schema(version: str) -> dict:
    return get_ocsf_schema(version)


@cache
def validator(version: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # takes a second, in each process that collects the tests

    made = OcsfJsonSchemaEmbedded(schema(version)).get_class_schema("detection_finding", PROFILES)
    return Draft202012Validator(made)


def faults(document: dict, version: str = OCSF_VERSION) -> list[str]:
    """What the schema of a version has against a document, and captions that are not those of their numbers."""
    found = [
        f"{list(each.absolute_path)}: {each.message[:200]}"
        for each in validator(version).iter_errors(document)
    ]
    return found + wrong_captions(document, schema(version)["classes"]["detection_finding"], version)


def wrong_captions(document: dict, kind: dict, version: str) -> list[str]:
    """JSON Schema cannot say that a caption is the one of its number: here, and in all objects below."""
    found = []
    for name, value in document.items():
        attribute = kind["attributes"].get(name, {})
        caption = attribute.get("enum", {}).get(str(value) if not isinstance(value, list | dict) else "")
        sibling = attribute.get("sibling") or name.removesuffix("_id")
        if caption and sibling != name and document.get(sibling, caption["caption"]) != caption["caption"]:
            found.append(f"{sibling} is {document[sibling]!r}, and {name} {value} is {caption['caption']!r}")
        if inner := attribute.get("object_type"):
            parts = value if isinstance(value, list) else [value]
            found += [
                fault
                for part in parts
                for fault in wrong_captions(part, schema(version)["objects"][inner], version)
            ]
    return found


def decided_as(decision: str, **fields: object) -> Disposition:
    return replace(Disposition("a", decision, "maria", "a new laptop", AT, 9), **fields)


def notifications() -> list[Notification]:
    """Every sort of news of every sort of alert."""
    decided = [
        decided_as(decision) for decision in ("true_positive", "benign", "false_positive", "duplicate")
    ]
    alerts = [stolen_session(), new_pipeline(), replace(stolen_session(), drivers=(), curve=None, tactics=())]
    every = [
        Notification(alert, happened, each, "https://store.example/alerts/1")
        for alert in alerts
        for happened in get_args(ChangeKind)
        for each in (None, *decided)
    ]
    issue = CredentialIssue(
        "ASIA1", AT, "e1", "AssumeRole", "1:user/ann", "ann", "AKIA1", "192.0.2.7", "eu-west-1"
    )
    origin = SessionOrigin((issue,), 1, (OtherRecord("a2", "2:role/x", ""),))
    every.append(Notification(stolen_session(), origin=origin))
    return every + [Notification(replace(stolen_session(), urgency=least)) for least, _ in SEVERITY_LEVELS]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_finding_is_valid_by_the_published_schema(version):
    for news in notifications() if version == OCSF_VERSION else notifications()[::7]:
        document = json.loads(to_json_line(ocsf_finding(news)))
        document["metadata"]["version"] = version
        assert faults(document, version) == []


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_what_an_attacker_writes_makes_no_finding_invalid(text):
    document = json.loads(to_json_line(ocsf_finding(Notification(nasty(text), link=text))))
    assert faults(document) == []


def test_the_check_finds_what_is_wrong():
    good = ocsf_finding(Notification(stolen_session()))
    for wrong in (
        {"severity_id": 7},
        {"severity": "Terrible"},
        {"time": "2026-03-04"},
        {"colour": "red"},
        {"anomaly_analyses": [{"analysis_targets": [{"name": "x"}]}]},
        {"actor": {"user": {"email_addr": "stranger"}}},
    ):
        assert faults(good | wrong), wrong
    assert any("Terrible" in fault for fault in faults(good | {"severity": "Terrible"}))


def test_urgency_level_and_decision_are_the_schemas_own_words():
    document = ocsf_finding(Notification(stolen_session(), "decided", decided_as("benign")))
    words = [document[name] for name in ("severity", "confidence", "status", "verdict", "activity_name")]
    assert words == ["Critical", "High", "Suppressed", "Benign", "Close"]
    assert document["comment"] == "maria: a new laptop"
    assert ocsf_finding(Notification(new_pipeline()))["confidence"] == "Medium"


def test_what_was_decided_and_has_grown_since_is_open():
    document = ocsf_finding(Notification(stolen_session(), "decided"))
    assert (document["activity_name"], document["status"], document["is_alert"]) == ("Update", "New", True)


def test_the_same_decision_is_another_finding_in_another_delivery():
    first, again = (
        Notification(stolen_session(), "decided", decided_as("benign"), key=key) for key in ("6f0c", "a1b2")
    )
    assert [ocsf_finding(each)["metadata"]["uid"] for each in (first, again)] == ["6f0c", "a1b2"]
    assert ocsf_finding(Notification(new_pipeline()))["metadata"]["uid"]  # of an export


def test_a_finding_says_who_and_where_and_by_which_tactics():
    document = ocsf_finding(Notification(stolen_session()))
    assert document["actor"]["user"]["email_addr"] == "maria.lopez@example.com"
    assert document["cloud"]["account"]["uid"] == "123456789012"
    tactics = [attack["tactic"] for attack in document["finding_info"]["attacks"]]
    assert {"name": "Exfiltration", "uid": "TA0010"} in tactics
    observed = {(each["type"], each["value"]) for each in document["observables"]}
    assert {("IP Address", "185.220.101.34"), ("Email Address", "maria.lopez@example.com")} <= observed


def test_a_finding_names_techniques_resources_and_the_accounts_opened_to():
    rows = (
        ActionImpact("ec2:ModifyImageAttribute", "severe", "shares a disk", "Exfiltration", "T1537", 1, 0, True, True,
                     ("image:ami-0f3a for account 210987654321",)),
        ActionImpact("cloudtrail:StopLogging", "severe", "stops", "Defense Evasion", "T1562.008", 1, 0, True, True),
        ActionImpact("iam:X", "severe", "x", "Persistence", "T1098", 1, 0, True, True,
                     ("role:A in 3 accounts: 111111111111, 222222222222 and 1 more", "bucket:x for sale",
                      "for account 333333333333")),
    )  # fmt: skip
    event = replace(stolen_session().events[0], resource="bucket:cards")
    document = ocsf_finding(
        Notification(
            replace(stolen_session(), impact_of=rows, events=(event,), tactics=("Impact", "Persistence"))
        )
    )
    attacks = document["finding_info"]["attacks"]
    assert attacks[1] == {
        "tactic": {"name": "Defense Evasion", "uid": "TA0005"},
        "technique": {"uid": "T1562", "name": "Impair Defenses"},
        "sub_technique": {"uid": "T1562.008", "name": "Disable or Modify Cloud Logs"},
    }
    assert [each["tactic"]["name"] for each in attacks] == [
        "Exfiltration",
        "Defense Evasion",
        "Persistence",
        "Impact",
    ]
    assert "technique" not in attacks[3]
    assert document["resources"] == [
        {"type": "image", "name": "ami-0f3a", "labels": ["for account 210987654321"]},
        {"type": "role", "name": "A", "labels": ["in 3 accounts: 111111111111, 222222222222 and 1 more"]},
        {"type": "bucket", "name": "x for sale"},
        {"type": "bucket", "name": "cards"},
    ]
    accounts = [each["value"] for each in document["observables"] if each["type"] == "Account Object: uid"]
    assert accounts == ["123456789012", "210987654321", "111111111111", "222222222222", "333333333333"]
    for version in VERSIONS:
        assert faults(json.loads(to_json_line(document)), version) == []


def test_usual_stands_beside_unusual():
    (analysis,) = ocsf_finding(Notification(stolen_session()))["anomaly_analyses"]
    names = [
        [part["observation_parameter"] for part in analysis[kind]] for kind in ("anomalies", "baselines")
    ]
    assert names[0] == names[1]
    assert analysis["anomalies"][0]["observations"] == [{"value": "185.220.101.0/24", "count": 9}]
    surge = analysis["anomalies"][-1]["observations"]
    assert [each["value"] for each in surge] == ["34"]
    assert surge[0]["timespan"]["end_time"] - surge[0]["timespan"]["start_time"] == 3_600_000


def test_a_finding_is_of_a_bounded_size():
    event = replace(stolen_session().events[0], user_agent="A" * 1_000_000)
    large = replace(stolen_session(), events=(event,) * 5_000, title="B" * 1_000_000)
    document = ocsf_finding(Notification(large))
    assert len(document["evidences"]) == MAX_NOTIFICATION_EVENTS
    assert document["count"] == document["finding_info"]["related_events_count"] == 5_000
    assert len(document["message"]) == MAX_TEXT_LENGTH
    assert faults(document) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_an_address_has_its_country_and_network_owner_where_tables_know_them(version):
    finding = ocsf_finding(Notification(stolen_session(), tables=KNOWN_ADDRESSES))
    assert faults(json.loads(to_json_line(finding)), version) == []
    endpoint = finding["evidences"][0]["src_endpoint"]
    assert endpoint["location"] == {"country": "NL"}
    assert endpoint["autonomous_system"] == {"number": 64500, "name": "Example Hosting"}
