"""Tables of the rows against dfencoder: one history, read by both sides.

Example:
    >>> same = build_tables()
    >>> same.history["entity"].nunique(), len(same.history)
    (64, 64000)
    >>> published_columns(same.history).shape
    (64000, 33)

Each user has ROWS events of ten simulated days to learn, and LATER_ROWS events of the next two days to score, both spread evenly
over their days. PLANTED_ROWS more are calls of others with the user's identity, as with stolen credentials: half of them are
another user's calls, half are real attack calls (`samples.ATTACK_DATASET`). Identity, account and time are the user's; action,
address and tool are not. Our side reads a record by `flatten` and `features`; dfencoder reads the 33 columns that are published
for CloudTrail, as text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.adapters.event_spool import EventSpool
from fingerprint.core.settings import Entities, Settings
from fingerprint.sources.cloudtrail import samples
from fingerprint.sources.cloudtrail.envelopes import split_lines
from pipelines.bench.organisations import organisation_files, read_events

USERS, ROWS, LATER_ROWS, PLANTED_ROWS = 64, 1000, 200, 20
DAYS, LEARNED = 12, 10  # simulated days, and how many of them are learned
SEED = 0
EXCLUDED_FIELDS = ("userIdentity", "recipientAccountId", "eventTime")  # fields that stay the user's own
COLUMNS = (  # columns published with the digital fingerprinting of CloudTrail: paths without their dots
    "eventSource",
    "eventName",
    "sourceIPAddress",
    "userAgent",
    "userIdentitytype",
    "apiVersion",
    "requestParametersroleArn",
    "requestParametersroleSessionName",
    "requestParametersdurationSeconds",
    "responseElementsassumedRoleUserassumedRoleId",
    "responseElementsassumedRoleUserarn",
    "userIdentityprincipalId",
    "userIdentityarn",
    "userIdentityaccountId",
    "userIdentityaccessKeyId",
    "userIdentitysessionContextsessionIssuerprincipalId",
    "userIdentitysessionContextsessionIssueruserName",
    "tlsDetailsclientProvidedHostHeader",
    "requestParametersownersSetitems",
    "requestParametersmaxResults",
    "requestParametersinstancesSetitems",
    "errorCode",
    "errorMessage",
    "requestParametersmaxItems",
    "responseElementsrequestId",
    "responseElementsinstancesSetitems",
    "requestParametersgroupSetitems",
    "requestParametersinstanceType",
    "requestParametersmonitoringenabled",
    "requestParametersdisableApiTermination",
    "requestParametersebsOptimized",
    "responseElementsreservationId",
    "requestParametersgroupName",
)


@dataclass(frozen=True)
class BenchmarkTables:
    """Tables that both sides learn and score, oldest events first.

    `history` has USERS x ROWS events, `later` USERS x (LATER_ROWS + PLANTED_ROWS); `planted` (len(later),) marks planted ones.
    """

    settings: Settings
    history: pd.DataFrame
    later: pd.DataFrame
    planted: NDArray[np.bool_]

    @property
    def users(self) -> list[str]:
        """Users by name."""
        return sorted(self.history["entity"].unique())


@cache
def build_tables() -> BenchmarkTables:
    """Build the tables. An entity is a principal here, not a principal at a service, so a user has all calls of one principal."""
    settings = Settings(entities=Entities(granularity="principal"))
    with organisation_files(120, DAYS, scale=1.5, attacks=0) as days:
        events = pd.concat(read_events(days, settings), ignore_index=True)
    events = events.drop_duplicates("event_id", ignore_index=True)
    first_day = events["event_time"].min().normalize()
    early = events["event_time"] < first_day + pd.Timedelta(days=LEARNED)
    users = _active_users(events, early)
    history = _thin_events(events[early], users, ROWS)
    later = _thin_events(events[~early], users, LATER_ROWS)
    intruders = _events(_planted_records(later), settings)
    return BenchmarkTables(settings, history, *_merge_planted(later, intruders))


def _active_users(events: pd.DataFrame, early: pd.Series) -> list[str]:
    """Return the first USERS users, by name, who have enough events in both parts."""
    counts = [part.groupby("entity").size() for part in (events[early], events[~early])]
    enough = counts[0].index[counts[0] >= ROWS].intersection(counts[1].index[counts[1] >= LATER_ROWS])
    return sorted(enough)[:USERS]


def _thin_events(events: pd.DataFrame, users: list[str], rows: int) -> pd.DataFrame:
    """Return `rows` events of each user, evenly spread, oldest first."""
    events = events[events["entity"].isin(users)]
    place, size = events.groupby("entity").cumcount(), events.groupby("entity")["entity"].transform("size")
    # the k-th of n is taken where k * rows / n passes a whole number
    taken = (place + 1) * rows // size > place * rows // size
    return events[taken].reset_index(drop=True)


def _planted_records(later: pd.DataFrame) -> list[dict[str, Any]]:
    """Return PLANTED_ROWS records for each user: calls of others with the user's identity."""
    random = np.random.default_rng(SEED)
    records = [json.loads(raw) for raw in later["raw"]]
    attacks = _attack_calls()
    owner = later["entity"].to_numpy(object)
    out: list[dict[str, Any]] = []
    for user in sorted(set(owner)):
        own, others = np.flatnonzero(owner == user), np.flatnonzero(owner != user)
        calls = [records[at] for at in random.choice(others, PLANTED_ROWS // 2, replace=False)]
        calls += [attacks[at] for at in random.choice(len(attacks), PLANTED_ROWS - len(calls), replace=False)]
        out += [
            {**_with_identity_of(records[at], call), "eventID": f"planted-{len(out) + number}"}
            for number, (at, call) in enumerate(zip(random.choice(own, PLANTED_ROWS), calls, strict=True))
        ]
    return out


def _attack_calls() -> list[dict[str, Any]]:
    labels = samples.sample_labels(samples.ATTACK_DATASET)
    guilty = {name for name, label in labels.items() if label["label"] == "attack"}
    return [
        record for record in samples.sample_records(samples.ATTACK_DATASET) if record["eventID"] in guilty
    ]


def _with_identity_of(own: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    return {**call, **{key: own[key] for key in EXCLUDED_FIELDS if key in own}}


def _events(records: list[dict[str, Any]], settings: Settings) -> pd.DataFrame:
    with EventSpool(settings) as history:
        history.add_batches([split_lines([json.dumps(record).encode() for record in records])])
        return pd.concat(history.batches(), ignore_index=True)


def _merge_planted(later: pd.DataFrame, intruders: pd.DataFrame) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    both = pd.concat([later, intruders], ignore_index=True)
    both = both.sort_values(["event_time", "event_id"], ignore_index=True)
    return both, both["event_id"].str.startswith("planted-").to_numpy(bool)


def published_columns(events: pd.DataFrame) -> pd.DataFrame:
    """Return the 33 columns of the records of events, all as text; a missing value is `nan`."""
    flat = pd.json_normalize([json.loads(raw) for raw in events["raw"]], sep="")
    flat = flat.reindex(columns=list(COLUMNS)).astype(object)
    return flat.where(flat.notna(), "nan").map(str).astype(object)
