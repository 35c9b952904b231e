"""The whole of docker-compose.yml, from `up` to an alert in a browser, through what breaks, to `down`: `make compose-test`.

The file is used as it is. Where no image registry is reached the container lab's stand-ins go by the public images'
names, and this is what they leave unproven:

- python:3.11-slim-bookworm is Debian's Python 3.11.2: not the public image's own build of Python, in which
  libpython3.11 is there already;
- apache/kafka:4.1.0 is that release from Maven's packages on OpenJDK 17: not the image's own start script, beyond
  KAFKA_A_B -> a.b and CLUSTER_ID;
- postgres:15-bookworm is Debian's PostgreSQL 15, `postgres` from its start: not that the public image's entry point,
  which begins as root, steps down with the capabilities it is left.

Grafana and NVIDIA's Triton cannot be had so: what Grafana is given is looked at by tests/system/test_monitoring.py, and the
Triton here is the one in the wheel. The tests are one story: each goes on where the one before ended.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.deployments.compose_stack import (
    PROJECT,
    PROMETHEUS_PORT,
    STAND_INS,
    WEB_PORT,
    Stack,
    until,
)
from tests.support.deployments.reference_run import alone
from tests.support.services.browser import chromium

BASE = f"http://localhost:{WEB_PORT}"
PASSWORD = "a long password of mine"  # noqa: S105  of an alert store that lives for minutes
pytestmark = pytest.mark.timeout(1800)  # the first builds the images


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack.up_with("demo") as stack:
        yield stack


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def page(stack: Stack, browser: Browser) -> Page:
    """Anyone who opens the link that the alert store printed, and is its first admin."""
    page = browser.new_page()
    page.goto(until("the alert store prints its link", 180, lambda: set_up_link(stack)))
    page.get_by_label("Name").fill("maria")
    for field in page.locator("main input[type=password]").all():
        field.fill(PASSWORD)
    page.locator("main form button").click()
    expect(page.get_by_role("heading", name="Queue")).to_be_visible()
    return page


def set_up_link(stack: Stack) -> str | None:
    """Printed once the alert store is up; only one that can be opened."""
    if not any(each["Service"] == "web" and each["Health"] == "healthy" for each in stack.services()):
        return None
    words = stack.compose("logs", "--no-color", "web").split()
    return next((word for word in words if word.startswith(f"{BASE}/setup/")), None)


def asked(page: Page, path: str) -> Any:
    """The API's answer, with the browser's session; None while the alert store is away."""
    answer = page.request.get(f"{BASE}/api/v1{path}")
    return answer.json() if answer.ok else None


def alerts(page: Page) -> list[dict[str, Any]]:
    return (asked(page, "/alerts?size=200") or {"rows": []})["rows"]


@pytest.fixture(scope="module")
def simulated(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the demo sent, and the bank that judged it."""
    until("the demo has sent all it has", 600, lambda: stack.exit_status("demo") is not None)
    folder = tmp_path_factory.mktemp("simulated")
    stack.compose("cp", "demo:/srv/fingerprint/demo", str(folder / "demo"))
    stack.compose("cp", "train:/srv/fingerprint/models/bank", str(folder / "bank"))
    return folder


def test_every_service_becomes_well(stack: Stack) -> None:
    stack.wait_until_well()
    said(f"all services well after {stack.since_up():.0f} s")


def test_a_spliced_attack_is_an_alert_in_the_browser(stack: Stack, page: Page) -> None:
    first = until("there is an alert on the alert store", 300, lambda: alerts(page) or None)[0]
    said(f"an alert was told {stack.first_message('fingerprint.alerts'):.0f} s after `up`")
    page.goto(f"{BASE}/")
    expect(page.locator(f"main a[href='/alerts/{first['alert_id']}']").first).to_be_visible()
    page.goto(f"{BASE}/alerts/{first['alert_id']}")
    expect(page.locator("main")).to_contain_text(first["principal"].split("/")[-1])


def test_no_secret_is_printed(stack: Stack) -> None:
    secrets = stack.execute(
        "train", "sh", "-c", "for file in /run/secrets/*/*; do cat $file; echo; done"
    ).split()
    logs = stack.compose("logs", "--no-color")
    assert len(secrets) == 2
    assert not [each for each in secrets if each.split("=")[-1] in logs]


def test_a_container_has_the_secrets_it_uses_and_no_other(stack: Stack) -> None:
    here = {
        service: stack.execute(
            service, "sh", "-c", "cd /run/secrets && ls -d */* 2>/dev/null || true"
        ).split()
        for service in ("ingest", "stream", "web", "train", "triton")
    }
    store, triton = "database/database-password", "triton/triton-control"
    assert here == {
        "ingest": [],
        "stream": [store],
        "web": [store],
        "train": [store, triton],
        "triton": [triton],
    }


def test_nothing_but_the_store_is_published_and_that_on_loopback(stack: Stack) -> None:
    published = {
        port["URL"] for each in stack.services() for port in each["Publishers"] or [] if port["PublishedPort"]
    }
    assert published == {"127.0.0.1"}
    assert {
        each["Service"]
        for each in stack.services()
        for port in each["Publishers"] or []
        if port["PublishedPort"]
    } == {"web"}


def test_programs_run_as_no_one_in_particular_on_a_file_system_they_cannot_change(stack: Stack) -> None:
    for service in ("ingest", "stream", "train", "web", "triton"):
        assert stack.execute(service, "id", "-u").strip() == "10001"
        assert "denied" in stack.execute(
            service, "sh", "-c", "touch /etc/x /opt/fingerprint/x /x 2>&1 || echo denied"
        )


def test_the_image_that_scores_is_lean(stack: Stack) -> None:
    above = size("fingerprint:0.1.0") - size(os.environ.get("PYTHON_IMAGE", STAND_INS["PYTHON_IMAGE"]))
    said(f"fingerprint is {above / 1e9:.2f} GB above its base")
    assert above < 1.1e9  # a fifth of it is numba's compiler: training needs no other image, and no torch
    for program in ("gcc", "cc", "g++", "make"):
        assert stack.execute("stream", "sh", "-c", f"command -v {program} || echo none").strip() == "none"
    assert "No module named 'torch'" in stack.execute(
        "stream", "sh", "-c", "python -c 'import torch' 2>&1 || true"
    )


def size(image: str) -> int:
    """Bytes."""
    command = ["docker", "image", "inspect", "--format", "{{.Size}}", image]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_a_second_scorer_takes_its_share(stack: Stack) -> None:
    stack.compose("up", "--detach", "--no-build", "--no-recreate", "--scale", "stream=2", "stream")
    until("both scorers have partitions", 180, lambda: len(shares(stack)) == 2 and all(shares(stack)))


def shares(stack: Stack) -> list[int]:
    """How many partitions each scorer has."""
    return [len(stack.metric(each, "fingerprint_stream_lag_messages")) for each in stack.containers("stream")]


@pytest.mark.parametrize("service", ["kafka", "triton", "postgres"])
def test_what_it_rests_on_may_be_restarted_while_events_flow(stack: Stack, service: str) -> None:
    stack.compose("restart", service)
    stack.wait_until_well()


def test_a_scorer_that_is_killed_comes_back(stack: Stack) -> None:
    victim = stack.containers("stream")[0]
    subprocess.run(["docker", "kill", victim], check=True, capture_output=True)
    subprocess.run(
        ["docker", "start", victim], check=True, capture_output=True
    )  # Docker takes its own kill for wanted
    stack.wait_until_well()


def test_nothing_was_lost(stack: Stack, page: Page, simulated: Path) -> None:
    """Every record that was sent went all the way, and the alert store holds what one process, left in peace, makes of them."""
    assert stack.exit_status("demo") == 0
    until("nothing is on its way any more", 300, lambda: stack.lag() == 0)
    diary = json.loads((simulated / "demo/progress.json").read_text())
    assert stack.ends("cloudtrail") >= (
        sent := diary["past"] + diary["rest"]
    )  # a broker that went away may have been sent some twice
    assert stack.records("fingerprint.events") >= sent
    assert json.loads(stack.execute("ingest", "fingerprint", "dead-letters", "list", "--json")) == []


def test_the_store_holds_what_an_undisturbed_process_finds(page: Page, simulated: Path) -> None:
    here = {row["alert_id"]: events_of(page, row["alert_id"]) for row in alerts(page)}
    assert here == alone(simulated)
    spliced = {
        json.loads(line)["event_id"]
        for line in next((simulated / "demo").rglob("labels.jsonl")).read_text().splitlines()
    }
    found = spliced & set().union(*here.values())
    said(f"{len(here)} alerts; {len(found)} of {len(spliced)} events of attacks are in them")
    assert found


def events_of(page: Page, alert: str) -> set[str]:
    """Ids of all its events, page by page."""
    found, following = set(), ""
    while following is not None:
        evidence = asked(
            page, f"/alerts/{alert}/events?size=200" + (f"&following={following}" if following else "")
        )
        found |= {each["event_id"] for each in evidence["events"]}
        following = evidence["following"]
    return found


def test_prometheus_reaches_every_program_and_no_rule_is_broken(stack: Stack) -> None:
    stack.compose("--profile", "observe", "up", "--detach", "--no-build", "--no-recreate", "prometheus")
    wanted = {"ingest": 1, "stream": 2, "train": 1, "web": 1, "triton": 1, "prometheus": 1}
    until("Prometheus has asked everybody", 120, lambda: reached() == wanted)
    groups = prometheus("/rules")["groups"]
    assert groups
    assert {rule["health"] for group in groups for rule in group["rules"]} <= {"ok", "unknown"}


def prometheus(path: str) -> Any:
    """Its answer; nothing while it is not up."""
    try:
        with urlopen(f"http://localhost:{PROMETHEUS_PORT}/api/v1{path}", timeout=5) as answer:
            return json.load(answer)["data"]
    except OSError:
        return {"activeTargets": []}


def reached() -> Counter[str]:
    """How many targets of each job answer."""
    return Counter(
        each["labels"]["job"] for each in prometheus("/targets")["activeTargets"] if each["health"] == "up"
    )


def test_what_it_costs_to_be_idle(stack: Stack) -> None:
    """Not a limit: docs/how-to/operate.md has the figures."""
    command = ["docker", "stats", "--no-stream", "--format", "{{.Name}}\t{{.MemUsage}}"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    said("\n".join(sorted(line for line in lines if line.startswith(PROJECT))))
    assert lines


def said(text: str) -> None:
    """On the terminal, also where output is captured: these figures are read."""
    Path("build").mkdir(exist_ok=True)
    with open("build/compose-test.txt", "a") as file:
        print(text, file=file)
    print(text)


def test_programs_that_are_asked_to_end_do_so_in_good_order(stack: Stack) -> None:
    stack.compose("stop", "ingest", "stream", "train", "web", "triton")
    ended = {each["Service"]: each["ExitCode"] for each in stack.services() if each["State"] == "exited"}
    failed = [service for service, status in ended.items() if status]
    assert not failed, stack.compose("logs", "--tail", "100", *failed)
