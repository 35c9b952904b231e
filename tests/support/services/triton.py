"""A real Triton server for the tests: fetched once, started on free ports of this machine, killed and started again.

Example:
    >>> with Triton.started(Path("/tmp/triton")) as triton:
    ...     triton.address                                # of gRPC
    '127.0.0.1:40123'

The binary is the one in the wheel `nvidia-pytriton`, whose pins do not fit the rest: it is installed apart, and only the server
in it is used; what starts it in the containers starts it here (deploy/triton.sh). It rests in `build/services/triton`, or in the
folder that TRITON_TEST_PACKAGES names. Its Python backend takes the `python3` that comes first in PATH: this environment's, so
that a model finds `fingerprint`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.services.atomic_install import into_place
from tests.support.services.debian_packages import Unavailable
from tests.support.services.ports import free_ports

HERE = Path(__file__).parent
WHEEL = "nvidia-pytriton==0.7.0"
PATIENCE = 60.0  # seconds a start may take before it is an error
KEY = "fingerprint-control=open sesame"  # to all but measuring
SCRIPT = HERE.parents[2] / "deploy/triton.sh"
PORTS = ("http", "grpc", "metrics")


def packages() -> Path:
    """The folder of the server, fetched if it is not there yet; moved into place when complete."""
    folder = Path(os.environ.get("TRITON_TEST_PACKAGES") or HERE.parents[2] / "build/services/triton")
    if folder.is_dir():
        return folder
    staged = folder.with_name(f"{folder.name}.{os.getpid()}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*command, "--target", str(staged), WHEEL], capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"pip could not fetch {WHEEL}: {(done.stdout + done.stderr)[-2000:]}")
    _add_stub(staged / "pytriton/tritonserver")
    into_place(staged, folder)
    return folder


def _add_stub(server: Path) -> None:
    """The wheel has one for each Python; the backend wants its own beside it."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = server / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.is_file():
        raise Unavailable(f"{WHEEL} has no Python backend for Python {version}")
    shutil.copy2(stub, server / "backends/python")


def _libpython() -> Path:
    """The folder of this Python's own library: another build of the same version would not do."""
    name = sysconfig.get_config_var("INSTSONAME")
    for folder in filter(None, map(sysconfig.get_config_var, ("LIBDIR", "LIBPL"))):
        if (Path(folder) / name).is_file():
            return Path(folder)
    package = f"libpython{sys.version_info.major}.{sys.version_info.minor}"
    if os.geteuid() or not shutil.which("apt-get") or not sys.base_prefix.startswith("/usr"):
        raise Unavailable(f"Triton needs {name} of this Python: sudo apt-get install -y {package}")
    subprocess.run(["apt-get", "install", "-y", "-qq", package], check=True, stdout=subprocess.DEVNULL)
    return Path(sysconfig.get_config_var("LIBDIR"))


def _environment(server: Path) -> dict[str, str]:
    """With this environment's Python first, for the processes of the models."""
    own = {
        "PATH": f"{Path(sys.executable).parent}:{server / 'bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(_libpython()),
        "TRITON_BACKENDS": str(server / "backends"),
    }
    return os.environ | own | {"OMP_NUM_THREADS": "1"}


@dataclass
class Triton:
    """One server; its ports and repository outlive the process, so `kill` and `start` are a crash and a recovery."""

    folder: Path
    server: Path
    ports: dict[str, int]
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = field(default=None)

    @classmethod
    @contextmanager
    def started(cls, folder: Path, **environment: str) -> Iterator[Triton]:
        """A server that answers, with an empty repository, until the block ends. Unavailable where it cannot be had."""
        triton = cls(folder, packages() / "pytriton/tritonserver", free_ports(PORTS), environment)
        triton.repository.mkdir(parents=True)
        triton.key_file.write_text(KEY + "\n")
        try:
            triton.start()
            yield triton
        finally:
            triton.kill()

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    @property
    def key_file(self) -> Path:
        """What the setting triton.control_key_file names."""
        return self.folder / "key"

    def assert_alive(self) -> None:
        """Say why a server that no test ended has ended: its log goes with the folder of the tests."""
        if self.process and (status := self.process.poll()) is not None:
            raise AssertionError(f"Triton ended with status {status}: {self.log.read_text()[-6000:]}")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.ports['grpc']}"

    @property
    def log(self) -> Path:
        return self.folder / "triton.log"

    @property
    def _shared(self) -> str:
        return f"fingerprint_tests_{self.ports['grpc']}"

    def start(self) -> None:
        """Start, on the same ports and repository as before, with the model loaded if there is one, and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command(), stdout=log, stderr=log, start_new_session=True, env=self._environment()
            )
        deadline = time.monotonic() + PATIENCE
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"Triton did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def _environment(self) -> dict[str, str]:
        own = {
            "FINGERPRINT_TRITON__MODEL_REPOSITORY": str(self.repository),
            "FINGERPRINT_TRITON__CONTROL_KEY_FILE": str(self.key_file),
        }
        return _environment(self.server) | own | self.environment

    def _command(self) -> list[str]:
        command = ["sh", str(SCRIPT), f"--backend-config=python,shm-region-prefix-name={self._shared}"]
        command += [f"--{name}-port={port}" for name, port in self.ports.items()]
        return command + [f"--{name}-address=127.0.0.1" for name in ("grpc", "metrics")]

    def answers(self) -> bool:
        """Whether it is up, and what it was started with is loaded."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.ports['http']}/v2/health/live", timeout=1
            ) as live:
                return bool(live.status == 200)
        except OSError:
            return False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While the block runs it stands still, its connections open: nothing is refused, and nothing answered."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """kill -9, with the processes of its models."""
        if self.process and self.process.poll() is None:
            self._signal(signal.SIGKILL)
            self.process.wait(PATIENCE)
        for left in Path("/dev/shm").glob(f"{self._shared}*"):  # noqa: S108  (what it shared with its models)
            left.unlink(missing_ok=True)

    def _signal(self, number: signal.Signals) -> None:
        if self.process:
            os.killpg(self.process.pid, number)
