"""Thresholds: preview a threshold and quorum by alerts a day on stored votes, and apply it.

Example:
    GET /thresholds?alerts_per_day=5&quorum=2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import BaseModel, Field

from fingerprint.analysis.threshold_service import ThresholdService
from fingerprint.analysis.threshold_what_if import CONFIRMED, describe_overrides
from fingerprint.core.alert import SEVERITY_LEVELS, severity_of
from fingerprint.core.case import MAX_REASON_LENGTH, QueueRow, ThresholdEstimate
from fingerprint.core.errors import FingerprintError
from fingerprint.web import urls
from fingerprint.web.api.thresholds import AlertsPerDay, Quorum, Threshold
from fingerprint.web.auth import Engineer, Viewer
from fingerprint.web.dependencies import Dependencies, Deps, require_thresholds
from fingerprint.web.language import NN_, gettext, ngettext
from fingerprint.web.layout import redirect, render_page
from fingerprint.web.threshold_chart import draw_threshold_chart

WIDE_THRESHOLD_CHART = (1000, 320)  # width and height of the drawing for a wide screen
NARROW_THRESHOLD_CHART = (350, 270)  # width and height of the drawing for a narrow screen
MAX_HIDDEN_ALERTS = 200  # alerts that are counted
MAX_LISTED_ALERTS = 20  # alerts that are named
GRAVE = ("high", "critical")
router = APIRouter()


@dataclass(frozen=True, slots=True)
class HiddenAlerts:
    """Stored alerts that another threshold would not have raised: the gravest first, and how many of which kind there are.

    `graver` counts, by words, what would be missed: confirmed attacks, then open alerts of high or critical severity.
    """

    rows: Sequence[QueueRow]
    count: int
    graver: Mapping[str, int]
    by_severity: Mapping[str, int]

    @property
    def graver_text(self) -> str:
        """Return `graver` as text: `1 confirmed attack, 2 open high or critical alerts`."""
        words = {
            "confirmed attack": NN_("%(num)s confirmed attack", "%(num)s confirmed attacks"),
            "open high or critical alert": NN_(
                "%(num)s open high or critical alert",
                "%(num)s open high or critical alerts",
            ),
        }
        return ", ".join(ngettext(*words[name], count) for name, count in self.graver.items())

    @classmethod
    def of(cls, rows: Sequence[QueueRow]) -> HiddenAlerts:
        """Return the hidden alerts and their counts from the rows of all of them."""
        ordered = sorted(
            rows, key=lambda row: (row.decision != CONFIRMED, not row.open, -row.urgency, row.alert_id)
        )
        severity = Counter(severity_of(row.urgency) for row in rows)
        graver = {
            "confirmed attack": sum(row.decision == CONFIRMED for row in rows),
            "open high or critical alert": sum(
                row.open and severity_of(row.urgency) in GRAVE for row in rows
            ),
        }
        return cls(
            ordered[:MAX_LISTED_ALERTS],
            len(rows),
            {name: count for name, count in graver.items() if count},
            {level: severity[level] for _, level in SEVERITY_LEVELS if severity[level]},
        )


class ThresholdQuery(BaseModel):
    """A previewed number of alerts a day, or threshold; without a quorum the one in force."""

    alerts_per_day: AlertsPerDay | None = None
    threshold: Threshold | None = None
    quorum: Quorum | None = None


class ThresholdForm(BaseModel):
    """The form that applies it; without threshold and quorum the settings apply again.

    The page shows an error beside a value that is out of bounds.
    """

    threshold: float | None = None
    quorum: int | None = None
    alerts_per_day: AlertsPerDay | None = None  # that the threshold has to keep
    why: Annotated[str, Field(max_length=MAX_REASON_LENGTH)] = ""


@router.get("/thresholds")
def show_thresholds(
    query: Annotated[ThresholdQuery, Query()], request: Request, caller: Viewer, deps: Deps
) -> Response:
    """Show the thresholds in force, estimates for others, and the history of overrides."""
    return _page(request, deps, query)


@router.post("/thresholds")
def submit_threshold(
    choice: Annotated[ThresholdForm, Form()], request: Request, caller: Engineer, deps: Deps
) -> Response:
    """Apply the threshold from now on."""
    try:
        require_thresholds(deps).set_override(
            choice.threshold,
            choice.quorum,
            choice.why,
            by=caller.name,
            alerts_per_day=choice.alerts_per_day,
        )
    except FingerprintError as error:
        wish = ThresholdQuery.model_construct(
            alerts_per_day=choice.alerts_per_day, threshold=choice.threshold, quorum=choice.quorum
        )
        return _page(request, deps, wish, status=400, error=str(error), why=choice.why)
    return redirect("/thresholds")


def _page(
    request: Request, deps: Dependencies, query: ThresholdQuery, status: int = 200, **values: Any
) -> Response:
    thresholds = require_thresholds(deps)
    now = thresholds.current()
    quorum = query.quorum or now.quorum
    requested = _requested(thresholds, query, quorum, now)
    curve = thresholds.estimate_curve(quorum)
    overrides = thresholds.override_history()
    marks = {gettext("now"): now.threshold} | (
        {gettext("previewed"): requested.threshold} if requested else {}
    )
    return render_page(
        request,
        "queue/thresholds.html",
        status,
        title=gettext("Thresholds"),
        now=now,
        requested=requested,
        query=query,
        quorum=quorum,
        detectors=thresholds.detector_count,
        curve=curve,
        drawings=[
            draw_threshold_chart(curve, marks, *size)
            for size in (WIDE_THRESHOLD_CHART, NARROW_THRESHOLD_CHART)
        ],
        hidden=HiddenAlerts.of(_hidden_alerts(deps, thresholds, requested)) if requested else None,
        overrides=list(zip(overrides, describe_overrides(overrides), strict=True)),
        urls=urls,
        at=deps.clock.now(),
        **{"error": "", "why": "", **values},
    )


def _requested(
    thresholds: ThresholdService, query: ThresholdQuery, quorum: int, now: ThresholdEstimate
) -> ThresholdEstimate | None:
    """Return the estimate of the requested threshold; None without a request."""
    if query.alerts_per_day is not None:
        return thresholds.estimate_rate(query.alerts_per_day, quorum)
    if query.threshold is not None or query.quorum is not None:
        return thresholds.estimate(query.threshold or now.threshold, quorum)
    return None


def _hidden_alerts(
    deps: Dependencies, thresholds: ThresholdService, requested: ThresholdEstimate
) -> list[QueueRow]:
    """Return rows of alerts that it would not have raised, without those that were purged since."""
    ids = thresholds.hidden_alerts(requested.threshold, requested.quorum, MAX_HIDDEN_ALERTS)
    return deps.store.queue.rows(ids)
