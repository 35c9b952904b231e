"""The language of the pages: which one a request has, and messages whose values an attacker wrote."""

from __future__ import annotations

import pytest

from fingerprint.web.language import choose_language, gettext, ngettext, template_gettext, template_ngettext
from fingerprint.web.static_report import template_environment
from tests.support.alerts import NASTY


@pytest.mark.parametrize(
    ("cookie", "accepted", "language"),
    [
        ("", "", "en"),
        ("", "de-AT,de;q=0.9,en;q=0.8", "de"),
        ("", "en-GB,de;q=0.9", "en"),
        ("", "de;q=0.2, en;q=0.9", "en"),
        ("", "de;q=0", "en"),
        ("", "fr, de;q=0.5", "de"),
        ("", "*", "en"),
        ("de", "en", "de"),
        ("en", "de", "en"),
        ("xx", "de", "de"),
        ("../de", "", "en"),
        ("", "de;q=" + "9" * 400, "en"),
        ("", ";;;,q=,=;\x00,de;q=1e9", "en"),
    ],
)
def test_a_persons_choice_goes_before_the_browsers_languages(
    cookie: str, accepted: str, language: str
) -> None:
    assert choose_language(cookie, accepted, ("en", "de")) == language


@pytest.mark.parametrize(
    "text", [NASTY, "<img src=x onerror=alert(1)>", '"><script>', "%(name)s {{ 7*7 }}", "\u202egnp"]
)
def test_a_value_from_a_record_is_escaped_in_a_message(text: str) -> None:
    one = template_gettext("by <bdi>%(person)s</bdi>", person=text)
    several = template_ngettext("%(num)s of %(name)s", "%(num)s of %(name)s", 2, name=text)
    page = template_environment().from_string('<p title="{{ _("of %(name)s", name=x) }}"></p>').render(x=text)
    for shown in (one.removeprefix("by <bdi>").removesuffix("</bdi>"), several, page[10:-6]):
        assert not {"<", ">", '"', "\u202e"} & {*shown}


def test_a_template_keeps_the_markup_of_its_own_macros() -> None:
    made = template_environment().from_string(
        '{% macro bold(x) %}<b>{{ x }}</b>{% endmacro %}{{ _("of %(call)s", call=bold(x)) }}'
    )
    assert made.render(x="<i>") == "of <b>&lt;i&gt;</b>"


def test_english_counts_as_it_always_did() -> None:
    assert ngettext("%(num)s event", "%(num)s events", 1) == "1 event"
    assert ngettext("%(num)s event", "%(num)s events", 1200) == "1,200 events"
    assert gettext("%(start)s to %(end)s UTC", start="1", end="2") == "1 to 2 UTC"
