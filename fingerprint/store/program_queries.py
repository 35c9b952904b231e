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

from fingerprint.core.alert import CredentialIssue
from fingerprint.core.case import ProgramStatus, ThresholdOverride
from fingerprint.sources.cloudtrail import credential_chain
from fingerprint.store import confirmed as desk_confirmed
from fingerprint.store import credential_chains, heartbeats, threshold_overrides, training_labels
from fingerprint.store.session import SqlStore


class SqlFeedbackStore(SqlStore):
    """A part of the desk; each method is one transaction."""

    def override_threshold(
        self,
        at: datetime,
        by: str,
        reason: str,
        threshold: float | None = None,
        quorum: int | None = None,
    ) -> ThresholdOverride:
        """Choose what events are held to from now on; without both what the settings say holds again."""
        return self._write(
            lambda connection: threshold_overrides.add_threshold_override(
                connection, at, by, reason, threshold, quorum
            )
        )

    def threshold_override(self) -> ThresholdOverride | None:
        """What was chosen last; None where nobody ever chose."""
        return self._read(threshold_overrides.current_threshold_override)

    def threshold_overrides(self) -> list[ThresholdOverride]:
        """What was chosen, the newest first."""
        return self._read(threshold_overrides.list_threshold_overrides)

    def confirmed_attacks(self) -> dict[str, list[bytes]]:
        """Attacks that analysts confirmed, the newest: by alert, the records of its events."""
        return self._read(desk_confirmed.read_confirmed_attacks)

    def credential_chain(self, access_key: str) -> list[CredentialIssue]:
        """Who began the session of an access key, and who began theirs: the nearest first."""
        return self._read(
            lambda connection: list(
                credential_chain.trace_credentials(
                    access_key, lambda key: credential_chains.find_credential_issue(connection, key)
                )
            )
        )

    def newest_vote_time(self) -> datetime | None:
        """Up to when single votes are known."""
        return self._read(training_labels.newest_vote_time)

    def alert_ids_since(self, since: datetime) -> list[str]:
        """The ids of alerts with an event from then on."""
        return self._read(lambda connection: training_labels.alert_ids_since(connection, since))

    def save_heartbeat(self, status: ProgramStatus) -> None:
        """How a program is, over what it said before."""
        self._write(lambda connection: heartbeats.save_heartbeat(connection, status))

    def heartbeats(self) -> list[ProgramStatus]:
        """How programs were when they spoke last."""
        return self._read(lambda connection: heartbeats.read_heartbeats(connection, self._now()))
