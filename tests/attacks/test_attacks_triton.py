"""Someone answers as Triton, or calls the real one: invented losses hide nothing, and who has no key may only measure."""

from __future__ import annotations

import logging
import shutil
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest
from tritonclient.grpc import InferenceServerClient, service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from fingerprint.adapters.triton import request
from fingerprint.adapters.triton.client import ModelControl, TritonInference, is_version_served
from fingerprint.core import settings
from fingerprint.core.errors import FingerprintError, Unavailable
from fingerprint.core.settings import Settings
from fingerprint.detection.inference import FallbackInference, LocalInference, ServerTrust
from fingerprint.registry import bank as banks
from fingerprint.registry import bank_files, signatures
from fingerprint.registry.bank import Bank
from pipelines.cli.console import no_progress
from pipelines.commands.bank import sign_version
from pipelines.commands.triton import load_into_server
from pipelines.score import score_sources
from tests.contracts.inference import CLOSE, rows_of
from tests.support import sample_organisation
from tests.support.running_stream import live
from tests.support.services.certificates import Authority
from tests.support.services.requirement import needed
from tests.support.services.triton import Triton
from tests.support.stream_environment import Place, Records, Said

Losses = np.ndarray
Lie = Callable[[Losses, np.ndarray], tuple[Losses, np.ndarray]]
Spoil = Callable[[service_pb2.ModelInferResponse], None]


class Rogue(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Has the bank, and answers what someone makes of the true losses."""

    def __init__(self, bank: Bank, lie: Lie) -> None:
        self.true, self.lie, self.asked = LocalInference(bank), lie, 0

    def ModelReady(self, request: object, context: object) -> object:
        return service_pb2.ModelReadyResponse(ready=True)

    def ModelInfer(self, request: object, context: object) -> object:
        self.asked += 1
        fingerprint, codes = (
            np.frombuffer(content, dtype)
            for content, dtype in zip(request.raw_input_contents, (np.int32, np.uint64), strict=True)
        )
        codes = codes.reshape(len(fingerprint), -1)
        loss, known = self.lie(*self.true.losses(fingerprint, codes))
        answer = service_pb2.ModelInferResponse(model_name="fingerprint", model_version=request.model_version)
        for name, kind, array in (
            ("loss", "FP32", np.asarray(loss, np.float32)),
            ("known", "BOOL", np.asarray(known, bool)),
        ):
            answer.outputs.add(name=name, datatype=kind, shape=array.shape)
            answer.raw_output_contents.append(array.tobytes())
        return answer


@contextmanager
def answering(bank: Bank, lie: Lie) -> Iterator[tuple[settings.Triton, Rogue]]:
    rogue = Rogue(bank, lie)
    with served(rogue) as options:
        yield options, rogue


@contextmanager
def served(rogue: Rogue) -> Iterator[settings.Triton]:
    server = grpc.server(ThreadPoolExecutor(4))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(rogue, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield settings.Triton(url=f"127.0.0.1:{port}", timeout_seconds=20)
    finally:
        server.stop(None)


def honest(loss: Losses, known: np.ndarray) -> tuple[Losses, np.ndarray]:
    return loss, known


def zeros(loss: Losses, known: np.ndarray) -> tuple[Losses, np.ndarray]:
    return np.zeros_like(loss), np.ones_like(known)


def plausible(loss: Losses, known: np.ndarray) -> tuple[Losses, np.ndarray]:
    """The losses of what is usual, for everything: another row's of the same call where there are several."""
    return np.minimum(loss, np.median(loss, axis=0) + 0.01), known


def a_little(loss: Losses, known: np.ndarray) -> tuple[Losses, np.ndarray]:
    return loss - np.float32(0.01), known


def all_is_known(loss: Losses, known: np.ndarray) -> tuple[Losses, np.ndarray]:
    return loss, np.ones_like(known)


@pytest.mark.parametrize("lie", [zeros, plausible, all_is_known])
def test_a_server_that_invents_losses_hides_no_alert_and_is_asked_no_more(
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    bank: Bank,
    lie: Lie,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "fingerprint.detection.inference")
    with answering(bank, lie) as (options, rogue):
        own = sample_organisation.SETTINGS.model_copy(update={"triton": options})
        url = f"sqlite:///{tmp_path}/alerts.sqlite"
        figures = score_sources(organisation.new, organisation.bank, own, no_progress, database_url=url)
    alerts = sample_organisation.Run(figures, tmp_path, sample_organisation.open_store(url)).alerts
    assert [replace(each, degraded=False) for each in alerts] == scored.alerts
    assert figures["degraded"] == figures["events"]
    assert rogue.asked < 40, "one call at most, of several requests"
    assert len([each for each in caplog.records if "losses are wrong" in each.message]) == 1


def cut_short(answer: service_pb2.ModelInferResponse) -> None:
    answer.raw_output_contents[0] = answer.raw_output_contents[0][:-3]


def of_texts(answer: service_pb2.ModelInferResponse) -> None:
    answer.outputs[0].datatype = "BYTES"


def without_losses(answer: service_pb2.ModelInferResponse) -> None:
    del answer.outputs[0]


class Odd(Rogue):
    """Refuses with a status and a text, or answers what `spoil` leaves of an answer."""

    def __init__(self, bank: Bank, refusal: tuple[grpc.StatusCode, str] | None, spoil: Spoil | None) -> None:
        super().__init__(bank, honest)
        self.refusal, self.spoil = refusal, spoil

    def ModelInfer(self, request: object, context: object) -> object:
        if self.refusal:
            context.abort(*self.refusal)
        answer = super().ModelInfer(request, context)
        self.spoil(answer)
        return answer


@pytest.mark.parametrize(
    ("refusal", "spoil", "reason"),
    [
        ((grpc.StatusCode.UNAVAILABLE, ""), None, "StatusCode.UNAVAILABLE"),  # a proxy's
        ((grpc.StatusCode.PERMISSION_DENIED, ""), None, "StatusCode.PERMISSION_DENIED"),
        (
            (grpc.StatusCode.INVALID_ARGUMENT, "unexpected shape"),
            None,
            "unexpected shape",
        ),  # another model.py
        ((grpc.StatusCode.INVALID_ARGUMENT, ""), None, "StatusCode.INVALID_ARGUMENT"),
        (None, cut_short, "has not the shape"),
        (None, of_texts, "has not the shape"),
        (None, without_losses, "has not the shape"),
    ],
)
def test_an_odd_reply_is_replaced_by_local_losses_and_its_reason_told(
    bank: Bank,
    refusal: tuple[grpc.StatusCode, str] | None,
    spoil: Spoil | None,
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = rows_of(bank, 20)
    with (
        served(Odd(bank, refusal, spoil)) as options,
        closing(TritonInference(bank.version, options)) as far,
    ):
        losses = FallbackInference(far, LocalInference(bank))
        np.testing.assert_array_equal(losses.losses(*rows)[0], LocalInference(bank).losses(*rows)[0])
        assert losses.degraded
        assert [reason in str(each.fields) for each in caplog.records] == [True]
        with pytest.raises(FingerprintError, match="has the fingerprints 0 to"):  # the question is at fault
            losses.losses(rows[0] + 10_000, rows[1])


def test_a_server_that_tells_the_truth_is_believed(bank: Bank) -> None:
    rows = rows_of(bank)
    with (
        answering(bank, honest) as (options, _),
        closing(TritonInference(bank.version, options)) as far,
    ):
        losses = FallbackInference(far, LocalInference(bank))
        for few in (1, 7, 100, len(rows[0])):
            losses.losses(rows[0][:few], rows[1][:few])
        assert (losses.degraded, losses.trust.failure) == (False, "")


def test_no_one_can_foresee_which_rows_are_measured_again(bank: Bank) -> None:
    """Two who ask the same check other rows, 1 % of many and 8 of few."""
    seen = []

    class Near(LocalInference):
        def losses(self, fingerprint: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            seen.append(fingerprint)
            return super().losses(fingerprint, codes)

    rows = rows_of(bank, 2000)
    numbered = np.arange(2000, dtype=np.int32) % len(bank.fingerprints), rows[1]
    for _ in range(2):
        FallbackInference(LocalInference(bank), Near(bank)).losses(*numbered)
    assert [len(each) for each in seen] == [20, 20]
    assert seen[0].tolist() != seen[1].tolist()
    FallbackInference(LocalInference(bank), Near(bank)).losses(*(each[:50] for each in numbered))
    assert len(seen[2]) == 8


def test_a_lie_once_found_is_remembered_for_every_bank_that_the_server_measures_against(bank: Bank) -> None:
    rows, trust = rows_of(bank, 50), ServerTrust()
    with (
        answering(bank, a_little) as (options, rogue),
        closing(TritonInference(bank.version, options)) as far,
    ):
        wanted = LocalInference(bank).losses(*rows)
        for _ in range(2):
            loss, known = FallbackInference(far, LocalInference(bank), trust).losses(*rows)
            np.testing.assert_allclose(loss, wanted[0], atol=CLOSE)
            np.testing.assert_array_equal(known, wanted[1])
        assert rogue.asked == 1
    assert "nats" in trust.failure


def test_a_stream_whose_server_lies_tells_the_same_alerts_and_an_alarm_fires(
    organisation: sample_organisation.SampleOrganisation,
    records: Records,
    oracle: Said,
    bank: Bank,
    tmp_path: Path,
) -> None:
    place = Place(tmp_path, organisation.bank).create()
    with answering(bank, plausible) as (options, _):
        place.configure(triton=options.model_dump())
        with live(place) as stream:
            stream.read(records)
            metrics = stream.program.metrics
            stream.until(lambda: metrics.inference_wrong.collect()[0].samples[0].value == 1)
            assert metrics.figures()["degraded"] == metrics.figures()["events"] > 0
    said = place.said()
    assert {name: (alert.event_ids, alert.urgency) for name, alert in said.alerts.items()} == {
        name: (alert.event_ids, alert.urgency) for name, alert in oracle.alerts.items()
    }


# --- the real server --------------------------------------------------------------------------------------------------


CLOSED: dict[str, Callable[[InferenceServerClient], object]] = {
    "shared memory": lambda client: client.register_system_shared_memory("x", "/x", 64),
    "trace": lambda client: client.update_trace_settings(settings={"trace_level": ["TENSORS"]}),
    "logging": lambda client: client.update_log_settings({"log_verbose_level": 9}),
    "statistics": lambda client: client.get_inference_statistics(),
    "configuration": lambda client: client.get_model_config("fingerprint"),
    "loading": lambda client: client.load_model("fingerprint"),
    "unloading": lambda client: client.unload_model("fingerprint"),
    "index": lambda client: client.get_model_repository_index(),
}


@pytest.mark.parametrize("protocol", CLOSED)
def test_who_has_no_key_may_only_measure(triton: Triton, protocol: str) -> None:
    with closing(InferenceServerClient(triton.address)) as client:
        assert client.is_server_live()
        with pytest.raises(InferenceServerException, match="restricted"):
            CLOSED[protocol](client)


def test_its_http_hears_its_own_machine_alone(triton: Triton) -> None:
    """Another address of this machine stands for another container."""
    socket.create_connection(("127.0.0.1", triton.ports["http"]), timeout=5).close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", triton.ports["http"]), timeout=5)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[settings.Triton]:
    """A server that wants certificates of its callers and signatures of its banks; what its own callers are set to."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder, "the tests")
    server, client = authority.certify("server", hosts=("127.0.0.1",)), authority.certify("client")
    signatures.generate_keys(folder / "key")
    environment = {
        "TRITON_TLS_CERTIFICATE": str(server.certificate),
        "TRITON_TLS_KEY": str(server.key),
        "TRITON_TLS_CA": str(authority.file),
        "FINGERPRINT_BANK__VERIFY_KEY_FILES": str(folder / "key.pub"),
    }
    with needed(), Triton.started(folder / "triton", **environment) as running:
        yield settings.Triton(
            url=running.address,
            model_repository=str(running.repository),
            control_key_file=str(running.key_file),
            timeout_seconds=20,
            load_timeout_seconds=60,
            instance_count=1,
            tls=True,
            ca_file=str(authority.file),
            certificate_file=str(client.certificate),
            certificate_key_file=str(client.key),
        )


def test_a_bank_that_no_one_signed_is_not_served(
    organisation: sample_organisation.SampleOrganisation, bank: Bank, guarded: settings.Triton, tmp_path: Path
) -> None:
    """Anyone who fills the repository may look away: the model looks."""
    folder, keys = (
        Path(shutil.copytree(organisation.bank, tmp_path / "bank")),
        Path(str(guarded.ca_file)).parent,
    )
    with pytest.raises(FingerprintError, match="is not signed"):
        load_into_server(folder, guarded)
    wanted = settings.Bank(verify_key_files=(str(keys / "key.pub"),), signing_key_file=str(keys / "key"))
    with pytest.raises(FingerprintError, match="is not signed"):
        load_into_server(folder, guarded, wanted)
    sign_version(folder, Settings(bank=wanted))
    load_into_server(folder, guarded, wanted)
    assert is_version_served(bank.version, guarded)
    changed = banks.with_manifest_entries(bank, variant=1)
    bank_files.publish_version(changed, folder)
    with pytest.raises(FingerprintError, match=f"{changed.version} is not signed"):
        load_into_server(folder, guarded)  # refused beside the version before, and alone
    assert is_version_served(bank.version, guarded)
    assert not is_version_served(changed.version, guarded)


def test_over_tls_each_side_proves_who_it_is(
    organisation: sample_organisation.SampleOrganisation,
    bank: Bank,
    guarded: settings.Triton,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Anyone who answers as the server without its certificate is not asked, and anyone who calls without one is not answered."""
    with closing(ModelControl(guarded)) as control:
        control.version_states()
    another = Authority(tmp_path, "the tests")
    for changed in (
        {"tls": False, "ca_file": None, "certificate_file": None, "certificate_key_file": None},
        {"certificate_file": None, "certificate_key_file": None},
        {"ca_file": str(another.file)},
    ):
        monkeypatch.setattr(request, "MAX_ATTEMPTS", 1)
        options = guarded.model_copy(update={**changed, "timeout_seconds": 2})
        with closing(TritonInference(bank.version, options)) as far, pytest.raises(Unavailable) as away:
            far.losses(*rows_of(bank, 5))
        assert "unknown model" not in str(away.value)
