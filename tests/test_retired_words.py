"""Words that were retired stay retired: code, messages and pages use the terms of the field (CONTRIBUTING.md)."""

from __future__ import annotations

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
    "casework": "case model",
    "company": "interval surprise (what else surprised in the interval), organisation (the firm)",
    "desk": "alert store (the database), alert queue or web app (the pages)",
    "door": "adapter, port",
    "facet": "evidence group",
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
    "somebody": "a person, a caller, or name who it is",
    "twin": "fake, in-memory implementation",
    "unspilled": "failed evictions",
    "voice": "publisher",
    "whoever": "name who it is: the caller, the operator, the reader",
}
# Where a word is another's, by file.
ALLOWED = {
    "fingerprint/simulation/identifiers.py": {"ledger"},  # what an organisation calls one of its services
    "tests/support/services/postgres.py": {"nobody"},  # the operating system's account without rights
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
        if word not in ALLOWED.get(name, set())
    ]
    assert wrong == [], f"{len(wrong)} retired words"


def test_a_retired_word_is_found_inside_an_identifier_and_in_the_plural() -> None:
    assert retired_in("SqlDesk\nopen_roads()\nabroad, doorway") == {"desk": 1, "road": 2}
