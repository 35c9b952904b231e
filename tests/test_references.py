"""Names that docstrings and comments quote exist: a renamed function is renamed where it is spoken of, too.

Only single names between backticks are read (`name`, `module.name`), each part of which must be a name in the code, a word of one
of its strings (columns, settings) or a file.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("fingerprint", "pipelines", "models", "data", "tests")
QUOTED = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?`")
OTHERS = {  # names that other programs and libraries gave, which our code does not write
    # kafka-python
    "BaseCoordinator",
    "Fetcher",
    "fetch_records",
    "join_group_async",
    "expf",
    "python3",
    "xargs",
    "explicit",  # a mode of Triton
    "obstore",
    "render_to_log_kwargs",  # structlog
}


def quoted_and_known(file: Path) -> tuple[list[tuple[int, str]], set[str]]:
    """Return the quoted names (line, name) of a module's docstrings and comments, and the words of the rest."""
    text = file.read_text()
    prose = set(docstring_lines(ast.parse(text)))
    quoted: list[tuple[int, str]] = []
    known: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        code, _, comment = ("", "", line) if number in prose else line.partition("#")
        quoted += [(number, name) for name in QUOTED.findall(comment)]
        known.update(re.findall(r"\w+", code))
    return quoted, known


def docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(), lineno=first, end_lineno=int(last))):
                yield from range(first, last + 1)


def unknown_names(files: list[Path], folder: Path) -> list[str]:
    modules = {file: quoted_and_known(file) for file in files if file.suffix == ".py"}
    known = {part for file in files for part in (*file.relative_to(folder).parts, file.stem)}
    known = known.union(OTHERS, *(words for _, words in modules.values()))
    return [
        f"{file.relative_to(folder)}:{line}: {name}"
        for file, (quoted, _) in modules.items()
        for line, name in quoted
        if not known.issuperset(name.split("."))
    ]


def test_names_that_docstrings_and_comments_quote_exist() -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    files = [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    assert len(files) > 100
    assert unknown_names(files, ROOT) == []


def test_a_name_that_is_gone_is_found_in_a_docstring_and_in_a_comment(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    lines = (
        '"""Like `old_name`, not `x = 1`."""',
        'NEW = "a_column"  # of `NEW`, `module.gone`',
        "# `a_column`",
    )
    file.write_text("\n".join(lines))
    assert unknown_names([file], tmp_path) == ["module.py:1: old_name", "module.py:2: module.gone"]
