"""The chart on a real Kubernetes, from `helm install` to an alert of the alert store's API, through upgrade and rollback, to
`helm uninstall`: `make helm-test`. `FROM=COMMIT make helm-test` installs the chart of an earlier commit first: the upgrade and
the rollback are then between that and this one.

The tests are one story: each goes on where the one before ended. Where no image registry and no Kubernetes is at hand the
container lab has both (docs/how-to/kubernetes.md, Kubernetes); what its stand-ins replace is in compose.py. Not proven
there: that NetworkPolicies are enforced (they are accepted), that a GPU computes (its resource name is scheduled), the
autoscaler and the Prometheus operator.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from fingerprint.web.auth import csrf_token
from tests.support.deployments.compose_stack import COUNT_RECORDS, until
from tests.support.deployments.kubernetes_cluster import CHART, NAMESPACE, RELEASE, TAG, Cluster, said
from tests.support.deployments.reference_run import alone
from tests.support.helm_chart import DEFAULTS, ELSEWHERE, EVERYTHING, rendered

PASSWORD = "a long password of mine"  # noqa: S105
# Times real time: the simulated last days take about five minutes. On a busy machine less, or the demo ends before the rollback
SPEED = os.environ.get("SPEED", "1500")
GPU = "nvidia.com/gpu.shared"
WAITING = "waits until a bank is served"  # says the demo
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster.entered() as cluster:
        yield cluster
        if request.session.testsfailed:
            cluster.report()


def told(text: str) -> None:
    """Print how long it took, also where output is captured."""
    report = Path("build/helm-test.txt")
    report.parent.mkdir(exist_ok=True)
    with report.open("a") as file:
        print(text, file=file)
    print(text)


def test_the_namespace_admits_the_restricted_level_alone(cluster: Cluster) -> None:
    careless = {"containers": [{"name": "shell", "image": "debian:bookworm-slim"}]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "careless", "namespace": NAMESPACE},
        "spec": careless,
    }
    with pytest.raises(AssertionError, match=r"violates PodSecurity .restricted"):
        cluster.apply(pod)


@pytest.mark.parametrize(
    "values", [DEFAULTS, EVERYTHING, ELSEWHERE], ids=["defaults", "everything", "elsewhere"]
)
def test_an_api_server_takes_every_field_of_it(values: dict[str, Any]) -> None:
    """All but what Helm makes for `helm test`, and custom resources."""
    manifests = [each for each in rendered(**values).values() if each["kind"] != "Pod"]
    command = ("kubectl", "apply", "--dry-run=server", "--validate=strict", "--filename", "-")
    said(*command, given=yaml.safe_dump_all(manifests))


def test_everything_is_installed_and_becomes_ready(cluster: Cluster) -> None:
    began = time.monotonic()
    cluster.upgrade()
    told(f"every pod ready {time.monotonic() - began:.0f} s after helm install")
    ready = {
        each["metadata"]["name"]: each["status"]["containerStatuses"][0]["ready"]
        for each in cluster.found("pods")
    }
    assert len(ready) == 7
    assert all(ready.values())
    events = [each.get("message") or "" for each in cluster.found("events")]
    assert events
    assert not [each for each in events if "violates PodSecurity" in each]


def test_what_the_chart_asks_of_itself_is_answered(cluster: Cluster) -> None:
    assert cluster.helm("test", RELEASE, "--timeout", "3m").count("Succeeded") == 2


def test_the_first_bank_comes_from_the_cronjob_and_triton_serves_it(cluster: Cluster) -> None:
    cluster.upgrade(demo={"enabled": True, "args": ["--speed", SPEED]})
    until("the demo has sent the past", 600, lambda: WAITING in cluster.heard("demo"))
    until(
        "all of it is passed on", 300, lambda: not cluster.metric("ingest", "fingerprint_ingest_lag_messages")
    )
    began = time.monotonic()
    cluster.train("first")
    told(f"first bank {time.monotonic() - began:.0f} s after kubectl create job")
    here = ["env", "FINGERPRINT_TRITON__URL=127.0.0.1:8001", "fingerprint", "triton", "status", "--json"]
    states = json.loads(cluster.execute(f"deployment/{RELEASE}-triton", *here))
    assert [each["state"] for each in states["versions"]] == ["READY"]
    until(
        "the scorers have the bank",
        120,
        lambda: not cluster.metric("stream", "fingerprint_stream_waiting_for_bank"),
    )


@pytest.fixture(scope="module")
def simulated(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the demo has simulated, taken out of its pod while it still sends, and the bank that judges it."""
    folder = tmp_path_factory.mktemp("simulated")
    cluster.fetch(cluster.pods("demo")[0], "/srv/fingerprint/demo", folder)
    cluster.fetch(cluster.pods("web")[0], "/srv/fingerprint/models/bank", folder)
    return folder


@pytest.fixture(scope="module")
def token(cluster: Cluster) -> str:
    """Of anyone who opened the link that the alert store printed, and is its first admin."""
    words = cluster.kubectl("logs", f"deployment/{RELEASE}-web").split()
    link = next(word for word in words if "/setup/" in word)
    with cluster.forwarded() as base, httpx.Client(base_url=base) as browser:
        account = {"name": "maria", "password": PASSWORD, "again": PASSWORD}
        browser.post(f"/setup/{link.rpartition('/')[2]}", data=account)
        proof = {"x-csrf-token": csrf_token(browser.cookies["session"])}
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        wanted = {"label": "helm-test", "scopes": ["read"], "expires_at": tomorrow}
        made = browser.post("/api/v1/tokens", json=wanted, headers=proof)
    secret: str = made.json()["secret"]
    return secret


class Store:
    """The alert store's API through `kubectl port-forward`."""

    def __init__(self, base: str, token: str) -> None:
        self.client = httpx.Client(
            base_url=f"{base}/api/v1", headers={"authorization": f"Bearer {token}"}, timeout=60
        )

    def alerts(self) -> dict[str, set[str]]:
        """The ids of each alert's events."""
        rows = self.client.get("/alerts", params={"size": 200}).raise_for_status().json()["rows"]
        return {row["alert_id"]: self._events(row["alert_id"]) for row in rows}

    def _events(self, alert: str) -> set[str]:
        found, wanted = set(), {"size": "200"}
        while True:
            page = self.client.get(f"/alerts/{alert}/events", params=wanted).raise_for_status().json()
            found |= {each["event_id"] for each in page["events"]}
            if page["following"] is None:
                return found
            wanted["following"] = page["following"]


def alerts(cluster: Cluster, token: str) -> dict[str, set[str]]:
    with cluster.forwarded() as base:
        return Store(base, token).alerts()


def test_an_upgrade_and_a_rollback_while_events_flow(cluster: Cluster, simulated: Path, token: str) -> None:
    """Every program is replaced twice; the secrets and the demo are left alone."""
    before, sending = cluster.found("secrets"), cluster.pods("demo")
    scorers = {each["metadata"]["uid"] for each in cluster.found("pods", "stream")}
    cluster.chart = CHART
    began = time.monotonic()
    cluster.upgrade(settings={"database": {"min_vote_score": 2.5}})
    told(f"upgraded, pod by pod, in {time.monotonic() - began:.0f} s")
    assert not scorers & {each["metadata"]["uid"] for each in cluster.found("pods", "stream")}
    began = time.monotonic()
    cluster.helm("rollback", RELEASE, "--wait", "--timeout", "9m")
    told(f"rolled back in {time.monotonic() - began:.0f} s")
    cluster.values["settings"] = {}
    assert "min_vote_score" not in cluster.kubectl("get", "configmap", f"{RELEASE}-settings", "-o", "yaml")
    assert [each["data"] for each in before if each["type"] == "Opaque"] == [
        each["data"] for each in cluster.found("secrets") if each["type"] == "Opaque"
    ]
    assert cluster.pods("demo") == sending
    assert cluster.found("pods", "demo")[0]["status"]["phase"] == "Running", (
        "the demo ended before the rollback: lower SPEED"
    )


def test_nothing_that_was_sent_is_lost(cluster: Cluster, simulated: Path) -> None:
    """Every record went through both topics, and the scorers have read and remembered every one."""
    until(
        "the demo has sent all it has",
        900,
        lambda: cluster.found("pods", "demo")[0]["status"]["phase"] == "Succeeded",
    )
    sent = sum(len(read_lines(file)) for file in simulated.rglob("*.jsonl.gz"))
    until("all of it is read, remembered and committed", 300, lambda: not lag(cluster))
    rows = groups(cluster)
    assert sum(end for (group, topic), (_, end) in rows.items() if topic == "cloudtrail") == sent
    assert len({*rows[("fingerprint-stream", "fingerprint.events")]}) == 1, "not all messages are committed"
    counted = cluster.execute(
        f"deployment/{RELEASE}-ingest", "python", "-c", COUNT_RECORDS, "fingerprint.events"
    )
    assert int(counted.split()[-1]) == sent
    told(f"{sent:,} records sent, passed on, scored and committed")
    assert (
        json.loads(
            cluster.execute(f"deployment/{RELEASE}-ingest", "fingerprint", "dead-letters", "list", "--json")
        )
        == []
    )


def read_lines(file: Path) -> list[bytes]:
    with gzip.open(file) as lines:
        return lines.readlines()


def groups(cluster: Cluster) -> dict[tuple[str, str], tuple[int, int]]:
    """(group, topic) -> what the group has committed, and where the topic ends; over its partitions."""
    asked = ("--bootstrap-server", "localhost:9092", "--describe", "--all-groups")
    lines = cluster.execute(
        f"{RELEASE}-kafka-0", "/opt/kafka/bin/kafka-consumer-groups.sh", *asked
    ).splitlines()
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for row in map(str.split, lines):
        if len(row) > 5 and row[4].isdecimal() and row[3].isdecimal():
            done, end = found.get((row[0], row[1]), (0, 0))
            found[(row[0], row[1])] = (done + int(row[3]), end + int(row[4]))
    return found


def lag(cluster: Cluster) -> int:
    return sum(end - done for done, end in groups(cluster).values())


def test_the_attacks_are_found_over_the_web_service_with_all_their_events(
    cluster: Cluster, simulated: Path, token: str
) -> None:
    here = alerts(cluster, token)
    sessions: dict[str, set[str]] = {}
    for line in map(json.loads, next(simulated.rglob("labels.jsonl")).read_text().splitlines()):
        sessions.setdefault(line["session"], set()).add(line["event_id"])
    found = {
        session for session, events in sessions.items() if any(events <= each for each in here.values())
    }  # with every one of its events, in one alert
    told(f"{len(here)} alerts; found {len(found)} of {len(sessions)} attacks: {', '.join(sorted(found))}")
    assert found
    assert here == alone(simulated)


def test_an_upgrade_that_switches_the_autoscaler_on_keeps_the_scorers_that_there_are(
    cluster: Cluster,
) -> None:
    """The field would be gone, and Kubernetes' default is one; an autoscaler rests while there is none."""
    scorers = f"statefulset/{RELEASE}-stream"

    def wanted() -> str:
        return cluster.kubectl("get", scorers, "-o", "jsonpath={.spec.replicas}")

    assert wanted() == "2"
    cluster.upgrade(stream={"autoscaling": {"enabled": True}})
    assert wanted() == "2"
    cluster.kubectl("scale", "--replicas=0", scorers)
    cluster.upgrade()
    assert wanted() == "1"
    cluster.upgrade(stream={"autoscaling": {"enabled": False}})
    assert wanted() == "2"


def test_several_services_share_a_gpu_by_its_resource_name(cluster: Cluster) -> None:
    """Four shares on the node: Triton, two scorers and a training take them, and anyone who wants more waits."""
    node = json.loads(said("kubectl", "get", "nodes", "-o", "json"))["items"][0]["metadata"]["name"]
    shares = json.dumps({"status": {"capacity": {GPU: "4"}}})
    said("kubectl", "patch", "node", node, "--subresource=status", "--type=merge", "--patch", shares)
    one = {"gpu": {"count": 1}}
    cluster.upgrade(gpu={"resource": GPU}, stream=one, triton=one, train=one, demo={"enabled": False})
    asked = {
        each["metadata"]["name"]: each["spec"]["containers"][0]["resources"]["limits"][GPU]
        for component in ("stream", "triton")
        for each in cluster.found("pods", component)
    }
    assert list(asked.values()) == ["1", "1", "1"]
    assert "no training is due" in cluster.train("on-a-share")
    cluster.apply(wanting(2))
    until(
        "a third that asks waits",
        60,
        lambda: f"Insufficient {GPU}" in cluster.kubectl("describe", "pod", "wanting"),
    )
    cluster.kubectl("delete", "pod", "wanting")
    told(f"{GPU}: three shares of four taken by Triton and two scorers, the fourth by a training")


def wanting(shares: int) -> dict[str, Any]:
    guard = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    whole = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {
        "name": "wanting",
        "image": f"fingerprint:{TAG}",
        "resources": {"limits": {GPU: str(shares)}},
        "securityContext": guard,
    }
    meta = {"name": "wanting", "namespace": NAMESPACE}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"securityContext": whole, "containers": [container]},
    }


def test_uninstalling_leaves_what_was_learned_and_the_secrets_and_nothing_else(cluster: Cluster) -> None:
    cluster.helm("uninstall", RELEASE, "--wait", "--timeout", "5m")
    until(
        "no pod is left but ended ones",
        120,
        lambda: not [each for each in cluster.found("pods") if each["status"]["phase"] == "Running"],
    )
    assert {each["metadata"]["name"] for each in cluster.found("persistentvolumeclaims")} == {
        *(f"{RELEASE}-{name}" for name in ("models", "checkpoints")),
        *(f"data-{RELEASE}-{name}-0" for name in ("kafka", "postgres")),
    }
    assert [each["metadata"]["name"] for each in cluster.found("secrets") if each["type"] == "Opaque"] == [
        f"{RELEASE}-secrets"
    ]
    assert not cluster.found("deployments,statefulsets,services,configmaps,networkpolicies", "stream")
