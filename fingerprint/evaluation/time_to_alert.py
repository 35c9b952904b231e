"""Time to the alert about an attack: the victims' events are replayed in the order of arrival, in small steps.

Example:
    >>> pipeline = VerdictPipeline(bank, state, settings)
    >>> find_alerting_records(pipeline, events, session, wanted)        # events in the order of arrival
           place  events
    session
    3          812       2

The verdicts of a principal do not depend on others, so its events alone are enough; and where a batch is cut changes no
verdict, so the replay ends with those of the undivided run. The *alerting record* is the one with which an event of the
attack gets its verdict: an event of the attack, or another of the same principal in the same interval.

While an attack is under way, and not in an alert yet, a step is one record, then a twentieth of the records since the
attack's first: the last of a step counts as the alerting record. Elsewhere a step is up to 20,000 records.

    seconds     event time from the session's first event to the alerting record
    events      of the session that had arrived by then, the alerting record among them

The alert is there in the step in which that record arrives. How long the log takes to deliver it is not in this, nor what the
service needs from its arrival on (`make bench` measures that).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.core.settings import Settings
from fingerprint.detection.scorer import ScoredEvents
from fingerprint.detection.votes import empty_votes
from fingerprint.pipeline import DetectionPipeline, JudgedEvents
from fingerprint.registry.bank import Bank
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState

STEP_RECORDS = 20_000  # records, where no attack is under way
STEP_DIVISOR = 20  # of the records since the attack began, a step is one in so many


class VerdictPipeline(DetectionPipeline):
    """A pipeline that only says which events have a verdict, as soon as they have it."""

    def __init__(self, bank: Bank, state: ScorerState, settings: Settings) -> None:
        super().__init__(bank, PipelineState(state), settings)
        self.final_verdicts: list[Hashes] = []

    def take_verdicts(self, principals: Hashes) -> Hashes:
        """Return the hashed ids of events with a verdict: those closed since the last call, and open ones of `principals`."""
        judged = self.scorer.judge_open(principals)
        open_verdicts = [_verdict_ids(judged)] if judged else []
        final, self.final_verdicts = self.final_verdicts, []
        return np.concatenate([*final, *open_verdicts, np.empty(0, np.uint64)])

    def _add_verdicts(self, judged: ScoredEvents | None) -> JudgedEvents:
        if judged is not None:
            self.final_verdicts.append(_verdict_ids(judged))
        return JudgedEvents(empty_votes(), [])


def find_alerting_records(
    pipeline: VerdictPipeline,
    events: pd.DataFrame,
    session: NDArray[np.int64],
    sessions: Sequence[int],
    on_progress: Callable[[int], None] = lambda _: None,
) -> pd.DataFrame:
    """Return the `place` in `events` of the alerting record of each session that is found, and its `events` by then.

    `sessions` names those to look for; `events` (N,) lie in the order of arrival; `session` (N,) numbers the attack session of
    each, -1 for none. `on_progress` is told how many of them were replayed.
    """
    replay = _Replay(pipeline, events, session, sessions)
    while replay.is_running():
        replay.step()
        on_progress(replay.position)
    replay.finish()
    return replay.table()


class _Replay:
    """The position of a replay, and which sessions are under way."""

    def __init__(
        self,
        pipeline: VerdictPipeline,
        events: pd.DataFrame,
        session: NDArray[np.int64],
        sessions: Sequence[int],
    ) -> None:
        self.pipeline, self.events, self.session = pipeline, events, session
        self.principal = hashing.hash_with_bucket(events["principal"])
        self.event = hashing.hash_strings(events["event_id"])
        places = {number: np.flatnonzero(session == number) for number in sessions}
        self.places = {number: each for number, each in places.items() if len(each)}
        self.starts = sorted((int(each[0]), number) for number, each in self.places.items())
        self.position = self.records_since_attack = 0
        self.active_sessions: set[int] = set()
        self.alerted_at: dict[int, int] = {}  # session -> place of the record

    def is_running(self) -> bool:
        return self.position < len(self.events) and len(self.alerted_at) < len(self.places)

    def step(self) -> None:
        self._start_sessions()
        end = self._step_end()
        self.pipeline.process(frames.select_rows(self.events, np.arange(self.position, end)))
        self.records_since_attack += end - self.position
        self.position = end
        self._record_alerts()

    def finish(self) -> None:
        """Judge what is still open with the last record."""
        self.pipeline.flush()
        self._record_alerts()

    def table(self) -> pd.DataFrame:
        numbers = sorted(self.alerted_at)
        place = np.array([self.alerted_at[number] for number in numbers], np.int64)
        counts = [int((self.places[number] <= at).sum()) for number, at in zip(numbers, place, strict=True)]
        index = pd.Index(numbers, name="session", dtype=np.int64)
        return pd.DataFrame({"place": place, "events": counts}, index=index)

    def _start_sessions(self) -> None:
        """Start the sessions whose first record comes next."""
        while self.starts and self.starts[0][0] <= self.position:
            self.active_sessions.add(self.starts.pop(0)[1])
            self.records_since_attack = 0

    def _step_end(self) -> int:
        ends = [
            len(self.events),
            self.position
            + (max(self.records_since_attack // STEP_DIVISOR, 1) if self.active_sessions else STEP_RECORDS),
        ]
        return min([*ends, *(place for place, _ in self.starts[:1])])

    def _record_alerts(self) -> None:
        if not self.active_sessions:
            self.pipeline.final_verdicts.clear()
            return
        whose = [self.principal[self.places[number]] for number in self.active_sessions]
        verdicts = self.pipeline.take_verdicts(np.unique(np.concatenate(whose)))
        for number in sorted(self.active_sessions):
            if np.isin(self.event[self.places[number]], verdicts).any():
                self.alerted_at[number] = self.position - 1
                self.active_sessions.discard(number)


def time_to_alert(found: pd.DataFrame) -> dict[str, Any]:
    """Return quantiles in all and by strength: `found` has a row a session with strength, seconds and events."""
    strengths = {str(name): _time_quantiles(part) for name, part in found.groupby("strength", observed=True)}
    return {"all": _time_quantiles(found), **strengths} if len(found) else {}


def _time_quantiles(found: pd.DataFrame) -> dict[str, Any]:
    quantiles: dict[str, Any] = {"sessions": len(found)}
    for name in ("seconds", "events"):
        for word, share in (("median", 0.5), ("p90", 0.9)):
            quantiles[f"{word}_{name}"] = round(float(found[name].quantile(share)), 1)
    return quantiles


def _verdict_ids(judged: ScoredEvents) -> Hashes:
    return hashing.hash_strings(judged.frame.loc[judged.frame["verdict"].to_numpy(bool), "event_id"])
