"""What the files of snapshots are called.

Example:
    >>> folder_of(Partition("fingerprint.events", 3)), manifest_name(Fence(0, 7, 12))
    ('fingerprint.events/3', 'manifest-000000-0000000007-0000000012.json')

    <root>/<topic>/<partition>/manifest-<era>-<generation>-<sequence>.json
    <root>/<topic>/<partition>/parts/<SHA-256>-<bytes>-<token>

The token is new for every write: no two writes ever share a name, so whoever deletes a file after a long sleep cannot
hit one that was written meanwhile.
"""

from __future__ import annotations

import hashlib
import re
import secrets

from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Fence, Partition

STAGING_PREFIX = ".staged-"  # being written; left behind by a process that was killed
PARTS_FOLDER = "parts"

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # what Kafka admits, "." and ".." apart
_MANIFEST = re.compile(r"manifest-(\d{6})-(\d{10})-(\d{10})\.json")
_PART = re.compile(r"([0-9a-f]{64}-(\d{1,15}))-[0-9a-f]{16}")
_STORED = re.compile(rf"({_TOPIC.pattern})/(\d{{1,10}})/{PARTS_FOLDER}/({_PART.pattern})")


def partition_folder(partition: Partition) -> str:
    """Below the root. FingerprintError for what cannot be a topic: it would lead elsewhere."""
    return f"{topic_folder(partition.topic)}/{partition.number:d}"


def is_topic_name(name: str) -> bool:
    return bool(_TOPIC.fullmatch(name)) and name not in (".", "..")


def topic_folder(topic: str) -> str:
    if not is_topic_name(topic):
        raise FingerprintError(f"{topic!r} cannot be the name of a topic, so there are no snapshots of it")
    return topic


def manifest_name(fence: Fence) -> str:
    """Padded, so that names lie in the order of their fences. ValueError for a fence that no owner has."""
    name = f"manifest-{fence.era:06d}-{fence.generation:010d}-{fence.sequence:010d}.json"
    if not _MANIFEST.fullmatch(name):
        raise ValueError(f"{fence} is no owner's: its figures are 0 or more, of ten digits at most")
    return name


def parse_manifest_name(name: str) -> Fence | None:
    found = _MANIFEST.fullmatch(name)
    return Fence(*map(int, found.groups())) if found else None


def content_id(part: bytes) -> str:
    """SHA-256 and length: what a part's name begins with, and what it is verified by."""
    return f"{hashlib.sha256(part).hexdigest()}-{len(part)}"


def new_part_name(content: str) -> str:
    return f"{content}-{secrets.token_hex(8)}"


def content_id_of_part(name: str) -> str | None:
    """What the part of this name holds, as `content_of` says it; None if it is no part's name."""
    found = _PART.fullmatch(name)
    return found[1] if found else None


def part_size(name: str) -> int:
    return int(name.split("-")[1])


def blob_path(partition: Partition, name: str) -> str:
    """The name by which the outside knows a part: its path below the root."""
    return f"{partition_folder(partition)}/{PARTS_FOLDER}/{name}"


def parse_blob_path(path: str) -> tuple[Partition, str]:
    """Partition and name of such a path. FingerprintError if it is none."""
    found = _STORED.fullmatch(path)
    if not found:
        raise FingerprintError(f"{path!r} is not the name of a part that was stored")
    return Partition(found[1], int(found[2])), found[3]
