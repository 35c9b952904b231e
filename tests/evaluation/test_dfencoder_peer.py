"""The published autoencoder as a peer: one a principal, the same as dfencoder's own, reproducible, and polite."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from fingerprint.compute import hashing
from fingerprint.evaluation.dfencoder_peer import (
    PUBLISHED_SETTINGS,
    DfencoderOptions,
    DfencoderPeer,
    feature_losses,
    fit_dfencoder,
)
from fingerprint.evaluation.peers import SLOW_PEER_METHODS, UNAVAILABLE_PEERS, evaluate_peer
from fingerprint.evaluation.ranking import rank_by_strongest_actions
from fingerprint.features.encoding import FEATURE_NAMES
from tests.evaluation.test_peers import CUT, habits, planted, rows_of

SMALL = {**PUBLISHED_SETTINGS, "encoder_layers": [32, 30], "decoder_layers": [32]}
QUICK = {**PUBLISHED_SETTINGS, "optimizer": "adam", "lr": 0.01}  # learns something from so few rows
FEW = DfencoderOptions(SMALL, epochs=2, min_rows=100, max_rows=200)


def table(rows: int = 80) -> pd.DataFrame:
    """Text in three columns: of two, of five and of one value."""
    random = np.random.default_rng(0)
    columns = {
        "tool": random.choice(["cli", "sdk"], rows),
        "action": random.choice(list("abcde"), rows),
        "error": np.full(rows, "none"),
    }
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def test_nothing_is_left_out_where_the_packages_are_there() -> None:
    assert UNAVAILABLE_PEERS == {}
    assert set(SLOW_PEER_METHODS) == {"dfencoder"}


def test_a_step_back_through_the_sum_of_losses_is_the_step_that_dfencoder_takes() -> None:
    settings = {**SMALL, "lr": 0.1}  # large, so that a difference would show
    each, together = (fit_dfencoder(table(), settings, epochs=5, together=way) for way in (False, True))
    untrained = fit_dfencoder(table(), settings, epochs=0)
    for mine, theirs in zip(together.parameters(), each.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)
    assert np.abs(feature_losses(each, table()) - feature_losses(untrained, table())).max() > 0.1


def test_the_mean_of_the_losses_is_dfencoders_own_anomaly_score() -> None:
    model = fit_dfencoder(table(), epochs=2)
    assert feature_losses(model, table()).shape == (80, 3)
    np.testing.assert_allclose(
        feature_losses(model, table()).mean(1), model.get_anomaly_score(table()), rtol=1e-5
    )


def test_other_peoples_random_numbers_and_threads_are_left_as_they_were() -> None:
    np.random.seed(7)
    torch.manual_seed(7)
    before = np.random.get_state()[1].copy(), torch.get_rng_state(), torch.get_num_threads()
    fit_dfencoder(table(), epochs=1)
    assert (np.random.get_state()[1] == before[0]).all()
    assert (torch.get_rng_state() == before[1]).all()
    assert torch.get_num_threads() == before[2]


def test_a_planted_attack_is_above_the_published_threshold_and_its_victim_is_not() -> None:
    past, now = rows_of(pd.concat([habits(), planted()]).query("principal in ['p0', 'p1']")).split(CUT)
    method = DfencoderPeer(options=DfencoderOptions(QUICK, epochs=8, min_rows=100, max_rows=200))
    rank, flagged = evaluate_peer(method, past, now)
    score = method(past, now)
    attack = now.codes[:, FEATURE_NAMES.index("network")] == hashing.hash_string("nowhere")
    assert (flagged == (score >= 2)).all()
    assert flagged[attack].all()
    assert flagged[~attack].mean() < 0.15
    assert rank[attack].max() > rank[~attack].max()
    np.testing.assert_array_equal(
        rank, rank_by_strongest_actions(score, now)
    )  # the same again: nothing is left to chance


def test_who_has_too_little_history_is_judged_by_everybodys_model() -> None:
    new = habits().query("principal == 'p3'").assign(principal="new")
    everybody = pd.concat([habits(), new[new["seconds"] >= CUT]])
    past, now = rows_of(everybody).split(CUT)
    said: list[tuple[str, int, int]] = []
    score = DfencoderPeer(progress=lambda *stage: said.append(stage), options=FEW)(past, now)
    assert said == [("dfencoder models", done, 5) for done in range(5)]  # four of their own, and one
    assert np.isfinite(score).all()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_principal_who_does_one_thing_only_can_be_learned(optimizer: str) -> None:
    """No feature has three values, so there is no category to predict at all."""
    robot = pd.DataFrame({"seconds": np.arange(0, 8 * 86400, 600), "principal": "robot", "action": "poll"})
    past, now = rows_of(robot).split(CUT)
    settings = {**PUBLISHED_SETTINGS, "optimizer": optimizer}
    score = DfencoderPeer(options=DfencoderOptions(settings, epochs=2, min_rows=100, max_rows=200))(past, now)
    assert np.isfinite(score).all()
