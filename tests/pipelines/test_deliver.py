"""Alerts reach anyone who else is to know, at least once: SQLite and PostgreSQL keep the outbox's contract; the program tells."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from standardwebhooks import Webhook

from fingerprint.adapters.webhook import WebhookReceiver
from fingerprint.core.alert import CredentialIssue, Disposition
from fingerprint.core.errors import FingerprintError, NotFound, Unavailable
from fingerprint.core.ports.message_stream import Message
from fingerprint.core.settings import ReceiverSettings, Settings, load_settings
from fingerprint.delivery import policy
from fingerprint.store import SqlStore, open_store
from fingerprint.store.outbox import SqlOutbox
from fingerprint.store.schema import metadata
from fingerprint.web.session_origin import with_origin
from pipelines.commands.deliveries import list_deliveries, print_deliveries, retry_deliveries
from pipelines.deliver import deliver_in_background, run_deliver
from pipelines.runtime.delivery_service import MAX_BACKOFF_SECONDS, DeliverMetrics, DeliverySender
from pipelines.runtime.wiring import create_receiver
from tests.contracts.message_stream import wait_until
from tests.contracts.outbox import OutboxContract
from tests.support.alerts import new_pipeline, stolen_session
from tests.support.forked import Forked, fingerprint
from tests.support.http_receiver import Listening, listening
from tests.support.manual_clock import ManualClock
from tests.support.memory_broker import MemoryBroker
from tests.support.memory_clients import MemoryConsumer, on

NOW = datetime(2026, 3, 5, 9, tzinfo=UTC)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of Standard Webhooks' own example
HERE = ("127.0.0.0/8",)


@pytest.fixture(scope="module")
def empty_file(tmp_path_factory) -> Path:
    """An alert store with nothing on it, to be copied: making its tables takes longer than most tests."""
    file = tmp_path_factory.mktemp("empty") / "alerts.sqlite"
    open_store(f"sqlite:///{file}").close()
    return file


@pytest.fixture(scope="module")
def server_store(postgresql) -> Iterator[SqlStore]:
    with closing(open_store(postgresql.fresh())) as opened:
        yield opened


class TestSqlite(OutboxContract):
    @pytest.fixture
    def make_store(self, store_url):
        return lambda: open_store(store_url)


class TestPostgres(OutboxContract):
    @pytest.fixture
    def make_store(self, server_store):
        """The same database, emptied: the audit stays, for it only grows."""
        kept = {"meta", "audit"}
        names = ", ".join(sorted({table.name for table in metadata.sorted_tables} - kept))
        with server_store.session.engine.begin() as connection:
            connection.exec_driver_sql(f"TRUNCATE {names}")
        return lambda: server_store


class Crash(BaseException):
    """The end of a process, as far as what it has written can tell."""


@pytest.fixture
def listen() -> Iterator[Callable[..., Listening]]:
    with listening() as start:
        yield start


@pytest.fixture
def store_url(tmp_path, empty_file) -> str:
    shutil.copy(empty_file, tmp_path / "alerts.sqlite")
    return f"sqlite:///{tmp_path}/alerts.sqlite"


@pytest.fixture
def store(store_url) -> Iterator[SqlStore]:
    with closing(open_store(store_url)) as opened:
        yield opened


def wants(server: Listening, **fields: object) -> ReceiverSettings:
    asked = {
        "url": server.url(),
        "allow_http": True,
        "allowed_networks": HERE,
        "min_urgency": 0,
        "timeout_seconds": 5.0,
    }
    return ReceiverSettings(**asked | fields)


def sender(outbox: SqlOutbox, asked: ReceiverSettings, clock: ManualClock, to=None) -> DeliverySender:
    metrics = DeliverMetrics(CollectorRegistry())
    made = DeliverySender(
        "soc", asked, outbox, to or WebhookReceiver(asked), clock, metrics, random_fraction=lambda: 1.0
    )
    outbox.register_receiver("soc", asked.model_copy(update={"include_existing": True}))
    return made


def keys(server: Listening) -> list[str]:
    return [got.headers["idempotency-key"] for got in server.got]


def test_a_receiver_is_told_who_opened_the_session(store, listen):
    server, clock = listen(), ManualClock(NOW)
    alert = stolen_session()
    alert = replace(alert, events=tuple(replace(each, access_key="ASIATWO") for each in alert.events))
    opened = CredentialIssue("ASIATWO", NOW, "e1", "AssumeRole", "1:user/ann", "", "", "10.0.0.1", "")
    store.alerts.save([alert], credential_issues=[opened])
    telling = sender(store.outbox, wants(server, format="ocsf"), clock)
    telling.find_origin = partial(with_origin, store)
    telling.run_once()
    [got] = server.got
    assert json.loads(got.body)["unmapped"]["opened_by"] == ["1:user/ann by AssumeRole from 10.0.0.1"]


# --- the program without its adapters' clocks ---------------------------------------------------------------------------


def test_an_alert_is_told_once_and_its_growth_and_decision_where_that_is_asked_for(store, listen):
    server, clock, alert = listen(), ManualClock(NOW), stolen_session()
    telling = sender(store.outbox, wants(server, notify_on=("new", "updated", "decided")), clock)
    for events in (alert.events[:3], alert.events[:3], alert.events):
        store.alerts.save([replace(alert, events=events)])
        telling.run_once()
    store.cases.add_disposition(
        Disposition(alert.alert_id, "benign", "maria", "a laptop", NOW, len(alert.events))
    )
    telling.run_once()
    told = [json.loads(got.body) for got in server.got]
    assert [each["happened"] for each in told] == ["new", "updated", "decided"]
    assert [each["event_count"] for each in told] == [3, 9, 9]
    assert [each["decision"] for each in told] == ["open", "open", "benign"]
    assert len(set(keys(server))) == 3
    assert telling.metrics.figures() == {"planned": 3, "sent": 3, "tries_failed": 0, "failed": 0}


@pytest.mark.parametrize("format", ["json", "ecs", "ocsf", "slack"])
def test_a_receiver_gets_the_format_it_wants(store, listen, format):
    server = listen()
    store.alerts.save([stolen_session()])
    link = "https://store.example.com/alerts/"
    sender(store.outbox, wants(server, format=format, alert_url_prefix=link), ManualClock(NOW)).run_once()
    (got,) = server.got
    assert f"{link}{stolen_session().alert_id}" in got.body.decode()
    mark = {"json": "schema", "ecs": "ecs", "ocsf": "class_uid", "slack": "blocks"}[format]
    assert mark in json.loads(got.body)


def test_a_crash_between_sending_and_marking_sends_again_under_the_same_key(store, listen):
    server, clock, outbox = listen(), ManualClock(NOW), store.outbox
    store.alerts.save([stolen_session()])
    asked = wants(server)

    class Dying(WebhookReceiver):
        def deliver(self, *arguments: object) -> None:
            super().deliver(*arguments)
            raise Crash

    first = sender(outbox, asked, clock, Dying(asked))
    with pytest.raises(Crash):
        first.run_once()
    second = sender(outbox, asked, clock)
    second.run_once()
    assert len(server.got) == 1  # in dead hands, until their lease is over
    clock.sleep(3_600)
    second.run_once()
    assert len(server.got) == 2
    assert len(set(keys(server))) == 1
    assert outbox.counts_by_receiver()["soc"].sent == 1


def test_a_crash_between_planning_and_sending_loses_nothing(store, listen):
    server, clock, outbox = listen(), ManualClock(NOW), store.outbox
    asked = wants(server)
    outbox.register_receiver("soc", asked)
    store.alerts.save([stolen_session(), new_pipeline()])
    outbox.schedule("soc", asked, NOW)
    sender(outbox, asked, clock).run_once()
    assert len(server.got) == 2


def test_a_receiver_that_is_down_is_asked_less_and_less_and_told_in_the_end(store, listen):
    server, clock = listen(status=503), ManualClock(NOW)
    telling = sender(store.outbox, wants(server), clock)
    store.alerts.save([stolen_session()])
    asked_at = []
    while len(server.got) < 6:
        before = len(server.got)
        telling.run_once()
        if len(server.got) > before:
            asked_at.append((clock.now() - NOW).total_seconds())
        clock.sleep(5)
    assert asked_at == [0, 5, 15, 35, 75, 155]
    assert "answered 503" in telling.problem
    server.status = 200
    clock.sleep(3_600)
    telling.run_once()
    assert telling.problem is None
    assert len(set(keys(server))) == 1
    assert telling.outbox.counts_by_receiver()["soc"].sent == 1


def test_many_that_wait_do_not_ask_a_receiver_that_is_down_many_times(store, listen):
    server, clock = listen(status=503), ManualClock(NOW)
    telling = sender(store.outbox, wants(server), clock)
    store.alerts.save([replace(new_pipeline(), alert_id=f"alert-{number}") for number in range(50)])
    for _ in range(20):
        telling.run_once()
    assert len(server.got) == 1
    server.status = 200
    clock.sleep(MAX_BACKOFF_SECONDS)
    while telling.run_once():
        pass
    assert telling.outbox.counts_by_receiver()["soc"].sent == 50


def test_a_receiver_that_asks_for_time_gets_it(store, listen):
    server, clock = listen(status=429, extra={"retry-after": "600"}), ManualClock(NOW)
    telling = sender(store.outbox, wants(server), clock)
    store.alerts.save([stolen_session(), new_pipeline()])
    telling.run_once()
    clock.sleep(599)
    telling.run_once()
    assert len(server.got) == 1
    clock.sleep(1)
    telling.run_once()
    assert len(server.got) == 2


def test_what_no_one_takes_is_marked_failed_with_its_reason(store, listen, monkeypatch):
    monkeypatch.setattr(policy, "MAX_ATTEMPTS", 3)
    server, clock = listen(status=500, answer=b"disk full"), ManualClock(NOW)
    telling = sender(store.outbox, wants(server), clock)
    store.alerts.save([stolen_session()])
    for _ in range(3):
        telling.run_once()
        clock.sleep(3_600)
    (failed,) = telling.outbox.list_deliveries(state="failed")
    assert failed.tries == len(server.got) == 3
    assert failed.reason == "http://127.0.0.1 answered 500: disk full"
    assert telling.metrics.figures()["failed"] == 1


def test_a_receiver_that_says_gone_is_not_asked_again(store, listen):
    server, clock = listen(status=410), ManualClock(NOW)
    telling = sender(store.outbox, wants(server), clock)
    store.alerts.save([stolen_session()])
    telling.run_once()
    clock.sleep(10_000)
    telling.run_once()
    assert len(server.got) == 1
    assert telling.outbox.counts_by_receiver()["soc"].failed == 1


def test_a_secret_that_is_lost_while_the_program_runs_is_waited_for(store, listen, tmp_path):
    server, clock, file = listen(), ManualClock(NOW), tmp_path / "secret"
    file.write_text(SECRET)
    telling = sender(store.outbox, wants(server, signing_secret_file=str(file)), clock)
    file.unlink()
    store.alerts.save([stolen_session()])
    telling.run_once()
    assert (server.got, telling.outbox.list_deliveries()[0].tries) == ([], 1)
    file.write_text(SECRET)
    clock.sleep(60)
    telling.run_once()
    assert len(server.got) == 1


def test_an_unexpected_error_is_a_failed_try_and_shows_in_the_backlog(store, listen, monkeypatch):
    monkeypatch.setattr(policy, "MAX_ATTEMPTS", 2)
    clock = ManualClock(NOW)

    class Defective(WebhookReceiver):
        def deliver(self, *arguments: object) -> None:
            raise OverflowError("https://hooks.example.com/secret")

    asked = wants(listen())
    telling = sender(store.outbox, asked, clock, Defective(asked))
    store.alerts.save([stolen_session()])
    telling.run_once()
    (delivery,) = store.outbox.list_deliveries()
    assert (delivery.tries, delivery.reason) == (1, "unexpected OverflowError: see the log")
    clock.sleep(60)
    telling.run_once()
    assert [each.state for each in store.outbox.list_deliveries()] == ["failed"]


def test_the_backlog_shows_though_nothing_can_be_planned(store, listen, monkeypatch):
    clock = ManualClock(NOW)
    telling = sender(store.outbox, wants(listen(status=503)), clock)
    store.alerts.save([stolen_session()])
    telling.run_once()
    clock.sleep(600)
    monkeypatch.setattr(telling.outbox, "schedule", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        telling.run_once()
    (waited,) = telling.metrics.oldest.collect()[0].samples
    assert waited.value == 600


def test_one_body_that_is_refused_holds_up_no_other(store, listen):
    server, clock = listen(), ManualClock(NOW)

    class Picky(WebhookReceiver):
        def deliver(self, key: str, body: bytes, *arguments: object) -> None:
            if json.loads(body)["alert_id"] == stolen_session().alert_id:
                raise Unavailable("answered 400")
            super().deliver(key, body, *arguments)

    asked = wants(server)
    telling = sender(store.outbox, asked, clock, Picky(asked))
    store.alerts.save([stolen_session(), new_pipeline()])
    for _ in range(4):
        telling.run_once()
        clock.sleep(60)
    assert [json.loads(got.body)["alert_id"] for got in server.got] == [new_pipeline().alert_id]


def test_an_alert_that_is_removed_while_it_waits_is_given_up(store, listen):
    server, outbox = listen(), store.outbox
    telling = sender(outbox, wants(server), ManualClock(NOW))
    store.alerts.save([stolen_session()])
    outbox.schedule("soc", telling.options, NOW)
    held = outbox.claim("soc", NOW, NOW + timedelta(hours=1), 10, telling.lease_owner)
    store.retention.purge_principal(stolen_session().principal, by="maria")
    telling._send_all(held, lambda: False)
    assert server.got == []


def test_two_senders_of_one_receiver_share_the_work(store, listen):
    server, clock, outbox = listen(), ManualClock(NOW), store.outbox
    store.alerts.save([replace(new_pipeline(), alert_id=f"alert-{number}") for number in range(60)])
    both = [sender(outbox, wants(server), clock) for _ in range(2)]
    while sum(each.run_once() for each in both):
        pass
    assert len(keys(server)) == len(set(keys(server))) == 60


# --- Kafka -----------------------------------------------------------------------------------------------------------


def test_a_topic_gets_the_alert_under_its_principal_with_its_key(store):
    broker = MemoryBroker()
    loaded = Settings.model_validate(
        {"kafka": on(broker), "deliver": {"soc": {"kind": "kafka", "topic": "soc.alerts", "format": "ocsf"}}}
    )
    broker.create_topic("soc.alerts", 2)
    store.alerts.save([stolen_session()])
    with closing(create_receiver("soc", loaded)) as to:
        sender(store.outbox, loaded.deliver["soc"], ManualClock(NOW), to).run_once()
    with closing(MemoryConsumer(loaded.kafka)) as consumer:
        consumer.subscribe(["soc.alerts"])
        got: list[Message] = []
        wait_until(lambda: got.extend(consumer.poll(0.2)) or got, "the alert is in its topic")
    (message,) = got
    assert message.key == stolen_session().principal.encode()
    assert json.loads(message.value)["class_uid"] == 2004
    assert dict(message.headers)["idempotency-key"] == store.outbox.list_deliveries()[0].key.encode()


def test_a_topic_that_is_not_there_is_tried_again(store):
    broker = MemoryBroker()
    loaded = Settings.model_validate(
        {"kafka": on(broker), "deliver": {"soc": {"kind": "kafka", "topic": "none"}}}
    )
    store.alerts.save([stolen_session()])
    with closing(create_receiver("soc", loaded)) as to:
        telling = sender(store.outbox, loaded.deliver["soc"], ManualClock(NOW), to)
        telling.run_once()
    assert telling.outbox.list_deliveries()[0].reason.startswith("topic none: ")
    assert telling.outbox.counts_by_receiver()["soc"].waiting == 1


# --- the program as it is started ------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path, store_url, listen) -> tuple[Path, Listening]:
    """A folder with an alert store, an alert on it, and settings that name a real receiver."""
    server = listen()
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "settings.toml").write_text(
        f'[database]\nurl = "sqlite:///{tmp_path}/alerts.sqlite"\n\n[health]\nport = 0\n\n'
        f'[deliver.soc]\nurl = "{server.url()}"\nallow_http = true\nallowed_networks = ["127.0.0.1"]\ninclude_existing = true\n'
        f'signing_secret_file = "{tmp_path}/secret"\nmin_urgency = 0\n'
    )
    with closing(open_store(f"sqlite:///{tmp_path}/alerts.sqlite")) as opened:
        opened.alerts.save([stolen_session(), new_pipeline()])
    return tmp_path, server


def once(folder: Path) -> dict:
    return run_deliver(load_settings(folder / "settings.toml"), once=True, registry=CollectorRegistry())


def started(folder: Path) -> Forked:
    """The program, as a process of its own."""
    return fingerprint(
        "deliver", "--json", "--settings", str(folder / "settings.toml"), environment=os.environ
    )


def test_deliver_once_tells_what_is_due_and_leaves(place):
    folder, server = place
    figures = once(folder)
    assert (figures["sent"], figures["waiting"], figures["given_up"]) == (2, 0, 0)
    for got in server.got:
        Webhook(SECRET).verify(got.body, got.headers)
    assert once(folder)["sent"] == 0


def test_killed_in_the_middle_of_a_request_it_goes_on_until_it_is_asked_to_end(place):
    """The receiver had the first one, and no one could mark it: the same key comes again, and nothing is lost."""
    folder, server = place
    server.hold()
    process = started(folder)
    try:
        wait_until(lambda: server.got, "the first alert is told")
    finally:
        process.kill()
        process.communicate()
    server.release()
    with closing(open_store(f"sqlite:///{folder}/alerts.sqlite")) as store:
        assert store.outbox.counts_by_receiver()["soc"].sent == 0
        with (
            store.session.engine.begin() as connection
        ):  # the dead one's lease would end by itself, minutes later
            connection.exec_driver_sql("UPDATE deliveries SET leased_until = '2026-01-01 00:00:00.000000'")
    process = started(folder)
    try:
        wait_until(lambda: len(server.got) == 3, "both alerts are told, one of them twice")
    finally:
        process.send_signal(signal.SIGTERM)
        said, logged = process.communicate(timeout=30)
    assert process.returncode == 0, logged
    assert (json.loads(said)["sent"], json.loads(said)["waiting"]) == (2, 0)
    assert len(set(keys(server))) == 2


def test_another_program_may_do_it_alongside(place):
    folder, server = place
    loaded = load_settings(folder / "settings.toml")
    with deliver_in_background(loaded, loaded.database.url, DeliverMetrics(CollectorRegistry())) as trouble:
        wait_until(lambda: len(server.got) == 2, "both alerts are told")
        wait_until(lambda: trouble() is None, "nothing is in trouble")
    assert open_store(loaded.database.url).outbox.counts_by_receiver()["soc"].sent == 2


def test_without_receivers_there_is_nothing_to_run(tmp_path):
    with pytest.raises(FingerprintError, match="no receiver of alerts is set"):
        run_deliver(Settings())


def test_a_receiver_that_cannot_be_is_named_at_start(place):
    folder, _ = place
    loaded = load_settings(
        folder / "settings.toml", {"FINGERPRINT_DELIVER__SOC__SIGNING_SECRET_FILE": "/nowhere"}
    )
    with pytest.raises(FingerprintError, match=r"deliver\.soc: .*/nowhere"):
        run_deliver(loaded, once=True)


def test_what_failed_is_listed_and_tried_again(place, capsys):
    folder, server = place
    url = f"sqlite:///{folder}/alerts.sqlite"
    server.status = 410
    assert once(folder)["given_up"] == 1
    (failed,) = list_deliveries(url, failed=True)
    assert (failed["state"], failed["reason"][-40:]) == ("failed", "127.0.0.1 answered 410: it wants no more")
    print_deliveries(list_deliveries(url))
    assert "answered 410" in " ".join(capsys.readouterr().out.split())
    server.status = 200
    with pytest.raises(NotFound, match="no failed delivery has the key 'zz'"):
        retry_deliveries(url, "zz")
    assert retry_deliveries(url) == {"retried": 1}
    figures = once(folder)
    assert (figures["sent"], figures["given_up"]) == (2, 0)
    assert {each["state"] for each in list_deliveries(url)} == {"sent"}


def test_a_receiver_is_led_to_the_stores_own_pages(place):
    folder, server = place
    loaded = load_settings(
        folder / "settings.toml", {"FINGERPRINT_WEB__PUBLIC_URL": "https://store.example.com"}
    )
    run_deliver(loaded, once=True, registry=CollectorRegistry())
    links = {json.loads(got.body)["link"] for got in server.got}
    assert f"https://store.example.com/alerts/{stolen_session().alert_id}" in links
