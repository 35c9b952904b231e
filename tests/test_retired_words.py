"""Words that were retired stay retired: code, messages and pages use the terms of the field (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "fingerprint",
    "pipelines",
    "models",
    "deploy",
    "docs",
    "notebooks",
    "tests",
    ".",
)  # ".": files at the top
UNREAD = {".csv", ".gz", ".ico", ".jsonl", ".lock", ".parquet", ".png", ".svg", ".woff2"}  # data, pictures
HISTORY = {"CHANGELOG.md", "tests/test_retired_words.py"}  # they name what was renamed

# What was said, and what the field says.
RETIRED = {
    "anew": "again",
    "buried": "dead-lettered",
    "casework": "case model",
    "company": "interval surprise (what else surprised in the interval), organisation (the firm)",
    "desk": "alert store (the database), alert queue or web app (the pages)",
    "door": "adapter, port",
    "facet": "evidence group",
    "homed": "in the bucket of its principal",
    "homeless": "unbucketed",
    "hurried": "forced",
    "keeper": "partition processor",
    "lane": "call path",
    "ledger": "scorer state",
    "meanwhile": "at the same time",
    "nobody": "no one, unassigned, or name who is missing",
    "rehearsal": "live simulation",
    "rehearse": "simulate live traffic",
    "road": "detection pipeline",
    "shelf": "checkpoint store, folder of banks",
    "sieve": "filter",
    "sieved": "filtered",
    "snapshot": "checkpoint",
    "somebody": "a person, a caller, or name who it is",
    "twin": "fake, in-memory implementation",
    "unspilled": "failed evictions",
    "upto": "until",
    "voice": "publisher",
    "whoever": "name who it is: the caller, the operator, the reader",
}
# Fields and parameters of requests: as a verb in prose the word is plain English.
RETIRED_FIELDS = {"chosen": "selected, or name what it is: alerts, overrides"}
# Names of variables, parameters and functions: what is in them has a name of its own.
RETIRED_NAMES = {
    "asked": "name what it holds: request, search, options",
    "mine": "name what it is of: this_session, of_account, kind_rates",
    "said": "name what it is: metadata, claim, attributes, reason",
    "told": "name what it is: detail, notified, and who tells whom",
}
# Where a word is another's, by file or folder. A snapshot is what AWS calls a copy of a disk.
ALLOWED = {
    "fingerprint/simulation/identifiers.py": {"ledger"},  # what an organisation calls one of its services
    "tests/support/services/postgres.py": {"nobody"},  # the operating system's account without rights
    "docs/explanation/detection.md": {"snapshot"},
    "docs/reference/http-api.md": {"snapshot"},
    "fingerprint/simulation/": {"snapshot"},
    "fingerprint/sources/cloudtrail/": {"snapshot"},
    "fingerprint/sources/cloudtrail/impact_effects.py": {"voice"},  # in the name of a service of AWS
    "tests/contracts/case_store.py": {"snapshot"},
    "tests/sources/cloudtrail/": {"snapshot"},
    "tests/support/alerts.py": {"snapshot"},
    "tests/support/grave_attack.py": {"snapshot"},
    "tests/support/organisations/": {"snapshot"},
    "tests/support/populated_queue.py": {"snapshot"},
    "tests/system/test_browser.py": {"snapshot"},
}
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def texts() -> Iterator[str]:
    """Yield the path of every text file that people or programs read, as git lists them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - wherever git is installed
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.splitlines():
        if folder_of(name) in FOLDERS and Path(name).suffix not in UNREAD and name not in HISTORY:
            yield name


def folder_of(name: str) -> str:
    return name.split("/")[0] if "/" in name else "."


def retired_in(text: str) -> dict[str, int]:
    """Return each retired word of a text, also inside an identifier and in the plural, with the first line that has it."""
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for word in WORD.findall(line):
            word = word.lower()
            word = word if word in RETIRED else word.removesuffix("s")
            if word in RETIRED:
                found.setdefault(word, number)
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_retired_word_is_used(folder: str) -> None:
    names = [name for name in texts() if folder_of(name) == folder and (ROOT / name).is_file()]
    assert names
    wrong = [
        f"{name}:{line}: {word}: {RETIRED[word]}"
        for name in names
        for word, line in retired_in((ROOT / name).read_text(errors="replace")).items()
        if not is_allowed(word, name)
    ]
    assert wrong == [], f"{len(wrong)} retired words"


def is_allowed(word: str, name: str) -> bool:
    return any(name.startswith(place) and word in words for place, words in ALLOWED.items())


def test_every_exception_is_needed() -> None:
    read = {name: retired_in((ROOT / name).read_text(errors="replace")) for name in texts()}
    unused = [
        (place, word)
        for place, words in ALLOWED.items()
        for word in words
        if not any(name.startswith(place) and word in found for name, found in read.items())
    ]
    assert unused == []


def test_no_field_has_a_retired_name() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{field.lineno}: {field.target.id}: {RETIRED_FIELDS[field.target.id]}"
        for file in (ROOT / "fingerprint").rglob("*.py")
        for kind in ast.walk(ast.parse(file.read_text()))
        if isinstance(kind, ast.ClassDef)
        for field in kind.body
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and field.target.id in RETIRED_FIELDS
    ]
    assert wrong == []


def names_given(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each name that code gives to a variable, a parameter, a function or a class, with its line."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                yield name, node.lineno


def test_no_name_is_a_verb_of_speech_or_a_pronoun() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {name}: {RETIRED_NAMES[word]}"
        for folder in ("fingerprint", "pipelines")
        for file in (ROOT / folder).rglob("*.py")
        for name, line in names_given(ast.parse(file.read_text()))
        for word in {each.lower() for each in WORD.findall(name)} & set(RETIRED_NAMES)
    ]
    assert wrong == []


def test_a_retired_word_is_found_inside_an_identifier_and_in_the_plural() -> None:
    assert retired_in("SqlDesk\nopen_roads()\nabroad, doorway") == {"desk": 1, "road": 2}
