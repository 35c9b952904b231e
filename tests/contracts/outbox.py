"""What every outbox does, whatever the database. A test class gives `make_store`: a function to a fresh, open alert store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fingerprint.core.alert import Alert, Disposition
from fingerprint.core.case import AlertRevision, ReopenCase, SetDisposition, SuppressionMatch, UndoDecision
from fingerprint.core.sanitize import storable
from fingerprint.core.settings import ReceiverSettings
from fingerprint.store import SqlStore
from fingerprint.store.outbox import SqlOutbox
from tests.support.alerts import NASTY, nasty, new_pipeline, stolen_session

NOW = datetime(2026, 3, 5, 9, tzinfo=UTC)
SOON = NOW + timedelta(seconds=60)
ALL = ReceiverSettings(url="https://soc.example.com", notify_on=("new", "updated", "decided"), min_urgency=0)

WITH_EXISTING = ALL.model_copy(update={"include_existing": True})


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def many(count: int) -> list[Alert]:
    """Different alerts, the n-th with the id `alert-n`."""
    return [replace(new_pipeline(), alert_id=f"alert-{number:03}") for number in range(count)]


def happened(outbox: SqlOutbox) -> list[tuple[str, str]]:
    return sorted((each.alert_id[:4], each.happened) for each in outbox.list_deliveries(limit=10_000))


def planned(
    outbox: SqlOutbox, wants: ReceiverSettings = ALL, receiver: str = "soc", now: datetime = NOW
) -> None:
    """Until there is nothing more to plan."""
    while outbox.schedule(receiver, wants, now):
        pass


def taken(outbox: SqlOutbox, now: datetime = NOW, most: int = 100, by: str = "me", receiver: str = "soc"):
    return outbox.claim(receiver, now, now + timedelta(seconds=60), most, by)


class OutboxContract:
    """Run by each alert store of tests/pipelines/test_deliver.py."""

    @pytest.fixture
    def store(self, make_store) -> SqlStore:
        return make_store()

    @pytest.fixture
    def outbox(self, store: SqlStore) -> SqlOutbox:
        made = store.outbox
        made.register_receiver("soc", ALL)
        return made

    # --- from what changed to deliveries -----------------------------------------------------------------------------

    def test_a_new_alert_becomes_one_delivery_however_often_it_is_planned(self, store, outbox):
        store.alerts.save([stolen_session()])
        planned(outbox)
        store.alerts.save([stolen_session()])
        planned(outbox)
        (delivery,) = outbox.list_deliveries()
        assert (delivery.happened, delivery.state, delivery.tries) == ("new", "waiting", 0)
        assert delivery.alert_id == stolen_session().alert_id

    def test_two_who_plan_at_once_make_each_delivery_once(self, store, outbox):
        store.alerts.save(many(300))
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: planned(outbox), range(4)))
        assert len(outbox.list_deliveries(limit=1_000)) == 300

    def test_what_lay_there_before_is_told_only_if_that_is_asked_for(self, store):
        store.alerts.save([stolen_session(), new_pipeline()])
        outbox = store.outbox
        for receiver, first, second in (("late", ALL, WITH_EXISTING), ("all", WITH_EXISTING, ALL)):
            outbox.register_receiver(receiver, first)
            outbox.register_receiver(receiver, second)  # a second time does nothing
            planned(outbox, receiver=receiver)
        assert {each.receiver for each in outbox.list_deliveries()} == {"all"}
        assert outbox.counts_by_receiver()["all"].waiting == 2

    def test_what_lay_there_before_is_not_new_when_it_changes(self, store):
        alert = stolen_session()
        store.alerts.save([replace(alert, events=alert.events[:3]), new_pipeline()])
        decided = Disposition(new_pipeline().alert_id, "benign", "maria", "", NOW, len(new_pipeline().events))
        store.cases.add_disposition(decided)
        store.outbox.register_receiver("soc", ALL)
        store.cases.add_note(new_pipeline().alert_id, "see ticket 7", "maria")
        planned(store.outbox)
        assert happened(store.outbox) == []
        store.alerts.save([alert])
        store.cases.add_disposition(replace(decided, decision="duplicate", duplicate_of="3fa9", at=at(60)))
        planned(store.outbox)
        assert happened(store.outbox) == [("3fa9", "updated"), ("77b0", "decided")]

    def test_what_lay_there_before_and_was_not_urgent_enough_is_new_when_it_has_become_so(self, store):
        urgent = ALL.model_copy(update={"min_urgency": 80})
        store.alerts.save([replace(stolen_session(), urgency=40, events=stolen_session().events[:3])])
        store.outbox.register_receiver("soc", urgent)
        store.alerts.save([stolen_session()])
        planned(store.outbox, urgent)
        assert happened(store.outbox) == [("3fa9", "new")]

    def test_a_receiver_that_was_never_enrolled_is_told_nothing(self, store, outbox):
        store.alerts.save([stolen_session()])
        assert outbox.schedule("stranger", ALL, NOW) == 0

    def test_growth_is_a_delivery_of_its_own(self, store, outbox):
        alert = stolen_session()
        for events in (alert.events[:3], alert.events[:5], alert.events):
            store.alerts.save([replace(alert, events=events)])
            planned(outbox)
        assert [each for _, each in happened(outbox)] == ["new", "updated", "updated"]

    def test_a_decision_is_a_delivery_and_the_same_again_is_none(self, store, outbox):
        alert = stolen_session()
        store.alerts.save([alert])
        planned(outbox)
        for when in (NOW, NOW, at(60)):
            store.cases.add_disposition(
                Disposition(alert.alert_id, "benign", "maria", "", when, len(alert.events))
            )
            planned(outbox)
        assert [each for _, each in happened(outbox)] == ["decided", "decided", "new"]

    def test_a_decision_in_the_queue_is_told_and_a_reopening_takes_it_back(self, store, outbox):
        store.alerts.save([stolen_session()])
        planned(outbox)
        alert_id = stolen_session().alert_id
        version = store.queue.row(alert_id).version
        (outcome,) = store.cases.change(
            [AlertRevision(alert_id, version)], SetDisposition("true_positive", "seen"), by="maria"
        )
        planned(outbox)
        assert [each for _, each in happened(outbox)] == ["decided", "new"]
        delivery = outbox.list_deliveries()[0]
        assert outbox.current_alert(delivery)[1].decision == "true_positive"
        store.cases.change([AlertRevision(alert_id, outcome.version)], ReopenCase("too soon"), by="maria")
        planned(outbox)
        assert outbox.current_alert(delivery)[1] is None
        assert [each for _, each in happened(outbox)] == ["decided", "decided", "new"]
        assert len({each.key for each in outbox.list_deliveries()}) == 3

    def test_a_decision_that_is_undone_is_told_though_the_one_before_has_been(self, store, outbox):
        store.alerts.save([stolen_session()])
        planned(outbox)
        revision = AlertRevision(stolen_session().alert_id, 0)
        benign, attack = SetDisposition("benign", "seen"), SetDisposition("true_positive", "")
        for action in (benign, attack, UndoDecision(), UndoDecision(), benign):
            (outcome,) = store.cases.change([revision], action, by="maria")
            revision = AlertRevision(outcome.alert_id, outcome.version)
            planned(outbox)
            planned(outbox)
        assert [each for _, each in happened(outbox)] == ["decided"] * 5 + ["new"]

    def test_an_alert_that_outgrows_its_decision_is_open_again_for_who_only_wants_decisions(
        self, store, outbox
    ):
        alert, deciding = stolen_session(), ALL.model_copy(update={"notify_on": ("new", "decided")})
        store.alerts.save([replace(alert, events=alert.events[:3])])
        store.cases.add_disposition(Disposition(alert.alert_id, "benign", "maria", "", NOW, 3))
        planned(outbox, deciding)
        for events in (alert.events[:5], alert.events):
            store.alerts.save([replace(alert, events=events)])
            planned(outbox, deciding)
        assert [each for _, each in happened(outbox)] == ["decided", "decided", "new"]

    def test_what_is_not_urgent_enough_is_told_when_it_has_become_so(self, store, outbox):
        urgent = ALL.model_copy(update={"min_urgency": 80})
        store.alerts.save([replace(stolen_session(), urgency=40, events=stolen_session().events[:3])])
        planned(outbox, urgent)
        assert outbox.list_deliveries() == []
        store.alerts.save([stolen_session()])
        planned(outbox, urgent)
        assert happened(outbox) == [("3fa9", "new")]

    def test_what_is_suppressed_is_not_told(self, store, outbox):
        alert = stolen_session()
        store.suppressions.create(
            SuppressionMatch(principal=alert.principal),
            "a drill",
            datetime.now(UTC) + timedelta(days=1),
            "maria",
            force="a drill",
        )
        store.alerts.save([alert, new_pipeline()])
        planned(outbox, now=datetime.now(UTC))
        assert happened(outbox) == [("77b0", "new")]

    def test_a_critical_alert_is_told_though_a_suppression_fits_it(self, store, outbox):
        alert, tomorrow = stolen_session(), datetime.now(UTC) + timedelta(days=1)
        store.suppressions.create(SuppressionMatch(principal=alert.principal), "a drill", tomorrow, "maria")
        store.alerts.save([alert])
        planned(outbox, now=datetime.now(UTC))
        assert happened(outbox) == [("3fa9", "new")]

    def test_what_was_suppressed_is_new_when_its_suppression_has_expired(self, store, outbox):
        """No one does anything then, and nothing on the alert store changes."""
        now, alert = datetime.now(UTC), stolen_session()
        store.suppressions.create(
            SuppressionMatch(principal=alert.principal),
            "a drill",
            now + timedelta(hours=1),
            "maria",
            force="a drill",
        )
        store.alerts.save([alert])
        planned(outbox, now=now)
        planned(outbox, now=now + timedelta(minutes=59))
        assert outbox.list_deliveries() == []
        for _ in range(2):
            planned(outbox, now=now + timedelta(minutes=61))
        assert happened(outbox) == [("3fa9", "new")]

    @pytest.mark.parametrize("ended", [False, True], ids=["expired", "ended"])
    def test_what_an_alert_grew_while_it_was_suppressed_is_told_when_it_no_longer_is(
        self, store, outbox, ended
    ):
        now, alert = datetime.now(UTC), stolen_session()
        store.alerts.save([replace(alert, events=alert.events[:3])])
        planned(outbox, now=now)
        made = store.suppressions.create(
            SuppressionMatch(principal=alert.principal),
            "a drill",
            now + timedelta(hours=1),
            "maria",
            force="a drill",
        )
        for events in (alert.events[:5], alert.events):
            store.alerts.save([replace(alert, events=events)])
            planned(outbox, now=now)
        assert happened(outbox) == [("3fa9", "new")]
        if ended:
            store.suppressions.end(made.suppression_id, made.version, "maria")
        for _ in range(2):
            planned(outbox, now=now + timedelta(minutes=1 if ended else 61))
        assert happened(outbox) == [("3fa9", "new"), ("3fa9", "updated")]

    def test_what_was_held_back_and_is_not_urgent_enough_any_more_is_not_told(self, store, outbox):
        now, alert = datetime.now(UTC), stolen_session()
        store.suppressions.create(
            SuppressionMatch(principal=alert.principal),
            "a drill",
            now + timedelta(hours=1),
            "maria",
            force="a drill",
        )
        store.alerts.save([alert])
        planned(outbox, now=now)
        planned(outbox, ALL.model_copy(update={"min_urgency": 100}), now=now + timedelta(minutes=61))
        assert outbox.list_deliveries() == []

    def test_each_receiver_has_its_own(self, store, outbox):
        outbox.register_receiver("ops", ALL)
        store.alerts.save([stolen_session()])
        planned(outbox)
        planned(outbox, receiver="ops")
        assert len({each.key for each in outbox.list_deliveries()}) == 2
        assert [each.receiver for each in taken(outbox, receiver="ops")] == ["ops"]

    # --- from deliveries to receivers --------------------------------------------------------------------------------

    def test_what_is_taken_is_in_one_pair_of_hands(self, store, outbox):
        store.alerts.save(many(5))
        planned(outbox)
        first, second = taken(outbox, most=3), taken(outbox, by="you")
        assert len(first) == 3
        assert len(second) == 2
        assert not {each.key for each in first} & {each.key for each in second}
        assert taken(outbox) == []

    def test_many_who_take_at_once_get_each_delivery_once(self, store, outbox):
        store.alerts.save(many(100))
        planned(outbox)

        def work(name: int) -> list[str]:
            found: list[str] = []
            while part := taken(outbox, most=7, by=str(name)):
                found += [each.key for each in part]
            return found

        with ThreadPoolExecutor(4) as pool:
            keys = [key for found in pool.map(work, range(4)) for key in found]
        assert len(keys) == len(set(keys)) == 100

    def test_what_a_dead_sender_held_comes_again_under_its_key(self, store, outbox):
        store.alerts.save([stolen_session()])
        planned(outbox)
        (first,) = taken(outbox)
        assert taken(outbox, now=at(59), by="you") == []
        (again,) = taken(outbox, now=at(60), by="you")
        assert again.key == first.key

    def test_what_was_sent_is_over(self, store, outbox):
        store.alerts.save([stolen_session()])
        planned(outbox)
        (delivery,) = taken(outbox)
        outbox.mark_sent(delivery, SOON)
        outbox.mark_sent(delivery, at(90))
        (done,) = outbox.list_deliveries()
        assert (done.state, done.tries, done.done_at) == ("sent", 1, SOON)
        assert taken(outbox, now=at(10_000)) == []
        assert outbox.counts_by_receiver()["soc"] == (0, 1, 0, None)
        assert outbox.backlog("soc") == (0, 0, None)

    def test_what_failed_waits_until_it_is_due(self, store, outbox):
        store.alerts.save([stolen_session()])
        planned(outbox)
        (delivery,) = taken(outbox)
        outbox.reschedule(delivery, at(20), "answered 500", worker="me")
        assert taken(outbox, now=at(19)) == []
        (again,) = taken(outbox, now=at(20))
        assert (again.key, again.tries, again.reason) == (delivery.key, 1, "answered 500")

    def test_who_was_too_slow_marks_nothing_that_others_hold(self, store, outbox):
        store.alerts.save([stolen_session()])
        planned(outbox)
        (slow,) = taken(outbox)
        taken(outbox, now=at(60), by="you")
        outbox.reschedule(slow, at(9_999), "answered 500", worker="me")
        outbox.release([slow], worker="me")
        assert outbox.list_deliveries()[0].due_at == NOW
        assert taken(outbox, now=at(61)) == []

    def test_what_is_let_go_untried_may_be_taken_at_once(self, store, outbox):
        store.alerts.save([stolen_session()])
        planned(outbox)
        outbox.release(taken(outbox), worker="me")
        outbox.release([], worker="me")
        assert taken(outbox)[0].tries == 0

    def test_what_was_given_up_says_why_and_can_be_tried_again(self, store, outbox):
        store.alerts.save(many(3))
        planned(outbox)
        for delivery in taken(outbox):
            outbox.mark_failed(delivery, SOON, "stranger there\0 \ud800")
        assert {each.reason for each in outbox.list_deliveries(state="failed")} == {
            "stranger there\ufffd \ufffd"
        }
        assert taken(outbox, now=at(100_000)) == []
        one = outbox.list_deliveries()[0]
        assert outbox.retry_failed(at(100), key=one.key) == 1
        assert [each.key for each in taken(outbox, now=at(100))] == [one.key]
        assert outbox.retry_failed(at(100), receiver="ops") == 0
        assert outbox.retry_failed(at(100), receiver="soc") == 2
        assert outbox.counts_by_receiver()["soc"][:3] == (3, 0, 0)
        assert outbox.backlog("soc") == (3, 0, at(100))
        assert outbox.backlog("ops") == (0, 0, None)

    def test_the_longest_due_is_taken_first(self, store, outbox):
        alerts = many(3)
        for number, alert in enumerate(alerts):
            store.alerts.save([alert])
            planned(outbox, now=at(number))
        first = taken(outbox, now=at(9), most=1)[0]
        assert first.alert_id == alerts[0].alert_id
        outbox.reschedule(first, at(2.5), "busy", worker="me")
        assert [each.alert_id for each in taken(outbox, now=at(9))] == ["alert-001", "alert-002", "alert-000"]

    def test_what_was_sent_long_ago_is_forgotten_and_not_told_again(self, store, outbox):
        store.alerts.save(many(2))
        planned(outbox)
        outbox.mark_sent(taken(outbox, most=1)[0], NOW)
        assert outbox.delete_sent(NOW) == 0
        assert outbox.delete_sent(SOON) == 1
        store.alerts.save(many(2))
        planned(outbox)
        assert [each.state for each in outbox.list_deliveries()] == ["waiting"]

    # --- what it tells of --------------------------------------------------------------------------------------------

    def test_an_alert_is_told_as_it_is_now_without_records(self, store, outbox):
        store.alerts.save([replace(stolen_session(), events=stolen_session().events[:2])])
        planned(outbox)
        store.alerts.save([stolen_session()])
        alert, said = outbox.current_alert(outbox.list_deliveries()[0])
        assert alert == replace(
            stolen_session(), events=tuple(replace(each, raw="") for each in stolen_session().events)
        )
        assert said is None

    def test_a_decision_stands_until_the_alert_grows(self, store, outbox):
        alert = stolen_session()
        store.alerts.save([replace(alert, events=alert.events[:2])])
        store.cases.add_disposition(Disposition(alert.alert_id, "benign", "maria", "", NOW, 2))
        planned(outbox)
        assert outbox.current_alert(outbox.list_deliveries()[0])[1].decision == "benign"
        store.alerts.save([alert])
        assert outbox.current_alert(outbox.list_deliveries()[0])[1] is None

    def test_whatever_a_record_says_is_told(self, store, outbox):
        store.alerts.save(
            [replace(nasty(text), alert_id=f"nasty-{number}") for number, text in enumerate(NASTY)]
        )
        planned(outbox)
        told = {each.alert_id: outbox.current_alert(each)[0].title for each in outbox.list_deliveries()}
        assert told == {f"nasty-{number}": storable(text) for number, text in enumerate(NASTY)}

    def test_of_an_alert_that_was_removed_there_is_nothing_left_to_tell(self, store, outbox):
        store.alerts.save([stolen_session()])
        planned(outbox)
        delivery = outbox.list_deliveries()[0]
        store.retention.purge_principal(stolen_session().principal, by="maria")
        assert outbox.current_alert(delivery) is None
        assert outbox.list_deliveries() == []  # it named the alert, and went with it
