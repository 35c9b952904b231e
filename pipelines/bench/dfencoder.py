"""The rows against dfencoder: one autoencoder for each user, trained one by one, as in the published digital fingerprinting.

dfencoder (PyPI) is installed into a folder of its own, build/bench, with the packages that we do not have. torch, pandas and
NumPy are the same for both sides, which run on one thread, in one process, in turns. dfencoder has the published settings and the
published scoring: each feature's loss is standardised by its mean and spread over the learned table, and the z of an event is the
mean of the absolute values. `dfencoder_tables` makes the tables of both. To run these rows alone:

    python -m pipelines.bench.dfencoder

Our side is the whole program: `training.pipeline.train` counts, fits, sets baselines and fills series. It also fits fingerprints
of principals, peer groups and the organisation, which are not counted: 64 users are 64 models on either side.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from fingerprint.compute import frames
from fingerprint.compute.arrays import Floats
from fingerprint.compute.hashing import Hashes
from fingerprint.core.errors import FingerprintError
from fingerprint.detection import batch as measured
from fingerprint.detection.inference import LocalInference
from fingerprint.estimators import autoencoder, tail_calibration
from fingerprint.evaluation import dfencoder_peer
from fingerprint.evaluation.dfencoder_peer import (
    StandardisedModel,
    prepared_feature_losses,
    standardise_model,
)
from fingerprint.features import encoding
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import ScorerState
from fingerprint.training import pipeline
from pipelines.bench.dfencoder_tables import USERS, build_tables, published_columns
from pipelines.bench.report import Skipped, benchmark, fastest_interleaved, run_benchmarks

T = TypeVar("T")

RESULTS_FILE = Path("build/bench-dfencoder.json")  # if these rows run alone
PACKAGES_FOLDER = Path("build/bench/dfencoder")
PINNED_PACKAGES = (
    "dfencoder==0.0.42",
    "dill==0.4.1",
    "tensorboardX==2.6.5",
    "tqdm==4.70.1",
    "protobuf==7.36.2",
)
PIP_TIMEOUT_SECONDS = 300  # seconds for pip
MODEL_COUNT = 6  # models of dfencoder: each takes some seconds
REPETITIONS = 3  # of our training
BATCH_ROWS = 1000  # rows scored at a time
SINGLE_EVENTS = 20  # events scored one by one


# --- the other side -------------------------------------------------------------------------------------------------


def import_dfencoder() -> Any:
    """Return the package dfencoder. Raises Skipped if it cannot be installed or imported."""
    found = _import_or_reason()
    if isinstance(found, str):
        raise Skipped(found)
    return found


@cache
def _import_or_reason() -> Any:
    """Return the package, or why it cannot be installed or imported; pip runs only once."""
    if not PACKAGES_FOLDER.exists() and (problem := install_packages(PACKAGES_FOLDER, PINNED_PACKAGES)):
        return f"dfencoder cannot be installed: {problem}"
    sys.path.append(str(PACKAGES_FOLDER.resolve()))  # at the end, so that shared packages are ours
    try:
        return importlib.import_module("dfencoder")
    except ImportError as reason:
        return f"dfencoder cannot be imported: {reason}"


def install_packages(site_packages: Path, packages: Sequence[str]) -> str | None:
    """Install packages into a folder, all of them or none. Return the reason if that failed, else None."""
    site_packages.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=site_packages.parent) as folder:
        target = Path(folder) / site_packages.name
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target)]
        command += packages
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=PIP_TIMEOUT_SECONDS)  # noqa: S603
        except subprocess.CalledProcessError as error:
            return next(iter(error.stderr.strip().splitlines()), "pip failed")
        except subprocess.TimeoutExpired:
            return f"it took longer than {PIP_TIMEOUT_SECONDS} s"
        target.rename(site_packages)
    return None


def fit_dfencoder(table: pd.DataFrame) -> Any:
    """Fit dfencoder to a table, with the published settings."""
    import_dfencoder()
    return dfencoder_peer.fit_dfencoder(table)


# --- both, side by side ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FittedModels:
    """A bank of all users, dfencoder's models of the first MODEL_COUNT users, and the core seconds of the fastest of each."""

    bank: Bank
    bank_core_seconds: float
    models: dict[str, StandardisedModel]
    dfencoder_core_seconds: float


@contextmanager
def single_threaded() -> Iterator[None]:
    """Run on one thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(threads)


@cache
def fit_both() -> FittedModels:
    """Train our bank REPETITIONS times, and fit dfencoder's models in between; the fastest of each counts."""
    import_dfencoder()
    same, ours, theirs, models = build_tables(), [], [], {}
    learn = {user: published_columns(_events_of(same.history, user)) for user in same.users[:MODEL_COUNT]}
    with single_threaded():
        for turn in range(REPETITIONS):
            seconds, bank = measure_core_seconds(partial(pipeline.train, [same.history], same.settings))
            ours.append(seconds)
            for user in same.users[turn:MODEL_COUNT:REPETITIONS]:
                seconds, model = measure_core_seconds(partial(fit_dfencoder, learn[user]))
                theirs.append(seconds)
                models[user] = standardise_model(model, learn[user])
    return FittedModels(bank, min(ours), models, min(theirs))


def measure_core_seconds(run: Callable[[], T]) -> tuple[float, T]:
    """Return the core seconds of this process during a run, all threads together, and the result of the run."""
    start = time.process_time()
    out = run()
    return time.process_time() - start, out


def _events_of(events: pd.DataFrame, user: str) -> pd.DataFrame:
    return events[events["entity"] == user].reset_index(drop=True)


@dataclass(frozen=True)
class EncodedEvents:
    """N events encoded for our bank: `frame` with the columns of the scorer state, and the `fingerprint` (N,) of each."""

    frame: frames.Frame
    fingerprint: NDArray[np.int32]

    def take(self, rows: NDArray[np.intp]) -> EncodedEvents:
        """Return the events at these rows."""
        return EncodedEvents(frames.select_rows(self.frame, rows), self.fingerprint[rows])

    def rows_of(self, user: str) -> NDArray[np.intp]:
        """Return the rows of a user."""
        return np.flatnonzero(frames.column_of(self.frame, "entity") == user)

    def published_columns(self) -> pd.DataFrame:
        """Return the columns of the events that dfencoder reads (`dfencoder_tables`)."""
        return published_columns(frames.to_pandas(self.frame))


def encode_for_bank(events: pd.DataFrame, scorer_state: ScorerState) -> EncodedEvents:
    """Return events encoded for our bank. Raises FingerprintError for repeats, because the tables must have distinct ids."""
    batch, repeats = measured.encode_batch(events, scorer_state)
    if repeats:
        raise FingerprintError(f"{repeats} events of the bench's tables are repeats: their ids must differ")
    return EncodedEvents(batch.frame, fit_both().bank.resolve(batch.entity, batch.principal, batch.frame)[0])


def encode_features(events: EncodedEvents) -> Hashes:
    """Return the codes of all features (N, F)."""
    codes: Hashes = encoding.FEATURE_SET.encode(events.frame)
    encoding.FEATURE_SET.encode_stateful(codes, events.frame)
    return codes


def score_with_bank(codes: Hashes, fingerprint: NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Return each feature's surprise (N, F), and z (N,) of each event by itself, without the rest of its interval."""
    bank = fit_both().bank
    loss, _ = _inference().losses(fingerprint, codes)
    surprise = autoencoder.surprise_per_feature(loss, bank.baseline.center, fingerprint)
    return surprise, tail_calibration.excess_to_z(
        autoencoder.total_surprise(surprise), bank.baseline, fingerprint
    )


@cache
def _inference() -> LocalInference:
    return LocalInference(fit_both().bank)


# --- the rows -------------------------------------------------------------------------------------------------------


@benchmark(
    "training, tables of 1,000 rows x 33 columns, one thread",
    "models/core-hour",
    "dfencoder as published",
    100,
)
def training_pace() -> tuple[float, float]:
    """Count fingerprints of users in a core hour, from events in memory to the bank; theirs is from table to fitted model."""
    done = fit_both()
    pace = len(build_tables().users) / done.bank_core_seconds * 3600
    return pace, pace / (3600 / done.dfencoder_core_seconds)


@benchmark(
    "finding what was planted among the users' own events, mean AUC", "AUC", "dfencoder as published", 1
)
def planted_recall() -> tuple[float, float]:
    """Rank events by z, and take the mean AUC over the users for whom dfencoder has a model."""
    same, bank = build_tables(), fit_both().bank
    later = encode_for_bank(same.later, ScorerState.from_arrays(same.settings, bank.scorer_state))
    ours, theirs = [], []
    for user, model in fit_both().models.items():
        rows = later.rows_of(user)
        own = later.take(rows)
        ours.append(
            roc_auc_score(same.planted[rows], score_with_bank(encode_features(own), own.fingerprint)[1])
        )
        theirs.append(roc_auc_score(same.planted[rows], model.z_scores(own.published_columns())[1]))
    return float(np.mean(ours)), float(np.mean(ours) / np.mean(theirs))


@benchmark("scoring with explanation, 1,000 rows of one user", "rows/s", "dfencoder, the same rows", 20)
def one_user_pace() -> tuple[float, float]:
    """Score a table of record fields to the loss of each feature and the z of each event; the best case for one model a user."""
    return _pace([_training_rows(BATCH_ROWS, 1)])


@benchmark("scoring with explanation, 1,000 rows of 64 users", "rows/s", "dfencoder, a call a user", 20)
def many_users_pace() -> tuple[float, float]:
    """Score mixed users, as in a poll of a stream. Users without a dfencoder model get another user's, which takes as long."""
    return _pace([_training_rows(BATCH_ROWS // USERS, USERS)])


@benchmark("distinct rows among 1,000 of one user", "%", "among 1,000 of 64 users", None)
def distinct_row_share() -> tuple[float, float]:
    """Count the distinct rows of the batches above: we score equal rows once, dfencoder scores each row."""
    one, many = (distinct_share(_training_rows(BATCH_ROWS // users, users)) for users in (1, USERS))
    return 100 * one, one / many


def distinct_share(events: EncodedEvents) -> float:
    """Return the number of distinct rows of codes, by fingerprint, as a share of the events."""
    codes = encode_features(events)
    rows = np.column_stack([codes, events.fingerprint.astype(codes.dtype)])
    return len(np.unique(rows, axis=0)) / len(rows)


@benchmark("scoring with explanation, one event", "events/s", "its time with dfencoder", 0.02, at_most=True)
def one_event_latency() -> tuple[float, float]:
    """Score SINGLE_EVENTS events of one user one by one, and take the mean."""
    pace, ratio = _pace(
        [_training_rows(SINGLE_EVENTS, 1).take(np.array([at])) for at in range(SINGLE_EVENTS)]
    )
    return pace, 1 / ratio


@benchmark("the same from prepared rows, 1,000 of one user", "rows/s", "dfencoder, prepared too", 20)
def prepared_rows_pace() -> tuple[float, float]:
    """Score codes, as Triton does, against a table that `prepare_df` has prepared: this compares the networks alone."""
    return _prepared_pace(_training_rows(BATCH_ROWS, 1))


@benchmark(
    "the same from a prepared row, one event",
    "events/s",
    "its time with dfencoder, prepared too",
    0.1,
    at_most=True,
)
def prepared_event_latency() -> tuple[float, float]:
    """Measure a single prepared row."""
    pace, ratio = _prepared_pace(_training_rows(1, 1))
    return pace, 1 / ratio


def _prepared_pace(batch: EncodedEvents) -> tuple[float, float]:
    """Return our rows of the first user in a second, from codes, and how many times as fast that is as dfencoder."""
    model = fit_both().models[build_tables().users[0]]
    codes, data = encode_features(batch), model.model.prepare_df(batch.published_columns())
    with single_threaded():
        ours, theirs = fastest_interleaved(
            lambda: score_with_bank(codes, batch.fingerprint),
            lambda: model.standardise(prepared_feature_losses(model.model, data)),
        )
    return len(codes) / ours, theirs / ours


def _training_rows(rows: int, users: int) -> EncodedEvents:
    """Return the newest `rows` learned events of each of the first `users`, together in the order in which they came."""
    everything = _all_training_rows()
    newest = [everything.rows_of(user)[-rows:] for user in build_tables().users[:users]]
    return everything.take(np.sort(np.concatenate(newest)))


@cache
def _all_training_rows() -> EncodedEvents:
    return encode_for_bank(build_tables().history, ScorerState(build_tables().settings))


def _pace(batches: list[EncodedEvents]) -> tuple[float, float]:
    """Return our rows a second, and how many times as fast that is as dfencoder."""
    models = cycle(fit_both().models.values())
    tables = [
        (model, batch.take(batch.rows_of(user)).published_columns())
        for batch in batches
        for user, model in zip(pd.unique(frames.column_of(batch.frame, "entity")), models, strict=False)
    ]
    with single_threaded():
        ours, theirs = fastest_interleaved(
            lambda: [score_with_bank(encode_features(batch), batch.fingerprint) for batch in batches],
            lambda: [model.z_scores(table) for model, table in tables],
        )
    return sum(len(batch.frame) for batch in batches) / ours, theirs / ours


if __name__ == "__main__":  # these rows alone
    run_benchmarks(RESULTS_FILE)
