"""Score, then learn; learn slowly from what was flagged: which events a training leaves out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from fingerprint.core.alert import Decision, Disposition
from fingerprint.core.case import current_decisions
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import index_key
from fingerprint.core.settings import Training
from fingerprint.training import exclusions
from fingerprint.training.exclusions import TrainingExclusions

END = datetime(2026, 2, 1, tzinfo=UTC)
Row = tuple[str, datetime, str, str]  # event_id, event_time, entity, word


def days_ago(days: float) -> datetime:
    return END - timedelta(days=days)


def table(rows: Iterable[Row]) -> pd.DataFrame:
    frame = pd.DataFrame(list(rows), columns=["event_id", "event_time", "entity", "label"])
    return frame.assign(event_time=pd.to_datetime(frame["event_time"], utc=True))


def flagged(rows: Iterable[Row], **options: float) -> TrainingExclusions:
    return TrainingExclusions.from_labels([table(rows)], Training(**options), END)


def events(*ids: str) -> pd.DataFrame:
    return pd.DataFrame({"event_id": pd.Series(ids, dtype="str")})


def learned_ids(of: TrainingExclusions, chunks: Iterable[pd.DataFrame]) -> list[str]:
    marked = pd.concat(list(of.mark(chunks)))
    ids: list[str] = marked["event_id"][exclusions.is_learned(marked)].tolist()
    return ids


def kept(of: TrainingExclusions, *ids: str) -> list[bool]:
    learned = learned_ids(of, [events(*ids)])
    return [each in learned for each in ids]


# --- what stays out, what comes back ----------------------------------------------------------------------------------


def test_what_was_called_malicious_or_was_not_judged_stays_out_however_old_and_what_was_cleared_comes_back() -> (
    None
):
    old = days_ago(300)
    rows = [(word, old, "e", word) for word in ("true_positive", "open", "benign", "false_positive")]
    known = flagged(rows)
    assert kept(known, "true_positive", "open", "benign", "false_positive", "other") == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert known.excluded_counts() == {"malicious": 1, "open": 1, "recent vote": 0, "past the cap": 0}
    assert known.readmitted_counts() == {"called benign": 2, "returned vote": 0}


def test_a_single_vote_comes_back_after_its_days() -> None:
    known = flagged([("young", days_ago(13.9), "e", "vote"), ("old", days_ago(14.1), "e", "vote")])
    assert kept(known, "young", "old") == [False, True]
    at_once = flagged([("young", days_ago(1), "e", "vote")], single_vote_exclusion_days=0)
    assert kept(at_once, "young") == [True]


def test_of_one_entity_and_day_the_first_votes_come_back_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exclusions, "MAX_RETURNED_VOTES", 4)
    noon = days_ago(30.5)
    rows = [(f"a{n}", noon + timedelta(minutes=n), "a", "vote") for n in range(30)]
    rows += [(f"b{n}", noon, "b", "vote") for n in range(3)]
    rows += [(f"next{n}", noon + timedelta(days=1, minutes=n), "a", "vote") for n in range(4)]
    known = flagged(rows[::-1])
    assert kept(known, *(f"a{n}" for n in range(30))) == [True] * 4 + [False] * 26
    assert all(kept(known, *(f"b{n}" for n in range(3)), *(f"next{n}" for n in range(4))))
    assert known.excluded_counts()["past the cap"] == 26


def test_a_vote_on_an_event_of_an_alert_says_nothing_beside_what_was_decided() -> None:
    yesterday = days_ago(1)
    rows = [("benign", yesterday, "e", "benign"), ("bad", days_ago(99), "e", "true_positive")]
    rows += [(event_id, at, entity, "vote") for event_id, at, entity, _ in rows]
    assert kept(flagged(rows), "benign", "bad") == [True, False]


def test_an_event_in_two_alerts_is_learned_only_if_neither_is_in_the_way() -> None:
    when = days_ago(99)
    rows = [("x", when, "e", "benign"), ("x", when, "e", "open"), ("y", when, "e", "benign")]
    for order in (rows, rows[::-1]):
        assert kept(flagged(order), "x", "y") == [False, True]


def test_an_id_that_no_database_takes_as_it_is_is_found_again_as_the_store_kept_it() -> None:
    assert kept(flagged([("nul\ufffd", days_ago(1), "e", "open")]), "nul\0", "nul") == [False, True]


@pytest.mark.parametrize("length", [500, 501, 1024])
def test_an_event_with_a_long_id_is_found_again_as_the_store_cut_it(length: int) -> None:
    """The writer of a record chooses its id: a confirmed attack was learned."""
    name = "e" * (length - 1) + "\0"
    known = flagged([(index_key(name), days_ago(1), "e", "true_positive")])
    assert kept(known, name, "e" * length) == [False, True]
    assert known.excluded_counts()["malicious"] == 1


def test_no_one_asked_and_nothing_flagged_leave_everything_in() -> None:
    for known in (TrainingExclusions.empty(), TrainingExclusions.from_labels([], Training(), END)):
        assert kept(known, "a", "b") == [True, True]
        assert sum(known.excluded_counts().values()) == 0


# --- a history ----------------------------------------------------------------------------------------------------------


def cut(frame: pd.DataFrame, size: int) -> Iterator[pd.DataFrame]:
    for start in range(0, len(frame), size):
        yield frame.iloc[start : start + size].reset_index(drop=True)


def test_only_what_the_history_holds_is_counted_and_a_repeat_once() -> None:
    known = flagged([(name, days_ago(1), "e", "open") for name in ("a", "b", "elsewhere")])
    assert learned_ids(known, cut(events("a", "x", "b", "a", "y"), 2)) == ["x", "y"]
    assert known.excluded_counts()["open"] == 2


def test_a_history_of_which_nothing_is_left_is_one_sentence() -> None:
    known = flagged([("a", days_ago(1), "e", "open")])
    with pytest.raises(FingerprintError, match="all 2 events were flagged"):
        list(known.mark([events("a"), events("a")]))


def test_what_is_not_learned_is_still_there_to_be_judged_and_what_is_malicious_is_not() -> None:
    when = days_ago(1)
    known = flagged(
        [("bad", when, "e", "true_positive"), ("open", when, "e", "open"), ("vote", when, "e", "vote")]
    )
    marked = pd.concat(list(known.mark([events("bad", "open"), events("vote", "other")])))
    assert marked["event_id"].tolist() == ["open", "vote", "other"]
    assert marked[exclusions.LEARNED].tolist() == [False, False, True]


@pytest.mark.parametrize("seed", range(2))
def test_the_plain_version_agrees_wherever_the_history_is_cut(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusions, "MAX_RETURNED_VOTES", 2)
    random = np.random.default_rng(seed)
    words = ["true_positive", "open", "benign", "false_positive", "vote", "vote", "vote", "vote"]
    rows: list[Row] = []
    when = {name: days_ago(float(random.uniform(0, 40))) for name in map(str, range(400))}
    for _ in range(600):
        name = str(random.integers(400))
        rows.append((name, when[name], f"entity{int(name) % 3}", str(random.choice(words))))
    options = Training(single_vote_exclusion_days=10)
    history = events(*map(str, random.permutation(500)))
    wanted = plain(rows, options)
    for size in (1, 7, 500):
        known = TrainingExclusions.from_labels(map(table, (rows[:200], rows[200:])), options, END)
        assert learned_ids(known, cut(history, size)) == [
            name for name in history["event_id"] if wanted.get(name) not in known.excluded_counts()
        ]
        count = Counter(wanted.values())
        assert known.excluded_counts() | known.readmitted_counts() == {
            reason: count[reason] for reason in known.excluded_counts() | known.readmitted_counts()
        }


def plain(rows: list[Row], options: Training) -> dict[str, str]:
    """Event by event, as the table in `exclusions` says it."""
    said = defaultdict(set)
    for name, at, entity, word in rows:
        said[name].add((at, entity, word))
    out: dict[str, str] = {}
    came_back: Counter[tuple[str, int]] = Counter()
    order = {"true_positive": "malicious", "open": "open", "benign": "called benign"}
    hashes = pd.util.hash_array(np.array(sorted(said), dtype=object), categorize=False)
    rank = dict(zip(sorted(said), hashes.tolist(), strict=True))  # ties of time are broken by it
    for name in sorted(said, key=lambda name: (min(at for at, _, _ in said[name]), rank[name])):
        words = {"benign" if word == "false_positive" else word for _, _, word in said[name]}
        (at, entity), *_ = {(at, entity) for at, entity, _ in said[name]}
        found = next((reason for word, reason in order.items() if word in words), None)
        if found is None and at > END - timedelta(days=options.single_vote_exclusion_days):
            found = "recent vote"
        if found is None:
            day = (entity, int(at.timestamp()) // 86400)
            found = "returned vote" if came_back[day] < exclusions.MAX_RETURNED_VOTES else "past the cap"
            came_back[day] += 1
        out[name] = found
    return out


# --- dispositions ---------------------------------------------------------------------------------------------------------


def said(alert_id: str, decision: Decision, of: str = "", events: int = 1) -> Disposition:
    return Disposition(alert_id, decision, "maria", "", END, events, of)


def test_an_alert_that_has_grown_since_is_open_again() -> None:
    assert current_decisions([said("a", "benign", events=3)], {"a": 3}) == {"a": "benign"}
    assert current_decisions([said("a", "benign", events=3)], {"a": 4}) == {}


def test_a_duplicate_stands_as_the_alert_it_is_a_duplicate_of() -> None:
    newest = [
        said("a", "duplicate", "b"),
        said("b", "duplicate", "c"),
        said("c", "benign"),
        said("d", "duplicate", "e"),  # and no one has judged e
        said("f", "duplicate", "g"),
        said("g", "true_positive", events=0),  # grown
    ]
    assert current_decisions(newest, dict.fromkeys("abcdfg", 1)) == {
        "a": "benign",
        "b": "benign",
        "c": "benign",
    }


def test_duplicates_of_one_another_are_open() -> None:
    newest = [said("a", "duplicate", "b"), said("b", "duplicate", "a"), said("c", "duplicate", "a")]
    assert current_decisions(newest, dict.fromkeys("abc", 1)) == {}
