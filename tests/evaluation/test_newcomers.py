"""Newcomers in an evaluation: who begins in the judged days, and as whom attacks come."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from fingerprint.compute.hashing import hash_strings
from fingerprint.core.settings import Autoencoder, Entities, Settings
from fingerprint.evaluation.newcomers import ATTACKER_KINDS, LEAD_HOURS, NewcomerScenario
from fingerprint.sources.entities import add_entity_columns
from pipelines.cli.console import no_progress
from pipelines.evaluation.newcomers import SUPPORT_RULES, evaluate_newcomers, print_newcomers
from pipelines.evaluation.organisations import Organisation

SETTINGS = Settings(autoencoder=Autoencoder(max_epochs=1))
NOON = 1_767_614_400  # seconds


@pytest.fixture(scope="module")
def rules() -> list[dict[str, Any]]:
    small = Organisation(principals=8, days=8, attacks=4)
    return evaluate_newcomers(SETTINGS, no_progress, [3], small)["rules"]


def test_every_session_comes_as_one_of_the_kinds_under_every_rule(rules: list[dict[str, Any]]) -> None:
    assert [each["share"] for each in rules] == list(SUPPORT_RULES)
    assert all(sum(each["sessions"].values()) == 4 for each in rules)
    assert all(set(each["found"]) == set(ATTACKER_KINDS) for each in rules)


def test_the_less_is_enough_the_more_is_found_and_shown(rules: list[dict[str, Any]]) -> None:
    found = [sum(each["found"].values()) for each in rules]
    assert found == sorted(found)
    assert found[0] < found[-1]
    false = [each["newcomers_false"] for each in rules]
    assert false[0] == 0
    assert false == sorted(false)


def test_it_is_printed_with_a_row_for_each_rule(
    rules: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    print_newcomers({"rules": rules})
    assert "two of two" in capsys.readouterr().out


def played(kind: str) -> pd.DataFrame:
    """Two events of ana's, the second of them an attack of a kind, an hour after she began or much later."""
    identity = {"identity_type": "IAMUser", "account": "123456789012", "user_name": "ana"}
    rows = [
        {**identity, "event_id": name, "recipient_account": "123456789012", "service": "s3"} for name in "ab"
    ]
    text = [
        "principal_id",
        "arn",
        "invoked_by",
        "identity_provider",
        "issuer_type",
        "issuer_arn",
        "issuer_id",
    ]
    text += ["issuer_account", "issuer_name", "federated_provider", "source_identity", "behalf_user"]
    events = pd.DataFrame(rows).reindex(columns=[*rows[0], *text]).astype("str")
    times = pd.to_datetime([NOON - 86400, NOON], unit="s", utc=True).astype("datetime64[us, UTC]")
    events = add_entity_columns(events.assign(event_time=times), Entities())
    begins = pd.Series([NOON - LEAD_HOURS * 3600], index=hash_strings(events["principal"])[:1])
    return NewcomerScenario(
        begins if kind == "robbed newcomer" else begins.iloc[:0],
        pd.DataFrame({"session": ["theft"], "kind": [kind]}),
        pd.DataFrame({"event_id": ["b"], "session": ["theft"], "strength": ["quiet"]}),
    ).apply(events, Entities())


@pytest.mark.parametrize(
    ("kind", "principals"),
    [
        ("new user", ["123456789012:user/ana", "123456789012:user/svc-sync-0"]),
        ("new role", ["123456789012:user/ana", "123456789012:role/OrgAccess0"]),
        ("root", ["123456789012:user/ana", "123456789012:root"]),
        ("robbed newcomer", ["123456789012:user/ana"]),
    ],
)
def test_an_attack_comes_as_someone_new_and_who_is_robbed_has_no_history(
    kind: str, principals: list[str]
) -> None:
    assert played(kind)["principal"].tolist() == principals
