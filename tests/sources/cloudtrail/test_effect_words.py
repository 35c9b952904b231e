"""Words of titles for what a request makes of a call: each is of an effect that the tables have."""

from __future__ import annotations

import pytest

from fingerprint.sources.cloudtrail.effect_words import (
    _ACCESS_WORDS,
    _REQUEST_WORDS,
    access_words,
    request_words,
)
from fingerprint.sources.cloudtrail.impact_effects import EFFECTS, GRAVER_EFFECTS, MILDER_EFFECTS


def test_each_effect_with_words_is_one_of_the_tables() -> None:
    effects = {each.effect for each in (*EFFECTS, *GRAVER_EFFECTS)} | {*MILDER_EFFECTS.values()}
    assert {*_REQUEST_WORDS, *_ACCESS_WORDS} <= effects


@pytest.mark.parametrize(
    ("effect", "words"),
    [
        ("opens stored data to outsiders", "to share it with account 210987654321"),
        ("makes a role that outsiders may assume: all rights", "to let account 210987654321 assume it"),
        ("an effect that no line names", "for account 210987654321"),
    ],
)
def test_what_a_call_does_for_an_account_has_words_by_its_effect(effect: str, words: str) -> None:
    assert access_words(effect, "account 210987654321") == words


def test_a_call_of_which_the_action_says_all_has_no_words() -> None:
    assert request_words("starts machines that cost much: with GPUs, very large ones, or many")
    assert request_words("stops or weakens the audit log") == ""
