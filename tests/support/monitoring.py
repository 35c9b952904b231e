"""What is under deploy/observe, for tests: every expression of rules and dashboards, and the metrics that it names.

Example:
    >>> metrics_of('sum by (job) (rate(fingerprint_stream_events_total{job="stream"}[5m])) > 0')
    {'fingerprint_stream_events_total'}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
OBSERVE = ROOT / "deploy" / "observe"
DASHBOARDS = sorted((OBSERVE / "grafana" / "dashboards").glob("*.json"))

_BESIDE = re.compile(
    r""""[^"]*" | '[^']*' | \[[^\]]*\] | \{(?:"[^"]*"|[^}"])*\} | \b\d\w* | \b(?:by|on|ignoring|without)\s*\([^)]*\)""",
    re.X,
)
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?![a-zA-Z0-9_:]|\s*\()")
_WORDS = {"and", "or", "unless", "offset", "bool", "by"}


def read(name: str) -> dict[str, Any]:
    """A YAML file of deploy/observe."""
    return dict(yaml.safe_load((OBSERVE / name).read_text()))


def rules() -> list[dict[str, Any]]:
    """Alerts and what is recorded for them."""
    return [rule for group in read("rules.yml")["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def panels(file: Path) -> list[dict[str, Any]]:
    """Of a dashboard, without the rows that only head others."""
    return [panel for panel in json.loads(file.read_text())["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Who asks, and what."""
    for rule in rules():
        yield rule.get("alert") or rule["record"], rule["expr"]
    for file in DASHBOARDS:
        for note in json.loads(file.read_text())["annotations"]["list"]:
            yield f"{file.stem}: {note['name']}", note["expr"]
        for panel in panels(file):
            for target in panel["targets"]:
                yield f"{file.stem}: {panel['title']}", target["expr"].replace("$__rate_interval", "5m")


def selectors(expression: str) -> Iterator[tuple[str, str]]:
    """Each metric where it is asked for, and the matchers that follow it.

    Example:
        >>> list(selectors('sum(a_total{job="x"}) - b'))
        [('a_total', 'job="x"'), ('b', '')]
    """
    bare = _BESIDE.sub(lambda beside: " " * len(beside[0]), expression)
    for match in _NAME.finditer(bare):
        if match[0] not in _WORDS:
            matchers = re.match(r'\{((?:"[^"]*"|[^}"])*)\}', expression[match.end() :])
            yield match[0], matchers[1] if matchers else ""


def released(series: str, release: str, namespace: str) -> str:
    """Return a series of rules_test.yml as the chart's ServiceMonitor names it for a release, or cAdvisor its pod."""
    if series.startswith("container_"):
        pod = rf'namespace="{namespace}", container="\1", pod="{release}-fingerprint-\1-0"'
        return re.sub(r'container="(\w+)", pod="\w+"', pod, series)
    return series.replace("{", f'{{namespace="{namespace}", release="{release}", ', 1)


def metrics_of(expression: str) -> set[str]:
    """Names in it that are no label, word or function."""
    return set(_NAME.findall(_BESIDE.sub(" ", expression))) - _WORDS


def asked() -> set[str]:
    """Every metric that a rule or a dashboard names."""
    return {name for _, expression in expressions() for name in metrics_of(expression)}
