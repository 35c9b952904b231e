"""The chart on a real Kubernetes, in a namespace of its own that admits the restricted level alone.

Example:
    >>> with Cluster.entered() as cluster:
    ...     cluster.upgrade(stream={"replicas": 2})
    ...     cluster.metric("stream", "fingerprint_stream_messages_total")
    97740.0

`kubectl` and `helm` are those of the PATH, and reach a cluster that has the images. Where it provisions no volumes by itself
(no default StorageClass), four folders of this machine become its volumes: then this has to be root on the only node.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import yaml

from tests.support.deployments.compose_stack import ROOT, until
from tests.support.services.ports import free_ports

CHART = ROOT / "deploy/helm/fingerprint"
NAMESPACE = "fingerprint-test"
RELEASE = "fingerprint"  # then its Services are named fingerprint-..., as settings in an environment are
LEVEL = "pod-security.kubernetes.io/enforce"
POSTGRES = "postgres:15-bookworm"
IMAGES = {
    "serve": "fingerprint",
    "train": "fingerprint",
    "triton": "fingerprint-triton",
    "serveGpu": "fingerprint",  # a share of a GPU is asked for, and not used
    "trainGpu": "fingerprint",
    "tritonGpu": "fingerprint-triton",
}
TAG = os.environ.get("TAG", "0.1.0")  # of our images
FROM = os.environ.get(
    "FROM", ""
)  # a commit whose chart is installed first: the upgrade is from that to this one
Json = dict[str, Any]


def said(*command: str, given: str | None = None, seconds: float = 600) -> str:
    """What a command prints. AssertionError with what it said where it failed."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{' '.join(command)[:300]}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def small() -> Json:
    """Values for one small node: a processor's share for no one in particular, and memory as by default."""
    programs = ("ingest", "stream", "train", "triton", "web", "demo", "kafka", "postgres")
    values: Json = {name: {"resources": {"requests": {"cpu": "20m", "memory": "128Mi"}}} for name in programs}
    values["postgres"]["uid"] = int(said("docker", "run", "--rm", POSTGRES, "id", "-u", "postgres"))
    values["image"] = {name: {"repository": each, "tag": TAG} for name, each in IMAGES.items()}
    values["stream"]["replicas"] = 2
    values["kafka"]["image"] = {
        "repository": "apache/kafka",
        "tag": os.environ.get("KAFKA_TAG", "4.1.0"),
    }  # the lab's
    values["train"]["schedule"] = "0 3 1 1 *"  # the test asks for a training itself
    return values


def earlier_chart(commit: str, folder: Path) -> Path:
    """The chart of a commit, unpacked below the folder."""
    command = ["git", "-C", str(ROOT), "archive", commit, "deploy"]
    packed = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder / "earlier", filter="data")
    return folder / "earlier" / CHART.relative_to(ROOT)


@dataclass
class Cluster:
    """One release in one namespace; `values` are those of its last upgrade, `chart` is where its next comes from."""

    folder: Path
    values: Json = field(default_factory=small)
    chart: Path = CHART

    @classmethod
    @contextmanager
    def entered(cls) -> Iterator[Cluster]:
        """An empty namespace that enforces the level; gone afterwards, with its volumes."""
        with tempfile.TemporaryDirectory(prefix="volumes-", dir="/var/tmp") as folder:
            cluster = cls(Path(folder))
            cluster.leave()
            labels = {"metadata": {"name": NAMESPACE, "labels": {LEVEL: "restricted"}}}
            cluster.apply({"apiVersion": "v1", "kind": "Namespace", **labels})
            cluster.provide()
            if FROM:
                cluster.chart = earlier_chart(FROM, cluster.folder)
            try:
                yield cluster
            finally:
                cluster.leave()

    def leave(self) -> None:
        said("kubectl", "delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=300s")
        said("kubectl", "delete", "persistentvolume", "--selector", f"for={NAMESPACE}", "--timeout=60s")

    def report(self) -> None:
        """For anyone who has to find out why."""
        for what in (("get", "pods,pvc,jobs", "-o", "wide"), ("get", "events", "--sort-by=.lastTimestamp")):
            print(self.kubectl(*what)[-6000:])
        for pod in self.pods():
            print(
                f"--- {pod}",
                self.kubectl("logs", pod, "--all-containers", "--tail=20", "--ignore-errors"),
                sep="\n",
            )

    # --- volumes ------------------------------------------------------------------------------------------------------

    def provide(self) -> None:
        """Folders of this machine as volumes, each owned by who writes to it: such a volume is given to no one by itself."""
        classes = json.loads(said("kubectl", "get", "storageclass", "-o", "json"))["items"]
        if any("is-default-class" in str(each["metadata"].get("annotations")) for each in classes):
            return
        owners = {
            f"{RELEASE}-models": 10001,
            f"{RELEASE}-checkpoints": 10001,
            f"data-{RELEASE}-kafka-0": 1000,
            f"data-{RELEASE}-postgres-0": self.values["postgres"]["uid"],
        }
        self.folder.chmod(0o755)
        for claim, uid in owners.items():
            self._volume(claim, uid)

    def _volume(self, claim: str, uid: int) -> None:
        place = self.folder / claim
        for each in (place, place / "pgdata") if "postgres" in claim else (place,):
            each.mkdir(mode=0o700)
            os.chown(each, uid, uid)
        spec = {
            "capacity": {"storage": "20Gi"},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "claimRef": {"namespace": NAMESPACE, "name": claim},
            "hostPath": {"path": str(place)},
        }
        meta = {"name": f"{NAMESPACE}-{claim}", "labels": {"for": NAMESPACE}}
        self.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec})

    # --- the release --------------------------------------------------------------------------------------------------

    def upgrade(self, *flags: str, **values: Any) -> None:
        """Install or upgrade, and wait until it is all there. `values` by section, over those that hold."""
        for section, changed in values.items():
            self.values[section] = self.values.get(section, {}) | changed
        wanted = ("--install", "--wait", "--timeout", "9m", "--values", "-", *flags)
        self.helm("upgrade", RELEASE, str(self.chart), *wanted, given=yaml.safe_dump(self.values))

    def helm(self, *command: str, given: str | None = None) -> str:
        return said("helm", "--namespace", NAMESPACE, *command, given=given)

    def kubectl(self, *command: str, given: str | None = None) -> str:
        return said("kubectl", "--namespace", NAMESPACE, *command, given=given)

    def apply(self, manifest: Json) -> None:
        said("kubectl", "apply", "--filename", "-", given=json.dumps(manifest))

    def found(self, kind: str, component: str = "") -> list[Json]:
        """What there is of a kind, of a component."""
        wanted = ["--selector", f"app.kubernetes.io/component={component}"] if component else []
        items: list[Json] = json.loads(self.kubectl("get", kind, *wanted, "-o", "json"))["items"]
        return items

    def pods(self, component: str = "") -> list[str]:
        """Names of those that run or did."""
        return sorted(each["metadata"]["name"] for each in self.found("pods", component))

    def heard(self, component: str) -> str:
        """What its pods that run, or did, have said."""
        phases = {each["metadata"]["name"]: each["status"]["phase"] for each in self.found("pods", component)}
        return "".join(self.kubectl("logs", pod) for pod, phase in phases.items() if phase != "Pending")

    def execute(self, pod: str, *command: str) -> str:
        """What a command in a running pod prints: deployment/fingerprint-web, fingerprint-stream-0."""
        return self.kubectl("exec", pod, "--", *command)

    def fetch(self, pod: str, place: str, folder: Path) -> None:
        """Copy a folder out of a running pod into one of this machine; its files may still grow."""
        parent, _, name = place.rpartition("/")
        command = ["kubectl", "--namespace", NAMESPACE, "exec", pod, "--", "tar", "-C", parent, "-c", name]
        done = subprocess.run(command, capture_output=True, timeout=300, check=False)
        assert not done.returncode or b"file changed as we read it" in done.stderr, done.stderr
        with tarfile.open(fileobj=BytesIO(done.stdout)) as packed:
            packed.extractall(folder, filter="data")

    def train(self, name: str) -> str:
        """Have the CronJob look now; what it said when it has ended well."""
        self.kubectl("create", "job", f"--from=cronjob/{RELEASE}-train", name)
        until(f"{name} has ended", 900, lambda: self._ended(name))
        return self.kubectl("logs", f"job/{name}", "--tail=-1")

    def _ended(self, job: str) -> bool:
        status = json.loads(self.kubectl("get", "job", job, "-o", "json"))["status"]
        assert not status.get("failed"), self.kubectl("logs", f"job/{job}", "--tail=40")
        return bool(status.get("succeeded"))

    # --- what it says -------------------------------------------------------------------------------------------------

    def metric(self, component: str, name: str, port: int = 9464) -> float:
        """The sum of a metric over its labels and the component's pods that are to stay."""
        staying = [
            each["metadata"]
            for each in self.found("pods", component)
            if "deletionTimestamp" not in each["metadata"]
        ]
        return sum(self._metric(each["name"], name, port) for each in staying)

    def _metric(self, pod: str, name: str, port: int) -> float:
        place = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:{port}/proxy/metrics"
        lines = said("kubectl", "get", "--raw", place).splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name
        )

    @contextmanager
    def forwarded(self) -> Iterator[str]:
        """The alert store's address on this machine, through `kubectl port-forward`, while the block runs."""
        port = free_ports(["store"])["store"]
        program = shutil.which("kubectl") or "kubectl"
        command = [program, "-n", NAMESPACE, "port-forward", f"service/{RELEASE}-web", f"{port}:8080"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forwarding:
            try:
                assert forwarding.stdout
                assert "Forwarding" in forwarding.stdout.readline()
                yield f"http://localhost:{port}"
            finally:
                forwarding.terminate()
