"""A cluster of Dask's worker processes: on this machine, on its GPUs, or behind a scheduler elsewhere.

Example:
    >>> with open_dask_pool(Workers(scheduler="dask", processes=4)) as workers:
    ...     for place, figures in workers.map_unordered(partial(learn, folder), pieces):
    ...         progress(place, figures)

A worker that dies is replaced, and another repeats its piece. Pieces are submitted one by one as there is room. So a hundred
thousand cost the scheduler no more than a few, and none waits at a worker that another piece kills: Dask blames all pieces that a
dead worker had.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import dask
from distributed import Client, LocalCluster, Security, as_completed
from distributed.comm.core import CommClosedError
from distributed.core import Status
from distributed.scheduler import KilledWorker

from fingerprint.adapters.retries import retry_steadily
from fingerprint.core.errors import FingerprintError
from fingerprint.core.extras import DISTRIBUTION
from fingerprint.core.settings import Workers as Options

MAX_ATTEMPTS = 3  # workers that one piece may kill before it fails
SCHEDULER_TIMEOUT_SECONDS = 10.0  # for an answer of the scheduler
CLOSE_TIMEOUT_SECONDS = 5.0  # for closing again while a connection expires
SCHEDULER_GONE = (CancelledError, CommClosedError, asyncio.CancelledError, OSError, TimeoutError)
SCHEDULER_GONE_MESSAGE = (
    "the scheduler of the workers is gone: start it again, and this command; what is done stays done"
)
T = TypeVar("T")
R = TypeVar("R")

LOOPBACK = "127.0.0.1"


class DaskWorkerPool:
    """Workers behind a Dask scheduler, whose client the caller opens and closes. Implement `ports.worker_pool.WorkerPool`."""

    def __init__(self, client: Any) -> None:
        self.client = client

    @property
    def parallelism(self) -> int:
        """The number of threads of all living workers. Raise FingerprintError if the scheduler is gone."""
        try:
            return max(1, sum(self.client.nthreads().values()))
        except SCHEDULER_GONE:
            raise FingerprintError(SCHEDULER_GONE_MESSAGE) from None

    def map_unordered(self, work: Callable[[T], R], pieces: Sequence[T]) -> Iterator[tuple[int, R]]:
        """Yield index and result of each piece. Raise FingerprintError if one killed its workers, or the scheduler is gone."""
        waiting = iter(enumerate(pieces))
        under_way: dict[Any, int] = {}
        done = as_completed(loop=self.client.loop)
        try:
            self._submit(work, waiting, under_way, done)
            while under_way:
                future = next(done)
                place = under_way.pop(future)
                answer = _result_of(future, place, pieces[place])
                self._submit(work, waiting, under_way, done)
                yield place, answer
        finally:
            if under_way and self._is_running:
                with suppress(*SCHEDULER_GONE):  # the error raised before says so
                    self.client.cancel(list(under_way), force=True)

    @property
    def _is_running(self) -> bool:
        return bool(self.client.status == "running")

    def _submit(
        self,
        work: Callable[[T], R],
        waiting: Iterator[tuple[int, T]],
        under_way: dict[Any, int],
        done: Any,
    ) -> None:
        """Submit pieces until every thread has one or none is left."""
        while len(under_way) < self.parallelism and (following := next(waiting, None)) is not None:
            place, piece = following
            future = self.client.submit(work, piece, pure=False)
            under_way[future] = place
            done.add(future)


def _result_of(future: Any, place: int, piece: object) -> Any:
    try:
        return future.result()
    except KilledWorker as error:
        raise FingerprintError(
            f"piece {place} ({piece}) killed the {error.allowed_failures + 1} workers that took it, the last one "
            f"{error.last_worker.address}: look at that machine's log, and whether its memory is enough"
        ) from None
    except (CancelledError, CommClosedError, asyncio.CancelledError):
        raise FingerprintError(SCHEDULER_GONE_MESSAGE) from None


# --- where they are ---------------------------------------------------------------------------------------------------


@contextmanager
def open_dask_pool(options: Options) -> Iterator[DaskWorkerPool]:
    """Open the workers of the settings. Workers on this machine end with the block, even after an error."""
    with dask.config.set({"distributed.scheduler.allowed-failures": MAX_ATTEMPTS - 1}):
        if options.scheduler in ("dask", "dask-cuda"):
            cluster = _start_cluster(options)
            with (
                _closed_after(_close_cluster, cluster),
                _closed_after(_close_client, Client(cluster)) as client,
            ):
                yield DaskWorkerPool(client)
        else:
            with _closed_after(_close_client, _connect_client(options)) as client:
                _check_workers(client, options.scheduler)
                yield DaskWorkerPool(client)


def _start_cluster(options: Options) -> Any:
    """Start a local cluster, one thread a process: NumPy's own threads would share the same cores."""
    common = {
        "threads_per_worker": 1,
        "host": LOOPBACK,
        "dashboard_address": f"{LOOPBACK}:0",  # it answers requests for its health in any case
        "scheduler_kwargs": {"dashboard": False},
        "memory_limit": "auto",  # of each process, its share of the machine
        "silence_logs": "ERROR",
    }
    if options.scheduler == "dask":
        return LocalCluster(n_workers=options.processes, processes=True, **common)
    try:
        from dask_cuda import LocalCUDACluster
    except ImportError as error:
        raise FingerprintError(
            f"workers.scheduler dask-cuda needs a package that is not there ({error.name}): pip install dask-cuda"
        ) from None
    return LocalCUDACluster(**common)


def _connect_client(options: Options) -> Any:
    try:
        return Client(options.scheduler, timeout=SCHEDULER_TIMEOUT_SECONDS, security=_security(options))
    except (OSError, TimeoutError, CommClosedError) as error:
        raise FingerprintError(
            f"no scheduler answers at {options.scheduler} within {SCHEDULER_TIMEOUT_SECONDS:g} seconds "
            f"({_first_line(error)}): start `dask scheduler` there, or name another in workers.scheduler"
        ) from None
    except ValueError as error:
        raise FingerprintError(f"workers.scheduler {options.scheduler}: {_first_line(error)}") from None


@contextmanager
def _closed_after(close: Callable[[Any], None], opened: Any) -> Iterator[Any]:
    try:
        yield opened
    finally:
        close(opened)


def _close_client(client: Any) -> None:
    """Close `client`; repeat that while one of its connections is about to expire.

    Without a scheduler, `distributed` cancels its connections when it closes. `asyncio` refuses that for a connection that
    expires at this moment (RuntimeError "Cannot change state of expiring Timeout"), and the error would hide the real one.
    """
    retry_steadily(client.close, lambda error: isinstance(error, RuntimeError), CLOSE_TIMEOUT_SECONDS)


def _close_cluster(cluster: Any) -> None:
    """Close `cluster`; repeat that once if a worker was just being started in place of one that died.

    `distributed` cannot join a process without a number (AssertionError "can only join a started process"), and the error would
    hide the real one. The second call would wait for the first one, unless that has failed.
    """
    try:
        cluster.close()
    except AssertionError:
        cluster.status = Status.failed
        cluster.close()


def _security(options: Options) -> Security | None:
    if not options.scheduler.startswith("tls://"):
        return None
    options.check_files()
    return Security(
        require_encryption=True,
        tls_ca_file=options.ca_file,
        tls_client_cert=options.certificate_file,
        tls_client_key=options.key_file,
    )


def _check_workers(client: Any, where: str) -> None:
    """Raise FingerprintError without workers, or if their versions differ from ours: the same code must do every piece."""
    if not client.nthreads():
        raise FingerprintError(f"the scheduler at {where} has no workers: start `dask worker {where}`")
    try:
        client.get_versions(check=True)
    except ValueError as error:
        raise FingerprintError(
            f"the cluster at {where} has other versions than this program: {_first_line(error)}"
        ) from None
    own_version = importlib.metadata.version(DISTRIBUTION)
    versions = client.run(importlib.metadata.version, DISTRIBUTION, on_error="return")
    for worker, version in versions.items():
        if version != own_version:
            there = version if isinstance(version, str) else "not at all"
            raise FingerprintError(
                f"worker {worker} has {DISTRIBUTION} {there}, here it is {own_version}: install the same"
            )


def _first_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
