"""Take the screenshots of the app in docs/images: `.venv/bin/python tests/support/take_screenshots.py`.

Needs Chromium, and Pillow to make them small.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page

from fingerprint.core.case import AlertFilter, AlertRevision, AssignCase, SetDisposition
from fingerprint.store import open_store
from tests.support.alerts import stolen_session
from tests.support.populated_queue import alerts, lay_out, served
from tests.support.services.browser import chromium

IMAGES = Path(__file__).parents[2] / "docs/images"
COLOURS = 160
PASSWORD = "four plain english words"  # noqa: S105
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 390, "height": 780}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        url = f"sqlite:///{folder}/alerts.sqlite"
        lay_out(url, alerts())
        work(url)
        with served(url, Path(folder)) as place:
            kept = admitted(browser, place.setup)
            for name, path, colours, size, do in PICTURES:
                context = browser.new_context(storage_state=kept, color_scheme=colours, viewport=size)
                page = context.new_page()
                page.goto(place.base + path)
                do(page)
                keep(page.screenshot(), IMAGES / name)
                context.close()


def work(url: str) -> None:
    """Some of it is done already, as in the middle of a morning."""
    store = open_store(url)
    rows = store.queue.page(AlertFilter(), "urgency", 50).rows
    store.cases.change([AlertRevision(rows[at].alert_id, 0) for at in (1, 4)], AssignCase("maria"), "maria")
    store.cases.change(
        [AlertRevision(rows[at].alert_id, 0) for at in (9, 14, 20)],
        SetDisposition("benign", "the yearly audit"),
        "farid",
    )
    store.cases.add_note(rows[1].alert_id, "Ana is on leave since Monday.", "farid")
    store.cases.add_note(
        stolen_session().alert_id,
        "Asked Maria by telephone: she was on a train, without her laptop.",
        "farid",
    )
    store.close()


def admitted(browser: Browser, setup: str) -> object:
    page = browser.new_page()
    page.goto(setup)
    page.get_by_label("Name").fill("maria")
    for field in page.locator("main input[type=password]").all():
        field.fill(PASSWORD)
    page.locator("main form button").click()
    page.get_by_role("heading", name="Queue").wait_for()
    return page.context.storage_state()


def choose_two(page: Page) -> None:
    for box in page.locator(".queue.interactive input[type=checkbox]").all()[1:3]:
        box.check()


def decide(page: Page) -> None:
    choose_two(page)
    page.get_by_role("button", name="Decide").click()
    page.locator("#decide-why").fill("the yearly audit reads all secrets")


def nothing(page: Page) -> None:
    page.wait_for_load_state("load")


def keep(png: bytes, file: Path) -> None:
    """In few colours: the pages have few."""
    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(file, optimize=True)
    print(f"{file.name}: {file.stat().st_size // 1024} kB")


STOLEN = f"/alerts/{stolen_session().alert_id}"
PICTURES = (
    ("queue.png", "/", "light", WIDE, choose_two),
    ("decide.png", "/", "dark", WIDE, decide),
    ("alert.png", STOLEN, "light", {"width": 1280, "height": 1380}, nothing),
    ("queue-narrow.png", "/?text=snapshot", "light", NARROW, nothing),
)

if __name__ == "__main__":
    main()
