"""The detectors: their base class, and the list from which the settings choose.

A detector is one module or package. It declares a name, a label for the screen, a granularity (event or interval), its section of
the settings, and how it explains an alert. Votes, z-scores in frames, tables, API, exports and pages follow from this.

- A detector of this package has the name of its module, which assigns its class to `DETECTOR`.
- A detector of another package is an entry point of the group `fingerprint.detectors` with the name of the detector, or an
  import path in the settings: `voting.detectors = ["autoencoder", "spectral", "my_package.my_module:MyDetector"]`.
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
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from fingerprint.compute import frames
from fingerprint.compute.arrays import Floats, Ints, Mask, namespace
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import ActivityCurve, SurpriseDriver
from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports.inference import Inference
from fingerprint.core.settings import Section, Settings
from fingerprint.registry.bank import Bank
from fingerprint.state.activity_series import ActivitySeries
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.interval_amounts import IntervalAmounts
from fingerprint.state.scorer_state import ScorerState

Granularity = Literal["event", "interval"]

ENTRY_POINT_GROUP = "fingerprint.detectors"

log = get_logger("fingerprint.detection.detectors")


class DetectorOptions(Section):
    """The fields that every detector's section of the settings has; a detector adds its own in a subclass."""

    threshold: float = Field(
        4.0, description="Score in standard deviations (z) from which the detector votes."
    )


class ExplanationContext(Protocol):
    """The context from which a detector explains an alert: counts of activity, settings, and the banks that measured events."""

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
        """Return the bank that measured events, which all have one bank version, and the rows of their fingerprints, (R,)."""
        ...


class IntervalScores(NamedTuple):
    """Scores of R intervals, each of one channel of an entity or principal.

    `owner` (R,) and `channel` (R,) are hashes, `interval` (R,) are numbers of intervals, `z` (R,) their scores. `no_opinion`
    counts the intervals that could not be judged yet.
    """

    owner: Hashes
    channel: Hashes
    interval: Ints
    z: Floats
    no_opinion: int = 0


class Detector(ABC):
    """Base class of the detectors. All measure the same events and share nothing else."""

    name: ClassVar[str]  # in votes, settings and scores: lower case, digits and underscores
    label: ClassVar[str]  # on screen
    question: ClassVar[str] = ""  # the question that it answers about an event, for a tooltip
    granularity: ClassVar[Granularity] = "event"
    # True if its z is the normal quantile of a tail probability. Only such a z opens an alert and counts towards urgency.
    calibrated: ClassVar[bool] = False
    # The z from which it votes beside a calibrated z that opens an alert, if that is below its threshold (second vote).
    second_vote_z: ClassVar[float] = math.inf
    # The z from which its vote is strong: if the others vote as well, the threshold of alerts is lower by
    # `ensemble.STRONG_VOTE_NATS`.
    strong_vote_z: ClassVar[float] = math.inf
    # The z below which a newcomer began calmly, compared with how others began; minus infinity: it does not judge newcomers.
    calm_newcomer_z: ClassVar[float] = -math.inf
    # The columns of a batch's frame that `score` reads beside the detector's own evidence; None for any column and evidence. Rows
    # with few columns are selected much faster.
    score_columns: ClassVar[Sequence[str] | None] = None
    # Terms of the score that an evaluation can leave out (`without`): name -> the term in a few words.
    terms: ClassVar[Mapping[str, str]] = {}
    # True if its z can fall while the interval is open: the detector then votes only once the interval has closed.
    final_when_closed: ClassVar[bool] = False
    Options: ClassVar[type[DetectorOptions]] = DetectorOptions

    degraded = False  # True if the fallback measured the last batch
    left_out = ""  # the term of `terms` that this detector leaves out

    def __init__(self, settings: Settings, bank: Bank, state: ScorerState, inference: Inference) -> None:
        self.settings, self.bank, self.state, self.inference = settings, bank, state, inference
        self.threshold = self.vote_threshold()
        self.second_threshold = min(self.threshold, self.second_vote_z)

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
        """Return the share of harmless events that it may vote for, by the settings; None if they set a threshold instead."""
        share: float | None = getattr(cls.options_from(settings), "vote_share", None)
        return share

    @classmethod
    def own_threshold(cls, settings: Settings, figures: Mapping[str, Any]) -> float:
        """Return the z from which it votes, by its section of the settings; `figures` are the quality figures of a bank."""
        return float(cls.options_from(settings).threshold)

    def vote_threshold(self) -> float:
        """Return the z from which the detector votes with its bank."""
        return self.own_threshold(self.settings, self.bank.manifest["quality"])

    @abstractmethod
    def measure(self, batch: EventBatch) -> NDArray[Any]:
        """Return the evidence (N, C) that is kept of each event until its interval closes; C is up to the detector."""

    @abstractmethod
    def score(self, batch: EventBatch) -> Floats:
        """Return the z of events (N,) from their evidence (`batch.evidence[name]`) and the counts so far; NaN for no opinion.

        While an interval is open, a z may grow but never falls, and NaN stays NaN. The z of a detector that is
        `final_when_closed` may fall but never grows, and it votes only once the interval has closed.
        """

    def can_still_vote(self, batch: EventBatch, z: Floats | None = None) -> Mask:
        """Return a mask (N,) of the events that have the vote or may get it before their interval closes.

        Events without an opinion are included, so that they wait for the other detectors. `z` (N,) is the current score if the
        caller has it; NaN for a detector that is `final_when_closed`.
        """
        return all_events(batch)

    def has_opinion(self, batch: EventBatch) -> Mask:
        """Return a mask (N,) of the events whose z is not NaN; it is known before any z is computed."""
        return all_events(batch)

    def judges_newcomer(self, batch: EventBatch) -> Mask:
        """Return a mask (N,) of the events that it compares with how others began, because their principal has no history."""
        return ~all_events(batch)

    def priority(self, batch: EventBatch) -> Floats:
        """Return how unusual events look before they are judged (N,): if too many wait, those with the highest are kept."""
        return namespace(batch.interval).zeros(len(batch), np.float32)

    def final_evidence(self, batch: EventBatch, which: Mask) -> NDArray[Any]:
        """Return the evidence that explains alerts (N, C), once each z is final; `which` (N,) marks events with a verdict."""
        return batch.evidence[self.name]

    def record_scores(self, batch: EventBatch, z: Floats) -> None:
        """Record final z's of events (N,) in the state, if later scores depend on them."""
        return

    def interval_scores(self, start: int, end: int, min_z: float) -> IntervalScores | None:
        """Return the intervals start ... end - 1 with a z of at least `min_z`; None for a detector of events."""
        return None

    def silent_intervals(self, start: int, end: int) -> IntervalScores | None:
        """Return the intervals start ... end - 1 in which far fewer events came than expected: votes, never verdicts."""
        return None

    def without(self, term: str) -> Self:
        """Return a variant of this detector without one of its `terms`, for an evaluation that compares both.

        The variant changes no state that this detector reads. It keeps the thresholds and tails that were learned with all terms.
        It measures batches that already have this detector's evidence.
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

_loaded: dict[str, type[Detector]] = {}  # by name, and by import path if the settings use one


def build_detectors(
    settings: Settings, bank: Bank, state: ScorerState, inference: Inference
) -> list[Detector]:
    """Return the detectors that the settings list, in their order. Raise FingerprintError for an unknown one."""
    return [each(settings, bank, state, inference) for each in listed_detectors(settings)]


def listed_detectors(settings: Settings) -> list[type[Detector]]:
    """Return the classes of `voting.detectors`, in their order. Raise FingerprintError for an unknown one."""
    listed = [load_detector(each) for each in settings.voting.detectors]
    names = [each.name for each in listed]
    if len(set(names)) < len(names):
        raise FingerprintError(
            f"setting voting.detectors: two detectors are called {_first_repeated(names)!r}"
        )
    return listed


def detector_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of the detectors that the settings list: the keys of scores and of columns in frames."""
    return tuple(each.name for each in listed_detectors(settings))


def load_detector(name: str) -> type[Detector]:
    """Return a detector's class by name or import path (`package.module:Class`). Raise FingerprintError if there is none."""
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
    """Return the classes of the named detectors that are installed: a stored score may be of one that no longer is."""
    return [load_detector(name) for name in names if name in _loaded or name in available_detectors()]


def detector_label(name: str) -> str:
    """Return the name of a detector on screen: its label, or its name if it is not installed."""
    known = load_known_detectors([name])
    return known[0].label if known else name


def interval_detectors(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are detectors of intervals, whose votes name no event."""
    return tuple(each.name for each in load_known_detectors(names) if each.granularity == "interval")


def calibrated_detectors(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of calibrated detectors, whose z is the normal quantile of a tail probability."""
    return tuple(each.name for each in load_known_detectors(names) if each.calibrated)


@cache
def available_detectors() -> Mapping[str, str]:
    """Return the import path of every named detector: entry points, and the modules of this package, which override them.

    Cached: a look-up takes tens of milliseconds, and each score of a detector that is not installed needs one.
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
