"""A principal's page: its alerts first, and its user agents folded to programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
