"""An account, region or source that falls silent is noticed; one that rests as it always does is not."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from fingerprint.core.alert import FeedGap
from fingerprint.core.settings import Settings
from fingerprint.state import feed_activity
from fingerprint.state.feed_activity import FeedCounts
from fingerprint.streaming import feed_gaps

SETTINGS = Settings()
WEEK = 7 * 24
MONDAY = 492_336  # an interval: 2026-03-02 00:00 UTC
ACCOUNT = "123456789012"


def feed(hourly: float, weeks: int = 4, hours: range = range(24), days: range = range(7), seed: int = 0):
    """Poisson counts (T,) of whole weeks from a Monday on, in working hours and on working days."""
    interval = np.arange(weeks * WEEK)
    works = np.isin(interval % 24, hours) & np.isin(interval // 24 % 7, days)
    return np.random.default_rng(seed).poisson(hourly * works).astype(np.float32)


def silent_after(counts, until: int) -> list[int]:
    """Hours after which it is silent, looked at hour by hour up to `until` hours past the end of the counts."""
    longer = np.concatenate([counts, np.zeros(until, np.float32)])[None, :]
    ends = range(len(counts) - 2 * WEEK, len(counts) + until + 1)
    return [
        end - len(counts) for end in ends if feed_gaps.missed_events(longer[:, :end], SETTINGS).is_silent[0]
    ]


def test_a_busy_account_that_stops_is_missed_within_the_hour():
    assert silent_after(feed(60), 6) == [1, 2, 3, 4, 5, 6]


def test_a_slow_account_is_missed_later_because_less_was_expected():
    ten_a_day = silent_after(feed(10 / 24), 120)
    assert 30 < ten_a_day[0] < 100


def test_a_night_in_which_no_one_ever_works_is_no_silence_but_the_morning_after_is():
    counts = feed(40, hours=range(8, 18))
    assert silent_after(counts, 24)[0] in (9, 10)


def test_a_weekend_of_a_feed_that_never_works_on_weekends_is_no_silence():
    """Busy as it is, the two weekends that are looked at raise nothing; the Monday after does."""
    counts = feed(400, hours=range(8, 18), days=range(5))
    assert silent_after(counts, 24)[0] in (9, 10)


def test_the_first_days_are_warming_up():
    counts = feed(60, weeks=1)
    assert not feed_gaps.missed_events(
        np.concatenate([counts[: 6 * 24], np.zeros(40, np.float32)])[None, :], SETTINGS
    ).is_silent[0]
    assert feed_gaps.missed_events(
        np.concatenate([counts, np.zeros(40, np.float32)])[None, :], SETTINGS
    ).is_silent[0]


def test_a_burst_in_the_past_does_not_make_a_quiet_hour_a_silence():
    counts = feed(0.5)
    counts[2 * WEEK + 30] = 1_000_000
    assert not silent_after(counts, 12)


def test_a_feed_that_comes_in_batches_when_it_pleases_has_its_usual_gaps():
    """A batch of two hundred about every eight hours; half a day without one is nothing."""
    generator = np.random.default_rng(3)
    counts = (generator.random(4 * WEEK) < 1 / 8) * 200
    assert not silent_after(counts.astype(np.float32), 24)


def test_a_silence_that_was_news_does_not_hide_the_next_one():
    counts = feed(60)
    counts[3 * WEEK - 40 : 3 * WEEK - 30] = 0
    assert [end for end in silent_after(counts, 2) if end > 0] == [1, 2]


def test_what_was_never_heard_is_not_missed():
    lack = feed_gaps.missed_events(np.zeros((3, 4 * WEEK), np.float32), SETTINGS)
    assert not lack.is_silent.any()


# --- notices ----------------------------------------------------------------------------------------------------------


def heard(**feeds) -> feed_gaps.FeedActivity:
    """Feeds by account, all of the same length."""
    names = [("account", name.removeprefix("a")) for name in feeds]
    start = MONDAY - 4 * WEEK
    return feed_gaps.FeedActivity(names, start, np.array(list(feeds.values()), np.float32))


def with_gap(counts, begin: int, end: int):
    counts = counts.copy()
    counts[begin:end] = 0
    return counts


def looked(
    past: feed_gaps.FeedActivity, hours: int, known: dict[str, FeedGap] | None = None
) -> dict[str, FeedGap]:
    """The last so many hours, one after another."""
    end = past.start + past.counts.shape[1]
    return feed_gaps.find_gaps(past, end - hours, end, known or {}, SETTINGS)


def test_one_silence_is_one_notice_that_says_who_since_when_and_how_much():
    stopped = with_gap(feed(60), 4 * WEEK - 5, 4 * WEEK)
    (notice,) = looked(heard(a123456789012=stopped, a210987654321=feed(60, seed=1)), 48).values()
    assert (notice.kind, notice.feed) == ("account", ACCOUNT)
    assert notice.since == datetime(2026, 3, 1, 19, tzinfo=UTC)
    assert notice.expected == pytest.approx(300, rel=0.1)
    assert notice.hourly == pytest.approx(60, rel=0.1)
    assert notice.urgency > 90
    assert "account 123456789012 is silent since 2026-03-01 19:00 UTC" in notice.title
    assert notice.ended_at is None


def test_anyone_who_looks_later_or_again_gives_the_same_notice():
    past = heard(a123456789012=with_gap(feed(60), 4 * WEEK - 5, 4 * WEEK))
    once = looked(past, 48)
    assert looked(past, 3) == once
    assert looked(past, 3, once) == once


def test_it_ends_when_the_feed_is_heard_again_and_the_next_silence_is_another():
    counts = with_gap(feed(60), 4 * WEEK - 30, 4 * WEEK - 20)
    past = heard(a123456789012=with_gap(counts, 4 * WEEK - 4, 4 * WEEK))
    first, second = looked(past, 48).values()
    assert (first.ending, first.ended_at) == ("heard again", datetime(2026, 3, 1, 4, tzinfo=UTC))
    assert (second.ending, second.since) == ("", datetime(2026, 3, 1, 20, tzinfo=UTC))


def test_events_that_only_came_late_end_it_where_they_belong():
    known = looked(heard(a123456789012=with_gap(feed(60), 4 * WEEK - 5, 4 * WEEK)), 5)
    (notice,) = looked(heard(a123456789012=feed(60)), 1, known).values()
    assert notice.ended_at == notice.since


def test_what_is_silent_for_a_month_is_given_up():
    known = looked(heard(a123456789012=with_gap(feed(60), 4 * WEEK - 5, 4 * WEEK)), 5)
    gone = feed_gaps.FeedActivity([], MONDAY, np.zeros((0, 5 * WEEK), np.float32))
    (notice,) = feed_gaps.find_gaps(gone, MONDAY + 4 * WEEK, MONDAY + 5 * WEEK, known, SETTINGS).values()
    assert notice.ending == "given up"


def test_a_notice_is_told_when_it_opens_grows_much_or_ends():
    (notice,) = looked(heard(a123456789012=with_gap(feed(60), 4 * WEEK - 5, 4 * WEEK)), 5).values()
    grown = [FeedGap(**{**fields(notice), "urgency": urgency}) for urgency in (62, 79, 81)]
    assert feed_gaps.should_publish(None, notice)
    assert not feed_gaps.should_publish(grown[0], grown[1])
    assert feed_gaps.should_publish(grown[1], grown[2])
    assert feed_gaps.should_publish(notice, FeedGap(**{**fields(notice), "ended_at": notice.since}))


def fields(notice: FeedGap) -> dict[str, object]:
    return {name: getattr(notice, name) for name in FeedGap.__slots__}


# --- counting ---------------------------------------------------------------------------------------------------------


def events(*rows: tuple[str | None, str | None, int]) -> pd.DataFrame:
    """Account, region, interval."""
    frame = pd.DataFrame(rows, columns=["recipient_account", "region", "interval"]).astype(object)
    time = pd.to_datetime(frame["interval"].astype(int) * 3600 + 5, unit="s", utc=True)
    return frame.assign(event_time=time.astype("datetime64[us, UTC]"))


def counted(table: pd.DataFrame) -> dict[tuple[str, str, int], int]:
    return {(kind, name, at - MONDAY): count for kind, name, at, count in table.itertuples(index=False)}


def test_an_event_counts_for_its_account_its_region_and_its_source():
    counts = FeedCounts(3600, 100)
    batch = events(
        (ACCOUNT, "eu-west-1", MONDAY),
        (ACCOUNT, "eusc-de-east-1", MONDAY),
        (ACCOUNT, "eu-west-1", MONDAY + 1),
    )
    counts.add_events(batch, ["raw/3"], np.zeros(3, int), np.zeros(3, int))
    assert counted(counts.drain_closed(MONDAY + 1)) == {
        ("account", ACCOUNT, 0): 2,
        ("region", f"{ACCOUNT}/eu-west-1", 0): 1,
        ("region", f"{ACCOUNT}/eusc-de-east-1", 0): 1,
        ("source", "raw/3", 0): 2,
    }
    assert counts.drain_closed(MONDAY + 1) is None
    assert ("account", ACCOUNT, 1) in counted(counts.drain_closed(MONDAY + 2))


def test_what_comes_late_is_added_to_what_came_before():
    counts, one = FeedCounts(3600, 100), events((ACCOUNT, "eu-west-1", MONDAY))
    counts.add_events(one, ["raw/3"], np.zeros(1, int), np.zeros(1, int))
    counts.drain_closed(MONDAY + 1)
    counts.add_events(one, ["raw/3"], np.zeros(1, int), np.zeros(1, int))
    assert counted(counts.drain_closed(MONDAY + 2))["account", ACCOUNT, 0] == 2


@pytest.mark.parametrize(
    "account", [None, "", "unknown", "12345678901", "123456789012\n", "\x1b[2J", "١٢٣٤٥٦٧٨٩٠١٢"]
)
def test_what_is_no_account_is_no_feed_but_its_source_was_heard(account):
    counts = FeedCounts(3600, 100)
    counts.add_events(
        events((account, "eu-west-1", MONDAY)), ["raw/\x1b[2J\x00"], np.zeros(1, int), np.zeros(1, int)
    )
    assert counted(counts.drain_closed(MONDAY + 1)) == {("source", r"raw/\x1b[2J\x00", 0): 1}


def test_of_too_many_accounts_the_busiest_are_counted():
    made_up = [(f"{number:012d}", None, MONDAY) for number in range(500)]
    counts = FeedCounts(3600, 10)
    counts.add_events(
        events(*made_up, *[(ACCOUNT, None, MONDAY)] * 3), ["raw/3"], np.zeros(503, int), np.zeros(503, int)
    )
    taken = counted(counts.drain_closed(MONDAY + 1))
    assert taken["account", ACCOUNT, 0] == 3
    assert (len(taken), counts.dropped_feeds) == (10, 492)


def test_made_up_times_are_no_cells_without_end():
    """Of one feed as many intervals are kept as a source may be ahead, the earliest: also those that come afterwards."""
    most, counts = feed_activity.MAX_FEED_DAYS * 24, FeedCounts(3600, 100)
    for hours in (range(10, 3 * most), range(10)):
        counts.add_events(
            events(*[(ACCOUNT, None, MONDAY + hour) for hour in hours]),
            ["raw/3"],
            np.zeros(len(hours), int),
            np.zeros(len(hours), int),
        )
        assert len(counts.as_table()) <= 2 * most
    taken = counted(counts.drain_closed(MONDAY + 10))
    assert {
        kind: sum(events for (each, _, _), events in taken.items() if each == kind) for kind, *_ in taken
    } == {
        "account": 10,
        "source": 10,
    }


def test_counts_go_on_after_a_restart_as_if_there_had_been_none():
    whole, cut = FeedCounts(3600, 100), FeedCounts(3600, 100)
    batch = events((ACCOUNT, "eu-west-1", MONDAY))
    for counts in (whole, cut):
        counts.add_events(batch, ["raw/3"], np.zeros(1, int), np.zeros(1, int))
    again = FeedCounts(3600, 100)
    again.restore(cut.as_table(), cut.closed_until)
    for counts in (whole, again):
        counts.add_events(batch, ["raw/3"], np.zeros(1, int), np.zeros(1, int))
    assert counted(again.drain_closed(MONDAY + 1)) == counted(whole.drain_closed(MONDAY + 1))


def test_where_a_batch_is_cut_changes_no_count():
    """Also of what comes more than a day after its interval closed: that counts nowhere."""
    batch = events(*[(ACCOUNT, "eu-west-1", MONDAY + hour) for hour in (0, 1, 30, 0, 5, 31, 2, 60)])
    closed = np.array([MONDAY + hour for hour in (0, 0, 29, 29, 29, 30, 30, 59)])
    whole, cut, taken = FeedCounts(3600, 100), FeedCounts(3600, 100), {}
    whole.add_events(batch, ["raw/3"], np.zeros(8, int), closed)
    for row in range(8):
        cut.add_events(batch.iloc[[row]], ["raw/3"], np.zeros(1, int), closed[[row]])
        part = cut.drain_closed(int(closed[row]))
        taken |= counted(part) if part is not None else {}
    last = cut.drain_closed(MONDAY + 70)
    assert taken | counted(last) == counted(whole.drain_closed(MONDAY + 70))
