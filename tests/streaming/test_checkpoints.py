"""Partitions of one topic: where their state comes from when they are assigned, and what must hold for a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from fingerprint.adapters.checkpoints import FileCheckpointStore
from fingerprint.compute import hashing
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Consumer, Partition, PartitionNotOwned
from fingerprint.core.settings import Settings
from fingerprint.streaming.bank_watcher import BankWatcher
from fingerprint.streaming.checkpoints import NO_POSITION, CheckpointManager, OwnedPartition
from pipelines.runtime import wiring
from tests.support import sample_organisation
from tests.support.stepwise_pipeline import SETTINGS, Step

TOPIC = "events"
FIRST = Partition(TOPIC, 0)


@dataclass
class FakeConsumer:
    """A topic whose partitions hold the offsets `begin` to `end`."""

    partitions: int = 2
    begin: int = 0
    end: int = 10_000
    committed_offset: int | None = None
    group_generation: int = 1
    seen: list[str] = field(default_factory=list)

    def partition_count(self, topic: str) -> int:
        return self.partitions

    def generation(self) -> int:
        return self.group_generation

    def beginning_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        return dict.fromkeys(partitions, self.begin)

    def end_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        return dict.fromkeys(partitions, self.end)

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, int | None]:
        return dict.fromkeys(partitions, self.committed_offset)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    checkpoints = SETTINGS.checkpoints.model_copy(update={"url": str(tmp_path / "checkpoints")})
    return SETTINGS.model_copy(update={"checkpoints": checkpoints})


@pytest.fixture
def banks(organisation: sample_organisation.SampleOrganisation, settings: Settings) -> Iterator[BankWatcher]:
    with closing(wiring.bank_watcher(organisation.bank, settings)) as banks:
        yield banks


def manager_of(banks: BankWatcher, settings: Settings, **consumer: Any) -> CheckpointManager:
    fake = cast(Consumer, FakeConsumer(**consumer))
    return CheckpointManager(banks, FileCheckpointStore(settings.checkpoints), fake, settings)


def process(owned: OwnedPartition, step: Step) -> None:
    """Process a step's events in order, the partition itself being their source."""
    times = np.maximum.accumulate(step.events["event_time"].astype("int64").to_numpy() // 1_000_000)
    codes = np.zeros(len(times), np.int64)
    owned.processor.watermarks.advance([f"{TOPIC}/0"], codes, times * 1000, times * 1000)
    owned.processor.count_feeds(step.events, times, [TOPIC], codes)
    owned.processor.process(step.events, times, times)
    owned.offset += len(times)


def principals_of(owned: OwnedPartition) -> set[int]:
    return set(owned.processor.state.scorer.principals.compact()[0].tolist())


def test_without_a_checkpoint_a_partition_begins_where_the_training_ended(
    banks: BankWatcher, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    manager = manager_of(banks, settings, begin=7, committed_offset=50)
    with caplog.at_level(logging.WARNING):
        owned = [manager.restore(Partition(TOPIC, number)) for number in range(2)]
    assert [each.offset for each in owned] == [7, 7]
    assert "no checkpoint" in caplog.text
    assert all(each.checkpointed == NO_POSITION and not each.needs_commit() for each in owned)
    assert owned[0].processor.state.training_cutoff.event_time == banks.served.bank.manifest["trained_until"]
    known = set(banks.served.bank.scorer_state["principals.key"].tolist())
    assert principals_of(owned[0]) | principals_of(owned[1]) == known
    assert not principals_of(owned[0]) & principals_of(owned[1])


def test_a_saved_partition_is_restored_at_its_position_with_its_state(
    banks: BankWatcher, settings: Settings, steps: Sequence[Step]
) -> None:
    manager = manager_of(banks, settings, partitions=1)
    owned = manager.restore(FIRST)
    process(owned, steps[0])
    size = manager.save(FIRST, owned)
    assert size > 0
    assert owned.needs_commit(), "the broker has not accepted the position"
    again = manager_of(banks, settings, partitions=1, end=1000, group_generation=2).restore(FIRST)
    assert (again.offset, again.checkpointed, again.published_until) == (owned.offset, owned.offset, 1000)
    assert again.needs_commit()
    assert again.fence > owned.fence
    before, after = owned.processor.checkpoint(), again.processor.checkpoint()
    assert after.metadata == before.metadata
    assert after.blobs == before.blobs


def test_an_owner_that_was_replaced_cannot_save(
    banks: BankWatcher, settings: Settings, steps: Sequence[Step]
) -> None:
    old = manager_of(banks, settings, partitions=1)
    owned = old.restore(FIRST)
    new = manager_of(banks, settings, partitions=1, group_generation=2)
    taken = new.restore(FIRST)
    process(taken, steps[0])
    new.save(FIRST, taken)
    with pytest.raises(PartitionNotOwned):
        old.save(FIRST, owned)


@pytest.mark.parametrize("parent_first", [True, False])
def test_added_partitions_take_their_share_and_the_parent_keeps_the_feeds(
    banks: BankWatcher, settings: Settings, steps: Sequence[Step], parent_first: bool
) -> None:
    manager = manager_of(banks, settings, partitions=1)
    whole = manager.restore(FIRST)
    process(whole, steps[0])
    manager.save(FIRST, whole)
    grown = manager_of(banks, settings, partitions=2, group_generation=2)
    order = [FIRST, Partition(TOPIC, 1)]
    owned = {each: grown.restore(each) for each in (order if parent_first else order[::-1])}
    parent, added = owned[FIRST], owned[Partition(TOPIC, 1)]
    assert (parent.offset, added.offset) == (whole.offset, 0)
    assert principals_of(parent) | principals_of(added) == principals_of(whole)
    assert not principals_of(parent) & principals_of(added)
    for number, each in enumerate((parent, added)):
        keys = each.processor.state.scorer.principals.compact()[0]
        assert (hashing.bucket_of(keys) >> 8) % 2 == pytest.approx(number)
    counts = [len(each.processor.feed_counts.as_table()) for each in (parent, added)]
    assert counts[0] == len(whole.processor.feed_counts.as_table()) > 0
    assert counts[1] == 0
    assert parent.processor.watermarks.places == {f"{TOPIC}/0": 0}
    assert added.processor.watermarks.places == {}, "its parent is no source of it"


def test_partitions_that_do_not_divide_the_hash_space_are_refused(
    banks: BankWatcher, settings: Settings
) -> None:
    with pytest.raises(FingerprintError, match="has 3 partitions"):
        manager_of(banks, settings, partitions=3).restore(FIRST)


def test_partitions_cannot_become_fewer(banks: BankWatcher, settings: Settings) -> None:
    manager = manager_of(banks, settings, partitions=2)
    manager.save(FIRST, manager.restore(FIRST))
    with pytest.raises(FingerprintError, match="can only grow"):
        manager_of(banks, settings, partitions=1).restore(FIRST)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("spectral", "allowed_lateness_seconds", 660), ("entities", "person_role_patterns", ("^Person-",))],
)
def test_settings_that_count_otherwise_are_refused(
    banks: BankWatcher, settings: Settings, section: str, key: str, value: object
) -> None:
    manager = manager_of(banks, settings)
    manager.save(FIRST, manager.restore(FIRST))
    later = getattr(settings, section).model_copy(update={key: value})
    with pytest.raises(FingerprintError, match=f"setting {section}.{key} .* set it back"):
        manager_of(banks, settings.model_copy(update={section: later})).restore(FIRST)


def test_messages_that_kafka_deleted_stop_the_program_unless_they_may_be_skipped(
    banks: BankWatcher, settings: Settings
) -> None:
    manager = manager_of(banks, settings)
    manager.save(FIRST, manager.restore(FIRST))
    with pytest.raises(FingerprintError, match="messages 0 to 9 of events/0 are lost"):
        manager_of(banks, settings, begin=10).restore(FIRST)
    skipping = settings.model_copy(
        update={"kafka": settings.kafka.model_copy(update={"auto_offset_reset": "earliest"})}
    )
    assert manager_of(banks, skipping, begin=10).restore(FIRST).offset == 10


def test_a_topic_that_was_made_again_stops_the_program_unless_it_may_be_read_from_its_beginning(
    banks: BankWatcher, settings: Settings
) -> None:
    """Its offsets begin at 0: the client alone would say that messages were lost, and of which it does not know."""
    manager = manager_of(banks, settings, end=40)
    owned = manager.restore(FIRST)
    owned.offset = 40
    manager.save(FIRST, owned)
    with pytest.raises(
        FingerprintError, match="ends at 3, and its newest checkpoint at 40: the topic was deleted"
    ):
        manager_of(banks, settings, end=3).restore(FIRST)
    skipping = settings.model_copy(
        update={"kafka": settings.kafka.model_copy(update={"auto_offset_reset": "earliest"})}
    )
    assert manager_of(banks, skipping, end=3).restore(FIRST).offset == 0


@pytest.mark.parametrize(("committed", "said"), [(None, 1), (40, 0)])
def test_a_topic_that_may_have_been_made_again_is_a_warning(
    banks: BankWatcher, settings: Settings, caplog: pytest.LogCaptureFixture, committed: int | None, said: int
) -> None:
    """It has more messages already than the checkpoint has read: no offset is out of range. Kafka forgot what was committed."""
    manager = manager_of(banks, settings, end=40)
    owned = manager.restore(FIRST)
    owned.offset = 40
    manager.save(FIRST, owned)
    with caplog.at_level(logging.WARNING):
        assert manager_of(banks, settings, end=90, committed_offset=committed).restore(FIRST).offset == 40
    assert caplog.text.count("if its topic was deleted and made again") == said


def test_events_in_the_partition_of_another_principal_are_counted(
    banks: BankWatcher, settings: Settings, steps: Sequence[Step]
) -> None:
    manager = manager_of(banks, settings)
    manager.restore(FIRST)
    events = hashing.hash_with_bucket(steps[0].events["principal"])
    misrouted = [manager.misrouted_events(events, Partition(TOPIC, number)) for number in range(2)]
    assert sum(misrouted) == len(events)
    assert min(misrouted) > 0
