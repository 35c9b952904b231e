"""Delivery policy: which changes go to which receiver, and when a delivery is tried again."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from fingerprint.adapters.webhook import parse_secrets, signature_headers
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import ReceiverSettings, load_settings
from fingerprint.delivery import policy
from fingerprint.delivery.policy import (
    MAX_BACKOFF,
    AlertStatus,
    Delivery,
    ReceiverKnowledge,
    changes_to_deliver,
    idempotency_key,
    knowledge_after,
    next_attempt,
    retry_delay,
)

NOW = datetime(2026, 3, 4, 14, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
STAND = AlertStatus("3fa94c1be0d27a58", urgency=60, events=9)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of Standard Webhooks' own example


def wants(**fields: object) -> ReceiverSettings:
    return ReceiverSettings(url="https://soc.example.com/alerts", **fields)


EVERYTHING = wants(notify_on=("new", "updated", "decided"), min_urgency=0)


# --- which changes are delivered ------------------------------------------------------------------------------------------------


def test_an_alert_is_new_once_and_only_where_it_is_urgent_enough():
    assert changes_to_deliver(wants(), STAND, None) == ["new"]
    assert changes_to_deliver(wants(), STAND, ReceiverKnowledge(9)) == []
    assert changes_to_deliver(wants(min_urgency=61), STAND, None) == []


def test_growth_is_told_to_whom_asked_for_it():
    grown = STAND._replace(events=10)
    assert changes_to_deliver(wants(), grown, ReceiverKnowledge(9)) == []
    assert changes_to_deliver(EVERYTHING, grown, ReceiverKnowledge(9)) == ["updated"]
    assert changes_to_deliver(EVERYTHING, grown, knowledge_after(grown, ReceiverKnowledge(9))) == []


def test_a_decision_is_told_and_another_one_again():
    decided = STAND._replace(decided_at=NOW)
    assert changes_to_deliver(EVERYTHING, decided, ReceiverKnowledge(9)) == ["decided"]
    assert changes_to_deliver(EVERYTHING, decided, knowledge_after(decided, ReceiverKnowledge(9))) == []
    assert changes_to_deliver(
        EVERYTHING, STAND._replace(decided_at=LATER), knowledge_after(decided, None)
    ) == ["decided"]


def test_a_decision_that_is_taken_back_is_told_once_and_the_next_one_again():
    known = ReceiverKnowledge(9, NOW)
    assert changes_to_deliver(EVERYTHING, STAND, known) == ["decided"]
    assert changes_to_deliver(wants(), STAND, known) == []
    known = knowledge_after(STAND, known)
    assert changes_to_deliver(EVERYTHING, STAND, known) == []
    assert changes_to_deliver(EVERYTHING, STAND._replace(decided_at=NOW), known) == ["decided"]


def test_a_decision_that_is_outgrown_is_told_with_the_growth_or_alone():
    known, grown = ReceiverKnowledge(9, NOW), STAND._replace(events=10, outgrown=True)
    assert changes_to_deliver(EVERYTHING, grown, known) == ["updated"]
    assert changes_to_deliver(wants(notify_on=("new", "decided")), grown, known) == ["decided"]


def test_a_decision_that_is_outgrown_under_a_suppression_is_told_when_that_has_ended():
    known, grown = ReceiverKnowledge(9, NOW), STAND._replace(events=10, outgrown=True)
    deciding, hidden = wants(notify_on=("new", "decided")), grown._replace(suppressed=True)
    assert changes_to_deliver(deciding, hidden, known) == []
    known = knowledge_after(hidden, known)
    assert changes_to_deliver(deciding, grown, known) == ["decided"]
    reopened = hidden._replace(outgrown=False)
    assert changes_to_deliver(deciding, reopened, known) == ["decided"]


def test_an_alert_that_was_decided_before_anybody_was_told_is_told_of_with_its_decision():
    decided = STAND._replace(decided_at=NOW)
    assert changes_to_deliver(EVERYTHING, decided, None) == ["new", "decided"]
    assert changes_to_deliver(wants(notify_on=("decided",)), decided, None) == ["decided"]


def test_what_is_suppressed_is_told_when_it_no_longer_is():
    hidden = STAND._replace(suppressed=True)
    assert changes_to_deliver(EVERYTHING, hidden, None) == []
    assert changes_to_deliver(EVERYTHING, STAND, None) == ["new"]


def test_what_an_alert_grew_while_it_was_suppressed_is_told_when_it_no_longer_is():
    grown = STAND._replace(events=10)
    hidden = grown._replace(suppressed=True)
    assert changes_to_deliver(EVERYTHING, hidden, ReceiverKnowledge(9)) == []
    known = knowledge_after(hidden, ReceiverKnowledge(9))
    assert changes_to_deliver(EVERYTHING, grown, known) == ["updated"]
    assert changes_to_deliver(EVERYTHING, grown, knowledge_after(grown, known)) == []


def test_a_key_is_the_same_for_the_same_and_different_for_anything_else():
    keys = [
        idempotency_key("soc", STAND, "new"),
        idempotency_key("ops", STAND, "new"),
        idempotency_key("soc", STAND._replace(alert_id="other"), "new"),
        idempotency_key("soc", STAND, "updated"),
        idempotency_key("soc", STAND._replace(events=10), "updated"),
        idempotency_key("soc", STAND._replace(version=1), "decided"),
        idempotency_key("soc", STAND._replace(version=2), "decided"),
        idempotency_key("soc", STAND._replace(version=2, events=10), "decided"),
    ]
    assert len(set(keys)) == len(keys)
    assert idempotency_key("soc", STAND._replace(events=99, urgency=1, decided_at=NOW), "new") == keys[0]


# --- when it is tried again ------------------------------------------------------------------------------------------


def test_waits_double_up_to_an_hour():
    assert [retry_delay(tries, jitter=1.0) for tries in (1, 2, 3, 10, 11, 60)] == [
        5,
        10,
        20,
        2560,
        3600,
        3600,
    ]


@given(some.integers(1, 10_000), some.floats(0, 1), some.floats(0, 1e9))
def test_a_wait_is_never_short_and_never_longer_than_an_hour(tries, draw, asked):
    assert 2.5 <= retry_delay(tries, draw, asked) <= MAX_BACKOFF
    assert retry_delay(tries, draw, asked) >= min(asked, MAX_BACKOFF)


def test_what_failed_together_does_not_come_back_together():
    assert retry_delay(5, jitter=0.0) * 2 == retry_delay(5, jitter=1.0)


def test_a_delivery_is_given_up_after_so_many_tries_or_so_long(monkeypatch: pytest.MonkeyPatch):
    delivery = Delivery("k", "soc", "a", "new", NOW, NOW, tries=2)
    assert next_attempt(delivery, NOW, jitter=1.0) == NOW + timedelta(seconds=20)
    monkeypatch.setattr(policy, "MAX_ATTEMPTS", 3)
    assert next_attempt(delivery, NOW, jitter=1.0) is None
    monkeypatch.undo()
    assert next_attempt(replace(delivery, tries=59), NOW, jitter=1.0) is None
    monkeypatch.setattr(policy, "MAX_AGE", timedelta(seconds=19))
    assert next_attempt(delivery, NOW, jitter=1.0) is None


def test_by_default_it_is_tried_for_two_days():
    """As docs/how-to/deliver.md says."""
    waited = sum(retry_delay(tries, jitter=1.0) for tries in range(1, policy.MAX_ATTEMPTS))
    assert timedelta(hours=49) < timedelta(seconds=waited) < timedelta(hours=52)


# --- receivers in the settings ---------------------------------------------------------------------------------------


def test_receivers_are_named_in_the_settings_and_the_environment_wins(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(
        '[deliver.soc]\nurl = "https://soc.example.com/"\n\n[deliver.lake]\nkind = "kafka"\ntopic = "t"\n'
    )
    loaded = load_settings(
        file,
        {"FINGERPRINT_DELIVER__SOC__NOTIFY_ON": "new, decided", "FINGERPRINT_DELIVER__SOC__FORMAT": "ocsf"},
    )
    assert loaded.deliver["soc"].notify_on == ("new", "decided")
    assert loaded.deliver["soc"].resolved_format == "ocsf"
    assert loaded.deliver["soc"].target_url() == "https://soc.example.com/"
    assert loaded.deliver["lake"].resolved_format == "json"


def test_a_receiver_may_be_of_the_environment_alone():
    loaded = load_settings(
        None, {"FINGERPRINT_DELIVER__OPS__KIND": "slack", "FINGERPRINT_DELIVER__OPS__URL_FILE": "/x"}
    )
    assert loaded.deliver["ops"].resolved_format == "slack"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[deliver.soc]\ncolour = 1", "deliver.soc.colour.*known: alert_url_prefix"),
        ("[deliver.soc]", "deliver.soc: kind webhook needs one of url and url_file"),
        ('[deliver.soc]\nurl = "x"\nurl_file = "y"', "one of url and url_file"),
        ('[deliver.soc]\nkind = "kafka"\nurl = "x"', "kind kafka needs a topic"),
        ('[deliver.soc]\nurl = "x"\nnotify_on = []', "deliver.soc.notify_on"),
        ('[deliver.soc]\nurl = "x"\nnotify_on = ["often"]', "deliver.soc.notify_on"),
        ('[deliver."SOC 1"]\nurl = "x"', "no receiver's name"),
        ('[deliver.soc]\nurl = "x"\nalert_url_prefix = "javascript:alert(1)"', "alert_url_prefix"),
        ("deliver = 3", "deliver"),
    ],
)
def test_a_receiver_that_cannot_be_is_one_sentence(tmp_path, text, named):
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(FingerprintError, match=named):
        load_settings(file, {})


# --- what the docs say -----------------------------------------------------------------------------------------------

DOCS = (Path(__file__).parents[2] / "docs/how-to/deliver.md").read_text()


def example(language: str) -> str:
    """The first block of a language."""
    return DOCS.split(f"```{language}\n")[1].split("```")[0]


def test_the_receiver_of_the_docs_knows_what_is_ours():
    receiver: dict = {}
    exec(example("python"), receiver)  # noqa: S102 - our own docs
    now = datetime.now(UTC)
    two = parse_secrets(SECRET + "\nwhsec_" + b64encode(b"x" * 32).decode())
    good = signature_headers("k", now, b"{}", two)
    assert receiver["is_ours"](good, b"{}", SECRET)
    assert not receiver["is_ours"](good, b"{ }", SECRET)
    assert not receiver["is_ours"](good, b"{}", "whsec_" + b64encode(b"y" * 32).decode())
    old = signature_headers("k", now - timedelta(seconds=301), b"{}", two)
    assert not receiver["is_ours"](old, b"{}", SECRET)


def test_the_settings_of_the_docs_are_settings(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(example("toml"))
    loaded = load_settings(file, {}).deliver
    assert [each.resolved_format for each in loaded.values()] == ["ocsf", "slack", "ocsf"]
