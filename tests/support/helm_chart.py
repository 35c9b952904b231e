"""The chart as the tests see it: rendered by Helm itself, its manifests by kind and name.

Example:
    >>> chart = rendered(stream={"replicas": 3})
    >>> chart["StatefulSet/watch-fingerprint-stream"]["spec"]["replicas"]
    3
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.support.services import helm

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/fingerprint"
RELEASE, NAME = "watch", "watch-fingerprint"  # of the release, and what every name begins with
KUBERNETES = "1.34.0"

LOADER = yaml.CSafeLoader  # the same in C

Manifest = dict[str, Any]
Chart = dict[str, Manifest]

OPERATOR = "monitoring.coreos.com/v1"
PRODUCERS = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "trails"}}}]
EVERYTHING: dict[str, Any] = {
    "image": {"registry": "registry.example.com/security", "pullSecrets": ["pull"]},
    "settings": {
        "voting": {"quorum": 2},
        "web": {"run_delivery": True},
        "deliver": {"topic": {"kind": "kafka", "topic": "alerts"}},
        "kafka": {"max_request_size": 5_000_000},
    },
    "ingest": {
        "replicas": 2,
        "secretMounts": [{"secret": "kafka-login", "path": "/run/secrets/kafka"}],
        "serviceAccount": {
            "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/trail"}
        },
    },
    "stream": {"replicas": 4, "gpu": {"count": 1}, "autoscaling": {"enabled": True}},
    "train": {"gpu": {"count": 1}},
    "triton": {"gpu": {"count": 1}, "extraArgs": ["--log-verbose=1"]},
    "gpu": {"resource": "nvidia.com/gpu.shared", "runtimeClassName": "nvidia"},
    "web": {
        "replicas": 2,
        "secretMounts": [{"secret": "openid", "path": "/run/secrets/openid"}],
        "trustedProxies": 1,
        "ingress": {
            "enabled": True,
            "host": "alerts.example.com",
            "tlsSecret": "store",
            "className": "nginx",
        },
    },
    "demo": {"enabled": True},
    "monitoring": {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
    "networkPolicy": {
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "webFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
        "kafkaFrom": PRODUCERS,
    },
}
ELSEWHERE: dict[str, Any] = {  # brokers, database, checkpoints and secrets of one's own
    "kafka": {
        "enabled": False,
        "bootstrapServers": ["broker-1.example.com:9093", "broker-2.example.com:9093"],
    },
    "postgres": {"enabled": False},
    "database": {
        "url": "postgresql://store@db.example.com/store?password_file=/run/secrets/fingerprint/database-password"
    },
    "secrets": {"existingSecret": "ours"},
    "checkpoints": {"url": "s3://bucket/checkpoints"},
    "models": {"existingClaim": "shared"},
    "addressTables": {"existingClaim": "tables"},
    "topics": {"create": False},
    "triton": {"enabled": False},
    "networkPolicy": {
        "egress": {
            "kafka": [{"to": [{"ipBlock": {"cidr": "10.0.5.0/24"}}], "ports": [{"port": 9093}]}],
            "database": [{"to": [{"ipBlock": {"cidr": "10.0.6.7/32"}}], "ports": [{"port": 5432}]}],
            "checkpoints": [{"ports": [{"port": 443}]}],
        }
    },
}
DEFAULTS: dict[str, Any] = {}


class Refused(Exception):
    """Helm did not render it; the text says why."""


def rendered(
    apis: tuple[str, ...] = (), release: str = RELEASE, namespace: str = "default", **values: Any
) -> Chart:
    """Manifests by "Kind/name". `apis`: what else the cluster knows."""
    text = _text(apis, release, namespace, yaml.safe_dump(values))
    manifests = [each for each in yaml.load_all(text, LOADER) if each]
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in manifests}


@cache
def _text(apis: tuple[str, ...], release: str, namespace: str, values: str) -> str:
    options = [part for api in apis for part in ("--api-versions", api)]
    done = _helm("template", release, str(CHART), "--namespace", namespace, *options, values=values)
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


def notes(folder: Path, **values: Any) -> str:
    """Return what an installation prints (NOTES.txt): Helm renders it for a cluster alone, so a copy has it as a manifest."""
    chart = shutil.copytree(CHART, folder / "chart")
    text = (chart / "templates/NOTES.txt").read_text()
    (chart / "templates/_notes.tpl").write_text('{{- define "notes" -}}' + text + "{{- end -}}")
    (chart / "templates/notes.yaml").write_text('kind: Notes\nnotes: {{ include "notes" . | quote }}\n')
    done = _helm(
        "template", RELEASE, str(chart), "--show-only", "templates/notes.yaml", values=yaml.safe_dump(values)
    )
    printed: str = yaml.safe_load(done.stdout)["notes"]
    return printed


def linted(values: Mapping[str, Any]) -> str:
    """What `helm lint --strict` finds; empty if nothing."""
    done = _helm("lint", str(CHART), "--strict", "--quiet", values=yaml.safe_dump(dict(values)))
    return done.stdout + done.stderr if done.returncode else ""


def _helm(*command: str, values: str) -> subprocess.CompletedProcess[str]:
    given = ["--kube-version", KUBERNETES, "--values", "-"]
    return subprocess.run(  # noqa: S603  (Helm, by its own path)
        [str(helm.program()), *command, *given],
        input=values,
        capture_output=True,
        text=True,
    )


def pods(chart: Chart) -> dict[str, Manifest]:
    """The spec of each pod that the chart makes, by who makes it."""
    found = {}
    for name, manifest in chart.items():
        spec = manifest.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if manifest["kind"] == "Pod" or "template" in spec:
            found[name] = spec.get("template", {}).get("spec", spec)
    return found


def labels(chart: Chart) -> dict[str, dict[str, str]]:
    """The labels of each pod, by who makes it."""
    found = {}
    for name in pods(chart):
        manifest = chart[name]
        spec = manifest["spec"].get("jobTemplate", manifest).get("spec", {})
        found[name] = spec.get("template", manifest)["metadata"]["labels"]
    return found


def main_container(chart: Chart, name: str) -> dict[str, Any]:
    container: dict[str, Any] = pods(chart)[name]["containers"][0]
    return container


def environment(chart: Chart, container: Mapping[str, Any]) -> dict[str, str]:
    """What a container finds in its environment, but for what only a running pod has."""
    found: dict[str, str] = {}
    for source in container.get("envFrom", []):
        found |= chart[f"ConfigMap/{source['configMapRef']['name']}"]["data"]
    return found | {each["name"]: each["value"] for each in container.get("env", []) if "value" in each}
