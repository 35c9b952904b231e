"""The card of a principal: what is usual of it, what it was learned from, and how strange each of its days was."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pandas as pd
import pytest

from fingerprint.analysis import fingerprints, principal_profile
from fingerprint.core.errors import FingerprintError
from fingerprint.features.encoding import FEATURES
from fingerprint.registry.bank import Bank
from tests.support import sample_organisation
from tests.support.alerts import stolen_session, votes


@pytest.fixture(scope="module")
def principal(bank: Bank) -> str:
    """A person with a fingerprint of their own, who has used some services too rarely for another."""
    known, people = (
        fingerprints.fingerprint_table(bank),
        bank.people.loc[bank.people["kind"] == "person", "principal"],
    )
    ready = known.loc[(known["level"] == "principal") & known["ready"], "key"]
    return str(ready[ready.isin(people)].iloc[0])


def test_a_card_has_the_principal_first_and_then_all_its_entities_the_busiest_first(
    bank: Bank, principal: str
) -> None:
    card = principal_profile.build_profile(bank, principal, sample_organisation.SETTINGS)
    own, *entities = card.fingerprints
    keys = bank.fingerprints["key"]
    assert (own.key, own.level) == (principal, "principal")
    assert {each.key for each in entities} == set(keys[keys.str.startswith(f"{principal}|")])
    assert [each.events for each in entities] == sorted((each.events for each in entities), reverse=True)
    assert card.total == len(card.fingerprints)
    assert (card.since, card.until) == tuple(bank.manifest["span"])


def test_a_card_says_what_is_usual_of_the_principal_or_of_the_entity_that_is_asked_for(
    bank: Bank, principal: str
) -> None:
    card = principal_profile.build_profile(bank, principal, sample_organisation.SETTINGS)
    entity = card.fingerprints[1].key
    for key, shown in (
        (principal, card),
        (entity, principal_profile.build_profile(bank, principal, sample_organisation.SETTINGS, entity)),
    ):
        table = fingerprints.usual_values(bank, key, principal_profile.MAX_VALUES)
        said = {(one.feature, each.text): each.share for one in shown.usual for each in one.values}
        summed = table.groupby(["feature", "value"])["share"].sum()
        assert said == pytest.approx({place: min(share, 1.0) for place, share in summed.items()}, abs=1e-4)
        assert all(sum(each.share for each in one.values) <= 1.001 for one in shown.usual)


def test_values_are_listed_once_amounts_by_size_and_others_by_share(bank: Bank, principal: str) -> None:
    card = principal_profile.build_profile(bank, principal, sample_organisation.SETTINGS)
    bins = {each.label for each in FEATURES if each.kind == "bin"} - {"read or write"}
    for one in card.usual:
        texts = [each.text for each in one.values]
        assert len(texts) == len(set(texts))
        if one.feature in bins:
            assert texts == sorted(texts, key=principal_profile.bin_size)
            assert not [text for text in texts if text.startswith("under ")], "what is hashed is not shown"
        else:
            assert [each.share for each in one.values] == sorted(
                (each.share for each in one.values), reverse=True
            )


def test_bins_are_sorted_by_their_size_and_what_has_none_comes_last() -> None:
    texts = [
        "64 to 127",
        "up to 2 h ago",
        "never seen before",
        "8 to 15",
        "none",
        "1",
        "up to 15 min ago",
        "up to 3 d ago",
    ]
    assert sorted(texts, key=principal_profile.bin_size) == [
        "none",
        "1",
        "8 to 15",
        "64 to 127",
        "up to 15 min ago",
        "up to 2 h ago",
        "up to 3 d ago",
        "never seen before",
    ]
    days = ["weekend 00-02 UTC", "weekday 10-12 UTC", "weekday 08-10 UTC"]
    assert sorted(days, key=principal_profile.bin_size) == days[::-1]


def test_anyone_who_is_not_ready_is_told_how_long_it_takes_at_their_pace(bank: Bank, principal: str) -> None:
    learned = principal_profile.build_profile(bank, principal, sample_organisation.SETTINGS).fingerprints
    assert {each.ready for each in learned} == {True, False}
    for each in learned:
        if each.ready:
            assert each.ready_in_days is None
        else:
            days = max((each.last - each.first) / timedelta(days=1), 1.0)
            missing = sample_organisation.SETTINGS.entities.min_ready_events - each.events
            assert each.ready_in_days is not None
            assert each.ready_in_days >= missing / (each.events / days) - 0.1


def test_a_threshold_that_dispositions_moved_is_shown_moved(bank: Bank, principal: str) -> None:
    place = fingerprints.fingerprint_row(bank, principal)
    table = bank.fingerprints.assign(shift=0.0, benign=0, malicious=0)
    table.loc[place, ["shift", "benign"]] = [0.05, 3]
    own = principal_profile.build_profile(
        replace(bank, fingerprints=table), principal, sample_organisation.SETTINGS
    ).fingerprints[0]
    usual = principal_profile.build_profile(bank, principal, sample_organisation.SETTINGS).fingerprints[0]
    assert (own.benign, own.malicious, own.shift) == (3, 0, 0.05)
    assert own.alert_threshold == pytest.approx(1.05 * usual.alert_threshold)


def test_who_has_no_fingerprint_is_told_so(bank: Bank, principal: str) -> None:
    with pytest.raises(FingerprintError, match="knows no"):
        principal_profile.build_profile(bank, "123456789012:user/stranger", sample_organisation.SETTINGS)
    with pytest.raises(FingerprintError, match="has no fingerprint"):
        principal_profile.build_profile(bank, principal, sample_organisation.SETTINGS, "everybody")


def test_days_count_the_votes_of_each_detector_and_keep_the_strongest() -> None:
    seen = votes(stolen_session())
    later = [
        replace(vote, event_time=vote.event_time + timedelta(days=1), z=3.0, vote=False) for vote in seen
    ]
    strongest = replace(seen[0], z=11.5, threshold=3.3)
    days = principal_profile.daily_votes(
        pd.DataFrame([*later, strongest, *seen[1:], *votes(stolen_session(), "spectral")])
    )
    assert [(day.day, day.detector, day.kept, day.votes) for day in days] == [
        (date(2026, 3, 4), "autoencoder", 9, 9),
        (date(2026, 3, 4), "spectral", 9, 9),
        (date(2026, 3, 5), "autoencoder", 9, 0),
    ]
    assert (days[0].strongest, days[0].threshold) == (11.5, 3.3)


def test_a_vote_on_the_last_hour_of_a_day_is_one_of_that_day() -> None:
    """A vote on an interval has the time at which that ended; one on an event has the event's."""
    midnight = datetime(2026, 3, 5, tzinfo=UTC)
    some = [
        replace(votes(stolen_session(), detector)[0], event_time=midnight)
        for detector in ("autoencoder", "spectral")
    ]
    days = {each.detector: each.day for each in principal_profile.daily_votes(pd.DataFrame(some))}
    assert days == {"autoencoder": date(2026, 3, 5), "spectral": date(2026, 3, 4)}


def test_no_votes_are_no_days() -> None:
    assert (
        principal_profile.daily_votes(
            pd.DataFrame(columns=["event_time", "detector", "z", "vote", "threshold"])
        )
        == []
    )


def test_readiness_counts_every_fingerprint_once(bank: Bank) -> None:
    for each in principal_profile.readiness_by_level(bank, sample_organisation.SETTINGS):
        assert (
            each.fingerprints
            == (bank.fingerprints["level"] == principal_profile.LEVELS.index(each.level)).sum()
        )
        assert each.ready == bank.manifest["ready"][each.level]
        assert each.ready + each.day + each.week + each.month + each.later == each.fingerprints
    assert each.level == "generic"
