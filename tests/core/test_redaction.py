"""Fields that are not to be kept: replaced wherever they lie, and nothing else is touched."""

from __future__ import annotations

import json

import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.redaction import REDACTED, Redactor

HIDDEN = "hunter2"


def redacted(record: object, *paths: str) -> object:
    return json.loads(Redactor(paths).redact(json.dumps(record)))


def test_a_field_is_replaced_and_its_neighbours_stay():
    record = {"requestParameters": {"password": HIDDEN, "name": "x"}, "password": "of another place"}
    found = redacted(record, "requestParameters.password")
    assert found == {"requestParameters": {"password": REDACTED, "name": "x"}, "password": "of another place"}


@pytest.mark.parametrize(
    ("record", "path"),
    [
        ({"a": HIDDEN}, "a"),
        ({"a": {"b": {"c": {"d": HIDDEN}}}}, "a.b.c.d"),
        ({"a": [{"b": HIDDEN}, {"b": [HIDDEN]}, {"b": None}]}, "a.b"),
        ({"a": [[{"b": HIDDEN}]]}, "a.b"),
        ({"a": {"x": {"b": HIDDEN}, "y": {"b": HIDDEN}}}, "a.*.b"),
        ({"a": {"x": HIDDEN, "y": {"z": HIDDEN}}}, "a.*"),
        ({"a": [HIDDEN, {"b": HIDDEN}]}, "a"),
        ({"a": {"b": {"whole": [HIDDEN]}}}, "a.b"),
    ],
)
def test_a_value_is_gone_wherever_the_path_leads(record, path):
    assert HIDDEN not in json.dumps(redacted(record, path))


def test_all_of_a_list_is_walked_through_and_not_only_its_first():
    record = {"a": [{"b": HIDDEN} for _ in range(3)], "c": {"x": {"b": HIDDEN}, "y": {"b": HIDDEN}}}
    found = redacted(record, "a.b", "c.*.b")
    assert found == {"a": [{"b": REDACTED}] * 3, "c": {"x": {"b": REDACTED}, "y": {"b": REDACTED}}}


@pytest.mark.parametrize("path", ["A", "b.a", "a.b.c", "a.b.*"])
def test_a_path_that_leads_nowhere_changes_no_letter(path):
    raw = '{ "a": {"b": 1.50, "n": 12345678901234567890},  "ü":"\\u00fc" }'
    assert Redactor([path]).redact(raw) == raw


def test_without_the_setting_nothing_is_read_at_all():
    broken = '{"a": '
    assert Redactor().redact(broken) == broken
    assert not Redactor()


@pytest.mark.parametrize(
    "raw",
    ['{"a": "hunter2"', "hunter2", '{"a": {"b": "hunter2"}, "a": {}}', '{"b":' * 100_000, "9" * 5_000],
    ids=["cut", "no JSON", "a name twice", "too deep", "too long a number"],
)
def test_a_record_of_which_no_one_can_say_what_is_in_it_is_replaced_whole(raw):
    assert Redactor(["a.b"]).redact(raw) == json.dumps(REDACTED)


def test_a_removed_record_stays_removed():
    assert Redactor(["a"]).redact("") == ""


def test_redacted_twice_is_redacted_once():
    redaction = Redactor(["a.*"])
    once = redaction.redact('{"a":{"b":1}}')
    assert redaction.redact(once) == once


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", " a"])
def test_a_path_that_names_no_field_is_refused(path):
    with pytest.raises(FingerprintError, match="names no field"):
        Redactor([path])
