"""The MITRE ATT&CK tactics and techniques of AWS actions, by public mappings.

Example:
    >>> mapped_tactics("secretsmanager", "GetSecretValue")
    ('Credential Access',)
    >>> mapped_tactics("ec2", "DescribeRegions")                        # not every call has one
    ()
    >>> mapped_techniques("cloudtrail", "StopLogging")
    (Technique(id='T1562.008', name='Impair Defenses: Disable or Modify Cloud Logs', tactic='Defense Evasion'),)

Source: data/attack_tactics, derived from Panther's rules and Stratus Red Team's techniques; its README says how.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from functools import cache

from fingerprint.sources.base import TACTICS, Technique
from fingerprint.sources.cloudtrail import samples

# API versions that Lambda and CloudFront append: UpdateFunctionCode20150331v2, CreateDistribution2020_05_31
_API_VERSION = re.compile(r"20\d\d(\d{4}|_\d\d_\d\d)(v\d+)?$")


def mapped_tactics(service: str, action: str) -> tuple[str, ...]:
    """Return the tactics that an action serves, in the order of the matrix; empty if no mapping names the action.

    `service` is an event's (`ec2`), `action` its eventName.
    """
    return _tactic_table().get((service, without_api_version(action)), ())


def mapped_techniques(service: str, action: str) -> tuple[Technique, ...]:
    """Return the techniques that an action carries out, by tactic and id; empty if no mapping names one.

    If a technique and one of its sub-techniques apply, only the sub-technique is returned.
    """
    return _technique_table().get((service, without_api_version(action)), ())


def without_api_version(action: str) -> str:
    """Return the action without the API version that some services append.

    >>> without_api_version("CreateFunction20150331"), without_api_version("lambda:UpdateFunctionCode20150331v2")
    ('CreateFunction', 'lambda:UpdateFunctionCode')
    """
    return _API_VERSION.sub("", action)


def technique_name(number: str) -> str:
    """Return the name of an ATT&CK technique: `T1651` is `Cloud Administration Command`; empty for one that is not listed."""
    return _technique_names().get(number, "")


@cache
def _technique_names() -> Mapping[str, str]:
    return {row["id"]: row["name"] for row in _rows("techniques.tsv")}


@cache
def _tactic_table() -> Mapping[tuple[str, str], tuple[str, ...]]:
    found: dict[tuple[str, str], set[str]] = {}
    for row in _rows("tactics.tsv"):
        found.setdefault((row["service"], row["action"]), set()).add(row["tactic"])
    return {call: tuple(tactic for tactic in TACTICS if tactic in named) for call, named in found.items()}


@cache
def _technique_table() -> Mapping[tuple[str, str], tuple[Technique, ...]]:
    names = _technique_names()
    stratus = {(row["technique"], row["action"]): row["id"] for row in _rows("stratus_techniques.tsv")}
    found: dict[tuple[str, str], set[Technique]] = {}
    for row in _rows("tactics.tsv"):
        number = stratus.get((row["technique"], row["action"]), row["technique"])
        if number in names:  # else a technique of Stratus Red Team that none of ATT&CK's matches
            technique = Technique(number, names[number], row["tactic"])
            found.setdefault((row["service"], row["action"]), set()).add(technique)
    return {call: tuple(_most_specific(techniques)) for call, techniques in found.items()}


def _most_specific(techniques: set[Technique]) -> Iterator[Technique]:
    """Yield techniques, in the order of the matrix, without those that have a sub-technique for the same tactic among them."""
    order = {tactic: place for place, tactic in enumerate(TACTICS)}
    for each in sorted(techniques, key=lambda each: (order[each.tactic], each.id)):
        if not any(
            other.id.startswith(f"{each.id}.") and other.tactic == each.tactic for other in techniques
        ):
            yield each


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (samples.data_folder("attack_tactics") / name).open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines, delimiter="\t")
