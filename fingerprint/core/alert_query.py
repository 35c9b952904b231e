"""The filter language of the queue: `action:StopLogging -principal:ci-* severity>=high "access denied"`.

Example:
    >>> [(term.field, term.values) for term in parse_alert_query("action:(StopLogging, DeleteTrail) region:eu-*")]
    [('action', ('StopLogging', 'DeleteTrail')), ('region', ('eu-*',))]

- A term is `field:value`, `field:(one, other)`, a comparison of a number or severity, or a word of free text.
- An alert matches a query if it matches all terms; it matches a term if it has one of the term's values.
- `-` before a term excludes the alerts that match it. `*` in a value stands for any text.
- Quotes enclose a value with blanks, commas or brackets. Case does not matter.
- An action, an ARN or a link is free text, although it begins with a word and a colon. Any other term whose word before the colon
  is no field is refused.

The grammar is a regular expression and a loop: a parser generator would be a dependency for fifty lines.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Literal

from fingerprint.core.alert import LEVELS, MINIMUM_URGENCY
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import storable

MAX_QUERY_LENGTH = 1000  # characters
MAX_TERMS = 30
MAX_VALUES = 50  # of a term
# Of a query: patterns with a `*` that is not at the end, and alternatives of free text. Each scans every alert of the store: 450
# words took 6 s with 100,000 alerts, and a page counts several times.
MAX_WIDE_VALUES = 20
MAX_VALUE_LENGTH = 300  # characters of a value that a link may ask for
MAX_WORD_LENGTH = 64  # characters of a word of free text; a longer word is cut

Comparison = Literal[":", ">=", "<=", ">", "<"]
FIELDS = (  # fields of a query, in the order of suggestions; pages explain each (`web.query_words`)
    "action",
    "service",
    "principal",
    "person",
    "address",
    "country",
    "network_owner",
    "network",
    "known_range",
    "key",
    "resource",
    "error",
    "agent",
    "region",
    "account",
    "tactic",
    "technique",
    "severity",
    "urgency",
    "events",
    "status",
    "decision",
    "assignee",
    "judged",
)
NUMBERS = frozenset({"severity", "urgency", "events"})  # fields that can be compared
CHOICES: dict[str, tuple[str, ...]] = {
    "severity": tuple(MINIMUM_URGENCY),
    "status": ("new", "in-progress", "closed"),
    "decision": ("true_positive", "benign", "false_positive", "duplicate", "none"),
    "judged": LEVELS,
}
NO_VALUE = "none"  # the value of `assignee` and `decision` for alerts without one
READER = "me"  # the value of `assignee` for the reader of a page
TEXT = ""  # the field of free text
# Similarity from which a word is taken for a misspelt field: `acton` has 0.91 to `action`, the service `sts` 0.67 to `status`.
MIN_LIKENESS = 0.85
SYNONYMS = {"human": "person"}  # name of a field in exports -> its name in queries
_IPV4_CHARACTERS, _IPV6_CHARACTERS = frozenset("0123456789./*"), frozenset("0123456789abcdef:./*")
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<not>-)?
        (?:(?P<field>[A-Za-z_]{1,20})(?P<compare>>=|<=|>|<|:))?
        (?:\((?P<list>(?:"[^"]*"|[^"()])*)\)|"(?P<quoted>[^"]*)"|(?P<bare>[^\s"()]+))
    )""",
    re.VERBOSE,
)
_LISTED = re.compile(r'\s*(?:"([^"]*)"|([^",]+))\s*(?:,|$)')
_WORD = re.compile(r"[^\W_]+")
_CAMEL_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+|[0-9]+")
_PLAIN = re.compile(r"[A-Za-z0-9.*_/@+=][A-Za-z0-9.*_/@+=:-]*")  # a value that needs no quotes


@dataclass(frozen=True, slots=True)
class Term:
    """A condition: the field has one of the values, or with `negated` none of them. `field` is empty for free text."""

    field: str
    values: tuple[str, ...]
    negated: bool = False
    compare: Comparison = ":"

    def __str__(self) -> str:
        """Return the term as a person types it."""
        parts = [_quote(self.field, value) for value in self.values]
        values = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
        return f"{'-' * self.negated}{self.field}{self.compare if self.field else ''}{values}"


Terms = tuple[Term, ...]


@lru_cache(maxsize=256)
def parse_alert_query(text: str) -> Terms:
    """Return the terms of a query. Raise FingerprintError that names the part that cannot be read."""
    if len(text) > MAX_QUERY_LENGTH:
        raise FingerprintError(f"q: at most {MAX_QUERY_LENGTH} characters")
    terms = tuple(_terms(storable(text)))
    if len(terms) > MAX_TERMS:
        raise FingerprintError(f"q: at most {MAX_TERMS} terms")
    if sum(map(_wide_values, terms)) > MAX_WIDE_VALUES:
        raise FingerprintError(
            f"q: at most {MAX_WIDE_VALUES} patterns such as *Logging*, and words in brackets; ask for whole values, or one by one"
        )
    return terms


def is_pattern(value: str) -> bool:
    """Return whether a value has a `*` that is not at its end, so that no index helps to find it.

    >>> is_pattern("*Logging"), is_pattern("Stop*")
    (True, False)
    """
    return "*" in value.removesuffix("*")


def _wide_values(term: Term) -> int:
    """Return the number of a term's values that each need a scan of all alerts."""
    if term.field == TEXT:
        return len(term.values) if len(term.values) > 1 else 0
    return sum(map(is_pattern, term.values))


def format_alert_query(terms: Terms) -> str:
    """Return the text of a query with these terms: the inverse of `parse_alert_query`."""
    return " ".join(map(str, terms))


def with_term(text: str, field: str, value: str, negated: bool = False) -> str:
    """Return a query that also accepts a value of a field, or with `negated` excludes it.

    Example:
        >>> with_term("tactic:Impact severity>=high", "tactic", "Discovery")
        'tactic:(Impact, Discovery) severity>=high'

    The value is added to the query's term of the same field and kind (accepting or excluding) if there is one, and removed from a
    term of the other kind.
    """
    terms = without_value(text, field, value, not negated)
    for index, term in enumerate(terms):
        if (term.field, term.negated, term.compare) == (field, negated, ":"):
            values = tuple(dict.fromkeys((*term.values, value)))
            return format_alert_query((*terms[:index], replace(term, values=values), *terms[index + 1 :]))
    return format_alert_query((*terms, Term(field, (value,), negated)))


def without_value(text: str, field: str, value: str, negated: bool) -> Terms:
    """Return the terms of a query without one value of a field; a term with no other value is dropped."""
    found = []
    for term in parse_alert_query(text):
        if (term.field, term.negated) == (field, negated):
            values = tuple(each for each in term.values if each.lower() != value.lower())
            term = replace(term, values=values)
        if term.values:
            found.append(term)
    return tuple(found)


def is_searchable_value(value: str) -> bool:
    """Return whether a query can ask for exactly this value: it has no quote and no `*`, and is neither empty nor too long."""
    return 0 < len(value) <= MAX_VALUE_LENGTH and not set(value) & set('"*')


def without_term(text: str, index: int) -> str:
    """Return a query without one of its terms."""
    terms = parse_alert_query(text)
    return format_alert_query(terms[:index] + terms[index + 1 :])


def asks_status(text: str) -> bool:
    """Return whether a query asks for a status; to exclude one does not count."""
    return any(term.field == "status" and not term.negated for term in parse_alert_query(text))


def asks_for_me(text: str) -> bool:
    """Return whether a query asks for `assignee:me`, which pages and the API replace by their reader's name."""
    return any(term.field == "assignee" and READER in term.values for term in parse_alert_query(text))


def resolve_me(text: str, name: str) -> str:
    """Return a query with the name of the reader in place of `assignee:me`."""
    found = (
        replace(term, values=tuple(name if value == READER else value for value in term.values))
        if term.field == "assignee"
        else term
        for term in parse_alert_query(text)
    )
    return format_alert_query(tuple(found))


def words_of(text: str) -> list[str]:
    """Return the distinct words of a text in small letters, and the parts of words such as `StopLogging`."""
    found: dict[str, None] = {}
    for word in _WORD.findall(text):
        found[word[:MAX_WORD_LENGTH].lower()] = None
        parts = _CAMEL_PART.findall(word[:MAX_WORD_LENGTH])
        found.update(dict.fromkeys(part.lower() for part in parts if len(part) > 2))
    return list(found)


def query_words(text: str) -> list[str]:
    """Return the distinct words of free text in small letters, each cut to MAX_WORD_LENGTH."""
    return list(dict.fromkeys(word[:MAX_WORD_LENGTH].lower() for word in _WORD.findall(text)))


def like_pattern(value: str) -> str:
    """Return a LIKE pattern with the escape character `!`: `*` stands for any text, everything else for itself.

    The case of letters is kept: the database lowers both sides, and databases lower other letters than Python does.
    """
    return "%".join(map(literal_pattern, value.split("*")))


def literal_pattern(value: str) -> str:
    """Return a LIKE pattern with the escape character `!` that matches exactly this text."""
    return "".join(f"!{each}" if each in "%_!" else each for each in value)


def is_address(value: str) -> bool:
    """Return whether a value of `network` is an address, a range or a pattern of an address; otherwise it is an owner's name."""
    return set(value) <= _IPV4_CHARACTERS or (":" in value and set(value.lower()) <= _IPV6_CHARACTERS)


def address_pattern(value: str) -> str:
    """Return a range as a pattern of addresses: `203.0.113.*` for `203.0.113.0/24`; other values are unchanged."""
    if "/" not in value:
        return value
    try:
        network = ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise _error(f"{value!r} is no address range", "203.0.113.0/24") from None
    if network.version == 4 and network.prefixlen in (8, 16, 24, 32):
        parts = str(network.network_address).split(".")[: network.prefixlen // 8]
        return ".".join(parts) + (".*" if len(parts) < 4 else "")
    raise _error(f"{value!r}: a range has 8, 16, 24 or 32 bits and is of IPv4", "203.0.113.0/24")


# --- reading ----------------------------------------------------------------------------------------------------------


def _terms(text: str) -> Iterator[Term]:
    place = 0
    while text[place:].strip():
        found = _TOKEN.match(text, place)
        if not found or found.end() == place:
            rest = text[place:].strip()[:20]
            raise _error(
                f"cannot be read from {rest!r} on: a quote or a bracket is missing", 'error:"Access Denied"'
            )
        place = found.end()
        yield from _term(found)


def _term(found: re.Match[str]) -> Iterator[Term]:
    field, compare = (found["field"] or "").lower(), found["compare"] or ":"
    field, values = SYNONYMS.get(field, field), _values(found)
    if field and field not in FIELDS:
        misspelt = get_close_matches(field, FIELDS, cutoff=MIN_LIKENESS)
        if compare != ":" or misspelt or not all(map(_is_pasted, values)):
            known = f"there is no field {field!r}; there are {', '.join(FIELDS)}"
            example = (
                "action:StopLogging" if misspelt or compare != ":" else f'"{field}:{"".join(values[:1])}"'
            )
            raise _error(f"{known}; text with a colon stands in quotes", example)
        field, values = TEXT, [f"{field}:{each}" for each in values]
    if compare != ":" and field not in NUMBERS:
        raise _error(f"{field} cannot be compared", f"{field}:{values[0]}")
    if not values or not any(values):
        raise _error(f"{field or 'the text'} has no value", f"{field or 'action'}:StopLogging")
    if len(values) > MAX_VALUES:
        raise _error(f"{field} has more than {MAX_VALUES} values", "action:(StopLogging, DeleteTrail)")
    yield Term(field, tuple(_checked(field, value) for value in values), bool(found["not"]), compare)  # type: ignore[arg-type]


def _is_pasted(value: str) -> bool:
    """Return whether the text after `word:` is the rest of an action, an ARN, a link or another name, not a field's value.

    >>> _is_pasted("CreateUser"), _is_pasted("aws:iam::1:user/x"), _is_pasted("maria"), _is_pasted("10.0.0.0/8")
    (True, True, False, False)
    """
    return value[:1].isupper() or (not set(value).isdisjoint(":/") and not is_address(value))


def _values(found: re.Match[str]) -> list[str]:
    if found["list"] is not None:
        return [one or (two or "").strip() for one, two in _LISTED.findall(found["list"])]
    return [found["quoted"] if found["quoted"] is not None else found["bare"]]


def _checked(field: str, value: str) -> str:
    """Return a value as the term keeps it; raise FingerprintError for one that the field cannot have."""
    if field == "status":
        value = value.replace("_", "-")  # filters of the API write in_progress
    if field in CHOICES:
        if value.lower() not in CHOICES[field]:
            raise _error(f"{field} is one of {', '.join(CHOICES[field])}", f"{field}:{CHOICES[field][0]}")
        return value.lower()
    if field in NUMBERS and not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise _error(f"{field} is a whole number", f"{field}>=50")
    if field == "address" or (field == "network" and is_address(value)):
        address_pattern(value)
    return value


def _quote(field: str, value: str) -> str:
    plain = _PLAIN.fullmatch(value) and (field or not re.search("[:=]", value))
    return value if plain else f'"{value.replace(chr(34), "")}"'


def _error(problem: str, example: str) -> FingerprintError:
    return FingerprintError(f"q: {problem}; write, for example, {example}")
