"""Checkpoints keep one contract in a folder, in memory and in an object store; in a folder they outlive the worst."""

from __future__ import annotations

import os
import random
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import fsspec
import pytest
from typer.testing import CliRunner

from fingerprint.adapters.checkpoints import FileCheckpointStore, object_store
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.checkpoint_store import Fence
from fingerprint.core.settings import Checkpoints
from pipelines.cli.app import app
from tests.contracts.checkpoint_store import (
    HOME,
    CheckpointsContract,
    StorageContract,
    checkpoint,
    manifests,
    opened,
    warnings,
)
from tests.support.checkpoint_folder import InFolder, large, save_until_killed
from tests.support.forked import start_with_pipe
from tests.support.services import aws


class InStore:
    """Anything that fsspec reaches."""

    def __init__(self, url: str):
        self.url = url
        self._system, self._root = fsspec.core.url_to_fs(url, use_listings_cache=False)

    def files(self) -> dict[str, bytes]:
        found = self._system.find(self._root)
        return {path.removeprefix(f"{self._root}/"): self._system.cat_file(path) for path in found}

    def write(self, path: str, data: bytes) -> None:
        self._system.pipe_file(f"{self._root}/{path}", data)

    def delete(self, path: str) -> None:
        self._system.rm_file(f"{self._root}/{path}")


@pytest.fixture
def folder(tmp_path: Path) -> InFolder:
    return InFolder(tmp_path / "far" / "checkpoints")


class TestInAFolder(CheckpointsContract):
    @pytest.fixture
    def place(self, folder: InFolder) -> InFolder:
        return folder


class TestInMemory(CheckpointsContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[InStore]:
        place = InStore(f"memory://{tmp_path.name}/checkpoints")
        yield place
        fsspec.filesystem("memory").store.clear()


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with aws.bucket() as url:
        yield url


class TestInAnObjectStore(StorageContract):
    """The rules are the same as in memory, where fsspec is asked, too."""

    @pytest.fixture
    def place(self, bucket: str, tmp_path: Path) -> InStore:
        return InStore(f"{bucket}/{tmp_path.name}")

    def test_a_bucket_that_is_not_there_is_named(self, bucket: str) -> None:
        with pytest.raises(FingerprintError, match=r"s3://no-such-bucket/x: cannot save .*bucket"):
            FileCheckpointStore(Checkpoints(url="s3://no-such-bucket/x")).save(checkpoint())


def test_a_store_that_is_away_is_said_in_one_sentence(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = InStore(f"{bucket}/{tmp_path.name}")
    opened(place).save(checkpoint(0))
    with monkeypatch.context() as away:
        away.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        away.setenv("AWS_MAX_ATTEMPTS", "1")
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        with pytest.raises(FingerprintError, match=r"cannot save a checkpoint \(Could not connect"):
            opened(place).save(checkpoint(1))
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    assert opened(place).latest(HOME) == checkpoint(0)


def test_what_a_killed_process_left_half_written_is_cleared_away(folder: InFolder) -> None:
    checkpoints = opened(folder, kept=1)
    checkpoints.save(checkpoint(0))
    home = manifests(folder)[0].rsplit("/", 1)[0]
    for path in (f"{home}/.staged-1", f"{home}/parts/.staged-2"):
        folder.write(path, b"half")
        os.utime(folder.root / path, (0, 0))
    checkpoints.save(checkpoint(1))
    assert not [path for path in folder.files() if ".staged" in path]


def test_age_is_counted_on_the_clock_of_the_store(folder: InFolder) -> None:
    checkpoints = opened(folder, kept=1, grace_seconds=600)
    for sequence in range(4):
        checkpoints.save(checkpoint(sequence))
    for minute, path in enumerate(manifests(folder)):  # a store whose clock stands in 1970
        os.utime(folder.root / path, (0, 1_000 * minute))
    checkpoints.save(checkpoint(4))
    assert [path[-6:-5] for path in manifests(folder)] == ["3", "4"]


def test_a_file_system_without_links_still_refuses_the_second(
    folder: InFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    store = object_store.FolderStore(folder.root)
    store.create_exclusive("a/manifest", b"one")
    with pytest.raises(FileExistsError):
        store.create_exclusive("a/manifest", b"other")
    assert folder.files() == {"a/manifest": b"one"}


def test_a_store_of_no_known_kind_is_refused_in_one_sentence() -> None:
    with pytest.raises(FingerprintError, match=r"checkpoints\.url warp://x"):
        FileCheckpointStore(Checkpoints(url="warp://x"))


def test_a_folder_that_is_a_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    checkpoints = FileCheckpointStore(Checkpoints(url=str(tmp_path / "checkpoints")))
    with pytest.raises(FingerprintError, match="cannot save a checkpoint"):
        checkpoints.save(checkpoint())


def test_a_folder_that_cannot_be_listed_does_not_look_empty(folder: InFolder) -> None:
    (folder.root / HOME.topic).mkdir(parents=True)
    (folder.root / HOME.topic / str(HOME.number)).write_text("in the way")
    with pytest.raises(FingerprintError, match="Not a directory"):
        opened(folder).latest(HOME)


def test_the_command_line_lists_what_would_be_restored(folder: InFolder) -> None:
    opened(folder).save(checkpoint(5))
    shown = CliRunner().invoke(app, ["checkpoints", "list"], env={"FINGERPRINT_CHECKPOINTS__URL": folder.url})
    assert shown.exit_code == 0
    assert "fingerprint.events/3  offset 105, fence 0-7-5, written 20" in shown.output
    assert "partitions with a checkpoint: 1" in shown.output


# A full disk, and a process that is killed


@contextmanager
def tiny_disk(at: Path) -> Iterator[None]:
    """1 MiB; only root can mount one."""
    at.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", at], capture_output=True)  # noqa: S603, S607
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", at], check=True)  # noqa: S603, S607


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The operating system refuses to write on: what a full disk does, without a disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_leaves_what_was_there_and_fills_no_further(folder: InFolder) -> None:
    with tiny_disk(folder.root):
        checkpoints = opened(folder)
        checkpoints.save(large(0, size=50_000))
        before = folder.files()
        for sequence in range(1, 5):
            with pytest.raises(FingerprintError, match="No space left on device"):
                checkpoints.save(large(sequence, size=300_000))
            assert folder.files() == before
        assert opened(folder).latest(HOME) == large(0, size=50_000)
        checkpoints.save(large(6, size=50_000))
        assert opened(folder).latest(HOME) == large(6, size=50_000)


def test_a_disk_without_room_for_the_manifest_leaves_what_was_there(folder: InFolder) -> None:
    with tiny_disk(folder.root):
        checkpoints = opened(folder)
        checkpoints.save(checkpoint(0))
        before = folder.files()
        with pytest.raises(FingerprintError, match="No space left on device"):
            checkpoints.save(checkpoint(1, metadata={"long": "x" * (1 << 20)}))
        assert folder.files() == before


def test_a_write_that_is_cut_short_leaves_what_was_there(folder: InFolder) -> None:
    checkpoints = opened(folder)
    checkpoints.save(checkpoint(0))
    before = folder.files()
    with files_of_at_most(65_536), pytest.raises(FingerprintError, match="File too large"):
        checkpoints.save(large(1, size=100_000))
    assert folder.files() == before
    assert opened(folder).latest(HOME) == checkpoint(0)


def killed_at_some_moment(root: Path, generation: int, wait: float) -> Fence:
    """The last fence that was said to be safe."""
    process, ours = start_with_pipe(save_until_killed, root, generation)
    assert ours.poll(60)
    safe = ours.recv()
    process.join(wait)
    process.kill()
    process.join()
    with suppress(EOFError):
        while True:
            safe = ours.recv()
    return safe


def test_killed_at_any_moment_of_saving_the_latest_is_whole(
    folder: InFolder, caplog: pytest.LogCaptureFixture
) -> None:
    moments = random.Random(7)
    for generation in range(1, 21):
        safe = killed_at_some_moment(folder.root, generation, moments.uniform(0, 0.04))
        latest = opened(folder).latest(HOME)
        assert latest is not None
        assert safe <= latest.fence <= safe.successor()
        assert latest.blobs == large(latest.fence.sequence, size=40_000).blobs
    assert warnings(caplog) == []
