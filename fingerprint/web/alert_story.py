"""Story of an alert, for its page and its static report: phases, principals and places, unusual values, the timeline.

Example:
    >>> story = alert_story(alert, store.evidence.calls([alert_id]), store.evidence.tallies([alert_id]), records)
    >>> [phase.name for phase in story.phases], story.tools[0].name
    (['Persistence', 'Defense Evasion', 'Other reads'], 'aws-cli 2.15 linux')
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fingerprint.alerting.impact import MAX_SHOWN_ACTIONS
from fingerprint.analysis.attack_phases import Phase, PhaseCall, attack_phases, new_calls
from fingerprint.core.alert import Alert, AlertEvent, SurpriseDriver
from fingerprint.core.case import MAX_THRESHOLD
from fingerprint.core.story import CallSummary, Tally, ranked
from fingerprint.features.value_texts import program_and_version
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import CredentialFacts
from fingerprint.web.formatting import detector_label, detector_question
from fingerprint.web.language import N_, format_decimal, gettext

MAX_DRIVER_CALLS = 3  # calls named beside an error
# Words for a score by its ratio to the threshold
SCORE_WORDS = (
    (3.0, N_("far above the threshold")),
    (1.5, N_("well above the threshold")),
    (1.0, N_("above the threshold")),
)


@dataclass(frozen=True, slots=True)
class Tool:
    """A program and its version, with the number of its events and the user agents that it comes from."""

    name: str
    events: int
    agents: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ShownDriver:
    """A driver with the calls in which an error occurred, and in words the fingerprint that it was compared with.

    `usual_above`: the row above has the same usual values, so they need not be shown again.
    """

    driver: SurpriseDriver
    calls: tuple[tuple[str, int], ...]
    fingerprint: str
    usual_above: bool


@dataclass(frozen=True, slots=True)
class ShownScore:
    """A detector's score of an event in words: its vote, its distance to the threshold, and both figures."""

    label: str
    flagged: bool
    z: float
    figure: str
    words: str
    figures: str
    question: str = ""


@dataclass(frozen=True, slots=True)
class AlertStory:
    """A summary of an alert's events. `placed` maps (service, action) to the phase and the techniques of a call.

    `more_new`: the alert may have more new actions than the phases mark, because it keeps only some. `credentials` are the facts
    about its credentials in its records; if there are many records, in the first and last ones.
    """

    phases: tuple[Phase, ...]
    tallies: Mapping[str, Tally]
    tools: tuple[Tool, ...]
    drivers: tuple[ShownDriver, ...]
    placed: Mapping[tuple[str, str], tuple[Phase, PhaseCall]]
    events: int
    failed: int
    credentials: CredentialFacts
    more_new: bool

    def of(self, event: AlertEvent) -> tuple[Phase, PhaseCall] | None:
        """Return phase and call of an event; None for an event that came after the summaries were read."""
        return self.placed.get((event.service, event.action))


def alert_story(
    alert: Alert, calls: Sequence[CallSummary], tallies: Mapping[str, Tally], records: Iterable[str]
) -> AlertStory:
    """Return the story of an alert from summaries of all its events, and from some of their records."""
    phases = attack_phases(calls, new_calls(alert.drivers, alert.impact_of))
    several = tallies["entity"].distinct > 1
    return AlertStory(
        phases,
        tallies,
        fold_tools(tallies["user_agent"]),
        tuple(
            _shown_driver(driver, calls, alert.principal, several, above)
            for driver, above in zip(alert.drivers, usual_above(alert.drivers), strict=True)
        ),
        {(each.call.service, each.call.action): (phase, each) for phase in phases for each in phase.calls},
        sum(call.events for call in calls),
        sum(call.failed for call in calls),
        SOURCE.credential_facts(records),
        may_have_more_new(alert),
    )


def may_have_more_new(alert: Alert) -> bool:
    """Return whether an alert may have more new actions than it keeps: the ten gravest, and those of its strongest drivers."""
    return len(alert.impact_of) >= MAX_SHOWN_ACTIONS


def fold_tools(agents: Tally) -> tuple[Tool, ...]:
    """Return programs and versions of user agents, the most frequent first."""
    found: dict[str, list[tuple[str, int]]] = {}
    for agent, events in agents.values:
        found.setdefault(program_and_version(agent)[1], []).append((agent, events))
    counts = {name: sum(events for _, events in group) for name, group in found.items()}
    return tuple(Tool(name, events, tuple(found[name])) for name, events in ranked(counts))


def usual_above(drivers: Sequence[SurpriseDriver]) -> tuple[bool, ...]:
    """Return for each driver whether the one above has the same usual values of the same feature and fingerprint.

    >>> new = SurpriseDriver("action", "iam:CreateUser", "s3:GetObject", "unseen", 9.2)
    >>> usual_above([new, new])
    (False, True)
    """
    usual = [(each.feature, each.expected, each.fingerprint) for each in drivers]
    return tuple(place > 0 and usual[place - 1] == each for place, each in enumerate(usual))


def _shown_driver(
    driver: SurpriseDriver, calls: Sequence[CallSummary], principal: str, several: bool, above: bool
) -> ShownDriver:
    found = {}
    if driver.feature == "error":
        found = {call.name: dict(call.errors).get(driver.seen, 0) for call in calls}
    where = fingerprint_in_words(driver.fingerprint, principal) if several and driver.fingerprint else ""
    return ShownDriver(
        driver, tuple(each for each in ranked(found) if each[1])[:MAX_DRIVER_CALLS], where, above
    )


def fingerprint_in_words(key: str, principal: str = "") -> str:
    """Return a fingerprint's key in words: its owner, its service, and whether a service made the calls.

    >>> fingerprint_in_words("123456789012:user/ana|s3|direct", "123456789012:user/ana")
    's3, called directly'
    >>> fingerprint_in_words("123456789012:user/ana|s3|service")
    'user/ana in s3, through another service'
    """
    owner, *rest = key.split("|")
    if owner == principal and not rest:
        return gettext("all services")
    service, path = [*rest, "*", "*"][:2]
    how = {"direct": gettext(", called directly"), "service": gettext(", through another service")}.get(
        path, ""
    )
    who = "" if owner == principal else owner.partition(":")[2] or owner
    what = "" if service == "*" else service
    named = gettext("%(who)s in %(service)s", who=who, service=what) if who and what else who or what
    return named + how


def shown_scores(event: AlertEvent) -> list[ShownScore]:
    """Return an event's scores in words: those of detectors that flagged it first, then by falling score."""
    found = [
        ShownScore(
            detector_label(name),
            name in event.flagged_by,
            z,
            _short_figure(z),
            *_score_words(z, event.thresholds.get(name)),
            question=detector_question(name),
        )
        for name, z in event.scores.items()
        if z is not None
    ]
    return sorted(found, key=lambda score: (not score.flagged, -score.z, score.label))


def _short_figure(z: float) -> str:
    """Return a score for a row of the timeline."""
    return f"> {MAX_THRESHOLD:g}" if z > MAX_THRESHOLD else format_decimal(z, 1)


def _score_words(z: float, threshold: float | None) -> tuple[str, str]:
    """Return words for the distance of a score to its threshold, and both figures; without a threshold only the score.

    A ratio to a threshold below zero has no meaning: a large share of votes sets one, and alerts of earlier versions have some.
    """
    figure = (
        gettext("over %(most)s, the end of the scale", most=f"{MAX_THRESHOLD:g}")
        if z > MAX_THRESHOLD
        else format_decimal(z, 1)
    )
    if threshold is None:
        return gettext("score %(score)s", score=figure), gettext("its threshold is not kept")
    share = z / threshold if threshold > 0 else math.copysign(1.0, z - threshold)
    words = next((words for least, words in SCORE_WORDS if share >= least), N_("below the threshold"))
    return gettext(words), gettext(
        "score %(score)s, threshold %(threshold)s", score=figure, threshold=format_decimal(threshold, 1)
    )
