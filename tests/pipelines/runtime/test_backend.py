"""A device has to read what the CPU reads before it is trusted, and every program says at its start what it runs on.

The device of these machines is the fake of CuPy, its tables the fake of cuDF: whole programs, in processes of their own, take
the pipeline that they take on a device.
"""

from __future__ import annotations

import json
from pathlib import Path

import fake_cupy
from prometheus_client import CollectorRegistry

from fingerprint.compute.backend import HOST_BACKEND
from fingerprint.sources import backend_check
from fingerprint.sources.cloudtrail import check_records, cudf_reader
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.streaming.metrics import StreamMetrics
from tests.compute.test_backend import NO_DRIVER, ROOT, WORKS, Machine
from tests.support import sample_organisation
from tests.support.stream_environment import Place

CUPY = f"""
from types import SimpleNamespace
import fake_cupy

class runtime:
    runtimeGetVersion = staticmethod(lambda: {WORKS["cuda"]})
    driverGetVersion = staticmethod(lambda: {WORKS["driver"]})
    getDevice = staticmethod(lambda: 0)
    getDeviceCount = staticmethod(lambda: 1)
    memGetInfo = staticmethod(lambda: (20 << 30, 24 << 30))
    getDeviceProperties = staticmethod(lambda number: dict(name=b"Fake", major=8, minor=9))

class fft:
    config = SimpleNamespace(set_plan_cache_size=lambda plans: None)
    rfft, irfft = staticmethod(fake_cupy.fft.rfft), staticmethod(fake_cupy.fft.irfft)

cuda = SimpleNamespace(runtime=runtime, set_allocator=lambda allocator: None)
get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None)

def __getattr__(name):
    return getattr(fake_cupy, name)
"""
RMM = """
from types import SimpleNamespace
mr = SimpleNamespace(CudaAsyncMemoryResource=lambda release_threshold: None, set_current_device_resource=lambda pool: None)
"""
TABLES = "from fake_cudf import *\n"
BENT = """
import fake_cudf
class io(fake_cudf.io):
    class json(fake_cudf.io.json):
        @staticmethod
        def read_json(options):
            table = fake_cudf.io.json.read_json(options)
            agents = table.columns["userAgent"]._there
            table.columns["userAgent"] = fake_cudf.Series._of(agents.str.slice(0, 20))
            return table
"""


class Fake(Machine):
    """A machine whose device is a fake; `bent`: what its reader does otherwise."""

    def __init__(self, folder: Path, bent: str = "") -> None:
        super().__init__(folder)
        self.put("cupy", CUPY, "14.2.0").put("cudf", TABLES, "26.10.2").put("pylibcudf", TABLES + bent)
        self.put("rmm", RMM).put("rmm/allocators", "")
        (folder / "rmm" / "allocators" / "cupy.py").write_text("rmm_cupy_allocator = None\n")
        self.paths = (folder, ROOT, ROOT / "tests/support/gpu")


def test_real_and_crooked_records_are_what_a_device_is_tried_by() -> None:
    read = backend_check.read_with_backend(check_records.check_records(), "pandas")
    assert len(read.events) > check_records.SAMPLE_RECORDS
    assert len(read.rejects) > 5
    assert backend_check.first_difference("fake_cudf") is None


def test_a_device_is_tried_by_a_batch_that_no_host_helps_it_with_and_by_one_without_an_event() -> None:
    mixed, plain, none = check_records.check_batches()
    assert cudf_reader.filter_records(split_lines(plain).lines, fake_cupy).plain.all()
    assert not cudf_reader.filter_records(split_lines(mixed).lines, fake_cupy).plain.all()
    assert not len(backend_check.read_with_backend(none, "pandas").events)


def test_a_device_that_reads_as_the_cpu_does_is_proved(tmp_path: Path) -> None:
    done = Fake(tmp_path).run("-m", "pipelines.cli", "backend", "--prove", "--json")
    said = json.loads(done.stdout)
    assert (said["tables"], said["arrays"], said["device"], said["trouble"]) == (
        "cudf",
        "cupy",
        "cuda",
        False,
    )
    assert said["about"]["name"] == "Fake"
    assert said["proof"]["difference"] is None
    assert said["versions"]["cudf"] == "26.10.2"


def test_a_device_that_reads_one_field_otherwise_is_found_out_and_refused(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    fake = Fake(tmp_path, BENT)
    done = fake.run("-m", "pipelines.cli", "backend", "--prove")
    wrong = "cuDF 26.10.2 reads otherwise than the CPU: record "
    assert done.stdout.startswith(f"trouble: pandas and NumPy on the CPU: {wrong}")
    assert ": user_agent is '" in done.stdout
    assert done.returncode == 3
    command = ("-m", "pipelines.cli", "score", "none.jsonl", "--bank", str(organisation.bank))
    insisted = fake.run(*command, "--database", "sqlite://", FINGERPRINT_BACKEND="cuda")
    assert insisted.returncode == 2
    assert insisted.stderr.startswith(f"fingerprint: backend cuda was asked for, but {wrong}")


def test_score_says_first_what_it_runs_on_and_its_figures_stay_alone_on_standard_output(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    machine = Machine(tmp_path).with_both(**NO_DRIVER)
    command = ("-m", "pipelines.cli", "score", *organisation.new[:1], "--bank", str(organisation.bank))
    done = machine.run(*command, "--database", f"sqlite:///{tmp_path}/alerts.sqlite", "--json")
    said = "warning: pandas and NumPy on the CPU: CuPy finds no device: cudaErrorInsufficientDriver"
    assert done.stderr.startswith(said)
    assert json.loads(done.stdout)["events"] > 0


def test_a_stream_says_in_its_log_what_it_runs_on(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    place = Place(tmp_path, organisation.bank).create(partitions=1)
    process = place.start("--once")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    [line] = [line for line in map(json.loads, said.splitlines()) if line["message"] == "backend"]
    assert (line["level"], line["tables"], line["arrays"], line["device"]) == (
        "info",
        "pandas",
        "numpy",
        "cpu",
    )
    assert "not installed" in line["reason"]


def test_what_a_stream_runs_on_is_a_metric() -> None:
    registry = CollectorRegistry()
    StreamMetrics(registry).set_backend(HOST_BACKEND)
    labels = {"tables": "pandas", "arrays": "numpy", "device": "cpu"}
    assert registry.get_sample_value("fingerprint_backend_info", labels) == 1
