"""The stream loses nothing and says nothing twice, whatever happens to it: held against an undisturbed run."""

from __future__ import annotations

import gzip
import json
import logging
import random
import signal
import sqlite3
import subprocess
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Partition
from fingerprint.store import database
from fingerprint.streaming.ingest_service import IngestService
from fingerprint.streaming.metrics import IngestMetrics
from fingerprint.streaming.stream_service import StreamService
from pipelines.commands.dead_letters import for_dead_letter_topic, list_dead_letters
from tests.contracts.message_stream import wait_until
from tests.support import sample_organisation
from tests.support.crashing_stream import kill_stream
from tests.support.dump_tables import dump_tables
from tests.support.running_stream import live
from tests.support.services.postgres import Postgres
from tests.support.stream_environment import Place, Records, Said

POISON = (b"someone", b'{"eventVersion": "1.08", "userAgent": "\x1b[2J\xff')
SMALL = {"max_poll_records": 400}


@pytest.fixture
def place(organisation: sample_organisation.SampleOrganisation, tmp_path: Path) -> Place:
    return Place(tmp_path, organisation.bank).create()


# --- what is said ---------------------------------------------------------------------------------------------------


def test_an_undisturbed_run_finds_what_score_finds(oracle: Said, scored: sample_organisation.Run) -> None:
    found = {alert.alert_id: alert.event_ids for alert in scored.alerts}
    assert {name: alert.event_ids for name, alert in oracle.alerts.items()} == found
    assert oracle.told.keys() == found.keys()
    shown = {event.event_id: event.raw for alert in scored.alerts for event in alert.events}
    assert {event.event_id: event.raw for alert in oracle.alerts.values() for event in alert.events} == shown
    assert all(shown.values()), "the record is one click away"
    graded = {alert.alert_id: (alert.urgency, alert.rarity, alert.drivers) for alert in scored.alerts}
    assert {
        name: (alert.urgency, alert.rarity, alert.drivers) for name, alert in oracle.alerts.items()
    } == graded, "what is known only when an hour is over is known in the end"


def test_networks_have_the_names_of_the_table(place: Place, records: Records, oracle: Said) -> None:
    addresses = {event.source_address for alert in oracle.alerts.values() for event in alert.events}
    numeric = [each for each in addresses if each.replace(".", "").isdigit()]
    table = place.folder / "networks.csv"
    table.write_text("".join(f"{each}/32,Example Hosting\n" for each in numeric))
    place.configure(reading={"networks_file": str(table)})
    place.send(records)
    place.run()
    seen = {driver.seen for alert in place.said().alerts.values() for driver in alert.drivers}
    assert "Example Hosting" in seen


def test_votes_in_the_topic_are_those_on_the_store_with_a_schema_version(oracle: Said) -> None:
    assert oracle.voted.keys() == oracle.votes.keys()
    assert {vote["detector"] for vote in oracle.voted.values()} == {
        "autoencoder",
        "spectral",
        "sequence",
    }
    assert all(vote["schema"] == 1 for vote in (*oracle.voted.values(), *oracle.told.values()))
    assert all(vote["z"] >= 1.6 for vote in oracle.voted.values())


def test_an_alert_in_the_topic_carries_its_newest_events_without_their_records(oracle: Said) -> None:
    for name, alert in oracle.told.items():
        assert alert["event_count"] == len(oracle.alerts[name].event_ids)
        assert [event["event_id"] for event in alert["events"]] == list(oracle.alerts[name].event_ids)[-200:]
        assert not any("raw" in event for event in alert["events"])


# --- where and when never matters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("partitions", "messages"), [(1, 20_000), (16, 397)])
def test_neither_partitions_nor_polls_change_what_is_said(
    organisation: sample_organisation.SampleOrganisation,
    records: Records,
    oracle: Said,
    tmp_path: Path,
    partitions: int,
    messages: int,
) -> None:
    place = Place(tmp_path, organisation.bank)
    place.configure(kafka={"max_poll_records": messages}, checkpoints={"interval_seconds": 5})
    place.create(partitions).send(records)
    place.run()
    end = max(json.loads(value)["eventTime"] for _, value in records)[:10]
    assert not place.said().until(end).differences(oracle.until(end))


@pytest.mark.parametrize(("partitions", "messages", "size"), [(1, 3, 1000), (4, 20_000, 400)])
def test_columns_change_nothing_of_what_is_said(
    organisation: sample_organisation.SampleOrganisation,
    records: Records,
    oracle: Said,
    tmp_path: Path,
    partitions: int,
    messages: int,
    size: int,
) -> None:
    place = Place(tmp_path, organisation.bank)
    place.configure(kafka={"max_poll_records": messages})
    place.create(partitions).send_by_columns((value for _, value in records), size)
    figures = place.run()
    assert figures["messages"] < len(records) / 10
    assert place.said().differences(oracle) == []


def test_records_and_columns_lie_in_one_topic(place: Place, records: Records, oracle: Said) -> None:
    part = len(records) // 3
    place.send(records[:part])
    place.send_by_columns(value for _, value in records[part : 2 * part])
    place.send(records[2 * part :])
    place.run()
    place.pass_days(2)  # one source ended long before the other
    assert {name: alert.event_ids for name, alert in place.said().alerts.items()} == {
        name: alert.event_ids for name, alert in oracle.alerts.items()
    }


def test_duplicates_and_disorder_change_nothing(place: Place, records: Records, oracle: Said) -> None:
    """Every third record comes twice, and all come shuffled as far as ten minutes allow."""
    generator = random.Random(5)
    times = [datetime.fromisoformat(json.loads(value)["eventTime"]).timestamp() for _, value in records]
    due = [(at + generator.uniform(0, 590), record) for at, record in zip(times, records, strict=True)]
    due += [(at + generator.uniform(0, 590), record) for at, record in due[::3]]
    place.send(record for _, record in sorted(due, key=lambda each: each[0]))
    figures = place.run()
    assert figures["duplicates"] >= len(records) // 3
    assert not place.said().differences(oracle)


def test_a_poison_message_in_the_middle_of_a_batch_costs_nothing_else(
    place: Place, records: Records, oracle: Said
) -> None:
    half = len(records) // 2
    place.send([*records[:half], POISON, (b"", b"[]"), *records[half:]])
    assert place.run()["dead"] == 1
    letters = place.read(f"{place.settings.kafka.events_topic}.dlq")
    assert [letter.value for letter in letters] == [POISON[1]]
    assert {name for name, _ in letters[0].headers} >= {"topic", "partition", "offset", "reason"}
    assert not place.said().differences(oracle)


def test_dead_letters_of_the_events_topic_are_listed_by_naming_it(place: Place) -> None:
    place.send([POISON])
    place.run()
    (letter,) = list_dead_letters(for_dead_letter_topic(place.settings, place.settings.kafka.events_topic))
    assert (letter["topic"], letter["offset"]) == (place.settings.kafka.events_topic, 0)


def test_a_record_dated_in_the_future_is_a_dead_letter_and_moves_no_clock(
    place: Place, records: Records, oracle: Said
) -> None:
    key, value = records[100]
    future = json.dumps(
        {**json.loads(value), "eventTime": "2199-01-01T00:00:00Z", "eventID": "from the future"}
    )
    place.send([*records[:200], (key, future.encode()), *records[200:]])
    figures = place.run()
    assert (figures["future"], figures["dead"]) == (1, 1)
    assert (
        b"past its arrival"
        in dict(place.read(f"{place.settings.kafka.events_topic}.dlq")[0].headers)["reason"]
    )
    assert not place.said().differences(oracle)


def gibibyte_of_spaces() -> bytes:
    """The beginning of a compressed message: one compressed mebibyte a thousand times, as compressing them all takes seconds."""
    compressor = zlib.compressobj(1, wbits=31)
    start = compressor.compress(b'{"Records":[') + compressor.flush(zlib.Z_FULL_FLUSH)
    return start + 1024 * (compressor.compress(b" " * (1 << 20)) + compressor.flush(zlib.Z_FULL_FLUSH))


def test_a_record_of_a_mebibyte_is_judged_and_a_gibibyte_in_a_kilobyte_is_a_dead_letter(
    place: Place, records: Records, oracle: Said
) -> None:
    key, value = records[0]
    large = {
        **json.loads(value),
        "eventID": "large",
        "requestParameters": {"policyDocument": "x" * 1_040_000},
    }
    bomb = gzip.compress(gibibyte_of_spaces())
    place.send([*records[:1000], (key, json.dumps(large).encode()), (b"bomb", bomb), *records[1000:]])
    process = place.start("--once")
    out, _ = process.communicate(timeout=120)
    figures = json.loads(out)
    assert (figures["dead"], figures["events"]) == (
        1,
        len({json.loads(v)["eventID"] for _, v in records}) + 1,
    )
    assert figures["peak_memory_bytes"] < 2 << 30
    said = place.said()
    assert said.alerts.keys() == oracle.alerts.keys()


def test_a_principal_with_half_the_traffic_holds_up_no_one(
    organisation: sample_organisation.SampleOrganisation, place: Place, records: Records, oracle: Said
) -> None:
    """A machine role calls as often as all others together; what is said of the others stays."""
    busy = max({key for key, _ in records}, key=lambda key: sum(key == other for other, _ in records))
    copies = [
        (key, value.replace(b'"eventID":"', b'"eventID":"again%d-' % number))
        for number in range(3)
        for key, value in records
        if key == busy
    ]
    mixed = sorted([*records, *copies], key=lambda each: json.loads(each[1])["eventTime"])
    place.send(mixed)
    assert place.run()["events"] > len(copies)
    said, them = place.said(), busy.decode()
    mine = {name: alert for name, alert in said.alerts.items() if alert.principal != them}
    assert mine == {name: alert for name, alert in oracle.alerts.items() if alert.principal != them}


# --- sources --------------------------------------------------------------------------------------------------------


def test_through_ingest_the_order_in_which_raw_partitions_are_read_is_irrelevant(
    place: Place, organisation: sample_organisation.SampleOrganisation, records: Records, oracle: Said
) -> None:
    """Each account's records lie in a raw partition of their own, hours apart when they are read one after another."""
    settings = place.settings
    place.topics({settings.kafka.raw_topic: 3, f"{settings.kafka.raw_topic}.dlq": 1})
    lines = sample_organisation.lines_of(organisation.new)
    with place.producer() as producer:
        for line in lines:
            producer.send(settings.kafka.raw_topic, line, json.loads(line)["recipientAccountId"].encode())
        producer.flush()
    with place.consumer("ingest") as consumer, place.producer() as producer:
        small = settings.model_copy(
            update={"kafka": settings.kafka.model_copy(update={"max_poll_records": 700})}
        )
        IngestService(consumer, producer, small, IngestMetrics(CollectorRegistry())).run(
            lambda: False, once=True
        )
    place.run()
    place.pass_days(2)
    said = place.said()
    assert {name: alert.event_ids for name, alert in said.alerts.items()} == {
        name: alert.event_ids for name, alert in oracle.alerts.items()
    }


def test_when_nothing_comes_any_more_intervals_close_by_the_clock(
    place: Place, records: Records, oracle: Said
) -> None:
    """The same alerts, without one more record: two days later all windows are over."""
    place.send(records)
    place.run()
    processors = [kept.processor for kept in place.pass_days(2)]
    assert not any(
        processor.pipeline.state.pending or processor.pipeline.state.open_alerts.verdicts
        for processor in processors
    )
    silences = [name for name, _ in place.said().votes if name.startswith("silence:")]
    assert len(silences) > len([name for name, _ in oracle.votes if name.startswith("silence:")])


# --- crashes --------------------------------------------------------------------------------------------------------

STEPS = [
    ("store", "alerts.save", "before", 3),
    ("store", "alerts.save", "after", 3),
    ("producer", "send", "after", 40),
    ("producer", "flush", "before", 2),
    ("producer", "flush", "after", 2),
    ("objects", "write", "before", 40),
    ("objects", "create_exclusive", "before", 6),
    ("objects", "create_exclusive", "after", 6),
    ("consumer", "commit", "before", 2),
    ("consumer", "commit", "after", 2),
]


def test_killed_at_every_step_of_a_commit_one_after_the_other_it_says_the_same(
    place: Place, records: Records, oracle: Said
) -> None:
    place.configure(kafka={"max_poll_records": 100}, checkpoints={"interval_seconds": 0.001})
    place.send(records)
    for step in STEPS:
        kill_stream(place, *step)
        assert place.committed() < len(records), f"nothing is left to be killed at after {step}"
    place.run()
    assert not place.said().differences(oracle)


def test_a_second_run_has_nothing_left_to_say(place: Place, records: Records) -> None:
    place.send(records[:1000])
    place.run()
    before = dump_tables(place.store())
    assert place.run()["messages"] == 0
    assert dump_tables(place.store()) == before


def test_it_ends_in_order_when_asked_to_and_goes_on_where_it_stood(
    place: Place, records: Records, oracle: Said
) -> None:
    place.configure(kafka=SMALL, checkpoints={"interval_seconds": 3600})
    place.send(records[: len(records) // 2])
    process = place.start()
    wait_until(place.has_votes, "votes on the alert store")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err[-2000:]
    assert json.loads(out)["checkpoints"] > 0
    place.send(records[len(records) // 2 :])
    place.run()
    assert not place.said().differences(oracle)


# --- adapters that fail ------------------------------------------------------------------------------------------------


def test_a_store_that_is_away_is_waited_for(
    place: Place, records: Records, oracle: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone else holds the file's lock."""
    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.05)
    place.configure(kafka=SMALL)
    place.send(records)
    with place.consumer() as consumer, place.producer() as producer:
        program = place.program(consumer, producer)
        other = sqlite3.connect(place.folder / "alerts.sqlite", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        running = Thread(target=program.run, args=(lambda: False, True), daemon=True)
        running.start()
        wait_until(lambda: "database" in program.dependency_status, "the alert store is missed")
        assert "another program is writing to it" in (program.not_ready() or "")
        assert in_trouble(program) == {"database": 1, "checkpoints": 0, "clock": 0}
        assert not place.committed()
        other.execute("ROLLBACK")
        running.join(60)
        assert not running.is_alive()
    assert program.not_ready() is None
    assert in_trouble(program) == {"database": 0, "checkpoints": 0, "clock": 0}
    assert not place.said().differences(oracle)


def in_trouble(program: StreamService) -> dict[str, float]:
    """What Prometheus is told, by adapter."""
    [gauge] = program.metrics.dependency_failing.collect()
    return {sample.labels["dependency"]: sample.value for sample in gauge.samples}


def test_a_store_whose_server_is_away_is_waited_for(
    place: Place, records: Records, oracle: Said, postgresql: Postgres
) -> None:
    place.configure(kafka=SMALL, database={"url": postgresql.fresh()})
    place.send(records)
    with place.consumer() as consumer, place.producer() as producer:
        program = place.program(consumer, producer)
        running = Thread(target=program.run, args=(lambda: False, True), daemon=True)
        postgresql.stop()
        try:
            running.start()
            wait_until(lambda: "database" in program.dependency_status, "the alert store is missed")
            assert "no connection to its server" in (program.not_ready() or "")
            assert not place.committed()
        finally:
            postgresql.start()
        running.join(60)
        assert not running.is_alive()
    assert program.not_ready() is None
    assert not place.said().differences(oracle)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    made = subprocess.run(mount, capture_output=True)  # noqa: S603
    if made.returncode:
        pytest.skip(f"cannot mount a small file system: {made.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S603, S607


def test_a_full_disk_at_the_checkpoint_lets_kafka_forget_nothing(
    place: Place, records: Records, oracle: Said, small_disk: Path
) -> None:
    place.configure(kafka=SMALL, checkpoints={"url": str(small_disk)})
    place.send(records)
    figures = place.run()
    assert figures["checkpoint_failures"] > 0
    assert not place.committed()
    assert not place.said().differences(oracle), "what it says does not wait for the disk"
    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)  # noqa: S603, S607
    assert place.run()["checkpoint_failures"] == 0
    assert place.committed() == len(records)
    assert not place.said().differences(oracle)


# --- what a checkpoint rests on ---------------------------------------------------------------------------------------


def test_a_checkpoint_older_than_what_kafka_holds_is_an_error_that_says_what_is_lost(
    place: Place, records: Records
) -> None:
    place.send(records[:1000])
    place.run()
    place.send(records[1000:])
    lost = place.forget_unread()
    assert lost > 0
    with pytest.raises(FingerprintError, match=r"messages [\d,]+ to [\d,]+ of .* are lost"):
        place.run()
    place.configure(kafka={"auto_offset_reset": "earliest"})
    assert place.run()["messages"] == len(records) - 1000 - lost


def test_without_its_checkpoints_it_reads_again_from_the_beginning(
    place: Place, records: Records, oracle: Said
) -> None:
    place.send(records[:1000])
    place.run()
    place.configure(checkpoints={"url": str(place.folder / "elsewhere")})
    place.send(records[1000:])
    assert place.run()["messages"] == len(records)
    assert not place.said().differences(oracle)


def test_a_topic_that_ingest_did_not_write_is_warned_of_once(
    place: Place, records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "fingerprint.stream")
    place.send((str(number).encode(), value) for number, (_, value) in enumerate(records[:1000]))
    figures = place.run()
    assert figures["misrouted"] > 0.5 * figures["events"]
    assert len([each for each in caplog.records if "partitions of other principals" in each.message]) == 1


def test_an_added_partition_has_its_state_however_late_it_is_given_to_someone(
    organisation: sample_organisation.SampleOrganisation, records: Records, oracle: Said, tmp_path: Path
) -> None:
    """Anyone who has the old partitions goes on for long before the new ones are anybody's."""
    place = Place(tmp_path, organisation.bank).create(2)
    place.send(records[:1500])
    place.run()
    place.create(4)
    with place.consumer() as consumer, place.producer() as producer:
        remembering = place.program(consumer, producer).checkpoint_manager

        def take_the_old_ones(partitions: Any) -> None:
            for home in sorted(partitions)[:2]:
                remembering.save(home, remembering.restore(home))

        consumer.subscribe([place.settings.kafka.events_topic], take_the_old_ones)
        wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), "partitions are given")
    place.send(records[1500:])
    place.run()
    end = max(json.loads(value)["eventTime"] for _, value in records)[:10]
    assert not place.said().until(end).differences(oracle.until(end))


def test_what_was_silent_longest_is_put_away_and_comes_back_and_nothing_changes(
    place: Place, records: Records, oracle: Said
) -> None:
    """In memory there is room for a few principals; runs end and begin with some of them away."""
    place.configure(kafka=SMALL, stream={"max_series": 5})
    fetched = 0
    for part in range(0, len(records), 1200):
        place.send(records[part : part + 1200])
        fetched += place.run()["reloaded_buckets"]
    assert fetched > 0
    assert not place.said().differences(oracle)


def test_a_number_of_partitions_that_state_cannot_be_cut_into_is_refused(
    organisation: sample_organisation.SampleOrganisation, records: Records, tmp_path: Path
) -> None:
    place = Place(tmp_path, organisation.bank).create(3)
    place.send(records[:10])
    with pytest.raises(FingerprintError, match="has 3 partitions"):
        place.run()


def test_settings_that_count_otherwise_than_the_checkpoint_are_refused(
    place: Place, records: Records
) -> None:
    place.send(records[:500])
    place.run()
    place.configure(spectral={"allowed_lateness_seconds": 1800})
    with pytest.raises(FingerprintError, match=r"setting spectral\.allowed_lateness_seconds is 1800"):
        place.run()


# --- more than one --------------------------------------------------------------------------------------------------


def test_two_scorers_joining_and_leaving_say_what_one_says(
    place: Place, records: Records, oracle: Said
) -> None:
    place.configure(kafka=SMALL | {"session_timeout_ms": 3000}, checkpoints={"interval_seconds": 0.2})
    third = len(records) // 3
    first = place.start()
    place.send(records[:third])
    wait_until(lambda: place.committed() > 0, "something is committed")
    second = place.start()
    place.send(records[third : 2 * third])
    wait_until(lambda: place.committed() == 2 * third, "two thirds are committed")
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    place.send(records[2 * third :])
    wait_until(lambda: place.committed() == len(records), "everything is committed")
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    assert not place.said().differences(oracle)


def test_a_position_that_the_broker_did_not_take_is_told_again_though_nothing_more_comes(
    place: Place, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    with live(place) as stream:
        take, refused = stream.program.consumer.commit, []

        def commit(offsets: dict[Partition, int], *metadata: dict[Partition, str]) -> None:
            if len(refused) < 3:
                refused.append(offsets)
                raise FingerprintError("the broker is away")
            take(offsets, *metadata)

        monkeypatch.setattr(stream.program.consumer, "commit", commit)
        stream.read(records[:300])
        stream.until(lambda: place.committed() == 300)
    assert len(refused) == 3


def test_anyone_who_restores_a_checkpoint_tells_its_position_though_nothing_more_comes(
    place: Place, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner died, or the broker was away, between checkpoint and commit."""

    def away(offsets: dict[Partition, int], *metadata: dict[Partition, str]) -> None:
        raise FingerprintError("the broker is away")

    with live(place) as stream:
        monkeypatch.setattr(stream.program.consumer, "commit", away)
        stream.read(records[:300])
    assert place.committed() != 300
    with live(place) as stream:
        stream.until(lambda: place.committed() == 300)
