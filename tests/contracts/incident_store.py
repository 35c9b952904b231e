"""What every alert store does about incidents (`core.ports.store.IncidentRepository`). A test class gives `make_store`: a
function to a fresh, open alert store whose clock can be moved (`store.session.now.at`)."""

from __future__ import annotations

import itertools
import json
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier

import pytest

from fingerprint.core import incident_rule as rule
from fingerprint.core.alert import Alert, CredentialIssue, SurpriseDriver
from fingerprint.core.case import (
    AlertFilter,
    AlertRevision,
    AssignCase,
    ReopenCase,
    SetDisposition,
    SetStatus,
    SuppressionMatch,
    UndoDecision,
)
from fingerprint.core.errors import Conflict, FingerprintError, NotFound
from fingerprint.core.incident import IncidentFilter
from fingerprint.core.settings import Retention
from tests.support.alerts import ACCOUNT, DRIVERS, NASTY, START, event, nasty, stolen_session
from tests.support.dump_tables import dump_tables

HOUR = timedelta(hours=1)
EVERYTHING = IncidentFilter(status="all")


def alert(
    name: str, principal: str = "maria", hour: float = 0, address: str = "10.0.0.1", key: str = "", **fields
) -> Alert:
    """An alert of one call at an hour, from an address whose network the principal had never used."""
    call = event(
        int(60 * hour), "iam", "ListUsers", source_address=address, access_key=key, parameters={"of": name}
    )
    network = address.rpartition(".")[0] + ".0/24"
    return stolen_session(
        alert_id=name,
        principal=f"{ACCOUNT}:user/{principal}",
        first_event_time=call.event_time,
        last_event_time=call.event_time,
        events=(call,),
        drivers=(replace(DRIVERS[0], seen=network), *DRIVERS[1:2]),
        **fields,
    )


def fetching_alert(name: str, principal: str, hour: float = 0, *beside: SurpriseDriver) -> Alert:
    """An alert of a call that is new to its principal, and has no impact; each from an address of its own."""
    new = SurpriseDriver("action", "acm:GetCertificate", "s3:GetObject", "unseen", 10.0)
    return replace(alert(name, principal, hour, impact_of=()), drivers=(new, *beside))


def signed_in_alert(name: str, kind: str, issued: str) -> Alert:
    """An alert of one call whose caller had no key, and which issued one."""
    record = {
        "userIdentity": {"type": kind},
        "responseElements": {"credentials": {"accessKeyId": issued}},
    }
    made = alert(name, f"signed-in-{name}", 0, "10.0.0.7")
    return replace(made, events=(replace(made.events[0], raw=json.dumps(record)),))


def opening_alert(
    name: str, action: str, request: dict, response: dict | None = None, hour: float = 0, **members
) -> Alert:
    """An alert of one call that made a user or role, or let someone into one."""
    made = alert(name, f"admin-{name}", hour, "10.0.0.7")
    record = {"recipientAccountId": ACCOUNT, "requestParameters": request, "responseElements": response}
    call = replace(made.events[0], action=action, raw=json.dumps(record | members))
    return replace(made, events=(call,))


def sharing_alert(name: str, principal: str, *calls: int, hour: float = 0) -> Alert:
    """An alert of calls that another account's log has as well, by their numbers."""
    made = alert(name, principal, hour, "10.0.0.7")
    records = [json.dumps({"sharedEventID": f"7c5e1a2b-0000-4000-8000-{call:012}"}) for call in calls]
    events = tuple(
        replace(made.events[0], event_id=f"{name}{call}", raw=raw)
        for call, raw in zip(calls, records, strict=True)
    )
    return replace(made, events=events)


def issue(issued: str, by_key: str) -> CredentialIssue:
    """A call with `by_key` that issued another key."""
    return CredentialIssue(
        issued, START, f"e-{issued}", "AssumeRole", "p", "h", by_key, "10.0.0.1", "eu-west-1"
    )


def together(store) -> list[set[str]]:
    """The sets of alerts that are one incident."""
    page = store.incidents.page(EVERYTHING, "oldest", 500)
    found = [store.incidents.get(row.incident_id) for row in page.rows]
    for each in found:
        assert each.row.alerts == len(each.alerts)
        assert each.row.incident_id == each.alerts[0].row.alert_id
        assert {a.row.incident_id for a in each.alerts} == {each.row.incident_id}
        assert {a.row.incident_size for a in each.alerts} == {len(each.alerts)}
    return [{each.row.alert_id for each in whole.alerts} for whole in found]


def tables(store) -> dict[str, str]:
    dumped = dump_tables(store)
    return {name: dumped[name] for name in ("incident_alerts", "incidents", "alert_links")}


def drawn(seed: int, count: int = 16) -> tuple[list[Alert], list[CredentialIssue]]:
    """Alerts of few principals, keys and addresses within three days, and calls that issued some of the keys."""
    draw = random.Random(seed)
    alerts = [
        alert(
            f"a{at:02d}",
            draw.choice("abcdefgh"),
            draw.randrange(72),
            f"203.0.{draw.randrange(3)}.7",
            draw.choice(("", f"AKIA{draw.randrange(9)}")),
        )
        for at in range(count)
    ]
    opened = [
        opening_alert(f"o{at}", "CreateUser", {"userName": draw.choice("abcdefgh")}, hour=draw.randrange(72))
        for at in range(3)
    ]
    news = [fetching_alert(f"n{at}", draw.choice("abcdefgh"), draw.randrange(48)) for at in range(12)]
    return [*alerts, *opened, *news], [issue(f"AKIA{at}", f"AKIA{at // 2}") for at in range(1, 9)]


class IncidentContract:
    """Run by each alert store of tests/store/test_incidents.py."""

    # --- what is joined -----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("seed", range(2))
    def test_the_order_of_saves_and_where_they_are_cut_changes_nothing(self, make_store, seed, monkeypatch):
        monkeypatch.setattr(
            "fingerprint.store.incident_links.MAX_PRINCIPALS", {"access_key": 4, "address": 3}
        )
        alerts, issues = drawn(seed)
        whole = make_store()
        whole.alerts.save(alerts, credential_issues=issues)
        parts = [*alerts, *issues]
        random.Random(seed).shuffle(parts)
        one_by_one = make_store()
        for part in parts:
            own, called = ([part], []) if isinstance(part, Alert) else ([], [part])
            one_by_one.alerts.save(own, credential_issues=called)
        assert tables(one_by_one) == tables(whole)
        found = together(whole)
        assert set().union(*found) == {each.alert_id for each in alerts}
        assert 1 < len(found) < len(alerts)
        one_by_one.alerts.save(alerts[3:9])  # a repeat
        assert tables(one_by_one) == tables(whole)

    def test_an_alert_that_bridges_two_incidents_makes_them_one_with_the_older_id(self, make_store):
        store = make_store()
        store.alerts.save([alert("b", hour=0), alert("a", hour=10)])
        assert together(store) == [{"b"}, {"a"}]
        before = store.changes.newest_number()
        store.alerts.save([alert("c", hour=5)])
        assert together(store) == [{"a", "b", "c"}]
        assert [store.incidents.get(name).row.incident_id for name in ("a", "b", "c")] == ["b"] * 3
        assert {each.alert_id for each in store.changes.since(before)} == {
            "a",
            "c",
        }  # what the queue shows otherwise
        store.alerts.save([alert("0", hour=-3)])  # comes late, and is older than all
        assert store.incidents.get("b").row.incident_id == "0"
        with pytest.raises(NotFound):
            store.incidents.get("nothing")

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_of_two_records_of_one_call_the_one_with_the_callers_key_is_the_link(self, make_store, order):
        """A call from another account is recorded in both, in whichever order they come."""
        own = issue("ASIA2", "AKIA1")
        copy = replace(own, event_id="e-copy", principal="999999999999:account/AROA1", access_key="")
        store = make_store()
        store.alerts.save([alert("a", "maria", 0, key="AKIA1"), alert("b", "admin", 1, key="ASIA2")])
        for at in order:
            store.alerts.save((), credential_issues=[(own, copy)[at]])
        assert store.alerts.credential_chain("ASIA2") == [own]
        assert together(store) == [{"a", "b"}]
        [_, second] = store.incidents.get("a").alerts
        assert (second.reason, second.value) == ("credential_chain", "AKIA1")
        store.alerts.save((), credential_issues=[replace(own, event_id="e-later", access_key="AKIA9")])
        assert store.alerts.credential_chain("ASIA2") == [own]  # the first with a key stays
        assert together(store) == [{"a", "b"}]

    def test_a_part_of_a_name_finds_the_incidents_of_its_principals(self, make_store):
        store = make_store()
        store.alerts.save(
            [alert("a", "grace.moreau1", human=""), alert("b", "ci-deploy", address="10.9.0.1", human="")]
        )

        def found(text):
            return {row.principals[0] for row in store.incidents.page(IncidentFilter(principal=text)).rows}

        grace, deploy = {f"{ACCOUNT}:user/grace.moreau1"}, {f"{ACCOUNT}:user/ci-deploy"}
        assert found("moreau") == found("Grace mor") == found("grace.moreau1") == grace
        assert found(f"{ACCOUNT}:user/ci-deploy") == found("ci-*") == found("*deploy") == deploy
        assert found("s3") == found("!") == found("gracemoreau") == set()

    def test_one_name_in_many_accounts_with_a_new_action_is_one_incident(self, make_store):
        """A scanner's upgrade, from its usual addresses. Two people of one name are no roll-out, nor is what serves thieves."""

        def scanner(
            number: int, action: str = "s3:ListAccessGrants", host: int = 0, human: str = ""
        ) -> Alert:
            made = alert(f"a{number}", hour=number / 10, address=f"203.0.113.{host or 10 + number}")
            new = SurpriseDriver("action", action, "nothing yet", "unseen", 9.0)
            principal = f"{100_000_000_000 + number}:role/Audit"
            return replace(made, principal=principal, human=human, drivers=(new,))

        store = make_store()
        store.alerts.save([scanner(number) for number in range(4)])
        others = [scanner(4, "s3:GetObject"), scanner(5, human="ann"), scanner(6, human="ann", host=99)]
        store.alerts.save(others + [scanner(number, "secretsmanager:GetSecretValue") for number in (7, 8)])
        found = sorted(map(sorted, together(store)))
        assert found == [["a0", "a1", "a2", "a3"], ["a4"], ["a5"], ["a6"], ["a7"], ["a8"]]
        second = store.incidents.get("a0").alerts[1]
        shared = "role/Audit s3:ListAccessGrants"
        assert (second.reason, second.value) == ("name", shared)

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_two_records_of_one_call_in_two_accounts_are_one_incident_and_name_its_caller(
        self, make_store, order
    ):
        """However many calls they hold, saved at once or in parts, both keep the same."""
        store, most = make_store(), rule.MAX_VALUES
        called = replace(sharing_alert("a", "ann", 3, *range(50, 50 + 2 * most)), human="ann@example.com")
        theirs = f"{ACCOUNT}:account/AROAEXAMPLE"
        redacted = replace(sharing_alert("b", "x", *range(1, 4), hour=0.5), principal=theirs, human="")
        parts = [replace(called, events=called.events[at : at + most]) for at in (most, 0)] + [called]
        for at in order:
            for part in ([redacted], parts)[at]:
                store.alerts.save([part])
        whole = make_store()
        whole.alerts.save([called, redacted])
        assert tables(store) == tables(whole)
        assert together(store) == [{"a", "b"}]
        [_, second] = store.incidents.get("a").alerts
        assert (second.reason, second.value[-2:], second.with_alert) == ("shared_call", "03", "a")
        assert store.incidents.other_records("b") == [("a", called.principal, "ann@example.com")]
        assert store.incidents.other_records("a") == [("b", theirs, "")]
        assert store.incidents.other_records("nothing") == []

    def test_an_alert_that_grows_by_a_direct_call_leaves_what_a_service_rolled_out(self, make_store):
        store, aws = make_store(), "cloudformation.amazonaws.com"

        def made(account: str, path: str, hour: float) -> Alert:
            principal = f"{account}:role/stacks-exec"
            own = alert(account, hour=hour, address=aws)
            call = replace(own.events[0], event_id=f"{account}{path}", entity=f"{principal}|iam|{path}")
            return replace(own, principal=principal, human="", drivers=(), events=(call,))

        store.alerts.save([made("100000000001", "service", 0), made("100000000002", "service", 0.1)])
        assert len(together(store)) == 1
        store.alerts.save([made("100000000002", "direct", 0.2)])
        assert len(together(store)) == 2
        store.alerts.save([made("100000000002", "service", 0.1)])  # a part of it again
        assert len(together(store)) == 2

    # --- by hand ------------------------------------------------------------------------------------------------------

    def test_what_was_split_off_stays_apart_through_later_saves_until_it_is_undone(self, make_store):
        store, alerts = make_store(), [alert(f"a{at}", hour=at) for at in range(4)]
        store.alerts.save(alerts)
        edit = store.incidents.split("a0", ["a1", "a3"], "maria")
        assert together(store) == [{"a0", "a2"}, {"a1", "a3"}]
        store.alerts.save([*alerts, alert("a4", hour=4)])
        assert together(store) == [{"a0", "a2", "a4"}, {"a1", "a3"}]
        assert store.incidents.get("a3").edits[0].alert_ids == ("a1", "a3")
        assert [line.action for line in store.audit.entries("a3")] == ["incident.split"]
        store.incidents.undo(edit.edit_id, "kim")
        assert together(store) == [{"a0", "a1", "a2", "a3", "a4"}]
        assert [line.by for line in store.audit.entries("a3")] == ["kim", "maria"]
        with pytest.raises(Conflict, match="undone already"):
            store.incidents.undo(edit.edit_id, "kim")

    # --- one decision -------------------------------------------------------------------------------------------------

    def test_undo_takes_back_what_a_decision_on_an_incident_changed_and_nothing_else(self, make_store):
        store = make_store()
        store.alerts.save([alert("a0"), alert("a1", hour=1), alert("a2", hour=2)])
        store.cases.change([AlertRevision("a0", 0)], SetDisposition("benign", "a laptop"), "lead")
        store.cases.change([AlertRevision("a1", 0)], SetDisposition("true_positive", "a key"), "lead")
        seen = store.incidents.get("a0").row.revision
        decide = SetDisposition("benign", "a slip")
        changed = {each.alert_id for each in store.incidents.change("a0", seen, decide, "kim")}
        seen = store.incidents.get("a0").row.revision
        undone = store.incidents.change("a0", seen, UndoDecision(), "kim", changed)
        assert {each.alert_id for each in undone} == {"a1", "a2"}
        assert store.cases.current_decisions() == {"a0": "benign", "a1": "true_positive"}
        assert store.queue.row("a0").version == 1

    def test_an_incident_that_is_not_as_it_was_seen_is_left_whole(self, make_store):
        store = make_store()
        store.alerts.save([alert("a0"), alert("a1", hour=1)])
        seen = store.incidents.get("a0").row.revision
        store.cases.change([AlertRevision("a1", 0)], AssignCase("kim"), "kim")
        with pytest.raises(Conflict, match="kim changed it last"):
            store.incidents.change("a0", seen, SetDisposition("benign"), "maria")
        store.alerts.save([alert("a2", hour=2)])
        assert store.cases.current_decisions() == {}
        seen = store.incidents.get("a0").row.revision
        with pytest.raises(Conflict, match="alert a1: it cannot be a duplicate"):
            store.incidents.change("a0", seen, SetDisposition("duplicate", "", "a1"), "maria")
        assert store.cases.dispositions() == []  # not even of those that could have been
        assert [line.action for line in store.audit.entries()] == ["alert.assign"]

    def test_of_many_who_decide_an_incident_at_once_one_decides_all_of_it(self, make_store):
        store, begin = make_store(), Barrier(6)
        store.alerts.save([alert(f"a{at}", hour=at) for at in range(8)])
        seen = store.incidents.get("a0").row.revision

        def decide(name: str) -> bool:
            begin.wait(30)
            try:
                return len(store.incidents.change("a0", seen, SetDisposition("benign", name), name)) == 8
            except Conflict:
                return False

        with ThreadPoolExecutor(6) as pool:
            won = list(pool.map(decide, [f"analyst {at}" for at in range(6)]))
        assert sum(won) == 1
        assert {said.by for said in store.cases.dispositions()} == {f"analyst {won.index(True)}"}
        assert len(store.cases.dispositions()) == 8
        assert store.incidents.get("a0").row.open_alerts == 0

    def test_of_two_who_decide_one_alert_each_the_figures_count_both(self, make_store):
        store, begin = make_store(), Barrier(8)
        store.alerts.save([alert(f"a{at}", hour=at) for at in range(8)])

        def decide(at: int) -> bool:
            begin.wait(30)
            return store.cases.change([AlertRevision(f"a{at}", 0)], SetDisposition("benign"), "m")[0].done

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(decide, range(8)))
        assert store.incidents.get("a0").row.open_alerts == 0
        assert store.incidents.counts(EVERYTHING)["closed"] == 1

    # --- status -------------------------------------------------------------------------------------------------------

    def test_an_alert_is_in_progress_once_a_person_took_it_wrote_on_it_or_said_so(self, make_store):
        store = make_store()
        store.alerts.save([alert(f"a{at}", f"p{at}", at) for at in range(4)])
        assert store.incidents.counts(EVERYTHING) == {"open": 4, "new": 4, "in_progress": 0, "closed": 0}
        store.cases.change([AlertRevision("a0", 0)], AssignCase("kim"), "maria")
        store.cases.add_note("a1", "asked her", "maria")
        store.cases.change([AlertRevision("a2", 0)], SetStatus("in_progress"), "maria")
        rows = {row.alert_id: row for row in store.queue.page(AlertFilter("in_progress")).rows}
        assert sorted(rows) == ["a0", "a1", "a2"]
        assert rows["a1"].version == 0  # a note conflicts with nothing
        assert [row.alert_id for row in store.queue.page(AlertFilter("new")).rows] == ["a3"]
        assert store.incidents.counts(EVERYTHING)["in_progress"] == 3
        assert store.cases.change([AlertRevision("a1", 0)], SetStatus("new"), "maria")[0].version == 1
        assert store.cases.change([AlertRevision("a0", 1)], AssignCase(""), "maria")[0].done
        assert [row.alert_id for row in store.queue.page(AlertFilter("new"), "oldest").rows] == ["a1", "a3"]
        closed = store.cases.change([AlertRevision("a2", 1)], SetDisposition("benign"), "maria")[0]
        (late,) = store.cases.change([AlertRevision("a2", closed.version)], SetStatus("new"), "maria")
        assert (late.done, late.reason) == (False, "it is closed: reopen it first")
        store.cases.change([AlertRevision("a2", closed.version)], ReopenCase("undone"), "maria")
        assert store.queue.row("a2").in_progress  # as it was before the decision

    def test_an_incident_is_taken_noted_and_started_as_one(self, make_store):
        store = make_store()
        store.alerts.save([alert("a0"), alert("a1", hour=1)])
        seen = store.incidents.get("a0").row.revision
        assert len(store.incidents.change("a0", seen, AssignCase("kim"), "m")) == 2
        assert store.incidents.add_note("a0", "asked her", "kim") == 2
        entries, notes = store.incidents.activity("a1")
        assert {note.alert_id for note in notes} == {"a0", "a1"}
        assert len(entries) == 4
        row = store.incidents.get("a0").row
        assert (row.status, row.assignees) == ("in_progress", ("kim",))
        assert len(store.incidents.change("a0", row.revision, SetStatus("new"), "kim")) == 2
        with pytest.raises(FingerprintError, match="a note has"):
            store.incidents.add_note("a0", " ", "kim")

    # --- lists --------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("order", ["urgency", "newest", "oldest"])
    def test_pages_follow_each_other_and_filters_find_what_rows_say(self, make_store, order):
        store = make_store()
        store.alerts.save(
            [alert(f"a{at:02d}", f"p{at % 7}", 9 * at, urgency=10 * (at % 5)) for at in range(30)]
        )
        names = [row.incident_id for row in store.incidents.page(EVERYTHING, order, 500).rows]
        for at, name in enumerate(names[:12]):
            action = SetDisposition("benign") if at % 2 else AssignCase("kim")
            store.incidents.change(name, store.incidents.get(name).row.revision, action, "kim")
        rows = store.incidents.page(EVERYTHING, order, 500).rows
        for which in (
            EVERYTHING, IncidentFilter(), IncidentFilter("new"), IncidentFilter("in_progress"), IncidentFilter("closed"),
            IncidentFilter(assignee="kim"), IncidentFilter("all", ""), IncidentFilter("all", principal=rows[0].principals[0]),
            IncidentFilter(least_urgency=30),
        ):  # fmt: skip
            wanted = [row for row in rows if _asks_for(which, row)]
            found, following = [], None
            assert store.incidents.count(which) == len(wanted)
            while True:
                page = store.incidents.page(which, order, 8, following)
                found += page.rows
                assert page.total == len(wanted)
                if (following := page.following) is None:
                    break
            assert found == wanted
            assert len(wanted) > 0
        with pytest.raises(FingerprintError, match="no page begins there"):
            store.incidents.page(IncidentFilter(), order, 4, "nonsense")

    def test_an_incident_that_suppressions_hide_whole_is_not_listed(self, make_store):
        store = make_store()
        store.alerts.save([alert("a0", urgency=40), alert("a1", hour=1, urgency=40), alert("b0", "kim", 50)])
        now = store.session.now()
        store.suppressions.create(
            SuppressionMatch(principal=f"{ACCOUNT}:user/maria"), "a migration", now + 24 * HOUR, "maria"
        )
        assert [row.incident_id for row in store.incidents.page(EVERYTHING).rows] == ["b0"]
        assert store.incidents.counts(EVERYTHING)["new"] == store.incidents.count(EVERYTHING) == 1
        store.alerts.save(
            [alert("c0", "kim", 1.5, "203.0.113.7"), alert("a2", hour=2, address="203.0.113.7", urgency=90)]
        )
        assert [row.incident_id for row in store.incidents.page(EVERYTHING).rows] == ["a0", "b0"]

    def test_what_is_removed_leaves_its_incident(self, make_store):
        store = make_store()
        alerts = [
            alert("a0"),
            alert("b0", "kim", 1, "203.0.113.7"),
            alert("a1", hour=2, address="203.0.113.7"),
        ]
        store.alerts.save([*alerts, alert("b1", "kim", 3)])
        store.incidents.join("a0", "b0", "maria") if len(together(store)) > 1 else None
        store.retention.purge_principal(f"{ACCOUNT}:user/maria", "maria")
        assert together(store) == [{"b0", "b1"}]
        store.cases.change([AlertRevision("b0", 0)], SetDisposition("benign"), "maria")
        store.session.now.at += timedelta(days=500)
        store.retention.apply(
            Retention(record_days=0, vote_days=0, closed_alert_days=400), "maria", lambda *_: None
        )
        assert together(store) == [{"b1"}]

    def test_whatever_an_attacker_wrote_is_kept_in_an_incident(self, make_store):
        store = make_store()
        hostile = [replace(nasty(text), alert_id=f"{at:04x}") for at, text in enumerate(NASTY)]
        store.alerts.save([replace(each, events=_with_key(each)) for each in hostile])
        assert sum(map(len, together(store))) == len(NASTY)
        for text in NASTY:
            assert store.incidents.page(IncidentFilter(principal=text)).total >= 0
            with pytest.raises(FingerprintError):
                store.incidents.get(text)


class IncidentRules(IncidentContract):
    """On SQLite alone: rules that Python decides, by statements that the contract has on every database."""

    # --- what is joined -----------------------------------------------------------------------------------------------

    def test_it_says_by_what_each_alert_was_joined(self, make_store):
        store = make_store()
        store.alerts.save([alert("a", "maria", 0, key="AKIA1"), alert("b", "admin", 1, key="ASIA2")])
        assert together(store) == [{"a"}, {"b"}]
        store.alerts.save((), credential_issues=[issue("ASIA3", "AKIA1"), issue("ASIA2", "ASIA3")])
        store.alerts.save([alert("c", "kim", 2, "203.0.113.7"), alert("d", "admin", 3, "203.0.113.7")])
        alerts = store.incidents.get("a").alerts
        assert [(each.row.alert_id, each.reason, each.value, each.with_alert) for each in alerts] == [
            ("a", "first", "", ""),
            ("b", "credential_chain", "AKIA1", "a"),
            ("c", "address", "203.0.113.7", "d"),
            ("d", "principal", f"{ACCOUNT}:user/admin", "b"),
        ]

    def test_a_person_at_roles_of_several_accounts_is_one_incident(self, make_store):
        """Identity Center names the role of a permission set otherwise in each account; addresses are private here."""
        roles = ("111122223333:role/AWSReservedSSO_Audit_0a1b", "444455556666:role/AWSReservedSSO_Audit_2c3d")
        people = (f"{roles[0]}/Ann@example.com", f"{roles[1]}/ann@example.com", f"{roles[1]}/bob@example.com")
        named = zip("abcde", (*people, *roles), strict=True)
        store = make_store()
        store.alerts.save([replace(alert(name), principal=principal) for name, principal in named])
        assert sorted(map(sorted, together(store))) == [["a", "b"], ["c"], ["d"], ["e"]]
        second = store.incidents.get("a").alerts[1]
        assert (second.reason, second.value, second.with_alert) == ("person", "ann@example.com", "a")

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_a_sign_in_without_a_key_and_the_session_that_it_began_are_one_incident(self, make_store, order):
        """Another session of the same minute is not of it, nor is what a service assumes for itself."""
        store, given = make_store(), issue("ASIA2", "")
        signed_in = signed_in_alert("a", "SAMLUser", "ASIA2")
        session = alert("b", "admin", 1, "10.0.0.9", "ASIA2")
        parts = [([signed_in], []), ([session], []), ([], [given])]
        for at in order:
            store.alerts.save(parts[at][0], credential_issues=parts[at][1])
        others = [alert("c", "kim", 1, "10.0.0.8", "ASIA3"), alert("d", "leo", 1, "10.0.0.8", "ASIA4")]
        store.alerts.save([*others, signed_in_alert("e", "AWSService", "ASIA4")])
        assert sorted(map(sorted, together(store))) == [["a", "b"], ["c"], ["d"], ["e"]]
        second = store.incidents.get("a").alerts[1]
        assert (second.row.alert_id, second.reason, second.value) == ("b", "credential_chain", "ASIA2")

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_a_user_or_role_that_an_alert_made_or_opened_and_that_acts_later_is_of_its_incident(
        self, make_store, order
    ):
        key = {"accessKey": {"userName": "backup", "accessKeyId": "AKIABACKUP"}}
        parts = [
            opening_alert("a", "CreateAccessKey", {"userName": "backup"}, key),
            alert("b", "backup", 23),
            alert("c", "kim", 4, key="AKIABACKUP"),
        ]
        store = make_store()
        for at in order:
            store.alerts.save([parts[at]])
        opens = {"roleName": "deploy", "policyDocument": "{}"}
        role = replace(alert("e", hour=60), principal=f"{ACCOUNT}:role/deploy")
        store.alerts.save([opening_alert("d", "UpdateAssumeRolePolicy", opens, hour=50), role])
        assert sorted(map(sorted, together(store))) == [["a", "b", "c"], ["d", "e"]]
        members = {each.row.alert_id: each for each in store.incidents.get("a").alerts}
        assert (members["b"].reason, members["b"].value, members["b"].with_alert) == ("opened", "", "a")
        assert (members["c"].reason, members["c"].value) == ("credential_chain", "AKIABACKUP")

    def test_names_in_calls_that_failed_or_are_more_than_a_few_open_nothing(self, make_store):
        store, most = make_store(), rule.MAX_OPENED
        failed = opening_alert("a", "CreateLoginProfile", {"userName": "kim"}, errorCode="AccessDenied")
        many = [
            replace(
                opening_alert("b", "CreateLoginProfile", {"userName": f"p{at}"}).events[0], event_id=f"e{at}"
            )
            for at in range(most + 10)
        ]
        opener = replace(alert("b", "admin", 0, "10.0.0.7"), events=tuple(many))
        store.alerts.save([failed, opener, alert("k", "kim", 1)])
        store.alerts.save([alert(f"p{at:02d}", f"p{at}", 1) for at in range(most + 10)])
        assert sorted(map(len, together(store)))[-2:] == [1, most + 1]

    def test_a_new_action_of_several_principals_on_one_day_joins_them_until_one_shows_more(self, make_store):
        store, count = make_store(), rule.MIN_PRINCIPALS
        hours = [*range(count - 1), 9.5]  # the last one more than GAP_SECONDS later
        alerts = [fetching_alert(f"a{at}", f"p{at}", hour) for at, hour in enumerate(hours)]
        for each in alerts[:-1]:
            store.alerts.save([each])
        assert max(map(len, together(store))) == 1
        store.alerts.save(alerts[-1:])
        assert together(store) == [{each.alert_id for each in alerts}]
        last = store.incidents.get("a0").alerts[-1]
        assert (last.reason, last.with_alert) == ("new_action", f"a{count - 2}")
        store.alerts.save([alert("b", "p1", hour=5)])  # something else of one of them
        assert sorted(map(sorted, together(store)), key=len)[-1] == ["a1", "b"]
        store.alerts.save([fetching_alert("c", "p9", 6)])
        assert {"a0", "a2", "a3", "a4", "c"} in together(store)
        grown = fetching_alert("c", "p9", 6, replace(DRIVERS[0], seen="203.0.113.0/24"))
        store.alerts.save([replace(grown, events=(*grown.events, *alerts[0].events))])
        assert max(map(len, together(store))) == 2, "a network that is new to everyone"

    def test_the_same_few_new_actions_join_whichever_leads_unless_they_differ_or_one_serves_attackers(
        self, make_store
    ):
        def scanned(name: str, *more: str) -> Alert:
            beside = (SurpriseDriver("action", each, "nothing yet", "unseen", 10.0) for each in more)
            return fetching_alert(name, f"p-{name}", 0, *beside)

        store, count = make_store(), rule.MIN_PRINCIPALS
        upgrade = ("qbusiness:ListApplications", "iam:ListServerCertificates")
        attack = "secretsmanager:GetSecretValue"
        store.alerts.save([scanned(f"a{at}", *upgrade[:: (-1) ** at]) for at in range(count)])
        store.alerts.save([scanned("b", *upgrade, "bedrock:ListAgents"), scanned("c", *upgrade, attack)])
        store.alerts.save([scanned(f"d{at}", attack) for at in range(count)])
        joined = [each for each in together(store) if len(each) > 1]
        assert joined == [{f"a{at}" for at in range(count)}]
        shared = "acm:GetCertificate, iam:ListServerCertificates, qbusiness:ListApplications 2026-03-04"
        assert store.incidents.get("a0").alerts[1].value == shared

    def test_an_issued_key_that_many_principals_show_joins_none_of_them(self, make_store):
        store, most = make_store(), rule.MAX_PRINCIPALS["access_key"]
        store.alerts.save([alert(f"a{at}", f"p{at}", 1, key="ASIA2") for at in range(most)])
        store.alerts.save([signed_in_alert("b", "SAMLUser", "ASIA2")])
        assert max(map(len, together(store))) == 1

    def test_a_shared_call_that_too_many_principals_show_joins_none_of_them_nor_do_those_of_one_name(
        self, make_store
    ):
        """AWS writes an id for one call: any other use of it is forged, or another account's."""
        store, most = make_store(), rule.MAX_PRINCIPALS["shared_call"]
        store.alerts.save([sharing_alert(f"a{at}", f"p{at}", 7) for at in range(most + 1)])
        store.alerts.save([sharing_alert("b0", "q0", 8), sharing_alert("b1", "q1", 8, hour=2)])
        assert max(map(len, together(store))) == 1
        assert store.incidents.other_records("a0") == []

    def test_an_address_that_too_many_principals_show_joins_none_of_them(self, make_store):
        store, most = make_store(), rule.MAX_PRINCIPALS["address"]
        behind = [alert(f"a{at}", f"p{at}", at, "203.0.113.7") for at in range(most + 1)]
        store.alerts.save(behind[:most])
        assert together(store) == [{each.alert_id for each in behind[:most]}]
        store.alerts.save(behind[most:])  # and those before are parted again
        assert together(store) == [{each.alert_id} for each in behind]
        much_later = [alert(f"b{at}", f"p{at}", 1000 + at, "203.0.113.7") for at in range(2)]
        store.alerts.save(much_later)
        assert together(store)[-1] == {"b0", "b1"}

    def test_one_name_in_many_accounts_from_one_new_address_is_one_incident(self, make_store):
        """A role that is rolled out, or root: an address of so many principals joins nothing else."""

        def rolled_out(number: int, name: str = "role/Audit", address: str = "203.0.113.7", hour: float = 0):
            principal = f"{100_000_000_000 + number}:{name}"
            made = alert(f"a{number}", hour=hour + number / 10, address=address)
            return replace(made, principal=principal)

        store, count = make_store(), rule.MAX_PRINCIPALS["address"] + 4
        for number in range(count):
            store.alerts.save([rolled_out(number)])
        everywhere = {f"a{number}" for number in range(count)}
        assert together(store) == [everywhere]
        [first, second, *_] = store.incidents.get("a0").alerts
        assert (first.reason, second.reason, second.value) == ("first", "name", "role/Audit 203.0.113.7")
        store.alerts.save(
            [
                rolled_out(20, address="203.0.113.8"),
                rolled_out(21, name="role/Other"),
                rolled_out(22, hour=24),
                rolled_out(23, address="10.0.0.1"),
            ]
        )
        assert sorted(together(store), key=len) == [
            *({f"a{number}"} for number in (20, 21, 23, 22)),
            everywhere,
        ]

    def test_one_name_in_many_accounts_by_one_forwarding_service_is_one_incident(self, make_store):
        """A rollout of stacks: within an hour, of no person, and of nothing that the name's owner did directly."""
        aws = "cloudformation.amazonaws.com"

        def rolled_out(
            number: int,
            minute: int,
            name: str = "role/stacks-exec",
            source: str = aws,
            path: str = "service",
            human: str = "",
        ) -> Alert:
            principal = f"{100_000_000_000 + number}:{name}"
            made = alert(f"a{number:02}", hour=minute / 60, address=source)
            call = replace(made.events[0], entity=f"{principal}|iam|{path}")
            return replace(made, principal=principal, human=human, drivers=(), events=(call,))

        store, count = make_store(), rule.MAX_PRINCIPALS["address"] + 4
        for number in range(count):
            store.alerts.save([rolled_out(number, 50 * number)])
        everywhere = {f"a{number:02}" for number in range(count)}
        assert together(store) == [everywhere]
        second = store.incidents.get("a00").alerts[1]
        assert (second.reason, second.value) == ("service", f"role/stacks-exec {aws}")
        alone = [
            rolled_out(20, 10, name="role/Other"),
            rolled_out(21, 10, source="config.amazonaws.com"),
            rolled_out(22, 50 * count + 11),  # 61 minutes after the last
            rolled_out(23, 10, path="direct"),
            rolled_out(24, 10, source="203.0.113.7"),
            rolled_out(25, 10, human="maria.lopez@example.com"),
            rolled_out(26, 10, human="maria.lopez@example.com"),
        ]
        store.alerts.save(alone)
        assert sorted(together(store), key=len) == [
            *({each.alert_id} for each in sorted(alone, key=lambda each: each.first_event_time)),
            everywhere,
        ]

    def test_an_alert_that_grows_touches_another(self, make_store):
        store, early, late = make_store(), alert("a", hour=0), alert("b", hour=9)
        store.alerts.save([early, late])
        assert len(together(store)) == 2
        more = event(240, "iam", "CreateUser")
        store.alerts.save([replace(early, events=(*early.events, more), last_event_time=more.event_time)])
        assert together(store) == [{"a", "b"}]

    def test_an_incident_never_grows_beyond_its_bound(self, make_store, monkeypatch):
        monkeypatch.setattr("fingerprint.store.incident_groups.MAX_ALERTS", 5)
        store = make_store()
        for at in range(12):
            store.alerts.save([alert(f"a{at:02d}", hour=at)])
        assert max(map(len, together(store))) == 5
        assert sum(map(len, together(store))) == 12

    # --- by hand ------------------------------------------------------------------------------------------------------

    def test_what_was_joined_stays_together_through_later_saves_until_it_is_undone(self, make_store):
        store = make_store()
        store.alerts.save([alert("a0"), alert("a1", hour=1), alert("b0", "kim", 50), alert("b1", "kim", 51)])
        edit = store.incidents.join("a1", "b1", "maria")
        assert together(store) == [{"a0", "a1", "b0", "b1"}]
        joined = store.incidents.get("b0").alerts[2]
        assert (joined.reason, joined.with_alert) == ("hand", "a0")
        store.alerts.save([alert("b2", "kim", 52), alert("a-", hour=-1)])
        assert together(store) == [{"a-", "a0", "a1", "b0", "b1", "b2"}]
        store.incidents.undo(edit.edit_id, "maria")
        assert together(store) == [{"a-", "a0", "a1"}, {"b0", "b1", "b2"}]

    def test_splits_and_joins_that_make_no_sense_are_refused(self, make_store, monkeypatch):
        store = make_store()
        store.alerts.save([alert("a0"), alert("a1", hour=1), alert("b0", "kim", 50)])
        for chosen in ([], ["a0", "a1"]):
            with pytest.raises(FingerprintError, match="leave at least one"):
                store.incidents.split("a0", chosen, "maria")
        with pytest.raises(Conflict, match="not in this incident any more"):
            store.incidents.split("a0", ["b0"], "maria")
        with pytest.raises(FingerprintError, match="same incident already"):
            store.incidents.join("a0", "a1", "maria")
        monkeypatch.setattr("fingerprint.store.incidents.MAX_ALERTS", 2)
        with pytest.raises(FingerprintError, match="at most 2 alerts"):
            store.incidents.join("a0", "b0", "maria")
        with pytest.raises(NotFound):
            store.incidents.undo("nothing", "maria")

    # --- one decision -------------------------------------------------------------------------------------------------

    def test_a_decision_on_an_incident_is_one_on_all_its_alerts(self, make_store):
        store = make_store()
        store.alerts.save([alert("a0"), alert("a1", hour=1), alert("b0", "kim", 50)])
        seen = store.incidents.get("a1").row
        decide = SetDisposition("true_positive", "a stolen key")
        assert len(store.incidents.change("a0", seen.revision, decide, "maria")) == 2
        row = store.incidents.get("a0").row
        assert (row.status, row.open_alerts, row.decisions) == ("closed", 0, ("true_positive",))
        assert store.cases.current_decisions() == {"a0": "true_positive", "a1": "true_positive"}
        assert store.audit.entries("a1")[0].detail["incident"] == "a0"
        with pytest.raises(Conflict, match="nothing is left to change"):
            store.incidents.change("a0", row.revision, decide, "maria")
        store.alerts.save([alert("a2", hour=2)])
        grown = store.incidents.get("a0").row
        assert (grown.status, grown.open_alerts) == ("in_progress", 1)
        changed = store.incidents.change("a0", grown.revision, decide, "kim")  # the other two stand
        assert [(each.alert_id, each.version) for each in changed] == [("a2", 1)]
        open_again = store.incidents.change("a0", store.incidents.get("a0").row.revision, ReopenCase(), "kim")
        assert len(open_again) == 3


def _with_key(hostile: Alert):
    return tuple(replace(each, access_key=hostile.title) for each in hostile.events)


def _asks_for(which: IncidentFilter, row) -> bool:
    status = {"new": ("open", "new"), "in_progress": ("open", "in_progress"), "closed": ("closed",)}[
        row.status
    ]
    return (
        (which.status == "all" or which.status in status)
        and (which.assignee is None or which.assignee in (row.assignees or ("",)))
        and which.principal in ("", *row.principals)
        and row.urgency >= which.least_urgency
    )
