"""What every alert store does, whatever database it stands on. A test class gives `make_store`: a function to a
fresh, open alert store."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from fingerprint.core.alert import Alert, Decision, Disposition, FeedGap
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Partition
from fingerprint.core.sanitize import storable
from fingerprint.store import schema
from tests.support.alerts import NASTY, event, nasty, new_pipeline, stolen_session, votes
from tests.support.dump_tables import dump_tables


def only_events(alert: Alert, first: int, last: int, **fields: object) -> Alert:
    """The alert as a run that saw only some of its events would make it."""
    events = alert.events[first:last]
    span = {"first_event_time": events[0].event_time, "last_event_time": events[-1].event_time}
    return replace(alert, events=events, **span | fields)


def heard(*rows: tuple[str, int, int]) -> pd.DataFrame:
    """What a partition heard of accounts: name, start of the interval, events."""
    feeds = pd.Series([name for name, _, _ in rows], dtype=object)
    at, events = ([row[place] for row in rows] for place in (1, 2))
    return pd.DataFrame({"kind": "account", "feed": feeds, "at": at, "events": events})


def notice(name: str = "a", **fields: object) -> FeedGap:
    moment = datetime(2026, 3, 4, 14, tzinfo=UTC)
    return replace(
        FeedGap(name, "account", "123456789012", moment, moment, 16.5, 2.25, 30, "is silent"), **fields
    )


def judged(alert: Alert, decision: Decision, minute: int = 0, **fields: object) -> Disposition:
    at = datetime(2026, 3, 6, 9, minute, tzinfo=UTC)
    return replace(Disposition(alert.alert_id, decision, "maria", "why not", at, len(alert.events)), **fields)


def words_of(store, since: datetime = datetime.min, until: datetime = datetime.max) -> dict[str, set[str]]:
    """Words of flagged events by the id of the event."""
    span = (each.replace(tzinfo=UTC) for each in (since, until))
    frames = [frame for frame in store.feedback.flagged_events(*span) if len(frame)]
    if not frames:
        return {}
    assert set(frames[0].columns) == {"event_id", "event_time", "entity", "label"}
    return pd.concat(frames).groupby("event_id")["label"].agg(set).to_dict()


class StoreContract:
    """Run by each alert store of tests/store/test_alerts.py."""

    def test_what_was_saved_comes_back_as_it_was(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert, new_pipeline()], votes(alert))
        assert store.alerts.by_urgency() == [alert, new_pipeline()]
        assert store.alerts.get(alert.alert_id) == alert

    def test_scoring_the_same_input_twice_changes_nothing_on_the_store(self, make_store):
        store, alerts = make_store(), [stolen_session(), new_pipeline(), nasty(NASTY[0])]
        seen = [vote for alert in alerts[:2] for vote in votes(alert)]
        store.alerts.save(alerts, seen)
        once = dump_tables(store)
        store.alerts.save(alerts, seen)
        store.alerts.save(alerts[::-1], seen[::-1])
        assert dump_tables(store) == once
        assert all(once[name] for name in ("alerts", "alert_events", "votes"))

    def test_a_fresh_store_is_empty(self, make_store):
        store = make_store()
        store.alerts.save()
        assert store.alerts.by_urgency() == []
        assert len(store.votes.read()) == 0

    def test_the_most_urgent_alert_lies_on_top_then_the_oldest_then_by_id(self, make_store):
        early, late = stolen_session(), new_pipeline()
        queue = [
            replace(late, alert_id="d", urgency=90),
            replace(early, alert_id="b", urgency=50),
            replace(early, alert_id="c", urgency=50),
            replace(late, alert_id="a", urgency=50),
        ]
        store = make_store()
        store.alerts.save([queue[2], queue[0], queue[3], queue[1]])
        assert [alert.alert_id for alert in store.alerts.by_urgency()] == ["d", "b", "c", "a"]
        assert [alert.alert_id for alert in store.alerts.by_urgency(limit=2)] == ["d", "b"]

    def test_evidence_grows_and_never_shrinks(self, make_store):
        store, whole = make_store(), stolen_session()
        store.alerts.save([only_events(whole, 0, 4)])
        store.alerts.save([only_events(whole, 2, 7)])
        assert store.alerts.by_urgency()[0].event_ids == whole.event_ids[:7]

    def test_a_run_that_saw_less_neither_shortens_an_alert_nor_calms_it(self, make_store):
        store, whole = make_store(), stolen_session()
        store.alerts.save([whole])
        store.alerts.save([only_events(whole, 3, 5, urgency=12, title="less was seen")])
        found = store.alerts.get(whole.alert_id)
        assert (found.first_event_time, found.last_event_time) == (
            whole.first_event_time,
            whole.last_event_time,
        )
        assert (found.urgency, found.title) == (91, "less was seen")

    def test_a_run_that_saw_everything_says_how_urgent_it_is(self, make_store):
        store, whole = make_store(), stolen_session()
        store.alerts.save([only_events(whole, 0, 4, urgency=99)])
        store.alerts.save([replace(whole, urgency=60)])
        assert store.alerts.by_urgency() == [replace(whole, urgency=60)]

    def test_events_that_differ_from_those_known_make_the_alert_longer(self, make_store):
        store, whole = make_store(), stolen_session()
        store.alerts.save([only_events(whole, 0, 3)])
        store.alerts.save([only_events(whole, 3, 9)])
        found = store.alerts.by_urgency()[0]
        assert found.last_event_time - found.first_event_time == timedelta(minutes=19)

    def test_a_raw_record_once_kept_is_not_lost(self, make_store):
        store, whole = make_store(), stolen_session()
        store.alerts.save([whole])
        store.alerts.save([replace(whole, events=tuple(replace(item, raw="") for item in whole.events))])
        assert store.alerts.by_urgency() == [whole]

    def test_a_list_need_not_carry_the_records(self, make_store):
        store, whole = make_store(), stolen_session()
        store.alerts.save([whole])
        (listed,) = store.alerts.by_urgency(raw=False)
        assert {item.raw for item in listed.events} == {""}
        assert listed.event_ids == whole.event_ids

    def test_the_first_characters_of_an_id_find_an_alert(self, make_store):
        store = make_store()
        store.alerts.save([stolen_session(), new_pipeline(alert_id="3fb")])
        assert store.alerts.get("3fa").alert_id == "3fa94c1be0d27a58"
        assert store.alerts.get("3fb").alert_id == "3fb"

    def test_an_id_that_names_no_one_alert_is_refused_in_one_sentence(self, make_store):
        store = make_store()
        store.alerts.save([stolen_session(), new_pipeline(alert_id="3fb")])
        for wanted in ("3f", "", "nothing", "%", "3fa_", "'; --", "3fa\x00"):
            with pytest.raises(FingerprintError):
                store.alerts.get(wanted)

    def test_an_id_that_is_the_start_of_another_still_finds_its_own(self, make_store):
        store = make_store()
        store.alerts.save([stolen_session(alert_id="3f"), new_pipeline(alert_id="3fa")])
        assert store.alerts.get("3f").alert_id == "3f"

    def test_whatever_an_attacker_wrote_is_kept_as_text(self, make_store):
        store, alerts = (
            make_store(),
            [replace(nasty(text), alert_id=str(at)) for at, text in enumerate(NASTY)],
        )
        for alert in alerts:
            own = [replace(vote, event_id=f"{vote.event_id}-{alert.alert_id}") for vote in votes(alert)]
            store.alerts.save([alert], own)
        for text, alert in zip(NASTY, alerts, strict=True):
            found = store.alerts.get(alert.alert_id)
            assert (found.title, found.principal) == (storable(text), storable(text))
            assert {item.user_agent for item in found.events} == {storable(text)}
            assert (found.drivers[0].seen, found.next_steps[0].text) == (storable(text), storable(text))
            assert found.impact_of[0].resources == (storable(text), storable(text))
            assert len(store.votes.read(principal=text)) == 3

    def test_times_are_moments_whatever_zone_they_came_in(self, make_store):
        store, tokyo = make_store(), timezone(timedelta(hours=9))
        moment = datetime(2026, 3, 4, 23, 30, 0, 123456, tzinfo=tokyo)
        store.alerts.save([stolen_session(first_event_time=moment)])
        found = store.alerts.by_urgency()[0].first_event_time
        assert found == moment
        assert found.tzinfo is UTC

    def test_figures_that_json_cannot_say_do_not_break_a_save(self, make_store):
        store, alert = make_store(), stolen_session()
        odd = replace(
            alert.curve, counts=(float("nan"), float("inf"), 2.0), expected=(1.0, float("nan"), 0.5)
        )
        store.alerts.save([replace(alert, curve=odd)])
        found = store.alerts.by_urgency()[0].curve
        assert found.counts[1:] == (1e308, 2.0)
        assert pd.isna(found.counts[0])
        assert pd.isna(found.expected[1])

    def test_what_supports_an_alert_is_kept_beside_it_and_does_not_count_as_growth(self, make_store):
        store, alert = make_store(), stolen_session(supporting_events=())
        store.alerts.save([alert])
        before = store.queue.row(alert.alert_id)
        store.alerts.save([stolen_session()])
        assert store.alerts.get(alert.alert_id) == stolen_session()
        assert store.queue.row(alert.alert_id) == before
        store.alerts.save([replace(alert, events=alert.events[:1], tactics=())])
        found = store.alerts.get(alert.alert_id)
        assert found.supporting_events == stolen_session().supporting_events
        assert found.tactics == stolen_session().tactics, "some are those of what supports it"

    def test_a_z_that_is_no_number_is_no_z(self, make_store):
        store, alert = make_store(), stolen_session()
        odd = replace(alert.events[0], scores={"autoencoder": float("nan"), "spectral": float("inf")})
        store.alerts.save([replace(alert, events=(odd,))])
        (found,) = store.alerts.by_urgency()[0].events
        assert found.scores == {"autoencoder": None, "spectral": float("inf")}

    def test_names_that_are_longer_than_an_index_takes_break_no_save(self, make_store):
        store, alert = make_store(), stolen_session()
        long = "".join(chr(0x4E00 + random.Random(7 * place).randrange(20_000)) for place in range(9_000))
        events = tuple(
            replace(each, event_id=long + end) for each, end in zip(alert.events, "ab", strict=False)
        )
        for _ in range(2):
            store.alerts.save(
                [replace(alert, principal=long, events=events)],
                [replace(vote, event_id=long, principal=long) for vote in votes(alert)[:1]],
            )
        found = store.alerts.by_urgency()[0]
        assert found.principal == long
        assert len(set(found.event_ids)) == len(found.event_ids) == 2
        assert all(long.startswith(each.partition("…")[0]) for each in found.event_ids)
        assert len(store.votes.read(principal=long)) == 1

    def test_votes_come_as_a_table_or_one_by_one_and_mean_the_same(self, make_store):
        one, other, seen = make_store(), make_store(), votes(stolen_session())
        one.alerts.save([], seen)
        other.alerts.save(votes=pd.DataFrame(seen))
        assert dump_tables(one) == dump_tables(other)
        pd.testing.assert_frame_equal(one.votes.read(), other.votes.read())

    def test_votes_are_read_oldest_first_by_principal_and_time(self, make_store):
        store, alert, other = make_store(), stolen_session(), new_pipeline()
        store.alerts.save([], [*votes(other), *votes(alert), *votes(alert, "spectral")])
        assert len(store.votes.read()) == 21
        assert store.votes.read()["event_time"].is_monotonic_increasing
        assert set(store.votes.read(principal=other.principal)["principal"]) == {other.principal}
        assert len(store.votes.read(since=other.first_event_time)) == 3
        assert len(store.votes.read(limit=4)) == 4

    @pytest.mark.parametrize("text", NASTY)
    def test_a_vote_keeps_what_its_event_called(self, make_store, text):
        store, first = make_store(), votes(stolen_session())[0]
        store.alerts.save([], [replace(first, action=f"iam:{text}")])
        assert list(store.votes.read()["action"]) == [storable(f"iam:{text}")]
        assert store.votes.page()[0]["action"].iloc[0] == storable(f"iam:{text}")

    @pytest.mark.parametrize("reach", [None, math.nan, -0.25, 3.5, math.inf])
    def test_a_vote_keeps_how_far_its_event_reaches(self, make_store, reach):
        store, first = make_store(), votes(stolen_session())[0]
        store.alerts.save([], [replace(first, reach=reach)])
        for table in (store.votes.read(), store.votes.page()[0]):
            [found] = table["reach"]
            assert found == reach or (np.isnan(found) and reach in (None, math.nan))
        assert len(store.votes.nearest(first.event_time, -9.0, 9)) == (reach in (-0.25, 3.5, math.inf))

    def test_the_votes_that_reach_furthest_come_with_those_beside_them(self, make_store):
        store, alert, other = make_store(), stolen_session(), new_pipeline()
        own = [
            replace(vote, z=9.0 - place, reach=2.0 + place / 10) for place, vote in enumerate(votes(other))
        ]
        no_verdict = replace(own[0], event_id="no verdict", reach=None)
        own_reach = {"detector": "sequence", "z": 1.9, "reach": None}
        beside = replace(own[-1], **own_reach)
        surge = replace(own[0], event_id="interval:1", detector="spectral", reach=None)
        silent = replace(own[0], event_id="silence:1", detector="spectral", vote=False, reach=None)
        elsewhere = replace(own[0], event_id="other", **own_reach)
        of_alert = [replace(vote, reach=5.0) for vote in votes(alert)]
        store.alerts.save([alert], [*of_alert, *own, no_verdict, beside, surge, silent, elsewhere])
        since = other.first_event_time
        found = store.votes.nearest(since, 2.1, 1)
        assert list(found["event_id"]) == [own[-1].event_id, own[-1].event_id, "interval:1"]
        assert list(found["detector"]) == ["autoencoder", "sequence", "spectral"]
        assert len(store.votes.nearest(since, 2.1, 9)) == len(own) - 1 + 2
        assert len(store.votes.nearest(since, 2.1, 9, related=False)) == len(own) - 1
        assert len(store.votes.nearest(since, 2.1, 9, [other.principal])) == len(own) - 1 + 2
        assert len(store.votes.nearest(since, 2.1, 9, [alert.principal])) == 0, (
            "they lie in the time of its alert"
        )
        assert len(store.votes.nearest(other.last_event_time + timedelta(1), 1.6, 9)) == 0

    def test_votes_in_the_time_of_an_alert_take_no_place_among_the_strongest(self, make_store):
        """Also where one alert goes on after a later one of its principal has ended; both ends belong to it."""
        store, other, own = make_store(), new_pipeline(), votes(stolen_session())[0]
        hour = timedelta(hours=1)
        alerts = [(0, 10), (2, 3), (5, 6), (20, 21)]
        store.alerts.save(
            [
                replace(
                    stolen_session(),
                    alert_id=f"a{first}",
                    first_event_time=own.event_time + first * hour,
                    last_event_time=own.event_time + last * hour,
                )
                for first, last in alerts
            ],
            [
                replace(own, event_id=f"e{at}", event_time=own.event_time + at * hour, reach=9.0 - at / 10)
                for at in (-1, 0, 2.5, 4, 7, 10, 10.5, 20, 22)
            ]
            + [replace(votes(other)[0], event_time=own.event_time + 4 * hour, reach=2.0)],
        )
        since = own.event_time - hour
        outside = ["e-1", "e10.5", "e22", votes(other)[0].event_id]
        for limit in (2, 9):
            found = store.votes.nearest(since, 1.6, limit)
            assert list(found["event_id"]) == outside[:limit]
        found = store.votes.nearest(since, 1.6, 9, [own.principal])
        assert list(found["event_id"]) == outside[:3]

    def test_the_spans_of_alerts_name_whose_they_are(self, make_store):
        store, alert, other = make_store(), stolen_session(), new_pipeline()
        store.alerts.save([alert, other])
        spans = [(each.principal, each.first_event_time, each.last_event_time) for each in (alert, other)]
        assert sorted(store.alerts.spans_since(min(span[2] for span in spans))) == sorted(spans)
        assert store.alerts.spans_since(max(span[2] for span in spans) + timedelta(seconds=1)) == []

    def test_a_vote_that_changed_overwrites_itself_and_no_opinion_is_no_vote(self, make_store):
        store, seen = make_store(), votes(stolen_session())
        store.alerts.save([], seen)
        store.alerts.save([], [replace(seen[0], z=9.0), replace(seen[1], z=float("nan"))])
        z = store.votes.read().set_index("event_id")["z"]
        assert z[seen[0].event_id] == 9.0
        assert z[seen[1].event_id] == 5.5

    def test_a_save_that_fails_leaves_nothing_behind(self, make_store):
        store = make_store()
        before = dump_tables(store)
        broken = pd.DataFrame(votes(stolen_session())).assign(level=None, z=1.0, threshold=None)
        with pytest.raises(FingerprintError):
            store.alerts.save([stolen_session()], broken)
        assert dump_tables(store) == before

    def test_an_alert_may_have_more_events_than_one_statement_takes(self, make_store, monkeypatch):
        monkeypatch.setattr(schema.id_batches, "__defaults__", (5,))
        monkeypatch.setattr(schema, "INSERT_BATCH", 8)
        store = make_store()
        many = tuple(replace(event(1, "s3", "GetObject"), event_id=f"{number:06d}") for number in range(21))
        alerts = [
            stolen_session(alert_id=f"{number:04d}", principal=f"user/{number}", events=many[:2])
            for number in range(11)
        ]
        store.alerts.save([*alerts, stolen_session(events=many)])
        store.alerts.save([*alerts, stolen_session(events=many)])
        assert len(store.alerts.get("3fa").events) == 21
        assert len(store.alerts.by_urgency(raw=False)) == 12

    # --- feeds and notices --------------------------------------------------------------------------------------------

    def test_what_partitions_heard_of_a_feed_is_added_up(self, make_store):
        store = make_store()
        store.feeds.save_counts(Partition("events", 0), 7200, heard(("a", 0, 3), ("b", 0, 1), ("a", 3600, 2)))
        store.feeds.save_counts(Partition("events", 1), 3600, heard(("a", 0, 4)))
        found = store.feeds.counts()
        assert found.values.tolist() == [
            ["account", "a", 0, 7],
            ["account", "a", 3600, 2],
            ["account", "b", 0, 1],
        ]
        assert store.feeds.counts(since=3600)["at"].tolist() == [3600]
        assert store.feeds.complete_until() == {Partition("events", 0): 7200, Partition("events", 1): 3600}

    def test_what_is_counted_again_after_a_crash_overwrites_itself_and_never_falls(self, make_store):
        store, place = make_store(), Partition("events", 0)
        for closed, events in ((7200, 5), (7200, 5), (3600, 2), (7200, 6)):
            store.feeds.save_counts(place, closed, heard(("a", 0, events)))
        assert store.feeds.counts()["events"].tolist() == [6]
        assert store.feeds.complete_until() == {place: 7200}

    def test_a_partition_that_heard_nothing_has_still_come_so_far(self, make_store):
        store = make_store()
        store.feeds.save_counts(Partition("events", 3), 3600, heard())
        assert store.feeds.complete_until() == {Partition("events", 3): 3600}
        assert store.feeds.counts().empty

    def test_a_partition_that_is_forgotten_holds_up_no_one_and_what_it_heard_stays(self, make_store):
        store = make_store()
        for number in range(3):
            store.feeds.save_counts(Partition("events", number), 3600, heard(("a", 0, 1)))
        store.feeds.forget([Partition("events", 1), Partition("other", 0)])
        assert store.feeds.complete_until() == {Partition("events", 0): 3600, Partition("events", 2): 3600}
        assert store.feeds.counts()["events"].tolist() == [3]

    def test_a_feed_of_any_name_is_kept_as_text(self, make_store):
        store = make_store()
        store.feeds.save_counts(Partition("events", 0), 3600, heard(*((text, 0, 1) for text in NASTY)))
        notices = [notice(f"{place:02d}", feed=text, title=text) for place, text in enumerate(NASTY)]
        store.feeds.save_gaps(notices, 3600)
        wanted = [storable(text) for text in NASTY]
        assert sorted(store.feeds.counts()["feed"]) == sorted(wanted)
        assert [(each.feed, each.title) for each in store.feeds.gaps()] == [(text, text) for text in wanted]

    def test_notices_come_back_as_they_were_open_ones_first_then_by_urgency(self, make_store):
        store, moment = make_store(), datetime(2026, 3, 5, tzinfo=UTC)
        ended = notice("e", urgency=99, ended_at=moment, ending="heard again")
        queue = [notice("a", urgency=80), notice("b"), notice("c", since=moment), ended]
        store.feeds.save_gaps(queue[::-1], 3600)
        assert store.feeds.gaps() == queue
        assert store.feeds.gaps(ended=False) == queue[:3]

    def test_a_notice_grows_and_ends_and_never_opens_again(self, make_store):
        store = make_store()
        ended = notice(urgency=60, ended_at=datetime(2026, 3, 5, tzinfo=UTC), ending="heard again")
        for until, said in ((1, notice()), (2, notice(urgency=60)), (3, ended), (3, notice(urgency=70))):
            store.feeds.save_gaps([said], until)
        assert store.feeds.gaps() == [ended]

    def test_anyone_who_looked_less_far_changes_nothing(self, make_store):
        store = make_store()
        assert store.feeds.checked_until() == 0
        store.feeds.save_gaps([notice(urgency=60)], 7200)
        once = dump_tables(store)
        store.feeds.save_gaps([notice(urgency=20), notice("b")], 3600, delete_before=9000)
        assert dump_tables(store) == once
        assert store.feeds.checked_until() == 7200

    def test_counts_that_are_no_longer_needed_are_forgotten(self, make_store):
        store = make_store()
        store.feeds.save_counts(Partition("events", 0), 7200, heard(("a", 0, 3), ("a", 3600, 2)))
        store.feeds.save_gaps([], 7200, delete_before=3600)
        assert store.feeds.counts()["at"].tolist() == [3600]

    # --- dispositions, and what a training asks ---------------------------------------------------------------------------

    def test_what_was_said_of_an_alert_comes_back_in_order_and_the_last_one_counts(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert, new_pipeline()])
        said = [judged(alert, "benign", 1), judged(alert, "true_positive", 2, why="not hers ' \" \u202e")]
        for each in said[::-1]:
            store.cases.add_disposition(each)
            store.cases.add_disposition(each)
        assert store.cases.dispositions(alert.alert_id) == store.cases.dispositions() == said
        assert store.cases.current_decisions() == {alert.alert_id: "true_positive"}
        assert store.cases.dispositions(new_pipeline().alert_id) == []

    def test_scoring_again_does_not_touch_what_people_decided(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([only_events(alert, 0, 4)])
        store.cases.add_disposition(judged(alert, "benign", events=4))
        before = store.cases.dispositions()
        store.alerts.save([only_events(alert, 0, 4)])
        assert store.cases.dispositions() == before
        assert store.cases.current_decisions() == {alert.alert_id: "benign"}
        store.alerts.save([alert])  # it has grown: open again
        assert store.cases.dispositions() == before
        assert store.cases.current_decisions() == {}

    def test_only_an_alert_that_is_there_is_judged(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        for said in (
            judged(alert, "benign", alert_id="nothing"),
            judged(alert, "duplicate"),
            judged(alert, "duplicate", duplicate_of="nothing"),
            judged(alert, "duplicate", duplicate_of=alert.alert_id),
        ):
            with pytest.raises(FingerprintError):
                store.cases.add_disposition(said)
        assert store.cases.dispositions() == []

    def test_the_beginning_of_an_id_is_enough_to_judge_an_alert(self, make_store):
        store, one, other = make_store(), stolen_session(alert_id="aaaa1"), new_pipeline(alert_id="bbbb2")
        store.alerts.save([one, other])
        store.cases.add_disposition(judged(one, "duplicate", alert_id="aa", duplicate_of="bb"))
        assert store.cases.dispositions() == [judged(one, "duplicate", duplicate_of="bbbb2")]
        store.cases.add_disposition(judged(other, "benign"))
        assert store.cases.current_decisions() == {"aaaa1": "benign", "bbbb2": "benign"}

    def test_what_moves_thresholds_is_said_of_alerts_by_entity_and_a_duplicate_names_its_original(
        self, make_store
    ):
        store, alert, pipeline = make_store(), stolen_session(), new_pipeline()
        store.alerts.save([alert, pipeline])
        everything = alert.last_event_time + timedelta(days=999)
        assert len(store.feedback.decided_entities(everything)) == 0
        store.cases.add_disposition(judged(alert, "benign"))
        store.cases.add_disposition(judged(pipeline, "duplicate", duplicate_of=alert.alert_id))
        found = store.feedback.decided_entities(everything)
        assert set(found["alert"]) == {alert.alert_id}
        assert set(found["decision"]) == {"benign"}
        newest = {
            (each.principal, event.entity): event.event_time
            for each in (alert, pipeline)
            for event in each.events  # in the order of time
        }
        rows = zip(found["principal"], found["entity"], found["event_time"], strict=True)
        assert {(principal, entity): time.to_pydatetime() for principal, entity, time in rows} == newest
        assert len(found) == len(newest)

    def test_what_happened_after_a_history_ended_moves_no_threshold_of_it(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert])
        store.cases.add_disposition(judged(alert, "benign"))
        first = alert.events[0]
        found = store.feedback.decided_entities(first.event_time + timedelta(microseconds=1))
        assert found["event_time"].tolist() == [pd.Timestamp(first.event_time)]
        assert len(store.feedback.decided_entities(first.event_time)) == 0

    def test_an_alert_that_has_grown_moves_no_threshold_until_it_is_judged_again(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([only_events(alert, 0, 4)])
        store.cases.add_disposition(judged(alert, "benign", events=4))
        everything = alert.last_event_time + timedelta(days=1)
        assert len(store.feedback.decided_entities(everything)) > 0
        store.alerts.save([alert])
        assert len(store.feedback.decided_entities(everything)) == 0

    def test_events_of_alerts_have_the_word_that_was_said_of_them(self, make_store):
        store, alert, pipeline = make_store(), stolen_session(), new_pipeline()
        store.alerts.save([alert, pipeline])
        assert words_of(store) == {name: {"open"} for each in (alert, pipeline) for name in each.event_ids}
        store.cases.add_disposition(judged(alert, "true_positive"))
        found = words_of(store)
        assert all(found[name] == {"true_positive"} for name in alert.event_ids)
        assert found[pipeline.event_ids[0]] == {"open"}

    def test_votes_on_events_are_flagged_and_strong_opinions_or_votes_on_intervals_are_not(self, make_store):
        store, alert = make_store(), stolen_session()
        vote = next(each for each in votes(alert) if each.detector == "autoencoder")
        seen = [
            replace(vote, event_id="voted", vote=True),
            replace(vote, event_id="nearly", vote=False),
            replace(vote, event_id="interval:1:2:3", detector="spectral", vote=True),
        ]
        store.alerts.save(votes=seen)
        assert words_of(store) == {"voted": {"vote"}}
        assert store.votes.oldest_time() == vote.event_time
        assert make_store().votes.oldest_time() is None

    def test_only_what_was_flagged_within_a_span_is_told(self, make_store):
        store, alert = make_store(), stolen_session()
        store.alerts.save([alert], votes(alert))
        first, last = alert.events[0], alert.events[-1]
        assert first.event_id in words_of(store, since=first.event_time)
        assert last.event_id not in words_of(store, until=last.event_time)
        assert words_of(store, since=last.event_time + timedelta(seconds=1)) == {}
