"""An alert is assigned to another person from its own page, by a list of those who can have it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fingerprint.core.account import Role
from tests.support.alerts import stolen_session
from tests.support.web_app import Site, store_in

PATH = "/alerts/3fa94c1be0d27a58"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    store = store_in(tmp_path)
    store.alerts.save([stolen_session()])
    return Site.of(store)


def listed(site: Site, role: Role = "analyst") -> list[str]:
    page = site.browser(role).get(PATH).text
    return re.findall(r"<option>(\w+)</option>", page)


def test_the_list_has_those_who_may_decide_but_for_oneself(site: Site) -> None:
    assert listed(site) == ["admin", "engineer"]
    assert listed(site, "viewer") == []


def test_an_alert_goes_to_the_person_chosen(site: Site) -> None:
    page = site.browser("analyst").get(PATH).text
    chosen = re.search(r'name="selected" value="([^"]+)"', page)
    assert chosen
    form = {
        "csrf": site.csrf("analyst"),
        "selected": chosen[1],
        "back": PATH,
        "do": "assign",
        "to": "engineer",
    }
    assert site.browser("analyst").post("/changes", data=form).status_code == 303
    assert site.deps.store.queue.row("3fa94c1be0d27a58").assignee == "engineer"
    assert listed(site) == ["admin"]


def test_no_choice_changes_nothing(site: Site) -> None:
    page = site.browser("analyst").get(PATH).text
    chosen = re.search(r'name="selected" value="([^"]+)"', page)
    assert chosen
    form = {"csrf": site.csrf("analyst"), "selected": chosen[1], "back": PATH, "do": "assign", "to": ""}
    site.browser("analyst").post("/changes", data=form)
    assert site.deps.store.queue.row("3fa94c1be0d27a58").assignee == ""


def test_from_ones_own_alerts_the_next_one_is_ones_own(tmp_path: Path) -> None:
    """`assignee:me` is the reader, on the page of an alert as in the queue."""
    store = store_in(tmp_path)
    names = [f"{number:016x}" for number in range(3)]
    store.alerts.save([stolen_session(alert_id=name) for name in names])
    site = Site.of(store)
    for name in names[::2]:
        assign(site, name, "analyst")
    page = site.browser("analyst").get(f"/alerts/{names[0]}?from=q%3Dassignee%3Ame").text
    beside = re.findall(r'<a rel="(?:prev|next)" href="/alerts/(\w+)\?', page)
    assert beside == [names[2]]


def assign(site: Site, name: str, person: str) -> None:
    page = site.browser("admin").get(f"/alerts/{name}").text
    chosen = re.search(r'name="selected" value="([^"]+)"', page)
    assert chosen
    form = {"csrf": site.csrf("admin"), "selected": chosen[1], "back": "/", "do": "assign", "to": person}
    assert site.browser("admin").post("/changes", data=form).status_code == 303
