"""The autoencoder detector: evidence, scores that only grow, who stays pending, and what drove a score."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fingerprint.alerting.explainer import Explainer
from fingerprint.compute import hashing
from fingerprint.compute.arrays import Floats
from fingerprint.core.alert import MOVE_FEATURE
from fingerprint.core.settings import Alerts
from fingerprint.detection.detectors.autoencoder import AutoencoderDetector
from fingerprint.detection.detectors.autoencoder.drivers import MIN_DRIVER_SURPRISE
from fingerprint.detection.detectors.autoencoder.drivers import _known_values as known_values
from fingerprint.detection.detectors.autoencoder.drivers import _ShownValue as ShownValue
from fingerprint.detection.detectors.autoencoder.evidence import (
    IS_OF_CALLER,
    RECENT_NOVELTY_NATS,
    ObservedValues,
    discount_recent_novelty,
    feature_surprise,
)
from fingerprint.detection.ensemble import reaches_threshold
from fingerprint.detection.inference import LocalInference
from fingerprint.estimators import amounts, autoencoder, harm, openers, tail_calibration
from fingerprint.estimators.call_paths import CALL_PATH_FEATURE, PathRows, learn_call_paths
from fingerprint.estimators.moves import WEIGHT, NetworkRows, learn_moves
from fingerprint.estimators.openers import OpeningRows
from fingerprint.features.encoding import FEATURE_NAMES, FEATURE_SET, IS_BIN
from fingerprint.registry.bank import GENERIC_ROW, PEER_LEVEL, Bank
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.first_calls import FAMILIAR_CALLS
from fingerprint.state.scorer_state import ScorerState
from tests.detection.detectors.conftest import Encode
from tests.support.stepwise_pipeline import SETTINGS


class Degraded(LocalInference):
    """A fallback that computed in place of the server."""

    degraded = True


@pytest.fixture
def detector(bank: Bank, state: ScorerState) -> AutoencoderDetector:
    return AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))


def measured(detector: AutoencoderDetector, batch: EventBatch) -> EventBatch:
    return replace(batch, evidence={detector.name: detector.measure(batch)})


def copies(event: pd.DataFrame, times: int) -> pd.DataFrame:
    """Return one row so often. One frame is made: 9,000 of one row take two seconds to concatenate."""
    return event.loc[event.index.repeat(times)].reset_index(drop=True)


def repeated(events: pd.DataFrame, times: int, hours: int = 0) -> pd.DataFrame:
    """Return a call of an action that is not known so often, some hours later."""
    one = events[events["error_code"].isna()].head(1).assign(action="ListNothingKnown")
    many = copies(one, times)
    many["event_id"] = [f"call {hours} {place}" for place in range(times)]
    many["event_time"] += pd.Timedelta(hours=hours)
    return many


@pytest.fixture
def each_event_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every event carry its amounts, not some by their ids."""
    monkeypatch.setattr(amounts, "CARRIERS", 1e6)


def test_its_evidence_is_the_surprise_of_every_feature_and_the_tail_of_the_fingerprint(
    detector: AutoencoderDetector, encode: Encode, events: pd.DataFrame, bank: Bank
) -> None:
    batch = measured(detector, encode(events, detector.state))
    evidence = batch.evidence["autoencoder"]
    assert (evidence.shape, evidence.dtype) == ((len(batch), len(FEATURE_NAMES) + 14), np.float32)
    np.testing.assert_array_equal(feature_surprise(batch), evidence[:, :-14])
    np.testing.assert_array_equal(evidence[:, -5], bank.shift[batch.fingerprint])
    np.testing.assert_array_equal(evidence[:, -4:-1], bank.baseline.interval_tail[batch.fingerprint])
    np.testing.assert_array_equal(
        detector.priority(batch), autoencoder.total_surprise(feature_surprise(batch)) + evidence[:, -1]
    )


def test_another_address_of_a_known_network_costs_what_new_ones_cost_its_principal(
    detector: AutoencoderDetector, encode: Encode, events: pd.DataFrame, bank: Bank
) -> None:
    """A provider gives its customer a new address each day, of the same large network. It is no unusual resource either."""
    octets = events["source_address"].str.split(".", regex=False)
    inside = events[
        events["source_address"].str.fullmatch(r"[1-9]\d+(\.\d+){3}") & (octets.str[0] != "10")
    ].head(50)
    parts = inside["source_address"].str.split(".", regex=False)
    moved = parts.map(lambda each: ".".join([*each[:2], str((int(each[2]) + 77) % 256), each[3]]))
    batch = encode(
        inside.assign(source_address=moved, event_id=[f"moved {row}" for row in range(len(inside))]),
        detector.state,
    )
    network, address = FEATURE_NAMES.index("network"), FEATURE_NAMES.index("address")
    loss, known = detector.inference.losses(batch.fingerprint, batch.codes)
    rows = known[:, network] & ~known[:, address]
    assert rows.sum() > 10
    most = bank.vocabulary.novelty_loss(batch.fingerprint[rows], address) + autoencoder.UNSEEN_OPEN_VALUE_NATS
    assert (loss[rows, address] <= most + 1e-4).all()
    surprise = np.zeros((1, len(FEATURE_NAMES)), np.float32)
    surprise[0, address] = 9
    assert not amounts.has_unusual_resource(surprise).any()


def test_calls_that_fail_at_the_service_or_are_throttled_are_no_amount(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """SDKs try both again and again. A failure of the service is no surprising error either; throttling is one."""
    one = events[events["error_code"].isna()].head(1)
    surprise, amount = {}, {}
    for code in ("ServiceUnavailable", "ThrottlingException"):
        surprise[code], amount[code] = _repeated_with_error(bank, encode, one, code)
    assert (surprise["ServiceUnavailable"], *amount["ServiceUnavailable"]) == (0, 0, 0, 0)
    assert surprise["ThrottlingException"] > 1
    assert not amount["ThrottlingException"].any()


def test_a_client_that_repeats_what_fails_makes_no_amount_but_on_unusual_resources(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """A loop over one missing thing says how long it ran; who tries one secret after the other takes what they can get."""
    named = events[events["error_code"].isna() & events["resource"].notna()]
    one = named.loc[named["principal"] == named["principal"].mode()[0]].head(1)
    surprise, (hour, day, unusual) = _repeated_with_error(bank, encode, one, "AccessDenied")
    assert surprise > 1
    assert (hour, day, unusual) == (0, 0, 0)
    strange = one.assign(resource="never-touched-before")
    _, (hour, day, unusual) = _repeated_with_error(bank, encode, strange, "AccessDenied")
    assert (hour, day) == (0, 0)
    assert unusual > 8


def _repeated_with_error(bank: Bank, encode: Encode, one: pd.DataFrame, code: str) -> tuple[float, Floats]:
    """Return the surprise of an error and the nats of the amounts (3,), where one call comes 500 times with that error."""
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    here = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))
    many = copies(one, 500).assign(error_code=code, event_id=[f"retry {place}" for place in range(500)])
    batch = measured(here, encode(many, state))
    surprise = feature_surprise(batch)[:, FEATURE_NAMES.index("error")].max()
    return surprise, here.amount_surprise(batch).max(axis=0)


def test_novelty_and_amount_together_are_rarer_than_either(
    detector: AutoencoderDetector, encode: Encode, events: pd.DataFrame
) -> None:
    """A thief who takes much, with a tool that the victim never had, may be missed by either alone."""
    burst = repeated(events, 300)
    batch = measured(detector, encode(pd.concat([events, burst], ignore_index=True), detector.state))
    without = detector.without("amount")
    bare = replace(batch, evidence={detector.name: without.measure(batch)})
    novel, amount = without.score(bare), detector.amount_surprise(batch).max(axis=1)
    both = detector.score(batch)
    shift = batch.evidence[detector.name][:, -5]
    share = tail_calibration.either_or_both(
        -tail_calibration.z_to_nats(novel * (1 + shift)), -amount.astype(np.float64)
    )
    np.testing.assert_allclose(both, tail_calibration.z_of_log_survival(share) / (1 + shift), atol=1e-4)
    alone = tail_calibration.z_of_log_survival(-amount.astype(np.float64)) / (1 + shift)
    assert (both > np.maximum(novel, alone) + 0.2).any()
    assert (both[amount == 0] == novel[amount == 0]).all()


def test_calls_of_a_principal_that_was_not_learned_make_no_amount(
    detector: AutoencoderDetector, encode: Encode, events: pd.DataFrame
) -> None:
    batch = encode(repeated(events, 300), detector.state)
    assert detector.amount_surprise(measured(detector, batch)).max() > 5
    unknown = replace(batch, level=np.full(len(batch), PEER_LEVEL, np.int8))
    assert not detector.amount_surprise(measured(detector, unknown)).any()


def test_what_is_spread_over_a_day_is_an_amount_of_the_day(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """Sixty calls in each of four hours: no hour is as odd as the day."""
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    here = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))
    rarest = []
    for hour in range(4):
        batch = measured(here, encode(repeated(events, 60, hour), state))
        rarest.append(here.amount_surprise(batch).max(axis=0))
    hours, days, _ = np.array(rarest).T
    assert np.ptp(hours) < 0.01, "each hour holds as much as the one before"
    assert (np.diff(days[days > 0]) > 0).all()
    assert days[-1] > hours[-1] + 1
    without = here.without("day's amount")
    bare = replace(batch, evidence={here.name: without.measure(batch)})
    assert without.score(bare).max() < here.score(batch).max()


@pytest.mark.usefixtures("each_event_carries")
@pytest.mark.parametrize("hours", [24, 20, 30])
def test_an_amount_that_came_the_day_before_is_no_news(
    hours: int, bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """A job that is new and runs every night is one alert, not one a night. Ten times as much is news again."""
    here = AutoencoderDetector(
        SETTINGS, bank, state := ScorerState.from_arrays(SETTINGS, bank.scorer_state), LocalInference(bank)
    )

    def most(calls: int, hour: int) -> tuple[float, float]:
        batch = measured(here, encode(repeated(events, calls, hour), state))
        whole = here.without("recent amount").amount_surprise(batch)
        return float(here.amount_surprise(batch).max()), float(whole.max())

    first, _ = most(300, 0)
    assert first > here.alert_nats
    assert most(300, 3)[0] > here.alert_nats, "of the same day nothing is taken away"
    again, whole = most(300, hours)
    assert again < here.alert_nats < first <= whole
    assert most(9_000, hours + 1)[0] > here.alert_nats


@pytest.mark.usefixtures("each_event_carries")
@pytest.mark.parametrize("gap", [3, 6])
def test_the_calls_of_a_day_that_still_rise_are_news_until_their_alert_is_over(
    gap: int, bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """A job that is new, and makes as many calls every hour, is one alert, not one a shift."""
    settings = SETTINGS.model_copy(update={"alerts": Alerts(group_gap_seconds=3600 * gap)})
    state = ScorerState.from_arrays(settings, bank.scorer_state)
    here = AutoencoderDetector(settings, bank, state, LocalInference(bank))
    left, whole = [], []
    for hour in range(20):
        batch = measured(here, encode(repeated(events, 100, hour), state))
        left.append(here.amount_surprise(batch)[:, 1].max())
        whole.append(here.without("recent amount").amount_surprise(batch)[:, 1].max())
    alerting = np.flatnonzero(np.array(whole) >= here.alert_nats)
    assert len(alerting) > 10, "they rise on"
    assert (np.flatnonzero(np.array(left) >= here.alert_nats) == alerting[: gap + 1]).all()


@pytest.mark.usefixtures("each_event_carries")
def test_an_amount_that_came_the_day_before_grows_while_the_hour_fills(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """What is left of it never falls, also where it passes what opens an alert: a verdict is not taken back."""
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    here = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))
    measured(here, encode(repeated(events, 300), state))
    some = repeated(events, 1_000, 24)
    left, whole = [], []
    for calls in range(0, 1_000, 20):
        batch = measured(here, encode(some.iloc[calls : calls + 20], state))
        left.append(here.amount_surprise(batch).max(axis=0))
        whole.append(here.without("recent amount").amount_surprise(batch).max(axis=0))
    assert np.min(whole) < here.alert_nats < np.max(whole)
    assert (np.diff(left, axis=0) >= -1e-5).all()
    assert (np.diff(np.max(left, axis=1)) > 0).any(), "more than came before is news"


@pytest.mark.usefixtures("each_event_carries")
@pytest.mark.parametrize("risen", [1, 2, 5])
def test_an_amount_is_no_news_where_all_that_the_principal_does_has_risen(
    risen: int, bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """A sale makes a workload do everything more often; who takes more of one thing or two is not busier."""
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    here = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))
    known = here.usual_load
    batch = encode(events, state)
    busiest = np.argmax(np.isfinite(known.log_usual).sum(axis=1) * np.isin(known.key, batch.principal))
    row = int(np.flatnonzero(batch.principal == known.key[busiest])[0])
    actions, usual = known.action[busiest, :risen], known.log_usual[busiest, :risen]
    before = np.full(risen, batch.interval[row] - 5, np.int32)
    state.interval_amounts.add(
        batch.principal[[row]].repeat(risen), before, actions, (20 * np.exp(usual)).astype(np.int32)
    )
    batch = measured(
        here, encode(copies(events.iloc[[row]], 300).assign(event_id=list(map(str, range(300)))), state)
    )
    without = here.without("load")
    bare = replace(batch, evidence={here.name: without.measure(batch)})
    now, then = here.amount_surprise(batch)[:, 0].max(), without.amount_surprise(bare)[:, 0].max()
    assert then > 5
    assert (now < then - 4) if risen == 5 else now == then


@pytest.mark.usefixtures("each_event_carries")
def test_what_a_day_and_a_half_held_together_is_no_amount_of_a_day(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """Two calls an hour open no alert, three of the next day do: nothing that could is taken away."""
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    here = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))
    most = []
    for hour in range(52):
        batch = measured(here, encode(repeated(events, 2 if hour < 36 else 3, hour), state))
        left, whole = (each.amount_surprise(batch)[:, 1] for each in (here, here.without("recent amount")))
        np.testing.assert_array_equal(left, whole)
        most.append(whole.max())
        if most[-1] > here.alert_nats:
            break
    assert max(most[:36]) < here.alert_nats
    assert 36 < hour < 51


@pytest.mark.usefixtures("each_event_carries")
def test_an_amount_that_opened_no_alert_takes_nothing_from_the_next_day(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """Else a patient thief takes some more each day, and no day is stranger than the one before."""
    nats = {}
    for before in (0, 20):
        state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
        here = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))
        if before:
            batch = measured(here, encode(repeated(events, before), state))
            assert 0 < here.amount_surprise(batch).max() < here.alert_nats
        batch = measured(here, encode(repeated(events, 100, 24), state))
        nats[before] = here.amount_surprise(batch).max(axis=0)[0]
    assert nats[20] == nats[0] > here.alert_nats


def test_a_new_tool_that_is_made_for_attacks_is_stranger_than_another_new_one(
    detector: AutoencoderDetector, encode: Encode, events: pd.DataFrame
) -> None:
    """No one works with it by accident: GuardDuty reports each such call, too."""
    one = events[events["error_code"].isna()].head(1)
    agents = [
        "aws-cli/2.9 Linux/6.5.0-kali3-amd64",
        "TruffleHog",
        "aws-cli/2.9 OpenBSD/7.4",
        one["user_agent"].iloc[0],
    ]
    calls = pd.concat([one] * len(agents), ignore_index=True).assign(user_agent=agents)
    calls["event_id"] = [f"tool {place}" for place in range(len(calls))]
    batch = encode(calls, detector.state)
    nats = detector.measure(batch)[:, -1]
    assert (nats - nats[-1]).tolist() == pytest.approx([6.4, 6.4, 0, 0])
    assert not (detector.without("harm").measure(batch)[:, -1] - nats[-1]).any()
    z = detector.score(measured(detector, batch))
    assert z[0] > z[2] + 0.5


def test_many_calls_on_an_unusual_resource_are_an_amount_where_so_many_calls_are_usual(
    detector: AutoencoderDetector, encode: Encode, events: pd.DataFrame, bank: Bank
) -> None:
    """A bulk read of one bucket, by who reads as much of others every hour."""
    has_resource = events["resource"].notna() & events["error_code"].isna()
    usual = events[has_resource].groupby(["principal", "action", "resource"]).head(1)
    busiest = usual.loc[usual["principal"] == usual["principal"].mode()[0]].head(1)
    state, nats = detector.state, {}
    for resource in (busiest["resource"].iloc[0], "never-touched-before"):
        calls = copies(busiest, 400).assign(resource=resource)
        calls["event_id"] = [f"{resource} {place}" for place in range(len(calls))]
        batch = measured(detector, encode(calls, state))
        nats[resource] = detector.amount_surprise(batch)[:, 2].max()
        without = detector.without("unusual resources")
        bare = replace(batch, evidence={detector.name: without.measure(batch)})
        assert not without.amount_surprise(bare)[:, 2].any()
        assert without.amount_surprise(bare)[:, 0].max() == detector.amount_surprise(batch)[:, 0].max()
    known, new = nats.values()
    assert known == 0
    assert new > 8


def test_a_new_action_that_can_do_harm_is_stranger_and_a_usual_one_is_not(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    added = {}
    for service, action in (("cloudtrail", "StopLogging"), ("cloudtrail", "ListNothingKnown")):
        state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
        here = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))
        batch = encode(events.head(1).assign(service=service, action=action), state)
        whole, part = here.measure(batch), here.without("harm").measure(batch)
        assert whole[0, FEATURE_NAMES.index("action")] > 2
        np.testing.assert_array_equal(whole[:, :-1], part[:, :-1])
        added[action] = float(whole[0, -1] - part[0, -1])
    assert added == pytest.approx({"StopLogging": 16, "ListNothingKnown": 0}, abs=1e-5)
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    here = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))
    batch = encode(events, state)
    usual = ~here.usual_amounts.is_new(batch.principal, batch.codes[:, FEATURE_NAMES.index("action")])
    assert 0.5 < usual.mean() < 1
    np.testing.assert_array_equal(
        here.measure(batch)[usual, -1], here.without("harm").measure(batch)[usual, -1]
    )


def test_a_severe_action_is_stranger_where_no_one_of_the_organisation_ever_called_it(
    detector: AutoencoderDetector, encode: Encode, events: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = events[events["error_code"].isna()].head(1)
    calls = copies(usual, 4).assign(event_id=[f"severe {place}" for place in range(4)])
    calls.loc[:2, "service"] = ["cloudtrail", "kms", "logs"]
    calls.loc[:2, "action"] = ["StopLogging", "ScheduleKeyDeletion", "DeleteLogGroup"]
    batch = encode(calls, detector.state)
    stop = batch.codes[0, FEATURE_NAMES.index("action")]  # another principal called it
    monkeypatch.setattr(Bank, "knows_action", lambda _, action: action == stop)
    nats = detector.measure(batch)[:, -1]
    assert (nats - nats[-1]).tolist() == pytest.approx([9.6, 16, 2.4, 0])


def test_a_write_that_names_an_account_of_which_no_one_knows_counts_as_a_new_severe_action(
    detector: AutoencoderDetector, encode: Encode, events: pd.DataFrame, bank: Bank
) -> None:
    """It is added to what a new action can do; a read and an account of the organisation add nothing."""
    known = str(events["recipient_account"].iloc[0])
    assert bank.knows_account(hashing.hash_strings(np.array([known], object))).all()
    usual = events[events["error_code"].isna() & ~events["read_only"].astype(bool)].head(1)
    calls = copies(usual, 5).assign(
        event_id=[f"call {place}" for place in range(5)],
        target_account=["999988887777", "999988887777", known, "999988887777", None],
        read_only=[False, True, False, False, False],
    )
    calls.loc[3, ["service", "action"]] = ["cloudtrail", "StopLogging"]
    batch = encode(calls, detector.state)
    nats = detector.measure(batch)[:, -1]
    assert (nats - nats[-1]).tolist() == pytest.approx([6.4, 0, 0, 16 + 6.4, 0])
    assert not (detector.without("harm").measure(batch)[:, -1] - nats[-1]).any()


def test_who_opens_a_role_for_the_first_time_adds_what_that_is_worth_until_it_has_come_again(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    account, opener = str(events["recipient_account"].iloc[0]), str(events["principal"].iloc[0])
    role, known = (
        hashing.hash_strings(np.array([text], object))
        for text in (f"role:deploy in {account}", f"{account}:federated/github/repo")
    )
    days, every = np.arange(14, dtype=np.int32), np.ones(14, bool)
    who = np.repeat(known, 14)
    learned = openers.learn_openers(OpeningRows(who, days * 24, every, np.repeat(role, 14), who), 24)
    usual = {**bank.scorer_state, **{f"opener.{name}": each for name, each in learned.items()}}
    here = replace(bank, scorer_state=usual)
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    detector = AutoencoderDetector(SETTINGS, here, state, LocalInference(here))
    call = {"service": "sts", "action": "AssumeRole", "resource": "role:deploy", "target_account": None}
    calls = copies(events[events["error_code"].isna()].head(1), 5).assign(
        event_id=[f"call {place}" for place in range(5)], **call, kind="user", principal=opener
    )
    calls.loc[1, "resource"] = "role:unheard-of"
    calls.loc[2, "error_code"] = "AccessDenied"
    calls["event_time"] += pd.to_timedelta([0, 0, 0, 0, 9], "h")
    batch = encode(calls, state)
    nats = detector.measure(batch)[:, -1]
    worth = 2.0 * float(learned["nats"][0])
    assert worth > 5
    assert (nats - nats[1]).tolist() == pytest.approx([worth, 0, 0, worth, 0], abs=1e-5)
    bare = detector.without("harm").measure(batch)[:, -1]
    assert not (bare - bare[1]).any()


def with_stacks(bank: Bank, batch: EventBatch) -> Bank:
    """Return a bank in which CloudFormation alone called the first event's action for its principal, on each of 14 days."""
    day, every = np.arange(14, dtype=np.int32), np.ones(14, bool)
    stacks = hashing.hash_strings(np.array(["cloudformation.amazonaws.com"], object))
    action = batch.codes[:1, FEATURE_NAMES.index("action")]
    who, what, network = (np.repeat(each, 14) for each in (batch.principal[:1], action, stacks))
    learned = learn_call_paths(PathRows(who, day * 24, every, who, what, network, ~every), 24)
    words = pd.concat([bank.words, pd.DataFrame({"code": stacks, "text": "cloudformation.amazonaws.com"})])
    words = words.drop_duplicates("code").sort_values("code", ignore_index=True)
    usual = {**bank.scorer_state, **{f"path.{name}": each for name, each in learned.items()}}
    return replace(bank, scorer_state=usual, words=words)


def direct_calls(bank: Bank, events: pd.DataFrame) -> pd.DataFrame:
    """Return six writes of a ready principal: a read, one by a service and a failure of the service; the last hours later."""
    ready = bank.fingerprints[(bank.fingerprints["level"] == 1) & bank.fingerprints["ready"]]["key"]
    known = events[events["error_code"].isna() & events["principal"].isin(ready)].head(1)
    call = {"service": "lambda", "action": "TagResource", "read_only": False, "resource": None}
    calls = copies(known, 6).assign(event_id=[f"call {place}" for place in range(6)], target_account=None)
    calls = calls.assign(**call, source_address="81.2.69.160")
    calls.loc[1, "read_only"] = True
    calls.loc[2, "source_address"] = "cloudformation.amazonaws.com"
    calls.loc[3, "error_code"] = "ServiceUnavailable"
    calls["event_time"] += pd.to_timedelta([0, 0, 0, 0, 0, 9], "h")
    return calls


def test_a_first_direct_call_of_what_a_service_called_adds_nats_until_it_has_come_again(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    batch = encode(direct_calls(bank, events), state)
    here = without_moves(with_stacks(bank, batch))
    detector = AutoencoderDetector(SETTINGS, here, state, LocalInference(here))
    nats, worth = detector.measure(batch)[:, -1], 2.5 * float(here.scorer_state["path.nats"][0])
    assert worth > 10
    assert (nats - nats[1]).tolist() == pytest.approx([worth, 0, 0, 0, worth, 0], abs=1e-4)
    bare = detector.without("harm").measure(batch)[:, -1]
    assert not (bare - bare[1]).any()
    newcomer = replace(batch, level=np.full(len(batch), PEER_LEVEL, np.int8))
    state.novelties = ScorerState(SETTINGS).novelties
    assert not detector._nats_of_direct_calls(newcomer).any()
    assert detector._nats_of_direct_calls(batch).any()


def test_a_direct_call_of_what_a_service_called_is_explained_by_that_service(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    batch = encode(direct_calls(bank, events).assign(bank_version=bank.version), state)
    here = with_stacks(bank, batch)
    of_alert = measured(AutoencoderDetector(SETTINGS, here, state, LocalInference(here)), batch)
    drivers = AutoencoderDetector.drivers(of_alert, of_alert.frame, Explainer(here, state, SETTINGS))
    [shown] = [each for each in drivers if each.feature == CALL_PATH_FEATURE]
    assert (shown.seen, shown.events) == ("lambda:TagResource", 3)
    assert shown.expected == "only by cloudformation.amazonaws.com on 14 days"
    later = of_alert.take(np.array([5]))
    drivers = AutoencoderDetector.drivers(later, later.frame, Explainer(here, state, SETTINGS))
    assert not [each for each in drivers if each.feature == CALL_PATH_FEATURE], (
        "the call of hours later came again"
    )


def without_moves(bank: Bank) -> Bank:
    """Return a bank from before it knew which machines keep to their networks."""
    kept = {name: each for name, each in bank.scorer_state.items() if not name.startswith("move.")}
    return replace(bank, scorer_state=kept)


def with_settled(bank: Bank, batch: EventBatch) -> Bank:
    """Return a bank in which the principal of a batch was at the network of its first event alone, on each of 14 days."""
    day, every = np.arange(14, dtype=np.int32), np.ones(14, bool)
    network = np.repeat(FEATURE_SET.networks(batch.codes)[:1], 14)
    who = np.repeat(batch.principal[:1], 14)
    learned = learn_moves(NetworkRows(who, day * 24, every, who, network, every), 24)
    return replace(
        bank, scorer_state={**bank.scorer_state, **{f"move.{name}": each for name, each in learned.items()}}
    )


def calls_elsewhere(bank: Bank, events: pd.DataFrame) -> pd.DataFrame:
    """Return five calls of a ready principal: at its usual network, by a service, and three elsewhere, the last hours later."""
    ready = bank.fingerprints[(bank.fingerprints["level"] == 1) & bank.fingerprints["ready"]]["key"]
    usual = events["error_code"].isna() & events["principal"].isin(ready)
    usual &= events["source_address"].str.fullmatch(r"\d+(\.\d+){3}")
    calls = copies(events[usual].head(1), 5).assign(event_id=[f"call {place}" for place in range(5)])
    calls.loc[1, "source_address"] = "cloudformation.amazonaws.com"
    calls.loc[2:, "source_address"] = "45.141.84.7"
    calls["event_time"] += pd.to_timedelta([0, 0, 0, 0, 9], "h")
    return calls


def test_a_settled_machine_at_another_network_adds_nats_until_that_is_familiar(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """One trial call of a thief, or three, some hours before hide nothing."""
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    calls = calls_elsewhere(bank, events)
    later = copies(calls.tail(1), 3).assign(event_id=[f"later {place}" for place in range(3)])
    later["event_time"] += pd.to_timedelta([9, 18, 36], "h")
    batch = encode(pd.concat([calls, later], ignore_index=True), state)
    here = with_settled(bank, batch)
    detector = AutoencoderDetector(SETTINGS, here, state, LocalInference(here))
    nats, worth = detector.measure(batch)[:, -1], WEIGHT * float(here.scorer_state["move.new"][0])
    assert worth > 5
    assert (nats - nats[0]).tolist() == pytest.approx([0, 0, *[worth] * 5, 0], abs=1e-4)
    bare = detector.without("harm").measure(batch)[:, -1]
    assert not (bare - bare[0]).any()
    state.first_calls = ScorerState(SETTINGS).first_calls
    newcomer = replace(batch, level=np.full(len(batch), PEER_LEVEL, np.int8))
    surprise = np.zeros(batch.codes.shape, np.float32)
    assert not detector._nats_of_moves(newcomer, surprise).any()
    assert detector._nats_of_moves(batch, surprise).any()
    older = without_moves(here)
    before = AutoencoderDetector(SETTINGS, older, state, LocalInference(older))
    assert not before._nats_of_moves(batch, surprise).any()


@pytest.mark.parametrize(
    ("feature", "counts"),
    [("action", True), ("version", True), ("resource", False), ("mode", False), ("region", False)],
)
def test_a_machine_that_many_could_move_with_needs_another_action_or_tool_to_count_as_moved(
    bank: Bank, encode: Encode, events: pd.DataFrame, feature: str, counts: bool
) -> None:
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    batch = encode(calls_elsewhere(bank, events), state)
    here = with_settled(bank, batch)
    many = {**here.scorer_state, "move.behind": np.array([50], np.float32)}
    here = replace(here, scorer_state=many)
    detector = AutoencoderDetector(SETTINGS, here, state, LocalInference(here))
    surprise = np.zeros(batch.codes.shape, np.float32)
    assert not detector._nats_of_moves(batch, surprise).any()
    surprise[:, FEATURE_NAMES.index(feature)] = 9
    assert detector._nats_of_moves(batch, surprise)[2:4].all() == counts


def test_another_network_of_a_settled_machine_is_explained_by_its_usual_ones(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    calls = calls_elsewhere(bank, events)
    batch = encode(calls.assign(bank_version=bank.version), state)
    here = with_settled(bank, batch)
    of_alert = measured(AutoencoderDetector(SETTINGS, here, state, LocalInference(here)), batch)
    drivers = AutoencoderDetector.drivers(of_alert, of_alert.frame, Explainer(here, state, SETTINGS))
    [shown] = [each for each in drivers if each.feature == MOVE_FEATURE]
    assert (shown.seen, shown.events, shown.rarity) == ("45.141.0.0/16", 3, "unseen")
    [usual] = bank.value_texts(FEATURE_SET.networks(batch.codes)[:1])
    assert usual
    assert shown.expected == f"only {usual}, in 14 days"


def test_a_network_that_has_become_familiar_drives_no_alert(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """What is scored without the nats of a move gets no urgency of one, and no title says that it moved."""
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    calls = calls_elsewhere(bank, events).assign(bank_version=bank.version)
    later = copies(calls.tail(1), 4).assign(event_id=[f"later {place}" for place in range(4)])
    later["event_time"] += pd.to_timedelta([9, 18, 36, 40], "h")
    batch = encode(pd.concat([calls, later], ignore_index=True), state)
    here = with_settled(bank, batch)
    whole = measured(AutoencoderDetector(SETTINGS, here, state, LocalInference(here)), batch)
    for rows, shown in ((range(9), [7]), (range(7), [5]), (range(7, 9), [])):
        part = whole.take(np.array(rows))
        found = AutoencoderDetector.drivers(part, part.frame, Explainer(here, state, SETTINGS))
        assert [each.events for each in found if each.feature == MOVE_FEATURE] == shown


def test_that_a_principal_is_new_is_news_for_a_day(bank: Bank, encode: Encode, events: pd.DataFrame) -> None:
    """It was half the nats of second alerts, which said of a newcomer what the first had said."""
    assert newcomer_nats(bank, encode, events, hours=(0, 23, 24, 47)) == [7, 7, 0, 0]


def test_that_a_principal_is_new_is_no_news_in_an_account_that_is_new_as_well(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """When an account joins, everyone in it is new, but for who calls it from outside."""
    own, other = "999988887777", "999988886666"
    assert newcomer_nats(bank, encode, events, hours=(0, 23), owner=own, recipient_account=own) == [0, 0]
    assert newcomer_nats(bank, encode, events, hours=(0, 23), owner=other, recipient_account=own) == [7, 7]
    assert newcomer_nats(bank, encode, events, hours=(0, 23), owner=own) == [7, 7]


def test_in_an_account_that_is_new_no_region_is(bank: Bank, encode: Encode, events: pd.DataFrame) -> None:
    """An account that joins may work in a region of its own, as all in it do."""
    region, known = FEATURE_NAMES.index("region"), str(events["recipient_account"].iloc[0])
    for account, is_news in (("999988887777", False), (known, True)):
        call = {"recipient_account": account, "region": "ap-south-2"}
        here, batch = newcomers_call(bank, encode, events, owner=account, **call)
        assert (here.measure(batch)[0, region] > 2) == is_news


@pytest.mark.parametrize(
    ("service", "action", "is_news"),
    [("sso", "Federate", False), ("sso", "GetRoleCredentials", False), ("sts", "AssumeRole", True)],
)
def test_an_account_that_joined_is_no_news_where_members_alone_can_be_named(
    service: str, action: str, is_news: bool, bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """Identity Center lets people into accounts of its organisation alone: one that no one knows was made for them."""
    call = events[events["error_code"].isna()].head(1).assign(service=service, action=action)
    member = next(each for each in events["principal"].str.partition(":")[0].unique() if each.isdigit())
    joined, known = (
        call.assign(target_account=account, resource=f"permission set:{account}/Developer")
        for account in ("999988887777", member)
    )
    columns = [FEATURE_NAMES.index(name) for name in ("target", "resource")]
    for calls, expected in ((joined, is_news), (known, True)):
        state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
        here = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))
        surprise = here.measure(encode(calls, state))[0, columns]
        assert (surprise > 2).any() == expected


@pytest.mark.parametrize(
    ("action", "error", "is_news"),
    [
        ("GetRoleCredentials", None, False),
        ("GetRoleCredentials", "ForbiddenException", True),
        ("Federate", None, False),
        ("CreateAccountAssignment", None, True),
    ],
)
def test_the_role_that_a_newcomer_enters_is_no_news_where_an_administrator_gave_it(
    action: str, error: str | None, is_news: bool, bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    """Who joins enters roles that no one entered before; who was there before has not done that, nor who tries roles."""
    member = next(each for each in events["principal"].str.partition(":")[0].unique() if each.isdigit())
    call = {"service": "sso", "action": action, "target_account": member, "error_code": error}
    columns = [FEATURE_NAMES.index(name) for name in ("target", "resource")]
    newcomer = newcomers_call(bank, encode, events, **call, resource=f"permission set:{member}/Contractors")
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    known = encode(events[events["error_code"].isna()].head(1).assign(**call), state)
    learned = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank)), known
    for (here, batch), expected in ((newcomer, is_news), (learned, True)):
        assert (here.measure(batch)[0, columns] > 2).any() == expected


def test_an_account_that_may_only_be_a_member_is_no_stranger(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    call = events[events["error_code"].isna()].head(1).assign(target_account="999988887777", read_only=False)
    nats = {}
    for service, action in (("sso", "CreateAccountAssignment"), ("s3", "PutBucketPolicy")):
        state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
        here = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))
        nats[service] = here._harm_of_strangers(encode(call.assign(service=service, action=action), state))
    assert (nats["sso"].tolist(), nats["s3"].tolist()) == ([0], pytest.approx([harm.STRANGER_NATS]))


def test_a_person_brings_tool_network_and_habits_to_a_new_role(
    bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    new_role = "111122223333:role/AWSReservedSSO_Extra_0123456789abcdef/"
    people = events[events["kind"] == "person"]
    known = next(
        each
        for each in people["principal"].unique()
        if len(bank.same_person(new_role + each.rpartition("/")[2])[1]) == 1
    )
    call = people[(people["principal"] == known) & people["error_code"].isna()].head(1)
    nats = {}
    for person in (known.rpartition("/")[2], "someone%40else.example"):
        for address in (None, "45.83.7.9"):
            principal = new_role + person
            one = call.assign(principal=principal, entity=f"{principal}|{call['service'].iloc[0]}")
            one = one if address is None else one.assign(source_address=address, network=None)
            state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
            here = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))
            batch = encode(one, state)
            assert (batch.level >= PEER_LEVEL).all()
            nats[person, address] = here.measure(batch)[0, FEATURE_NAMES.index("network")]
    (own, foreign), (other, _) = (tuple(nats.values())[at : at + 2] for at in (0, 2))
    assert own < 2 <= foreign
    assert own < other


def newcomer_nats(
    bank: Bank,
    encode: Encode,
    events: pd.DataFrame,
    hours: tuple[int, ...],
    owner: str = "111122223333",
    **columns: str,
) -> list[float]:
    """Return the nats of being new, where they are 7, of calls of a role of `owner` so many hours after its first one."""
    bank = replace(bank, baseline=replace(bank.baseline, newcomer=np.full_like(bank.baseline.newcomer, 7)))
    here, batch = newcomers_call(bank, encode, events, hours, owner, **columns)
    nats = here.measure(batch)[:, -1] - here.without("newcomer").measure(batch)[:, -1]
    return [float(each) for each in nats]


def newcomers_call(
    bank: Bank,
    encode: Encode,
    events: pd.DataFrame,
    hours: tuple[int, ...] = (0,),
    owner: str = "111122223333",
    **columns: str | None,
) -> tuple[AutoencoderDetector, EventBatch]:
    """Return a detector and calls of a role of `owner` that no one knows, so many hours after its first one."""
    one = events[events["error_code"].isna()].head(1).assign(**{"action": "ListNothingKnown", **columns})
    principal = f"{owner}:role/just-begun"
    one = one.assign(principal=principal, entity=f"{principal}|{one['service'].iloc[0]}")
    calls = copies(one, len(hours))
    calls["event_id"] = [f"call {hour}" for hour in hours]
    calls["event_time"] += pd.to_timedelta(hours, unit="h")
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    here = AutoencoderDetector(SETTINGS, bank, state, LocalInference(bank))
    batch = encode(calls, state)
    assert (batch.level >= PEER_LEVEL).all()
    return here, batch


def test_a_score_never_falls_while_more_events_of_the_interval_come(
    detector: AutoencoderDetector, encode: Encode, events: pd.DataFrame
) -> None:
    batch = measured(detector, encode(events.iloc[::2].reset_index(drop=True), detector.state))
    before = detector.score(batch)
    measured(detector, encode(events.iloc[1::2].reset_index(drop=True), detector.state))
    after = detector.score(batch)
    assert not np.isnan(before).any()
    assert (after >= before).all()
    assert (after > before).any(), "something else of a principal was surprising in the same interval"


def test_who_cannot_vote_any_more_never_reaches_the_threshold(
    detector: AutoencoderDetector, encode: Encode, events: pd.DataFrame
) -> None:
    half = len(events) // 2
    batch = measured(detector, encode(events.iloc[:half].reset_index(drop=True), detector.state))
    may = detector.can_still_vote(batch)
    np.testing.assert_array_equal(detector.can_still_vote(batch, detector.score(batch)), may)
    measured(detector, encode(events.iloc[half:].reset_index(drop=True), detector.state))
    assert 0 < may.mean() < 0.5
    assert (detector.score(batch)[~may] < detector.threshold).all()


def test_who_reaches_the_threshold_exactly_can_still_vote(
    detector: AutoencoderDetector, encode: Encode, events: pd.DataFrame
) -> None:
    """A z has 32 bits and a threshold 64: both questions compare as 32."""
    batch = measured(detector, encode(events, detector.state))
    detector.threshold = np.inf
    row, z = int(np.flatnonzero(~detector.can_still_vote(batch))[0]), detector.score(batch)
    detector.threshold = float(np.nextafter(np.float64(z[row]), np.inf))
    assert reaches_threshold(z, np.full(len(z), detector.threshold))[row]
    assert detector.can_still_vote(batch)[row]


def test_dispositions_move_the_threshold_of_a_fingerprint_by_a_share(
    detector: AutoencoderDetector, encode: Encode, events: pd.DataFrame
) -> None:
    batch = measured(detector, encode(events, detector.state))
    moved = batch.evidence["autoencoder"].copy()
    moved[:, -5] = 0.25
    other = replace(batch, evidence={"autoencoder": moved})
    shift = batch.evidence["autoencoder"][:, -5]
    np.testing.assert_allclose(detector.score(other) * 1.25, detector.score(batch) * (1 + shift), rtol=1e-5)


def test_what_the_fallback_measured_is_degraded(
    bank: Bank, state: ScorerState, encode: Encode, events: pd.DataFrame
) -> None:
    detector = AutoencoderDetector(SETTINGS, bank, state, Degraded(bank))
    detector.measure(encode(events, state))
    assert detector.degraded


def test_a_novelty_of_an_hour_ago_costs_no_more_than_one_of_ten_and_a_tool_or_place_when_it_is_familiar(
    bank: Bank, state: ScorerState
) -> None:
    shape = (2, len(FEATURE_NAMES))
    network, address = FEATURE_NAMES.index("network"), FEATURE_NAMES.index("address")
    codes = np.full(shape, 77, np.uint64)
    codes[:, address] = 78  # of an address: a service is its own
    observed = ObservedValues(np.array([11, 22], np.uint64), np.array([500_000, 500_000], np.int32), codes)
    loss, known, escape = (
        np.full(shape, 12.0, np.float32),
        np.zeros(shape, bool),
        np.full(shape, -0.5, np.float32),
    )

    def discounted(hours: int) -> Floats:
        later = observed._replace(interval=observed.interval + hours)
        return discount_recent_novelty(loss, known, escape, later, state)

    pause, capped = 1 + state.series.late_intervals, RECENT_NOVELTY_NATS + 0.5
    assert (discounted(0) == 12.0).all()
    once = discounted(pause)
    np.testing.assert_allclose(once[:, ~IS_BIN & ~IS_OF_CALLER], capped)
    assert (once[:, IS_OF_CALLER] == 12.0).all(), "one call makes no network usual"
    assert (once[:, IS_BIN] == 12.0).all(), "a bin of a number is no novelty"
    for hours in range(pause + 1, pause + FAMILIAR_CALLS):
        discounted(hours)
    often = discounted(3 * pause + FAMILIAR_CALLS)
    np.testing.assert_allclose(often[:, ~IS_BIN], capped)
    assert (loss == 12.0).all(), "the argument is left alone"

    codes[:, address] = codes[:, network] = 79
    discounted(10 * pause)
    of_a_service = discounted(11 * pause)
    np.testing.assert_allclose(of_a_service[:, [network, address]], capped, err_msg="it tries no key")


def test_drivers_are_the_most_surprising_values_first(scored: object, bank: Bank) -> None:
    for alert in scored.alerts:  # type: ignore[attr-defined]
        surprises = [driver.surprise for driver in alert.drivers]
        if not alert.impact:  # else actions that can do harm lead (`alerting.drivers`)
            assert surprises == sorted(surprises, reverse=True)
        assert min(surprises, default=MIN_DRIVER_SURPRISE) >= MIN_DRIVER_SURPRISE


def test_what_is_usual_of_the_generic_fingerprint_is_said_to_be_the_organisations(
    bank: Bank, encode: Encode, state: ScorerState, events: pd.DataFrame
) -> None:
    batch = encode(events.head(1).assign(bank_version=bank.version), state)
    context, action = Explainer(bank, state, SETTINGS), FEATURE_NAMES.index("action")
    for row, whose in ((GENERIC_ROW, True), (int(batch.fingerprint[0]), False)):
        of_row = replace(batch, fingerprint=np.array([row], np.int32))
        known = known_values(of_row, np.arange(1), context)[0]
        text = known.driver(ShownValue(action, 0, 2.0, 1), "iam:ListUsers", "iam:ListUsers").expected
        assert text.endswith(" (in the organisation)") == whose
    begun = np.flatnonzero((bank.fingerprints["level"] == 1) & ~bank.fingerprints["ready"])[0]
    of_row = replace(batch, fingerprint=np.array([begun], np.int32))
    known = known_values(of_row, np.arange(1), context)[0]
    text = known.driver(ShownValue(action, 0, 2.0, 1), "iam:ListUsers", "iam:ListUsers").expected
    assert text.endswith(f" (in its {bank.fingerprints['events'][begun]:.0f} calls so far)")


def test_what_is_flagged_is_not_listed_as_usual(
    bank: Bank, encode: Encode, state: ScorerState, events: pd.DataFrame
) -> None:
    batch = encode(events.head(1).assign(bank_version=bank.version), state)
    known = known_values(batch, np.arange(1), Explainer(bank, state, SETTINGS))[0]
    program = ShownValue(FEATURE_NAMES.index("program"), 0, 2.0, 1)
    usual = known.driver(program, "x", "y").expected.split(", ")
    others = known.driver(program, usual[0], "y").expected.split(", ")
    assert usual[0] not in others
    assert others == (usual[1:] or ["nothing else"])


def test_the_usual_resources_of_an_action_are_not_those_of_other_actions(
    bank: Bank, encode: Encode, state: ScorerState, events: pd.DataFrame
) -> None:
    """Not "usual here: iam:ListAttachedRolePolicies on role:x" of a bucket that was read."""
    one_each = events.drop_duplicates(["entity", "action", "resource"])
    batch = encode(one_each.assign(bank_version=bank.version), state)
    context = Explainer(bank, state, SETTINGS)
    found = known_values(batch, np.arange(len(one_each)), context)
    texts = FEATURE_SET.texts(batch.frame)
    given = FEATURE_NAMES.index("resource")
    usual, nothing, unnamed = [], 0, 0
    for row, action in enumerate(texts["action"]):
        text = found[row].driver(ShownValue(given, row, 2.0, 1), texts["resource"][row], str(action)).expected
        nothing += text == "nothing yet"
        unnamed += text == "many others, each seldom"
        is_said = not text.startswith(("nothing", "many others"))
        usual += [(str(action), each) for each in text.split(", ") if is_said]
    assert nothing
    assert unnamed
    assert len(usual) > 5
    assert all(each.startswith(f"{action} on ") for action, each in usual)
    places, tools = (FEATURE_NAMES.index(name) for name in ("address", "program"))
    roams = found[0]._replace(often_new=np.ones(len(FEATURE_NAMES), bool))
    for known, feature, said in ((roams, places, True), (found[0], places, False), (roams, tools, False)):
        expected = known.driver(ShownValue(feature, 0, 2.0, 1), "x", "y").expected
        assert expected.endswith(", often a new one") is said
