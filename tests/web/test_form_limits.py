"""What a page lets people write is what the server takes: neither less, nor more that is refused when it is sent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fingerprint.core.case import MAX_NOTE_LENGTH, MAX_REASON_LENGTH

TEMPLATES = Path(__file__).parents[2] / "fingerprint/web/templates"
LIMITS = {
    "why": MAX_REASON_LENGTH,
    "reason": MAX_REASON_LENGTH,
    "forced": MAX_REASON_LENGTH,
    "note": MAX_NOTE_LENGTH,
}


@pytest.mark.parametrize("name", LIMITS)
def test_fields_of_texts_take_what_the_server_takes(name: str) -> None:
    field = re.compile(rf'<(?:input|textarea) name="{name}"[^>]*maxlength="(\d+)"')
    found = [int(each) for file in TEMPLATES.rglob("*.html") for each in field.findall(file.read_text())]
    assert found
    assert set(found) == {LIMITS[name]}
