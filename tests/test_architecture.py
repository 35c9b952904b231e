"""Imports run one way; the inside never looks out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Each room may import from itself and from the rooms before it.
ROOMS = [
    {
        "credentials",
        "private",
        "domain",
        "extras",
        "bands",
        "casework",
        "people",
        "passwords",
        "settings",
        "device",
        "backend",
        "samples",
        "hostile",
        "redaction",
    },
    {
        "ports",
        "ports_queue",
        "ports_thresholds",
        "ports_topics",
        "ports_people",
        "mend",
        "cloudtrail",
        "inflating",
        "chunks",
        "partitions",
        "sealing",
        "signatures",
        "waiting",
        "watchdog",
        "breaker",
        "arrays",
        "frames",
    },
    {
        "columns",
        "kernels",
        "reading_duckdb",
        "reading_cudf",
        "flatten",
        "entity",
        "messages",
        "ingesting",
        "notices",
        "trails",
        "fetching",
        "pacing",
        "spans",
        "arrival",
        "retraining",
        "triage",
        "suppressing",
    },
    {
        "hashing",
        "event_clock",
        "networks",
        "tables",
        "coded",
        "features",
        "company",
        "ranks",
        "spectral",
        "series",
        "ledger",
        "measured",
        "vocabulary",
        "autoencoder",
        "tails",
        "baseline",
    },
    {
        "peers",
        "shards",
        "versions",
        "bank",
        "ports_banks",
        "quality",
        "drift",
        "probe",
        "proof",
        "gate",
        "losses",
        "serving",
        "voting",
        "detectors",
        "names",
        "sources",
        "feeds",
        "silence",
        "scoring",
        "tactics",
        "sharing",
        "alerts",
        "chains",
        "road",
        "steps",
        "packing",
        "slices",
        "spilling",
        "arriving",
        "telling",
        "keeping",
        "moving",
        "buckets",
        "drawing",
        "nets",
        "replaying",
        "epochs",
        "starting",
        "fitting_device",
        "fitting",
        "pieces",
        "collecting",
        "stacking",
        "commons",
        "learning",
        "assembling",
        "training",
        "leaving",
        "shifting",
        "evaluation",
        "looking",
        "cards",
        "tuning",
        "retuning",
        "simulation",
        "outward",
        "reaching",
        "signing",
        "delivering",
        "ports_outbox",
    },
    {"edges", "web"},
]
OUTSIDE = {
    "requests",
    "socket",
    "sqlalchemy",
    "fsspec",
    "subprocess",
    "kafka",
    "confluent_kafka",
    "tritonclient",
    "boto3",
    "dask",
    "distributed",
    "fastapi",
    "httpcore",
    "starlette",
    "uvicorn",
    "httpx2",
    "joserfc",
    "authlib",
    "argon2",
}
INSIDE_MODULES = sorted((ROOT / "fingerprint").glob("*.py"))


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(name: str) -> int:
    return next((number for number, room in enumerate(ROOMS) if name in room), -1)


def rooms_used(file: Path) -> set[str]:
    return {name.split(".")[1] for name in imported(file) if name.startswith("fingerprint.")}


def all_modules() -> list[Path]:
    return [
        file for file in sorted((ROOT / "fingerprint").rglob("*.py")) if file.parent.name != "__pycache__"
    ]


def name_of(file: Path) -> str:
    return file.relative_to(ROOT / "fingerprint").parts[0].removesuffix(".py")


@pytest.mark.parametrize("file", all_modules(), ids=lambda file: str(file.relative_to(ROOT)))
def test_every_module_has_a_room_and_imports_only_from_rooms_before_it(file: Path) -> None:
    name = name_of(file)
    if name == "__init__":
        return
    assert room(name) >= 0, f"{name} is in no room: add it to ROOMS"
    for used in rooms_used(file):
        if room(used) >= 0:
            assert room(used) <= room(name), f"{name} imports {used}, which comes after it"


@pytest.mark.parametrize("file", INSIDE_MODULES, ids=lambda file: file.name)
def test_the_inside_opens_no_connection(file: Path) -> None:
    assert not {name.split(".")[0] for name in imported(file)} & OUTSIDE


def test_doors_never_import_each_other() -> None:
    # a door may have parts: edges/desk.py and edges/desk_tables.py are one
    for file in sorted((ROOT / "fingerprint" / "edges").glob("*.py")):
        own = file.stem.split("_")[0]
        others = {name.split(".")[2] for name in imported(file) if name.startswith("fingerprint.adapters.")}
        assert {other for other in others if other.split("_")[0] != own} == set(), file.name


def test_pages_and_doors_never_import_each_other() -> None:
    for room, other in (("web", "edges"), ("edges", "web")):
        for file in (ROOT / "fingerprint" / room).rglob("*.py"):
            assert other not in rooms_used(file), file


def test_only_fitting_needs_torch() -> None:
    users = {
        file.stem for file in all_modules() if any(name.split(".")[0] == "torch" for name in imported(file))
    }
    fits = {"fitting", "epochs", "replaying", "starting", "fitting_device", "nets", "drawing"}
    assert users - {"arrays"} == fits | {"peers_dfencoder"}


def test_nothing_is_pickled() -> None:
    for file in [*all_modules(), *(ROOT / "pipelines").glob("*.py"), *(ROOT / "models").rglob("*.py")]:
        modules = {name.split(".")[0] for name in imported(file)}
        assert not modules & {"pickle", "dill", "joblib", "cloudpickle", "shelve", "marshal"}, file
        assert "allow_pickle" not in file.read_text(), file
