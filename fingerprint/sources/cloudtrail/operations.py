"""AWS operations by name, with their members and their commands in the AWS CLI.

Example:
    >>> load_operations()["backup:StopBackupJob"].cli_command
    'backup stop-backup-job'
    >>> find_operation("lambda", "CreateFunction").name             # CloudTrail's name has the API version
    'CreateFunction20150331'
"""

from __future__ import annotations

import gzip
from functools import cache, lru_cache
from typing import NamedTuple

from fingerprint.sources.cloudtrail import samples
from fingerprint.sources.cloudtrail.attack_mappings import without_api_version

Members = tuple[tuple[str, str, bool], ...]  # name, type, required


class Operation(NamedTuple):
    """A line of data/catalogue/operations.tsv.gz, whose README explains the columns."""

    source: str
    name: str
    read_only: bool
    api_version: str
    parameters: Members
    response: Members
    cli_command: str


@cache
def load_operations() -> dict[str, Operation]:
    """Return all operations by `service:Name`."""
    return {action: _parse(line) for action, line in _lines().items()}


def find_operation(service: str, action: str) -> Operation | None:
    """Return the operation of an action, given without an API version; None for an unknown action."""
    action = f"{service}:{action}"
    line = _lines().get(_dated_names().get(action, action))
    return _parse(line) if line else None


@cache
def _lines() -> dict[str, str]:
    found = {}
    with gzip.open(samples.data_folder("catalogue") / "operations.tsv.gz", "rt") as lines:
        for line in lines:
            source, name, _ = line.split("\t", 2)
            found[f"{source.removesuffix('.amazonaws.com')}:{name}"] = line
    return found


@cache
def _dated_names() -> dict[str, str]:
    """Return the names of actions with an API version, by the same names without it."""
    dated = (action for action in _lines() if action.startswith(("lambda:", "cloudfront:")))
    return {without_api_version(action): action for action in dated}


@lru_cache(maxsize=1_000)
def _parse(line: str) -> Operation:
    source, name, mode, dated, parameters, answer, command = line.rstrip("\n").split("\t")
    return Operation(source, name, mode == "r", dated, _members(parameters), _members(answer), command)


def cli_word(name: str) -> str:
    """Return the name of a member as the AWS CLI spells its options.

    >>> cli_word("dBSnapshotIdentifier"), cli_word("policyARNs")
    ('db-snapshot-identifier', 'policy-arns')
    """
    name = name[:1].upper() + name[1:]
    if name.endswith("s") and len(name) > 2 and name[-3:-1].isupper():
        name = f"{name[:-1]}S"
    marked = (f"-{each}" if _begins_word(name, at) else each for at, each in enumerate(name))
    return "".join(marked).lower()


def _begins_word(name: str, at: int) -> bool:
    before, letter, after = name[at - 1 : at], name[at], name[at + 1 : at + 2]
    return letter.isupper() and bool(before) and (before.islower() or before.isdigit() or after.islower())


@lru_cache(maxsize=100_000)
def _members(text: str) -> Members:
    members = (member.partition(":") for member in text.split(",") if member)
    return tuple((name, kind[0], kind.endswith("!")) for name, _, kind in members)
