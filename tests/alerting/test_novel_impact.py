"""What events can do by what of them is new: whose right is given to a stranger."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fingerprint.alerting import impact, novel_impact
from fingerprint.compute import hashing
from fingerprint.sources.active import SOURCE
from fingerprint.sources.cloudtrail import record_members
from fingerprint.sources.cloudtrail.impact_effects import COSTLY_MACHINES, OUTSIDE_INSTANCE
from tests.support.alerts import event as made_event


def policy_for(principal: str) -> str:
    document = {"Statement": [{"Effect": "Allow", "Principal": {"AWS": principal}}]}
    return json.dumps({"recipientAccountId": "111111111111", "requestParameters": {"bucketPolicy": document}})


def test_an_account_whose_log_was_learned_is_the_organisations_own() -> None:
    learned = hashing.hash_strings(np.array(["111111111111", "222222222222"], object))
    bank: Any = SimpleNamespace(knows_account=lambda asked: np.isin(asked, learned))
    judged = [
        SOURCE.impact_of("s3", "PutBucketPolicy", policy_for(principal))
        for principal in ("222222222222", "arn:aws:iam::333333333333:root", "*")
    ]
    assert novel_impact._own_accounts(judged, bank) == {"222222222222"}
    assert novel_impact._own_accounts(judged[1:], bank) == set()
    assert novel_impact._own_accounts([], bank) == set()


def test_a_right_is_given_to_a_stranger_where_it_is_everybodys_or_a_strange_accounts() -> None:
    other = "arn:aws:iam::222222222222:root"
    records = [policy_for("*"), policy_for(other), policy_for(other), policy_for("111111111111"), "{}"]
    frame = pd.DataFrame({"bank_version": ["1", "2", "1", "1", "2"]})
    strange = np.array([False, False, True, True, True])
    bank = SimpleNamespace(names_stranger=lambda codes: strange[codes])
    part: Any = SimpleNamespace(frame=frame, batch=SimpleNamespace(codes=np.arange(5)))
    explainer: Any = SimpleNamespace(bank_and_rows=lambda batch, rows: (bank, rows))
    judged = [SOURCE.impact_of("s3", "PutBucketPolicy", record) for record in records]
    found = novel_impact._outsider_grants(part, judged, explainer)
    assert found.tolist() == [True, False, True, False, False]
    unread = [SOURCE.impact_of("s3", "PutBucketPolicy", "")] * 5
    assert not novel_impact._outsider_grants(part, unread, explainer).any()


def test_a_record_is_read_once_to_say_what_its_call_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    whole = record_members.decode_record
    monkeypatch.setattr(
        record_members, "decode_record", lambda *asked: (read.append(asked[1]), whole(*asked))[1]
    )
    records = [policy_for(f"22222222222{place}") for place in range(3)]
    events = tuple(
        replace(made_event(place, "s3", "PutBucketPolicy"), raw=raw) for place, raw in enumerate(records)
    )
    frame = pd.DataFrame({"event_id": [each.event_id for each in events], "target_account": None})
    frame["bank_version"] = "1"
    bank = SimpleNamespace(
        names_stranger=lambda codes: codes == 1, knows_account=lambda asked: np.zeros(len(asked), bool)
    )
    part: Any = SimpleNamespace(frame=frame, batch=SimpleNamespace(codes=np.arange(3)))
    explainer: Any = SimpleNamespace(bank=bank, bank_and_rows=lambda batch, rows: (bank, rows))
    novelty: Any = SimpleNamespace(
        actions=frozenset(), networks={}, regions={}, usual_places=frozenset(), requests=frozenset()
    )
    [row] = novel_impact.find_impact(part, events, novelty, explainer)
    assert (row.gravity, row.new) == ("severe", True)
    assert sorted(read) == sorted(records)


OWN_KEY = json.dumps({"requestParameters": {"x-amz-server-side-encryption-customer-algorithm": "AES256"}})


@pytest.mark.parametrize(
    ("record", "strange", "is_new"),
    [
        (OWN_KEY, {"requests": {"event-0"}}, True),
        (OWN_KEY, {}, False),
        ("", {"requests": {"event-0"}}, False),
        (OWN_KEY, {"networks": {"event-0": "45.141.0.0/16"}}, False),
        (OWN_KEY, {"networks": {"event-0": "45.141.0.0/16"}, "regions": {"event-0": "us-west-2"}}, True),
        ("", {"networks": {"event-0": "45.141.0.0/16"}, "regions": {"event-0": "us-west-2"}}, False),
        (
            OWN_KEY,
            {
                "networks": {"event-0": "45.141.0.0/16"},
                "regions": {"event-0": "us-west-2"},
                "usual_places": {"event-0"},
            },
            False,
        ),
    ],
)
def test_harm_that_is_asked_for_as_never_before_is_new_though_the_action_is_usual(
    record: str, strange: dict[str, Any], is_new: bool
) -> None:
    """Who writes objects all day and now encrypts them with a key of its own, or from a network in a region both new."""
    named = {"networks": {}, "regions": {}, "usual_places": frozenset(), "requests": frozenset(), **strange}
    novelty: Any = SimpleNamespace(**named)
    written = replace(made_event(0, "s3", "PutObject"), event_id="event-0", raw=record)
    judged = [SOURCE.impact_of("s3", "PutObject", record)]
    found = novel_impact._new_harm([written], judged, novelty)
    assert found == ({"event-0"} if is_new else frozenset())


def test_a_grave_call_of_a_grave_action_is_not_new_by_its_parameters_alone() -> None:
    named = {"networks": {}, "regions": {}, "usual_places": frozenset(), "requests": {"event-0"}}
    novelty: Any = SimpleNamespace(**named)
    called = replace(made_event(0, "ec2", "PurchaseHostReservation"), event_id="event-0", raw="{}")
    judged = [SOURCE.impact_of("ec2", "PurchaseHostReservation", "{}")]
    assert judged[0].gravity == "grave"
    assert not novel_impact._new_harm([called], judged, novelty)


OF_INSTANCE = json.dumps({"userIdentity": {"sessionContext": {"ec2RoleDelivery": "2.0"}}})


def stolen(
    *names: str,
    raw: str = OF_INSTANCE,
    network: str = "194.36.0.0/16",
    in_bulk: Collection[str] = (),
    **more: Any,
) -> Any:
    """Return what events from a new network can do, and which of them a credential makes new."""
    events = [
        replace(
            made_event(place, *name.split(":")),
            event_id=f"event-{place}",
            raw=raw,
            scores={"autoencoder": place},
        )
        for place, name in enumerate(names)
    ]
    named = {
        "networks": dict.fromkeys((each.event_id for each in events), network),
        "actions": frozenset(),
        **dict.fromkeys(("usual_places", "usual_for_others", "ranges"), frozenset()),
        **more,
    }
    judged = [SOURCE.impact_of(each.service, each.action, "") for each in events]
    return novel_impact._used_elsewhere(events, judged, SimpleNamespace(**named), in_bulk)


def test_an_instances_credentials_from_a_new_network_are_said_once() -> None:
    """Who read them from a machine's metadata service calls from a hoster: the gravest action says so, and no other."""
    names = ("sts:GetCallerIdentity", "secretsmanager:GetSecretValue", "secretsmanager:GetSecretValue")
    found, ids = stolen(*names)
    assert [bool(each.elsewhere) for each in found] == [False, True, True]
    assert found[1].effect_in_full == (
        "reads a secret or password: with an instance's credentials, outside of its networks"
    )
    assert ids == {"event-1", "event-2"}
    found, ids = stolen("s3:ListBuckets", "iam:ListUsers", actions={"iam:ListUsers"})
    assert (found[1].technique, ids) == ("T1552.005", {"event-1"}), "of reads alone one that is new"
    found, ids = stolen("sts:GetCallerIdentity", "s3:ListBuckets")
    assert ids == {"event-1"}, "of such the strangest"
    found, ids = stolen("s3:GetObject", "s3:ListObjects", in_bulk={"s3:GetObject"})
    assert ids == {"event-1"}, "the bulk says something else"
    found, ids = stolen("cloudtrail:StopLogging")
    assert (found[0].gravity, bool(found[0].elsewhere), ids) == ("severe", True, {"event-0"})


def test_what_was_done_elsewhere_is_grave_and_its_own_effect_is_kept() -> None:
    """A cheap machine beside a costly one hid what the costly one is; a theft in bulk hid whose credential it was."""
    asked = [
        json.dumps({**json.loads(OF_INSTANCE), **machines(each)}) for each in ("t3.micro", "p5.48xlarge")
    ]
    events = [replace(made_event(place, "ec2", "RunInstances"), raw=raw) for place, raw in enumerate(asked)]
    judged = [SOURCE.used_elsewhere(raw, SOURCE.impact_of("ec2", "RunInstances", raw)) for raw in asked]
    [row] = impact.alert_impact(events, {"ec2:RunInstances"}, (), judged=judged)
    assert row.effect == f"{COSTLY_MACHINES}: {OUTSIDE_INSTANCE}"
    [row] = impact.alert_impact(events[:1], {"ec2:RunInstances"}, (), judged=judged[:1])
    assert (row.gravity, row.gravity_at_home, row.gravity_anywhere) == ("grave", "notable", "notable")
    read = replace(made_event(0, "s3", "GetObject"), raw=OF_INSTANCE)
    judged = [SOURCE.used_elsewhere(OF_INSTANCE, SOURCE.impact_of("s3", "GetObject", OF_INSTANCE))]
    bulk = {"s3:GetObject": "400 calls in an hour, at most 3"}
    [row] = impact.alert_impact([read], (), (), new_requests={read.event_id}, judged=judged, in_bulk=bulk)
    assert (row.gravity, row.in_bulk, row.is_elsewhere) == ("severe", True, True)
    assert row.effect.endswith(f"400 calls in an hour, at most 3, {OUTSIDE_INSTANCE}")
    assert impact.urgency_floor([row]) == 50
    assert impact.urgency_floor([replace(row, gravity_at_home=None)]) == 0


def test_a_read_with_an_instances_credentials_elsewhere_is_said_to_be_called_with_them() -> None:
    read = SOURCE.used_elsewhere(OF_INSTANCE, SOURCE.impact_of("sts", "GetCallerIdentity", OF_INSTANCE))
    assert read.effect_in_full == f"is called: {OUTSIDE_INSTANCE}"


def machines(kind: str) -> dict[str, Any]:
    """Return the request of RunInstances for machines of a kind."""
    return {"requestParameters": {"instanceType": kind}}


@pytest.mark.parametrize(
    "more",
    [
        {"raw": ""},
        {"raw": json.dumps({"requestParameters": {"ec2RoleDelivery": "2.0"}})},
        {"network": "secretsmanager.amazonaws.com"},
        {"network": "private"},
        {"usual_places": {"event-0"}},
        {"usual_for_others": {"event-0"}},
        {"ranges": {"event-0"}},
        {"networks": {}},
    ],
)
def test_a_call_of_another_credential_or_from_a_place_of_others_is_no_theft(more: dict[str, Any]) -> None:
    found, ids = stolen("secretsmanager:GetSecretValue", **more)
    assert (found[0].gravity, ids) == ("notable", frozenset())
