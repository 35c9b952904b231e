"""An attacker reads what programs write: manifests, figures, errors, logs, pages, files. No secret of the settings is there."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel, SecretStr

from fingerprint.adapters import logs
from fingerprint.adapters.checkpoints.object_store import open_file_store
from fingerprint.adapters.files import find_files
from fingerprint.core import private_files
from fingerprint.core.credentials import holds_credentials, mask_credentials
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings, load_settings, read_secret
from fingerprint.registry import state_files
from fingerprint.registry.bank import TRAINING_SECTIONS
from fingerprint.registry.bank_files import open_bank
from fingerprint.state.scorer_state import ScorerState
from fingerprint.store import SqlStore, open_store
from pipelines.cli.console import no_progress
from pipelines.runtime import wiring
from pipelines.train import train_bank
from tests.support import sample_organisation
from tests.support.alerts import new_pipeline, stolen_session
from tests.support.cpu_time import runs_within
from tests.support.dump_tables import dump_tables
from tests.support.forked import fingerprint_under_the_usual_umask
from tests.support.http_receiver import Listening, listening
from tests.support.web_app import Site

CANARY = "c4n4ry-n3v3r-sh0wn"
IN_URL = f"https://maria:{CANARY}@db.example.com/x"
OF_SECRETS = re.compile(r"password|token|secret|credential|key|webhook")


# --- settings ---------------------------------------------------------------------------------------------------------


def settings_of(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every setting by its path, with its type; of sections that have names of their own one named `soc`."""
    for name, field in model.model_fields.items():
        kind, several = field.annotation, get_origin(field.annotation) is dict
        inner = get_args(kind)[1] if several else kind
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from settings_of(inner, (*path, name, *(["soc"] if several else [])))
        else:
            yield (*path, name), kind


def holds(kind: Any, wanted: type) -> bool:
    return kind is wanted or any(holds(each, wanted) for each in get_args(kind))


EVERY = [
    pytest.param(path, kind, id=".".join(path))
    for path, kind in settings_of(Settings)
    if holds(kind, str) or holds(kind, SecretStr)
]


def test_every_setting_is_walked() -> None:
    paths = {param.id for param in EVERY}
    assert {
        "database.url",
        "deliver.soc.url",
        "web.oidc.issuer",
        "kafka.bootstrap_servers",
        "checkpoints.url",
    } <= paths


@pytest.mark.parametrize(("path", "kind"), EVERY)
def test_a_setting_of_text_refuses_a_password_or_is_secret_by_its_type(
    path: tuple[str, ...], kind: Any
) -> None:
    """Also one that someone adds: none is named by this test."""
    if OF_SECRETS.search(path[-1]) and not path[-1].endswith(("_file", "_files")):
        assert not holds(kind, str), (
            f"{path[-1]} is called like a secret: make it a SecretStr, or a file that holds it"
        )
    table: Any = (
        {"soc": IN_URL} if get_origin(kind) is dict else [IN_URL] if get_origin(kind) is tuple else IN_URL
    )
    for name in reversed(path):
        table = {name: table}
    if holds(kind, SecretStr):
        taken = Settings.model_validate(table)
        assert CANARY not in f"{taken!r} {taken} {taken.model_dump_json()} {taken.model_dump()}"
        return
    with pytest.raises(ValueError, match=r"validation error") as caught:
        Settings.model_validate(table)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["FINGERPRINT_DATABASE__URL", "FINGERPRINT_CHECKPOINTS__URL", "FINGERPRINT_KAFKA__BOOTSTRAP_SERVERS"],
)
def test_a_password_in_the_environment_is_refused_in_a_sentence_that_says_where_it_belongs(name: str) -> None:
    with pytest.raises(FingerprintError, match="password_file") as caught:
        load_settings(environment={name: IN_URL})
    assert CANARY not in str(caught.value)


# --- what programs write -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def receiver() -> Iterator[Listening]:
    """Refuses what it is sent, and repeats the path in its answer, as many do."""
    with listening() as listen:
        yield listen(status=404, answer=f"Cannot POST /services/{CANARY}".encode())


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory, receiver: Listening) -> dict[str, str]:
    """An environment with the canary in every secret: in the URL of a receiver, and in all files."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "secret").write_text(CANARY)
    keys = (
        "KAFKA__SASL_PASSWORD_FILE",
        "KAFKA__SSL_KEY_PASSWORD_FILE",
        "KAFKA__SASL_OAUTH_TOKEN_FILE",
        "WEB__OIDC__CLIENT_SECRET_FILE",
    )
    return {
        **{f"FINGERPRINT_{key}": str(folder / "secret") for key in keys},
        "FINGERPRINT_DATABASE__URL": f"sqlite:///{folder}/alerts.sqlite",
        "FINGERPRINT_HEALTH__PORT": "0",
        "FINGERPRINT_DELIVER__SOC__URL": receiver.url(path=f"/services/{CANARY}?token={CANARY}"),
        "FINGERPRINT_DELIVER__SOC__ALLOW_HTTP": "true",
        "FINGERPRINT_DELIVER__SOC__ALLOWED_NETWORKS": "127.0.0.1",
        "FINGERPRINT_DELIVER__SOC__INCLUDE_EXISTING": "true",
    }


@pytest.fixture(scope="module")
def learned(
    organisation: sample_organisation.SampleOrganisation,
    canaries: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A bank of two days, trained with those settings."""
    folder = tmp_path_factory.mktemp("canary") / "bank"
    train_bank(organisation.days[:2], folder, load_settings(environment=canaries), no_progress, store="none")
    return folder


def program(environment: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    """In a process of its own, under the usual umask."""
    arguments = list(map(str, words))
    process = fingerprint_under_the_usual_umask(*arguments, environment={**os.environ, **environment})
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(arguments, process.wait(), out, err)


def test_a_bank_keeps_the_settings_that_shape_it_and_no_others(
    learned: Path, canaries: dict[str, str]
) -> None:
    (manifest,) = learned.glob("versions/*/manifest.json")
    assert set(json.loads(manifest.read_text())["settings"]) == set(TRAINING_SECTIONS)
    assert not [
        file for file in learned.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()
    ]
    shown = program(canaries, "bank", "show", "--json", "--bank", learned)
    assert json.loads(shown.stdout)["settings"]["spectral"]
    assert CANARY not in shown.stdout + shown.stderr


def test_a_delivery_that_fails_says_nothing_of_the_url_anywhere(
    canaries: dict[str, str], receiver: Listening
) -> None:
    open_store(canaries["FINGERPRINT_DATABASE__URL"]).alerts.save([stolen_session(), new_pipeline()])
    sent = program(canaries, "deliver", "--once", "--json")
    assert CANARY in receiver.got[-1].path
    assert "Cannot POST" in sent.stderr
    listed = program(canaries, "deliveries", "list", "--json")
    assert "answered 404" in listed.stdout
    said = [sent.stdout, sent.stderr, listed.stdout, listed.stderr]
    assert CANARY not in "".join(
        [*said, *dump_tables(open_store(canaries["FINGERPRINT_DATABASE__URL"])).values()]
    )


def test_neither_help_nor_backend_nor_a_store_that_does_not_answer_says_it(
    canaries: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "password").write_text(CANARY)
    away = f"postgresql://store@127.0.0.1:1/store?password_file={tmp_path}/password"
    answers = [
        program(canaries, "serve", "--help"),
        program(canaries, "backend", "--json"),
        program(canaries, "alerts", "list", "--database", away),
        program(canaries, "alerts", "list", "--database", f"postgresql://store:{CANARY}@127.0.0.1:1/store"),
        program(canaries, "train", IN_URL, "--bank", str(tmp_path / "bank")),
    ]
    assert [each.returncode for each in answers] == [0, 0, 2, 2, 2]
    assert not [each.args for each in answers if CANARY in each.stdout + each.stderr]


def test_what_travels_to_workers_has_no_receiver(canaries: dict[str, str]) -> None:
    loaded = load_settings(environment=canaries)
    assert loaded.deliver
    assert loaded.without_receivers().deliver == {}


def test_pages_and_the_api_say_it_nowhere(canaries: dict[str, str]) -> None:
    site = Site.of(open_store(canaries["FINGERPRINT_DATABASE__URL"]), load_settings(environment=canaries))
    for path in (
        "/",
        "/banks",
        "/suppressions",
        "/audit",
        "/api/v1/banks",
        "/api/v1/audit",
        "/readyz",
        "/metrics",
        "/openapi.json",
    ):
        assert CANARY not in site.client("admin").get(path).text, path


@pytest.mark.parametrize(
    "url", [IN_URL, f"s3://maria:{CANARY}@bucket/x", f"https://b.s3/x?X-Amz-Signature={CANARY}"]
)
def test_sources_and_queues_are_not_named_by_urls_that_hold_one(url: str) -> None:
    for work in (
        lambda: find_files([url]),
        lambda: wiring.open_object_queue(url, load_settings(environment={}).sqs).__enter__(),
    ):
        with pytest.raises(FingerprintError, match="no password or token") as caught:
            work()
        assert CANARY not in str(caught.value)


def test_what_libraries_repeat_from_a_url_is_masked_in_log_lines_and_tracebacks() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.json_formatter())
    log = logging.Logger("tests")
    log.addHandler(handler)
    try:
        raise OSError(f"Could not connect to the endpoint URL: {IN_URL}?X-Amz-Security-Token={CANARY}")
    except OSError:
        log.exception("unforeseen %s", IN_URL, extra={"fields": {"url": [IN_URL]}})
    assert "unforeseen https://***@db.example.com/x" in stream.getvalue()
    assert CANARY not in stream.getvalue()
    code = f"from pipelines import cli; from pipelines.cli import app; app.app_for = lambda _: int('{IN_URL}'); cli.main()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert "ValueError" in ended.stderr
    assert CANARY not in ended.stderr.replace(code, "")


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://store:hunter/2@db/store",
        "postgresql://store:hunter?2#@db/store",
        "cannot connect: host=db password=hunter2",
        "https://hunter2@chat.example.com/T0",
    ],
)
def test_a_password_is_found_whatever_it_is_made_of(text: str) -> None:
    assert "hunter" not in mask_credentials(text)
    assert mask_credentials(text) != text


@pytest.mark.parametrize(
    "text",
    ["://a:", "?password", "https://", "?a=", ":", "://:", "?passwd=x", "@", "://a:b", "?secret-", "&a=b?"],
)
def test_masking_takes_linear_time_whatever_an_attacker_wrote(text: str) -> None:
    worst = (text * (1 << 20))[: 1 << 20]
    assert runs_within(3, lambda: (holds_credentials(worst), mask_credentials(f"https://{worst}")))


# --- files -------------------------------------------------------------------------------------------------------------


def exposed(folder: Path) -> list[str]:
    """What others than the owner may do anything with."""
    return [str(each) for each in [folder, *folder.rglob("*")] if stat.S_IMODE(each.stat().st_mode) & 0o077]


@pytest.fixture
def usual() -> Iterator[None]:
    """The umask that most machines have."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def store_in(folder: Path) -> SqlStore:
    folder.mkdir(mode=0o700)
    store = open_store(f"sqlite:///{folder}/alerts.sqlite")
    store.alerts.save([stolen_session()])
    assert len(list(folder.iterdir())) == 3, "its -wal and -shm lie beside it while it is open"
    return store


def checkpoints_in(folder: Path) -> None:
    store = open_file_store(str(folder))
    store.write("events/3/parts/abc", b"x")
    store.create_exclusive("events/3/manifest-1.json", b"{}")


MAKERS: dict[str, Callable[[Path], object]] = {
    "store": store_in,
    "scorer_state": lambda folder: state_files.save_state(ScorerState(Settings()), folder),
    "checkpoints": checkpoints_in,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_written_is_readable_by_its_owner_alone(kind: str, tmp_path: Path, usual: None) -> None:
    kept = MAKERS[kind](tmp_path / kind)
    assert exposed(tmp_path / kind) == []
    del kept


def test_every_version_of_a_bank_is_readable_by_its_owner_alone(
    organisation: sample_organisation.SampleOrganisation,
) -> None:
    """Trained by the library, without the program's umask."""
    assert stat.S_IMODE(organisation.bank.stat().st_mode) == 0o700
    assert exposed(organisation.bank / "versions") == []


def test_a_program_writes_everything_for_its_owner_alone(
    tmp_path: Path, scored: sample_organisation.Run
) -> None:
    (tmp_path / "out").mkdir(mode=0o700)
    asked = (
        "alerts",
        "export",
        "--out",
        tmp_path / "out" / "alerts.json",
        "--database",
        scored.store.session.engine.url,
    )
    assert program({}, *asked).returncode == 0
    assert list((tmp_path / "out").iterdir())
    assert exposed(tmp_path / "out") == []


def test_what_everybody_can_read_is_warned_of_once_with_what_ends_that(
    caplog: pytest.LogCaptureFixture, organisation: sample_organisation.SampleOrganisation
) -> None:
    with TemporaryDirectory(dir="/tmp") as folder:  # others reach it; a test's own folder they do not
        open_to_all, password, store = Path(folder), Path(folder) / "password", Path(folder) / "alerts.sqlite"
        open_to_all.chmod(0o755)
        password.write_text(CANARY)
        bank = open_to_all / "bank"
        shutil.copytree(organisation.bank, bank)
        open_store(f"sqlite:///{store}").close()
        for each in (password, store, *bank.rglob("*"), bank):
            each.chmod(0o755 if each.is_dir() else 0o644)
        for _ in range(2):
            assert read_secret(str(password)) == CANARY
            open_store(f"sqlite:///{store}").close()
            open_bank(bank)
        told = [
            record.getMessage()
            for record in caplog.records
            if record.name == "fingerprint.core.private_files"
        ]
        assert [each.split("`")[1] for each in told] == [
            f"chmod o= {password}",
            f"chmod o= {store}",
            f"chmod -R o= {bank}",
        ]
        assert not any(CANARY in each for each in told)
        open_to_all.chmod(0o700)
        assert not private_files.is_exposed(password)
