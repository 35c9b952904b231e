"""The alert store in a real browser: a morning by mouse, the same by keyboard alone, and what an attacker wrote staying text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from pyotp import TOTP

from fingerprint.core.case import AlertRevision, ReopenCase, SavedView, SetDisposition, SuppressionMatch
from fingerprint.core.sanitize import printable, storable
from fingerprint.store import open_store
from tests.support.alerts import NASTY, nasty, stolen_session
from tests.support.populated_queue import Place, alerts, lay_out, served
from tests.support.sample_organisation import SampleOrganisation
from tests.support.services import browser as browsers
from tests.support.services.requirement import needed

PASSWORD = "four plain english words"  # noqa: S105
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 390, "height": 800}
PAGES = (
    "/",
    "/?by=service&by=tactic",
    "/incidents",
    "/overview",
    "/alerts/{alert}/preview",
    "/help",
    "/entities/{principal}",
    "/graph?alert={alert}&of=principal",
    "/suppressions",
    "/suppressions/new?alert={alert}",
    "/banks",
    "/audit",
    "/thresholds",
    "/confirm",
    "/accounts",
)  # an incident and one's own account are looked at where they are used, an alert in test_alert_page.py
STOLEN = stolen_session()
expect.set_options(timeout=20_000)  # milliseconds; the machine may be busy with other things


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with needed(), browsers.chromium() as running:
        yield running


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An alert store with some forty alerts."""
    url = f"sqlite:///{tmp_path_factory.mktemp('store')}/alerts.sqlite"
    lay_out(url, alerts())
    return url


@pytest.fixture(scope="module")
def place(
    url: str, organisation: SampleOrganisation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """It is served, with a bank to report on."""
    with served(url, tmp_path_factory.mktemp("served"), organisation.bank) as place:
        yield place


@pytest.fixture(scope="module")
def admitted(browser: Browser, place: Place) -> dict[str, Any]:
    """The first admin, made by the link that the server printed, and what the browser then keeps of it."""
    with seen(browser) as page:
        create_first_account(page, place)
        if "/login" in page.url:
            log_in(page, "maria")
        expect(page.get_by_role("heading", name="Queue")).to_be_visible()
        return page.context.storage_state()


@contextmanager
def seen(browser: Browser, **options: Any) -> Iterator[Page]:
    """A page in a window of its own; an error of a script, or anything that the policy had to block, fails the test."""
    context = browser.new_context(**({"viewport": WIDE} | options))
    context.set_default_timeout(20_000)
    page, wrong = context.new_page(), []
    watch(page, wrong)
    try:
        yield page
        assert not wrong
    finally:
        context.close()


def watch(page: Page, wrong: list[str]) -> None:
    """Chromium also says on the console that an answer's status was 400: the page says so itself."""
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
    page.on(
        "console",
        lambda said: wrong.append(said.text) if said.type == "error" and "400" not in said.text else None,
    )


def create_first_account(page: Page, place: Place) -> None:
    """Follow the link of a new queue, in whichever language the page is."""
    page.goto(place.setup)
    page.locator("[name=name]").fill("maria")
    for field in page.locator("main input[type=password]").all():
        field.fill(PASSWORD)
    page.locator("main form button").click()


def log_in(page: Page, name: str, password: str = PASSWORD) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.locator("main").get_by_role("button", name="Log in").click()


def press(page: Page, *keys: str) -> None:
    """One after the other, once the page and its scripts are there."""
    page.wait_for_load_state("load")
    for key in keys:
        page.keyboard.press(key)


def tab_to(page: Page, selector: str) -> None:
    """Tab on until it has the focus, as who has no mouse does."""
    for _ in range(150):
        if page.evaluate("selector => !!document.activeElement?.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no Tab leads to {selector}")


def rows(page: Page) -> Any:
    return page.locator(".queue.interactive [data-alert]")


def overflow(page: Page) -> int:
    """Pixels that stand out of the window, once its styles are there."""
    page.wait_for_load_state("load")
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_a_morning_by_mouse(browser, place, admitted):
    with seen(browser) as page:
        page.goto(place.base)
        log_in(page, "maria")
        expect(page.get_by_role("heading", name="Queue")).to_be_visible()

        page.wait_for_load_state("load")  # the script leaves empty fields out of the address
        page.locator("select[name=least_urgency]").select_option("75")
        page.get_by_role("button", name="Filter").click()
        expect(page).to_have_url(re.compile("least_urgency=75"))
        expect(page).not_to_have_url(re.compile("service="))
        page.wait_for_load_state("load")
        urgent = rows(page).count()
        assert [int(text) for text in page.locator(".urgency b").all_inner_texts()] == sorted(
            (alert.urgency for alert in alerts() if alert.urgency >= 75), reverse=True
        )

        page.locator("a.go", has_text=STOLEN.title[:60]).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("tried to stop CloudTrail")
        page.locator(".timeline summary").filter(has_text="StopLogging").click()
        expect(page.get_by_role("region", name="The record").first).to_contain_text(
            '"eventName": "StopLogging"'
        )

        onward = page.get_by_label("Then open the next alert")
        expect(onward).to_be_checked()  # by the script
        onward.uncheck()
        page.locator("#page-why").fill("confirmed with Maria by telephone")
        page.get_by_role("button", name="True positive").click()
        expect(page.locator(".outcome")).to_contain_text("1 alert closed as true positive.")
        expect(page).to_have_url(re.compile("least_urgency=75"))
        expect(rows(page)).to_have_count(urgent - 1)

        page.wait_for_load_state("load")  # the script of this page is there, too: it takes clicks on boxes
        for box in rows(page).get_by_role("checkbox").all()[:3]:
            box.check()
        expect(page.locator("#selected")).to_have_text("3 selected")
        page.get_by_role("button", name="Decide").click()
        page.locator("#decide-why").fill("the yearly audit reads all secrets")
        page.get_by_role("dialog").get_by_role("button", name="Benign").click()
        expect(page.locator(".outcome")).to_contain_text("3 alerts closed as benign.")
        expect(rows(page)).to_have_count(urgent - 4)
        page.wait_for_load_state("load")  # the script moves the result to where the eye is
        page.get_by_role("button", name="Undo").click()
        expect(page.locator(".outcome")).to_contain_text("The decisions on 3 alerts were taken back.")
        expect(rows(page)).to_have_count(urgent - 1)

        page.get_by_role("link", name="Closed").click()
        page.locator("a.go", has_text=STOLEN.title[:60]).click()
        expect(page.locator("#story ~ .story")).to_contain_text("closed it as true positive")
        expect(page.locator("#story ~ .story")).to_contain_text("confirmed with Maria by telephone")
        log_out(page)


def log_out(page: Page) -> None:
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/login"))


def test_what_is_suppressed_leaves_the_queue_and_comes_back(browser, place, admitted):
    with seen(browser, storage_state=admitted) as page:
        page.goto(f"{place.base}/?q=ci-deploy")
        rows(page).get_by_role("link").first.click()
        page.get_by_role("link", name="suppress alerts like this").click()
        expect(page.get_by_label("Service")).to_have_value("ecs")
        page.get_by_label("Reason").fill("the new deployment pipeline, change 4711")
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_role("heading", name="It would hide 1 alert")).to_be_visible()
        page.get_by_role("button", name="Suppress").click()
        expect(page.locator("main")).to_contain_text("the new deployment pipeline, change 4711")

        page.goto(f"{place.base}/?q=ci-deploy")
        expect(page.get_by_text("No alert matches.")).to_be_visible()
        page.get_by_role("link", name="Suppressed 1").click()
        expect(rows(page)).to_have_count(1)

        page.get_by_role("link", name="Suppressions").click()
        page.get_by_role("button", name="End it").click()
        page.goto(f"{place.base}/?q=ci-deploy")
        expect(rows(page)).to_have_count(1)


def test_what_is_wrong_with_a_search_stands_clear_of_its_field(browser, place, admitted):
    for width in (1440, 390):
        with seen(browser, storage_state=admitted, viewport={"width": width, "height": 900}) as page:
            page.goto(f"{place.base}/?q=nettwork:x")
            field = page.locator("#search").bounding_box() or {}
            told = page.locator("#search-refused").bounding_box() or {}
            assert told["y"] - (field["y"] + field["height"]) >= 6


def test_a_preview_of_a_suppression_is_one_card_with_its_heading_plain(browser, place, admitted):
    """No rule of another part of the pages is for it: its heading once was a card in a card."""
    with seen(browser, storage_state=admitted) as page:
        page.goto(f"{place.base}/suppressions/new")
        page.get_by_label("Principal").fill("role/ci-deploy")
        page.get_by_role("button", name="Preview").click()
        heading = page.get_by_role("heading", name="It would hide 0 alerts that are stored")
        expect(heading).to_be_visible()
        page.wait_for_load_state("load")  # before its style sheets are there nothing has a border
        assert heading.evaluate("heading => getComputedStyle(heading).borderTopWidth") == "0px"
        expect(page.get_by_role("status")).to_contain_text("Did you mean 123456789012:role/ci-deploy?")


def test_a_suppression_that_cannot_be_is_said_above_what_was_written(browser, place, admitted):
    with seen(browser, storage_state=admitted) as page:
        page.goto(f"{place.base}/suppressions/new")
        page.get_by_label("Network").fill("10.0.0.300")
        page.get_by_label("Reason").fill("the office")
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_role("alert")).to_contain_text("is no network")
        expect(page.get_by_label("Network")).to_have_value("10.0.0.300")
        expect(page.get_by_label("Reason")).to_have_value("the office")


def test_the_same_morning_by_keyboard_alone(browser, place, admitted):
    with seen(browser) as page:
        page.goto(place.base)
        tab_to(page, "[name=name]")
        page.keyboard.type("maria")
        press(page, "Tab")
        page.keyboard.type(PASSWORD)
        press(page, "Enter")
        expect(page.get_by_role("heading", name="Queue")).to_be_visible()

        press(page, "/")
        page.keyboard.type("snapshot")
        press(page, "Enter")
        expect(page).to_have_url(re.compile("q=snapshot"))
        found = 8
        expect(rows(page)).to_have_count(found)

        press(page, "j", "x", "j", "j", "k", "x", "e")
        expect(page.locator("#selected")).to_have_text("2 selected")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.type("both shared with our own account")
        press(page, "Enter", "3")
        expect(page.locator(".outcome")).to_contain_text("2 alerts closed as false positive.")
        expect(rows(page)).to_have_count(found - 2)
        press(page, "u")
        expect(page.locator(".outcome")).to_contain_text("The decisions on 2 alerts were taken back.")

        press(page, "j", "a")
        expect(page.locator(".outcome")).to_contain_text("1 alert assigned to you.")
        press(page, "j", "c")
        page.keyboard.type("asked the owner of the account")
        press(page, "Tab", "Enter")
        expect(page.locator(".outcome")).to_contain_text("1 alert noted.")

        press(page, "Enter")  # the keys stand where they stood
        expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
        expect(page.locator(".story")).to_contain_text("asked the owner of the account")
        tab_to(page, ".timeline summary")
        press(page, "Enter")
        expect(page.get_by_role("region", name="The record").first).to_contain_text("eventName")
        press(page, "j")
        expect(page.locator("a[rel=prev]")).to_be_visible()
        press(page, "e")
        page.keyboard.type("the owner says so")
        press(page, "Enter", "2")
        expect(page.locator(".outcome")).to_contain_text("1 alert closed as benign.")
        press(page, "g", "q")
        expect(page.get_by_role("heading", name="Queue")).to_be_visible()

        press(page, "?")
        expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
        press(page, "Escape", "g", "s")
        expect(page.get_by_role("heading", name="Suppressions")).to_be_visible()
        tab_to(page, ".menu summary")
        press(page, "Enter")
        tab_to(page, ".menu form[action='/logout'] button")
        press(page, "Enter")
        expect(page).to_have_url(re.compile("/login"))


@pytest.fixture(scope="module")
def morning(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[tuple[Place, str, Any]]:
    """A queue of ten alerts of which three are attacks, and someone who is logged in."""
    folder = tmp_path_factory.mktemp("morning")
    url = f"sqlite:///{folder}/alerts.sqlite"
    lay_out(url, alerts()[:1] + alerts()[2:11])
    with served(url, folder) as place, seen(browser) as page:
        create_first_account(page, place)
        expect(page.get_by_role("heading", name="Queue")).to_be_visible()
        yield place, url, page.context.storage_state()


def test_a_morning_of_ten_alerts_takes_four_keys_each(browser, morning):
    """Every key counts but those of a reason of one's own. A template is one key (down), and so is a decision.

    Nine alerts: two keys to begin, three for each of three attacks (e, Enter, 1), four for each harmless one (e, down, Enter, 2).
    """
    place, url, kept = morning
    with seen(browser, storage_state=kept, viewport={"width": 1440, "height": 900}) as page:
        page.goto(place.base)
        count = 0

        def keys(*pressed: str) -> None:
            nonlocal count
            count += len(pressed)
            press(page, *pressed)

        keys("j", "Enter")
        page.wait_for_url("**/alerts/**")
        for at in range(9):
            decided = page.locator("#live").get_attribute("data-alert")
            keys("e", "Enter", "1") if at < 3 else keys("e", "ArrowDown", "Enter", "2")
            said = "true positive" if at < 3 else "benign"
            expect(page.locator(".outcome")).to_contain_text(f"1 alert closed as {said}.")
            expect(page.locator("#live")).not_to_have_attribute("data-alert", decided or "")
        assert count == 2 + 3 * 3 + 6 * 4 <= 45
        keys("e", "ArrowDown", "ArrowDown", "Enter", "3")  # the last has no next one: back to the queue
        expect(page.get_by_text("No open alerts.")).to_be_visible()
        assert count <= 45
        store = open_store(url)
        reasons = {each.why for each in store.cases.dispositions() if each.decision != "true_positive"}
        assert reasons == {"Known change or deployment", "Confirmed with the person"}
        for each in store.cases.dispositions():
            row = store.queue.row(each.alert_id)
            store.cases.change([AlertRevision(row.alert_id, row.version)], ReopenCase("again"), "maria")
        store.close()


def test_the_place_in_the_queue_is_kept(browser, morning):
    """From an alert's page back to its row, after a decision there to the row that came after it, after undo to it again."""
    place, _, kept = morning
    with seen(browser, storage_state=kept) as page:
        page.goto(place.base)
        ids = [row.get_attribute("data-alert") for row in rows(page).all()]
        press(page, "j", "j", "j", "Enter")
        page.wait_for_url("**/alerts/**")
        press(page, "n")  # this time not on to the next one
        press(page, "e", "Enter", "1")
        expect(page.locator(".outcome")).to_contain_text("closed as true positive")
        expect(page.locator("tr.current")).to_have_attribute("data-alert", ids[3] or "")
        expect(page.locator("tr.current a.go")).to_be_focused()
        expect(page.locator(".outcome")).to_be_in_viewport()
        page.reload()
        expect(page.locator(".outcome")).not_to_contain_text("closed")
        press(page, "j", "j", "j", "Enter")
        page.wait_for_url("**/alerts/**")
        press(page, "g", "q")
        page.wait_for_url(place.base + "/")
        expect(page.locator("tr.current")).to_have_attribute("data-alert", ids[3] or "")
        press(page, "j")
        expect(page.locator("tr.current")).to_have_attribute("data-alert", ids[4] or "")


def test_a_range_is_selected_and_the_dialog_names_it(browser, morning):
    place, _, kept = morning
    with seen(browser, storage_state=kept) as page:
        page.goto(place.base)
        press(page, "j", "x", "J", "J")
        expect(page.locator("#selected")).to_have_text("3 selected")
        press(page, "Escape")
        expect(page.locator("#selected")).to_have_text("")
        boxes = rows(page).get_by_role("checkbox")
        boxes.nth(1).click()
        boxes.nth(4).click(modifiers=["Shift"])
        expect(page.locator("#selected")).to_have_text("4 selected")
        press(page, "e")
        dialog = page.get_by_role("dialog", name="Decide on 4 alerts")
        expect(dialog.locator("#decide-warning")).to_contain_text("Among them: ")
        assert dialog.locator("#decide-list li").count() == 4
        expect(dialog.locator("#decide-list li").first).to_contain_text(
            rows(page).nth(1).locator("a.go").inner_text()[:30]
        )
        press(page, "Enter", "2")  # without a reason
        expect(dialog.locator("#decide-lacking")).to_be_visible()
        expect(dialog.locator("#decide-why")).to_be_focused()
        press(page, "Escape", "c")
        page.keyboard.type("asked all four")
        press(page, "Control+Enter")
        expect(page.locator(".outcome")).to_contain_text("4 alerts noted.")


def test_a_duplicate_of_nothing_is_said_beside_the_field_with_what_was_written(browser, morning):
    """An empty field at once, another alert's wrong id by the server, which opens the dialog or the page's bar again."""
    place, _, kept = morning
    with seen(browser, storage_state=kept) as page:
        page.goto(place.base)
        press(page, "j", "x", "e")
        dialog = page.get_by_role("dialog")
        dialog.locator("#decide-why").fill("the same key")
        dialog.get_by_role("button", name="Duplicate").click()
        expect(dialog.locator("#decide-of-lacking")).to_be_visible()
        expect(dialog.locator("#decide-of")).to_be_focused()
        page.keyboard.type("ffff")
        expect(dialog.locator("#decide-of-lacking")).to_be_hidden()
        dialog.get_by_role("button", name="Duplicate").click()
        expect(page.locator(".outcome")).to_contain_text("A duplicate needs the id of one other alert.")
        expect(dialog.locator("#decide-of")).to_be_focused()
        expect(dialog.locator("#decide-of")).to_have_value("ffff")
        expect(dialog.locator("#decide-why")).to_have_value("the same key")
        expect(page.locator("#selected")).to_have_text("1 selected")
        page.goto(place.base)
        press(page, "j", "Enter")
        page.wait_for_url("**/alerts/**")
        page.locator("#page-why").fill("the same key")
        page.locator("#page-of").fill("ffff")
        page.get_by_role("button", name="Duplicate").click()
        expect(page.locator("#page-of-lacking")).to_be_visible()
        expect(page.locator("#page-of")).to_be_focused()
        expect(page.locator("#page-why")).to_have_value("the same key")
        assert overflow(page) <= 0


def test_fifteen_alerts_and_more_are_in_view(browser, place, admitted):
    with seen(browser, storage_state=admitted, viewport={"width": 1440, "height": 900}) as page:
        page.goto(f"{place.base}/?status=all")
        page.wait_for_load_state("load")
        boxes = [row.bounding_box() for row in rows(page).all()]
        assert sum(box["y"] >= 0 and box["y"] + box["height"] <= 900 for box in boxes if box) >= 15
        assert overflow(page) <= 0
        page.set_viewport_size({"width": 1920, "height": 1080})
        assert (page.locator("#rows").bounding_box() or {})["width"] > 1850
        page.set_viewport_size({"width": 390, "height": 844})
        page.reload()
        assert (rows(page).first.bounding_box() or {"y": 999})["y"] < 400
        assert overflow(page) <= 0


def test_the_preview_follows_the_keys(browser, place, admitted):
    with seen(browser, storage_state=admitted, viewport={"width": 1440, "height": 900}) as page:
        page.goto(place.base)
        press(page, "j", "o")
        pane = page.locator("#preview")
        expect(pane).to_contain_text("What to do next")
        expect(pane.locator("article")).to_have_attribute(
            "data-alert", rows(page).first.get_attribute("data-alert") or ""
        )
        press(page, "j")
        expect(pane.locator("article")).to_have_attribute(
            "data-alert", rows(page).nth(1).get_attribute("data-alert") or ""
        )
        page.evaluate(browsers.axe())
        assert faults_of(page) == []
        press(page, "Space")
        expect(pane).to_be_hidden()
        rows(page).nth(3).locator("a.peek").click()
        expect(pane.locator("article")).to_have_attribute(
            "data-alert", rows(page).nth(3).get_attribute("data-alert") or ""
        )
        press(page, "Escape")
        expect(pane).to_be_hidden()


def test_columns_density_and_order_are_chosen(browser, place, admitted):
    with seen(browser, storage_state=admitted, viewport={"width": 1440, "height": 900}) as page:
        page.goto(place.base)
        page.get_by_role("link", name="Events").click()
        expect(page).to_have_url(re.compile("order=events"))
        expect(page.get_by_role("columnheader", name="Events")).to_have_attribute("aria-sort", "descending")
        page.get_by_role("link", name="Events").click()
        expect(page.get_by_role("columnheader", name="Events")).to_have_attribute("aria-sort", "ascending")
        counts = [int(text) for text in page.locator("td.c-events").all_inner_texts()]
        assert counts == sorted(counts)

        grip = page.get_by_role("separator", name="Width of Who")
        before = int(grip.get_attribute("aria-valuenow") or 0)
        grip.focus()
        press(page, "ArrowRight", "ArrowRight")
        assert int(grip.get_attribute("aria-valuenow") or 0) == before + 32
        page.reload()
        assert round((page.locator("th.c-principal").bounding_box() or {})["width"]) == before + 32

        page.locator("summary", has_text="View").first.click()
        page.locator(".display").get_by_label("Account").uncheck()
        page.locator(".display").get_by_label("Service").check()
        page.get_by_role("button", name="Apply").click()
        expect(page).to_have_url(re.compile("order=fewest"))
        expect(page.locator("th.c-account")).to_have_count(0)
        expect(page.locator("th.c-service")).to_have_count(1)
        page.locator("summary", has_text="View").first.click()
        page.get_by_label("Comfortable cards").check()
        page.get_by_role("button", name="Apply").click()
        expect(page.locator("ol.comfortable")).to_be_visible()
        check_page(page)


def test_times_are_shown_in_the_zone_that_is_chosen(browser, place, admitted):
    with seen(browser, storage_state=admitted, timezone_id="Asia/Kolkata") as page:
        page.goto(f"{place.base}/alerts/{STOLEN.alert_id}/preview")
        span = page.locator("article dd time").first
        expect(span).to_have_text("4 March 2026, 14:02:00")
        page.get_by_role("button", name="Local time").click()
        expect(span).to_have_text("4 March 2026, 19:32:00")
        expect(span).to_have_attribute("title", re.compile("14:02:00 UTC · 4 March 2026, 19:32:00 GMT"))
        page.goto(place.base)
        expect(page.locator("#zone")).to_have_attribute("aria-pressed", "true")


def test_keys_can_be_switched_off(browser, place, admitted):
    with seen(browser, storage_state=admitted) as page:
        page.goto(place.base)
        press(page, "?")
        page.get_by_label("Enable single-key").uncheck()
        press(page, "Escape", "g", "s")
        press(page, "j")
        expect(page.locator(".queue.interactive .current")).to_have_count(0)
        expect(page).to_have_url(f"{place.base}/")


def test_everything_that_matters_works_without_script(browser, place, admitted):
    with seen(browser, storage_state=admitted, java_script_enabled=False) as page:
        page.goto(f"{place.base}/?q=athena")
        page.goto(f"{place.base}/?service=athena&status=open")
        found = rows(page).count()
        rows(page).get_by_role("checkbox").first.check()
        page.locator("#decide-why").fill("a report of the quarter")
        page.get_by_role("button", name="Benign").click()
        expect(page.locator(".outcome")).to_contain_text("1 alert closed as benign.")
        expect(rows(page)).to_have_count(found - 1)
        page.get_by_role("button", name="Undo").click()
        expect(rows(page)).to_have_count(found)
        rows(page).locator("a.go").first.click()
        page.locator(".timeline summary").first.click()
        page.get_by_role("link", name="The record as AWS wrote it").first.click()
        expect(page.locator("#record")).to_contain_text("eventName")


def test_the_investigation_picture_is_drawn_and_walked_by_keyboard(browser, place, admitted):
    with seen(browser, storage_state=admitted) as page:
        page.goto(f"{place.base}/entities/{STOLEN.principal}")
        page.get_by_role("link", name="Investigation picture").click()
        drawing = page.get_by_role("application")
        expect(drawing).to_have_attribute("data-drawn", re.compile("[1-9]"))
        expect(page.locator("#things ~ .scroll tbody tr")).to_have_count(
            int(drawing.get_attribute("data-drawn") or 0)
        )
        tab_to(page, "#graph")
        said = set()
        for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
            press(page, key)
            said.add(page.locator("#graph-says").inner_text())
        assert len(said) == 2
        assert any(STOLEN.events[0].source_address in text and "called from" in text for text in said)
        with_address = page.locator("#connections ~ .scroll tr").filter(has_text="called from")
        expect(with_address.first).to_contain_text(STOLEN.events[0].source_address)


def test_the_investigation_picture_is_a_list_without_script(browser, place, admitted):
    with seen(browser, storage_state=admitted, java_script_enabled=False) as page:
        page.goto(f"{place.base}/graph?alert={STOLEN.alert_id}")
        expect(page.locator("#graph")).to_be_hidden()
        expect(page.get_by_text("The drawing needs JavaScript")).to_be_visible()
        expect(page.locator("#connections ~ .scroll")).to_contain_text("called from")


def test_a_view_that_was_saved_is_one_click_away(browser, place, admitted):
    with seen(browser, storage_state=admitted) as page:
        page.goto(f"{place.base}/?status=all&service=iam&by=principal")
        page.locator("summary", has_text="Save view").click()
        page.get_by_label("Save this view as").fill("Someone lists users")
        page.get_by_role("button", name="Save").click()
        page.goto(place.base)
        page.get_by_role("link", name="Someone lists users").click()
        expect(page.locator("table.groups tbody tr")).to_have_count(8 + 1)
        page.locator("table.groups a").first.click()
        expect(page).to_have_url(re.compile("principal="))
        page.get_by_role("link", name="Someone lists users").click()
        page.locator("summary", has_text="Save view").click()
        page.get_by_role("button", name="Delete view").click()
        expect(page.get_by_role("link", name="Someone lists users")).to_have_count(0)


def test_an_incident_is_split_decided_and_undone_by_keyboard(browser, place, admitted):
    with seen(browser, storage_state=admitted) as page:
        page.goto(place.base)
        press(page, "g", "i")
        expect(page.get_by_role("heading", name="Incidents")).to_be_visible()
        page.get_by_role("row").filter(has_text="hugo.lind").get_by_role("link").first.focus()
        press(page, "Enter")
        expect(page.get_by_role("heading", name="Decide on all 4 alerts")).to_be_visible()
        tab_to(page, "input[name=alert_ids]")
        press(page, "Space")
        tab_to(page, "form[action$='/split'] button:not([disabled])")
        press(page, "Enter")
        expect(page.get_by_text("split off: they stay apart until it is undone")).to_be_visible()
        expect(page.get_by_role("heading", name="Decide on all 3 alerts")).to_be_visible()
        press(page, "u")
        expect(page.get_by_role("heading", name="Decide on all 4 alerts")).to_be_visible()
        press(page, "e")
        page.keyboard.type("the yearly audit")
        tab_to(page, "button[value=benign]")
        press(page, "Enter")
        expect(page.get_by_text("4 alerts closed as benign")).to_be_visible()
        check_page(page)
        press(page, "u")
        expect(page.get_by_text("The decisions on 4 alerts were taken back")).to_be_visible()


def test_an_alert_that_comes_while_the_page_is_open_is_announced(browser, place, url, admitted):
    with seen(browser, storage_state=admitted) as page:
        with page.expect_response("**/api/v1/live**"):
            page.goto(place.base)
        store = open_store(url)
        store.alerts.save(
            [
                replace(
                    stolen_session(),
                    alert_id="0000000000000002",
                    principal="1:user/new",
                    title="It came just now",
                )
            ]
        )
        store.close()
        bar = page.locator("#live")
        # more than one: the others of its incident have changed, too
        expect(bar).to_contain_text(re.compile("[0-9]+ new or changed alerts?: show"))
        expect(page).to_have_title(re.compile(r"^\([0-9]+\) Queue"))
        rows(page).get_by_role("checkbox").nth(1).check()
        kept = rows(page).nth(1).get_attribute("data-alert")
        page.mouse.wheel(0, 600)
        expect(bar).to_be_in_viewport()
        bar.get_by_role("link").click()
        expect(page.locator("a.go", has_text="It came just now")).to_be_visible()
        expect(page.locator(".fresh[data-alert='0000000000000002'] .new")).to_be_visible()
        expect(page.locator("#selected")).to_have_text("1 selected")
        expect(page.locator(f"[data-alert='{kept}'] input")).to_be_checked()


@pytest.mark.parametrize("path", PAGES)
def test_no_one_is_kept_out(browser, place, admitted, path):
    with seen(browser, storage_state=admitted) as page:
        page.goto(place.base + path.format(alert=STOLEN.alert_id, principal="123456789012:user/ana.silva"))
        check_page(page)
        assert page.locator("h1").count() == 1


# What axe-core sees of a row but its words: elements, classes, styles, roles, which texts and other attributes are empty.
BUILT = """row => row.outerHTML.replace(/>[^<]*[^<\\s][^<]*</g, '>text<')
  .replace(/ (?!class=|style=|role=|type=|scope=|lang=)([\\w:-]+)="[^"]+"/g, ' $1="value"')"""
LEAVE_ONE_OF_EACH = f"""() => {{
  const built = {BUILT}, seen = new Set(), ids = [...document.querySelectorAll('[id]')].map(each => each.id)
  if (new Set(ids).size < ids.length) throw new Error('an id is there twice: ' + ids)
  const rows = [...document.querySelectorAll('main tbody > tr, main ol > li, main ul > li')]
  const again = rows.filter(row => seen.size === seen.add(built(row)).size)
  again.forEach(row => row.remove())
  return again.length
}}"""


def leave_one_of_each(page: Page) -> int:
    """Remove rows of tables and lists that are built as one before them, for axe-core; return how many.

    No id may be there twice, which axe-core could not see any more.
    """
    page.wait_for_load_state("load")
    return int(page.evaluate(LEAVE_ONE_OF_EACH))


GERMAN_PAGES = (
    "/",
    "/alerts/{alert}",
    "/incidents",
    "/entities/{principal}",
    "/thresholds",
    "/overview",
    "/banks",
)
# of axe-core, what other words can break; colours and structure are those of the English page
RULES_OF_WORDS = [
    "html-has-lang",
    "html-lang-valid",
    "valid-lang",
    "document-title",
    "label",
    "select-name",
    "button-name",
    "link-name",
    "image-alt",
    "aria-command-name",
    "aria-input-field-name",
    "empty-heading",
]


# Words that begin on one line and end on another, of those that are ours: what others wrote lies in the elements left out here.
BROKEN_WORDS = r"""() => {
  const broken = [], range = document.createRange()
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT)
  for (let text; text = texts.nextNode();) {
    const parent = text.parentElement
    if (parent.closest('bdi, code, pre, .key, a[target], .hidden, svg, option')) continue
    if ([parent, parent.closest('thead')].some(each => each?.offsetWidth === 1)) continue // for screen readers only
    for (const word of text.data.matchAll(/[\p{L}\p{N}.,]+/gu)) {
      range.setStart(text, word.index)
      range.setEnd(text, word.index + word[0].length)
      if (new Set([...range.getClientRects()].map(line => Math.round(line.top))).size > 1) broken.push(word[0])
    }
  }
  return broken
}"""
OVERLAPPING_LABELS = """() => [...document.querySelectorAll('svg.risk')].flatMap(drawing => {
  const boxes = [...drawing.querySelectorAll('text')].map(label => label.getBoundingClientRect())
  const overlap = (one, other) => Math.min(one.right, other.right) > Math.max(one.left, other.left)
    && Math.min(one.bottom, other.bottom) > Math.max(one.top, other.top) + 4
  return boxes.flatMap((one, at) => boxes.slice(at + 1).filter(other => overlap(one, other)))
})"""


@pytest.fixture(scope="module")
def german(browser: Browser, admitted: dict[str, Any]) -> Iterator[Page]:
    """Someone who reads the pages in German."""
    with seen(browser, storage_state=admitted, locale="de-DE") as page:
        yield page


@pytest.mark.parametrize("path", GERMAN_PAGES)
def test_no_one_is_kept_out_in_german_and_no_word_or_figure_is_broken_over_two_lines(german, place, path):
    """German words are longer: the page has no fault, the header stays in one line, and nothing stands out of the window."""
    german.set_viewport_size({"width": 1440, "height": 900})
    german.goto(place.base + path.format(alert=STOLEN.alert_id, principal="123456789012:user/ana.silva"))
    assert german.locator("html").get_attribute("lang") == "de"
    assert overflow(german) <= 0
    german.evaluate(browsers.axe())
    assert faults_of(german, RULES_OF_WORDS) == []
    tops = german.locator("header nav li").evaluate_all("all => all.map(each => each.offsetTop)")
    assert len(set(tops)) == 1
    for width in (1280, 390):
        german.set_viewport_size({"width": width, "height": 844})
        assert path == "/" or german.evaluate(BROKEN_WORDS) == []
        assert german.evaluate(OVERLAPPING_LABELS) == []
        assert overflow(german) <= 0


def test_groups_on_a_phone_stand_clear_of_the_edge_of_their_card(browser, place, admitted):
    with seen(browser, storage_state=admitted, viewport=NARROW) as page:
        page.goto(f"{place.base}/?by=service&by=tactic")
        page.wait_for_load_state("load")
        styles = page.locator(".groups td").evaluate_all(
            "cells => cells.map(getComputedStyle).map(style => [style.paddingLeft, style.paddingRight, style.textAlign])"
        )
        assert {tuple(each) for each in styles} == {("14px", "14px", "left")}


def check_page(page: Page) -> None:
    """axe-core finds no serious or critical fault, and the page fits a phone, in the dark, too."""
    page.set_viewport_size(NARROW)
    assert overflow(page) <= 0
    page.set_viewport_size(WIDE)
    leave_one_of_each(page)
    page.evaluate(browsers.axe())
    assert faults_of(page) == []
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme="dark")
    assert faults_of(page, ["color-contrast", "scrollable-region-focusable"]) == []
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="light")


def invited(page: Page, place: Place, name: str) -> str:
    """The link of a new account, as a browser opens it where passkeys work: at a name."""
    page.goto(f"{place.base}/accounts")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create an invitation link").click()
    return page.locator("code.secret").inner_text().replace("127.0.0.1", "localhost")


def test_a_passkey_is_made_and_shown_at_the_next_login(browser, place, admitted):
    with seen(browser, storage_state=admitted) as page:
        link = invited(page, place, "otto")
    with seen(browser) as page:
        session = page.context.new_cdp_session(page)
        session.send("WebAuthn.enable")
        kind = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasUserVerification": True,
            "isUserVerified": True,
        }
        options = kind | {"hasResidentKey": True, "automaticPresenceSimulation": True}
        session.send("WebAuthn.addVirtualAuthenticator", {"options": options})

        page.goto(link)
        for field in page.locator("main input[type=password]").all():
            field.fill(PASSWORD)
        page.locator("main form button").click()
        base = page.url.partition("/")[0] + "//" + page.url.split("/")[2]
        page.goto(f"{base}/account/second")
        check_page(page)
        passkey = page.locator("form[data-passkey]")
        passkey.get_by_label("What it is called").fill("this laptop")
        passkey.get_by_role("button", name="Add a passkey").click()
        expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
        assert page.locator(".codes li").count() == 10
        check_page(page)
        page.get_by_role("link", name="I have kept them").click()
        expect(page.get_by_role("cell", name="this laptop", exact=True)).to_be_visible()
        log_out(page)

        log_in(page, "otto")
        expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
        check_page(page)
        page.get_by_role("button", name="Use a passkey").click()
        expect(page.get_by_role("heading", name="Queue")).to_be_visible()
        page.goto(f"{base}/account")
        expect(page.locator("#sessions ~ table")).to_contain_text("passkey")
        check_page(page)
        page.goto(f"{base}/confirm?next=/account/second")
        check_page(page)
        page.get_by_role("button", name="Use a passkey").click()
        expect(page).to_have_url(f"{base}/account/second")


def test_who_has_no_passkey_at_hand_goes_in_without_script(browser, place, admitted):
    """By an authenticator app whose key was typed, and by a recovery code."""
    with seen(browser, storage_state=admitted) as page:
        link = invited(page, place, "petra")
    with seen(browser, java_script_enabled=False) as page:
        page.goto(link)
        for field in page.locator("main input[type=password]").all():
            field.fill(PASSWORD)
        page.locator("main form button").click()
        page.goto(link.partition("/setup/")[0] + "/account/second")
        assert page.locator(".qr svg").count() == 1
        app = TOTP(page.locator("code.secret").inner_text())
        page.get_by_label("The code that the app shows").fill(app.now())
        page.get_by_role("button", name="Add it").click()
        code = page.locator(".codes li").first.inner_text()
        page.get_by_role("link", name="I have kept them").click()
        log_out(page)
        log_in(page, "petra")
        page.get_by_label("or a recovery code").fill(code)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Queue")).to_be_visible()


def test_after_a_decision_the_focus_is_where_work_goes_on(browser, place, admitted):
    """On the row that follows; where there is none, on what was done, with Undo one Tab away."""
    with seen(browser, storage_state=admitted) as page:
        page.goto(f"{place.base}/?q=snapshot")
        press(page, "j", "x", "e")
        page.keyboard.type("our own account")
        press(page, "Enter", "2")
        expect(page.locator(".outcome")).to_contain_text("1 alert closed as benign.")
        expect(page.locator(".queue a.go:focus")).to_have_count(1)
        press(page, "u")
        expect(page.locator(".outcome")).to_contain_text("The decision on 1 alert was taken back.")

        rows(page).locator("a.go").first.click()
        page.locator("#page-why").fill("our own account")
        page.get_by_role("button", name="Benign").click()
        expect(page.locator(".outcome")).to_contain_text("1 alert closed as benign.")
        expect(page.locator(".outcome")).to_be_focused()
        press(page, "Tab")
        expect(page.get_by_role("button", name="Undo")).to_be_focused()
        press(page, "Enter")
        expect(page.locator(".outcome")).to_contain_text("The decision on 1 alert was taken back.")


def test_no_one_is_kept_out_before_the_login_in_german(browser, place, admitted):
    with seen(browser, storage_state=admitted) as page:
        link = invited(page, place, "quirin")
    with seen(browser, locale="de-DE") as page:
        for address in (f"{place.base}/login", link):
            page.goto(address)
            assert page.locator("html").get_attribute("lang") == "de"
            check_page(page)


def test_a_fault_of_one_row_among_many_would_be_found(browser, place, admitted):
    """Rows that are built alike are looked at once: one with a style, an element or an empty text of its own is not alike."""
    with seen(browser, storage_state=admitted) as page:
        page.goto(place.base)
        page.wait_for_load_state("load")
        page.evaluate("""() => {
          const rows = document.querySelectorAll('.queue.interactive [data-alert]')
          rows[21].querySelector('a.go').style.color = '#ccc'
          rows[22].querySelector('td:last-child').append(new Image())
          const link = rows[23].querySelector('a.go')
          link.textContent = ' '
          link.title = ''
        }""")
        assert leave_one_of_each(page) > 20
        page.evaluate(browsers.axe())
        found = {fault.partition(":")[0] for fault in faults_of(page)}
        assert found >= {"color-contrast", "image-alt", "link-name"}


def faults_of(page: Page, rules: list[str] | None = None) -> list[str]:
    """What axe-core calls serious or critical, by all its rules or some of them."""
    options = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
    found = page.evaluate("options => axe.run(options)", options)["violations"]
    return [
        f"{each['id']}: {node['html'][:120]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Place]]:
    """An alert store on which every text is an attacker's."""
    folder = tmp_path_factory.mktemp("hostile")
    url = f"sqlite:///{folder}/alerts.sqlite"
    made = [replace(nasty(text), alert_id=f"bad5ec0de{at:07d}") for at, text in enumerate(NASTY)]
    store = open_store(url)
    for alert in made:  # one by one: they share principals and events
        store.alerts.save([alert])
    store.close()
    with served(url, folder) as place:
        yield url, place


@pytest.fixture(scope="module")
def reader(browser: Browser, hostile: tuple[str, Place]) -> Iterator[Page]:
    """Someone who reads that alert store on a small screen; people have written the same texts on it."""
    url, place = hostile
    with seen(browser, viewport=NARROW) as page:
        create_first_account(page, place)
        expect(page.get_by_role("heading", name="Queue")).to_be_visible()
        write_everywhere(url)
        yield page


def write_everywhere(url: str) -> None:
    """The texts as notes, reasons, views and what suppressions ask for, which hide nothing."""
    store = open_store(url)
    for at, text in enumerate(NASTY):
        kept = storable(text)[:1000].strip() or "nothing"
        alert_id = f"bad5ec0de{at:07d}"
        store.cases.add_note(alert_id, kept, "maria")
        store.cases.change(
            [AlertRevision(alert_id, store.queue.row(alert_id).version)],
            SetDisposition("benign", kept),
            kept[:60],
        )
        store.cases.change(
            [AlertRevision(alert_id, store.queue.row(alert_id).version)], ReopenCase(kept), "maria"
        )
        store.views.save(SavedView("maria", kept[:60], "status=all"))
        until = datetime.now(UTC) + timedelta(days=9)
        store.suppressions.create(
            SuppressionMatch(principal=kept, service="no such service"), kept, until, kept[:60], force=kept
        )
    store.close()


# Of the hostile texts, those that may be more than letters to a browser; tests/web reads the pages of all.
TO_A_BROWSER = [at for at, text in enumerate(NASTY) if re.search(r"^$|^javascript:|[^ -~]|<|.{1000}", text)]


def check_harmless(page: Page, *texts: str) -> None:
    """Shown as text, nothing ran, and nothing stands out of a small screen."""
    shown = page.evaluate("document.body.textContent")
    assert [text for text in texts if printable(storable(text))[:40].strip() not in shown] == []
    assert page.evaluate("[...document.querySelectorAll('main script, main img, main iframe')].length") == 0
    assert page.evaluate("typeof window.__owned") == "undefined"
    assert overflow(page) <= 0


@pytest.mark.parametrize("at", TO_A_BROWSER)
def test_whatever_a_record_says_is_text_on_the_alert_and_on_whom_it_is_about(hostile, reader, at):
    base, alert_id = hostile[1].base, f"bad5ec0de{at:07d}"
    reader.goto(f"{base}/alerts/{alert_id}")
    reader.locator(".timeline summary").first.click()  # a row of repeats
    reader.locator(".repeats > li > details > summary").first.click()
    expect(reader.get_by_role("region", name="The record").first).to_contain_text("userAgent")
    check_harmless(reader, NASTY[at])
    reader.get_by_role("link", name="What is usual for this principal").click()
    expect(reader.get_by_role("heading", name="Anomaly by day")).to_be_visible()
    check_harmless(reader, NASTY[at])


@pytest.mark.parametrize(
    "path",
    [
        "/?status=all",
        "/?status=all&by=tactic&by=principal&by=service",
        "/incidents?status=all",
        "/suppressions",
        "/audit",
        "/banks",
    ],
)
def test_whatever_a_record_says_is_text_on_every_list(hostile, reader, path):
    reader.goto(hostile[1].base + path)
    check_harmless(reader, *(text[:30] for text in NASTY if path != "/banks"))


def test_a_suppression_like_it_asks_for_its_very_letters(hostile, reader):
    for at in TO_A_BROWSER:
        reader.goto(f"{hostile[1].base}/suppressions/new?alert=bad5ec0de{at:07d}")
        check_harmless(reader)
