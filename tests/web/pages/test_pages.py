"""The alert store's pages over HTTP, and the small modules behind them: addresses, outcomes, sentences, drawings."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from html import escape, unescape
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from fingerprint import web
from fingerprint.alerting.suppression import MATCH_FIELDS
from fingerprint.analysis.principal_activity import hours_of
from fingerprint.analysis.principal_profile import DailyVotes
from fingerprint.core import alert_query
from fingerprint.core.alert import CredentialIssue, Disposition
from fingerprint.core.case import (
    ActionOutcome,
    AlertFilter,
    AlertRevision,
    AuditEntry,
    CaseNote,
    DayCount,
    ReopenCase,
    SetDisposition,
    SuppressionMatch,
)
from fingerprint.core.settings import Settings
from fingerprint.store import SqlStore, open_store
from fingerprint.store.suggestions import SUGGESTED_FIELDS
from fingerprint.web import audit_text, flash, queue_display, risk_chart, urls, week_chart
from fingerprint.web import formatting as fmt
from fingerprint.web.app import create_app
from fingerprint.web.language import using_language
from fingerprint.web.pages.preview import decision_in_force, sort_by_gravity
from fingerprint.web.pages.suppressions import SUGGESTED, suggest_match
from fingerprint.web.session_origin import read_origin
from fingerprint.web.trend_chart import draw_trend
from pipelines.serve import create_dependencies
from tests.support.alerts import NASTY, event, new_pipeline, stolen_session, votes
from tests.support.query_plans import queries
from tests.support.web_app import Site, store_in
from tests.support.web_server import tokens

NOW = datetime(2026, 3, 5, 9, tzinfo=UTC)
STOLEN, PIPELINE = stolen_session(), new_pipeline()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    made = open_store(f"sqlite:///{tmp_path_factory.mktemp('store')}/alerts.sqlite")
    made.alerts.save([STOLEN, PIPELINE], votes(STOLEN))
    yield made
    made.close()


@pytest.fixture(scope="module")
def clients(store: SqlStore) -> dict[str, TestClient]:
    """By role."""
    adapters = create_dependencies(store, Settings(), Path("no bank is here"))
    app, secrets = create_app(adapters), tokens(adapters.account_store, adapters.clock.now())
    ask = {"base_url": "http://127.0.0.1", "follow_redirects": False}
    return {
        role: TestClient(app, headers={"Authorization": f"Bearer {secret}"}, **ask)
        for role, secret in secrets.items()
    }


@pytest.fixture(scope="module")
def analyst(clients: dict[str, TestClient]) -> TestClient:
    return clients["analyst"]


@pytest.mark.parametrize("page", [f"/alerts/{STOLEN.alert_id}", f"/incidents/{STOLEN.alert_id}"])
def test_the_page_of_an_alert_or_an_incident_does_not_count_the_queue(analyst, store, page):
    """Counting reads every alert; the page shows no such number."""
    found = queries(store, lambda: analyst.get(page).raise_for_status())
    assert [each for each, _ in found if each.startswith("SELECT count(*) AS count_1 \nFROM alerts")] == []


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/?status=nonsense", 400, "Status: choose one of"),
        ("/?following=nonsense", 400, "following"),
        (f"/?text={'x' * 1001}", 400, "at most 1000 characters"),
        ("/?by=day&by=level&by=human&by=service", 400, "up to 3 fields"),
        ("/alerts/ffff", 404, "ffff"),
        (f"/alerts/{STOLEN.alert_id}?events=nonsense", 400, "No page begins there"),
        (f"/alerts/{STOLEN.alert_id}?from=order%3Dnonsense", 400, "Order: choose one of"),
        (f"/alerts/{STOLEN.alert_id}/record?event=ffff", 404, "no event"),
        ("/suppressions/new?alert=ffff", 404, "ffff"),
        ("/audit?before=0", 422, "Before"),
        ("/nowhere", 404, "Not Found"),
    ],
)
def test_what_cannot_be_shown_is_a_page_that_says_why(clients, path, status, said):
    answer = clients["engineer"].get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert said.lower() in answer.text.lower()  # a page begins the sentence with a capital letter


PATHS = (
    "/",
    "/alerts/{}",
    "/alerts/{}/record",
    "/entities/{}",
    "/suppressions/new",
    "/audit",
    "/suppressions",
    "/leads",
)
FIELDS = (
    "days",
    "limit",
    "from",
    "events",
    "event",
    "alert",
    "text",
    "since",
    "following",
    "key",
    "action",
    "changed",
    "conflicts",
    "count",
    "before",
)
VALUES = (*NASTY[:13], STOLEN.alert_id, f"0:{STOLEN.alert_id}", "benign", "9" * 30)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=some.sampled_from(PATHS),
    name=some.sampled_from([STOLEN.alert_id, "x"]) | some.text(max_size=20),
    query=some.dictionaries(
        some.sampled_from(FIELDS), some.text(max_size=20) | some.sampled_from(VALUES), max_size=4
    ),
)
def test_no_address_breaks_a_page(clients, path, name, query):
    try:
        "".join([name, *query.values()]).encode()
    except UnicodeEncodeError:
        return  # no address can hold it
    answer = clients["engineer"].get(path.format(urls.quote(name, safe="")), params=query)
    assert answer.status_code in (200, 307, 400, 404, 422)


def test_a_search_that_cannot_be_read_is_mended_in_its_field(analyst):
    answer = analyst.get("/", params={"q": "nettwork:<b> stolen", "least_urgency": "1"})
    assert answer.status_code == 400
    assert (
        'value="nettwork:&lt;b&gt; stolen" aria-invalid="true" aria-describedby="search-refused"'
        in answer.text
    )
    assert re.search(r"The search is not applied: <span>there is no field", answer.text)
    assert STOLEN.title[:40] in answer.text  # the queue is there, as the other fields ask
    assert analyst.get("/", params={"q": "nettwork:x", "order": "nonsense"}).status_code == 400


def test_what_became_of_similar_alerts_is_counted(analyst, store):
    page = f"/alerts/{STOLEN.alert_id}"
    assert "Of those that are decided" not in analyst.get(page).text
    store.alerts.save([replace(STOLEN, alert_id="another")])
    row = store.queue.row("another")
    store.cases.change(
        [AlertRevision("another", row.version, row.events)], SetDisposition("benign", "asked"), "maria"
    )
    assert "Of those that are decided: 1 benign." in analyst.get(page).text


@pytest.mark.parametrize("name", ["mraia", "viewer"])
def test_no_one_is_given_an_alert_who_cannot_decide_it(analyst, store, name):
    """As over the API: a name that was mistyped would take it out of everybody's sight. The selection and the name stay."""
    page = analyst.get("/").text
    assert '<option value="viewer"' not in page
    revision = re.search(rf'name="selected" value="([^"]*:{PIPELINE.alert_id})"', page)[1]
    page = follow(analyst, {"do": "assign", "to": name, "selected": revision, "back": "/"})
    assert f"“<bdi>{name}</bdi>” has no active account of an analyst" in page
    assert f'value="{name}" aria-invalid="true"' in page
    assert f'value="{revision}" checked' in page
    assert "Nothing was changed." in page
    assert store.queue.row(PIPELINE.alert_id).assignee == ""


@pytest.mark.parametrize("decision", ["benign", "false_positive"])
@pytest.mark.parametrize("why", ["", "  "])
def test_what_the_detector_learns_from_needs_a_reason(analyst, store, decision, why):
    revision = re.search(rf'name="selected" value="([^"]*:{STOLEN.alert_id})"', analyst.get("/").text)[1]
    page = follow(analyst, {"do": decision, "why": why, "selected": revision, "back": "/"})
    assert "Nothing was changed." in page
    assert 'aria-invalid="true" aria-describedby="decide-lacking"' in page
    assert f'value="{revision}" checked' in page
    assert store.queue.row(STOLEN.alert_id).decision is None


@pytest.mark.parametrize("original", ["", " ", "ffff<b>", "it", STOLEN.alert_id, STOLEN.alert_id[:6]])
@pytest.mark.parametrize(("back", "form"), [("/", "decide"), (f"/alerts/{STOLEN.alert_id}", "page")])
def test_a_duplicate_of_nothing_or_of_itself_comes_back_with_what_was_written(tmp_path, original, back, form):
    store = store_in(tmp_path)
    store.alerts.save(
        [STOLEN, PIPELINE, *(replace(PIPELINE, alert_id=f"it-{number}") for number in range(2))]
    )
    row = store.queue.row(STOLEN.alert_id)
    revision = f"{row.version}-{row.events}:{STOLEN.alert_id}"
    wish = {"do": "duplicate", "duplicate_of": original, "why": "the same <b>key</b>", "selected": revision}
    page = follow(Site.of(store).client("analyst"), wish | {"back": back})
    assert 'data-refused="duplicate_of"' in page
    assert "A duplicate needs the id of one other alert." in page
    kept = (
        f'id="{form}-of" value="{escape(original)}" aria-invalid="true" aria-describedby="{form}-of-lacking"'
    )
    assert kept in page
    assert 'value="the same &lt;b&gt;key&lt;/b&gt;"' in page
    assert store.queue.row(STOLEN.alert_id).decision is None


def test_a_duplicate_is_named_by_the_beginning_of_an_id_which_no_other_decision_reads(tmp_path):
    store = store_in(tmp_path)
    store.alerts.save([STOLEN, PIPELINE])
    analyst = Site.of(store).client("analyst")

    def decide(do: str, original: str) -> None:
        row = store.queue.row(STOLEN.alert_id)
        revision = f"{row.version}-{row.events}:{STOLEN.alert_id}"
        form = {"do": do, "duplicate_of": original, "why": "asked", "selected": revision, "back": "/"}
        assert "1 alert" in follow(analyst, form)
        assert store.queue.row(STOLEN.alert_id).decision == do

    decide("duplicate", f" {PIPELINE.alert_id[:6]} ")
    assert store.cases.dispositions(STOLEN.alert_id)[-1].duplicate_of == PIPELINE.alert_id
    decide("benign", "ffff")


def follow(client, form: dict[str, str]) -> str:
    """The page that follows a form."""
    answer = client.post("/changes", data=form)
    assert answer.status_code == 303
    return client.get(answer.headers["location"]).text


def test_what_would_hide_a_critical_alert_wants_a_box_checked_and_a_reason(clients, store):
    engineer, box = clients["engineer"], 'type="checkbox" name="force"'
    assert box not in engineer.get("/suppressions/new").text
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    form = {"principal": STOLEN.principal, "reason": "the drill", "until": f"{tomorrow:%Y-%m-%d}"}
    shown = engineer.post("/suppressions/preview", data=form).text
    assert "It fits critical alerts" in shown
    assert box in shown
    for more, why in (
        ({}, "make it narrower"),
        ({"forced": "x"}, "make it narrower"),
        ({"force": "true"}, "to force a suppression, say why"),
    ):
        answer = engineer.post("/suppressions", data=form | more)
        assert (answer.status_code, why in answer.text.lower()) == (400, True)
    assert store.suppressions.list_all() == []
    engineer.post("/suppressions", data=form | {"force": "true", "forced": "the red team, 4711"})
    (made,) = store.suppressions.list_all()
    assert made.forced == "the red team, 4711"
    assert "the red team, 4711" in engineer.get("/suppressions").text
    store.suppressions.end(made.suppression_id, made.version, "engineer")


def test_a_suppression_that_would_hide_nothing_says_what_no_alert_has_and_is_no_success(clients):
    engineer, cut = clients["engineer"], PIPELINE.principal.partition(":")[2]
    assert 'placeholder="111122223333:role/etl, whole"' in engineer.get("/suppressions/new").text
    shown = engineer.post("/suppressions/preview", data={"principal": cut}).text
    told = re.sub(r"<[^>]+>", "", shown)
    assert f"No stored alert has {cut} in the field “Principal”. Did you mean {PIPELINE.principal}?" in told
    assert 'class="card notice"' not in shown
    known = engineer.post("/suppressions/preview", data={"principal": PIPELINE.principal}).text
    assert 'class="card notice" aria-labelledby="would-hide"' in known
    assert "No stored alert has" not in known


@pytest.mark.parametrize(
    "page", ["/", "/?status=closed", "/?service=iam", "/?suppressed=true", "/?by=service", "/incidents"]
)
def test_a_store_without_an_alert_says_where_alerts_come_from(tmp_path, page):
    store = store_in(tmp_path)
    analyst, told = Site.of(store).browser("analyst"), "No alerts yet."
    empty = analyst.get(page).text
    assert told in empty
    assert "fingerprint score" in empty
    assert "Every alert has a decision" not in empty
    store.alerts.save([PIPELINE])
    assert told not in analyst.get(page).text


def test_a_store_from_which_all_alerts_were_removed_says_where_alerts_come_from(tmp_path):
    store = store_in(tmp_path)
    store.alerts.save([PIPELINE])
    store.retention.purge_principal(PIPELINE.principal, by="maria")
    assert "No alerts yet." in Site.of(store).browser("analyst").get("/").text


def test_a_viewer_is_shown_no_form_that_changes_anything(clients):
    for path in ("/", f"/alerts/{STOLEN.alert_id}", "/suppressions"):
        page = clients["viewer"].get(path).text
        assert 'action="/changes"' not in page
        assert "/end" not in page
    assert clients["viewer"].post("/changes", data={"do": "benign"}).status_code == 403
    assert clients["analyst"].post("/suppressions", data={}).status_code == 403


def test_a_change_goes_back_to_where_it_came_from_and_nowhere_else(analyst, store):
    def change(back: str) -> str:
        version = store.queue.row(PIPELINE.alert_id).version
        form = {"do": "take", "selected": f"{version}:{PIPELINE.alert_id}", "back": back}
        answer = analyst.post("/changes", data=form)
        assert answer.status_code == 303
        return answer.headers["location"]

    assert change("/?service=ecs&order=newest") == "/?service=ecs&order=newest"
    for elsewhere in ("//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"):
        assert change(elsewhere) == "/"


def test_a_note_on_several_alerts_reaches_each_that_is_there_and_names_the_other(analyst, store):
    selected = [f"0:{STOLEN.alert_id}", "0:gone"]
    page = follow(analyst, {"do": "note", "note": "on both of them", "selected": selected})
    assert "no longer in the alert store" in page
    assert "on both of them" in [note.text for note in store.cases.notes(STOLEN.alert_id)]


def test_several_sessions_that_one_caller_opened_have_a_known_opener(store):
    events = [replace(each, access_key=f"ASIA{place}") for place, each in enumerate(PIPELINE.events)][:2]
    of = replace(PIPELINE, alert_id="c4b1", events=tuple(events), human="")
    store.alerts.save([of])
    hops = [
        CredentialIssue(
            f"ASIA{place}", NOW, f"e{place}", "sts:AssumeRole", "1:role/jenkins", "", "", "10.0.0.2", "r"
        )
        for place in (0, 1)
    ]
    store.alerts.save(credential_issues=hops[:1])
    assert not read_origin(store, "c4b1").has_one_opener, "of the other session nothing is known"
    store.alerts.save(credential_issues=hops[1:])
    assert read_origin(store, "c4b1").has_one_opener
    before = replace(hops[0], issued_key="AKIA9", principal="1:user/bo", human="bo@example.com")
    store.alerts.save(credential_issues=[replace(before, event_id="e9")])
    origin = read_origin(store, "c4b1")
    assert origin._replace(chain=(*origin.chain, before)).opener == "", "it may have led to one of them alone"
    other = replace(hops[1], issued_key="ASIA9", principal="1:role/other")
    store.alerts.save(
        [replace(of, alert_id="c4b2", events=(events[0], replace(events[1], access_key="ASIA9")))],
        credential_issues=[other],
    )
    assert not read_origin(store, "c4b2").has_one_opener


def test_an_alert_says_who_opened_its_session_the_first_caller_first(analyst, store):
    later = [replace(each, access_key="ASIA2") for each in PIPELINE.events]
    unknown = [replace(each, access_key="ASIA3", event_id=f"u{each.event_id}") for each in later]
    store.alerts.save([replace(PIPELINE, alert_id="c4a1", events=tuple(later), human="")])
    role, person = "123456789012:role/gate", "123456789012:user/bo"
    store.alerts.save(
        credential_issues=[
            CredentialIssue("ASIA2", NOW, "e2", "sts:AssumeRole", role, "", "ASIA1", "10.0.0.2", "eu-west-1"),
            CredentialIssue(
                "ASIA1",
                NOW,
                "e1",
                "sts:AssumeRole",
                person,
                "bo@example.com",
                "AKIA0",
                "10.0.0.1",
                "eu-west-1",
            ),
        ]
    )
    store.alerts.save([replace(PIPELINE, alert_id="c4a2", events=tuple(unknown), human="")])
    saml = CredentialIssue("AKIA0", NOW, "e0", "x", "1:federated/0f1e=/bo%3Cb%3E", "", "", "10.0.0.1", "r")
    store.alerts.save(credential_issues=[saml])
    assert "bo&lt;b&gt; in account 1" in analyst.get("/alerts/c4a1").text
    page = analyst.get("/alerts/c4a1").text
    said = page[page.index("Credential chain of this session") : page.index("this session</li>")]
    assert said.index(person) < said.index(role) < said.index(PIPELINE.principal)
    behind = page.partition("Behind it")[2].partition("</dd>")[0]
    assert "bo@example.com" in behind
    assert "opened the session" in behind
    assert "not recorded" in analyst.get("/alerts/c4a2").text.partition("Behind it")[2].partition("</dd>")[0]


def test_an_alert_names_the_caller_whom_the_other_accounts_record_of_a_call_names(analyst, store):
    called = replace(PIPELINE.events[0], raw='{"sharedEventID": "7c5e1a2b-0000-4000-8000-00000000000a"}')
    of_caller = replace(PIPELINE, alert_id="ca11e4", events=(called,), human="<b>bo")
    there = replace(called, event_id="there", entity="x", access_key="")
    redacted = replace(of_caller, alert_id="ca11ed", principal="999:account/AROA", human="", events=(there,))
    store.alerts.save([of_caller, redacted])
    heading = "Same call in another account's trail"
    said = analyst.get("/alerts/ca11ed").text.partition(heading)[2].partition("</dd>")[0]
    assert PIPELINE.principal in said
    assert 'href="/alerts/ca11e4' in said
    assert "&lt;b&gt;bo" in said
    assert heading not in analyst.get(f"/alerts/{STOLEN.alert_id}").text
    linked = unescape(analyst.get("/incidents/ca11ed").text)
    assert "the same call, as the other account's trail records it" in linked


def test_nothing_chosen_and_nothing_to_do_are_said(analyst):
    assert "tick the ones you mean" in analyst.post("/changes", data={"do": "benign"}).text
    nothing = analyst.post("/changes", data={"do": "dance", "selected": f"0:{STOLEN.alert_id}"})
    assert (nothing.status_code, "choose what to do" in nothing.text) == (400, True)


@pytest.mark.parametrize("path", ["/alerts/{}", "/?text={}"])
def test_a_decision_on_a_page_is_over_the_events_that_it_showed(analyst, store, path):
    """What an attacker does while someone reads is not closed with the rest."""
    early = replace(STOLEN, alert_id="e4a1" + path[1:2].encode().hex(), events=STOLEN.events[:3])
    store.alerts.save([early])
    page = analyst.get(path.format(early.alert_id)).text
    seen = re.search(rf'name="selected" value="([^"]*:{early.alert_id})"', page)[1]
    store.alerts.save([replace(early, events=STOLEN.events)])
    analyst.post("/changes", data={"do": "benign", "why": "known", "selected": seen})
    row = store.queue.row(early.alert_id)
    assert (row.decision, row.open, row.grown) == ("benign", True, len(STOLEN.events) - 3)


def test_anyone_who_comes_second_reads_who_was_first(analyst, store):
    seen = store.queue.row(STOLEN.alert_id).version
    store.cases.change(
        [AlertRevision(STOLEN.alert_id, seen)],
        SetDisposition("true_positive", "she was on a train"),
        by="maria",
    )
    mine = "a new laptop & <b>phone</b>"
    page = follow(
        analyst, {"do": "benign", "why": mine, "selected": f"{seen}:{STOLEN.alert_id}", "back": "/"}
    )
    assert re.search("was changed by <bdi>maria</bdi> <time [^>]*>just now</time>", page)
    assert "<strong><bdi>closed it as true positive</bdi></strong>, “<bdi>she was on a train</bdi>”" in page
    assert 'value="a new laptop &amp; &lt;b&gt;phone&lt;/b&gt;"' in page
    written = "You wrote: “<bdi>a new laptop &amp; &lt;b&gt;phone&lt;/b&gt;</bdi>”."
    assert f"{written} Reload it, then decide again." in page
    assert store.queue.row(STOLEN.alert_id).decision == "true_positive"


def test_what_was_done_is_said_once_and_in_no_address(analyst, store):
    row = store.queue.row(PIPELINE.alert_id)
    form = {"do": "take", "selected": f"{row.version}:{PIPELINE.alert_id}", "back": "/?service=ecs"}
    answer = analyst.post("/changes", data=form)
    assert answer.headers["location"] == "/?service=ecs"
    assert "assigned to you" in analyst.get("/?service=ecs").text
    assert "assigned to you" not in analyst.get("/?service=ecs").text
    assert "assigned to you" not in analyst.get(f"/?action=take&changed=1:{PIPELINE.alert_id}").text


def test_the_next_alert_is_opened_where_that_is_asked_for(analyst, store):
    def change(**more: str) -> str:
        row = store.queue.row(PIPELINE.alert_id)
        seen = {"do": "take", "selected": f"{row.version}:{PIPELINE.alert_id}", "back": "/?service=ecs"}
        return analyst.post("/changes", data=seen | more).headers["location"]

    there = f"/alerts/{STOLEN.alert_id}"
    assert change(next=there, onward="true") == there
    assert change(next=there) == "/?service=ecs"
    assert change(next="https://evil.example/", onward="true") == "/"
    assert change(next=there, onward="true", selected=f"0:{PIPELINE.alert_id}") == "/?service=ecs"  # refused


def test_a_search_for_closed_alerts_finds_them_on_the_tab_of_open_ones(analyst, store):
    row = store.queue.row(PIPELINE.alert_id)
    seen = [AlertRevision(row.alert_id, row.version, row.events)]
    [closed] = store.cases.change(seen, SetDisposition("true_positive"), "lead")
    found = analyst.get("/", params={"q": "status:closed"}).text
    listed = set(re.findall(r'class="go" href="/alerts/(\w+)', found))
    wanted = {each.alert_id for each in store.queue.page(AlertFilter("closed")).rows}
    assert listed == wanted
    assert PIPELINE.alert_id in wanted
    store.cases.change([AlertRevision(row.alert_id, closed.version)], ReopenCase(), "lead")


def test_a_bar_of_the_trend_leads_to_the_alerts_that_it_counts(analyst, store):
    page = analyst.get("/?status=all&since=2026-03-01&within=30d").text
    links = set(re.findall(r'<th scope="row"><a href="([^"]*day=[^"]*)"', page))
    assert "?status=all&amp;day=2026-03-04" in links
    found = analyst.get("/?status=all&day=2026-03-04").text
    day = date(2026, 3, 4)
    listed = set(re.findall(r'class="go" href="/alerts/(\w+)', found))
    assert listed == {each.alert_id for each in store.queue.page(AlertFilter("all", day=day)).rows}


def test_undo_on_the_queue_restores_the_decision_before(analyst, store):
    known = store.queue.row(STOLEN.alert_id)
    decide = [AlertRevision(STOLEN.alert_id, known.version, known.events)]
    [attack] = store.cases.change(decide, SetDisposition("true_positive", "a stolen key"), "lead")
    form = {"do": "benign", "why": "a slip"}
    analyst.post("/changes", data=form | {"selected": f"{attack.version}-{known.events}:{STOLEN.alert_id}"})
    page = analyst.get("/?status=all").text
    undo = re.search(r'<form method="post" action="/changes" data-undo>.*?</form>', page, re.DOTALL)
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', undo[0]))
    analyst.post("/changes", data=fields)
    row = store.queue.row(STOLEN.alert_id)
    assert (row.decision, row.open) == ("true_positive", False)
    store.cases.change([AlertRevision(row.alert_id, row.version)], ReopenCase(), "lead")


def test_a_cookie_can_make_the_page_say_nothing_that_is_not_so(analyst):
    forged = flash.FlashNote("benign", 1, conflicts=("<b>the alert store is closed</b>",), why="<script>1")
    analyst.cookies.clear()
    analyst.cookies.set("flash", flash.encode_flash(forged))
    page = analyst.get("/").text
    assert "the alert store is closed" not in page
    assert "<script>1" not in page
    assert "no longer in the alert store" in page


@given(text=some.text(max_size=60) | some.binary(max_size=60).map(lambda raw: raw.hex()))
def test_no_cookie_breaks_the_flash(text):
    assert flash.parse_flash(text) is None or isinstance(flash.parse_flash(text), flash.FlashNote)


@pytest.mark.parametrize(
    "found", [[], 1, "x", {"action": "owned"}, {"action": []}, {"changed": 3}, {"action": {"benign": 1}}]
)
def test_only_what_a_note_may_have_is_read(found):
    text = base64.urlsafe_b64encode(json.dumps(found).encode()).decode()
    assert flash.parse_flash(text) is None
    wild = {"action": "benign", "count": -1, "changed": 7, "conflicts": [[1]], "why": None, "refused": 9}
    note = flash.parse_flash(base64.urlsafe_b64encode(json.dumps(wild).encode()).decode().rstrip("="))
    assert note == flash.FlashNote("benign", conflicts=("[1]",))


class TestAfter:
    def test_few_are_named_and_many_are_counted(self):
        outcomes = [ActionOutcome("aa", True, 3), ActionOutcome("bb", False, 2, "changed")]
        few = flash.note_outcomes("benign", outcomes, "a test")
        assert few == flash.FlashNote("benign", 1, ("3:aa",), ("bb",), why="a test")
        assert flash.parse_flash(flash.encode_flash(few)) == few
        many = flash.note_outcomes("benign", [ActionOutcome(f"{at}", True, 1) for at in range(120)])
        assert many == flash.FlashNote("benign", 120)

    @pytest.mark.parametrize("text", ["x" * 4000, "\U0001f600" * 4000, '"\\' * 4000])
    def test_a_cookie_is_never_longer_than_a_browser_keeps(self, text):
        ids = tuple(f"{at}:{'i' * 500}" for at in range(50))
        long = flash.FlashNote("benign", 50, ids, ids, "why", ids, text, text)
        encoded = flash.encode_flash(long)
        assert len(encoded) <= flash.MAX_COOKIE_LENGTH
        note = flash.parse_flash(encoded)
        assert (note.count, note.refused) == (50, "why")
        reason = flash.FlashNote("benign", refused="why", selected=("1-2:aa",), why="y" * 4000)
        kept = flash.parse_flash(flash.encode_flash(reason))
        assert (kept.selected, kept.why) == (("1-2:aa",), "y" * flash.MAX_KEPT_TEXT)

    @pytest.mark.parametrize("text", ["", "3", ":aa", "x:aa", "-1:aa", "\u0663:aa", "99999999999:aa", "3:"])
    def test_what_is_no_choice_is_none(self, text):
        assert flash.parse_selection(text) is None


@given(principal=some.text(max_size=60) | some.sampled_from(NASTY).filter(lambda text: "\ud800" not in text))
def test_a_link_to_a_principal_is_a_path_of_our_own_that_leads_to_it(principal):
    link = urls.principal_url(principal, "aa")
    parts = urlsplit(f"http://store{link}")
    assert parts.netloc == "store"
    assert not parts.query
    assert not parts.fragment
    assert len(link) < 10_000
    if parts.path != "/alerts/aa/entity":
        assert unquote(parts.path.removeprefix("/entities/")) == principal
        assert not {".", "..", ""} & {*parts.path.removeprefix("/").split("/")}


class TestTold:
    def test_the_history_of_an_alert_reads_as_sentences_the_newest_first(self):
        at = [NOW + timedelta(minutes=minute) for minute in range(6)]
        entries = [
            AuditEntry(4, at[4], "bo", "alert.reopen", "aa", {"why": "it grew"}),
            AuditEntry(3, at[2], "maria", "alert.note", "aa", {}),
            AuditEntry(
                2, at[1], "maria", "alert.decide", "aa", {"decision": "false_positive", "why": "a test"}
            ),
            AuditEntry(1, at[0], "maria", "alert.assign", "aa", {"to": "maria"}),
        ]
        said = [
            Disposition("aa", "benign", "ana", "before there was an audit", at[5], 3),
            Disposition("aa", "false_positive", "maria", "a test", at[1], 3),
        ]
        lines = audit_text.activity_log(entries, [CaseNote("n", "aa", at[2], "maria", "asked her")], said)
        assert [(line.by, line.sentence, line.text) for line in lines] == [
            ("ana", "closed it as benign", "before there was an audit"),
            ("bo", "reopened it", "it grew"),
            ("maria", "added a note", "asked her"),
            ("maria", "closed it as false positive", "a test"),
            ("maria", "assigned it to maria", ""),
        ]

    def test_what_no_one_has_words_for_is_said_with_its_own(self):
        line = audit_text.describe_entry(
            AuditEntry(1, NOW, "bo", "bank.roll_back", "b", {"to": "2026-01", "from": "", "why": "x"})
        )
        assert (line.sentence, line.text) == ("bank: roll back (to 2026-01)", "x")


class TestRisk:
    def test_each_detector_has_a_chart_with_a_scale_and_a_threshold_line_of_its_own(self):
        days = [
            DailyVotes(date(2026, 3, 4), "autoencoder", 5, 2, 6.4, 3.2),
            DailyVotes(date(2026, 3, 4), "spectral", 5, 0, 30.0, 40.0),
            DailyVotes(date(2026, 3, 6), "autoencoder", 1, 1, 400.0, 3.2),
        ]
        habit, volume = risk_chart.draw_risk_charts(days, 960, 160)
        assert (habit.threshold_text, volume.threshold_text) == ("3.2", "40.0")
        assert [tick.label for tick in habit.y_ticks] == ["0", "6.4", "12.8"]
        assert habit.bars[0].height == pytest.approx((habit.baseline - risk_chart.TOP) / 2, abs=0.01)
        line = float(habit.threshold.split()[1].partition("H")[0])
        assert line == pytest.approx(habit.baseline - (habit.baseline - risk_chart.TOP) / 4, abs=0.01)
        assert [bar.voted for bar in (*habit.bars, *volume.bars)] == [True, True, False]
        assert habit.bars[0].text == "4 March 2026: 2 votes, the strongest 6.4, threshold 3.2"
        assert habit.x_ticks == volume.x_ticks

    def test_what_is_higher_than_the_scale_says_so_with_its_number(self):
        days = [DailyVotes(date(2026, 3, at), "spectral", 1, 1, z, 4.0) for at, z in ((4, 5.0), (5, 383.8))]
        usual, beyond = risk_chart.draw_risk_charts(days, 960, 160)[0].bars
        assert (usual.beyond, beyond.beyond, beyond.y) == ("", "384", risk_chart.TOP)

    def test_a_scale_without_anything_beyond_it_ends_at_the_strongest_vote(self):
        [chart] = risk_chart.draw_risk_charts([DailyVotes(date(2026, 3, 4), "x", 1, 1, 7.0, 4.0)], 960, 160)
        assert (chart.y_ticks[-1].label, chart.bars[0].beyond) == ("7", "")

    def test_days_without_a_vote_take_no_room_and_the_axis_says_how_many_they_were(self):
        days = [DailyVotes(date(2026, 3, at), "spectral", 1, 1, 5.0, 4.0) for at in (1, 3, 28)]
        [chart] = risk_chart.draw_risk_charts(days, 960, 160)
        assert [gap.text for gap in chart.skipped] == ["24 days without a vote"]
        assert chart.bars[-1].x + chart.bars[-1].width <= chart.width < 400

    @pytest.mark.parametrize("days", [1, 2, 30, 90, 1000])
    @pytest.mark.parametrize("width", [350, 1000])
    def test_any_number_of_days_fits_and_its_labels_never_crowd(self, days, width):
        many = [
            DailyVotes(date(2026, 1, 1) + timedelta(days=at), "spectral", 1, 1, 50.0, 4.0)
            for at in range(days)
        ]
        [chart] = risk_chart.draw_risk_charts(many, width, 160)
        assert len(chart.bars) == min(days, risk_chart.MAX_DAYS)
        assert all(bar.x >= 0 and bar.x + bar.width <= chart.width <= width for bar in chart.bars)
        at = [tick.at for tick in chart.x_ticks]
        step = chart.bars[1].x - chart.bars[0].x if days > 1 else 100.0
        assert all(
            later - earlier >= min(risk_chart.DAY_LABEL_WIDTH, 2 * step) for earlier, later in pairwise(at)
        )
        numbered = [bar.x for bar in chart.bars if bar.beyond == "50.0"]
        assert numbered
        assert all(later - earlier >= risk_chart.NUMBER_WIDTH - 0.01 for earlier, later in pairwise(numbered))

    def test_nothing_is_drawn_of_no_one(self):
        assert risk_chart.draw_risk_charts([], 960, 160) == []


class TestWeek:
    def test_a_week_has_a_square_an_hour_darker_for_more(self):
        monday_nine = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
        week = hours_of([monday_nine] * 25 + [monday_nine + timedelta(days=6)])
        chart = week_chart.draw_week(week)
        assert len(chart.cells) == 168
        assert {cell.text for cell in chart.cells if cell.shade} == {
            "Monday 09:00 to 10:00: 25",
            "Sunday 09:00 to 10:00: 1",
        }
        assert [cell.shade for cell in chart.cells if cell.shade] == [5, 1]
        assert [chart.rows[0].counts[9], chart.rows[6].counts[9], chart.rows[6].counts[10]] == [
            "25",
            "1",
            "0",
        ]

    @pytest.mark.parametrize(("code", "first"), [("en", "Mon"), ("de", "Mo")])
    def test_a_weekday_is_shortened_as_its_language_does(self, code, first):
        with using_language(code):
            chart = week_chart.draw_week(hours_of([datetime(2026, 3, 2, tzinfo=UTC)]))
        assert chart.days[0].label == first

    def test_a_week_without_anything_is_not_drawn(self):
        assert week_chart.draw_week(None) is None
        assert week_chart.draw_week(hours_of([])) is None


class TestPicture:
    def test_the_list_says_what_the_drawing_does(self, analyst):
        page = analyst.get("/graph", params={"alert": STOLEN.alert_id, "of": "principal"}).text
        data = analyst.get("/api/v1/graph", params={"alert": STOLEN.alert_id, "of": "principal"}).json()
        assert data["nodes"]
        assert all(escape(node["label"]) in page for node in data["nodes"])
        assert page.count('data-label="Connection"') == len(data["edges"])

    @pytest.mark.parametrize(
        ("asked", "status"), [({"alert": "none"}, 404), ({}, 422), ({"alert": "x", "of": "everything"}, 422)]
    )
    def test_a_picture_of_nothing_is_a_page_that_says_why(self, analyst, asked, status):
        assert analyst.get("/graph", params=asked).status_code == status

    def test_the_drawing_alone_loads_the_library_and_its_style_is_the_one_it_looks_for(self, analyst):
        page = analyst.get("/graph", params={"alert": STOLEN.alert_id}).text
        assert "/static/vendor/cytoscape.min.js" in page
        assert 'id="__________cytoscape_stylesheet"' in page
        assert "cytoscape" not in analyst.get(f"/alerts/{STOLEN.alert_id}").text
        library = analyst.get("/static/vendor/cytoscape.min.js").content
        noted = (Path(web.__file__).parent / "static/vendor/README.md").read_text()
        assert sha256(library).hexdigest() in noted


class TestLikeness:
    def test_it_asks_for_what_all_events_have_in_common(self):
        assert suggest_match(PIPELINE, PIPELINE.events) == SuppressionMatch(
            principal=PIPELINE.principal,
            service="ecs",
            action="UpdateService",
            network="10.3.1.8",
            user_agent="Boto3/1.34.60",
        )
        assert suggest_match(STOLEN, STOLEN.events).service == ""

    def test_a_service_of_aws_that_calls_by_its_name_has_no_network(self):
        named = [replace(event(1, "s3", "GetObject"), source_address="athena.amazonaws.com")]
        assert suggest_match(STOLEN, named).network == ""


class TestPreview:
    def test_a_decision_that_is_undone_while_a_page_is_made_is_none(self, store):
        row = replace(store.queue.row(PIPELINE.alert_id), decision="benign")
        assert decision_in_force(store, replace(row, alert_id="of no decision")) is None

    def test_it_has_the_gravest_call_first_and_what_to_do(self, analyst, store):
        page = analyst.get(f"/alerts/{STOLEN.alert_id}/preview?from=service%3Diam").text
        assert "What to do next" in page
        assert 'href="/alerts/' in page
        calls = sort_by_gravity(store.evidence.calls([STOLEN.alert_id]))
        assert calls[0].action == "StopLogging"
        assert page.index("StopLogging</bdi>") < page.index(f"{calls[-1].action}</bdi>")

    def test_its_counts_are_those_of_all_events(self, analyst, store):
        many = [replace(event(1, "s3", "GetObject"), event_id=f"read-{number}") for number in range(230)]
        store.alerts.save([stolen_session(alert_id="many", events=many)])
        page = analyst.get("/alerts/many/preview").text
        assert re.search(r"230 .</span> <span><bdi[^>]*>s3:</bdi><strong>.*<bdi>GetObject", page)
        assert re.search(rf"{re.escape(many[0].source_address)}</bdi>.* <span class=\"count\">. 230", page)


class TestDisplay:
    def test_a_browser_keeps_its_columns_and_its_density(self, clients):
        viewer = clients["viewer"]
        assert "<table" in (plain := viewer.get("/").text)
        assert 'class="c-account"' in plain
        answer = viewer.post(
            "/display", data={"density": "table", "column": ["owner", "severity"], "back": "/?order=newest"}
        )
        assert answer.headers["location"] == "/?order=newest"
        page = viewer.get("/").text
        assert 'class="c-account"' not in page
        assert 'class="c-owner"' in page
        assert 'class="c-title"' in page  # it is always there
        viewer.post("/display", data={"density": "cards", "back": "https://evil.example/"})
        assert '<ol class="queue interactive comfortable"' in viewer.get("/").text
        viewer.cookies.clear()

    @pytest.mark.parametrize(
        "text", ["", "x", "<script>", "wide:title", "table" * 100, "cards:" + "a." * 400]
    )
    def test_any_other_cookie_is_the_usual_display(self, text):
        assert queue_display.parse_display(text) == queue_display.QueueDisplay()

    @given(text=some.text(max_size=80) | some.text(max_size=60).map(lambda more: f"table:{more}"))
    def test_a_cookie_shows_known_columns_alone(self, text):
        shown = queue_display.parse_display(text)
        assert {*shown.columns} <= {*queue_display.COLUMN_NAMES}
        assert "title" in shown.columns
        assert queue_display.parse_display(shown.text) == shown

    def test_a_heading_sorts_one_way_and_then_the_other(self, analyst):
        assert queue_display.sort_states("urgency")["severity"] == ("descending", "lowest")
        assert queue_display.sort_states("lowest")["severity"] == ("ascending", "urgency")
        assert queue_display.sort_states("newest")["severity"] == ("none", "urgency")
        assert 'aria-sort="ascending"><a href="?order=newest"' in analyst.get("/?order=oldest").text


@pytest.mark.parametrize(
    "query",
    ["", "?service=iam&assignee=-", "?since=2026-03-01&until=2026-03-31&status=all", "?q=stop&order=fewest"],
)
def test_an_export_has_the_alerts_of_the_page(analyst, query):
    page = analyst.get(f"/{query}").text
    found = re.findall(r'href="(/api/v1/alerts/export[^"]*format=jsonl)"', page)
    assert len(found) == 1
    answer = analyst.get(unescape(found[0]))
    assert answer.status_code == 200
    assert len(answer.text.splitlines()) == len(set(re.findall(r'data-alert="([^"]+)" id="row', page)))


class TestTrend:
    def test_a_day_is_a_bar_with_the_gravest_at_its_foot(self):
        days = [DayCount(date(2026, 3, 3), (0, 0, 0, 0)), DayCount(date(2026, 3, 4), (1, 0, 0, 99))]
        drawing = draw_trend(days)
        assert drawing.bars[0].parts == ()
        critical, low = drawing.bars[1].parts
        assert (critical.severity, low.severity) == ("critical", "low")
        assert critical.y + critical.height == drawing.height
        assert critical.height >= 2  # one among a hundred is seen
        assert low.y >= 0
        assert drawing.bars[1].text == "4 March 2026: 100 alerts, 1 critical, 99 low"
        assert (drawing.total, drawing.peak) == (100, 100)

    def test_nothing_is_drawn_of_nothing(self):
        assert draw_trend([DayCount(date(2026, 3, 3), (0, 0, 0, 0))]) is None


def test_words_of_ages_and_of_whom_are_short():
    assert [fmt.format_age(NOW - timedelta(seconds=each), NOW) for each in (0, 59, 60, 7200, 10**6)] == [
        "now", "now", "1 min", "2 h", "11 d",
    ]  # fmt: skip
    assert fmt.short_principal("123456789012:user/ana") == "user/ana"
    assert fmt.short_principal("arn:aws:x") == "arn:aws:x"
    assert fmt.short_person("123456789012:role/Admin/ana@example.org") == "ana@example.org"
    assert fmt.short_person("123456789012:role/ci/build") == "role/ci/build"
    assert fmt.short_person("unknown:root") == "unknown:root"
    assert fmt.order_tactics(["Discovery", "made up", "Impact"]) == ["Impact", "Discovery", "made up"]


def test_help_names_every_field_of_the_language(analyst):
    page = analyst.get("/help").text
    assert all(f"<code>{name}</code>" in page for name in alert_query.FIELDS)
    assert "https://" not in page  # no link leads out


# --- values are filtered by with a click ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/?", f"/alerts/{STOLEN.alert_id}/preview?"])
def test_a_value_is_filtered_in_or_left_out_with_a_click(analyst, path):
    page = unescape(analyst.get(path).text)
    assert 'href="/?q=tactic%3A' in page.replace('href="?', 'href="/?')
    assert 'href="/?q=-tactic%3A' in page.replace('href="?', 'href="/?')


# --- the audit --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audited(clients, store) -> TestClient:
    """An engineer, whose store has a decision of ola's whose reason is a formula, and a suppression."""
    store.alerts.save([replace(PIPELINE, alert_id="audited")])
    revision = AlertRevision("audited", 0, len(PIPELINE.events))
    store.cases.change([revision], SetDisposition("true_positive", "=HYPERLINK(1)"), by="=ola")
    return clients["engineer"]


def test_the_audit_is_sentences_that_are_filtered_by_person_action_target_and_day(audited):
    page = audited.get("/audit?target=audited&by=%3Dola&action=alert.decide").text
    assert "closed alert audited as true positive" in page
    assert "=HYPERLINK(1)" in page
    assert "closed alert" in audited.get("/audit?action=alert&since=2020-01-01&until=2100-01-01").text
    for nothing in (
        "by=kim",
        "action=alert.note",
        "action=aler",
        "target=x",
        "since=2100-01-01",
        "until=2020-01-01",
    ):
        assert "No entries." in audited.get(f"/audit?target=audited&{nothing}").text
    assert audited.get("/audit?since=&until=&by=&action=").status_code == 200
    assert audited.get("/audit?since=nonsense").status_code == 422


def test_the_export_of_the_audit_has_no_formula(audited):
    answer = audited.get("/audit/export?target=audited")
    assert answer.headers["content-disposition"] == 'attachment; filename="audit.csv"'
    head, line = answer.text.splitlines()
    assert head.split(",")[2:4] == ['"by"', '"action"']
    assert '"\'=ola","alert.decide","audited"' in line
    assert '"=' not in line


def test_details_of_an_entry_are_words_and_not_python():
    detail = {
        "match": {"principal": "ci", "service": ""},
        "critical": True,
        "ids": ["a", "b"],
        "reason": "tests",
    }
    line = audit_text.describe_line(AuditEntry(1, NOW, "ola", "suppression.create", "s1", detail))
    assert (line.sentence, line.text) == ("created suppression s1", "tests")
    assert line.detail == "match: (principal: ci), critical: yes, ids: a, b"
    unknown = audit_text.describe_line(AuditEntry(1, NOW, "ola", "moon.paint", "m", {}))
    assert unknown.sentence == "moon.paint m"


@pytest.mark.parametrize(
    ("path", "role", "fields"),
    [
        ("/", "analyst", ("principal", "service", "account", "tactic")),
        ("/incidents", "analyst", ("principal",)),
        ("/suppressions/new", "engineer", ("principal", "person", "service", "action")),
    ],
)
def test_boxes_have_lists_for_suggestions_of_fields_that_have_some(clients, path, role, fields):
    page = clients[role].get(path).text
    lists = set(re.findall(r'<datalist id="([a-z_-]+)"', page))
    boxes = {
        suggested: own for own, suggested in re.findall(r'list="([a-z_-]+)" data-suggest="([a-z_]+)"', page)
    }
    assert set(fields) <= set(boxes)
    assert set(boxes.values()) <= lists
    assert set(boxes) <= set(SUGGESTED_FIELDS)


def test_every_suggestion_of_a_suppression_is_for_a_field_that_a_match_has():
    assert set(SUGGESTED) <= set(MATCH_FIELDS)


@pytest.mark.parametrize(
    ("urgency", "hours", "overdue"),
    [
        (90, 2, True),
        (90, 0.9, False),
        (60, 3, False),
        (60, 5, True),
        (40, 25, True),
        (10, 25, False),
        (10, 169, True),
    ],
)
def test_an_open_alert_is_overdue_by_the_target_of_its_severity(store, urgency, hours, overdue):
    row = replace(store.queue.row(STOLEN.alert_id), urgency=urgency, stored_at=NOW, open=True)
    later = NOW + timedelta(hours=hours)
    assert queue_display.is_overdue(row, later) is overdue
    assert not queue_display.is_overdue(replace(row, open=False), later)


def test_the_column_of_waiting_is_chosen_and_marks_what_is_overdue(analyst):
    page = analyst.get("/", headers={"Cookie": "display=table:severity.waiting"}).text
    assert "In queue for" in page
    assert "c-waiting" in page
    assert "c-waiting" not in analyst.get("/").text
