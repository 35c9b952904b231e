"""Rules, dashboards and their documentation speak of metrics that there are, and a real Prometheus understands them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Metric, ProcessCollector

from fingerprint.adapters.health import Readiness
from pipelines.reference.metrics import registry_of_programs
from tests.support.monitoring import (
    DASHBOARDS,
    OBSERVE,
    ROOT,
    alerts,
    asked,
    expressions,
    metrics_of,
    panels,
    read,
    rules,
)
from tests.support.services.prometheus import Prometheus, promtool
from tests.support.services.requirement import needed

METRICS_PAGES = "".join(
    (ROOT / f"docs/{page}.md").read_text() for page in ("reference/metrics", "explanation/triton")
)
RULES_PAGE = (ROOT / "docs/reference/alert-rules.md").read_text()
PROMETHEUS_OWN = {"up", "ALERTS"}
PARTS = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}


def families() -> list[Metric]:
    """Return the metrics of every program, by the classes that export them."""
    registry = registry_of_programs()
    ProcessCollector(registry=registry)
    return [*registry.collect(), *Readiness({"stream": lambda: None}).collect()]


def series() -> set[str]:
    """Return the names under which Prometheus keeps them."""
    return {family.name + part for family in families() for part in PARTS.get(family.type, ("",))}


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('sum by (job) (rate(a_total{job="x", b="y"}[5m])) > 0', {"a_total"}),
        ("a:b:sum offset 15m and on (job) histogram_quantile(0.9, c_bucket) unless d", {"a:b:sum", "c_bucket", "d"}),
        ("time() - max by (job) (a > 0) > 3 * 86400", {"a"}),
    ],
)  # fmt: skip
def test_a_metric_is_what_is_no_label_word_or_function(expression: str, names: set[str]) -> None:
    assert metrics_of(expression) == names


def test_every_metric_that_is_asked_for_is_told_by_a_program() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    of_triton = {
        name for name in asked() if name.startswith("nv_")
    }  # tests/system/test_triton.py asks a server
    of_cadvisor = {name for name in asked() if name.startswith("container_")}
    assert asked() - of_triton - of_cadvisor - recorded - PROMETHEUS_OWN - series() == set()
    assert recorded <= asked()


def test_every_metric_is_explained() -> None:
    explained = set(re.findall(r"`(\w+)`", METRICS_PAGES))
    own = {name for name in series() if name.startswith("fingerprint_")}
    wanted = {re.sub("_(bucket|sum|count)$", "", name) for name in own} | {
        name for name in asked() if name.startswith("nv_")
    }
    assert wanted - explained == set()
    assert {name for name in explained if name.startswith("fingerprint_")} - wanted == set()


def test_anyone_who_is_scraped_is_a_service_and_anyone_who_is_watched_is_scraped() -> None:
    jobs = {job["job_name"]: job for job in read("prometheus.yml")["scrape_configs"]}
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert set(jobs) - {"prometheus"} <= set(services)
    for name, job in jobs.items():
        for each in job.get("static_configs", []):
            assert [target.split(":")[0] for target in each["targets"]] in ([name], ["127.0.0.1"])
        for each in job.get("dns_sd_configs", []):
            assert each["names"] == [name]
    watched = {
        job
        for _, expression in expressions()
        for said in re.findall(r'job=~?"([^"]*)"', expression)
        for job in said.split("|")
    }
    assert watched <= set(jobs)


def test_a_service_whose_members_are_scaled_is_found_by_dns() -> None:
    """Of one without members no target is left that is down for ever."""
    pages = "".join(each.read_text() for each in (ROOT / "docs/how-to").glob("*.md"))
    scaled = set(re.findall(r"--scale (\w+)=", pages))
    assert {"stream", "triton"} <= scaled
    jobs = {job["job_name"]: job for job in read("prometheus.yml")["scrape_configs"]}
    assert [name for name in scaled & set(jobs) if "dns_sd_configs" not in jobs[name]] == []


# --- rules ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with needed(), Prometheus.started(tmp_path_factory.mktemp("prometheus")) as running:
        yield running


@pytest.mark.usefixtures("prometheus")
def test_prometheus_takes_the_configuration_with_its_rules() -> None:
    done = promtool("check", "config", OBSERVE / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout


@pytest.mark.usefixtures("prometheus")
@pytest.mark.parametrize("file", ["rules_test.yml", "rules_days_test.yml"])
def test_rules_fire_in_trouble_and_a_good_day_wakes_no_one(file: str) -> None:
    done = promtool("test", "rules", OBSERVE / file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_is_tried() -> None:
    fired = {
        name
        for file in ("rules_test.yml", "rules_days_test.yml")
        for test in read(file)["tests"]
        for name in _expected(test)
    }
    assert fired == {rule["alert"] for rule in alerts()}


def _expected(test: dict[str, Any]) -> Iterator[str]:
    """Alerts that must fire in it."""
    for each in test.get("promql_expr_test", []):
        for sample in each["exp_samples"]:
            yield from re.findall(r'alertname="(\w+)"', sample["labels"])
        if each["exp_samples"] == [{"labels": "{}", "value": 1}]:
            yield from re.findall(r'alertname="(\w+)"', each["expr"])
    yield from (each["alertname"] for each in test.get("alert_rule_test", []) if each["exp_alerts"])


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_says_how_bad_it_is_what_it_means_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert rule["annotations"]["runbook"] == f"docs/reference/alert-rules.md#{rule['alert'].lower()}"
    steps = RULES_PAGE.split(f"\n### {rule['alert']}\n")
    assert len(steps) == 2, "the page has a section for it, and one"
    assert len(steps[1].split("\n#")[0].split()) > 8


def test_no_section_is_left_of_a_rule_that_is_gone() -> None:
    assert set(re.findall(r"\n### (Fingerprint\w+)\n", RULES_PAGE)) == {rule["alert"] for rule in alerts()}


# --- dashboards -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_every_panel_says_what_it_shows_and_in_which_unit(file: Path) -> None:
    source = read("grafana/provisioning/datasources/prometheus.yml")["datasources"][0]
    named = {"type": source["type"], "uid": source["uid"]}
    for panel in panels(file):
        assert panel["title"]
        assert len(panel["description"].split()) > 3, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert [panel["datasource"], *(each["datasource"] for each in panel["targets"])] == [named] * (
            1 + len(panel["targets"])
        )


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_panels_lie_side_by_side_within_the_grid(file: Path) -> None:
    taken: set[tuple[int, int]] = set()
    ids = []
    for panel in json.loads(file.read_text())["panels"]:
        place, ids = panel["gridPos"], [*ids, panel["id"]]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24, panel["title"]
        assert not taken & cells, panel["title"]
        taken |= cells
    assert len(ids) == len(set(ids))


def test_dashboards_have_names_of_their_own_and_no_one_elses() -> None:
    boards = [json.loads(file.read_text()) for file in DASHBOARDS]
    assert {board["title"] for board in boards} == {
        "Fingerprint: detection pipeline",
        "Fingerprint: banks and training",
        "Fingerprint: alert queue and delivery",
    }
    assert len({board["uid"] for board in boards}) == len(boards)
    people = {"createdBy", "updatedBy", "author", "user"}
    assert not any(f'"{word}"' in file.read_text() for file in DASHBOARDS for word in people)


def test_prometheus_understands_every_expression(prometheus: Prometheus) -> None:
    assert prometheus.query("sum(")["status"] == "error"
    answers = {
        (who, expression): prometheus.query(expression).get("error") for who, expression in expressions()
    }
    assert {asked: error for asked, error in answers.items() if error} == {}
    assert len(answers) > 60
