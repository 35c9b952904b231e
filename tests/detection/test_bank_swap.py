"""A bank swap: what of a scorer depends on its bank, and what on its state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from fingerprint.compute import hashing
from fingerprint.detection.batch import encode_batch
from fingerprint.detection.detectors import spectral
from fingerprint.pipeline import DetectionPipeline
from fingerprint.registry.bank import Bank
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from tests.support.stepwise_pipeline import MEMORY, SETTINGS, Outcome, Step, pipeline_of, same, walked

HALF = 8  # steps


def without_entities(bank: Bank) -> Bank:
    """The same bank, no entity of which has learned enough for a fingerprint of its own."""
    ready = bank.fingerprints["ready"] & (bank.fingerprints["level"] > 0)
    manifest = bank.manifest | {"version": f"{bank.version}-young"}
    return replace(bank, manifest=manifest, fingerprints=bank.fingerprints.assign(ready=ready))


def without(bank: Bank, principal: str) -> Bank:
    """The same bank, which has never heard of a principal."""
    theirs = bank.fingerprints["key"].str.split("|").str[0] == principal
    manifest = bank.manifest | {"version": f"{bank.version}-without"}
    return replace(bank, manifest=manifest, fingerprints=bank.fingerprints[~theirs].reset_index(drop=True))


def channels_of(pipeline: DetectionPipeline, step: Step) -> np.ndarray:
    """The series of its own action, or of the others, in which each event of a step is counted."""
    batch, _ = encode_batch(step.events, pipeline.state.scorer)
    fingerprint, level = pipeline.scorer.bank.resolve(batch.entity, batch.principal, batch.frame)
    batch = replace(batch, fingerprint=fingerprint, level=level)
    spectral = next(each for each in pipeline.scorer.detectors if each.granularity == "interval")
    keys, series = spectral.measure(batch)[:, 0], pipeline.state.scorer.series
    return series.channel[series.find_rows(keys)]


def test_taking_over_changes_nothing_where_the_bank_is_the_same(
    bank: Bank, steps: list[Step], undisturbed: Outcome
) -> None:
    """But for the version that events name; and for what has no fingerprint of its own, of which training counts single
    actions and the scorer all together."""
    same = replace(bank, manifest=bank.manifest | {"version": "another name"})

    def swap(pipeline: DetectionPipeline, step: Step) -> DetectionPipeline:
        if step is steps[HALF]:
            pipeline.swap_bank(same)
        return pipeline

    events = walked(pipeline_of(bank, bank.scorer_state), steps, swap).events
    assert set(events["bank_version"]) == {bank.version, "another name"}
    own, exact = undisturbed.events["level"] == "entity", [*MEMORY, "autoencoder_z", "level"]
    pd.testing.assert_frame_equal(events[exact], undisturbed.events[exact], check_exact=True)
    pd.testing.assert_series_equal(
        events["spectral_z"][own], undisturbed.events["spectral_z"][own], check_exact=True
    )


def test_what_cannot_be_remembered_is_taken_back(bank: Bank, steps: list[Step], undisturbed: Outcome) -> None:
    """The checkpoint with the new bank could not be saved."""

    def swap_in_vain(pipeline: DetectionPipeline, step: Step) -> DetectionPipeline:
        pipeline.swap_bank(without_entities(bank))()
        return pipeline

    same(walked(pipeline_of(bank, bank.scorer_state), steps, swap_in_vain), undisturbed)


def test_an_action_that_was_counted_by_itself_stays_so(bank: Bank, steps: list[Step]) -> None:
    """Among the others it would look like a surge of them."""
    pipeline, other = pipeline_of(bank, bank.scorer_state), pipeline_of(bank, bank.scorer_state)
    before = channels_of(other, steps[0])
    assert (before != spectral.OTHER_ACTION_CHANNEL).mean() > 0.3
    pipeline.process(steps[0].events.iloc[:0], steps[0].watermark)
    pipeline.swap_bank(without_entities(bank))
    np.testing.assert_array_equal(channels_of(pipeline, steps[0]), before)


def test_an_action_that_is_counted_by_itself_from_now_on_has_no_past_to_be_held_against(
    bank: Bank, steps: list[Step]
) -> None:
    """Its past lies among the others: held against nothing, its first interval would be a surge."""
    pipeline = DetectionPipeline(
        without_entities(bank), PipelineState(ScorerState(SETTINGS)), SETTINGS, keep_all_events=True
    )
    for step in steps[:HALF]:
        pipeline.process(*step)
    series = pipeline.state.scorer.series
    assert set(series.channel) <= set(spectral.CHANNEL_LABELS)
    pipeline.swap_bank(bank)
    for step in steps[HALF:]:
        pipeline.process(*step)
    own = ~np.isin(series.channel, list(spectral.CHANNEL_LABELS))
    assert own.sum() > 10
    assert (series.since[own] >= pipeline.state.scorer.channels_since).all()
    known = pipeline.state.scorer.principals.items()
    assert min(dict(known)["since"]) < pipeline.state.scorer.channels_since


def test_who_the_new_bank_does_not_know_keeps_the_name_until_their_interval_is_told_of(
    bank: Bank, steps: list[Step]
) -> None:
    pipeline = pipeline_of(bank, bank.scorer_state)
    for step in steps[:HALF]:
        pipeline.process(*step)
    last = steps[HALF - 1].events["principal"].astype(str)
    principal = last[last.isin(bank.fingerprints["key"])].iloc[-1]  # one that the bank has learned
    owner = hashing.hash_with_bucket(pd.Series([principal], dtype=object))
    pipeline.swap_bank(without(bank, principal))
    assert pipeline.scorer.owner_names.look_up(owner).tolist() == [principal]
    pipeline.scorer.owner_names.expire(pipeline.state.scorer.first_open_interval() + 1000)
    assert pipeline.scorer.owner_names.look_up(owner).tolist() == [None]


def test_the_scorer_state_of_the_new_bank_is_not_taken(bank: Bank, steps: list[Step]) -> None:
    pipeline = pipeline_of(bank, bank.scorer_state)
    pipeline.process(*steps[0])
    before = pipeline.state.scorer.as_arrays()
    pipeline.swap_bank(replace(bank, scorer_state={}))
    after = pipeline.state.scorer.as_arrays()
    for name in before.keys() - {"clock"}:
        np.testing.assert_array_equal(before[name], after[name])
