"""Take the pictures of the README and the documentation from the demo: `make pictures`.

Example:
    $ .venv/bin/python -m tests.support.take_screenshots --demo build/demo      # of a demo that was run today
    $ .venv/bin/python -m tests.support.take_screenshots                        # runs one, then takes the pictures
    queue.png: 56 kB

Needs Chromium, and Pillow to make them small. What is on them is what `make demo` shows, some of it worked on already, as in the
middle of a morning. The demo's own store is not touched: the work is done on a copy.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image
from playwright.sync_api import Browser, Page

from fingerprint.core.case import AlertFilter, AlertRevision, AssignCase, SetDisposition
from fingerprint.store import open_store
from pipelines.demo import DemoFolder
from tests.support.populated_queue import served
from tests.support.services.browser import chromium

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs/images"
COLOURS = 160
PASSWORD = "four plain english words"  # noqa: S105
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 780}
FIRST = "/alerts/{first}"  # the most urgent alert


def choose_two(page: Page) -> None:
    for box in page.get_by_role("checkbox", name="Select").all()[1:3]:
        box.check()


def decide(page: Page) -> None:
    choose_two(page)
    page.get_by_role("button", name="Decide").first.click()
    page.get_by_role("dialog").get_by_role("textbox").first.fill(
        "not hers: keys used from a rented server, disabled"
    )


def nothing(page: Page) -> None:
    page.wait_for_load_state("load")


class Picture(NamedTuple):
    """A file, the page that is on it, and what is done there first."""

    file: str
    path: str
    colours: Any
    size: Any
    do: Callable[[Page], None]


PICTURES = (
    Picture("queue.png", "/", "light", WIDE, choose_two),
    Picture("decide.png", "/", "dark", WIDE, decide),
    Picture("alert.png", FIRST, "light", {"width": 1440, "height": 1380}, nothing),
    Picture("queue-narrow.png", "/", "light", NARROW, nothing),
)


def main() -> None:
    """Run a demo unless one is named, and take its pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--demo", type=Path, help="the folder of a demo (default: a new one)")
    parser.add_argument("--out", type=Path, default=IMAGES, help="the folder of the pictures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        demo = options.demo or run_demo(Path(folder) / "demo")
        for file in take_pictures(browser, demo, options.out, Path(folder)):
            print(f"{file.name}: {file.stat().st_size // 1024} kB")


def run_demo(folder: Path) -> Path:
    """Run the demo of today, and return its folder."""
    command = [sys.executable, "-m", "pipelines.cli", "demo", "--out", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return folder


def take_pictures(
    browser: Browser, demo: Path, out: Path, scratch: Path, pictures: Sequence[Picture] = PICTURES
) -> list[Path]:
    """Take pictures of the demo in a folder into the folder `out`, and return their files."""
    copy = DemoFolder(scratch / "copy")
    copy.out.mkdir()
    shutil.copyfile(demo / "alerts.sqlite", copy.out / "alerts.sqlite")
    first = work(copy.database_url)
    with served(copy.database_url, scratch, bank=DemoFolder(demo).bank) as place:
        kept = admitted(browser, place.setup)
        return [take(browser, kept, place.base, picture, first, out) for picture in pictures]


def take(browser: Browser, kept: Any, base: str, picture: Picture, first: str, out: Path) -> Path:
    context = browser.new_context(storage_state=kept, color_scheme=picture.colours, viewport=picture.size)
    try:
        page = context.new_page()
        page.goto(base + picture.path.format(first=first))
        picture.do(page)
        return keep(page.screenshot(), out / picture.file)
    finally:
        context.close()


def work(url: str) -> str:
    """Some of it is done already; return the id of the most urgent alert."""
    store = open_store(url)
    rows = store.queue.page(AlertFilter(), "urgency", 50).rows
    for row, name in ((rows[1], "maria"), (rows[3], "farid")):
        store.cases.change([AlertRevision(row.alert_id, 0)], AssignCase(name), name)
    benign = [AlertRevision(row.alert_id, 0) for row in rows[-2:]]
    store.cases.change(benign, SetDisposition("benign", "the yearly audit"), "farid")
    store.cases.add_note(rows[0].alert_id, "Asked her team by telephone: she is on leave.", "farid")
    store.close()
    return rows[0].alert_id


def admitted(browser: Browser, setup: str) -> Any:
    page = browser.new_page()
    page.goto(setup)
    page.get_by_label("Name").fill("maria")
    for field in page.locator("main input[type=password]").all():
        field.fill(PASSWORD)
    page.locator("main form button").click()
    page.get_by_role("heading", name="Queue").wait_for()
    return page.context.storage_state()


def keep(png: bytes, file: Path) -> Path:
    """In few colours: the pages have few."""
    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(file, optimize=True)
    return file


if __name__ == "__main__":
    main()
