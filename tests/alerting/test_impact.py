"""Impact beside rarity: what counts, how much, what is never low, and that an alert that grows never becomes less urgent."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise

import pytest

from fingerprint.alerting import impact
from fingerprint.core.alert import (
    GRAVITIES,
    MINIMUM_URGENCY,
    MOVE_FEATURE,
    ActionImpact,
    AlertEvent,
    Rarity,
    SurpriseDriver,
)
from fingerprint.delivery.formats.text import impact_text
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import MAX_JUDGED_RECORDS
from fingerprint.web.formatting import impact_facts
from tests.support.alerts import event

STOP, LIST = "cloudtrail:StopLogging", "guardduty:ListDetectors"


def call(name: str, number: int = 0, error: str = "", **fields: object) -> AlertEvent:
    service, _, action = name.partition(":")
    made = event(number, service, action, error_code=error)
    return replace(made, event_id=f"{name} {number}", raw="", **fields)


def row(gravity: str = "severe", calls: int = 1, failed: int = 0, **fields: object) -> ActionImpact:
    made = ActionImpact(
        "iam:CreateUser", gravity, "creates a user", "Persistence", "T1136.003", calls, failed, True, False
    )
    return replace(made, **fields)


def test_a_new_stop_of_the_trail_counts_and_a_new_list_call_does_not() -> None:
    rows = impact.alert_impact([call(STOP), call(LIST)], {STOP, LIST}, ())
    assert [each.action for each in rows] == [STOP], "looking around is no impact"
    assert rows[0].technique == "T1562.008"
    assert impact.impact_nats(rows) == impact.GRAVITY_NATS["severe"]


def test_the_gravest_new_action_comes_first_whatever_came_first_in_time() -> None:
    events = [call("lambda:TagResource"), call("iam:CreateRole", 1), call("cloudtrail:StopLogging", 2)]
    rows = impact.alert_impact(events, {each.action_name for each in events}, ())
    assert [each.gravity for each in rows] == ["severe", "notable", "minor"]


def test_a_row_counts_calls_failures_and_names_each_resource_once() -> None:
    events = [
        call("iam:CreateUser", 0, resource="user:eve"),
        call("iam:CreateUser", 1, "AccessDenied", resource="user:eve"),
        call("iam:CreateUser", 2, "AccessDenied", resource="user:mallory"),
    ]
    [found] = impact.alert_impact(events, {"iam:CreateUser"}, ())
    assert (found.calls, found.failed, found.resources) == (3, 2, ("user:eve", "user:mallory"))
    assert found.succeeded


def test_roles_of_one_name_in_other_accounts_are_told_by_their_accounts() -> None:
    """Seven roles in seven customers' accounts read as one role."""
    events = [call("sts:AssumeRole", number, resource="role:Operator") for number in range(7)]
    accounts = {each.event_id: f"{place + 1}" * 12 for place, each in enumerate(events)}

    def texts(number: int) -> tuple[str, ...]:
        [found] = impact.alert_impact(events[:number], (), (), accounts)
        return found.resources

    assert texts(7) == ("role:Operator in 7 accounts: 111111111111, 222222222222 and 5 more",)
    assert texts(2) == ("role:Operator in 2 accounts: 111111111111, 222222222222",)
    assert texts(1) == ("role:Operator in account 111111111111",)
    [own] = impact.alert_impact(events, (), ())
    assert own.resources == ("role:Operator",)


def test_what_is_usual_from_a_usual_place_says_nothing_and_a_new_network_counts_it_in_part() -> None:
    [usual] = impact.alert_impact([call(STOP)], (), ())
    [elsewhere] = impact.alert_impact([call(STOP)], (), {f"{STOP} 0"})
    [new] = impact.alert_impact([call(STOP)], {STOP}, {f"{STOP} 0"})
    assert impact.action_nats(usual) == 0 < impact.action_nats(elsewhere) < impact.action_nats(new)
    assert impact.urgency_floor([usual]) == 0


def test_a_failed_call_counts_but_less() -> None:
    assert 0 < impact.action_nats(row(failed=1)) < impact.action_nats(row())
    assert impact.action_nats(row(calls=2, failed=1)) == impact.action_nats(row()), "one of them succeeded"


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([row()], "high"),
        ([row(failed=1)], "medium"),
        ([row(new=False, new_place=True)], "medium"),
        ([row("grave")], "medium"),
        ([row("grave", failed=1)], "low"),
        ([row(new=False)], "low"),
        ([row("notable"), row("minor")], "low"),
        ([], "low"),
    ],
)
def test_what_is_grave_and_new_is_never_low_however_usual_the_rest_is(
    rows: list[ActionImpact], word: str
) -> None:
    assert impact.urgency_floor(rows) == MINIMUM_URGENCY[word]
    assert impact.combined_urgency(0.0, rows) >= MINIMUM_URGENCY[word]
    assert impact.combined_urgency(0.0, rows, cap=70) <= 70


@pytest.mark.parametrize(
    ("program", "rarity", "floor"),
    [
        ("TruffleHog", "unseen", "high"),
        ("Boto3 kali", "unseen", "high"),
        ("Boto3 kali", "rare", "low"),
        ("Boto3 linux", "unseen", "low"),
        ("kalimera-backup linux", "unseen", "low"),
    ],
)
def test_a_program_made_for_attacks_that_is_new_is_never_below_high(
    program: str, rarity: Rarity, floor: str
) -> None:
    driver = SurpriseDriver("program", program, "aws-cli linux", rarity, 5.0)
    assert impact.urgency_floor([], [driver]) == MINIMUM_URGENCY[floor]
    assert impact.combined_urgency(0.0, [], 85, [driver]) == MINIMUM_URGENCY[floor]
    assert impact.urgency_floor([], [replace(driver, feature="version")]) == 0


def test_a_machine_that_never_moved_and_is_elsewhere_has_the_floor_of_medium() -> None:
    driver = SurpriseDriver(MOVE_FEATURE, "45.141.0.0/16", "only private, in 21 days", "unseen", 7.8)
    assert impact.urgency_floor([], [driver]) == MINIMUM_URGENCY["medium"]
    assert impact.urgency_floor([row()], [driver]) == MINIMUM_URGENCY["high"]
    assert impact.combined_urgency(0.0, [], 85, [driver]) == MINIMUM_URGENCY["medium"]
    assert impact.urgency_floor([], [replace(driver, feature="network")]) == 0


def test_without_impact_urgency_is_rarity_and_with_it_more() -> None:
    for nats in (0.0, 1.0, 5.0, 10.0, 40.0):
        alone = round(impact.urgency_from_nats(nats))
        assert impact.combined_urgency(nats, []) == alone
        assert impact.combined_urgency(nats, [row()]) >= alone
    assert impact.combined_urgency(10.0, [row()]) == round(
        impact.urgency_from_nats(10.0 + impact.GRAVITY_NATS["severe"])
    )


@pytest.mark.parametrize(
    "support",
    [row("severe", failed=1), row("severe", new=False, new_place=True), row("notable"), row("minor")],
    ids=("failed", "known", "notable", "minor"),
)
def test_what_supports_an_alert_is_listed_and_no_urgency_comes_of_it(support: ActionImpact) -> None:
    own = (row("notable", new=False, new_place=True), row("minor", action="s3:PutObject"))
    rows = impact.with_support(own, [support])
    assert [each.supporting for each in rows].count(True) == 1
    assert impact.impact_score(rows) == impact.impact_score(own)
    assert impact.combined_urgency(2.0, rows) == impact.combined_urgency(2.0, own)
    assert impact.urgency_floor(rows) == impact.urgency_floor(own) == 0
    assert impact.gravest_action([each for each in rows if each.supporting]) == ""
    assert len(impact.merge_impact([*rows, *rows])) == 3, (
        "an action's own calls and those that support stay apart"
    )


def in_bulk(*events: AlertEvent, new: tuple[str, ...] = ()) -> tuple[ActionImpact, ...]:
    return impact.alert_impact(
        events, new, (), in_bulk={each.action_name: "8 calls in an hour, none" for each in events}
    )


def test_a_read_of_data_counts_where_it_is_more_than_ever_and_from_the_usual_place_too() -> None:
    """An insider's 239 downloads, of at most 46 an hour before, had an urgency of 37 by their rarity alone."""
    download = call("s3:GetObject", resource="bucket:lake")
    assert impact.alert_impact([download], {"s3:GetObject"}, {download.event_id}) == ()
    [row] = in_bulk(download, call("s3:GetObject", 1, "AccessDenied", resource="bucket:lake"))
    assert (row.gravity, row.tactic, row.technique) == ("severe", "Collection", "T1530")
    assert row.effect == "takes stored data, more than ever in the history: 8 calls in an hour, none"
    assert (row.calls, row.failed, row.resources, row.in_bulk) == (2, 1, ("bucket:lake",), True)
    assert (row.new, row.new_place) == (False, False)
    assert impact.action_nats(row) == impact.GRAVITY_NATS["severe"]
    [denied] = in_bulk(call("s3:GetObject", 0, "AccessDenied"))
    assert 0 < impact.action_nats(denied) < impact.action_nats(row)


def test_a_secret_reads_graver_in_bulk_and_what_reads_no_data_does_not() -> None:
    usual, bulk = call("secretsmanager:GetSecretValue"), in_bulk(call("secretsmanager:GetSecretValue"))
    assert [each.gravity for each in (*impact.alert_impact([usual], (), ()), *bulk)] == ["notable", "severe"]
    assert in_bulk(call("s3:ListBuckets")) == ()
    plain = replace(
        call("ssm:GetParameter", 1), raw=json.dumps({"requestParameters": {"withDecryption": True}})
    )
    [both] = in_bulk(call("ssm:GetParameter"), plain)
    assert (both.gravity, both.calls) == ("severe", 2), "all make the bulk, whatever their requests are"
    [tagged] = in_bulk(call("lambda:TagResource"))
    assert (tagged.gravity, tagged.in_bulk) == ("minor", False)


def test_reads_in_bulk_count_once_and_stand_behind_what_was_changed() -> None:
    """Who downloads encrypted objects decrypts each."""
    download, decrypt, key = call("s3:GetObject"), call("kms:Decrypt"), call("iam:CreateAccessKey")
    once = impact.impact_nats(in_bulk(download))
    assert impact.impact_nats(in_bulk(download, decrypt)) == once
    rows = in_bulk(download, call("s3:GetObject", 1), key, new=("iam:CreateAccessKey",))
    assert [each.action for each in rows] == ["iam:CreateAccessKey", "s3:GetObject"]
    assert impact.impact_nats(rows) == once * (1 + impact.NEXT_GRAVE_ACTION_WEIGHT)
    assert [each.in_bulk for each in impact.merge_impact([*rows, *rows])] == [False, True]


def test_a_read_in_bulk_has_no_floor_for_a_fleet_may_read_a_new_secret() -> None:
    rows = in_bulk(call("secretsmanager:GetSecretValue"), new=("secretsmanager:GetSecretValue",))
    assert impact.urgency_floor(rows) == 0
    assert impact.urgency_floor([*rows, row("grave")]) == MINIMUM_URGENCY["medium"]


def test_what_supports_an_alert_counts_where_it_is_grave_new_and_succeeded() -> None:
    """A ransom whose reads are the alert and whose deletions only support it was "low, impact 0"."""
    name = "s3:DeleteObject"
    deleted = impact.alert_impact([call(name, number) for number in range(45)], {name}, ())
    read = impact.alert_impact([call("s3:GetObject")], {"s3:GetObject"}, ())
    rows = impact.with_support(read, deleted)
    assert impact.gravest_action(rows) == name
    assert impact.impact_score(rows) == impact.impact_score(deleted) > 0
    assert impact.combined_urgency(0.0, rows) == MINIMUM_URGENCY["medium"]
    assert impact.urgency_floor(impact.with_support(read, [row("severe")])) == MINIMUM_URGENCY["high"]
    assert impact.impact_nats(impact.with_support(deleted, deleted)) == impact.impact_nats(deleted), (
        "an action counts once"
    )


def test_many_deletions_by_one_that_never_deleted_are_grave() -> None:
    """What a ransom does to a bucket of backups; a few objects more or less are everyday work."""
    name = "s3:DeleteObject"
    deleted = [call(name, number) for number in range(impact.MANY_DELETIONS)]
    place = {each.event_id for each in deleted}
    [many] = impact.alert_impact(deleted, {name}, ())
    assert many.gravity == "grave"
    assert impact.combined_urgency(0.0, [many]) == MINIMUM_URGENCY["medium"]
    denied = [*deleted[1:], *(call(name, number, "AccessDenied") for number in range(100, 200))]
    copied = [replace(each, action="CopyObject") for each in deleted]
    for events, new, places in (
        (deleted[1:], {name}, place),
        (denied, {name}, place),
        (deleted, set(), place),
        (copied, {"s3:CopyObject"}, place),
    ):
        [few] = impact.alert_impact(events, new, places)
        assert few.gravity == "notable"
    tables = [replace(each, service="dynamodb", action="DeleteTable") for each in deleted]
    [emptied] = impact.alert_impact(tables, {"dynamodb:DeleteTable"}, ())
    assert emptied.gravity == "severe", "what is graver stays"


def test_deletions_of_an_alert_and_those_that_support_it_are_counted_together() -> None:
    """Fifteen that are the alert and fifteen that support it are thirty; not if they failed or are no news."""
    name, half = "s3:DeleteObject", impact.MANY_DELETIONS * 3 // 4

    def deleted(first: int, new: bool = True, error: str = "") -> tuple[ActionImpact, ...]:
        calls = [call(name, number, error) for number in range(first, first + half)]
        return impact.alert_impact(calls, {name} if new else (), ())

    for own, supporting, gravities in (
        (deleted(0), deleted(100), ["grave", "grave"]),
        (deleted(0), (), ["notable"]),
        (deleted(0), deleted(100, error="AccessDenied"), ["notable", "notable"]),
        (deleted(0, new=False), deleted(100, new=False), ["notable", "notable"]),
    ):
        both = impact.count_together(own, supporting)
        rows = impact.with_support(*both)
        assert [row.gravity for row in rows] == gravities
        assert [row.calls for row in rows] == [half] * len(rows), "each says its own number"
        floor = MINIMUM_URGENCY["medium"] if "grave" in gravities else 0
        assert impact.urgency_floor(rows) == floor
        assert impact.urgency_floor(both[0]) == floor, "the alert's own row, which its title is made of"


def test_deletions_that_were_counted_and_are_no_events_count_as_well() -> None:
    """Of 85 deletions nine are events: the others were no stranger than the hour had made them."""
    name = "s3:DeleteObject"

    def gravity(amount: int, new: bool = True, failed: int = 0) -> str:
        calls = [call(name, number, "AccessDenied" if number < failed else "") for number in range(9)]
        own = impact.alert_impact(calls, {name} if new else (), ())
        [row] = impact.count_together(own, (), {name: amount, "s3:GetObject": 5000})[0]
        assert row.calls == 9
        return row.gravity

    assert gravity(85) == "grave"
    assert gravity(impact.MANY_DELETIONS - 1) == "notable"
    assert gravity(85, new=False) == "notable"
    assert gravity(85, failed=9) == "notable"
    assert gravity(85, failed=8) == "notable", (
        "of as many as failed among the events the others failed as well"
    )
    assert gravity(85, failed=4) == "grave"


def test_of_equal_gravity_the_alerts_own_actions_come_before_what_supports_it() -> None:
    own = row("minor", failed=1, action="s3:PutObject")
    support = row("minor", calls=9, action="kms:Decrypt")
    graver = row("notable", action="lambda:DeleteFunction")
    shown = [each.action for each in impact.with_support([own], [support, graver])]
    assert shown == ["lambda:DeleteFunction", "s3:PutObject", "kms:Decrypt"]
    assert [
        each.action for each in impact.merge_impact(impact.with_support([own], [support, graver]))
    ] == shown


def test_graver_is_more_and_each_further_action_adds_less() -> None:
    by_gravity = [impact.impact_score([row(gravity)]) for gravity in GRAVITIES]
    assert by_gravity == sorted(by_gravity)
    rows = [row(action=f"iam:Create{place}") for place in range(30)]
    scores = [impact.impact_nats(rows[:many]) for many in range(6)]
    steps = [after - before for before, after in pairwise(scores)]
    assert steps == sorted(steps, reverse=True)
    assert all(step > 0 for step in steps)
    assert impact.impact_score(rows) < 100


@pytest.mark.parametrize("seed", range(10))
def test_no_event_that_joins_an_alert_makes_it_less_grave(seed: int) -> None:
    draw = random.Random(seed)
    names = [
        STOP,
        LIST,
        "iam:CreateUser",
        "iam:CreateRole",
        "s3:PutObject",
        "kms:DisableKey",
        "sts:AssumeRole",
    ]
    events = [call(draw.choice(names), number, draw.choice(["", "AccessDenied"])) for number in range(25)]
    new = {name for name in names if draw.random() < 0.6}
    places = {each.event_id for each in events if draw.random() < 0.3}
    nats = [impact.impact_nats(impact.alert_impact(events[:size], new, places)) for size in range(1, 26)]
    floors = [impact.urgency_floor(impact.alert_impact(events[:size], new, places)) for size in range(1, 26)]
    assert all(after >= before - 1e-9 for before, after in pairwise(nats))
    assert floors == sorted(floors)


def test_the_order_of_events_does_not_change_an_impact() -> None:
    events = [
        call(name, number) for number, name in enumerate([STOP, "iam:CreateUser", "iam:CreateUser", LIST])
    ]
    new = {STOP, "iam:CreateUser"}
    assert impact.alert_impact(events, new, ()) == impact.alert_impact(events[::-1], new, ())


def test_many_records_of_one_action_are_not_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    whole = SOURCE.impact_of
    monkeypatch.setattr(SOURCE, "impact_of", lambda *call: (read.append(call[2]), whole(*call))[1])
    events = [
        replace(call("s3:PutBucketPolicy", number), raw="{}") for number in range(MAX_JUDGED_RECORDS * 2)
    ]
    impact.alert_impact(events, {"s3:PutBucketPolicy"}, ())
    assert read.count("{}") == MAX_JUDGED_RECORDS


def test_a_row_counts_and_names_the_calls_whose_requests_do_the_harm() -> None:
    """A thief encrypts what is in one bucket while the owner goes on writing to another."""
    name = "s3:PutObject"
    ransom = json.dumps({"requestParameters": {"x-amz-server-side-encryption-customer-algorithm": "AES256"}})
    usual = [replace(call(name, number), raw="{}", resource="bucket:invoices") for number in range(100)]
    harm = [replace(call(name, number), raw=ransom, resource="bucket:orders") for number in range(100, 250)]
    [found] = impact.alert_impact([*usual, *harm], {name}, ())
    assert (found.gravity, found.calls, found.failed, found.resources) == (
        "severe",
        150,
        0,
        ("bucket:orders",),
    )
    denied = [replace(each, error_code="AccessDenied") for each in harm]
    [found] = impact.alert_impact([*usual, *denied], {name}, ())
    assert (found.calls, found.succeeded) == (150, False), "the owner's writes are no success of the thief's"
    [found] = impact.alert_impact(usual, {name}, ())
    assert (found.gravity, found.calls) == ("minor", 100)


@pytest.mark.parametrize(
    ("request_members", "text"),
    [
        (
            {
                "roleName": "sync",
                "policyDocument": '{"Principal": {"AWS": "arn:aws:iam::210987654321:root"}}',
            },
            "role:sync for account 210987654321",
        ),
        ({"roleArn": "arn:aws:iam::210987654321:role/ops/sync"}, "role:sync in account 210987654321"),
        ({"valuesToAdd": ["210987654321"]}, "role:sync for account 210987654321"),
        (
            {"createVolumePermission": {"add": {"items": [{"userId": "210987654321"}]}}},
            "role:sync for account 210987654321",
        ),
    ],
)
def test_what_lets_another_account_in_does_not_lie_there(
    request_members: dict[str, object], text: str
) -> None:
    raw = json.dumps({"requestParameters": request_members})
    made = replace(event(0, "iam", "UpdateAssumeRolePolicy"), resource="role:sync", raw=raw)
    [row] = impact.alert_impact([made], (), (), {made.event_id: "210987654321"})
    assert row.resources == (text,)


def trust(account: str) -> AlertEvent:
    principal = {"AWS": f"arn:aws:iam::{account}:root"}
    document = json.dumps({"Statement": [{"Effect": "Allow", "Principal": principal}]})
    request = {"roleName": "backup", "assumeRolePolicyDocument": document}
    raw = json.dumps({"recipientAccountId": "123456789012", "requestParameters": request})
    return replace(call("iam:CreateRole", resource="role:backup"), raw=raw)


def test_a_right_for_an_account_that_no_one_dealt_with_counts_in_full_by_a_known_action() -> None:
    made, stranger = trust("210987654321"), {"iam:CreateRole 0": "210987654321"}
    [known] = impact.alert_impact([made], (), (), stranger)
    assert impact.action_nats(known) == 0
    [found] = impact.alert_impact([made], (), (), stranger, new_requests={made.event_id})
    assert impact.action_nats(found) == impact.GRAVITY_NATS["severe"]
    assert found.resources == ("role:backup for account 210987654321",)


def test_all_accounts_that_a_request_lets_in_are_counted_the_one_that_it_was_judged_by_first() -> None:
    others = [f"{place:012}" for place in range(1, 13)]
    document = {"Statement": [{"Effect": "Allow", "Principal": {"AWS": others}}]}
    opened = [
        ("s3:PutBucketPolicy", "bucket:b", {"bucketPolicy": document}),
        ("servicecatalog:CreatePortfolioShare", "", {"portfolioId": "port-1", "accountId": others[0]}),
        ("s3:PutBucketPolicy", "bucket:c", {"bucketPolicy": {"Statement": [{"Principal": "*"}]}}),
    ]
    shown = []
    for name, resource, request in opened:
        raw = json.dumps({"recipientAccountId": "123456789012", "requestParameters": request})
        made = replace(call(name, resource=resource), raw=raw)
        [row] = impact.alert_impact([made], {name}, (), {made.event_id: others[-1]} if resource else {})
        shown.append(row.resources)
    assert shown == [
        ("bucket:b for 12 accounts: 000000000012, 000000000011 and 10 more",),
        ("for account 000000000001",),
        ("bucket:c in account 000000000012",),
    ]


def test_a_right_for_an_account_of_the_organisation_lets_no_outsider_in() -> None:
    made = trust("210987654321")
    gravities = []
    for own in ((), ("333333333333",), ("210987654321", "333333333333")):
        judged = [each.within(own) for each in impact.judge_calls([made])]
        [found] = impact.alert_impact([made], {"iam:CreateRole"}, (), judged=judged)
        gravities.append(found.gravity)
    assert gravities == ["severe", "severe", "notable"]


@pytest.mark.parametrize(("days", "effect"), [((1, 1), ": 1 day"), ((1, 3), "")])
def test_the_days_of_one_request_are_not_told_of_another(days: tuple[int, ...], effect: str) -> None:
    records = [
        json.dumps({"requestParameters": {"logGroupName": "a", "retentionInDays": each}}) for each in days
    ]
    events = [replace(event(0, "logs", "PutRetentionPolicy"), raw=each) for each in records]
    [row] = impact.alert_impact(events, (), ())
    assert row.effect == f"sets how long logs are kept{effect}"


@pytest.mark.parametrize(
    ("errors", "effect"),
    [
        (("Client.DryRunOperation",), ": a dry run, which is allowed"),
        (("AccessDenied",), ""),
        (("Client.DryRunOperation", ""), ""),
    ],
)
def test_a_dry_run_that_would_have_succeeded_is_said_to_be_one(errors: tuple[str, ...], effect: str) -> None:
    made = [event(0, "ec2", "RunInstances", error_code=each) for each in errors]
    calls = [replace(each, raw=json.dumps({"errorCode": each.error_code or None})) for each in made]
    [row] = impact.alert_impact(calls, (), ())
    assert row.effect == f"starts machines or models{effect}"
    assert row.dry_run is bool(effect)
    failed = bool(errors[0]) and not effect
    assert ("failed" in impact_text(row), "failed" in impact_facts(row)) == (failed, failed)
