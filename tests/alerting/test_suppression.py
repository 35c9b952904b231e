"""What a suppression hides: every event as it says, letter by letter, and never more."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from fingerprint.alerting.suppression import (
    MIN_ATTACKER_CONTROLLED_LENGTH,
    AlertFacts,
    EventFacts,
    SuppressionMatcher,
    describe_match,
    validate_expiry,
    validate_match,
    validate_reason,
)
from fingerprint.core.case import SuppressionMatch
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import storable
from tests.support.alerts import NASTY

JOB = EventFacts("glue", "StartJobRun", "10.3.1.8", "Boto3/1.34.60 md/x", "")
THEFT = EventFacts("secretsmanager", "GetSecretValue", "185.220.101.34", "aws-cli/2.15", "AccessDenied")
ETL = AlertFacts("123456789012:role/etl", "i-0ab4711c", ["123456789012"], [JOB])
NOW = datetime(2026, 3, 5, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "match",
    [
        SuppressionMatch(principal="123456789012:role/etl"),
        SuppressionMatch(principal="123456789012:role/etl", human="i-0ab4711c"),
        SuppressionMatch(account="123456789012"),
        SuppressionMatch(service="glue"),
        SuppressionMatch(action="StartJobRun"),
        SuppressionMatch(action="glue:StartJobRun"),
        SuppressionMatch(service="glue", action="glue:StartJobRun"),
        SuppressionMatch(network="10.3.0.0/16"),
        SuppressionMatch(network="10.3.1.8"),
        SuppressionMatch(principal="123456789012:role/etl", user_agent="Boto3/1.34"),
        SuppressionMatch(account="123456789012", network="10.3.0.0/16", user_agent="Boto3/1.34"),
    ],
)
def test_an_alert_whose_every_event_is_as_the_match_says_is_hidden(match):
    assert SuppressionMatcher(match)(ETL)


@pytest.mark.parametrize("name", [each.name for each in fields(SuppressionMatch)])
def test_an_alert_of_someone_or_something_else_is_seen(name):
    other = {"network": "192.0.2.0/24", "action": "StopJobRun"}.get(name, "another one")
    assert not SuppressionMatcher(replace(SuppressionMatch(principal=ETL.principal), **{name: other}))(ETL)


def test_an_action_is_that_of_a_match_by_the_name_in_titles_and_by_the_name_in_the_log():
    """CloudTrail appends an API version to some names, which titles leave out."""
    called = ETL._replace(events=[JOB._replace(service="lambda", action="GetFunction20150331v2")])
    for named in ("GetFunction", "lambda:GetFunction", "GetFunction20150331v2"):
        assert SuppressionMatcher(SuppressionMatch(action=named))(called)
    for other in ("GetFunct", "GetFunctionConfiguration", "GetFunction20150331"):
        assert not SuppressionMatcher(SuppressionMatch(action=other))(called)


def test_one_event_that_is_different_shows_the_whole_alert():
    hides = SuppressionMatcher(SuppressionMatch(principal=ETL.principal, service="glue"))
    assert hides(ETL._replace(events=[JOB, JOB]))
    assert not hides(ETL._replace(events=[JOB, THEFT]))


def test_an_alert_that_reaches_into_another_account_is_seen():
    hides = SuppressionMatcher(SuppressionMatch(account="123456789012"))
    assert hides(ETL)
    assert not hides(ETL._replace(accounts=["123456789012", "210987654321"]))


def test_an_alert_without_events_is_seen():
    assert not SuppressionMatcher(SuppressionMatch(service="glue"))(ETL._replace(events=[]))


@pytest.mark.parametrize("text", [".*", "%", "_", "*", "glu_", "GLUE", "glue ", "[g]lue", "glue|iam"])
def test_no_character_of_a_match_means_more_than_itself(text):
    assert not SuppressionMatcher(SuppressionMatch(service=text))(ETL)
    assert SuppressionMatcher(SuppressionMatch(service=text))(
        ETL._replace(events=[JOB._replace(service=text)])
    )


@pytest.mark.parametrize(
    "text", [each for each in NASTY if each.strip() and ":" not in each and len(each) < 4000]
)
def test_whatever_an_attacker_wrote_can_be_matched_as_it_is_kept(text):
    kept = storable(text)
    event = EventFacts(kept, kept, "10.0.0.1", kept, kept)
    written = text if len(kept.strip()) >= MIN_ATTACKER_CONTROLLED_LENGTH else ""
    match = SuppressionMatch(text, written, text, text, text, "10.0.0.1", written, written)
    assert SuppressionMatcher(match)(AlertFacts(kept, kept, [kept], [event]))
    assert "\x1b" not in describe_match(validate_match(match))


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("10.0.0.0", True),
        ("10.255.255.255", True),
        ("::ffff:10.1.2.3", True),
        ("11.0.0.0", False),
        ("::a01:203", False),
        ("glue.amazonaws.com", False),
        ("AWS Internal", False),
        ("10.1.2", False),
        ("", False),
        ("2001:db8::1", False),
    ],
)
def test_a_network_holds_addresses_and_never_names(address, inside):
    hides = SuppressionMatcher(SuppressionMatch(network="10.0.0.0/8"))
    assert hides(ETL._replace(events=[JOB._replace(source_address=address)])) is inside


def test_a_network_of_ipv6_holds_its_own():
    hides = SuppressionMatcher(SuppressionMatch(network="2001:db8::/32"))
    assert hides(ETL._replace(events=[JOB._replace(source_address="2001:db8:7::1")]))
    assert not hides(ETL)


@pytest.mark.parametrize(
    ("match", "why"),
    [
        (SuppressionMatch(), "asks nothing"),
        (SuppressionMatch(service="  "), "blank"),
        (SuppressionMatch(network="0.0.0.0/0"), "too much of the internet"),
        (SuppressionMatch(network="::/0"), "too much of the internet"),
        (SuppressionMatch(network="0.0.0.0/1"), "too much of the internet"),
        (SuppressionMatch(network="10.0.0.5/8"), "lies in the network 10.0.0.0/8"),
        (SuppressionMatch(network="300.1.1.1"), "is no network"),
        (SuppressionMatch(network="10.0.0.0/33"), "is no network"),
        (SuppressionMatch(network="\x1b[2Jevil"), r"\\x1b\[2Jevil"),
        (SuppressionMatch(action=":ListUsers"), "is no action"),
        (SuppressionMatch(action="iam:"), "is no action"),
        (SuppressionMatch(service="s3", action="iam:ListUsers"), "no event is of service s3"),
        (SuppressionMatch(user_agent="A" * 100_000), "at most 4,000 characters"),
        (SuppressionMatch(user_agent="B"), "8 characters or more"),
        (SuppressionMatch(principal="123456789012:role/etl", user_agent="Boto3/ "), "8 characters or more"),
        (SuppressionMatch(user_agent="Boto3/1.34"), "an attacker chooses the user agent: say also whose"),
        (SuppressionMatch(human="pentest.team@example.com"), "an attacker chooses the human"),
        (
            SuppressionMatch(error_code="AccessDenied", service="s3", account="123456789012"),
            "chooses the error code",
        ),
        (SuppressionMatch(network="10.0.0.0/8", user_agent="Boto3/1.34"), "from where"),
        (
            SuppressionMatch(account="1", network="0.0.0.0/0", user_agent="Boto3/1.34"),
            "too much of the internet",
        ),
    ],
)
def test_a_match_that_asks_nothing_too_much_or_nonsense_is_refused_in_one_sentence(match, why):
    with pytest.raises(FingerprintError, match=why) as caught:
        SuppressionMatcher(match)
    assert not set("\n\x1b") & set(str(caught.value))


def test_all_of_the_internet_may_stand_beside_a_principal():
    assert SuppressionMatcher(SuppressionMatch(principal=ETL.principal, network="0.0.0.0/0"))(ETL)


@pytest.mark.parametrize("reason", ["", "   ", "x" * 3000])
def test_a_suppression_has_a_reason_that_can_be_read(reason):
    with pytest.raises(FingerprintError):
        validate_reason(reason)


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (NOW, "lies ahead"),
        (NOW - timedelta(days=1), "lies ahead"),
        (NOW + timedelta(days=367), "within a year"),
        (datetime(2026, 4, 1), "time zone"),
    ],
)
def test_a_suppression_ends_and_within_a_year(end, why):
    with pytest.raises(FingerprintError, match=why):
        validate_expiry(end, NOW)


def test_an_end_is_a_moment_whatever_its_zone():
    tokyo = timezone(timedelta(hours=9))
    assert validate_expiry(datetime(2026, 4, 1, 9, tzinfo=tokyo), NOW) == datetime(2026, 4, 1, tzinfo=UTC)
