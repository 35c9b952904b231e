"""One contract for who does pieces of work, this process and a cluster of others; and what only a cluster can suffer."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import dask
import pytest
from distributed import Nanny
from distributed.core import Status

from fingerprint.adapters import worker_pool
from fingerprint.adapters.system import InProcessPool
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.worker_pool import WorkerPool
from fingerprint.core.settings import Workers as Options
from pipelines.runtime import wiring
from tests.support.pieces_of_work import broken, deadly, endless, interrupted, refused, squared
from tests.support.services.certificates import Authority
from tests.support.services.dask_cluster import Cluster

CLUSTERS = ("dask",)


def until(condition: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass in time"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def cluster() -> Iterator[WorkerPool]:
    """Two worker processes on this machine."""
    with wiring.open_worker_pool(Options(scheduler="dask", processes=2)) as opened:
        yield opened


@pytest.fixture(params=["local", *CLUSTERS])
def workers(request: pytest.FixtureRequest) -> WorkerPool:
    return InProcessPool() if request.param == "local" else request.getfixturevalue("cluster")


# --- the contract -----------------------------------------------------------------------------------------------------


def test_every_piece_is_done_once_and_named_by_its_place(workers: WorkerPool) -> None:
    assert sorted(workers.map_unordered(squared, [5, 3, 5])) == [(0, 25), (1, 9), (2, 25)]


def test_of_no_pieces_nothing_comes(workers: WorkerPool) -> None:
    assert list(workers.map_unordered(squared, [])) == []


def test_more_pieces_than_workers_all_come(workers: WorkerPool) -> None:
    assert dict(workers.map_unordered(squared, range(40))) == {place: place**2 for place in range(40)}


def test_an_error_of_the_work_ends_all_of_it_and_keeps_its_sentence(workers: WorkerPool) -> None:
    with pytest.raises(FingerprintError, match=r"^the folder is full: make room$"):
        list(workers.map_unordered(partial(refused, "the folder is full: make room"), range(4)))
    assert dict(workers.map_unordered(squared, [3])) == {0: 9}, "and the next caller is served"


def test_a_fault_in_the_work_is_raised_as_it_is(workers: WorkerPool) -> None:
    with pytest.raises(ZeroDivisionError):
        list(workers.map_unordered(broken, [1, 0]))


def test_anyone_who_stops_asking_leaves_the_workers_free(workers: WorkerPool) -> None:
    for place, _ in workers.map_unordered(squared, range(10)):
        if place >= 0:
            break
    assert dict(workers.map_unordered(squared, [3])) == {0: 9}


# --- what a cluster can suffer ----------------------------------------------------------------------------------------


def test_a_worker_killed_in_the_middle_of_a_piece_changes_nothing(
    cluster: WorkerPool, tmp_path: Path
) -> None:
    def kill() -> None:
        until((tmp_path / "pid").exists)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    done = list(cluster.map_unordered(partial(interrupted, tmp_path), range(6)))
    killer.join()
    assert sorted(done) == [(place, place**2) for place in range(6)]


def test_a_piece_that_kills_every_worker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "MAX_ATTEMPTS", 2)
    with (
        wiring.open_worker_pool(Options(scheduler="dask", processes=1)) as workers,
        pytest.raises(FingerprintError, match=r"piece 2 \(2\) killed the 2 workers that took it"),
    ):
        list(workers.map_unordered(deadly, range(4)))


def test_a_worker_that_is_being_started_as_the_cluster_closes_hides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that died is started again; a cluster that closes just then cannot join it: seen one time in some hundreds."""
    killed, kill = list[object](), Nanny.kill

    async def kill_once(nanny: Nanny, **options: object) -> None:
        await kill(nanny, **options)
        killed.append(nanny)
        if len(killed) == 1:
            raise AssertionError("can only join a started process")

    with wiring.open_worker_pool(Options(scheduler="dask", processes=2)) as workers:
        cluster = workers.client.cluster
        monkeypatch.setattr(Nanny, "kill", kill_once)
    assert (cluster.status, len(killed)) == (Status.closed, 2)
    assert not cluster._loop_runner.is_started()


@pytest.fixture(scope="module")
def others() -> Iterator[Cluster]:
    """A cluster that is not ours, of two workers."""
    with Cluster.started(2) as started:
        yield started


def test_a_running_cluster_is_used_by_its_address_and_stays(others: Cluster) -> None:
    for _ in range(2):
        with wiring.open_worker_pool(Options(scheduler=others.address)) as workers:
            assert workers.parallelism == 2
            assert dict(workers.map_unordered(squared, [2, 4])) == {0: 4, 1: 16}


def test_a_scheduler_that_goes_away_is_one_sentence_in_the_middle_and_before_the_work(tmp_path: Path) -> None:
    def kill() -> None:
        until((tmp_path / "begun-0").exists)
        others.process.kill()

    with (
        Cluster.started(1) as others,
        wiring.open_worker_pool(Options(scheduler=others.address)) as idle,
        wiring.open_worker_pool(Options(scheduler=others.address)) as workers,
    ):
        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(FingerprintError, match="the scheduler of the workers is gone"):
            list(workers.map_unordered(partial(endless, tmp_path), range(2)))
        killer.join()
        others.process.wait()
        with (
            dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
            pytest.raises(FingerprintError, match="the scheduler of the workers is gone"),
        ):
            list(idle.map_unordered(squared, range(2)))


def test_a_connection_that_expires_as_the_client_closes_hides_nothing(others: Cluster) -> None:
    """Dask's pool of connections raises then: seen when a scheduler had gone away, one time in some hundreds."""
    expiring: list[str] = []

    def cancel(reason: str) -> None:
        if not expiring:
            expiring.append(reason)
            raise RuntimeError("Cannot change state of expiring Timeout")

    with wiring.open_worker_pool(Options(scheduler=others.address)) as workers:
        client = workers.client
        client.rpc._connecting[others.address].add(cancel)
        client.loop.add_callback(client.loop.call_later, 1, client.rpc._connecting.clear)
    assert expiring == ["ConnectionPool closing."]
    assert client.status == "closed"
    assert not client._loop_runner.is_started()


def test_a_scheduler_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "SCHEDULER_TIMEOUT_SECONDS", 1.0)
    with (
        pytest.raises(
            FingerprintError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9 within 1 seconds"
        ),
        wiring.open_worker_pool(Options(scheduler="tcp://127.0.0.1:9")),
    ):
        pass


def test_a_scheduler_without_workers_is_one_sentence() -> None:
    with (
        Cluster.started(0) as others,
        pytest.raises(FingerprintError, match="has no workers: start `dask worker tcp://"),
        wiring.open_worker_pool(Options(scheduler=others.address)),
    ):
        pass


def test_over_tls_only_who_proves_itself_is_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "SCHEDULER_TIMEOUT_SECONDS", 5.0)
    authority, stranger = Authority(tmp_path / "a", "the tests"), Authority(tmp_path / "b", "the tests")
    server, ours = authority.certify("scheduler", hosts=("127.0.0.1",)), authority.certify("we")
    theirs = stranger.certify("we")
    with Cluster.started(1, authority.file, server.certificate, server.key) as others:
        ours_, theirs_ = (
            Options(
                scheduler=others.address,
                ca_file=str(authority.file),
                certificate_file=str(own.certificate),
                key_file=str(own.key),
            )
            for own in (ours, theirs)
        )
        with wiring.open_worker_pool(ours_) as workers:
            assert dict(workers.map_unordered(squared, [2])) == {0: 4}
        with (
            pytest.raises(FingerprintError, match="no scheduler answers at tls://"),
            wiring.open_worker_pool(theirs_),
        ):
            pass


def test_tls_without_its_files_is_refused_at_start() -> None:
    with pytest.raises(ValueError, match="needs ca_file, certificate_file and key_file"):
        Options(scheduler="tls://scheduler:8786")


def test_gpus_without_their_package_are_one_sentence() -> None:
    with (
        pytest.raises(
            FingerprintError, match=r"workers.scheduler dask-cuda needs a package that is not there"
        ),
        wiring.open_worker_pool(Options(scheduler="dask-cuda")),
    ):
        pass
