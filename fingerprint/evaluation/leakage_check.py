"""Does the shape of a record betray an attack? If it did, a benchmark would flatter every detector that looks at it.

Example:
    >>> measure_leakage(lines, attack_ids)          # JSON records of the scored days, ids of the attacks' events
    {'auc': 0.51, 'attack_rows': 893, 'benign_rows': 1642, 'actions': 57}

A forest sees of each record its shape alone (`simulation.record_templates.record_shape`: keys, versions, names of
parameters) and its action. Records of attacks and all others are drawn from the same actions with the same outcome, made in
the same way (at the console or not, through an endpoint or not: that is tool and network, which a detector should see),
direct calls only, and guessed by a forest that did not see their caller.

    auc = sum of n AUC / sum of n      over actions, outcomes and folds; n: their attack rows

where AUC is the chance that an attack's row is guessed to be one rather than another row of the same action and
outcome (ties count half). 0.5: the shape tells nothing. 1: it tells everything. None: nothing could be compared.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold

from fingerprint.simulation.record_templates import record_shape

Record = dict[str, Any]
ActionOutcome = tuple[str, str, str, str]  # source, name, error code, way: what is compared with each other

MAX_RECORDS = {True: 40, False: 80}  # rows of one action and outcome that are drawn: an attack's, others'
MIN_RECORDS = 5  # rows of others, or an action and outcome is not judged
FOLDS, TREES, LEAF, SEED = 5, 60, 5, 0

# Keys that say by which tool or from where a call came
CHANNEL_FIELDS = ("sessionCredentialFromConsole", "vpcEndpointId")
_CHANNEL_MARKERS = tuple(f'"{way}"'.encode() for way in CHANNEL_FIELDS)
_ID = re.compile(rb'"eventID":\s*"([^"]+)"')
_ACTION_FIELDS = re.compile(rb'"(?:eventSource|eventName|errorCode)":\s*"([^"]*)"')


def measure_leakage(lines: Iterable[bytes], attack_ids: set[str]) -> dict[str, float | int | None]:
    """Return how well shapes tell attacks from the rest: `auc`, and how many rows and actions it rests on.

    `lines` are records as JSON, one each, in any number: they are read once and a sample is kept.
    """
    likes, records = _comparable_records(sample_records(lines, attack_ids), attack_ids)
    guilty = np.array([record["eventID"] in attack_ids for record in records], bool)
    parts = [part for part in _cross_validate(likes, records, guilty) if 0 < part[0].sum() < len(part[0])]
    rows = [int(truth.sum()) for truth, _, _ in parts]
    scores = [roc_auc_score(truth, guess) for truth, guess, _ in parts]
    return {
        "auc": round(float(np.average(scores, weights=rows)), 4) if parts else None,
        "attack_rows": sum(rows),
        "benign_rows": sum(len(truth) for truth, _, _ in parts) - sum(rows),
        "actions": len({like[:2] for _, _, like in parts}),
    }


# --- which rows -------------------------------------------------------------------------------------------


@dataclass
class _Reservoir:
    """At most `capacity` of the lines added, each with the same chance (Vitter's algorithm R)."""

    capacity: int
    sample: list[bytes] = field(default_factory=list)
    seen_count: int = 0

    def add(self, line: bytes, draw: Random) -> None:
        self.seen_count += 1
        if len(self.sample) < self.capacity:
            self.sample.append(line)
        elif (at := draw.randrange(self.seen_count)) < self.capacity:
            self.sample[at] = line


def sample_records(lines: Iterable[bytes], attack_ids: set[str]) -> Iterator[Record]:
    """Yield a sample of the records, at most MAX_RECORDS of each action and outcome; none of actions that no attack calls."""
    draw, ids = Random(SEED), {name.encode() for name in attack_ids}  # noqa: S311 - draws a sample, guards nothing
    some: dict[tuple[tuple[bytes, ...], bool], _Reservoir] = {}
    for line in lines:
        guilty = not ids.isdisjoint(_ID.findall(line))
        key = (tuple(_ACTION_FIELDS.findall(line) + [way for way in _CHANNEL_MARKERS if way in line]), guilty)
        if key not in some:
            some[key] = _Reservoir(MAX_RECORDS[guilty])
        some[key].add(line, draw)
    attacked = {like for like, guilty in some if guilty}
    for (like, _), kept in some.items():
        if like in attacked:
            yield from _parse_records(kept.sample)


def _parse_records(lines: Iterable[bytes]) -> Iterator[Record]:
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("eventID"), str):
            yield record


def _comparable_records(
    records: Iterable[Record], attack_ids: set[str]
) -> tuple[list[ActionOutcome], list[Record]]:
    """Return each record once, of those (action, outcome) that both attacks and enough others have."""
    groups: dict[ActionOutcome, list[Record]] = defaultdict(list)
    for record in {record["eventID"]: record for record in records}.values():
        if record["eventID"] in attack_ids or "invokedBy" not in _identity(record):
            groups[_action_outcome(record)].append(record)
    kept = []
    for like, some in groups.items():
        guilty = sum(record["eventID"] in attack_ids for record in some)
        kept += [(like, record) for record in some] if guilty and len(some) - guilty >= MIN_RECORDS else []
    return [like for like, _ in kept], [record for _, record in kept]


def _action_outcome(record: Record) -> ActionOutcome:
    source, name, error = (str(record.get(key, "")) for key in ("eventSource", "eventName", "errorCode"))
    return source, name, error, " ".join(way for way in CHANNEL_FIELDS if way in record)


def _identity(record: Record) -> dict[str, Any]:
    identity = record.get("userIdentity")
    return identity if isinstance(identity, dict) else {}


# --- how well they are separated ---------------------------------------------------------------------------


def _cross_validate(
    likes: list[ActionOutcome], records: list[Record], guilty: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.float64], ActionOutcome]]:
    """Yield truth and guess of the rows of each (action, outcome) in each fold, by a forest that saw no caller of it.

    Rows of different folds are not compared: the forest that did not see an attack thinks less of similar rows than
    the one that did, and every AUC would lie under a half.
    """
    who = np.array([str(_identity(record).get("arn")) for record in records])
    folds = min(FOLDS, len(set(who[guilty])))
    if folds < 2:
        return
    forms = [
        dict.fromkeys({*record_shape(record), "".join(_action_outcome(record)[:2])}, 1) for record in records
    ]
    table = DictVectorizer(dtype=np.float32, sparse=False).fit_transform(forms)
    names = {like: number for number, like in enumerate(dict.fromkeys(likes))}
    numbers = np.array([names[like] for like in likes])
    for seen, rows in StratifiedGroupKFold(folds).split(table, guilty, who):
        guess = _make_forest().fit(table[seen], guilty[seen]).predict_proba(table[rows])[:, -1]
        for like, number in names.items():
            here = numbers[rows] == number
            yield guilty[rows][here], guess[here], like


def _make_forest() -> RandomForestClassifier:
    return RandomForestClassifier(TREES, min_samples_leaf=LEAF, class_weight="balanced", random_state=SEED)
