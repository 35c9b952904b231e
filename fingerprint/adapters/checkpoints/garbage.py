"""Which files of a partition no snapshot needs any more.

Example:
    >>> rest(there, named, saved, Policy(kept=3, grace_seconds=600))
    Garbage(manifests=['manifest-000000-0000000007-0000000002.json'], parts=['3fa9...-1048576-0b...'])

Kept are the newest whole snapshots, and whatever was written less than a grace ago: another owner may be writing it,
or a snapshot that names it may be under way. Ages are by the store's own clock, counted back from its newest manifest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fingerprint.adapters.checkpoints.object_store import StoredFile
from fingerprint.core.ports import Fence

RETAINED = 3  # newest checkpoints of a partition that are always kept
GRACE_SECONDS = 600.0


class RetentionPolicy(NamedTuple):
    keep: int = 3
    grace_seconds: float = GRACE_SECONDS


class PartitionListing(NamedTuple):
    """What a partition's folder holds: manifests by fence; parts, and what was left half written, by name."""

    manifests: dict[Fence, StoredFile]
    parts: dict[str, StoredFile]
    staged: dict[str, StoredFile]

    def newest_first(self) -> list[Fence]:
        return sorted(self.manifests, reverse=True)

    def latest_write(self) -> float:
        """When its newest manifest was written; nothing is old where there is none."""
        moments = [file.modified_at for file in self.manifests.values() if file.modified_at < float("inf")]
        return max(moments, default=float("-inf"))


class Garbage(NamedTuple):
    manifests: list[Fence]
    parts: list[str]
    staged: list[str]


ReferencedParts = Callable[
    [Fence], frozenset[str] | None
]  # parts that a manifest names; None if it is damaged


def find_garbage(
    listing: PartitionListing, referenced_parts: ReferencedParts, saved_fence: Fence, policy: RetentionPolicy
) -> Garbage:
    """`there` as it was before `saved` was written; `named` knows of that one too."""
    before = listing.latest_write() - policy.grace_seconds
    gone, stays = _split_manifests(listing, referenced_parts, policy.keep - 1, before)
    needed = frozenset[str]().union(*(referenced_parts(fence) or () for fence in [saved_fence, *stays]))
    parts = [name for name in _older_than(listing.parts, before) if name not in needed]
    return Garbage(gone, parts, _older_than(listing.staged, before))


def _split_manifests(
    there: PartitionListing, named: ReferencedParts, kept: int, before: float
) -> tuple[list[Fence], list[Fence]]:
    """Manifests that go and manifests that stay: a damaged one does not count as one of those kept."""
    gone: list[Fence] = []
    stays: list[Fence] = []
    whole = 0
    for fence in there.newest_first():
        if whole >= kept and there.manifests[fence].modified_at <= before:
            gone.append(fence)
        else:
            stays.append(fence)
            whole += named(fence) is not None
    return gone, stays


def _older_than(files: dict[str, StoredFile], before: float) -> list[str]:
    return [name for name, file in files.items() if file.modified_at <= before]
