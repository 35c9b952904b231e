"""An attacker in the build chain: an index that serves another wheel, a stranger's package of our name, a container that
was taken over."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "deploy"))  # programs of a deployment, not modules of the product

import audit  # noqa: E402

import locks  # noqa: E402

LOCKS = sorted(locks.LOCKS.glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
MAKEFILE = (ROOT / "Makefile").read_text().replace("\\\n", " ")


# --- what an index serves ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_package_is_one_version_with_its_hashes_and_never_built_from_source(lock: Path) -> None:
    packages = locks.requirements(lock)
    assert packages
    assert [each.name for each in packages if not each.is_pinned] == []
    assert [each.name for each in packages if not each.hash_options] == []
    assert {
        part for each in packages for part in each.hash_options if not part.startswith("sha256:")
    } == set()
    assert "--only-binary :all:" in lock.read_text().splitlines()


def wheel(folder: Path, text: str) -> str:
    """A wheel `victim` with a module of this text, in a folder that stands for an index; its SHA-256."""
    folder.mkdir(exist_ok=True)
    file = folder / "victim-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("victim.py", text)
        archive.writestr(
            "victim-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: victim\nVersion: 1.0\n"
        )
        archive.writestr(
            "victim-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("victim-1.0.dist-info/RECORD", "victim.py,,\n")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_an_index_that_serves_another_wheel_of_the_same_name_and_version_ends_the_installation(
    tmp_path: Path,
) -> None:
    """With the options that `make` and the images install by."""
    honest = wheel(tmp_path / "index", "honest = True")
    (tmp_path / "lock.txt").write_text(f"--only-binary :all:\n\nvictim==1.0 --hash=sha256:{honest}\n")

    def install(there: str) -> subprocess.CompletedProcess[str]:
        options = [
            "--require-hashes",
            "--no-index",
            "--find-links",
            "index",
            "--target",
            there,
            "-r",
            "lock.txt",
        ]
        command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)  # noqa: S603 - this Python's pip

    assert install("before").returncode == 0
    wheel(tmp_path / "index", "import os")
    refused = install("after")
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr
    assert not (tmp_path / "after").exists()


def test_every_installation_of_make_and_of_an_image_is_by_hashes_or_of_what_was_just_built() -> None:
    said = re.findall(r"^.*pip\S* .*\b(?:install|wheel)\b.*$", DOCKERFILE + MAKEFILE, re.MULTILINE)
    commands = [
        part
        for line in said
        for part in line.split("&&")
        if re.search(r"\b(install|wheel) -", part) and "apt-get" not in part
    ]
    assert len(commands) >= 9
    careless = [each for each in commands if "--require-hashes" not in each and "--no-deps" not in each]
    assert careless == []
    builds = [each for each in commands if "--no-deps" in each and "--require-hashes" not in each]
    assert [each for each in builds if "--no-build-isolation" not in each and "wheel/*.whl" not in each] == []


def test_the_locks_have_what_the_project_asks_for() -> None:
    """A dependency that was added without `make lock` is not installed from wherever it may be."""
    every = [
        *PROJECT["dependencies"],
        *(each for extra in PROJECT["optional-dependencies"].values() for each in extra),
    ]
    found: dict[str, set[str]] = {}
    for lock in LOCKS:
        for each in locks.requirements(lock):
            found.setdefault(canonicalize_name(each.name), set()).add(each.get_pinned_version)
    wanted = [Requirement(each) for each in every]
    unmet = [
        str(each)
        for each in wanted
        if not any(map(each.specifier.contains, found.get(canonicalize_name(each.name), ())))
    ]
    assert unmet == []


# --- a stranger's package ---------------------------------------------------------------------------------------------


def texts() -> list[Path]:
    """What is read by people who install: programs, documents, pages; not what is generated, nor the past."""
    kinds = {".py", ".md", ".toml", ".json", ".yml", ".yaml", ".html", ".txt", ".ipynb", ".sh", ".tpl"}
    folders = ("fingerprint", "pipelines", "models", "docs", "deploy", "notebooks", "data")
    inside = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in kinds]
    return [*inside, *ROOT.glob("*.md"), ROOT / "Dockerfile", ROOT / "Makefile", ROOT / "pyproject.toml"]


def test_nothing_tells_people_to_install_a_strangers_package() -> None:
    """An index has a package of our import name that is not ours; the distribution is cloudtrail-fingerprint."""
    extras = "|".join(PROJECT["optional-dependencies"])
    by_name = re.compile(
        rf"""pip3? install[^\n`]*[ '"](?:cloudtrail-)?fingerprint(?![\w./-])|(?<![\w.-])fingerprint\[(?:{extras})\]"""
    )
    told = {
        f"{file.relative_to(ROOT)}: {found[0]}"
        for file in texts()
        if file.name != "CHANGELOG.md"
        for found in by_name.finditer(file.read_text())
    }
    assert told == set()
    assert PROJECT["name"] == "cloudtrail-fingerprint"
    assert by_name.search("pip install 'fingerprint[gpu]'")
    assert by_name.search("run `pip install -U fingerprint`")


# --- a container that was taken over ----------------------------------------------------------------------------------

SECRETS = {
    "secrets": {"database", "triton", "grafana"},  # makes them, and ends
    "postgres": {"database"},
    "stream": {"database"},
    "web": {"database"},
    "train": {"database", "triton"},
    "triton": {"triton"},
    "grafana": {"grafana"},
}


def test_a_container_holds_no_secret_that_it_does_not_use() -> None:
    mounted: dict[str, set[str]] = {}
    for name, service in COMPOSE.items():
        for volume in service.get("volumes", []):
            if found := re.search(r":/run/secrets/(\w+)(:ro,nocopy)?$", volume):
                mounted.setdefault(name, set()).add(found[1])
                assert found[2] or name == "secrets", f"{name} may write {volume}"
            assert "/run/secrets" not in volume or found, f"{volume} is more than one secret"
    assert mounted == SECRETS


@pytest.mark.parametrize("name", COMPOSE)
def test_every_image_may_be_named_by_its_digest(name: str) -> None:
    assert re.fullmatch(r"\$\{[A-Z_]+_IMAGE:-[^}]+:[^}]+\}", COMPOSE[name]["image"])
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", DOCKERFILE, re.MULTILINE))
    assert {each for each in bases if each not in stages} == {"${PYTHON_IMAGE}", "${TRITON_IMAGE}"}


# --- what is known of what is locked ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "status", "sentence"),
    [
        ({"vulns": []}, 0, "no known vulnerability"),
        ({"vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}, 1, "a 1.0: PYSEC-1, mended in 1.1"),
        (
            {"skip_reason": "not found"},
            audit.NOT_ASKED,
            "NOT AUDITED: 1 of 1 packages, the first because: not found",
        ),
    ],
)
def test_an_audit_that_could_ask_no_one_is_never_green(
    package: dict[str, Any], status: int, sentence: str
) -> None:
    assert audit.verdict([{"name": "a", "version": "1.0", **package}]) == (status, [sentence])
