"""Losses through a real Triton server: swapped under load, overloaded, hung, killed, and given damaged banks."""

from __future__ import annotations

import re
import shutil
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from prometheus_client import CollectorRegistry

from fingerprint.adapters.triton import client, request
from fingerprint.adapters.triton.client import ModelControl, TritonInference
from fingerprint.adapters.triton.repository import ModelRepository
from fingerprint.adapters.triton.request import ChunkedRequest
from fingerprint.core import settings
from fingerprint.core.errors import FingerprintError, Unavailable
from fingerprint.detection import triton_model
from fingerprint.detection.inference import FallbackInference, LocalInference
from fingerprint.registry import bank as banks
from fingerprint.registry import bank_files, signatures
from fingerprint.registry.bank import Bank
from fingerprint.registry.bank_files import open_bank
from pipelines import retrain
from pipelines.cli.console import no_progress
from pipelines.commands.bank import sign_version
from pipelines.commands.triton import (
    SERVED_VERSIONS,
    load_into_server,
    print_server_status,
    server_has_version,
    server_status,
)
from pipelines.runtime.wiring import server_lacks_version
from pipelines.score import score_sources
from tests.contracts.inference import CLOSE, LossesContract, rows_of
from tests.support import sample_organisation
from tests.support.monitoring import asked
from tests.support.running_stream import live, measured_by, serve
from tests.support.services.triton import Triton
from tests.support.stream_environment import Place, Records, Said

SWAPPED = 50  # the number of the variant that a stream goes over to
NO_ONE = "127.0.0.1:9"  # the port "discard", where no one listens


@pytest.fixture(scope="module")
def bank(organisation: sample_organisation.SampleOrganisation) -> Bank:
    return open_bank(organisation.bank)


@pytest.fixture
def breaker(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, float], None]:
    """Set after how many failures the circuit opens, and for how many seconds."""

    def set_breaker(failures: int, cool_down_seconds: float) -> None:
        monkeypatch.setattr(client, "FAILURE_THRESHOLD", failures)
        monkeypatch.setattr(client, "COOL_DOWN_SECONDS", cool_down_seconds)

    return set_breaker


@pytest.fixture
def server(triton: Triton) -> settings.Triton:
    """Of the server, whatever it serves, by one process: each takes a second to start."""
    triton.assert_alive()
    return settings.Triton(
        url=triton.address,
        model_repository=str(triton.repository),
        control_key_file=str(triton.key_file),
        timeout_seconds=20,
        load_timeout_seconds=60,
        instance_count=1,
    )


@pytest.fixture
def options(
    server: settings.Triton, bank: Bank, organisation: sample_organisation.SampleOrganisation
) -> settings.Triton:
    """The same, where the organisation's bank is served."""
    served = ModelRepository(Path(server.model_repository)).served_versions()
    if triton_model.version_number(bank.version) not in served:
        load_into_server(organisation.bank, server)
    return server


@pytest.fixture
def in_parallel(options: settings.Triton) -> settings.Triton:
    """Of the same server; what it loads from now on is served by several processes, as by default."""
    default = settings.Triton().instance_count
    assert default > 1
    return options.model_copy(update={"instance_count": default})


@pytest.fixture
def losses(bank: Bank, options: settings.Triton) -> Iterator[TritonInference]:
    with closing(TritonInference(bank.version, options)) as opened:
        yield opened


class TestTriton(LossesContract):
    pass


class TestTritonInSmallRequests(LossesContract):
    """Of 100 rows, so that one call is many requests, several under way at a time."""

    @pytest.fixture
    def losses(
        self, bank: Bank, options: settings.Triton, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[TritonInference]:
        monkeypatch.setattr(request, "REQUEST_ROWS", 100)
        with closing(TritonInference(bank.version, options)) as opened:
            yield opened


def test_triton_tells_every_metric_that_rules_and_dashboards_ask_of_it(
    triton: Triton, bank: Bank, losses: TritonInference
) -> None:
    losses.losses(*rows_of(bank))
    with urllib.request.urlopen(f"http://127.0.0.1:{triton.ports['metrics']}/metrics", timeout=5) as answer:
        told = answer.read().decode()
    assert {name for name in asked() if name.startswith("nv_") and f"\n{name}{{" not in told} == set()
    reasons = set(re.findall(r'nv_inference_request_failure\{.*reason="(\w+)"', told))
    assert reasons == {"REJECTED", "CANCELED", "BACKEND", "OTHER"}


# --- banks come and go --------------------------------------------------------------------------------------------------


def variant(bank: Bank, number: int) -> Bank:
    """A bank of its own name, whose losses differ from every other's."""
    logp = bank.vocabulary.logp * np.float32(1 + number / 50)
    return banks.with_manifest_entries(
        replace(bank, vocabulary=replace(bank.vocabulary, logp=logp)), variant=number
    )


@dataclass(eq=False)
class Asking(threading.Thread):
    """Asks for what is served at the time, again and again, and compares every answer with the bank it names."""

    options: settings.Triton
    variants: dict[str, Bank]
    rows: tuple[np.ndarray, np.ndarray]
    current: list[str]  # the last is the one that is served
    over: threading.Event
    answers: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def run(self) -> None:
        wanted = {
            version: LocalInference(bank).losses(*self.rows)[0] for version, bank in self.variants.items()
        }
        while not self.over.is_set():
            version = self.current[-1]
            with closing(TritonInference(version, self.options)) as losses:
                for _ in range(5):
                    self._ask(losses, wanted[version])
                    self.over.wait(0.05)  # leaves something of two cores to the server

    def _ask(self, losses: TritonInference, wanted: np.ndarray) -> None:
        try:
            loss, _ = losses.losses(*self.rows)
        except (Unavailable, FingerprintError) as error:
            self.wrong.append(f"{losses.version}: {error}")
            return
        self.answers[losses.version] = self.answers.get(losses.version, 0) + 1
        if np.abs(loss - wanted).max() > CLOSE:
            self.wrong.append(f"{losses.version}: another bank's losses")


def wait_until(condition: object, seconds: float = 30.0) -> None:
    """A bounded wait."""
    assert callable(condition)
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError(f"did not come to pass within {seconds} s")


def test_a_bank_that_is_no_longer_served_is_not_answered_for_by_another(
    bank: Bank, options: settings.Triton
) -> None:
    with (
        closing(TritonInference("2020-01-01-00000000", options)) as losses,
        pytest.raises(Unavailable, match="unknown model"),
    ):
        losses.losses(*rows_of(bank, 5))


def test_a_damaged_bank_is_refused_and_what_was_served_still_is(
    bank: Bank, losses: TritonInference, options: settings.Triton, tmp_path: Path
) -> None:
    """So is one whose folder has another's number (tests/detection/test_triton_model.py)."""
    bank_files.publish_version(variant(bank, 77), tmp_path / "bank")
    repository = ModelRepository(Path(options.model_repository), options.instance_count)
    number, before = repository.add_version(tmp_path / "bank"), repository.served_versions()
    stack = next((repository.folder / str(number)).rglob("stack*.safetensors"))
    harmed = bytearray(stack.read_bytes())
    harmed[-1] ^= 1
    replaced(stack, harmed)
    repository.set_served_versions([*before, number])
    try:
        with closing(ModelControl(options)) as control:
            with pytest.raises(FingerprintError, match=r"stack.*is damaged"):
                control.load_model()
            assert control.version_states()[triton_model.version_number(bank.version)] == "READY"
    finally:
        repository.set_served_versions(before)
        repository.remove_unserved()
    assert losses.losses(*rows_of(bank, 5))[0].shape[0] == 5


def test_a_damaged_bank_never_reaches_the_repository(
    organisation: sample_organisation.SampleOrganisation, options: settings.Triton, tmp_path: Path
) -> None:
    shutil.copytree(organisation.bank, tmp_path / "bank")
    for file in (tmp_path / "bank").rglob("stack*.safetensors"):
        file.write_bytes(file.read_bytes()[:-1])
    before = server_status(options)["versions"]
    with pytest.raises(FingerprintError, match="is damaged"):
        load_into_server(tmp_path / "bank", options)
    assert server_status(options)["versions"] == before


def replaced(file: Path, content: bytes | bytearray) -> None:
    """A file of the repository: what has a hard link to it keeps what it was."""
    file.unlink()
    file.write_bytes(content)


def damage(version: Path) -> None:
    replaced(next(version.rglob("stack*.safetensors")), b"")


def ready(options: settings.Triton) -> list[str | None]:
    """The bank versions that the server serves, the newest last."""
    return [each["bank_version"] for each in server_status(options)["versions"] if each["state"] == "READY"]


def test_who_looks_after_a_bank_has_the_server_load_what_is_served_anyone_who_decided_that(
    organisation: sample_organisation.SampleOrganisation, bank: Bank, options: settings.Triton, tmp_path: Path
) -> None:
    place, changed = Place(tmp_path, tmp_path / "bank").create(), variant(bank, 78)
    shutil.copytree(organisation.bank, place.bank)  # trained just now: no training is due
    bank_files.publish_version(changed, place.bank)
    for version in (changed.version, bank.version):
        serve(place, version)
        place.configure(triton=options.model_dump())
        assert looked_after(place)["served"] == version
        assert server_has_version(version, options)
    place.configure(triton=options.model_dump() | {"url": NO_ONE, "load_timeout_seconds": 5})
    with pytest.raises(FingerprintError, match=f"triton: Triton at {NO_ONE} does not serve it"):
        looked_after(place)
    assert server_has_version(bank.version, options), (
        "what the server has stays where another does not answer"
    )


def looked_after(place: Place) -> dict[str, Any]:
    return retrain.run_retrain(place.settings, place.bank, once=True, registry=CollectorRegistry())


def test_the_repository_is_filled_without_a_server(
    organisation: sample_organisation.SampleOrganisation,
    bank: Bank,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    alone = settings.Triton(model_repository=str(tmp_path / "served"))
    figures = load_into_server(organisation.bank, alone)
    assert [(each["bank_version"], each["served"]) for each in figures["versions"]] == [(bank.version, True)]
    folder = tmp_path / "served" / "fingerprint" / str(triton_model.version_number(bank.version))
    assert {each.name for each in folder.iterdir()} == {"bank", "model.py"}
    assert load_into_server(organisation.bank, alone) == figures  # again, nothing changes
    print_server_status(figures)
    assert bank.version in capsys.readouterr().out


def test_after_a_change_of_keys_both_versions_have_the_signatures_of_the_new_one(
    bank: Bank, tmp_path: Path
) -> None:
    """As docs/how-to/sign-banks.md rotates them; the server asks for the new key alone."""

    def key(name: str) -> settings.Bank:
        file = str(tmp_path / name)
        signatures.generate_keys(Path(file))
        return settings.Bank(signing_key_file=file, verify_key_files=(f"{file}.pub",))

    old, new, folder = key("old"), key("new"), tmp_path / "bank"
    alone = settings.Triton(model_repository=str(tmp_path / "served"))
    first, second = variant(bank, 87), bank
    for each in (first, second):
        bank_files.publish_version(each, folder)
        sign_version(folder, settings.Settings(bank=old))
        load_into_server(folder, alone, old)
    for each in (first, second):
        sign_version(folder, settings.Settings(bank=new), each.version)
    load_into_server(folder, alone, new)
    for number in map(triton_model.version_number, (first.version, second.version)):
        served = tmp_path / "served" / "fingerprint" / str(number) / "bank"
        assert triton_model.open_numbered_bank(served, number, new)


def test_as_many_instances_are_written_as_the_setting_says(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    for count in (1, 4):
        load_into_server(
            organisation.bank, settings.Triton(model_repository=str(tmp_path), instance_count=count)
        )
        config = (tmp_path / "fingerprint" / "config.pbtxt").read_text()
        assert re.findall(r"instance_group.*count: (\d+)", config) == [str(count)]


def test_of_a_server_that_is_away_one_sentence_is_said(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    no_one = settings.Triton(url=NO_ONE, model_repository=str(tmp_path), load_timeout_seconds=5)
    with pytest.raises(FingerprintError, match=f"Triton at {NO_ONE}"):
        load_into_server(organisation.bank, no_one)
    assert ModelRepository(tmp_path).served_versions() == []


def test_a_server_that_is_away_is_asked_once(
    bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one that answers is asked for the new version alone."""
    asked, load = [], ModelControl.load_model
    monkeypatch.setattr(ModelControl, "load_model", lambda own: asked.append(own) or load(own))
    alone = settings.Triton(model_repository=str(tmp_path / "served"))
    bank_files.publish_version(bank, tmp_path / "bank")
    load_into_server(tmp_path / "bank", alone)
    bank_files.publish_version(variant(bank, 86), tmp_path / "bank")
    with pytest.raises(FingerprintError, match="accepts a connection"):
        load_into_server(tmp_path / "bank", alone.model_copy(update={"url": NO_ONE}))
    assert len(asked) == 1
    assert list(ModelRepository(tmp_path / "served").bank_versions().values()) == [bank.version]


@pytest.mark.parametrize("key", [None, "fingerprint-control=open barley"])
def test_who_has_not_the_key_loads_nothing(
    options: settings.Triton,
    organisation: sample_organisation.SampleOrganisation,
    tmp_path: Path,
    key: str | None,
) -> None:
    """Loading runs code. Measuring needs no key."""
    file = tmp_path / "key"
    file.write_text(key or "")
    without = options.model_copy(update={"control_key_file": str(file) if key else None})
    with (
        closing(ModelControl(without)) as control,
        pytest.raises(FingerprintError, match="restricted"),
    ):
        control.load_model()


def test_a_key_file_without_a_key_is_refused(options: settings.Triton, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("open sesame\n")
    with pytest.raises(FingerprintError, match="does not hold NAME=VALUE"):
        ModelControl(options.model_copy(update={"control_key_file": str(tmp_path / "key")}))


# --- when it is away ----------------------------------------------------------------------------------------------------


def test_more_than_it_can_measure_is_refused_and_does_not_pile_up(
    bank: Bank, losses: TritonInference, options: settings.Triton, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three hundred requests at once, where 64 may wait: some are refused at once, and then it serves as before."""
    random = np.random.default_rng(1)
    codes = np.tile(random.integers(1, 2**63, (2048, rows_of(bank)[1].shape[1]), dtype=np.uint64), (300, 1))
    fingerprint = random.integers(0, len(bank.fingerprints), len(codes)).astype(np.int32)
    number = triton_model.version_number(bank.version)
    with monkeypatch.context() as patched:
        patched.setattr(request, "REQUEST_ROWS", 2048)
        patched.setattr(request, "MAX_IN_FLIGHT", 300)
        patched.setattr(request, "MAX_ATTEMPTS", 1)
        with pytest.raises(Unavailable, match="maximum queue size"):
            ChunkedRequest(losses.client, number, options, fingerprint, codes).run()
    assert losses.losses(fingerprint[:500], codes[:500])[0].shape == (500, codes.shape[1])


def test_a_server_that_hangs_is_waited_for_once_in_a_while_only(
    bank: Bank, triton: Triton, options: settings.Triton, breaker: Callable[[int, float], None]
) -> None:
    rows = rows_of(bank, 20)
    breaker(1, 60)
    brief = options.model_copy(update={"timeout_seconds": 0.3})
    with closing(TritonInference(bank.version, brief)) as far:
        losses = FallbackInference(far, LocalInference(bank))
        with triton.paused():
            loss, known = losses.losses(*rows)
            assert losses.degraded
            with pytest.raises(Unavailable, match="left alone"):
                far.losses(*rows)
        wanted = LocalInference(bank).losses(*rows)
        np.testing.assert_array_equal(loss, wanted[0])
        np.testing.assert_array_equal(known, wanted[1])

        def answers_again() -> bool:
            far.circuit_breaker.open_until = 0  # the rest is over
            losses.losses(*rows)
            return not losses.degraded

        wait_until(answers_again)  # a busy machine may need more than 0.3 s for its first answer


def test_triton_killed_in_the_middle_changes_no_verdict_and_is_asked_again_when_it_returns(
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    triton: Triton,
    options: settings.Triton,
    tmp_path: Path,
    breaker: Callable[[int, float], None],
) -> None:
    breaker(3, 0.001)

    def disturb(stage: str, done: int, of: int = 0) -> None:
        """Killed after a quarter of the events, back after half of them."""
        alive = triton.process is not None and triton.process.poll() is None
        if stage == "scoring events" and of / 4 < done < of / 2 and alive:
            triton.kill()
        if stage == "scoring events" and done > of / 2 and not alive:
            triton.start()

    own = sample_organisation.SETTINGS.model_copy(
        update={
            "triton": options,
            "reading": settings.Reading(batch_records=500),
        }
    )
    out, url = tmp_path / "events.parquet", f"sqlite:///{tmp_path}/alerts.sqlite"
    figures = score_sources(organisation.new, organisation.bank, own, disturb, database_url=url, out=out)
    events = pd.read_parquet(out).set_index("event_id")
    wanted = scored.events.set_index("event_id").loc[events.index]
    assert len(events) == len(scored.events)
    assert figures["degraded"] == events["degraded"].sum()
    measured = events.sort_values("event_time", kind="stable")["degraded"].to_numpy()
    assert 0.1 < measured.mean() < 0.6
    assert not measured[: len(measured) // 5].any()
    assert not measured[-len(measured) // 5 :].any()
    assert (events["verdict"] == wanted["verdict"]).all()
    np.testing.assert_allclose(events["autoencoder_z"], wanted["autoencoder_z"], atol=CLOSE)
    assert not wanted["degraded"].any()
    alerts = sample_organisation.Run(figures, out, sample_organisation.open_store(url)).alerts
    assert [replace(each, degraded=False) for each in alerts] == scored.alerts
    for alert in alerts:
        assert alert.degraded == bool(events.loc[list(alert.event_ids), "degraded"].any())


def test_the_stream_goes_on_without_its_server_and_says_so(
    organisation: sample_organisation.SampleOrganisation,
    records: Records,
    oracle: Said,
    bank: Bank,
    tmp_path: Path,
    breaker: Callable[[int, float], None],
) -> None:
    breaker(1, 600)
    place = Place(tmp_path, organisation.bank).create()
    place.send(records)
    no_one = settings.Triton(url=NO_ONE)
    with closing(TritonInference(bank.version, no_one)) as far:
        figures = place.run(measuring=lambda bank: nullcontext(FallbackInference(far, LocalInference(bank))))
    said = place.said()
    assert figures["degraded"] == figures["events"] > 0
    assert said.alerts
    assert all(alert.degraded for alert in said.alerts.values())
    assert all(told.pop("degraded") for told in said.told.values())
    assert not any(told["degraded"] for told in oracle.told.values())
    plain = {name: {k: v for k, v in told.items() if k != "degraded"} for name, told in oracle.told.items()}
    assert (
        said.differences(
            Said(list(oracle.alerts.values()), pd.DataFrame(oracle.votes.values()), plain, oracle.voted)
        )
        == []
    )


def test_score_says_what_is_missing_where_triton_is_wanted_and_no_one_listens(
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    tmp_path: Path,
    breaker: Callable[[int, float], None],
) -> None:
    """No server at all: everything is degraded, and nothing else is different."""
    breaker(3, 600)
    own = sample_organisation.SETTINGS.model_copy(update={"triton": settings.Triton(url=NO_ONE)})
    figures = score_sources(
        organisation.new,
        organisation.bank,
        own,
        no_progress,
        database_url=f"sqlite:///{tmp_path}/alerts.sqlite",
    )
    assert figures["degraded"] == figures["events"]
    assert figures["alerts"] == scored.figures["alerts"]


def test_a_stream_swaps_banks_under_load_once_the_server_has_the_new_one_and_no_answer_is_mixed(
    organisation: sample_organisation.SampleOrganisation,
    bank: Bank,
    options: settings.Triton,
    records: Records,
    tmp_path: Path,
) -> None:
    """Published first, loaded later: until then the one before judges, and nothing is measured in process."""
    another = variant(bank, SWAPPED)
    known = {each.version: each for each in (bank, another)}
    shutil.copytree(organisation.bank, tmp_path / "bank")
    bank_files.write_bank(another, tmp_path / "bank")
    place = Place(tmp_path / "place", tmp_path / "bank")
    quick = {"bank": {"poll_interval_seconds": 0.05}, "checkpoints": {"interval_seconds": 0.01}}
    place.configure(**quick, triton={"url": options.url, "timeout_seconds": 20})
    loading = threading.Thread(target=load_into_server, args=(tmp_path / "bank", options), daemon=True)
    with live(place.create()) as stream:
        stream.read(records[:1000])
        serve(place, another.version)
        stream.until(lambda: stream.program.banks.version_awaited == another.version)
        assert stream.judged_by() == {bank.version}
        loading.start()
        for at in range(1000, len(records), 150):
            stream.read(records[at : at + 150])
            for version, batch in stream.waiting():
                measured_by(known[version], batch)
        loading.join(60)
        stream.until(lambda: stream.judged_by() == {another.version})
        stream.until(lambda: stream.program.banks.loaded_banks.keys() == {another.version})
        place.send([(key, value.replace(b'"eventID":"', b'"eventID":"again-')) for key, value in records])
        stream.until(lambda: sum(stream.program.consumer.lag().values()) == 0)
        assert stream.program.metrics.figures()["degraded"] == 0
    judged = {vote["bank_version"] for vote in place.said().votes.values()}
    assert judged == set(known)


def test_a_server_that_is_away_keeps_no_bank_waiting(bank: Bank) -> None:
    """This process would measure for it in any case."""
    assert not server_lacks_version(settings.Triton(url=NO_ONE), bank.version, "another")
    assert not server_lacks_version(settings.Triton(), bank.version, "another")


# --- after these another bank is served -------------------------------------------------------------------------------


def test_banks_are_swapped_under_load_and_every_answer_is_whole_and_of_the_bank_it_names(
    bank: Bank, in_parallel: settings.Triton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two swaps, to more banks than are served at a time, and no second tries: nothing fails, nothing is mixed."""
    monkeypatch.setattr(request, "MAX_ATTEMPTS", 1)
    monkeypatch.setattr(request, "REQUEST_ROWS", 64)
    variants = {each.version: each for each in (variant(bank, number) for number in range(1, 3))}
    rows, over, served = rows_of(bank, 200), threading.Event(), ready(in_parallel)[-1]
    first = next(each for each in (bank, variant(bank, SWAPPED)) if each.version == served)
    known, current = variants | {first.version: first}, [first.version]
    asking = [Asking(in_parallel, known, rows, current, over) for _ in range(3)]
    for each in asking:
        each.start()
    try:
        for version, each in variants.items():
            bank_files.publish_version(each, tmp_path / "bank")
            load_into_server(tmp_path / "bank", in_parallel)
            current.append(version)
            wait_until(lambda version=version: all(version in each.answers for each in asking))
    finally:
        over.set()
        for thread in asking:
            thread.join(60)
    assert [wrong for thread in asking for wrong in thread.wrong] == []
    assert set(asking[0].answers) == set(known)
    assert ready(in_parallel) == list(variants)[-SERVED_VERSIONS:]


def test_a_version_whose_model_py_an_older_image_wrote_is_loaded_after_an_upgrade(
    bank: Bank, triton: Triton, server: settings.Triton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It imports what was moved since, so the upgraded server serves nothing.

    What is served then is asked over the connection that loaded it: Kubernetes sends no new one to a server that it has not yet
    seen ready again.
    """
    made, connect = [], client.connect
    before = ready(server)[-1]
    triton.kill()
    for model in triton.repository.glob("fingerprint/*/model.py"):
        replaced(model, b"from fingerprint.core.alert import FingerprintError\n")
    triton.start()
    bank_files.publish_version(variant(bank, 82), tmp_path / "bank")
    monkeypatch.setattr(client, "connect", lambda own: made.append(own) or connect(own))
    figures = load_into_server(tmp_path / "bank", server)
    assert made == [server]
    assert {each["state"] for each in figures["versions"] if each["served"]} == {"READY"}
    assert ready(server) == [before, figures["loaded"]]


def test_a_served_version_that_cannot_be_loaded_any_more_keeps_no_later_one_out(
    bank: Bank, server: settings.Triton, tmp_path: Path
) -> None:
    """Neither one whose files are damaged nor one whose folder was removed."""
    repository, served = ModelRepository(Path(server.model_repository)), ready(server)[-1]
    for number, spoil in ((83, damage), (84, shutil.rmtree)):
        assert served is not None
        spoil(repository.folder / str(triton_model.version_number(served)))
        bank_files.publish_version(variant(bank, number), tmp_path / "bank")
        served = load_into_server(tmp_path / "bank", server)["loaded"]
        assert ready(server) == [served]
        assert list(repository.bank_versions().values()) == [served]
