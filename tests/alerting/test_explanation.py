"""An alert explains itself: who did what, where, how unusual that is, what is usual, and what to do next."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest

from fingerprint.alerting import drivers, explanation, impact, rarity
from fingerprint.alerting.grouping import alert_ids
from fingerprint.alerting.support import Support
from fingerprint.alerting.title_facts import TitleFacts
from fingerprint.core.alert import (
    MINIMUM_URGENCY,
    ActionImpact,
    Alert,
    AlertEvent,
    StepPhase,
    SurpriseDriver,
    rarity_of,
)
from fingerprint.core.case import MIN_THRESHOLD
from fingerprint.core.incident_rule import linking_addresses, new_addresses
from fingerprint.core.settings import Alerts, Autoencoder, Settings, Voting
from fingerprint.detection.detectors import spectral
from fingerprint.registry.bank_files import open_bank
from fingerprint.sources.active import SOURCE
from tests.support import sample_organisation
from tests.support.alerts import event as made_event

INTERVAL = sample_organisation.SETTINGS.spectral.interval_seconds
GAP = sample_organisation.SETTINGS.alerts.group_gap_seconds
# Every event that a detector votes for is an alert.
EVERYTHING = Settings(
    autoencoder=Autoencoder(max_epochs=1), alerts=Alerts(threshold=MIN_THRESHOLD), voting=Voting(quorum=1)
)


@pytest.fixture(scope="module")
def stolen(scored: sample_organisation.Run, organisation: sample_organisation.SampleOrganisation) -> Alert:
    """The alert of the loudest spliced attack."""
    labels = [json.loads(line) for line in (organisation.folder / "labels.jsonl").open()]
    attack = {label["event_id"] for label in labels}
    return max(scored.alerts, key=lambda alert: len(attack & set(alert.event_ids)))


def test_the_title_says_who_did_what_and_from_where_led_by_the_gravest_new_action(stolen: Alert) -> None:
    who, called, rest = stolen.title.partition(" called ")
    assert called
    assert who.split(" (")[0] in stolen.principal
    assert rest.startswith(stolen.impact_of[0].action)
    assert stolen.impact_of[0].gravity == "severe"
    assert "(new network)" in rest
    assert len(stolen.title) <= 200
    assert stolen.principal[:12] not in stolen.title, "the account stands beside it"


def test_the_place_in_a_title_is_one_that_the_leading_action_came_from(
    scored: sample_organisation.Run,
) -> None:
    networks = 0
    for alert in scored.alerts:
        action, _, place = re.split(" called | tried ", alert.title, maxsplit=1)[1].partition(" from ")
        lead = re.split("[ ,]", action)[0]
        came = {
            event.source_address
            for event in alert.events
            if f"{event.service}:{SOURCE.plain_action(event.action)}" == lead
        }
        where = re.split("[ ,;]", place)[0]
        if "/" in where:
            networks += 1
            assert any(
                "." in each and ip_address(each) in ip_network(where) for each in came if each[:1].isdigit()
            )
        else:
            assert where in came
    assert networks


def test_the_number_of_new_actions_in_a_title_is_counted_and_not_cut(
    scored: sample_organisation.Run, organisation: sample_organisation.SampleOrganisation
) -> None:
    """Against the bank itself: each distinct action of the alert whose share at its fingerprint is zero."""
    history = {
        (record["eventSource"].split(".")[0], record["eventName"])
        for line in sample_organisation.lines_of(organisation.learned)
        if (record := json.loads(line))
    }
    counts = []
    for alert in scored.alerts:
        found = re.search(r" and ([\d,]+) other new action", alert.title)
        if not found:
            continue
        never = {(event.service, event.action) for event in alert.events} - history
        assert int(found[1]) + 1 >= len(never), "what no one ever called is new to all"
        assert int(found[1]) + 1 <= len({(event.service, event.action) for event in alert.events})
        counts.append(int(found[1]))
    assert max(counts) > drivers.MAX_DRIVERS


def test_every_new_network_is_shown_however_many_values_are_stranger(
    scored: sample_organisation.Run,
) -> None:
    """Of the loudest alerts it was cut, and with it the link by their address."""
    named = [alert for alert in scored.alerts if "(new network)" in alert.title]
    full = [alert for alert in named if len(alert.drivers) >= drivers.MAX_DRIVERS]
    assert full
    for alert in full:
        addresses = {event.source_address for event in alert.events}
        assert linking_addresses(addresses, map(asdict, alert.drivers)), alert.title


def test_a_session_name_that_the_caller_chose_never_stands_for_the_principal(
    scored: sample_organisation.Run,
) -> None:
    roles = [
        alert
        for alert in scored.alerts
        if ":role/" in alert.principal and "AWSReservedSSO" not in alert.principal
    ]
    assert roles
    for alert in roles:
        assert alert.title.startswith(alert.principal.split(":", 1)[1])


def test_what_drove_the_loss_is_shown_beside_what_is_usual(
    scored: sample_organisation.Run, stolen: Alert
) -> None:
    for alert in scored.alerts:
        most = drivers.MAX_LEADING_DRIVERS + 1  # and the most surprising new action
        led = any(impact.action_nats(row) > 0 and row.new for row in alert.impact_of)
        rest = [driver.surprise for driver in alert.drivers[most if led else 0 :]]
        assert rest == sorted(rest, reverse=True)
        for driver in alert.drivers:
            assert driver.seen
            assert driver.expected
            assert driver.rarity in ("unseen", "rare", "infrequent", "frequent")
            assert 1 <= driver.events <= len(alert.events)
            assert driver.seen not in driver.expected.split(", ")
    assert stolen.drivers[0].rarity == "unseen"
    assert any(driver.expected != "nothing yet" for driver in stolen.drivers)


def test_the_gravest_new_actions_come_first_among_the_drivers_and_the_others_follow_by_surprise(
    stolen: Alert,
) -> None:
    counted = [row.action for row in stolen.impact_of if impact.action_nats(row) > 0]
    seen = [driver.seen for driver in stolen.drivers]
    assert seen[0] in counted
    leading = [name for name in seen[: drivers.MAX_LEADING_DRIVERS] if name in counted]
    assert leading == sorted(leading, key=counted.index)
    assert all(driver.rarity == "unseen" for driver in stolen.drivers if driver.seen in leading)


def test_what_is_new_to_a_principal_may_be_usual_among_its_peers(
    scored: sample_organisation.Run, organisation: sample_organisation.SampleOrganisation
) -> None:
    bank = open_bank(organisation.bank)
    drivers = [driver for alert in scored.alerts for driver in alert.drivers]
    assert {driver.peers for driver in drivers if driver.rarity == "unseen"} > {"unseen"}
    level = bank.fingerprints["level"].to_numpy()
    assert set(level[bank.peers[bank.peers >= 0]]) == {2}
    for place in np.flatnonzero(level == 2)[:3]:
        assert bank.peers[place] == (place if bank.fingerprints["ready"].iloc[place] else -1)


@pytest.mark.parametrize(
    ("share", "rarity"),
    [(0.0, "unseen"), (0.009, "rare"), (0.01, "infrequent"), (0.099, "infrequent"), (0.1, "frequent")],
)
def test_how_rare_a_value_is_follows_its_share_of_the_history(share: float, rarity: str) -> None:
    assert rarity_of(share) == rarity


def test_urgency_grows_with_surprise_and_never_quite_reaches_a_hundred() -> None:
    nats = np.linspace(0, 400, 100)
    urgency = [impact.urgency_from_nats(each) for each in nats]
    assert urgency[0] == 0
    assert all(one < other for one, other in itertools.pairwise(urgency))
    assert urgency[-1] < 100
    assert impact.urgency_from_nats(impact.HALF_URGENCY_NATS) == pytest.approx(50)


def test_a_theft_of_secrets_says_what_was_taken_and_counts_it(stolen: Alert) -> None:
    [row] = (row for row in stolen.impact_of if row.in_bulk)
    assert row.action == "secretsmanager:GetSecretValue"
    assert stolen.title.endswith("; also secretsmanager:GetSecretValue 20 times in a minute")


def test_anyone_who_falls_back_is_less_urgent_at_most(scored: sample_organisation.Run) -> None:
    caps = [rarity.URGENCY_CAP[level] for level in ("entity", "principal", "peer", "generic")]
    assert caps == sorted(caps, reverse=True)
    assert caps[-1] < caps[0]
    for alert in scored.alerts:
        assert 0 <= alert.urgency <= rarity.URGENCY_CAP[alert.level]


def test_someone_no_one_knows_is_judged_by_everybody_and_capped(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    """The loudest attack again, by a user that was never seen: nothing can be more urgent than the generic cap."""
    labels = [json.loads(line) for line in (organisation.folder / "labels.jsonl").open()]
    attack = {label["event_id"] for label in labels}
    records = [
        record
        for line in sample_organisation.lines_of(organisation.new)
        if (record := json.loads(line))["eventID"] in attack
    ]
    no_one = {
        "type": "IAMUser",
        "accountId": "123456789012",
        "userName": "stranger",
        "accessKeyId": "AKIAEXAMPLE",
    }
    source = sample_organisation.write(
        tmp_path / "in.jsonl", [{**record, "userIdentity": no_one} for record in records]
    )
    run = sample_organisation.run([source], organisation.bank, tmp_path, EVERYTHING)
    assert run.alerts
    for alert in run.alerts:
        assert alert.level in ("peer", "generic")
        assert alert.urgency <= rarity.URGENCY_CAP[alert.level] < 100


def who(record: dict[str, Any]) -> str:
    """The user or role of a record."""
    identity = record["userIdentity"]
    return str(identity.get("sessionContext", {}).get("sessionIssuer", identity).get("arn", ""))


def test_a_network_that_many_others_use_is_no_foreign_one_and_links_no_strangers(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user calls from where most colleagues do, for the first time; another one from where no one does."""
    known = [json.loads(line) for line in sample_organisation.lines_of(organisation.learned)]
    known = [
        each for each in known if each["sourceIPAddress"][-1].isdigit() and "arn" in each["userIdentity"]
    ]
    users_of: dict[str, set[str]] = {}
    for record in known:
        network = str(ip_network(f"{record['sourceIPAddress']}/24", strict=False))
        users_of.setdefault(network, set()).add(who(record))
    usual, users = max(users_of.items(), key=lambda each: len(each[1]))
    for module in ("alerting.novelty", "core.incident_rule"):  # the organisation is a small one
        monkeypatch.setattr(f"fingerprint.{module}.MANY_PRINCIPALS", len(users) - 1)
    last = json.loads(sample_organisation.lines_of(organisation.new)[-1])
    calls = Counter(who(each) for each in known if who(each) not in users)
    [(busiest, _)] = calls.most_common(1)
    stranger = next(each for each in reversed(known) if who(each) == busiest)
    for address, said in (
        (usual.replace("0/24", "77"), "(new to it, usual for others)"),
        ("45.83.220.9", "(new network)"),
    ):
        call = {**stranger, "eventTime": last["eventTime"], "eventID": said, "sourceIPAddress": address}
        call |= {"eventSource": "cloudtrail.amazonaws.com", "eventName": "StopLogging"}
        source = sample_organisation.write(tmp_path / f"{address}.jsonl", [call])
        folder = tmp_path / address
        folder.mkdir()
        [alert] = sample_organisation.run([source], organisation.bank, folder, EVERYTHING).alerts
        assert said in alert.title
        drivers = [asdict(each) for each in alert.drivers]
        assert linking_addresses([address], drivers) == ([] if "others" in said else [address])
        assert new_addresses([address], drivers) == [address]


def test_a_grave_call_of_a_stranger_is_new_although_others_make_it(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    """A user that an intruder made calls what administrators call; nothing of it is usual of the user."""
    last = json.loads(sample_organisation.lines_of(organisation.new)[-1])
    grave = next(
        record
        for line in sample_organisation.lines_of(organisation.learned)
        if (record := json.loads(line)) and impact_of(record).gravity in ("grave", "severe")
    )
    made = {"type": "IAMUser", "accountId": "123456789012", "userName": "made", "accessKeyId": "AKIAEXAMPLE"}
    call = {**grave, "eventTime": last["eventTime"], "eventID": "made-1", "userIdentity": made}
    source = sample_organisation.write(tmp_path / "in.jsonl", [call])
    [alert] = sample_organisation.run([source], organisation.bank, tmp_path, EVERYTHING).alerts
    service = grave["eventSource"].split(".")[0]
    assert [each.action for each in alert.impact_of] == [f"{service}:{grave['eventName']}"]
    assert alert.title.startswith("user/made called ")
    assert alert.title.endswith("; newcomer: not in the history; first seen in the same hour")
    assert "not in their history" not in alert.title, "it says so already"
    assert alert.impact > 0
    assert alert.urgency >= 35, "no grave new call is low"


def test_how_long_before_an_alert_a_newcomer_was_first_seen_is_told_of_its_first_event(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    """An alert that goes on for hours said "first seen 22 hours before" of a stranger whose first event it begins with."""
    last = json.loads(sample_organisation.lines_of(organisation.new)[-1])
    made = {"type": "IAMUser", "accountId": "123456789012", "userName": "made", "accessKeyId": "AKIAEXAMPLE"}
    calls = []
    for hour in range(2):
        at = datetime.fromisoformat(last["eventTime"]) + timedelta(hours=hour)
        time = f"{at:%Y-%m-%dT%H:%M:%SZ}"
        calls.append({**last, "eventTime": time, "eventID": f"made-{hour}", "userIdentity": made})
    source = sample_organisation.write(tmp_path / "in.jsonl", calls)
    [alert] = sample_organisation.run([source], organisation.bank, tmp_path, EVERYTHING).alerts
    assert len(alert.events) == 2
    assert "first seen in the same hour" in alert.title


def impact_of(record: dict[str, Any]) -> ActionImpact:
    return SOURCE.impact_of(
        record["eventSource"].split(".")[0], record["eventName"], record.get("errorCode", "")
    )


def test_the_next_steps_contain_first_where_it_is_grave_ask_by_another_channel_and_undo_what_was_done(
    scored: sample_organisation.Run, stolen: Alert
) -> None:
    for alert in scored.alerts:
        phases = [step.phase for step in alert.next_steps]
        urgent = alert.urgency >= MINIMUM_URGENCY["high"]
        assert phases[0] == ("contain" if urgent else "verify")
        contain, verify, *later = get_args(StepPhase)
        order = [contain, verify, *later] if urgent else [verify, contain, *later]
        assert phases == sorted(phases, key=order.index)
        assert {"contain", "verify", "extent"} <= set(phases)
        [ask] = [step.text for step in alert.next_steps if step.phase == "verify"]
        assert ask.startswith("Ask ")
        assert "by telephone or in person" in ask
        assert "UTC on" in ask
        key = next((event.access_key for event in alert.events if event.access_key), None)
        commands = "\n".join(step.command for step in alert.next_steps)
        assert key is None or key in commands
    undone = [step for step in stolen.next_steps if step.phase == "undo"]
    assert any(step.command.startswith("aws ") for step in undone)


def test_urgency_combines_rarity_and_impact_and_no_grave_new_call_is_low(
    scored: sample_organisation.Run,
) -> None:
    for alert in scored.alerts:
        cap = rarity.URGENCY_CAP[alert.level]
        assert 0 <= alert.rarity <= alert.urgency <= cap
        assert alert.urgency >= min(impact.urgency_floor(alert.impact_of), cap)
        if alert.impact == 0:
            assert alert.urgency == alert.rarity
    assert any(alert.urgency > alert.rarity for alert in scored.alerts)


def test_what_supports_an_alert_and_was_new_is_listed_and_undone(scored: sample_organisation.Run) -> None:
    undone = 0
    for alert in scored.alerts:
        did = {event.action_name for event in alert.supporting_events if not event.error_code}
        rows = [row for row in alert.impact_of if row.supporting]
        assert {row.action for row in rows if row.succeeded} <= did
        counted = [row for row in rows if row.gravity in ("grave", "severe") and row.new and row.succeeded]
        own = [row for row in alert.impact_of if not row.supporting]
        assert alert.impact == impact.impact_score([*own, *counted]) >= impact.impact_score(own)
        steps = " ".join(step.text for step in alert.next_steps if step.phase == "undo")
        undone += "(unusual in the same hour)" in steps
        assert not any(event.raw for event in alert.supporting_events)
    assert undone


@pytest.mark.parametrize(
    ("error", "new", "tactics"),
    [("", True, ("Discovery", "Credential Access")), ("AccessDenied", True, ()), ("", False, ())],
    ids=("new", "failed", "known"),
)
def test_the_tactics_are_also_those_of_notable_new_calls_that_support_an_alert(
    error: str, new: bool, tactics: tuple[str, ...]
) -> None:
    """The list of secrets is the alert, and that five were read only supports it."""
    name = "secretsmanager:GetSecretValue"
    read = tuple(
        made_event(number, "secretsmanager", "GetSecretValue", error_code=error) for number in range(1, 6)
    )
    listed = (made_event(0, "ec2", "DescribeInstances"),)
    rows = impact.alert_impact(read, {name} if new else (), ())
    facts = TitleFacts(listed, (), (), (), (), supporting=read, supporting_actions=rows)
    found = SOURCE.tactics_among(explanation._telling_calls(listed, facts))
    assert {*found} == {*(tactics or ("Discovery",))}


def test_the_curve_shows_the_activity_with_its_expected_line_and_the_flagged_interval(stolen: Alert) -> None:
    curve = stolen.curve
    assert curve
    assert len(curve.counts) == len(curve.expected) >= 24
    assert curve.interval_seconds == sample_organisation.SETTINGS.spectral.interval_seconds
    flagged = [curve.start + timedelta(seconds=place * curve.interval_seconds) for place in curve.flagged]
    hour = timedelta(seconds=curve.interval_seconds)
    assert any(start <= event.event_time < start + hour for start in flagged for event in stolen.events)
    assert all(curve.counts[place] > curve.expected[place] for place in curve.flagged)


def test_attack_tactics_are_named_where_a_public_mapping_has_them(stolen: Alert) -> None:
    assert stolen.tactics
    assert len(set(stolen.tactics)) == len(stolen.tactics)


def test_an_alert_carries_its_events_as_aws_wrote_them(stolen: Alert) -> None:
    assert [event.event_time for event in stolen.events] == sorted(
        event.event_time for event in stolen.events
    )
    for event in stolen.events:
        record = json.loads(event.raw)
        assert record["eventID"] == event.event_id
        assert record["eventName"] == event.action
    stopped = [event.resource.partition(":")[0] for event in stolen.events if event.action == "StopLogging"]
    assert {*stopped} == {"trail"}, "whose records have a `name`"


# --- windows --------------------------------------------------------------------------------------------------------


def test_verdicts_of_one_principal_without_a_gap_are_one_alert(scored: sample_organisation.Run) -> None:
    ends: dict[str, list[tuple[datetime, datetime]]] = {}
    for alert in scored.alerts:
        assert alert.window_start.timestamp() % INTERVAL == 0
        assert alert.window_start <= alert.first_event_time <= alert.last_event_time
        times = [event.event_time for event in alert.events]
        assert all(after - before < timedelta(seconds=GAP + INTERVAL) for before, after in pairwise(times))
        ends.setdefault(alert.principal, []).append((alert.first_event_time, alert.last_event_time))
    for spans in ends.values():
        assert all(
            after[0] - before[1] > timedelta(seconds=GAP - INTERVAL)
            for before, after in pairwise(sorted(spans))
        )


def test_an_attack_across_a_fixed_hour_is_one_alert_and_one_after_a_gap_is_another() -> None:
    noon = datetime(2026, 3, 4, 12, tzinfo=UTC)
    minutes = [-1, 1, 1 + GAP // 60, 1 + GAP // 60 + 61 + GAP // 60, 1]
    frame = pd.DataFrame(
        {
            "event_time": pd.Series([noon + timedelta(minutes=each) for each in minutes]).astype(
                "datetime64[us, UTC]"
            ),
            "principal": ["a", "a", "a", "a", "b"],
        }
    )
    before, after, later, next_one, other = alert_ids(frame, np.ones(5, bool), sample_organisation.SETTINGS)
    assert before == after == later
    assert len({before, next_one, other}) == 3
    some = alert_ids(frame, np.array([False, True, False, False, False]), sample_organisation.SETTINGS)
    assert some.notna().tolist() == [False, True, False, False, False]


def test_evidence_is_a_union_that_grows(
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    stolen: Alert,
    tmp_path: Path,
) -> None:
    """The attack's window cut in two files with a scorer state: the alert keeps its id and ends with all its events."""
    lines = sample_organisation.lines_of(organisation.new)
    cut = f"{stolen.events[len(stolen.events) // 2].event_time:%Y-%m-%dT%H:%M:%SZ}"
    before = sample_organisation.write(
        tmp_path / "a.jsonl", [line for line in lines if json.loads(line)["eventTime"] < cut]
    )
    after = sample_organisation.write(
        tmp_path / "b.jsonl", [line for line in lines if json.loads(line)["eventTime"] >= cut]
    )
    sample_organisation.run([before], organisation.bank, tmp_path, scorer_state=tmp_path / "scorer_state")
    early = {
        alert.alert_id: alert
        for alert in sample_organisation.open_store(f"sqlite:///{tmp_path}/alerts.sqlite").alerts.by_urgency()
    }
    late = {
        alert.alert_id: alert
        for alert in sample_organisation.run(
            [after], organisation.bank, tmp_path, scorer_state=tmp_path / "scorer_state"
        ).alerts
    }
    whole = {alert.alert_id: alert for alert in scored.alerts}
    assert set(early) <= set(late)
    for name, alert in early.items():
        assert set(alert.event_ids) <= set(late[name].event_ids)
        assert alert.urgency <= late[name].urgency
    assert set(late[stolen.alert_id].event_ids) <= set(whole[stolen.alert_id].event_ids)
    assert len(late[stolen.alert_id].events) > len(early[stolen.alert_id].events)
    assert late[stolen.alert_id].first_event_time == stolen.first_event_time


def test_a_shorter_length_makes_more_alerts_of_the_same_verdicts(
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fingerprint.alerting.grouping.MAX_ALERT_SECONDS", 600)
    run = sample_organisation.run(organisation.new, organisation.bank, tmp_path)
    assert run.figures["verdicts"] == scored.figures["verdicts"]
    assert run.figures["alerts"] > scored.figures["alerts"]
    everything = {event for alert in scored.alerts for event in alert.event_ids}
    assert {event for alert in run.alerts for event in alert.event_ids} == everything


def test_every_channel_has_a_name_an_analyst_can_read() -> None:
    assert all(name.replace(" ", "").isalpha() for name in spectral.CHANNEL_LABELS.values())


def test_a_user_of_identity_center_has_the_name_that_a_sign_in_of_the_alert_says() -> None:
    """The title, the question and "behind it" gave an id; the person's alert at a role stood next to it."""
    uuid = "88af1797-f069155b-f27b-423f-b495-7a9476cc1291"
    raw = json.dumps({"additionalEventData": {"UserName": "ann@example.com"}})
    listed, signed_in = made_event(0, "sso", "Federate"), made_event(1, "signin", "CredentialVerification")
    listed, signed_in = replace(listed, raw="{}"), replace(signed_in, raw=raw)

    def human(name: str, *beside: AlertEvent) -> str:
        frame = pd.DataFrame({"principal": [f"123456789012:{name}"], "human": [uuid]})
        [found] = explanation._find_humans(frame, [listed], Support(beside))
        return found

    assert human(f"identitycenter/{uuid}", signed_in) == "ann@example.com"
    assert human(f"identitycenter/{uuid}", replace(signed_in, raw=raw.replace("@", ""))) == uuid
    assert human(f"identitycenter/{uuid}") == uuid
    assert human("user/grace", signed_in) == uuid, "who sends a record of another kind names no one by it"


def test_a_call_on_another_account_names_it(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    last = json.loads(sample_organisation.lines_of(organisation.new)[-1])
    call = {
        **last,
        "eventID": "assumed-1",
        "eventSource": "sts.amazonaws.com",
        "eventName": "AssumeRole",
        "userIdentity": {
            "type": "IAMUser",
            "accountId": "123456789012",
            "userName": "made",
            "accessKeyId": "AKIA",
        },
        "requestParameters": {"roleArn": "arn:aws:iam::222222222222:role/Operator", "roleSessionName": "x"},
        "resources": None,
    }
    source = sample_organisation.write(tmp_path / "in.jsonl", [call])
    [alert] = sample_organisation.run([source], organisation.bank, tmp_path, EVERYTHING).alerts
    [row] = alert.impact_of
    assert row.resources == ("role:Operator in account 222222222222",)


def test_an_origin_is_new_by_its_network_or_tool_and_not_by_another_range_of_a_known_network() -> None:
    facts = TitleFacts((), (), (), (), ())
    found = replace(facts, new_networks={"e1": "203.0.0.0/16"})
    tool = SurpriseDriver("program", "kali", "Boto3", "unseen", 4.0)
    assert not explanation._has_new_origin(facts)
    assert explanation._has_new_origin(found)
    assert not explanation._has_new_origin(replace(found, new_ranges={"e1"}))
    assert explanation._has_new_origin(replace(facts, drivers=(tool,)))
    assert not explanation._has_new_origin(replace(facts, drivers=(replace(tool, rarity="rare"),)))
