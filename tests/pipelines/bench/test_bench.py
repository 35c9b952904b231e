"""What the bench works on is what it says: no one's events are lost, doubled or mistaken for another's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fingerprint.core.settings import Settings
from fingerprint.detection.batch import FRAME_COLUMNS
from fingerprint.training import pipeline
from pipelines.bench import dfencoder, dfencoder_tables, fitting
from pipelines.bench import training as bench_training
from pipelines.bench.organisations import organisation_files, read_events, replicate_events, thin_events
from pipelines.runtime.host import peak_bytes_by_process


@pytest.fixture(scope="module")
def some() -> pa.Table:
    """Two days of six principals."""
    with organisation_files(6, 2, scale=0.5, attacks=0) as days:
        events = pd.concat(read_events(days, Settings(), FRAME_COLUMNS), ignore_index=True)
    return pa.Table.from_pandas(thin_events(events, 3, 60), preserve_index=False)


def test_every_copy_of_a_history_is_another_organisation_that_did_the_same(some: pa.Table) -> None:
    once, chunks = some.to_pandas(), list(replicate_events(some, copies=3, rows=100))
    thrice = pd.concat(chunks, ignore_index=True)
    assert len(thrice) == 3 * len(once)
    assert thrice["event_id"].is_unique
    assert thrice["event_time"].is_monotonic_increasing
    for name in ("principal", "entity", "recipient_account"):
        assert thrice[name].nunique() == 3 * once[name].nunique(), name
        assert set(once[name]) < set(thrice[name]), name
    assert thrice["entity"].str.startswith(tuple(thrice["principal"].unique())).all()
    assert (thrice["role"].isna().sum(), thrice["action"].nunique()) == (
        3 * once["role"].isna().sum(),
        once["action"].nunique(),
    )
    assert max(map(len, chunks)) <= 100


def test_a_history_of_copies_is_learned_as_often_as_it_is_there(some: pa.Table) -> None:
    settings = Settings.model_validate({"entities": {"min_ready_events": 10, "min_ready_days": 1}})
    one, three = (pipeline.train(replicate_events(some, copies), settings).manifest for copies in (1, 3))
    assert three["events"] == 3 * one["events"]
    assert three["ready"]["entity"] == 3 * one["ready"]["entity"] > 0
    assert three["ready"]["principal"] == 3 * one["ready"]["principal"]


def test_thinning_keeps_the_first_and_last_days_and_leaves_out_who_was_hardly_there() -> None:
    busy, rare = ["busy"] * 1000, ["rare"] * 4
    events = pd.DataFrame({"entity": busy + rare, "event_id": [str(at) for at in range(1004)]})
    kept = thin_events(events, least=5, most=10)
    assert kept["entity"].tolist() == ["busy"] * 10
    assert np.diff(kept["event_id"].astype(int)).tolist() == [100] * 9


def test_a_planted_call_is_someone_elses_in_the_name_of_the_user() -> None:
    own = {"userIdentity": {"arn": "victim"}, "eventTime": "2026-01-05T10:00:00Z", "eventName": "GetObject"}
    call = {"userIdentity": {"arn": "thief"}, "eventName": "ListUsers", "sourceIPAddress": "203.0.113.9"}
    planted = dfencoder_tables._with_identity_of(own, call)
    assert (planted["userIdentity"], planted["eventTime"]) == (own["userIdentity"], own["eventTime"])
    assert (planted["eventName"], planted["sourceIPAddress"]) == ("ListUsers", "203.0.113.9")


def test_the_published_table_has_33_columns_of_text_whatever_the_records_lack() -> None:
    records = [
        {"eventName": "GetObject", "userIdentity": {"arn": "a", "sessionContext": {"x": 1}}},
        {"eventName": "ListUsers", "requestParameters": {"maxItems": 5}},
    ]
    table = dfencoder_tables.published_columns(
        pd.DataFrame({"raw": [json.dumps(each).encode() for each in records]})
    )
    assert table.shape == (2, 33)
    assert table["userIdentityarn"].tolist() == ["a", "nan"]
    assert table["eventName"].tolist() == ["GetObject", "ListUsers"]
    assert all(isinstance(value, str) for value in table.to_numpy().ravel())


def test_what_a_process_held_counts_its_children_too() -> None:
    hold = "import sys; held = bytearray(80 << 20); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=-1, stdout=-1, text=True) as child:  # noqa: S603
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        held = peak_bytes_by_process(os.getpid())
        child.communicate("")
    assert held[child.pid] > 80 << 20
    assert held[os.getpid()] > 0
    assert child.pid not in peak_bytes_by_process(os.getpid())


def test_a_bank_is_scored_in_one_go_and_what_was_read_of_it_is_counted(some: pa.Table) -> None:
    settings = Settings.model_validate({"entities": {"min_ready_events": 10, "min_ready_days": 1}})
    bank = pipeline.train(replicate_events(some, 2), settings)
    figures = bench_training.measure_scoring(bank, "cpu", rows=2000)
    assert figures["scored_rows"] == 2000
    inputs, outputs, base = bank.weights.inputs[0, :, 0], bank.weights.outputs[0], bank.vocabulary.base[0]
    read = inputs.nbytes + bank.weights.bias[0].nbytes + outputs.nbytes + base.nbytes
    assert figures["net_bytes_a_second"] == pytest.approx(figures["scored_rows_a_second"] * read, rel=0.01)


def test_nets_fitted_again_under_other_keys_are_counted_with_their_epochs(some: pa.Table) -> None:
    settings = Settings.model_validate({"entities": {"min_ready_events": 10, "min_ready_days": 1}})
    work = fitting.prepare_fit(some, settings)
    figures = fitting.measure_fit(work, 2 * len(work.ready), "cpu")
    assert figures["nets"] == 2 * len(work.ready)
    assert figures["epochs_a_net"] is None  # a CPU fits net by net, in compiled code
    assert figures["share_of_bandwidth"] is None


def test_operations_of_a_step_are_those_of_the_products_that_it_does() -> None:
    torch = pytest.importorskip("torch")
    from fake_cuda_graphs import Recorder

    from fingerprint.estimators.autoencoder import VISIBLE_MASK
    from fingerprint.training.nn.network import StackedNetworks

    (free, features), hidden, slots, rows = VISIBLE_MASK.shape, 8, 12, 16
    sizes = (features, hidden, slots), (hidden,), (free, hidden, slots), (free, slots)
    nets = StackedNetworks(*(torch.zeros(3, *size) for size in sizes))
    seen = torch.zeros(3, features, rows, dtype=torch.int64)
    nets.gradients(seen, seen, 0.0)  # what stays the same is put where the nets lie
    with Recorder() as recorder:
        nets.gradients(seen, seen, 0.0)
    products = [done for done in recorder.done if done[0].overloadpacket.__name__ in ("bmm", "baddbmm")]
    assert len(products) == 6
    counted = sum(2 * out.numel() * args[-1].shape[1] for _, args, _, out in products)
    assert counted == 3 * fitting.operations_per_step(rows, slots, hidden)


def test_without_a_gpu_the_million_is_skipped_and_says_so(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    out = tmp_path / "figures.json"
    result = bench_training.run_report(1_000_000, 1, "cuda", out)
    assert result == {"skipped": "no CUDA device"}
    assert json.loads(out.read_text()) == {"1000000 on cuda": result}


def test_where_the_other_side_cannot_be_installed_nothing_is_left_and_the_reason_is_told(
    tmp_path: Path,
) -> None:
    home = tmp_path / "bench" / "dfencoder"
    problem = dfencoder.install_packages(home, [str(tmp_path / "no-such-package.whl")])
    assert problem is not None
    assert "no-such-package" in problem
    assert list(home.parent.iterdir()) == []
