"""A cluster that someone else started: a scheduler with its workers, in processes of their own.

    with Cluster.started(workers=2) as cluster:
        Workers(where=cluster.address)

`python -m tests.support.services.dask_cluster WORKERS [CA CERTIFICATE KEY]` is that cluster: it prints its address, and ends
when its standard input does, or when it is killed; its workers end with it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cluster:
    address: str
    process: subprocess.Popen[str]

    @classmethod
    @contextmanager
    def started(cls, workers: int, *tls: Path) -> Iterator[Cluster]:
        """`tls`: whom to trust, its own certificate and key; without it speaks in clear."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.services.dask_cluster", str(workers), *map(str, tls)],
            cwd=Path(__file__).parents[3],  # where its workers find the work of the tests
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout is not None
            try:
                yield cls(process.stdout.readline().strip(), process)
            finally:
                process.kill()


def serve(workers: int, *tls: str) -> None:
    from distributed import LocalCluster, Security

    guarded = {}
    if tls:
        own = {
            f"tls_{role}_{part}": file
            for role in ("scheduler", "worker", "client")
            for part, file in (("cert", tls[1]), ("key", tls[2]))
        }
        security = Security(tls_ca_file=tls[0], require_encryption=True, **own)
        guarded = {"security": security, "protocol": "tls://"}
    with LocalCluster(
        n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", **guarded
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    serve(int(sys.argv[1]), *sys.argv[2:])
