"""The reference of the metrics: name, labels and description, by program.

Example:
    >>> metrics_page().splitlines()[0]
    '# Metrics'
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from fingerprint.adapters.health import Readiness
from fingerprint.core.settings import Triton
from fingerprint.streaming.metrics import S3IngestMetrics, StreamMetrics
from fingerprint.web.security_events import SecurityEventLog
from pipelines.reference.tables import cell
from pipelines.runtime.delivery_service import DeliverMetrics
from pipelines.runtime.retrain_metrics import RetrainMetrics

METRICS_HEAD = """\
# Metrics

Generated from the descriptions of the metrics by `python -m pipelines.reference`; do not edit.

`ingest`, `stream`, `retrain` and `deliver` serve `/metrics` at `health.host` and `health.port` (9464), without a token: let only
Prometheus reach that port. `serve` does, too, with `web.serve_health`; at the port of the pages `/metrics` needs a token with
`read`. No metric contains text from a record. Every program also has the standard metrics of a process; Triton's are on
[its page](../explanation/triton.md#metrics).
"""


def metrics_page() -> str:
    """Return the reference of metrics as Markdown: name, labels and description, by program."""
    programs: dict[str, list[MetricDescription]] = {}
    for metric in described_metrics():
        programs.setdefault(metric.name.split("_")[1], []).append(metric)
    sections = {
        "Every program": programs.pop("ready"),
        "Stream": programs.pop("backend") + programs.pop("stream"),
    }
    sections |= {name.capitalize(): metrics for name, metrics in programs.items()}
    parts = [METRICS_HEAD]
    for name, metrics in sections.items():
        parts.append(f"\n## {name}\n\n| metric | labels | meaning |\n|---|---|---|\n")
        parts += [
            f"| `{each.name}` | {', '.join(each.labels)} | {cell(each.text)} |\n" for each in sorted(metrics)
        ]
    return "".join(parts)


class MetricDescription(NamedTuple):
    """A metric by its name in Prometheus; a histogram without the suffixes of its series."""

    name: str
    labels: tuple[str, ...]
    text: str


def registry_of_programs() -> CollectorRegistry:
    """Return a registry with the metrics of every program, from the classes that export them; without readiness."""
    registry = CollectorRegistry()
    StreamMetrics(registry)
    S3IngestMetrics(registry)
    DeliverMetrics(registry)
    RetrainMetrics(registry, Triton(url="triton:8001"))
    SecurityEventLog(registry)
    return registry


def described_metrics() -> Iterator[MetricDescription]:
    """Yield the metrics of every program and their descriptions."""
    for collector in (*registry_of_programs()._collector_to_names, Readiness({"stream": lambda: None})):
        for metric in collector.collect():
            name = metric.name + ("_total" if metric.type == "counter" else "")
            labels = getattr(collector, "_labelnames", ("check",))
            yield MetricDescription(name, tuple(labels), metric.documentation)
