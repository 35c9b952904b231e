"""What the queue of every alert store does (`core.ports.store`), whatever the database. A test class gives `make_store`: a
function to a fresh, open alert store whose clock stands still unless it is told to go on; and `make_shared`, for those that
the tests of the class share."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from typing import get_args

import pytest

from fingerprint.core.alert import MINIMUM_URGENCY, SEVERITY_LEVELS, Alert, severity_of
from fingerprint.core.alert_query import Term, parse_alert_query, query_words, words_of
from fingerprint.core.case import (
    ActionOutcome,
    AlertFilter,
    AlertGroup,
    AlertRevision,
    AssignCase,
    AuditFilter,
    CaseStatus,
    DayCount,
    QueuePage,
    QueueRow,
    ReopenCase,
    SavedView,
    SetDisposition,
    SetStatus,
    UndoDecision,
)
from fingerprint.core.errors import FingerprintError, NotFound
from fingerprint.core.sanitize import storable
from fingerprint.store import queue
from tests.contracts.alert_store import judged, only_events
from tests.support.alerts import ACCOUNT, DRIVERS, NASTY, START, event, nasty, new_pipeline, stolen_session
from tests.support.dump_tables import dump_tables

HUMANS = ("maria", "Ömer ÇELİK", "straße", "kim", "")
SERVICES = ("iam", "s3", "ec2", "sts")
TACTICS = ("Discovery", "Persistence", "Impact")
QUERIES = (  # each finds some of the alerts below, and leaves some
    "100%", "called iam", "ömer ç", "-tried_it", '"tried it"', "action:iam:Call", "action:(IAM:call, s3:Call)", "action:iam:*",
    "-service:(iam, s3)", "service:*a*", "account:2109*", "tactic:impact -tactic:Discovery", "principal:a", "principal:user/a*",
    "-principal:(a, b)", "person:maria", "person:none", "severity>=high", "severity:medium", "urgency<50", "urgency>=75",
    "called -iam", 'called -ömer -"maria iam"', "called -principal:*b", "-principal:*a -service:s*", "person:*ia",
    "-(called, tried_it)",
    "judged:(peer, generic)", "decision:none", "decision:(benign, true_positive)", "assignee:maria", "assignee:none",
)  # fmt: skip
ORDERS = ("urgency", "newest", "oldest", "events", "lowest", "fewest")


def many(count: int = 60, seed: int = 7) -> list[Alert]:
    """Alerts that differ in all that a queue is filtered by, with ties in all that it is sorted by."""
    draw = random.Random(seed)
    return [_drawn(draw, number) for number in range(count)]


def _drawn(draw: random.Random, number: int) -> Alert:
    account, first = draw.choice((ACCOUNT, "210987654321")), draw.randrange(5) * 600
    calls = [(draw.choice(SERVICES), minute) for minute in range(draw.randrange(1, 5))]
    events = tuple(
        event(first + minute, service, "Call", parameters={"n": number}) for service, minute in calls
    )
    return stolen_session(
        alert_id=f"{number:04x}{draw.randrange(16**4):04x}",
        principal=f"{account}:user/{draw.choice('abc')}",
        human=draw.choice(HUMANS),
        urgency=draw.choice((10, 35, 50, 50, 75, 90)),
        title=draw.choice(("called 100% more", "tried_it", "a\\b", "Called IAM")),
        level=draw.choice(("entity", "principal", "peer", "generic")),
        tactics=tuple(draw.sample(TACTICS, draw.randrange(3))),
        events=events,
        first_event_time=events[0].event_time,
        last_event_time=events[-1].event_time,
    )


def by_severity(rows: list[QueueRow]) -> tuple[int, ...]:
    """How many rows are critical, high, medium and low."""
    counted = Counter(severity_of(row.urgency) for row in rows)
    return tuple(counted[word] for _, word in SEVERITY_LEVELS)


def seen(row: QueueRow) -> AlertRevision:
    return AlertRevision(row.alert_id, row.version, row.events)


def touch(store, alert: Alert, change, by: str = "maria") -> ActionOutcome:
    """One change of an alert as it is now."""
    (outcome,) = store.cases.change([seen(store.queue.row(alert.alert_id))], change, by)
    assert outcome.done, outcome.reason
    return outcome


def everything(store, which: AlertFilter, order="urgency", size: int = 7) -> list[QueueRow]:
    """All pages, one after the other."""
    rows: list[QueueRow] = []
    following = None
    while True:
        page = store.queue.page(which, order, size, following)
        rows += page.rows
        if page.following is None:
            assert len(rows) == page.total
            return rows
        assert len(page.rows) == size
        following = page.following


def asks_for(which: AlertFilter, row: QueueRow) -> bool:
    """A filter, read row by row."""
    return (
        (which.status == "all" or which.status in STATUSES[row.open, row.in_progress])
        and which.least_urgency <= row.urgency <= which.most_urgency
        and which.principal in ("", row.principal)
        and (not which.service or which.service in row.services)
        and (not which.account or which.account in row.accounts)
        and (not which.tactic or which.tactic in row.tactics)
        and which.assignee in (None, row.assignee)
        and which.decision in (None, row.decision)
        and which.level in (None, row.level)
        and all(term.negated != any_holds(term, row) for term in parse_alert_query(which.q))
        and (which.since is None or row.last_event_time >= which.since)
        and (which.day is None or row.last_event_time.date() == which.day)
        and (which.until is None or row.first_event_time <= which.until)
    )


STATUSES = {
    (True, False): ("open", "new"),
    (True, True): ("open", "in_progress"),
    (False, False): ("closed",),
}


def any_holds(term: Term, row: QueueRow) -> bool:
    """One term of a query, read row by row; a Unicode letter may be small or capital in either."""
    own = {
        "action": {*row.actions, *(each.partition(":")[2] for each in row.actions)},
        "service": row.services, "account": row.accounts, "tactic": row.tactics, "address": row.addresses,
        "region": row.regions, "person": (row.human or "none",), "assignee": (row.assignee or "none",), "judged": (row.level,),
        "decision": (row.decision or "none",),
        "principal": {row.principal, row.principal.partition(":")[2], row.principal.rpartition("/")[2]},
    }  # fmt: skip
    if term.field == "":
        texts = (
            row.title,
            row.principal,
            row.human,
            row.alert_id,
            *row.actions,
            *row.addresses,
            *row.regions,
        )
        words = [word for text in texts for word in words_of(text)]
        return any(
            all(any(each.startswith(one) for each in words) for one in query_words(v)) for v in term.values
        )
    if term.field in ("urgency", "severity"):
        least = [int(MINIMUM_URGENCY.get(value, value)) for value in term.values]
        if term.field == "severity" and term.compare == ":":
            return severity_of(row.urgency) in term.values
        return {">=": row.urgency >= least[0], "<": row.urgency < least[0]}[term.compare]
    return any(fnmatchcase(each.lower(), value.lower()) for each in own[term.field] for value in term.values)


SORTED = {
    "urgency": lambda row: (-row.urgency, row.first_event_time, row.alert_id),
    "newest": lambda row: (-row.last_event_time.timestamp(), row.alert_id),
    "oldest": lambda row: (row.first_event_time, row.alert_id),
    "events": lambda row: (-row.events, row.first_event_time, row.alert_id),
}
REVERSED = {"lowest": "urgency", "fewest": "events"}


def drawn_filter(draw: random.Random) -> AlertFilter:
    """One that asks two things of all that can be asked."""
    moment = START + timedelta(hours=2, minutes=draw.randrange(5) * 600)
    values = {
        "status": ["open", "new", "in_progress", "closed", "all"],
        "least_urgency": [0, 36, 50],
        "most_urgency": [100, 50],
        "principal": [f"{ACCOUNT}:user/a", f"{ACCOUNT}:user/b"],
        "service": [*SERVICES, "lambda"],
        "account": [ACCOUNT, "210987654321"],
        "tactic": [*TACTICS],
        "assignee": ["", "maria"],
        "decision": ["benign", "true_positive"],
        "level": ["entity", "peer"],
        "q": QUERIES,
        "since": [moment],
        "until": [moment],
        "day": [moment.date()],
    }
    names = draw.sample(sorted(values), 2)
    asked = {"status": draw.choice(values["status"])} | {name: draw.choice(values[name]) for name in names}
    return AlertFilter(**asked)


class QueueContract:
    """Run by each alert store of tests/store/test_queue.py."""

    @pytest.fixture(scope="class")
    @classmethod
    def busy(cls, make_shared):
        """An alert store in the middle of a morning: some alerts have an assignee, some are closed, some have grown since."""
        store, alerts = make_shared(), many()
        store.alerts.save([only_events(each, 0, 1) for each in alerts])
        for place, alert in enumerate(alerts):
            if place % 3 == 0:
                touch(store, alert, AssignCase("maria"))
            if place % 4 == 1:
                touch(
                    store,
                    alert,
                    SetDisposition("benign" if place % 8 == 1 else "true_positive", "it was her"),
                )
        store.alerts.save(alerts)
        return store

    # --- what is seen -------------------------------------------------------------------------------------------------

    def test_a_technique_finds_the_alerts_with_a_call_of_it_or_of_its_sub_techniques(self, make_store):
        store, stolen, other = make_store(), stolen_session(), new_pipeline()
        store.alerts.save([stolen, other])

        def found(query):
            return {row.alert_id for row in store.queue.page(AlertFilter(q=query)).rows}

        assert found("technique:T1562.008") == found("technique:T1562") == {stolen.alert_id}  # StopLogging
        assert found("technique:(t1562.0*, T9999)") == {stolen.alert_id}
        assert found("-technique:T1562") == {other.alert_id}
        assert found("technique:T156") == set()
        assert store.queue.suggest("technique", "t1562", 10) == ["T1562", "T1562.008"]

    def test_an_action_is_found_as_titles_call_it_and_as_the_log_does(self, make_store):
        store, versioned = make_store(), event(0, "lambda", "GetFunction20150331v2")
        changed = replace(stolen_session(), events=(versioned,))
        store.alerts.save([changed, new_pipeline()])
        for asked in (
            "GetFunction",
            "lambda:GetFunction",
            "GetFunction20150331v2",
            "lambda:GetFunction20150331v2",
        ):
            found = store.queue.page(AlertFilter(q=f"action:{asked}")).rows
            assert [row.alert_id for row in found] == [changed.alert_id]
        assert not store.queue.page(AlertFilter(q="action:GetFunctio")).rows

    def test_a_status_in_the_query_says_which_instead_of_the_tab_of_open_ones(self, make_store):
        store, stolen, other = make_store(), stolen_session(), new_pipeline()
        store.alerts.save([stolen, other])

        def found(query, status="open"):
            page = store.queue.page(AlertFilter(status=status, q=query))
            return [row.alert_id for row in page.rows]

        touch(store, stolen, SetDisposition("benign", "asked her"))
        touch(store, other, SetStatus("in_progress"))
        assert found("status:closed") == found("-status:in-progress", "all") == [stolen.alert_id]
        assert found("status:in_progress") == found("-status:(closed, new)") == [other.alert_id]
        assert found("status:new") == found("status:closed", "new") == []
        touch(store, other, SetStatus("new"))
        assert found("status:new") == [other.alert_id]

    def test_a_row_says_what_an_alert_is_and_what_became_of_it(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        (row,) = store.queue.page(AlertFilter()).rows
        assert row == QueueRow(
            alert.alert_id, 0, 91, 91, 0, alert.title, alert.principal, alert.human, "entity", False,
            alert.bank_version, alert.window_start, alert.first_event_time, alert.last_event_time, 9,
            ("cloudtrail", "ec2", "iam", "secretsmanager", "sts"), (ACCOUNT,), tuple(sorted(alert.tactics)),
            store.session.now(), alert.alert_id, 1, True,
            actions=tuple(sorted({f"{each.service}:{each.action}" for each in alert.events})),
            addresses=tuple(sorted({each.source_address for each in alert.events})),
            regions=tuple(sorted({each.region for each in alert.events})),
            rarity=84, impact=88, gravest_action="ec2:ModifySnapshotAttribute",
        )  # fmt: skip
        touch(store, alert, AssignCase("kim"))
        touch(store, alert, SetDisposition("benign", "asked her"))
        store.cases.add_note(alert.alert_id, "a new laptop", "maria")
        changed = replace(row, version=2, assignee="kim", decision="benign", open=False, notes=1)
        assert store.queue.row(alert.alert_id) == changed
        with pytest.raises(NotFound):
            store.queue.row("nothing")

    @pytest.mark.parametrize("order", ORDERS)
    def test_filters_and_pages_give_what_reading_row_by_row_gives(self, busy, order):
        rows = everything(busy, AlertFilter(status="all"), order, size=500)
        assert rows == sorted(rows, key=SORTED[REVERSED.get(order, order)], reverse=order in REVERSED)
        assert Counter(row.open for row in rows)[False] > 3
        draw, found = random.Random(REVERSED.get(order, order)), 0
        for _ in range(9):
            which = drawn_filter(draw)
            wanted = [row for row in rows if asks_for(which, row)]
            assert everything(busy, which, order) == wanted, which
            assert busy.queue.ids(which, order) == [row.alert_id for row in wanted]
            found += len(wanted)
        assert found > 25

    def test_a_page_is_the_same_however_many_alerts_it_is_said_to_be_of(self, busy, monkeypatch):
        """Of many alerts each is asked for its own values, of few all that have a value are listed: a query of its own."""
        draw = random.Random(9)
        filters = [
            *(AlertFilter("all", q=query) for query in QUERIES),
            *(drawn_filter(draw) for _ in range(12)),
        ]
        listed = [busy.queue.page(which, size=100) for which in filters]
        monkeypatch.setattr(queue, "MANY_ALERTS", 0)
        for which, page in zip(filters, listed, strict=True):
            assert busy.queue.page(which, size=100, total=page.total) == page, which
            assert busy.queue.page(which, size=100, total=max(page.total, 1)).rows == page.rows, which

    @pytest.mark.parametrize("order", ORDERS)
    def test_the_first_rows_are_those_of_the_first_page(self, busy, order):
        which = AlertFilter(status="open")
        assert busy.queue.first_rows(which, order, 7) == list(busy.queue.page(which, order, 7).rows)

    def test_a_page_that_is_known_to_be_empty_is_not_read_and_its_cursor_is_checked_all_the_same(self, busy):
        which = AlertFilter("all")
        assert busy.queue.page(which, total=0) == QueuePage((), 0, None)
        with pytest.raises(FingerprintError, match="no page begins there"):
            busy.queue.page(which, total=0, cursor="W10")

    def test_every_filter_finds_some_and_leaves_some(self, busy):
        for which in (
            AlertFilter(), AlertFilter(status="closed"), AlertFilter("new"), AlertFilter("in_progress"),
            AlertFilter(least_urgency=50), AlertFilter(most_urgency=49),
            AlertFilter(service="iam"), AlertFilter(account=ACCOUNT), AlertFilter(tactic="Impact"), AlertFilter(assignee="maria"),
            AlertFilter(assignee=""), AlertFilter("all", decision="benign"), AlertFilter(level="peer"),
            *(AlertFilter(q=query) for query in QUERIES),
            AlertFilter(since=START + timedelta(days=1)), AlertFilter(until=START + timedelta(days=1)),
        ):  # fmt: skip
            assert 0 < busy.queue.page(which).total < 60, which

    def test_counts_are_those_of_the_rows(self, busy):
        draw = random.Random(3)
        for which in [AlertFilter(), *(drawn_filter(draw) for _ in range(12))]:
            rows = everything(busy, replace(which, status="all"))
            left = [row for row in rows if row.open]
            wanted = dict.fromkeys([word for _, word in SEVERITY_LEVELS], 0) | Counter(
                severity_of(row.urgency) for row in left
            )
            started = sum(row.in_progress for row in left)
            wanted |= {"new": len(left) - started, "in_progress": started}
            wanted |= {"open": len(left), "closed": len(rows) - len(left), "suppressed": 0}
            counts = busy.queue.counts(which)
            assert counts == wanted | {"unassigned": sum(not row.assignee for row in left)}
            for status in get_args(CaseStatus):
                of_status = replace(which, status=status)
                assert of_status.total_in(counts) == busy.queue.page(of_status).total, status
            for q in ("status:closed", "status:(new, closed)", "-status:closed"):
                asked = replace(which, status="open", q=q)
                assert asked.total_in(busy.queue.counts(asked)) == busy.queue.page(asked).total, q
            assert replace(which, suppressed=True).total_in(counts) is None

    def test_counts_by_day_are_those_of_the_rows(self, busy):
        """The clock stands years later, so the days end with the newest alert's."""
        draw = random.Random(5)
        last = max(row.last_event_time for row in everything(busy, AlertFilter("all"))).date()
        filters = [replace(drawn_filter(draw), since=None, until=None, day=None) for _ in range(8)]
        for which in [AlertFilter(), AlertFilter("closed"), *filters]:
            found = busy.queue.daily_counts(replace(which, since=START, until=START, day=START.date()), 5)
            assert [each.day for each in found] == [last - timedelta(days=4 - at) for at in range(5)]
            rows = everything(busy, which)
            for each in found:
                own = [row for row in rows if row.last_event_time.date() == each.day]
                assert each == DayCount(each.day, by_severity(own))
        assert sum(each.total for each in busy.queue.daily_counts(AlertFilter("all"), 30)) == 60
        for days in (0, 367):
            with pytest.raises(FingerprintError, match="over 1 to 366 days"):
                busy.queue.daily_counts(AlertFilter(), days)

    def test_the_alerts_of_a_day_are_those_that_groups_and_the_trend_count(self, make_store):
        store, alert = make_store(), stolen_session()
        over_midnight = replace(alert, alert_id="over", last_event_time=START + timedelta(days=1))
        store.alerts.save([replace(alert, last_event_time=START), over_midnight])
        days = {group.values[0]: group.alerts for group in store.queue.groups(AlertFilter(), ["day"])}
        assert set(days.values()) == {1}
        for number in range(2):
            day = START.date() + timedelta(days=number)
            assert store.queue.page(AlertFilter(day=day)).total == days[day.isoformat()]
        assert store.queue.page(AlertFilter(day=date.max)).total == 0

    def test_counts_by_day_end_today_where_an_alert_is_recent(self, make_store):
        store = make_store()
        today = store.session.now().date()
        assert store.queue.daily_counts(AlertFilter(), 2) == [
            DayCount(today - timedelta(days=1), (0, 0, 0, 0)), DayCount(today, (0, 0, 0, 0)),
        ]  # fmt: skip
        at = store.session.now() - timedelta(days=2)
        store.alerts.save([stolen_session(window_start=at, first_event_time=at, last_event_time=at)])
        assert [each.severities[0] for each in store.queue.daily_counts(AlertFilter(), 4)] == [0, 1, 0, 0]

    @pytest.mark.parametrize(
        "by",
        [("principal",), ("service",), ("tactic", "account"), ("assignee", "level", "day"), ("human",)],
        ids=" ".join,
    )
    def test_groups_are_those_of_the_rows(self, busy, by):
        which, groups = AlertFilter(least_urgency=35), {}
        for row in everything(busy, which):
            several = {"service": row.services, "account": row.accounts, "tactic": row.tactics}
            several |= {"day": (f"{row.last_event_time:%Y-%m-%d}",)}
            fields = (several.get(field, (getattr(row, field, None),)) or ("",) for field in by)
            for values in itertools.product(*fields):
                groups.setdefault(values, []).append(row)
        wanted = {
            AlertGroup(
                values, len(rows), max(row.urgency for row in rows),
                min(row.first_event_time for row in rows), max(row.last_event_time for row in rows), by_severity(rows),
            )
            for values, rows in groups.items()
        }  # fmt: skip
        found = busy.queue.groups(which, by)
        assert set(found) == wanted
        assert len(found) == len(wanted) > 1
        urgency = [(group.urgency, group.alerts) for group in found]
        assert urgency == sorted(urgency, reverse=True)
        assert busy.queue.groups(which, by, limit=2) == found[:2]

    @pytest.mark.parametrize("by", [(), ("service", "service"), ("service", "day", "human", "level")])
    def test_groups_of_no_field_or_of_too_many_are_refused(self, busy, by):
        with pytest.raises(FingerprintError, match="grouped by 1 to 3"):
            busy.queue.groups(AlertFilter(), by)

    @pytest.mark.parametrize(
        ("field", "column"),
        [
            ("action", "action"),
            ("service", "service"),
            ("address", "source_address"),
            ("region", "region"),
            ("agent", "user_agent"),
        ],
    )
    def test_what_alerts_hold_is_suggested_by_its_beginning_each_value_once(self, busy, field, column):
        values = {getattr(event, column) for alert in many() for event in alert.events} - {""}
        assert values
        for begins in {"", *(value[:3].upper() for value in values)}:
            fitting = sorted((v for v in values if v.lower().startswith(begins.lower())), key=str.lower)
            assert busy.queue.suggest(field, begins, 7) == fitting[:7]

    def test_calls_of_a_service_are_suggested_and_fields_without_values_have_none(self, busy):
        event = many()[0].events[0]
        call = f"{event.service}:{event.action}"
        assert call in busy.queue.suggest("action", call[:-2], 500)
        assert busy.queue.suggest("urgency", "") == busy.queue.suggest("call", "") == []
        assert busy.queue.suggest("action", "%") == busy.queue.suggest("action", "*") == []

    @pytest.mark.parametrize("nasty", NASTY)
    def test_any_text_may_begin_a_suggestion(self, busy, nasty):
        for field in ("action", "resource", nasty):
            found = busy.queue.suggest(field, nasty)
            assert len(found) <= 10

    def test_an_alert_that_comes_in_above_pushes_no_row_onto_the_next_page(self, make_store):
        store, alerts = make_store(), many(10)
        store.alerts.save(alerts)
        first = store.queue.page(AlertFilter(), size=4)
        store.alerts.save([stolen_session(urgency=100)])
        second = store.queue.page(AlertFilter(), size=20, cursor=first.following)
        assert [row.alert_id for row in (*first.rows, *second.rows)] == [
            row.alert_id for row in everything(store, AlertFilter()) if row.urgency < 100
        ]
        assert second.following is None

    def test_a_place_that_no_page_of_this_filter_gave_is_refused_in_one_sentence(self, busy):
        place = busy.queue.page(AlertFilter(), "urgency", 5).following
        for which, order, following in (
            (AlertFilter(), "newest", place),
            (AlertFilter(service="iam"), "urgency", place),
            *(
                (AlertFilter(), "urgency", each)
                for each in ("", "x", "=", "AAAA", place[:-4], place + "AAAA", "\0", "ä")
            ),
            *((AlertFilter(), "urgency", text) for text in NASTY if text),
        ):
            with pytest.raises(FingerprintError, match="`following`"):
                busy.queue.page(which, order, 5, following)

    @pytest.mark.parametrize("size", [0, -1, 501])
    def test_a_page_that_is_too_large_is_refused(self, busy, size):
        with pytest.raises(FingerprintError, match="1 to 500"):
            busy.queue.page(AlertFilter(), size=size)

    @pytest.fixture(scope="class")
    @classmethod
    def hostile(cls, make_shared):
        """An alert store with an alert for each nasty text, its number as the id."""
        store = make_shared()
        store.alerts.save([replace(nasty(text), alert_id=f"{place:02d}") for place, text in enumerate(NASTY)])
        return store

    @pytest.mark.parametrize("place", range(len(NASTY)))
    def test_whatever_an_attacker_wrote_can_be_asked_for_and_is_found_as_text(self, hostile, place):
        text, own = NASTY[place], f"{place:02d}"
        for name in ("principal", "service", "tactic") if text else ():
            assert [row.alert_id for row in hostile.queue.page(AlertFilter("all", **{name: text})).rows] == [
                own
            ], name
        assert storable(text) in {
            group.values[0] for group in hostile.queue.groups(AlertFilter("all"), ["human"])
        }
        assert hostile.queue.page(AlertFilter("all", assignee=text or "stranger")).total == 0
        if text:
            by = text[:400]
            for change in (AssignCase(by), SetDisposition("benign", text), ReopenCase(text), AssignCase(by)):
                touch(hostile, hostile.alerts.get(own), change, by)
            hostile.cases.add_note(own, by + "x", by)
            assert [row.alert_id for row in hostile.queue.page(AlertFilter("all", assignee=by)).rows] == [own]
            assert {entry.by for entry in hostile.audit.entries(own)} == {storable(by)}

    # --- what is done -------------------------------------------------------------------------------------------------

    def test_of_two_who_decide_at_once_one_wins_and_the_other_hears_of_it(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        chosen = [seen(store.queue.row(alert.alert_id))]
        assert store.cases.change(chosen, SetDisposition("benign", "a test"), "maria") == [
            ActionOutcome(alert.alert_id, True, 1)
        ]
        late = ActionOutcome(alert.alert_id, False, 1, "maria changed it since")
        assert store.cases.change(chosen, SetDisposition("true_positive"), "kim") == [late]
        assert store.cases.change(chosen, AssignCase("kim"), "kim") == [late]
        assert store.cases.current_decisions() == {alert.alert_id: "benign"}
        assert [said.by for said in store.cases.dispositions()] == ["maria"]
        assert [entry.by for entry in store.audit.entries(alert.alert_id)] == ["maria"]

    def test_a_change_of_many_is_done_to_each_that_is_still_as_it_was_seen(self, make_store):
        store = make_store()
        store.alerts.save(many(6))
        rows = store.queue.page(AlertFilter(), size=6).rows
        taken = store.alerts.get(rows[2].alert_id)
        touch(store, taken, AssignCase("kim"), "kim")
        chosen = [*map(seen, rows), AlertRevision("nothing", 0), seen(rows[0])]
        outcomes = store.cases.change(chosen, SetDisposition("false_positive", "the scanner"), "maria")
        assert [each.alert_id for each in outcomes] == [each.alert_id for each in chosen]
        refused = {(each.alert_id, each.version, each.reason) for each in outcomes if not each.done}
        assert refused == {
            (taken.alert_id, 1, "kim changed it since"),
            ("nothing", -1, "there is no such alert"),
            (rows[0].alert_id, 1, "maria changed it since"),  # it was chosen twice
        }
        done = {each.alert_id for each in outcomes if each.done}
        assert store.cases.current_decisions() == dict.fromkeys(done, "false_positive")
        assert {said.alert_id: said.why for said in store.cases.dispositions()} == dict.fromkeys(
            done, "the scanner"
        )
        assert store.queue.page(AlertFilter("closed"), size=10).total == 5

    def test_too_many_at_once_are_refused(self, make_store):
        with pytest.raises(FingerprintError, match="at most 500"):
            make_store().cases.change([AlertRevision("a", 0)] * 501, AssignCase("maria"), "maria")

    def test_what_grew_after_someone_looked_stays_open(self, make_store):
        """They decide over what they saw, and the rest is shown to them."""
        store, whole = make_store(), stolen_session()
        store.alerts.save([only_events(whole, 0, 4)])
        chosen = [seen(store.queue.row(whole.alert_id))]
        store.alerts.save([whole])
        assert store.cases.change(chosen, SetDisposition("benign"), "maria")[0].done
        row = store.queue.row(whole.alert_id)
        assert (row.open, row.grown, row.decision) == (True, 5, "benign")
        assert store.cases.current_decisions() == {}
        touch(store, whole, SetDisposition("true_positive"))
        assert (store.queue.row(whole.alert_id).open, store.queue.row(whole.alert_id).grown) == (False, 0)
        assert store.cases.current_decisions() == {whole.alert_id: "true_positive"}

    def test_scoring_again_touches_no_ones_work(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        touch(store, alert, AssignCase("kim"))
        touch(store, alert, SetDisposition("benign"))
        before = store.queue.row(alert.alert_id)
        store.alerts.save([alert])
        store.alerts.save([replace(alert, urgency=60)])
        assert store.queue.row(alert.alert_id) == replace(before, urgency=60, own_urgency=60)

    def test_what_was_opened_again_is_open_for_the_next_training_too(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        touch(store, alert, SetDisposition("benign"))
        touch(store, alert, ReopenCase("it was not her after all"))
        row = store.queue.row(alert.alert_id)
        assert (row.open, row.decision, row.grown, row.version) == (True, None, 0, 2)
        assert store.cases.current_decisions() == {}
        assert len(store.feedback.decided_entities(datetime.max.replace(tzinfo=UTC))) == 0
        assert [said.decision for said in store.cases.dispositions()] == ["benign"]  # it stays in the history
        touch(store, alert, SetDisposition("true_positive"))
        assert store.cases.current_decisions() == {alert.alert_id: "true_positive"}

    def test_what_no_one_decided_cannot_be_opened_again(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        refused = ActionOutcome(alert.alert_id, False, 0, "it is not decided")
        assert store.cases.change([AlertRevision(alert.alert_id, 0)], ReopenCase(), "maria") == [refused]

    def test_a_duplicate_is_closed_and_names_its_original(self, make_store):
        store, one, other = make_store(), stolen_session(), new_pipeline()
        store.alerts.save([one, other])
        touch(store, other, SetDisposition("duplicate", duplicate_of=one.alert_id[:4]))
        assert [row.alert_id for row in store.queue.page(AlertFilter()).rows] == [one.alert_id]
        assert store.cases.dispositions()[0].duplicate_of == one.alert_id
        assert (
            store.cases.current_decisions() == {}
        )  # for learning it stands as its original, and that is open
        touch(store, one, SetDisposition("true_positive"))
        assert store.cases.current_decisions() == dict.fromkeys(
            [one.alert_id, other.alert_id], "true_positive"
        )

    def test_nothing_is_its_own_duplicate_nor_goes_round(self, make_store):
        store, one, other = make_store(), stolen_session(), new_pipeline()
        store.alerts.save([one, other])
        touch(store, other, SetDisposition("duplicate", duplicate_of=one.alert_id))
        chosen = [seen(store.queue.row(each.alert_id)) for each in (one, other)]
        for original in (one, other):
            outcomes = store.cases.change(
                [chosen[0]], SetDisposition("duplicate", duplicate_of=original.alert_id), "kim"
            )
            assert [each.done for each in outcomes] == [False]
            assert "duplicate of itself" in outcomes[0].reason
            round_again = judged(one, "duplicate", duplicate_of=original.alert_id)
            with pytest.raises(FingerprintError, match="duplicate of itself, or of its own duplicate"):
                store.cases.add_disposition(round_again)

    def test_a_change_that_could_be_done_to_none_is_refused_and_changes_nothing(self, make_store):
        store = make_store()
        store.alerts.save([stolen_session()])
        before = dump_tables(store)
        for change in (
            SetDisposition("duplicate"),
            SetDisposition("duplicate", duplicate_of="nothing"),
            SetDisposition("benign", duplicate_of="3f"),
            AssignCase("m" * 501),
        ):
            with pytest.raises(FingerprintError):
                store.cases.change([AlertRevision(stolen_session().alert_id, 0)], change, "maria")
            assert dump_tables(store) == before, change

    def test_what_came_in_by_the_command_line_is_seen_in_the_queue(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        newer, older = judged(alert, "true_positive", 5), judged(alert, "benign", 1)
        store.cases.add_disposition(newer)
        store.cases.add_disposition(newer)
        row = store.queue.row(alert.alert_id)
        assert (row.version, row.decision, row.open) == (1, "true_positive", False)
        store.cases.add_disposition(older)  # it came late, and is history
        assert store.queue.row(alert.alert_id) == row
        assert store.cases.current_decisions() == {alert.alert_id: "true_positive"}
        assert [entry.action for entry in store.audit.entries(alert.alert_id)] == ["alert.decide"] * 2
        touch(store, alert, ReopenCase())
        assert store.queue.row(alert.alert_id).open

    def test_undo_restores_the_decision_before(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        touch(store, alert, SetDisposition("true_positive", "a stolen key"), "lead")
        before = store.queue.row(alert.alert_id)
        touch(store, alert, SetDisposition("benign", "a slip"), "maria")
        touch(store, alert, SetDisposition("false_positive", "another"), "maria")
        for _ in range(2):
            touch(store, alert, UndoDecision(), "maria")
        row = store.queue.row(alert.alert_id)
        assert row == replace(before, version=row.version)
        assert [said.by for said in store.cases.dispositions(alert.alert_id)] == ["lead"]
        assert store.cases.current_decisions() == {alert.alert_id: "true_positive"}
        line = store.audit.entries(alert.alert_id)[0]
        assert (line.action, line.detail["undone"], line.detail["decision"]) == (
            "alert.undo",
            "benign",
            "true_positive",
        )
        touch(store, alert, UndoDecision(), "maria")
        assert store.queue.row(alert.alert_id).open
        refused = ActionOutcome(alert.alert_id, False, 6, "it is not decided")
        assert store.cases.change([AlertRevision(alert.alert_id, 6)], UndoDecision(), "maria") == [refused]

    def test_undo_leaves_an_alert_open_that_was_reopened_before(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        for change in (
            SetDisposition("true_positive"),
            ReopenCase(),
            SetDisposition("benign"),
            UndoDecision(),
        ):
            touch(store, alert, change)
        assert store.queue.row(alert.alert_id).decision is None
        assert store.cases.current_decisions() == {}

    def test_undo_restores_a_decision_that_came_by_the_command_line(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        store.cases.add_disposition(judged(alert, "true_positive", 1))
        store.cases.add_disposition(judged(alert, "benign", 5))
        touch(store, alert, UndoDecision())
        assert store.cases.current_decisions() == {alert.alert_id: "true_positive"}

    def test_undo_makes_no_circle_of_duplicates(self, make_store):
        store, one, other = make_store(), stolen_session(), new_pipeline()
        store.alerts.save([one, other])
        touch(store, one, SetDisposition("duplicate", "", other.alert_id))
        touch(store, one, SetDisposition("benign"))
        touch(store, other, SetDisposition("duplicate", "", one.alert_id))
        [outcome] = store.cases.change([AlertRevision(one.alert_id, 2)], UndoDecision(), "maria")
        assert (outcome.done, "of its own duplicate" in outcome.reason) == (False, True)

    def test_decisions_follow_each_other_though_clocks_differ(self, make_store):
        """Of two servers one is behind: what was decided last still counts last."""
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        touch(store, alert, SetDisposition("benign"), "maria")
        store.session.now.at -= timedelta(minutes=5)
        touch(store, alert, SetDisposition("true_positive"), "kim")
        assert [said.by for said in store.cases.dispositions(alert.alert_id)] == ["maria", "kim"]
        assert store.cases.current_decisions() == {alert.alert_id: "true_positive"}

    # --- the audit ------------------------------------------------------------------------------------------------------

    def test_every_change_has_its_line_in_the_audit_the_newest_first(self, make_store):
        store, alert, other = make_store(), stolen_session(), new_pipeline()
        store.alerts.save([alert, other])
        touch(store, alert, AssignCase("kim"), "maria")
        touch(store, alert, SetDisposition("duplicate", "the same", other.alert_id), "kim")
        touch(store, alert, ReopenCase("no, it differs"), "kim")
        store.cases.add_note(alert.alert_id, "ask her", "maria")
        store.views.save(SavedView("maria", "mine", "assignee=maria"))
        store.views.delete("maria", "mine")
        lines = store.audit.entries()
        assert [(line.by, line.action, line.target) for line in lines] == [
            ("maria", "view.delete", "mine"),
            ("maria", "view.save", "mine"),
            ("maria", "alert.note", alert.alert_id),
            ("kim", "alert.reopen", alert.alert_id),
            ("kim", "alert.decide", alert.alert_id),
            ("maria", "alert.assign", alert.alert_id),
        ]
        decided = {"decision": "duplicate", "why": "the same", "duplicate_of": other.alert_id, "events": 9}
        assert [line.detail for line in lines[3:]] == [{"why": "no, it differs"}, decided, {"to": "kim"}]
        assert "maria" not in str(
            lines[1].detail
        )  # a query may name a principal, and the audit is never erased
        assert lines[3].at > lines[4].at  # though the clock stood still: a decision follows the one before
        assert store.audit.entries(alert.alert_id) == lines[2:]
        assert store.audit.entries(limit=2) == lines[:2]
        assert store.audit.entries(limit=2, before=lines[1].number) == lines[2:4]
        assert store.audit.entries("nothing") == []
        assert store.audit.find(AuditFilter(action="alert.note")) == [
            line for line in lines if line.action == "alert.note"
        ]
        assert store.audit.find(AuditFilter(by="maria", action="alert"), before=lines[0].number) == [
            line for line in lines[1:] if line.by == "maria" and line.action.startswith("alert.")
        ]
        first = min(line.at for line in lines)
        assert store.audit.find(AuditFilter(since=first, until=first)) == [x for x in lines if x.at == first]
        assert store.audit.find(AuditFilter(action="aler_")) == []

    def test_a_refused_change_leaves_no_line(self, make_store):
        store = make_store()
        store.alerts.save([stolen_session()])
        store.cases.change([AlertRevision(stolen_session().alert_id, 3)], AssignCase("kim"), "kim")
        assert store.audit.entries() == []

    # --- notes, views, alerts alike -----------------------------------------------------------------------------------

    def test_notes_are_read_in_the_order_in_which_they_were_written(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        first = store.cases.add_note(alert.alert_id, "  asked her \u202e\n", "maria")
        store.session.now.at += timedelta(seconds=1)
        second = store.cases.add_note(alert.alert_id, "she is at home", "kim")
        assert store.cases.notes(alert.alert_id) == [first, second]
        assert (first.text, first.by, second.at - first.at) == (
            "asked her \u202e",
            "maria",
            timedelta(seconds=1),
        )
        assert store.queue.row(alert.alert_id).notes == 2
        assert store.queue.row(alert.alert_id).version == 0  # a note is in no one's way
        assert store.cases.notes("nothing") == []

    def test_a_note_without_text_or_alert_is_refused(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        for alert_id, text in (
            ("nothing", "a note"),
            (alert.alert_id, " \n"),
            (alert.alert_id, "x" * 20_001),
        ):
            with pytest.raises(FingerprintError):
                store.cases.add_note(alert_id, text, "maria")
            assert store.audit.entries() == []

    def test_several_alerts_get_a_note_at_once_and_a_missing_one_is_named(self, make_store):
        store, one, other = make_store(), stolen_session(), new_pipeline()
        store.alerts.save([one, other])
        asked = [AlertRevision(each, 0) for each in (one.alert_id, "gone", other.alert_id)]
        found = store.cases.add_notes(asked, "asked her", "maria")
        assert [(each.alert_id, each.done) for each in found] == [
            (one.alert_id, True),
            ("gone", False),
            (other.alert_id, True),
        ]
        notes = [store.cases.notes(alert.alert_id) for alert in (one, other)]
        assert [[note.text for note in each] for each in notes] == [["asked her"]] * 2
        with pytest.raises(FingerprintError):
            store.cases.add_notes(asked, " ", "maria")

    def test_filters_are_kept_by_person_and_name(self, make_store):
        store = make_store()
        for owner, name, query in (
            ("maria", "mine", "assignee=maria"),
            ("maria", "iam", "service=iam"),
            ("kim", "mine", "assignee=kim"),
            ("maria", "mine", "assignee=maria&status=open"),
        ):
            store.views.save(SavedView(owner, name, query))
        mine = SavedView("maria", "mine", "assignee=maria&status=open")
        assert store.views.of_owner("maria") == [SavedView("maria", "iam", "service=iam"), mine]
        store.views.delete("maria", "iam")
        store.views.delete("maria", "iam")
        assert store.views.of_owner("maria") == [mine]
        assert store.views.of_owner("kim") == [SavedView("kim", "mine", "assignee=kim")]

    def test_a_view_without_name_or_query_is_refused(self, make_store):
        store = make_store()
        for name, query in (("", "a"), (" ", "a"), ("n" * 101, "a"), ("n", ""), ("n", "q" * 4001)):
            with pytest.raises(FingerprintError, match="of a view"):
                store.views.save(SavedView("maria", name, query))

    def test_alerts_alike_share_the_strongest_surprises_those_of_the_same_principal_first(self, make_store):
        store, alert = make_store(), stolen_session()
        hers = stolen_session(
            alert_id="a1", drivers=DRIVERS[:1], first_event_time=START, last_event_time=START
        )
        pipeline = new_pipeline()  # shares the second surprise
        weak = new_pipeline(alert_id="b2", drivers=DRIVERS[3:])  # shares only what hardly surprises
        other = new_pipeline(alert_id="c3", drivers=(replace(DRIVERS[0], seen="10.0.0.0/24"),))
        store.alerts.save([alert, hers, pipeline, weak, other])
        alike = store.queue.similar(alert.alert_id)
        assert [row.alert_id for row in alike] == ["a1", pipeline.alert_id]
        assert alike[0] == store.queue.row("a1")
        assert [row.alert_id for row in store.queue.similar(alert.alert_id, limit=1)] == ["a1"]
        store.alerts.save(
            [replace(pipeline, drivers=DRIVERS[3:])]
        )  # what surprised is not what surprises now
        assert [row.alert_id for row in store.queue.similar(alert.alert_id)] == ["a1"]
        with pytest.raises(NotFound):
            store.queue.similar("nothing")

    def test_of_alerts_alike_the_newest_come_first_whichever_surprise_they_share(self, make_store):
        store, alert = make_store(), stolen_session()
        others = [
            new_pipeline(
                alert_id=f"{number * 7 % 12:x}",
                principal=f"1:role/{number}",
                drivers=DRIVERS[number % 2 : number % 2 + 1],
                last_event_time=alert.last_event_time + timedelta(minutes=number // 3),
            )
            for number in range(12)
        ]
        hers = stolen_session(alert_id="a1", drivers=DRIVERS[:1], last_event_time=alert.last_event_time)
        store.alerts.save([alert, hers, *others])
        newest = sorted(others, key=lambda each: (-each.last_event_time.timestamp(), each.alert_id))
        for limit in (0, 1, 5, 20):
            alike = [row.alert_id for row in store.queue.similar(alert.alert_id, limit)]
            assert alike == ["a1", *(each.alert_id for each in newest)][:limit]

    def test_services_and_accounts_are_those_of_all_evidence_and_only_the_records_own(self, make_store):
        store, whole = make_store(), stolen_session()
        elsewhere = (
            '{"recipientAccountId":"999999999999","requestParameters":{"recipientAccountId":"888888888888"}}'
        )
        broken = replace(whole.events[8], raw='{"recipientAccountId":"777777777777"')
        named = replace(whole.events[0], raw='{"recipientAccountId":"stranger"}')
        store.alerts.save([replace(whole, events=(named,))])
        store.alerts.save([replace(whole, events=(replace(whole.events[1], raw=elsewhere), broken))])
        row = store.queue.row(whole.alert_id)
        assert (row.services, row.events) == (("cloudtrail", "iam", "sts"), 3)
        assert row.accounts == (ACCOUNT, "999999999999")

    def test_anyone_who_looks_on_hears_of_what_is_new_and_what_changed(self, make_store):
        store, alert, other = make_store(), stolen_session(), new_pipeline()
        store.alerts.save([only_events(alert, 0, 3), other])
        begun = store.changes.newest_number()
        assert {each.alert_id for each in store.changes.since(0)} == {alert.alert_id, other.alert_id}
        store.alerts.save([only_events(alert, 0, 3), other])  # nothing is new
        assert store.changes.since(begun) == []
        for change in (
            lambda: store.alerts.save([alert, other]),
            lambda: touch(store, alert, AssignCase("kim")),
            lambda: touch(store, alert, SetDisposition("benign")),
            lambda: touch(store, alert, ReopenCase()),
            lambda: store.cases.add_note(alert.alert_id, "a note", "kim"),
            lambda: store.cases.add_disposition(judged(alert, "benign")),
        ):
            before = store.changes.newest_number()
            change()
            assert [each.alert_id for each in store.changes.since(before)] == [alert.alert_id]
