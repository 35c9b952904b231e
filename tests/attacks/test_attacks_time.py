"""An attacker who controls the time of events: no record switches the detectors off, whatever it says of when it happened."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from prometheus_client import CollectorRegistry

from fingerprint.adapters.event_spool import EventSpool
from fingerprint.core import time_range
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Partition
from fingerprint.core.settings import Settings
from fingerprint.registry import bank_files, state_files
from fingerprint.registry.bank import Bank
from fingerprint.sources import arrival
from fingerprint.state.scorer_state import ScorerState
from fingerprint.streaming.feed_gaps import MAX_INTERVALS_PER_CHECK, FeedMonitor
from fingerprint.streaming.ingest_service import IngestService
from fingerprint.streaming.metrics import IngestMetrics
from pipelines.cli.console import no_progress
from pipelines.runtime.promotion import offer_bank
from pipelines.runtime.training_data import TrainingDataRequest, load_history
from pipelines.train import train_bank
from tests.support import sample_organisation
from tests.support.memory_broker import MemoryBroker
from tests.support.stream_environment import Place, Said, keyed

Record = dict[str, Any]
FAR = datetime(2099, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def records_of(files: Iterable[str]) -> list[Record]:
    return [json.loads(line) for line in sample_organisation.lines_of(files)]


def when(record: Record) -> datetime:
    return datetime.fromisoformat(record["eventTime"])


def dated(record: Record, at: datetime, name: str) -> Record:
    """The same record with another time, and an id of its own."""
    return {**record, "eventTime": f"{at:%Y-%m-%dT%H:%M:%SZ}", "eventID": f"forged {name}"}


def forged(records: Sequence[Record], leaps: Iterable[timedelta], far: int = 20) -> list[Record]:
    """One record of another principal for each leap past the latest record, and some dated in 2099, of five principals."""
    one_each = list({json.dumps(record["userIdentity"]): record for record in records}.values())
    end = max(map(when, records))
    leaped = [dated(one_each[n], end + leap, f"ahead {n}") for n, leap in enumerate(leaps)]
    return leaped + [dated(one_each[n % 5], FAR, f"far {n}") for n in range(far)]


def lines(records: Iterable[Record]) -> list[bytes]:
    return [json.dumps(record, separators=(",", ":")).encode() for record in records]


def told(run: sample_organisation.Run) -> dict[str, Any]:
    return {alert.alert_id: (alert.title, alert.urgency, alert.event_ids) for alert in run.alerts}


@pytest.fixture(scope="module")
def attacks(organisation: sample_organisation.SampleOrganisation) -> list[Record]:
    """The records of the attack sessions."""
    labels = [json.loads(line) for line in (organisation.folder / "labels.jsonl").open()]
    ids = {label["event_id"] for label in labels}
    return [record for record in records_of(organisation.new) if record["eventID"] in ids]


# --- training -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leap", [timedelta(hours=26), 13 * DAY])
def test_the_days_of_a_history_are_counted_back_from_where_its_activity_ends(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path, leap: timedelta
) -> None:
    last = records_of(organisation.learned[-2:])
    file = sample_organisation.write(tmp_path / "all.jsonl", [*last, *forged(last, [leap])])
    span = time_range.parse_time_range(days=0.5)
    with EventSpool(sample_organisation.SETTINGS, span=span) as history:
        load_history(
            TrainingDataRequest([str(file)], span=span), history, sample_organisation.SETTINGS, no_progress
        )
        assert history.activity_end() == max(map(when, last))
        assert (history.after_end, history.future_dated) == (1, 20)
        assert history.events > 100


def test_records_dated_ahead_in_a_history_change_nothing_of_the_bank(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    """The same bank, to the last bit, so the next scorer judges what it would have judged."""
    learned = records_of(organisation.learned)
    extra = sample_organisation.write(tmp_path / "extra.jsonl", forged(learned, [4 * DAY, 9 * DAY, 13 * DAY]))
    poisoned = train_bank(
        [*organisation.learned, str(extra)], tmp_path / "bank", sample_organisation.SETTINGS, no_progress
    )
    assert poisoned["version"] == organisation.trained["version"]
    assert (poisoned["ahead"], poisoned["future_dated"]) == (3, 20)
    clean, other = (bank_files.open_bank(each).manifest for each in (organisation.bank, tmp_path / "bank"))
    assert {name: clean[name] for name in ("watermark", "trained_until", "span")} == {
        name: other[name] for name in ("watermark", "trained_until", "span")
    }


def test_a_bank_from_the_future_is_neither_served_nor_opened(bank: Bank, tmp_path: Path) -> None:
    far = Bank(**{**vars_of(bank), "manifest": {**bank.manifest, "watermark": int(FAR.timestamp())}})
    word = offer_bank(far, tmp_path, sample_organisation.SETTINGS)
    assert not word.passed
    assert "2099-01-01" in word.reasons[0]
    with pytest.raises(FingerprintError, match=r"2099-01-01.*Train it again"):
        bank_files.open_bank(tmp_path, version=far.version)


def vars_of(bank: Bank) -> dict[str, Any]:
    return {name: getattr(bank, name) for name in Bank.__dataclass_fields__}


def test_a_scorer_state_from_the_future_is_refused(tmp_path: Path) -> None:
    scorer_state = ScorerState(Settings())
    scorer_state.watermark = int(FAR.timestamp())
    state_files.save_state(scorer_state, tmp_path)
    with pytest.raises(FingerprintError, match=r"2099-01-01.*another folder in --state"):
        state_files.restore_state(tmp_path, Settings())


# --- score --------------------------------------------------------------------------------------------------------------


def test_records_dated_ahead_do_not_carry_the_clock_of_a_scorer_state_away(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    """One past all others by 26 hours, one by 13 days, twenty in 2099; then the days on which the attacks are."""
    first, *rest = organisation.new
    extra = sample_organisation.write(
        tmp_path / "extra.jsonl", forged(records_of([first]), [timedelta(hours=26), 13 * DAY])
    )
    runs = []
    for name, sources in (("clean", [first]), ("forged", [first, extra])):
        scorer_state = tmp_path / f"{name}-scorer_state"
        begun = sample_organisation.run(
            sources, organisation.bank, tmp_path / f"{name}-1", scorer_state=scorer_state
        )
        runs.append(
            sample_organisation.run(
                rest, organisation.bank, tmp_path / f"{name}-2", scorer_state=scorer_state
            )
        )
    clean, attacked = runs
    assert begun.figures["future_dated"] == 20
    assert clean.alerts
    assert told(attacked) == told(clean)
    for name in ("late", "silent_intervals", "verdicts"):
        assert attacked.figures[name] == clean.figures[name]
    assert abs(attacked.figures["votes"]["spectral"] - clean.figures["votes"]["spectral"]) <= 10


@pytest.mark.parametrize(
    ("back", "said"),
    [
        (timedelta(hours=2), ""),
        (3 * DAY, "[3-6] days late"),
        (12 * DAY, "1[2-5] days late"),
        (40 * DAY, "4[0-3] days late"),
        (3652 * DAY, "3,65. days late"),
    ],
)
def test_attacks_that_are_dated_back_raise_alerts_all_the_same(
    organisation: sample_organisation.SampleOrganisation,
    attacks: list[Record],
    tmp_path: Path,
    after_the_days: Path,
    back: timedelta,
    said: str,
) -> None:
    late = [dated(record, when(record) - back, f"late {n}") for n, record in enumerate(attacks)]
    scorer_state = tmp_path / "scorer_state"
    scorer_state.mkdir()
    (scorer_state / state_files.STATE_FILE).write_bytes(
        (after_the_days / state_files.STATE_FILE).read_bytes()
    )
    file = sample_organisation.write(tmp_path / "late.jsonl", late)
    run = sample_organisation.run([file], organisation.bank, tmp_path / "run", scorer_state=scorer_state)
    assert run.alerts
    if said:
        assert all(re.search(said, alert.title) for alert in run.alerts)
    principals = [alert.principal for alert in run.alerts]
    if back > 21 * DAY:
        assert len(principals) == len(set(principals)), "one alert a principal, however many days it tells of"


@pytest.fixture(scope="module")
def after_the_days(
    organisation: sample_organisation.SampleOrganisation, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a scorer state that has seen the new days without their attacks."""
    folder = tmp_path_factory.mktemp("days")
    labels = {json.loads(line)["event_id"] for line in (organisation.folder / "labels.jsonl").open()}
    quiet = [record for record in records_of(organisation.new) if record["eventID"] not in labels]
    file = sample_organisation.write(folder / "quiet.jsonl", quiet)
    sample_organisation.run([file], organisation.bank, folder / "run", scorer_state=folder / "scorer_state")
    return folder / "scorer_state"


# --- ingest and stream --------------------------------------------------------------------------------------------------


def put_raw(place: Place, values: Iterable[bytes], timestamps: Iterable[int]) -> None:
    """Messages to the raw topic with the timestamps that a producer chose."""
    assert isinstance(place.broker, MemoryBroker)
    for value, at in zip(values, timestamps, strict=True):
        place.broker.append(Partition(place.settings.kafka.raw_topic, 0), value, timestamp=at)


def ingested(place: Place) -> dict[str, Any]:
    with place.consumer("ingest") as consumer, place.producer() as producer:
        program = IngestService(consumer, producer, place.settings, IngestMetrics(CollectorRegistry()))
        return program.run(lambda: False, once=True)


def fresh(folder: Path, organisation: sample_organisation.SampleOrganisation) -> Place:
    place = Place(folder, organisation.bank).create()
    place.topics({place.settings.kafka.raw_topic: 1, f"{place.settings.kafka.raw_topic}.dlq": 1})
    return place


def principals_of(said: Said) -> set[tuple[str, int]]:
    return {(alert.principal, len(alert.event_ids)) for alert in said.alerts.values()}


def test_a_producer_that_chooses_kafkas_timestamps_moves_no_clock(
    organisation: sample_organisation.SampleOrganisation, oracle: Said, tmp_path: Path
) -> None:
    """No timestamp at all, and the event's own time as the message's, as some connectors write it."""
    genuine = records_of(organisation.new)
    far = lines(forged(genuine[:500], []))
    place = fresh(tmp_path, organisation)
    values = lines(genuine)
    now = arrival.wall_clock_ms()
    put_raw(place, values[:300], [now] * 300)
    put_raw(place, far, [0, int(FAR.timestamp() * 1000)] * (len(far) // 2))
    put_raw(place, values[300:], [now] * (len(values) - 300))
    figures = ingested(place)
    assert (figures["future_dated"], figures["dead_letters"]) == (len(far), len(far))
    place.run()
    assert principals_of(place.said()) == principals_of(oracle)


def test_a_header_that_promises_a_watermark_of_2099_is_not_believed(
    organisation: sample_organisation.SampleOrganisation, oracle: Said, tmp_path: Path
) -> None:
    """Anyone who may write to the events topic writes its headers too. The silence watch goes on, and walks no year of hours."""
    place = fresh(tmp_path, organisation)
    sent = keyed(sample_organisation.lines_of(organisation.new))
    place.send(sent[:300])
    forged_header = (("source", b"t.raw/0/1"), ("watermark", b"4070908800000"))
    place.send(sent[300:310], forged_header)
    place.send(sent[310:])
    figures = place.run()
    assert figures["late"] < 500
    assert principals_of(place.said()) == principals_of(oracle)
    assert place.store().feeds.checked_until() < arrival.wall_clock_ms() // 1000


def test_what_arrives_after_the_training_is_judged_though_it_is_dated_before_its_end(
    organisation: sample_organisation.SampleOrganisation, attacks: list[Record], tmp_path: Path
) -> None:
    """A fresh partition passes over what the bank has learned: not what was dated back into it."""
    place = Place(tmp_path, organisation.bank).create()
    ids = {record["eventID"] for record in attacks}
    quiet = [record for record in records_of(organisation.new) if record["eventID"] not in ids]
    late = [dated(record, when(record) - 8 * DAY, f"late {n}") for n, record in enumerate(attacks)]
    place.send(keyed(lines(quiet)))
    place.send(keyed(lines(late)))
    figures = place.run()
    assert figures["already_trained"] == 0
    said = place.said()
    hit = {alert.principal for alert in said.alerts.values() if "late" in alert.title}
    assert hit, "and the title says how late it came"


def test_a_checkpoint_from_the_future_is_refused(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    place = Place(tmp_path, organisation.bank).create(partitions=1)
    place.send(keyed(sample_organisation.lines_of(organisation.new))[:200])
    place.run()
    with place.consumer() as consumer, place.producer() as producer:
        program = place.program(consumer, producer)
        consumer.subscribe([place.settings.kafka.events_topic], program.assigned, program.revoked)
        while not program.owned:
            program.run_once(0.1)
        ((home, kept),) = program.owned.items()
        kept.processor.pipeline.state.scorer.watermark = int(FAR.timestamp())
        program.checkpoint_manager.save(home, kept)
        with pytest.raises(FingerprintError, match=r"2099-01-01.*checkpoints.url"):
            program.checkpoint_manager.restore(home)


def test_a_machine_whose_clock_was_ahead_for_a_while_heals(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    place = Place(tmp_path, organisation.bank).create(partitions=1)
    with place.consumer() as consumer, place.producer() as producer:
        kept = place.program(consumer, producer).checkpoint_manager.restore(
            Partition(place.settings.kafka.events_topic, 0)
        )
    processor, now = kept.processor, arrival.wall_clock_ms()
    far = int(FAR.timestamp() * 1000)
    processor.watermarks.advance(["t.raw/0"], np.zeros(1, np.int64), np.array([far]), np.array([far]))
    processor.advance_clock(far)
    assert processor.watermarks.low_watermark >= far
    processor.clamp_clocks(now)
    allowed = arrival.CLOCK_TOLERANCE_SECONDS * 1000
    assert processor.watermarks.low_watermark <= now + allowed
    assert processor.pipeline.state.scorer.watermark * 1000 <= now + allowed


def test_the_silence_watch_walks_no_years_and_is_not_led_past_the_clock(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    """An alert store on which every partition said in 2000 that all was complete, and in 2099."""
    place = Place(tmp_path, organisation.bank)
    store, home, now = place.store(), Partition("events", 0), arrival.wall_clock_ms() // 1000
    start = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp())
    counts = pd.DataFrame({"kind": "source", "feed": "raw/0", "at": [start], "events": [3]})
    store.feeds.save_counts(home, start + 3600, counts)
    store.feeds.save_counts(home, int(FAR.timestamp()), counts.assign(at=now // 3600 * 3600 - 7200))
    listening, looks = FeedMonitor(store, place.settings), 0
    while (look := listening.check("events", 1, now)) is not None:
        store.feeds.save_gaps(look.changed, look.checked_until, look.delete_before)
        looks += 1
        assert looks < 100, f"a quarter of a century is {25 * 365 * 24 // MAX_INTERVALS_PER_CHECK:,} looks"
    assert now - 3600 < store.feeds.checked_until() <= now
