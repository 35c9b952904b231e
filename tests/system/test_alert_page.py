"""An alert's page in a real browser: the gravest attack in view, a timeline to narrow, records to copy, no layout that breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.grave_attack import GRACE, KEY, grave_attack
from tests.support.populated_queue import Place, lay_out, served
from tests.support.services import browser as browsers
from tests.support.services.requirement import needed
from tests.support.take_screenshots import admitted
from tests.system.test_browser import faults_of, leave_one_of_each, overflow, seen

SCREEN, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
ALERT = grave_attack()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with needed(), browsers.chromium() as running:
        yield running


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("grave")
    url = f"sqlite:///{folder}/alerts.sqlite"
    lay_out(url, [ALERT])
    with served(url, folder) as place:
        yield place


@pytest.fixture(scope="module")
def reader(browser: Browser, place: Place) -> Any:
    return admitted(browser, place.setup)


@pytest.fixture(scope="module")
def window(browser: Browser, reader: Any) -> Iterator[Page]:
    with seen(browser, storage_state=reader) as window:
        yield window


@pytest.fixture
def page(place: Place, window: Page) -> Page:
    """The alert's page as it is when it is opened."""
    window.set_viewport_size(SCREEN)
    window.emulate_media(color_scheme="light")
    window.goto(f"{place.base}/alerts/{ALERT.alert_id}")
    window.wait_for_load_state("load")
    return window


def rows(page: Page) -> Locator:
    return page.locator("section > .timeline > li > details")


def follow(page: Page, link: Locator) -> None:
    """Click a link and wait for the whole of its page: what counts elements sees none of a page that is half read."""
    link.click()
    page.wait_for_load_state("load")


def is_in_view(element: Locator, height: int = SCREEN["height"]) -> bool:
    box = element.bounding_box()
    return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= height


def test_what_happened_what_to_do_and_the_decision_are_in_view_at_once(page: Page) -> None:
    """On the gravest alert of a demo, without scrolling, whatever its user agents are like."""
    gravest = page.locator("ul.impact li")
    assert gravest.count() == 5
    assert all(is_in_view(each) for each in gravest.all())
    expect(gravest.filter(has_text="PutEventSelectors")).to_contain_text("trail:organisation")
    for text in ("CreateAccessKey", "AttachUserPolicy", "CreateLoginProfile", "CreateUser"):
        call = page.locator("table.phase tr", has_text=text).first
        assert is_in_view(call), text
        expect(call.locator(".technique").first).to_have_text(re.compile(r"^T1\d{3}"))
    contain = page.locator(".steps pre.command").first
    assert is_in_view(contain)
    expect(contain).to_contain_text(f"--access-key-id {KEY} --status Inactive")
    for name in ("True positive", "Benign", "False positive"):
        assert is_in_view(page.get_by_role("button", name=name).first)
    assert is_in_view(page.locator("#page-why"))
    assert overflow(page) <= 0


def test_the_decision_stays_in_view_and_covers_nothing_that_has_the_focus(page: Page) -> None:
    rows(page).last.locator("summary").first.focus()
    assert is_in_view(page.get_by_role("button", name="Benign").first)
    bar = page.locator(".deciding").bounding_box()
    focused = rows(page).last.locator("summary").first.bounding_box()
    assert bar is not None
    assert focused is not None
    assert focused["y"] >= bar["y"] + bar["height"]


def test_hundreds_of_user_agents_are_one_program(page: Page) -> None:
    programs = page.locator("dt", has_text="Programs").locator("+ dd")
    expect(programs.locator("summary").first).to_have_text(re.compile(r"aws-cli 2\.24 linux \u00d7 253"))
    box = programs.bounding_box()
    assert box is not None
    assert box["height"] < 60
    programs.locator("summary").first.click()
    expect(programs).to_contain_text("and 233 other user agents")


def test_repeats_are_one_row_and_each_event_can_be_opened(page: Page) -> None:
    assert rows(page).count() == 32
    row = rows(page).filter(has_text="DescribeInstanceInformation")
    expect(row).to_contain_text("\u00d7 28")
    row.locator("summary").first.click()
    assert row.locator(".repeats > li").count() == 10
    row.locator(".repeats > li > details > summary").nth(1).click()
    expect(row.get_by_role("region", name="The record")).to_contain_text("DescribeInstanceInformation")
    row.get_by_role("link", name="18 further events").click()
    expect(page.get_by_text("100 rows of 253")).to_be_visible()
    assert rows(page).first.locator(".call").inner_text() == "ssm:DescribeInstanceInformation"


def test_what_supports_an_alert_is_folded_below_its_timeline(page: Page) -> None:
    support = page.locator("details.supporting")
    expect(support).not_to_have_attribute("open", "")
    support.locator("summary").first.click()
    row = support.locator(".timeline > li")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("s3:ListBuckets \u00d7 2")
    expect(row.locator(".score")).to_have_text("Autoencoder 1.9")
    assert rows(page).count() == 32


def test_an_open_events_user_agent_has_room(page: Page) -> None:
    """A grid that was meant for rows once squeezed every folded text inside an event into its first column."""
    row = rows(page).filter(has_text="DeleteFlowLogs")
    row.locator("summary").first.click()
    agent = row.locator("dt", has_text="With").locator("+ dd")
    box = agent.locator("summary, bdi").first.bounding_box()
    assert box is not None
    assert box["width"] > 300


def test_the_timeline_is_narrowed_by_links_that_work_without_script(
    browser: Browser, place: Place, reader: Any
) -> None:
    with seen(browser, storage_state=reader, viewport=SCREEN, java_script_enabled=False) as page:
        page.goto(f"{place.base}/alerts/{ALERT.alert_id}")
        narrow = page.get_by_role("navigation", name="Filter the timeline")
        narrow.get_by_role("link", name="Failed").click()
        expect(rows(page)).to_have_count(6)
        expect(rows(page).locator(".error")).to_have_count(6)
        follow(page, narrow.get_by_role("link", name="Defense Evasion"))
        assert rows(page).locator(".call").all_inner_texts() == [
            "cloudtrail:StopLogging",
            "cloudtrail:DeleteTrail",
            "organizations:LeaveOrganization",
        ]
        narrow.get_by_role("link", name="Newest first").click()
        expect(rows(page).locator(".call").first).to_have_text("organizations:LeaveOrganization")
        follow(page, narrow.get_by_role("link", name="All 253"))
        follow(page, narrow.get_by_role("link", name="New to them"))
        assert rows(page).locator(".what .unseen").count() == rows(page).count() > 10
        secrets = page.locator("table.phase tr", has_text="GetSecretValue")
        follow(page, secrets.get_by_role("link", name="\u00d7 21"))
        assert rows(page).locator(".call").all_inner_texts() == ["secretsmanager:GetSecretValue"]


def test_a_record_a_field_and_a_query_are_copied(browser: Browser, place: Place, reader: Any) -> None:
    with seen(
        browser, storage_state=reader, viewport=SCREEN, permissions=["clipboard-read", "clipboard-write"]
    ) as page:
        page.goto(f"{place.base}/alerts/{ALERT.alert_id}")
        row = rows(page).filter(has_text="PutEventSelectors")
        row.locator("summary").first.click()
        row.locator(".raw-record .copy").click()
        expect(row.locator(".raw-record .copy")).to_have_text("Copied")
        assert '"eventName": "PutEventSelectors"' in page.evaluate("navigator.clipboard.readText()")
        row.locator("dt", has_text="Access key").locator("+ dd .copy").click()
        expect(row.locator("dt", has_text="Access key").locator("+ dd .copy")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == KEY
        row.locator("dt", has_text="Athena").locator("+ dd .copy").click()
        expect(row.locator("dt", has_text="Athena").locator("+ dd .copy")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()").startswith(
            "SELECT * FROM cloudtrail_logs WHERE"
        )


def test_the_principal_is_a_link(page: Page) -> None:
    page.locator("#who ~ dl").get_by_role("link", name=GRACE).click()
    expect(page).to_have_url(re.compile("/entities/"))


def test_the_switch_moves_the_times_of_the_alert_its_chart_its_incident_and_its_principal(
    browser: Browser, place: Place, reader: Any
) -> None:
    """Kolkata is five and a half hours ahead, so the evening of the attack in UTC is a night there."""
    day = f"{place.base}/alerts/{ALERT.alert_id}"
    with seen(browser, storage_state=reader, viewport=SCREEN, timezone_id="Asia/Kolkata") as page:
        page.goto(day)
        flag, tick = (
            page.locator("ul.flags li > span").first,
            page.locator("svg.curve.wide [data-show=tick]").first,
        )
        before = (flag.inner_text(), tick.text_content())
        expect(flag).to_contain_text("Wednesday 4 March 14:00 UTC")
        page.get_by_role("button", name="Local time").click()
        expect(flag).to_contain_text("Wednesday 4 March 19:30 GMT+5:30: 210 where")
        expect(page.locator("svg.curve.wide rect.flagged title").first).to_have_text(flag.inner_text())
        assert tick.text_content() != before[1]
        expect(page.locator("svg.curve.wide [data-zone]")).to_have_text("GMT+5:30")
        expect(page.locator(".lead .when")).to_contain_text("GMT+5:30")
        for path in (f"/incidents/{ALERT.alert_id}", "/incidents", f"/entities/{GRACE}", "/audit"):
            page.goto(place.base + path)
            expect(page.locator("main [data-zone]").first).to_have_text("GMT+5:30")
            assert "UTC" not in page.locator("main time[data-show] + [data-zone]").all_inner_texts()
        page.get_by_role("button", name="Local time").click()
        page.goto(day)
        assert (flag.inner_text(), tick.text_content()) == before


def test_a_telephone_shows_thirty_rows_and_then_the_others(page: Page) -> None:
    assert page.locator(".timeline > li:not(.day):visible").count() == 32
    page.set_viewport_size(NARROW)
    page.reload()
    shown = page.locator(".timeline > li:not(.day):visible")
    assert shown.count() == 30
    page.get_by_role("button", name="Show 2 more rows").click()
    assert shown.count() == 32
    assert page.evaluate(
        "document.activeElement.closest('li') === document.querySelectorAll('.timeline > li:not(.day)')[30]"
    )
    expect(page.locator(".more-rows")).to_be_hidden()


LABELLED = "document.querySelector('#graph')._cyreg.cy.edges('.labelled').length"
EDGES = "document.querySelector('#graph')._cyreg.cy.edges().length"


def test_lines_of_a_picture_say_what_they_are_where_there_is_room(page: Page) -> None:
    page.goto(f"{page.url.split('/alerts')[0]}/graph?alert={ALERT.alert_id}")
    page.wait_for_selector("#graph[data-drawn]")
    assert page.evaluate(EDGES) > 8
    assert page.evaluate(LABELLED) == 0
    cy = "document.querySelector('#graph')._cyreg.cy"
    # Without `void` the browser would return the whole graph.
    page.evaluate(f"void {cy}.edges()[3].emit('mouseover')")
    assert page.evaluate(f"{cy}.edges()[3].style('target-label')")
    assert page.evaluate(LABELLED) == 1
    page.evaluate(f"void {cy}.edges()[3].emit('mouseout')")
    assert page.evaluate(LABELLED) == 0
    page.locator("#graph").press("ArrowRight")
    chosen = page.evaluate(f"{cy}.edges('.chosen').length")
    assert page.evaluate(LABELLED) == chosen > 0
    page.locator("#graph").press("Escape")
    assert page.evaluate(LABELLED) == 0


def test_no_one_is_kept_out(page: Page) -> None:
    """Everything is open; axe looks at the first rows of the timeline, for the others are built alike."""
    page.evaluate("document.querySelectorAll('details:not(.menu)').forEach(each => each.open = true)")
    page.set_viewport_size(NARROW)
    assert overflow(page) <= 0
    page.set_viewport_size(SCREEN)
    page.evaluate("document.querySelectorAll('.timeline > li:nth-child(n+6)').forEach(each => each.remove())")
    assert 3 <= rows(page).count() < 10
    leave_one_of_each(page)
    page.evaluate(browsers.axe())
    assert faults_of(page) == []
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme="dark")
    assert faults_of(page, ["color-contrast", "scrollable-region-focusable"]) == []


def test_a_decision_says_who_when_and_why(page: Page) -> None:
    page.locator("#page-why").fill("confirmed with Grace by telephone")
    follow(page, page.get_by_role("button", name="True positive").first)
    page.goto(page.url.split("/?")[0].rstrip("/") + f"/alerts/{ALERT.alert_id}")
    decided = page.locator(".deciding")
    expect(decided).to_contain_text(
        re.compile("true positive by maria, just now: .confirmed with Grace by telephone")
    )
    assert page.locator("#page-why").count() == 0
    page.get_by_role("button", name="Reopen").click()
    expect(page.locator("#page-why")).to_be_visible()
