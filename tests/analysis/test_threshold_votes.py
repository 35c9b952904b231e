"""Thresholds chosen as alerts a day, by what an alert store remembers of single votes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from fingerprint.analysis import threshold_what_if
from fingerprint.analysis.threshold_what_if import ThresholdWhatIf, VoteHistory
from fingerprint.core.alert import VOTE_COLUMNS, Vote
from fingerprint.core.case import ThresholdOverride
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.detection.ensemble import MIN_REACH, NEWCOMER_THRESHOLD_SHARE, strong_vote_threshold
from tests.support import sample_organisation

START = datetime(2026, 3, 4, tzinfo=UTC)
ANA, BEN = "123456789012:user/ana", "123456789012:user/ben"
SETTINGS = Settings()


def habit(name: str, hour: float, z: float, who: str = ANA) -> Vote:
    """The autoencoder's vote on an event."""
    when = START + timedelta(hours=hour)
    return Vote(name, when, who, f"{who}|iam|direct", "autoencoder", z, 3.2, z >= 3.2, "entity")


def volume(hour: int, entity: str, z: float = 6.0, kind: str = "interval") -> Vote:
    """The spectral detector's vote on the interval that begins at an hour: it is told when it is over."""
    when = START + timedelta(hours=hour + 1)
    name = f"{kind}:{hash((entity, hour)):x}:1:{hour}"
    return Vote(name, when, entity.split("|")[0], entity, "spectral", z, 5.0, z >= 5.0, "entity")


def past(*votes: Vote, confirmed: tuple[str, ...] = (), alerts: tuple[str, ...] = ()) -> VoteHistory:
    table = pd.DataFrame(
        [{name: getattr(vote, name) for name in VOTE_COLUMNS} for vote in votes], columns=list(VOTE_COLUMNS)
    )
    table["event_time"] = pd.to_datetime(table["event_time"], utc=True)
    return VoteHistory.from_votes(table, dict.fromkeys(confirmed, "true_positive"), SETTINGS, alerts)


def days(*votes: Vote) -> list[Vote]:
    """Ten days of history, of which most are silent."""
    return [habit("first", 0, 2.0, BEN), *votes, habit("last", 240, 2.0, BEN)]


def test_an_event_needs_its_interval_s_vote_of_its_entity_or_its_principal() -> None:
    found = past(
        *days(
            habit("entity", 24.5, 4.0),
            volume(24, f"{ANA}|iam|direct"),
            habit("principal", 48.5, 5.0),
            volume(48, ANA),
            habit("alone", 72.5, 9.0),
            habit("elsewhere", 96.5, 9.0),
            volume(96, f"{ANA}|s3|direct"),
            habit("an hour late", 121.5, 9.0),
            volume(120, ANA),
        )
    ).what_if(2)
    assert sorted(found.alert_peaks.tolist()) == [4.0, 5.0]
    assert found.alerts_per_day(4.5) == pytest.approx(0.1)
    assert found.threshold_for(alerts_per_day=0.1) == pytest.approx(4.01)


def test_a_vote_is_enough_where_the_other_detector_had_no_opinion() -> None:
    known, new = habit("known", 24.5, 4.0), habit("new", 48.5, 3.6)
    votes = days(replace(known, alone=True), replace(new, alone=True, level="generic"))
    assert sorted(past(*votes).what_if(2).alert_peaks) == pytest.approx([4.0, 3.6 / NEWCOMER_THRESHOLD_SHARE])


def test_a_surge_below_the_threshold_and_a_silence_make_no_verdict() -> None:
    found = past(
        *days(
            habit("a", 24.5, 9.0),
            volume(24, ANA, z=3.0),
            habit("b", 48.5, 9.0),
            volume(48, ANA, 9.0, "silence"),
        )
    )
    assert not len(found.what_if(2).alert_peaks)


def test_a_quorum_of_one_shows_what_the_autoencoder_alone_flags() -> None:
    found = past(*days(habit("alone", 24.5, 4.0), volume(100, ANA))).what_if(1)
    assert found.alert_peaks.tolist() == [4.0, 2.0, 2.0], (
        "a surge has no z that an alert's threshold could be held to"
    )


def test_another_detector_s_vote_on_the_event_counts_like_one_on_its_interval() -> None:
    strange, surging = habit("strange", 24.5, 4.0), habit("both", 48.5, 5.0)
    order = [replace(each, detector="sequence", z=2.0, vote=True) for each in (strange, surging)]
    low = replace(habit("low", 72.5, 6.0), detector="sequence", z=1.0, vote=False)
    found = past(*days(strange, surging, *order, volume(48, ANA), habit("low", 72.5, 6.0), low))
    assert sorted(found.what_if(2).alert_peaks.tolist()) == [4.0, 5.0]
    assert found.what_if(3).alert_peaks.tolist() == [5.0]


def test_where_the_others_agree_strongly_a_stored_event_is_shown_up_to_a_higher_threshold() -> None:
    surging, alone = habit("both", 48.5, 3.0), habit("alone", 24.5, 3.0)
    order = [replace(each, detector="sequence", z=2.5, vote=True) for each in (surging, alone)]
    votes = days(surging, alone, *order, volume(48, ANA))
    low, high = sorted(past(*votes).what_if(2).alert_peaks.tolist())
    assert low == 3.0
    assert strong_vote_threshold(high) == pytest.approx(3.0, abs=1e-5)
    weaker = [replace(each, z=1.9) if each.detector == "sequence" else each for each in votes]
    assert past(*weaker).what_if(2).alert_peaks.tolist() == [3.0, 3.0]


def test_what_analysts_confirmed_says_what_a_threshold_costs() -> None:
    votes = days(habit("attack", 24.5, 6.0), volume(24, ANA), habit("benign", 48.5, 4.0), volume(48, ANA))
    alert = past(*votes).events.set_index("z")["group"][6.0]
    found = past(*votes, confirmed=(str(alert),)).what_if(2)
    kept, lost = (threshold_what_if.estimate_threshold(found, threshold, 2) for threshold in (5.0, 7.0))
    assert (kept.confirmed, kept.found, lost.found) == (1, 1, 0)
    assert (kept.alerts_per_day, lost.alerts_per_day) == (0.1, 0.0)


def test_the_events_of_a_stored_alert_had_the_second_vote_though_it_was_too_low_to_be_kept() -> None:
    votes = days(habit("shown", 24.5, 6.0), habit("single", 48.5, 6.0))
    alert = str(past(*votes).events.query("z == 6")["group"].iloc[0])
    found = past(*votes, alerts=(alert,))
    assert found.what_if(2).stored_reach.to_dict() == {alert: 6.0}
    assert found.what_if(3).alert_peaks.tolist() == []


def test_the_stored_reach_counts_where_the_quorum_has_been_in_force() -> None:
    """It also knows second votes, which are not stored, and which votes an event lacked in truth."""
    beside_second = replace(habit("beside a second vote", 24.5, 6.0), reach=3.5)
    not_counted = replace(habit("not counted in that series", 48.5, 5.0), reach=2.1)
    found = past(*days(beside_second, not_counted, volume(48, ANA)))
    assert found.what_if(2).alert_peaks.tolist() == [5.0]
    assert found.what_if(2, START).alert_peaks.tolist() == [3.5, 2.1]
    assert found.what_if(2, START + timedelta(hours=48)).alert_peaks.tolist() == [2.1], "of the first by then"


def test_of_later_events_only_those_of_stored_alerts_may_lack_a_reach() -> None:
    """Such an alert may be open; any other event without a reach had all votes, and is below MIN_REACH."""
    before, known = habit("earlier release", 24.5, 4.0), replace(habit("known", 48.5, 5.0), reach=5.0)
    low, still_open = habit("low", 72.5, 4.5), habit("open", 96.5, 4.8)
    surges = [volume(hour, ANA) for hour in (24, 48, 72, 96)]
    votes = days(before, known, low, still_open, *surges)
    alert = str(past(*votes).events.set_index("z")["group"][4.8])
    shown = past(*votes, alerts=(alert,)).what_if(2, START).alert_peaks.tolist()
    assert shown == [5.0, 4.8, 4.0, pytest.approx(MIN_REACH)]
    assert shown[-1] < MIN_REACH


def test_of_its_own_history_it_foresees_all_alerts_of_every_threshold(
    scored: sample_organisation.Run,
) -> None:
    """As many as the scored events have, whose second votes are known."""
    options, votes = sample_organisation.SETTINGS, scored.store.votes.read()
    known = VoteHistory.from_votes(votes, {}, options).what_if(2, START.replace(year=2000))
    events = ThresholdWhatIf.from_scored_events(scored.events, options, days=1)
    by_event = events.events["reach"].to_numpy()
    assert sum(by_event >= MIN_REACH) > 20
    assert known.alert_peaks[known.alert_peaks >= MIN_REACH] == pytest.approx(
        events.alert_peaks[events.alert_peaks >= MIN_REACH], abs=1e-5
    )


def test_of_its_own_history_it_foresees_the_alerts_there_were(scored: sample_organisation.Run) -> None:
    """At the threshold that judged: not fewer than there were, and not many more."""
    options = sample_organisation.SETTINGS
    there = {alert.alert_id for alert in scored.alerts}
    found = VoteHistory.from_votes(scored.store.votes.read(), {}, options, sorted(there)).what_if(2)
    reach, at = found.stored_reach, options.alerts.threshold
    assert there <= set(reach[reach >= at].index)
    assert len(there) <= round(found.alerts_per_day(at) * found.days) <= 1.5 * len(there)


def test_no_votes_are_no_alerts() -> None:
    assert past().what_if(2).alerts_per_day(3.2) == 0


def test_what_was_chosen_goes_before_the_settings_until_it_is_cleared() -> None:
    chosen = ThresholdOverride(1, START, "maria", "too many", threshold=3.9, quorum=1)
    held = threshold_what_if.apply_override(Settings(alerts={"budget_per_100_principals": 5}), chosen)
    assert (held.alerts.threshold, held.voting.quorum) == (3.9, 1)
    assert threshold_what_if.apply_override(SETTINGS, replace(chosen, cleared=True)) is SETTINGS
    assert threshold_what_if.apply_override(SETTINGS, None) is SETTINGS


def test_a_threshold_out_of_range_is_refused_in_the_words_of_the_settings() -> None:
    chosen = ThresholdOverride(1, START, "maria", "no alerts", threshold=99)
    with pytest.raises(FingerprintError, match=r"setting alerts\.threshold: expected at most 37"):
        threshold_what_if.apply_override(SETTINGS, chosen)


def test_a_quorum_that_no_one_can_reach_is_refused() -> None:
    with pytest.raises(FingerprintError, match="quorum 4 can never be reached"):
        threshold_what_if.apply_override(SETTINGS, ThresholdOverride(1, START, "maria", "strict", quorum=4))
