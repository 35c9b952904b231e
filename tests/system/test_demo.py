"""`fingerprint demo --serve --open-browser` as a newcomer runs it, once; and the documentation's pictures, taken of it."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2 as httpx
import pytest
from PIL import Image

from fingerprint.core.settings import Retention
from fingerprint.store import open_store
from pipelines.commands import retention
from pipelines.demo import DemoFolder
from tests.support import take_screenshots
from tests.support.sample_organisation import SampleOrganisation
from tests.support.services import browser as browsers
from tests.support.services.requirement import needed

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Demo:
    """A demo that is served: what it printed, its folder, and the link that its browser was given."""

    said: list[str]
    folder: DemoFolder
    began: datetime
    opened: int  # a pipe: the program in place of a browser writes into it what it is to open

    @property
    def link(self) -> str:
        return self.said[-1].rpartition(" ")[2]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, organisation: SampleOrganisation) -> Iterator[Demo]:
    """The demo as a person starts it. By the time there is an `organisation`, numba has compiled what both need, and keeps it."""
    place = tmp_path_factory.mktemp("demo")
    began, out = datetime.now(UTC), place / "the demo"
    browser, pipe = place / "browser", place / "opened"
    os.mkfifo(pipe)
    opened = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {shlex.quote(str(pipe))}\n')
    browser.chmod(0o700)
    command = ("demo", "--out", str(out), "--serve", "--open-browser", "--port", "0")
    with (place / "errors").open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "pipelines.cli", *command],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env=os.environ | {"PYTHONUNBUFFERED": "1", "DISPLAY": ":99", "BROWSER": f"{browser} %s"},
            text=True,
        )
    try:
        yield Demo(_lines_until(process, "/setup/"), DemoFolder(out), began, opened)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        os.close(opened)


def _lines_until(process: subprocess.Popen[str], text: str) -> list[str]:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line.rstrip("\n"))
        if text in line:
            return said
    raise AssertionError(f"the demo ended: {said[-20:]}")


def test_the_demo_ends_today_and_finds_three_of_its_four_attacks_on_any_weekday(demo):
    newest = max(line for file in demo.folder.records.glob("*.gz") for line in [file.name[:10]])
    assert newest == f"{demo.began - timedelta(days=1):%Y-%m-%d}"
    assert sum(line.startswith("FOUND ") for line in demo.said) == 3
    assert sum(line.startswith("MISSED ") and "mimic" in line for line in demo.said) == 1
    store = open_store(demo.folder.database_url)
    seen = [alert.last_event_time for alert in store.alerts.by_urgency()]
    store.close()
    assert max(seen) > demo.began - timedelta(days=6)


def test_it_ends_with_the_line_that_opens_its_queue(demo):
    at = demo.said.index("open the queue in a browser:")
    assert demo.said[at + 1].strip() == demo.folder.serve_command
    words = shlex.split(demo.folder.serve_command)
    assert words[1:] == ["serve", "--database", demo.folder.database_url, "--bank", str(demo.folder.bank)]
    database = shlex.quote(demo.folder.database_url)
    assert f"show them: fingerprint alerts list --database {database}" in demo.said


def test_it_serves_the_queue_and_opens_the_link_of_the_first_account(demo):
    with httpx.Client() as client:
        assert "No account exists yet" in client.get(f"{demo.link.partition('/setup/')[0]}/login").text
        assert "Create the account" in client.get(demo.link).text
    assert select.select([demo.opened], [], [], 20)[0]
    assert os.read(demo.opened, 10_000).decode() == demo.link


def test_serving_it_removes_nothing_of_it(demo):
    store = open_store(demo.folder.database_url)
    votes = len(store.votes.read())
    assert retention.apply_retention(store, Retention())
    assert all(event.raw for alert in store.alerts.by_urgency() for event in alert.events)
    assert len(store.votes.read()) == votes > 0
    store.close()


def test_the_pictures_of_the_documentation_are_taken_of_it(demo, tmp_path):
    some = take_screenshots.PICTURES[1:3]
    named = "".join([path.read_text() for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))])
    with needed(), browsers.chromium() as browser:
        taken = take_screenshots.take_pictures(browser, demo.folder.out, tmp_path, tmp_path, some)
    assert all(f"images/{picture.file}" in named for picture in take_screenshots.PICTURES)
    for file, picture in zip(taken, some, strict=True):
        assert file.name == picture.file
        with Image.open(file) as image:
            assert image.size == (picture.size["width"], picture.size["height"])
            assert len(image.getcolors() or ()) > 50, "a page, not a blank"
