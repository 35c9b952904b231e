"""What programs ask of the desk and tell it, beside alerts and votes: thresholds that people chose, confirmed attacks, who began
which session, how they are.

Example:
    >>> settings = retuning.applied(settings, desk.tuned())
    >>> desk.save(alerts, votes, chains.issued(events))
    >>> desk.chain("ASIAEXAMPLE")[-1].human
    'alice'
"""

from __future__ import annotations

from datetime import datetime

from fingerprint.core.alert import Hop
from fingerprint.core.case import Report, Tuned
from fingerprint.sources.cloudtrail import credential_chain
from fingerprint.store import confirmed as desk_confirmed
from fingerprint.store import credential_chains, heartbeats, threshold_overrides, training_labels
from fingerprint.store.session import Transactions


class Consulted(Transactions):
    """A part of the desk; each method is one transaction."""

    def tune(
        self,
        at: datetime,
        by: str,
        why: str,
        threshold: float | None = None,
        quorum: int | None = None,
    ) -> Tuned:
        """Choose what events are held to from now on; without both what the settings say holds again."""
        return self._write(
            lambda connection: threshold_overrides.tune(connection, at, by, why, threshold, quorum)
        )

    def tuned(self) -> Tuned | None:
        """What was chosen last; None where nobody ever chose."""
        return self._read(threshold_overrides.tuned)

    def tunings(self) -> list[Tuned]:
        """What was chosen, the newest first."""
        return self._read(threshold_overrides.tunings_of)

    def confirmed(self) -> dict[str, list[bytes]]:
        """Attacks that analysts confirmed, the newest: by alert, the records of its events."""
        return self._read(desk_confirmed.confirmed)

    def chain(self, access_key: str) -> list[Hop]:
        """Who began the session of an access key, and who began theirs: the nearest first."""
        return self._read(
            lambda connection: list(
                credential_chain.climbed(access_key, lambda key: credential_chains.hop(connection, key))
            )
        )

    def newest_vote(self) -> datetime | None:
        """Up to when single votes are known."""
        return self._read(training_labels.newest_vote)

    def alerts_since(self, since: datetime) -> list[str]:
        """The ids of alerts with an event from then on."""
        return self._read(lambda connection: training_labels.alerts_since(connection, since))

    def report(self, said: Report) -> None:
        """How a program is, over what it said before."""
        self._write(lambda connection: heartbeats.report(connection, said))

    def reports(self) -> list[Report]:
        """How programs were when they spoke last."""
        return self._read(lambda connection: heartbeats.reports(connection, self._now()))
