"""The pipeline of one scorer state, step by step, for tests that cut, put away or restore the state between steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.compute import hashing
from fingerprint.compute.arrays import Arrays
from fingerprint.core.alert import z_column
from fingerprint.core.settings import Settings
from fingerprint.pipeline import DetectionPipeline, StepResult
from fingerprint.registry.bank import Bank
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from tests.support import sample_organisation

STEP = 250
LATE = 0.03  # share of events that come hours late
MEMORY = ["idle", "today", "sources", "actions"]
SETTINGS = sample_organisation.SETTINGS


class Step(NamedTuple):
    """Events that come together, and how far time has come then, in seconds."""

    events: pd.DataFrame
    watermark: int


class Outcome(NamedTuple):
    """Judged events by id; votes by id and detector; events that support alerts by alert and id."""

    events: pd.DataFrame
    votes: pd.DataFrame
    supporting: pd.DataFrame


def steps_of(organisation: sample_organisation.SampleOrganisation) -> list[Step]:
    """The new events a step at a time, some hours late; who was busiest falls silent after a third of them."""
    with EventSpool(SETTINGS) as history:
        history.add_batches(files.read_sources(organisation.new, SETTINGS.reading))
        events = pd.concat(list(history.batches()), ignore_index=True)
    busiest = events["principal"].value_counts().index[0]
    silent = (events["principal"] == busiest) & (events.index > len(events) // 3)
    events = _some_late(_some_rare(events[~silent].reset_index(drop=True)))
    parts = [events.iloc[at : at + STEP].reset_index(drop=True) for at in range(0, len(events), STEP)]
    times = np.maximum.accumulate([int(part["event_time"].max().timestamp()) for part in parts])
    return [Step(part, int(time)) for part, time in zip(parts, times, strict=True)]


def _some_rare(events: pd.DataFrame) -> pd.DataFrame:
    """A third of what each principal does is done by eight others, who come for an hour and are gone for many."""
    hour = (events["event_time"].astype("int64") // 3_600_000_000).astype(str)
    turn = hashing.hash_pair(hashing.hash_strings(events["principal"]), hashing.hash_strings(hour))
    others = events["principal"].astype(str) + "-" + pd.Series((turn // 8 % 8).astype(str))
    principal = events["principal"].where(turn % 3 > 0, others)
    entity = principal + events["entity"].str.replace(r"^[^|]*", "", regex=True)
    return events.assign(principal=principal, entity=entity)


def _some_late(events: pd.DataFrame) -> pd.DataFrame:
    random = np.random.default_rng(0)
    delay = np.where(random.random(len(events)) < LATE, random.integers(0, 8 * STEP, len(events)), 0)
    return events.iloc[np.argsort(np.arange(len(events)) + delay, kind="stable")].reset_index(drop=True)


def pipeline_of(bank: Bank, arrays: Arrays, settings: Settings = SETTINGS) -> DetectionPipeline:
    """A pipeline whose scorer state begins with some arrays."""
    return DetectionPipeline(
        bank, PipelineState(ScorerState.from_arrays(settings, arrays)), settings, keep_all_events=True
    )


def walked(
    pipeline: DetectionPipeline,
    steps: list[Step],
    before: Callable[[DetectionPipeline, Step], DetectionPipeline] = lambda pipeline, _: pipeline,
    after: Callable[[DetectionPipeline, Step], DetectionPipeline] = lambda pipeline, _: pipeline,
) -> Outcome:
    """What the pipeline says, where it may be changed for another before and after each step."""
    said = []
    for step in steps:
        pipeline = before(pipeline, step)
        said.append(pipeline.process(*step))
        pipeline = after(pipeline, step)
    said.append(pipeline.flush())
    return outcome(said)


def outcome(said: list[StepResult]) -> Outcome:
    """All that was said, in whatever order."""
    events = pd.concat([frame for each in said for frame in each.scored_events], ignore_index=True)
    votes = pd.concat([each.votes for each in said if len(each.votes)], ignore_index=True)
    last = {alert.alert_id: alert for each in said for alert in each.alerts}
    supporting = pd.DataFrame(
        [
            (alert.alert_id, event.event_id, str(sorted(event.scores.items())), event.flagged_by)
            for alert in last.values()
            for event in alert.supporting_events
        ],
        columns=["alert_id", "event_id", "scores", "flagged_by"],
        dtype=object,  # of an empty one, too
    )
    return Outcome(
        events.set_index("event_id").sort_index(),
        votes.set_index(["event_id", "detector"]).sort_index(),
        supporting.set_index(["alert_id", "event_id"]).sort_index(),
    )


def same(one: Outcome, other: Outcome) -> None:
    """The same memory, z's and verdicts; the same votes on events and intervals; the same support. Not nearly: exactly."""
    scores = [name for name in map(z_column, ("autoencoder", "spectral", "sequence")) if name in one.events]
    exact = [*MEMORY, "verdict", "alert_id", *scores]
    for mine, theirs in (
        (one.events[exact], other.events[exact]),
        (one.votes, other.votes),
        (one.supporting, other.supporting),
    ):
        pd.testing.assert_frame_equal(mine, theirs, check_exact=True, check_index_type=False)


def silences(outcome: Outcome) -> int:
    return int(outcome.votes.index.get_level_values(0).str.startswith("silence:").sum())
