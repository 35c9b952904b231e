"""Alerts leave the house as lines of JSON, ECS, CSV and messages, and nothing an attacker wrote runs anywhere."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address

import pytest

from fingerprint.alerting.messages import encode_alerts
from fingerprint.core.alert import Disposition
from fingerprint.core.incident import CredentialIssue, SessionOrigin
from fingerprint.core.sanitize import storable
from fingerprint.delivery.formats import (
    EXPORT_FORMATS,
    NOTIFICATION_FORMATS,
    ecs,
    encode_export,
    encode_notification,
    json_lines,
    slack,
)
from fingerprint.delivery.formats import csv as csv_rows
from fingerprint.delivery.formats.text import MAX_TEXT_LENGTH, opener_texts, to_json_line
from fingerprint.delivery.notification import MAX_NOTIFICATION_EVENTS, Notification
from tests.support.alerts import KNOWN_ADDRESSES, NASTY, nasty, new_pipeline, stolen_session

DECISION = Disposition("a", "benign", "maria", "a new laptop", datetime(2026, 3, 6, 9, tzinfo=UTC), 9)
AWFUL = (
    *NASTY,
    "+1+1",
    "-2",
    "\uff1d1+1",
    "\uff20SUM(1)",
    "\t=1",
    "\r=1",
    '";=1+1;"',
    "x;=1",
    " =1",
    "<!channel> @here <@U123>",
)

# Elastic Common Schema 8.17: the fields that are used, and their types (https://www.elastic.co/docs/reference/ecs/ecs-field-reference)
ECS = {
    "@timestamp": "date",
    "message": "text",
    "tags": "keyword",
    "ecs.version": "keyword",
    "event.kind": "keyword",
    "event.category": "keyword",
    "event.type": "keyword",
    "event.module": "keyword",
    "event.dataset": "keyword",
    "event.provider": "keyword",
    "event.id": "keyword",
    "event.action": "keyword",
    "event.reason": "keyword",
    "event.severity": "long",
    "event.risk_score": "float",
    "event.start": "date",
    "event.end": "date",
    "event.duration": "long",
    "event.url": "keyword",
    "cloud.provider": "keyword",
    "cloud.account.id": "keyword",
    "cloud.region": "keyword",
    "cloud.service.name": "keyword",
    "user.id": "keyword",
    "user.name": "keyword",
    "user.email": "keyword",
    "source.address": "keyword",
    "source.ip": "ip",
    "source.geo.country_iso_code": "keyword",
    "source.as.number": "long",
    "source.as.organization.name": "keyword",
    "user_agent.original": "keyword",
    "error.code": "keyword",
    "related.user": "keyword",
    "related.ip": "ip",
    "rule.name": "keyword",
    "rule.category": "keyword",
    "rule.version": "keyword",
    "threat.framework": "keyword",
    "threat.tactic.id": "keyword",
    "threat.tactic.name": "keyword",
    "threat.technique.id": "keyword",
    "observer.product": "keyword",
    "observer.type": "keyword",
}


def fields(document: dict, above: str = "") -> dict[str, list]:
    """Values by the dotted name of their field."""
    found: dict[str, list] = {}
    for name, value in document.items():
        if isinstance(value, dict):
            found |= fields(value, f"{above}{name}.")
        else:
            found[above + name] = value if isinstance(value, list) else [value]
    return found


def fits(value: object, kind: str) -> bool:
    """Whether Elasticsearch would index a value as a field of that type."""
    if kind == "ip":
        return bool(ip_address(value))
    if kind == "date":
        return datetime.fromisoformat(value).tzinfo is not None
    return isinstance(value, {"long": int, "float": int | float}.get(kind, str))


def texts(value: object) -> list[str]:
    """Every text in a document, names of fields too."""
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in texts(part)]
    if isinstance(value, list):
        return [text for part in value for text in texts(part)]
    return [value] if isinstance(value, str) else []


csv.field_size_limit(1 << 22)


def read_csv(*notifications: Notification) -> list[dict[str, str]]:
    text = b"".join(encode_export("csv", notifications)).decode("utf-8")
    return list(csv.DictReader(io.StringIO(text, newline="")))


# --- whatever the format ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", NOTIFICATION_FORMATS)
@pytest.mark.parametrize("text", AWFUL, ids=range(len(AWFUL)))
def test_every_format_is_json_that_no_terminal_minds_whatever_a_record_says(format, text):
    sent = encode_notification(
        format, Notification(nasty(text), "decided", replace(DECISION, by=text, why=text), link=text)
    )
    assert re.fullmatch(rb"[\x20-\x7e]+", sent)
    assert json.loads(sent)
    assert not any(storable(each) != each for each in texts(json.loads(sent)))


@pytest.mark.parametrize("format", NOTIFICATION_FORMATS)
def test_a_huge_alert_is_told_briefly(format):
    event = replace(stolen_session().events[0], user_agent="A" * 1_000_000, raw="{" * 1_000_000)
    sent = encode_notification(
        format, Notification(replace(stolen_session(), events=(event,) * 3_000, title="B" * 1_000_000))
    )
    assert len(sent) < 4 << 20
    assert max(map(len, texts(json.loads(sent)))) <= MAX_TEXT_LENGTH


@pytest.mark.parametrize("format", EXPORT_FORMATS)
def test_a_line_of_an_export_is_one_alert(format):
    lines = b"".join(
        encode_export(format, [Notification(stolen_session()), Notification(nasty("a\nb\u2028c"))])
    ).splitlines()
    assert [bool(json.loads(each)) for each in lines] == [True, True]


# --- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", AWFUL, ids=range(len(AWFUL)))
def test_json_lines_hold_the_alert_whole(text):
    alert = nasty(text)
    document = json.loads(b"".join(json_lines.full_json_pieces(Notification(alert))))
    assert document["title"] == document["principal"] == storable(text)
    assert document["events"][1]["raw"] == storable(alert.events[1].raw)
    assert document["drivers"][0]["seen"] == storable(text)


def test_what_is_told_leaves_records_out_and_says_how_it_stands():
    events = stolen_session().events * 50
    document = json_lines.json_document(
        Notification(replace(stolen_session(), events=events), "decided", DECISION)
    )
    assert (document["happened"], document["decision"], document["decided"]["by"]) == (
        "decided",
        "benign",
        "maria",
    )
    assert len(document["events"]) == MAX_NOTIFICATION_EVENTS < document["event_count"] == len(events)
    assert document["events"][-1]["event_id"] == events[-1].event_id
    assert "raw" not in document["events"][0]


def test_an_alert_that_no_one_judged_is_open():
    assert json_lines.json_document(Notification(stolen_session()))["decision"] == "open"


# --- CSV -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", AWFUL, ids=range(len(AWFUL)))
def test_no_cell_is_a_formula_wherever_a_spreadsheet_cuts(text):
    exported = b"".join(
        encode_export("csv", [Notification(nasty(text), disposition=replace(DECISION, why=text), link=text)])
    ).decode()
    for separator in ",;\t|":
        for row in csv.reader(io.StringIO(exported, newline=""), delimiter=separator):
            assert not [cell for cell in row if re.match(r"[\s\"]*[=+\-@\uff1d\uff0b\uff0d\uff20]", cell)]


@pytest.mark.parametrize("text", AWFUL, ids=range(len(AWFUL)))
def test_a_row_is_one_row_with_all_its_cells(text):
    (row,) = read_csv(Notification(nasty(text)))
    assert tuple(row) == tuple(csv_rows.CELLS)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e\u2066\ud800-\udfff]", "".join(row.values()))


def test_a_row_says_what_a_manager_asks():
    (row, other) = read_csv(
        Notification(stolen_session(), disposition=DECISION), Notification(new_pipeline())
    )
    assert (row["urgency"], row["severity"], row["decision"], row["decided_by"]) == (
        "91",
        "critical",
        "benign",
        "maria",
    )
    assert row["services"] == "sts, iam, ec2, secretsmanager, cloudtrail"
    assert row["account"] == "123456789012"
    assert other["decision"] == "open"


def test_an_empty_export_has_its_header():
    assert b"".join(encode_export("csv", [])).startswith(b'"alert_id","urgency"')
    assert b"".join(encode_export("ocsf", [])) == b""


# --- ECS -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", AWFUL, ids=range(len(AWFUL)))
def test_a_document_has_fields_of_the_common_schema_with_values_of_their_types(text):
    for alert in (nasty(text), stolen_session()):
        found = fields(json.loads(to_json_line(ecs.ecs_document(Notification(alert, link=text)))))
        own = {name for name in found if name.startswith("fingerprint.")}
        assert set(found) - own <= set(ECS)
        assert not [
            (name, value) for name in set(found) - own for value in found[name] if not fits(value, ECS[name])
        ]


def test_what_tables_know_of_an_address_goes_into_its_fields():
    document = ecs.ecs_document(Notification(stolen_session(), tables=KNOWN_ADDRESSES))
    assert document["source"]["geo"] == {"country_iso_code": ["NL"]}
    assert document["source"]["as"] == {"number": [64500], "organization": {"name": ["Example Hosting"]}}
    found = fields(json.loads(to_json_line(document)))
    assert not [name for name in found if name.startswith("source.") and name not in ECS]
    (row,) = csv.DictReader(
        io.StringIO(
            b"".join(encode_export("csv", [Notification(stolen_session(), tables=KNOWN_ADDRESSES)])).decode()
        )
    )
    assert (row["countries"], row["network_owners"]) == ("NL", "AS64500 Example Hosting")
    assert row["known_ranges"] == "VPN exits of Example"
    assert "geo" not in ecs.ecs_document(Notification(stolen_session()))["source"]


def test_an_addresses_field_holds_addresses_alone():
    events = tuple(replace(event, source_address="AWS Internal") for event in stolen_session().events)
    document = ecs.ecs_document(Notification(replace(stolen_session(), events=events)))
    assert document["source"] == {"address": ["AWS Internal"]}
    assert ecs.ecs_document(Notification(stolen_session()))["related"]["ip"] == ["185.220.101.34"]


def test_the_opener_of_the_session_is_related():
    issue = CredentialIssue(
        "ASIA1", DECISION.at, "e1", "AssumeRole", "1:user/ann", "ann@example.com", "AKIA1", "", "r"
    )
    unnamed = replace(stolen_session(), human="")
    document = ecs.ecs_document(Notification(unnamed, origin=SessionOrigin((issue,), 1, ())))
    assert "ann@example.com" in document["related"]["user"]
    assert "ann@example.com" not in ecs.ecs_document(Notification(unnamed))["related"]["user"]


# --- Slack -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", AWFUL, ids=range(len(AWFUL)))
def test_a_message_mentions_no_one_and_keeps_to_the_limits(text):
    message = slack.slack_message(
        Notification(nasty(text), "decided", replace(DECISION, why=text), "https://store.example/alerts/1")
    )
    shown = [message["text"]]
    for block in message["blocks"]:
        parts = [block.get("text"), *block.get("fields", ()), *block.get("elements", ())]
        shown += [part["text"] for part in parts if part and part["type"] == "mrkdwn"]
        assert len(block.get("fields", ())) <= 10
    assert len(message["blocks"][0]["text"]["text"]) <= slack.MAX_HEADER_LENGTH
    for each in shown:
        assert len(each) <= 3_000
        assert "<" not in each
        assert not re.search(r"(?<![^\W_])@\w|\]\(|://", each)
        assert not re.search(r"&(?!amp;|lt;|gt;)", each)


@pytest.mark.parametrize("before", ["", " ", "a-", "a.", "a+", "a_", "=", "(", "@"])
def test_no_sign_before_a_mention_lets_it_through(before):
    """Mattermost takes a mention after any character but a letter or a digit."""
    assert slack.escape_untrusted(f"{before}@channel").endswith("@\u200bchannel")
    assert slack.escape_untrusted("maria.lopez@example.com") == "maria.lopez@example.com"


def test_an_entity_is_never_cut_in_two():
    for length in range(280, 320):
        message = slack.slack_message(
            Notification(replace(stolen_session(), human="&" * length, title="<" * 5_000))
        )
        assert not re.search(r"&(?!amp;|lt;|gt;)", json.dumps(message["blocks"][1:3]))


def test_a_message_says_the_essentials_and_leads_to_the_alert():
    message = slack.slack_message(
        Notification(stolen_session(), link="https://store.example/alerts/3fa94c1be0d27a58")
    )
    assert message["text"].startswith(
        "Critical alert (91): maria.lopez@example.com made 9 calls in 5 services"
    )
    assert "185.220.101.34" in json.dumps(message)
    assert message["blocks"][-1]["elements"][0]["url"] == "https://store.example/alerts/3fa94c1be0d27a58"


def test_a_message_on_a_decision_that_was_taken_back_says_that_the_alert_is_open():
    text = slack.slack_message(Notification(stolen_session(), "decided"))["text"]
    assert text.startswith("Critical alert is open again (91)")


# --- votes -----------------------------------------------------------------------------------------------------------


def test_every_format_names_who_voted_also_by_a_usual_z() -> None:
    """Alerts of earlier versions have votes with a z below zero."""
    voted = ("autoencoder", "spectral")
    old = replace(stolen_session().events[0], scores={"autoencoder": 4.1, "spectral": -0.4}, flagged_by=voted)
    alert = stolen_session(events=(old,), supporting_events=())
    notification = Notification(alert)
    assert ecs.ecs_document(notification)["fingerprint"]["flagged_by"] == list(voted)
    assert read_csv(notification)[0]["flagged_by"] == ", ".join(voted)
    _, _, facts, *_ = slack.slack_message(notification)["blocks"]
    assert any(each["text"].endswith("flagged by autoencoder, spectral") for each in facts["fields"])
    [(_, message)] = encode_alerts([alert], 1 << 20)
    whole = json.loads(b"".join(EXPORT_FORMATS["jsonl"](notification)))
    sent = NOTIFICATION_FORMATS["json"](notification)
    events = [document["events"][0] for document in (whole, sent, json.loads(message))]
    [evidence] = NOTIFICATION_FORMATS["ocsf"](notification)["evidences"]
    for event in (*events, evidence["data"]):
        assert list(event["flagged_by"]) == list(voted)
        assert event["scores"]["spectral"] == -0.4


def test_who_opened_a_session_can_be_read_and_acts_on_no_terminal() -> None:
    opened = partial(CredentialIssue, "ASIA1", datetime(2026, 3, 5, tzinfo=UTC), "e1", "AssumeRoleWithSAML")
    saml = opened("111122223333:federated/0f1e2d=/ann@example.com", "ann@example.com", "", "192.0.2.7", "r")
    oidc = opened(
        "111122223333:federated/arn%3Aaws%3Aiam%3A%3A1%3Aoidc-provider%2Fgit.example/repo%3Ao%2Fr",
        "",
        "",
        "x",
        "r",
    )
    nasty = opened("111122223333:federated/idp/%1B%5B31mann%E2%80%AE", "", "", "x", "r")
    service = opened("111122223333:service/lambda.amazonaws.com", "", "", "lambda.amazonaws.com", "r")
    texts = opener_texts(SessionOrigin((saml, oidc, nasty, service), 1, ()))
    assert texts[0] == "ann@example.com in account 111122223333 by AssumeRoleWithSAML from 192.0.2.7"
    assert texts[1].startswith("repo:o/r (git.example) in account 111122223333 by ")
    assert "\x1b" not in texts[2]
    assert "\u202e" not in texts[2]
    assert texts[3].startswith("111122223333:service/lambda.amazonaws.com by ")
