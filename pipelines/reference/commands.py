"""The reference of the command line: help, arguments and options of each command, with shared options described once.

Example:
    >>> commands_page().splitlines()[0]
    '# Commands'
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from pipelines.cli.app import app
from pipelines.reference.tables import cell

SHARED_BY = 6  # an option of at least as many commands is described once
HIDDEN_OPTIONS = {"--help", "--install-completion", "--show-completion"}
COMMANDS_HEAD = """\
# Commands

Generated from the Typer app in `pipelines/cli` by `python -m pipelines.reference`; do not edit.
`fingerprint COMMAND --help` prints the same.

Exit statuses are in [Exit codes](exit-codes.md).

"""


def commands_page() -> str:
    """Return the command reference as Markdown: help, arguments and options of each command, shared options once."""
    commands = list(_commands(get_command(app), ["fingerprint"]))
    rows = {path: [_parameter_row(each) for each in _shown(command)] for path, command in commands}
    uses = Counter(row for table in rows.values() for row in table)
    shared = [row for row, count in uses.items() if count >= SHARED_BY]
    parts = [COMMANDS_HEAD, "## Options that many commands have\n\n", _table(shared)]
    for path, command in commands:
        parts.append(f"\n## {path}\n\n{inspect.cleandoc(command.help or '').strip()}\n")
        own = [row for row in rows[path] if row not in shared]
        also = [_parameter_name(each) for each in _shown(command) if _parameter_row(each) in shared]
        parts += ["\n", _table(own)] if own else []
        parts += [f"\nAlso: {', '.join(also)}.\n"] if also else []
    return "".join(parts)


def _table(rows: list[str]) -> str:
    return "| argument or option | default | description |\n|---|---|---|\n" + "".join(rows)


def _shown(command: Any) -> list[Any]:
    return [each for each in command.params if not HIDDEN_OPTIONS & set(each.opts)]


def _commands(command: Any, path: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield (full name, command) of every command in a group and in its groups; groups themselves are left out."""
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _commands(inner, [*path, name])
    if not hasattr(command, "commands"):
        yield " ".join(path), command


def _parameter_name(parameter: Any, value: str = "") -> str:
    """Return the name of an argument, or all spellings of an option, each followed by `value`."""
    if parameter.param_type_name == "argument":
        shown = re.sub(r"[\[\].]", "", parameter.metavar or parameter.name.upper())
        return f"`{shown}`" + (" ..." if parameter.nargs == -1 else "")
    return ", ".join(f"`{cell(each + value)}`" for each in [*parameter.opts, *parameter.secondary_opts])


def _parameter_row(parameter: Any) -> str:
    name = _parameter_name(parameter, f" {parameter.metavar}" if parameter.metavar else "")
    default = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
    if isinstance(default, (list, tuple)):
        default = ", ".join(str(each) for each in default)
    empty = (
        default is None
        or default is False
        or default == ""
        or callable(default)
        or "UNSET" in str(default).upper()
    )
    value = (
        "required"
        if parameter.required
        else ""
        if empty
        else f"`{cell(str(getattr(default, 'value', default)))}`"
    )
    variable = f" Or `{parameter.envvar}` in the environment." if parameter.envvar else ""
    return f"| {name} | {value} | {cell(getattr(parameter, 'help', None))}{variable} |\n"
