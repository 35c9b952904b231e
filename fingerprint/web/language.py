"""The language of the pages: gettext catalogues, the language of a request, and the format of figures and days.

Example:
    >>> with using_language("de"):
    ...     gettext("Queue"), ngettext("%(num)s event", "%(num)s events", 1200)
    ('Warteschlange', '1.200 Ereignisse')

English is the source language: its words are in templates, Python and scripts, so it needs neither a catalogue nor Babel
(commands write reports without it). Other languages are `locales/<code>/LC_MESSAGES/messages.po`, parsed once per process. The
language of a request is a context variable, because macros are imported without the context of a page and handlers run in other
threads.
"""

from __future__ import annotations

import gettext as gettext_library
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fingerprint.core.sanitize import printable

LOCALES = Path(__file__).parent / "locales"
SOURCE_LANGUAGE = "en"
MAX_HEADER_LENGTH = 500  # characters of Accept-Language that are read
MAX_WISHES = 20  # languages in it that are read
_current: ContextVar[str] = ContextVar("language", default=SOURCE_LANGUAGE)


def N_(text: str) -> str:
    """Mark a text for the catalogue; it is translated where it is shown."""
    return text


def NN_(one: str, several: str) -> tuple[str, str]:
    """Mark a message with a plural for the catalogue."""
    return one, several


def gettext(message: str, /, **values: Any) -> str:
    """Return a message in the current language, with its placeholders (`%(name)s`) filled in; plain text, not markup."""
    return _catalogue(_current.get()).gettext(message) % values


def ngettext(one: str, several: str, count: int, /, **values: Any) -> str:
    """Return the message for a count in the plural form of the language; `num` is filled in with the formatted count."""
    found = _catalogue(_current.get()).ngettext(one, several, count)
    return found % {"num": format_count(count), **values}


def template_gettext(message: str, /, **values: Any) -> Markup:
    """Return a message as markup for a template. Values are escaped, except markup that templates made."""
    return Markup(_catalogue(_current.get()).gettext(message)) % _safe(values)  # noqa: S704  catalogues are ours


def template_ngettext(one: str, several: str, count: int, /, **values: Any) -> Markup:
    """Return the message for a count as markup for a template; see `template_gettext`."""
    values.pop("num", None)  # of a trans block, it is the bare number
    found = _catalogue(_current.get()).ngettext(one, several, count)
    return Markup(found) % _safe({"num": format_count(count), **values})  # noqa: S704  as above


def source_language_mark() -> Markup:
    """Return ` lang="en"` for an element whose text stays English on a page in another language; empty on English pages."""
    return Markup("" if _current.get() == SOURCE_LANGUAGE else ' lang="en"')  # noqa: S704  no value in it


def current_language() -> str:
    """Return the code of the current language."""
    return _current.get()


@contextmanager
def using_language(code: str) -> Iterator[None]:
    """Use a language while the block runs."""
    token = _current.set(code)
    try:
        yield
    finally:
        _current.reset(token)


@cache
def available_languages() -> Mapping[str, str]:
    """Return the languages by code, each by its own name, English first."""
    from babel import Locale

    codes = sorted(file.parts[-3] for file in LOCALES.glob("*/LC_MESSAGES/messages.po"))
    return {
        code: (Locale.parse(code).get_display_name(code) or code).capitalize()
        for code in (SOURCE_LANGUAGE, *codes)
    }


def choose_language(cookie: str, accepted: str, languages: Iterable[str]) -> str:
    """Return the language of a request: the person's choice, else the best of Accept-Language, else English."""
    known = list(languages)
    if cookie in known:
        return cookie
    for wish in _wishes(accepted):
        code = next((each for each in known if wish == each or wish.partition("-")[0] == each), "")
        if code or wish == "*":
            return code or SOURCE_LANGUAGE
    return SOURCE_LANGUAGE


def script_words() -> str:
    """Return the scripts' words in the current language as JSON; empty for English, because the scripts have those words."""
    code = _current.get()
    return "" if code == SOURCE_LANGUAGE else _script_words(code)


def format_count(count: int) -> str:
    """Return a whole number: `1,200`, in German `1.200`."""
    if _current.get() == SOURCE_LANGUAGE:
        return f"{count:,}"
    from babel.numbers import format_decimal as babel_decimal

    return babel_decimal(count, locale=_current.get())


def format_decimal(value: float, digits: int) -> str:
    """Return a number with some digits after the point: `4.0`, in German `4,0`."""
    return localise_figure(f"{value:.{digits}f}")


def localise_figure(text: str) -> str:
    """Return an English figure (`1,200.5`) with the separators of the current language."""
    if _current.get() == SOURCE_LANGUAGE:
        return text
    from babel.numbers import get_decimal_symbol, get_group_symbol

    code = _current.get()
    return text.translate({ord(","): get_group_symbol(code), ord("."): get_decimal_symbol(code)})


def format_date(day: date | datetime, english: str, pattern: str) -> str:
    """Return `english` in English; else the day in the language's order for a pattern of CLDR fields (`yMMMMd`)."""
    if _current.get() == SOURCE_LANGUAGE:
        return english
    from babel.dates import format_skeleton

    moment = day if isinstance(day, datetime) else datetime(day.year, day.month, day.day)
    return format_skeleton(pattern, moment, tzinfo=None, locale=_current.get())


def _safe(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        for name, value in values.items()
    }


def _wishes(accepted: str) -> list[str]:
    """Return the languages of an Accept-Language header, the most wanted first."""
    found = []
    for part in accepted[:MAX_HEADER_LENGTH].lower().split(",")[:MAX_WISHES]:
        name, _, quality = part.partition(";")
        weight = _weight(quality)
        if name.strip() and weight > 0:
            found.append((weight, name.strip()))
    return [name for _, name in sorted(found, key=lambda each: -each[0])]


def _weight(quality: str) -> float:
    name, _, number = quality.strip().partition("=")
    if not quality.strip():
        return 1.0
    fine = (
        name.strip() == "q"
        and number.isascii()
        and number.replace(".", "", 1).isdecimal()
        and len(number) <= 5
    )
    return float(number) if fine else 0.0


@cache
def _catalogue(code: str) -> gettext_library.NullTranslations:
    """Return a language's catalogue, compiled in memory."""
    if code == SOURCE_LANGUAGE:
        return gettext_library.NullTranslations()
    from babel.messages.mofile import write_mo

    compiled = io.BytesIO()
    write_mo(compiled, _read(code))
    compiled.seek(0)
    return gettext_library.GNUTranslations(compiled)


def _read(code: str) -> Any:
    from babel.messages.pofile import read_po

    with (LOCALES / code / "LC_MESSAGES" / "messages.po").open("rb") as file:
        return read_po(file, locale=code)


@cache
def _script_words(code: str) -> str:
    words = {}
    for message in _read(code):
        if message.string and any(str(file).endswith(".js") for file, _ in message.locations):
            key = message.id if isinstance(message.id, str) else message.id[0]
            words[key] = message.string
    return json.dumps(words, ensure_ascii=False, sort_keys=True)
