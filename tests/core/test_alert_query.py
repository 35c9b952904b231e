"""The filter language: what is typed means one thing, and what cannot be read says what to do."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from fingerprint.core.alert_query import (
    CHOICES,
    FIELDS,
    NUMBERS,
    Term,
    address_pattern,
    format_alert_query,
    is_address,
    like_pattern,
    parse_alert_query,
    query_words,
    resolve_me,
    with_term,
    without_term,
    words_of,
)
from fingerprint.core.errors import FingerprintError
from tests.support.alerts import NASTY

VALUES = some.text(min_size=1, max_size=30).map(lambda text: text.replace('"', "").strip()).filter(bool)
OPEN_FIELDS = sorted(set(FIELDS) - NUMBERS - set(CHOICES) - {"address"})


def _is_no_address(term: Term) -> bool:
    """Return whether no value is read as an address, which is one or is refused."""
    return term.field != "network" or not any(map(is_address, term.values))


TERMS = some.builds(
    Term,
    some.sampled_from(["", *OPEN_FIELDS]),
    some.lists(VALUES, min_size=1, max_size=3).map(tuple),
    some.booleans(),
).filter(_is_no_address)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", ()),
        ("StopLogging", (Term("", ("StopLogging",)),)),
        ("action:StopLogging", (Term("action", ("StopLogging",)),)),
        ("ACTION:StopLogging", (Term("action", ("StopLogging",)),)),
        ("action:iam:CreateUser", (Term("action", ("iam:CreateUser",)),)),
        ('-error:"Access Denied"', (Term("error", ("Access Denied",), negated=True),)),
        ('action:(A, "B, C" ,D)', (Term("action", ("A", "B, C", "D")),)),
        ("severity>=high", (Term("severity", ("high",), compare=">="),)),
        ("urgency<50 -ci", (Term("urgency", ("50",), compare="<"), Term("", ("ci",), negated=True))),
        ("iam:CreateUser", (Term("", ("iam:CreateUser",)),)),  # an action that was pasted
        ("arn:aws:iam::1:user/x", (Term("", ("arn:aws:iam::1:user/x",)),)),
        ("sts:AssumeRole", (Term("", ("sts:AssumeRole",)),)),
        ("kms:Decrypt", (Term("", ("kms:Decrypt",)),)),
        ("https://example.com", (Term("", ("https://example.com",)),)),
        ("repo:acme/web", (Term("", ("repo:acme/web",)),)),
        ("12:30", (Term("", ("12:30",)),)),
        ('"foo:bar"', (Term("", ("foo:bar",)),)),
        ("human:jonas*", (Term("person", ("jonas*",)),)),  # as exports call it
    ],
)
def test_a_query_is_read(text, terms):
    assert parse_alert_query(text) == terms
    assert parse_alert_query(format_alert_query(terms)) == terms


@given(some.lists(TERMS, max_size=4).map(tuple))
def test_what_is_written_is_read_again(terms):
    kept = tuple(Term(each.field, parse_values(each), each.negated) for each in terms)
    assert parse_alert_query(format_alert_query(kept)) == kept


def parse_values(term: Term) -> tuple[str, ...]:
    """What the alert store can keep of the values."""
    return tuple(value.encode(errors="replace").decode().replace("\0", "�") for value in term.values)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("acton:StopLogging", "there is no field 'acton'; there are action"),
        ("foo:bar", "there is no field 'foo'; there are action"),
        ("iam:createuser", 'write, for example, "iam:createuser"'),
        ("-foo:bar", "there is no field 'foo'; there are action"),
        ("ip:203.0.113.0/24", "text with a colon stands in quotes"),
        ("foo:(Bar, baz)", "there is no field 'foo'"),
        ('error:"Access', "a quote or a bracket is missing"),
        ("action:(A, B", "a quote or a bracket is missing"),
        ("service>=iam", "service cannot be compared"),
        ("urgency>=high", "urgency is a whole number"),
        ("urgency:٣", "urgency is a whole number"),
        ("severity:urgent", "severity is one of"),
        ("action:()", "action has no value"),
        ("address:203.0.113.0/25", "8, 16, 24 or 32 bits"),
        ("address:300.0.0.0/8", "no address range"),
        ("a " * 31, "at most 30 terms"),
        ("x" * 1001, "at most 1000 characters"),
        (" ".join(["(a, b, c)"] * 7), "at most 20 patterns"),
        (
            f"action:({', '.join(f'*{at}*' for at in range(11))}) -error:({', '.join(['*a'] * 10)})",
            "at most 20",
        ),
    ],
)
def test_what_cannot_be_read_says_what_to_do(text, said):
    with pytest.raises(FingerprintError, match=r"^q: ") as failed:
        parse_alert_query(text)
    assert said in str(failed.value)


@given(some.text(max_size=200) | some.text('ab:()"-*> ,', max_size=200))
def test_any_text_is_read_or_refused_in_a_sentence(text):
    try:
        terms = parse_alert_query(text)
    except FingerprintError:
        return
    assert len(parse_alert_query(format_alert_query(terms))) == len(terms)


@pytest.mark.parametrize(
    "text", ['"' * 999, "(" * 999, 'a:("' * 200, "-" * 999, ('"" ' * 333)[:999], "a:(" + '""' * 400]
)
def test_no_text_takes_long_to_read(text):
    began = time.process_time()
    with suppress(FingerprintError):
        parse_alert_query(text)
    assert time.process_time() - began < 0.5


def test_terms_are_added_and_taken_away():
    assert with_term("iam -service:s3", "service", "ec2") == "iam -service:s3 service:ec2"
    assert with_term("service:iam x", "service", "a b") == 'service:(iam, "a b") x'
    assert with_term("service:(iam, s3)", "service", "s3") == "service:(iam, s3)"
    assert with_term("service:(iam, s3) x", "service", "IAM", negated=True) == "service:s3 x -service:IAM"
    assert with_term("-service:iam", "service", "s3", negated=True) == "-service:(iam, s3)"
    assert without_term("service:iam x", 0) == "x"
    assert resolve_me("assignee:me x", "ola") == "assignee:ola x"


def test_words_are_found_whole_and_by_their_parts():
    assert words_of("iam:CreateUser from 10.0.0.1") == [
        "iam",
        "createuser",
        "create",
        "user",
        "from",
        "10",
        "0",
        "1",
    ]
    assert query_words("Create-User") == ["create", "user"]


def test_patterns_keep_what_a_database_would_read_as_a_pattern():
    assert like_pattern("A%_!*b") == "A!%!_!!%b"
    assert address_pattern("203.0.113.0/24") == "203.0.113.*"
    assert address_pattern("203.0.113.7/32") == "203.0.113.7"
    assert address_pattern("lambda.amazonaws.com") == "lambda.amazonaws.com"


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_any_value_can_be_asked_for(text):
    value = "".join(text.split('"'))[:300].strip()
    if value:
        (term,) = parse_alert_query(with_term("", "resource", value))
        assert term.field == "resource"
