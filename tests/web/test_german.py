"""The German catalogue is whole, and the pages that it makes are German: words, figures, and what stays English."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from html import unescape
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.extract import DEFAULT_KEYWORDS, extract_from_dir
from babel.messages.frontend import parse_mapping_cfg
from babel.messages.pofile import read_po

import fingerprint.web
from fingerprint.core.alert_query import FIELDS
from fingerprint.core.case import AlertRevision, SetDisposition, SuppressionMatch
from fingerprint.web import language
from fingerprint.web.query_words import QUERY_FIELD_WORDS
from tests.support.alerts import NASTY, new_pipeline, stolen_session, votes
from tests.support.web_app import Site, store_in

WEB = Path(fingerprint.web.__file__).parent
COMMAND = (
    "docs/how-to/translate.md: pybabel extract, then pybabel update -i /tmp/messages.pot "
    "-d fingerprint/web/locales, and translate what is new"
)
GERMAN = {"Accept-Language": "de-DE,de;q=0.9,en;q=0.5"}
# Words that are the same in German, names, units and keys.
SAME = {
    "%(name)s in IAM", "%(who)s in %(service)s", "Audit", "Bank", "Browser", "Drift", "Esc", "Export", "Export (CSV)",
    "MFA", "Name", "Partition", "Person", "Principal", "Problem", "Region", "Scopes", "Status",
    "Tokens", "UTC", "Version", "d", "h", "iam", "in", "in %(fingerprint)s", "min", "n", "u",
}  # fmt: skip
MARKUP = re.compile(r"%\(\w+\)s|%%|</?[a-z][^>]*>|&\w+;")
STOLEN, PIPELINE = stolen_session(), new_pipeline()
PAGES = (
    "/", f"/alerts/{STOLEN.alert_id}", f"/alerts/{STOLEN.alert_id}/preview", "/incidents", "/leads",
    f"/incidents/{STOLEN.alert_id}", "/overview", f"/entities/{PIPELINE.principal}", f"/graph?alert={STOLEN.alert_id}&of=alert",
    "/suppressions", f"/suppressions/new?alert={STOLEN.alert_id}", "/banks", "/audit", "/accounts",
    "/account", "/help",
)  # fmt: skip


@cache
def german() -> Catalog:
    with (WEB / "locales/de/LC_MESSAGES/messages.po").open("rb") as file:
        return read_po(file, locale="de")


@cache
def extracted() -> set[str | tuple[str, ...]]:
    """The messages of the sources, as `pybabel extract` finds them."""
    with (WEB / "locales/babel.cfg").open(encoding="utf-8") as file:
        methods, options = parse_mapping_cfg(file)
    keywords = {**DEFAULT_KEYWORDS, "N_": None, "NN_": (1, 2)}
    found = Catalog()
    for _, _, message, _, _ in extract_from_dir(WEB, methods, options, keywords):
        found.add(message)
    return {message.id for message in found if message.id}


def forms() -> list[tuple[str, str]]:
    """Each form of each message beside its translation."""
    return [
        pair
        for message in german()
        if message.id
        for pair in (
            [(message.id, message.string)]
            if isinstance(message.id, str)
            else list(zip(message.id, message.string, strict=True))
        )
    ]


def test_every_message_is_translated_and_no_translation_is_left_over() -> None:
    known = {message.id for message in german() if message.id}
    assert extracted() - known == set(), COMMAND
    assert known - extracted() == set(), COMMAND
    assert [one for one, other in forms() if not other] == [], COMMAND
    assert not german().obsolete
    assert not [message.id for message in german() if message.id and message.fuzzy]
    assert german().num_plurals == 2


def test_a_translation_has_the_placeholders_and_markup_of_its_message() -> None:
    for one, other in forms():
        assert sorted(MARKUP.findall(one)) == sorted(MARKUP.findall(other)), one
        assert '"' not in MARKUP.sub("", other), one  # it may stand in an attribute


def test_every_field_of_a_query_has_its_words_in_the_order_of_the_language() -> None:
    assert tuple(QUERY_FIELD_WORDS) == FIELDS


@pytest.mark.parametrize("path", ["/", "/help"])
def test_how_to_search_is_german(site: Site, path: str) -> None:
    page = site.browser("viewer").get(path, headers=GERMAN).text
    assert "<dd>Person hinter der Sitzung</dd>" in page
    assert "person behind the session" not in page


def test_no_message_stays_english_by_oversight() -> None:
    assert {one for one, other in forms() if one == other} == SAME


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Two alerts of which one is decided, and a suppression, with reasons as an attacker writes them."""
    store = store_in(tmp_path_factory.mktemp("german"))
    ends = datetime.now(UTC) + timedelta(days=30)
    store.alerts.save([STOLEN, PIPELINE], [*votes(STOLEN), *votes(PIPELINE)])
    store.suppressions.create(SuppressionMatch(service="iam"), NASTY[0], ends, "maria")
    store.cases.change([AlertRevision(PIPELINE.alert_id, 0)], SetDisposition("benign", NASTY[2]), NASTY[0])
    return Site.of(store)


def shown(page: str) -> set[str]:
    """The texts of a page that are not marked as English, and those of its attributes that are read."""
    page = re.sub(r"<(script|style)\b.*?</\1>|<meta\b[^>]*>", "", page, flags=re.DOTALL)
    page = re.sub(r'<title>.*?</title>|<a class="brand".*?</a>', "", page)  # the site's own name
    page = re.sub(r'<(\w+)\b[^>]* lang="en"[^>]*>.*?</\1>', "", page, flags=re.DOTALL)
    read = re.findall(r' (?:aria-label|title|placeholder|data-label)="([^"]*)"', page)
    # a record's own words are in bdi and code, values are in options
    plain = re.sub(r"<(bdi|code|kbd|pre)\b.*?</\1>", "<>", page, flags=re.DOTALL)
    return {" ".join(unescape(text).split()) for text in [*read, *re.split(r"<[^>]*>", plain)]} - {""}


@pytest.mark.parametrize("path", [*PAGES, "/login"])
def test_a_page_in_german_has_no_english_words_of_the_catalogue(site: Site, path: str) -> None:
    client = site.no_one() if path == "/login" else site.browser("admin")
    answer = client.get(path, headers=GERMAN)
    assert answer.status_code == 200
    assert '<html lang="de">' in answer.text
    assert answer.headers["Content-Language"] == "de"
    english = {
        unescape(re.sub(r"<[^>]+>", "", one)) for one, other in forms() if one != other and "%(" not in one
    }
    german_too = {unescape(other) for _, other in forms()}
    assert shown(answer.text) & (english - german_too) == set()
    assert not re.search(r"<script>alert|<img src=x", answer.text)


def test_the_account_menu_chooses_german_and_english(site: Site) -> None:
    person = site.browser("viewer")
    assert "Warteschlange" not in person.get("/").text
    for code, word in (("de", "Warteschlange"), ("en", "Queue")):
        form = {"csrf": site.csrf("viewer"), "language": code, "back": "/"}
        assert person.post("/language", data=form).headers["location"] == "/"
        assert f"<h1>{word}" in person.get("/", headers=GERMAN).text


def test_the_api_is_english(site: Site) -> None:
    client = site.client("viewer")
    for path in ("/api/v1/alerts", "/api/v1/incidents", "/api/v1/alerts/ffff"):
        assert client.get(path, headers=GERMAN).text == client.get(path).text


def test_figures_days_and_counts_are_german() -> None:
    with language.using_language("de"):
        assert language.format_count(1200) == "1.200"
        assert language.format_decimal(1234.5, 1).endswith("4,5")
        assert language.ngettext("%(num)s event", "%(num)s events", 1) == "1 Ereignis"
        assert language.ngettext("%(num)s event", "%(num)s events", 1200) == "1.200 Ereignisse"
        assert language.format_date(STOLEN.window_start, "", "yMMMMd") == "4. März 2026"


@pytest.mark.parametrize("text", NASTY[:8])
def test_an_attackers_text_stays_text_in_a_german_message(text: str) -> None:
    with language.using_language("de"):
        made = language.template_gettext("by <bdi>%(person)s</bdi>, %(ago)s", person=text, ago="x")
    inner = made.removeprefix("von <bdi>").removesuffix("</bdi>, x")
    assert inner != made
    assert not {"<", ">", '"', "\u202e", "\x1b"} & {*inner}


def test_scripts_have_their_words_in_german() -> None:
    with language.using_language("de"):
        words = language.script_words()
    assert '"Copied": "Kopiert"' in words
    assert '"%(num)s event": ["%(num)s Ereignis", "%(num)s Ereignisse"]' in words
