"""Leads on a page, over the API and on a terminal: what came near to an alert."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

import pytest
from typer.testing import CliRunner

from fingerprint.analysis.leads import Lead
from fingerprint.core.case import AlertRevision, SetDisposition, SuppressionMatch
from fingerprint.core.sanitize import storable
from fingerprint.core.settings import Voting, load_settings
from fingerprint.store import SqlStore
from fingerprint.web.urls import lead_suppression_url
from pipelines.cli.app import app
from tests.analysis.test_leads import ANA, BEN, START, alert_at, seen
from tests.support.alerts import NASTY
from tests.support.web_app import Site, store_in


@pytest.fixture
def store(tmp_path: Path) -> SqlStore:
    """One with two leads, and an alert that is none."""
    made = store_in(tmp_path)
    votes = [*seen("a", 1, 2.9, ANA, "iam:CreateAccessKey"), *seen("b", 30, 2.4, BEN), *seen("c", 60.5, 5.0)]
    made.alerts.save([alert_at(60)], votes)
    return made


def test_the_page_shows_leads_the_nearest_first_and_links_to_their_principals(store: SqlStore) -> None:
    page = Site.of(store).browser("viewer").get("/leads").text
    ana, ben = (page.index(f'href="/entities/{quote(who)}"') for who in (ANA, BEN))
    assert ana < ben
    assert "iam:CreateAccessKey" in page.replace("<wbr>", "")
    assert "1 open alert" in page
    assert "2.90" in page
    assert "5.00" not in page, "it is an alert"


def test_a_lead_says_how_grave_its_calls_are(store: SqlStore) -> None:
    page = Site.of(store).browser("viewer").get("/leads").text
    assert page.count('class="chip severe"') == 1
    assert "creates a credential that lasts" in page


def test_an_engineer_suppresses_a_lead_with_its_call_filled_in(store: SqlStore) -> None:
    """The link, a reason, and the two buttons of the form; a viewer has no link."""
    site = Site.of(store)
    assert "/suppressions/new" not in site.browser("viewer").get("/leads").text
    engineer = site.browser("engineer")
    link = re.search(r'href="(/suppressions/new[^"]*CreateAccessKey)"', engineer.get("/leads").text)
    form = engineer.get(unescape(link[1])).text
    for name, value in (("principal", ANA), ("service", "iam"), ("action", "CreateAccessKey")):
        assert f'name="{name}" value="{value}"' in form
    until = datetime.now(UTC) + timedelta(days=7)
    assert f'value="{until:%Y-%m-%d}"' in form
    wish = {"principal": ANA, "service": "iam", "action": "CreateAccessKey", "until": f"{until:%Y-%m-%d}"}
    engineer.post("/suppressions", data=wish | {"reason": "a new laptop", "csrf": site.csrf("engineer")})
    page = engineer.get("/leads").text
    assert "1 lead is" in page
    assert ANA not in page


LEAD = Lead(
    ANA, START, START, 2.5, 3, ("s3:GetObject", "s3:ListObjects"), 2, "none", "", ("sequence",), False
)


@pytest.mark.parametrize(
    ("changed", "asked"),
    [
        ({}, {"principal": ANA, "service": "s3"}),
        (
            {"actions": ("s3:GetObject",), "action_count": 1},
            {"principal": ANA, "service": "s3", "action": "GetObject"},
        ),
        ({"actions": ("s3:GetObject", "kms:Decrypt")}, {}),  # it would hide all that the principal does
        ({"action_count": 9}, {}),  # the others may be of any service
        ({"actions": (), "action_count": 0}, {}),
        ({"principal": f"{ANA}\nx"}, {}),  # a field of a form has no lines
    ],
)
def test_a_lead_is_suppressed_by_what_its_calls_have_in_common(
    changed: dict[str, Any], asked: dict[str, str]
) -> None:
    url = lead_suppression_url(replace(LEAD, **changed))
    assert dict(parse_qsl(url.partition("?")[2])) == asked
    assert bool(url) == bool(asked)


def test_the_queue_leads_to_them_from_its_tabs_and_when_it_is_empty(store: SqlStore) -> None:
    assert '<li><a href="/leads">Leads</a></li>' in Site.of(store).browser("viewer").get("/").text
    site = Site.of(store)
    row = store.queue.rows([alert_at(60).alert_id])[0]
    seen_as = AlertRevision(row.alert_id, row.version, row.events)
    store.cases.change([seen_as], SetDisposition("benign", "a new laptop"), "maria")
    assert "Leads: what came near to one" in site.browser("viewer").get("/").text


def test_days_count_from_the_newest_vote_and_the_list_may_be_short(store: SqlStore) -> None:
    viewer = Site.of(store).browser("viewer")
    assert BEN not in viewer.get("/leads?days=1").text
    assert BEN not in viewer.get("/leads?limit=1").text
    assert viewer.get("/leads?limit=0").status_code == 422
    assert viewer.get("/leads?limit=101").status_code == 422


def suppress_all(store: SqlStore) -> None:
    end = datetime.now(UTC) + timedelta(days=1)
    for who in (ANA, BEN):
        store.suppressions.create(
            SuppressionMatch(principal=who), "a migration", end, by="maria", force="known"
        )


def test_an_empty_list_says_why(store: SqlStore, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    none_yet = store_in(tmp_path / "other")
    assert "No leads yet." in Site.of(none_yet).browser("viewer").get("/leads").text
    none_yet.alerts.save(votes=seen("low", 1, 1.6))
    assert "Nothing came near to an alert" in Site.of(none_yet).browser("viewer").get("/leads").text
    other = load_settings(environment={}).model_copy(
        update={"voting": Voting(detectors=("spectral", "sequence"), quorum=2)}
    )
    assert "which does not vote here" in Site.of(none_yet, other).browser("viewer").get("/leads").text
    suppress_all(store)
    assert "2 are hidden by" in Site.of(store).browser("viewer").get("/leads").text


def test_the_api_lists_leads_for_programs(store: SqlStore) -> None:
    client = Site.of(store).client("viewer")
    found = client.get("/api/v1/leads").json()
    assert [(lead["principal"], lead["reach"]) for lead in found["leads"]] == [(ANA, 2.9), (BEN, 2.4)]
    assert (found["threshold"], found["suppressed"]) == (None, 0)
    assert [(lead["gravity"], lead["effect"]) for lead in found["leads"]] == [
        ("severe", "creates a credential that lasts"),
        ("none", ""),
    ]
    since = (START + timedelta(hours=20)).isoformat()
    assert [
        lead["principal"] for lead in client.get("/api/v1/leads", params={"since": since}).json()["leads"]
    ] == [BEN]
    assert client.get("/api/v1/leads", params={"limit": 1000}).status_code == 422


@pytest.mark.parametrize("text", NASTY)
def test_what_an_attacker_wrote_is_text(tmp_path: Path, text: str) -> None:
    store = store_in(tmp_path)
    store.alerts.save(votes=seen("a", 1, 2.8, f"123456789012:role/{text}", f"s3:{text}"))
    site = Site.of(store)
    answer = site.browser("viewer").get("/leads")
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text
    assert "<img src=x" not in answer.text
    [lead] = site.client("viewer").get("/api/v1/leads").json()["leads"]
    assert lead["actions"] == [storable(f"s3:{text}")]
    ran = CliRunner().invoke(app, ["alerts", "leads", "--database", str(store.session.engine.url)])
    assert (ran.exit_code, "\x1b" in ran.output) == (0, False)


def test_the_command_lists_leads_and_says_what_is_hidden(store: SqlStore) -> None:
    url = ["--database", str(store.session.engine.url)]
    ran = CliRunner().invoke(app, ["alerts", "leads", *url], env={"COLUMNS": "200"})
    assert ran.exit_code == 0, ran.output
    assert ran.output.index("user/ana") < ran.output.index("user/ben")
    assert " severe: creates a credential that lasts" in ran.output, "on a line of its own"
    assert "\\x0a" not in ran.output
    found = json.loads(CliRunner().invoke(app, ["alerts", "leads", "--json", "--limit", "1", *url]).output)
    assert [(lead["principal"], lead["actions"]) for lead in found["leads"]] == [
        (ANA, ["iam:CreateAccessKey"])
    ]
    suppress_all(store)
    ran = CliRunner().invoke(app, ["alerts", "leads", *url])
    assert "no leads since" in ran.output
    assert "2 leads more, suppressed" in ran.output
    assert CliRunner().invoke(app, ["alerts", "leads", "--since", "soon", *url]).exit_code == 1
