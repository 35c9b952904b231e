"""Settings on a terminal: `fingerprint config init`, `show` and `check`."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal

from pydantic import SecretStr
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Settings, describe_settings
from fingerprint.core.settings.loading import SettingDescription

MASK = "********"
TEMPLATE_HEAD = """\
# Settings of fingerprint. Each line is a default: uncomment and change what you need, and pass the file with --settings.
# A variable of the environment overrides the file: FINGERPRINT_<SECTION>__<KEY>, as in FINGERPRINT_SPECTRAL__VOTE_SHARE=0.02.
"""
LINE_LENGTH = 110


def write_template(file: Path) -> None:
    """Write a file with every setting as a comment. Raises FingerprintError if the file exists."""
    try:
        with file.open("x") as stream:
            stream.write(settings_template())
    except FileExistsError:
        raise FingerprintError(f"{file} exists: name another file, or remove it first") from None
    except OSError as error:
        raise FingerprintError(f"{file} cannot be written: {error.strerror or error}") from None


def settings_template() -> str:
    """Return a TOML text with every section, and every setting in it as a comment: its description and its default."""
    lines, section = [TEMPLATE_HEAD], None
    for each in _settings_without_receivers():
        if each.section != section:
            lines += ["", f"[{each.section}]"] if each.section else []
            section = each.section
        lines += ["", *(f"# {line}" for line in wrap(_sentence(each.description), LINE_LENGTH))]
        key = each.name.rpartition(".")[2]
        lines.append(f"#{key} = {each.default}" if each.default else f"#{key} =")
    return "\n".join(lines) + "\n"


def list_settings(file: Path | None, settings: Settings, changed: bool = False) -> list[dict[str, Any]]:
    """Return each setting with its value, default and source; with `changed` only settings that are set."""
    table = tomllib.loads(file.read_text()) if file else {}
    rows = [
        {
            "name": each.name,
            "value": _masked(_look_up(settings, each.name)),
            "default": tomllib.loads(f"default = {each.default}")["default"] if each.default else None,
            "source": _source(each, table, os.environ),
        }
        for each in _settings_without_receivers()
    ]
    rows += [
        {
            "name": f"deliver.{receiver}",
            "value": MASK,
            "default": None,
            "source": "file" if receiver in table.get("deliver", {}) else "environment",
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


def _settings_without_receivers() -> list[SettingDescription]:
    """Return all settings but those of receivers ([deliver.NAME]), of which there can be any number."""
    return [each for each in describe_settings() if not each.section.startswith("deliver.")]


def _look_up(settings: Any, name: str) -> Any:
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings


def _source(
    setting: SettingDescription, table: Mapping[str, Any], environment: Mapping[str, str]
) -> Literal["environment", "file", "default"]:
    """Return where the value of a setting comes from."""
    names = {name.upper() for name in environment}
    if setting.environment in names or any(name.startswith(f"{setting.environment}__") for name in names):
        return "environment"
    at: Any = table
    for part in setting.name.split("."):
        if not isinstance(at, Mapping) or part not in at:
            return "default"
        at = at[part]
    return "file"


def _masked(value: Any) -> Any:
    return MASK if isinstance(value, SecretStr) else value


def _as_toml(value: Any) -> str:
    """Return a value as TOML, which is written like JSON here; an empty text for None."""
    return "" if value is None else json.dumps(value, default=str)


def _sentence(text: str | None) -> str:
    text = " ".join((text or "").split()).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}." if text else ""
