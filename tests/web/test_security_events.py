"""What happens at the web port is a line of JSON each, however hostile, and counted; lines are bounded."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.requests import Request

from fingerprint.web.security_events import (
    LINE_WINDOW_SECONDS,
    LINES_PER_KIND,
    LINES_PER_SOURCE,
    MAX_LOG_TEXT_LENGTH,
    MAX_SOURCES,
    REFUSAL_REASONS,
    SecurityEvent,
    SecurityEventLog,
    network_prefix,
)
from fingerprint.web.security_metrics import count_export
from tests.support.alerts import NASTY, stolen_session
from tests.support.security_log import lines_of, written
from tests.support.web_app import Site, store_in

ALERT = stolen_session()
FIELDS = {
    "time",
    "level",
    "logger",
    "message",
    "event",
    "outcome",
    "reason",
    "who",
    "address",
    "method",
    "route",
    "status",
    "request_id",
}


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="fingerprint")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    store = store_in(tmp_path_factory.mktemp("store"))
    store.alerts.save([ALERT])
    yield Site.of(store)
    store.close()


class Standing:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


REFUSED = {
    "unauthenticated": (lambda site: site.no_one().get("/api/v1/alerts"), "", "/api/v1/alerts", 401),
    "forbidden": (lambda site: site.client("viewer").get("/api/v1/audit"), "viewer", "/api/v1/audit", 403),
    "cross_site": (
        lambda site: site.browser("analyst").post("/api/v1/alerts/bulk", json={}),
        "analyst",
        "/api/v1/alerts/bulk",
        403,
    ),
    "host": (lambda site: site.no_one().get("/login", headers={"Host": "evil.example"}), "", "", 400),
    "too_large": (lambda site: site.no_one().post("/login", content=b"a" * (2 << 20)), "", "", 413),
    "login": (
        lambda site: site.no_one().post("/login", data={"name": "stranger", "password": "x"}),
        "",
        "/login",
        401,
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_refusal_is_one_line_and_counts(site: Site, caplog: pytest.LogCaptureFixture, why: str) -> None:
    ask, who, route, status = REFUSED[why]
    counter = site.app.state.security._refused.labels(why)._value
    before = counter.get()
    answer = ask(site)
    [line] = lines_of(caplog)
    assert line.keys() - {"name_digest"} == FIELDS
    assert (line["outcome"], line["reason"], line["who"]) == ("refused", why, who)
    assert (line["route"], line["status"], answer.status_code) == (route, status, status)
    assert (line["address"], line["request_id"]) == ("testclient", answer.headers["x-request-id"])
    assert (line["level"], line["logger"]) == ("warning", "fingerprint.security")
    assert counter.get() == before + 1


def test_a_login_through_another_site_is_told_as_such(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.no_one().post("/login", data={"name": "maria"}, headers={"Origin": "https://evil.example"})
    [line] = lines_of(caplog)
    assert (line["event"], line["reason"]) == ("login", "cross_site")


def test_a_name_that_someone_has_and_one_that_no_one_has_look_alike(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("admin", "stranger", " Stranger "):
        site.no_one().post("/login", data={"name": name, "password": "x"})
    admin, no_one, again = lines_of(caplog)
    assert {**admin, "name_digest": "", "request_id": "", "time": ""} == {
        **no_one, "name_digest": "", "request_id": "", "time": "",
    }  # fmt: skip
    assert admin["name_digest"] != no_one["name_digest"] == again["name_digest"]
    assert (
        SecurityEventLog().name_digest("stranger") != no_one["name_digest"]
    )  # no one can try names on the log alone


def test_reading_a_record_says_who_and_which(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    alert, event = ALERT.alert_id, ALERT.events[0].event_id
    read = site.app.state.security._read._value
    before = read.get()
    assert site.client("viewer").get(f"/api/v1/alerts/{alert}/events/{event}").status_code == 200
    assert site.browser("viewer").get(f"/alerts/{alert}/record?event={event}").status_code == 200
    assert site.client("viewer").get(f"/api/v1/alerts/{alert}/events").status_code == 200
    one, other, all_ = lines_of(caplog)
    assert {
        (line["event"], line["outcome"], line["who"], line["alert_id"]) for line in (one, other, all_)
    } == {("read", "allowed", "viewer", alert)}
    assert one["event_id"] == other["event_id"] == event
    assert all_["records"] == len(ALERT.events)
    assert read.get() == before + 2 + len(ALERT.events)


def test_an_export_says_who_in_which_form_what_and_how_many(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    answer = site.client("analyst").get("/api/v1/alerts/export?format=ocsf&status=all&service=iam")
    [line] = lines_of(caplog)
    assert (line["event"], line["outcome"], line["who"], line["format"]) == (
        "export",
        "allowed",
        "analyst",
        "ocsf",
    )
    assert json.loads(line["filter"]) == {"status": "all", "service": "iam"}
    assert line["rows"] == len(answer.text.splitlines()) == 1
    assert line["request_id"] == answer.headers["x-request-id"]


def test_a_change_of_accounts_or_tokens_is_a_line(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    admin, csrf = site.browser("admin"), {"X-CSRF-Token": site.csrf("admin")}
    made = admin.post("/accounts", data={"name": "carla", "role": "viewer"}, headers=csrf)
    assert made.status_code == 200
    assert admin.post("/accounts/carla/disable", headers=csrf).status_code == 303
    first, second = lines_of(caplog)
    assert (first["event"], first["who"], first["route"]) == ("account", "admin", "/accounts")
    assert (second["route"], second["name"]) == ("/accounts/{name}/disable", "carla")


def test_what_is_well_says_nothing(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    assert site.browser("analyst").get(f"/alerts/{ALERT.alert_id}").status_code == 200
    assert site.client("analyst").get("/api/v1/alerts?status=all").status_code == 200
    assert site.no_one().get("/").status_code == 303
    assert lines_of(caplog) == []


@pytest.mark.parametrize("nasty", [*NASTY, '"}\n{"event":"login"', "\x1b[2J", "a" * 100_000], ids=ascii)
def test_however_hostile_the_texts_are_it_is_one_line_and_short(
    site: Site, caplog: pytest.LogCaptureFixture, nasty: str
) -> None:
    event = SecurityEvent("login", who=nasty, address=nasty, route=nasty, detail={"filter": nasty})
    site.app.state.security.record_refusal("login", event)
    [line] = written(caplog)
    assert re.fullmatch(r"[ -~]+", line)
    assert json.loads(line)["event"] == "login"
    assert len(line) < 5 * 12 * MAX_LOG_TEXT_LENGTH
    assert SecurityEventLog().name_digest(nasty)


def test_a_caller_chooses_neither_the_id_nor_the_route_of_a_line(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    answer = site.no_one().get("/api/v1/alerts/secret-in-a-path", headers={"X-Request-ID": "forged"})
    [line] = lines_of(caplog)
    assert line["route"] == "/api/v1/alerts/{alert_id}"
    assert re.fullmatch("[0-9a-f]{16}", line["request_id"])
    assert "forged" not in answer.headers["x-request-id"]


def test_a_proxy_that_is_not_counted_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    no_one = Site.of(store_in(tmp_path)).no_one()
    for _ in range(3):
        no_one.get("/login", headers={"X-Forwarded-For": "192.0.2.7"})
    assert ["web.trusted_proxies is 0" in record.getMessage() for record in caplog.records] == [True]


# --- bounds -----------------------------------------------------------------------------------------------------------


def refused(events: SecurityEventLog, address: str, times: int = 1) -> None:
    for _ in range(times):
        events.record_refusal("login", SecurityEvent("login", address=address))


def test_one_source_writes_so_many_lines_and_the_rest_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = Standing()
    events = SecurityEventLog(now=clock)
    refused(events, "192.0.2.7", 500)
    refused(events, "198.51.100.9")
    lines = lines_of(caplog)
    assert [line["address"] for line in lines] == ["192.0.2.7"] * LINES_PER_SOURCE + ["198.51.100.9"]
    clock.at = LINE_WINDOW_SECONDS
    events.rotate_window()
    last = lines_of(caplog)[-1]
    assert (last["event"], last["reason"], last["left_out"], last["sources"]) == ("login", "login", 480, 1)
    assert last["most"] == ["192.0.2.7: 480"]
    refused(events, "192.0.2.7")
    assert lines_of(caplog)[-1]["address"] == "192.0.2.7"  # there is room again
    assert events._refused.labels("login")._value.get() == 502


def test_many_sources_together_are_bounded_and_no_other_kind_loses_by_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = SecurityEventLog(now=Standing())
    for number in range(MAX_SOURCES + 1000):
        refused(events, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    events.record_export("csv", 3, SecurityEvent("export", "allowed", who="maria"))
    lines = lines_of(caplog)
    assert [line["event"] for line in lines] == ["login"] * LINES_PER_KIND + ["export"]
    assert max(map(len, events._omitted.values())) == MAX_SOURCES + 1
    events.rotate_window(final=True)
    last = lines_of(caplog)[-1]
    assert last["left_out"] == MAX_SOURCES + 1000 - LINES_PER_KIND
    assert len(json.dumps(last)) < 2000


def test_anyone_who_has_a_network_of_ipv6_is_one_source(caplog: pytest.LogCaptureFixture) -> None:
    events = SecurityEventLog(now=Standing())
    for number in range(50):
        refused(events, f"2001:db8:1:2::{number:x}")
    assert len(lines_of(caplog)) == LINES_PER_SOURCE
    assert (
        network_prefix("2001:db8:1:2::7%eth0")
        == network_prefix("2001:db8:1:2:ffff::1")
        == "2001:db8:1:2::/64"
    )
    assert network_prefix("no address\n" * 20) == ("no address\n" * 20)[:64]


def test_every_reason_counts_from_nothing_and_no_label_has_a_name() -> None:
    registry = CollectorRegistry()
    events = SecurityEventLog(registry)
    events.record_refusal("login", SecurityEvent("login", who="maria", address="192.0.2.7"))
    samples: list[Any] = [each for family in registry.collect() for each in family.samples]
    whys = {
        each.labels["reason"] for each in samples if each.name == "fingerprint_web_rejected_requests_total"
    }
    assert whys == set(REFUSAL_REASONS)
    assert {name for each in samples for name in each.labels} == {"reason", "format"}


def test_an_export_that_breaks_off_says_how_far_it_came(
    site: Site, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Anyone who takes it is gone after the first line."""
    scope = {
        "type": "http", "app": site.app, "method": "GET", "path": "/api/v1/alerts/export", "headers": [],
        "state": {"request_id": "1"}, "client": ("192.0.2.7", 1),
    }  # fmt: skip
    rows = count_export(Request(scope), "csv", "{}", iter([1, 2, 3]))
    assert next(rows) == 1
    rows.close()
    [line] = lines_of(caplog)
    assert (line["outcome"], line["rows"]) == ("broken off", 1)
