"""A real Kafka broker for the tests: fetched once, started on free ports of this machine, killed and started again.

Example:
    >>> with Broker.started(Path("/tmp/broker")) as broker:
    ...     broker.address
    '127.0.0.1:40123'

Apache Kafka 4.1 in KRaft mode (broker and controller in one process) from its Maven packages, run by Java 17 or
newer. Maven is asked with its own settings, so a mirror named there is used. The packages rest in
`build/services/kafka`, or in the folder that KAFKA_TEST_PACKAGES names.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.services.atomic_install import into_place
from tests.support.services.certificates import Authority
from tests.support.services.debian_packages import Unavailable
from tests.support.services.ports import free_ports

HERE = Path(__file__).parent
CLUSTER = "Zm9yLXRlc3RzLW9ubHktMQ"
PACKAGES = ("openjdk-17-jre-headless", "maven")
ONE_LINE = f"sudo apt-get install -y {' '.join(PACKAGES)}"
PATIENCE = 60.0  # seconds a start may take before it is an error

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={listeners}
controller.listener.names=CONTROLLER
listener.security.protocol.map={protocols},CONTROLLER:PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={truststore}
listener.name.mutual.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
{logins}
log.dirs={folder}/data
num.partitions=1
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
message.max.bytes=16777216
# Files of an index are read through after a crash, and are empty: of 120 topics a quarter of a start's CPU.
log.index.size.max.bytes=65536
# No record is written for nothing, twice a second.
metadata.max.idle.interval.ms=0
"""

LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "SASL": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",  # who calls must have a certificate too
    "SASL_TLS": "SASL_SSL",
}
SECURITY = "org.apache.kafka.common.security"
LOGINS = {
    "plain": f'{SECURITY}.plain.PlainLoginModule required user_reader="open sesame";',
    "scram-sha-256": f"{SECURITY}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{SECURITY}.scram.ScramLoginModule required;",
    "oauthbearer": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=broker;",
}


def _install() -> None:
    """Java and Maven, by root on Debian and Ubuntu; Unavailable with the one line that does it elsewhere."""
    if shutil.which("java") and shutil.which("mvn"):
        return
    if os.geteuid() or not shutil.which("apt-get"):
        raise Unavailable(f"the tests with a broker need Java 17 and Maven: {ONE_LINE}")
    quiet = {
        "check": True,
        "stdout": subprocess.DEVNULL,
        "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
    }
    try:
        subprocess.run(["apt-get", "update", "-qq"], **quiet)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES], **quiet)
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"{error}; try: {ONE_LINE}") from None


def libraries() -> Path:
    """The folder of the broker's packages, fetched if it is not there yet; moved into place when complete."""
    folder = Path(os.environ.get("KAFKA_TEST_PACKAGES") or HERE.parents[2] / "build/services/kafka")
    _install()
    if folder.is_dir():
        return folder
    staged = folder.with_name(f"{folder.name}.{os.getpid()}")
    command = ["mvn", "-q", "-B", "-f", str(HERE / "kafka-pom.xml"), "dependency:copy-dependencies"]
    options = [f"-DoutputDirectory={staged.absolute()}", "-DincludeScope=runtime"]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"Maven could not fetch the broker: {(done.stdout + done.stderr)[-2000:]}")
    into_place(staged, folder)
    return folder


@dataclass
class Broker:
    """One broker; its ports and data outlive the process, so `kill` and `start` are a crash and a recovery."""

    folder: Path
    libs: Path
    ports: dict[str, int]
    authority: Authority
    process: subprocess.Popen[bytes] | None = field(default=None)

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[Broker]:
        """A broker that answers, until the block ends. Unavailable where it cannot be had."""
        ports = free_ports([*LISTENERS, "CONTROLLER"])
        broker = cls(folder, libraries(), ports, Authority(folder / "authority", "the tests"))
        broker._format()
        try:
            broker.start()
            yield broker
        finally:
            broker.kill()

    @property
    def address(self) -> str:
        return self.at("PLAINTEXT")

    def at(self, listener: str) -> str:
        """host:port of one of LISTENERS."""
        return f"127.0.0.1:{self.ports[listener]}"

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    def _java(self, *arguments: str) -> list[str]:
        fast_start = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xms128m", "-Xmx512m"]
        quiet = "-Dorg.apache.logging.log4j.level=WARN"
        return ["java", *fast_start, quiet, "-cp", f"{self.libs}/*", *arguments]

    def _format(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        properties.write_text(self._properties())
        scram = [f"{name}=[name=reader,password=open sesame]" for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
        users = [part for each in scram for part in ("--add-scram", each)]
        tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(properties)]
        done = subprocess.run(self._java(*tool, *users), capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(
                f"the broker's storage could not be formatted: {(done.stdout + done.stderr)[-2000:]}"
            )

    def _properties(self) -> str:
        logins = [
            f"listener.name.{listener}.{mechanism}.sasl.jaas.config={module}"
            for listener in ("sasl", "sasl_tls")
            for mechanism, module in LOGINS.items()
        ]
        return PROPERTIES.format(
            listeners=",".join(f"{name}://{self.at(name)}" for name in LISTENERS),
            protocols=",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
            controller=self.ports["CONTROLLER"],
            keystore=self.authority.certify("broker", hosts=("127.0.0.1",)).both,
            truststore=self.authority.file,
            logins="\n".join(logins),
            folder=self.folder,
        )

    def start(self) -> None:
        """Start, on the same ports and data as before, and wait until it takes connections."""
        with self.log.open("ab") as log:
            command = self._java("kafka.Kafka", str(self.folder / "server.properties"))
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + PATIENCE
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"the broker did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def answers(self) -> bool:
        """Whether its listener is open: Kafka opens it once the broker has caught up and is unfenced."""
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.ports["PLAINTEXT"])) == 0

    def stop(self) -> None:
        """A polite end (SIGTERM), as in a rolling restart."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE)

    def kill(self) -> None:
        """kill -9: nothing is flushed, no one is told."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
