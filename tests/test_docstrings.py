"""Docstrings open with an imperative or a noun (ruff's D401 knows no "What"), and their examples are true."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PARTS_WITHOUT_EXAMPLES_TO_RUN = {"adapters", "migrations", "nn"}  # they reach for servers, a database, torch
NOUN_CLAUSE = re.compile(r"(?:Whether|What|Which|Who|Whose|Where|When|Why|How|That)\b")


def noun_clauses(source: str) -> list[tuple[int, str]]:
    """Return line and name of each module, class, function and constant whose docstring opens with a noun clause."""
    tree = ast.parse(source)
    found = [
        (getattr(node, "lineno", 1), getattr(node, "name", "module"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and NOUN_CLAUSE.match(ast.get_docstring(node) or "")
    ]
    bodies = (node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef))
    return found + [
        (after.lineno, "constant")
        for body in bodies
        for before, after in pairwise(body)
        if isinstance(before, ast.Assign | ast.AnnAssign)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and NOUN_CLAUSE.match(str(after.value.value))
    ]


def test_docstrings_open_with_an_imperative_or_a_noun() -> None:
    files = [file for name in ("fingerprint", "pipelines") for file in (ROOT / name).rglob("*.py")]
    assert len(files) > 300
    found = {str(file.relative_to(ROOT)): noun_clauses(file.read_text()) for file in files}
    assert {name: functions for name, functions in found.items() if functions} == {}


def test_a_noun_clause_is_found() -> None:
    source = 'def good():\n    """Return what is left."""\n\n\nclass A:\n    def bad(self):\n        """What is left."""\n'
    assert noun_clauses(source) == [(6, "bad")]
    assert noun_clauses('"""How it works."""\n') == [(1, "module")]
    assert noun_clauses('LIMIT = 3\n"""How many there are."""\n') == [(2, "constant")]


class ExampleRunner(doctest.DocTestRunner):
    """Runs a docstring's examples up to the first one that needs what is not there: from there on they are a sketch."""

    def __init__(self) -> None:
        super().__init__(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.FAIL_FAST)
        self.true_examples = 0
        self.false_examples: list[str] = []

    def report_start(self, *_: Any) -> None:
        """Report nothing."""

    def report_success(self, *_: Any) -> None:
        self.true_examples += 1

    def report_unexpected_exception(self, *_: Any) -> None:
        """Report nothing: what the example needs is not there."""

    def report_failure(self, _: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        if example.want:
            self.false_examples.append(f"{test.name}: {example.source.strip()} gives {got.strip()}")


def run_examples(*modules: ModuleType) -> ExampleRunner:
    runner = ExampleRunner()
    for module in modules:
        for test in doctest.DocTestFinder().find(module):
            runner.run(test, out=lambda _: None)
    return runner


def modules_with_examples() -> list[ModuleType]:
    files = sorted(file.relative_to(ROOT).with_suffix("") for file in (ROOT / "fingerprint").rglob("*.py"))
    names = (".".join(file.parts) for file in files if not PARTS_WITHOUT_EXAMPLES_TO_RUN & {*file.parts})
    return [importlib.import_module(name.removesuffix(".__init__")) for name in names]


def test_examples_give_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = run_examples(*modules_with_examples())
    assert runner.false_examples == []
    assert runner.true_examples > 300


def wrong_calls(module: ModuleType) -> list[str]:
    """Return the calls of a module's functions in its examples, sketches too, with arguments that they do not take."""
    found = []
    for test in doctest.DocTestFinder().find(module):
        for example in test.examples:
            with suppress(SyntaxError):  # a sketch may leave out what a function takes: `(...)`
                calls = (each for each in ast.walk(ast.parse(example.source)) if isinstance(each, ast.Call))
                found += [ast.unparse(call) for call in calls if not takes_arguments(module, call)]
    return found


def takes_arguments(module: ModuleType, call: ast.Call) -> bool:
    """Return whether what is called takes these arguments; True for what the module does not have."""
    called: Any = None
    match call.func:
        case ast.Name(name):
            called = getattr(module, name, None)
        case ast.Attribute(ast.Name(owner), name):
            called = getattr(getattr(module, owner, None), name, None)
    names = [keyword.arg for keyword in call.keywords]
    if not (inspect.isroutine(called) or inspect.isclass(called)) or None in names:
        return True
    if any(isinstance(each, ast.Starred) for each in call.args):
        return True
    try:
        inspect.signature(called).bind(*call.args, **dict.fromkeys(map(str, names)))
    except TypeError:
        return False
    except ValueError:  # a function of C that has no signature
        return True
    return True


def test_sketches_call_functions_with_arguments_that_they_take() -> None:
    found = {module.__name__: wrong_calls(module) for module in modules_with_examples()}
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_a_call_with_an_argument_that_is_not_there_is_found() -> None:
    module = ModuleType("sketch", ">>> loaded = dumps(alert, indents=2)\n>>> dumps(alert, indent=2)\n")
    vars(module).update(dumps=lambda value, indent=None: value)
    assert wrong_calls(module) == ["dumps(alert, indents=2)"]


def test_a_false_example_is_found_and_a_sketch_is_not() -> None:
    module = ModuleType("module", ">>> 1 + 1\n3\n")
    assert run_examples(module).false_examples == ["module: 1 + 1 gives 2"]
    assert run_examples(ModuleType("sketch", ">>> store.read()\n3\n>>> 1 + 1\n3\n")).false_examples == []
