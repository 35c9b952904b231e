"""A real PostgreSQL server for the tests: its own data on a free port of this machine, killed and started again.

Example:
    >>> with Postgres.started() as server:
    ...     server.fresh()                                # the URL of a database of its own
    'postgresql://store@127.0.0.1:40123/store0'

PostgreSQL 15 or newer, of Debian's packages: those that are installed, or they are fetched once with apt-get, which needs no root
, and unpacked in `build/services/postgres`, or in the folder that POSTGRES_TEST_PACKAGES names. PostgreSQL refuses root: then its
user is `no one`. Its collation and its time zone are such that an alert store that leans on either is found out.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tests.support.services.debian_packages import Unavailable, fetch, libraries, said
from tests.support.services.ports import free_ports

HERE = Path(__file__).parent
INSTALLED = Path("/")
PROGRAMS = "usr/lib/postgresql/*/bin"
OLDEST = 15  # the first with ICU's collations for a whole cluster
ONE_LINE = "sudo apt-get install -y postgresql"
GUARDED = "guarded"  # the one name, once a test has made it, that needs its password; no one else does
PATIENCE = 60.0  # seconds a start may take before it is an error
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "autovacuum": "off",  # it goes through hundreds of databases again and again
    "full_page_writes": "off",
    "timezone": "Asia/Kolkata",
}


def programs() -> Path:
    """The folder of initdb and postgres, fetched if they are not there yet."""
    if found := _newest(INSTALLED):
        return found
    folder = Path(os.environ.get("POSTGRES_TEST_PACKAGES") or HERE.parents[2] / "build/services/postgres")
    if not folder.is_dir():
        fetch("postgresql", folder)
    if found := _newest(folder):
        return found
    raise Unavailable(f"no PostgreSQL {OLDEST} or newer is among this machine's packages; try: {ONE_LINE}")


def _newest(root: Path) -> Path | None:
    folders = [each for each in root.glob(PROGRAMS) if (each / "initdb").is_file()]
    versions = {int(each.parent.name): each for each in folders if each.parent.name.isdecimal()}
    newest = max(versions, default=0)
    return versions[newest] if newest >= OLDEST else None


EMPTY = "template1"  # PostgreSQL's own
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of ours is made in it
ROOM = 4 << 30  # bytes; a database takes 9 MB, and a file of tests makes a hundred


def _where() -> str | None:
    """The folder for a server's data: in memory, where a database is copied in a tenth of the CPU, if there is room."""
    return str(MEMORY) if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM else None


@dataclass
class Postgres:
    """One server; its port and data outlive the process, so `kill` and `start` are a crash and a recovery."""

    folder: Path
    programs: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count)
    template: str = EMPTY  # the database that fresh ones are copied from

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Postgres]:
        """A server that answers, until the block ends. Unavailable where it cannot be had."""
        with tempfile.TemporaryDirectory(prefix="store-", dir=_where(), ignore_cleanup_errors=True) as folder:
            if not os.geteuid():
                shutil.chown(folder, "nobody")
            server = cls(Path(folder), programs(), free_ports(["server"])["server"])
            server._format()
            try:
                server.start()
                yield server
            finally:
                server.kill()

    def empty(self) -> str:
        """The URL of a database without tables."""
        return self._copy_of(EMPTY)

    def fresh(self) -> str:
        """The URL of a database that no one has used: a copy of the one that `keep_tables_of` was given, or an empty one."""
        return self._copy_of(self.template)

    def keep_tables_of(self, url: str) -> None:
        """Copy this database, to which no one is connected any more, from now on: a third of the time of making its tables."""
        self.template = url.rpartition("/")[2]

    def _copy_of(self, template: str) -> str:
        name = f"store{next(self.numbers)}"
        with self.talk() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return self.url(name)

    def drop_copies(self) -> None:
        """Remove every database but the one that fresh ones are copied from."""
        with self.talk() as connection:
            made = connection.execute(
                "SELECT datname FROM pg_database WHERE datname LIKE 'store%'"
            ).fetchall()
            for (name,) in made:
                if name != self.template:
                    connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def url(self, database: str) -> str:
        return f"postgresql://store@127.0.0.1:{self.port}/{database}"

    def talk(self, url: str = "") -> psycopg.Connection[Any]:
        """A connection beside the alert store's, each statement for itself."""
        return psycopg.connect(url or self.url("postgres"), autocommit=True, connect_timeout=5)

    def start(self) -> None:
        """Start, on the same port and data as before, and wait until it answers."""
        settings = SETTINGS | {"port": str(self.port), "unix_socket_directories": str(self.folder)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            command = [str(self.programs / "postgres"), "-D", str(self.data), *options]
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, **self._as_whom()
            )
        deadline = time.monotonic() + PATIENCE
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"PostgreSQL did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.02)

    def answers(self) -> bool:
        """Whether it takes logins: while it recovers its port is open, and it refuses."""
        try:
            self.talk().close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """SIGINT: anyone who is connected is thrown out, as in an administrator's restart."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """SIGQUIT: nothing is flushed; all its processes end at once, and what it had shared is given back."""
        self._end(signal.SIGQUIT)

    def _end(self, how: signal.Signals) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(PATIENCE)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def _format(self) -> None:
        collation = ["--encoding=UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US"]
        command = [str(self.programs / "initdb"), "-D", str(self.data), "-U", "store", "--auth=trust"]
        said(*command, "--no-sync", *collation, **self._as_whom())
        rules = self.data / "pg_hba.conf"  # the first that fits counts
        rules.write_text(f"host all {GUARDED} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")

    def _as_whom(self) -> dict[str, Any]:
        """Options of a process: whose it is, where it works, and where it finds unpacked libraries."""
        root = self.programs.parents[4]
        found = libraries(root) if root != INSTALLED else {}
        whose = {"user": "nobody", "group": "nogroup", "extra_groups": []} if not os.geteuid() else {}
        return {"cwd": self.folder, "env": os.environ | found, **whose}
