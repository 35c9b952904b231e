"""Generate the references of settings, commands, metrics and API routes from the code.

Example:
    $ python -m pipelines.reference            # writes docs/reference/settings.md and the other pages of PAGES
    $ python -m pipelines.reference --check    # exit status 1 where a page is out of date

The pages hold nothing that is not in the code: to change a sentence, change the `description` of the field, the docstring of the
section, the `help` of the option, the description of the metric or the docstring of the route.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from fastapi.routing import iter_route_contexts
from prometheus_client import CollectorRegistry
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from typer.main import get_command

from fingerprint.adapters.health import Readiness
from fingerprint.core.settings import Settings, Triton
from fingerprint.streaming.metrics import S3IngestMetrics, StreamMetrics
from fingerprint.web.api.routers import ROUTERS
from fingerprint.web.security_events import SecurityEventLog
from pipelines.cli.app import app
from pipelines.runtime.delivery_service import DeliverMetrics
from pipelines.runtime.retrain_service import RetrainMetrics

FOLDER = Path("docs/reference")
COMPARISONS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤", "min_length": "length ≥", "max_length": "length ≤"}
SHARED_BY = 6  # commands that have an option, so that it is described once
HIDDEN_OPTIONS = {"--help", "--install-completion", "--show-completion"}

SETTINGS_HEAD = """\
# Settings

Generated from `fingerprint/core/settings` by `python -m pipelines.reference`; do not edit.

A setting has a section and a key. Defaults are in the code; a TOML file (`--settings FILE`) overrides them, the environment
overrides the file, and options of the command line override the environment. An unknown key, or a combination that could
never produce an alert, stops the program with a sentence that names the key.

```toml
[autoencoder]
threshold = 3.6
```

```
FINGERPRINT_ALERTS__THRESHOLD=3.6 fingerprint stream --bank bank
```

A list is given in the environment as values with commas between them. Secrets are files (`..._file`), never values.

"""
COMMANDS_HEAD = """\
# Commands

Generated from the Typer app in `pipelines/cli` by `python -m pipelines.reference`; do not edit.
`fingerprint COMMAND --help` prints the same.

Exit statuses are in [Exit codes](exit-codes.md).

"""
METRICS_HEAD = """\
# Metrics

Generated from the descriptions of the metrics by `python -m pipelines.reference`; do not edit.

`ingest`, `stream`, `retrain` and `deliver` serve `/metrics` at `health.host` and `health.port` (9464), without a token: let only
Prometheus reach that port. `serve` does, too, with `web.serve_health`; at the port of the pages `/metrics` needs a token with
`read`. No metric contains text from a record. Every program also has the standard metrics of a process; Triton's are on
[its page](../explanation/triton.md#metrics).
"""
ROUTES_HEAD = """\
# API routes

Generated from the routes of the web server by `python -m pipelines.reference`; do not edit.

Paths begin with `/api/v1`. *By session* refuses tokens; *confirmed* means by session, with an identity confirmed within the last
ten minutes. Requests, filters, errors: [HTTP API](http-api.md).

| role | route | |
|---|---|---|
"""
ROLES = {
    "Viewer": "viewer",
    "Analyst": "analyst",
    "Engineer": "engineer",
    "Admin": "admin",
    "SessionCaller": "viewer, by session",
    "SessionAdmin": "admin, by session",
    "ReauthenticatedCaller": "viewer, confirmed",
    "ReauthenticatedAdmin": "admin, confirmed",
}  # of the parameter `caller` (fingerprint.web.auth)


def settings_page() -> str:
    """Return the settings reference as Markdown: a table for each section, in the order of the model."""
    sections = list(_sections(Settings, ""))
    keys = sum(len(fields) for _, _, fields in sections)
    parts = [SETTINGS_HEAD, f"{keys} settings in {len(sections)} sections.\n"]
    for path, summary, fields in sections:
        parts.append(
            f"\n## {path or 'General'}\n\n{summary}\n\n| key | type | default | description |\n|---|---|---|---|\n"
        )
        parts += [_setting_row(path, name, field) for name, field in fields]
    return "".join(parts)


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
        also = [row.split(" | ")[0].removeprefix("| ") for row in rows[path] if row in shared]
        parts += ["\n", _table(own)] if own else []
        parts += [f"\nAlso: {', '.join(also)}.\n"] if also else []
    return "".join(parts)


def _table(rows: list[str]) -> str:
    return "| argument or option | default | description |\n|---|---|---|\n" + "".join(rows)


def _shown(command: Any) -> list[Any]:
    return [each for each in command.params if not HIDDEN_OPTIONS & set(each.opts)]


def metrics_page() -> str:
    """Return the reference of metrics as Markdown: name, labels and description, by program."""
    programs: dict[str, list[MetricDescription]] = {}
    for metric in described_metrics():
        programs.setdefault(metric.name.split("_")[1], []).append(metric)
    sections = {
        "Every program": programs.pop("ready"),
        "Stream": programs.pop("backend") + programs.pop("stream"),
    }
    sections |= {name.capitalize(): metrics for name, metrics in programs.items()}
    parts = [METRICS_HEAD]
    for name, metrics in sections.items():
        parts.append(f"\n## {name}\n\n| metric | labels | meaning |\n|---|---|---|\n")
        parts += [
            f"| `{each.name}` | {', '.join(each.labels)} | {_cell(each.text)} |\n" for each in sorted(metrics)
        ]
    return "".join(parts)


class MetricDescription(NamedTuple):
    """A metric as Prometheus names it; a histogram without its endings."""

    name: str
    labels: tuple[str, ...]
    text: str


def registry_of_programs() -> CollectorRegistry:
    """Return a registry with the metrics of every program, by the classes that export them; readiness is apart."""
    registry = CollectorRegistry()
    StreamMetrics(registry)
    S3IngestMetrics(registry)
    DeliverMetrics(registry)
    RetrainMetrics(registry, Triton(url="triton:8001"))
    SecurityEventLog(registry)
    return registry


def described_metrics() -> Iterator[MetricDescription]:
    """Yield the metrics of every program and their descriptions."""
    for collector in (*registry_of_programs()._collector_to_names, Readiness({"stream": lambda: None})):
        for metric in collector.collect():
            name = metric.name + ("_total" if metric.type == "counter" else "")
            labels = getattr(collector, "_labelnames", ("check",))
            yield MetricDescription(name, tuple(labels), metric.documentation)


def routes_page() -> str:
    """Return the reference of the API's routes as Markdown: role, method and path, and what a route does."""
    rows = [
        (route.path or "", sorted(route.methods or ()), route.endpoint)
        for router in ROUTERS
        for route in iter_route_contexts(router.routes)
        if route.endpoint
    ]
    return ROUTES_HEAD + "".join(
        f"| {_role_of(endpoint)} | `{' '.join(methods)} {path.replace(':path', '')}` | {_summary(endpoint)} |\n"
        for path, methods, endpoint in sorted(rows, key=lambda row: row[:2])
    )


def _role_of(endpoint: Callable[..., Any]) -> str:
    """Return who may ask, by the annotation of `caller`."""
    return ROLES[str(inspect.signature(endpoint).parameters["caller"].annotation)]


def _summary(endpoint: Callable[..., Any]) -> str:
    """Return the first paragraph of a route's docstring."""
    return _cell(inspect.cleandoc(endpoint.__doc__ or "").split("\n\n")[0])


PAGES = {
    "settings.md": settings_page,
    "commands.md": commands_page,
    "metrics.md": metrics_page,
    "http-routes.md": routes_page,
}


def outdated(folder: Path = FOLDER) -> list[str]:
    """Return the names of the generated pages in `folder` that differ from what the code says."""
    return [name for name, page in PAGES.items() if _read(folder / name) != page()]


def write(folder: Path = FOLDER) -> None:
    """Write every generated page to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page())


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _sections(model: type[BaseModel], path: str) -> Iterator[tuple[str, str, list[tuple[str, FieldInfo]]]]:
    """Yield (path, summary, own fields) of a section and of every section below it."""
    below = {name: found for name, field in model.model_fields.items() if (found := _section_of(name, field))}
    own = [(name, field) for name, field in model.model_fields.items() if name not in below]
    if own:
        yield path, " ".join(inspect.cleandoc(model.__doc__ or "").split()), own
    for name, inner in below.values():
        yield from _sections(inner, f"{path}.{name}".lstrip("."))


def _section_of(name: str, field: FieldInfo) -> tuple[str, type[BaseModel]] | None:
    """Return (heading, model) where a field is a section, or a table of sections under names of the user's choice."""
    kind, several = field.annotation, get_origin(field.annotation) is dict
    kind = get_args(kind)[1] if several else kind
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return f"{name}.NAME" if several else name, kind
    return None


def _setting_row(path: str, name: str, field: FieldInfo) -> str:
    limits = [
        f"{sign} {getattr(bound, key):,}"
        for bound in field.metadata
        for key, sign in COMPARISONS.items()
        if getattr(bound, key, None) is not None
    ]
    kind = ", ".join([_type_name(field.annotation), *limits])
    return f"| `{name}` | {_cell(kind)} | {_default(field)} | {_cell(field.description)} |\n"


def _type_name(kind: Any) -> str:
    """Return how a value of this type is written: `number`, `one of a, b`, `list of texts`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type_name(each) for each in arguments if each is not type(None)) + ", optional"
    if origin in (tuple, list, frozenset):
        return f"list of {_type_name(arguments[0])}"
    if origin is dict:
        return f"table of {_type_name(arguments[1])}"
    names = {
        bool: "true or false",
        int: "integer",
        float: "number",
        str: "text",
        Path: "path",
        SecretStr: "secret",
    }
    return names.get(kind, getattr(kind, "__name__", str(kind)))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value == "" or value == () or value == {}:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, (tuple, list)):
        value = ", ".join(str(each) for each in value)
    return f"`{_cell(str(value))}`"


def _commands(command: Any, path: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield (full name, command) of every command that does something, groups walked through."""
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _commands(inner, [*path, name])
    if not hasattr(command, "commands"):
        yield " ".join(path), command


def _parameter_row(parameter: Any) -> str:
    name = ", ".join(f"`{each}`" for each in [*parameter.opts, *parameter.secondary_opts])
    if parameter.param_type_name == "argument":
        shown = re.sub(r"[\[\].]", "", parameter.metavar or parameter.name.upper())
        name = f"`{shown}`" + (" ..." if parameter.nargs == -1 else "")
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
        else f"`{_cell(str(getattr(default, 'value', default)))}`"
    )
    return f"| {name} | {value} | {_cell(getattr(parameter, 'help', None))} |\n"


def _cell(text: str | None) -> str:
    """Return text as the cell of a Markdown table."""
    return " ".join((text or "").split()).replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` name those that are out of date. Returns the exit status."""
    if "--check" not in arguments:
        write()
        return 0
    stale = outdated()
    if stale:
        print(f"out of date: {', '.join(stale)} (run `python -m pipelines.reference`)", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
