"""A running stream takes the bank that is served: between two commits, once for every event, and never half."""

from __future__ import annotations

import json
import logging
import shutil
import signal
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fingerprint.adapters.checkpoints import FileCheckpointStore
from fingerprint.registry import versions
from fingerprint.registry.bank import with_manifest_entries
from fingerprint.registry.bank_files import open_bank, write_bank
from fingerprint.registry.versions import VersionDecision
from fingerprint.streaming import bank_watcher
from pipelines.runtime import wiring
from tests.contracts.message_stream import wait_until
from tests.support import sample_organisation
from tests.support.crashing_stream import kill_stream
from tests.support.forked import fingerprint_unhurried
from tests.support.running_stream import Live, ids_of, live, measured_by, serve
from tests.support.stream_environment import Place, Records, Said
from tests.system.test_stream import SMALL

BRISK = {"bank": {"poll_interval_seconds": 0.01}, "checkpoints": {"interval_seconds": 0.001}, "kafka": SMALL}


@pytest.fixture(scope="module")
def two(
    organisation: sample_organisation.SampleOrganisation, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with the organisation's bank, which is served, and one that learned other days of it."""
    folder = tmp_path_factory.mktemp("two") / "bank"
    shutil.copytree(organisation.bank, folder)
    trained = sample_organisation.train_bank(
        organisation.learned[2:8],
        folder.parent / "other",
        sample_organisation.SETTINGS,
        sample_organisation.no_progress,
    )
    write_bank(open_bank(folder.parent / "other"), folder)
    assert trained["version"] != versions.require_served_version(folder)
    return folder


@pytest.fixture(scope="module")
def here(records: Records, oracle: Said) -> int:
    """Messages that come before the swap: it falls into the middle of an attack."""
    attack = max(oracle.alerts.values(), key=lambda alert: len(alert.events)).event_ids
    place = {json.loads(value)["eventID"]: number for number, (_, value) in enumerate(records)}
    return sorted(place[event] for event in attack)[len(attack) // 2]


@pytest.fixture
def first(two: Path) -> str:
    return versions.require_served_version(two)


@pytest.fixture
def second(two: Path, first: str) -> str:
    return next(version for version in versions.list_bank_versions(two) if version != first)


def made(folder: Path, two: Path) -> Place:
    """A place with a bank folder of its own."""
    shutil.copytree(two, folder / "bank")
    place = Place(folder, folder / "bank")
    place.configure(**BRISK)
    return place.create()


@pytest.fixture
def place(two: Path, tmp_path: Path) -> Place:
    return made(tmp_path / "place", two)


@pytest.fixture(scope="module")
def swapped(two: Path, records: Records, here: int, tmp_path_factory: pytest.TempPathFactory) -> Said:
    """What is said where the second bank takes over in the middle of the log, while nothing runs."""
    place = made(tmp_path_factory.mktemp("swapped") / "place", two)
    place.send(records[:here])
    place.run()
    serve(
        place,
        next(
            each for each in versions.list_bank_versions(two) if each != versions.require_served_version(two)
        ),
    )
    place.run()
    place.send(records[here:])
    place.run()
    return place.said()


# --- what was said ----------------------------------------------------------------------------------------------------


def of_events(said: Said, detector: str = "autoencoder") -> dict[str, Any]:
    """The votes on events, by the event's id."""
    return {event: vote for (event, by), vote in said.votes.items() if by == detector}


def remembered(place: Place) -> set[str]:
    """The banks that the newest checkpoints name."""
    checkpoints = FileCheckpointStore(place.settings.checkpoints)
    return {str(found.metadata["bank"]) for home in place.homes() if (found := checkpoints.latest(home))}


def told_once(place: Place) -> None:
    """However often an event was told of, it was the same vote by the same bank."""
    tellings = defaultdict(set)
    for message in place.read(place.settings.kafka.votes_topic):
        vote = json.loads(message.value or b"")
        if vote["detector"] == "autoencoder":
            said = vote["bank_version"], round(vote["z"], 3), vote["vote"], vote["threshold"], vote["level"]
            tellings[vote["event_id"]].add(said)
    assert tellings
    assert {event: said for event, said in tellings.items() if len(said) > 1} == {}


def earlier_banks(stream: Live) -> set[str]:
    """The banks that are kept for what they measured."""
    explainers = [kept.processor.pipeline.alert_groups.explainer for kept in stream.program.owned.values()]
    return {version for each in explainers for version in each.previous_banks}


# --- a bank is published, and rolled back -----------------------------------------------------------------------------


def test_events_after_the_swap_are_judged_by_the_new_bank_as_if_the_stream_had_been_started_again(
    place: Place, records: Records, here: int, swapped: Said, oracle: Said, first: str, second: str
) -> None:
    """The swap comes while an attack waits for its interval to close. No answer is mixed: what waits has the losses and the
    baseline of the bank it names. The earlier bank is let go when nothing waits of it any more."""
    known, seen = {version: open_bank(place.bank, version=version) for version in (first, second)}, set()
    with live(place) as stream:
        stream.read(records[:here])
        kept = stream.program.owned.values()
        assert any(each.processor.state.referenced_banks() for each in kept)
        serve(place, second)
        stream.until(lambda: stream.judged_by() == {second})
        stream.until(lambda: stream.shown() == {second})
        assert not any(len(each.processor.state.early_events) for each in kept)
        assert earlier_banks(stream) == {first}
        for at in range(here, here + 400, 100):
            stream.read(records[at : at + 100])
            for version, batch in stream.waiting():
                measured_by(known[version], batch)
                seen.add(version)
        assert seen == {first, second}
        stream.read(records[here + 400 :])
        stream.until(lambda: not earlier_banks(stream))
        assert stream.program.banks.loaded_banks.keys() == {second}
    place.run()
    said = place.said()
    assert not said.differences(swapped)
    before, after = ids_of(records[:here]), ids_of(records[here:], records[:here])
    votes = of_events(said)
    assert {vote["bank_version"] for event, vote in votes.items() if event in before} == {first}
    assert {vote["bank_version"] for event, vote in votes.items() if event in after} == {second}
    events = [event for alert in said.alerts.values() for event in alert.events]
    assert {event.bank_version for event in events if event.event_id in after} == {second}
    for alert in said.alerts.values():
        assert alert.bank_version == alert.events[-1].bank_version
    swap = max(json.loads(value)["eventTime"] for _, value in records[:here])[:11]
    early = {event: vote for event, vote in votes.items() if vote["event_time"].isoformat() < swap}
    same = of_events(oracle)
    assert len(early) > 5
    assert {event: vote["z"] for event, vote in early.items()} == {event: same[event]["z"] for event in early}
    assert any(vote["z"] != same[event]["z"] for event, vote in votes.items() if event in after & same.keys())


def test_rolling_back_works_the_same_way(
    place: Place, records: Records, here: int, first: str, second: str
) -> None:
    third = len(records) // 3
    with live(place) as stream:
        stream.read(records[:third])
        serve(place, second)
        stream.until(lambda: stream.judged_by() == {second})
        stream.read(records[third : 2 * third])
        versions.roll_back(place.bank, VersionDecision("rollback"))
        stream.until(lambda: stream.judged_by() == {first})
        stream.read(records[2 * third :])
        assert stream.shown() == {first}
    votes = of_events(place.said())
    middle = ids_of(records[third : 2 * third], records[:third])
    for event, vote in votes.items():
        assert vote["bank_version"] == (second if event in middle else first)


def test_who_is_given_a_partition_that_judges_by_the_new_bank_already_does_not_take_it_back(
    place: Place, first: str, second: str
) -> None:
    """It has not looked yet itself; and again, where what it is given is no longer served."""
    place.configure(bank={"poll_interval_seconds": 3600})
    with closing(wiring.bank_watcher(place.bank, place.settings)) as banks:
        serve(place, second)
        assert banks.served.bank.version == first
        assert banks.for_version(second).bank.version == second == banks.served.bank.version
        assert banks.for_version(first).bank.version == first != banks.served.bank.version
        banks.release({second})
        assert banks.loaded_banks.keys() == {second}


# --- what cannot judge ------------------------------------------------------------------------------------------------


def harm(place: Place, version: str) -> Callable[[], None]:
    """Damages a version; returns what mends it."""
    stack = next((place.bank / "versions" / version).glob("stack*.safetensors"))
    whole = stack.read_bytes()
    put(stack, whole[:-1] + bytes([whole[-1] ^ 1]))
    return lambda: put(stack, whole)


def put(file: Path, content: bytes) -> None:
    """In the place of a file that may be open."""
    file.unlink()
    file.write_bytes(content)


def test_a_damaged_bank_is_refused_once_and_the_one_before_judges_on_until_someone_decides_again(
    place: Place,
    records: Records,
    oracle: Said,
    first: str,
    second: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "fingerprint.banks")
    mend = harm(place, second)
    with live(place) as stream:
        banks, metric = stream.program.banks, stream.program.metrics.bank_refused
        stream.read(records[:500])
        serve(place, second)
        stream.until(lambda: metric.collect()[0].samples[0].value == 1)
        assert "is damaged" in banks.refusal
        stream.read(records[500:])
        looked = banks.next_poll
        stream.until(lambda: banks.next_poll > looked)
        assert stream.judged_by() == {first} == stream.shown()
        said = [record for record in caplog.records if "refused" in record.message]
        assert len(said) == 1
        mend()
        versions.roll_back(place.bank, VersionDecision("rollback"))
        stream.until(lambda: metric.collect()[0].samples[0].value == 0)
        assert not place.said().differences(oracle)
        serve(place, second)
        stream.until(lambda: stream.judged_by() == {second})


def test_a_bank_that_was_away_for_a_moment_is_served_when_it_is_there(
    place: Place, first: str, second: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system may show CURRENT before the folder."""
    caplog.set_level(logging.WARNING, "fingerprint.banks")
    monkeypatch.setattr(bank_watcher, "REFUSED_RETRY_SECONDS", 0.05)
    there, away = place.bank / "versions" / second, place.bank / "away"
    tried = []

    def opened(*arguments: Any) -> Any:
        tried.append(arguments)
        return open_bank(*arguments)

    with closing(wiring.bank_watcher(place.bank, place.settings)) as banks:
        monkeypatch.setattr(bank_watcher, "open_bank", opened)

        def poll_until(condition: Callable[[], bool], what: str) -> None:
            wait_until(lambda: banks.poll() or condition(), what)

        serve(place, second)
        there.rename(away)
        poll_until(lambda: len(tried) > 3, "it is tried again")
        assert "no version" in banks.refusal
        assert banks.served.bank.version == first
        assert len([record for record in caplog.records if "refused" in record.message]) == 1
        away.rename(there)
        poll_until(lambda: banks.served.bank.version == second, "it is served")
        assert not banks.refusal


def test_a_bank_that_counts_otherwise_than_the_settings_is_refused(
    place: Place, records: Records, here: int, first: str, second: str
) -> None:
    learned = json.loads(json.dumps(open_bank(place.bank, version=second).manifest["settings"]))
    learned["spectral"]["interval_seconds"] = 600
    other = with_manifest_entries(open_bank(place.bank, version=second), settings=learned)
    write_bank(other, place.bank)
    with live(place) as stream:
        stream.read(records[:200])
        serve(place, other.version)
        stream.until(lambda: bool(stream.program.banks.refusal))
        assert "setting spectral.interval_seconds is 3600" in stream.program.banks.refusal
        assert stream.judged_by() == {first}


def test_a_bank_that_is_gone_after_a_restart_is_replaced_by_the_one_that_is_served(
    place: Place, records: Records, here: int, first: str, second: str, swapped: Said
) -> None:
    """Verdicts of before stay what they were; they are explained by the bank that is there."""
    place.send(records[:here])
    place.run()
    serve(place, second)
    shutil.rmtree(place.bank / "versions" / first)
    place.send(records[here:])
    place.run()
    said = place.said()
    assert {name: alert.event_ids for name, alert in said.alerts.items()} == {
        name: alert.event_ids for name, alert in swapped.alerts.items()
    }
    assert not [line for line in said.differences(swapped) if line.startswith("vote on the alert store")]


# --- crashes ----------------------------------------------------------------------------------------------------------


def test_what_was_told_before_a_crash_is_judged_again_by_the_bank_that_told_it(
    place: Place, records: Records, here: int, oracle: Said, second: str
) -> None:
    """Another bank is served when it is started again: it takes over where the log ended then."""
    place.send(records)
    kill_stream(place, "store", "alerts.save", "after", 3)
    serve(place, second)
    place.run()
    assert not place.said().differences(oracle)
    told_once(place)
    assert remembered(place) == {second}


def test_killed_while_partitions_are_changing_banks_each_goes_on_with_its_own(
    place: Place, records: Records, here: int, swapped: Said, second: str
) -> None:
    """Two of four have changed when it dies; the others change at the same place, because nothing came in between."""
    place.send(records[:here])
    place.run()
    serve(place, second)
    kill_stream(place, "objects", "create_exclusive", "after", 2)
    assert len(remembered(place)) == 2
    place.run()
    assert remembered(place) == {second}
    place.send(records[here:])
    place.run()
    assert not place.said().differences(swapped)
    told_once(place)


def test_killed_again_and_again_across_a_swap_every_event_is_judged_by_one_bank(
    place: Place, records: Records, here: int, first: str, second: str
) -> None:
    """Two of four partitions have changed, and new messages are there when it is started again."""
    place.send(records[:here])
    place.run()
    serve(place, second)
    kill_stream(place, "objects", "create_exclusive", "after", 2)
    changed = {home for home in place.homes() if of_checkpoint(place, home) == second}
    place.send(records[here:])
    kill_stream(place, "store", "alerts.save", "after", 2)
    kill_stream(place, "consumer", "commit", "before", 2)
    place.run()
    told_once(place)
    home_of = {
        json.loads(m.value or b"{}")["eventID"]: m.source_partition
        for m in place.read(place.settings.kafka.events_topic)
    }
    after = ids_of(records[here:], records[:here])
    for event, vote in of_events(place.said()).items():
        new = event in after and home_of[event] in changed
        assert vote["bank_version"] == (second if new else first)


def of_checkpoint(place: Place, home: Any) -> str:
    found = FileCheckpointStore(place.settings.checkpoints).latest(home)
    assert found
    return str(found.metadata["bank"])


# --- more than one ----------------------------------------------------------------------------------------------------


def test_partitions_change_hands_across_a_swap_and_one_that_is_killed_loses_nothing(
    place: Place, records: Records, here: int, swapped: Said, second: str
) -> None:
    more = (here + len(records)) // 2
    place.configure(
        **BRISK | {"kafka": SMALL | {"session_timeout_ms": 3000}, "checkpoints": {"interval_seconds": 0.2}}
    )
    running = place.start(program=fingerprint_unhurried)
    place.send(records[:here])
    wait_until(lambda: place.committed() == here, "what was sent is committed")
    serve(place, second)
    wait_until(lambda: remembered(place) == {second}, "the second bank judges")
    joining = place.start(program=fingerprint_unhurried)
    place.send(records[here:more])
    wait_until(lambda: place.committed() == more, "more is committed")
    running.kill()
    place.send(records[more:])
    wait_until(lambda: place.committed() == len(records), "everything is committed")
    joining.send_signal(signal.SIGTERM)
    assert joining.wait(60) == 0
    assert not place.said().differences(swapped)
    told_once(place)
