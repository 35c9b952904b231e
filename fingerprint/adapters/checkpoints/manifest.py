"""The manifest that describes a checkpoint, and the names of its files.

Example:
    >>> decode_manifest(encode_manifest(manifest)) == manifest
    True
    >>> partition_folder(Partition("fingerprint.events", 3)), manifest_name(Fence(0, 7, 12))
    ('fingerprint.events/3', 'manifest-000000-0000000007-0000000012.json')

    <root>/<topic>/<partition>/manifest-<era>-<generation>-<sequence>.json
    <root>/<topic>/<partition>/parts/<SHA-256>-<bytes>-<token>

The token is new for every write, so no two writes have the same name, and a late delete cannot remove a newer file.

    {"about": {...}, "checksum": "...", "era": 0, "format": 4, "generation": 7, "kept": ["events/3/parts/..."],
     "offset": 120, "partition": 3, "parts": {"waiting": "<SHA-256>-<bytes>-<token>"}, "sequence": 12, "topic": "events"}

In every format, a manifest is one JSON object, and `checksum` is the SHA-256 of the object without it, as JSON with sorted
keys, no spaces, ASCII. So an unknown format can be distinguished from damage.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.checkpoint_store import Checkpoint, Fence
from fingerprint.core.ports.message_stream import Partition

FORMAT_VERSION = 4
MAX_MANIFEST_BYTES = 32 << 20  # room for some 200,000 names of parts
PARTS_FOLDER = "parts"

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # what Kafka admits, "." and ".." apart
_MANIFEST = re.compile(r"manifest-(\d{6})-(\d{10})-(\d{10})\.json")
_PART = re.compile(r"([0-9a-f]{64}-(\d{1,15}))-[0-9a-f]{16}")
_STORED = re.compile(rf"({_TOPIC.pattern})/(\d{{1,10}})/{PARTS_FOLDER}/({_PART.pattern})")


def partition_folder(partition: Partition) -> str:
    """Return a partition's folder below the root. Raise FingerprintError for a name that no topic has."""
    return f"{topic_folder(partition.topic)}/{partition.number:d}"


def is_topic_name(name: str) -> bool:
    """Return whether Kafka admits a name for a topic."""
    return bool(_TOPIC.fullmatch(name)) and name not in (".", "..")


def topic_folder(topic: str) -> str:
    """Return a topic's folder below the root. Raise FingerprintError for a name that no topic has."""
    if not is_topic_name(topic):
        raise FingerprintError(f"{topic!r} cannot be the name of a topic, so there are no checkpoints of it")
    return topic


def manifest_name(fence: Fence) -> str:
    """Return the name of a manifest, padded so that names sort as their fences. Raise ValueError for an impossible fence."""
    name = f"manifest-{fence.era:06d}-{fence.generation:010d}-{fence.sequence:010d}.json"
    if not _MANIFEST.fullmatch(name):
        raise ValueError(f"{fence} is no owner's: its figures are 0 or more, of ten digits at most")
    return name


def parse_manifest_name(name: str) -> Fence | None:
    """Return the fence in the name of a manifest, None if the name is another file's."""
    found = _MANIFEST.fullmatch(name)
    return Fence(*map(int, found.groups())) if found else None


def content_id(part: bytes) -> str:
    """Return SHA-256 and length of a part, with which its name begins and with which it is verified."""
    return f"{hashlib.sha256(part).hexdigest()}-{len(part)}"


def new_part_name(content: str) -> str:
    """Return a new name for a part with this content id."""
    return f"{content}-{secrets.token_hex(8)}"


def content_id_of_part(name: str) -> str | None:
    """Return the content id (`content_id`) in the name of a part, None if the name is another file's."""
    found = _PART.fullmatch(name)
    return found[1] if found else None


def part_size(name: str) -> int:
    """Return the bytes of a part, from its name."""
    return int(name.split("-")[1])


def blob_path(partition: Partition, name: str) -> str:
    """Return the path of a part below the root: its name for callers."""
    return f"{partition_folder(partition)}/{PARTS_FOLDER}/{name}"


def parse_blob_path(path: str) -> tuple[Partition, str]:
    """Return partition and part name of a path from `blob_path`. Raise FingerprintError for any other."""
    found = _STORED.fullmatch(path)
    if not found:
        raise FingerprintError(f"{path!r} is not the name of a part that was stored")
    return Partition(found[1], int(found[2])), found[3]


class CheckpointCorrupted(Exception):
    """A file of a checkpoint differs from what was written; the message says how."""


class Manifest(NamedTuple):
    """The content of a checkpoint: `blob_files` maps a part to its file, `referenced_blobs` are paths from `put_blob`."""

    partition: Partition
    offset: int
    fence: Fence
    metadata: Mapping[str, Any]
    blob_files: Mapping[str, str]
    referenced_blobs: tuple[str, ...]

    @property
    def files(self) -> frozenset[str]:
        """The files of all parts, in the partition's folder of parts."""
        return frozenset(self.blob_files.values()) | {
            parse_blob_path(path)[1] for path in self.referenced_blobs
        }


def validate_checkpoint(checkpoint: Checkpoint) -> None:
    """Raise ValueError or TypeError for a checkpoint that cannot be written: the program is wrong, not the store."""
    manifest_name(checkpoint.fence)
    _canonical_json(checkpoint.metadata)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the bytes of a manifest. Raise FingerprintError above MAX_MANIFEST_BYTES."""
    facts = {
        "format": FORMAT_VERSION,
        **manifest.partition._asdict(),
        **manifest.fence._asdict(),
        "offset": manifest.offset,
        "about": dict(manifest.metadata),
        "parts": dict(manifest.blob_files),
        "kept": list(manifest.referenced_blobs),
    }
    facts["partition"] = facts.pop("number")
    data = _canonical_json(facts | {"checksum": _checksum(facts)})
    if len(data) > MAX_MANIFEST_BYTES:
        raise FingerprintError(
            f"the manifest of a checkpoint of {manifest.partition.label} would have {len(data):,} bytes, "
            f"{MAX_MANIFEST_BYTES:,} at most: keep fewer, larger parts"
        )
    return data


def decode_manifest(data: bytes) -> Manifest:
    """Return the manifest in some bytes.

    Raise CheckpointCorrupted if they are damaged, FingerprintError if a program of another version wrote them.
    """
    facts = _parse_json_object(data)
    if not _pop_valid_checksum(facts):
        raise CheckpointCorrupted("its checksum is not that of its content")
    if facts.get("format") != FORMAT_VERSION:
        raise FingerprintError(
            f"a checkpoint has format {facts.get('format')!r} and this program reads {FORMAT_VERSION}: "
            "start the version of the program that wrote it, or a later one"
        )
    return _to_manifest(facts)


def _parse_json_object(data: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CheckpointCorrupted(f"it is not JSON ({error})") from None
    if not isinstance(facts, dict):
        raise CheckpointCorrupted("it is not a JSON object")
    return facts


def _pop_valid_checksum(facts: dict[str, Any]) -> bool:
    """Remove the checksum from the facts; return whether it is right."""
    try:
        return facts.pop("checksum", None) == _checksum(facts)
    except (ValueError, RecursionError):  # a NaN, or nested too deeply: never packed
        return False


def _to_manifest(facts: dict[str, Any]) -> Manifest:
    manifest = Manifest(
        Partition(facts["topic"], facts["partition"]),
        facts["offset"],
        Fence(facts["era"], facts["generation"], facts["sequence"]),
        facts["about"],
        facts["parts"],
        tuple(facts["kept"]),
    )  # intact, so everything is there
    if not all(map(content_id_of_part, manifest.blob_files.values())):
        raise CheckpointCorrupted("it names a part in a way that no part is named")
    return manifest


def _canonical_json(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _checksum(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical_json(facts)).hexdigest()
