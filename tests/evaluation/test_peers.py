"""The simpler methods: each finds what it is made to find, and leaves a repeated habit in peace."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import hashing
from fingerprint.evaluation.event_table import EventTable
from fingerprint.evaluation.peers import (
    PEER_METHODS,
    budget_threshold,
    evaluate_peer,
    log_rarity,
    log_rarity_online,
    log_rarity_sequential,
)
from fingerprint.evaluation.ranking import (
    NO_ACTION,
    best_per_group,
    count_in_earlier_hours,
    count_occurrences,
    discounted_sums,
    log_frequencies,
    previous_action,
    ranked_by_strongest,
)
from fingerprint.features.encoding import FEATURE_NAMES

DAYS, CUT = 8, 6 * 86400
WINDOW = 6 * 3600


def rows_of(table: pd.DataFrame) -> EventTable:
    """Rows from columns seconds, principal and any of the features; the others are the same for everybody."""
    table = table.sort_values("seconds", kind="stable", ignore_index=True)
    codes = np.column_stack(
        [
            hashing.hash_strings(table[name].astype(object))
            if name in table
            else np.zeros(len(table), np.uint64)
            for name in FEATURE_NAMES
        ]
    ).astype(np.uint64)
    principal = hashing.hash_strings(table["principal"].astype(object))
    seconds = table["seconds"].to_numpy(np.int64)
    frame = pd.DataFrame(
        {
            "event_id": [str(place) for place in range(len(table))],
            "event_time": pd.to_datetime(seconds, unit="s", utc=True),
            "principal": table["principal"],
        }
    )
    return EventTable(
        frame, codes, principal, seconds, hashing.hash_pair(principal, (seconds // WINDOW).astype(np.uint64))
    )


def habits(seed: int = 0) -> pd.DataFrame:
    """Four principals, two calls an hour by day, six actions and one program each, for eight days."""
    random = np.random.default_rng(seed)
    hours = np.arange(DAYS * 24)[np.isin(np.arange(DAYS * 24) % 24, range(8, 18))]
    rows = [
        (who, hour * 3600 + random.integers(3600)) for who in range(4) for hour in hours for _ in range(2)
    ]
    table = pd.DataFrame(rows, columns=["who", "seconds"])
    table["principal"] = "p" + table["who"].astype(str)
    table["action"] = [f"a{who}{random.integers(6)}" for who in table["who"]]
    table["program"] = "tool" + table["who"].astype(str)
    table["network"] = "office"
    return table.drop(columns="who").sort_values("seconds", ignore_index=True)


def planted() -> pd.DataFrame:
    """A burst of calls that p0 never made, with another's program, from nowhere, on the last day at noon."""
    start = (DAYS - 1) * 86400 + 12 * 3600
    return pd.DataFrame(
        {
            "seconds": start + np.arange(30),
            "principal": "p0",
            "action": [f"evil{place % 10}" for place in range(30)],
            "program": "tool3",
            "network": "nowhere",
            "error": "AccessDenied",
        }
    )


def judged(table: pd.DataFrame) -> tuple[EventTable, EventTable]:
    return rows_of(table).split(CUT)


@pytest.mark.parametrize("name", PEER_METHODS)
def test_a_planted_attack_ranks_first(name: str) -> None:
    past, now = judged(pd.concat([habits(), planted()]))
    score = PEER_METHODS[name](past, now)
    attack = now.codes[:, FEATURE_NAMES.index("network")] == hashing.hash_string("nowhere")
    its_alert = np.isin(now.group, now.group[attack])
    assert score[its_alert].max() == score[attack].max() > score[~its_alert].max()


@pytest.mark.parametrize("name", PEER_METHODS)
def test_a_habit_that_repeats_itself_scores_low(name: str) -> None:
    past, now = judged(pd.concat([habits(), planted()]))
    score = PEER_METHODS[name](past, now)
    attack = now.codes[:, FEATURE_NAMES.index("network")] == hashing.hash_string("nowhere")
    assert np.median(score[attack & np.isfinite(score)]) > np.quantile(score[~attack], 0.9, method="higher")


@pytest.mark.parametrize("name", PEER_METHODS)
def test_the_same_rows_get_the_same_scores(name: str) -> None:
    past, now = judged(pd.concat([habits(), planted()]))
    np.testing.assert_array_equal(PEER_METHODS[name](past, now), PEER_METHODS[name](past, now))


@pytest.mark.parametrize("name", PEER_METHODS)
def test_a_threshold_is_set_without_looking_at_what_is_judged(name: str) -> None:
    quiet, attacked = judged(habits()), judged(pd.concat([habits(), planted()]))
    assert budget_threshold(PEER_METHODS[name], quiet[0], 2) == budget_threshold(
        PEER_METHODS[name], attacked[0], 2
    )


def test_a_threshold_shows_as_many_alerts_in_the_held_out_past_as_the_budget_says() -> None:
    past, now = judged(habits())
    score, flagged = evaluate_peer(log_rarity, past, now, budget=4)
    least = budget_threshold(log_rarity, past, budget=4)
    assert (flagged == (score >= least)).all()
    older, newer = past.split(int(past.seconds[0] + (past.seconds[-1] - past.seconds[0]) * 0.75))
    best = best_per_group(log_rarity(older, newer), newer.group)
    assert (best > least).sum() < int(4 * newer.span_days) <= (best >= least).sum()  # alerts may tie


def test_an_action_is_first_seen_once() -> None:
    past, now = judged(pd.concat([habits(), planted()]))
    score = PEER_METHODS["first-seen action"](past, now)
    assert np.isfinite(score).sum() == 10  # thirty calls of ten new actions
    assert score.max() == 10


def test_what_the_principal_did_an_hour_ago_is_less_rare_when_the_counts_learn() -> None:
    again = planted().assign(seconds=planted()["seconds"] + 2 * 3600)
    past, now = judged(pd.concat([habits(), planted(), again]))
    later = (now.codes[:, FEATURE_NAMES.index("network")] == hashing.hash_string("nowhere")) & (
        now.hours % 24 == 14
    )
    still, learns = log_rarity(past, now), log_rarity_online(past, now)
    assert learns[later].mean() < still[later].mean() - 2


def test_log_frequencies_of_a_feature_add_up_to_no_more_than_one() -> None:
    past, now = judged(habits())
    place = FEATURE_NAMES.index("action")
    logp = log_frequencies(past, now, [place])[:, 0]
    mine = pd.DataFrame(
        {"who": now.principal, "action": now.codes[:, place], "p": np.exp(logp)}
    ).drop_duplicates()
    total = mine.groupby("who")["p"].sum()
    assert (total <= 1).all()
    assert (total > 0.9).all()


def test_counting_agrees_with_the_plain_way() -> None:
    random = np.random.default_rng(1)
    past, now = (random.integers(0, 9, size).astype(np.uint64) for size in (200, 50))
    counted = Counter(past.tolist())
    assert count_occurrences(past, now).tolist() == [counted[key] for key in now.tolist()]
    hour = np.sort(random.integers(0, 6, 50))
    plain = [int(((now == key) & (hour < at)).sum()) for key, at in zip(now, hour, strict=True)]
    assert count_in_earlier_hours(now, hour).tolist() == plain


def rows_like(actions: str, seconds: list[int], principal: str = "p") -> EventTable:
    """One principal's actions, a letter each."""
    return rows_of(pd.DataFrame({"seconds": seconds, "principal": principal, "action": list(actions)}))


def test_the_action_before_is_the_same_principals_and_within_the_hour() -> None:
    table = pd.DataFrame(
        [(0, "p", "a"), (1, "q", "b"), (2, "p", "c"), (3601, "p", "d"), (7202, "p", "e"), (7203, "q", "f")],
        columns=["seconds", "principal", "action"],
    )
    rows, code = rows_of(table), {name: hashing.hash_string(name) for name in "abcdef"}
    assert previous_action(rows).tolist() == [
        NO_ACTION,
        NO_ACTION,
        code["a"],
        code["c"],
        NO_ACTION,
        NO_ACTION,
    ]


def test_known_actions_in_an_order_that_was_never_seen_are_rarer() -> None:
    past = rows_like("ab" * 100, [3600 * 2 * (place // 2) + place % 2 for place in range(200)])
    usual, turned = (rows_like(actions, [10**6, 10**6 + 1]) for actions in ("ab", "bb"))
    difference = log_rarity_sequential(past, turned) - log_rarity_sequential(past, usual)
    plain = log_rarity_online(past, turned) - log_rarity_online(past, usual)
    assert difference[1] > plain[1] + 0.6
    # p(b | a) = (100 + 5 p(b)) / 105, p(b | b) = (0 + 5 p(b)) / 5
    p = np.exp(log_frequencies(past, usual, [FEATURE_NAMES.index("action")], online=True))[1, 0]
    assert difference[1] - plain[1] == pytest.approx(np.log((100 + 5 * p) / 105) - np.log(5 * p / 5))


def test_an_alerts_further_actions_fade_and_repeats_add_nothing() -> None:
    excess = np.array([4.0, 8.0, 2.0, 4.0, 1.0])
    group, value = np.array([7, 7, 7, 7, 3], np.uint64), np.array([1, 2, 3, 1, 1], np.uint64)
    sums = discounted_sums(excess, group, value)
    assert sums.tolist() == [8 + 4 / 2 + 2 / 4] * 4 + [1.0]


def test_five_strange_calls_outrank_one_that_is_a_little_stranger() -> None:
    past, now = judged(pd.concat([habits(), planted()]))
    action = now.codes[:, FEATURE_NAMES.index("action")]
    five = [np.flatnonzero(action == hashing.hash_string(f"evil{place}"))[0] for place in range(5)]
    one = np.flatnonzero(~np.isin(now.group, now.group[five]))[-1]

    def method(_: EventTable, rows: EventTable) -> np.ndarray:
        score = np.zeros(len(rows))
        score[five], score[one] = 5.0, 6.0
        return score

    plain, ranked = method(past, now), ranked_by_strongest(method)(past, now)
    assert plain[one] > plain[five].max()
    assert ranked[one] == 6.0 < ranked[five].max() == 5 * (1 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16)


def test_an_alert_shows_what_is_strange_and_one_without_comes_after_all_that_have_some() -> None:
    past, now = judged(habits())
    plain, ranked = log_rarity(past, now), ranked_by_strongest(log_rarity)(past, now)
    strange = plain >= np.quantile(plain, 0.95)
    with_strange = np.isin(now.group, now.group[strange])
    assert 0 < strange.mean() < 0.1
    assert (ranked[strange] >= 0).all()
    assert (ranked[with_strange & ~strange] == -np.inf).all()
    rest = ranked[~with_strange]
    assert len(rest)
    assert ((rest < 0) & np.isfinite(rest)).all()
    assert (np.argsort(rest, kind="stable") == np.argsort(plain[~with_strange], kind="stable")).all()


@pytest.mark.parametrize("name", ["IsolationForest", "ECOD"])
def test_what_is_unusually_common_is_no_outlier(name: str) -> None:
    """All day the same call of a busy robot: the most common thing there is."""
    robot = pd.DataFrame({"seconds": np.arange(0, DAYS * 86400, 60), "principal": "robot", "action": "poll"})
    past, now = judged(pd.concat([habits(), robot, planted()]))
    score = PEER_METHODS[name](past, now)
    robots = now.principal == hashing.hash_string("robot")
    attack = now.codes[:, FEATURE_NAMES.index("network")] == hashing.hash_string("nowhere")
    assert score[robots].max() < score[attack].min()


def test_the_best_score_of_a_group_stands_for_its_alert() -> None:
    score, group = np.array([1.0, 5.0, 2.0, 3.0]), np.array([7, 7, 3, 3], np.uint64)
    assert best_per_group(score, group).tolist() == [3.0, 5.0]
    assert best_per_group(np.empty(0), np.empty(0, np.uint64)).tolist() == []
