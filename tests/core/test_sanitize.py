"""What an attacker writes into a record can be stored, and on a screen it shows as text."""

from __future__ import annotations

import json
import sys
import unicodedata

import numpy as np
import pytest

from fingerprint.core.sanitize import indent_json, printable, storable
from tests.support.alerts import NASTY


@pytest.fixture(scope="module")
def every():
    """Every character there is: made here, not in each process that collects this file."""
    return [chr(code) for code in range(sys.maxunicode + 1)]


def test_every_character_that_steers_a_screen_is_shown_as_an_escape(every):
    steering = {char for char in every if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    left = steering & set(printable("".join(every)))
    assert {f"{ord(char):x}" for char in left} == set()


def test_letters_digits_and_marks_of_every_script_stay_as_they_are(every):
    kept = [char for char in every if unicodedata.category(char)[0] in "NPS" and char not in "\u2800"]
    assert printable("".join(kept)) == "".join(kept)
    assert printable("Zoë, 東京, تهران, Ålesund 😀") == "Zoë, 東京, تهران, Ålesund 😀"


def test_line_ends_stay_only_where_asked_for():
    assert printable("a\nb\tc\r") == "a\\x0ab\\x09c\\x0d"
    assert printable("a\nb\tc\r", lines=True) == "a\nb\tc\\x0d"


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_what_is_stored_can_be_written_as_utf8_and_holds_no_nul(text):
    for stored in (storable(text), storable([text])[0], storable({text: (text,)})[storable(text)][0]):
        assert "\0" not in stored.encode().decode()
        assert len(stored) == len(text)


def test_a_surrogate_pair_is_the_character_it_stands_for():
    assert storable("\ud83d\ude00") == "😀"


def test_numbers_pass_as_pythons_own():
    assert type(storable([np.float32(1.5), 3, None])[0]) is float


def test_a_record_is_indented_without_a_change_to_what_it_says():
    raw = '{"a":1e999,"a":[],"b":{"n":12345678901234567890123},"s":"x, {\\"y\\": [1]}","t":[1,{"u":null}]}'
    shown = indent_json(raw)
    assert shown.splitlines()[:4] == ["{", '  "a": 1e999,', '  "a": [],', '  "b": {']
    squeezed = "".join(part if part[:1] == '"' else "".join(part.split()) for part in _split_strings(shown))
    assert squeezed == raw


@pytest.mark.parametrize("broken", ['{"a": "never closed', "}}}]]", "", '"', "[" * 5000, "plain words"])
def test_what_is_no_json_is_shown_all_the_same(broken):
    assert "".join(indent_json(broken).split()) == "".join(broken.split())


def test_indenting_json_gives_what_the_standard_library_gives():
    value = {"eventName": "x", "userIdentity": {"type": "Root", "n": [1, 2]}, "none": None}
    assert indent_json(json.dumps(value)) == json.dumps(value, indent=2)


def _split_strings(text: str) -> list[str]:
    """The strings of a JSON text, with their quotes, and what lies between them."""
    out, inside = [""], False
    for place, char in enumerate(text):
        if char == '"' and not (inside and text[place - 1] == "\\"):
            inside = not inside
            out[-1:] = [out[-1], '"'] if inside else [out[-1] + '"', ""]
        else:
            out[-1] += char
    return out
