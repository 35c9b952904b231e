"""Newcomers: part of an organisation begins in the scored days, and attackers come as principals that were never seen before.

Example:
    >>> scenario = NewcomerScenario.create(active, sessions, labels, cut, last, share=0.3, seed=0)
    >>> events = scenario.apply(chunk, settings.entities)              # a chunk of a history as it would then have been
    >>> newcomer_metrics(scored, scenario, principals=100, threshold=3.2, share=0.9, days=7)

A principal's history is cut away before it begins, so its first days are those of a principal that the bank does not know.
An attack session comes as one of ATTACKER_KINDS: a new IAM user, a role assumed for the first time, the root of an account
that never used it, or the robbed principal itself, which then began LEAD_HOURS before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fingerprint.alerting import impact, rarity
from fingerprint.analysis.threshold_what_if import alert_session_pairs
from fingerprint.compute import frames, hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import vote_column, z_column
from fingerprint.core.settings import Entities
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.detection.detectors.autoencoder import AutoencoderDetector
from fingerprint.detection.detectors.spectral import SpectralDetector
from fingerprint.detection.scored_votes import calm_newcomer_rows, newcomer_rows
from fingerprint.estimators import tail_calibration
from fingerprint.evaluation.labels import find_label_rows
from fingerprint.sources.active import SOURCE
from fingerprint.sources.entities import ENTITY_COLUMNS, add_entity_columns

OWN_Z, OWN_VOTE = (column(AutoencoderDetector.name) for column in (z_column, vote_column))
COUNT_Z, COUNT_VOTE = (column(SpectralDetector.name) for column in (z_column, vote_column))
ATTACKER_KINDS = ("new user", "new role", "root", "robbed newcomer")
LEAD_HOURS = 3  # before the attack, that a robbed newcomer began
SETTLING_DAYS = 2  # days at the end of what is judged in which no principal begins


@dataclass(frozen=True)
class NewcomerScenario:
    """The newcomers, and the identities that attackers use.

    `start_times`: seconds by principal (hash) before which there is nothing of it; `attacks`: one row a session: session,
    kind; `labels`: one row an attack event: event_id, session, strength.
    """

    start_times: pd.Series
    attacks: pd.DataFrame
    labels: pd.DataFrame

    @classmethod
    def create(
        cls,
        active: Hashes,
        sessions: pd.DataFrame,
        labels: pd.DataFrame,
        cut: int,
        last: int,
        share: float,
        seed: int,
    ) -> NewcomerScenario:
        """Draw who is new.

        `active` (P,): the principals of the scored days; `sessions`: session, began, principal (hash), account, one row an
        attack that is scored. `share` of those who are not robbed begin at any time of the scored days.
        """
        draw = np.random.default_rng(seed)
        free = np.setdiff1d(active, sessions["principal"].to_numpy(np.uint64))
        new = draw.permutation(free)[: round(share * len(free))]
        begins = pd.Series(
            draw.integers(cut, max(last - SETTLING_DAYS * DAY_SECONDS, cut + 1), len(new)), index=new
        )
        attacks = sessions.sort_values("began", ignore_index=True)
        kinds = pd.Series(
            [ATTACKER_KINDS[number % len(ATTACKER_KINDS)] for number in range(len(attacks))], dtype=object
        )
        again = kinds.eq("root") & attacks["account"].where(kinds.eq("root")).duplicated()
        attacks = attacks.assign(kind=kinds.where(~again, "new user"))  # a root is new once
        robbed = attacks[attacks["kind"].eq("robbed newcomer")]
        young = robbed.groupby("principal")["began"].min() - LEAD_HOURS * 3600
        return cls(pd.concat([begins, young]), attacks, labels)

    def apply(self, events: pd.DataFrame, options: Entities) -> pd.DataFrame:
        """Return a chunk of events with entities as this scenario has it.

        Events before their principal began are left out; attacks are in the names of new principals.
        """
        begins = self.start_times.reindex(hashing.hash_strings(events["principal"])).to_numpy(float)
        events = frames.select_rows(events, ~(frames.epoch_seconds(events["event_time"]) < begins))
        attack = self._attack(events)
        minted = attack["kind"].isin(list(_NEW_IDENTITIES)).to_numpy(bool)
        if not minted.any():
            return events
        renamed = _rename_principals(frames.select_rows(events, minted), attack[minted])
        parts = [
            frames.select_rows(events, ~minted),
            add_entity_columns(renamed, options)[list(events.columns)],
        ]
        return pd.concat(parts, ignore_index=True).sort_values(["event_time", "event_id"], ignore_index=True)

    def _attack(self, events: pd.DataFrame) -> pd.DataFrame:
        """Return the attack that each event (N,) belongs to: its number and kind, missing for none."""
        sessions = np.array([*self.labels["session"], None], dtype=object)
        session = sessions[find_label_rows(hashing.hash_strings(events["event_id"]), self.labels)]
        return (
            self.attacks.assign(number=self.attacks.index)
            .set_index("session")[["number", "kind"]]
            .reindex(session)
        )


def _rename_principals(events: pd.DataFrame, attack: pd.DataFrame) -> pd.DataFrame:
    """Return events without entities, done by the new principals that their attacks (N,) come as."""
    rows = zip(attack["kind"], events["recipient_account"], attack["number"], strict=True)
    people = [_NEW_IDENTITIES[str(kind)](str(account), int(number)) for kind, account, number in rows]
    identities = pd.DataFrame(people, columns=_IDENTITY_COLUMNS, index=events.index).astype(
        events["arn"].dtype
    )
    return events.drop(columns=list(ENTITY_COLUMNS)).assign(
        **{name: identities[name] for name in _IDENTITY_COLUMNS}
    )


def _user(account: str, number: int) -> dict[str, str]:
    name = f"svc-sync-{number}"
    return {
        "identity_type": "IAMUser",
        "principal_id": f"AIDANEW{number:013d}",
        "arn": f"arn:aws:iam::{account}:user/{name}",
        "account": account,
        "user_name": name,
    }


def _role(account: str, number: int) -> dict[str, str]:
    name = f"OrgAccess{number}"
    return {
        "identity_type": "AssumedRole",
        "principal_id": f"AROANEW{number:013d}:session",
        "arn": f"arn:aws:sts::{account}:assumed-role/{name}/session",
        "account": account,
        "issuer_type": "Role",
        "issuer_arn": f"arn:aws:iam::{account}:role/{name}",
        "issuer_account": account,
        "issuer_name": name,
    }


def _root(account: str, number: int) -> dict[str, str]:
    arn = f"arn:aws:iam::{account}:root"
    return {"identity_type": "Root", "principal_id": account, "arn": arn, "account": account}


_NEW_IDENTITIES: dict[str, Callable[[str, int], dict[str, str]]] = {
    "new user": _user,
    "new role": _role,
    "root": _root,
}
_IDENTITY_COLUMNS = [name for name in SOURCE.IDENTITY_COLUMNS if name not in ("recipient_account", "service")]


def newcomer_metrics(
    scored: pd.DataFrame,
    scenario: NewcomerScenario,
    principals: int,
    threshold: float,
    share: float | None,
    days: float,
) -> dict[str, Any]:
    """Return what a rule shows: `share` of the autoencoder's threshold is enough where it alone has an opinion; None: nothing is.

    `scored`: event_time, group, session (None for harmless ones), principal, z and vote of both default detectors, and
    `newcomer`, where the spectral detector judged by how others began; of a calm beginning the whole threshold is needed.
    """
    z, alone = scored[OWN_Z].to_numpy(float), scored[COUNT_Z].isna().to_numpy() | newcomer_rows(scored)
    both = (scored[OWN_VOTE] & scored[COUNT_VOTE]).to_numpy(bool)
    calm = calm_newcomer_rows(scored, [SpectralDetector.name])
    least = np.inf if share is None else threshold * np.where(calm, max(share, 1.0), share)
    shown = scored[(both & ~alone) | (alone & (z >= least))]
    found = alert_session_pairs(shown)
    false = shown[~shown["group"].isin(found["group"])]
    young = false[false[COUNT_Z].isna() | newcomer_rows(false)]
    harmless = scored[alone & scored["session"].isna().to_numpy()]
    return {
        "share": share,
        **_sessions_found(scenario, scored, found),
        "false_a_day": round(false["group"].nunique() / days, 3),
        "principals": principals,
        "newcomers": harmless["principal"].nunique(),
        "newcomers_false": young["group"].nunique(),
        "newcomers_urgency": _highest_urgency(young),
    }


def _sessions_found(
    scenario: NewcomerScenario, judged: pd.DataFrame, found: pd.DataFrame
) -> dict[str, dict[str, int]]:
    """Return how many sessions of each kind there are, and how many an alert is about."""
    there = scenario.attacks[scenario.attacks["session"].isin(judged["session"].dropna().unique())]
    hit = there["session"].isin(found["session"])
    return {
        "sessions": {kind: int(there["kind"].eq(kind).sum()) for kind in ATTACKER_KINDS},
        "found": {kind: int((there["kind"].eq(kind) & hit).sum()) for kind in ATTACKER_KINDS},
    }


def _highest_urgency(shown: pd.DataFrame) -> int | None:
    """Return the urgency of the most urgent alert shown, before any cap."""
    best = shown[OWN_Z].max()
    return (
        None
        if pd.isna(best)
        else round(float(impact.urgency_from_nats(rarity.combined_nats(tail_calibration.z_to_nats([best])))))
    )
