"""The events that support an alert: unusual ones without a verdict, in an interval that has one of its verdicts.

Example:
    >>> support = find_support(supporting, explainer)
    >>> [row.action for row in support[alert_id].actions]     # new actions that can do harm
    ['kms:ScheduleKeyDeletion']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fingerprint.alerting import impact
from fingerprint.alerting.alert_events import alert_after_alert
from fingerprint.alerting.explainer import Explainer
from fingerprint.alerting.novel_impact import find_impact
from fingerprint.alerting.novelty import find_novelty
from fingerprint.compute import frames
from fingerprint.core.alert import ActionImpact, AlertEvent, vote_column
from fingerprint.core.related_events import made_beside
from fingerprint.detection.detectors import interval_detectors
from fingerprint.estimators.amounts import span_text
from fingerprint.features.encoding import ACTION_COLUMN
from fingerprint.sources.active import SOURCE
from fingerprint.state.event_batch import Verdicts


class Support(NamedTuple):
    """The events that support an alert, oldest first and with their records, and their actions.

    - `actions`: unusual actions that can do harm, those that count most first.
    - `usual`: other actions that succeeded and changed something. They belong to an alert if they were made beside its events.
    - `new`: all `service:Action` that the principal never called, also those that only read.
    """

    events: tuple[AlertEvent, ...] = ()
    actions: tuple[ActionImpact, ...] = ()
    usual: tuple[ActionImpact, ...] = ()
    new: frozenset[str] = frozenset()

    def actions_beside(self, events: Sequence[AlertEvent]) -> tuple[ActionImpact, ...]:
        """Return the unusual actions, and the others that the session of an alert's own events called in the same minutes."""
        beside = {event.action_name for event in made_beside(events, self.events)}
        return (*self.actions, *(row for row in self.usual if row.action in beside))


def find_support(supporting: Verdicts, explainer: Explainer) -> dict[str, Support]:
    """Return the support of each alert, by `alert_id`."""
    batch, frame = supporting
    return {
        name: Support(events, *_find_new_actions(part, events, explainer))
        for name, part, events in alert_after_alert(batch, frame, frame["alert_id"])
    }


def _find_new_actions(
    part: Verdicts, events: Sequence[AlertEvent], explainer: Explainer
) -> tuple[tuple[ActionImpact, ...], tuple[ActionImpact, ...], frozenset[str]]:
    """Return the fields `actions`, `usual` and `new` of `Support` for supporting events; `usual` has no minor actions."""
    novelty = find_novelty(*part, [event.action_name for event in events], explainer)
    found = find_impact(part, events, novelty, explainer)
    actions = _count_deletions(found, part, [event.action_name for event in events], explainer)
    new = tuple(row for row in actions if row.is_unusual)
    others = (row for row in actions if row not in new and row.gravity != "minor" and row.succeeded)
    usual = tuple(row for row in others if SOURCE.changes_something(row.action.partition(":")[2]))
    return new, usual, novelty.actions


def _count_deletions(
    actions: Sequence[ActionImpact], part: Verdicts, names: Sequence[str], explainer: Explainer
) -> list[ActionImpact]:
    """Return the actions; the effect of one that destroys says how often it was called in an interval that a detector flagged.

    In such a burst one event may support an alert while the others have no vote of their own. `names` (N,) are the actions of
    `part`.
    """
    batch, frame = part
    votes = [vote_column(name) for name in interval_detectors(batch.evidence)]
    flagged = [frames.true_mask(frames.column_of(frame, name)) for name in votes if name in frame]
    rows = np.flatnonzero(np.any(flagged, axis=0)) if flagged else np.empty(0, np.intp)
    calls = explainer.interval_amounts.count(
        batch.principal[rows], batch.interval[rows], batch.codes[rows, ACTION_COLUMN]
    )
    most: dict[str, int] = {}
    for row, count in zip(rows.tolist(), calls.tolist(), strict=True):
        most[names[row]] = max(count, most.get(names[row], 0))
    span = span_text(explainer.settings.spectral.interval_seconds)
    return [
        replace(row, effect=f"{row.effect}, {most[row.action]:,} times in {span}")
        if row.technique in impact.DESTROYING_TECHNIQUES and most.get(row.action, 0) > row.calls
        else row
        for row in actions
    ]
