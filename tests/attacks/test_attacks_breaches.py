"""Two shapes of real breaches at default settings: a principal that is hours old enumerates, or escalates in forty calls.

The calls are real and labelled (data/real/invictus_stratus, one user). What the user did before is cut away: all that it has is
three hours, which begin with unlabelled console calls of its own. docs/explanation/results.md has the figures.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.analysis.threshold_what_if import LEAST_SHARE
from fingerprint.core.settings import Settings
from fingerprint.evaluation.time_to_alert import VerdictPipeline, find_alerting_records
from fingerprint.registry.bank_files import open_bank
from fingerprint.sources.cloudtrail import samples
from fingerprint.state.scorer_state import ScorerState
from pipelines.cli.console import no_progress
from pipelines.simulate import DEFAULT_START
from pipelines.train import train_bank
from tests.support import sample_organisation

Record = dict[str, Any]

SETTINGS = Settings()
USER = "bert-jan"  # whose keys all attacks of the set were run with
ATTACK_HOUR, HOURS_OLD = 13, 3
DESTROYS_THE_TRAIL = "DeleteTrail"  # the first call of the escalation
READS = ("Describe", "Get", "List")
HARMLESS = "colleague"  # does the same console work, and nothing else
TERRAFORM = "Terraform"  # no console


@dataclass(frozen=True)
class Breach:
    """What a principal does: `calls` are the attack's, `own` come hours before."""

    shape: str
    tool: str
    own: list[Record]
    calls: list[Record]

    @property
    def principal(self) -> str:
        return f"{self.calls[0]['recipientAccountId']}:user/{self.calls[0]['userIdentity']['userName']}"

    @property
    def event_ids(self) -> set[str]:
        return {each["eventID"] for each in self.calls}


@cache
def users_records() -> list[tuple[str, Record]]:
    """Every record of the user, oldest first, with its label ("" without one)."""
    labels = samples.sample_labels(samples.ATTACK_DATASET)
    found = [
        (labels.get(each["eventID"], {}).get("label", ""), each)
        for each in samples.sample_records(samples.ATTACK_DATASET)
        if each["userIdentity"].get("userName") == USER
    ]
    return sorted(found, key=lambda pair: str(pair[1]["eventTime"]))


def escalation() -> list[Record]:
    """The labelled attack calls from the one that destroys the trail on: roles, users, keys, policies."""
    attack = [each for label, each in users_records() if label == "attack"]
    first = [each["eventName"] for each in attack].index(DESTROYS_THE_TRAIL)
    return attack[first:]


def enumeration() -> list[Record]:
    """The labelled reads: those of the attacks, and those with which the same runs looked around before."""
    labelled = [each for label, each in users_records() if label in ("attack", "attack_setup")]
    return [each for each in labelled if each["eventName"].startswith(READS)]


def own_work() -> list[Record]:
    """The unlabelled console calls after the last attack."""
    last = escalation()[-1]["eventTime"]
    return [
        each
        for label, each in users_records()
        if not label and each["eventTime"] > last and TERRAFORM not in each["userAgent"]
    ]


SHAPES = {"enumeration": enumeration, "escalation": escalation}
TOOLS = ("the attacker's", "a colleague's")


def moved(records: list[Record], name: str, account: str, hour: int, tool: str | None) -> list[Record]:
    """Records of a user of the organisation, on its tenth day from `hour` on; with another tool if one is given."""
    begin = datetime.combine(DEFAULT_START, datetime.min.time(), UTC) + timedelta(
        days=sample_organisation.LEARNED, hours=hour
    )
    shift = begin - datetime.fromisoformat(records[0]["eventTime"])
    out = []
    for each in records:
        text = json.dumps(each).replace(USER, name).replace(each["recipientAccountId"], account)
        changed = {
            "eventID": f"{each['eventID']}-{name}",
            "eventTime": f"{datetime.fromisoformat(each['eventTime']) + shift:%Y-%m-%dT%H:%M:%SZ}",
        }
        out.append(json.loads(text) | changed | ({"userAgent": tool} if tool else {}))
    return out


def breaches(organisation: sample_organisation.SampleOrganisation) -> Iterator[Breach]:
    """Each shape with each tool, by a user of its own."""
    learned = [json.loads(line) for line in sample_organisation.lines_of(organisation.learned[-2:])]
    account = Counter(each["recipientAccountId"] for each in learned).most_common(1)[0][0]
    usual = Counter(each["userAgent"] for each in learned if each["userAgent"].startswith("aws-"))
    tools = dict(zip(TOOLS, (None, usual.most_common(1)[0][0]), strict=True))
    for shape, calls in SHAPES.items():
        for whose, tool in tools.items():
            name = f"{shape}-{TOOLS.index(whose)}"
            yield Breach(
                shape,
                whose,
                moved(own_work(), name, account, ATTACK_HOUR - HOURS_OLD, None),
                moved(calls(), name, account, ATTACK_HOUR, tool),
            )


@dataclass(frozen=True)
class Tried:
    """All breaches in one run of the organisation's last days, and the bank that judged them."""

    breaches: dict[tuple[str, str], Breach]
    bank: Path
    records: Path
    run: sample_organisation.Run


@pytest.fixture(scope="module")
def tried(
    organisation: sample_organisation.SampleOrganisation, tmp_path_factory: pytest.TempPathFactory
) -> Tried:
    folder = tmp_path_factory.mktemp("breaches")
    bank = folder / "bank"
    train_bank(organisation.learned, bank, SETTINGS, no_progress)
    all_of = {(each.shape, each.tool): each for each in breaches(organisation)}
    first = next(iter(all_of.values()))
    account = first.calls[0]["recipientAccountId"]
    harmless = moved(own_work(), HARMLESS, account, ATTACK_HOUR - HOURS_OLD, None)
    records = sorted(
        (*harmless, *(record for each in all_of.values() for record in (*each.own, *each.calls))),
        key=lambda record: str(record["eventTime"]),
    )
    file = sample_organisation.write(folder / "breaches.jsonl", records)
    run = sample_organisation.run([*organisation.new, file], bank, folder, SETTINGS)
    return Tried(all_of, bank, file, run)


def test_the_shapes_are_those_of_the_real_breaches() -> None:
    assert len(enumeration()) > 500
    assert 35 <= len(escalation()) <= 45
    assert {"CreateUser", "CreateAccessKey", "AttachUserPolicy"} < {
        each["eventName"] for each in escalation()
    }
    assert len(own_work()) > 100, "some life of its own"


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_breach_by_a_principal_that_is_hours_old_is_an_alert_at_default_settings(
    shape: str, tool: str, tried: Tried
) -> None:
    breach = tried.breaches[shape, tool]
    about = [
        len(breach.event_ids.intersection(alert.event_ids)) / len(alert.event_ids)
        for alert in tried.run.alerts
        if alert.principal == breach.principal
    ]
    assert about, "an alert"
    assert max(about) >= LEAST_SHARE


def test_the_alerts_come_within_the_span_of_the_attack_and_an_interval(tried: Tried) -> None:
    events = events_of(tried.records)
    who = events["principal"].map({each.principal: i for i, each in enumerate(tried.breaches.values())})
    attack = events["event_id"].isin(set().union(*(each.event_ids for each in tried.breaches.values())))
    session = who.where(attack, -1).to_numpy(np.int64)
    bank = open_bank(tried.bank)
    pipeline = VerdictPipeline(bank, ScorerState.from_arrays(SETTINGS, bank.scorer_state), SETTINGS)
    found = find_alerting_records(pipeline, events, session, range(len(tried.breaches)))
    assert len(found) == len(tried.breaches), "each has its verdict while its records arrive"
    times = events["event_time"].groupby(session).agg(["min", "max"]).loc[found.index]
    delay = events["event_time"].iloc[found["place"]].to_numpy() - times["min"].to_numpy()
    interval = pd.Timedelta(seconds=SETTINGS.spectral.interval_seconds)
    assert (delay <= (times["max"] - times["min"] + interval).to_numpy()).all()


@pytest.mark.xfail(strict=True, reason="what is known of a principal that is hours old is that it is new")
def test_a_newcomer_that_only_works_at_the_console_is_no_alert(tried: Tried) -> None:
    assert not [alert for alert in tried.run.alerts if alert.principal.endswith(f"user/{HARMLESS}")]


def events_of(file: Path) -> pd.DataFrame:
    """The events of a file, in its order."""
    with EventSpool(SETTINGS) as history:
        history.add_batches(files.read_sources([str(file)], SETTINGS.reading))
        return pd.concat(list(history.batches()), ignore_index=True)
