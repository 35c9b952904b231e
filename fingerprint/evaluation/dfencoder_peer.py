"""The published digital fingerprinting as a peer: one `dfencoder` autoencoder a principal, mean absolute z.

Example:
    >>> method = DfencoderPeer(progress)                        # needs dfencoder and torch
    >>> z = method(past, now)                                   # (len(now),); published as an anomaly above 2

As published (NVIDIA Morpheus, digital fingerprinting): a principal with MIN_ROWS rows or more has a model of its own, all
others share one that is fitted to all rows; each feature's loss is standardised by its mean and spread over the
table that was learned, and an event's z is the mean of their absolute values. The columns are our recorded features as
text, which hold what the published columns hold of CloudTrail (source and name of the event, errors, user agent, address,
identity, parameters), already cleaned of ids.

Two things differ, to its advantage. Its model is fitted to MAX_ROWS rows, spread evenly over the past, so that it ends
today. And one step goes backwards once through the sum of the features' losses, not once for each of them: the same
gradients, less rounding, in a fraction of the time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute.arrays import Floats
from fingerprint.compute.hashing import Hashes
from fingerprint.evaluation.event_table import EventTable
from fingerprint.evaluation.ranking import RECORDED_COLUMNS, Scores
from fingerprint.features.encoding import FEATURE_NAMES
from fingerprint.training.pipeline import Progress

PUBLISHED_SETTINGS: Mapping[str, Any] = {
    "encoder_layers": [512, 500],
    "decoder_layers": [512],
    "activation": "relu",
    "swap_p": 0.2,
    "lr": 0.001,
    "lr_decay": 0.99,
    "batch_size": 512,
    "optimizer": "sgd",
    "scaler": "standard",
    "min_cats": 1,
    "verbose": False,
    "progress_bar": False,
}
EPOCHS = 30
MIN_ROWS = 300  # rows of a principal with a model of its own, as published
MAX_ROWS = 1000  # rows that a model is fitted to
BATCH = 4096  # distinct rows scored at a time


@dataclass(frozen=True)
class DfencoderOptions:
    """Options of the fit of models."""

    settings: Mapping[str, Any] = field(default_factory=lambda: PUBLISHED_SETTINGS)
    epochs: int = EPOCHS
    min_rows: int = MIN_ROWS
    max_rows: int = MAX_ROWS


@dataclass(frozen=True)
class DfencoderPeer:
    """A method (`peers`): fits its models at each call and reports how many of them are done."""

    published_threshold: ClassVar[float] = 2.0

    progress: Progress = lambda *_: None
    options: DfencoderOptions = DfencoderOptions()

    def __call__(self, past: EventTable, now: EventTable) -> Scores:
        """Fit the models of `past` and return the mean absolute z of `now`: (len(now),)."""
        out = np.empty(len(now))
        parts = list(_model_partitions(past, now, self.options))
        for done, (learned, judged) in enumerate(parts):
            self.progress("dfencoder models", done, len(parts))
            model = fit_model(_subsample(past.codes[learned], self.options.max_rows), self.options)
            out[judged] = model.score(now.codes[judged])
        return out


def _model_partitions(
    past: EventTable, now: EventTable, options: DfencoderOptions
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield for each model the rows it learns (in `past`) and those it scores (in `now`); last the model that is shared."""
    who, events = np.unique(past.principal, return_counts=True)
    own = who[events >= options.min_rows]
    for principal in own[np.isin(own, now.principal)]:
        yield np.flatnonzero(past.principal == principal), np.flatnonzero(now.principal == principal)
    rest = np.flatnonzero(~np.isin(now.principal, own))
    if len(rest):
        yield np.arange(len(past)), rest


def _subsample(codes: Hashes, limit: int) -> Hashes:
    """Return at most `limit` rows, evenly spread."""
    if len(codes) <= limit:
        return codes
    return codes[np.arange(limit) * len(codes) // limit]


# --- one model ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StandardisedModel:
    """A fitted model, and the mean and spread (F,) of its losses on the table it was fitted to."""

    model: Any
    mean: Floats
    spread: Floats

    def z_scores(self, table: pd.DataFrame) -> tuple[Floats, Floats]:
        """Return each feature's absolute z (N, F), and their mean (N,)."""
        return self.standardise(feature_losses(self.model, table))

    def standardise(self, loss: Floats) -> tuple[Floats, Floats]:
        """Return losses (N, F) as absolute z's (N, F), and their mean (N,)."""
        each = np.abs((loss - self.mean) / self.spread)
        return each, each.mean(1)

    def score(self, codes: Hashes) -> Floats:
        """Return the mean absolute z of events (N,) by their codes; equal rows are scored once."""
        distinct, inverse = np.unique(codes[:, RECORDED_COLUMNS], axis=0, return_inverse=True)
        parts = [
            self.z_scores(_text_table(distinct[start : start + BATCH]))[1]
            for start in range(0, len(distinct), BATCH)
        ]
        return np.concatenate(parts)[inverse]


def fit_model(codes: Hashes, options: DfencoderOptions) -> StandardisedModel:
    """Fit the model of a principal's codes (N, all features)."""
    table = _text_table(codes[:, RECORDED_COLUMNS])
    model = fit_dfencoder(table, options.settings, options.epochs, together=True)
    return standardise_model(model, table)


def standardise_model(model: Any, table: pd.DataFrame) -> StandardisedModel:
    """Return a model with the mean and spread of its losses on the table that it was fitted to."""
    loss = feature_losses(model, table)
    spread = loss.std(0)
    return StandardisedModel(model, loss.mean(0), np.where(spread > 0, spread, 1))


def fit_dfencoder(
    table: pd.DataFrame,
    settings: Mapping[str, Any] = PUBLISHED_SETTINGS,
    epochs: int = EPOCHS,
    together: bool = False,
) -> Any:
    """Fit dfencoder's model to a table of text, by its own code; the same table gives the same model.

    Columns of another dtype than object are passed over without a word. `together` adds the features' losses up before it goes
    backwards, instead of going backwards for each.
    """
    import torch
    from dfencoder import AutoEncoder

    with _single_threaded(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a table of text leaves its layer of numbers without a weight
        model = AutoEncoder(**settings, device=torch.device("cpu"))
        if together:
            model.do_backward = lambda numbers, flags, codes: (numbers + flags + sum(codes)).backward()
        model.fit(table, epochs=epochs)
    return model


def feature_losses(model: Any, table: pd.DataFrame) -> Floats:
    """Return the loss of each feature (N, F): what `get_anomaly_score` takes the mean of, by the same calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas will not take values beyond a column's categories for ever
        return prepared_feature_losses(model, model.prepare_df(table))


def prepared_feature_losses(model: Any, data: pd.DataFrame) -> Floats:
    """Return the losses (N, F) of a table that `prepare_df` has made ready."""
    import torch

    model.eval()
    numbers, flags, codes = model.compute_targets(data)
    with torch.no_grad():
        number, flag, code = model.forward(data)
        kinds = [model.mse(number, numbers), model.bce(flag, flags)]
        kinds += [
            model.cce(output, target.long())[:, None] for output, target in zip(code, codes, strict=True)
        ]
    out: Floats = torch.cat(kinds, dim=1).numpy()
    return out


def _text_table(codes: Hashes) -> pd.DataFrame:
    """Return codes (N, R) of the recorded features as columns of text."""
    return pd.DataFrame(
        {
            FEATURE_NAMES[place]: pd.Series(codes[:, column].astype(str), dtype=object)
            for column, place in enumerate(RECORDED_COLUMNS)
        }
    )


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Run on one thread, with seeded generators, and put both back afterwards.

    The steps are so small that several threads mostly wait for each other; dfencoder draws from the global generators.
    """
    import torch

    threads, before = torch.get_num_threads(), np.random.get_state()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        np.random.seed(0)
        yield
    np.random.set_state(before)
    torch.set_num_threads(threads)
