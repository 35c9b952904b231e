"""`fingerprint suppressions`, `alert store prune` and `alert store purge`: what a person at a keyboard sees of them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from fingerprint.core.case import AlertFilter
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Database, load_settings
from fingerprint.store import open_store
from pipelines.cli.app import app
from pipelines.cli.console import no_progress
from pipelines.score import score_sources
from tests.support import sample_organisation
from tests.support.alerts import NASTY, nasty, new_pipeline, stolen_session, votes


@pytest.fixture
def store_url(tmp_path) -> str:
    url = f"sqlite:///{tmp_path}/alerts.sqlite"
    then = datetime.now(UTC) - timedelta(days=2)
    open_store(url, now=lambda: then).alerts.save([new_pipeline(), stolen_session()], votes(stolen_session()))
    return url


def said(store_url: str, *words: str, **environment: str) -> str:
    result = CliRunner().invoke(app, [*words, "--database", store_url], env={"COLUMNS": "220"} | environment)
    if result.exception:
        raise result.exception
    return result.output


def hidden(store_url: str) -> int:
    return open_store(store_url).queue.counts(AlertFilter())["suppressed"]


def test_a_suppression_is_previewed_made_listed_and_ended(store_url):
    match = ("--service", "ecs", "--network", "10.3.0.0/16")
    preview = said(store_url, "suppressions", "preview", *match)
    assert "would hide 1 alert: 1 open, none urgent, none critical, none confirmed as an attack" in preview
    assert new_pipeline().title in preview
    assert hidden(store_url) == 0
    added = said(store_url, "suppressions", "add", *match, "--why", "the move to ECS", "--days", "14")
    assert "hides 1 alert until" in added
    assert hidden(store_url) == 1
    (made,) = json.loads(said(store_url, "suppressions", "list", "--json"))
    lasts = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert lasts == pytest.approx(timedelta(days=14), abs=timedelta(seconds=10))
    assert (made["match_text"], made["reason"]) == ("service ecs, network 10.3.0.0/16", "the move to ECS")
    assert made["owner"].startswith("console:")
    listed = said(store_url, "suppressions", "list")
    assert all(text in listed for text in (made["suppression_id"], made["match_text"], made["reason"]))
    assert "1 alert can be seen again" in said(store_url, "suppressions", "end", made["suppression_id"])
    assert hidden(store_url) == 0
    assert said(store_url, "suppressions", "list") == "nothing is suppressed\n"
    assert "ended" in said(store_url, "suppressions", "list", "--ended")


def test_a_value_that_no_alert_has_is_named_with_those_that_were_meant_and_may_be_added(store_url):
    whole = new_pipeline().principal
    cut = whole.partition(":")[2]
    meant = f"no stored alert has the principal {cut}: did you mean {whole}?"
    assert meant in said(store_url, "suppressions", "preview", "--principal", cut)
    added = said(store_url, "suppressions", "add", "--principal", cut, "--why", "it comes on Monday")
    assert "hides 0 alerts" in added
    assert meant in added
    assert len(json.loads(said(store_url, "suppressions", "list", "--json"))) == 1
    unknown = {
        "field": "service",
        "value": "sso",
        "similar": [],
        "text": "no stored alert has the service sso",
    }
    (found,) = json.loads(said(store_url, "suppressions", "preview", "--service", "sso", "--json"))["unknown"]
    assert found == unknown
    assert "did you mean" not in said(store_url, "suppressions", "preview", "--principal", whole)


def test_an_end_may_be_a_day(store_url):
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    said(store_url, "suppressions", "add", "--service", "ecs", "--why", "the move", "--until", f"{tomorrow}")
    (made,) = json.loads(said(store_url, "suppressions", "list", "--json"))
    assert made["expires_at"] == f"{tomorrow}T00:00:00Z"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("preview",), "asks nothing"),
        (("preview", "--network", "10.0.0.1/8"), "lies in the network 10.0.0.0/8"),
        (("add", "--service", "ecs", "--why", ""), "needs a reason"),
        (("add", "--service", "ecs", "--why", "x", "--until", "2020-01-01"), "lies ahead"),
        (("add", "--service", "ecs", "--why", "x", "--until", "2099-01-01", "--days", "3"), "leave one out"),
        (("add", "--service", "ecs", "--why", "x", "--days", "nan"), "no stretch of time"),
        (("add", "--service", "ecs", "--why", "x", "--days", "1e9"), "366 at most"),
        (("end", "nothing"), "there is no suppression"),
        (("add", "--user-agent", "B", "--why", "x"), "8 characters or more"),
        (("add", "--service", "ecs", "--why", "x", "--force", " "), "say why"),
        (("add", "--principal", stolen_session().principal, "--why", "x"), "1 are critical and 0 confirmed"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(store_url, words, why):
    with pytest.raises(FingerprintError, match=why):
        said(store_url, "suppressions", *words)
    assert hidden(store_url) == 0


def test_whatever_is_suppressed_steers_no_terminal(store_url):
    texts = [each for each in NASTY if each.strip() and len(each) < 4_000 and "\0" not in each]
    open_store(store_url).alerts.save(
        [replace(nasty(text), alert_id=f"{n:016x}") for n, text in enumerate(texts)]
    )
    shown = ""
    for text in texts:
        shown += said(store_url, "suppressions", "preview", "--principal", text)
        said(store_url, "suppressions", "add", "--principal", text, "--why", text, "--force", text)
    shown += said(store_url, "suppressions", "list")
    assert hidden(store_url) == len(texts)
    assert not {each for each in shown if not each.isprintable()} - {"\n"}


def test_a_purge_needs_a_yes_and_says_what_it_does_not_reach(store_url):
    name = stolen_session().principal
    with pytest.raises(FingerprintError, match="cannot be undone"):
        said(store_url, "database", "purge", name)
    told = said(store_url, "database", "purge", name, "--yes")
    assert "1 of alerts, " in told
    assert "9 of votes" in told
    assert "not reached: the topics of Kafka" in told
    assert open_store(store_url).alerts.by_urgency() == [new_pipeline()]


def test_what_is_old_is_removed_as_the_settings_say(store_url):
    keep = {f"FINGERPRINT_RETENTION__{name}_DAYS": "0" for name in ("RECORD", "VOTE", "CLOSED_ALERT")}
    assert said(store_url, "database", "prune", **keep) == "nothing is older than it is kept\n"
    figures = json.loads(
        said(store_url, "database", "prune", "--json", **keep | {"FINGERPRINT_RETENTION__RECORD_DAYS": "1"})
    )
    assert figures["removed"] == {"records": 12}
    assert len(open_store(store_url).votes.read()) == 9


def test_scoring_stores_no_record_with_what_is_redacted(organisation, tmp_path):
    url = f"sqlite:///{tmp_path}/redacted.sqlite"
    store = Database(redacted_fields=("userIdentity.accessKeyId", "sourceIPAddress"))
    score_sources(
        organisation.new,
        organisation.bank,
        sample_organisation.SETTINGS.model_copy(update={"database": store}),
        no_progress,
        url,
    )
    records = [
        json.loads(event.raw) for alert in open_store(url).alerts.by_urgency() for event in alert.events
    ]
    assert records
    assert {record["sourceIPAddress"] for record in records} == {"[redacted]"}
    assert {record["userIdentity"].get("accessKeyId", "[redacted]") for record in records} == {"[redacted]"}


def test_a_field_that_no_record_can_have_is_refused_at_the_start():
    with pytest.raises(FingerprintError, match=r"setting database.redacted_fields: .* names no field"):
        load_settings(environment={"FINGERPRINT_DATABASE__REDACTED_FIELDS": "a..b"})
