"""Garbage collection: find the files of a partition that no checkpoint needs any longer.

Example:
    >>> find_garbage(listing, referenced_parts, saved_fence, RetentionPolicy(keep=3, grace_seconds=600))
    Garbage(manifests=[Fence(era=0, generation=7, sequence=2)], parts=['3fa9...-1048576-0b...'], staged=[])

The newest intact checkpoints stay, and so do files that were written less than the grace period ago: another owner may be writing
them, or a checkpoint that names them. Ages are counted back from the newest manifest, by the store's own clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fingerprint.adapters.checkpoints.object_store import StoredFile
from fingerprint.core.ports.checkpoint_store import Fence

RETAINED = 3  # newest checkpoints of a partition that are always kept
GRACE_SECONDS = 600.0


class RetentionPolicy(NamedTuple):
    """The number of intact checkpoints that a partition keeps, and the seconds for which any file is kept."""

    keep: int = 3
    grace_seconds: float = GRACE_SECONDS


class PartitionListing(NamedTuple):
    """The files in a partition's folder: manifests by fence, parts and half-written files by name."""

    manifests: dict[Fence, StoredFile]
    parts: dict[str, StoredFile]
    staged: dict[str, StoredFile]

    def newest_first(self) -> list[Fence]:
        """Return the fences of the manifests, the highest first."""
        return sorted(self.manifests, reverse=True)

    def latest_write(self) -> float:
        """Return the time of the newest manifest; minus infinity without one, so that nothing is old."""
        moments = [file.modified_at for file in self.manifests.values() if file.modified_at < float("inf")]
        return max(moments, default=float("-inf"))


class Garbage(NamedTuple):
    """The files to delete: manifests by fence, parts and half-written files by name."""

    manifests: list[Fence]
    parts: list[str]
    staged: list[str]


# Parts that a manifest names; None if it is damaged
ReferencedParts = Callable[[Fence], frozenset[str] | None]


def find_garbage(
    listing: PartitionListing, referenced_parts: ReferencedParts, saved_fence: Fence, policy: RetentionPolicy
) -> Garbage:
    """Return the files to delete after a save.

    `listing` was made before `saved_fence` was written; `referenced_parts` also knows that manifest.
    """
    before = listing.latest_write() - policy.grace_seconds
    gone, stays = _split_manifests(listing, referenced_parts, policy.keep - 1, before)
    needed = frozenset[str]().union(*(referenced_parts(fence) or () for fence in [saved_fence, *stays]))
    parts = [name for name in _older_than(listing.parts, before) if name not in needed]
    return Garbage(gone, parts, _older_than(listing.staged, before))


def _split_manifests(
    there: PartitionListing, named: ReferencedParts, kept: int, before: float
) -> tuple[list[Fence], list[Fence]]:
    """Return the manifests to delete and those that stay; a damaged one does not count as kept."""
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
