"""Banks are trained when they are due: by the topic's history, by the clock, and again after what went wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.clock import Clock
from fingerprint.core.settings import Retraining, Settings, Triton, load_settings
from fingerprint.registry import versions
from fingerprint.registry.versions import VersionDecision
from fingerprint.streaming.service import LIVENESS_TIMEOUT_SECONDS
from fingerprint.training.schedule import (
    NextTraining,
    ScheduleInputs,
    due_since,
    latest_believed,
    next_training,
    retry_delay,
    topic_span_days,
    training_times,
)
from pipelines.retrain import print_retrain_summary, run_retrain
from pipelines.runtime import topic_time_span
from pipelines.runtime.retrain_metrics import RetrainMetrics
from pipelines.runtime.retrain_service import RetrainService
from pipelines.runtime.service import CompletedCommand
from tests.contracts.message_stream import PATIENCE
from tests.support import sample_organisation
from tests.support.health_client import answered
from tests.support.services.ports import free_port
from tests.support.stream_environment import Place, Records, keyed

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
OPTIONS = Retraining()
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


# --- when -------------------------------------------------------------------------------------------------------------


def test_the_first_bank_waits_for_history_and_says_how_much_there_is() -> None:
    assert next_training(ScheduleInputs(retained_days=3.25), NOW, OPTIONS) == NextTraining(
        NOW + 10.75 * DAY, "the topic holds 3.2 of 14 days"
    )
    almost = next_training(ScheduleInputs(retained_days=13.99), NOW, OPTIONS)
    assert (almost.is_due(NOW), almost.why) == (False, "the topic holds 13.9 of 14 days")
    assert next_training(ScheduleInputs(retained_days=14.0), NOW, OPTIONS).is_due(NOW)


def test_of_an_empty_topic_nothing_is_learned() -> None:
    assert next_training(ScheduleInputs(), NOW, OPTIONS) == NextTraining(None, "the topic holds no events")
    assert not next_training(ScheduleInputs(served=True, last_trained=NOW - 9 * DAY), NOW, OPTIONS).is_due(
        NOW
    )


def test_the_next_one_is_due_a_day_after_the_one_before() -> None:
    known = ScheduleInputs(retained_days=30, served=True, last_trained=NOW - 23 * HOUR)
    word = next_training(known, NOW, OPTIONS)
    assert (word.at, word.is_due(NOW)) == (NOW + HOUR, False)
    assert (
        word.why == "the last training was at 2026-03-01T13:00:00Z, the next is due at 2026-03-02T13:00:00Z"
    )
    assert next_training(known, NOW + HOUR, OPTIONS).is_due(NOW + HOUR)


def test_a_first_bank_that_the_gate_refused_is_not_trained_again_at_every_look() -> None:
    refused = ScheduleInputs(retained_days=30, served=False, last_trained=NOW - HOUR)
    assert next_training(refused, NOW, OPTIONS).at == NOW + 23 * HOUR


def test_a_bank_that_came_from_elsewhere_is_trained_again() -> None:
    assert next_training(ScheduleInputs(retained_days=1, served=True), NOW, OPTIONS).is_due(NOW)


def test_what_failed_is_tried_again_after_twice_as_long_each_time() -> None:
    assert [retry_delay(failures, OPTIONS) / timedelta(seconds=60) for failures in (1, 2, 3, 4)] == [
        1,
        2,
        4,
        8,
    ]
    assert retry_delay(10_000, OPTIONS) == DAY
    failed = ScheduleInputs(retained_days=20, failures=3, last_failed=NOW)
    word = next_training(failed, NOW + timedelta(seconds=239), OPTIONS)
    assert (word.at, word.is_due(NOW)) == (NOW + timedelta(seconds=240), False)
    assert word.why == "the last training failed, and is tried again at 2026-03-02T12:04:00Z"
    assert next_training(failed, NOW + timedelta(seconds=240), OPTIONS).is_due(NOW + timedelta(seconds=240))


def test_a_failure_while_the_clock_was_wrong_stops_no_training() -> None:
    """It was tried again when that time had come, or the service was started again."""
    years_ahead = ScheduleInputs(30, True, NOW - 3 * DAY, 1, NOW + 1400 * DAY, NOW + 1400 * DAY)
    assert next_training(years_ahead, NOW, OPTIONS).is_due(NOW)
    other_clock = replace(years_ahead, last_failed=NOW + HOUR / 2)
    assert next_training(other_clock, NOW, OPTIONS).at == NOW + HOUR / 2 + timedelta(seconds=60)


def scheduled(known: ScheduleInputs, now: datetime = NOW) -> datetime | None:
    return due_since(known, now, OPTIONS)


def test_what_fails_again_and_again_has_been_due_all_the_while() -> None:
    """The time of the next attempt is always in the future: by it nothing was ever overdue."""
    trained = ScheduleInputs(30, True, NOW - 3 * DAY, 12, NOW - HOUR, NOW - 2 * DAY)
    assert next_training(trained, NOW, OPTIONS).at == NOW + 23 * HOUR
    assert scheduled(trained) == NOW - 2 * DAY
    first = ScheduleInputs(30, failures=12, last_failed=NOW - HOUR, first_failed=NOW - 2 * DAY)
    assert scheduled(first) == NOW - 2 * DAY
    by_hand = ScheduleInputs(30, True, NOW - 3 * HOUR, 12, NOW - 4 * HOUR, NOW - 2 * DAY)
    assert scheduled(by_hand) == NOW + 21 * HOUR
    assert scheduled(by_hand, NOW + 23 * HOUR) == NOW + 21 * HOUR
    assert scheduled(ScheduleInputs(12, failures=1, last_failed=NOW, first_failed=NOW)) == NOW + 2 * DAY
    assert scheduled(ScheduleInputs(30)) == NOW
    assert scheduled(ScheduleInputs()) is None


def test_the_metric_says_since_when_a_training_is_due_until_one_ends_well(tmp_path: Path) -> None:
    time_ = [NOW]
    registry = CollectorRegistry()
    service = RetrainService(
        tmp_path,
        Settings(),
        None,
        tmp_path,
        RetrainMetrics(registry, Triton()),
        cast(Clock, SimpleNamespace(now=lambda: time_[0])),
    )
    service.topic_days = 30.0
    for hours in (0, 1, 3, 7, 15, 31):
        time_[0] = NOW + hours * HOUR
        service._record_outcome(CompletedCommand(1, {}), 1.0)
        service._next_training()
        due = registry.get_sample_value("fingerprint_retrain_due_timestamp_seconds")
        assert due == NOW.timestamp(), hours
    service._record_outcome(CompletedCommand(0, {}), 1.0)
    service._next_training()
    due = registry.get_sample_value("fingerprint_retrain_due_timestamp_seconds")
    assert due == (time_[0] + DAY).timestamp()


def test_a_failure_makes_nothing_due_earlier() -> None:
    known = ScheduleInputs(
        retained_days=20, served=True, last_trained=NOW - HOUR, failures=1, last_failed=NOW - 2 * HOUR
    )
    assert next_training(known, NOW, OPTIONS).at == NOW + 23 * HOUR


@given(
    st.one_of(st.none(), st.floats(0, 1000)),
    st.booleans(),
    st.one_of(
        st.none(),
        st.datetimes(timezones=st.just(UTC), min_value=datetime(2026, 1, 1), max_value=datetime(2026, 5, 1)),
    ),
    st.integers(0, 50),
)
def test_what_is_not_due_yet_is_due_at_the_time_that_was_said(
    held: float | None, served: bool, trained: datetime | None, failures: int
) -> None:
    """Nothing else happening but that time passes, and events come in the meantime."""
    known = ScheduleInputs(held, served, trained, failures, NOW if failures else None)
    word = next_training(known, NOW, OPTIONS)
    if word.at and held is not None:
        then = max(word.at, NOW)
        later = ScheduleInputs(held + (then - NOW) / DAY + 1e-6, served, trained, failures, known.last_failed)
        assert next_training(later, then, OPTIONS).is_due(then)


def test_one_record_that_is_dated_otherwise_makes_no_history() -> None:
    few = [NOW, NOW + HOUR, NOW + 2 * HOUR]
    odd = [datetime(2011, 1, 1, tzinfo=UTC), *few]
    assert topic_span_days([odd], [[*few, NOW + 900 * DAY]]) == pytest.approx(1 / 24)
    assert topic_span_days([few, []], [[NOW + 5 * DAY], []]) == pytest.approx(5 - 1 / 24)
    assert topic_span_days([], []) is None


def test_the_last_training_is_the_newest_that_was_served_or_refused(tmp_path: Path) -> None:
    assert training_times(versions.decision_history(tmp_path)) == []
    for action, day in (("train", 1), ("refused", 3), ("train", 2), ("rollback", 9)):
        versions.append_decision(tmp_path, "v", VersionDecision(action, f"2026-03-0{day}T06:00:00Z"))
    versions.append_decision(tmp_path, "v", VersionDecision("train", "by hand, on a Sunday"))
    times = training_times(versions.decision_history(tmp_path))
    assert latest_believed(times, NOW + 9 * DAY) == datetime(2026, 3, 3, 6, tzinfo=UTC)


def test_a_training_dated_in_the_future_does_not_count_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A clock was wrong for a moment: the next training would be due in ten years."""
    assert latest_believed([NOW + HOUR], NOW) == NOW + HOUR, "another machine's clock may be a little ahead"
    assert latest_believed([NOW + 2 * HOUR], NOW) is None
    clock = SimpleNamespace(now=lambda: NOW)
    metrics = RetrainMetrics(CollectorRegistry(), Triton())
    service = RetrainService(tmp_path, Settings(), None, tmp_path, metrics, cast(Clock, clock))
    service.topic_days = 30.0
    for year in (2026, 2036):
        versions.append_decision(tmp_path, "v", VersionDecision("train", f"{year}-03-01T06:00:00Z"))
    due = [service._next_training() for _ in range(2)]
    assert due[0].is_due(NOW)
    assert due[0] == due[1]
    assert len([record for record in caplog.records if "in the future" in record.message]) == 1


# --- a topic ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Three days of three principals."""
    return keyed(
        sample_organisation.lines_of(
            sample_organisation.simulated(tmp_path_factory.mktemp("three"), 0, principals=3)[:3]
        )
    )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Topics, and no bank; a training is due with two days, and tried again at once."""
    made = Place(tmp_path, tmp_path / "bank")
    configure(made)
    return made.create()


def configure(place: Place, **retraining: float) -> None:
    brisk = {"min_history_days": 2, "poll_interval_seconds": 0.2} | retraining
    place.configure(retraining=brisk, health={"port": free_port()}, entities={"min_ready_events": 10})


def looked(place: Place) -> float | None:
    return topic_time_span.topic_span_days(place.settings.kafka.events_topic, place.settings, lambda: False)


def test_a_topics_history_is_seen_at_its_ends(place: Place, history: Records) -> None:
    assert looked(place) is None
    place.send(history)
    times = [datetime.fromisoformat(json.loads(value)["eventTime"]) for _, value in history]
    assert looked(place) == pytest.approx((max(times) - min(times)) / DAY, abs=0.2)
    place.send([(None, b"poison")] * 8)
    assert looked(place) == pytest.approx((max(times) - min(times)) / DAY, abs=0.2)


def test_a_history_of_few_columnar_messages_is_seen_at_the_ends_of_their_events(
    place: Place, history: Records
) -> None:
    place.send_by_columns([value for _, value in history])
    messages = place.read(place.settings.kafka.events_topic)
    assert len(messages) < len(history) / 20
    times = [datetime.fromisoformat(json.loads(value)["eventTime"]) for _, value in history]
    assert looked(place) == pytest.approx((max(times) - min(times)) / DAY, abs=0.2)


# --- the program ------------------------------------------------------------------------------------------------------


@pytest.fixture
def start(place: Place) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`fingerprint retrain` in a process of its own."""
    started = []

    def starting(*options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pipelines.cli", "retrain", "--bank", str(place.bank), "--json"]
        started.append(
            subprocess.Popen(  # noqa: S603
                [*command, *options],
                env=place.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield starting
    for process in started:
        process.kill()
        process.wait(30)


def ready(place: Place) -> tuple[int, str]:
    return asked(place, "/readyz")


def asked(place: Place, path: str) -> tuple[int, str]:
    return answered(place.settings.health.port, path)


def training(program: subprocess.Popen[str], but: int = 0) -> int:
    """The process that trains, 0 while there is none but `but`."""
    children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    return next((int(each) for each in children if int(each) != but), 0)


def reading(place: Place) -> bool:
    """Whether a training is under way and has temporary files."""
    return any((place.bank / "work").glob("retrain-*/tmp/fingerprint-*"))


def comes(program: subprocess.Popen[str], condition: Callable[[], Any], what: str) -> Any:
    """What the condition gives when it gives something, looked at now and then while the program runs."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"in {PATIENCE:.0f} s it did not come to this: {what}"
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"ended with {program.wait(0.05)} before this: {what}")
    return found


def test_a_training_that_is_killed_is_tried_again_and_one_that_is_asked_to_end_ends(
    place: Place, history: Records, start: Callable[..., subprocess.Popen[str]]
) -> None:
    place.send(history)
    program = start()
    first = comes(program, lambda: training(program), "a training")
    os.kill(first, signal.SIGKILL)
    comes(program, lambda: ready(place)[0] == 503, "a program that is not ready")
    assert "retrain: training: the training was killed: where memory ran out" in ready(place)[1]
    assert 'fingerprint_retrain_trainings_total{outcome="failed"} 1.0' in asked(place, "/metrics")[1]
    second = comes(program, lambda: training(program, but=first), "another training")
    comes(program, lambda: reading(place), "a training that has begun")
    program.send_signal(signal.SIGTERM)
    out, err = program.communicate(timeout=PATIENCE)
    assert program.returncode == 0, err[-2000:]
    assert not Path(f"/proc/{second}").exists()
    assert json.loads(out)["trainings"] == {"promoted": 0, "rejected": 0, "failed": 1}
    assert not list((place.bank / "work").glob("retrain-*")), "no temporary files are left"


def test_a_training_program_that_has_triton_load_a_bank_twice_is_alive(tmp_path: Path) -> None:
    """Beside the previous version, then alone."""
    own = Settings(triton=Triton(load_timeout_seconds=60))
    service = RetrainService(tmp_path, own, None, tmp_path, RetrainMetrics(CollectorRegistry(), own.triton))
    service.last_iteration -= LIVENESS_TIMEOUT_SECONDS + 2 * 60 - 20
    assert service.not_alive() is None
    service.last_iteration -= 40
    assert service.not_alive()


def test_looking_once_trains_the_first_bank_and_then_says_why_there_is_nothing_to_do(
    place: Place,
    history: Records,
    start: Callable[..., subprocess.Popen[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert once(place)["why"] == "the topic holds no events"
    place.send(history)
    program = start("--once")
    comes(program, lambda: training(program), "a training")
    with pytest.raises(FingerprintError, match="another run does the same work"):
        once(place)
    out, err = program.communicate(timeout=PATIENCE)
    assert program.returncode == 0, err[-2000:]
    version = versions.served_version(place.bank)
    assert json.loads(out)["served"] == version
    assert [line["action"] for line in versions.decision_history(place.bank)] == ["train"]

    capsys.readouterr()
    print_retrain_summary(once(place))
    said = capsys.readouterr().out
    assert said.startswith("trainings: none; the last training was at ")
    assert said.endswith(f"served: {version}\n")

    configure(place, interval_hours=1e-6, history_days=1.5)
    (file := place.folder / "strict.toml").write_text("[promotion]\nmax_loss_shift = 1e-9\n")
    assert once(place, file)["trainings"] == {"promoted": 0, "rejected": 1, "failed": 0}
    assert versions.served_version(place.bank) == version, (
        "what the gate refuses is not served, and no failure"
    )


def once(place: Place, file: Path | None = None) -> dict[str, Any]:
    """A look in this process; its training finds the settings in the environment, and in the file."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in place.environment().items():
            environment.setenv(name, value)
        return run_retrain(load_settings(file), place.bank, file, once=True, registry=CollectorRegistry())
