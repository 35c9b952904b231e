"""Which backend a program takes, on every machine it may run on: each a process of its own, with what it would find there.

The libraries of these machines are small, and raise what the driver raises: what CuPy 14.2 says without one was read off CuPy.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fingerprint.compute.backend import HOST_BATCH_BYTES, MAX_BATCH_BYTES, Backend, CudaDevice, choose_backend
from fingerprint.core.errors import FingerprintError

ROOT = Path(__file__).parents[2]

CUPY = """
from types import SimpleNamespace
import numpy
from numpy import int64

class CUDARuntimeError(RuntimeError):
    pass

class runtime:
    runtimeGetVersion = staticmethod(lambda: {cuda})
    driverGetVersion = staticmethod(lambda: {driver})
    getDevice = staticmethod(lambda: 0)
    memGetInfo = staticmethod(lambda: (20 << 30, 24 << 30))

    @staticmethod
    def getDeviceCount():
        if "{error}":
            raise CUDARuntimeError("{error}")
        return {count}

    @staticmethod
    def getDeviceProperties(number):
        major, minor = {capability}
        return dict(name=b"NVIDIA L4", major=major, minor=minor)

def arange(stop, dtype):
    if "{broken}":
        raise CUDARuntimeError("{broken}")
    return numpy.arange(stop, dtype=dtype)

cuda = SimpleNamespace(runtime=runtime)
"""
WORKS = {"cuda": 13020, "driver": 13000, "count": 1, "error": "", "capability": (8, 9), "broken": ""}
NO_DRIVER = {
    "error": "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
    "driver": 0,
}


class Machine:
    """A folder of libraries, and what a program says that finds them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: tuple[Path, ...] = (folder, ROOT)

    def put(self, module: str, text: str, release: str = "", wants: str = "") -> Machine:
        (self.folder / module).mkdir()
        (self.folder / module / "__init__.py").write_text(text)
        if release:
            about = self.folder / f"{module}_cu13-{release}.dist-info"
            about.mkdir()
            lines = ["Metadata-Version: 2.1", f"Name: {module}-cu13", f"Version: {release}"]
            (about / "METADATA").write_text("\n".join([*lines, *filter(None, [wants])]) + "\n")
            (about / "top_level.txt").write_text(f"{module}\n")
        return self

    def with_cupy(self, **state: object) -> Machine:
        return self.put("cupy", CUPY.format(**WORKS | state), "14.2.0")

    def with_both(self, **state: object) -> Machine:
        return self.with_cupy(**state).put("cudf", "", "26.10.2", "Requires-Dist: pandas<3.1.0,>=3.0.0")

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        paths = os.pathsep.join(map(str, self.paths))
        return subprocess.run(  # noqa: S603 - our own programs
            [sys.executable, *command],
            env={**os.environ, "PYTHONPATH": paths, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def says(self, setting: str = "auto") -> str:
        """`trouble` or not, and the sentence; or the error."""
        code = (
            "from fingerprint.compute.backend import choose_backend\nfrom fingerprint.core.errors import FingerprintError\n"
            f"try: found = choose_backend({setting!r}); print(found.device, found.is_misconfigured, found)\n"
            "except FingerprintError as error: print('refused', error)"
        )
        done = self.run("-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_the_libraries_no_one_is_warned(machine: Machine) -> None:
    assert machine.says().startswith("cpu False pandas and NumPy on the CPU: cuDF and CuPy are not installed")


def test_a_device_that_computes_is_used(machine: Machine) -> None:
    said = "NVIDIA L4 (compute capability 8.9), 20.0 of 24.0 GiB free"
    assert machine.with_both().says() == f"cuda False cuDF and CuPy on a CUDA device: {said}"


def test_a_device_is_not_touched_where_the_cpu_is_asked_for(machine: Machine) -> None:
    machine.put("cupy", "raise SystemExit(9)").put("cudf", "raise SystemExit(9)")
    assert machine.says("cpu") == "cpu False pandas and NumPy on the CPU: asked for by the setting"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        pytest.param(
            NO_DRIVER,
            "no device: cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version; there is no "
            "NVIDIA driver here: CUDA 13 needs 580 or newer",
            id="no driver",
        ),
        pytest.param(
            {**NO_DRIVER, "driver": 12060},
            "the driver is for CUDA 12.6: CUDA 13 needs driver 580 or newer, or the extra `gpu-cu12`",
            id="a driver for CUDA 12",
        ),
        pytest.param(
            {"error": "cudaErrorNoDevice: no CUDA-capable device is detected"},
            "no device: cudaErrorNoDevice: no CUDA-capable device is detected; see that `nvidia-smi` shows one",
            id="a driver and no device",
        ),
        pytest.param({"count": 0}, "CUDA_VISIBLE_DEVICES does not hide it", id="a device that is hidden"),
        pytest.param(
            {"capability": (7, 0)},
            "NVIDIA L4 has compute capability 7.0, and cuDF for CUDA 13 needs 7.5, the one for CUDA 12 7.0",
            id="a device of 2017",
        ),
        pytest.param(
            {"capability": (6, 1), "cuda": 12090},
            "NVIDIA L4 has compute capability 6.1, and cuDF for CUDA 12 needs 7.0",
            id="a device of 2016",
        ),
        pytest.param(
            {"broken": "cudaErrorMemoryAllocation: out of memory"},
            "which does not compute: cudaErrorMemoryAllocation: out of memory; its memory is taken: `nvidia-smi` says by whom",
            id="a device that is full",
        ),
        pytest.param(
            {"broken": "libnvrtc.so.13: cannot open shared object file"},
            "a part of the CUDA toolkit is missing",
            id="a toolkit in parts",
        ),
    ],
)
def test_libraries_without_a_device_are_trouble_that_says_what_to_do(
    machine: Machine, state: dict[str, object], said: str
) -> None:
    words = machine.with_both(**state).says()
    assert words.startswith("cpu True pandas and NumPy on the CPU: ")
    assert said in words


@pytest.mark.parametrize(("there", "lacking"), [("cupy", "cuDF"), ("cudf", "CuPy")])
def test_half_an_installation_is_trouble(machine: Machine, there: str, lacking: str) -> None:
    words = machine.put(there, "").says()
    assert words.startswith("cpu True")
    assert f"without {lacking}, and both are needed" in words
    assert ".[gpu]" in words


def test_a_pandas_that_cudf_does_not_admit_is_said_before_cudf_breaks(machine: Machine) -> None:
    wants = "Requires-Dist: pandas<3.0,>=2.0"
    words = machine.with_cupy().put("cudf", "raise SystemExit(9)", "25.02.0", wants).says()
    assert "cuDF 25.02.0 wants pandas<3.0,>=2.0, and pandas 3." in words


def test_a_cudf_that_cannot_be_imported_is_trouble(machine: Machine) -> None:
    broken = "raise ImportError('libcudf.so: undefined symbol: _ZN3rmm')"
    words = machine.with_cupy().put("cudf", broken, "26.10.2").says()
    assert words.startswith("cpu True")
    assert "cudf 26.10.2 beside pandas 3." in words
    assert "undefined symbol: _ZN3rmm" in words


@pytest.mark.parametrize("libraries", ["neither", "no device"])
def test_who_insists_on_a_device_is_told_what_is_missing(machine: Machine, libraries: str) -> None:
    if libraries == "no device":
        machine.with_both(**NO_DRIVER)
    words = machine.says("cuda")
    assert words.startswith("refused backend cuda was asked for, but ")
    assert ("580 or newer" if libraries == "no device" else ".[gpu]") in words
    assert words.endswith("; or set backend to auto or cpu")


def test_pieces_are_as_large_as_the_device_has_room_for() -> None:
    def on(free: int) -> int:
        device = CudaDevice("NVIDIA L4", (8, 9), 13020, 13020, 24 << 30, free)
        return Backend("cudf", "cupy", "cuda", "", device_info=device).batch_bytes

    assert choose_backend("cpu").batch_bytes == HOST_BATCH_BYTES
    assert on(80 << 30) == MAX_BATCH_BYTES
    assert 80 << 20 < on(4 << 30) < 128 << 20
    assert on(0) > 0


def test_a_setting_without_a_section_is_read_from_the_environment(tmp_path: Path) -> None:
    from fingerprint.core.settings import load_settings

    assert load_settings(environment={"FINGERPRINT_BACKEND": "cpu"}).backend == "cpu"
    with pytest.raises(FingerprintError, match=r"setting backend: expected 'auto', 'cpu' or 'cuda'"):
        load_settings(environment={"FINGERPRINT_BACKEND": "gpu"})


@pytest.mark.parametrize("name", ["dev-gpu", "serve-gpu-cu12"])
def test_an_installation_with_a_gpu_has_the_versions_of_the_others_but_for_what_cudf_wants(name: str) -> None:
    usual, own = (pins(f"locks/{each}.txt") for each in ("dev", name))
    assert {"cudf", "pylibcudf", "rmm"} <= {each.rpartition("-cu1")[0] for each in own}
    assert own["pandas"] == usual["pandas"]
    others = {each for each in usual.keys() & own.keys() if usual[each] != own[each]}
    libraries = {each for each in others if each.startswith(("nvidia-", "cuda-"))}
    assert others - libraries == {"numpy", "numba", "llvmlite"} & others


def pins(file: str) -> dict[str, set[str]]:
    """The versions of each package that a file allows; some depend on the platform."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / file).read_text().splitlines():
        package, there, rest = line.partition("==")
        if there and not line.startswith("#"):
            found.setdefault(package, set()).add(rest.partition(" ")[0])
    return found
