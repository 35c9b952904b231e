"""Two releases that one Prometheus reads: neither rings for the other's trouble, nor does the other's health hide its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.helm_chart import EVERYTHING, OPERATOR, main_container, rendered
from tests.support.monitoring import DASHBOARDS, expressions, read, released, selectors
from tests.support.services import helm
from tests.support.services.prometheus import promtool, root
from tests.support.services.requirement import needed

NAMESPACE = "default"
CALM, TROUBLED = "watch", "watch-two"


@pytest.fixture(scope="module", autouse=True)
def _programs() -> None:
    with needed():
        helm.program()
        root()


def rules_of(release: str) -> dict[str, Any]:
    """The rules that the chart makes for a release."""
    chart = rendered((OPERATOR,), release, **EVERYTHING)
    spec: dict[str, Any] = chart[f"PrometheusRule/{release}-fingerprint-rules"]["spec"]
    return spec


def fired(each: dict[str, Any]) -> list[str]:
    """Return the alerts that a question of rules_test.yml expects to fire at its time."""
    if "exp_alerts" in each:
        return [each["alertname"]] if each["exp_alerts"] else []
    names = re.findall(r'alertname="(\w+)"', " ".join(sample["labels"] for sample in each["exp_samples"]))
    if not names and each["exp_samples"]:
        return re.findall(r'alertname="(\w+)"', each["expr"])
    return sorted(set(names))


def test_one_release_in_trouble_rings_as_if_it_were_alone_and_a_calm_one_beside_it_never(
    tmp_path: Path,
) -> None:
    for release in (CALM, TROUBLED):
        (tmp_path / f"{release}.yml").write_text(yaml.safe_dump(rules_of(release)))
    quiet, *others = read("rules_test.yml")["tests"]
    tests = [test for each in others if (test := beside(quiet["input_series"], each))["promql_expr_test"]]
    assert len(tests) > 10
    file = tmp_path / "test.yml"
    written = {"rule_files": [f"{CALM}.yml", f"{TROUBLED}.yml"], "evaluation_interval": "1m", "tests": tests}
    file.write_text(json.dumps(written))
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def beside(quiet: list[dict[str, str]], test: dict[str, Any]) -> dict[str, Any]:
    """A test of rules_test.yml with its series in one release, and three quiet hours in another."""
    series = [each | {"series": released(each["series"], CALM, NAMESPACE)} for each in quiet]
    series += [
        each | {"series": released(each["series"], TROUBLED, NAMESPACE)} for each in test["input_series"]
    ]
    asked = [*test.get("promql_expr_test", []), *test.get("alert_rule_test", [])]
    questions = [
        question for each in asked if (names := fired(each)) for question in both(names, each["eval_time"])
    ]
    return {"name": test["name"], "interval": "1m", "input_series": series, "promql_expr_test": questions}


def both(names: list[str], at: str) -> Iterator[dict[str, Any]]:
    firing = 'ALERTS{alertstate="firing", namespace="' + NAMESPACE + '"'
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names]
    told = f'group by (alertname) ({firing}, release="{TROUBLED}", alertname=~"{"|".join(names)}"}})'
    yield {"expr": told, "eval_time": at, "exp_samples": samples}
    calm = f'count by (alertname) (max_over_time({firing}, release="{CALM}"}}[3h]))'
    yield {"expr": calm, "eval_time": at, "exp_samples": []}


def test_every_selector_of_a_release_s_rules_is_of_that_release_alone() -> None:
    rules = [rule for group in rules_of(TROUBLED)["groups"] for rule in group["rules"]]
    found = [each for rule in rules for each in selectors(rule["expr"])]
    own = f'namespace="{NAMESPACE}",release="{TROUBLED}"'
    pods = f'namespace="{NAMESPACE}",pod=~"{TROUBLED}-fingerprint-'
    assert len(found) > 60
    assert [each for each in found if not each[1].startswith((own, pods))] == []
    assert {(rule["labels"]["namespace"], rule["labels"]["release"]) for rule in rules} == {
        (NAMESPACE, TROUBLED)
    }


@pytest.mark.parametrize(
    ("pod", "own"),
    [
        ("watch-fingerprint-stream-0", True),
        ("watch-fingerprint-web-6d4cf56db6-x2k9q", True),
        ("watch-fingerprint-train-29412345-7bq2x", True),
        ("watch-fingerprint-web-web-6d4cf56db6-x2k9q", False),  # of a release called watch-fingerprint-web
        ("watch-fingerprint-stream-stream-0", False),
        ("watch-two-fingerprint-stream-0", False),
    ],
)
def test_the_pods_of_a_release_are_not_those_of_one_whose_name_begins_alike(pod: str, own: bool) -> None:
    (expression,) = {
        rule["expr"]
        for group in rules_of(CALM)["groups"]
        for rule in group["rules"]
        if "container_" in rule["expr"]
    }
    named = set(re.findall(r'pod=~"([^"]*)"', expression))
    assert len(named) == 1
    assert bool(re.fullmatch(named.pop(), pod)) is own


def test_a_series_has_the_release_that_the_rules_ask_for() -> None:
    chart = rendered((OPERATOR,), TROUBLED, **EVERYTHING)
    monitors = [each["spec"] for each in chart.values() if each["kind"] == "ServiceMonitor"]
    assert len(monitors) == 4
    for monitor in monitors:
        (endpoint,) = monitor["endpoints"]
        assert {"targetLabel": "release", "replacement": TROUBLED} in endpoint["relabelings"]


def test_a_release_and_its_namespace_may_have_numbers_for_names() -> None:
    """What is no text is refused by an API server."""
    named = {"nameOverride": "7", "fullnameOverride": "watch", "kafka": {"clusterId": "1" * 22}}
    chart = rendered((OPERATOR,), "1234", "2026", **EVERYTHING, **named)
    own = [each["metadata"] for each in chart.values()]
    assert {each["namespace"] for each in own} == {"2026"}
    found = {(name, text) for each in own for name, text in each["labels"].items()}
    assert {("app.kubernetes.io/instance", "1234"), ("app.kubernetes.io/name", "7")} <= found
    broker = main_container(chart, "StatefulSet/watch-kafka")
    assert {"name": "CLUSTER_ID", "value": "1" * 22} in broker["env"]


def test_a_dashboard_shows_one_release_at_a_time() -> None:
    """Without the labels, as in Compose, both variables have no value, and the matchers hold for what has no such label."""
    asked = [
        (who, each) for who, expression in expressions() if ": " in who for each in selectors(expression)
    ]
    assert len(asked) > 60
    own = 'namespace="$namespace"', 'release="$release"'
    for who, (name, matchers) in asked:
        wanted = own[:1] if name.startswith("container_") else own  # cAdvisor's panel names each pod
        assert [each for each in wanted if each not in matchers] == [], who
    for file in DASHBOARDS:
        variables = json.loads(file.read_text())["templating"]["list"]
        assert [each["name"] for each in variables] == ["namespace", "release"]
        assert not any(each.get("includeAll") or each.get("multi") for each in variables)
