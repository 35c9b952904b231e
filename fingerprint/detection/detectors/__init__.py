"""The detectors: what each of them declares, and the list that the settings choose from.

A detector is one module or package. It declares a name, a label for the screen, a granularity (event or interval), its section of
the settings, and how it explains an alert. Votes, z-scores in frames, tables, API, exports and pages follow from that.

- A module of this package is a detector of its own name; it names its class `DETECTOR`.
- A detector from another package is an entry point of the group `fingerprint.detectors`, whose name is the detector's,
  or an import path in the settings: `voting.detectors = ["autoencoder", "spectral", "my_package.my_module:MyDetector"]`.
  Its section of the settings is `[detectors.NAME]`, validated by its `Options`.

Example:
    >>> detectors = build_detectors(settings, bank, state, LocalInference(bank))
    >>> [(each.name, each.label, each.granularity) for each in detectors]
    [('autoencoder', 'Autoencoder', 'event'), ('spectral', 'Spectral', 'interval'), ('sequence', 'Sequence', 'event')]
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from fingerprint.compute import frames
from fingerprint.compute.arrays import Floats, Ints, Mask, namespace
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import NEWCOMER_COLUMN, ActivityCurve, SurpriseDriver, vote_column, z_column
from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports.inference import Inference
from fingerprint.core.settings import Section, Settings
from fingerprint.detection import ensemble
from fingerprint.registry.bank import Bank
from fingerprint.state.activity_series import ActivitySeries
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.interval_amounts import IntervalAmounts
from fingerprint.state.scorer_state import ScorerState

Granularity = Literal["event", "interval"]

ENTRY_POINT_GROUP = "fingerprint.detectors"

log = get_logger("fingerprint.detection.detectors")


class DetectorOptions(Section):
    """The least that a detector's section of the settings holds; a detector adds its own fields in a subclass."""

    threshold: float = Field(
        4.0, description="Score in standard deviations (z) from which the detector votes."
    )


class ExplanationContext(Protocol):
    """The counts of activity, the settings, and the bank that measured an event: a detector explains an alert from them."""

    @property
    def series(self) -> ActivitySeries:
        """The activity series, for curves."""
        ...

    @property
    def interval_amounts(self) -> IntervalAmounts:
        """The calls of each action in the last days' intervals."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        ...

    def bank_and_row(self, batch: EventBatch, row: int) -> tuple[Bank, Ints]:
        """Return the bank that measured the event at a row of the batch, and the row of its fingerprint, (1,)."""
        ...

    def bank_and_rows(self, batch: EventBatch, rows: NDArray[np.intp]) -> tuple[Bank, Ints]:
        """Return the bank that measured events of one version, and the rows of their fingerprints, (R,)."""
        ...


class IntervalScores(NamedTuple):
    """Scores of R intervals, each of one channel of an entity or principal.

    `owner` (R,) and `channel` (R,) are hashes, `interval` (R,) numbers of intervals, `z` (R,); `no_opinion` counts the
    intervals that were looked at and could not be judged yet.
    """

    owner: Hashes
    channel: Hashes
    interval: Ints
    z: Floats
    no_opinion: int = 0


class Detector(ABC):
    """Base class of the detectors. Each measures the same events and shares nothing with the others but these."""

    name: ClassVar[str]  # in votes, settings and scores: lower case, digits and underscores
    label: ClassVar[str]  # on screen
    question: ClassVar[str] = ""  # what it asks of an event, for a tooltip
    granularity: ClassVar[Granularity] = "event"
    # Whether a z is the normal quantile of a tail probability: of such z's an alert's urgency is made.
    calibrated: ClassVar[bool] = False
    # The z from which it votes on an event that a calibrated detector finds strange enough for an alert, where that is lower than
    # its threshold.
    second_vote_z: ClassVar[float] = math.inf
    # The same beside a z that is rarer than an alert's needs to be (`ensemble.WEAK_VOTE_NATS`).
    weak_vote_z: ClassVar[float] = math.inf
    # The z from which its vote is strong: where the others vote as well, a calibrated z may be more usual
    # (`ensemble.STRONG_VOTE_NATS`).
    strong_vote_z: ClassVar[float] = math.inf
    # The z of a newcomer, by how others began, below which it began calmly; minus infinity for a detector that judges none so.
    calm_newcomer_z: ClassVar[float] = -math.inf
    # The columns of an event batch's frame that `score` reads, beside its own evidence; None: any, and any evidence. Rows of few
    # columns are taken much faster.
    score_columns: ClassVar[Sequence[str] | None] = None
    # Terms of the score that an evaluation can leave out (`without`): name -> what the term is, in a few words.
    terms: ClassVar[Mapping[str, str]] = {}
    # Whether a z can fall while the interval is open: then the detector has no vote before the interval has closed.
    final_when_closed: ClassVar[bool] = False
    Options: ClassVar[type[DetectorOptions]] = DetectorOptions

    degraded = False  # whether the fallback measured the last batch
    left_out = ""  # the term that this detector leaves out

    def __init__(self, settings: Settings, bank: Bank, state: ScorerState, inference: Inference) -> None:
        self.settings, self.bank, self.state, self.inference = settings, bank, state, inference
        self.threshold = self.vote_threshold()
        self.second_threshold = min(self.threshold, self.second_vote_z)
        self.weak_threshold = min(self.second_threshold, self.weak_vote_z)

    @classmethod
    def options_from(cls, settings: Settings) -> Any:
        """Return the detector's own section: `[detectors.NAME]`, validated by `Options`.

        Raise FingerprintError if it is wrong.
        """
        try:
            return cls.Options.model_validate(settings.detectors.get(cls.name, {}))
        except ValidationError as error:
            problem = error.errors()[0]
            field = ".".join(map(str, ("detectors", cls.name, *problem["loc"])))
            raise FingerprintError(
                f"setting {field}: {problem['msg'].removeprefix('Value error, ')}"
            ) from None

    @classmethod
    def vote_share_from(cls, settings: Settings) -> float | None:
        """Return the share of harmless events that it may vote for, as set; None where a threshold is set instead."""
        share: float | None = getattr(cls.options_from(settings), "vote_share", None)
        return share

    @classmethod
    def own_threshold(cls, settings: Settings, figures: Mapping[str, Any]) -> float:
        """Return the z from which it votes by its own section of the settings; `figures` are the quality of a bank."""
        return float(cls.options_from(settings).threshold)

    def vote_threshold(self) -> float:
        """Return the z from which the detector votes with its bank."""
        return self.own_threshold(self.settings, self.bank.manifest["quality"])

    @abstractmethod
    def measure(self, batch: EventBatch) -> NDArray[Any]:
        """Return the evidence that is kept of each event until its interval closes: (N, C), C this detector's own."""

    @abstractmethod
    def score(self, batch: EventBatch) -> Floats:
        """Return the z of events (N,) from their evidence (`batch.evidence[name]`) as things stand now; NaN for no opinion.

        A z may grow while an event's interval is open, and never falls; it is NaN all the while or never. That of a detector
        that is `final_when_closed` may fall and never grows, and is not asked for a vote before the interval has closed.
        """

    def can_still_vote(self, batch: EventBatch, z: Floats | None = None) -> Mask:
        """Return which events (N,) have the vote or may have it before their interval closes.

        Events without an opinion belong to them, so that they wait for the other detectors. `z` (N,) is what `score` says of
        them now, where that is at hand; NaN of a detector that is `final_when_closed`.
        """
        return all_events(batch)

    def has_opinion(self, batch: EventBatch) -> Mask:
        """Return on which events (N,) the z is not NaN; known before any z is computed."""
        return all_events(batch)

    def judges_newcomer(self, batch: EventBatch) -> Mask:
        """Return which events (N,) it judges by how newcomers began, because their principal has no history yet."""
        return ~all_events(batch)

    def priority(self, batch: EventBatch) -> Floats:
        """Return how unusual events (N,) look before they are judged: the order in which they are kept where too many wait."""
        return namespace(batch.interval).zeros(len(batch), np.float32)

    def final_evidence(self, batch: EventBatch, which: Mask) -> NDArray[Any]:
        """Return the evidence that explains an alert (N, C), once each z is final; the events of a mask (N,) have a verdict."""
        return batch.evidence[self.name]

    def record_scores(self, batch: EventBatch, z: Floats) -> None:
        """Keep what later scores depend on, once the z of events (N,) is final."""
        return

    def interval_scores(self, start: int, end: int, min_z: float) -> IntervalScores | None:
        """Return the intervals start ... end - 1 with a z of at least `min_z`; None from a detector of events."""
        return None

    def silent_intervals(self, start: int, end: int) -> IntervalScores | None:
        """Return the intervals start ... end - 1 in which far fewer events came than expected: votes, never verdicts."""
        return None

    def without(self, term: str) -> Self:
        """Return this detector with one of its `terms` left out, for an evaluation that measures both beside each other.

        It keeps nothing that this one reads; its thresholds and tails stay those that were learned with all terms. The batches
        that it measures have this detector's evidence already.
        """
        if term not in self.terms:
            raise FingerprintError(f"the detector {self.name} has no term {term!r} to leave out")
        variant = copy(self)
        variant.left_out = term
        return variant

    @classmethod
    def drivers(cls, batch: EventBatch, frame: Frame, context: ExplanationContext) -> list[SurpriseDriver]:
        """Return the values of an alert's events (N rows of both) that drove the score, strongest first."""
        return []

    @classmethod
    def curve(cls, batch: EventBatch, frame: Frame, context: ExplanationContext) -> ActivityCurve | None:
        """Return the activity that drove the score of an alert's events, or None."""
        return None


def action_at(frame: Frame, row: int) -> str:
    """Return the `service:Action` of the event at a row."""
    return ":".join(str(frames.column_of(frame, name)[row]) for name in ("service", "action"))


def all_events(batch: EventBatch) -> Mask:
    """Return True for each event (N,)."""
    everything: Mask = namespace(batch.interval).ones(len(batch), bool)
    return everything


# --- the list ---------------------------------------------------------------------------------------------------------

_loaded: dict[str, type[Detector]] = {}  # by name, and by what the settings call them


def build_detectors(
    settings: Settings, bank: Bank, state: ScorerState, inference: Inference
) -> list[Detector]:
    """Return the detectors that the settings list, in that order. Raise FingerprintError for an unknown one."""
    return [each(settings, bank, state, inference) for each in listed_detectors(settings)]


def listed_detectors(settings: Settings) -> list[type[Detector]]:
    """Return the classes of `voting.detectors`, in that order. Raise FingerprintError for an unknown one."""
    listed = [load_detector(each) for each in settings.voting.detectors]
    names = [each.name for each in listed]
    if len(set(names)) < len(names):
        raise FingerprintError(
            f"setting voting.detectors: two detectors are called {_first_repeated(names)!r}"
        )
    return listed


def detector_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of the detectors that the settings list: keys of scores, and of columns in frames."""
    return tuple(each.name for each in listed_detectors(settings))


def load_detector(name: str) -> type[Detector]:
    """Return a detector's class by its name or import path (`package.module:Class`). Raise FingerprintError without one."""
    if name not in _loaded:
        found = _import_detector(name)
        _loaded.setdefault(found.name, found)
        _loaded[name] = found
    return _loaded[name]


def register_detectors(settings: Settings) -> None:
    """Load the listed detectors for their labels; log those that are not installed here instead of raising."""
    for name in settings.voting.detectors:
        try:
            load_detector(name)
        except FingerprintError as error:
            log.warning("a detector is shown by its name", reason=str(error))


def load_known_detectors(names: Iterable[str]) -> list[type[Detector]]:
    """Return the classes of those names that there is a detector of: a stored score may be of one that is no longer installed."""
    return [load_detector(name) for name in names if name in _loaded or name in available_detectors()]


def detector_label(name: str) -> str:
    """Return what a detector is called on screen: its label, or its name where it is not installed."""
    known = load_known_detectors([name])
    return known[0].label if known else name


def interval_detectors(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the names that are detectors of intervals: their votes name no event."""
    return tuple(each.name for each in load_known_detectors(names) if each.granularity == "interval")


def calibrated_detectors(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the names whose z is the normal quantile of a tail probability."""
    return tuple(each.name for each in load_known_detectors(names) if each.calibrated)


def votes_beside_opening(scored: pd.DataFrame, names: Iterable[str], weak: bool = False) -> dict[str, Mask]:
    """Return by detector which scored events (N,) it votes for where another one's z opens an alert; `weak` votes as well.

    >>> scored = pd.DataFrame({"spectral_z": [1.0, 2.0, 0.2], "spectral_vote": [False, True, False]})
    >>> votes_beside_opening(scored, ["spectral"])
    {'spectral': array([ True,  True, False])}
    """
    known = load_known_detectors(names)
    second = {each.name: each.weak_vote_z if weak else each.second_vote_z for each in known}
    return {
        name: scored[vote_column(name)].eq(True).to_numpy(bool)
        | (scored[z_column(name)].to_numpy(float) >= second.get(name, math.inf))
        for name in names
    }


def others_agree(
    scored: pd.DataFrame, names: Iterable[str], opinions: Mapping[str, Mask], quorum: int
) -> Mask:
    """Return on which scored events (N,) those of the names that are not calibrated agree, one of them strongly.

    `opinions` (N,) are those of all the names (`ensemble.agree_strongly`).
    """
    others = [name for name in names if name not in calibrated_detectors([name])]
    least = {each.name: each.strong_vote_z for each in load_known_detectors(others)}
    strong = {name: scored[z_column(name)].to_numpy(float) >= least.get(name, math.inf) for name in others}
    return ensemble.agree_strongly(votes_beside_opening(scored, others), strong, opinions, quorum)


def newcomer_rows(scored: Frame) -> Mask:
    """Return which scored events (N,) some detector judged by how newcomers began; none where the column is not there."""
    if NEWCOMER_COLUMN not in scored:
        return np.zeros(len(scored), bool)
    return frames.true_mask(frames.column_of(scored, NEWCOMER_COLUMN))


def calm_newcomer_rows(scored: pd.DataFrame, names: Iterable[str]) -> Mask:
    """Return which scored events (N,) are of newcomers that began calmly, by a detector of these names."""
    newcomer, calm = newcomer_rows(scored), np.zeros(len(scored), bool)
    for each in load_known_detectors(names):
        calm |= newcomer & (scored[z_column(each.name)].to_numpy(float) < each.calm_newcomer_z)
    return calm


def opinions_by_history(scored: pd.DataFrame, opinions: Mapping[str, Mask]) -> dict[str, Mask]:
    """Return the opinions on scored events (N,) by detector, but for those on how newcomers began."""
    newcomer = newcomer_rows(scored)
    judging = {each.name for each in load_known_detectors(opinions) if each.calm_newcomer_z > -math.inf}
    return ensemble.without_newcomers(opinions, dict.fromkeys(judging, newcomer))


@cache
def available_detectors() -> Mapping[str, str]:
    """Return the import path of every detector that has a name: the modules of this package, then entry points.

    It is found once: to ask takes tens of milliseconds, and an alert is asked for each score whose detector is not installed.
    """
    own = {each.name: f"{__name__}.{each.name}:DETECTOR" for each in pkgutil.iter_modules(__path__)}
    return {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)} | own


def _import_detector(name: str) -> type[Detector]:
    path = name if ":" in name else available_detectors().get(name)
    if path is None:
        known = ", ".join(sorted(available_detectors()))
        raise FingerprintError(
            f"setting voting.detectors: no detector {name!r} (known: {known}; one of another package is written "
            "package.module:Class)"
        )
    module, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise FingerprintError(f"setting voting.detectors: {name!r} cannot be imported: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Detector)):
        raise FingerprintError(
            f"setting voting.detectors: {name!r} is no subclass of fingerprint.detection.detectors.Detector"
        )
    if ":" not in name and found.name != name:
        raise FingerprintError(
            f"setting voting.detectors: {name!r} calls itself {found.name!r}; the two must agree"
        )
    return found


def _first_repeated(names: Sequence[str]) -> str:
    return next(name for place, name in enumerate(names) if name in names[:place])
