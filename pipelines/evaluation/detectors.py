"""What our detectors and their quorums say of the judged days: one walk along the road, as `score` walks it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
import pandas as pd

from fingerprint.core.settings import Settings
from fingerprint.detection.detectors import Forest
from fingerprint.detection.scorer import no_votes
from fingerprint.evaluation import quorums
from fingerprint.evaluation.quorums import Panel, Shown
from fingerprint.pipeline import Said
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import Ledger
from fingerprint.store.alerts import open_desk
from pipelines.cli.console import Progress

THIRD = Forest.name  # the optional third detector
OWN, SERVED = (
    "own",
    "served",
)  # the quorum of all who were asked; that of the settings, where a third was asked too


def ours(
    bank: Bank, judging: Iterable[pd.DataFrame], settings: Settings, third: bool, progress: Progress
) -> tuple[pd.DataFrame, dict[str, Shown]]:
    """The judged events (`Judged.table`), and by name what is said of them; what is served comes first."""
    voting = settings.voting
    third = third and THIRD not in voting.detectors
    names = (*voting.detectors, THIRD) if third else voting.detectors
    asked = settings.model_copy(update={"voting": voting.model_copy(update={"detectors": names})})
    others = {SERVED: (voting.detectors, voting.quorum)} if third else {}
    panel = Panel(bank, Ledger.from_arrays(asked, bank.ledger), asked, others)
    with Desks((OWN, *others)) as desks:
        for events in judging:
            desks.keep(panel, panel.walk(events))
            progress("scoring events", panel.tally.events + panel.tally.repeats)
        desks.keep(panel, panel.finish())
        judged, urgency = panel.judged.table(), desks.urgencies()
    methods = _as_served(judged, settings, urgency[SERVED if third else OWN])
    return judged, methods | (_with_third(judged, names, voting.quorum, urgency[OWN]) if third else {})


def _as_served(judged: pd.DataFrame, settings: Settings, urgency: pd.Series) -> dict[str, Shown]:
    """The quorum, ranked by urgency; any vote; each detector alone."""
    names, quorum = settings.voting.detectors, settings.voting.quorum
    out = {f"fingerprint ({quorum} of {len(names)})": quorums.by_urgency(judged, names, quorum, urgency)}
    if len(names) > 1:
        thresholds = {name: float(getattr(settings, name).threshold) for name in names}
        out[f"any vote (1 of {len(names)})"] = quorums.by_share(judged, thresholds)
        out |= {f"{name} alone": quorums.alone(judged, name) for name in names}
    return out


def _with_third(
    judged: pd.DataFrame, names: Sequence[str], quorum: int, urgency: pd.Series
) -> dict[str, Shown]:
    return {
        f"with a {THIRD} ({quorum} of {len(names)})": quorums.by_urgency(judged, names, quorum, urgency),
        f"{THIRD} alone": quorums.alone(judged, THIRD),
    }


class Desks:
    """A desk for each quorum, for as long as the walk lasts: it knows of all alerts what an analyst would be shown."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.stack = names, ExitStack()

    def __enter__(self) -> Desks:
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="fingerprint-")))
        self.desks = {name: open_desk(f"sqlite:///{folder}/{name}.sqlite") for name in self.names}
        for desk in self.desks.values():
            self.stack.callback(desk.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def keep(self, panel: Panel, said: Said) -> None:
        """The alerts of one step, each quorum's on its desk."""
        self.desks[OWN].save(said.alerts, no_votes())
        for name, quorum in panel.others.items():
            self.desks[name].save(quorum.take(), no_votes())

    def urgencies(self) -> dict[str, pd.Series]:
        """By quorum: the urgency of each alert, by its `group`."""
        shown = {name: desk.alerts(raw=False) for name, desk in self.desks.items()}
        return {
            name: pd.Series(
                {np.uint64(int(alert.alert_id, 16)): alert.urgency for alert in alerts}, dtype=float
            )
            for name, alerts in shown.items()
        }
