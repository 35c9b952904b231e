"""What it would change to compute with fewer bits, as a GPU offers to: nets fitted, events scored. By itself:

    python -m pipelines.bench.precision

No device is needed: operands of every product are rounded here as tensor cores round them, and added up in float32 as they add.
A small organisation is learned and scored each way; beside it, how far another seed lies from ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

from fingerprint.core.settings import Autoencoder, Settings
from fingerprint.estimators import autoencoder
from fingerprint.features.vocabulary import Floats
from fingerprint.pipeline import DetectionPipeline
from fingerprint.registry.bank import Bank
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from fingerprint.training import pipeline
from fingerprint.training.nn import network
from pipelines.bench.organisation import organisation_files, read_events

RESULTS_FILE = Path("build/bench-precision.json")
PRINCIPALS, DAYS, LEARNED = 50, 14, 10
Rounding = Callable[[torch.Tensor], torch.Tensor]


def main() -> None:
    with organisation_files(PRINCIPALS, DAYS) as days:
        history, following = (read_events(part, Settings()) for part in (days[:LEARNED], days[LEARNED:]))
    ours = score_events(fit_bank(history), following)
    result = {name: compare(ours, other) for name, other in _alternatives(history, following)}
    RESULTS_FILE.parent.mkdir(parents=True, exist_ok=True)
    RESULTS_FILE.write_text(json.dumps(result, indent=1) + "\n")
    Console().print(_table(result))


def _alternatives(
    history: list[pd.DataFrame], following: list[pd.DataFrame]
) -> Iterator[tuple[str, ScoredEvents]]:
    for name, way in ROUNDINGS.items():
        with rounded_products(way):
            bank = fit_bank(history)
        yield f"fitted in {name}", score_events(bank, following)
    bank = fit_bank(history)
    with half_precision_losses():
        yield "scored in float16", score_events(bank, following)
    yield "another seed", score_events(fit_bank(history, seed=1), following)


def fit_bank(history: list[pd.DataFrame], seed: int = 0) -> Bank:
    return pipeline.train(history, Settings(autoencoder=Autoencoder(seed=seed)))


class ScoredEvents(NamedTuple):
    """`events` of the days that follow with z, votes and verdict; `losses` (N, F) of rows that the bank was trained on."""

    events: pd.DataFrame
    losses: Floats


def score_events(bank: Bank, following: list[pd.DataFrame]) -> ScoredEvents:
    road = DetectionPipeline(
        bank, PipelineState(ScorerState.from_arrays(Settings(), bank.scorer_state)), Settings(), keep_all_events=True
    )
    said = [*map(road.process, following), road.flush()]
    events = pd.concat([frame for each in said for frame in each.scored_events])
    fingerprint, codes = bank.scorer_state["sample.fingerprint"], bank.scorer_state["sample.codes"]
    losses, _ = autoencoder.feature_losses(bank.vocabulary, bank.weights, fingerprint, codes)
    return ScoredEvents(events.set_index("event_id").sort_index(), losses)


def compare(ours: ScoredEvents, other: ScoredEvents) -> dict[str, Any]:
    """How far apart two ways are over the same events, and over the same rows."""
    one, two = ours.events, other.events
    z, loss = (one["autoencoder_z"] - two["autoencoder_z"]).abs(), np.abs(ours.losses - other.losses)
    return {
        "events": len(one),
        "votes": int(one["autoencoder_vote"].sum()),
        "votes_changed": int((one["autoencoder_vote"] != two["autoencoder_vote"]).sum()),
        "verdicts_changed": int((one["verdict"] != two["verdict"]).sum()),
        "loss_apart_mean": float(loss.mean()),
        "loss_apart_99": float(np.quantile(loss, 0.99)),
        "loss_apart_most": float(loss.max()),
        "z_apart_median": float(z.median()),
        "z_apart_99": float(z.quantile(0.99)),
        "z_apart_99_where_above_2": float(z[one["autoencoder_z"] > 2].quantile(0.99)),
    }


# --- fewer bits ---------------------------------------------------------------------------------------------------------


def round_to_tf32(numbers: torch.Tensor) -> torch.Tensor:
    """Ten bits of fraction, to the nearest."""
    return ((numbers.contiguous().view(torch.int32) + (1 << 12)) & -(1 << 13)).view(torch.float32)


def round_to_bfloat16(numbers: torch.Tensor) -> torch.Tensor:
    """Seven."""
    return numbers.to(torch.bfloat16).to(torch.float32)


ROUNDINGS: dict[str, Rounding] = {"tf32": round_to_tf32, "bfloat16": round_to_bfloat16}


class _Rounding:
    """torch, but that its products see rounded numbers."""

    def __init__(self, way: Rounding) -> None:
        self.way = way

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def bmm(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.bmm(self.way(left), self.way(right))

    def baddbmm(
        self, added: torch.Tensor, left: torch.Tensor, right: torch.Tensor, **named: Any
    ) -> torch.Tensor:
        return torch.baddbmm(added, self.way(left), self.way(right), **named)


@contextmanager
def rounded_products(way: Rounding) -> Iterator[None]:
    """Nets are fitted with rounded products in the block."""
    network.torch = _Rounding(way)  # type: ignore[assignment, attr-defined]
    try:
        yield
    finally:
        network.torch = torch  # type: ignore[attr-defined]


@contextmanager
def half_precision_losses() -> Iterator[None]:
    """Losses are computed in half precision in the block: what is summed, the hidden units, the corrections."""
    plain = autoencoder.reconstruct

    def half(inputs: Any, bias: Any, outputs: Any, net: Any, slot: Any) -> Any:
        seen = autoencoder.widen_half(inputs[net[:, None], np.arange(slot.shape[1]), slot])
        summed = _to_half(
            _to_half(np.matmul(autoencoder.VISIBLE_MASK, seen)) + bias[net][:, None, :].astype(np.float32)
        )
        hidden = _to_half(np.tanh(summed))
        return _to_half(np.matmul(autoencoder.widen_half(outputs[net]), hidden[..., None])[..., 0])

    autoencoder.reconstruct = half
    try:
        yield
    finally:
        autoencoder.reconstruct = plain


def _to_half(numbers: Any) -> Any:
    return numbers.astype(np.float16).astype(np.float32)


def _table(result: dict[str, Any]) -> Table:
    """A column for each way; a row for each figure."""
    table = Table("against float32 and seed 0", *result, title=f"written to {RESULTS_FILE}")
    for name in next(iter(result.values())):
        values = (figures[name] for figures in result.values())
        table.add_row(
            name.replace("_", " "),
            *(f"{each:.2g}" if isinstance(each, float) else f"{each:,}" for each in values),
        )
    return table


if __name__ == "__main__":
    main()
