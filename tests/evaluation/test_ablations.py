"""A term left out: it changes what it is there for and nothing else, and the detectors beside it say what they always said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Autoencoder, Settings
from fingerprint.detection.detectors import build_detectors, listed_detectors, load_detector
from fingerprint.detection.detectors.spectral import CHANNEL_TERMS
from fingerprint.detection.inference import LocalInference
from fingerprint.evaluation.ablations import LastLosses, variant_names
from fingerprint.evaluation.quorums import MultiQuorumPipeline
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import ScorerState
from fingerprint.training import pipeline
from pipelines.cli.console import no_progress
from pipelines.evaluation.backtest import events_between, read_history
from pipelines.simulate import simulate_organisation

SETTINGS = Settings(autoencoder=Autoencoder(max_epochs=1))
Scored = tuple[Bank, pd.DataFrame, pd.DataFrame]


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Scored:
    """A bank, and the last two days scored: without variants, and with them."""
    folder: Path = tmp_path_factory.mktemp("small")
    simulate_organisation(6, 8, 3, folder, attacks=2, scale=0.3)
    with read_history([str(folder)], SETTINGS) as history:
        cut = (history.earliest_event_time() or 0) + 6 * 86_400
        bank = pipeline.train(events_between(history, None, cut), SETTINGS, no_progress)
        tables = []
        for terms in (False, True):
            state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
            panel = MultiQuorumPipeline(bank, state, SETTINGS, {}, terms)
            for events in events_between(history, cut, None):
                panel.process(events)
            panel.flush()
            tables.append(panel.scored_events.to_frame())
    return bank, tables[0], tables[1]


def test_measuring_the_variants_changes_nothing_of_the_detectors(scored: Scored) -> None:
    _, plain, with_terms = scored
    pd.testing.assert_frame_equal(with_terms[plain.columns], plain)


def test_every_term_of_every_listed_detector_has_a_score_of_each_event(scored: Scored) -> None:
    _, _, table = scored
    variants = variant_names(SETTINGS)
    assert len(variants) == sum(len(each.terms) for each in listed_detectors(SETTINGS)) > 5
    for name, detector in variants.items():
        known = np.isfinite(table[f"{name}_z"])
        assert (known == np.isfinite(table[f"{detector}_z"])).all(), name
        assert known.any(), name


def test_leaving_out_what_only_adds_raises_no_score(scored: Scored) -> None:
    _, _, table = scored
    whole = table["autoencoder_z"].to_numpy()
    for term in ("interval surprise", "two places", "evidence: what"):
        assert (table[f"autoencoder without {term}_z"].to_numpy() <= whole + 1e-5).all(), term
    for term in ("recent novelty", "principal's view"):
        assert (table[f"autoencoder without {term}_z"].to_numpy() >= whole - 1e-5).all(), term


@pytest.mark.parametrize("term", sorted(CHANNEL_TERMS))
def test_leaving_a_channel_out_raises_no_score_of_the_spectral_detector(scored: Scored, term: str) -> None:
    _, _, table = scored
    whole, without = (table[f"spectral{name}_z"].to_numpy() for name in ("", f" without {term}"))
    assert not (without > whole + 1e-5).any()


def test_leaving_out_what_explains_an_action_lowers_no_score_of_the_sequence(scored: Scored) -> None:
    _, _, table = scored
    whole = table["sequence_z"].to_numpy()
    for term in ("contexts", "news once"):
        assert not (table[f"sequence without {term}_z"].to_numpy() < whole - 1e-5).any(), term


@pytest.mark.parametrize("detector", ["spectral", "sequence"])
def test_every_term_of_the_two_others_changes_some_score(scored: Scored, detector: str) -> None:
    """But for what hardly happens in two days of six principals: an action has the vote twice or fails often, or one begins."""
    _, _, table = scored
    changed = {
        term
        for term in load_detector(detector).terms
        if (abs(table[f"{detector} without {term}_z"] - table[f"{detector}_z"]) > 1e-4).any()
    }
    assert changed >= set(load_detector(detector).terms) - {"news once", "errors", "newcomers"}


def test_most_terms_change_some_score(scored: Scored) -> None:
    _, _, table = scored
    changed = [
        name
        for name, detector in variant_names(SETTINGS).items()
        if detector == "autoencoder" and (abs(table[f"{name}_z"] - table["autoencoder_z"]) > 1e-4).any()
    ]
    assert {
        "autoencoder without nets",
        "autoencoder without counts",
        "autoencoder without interval surprise",
    } <= set(changed)


def test_a_term_that_a_detector_does_not_have_is_refused(scored: Scored) -> None:
    bank, *_ = scored
    for detector in build_detectors(SETTINGS, bank, ScorerState(SETTINGS), LocalInference(bank)):
        with pytest.raises(FingerprintError, match="no term 'luck'"):
            detector.without("luck")


def test_losses_of_the_same_arrays_are_computed_once(scored: Scored) -> None:
    bank, *_ = scored
    calls = []

    class Counted(LocalInference):
        def losses(self, fingerprint, codes):  # type: ignore[no-untyped-def]
            calls.append(len(codes))
            return super().losses(fingerprint, codes)

    kept = LastLosses(Counted(bank))
    rows, codes = np.zeros(3, np.int32), np.zeros((3, bank.vocabulary.total.shape[1]), np.uint64)
    some = (rows[:1], codes[:1])
    for asked in ((rows, codes), some, (rows, codes), some):
        kept.losses(*asked)
    assert calls == [3, 1], "a whole batch is asked for again after some of its rows"
    np.testing.assert_array_equal(kept.losses(rows, codes)[0], LocalInference(bank).losses(rows, codes)[0])
    kept.losses(rows.copy(), codes)
    assert calls == [3, 1, 3], "other arrays may hold other rows"
