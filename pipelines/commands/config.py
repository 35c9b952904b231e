"""Settings on a terminal: `fingerprint config init`, `show` and `check`."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fingerprint.core.alert import FingerprintError
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Settings
from fingerprint.core.settings.loading import PREFIX

MASK = "********"
TEMPLATE_HEAD = """\
# Settings of fingerprint. Each line is a default: uncomment and change what you need, and pass the file with --settings.
# A variable of the environment overrides the file: FINGERPRINT_<SECTION>__<KEY>, as in FINGERPRINT_SPECTRAL__THRESHOLD=5.
"""
LINE_LENGTH = 110


def write_template(file: Path) -> None:
    """Write a file with every setting as a comment. FingerprintError if the file exists."""
    try:
        with file.open("x") as stream:
            stream.write(settings_template())
    except FileExistsError:
        raise FingerprintError(f"{file} exists: name another file, or remove it first") from None
    except OSError as error:
        raise FingerprintError(f"{file} cannot be written: {error.strerror or error}") from None


def settings_template() -> str:
    """Return a TOML text with every section, and in it every setting with its description and default as comments."""
    lines, section = [TEMPLATE_HEAD], None
    for name, field in _fields(Settings):
        own, _, key = name.rpartition(".")
        if own != section:
            lines += ["", f"[{own}]"] if own else []
            section = own
        lines += ["", *(f"# {line}" for line in wrap(_sentence(field.description), LINE_LENGTH))]
        default = _as_toml(field.get_default(call_default_factory=True))
        lines.append(f"#{key} = {default}" if default else f"#{key} =")
    return "\n".join(lines) + "\n"


def list_settings(file: Path | None, settings: Settings, changed: bool = False) -> list[dict[str, Any]]:
    """Return each setting with its value, default and source; only those that are set, with `changed`."""
    table = tomllib.loads(file.read_text()) if file else {}
    rows = [
        {
            "name": name,
            "value": _masked(_look_up(settings, name)),
            "default": _masked(field.get_default(call_default_factory=True)),
            "source": _source(name, table, os.environ),
        }
        for name, field in _fields(Settings)
    ]
    rows += [
        {
            "name": f"deliver.{receiver}",
            "value": MASK,
            "default": None,
            "source": _source("deliver", table, {}),
        }
        for receiver in settings.deliver
    ]
    return [row for row in rows if not changed or row["source"] != "default"]


def print_settings(rows: list[dict[str, Any]]) -> None:
    """Print a table of settings."""
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for row in rows:
        value = _as_toml(row["value"]) or "(unset)"
        style = "" if row["source"] == "default" else "bold"
        table.add_row(row["name"], Text(printable(value), style=style, overflow="fold"), row["source"])
    Console().print(table if rows else "every setting has its default")


def print_check(figures: dict[str, Any]) -> None:
    """Print that settings are valid, and which ones are set."""
    print("settings are valid; set: " + (", ".join(figures["changed"]) or "none"))


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each setting by its full name, those without a section first; receivers ([deliver.NAME]) are left out."""
    inner = []
    for key, field in model.model_fields.items():
        name = f"{prefix}{key}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            inner.append((name, field.annotation))
        elif name != "deliver":
            yield name, field
    for name, section in inner:
        yield from _fields(section, f"{name}.")


def _look_up(settings: Any, name: str) -> Any:
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings


def _source(name: str, table: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """Return `environment`, `file` or `default`: where a setting comes from."""
    if PREFIX + name.replace(".", "__").upper() in {each.upper() for each in environment}:
        return "environment"
    at: Any = table
    for part in name.split("."):
        if not isinstance(at, Mapping) or part not in at:
            return "default"
        at = at[part]
    return "file"


def _masked(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return MASK
    return None if value is PydanticUndefined else value


def _as_toml(value: Any) -> str:
    """Return a value as TOML writes it; an empty text for None."""
    value = _masked(value)
    if value is None:
        return ""
    return json.dumps(value, default=str)  # TOML writes texts, numbers, booleans and arrays as JSON does


def _sentence(text: str | None) -> str:
    text = " ".join((text or "").split()).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}." if text else ""
