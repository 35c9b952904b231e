"""A real browser for the tests: Debian's Chromium, driven through Playwright, with nothing of its own to download.

Example:
    >>> with chromium() as browser:
    ...     page = browser.new_page()
    ...     page.goto("http://127.0.0.1:8080/")

Chromium without windows, of Debian's packages: the one that is installed, or it is fetched once and unpacked in
`build/services/chromium`, or in the folder that CHROMIUM_TEST_PACKAGES names. Where it cannot be fetched, an installed Chromium
does.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from playwright.sync_api import Browser, Error, sync_playwright

from tests.support.services.debian_packages import Unavailable, fetch, libraries

HERE = Path(__file__).parent
PACKAGE = "chromium-headless-shell"
ONE_LINE = f"sudo apt-get install -y {PACKAGE}"
PROGRAM = f"usr/lib/chromium/{PACKAGE}"
# Root has no user namespaces to build the sandbox from; the pages are our own.
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a screen, until the block ends. Unavailable where it cannot be had."""
    program, environment = _program()
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=program, args=list(OPTIONS), env=os.environ | environment
            )
        except Error as error:
            raise Unavailable(f"Chromium did not start: {str(error)[-1000:]}; try: {ONE_LINE}") from None
        with browser:
            yield browser


def axe() -> str:
    """The source of axe-core, which finds what keeps people from using a page (4.12, MPL 2.0, from axe-playwright-python)."""
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def _program() -> tuple[str, dict[str, str]]:
    """Where it is, and the environment it needs."""
    if found := shutil.which(PACKAGE):
        return found, {}
    folder = Path(os.environ.get("CHROMIUM_TEST_PACKAGES") or HERE.parents[2] / "build/services/chromium")
    try:
        if not folder.is_dir():
            fetch(PACKAGE, folder, "chromium-common")
    except Unavailable:
        if whole := shutil.which("chromium"):
            return whole, {}
        raise
    return str(folder / PROGRAM), libraries(folder)
