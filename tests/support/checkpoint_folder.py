"""Checkpoints in a folder, and a process that saves one after another there; what forks processes has imported this before."""

from __future__ import annotations

import random
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from fingerprint.core.ports.checkpoint_store import Checkpoint
from tests.contracts.checkpoint_store import HOME, checkpoint, opened


class InFolder:
    def __init__(self, root: Path):
        self.root = root
        self.url = str(root)

    def files(self) -> dict[str, bytes]:
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in found}

    def write(self, path: str, data: bytes) -> None:
        (self.root / path).write_bytes(data)

    def delete(self, path: str) -> None:
        (self.root / path).unlink()


def large(sequence: int, size: int) -> Checkpoint:
    noise = random.Random(sequence)
    return checkpoint(sequence, blobs={f"part-{number}": noise.randbytes(size) for number in range(4)})


def save_until_killed(root: Path, generation: int, said: Connection) -> None:
    """Save one checkpoint after another, and say which are safe."""
    checkpoints = opened(InFolder(root), kept=2)
    fence = checkpoints.next_fence(HOME, generation)
    checkpoints.latest(HOME)
    while True:
        checkpoints.save(replace(large(fence.sequence, size=40_000), fence=fence))
        said.send(fence)
        fence = fence.successor()
