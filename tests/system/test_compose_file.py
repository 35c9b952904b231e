"""What docker-compose.yml has to hold without an engine to try it on: a race shows once in a hundred starts."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import yaml

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


def _parts(mount: str) -> tuple[str, str, str]:
    """Return source, target and access of "${NAME:-source}:/target:access"."""
    source, target, access = (mount.replace(":-", "=") + ":").split(":")[:3]
    return source.removeprefix("${").rstrip("}").split("=")[-1], target, access
