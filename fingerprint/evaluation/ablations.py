"""Ablations: every detector measured once more with each term of its score left out, in the same run of the pipeline.

Example:
    >>> scorer = AblationScorer(bank, state, settings)
    >>> scorer.variants[0].left_out
    'interval surprise'
    >>> scorer.judge(batch).frame["autoencoder without interval surprise_z"]          # beside `autoencoder_z`

A detector names its terms and makes the variant (`Detector.terms`, `Detector.without`). Variants vote on nothing: their scores
are columns beside those of the detectors. They measure the same batches: losses that several of them need are computed once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.compute.arrays import Floats, Ints
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import z_column
from fingerprint.core.ports.inference import Inference
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors import Detector, listed_detectors
from fingerprint.detection.inference import LocalInference
from fingerprint.detection.scorer import ScoredEvents, Scorer
from fingerprint.registry.bank import Bank
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.pipeline_state import PipelineState

KEPT_ANSWERS = 2  # of a whole batch, and of the rows that are measured at the principal as a whole


def variant_name(detector: str, term: str) -> str:
    """Return what a detector without a term is called.

    >>> variant_name("autoencoder", "interval surprise")
    'autoencoder without interval surprise'
    """
    return f"{detector} without {term}"


def variant_names(settings: Settings) -> dict[str, str]:
    """Return the variants of the listed detectors, each with the detector that it is one of."""
    return {
        variant_name(each.name, term): each.name for each in listed_detectors(settings) for term in each.terms
    }


class AblationScorer(Scorer):
    """A scorer that judges every event, and gives each a z of each variant, too."""

    def __init__(self, bank: Bank, state: PipelineState, settings: Settings) -> None:
        inference = LastLosses(LocalInference(bank))
        super().__init__(bank, state, settings, keep_all_events=True, inference=inference)
        self.variants = [each.without(term) for each in self.detectors for term in each.terms]

    def _measure_evidence(self, batch: EventBatch) -> dict[str, NDArray[Any]]:
        evidence = super()._measure_evidence(batch)
        measured = replace(batch, evidence=evidence)  # what was counted is not counted again
        return evidence | {_name(each): each.measure(measured) for each in self.variants}

    def judge(self, batch: EventBatch, is_final: bool = True) -> ScoredEvents:
        """Return the events as judged by the detectors, with a column of z for each variant."""
        judged = super().judge(batch, is_final)
        columns = {z_column(_name(each)): each.score(_as_measured_by(each, batch)) for each in self.variants}
        return replace(judged, table=frames.with_columns(judged.table, columns))


def _name(variant: Detector) -> str:
    return variant_name(variant.name, variant.left_out)


def _as_measured_by(variant: Detector, batch: EventBatch) -> EventBatch:
    """Return the batch with the evidence of a variant in its detector's place."""
    return replace(batch, evidence={**batch.evidence, variant.name: batch.evidence[_name(variant)]})


class LastLosses:
    """Losses by another inference; the last answers are kept, for whatever asks for the same arrays again."""

    def __init__(self, inner: Inference) -> None:
        self.inner = inner
        self.kept: list[tuple[Ints, Hashes, tuple[Floats, NDArray[np.bool_]]]] = []  # the latest last

    @property
    def version(self) -> str:
        """The version of the bank."""
        return self.inner.version

    @property
    def degraded(self) -> bool:
        """Return whether the fallback computed the last losses."""
        return self.inner.degraded

    def losses(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_]]:
        """Return loss (N, F) in nats and known (N, F); equal arguments are told by their identity."""
        same = [each for each in self.kept if each[0] is fingerprint and each[1] is codes]
        answer = same[0] if same else (fingerprint, codes, self.inner.losses(fingerprint, codes))
        others = [each for each in self.kept if each is not answer]
        self.kept = [*others[1 - KEPT_ANSWERS :], answer]
        return answer[2]
