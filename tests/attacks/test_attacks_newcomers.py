"""The power "a principal hours old": real attack calls by someone whom no bank knows become alerts, and say so."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest

from fingerprint.detection.detectors.spectral import SpectralDetector
from fingerprint.detection.ensemble import NEWCOMER_THRESHOLD_SHARE
from fingerprint.sources.cloudtrail import samples
from pipelines.simulate import DEFAULT_START
from tests.support import sample_organisation

ACCOUNT = "780777584350"  # of the sample organisation
USER = {
    "type": "IAMUser",
    "principalId": "AIDANEWNEWNEWNEWNEW1",
    "arn": f"arn:aws:iam::{ACCOUNT}:user/backup-sync",
    "accountId": ACCOUNT,
    "userName": "backup-sync",
}
ROOT = {"type": "Root", "principalId": ACCOUNT, "arn": f"arn:aws:iam::{ACCOUNT}:root", "accountId": ACCOUNT}
ROLE = {
    "type": "AssumedRole",
    "principalId": "AROANEWNEWNEWNEWNEW1:audit",
    "arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/OrgAudit/audit",
    "accountId": ACCOUNT,
    "sessionContext": {
        "sessionIssuer": {
            "type": "Role",
            "arn": f"arn:aws:iam::{ACCOUNT}:role/OrgAudit",
            "accountId": ACCOUNT,
            "userName": "OrgAudit",
        }
    },
}
JOINED = "210987654321"  # an account that joined after the training
JOINED_USER = USER | {"arn": f"arn:aws:iam::{JOINED}:user/backup-sync", "accountId": JOINED}
COMERS = {
    f"{ACCOUNT}:user/backup-sync": USER,
    f"{ACCOUNT}:root": ROOT,
    f"{ACCOUNT}:role/OrgAudit": ROLE,
    f"{JOINED}:user/backup-sync": JOINED_USER,
}


# A role of a known account, as the log of the one that joined names it.
CALLER = {"type": "AWSAccount", "principalId": "AROACALLERCALLERCALL:ann@example.com", "accountId": ACCOUNT}
CALLED = f"{ACCOUNT}:account/AROACALLERCALLERCALL"
READER = USER | {
    "principalId": "AIDANEWNEWNEWNEWNEW2",
    "arn": f"arn:aws:iam::{ACCOUNT}:user/look",
    "userName": "look",
}
LOOK = f"{ACCOUNT}:user/look"
READS = 5  # successful ones in an hour, and nothing else
NEW_ROLE = "AWSReservedSSO_Support_a3b4290dfeaa7eba"


def moved_person(organisation: sample_organisation.SampleOrganisation) -> tuple[dict[str, Any], str]:
    """Return the identity of a person of Identity Center at a role where no one was before, and an address of theirs."""
    learned = map(json.loads, sample_organisation.lines_of(organisation.learned))
    calls = Counter(
        (each["userIdentity"]["arn"].split("/")[-1], each["sourceIPAddress"])
        for each in learned
        if ":assumed-role/AWSReservedSSO_" in each["userIdentity"].get("arn", "")
    )
    (person, address), _ = calls.most_common(1)[0]
    issuer = {"type": "Role", "arn": f"arn:aws:iam::{ACCOUNT}:role/{NEW_ROLE}", "accountId": ACCOUNT}
    return {
        "type": "AssumedRole",
        "principalId": f"AROANEWNEWNEWNEWNEW2:{person}",
        "arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{NEW_ROLE}/{person}",
        "accountId": ACCOUNT,
        "sessionContext": {"sessionIssuer": issuer | {"userName": NEW_ROLE}},
    }, address


def attack(identity: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """The labelled attack calls of an hour in July 2023, by someone new on the tenth day of the organisation."""
    calls = [
        each for each in samples.sample_labels(samples.ATTACK_DATASET).items() if each[1]["label"] == "attack"
    ]
    wanted = dict(calls)
    records = [each for each in samples.sample_records(samples.ATTACK_DATASET) if each["eventID"] in wanted]
    moved = datetime(DEFAULT_START.year, DEFAULT_START.month, DEFAULT_START.day, 10, tzinfo=UTC) + timedelta(
        days=sample_organisation.LEARNED
    )
    moved -= min(datetime.fromisoformat(each["eventTime"]) for each in records)
    return [
        each
        | {
            "eventID": f"{each['eventID'][:-2]}{number:02d}",
            "eventTime": f"{datetime.fromisoformat(each['eventTime']) + moved:%Y-%m-%dT%H:%M:%SZ}",
            "userIdentity": identity,
            "recipientAccountId": identity["accountId"],
        }
        for each in records
    ]


@pytest.fixture(scope="module")
def run(
    organisation: sample_organisation.SampleOrganisation, tmp_path_factory: pytest.TempPathFactory
) -> sample_organisation.Run:
    """The organisation's last days, and three principals who were never seen attacking in them."""
    folder = tmp_path_factory.mktemp("newcomers")
    calls = [each for number, who in enumerate(COMERS.values()) for each in attack(who, number)]
    reads = [
        each
        for each in attack(READER, len(COMERS))
        if each.get("readOnly") is True and not each.get("errorCode")
    ]
    calls += reads[:READS]
    person, address = moved_person(organisation)
    calls += [each | {"sourceIPAddress": address} for each in attack(person, len(COMERS) + 1)]
    calls += [each | {"recipientAccountId": JOINED} for each in attack(CALLER, len(COMERS) + 2)]
    return sample_organisation.run(
        [*organisation.new, sample_organisation.write(folder / "attack.jsonl", calls)],
        organisation.bank,
        folder,
    )


@pytest.mark.parametrize("who", COMERS)
def test_an_attack_by_a_principal_that_no_one_ever_saw_is_an_alert(
    who: str, run: sample_organisation.Run
) -> None:
    alerts = [alert for alert in run.alerts if alert.principal == who]
    assert alerts
    joined = ", nor is its account" * who.startswith(JOINED)
    assert f"; newcomer: not in the history{joined}; first seen" in alerts[0].title
    asked = any("ask who made it or uses it again" in step.text for step in alerts[0].next_steps)
    assert asked is not who.endswith(":root"), "root is not made"
    assert all(event.scores["sequence"] is None for event in alerts[0].events if "sequence" in event.scores)
    assert all(event.scores["spectral"] is not None for event in alerts[0].events), "by how others began"
    assert alerts[0].curve is None, "nothing was expected of it"


def test_the_account_of_a_caller_is_known_where_that_of_the_log_is_not(run: sample_organisation.Run) -> None:
    callers = [alert for alert in run.alerts if alert.principal == CALLED]
    assert callers
    assert "; newcomer: not in the history; first seen" in callers[0].title


def test_a_known_person_at_a_new_role_is_neither_new_nor_from_a_new_network(
    run: sample_organisation.Run, organisation: sample_organisation.SampleOrganisation
) -> None:
    (alert,) = (alert for alert in run.alerts if NEW_ROLE in alert.principal)
    assert "; newcomer: new at Support, known at " in alert.title
    assert "not in the history" not in alert.title
    assert "(new network)" not in alert.title
    [ask] = (step.text for step in alert.next_steps if step.phase == "verify")
    assert "They are judged by what others do (new at Support, known at " in ask
    assert ask.endswith("ask who gave them this access, and what for.")


def test_a_newcomer_that_only_reads_a_little_is_no_less_strange(run: sample_organisation.Run) -> None:
    """It begins as calmly as others: that is no vote against an alert."""
    (alert,) = (alert for alert in run.alerts if alert.principal == LOOK)
    z = [event.scores["spectral"] for event in alert.events]
    assert all(each is not None and each < SpectralDetector.calm_newcomer_z for each in z)
    assert len(z) <= READS


def test_what_everybody_known_did_is_judged_as_before(
    run: sample_organisation.Run, scored: sample_organisation.Run
) -> None:
    known = {
        alert.alert_id: alert
        for alert in run.alerts
        if alert.principal not in {*COMERS, LOOK, CALLED} and NEW_ROLE not in alert.principal
    }
    assert known == {alert.alert_id: alert for alert in scored.alerts}


def test_votes_on_a_newcomer_say_that_no_one_else_knew_it(run: sample_organisation.Run) -> None:
    votes = run.store.votes.read(f"{ACCOUNT}:user/backup-sync")
    assert (votes["detector"] == "spectral").any(), "its intervals are judged as well"
    votes = votes[votes["detector"] == "autoencoder"]
    assert votes["alone"].all()
    share = NEWCOMER_THRESHOLD_SHARE
    assert (
        votes["threshold"]
        .round(4)
        .eq(round(sample_organisation.SETTINGS.autoencoder.threshold * share, 4))
        .all()
    )
    assert len(votes[votes["vote"]]) > 1
    assert pd.Series(votes["level"]).isin(["peer", "generic"]).all()
