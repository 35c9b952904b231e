"""The pages of incidents: the list, one story with one decision, splitting and joining, and what an attacker wrote."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from fingerprint.core.alert import NextStep
from fingerprint.core.case import AlertFilter
from fingerprint.core.incident import IncidentFilter
from fingerprint.core.incident_rule import MAX_ALERTS, MIN_PRINCIPALS
from tests.contracts.incident_store import alert, fetching_alert
from tests.support.alerts import NASTY, nasty
from tests.support.web_app import Site, store_in
from tests.web.test_static_report import Page


@pytest.fixture
def site(tmp_path) -> Site:
    store = store_in(tmp_path)
    first = alert("a0", title="Maria listed users", urgency=40)
    store.alerts.save(
        [first, alert("a1", hour=1, title="Maria made a key"), alert("b0", "kim", 50), alert("a9", hour=20)]
    )
    return Site.of(store)


def post(site: Site, path: str, role="analyst", **form):
    return site.browser(role).post(path, data=form | {"csrf": site.csrf(role)})


def revision(site: Site, incident_id: str = "a0") -> str:
    return site.deps.store.incidents.get(incident_id).row.revision


def test_the_list_shows_incidents_with_their_gravest_title_first(site):
    page = site.browser("viewer").get("/incidents").text
    assert re.findall(r'<a class="go" href="(/incidents/\w+)"', page) == [
        "/incidents/a0",
        "/incidents/a9",
        "/incidents/b0",
    ]
    assert page.index("Maria made a key") < page.index("Maria listed users")
    assert 'action="/incidents/' not in page
    for query in ("status=closed", "assignee=kim", "principal=nothing", "status=in_progress"):
        assert "No incident matches" in site.browser("viewer").get(f"/incidents?{query}").text
    assert site.browser("viewer").get("/incidents?status=nonsense").status_code == 422
    assert site.browser("viewer").get("/incidents?following=nonsense").status_code == 400


def test_the_list_shows_a_person_without_role_and_a_single_moment_without_its_length(tmp_path):
    store = store_in(tmp_path)
    person = "111122223333:role/AWSReservedSSO_Admin_0a1b2c3d4e5f6789/maria@example.com"
    first = alert("a0")
    long = replace(first, principal=person, last_event_time=first.last_event_time + timedelta(minutes=3))
    store.alerts.save([long, alert("b0", "kim", hour=9)])
    page = Site.of(store).browser("viewer").get("/incidents").text
    assert f'<bdi title="{person}">maria@<wbr>example.com</bdi>' in page
    assert "for 3 minutes" in page
    assert "less than a second" not in page


def test_the_tab_of_the_queue_counts_the_open_incidents(site):
    def tab() -> str:
        return re.search(
            r'<a href="/incidents">Incidents <span class="count">(\d+)<', site.browser("viewer").get("/").text
        )[1]

    assert tab() == "3"
    post(site, "/incidents/b0/changes", do="true_positive", revision=revision(site, "b0"))
    assert tab() == "2"


def test_an_incident_tells_one_story_and_says_why_its_alerts_belong_together(site):
    page = site.browser("viewer").get("/incidents/a1").text
    assert page.index("Maria listed users") < page.rindex("Maria made a key")
    assert "same principal" in page
    assert "Read-only" in page
    assert "Not in this incident, but near" in page
    assert "/alerts/a9" in page  # the same principal, later that day
    assert "called the same new actions" not in page
    assert site.browser("viewer").get("/incidents/nothing").status_code == 404


def test_an_incident_says_how_many_principals_did_the_same_on_one_day(site):
    site.deps.store.alerts.save([fetching_alert(f"n{at}", f"p{at}", 40) for at in range(MIN_PRINCIPALS)])
    page = site.browser("viewer").get("/incidents/n1").text
    assert f"{MIN_PRINCIPALS} principals called the same new actions on this day" in page
    assert "same new actions on the same day" in page
    assert "acm:GetCertificate 2026-03-06" in page


def test_the_picture_of_an_incident_is_made_of_the_events_of_all_its_alerts(site):
    analyst = site.browser("analyst")
    (picture,) = re.findall(r'href="(/graph\?[^"]*)"', analyst.get("/incidents/a0").text)
    assert "of=incident" in picture
    assert 'aria-current="page">Its incident' in analyst.get(picture.replace("&amp;", "&")).text
    asked = {"alert": "a0", "of": "incident"}
    graph = analyst.get("/api/v1/graph", params=asked).json()
    alone = analyst.get("/api/v1/graph", params=asked | {"of": "alert"}).json()
    rows = [site.deps.store.queue.row(each) for each in ("a0", "a1")]
    assert (alone["total"], graph["total"]) == (rows[0].events, sum(row.events for row in rows))
    assert "Its incident" not in analyst.get("/graph", params={"alert": "b0"}).text  # it is alone


def test_an_alert_lists_the_others_of_its_incident(site):
    page = site.browser("viewer").get("/alerts/a0").text
    listed = page[page.index('id="incident"') : page.index('id="near"')]
    assert "/incidents/a0" in listed
    assert re.findall(r'href="/alerts/(\w+)', listed) == ["a1"]
    assert 'id="incident"' not in site.browser("viewer").get("/alerts/b0").text


def test_one_decision_closes_all_and_can_be_undone(site):
    done = post(site, "/incidents/a0/changes", do="true_positive", revision=revision(site))
    assert (done.status_code, urlsplit(done.headers["location"]).path) == (303, "/incidents/a0")
    page = site.browser("analyst").get(done.headers["location"]).text
    assert "<strong>2 alerts</strong> closed as true positive" in page
    assert site.deps.store.queue.page(AlertFilter("closed")).total == 2
    assert 'value="reopen"' in page
    undo = re.search(r'<form [^>]*>(?:(?!</form>).)*value="take_back".*?</form>', page, re.DOTALL)
    assert undo
    assert sorted(re.findall(r'name="alert_ids" value="(\w+)"', undo[0])) == ["a0", "a1"]
    again = {"do": "take_back", "revision": revision(site), "alert_ids": ["a0", "a1"]}
    undone = post(site, "/incidents/a0/changes", **again)
    assert site.deps.store.queue.page(AlertFilter("closed")).total == 0
    told = site.browser("analyst").get(undone.headers["location"]).text
    assert "The decisions on <strong>2 alerts</strong> were taken back." in told
    assert 'value="take_back"' not in site.browser("analyst").get(done.headers["location"]).text
    forged = site.browser("analyst").get("/incidents/a0?done=hacked&count=99").text
    own_address = re.compile(r'name="back" value="[^"]*"')  # where the menu of languages leads back to
    assert "hacked" not in own_address.sub("", forged)


def test_a_decision_on_as_many_alerts_as_an_incident_may_have_can_be_undone(tmp_path):
    """All of them, and by an address that proxies take."""
    store = store_in(tmp_path)
    store.alerts.save([alert(f"{number:016x}", hour=number / 100) for number in range(MAX_ALERTS)])
    site, first = Site.of(store), f"{0:016x}"
    done = post(site, f"/incidents/{first}/changes", do="true_positive", revision=revision(site, first))
    assert len(done.headers["location"]) < 2_000
    page = site.browser("analyst").get(done.headers["location"]).text
    undo = re.findall(r'name="alert_ids" value="(\w+)"', page[page.index('value="take_back"') :])
    assert len(set(undo)) == MAX_ALERTS == len(store.incidents.get(first).alerts)
    again = {"do": "take_back", "revision": revision(site, first), "alert_ids": undo}
    post(site, f"/incidents/{first}/changes", **again)
    assert store.queue.page(AlertFilter("closed")).total == 0


def test_who_comes_second_sees_it_as_it_is_and_keeps_what_was_typed(site):
    seen = revision(site)
    post(site, "/incidents/a0/changes", do="take", revision=seen)
    late = post(site, "/incidents/a0/changes", "engineer", do="benign", why="a new laptop", revision=seen)
    assert late.status_code == 409
    assert "analyst changed it last" in late.text
    assert "a new laptop</textarea>" in late.text
    assert site.deps.store.cases.current_decisions() == {}
    silent = post(site, "/incidents/a0/changes", do="false_positive", revision=revision(site))
    assert (silent.status_code, "say why" in silent.text) == (400, True)


def test_alerts_are_assigned_started_and_noted_together(site):
    for form in ({"do": "assign", "to": "engineer"}, {"do": "new"}, {"do": "in_progress"}, {"do": "release"}):
        assert post(site, "/incidents/a0/changes", revision=revision(site), **form).status_code == 303
    assert (
        post(site, "/incidents/a0/changes", do="assign", to="mallory", revision=revision(site)).status_code
        == 400
    )
    assert post(site, "/incidents/a0/changes", do="nonsense", revision=revision(site)).status_code == 400
    assert post(site, "/incidents/a0/changes", do="note", note="asked her").status_code == 303
    page = site.browser("viewer").get("/incidents/a0").text
    assert page.count("asked her") == 1  # written on two alerts, told once
    assert "in progress" in page


def test_an_alert_is_split_off_and_another_joined_and_both_are_undone(site):
    split = post(site, "/incidents/a0/split", alert_ids=["a1"])
    page = site.browser("analyst").get(split.headers["location"]).text
    undo = re.search(r'action="(/incidents/edits/\w+/undo)"', page)[1]
    assert site.deps.store.incidents.page(IncidentFilter()).total == 4
    assert post(site, undo).status_code == 303
    assert site.deps.store.incidents.page(IncidentFilter()).total == 3
    joined = post(site, "/incidents/a0/join", other="b0")
    assert "joined: they stay together" in site.browser("analyst").get(joined.headers["location"]).text
    assert site.deps.store.incidents.get("b0").row.alerts == 3
    for form in ({"other": "b0"}, {"other": "nothing"}):
        assert post(site, "/incidents/a0/join", **form).status_code == 409
    assert post(site, "/incidents/a0/split").status_code == 409


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Site:
    """Every nasty text in an incident of two alerts of its own; the last incident has a harmless one."""
    store = store_in(tmp_path_factory.mktemp("hostile"))
    for number, text in enumerate((*NASTY, "y")):
        steps = (NextStep("undo", text, text),)
        one = replace(nasty(text), alert_id=f"bad5ec0de{number:06d}0", next_steps=steps)
        events = tuple(replace(each, access_key=text) for each in one.events)
        store.alerts.save([replace(one, events=events), replace(one, alert_id=f"bad5ec0de{number:06d}1")])
    return Site.of(store)


def shape_of(page: str) -> list[str]:
    """The elements of a page that a text might add to."""
    tags = [tag for tag, _ in Page.lenient(page).elements]
    return [tag for tag in tags if tag in ("script", "img", "section", "iframe")]


@pytest.fixture(scope="module")
def harmless(hostile) -> list[str]:
    """The shape of an incident's page."""
    return shape_of(hostile.browser("analyst").get(f"/incidents/bad5ec0de{len(NASTY):06d}0").text)


@pytest.mark.parametrize(
    "path", ["/incidents?size=200", *(f"/incidents/bad5ec0de{number:06d}0" for number in range(len(NASTY)))]
)
def test_whatever_an_attacker_wrote_stays_text(hostile, harmless, path):
    page = hostile.browser("analyst").get(path)
    assert page.status_code == 200
    for markup in ("<script>alert", "<img src=x", "<svg onload", "\x1b", "\u202e"):
        assert markup not in page.text
    if "?" not in path:
        assert shape_of(page.text) == harmless
