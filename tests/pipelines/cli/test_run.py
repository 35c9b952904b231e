"""Start-up, the version, help on a bare command, and the exit statuses of docs/reference/exit-codes.md."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import pytest
import typer

from fingerprint.core.errors import FingerprintError
from fingerprint.store import open_store
from pipelines import cli
from pipelines.cli import app as application
from pipelines.cli import run
from pipelines.cli.common import with_connect_timeout
from tests.support import sample_organisation
from tests.support.memory_broker import MemoryBroker
from tests.support.memory_clients import CLIENT

SLOW_TO_IMPORT = {
    "numpy",
    "pandas",
    "pyarrow",
    "duckdb",
    "sqlalchemy",
    "pydantic",
    "torch",
    "sklearn",
    "scipy",
    "kafka",
    "alembic",
    "msgspec",
}
NO_VARIABLES: Mapping[str, str] = {}
NEEDED_FOR_LISTS = {"sqlalchemy", "pydantic"}


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Return the exit status of the command line, run in this process."""
    monkeypatch.setattr(sys, "argv", ["fingerprint", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def start(*commands: Sequence[str], environment: Mapping[str, str] = NO_VARIABLES) -> set[str]:
    """Return the modules that commands import in a process of their own."""
    code = (
        "import sys; from pipelines import cli\n"
        f"for arguments in {commands!r}:\n"
        "    sys.argv = ['fingerprint', *arguments]\n"
        "    try: cli.main()\n"
        "    except SystemExit as ended: assert not ended.code, (arguments, ended.code)\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    return set(ended.stderr.split())


@pytest.mark.parametrize("option", ["--help", "-h", "--version", "-V"])
def test_help_and_version_import_nothing_slow(option: str) -> None:
    modules = start([option])
    assert "pipelines.cli.app" in modules
    assert SLOW_TO_IMPORT & modules == set()


def test_lists_of_the_database_start_without_what_only_scoring_or_serving_needs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/alerts.sqlite"
    open_store(url).close()
    lists = ("alerts", "accounts", "deliveries", "suppressions")
    modules = start(*([name, "list", "--database", url] for name in lists))
    assert "fingerprint.store" in modules
    assert (SLOW_TO_IMPORT - NEEDED_FOR_LISTS) & modules == set()


def test_topics_are_listed_without_what_only_scoring_needs() -> None:
    """The broker of tests needs pandas itself: what the scorer adds to it is looked for."""
    broker = MemoryBroker()
    kafka = {
        "FINGERPRINT_KAFKA__CLIENT": CLIENT,
        "FINGERPRINT_KAFKA__BOOTSTRAP_SERVERS": broker.address,
    }
    modules = start(["topics", "list"], environment=kafka)
    assert "pipelines.runtime.wiring" in modules
    assert {
        "fingerprint.registry.bank",
        "fingerprint.detection.inference",
        "fingerprint.store",
    } & modules == set()


def test_a_bank_is_listed_without_the_simulator_and_the_reader_of_records(
    organisation: sample_organisation.SampleOrganisation,
) -> None:
    """pandas is needed: the features that a bank has to know are the log source's own."""
    modules = start(["bank", "list", "--bank", str(organisation.bank)])
    assert "fingerprint.registry.catalog" in modules
    assert {"pipelines.simulate", "fingerprint.adapters.event_spool", "duckdb", "scipy"} & modules == set()


def test_the_version_is_the_one_of_the_distribution(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"fingerprint {metadata.version('cloudtrail-fingerprint')}\n"


LEAVING = """
import atexit, sys, threading
from pipelines import cli
class Kept:
    def __del__(self): print("teardown")
kept = Kept()
def last():
    threading.main_thread().join()
    print("thread")
    atexit.register(print, "exit function")
threading.Thread(target=last).start()
sys.argv = ["fingerprint", *sys.argv[1:]]
cli.program()
"""


@pytest.mark.parametrize(("arguments", "status"), [(["--version"], 0), (["nonsense"], run.EXIT_ERROR)])
def test_a_program_ends_with_its_threads_and_exit_functions_and_without_a_teardown(
    arguments: list[str], status: int
) -> None:
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", LEAVING, *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == status
    assert ended.stdout.splitlines()[-2:] == ["thread", "exit function"]


def test_a_program_leaves_one_file_of_its_database(tmp_path: Path) -> None:
    """SQLite's write-ahead log is gone only when the last connection is closed."""
    file = tmp_path / "alerts.sqlite"
    open_store(f"sqlite:///{file}").close()
    prune = ("-m", "pipelines.cli", "database", "prune", "--database", f"sqlite:///{file}")
    subprocess.run([sys.executable, *prune], check=True, capture_output=True)  # noqa: S603
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("group", [(), *((name,) for name in application.COMMAND_GROUPS)])
def test_a_bare_command_or_group_prints_its_help(
    group: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, *group) == 0
    printed = capsys.readouterr()
    assert (printed.err, "Usage:" in printed.out) == ("", True)


def test_a_shell_completes_commands() -> None:
    environment = {
        "_FINGERPRINT_COMPLETE": "complete_bash",
        "COMP_WORDS": "fingerprint aler",
        "COMP_CWORD": "1",
    }
    ended = subprocess.run(
        [sys.executable, "-c", "from pipelines import cli; cli.main()"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert ended.stdout.split() == ["alerts"], ended.stderr


def test_a_full_disk_is_a_sentence_that_says_where_to_make_room(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "bank/x")

    monkeypatch.setattr(application, "app_for", full)
    assert call(monkeypatch, "score", "x") == run.EXIT_ERROR
    said = capsys.readouterr().err
    assert "bank/x: the disk is full" in said
    assert "TMPDIR" in said


def test_a_defect_ends_with_status_70_and_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("at postgresql://u:hunter2@db/x")

    monkeypatch.setattr(application, "app_for", lambda _: broken)
    assert call(monkeypatch) == run.EXIT_UNEXPECTED
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert "hunter2" not in error


@pytest.mark.parametrize(
    "error",
    [FingerprintError("no bank in x\x1b[2J"), FileNotFoundError(2, "gone", "x\x1b[2J"), KeyError("x\x1b[2J")],
)
def test_what_an_error_names_steers_no_terminal(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(**_: object) -> None:
        raise error

    monkeypatch.setattr(application, "app_for", lambda _: failing)
    assert call(monkeypatch) != 0
    printed = capsys.readouterr().err
    assert "\x1b" not in printed
    assert "x\\x1b[2J" in printed


@pytest.mark.parametrize(
    ("raised", "status"), [(KeyboardInterrupt, run.EXIT_INTERRUPTED), (typer.Abort, run.EXIT_INTERRUPTED)]
)
def test_an_interrupt_ends_with_status_130(
    raised: type[BaseException], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(**_: object) -> None:
        raise raised

    monkeypatch.setattr(application, "app_for", lambda _: interrupted)
    assert call(monkeypatch) == status


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "Input should be a valid integer, unable to parse string as an integer",
            "--n has to be a whole number",
        ),
        ("Input should be greater than 0", "--n has to be above 0"),
        ("Input should be less than or equal to 9", "--n has to be at most 9"),
        ("Value error, 'b' is not one of 'bar', 'foo'.", "--n is 'b', and has to be one of bar, foo"),
        (
            "Value error, 'bat' is not one of 'bar', 'foo'.",
            "--n is 'bat', and has to be one of bar, foo; did you mean bar?",
        ),
        ("something else.", "--n: something else"),
    ],
)
def test_a_bad_value_is_described_in_our_words(text: str, sentence: str) -> None:
    assert run._bad_value("--n", text) == sentence


def test_an_unreachable_database_server_is_given_up_after_five_seconds() -> None:
    assert with_connect_timeout("sqlite:///x.sqlite") == "sqlite:///x.sqlite"
    assert with_connect_timeout("postgresql://u@h/d") == "postgresql://u@h/d?connect_timeout=5"
    assert with_connect_timeout("postgresql://u@h/d?a=b") == "postgresql://u@h/d?a=b&connect_timeout=5"
    kept = "postgresql://u@h/d?connect_timeout=60"
    assert with_connect_timeout(kept) == kept
