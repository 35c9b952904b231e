"""What every store of checkpoints does, whatever its files lie in.

A test class gives `place`: a fresh URL, and the files below it by path, to look at and to harm.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol

import pytest

from fingerprint.adapters.checkpoints import FileCheckpointStore, manifest
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.checkpoint_store import Checkpoint, Fence
from fingerprint.core.ports.message_stream import Partition, PartitionNotOwned
from fingerprint.core.settings import Checkpoints

HOME = Partition("fingerprint.events", 3)
PARTS = {"series.past": bytes(range(256)) * 40, "waiting": b"", "ids": b"\x00\xff" * 3_000}
ABOUT = {
    "bank": "2026-01-20-6ef64022",
    "partitions": 8,
    "counts": {"events": 12, "rate": 0.5},
    "odd": "é\u202e\n",
}


class Place(Protocol):
    """Somewhere that checkpoints lie. Paths are below it."""

    url: str

    def files(self) -> dict[str, bytes]: ...
    def write(self, path: str, data: bytes) -> None: ...
    def delete(self, path: str) -> None: ...


def opened(place: Place, kept: int = 3, grace_seconds: float = 0.0) -> FileCheckpointStore:
    """As a process that just began would."""
    return FileCheckpointStore(Checkpoints(url=place.url), grace_seconds, retained=kept)


def checkpoint(sequence: int = 0, generation: int = 7, era: int = 0, **fields: Any) -> Checkpoint:
    """Its offset and one of its parts say which it is."""
    fence = Fence(era, generation, sequence)
    mine = repr(fence).encode() * 50
    return replace(Checkpoint(HOME, 100 + sequence, fence, ABOUT, PARTS | {"mine": mine}), **fields)


def manifests(place: Place) -> list[str]:
    return sorted(path for path in place.files() if "/manifest-" in path)


def parts(place: Place) -> list[str]:
    return sorted(path for path in place.files() if "/parts/" in path)


def part_of(place: Place, sequence: int, name: str) -> str:
    """Where a part of the checkpoint with this sequence lies."""
    (path,) = (path for path in manifests(place) if path.endswith(f"-{sequence:010d}.json"))
    folder = path.rsplit("/", 1)[0]
    return f"{folder}/parts/{json.loads(place.files()[path])['parts'][name]}"


def between_parts_and_manifest(checkpoints: FileCheckpointStore, act: Callable[[], None]) -> None:
    """A worker that is held up there in its next save."""
    store = checkpoints._store
    claim = store.create_exclusive

    def held_up(path: str, data: bytes) -> None:
        act()
        claim(path, data)

    store.create_exclusive = held_up  # type: ignore[method-assign]


def warnings(caplog: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    return [record.fields for record in caplog.records if record.levelno == logging.WARNING]


def before_is_latest_when(
    place: Place, caplog: pytest.LogCaptureFixture, harm: Callable[[str], None]
) -> None:
    """Of two checkpoints the first is the latest, and said to be, after `harm` was done to a part of the second."""
    checkpoints = opened(place)
    checkpoints.save(checkpoint(0))
    checkpoints.save(checkpoint(1, blobs=PARTS | {"ids": b"\x01" * 6_000}))
    path = part_of(place, 1, "ids")
    harm(path)
    assert opened(place).latest(HOME) == checkpoint(0)
    (said,) = warnings(caplog)
    assert said["file"] == manifests(place)[1]
    assert path.rsplit("/", 1)[1] in said["reason"]


class StorageContract:
    """What reaches each kind of store in its own way: lists, sizes, times, deletion, and the one of several who creates."""

    def test_what_was_saved_comes_back_as_it_was(self, place):
        saved = checkpoint()
        opened(place).save(saved)
        assert opened(place).latest(HOME) == saved

    def test_of_a_partition_without_a_checkpoint_there_is_none(self, place):
        checkpoints = opened(place)
        assert checkpoints.latest(HOME) is None
        assert checkpoints.checkpointed_partitions(HOME.topic) == []
        checkpoints.save(checkpoint())
        assert checkpoints.latest(Partition(HOME.topic, 4)) is None

    def test_partitions_do_not_share_and_are_listed_by_number(self, place):
        checkpoints = opened(place)
        homes = [Partition("events", 11), Partition("events", 2), Partition("events.dlq", 0)]
        for home in homes:
            checkpoints.save(checkpoint(partition=home, offset=home.number))
        assert checkpoints.checkpointed_partitions("events") == [homes[1], homes[0]]
        assert [opened(place).latest(home).offset for home in homes] == [11, 2, 0]

    def test_a_summary_says_what_would_be_restored_and_how_large_it_is(self, place):
        checkpoints = opened(place)
        assert checkpoints.list_summaries() == []
        name = checkpoints.put_blob(HOME, b"spilled")
        for sequence in range(2):
            checkpoints.save(checkpoint(sequence, blobs={"one": b"12345"}, referenced_blobs=(name,)))
        checkpoints.save(checkpoint(partition=Partition("a", 0)))
        other, mine = checkpoints.list_summaries()
        assert other.partition == Partition("a", 0)
        assert (mine.partition, mine.offset, mine.fence) == (HOME, 101, Fence(0, 7, 1))
        assert (mine.size_bytes, mine.checkpoint_count) == (5 + 7, 2)
        assert abs(mine.written_at - time.time()) < 600

    def test_one_store_serves_many_saves_of_many_partitions_at_once(self, place):
        checkpoints = opened(place)
        homes = [Partition("events", number) for number in range(6)]
        taken = [checkpoint(partition=home) for home in homes]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(checkpoints.save, taken))
        assert [checkpoints.latest(home) for home in homes] == taken

    def test_two_workers_of_one_name_and_generation_cannot_both_save(self, place):
        one, other = opened(place), opened(place)
        between_parts_and_manifest(one, lambda: other.save(checkpoint(0, offset=7)))
        with pytest.raises(PartitionNotOwned):
            one.save(checkpoint(0, offset=8))
        assert opened(place).latest(HOME) == checkpoint(0, offset=7)
        assert len(parts(place)) == len(set(checkpoint().blobs.values()))

    def test_a_manifest_that_was_sent_twice_because_its_answer_was_lost_is_saved(self, place):
        checkpoints = opened(place)
        store = checkpoints._store
        claim = store.create_exclusive

        def sent_twice(path: str, data: bytes) -> None:
            claim(path, data)
            claim(path, data)

        store.create_exclusive = sent_twice  # type: ignore[method-assign]
        checkpoints.save(checkpoint())
        assert opened(place).latest(HOME) == checkpoint()

    @pytest.mark.parametrize("harm", [None, b"cut"])
    def test_a_part_that_vanished_or_was_cut_in_the_meantime_is_written_again(self, place, harm):
        checkpoints = opened(place)
        checkpoints.save(checkpoint(0))
        path = part_of(place, 0, "ids")
        place.delete(path) if harm is None else place.write(path, harm)
        checkpoints.save(checkpoint(1))
        assert opened(place).latest(HOME) == checkpoint(1)

    def test_only_the_newest_checkpoints_and_their_parts_are_kept(self, place):
        checkpoints = opened(place, kept=3)
        for sequence in range(8):
            checkpoints.save(checkpoint(sequence))
        assert len(manifests(place)) == 3
        assert len(parts(place)) == len(PARTS) + 3
        assert opened(place).latest(HOME) == checkpoint(7)

    def test_what_was_written_lately_is_not_deleted(self, place):
        checkpoints = opened(place, grace_seconds=3_600)
        for sequence in range(6):
            checkpoints.save(checkpoint(sequence))
        assert len(manifests(place)) == 6

    def test_a_part_that_was_put_comes_back_by_its_name(self, place):
        name = opened(place).put_blob(HOME, b"spilled" * 900)
        assert opened(place).get_blob(name) == b"spilled" * 900

    @pytest.mark.parametrize("harm", [None, b"spill"])
    def test_a_checkpoint_whose_kept_part_is_gone_or_cut_is_not_whole(self, place, caplog, harm):
        checkpoints = opened(place)
        name = checkpoints.put_blob(HOME, b"spilled")
        checkpoints.save(checkpoint(0))
        checkpoints.save(checkpoint(1, referenced_blobs=(name,)))
        place.delete(name) if harm is None else place.write(name, harm)
        assert opened(place).latest(HOME) == checkpoint(0)
        assert name.rsplit("/", 1)[1] in warnings(caplog)[0]["reason"]

    def test_with_a_part_that_is_gone_the_checkpoint_before_is_the_latest(self, place, caplog):
        before_is_latest_when(place, caplog, lambda path: place.delete(path))


class CheckpointsContract(StorageContract):
    """All of it, with the rules that no kind of store changes. Run by the places of tests/adapters/checkpoints/test_store.py."""

    def test_the_newest_is_the_latest_and_the_ones_before_stay(self, place):
        checkpoints = opened(place)
        for sequence in range(3):
            checkpoints.save(checkpoint(sequence))
        assert opened(place).latest(HOME) == checkpoint(2)
        assert len(manifests(place)) == 3

    def test_a_state_without_parts_is_a_state(self, place):
        empty = Checkpoint(HOME, 0, Fence())
        opened(place).save(empty)
        assert opened(place).latest(HOME) == empty

    # Fences

    def test_a_worker_thought_dead_that_saves_late_is_told_and_never_wins(self, place):
        zombie, owner = opened(place), opened(place)
        zombie.save(checkpoint(5, generation=7))
        owner.save(checkpoint(0, generation=8))
        with pytest.raises(PartitionNotOwned):
            zombie.save(checkpoint(6, generation=7))
        assert opened(place).latest(HOME) == checkpoint(0, generation=8)

    def test_a_worker_held_up_between_parts_and_manifest_never_wins(self, place):
        zombie, owner = opened(place), opened(place)
        zombie.save(checkpoint(5, generation=7))
        between_parts_and_manifest(zombie, lambda: owner.save(checkpoint(0, generation=8)))
        zombie.save(checkpoint(6, generation=7))
        assert len(manifests(place)) == 3
        assert opened(place).latest(HOME) == checkpoint(0, generation=8)
        with pytest.raises(PartitionNotOwned):
            zombie.save(checkpoint(7, generation=7))

    def test_what_a_worker_thought_dead_clears_away_is_nothing_its_heir_needs(self, place):
        zombie, owner = opened(place, kept=1), opened(place, kept=1)
        zombie.save(checkpoint(0, generation=7))
        between_parts_and_manifest(zombie, lambda: owner.save(checkpoint(0, generation=8, blobs=PARTS)))
        zombie.save(checkpoint(1, generation=7, blobs={"mine": b"zombie"}))
        assert opened(place).latest(HOME) == checkpoint(0, generation=8, blobs=PARTS)

    def test_a_new_owner_gets_a_fence_above_all_others(self, place):
        assert opened(place).next_fence(HOME, 4) == Fence(0, 4, 0)
        opened(place).save(checkpoint(5, generation=7))
        assert opened(place).next_fence(HOME, 9) == Fence(0, 9, 0)

    def test_a_replica_that_was_restarted_under_its_name_counts_on(self, place):
        opened(place).save(checkpoint(5, generation=7))
        assert opened(place).next_fence(HOME, 7) == Fence(0, 7, 6)

    def test_when_kafka_forgot_the_group_and_counts_from_one_the_new_owner_still_wins(self, place):
        opened(place).save(checkpoint(5, generation=7))
        fence = opened(place).next_fence(HOME, 1)
        assert fence == Fence(1, 1, 0)
        opened(place).save(checkpoint(fence=fence, offset=900))
        assert opened(place).latest(HOME).offset == 900
        assert opened(place).next_fence(HOME, 2) == Fence(1, 2, 0)

    def test_the_fence_of_a_damaged_checkpoint_is_not_given_again(self, place):
        opened(place).save(checkpoint(0))
        opened(place).save(checkpoint(1))
        place.write(manifests(place)[1], b"{}")
        assert opened(place).next_fence(HOME, 7) == Fence(0, 7, 2)

    # What is written, and what is deleted

    def test_parts_that_did_not_change_are_not_written_again(self, place):
        checkpoints = opened(place)
        checkpoints.save(checkpoint(0))
        before = parts(place)
        checkpoints.save(checkpoint(1))
        assert len(set(parts(place)) - set(before)) == 1
        assert set(before) < set(parts(place))

    def test_a_new_owner_writes_on_where_the_old_one_ended(self, place):
        opened(place).save(checkpoint(0))
        before = parts(place)
        heir = opened(place)
        heir.latest(HOME)
        heir.save(checkpoint(0, generation=8))
        assert len(set(parts(place)) - set(before)) == 1

    def test_equal_parts_lie_there_once(self, place):
        opened(place).save(checkpoint(blobs={"one": b"same", "other": b"same"}))
        assert len(parts(place)) == 1
        assert opened(place).latest(HOME).blobs == {"one": b"same", "other": b"same"}

    def test_each_of_those_kept_is_whole(self, place):
        checkpoints = opened(place, kept=3)
        for sequence in range(8):
            checkpoints.save(checkpoint(sequence))
        for sequence in (7, 6, 5):
            assert opened(place).latest(HOME) == checkpoint(sequence)
            place.delete(manifests(place)[-1])

    def test_damaged_checkpoints_do_not_count_as_kept(self, place):
        opened(place, kept=2).save(checkpoint(0))
        for sequence in (1, 2):
            opened(place, kept=2).save(checkpoint(sequence))
            place.write(manifests(place)[-1], b"harmed")
        opened(place, kept=2).save(checkpoint(3))
        place.delete(manifests(place)[-1])
        assert opened(place).latest(HOME) == checkpoint(0)

    def test_what_others_laid_there_is_not_ours_to_delete(self, place):
        checkpoints = opened(place, kept=1)
        checkpoints.save(checkpoint(0))
        folder = manifests(place)[0].rsplit("/", 1)[0]
        place.write(f"{folder}/parts/README", b"by hand")
        place.write(f"{folder}/notes.txt", b"by hand")
        for sequence in range(1, 5):
            checkpoints.save(checkpoint(sequence))
        assert {f"{folder}/parts/README", f"{folder}/notes.txt"} <= set(place.files())

    # Spilled state

    def test_kept_parts_outlive_every_checkpoint_that_names_them(self, place):
        checkpoints = opened(place, kept=2)
        first = checkpoints.put_blob(HOME, b"first")
        other = checkpoints.put_blob(HOME, b"other")
        for sequence in range(8):
            checkpoints.save(checkpoint(sequence, referenced_blobs=(first, other)))
        assert opened(place).latest(HOME).referenced_blobs == (first, other)
        for sequence in range(8, 16):
            checkpoints.save(checkpoint(sequence, referenced_blobs=(first,)))
        assert checkpoints.get_blob(first) == b"first"
        with pytest.raises(FingerprintError, match="missing"):
            checkpoints.get_blob(other)

    def test_a_checkpoint_that_keeps_what_is_not_there_is_not_saved(self, place):
        checkpoints = opened(place)
        name = checkpoints.put_blob(HOME, b"spilled")
        elsewhere = checkpoints.put_blob(Partition(HOME.topic, 4), b"spilled")
        place.delete(name)
        for missing in (name, elsewhere):
            with pytest.raises(FingerprintError, match="missing"):
                checkpoints.save(checkpoint(referenced_blobs=(missing,)))
        assert manifests(place) == []

    @pytest.mark.parametrize("harm", [b"", b"spilleX", b"spilled and more"])
    def test_a_put_part_that_was_harmed_is_named(self, place, harm):
        name = opened(place).put_blob(HOME, b"spilled")
        place.write(name, harm)
        with pytest.raises(FingerprintError, match=name):
            opened(place).get_blob(name)

    @pytest.mark.parametrize("name", ["", "x", "../../etc/passwd", "a/0/parts/../../secret"])
    def test_what_is_not_the_name_of_a_part_is_refused(self, place, name):
        with pytest.raises(FingerprintError, match="not the name of a part"):
            opened(place).get_blob(name)

    # Damage

    @pytest.mark.parametrize("harm", [b"", b"cut", bytes(6_000), bytes(60_000)])
    def test_with_a_damaged_part_the_checkpoint_before_is_the_latest(self, place, caplog, harm):
        before_is_latest_when(place, caplog, lambda path: place.write(path, harm))

    def test_with_a_damaged_manifest_the_checkpoint_before_is_the_latest(self, place, caplog):
        checkpoints = opened(place)
        checkpoints.save(checkpoint(0))
        checkpoints.save(checkpoint(1))
        path = manifests(place)[1]
        whole = place.files()[path]
        harms = [
            b"",
            b"\xff\xfe",
            b"[" * 100_000,
            b"[]",
            b"{}",
            whole[:-1],
            whole.replace(b'"offset":101', b'"offset":109'),
        ]
        harms += [whole.replace(b'"format":4', b'"format":5'), place.files()[manifests(place)[0]]]
        for harm in harms:
            caplog.clear()
            place.write(path, harm)
            assert opened(place).latest(HOME) == checkpoint(0)
            assert [said["file"] for said in warnings(caplog)] == [path]

    def test_a_manifest_that_is_far_too_large_is_not_read(self, place, caplog):
        opened(place).save(checkpoint(0))
        opened(place).save(checkpoint(1))
        path = manifests(place)[1]
        place.write(path, place.files()[path] + b" " * manifest.MAX_MANIFEST_BYTES)
        assert opened(place).latest(HOME) == checkpoint(0)
        assert "and no manifest has" in warnings(caplog)[0]["reason"]

    def test_when_no_checkpoint_is_whole_no_one_begins_again_unsaid(self, place):
        opened(place).save(checkpoint(0))
        place.write(manifests(place)[0], b"harmed")
        with pytest.raises(FingerprintError, match="none of the 1 checkpoints"):
            opened(place).latest(HOME)

    def test_a_checkpoint_of_a_newer_program_is_refused_by_its_format(self, place, monkeypatch):
        opened(place).save(checkpoint(0))
        with monkeypatch.context() as newer:
            newer.setattr(manifest, "FORMAT_VERSION", 5)
            opened(place).save(checkpoint(1))
        with pytest.raises(FingerprintError, match="format 5 and this program reads 4"):
            opened(place).latest(HOME)

    # What can go into a path

    @pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../a", "a b", "é", "a" * 250, "a\n"])
    def test_what_cannot_be_a_topic_leads_nowhere(self, place, topic):
        checkpoints = opened(place)
        with pytest.raises(FingerprintError, match="cannot be the name of a topic"):
            checkpoints.save(checkpoint(partition=Partition(topic, 0)))
        with pytest.raises(FingerprintError, match="cannot be the name of a topic"):
            checkpoints.checkpointed_partitions(topic)
        assert place.files() == {}

    @pytest.mark.parametrize("fence", [Fence(0, -1, 0), Fence(0, 10**10, 0), Fence(10**6, 0, 0)])
    def test_a_member_of_no_group_has_no_fence(self, place, fence):
        with pytest.raises(ValueError, match="no owner's"):
            opened(place).save(checkpoint(fence=fence))

    @pytest.mark.parametrize("about", [{"bad": float("nan")}, {"bad": b"bytes"}])
    def test_facts_that_json_cannot_say_are_refused_before_anything_is_written(self, place, about):
        with pytest.raises((ValueError, TypeError)):
            opened(place).save(checkpoint(metadata=about))
        assert place.files() == {}
