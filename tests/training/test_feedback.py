"""What analysts say of alerts moves a threshold: little by little, bounded both ways, fading with age."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from fingerprint.core.settings import Training
from fingerprint.training import feedback, promotion_gate

END = datetime(2026, 6, 1, tzinfo=UTC)
OPTIONS = Training()
RAISED = OPTIONS.max_threshold_increase
ANA, BEN = "1:user/ana", "1:user/ben"
S3, EC2, IAM = (f"{ANA}|{service}|direct" for service in ("s3", "ec2", "iam"))
BENS = f"{BEN}|s3|direct"
Row = tuple[str, str, str, float, str]  # alert, principal, entity, days ago, decision


def stack() -> pd.DataFrame:
    """Ana is ready, with S3 and EC2 of hers; Ben is not, nor is anything of his."""
    rows = [
        ("everybody", 3, True),
        ("people", 2, True),
        (ANA, 1, True),
        (S3, 0, True),
        (EC2, 0, True),
        (IAM, 0, False),
        (BEN, 1, False),
        (BENS, 0, False),
    ]
    return pd.DataFrame(rows, columns=["key", "level", "ready"])


def table(rows: Iterable[Row]) -> pd.DataFrame:
    frame = pd.DataFrame(list(rows), columns=list(feedback.DISPOSITION_COLUMNS))
    times = [END - timedelta(days=float(days)) for days in frame["event_time"]]
    return frame.assign(event_time=pd.to_datetime(times, utc=True))


def shift(*rows: Row, options: Training = OPTIONS) -> dict[str, float]:
    """Whose threshold moved, and how far."""
    found = feedback.shift_thresholds(stack(), table(rows), int(END.timestamp()), options)
    moved = found[found["shift"] != 0]
    return dict(zip(moved["key"], moved["shift"].astype(float), strict=True))


def of(*decisions: str, entity: str = S3, days: float = 0) -> list[Row]:
    return [(f"alert{n}", ANA, entity, days, decision) for n, decision in enumerate(decisions)]


# --- how far --------------------------------------------------------------------------------------------------------------


def test_a_false_alarm_raises_the_threshold_of_its_entity_and_of_no_one_else() -> None:
    for decision in ("benign", "false_positive"):
        assert shift(*of(decision)) == {S3: pytest.approx(RAISED * (1 - 2**-0.5), abs=1e-4)}


def test_a_true_positive_lowers_it_and_outweighs_two_false_alarms() -> None:
    assert shift(*of("true_positive")) == {S3: pytest.approx(-OPTIONS.max_threshold_decrease / 2)}
    assert shift(*of("true_positive", "benign", "benign")) == {}
    assert shift(*of("true_positive", "benign"))[S3] < 0


def test_ten_false_alarms_do_not_move_it_ten_times_as_far_and_a_thousand_hardly_further() -> None:
    one, ten, thousand = (shift(*of(*["benign"] * count))[S3] for count in (1, 10, 1000))
    assert one < ten < 4 * one
    assert ten < thousand <= np.float32(RAISED) < 1.05 * ten


def test_it_is_bounded_both_ways_whatever_is_said() -> None:
    score = np.array([-np.inf, -1e300, -7.0, 0.0, 7.0, 1e300, np.inf])
    found = feedback.score_to_shift(score, Training(max_threshold_increase=0.5, max_threshold_decrease=0.1))
    assert (np.diff(found) >= 0).all()
    assert found[0] == np.float32(-0.1)
    assert found[3] == 0
    assert found[-1] == np.float32(0.5)


def test_what_the_gate_counts_as_clearly_found_stays_found_when_everything_was_called_benign() -> None:
    """So the bound is no larger than what the gate leaves between the threshold and a clear find."""
    assert 1 + OPTIONS.max_threshold_increase <= promotion_gate.CLEAR_DETECTION_FACTOR


def test_what_was_said_fades_by_half_with_every_so_many_days(monkeypatch: pytest.MonkeyPatch) -> None:
    old = shift(*of("benign", days=90))[S3]
    assert old == pytest.approx(RAISED * (1 - 2**-0.25), abs=1e-4)
    assert shift(*of("benign", days=9000)) == {}
    monkeypatch.setattr(feedback, "DISPOSITION_HALF_LIFE_DAYS", 30.0)
    assert shift(*of("benign", days=30))[S3] == pytest.approx(old)


def test_what_is_dated_past_the_end_weighs_no_more_than_today() -> None:
    assert shift(*of("benign", days=-4000)) == shift(*of("benign"))


# --- whose ------------------------------------------------------------------------------------------------------------------


def test_what_no_one_judged_moves_nothing() -> None:
    assert shift() == {}
    assert shift(("a", ANA, "1:user/ana|gone|direct", 0, "open"), ("b", ANA, S3, 0, "open")) == {}


def test_an_alert_moves_each_of_its_entities_once() -> None:
    one = shift(*of("benign"))[S3]
    assert shift(("a", ANA, S3, 0, "benign"), ("a", ANA, EC2, 0, "benign")) == {S3: one, EC2: one}


def test_where_an_entity_is_not_ready_its_principal_is_moved_once_for_an_alert() -> None:
    one = shift(*of("benign"))[S3]
    new = "1:user/ana|sts|direct"  # no one has met it
    assert shift(("a", ANA, IAM, 0, "benign"), ("a", ANA, new, 0, "benign")) == {ANA: one}


def test_what_is_shared_is_moved_by_no_ones_word() -> None:
    assert shift(("a", BEN, BENS, 0, "benign")) == {}
    assert shift(("a", "people", "everybody", 0, "benign")) == {}


def test_a_duplicate_carries_the_decision_to_its_own_entity_and_counts_once_for_the_same() -> None:
    """Its row names the original, as the alert store gives it."""
    one = shift(*of("benign"))[S3]
    original = ("a", ANA, S3, 3, "benign")
    duplicates = [("a", ANA, S3, days, "benign") for days in (2, 1, 0)] + [("a", ANA, EC2, 0, "benign")]
    assert shift(original, *duplicates) == {S3: one, EC2: one}  # as young as the newest of them


def test_the_order_in_which_a_store_tells_it_changes_nothing() -> None:
    rows = of("benign", "true_positive", "benign", "benign", days=11.7) + of("benign", entity=EC2, days=3.1)
    assert shift(*rows) == shift(*rows[::-1])


def test_the_bank_says_of_how_many_alerts_a_threshold_follows() -> None:
    found = feedback.shift_thresholds(
        stack(), table(of("benign", "false_positive", "true_positive")), int(END.timestamp()), OPTIONS
    )
    assert found.set_index("key").loc[S3, ["benign", "malicious"]].tolist() == [2, 1]
    assert found["benign"].sum() == 2
