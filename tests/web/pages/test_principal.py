"""A principal's page: its alerts first, and its user agents folded to programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.alerts import NASTY, nasty
from tests.support.grave_attack import GRACE, grave_attack
from tests.support.web_app import Site, store_in
from tests.web.test_static_report import Page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = store_in(tmp_path_factory.mktemp("principal"))
    store.alerts.save([grave_attack()])
    yield Site.of(store).browser("viewer").get(f"/entities/{GRACE}").text
    store.close()


def test_its_alerts_come_first(page: str) -> None:
    headings = [
        page.index(f'<h2 id="{name}"') for name in ("alerts", "notes", "did", "seen", "hours", "risk")
    ]
    assert headings == sorted(headings)


def test_hundreds_of_user_agents_are_one_program(page: str) -> None:
    seen = page[page.index('id="seen-programs"') :]
    rows = seen[: seen.index("</table>")].split("<tbody>")[1]
    assert rows.count("<tr>") == 1
    assert "<summary><bdi>aws-cli 2.24 linux</bdi></summary>" in rows
    assert "and 233 other user agents" in rows
    assert 'id="seen-user_agents"' not in page


def test_how_many_of_the_events_failed_stands_apart_from_how_many_there_were(tmp_path: Path) -> None:
    calls = [
        replace(each, error_code="AccessDenied", action="DeleteUser") for each in grave_attack().events[:3]
    ]
    alert = replace(grave_attack(), events=(*calls, replace(grave_attack().events[3], action="GetUser")))
    store = store_in(tmp_path)
    store.alerts.save([alert])
    text = " ".join(
        Page.lenient(Site.of(store).browser("viewer").get(f"/entities/{GRACE}").text).text.split()
    )
    store.close()
    assert re.search(r"\D4, 3 failed", text)
    assert re.search(r"\D2, all failed", text)


def test_access_keys_that_no_query_and_no_link_names_are_counted(tmp_path: Path) -> None:
    """Of 40 keys five are queried and three have a link; the reader sees that the others are missing."""
    whole = grave_attack()
    keys = [f"ASIA{number:016}" for number in range(40)]
    events = tuple(
        replace(each, access_key=key) for each, key in zip(whole.events, (keys * 10), strict=False)
    )
    store = store_in(tmp_path)
    store.alerts.save([replace(whole, events=events)])
    reader = Site.of(store).browser("viewer")
    page = reader.get(f"/entities/{GRACE}").text
    queries = page[page.index('class="queries"') : page.index("</details>", page.index('class="queries"'))]
    assert sum(key in queries for key in keys) == 5
    assert "35 other access keys are in none of these queries." in queries
    for text in (page, reader.get(f"/alerts/{whole.alert_id}").text):
        assert len(set(re.findall(r"AccessKeyId=(\w+)", text))) == 3
        assert "37 other access keys have no link here" in text
    one = replace(whole, events=tuple(replace(each, access_key=keys[0]) for each in whole.events))
    store.alerts.save([replace(one, alert_id="f1", principal=f"{GRACE}2")])
    assert "other access key" not in reader.get(f"/entities/{GRACE}2").text
    store.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Every nasty text as the user agent of a principal of its own."""
    store, harmless = store_in(tmp_path_factory.mktemp("hostile")), nasty("y")
    for number, text in enumerate(NASTY):
        events = tuple(replace(each, user_agent=text) for each in harmless.events)
        store.alerts.save(
            [replace(harmless, alert_id=f"a{number}", principal=f"1:user/{number}", events=events)]
        )
    yield Site.of(store)
    store.close()


@pytest.mark.parametrize("number", range(len(NASTY)))
def test_a_user_agent_of_an_attacker_is_text(hostile: Site, number: int) -> None:
    answer = hostile.browser("viewer").get(f"/alerts/a{number}/entity")
    assert answer.status_code == 200
    tags = [tag for tag, _ in Page.lenient(answer.text).elements]
    assert not {"img", "iframe", "object"} & {*tags}
    assert tags.count("script") == 2  # of the layout and of the page
