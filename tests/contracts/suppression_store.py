"""What every alert store does between an alert and its reader: suppressions, prevalence, retention, redaction, purge. A test
class gives `make_guarded`: a function to a fresh, open alert store whose clock can be moved, with what else `open_store`
takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from fingerprint.alerting.prevalence import MAX_COUNTED_OTHERS
from fingerprint.alerting.suppression import MIN_ATTACKER_CONTROLLED_LENGTH
from fingerprint.core.alert import MINIMUM_URGENCY, Alert, CredentialIssue, SurpriseDriver
from fingerprint.core.case import AlertFilter, AlertRevision, SetDisposition, SuppressionMatch
from fingerprint.core.errors import Conflict, FingerprintError, NotFound
from fingerprint.core.sanitize import storable
from fingerprint.core.settings import Retention
from fingerprint.store import retention, schema
from tests.support.alerts import ACCOUNT, IMPACT_OF, NASTY, event, nasty, new_pipeline, stolen_session, votes
from tests.support.dump_tables import dump_tables

NOW = datetime(2026, 3, 6, 9, tzinfo=UTC)
DAY = timedelta(days=1)
ECS = SuppressionMatch(service="ecs")
FOR_EVER = Retention(record_days=0, vote_days=0, closed_alert_days=0)

MATCHES = (  # and whether each hides the pipeline
    (SuppressionMatch(principal=new_pipeline().principal), True),
    (SuppressionMatch(account=ACCOUNT, action="UpdateService"), True),
    (SuppressionMatch(action="ecs:UpdateService", network="10.3.1.8"), True),
    (SuppressionMatch(principal=new_pipeline().principal, user_agent="Boto3/1.34"), True),
    (SuppressionMatch(account=ACCOUNT, network="10.3.0.0/16", user_agent="Boto3/1.34"), True),
    (SuppressionMatch(principal=new_pipeline().principal, user_agent="Boto3/1.35"), False),
    (SuppressionMatch(service="ecs", network="10.4.0.0/16"), False),
    (SuppressionMatch(principal=new_pipeline().principal, error_code="AccessDenied"), False),
    (SuppressionMatch(service="ec_"), False),
    (SuppressionMatch(principal=new_pipeline().principal, user_agent="%%%%%%%%"), False),
)
PIPELINE = new_pipeline().principal
UNKNOWN = (  # matches that hide nothing, and the values that no alert has, with those that were meant
    (SuppressionMatch(principal=PIPELINE.partition(":")[2]), [("principal", (PIPELINE,))]),
    (SuppressionMatch(principal="CI-Deploy"), [("principal", (PIPELINE,))]),
    (SuppressionMatch(principal="maria.lopez@example.com"), [("principal", (stolen_session().principal,))]),
    (
        SuppressionMatch(principal=PIPELINE, human="Maria.Lopez"),
        [("human", ("maria.lopez@example.com",))],
    ),
    (SuppressionMatch(account="444455556666"), [("account", ())]),
    (SuppressionMatch(service="ECS"), [("service", ("ecs",))]),
    (SuppressionMatch(service="ec_"), [("service", ())]),
    (SuppressionMatch(action="updateservice"), [("action", ("UpdateService",))]),
    (SuppressionMatch(action="ECS:updateservice"), [("action", ("ecs:UpdateService",))]),
    (SuppressionMatch(network="10.4.0.0/16"), [("network", ())]),
    (SuppressionMatch(principal=PIPELINE, network="185.220.101.0/24"), []),
    (SuppressionMatch(principal=PIPELINE, user_agent="boto3/1."), [("user_agent", ("Boto3/1.34.60",))]),
    (SuppressionMatch(principal=PIPELINE, error_code="NoSuchBucket"), [("error_code", ())]),
    (
        SuppressionMatch(service="ecs", action="UpdateService", account=ACCOUNT, network="10.9.9.9"),
        [("network", ())],
    ),
)
NEVER = (
    (SuppressionMatch(), "why", NOW + DAY),
    (SuppressionMatch(network="0.0.0.0/0"), "why", NOW + DAY),
    (SuppressionMatch(network="10.0.0.0/99"), "why", NOW + DAY),
    (ECS, " ", NOW + DAY),
    (ECS, "why", NOW),
    (ECS, "why", NOW + 400 * DAY),
    (SuppressionMatch(user_agent="B"), "why", NOW + DAY),
    (SuppressionMatch(user_agent="Boto3/1.34"), "why", NOW + DAY),
)


@dataclass
class Moving:
    """A clock that someone moves."""

    at: datetime = NOW

    def __call__(self) -> datetime:
        return self.at


def seen(store, suppressed: bool = False) -> list[str]:
    page = store.queue.page(AlertFilter(status="all", suppressed=suppressed))
    assert page.total == len(page.rows)
    return [row.alert_id for row in page.rows]


def grown(alert: Alert, **fields: object) -> Alert:
    """The alert with one event more, which is different."""
    other = event(250, "secretsmanager", "GetSecretValue", source_address="185.220.101.34", **fields)
    return replace(alert, events=(*alert.events, other), last_event_time=other.event_time)


def rolled_out(number: int, hours: float = 0.0, **fields: object) -> Alert:
    """The alert of one of many who got a new tool."""
    base = new_pipeline()
    drivers = (SurpriseDriver("program version", "aws-cli 9.0", "aws-cli 8.9", "unseen", 10.0, 3),)
    moment = base.first_event_time + timedelta(hours=hours)
    own = {"alert_id": f"{number:016x}", "principal": f"{ACCOUNT}:user/{number}", "drivers": drivers}
    end = moment + timedelta(minutes=5)
    own |= {"window_start": moment, "first_event_time": moment, "last_event_time": end}
    return replace(base, **own | fields)


def urgencies(store) -> dict[str, tuple[int, int, int]]:
    rows = store.queue.page(AlertFilter(status="all")).rows
    return {row.alert_id: (row.urgency, row.own_urgency, row.sharing) for row in rows}


def close(store, alerts: Sequence[Alert], change: SetDisposition) -> None:
    chosen = [AlertRevision(each.alert_id, store.queue.row(each.alert_id).version) for each in alerts]
    assert all(outcome.done for outcome in store.cases.change(chosen, change, by="maria"))


class GuardContract:
    """Run by each alert store of tests/store/test_suppressions.py."""

    # --- suppressions -------------------------------------------------------------------------------------------------

    def test_a_preview_that_hides_nothing_names_values_that_no_alert_has_and_what_was_meant(
        self, make_guarded
    ):
        store = make_guarded()
        store.alerts.save([new_pipeline(), stolen_session()])
        for match, expected in UNKNOWN:
            preview = store.suppressions.preview(match)
            assert preview.alerts == 0, match
            assert [(each.field, each.similar) for each in preview.unknown] == expected, match

    def test_a_preview_that_hides_something_knows_every_value(self, make_guarded):
        store = make_guarded()
        store.alerts.save([new_pipeline()])
        for match in (match for match, hides in MATCHES if hides):
            assert store.suppressions.preview(match).unknown == ()

    def test_what_is_hidden_stays_on_the_store_and_its_votes_are_untouched(self, make_guarded):
        store, alert = make_guarded(), new_pipeline()
        store.alerts.save([alert], votes(alert))
        before = dump_tables(store)
        store.suppressions.create(ECS, "the move to ECS", NOW + DAY, by="maria")
        store.alerts.save([alert], votes(alert))
        after = dump_tables(store)
        assert {name for name in after if after[name] != before[name]} == {
            "suppressions",
            "suppression_hits",
            "audit",
            "alert_changes",
            "change_counter",
        }
        assert store.alerts.get(alert.alert_id) == alert
        assert len(store.votes.read(principal=alert.principal)) == 3
        assert store.queue.counts(AlertFilter())["suppressed"] == 1

    def test_an_alert_that_outgrew_its_suppression_is_seen_again(self, make_guarded):
        store, alert = make_guarded(), new_pipeline()
        store.alerts.save([alert])
        made = store.suppressions.create(ECS, "the move to ECS", NOW + DAY, by="maria")
        assert seen(store) == []
        store.alerts.save([grown(alert)])
        assert seen(store) == [alert.alert_id]
        assert store.suppressions.get(made.suppression_id).hits == 1
        store.alerts.save([alert])  # a run that saw less: the evidence is what it was
        assert seen(store) == [alert.alert_id]

    def test_two_suppressions_hide_what_either_would(self, make_guarded):
        store = make_guarded()
        store.alerts.save([new_pipeline()])
        one = store.suppressions.create(ECS, "the move to ECS", NOW + DAY, by="maria")
        other = store.suppressions.create(
            SuppressionMatch(network="10.3.0.0/16"), "the new office", NOW + 2 * DAY, by="maria"
        )
        assert store.queue.row(new_pipeline().alert_id).suppressed_by == other.suppression_id
        store.suppressions.end(other.suppression_id, 1, by="maria")
        assert store.queue.row(new_pipeline().alert_id).suppressed_by == one.suppression_id
        store.suppressions.end(one.suppression_id, 1, by="maria")
        assert seen(store) == [new_pipeline().alert_id]

    def test_every_suppression_and_its_end_are_audited_without_names_of_people(self, make_guarded):
        store, alert = make_guarded(), stolen_session()
        store.alerts.save([alert])
        match = SuppressionMatch(principal=alert.principal, human=alert.human, action="iam:ListUsers")
        made = store.suppressions.create(match, "her quarterly review", NOW + DAY, by="maria")
        store.suppressions.end(made.suppression_id, 1, by="omar")
        ended, created = store.audit.entries(made.suppression_id)
        assert (created.action, created.by, created.at) == ("suppression.create", "maria", NOW)
        assert (ended.action, ended.by) == ("suppression.end", "omar")
        assert (created.detail["match"]["action"], created.detail["reason"]) == (
            "iam:ListUsers",
            "her quarterly review",
        )
        assert "lopez" not in json.dumps(created.detail)

    def test_what_lay_there_and_what_comes_is_matched_alike(self, make_guarded):
        """By the database's first look and the exact one after it, or by the exact one alone."""
        before, after = make_guarded(), make_guarded()
        before.alerts.save([new_pipeline(), stolen_session()])
        for match, hides in MATCHES:
            made = [
                store.suppressions.create(match, "why not", NOW + DAY, by="maria")
                for store in (before, after)
            ]
            after.alerts.save([new_pipeline(), stolen_session()])
            expected = [new_pipeline().alert_id] if hides else []
            assert seen(before, suppressed=True) == seen(after, suppressed=True) == expected, match
            for store, each in zip((before, after), made, strict=True):
                store.suppressions.end(each.suppression_id, each.version, by="maria")
            after.retention.purge_principal(new_pipeline().principal, by="maria")
            after.retention.purge_principal(stolen_session().principal, by="maria")

    def test_whatever_an_attacker_wrote_is_matched_as_text_and_as_nothing_more(self, make_guarded):
        store, texts = make_guarded(), [each for each in NASTY if each.strip() and len(each) < 4_000]
        alerts = [replace(nasty(text), alert_id=f"{number:016x}") for number, text in enumerate(texts)]
        store.alerts.save([*alerts, new_pipeline()])
        for alert, text in zip(alerts, texts, strict=True):
            written = text if len(storable(text).strip()) >= MIN_ATTACKER_CONTROLLED_LENGTH else ""
            match = SuppressionMatch(principal=text, service=text, error_code=written, user_agent=written)
            made = store.suppressions.create(match, text, NOW + DAY, by=text, force=text)
            assert seen(store, suppressed=True) == [alert.alert_id]
            assert (made.match.principal, made.owner) == (storable(text), storable(text))
            store.suppressions.end(made.suppression_id, made.version, by="maria")

    def test_a_bulk_of_alerts_is_looked_at_whole(self, make_guarded, monkeypatch):
        """More than one statement takes."""
        monkeypatch.setattr(schema.id_batches, "__defaults__", (5,))
        store = make_guarded()
        alerts = [new_pipeline(alert_id=f"{number:016x}") for number in range(18)]
        store.alerts.save(alerts[:11])
        store.suppressions.create(ECS, "the move to ECS", NOW + DAY, by="maria")
        store.alerts.save(alerts[11:])
        assert store.suppressions.list_all()[0].hits == 18
        assert store.queue.counts(AlertFilter())["suppressed"] == 18

    # --- shared surprises ---------------------------------------------------------------------------------------------

    def test_what_a_few_others_show_within_a_day_is_less_urgent_for_all_of_them(self, make_guarded):
        store = make_guarded()
        alerts = [rolled_out(number, hours=5 * number) for number in range(4)]
        for alert in alerts[:3]:
            store.alerts.save([alert])
        assert set(urgencies(store).values()) == {(38, 38, 2)}
        store.alerts.save([alerts[3]])
        assert set(urgencies(store).values()) == {(28, 38, 3)}
        assert store.prevalence.of_alert(alerts[0].alert_id) == [("program version", "aws-cli 9.0", 3)]

    def test_the_alert_itself_keeps_its_urgency_and_no_vote_changes(self, make_guarded):
        store = make_guarded()
        alerts = [rolled_out(number) for number in range(6)]
        store.alerts.save(alerts, votes(alerts[0]))
        assert {row.own_urgency for row in store.queue.page(AlertFilter()).rows} == {38}
        assert store.alerts.by_urgency() == alerts
        assert len(store.votes.read()) == 3

    def test_an_alert_that_grew_past_what_it_shared_is_as_urgent_as_it_is(self, make_guarded):
        store, alerts = make_guarded(), [rolled_out(number) for number in range(5)]
        store.alerts.save(alerts)
        own = SurpriseDriver("action", "iam:CreateAccessKey", "nothing yet", "unseen", 10.5, 1)
        newest = store.changes.newest_number()
        store.alerts.save([replace(grown(alerts[0]), drivers=(own, *alerts[0].drivers), urgency=70)])
        assert urgencies(store)[alerts[0].alert_id] == (70, 70, 0)
        assert urgencies(store)[alerts[1].alert_id] == (26, 38, 4)
        assert [each.alert_id for each in store.changes.since(newest)] == [alerts[0].alert_id]

    def test_anyone_who_judges_while_alerts_come_in_leaves_every_urgency_as_it_should_be(self, make_guarded):
        store, alerts = make_guarded(), [rolled_out(number) for number in range(24)]
        store.alerts.save(alerts[:4])
        words = ("true_positive", "benign", "true_positive", "false_positive", "true_positive")
        with ThreadPoolExecutor(2) as pool:
            saving = pool.submit(lambda: [store.alerts.save([alert]) for alert in alerts[4:]])
            judging = pool.submit(lambda: [close(store, alerts[:1], SetDisposition(word)) for word in words])
            saving.result(60), judging.result(60)
        shown = urgencies(store)
        assert shown.pop(alerts[0].alert_id) == (19, 38, MAX_COUNTED_OTHERS)
        assert set(shown.values()) == {(38, 38, 0)}

    # --- retention ----------------------------------------------------------------------------------------------------

    def test_records_go_before_their_alert_and_the_store_knows_when(self, make_guarded):
        clock, alert = Moving(), stolen_session()
        store = make_guarded(now=clock)
        store.alerts.save([replace(alert, events=alert.events[:4])])
        clock.at = NOW + DAY
        store.alerts.save([alert, new_pipeline()])
        clock.at = NOW + 30 * DAY + timedelta(seconds=1)
        removed = store.retention.apply(
            Retention(record_days=30, vote_days=0, closed_alert_days=0), by="retention"
        )
        assert removed == {"records": 4}
        assert [bool(each.raw) for each in store.alerts.get(alert.alert_id).events] == [False] * 4 + [
            True
        ] * 5
        assert store.evidence.records_removed_at(alert.alert_id) == clock.at
        assert store.evidence.records_removed_at(new_pipeline().alert_id) is None
        assert store.queue.row(alert.alert_id).accounts == (ACCOUNT,)

    def test_a_store_that_receives_rows_removes_what_is_old_and_goes_on_when_its_stream_stops(
        self, make_guarded
    ):
        clock, alert, kept = Moving(), stolen_session(), Retention(record_days=30, vote_days=30)
        store = make_guarded(now=clock)
        store.alerts.save([alert], votes(alert))
        clock.at = NOW + 20 * DAY
        store.alerts.save([new_pipeline()])
        clock.at = NOW + 31 * DAY
        assert store.retention.paused_since(kept) is None
        assert store.retention.apply(kept, by="program:retention") == {"records": 9, "votes": 9}
        clock.at = NOW + 60 * DAY
        assert store.retention.paused_since(kept) is None
        assert store.retention.apply(kept, by="program:retention") == {"records": 3}

    def test_who_began_a_session_goes_with_the_votes(self, make_guarded):
        clock = Moving()
        store = make_guarded(now=clock)
        began = [
            CredentialIssue(f"ASIA{day}", NOW + day * DAY, "e", "AssumeRole", "p", "", "", "", "")
            for day in range(9)
        ]
        for day, each in enumerate(began):
            clock.at = NOW + day * DAY
            store.alerts.save(credential_issues=[each])
        clock.at = NOW + 9 * DAY
        assert store.retention.apply(
            Retention(record_days=0, vote_days=5, closed_alert_days=0), by="retention"
        ) == {"credential_issues": 4}
        assert [bool(store.alerts.credential_chain(each.issued_key)) for each in began] == [False] * 4 + [
            True
        ] * 5

    def test_an_original_stays_as_long_as_a_duplicate_of_it(self, make_guarded):
        """Or what was decided of the duplicate would be open again."""
        clock, old, young = Moving(), new_pipeline(), stolen_session()
        store = make_guarded(now=clock)
        store.alerts.save([old])
        clock.at = NOW + 100 * DAY
        store.alerts.save([young])
        close(store, [old], SetDisposition("benign"))
        close(store, [young], SetDisposition("duplicate", duplicate_of=old.alert_id))
        kept = Retention(record_days=0, vote_days=0, closed_alert_days=30)
        clock.at = NOW + 110 * DAY
        assert store.retention.apply(kept, by="retention") == {}
        clock.at = NOW + 131 * DAY
        assert store.retention.apply(kept, by="retention") == {"alerts": 2}
        assert store.alerts.by_urgency() == []

    # --- purge --------------------------------------------------------------------------------------------------------

    def test_a_purge_leaves_nothing_that_names_the_principal_and_all_that_is_of_others(self, make_guarded):
        store, hers, other = make_guarded(), stolen_session(), new_pipeline()
        store.alerts.save([other], votes(other))
        before = dump_tables(store)
        began = CredentialIssue(
            "ASIAHERS", NOW, "e1", "AssumeRole", hers.principal, hers.human, "", "185.220.101.34", "eu-west-1"
        )
        store.alerts.save([hers, replace(hers, alert_id="second")], [*votes(hers), *votes(hers, "spectral")])
        store.alerts.save(credential_issues=[began])
        store.cases.add_note(hers.alert_id, "called her", by="omar")
        close(store, [hers], SetDisposition("true_positive", "stolen"))
        store.suppressions.create(
            SuppressionMatch(principal=hers.principal), "on leave", NOW + DAY, by="omar", force="a drill"
        )
        removed = store.retention.purge_principal(hers.principal, by="omar")
        assert (removed["alerts"], removed["votes"], removed["alert_events"]) == (2, 18, 18)
        assert (
            removed["notes"],
            removed["dispositions"],
            removed["suppressions"],
            removed["credential_issues"],
        ) == (
            1,
            1,
            1,
            1,
        )
        after = dump_tables(store)
        assert not [name for name, rows in after.items() if "lopez" in rows]
        told = ("audit", "alert_changes", "change_counter")
        assert {name: rows for name, rows in after.items() if name not in told} == {
            name: rows for name, rows in before.items() if name not in told
        }

    def test_a_purge_is_audited_by_a_digest_and_done_or_not_done(self, make_guarded):
        store, hers = make_guarded(), stolen_session()
        store.alerts.save([hers])
        removed = store.retention.purge_principal(hers.principal, by="omar")
        entry = store.audit.entries()[0]
        assert (entry.action, entry.by, entry.detail["removed"]) == ("retention.purge", "omar", removed)
        assert len(entry.target) == 16
        assert store.audit.entries(entry.target) == [entry]
        with pytest.raises(NotFound, match="the database has nothing"):
            store.retention.purge_principal(hers.principal, by="omar")
        assert len(store.audit.entries()) == 1


class GuardRules(GuardContract):
    """On SQLite alone: rules that Python decides, by statements that the contract has on every database."""

    # --- suppressions -------------------------------------------------------------------------------------------------

    def test_any_text_may_be_a_value_that_no_alert_has(self, make_guarded):
        store = make_guarded()
        store.alerts.save([new_pipeline()])
        for text in (each for each in NASTY if each.strip()):
            (unknown,) = store.suppressions.preview(SuppressionMatch(principal=text[:4_000])).unknown
            assert (unknown.field, unknown.similar) == ("principal", ()), text

    def test_a_suppression_hides_what_lies_on_the_store_and_what_comes(self, make_guarded):
        store, first, later = make_guarded(), new_pipeline(), new_pipeline(alert_id="later")
        store.alerts.save([first, stolen_session()])
        made = store.suppressions.create(ECS, "the move to ECS", NOW + DAY, by="maria")
        assert (seen(store), seen(store, suppressed=True)) == ([stolen_session().alert_id], [first.alert_id])
        store.alerts.save([later])
        assert seen(store, suppressed=True) == [first.alert_id, "later"]
        assert store.queue.row("later").suppressed_by == made.suppression_id
        assert store.queue.row(stolen_session().alert_id).suppressed_by == ""
        (found,) = store.suppressions.list_all()
        assert (found.match, found.reason, found.owner) == (ECS, "the move to ECS", "maria")
        assert (found.created_at, found.expires_at, found.hits, found.last_hit) == (NOW, NOW + DAY, 2, NOW)

    def test_a_suppression_expires_by_itself_and_what_it_hid_is_seen(self, make_guarded):
        clock = Moving()
        store = make_guarded(now=clock)
        store.alerts.save([new_pipeline()])
        store.suppressions.create(ECS, "the move to ECS", NOW + DAY, by="maria")
        clock.at = NOW + DAY - timedelta(seconds=1)
        assert seen(store) == []
        clock.at = NOW + DAY
        assert seen(store) == [new_pipeline().alert_id]
        assert store.suppressions.list_all() == []
        assert len(store.suppressions.list_all(ended=True)) == 1
        store.alerts.save([new_pipeline(alert_id="later")])
        assert store.suppressions.list_all(ended=True)[0].hits == 1

    def test_a_suppression_that_is_ended_shows_what_it_hid(self, make_guarded):
        store = make_guarded()
        store.alerts.save([new_pipeline()])
        made = store.suppressions.create(ECS, "the move to ECS", NOW + DAY, by="maria")
        newest = store.changes.newest_number()
        ended = store.suppressions.end(made.suppression_id, made.version, by="omar")
        assert (ended.ended_at, ended.version) == (NOW, made.version + 1)
        assert seen(store) == [new_pipeline().alert_id]
        assert [each.alert_id for each in store.changes.since(newest)] == [new_pipeline().alert_id]
        assert (store.suppressions.list_all(), store.suppressions.list_all(ended=True)) == ([], [ended])

    def test_a_suppression_that_someone_changed_since_is_not_ended(self, make_guarded):
        store = make_guarded()
        made = store.suppressions.create(ECS, "the move to ECS", NOW + DAY, by="maria")
        with pytest.raises(Conflict, match="another user"):
            store.suppressions.end(made.suppression_id, made.version + 1, by="omar")
        store.suppressions.end(made.suppression_id, made.version, by="omar")
        with pytest.raises(Conflict, match="over already"):
            store.suppressions.end(made.suppression_id, made.version + 1, by="omar")
        with pytest.raises(NotFound, match="no suppression"):
            store.suppressions.end("nothing\x1b[2J", 1, by="omar")

    @pytest.mark.parametrize("urgency", [38, 80])
    def test_what_would_hide_an_attack_is_refused_without_a_reason_to_force_it(self, make_guarded, urgency):
        """A critical one, however many share it; and one that was confirmed."""
        store, alert = make_guarded(), new_pipeline(urgency=urgency)
        store.alerts.save([alert])
        if urgency < MINIMUM_URGENCY["critical"]:
            close(store, [alert], SetDisposition("true_positive", "it was one"))
        before = dump_tables(store)
        for force in (None, "", "  "):
            with pytest.raises(FingerprintError, match=r"--force REASON|say why"):
                store.suppressions.create(ECS, "the move to ECS", NOW + DAY, by="maria", force=force)
        assert dump_tables(store) == before
        made = store.suppressions.create(
            ECS, "the move to ECS", NOW + DAY, by="maria", force="the red team, 4711"
        )
        assert made.forced == "the red team, 4711"
        assert seen(store, suppressed=True) == [alert.alert_id]
        assert store.queue.row(alert.alert_id).suppressed_by == made.suppression_id
        assert store.audit.entries(made.suppression_id)[0].detail["forced"] == "the red team, 4711"

    def test_an_attack_that_comes_later_is_seen_whatever_was_suppressed_before(self, make_guarded):
        store, alert = make_guarded(), new_pipeline()
        store.alerts.save([alert])
        store.suppressions.create(ECS, "the move to ECS", NOW + DAY, by="maria")
        worse = new_pipeline(alert_id="worse", urgency=MINIMUM_URGENCY["critical"])
        store.alerts.save([worse, new_pipeline(alert_id="same", urgency=MINIMUM_URGENCY["critical"] - 1)])
        assert (seen(store), set(seen(store, suppressed=True))) == (["worse"], {alert.alert_id, "same"})
        assert (store.queue.row("worse").suppressed_by, store.queue.counts(AlertFilter())["suppressed"]) == (
            "",
            2,
        )
        close(store, [alert], SetDisposition("true_positive", "it was one"))
        assert set(seen(store)) == {alert.alert_id, "worse"}
        store.alerts.save(
            [replace(new_pipeline(alert_id="same"), urgency=90)]
        )  # it grew worse, by the same calls
        assert set(seen(store)) == {alert.alert_id, "worse", "same"}

    def test_a_preview_says_what_would_be_hidden_and_hides_nothing(self, make_guarded):
        store = make_guarded()
        alerts = [new_pipeline(alert_id=f"{n:016x}", urgency=30 + 10 * n) for n in range(4)]
        store.alerts.save([*alerts, stolen_session()])
        close(store, alerts[:1], SetDisposition("true_positive", "it was an attack"))
        close(store, alerts[1:2], SetDisposition("duplicate", duplicate_of=alerts[0].alert_id))
        close(store, alerts[2:3], SetDisposition("benign"))
        before = dump_tables(store)
        would = store.suppressions.preview(ECS, limit=2)
        counts = (would.alerts, would.open, would.urgent, would.critical, would.confirmed)
        assert counts == (4, 1, 2, 0, 2)
        assert [row.alert_id for row in would.rows] == [alerts[3].alert_id, alerts[2].alert_id]
        assert dump_tables(store) == before
        made = store.suppressions.create(ECS, "why not", NOW + DAY, by="maria", force="a drill")
        assert made.hits == would.alerts
        assert store.suppressions.preview(SuppressionMatch(service="glue")).alerts == 0

    def test_a_suppression_that_may_not_be_leaves_nothing_behind(self, make_guarded):
        store = make_guarded()
        store.alerts.save([new_pipeline()])
        before = dump_tables(store)
        for match, reason, end in NEVER:
            with pytest.raises(FingerprintError):
                store.suppressions.create(match, reason, end, by="maria")
        assert dump_tables(store) == before

    # --- shared surprises ---------------------------------------------------------------------------------------------

    def test_it_does_not_matter_in_which_order_and_how_often_alerts_come(self, make_guarded):
        alerts = [rolled_out(number, hours=7 * number) for number in range(8)]
        together, apart = make_guarded(), make_guarded()
        together.alerts.save(alerts)
        for alert in [*alerts[::-1], *alerts[::3]]:
            apart.alerts.save([alert])
        assert urgencies(together) == urgencies(apart)
        assert dump_tables(together)["shared_surprises"] == dump_tables(apart)["shared_surprises"]
        once = dump_tables(together)
        together.alerts.save(alerts)
        assert dump_tables(together) == once

    def test_who_showed_it_more_than_a_day_before_or_after_does_not_count(self, make_guarded):
        store = make_guarded()
        store.alerts.save([rolled_out(number, hours=24.2 * number) for number in range(6)])
        assert set(urgencies(store).values()) == {(38, 38, 0)}

    def test_many_alerts_of_one_principal_are_one_other(self, make_guarded):
        store = make_guarded()
        again = [rolled_out(number, principal=f"{ACCOUNT}:user/one") for number in range(9)]
        store.alerts.save([*again, rolled_out(10)])
        assert urgencies(store)[rolled_out(10).alert_id] == (38, 38, 1)

    def test_one_thief_with_many_keys_is_not_less_urgent(self, make_guarded):
        """They come from the same strange network, with the same strange tool."""
        place = SurpriseDriver("network", "185.220.0.0/16", "10.0.0.0/8", "unseen", 3.0, 3)
        store = make_guarded()
        alerts = [rolled_out(number) for number in range(8)]
        store.alerts.save([replace(each, drivers=(*each.drivers, place)) for each in alerts])
        assert set(urgencies(store).values()) == {(38, 38, 7)}
        assert {feature: others for feature, _, others in store.prevalence.of_alert(alerts[0].alert_id)} == {
            "program version": 7,
            "network": 7,
        }

    def test_a_critical_alert_that_many_share_stays_high(self, make_guarded):
        store = make_guarded()
        store.alerts.save([rolled_out(number, urgency=80) for number in range(MAX_COUNTED_OTHERS + 5)])
        assert set(urgencies(store).values()) == {(60, 80, MAX_COUNTED_OTHERS)}

    def test_what_came_late_finds_those_who_were_counted_to_the_end(self, make_guarded):
        """A row that has as many others as are counted is not counted again: it need not be."""
        store = make_guarded()
        store.alerts.save([rolled_out(number) for number in range(MAX_COUNTED_OTHERS + 5)])
        store.alerts.save([rolled_out(99, hours=23)])
        assert urgencies(store)[rolled_out(99, hours=23).alert_id] == (19, 38, MAX_COUNTED_OTHERS)

    def test_what_many_share_never_lowers_a_grave_new_call_below_its_floor(self, make_guarded):
        store = make_guarded()
        graver = {"urgency": 54, "impact": 88, "impact_of": IMPACT_OF}
        store.alerts.save([rolled_out(number, urgency=54) for number in range(12)])
        store.alerts.save([rolled_out(99, **graver)])
        shown = urgencies(store)
        assert shown[f"{99:016x}"] == (MINIMUM_URGENCY["high"], 54, 12)
        assert shown[f"{0:016x}"][0] < MINIMUM_URGENCY["high"]

    def test_nor_one_by_a_tool_made_for_attacks(self, make_guarded):
        store, tool = make_guarded(), SurpriseDriver("program", "TruffleHog", "aws-cli", "unseen", 1.0, 1)
        store.alerts.save([rolled_out(number, urgency=54) for number in range(12)])
        last = rolled_out(99, urgency=54)
        store.alerts.save([replace(last, drivers=(*last.drivers, tool))])
        assert urgencies(store)[last.alert_id][0] == MINIMUM_URGENCY["high"]

    def test_anyone_who_looks_is_told_of_alerts_that_became_less_urgent(self, make_guarded):
        store, alerts = make_guarded(), [rolled_out(number) for number in range(4)]
        store.alerts.save(alerts[:3])
        newest = store.changes.newest_number()
        store.alerts.save(alerts[3:])
        assert {each.alert_id for each in store.changes.since(newest)} == {each.alert_id for each in alerts}

    def test_as_soon_as_one_of_them_is_an_attack_no_one_is_excused_by_what_they_share(self, make_guarded):
        store, alerts = make_guarded(), [rolled_out(number) for number in range(6)]
        store.alerts.save(alerts)
        assert set(urgencies(store).values()) == {(25, 38, 5)}
        newest = store.changes.newest_number()
        close(store, alerts[:1], SetDisposition("true_positive", "one of many keys"))
        shown = urgencies(store)
        assert shown.pop(alerts[0].alert_id) == (25, 38, 5)
        assert set(shown.values()) == {(38, 38, 0)}
        assert len(store.changes.since(newest)) == 6
        store.alerts.save([rolled_out(7)])
        assert urgencies(store)[rolled_out(7).alert_id] == (38, 38, 0)
        close(store, alerts[:1], SetDisposition("benign", "it was the new tool"))
        assert set(urgencies(store).values()) == {(24, 38, 6)}

    # --- retention ----------------------------------------------------------------------------------------------------

    def test_what_was_dated_back_stays_as_long_as_what_was_not(self, make_guarded):
        """A record of an open alert must not be gone the next day because it says that it is ten years old."""
        clock, alert = Moving(), stolen_session()
        store = make_guarded(now=clock)
        old = [replace(each, event_time=each.event_time - 3652 * DAY) for each in alert.events]
        store.alerts.save(
            [replace(alert, events=tuple(old), first_event_time=old[0].event_time)], votes(alert)
        )
        clock.at = NOW + 29 * DAY
        assert (
            store.retention.apply(
                Retention(record_days=30, vote_days=30, closed_alert_days=30), by="retention"
            )
            == {}
        )
        assert all(each.raw for each in store.alerts.get(alert.alert_id).events)

    def test_a_store_whose_newest_row_is_older_than_it_is_kept_waits_until_it_is_asked(self, make_guarded):
        clock, alert, kept = Moving(), stolen_session(), Retention(record_days=30, vote_days=40)
        store = make_guarded(now=clock)
        assert store.retention.paused_since(kept) is None  # there is nothing to lose
        store.alerts.save([alert], votes(alert))
        clock.at = NOW + 30 * DAY
        assert store.retention.paused_since(kept) is None
        clock.at += timedelta(seconds=1)
        assert store.retention.paused_since(kept) == NOW
        assert store.retention.paused_since(FOR_EVER) is None
        store.retention.apply(kept, by="omar")
        assert store.retention.paused_since(kept) is None, "it was asked for once"

    def test_single_votes_go_when_they_are_old_and_no_others(self, make_guarded):
        clock, alert, later = Moving(), stolen_session(), new_pipeline()
        store = make_guarded(now=clock)
        store.alerts.save([], [*votes(alert), *votes(alert, "spectral")])
        clock.at = NOW + DAY
        store.alerts.save([], [*votes(alert), *votes(later)])
        clock.at = NOW + 10 * DAY + timedelta(seconds=1)
        assert store.retention.apply(
            Retention(record_days=0, vote_days=10, closed_alert_days=0), by="retention"
        ) == {"votes": 18}
        assert set(store.votes.read()["principal"]) == {later.principal}

    def test_open_alerts_are_never_pruned_and_closed_ones_go_with_all_that_is_theirs(self, make_guarded):
        clock, closed, opened = Moving(), new_pipeline(), stolen_session()
        store = make_guarded(now=clock)
        store.alerts.save([closed, opened])
        empty = {name for name, rows in dump_tables(store).items() if not rows}
        store.suppressions.create(ECS, "the move to ECS", NOW + DAY, by="maria")
        store.cases.add_note(closed.alert_id, "asked the owner", by="maria")
        close(store, [closed], SetDisposition("benign", "planned"))
        clock.at = NOW + 400 * DAY
        assert store.retention.apply(
            Retention(record_days=0, vote_days=0, closed_alert_days=30), by="retention"
        ) == {"alerts": 1}
        assert store.alerts.by_urgency() == [opened]
        left = dump_tables(store)
        naming = {name for name, rows in left.items() if closed.alert_id in rows}
        assert naming == {"audit"}
        assert {"suppression_hits", "notes", "dispositions", "cases"} & empty <= {
            n for n, rows in left.items() if not rows
        }

    def test_an_alert_that_grew_after_it_was_closed_is_open_and_stays(self, make_guarded):
        clock, alert = Moving(), new_pipeline()
        store = make_guarded(now=clock)
        store.alerts.save([alert])
        close(store, [alert], SetDisposition("benign"))
        store.alerts.save([grown(alert)])
        clock.at = NOW + 400 * DAY
        assert (
            store.retention.apply(Retention(record_days=0, vote_days=0, closed_alert_days=30), by="retention")
            == {}
        )
        assert len(store.alerts.by_urgency()) == 1

    def test_what_is_kept_for_ever_is_kept(self, make_guarded):
        clock = Moving(NOW + 10_000 * DAY)
        store = make_guarded(now=clock)
        store.alerts.save([new_pipeline()], votes(new_pipeline()))
        before = dump_tables(store)
        assert store.retention.apply(FOR_EVER, by="retention") == {}
        assert dump_tables(store) == before

    def test_pruning_is_told_while_it_goes_on_and_audited_and_done_once(self, make_guarded, monkeypatch):
        monkeypatch.setattr(retention, "ALERT_BATCH", 4)
        clock = Moving()
        store, told = make_guarded(now=clock), []
        alerts = [new_pipeline(alert_id=f"{number:016x}") for number in range(9)]
        store.alerts.save(alerts, votes(alerts[0]))
        clock.at = NOW + 100 * DAY
        kept = Retention(record_days=30, vote_days=30, closed_alert_days=30)
        removed = store.retention.apply(
            kept, by="omar", progress=lambda kind, done: told.append((kind, done))
        )
        assert removed == {"records": 27, "votes": 3}
        assert told == [("records", 12), ("records", 24), ("records", 27), ("votes", 3)]
        (entry,) = store.audit.entries("database")
        assert (entry.action, entry.by, entry.detail["removed"]) == ("retention.apply", "omar", removed)
        assert store.retention.apply(kept, by="omar") == {}
        assert len(store.audit.entries("database")) == 1

    # --- redaction ----------------------------------------------------------------------------------------------------

    def test_what_is_redacted_never_reaches_a_table(self, make_guarded):
        paths = ("requestParameters.secretId", "userIdentity.*", "responseElements.items.password")
        store = make_guarded(redact=paths)
        alert, answer = stolen_session(), {"responseElements": {"items": [{"password": "hunter2"}]}}
        events = [replace(each, raw=json.dumps(json.loads(each.raw) | answer)) for each in alert.events]
        store.alerts.save([replace(alert, events=tuple(events))])
        rows = "".join(dump_tables(store).values())
        assert not [word for word in ("prod/warehouse", "ASIAEXAMPLE", "hunter2") if word in rows]
        record = json.loads(store.alerts.get(alert.alert_id).events[5].raw)
        assert record["requestParameters"] == {"secretId": "[redacted]"}
        assert record["eventName"] == "GetSecretValue"

    def test_without_redaction_a_record_is_kept_letter_by_letter(self, make_guarded):
        store, alert = make_guarded(), stolen_session()
        odd = replace(alert.events[0], raw='{ "b":1.50,  "a":"\\u00fc" }')
        store.alerts.save([replace(alert, events=(odd,))])
        assert store.alerts.get(alert.alert_id).events[0].raw == odd.raw

    # --- purge --------------------------------------------------------------------------------------------------------

    def test_only_the_whole_name_of_a_principal_is_purged(self, make_guarded):
        store = make_guarded()
        store.alerts.save([stolen_session(), new_pipeline()], votes(stolen_session()))
        before = dump_tables(store)
        for name in ("", "%", f"{ACCOUNT}:role/AWSReservedSSO%", f"{new_pipeline().principal} ", ACCOUNT):
            with pytest.raises(NotFound):
                store.retention.purge_principal(name, by="omar")
        assert dump_tables(store) == before

    def test_anyone_who_shared_with_a_purged_principal_shares_with_one_less(self, make_guarded):
        store, alerts = make_guarded(), [rolled_out(number) for number in range(4)]
        store.alerts.save(alerts)
        assert set(urgencies(store).values()) == {(28, 38, 3)}
        newest = store.changes.newest_number()
        store.retention.purge_principal(alerts[0].principal, by="omar")
        assert set(urgencies(store).values()) == {(38, 38, 2)}
        assert {each.alert_id for each in store.changes.since(newest)} == {
            each.alert_id for each in alerts[1:]
        }
