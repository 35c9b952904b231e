"""What docker-compose.yml has to hold without an engine to try it on: a race shows once in a hundred starts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import psutil
import pytest
import yaml

from tests.support.deployments.compose_stack import clear_pid_file

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")


def test_one_container_alone_fills_a_volume_that_several_share() -> None:
    """Docker copies an image's folders into a new volume when a container is created; two at once fail with "file exists"."""
    fillers: dict[str, list[str]] = defaultdict(list)
    for service, options in COMPOSE["services"].items():
        for mount in options.get("volumes", []):
            source, _, access = _parts(mount)
            if source in COMPOSE["volumes"] and "nocopy" not in access.split(","):
                fillers[source].append(service)
    assert fillers.keys() == COMPOSE["volumes"].keys()
    assert {source: services for source, services in fillers.items() if len(services) > 1} == {}


def test_who_mounts_what_another_fills_waits_for_it() -> None:
    for service, options in COMPOSE["services"].items():
        if any("nocopy" in _parts(mount)[2] for mount in options.get("volumes", [])):
            assert options["depends_on"]["secrets"] == {"condition": "service_completed_successfully"}, (
                service
            )


def test_no_log_of_a_container_grows_without_end() -> None:
    for service, options in COMPOSE["services"].items():
        bounds = options.get("logging", {}).get("options", {})
        assert bounds.keys() >= {"max-size", "max-file"}, service


def test_a_command_in_a_container_finds_the_bank_that_the_programs_use() -> None:
    commands = [
        each["command"] for each in COMPOSE["services"].values() if "--bank" in each.get("command", [])
    ]
    used = {each[each.index("--bank") + 1] for each in commands}
    lines = re.findall(r"^ENV .*FINGERPRINT_.*$", DOCKERFILE, re.MULTILINE)
    named = [re.findall(r"FINGERPRINT_BANK_FOLDER=(\S+)", each) for each in lines]
    assert used == {"models/bank"}
    assert named == [["models/bank"]] * 2  # ours, and the stage that begins with NVIDIA's image


@pytest.mark.parametrize("left", ["1", "0", "999999999", "no number", None])
def test_the_pid_file_of_an_engine_that_is_gone_is_removed(tmp_path: Path, left: str | None) -> None:
    """Found on a machine that had been restarted: the number was another process's, and no engine came up."""
    pid_file = tmp_path / "docker.pid"
    if left is not None:
        pid_file.write_text(left)
    clear_pid_file("dockerd", pid_file)
    assert not pid_file.exists()


def test_an_engine_that_answers_no_more_is_ended_and_another_process_is_not(tmp_path: Path) -> None:
    pid_file = tmp_path / "docker.pid"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stuck:
        pid_file.write_text(str(stuck.pid))
        clear_pid_file("dockerd", pid_file)
        assert stuck.poll() is None
        assert not pid_file.exists()
        pid_file.write_text(f"{stuck.pid}\n")
        clear_pid_file(psutil.Process(stuck.pid).name(), pid_file)
        assert not psutil.pid_exists(stuck.pid)
        assert not pid_file.exists()


def _parts(mount: str) -> tuple[str, str, str]:
    """Return source, target and access of "${NAME:-source}:/target:access"."""
    source, target, access = (mount.replace(":-", "=") + ":").split(":")[:3]
    return source.removeprefix("${").rstrip("}").split("=")[-1], target, access
