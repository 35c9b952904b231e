"""Live updates: anyone who has a page open hears of every change, through whichever server it came, and no one asks too often."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, aclosing
from typing import Any

import httpx
import pytest
import sqlalchemy as sql

from fingerprint.adapters.system import SystemClock
from fingerprint.core.case import AlertRevision, AssignCase
from fingerprint.core.settings import Settings
from fingerprint.store import SqlStore, open_store
from fingerprint.store.accounts import open_account_store
from fingerprint.web import change_feed
from fingerprint.web.app import create_app
from fingerprint.web.change_feed import ChangeBatch, ChangeBroadcaster
from fingerprint.web.dependencies import Dependencies
from tests.support.alerts import new_pipeline, stolen_session
from tests.support.web_server import served, tokens, variants

STOLEN, PIPELINE = stolen_session().alert_id, new_pipeline().alert_id


@pytest.fixture(params=["sqlite", "postgresql"])
def open_again(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Callable[[], SqlStore]]:
    """Opens one and the same alert store, as several programs do."""
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/alerts.sqlite" if sqlite else request.getfixturevalue("postgresql").fresh()
    with ExitStack() as opened:

        def again() -> SqlStore:
            store = open_store(url)
            opened.callback(store.close)
            return store

        yield again


def assign(store: SqlStore, alert_id: str, to: str = "maria") -> None:
    seen = AlertRevision(alert_id, store.queue.row(alert_id).version)
    [outcome] = store.cases.change([seen], AssignCase(to), "maria")
    assert outcome.done


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_what_changed_is_told_by_number_and_an_alert_once(open_again: Callable[[], SqlStore]) -> None:
    store = open_again()
    assert (store.changes.newest_number(), store.changes.since(0)) == (0, [])
    store.alerts.save([stolen_session(), new_pipeline()])
    first = store.changes.since(0)
    assert {each.alert_id for each in first} == {STOLEN, PIPELINE}
    assert {each.number for each in first} == {store.changes.newest_number()}
    assign(store, STOLEN)
    [later] = store.changes.since(first[0].number)
    assert later.alert_id == STOLEN
    assert [each.alert_id for each in store.changes.since(0)] == [PIPELINE, STOLEN]


def test_what_is_saved_again_is_no_change(open_again: Callable[[], SqlStore]) -> None:
    store = open_again()
    store.alerts.save([stolen_session()])
    number = store.changes.newest_number()
    store.alerts.save([stolen_session()])
    assert store.changes.newest_number() == number


def test_a_page_of_changes_never_cuts_what_changed_together(open_again: Callable[[], SqlStore]) -> None:
    store = open_again()
    store.alerts.save(variants(5))
    chosen, start = [AlertRevision(alert.alert_id, 0) for alert in variants(5)], store.changes.newest_number()
    for part in (chosen[:2], chosen[2:]):
        store.cases.change(part, AssignCase("maria"), "maria")
    assert [len(store.changes.since(start, limit)) for limit in (1, 2, 3, 500)] == [2, 2, 5, 5]


def test_anyone_who_follows_many_writers_misses_no_change(open_again: Callable[[], SqlStore]) -> None:
    """Each writer changes its own alerts over and over; a reader who asks on from the last number sees each one's last change."""
    store, writers, rounds = open_again(), 6, 8
    alerts = variants(writers)
    store.alerts.save(alerts)
    seen: dict[str, int] = {}

    def write(number: int) -> int:
        own = open_again()
        for each in range(rounds):
            assign(own, alerts[number].alert_id, f"maria{each}")
        return own.changes.since(0)[-1].number

    with ThreadPoolExecutor(writers) as pool:
        writing = [pool.submit(write, number) for number in range(writers)]
        at, over = 0, False
        while not over:
            over = not wait(writing, timeout=0.02).not_done  # and once more after that
            for change in store.changes.since(at):
                assert change.number > at or change.number in seen.values()
                seen[change.alert_id] = change.number
            at = max(seen.values(), default=0)
    assert max(each.result() for each in writing) <= at
    assert seen == {change.alert_id: change.number for change in store.changes.since(0)}
    assert at == writers * rounds + 1


# --- listening, in one process ----------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Any) -> Iterator[SqlStore]:
    made = open_store(f"sqlite:///{tmp_path}/alerts.sqlite")
    made.alerts.save([stolen_session(), new_pipeline()])
    yield made
    made.close()


async def heard(listening: ChangeBroadcaster, since: int | None, most: int) -> list[ChangeBatch]:
    """The first batches."""
    async with aclosing(listening.subscribe(since)) as batches:
        return [batch async for _, batch in zip_async(range(most), batches)]


async def zip_async(numbers: Any, batches: Any) -> Any:
    for number in numbers:
        yield number, await anext(batches)


def test_fifty_listeners_ask_the_store_no_more_often_than_one(store: SqlStore) -> None:
    asked = itertools.count()
    count = lambda *said: "changed.number >" in said[2] and next(asked)  # noqa: E731
    sql.event.listen(store.session.engine, "before_cursor_execute", count)

    async def listen() -> list[list[ChangeBatch]]:
        listening = ChangeBroadcaster(store.changes, poll_seconds=0.2)
        everybody = [asyncio.create_task(heard(listening, None, 2)) for _ in range(50)]
        async with aclosing(listening.subscribe(None)) as batches:
            await anext(batches)  # all have begun before anything changes
            while listening.listeners < 51:
                await asyncio.sleep(0)
            await asyncio.to_thread(assign, store, STOLEN)
        return await asyncio.gather(*everybody)

    for first, second in asyncio.run(listen()):
        assert first.alert_ids == ()
        assert second.alert_ids == (STOLEN,)
    assert next(asked) < 50


def test_anyone_who_hears_nothing_gets_a_sign_of_life(store: SqlStore) -> None:
    first, second = asyncio.run(heard(ChangeBroadcaster(store.changes, heartbeat=0.05), None, 2))
    assert first == second == ChangeBatch(store.changes.newest_number(), ())


def test_a_number_from_another_store_makes_no_one_deaf(store: SqlStore) -> None:
    async def listen() -> ChangeBatch:
        async with aclosing(
            ChangeBroadcaster(store.changes, poll_seconds=0.05).subscribe(1_000_000)
        ) as batches:
            await anext(batches)
            await asyncio.to_thread(assign, store, PIPELINE)
            return await anext(batches)

    assert asyncio.run(listen()).alert_ids == (PIPELINE,)


def test_anyone_who_was_away_for_longer_than_is_remembered_asks_the_store(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_feed, "HISTORY_SIZE", 2)

    async def listen() -> list[ChangeBatch]:
        listening = ChangeBroadcaster(store.changes, poll_seconds=0.02)
        start = store.changes.newest_number()
        async with aclosing(listening.subscribe(None)) as batches:
            await anext(batches)
            for to in "abc":
                await asyncio.to_thread(assign, store, STOLEN, to)
                await asyncio.to_thread(assign, store, PIPELINE, to)
                await anext(batches)
            return await heard(listening, start, 1)

    [batch] = asyncio.run(listen())
    assert set(batch.alert_ids) == {STOLEN, PIPELINE}


# --- listening over HTTP ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, SqlStore, str]]:
    """Two programs on one alert store, and a viewer's token."""
    url = f"sqlite:///{tmp_path_factory.mktemp('live')}/alerts.sqlite"
    stores = [open_store(url) for _ in range(2)]
    stores[0].alerts.save([stolen_session(), new_pipeline()])
    people = [open_account_store(store.session, SystemClock(), Settings().web) for store in stores]
    token = tokens(people[0], SystemClock().now())["viewer"]
    apps = [
        create_app(Dependencies(store, one, SystemClock(), Settings()))
        for store, one in zip(stores, people, strict=True)
    ]
    with served(apps[0]) as one, served(apps[1]) as other:
        yield one, other, stores[1], token
    for store in stores:
        store.close()


def events(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Server-sent events: id and alert ids."""
    number = 0
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "id":
            number = int(value)
        elif name == "data":
            yield number, json.loads(value)["alert_ids"]


def listening(url: str, token: str, **headers: str) -> Any:
    authorized = {"Authorization": f"Bearer {token}"} | headers
    return httpx.stream("GET", f"{url}/api/v1/live", headers=authorized, timeout=20)


def test_a_change_through_one_server_is_heard_at_the_other(
    two_servers: tuple[str, str, SqlStore, str],
) -> None:
    one, _, store, token = two_servers
    with listening(one, token) as stream:
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        told = events(stream.iter_lines())
        start, nothing = next(told)
        assert nothing == []
        assign(store, STOLEN)
        number, changed = next(told)
        assert (number > start, changed) == (True, [STOLEN])


def test_anyone_who_comes_back_with_the_last_id_misses_nothing(
    two_servers: tuple[str, str, SqlStore, str],
) -> None:
    one, other, store, token = two_servers
    with listening(one, token) as stream:
        start, _ = next(events(stream.iter_lines()))
    assign(store, PIPELINE)
    assign(store, STOLEN)
    with listening(other, token, **{"Last-Event-ID": str(start)}) as stream:
        _, changed = next(events(stream.iter_lines()))
    assert changed == [PIPELINE, STOLEN]


def test_a_stream_ends_when_it_was_asked_to(two_servers: tuple[str, str, SqlStore, str]) -> None:
    one, _, _, token = two_servers
    answer = httpx.get(f"{one}/api/v1/live?since=0&seconds=0", headers={"Authorization": f"Bearer {token}"})
    [(number, changed)] = events(iter(answer.text.splitlines()))
    assert number > 0
    assert set(changed) == {STOLEN, PIPELINE}


def test_more_than_can_be_heard_are_asked_to_come_later(
    two_servers: tuple[str, str, SqlStore, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _, _, token = two_servers
    monkeypatch.setattr(change_feed, "MAX_LISTENERS", 1)
    with listening(one, token) as stream:
        told = events(stream.iter_lines())
        next(told)
        with listening(one, token) as refused:
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "60")


def test_a_server_that_ends_waits_for_no_one_who_only_listens(store: SqlStore) -> None:
    people = open_account_store(store.session, SystemClock(), Settings().web)
    token = tokens(people, SystemClock().now())["viewer"]
    with ExitStack() as server:
        url = server.enter_context(served(create_app(Dependencies(store, people, SystemClock(), Settings()))))
        with listening(url, token) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            server.close()
            assert [line for line in lines if line.startswith("data")] == ['data: {"alert_ids": []}']


@pytest.mark.parametrize("last", ["nonsense", "-1", str(2**63)])
def test_a_last_id_that_is_none_is_refused(two_servers: tuple[str, str, SqlStore, str], last: str) -> None:
    one, _, _, token = two_servers
    with listening(one, token, **{"Last-Event-ID": last}) as refused:
        assert refused.status_code == 422
