"""The MITRE ATT&CK tactics that an AWS action serves, from public mappings.

Example:
    >>> tactics_of("secretsmanager", "GetSecretValue")
    ('Credential Access',)
    >>> tactics_of("ec2", "DescribeRegions")                        # not every call has one
    ()

Source: data/attack_tactics, derived from Panther's rules and Stratus Red Team's techniques; its README says how.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from functools import cache

from fingerprint.sources.base import TACTICS
from fingerprint.sources.cloudtrail import samples

_API_VERSION = re.compile(
    r"20\d{6}(v\d+)?$"
)  # Lambda and CloudFront append theirs: UpdateFunctionCode20150331v2


def tactics_of(service: str, action: str) -> tuple[str, ...]:
    """Return the tactics that an action serves, in the order of the matrix; none where no mapping names the action.

    `service` is an event's (`ec2`), `action` its eventName.
    """
    return _tactic_table().get((service, without_api_version(action)), ())


def tactics_among(calls: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the tactics that any of many (service, action) serves, in the order of the matrix; each pair is looked up once."""
    found = {tactic for service, action in set(calls) for tactic in tactics_of(service, action)}
    return tuple(tactic for tactic in TACTICS if tactic in found)


def without_api_version(action: str) -> str:
    """Return the action without the API version that some services append."""
    return _API_VERSION.sub("", action)


@cache
def _tactic_table() -> Mapping[tuple[str, str], tuple[str, ...]]:
    found: dict[tuple[str, str], set[str]] = {}
    with (samples.data_folder("attack_tactics") / "tactics.tsv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            found.setdefault((row["service"], row["action"]), set()).add(row["tactic"])
    return {call: tuple(tactic for tactic in TACTICS if tactic in named) for call, named in found.items()}
