"""The rows against dfencoder: one autoencoder a user, trained one after the other, as the published digital fingerprinting does.

dfencoder (PyPI) is put into a folder of its own, build/bench, with what we do not have; torch, pandas and NumPy are the same for
both, on one thread, in one process, in turns. It has the published settings, and the published judgement: each feature's loss
is standardised by its mean and spread over the table that was learned, and an event's z is the mean of their absolute
values. What it works on is in `bench_tables`. These rows alone:

    python -m pipelines.bench.dfencoder

Ours is the whole program: `training.train` counts, fits, sets baselines and fills series. It also fits the fingerprints of
principals, peer groups and everybody, which are not counted: 64 users are 64 models on either side.
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

from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import FingerprintError
from fingerprint.detection import batch as measured
from fingerprint.detection.inference import InProcess
from fingerprint.estimators import autoencoder, tail_calibration
from fingerprint.evaluation import dfencoder_peer
from fingerprint.evaluation.dfencoder_peer import Standardised, losses_of, standardised
from fingerprint.features import encoding
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import Ledger
from fingerprint.training import pipeline
from pipelines.bench.dfencoder_tables import USERS, published, tables
from pipelines.bench.report import Skipped, measure, row, side_by_side

Floats = NDArray[np.float32]
T = TypeVar("T")

OUT = Path("build/bench-dfencoder.json")  # of these rows alone
HOME = Path("build/bench/dfencoder")
PINNED = ("dfencoder==0.0.42", "dill==0.4.1", "tensorboardX==2.6.5", "tqdm==4.70.1", "protobuf==7.36.2")
PATIENCE = 300  # seconds for pip
MODELS = 6  # of theirs: each takes some seconds
TURNS = 3  # of ours
BATCH = 1000  # rows scored at a time
SINGLE = 20  # events scored one by one


# --- the other side -------------------------------------------------------------------------------------------------


def dfencoder() -> Any:
    """The package. Skipped where it cannot be had."""
    found = _found()
    if isinstance(found, str):
        raise Skipped(found)
    return found


@cache
def _found() -> Any:
    """The package, or why it cannot be had: pip is asked once."""
    if not HOME.exists() and (problem := install(HOME, PINNED)):
        return f"dfencoder cannot be installed: {problem}"
    sys.path.append(str(HOME.resolve()))  # at the end: what both have is ours
    try:
        return importlib.import_module("dfencoder")
    except ImportError as reason:
        return f"dfencoder cannot be imported: {reason}"


def install(home: Path, packages: Sequence[str]) -> str | None:
    """Put packages into a folder, all of them or none. What was in the way; None if nothing was."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as folder:
        target = Path(folder) / home.name
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target)]
        command += packages
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)  # noqa: S603
        except subprocess.CalledProcessError as error:
            return next(iter(error.stderr.strip().splitlines()), "pip failed")
        except subprocess.TimeoutExpired:
            return f"it took longer than {PATIENCE} s"
        target.rename(home)
    return None


def fitted(table: pd.DataFrame) -> Any:
    """dfencoder's model of a table, at the published settings."""
    dfencoder()
    return dfencoder_peer.fitted(table)


# --- both, side by side ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fitted:
    """A bank of all users and what it took; models of the first MODELS users and what the fastest took (core seconds)."""

    bank: Bank
    ours: float
    models: dict[str, Standardised]
    theirs: float


@contextmanager
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(threads)


@cache
def both() -> Fitted:
    """Ours TURNS times, the fastest counts, and in between theirs, where the fastest of MODELS counts."""
    dfencoder()
    same, ours, theirs, models = tables(), [], [], {}
    learn = {user: published(_of(same.history, user)) for user in same.users[:MODELS]}
    with one_thread():
        for turn in range(TURNS):
            seconds, bank = core_seconds(partial(pipeline.train, [same.history], same.settings))
            ours.append(seconds)
            for user in same.users[turn:MODELS:TURNS]:
                seconds, model = core_seconds(partial(fitted, learn[user]))
                theirs.append(seconds)
                models[user] = standardised(model, learn[user])
    return Fitted(bank, min(ours), models, min(theirs))


def core_seconds(run: Callable[[], T]) -> tuple[float, T]:
    """Of this process, all threads together; and what the run returned."""
    start = time.process_time()
    out = run()
    return time.process_time() - start, out


def _of(events: pd.DataFrame, user: str) -> pd.DataFrame:
    return events[events["entity"] == user].reset_index(drop=True)


@dataclass(frozen=True)
class Known:
    """N events as our bank knows them: `frame` with the ledger's memory, `fingerprint` (N,)."""

    frame: pd.DataFrame
    fingerprint: NDArray[np.int32]

    def take(self, rows: NDArray[np.intp]) -> Known:
        return Known(self.frame.iloc[rows].reset_index(drop=True), self.fingerprint[rows])

    def of(self, user: str) -> NDArray[np.intp]:
        """The rows of a user."""
        return np.flatnonzero(self.frame["entity"].to_numpy(object) == user)


def known(events: pd.DataFrame, ledger: Ledger) -> Known:
    batch, repeats = measured.prepare(events, ledger)
    if repeats:
        raise FingerprintError(f"{repeats} events of the bench's tables are repeats: their ids must differ")
    return Known(batch.frame, both().bank.resolve(batch.entity, batch.principal, batch.frame)[0])


def encoded(events: Known) -> Hashes:
    codes: Hashes = encoding.encode(events.frame)
    encoding.encode_memory(codes, events.frame)
    return codes


def ours_z(codes: Hashes, fingerprint: NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Each feature's surprise (N, F), and z (N,) of each event by itself: without the company it keeps."""
    bank = both().bank
    loss, _ = InProcess(bank).of(fingerprint, codes)
    surprise = autoencoder.surprises(loss, bank.baseline.center, fingerprint)
    return surprise, tail_calibration.z_of(autoencoder.combine(surprise), bank.baseline, fingerprint)


# --- the rows -------------------------------------------------------------------------------------------------------


@row(
    "training, tables of 1,000 rows x 33 columns, one thread",
    "models/core-hour",
    "dfencoder as published",
    100,
)
def training_pace() -> tuple[float, float]:
    """Users' fingerprints of a core hour, events in memory to bank; theirs is from table to fitted model."""
    done = both()
    pace = len(tables().users) / done.ours * 3600
    return pace, pace / (3600 / done.theirs)


@row("finding what was planted among the users' own events, mean AUC", "AUC", "dfencoder as published", 1)
def planted_found() -> tuple[float, float]:
    """By the z of each event; the mean over the users of whom they have a model."""
    same, bank = tables(), both().bank
    later = known(same.later, Ledger.from_arrays(same.settings, bank.ledger))
    ours, theirs = [], []
    for user, model in both().models.items():
        rows = later.of(user)
        own = later.take(rows)
        ours.append(roc_auc_score(same.planted[rows], ours_z(encoded(own), own.fingerprint)[1]))
        theirs.append(roc_auc_score(same.planted[rows], model.z(published(own.frame))[1]))
    return float(np.mean(ours)), float(np.mean(ours) / np.mean(theirs))


@row("scoring with explanation, 1,000 rows of one user", "rows/s", "dfencoder, the same rows", 20)
def one_user() -> tuple[float, float]:
    """From a table of records' fields to each feature's loss and an event's z: the best case for a model a user."""
    return _pace([_learned(BATCH, 1)])


@row("scoring with explanation, 1,000 rows of 64 users", "rows/s", "dfencoder, a call a user", 20)
def many_users() -> tuple[float, float]:
    """As a poll of a stream has them. A user of whom they have no model is given another's: it takes as long."""
    return _pace([_learned(BATCH // USERS, USERS)])


@row("scoring with explanation, one event", "events/s", "its time with dfencoder", 0.1, at_most=True)
def one_event() -> tuple[float, float]:
    """The mean of SINGLE events of one user, each by itself."""
    pace, ratio = _pace([_learned(SINGLE, 1).take(np.array([at])) for at in range(SINGLE)])
    return pace, 1 / ratio


@row("the same from prepared rows, 1,000 of one user", "rows/s", "dfencoder, prepared too", 20)
def prepared() -> tuple[float, float]:
    """From codes, as Triton is asked, against a table that `prepare_df` has made ready: the nets by themselves."""
    return _prepared_pace(_learned(BATCH, 1))


@row(
    "the same from a prepared row, one event",
    "events/s",
    "its time with dfencoder, prepared too",
    0.1,
    at_most=True,
)
def prepared_event() -> tuple[float, float]:
    pace, ratio = _prepared_pace(_learned(1, 1))
    return pace, 1 / ratio


def _prepared_pace(batch: Known) -> tuple[float, float]:
    """Of rows of the first user."""
    model = both().models[tables().users[0]]
    codes, data = encoded(batch), model.model.prepare_df(published(batch.frame))
    with one_thread():
        ours, theirs = side_by_side(
            lambda: ours_z(codes, batch.fingerprint), lambda: model.standardised(losses_of(model.model, data))
        )
    return len(codes) / ours, theirs / ours


def _learned(rows: int, users: int) -> Known:
    """The newest rows that were learned of each of the first users, together as they came."""
    everything = _all_learned()
    newest = [everything.of(user)[-rows:] for user in tables().users[:users]]
    return everything.take(np.sort(np.concatenate(newest)))


@cache
def _all_learned() -> Known:
    return known(tables().history, Ledger(tables().settings))


def _pace(batches: list[Known]) -> tuple[float, float]:
    """Rows a second of ours, and how many times theirs that is."""
    models = cycle(both().models.values())
    asked = [
        (model, published(batch.frame.iloc[batch.of(user)]))
        for batch in batches
        for user, model in zip(batch.frame["entity"].unique(), models, strict=False)
    ]
    with one_thread():
        ours, theirs = side_by_side(
            lambda: [ours_z(encoded(batch), batch.fingerprint) for batch in batches],
            lambda: [model.z(table) for model, table in asked],
        )
    return sum(len(batch.frame) for batch in batches) / ours, theirs / ours


if __name__ == "__main__":  # these rows alone
    measure(OUT)
