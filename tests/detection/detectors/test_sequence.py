"""The sequence detector: a vote on what nothing explains, none before the interval has closed, and the words of an alert."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fingerprint.compute import hashing
from fingerprint.core.alert import vote_column, z_column
from fingerprint.core.settings import SequenceSettings, Settings, Voting
from fingerprint.detection.detectors.sequence import (
    CONTEXT,
    NATS,
    NATS_SCALE,
    SequenceDetector,
    _after,
    sequence_text,
)
from fingerprint.detection.inference import LocalInference
from fingerprint.estimators.sequence import FIRST_TEXT, ORGANISATION, START, count_of
from fingerprint.pipeline import DetectionPipeline
from fingerprint.registry.bank import PEER_LEVEL, Bank
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from tests.detection.detectors.conftest import Encode
from tests.support import sample_organisation
from tests.support.stepwise_pipeline import SETTINGS, Step

THREE = sample_organisation.SETTINGS.model_copy(
    update={"voting": Voting(detectors=("autoencoder", "spectral", "sequence"))}
)


@pytest.fixture
def detector(bank: Bank, state: ScorerState) -> SequenceDetector:
    return SequenceDetector(SETTINGS, bank, state, LocalInference(bank))


def measured(detector: SequenceDetector, batch: EventBatch) -> EventBatch:
    return replace(batch, evidence={detector.name: detector.measure(batch)})


def pair_of(bank: Bank, events: pd.DataFrame) -> tuple[str, str, str]:
    """A principal of the bank, and two actions of the organisation: the second often follows the first, and rarely begins."""
    codes = {
        f"{row.service}:{row.action}": row
        for row in events.drop_duplicates(["service", "action"]).itertuples()
    }
    known = dict(zip(bank.words["text"], bank.words["code"], strict=True))
    names = [name for name in codes if name in known]
    best = max(
        ((first, then) for first in names for then in names if first != then),
        key=lambda pair: (
            count_of(bank.transitions, ORGANISATION, known[pair[0]], known[pair[1]])[0]
            - 3 * count_of(bank.transitions, ORGANISATION, START, known[pair[1]])[0]
        ),
    )
    return str(events["principal"].iloc[0]), *best


def acting(events: pd.DataFrame, principal: str, actions: list[tuple[str, int]]) -> pd.DataFrame:
    """Events of one principal: actions, and the seconds after an hour at which each is done."""
    hour = events["event_time"].max().floor("h")
    rows = [events[events["service"] + ":" + events["action"] == action].iloc[[0]] for action, _ in actions]
    mine = events[events["principal"] == principal].iloc[0]
    times = [hour + pd.Timedelta(seconds=second) for _, second in actions]
    return pd.concat(rows, ignore_index=True).assign(
        principal=principal,
        kind=mine["kind"],
        event_id=[f"{principal}-{action}-{second}" for action, second in actions],
        event_time=pd.Series(times).astype(events["event_time"].dtype),
    )


def test_what_usually_comes_before_an_action_explains_it(
    detector: SequenceDetector, encode: Encode, events: pd.DataFrame
) -> None:
    principal, first, then = pair_of(detector.bank, events)
    alone = measured(detector, encode(acting(events, principal, [(then, 600)]), detector.state))
    before = detector.score(alone)
    assert detector.can_still_vote(alone)[0] == (before[0] >= detector.threshold)
    measured(detector, encode(acting(events, principal, [(first, 580)]), detector.state))
    after = detector.score(alone)
    assert after[0] < before[0]
    too_early = measured(
        detector, encode(acting(events, principal, [(then, 2000), (first, 1900)]), detector.state)
    )
    assert detector.score(too_early)[0] == before[0]


def test_an_action_may_vote_after_one_that_a_late_record_may_still_explain(
    detector: SequenceDetector, encode: Encode, events: pd.DataFrame
) -> None:
    principal, _, then = pair_of(detector.bank, events)
    twice = acting(
        events, principal, [(then, 600), (then, 4200)]
    )  # in two intervals, and nothing is judged yet
    batch = measured(detector, encode(twice, detector.state))
    detector.threshold = float(detector.score(batch)[0])
    assert (detector.score(batch) >= detector.threshold).tolist() == [True, False]
    assert detector.can_still_vote(batch).all()


def test_what_was_done_while_nothing_was_learned_of_a_principal_is_news_when_it_comes_again(
    detector: SequenceDetector, encode: Encode, events: pd.DataFrame
) -> None:
    """Pending events keep the level at which an earlier bank measured them. Judged in one batch or in two, it is the same."""
    principal, _, then = pair_of(detector.bank, events)
    twice = measured(detector, encode(acting(events, principal, [(then, 600), (then, 4200)]), detector.state))
    detector.threshold = float(detector.score(twice)[0])
    young = replace(twice, level=np.array([PEER_LEVEL, twice.level[1]], np.int8))
    z = detector.score(young)
    assert np.isnan(z[0])
    assert z[1] >= detector.threshold
    assert z[1] == detector.score(young.take(np.array([1])))[0]
    assert detector.can_still_vote(young).all(), "what has no opinion waits for the others"


def test_the_context_that_explains_an_event_is_kept_for_its_alert(
    detector: SequenceDetector, encode: Encode, events: pd.DataFrame
) -> None:
    principal, first, then = pair_of(detector.bank, events)
    batch = measured(detector, encode(acting(events, principal, [(first, 10), (then, 20)]), detector.state))
    evidence = detector.final_evidence(batch, np.array([False, True]))
    assert (evidence[0] == batch.evidence[detector.name][0]).all()
    assert evidence[1, CONTEXT] == hashing.hash_string(first)
    assert evidence[1, NATS] / NATS_SCALE == pytest.approx(float(detector._surprise(batch)[0][1]), abs=0.001)


def test_the_share_that_a_person_sets_is_the_threshold() -> None:
    assert SequenceSettings().threshold == pytest.approx(1.645, abs=0.001)
    assert SequenceSettings(vote_share=0.01).threshold == pytest.approx(2.326, abs=0.001)


# --- in the pipeline --------------------------------------------------------------------------------------------------


def walk(
    bank: Bank, steps: list[Step], settings_: Settings = THREE, early: bool = False
) -> DetectionPipeline:
    state = PipelineState(ScorerState.from_arrays(settings_, bank.scorer_state))
    return DetectionPipeline(bank, state, settings_, keep_all_events=not early, emit_early=early)


def final_scores(
    pipeline: DetectionPipeline, parts: list[pd.DataFrame], watermarks: list[int]
) -> pd.DataFrame:
    said = [pipeline.process(part, at) for part, at in zip(parts, watermarks, strict=True)]
    said.append(pipeline.flush())
    frames = [frame for each in said for frame in each.scored_events]
    columns = ["event_id", z_column("sequence"), vote_column("sequence"), "verdict"]
    return pd.concat(frames)[columns].set_index("event_id").sort_index()


@given(st.randoms(use_true_random=False))
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_neither_the_order_within_the_lateness_nor_the_cut_changes_a_final_vote(
    bank: Bank, events: pd.DataFrame, random: object
) -> None:
    some = events.sort_values("event_time", ignore_index=True).iloc[:1500]
    seconds = some["event_time"].astype("int64").to_numpy() // 1_000_000
    wanted = final_scores(walk(bank, []), [some], [int(seconds.max())])
    delay = np.array([random.randint(0, 600) for _ in range(len(some))])  # type: ignore[attr-defined]
    arrival = np.argsort(seconds + delay, kind="stable")
    cuts = sorted(random.sample(range(1, len(some)), 12))  # type: ignore[attr-defined]
    parts = [some.iloc[part].reset_index(drop=True) for part in np.split(arrival, cuts)]
    latest = np.maximum.accumulate([int(seconds[part].max()) for part in np.split(arrival, cuts)])
    found = final_scores(walk(bank, []), parts, latest.tolist())
    assert wanted[vote_column("sequence")].any()
    pd.testing.assert_frame_equal(found, wanted, check_exact=True)


def test_a_verdict_turns_true_once_and_the_sequence_has_no_vote_while_an_interval_is_open(
    bank: Bank, steps: list[Step]
) -> None:
    pipeline, early = walk(bank, steps, early=True), {}
    final: dict[str, bool] = {}

    def looked(judge: Callable[..., object]) -> Callable[..., object]:
        def judged(batch: EventBatch, is_final: bool = True) -> object:
            scored = judge(batch, is_final)
            frame = scored.frame  # type: ignore[attr-defined]
            of = dict(zip(frame["event_id"], frame["verdict"].tolist(), strict=True))
            if is_final:
                final.update(of)
            else:
                assert not frame[vote_column("sequence")].any()
                assert frame[z_column("sequence")].isna().all()
                early.update({name: early.get(name, False) or verdict for name, verdict in of.items()})
            return scored

        return judged

    pipeline.scorer.judge = looked(pipeline.scorer.judge)  # type: ignore[method-assign, assignment]
    for step in steps:
        pipeline.process(*step)
    pipeline.flush()
    assert any(early.values())
    assert all(final[name] for name, verdict in early.items() if verdict)
    assert sum(final.values()) > sum(early.values()), "some verdicts are the sequence's"


def test_what_usually_comes_next_is_the_principals_own_where_known_else_said_to_be_the_organisations(
    bank: Bank, encode: Encode, state: ScorerState, events: pd.DataFrame
) -> None:
    batch = encode(events.drop_duplicates("principal"), state)
    own = 0
    for row, principal in enumerate(batch.principal.tolist()):
        for before in (START, *bank.transitions.contexts[:40]):
            text = sequence_text(bank, int(batch.fingerprint[row]), np.uint64(principal), before)
            named, of_all, _ = text.partition(" (in the organisation)")
            if not of_all and text != "nothing yet":
                own += 1
                done = hashing.hash_strings(pd.Series(named.split(", ")))
                counts = [count_of(bank.transitions, np.uint64(principal), before, each)[0] for each in done]
                assert counts == sorted(counts, reverse=True)
                assert min(counts) > 0
    assert own > 10
    at = np.flatnonzero(bank.transitions.contexts != START)[0]
    context = bank.transitions.contexts[at]
    usual = [text for text in bank.value_texts(bank.transitions.usual[at]) if text]
    unknown = sequence_text(bank, int(batch.fingerprint[0]), hashing.hash_string("no principal"), context)
    assert unknown == f"{', '.join(usual)} (in the organisation)"
    assert sequence_text(bank, 0, np.uint64(5), np.uint64(5)) == "nothing yet"
    assert START in bank.transitions.contexts
    stranger = sequence_text(bank, int(batch.fingerprint[0]), hashing.hash_string("no principal"), START)
    assert _after(bank, batch, batch.frame, np.uint64(5)) == "after an action that is not in the history"
    assert stranger == "nothing yet", "how the organisation's machines begin is no habit of a person"


def test_an_alert_says_after_what_an_action_came_and_what_usually_comes_there(
    bank: Bank, steps: list[Step]
) -> None:
    pipeline = walk(bank, steps)
    alerts = [alert for step in steps for alert in pipeline.process(*step).alerts] + pipeline.flush().alerts
    drivers = [driver for alert in alerts for driver in alert.drivers if driver.feature == "next action"]
    assert drivers
    assert all(
        " after " in each.seen.replace(FIRST_TEXT, "") or each.seen.endswith(f" {FIRST_TEXT}")
        for each in drivers
    ), "calls that came before it and explain it less leave it judged as the first"
    assert any(driver.expected != "nothing yet" for driver in drivers)
    assert all(driver.surprise > 2 for driver in drivers)
    for alert in alerts:
        new = {each.seen for each in alert.drivers if (each.feature, each.rarity) == ("action", "unseen")}
        first = {each.seen.partition(" judged as")[0] for each in alert.drivers if FIRST_TEXT in each.seen}
        assert not new & first, "that it is new is said already"
